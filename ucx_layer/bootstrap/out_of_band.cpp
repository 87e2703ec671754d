#include "ucx_layer/bootstrap/out_of_band.hpp"

#include <fmt/core.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

// A launcher's word that this process is one of several. A PMIx server's is not among them: with one there is a job.
// Slurm says so in its batch scripts and shells, too, which are no step of a job, and alone.
std::string several_processes() {
  const bool is_alone = std::getenv("SLURM_JOB_ID") != nullptr && std::getenv("SLURM_STEP_ID") == nullptr;
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* const value = std::getenv(name);
    if (is_alone && name == std::string_view("SLURM_NTASKS")) continue;
    if (value != nullptr && std::strtol(value, nullptr, 10) > 1) return fmt::format("{}={}", name, value);
  }
  return {};
}

}  // namespace

bool OutOfBand::open(const ucft_oob_coll_t& callbacks, Microseconds limit, std::string& error, const Choice& choice) {
  limit_ = limit;
  callbacks_ = callbacks;
  if (callbacks.allgather != nullptr) {
    if (callbacks.req_test == nullptr || callbacks.req_free == nullptr) {
      error = "params: oob.req_test and oob.req_free must be set with oob.allgather";
      return false;
    }
    if (callbacks.n_oob_eps == 0 || callbacks.oob_ep >= callbacks.n_oob_eps || callbacks.n_oob_eps > (1u << 20)) {
      error = fmt::format("params: oob.oob_ep {} is not below oob.n_oob_eps {}", callbacks.oob_ep, callbacks.n_oob_eps);
      return false;
    }
    rank_ = static_cast<int>(callbacks.oob_ep);
    size_ = static_cast<int>(callbacks.n_oob_eps);
    return true;
  }
  if (error = bootstrap::rendezvous_environment_fault(); !error.empty()) return false;
  if (choice.single) return true;
  // ucft_run comes first: a user who starts it as a rank of another job wants its ranks, not that one.
  if (bootstrap::rendezvous_in_environment()) {
    rendezvous_ = bootstrap::Rendezvous::connect(limit, error);
    if (rendezvous_ == nullptr) return false;
    rank_ = rendezvous_->rank();
    size_ = rendezvous_->size();
  } else if (choice.pmix && bootstrap::pmix_in_environment()) {
    pmix_ = bootstrap::Pmix::connect(limit, error);
    if (pmix_ == nullptr) return false;
    rank_ = pmix_->rank();
    size_ = pmix_->size();
  } else if (const std::string word = several_processes(); choice.pmix && !word.empty()) {
    error = fmt::format(
        "{} is in the environment, so this process is one of several, and ucft finds no job of them. Start them by "
        "ucft_run, Open MPI's mpirun or srun --mpi=pmix, or give ucft_context_create an out-of-band allgather. "
        "UCFT_SINGLE=y makes each process a job of its own",
        word);
    return false;
  }
  return true;
}

void OutOfBand::use(std::unique_ptr<bootstrap::Rendezvous> rendezvous, std::vector<bool> absent, Microseconds limit) {
  rendezvous_ = std::move(rendezvous);
  absent_ = std::move(absent);
  limit_ = limit;
  rank_ = rendezvous_->rank();
  size_ = rendezvous_->size();
  assert(absent_.empty() || (absent_.size() == static_cast<std::size_t>(size_) && !is_absent(rank_)));
}

bool OutOfBand::allgather(const void* source, void* received, std::size_t bytes, std::string& error,
                          const std::function<void()>& meanwhile) {
  UCFT_TEST_POINT(step);
  if (callbacks_.allgather != nullptr) return call_back(source, received, bytes, error, meanwhile);
  if (rendezvous_ != nullptr) return use_rendezvous(source, received, bytes, error, meanwhile);
  if (pmix_ != nullptr) return pmix_->allgather(source, received, bytes, limit_, error, meanwhile);
  std::memcpy(received, source, bytes);
  return true;
}

bool OutOfBand::call_back(const void* source, void* received, std::size_t bytes, std::string& error,
                          const std::function<void()>& meanwhile) {
  using Clock = std::chrono::steady_clock;
  void* request = nullptr;
  ucft_status_t status =
      callbacks_.allgather(const_cast<void*>(source), received, bytes, callbacks_.coll_info, &request);
  if (status < 0) {
    error = fmt::format("oob.allgather returned {}", ucft_status_name(status));
    return false;
  }
  const auto until = Clock::now() + limit_;
  for (status = callbacks_.req_test(request); status == UCFT_INPROGRESS; status = callbacks_.req_test(request)) {
    if (meanwhile) meanwhile();
    if (Clock::now() > until) {
      error = fmt::format("oob.allgather did not complete within {} us: some rank did not arrive", limit_.count());
      return false;  // its request still refers to our memory: it is left to the caller, whose job is broken
    }
    std::this_thread::yield();
  }
  callbacks_.req_free(request);
  if (status == UCFT_OK) return true;
  error = fmt::format("oob.allgather failed with {}", ucft_status_name(status));
  return false;
}

bool OutOfBand::use_rendezvous(const void* source, void* received, std::size_t bytes, std::string& error,
                               const std::function<void()>& meanwhile) {
  if (!meanwhile) return rendezvous_->allgather(source, received, bytes, limit_, error);
  auto done =
      std::async(std::launch::async, [&] { return rendezvous_->allgather(source, received, bytes, limit_, error); });
  while (done.wait_for(std::chrono::microseconds(100)) != std::future_status::ready) meanwhile();
  return done.get();
}

bool OutOfBand::close(std::string& complaint) {
  UCFT_TEST_POINT(close);
  if (rendezvous_ != nullptr) rendezvous_->close();
  rendezvous_.reset();
  const bool all_must_close = pmix_ != nullptr && pmix_->close(limit_, complaint);
  pmix_.reset();
  return all_must_close;
}

}  // namespace ucft::detail

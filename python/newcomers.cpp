// Renewals of communicators, and the state that newcomers get: see job.hpp and ucft/state.hpp.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "python/job.hpp"
#include "python/result.hpp"
#include "ucft/state.hpp"

namespace ucft::python {

class Renewal {
 public:
  static std::shared_ptr<Renewal> begin(ucft_comm_h comm, const ucft_renew_options_t& options) {
    auto made = std::make_shared<Renewal>();
    const SignalsBlocked blocked;  // they are for Python's threads
    std::thread([made, comm, options] { made->run(comm, options); }).detach();
    return made;
  }

  bool is_over_within(std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return is_over_; });
  }
  // Once it is over.
  ucft_comm_h renewed() const {
    if (status_ != UCFT_OK) raise(status_, why_);
    return renewed_;
  }

 private:
  struct SignalsBlocked {
    sigset_t before;
    SignalsBlocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  };

  void run(ucft_comm_h comm, const ucft_renew_options_t& options) {
    const ucft_status_t status = ucft_comm_renew(comm, &options, &renewed_);
    const std::lock_guard lock(mutex_);
    status_ = status;
    if (status != UCFT_OK) why_ = ucft_last_error();
    is_over_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  ucft_status_t status_ = UCFT_OK;
  std::string why_;
  ucft_comm_h renewed_ = UCFT_COMM_NULL;
};

Communicator::~Communicator() {
  if (!is_renewed_ || !is_open() || context_->has_deferred(handle_)) return;
  last_.reset();
  without_gil([this] { return ucft_comm_destroy(handle_); });
}

std::shared_ptr<Communicator> Communicator::renew(std::int32_t newcomers, double timeout_s, std::int32_t grow_to) {
  require(timeout_s >= 0, "timeout: seconds, from 0");
  ucft_renew_options_t options = UCFT_RENEW_OPTIONS_INIT;
  options.newcomers = newcomers;
  options.grow_to = grow_to;
  options.timeout_us = static_cast<std::uint64_t>(std::min(timeout_s, 1e9) * 1e6);
  context_->make_room(handle_);
  std::shared_ptr<Renewal> renewal = std::exchange(renewal_, nullptr);
  if (renewal == nullptr) renewal = Renewal::begin(handle_, options);
  while (!without_gil([&] { return renewal->is_over_within(std::chrono::microseconds(slice_us)); })) {
    if (PyErr_CheckSignals() == 0) continue;
    renewal_ = std::move(renewal);
    new auto(context_);  // never freed: its thread may call on_failure
    throw py::error_already_set();
  }
  auto renewed = std::make_shared<Communicator>(context_, renewal->renewed());
  is_renewed_ = true;
  return renewed;
}

std::vector<std::int32_t> Communicator::newcomer_ranks() const {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size_));
  std::int32_t count = size_;
  raise_unless_ok(without_gil([&] { return ucft_comm_newcomers(handle_, ranks.data(), &count); }));
  ranks.resize(static_cast<std::size_t>(count));
  return ranks;
}

py::tuple Communicator::newcomers() const {
  const std::vector<std::int32_t> ranks = newcomer_ranks();
  return tuple_of(ranks.data(), ranks.size());
}

namespace {

// Not written yet.
py::bytes new_bytes(std::uint64_t count) {
  auto made = py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count)));
  if (!made) throw py::error_already_set();
  return made;
}
std::byte* data_of(const py::bytes& bytes) { return reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())); }

}  // namespace

// kept: all that broadcasts read and write. One that Ctrl-C has interrupted goes on, and keeps it.
py::object Communicator::share_state(py::object state, std::uint64_t version) {
  const std::vector<std::int32_t> new_ranks = newcomer_ranks();
  if (new_ranks.empty()) return state;
  const std::int32_t me = rank();
  const bool is_new = std::ranges::binary_search(new_ranks, me);
  require(is_new || !state.is_none(),
          fmt::format("state: None, but rank {} is no newcomer: it must give its state", me));
  const py::bytes header_bytes = new_bytes(sizeof(internal::StateHeader));
  auto& header = *new (data_of(header_bytes)) internal::StateHeader;
  py::list kept;
  kept.append(header_bytes);
  std::span<std::byte> own;
  View view;
  if (!is_new) {
    view = View(state, "state", false, UCFT_UINT8);
    kept.append(py::memoryview(state));
    own = {static_cast<std::byte*>(view.data()), view.count()};
  }
  internal::StateSharing sharing{me, size_, new_ranks, own, version, header};
  const py::object root_failed = py::module_::import("ucft._errors").attr("RootFailedError");
  const auto broadcast = [&](void* data, std::uint64_t count, ucft_dtype_t dtype, std::int32_t root) {
    try {
      broadcast_of(View(kept, data, count, dtype), py::none(), root, {})->wait({});
      return true;
    } catch (py::error_already_set& error) {
      if (!error.matches(root_failed)) throw;
      return false;
    }
  };
  py::bytes got;
  const auto room = [&](std::uint64_t bytes) {
    got = new_bytes(bytes);
    internal::expect_writes(data_of(got), bytes);
    kept.append(got);
    return data_of(got);
  };
  const std::int32_t donor = sharing.run(broadcast, room, [](std::span<const std::byte> bytes) {
    return without_gil([&] { return internal::checksum_of(bytes); });
  });
  const internal::StateVerdict verdict = sharing.judge(donor);
  if (verdict.status != UCFT_OK) raise(verdict.status, verdict.explanation);
  return is_new ? py::object(got) : state;
}

}  // namespace ucft::python

#include "tests/ucx/rank_checks.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace ucft::detail::test {

ucft_context_h context = nullptr;
ucft_comm_h comm = UCFT_COMM_NULL;
int rank_ = 0, size_ = 1;

namespace {

std::uint64_t hash = 14695981039346656037ull;

}  // namespace

void check(ucft_status_t status, const char* what) {
  if (status != UCFT_OK) wrong("{}: {}: {}", what, ucft_status_name(status), ucft_last_error());
}

void expect(ucft_status_t status, ucft_status_t expected, const char* what) {
  if (status != expected)
    wrong("{}: {} instead of {} ({})", what, ucft_status_name(status), ucft_status_name(expected), ucft_last_error());
}

void note(std::uint64_t value) {
  hash ^= value;
  hash *= 1099511628211ull;
}

std::uint64_t noted() { return hash; }

void say_verdict(const std::string& text) { fmt::print("VERDICT {}\n", text); }

void end_with_verdict(const std::string& text) {
  say_verdict(text);
  std::exit(0);
}

void say_started() {
  fmt::print("STARTED {}\n", getpid());
  std::fflush(stdout);
}

void start_up(ucft_failure_callback_t on_failure) {
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.failure_callback = on_failure;
  const ucft_status_t status = ucft_context_create(&params, &context);
  if (status == UCFT_ERR_STARTUP && std::getenv("UCFT_TEST_MAY_DIE_IN_STARTUP") != nullptr)
    end_with_verdict(ucft_last_error());
  check(status, "context");
  check(ucft_comm_create(context, &comm), "comm");
  check(ucft_comm_rank(comm, &rank_), "rank");
  check(ucft_comm_size(comm, &size_), "size");
}

bool reads_memory() {
  ucft_context_paths_t paths = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &paths), "paths");
  return paths.shared_memory == size_ - 1 && std::getenv("UCFT_ALGORITHM") == nullptr &&
         std::getenv("UCFT_FENCE") == nullptr;
}

int rank_before_start_up() {
  for (const char* name : {"UCFT_RANK", "PMIX_RANK"})
    if (const char* text = std::getenv(name); text != nullptr) return std::atoi(text);
  return -1;
}

bool is_last_before_start_up() { return rank_before_start_up() == std::atoi(std::getenv("UCFT_SIZE")) - 1; }

void stop_for(unsigned milliseconds) {
  const pid_t me = getpid(), waker = fork();
  if (waker == 0) {
    kill(me, SIGSTOP);  // not by itself: it could come to that when the child has woken it already
    usleep(1000 * milliseconds);
    kill(me, SIGCONT);
    _exit(0);
  }
  waitpid(waker, nullptr, 0);
}

ucft_status_t go_on(int limit) {
  ucft_status_t status = UCFT_OK;
  std::uint64_t in = std::uint64_t{1} << rank_, out = 0;
  for (int i = 0; status == UCFT_OK && i < limit; ++i)
    status = ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr);
  return status;
}

std::string new_mark(const std::string& word) {
  return fmt::format("{}_{}_{}", word, getpid(), std::chrono::steady_clock::now().time_since_epoch().count());
}

void leave_mark(const std::string& name) {
  std::ofstream(std::filesystem::temp_directory_path() / ("ucft_mark_" + name)) << "here";
}

void wait_for_mark(const std::string& name) {
  const std::filesystem::path mark = std::filesystem::temp_directory_path() / ("ucft_mark_" + name);
  while (!std::filesystem::exists(mark)) std::this_thread::yield();
  std::filesystem::remove(mark);
}

}  // namespace ucft::detail::test

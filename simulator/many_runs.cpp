#include "simulator/many_runs.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace ucft::detail::simulator {

namespace {

class Bar {
 public:
  Bar(int runs, bool shown) : runs_(runs), shown_(shown && isatty(2) != 0) {}
  // finished: runs; part: of the latest one that has said anything.
  void show(int finished, double part) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (!shown_ || seconds < 2) return;
    const double done = std::min(1.0, (finished + part) / runs_);
    const int width = 40, full = static_cast<int>(width * done);
    const std::string left =
        done <= 0 ? "?" : fmt::format("{}{:.0f} s", part > 0 ? "at most " : "", seconds / done * (1 - done));
    fmt::print(stderr, "\r[{}{}] {}/{} runs, {} left   ", std::string(static_cast<std::size_t>(full), '#'),
               std::string(static_cast<std::size_t>(width - full), '.'), finished, runs_, left);
    printed_ = true;
  }
  ~Bar() {
    if (printed_) fmt::print(stderr, "\r{:80}\r", "");
  }

 private:
  int runs_;
  bool shown_, printed_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

int threads_for(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void for_each_run(int runs, int threads, bool quiet,
                  const std::function<void(int number, const RunProgress& progress)>& run) {
  threads = std::min(threads, runs);
  std::atomic<int> next = 0, finished = 0;
  std::atomic<double> part = 0;
  std::exception_ptr problem;
  std::mutex mutex;
  std::condition_variable changed;
  int working = threads;
  const auto work = [&] {
    try {
      for (int number; (number = next++) < runs; part = 0, ++finished) run(number, [&](double now) { part = now; });
    } catch (...) {
      next = runs;
      const std::lock_guard lock(mutex);
      problem = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    --working;
    changed.notify_all();
  };
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(work);
  {
    Bar bar(runs, !quiet);
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(200), [&] { return working == 0; }))
      bar.show(finished, part);
  }
  for (std::thread& thread : pool) thread.join();
  if (problem) std::rethrow_exception(problem);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace ucft::detail::simulator

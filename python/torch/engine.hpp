// The operations of one process group, in the order of their calls. There is a queue in front of a ucft context, and a
// rule for the threads that drive it.
//
// A thread that waits for a Work drives all of them. While none waits the engine's thread drives them: eagerly, if some
// thread may be waiting for a future, else now and then. ucft's calls exclude each other: `turn_`. A caller that starts
// an operation does not wait for that turn: the thread that has it posts the operation.
//
// Operations complete in the order of their calls. While a broadcast is under way no later operation is posted: if its
// root is dead it is repeated from the next rank. So all survivors see the same sequence without another agreement.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "python/torch/collective.hpp"
#include "ucft/ucft.h"

namespace ucft::pytorch {

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  using Clock = Collective::Clock;
  using Work = c10::intrusive_ptr<Collective>;

  // Collective over the group's ranks. store: used here only.
  static std::shared_ptr<Engine> start(c10d::Store& store, std::int32_t rank, std::int32_t size,
                                       std::chrono::milliseconds timeout);
  ~Engine();

  void post(const Work& work);
  // False: the limit has passed; it goes on. Then `late`, if given, says whom it waits for, as far as that is known.
  bool wait(Collective& work, Clock::time_point limit, std::string* late = nullptr);
  // Lets operations advance, unless another thread does.
  void look();
  // A waiter for the work's future may come from now on. If that is a callback of another future, it would be on the
  // thread that drives: then the work is completed here.
  void hurry(Collective& work);

  std::vector<std::int32_t> failed();
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Leaves the job. An operation that is not complete fails with UCFT_ERR_CLOSED.
  void close() { end(true); }
  // Without a last word: the end of the process is a failure then, which the others survive.
  void abandon() { end(false); }

 private:
  Engine(std::int32_t size, std::chrono::milliseconds timeout) : size_(size), timeout_(timeout) {}

  void run();
  // One turn. slice_us: how long to wait for the oldest operation; 0: look once. Whether any is complete now.
  bool drive(std::uint64_t slice_us);
  bool drive(std::unique_lock<std::mutex> turn, std::uint64_t slice_us);
  void end(bool orderly);
  void rest(std::chrono::microseconds limit);
  void sleep();  // until there is an operation
  void wake();

  // With the turn:
  void post_queued();
  // False: too many are in flight.
  bool start_request(Collective& work);
  // The oldest one is complete. False: it is a broadcast without a root, and queued again with the next one.
  bool settle(Collective& work, ucft_status_t status);
  std::int32_t lowest_live() const;
  void read_outcome(Collective& work);

  const std::int32_t size_;
  const std::chrono::milliseconds timeout_;
  const pid_t pid_ = ::getpid();

  std::mutex turn_;
  ucft_context_h context_ = UCFT_CONTEXT_NULL;
  ucft_comm_h comm_ = UCFT_COMM_NULL;
  std::deque<Work> posted_;
  std::string late_;                      // what ucft said last of an operation that it has waited for long
  std::vector<std::int32_t> dead_roots_;  // that broadcasts have met: the same on all survivors, in the same order

  std::mutex queue_mutex_;
  std::deque<Work> queue_;  // not posted yet
  bool closed_ = false;     // nothing more is queued

  std::atomic<std::uint32_t> unfinished_{0}, waiting_{0}, eager_{0};
  std::atomic<bool> ending_{false}, asleep_{false};
  std::mutex rest_mutex_;
  std::condition_variable woken_up_;
  bool woken_ = false;
  std::thread thread_;
};

}  // namespace ucft::pytorch

#include "python/torch/engine.hpp"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "python/torch/failure.hpp"

namespace ucft::pytorch {

namespace {

using std::chrono::microseconds;

constexpr std::uint64_t slice_us = 200;            // a turn, after which another thread may have it
constexpr std::uint64_t long_slice_us = 20000;     // of a thread that has waited for long: ucft sleeps in it
constexpr std::uint64_t worth_telling_us = 10000;  // from such a limit on ucft_wait says whom it has waited for
constexpr microseconds long_wait{2000};
constexpr microseconds shortest_rest{50}, longest_rest{2000}, longest_eager_rest{400};
constexpr microseconds drowsy_after{20000};  // without an operation
constexpr std::chrono::seconds drain_limit{10};

thread_local int completing = 0;  // this thread is inside what waited for a future

// The out-of-band allgather of ucft, over a store of c10d.
struct Exchange {
  c10d::Store& store;
  const std::int32_t rank, size;
  int round = 0;
  std::exception_ptr error{};

  std::string key(std::int32_t of) const { return "ucft/" + std::to_string(round) + "/" + std::to_string(of); }

  void allgather(const std::uint8_t* send, std::uint8_t* receive, std::size_t bytes) {
    store.set(key(rank), {send, send + bytes});
    for (std::int32_t each = 0; each < size; ++each) {
      const std::vector<std::uint8_t> block = store.get(key(each));
      if (block.size() != bytes)
        throw Failure(UCFT_ERR_STARTUP, "the store has a block of another length for rank " + std::to_string(each));
      std::memcpy(receive + static_cast<std::size_t>(each) * bytes, block.data(), bytes);
    }
    ++round;
  }

  static ucft_status_t call(void* send, void* receive, std::size_t bytes, void* self, void** request) {
    *request = nullptr;
    try {
      static_cast<Exchange*>(self)->allgather(static_cast<std::uint8_t*>(send), static_cast<std::uint8_t*>(receive),
                                              bytes);
      return UCFT_OK;
    } catch (...) {
      static_cast<Exchange*>(self)->error = std::current_exception();
      return UCFT_ERR_STARTUP;
    }
  }
};

}  // namespace

// ---- start and end --------------------------------------------------------------------------------------------------

std::shared_ptr<Engine> Engine::start(c10d::Store& store, std::int32_t rank, std::int32_t size,
                                      std::chrono::milliseconds timeout) {
  std::shared_ptr<Engine> engine(new Engine(size, timeout));
  Exchange exchange{store, rank, size};
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.oob = {&Exchange::call, [](void*) { return UCFT_OK; },    [](void*) { return UCFT_OK; },
                &exchange,       static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(rank)};
  const ucft_status_t status = ucft_context_create(&params, &engine->context_);
  if (status != UCFT_OK) engine->context_ = UCFT_CONTEXT_NULL;
  if (exchange.error) std::rethrow_exception(exchange.error);
  throw_unless_ok(status);
  throw_unless_ok(ucft_comm_create(engine->context_, &engine->comm_));
  engine->thread_ = std::thread([engine] { engine->run(); });
  return engine;
}

Engine::~Engine() {
  if (thread_.joinable()) thread_.detach();  // in a fork it is not there
}

void Engine::end(bool orderly) {
  if (::getpid() != pid_) return;  // a fork: the job is its parent's
  {
    const std::lock_guard lock(queue_mutex_);
    if (std::exchange(closed_, true)) return;
  }
  const auto limit = Clock::now() + drain_limit;
  while (orderly && unfinished_ > 0 && Clock::now() < limit) drive(slice_us);
  ending_ = true;
  wake();
  if (std::this_thread::get_id() == thread_.get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
  std::deque<Work> left;
  {
    const std::lock_guard turn(turn_);
    const bool has_left = orderly && ucft_context_destroy(context_) == UCFT_OK;
    context_ = UCFT_CONTEXT_NULL;
    left.swap(posted_);
    // When a rank dies, ucft still may write into memory of these that was to receive data: never freed.
    if (!has_left) new std::deque<Work>(left);
    const std::lock_guard lock(queue_mutex_);
    left.insert(left.end(), queue_.begin(), queue_.end());
    queue_.clear();
  }
  for (const Work& work : left) {
    work->failed_ = std::make_exception_ptr(Failure(UCFT_ERR_CLOSED, "the process group was closed meanwhile"));
    work->complete();
  }
  for (const Work& work : left) work->tell_future();
}

// ---- who drives -----------------------------------------------------------------------------------------------------

void Engine::post(const Work& work) {
  if (::getpid() != pid_)
    throw Failure(UCFT_ERR_FORKED, "this process is a fork of the one that made the process group");
  {
    const std::lock_guard lock(queue_mutex_);
    if (closed_) throw Failure(UCFT_ERR_CLOSED, "the process group is closed");
    queue_.push_back(work);
    ++unfinished_;
  }
  if (const std::unique_lock turn(turn_, std::try_to_lock); turn.owns_lock() && context_ != UCFT_CONTEXT_NULL)
    post_queued();
  if (asleep_) wake();
}

bool Engine::wait(Collective& work, Clock::time_point limit, std::string* late) {
  ++waiting_;
  bool complete = work.c10d::Work::isCompleted();
  auto now = Clock::now(), news = now;
  while (!complete && now < limit) {
    const std::uint64_t slice = now - news < long_wait ? slice_us : long_slice_us;
    const bool any = drive(std::min(slice, static_cast<std::uint64_t>((limit - now) / microseconds(1)) + 1));
    complete = work.c10d::Work::isCompleted();
    now = Clock::now();
    if (any) news = now;
  }
  if (!complete && late != nullptr) {
    drive(worth_telling_us);  // of the oldest; the others wait for that
    complete = work.c10d::Work::isCompleted();
    const std::lock_guard turn(turn_);
    const auto begin = late_.find(" us: ");  // behind how long that was
    if (begin != std::string::npos) *late = late_.substr(begin + 5);
  }
  if (--waiting_ == 0 && eager_ > 0) wake();
  return complete;
}

void Engine::look() {
  if (std::unique_lock turn(turn_, std::try_to_lock); turn.owns_lock()) drive(std::move(turn), 0);
}

void Engine::hurry(Collective& work) {
  ++eager_;
  if (completing > 0) {
    wait(work, Clock::time_point::max());
  } else {
    wake();
  }
}

void Engine::wake() {
  {
    const std::lock_guard lock(rest_mutex_);
    woken_ = true;
  }
  woken_up_.notify_one();
}

void Engine::rest(microseconds limit) {
  std::unique_lock lock(rest_mutex_);
  woken_up_.wait_for(lock, limit, [this] { return woken_; });
  woken_ = false;
}

void Engine::sleep() {
  asleep_ = true;
  std::unique_lock lock(rest_mutex_);
  woken_up_.wait(lock, [this] { return woken_ || unfinished_ > 0; });
  woken_ = false;
  asleep_ = false;
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "ucft.torch");
  prctl(PR_SET_TIMERSLACK, 1000);  // ns
  microseconds pause = shortest_rest;
  auto now = Clock::now(), news = now, idle_since = now;
  const auto rest_longer = [&](microseconds longest) {
    rest(pause);
    pause = std::min(2 * pause, longest);
  };
  for (; !ending_; now = Clock::now()) {
    if (unfinished_ > 0) idle_since = now;
    if (now - idle_since > drowsy_after) {
      sleep();
      news = idle_since = Clock::now();
      pause = shortest_rest;
    } else if (unfinished_ == 0 || waiting_ > 0) {
      news = now;
      rest_longer(longest_rest);
    } else {
      const bool eager = eager_ > 0, long_since = now - news > long_wait;
      if (drive(eager && !long_since ? slice_us : 0)) {
        news = Clock::now();
        pause = shortest_rest;
      } else if (!eager || long_since) {
        rest_longer(eager ? longest_eager_rest : longest_rest);
      }
    }
  }
}

// ---- a turn ---------------------------------------------------------------------------------------------------------

bool Engine::drive(std::uint64_t slice) { return drive(std::unique_lock(turn_), slice); }

bool Engine::drive(std::unique_lock<std::mutex> turn, std::uint64_t slice) {
  if (context_ == UCFT_CONTEXT_NULL) return false;
  std::vector<Work> complete;
  post_queued();
  if (posted_.empty()) ucft_progress(context_);
  while (!posted_.empty()) {
    Collective& oldest = *posted_.front();
    if (!oldest.failed_) {
      const ucft_status_t status =
          slice > 0 && complete.empty() ? ucft_wait(oldest.request_, slice) : ucft_test(oldest.request_);
      if (status == UCFT_ERR_TIMED_OUT && slice >= worth_telling_us) late_ = ucft_last_error();
      if (status == UCFT_INPROGRESS || status == UCFT_ERR_TIMED_OUT) break;
      late_.clear();
      if (settle(oldest, status)) complete.push_back(posted_.front());
    } else {
      complete.push_back(posted_.front());
    }
    posted_.pop_front();
    post_queued();
  }
  turn.unlock();
  ++completing;
  // All of them before any future's callback: that may wait for another one.
  for (const Work& work : complete) work->complete();
  for (const Work& work : complete) {
    work->tell_future();
    if (work->eager_) --eager_;
    --unfinished_;
  }
  --completing;
  return !complete.empty();
}

void Engine::post_queued() {
  while (posted_.empty() || !posted_.back()->is_broadcast()) {
    Work next;
    {
      const std::lock_guard lock(queue_mutex_);
      if (queue_.empty()) return;
      next = queue_.front();
    }
    if (!start_request(*next)) return;
    {
      const std::lock_guard lock(queue_mutex_);
      queue_.pop_front();
    }
    posted_.push_back(std::move(next));
  }
}

bool Engine::start_request(Collective& work) {
  ucft_status_t status = UCFT_OK;
  if (work.request_ == UCFT_REQUEST_NULL) {
    if (work.is_broadcast() && std::count(dead_roots_.begin(), dead_roots_.end(), work.root_) > 0)
      work.root_ = lowest_live();
    status = work.plan_.init(comm_, work.root_, &work.request_);
  }
  if (status == UCFT_OK) status = ucft_post(work.request_);
  if (status == UCFT_ERR_BUSY) return false;
  if (status != UCFT_OK) work.failed_ = std::make_exception_ptr(Failure(status, ucft_last_error()));
  return true;
}

std::int32_t Engine::lowest_live() const {
  std::int32_t rank = 0;
  while (std::count(dead_roots_.begin(), dead_roots_.end(), rank) > 0) ++rank;
  return rank;
}

bool Engine::settle(Collective& work, ucft_status_t status) {
  if (status == UCFT_OK) {
    read_outcome(work);
  } else {
    work.failed_ = std::make_exception_ptr(Failure(status, ucft_last_error()));
  }
  ucft_request_free(std::exchange(work.request_, UCFT_REQUEST_NULL));
  if (!work.is_broadcast() || status != UCFT_ERR_ROOT_FAILED) return true;
  dead_roots_.push_back(work.root_);
  if (dead_roots_.size() == static_cast<std::size_t>(size_)) return true;
  work.failed_ = nullptr;
  const std::lock_guard lock(queue_mutex_);
  queue_.push_front(posted_.front());
  return false;
}

void Engine::read_outcome(Collective& work) {
  std::vector<std::int32_t> missing(static_cast<std::size_t>(size_));
  ucft_result_t result = UCFT_RESULT_INIT;
  result.missing = missing.data();
  result.missing_capacity = size_;
  ucft_request_result(work.request_, &result);
  work.outcome_.contributors = result.contributors;
  work.outcome_.root = work.root_;
  if (result.missing_count < 0) return;
  missing.resize(static_cast<std::size_t>(result.missing_count));
  work.outcome_.missing = std::move(missing);
}

std::vector<std::int32_t> Engine::failed() {
  const std::lock_guard turn(turn_);
  if (context_ == UCFT_CONTEXT_NULL) throw Failure(UCFT_ERR_CLOSED, "the process group is closed");
  ucft_progress(context_);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size_));
  std::int32_t count = size_;
  throw_unless_ok(ucft_comm_failed(comm_, ranks.data(), &count));
  ranks.resize(static_cast<std::size_t>(count));
  return ranks;
}

}  // namespace ucft::pytorch

#include "simulator/jobs/kernel.hpp"

#include <algorithm>
#include <cassert>

#include "simulator/jobs/files.hpp"

namespace ucft::jobs {

Kernel* Kernel::instance_ = nullptr;
Fiber* Kernel::current_ = nullptr;
std::int64_t Kernel::budget = INT64_MAX;

Kernel::Kernel(std::uint64_t seed) : random_(seed) {
  assert(instance_ == nullptr);
  instance_ = this;
  now_ = 1000 * second;
}

Kernel::~Kernel() {
  Fiber::leave_all();
  for (const auto& process : processes_)
    if (process->life != Life::has_ended) release(*process, true);
  tables_.clear();
  instance_ = nullptr;
}

// ---- time and threads -----------------------------------------------------------------------------------------------

void Kernel::at(Time when, std::function<void()> action) {
  events_.push({when, ++orders_, nullptr, 0, std::make_shared<std::function<void()>>(std::move(action))});
}

void Kernel::push(Time at, Fiber& fiber) { events_.push({at, ++orders_, &fiber, fiber.waits, nullptr}); }

void Kernel::pass() { now_ += some(temper.call); }

void Kernel::yield(Time duration) {
  current_->is_runnable = true;
  sleep_until(now_ + duration);
  current_->is_runnable = false;
}

void Kernel::idle() {
  const Time longest = 200 * microsecond + 100 * static_cast<Time>(current_->idle_looks);
  const Time one = temper.yield / 2 + some(temper.yield / 2) * (1 << below(6));
  yield(std::min(one * (1 + ++current_->idle_looks / 4), longest));
}

bool Kernel::wait(Time until) {
  current_->idle_looks = 0;
  return sleep_until(until);
}

bool Kernel::sleep_until(Time until) {
  Fiber& self = *current_;
  ++self.waits;
  self.is_waiting = true;
  self.was_woken = false;
  if (until != never) push(std::max(until, now_), self);
  self.suspend();
  return self.was_woken;
}

void Kernel::wake(Fiber& fiber) {
  if (!fiber.is_waiting || fiber.was_woken) return;
  fiber.was_woken = true;
  push(now_ + some(temper.wake), fiber);
}

Fiber& Kernel::start_thread(Process& process, std::function<void()> body, Time delay) {
  Fiber& made = *process.threads.emplace_back(
      std::make_unique<Fiber>(static_cast<std::uint64_t>(process.pid) * 1000 + ++threads_, process, std::move(body)));
  made.is_waiting = true;
  push(now_ + delay + some(temper.wake), made);
  return made;
}

Process& Kernel::start_process(int host, std::function<void()> main, Time delay) {
  Process& made = *processes_.emplace_back(std::make_unique<Process>());
  made.pid = 1000 + static_cast<int>(processes_.size());
  made.host = host;
  made.start_time = 100 + draw() % 100000;
  ++living_;
  start_thread(made, std::move(main), delay);
  return made;
}

void Kernel::draw_budget() { budget = 1 + static_cast<std::int64_t>(below(2 * temper.blocks_between_cuts)); }

void Kernel::cut_in() {
  draw_budget();
  if (current_->uncut > 0) return;
  yield(some(temper.longest_cut > 0 && one_in(50) ? temper.longest_cut : temper.yield));
}

void Kernel::run_thread(Fiber& fiber) {
  Process& process = fiber.process();
  fiber.is_waiting = false;
  draw_budget();
  current_ = &fiber;
  fiber.resume();
  current_ = nullptr;
  if (process.life == Life::lives && fiber.is_over()) {
    for (Fiber* joiner : fiber.joiners) wake(*joiner);
    if (&fiber == process.threads.front().get()) {
      begin_to_end(process);
      take_away(process, false);
    }
  }
}

bool Kernel::run(Time until) {
  while (living_ > 0 && !events_.empty()) {
    const Event next = events_.top();
    events_.pop();
    if (next.at > until) return false;
    now_ = std::max(now_, next.at);
    if (next.fiber == nullptr) {
      (*next.action)();
      continue;
    }
    // Of a process that has ended nothing is looked at: its threads are gone.
    Fiber& fiber = *next.fiber;
    Process& process = fiber.process();
    if (process.life != Life::lives || fiber.waits != next.wait || !fiber.is_waiting) continue;
    if (is_held(process))
      process.held.emplace_back(&fiber, next.wait);
    else
      run_thread(fiber);
  }
  return living_ == 0;
}

// ---- faults ---------------------------------------------------------------------------------------------------------

void Kernel::begin_to_end(Process& process) {
  process.life = Life::is_ending;
  --living_;
}

void Kernel::kill(Process& process) {
  if (process.life != Life::lives) return;
  begin_to_end(process);
  at(now_ + some(temper.dying), [this, &process] { take_away(process, false); });
  if (current_ != nullptr && &current_->process() == &process) current_->suspend();  // for good
}

void Kernel::stop(Process& process, Time until) { hold(process, process.stopped_until, until); }

void Kernel::starve(Process& process, Time until) { hold(process, process.starves_until, until); }

void Kernel::hold(Process& process, Time& its_until, Time until) {
  its_until = std::max(its_until, until);
  at(until, [this, &process] {
    if (is_held(process)) return;
    for (const auto& [fiber, wait] : std::exchange(process.held, {}))
      if (fiber->waits == wait) push(now_ + some(temper.wake), *fiber);
  });
}

void Kernel::lose_power(int host) {
  dark_.insert(host);
  for (const auto& process : processes_)
    if (process->host == host && process->life != Life::has_ended) {
      if (process->life == Life::lives) begin_to_end(*process);
      take_away(*process, true);
    }
  if (current_ != nullptr && current_->process().host == host) current_->suspend();  // for good
}

// is_silent: nobody is told.
void Kernel::take_away(Process& process, bool is_silent) {
  if (process.life == Life::has_ended) return;
  process.life = Life::has_ended;
  release(process, is_silent);
  for (const auto& each : std::exchange(process.at_end, {})) each();
}

void Kernel::release(Process& process, bool is_silent) {
  const std::set<int> open = std::exchange(process.descriptors, {});
  for (const int each : open) close_descriptor(each, is_silent);
  for (pthread_mutex_t* each : std::exchange(process.locked, {})) pthread_mutex_unlock(each);  // is this program's
  for (const auto& [address, bytes] : std::exchange(process.mappings, {})) unmap(address, bytes);
}

void Kernel::cut(int from, int to) { cuts_.insert({from, to}); }

void Kernel::mend(int from, int to) {
  cuts_.erase({from, to});
  for (Channel& channel : channels_)
    if (channel.from == from && channel.to == to && !channel.items.empty())
      at(now_ + some(temper.latency), [this, &channel] { deliver(channel); });
}

Channel& Kernel::new_channel(int from, int to) { return channels_.emplace_back(Channel{from, to, {}}); }

void Kernel::send(Channel& channel, std::function<void()> arrives) {
  if (!has_power(channel.from)) return;
  Time when = now_ + 1 + some(channel.from == channel.to ? temper.latency / 10 : temper.latency);
  if (!channel.items.empty()) when = std::max(when, channel.items.back().at);
  channel.items.push_back({when, std::move(arrives)});
  at(when, [this, &channel] { deliver(channel); });
}

// An arrival may send more on the same way.
void Kernel::deliver(Channel& channel) {
  if (!has_power(channel.to)) channel.items.clear();
  while (!channel.items.empty() && channel.items.front().at <= now_ && !is_cut(channel.from, channel.to)) {
    const std::function<void()> arrives = std::move(channel.items.front().arrives);
    channel.items.pop_front();
    arrives();
  }
}

Process* Kernel::process_of(int pid) {
  const auto found = std::ranges::find_if(processes_, [pid](const auto& each) { return each->pid == pid; });
  return found == processes_.end() ? nullptr : found->get();
}

}  // namespace ucft::jobs

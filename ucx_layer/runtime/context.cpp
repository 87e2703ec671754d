#include "ucx_layer/runtime/context.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <system_error>

namespace ucft::detail {

namespace {

constexpr std::uint32_t for_all_bit = 0x80000000u;

// Whoever writes into our memory from this host wakes us; a put from another one doesn't.
constexpr long local_nap_ns = 1000000, remote_nap_ns = 100000;

std::atomic<int> process_id{0};

void after_fork_in_child() { process_id.store(static_cast<int>(getpid()), std::memory_order_relaxed); }

int current_process() {
  static const bool registered = [] {
    process_id.store(static_cast<int>(getpid()), std::memory_order_relaxed);
    return pthread_atfork(nullptr, nullptr, &after_fork_in_child) == 0;
  }();
  (void)registered;
  return process_id.load(std::memory_order_relaxed);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Departures::Mark mark_of(const ControlPage* control) {
  return control == nullptr ? Departures::Mark::none
                            : static_cast<Departures::Mark>(control->left.load(std::memory_order_acquire));
}

}  // namespace

Context::~Context() {
  // Whether we left or never got as far: from here on our heartbeat stands still, and nobody must conclude from that.
  if (transport_ != nullptr && transport_->control() != nullptr) mark_left();
  detector_.reset();
  helper_.reset();
  for (Early& each : early_) {
    transport_->buffers().release(each.message.value);
    transport_->buffers().release(each.message.list);
  }
  communicators_.clear();
  transport_.reset();
}

bool Context::forked() const { return pid_ != current_process(); }

std::string Context::describe(std::int32_t rank) const {
  if (rank < 0 || rank >= size_) return fmt::format("rank {}", rank);
  const Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, peer.host_name, peer.pid);
}

// Who is out stays out.
void Context::mark_left() {
  std::uint32_t in_job = 0;
  transport_->control()->left.compare_exchange_strong(in_job, 1, std::memory_order_seq_cst);
}

// Leaving is not failing: a last barrier on every communicator, so that nobody needs this rank any more, then the word.
void Context::stop() {
  if (!started_) return;
  started_ = false;
  if (!excluded()) farewell(communicators());
  mark_left();
  transport_->say_goodbye([this](int rank) {
    take_news();
    return departures_.may_live(rank);
  });
  if (detector_) detector_->stop();
}

// ---- progress -------------------------------------------------------------------------------------------------------

bool Context::progress() {
  bool active = transport_->poll();
  if (news_count_.load(std::memory_order_acquire) != news_handled_) {
    handle_news(Clock::now());
    active = true;
  }
  for (const auto& communicator : communicators_)
    if (communicator->wants_turn()) active |= communicator->on_turn();
  if (to_report_ && !in_helper_) report_failures();
  return active;
}

// Spins, then yields, then sleeps; looks at the pidfds while it yields. False: the time limit has passed.
bool Context::rest(Idle& idle, Clock::time_point limit) {
  if (++idle.rounds <= spin_) {
    if (idle.rounds % 16 == 0) relax();
    return true;
  }
  const std::uint32_t yields = idle.rounds - spin_;
  sched_yield();
  if (yields % 32 != 0) return true;
  const auto now = Clock::now();
  look_around(now);
  if (now >= limit) return false;
  if (idle.since == Clock::time_point{}) idle.since = now;
  if (now - idle.since >= std::chrono::microseconds(settings_.sleep_after_us)) sleep_a_little();
  return true;
}

// What does not come as a message: deaths, leavers, our own exclusion; and what has waited long enough.
void Context::look_around(Clock::time_point now) {
  if (excluded()) return;
  if (detector_) detector_->look_now();
  for (std::int32_t rank = 0; rank < size_; ++rank) departures_.on_mark(rank, mark_of(transport_->control_of(rank)));
  handle_news(now);
}

void Context::glance() {
  if (progress()) {
    idle_glances_ = 0;
    return;
  }
  if (++glances_ % 32 == 0) look_around(Clock::now());
  if (++idle_glances_ > spin_) sched_yield();  // whoever has the news may wait for our processor
}

void Context::sleep_a_little() {
  std::atomic<std::uint32_t>& sleeping = transport_->control()->sleeping;
  transport_->publish_credit();
  sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleeper_fences_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  const bool arrived = progress();
  if (!arrived && news_count_.load(std::memory_order_acquire) == news_handled_) {
    if (!transport_->uses_messages() || transport_->has_remote_mailboxes()) {
      const timespec limit{0, transport_->has_remote_mailboxes() ? remote_nap_ns : local_nap_ns};
      syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping), FUTEX_WAIT, 1, &limit, nullptr, 0);
    } else if (transport_->arm()) {
      pollfd event{transport_->event_fd(), POLLIN, 0};
      ::poll(&event, 1, 1);
    }
  }
  sleeping.store(0, std::memory_order_relaxed);
}

// ---- communicators --------------------------------------------------------------------------------------------------

Communicator* Context::create_for_all() {
  std::vector<std::int32_t> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  return create(for_all_bit | made_for_all_++, std::move(all));
}

Communicator* Context::create(std::uint32_t id, std::vector<std::int32_t> ranks) {
  communicators_.push_back(std::make_unique<Communicator>(*this, id, std::move(ranks)));
  Communicator* created = communicators_.back().get();
  for (std::int32_t peer = 0; peer < size_; ++peer)
    if (departures_.is_gone(peer)) created->on_failure(peer);
  std::vector<Early> early;
  early.swap(early_);
  for (Early& each : early) {
    if (each.header.communicator == id && created->accepts(each.header)) {
      deliver(this, each.header, each.message, each.peer);
    } else if (each.header.communicator != id) {
      early_.push_back(each);
      continue;
    }
    transport_->buffers().release(each.message.value);
    transport_->buffers().release(each.message.list);
  }
  return created;
}

std::vector<Communicator*> Context::communicators() const {
  std::vector<Communicator*> all;
  for (const auto& each : communicators_) all.push_back(each.get());
  return all;
}

bool Context::farewell(std::vector<Communicator*> leaving) {
  return wait_until(
      [&] {
        bool done = true;
        for (Communicator* each : leaving) done = each->post_farewell() && each->farewell_done() && done;
        return done || excluded();
      },
      Clock::time_point::max());
}

void Context::destroy(Communicator* communicator) {
  destroyed_.emplace_back(communicator->id(), communicator->ranks());
  if (destroyed_.size() > destroyed_limit) destroyed_.pop_front();
  if (last_found_ == communicator) last_found_ = nullptr;
  for (std::int32_t rank : communicator->ranks())
    if (departures_.is_gone(rank)) tell_gone(communicator->id(), communicator->ranks(), rank);
  transport_->ring_doorbells();
  std::erase_if(communicators_, [&](const auto& each) { return each.get() == communicator; });
}

Communicator* Context::find(std::uint32_t id) {
  if (last_found_ != nullptr && last_found_->id() == id) return last_found_;
  return find_other(id);
}

Communicator* Context::find_other(std::uint32_t id) {
  for (const auto& each : communicators_)
    if (each->id() == id) return last_found_ = each.get();
  const std::uint32_t place = (id & GossipDriver::place_bits) >> GossipDriver::place_shift;
  if (place == 0 || place > GossipDriver::in_flight) return nullptr;
  Communicator* caller = find_other(id & ~GossipDriver::place_bits);  // another rank was the first to need it
  return caller == nullptr ? nullptr : &caller->gossip().agreements(static_cast<int>(place) - 1);
}

bool Context::is_future(std::uint32_t id) const {
  id &= ~GossipDriver::place_bits;
  return (id & for_all_bit) != 0 ? (id & ~for_all_bit) >= made_for_all_ : id >= next_id_;
}

// ---- messages -------------------------------------------------------------------------------------------------------

bool Context::accepts(void* arg, const WireHeader& header, int) {
  auto& self = *static_cast<Context*>(arg);
  if (const Communicator* communicator = self.find(header.communicator)) return communicator->accepts(header);
  return !self.is_future(header.communicator) || self.early_.size() < early_limit;
}

void Context::deliver(void* arg, const WireHeader& header, const Message& message, int peer) {
  auto& self = *static_cast<Context*>(arg);
  Communicator* communicator = self.find(header.communicator);
  if (communicator == nullptr) {
    if (!self.is_future(header.communicator)) return self.answer_gone(header, peer);
    self.transport_->buffers().retain(message.value);
    self.transport_->buffers().retain(message.list);
    self.early_.push_back({header, message, peer});
    return;
  }
  if (header.sender >= communicator->size()) return self.note_stale();
  const std::int32_t sender = communicator->context_rank(header.sender);
  if (peer >= 0 && sender != peer) return self.note_stale();
  if (self.transport_->is_forgotten(sender)) return self.note_stale();  // fenced
  communicator->on_message(header, message);
}

// A late message for a communicator that this rank has destroyed: it completed its farewell, so nobody is owed more
// than the word that it is gone, which says that the last barrier was decided (OperationWindow::on_gone).
void Context::answer_gone(const WireHeader& header, int peer) {
  for (const auto& [id, ranks] : destroyed_) {
    if (id != header.communicator || static_cast<std::size_t>(header.sender) >= ranks.size()) continue;
    const int sender = peer >= 0 ? peer : ranks[static_cast<std::size_t>(header.sender)];
    transport_->send_control(sender, Control::gone, header.communicator, rank_);
    transport_->ring_doorbells();
    return;
  }
}

// A member of a destroyed communicator has failed: whoever is still in its last barrier may have lost a root, and must
// not wait for this rank, which has been through.
void Context::tell_gone(std::uint32_t id, const std::vector<std::int32_t>& ranks, std::int32_t failed) {
  if (std::find(ranks.begin(), ranks.end(), failed) == ranks.end()) return;
  for (std::int32_t rank : ranks)
    if (rank != rank_) transport_->send_control(rank, Control::gone, id, rank_);
}

void Context::on_control(void* arg, const WireHeader& header, int peer) {
  auto& self = *static_cast<Context*>(arg);
  if (header.sender >= self.size_ || (peer >= 0 && header.sender != peer)) return;
  switch (static_cast<Control>(header.phase)) {
    case Control::leave:
      self.departures_.on_leave_word(header.sender);
      self.follow_up();
      break;
    case Control::gone:
      if (self.departures_.is_gone(header.sender)) break;  // its word doesn't count any more
      if (Communicator* communicator = self.find(header.communicator)) communicator->on_gone(header.sender);
      break;
    case Control::excluded:
      self.departures_.on_excluded_word(header.sender);
      self.news_count_.fetch_add(1, std::memory_order_release);
      break;
    case Control::failed:
      if (header.attempt < 0 || header.attempt >= self.size_) break;
      self.departures_.on_word(header.sender, header.attempt, (header.flags & 1) != 0);
      self.news_count_.fetch_add(1, std::memory_order_release);
      break;
    default: break;
  }
}

void Context::endpoint_failed(void* arg, int rank, const char*) {
  auto& self = *static_cast<Context*>(arg);
  self.departures_.on_connection_lost(rank, Clock::now().time_since_epoch());
  self.news_count_.fetch_add(1, std::memory_order_release);
}

// ---- departures -----------------------------------------------------------------------------------------------------

// On the detector's thread, or, if it is a proof, on the caller's in look_now(). Those that are silent together are told
// together.
void Context::on_verdict(void* arg, const Verdict& verdict) {
  auto& self = *static_cast<Context*>(arg);
  const News news{News::Kind::verdict, verdict.rank, verdict.kind == Verdict::Kind::proved};
  if (news.proved) self.tell({news});
  if (!news.proved) self.silent_.push_back(news);
  if (!verdict.more && !self.silent_.empty()) self.tell(std::exchange(self.silent_, {}));
}

void Context::on_excluded(void* arg, std::int32_t by) {
  static_cast<Context*>(arg)->tell({{News::Kind::excluded, by}});
}

void Context::on_left(void* arg, std::int32_t rank) { static_cast<Context*>(arg)->tell({{News::Kind::leave, rank}}); }

void Context::on_line_lost(void* arg, std::int32_t rank) {
  auto& self = *static_cast<Context*>(arg);
  self.tell({{News::Kind::line_lost, rank}});
  fmt::print(stderr, "ucft: rank {}: the TCP connection to {} is lost: only UCX will tell if it falls silent\n",
             self.rank_, self.describe(rank));
}

// On the detector's thread: for whoever takes the next turn. Wakes it.
void Context::tell(const std::vector<News>& news) {
  {
    const std::lock_guard lock(news_mutex_);
    news_.insert(news_.end(), news.begin(), news.end());
  }
  news_count_.fetch_add(1, std::memory_order_release);
  std::atomic<std::uint32_t>& sleeping = transport_->control()->sleeping;
  if (sleeping.exchange(0) != 0)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Context::take_news() {
  std::vector<News> news;
  {
    const std::lock_guard lock(news_mutex_);
    news.swap(news_);
  }
  for (const News& each : news) {
    switch (each.kind) {
      case News::Kind::verdict: departures_.on_verdict(each.rank, each.proved); break;
      case News::Kind::excluded: departures_.on_excluded_word(each.rank); break;
      case News::Kind::leave: departures_.on_lifeline_leave(each.rank, Clock::now().time_since_epoch()); break;
      case News::Kind::line_lost: departures_.on_line_lost(each.rank); break;
    }
  }
}

void Context::handle_news(Clock::time_point now) {
  const std::uint32_t count = news_count_.load(std::memory_order_acquire);
  if (std::exchange(news_handled_, count) != count) take_news();
  if (const std::uint32_t by = transport_->control()->excluded.load(std::memory_order_relaxed); by != 0)
    departures_.on_excluded_mark(static_cast<std::int32_t>(by) - 1);
  departures_.on_turn(now.time_since_epoch());
  follow_up();
}

// Communicators have found it out.
void Context::exclude_self() {
  departures_.on_excluded_mark(-1);
  handle_news(Clock::now());
}

// What is read of a rank that is heard out, and what communicators make of its departure, may have consequences of its own:
// those wait for their turn.
void Context::follow_up() {
  if (following_) return;
  following_ = true;
  bool any = false;
  while (const auto action = departures_.next_action()) {
    carry_out(*action);
    any = true;
  }
  following_ = false;
  if (any) transport_->ring_doorbells();
}

void Context::carry_out(const Departures::Action& action) {
  using Action = Departures::Action::Kind;
  ControlPage* control = transport_->control_of(action.rank);
  switch (action.kind) {
    case Action::hear_out:
      transport_->drain(action.rank);
      return departures_.on_heard_out(action.rank, mark_of(control));
    case Action::fence: return fence(action.rank);
    case Action::tell_out:
      if (control != nullptr)
        control->excluded.store(1 + static_cast<std::uint32_t>(rank_));
      else
        transport_->send_control(action.rank, Control::excluded, 0, rank_);
      if (detector_) detector_->tell_excluded(action.rank);
      return;
    case Action::depart: return depart(action);
    case Action::announce: return transport_->send_alarm(action.rank, action.about, action.proved);
    case Action::exclude_self: return stand_aside();
  }
}

void Context::depart(const Departures::Action& action) {
  const std::int32_t rank = action.rank;
  transport_->forget(rank);
  for (const auto& communicator : communicators_)
    action.has_left ? communicator->on_gone(rank) : communicator->on_failure(rank);
  answering_.store(true, std::memory_order_release);
  for (const auto& [id, ranks] : destroyed_) tell_gone(id, ranks, rank);
  if (action.has_left && detector_) detector_->forget(rank);
  if (action.has_left) return;
  to_report_ = true;
  if (settings_.log_errors)
    fmt::print(stderr, "ucft: rank {}: {} has failed ({})\n", rank_, describe(rank),
               action.proved ? "proved" : "suspected");
}

void Context::stand_aside() {
  transport_->control()->left.store(2, std::memory_order_seq_cst);
  if (detector_) detector_->declare_out();
  for (const auto& communicator : communicators_) communicator->exclude_self(why_excluded());
  if (settings_.log_errors) fmt::print(stderr, "ucft: rank {} is out: {}\n", rank_, exclusion_text());
}

void Context::fence(std::int32_t rank) {
  const Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  try {
    ProcessWatch watch;
    watch.add(rank, peer.pid, peer.start_time);
    if (!watch.kill(rank)) departures_.on_fence_refused(rank);
  } catch (const std::system_error&) {  // out of descriptors: there may be one when we are asked again
  }
}

std::string Context::exclusion_text() const {
  if (departures_.exclusion() != Departures::Exclusion::minority) {
    const std::int32_t by = departures_.excluded_by();
    return fmt::format("{} declared this rank dead and the others went on without it",
                       by < 0 ? "some rank" : describe(by));
  }
  const Departures::Count count = departures_.count();
  std::string silent, port;
  for (std::size_t i = 0; i < std::min(count.lost.size(), std::size_t{4}); ++i)
    silent += (i > 0 ? ", " : "") + describe(count.lost[i]);
  if (ports_ != nullptr) {
    const std::lock_guard lock(ports_mutex_);
    port = ports_->down_text();
  }
  return fmt::format(
      "no sign of life of {} of {} ranks ({}{}): this side is not the majority, and the other one may go on{}{}",
      count.lost.size(), count.counted, silent, count.lost.size() > 4 ? ", ..." : "", port.empty() ? "" : "; here ",
      port);
}

void Context::report_failures() {
  to_report_ = false;
  for (const Departures::Failure& each : departures_.take_failures()) {
    if (failure_callback_ == nullptr) continue;
    const int pid = peers_[static_cast<std::size_t>(each.rank)]->pid;
    const ucft_failure_t failure{each.rank, each.proved ? UCFT_FAILURE_PROVED : UCFT_FAILURE_SUSPECTED, pid};
    failure_callback_(&failure, failure_callback_arg_);
  }
}

// ---- the helper's turn ----------------------------------------------------------------------------------------------

void Context::on_tick(void* arg) {
  auto& self = *static_cast<Context*>(arg);
  if (self.ports_ != nullptr) self.look_at_ports();
  const bool news = self.news_count_.load(std::memory_order_acquire) != 0;
  if (news || self.answering_.load(std::memory_order_acquire)) self.helper_->wake();
}

// A port of this host that goes down explains much that would look like the others' deaths. It proves nothing: it may be
// back before anybody notices.
void Context::look_at_ports() {
  const std::lock_guard lock(ports_mutex_);
  for (const std::string& line : ports_->look())
    if (settings_.log_errors) fmt::print(stderr, "ucft: rank {}: {}\n", rank_, line);
}

// Dekker's handshake with enter(): each side stores its word, then looks at the other's. The caller's store is plain;
// membarrier makes it visible before we look. (Without membarrier the caller has a fence; then our store and our look must
// both be sequentially consistent, or a processor may look first.)
void Context::helper_turn(void* arg) {
  auto& self = *static_cast<Context*>(arg);
  self.helper_inside_.store(1, std::memory_order_seq_cst);
  if (!self.fallback_fence_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  if (self.inside_.load(std::memory_order_seq_cst) == 0) {
    self.in_helper_ = true;
    if (self.departures_.is_waiting()) self.handle_news(Clock::now());
    for (int rounds = 0; rounds < 64 && self.progress(); ++rounds) {}
    self.transport_->publish_credit();
    self.in_helper_ = false;
  }
  self.helper_inside_.store(0, std::memory_order_release);
}

void Context::wait_for_helper() {
  while (helper_inside_.load(std::memory_order_acquire) != 0) sched_yield();
}

}  // namespace ucft::detail

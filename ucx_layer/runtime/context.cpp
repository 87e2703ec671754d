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

constexpr std::uint32_t world_bit = 0x80000000u;

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
  transport_->say_goodbye(
      [this](int rank) { return peers_[static_cast<std::size_t>(rank)]->verdict.load(std::memory_order_acquire) == 0; });
  if (detector_) detector_->stop();
}

// ---- progress -------------------------------------------------------------------------------------------------------

bool Context::progress() {
  bool active = transport_->poll();
  if (verdicts_.load(std::memory_order_acquire) != verdicts_handled_) {
    handle_verdicts();
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

// What does not come as a message: deaths, leavers, lost connections, our own exclusion.
void Context::look_around(Clock::time_point now) {
  if (is_excluded()) return;
  if (detector_) detector_->look_now();
  look_for_leavers();
  if (any_broken_) watch_broken(now);
  watch_leavers(now);
}

// Whoever is out must not draw conclusions from the silence of the others.
bool Context::is_excluded() {
  if (excluded() || transport_->control()->excluded.load(std::memory_order_relaxed) == 0) return excluded();
  exclude_self(UCFT_ERR_EXCLUDED);
  return true;
}

// Others may not know that we are out, and would wait for us: our process lives.
void Context::exclude_self(ucft_status_t why) {
  if (excluded()) return;
  why_excluded_ = why;
  transport_->control()->left.store(2, std::memory_order_seq_cst);
  if (detector_) detector_->declare_out();
  for (std::int32_t rank = 0; rank < size_; ++rank)
    if (rank != rank_ && !peers_[static_cast<std::size_t>(rank)]->gone) transport_->send_alarm(rank, rank_, true);
  transport_->ring_doorbells();
  for (const auto& communicator : communicators_) communicator->exclude_self(why);
  if (settings_.log_errors)
    fmt::print(stderr, "ucft: rank {} is out: {}\n", rank_, why == UCFT_ERR_PARTITION ? partition_text() : "the others declared it dead");
}

void Context::glance() {
  if (progress()) {
    idle_glances_ = 0;
    return;
  }
  if (++glances_ % 32 == 0) look_around(Clock::now());
  if (++idle_glances_ > spin_) sched_yield();   // whoever has the news may wait for our processor
}

void Context::sleep_a_little() {
  std::atomic<std::uint32_t>& sleeping = transport_->control()->sleeping;
  transport_->publish_credit();
  sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleeper_fences_) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  const bool arrived = progress();
  if (!arrived && verdicts_.load(std::memory_order_acquire) == verdicts_handled_) {
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

Communicator* Context::create_world() {
  std::vector<std::int32_t> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  return create(world_bit | worlds_++, std::move(all));
}

Communicator* Context::create(std::uint32_t id, std::vector<std::int32_t> ranks) {
  communicators_.push_back(std::make_unique<Communicator>(*this, id, std::move(ranks)));
  Communicator* created = communicators_.back().get();
  for (std::int32_t peer = 0; peer < size_; ++peer)
    if (peers_[static_cast<std::size_t>(peer)]->gone) created->on_failure(peer);
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
    if (peers_[static_cast<std::size_t>(rank)]->gone) tell_gone(communicator->id(), communicator->ranks(), rank);
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
  Communicator* caller = find_other(id & ~GossipDriver::place_bits);   // another rank was the first to need it
  return caller == nullptr ? nullptr : &caller->gossip().agreements(static_cast<int>(place) - 1);
}

bool Context::is_future(std::uint32_t id) const {
  id &= ~GossipDriver::place_bits;
  return (id & world_bit) != 0 ? (id & ~world_bit) >= worlds_ : id >= next_id_;
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
  if (self.transport_->is_forgotten(sender)) return self.note_stale();   // fenced
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
  if (self.peers_[static_cast<std::size_t>(header.sender)]->gone) return;   // its word doesn't count any more
  switch (static_cast<Control>(header.phase)) {
    case Control::leave:
      self.peers_[static_cast<std::size_t>(header.sender)]->left = true;
      self.handle_departure(header.sender, true, true);
      break;
    case Control::gone:
      if (Communicator* communicator = self.find(header.communicator)) communicator->on_gone(header.sender);
      break;
    case Control::excluded:
      on_excluded(arg, header.sender);
      break;
    case Control::failed:
      if (header.attempt == self.rank_)
        on_excluded(arg, header.sender);
      else if (header.attempt >= 0 && header.attempt < self.size_)
        self.give_verdict(header.attempt, (header.flags & 1) != 0 ? 2 : 1);
      break;
    default:
      break;
  }
}

// UCX lost the connection. If the process has ended we shall hear so within the millisecond, by its pidfd or its lifeline;
// watch_broken() sees to it that something follows. Without either this is all that we learn: suspected.
void Context::endpoint_failed(void* arg, int rank, const char*) {
  auto& self = *static_cast<Context*>(arg);
  Peer& peer = *self.peers_[static_cast<std::size_t>(rank)];
  if (peer.gone || peer.left) return;
  if (self.is_here(peer) || peer.has_lifeline) {
    if (peer.broken_since == Clock::time_point{}) peer.broken_since = Clock::now();
    self.any_broken_ = true;
    return;
  }
  peer.seen_here = true;
  self.give_verdict(rank, 1);
}

// A rank whose connection is lost, but which has neither left nor ended: no message can reach it.
void Context::watch_broken(Clock::time_point now) {
  any_broken_ = false;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    if (peer.gone || peer.left || peer.said_leave || peer.broken_since == Clock::time_point{}) continue;
    any_broken_ = true;
    if (now - peer.broken_since < std::chrono::microseconds(settings_.suspect_after_us)) continue;
    bool fenced = settings_.fence && is_here(peer);
    if (fenced) {
      try {
        ProcessWatch watch;
        watch.add(rank, peer.pid, peer.start_time);
        fenced = watch.kill(rank);   // its end is seen as a proved death
      } catch (const std::system_error&) {   // out of descriptors: the next look may have one
      }
      peer.broken_since = now;
    }
    if (!fenced) {
      peer.seen_here = true;
      give_verdict(rank, 1);
    }
  }
}

// On the detector's thread: a rank of another host has said on its lifeline that it leaves.
void Context::on_left(void* arg, std::int32_t rank) {
  auto& self = *static_cast<Context*>(arg);
  self.peers_[static_cast<std::size_t>(rank)]->said_leave.store(true, std::memory_order_release);
  self.any_leaving_.store(true, std::memory_order_release);
  self.answering_.store(true, std::memory_order_release);   // see watch_leavers()
}

// On the detector's thread: from now on we know as little of the rank as if there had never been a lifeline.
void Context::on_line_lost(void* arg, std::int32_t rank) {
  auto& self = *static_cast<Context*>(arg);
  self.peers_[static_cast<std::size_t>(rank)]->has_lifeline = false;
  fmt::print(stderr, "ucft: rank {}: the TCP connection to {} is lost: only UCX will tell if it falls silent\n", self.rank_, self.describe(rank));
}

// What a rank sends last, its part in the last barrier and the word that it leaves, may get lost with its connection. It
// owes nothing any more, but whoever still waits for it must not do so for ever.
void Context::watch_leavers(Clock::time_point now) {
  if (!any_leaving_.load(std::memory_order_acquire)) return;
  any_leaving_.store(false, std::memory_order_relaxed);
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    if (peer.gone || !peer.said_leave.load(std::memory_order_acquire)) continue;
    if (peer.leaving_since == Clock::time_point{}) peer.leaving_since = now;
    if (now - peer.leaving_since >= std::chrono::microseconds(settings_.suspect_after_us)) {
      transport_->drain(rank);
      handle_departure(rank, true, true);
    } else {
      any_leaving_.store(true, std::memory_order_release);
    }
  }
}

// ---- failures -------------------------------------------------------------------------------------------------------

// On the detector's thread, or on the caller's in look_now().
void Context::on_verdict(void* arg, const Verdict& verdict) {
  auto& self = *static_cast<Context*>(arg);
  Peer& peer = *self.peers_[static_cast<std::size_t>(verdict.rank)];
  peer.seen_here.store(true, std::memory_order_relaxed);
  raise_verdict(peer, verdict.kind == Verdict::Kind::proved ? 2 : 1);
  if (verdict.more) return;
  self.verdicts_.fetch_add(1, std::memory_order_release);
  std::atomic<std::uint32_t>& sleeping = self.transport_->control()->sleeping;
  if (sleeping.exchange(0) != 0)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// On the detector's thread, too: another rank says that it has declared us dead. If we have declared it dead before, each
// has lost the other; then the rest decides.
void Context::on_excluded(void* arg, std::int32_t by) {
  auto& self = *static_cast<Context*>(arg);
  if (self.peers_[static_cast<std::size_t>(by)]->verdict.load(std::memory_order_acquire) == 0)
    self.transport_->control()->excluded.store(1 + static_cast<std::uint32_t>(by));
}

// From any thread: a proof that one of them has stays, whatever another one suspects at the same time.
void Context::raise_verdict(Peer& peer, std::uint8_t verdict) {
  std::uint8_t before = peer.verdict.load(std::memory_order_relaxed);
  while (before < verdict && !peer.verdict.compare_exchange_weak(before, verdict, std::memory_order_release)) {
  }
}

void Context::give_verdict(std::int32_t rank, std::uint8_t verdict) {
  raise_verdict(*peers_[static_cast<std::size_t>(rank)], verdict);
  verdicts_.fetch_add(1, std::memory_order_release);
}

// Ranks of other hosts that are silent may be dead, or cut off from us and alive: then they see us as we see them. Only
// one side may go on, the one with more than half of all that are not known to be dead or to have left; of two halves the
// one with the lowest rank. A proof is never wrong, so both sides count the same ranks.
bool Context::holds_majority() const {
  int all = 0, ours = 0;
  bool lowest_is_ours = true;
  for (const auto& each : peers_) {
    const std::uint8_t verdict = each->verdict.load(std::memory_order_acquire);
    if (each->left || verdict == 2) continue;
    const bool lost = verdict == 1 && !is_here(*each);
    if (all++ == 0) lowest_is_ours = !lost;
    ours += !lost;
  }
  return 2 * ours > all || (2 * ours == all && lowest_is_ours);
}

std::string Context::partition_text() const {
  std::string silent;
  int lost = 0, all = 0;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    const Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    const std::uint8_t verdict = peer.verdict.load(std::memory_order_acquire);
    if (peer.left || verdict == 2) continue;
    ++all;
    if (verdict != 1 || is_here(peer)) continue;
    if (++lost <= 4) silent += (lost > 1 ? ", " : "") + describe(rank);
  }
  std::string port;
  if (ports_ != nullptr) {
    const std::lock_guard lock(ports_mutex_);
    port = ports_->down_text();
  }
  return fmt::format("no sign of life of {} of {} ranks ({}{}): this side is not the majority, and the other one may go on{}{}",
                     lost, all, silent, lost > 4 ? ", ..." : "", port.empty() ? "" : "; here ", port);
}

void Context::handle_verdicts() {
  verdicts_handled_ = verdicts_.load(std::memory_order_acquire);
  if (is_excluded()) return;
  if (many_hosts_ && !holds_majority()) return exclude_self(UCFT_ERR_PARTITION);
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    const std::uint8_t verdict = peer.verdict.load(std::memory_order_acquire);
    if (verdict == 0 || peer.gone) continue;
    transport_->drain(rank);   // what it said before it died
    const ControlPage* control = transport_->control_of(rank);
    const bool has_left = peer.left || (control != nullptr && control->left.load(std::memory_order_acquire) == 1);
    handle_departure(rank, has_left, verdict == 2);
  }
}

void Context::handle_departure(std::int32_t rank, bool has_left, bool proved) {
  Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  if (peer.gone) return;
  peer.gone = true;
  peer.left = has_left;
  if (!has_left && !proved) {   // it may be alive: tell it, and never listen to it again
    if (ControlPage* control = transport_->control_of(rank))
      control->excluded.store(1 + static_cast<std::uint32_t>(rank_));
    else
      transport_->send_control(rank, Control::excluded, 0, rank_);
    if (peer.has_lifeline && detector_) detector_->tell_excluded(rank);
  }
  transport_->forget(rank);
  for (const auto& communicator : communicators_) has_left ? communicator->on_gone(rank) : communicator->on_failure(rank);
  answering_.store(true, std::memory_order_release);
  for (const auto& [id, ranks] : destroyed_) tell_gone(id, ranks, rank);
  transport_->ring_doorbells();
  if (has_left && detector_) detector_->forget(rank);
  if (has_left) return;
  to_report_ = true;
  if (many_hosts_) announce_failures();
  if (settings_.log_errors)
    fmt::print(stderr, "ucft: rank {}: {} has failed ({})\n", rank_, describe(rank), proved ? "proved" : "suspected");
}

// Whoever has seen a failure tells those who may not have. Of a death on this host all its ranks know, and the two lowest
// of them that live tell the other hosts; of one on another host its lifelines' other ends know, and tell everybody.
void Context::announce_failures() {
  int lower = 0;
  for (std::int32_t rank = 0; rank < rank_; ++rank) lower += is_here(*peers_[static_cast<std::size_t>(rank)]) && !peers_[static_cast<std::size_t>(rank)]->gone;
  for (std::int32_t failed = 0; failed < size_; ++failed) {
    Peer& peer = *peers_[static_cast<std::size_t>(failed)];
    if (!peer.gone || peer.left || peer.announced || !peer.seen_here.load(std::memory_order_relaxed)) continue;
    if (is_here(peer) && lower >= 2) continue;
    peer.announced = true;
    const bool proved = peer.verdict.load(std::memory_order_acquire) == 2;
    for (std::int32_t rank = 0; rank < size_; ++rank) {
      const Peer& other = *peers_[static_cast<std::size_t>(rank)];
      if (rank != rank_ && !other.gone && !(is_here(peer) && is_here(other))) transport_->send_alarm(rank, failed, proved);
    }
  }
  transport_->ring_doorbells();
}

// A rank that leaves says so in its own memory; it may stay alive, so no pidfd tells.
void Context::look_for_leavers() {
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    const ControlPage* control = transport_->control_of(rank);
    const std::uint32_t left = control == nullptr ? 0 : control->left.load(std::memory_order_acquire);
    Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    if (left == 0 || peer.gone) continue;
    transport_->drain(rank);
    peer.seen_here = true;
    if (left == 2) peer.verdict.store(2, std::memory_order_release);   // out by its own word
    handle_departure(rank, left == 1, true);
  }
}

void Context::report_failures() {
  to_report_ = false;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    if (!peer.gone || peer.left || peer.reported) continue;
    peer.reported = true;
    if (failure_callback_ == nullptr) continue;
    const bool proved = peer.verdict.load(std::memory_order_acquire) == 2;
    const ucft_failure_t failure{rank, proved ? UCFT_FAILURE_PROVED : UCFT_FAILURE_SUSPECTED, peer.pid};
    failure_callback_(&failure, failure_callback_arg_);
  }
}

// ---- the helper's turn ----------------------------------------------------------------------------------------------

void Context::on_tick(void* arg) {
  auto& self = *static_cast<Context*>(arg);
  if (self.ports_ != nullptr) self.look_at_ports();
  const bool news = self.verdicts_.load(std::memory_order_acquire) != 0;
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
// membarrier makes it visible before we look.
void Context::helper_turn(void* arg) {
  auto& self = *static_cast<Context*>(arg);
  self.helper_inside_.store(1, std::memory_order_seq_cst);
  if (!self.fallback_fence_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  if (self.inside_.load(std::memory_order_acquire) == 0) {
    self.in_helper_ = true;
    self.watch_leavers(Clock::now());
    for (int rounds = 0; rounds < 64 && self.progress(); ++rounds) {
    }
    self.transport_->publish_credit();
    self.in_helper_ = false;
  }
  self.helper_inside_.store(0, std::memory_order_release);
}

void Context::wait_for_helper() {
  while (helper_inside_.load(std::memory_order_acquire) != 0) sched_yield();
}

}  // namespace ucft::detail

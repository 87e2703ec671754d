#include "ucx_layer/runtime/context.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/runtime/startup.hpp"
#include "ucx_layer/runtime/unknown_settings.hpp"

namespace ucft::detail {

namespace {

// A rank of this host that writes into our memory wakes us. A put from another host doesn't.
constexpr long local_nap_ns = 1000000, remote_nap_ns = 100000;

// Of this process and those that it comes from, since the first of them created a context.
std::atomic<std::uint32_t> forks{0};

void count_fork() { forks.fetch_add(1, std::memory_order_relaxed); }

std::uint32_t forks_until_now() {
  static const bool registered = pthread_atfork(nullptr, nullptr, &count_fork) == 0;
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

// To the hard one: peers, lifelines and processes that connect to UCX need descriptors.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// So that others can make this process fence: its own helper thread, and ranks that go to sleep.
bool register_membarrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

}  // namespace

std::string Job::describe(std::int32_t who) const {
  if (who < 0 || who >= size) return fmt::format("rank {}", who);
  if (is_absent(who)) return fmt::format("rank {} (absent from the start)", who);
  return fmt::format("rank {} (host {}, pid {})", who, peer(who).host_name, peer(who).pid);
}

std::vector<std::int32_t> Context::hosts_of(const std::vector<std::int32_t>& ranks) const {
  std::vector<std::int32_t> hosts;
  for (const std::int32_t rank : ranks) hosts.push_back(job_.first_on_host[static_cast<std::size_t>(rank)]);
  return hosts;
}

// ---- from start to end ----------------------------------------------------------------------------------------------

bool Context::prepare(const ucft_context_params_t* params, std::string& error) {
  job_.pid = static_cast<int>(getpid());
  raise_descriptor_limit();
  forks_at_start_ = forks_until_now();
  job_.membarriers = register_membarrier();
  turns_.use(job_.membarriers);
  if (!read_settings(params, job_.settings, error)) return false;
  if (params != nullptr) departures_.set_callback(params->failure_callback, params->failure_callback_arg);
  return true;
}

ucft_status_t Context::start(const ucft_context_params_t* params, std::string& error) {
  if (!prepare(params, error)) return UCFT_ERR_INVALID_PARAM;
  OutOfBand oob;
  const ucft_oob_coll_t none{};
  if (!oob.open(params == nullptr ? none : params->oob, std::chrono::microseconds(job_.settings.startup_timeout_us),
                error, {.pmix = job_.settings.pmix != 0, .single = job_.settings.single}))
    return params != nullptr && params->oob.allgather != nullptr ? UCFT_ERR_INVALID_PARAM : UCFT_ERR_STARTUP;
  const ucft_status_t status = start_over(oob, error);
  if (status == UCFT_OK && job_.rank == 0 && settings().says(LogLevel::warn))
    for (const std::string& sentence : unknown_settings(settings(), environ))
      fmt::print(stderr, "ucft: {}\n", sentence);
  return status;
}

ucft_status_t Context::start(const ucft_context_params_t* params, OutOfBand oob, std::string& error) {
  return prepare(params, error) ? start_over(oob, error) : UCFT_ERR_INVALID_PARAM;
}

ucft_status_t Context::start_over(OutOfBand& oob, std::string& error) {
  StartUp steps(job_, oob, departures_);
  const Sink sink{this, &Context::accepts, &Context::deliver, &Context::on_control, &Context::endpoint_failed};
  if (!steps.exchange_identities(error) || !steps.exchange_listeners(error) ||
      !steps.wire_up(sink, transport_, error) || !steps.shut_the_door(error))
    return UCFT_ERR_STARTUP;
  const auto sharing = std::ranges::count_if(job_.peers, &Job::Peer::shares_processors);
  transport_->end_of_start_up();
  spin_ = Spin({settings().spin, static_cast<std::int32_t>(sharing), job_.own_threads});
  transport_->slabs().set_bytes(host_work_.slab_bytes(), rank());
  if (!steps.agree(start_threads(steps.take_lifelines(), error), error, "detector")) return UCFT_ERR_STARTUP;
  departures_.count_silence();
  transport_->publish_counts();
  std::string complaint;
  const bool all_must_close = oob.close(complaint);
  if (!complaint.empty() && settings().says(LogLevel::warn))
    fmt::print(stderr, "ucft: rank {}: {}\n", job_.rank, complaint);
  started_ = true;
  if (all_must_close) meet();
  return UCFT_OK;
}

void Context::await_job() {
  awaits_job_ = true;
  forks_at_start_ = forks_until_now();
  turns_.enter();
}

bool Context::start_threads(std::vector<std::pair<std::int32_t, Lifeline>> lifelines, std::string& error) {
  try {
    helper_ = std::make_unique<HelperThread>(&Context::helper_turn, this);
    departures_.start_detector(*helper_, std::move(lifelines));
    return true;
  } catch (const std::system_error& failure) {
    error = fmt::format("the detector can't start: {}", failure.what());
    return false;
  }
}

// A barrier over the survivors: the launcher's are for ranks that it knows, and can't survive. A rank that dies in it
// is dead like any other; by messages more than f deaths end it, too.
void Context::meet() {
  Communicator* const everybody = communicators_.create_for_all(size());
  Request barrier;
  barrier.communicator = everybody;
  barrier.arguments.f = std::min(settings().f, size() - 1);
  everybody->plan(barrier);
  const auto is_over = [&] {
    if (barrier.state != Request::State::idle) return !barrier.pending();
    const ucft_status_t status = everybody->post(barrier);
    return status != UCFT_OK && status != UCFT_ERR_BUSY;  // out
  };
  wait_until(is_over, Clock::time_point::max());
  communicators_.destroy(everybody);
}

// Leaving is not failing: a rank says it before, and says for each communicator from which operation on. Then this rank
// stays for those that may still need its answers, though not for ever.
void Context::stop() {
  if (!started_) return;
  started_ = false;
  if (settings().stats != Stats::none) print_stats();
  constexpr auto patience = std::chrono::seconds(3);
  if (!excluded()) {
    departures_.say_leaving();
    communicators_.leave_all();
    const auto may_go = [&] { return excluded() || (communicators_.are_left() && departures_.all_know_leaving()); };
    wait_until(may_go, Clock::now() + patience);
  }
  const bool is_needed = !communicators_.are_left();
  if (is_needed && !excluded()) UCFT_SOMETIMES("a rank ends though others may need it");
  communicators_.end();  // from here on others take what stands in memory for this rank's last word
  departures_.mark_left(is_needed);
  transport_->say_goodbye(excluded(), departures_.all_know(), [this](int rank) {
    departures_.take_news();
    return departures_.state().may_live(rank);
  });
  if (excluded()) transport_->cut_messages();
  departures_.stop_detector();
}

// In one write, so that ranks' lines don't mix. Its connections are the most that were open at a time: peers that have
// left before this rank have none any more.
void Context::print_stats() const {
  std::string failed;
  for (std::int32_t rank = 0; rank < size(); ++rank)
    if (has_failed(rank)) failed += fmt::format("{}{}", failed.empty() ? "" : ",", rank);
  const double napped_s = std::chrono::duration<double>(napped_).count();
  const Transport::Counts counts = transport_->counts();
  const std::int32_t lifelines = transport_->control()->lifelines.load(std::memory_order_relaxed);
  if (settings().stats == Stats::json)
    fmt::print(
        stderr,
        "{{\"ucft\":\"stats\",\"rank\":{},\"ranks\":{},\"operations\":{},\"communicators\":{},\"failed\":[{}],"
        "\"naps\":{},\"napped_s\":{:.6f},\"connections\":{},\"lifelines\":{},\"mailboxes\":{},\"mailbox_bytes\":{}}}\n",
        rank(), size(), communicators_.posted(), communicators_.made(), failed, naps_, napped_s,
        counts.most_connections, lifelines, counts.mailboxes, counts.mailbox_bytes);
  else
    fmt::print(stderr,
               "ucft: rank {} of {}: {} operations, {} communicators, failed ranks: {}, asleep {} times, {:.3f} s, "
               "{} connections, {} lifelines, {} mailboxes of {} bytes\n",
               rank(), size(), communicators_.posted(), communicators_.made(), failed.empty() ? "none" : failed, naps_,
               napped_s, counts.most_connections, lifelines, counts.mailboxes, counts.mailbox_bytes);
}

Context::~Context() {
  // From here on our heartbeat stands still. No rank may conclude anything from that, whether we left or never got as
  // far.
  departures_.mark_left(true);
  departures_.end_detector();
  helper_.reset();
  communicators_.clear();
  transport_.reset();
}

bool Context::forked() const { return forks_at_start_ != forks.load(std::memory_order_relaxed); }

// ---- the loop -------------------------------------------------------------------------------------------------------

// Messages can wait for a few looks where nothing else is under way than operations in shared memory.
bool Context::progress(bool asks_ucx) {
  if (host_work_.empty()) return progress_all(asks_ucx);
  const bool active = host_work_.progress();
  const std::uint32_t apart = active ? 64 : 8;
  if (++looks_ % apart != 0 && messages_can_wait()) return active;
  return progress_all(asks_ucx) || active;
}

// A rank that speaks for no host may have no business with ranks of other hosts.
bool Context::listens() const {
  const std::vector<Communicator*>& turning = communicators_.turning();
  return turning.empty() || std::ranges::any_of(turning, &Communicator::listens);
}

// Without such business it asks UCX every eighth time.
bool Context::progress_all(bool asks_ucx) {
  bool active = transport_->poll(asks_ucx || listens() || ++turns_unheard_ % 8 == 0);
  if (departures_.has_news()) {
    departures_.on_turn(Clock::now());
    active = true;
  }
  const std::vector<Communicator*>& turning = communicators_.turning();
  for (std::size_t i = 0; i < turning.size() && !communicators_.has_ended(); ++i)  // a turn may make others
    if (turning[i]->wants_turn()) active |= turning[i]->on_turn();
  if (Communicator* const next = communicators_.next_in_turn();
      next != nullptr && !next->wants_turn() && !communicators_.has_ended())
    active |= next->on_turn();
  communicators_.sweep();
  if (departures_.has_reports() && !in_helper_) departures_.report();
  return active;
}

// Spins, then yields, then sleeps; looks at the pidfds while it yields. False: the time limit has passed.
bool Context::rest(Idle& idle, Clock::time_point limit) {
  if (++idle.rounds <= spin_.looks()) {
    if (idle.rounds % 16 == 0) relax();
    return true;
  }
  const std::uint32_t yields = idle.rounds - spin_.looks();
  sched_yield();
  if (yields % 32 != 0) return true;
  const auto now = Clock::now();
  look_around(now);
  if (now >= limit) return false;
  if (idle.since == Clock::time_point{}) idle.since = now;
  if (now - idle.since < std::chrono::microseconds(job_.settings.sleep_after_us)) return true;
  if (!std::exchange(idle.slept, true)) say_waiting_since(idle.since);
  sleep_a_little();
  return true;
}

void Context::note_death(std::int32_t rank) {
  if (job_.peer(rank).shares_processors) spin_.note_death();
}

void Context::look_around(Clock::time_point now) {
  departures_.look_around(now);
  for (Communicator* each : communicators_.turning()) {
    each->note_awaited();
    each->ask_awaited(now);
  }
}

void Context::say_waiting_since(Clock::time_point since) {
  ControlPage& control = *transport_->control();
  control.waits_since_ns.store(since.time_since_epoch() / std::chrono::nanoseconds(1), std::memory_order_relaxed);
  const std::string waits_in =
      since == Clock::time_point{} || awaited_ == nullptr ? "" : PointToPointDriver::describe(*awaited_);
  control.waits_in.store(waits_in.empty() ? nullptr : waits_in.c_str());
}

void Context::say_waited_until(Clock::time_point limit) {
  transport_->control()->waited_until_ns.store(limit.time_since_epoch() / std::chrono::nanoseconds(1),
                                               std::memory_order_relaxed);
}

void Context::glance() {
  const bool active = progress(true);
  if (++glances_ % 32 == 0) look_around(Clock::now());
  if (active) idle_glances_ = 0;
  if (!active && ++idle_glances_ > spin_.looks()) sched_yield();  // the rank with the news may wait for our processor
}

void Context::sleep_a_little() {
  std::atomic<std::uint32_t>& sleeping = transport_->control()->sleeping;
  transport_->publish_credit();
  transport_->note_sleep(job_.rank, true);
  sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (job_.all_membarriers) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  const bool arrived = host_work_.progress() || progress_all(true);
  if (!arrived && !departures_.has_news()) {
    const Clock::time_point begin = Clock::now();
    if (!transport_->uses_messages() || transport_->has_remote_mailboxes() || !listens()) {
      const timespec limit{0, transport_->has_remote_mailboxes() ? remote_nap_ns : local_nap_ns};
      UCFT_SOMETIMES("a rank sleeps until memory wakes it");
      syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping), FUTEX_WAIT, 1, &limit, nullptr, 0);
    } else if (transport_->arm()) {
      UCFT_SOMETIMES("a rank sleeps until a message wakes it");
      pollfd event{transport_->event_fd(), POLLIN, 0};
      ::poll(&event, 1, 1);
    }
    ++naps_;
    napped_ += Clock::now() - begin;
  }
  sleeping.store(0, std::memory_order_relaxed);
  transport_->note_sleep(job_.rank, false);
}

// The helper's turn: no caller is inside.
void Context::helper_turn(void* arg) {
  auto& self = *static_cast<Context*>(arg);
  if (!self.turns_.helper_enter()) return;
  self.in_helper_ = true;
  UCFT_SOMETIMES("the helper takes a turn");
  if (self.departures_.look_at_marks() || self.departures_.state().is_waiting()) self.departures_.on_turn(Clock::now());
  self.departures_.connect_in_calm(Clock::now());
  for (int rounds = 0; rounds < 64; ++rounds)
    if (const bool active = self.host_work_.progress(); !self.progress_all(true) && !active) break;
  self.transport_->publish_credit();
  self.in_helper_ = false;
  self.turns_.helper_leave();
}

// ---- messages -------------------------------------------------------------------------------------------------------

bool Context::accepts(void* arg, const WireHeader& header, int) {
  return static_cast<Context*>(arg)->communicators_.accepts(header);
}

void Context::deliver(void* arg, const WireHeader& header, const Message& message, int peer) {
  static_cast<Context*>(arg)->communicators_.deliver(header, message, peer);
}

void Context::on_control(void* arg, const WireHeader& header, int peer) {
  auto& self = *static_cast<Context*>(arg);
  if (header.sender >= self.size() || (peer >= 0 && header.sender != peer)) return;
  switch (static_cast<Control>(header.phase)) {
    case Control::leaves_communicator:
    case Control::lets_go:
    case Control::has_left: return self.communicators_.on_control(header);
    default: self.departures_.on_control(header);
  }
}

void Context::endpoint_failed(void* arg, int rank, const char*) {
  static_cast<Context*>(arg)->departures_.on_connection_lost(rank);
}

}  // namespace ucft::detail

#include "ucx_layer/runtime/departures_driver.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/observer/job_view.hpp"

namespace ucft::detail {

namespace {

constexpr auto calm =
    std::chrono::milliseconds(100);  // since the last death: some ten times what an operation takes to get over one

Departures::Mark mark_of(const ControlPage* control) {
  return control == nullptr ? Departures::Mark::none
                            : static_cast<Departures::Mark>(control->left.load(std::memory_order_acquire));
}

}  // namespace

void DeparturesDriver::begin() {
  known_ = std::vector<Known>(job_.peers.size());
  departures_ = Departures(
      job_.rank, job_.hosts(),
      {.suspect_after = std::chrono::microseconds(job_.settings.suspect_after_us), .fence = job_.settings.fence});
  departures_.begin_without(job_.absent);
  departures_.tell_along(job_.connections.near());
  for (std::int32_t rank = 0; rank < job_.size; ++rank) {
    if (!job_.is_absent(rank)) continue;
    of(rank).told.store(Told::failed, std::memory_order_relaxed);
    of(rank).is_final = true;
    note_failure(rank, Clock::now());
  }
}

void DeparturesDriver::start_detector(HelperThread& helper, std::vector<std::pair<std::int32_t, Lifeline>> lifelines) {
  helper_ = &helper;
  std::vector<DetectorThread::Peer> watched;
  std::vector<DetectorThread::RemotePeer> afar;
  for (auto& each : lifelines) afar.push_back({each.first, job_.peer(each.first).pid, std::move(each.second)});
  for (int rank = 0; rank < job_.size; ++rank) {
    const Job::Peer& peer = job_.peer(rank);
    if (rank == job_.rank || job_.is_absent(rank) || peer.host != job_.me().host) continue;
    if (peer.pid == job_.pid) continue;  // ranks that are threads of one process die together
    const ControlPage* control = transport_->control_of(rank);
    watched.push_back({rank, peer.pid, peer.start_time, control == nullptr ? nullptr : &control->heartbeat,
                       control == nullptr ? nullptr : &control->left});
  }
  if (job_.many_hosts) {
    ports_ = std::make_unique<RdmaWatch>(std::getenv("UCX_NET_DEVICES"));
    if (ports_->is_empty()) ports_.reset();
  }
  DetectorThread::Setup setup;
  setup.options.heartbeat_period = std::chrono::microseconds(job_.settings.heartbeat_period_us);
  setup.options.suspect_after = std::chrono::microseconds(job_.settings.suspect_after_us);
  setup.rank = job_.rank;
  setup.fence = job_.settings.fence;
  setup.spares_traced = !job_.many_hosts;  // other hosts can't know, and would go on without it
  setup.silence_counts = false;
  setup.own_heartbeat = &transport_->control()->heartbeat;
  transport_->control()->heartbeat_period_us = job_.settings.heartbeat_period_us;
  setup.listener = this;
  has_messages_ =
      transport_->uses_messages() || job_.settings.algorithm != Algorithm::automatic || !job_.settings.fence;
  if (!ProcessWatch::has_pidfds() && job_.settings.says(LogLevel::info))
    fmt::print(stderr,
               "ucft: rank {}: this system has no pidfds: ends of ranks are looked for in /proc, and silent ranks are "
               "not killed\n",
               job_.rank);
  transport_->control()->lifelines.store(static_cast<std::int32_t>(afar.size()), std::memory_order_relaxed);
  detector_ = std::make_unique<DetectorThread>(setup, watched, std::move(afar));
  detector_->spare_all(spares_all_);
}

void DeparturesDriver::stop_detector() {
  if (detector_) detector_->stop(all_know_);
}

// Where majorities count, all that go on must know before who is about to go (Departures). On one host there are none.
void DeparturesDriver::say_leaving() {
  is_leaving_ = true;
  departures_.leave();
  for (std::int32_t rank = 0; rank < job_.size && job_.many_hosts; ++rank)
    if (rank != job_.rank && !departures_.is_gone(rank)) transport_->send_control(rank, Control::leaving);
  transport_->ring_doorbells();
}

bool DeparturesDriver::all_know_leaving() const {
  for (std::int32_t rank = 0; rank < job_.size && job_.many_hosts; ++rank)
    if (rank != job_.rank && !departures_.is_gone(rank) && !of(rank).knows_leaving && !transport_->is_unconnected(rank))
      return false;
  return true;
}

void DeparturesDriver::mark_left(bool is_needed) {
  if (transport_ == nullptr || transport_->control() == nullptr) return;
  all_know_ = is_leaving_ && !is_needed && all_know_leaving();
  for (std::int32_t rank = 0; rank < job_.size && all_know_; ++rank)
    all_know_ = departures_.is_gone(rank) || !transport_->is_unconnected(rank);
  const auto mark = static_cast<std::uint32_t>(all_know_ ? Departures::Mark::left : Departures::Mark::left_early);
  std::uint32_t in_job = 0;
  transport_->control()->left.compare_exchange_strong(in_job, mark, std::memory_order_seq_cst);
}

// ---- the detector's thread ------------------------------------------------------------------------------------------

// On the detector's thread, or, if it is a proof, on the caller's in look_now(). Those that are silent together are
// told together.
void DeparturesDriver::on_verdict(const Verdict& verdict) {
  const News news = [verdict, at = Clock::now()](DeparturesDriver& driver) { driver.take_in(verdict, at); };
  if (verdict.kind == Verdict::Kind::proved)
    tell({news});
  else
    silent_.push_back(news);
  if (!verdict.more && !silent_.empty()) tell(std::exchange(silent_, {}));
}

void DeparturesDriver::on_excluded(std::int32_t by) {
  tell({[by](DeparturesDriver& driver) { driver.departures_.on_excluded_word(by); }});
}

void DeparturesDriver::on_left(std::int32_t rank, bool all_know) {
  tell({[rank, all_know](DeparturesDriver& driver) {
    driver.departures_.on_lifeline_leave(rank, all_know, Clock::now().time_since_epoch());
  }});
}

void DeparturesDriver::on_line_lost(std::int32_t rank) {
  tell({[rank](DeparturesDriver& driver) { driver.departures_.on_line_lost(rank); }});
  if (job_.settings.says(LogLevel::warn))
    fmt::print(stderr, "ucft: rank {}: the TCP connection to {} is lost: only UCX will tell if it falls silent\n",
               job_.rank, job_.describe(rank));
}

// Each rank of the host that finds the silence kills. One of them says so; where memory is not shared, each does.
void DeparturesDriver::on_fenced(std::int32_t rank, std::chrono::nanoseconds silent_for, int tracer) {
  if (!job_.settings.says(LogLevel::warn) || !is_to_tell_of(rank, tracer != 0)) return;
  const std::string who = fmt::format("ucft: rank {}: {} gave no sign of life for {:.2f} s", job_.rank,
                                      job_.describe(rank), std::chrono::duration<double>(silent_for).count());
  if (tracer != 0)
    fmt::print(stderr, "{}, and process {} traces it: it is waited for\n", who, tracer);
  else
    fmt::print(
        stderr,
        "{}: killed (SIGKILL), so that the others can go on. For longer pauses set UCFT_SUSPECT_AFTER=10m on all "
        "ranks\n",
        who);
}

bool DeparturesDriver::is_to_tell_of(std::int32_t rank, bool is_traced) const {
  ControlPage* const control = transport_->control_of(rank);
  const auto mine = 1 + static_cast<std::uint32_t>(job_.rank);
  std::uint32_t by = 0;
  if (control == nullptr) return true;
  return (is_traced ? control->traced_told_by : control->killed_told_by).compare_exchange_strong(by, mine) ||
         by == mine;
}

// On the detector's thread: for the thread that takes the next turn. Wakes it.
void DeparturesDriver::tell(const std::vector<News>& news) {
  {
    const std::lock_guard lock(news_mutex_);
    news_.insert(news_.end(), news.begin(), news.end());
  }
  note();
  std::atomic<std::uint32_t>& sleeping = transport_->control()->sleeping;
  if (sleeping.exchange(0) != 0)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// ---- the caller's ---------------------------------------------------------------------------------------------------

void DeparturesDriver::on_control(const WireHeader& header) {
  const bool flag = (header.flags & 1) != 0;
  switch (static_cast<Control>(header.phase)) {
    case Control::leave: departures_.on_leave_word(header.sender, flag); return follow_up();
    case Control::leaving:
      departures_.on_leaving(header.sender);
      transport_->send_control(header.sender, Control::knows_leaving);
      return transport_->ring_doorbells();
    case Control::knows_leaving: of(header.sender).knows_leaving = true; return;
    case Control::left:
      if (header.control.about < 0 || header.control.about >= job_.size || header.control.about == job_.rank) return;
      UCFT_SOMETIMES("another rank says who has left");
      departures_.on_left_word(header.control.about, flag, Clock::now().time_since_epoch());
      return note();
    case Control::excluded: departures_.on_excluded_word(header.sender); return note();
    case Control::failed:
      if (header.control.about < 0 || header.control.about >= job_.size) return;
      departures_.on_word(header.sender, header.control.about, flag);
      return note();
    default: return;
  }
}

void DeparturesDriver::on_connection_lost(std::int32_t rank) {
  departures_.on_connection_lost(rank, Clock::now().time_since_epoch());
  note();
}

void DeparturesDriver::look_around(Clock::time_point now) {
  if (is_out()) return;
  if (detector_) detector_->look_now();
  look_at_marks();
  on_turn(now);
  connect_in_calm(now);
}

bool DeparturesDriver::look_at_marks() {
  bool is_news = false;
  for (std::int32_t rank = 0; rank < job_.size; ++rank) {
    const Departures::Mark mark = mark_of(transport_->control_of(rank));
    departures_.on_mark(rank, mark);
    if (mark != Departures::Mark::none) is_news |= note_death(rank);
  }
  return is_news;
}

void DeparturesDriver::connect_in_calm(Clock::time_point now) {
  if (now < connect_after_) return;
  for (const std::int32_t rank : departures_.near())
    if (transport_->is_unconnected(rank)) return transport_->connect_to(rank);
  connect_after_ = Clock::time_point::max();
}

void DeparturesDriver::take_news() {
  std::vector<News> news;
  {
    const std::lock_guard lock(news_mutex_);
    news.swap(news_);
  }
  for (const News& each : news) each(*this);
}

void DeparturesDriver::take_in(const Verdict& verdict, Clock::time_point at) {
  const bool is_proved = verdict.kind == Verdict::Kind::proved;
  note_failure(verdict.rank, at);
  if (verdict.out)
    departures_.on_lifeline_out(verdict.rank);
  else
    departures_.on_verdict(verdict.rank, is_proved);
  if (is_proved) note_death(verdict.rank);
}

void DeparturesDriver::on_turn(Clock::time_point now) {
  const std::uint32_t count = news_count_.load(std::memory_order_acquire);
  if (std::exchange(news_handled_, count) != count) {
    look_at_marks();  // before others are counted
    take_news();
  }
  if (const std::uint32_t by = transport_->control()->excluded.load(std::memory_order_relaxed); by != 0)
    departures_.on_excluded_mark(static_cast<std::int32_t>(by) - 1);
  departures_.on_turn(now.time_since_epoch());
  follow_up();
}

void DeparturesDriver::exclude_self(const std::string& why) {
  UCFT_SOMETIMES("a rank stands aside for lack of memory");
  why_aside_ = why;
  departures_.on_excluded_mark(-1);
  on_turn(Clock::now());
}

// An action may cause others: a rank is heard out and its messages are read, or communicators learn of a departure.
// The actions that follow wait for their turn.
void DeparturesDriver::follow_up() {
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

void DeparturesDriver::carry_out(const Departures::Action& action) {
  using Action = Departures::Action::Kind;
  ControlPage* control = transport_->control_of(action.rank);
  switch (action.kind) {
    case Action::hear_out:
      UCFT_SOMETIMES("the last messages of a rank are read");
      transport_->drain(action.rank);
      return departures_.on_heard_out(action.rank, mark_of(control));
    case Action::fence: return fence(action.rank);
    case Action::tell_out:
      if (control != nullptr)
        control->excluded.store(1 + static_cast<std::uint32_t>(job_.rank));
      else
        transport_->send_control(action.rank, Control::excluded);
      if (detector_) detector_->tell_excluded(action.rank);
      return;
    case Action::depart: return depart(action);
    case Action::announce:
      return transport_->send_control(
          action.rank, action.has_left ? Control::left : Control::failed, 0,
          {.about = action.about, .flag = action.has_left ? action.all_know : action.proved});
    case Action::exclude_self: return stand_aside();
  }
}

void DeparturesDriver::depart(const Departures::Action& action) {
  const std::int32_t rank = action.rank;
  transport_->forget(rank, action.has_left || action.proved);
  transport_->publish_counts();
  if (transport_->control_of(rank) != nullptr) transport_->note_sleep(rank, false);  // it may have died asleep
  of(rank).told.store(action.has_left ? Told::left : Told::failed, std::memory_order_relaxed);
  if (action.has_left)
    communicators_.on_left(rank, !action.all_know);
  else
    communicators_.on_failure(rank);
  answering_.store(true, std::memory_order_release);
  if (action.has_left && detector_) detector_->forget(rank);
  if (action.has_left) return;
  note_failure(rank, Clock::now());
  if (departures_.tells_along()) connect_after_ = Clock::now() + calm;
  to_report_ = true;
  if (job_.settings.says(LogLevel::info))
    fmt::print(stderr, "ucft: rank {}: {} has failed ({})\n", job_.rank, job_.describe(rank),
               action.proved ? "proved" : "suspected");
}

bool DeparturesDriver::note_death(std::int32_t rank) {
  if (std::exchange(of(rank).is_final, true)) return false;
  communicators_.on_death(rank);
  return true;
}

void DeparturesDriver::note_failure(std::int32_t rank, Clock::time_point at) {
  Clock::time_point& since = of(rank).failed_since;
  if (since == Clock::time_point{}) since = at;
}

void DeparturesDriver::stand_aside() {
  told_out_.store(true, std::memory_order_relaxed);
  transport_->control()->left.store(2, std::memory_order_seq_cst);
  if (detector_) detector_->declare_out();
  communicators_.exclude_self(why_out());
  if (job_.settings.says(LogLevel::info)) fmt::print(stderr, "ucft: rank {} is out: {}\n", job_.rank, exclusion_text());
}

void DeparturesDriver::fence(std::int32_t rank) {
  if (spares_all_) return departures_.on_fence_refused(rank);
  const Job::Peer& peer = job_.peer(rank);
  try {
    ProcessWatch watch;
    watch.add(rank, peer.pid, peer.start_time);
    if (!watch.kill(rank)) departures_.on_fence_refused(rank);
  } catch (const std::system_error&) {  // out of descriptors: there may be one when we are asked again
  }
}

std::string DeparturesDriver::exclusion_text() const {
  if (!why_aside_.empty()) return why_aside_;
  if (departures_.exclusion() != Departures::Exclusion::minority) {
    const std::int32_t by = departures_.excluded_by();
    return fmt::format("{} declared this rank dead and the others went on without it",
                       by < 0 ? "some rank" : job_.describe(by));
  }
  const Departures::Count count = departures_.count();
  std::string silent, port;
  for (std::size_t i = 0; i < std::min(count.lost.size(), std::size_t{4}); ++i)
    silent += (i > 0 ? ", " : "") + job_.describe(count.lost[i]);
  if (ports_ != nullptr) {
    const std::lock_guard lock(ports_mutex_);
    port = ports_->down_text();
  }
  return fmt::format(
      "no sign of life of {} of {} ranks ({}{}): this side is not the majority, and the other one may go on{}{}",
      count.lost.size(), count.counted, silent, count.lost.size() > 4 ? ", ..." : "", port.empty() ? "" : "; here ",
      port);
}

void DeparturesDriver::report() {
  to_report_ = false;
  for (const Departures::Failure& each : departures_.take_failures()) {
    if (callback_ == nullptr) continue;
    const std::chrono::nanoseconds known_at = of(each.rank).failed_since.time_since_epoch();
    const ucft_failure_t failure{each.rank, each.proved ? UCFT_FAILURE_PROVED : UCFT_FAILURE_SUSPECTED,
                                 job_.peer(each.rank).pid, known_at.count()};
    callback_(&failure, callback_arg_);
  }
}

void DeparturesDriver::on_tick() {
  transport_->control()->beat_at_ns.store(monotonic_ns(), std::memory_order_relaxed);
  if (ports_ != nullptr) look_at_ports();
  // Ranks that leave wait for answers, even while this rank is busy.
  constexpr std::uint32_t apart = 4;
  if (has_messages_ && ++ticks_ % apart == 0) helper_->wake();
  const bool news = news_count_.load(std::memory_order_acquire) != 0 ||
                    transport_->control()->answers_wanted.load(std::memory_order_relaxed) != 0;
  if (news || answering_.load(std::memory_order_acquire)) helper_->wake();
}

// A port of this host that goes down explains much that would look like the others' deaths. It proves nothing: it may
// be back before anybody notices.
void DeparturesDriver::look_at_ports() {
  const std::lock_guard lock(ports_mutex_);
  for (const std::string& line : ports_->look())
    if (job_.settings.says(LogLevel::info)) fmt::print(stderr, "ucft: rank {}: {}\n", job_.rank, line);
}

}  // namespace ucft::detail

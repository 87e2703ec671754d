// See detector_thread.hpp.
#include "timeout_detector/detector_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <system_error>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "timeout_detector/signals_blocked.hpp"

namespace ucft::detail {
namespace {

constexpr std::size_t few = 16;       // peers of this host, all of which are looked at every period
constexpr std::size_t followers = 8;  // else so many are
// A look takes as long as 50 at a heartbeat, and on a busy host many have missed one.
constexpr std::size_t endings_a_turn = 2;

TimeoutDetector::Time time_now() {
  return std::chrono::duration_cast<TimeoutDetector::Time>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

DetectorThread::DetectorThread(const Setup& setup, const std::vector<Peer>& peers, std::vector<RemotePeer> remote)
    : setup_(setup), creator_pid_(::getpid()), silence_(setup.options, peers.size() + remote.size()) {
  assert(setup.listener != nullptr);
  silence_counts_ = setup.silence_counts;
  const Time now = time_now();
  for (const Peer& peer : peers) {
    assert(peer.pid != creator_pid_);
    processes_.add(peer.rank, peer.pid, peer.start_time);
    watch(peer, false, {}, now);
  }
  here_ = watched_.size();
  choose_closely_watched();
  for (RemotePeer& peer : remote) watch({peer.rank, peer.pid, 0, nullptr}, true, std::move(peer.line), now);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  try {
    const AllSignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::close(wake_);
    throw;
  }
}

void DetectorThread::watch(Peer peer, bool remote, Lifeline line, Time now) {
  silence_.watch(static_cast<TimeoutDetector::Peer>(watched_.size()), now);
  auto watched = std::make_unique<Watched>();
  watched->peer = peer;
  watched->remote = remote;
  watched->lifeline = std::move(line);
  watched->heard_at = now;
  if (peer.heartbeat != nullptr) watched->last_heartbeat = peer.heartbeat->load(std::memory_order_relaxed);
  watched_.push_back(std::move(watched));
}

DetectorThread::~DetectorThread() {
  if (::getpid() == creator_pid_) {
    stop();
  } else if (thread_.joinable()) {
    thread_.detach();  // there is nothing to join in a forked child
  }
  ::close(wake_);
}

void DetectorThread::stop(bool all_know) {
  if (!thread_.joinable()) return;
  stopping_ = true;
  poke();
  thread_.join();
  std::vector<Lifeline*> answering, silent;
  // A rank that hears only that we leave would believe that our part is done, and that it is one of us.
  for (auto& watched : watched_) {
    if (watched->tell_excluded.exchange(false)) watched->lifeline.say(LifelineWord::excluded);
    if (out_.load(std::memory_order_acquire)) watched->lifeline.say(LifelineWord::out);
  }
  for (auto& watched : watched_) (watched->suspected ? silent : answering).push_back(&watched->lifeline);
  const LifelineWord word = all_know ? LifelineWord::leave : LifelineWord::leave_early;
  leave(silent, std::chrono::milliseconds(0), word);
  leave(answering, std::chrono::seconds(1), word);
}

void DetectorThread::poke() {
  const int error = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));  // full: then it wakes anyway
  errno = error;
}

int DetectorThread::look_now() { return report_deaths(); }

void DetectorThread::run() {
  pthread_setname_np(pthread_self(), "ucft-detector");
  while (!stopping_) {
    take_turn(time_now());
    setup_.listener->on_tick();
    sleep();
  }
}

// Heartbeats before silence: what has arrived while this thread did not run still counts.
void DetectorThread::take_turn(Time now) {
  if (setup_.own_heartbeat != nullptr) {
    auto& own = *setup_.own_heartbeat;  // the only writer, so no atomic addition is needed
    own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  note_lateness(now);
  report_deaths();
  speak(now);
  listen(now);
  look_for_endings();
  for (const TimeoutDetector::Peer peer : silence_.tick(now)) judge(static_cast<std::size_t>(peer), now);
  if (silence_.was_away()) begin_waiting_anew(now);
  give_up_fencing(now);
}

void DetectorThread::note_lateness(Time now) {
  const Time before = std::exchange(turned_at_, now), late = setup_.options.suspect_after / 4;
  if (before > Time::zero() && now - before >= late + setup_.options.heartbeat_period &&
      UCFT_SOMETIMES("a detector is late itself"))
    late_until_ = now + 10 * setup_.options.suspect_after;
}

bool DetectorThread::may_be_starved(Watched& watched, Time now) const {
  constexpr int most = 3;
  return (now < watched.starved_until || now < late_until_) && watched.patience++ < most;
}

// This thread did not run while it waited for a proof, and those it waits for may not have run, either.
void DetectorThread::begin_waiting_anew(Time now) {
  for (std::size_t index = 0; index < watched_.size(); ++index) {
    Watched& watched = *watched_[index];
    if (!watched.fencing) continue;
    UCFT_SOMETIMES("a detector was away while it waited for a proof");
    watched.fence_until = now + setup_.fence_limit;
    if (!watched.remote) continue;
    watched.fencing = false;
    silence_.watch(static_cast<TimeoutDetector::Peer>(index), now);
  }
}

void DetectorThread::choose_closely_watched() {
  const auto first = static_cast<std::size_t>(
      std::find_if(watched_.begin(), watched_.end(), [&](const auto& each) { return each->peer.rank > setup_.rank; }) -
      watched_.begin());
  for (std::size_t i = 0; i < here_; ++i) {
    const std::size_t index = (first + i) % here_;
    if (here_ <= few || i < followers || watched_[index]->peer.heartbeat == nullptr) closely_.push_back(index);
  }
}

void DetectorThread::listen(Time now) {
  states_looked_at_ = now >= next_state_look_;
  if (states_looked_at_) next_state_look_ = now + setup_.options.suspect_after / 4;
  if (!silence_counts_.load(std::memory_order_acquire))
    for (std::size_t index = 0; index < watched_.size(); ++index) heard(index, now);
  listen_here(now);
  for (std::size_t index = here_; index < watched_.size(); ++index) listen_afar(index, now);
}

void DetectorThread::listen_here(Time now) {
  std::erase_if(missed_, [&](std::size_t index) { return !look_at(index, now); });
  const auto look_unless_done = [&](std::size_t index) {
    if (!watched_[index]->missed && look_at(index, now)) missed_.push_back(index);
  };
  for (std::size_t index : closely_) look_unless_done(index);
  const Time round = setup_.options.suspect_after / 4, since = std::min(now - std::exchange(listened_at_, now), round);
  if (closely_.size() == here_) return;
  for (std::size_t looks =
           here_ * static_cast<std::size_t>(since.count()) / static_cast<std::size_t>(round.count()) + 1;
       looks > 0; --looks) {
    look_unless_done(next_look_);
    next_look_ = (next_look_ + 1) % here_;
  }
}

// Since the last look.
bool DetectorThread::has_beaten(Watched& watched) {
  if (watched.peer.heartbeat == nullptr) return false;
  const auto beat = watched.peer.heartbeat->load(std::memory_order_relaxed);
  return std::exchange(watched.last_heartbeat, beat) != beat;
}

// Whether the peer has missed a heartbeat: then the caller sees to it that it stands in missed_.
bool DetectorThread::look_at(std::size_t index, Time now) {
  Watched& watched = *watched_[index];
  if (watched.peer.heartbeat == nullptr) {
    if (!states_looked_at_) return false;
    const ProcessState state = processes_.state(watched.peer.rank);
    if (state != ProcessState::stopped && state != ProcessState::dead) heard(index, now);
    return false;
  }
  if (has_beaten(watched)) heard(index, now);
  watched.missed = !watched.proved && !watched.has_left() &&
                   now - watched.heard_at.load(std::memory_order_relaxed) >= 2 * setup_.options.heartbeat_period;
  return watched.missed;
}

// A process of 100 GiB takes seconds to die, and one that dumps core takes as long as its disk. So a process that has
// missed a heartbeat is looked at. It isn't killed then, which would cut its dump short.
void DetectorThread::look_for_endings() {
  if (states_looked_at_)
    for (std::size_t index : closely_)
      if (watched_[index]->peer.heartbeat == nullptr) look_for_ending(index);
  const std::size_t looks = std::min(endings_a_turn, missed_.size());
  for (std::size_t i = 0; i < looks; ++i) look_for_ending(missed_[i]);
  std::rotate(missed_.begin(), missed_.begin() + static_cast<std::ptrdiff_t>(looks), missed_.end());
}

// True: the peer is proved dead.
bool DetectorThread::look_for_ending(std::size_t index) {
  Watched& watched = *watched_[index];
  if (watched.proved) return true;
  const std::uint64_t before = std::exchange(watched.ending, processes_.ending(watched.peer.rank));
  if (before == 0 || before != watched.ending) return false;
  UCFT_SOMETIMES("a process is seen to end before its pidfd says so");
  silence_.forget(static_cast<TimeoutDetector::Peer>(index));
  watched.fencing = false;
  report(watched, Verdict::Kind::proved);
  return true;
}

// The end of a lifeline proves more than silence could. A peer whose lifeline was lost here can't be heard any more,
// and its silence means nothing.
void DetectorThread::listen_afar(std::size_t index, Time now) {
  Watched& watched = *watched_[index];
  if (!watched.lifeline.is_open()) return;
  const Lifeline::News news = watched.lifeline.listen();
  if (news.heartbeat && watched.fencing) {  // it was silent, but nobody has been told so yet
    UCFT_SOMETIMES("a suspicion is withdrawn");
    watched.fencing = false;
    silence_.watch(static_cast<TimeoutDetector::Peer>(index), now);
  }
  if (news.heartbeat) {
    heard(index, now);
    watched.patience = 0;
  }
  if (news.starved && UCFT_SOMETIMES("a rank of another host says that it is starved"))
    watched.starved_until = now + 10 * setup_.options.suspect_after;
  // First, as it was said first: of a rank that is out, or has left, the word does not count any more.
  if (news.excluded && UCFT_SOMETIMES("a lifeline says that this rank is declared dead"))
    setup_.listener->on_excluded(watched.peer.rank);
  if (news.out && UCFT_SOMETIMES("a lifeline says that its rank is out"))
    report(watched, Verdict::Kind::proved, true);  // before it leaves: nobody says so afterwards
  if (news.leave) {
    UCFT_SOMETIMES("a lifeline says that its rank leaves");
    if (news.early) UCFT_SOMETIMES("a lifeline says that its rank leaves, and some may not know");
    watched.forgotten.store(true, std::memory_order_release);
    setup_.listener->on_left(watched.peer.rank, !news.early);
  }
  if (is_proof(watched, news, now) && UCFT_SOMETIMES("a lifeline ends with its process"))
    report(watched, Verdict::Kind::proved);
  if (news.end != Lifeline::End::lost || watched.has_left()) return;
  UCFT_SOMETIMES("a lifeline is lost");
  watched.fencing = false;
  silence_.forget(static_cast<TimeoutDetector::Peer>(index));
  setup_.listener->on_line_lost(watched.peer.rank);
}

// A reset may also come from the kernel of a live process that has lost the connection, but only if nothing has got
// through for long. Then it shows nothing, and silence will tell.
bool DetectorThread::is_proof(const Watched& watched, const Lifeline::News& news, Time now) const {
  if (watched.has_left()) return false;
  if (news.end == Lifeline::End::closed) return true;
  return news.end == Lifeline::End::reset &&
         now - watched.heard_at.load(std::memory_order_relaxed) < setup_.options.suspect_after / 2;
}

// A rank that is declared dead hears no heartbeat any more: if it is alive, it must not believe that all is well.
void DetectorThread::speak(Time now) {
  const bool out = out_.load(std::memory_order_acquire);
  const bool beat = now >= next_beat_;
  if (beat) next_beat_ = now + std::max(setup_.options.heartbeat_period, setup_.options.suspect_after / 10);
  for (std::size_t index = here_; index < watched_.size(); ++index) {
    const auto& watched = watched_[index];
    Lifeline& line = watched->lifeline;
    if (!line.is_open()) continue;
    if (watched->tell_excluded.exchange(false)) line.say(LifelineWord::excluded);
    if (beat) {
      if (out)
        line.say(LifelineWord::out);
      else if (!watched->suspected && !watched->proved)
        line.say(now < late_until_ ? LifelineWord::starved : LifelineWord::heartbeat);
    }
  }
}

void DetectorThread::tell_excluded(std::int32_t rank) {
  for (auto& watched : watched_)
    if (watched->peer.rank == rank) watched->tell_excluded.store(true);
  poke();
}

void DetectorThread::declare_out() {
  out_.store(true, std::memory_order_release);
  poke();
}

// After suspicion nothing counts: a stopped process that is killed runs once more, in order to end.
void DetectorThread::heard(std::size_t index, Time now) {
  if (silence_.suspected(static_cast<TimeoutDetector::Peer>(index))) return;
  watched_[index]->heard_at.store(now, std::memory_order_relaxed);
  silence_.heard(static_cast<TimeoutDetector::Peer>(index), now);
}

// A peer has passed its deadline. The only place that decides what follows from silence.
void DetectorThread::judge(std::size_t index, Time now) {
  Watched& watched = *watched_[index];
  if (watched.has_left() && UCFT_SOMETIMES("a rank that has left falls silent"))
    return silence_.forget(static_cast<TimeoutDetector::Peer>(index));
  if (watched.remote && may_be_starved(watched, now) && silence_.extend(static_cast<TimeoutDetector::Peer>(index), now))
    return;
  if (watched.remote && UCFT_SOMETIMES("a rank of another host falls silent"))
    return start_waiting(index, now + setup_.options.suspect_after / 4);
  if (look_for_ending(index) || look_for_ending(index)) return;  // there may have been too many to be looked at
  if (may_want_to_run(watched.peer.rank) && UCFT_SOMETIMES("a rank falls silent that waits for a processor") &&
      silence_.extend(static_cast<TimeoutDetector::Peer>(index), now))
    return;
  UCFT_SOMETIMES("a rank on this host falls silent");
  if (has_beaten(watched)) return heard(index, now);  // it had no processor until now, and sleeps again
  if (setup_.spares_traced && is_traced(watched)) return silence_.watch(static_cast<TimeoutDetector::Peer>(index), now);
  if (setup_.fence && !spares_all_.load(std::memory_order_acquire) && processes_.kill(watched.peer.rank)) {
    UCFT_SOMETIMES("a silent rank is killed");
    say_fenced(watched, 0);
    return start_waiting(index, now + setup_.fence_limit);
  }
  report(watched, Verdict::Kind::suspected);
}

bool DetectorThread::is_traced(Watched& watched) {
  const int before = std::exchange(watched.tracer, processes_.tracer(watched.peer.rank));
  if (watched.tracer != 0 && watched.tracer != before) say_fenced(watched, watched.tracer);
  return watched.tracer != 0;
}

void DetectorThread::say_fenced(const Watched& watched, int tracer) {
  setup_.listener->on_fenced(watched.peer.rank, silence_of(watched), tracer);
}

void DetectorThread::forget(std::int32_t rank) {
  for (auto& watched : watched_)
    if (watched->peer.rank == rank) watched->forgotten.store(true, std::memory_order_release);
}

// Also one that this process can't look at now: others can, if it hangs.
bool DetectorThread::may_want_to_run(std::int32_t rank) const {
  const ProcessState state = processes_.state(rank);
  return state == ProcessState::runnable || state == ProcessState::blocked || state == ProcessState::unseen;
}

// The end of a process that was killed is seen by report_deaths(), some 0.1 ms later unless it hangs in the kernel or
// the host is loaded. The end of another host's process may yet be seen by its lifeline.
void DetectorThread::start_waiting(std::size_t index, Time until) {
  watched_[index]->fencing = any_fencing_ = true;
  watched_[index]->fence_until = until;
}

void DetectorThread::give_up_fencing(Time now) {
  if (!std::exchange(any_fencing_, false)) return;
  bool silent_host = false;
  for (auto& watched : watched_) {
    any_fencing_ |= watched->fencing;
    if (!watched->fencing || now < watched->fence_until) continue;
    if (watched->remote) {
      silent_host = true;
      continue;
    }
    watched->fencing = false;
    UCFT_SOMETIMES("a rank that was killed does not end in time");
    report(*watched, Verdict::Kind::suspected);
  }
  if (silent_host) report_silent_hosts();
}

void DetectorThread::report_silent_hosts() {
  std::vector<Watched*> silent;
  for (auto& watched : watched_) {
    if (!watched->remote || !watched->fencing) continue;
    watched->fencing = false;
    if (!watched->proved && !watched->has_left()) silent.push_back(watched.get());
  }
  if (silent.size() > 1) UCFT_SOMETIMES("several ranks are silent together");
  for (Watched* watched : silent) report(*watched, Verdict::Kind::suspected, false, watched != silent.back());
}

int DetectorThread::report_deaths() {
  int reported = 0;
  for (const std::int32_t rank : processes_.poll()) {
    for (auto& watched : watched_)
      if (watched->peer.rank == rank) reported += report(*watched, Verdict::Kind::proved);
  }
  return reported;
}

// False: there is a verdict already. A proved one ends the matter; a suspected one may still be followed by proof.
bool DetectorThread::report(Watched& watched, Verdict::Kind kind, bool out, bool more) {
  const std::lock_guard lock(verdicts_);
  if (watched.proved || (kind == Verdict::Kind::suspected && watched.suspected)) return false;
  if (kind == Verdict::Kind::proved && watched.suspected) UCFT_SOMETIMES("a suspicion becomes a proof");
  if (kind == Verdict::Kind::proved)
    watched.proved = true;
  else
    watched.suspected = true;
  setup_.listener->on_verdict({watched.peer.rank, kind, silence_of(watched), watched.peer.pid, out, more});
  return true;
}

DetectorThread::Time DetectorThread::silence_of(const Watched& watched) {
  return std::max(time_now() - watched.heard_at.load(std::memory_order_relaxed), Time::zero());
}

std::optional<DetectorThread::Sight> DetectorThread::sight_of(std::int32_t rank) const {
  for (const auto& watched : watched_)
    if (watched->peer.rank == rank)
      return Sight{silence_of(*watched), watched->remote ? ProcessState::unknown : processes_.state(rank)};
  return std::nullopt;
}

// Until a death, a poke, or the next heartbeat.
void DetectorThread::sleep() {
  awaited_.assign({{wake_, POLLIN, 0}, {processes_.epoll_descriptor(), POLLIN, 0}});
  for (std::size_t index = here_; index < watched_.size(); ++index) {
    // Not for heartbeats, which can wait until we wake anyway: for ends.
    const Lifeline& line = watched_[index]->lifeline;
    if (line.is_open()) awaited_.push_back({line.descriptor(), POLLRDHUP, 0});
  }
  const auto period = setup_.options.heartbeat_period;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const timespec limit{static_cast<time_t>(seconds.count()), static_cast<long>((period - seconds).count())};
  if (::ppoll(awaited_.data(), awaited_.size(), &limit, nullptr) <= 0 || awaited_[0].revents == 0) return;
  std::uint64_t pokes;
  [[maybe_unused]] const ssize_t bytes = ::read(wake_, &pokes, sizeof(pokes));
}

}  // namespace ucft::detail

// TimeoutDetector by transcript, with time as an argument; ProcessWatch and DetectorThread with forked processes that
// are killed, stopped, left as zombies, or starved. Waits have a bound of 30 s; how long something takes decides
// nothing.
#include "timeout_detector/detector_thread.hpp"
#include "timeout_detector/process_watch.hpp"
#include "timeout_detector/timeout_detector.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ucft::detail {
namespace {

using namespace std::chrono_literals;
using Peers = std::vector<std::int32_t>;

// ---- TimeoutDetector ------------------------------------------------------------------------------------------------

constexpr TimeoutDetector::Options eta_10_delta_30{
    .heartbeat_period = 10ms, .suspect_after = 30ms, .extensions_limit = 2};

class Silence : public testing::Test {
 protected:
  Peers tick(TimeoutDetector::Time now) {
    const auto suspects = detector_.tick(now);
    return {suspects.begin(), suspects.end()};
  }
  // Ticks every period from first to last; who was suspected meanwhile.
  Peers tick_through(std::chrono::milliseconds first, std::chrono::milliseconds last) {
    Peers all;
    for (auto now = first; now <= last; now += 10ms)
      for (const std::int32_t peer : tick(now)) all.push_back(peer);
    return all;
  }
  TimeoutDetector detector_{eta_10_delta_30, 4};
};

TEST_F(Silence, PeerIsSuspectedAtItsDeadlineAndOnlyOnce) {
  detector_.watch(1, 0ms);
  EXPECT_EQ(detector_.next_deadline(), 30ms);
  EXPECT_EQ(tick(10ms), Peers{});
  EXPECT_EQ(tick(20ms), Peers{});
  EXPECT_EQ(tick(29ms), Peers{});
  EXPECT_EQ(tick(30ms), Peers{1});
  EXPECT_TRUE(detector_.suspected(1));
  EXPECT_EQ(tick_through(40ms, 400ms), Peers{});
  EXPECT_EQ(detector_.next_deadline(), std::nullopt);
}

TEST_F(Silence, EachHeartbeatMovesTheDeadline) {
  detector_.watch(2, 0ms);
  for (auto now = 10ms; now <= 200ms; now += 10ms) {
    if (now % 20ms == 0ms) detector_.heard(2, now);
    EXPECT_EQ(tick(now), Peers{});
  }
  EXPECT_EQ(detector_.next_deadline(), 230ms);
  EXPECT_EQ(detector_.silent_for(2, 215ms), 15ms);
  EXPECT_EQ(tick_through(210ms, 220ms), Peers{});
  EXPECT_EQ(tick(230ms), Peers{2});
}

TEST_F(Silence, OnlyTheSilentOneIsSuspected) {
  for (std::int32_t peer = 0; peer < 4; ++peer) detector_.watch(peer, 0ms);
  for (auto now = 10ms; now <= 30ms; now += 10ms) {
    for (const std::int32_t peer : {0, 1, 3}) detector_.heard(peer, now);
    EXPECT_EQ(tick(now), now == 30ms ? Peers{2} : Peers{});
  }
}

TEST_F(Silence, SeveralAreReportedInTheOrderOfWatching) {
  for (const std::int32_t peer : {3, 0, 2}) detector_.watch(peer, 0ms);
  tick_through(10ms, 20ms);
  EXPECT_EQ(tick(30ms), (Peers{3, 0, 2}));
}

TEST_F(Silence, LateHeartbeatDoesNotTakeASuspicionBack) {
  detector_.watch(1, 0ms);
  EXPECT_EQ(tick_through(10ms, 30ms), Peers{1});
  detector_.heard(1, 31ms);
  EXPECT_TRUE(detector_.suspected(1));
  EXPECT_EQ(detector_.silent_for(1, 40ms), 40ms);
  EXPECT_EQ(tick_through(40ms, 200ms), Peers{});
}

TEST_F(Silence, HeartbeatOutOfOrderDoesNotShortenTheDeadline) {
  detector_.watch(1, 0ms);
  detector_.heard(1, 20ms);
  detector_.heard(1, 5ms);
  EXPECT_EQ(detector_.next_deadline(), 50ms);
  EXPECT_EQ(detector_.silent_for(1, 25ms), 20ms - 15ms);
}

TEST_F(Silence, UnwatchedPeerIsNeverSuspected) {
  detector_.heard(0, 5ms);
  EXPECT_EQ(tick_through(10ms, 500ms), Peers{});
  EXPECT_FALSE(detector_.watched(0));
}

TEST_F(Silence, ForgottenPeerIsNeverSuspected) {
  detector_.watch(0, 0ms);
  detector_.watch(1, 0ms);
  tick_through(10ms, 20ms);
  detector_.forget(0);
  detector_.forget(0);
  EXPECT_EQ(tick(30ms), Peers{1});
  EXPECT_FALSE(detector_.watched(0));
}

TEST_F(Silence, PeerWatchedAgainBeginsAnew) {
  detector_.watch(1, 0ms);
  EXPECT_EQ(tick_through(10ms, 30ms), Peers{1});
  detector_.watch(1, 40ms);
  EXPECT_FALSE(detector_.suspected(1));
  EXPECT_EQ(tick_through(40ms, 60ms), Peers{});
  EXPECT_EQ(tick(70ms), Peers{1});
  detector_.forget(1);
  detector_.watch(1, 80ms);
  EXPECT_EQ(tick_through(80ms, 100ms), Peers{});
  EXPECT_EQ(tick(110ms), Peers{1});
}

// Periods of 10 ms, suspected after 100.
class SilenceOfTenPeriods : public Silence {
 protected:
  SilenceOfTenPeriods() {
    detector_ = TimeoutDetector({.heartbeat_period = 10ms, .suspect_after = 100ms, .extensions_limit = 2}, 4);
    detector_.watch(1, 0ms);
  }
};

TEST_F(SilenceOfTenPeriods, LateLoopDoesNotSuspectWhoWasInsideTheDeadlineWhenItLastLooked) {
  tick_through(10ms, 90ms);
  EXPECT_EQ(tick(115ms), Peers{});  // late by 15
  EXPECT_FALSE(detector_.was_away());
  EXPECT_EQ(tick(125ms), Peers{1});  // on time
}

TEST_F(SilenceOfTenPeriods, LoopThatIsLateAgainAndAgainPardonsOnlyOnce) {
  tick_through(10ms, 90ms);
  EXPECT_EQ(tick(115ms), Peers{});
  EXPECT_EQ(tick(140ms), Peers{1});
}

TEST_F(SilenceOfTenPeriods, LoopLateByLessThanAPeriodSuspects) {
  tick_through(10ms, 90ms);
  EXPECT_EQ(tick(109ms), Peers{1});
}

TEST_F(SilenceOfTenPeriods, LateByExactlyOnePeriodIsLate) {
  tick_through(10ms, 90ms);
  EXPECT_EQ(tick(110ms), Peers{});
}

TEST_F(SilenceOfTenPeriods, LateLoopGivesTimeForAHeartbeat) {
  tick_through(10ms, 90ms);
  EXPECT_EQ(tick(115ms), Peers{});
  detector_.heard(1, 120ms);
  EXPECT_EQ(tick_through(125ms, 215ms), Peers{});
  EXPECT_EQ(tick(225ms), Peers{1});
}

// The job was suspended as a whole, and the peer wakes up after us.
TEST_F(SilenceOfTenPeriods, LoopThatWasAwayGivesEverybodyAFullNewDeadline) {
  detector_.watch(2, 15ms);
  tick_through(10ms, 20ms);
  EXPECT_EQ(tick(2000ms), Peers{});
  EXPECT_TRUE(detector_.was_away());
  EXPECT_EQ(detector_.next_deadline(), 2100ms);
  EXPECT_EQ(tick_through(2010ms, 2090ms), Peers{});
  EXPECT_FALSE(detector_.was_away());
  detector_.heard(2, 2095ms);
  EXPECT_EQ(tick(2100ms), Peers{1});
  EXPECT_EQ(tick_through(2110ms, 2190ms), Peers{});
  EXPECT_EQ(tick(2200ms), Peers{2});
}

TEST_F(SilenceOfTenPeriods, AwayIsHalfOfTheDeadline) {
  tick_through(10ms, 40ms);
  EXPECT_EQ(tick(89ms), Peers{});
  EXPECT_EQ(detector_.next_deadline(), 100ms);
  EXPECT_EQ(tick(99ms), Peers{});
  EXPECT_EQ(tick(149ms), Peers{});
  EXPECT_EQ(detector_.next_deadline(), 249ms);
}

TEST_F(SilenceOfTenPeriods, WhoeverIsSuspectedStaysSoWhenTheLoopWasAway) {
  EXPECT_EQ(tick_through(10ms, 100ms), Peers{1});
  EXPECT_EQ(tick(1000ms), Peers{});
  EXPECT_TRUE(detector_.suspected(1));
}

// So a peer that wants to run is left alone for all of 1 + 2 times suspect_after, however often the loop itself was
// away.
TEST_F(SilenceOfTenPeriods, WhatAnAbsenceGivesIsNotTakenFromTheExtensions) {
  EXPECT_EQ(tick(50ms), Peers{});
  EXPECT_TRUE(detector_.was_away());
  EXPECT_EQ(tick(100ms), Peers{});
  EXPECT_TRUE(detector_.was_away());
  EXPECT_EQ(tick_through(110ms, 200ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 200ms));
  EXPECT_EQ(tick_through(210ms, 300ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 300ms));
  EXPECT_EQ(tick_through(310ms, 400ms), Peers{1});
  EXPECT_FALSE(detector_.extend(1, 400ms));
}

// A loop that hardly ever runs must come to a verdict all the same.
TEST_F(SilenceOfTenPeriods, LoopThatIsAlwaysAwaySuspectsInTheEnd) {
  EXPECT_EQ(tick(200ms), Peers{});
  EXPECT_EQ(tick(400ms), Peers{});
  EXPECT_EQ(tick(600ms), Peers{});  // late, and it was inside
  EXPECT_EQ(tick(800ms), Peers{1});
}

TEST_F(Silence, LoopThatNeverTickedWasAway) {
  detector_.watch(1, 5000ms);
  EXPECT_EQ(tick(9000ms), Peers{});
  EXPECT_EQ(tick_through(9010ms, 9020ms), Peers{});
  EXPECT_EQ(tick(9030ms), Peers{1});
}

TEST_F(Silence, ExtensionBeginsTheDeadlineAnewAndSilenceGoesOn) {
  detector_.watch(1, 0ms);
  EXPECT_EQ(tick_through(10ms, 30ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 30ms));
  EXPECT_FALSE(detector_.suspected(1));
  EXPECT_EQ(detector_.next_deadline(), 60ms);
  EXPECT_EQ(detector_.silent_for(1, 50ms), 50ms);
  EXPECT_EQ(tick_through(40ms, 50ms), Peers{});
  EXPECT_EQ(tick(60ms), Peers{1});
}

TEST_F(Silence, ExtensionsAreLimitedUntilThePeerIsHeard) {
  detector_.watch(1, 0ms);
  EXPECT_EQ(tick_through(10ms, 30ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 30ms));
  EXPECT_EQ(tick_through(40ms, 60ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 60ms));
  detector_.heard(1, 65ms);  // two more from here
  EXPECT_EQ(tick_through(70ms, 100ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 100ms));
  EXPECT_EQ(tick_through(110ms, 130ms), Peers{1});
  EXPECT_TRUE(detector_.extend(1, 130ms));
  EXPECT_EQ(tick_through(140ms, 160ms), Peers{1});
  EXPECT_FALSE(detector_.extend(1, 160ms));
  EXPECT_TRUE(detector_.suspected(1));
  EXPECT_FALSE(detector_.extend(0, 160ms)) << "not watched";
}

TEST_F(Silence, NextDeadlineIsTheEarliest) {
  EXPECT_EQ(detector_.next_deadline(), std::nullopt);
  detector_.watch(0, 0ms);
  detector_.watch(1, 5ms);
  EXPECT_EQ(detector_.next_deadline(), 30ms);
  detector_.heard(0, 20ms);
  EXPECT_EQ(detector_.next_deadline(), 35ms);
}

TEST(SilenceOptions, BadOnesAreNamed) {
  const auto complaint = [](TimeoutDetector::Time period, TimeoutDetector::Time after) {
    const char* text = TimeoutDetector::validate({.heartbeat_period = period, .suspect_after = after});
    return std::string(text == nullptr ? "" : text);
  };
  EXPECT_EQ(complaint(10ms, 30ms), "");
  EXPECT_EQ(complaint(1ns, 3ns), "");
  EXPECT_EQ(complaint(0ms, 30ms).find("heartbeat_period"), 0u);
  EXPECT_EQ(complaint(-1ms, 30ms).find("heartbeat_period"), 0u);
  EXPECT_EQ(complaint(10ms, 29ms).find("suspect_after"), 0u);
  EXPECT_EQ(complaint(10ms, 30ms - 1ns).find("suspect_after"), 0u);
  EXPECT_EQ(complaint(TimeoutDetector::Time::max(), 1s).find("suspect_after"), 0u);
  EXPECT_EQ(complaint(10ms, TimeoutDetector::Time::max()).find("suspect_after"), 0u);
  EXPECT_EQ(TimeoutDetector::validate({}), nullptr);
}

// ---- processes ------------------------------------------------------------------------------------------------------

bool eventually(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// A heartbeat that parent and child see.
class SharedCounter {
 public:
  SharedCounter() {
    void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page, MAP_FAILED);
    counter_ = new (page) std::atomic<std::uint64_t>(0);
  }
  ~SharedCounter() { ::munmap(counter_, 4096); }
  std::atomic<std::uint64_t>* get() { return counter_; }

 private:
  std::atomic<std::uint64_t>* counter_;
};

// A forked process that runs `life` and then exits. It doesn't outlive the test.
class Child {
 public:
  explicit Child(const std::function<void()>& life) {
    const int parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) life();
      ::_exit(0);
    }
    EXPECT_GT(pid_, 0);
    start_time_ = process_start_time(pid_);
  }
  ~Child() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    reap();
  }
  int pid() const { return pid_; }
  std::uint64_t start_time() const { return start_time_; }
  void signal(int number) { EXPECT_EQ(::kill(pid_, number), 0); }
  int reap() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    reaped_ = true;
    return status;
  }
  // Waits until it has ended, and leaves it a zombie.
  void wait_for_zombie() {
    siginfo_t info;
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT), 0);
  }
  bool ended() {
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == pid_;
  }
  void stop() {
    signal(SIGSTOP);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

 private:
  int pid_;
  std::uint64_t start_time_;
  bool reaped_ = false;
};

void sleep_for_ever() {
  for (;;) ::pause();
}
void spin_for_ever() {
  for (volatile bool go_on = true; go_on;) {}
}
std::function<void()> beating(std::atomic<std::uint64_t>* heartbeat) {
  return [heartbeat] {
    for (;;) {
      heartbeat->fetch_add(1);
      ::usleep(1000);
    }
  };
}

// ---- ProcessWatch ---------------------------------------------------------------------------------------------------

Peers poll_until_somebody_dies(ProcessWatch& watch) {
  Peers dead;
  EXPECT_TRUE(eventually([&] {
    for (const std::int32_t rank : watch.poll(100ms)) dead.push_back(rank);
    return !dead.empty();
  }));
  return dead;
}

TEST(StartTime, IsThatOfTheProcess) {
  EXPECT_NE(process_start_time(::getpid()), 0u);
  EXPECT_EQ(process_start_time(::getpid()), process_start_time(::getpid()));
  Child child([] {});
  child.wait_for_zombie();
  EXPECT_EQ(process_start_time(child.pid()), child.start_time());
  child.reap();
  EXPECT_EQ(process_start_time(child.pid()), 0u);
}

TEST(StartTime, CommandNameWithBracketsDoesNotConfuse) {
  SharedCounter renamed;
  Child child([&] {
    ::prctl(PR_SET_NAME, "a) b (c) R 1 2");
    renamed.get()->store(1);
    sleep_for_ever();
  });
  ASSERT_TRUE(eventually([&] { return renamed.get()->load() == 1; }));
  EXPECT_EQ(process_start_time(child.pid()), child.start_time());
  ProcessWatch watch;
  watch.add(0, child.pid(), child.start_time());
  EXPECT_TRUE(eventually([&] { return watch.state(0) == ProcessState::sleeping; }));
}

TEST(ProcessWatch, KilledProcessIsReportedOnceEvenAsAZombie) {
  Child victim(sleep_for_ever), witness(sleep_for_ever);
  ProcessWatch watch;
  watch.add(7, victim.pid(), victim.start_time());
  watch.add(8, witness.pid(), witness.start_time());
  EXPECT_EQ(watch.poll(), Peers{});
  victim.signal(SIGKILL);
  EXPECT_EQ(poll_until_somebody_dies(watch), Peers{7});
  EXPECT_EQ(watch.state(7), ProcessState::dead);
  EXPECT_EQ(watch.poll(), Peers{});
  victim.reap();
  EXPECT_EQ(watch.poll(), Peers{});
  EXPECT_EQ(watch.state(7), ProcessState::dead);
  EXPECT_TRUE(watch.kill(7));
}

TEST(ProcessWatch, EpollDescriptorIsReadableWhileThereIsNews) {
  Child victim(sleep_for_ever);
  ProcessWatch watch;
  watch.add(0, victim.pid(), victim.start_time());
  pollfd news{watch.epoll_descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&news, 1, 0), 0);
  victim.signal(SIGKILL);
  EXPECT_EQ(::poll(&news, 1, 30000), 1);
  EXPECT_EQ(watch.poll(), Peers{0});
  EXPECT_EQ(::poll(&news, 1, 0), 0);
  EXPECT_NE(::fcntl(watch.epoll_descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ProcessWatch, ProcessGoneBeforeIsDeadAtOnce) {
  Child gone([] {}), zombie([] {});
  gone.reap();
  zombie.wait_for_zombie();
  ProcessWatch watch;
  watch.add(1, gone.pid(), gone.start_time());
  watch.add(2, zombie.pid(), zombie.start_time());
  watch.add(3, 0, 0);
  Peers dead = watch.poll();
  std::sort(dead.begin(), dead.end());
  EXPECT_EQ(dead, (Peers{1, 2, 3}));
  EXPECT_EQ(watch.poll(), Peers{});
  EXPECT_EQ(watch.state(1), ProcessState::dead);
  EXPECT_EQ(watch.state(2), ProcessState::dead);
  EXPECT_TRUE(watch.kill(1));
}

TEST(ProcessWatch, PidOfAnotherProcessIsDeadAtOnceAndThatProcessIsNotKilled) {
  Child stranger(sleep_for_ever);
  ProcessWatch watch;
  watch.add(1, stranger.pid(), stranger.start_time() - 1);
  EXPECT_EQ(watch.poll(), Peers{1});
  EXPECT_EQ(watch.state(1), ProcessState::dead);
  EXPECT_TRUE(watch.kill(1));
  ProcessWatch own;
  own.add(1, stranger.pid(), stranger.start_time());
  EXPECT_EQ(own.poll(50ms), Peers{}) << "the stranger must live";
  EXPECT_NE(own.state(1), ProcessState::dead);
}

TEST(ProcessWatch, PidThatIsNowAThreadIsDeadAtOnce) {
  SharedCounter thread_id;
  Child other([&] {
    std::thread([&] {
      thread_id.get()->store(static_cast<std::uint64_t>(::gettid()));
      sleep_for_ever();
    }).join();
  });
  ASSERT_TRUE(eventually([&] { return thread_id.get()->load() != 0; }));
  ProcessWatch watch;
  watch.add(1, static_cast<int>(thread_id.get()->load()), other.start_time());
  EXPECT_EQ(watch.poll(), Peers{1});
}

TEST(ProcessWatch, KillEndsTheProcess) {
  Child victim(sleep_for_ever);
  ProcessWatch watch;
  watch.add(5, victim.pid(), victim.start_time());
  EXPECT_TRUE(watch.kill(5));
  EXPECT_EQ(poll_until_somebody_dies(watch), Peers{5});
  const int status = victim.reap();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(ProcessWatch, TellsStoppedFromSleepingFromRunnable) {
  Child sleeper(sleep_for_ever), spinner(spin_for_ever);
  ProcessWatch watch;
  watch.add(0, sleeper.pid(), sleeper.start_time());
  watch.add(1, spinner.pid(), spinner.start_time());
  EXPECT_TRUE(eventually([&] { return watch.state(0) == ProcessState::sleeping; }));
  EXPECT_TRUE(eventually([&] { return watch.state(1) == ProcessState::runnable; }));
  sleeper.stop();
  spinner.stop();
  EXPECT_EQ(watch.state(0), ProcessState::stopped);
  EXPECT_EQ(watch.state(1), ProcessState::stopped);
  EXPECT_EQ(watch.poll(), Peers{}) << "stopped is not dead";
  spinner.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return watch.state(1) == ProcessState::runnable; }));
}

// A rank must not be taken for one that hangs because this process lacks descriptors.
TEST(ProcessWatch, WithoutADescriptorItCannotLook) {
  Child sleeper(sleep_for_ever);
  ProcessWatch watch;
  watch.add(0, sleeper.pid(), sleeper.start_time());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);  // the lowest that is free
  ASSERT_GE(next, 0);
  ASSERT_EQ(close(next), 0);
  const rlimit none_left{static_cast<rlim_t>(next), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  const ProcessState seen = watch.state(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(seen, ProcessState::unseen);
  EXPECT_TRUE(eventually([&] { return watch.state(0) == ProcessState::sleeping; }));
}

TEST(ProcessWatch, ARunnableThreadBehindASleepingOneIsSeen) {
  SharedCounter started;
  Child child([&] {
    std::thread([&] {
      started.get()->store(1);
      spin_for_ever();
    }).join();
  });
  ASSERT_TRUE(eventually([&] { return started.get()->load() == 1; }));
  ProcessWatch watch;
  watch.add(0, child.pid(), child.start_time());
  EXPECT_TRUE(eventually([&] { return watch.state(0) == ProcessState::runnable; }));
}

// The first thread of a process may end before the others: then its stat says 'Z', and the process lives.
TEST(ProcessWatch, ProcessLivesOnWithoutItsFirstThread) {
  SharedCounter heartbeat;
  Child child([&] {
    std::thread(beating(heartbeat.get())).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  });
  ProcessWatch watch;
  watch.add(0, child.pid(), child.start_time());
  ASSERT_TRUE(eventually([&] { return heartbeat.get()->load() > 10; }));
  EXPECT_EQ(watch.poll(), Peers{});
  EXPECT_NE(watch.state(0), ProcessState::dead);
  EXPECT_EQ(watch.ending(0), 0u);
}

TEST(ProcessWatch, OfTwoThreadsThatPollOneGetsTheDeath) {
  std::vector<std::unique_ptr<Child>> children;
  ProcessWatch watch;
  for (std::int32_t rank = 0; rank < 20; ++rank) {
    children.push_back(std::make_unique<Child>(sleep_for_ever));
    watch.add(rank, children.back()->pid(), children.back()->start_time());
  }
  std::atomic<int> found = 0;
  const auto look = [&] { eventually([&] { return (found += static_cast<int>(watch.poll(1ms).size())) >= 20; }); };
  std::thread one(look), other(look);
  for (auto& child : children) child->signal(SIGKILL);
  one.join();
  other.join();
  EXPECT_EQ(found, 20);
  EXPECT_EQ(watch.poll(), Peers{});
}

// ---- DetectorThread -------------------------------------------------------------------------------------------------

class Record : public DetectorThread::Listener {
 public:
  void on_verdict(const Verdict& verdict) override {
    const std::lock_guard lock(mutex_);
    verdicts_.push_back(verdict);
  }
  void on_tick() override { ++ticks; }
  void on_fenced(std::int32_t, std::chrono::nanoseconds silent_for, int by) override {
    EXPECT_GT(silent_for, 0ms);
    if (by != 0) tracer = by;  // before it counts: the test's thread reads it then
    (by == 0 ? fenced : traced) += 1;
  }
  std::atomic<int> fenced = 0, traced = 0, tracer = 0;

  std::vector<Verdict> all() const {
    const std::lock_guard lock(mutex_);
    return verdicts_;
  }
  bool wait_for(std::size_t count) const {
    return eventually([&] { return all().size() >= count; });
  }
  // Some more turns, in which nothing is to happen.
  bool wait_for_more_ticks(std::uint64_t count) const {
    const std::uint64_t before = ticks;
    return eventually([&] { return ticks >= before + count; });
  }
  std::atomic<std::uint64_t> ticks = 0;

 private:
  mutable std::mutex mutex_;
  std::vector<Verdict> verdicts_;
};

DetectorThread::Setup setup_for(Record& record, bool fence, std::chrono::milliseconds suspect_after = 60ms) {
  DetectorThread::Setup setup;
  setup.options = {.heartbeat_period = 5ms, .suspect_after = suspect_after, .extensions_limit = 10};
  setup.fence = fence;
  setup.fence_limit = 30s;
  setup.listener = &record;
  return setup;
}
constexpr auto never = 1h;  // silence plays no part

DetectorThread::Peer peer_of(std::int32_t rank, const Child& child, const std::atomic<std::uint64_t>* heartbeat) {
  return {rank, child.pid(), child.start_time(), heartbeat};
}

TEST(DetectorThread, DeathIsProvedOnce) {
  SharedCounter heartbeat;
  Child victim(beating(heartbeat.get())), witness(sleep_for_ever);
  Record record;
  DetectorThread detector(setup_for(record, true, never),
                          {peer_of(3, victim, heartbeat.get()), peer_of(4, witness, nullptr)});
  victim.signal(SIGKILL);
  ASSERT_TRUE(record.wait_for(1));
  ASSERT_TRUE(record.wait_for_more_ticks(3));
  detector.stop();
  ASSERT_EQ(record.all().size(), 1u);
  EXPECT_EQ(record.all()[0].rank, 3);
  EXPECT_EQ(record.all()[0].kind, Verdict::Kind::proved);
  EXPECT_EQ(record.all()[0].pid, victim.pid());
}

TEST(DetectorThread, DeadZombieAndReplacedPeersAreProvedAtTheStart) {
  Child gone([] {}), zombie([] {}), stranger(sleep_for_ever);
  gone.reap();
  zombie.wait_for_zombie();
  Record record;
  DetectorThread detector(setup_for(record, true, never), {peer_of(0, gone, nullptr),
                                                           peer_of(1, zombie, nullptr),
                                                           {2, stranger.pid(), stranger.start_time() + 1, nullptr}});
  ASSERT_TRUE(record.wait_for(3));
  for (const Verdict& verdict : record.all()) EXPECT_EQ(verdict.kind, Verdict::Kind::proved);
  EXPECT_EQ(::kill(stranger.pid(), 0), 0);
  EXPECT_EQ(process_start_time(stranger.pid()), stranger.start_time());
}

TEST(DetectorThread, StoppedPeerIsFencedAndThenProved) {
  SharedCounter heartbeat;
  Child victim(beating(heartbeat.get()));
  ASSERT_TRUE(eventually([&] { return heartbeat.get()->load() > 0; }));
  victim.stop();
  Record record;
  DetectorThread detector(setup_for(record, true), {peer_of(9, victim, heartbeat.get())});
  ASSERT_TRUE(record.wait_for(1));
  const Verdict verdict = record.all()[0];
  EXPECT_EQ(verdict.rank, 9);
  EXPECT_EQ(verdict.kind, Verdict::Kind::proved);
  EXPECT_GE(verdict.silent_for, 60ms);
  const int status = victim.reap();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ASSERT_TRUE(record.wait_for_more_ticks(30));
  EXPECT_EQ(record.all().size(), 1u);
}

// Of many peers most are looked at in their turn only: nobody is missed, and nobody who beats is taken for silent.
TEST(DetectorThread, OfManyPeersTheSilentOnesAreFencedWhereverTheyStand) {
  constexpr std::int32_t me = 12, ranks = 30;
  std::vector<std::unique_ptr<SharedCounter>> heartbeats;
  std::vector<std::unique_ptr<Child>> children;
  std::vector<DetectorThread::Peer> peers;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    if (rank == me) continue;
    heartbeats.push_back(std::make_unique<SharedCounter>());
    children.push_back(std::make_unique<Child>(beating(heartbeats.back()->get())));
    peers.push_back(peer_of(rank, *children.back(), heartbeats.back()->get()));
  }
  const auto child_of = [&](std::int32_t rank) -> Child& {
    return *children[static_cast<std::size_t>(rank - (rank > me))];
  };
  Record record;
  auto setup = setup_for(record, true, 300ms);
  setup.rank = me;
  DetectorThread detector(setup, peers);
  ASSERT_TRUE(record.wait_for_more_ticks(150));  // more than one round, and suspect_after
  EXPECT_EQ(record.all().size(), 0u);
  std::vector<std::int32_t> stopped = {me + 1, me - 1, 3, ranks - 1};
  for (const std::int32_t rank : stopped) child_of(rank).stop();
  ASSERT_TRUE(record.wait_for(stopped.size()));
  ASSERT_TRUE(record.wait_for_more_ticks(150));
  std::vector<std::int32_t> proved;
  for (const Verdict& verdict : record.all()) {
    EXPECT_EQ(verdict.kind, Verdict::Kind::proved) << verdict.rank;
    proved.push_back(verdict.rank);
  }
  std::sort(proved.begin(), proved.end());
  std::sort(stopped.begin(), stopped.end());
  EXPECT_EQ(proved, stopped);
}

// What a large process does: its memory goes, or is written to a file, before its pidfd says anything.
void touch(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  std::memset(memory, 1, bytes);
}

TEST(ProcessWatch, AnEndingProcessIsSeenBeforeItsPidfdSaysSo) {
  int seen = 0;
  for (int attempt = 0; attempt < 5 && seen == 0; ++attempt) {  // on a busy machine the end may come first
    SharedCounter ready;
    Child victim([&] {
      touch(std::size_t{1} << 30);
      ready.get()->store(1);
      sleep_for_ever();
    });
    ASSERT_TRUE(eventually([&] { return ready.get()->load() == 1; }));
    ProcessWatch watch;
    watch.add(5, victim.pid(), victim.start_time());
    EXPECT_EQ(watch.ending(5), 0u) << "it lives";
    victim.signal(SIGKILL);
    std::uint64_t threads = 0;
    while (watch.poll().empty())
      if (const std::uint64_t now = watch.ending(5); now != 0) {
        if (threads == now) ++seen;
        threads = now;
      }
    EXPECT_EQ(watch.ending(5), 0u) << "it has ended: nothing more to be seen";
  }
  EXPECT_GT(seen, 0);
}

bool is_dumping_or_over(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line == "CoreDumping:\t1" || line.starts_with("State:\tZ")) return true;
  return false;
}

TEST(DetectorThread, RankThatDumpsCoreIsProvedDeadAndItsDumpIsWhole) {
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (pattern.find('/') != std::string::npos || pattern.starts_with("|"))
    GTEST_SKIP() << "cores go elsewhere: " << pattern;
  const std::string folder = testing::TempDir() + "ucft_core_" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  constexpr std::size_t bytes = std::size_t{512} << 20;
  SharedCounter heartbeat;
  Child victim([&] {
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_CORE, &unlimited) != 0 || ::chdir(folder.c_str()) != 0) ::_exit(1);
    ::prctl(PR_SET_DUMPABLE, 1);
    touch(bytes);
    heartbeat.get()->store(1);
    ::signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  ASSERT_TRUE(eventually([&] { return heartbeat.get()->load() == 1; }));
  ASSERT_TRUE(eventually([&] { return is_dumping_or_over(victim.pid()); }));
  Record record;
  auto setup = setup_for(record, true);
  setup.options.extensions_limit = 0;  // so it would be fenced after 60 ms
  DetectorThread detector(setup, {peer_of(9, victim, heartbeat.get())});
  ASSERT_TRUE(record.wait_for(1));
  EXPECT_EQ(record.all()[0].kind, Verdict::Kind::proved);
  const int status = victim.reap();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && WCOREDUMP(status)) << status;
  std::uintmax_t dumped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) dumped += entry.file_size();
  EXPECT_GE(dumped, bytes);
  std::filesystem::remove_all(folder);
}

TEST(DetectorThread, StoppedPeerWithoutHeartbeatCounterIsFenced) {
  Child victim(sleep_for_ever);
  victim.stop();
  Record record;
  DetectorThread detector(setup_for(record, true), {peer_of(9, victim, nullptr)});
  ASSERT_TRUE(record.wait_for(1));
  EXPECT_EQ(record.all()[0].kind, Verdict::Kind::proved);
  EXPECT_GE(record.all()[0].silent_for, 60ms);
}

// As at a breakpoint. When the debugger has gone, and the process stands still all the same, it is silent like any
// other.
TEST(DetectorThread, APeerThatIsTracedIsLeftAloneForAsLongAsItIs) {
  for (const bool has_heartbeat : {true, false}) {
    Child victim(sleep_for_ever);
    SharedCounter heartbeat;
    ASSERT_EQ(::ptrace(PTRACE_SEIZE, victim.pid(), nullptr, nullptr), 0) << std::strerror(errno);
    ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, victim.pid(), nullptr, nullptr), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(victim.pid(), &status, __WALL), victim.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
    Record record;
    DetectorThread detector(setup_for(record, true), {peer_of(9, victim, has_heartbeat ? heartbeat.get() : nullptr)});
    ASSERT_TRUE(eventually([&] { return record.traced == 1; }));
    EXPECT_EQ(record.tracer, ::getpid());
    ASSERT_TRUE(record.wait_for_more_ticks(60));  // five times suspect_after
    EXPECT_EQ(record.traced, 1);
    EXPECT_EQ(record.fenced, 0);
    EXPECT_TRUE(record.all().empty());
    victim.signal(SIGSTOP);  // it takes that as soon as it may go on: between the two it would sleep, and be killed
    ASSERT_EQ(::ptrace(PTRACE_DETACH, victim.pid(), nullptr, nullptr), 0);
    ASSERT_TRUE(record.wait_for(1));
    EXPECT_EQ(record.all()[0].kind, Verdict::Kind::proved);
    EXPECT_EQ(record.fenced, 1);
  }
}

// As in a job of several hosts, which can't see that it is traced.
TEST(DetectorThread, APeerThatIsTracedIsFencedWhereItIsNotSpared) {
  Child victim(sleep_for_ever);
  SharedCounter heartbeat;
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, victim.pid(), nullptr, nullptr), 0) << std::strerror(errno);
  Record record;
  auto setup = setup_for(record, true);
  setup.spares_traced = false;
  DetectorThread detector(setup, {peer_of(9, victim, heartbeat.get())});
  ASSERT_TRUE(eventually([&] { return record.fenced == 1; }));
  EXPECT_EQ(record.traced, 0);
}

TEST(DetectorThread, SleepingPeerWithoutHeartbeatCounterIsLeftAlone) {
  Child sleeper(sleep_for_ever);
  Record record;
  DetectorThread detector(setup_for(record, true), {peer_of(9, sleeper, nullptr)});
  ASSERT_TRUE(record.wait_for_more_ticks(60));  // five times suspect_after
  EXPECT_EQ(record.all().size(), 0u);
}

// As in start-up, where a peer's own detector may begin later than this one.
TEST(DetectorThread, SilenceCountsWhenItIsToldTo) {
  SharedCounter heartbeat;
  Child late(sleep_for_ever);
  Record record;
  auto setup = setup_for(record, false);
  setup.silence_counts = false;
  DetectorThread detector(setup, {peer_of(2, late, heartbeat.get())});
  ASSERT_TRUE(record.wait_for_more_ticks(60));  // five times suspect_after
  EXPECT_EQ(record.all().size(), 0u);
  detector.count_silence();
  ASSERT_TRUE(record.wait_for(1));
  EXPECT_EQ(record.all()[0].kind, Verdict::Kind::suspected);
  EXPECT_GE(record.all()[0].silent_for, 60ms);
}

// The heartbeat after the suspicion comes too late: it must not shorten the silence in the later verdict, either.
TEST(DetectorThread, WithoutFencingSilenceIsSuspectedOnceAndDeathProvedAfterwards) {
  SharedCounter heartbeat;
  Child victim(sleep_for_ever);
  Record record;
  DetectorThread detector(setup_for(record, false), {peer_of(2, victim, heartbeat.get())});
  victim.stop();
  ASSERT_TRUE(record.wait_for(1));
  EXPECT_EQ(record.all()[0].kind, Verdict::Kind::suspected);
  EXPECT_GE(record.all()[0].silent_for, 60ms);
  ASSERT_TRUE(record.wait_for_more_ticks(30));
  ASSERT_EQ(record.all().size(), 1u);
  heartbeat.get()->fetch_add(1);
  ASSERT_TRUE(record.wait_for_more_ticks(2));
  victim.signal(SIGKILL);
  ASSERT_TRUE(record.wait_for(2));
  EXPECT_EQ(record.all()[1].kind, Verdict::Kind::proved);
  EXPECT_GE(record.all()[1].silent_for, record.all()[0].silent_for);
}

TEST(DetectorThread, SilenceOfAPeerThatIsProvedDeadIsNotSuspected) {
  SharedCounter heartbeat;
  Child victim([] {});
  victim.wait_for_zombie();
  for (const bool fence : {false, true}) {
    Record record;
    auto setup = setup_for(record, fence);
    setup.fence_limit = 1ms;
    DetectorThread detector(setup, {peer_of(0, victim, heartbeat.get())});
    ASSERT_TRUE(record.wait_for_more_ticks(30));
    ASSERT_EQ(record.all().size(), 1u);
    EXPECT_EQ(record.all()[0].kind, Verdict::Kind::proved);
  }
}

TEST(DetectorThread, StarvedPeerGetsTenExtensionsAndIsThenSuspected) {
  SharedCounter heartbeat;
  Child starved(spin_for_ever);
  Record record;
  DetectorThread detector(setup_for(record, false, 20ms), {peer_of(0, starved, heartbeat.get())});
  ASSERT_TRUE(record.wait_for(1));
  EXPECT_EQ(record.all()[0].kind, Verdict::Kind::suspected);
  EXPECT_GE(record.all()[0].silent_for, 11 * 20ms);
}

TEST(DetectorThread, OwnHeartbeatAdvancesAndPokeMakesATurn) {
  std::atomic<std::uint64_t> heartbeat = 0;
  Record record;
  auto setup = setup_for(record, true, never);
  setup.own_heartbeat = &heartbeat;
  DetectorThread detector(setup, {});
  EXPECT_TRUE(eventually([&] { return heartbeat >= 3; }));
  detector.stop();
  setup.options.heartbeat_period = 1min;
  setup.options.suspect_after = 1h;
  const std::uint64_t before = heartbeat;
  DetectorThread slow(setup, {});
  EXPECT_TRUE(eventually([&] { return heartbeat == before + 1; }));
  slow.poke();
  EXPECT_TRUE(eventually([&] { return heartbeat == before + 2; }));
}

TEST(DetectorThread, LookingFromAnotherThreadNeitherLosesNorRepeatsADeath) {
  std::vector<std::unique_ptr<Child>> children;
  std::vector<DetectorThread::Peer> peers;
  for (std::int32_t rank = 0; rank < 20; ++rank) {
    children.push_back(std::make_unique<Child>(sleep_for_ever));
    peers.push_back(peer_of(rank, *children.back(), nullptr));
  }
  Record record;
  DetectorThread detector(setup_for(record, true, never), peers);
  for (auto& child : children) child->signal(SIGKILL);
  int seen_here = 0;
  EXPECT_TRUE(eventually([&] {
    seen_here += detector.look_now();
    return record.all().size() >= 20;
  }));
  ASSERT_TRUE(record.wait_for_more_ticks(3));
  std::vector<int> verdicts_of(20);
  for (const Verdict& verdict : record.all()) ++verdicts_of[static_cast<std::size_t>(verdict.rank)];
  EXPECT_EQ(verdicts_of, std::vector<int>(20, 1));
  EXPECT_LE(seen_here, 20);
}

TEST(DetectorThread, LookingWorksAfterStop) {
  Child victim(sleep_for_ever);
  Record record;
  DetectorThread detector(setup_for(record, true, never), {peer_of(1, victim, nullptr)});
  detector.stop();
  detector.stop();
  EXPECT_EQ(detector.look_now(), 0);
  victim.signal(SIGKILL);
  victim.wait_for_zombie();
  EXPECT_TRUE(eventually([&] { return detector.look_now() == 1; }));
  EXPECT_EQ(detector.look_now(), 0);
  EXPECT_EQ(record.all().size(), 1u);
}

TEST(DetectorThread, DestructorInAForkedChildReturnsAndLeavesTheParentsThreadAtWork) {
  Child victim(sleep_for_ever);
  Record record;
  auto detector =
      std::make_unique<DetectorThread>(setup_for(record, true, never), std::vector{peer_of(1, victim, nullptr)});
  {
    Child fork_of_this([&] { detector.reset(); });
    ASSERT_TRUE(eventually([&] { return fork_of_this.ended(); }));
    EXPECT_EQ(fork_of_this.reap(), 0);
  }
  victim.signal(SIGKILL);
  EXPECT_TRUE(record.wait_for(1));
}

TEST(DetectorThread, ThreadIsNamedAndBlocksSignals) {
  struct Seen : DetectorThread::Listener {
    void on_verdict(const Verdict&) override {}
    void on_tick() override {
      if (done) return;
      pthread_getname_np(pthread_self(), name, sizeof(name));
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      done = true;
    }
    std::atomic<bool> done = false;
    char name[16] = {};
    sigset_t mask;
  } seen;
  DetectorThread::Setup setup;
  setup.listener = &seen;
  DetectorThread detector(setup, {});
  ASSERT_TRUE(eventually([&] { return seen.done.load(); }));
  EXPECT_STREQ(seen.name, "ucft-detector");
  EXPECT_EQ(sigismember(&seen.mask, SIGTERM), 1);
  EXPECT_EQ(sigismember(&seen.mask, SIGUSR1), 1);
  sigset_t here;
  pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGTERM), 0) << "the creator's mask is restored";
}

}  // namespace
}  // namespace ucft::detail

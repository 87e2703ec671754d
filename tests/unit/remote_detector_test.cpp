// DetectorThread and peers of other hosts: what it makes of their words, their silence, and the ends of their
// lifelines. Over loopback; the other end is played by hand. Waits have a bound of 30 s.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <vector>

#include "timeout_detector/detector_thread.hpp"

namespace ucft::detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto never = 1h;

// One peer, rank 7, and its end of the lifeline in our hands.
class Afar : public testing::Test, private DetectorThread::Listener {
 protected:
  // Our end; peer_ is the other one.
  Lifeline connect() {
    LifelineMaker of_us, of_peer;
    std::string error;
    EXPECT_TRUE(of_us.listen(error) && of_peer.listen(error)) << error;
    Lifeline ours;
    std::thread other([&] { peer_ = std::move(of_peer.connect(7, 1, {{2, of_us.name()}}, 10s, {}).at(0)); });
    ours = std::move(of_us.connect(2, 1, {{7, of_peer.name()}}, 10s, {}).at(0));
    other.join();
    return ours;
  }
  void start(std::chrono::nanoseconds suspect_after) {
    Lifeline ours = connect();
    ASSERT_TRUE(ours.is_open() && peer_.is_open());
    start(suspect_after, std::move(ours));
  }
  void start(std::chrono::nanoseconds suspect_after, Lifeline ours) {
    DetectorThread::Setup setup;
    setup.options = {.heartbeat_period = 5ms, .suspect_after = suspect_after, .extensions_limit = 10};
    setup.listener = this;
    std::vector<DetectorThread::RemotePeer> peers;
    peers.push_back({7, 4711, std::move(ours)});
    detector_ = std::make_unique<DetectorThread>(setup, std::vector<DetectorThread::Peer>{}, std::move(peers));
  }
  // Its first turn reads all these words of the peer.
  void start_after(std::initializer_list<LifelineWord> words) {
    Lifeline ours = connect();
    for (const LifelineWord word : words) peer_.say(word);
    pollfd said{ours.descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&said, 1, 30000), 1);
    start(never, std::move(ours));
  }
  void TearDown() override { detector_.reset(); }  // its thread calls us: it ends while we are still an Afar
  void on_tick() override {
    ++ticks_;
    if (const auto time = absent_for_.exchange(0ms); time > 0ms) std::this_thread::sleep_for(time);
    if (Clock::now() >= beats_from_.load()) peer_.say(LifelineWord::heartbeat);
  }
  void on_excluded(std::int32_t) override { ++excluded_; }
  void on_line_lost(std::int32_t) override { ++lost_; }
  void on_left(std::int32_t, bool) override {
    verdicts_at_leave_ = verdicts().size();
    excluded_at_leave_ = excluded_.load();
    ++left_;
  }
  void on_verdict(const Verdict& verdict) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(verdict.rank, 7);
    EXPECT_EQ(verdict.pid, 4711);
    kinds_.push_back(verdict.kind);
    excluded_at_verdict_ = excluded_.load();
  }
  std::vector<Verdict::Kind> verdicts() {
    const std::lock_guard lock(mutex_);
    return kinds_;
  }
  template <class Done>
  static bool eventually(Done done) {
    for (const auto until = Clock::now() + 30s; Clock::now() < until; std::this_thread::sleep_for(1ms))
      if (done()) return true;
    return done();
  }
  void let_it_turn(std::uint64_t times) {
    const std::uint64_t before = ticks_;
    ASSERT_TRUE(eventually([&] { return ticks_ >= before + times; }));
  }
  // The next words that the peer hears.
  Lifeline::News next_news() {
    Lifeline::News news;
    eventually([&] {
      news = peer_.listen();
      return news.heartbeat || news.leave || news.excluded || news.out || news.end != Lifeline::End::none;
    });
    return news;
  }
  // All words that the peer hears from a detector that stops.
  Lifeline::News last_words() {
    std::thread stopping([&] { detector_->stop(); });
    Lifeline::News all;
    EXPECT_TRUE(eventually([&] {
      const Lifeline::News news = peer_.listen();
      all.out |= news.out;
      all.excluded |= news.excluded;
      all.leave |= news.leave;
      return all.leave;
    }));
    peer_.close();
    stopping.join();
    return all;
  }
  void reset_connection() {
    const linger at_once{1, 0};
    setsockopt(peer_.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    peer_.close();
  }

  using Kinds = std::vector<Verdict::Kind>;
  static constexpr auto suspected = Verdict::Kind::suspected, proved = Verdict::Kind::proved;
  std::atomic<std::chrono::milliseconds> absent_for_{};  // the detector's thread, once: its next turn takes so long
  Lifeline peer_;
  std::atomic<Clock::time_point> beats_from_ = Clock::time_point::max();  // the peer, at each turn of our detector
  std::atomic<std::uint64_t> ticks_ = 0;
  std::atomic<int> excluded_ = 0, left_ = 0, lost_ = 0, excluded_at_leave_ = 0, excluded_at_verdict_ = 0;
  std::atomic<std::size_t> verdicts_at_leave_ = 0;
  std::mutex mutex_;
  Kinds kinds_;
  std::unique_ptr<DetectorThread> detector_;
};

TEST_F(Afar, BothSidesBeatAndNothingHappens) {
  start(10s);
  EXPECT_TRUE(next_news().heartbeat);
  peer_.say(LifelineWord::heartbeat);
  let_it_turn(20);
  EXPECT_EQ(verdicts(), Kinds{});
}

// Three deadlines more, and what silence costs otherwise. (The bound is from below: a loaded machine takes longer.)
TEST_F(Afar, AStarvedHostIsGivenMoreTime) {
  constexpr auto suspect_after = 60ms;
  Lifeline ours = connect();
  const auto said = Clock::now();
  peer_.say(LifelineWord::starved);
  start(suspect_after, std::move(ours));
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  EXPECT_GE(Clock::now() - said, 4 * suspect_after);
  EXPECT_EQ(verdicts(), Kinds{suspected});
}

TEST_F(Afar, AThreadThatHasRunLateSaysSoAndGivesOthersMoreTime) {
  constexpr auto suspect_after = 60ms;
  absent_for_ = 200ms;
  start(suspect_after);
  ASSERT_TRUE(eventually([&] { return next_news().starved; }));
  const auto said = Clock::now();
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  EXPECT_GE(Clock::now() - said, 2 * suspect_after);
  EXPECT_EQ(verdicts(), Kinds{suspected});
}

TEST_F(Afar, SilenceIsSuspectedOnceAndHearsNoMoreHeartbeats) {
  start(60ms);
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  let_it_turn(3);
  peer_.listen();
  let_it_turn(20);
  EXPECT_EQ(verdicts(), Kinds{suspected});
  EXPECT_FALSE(peer_.listen().heartbeat);
  detector_->tell_excluded(7);
  EXPECT_TRUE(next_news().excluded);
}

// "No byte for suspect_after, and a quarter of it more": a byte in that quarter counts. It comes from the detector's
// own thread, after the first turn that sees the silence: so it is there in the next turn, however late that is.
TEST_F(Afar, AHeartbeatInTheLastQuarterIsInTime) {
  start(2s);
  beats_from_ = Clock::now() + 2s;
  std::this_thread::sleep_for(3s);
  let_it_turn(20);
  EXPECT_EQ(verdicts(), Kinds{});
}

TEST_F(Afar, TheEndOfTheLifelineIsProof) {
  start(never);
  peer_.close();
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  let_it_turn(10);
  EXPECT_EQ(verdicts(), Kinds{proved});
}

TEST_F(Afar, AResetIsProofIfTheRankWasHeardJustBefore) {
  start(never);
  peer_.say(LifelineWord::heartbeat);
  reset_connection();
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  EXPECT_EQ(verdicts(), Kinds{proved});
}

// The peer's kernel may have given the connection up, and the peer live on.
TEST_F(Afar, AResetAfterALongSilenceIsNoProof) {
  start(400ms);
  std::this_thread::sleep_for(300ms);
  reset_connection();
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  let_it_turn(10);
  EXPECT_EQ(verdicts(), Kinds{suspected});
}

TEST_F(Afar, WhoLeavesIsNotReportedAsFailed) {
  Lifeline ours = connect();
  ASSERT_TRUE(ours.is_open() && peer_.is_open());
  Lifeline* const lines[] = {&peer_};
  std::thread leaving([&] { leave(lines, 30s, LifelineWord::leave); });  // until the detector has closed its end
  pollfd word{ours.descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&word, 1, 30000), 1);
  start(200ms, std::move(ours));  // not before, or it could be silence that comes first
  leaving.join();
  ASSERT_TRUE(eventually([&] { return left_ > 0; }));
  let_it_turn(60);
  EXPECT_EQ(verdicts(), Kinds{});
  EXPECT_EQ(left_, 1);
}

TEST_F(Afar, WhoSaysThatItIsOutIsProvedDead) {
  start(never);
  peer_.say(LifelineWord::out);
  ASSERT_TRUE(eventually([&] { return !verdicts().empty(); }));
  EXPECT_EQ(verdicts(), Kinds{proved});
}

TEST_F(Afar, ThatWeAreExcludedIsHandedOn) {
  start(never);
  peer_.say(LifelineWord::excluded);
  EXPECT_TRUE(eventually([&] { return excluded_ == 1; }));
}

// Once the rank is known to be out, or to have left, its word does not count any more.
TEST_F(Afar, ThatWeAreExcludedByALeaverIsHandedOnFirst) {
  start_after({LifelineWord::excluded, LifelineWord::out, LifelineWord::leave});
  ASSERT_TRUE(eventually([&] { return left_ > 0; }));
  EXPECT_EQ(excluded_at_verdict_, 1);
  EXPECT_EQ(excluded_at_leave_, 1);
}

TEST_F(Afar, WeSayThatARankIsExcludedAlsoIfWeLeaveAtOnce) {
  start(never);
  let_it_turn(2);
  absent_for_ = 200ms;  // the detector's thread has no turn before it ends
  let_it_turn(1);
  detector_->tell_excluded(7);
  EXPECT_TRUE(last_words().excluded);
}

TEST_F(Afar, WeSayThatWeAreOut) {
  start(100ms);
  detector_->declare_out();
  EXPECT_TRUE(eventually([&] { return peer_.listen().out; }));
}

// Its last words may be read together: who is out has not finished its part, and must not be taken for one that just
// leaves.
TEST_F(Afar, WhoIsOutAndThenLeavesIsProvedDeadFirst) {
  start_after({LifelineWord::out, LifelineWord::leave});
  ASSERT_TRUE(eventually([&] { return left_ > 0; }));
  EXPECT_EQ(verdicts_at_leave_, 1u);
}

TEST_F(Afar, WeSayThatWeAreOutAlsoIfWeLeaveAtOnce) {
  start(never);
  let_it_turn(2);  // the next heartbeat is far away
  detector_->declare_out();
  EXPECT_TRUE(last_words().out);
}

TEST_F(Afar, TheDetectorSaysThatItLeaves) {
  start(never);
  std::thread stopping([&] { detector_->stop(); });
  bool leave = false, end = false;
  EXPECT_TRUE(eventually([&] {
    const Lifeline::News news = peer_.listen();
    leave |= news.leave;
    end |= news.end == Lifeline::End::closed;
    return leave && end;
  }));
  stopping.join();
}

// An error of our own kernel says nothing of the peer, and our closing the connection would look like our end.
TEST_F(Afar, OfARankWhoseLifelineIsLostNothingIsConcluded) {
  const int unconnected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  start(60ms, Lifeline(unconnected));
  ASSERT_TRUE(eventually([&] { return lost_ == 1; }));
  let_it_turn(60);
  EXPECT_EQ(verdicts(), Kinds{});
  EXPECT_EQ(lost_, 1);
  EXPECT_GE(fcntl(unconnected, F_GETFD), 0) << "closed";
}

}  // namespace
}  // namespace ucft::detail

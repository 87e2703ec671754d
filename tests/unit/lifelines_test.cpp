// Lifelines: who has one with whom, how they are made, and what their ends say. Over loopback.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/own_network.hpp"
#include "timeout_detector/lifelines.hpp"

namespace ucft::detail {
namespace {

using namespace std::chrono_literals;

// Two ends in one process: rank 3 calls rank 5.
struct Pair {
  Lifeline three, five;
  Pair() {
    LifelineMaker of_three, of_five;
    std::string error;
    EXPECT_TRUE(of_three.listen(error)) << error;
    EXPECT_TRUE(of_five.listen(error)) << error;
    std::thread other([&] { five = std::move(of_five.connect(5, 77, {{3, of_three.name()}}, 10s, {}).at(0)); });
    three = std::move(of_three.connect(3, 77, {{5, of_five.name()}}, 10s, {}).at(0));
    other.join();
  }
};

TEST(LifelinesInTheirOwnNetwork, AreMadeOverIpv6AloneAndOverIpv4Alone) {
  for (const test::Loopback which : {test::Loopback::six_only, test::Loopback::four_only}) {
    const test::OwnNetwork network(which);
    if (!network.problem().empty()) GTEST_SKIP() << network.problem();
    Pair pair;
    EXPECT_TRUE(pair.three.is_open() && pair.five.is_open());
  }
}

// A kernel that closes a connection with unread bytes resets it.
bool is_by_kernel(Lifeline::End end) { return end == Lifeline::End::closed || end == Lifeline::End::reset; }

Lifeline::News wait_for_news(Lifeline& line) {
  pollfd entry{line.descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 10000), 1);
  return line.listen();
}

TEST(Lifelines, CarryEachWordBothWays) {
  Pair pair;
  ASSERT_TRUE(pair.three.is_open() && pair.five.is_open());
  EXPECT_FALSE(pair.three.listen().heartbeat);
  pair.three.say(LifelineWord::heartbeat);
  const Lifeline::News first = wait_for_news(pair.five);
  EXPECT_TRUE(first.heartbeat && !first.leave && !first.excluded && !first.out && first.end == Lifeline::End::none);
  pair.five.say(LifelineWord::excluded);
  EXPECT_TRUE(wait_for_news(pair.three).excluded);
  pair.five.say(LifelineWord::out);
  EXPECT_TRUE(wait_for_news(pair.three).out);
}

// Unread heartbeats on the leaver's side make the kernel reset the connection, unless care is taken.
TEST(Lifelines, ALeaversWordArrivesBeforeTheEnd) {
  Pair pair;
  ASSERT_TRUE(pair.three.is_open() && pair.five.is_open());
  for (int i = 0; i < 100; ++i) pair.five.say(LifelineWord::heartbeat);
  Lifeline* const lines[] = {&pair.three};
  leave(lines, 50ms, LifelineWord::leave);
  const Lifeline::News news = wait_for_news(pair.five);
  EXPECT_TRUE(news.leave);
}

TEST(Lifelines, AProcessThatIsKilledClosesItsEnds) {
  LifelineMaker of_parent, of_child;
  std::string error;
  ASSERT_TRUE(of_parent.listen(error) && of_child.listen(error)) << error;
  const LifelineName parent = of_parent.name(), child = of_child.name();
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lines = of_child.connect(9, 1, {{2, parent}}, 10s, {});
    while (lines.at(0).is_open()) pause();
    _exit(1);
  }
  auto lines = of_parent.connect(2, 1, {{9, child}}, 10s, {});
  ASSERT_TRUE(lines.at(0).is_open());
  EXPECT_EQ(lines[0].listen().end, Lifeline::End::none);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(is_by_kernel(wait_for_news(lines[0]).end));
  EXPECT_FALSE(lines[0].is_open());
}

// A rank that is killed may have started other processes, which live on.
TEST(Lifelines, AProcessThatIsKilledClosesItsEndsAlsoIfItHasForked) {
  LifelineMaker of_parent, of_child;
  std::string error;
  ASSERT_TRUE(of_parent.listen(error) && of_child.listen(error)) << error;
  const LifelineName parent = of_parent.name(), child = of_child.name();
  int end_of_test[2];
  ASSERT_EQ(pipe(end_of_test), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(end_of_test[1]);
    const auto lines = of_child.connect(9, 1, {{2, parent}}, 10s, {});
    if (fork() == 0) {  // lives on until the test is over
      char nothing;
      _exit(read(end_of_test[0], &nothing, 1) == 0 ? 0 : 1);
    }
    pause();
    _exit(1);
  }
  auto lines = of_parent.connect(2, 1, {{9, child}}, 10s, {});
  ASSERT_TRUE(lines.at(0).is_open());
  std::this_thread::sleep_for(300ms);  // until it has forked
  EXPECT_EQ(lines[0].listen().end, Lifeline::End::none) << "a fork must not end it";
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(is_by_kernel(wait_for_news(lines[0]).end));
  close(end_of_test[0]);
  close(end_of_test[1]);
}

TEST(Lifelines, AnotherJobAndAnotherRankAreTurnedAway) {
  struct Case {
    std::uint64_t job;
    std::int32_t caller, called;
  };
  for (const Case& each : {Case{78, 3, 5}, Case{77, 4, 5}, Case{77, 3, 6}}) {
    LifelineMaker of_three, of_five;
    std::string error;
    ASSERT_TRUE(of_three.listen(error) && of_five.listen(error)) << error;
    Lifeline five;
    std::thread other([&] { five = std::move(of_five.connect(5, 77, {{3, of_three.name()}}, 300ms, {}).at(0)); });
    EXPECT_FALSE(of_three.connect(each.caller, each.job, {{each.called, of_five.name()}}, 300ms, {}).at(0).is_open());
    other.join();
    EXPECT_FALSE(five.is_open()) << each.job << " " << each.caller << " " << each.called;
  }
}

TEST(Lifelines, AnAddressThatLeadsNowhereIsSkipped) {
  LifelineMaker of_three, of_five;
  std::string error;
  ASSERT_TRUE(of_three.listen(error) && of_five.listen(error)) << error;
  LifelineName name = of_five.name();
  name.count = std::min<std::uint16_t>(static_cast<std::uint16_t>(name.count + 1), LifelineName::most_addresses);
  std::rotate(name.addresses.begin(), name.addresses.end() - 1, name.addresses.end());
  name.addresses[0] = {0, 0, 0,    0,    0,   0,   0,   0,
                       0, 0, 0xff, 0xff, 127, 255, 255, 254};  // nobody listens there, or only we
  Lifeline five;
  std::thread other([&] { five = std::move(of_five.connect(5, 1, {{3, of_three.name()}}, 10s, {}).at(0)); });
  EXPECT_TRUE(of_three.connect(3, 1, {{5, name}}, 10s, {}).at(0).is_open());
  other.join();
  EXPECT_TRUE(five.is_open());
}

// A caller that is played by hand, over loopback: greets, and is answered if the other side is there.
class HandMadeCaller {
 public:
  explicit HandMadeCaller(const LifelineName& called) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(called.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval limit{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~HandMadeCaller() { hang_up(); }
  HandMadeCaller(const HandMadeCaller&) = delete;
  HandMadeCaller& operator=(const HandMadeCaller&) = delete;

  void greet(std::uint64_t job, std::int32_t from, std::int32_t to) {
    const Greeting greeting{job, from, to};
    EXPECT_EQ(send(socket_, &greeting, sizeof greeting, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof greeting));
  }
  bool is_answered() {
    Greeting answer;
    return recv(socket_, &answer, sizeof answer, MSG_WAITALL) == static_cast<ssize_t>(sizeof answer);
  }
  void confirm() { EXPECT_EQ(send(socket_, "k", 1, MSG_NOSIGNAL), 1); }
  int descriptor() const { return socket_; }
  void hang_up() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

 private:
  struct Greeting {
    std::uint64_t job;
    std::int32_t from, to;
  };
  int socket_ = -1;
};

// Rank 5 has answered, rank 3 has given up before it read the answer: the end that follows is no proof of anything,
// since rank 3 doesn't know of a lifeline.
TEST(Lifelines, AnAnswerThatIsNotConfirmedMakesNoLifeline) {
  LifelineMaker of_five;
  std::string error;
  ASSERT_TRUE(of_five.listen(error)) << error;
  HandMadeCaller three(of_five.name());
  three.greet(77, 3, 5);  // before rank 5 looks, which is certain to answer then
  Lifeline five;
  std::thread other([&] { five = std::move(of_five.connect(5, 77, {{3, {}}}, 500ms, {}).at(0)); });
  EXPECT_TRUE(three.is_answered());
  three.hang_up();
  other.join();
  EXPECT_FALSE(five.is_open());
}

// While rank 5 was away, rank 3 has tried it several times. Only the connection that it holds on to counts.
TEST(Lifelines, ConnectionsThatTheCallerHasDroppedDontCount) {
  LifelineMaker of_five;
  std::string error;
  ASSERT_TRUE(of_five.listen(error)) << error;
  HandMadeCaller first(of_five.name()), second(of_five.name()), third(of_five.name());
  for (HandMadeCaller* each : {&first, &second, &third}) each->greet(77, 3, 5);
  first.hang_up();
  Lifeline five;
  std::thread other([&] { five = std::move(of_five.connect(5, 77, {{3, {}}}, 10s, {}).at(0)); });
  EXPECT_TRUE(second.is_answered());
  second.hang_up();
  EXPECT_TRUE(third.is_answered());
  third.confirm();
  other.join();
  ASSERT_TRUE(five.is_open());
  EXPECT_EQ(five.listen().end, Lifeline::End::none);
  five.say(LifelineWord::out);
  char byte = 0;
  EXPECT_EQ(recv(third.descriptor(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'o');
}

// Stopped, say, while the others made theirs: longer than anybody is patient with one address.
TEST(Lifelines, WhoComesLateGetsALifelineThatWorks) {
  LifelineMaker of_three(20ms), of_five(20ms);
  std::string error;
  ASSERT_TRUE(of_three.listen(error) && of_five.listen(error)) << error;
  Lifeline three, five;
  std::thread late([&] {
    std::this_thread::sleep_for(400ms);
    five = std::move(of_five.connect(5, 77, {{3, of_three.name()}}, 10s, {}).at(0));
  });
  three = std::move(of_three.connect(3, 77, {{5, of_five.name()}}, 10s, {}).at(0));
  late.join();
  ASSERT_TRUE(three.is_open() && five.is_open());
  three.say(LifelineWord::heartbeat);
  const Lifeline::News news = wait_for_news(five);
  EXPECT_TRUE(news.heartbeat && news.end == Lifeline::End::none);
}

// So many call that the kernel drops what comes then, for longer than anybody is patient with one address. The one who
// is called is played by hand, and takes nothing before its caller has tried for a while.
TEST(Lifelines, WhoIsCalledByTooManyIsCalledAgain) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  LifelineName name{};
  name.port = ntohs(address.sin_port);
  name.count = 1;
  name.addresses[0] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  std::vector<int> strangers;
  for (bool is_full = false; !is_full && strangers.size() < 100;) {
    strangers.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    (void)!connect(strangers.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    pollfd made{strangers.back(), POLLOUT, 0};
    is_full = poll(&made, 1, 100) == 0;
  }
  ASSERT_LT(strangers.size(), 100u) << "the queue is never full";

  LifelineMaker of_three(20ms);
  std::atomic<bool> has_waited = false, is_over = false;
  bool is_confirmed = false;
  std::thread five([&] {
    while (!has_waited && !is_over) std::this_thread::yield();
    fcntl(listener, F_SETFL, O_NONBLOCK);
    std::vector<int> accepted;
    while (!is_over) {
      if (const int made = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); made >= 0)
        accepted.push_back(made);
      for (const int each : accepted) {
        struct {
          std::uint64_t job;
          std::int32_t from, to;
        } greeting{};
        if (recv(each, &greeting, sizeof greeting, MSG_PEEK) != sizeof greeting) continue;
        (void)!recv(each, &greeting, sizeof greeting, 0);
        std::swap(greeting.from, greeting.to);
        EXPECT_EQ(send(each, &greeting, sizeof greeting, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof greeting));
      }
      std::this_thread::yield();
    }
    for (const int each : accepted) {
      char word = 0;
      is_confirmed |= recv(each, &word, 1, 0) == 1 && word == 'k';
      close(each);
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto wait = [&] { has_waited = has_waited || std::chrono::steady_clock::now() - begin > 200ms; };
  const Lifeline three = std::move(of_three.connect(3, 77, {{5, name}}, 30s, wait).at(0));
  EXPECT_TRUE(three.is_open());
  is_over = true;
  five.join();
  EXPECT_TRUE(is_confirmed);
  for (const int each : strangers) close(each);
  close(listener);
}

int open_descriptors() {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) count += !each.path().empty();
  return count;
}

// Strangers who have greeted by half hold a descriptor of the rank that they call. They must not hold all of them.
TEST(Lifelines, StrangersAreLimitedAndThePeerGetsItsLifeline) {
  LifelineMaker of_three, of_five;
  std::string error;
  ASSERT_TRUE(of_three.listen(error) && of_five.listen(error)) << error;
  std::vector<std::unique_ptr<HandMadeCaller>> strangers;
  for (int i = 0; i < 400; ++i) {
    strangers.push_back(std::make_unique<HandMadeCaller>(of_five.name()));
    EXPECT_EQ(send(strangers.back()->descriptor(), "half", 4, MSG_NOSIGNAL), 4);
  }
  const int before = open_descriptors();
  int most = 0;
  Lifeline five;
  std::thread other([&] {
    five = std::move(
        of_five.connect(5, 77, {{3, of_three.name()}}, 10s, [&] { most = std::max(most, open_descriptors()); }).at(0));
  });
  const Lifeline three = std::move(of_three.connect(3, 77, {{5, of_five.name()}}, 10s, {}).at(0));
  other.join();
  EXPECT_TRUE(three.is_open());
  EXPECT_TRUE(five.is_open());
  EXPECT_GE(most, before) << "the look itself works";
  EXPECT_LE(most, before + 80);
}

// As fast as they can, from four threads, for as long as lifelines are made.
TEST(Lifelines, AreMadeUnderAttack) {
  for (int round = 0; round < 10; ++round) {
    LifelineMaker of_three, of_five;
    std::string error;
    ASSERT_TRUE(of_three.listen(error) && of_five.listen(error)) << error;
    std::atomic<bool> end = false;
    std::atomic<int> made = 0;
    std::vector<std::thread> attack;
    for (int way = 0; way < 4; ++way)
      attack.emplace_back([&, way] {
        std::deque<int> open;
        while (!end) {
          const int each = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
          const linger reset{1, 0};
          setsockopt(each, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
          sockaddr_in address{};
          address.sin_family = AF_INET;
          address.sin_port = htons(of_five.name().port);
          address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          (void)!connect(each, reinterpret_cast<const sockaddr*>(&address), sizeof address);
          const char wrong[16] = "not a greeting!";
          if (way < 3) (void)!send(each, wrong, way == 0 ? 5 : sizeof wrong, MSG_NOSIGNAL);
          open.push_back(each);
          ++made;
          for (; open.size() > (way == 2 ? 0u : 200u); open.pop_front()) close(open.front());
        }
        for (const int each : open) close(each);
      });
    while (made < 500) std::this_thread::yield();
    Lifeline five;
    std::thread other([&] { five = std::move(of_five.connect(5, 77, {{3, of_three.name()}}, 30s, {}).at(0)); });
    const Lifeline three = std::move(of_three.connect(3, 77, {{5, of_five.name()}}, 30s, {}).at(0));
    other.join();
    end = true;
    for (auto& each : attack) each.join();
    EXPECT_TRUE(three.is_open() && five.is_open()) << "round " << round << ", " << made << " strangers";
    if (HasFailure()) break;
  }
}

TEST(LifelineGaps, NameWhoIsMissingAndAllIfThereAreTooMany) {
  LifelineGaps none, some, many;
  some.add(7);
  for (std::int32_t rank = 0; rank <= LifelineGaps::most; ++rank) many.add(1000 + rank);
  EXPECT_FALSE(none.include(7));
  EXPECT_TRUE(some.include(7) && !some.include(8));
  EXPECT_TRUE(many.include(1000) && many.include(8)) << "who can't name them all has no lifeline that counts";
}

TEST(Lifelines, WhoDoesNotComeIsLeftOutAfterTheLimit) {
  LifelineMaker maker;
  std::string error;
  ASSERT_TRUE(maker.listen(error)) << error;
  LifelineName nobody;  // has no port
  const auto lines = maker.connect(4, 1, {{2, nobody}, {7, nobody}}, 50ms, {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_FALSE(lines[0].is_open());
  EXPECT_FALSE(lines[1].is_open());
}

}  // namespace
}  // namespace ucft::detail

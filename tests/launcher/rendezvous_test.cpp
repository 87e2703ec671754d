// The rendezvous with a server thread and ranks as threads of this process.
#include "ucx_layer/bootstrap/rendezvous.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "tests/file_text.hpp"
#include "tests/own_network.hpp"
#include "ucx_layer/bootstrap/rendezvous_server.hpp"

namespace ucft::detail::bootstrap {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::microseconds long_limit = 30s;
constexpr std::chrono::microseconds short_limit = 200ms;  // for tests in which it passes

// The server with a loop like the launcher's.
class ServerThread {
 public:
  explicit ServerThread(int size, std::chrono::microseconds startup_limit = 30s)
      : ServerThread(RendezvousServer::Options{.size = size, .startup_limit = startup_limit}) {}
  explicit ServerThread(RendezvousServer::Options options) {
    options.secret = secret;
    options.log = [this](const std::string& line) { log_ += line + "\n"; };  // under mutex_, as all of the server
    std::string error;
    server_ = RendezvousServer::listen(options, error);
    EXPECT_NE(server_, nullptr) << error;
    thread_ = std::thread([this] { loop(); });
  }
  ~ServerThread() {
    end_ = true;
    thread_.join();
  }

  void rank_exits(int rank, const std::string& how) {
    const std::lock_guard lock(mutex_);
    server_->on_rank_exit(rank, 4711, how);
  }
  std::string address() const { return server_->address(); }
  int port() const { return server_->port(); }
  bool start_up_ended() {
    const std::lock_guard lock(mutex_);
    return server_->start_up_ended();
  }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  bool logs(const std::string& text) {
    for (int i = 0; i < 3000; ++i) {
      if (log().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  const Secret secret = random_secret();

 private:
  void loop() {
    while (!end_) {
      std::vector<pollfd> entries;
      {
        const std::lock_guard lock(mutex_);
        server_->add_poll_entries(entries, std::chrono::steady_clock::now());
      }
      poll(entries.data(), entries.size(), 5);
      const std::lock_guard lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      for (const pollfd& entry : entries) {
        if (entry.revents) server_->on_ready(entry.fd, entry.revents, now);
      }
      server_->on_timer(now);
    }
  }

  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<RendezvousServer> server_;
  std::atomic<bool> end_ = false;
  std::thread thread_;
};

struct Identity {
  std::string rank, size, address, secret;
};

// The environment belongs to the process, the ranks are threads: one at a time.
std::unique_ptr<Rendezvous> connect_as(const Identity& identity, std::string& error,
                                       std::chrono::microseconds limit = long_limit) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  setenv("UCFT_RANK", identity.rank.c_str(), 1);
  setenv("UCFT_SIZE", identity.size.c_str(), 1);
  setenv("UCFT_RENDEZVOUS", identity.address.c_str(), 1);
  setenv("UCFT_JOB_SECRET", identity.secret.c_str(), 1);
  return Rendezvous::connect(limit, error);
}

Identity identity_of(const ServerThread& server, int rank, int size) {
  return {std::to_string(rank), std::to_string(size), server.address(), secret_to_hex(server.secret)};
}

std::unique_ptr<Rendezvous> connect_rank(const ServerThread& server, int rank, int size) {
  std::string error;
  auto rendezvous = connect_as(identity_of(server, rank, size), error);
  EXPECT_NE(rendezvous, nullptr) << error;
  return rendezvous;
}

void on_each_rank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (auto& thread : threads) thread.join();
}

std::vector<char> contribution_of(int rank, std::size_t bytes) {
  std::vector<char> contribution(bytes);
  for (std::size_t i = 0; i < bytes; ++i) contribution[i] = static_cast<char>(static_cast<std::size_t>(rank) * 31 + i);
  return contribution;
}

void expect_round(Rendezvous& rendezvous, std::size_t bytes) {
  std::vector<char> expected;
  for (int rank = 0; rank < rendezvous.size(); ++rank) {
    const auto part = contribution_of(rank, bytes);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  const auto own = contribution_of(rendezvous.rank(), bytes);
  std::vector<char> received(expected.size());
  std::string error;
  EXPECT_TRUE(rendezvous.allgather(own.data(), received.data(), bytes, long_limit, error)) << error;
  EXPECT_TRUE(received == expected) << bytes << " bytes, rank " << rendezvous.rank();
}

void expect_job_of(const ServerThread& server, int size) {
  on_each_rank(size, [&](int rank) {
    const auto rendezvous = connect_rank(server, rank, size);
    ASSERT_NE(rendezvous, nullptr);
    expect_round(*rendezvous, 16);
    rendezvous->close();
  });
}

// The error text of an allgather that must fail.
std::string failing_allgather(Rendezvous& rendezvous, std::chrono::microseconds limit = long_limit) {
  std::string error;
  std::vector<char> received(static_cast<std::size_t>(rendezvous.size()), 'x');
  const char own = 1;
  EXPECT_FALSE(rendezvous.allgather(&own, received.data(), 1, limit, error));
  EXPECT_EQ(received, std::vector<char>(received.size(), 'x')) << "outputs are written on success only";
  return error;
}

// As a rank whose place is given.
std::unique_ptr<Rendezvous> take_seat(const ServerThread& server, int rank, int size, std::string& error) {
  return Rendezvous::connect({rank, size, server.address(), server.secret}, long_limit, error);
}

class Stranger {
 public:
  explicit Stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  Stranger(Stranger&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  Stranger& operator=(Stranger&&) = delete;
  ~Stranger() {
    if (socket_ >= 0) ::close(socket_);
  }
  void send(std::string_view bytes) const { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // The type of the frame that the other side sends; nothing: it has closed the connection.
  std::optional<FrameType> answer() const {
    const timeval limit{30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    FrameHeader header;
    if (::recv(socket_, &header, sizeof header, MSG_WAITALL) != static_cast<ssize_t>(sizeof header))
      return std::nullopt;
    return header.type;
  }

 private:
  int socket_;
};

// Four threads that connect to a port as fast as they can, and don't know the secret. `all`: each in its own way. They
// end their connections by a reset, so that no ports are left in TIME_WAIT.
class Attack {
 public:
  enum Way { wrong_secret, silent, half_a_greeting, hang_up, all };

  Attack(int port, Way way) : port_(port) {
    for (int i = 0; i < 4; ++i) threads_.emplace_back([this, way, i] { run(way == all ? static_cast<Way>(i) : way); });
    while (made_ < 500) std::this_thread::yield();  // under way; the server takes some of them at least
  }
  ~Attack() {
    end_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Attack(const Attack&) = delete;
  Attack& operator=(const Attack&) = delete;

 private:
  static constexpr std::size_t held = 200;  // connections by each thread at a time

  void run(Way way) {
    Hello guess;
    guess.size = 2;
    const std::string greeting = make_frame(FrameType::Hello, bytes_of(guess));
    std::deque<int> open;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (!end_) {
      const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);  // a full backlog must not stop us
      if (made < 0) continue;
      const linger reset{1, 0};
      setsockopt(made, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      ::connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address);
      if (way == wrong_secret) ::send(made, greeting.data(), greeting.size(), MSG_NOSIGNAL);
      if (way == half_a_greeting) ::send(made, greeting.data(), greeting.size() / 2, MSG_NOSIGNAL);
      open.push_back(made);
      ++made_;
      while (open.size() > (way == hang_up ? 0 : held)) {
        ::close(open.front());
        open.pop_front();
      }
    }
    for (const int each : open) ::close(each);
  }

  int port_;
  std::atomic<bool> end_ = false;
  std::atomic<int> made_ = 0;
  std::vector<std::thread> threads_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Rendezvous, RoundsGatherInRankOrderForAnySize) {
  const int size = 4;
  const ServerThread server(size);
  on_each_rank(size, [&](int rank) {
    const auto rendezvous = connect_rank(server, rank, size);
    ASSERT_NE(rendezvous, nullptr);
    for (const std::size_t bytes : {0u, 1u, 8u, 1000u, 1u << 20, 0u, 3u}) expect_round(*rendezvous, bytes);
    rendezvous->close();
  });
}

TEST(Rendezvous, ARankAloneNeedsNobody) {
  const ServerThread server(1);
  expect_job_of(server, 1);
}

TEST(Rendezvous, ASecondStartUpAfterTheFirstWorks) {
  const ServerThread server(3);
  expect_job_of(server, 3);
  expect_job_of(server, 3);
}

TEST(Rendezvous, AWrongSecretIsDroppedAndTheJobGoesOn) {
  ServerThread server(2);
  Identity identity = identity_of(server, 0, 2);
  identity.secret = secret_to_hex(random_secret());
  std::string error;
  EXPECT_EQ(connect_as(identity, error), nullptr);
  EXPECT_TRUE(contains(error, "refused by the rendezvous: its job secret is wrong")) << error;
  EXPECT_TRUE(server.logs("its job secret is wrong"));
  expect_job_of(server, 2);
}

TEST(Rendezvous, GarbageIsDroppedAndTheJobGoesOn) {
  ServerThread server(2);
  Stranger web_browser(server.port());
  web_browser.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(server.logs("does not follow the protocol"));
  expect_job_of(server, 2);
}

TEST(Rendezvous, AnOversizeFrameOfAStrangerIsDroppedAndTheJobGoesOn) {
  ServerThread server(2);
  FrameHeader header;
  header.type = FrameType::Hello;
  header.payload_bytes = std::uint64_t{1} << 60;
  Stranger stranger(server.port());
  stranger.send(bytes_of(header));
  EXPECT_TRUE(server.logs("does not follow the protocol"));
  expect_job_of(server, 2);
}

TEST(Rendezvous, SilentStrangersDoNotCrowdOutTheRanks) {
  ServerThread server(2);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 200; ++i) strangers.emplace_back(server.port());
  EXPECT_TRUE(server.logs("there are too many silent ones")) << "their number is bounded";
  expect_job_of(server, 2);
}

std::string greeting_of(const ServerThread& server, std::uint32_t rank, std::uint32_t size, std::int64_t began) {
  Hello hello;
  hello.secret = server.secret;
  hello.rank = rank;
  hello.size = size;
  hello.pid = 77;
  hello.began = began;
  return make_frame(FrameType::Hello, bytes_of(hello));
}

// It has connected, and gets no processor for a while.
TEST(Rendezvous, ARankThatIsSlowToSpeakIsNotPushedOutBySilentStrangers) {
  const ServerThread server(2);
  const Stranger rank(server.port());
  std::vector<Stranger> strangers;
  for (int i = 0; i < 200; ++i) strangers.emplace_back(server.port());
  rank.send(greeting_of(server, 0, 2, 1));
  EXPECT_EQ(rank.answer(), FrameType::Welcome);
}

TEST(Rendezvous, OneOfARanksAttemptsIsWelcomedAndTheOthersEndWithoutHarm) {
  const ServerThread server(2);
  const auto other = connect_rank(server, 1, 2);
  const Stranger first(server.port());
  first.send(greeting_of(server, 0, 2, 5));
  EXPECT_EQ(first.answer(), FrameType::Welcome);
  {
    const Stranger again(server.port());
    again.send(greeting_of(server, 0, 2, 5));
    EXPECT_EQ(again.answer(), std::nullopt);
  }
  const ContributionHead head{30'000'000};
  std::thread contributes(
      [&] { first.send(make_frame(FrameType::Contribution, bytes_of(head), std::string(16, 'x'))); });
  std::vector<char> own(16), received(32);
  std::string error;
  EXPECT_TRUE(other->allgather(own.data(), received.data(), 16, long_limit, error)) << error;
  contributes.join();
  EXPECT_EQ(first.answer(), FrameType::Result);
  first.send(make_frame(FrameType::Done));
  // One that was still on its way when the rank had finished is not taken for the rank's next start-up, and its end not
  // for the rank's.
  const Stranger late(server.port());
  late.send(greeting_of(server, 0, 2, 5));
  EXPECT_EQ(late.answer(), std::nullopt);
  const auto next = connect_rank(server, 0, 2);
  ASSERT_NE(next, nullptr);
  on_each_rank(2, [&](int rank) { expect_round(rank ? *other : *next, 4); });
}

// A server that is played by hand.
class HandMadeServer {
 public:
  HandMadeServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~HandMadeServer() { ::close(listener_); }
  HandMadeServer(const HandMadeServer&) = delete;
  HandMadeServer& operator=(const HandMadeServer&) = delete;
  const std::string& address() const { return address_; }
  // A connection on which Hello has come; -1 after 30 s.
  int greeted() const {
    pollfd entry{listener_, POLLIN, 0};
    if (poll(&entry, 1, 30'000) != 1) return -1;
    const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    char hello[sizeof(FrameHeader) + sizeof(Hello)];
    EXPECT_EQ(recv(made, hello, sizeof hello, MSG_WAITALL), static_cast<ssize_t>(sizeof hello));
    return made;
  }

 private:
  int listener_;
  std::string address_;
};

TEST(Rendezvous, ARankThatIsPushedOutComesBack) {
  const HandMadeServer server;
  std::string error;
  std::unique_ptr<Rendezvous> rank;
  std::thread arrives([&] { rank = connect_as({"0", "2", server.address(), std::string(64, '0')}, error); });
  for (int i = 0; i < 3; ++i) ::close(server.greeted());
  const int made = server.greeted();
  const std::string welcome = make_frame(FrameType::Welcome);
  EXPECT_EQ(::send(made, welcome.data(), welcome.size(), MSG_NOSIGNAL), static_cast<ssize_t>(welcome.size()));
  arrives.join();
  EXPECT_NE(rank, nullptr) << error;
  ::close(made);
}

// Its connection is lost in a full queue, say. It must not be given up: the launcher would take its end for the rank's.
TEST(Rendezvous, ARankThatIsNotAnsweredTriesAgainAndKeepsItsFirstConnection) {
  const HandMadeServer server;
  std::string error;
  std::unique_ptr<Rendezvous> rank;
  std::thread arrives([&] { rank = connect_as({"0", "2", server.address(), std::string(64, '0')}, error); });
  const int first = server.greeted();
  const int second = server.greeted();
  char byte = 0;
  EXPECT_EQ(recv(first, &byte, 1, MSG_DONTWAIT), -1) << "still open";
  const std::string welcome = make_frame(FrameType::Welcome);
  EXPECT_EQ(::send(second, welcome.data(), welcome.size(), MSG_NOSIGNAL), static_cast<ssize_t>(welcome.size()));
  arrives.join();
  EXPECT_NE(rank, nullptr) << error;
  EXPECT_EQ(recv(first, &byte, 1, 0), 0) << "and is closed once another one is welcomed";
  ::close(first);
  ::close(second);
}

// Strangers that have said something, not all, hold all descriptors that the launcher has left.
TEST(Rendezvous, ARankGetsTheDescriptorOfAStranger) {
  const ServerThread server(1);
  std::string error;
  const Identity identity = identity_of(server, 0, 1);
  int held[2], go[2], begin[2];
  for (int* ends : {held, go, begin}) ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const auto wait_for = [](const int* ends) {
    char byte = 0;
    return read(ends[0], &byte, 1) == 1;
  };
  const auto say = [](const int* ends) { return write(ends[1], "x", 1) == 1; };
  const pid_t strangers = fork();
  if (strangers == 0) {
    if (!wait_for(begin)) _exit(1);
    const std::string greeting = greeting_of(server, 0, 1, 1);
    std::vector<Stranger> all;
    for (int i = 0; i < 60; ++i) {
      all.emplace_back(server.port());
      all.back().send(greeting.substr(0, 20));
    }
    if (!say(held)) _exit(1);
    pause();  // until it is killed
    _exit(0);
  }
  const pid_t rank = fork();
  if (rank == 0) {
    if (!wait_for(go)) _exit(3);
    setenv("UCFT_RANK", "0", 1);
    setenv("UCFT_SIZE", "1", 1);
    setenv("UCFT_RENDEZVOUS", identity.address.c_str(), 1);
    setenv("UCFT_JOB_SECRET", identity.secret.c_str(), 1);
    const auto rendezvous = Rendezvous::connect(5s, error);
    if (rendezvous == nullptr) std::fprintf(stderr, "%s\n", error.c_str());
    if (rendezvous != nullptr) rendezvous->close();
    _exit(rendezvous == nullptr ? 1 : 0);
  }
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  const int next = dup(0);  // the lowest that is free
  ::close(next);
  low.rlim_cur = static_cast<rlim_t>(next) + 10;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(say(begin) && wait_for(held) && say(go));
  int status = -1;
  EXPECT_EQ(waitpid(rank, &status, 0), rank);
  EXPECT_EQ(status, 0);
  setrlimit(RLIMIT_NOFILE, &before);
  for (const int* ends : {held, go, begin})
    for (int i = 0; i < 2; ++i) ::close(ends[i]);
  kill(strangers, SIGKILL);
  waitpid(strangers, nullptr, 0);
}

// A rank that has the secret must not be pushed out by those who haven't, however many they are.
class RendezvousUnderAttack : public testing::TestWithParam<Attack::Way> {};

TEST_P(RendezvousUnderAttack, TheJobStarts) {
  const ServerThread server(4);
  const Attack attack(server.port(), GetParam());
  for (int i = 0; i < 10 && !HasFailure(); ++i) expect_job_of(server, 4);
}

INSTANTIATE_TEST_SUITE_P(Ways, RendezvousUnderAttack,
                         testing::Values(Attack::wrong_secret, Attack::silent, Attack::half_a_greeting, Attack::hang_up,
                                         Attack::all));

TEST(Rendezvous, ASecondProcessWithTheSameRankIsRefused) {
  const ServerThread server(2);
  const auto first = connect_rank(server, 0, 2);
  std::string error;
  EXPECT_EQ(connect_as(identity_of(server, 0, 2), error), nullptr);
  EXPECT_TRUE(contains(error, "rank 0 is connected already, as pid " + std::to_string(getpid()))) << error;
  const auto other = connect_rank(server, 1, 2);
  on_each_rank(2, [&](int rank) { expect_round(rank ? *other : *first, 4); });
}

TEST(Rendezvous, AnotherJobSizeIsRefused) {
  const ServerThread server(2);
  std::string error;
  EXPECT_EQ(connect_as(identity_of(server, 0, 3), error), nullptr);
  EXPECT_TRUE(contains(error, "for one of 3 ranks, not 2")) << error;
  expect_job_of(server, 2);
}

// ---- ranks that are absent ----

TEST(RendezvousOfSome, RoundsEndWithoutAbsentRanksAndHaveZerosOfThem) {
  for (const std::vector<bool>& absent : std::vector<std::vector<bool>>{
           {false, true, false, false}, {true, false, false, false}, {true, true, true, false}}) {
    ServerThread server({.size = 4, .absent = absent});
    EXPECT_FALSE(server.start_up_ended());
    on_each_rank(4, [&](int rank) {
      if (absent[static_cast<std::size_t>(rank)]) return;
      std::string error;
      const auto rendezvous = take_seat(server, rank, 4, error);
      ASSERT_NE(rendezvous, nullptr) << error;
      for (const std::size_t bytes : {std::size_t{5}, std::size_t{0}, std::size_t{100000}}) {
        std::vector<char> received(4 * bytes, 'x'), expected;
        for (int each = 0; each < 4; ++each) {
          const auto part =
              absent[static_cast<std::size_t>(each)] ? std::vector<char>(bytes, '\0') : contribution_of(each, bytes);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        const auto own = contribution_of(rank, bytes);
        EXPECT_TRUE(rendezvous->allgather(own.data(), received.data(), bytes, long_limit, error)) << error;
        EXPECT_TRUE(received == expected) << bytes << " bytes, rank " << rank;
      }
      EXPECT_FALSE(server.start_up_ended());
      rendezvous->close();
    });
    for (int i = 0; i < 1000 && !server.start_up_ended(); ++i) std::this_thread::sleep_for(5ms);
    EXPECT_TRUE(server.start_up_ended());
  }
}

TEST(RendezvousOfSome, AnAbsentRankThatComesIsRefused) {
  const ServerThread server({.size = 3, .absent = {false, false, true}});
  std::string error;
  EXPECT_EQ(take_seat(server, 2, 3, error), nullptr);
  EXPECT_EQ(error, "refused by the rendezvous: rank 2 is absent from this job: its place stays empty");
}

TEST(RendezvousOfSome, OnlyRanksThatAreThereAreMissed) {
  const ServerThread server({.size = 3, .startup_limit = short_limit, .absent = {true, false, false}});
  std::string error;
  const auto rendezvous = take_seat(server, 2, 3, error);
  ASSERT_NE(rendezvous, nullptr) << error;
  EXPECT_EQ(failing_allgather(*rendezvous), "rank 1 did not arrive within 200 ms");
}

TEST(RendezvousOfSome, ContributionsOfDifferentSizesAreNamedBesideAbsentRanks) {
  const ServerThread server({.size = 3, .absent = {true, false, false}});
  on_each_rank(3, [&](int rank) {
    if (rank == 0) return;
    std::string error;
    const auto rendezvous = take_seat(server, rank, 3, error);
    ASSERT_NE(rendezvous, nullptr) << error;
    std::vector<char> own(8), received(24);
    EXPECT_FALSE(rendezvous->allgather(own.data(), received.data(), static_cast<std::size_t>(rank), long_limit, error));
    EXPECT_EQ(error, "rank 2 contributed 2 bytes to a round of start-up, rank 1 1");
  });
}

// Over IPv4 and IPv6, as far as this machine has them.
TEST(RendezvousOnAllInterfaces, IsReachedByEveryAddressOfTheHost) {
  for (const std::string host : {"127.0.0.1", "127.0.0.2", "[::1]"}) {
    const ServerThread server({.size = 1, .any_interface = true});
    if (host == "[::1]" && server.address().front() != '[') GTEST_SKIP() << "NOT TESTED: there is no IPv6";
    std::string error;
    const auto rendezvous =
        Rendezvous::connect({0, 1, host + ":" + std::to_string(server.port()), server.secret}, long_limit, error);
    ASSERT_NE(rendezvous, nullptr) << error;
    expect_round(*rendezvous, 16);
    rendezvous->close();
  }
}

TEST(RendezvousSeat, WhatIsWrongIsSaid) {
  std::string error;
  EXPECT_EQ(Rendezvous::connect({3, 3, "127.0.0.1:1", {}}, short_limit, error), nullptr);
  EXPECT_EQ(error, "there is no rank 3 among 3");
  EXPECT_EQ(Rendezvous::connect({0, 3, "somewhere:1", {}}, short_limit, error), nullptr);
  EXPECT_TRUE(contains(error, "somewhere:1, is not of the form")) << error;
  EXPECT_EQ(Rendezvous::connect({0, 3, "127.0.0.1:1", {}}, short_limit, error), nullptr);
  EXPECT_TRUE(contains(error, "cannot reach the server's rendezvous at 127.0.0.1:1: ")) << error;
}

TEST(Rendezvous, ARankThatDiesIsNamedToThoseWhoWaitAndToThoseWhoCome) {
  const ServerThread server(4);
  auto dying = connect_rank(server, 3, 4);
  const auto late = connect_rank(server, 2, 4);
  const auto first = connect_rank(server, 0, 4);
  const auto second = connect_rank(server, 1, 4);
  std::thread death([&] {
    std::this_thread::sleep_for(50ms);  // so that mostly the others wait by then; right in any order
    dying.reset();
  });
  const std::string expected = "rank 3 (pid " + std::to_string(getpid()) + ") died during start-up";
  on_each_rank(2, [&](int rank) { EXPECT_EQ(failing_allgather(rank ? *second : *first), expected); });
  death.join();
  EXPECT_EQ(failing_allgather(*late), expected);
  EXPECT_EQ(failing_allgather(*first), expected);
}

TEST(Rendezvous, ARankWhoseEndTheLauncherSawIsNamed) {
  ServerThread server(2);
  const auto rendezvous = connect_rank(server, 0, 2);
  server.rank_exits(1, "signal 9 (Killed)");
  EXPECT_EQ(server.log(), "") << "nobody waits, nobody is told";
  EXPECT_EQ(failing_allgather(*rendezvous), "rank 1 (pid 4711) died during start-up: signal 9 (Killed)");
  EXPECT_TRUE(server.logs("start-up failed: rank 1 (pid 4711)"));
}

TEST(Rendezvous, ARankThatNeverConnectsIsNamed) {
  const ServerThread server(3, 2s);  // both others must have contributed before it passes
  const auto first = connect_rank(server, 0, 3);
  const auto second = connect_rank(server, 1, 3);
  on_each_rank(
      2, [&](int rank) { EXPECT_EQ(failing_allgather(rank ? *second : *first), "rank 2 did not arrive within 2 s"); });
}

TEST(Rendezvous, ARankThatConnectsButDoesNotTakePartIsNamed) {
  const ServerThread server(2, short_limit);
  const auto first = connect_rank(server, 0, 2);
  const auto idle = connect_rank(server, 1, 2);
  EXPECT_EQ(failing_allgather(*first),
            "rank 1 (pid " + std::to_string(getpid()) + ") connected, but did not arrive within 200 ms");
}

TEST(Rendezvous, AllMissingRanksAreNamedWhenTheFirstLimitPasses) {
  const ServerThread server(12);
  const auto first = connect_rank(server, 0, 12);
  EXPECT_EQ(failing_allgather(*first, short_limit),
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more did not arrive within 200 ms");
}

TEST(Rendezvous, ContributionsOfDifferentSizesAreNamed) {
  const ServerThread server(2);
  const auto first = connect_rank(server, 0, 2);
  const auto second = connect_rank(server, 1, 2);
  std::vector<char> bytes(64);
  on_each_rank(2, [&](int rank) {
    std::string error;
    EXPECT_FALSE((rank ? *second : *first).allgather(bytes.data(), bytes.data() + 16, rank ? 8 : 4, long_limit, error));
    EXPECT_EQ(error, "rank 1 contributed 8 bytes to a round of start-up, rank 0 4");
  });
}

TEST(Rendezvous, AnOversizeContributionIsRefusedBeforeItIsSent) {
  const ServerThread server(1);
  const auto rendezvous = connect_rank(server, 0, 1);
  std::vector<char> bytes(max_contribution_bytes + 1);
  std::string error;
  EXPECT_FALSE(rendezvous->allgather(bytes.data(), bytes.data(), bytes.size(), long_limit, error));
  EXPECT_TRUE(contains(error, "more than the rendezvous carries")) << error;
  expect_round(*rendezvous, 4);
}

TEST(Rendezvous, ARankThatBreaksTheProtocolIsNamed) {
  ServerThread server(2);
  const auto honest = connect_rank(server, 0, 2);
  Hello hello;
  hello.secret = server.secret;
  hello.rank = 1;
  hello.size = 2;
  hello.pid = 77;
  Stranger rogue(server.port());
  rogue.send(make_frame(FrameType::Hello, bytes_of(hello)) + std::string(64, 'z'));
  EXPECT_EQ(failing_allgather(*honest), "rank 1 (pid 77) broke the protocol of start-up");
}

TEST(Rendezvous, NobodyAtTheAddressIsAnErrorThatSaysSo) {
  std::string error;
  std::string address;
  {
    const ServerThread server(1);
    address = server.address();
  }
  EXPECT_EQ(connect_as({"0", "1", address, std::string(64, '0')}, error), nullptr);
  EXPECT_TRUE(contains(error, "cannot reach the launcher's rendezvous at " + address)) << error;
}

// ---- networks of the test's own ----

TEST(RendezvousInItsOwnNetwork, WorksWhereThereIsOnlyIpv6) {
  const test::OwnNetwork network(test::Loopback::six_only);
  if (!network.problem().empty()) GTEST_SKIP() << network.problem();
  const ServerThread server(3);
  EXPECT_TRUE(server.address().starts_with("[::1]:")) << server.address();
  expect_job_of(server, 3);
  expect_job_of(server, 3);
}

TEST(RendezvousInItsOwnNetwork, WorksWhereThereIsOnlyIpv4) {
  const test::OwnNetwork network(test::Loopback::four_only);
  if (!network.problem().empty()) GTEST_SKIP() << network.problem();
  const ServerThread server(3);
  EXPECT_TRUE(server.address().starts_with("127.0.0.1:")) << server.address();
  expect_job_of(server, 3);
}

// Strangers hold all ports from which 127.0.0.1 may connect to the launcher.
TEST(RendezvousInItsOwnNetwork, ARankFindsAWayWhenThePortsAreUsedUp) {
  const test::OwnNetwork network(test::Loopback::both);
  if (!network.problem().empty()) GTEST_SKIP() << network.problem();
  const ServerThread server(2);
  const std::string range = "/proc/sys/net/ipv4/ip_local_port_range";
  const int limits = open(range.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string few = "40000 40015";
  if (write(limits, few.data(), few.size()) != static_cast<ssize_t>(few.size()))
    GTEST_SKIP() << "NOT TESTED: " << range << " can't be set";
  ::close(limits);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 16; ++i) {
    strangers.push_back(std::make_unique<Stranger>(server.port()));
    strangers.back()->send("half");
  }
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(probe, reinterpret_cast<sockaddr*>(&address), sizeof address), -1) << "no port is left";
  ::close(probe);
  std::string error;  // before the server drops the silent ones, after 10 s; others would take their ports again
  EXPECT_NE(connect_as(identity_of(server, 0, 2), error, 5s), nullptr) << error;
}

TEST(RendezvousEnvironment, EachFaultNamesItsVariable) {
  const std::string secret(64, 'a');
  const struct {
    Identity identity;
    std::string named;
  } faults[] = {{{"x", "2", "127.0.0.1:1", secret}, "UCFT_RANK=x"},
                {{"2", "2", "127.0.0.1:1", secret}, "UCFT_RANK=2"},
                {{"-1", "2", "127.0.0.1:1", secret}, "UCFT_RANK=-1"},
                {{"0", "0", "127.0.0.1:1", secret}, "UCFT_SIZE=0"},
                {{"0", "", "127.0.0.1:1", secret}, "UCFT_SIZE="},
                {{"0", "99999999999999", "127.0.0.1:1", secret}, "UCFT_SIZE="},
                {{"0", "2", "127.0.0.1", secret}, "UCFT_RENDEZVOUS="},
                {{"0", "2", "localhost:12", secret}, "UCFT_RENDEZVOUS="},
                {{"0", "2", "[::1]", secret}, "UCFT_RENDEZVOUS="},
                {{"0", "2", "[::g]:12", secret}, "UCFT_RENDEZVOUS="},
                {{"0", "2", "::1:12", secret}, "UCFT_RENDEZVOUS="},
                {{"0", "2", "127.0.0.1:70000", secret}, "UCFT_RENDEZVOUS="},
                {{"0", "2", "127.0.0.1:1", "abc"}, "UCFT_JOB_SECRET"},
                {{"0", "2", "127.0.0.1:1", std::string(64, 'g')}, "UCFT_JOB_SECRET"}};
  for (const auto& fault : faults) {
    std::string error;
    EXPECT_EQ(connect_as(fault.identity, error), nullptr);
    EXPECT_EQ(error.rfind(fault.named, 0), 0u) << error;
    EXPECT_TRUE(rendezvous_in_environment());
    EXPECT_EQ(rendezvous_environment_fault(), error);
  }
}

TEST(RendezvousEnvironment, HalfAnEnvironmentNamesWhatIsMissing) {
  for (const char* name : {"UCFT_RANK", "UCFT_SIZE", "UCFT_RENDEZVOUS", "UCFT_JOB_SECRET"}) unsetenv(name);
  EXPECT_FALSE(rendezvous_in_environment());
  EXPECT_EQ(rendezvous_environment_fault(), "");
  setenv("UCFT_RANK", "0", 1);
  EXPECT_FALSE(rendezvous_in_environment());
  EXPECT_TRUE(contains(rendezvous_environment_fault(), "UCFT_SIZE is not set"));
}

TEST(RendezvousProtocol, SecretsSurviveTheirHexForm) {
  const Secret secret = random_secret();
  const auto back = secret_from_hex(secret_to_hex(secret));
  ASSERT_TRUE(back);
  EXPECT_TRUE(equal_in_constant_time(*back, secret));
  Secret other = secret;
  other.back() ^= 1;
  EXPECT_FALSE(equal_in_constant_time(other, secret));
}

TEST(RendezvousProtocol, DurationsReadNaturally) {
  EXPECT_EQ(duration_text(60s), "60 s");
  EXPECT_EQ(duration_text(1500ms), "1.5 s");
  EXPECT_EQ(duration_text(200ms), "200 ms");
  EXPECT_EQ(duration_text(7us), "7 us");
}

}  // namespace
}  // namespace ucft::detail::bootstrap

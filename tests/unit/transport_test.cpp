// The transport without processes and without UCX: several ranks of one process, over the shared path and over a
// network that the test holds in its hands (paths/fake.hpp).
#include "ucx_layer/transport/transport.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ucx_layer/transport/paths/fake.hpp"

namespace ucft::detail {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t cookie = 0xc00c1e;

Bytes pattern(std::size_t bytes, int seed) {
  Bytes made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  return made;
}

struct Received {
  int peer;
  std::uint64_t operation;
  std::int32_t first_decided, accepted;
  Bytes value;
  std::vector<std::uint32_t> list;
};

struct FakeRank {
  FakeRank(int me, int ranks, bool all_share, FakeNetwork& network)
      : transport({me, ranks, cookie, all_share ? mailbox_few_lines : mailbox_lines, false,
                   Sink{this, &accepts, &deliver, &control, &endpoint_failed}, false, !all_share, true, 64 << 20,
                   [&network](const Station& station) { return std::make_unique<FakeMessages>(station, network); }}) {}

  static bool accepts(void* arg, const WireHeader&, int) { return static_cast<FakeRank*>(arg)->open; }
  static void deliver(void* arg, const WireHeader&, const Message& message, int peer) {
    auto& self = *static_cast<FakeRank*>(arg);
    Buffers& buffers = self.transport.buffers();
    Received got{peer, message.operation, message.first_decided, message.accepted, {}, {}};
    const std::byte* value = buffers.data(message.value);
    if (message.value.bytes > 0) got.value.assign(value, value + message.value.bytes);
    const auto* list = reinterpret_cast<const std::uint32_t*>(buffers.data(message.list));
    if (message.list_length > 0) got.list.assign(list, list + message.list_length);
    self.received.push_back(got);
    if (self.then) self.then(message);
    if (!self.keeps) return;
    buffers.retain(message.value);
    self.kept.push_back(message.value);
  }
  static void control(void* arg, const WireHeader& header, int peer) {
    static_cast<FakeRank*>(arg)->controls.emplace_back(static_cast<Control>(header.phase), peer);
  }
  static void endpoint_failed(void* arg, int peer, const char*) { static_cast<FakeRank*>(arg)->failed.push_back(peer); }

  Transport transport;
  bool open = true, keeps = false;
  std::function<void(const Message&)> then;
  std::vector<Received> received;
  std::vector<Slice> kept;
  std::vector<std::pair<Control, int>> controls;
  std::vector<int> failed;
};

// The way that messages go. passing: messages whose long values are there only while they are delivered.
enum class Way { shared, messages, passing };

// Ranks that share memory with all others, or with none.
class Job {
 public:
  Job(int ranks, Way way) {
    const bool share = way == Way::shared;
    network.passes_by = way == Way::passing;
    for (int me = 0; me < ranks; ++me) all_.push_back(std::make_unique<FakeRank>(me, ranks, share, network));
    std::string error;
    std::vector<PeerAddress> addresses;
    for (auto& each : all_) {
      EXPECT_TRUE(each->transport.open(error)) << error;
      addresses.push_back(each->transport.own_address(error));
      addresses.back().shares_memory = share;
    }
    for (auto& each : all_) EXPECT_TRUE(each->transport.connect(addresses, error)) << error;
    for (auto& each : all_) each->transport.send_hellos();
    settle();
    for (auto& each : all_) {
      EXPECT_TRUE(each->transport.wired());
      each->controls.clear();
    }
  }
  FakeRank& operator[](int rank) { return *all_[static_cast<std::size_t>(rank)]; }
  void kill(int rank) { all_[static_cast<std::size_t>(rank)].reset(); }
  void settle() {
    network.arrive_all();
    int idle = 0;  // rounds: what one gives back the others see in the next
    for (int round = 0; round < 1000; ++round) {
      bool active = false;
      for (auto& each : all_)
        if (each != nullptr) active |= each->transport.poll();
      if (idle += !active; idle == 2) return;
    }
    FAIL() << "it goes on and on";
  }
  void send(int from, int to, std::uint64_t operation, const Bytes& value, const std::vector<std::uint32_t>& list = {},
            bool ballots = false) {
    Transport& transport = (*this)[from].transport;
    Buffers& buffers = transport.buffers();
    Message message;
    message.operation = operation;
    message.phase = Phase::group;
    if (ballots) {
      message.flags = is_decided;
      message.first_decided = 3;
      message.accepted = 4;
    }
    if (!value.empty()) message.value = buffers.whole(buffers.copy_in(value.data(), value.size()));
    message.list_length = static_cast<std::uint32_t>(list.size());
    if (!list.empty()) message.list = buffers.copy_in(list.data(), list.size() * sizeof(std::uint32_t));
    transport.send(to, message, {cookie, 1, 0, from});
    buffers.release(message.value);
    buffers.release(message.list);
  }
  void expect_nothing_held() {
    settle();
    for (auto& each : all_) EXPECT_EQ(each->transport.buffers().in_use(), 0u);
  }
  std::size_t held(int rank) { return (*this)[rank].transport.buffers().in_use(); }

  FakeNetwork network;

 private:
  std::vector<std::unique_ptr<FakeRank>> all_;
};

class OnPath : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Of, OnPath, testing::Values(Way::shared, Way::messages, Way::passing), [](const auto& each) {
  return each.param == Way::shared ? "shared" : each.param == Way::messages ? "messages" : "passing";
});

TEST_P(OnPath, AMessageArrivesAsItWasSentAndLeavesNothingBehind) {
  Job job(3, GetParam());
  const std::vector<std::uint32_t> list{7, 8, 9};
  std::uint64_t operation = 0;
  for (std::size_t bytes : {0u, 1u, 8u, 9u, 56u, 57u, 2048u, 2049u, 100000u})
    for (bool with_list : {false, true})
      for (bool ballots : {false, true}) {
        job.send(0, 2, ++operation, pattern(bytes, 5), with_list ? list : std::vector<std::uint32_t>{}, ballots);
        job.settle();
        ASSERT_EQ(job[2].received.size(), operation) << bytes;
        const Received& got = job[2].received.back();
        EXPECT_EQ(got.peer, GetParam() == Way::shared ? 0 : -1);
        EXPECT_EQ(got.operation, operation);
        EXPECT_EQ(got.value, pattern(bytes, 5));
        EXPECT_EQ(got.list, with_list ? list : std::vector<std::uint32_t>{});
        EXPECT_EQ(got.first_decided, ballots ? 3 : no_rank);
        EXPECT_EQ(got.accepted, ballots ? 4 : no_rank);
      }
  job.expect_nothing_held();
  EXPECT_TRUE(job[1].received.empty());
}

// docs/running_on_a_cluster.md says what that makes for a host.
TEST(FirstSegmentOf, AJobThatReadsMemoryTakesFewLines) {
  EXPECT_EQ(FirstSegment(256, mailbox_lines).bytes(), 2 * 4096u + 256 * (64 + 64 * 4 + 256 * 64));
  EXPECT_EQ(FirstSegment(256, mailbox_few_lines).bytes(), 2 * 4096u + 256 * (64 + 64 * 4 + 64 * 64));
}

// More than a ring holds, while the receiver takes nothing: all of them later, in order.
TEST_P(OnPath, WhatIsNotAcceptedWaitsInOrder) {
  Job job(2, GetParam());
  job[1].open = false;
  constexpr std::uint64_t many = 3 * mailbox_lines;
  for (std::uint64_t operation = 1; operation <= many; ++operation)
    job.send(0, 1, operation, pattern(operation % 5 == 0 ? 3000 : 8, static_cast<int>(operation)));
  job.settle();
  EXPECT_TRUE(job[1].received.empty());
  job[1].open = true;
  for (int round = 0; round < 50 && job[1].received.size() < many; ++round) job.settle();
  ASSERT_EQ(job[1].received.size(), many);
  for (std::uint64_t operation = 1; operation <= many; ++operation) {
    const Received& got = job[1].received[operation - 1];
    ASSERT_EQ(got.operation, operation);
    ASSERT_EQ(got.value, pattern(operation % 5 == 0 ? 3000 : 8, static_cast<int>(operation)));
  }
  job.expect_nothing_held();
}

// There is room for the short one, and not for the long one before it. The last one comes when those may be taken.
TEST_P(OnPath, AMessageDoesNotOvertakeALongOneThatWaits) {
  Job job(2, GetParam());
  job[1].open = false;
  constexpr std::uint64_t all = mailbox_few_lines - 10;
  for (std::uint64_t operation = 1; operation < all; ++operation) job.send(0, 1, operation, pattern(8, 1));
  job.send(0, 1, all, pattern(1000, 2));
  job.send(0, 1, all + 1, pattern(8, 3));
  job.settle();
  job[1].open = true;
  job.send(0, 1, all + 2, pattern(3000, 4));
  for (int round = 0; round < 3; ++round) job.settle();
  ASSERT_EQ(job[1].received.size(), all + 2);
  for (std::uint64_t operation = 1; operation <= all + 2; ++operation)
    EXPECT_EQ(job[1].received[operation - 1].operation, operation);
  job.expect_nothing_held();
}

// The second payload has the ticket that the first one had, and has not been read yet.
TEST(SharedPath, APayloadIsKeptUntilItHasBeenReadItself) {
  Job job(2, Way::shared);
  job.send(0, 1, 1, pattern(5000, 1));
  job.settle();
  job[1].open = false;
  job.send(0, 1, 2, pattern(5000, 2));
  job.settle();
  Buffers& buffers = job[0].transport.buffers();
  const BufferId next = buffers.copy_in(pattern(5000, 3).data(), 5000);
  job[1].open = true;
  job.settle();
  ASSERT_EQ(job[1].received.size(), 2u);
  EXPECT_EQ(job[1].received[1].value, pattern(5000, 2));
  buffers.release(next);
  job.expect_nothing_held();
}

// In any order, and much more in all than there is at a time.
TEST(SharedPath, MemoryThatIsGivenBackIsThereAgain) {
  Job job(2, Way::shared);
  Transport& transport = job[0].transport;
  for (int round = 0; round < 200; ++round) {
    std::byte* const both[] = {transport.allocate_shared(1 << 20), transport.allocate_shared(1 << 20)};
    for (int i = 0; i < 2; ++i) {
      std::byte* const memory = both[(i + round) % 2];
      ASSERT_NE(memory, nullptr) << "round " << round;
      ASSERT_TRUE(transport.free_shared(memory));
    }
  }
}

// A payload that the receiver keeps stays its sender's until it is let go; one of many is copied, so that tickets
// remain.
TEST_P(OnPath, WhoKeepsPayloadsKeepsThemWhole) {
  Job job(2, GetParam());
  job[1].keeps = true;
  constexpr int many = 2 * static_cast<int>(pull_tickets);
  for (int i = 0; i < many; ++i) {
    job.send(0, 1, static_cast<std::uint64_t>(i), pattern(5000, i));
    job.settle();
  }
  ASSERT_EQ(job[1].kept.size(), static_cast<std::size_t>(many));
  Buffers& buffers = job[1].transport.buffers();
  for (int i = 0; i < many; ++i) {
    const Slice kept = job[1].kept[static_cast<std::size_t>(i)];
    EXPECT_EQ(std::memcmp(buffers.data(kept), pattern(5000, i).data(), 5000), 0) << i;
    buffers.release(kept);
  }
  job.expect_nothing_held();
}

// While the carrier is in the middle of a message it is asked for nothing. Messages that are sent meanwhile leave
// afterwards, in order. They leave before those that a later delivery of the same poll sends.
TEST_P(OnPath, WhatIsSentInADeliveryLeavesInOrder) {
  Job job(3, GetParam());
  FakeRank& answering = job[1];
  answering.then = [&](const Message& message) {
    for (std::uint64_t part = 0; part < 2; ++part) job.send(1, 0, 2 * message.operation + part, pattern(3000, 5));
    if (message.operation != 2) return;
    job.send(1, 2, 9, pattern(3000, 6));
    answering.transport.forget(2);
  };
  for (std::uint64_t operation = 1; operation <= 3; ++operation)
    job.send(0, 1, operation, pattern(operation == 3 ? 0 : 3000, static_cast<int>(operation)));
  job.settle();
  job.settle();
  ASSERT_EQ(answering.received.size(), 3u);
  EXPECT_TRUE(answering.transport.is_forgotten(2));
  if (GetParam() != Way::shared) {  // there it is dropped with the peer
    EXPECT_EQ(job.network.forgotten, (std::vector{std::pair{1, 2}}));
    EXPECT_EQ(job[2].received.size(), 1u) << "it was sent before";
  }
  ASSERT_EQ(job[0].received.size(), 6u);
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(job[0].received[i].operation, i + 2);
  job.expect_nothing_held();
}

TEST_P(OnPath, WhatWaitsForAPeerThatIsForgottenIsDropped) {
  Job job(3, GetParam());
  job[1].open = false;
  for (std::uint64_t operation = 1; operation <= 2 * mailbox_lines; ++operation)
    job.send(0, 1, operation, pattern(operation % 2 == 0 ? 8 : 4000, 1));
  job.settle();
  job[0].transport.forget(1);
  EXPECT_TRUE(job[0].transport.is_forgotten(1));
  EXPECT_EQ(job.held(0), 0u);
  job.send(0, 1, 1, pattern(8, 1));
  job.send(1, 0, 1, pattern(8, 1));
  job.send(2, 0, 2, pattern(8, 2));
  job.send(0, 2, 3, pattern(8, 3));
  job.settle();
  ASSERT_EQ(job[2].received.size(), 1u);
  // Over messages what it still sends arrives: whoever takes them knows the sender (Communicators::deliver).
  ASSERT_EQ(job[0].received.size(), GetParam() == Way::shared ? 1u : 2u);
  EXPECT_EQ(job[0].received.back().operation, 2u);
}

TEST(SharedPath, WhatTheDeadHaveSentIsReadAfterThem) {
  Job job(2, Way::shared);
  job.send(1, 0, 1, pattern(8, 1));
  job.send(1, 0, 2, pattern(50000, 2));
  job.kill(1);
  job[0].transport.drain(1);
  ASSERT_EQ(job[0].received.size(), 2u);
  EXPECT_EQ(job[0].received[1].value, pattern(50000, 2));
  job[0].transport.forget(1);
}

TEST(SharedPath, AMessageOfAnotherJobOrThatMakesNoSenseIsDropped) {
  Job job(2, Way::shared);
  Buffers& buffers = job[0].transport.buffers();
  Message message;
  const BufferId value = buffers.copy_in("12345678", 8);
  message.value = buffers.whole(value);
  job[0].transport.send(1, message, {cookie + 1, 1, 0, 0});  // a foreign cookie
  message.operation = 9;
  job[0].transport.send(1, message, {cookie, 1, 0, 0});
  buffers.release(value);
  job.settle();
  ASSERT_EQ(job[1].received.size(), 1u);
  EXPECT_EQ(job[1].received[0].operation, 9u);
}

// On three hosts; nobody has said anything.
std::vector<std::unique_ptr<FakeRank>> three_ranks(FakeNetwork& network, bool at_once) {
  std::vector<std::unique_ptr<FakeRank>> all;
  std::string error;
  std::vector<PeerAddress> addresses;
  for (int me = 0; me < 3; ++me) {
    all.push_back(std::make_unique<FakeRank>(me, 3, false, network));
    EXPECT_TRUE(all.back()->transport.open(error)) << error;
    addresses.push_back(all.back()->transport.own_address(error));
    addresses.back().at_once = at_once;
  }
  for (auto& each : all) EXPECT_TRUE(each->transport.connect(addresses, error)) << error;
  return all;
}

TEST(MessagePath, WhoHasNotGreetedIsNamedAndWhoseConnectionIsLost) {
  FakeNetwork network;
  const std::vector<std::unique_ptr<FakeRank>> all = three_ranks(network, true);
  all[1]->transport.send_hellos();
  network.arrive_all();
  all[0]->transport.poll();
  EXPECT_FALSE(all[0]->transport.wired());
  EXPECT_EQ(all[0]->transport.missing_greeting(), 2);
  EXPECT_EQ(all[0]->transport.missing_greeting(true), -1);
  network.cut(0, 2);
  all[0]->transport.poll();
  EXPECT_EQ(all[0]->transport.missing_greeting(true), 2);
  EXPECT_EQ(all[0]->failed, std::vector<int>{2});
}

// Connections that are made when they are needed: by a message, and by the answer to the greeting that goes before it.
// Courtesies make none.
TEST(MessagePath, WhoIsNotConnectedIsWhenAMessageWantsToGoThere) {
  FakeNetwork network;
  const std::vector<std::unique_ptr<FakeRank>> all = three_ranks(network, false);
  all[0]->transport.send_hellos();
  all[0]->transport.send_control(1, Control::leave);
  all[0]->transport.say_goodbye(false, true, [](int) { return true; });
  EXPECT_TRUE(network.flights.empty());
  EXPECT_TRUE(all[0]->transport.wired());

  all[0]->transport.send_control(1, Control::failed, 0, {.about = 2, .flag = true});
  ASSERT_EQ(network.flights.size(), 2u);
  network.arrive_all();
  all[1]->transport.poll();
  EXPECT_EQ(all[1]->controls, (std::vector<std::pair<Control, int>>{{Control::hello, 0}, {Control::failed, 0}}));
  EXPECT_TRUE(all[0]->transport.is_connected(1) && all[1]->transport.is_connected(0));
  EXPECT_TRUE(all[0]->transport.is_unconnected(2) && all[2]->transport.is_unconnected(0));
  EXPECT_TRUE(network.flights.empty());  // whoever has greeted knows
  all[1]->transport.forget(2);
  all[1]->transport.send_control(2, Control::failed, 0, {.about = 0, .flag = true});
  EXPECT_TRUE(network.flights.empty());
}

TEST(MessagePath, AddressesThatAreMissingAreAnErrorThatSaysSo) {
  FakeNetwork network;
  FakeRank rank(0, 2, false, network);
  std::string error;
  ASSERT_TRUE(rank.transport.open(error)) << error;
  EXPECT_FALSE(rank.transport.connect({{}, {}}, error));
  EXPECT_EQ(error, "no address");
}

TEST(MessagePath, OthersHearAlarmsAndGoodbyes) {
  Job job(3, Way::messages);
  job[0].transport.send_control(1, Control::failed, 0, {.about = 2, .flag = true});
  job.settle();
  EXPECT_EQ(job[1].controls, (std::vector<std::pair<Control, int>>{{Control::failed, 0}}));
  job[0].transport.say_goodbye(false, true, [](int) { return true; });
  job.settle();
  EXPECT_EQ(job[1].controls.back(), std::make_pair(Control::leave, 0));
  EXPECT_EQ(job[2].controls.back(), std::make_pair(Control::leave, 0));
}

// A rank that hears only that it leaves would take its part for done.
TEST(MessagePath, TheGoodbyeOfARankThatIsOutSaysSo) {
  FakeNetwork network;
  const std::vector<std::unique_ptr<FakeRank>> all = three_ranks(network, false);
  all[0]->transport.send_control(1, Control::failed, 0, {.about = 2, .flag = true});
  network.arrive_all();
  all[1]->transport.poll();
  all[1]->transport.say_goodbye(true, false, [](int) { return true; });
  network.arrive_all();
  all[0]->transport.poll();
  EXPECT_EQ(all[0]->controls.back(), std::make_pair(Control::failed, 1));
  EXPECT_TRUE(all[2]->controls.empty()) << "no connection is made for that";
}

// RMA windows, of stores: what one writes the other reads, and an end that is forgotten gets no memory any more.
TEST(SharedPath, HasWindows) {
  Job job(2, Way::shared);
  ASSERT_TRUE(job[0].transport.windows().can_reach(1));
  RmaWindow here(job[0].transport.windows(), 1, 8, 100), there(job[1].transport.windows(), 0, 8, 100);
  ASSERT_TRUE(here.has_memory() && there.has_memory());
  ASSERT_EQ(here.connect(there.name()), RmaWindow::Connected::yes);
  ASSERT_EQ(there.connect(here.name()), RmaWindow::Connected::yes);
  const Bytes head = pattern(8, 1), row = pattern(100, 2);
  ASSERT_TRUE(here.can_write());
  here.write(head, row);
  EXPECT_FALSE(here.can_write());
  ASSERT_TRUE(there.has_news());
  std::vector<std::byte> scratch;
  EXPECT_EQ(std::memcmp(there.head(), head.data(), 8), 0);
  EXPECT_EQ(std::memcmp(there.row(scratch), row.data(), 100), 0);
  there.consume();
  there.publish();
  EXPECT_TRUE(here.can_write());
  job[0].transport.forget(1);
  EXPECT_FALSE(RmaWindow(job[0].transport.windows(), 1, 8, 100).has_memory());
}

TEST(MessagePath, HasNoWindows) {
  Job job(2, Way::messages);
  EXPECT_FALSE(job[0].transport.windows().can_reach(1));
  EXPECT_EQ(job[0].transport.counts().messages, 1);
  EXPECT_EQ(job[0].transport.counts().shared_memory, 0);
}

}  // namespace
}  // namespace ucft::detail

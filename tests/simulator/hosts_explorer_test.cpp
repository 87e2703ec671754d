// Hosts as processes (collectives/among/): ranks die at every store into their host's memory and at every send.
#include <gtest/gtest.h>

#include <array>

#include "simulator/hosts_world.hpp"

namespace ucft::detail::simulator {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t thinner = 400;  // the sanitizer looks at memory: more plans of a kind show it nothing new
#elif defined(UCFT_SMALL)
constexpr std::int64_t thinner = 20;
#else
constexpr std::int64_t thinner = 1;
#endif

constexpr Kind kinds[] = {Kind::allreduce, Kind::barrier, Kind::broadcast,      Kind::reduce,
                          Kind::allgather, Kind::gather,  Kind::reduce_scatter, Kind::scatter};
#if defined(__SANITIZE_ADDRESS__)
constexpr Kind kinds_of_leavers[] = {Kind::allreduce, Kind::broadcast};
#else
constexpr const auto& kinds_of_leavers = kinds;
#endif
constexpr std::uint64_t programs_of_leavers = thinner > 1 ? 60 : 600;

Arguments arguments_of(Kind kind, std::int32_t f, Rank root = 0, BroadcastShape shape = {}) {
  Arguments arguments;
  arguments.kind = kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = kind == Kind::barrier ? 0 : 2;
  arguments.f = f;
  arguments.root = root;
  arguments.shape = shape;
  return arguments;
}

HostsPlan plan_of(int hosts, int ranks_per_host, const Arguments& arguments, std::size_t operations = 1,
                  int in_flight = 1) {
  HostsPlan plan;
  for (Host host = 0; host < hosts; ++host)
    plan.hosts.insert(plan.hosts.end(), static_cast<std::size_t>(ranks_per_host), host);
  plan.in_flight = in_flight;
  plan.program.assign(operations, arguments);
  return plan;
}

constexpr BroadcastShape chain{Tree::kary, Numbering::interleaved, 1};

class Explored {
 public:
  ~Explored() {
    EXPECT_EQ(found_.violations, 0) << found_.first_violation;
    EXPECT_GT(found_.plans, 0);
  }
  // Every set of so many victims.
  void sets(const HostsPlan& plan, int victims, std::int64_t stride = 1) {
    explore_hosts_of(plan, victims, scope_of(stride), found_);
  }
  void these(const HostsPlan& plan, const std::vector<Rank>& victims, std::int64_t stride = 1) {
    explore_hosts(plan, victims, scope_of(stride), found_);
  }
  void walks(const HostsPlan& plan, int victims, std::int64_t runs, std::uint64_t seed) {
    walk_hosts(plan, victims, runs / thinner, seed, found_);
  }

 private:
  static HostsScope scope_of(std::int64_t stride) {
    HostsScope scope;
    scope.stride = stride * thinner;
    return scope;
  }
  HostsExploration found_;
};

template <class Use>
void for_both(HostsPlan plan, Use use) {
  for (bool optimistic : {false, true}) {
    plan.optimistic = optimistic;
    plan.slow_journal = false;
    use(plan);
  }
  plan.slow_journal = true;
  use(plan);
}

// A rank stores twice to give, and a speaker twice for each entry of its journal: one for each call, one for each
// message that comes from another host, and one for a result. So each message between hosts is counted once as a send
// of one speaker, and twice as a store of another.
TEST(Hosts, WithoutDeathsOnlyTheSpeakersSendAndAsMuchAsProcessesWould) {
  for (Kind kind : kinds)
    for (int hosts = 2; hosts <= 5; ++hosts)
      for_both(plan_of(hosts, 3, arguments_of(kind, 1, 3)), [&](HostsPlan plan) {
        plan.window = 8;  // no internal barrier so soon
        HostsWorld world(plan);
        ASSERT_TRUE(world.run());
        EXPECT_EQ(world.check(), "") << describe(plan);
        Plan of_processes;
        of_processes.window = plan.window;
        of_processes.ranks = hosts;
        of_processes.optimistic = plan.optimistic;
        of_processes.program = {arguments_of(kind, 1, 1)};
        World processes(of_processes);
        ASSERT_TRUE(processes.run());
        std::int64_t sends = 0, stores_of_speakers = 0;
        for (Rank rank = 0; rank < world.ranks(); ++rank) {
          if (rank % 3 == 0) {
            EXPECT_EQ(world.sends(rank), processes.sends(rank / 3)) << describe(plan);
            sends += world.sends(rank);
            stores_of_speakers += world.stores(rank);
          } else {
            EXPECT_EQ(world.sends(rank), 0) << describe(plan);
            EXPECT_EQ(world.stores(rank), 2) << describe(plan);
          }
        }
        const int results = kind == Kind::barrier ? 0 : row_of(kind).to_root() ? 1 : hosts;
        EXPECT_EQ(stores_of_speakers, 4 * hosts + 2 * sends + 2 * results) << describe(plan);
      });
}

// The number of plans: a victim is tried before each of its steps, and once beyond them.
TEST(Hosts, OneDeathAtEveryStoreAndSend) {
  for (Kind kind : kinds)
    for (std::int32_t f = thinner > 20 ? 2 : 0; f <= 2; ++f)
      for_both(plan_of(3, 3, arguments_of(kind, f, 3), 2, 2), [&](const HostsPlan& plan) {
        HostsWorld calm(plan);
        calm.run();
        for (Rank victim = 0; victim < calm.ranks(); ++victim) {
          HostsScope scope;
          scope.seeds = 0;
          scope.orders = {Order::oldest_first};
          HostsExploration found;
          explore_hosts(plan, {victim}, scope, found);
          EXPECT_EQ(found.plans, calm.steps(victim) + 1) << describe(plan);
          EXPECT_EQ(found.violations, 0) << found.first_violation;
        }
        Explored().sets(plan, 1);
      });
}

TEST(Hosts, TwoDeaths) {
  for (Kind kind : kinds)
    for_both(plan_of(3, 3, arguments_of(kind, 1, 3)), [&](const HostsPlan& plan) { Explored().sets(plan, 2, 3); });
  for (Kind kind : {Kind::allreduce, Kind::broadcast})
    for_both(plan_of(4, 2, arguments_of(kind, 1, 7), 2, 2),
             [&](const HostsPlan& plan) { Explored().sets(plan, 2, 11); });
  for (Kind kind : {Kind::allreduce, Kind::reduce})
    for_both(plan_of(2, 4, arguments_of(kind, 0, 4), 2), [&](const HostsPlan& plan) { Explored().sets(plan, 2, 7); });
}

class ProcessMember : public testing::Test, public ucft::detail::ProcessMember::Caller, public Journal {
 public:
  void append(std::uint64_t position, const JournalEntry& entry) override {
    ASSERT_EQ(position, entries_.size());
    entries_.push_back(entry);
    entries_.back().block = {};
    value_.assign(entry.value.begin(), entry.value.end());
    list_.assign(entry.list.begin(), entry.list.end());
  }
  bool may_append() const override { return entries_.size() <= readable_; }
  const JournalEntry* at(std::uint64_t position) override {
    return position < std::min(entries_.size(), readable_) ? &entries_[position] : nullptr;
  }
  void on_completed(OperationNumber call, OperationNumber, std::span<const std::byte>) override {
    completed_.push_back(call);
  }
  void on_given_up(Rank rank) override { given_up_.push_back(rank); }

 protected:
  static std::byte* allocate(void* self, std::size_t bytes) {
    auto& blocks = static_cast<ProcessMember*>(self)->blocks_;
    blocks.push_back(std::make_unique<std::byte[]>(bytes));
    return blocks.back().get();
  }
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::deque<JournalEntry> entries_;
  std::size_t readable_ = SIZE_MAX;
  std::vector<std::byte> value_, list_;  // of the last entry, when it was appended
  std::vector<OperationNumber> completed_;
  std::vector<Rank> given_up_;
};

// As a takeover repeats them, and as channels that keep no order bring them.
TEST_F(ProcessMember, TakesEachPacketInOnceAndInOrder) {
  const std::vector<Host> hosts{0, 0, 1, 1};
  Buffers buffers({&ProcessMember::allocate, this, 4096});
  ucft::detail::ProcessMember member({0, &hosts}, *this, *this, buffers);
  Message message;
  message.peer = 1;
  for (auto [place, entries] : {std::pair{1U, 0U}, {0U, 2U}, {0U, 2U}, {1U, 2U}, {3U, 2U}, {2U, 4U}}) {
    member.on_packet(2, place, message);
    EXPECT_EQ(entries_.size(), entries) << "place " << place;
  }
  member.release_all();
}

// A packet that waits for others would keep the network's memory; one that need not wait is written down from there.
TEST_F(ProcessMember, AnEarlyPacketGivesLentMemoryBack) {
  const std::vector<Host> hosts{0, 0, 1, 1};
  Buffers buffers({&ProcessMember::allocate, this, 4096});
  for (Rank me : {0, 1}) {
    entries_.clear();
    ucft::detail::ProcessMember member({me, &hosts}, *this, *this, buffers);
    std::vector<std::byte> lent(64, std::byte{5});
    Message message;
    message.peer = 1;
    message.value = buffers.whole(buffers.adopt(lent.data(), lent.size(), 7));
    member.on_packet(2, 1, message);
    buffers.release(std::exchange(message.value, {}));
    EXPECT_EQ(buffers.released(), std::vector<std::uint64_t>{7}) << me;
    buffers.released().clear();
    lent.assign(64, std::byte{6});
    member.on_packet(2, 0, message);
    if (me == 0) {
      EXPECT_EQ(value_, std::vector<std::byte>(64, std::byte{5}));
    } else {
      EXPECT_EQ(member.held(), 2U);
    }
    member.release_all();
    EXPECT_EQ(buffers.in_use(), 0U) << me;
  }
}

// The journal keeps what is appended: what was lent is given back, though the entry is not there yet.
TEST_F(ProcessMember, WhatItHasAppendedItGivesBackAtOnce) {
  const std::vector<Host> hosts{0, 0, 1, 1};
  Buffers buffers({&ProcessMember::allocate, this, 4096});
  ucft::detail::ProcessMember member({0, &hosts}, *this, *this, buffers);
  const std::vector<std::byte> lent(64, std::byte{5});
  readable_ = 0;
  Message message;
  message.peer = 1;
  message.value = buffers.whole(buffers.adopt(lent.data(), lent.size(), 7));
  member.on_packet(2, 0, message);
  buffers.release(message.value);
  EXPECT_EQ(entries_.size(), 1U);
  EXPECT_EQ(buffers.released(), std::vector<std::uint64_t>{7});
  entries_.front().value = value_;
  readable_ = 1;
  member.look();
  EXPECT_EQ(member.entries(), 1U);
  member.release_all();
  EXPECT_EQ(buffers.in_use(), 0U);
}

// Each of three hosts is a rank. The decision of one that takes another for dead may come to that one, too.
TEST_F(ProcessMember, ADecisionThatNamesItsProcessAsDeadIsNoResult) {
  const std::vector<Host> hosts{0, 1, 2};
  for (const std::uint32_t dead : {1u, 2u}) {
    completed_.clear();
    Buffers buffers({&ProcessMember::allocate, this, 4096});
    OwnJournal journal;
    ucft::detail::ProcessMember member({2, &hosts}, journal, *this, buffers);
    ProcessContribution contribution;
    contribution.arguments = arguments_of(Kind::barrier, 1);
    contribution.contributors = 1;
    member.on_contribution(contribution);
    Message decided;
    decided.phase = Phase::decided;
    decided.peer = decided.attempt = 0;
    decided.signature = contribution.arguments.signature();
    decided.contributors = 2;
    decided.list = buffers.copy_in(&dead, sizeof dead);
    decided.list_length = 1;
    member.on_packet(0, 0, decided);
    buffers.release(decided.list);
    EXPECT_EQ(member.process().window().is_out(), dead == 2);
    EXPECT_EQ(completed_, dead == 2 ? std::vector<OperationNumber>{} : std::vector<OperationNumber>{0});
    for (const ucft::detail::ProcessMember::Packet& packet : std::exchange(member.outbox(), {})) {
      buffers.release(packet.message.value);
      buffers.release(packet.message.list);
    }
    member.release_all();
    EXPECT_EQ(buffers.in_use(), 0U);
  }
}

// A speaker may have taken a rank for dead, and then found itself out. Its successor reads so in their log.
TEST_F(ProcessMember, AReaderSaysWhatRanksItsLogHasGivenUp) {
  const std::vector<Host> hosts{0, 0, 1, 1, 2};
  Buffers buffers({&ProcessMember::allocate, this, 4096});
  ucft::detail::ProcessMember reader({1, &hosts}, *this, *this, buffers);
  reader.on_failure(2);
  const std::vector<std::byte> failed{std::byte{3}};
  append(0, {.what = JournalEntry::What::failure, .list = failed, .about = 1});
  reader.on_failure(0);
  EXPECT_TRUE(reader.speaks());
  EXPECT_EQ(given_up_, std::vector<Rank>{3}) << "it has lost the other one itself";
  reader.on_failure(4);
  EXPECT_EQ(entries_.size(), 2U);
  EXPECT_EQ(given_up_.size(), 1U) << "what it writes down itself";
  reader.release_all();
}

// It may live on in the job: only the communicator has lost it.
TEST_F(ProcessMember, ARankThatHasLeftIsNotGivenUpWithItsHost) {
  const std::vector<Host> hosts{0, 0, 1, 1};
  for (const Rank leaver : {2, 3}) {
    entries_.clear();
    given_up_.clear();
    Buffers buffers({&ProcessMember::allocate, this, 4096});
    ucft::detail::ProcessMember speaker({0, &hosts}, *this, *this, buffers), reader({1, &hosts}, *this, *this, buffers);
    speaker.on_left(leaver, false);
    speaker.on_failure(5 - leaver);
    ASSERT_EQ(entries_.size(), 1U);
    EXPECT_EQ(entries_[0].what, JournalEntry::What::failure);
    const std::vector<std::byte> list{std::byte(1 << (3 - leaver))};
    entries_[0].list = list;  // as it was
    EXPECT_EQ(list_, list);
    reader.look();
    EXPECT_EQ(given_up_, std::vector<Rank>{5 - leaver});
    speaker.release_all();
    reader.release_all();
  }
}

// What the dead speaker may not have written down is said again at once, not when a detector has found out.
TEST_F(ProcessMember, APacketOfANewSpeakerTellsThatItsPredecessorIsDead) {
  const std::vector<Host> hosts{0, 0, 0, 1, 1};
  Buffers buffers({&ProcessMember::allocate, this, 4096});
  ucft::detail::ProcessMember member({3, &hosts}, *this, *this, buffers);
  ProcessContribution contribution;
  contribution.arguments = arguments_of(Kind::barrier, 0);
  contribution.contributors = 2;
  member.on_contribution(contribution);
  ASSERT_EQ(member.outbox().size(), 1U);
  EXPECT_EQ(member.outbox()[0].to, 0);
  Message message;
  message.peer = 0;
  for (Rank from : {2, 2, 0}) member.on_packet(from, ucft::detail::ProcessMember::i_speak, message);
  EXPECT_EQ(member.held(), 0U);
  ASSERT_EQ(member.outbox().size(), 2U);
  EXPECT_EQ(member.outbox()[1].to, 2);
  EXPECT_EQ(member.outbox()[1].place, member.outbox()[0].place);
  for (const ucft::detail::ProcessMember::Packet& packet : member.outbox()) {
    buffers.release(packet.message.value);
    buffers.release(packet.message.list);
  }
  member.release_all();
}

// A rank that is missing on a host that lives goes into the list of results until all have heard of it, which is W
// operations later.
TEST(Hosts, ARankIsNamedUntilAllKnow) {
  HostsPlan plan = plan_of(3, 3, arguments_of(Kind::allreduce, 1), 6);
  plan.crashes = {{1, 0}};
  HostsWorld world(plan);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.check(), "");
  for (std::size_t call = 0; call < 6; ++call) {
    EXPECT_EQ(world.result(8, call).missing, std::vector<Rank>{1}) << call;
    EXPECT_EQ(world.named(8, call), call < 2 ? 1U : 0U) << call;
  }
}

// The speaker and its deputy, then a whole host: one failure, whatever it did before.
TEST(Hosts, SpeakerAndDeputyAndTheHostAsAWhole) {
  for (Kind kind : kinds)
    for_both(plan_of(3, 3, arguments_of(kind, 1, 3), 2), [&](const HostsPlan& plan) {
      Explored explored;
      for (Rank first : {0, 3, 6}) {
        explored.these(plan, {first, first + 1}, 5);
        explored.these(plan, {first, first + 1, first + 2}, 13);
      }
    });
}

TEST(Hosts, AHostAndSpeakersOfOthers) {
  for (Kind kind : kinds)
    for_both(plan_of(3, 2, arguments_of(kind, 1, 2), 2), [&](const HostsPlan& plan) {
      Explored explored;
      for (const std::vector<Rank>& victims : {std::vector<Rank>{0, 1, 2}, {2, 3, 0}, {4, 5, 2}})
        explored.these(plan, victims, 13);
    });
}

TEST(Hosts, CorrectionsAndChains) {
  for (int correction = 1; correction < correction_count; ++correction) {
    Arguments arguments = arguments_of(Kind::allreduce, 1);
    arguments.correction = static_cast<Correction>(correction);
    for_both(plan_of(4, 2, arguments, 2), [&](const HostsPlan& plan) {
      Explored explored;
      explored.sets(plan, 1);
      explored.walks(plan, 3, 700, 5);
    });
  }
  for (Kind kind : kinds)
    for_both(plan_of(4, 2, arguments_of(kind, 1, 0, chain), 5, 2), [&](const HostsPlan& plan) {
      Explored explored;
      explored.sets(plan, 1, 1);
      explored.walks(plan, 4, 700, 6);
    });
}

// Long data: what more than two words are, in pieces of so many words (collectives/among/phases/circulant.hpp,
// piece_broadcast.hpp).
template <class Use>
void in_blocks(HostsPlan plan, std::uint64_t words_of_piece, Use use) {
  for (Arguments& arguments : plan.program) {
    if (arguments.kind == Kind::allreduce) arguments.count = static_cast<std::uint64_t>(plan.hosts.back()) + 2;
    if (arguments.kind == Kind::broadcast) arguments.count = 2 * words_of_piece + 1;
  }
  plan.optimistic = true;
  plan.optimistic.whole_bytes = 16;
  plan.optimistic.piece_bytes = 8 * words_of_piece;
  plan.optimistic.set_bytes = 0;  // all blocks are as if they were long
  for (bool slow : {false, true}) {
    plan.slow_journal = slow;
    // All compute a set of hosts. The streams of a host together are longer than the second limit, that to itself is
    // not.
    if (plan.program[0].row().goes_straight) plan.long_bytes = slow ? 9 : 80;
    use(plan);
  }
}

// One death, and two at every so many-th pair of steps. words: of a piece, in each of the four worlds.
void one_death_and_two(Kind kind, const std::array<std::uint64_t, 4>& words) {
  const Arguments arguments = arguments_of(kind, 1, 3);
  in_blocks(plan_of(3, 3, arguments, 2, 2), words[0], [](const HostsPlan& plan) { Explored().sets(plan, 1); });
  if (thinner > 20) return;  // as the constant says
  in_blocks(plan_of(3, 3, arguments), words[1], [](const HostsPlan& plan) { Explored().sets(plan, 2, 7); });
  in_blocks(plan_of(4, 2, arguments, 2, 2), words[2], [](const HostsPlan& plan) { Explored().sets(plan, 2, 37); });
  in_blocks(plan_of(2, 4, arguments, 3, 2), words[3], [](const HostsPlan& plan) { Explored().sets(plan, 2, 23); });
}

void speaker_and_deputy_and_the_host(Kind kind, std::uint64_t words) {
  in_blocks(plan_of(3, 3, arguments_of(kind, 1, 3), 2), words, [&](const HostsPlan& plan) {
    Explored explored;
    for (Rank first : {0, 3, 6}) {
      explored.these(plan, {first, first + 1}, 11);
      explored.these(plan, {first, first + 1, first + 2}, 29);
    }
  });
}

void long_programs(Kind kind) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    HostsPlan plan = plan_of(seed % 2 == 0 ? 3 : 5, seed % 2 == 0 ? 3 : 2, arguments_of(kind, 1), 10,
                             1 + static_cast<int>(seed % 4));
    for (std::size_t i = 1; i < 10; i += 3) plan.program[i] = arguments_of(kinds[(i + seed) % std::size(kinds)], 1, 1);
    plan.window = 2 + static_cast<int>(seed % 3);
    in_blocks(plan, 1 + seed % 3, [&](const HostsPlan& each) { Explored().walks(each, 5, 1000, seed); });
  }
}

TEST(HostsInBlocks, OneDeathAndTwo) { one_death_and_two(Kind::allreduce, {1, 4, 4, 2}); }
TEST(HostsInBlocks, SpeakerAndDeputyAndTheHostAsAWhole) { speaker_and_deputy_and_the_host(Kind::allreduce, 4); }
TEST(HostsInBlocks, LongPrograms) { long_programs(Kind::allreduce); }
TEST(HostsInPieces, OneDeathAndTwo) { one_death_and_two(Kind::broadcast, {1, 2, 2, 1}); }
TEST(HostsInPieces, SpeakerAndDeputyAndTheHostAsAWhole) { speaker_and_deputy_and_the_host(Kind::broadcast, 2); }
TEST(HostsInPieces, LongPrograms) { long_programs(Kind::broadcast); }

TEST(HostsGatherInPieces, OneDeathAndTwo) { one_death_and_two(Kind::allgather, {1, 3, 3, 1}); }
TEST(HostsGatherInPieces, SpeakerAndDeputyAndTheHostAsAWhole) { speaker_and_deputy_and_the_host(Kind::allgather, 2); }
TEST(HostsGatherInPieces, LongPrograms) { long_programs(Kind::allgather); }

TEST(HostsGatherInPieces, StraightToARoot) {
  one_death_and_two(Kind::gather, {1, 3, 3, 1});
  long_programs(Kind::gather);
}

class HostsThatExchange : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, HostsThatExchange, testing::Values(Kind::exchange, Kind::exchange_from_root),
                         [](const auto& each) { return std::string(kind_name(each.param)); });

TEST_P(HostsThatExchange, OneDeathAndTwo) { one_death_and_two(GetParam(), {1, 3, 2, 1}); }
TEST_P(HostsThatExchange, SpeakerAndDeputyAndTheHostAsAWhole) { speaker_and_deputy_and_the_host(GetParam(), 2); }
TEST_P(HostsThatExchange, LongPrograms) { long_programs(GetParam()); }

// It may have nothing of the other host's streams.
TEST_P(HostsThatExchange, AHostThatIsLeftAlone) {
  in_blocks(plan_of(2, 3, arguments_of(GetParam(), 1, 3), 3), 2, [](const HostsPlan& plan) {
    Explored explored;
    for (Host dead : {0, 1}) explored.these(plan, {3 * dead, 3 * dead + 1, 3 * dead + 2}, 11);
  });
}

HostsPlan uniform_plan_of(int hosts, int ranks_per_host, Kind kind) {
  HostsPlan plan = plan_of(hosts, ranks_per_host, arguments_of(kind, hosts - 1, 1), 4);
  for (std::size_t call : {1, 3}) plan.program[call] = arguments_of(Kind::barrier, hosts - 1);
  plan.uniform = true;
  if (plan.program[0].row().goes_straight) plan.long_bytes = 9;  // all compute a set of hosts
  return plan;
}

// A rank that is through the barrier behind an operation has the result that all survivors have, whoever dies then.
TEST(HostsUniform, WithABarrierBehindItEachResultIs) {
  for (Kind kind : {Kind::exchange_from_root, Kind::allreduce, Kind::broadcast, Kind::allgather, Kind::exchange}) {
    for_both(uniform_plan_of(2, 2, kind), [](const HostsPlan& plan) { Explored().sets(plan, 2, 5); });
    if (thinner > 20) return;
    for_both(uniform_plan_of(3, 2, kind), [](const HostsPlan& plan) {
      for (Rank first : {0, 2, 4}) Explored().these(plan, {first, first + 1}, 5);
      Explored().these(plan, {0, 1, 2, 3}, 41);
    });
  }
}

// Else the root's host may have a result that dies with it.
TEST(HostsUniform, WithoutIsNot) {
  HostsPlan plan = uniform_plan_of(3, 1, Kind::allreduce);
  plan.in_flight = 2;  // so a rank may give to the barrier before it has the result
  HostsExploration found;
  explore_hosts(plan, {0, 1}, {.orders = {Order::oldest_first}, .seeds = 0}, found);
  EXPECT_NE(found.first_violation.find("is not uniform"), std::string::npos);
}

// Rooted operations have their internal barriers; chains of operations the members that earlier results have left over.
// ---- ranks and hosts that leave ----

std::vector<Arguments> mixed(Kind kind, std::int32_t f, Rank root, std::size_t operations) {
  std::vector<Arguments> program;
  for (std::size_t i = 0; i < operations; ++i)
    program.push_back(arguments_of(i % 2 == 0 ? kind : Kind::allreduce, f, root));
  return program;
}

TEST(HostsThatLeave, ARankAfterAnyOfItsOperationsAndAnyDeath) {
  for (bool optimistic : thinner > 20 ? std::vector{true} : std::vector{false, true})
    for (bool waits : {true, false})
      for (Kind kind : kinds_of_leavers)
        for (Rank leaver = 0; leaver < 4; ++leaver)
          for (std::size_t after = 0; after <= 3; ++after) {
            HostsPlan plan = plan_of(2, 2, arguments_of(kind, 1), 3);
            plan.program = mixed(kind, 1, 3, 3);
            plan.optimistic = optimistic;
            plan.leaves = {{leaver, after, waits}};
            plan.ends = after % 2 == 0;
            Explored explored;
            explored.sets(plan, 0);
            explored.sets(plan, 1);
            if (testing::Test::HasFailure()) return;
          }
}

// f counts none of them: 0 is enough.
TEST(HostsThatLeave, AHostRankByRankAndAnyDeath) {
  for (bool optimistic : thinner > 20 ? std::vector{true} : std::vector{false, true})
    for (bool slow : {false, true})
      for (Kind kind : kinds_of_leavers)
        for (Host leaver = 0; leaver < 3; ++leaver)
          for (std::size_t after = 0; after <= 2; ++after) {
            HostsPlan plan = plan_of(3, 2, arguments_of(kind, 0), 4, 2);
            plan.program = mixed(kind, 0, 2, 4);
            plan.optimistic = optimistic;
            plan.slow_journal = slow;
            plan.leaves = {{2 * leaver, after}, {2 * leaver + 1, 2 - after}};
            plan.ends = true;
            Explored explored;
            explored.sets(plan, 0);
            explored.sets(plan, 1);
            if (testing::Test::HasFailure()) return;
          }
}

// Rank 3 sees its host to the end, and dies before another host has all that it needs of it. Rank 1 hears of that
// before it hears that rank 2 had gone.
TEST(HostsThatLeave, TheLastRankDiesAndIsNotTheLastThatIsHeardOf) {
  HostsPlan plan = plan_of(3, 2, arguments_of(Kind::allreduce, 1), 8, 2);
  plan.window = 4;
  plan.optimistic = true;
  plan.program = {arguments_of(Kind::allgather, 1, 0), arguments_of(Kind::barrier, 1, 1),
                  arguments_of(Kind::broadcast, 1, 5), arguments_of(Kind::allreduce, 1, 4),
                  arguments_of(Kind::broadcast, 1, 3), arguments_of(Kind::barrier, 1, 0),
                  arguments_of(Kind::barrier, 1, 3),   arguments_of(Kind::broadcast, 1, 2)};
  plan.ends = true;
  plan.crashes = {{0, 68}, {3, 31}};
  plan.order = Order::newest_first;
  HostsWorld world(plan);
  EXPECT_TRUE(world.run());
  EXPECT_EQ(world.check(), "");
}

TEST(HostsThatLeave, LongProgramsWithDeathsInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= programs_of_leavers; ++seed) {
    std::mt19937_64 random(seed);
    const int hosts = 2 + static_cast<int>(seed % 3), each = 1 + static_cast<int>(random() % 3);
    const auto f = static_cast<std::int32_t>(seed % 2);
    HostsPlan plan = plan_of(hosts, each, arguments_of(Kind::allreduce, f), 8, 1 + static_cast<int>(seed % 3));
    plan.window = seed % 2 == 0 ? 2 : 4;
    plan.optimistic = seed % 3 != 0;
    plan.slow_journal = seed % 5 == 0;
    const auto ranks = static_cast<Rank>(plan.hosts.size());
    for (Arguments& arguments : plan.program)
      arguments = arguments_of(kinds[random() % std::size(kinds)], f,
                               static_cast<Rank>(random() % static_cast<unsigned>(ranks)));
    plan.ends = random() % 2 == 0;
    for (Rank rank = 1; rank < ranks; ++rank)
      if (random() % 3 == 0) plan.leaves.push_back({rank, random() % 9, random() % 4 != 0});
    Explored explored;
    explored.walks(plan, 2, 40 * thinner, seed);
    if (testing::Test::HasFailure()) return;
  }
}

// ---- different calls ------------------------------------------------------------------------------------------------

// A program whose first call each host makes a root of its own, and of kinds that send nothing to each other.
HostsPlan mismatched_plan(int hosts, const std::vector<Arguments>& of_hosts) {
  HostsPlan plan = plan_of(hosts, 2, of_hosts[0], 2);
  plan.program[1] = arguments_of(Kind::allreduce, 1);
  plan.window = 8;  // no barrier of the window's own, which would put numbers out of step where some calls are rooted
  for (Host host = 1; host < hosts; ++host)
    plan.mismatched.push_back({host, 0, of_hosts[static_cast<std::size_t>(host) % of_hosts.size()]});
  return plan;
}

std::vector<std::vector<Arguments>> mismatches() {
  const auto root_of = [](Host host) { return static_cast<Rank>(2 * host); };
  return {
      {arguments_of(Kind::reduce, 1, root_of(0)), arguments_of(Kind::reduce, 1, root_of(1)),
       arguments_of(Kind::reduce, 1, root_of(2))},
      {arguments_of(Kind::reduce, 1, root_of(0)), arguments_of(Kind::reduce, 1, root_of(1)),
       arguments_of(Kind::reduce, 1, root_of(1))},
      {arguments_of(Kind::reduce, 1, root_of(0)), arguments_of(Kind::broadcast, 1, root_of(0)),
       arguments_of(Kind::reduce, 1, root_of(2))},
      {arguments_of(Kind::reduce, 1, root_of(0)), arguments_of(Kind::allreduce, 1), arguments_of(Kind::barrier, 1)}};
}

TEST(HostsThatPostDifferentCalls, NobodyWaitsForEver) {
  Explored explored;
  for (const auto& mismatch : mismatches())
    for (int hosts : {2, 3})
      for_both(mismatched_plan(hosts, mismatch), [&](const HostsPlan& plan) { explored.sets(plan, 0); });
}

TEST(HostsThatPostDifferentCalls, NobodyWaitsForEverThoughARankDies) {
  Explored explored;
  for (const auto& mismatch : mismatches())
    for (int hosts : {2, 3})
      for_both(mismatched_plan(hosts, mismatch), [&](const HostsPlan& plan) { explored.sets(plan, 1); });
}

// Each root of its own: a wait that no other message ends.
TEST(HostsThatPostDifferentCalls, RootsOfReducesAreToldOfEachOther) {
  HostsPlan plan = mismatched_plan(2, mismatches()[0]);
  for (bool optimistic : {false, true}) {
    plan.optimistic = optimistic;
    HostsWorld world(plan);
    ASSERT_TRUE(world.run());
    ASSERT_EQ(world.check(), "");
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(world.result(rank, 0).outcome, Outcome::mismatch) << rank;
      EXPECT_EQ(world.result(rank, 0).culprit, rank < 2 ? 1 : 0) << rank;  // a host
      EXPECT_EQ(world.result(rank, 1).outcome, Outcome::success) << rank;
    }
  }
}

// Words that somebody waits change nothing where all have posted the same.
TEST(Hosts, WordsThatAHostWaitsComeAtAnyTime) {
  Explored explored;
  for (Kind kind : kinds) {
    HostsPlan plan = plan_of(3, 2, arguments_of(kind, 1, 2), 2);
    plan.waits = 2;
    for_both(plan, [&](const HostsPlan& each) { explored.sets(each, 1); });
  }
}

TEST(Hosts, LongProgramsOfAllKinds) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    for_both(plan_of(seed % 2 == 0 ? 3 : 5, seed % 2 == 0 ? 3 : 2, arguments_of(Kind::allreduce, 1)),
             [&](HostsPlan plan) {
               plan.program.clear();
               for (std::uint64_t i = 0; i < 10; ++i)
                 plan.program.push_back(arguments_of(kinds[(i * seed + i / 3) % std::size(kinds)],
                                                     static_cast<std::int32_t>(1 + seed % 2),
                                                     static_cast<Rank>((i * seed) % plan.hosts.size())));
               plan.window = 2 + static_cast<int>(seed % 3);
               plan.in_flight = 1 + static_cast<int>(seed % 4);
               Explored().walks(plan, 5, 1000, seed);
             });
}

}  // namespace
}  // namespace ucft::detail::simulator

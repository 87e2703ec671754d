// Küttler, Härtig: Fault-tolerant Reduce and Allreduce operations based on correction. Each theorem and each item of
// the semantics of sections 4.1 and 5.1 has a test that cites it.
#include <bit>

#include "collectives/topology/reduce_topology.hpp"
#include "simulator/explorer.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;
using namespace simulator;

#ifdef UCFT_SMALL
constexpr Rank largest = 6;
#else
constexpr Rank largest = 8;
#endif

Plan plan_of(Rank ranks, const Arguments& arguments, std::size_t operations = 1) {
  Plan plan;
  plan.ranks = ranks;
  plan.program.assign(operations, arguments);
  return plan;
}

Arguments arguments_of(Kind kind, std::int32_t f, Rank root = 0) { return sum_of_words(f, root, kind); }

// Runs every plan of a scope with up to f victims; `check` sees each world when it has ended.
template <class Check>
void for_all_plans(const Plan& base, int victims, Check check) {
  std::vector<Rank> chosen;
  const auto run = [&](Order order) {
    std::vector<std::int64_t> digits(chosen.size(), 0);
    while (true) {
      Plan plan = base;
      plan.order = order;
      plan.seed = static_cast<std::uint64_t>(digits.empty() ? 1 : digits[0] + 17);
      for (std::size_t i = 0; i < chosen.size(); ++i) plan.crashes.push_back({chosen[i], digits[i]});
      World world(plan);
      ASSERT_TRUE(world.run()) << describe(plan);
      check(world, plan);
      if (testing::Test::HasFatalFailure()) return;
      std::size_t place = 0;
      for (; place < chosen.size(); ++place) {
        if (++digits[place] < boundaries(chosen[place], base, static_cast<int>(chosen.size()))) break;
        digits[place] = 0;
      }
      if (place == chosen.size()) return;
    }
  };
  const auto grow = [&](auto&& self, Rank from) -> void {
    for (Order order : {Order::oldest_first, Order::newest_first, Order::failures_first, Order::shuffled}) {
      run(order);
      if (testing::Test::HasFatalFailure()) return;
    }
    if (static_cast<int>(chosen.size()) == victims) return;
    for (Rank rank = from; rank < base.ranks; ++rank) {
      chosen.push_back(rank);
      self(self, rank + 1);
      chosen.pop_back();
      if (testing::Test::HasFatalFailure()) return;
    }
  };
  grow(grow, 0);
}

std::vector<Rank> contributors_of(const World& world, Rank rank) {
  std::vector<Rank> ranks;
  for (Rank r = 0; r < 62; ++r)
    if (world.result(rank, 0).value.at(0) >> r & 1) ranks.push_back(r);
  return ranks;
}

// ---- section 4.3 ----

// Figure 2: seven processes sum their ranks, process 1 has failed, f = 1: 0+2+3+4+5+6 = 20.
TEST(Figure2, SevenProcessesWithoutProcess1SumTo20) {
  HandFedWorld world(7);
  world.kill(1);
  world.post_all(sum_of_words(1, 0, Kind::reduce), [](Rank rank) { return word(static_cast<std::uint64_t>(rank)); });
  // Up-correction: 3 and 4 exchange, 5 and 6 exchange, 2 sends to 1 in vain, 0 is in no group.
  EXPECT_EQ(world.counted[Phase::group], 5);
  world.deliver_all(HandFedWorld::is(Phase::group));
  // 3, 4, 5 and 6 are leaves: 7 from the group {3,4}, 11 from {5,6}.
  std::map<Rank, std::uint64_t> up;
  for (const Letter& letter : world.letters)
    if (letter.message.phase == Phase::up) up[letter.from] = word_of(letter.value);
  EXPECT_EQ(up, (std::map<Rank, std::uint64_t>{{3, 7}, {4, 7}, {5, 11}, {6, 11}}));
  world.tell_all(1);
  world.deliver(HandFedWorld::is(4, 2, Phase::up));
  world.deliver(HandFedWorld::is(6, 2, Phase::up));
  // "process 2 ... computes the sum of their values and its own local value 7 + 11 + 2 = 20", and reports no failure.
  const auto sent = std::find_if(world.letters.begin(), world.letters.end(), HandFedWorld::is(2, 0, Phase::up));
  ASSERT_NE(sent, world.letters.end());
  EXPECT_EQ(word_of(sent->value), 20u);
  EXPECT_FALSE(sent->message.has(is_unclean));
  EXPECT_EQ(elements_of<std::uint32_t>(sent->list), (std::vector<std::uint32_t>{1}));
  world.run();
  EXPECT_EQ(word_of(world[0].ended(0).value), 20u);
  EXPECT_EQ(world[0].ended(0).contributors, 6u);
  EXPECT_EQ(world[0].ended(0).missing(), (std::vector<Rank>{1}));
}

// Algorithm 1 sends the contribution; the peers may combine it with others, the sender never does.
TEST(Section42, GroupMessagesCarryTheOriginalValueToEveryPeer) {
  HandFedWorld world(4);  // f = 2: one complete group {1,2,3}
  const Arguments arguments = sum_of_words(2);
  world.post(1, arguments, word(1));
  world.post(2, arguments, word(2));
  world.deliver_all(HandFedWorld::is(Phase::group));  // 1 and 2 have each other's value before 3 starts
  world.post(3, arguments, word(4));
  world.post(0, arguments, word(8));
  for (const Letter& letter : world.letters)
    if (letter.message.phase == Phase::group) {
      EXPECT_EQ(word_of(letter.value), 1u << (letter.from - 1));
    }
  world.run();
  EXPECT_EQ(word_of(world[3].ended(0).value), 15u);
}

// Section 4.2: without a short last group the root belongs to no group; with one it exchanges with it.
TEST(Section42, TheRootExchangesOnlyWithAShortLastGroup) {
  HandFedWorld seven(7), eight(8);
  seven.post(0, sum_of_words(1), word(1));
  EXPECT_TRUE(seven.letters.empty());
  eight.post(0, sum_of_words(1), word(1));
  ASSERT_EQ(eight.letters.size(), 1u);
  EXPECT_EQ(eight.letters[0].to, 7);
}

// ---- Theorem 1 ----

// "After up-correction, all values of non-failed processes, except for those grouped with root, are included exactly
// once in the final value available in each subtree of the root that does not indicate a failure."
TEST(Theorem1, EveryCleanSubtreeHoldsEveryLiveValueOutsideTheRootsGroupOnce) {
  for (Rank n = 2; n <= 16; ++n)
    for (std::int32_t f = 0; f <= 4; ++f)
      for (Rank victim = 0; victim < n; ++victim)  // 0: nobody
        for (bool before_start : {true, false}) {
          if (f == 0 && victim != 0) continue;
          HandFedWorld world(n);
          const Arguments arguments = sum_of_words(f, 0, Kind::reduce);
          const auto input = [](Rank rank) { return word(1ull << rank); };
          if (before_start && victim != 0) world.kill(victim);
          world.post_all(arguments, input);
          if (victim != 0) world.kill(victim), world.tell_all(victim);
          const ReduceTopology topology(n, f);
          std::vector<std::int32_t> grouped;
          topology.group_members(0, grouped);
          int clean = 0;
          // Everything but what goes to the root.
          while (world.deliver([](const Letter& letter) { return letter.to != 0; })) {}
          for (const Letter& letter : world.letters) {
            if (letter.to != 0 || letter.message.phase != Phase::up || letter.message.has(is_unclean)) continue;
            ++clean;
            const std::uint64_t sum = letter.value.empty() ? 0 : word_of(letter.value);
            ASSERT_EQ(sum >> n, 0u) << "somebody is in it twice";
            for (Rank rank = 1; rank < n; ++rank) {
              const bool excepted = std::find(grouped.begin(), grouped.end(), rank) != grouped.end();
              if (world.alive(rank) && !excepted) {
                ASSERT_TRUE(sum >> rank & 1) << "n " << n << " f " << f << " victim " << victim << " rank " << rank;
              }
            }
            ASSERT_EQ(static_cast<std::uint32_t>(std::popcount(sum)), letter.message.contributors);
          }
          ASSERT_GE(clean, std::min(f + 1, n - 1) - (victim != 0 ? 1 : 0))
              << "n " << n << " f " << f << " victim " << victim;
        }
}

// The same with every set of f processes that have failed before: the clean subtrees are as many as the theorem leaves,
// at least one, and each holds every live value outside the root's group once.
TEST(Theorem1, HoldsForEverySetOfUpToFFailedProcesses) {
  for (Rank n = 2; n <= 10; ++n)
    for (std::int32_t f = 2; f <= 3; ++f)
      for (std::uint32_t dead = 0; dead < 1u << n; dead += 2) {  // the root lives
        if (std::popcount(dead) > f) continue;
        HandFedWorld world(n);
        for (Rank rank = 1; rank < n; ++rank)
          if (dead >> rank & 1) world.kill(rank);
        world.post_all(sum_of_words(f, 0, Kind::reduce), [](Rank rank) { return word(1ull << rank); });
        for (Rank rank = 1; rank < n; ++rank)
          if (dead >> rank & 1) world.tell_all(rank);
        std::vector<std::int32_t> grouped;
        ReduceTopology(n, f).group_members(0, grouped);
        std::uint64_t expected = ((1ull << n) - 1) & ~dead;
        for (Rank rank : grouped) expected &= ~(1ull << rank);
        expected &= ~1ull;
        int clean = 0;
        while (world.deliver([](const Letter& letter) { return letter.to != 0; })) {}
        for (const Letter& letter : world.letters) {
          if (letter.to != 0 || letter.message.phase != Phase::up || letter.message.has(is_unclean)) continue;
          ++clean;
          const std::uint64_t sum = letter.value.empty() ? 0 : word_of(letter.value);
          ASSERT_EQ(sum & expected, expected) << "n " << n << " f " << f << " dead " << dead;
          ASSERT_EQ(sum & dead, 0u);
          ASSERT_EQ(sum >> n, 0u);
        }
        ASSERT_TRUE(clean >= 1 || n - 1 <= f) << "n " << n << " f " << f << " dead " << dead;
      }
}

// ---- Theorem 2 ----

// "All children of the root will either yield a correct value, or indicate a failure in their subtree, or have failed."
TEST(Theorem2, ASubtreeThatLostAMemberSaysSo) {
  for (Rank n = 3; n <= 20; ++n)
    for (std::int32_t f = 1; f <= 3; ++f) {
      const ReduceTopology topology(n, f);
      for (Rank victim = 1; victim < n; ++victim) {
        if (topology.parent(victim) == 0) continue;
        HandFedWorld world(n);
        world.kill(victim);
        world.post_all(sum_of_words(f, 0, Kind::reduce), [](Rank rank) { return word(1ull << rank); });
        world.tell_all(victim);
        while (world.deliver([](const Letter& letter) { return letter.to != 0; })) {}
        Rank top = victim;
        while (topology.parent(top) != 0) top = topology.parent(top);
        int reported = 0;
        for (const Letter& letter : world.letters) {
          if (letter.to != 0 || letter.message.phase != Phase::up) continue;
          EXPECT_EQ(letter.message.has(is_unclean), letter.from == top)
              << "n " << n << " f " << f << " victim " << victim;
          ++reported;
        }
        EXPECT_EQ(reported, std::min(f + 1, n - 1));
      }
    }
}

// Definition (section 4.5): "r has f+1 children"; "the sizes of T_i and T_j differ by at most one". Theorems 1 to 4
// assume an I(f)-tree.
TEST(Definition, TheTreeIsAnIfTree) {
  for (Rank n = 2; n <= 60; ++n)
    for (std::int32_t f = 0; f <= std::min(6, n - 2); ++f) {
      const ReduceTopology tree(n, f);
      std::vector<int> sizes(static_cast<std::size_t>(n), 0);
      for (Rank process = 1; process < n; ++process) {
        Rank top = process;
        while (tree.parent(top) != 0) top = tree.parent(top);
        ++sizes[static_cast<std::size_t>(top)];
      }
      std::erase(sizes, 0);
      ASSERT_EQ(sizes.size(), static_cast<std::size_t>(f) + 1) << "n " << n << " f " << f;
      ASSERT_LE(*std::max_element(sizes.begin(), sizes.end()) - *std::min_element(sizes.begin(), sizes.end()), 1);
    }
}

// ---- Theorem 3 and Theorem 4 (semantics of section 4.1) ----

// Theorem 3: "either the root will have failed, or it will know the correct result" with no more than f failures.
TEST(Theorem3, TheRootKnowsTheResultOrHasFailed) {
  for (Rank n = 1; n <= largest; ++n)
    for (std::int32_t f = 0; f <= 2; ++f)
      for_all_plans(plan_of(n, arguments_of(Kind::reduce, f)), n <= 6 ? f : std::min(f, 1),
                    [](World& world, const Plan& plan) {
                      if (!world.alive(0)) return;
                      ASSERT_TRUE(world.result(0, 0).finished) << describe(plan);
                      ASSERT_EQ(world.result(0, 0).outcome, Outcome::success) << describe(plan);
                    });
}

class ReduceSemantics : public testing::Test {
 protected:
  template <class Check>
  void for_all_reduces(Check check) {
    for (Rank n = 2; n <= largest; ++n)
      for (std::int32_t f : {1, 2})
        for (Rank root : {0, n - 1})
          for_all_plans(plan_of(n, arguments_of(Kind::reduce, f, root)), n <= 5 ? f : 1,
                        [&](World& world, const Plan& plan) { check(world, plan, root); });
  }
};

// 4.1 item 1: "If the root calls deliver_reduce(m), all non-failed processes have called init_reduce(m)."
TEST_F(ReduceSemantics, Item1TheRootDoesNotDeliverBeforeEveryLiveProcessHasStarted) {
  for (Rank n = 2; n <= 12; ++n)
    for (std::int32_t f = 0; f <= 3; ++f)
      for (Rank late = 1; late < n; ++late) {
        HandFedWorld world(n);
        const Arguments arguments = sum_of_words(f, 0, Kind::reduce);
        for (Rank rank = 0; rank < n; ++rank)
          if (rank != late) world.post(rank, arguments, word(1));
        world.run();
        ASSERT_FALSE(world[0].has_ended(0)) << "n " << n << " f " << f << " late " << late;
        world.post(late, arguments, word(1));
        world.run();
        ASSERT_EQ(word_of(world[0].ended(0).value), static_cast<std::uint64_t>(n));
      }
}

// 4.1 item 2: "Each process calls deliver_reduce(m) at most once."
TEST_F(ReduceSemantics, Item2NobodyDeliversTwice) {
  for (Rank n = 2; n <= 9; ++n)
    for (Rank victim = 0; victim < n; ++victim) {
      HandFedWorld world(n);
      world.post_all(sum_of_words(1, 0, Kind::reduce), [](Rank) { return word(1); });
      world.deliver_all(HandFedWorld::is(Phase::group));
      world.kill(victim);
      world.tell_all(victim);
      world.run();
      world.tell_all(victim);
      for (Rank rank = 0; rank < n; ++rank)
        if (world.alive(rank)) {
          EXPECT_EQ(world[rank].ended(0).times, 1) << "rank " << rank << " of " << n;
        }
    }
}

// 4.1 item 3: "The value returned by reduce at a non-failed root includes the input values of all non-failed
// processes."
TEST_F(ReduceSemantics, Item3TheResultIncludesAllLiveProcesses) {
  for_all_reduces([](World& world, const Plan& plan, Rank root) {
    if (!world.alive(root)) return;
    const std::vector<Rank> in = contributors_of(world, root);
    for (Rank live : world.survivors()) ASSERT_NE(std::find(in.begin(), in.end(), live), in.end()) << describe(plan);
  });
}

// 4.1 item 4: "Values of failed processes are either included normally, or disregarded." Two elements, both or none.
TEST_F(ReduceSemantics, Item4AFailedProcessIsInWholeOrNotAtAll) {
  for (Rank n = 2; n <= largest; ++n)
    for (std::int32_t f : {1, 2}) {
      Arguments arguments = arguments_of(Kind::reduce, f);
      arguments.count = 3;
      for_all_plans(plan_of(n, arguments), n <= 5 ? f : 1, [n](World& world, const Plan& plan) {
        if (!world.alive(0)) return;
        const Result& result = world.result(0, 0);
        ASSERT_EQ(result.value[0] >> n, 0u) << describe(plan);
        ASSERT_EQ(result.value[0], result.value[1]) << describe(plan);
        ASSERT_EQ(result.value[0], result.value[2]) << describe(plan);
        ASSERT_EQ(static_cast<std::uint32_t>(std::popcount(result.value[0])), result.contributors) << describe(plan);
      });
    }
}

// The proof of item 4: "If p failed pre-operationally ... the value of p is not included."
TEST_F(ReduceSemantics, Item4AProcessThatFailedBeforeIsNotIncluded) {
  for (Rank n = 2; n <= 12; ++n)
    for (Rank victim = 1; victim < n; ++victim) {
      Plan plan = plan_of(n, arguments_of(Kind::reduce, 1));
      plan.crashes = {{victim, 0}};
      World world(plan);
      ASSERT_TRUE(world.run());
      EXPECT_EQ(world.result(0, 0).value.at(0), ((1ull << n) - 1) & ~(1ull << victim));
      EXPECT_EQ(world.result(0, 0).missing, (std::vector<Rank>{victim}));
    }
}

// 4.1 item 5: "Each non-failed process executes deliver_reduce(m) eventually."
TEST_F(ReduceSemantics, Item5EveryLiveProcessFinishes) {
  for_all_reduces([](World& world, const Plan& plan, Rank) {
    for (Rank live : world.survivors()) ASSERT_TRUE(world.result(live, 0).finished) << describe(plan);
  });
}

// Section 4.3: "If the root fails, this operation becomes a no-op": nobody hangs, and who knows it reports it.
TEST_F(ReduceSemantics, AFailedRootEndsTheOperationForAll) {
  for (Rank n = 2; n <= 12; ++n) {
    Plan plan = plan_of(n, arguments_of(Kind::reduce, 1));
    plan.crashes = {{0, 0}};
    plan.order = Order::failures_first;
    World world(plan);
    ASSERT_TRUE(world.run());
    EXPECT_EQ(world.check(), "");
    for (Rank live : world.survivors()) EXPECT_TRUE(world.result(live, 0).finished);
  }
}

// ---- section 4.4 ----

// The list names exactly those whose value is not in the sum; count and bit choose the same subtrees without it.
TEST(Section44, AllThreeSchemesLeadToACorrectSum) {
  for (FailureInfo info : {FailureInfo::list, FailureInfo::count, FailureInfo::bit})
    for (Rank n = 2; n <= 7; ++n) {
      Arguments arguments = arguments_of(Kind::allreduce, 2);
      arguments.failure_info = info;
      for_all_plans(plan_of(n, arguments), n <= (largest == 8 ? 5 : 4) ? 2 : 1,
                    [](World& world, const Plan& plan) { ASSERT_EQ(world.check(), "") << describe(plan); });
    }
}

TEST(Section44, TheListNamesWhomTheGroupMissedAndTheBitNamesNobody) {
  for (FailureInfo info : {FailureInfo::list, FailureInfo::count, FailureInfo::bit}) {
    Arguments arguments = sum_of_words(1, 0, Kind::reduce);
    arguments.failure_info = info;
    HandFedWorld world(7);
    world.kill(3);  // below 1, grouped with 4 below 2
    world.post_all(arguments, [](Rank) { return word(1); });
    world.tell_all(3);
    while (world.deliver([](const Letter& letter) { return letter.to != 0; })) {}
    for (const Letter& letter : world.letters) {
      if (letter.to != 0) continue;
      EXPECT_EQ(letter.message.has(is_unclean), letter.from == 1) << "the bit is set by the tree, not by the group";
      EXPECT_EQ(letter.message.failed_count, info == FailureInfo::bit ? 0u : 1u);
      EXPECT_EQ(letter.list.size(), info == FailureInfo::list ? 4u : 0u);
    }
  }
}

// ---- Theorem 5 ----

// "In the up-correction phase f(f+1)*floor((n-1)/(f+1)) + a(a-1) with a = ((n-1) mod (f+1)) + 1 are being sent, in the
// tree phase n-1." The formula is written out again here; f beyond n-1 counts as n-1.
std::int64_t up_correction_messages(std::int64_t n, std::int64_t f) {
  f = std::min(f, n - 1);
  const std::int64_t a = (n - 1) % (f + 1) + 1;
  return f * (f + 1) * ((n - 1) / (f + 1)) + a * (a - 1);
}

TEST(Theorem5, LiteralNumbers) {
  EXPECT_EQ(up_correction_messages(7, 1), 6);
  EXPECT_EQ(up_correction_messages(8, 1) + 7, 15);
  EXPECT_EQ(up_correction_messages(16, 3) + 15, 63);
  EXPECT_EQ(up_correction_messages(24, 0), 0);
  EXPECT_EQ(up_correction_messages(4, 3), 12) << "all with all";
}

TEST(Theorem5, ReduceSendsAsManyMessagesAsTheFormulaSays) {
  for (Rank n = 1; n <= 24; ++n)
    for (std::int32_t f = 0; f <= 6; ++f)
      for (Order order : {Order::oldest_first, Order::newest_first, Order::shuffled}) {
        Plan plan = plan_of(n, arguments_of(Kind::reduce, f));
        plan.order = order;
        World world(plan);
        ASSERT_TRUE(world.run());
        ASSERT_EQ(world.sends(Phase::group), up_correction_messages(n, f)) << "n " << n << " f " << f;
        ASSERT_EQ(world.sends(Phase::up), n - 1) << "n " << n << " f " << f;
        std::int64_t all = 0;
        for (Rank rank = 0; rank < n; ++rank) all += world.sends(rank);
        ASSERT_EQ(all, up_correction_messages(n, f) + n - 1) << "n " << n << " f " << f;
        ASSERT_EQ(all, ReduceTopology(n, f).messages_without_failure());
      }
}

// "When processes fail, less messages are being sent." "No other process sends more messages based on failures."
TEST(Theorem5, FailuresOnlyMakeReduceCheaper) {
  for (Rank n = 2; n <= largest; ++n)
    for (std::int32_t f : {1, 2})
      for_all_plans(plan_of(n, arguments_of(Kind::reduce, f)), n <= 5 ? f : 1, [&](World& world, const Plan& plan) {
        if (!world.alive(0)) return;
        ASSERT_LE(world.sends(Phase::group) + world.sends(Phase::up), up_correction_messages(n, f) + n - 1)
            << describe(plan);
        for (Phase phase : {Phase::broadcast, Phase::correction, Phase::ask, Phase::decided, Phase::gather,
                            Phase::gather_reply, Phase::mismatch})
          ASSERT_EQ(world.sends(phase), 0) << describe(plan);
      });
}

// ---- Theorem 6 (semantics of section 5.1); the assumption of f+1 candidates that don't fail is not needed here ----

class AllreduceSemantics : public testing::Test {
 protected:
  template <class Check>
  void for_all_allreduces(Check check) {
    for (Rank n = 2; n <= largest; ++n)
      for (std::int32_t f : {1, 2}) {
        Arguments arguments = arguments_of(Kind::allreduce, f, n > 3 ? 1 : 0);
        arguments.shape = n % 2 == 0 ? BroadcastShape{} : BroadcastShape{Tree::kary, Numbering::in_order, 2};
        for_all_plans(plan_of(n, arguments), n <= 5 ? f : 1, check);
      }
  }
};

// 5.1 item 1: "If any process calls deliver_allreduce(m), all non-failed processes have called init_allreduce(m)."
TEST_F(AllreduceSemantics, Item1NobodyDeliversBeforeEveryLiveProcessHasStarted) {
  for (Kind kind : {Kind::allreduce, Kind::barrier})
    for (Rank n = 2; n <= 12; ++n)
      for (std::int32_t f = 0; f <= 3; ++f)
        for (Rank late = 0; late < n; ++late) {
          HandFedWorld world(n);
          const Arguments arguments = sum_of_words(f, 0, kind);
          const Bytes input = kind == Kind::barrier ? Bytes{} : word(1);
          for (Rank rank = 0; rank < n; ++rank)
            if (rank != late) world.post(rank, arguments, input);
          world.run();
          for (Rank rank = 0; rank < n; ++rank) ASSERT_FALSE(world[rank].has_ended(0)) << "n " << n << " late " << late;
          world.post(late, arguments, input);
          world.run();
          for (Rank rank = 0; rank < n; ++rank) ASSERT_TRUE(world[rank].has_ended(0));
        }
}

// 5.1 item 2: "Each process calls deliver_reduce(m) at most once for a given m."
TEST_F(AllreduceSemantics, Item2NobodyDeliversTwice) {
  for (Rank n = 2; n <= 9; ++n)
    for (Rank victim = 0; victim < n; ++victim)
      for (int delivered = 0; delivered < 40; delivered += 3) {
        HandFedWorld world(n);
        world.post_all(sum_of_words(1), [](Rank) { return word(1); });
        for (int i = 0; i < delivered; ++i) world.deliver([](const Letter&) { return true; });
        world.kill(victim);
        world.tell_all(victim);
        world.run();
        for (Rank rank = 0; rank < n; ++rank)
          if (world.alive(rank)) {
            EXPECT_EQ(world[rank].ended(0).times, 1) << "rank " << rank << " of " << n;
          }
      }
}

// 5.1 item 3: "Each non-failed process calls deliver_allreduce eventually."
TEST_F(AllreduceSemantics, Item3EveryLiveProcessFinishes) {
  for_all_allreduces([](World& world, const Plan& plan) {
    for (Rank live : world.survivors()) {
      ASSERT_TRUE(world.result(live, 0).finished) << describe(plan);
      ASSERT_EQ(world.result(live, 0).outcome, Outcome::success) << describe(plan);
    }
  });
}

// 5.1 item 4: "Each allreduce includes the values of all non-failed processes."
TEST_F(AllreduceSemantics, Item4TheResultIncludesAllLiveProcesses) {
  for_all_allreduces([](World& world, const Plan& plan) {
    const std::vector<Rank> live = world.survivors();
    for (Rank rank : live) {
      const std::vector<Rank> in = contributors_of(world, rank);
      for (Rank other : live) ASSERT_NE(std::find(in.begin(), in.end(), other), in.end()) << describe(plan);
    }
  });
}

// 5.1 item 5: "The value of a failed process is either included at every non-failed process, or at none."
TEST_F(AllreduceSemantics, Item5AFailedProcessIsInEverywhereOrNowhere) {
  for_all_allreduces([](World& world, const Plan& plan) {
    const std::vector<Rank> live = world.survivors();
    for (Rank rank : live) ASSERT_EQ(world.result(rank, 0).value, world.result(live[0], 0).value) << describe(plan);
  });
}

// ---- Theorem 7 ----

const Phase only_after_failures[] = {Phase::ask, Phase::decided, Phase::gather, Phase::gather_reply, Phase::mismatch};

// "If the root did and does not fail, allreduce requires as many messages as reduce together with broadcast": Theorem 5
// plus n-1. Root safety costs nothing until somebody fails.
TEST(Theorem7, AllreduceWithoutFailureCostsReducePlusBroadcast) {
  for (Kind kind : {Kind::allreduce, Kind::barrier})
    for (Rank n = 1; n <= 24; ++n)
      for (std::int32_t f = 0; f <= 6; ++f)
        for (BroadcastShape shape : {BroadcastShape{}, BroadcastShape{Tree::kary, Numbering::in_order, 3},
                                     BroadcastShape{Tree::optimal, Numbering::interleaved, 4, 10}})
          for (Order order : {Order::oldest_first, Order::newest_first, Order::shuffled}) {
            Plan plan = plan_of(n, arguments_of(kind, f, n / 2));
            plan.program[0].shape = shape;
            plan.order = order;
            World world(plan);
            ASSERT_TRUE(world.run());
            ASSERT_EQ(world.sends(Phase::group), up_correction_messages(n, f));
            ASSERT_EQ(world.sends(Phase::up), n - 1);
            ASSERT_EQ(world.sends(Phase::broadcast), n - 1);
            ASSERT_EQ(world.sends(Phase::correction), 0);
            for (Phase phase : only_after_failures) ASSERT_EQ(world.sends(phase), 0);
            std::int64_t all = 0;
            for (Rank rank = 0; rank < n; ++rank) all += world.sends(rank);
            ASSERT_EQ(all, up_correction_messages(n, f) + 2 * (n - 1)) << "n " << n << " f " << f;
          }
}

TEST(Theorem7, BroadcastWithoutFailureCostsItsEdges) {
  for (int tree = 0; tree < tree_count; ++tree)
    for (Rank n = 1; n <= 24; ++n) {
      Arguments arguments = arguments_of(Kind::broadcast, 2, n - 1);
      arguments.shape.tree = static_cast<Tree>(tree);
      World world(plan_of(n, arguments));
      ASSERT_TRUE(world.run());
      std::int64_t all = 0;
      for (Rank rank = 0; rank < n; ++rank) all += world.sends(rank);
      EXPECT_EQ(all, n - 1) << "tree " << tree;
    }
}

// "f failures can increase this number at most to the (f+1)-fold." Counted: group, up and broadcast messages of the
// whole world, against (r+1) times (Theorem 5 plus n-1), r being the number of roots that died; r is at most the number
// of deaths. Not counted: questions and answers, of which each live process asks at most one per ballot, and the
// gathering, which must not happen at all with at most f deaths.
TEST(Theorem7, EachRootThatDiesAddsAtMostOneMoreRound) {
  for (Rank n = 2; n <= largest; ++n)
    for (std::int32_t f : {1, 2})
      for_all_plans(plan_of(n, arguments_of(Kind::allreduce, f)), n <= 6 ? f : 1, [&](World& world, const Plan& plan) {
        std::int64_t dead_roots = 0;
        while (dead_roots < n && !world.alive(static_cast<Rank>(dead_roots))) ++dead_roots;
        const std::int64_t once = up_correction_messages(n, f) + 2 * (n - 1);
        const std::int64_t sent = world.sends(Phase::group) + world.sends(Phase::up) + world.sends(Phase::broadcast);
        ASSERT_LE(sent, (dead_roots + 1) * once) << describe(plan);
        ASSERT_LE(world.sends(Phase::ask), (dead_roots + 1) * (n - 1)) << describe(plan);
        ASSERT_LE(world.sends(Phase::decided), world.sends(Phase::ask)) << describe(plan);
        ASSERT_EQ(world.sends(Phase::gather) + world.sends(Phase::gather_reply) + world.sends(Phase::mismatch), 0)
            << describe(plan);
      });
}

}  // namespace
}  // namespace ucft::detail

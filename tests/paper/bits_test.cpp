// Floating-point sums: within an operation all ranks have the same bits; across operations, the same bits for the same
// contributors, membership, root, f and algorithm, whichever child of the root is first and whatever the order.
#include <cmath>

#include "collectives/topology/reduce_topology.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

Arguments sum_of_doubles(std::int32_t f, Rank root, std::uint64_t count, Kind kind = Kind::allreduce) {
  Arguments arguments = sum_of_words(f, root, kind);
  arguments.reduction = {DataType::float64, arguments.reduction.op()};
  arguments.count = count;
  return arguments;
}

constexpr std::size_t count = 8;

// Magnitudes far apart, so that another order of additions shows.
Bytes doubles_of(Rank rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 7919 + 1);
  std::vector<double> values(count);
  for (double& value : values)
    value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 40) - 20);
  return bytes_of(values);
}

// The dead are dead before the start; everybody hears of it at some time.
struct Setting {
  Rank ranks, root;
  std::int32_t f;
  std::vector<Rank> dead = {};
};

std::string describe(const Setting& setting) {
  std::string text = "n " + std::to_string(setting.ranks) + " f " + std::to_string(setting.f) + " root " +
                     std::to_string(setting.root) + " dead";
  for (Rank rank : setting.dead) text += " " + std::to_string(rank);
  return text;
}

std::unique_ptr<HandFedWorld> started(const Setting& setting, Kind kind = Kind::allreduce) {
  auto world = std::make_unique<HandFedWorld>(setting.ranks);
  for (Rank rank : setting.dead) world->kill(rank);
  world->post_all(sum_of_doubles(setting.f, setting.root, count, kind), doubles_of);
  for (Rank rank : setting.dead) world->tell_all(rank);
  return world;
}

void expect_same_bits(HandFedWorld& world, Bytes& reference, const std::string& what) {
  for (Rank rank = 0; rank < world.size(); ++rank) {
    if (!world.alive(rank)) continue;
    const Bytes& bits = world[rank].ended(0).value;
    if (reference.empty()) reference = bits;
    ASSERT_EQ(bits.size(), count * sizeof(double)) << what;
    ASSERT_EQ(bits, reference) << what << " rank " << rank;
  }
}

void expect_right_sum(const Setting& setting, const Bytes& bits) {
  for (std::size_t i = 0; i < count; ++i) {
    long double sum = 0, magnitude = 0;
    for (Rank rank = 0; rank < setting.ranks; ++rank) {
      if (std::find(setting.dead.begin(), setting.dead.end(), rank) != setting.dead.end()) continue;
      const double value = elements_of<double>(doubles_of(rank))[i];
      sum += value;
      magnitude += std::abs(value);
    }
    ASSERT_NEAR(static_cast<double>(sum), elements_of<double>(bits)[i], static_cast<double>(magnitude) * 1e-14)
        << describe(setting);
  }
}

void expect_one_answer_in_any_order(const Setting& setting, int seeds) {
  Bytes reference;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto world = started(setting);
    world->run_shuffled(random);
    expect_same_bits(*world, reference, describe(setting) + " seed " + std::to_string(seed));
    if (testing::Test::HasFatalFailure()) return;
  }
  expect_right_sum(setting, reference);
}

TEST(Bits, AreTheSameOnAllRanksAndInAnyDeliveryOrder) {
  for (Rank n = 1; n <= 18; ++n)
    for (std::int32_t f = 0; f <= 4; ++f)
      for (Rank root : {0, n / 2}) {
        expect_one_answer_in_any_order({n, root, f}, 12);
        if (HasFatalFailure()) return;
      }
}

TEST(Bits, AreTheSameWhicheverChildOfTheRootIsFirst) {
  for (Rank n = 2; n <= 18; ++n)
    for (std::int32_t f = 1; f <= 4; ++f) {
      Bytes reference;
      std::vector<std::int32_t> children;
      ReduceTopology(n, f).children(0, children);
      for (Rank first : children) {
        const auto world = started({n, 0, f});
        while (world->deliver(
            [](const Letter& letter) { return letter.to != 0 || letter.message.phase == Phase::group; })) {}
        ASSERT_TRUE(world->deliver(HandFedWorld::is(first, 0, Phase::up)));
        world->run();
        expect_same_bits(*world, reference,
                         "n " + std::to_string(n) + " f " + std::to_string(f) + " first " + std::to_string(first));
        if (HasFatalFailure()) return;
      }
    }
}

TEST(Bits, AreTheSameInAnyOrderWithAFixedSetOfDead) {
  for (Rank n = 2; n <= 14; ++n)
    for (std::int32_t f = 1; f <= 3; ++f)
      for (Rank first = 1; first < n; ++first) {
        expect_one_answer_in_any_order({n, 0, f, {first}}, 6);
        const Rank second = first + 1 + (n + first) % 3;
        if (f >= 2 && second < n) expect_one_answer_in_any_order({n, 0, f, {first, second}}, 6);
        if (HasFatalFailure()) return;
      }
}

TEST(Bits, AreTheSameInAnyOrderWhenTheFirstRootIsDead) {
  for (Rank n = 3; n <= 14; ++n)
    for (std::int32_t f = 1; f <= 3; ++f) {
      expect_one_answer_in_any_order({n, 0, f, {0}}, 6);
      if (f >= 2) expect_one_answer_in_any_order({n, 0, f, {0, 1}}, 6);
      if (HasFatalFailure()) return;
    }
}

TEST(Bits, OfReduceAreThoseOfAllreduce) {
  for (Rank n = 1; n <= 18; ++n)
    for (std::int32_t f = 0; f <= 4; ++f) {
      const auto all = started({n, 0, f}), one = started({n, 0, f}, Kind::reduce);
      all->run();
      one->run();
      ASSERT_EQ((*all)[0].ended(0).value, (*one)[0].ended(0).value) << "n " << n << " f " << f;
    }
}

TEST(Bits, DoNotDependOnHowTheResultIsSpreadOrFailuresReported) {
  for (Rank n = 2; n <= 10; ++n) {
    Bytes reference;
    for (Correction correction : {Correction::none, Correction::opportunistic, Correction::checked})
      for (FailureInfo info : {FailureInfo::list, FailureInfo::count, FailureInfo::bit})
        for (Tree tree : {Tree::binomial, Tree::kary}) {
          HandFedWorld world(n);
          Arguments arguments = sum_of_doubles(2, 0, count);
          arguments.correction = correction;
          arguments.failure_info = info;
          arguments.shape.tree = tree;
          world.post_all(arguments, doubles_of);
          world.run();
          expect_same_bits(world, reference, "n " + std::to_string(n));
          if (HasFatalFailure()) return;
        }
  }
}

TEST(Bits, AreTheSameInTheNextOperationToo) {
  for (Rank n : {5, 8, 13}) {
    HandFedWorld world(n);
    for (int i = 0; i < 10; ++i) {
      world.post_all(sum_of_doubles(2, 0, count), doubles_of);
      world.run();
    }
    for (Rank rank = 0; rank < n; ++rank)
      for (OperationNumber number = 1; number < 10; ++number)
        ASSERT_EQ(world[rank].ended(number).value, world[0].ended(0).value);
  }
}

// Values are combined in rank order: subtraction by a user-defined function shows the order. n = 3, f = 2: one group of
// all with the root: ((0 - 1) - 2).
TEST(Bits, AGroupIsCombinedInRankOrderNotInArrivalOrder) {
  const auto minus = [](const void* in, void* inout, std::uint64_t n, int, void*) {
    for (std::uint64_t i = 0; i < n; ++i) {
      double lower, higher;
      std::memcpy(&lower, static_cast<const std::byte*>(in) + i * 8, 8);
      std::memcpy(&higher, static_cast<std::byte*>(inout) + i * 8, 8);
      higher = lower - higher;
      std::memcpy(static_cast<std::byte*>(inout) + i * 8, &higher, 8);
    }
  };
  for (int seed = 1; seed <= 30; ++seed) {
    HandFedWorld world(3);
    Arguments arguments = sum_of_doubles(2, 0, 1);
    arguments.reduction = {DataType::float64, Operator::user, minus, nullptr};
    world.post_all(arguments, [](Rank rank) { return bytes_of(std::vector<double>{std::ldexp(1.0, 4 * rank)}); });
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    world.run_shuffled(random);
    for (Rank rank = 0; rank < 3; ++rank)
      EXPECT_EQ(elements_of<double>(world[rank].ended(0).value).at(0), 1.0 - 16 - 256);
  }
}

}  // namespace
}  // namespace ucft::detail

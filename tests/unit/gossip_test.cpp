// Gossip all-reduce, fed by hand: permutations, neighbourhoods, and what each rule does with one message.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "collectives/gossip/faults.hpp"
#include "collectives/gossip/gossip.hpp"

namespace ucft::detail {
namespace {

TEST(Rows, AreAsLongAsIsSaidBeforehand) {
  for (int each = 0; each < gossip_algorithm_count; ++each)
    for (std::size_t values : {0u, 1u, 7u}) {
      GossipPlan plan;
      plan.algorithm = static_cast<GossipAlgorithm>(each);
      plan.neighbourhood = {GossipTopology::complete, 4};
      plan.tau = 1;
      plan.rounds = 3;
      const std::vector<double> zeros(values);
      EXPECT_EQ(GossipRank<double>(plan, 1, zeros, 1).row_length(),
                row_length_of(plan.algorithm, plan.extremum, values))
          << gossip_algorithm_name(plan.algorithm);
    }
}

TEST(Permutation, IsABijectionWithItsInverse) {
  for (std::uint64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1023, 1024, 1025})
    for (std::uint64_t seed : {0, 1, 77}) {
      const Permutation order(n, seed);
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < n; ++i) {
        seen.insert(order.at(i));
        EXPECT_LT(order.at(i), n);
        EXPECT_EQ(order.place_of(order.at(i)), i) << n << " " << seed;
      }
      EXPECT_EQ(seen.size(), n);
    }
}

TEST(Permutation, NextGoesThroughAllInOneCycle) {
  for (std::uint64_t n : {1, 2, 3, 6, 17, 256, 1000}) {
    const Permutation order(n, 5);
    std::uint64_t at = 0, steps = 0;
    do {
      EXPECT_EQ(order.previous(order.next(at)), at);
      at = order.next(at);
      ++steps;
    } while (at != 0);
    EXPECT_EQ(steps, n);
  }
}

TEST(Permutation, SeedsGiveDifferentCycles) {
  std::set<std::uint64_t> first_steps;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) first_steps.insert(Permutation(1 << 20, seed).next(0));
  EXPECT_GT(first_steps.size(), 990u);
}

// Pearson's chi-square, as far above its expectation as it is, in standard deviations. Seeds are fixed: 5 is a chance
// of some 1e-6 for a sound generator, and what multiplications and shifts of few bits made was off by 9 to 1194.
double deviations(const std::vector<int>& counts, double expected) {
  double chi_square = 0;
  for (int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

// The cycle 0 -> a -> b -> .. as the number of a permutation of the n - 1 others.
std::uint64_t number_of_cycle(const Permutation& order) {
  std::uint64_t number = 0;
  std::vector<std::uint64_t> others(order.size() - 1);
  std::iota(others.begin(), others.end(), 1u);
  for (std::uint64_t at = order.next(0); at != 0; at = order.next(at)) {
    const auto place = std::find(others.begin(), others.end(), at);
    number = number * others.size() + static_cast<std::uint64_t>(place - others.begin());
    others.erase(place);
  }
  return number;
}

TEST(Permutation, AllCyclesOfFewRanksAreEquallyLikely) {
  std::size_t cycles = 2;  // (n - 1)!
  for (std::uint64_t n = 4; n <= 8; ++n) {
    cycles *= n - 1;
    const int seeds = 200'000;
    std::vector<int> counts(cycles);
    for (std::uint64_t seed = 0; seed < seeds; ++seed) ++counts[number_of_cycle(Permutation(n, seed))];
    EXPECT_LT(std::abs(deviations(counts, seeds / static_cast<double>(cycles))), 5) << n;
  }
}

// From any place on, so that two ways of the same cycle are not only right on average over all of them.
TEST(Permutation, TheNextTwoRanksAreEquallyLikely) {
  for (std::uint64_t n : {5u, 9u, 12u, 16u, 17u, 32u, 64u, 128u, 256u, 257u, 1024u})
    for (std::uint64_t from : {std::uint64_t{0}, n / 2}) {
      const int seeds = 20'000;
      std::vector<int> first(n - 1), second(n - 2);  // by distance; the second one's from the first, which skips `from`
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const Permutation order(n, seed);
        const std::uint64_t one = order.next(from), two = order.next(one);
        ++first[(one + n - from) % n - 1];
        const std::uint64_t back = (from + n - one) % n, on = (two + n - one) % n;
        ++second[on - (on > back ? 2 : 1)];
      }
      EXPECT_LT(std::abs(deviations(first, seeds / static_cast<double>(n - 1))), 5) << n << " from " << from;
      EXPECT_LT(std::abs(deviations(second, seeds / static_cast<double>(n - 2))), 5) << n << " from " << from;
    }
}

bool is_connected(const Neighbourhood& neighbourhood) {
  std::vector<bool> seen(static_cast<std::size_t>(neighbourhood.ranks));
  std::vector<Rank> open{0};
  seen[0] = true;
  for (std::size_t i = 0; i < open.size(); ++i)
    for (Rank other : neighbours_of(neighbourhood, open[i]))
      if (!seen[static_cast<std::size_t>(other)]) {
        seen[static_cast<std::size_t>(other)] = true;
        open.push_back(other);
      }
  return open.size() == seen.size();
}

TEST(Neighbourhood, IsMutualConnectedAndWithoutOneself) {
  int tried = 0;
  for (int topology = 0; topology < gossip_topology_count; ++topology)
    for (Rank ranks = 1; ranks <= 130; ++ranks)
      for (int degree : {2, 3, 5}) {
        const Neighbourhood made{static_cast<GossipTopology>(topology), ranks, degree, degree, 9};
        if (!problem_with(made).empty()) continue;
        if (degree > 2 && made.topology != GossipTopology::tree && made.topology != GossipTopology::random_regular)
          continue;
        ++tried;
        EXPECT_TRUE(is_connected(made)) << gossip_topology_name(made.topology) << " " << ranks << " " << degree;
        for (Rank rank = 0; rank < ranks; ++rank) {
          const std::vector<Rank> all = neighbours_of(made, rank);
          EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
          EXPECT_EQ(std::set<Rank>(all.begin(), all.end()).size(), all.size());
          for (Rank other : all) {
            EXPECT_NE(other, rank);
            const std::vector<Rank> back = neighbours_of(made, other);
            EXPECT_TRUE(std::binary_search(back.begin(), back.end(), rank))
                << gossip_topology_name(made.topology) << " " << ranks;
          }
        }
      }
  EXPECT_GT(tried, 1000);
}

// Who reaches whom, by repeated relaxation over all pairs.
std::vector<std::vector<bool>> reach(const Neighbourhood& made, const std::vector<bool>& dead) {
  const auto n = static_cast<std::size_t>(made.ranks);
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));
  for (std::size_t a = 0; a < n; ++a) {
    if (dead[a]) continue;
    reaches[a][a] = true;
    for (Rank b : neighbours_of(made, static_cast<Rank>(a)))
      if (!dead[static_cast<std::size_t>(b)]) reaches[a][static_cast<std::size_t>(b)] = true;
  }
  for (std::size_t over = 0; over < n; ++over)
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        if (reaches[a][over] && reaches[over][b]) reaches[a][b] = true;
  return reaches;
}

std::vector<Neighbourhood> small_worlds(Rank most) {
  std::vector<Neighbourhood> all;
  for (int topology = 0; topology < gossip_topology_count; ++topology)
    for (Rank ranks = 1; ranks <= most; ++ranks)
      for (int degree : {2, 3, 4}) {
        const Neighbourhood made{static_cast<GossipTopology>(topology), ranks, degree, degree, 9};
        const bool has_degree =
            made.topology == GossipTopology::tree || made.topology == GossipTopology::random_regular;
        if (problem_with(made).empty() && (has_degree || degree == 2)) all.push_back(made);
      }
  return all;
}

// Every set of deaths in every topology of up to 9 ranks.
TEST(Neighbourhood, DeathsLeaveThePartsThatASearchOfAllPairsFinds) {
  std::map<GossipTopology, int> connected, cut;
  for (const Neighbourhood& made : small_worlds(9))
    for (unsigned set = 0; set < 1u << made.ranks; ++set) {
      const auto n = static_cast<std::size_t>(made.ranks);
      std::vector<bool> dead(n);
      for (std::size_t rank = 0; rank < n; ++rank) dead[rank] = (set >> rank & 1) != 0;
      const auto reaches = reach(made, dead);
      const std::vector<Rank> parts = parts_without(made, dead);
      bool all_reach_all = true;
      ASSERT_EQ(parts.size(), n);
      for (std::size_t a = 0; a < n; ++a) {
        Rank lowest = no_rank;
        for (std::size_t b = 0; b < n; ++b) {
          if (reaches[a][b] && lowest == no_rank) lowest = static_cast<Rank>(b);
          all_reach_all = all_reach_all && (dead[a] || dead[b] || reaches[a][b]);
        }
        ASSERT_EQ(parts[a], lowest) << gossip_topology_name(made.topology) << " " << made.ranks << " dead " << set
                                    << " rank " << a;
      }
      ASSERT_EQ(is_connected_without(made, dead), all_reach_all)
          << gossip_topology_name(made.topology) << " " << made.ranks << " dead " << set;
      ++(all_reach_all ? connected : cut)[made.topology];
    }
  for (int topology = 0; topology < gossip_topology_count; ++topology) {
    EXPECT_GT(connected[static_cast<GossipTopology>(topology)], 0);
    EXPECT_EQ(cut[static_cast<GossipTopology>(topology)] > 0,
              static_cast<GossipTopology>(topology) != GossipTopology::complete)
        << topology;
  }
}

TEST(Neighbourhood, OfFewerRanksThereIsAlwaysAConnectedOne) {
  for (const Neighbourhood& made : small_worlds(66))
    for (Rank left = 1; left <= made.ranks; ++left) {
      const Neighbourhood now = mended(made, left);
      Neighbourhood same = made;
      same.ranks = left;
      ASSERT_EQ(problem_with(now), "") << gossip_topology_name(made.topology) << " " << made.ranks << " -> " << left;
      ASSERT_EQ(now.ranks, left);
      ASSERT_TRUE(now.topology == made.topology || !problem_with(same).empty()) << made.ranks << " -> " << left;
      ASSERT_TRUE(is_connected(now)) << gossip_topology_name(made.topology) << " " << made.ranks << " -> " << left;
    }
  EXPECT_EQ(mended({GossipTopology::hypercube, 64}, 63).topology, GossipTopology::random_regular);
  EXPECT_EQ(mended({GossipTopology::hypercube, 64}, 63).degree, 6);
  EXPECT_EQ(mended({GossipTopology::hypercube, 64}, 32).topology, GossipTopology::hypercube);
  EXPECT_EQ(mended({GossipTopology::torus_2d, 6}, 5).degree, 4);  // the short side's neighbours are one
  EXPECT_EQ(mended({GossipTopology::hypercube, 4}, 3).topology, GossipTopology::random_regular);
  EXPECT_EQ(mended({GossipTopology::torus_3d, 8}, 3).topology, GossipTopology::complete);
}

TEST(Neighbourhood, HasTheKnownDegrees) {
  EXPECT_EQ(neighbours_of({GossipTopology::hypercube, 64}, 5), (std::vector<Rank>{1, 4, 7, 13, 21, 37}));
  EXPECT_EQ(neighbours_of({GossipTopology::torus_2d, 12}, 0), (std::vector<Rank>{1, 3, 4, 8}));  // 4 x 3
  EXPECT_EQ(neighbours_of({GossipTopology::torus_3d, 64}, 0), (std::vector<Rank>{1, 3, 4, 12, 16, 48}));
  EXPECT_EQ(neighbours_of({GossipTopology::bus, 5}, 4), (std::vector<Rank>{3}));
  EXPECT_EQ(neighbours_of({GossipTopology::ring, 2}, 0), (std::vector<Rank>{1}));
  EXPECT_EQ(neighbours_of({GossipTopology::tree, 10, 3}, 1), (std::vector<Rank>{0, 4, 5, 6}));
  EXPECT_EQ(neighbours_of({GossipTopology::complete, 4}, 2), (std::vector<Rank>{0, 1, 3}));
  for (int dimensions : {2, 3})
    for (Rank ranks = 1; ranks < 500; ++ranks) {
      const TorusSides sides = torus_sides(ranks, dimensions);
      EXPECT_EQ(sides.side[0] * sides.side[1] * sides.side[2], ranks);
    }
}

TEST(Neighbourhood, WhatDoesNotExistIsRefusedWithTheReason) {
  EXPECT_NE(problem_with({GossipTopology::hypercube, 48}).find("power of two"), std::string::npos);
  EXPECT_NE(problem_with({GossipTopology::torus_2d, 13}).find("divisors"), std::string::npos);
  EXPECT_NE(problem_with({GossipTopology::torus_3d, 14}).find("divisors"), std::string::npos);
  EXPECT_NE(problem_with({GossipTopology::random_regular, 9, 2, 3}).find("paired"), std::string::npos);
  EXPECT_NE(problem_with({GossipTopology::random_regular, 9, 2, 1}).find("connected"), std::string::npos);
  EXPECT_NE(problem_with({GossipTopology::random_regular, 9, 2, 9}).find("at most 8"), std::string::npos);
  EXPECT_NE(problem_with({GossipTopology::ring, 0}).find("0 ranks"), std::string::npos);
  EXPECT_EQ(problem_with({GossipTopology::torus_2d, 12}), "");
}

// ---- single rules ---------------------------------------------------------------------------------------------------

using Row = std::vector<double>;
Row row_of(GossipOutbox<double>& out, std::size_t send = 0) {
  const Mass<double> row = out.row(out.sends()[send]);
  return {row.begin(), row.end()};
}
template <class Rule>
Row mass_of(const Rule& rule, std::size_t length) {
  Row mass(length);
  rule.add_estimate(mass);
  return mass;
}

TEST(PushSumRule, HalvesAndAdds) {
  const Row initial{6, 1};
  PushSum<double> rank(initial);
  GossipOutbox<double> out;
  rank.push(3, out);
  EXPECT_EQ(out.sends()[0].link, 3);
  EXPECT_EQ(row_of(out), (Row{3, 0.5}));
  EXPECT_EQ(mass_of(rank, 2), (Row{3, 0.5}));
  const Row come{1, 0.25};
  rank.on_message({0, 0, 0, come}, out);
  EXPECT_EQ(mass_of(rank, 2), (Row{4, 0.75}));
}

TEST(PushSumRule, AWeightTooSmallToHalveStays) {
  const Row initial{std::numeric_limits<double>::min(), std::numeric_limits<double>::min()};
  PushSum<double> rank(initial);
  GossipOutbox<double> out;
  for (int i = 0; i < 2000; ++i) rank.push(0, out);
  EXPECT_EQ(mass_of(rank, 2), initial);
  EXPECT_EQ(row_of(out, 1999), (Row{0, 0}));
}

TEST(PushFlowRule, ALostMessageIsMadeGoodByTheNext) {
  const Row a{8, 1}, b{0, 1};
  PushFlow<double> left(a, 1, FlowCorrection::none, 0), right(b, 1, FlowCorrection::none, 0);
  GossipOutbox<double> out;
  left.push(0, out);  // lost
  left.push(0, out);
  EXPECT_EQ(row_of(out, 1), (Row{-6, -0.75}));
  const Row row = row_of(out, 1);
  right.on_message({0, 0, 0, row}, out);
  EXPECT_EQ(mass_of(left, 2), (Row{2, 0.25}));
  EXPECT_EQ(mass_of(right, 2), (Row{6, 1.75}));
}

TEST(PushFlowRule, TheSameMessageTwiceIsTheSameAsOnce) {
  const Row a{8, 1}, b{0, 1};
  PushFlow<double> left(a, 1, FlowCorrection::none, 0), right(b, 1, FlowCorrection::none, 0);
  GossipOutbox<double> out;
  left.push(0, out);
  const Row row = row_of(out);
  right.on_message({0, 0, 0, row}, out);
  right.on_message({0, 0, 0, row}, out);
  EXPECT_EQ(mass_of(right, 2), (Row{4, 1.5}));
}

TEST(PushFlowRule, DeathTakesBackWhatWasExchanged) {
  const Row a{8, 1};
  PushFlow<double> left(a, 2, FlowCorrection::none, 0);
  GossipOutbox<double> out;
  left.push(0, out);
  left.push(1, out);
  left.on_failure(0);
  EXPECT_EQ(mass_of(left, 2), (Row{6, 0.75}));
}

TEST(PushFlowRule, LocalCorrectionZeroesTheBadFlow) {  // Algorithm 4, lines 3-10
  const Row a{8, 1, 9};
  PushFlow<double> rank(a, 2, FlowCorrection::local, 1e-9);
  GossipOutbox<double> out;
  rank.push(0, out);
  rank.push(1, out);
  rank.flows(0)[0] = 1e300;
  out.clear();
  rank.push(1, out);
  EXPECT_EQ(rank.flows(0)[0], 0);
  ASSERT_EQ(out.sends().size(), 1u);
  EXPECT_EQ(row_of(out), (Row{-5, -0.625, -5.625}));  // -2 - (8 - 2)/2, with 2 = (8 - 4)/2 sent before
}

TEST(PushFlowRule, ABadMessageIsDroppedByLocalCorrection) {
  const Row a{8, 1, 9};
  PushFlow<double> rank(a, 1, FlowCorrection::local, 1e-9);
  GossipOutbox<double> out;
  for (double bad : {1e10, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Row row{bad, 0, 0};
    rank.on_message({0, 0, 0, row}, out);
  }
  EXPECT_EQ(mass_of(rank, 3), a);
  EXPECT_TRUE(out.empty());
}

TEST(PushFlowRule, CooperativeCorrectionAsksTheNeighbour) {  // Algorithm 5
  const Row a{8, 1, 9}, b{0, 1, 1};
  PushFlow<double> left(a, 1, FlowCorrection::cooperative, 1e-9), right(b, 1, FlowCorrection::cooperative, 1e-9);
  GossipOutbox<double> out;
  left.push(0, out);
  Row row = row_of(out);
  right.on_message({0, 0, 0, row}, out);
  const Row before = mass_of(left, 3);
  left.flows(0)[1] = -1e200;
  out.clear();
  left.push(0, out);  // line 6: the bad flow itself, and no push
  ASSERT_EQ(out.sends().size(), 1u);
  row = row_of(out);
  EXPECT_EQ(row[1], -1e200);
  out.clear();
  right.on_message({0, 0, 0, row}, out);  // line 20: the good one comes back
  ASSERT_EQ(out.sends().size(), 1u);
  row = row_of(out);
  out.clear();
  left.on_message({0, 0, 0, row}, out);
  EXPECT_EQ(mass_of(left, 3), before);
  EXPECT_TRUE(out.empty());
}

TEST(PushFlowRule, BothFlowsBadAreBothZeroed) {  // Algorithm 5, line 18
  const Row b{0, 1, 1};
  PushFlow<double> right(b, 1, FlowCorrection::cooperative, 1e-9);
  right.flows(0)[0] = 5;
  const Row bad{7, 0, 0};
  GossipOutbox<double> out;
  right.on_message({0, 0, 0, bad}, out);
  EXPECT_EQ(row_of(out), (Row{0, 0, 0}));
}

TEST(PushFlowRule, ABadInitialMassIsNotPushed) {
  const Row a{8, 1, 9};
  PushFlow<double> rank(a, 1, FlowCorrection::local, 1e-9);
  rank.local_data()[0] = 1e100;
  GossipOutbox<double> out;
  rank.push(0, out);
  EXPECT_EQ(row_of(out), (Row{0, 0, 0}));
}

// Casas et al., section 4.5. Two pushes and an answer, so that there are flows to subtract.
template <class Real>
PushFlow<Real> with_flows(FlowCorrection correction, double tau) {
  const std::vector<Real> given{8, 1, 9};
  PushFlow<Real> rank(given, 2, correction, tau, true);
  GossipOutbox<Real> out;
  rank.push(0, out);
  rank.push(1, out);
  const std::vector<Real> answer{-3, Real{-0.25}, Real{-3.25}};
  rank.on_message({1, 0, 0, answer}, out);
  return rank;
}

template <class Real>
std::vector<Real> estimate_of(const PushFlow<Real>& rank) {
  std::vector<Real> mass(rank.row_length());
  rank.add_estimate(mass);
  return mass;
}

template <class Real>
void expect_every_bit_of_the_initial_mass_comes_back(FlowCorrection correction, double tau, int bits) {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  const std::vector<Real> given{8, 1, 9};
  for (std::size_t place = 0; place < given.size(); ++place)
    for (int bit = 0; bit < bits; ++bit)
      for (bool receives : {false, true}) {
        PushFlow<Real> rank = with_flows<Real>(correction, tau);
        const std::vector<Real> before = estimate_of(rank);
        Real& hit = rank.local_data()[place];
        hit = std::bit_cast<Real>(std::bit_cast<Bits>(hit) ^ Bits{1} << bit);
        const double check = checksum_of(ConstMass<Real>(rank.local_data()).first(2));
        if (static_cast<Real>(check) == rank.local_data()[2]) continue;  // rounded away
        EXPECT_EQ(estimate_of(rank), before) << "already in the estimate, place " << place << " bit " << bit;
        GossipOutbox<Real> out;
        if (receives)
          rank.on_message({0, 0, 0, std::vector<Real>{1, 1, 2}}, out);
        else
          rank.push(0, out);
        EXPECT_EQ(std::vector<Real>(rank.local_data().begin(), rank.local_data().end()), given)
            << "place " << place << " bit " << bit;
      }
}

TEST(PushFlowRule, ACorruptedInitialMassIsRepaired) {
  for (FlowCorrection correction : {FlowCorrection::local, FlowCorrection::cooperative})
    for (double tau : {1e-9, 0.5}) {  // smaller errors than tau, too
      expect_every_bit_of_the_initial_mass_comes_back<double>(correction, tau, 64);
      expect_every_bit_of_the_initial_mass_comes_back<float>(correction, std::max(tau, 1e-4), 32);
    }
}

TEST(PushFlowRule, ADeathDoesNotTakeTheRepairAway) {
  PushFlow<double> rank = with_flows<double>(FlowCorrection::local, 1e-9);
  rank.local_data()[1] = -1e200;
  rank.on_failure(0);
  EXPECT_EQ(rank.local_data()[1], 1);
  rank.local_data()[0] = 5;
  GossipOutbox<double> out;
  rank.push(1, out);
  EXPECT_EQ(rank.local_data()[0], 8);
}

TEST(PushFlowRule, WithABadFlowBesideItTheInitialMassIsNotGuessed) {
  PushFlow<double> rank = with_flows<double>(FlowCorrection::local, 1e-9);
  rank.local_data()[0] = 1e100;
  rank.flows(0)[0] = 1e50;
  GossipOutbox<double> out;
  rank.push(1, out);
  EXPECT_EQ(rank.local_data()[0], 1e100);
  EXPECT_EQ(rank.flows(1)[0], 3) << "and half of it is not pushed";
}

TEST(Rank, WithoutAListOfNeighboursAllElseIsTheSame) {
  GossipPlan plan;
  plan.algorithm = GossipAlgorithm::push_sum;
  plan.neighbourhood = {GossipTopology::complete, 9};
  const Row value{1};
  for (Rank me = 0; me < 9; ++me) {
    GossipRank<double> with(plan, me, value, 1), without(plan, me, value, 1, false);
    EXPECT_EQ(without.links(), 8);
    for (int link = 0; link < 8; ++link) {
      EXPECT_EQ(without.neighbour(link), with.neighbours()[static_cast<std::size_t>(link)]);
      EXPECT_EQ(without.link_of(without.neighbour(link)), link);
    }
    EXPECT_EQ(without.link_of(me), -1);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(with.choose(3, me, i), without.choose(3, me, i));
    for (int link : {2, 7, 2}) {
      without.on_failure(link);
      with.on_failure(link);
      EXPECT_FALSE(with.is_live(link));
    }
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(without.is_live(without.choose(3, me, i)));
    for (int link : {0, 1, 3, 4, 5, 6}) without.on_failure(link);
    EXPECT_EQ(without.choose(3, me, 0), -1);
  }
}

// ---- a few ranks with every kind of crossing, loss and delay --------------------------------------------------------

struct Storm {
  GossipPlan plan;
  double loss = 0;
  int pushes = 4000;
  std::uint64_t seed = 1;
  double busy = 0.5;  // share of steps that push; the rest deliver
};

// Runs all ranks; links are queues of which the oldest message may be lost, kept waiting or delivered. Returns the
// ranks after a calm phase in which everything arrives, one message at a time.
class StormyWorld {
 public:
  explicit StormyWorld(const Storm& storm) : storm_(storm), n_(storm.plan.neighbourhood.ranks), random_(storm.seed) {
    for (Rank rank = 0; rank < n_; ++rank) {
      const Row value{static_cast<double>(rank * rank) + 0.5};
      ranks_.emplace_back(storm.plan, rank, value, 1.0);
    }
  }
  void run() {
    for (int step = 0; step < storm_.pushes; ++step) {
      if (random_.fraction() < storm_.busy || waiting_ == 0) {
        const auto rank = static_cast<Rank>(random_.below(static_cast<std::uint64_t>(n_)));
        push(rank, static_cast<std::uint64_t>(step));
      } else {
        deliver_some();
      }
    }
  }
  void calm_down(int pushes) {
    while (waiting_ > 0) deliver_some();
    storm_.loss = 0;
    for (int step = 0; step < pushes; ++step) {
      push(static_cast<Rank>(step % n_), static_cast<std::uint64_t>(step) + 1000000);
      while (waiting_ > 0) deliver_some();
    }
  }
  double worst_error(double truth) {
    double worst = 0;
    Row value(1);
    for (auto& rank : ranks_)
      worst = std::max(worst, rank.estimate(value) ? std::abs(value[0] - truth) / truth : 1e300);
    return worst;
  }
  double mass(std::size_t index) {
    double sum = 0;
    Row mass(2);
    for (auto& rank : ranks_) {
      rank.mass(mass);
      sum += mass[index];
    }
    return sum;
  }
  double truth() const {
    double sum = 0;
    for (Rank rank = 0; rank < n_; ++rank) sum += static_cast<double>(rank * rank) + 0.5;
    return sum / n_;
  }
  GossipRank<double>& rank(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

 private:
  struct Flight {
    Rank to;
    int link;
    std::uint32_t era, ack;
    Row row;
  };
  void push(Rank from, std::uint64_t number) {
    out_.clear();
    ranks_[static_cast<std::size_t>(from)].push(
        ranks_[static_cast<std::size_t>(from)].choose(storm_.seed, from, number), out_);
    take(from);
  }
  void take(Rank from) {
    for (const auto& send : out_.sends()) {
      const Rank to = ranks_[static_cast<std::size_t>(from)].neighbours()[static_cast<std::size_t>(send.link)];
      const Mass<double> row = out_.row(send);
      if (random_.fraction() < storm_.loss) continue;
      queues_[{from, to}].push_back(
          {to, ranks_[static_cast<std::size_t>(to)].link_of(from), send.era, send.ack, {row.begin(), row.end()}});
      ++waiting_;
    }
  }
  void deliver_some() {
    auto each = queues_.begin();
    std::advance(each, static_cast<std::ptrdiff_t>(random_.below(queues_.size())));
    if (each->second.empty()) return;
    const Flight flight = each->second.front();
    each->second.pop_front();
    --waiting_;
    out_.clear();
    ranks_[static_cast<std::size_t>(flight.to)].on_message({flight.link, flight.era, flight.ack, flight.row}, out_);
    take(flight.to);
  }

  Storm storm_;
  Rank n_;
  Random random_;
  std::vector<GossipRank<double>> ranks_;
  std::map<std::pair<Rank, Rank>, std::deque<Flight>> queues_;
  GossipOutbox<double> out_;
  int waiting_ = 0;
};

class Resilient : public testing::TestWithParam<GossipAlgorithm> {};
INSTANTIATE_TEST_SUITE_P(Rules, Resilient,
                         testing::Values(GossipAlgorithm::push_flow, GossipAlgorithm::pflc, GossipAlgorithm::pfcc,
                                         GossipAlgorithm::pcf, GossipAlgorithm::pcf_flip),
                         [](const auto& each) { return std::string(gossip_algorithm_name(each.param)); });

// Whatever crossed, waited or was lost: when the storm is over, all mass is there again, and all agree on the right
// mean.
TEST_P(Resilient, StormsPass) {
  for (GossipTopology topology : {GossipTopology::hypercube, GossipTopology::ring, GossipTopology::complete})
    for (double busy : {0.2, 0.5, 0.8})
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Storm storm;
        storm.plan.algorithm = GetParam();
        storm.plan.neighbourhood = {topology, 8};
        storm.plan.tau = 1e-6;
        storm.loss = static_cast<double>(seed % 3) * 0.15;
        storm.seed = seed;
        storm.busy = busy;
        StormyWorld world(storm);
        world.run();
        world.calm_down(4000);
        EXPECT_LT(world.worst_error(world.truth()), 1e-9)
            << gossip_topology_name(topology) << " seed " << seed << " busy " << busy;
        EXPECT_NEAR(world.mass(0), 8 * world.truth(), 1e-8);
        EXPECT_NEAR(world.mass(1), 8, 1e-10);
      }
}

TEST(PushCancelFlowRule, LinksGoOnChangingRoles) {
  Storm storm;
  storm.plan.algorithm = GossipAlgorithm::pcf;
  storm.plan.neighbourhood = {GossipTopology::ring, 4};
  storm.loss = 0.2;
  const auto flows = [](StormyWorld& world) {
    double largest = 0;
    for (Rank rank = 0; rank < 4; ++rank)
      for (int link = 0; link < 2; ++link)
        for (double each : world.rank(rank).flows(link)) largest = std::max(largest, std::abs(each));
    return largest;
  };
  StormyWorld world(storm);
  world.run();
  world.calm_down(4000);
  // Flows shrink towards the aggregate (section III-A): none is larger than the masses that are exchanged now.
  EXPECT_LT(flows(world), 20);
}

// What is why the handshake exists: with messages that cross, the printed form leaves links that agree on nothing.
TEST(PushCancelFlowRule, ThePrintedFormDoesNotSurviveCrossingMessages) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Storm storm;
    storm.plan.algorithm = GossipAlgorithm::pcf_printed;
    storm.plan.neighbourhood = {GossipTopology::hypercube, 8};
    storm.seed = seed;
    storm.busy = 0.6;
    StormyWorld world(storm);
    world.run();
    world.calm_down(4000);
    wrong += world.worst_error(world.truth()) > 1e-9 ? 1 : 0;
  }
  EXPECT_GT(wrong, 0);
}

// Any bit of any flow, at any time: the flip-tolerant form repairs it. Of the checksums' forms every bit is tried in
// tests/simulator.
TEST(PushCancelFlowRule, FlipTolerantRepairsEveryBitOfAFlow) {
  for (int bit = 0; bit < 64; ++bit)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Storm storm;
      storm.plan.algorithm = GossipAlgorithm::pcf_flip;
      storm.plan.neighbourhood = {GossipTopology::hypercube, 8};
      storm.seed = seed;
      storm.pushes = 400;
      StormyWorld world(storm);
      world.run();
      double& victim = world.rank(static_cast<Rank>(seed)).flows(1)[static_cast<std::size_t>(bit) % 4];
      victim = std::bit_cast<double>(std::bit_cast<std::uint64_t>(victim) ^ (std::uint64_t{1} << bit));
      world.run();
      world.calm_down(4000);
      EXPECT_LT(world.worst_error(world.truth()), 1e-9) << "bit " << bit << " seed " << seed;
    }
}

// ---- extrema --------------------------------------------------------------------------------------------------------

TEST(Extremum, KeepsTheMoreExtremeOfWhatItHasHeard) {
  const Row given{3, -1, 0, 1};  // the last is the weight
  for (const auto& [extremum, expected] :
       {std::pair(GossipExtremum::minimum, Row{2, -1, 0, 1}), std::pair(GossipExtremum::maximum, Row{3, 5, 0, 1})}) {
    Extremum<double> rule(given, extremum);
    GossipOutbox<double> out;
    const Row heard{2, 5, 0, 1}, nothing{std::nan(""), std::nan(""), std::nan(""), std::nan("")};
    for (int again = 0; again < 2; ++again) rule.on_message({0, 0, 0, heard}, out);
    rule.on_message({0, 0, 0, nothing}, out);  // a flipped row
    Row mass(4);
    rule.add_estimate(mass);
    EXPECT_EQ(mass, expected);
    rule.push(0, out);
    EXPECT_TRUE(std::ranges::equal(out.row(out.sends()[0]), expected));
  }
}

TEST(Extremum, NoNumberGivesWayToAny) {
  EXPECT_EQ(extreme_of(GossipExtremum::maximum, std::nan(""), 1.0), 1);
  EXPECT_EQ(extreme_of(GossipExtremum::minimum, 1.0, std::nan("")), 1);
}

TEST(Extremum, AlgorithmsThatRepairFlowsHaveNone) {
  for (int number = 0; number < gossip_algorithm_count; ++number) {
    GossipPlan plan;
    plan.algorithm = static_cast<GossipAlgorithm>(number);
    plan.neighbourhood.ranks = 4;
    plan.tau = 1;
    ASSERT_EQ(problem_with(plan), "");
    plan.extremum = GossipExtremum::minimum;
    const std::string problem = problem_with(plan);
    EXPECT_EQ(problem.empty(), takes_extrema(plan.algorithm)) << gossip_algorithm_name(plan.algorithm);
    if (problem.empty()) continue;
    EXPECT_NE(problem.find(std::string("minimum by ") + gossip_algorithm_name(plan.algorithm)), std::string::npos);
  }
}

// ---- by rounds ------------------------------------------------------------------------------------------------------

// Every rank driven by messages that arrive in any order; returns the estimates, and fails if somebody waits for ever.
// flips_after: steps, of bit 55 of the first flow of rank 0, which is along the first cycle.
std::vector<double> run_rounds(const GossipPlan& plan, std::uint64_t seed, Rank dies = no_rank, int dies_after = 0,
                               int flips_after = 0) {
  const Rank n = plan.neighbourhood.ranks;
  Random random(seed);
  std::vector<GossipByRounds<double>> ranks;
  std::vector<bool> dead(static_cast<std::size_t>(n));
  for (Rank rank = 0; rank < n; ++rank) {
    const Row value{rank + 1.0};
    ranks.emplace_back(plan, rank, value, 1.0);
  }
  struct Flight {
    Rank from, to;
    int round;
    std::uint32_t era, ack;
    Row row;
  };
  std::vector<Flight> flights;
  bool has_flipped = flips_after == 0;
  GossipOutbox<double> out;
  const auto take = [&](Rank from) {
    for (const auto& send : out.sends()) {
      const Mass<double> row = out.row(send);
      flights.push_back({from,
                         ranks[static_cast<std::size_t>(from)].to(send),
                         send.link,
                         send.era,
                         send.ack,
                         {row.begin(), row.end()}});
    }
    out.clear();
  };
  for (Rank rank = 0; rank < n; ++rank) {
    ranks[static_cast<std::size_t>(rank)].start(out);
    take(rank);
  }
  for (int step = 0, idle = 0; idle < 100000; ++step) {
    if (dies != no_rank && step == dies_after) {
      dead[static_cast<std::size_t>(dies)] = true;
      for (Rank rank = 0; rank < n; ++rank) {
        if (rank == dies) continue;
        ranks[static_cast<std::size_t>(rank)].on_failure(dies, out);
        take(rank);
      }
    }
    if (!has_flipped && step >= flips_after && !ranks[0].finished()) {
      const Mass<double> flow = ranks[0].state().flows(0);
      flow[0] = std::bit_cast<double>(std::bit_cast<std::uint64_t>(flow[0]) ^ std::uint64_t{1} << 55);
      has_flipped = true;
    }
    if (flights.empty()) {
      if (dies == no_rank || step > dies_after) break;
      ++idle;
      continue;
    }
    const std::size_t at = random.below(flights.size());
    const Flight flight = flights[at];
    const bool gone = dead[static_cast<std::size_t>(flight.to)];
    GossipByRounds<double>& receiver = ranks[static_cast<std::size_t>(flight.to)];
    const bool is_taken =
        gone ? true
        : flight.era == is_push
            ? receiver.on_message(flight.round, flight.row, out)
            : receiver.on_repair({flight.round, flight.era, flight.ack, flight.row}, flight.from, out);
    if (!is_taken) {
      ++idle;
      continue;
    }
    idle = 0;
    flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(at));
    if (!gone) take(flight.to);
  }
  std::vector<double> estimates;
  for (Rank rank = 0; rank < n; ++rank) {
    if (dead[static_cast<std::size_t>(rank)]) continue;
    const auto& each = ranks[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(each.finished()) << "rank " << rank << " waits in round " << each.round();
    Row value(1);
    EXPECT_TRUE(each.state().estimate(value));
    estimates.push_back(value[0]);
  }
  return estimates;
}

TEST(ByRounds, RecursiveDoublingIsExactForAnyNumberOfRanks) {
  for (Rank n = 1; n <= 40; ++n) {
    GossipPlan plan;
    plan.algorithm = GossipAlgorithm::recursive_doubling;
    plan.neighbourhood.ranks = n;
    for (double each : run_rounds(plan, static_cast<std::uint64_t>(n))) EXPECT_EQ(each, (n + 1) / 2.0);
  }
}

TEST(ByRounds, TheOrderOfArrivalChangesNothing) {
  for (GossipAlgorithm algorithm :
       {GossipAlgorithm::hps, GossipAlgorithm::hpflc, GossipAlgorithm::hpfcc, GossipAlgorithm::ardb})
    for (Rank n : {2, 3, 8, 13}) {
      GossipPlan plan;
      plan.algorithm = algorithm;
      plan.neighbourhood.ranks = n;
      plan.rounds = algorithm == GossipAlgorithm::ardb ? 1 : 60;
      plan.tau = 1e-9;
      const std::vector<double> first = run_rounds(plan, 1);
      for (std::uint64_t seed = 2; seed < 6; ++seed) EXPECT_EQ(run_rounds(plan, seed), first);
      if (algorithm == GossipAlgorithm::ardb) continue;
      for (double each : first) EXPECT_NEAR(each, (n + 1) / 2.0, 1e-7);
    }
}

TEST(ByRounds, NobodyWaitsForTheDead) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::hps, GossipAlgorithm::hpflc, GossipAlgorithm::hpfcc,
                                    GossipAlgorithm::ardb, GossipAlgorithm::recursive_doubling})
    for (int after = 0; after < 120; after += 7) {
      GossipPlan plan;
      plan.algorithm = algorithm;
      plan.neighbourhood.ranks = 8;
      plan.rounds = algorithm == GossipAlgorithm::ardb ? 2 : 80;
      plan.cycles = uses_flows(algorithm) ? 5 : 0;
      plan.tau = 1e-9;
      const std::vector<double> estimates = run_rounds(plan, static_cast<std::uint64_t>(after), 3, after);
      EXPECT_EQ(estimates.size(), 7u);
      if (!uses_flows(algorithm)) continue;  // without rank 3's value 4: (36 - 4) / 7
      for (double each : estimates) EXPECT_NEAR(each, 32.0 / 7, 1e-6) << after;
    }
}

GossipPlan cooperative_plan(Rank ranks, int rounds) {
  GossipPlan plan;
  plan.algorithm = GossipAlgorithm::hpfcc;
  plan.neighbourhood.ranks = ranks;
  plan.rounds = rounds;
  plan.cycles = 7;
  plan.tau = 1e-9;
  return plan;
}

// The neighbour's own flow is the one that was flipped, bit by bit: the result is as if nothing had happened.
TEST(ByRounds, CooperativeCorrectionLeavesNoTraceOfAFlip) {
  for (Rank n : {2, 3, 5, 8}) {
    const GossipPlan plan = cooperative_plan(n, 20);
    const std::vector<double> without = run_rounds(plan, 1);
    for (int after = 1; after < 18 * n; ++after)
      EXPECT_EQ(run_rounds(plan, static_cast<std::uint64_t>(after), no_rank, 0, after), without)
          << n << " ranks, flipped after " << after << " steps";
  }
}

// Two ranks: the second one's row is damaged on its way.
TEST(ByRounds, ABadRowIsAskedForAgain) {
  const GossipPlan plan = cooperative_plan(2, 1);
  GossipByRounds<double> rank(plan, 0, std::vector<double>{5}, 1), other(plan, 1, std::vector<double>{7}, 1);
  GossipOutbox<double> mine, theirs;
  rank.start(mine);
  other.start(theirs);
  EXPECT_TRUE(rank.on_message(0, Row{1e9, 0.5, 3}, mine));
  EXPECT_FALSE(rank.finished());
  ASSERT_EQ(mine.sends().size(), 2u);
  const auto question = mine.sends()[1];
  EXPECT_EQ(question.era, asks_for_flow);
  EXPECT_EQ(question.length, 0u);
  EXPECT_EQ(rank.to(question), 1);
  EXPECT_FALSE(other.on_repair({question.link, question.era, question.ack, {}}, 0, theirs));  // it is not there yet
  EXPECT_TRUE(other.on_message(0, mine.row(mine.sends()[0]), theirs));
  EXPECT_TRUE(other.on_repair({question.link, question.era, question.ack, {}}, 0, theirs));
  const auto answer = theirs.sends()[1];
  EXPECT_EQ(answer.era, answers_with_flow);
  EXPECT_EQ(other.to(answer), 0);
  EXPECT_TRUE(rank.on_repair({answer.link, answer.era, answer.ack, theirs.row(answer)}, 1, mine));
  EXPECT_TRUE(rank.finished());
  Row value(1);
  EXPECT_TRUE(rank.state().estimate(value));
  EXPECT_EQ(value[0], 6);
}

// The answer is damaged, too, or lost: the flow stays as it was, and the rank goes on with the half that it has kept.
TEST(ByRounds, ABadAnswerIsNotTaken) {
  for (const Row& answer : {Row{1e9, 0.5, 3}, Row{}}) {
    GossipByRounds<double> rank(cooperative_plan(2, 1), 0, std::vector<double>{5}, 1);
    GossipOutbox<double> out;
    rank.start(out);
    EXPECT_TRUE(rank.on_message(0, Row{1e9, 0.5, 3}, out));
    ASSERT_EQ(out.sends().size(), 2u);
    const std::uint32_t mine = out.sends()[1].ack ^ 1;
    EXPECT_TRUE(rank.on_repair({1, answers_with_flow, mine, answer}, 1, out));
    EXPECT_TRUE(rank.finished());
    Row mass(2);
    rank.state().mass(mass);
    EXPECT_EQ(mass, (Row{2.5, 0.5}));
  }
}

// The dead rank may be the one that is asked, before and after it has answered.
TEST(ByRounds, NobodyWaitsForAnAnswerOfTheDead) {
  for (Rank n : {2, 3, 5})
    for (Rank dies = 1; dies < n; ++dies)
      for (int flips = 3; flips < 60; flips += 3)
        for (int after : {0, 1, 2, 5}) {
          const std::vector<double> left = run_rounds(cooperative_plan(n, 60), 1, dies, flips + after, flips);
          EXPECT_EQ(left.size(), static_cast<std::size_t>(n) - 1);
          double truth = 0;
          for (Rank rank = 0; rank < n; ++rank) truth += rank == dies ? 0 : (rank + 1.0) / (n - 1);
          for (double each : left) EXPECT_NEAR(each, truth, 1e-4) << n << " " << dies << " " << flips << " " << after;
        }
}

// Two ranks: each round of recursive doubling is one exchange.
TEST(ByRounds, ALostRowEndsItsRoundAndChangesNothing) {
  GossipPlan plan;
  plan.algorithm = GossipAlgorithm::recursive_doubling;
  plan.neighbourhood.ranks = 2;
  GossipByRounds<double> rank(plan, 0, std::vector<double>{5}, 1);
  GossipOutbox<double> out;
  rank.start(out);
  EXPECT_FALSE(rank.finished());
  EXPECT_TRUE(rank.on_message(0, {}, out));
  EXPECT_TRUE(rank.finished());
  double estimate = 0;
  EXPECT_TRUE(rank.state().estimate({&estimate, 1}));
  EXPECT_EQ(estimate, 5);
}

TEST(FaultText, SaysWhatIsInjected) {
  GossipFaults faults;
  ASSERT_EQ(parse_faults("loss=0.25,flip-rate=1e-3,flip-target=message,flip=61@20,flip=any:3@1.5,fail-link=4-2@7,seed="
                         "18446744073709551615",
                         faults),
            "");
  EXPECT_EQ(faults.loss, 0.25);
  EXPECT_EQ(faults.flip_rate, 1e-3);
  EXPECT_EQ(faults.target, FlipTarget::message);
  ASSERT_EQ(faults.flips.size(), 2u);
  EXPECT_EQ(faults.flips[0].bit, 61);
  EXPECT_EQ(faults.flips[0].rank, no_rank);
  EXPECT_EQ(faults.flips[0].time, 20);
  EXPECT_EQ(faults.flips[1].bit, -1);
  EXPECT_EQ(faults.flips[1].rank, 3);
  EXPECT_EQ(faults.flips[1].time, 1.5);
  ASSERT_EQ(faults.links.size(), 1u);
  EXPECT_EQ(faults.links[0].a, 4);
  EXPECT_EQ(faults.links[0].b, 2);
  EXPECT_EQ(faults.links[0].time, 7);
  EXPECT_EQ(faults.seed, UINT64_MAX);
  EXPECT_TRUE(faults.any());
  EXPECT_EQ(parse_faults("", faults), "");
  EXPECT_FALSE(faults.any());
}

TEST(FaultText, WhatIsWrongIsNamed) {
  for (const char* text : {"loss",
                           "loss=",
                           "loss=1.5",
                           "loss=nan",
                           "loss=0.1x",
                           "lost=0.1",
                           "flip=3",
                           "flip=@3",
                           "flip=-1@3",
                           "flip=3@-1",
                           "flip=3:@1",
                           "flip=3:x@1",
                           "fail-link=0@1",
                           "fail-link=-1@1",
                           "fail-link=0-1",
                           "fail-link=0-1@inf",
                           "flip-target=none",
                           "seed=-1",
                           "flip-rate=2",
                           "=1"}) {
    GossipFaults faults;
    EXPECT_NE(parse_faults(std::string("seed=1,") + text + ",loss=0", faults).find(text), std::string::npos) << text;
  }
}

TEST(RoundsFor, GrowsWithAccuracyAndNeverIsNegative) {
  for (int algorithm = 0; algorithm < gossip_algorithm_count; ++algorithm)
    for (int topology = 0; topology < gossip_topology_count; ++topology)
      for (Rank n : {1, 2, 3, 64, 1 << 20}) {
        GossipPlan plan;
        plan.algorithm = static_cast<GossipAlgorithm>(algorithm);
        plan.neighbourhood = {static_cast<GossipTopology>(topology), n};
        plan.tau = 1e-9;
        int before = 0;
        for (double eps : {10.0, 1.0, 1e-1, 1e-3, 1e-6, 1e-15}) {
          const int rounds = rounds_for(plan, eps);
          EXPECT_GE(rounds, before);
          before = rounds;
        }
        EXPECT_EQ(before > 0, n > 1);
      }
}

TEST(Plan, WhatCanNotWorkIsRefused) {
  GossipPlan plan;
  plan.neighbourhood = {GossipTopology::hypercube, 8};
  EXPECT_EQ(problem_with(plan), "");
  plan.algorithm = GossipAlgorithm::pflc;
  EXPECT_NE(problem_with(plan).find("tau"), std::string::npos);
  plan.tau = std::numeric_limits<double>::infinity();
  EXPECT_NE(problem_with(plan).find("no faults"), std::string::npos);
  plan.tau = 1e-9;
  plan.repairs_initial = true;
  EXPECT_EQ(problem_with(plan), "");
  plan.algorithm = GossipAlgorithm::push_flow;
  EXPECT_NE(problem_with(plan).find("push_flow has no checksums"), std::string::npos);
  plan.algorithm = GossipAlgorithm::pflc;
  plan.repairs_initial = false;
  plan.neighbourhood.ranks = 9;
  EXPECT_NE(problem_with(plan).find("power of two"), std::string::npos);
  plan.algorithm = GossipAlgorithm::hps;  // which has no topology
  EXPECT_EQ(problem_with(plan), "");
  plan.rounds = -1;
  EXPECT_NE(problem_with(plan).find("rounds"), std::string::npos);
}

}  // namespace
}  // namespace ucft::detail

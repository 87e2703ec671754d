// The library's gossip operations under the LogGP clock: they end, with the same bits everywhere and within the bound
// that they give, through deaths, too; and time and messages are what they must be.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/gossip_operation_run.hpp"

namespace ucft::detail::simulator {
namespace {

constexpr GossipAlgorithm algorithms[] = {
    GossipAlgorithm::push_sum, GossipAlgorithm::push_flow,          GossipAlgorithm::pflc, GossipAlgorithm::pfcc,
    GossipAlgorithm::pcf,      GossipAlgorithm::pcf_flip,           GossipAlgorithm::hps,  GossipAlgorithm::hpflc,
    GossipAlgorithm::ardb,     GossipAlgorithm::recursive_doubling, GossipAlgorithm::hpfcc};

struct Timed {
  Timed(GossipAlgorithm algorithm, Rank ranks, GossipTopology topology = GossipTopology::complete) {
    run.setting.ranks = ranks;
    run.setting.detection_delay = 50;
    run.call.plan.algorithm = algorithm;
    run.call.plan.neighbourhood.ranks = ranks;
    if (!goes_by_rounds(algorithm)) run.call.plan.neighbourhood.topology = topology;
    run.call.eps = 1e-6;
    run.call.count = 3;
    run.call.iterations = rounds_for(run.call.plan, run.call.eps);
    run.call.choose_repair(0, 0);
  }
  Timed& with_costs(double latency, double overhead, double gap, double gap_per_byte) {
    run.setting.costs = {latency, overhead, overhead, gap, gap_per_byte, false};
    return *this;
  }
  Timed& with_seed(std::uint64_t seed) {
    run.setting.seed = run.call.plan.seed = run.faults.seed = seed;
    return *this;
  }
  Timed& adaptive() {
    run.call.adaptive = true;
    return *this;
  }
  GossipOperationResult result() {
    EXPECT_EQ(problem_with(run), "");
    const std::unique_ptr<Network> network = make_network({}, run.setting.costs);
    run.setting.network = network.get();
    return simulate(run);
  }
  const char* name() const { return gossip_algorithm_name(run.call.plan.algorithm); }

  GossipOperationRun run;
};

void expect_all_agree(const GossipOperationResult& result, Rank live, const std::string& where) {
  EXPECT_EQ(result.end, GossipEnd::success) << where;
  EXPECT_EQ(result.live, live) << where;
  EXPECT_EQ(result.missed, 0) << where;
  EXPECT_EQ(result.wrong, 0) << where;
  EXPECT_LT(result.latency, never) << where;
  EXPECT_LE(result.first, result.latency) << where;
  if (result.answer != GossipStandsFor::nearly_all_ranks) {
    EXPECT_LE(result.error, result.bound) << where;
  }
}

TEST(GossipOperationRun, EveryAlgorithmEndsWithinItsBound) {
  for (GossipAlgorithm algorithm : algorithms)
    for (Rank ranks : {1, 2, 3, 5, 8, 16, 33})
      for (GossipTopology topology : {GossipTopology::complete, GossipTopology::ring, GossipTopology::tree})
        for (bool sum : {false, true}) {
          Timed timed(algorithm, ranks, topology);
          timed.run.call.sum = sum;
          const GossipOperationResult result = timed.result();
          const std::string where =
              std::string(timed.name()) + " on " + gossip_topology_name(topology) + " of " + std::to_string(ranks);
          expect_all_agree(result, ranks, where);
          EXPECT_TRUE(result.missing.empty()) << where;
          EXPECT_EQ(result.answer, GossipStandsFor::all_ranks) << where;
          EXPECT_EQ(result.reached, result.bound <= timed.run.call.eps) << where;
        }
}

TEST(GossipOperationRun, AdaptiveOnesReachWhatIsAskedFor) {
  for (GossipAlgorithm algorithm : algorithms)
    for (Rank ranks : {2, 7, 16}) {
      Timed timed(algorithm, ranks, GossipTopology::ring);
      timed.adaptive().run.call.eps = 1e-9;
      if (!goes_by_rounds(algorithm)) timed.run.call.iterations = 40;  // so few that there are stages
      const GossipOperationResult result = timed.result();
      expect_all_agree(result, ranks, timed.name());
      EXPECT_TRUE(result.reached) << timed.name() << " " << ranks << ": " << result.bound;
      EXPECT_LE(result.error, 1e-9) << timed.name();
      EXPECT_EQ(result.agreements, 1 + result.stages) << timed.name();
    }
}

TEST(GossipOperationRun, SinglePrecision) {
  for (GossipAlgorithm algorithm : algorithms) {
    Timed timed(algorithm, 9);
    timed.run.call.is_float = true;
    timed.run.call.eps = 1e-4;
    const GossipOperationResult result = timed.result();
    EXPECT_EQ(result.end, GossipEnd::success) << timed.name();
    EXPECT_EQ(result.wrong, 0) << timed.name();
    EXPECT_LE(result.error, result.bound) << timed.name();
    Timed twice(algorithm, 9);
    twice.run.call.eps = 1e-4;
    EXPECT_LT(result.bytes, twice.result().bytes) << timed.name();  // its rows are shorter, at least
  }
}

TEST(GossipOperationRun, ExtremaAreExact) {
  for (GossipAlgorithm algorithm : algorithms) {
    if (!takes_extrema(algorithm)) continue;
    for (GossipExtremum extremum : {GossipExtremum::minimum, GossipExtremum::maximum})
      for (Rank ranks : {1, 2, 5, 16, 33})
        for (bool is_float : {false, true}) {
          Timed timed(algorithm, ranks, GossipTopology::ring);
          timed.run.call.plan.extremum = extremum;
          timed.run.call.is_float = is_float;
          timed.run.call.iterations = rounds_for(timed.run.call.plan, timed.run.call.eps);
          const GossipOperationResult result = timed.result();
          expect_all_agree(result, ranks, timed.name());
          EXPECT_EQ(result.error, 0) << timed.name() << " " << ranks;
          EXPECT_EQ(result.bound, 0) << timed.name() << " " << ranks;
          EXPECT_EQ(result.stages, 1u) << timed.name() << " " << ranks;
          timed.run.faults.loss = 0.2;  // which only delays
          EXPECT_EQ(timed.result().error, 0) << timed.name() << " " << ranks;
        }
  }
}

// The bound has the rounding of the result in it: half of a unit in the last place, of 11 bits or of 8.
TEST(GossipOperationRun, HalvesAreWithinTheirBound) {
  for (GossipAlgorithm algorithm : algorithms)
    for (GossipHalf half : {GossipHalf::float16, GossipHalf::bfloat16})
      for (bool sum : {false, true})
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          Timed timed(algorithm, 7);
          timed.adaptive().run.call.is_float = true;
          timed.run.call.half = half;
          timed.run.call.sum = sum;
          timed.run.call.eps = 1e-3;
          timed.with_seed(seed);
          const GossipOperationResult result = timed.result();
          const double unit = half == GossipHalf::float16 ? 0x1p-11 : 0x1p-8;
          expect_all_agree(result, 7, timed.name());
          EXPECT_EQ(result.reached, result.bound <= 1e-3) << timed.name();
          if (algorithm != GossipAlgorithm::ardb) {
            EXPECT_LE(result.bound, unit * 1.01 + 1e-3) << timed.name();
          }
          timed.run.call.half = GossipHalf::none;
          EXPECT_LT(timed.result().bound, result.bound) << timed.name();  // no result is a half by chance
        }
}

// If a greeting were answered by a push, most of the mass would be on its way for ever, and the bound at 1e-3.
TEST(GossipOperationRun, WhatRanksDoBeforeTheyHaveMetDoesNotHoldThemUpAfterwards) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Timed timed(GossipAlgorithm::push_sum, 64);
    timed.with_seed(seed);
    EXPECT_LT(timed.result().bound, 1e-4) << seed;
  }
}

// The others have their mean long before a late rank comes, and after that all have that of all.
TEST(GossipOperationRun, ARankThatComesLateHoldsUpNoOther) {
  for (GossipAlgorithm algorithm : {GossipAlgorithm::push_sum, GossipAlgorithm::push_flow, GossipAlgorithm::pcf}) {
    Timed timed(algorithm, 16);
    const GossipOperationResult together = timed.result();
    timed.run.setting.skew = 5000;
    const GossipOperationResult apart = timed.result();
    expect_all_agree(apart, 16, timed.name());
    EXPECT_GT(apart.messages, together.messages + 16 * timed.run.call.iterations / 2) << timed.name();
    EXPECT_LT(apart.latency, 5000 + 2 * together.latency) << timed.name();
  }
}

// Twelve ranks on four hosts. Of 64 on 16, all the hosts' ranks together send what those that speak would. Each of the
// other 48 gives its input, and is told an estimate a few times: as hosts come, and after 1, 4, 16 .. iterations.
TEST(GossipOperationRun, OneOfAHostGossipsForAllOfIt) {
  const auto on_hosts = [](Timed timed, Rank a_host) {
    for (Rank rank = 0; rank < timed.run.setting.ranks; ++rank) timed.run.hosts.push_back(rank - rank % a_host);
    return timed;
  };
  for (GossipAlgorithm algorithm : algorithms)
    for (bool sum : {false, true}) {
      Timed timed = on_hosts(Timed(algorithm, 12), 3);
      timed.run.call.sum = sum;
      expect_all_agree(timed.result(), 12, timed.name());
      const double whole = timed.result().latency;
      for (Rank dies : {6, 7}) {                             // speaks for its host, does not
        timed.run.setting.deaths = {{dies, -1, whole / 3}};  // by rounds the last agreement takes about half
        const GossipOperationResult result = timed.result();
        expect_all_agree(result, 11, timed.name());
        const bool keeps = answer_after_death(algorithm) == GossipAnswer::all_ranks;
        const bool has_had_its_say = dies == 7 && result.stages == 1;  // in the agreement before it died
        EXPECT_EQ(result.missing, keeps || has_had_its_say ? std::vector<Rank>{} : std::vector<Rank>{dies})
            << timed.name();
      }
    }
  Timed flat(GossipAlgorithm::push_sum, 16, GossipTopology::hypercube);
  Timed two_level = on_hosts(Timed(GossipAlgorithm::push_sum, 64, GossipTopology::hypercube), 4);
  two_level.run.call.iterations = flat.run.call.iterations;
  const std::int64_t of_hosts = flat.result().messages;
  EXPECT_LE(two_level.result().messages, of_hosts + of_hosts / 4 + 48 * (1 + 8));
  two_level.run.hosts.clear();
  EXPECT_GE(two_level.result().messages, 3 * of_hosts);
}

// ---- deaths

TEST(GossipOperationRun, ARankThatDiesInTheMiddleIsMissingWhereTheAnswerIsTheSurvivors) {
  for (GossipAlgorithm algorithm : algorithms)
    for (Rank ranks : {2, 3, 5, 8, 16, 33}) {
      Timed timed(algorithm, ranks);
      const double whole = timed.result().latency;
      timed.run.setting.deaths = {{ranks / 2, -1, whole / 3}};  // by rounds the last agreement takes about half
      const GossipOperationResult result = timed.result();
      expect_all_agree(result, ranks - 1, timed.name());
      const bool keeps = answer_after_death(algorithm) == GossipAnswer::all_ranks;
      EXPECT_EQ(result.missing, keeps ? std::vector<Rank>{} : std::vector<Rank>{ranks / 2})
          << timed.name() << " " << ranks;
      EXPECT_EQ(result.answer, keeps ? GossipStandsFor::nearly_all_ranks : GossipStandsFor::survivors) << timed.name();
      EXPECT_GE(result.latency, whole / 3 + timed.run.setting.detection_delay) << timed.name();
    }
}

TEST(GossipOperationRun, ARankDiesAtAnyOfItsSends) {
  for (GossipAlgorithm algorithm : algorithms)
    for (std::int64_t send = 0; send < 300; send += send < 12 ? 1 : 37) {
      Timed timed(algorithm, 5, GossipTopology::bus);
      timed.run.setting.deaths = {{2, send, never}};
      const GossipOperationResult result = timed.result();
      const std::string where = std::string(timed.name()) + " before send " + std::to_string(send);
      const bool has_died = result.live == 4;  // else it needed fewer
      expect_all_agree(result, has_died ? 4 : 5, where);
      if (send < 5) {
        EXPECT_TRUE(has_died) << where;
      }
      if (!result.missing.empty()) {
        EXPECT_TRUE(has_died) << where;
        EXPECT_EQ(result.missing, std::vector<Rank>{2}) << where;
      }
    }
}

TEST(GossipOperationRun, WhoIsDeadBeforeTheStartIsMissing) {
  for (GossipAlgorithm algorithm : algorithms)
    for (double skew : {0.0, 400.0}) {  // some start when the detector has told already
      Timed timed(algorithm, 8, GossipTopology::hypercube);
      timed.run.setting.dead = {3};
      timed.run.setting.skew = skew;
      const GossipOperationResult result = timed.result();
      expect_all_agree(result, 7, timed.name());
      EXPECT_EQ(result.missing, std::vector<Rank>{3}) << timed.name();
      EXPECT_EQ(result.answer, GossipStandsFor::survivors) << timed.name();
    }
}

TEST(GossipOperationRun, MoreDeathsThanAnAgreementToleratesCostAnotherTry) {
  Timed timed(GossipAlgorithm::push_flow, 16);
  timed.run.f = 1;
  const std::uint32_t without = timed.result().agreements;
  for (Rank rank : {1, 2, 3, 4, 5, 6}) timed.run.setting.deaths.push_back({rank, 0, never});
  const GossipOperationResult result = timed.result();
  expect_all_agree(result, 10, "six of sixteen");
  EXPECT_EQ(result.missing, (std::vector<Rank>{1, 2, 3, 4, 5, 6}));
  EXPECT_GT(result.agreements, without);
}

TEST(GossipOperationRun, WhoIsWronglySuspectedIsLeftBehind) {
  Timed timed(GossipAlgorithm::push_flow, 8);
  timed.run.setting.suspicions = {{5, timed.result().latency / 2}};
  const GossipOperationResult result = timed.result();
  expect_all_agree(result, 7, "suspected");
  EXPECT_EQ(result.missing, std::vector<Rank>{5});
}

TEST(GossipOperationRun, WithoutADetectorNobodyGoesOn) {
  Timed timed(GossipAlgorithm::pcf, 8);
  timed.run.setting.detection_delay = never;
  timed.run.setting.dead = {3};
  const GossipOperationResult result = timed.result();
  EXPECT_EQ(result.missed, 7);
  EXPECT_EQ(result.latency, never);
  EXPECT_EQ(result.end, GossipEnd::none);
}

// ---- the clock

bool same(const GossipOperationResult& one, const GossipOperationResult& other) {
  return one.first == other.first && one.latency == other.latency && one.messages == other.messages &&
         one.events == other.events && one.error == other.error && one.bound == other.bound;
}

TEST(GossipOperationRun, TheSeedDecides) {
  for (GossipAlgorithm algorithm : algorithms)
    for (double jitter : {0.0, 3.0}) {
      Timed timed(algorithm, 16);
      timed.run.setting.jitter = jitter;
      const GossipOperationResult first = timed.with_seed(7).result();
      EXPECT_TRUE(same(first, timed.result())) << timed.name();
      if (jitter > 0 || !goes_by_rounds(algorithm)) {
        EXPECT_NE(first.latency, timed.with_seed(8).result().latency) << timed.name();
      }
    }
}

TEST(GossipOperationRun, TimeGrowsWithEachCost) {
  for (GossipAlgorithm algorithm : algorithms) {
    const double cheap = Timed(algorithm, 16).with_costs(2, 1, 1, 0).result().latency;
    EXPECT_GT(Timed(algorithm, 16).with_costs(50, 1, 1, 0).result().latency, cheap);
    EXPECT_GT(Timed(algorithm, 16).with_costs(2, 20, 1, 0).result().latency, cheap);
    EXPECT_GT(Timed(algorithm, 16).with_costs(2, 1, 40, 0).result().latency, cheap);
    EXPECT_GT(Timed(algorithm, 16).with_costs(2, 1, 1, 0.5).result().latency, cheap);
  }
}

TEST(GossipOperationRun, JitterBreaksNoPromise) {
  for (GossipAlgorithm algorithm : algorithms)
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Timed timed(algorithm, 8, GossipTopology::hypercube);
      timed.run.setting.jitter = 50;
      expect_all_agree(timed.with_seed(seed).result(), 8, timed.name());
    }
}

// Rank 0 sends numbers to rank 1.
class Numbers {
 public:
  Buffers& buffers() { return buffers_; }
  void start(Rank rank, Outbox& out) {
    Message message;
    for (; rank == 0 && message.operation < 100; ++message.operation) out.send(1, message);
  }
  void deliver(Rank, const Message& message, Outbox&) { arrived.push_back(message.operation); }
  void fail(Rank, Rank, Outbox&) {}
  bool wants_turn(Rank) const { return false; }
  void turn(Rank, double, Outbox&) {}
  std::uint64_t payload_bytes(const Message&) const { return 0; }
  bool finished(Rank) const { return false; }
  template <class Visit>
  void note_failure(Rank, Visit) {}

  std::vector<OperationNumber> arrived;

 private:
  Buffers buffers_{{[](void*, std::size_t) -> std::byte* { return nullptr; }, nullptr}};
};

// As UCX's channels are, and as GossipOperation may take for granted.
TEST(GossipOperationRun, MessagesOvertakeOnlyWhereTheyMay) {
  for (bool in_order : {true, false}) {
    Setting setting;
    setting.ranks = 2;
    setting.jitter = 50;
    setting.in_order = in_order;
    const std::unique_ptr<Network> network = make_network({}, setting.costs);
    setting.network = network.get();
    Numbers actors;
    Engine<Numbers> engine(setting, actors);
    engine.run();
    EXPECT_EQ(actors.arrived.size(), 100u);
    EXPECT_EQ(std::ranges::is_sorted(actors.arrived), in_order);
  }
}

TEST(GossipOperationRun, CountsOfMessagesAreThoseOfTheAlgorithms) {
  const auto result = [](GossipAlgorithm algorithm, Rank ranks, int rounds) {
    Timed timed(algorithm, ranks);
    if (rounds > 0) timed.run.call.iterations = rounds;
    return timed.result();
  };
  EXPECT_EQ(result(GossipAlgorithm::recursive_doubling, 16, 0).messages, 16 * 4);
  EXPECT_EQ(result(GossipAlgorithm::hps, 16, 10).messages, 16 * 10);
  EXPECT_EQ(result(GossipAlgorithm::hpflc, 5, 7).messages, 5 * 7);
  EXPECT_EQ(result(GossipAlgorithm::hpfcc, 5, 7).messages, 5 * 7);  // no more, if nothing is asked for
  EXPECT_EQ(result(GossipAlgorithm::hps, 16, 10).iterations, 10u);
  // Two to meet and to agree, each an allreduce of n ranks with f = 1.
  Arguments arguments;
  for (Rank ranks : {2, 5, 16, 33}) {
    const GossipOperationResult hps = result(GossipAlgorithm::hps, ranks, 10);
    EXPECT_EQ(hps.agreements, 2u);
    EXPECT_EQ(hps.agreement_messages, 2 * predict_messages(arguments, ranks));
    EXPECT_EQ(hps.stages, 1u);
  }
  // Asynchronous: a push each iteration, and what the two ends of each link have to say before they agree.
  Timed ring(GossipAlgorithm::push_sum, 16, GossipTopology::ring);
  ring.run.call.iterations = 40;
  const GossipOperationResult asynchronous = ring.result();
  EXPECT_GE(asynchronous.iterations, 40u);  // since a rank knows that all have come
  EXPECT_LE(asynchronous.iterations, 60u);
  EXPECT_GE(asynchronous.messages, 16 * 40 + 16 * 4);
  EXPECT_LE(asynchronous.messages, 3 * (16 * 40 + 16 * 4));
}

// The table's bytes count: 8 for each rank, 16 for each value, and some.
TEST(GossipOperationRun, AnAgreementCostsWhatAnAllreduceOfItsTableCosts) {
  Timed timed(GossipAlgorithm::hps, 16);
  timed.with_costs(2, 1, 1, 0.01).run.call.iterations = 1;
  Arguments arguments;
  arguments.reduction = {DataType::float64, arguments.reduction.op()};
  const auto allreduce = [&](std::uint64_t count) {
    const LogGP& costs = timed.run.setting.costs;
    arguments.shape = best_shape(costs, 8 * count);
    return predict_latency(arguments, 16, costs, 8 * count);
  };
  const double agreements = allreduce(8 + 16) + allreduce(2 * 3 + 3 + 16);
  const GossipOperationResult result = timed.result();
  EXPECT_GT(result.latency, 0.9 * agreements);
  EXPECT_LT(result.latency, agreements + 4 * (timed.run.setting.costs.delivery() + 1));
}

// Who has nothing to push sleeps until its pace says so, or until something comes: it does not ask again and again.
TEST(GossipOperationRun, NobodyTurnsInVain) {
  for (GossipAlgorithm algorithm : algorithms) {
    const GossipOperationResult result = Timed(algorithm, 16).with_costs(1000, 0.1, 0.1, 0).result();
    EXPECT_LT(result.events, 6 * (result.messages + result.agreement_messages) + 100)
        << gossip_algorithm_name(algorithm);
  }
}

// ---- faults

TEST(GossipOperationRun, FaultsAreThoseOfTheLibrary) {
  Timed timed(GossipAlgorithm::push_flow, 8, GossipTopology::hypercube);
  timed.run.faults.loss = 0.1;
  const GossipOperationResult lossy = timed.result();
  expect_all_agree(lossy, 8, "loss");
  EXPECT_GT(lossy.injected.lost, 0u);

  Timed flipped(GossipAlgorithm::pcf_flip, 8, GossipTopology::hypercube);
  flipped.run.faults.flips = {{20, 3, 61}};
  const GossipOperationResult repaired = flipped.result();
  expect_all_agree(repaired, 8, "flip");
  EXPECT_EQ(repaired.injected.flips, 1u);
  EXPECT_LT(repaired.error, 1e-6);

  Timed cut(GossipAlgorithm::push_flow, 8, GossipTopology::hypercube);
  cut.run.faults.links = {{0, 1, 20}};
  const GossipOperationResult failed = cut.result();
  expect_all_agree(failed, 8, "link");
  EXPECT_EQ(failed.injected.failed_links, 2u);
}

struct Flipped {
  int not_reached = 0;
  double error = 0;  // the worst
};
// Of each rank, before, while and after the cycles have come again: the first stage has 61 rounds.
Flipped flip_each(GossipCall call, FlipTarget target, std::vector<int> bits) {
  Flipped flipped;
  for (int bit : bits)
    for (double time : {0, 1, 4, 9, 20, 33, 47, 55, 60})
      for (Rank rank = 0; rank < 5; ++rank) {
        Timed timed(call.plan.algorithm, 5);
        timed.run.call = call;
        timed.run.faults.flips = {{time, rank, bit}};
        timed.run.faults.target = target;
        timed.with_seed(static_cast<std::uint64_t>(bit) + static_cast<std::uint64_t>(time));
        const GossipOperationResult result = timed.result();
        EXPECT_EQ(result.missed + result.wrong, 0) << timed.name();
        EXPECT_EQ(result.injected.flips, 1u) << bit << " at " << time;
        flipped.not_reached += !result.reached;
        if (!(result.error <= flipped.error)) flipped.error = result.error;
      }
  return flipped;
}
GossipCall call_of(GossipAlgorithm algorithm, bool adaptive, int cycles = 0, int repair_initial = 0) {
  Timed timed(algorithm, 5);
  GossipCall& call = timed.run.call;
  call.adaptive = adaptive;
  call.eps = 1e-9;
  call.iterations = rounds_for(call.plan, call.eps);
  EXPECT_EQ(call.choose_repair(cycles, repair_initial), "");
  return call;
}

TEST(GossipOperationRun, HpflcRepairsAFlippedBitAnywhere) {
  for (FlipTarget target : {FlipTarget::flow, FlipTarget::message, FlipTarget::data}) {
    const Flipped flipped = flip_each(call_of(GossipAlgorithm::hpflc, true), target, {62, 61, 52, 47, 40});
    EXPECT_EQ(flipped.not_reached, 0) << static_cast<int>(target);
    EXPECT_LE(flipped.error, 1e-9) << static_cast<int>(target);
    // Smaller than tau, which is 1.5e-8 times 5 ranks times what a rank gives: no fault, and no more than that.
    EXPECT_LE(flip_each(call_of(GossipAlgorithm::hpflc, true), target, {30, 26, 20, 3}).error, 1e-7);
  }
}

// The first stage is enough, wherever the flip is: no rounds are lost. Of HPFLC it is not.
TEST(GossipOperationRun, HpfccRepairsAFlippedBitAtOnce) {
  for (FlipTarget target : {FlipTarget::flow, FlipTarget::message, FlipTarget::data}) {
    const Flipped flipped = flip_each(call_of(GossipAlgorithm::hpfcc, false), target, {62, 61, 52, 47, 40});
    EXPECT_EQ(flipped.not_reached, 0) << static_cast<int>(target);
    EXPECT_LE(flipped.error, 1e-9) << static_cast<int>(target);
  }
  EXPECT_GT(flip_each(call_of(GossipAlgorithm::hpflc, false), FlipTarget::flow, {62, 61, 52, 47, 40}).not_reached, 0);
}

// But for lost answers. In HPFLC a lost row is missing until its cycle comes again.
TEST(GossipOperationRun, HpfccMakesGoodForLostRows) {
  const auto reached = [](GossipAlgorithm algorithm) {
    int count = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      Timed timed(algorithm, 8);
      timed.run.faults.loss = 0.02;
      const GossipOperationResult result = timed.with_seed(seed).result();
      EXPECT_EQ(result.missed + result.wrong, 0);
      count += result.reached;
    }
    return count;
  };
  EXPECT_GT(reached(GossipAlgorithm::hpfcc), 2 * reached(GossipAlgorithm::hpflc));
  Timed timed(GossipAlgorithm::hpfcc, 8);
  timed.run.faults.loss = 1;  // the answers, too: it ends all the same
  EXPECT_EQ(timed.result().missed, 0);
}

// The reason for the defaults. An input that is repaired at once costs no rounds.
TEST(GossipOperationRun, NewCyclesAndInputsThatAreNotRepairedAreWorse) {
  constexpr GossipAlgorithm hpflc = GossipAlgorithm::hpflc;
  EXPECT_GT(flip_each(call_of(hpflc, true, GossipCall::new_cycles), FlipTarget::flow, {61, 52}).error, 1e-3);
  EXPECT_EQ(flip_each(call_of(hpflc, false), FlipTarget::data, {61, 52}).not_reached, 0);
  EXPECT_GT(flip_each(call_of(hpflc, false, 0, -1), FlipTarget::data, {61, 52}).not_reached, 0);
}

// ---- what can't be run

TEST(GossipOperationRun, ProblemsAreNamed) {
  const auto problem = [](GossipAlgorithm algorithm, auto change) {
    Timed timed(algorithm, 4);
    change(timed.run);
    return problem_with(timed.run);
  };
  const auto expect = [](const std::string& found, const char* culprit) {
    EXPECT_NE(found.find(culprit), std::string::npos) << found;
  };
  using Run = GossipOperationRun;
  constexpr GossipAlgorithm pcf = GossipAlgorithm::pcf;
  expect(problem(GossipAlgorithm::pcf_printed, [](Run&) {}), "pcf_printed");
  expect(problem(pcf, [](Run& run) { run.call.eps = 1; }), "eps = 1");
  expect(problem(GossipAlgorithm::pflc, [](Run& run) { run.call.plan.extremum = GossipExtremum::maximum; }),
         "no maximum by pflc");
  expect(problem(GossipAlgorithm::pflc, [](Run& run) { run.call.plan.tau = 1e-17; }), "tau = 1e-17");
  expect(problem(pcf, [](Run& run) { run.setting.costs.latency = 1e10; }), "1e+10 us");
  expect(problem(pcf, [](Run& run) { run.setting.dead = {0, 1, 2, 3}; }), "one must live");
  expect(problem(pcf, [](Run& run) { run.faults.flips = {{1, 0, 64}}; }), "bit 64");
  expect(problem(GossipAlgorithm::hps, [](Run& run) { run.faults.links = {{0, 1, 2}}; }), "hps");
  expect(problem(pcf, [](Run& run) { run.setting.ranks = run.call.plan.neighbourhood.ranks = 1 << 20; }), "GiB");
}

}  // namespace
}  // namespace ucft::detail::simulator

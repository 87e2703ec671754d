// Hosts as processes under the clock (two_level_run.hpp).
#include "simulator/two_level_run.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ucft::detail::simulator {
namespace {

constexpr Kind kinds[] = {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::barrier};

struct Case {
  TwoLevelRun run;
  std::unique_ptr<Network> network;
};

Case case_of(Kind kind, Rank hosts, Rank ranks_per_host, bool optimistic, std::int32_t f = 1) {
  Case made;
  TwoLevelRun& run = made.run;
  run.arguments.kind = kind;
  run.arguments.f = f;
  run.ranks_per_host = ranks_per_host;
  run.optimistic = optimistic;
  run.gather = 3;
  run.deliver = 4;
  run.proof_delay = 20;
  run.payload_bytes = kind == Kind::barrier ? 0 : 8;
  run.setting.ranks = hosts * ranks_per_host;
  run.setting.costs = {.latency = 2, .send_overhead = 1, .receive_overhead = 1, .gap = 1, .gap_per_byte = 0};
  run.setting.detection_delay = 60;
  made.network = make_network({}, run.setting.costs);
  run.setting.network = made.network.get();
  return made;
}

template <class Use>
void for_all(Use use) {
  for (Kind kind : kinds)
    for (bool optimistic : {false, true}) {
      SCOPED_TRACE(std::string(kind_name(kind)) + (optimistic ? ", optimistic" : ""));
      use(kind, optimistic);
    }
}

void expect_right(const CollectiveResult& result, Rank live) {
  EXPECT_EQ(result.live, live);
  EXPECT_EQ(result.missed, 0);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_EQ(result.outcome, Outcome::success);
}

TEST(TwoLevelRun, IsAsManyProcessesAsThereAreHosts) {
  for (Rank hosts : {1, 2, 7, 64})
    for (Rank each : {1, 5})
      for_all([&](Kind kind, bool optimistic) {
        const Case made = case_of(kind, hosts, each, optimistic, 2);
        CollectiveRun processes;
        processes.arguments = made.run.arguments;
        processes.arguments.f = std::min(2, hosts - 1);
        processes.payload_bytes = made.run.payload_bytes;
        processes.optimistic = optimistic;
        processes.setting = made.run.setting;
        processes.setting.ranks = hosts;
        const CollectiveResult flat = simulate(processes), result = simulate(made.run);
        expect_right(result, hosts * each);
        EXPECT_EQ(result.latency, flat.latency + 7);
        EXPECT_EQ(result.first, flat.first + 7);
        EXPECT_EQ(result.messages, flat.messages);
        EXPECT_EQ(result.bytes, flat.bytes);
        EXPECT_EQ(result.takeovers, 0);
        if (kind == Kind::allreduce) {
          EXPECT_EQ(result.contributors, hosts * each);
        }
      });
}

// Before each of its sends, and when it has no more: nobody's value is lost, and that costs no more than the proof and
// doing all again.
TEST(TwoLevelRun, ASpeakerDiesBeforeEachOfItsSends) {
  for (Rank speaker : {0, 3, 12})
    for_all([&](Kind kind, bool optimistic) {
      const Case calm = case_of(kind, 6, 3, optimistic);
      const CollectiveResult without = simulate(calm.run);
      for (std::int64_t send = 0; send <= without.most_sends; ++send) {
        Case made = case_of(kind, 6, 3, optimistic);
        made.run.setting.deaths.push_back({speaker, send});
        const CollectiveResult result = simulate(made.run);
        expect_right(result, made.run.setting.ranks - 1);
        EXPECT_EQ(result.takeovers, 1);
        EXPECT_EQ(result.attempts, 1U) << "a host of which a rank lives has not failed";
        if (kind == Kind::allreduce) {
          EXPECT_EQ(result.contributors, made.run.setting.ranks);
        }
        EXPECT_GE(result.latency, without.latency);
        EXPECT_LE(result.latency, without.latency + made.run.proof_delay + without.latency);
      }
    });
}

// Each has sent to the other, and what neither has written down: their deputies hear of each other, not the detector's
// word.
TEST(TwoLevelRun, TwoSpeakersThatExchangeDieTogether) {
  for (double time = 0.5; time < 40; time += 1.5)
    for (Rank other : {3, 6, 12})
      for_all([&](Kind kind, bool optimistic) {
        Case made = case_of(kind, 6, 3, optimistic);
        const double without = simulate(made.run).latency;
        made.run.setting.deaths = {{0, -1, time}, {other, -1, time}};
        const CollectiveResult result = simulate(made.run);
        expect_right(result, made.run.setting.ranks - 2);
        EXPECT_EQ(result.attempts, 1U);
        EXPECT_LE(result.latency, without + made.run.proof_delay + 2 * without) << time << " " << other;
      });
}

TEST(TwoLevelRun, AHostIsOneFailure) {
  for (double time = 0.5; time < 40; time += 3)
    for_all([&](Kind kind, bool optimistic) {
      Case made = case_of(kind, 8, 4, optimistic);
      for (Rank rank = 12; rank < 16; ++rank) made.run.setting.deaths.push_back({rank, -1, time});
      const CollectiveResult result = simulate(made.run);
      expect_right(result, 28);
      EXPECT_EQ(result.takeovers, 0);
      if (kind == Kind::allreduce) {
        EXPECT_TRUE(result.contributors == 28 || result.contributors == 32);
      }
    });
}

// Whoever is dead before it calls is missed by its host, after the proof, and its host speaks by the next.
TEST(TwoLevelRun, RanksThatAreDeadBefore) {
  for_all([](Kind kind, bool optimistic) {
    Case made = case_of(kind, 5, 3, optimistic);
    made.run.arguments.root = 14;
    made.run.setting.dead = {0, 1, 4, 12};
    const CollectiveResult result = simulate(made.run);
    expect_right(result, 11);
    if (kind == Kind::allreduce) {
      EXPECT_EQ(result.contributors, 11);
    }
    EXPECT_EQ(result.takeovers, 0);
  });
}

TEST(TwoLevelRun, ARootThatIsDeadBeforeHasNothingToGive) {
  Case made = case_of(Kind::broadcast, 4, 2, true);
  made.run.arguments.root = 3;
  made.run.setting.dead = {3};
  const CollectiveResult result = simulate(made.run);
  EXPECT_EQ(result.missed, 0);
  EXPECT_EQ(result.outcome, Outcome::root_failed);
}

// Of m bytes 2m(H - 1) between all H hosts, whatever f.
TEST(TwoLevelRun, LongDataCrossTheNetworkNoMoreThanTheyMust) {
  constexpr std::uint64_t bytes = 225 * 1024 * 1024;  // whole pieces for each host to sum
  for (Rank hosts : {2, 3, 4, 15, 16})
    for (std::int32_t f : {0, 1}) {
      Case made = case_of(Kind::allreduce, hosts, 4, true, f);
      made.run.payload_bytes = bytes;
      const CollectiveResult result = simulate(made.run);
      expect_right(result, 4 * hosts);
      EXPECT_EQ(result.bytes, 2.0 * bytes * (hosts - 1)) << hosts << " hosts, f " << f;
      EXPECT_EQ(result.by_phase[static_cast<int>(Phase::broadcast)], 0);
    }
}

}  // namespace
}  // namespace ucft::detail::simulator

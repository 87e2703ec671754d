// ucft_perftest -t gossip with faults injected into real runs: what survives them, what doesn't, and that all of it
// ends. Which message a fault hits depends on the order in which messages come; what is expected here does not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/ucx/job.hpp"

namespace ucft::detail::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr int operations = 10;

JobPlan plan_of(const std::string& transport, int ranks, const Words& words) {
  JobPlan plan{ranks, "", {"-t", "gossip", "-w", "0", "-n", std::to_string(operations), "--json"}, {}, over(transport)};
  if (transport == "shm")
    plan.arguments.insert(plan.arguments.end(), {"--data-path", "message"});  // RMA windows: as the library chooses
  plan.arguments.insert(plan.arguments.end(), words.begin(), words.end());
  plan.program = PERFTEST_PROGRAM;
  return plan;
}

// The row that a job prints; nothing if it has failed.
Json row_of(const JobResult& result) {
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);)
    if (const auto begin = line.find("] {"); result.exit_code == 0 && begin != std::string::npos)
      return Json::parse(line.substr(begin + 2));
  return {};
}

std::string sentence_of(const Words& words) {
  std::string all;
  for (const std::string& each : words) all += each + " ";
  return all;
}

class GossipFaults : public testing::TestWithParam<const char*> {
 protected:
  // With what must hold whatever is injected: it ends, with the same bits on all ranks, and says so where nothing is
  // known.
  Json measure(const Words& words, int ranks = 4) {
    const JobResult result = run_job(plan_of(GetParam(), ranks, words));
    const Json row = row_of(result);
    EXPECT_FALSE(row.is_null()) << sentence_of(words) << ": exit code " << result.exit_code << "\n" << result.output;
    if (row.is_null()) return Json{{"wrong", 1}};
    EXPECT_EQ(row["wrong"], 0) << sentence_of(words) << result.output;
    return row;
  }
  // Right in spite of the faults: asked for eps 1e-9, and no further off than 1e-6.
  Json expect_accurate(Words words, int ranks = 4) {
    words.insert(words.end(), {"--eps", "1e-9"});
    const Json row = measure(words, ranks);
    EXPECT_EQ(row.value("above_eps", -1), 0) << sentence_of(words) << row;
    EXPECT_EQ(row.value("not_a_number", -1), 0) << sentence_of(words) << row;
    EXPECT_TRUE(row.contains("error_max") && row["error_max"].is_number() && row["error_max"] <= 1e-6)
        << sentence_of(words) << row;
    return row;
  }
  // Wrong because of them, and nobody noticed.
  void expect_off(const Words& words, double by) {
    const Json row = measure(words);
    EXPECT_TRUE(row.contains("error_max") && (row["error_max"].is_null() || row["error_max"] > by))
        << sentence_of(words) << row;
    EXPECT_GT(row.value("above_bound", 0) + row.value("not_a_number", 0), 0) << sentence_of(words) << row;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, GossipFaults, testing::Values("shm", "windows", "tcp", "two_level"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(GossipFaults, WithoutOptionsNothingIsInjected) {
  const Json row = expect_accurate({"-a", "pcf"});
  for (const char* what : {"lost", "flips", "failed_links", "above_bound"}) EXPECT_EQ(row.value(what, -1), 0) << what;
}

TEST_P(GossipFaults, FlowsMakeGoodForLostMessages) {
  for (const char* algorithm : {"push_flow", "pflc", "pfcc", "pcf", "pcf_flip"})
    EXPECT_GT(expect_accurate({"-a", algorithm, "--loss", "0.1"}).value("lost", 0), 0) << algorithm;
}

TEST_P(GossipFaults, WhatIsLostIsMissingInPushSum) {
  for (const char* algorithm : {"push_sum", "hps"})
    expect_off({"-a", algorithm, "--loss", "0.1", "--eps", "1e-9"}, 1e-4);
}

TEST_P(GossipFaults, ByRoundsALostMessageIsNotWaitedFor) {
  for (const char* algorithm : {"hps", "hpflc", "hpfcc", "ardb", "recursive_doubling"})
    for (const char* loss : {"0.3", "1"})
      EXPECT_GT(measure({"-a", algorithm, "--loss", loss}, 5).value("lost", 0), 0) << algorithm;
}

TEST_P(GossipFaults, WhereAllMessagesAreLostEverybodyKeepsItsOwn) {
  for (const char* algorithm : {"push_sum", "push_flow", "pcf"}) {
    const Json row = measure({"-a", algorithm, "--loss", "1", "--until", "rounds", "-d", "float"});
    EXPECT_EQ(row.value("above_eps", 0), operations) << algorithm << row;
    EXPECT_TRUE(row.contains("bound_max") && (row["bound_max"].is_null() || row["bound_max"] > 0.1))
        << algorithm << row;  // null: without weights nothing is known
  }
}

// Bit 61: from 1 to 1e-154, or from 2 to 1e154.
TEST_P(GossipFaults, FlippedBitsOfFlowsAndMessagesAreRepaired) {
  for (const char* target : {"flow", "message"})
    for (const char* algorithm : {"pflc", "pfcc", "pcf_flip"})
      EXPECT_EQ(expect_accurate({"-a", algorithm, "--flip-target", target, "--flip", "61@20"}).value("flips", 0),
                operations)
          << algorithm << target;
}

TEST_P(GossipFaults, NobodyRepairsThemInPushSum) {
  for (const char* target : {"flow", "message", "data"})
    for (const char* algorithm : {"push_sum", "hps"})
      expect_off({"-a", algorithm, "--flip-target", target, "--flip", "61@20", "--eps", "1e-9"}, 1e-3);
  expect_off({"-a", "push_flow", "--flip-target", "data", "--flip", "61:2@20"}, 1e-3);
}

TEST_P(GossipFaults, HpflcRepairsAFlippedBitAnywhere) {
  for (const char* target : {"flow", "message", "data"})
    for (const char* flip : {"61:0@0", "61:3@20", "61@5,47@40", "any@60"}) {
      const Json row = expect_accurate({"-a", "hpflc", "--flip-target", target, "--flip", flip}, 5);
      EXPECT_GE(row.value("flips", 0), operations) << target << flip;
      EXPECT_LE(row.value("error_max", 1.0), 1e-9) << target << flip;
    }
}

// In one stage: the bound of the first one is what was asked for, as no round is lost.
TEST_P(GossipFaults, HpfccRepairsAFlippedBitAtOnce) {
  for (const char* target : {"flow", "message", "data"})
    for (const char* flip : {"61:0@0", "61:3@20", "61@5,47@40", "47@60"}) {
      const Json row = expect_accurate(
          {"-a", "hpfcc", "--until", "rounds", "--seed", "3", "--flip-target", target, "--flip", flip}, 5);
      EXPECT_GE(row.value("flips", 0), operations) << target << flip;
      EXPECT_LE(row.value("error_max", 1.0), 1e-9) << target << flip;
    }
}

// By rounds everything is the same in each run, so this can't depend on the order of messages. With new cycles in each
// round a flow is never used again: what was in it when it was zeroed stays missing, but no more; and that is the less
// the later it is.
TEST_P(GossipFaults, WithNewCyclesHpflcLosesNoMoreThanTheFlow) {
  const Json flow = measure({"-a", "hpflc", "--cycles", "-1", "--flip", "61@20", "--eps", "1e-9"});
  EXPECT_LT(flow.value("error_max", 1.0), 0.1) << flow;
  double earlier = 0.1;
  for (const char* flip : {"61@5", "61@15", "61@25"}) {  // four ranks may be exact after three rounds
    const Json message =
        measure({"-a", "hpflc", "--cycles", "-1", "--flip-target", "message", "--flip", flip, "--eps", "1e-9"}, 5);
    const double missing = message.value("error_max", 1.0);
    EXPECT_LT(missing, earlier / 4) << flip << message;
    earlier = missing;
  }
  expect_off({"-a", "hps", "--flip", "61@20", "--eps", "1e-9"}, 1e100);
}

TEST_P(GossipFaults, TheFlipTolerantFormRepairsAllOfThem) {
  for (const char* target : {"flow", "message", "data"}) {
    EXPECT_GT(expect_accurate({"-a", "pcf_flip", "--flip-target", target, "--flip-rate", "0.2"}).value("flips", 0),
              operations)
        << target;
    const Json row =
        measure({"-a", "pcf_flip", "-d", "float", "--flip-target", target, "--flip-rate", "0.2", "--eps", "1e-4"});
    EXPECT_LT(row.value("error_max", 1.0), 1e-2) << row;
  }
}

TEST_P(GossipFaults, WithoutALinkTheOthersGoOn) {
  for (const char* algorithm : {"push_flow", "pflc", "pfcc"}) {  // exact, whatever was on its way
    const Json row = expect_accurate({"-a", algorithm, "--fail-link", "0-1@20"});
    EXPECT_EQ(row.value("failed_links", 0), operations) << algorithm;
    EXPECT_EQ(row.value("above_bound", -1), 0) << algorithm << row;
  }
  for (const char* algorithm : {"push_sum", "pcf", "pcf_flip"}) {
    EXPECT_EQ(expect_accurate({"-a", algorithm, "--fail-link", "0-1@0,2-3@0"}).value("failed_links", 0), 2 * operations)
        << algorithm;
    const Json row = measure({"-a", algorithm, "--fail-link", "0-1@20"});  // less what was on its way
    EXPECT_EQ(row.value("above_eps", -1), 0) << algorithm << row;
    EXPECT_LT(row.value("error_max", 1.0), 0.5) << algorithm << row;
  }
}

// The end of a bus has one link, on which it waits for its turn while the other end may be far ahead.
TEST_P(GossipFaults, ARankWithoutLinksIsNotWaitedFor) {
  for (const char* algorithm : {"push_sum", "push_flow", "pcf"})
    for (const char* ends : {"0-1@1", "0-1@7", "1-2@0"}) {
      const Json row = measure({"-a", algorithm, "--topology", "bus", "--fail-link", ends, "--until", "rounds"});
      EXPECT_EQ(row.value("failed_links", 0), operations) << algorithm << ends;
      EXPECT_EQ(row.value("above_eps", 0), operations) << algorithm << row;  // two parts: the bound says so
    }
  measure({"-a", "pcf", "--fail-link", "0-1@3"}, 2);
}

TEST_P(GossipFaults, ADeathOnTopOfThem) {
  for (const char* algorithm : {"push_flow", "pfcc", "pcf", "hps", "hpfcc"}) {
    Words words{"-a", algorithm, "--loss", "0.05", "--flip-target", "message", "--flip-rate", "0.01", "--kill", "2@4"};
    if (std::string(algorithm).substr(0, 1) == "p") words.insert(words.end(), {"--fail-link", "0-1@10"});
    EXPECT_EQ(measure(words, 5).value("failed", Json()), Json({2})) << algorithm;
  }
}

TEST_P(GossipFaults, ByRoundsTheSeedDecidesAll) {
  const auto with = [&](const char* seed) {
    const Json row =
        measure({"-a", "hps", "--loss", "0.1", "--flip-rate", "0.01", "--until", "rounds", "--seed", seed});
    return row.value("lost", Json()).dump() + " " + row.value("flips", Json()).dump() + " " +
           row.value("error_max", Json()).dump();
  };
  EXPECT_EQ(with("5"), with("5"));
  EXPECT_NE(with("5"), with("6"));
}

struct Refusal {
  Words words;
  std::string culprit;
};

TEST(GossipFaultOptions, BadOnesAreRefusedByName) {
  const Refusal refusals[] = {{{"--loss", "2"}, "--loss 2"},
                              {{"--loss", "nan"}, "--loss nan"},
                              {{"--flip-rate", "1.5"}, "--flip-rate 1.5"},
                              {{"--flip", "3"}, "--flip 3"},
                              {{"--flip", "x@3"}, "--flip x@3"},
                              {{"--flip", "3@x"}, "--flip 3@x"},
                              {{"--flip", "64@3"}, "a flip of bit 64"},
                              {{"-d", "float", "--flip", "32@3"}, "a flip of bit 32"},
                              {{"--flip", "3:2@3"}, "a flip: rank 2 of 2"},
                              {{"--flip-target", "head"}, "--flip-target head"},
                              {{"--fail-link", "0@3"}, "--fail-link 0@3"},
                              {{"--fail-link", "0-5@3"}, "a link: rank 5 of 2"},
                              {{"--fail-link", "0-0@3"}, "ranks 0 and 0 have no link"},
                              {{"-a", "hps", "--fail-link", "0-1@3"}, "hps: links that fail"},
                              {{"--seed", "x"}, "--seed x"},
                              {{"--cycles", "x"}, "--cycles: 'x'"},
                              {{"--cycles", "-2"}, "--cycles: '-2'"},
                              {{"--cycles", "5"}, "options.cycles is 5: pcf has none"},
                              {{"--repair-initial", "maybe"}, "--repair-initial: 'maybe'"},
                              {{"-t", "allreduce", "--loss", "0.1"}, "of -t gossip"}};
  for (const Refusal& each : refusals) {
    JobPlan plan = plan_of("shm", 2, each.words);
    if (each.words[0] == "-t") plan.arguments = each.words;
    const JobResult result = run_job(plan);
    EXPECT_EQ(result.exit_code, 2) << sentence_of(each.words) << result.output;
    EXPECT_NE(result.output.find(each.culprit), std::string::npos) << sentence_of(each.words) << result.output;
  }
}

TEST(GossipFaultOptions, TheSettingIsReadAndChecked) {
  for (const auto& [text, culprit] : {std::pair{"loss=2", "UCFT_GOSSIP_FAULTS: loss=2"},
                                      {"lost=1", "UCFT_GOSSIP_FAULTS: lost=1"},
                                      {"loss", "UCFT_GOSSIP_FAULTS: 'loss'"}}) {
    JobPlan plan = plan_of("shm", 2, {});
    plan.environment["UCFT_GOSSIP_FAULTS"] = text;
    const JobResult result = run_job(plan);
    EXPECT_NE(result.exit_code, 0) << text;
    EXPECT_NE(result.output.find(culprit), std::string::npos) << text << result.output;
  }
  JobPlan plan = plan_of("shm", 2, {"-a", "push_flow"});
  plan.environment["UCFT_GOSSIP_FAULTS"] = "loss=0.5,seed=3";
  EXPECT_GT(row_of(run_job(plan)).value("lost", 0), 0);
}

}  // namespace
}  // namespace ucft::detail::test

// The tuning table: what is chosen from it, and how its file reads.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <vector>

#include "collectives/on_host/tuning_file.hpp"

namespace ucft::detail {
namespace {

HostTuning parsed(const std::string& rows) {
  HostTuning tuning;
  std::string error;
  EXPECT_TRUE(parse_tuning("{\"rows\": [" + rows + "]}", tuning, error)) << error;
  return tuning;
}

TEST(Tuning, TheFirstRowThatIncludesAllThree) {
  const HostTuning tuning = parsed(
      R"({"ranks": 2, "degree": 0, "large_bytes": 64, "chunk_bytes": 1024},
         {"ranks": 16, "ranks_per_core": 1, "degree": 2, "large_bytes": 64, "chunk_bytes": 1024},
         {"ranks": 16, "ranks_per_core": 8, "caches": 2, "degree": 3, "large_bytes": 64, "chunk_bytes": 1024},
         {"ranks": 64, "degree": 5, "large_bytes": 64, "chunk_bytes": 1024},
         {"ranks": 32, "degree": 6, "large_bytes": 64, "chunk_bytes": 1024},
         {"degree": 7, "large_bytes": 64, "chunk_bytes": 1024})");
  const auto degree = [&](std::int32_t ranks, std::int32_t per_core, std::int32_t caches) {
    return tuning.choose({ranks, per_core, caches}).degree;
  };
  EXPECT_EQ(degree(2, 9, 9), 0);
  EXPECT_EQ(degree(3, 1, 1), 2);
  EXPECT_EQ(degree(16, 2, 2), 3);
  EXPECT_EQ(degree(16, 2, 3), 5);
  EXPECT_EQ(degree(16, 9, 1), 5);
  EXPECT_EQ(degree(32, 1, 1), 5);  // the order is that of the file
  EXPECT_EQ(degree(65, 1, 1), 7);
}

TEST(Tuning, WhereIsCountedInRanksHardwareThreadsAndPlaces) {
  const std::vector<HostSite> sites{{0, 0, 0}, {0, 0, 1}, {0, 0, 0}, {}};
  EXPECT_EQ(HostTuning::where(sites, 9, 4), (HostTuning::Where{4, 3, 3}));
  EXPECT_EQ(HostTuning::where(std::vector<HostSite>(5), 5, 8), (HostTuning::Where{5, 1, 1}));
}

TEST(Tuning, BehindTheRowsOfAFileComeThoseBuiltIn) {
  const std::string path = testing::TempDir() + "ucft_tuning_test.json";
  std::ofstream(path) << R"({"rows": [{"ranks": 4, "degree": 3, "large_bytes": 64, "chunk_bytes": 1024}]})";
  HostTuning tuning;
  std::string error;
  ASSERT_TRUE(read_tuning(path, tuning, error)) << error;
  EXPECT_EQ(tuning.choose({4, 1, 1}).degree, 3);
  for (std::int32_t ranks : {5, 17, 4096})
    EXPECT_EQ(tuning.choose({ranks, 1, 1}), default_tuning().choose({ranks, 1, 1})) << ranks;
  std::remove(path.c_str());
  EXPECT_FALSE(read_tuning(path, tuning, error));
  EXPECT_EQ(error, "No such file or directory");
}

TEST(Tuning, WhatIsWrittenIsRead) {
  const HostTuning tuning = default_tuning();
  ASSERT_GE(tuning.rows.size(), 1u);
  HostTuning again;
  std::string error;
  ASSERT_TRUE(parse_tuning(tuning_text(tuning, "a \"quoted\" machine"), again, error)) << error;
  ASSERT_EQ(again.rows.size(), tuning.rows.size());
  for (std::size_t i = 0; i < tuning.rows.size(); ++i) {
    EXPECT_EQ(again.rows[i].where, tuning.rows[i].where);
    EXPECT_EQ(again.rows[i].choice, tuning.rows[i].choice);
  }
  EXPECT_EQ(tuning_hash(again), tuning_hash(tuning));
}

TEST(Tuning, BetweenHostsTheFirstRowForSoManyProcessesCounts) {
  HostTuning tuning;
  std::string error;
  ASSERT_TRUE(parse_tuning(R"({"between_hosts": [{"processes": 2, "whole_bytes": 10, "straight_bytes": 20},
                                                 {"processes": 8, "whole_bytes": 30, "straight_bytes": 40}]})",
                           tuning, error))
      << error;
  EXPECT_EQ(tuning.optimism_among(2).whole_bytes, 10u);
  EXPECT_EQ(tuning.optimism_among(3).whole_bytes, 30u);
  EXPECT_EQ(tuning.optimism_among(8).straight_bytes, 40u);
  EXPECT_EQ(tuning.optimism_among(9).straight_bytes, Optimism().straight_bytes) << "built in";
  HostTuning again;
  ASSERT_TRUE(parse_tuning(tuning_text(tuning, "some hosts"), again, error)) << error;
  EXPECT_EQ(again.between_hosts, tuning.between_hosts);
  EXPECT_EQ(tuning_hash(again), tuning_hash(tuning));
  for (std::uint64_t HostTuning::BetweenHosts::*field :
       {&HostTuning::BetweenHosts::whole_bytes, &HostTuning::BetweenHosts::straight_bytes}) {
    again = tuning;
    ++(again.between_hosts[1].*field);
    EXPECT_NE(tuning_hash(again), tuning_hash(tuning));
  }
  ++again.between_hosts[0].processes;
  EXPECT_NE(tuning_hash(again), tuning_hash(tuning));
}

TEST(Tuning, EachFieldCountsInTheHash) {
  const std::string row =
      R"({"ranks": 4, "ranks_per_core": 2, "caches": 1, "degree": 2, "large_bytes": 128, "chunk_bytes": 2048})";
  const std::uint64_t hash = tuning_hash(parsed(row));
  for (const auto& [from, to] : std::map<std::string, std::string>{{"\"ranks\": 4", "\"ranks\": 5"},
                                                                   {"_core\": 2", "_core\": 3"},
                                                                   {"\"caches\": 1", "\"caches\": 2"},
                                                                   {"\"degree\": 2", "\"degree\": 0"},
                                                                   {"128", "192"},
                                                                   {"2048", "4096"}}) {
    std::string other = row;
    other.replace(other.find(from), from.size(), to);
    EXPECT_NE(tuning_hash(parsed(other)), hash) << to;
  }
}

TEST(Tuning, WhatIsWrongIsNamed) {
  const std::string good = R"({"degree": 2, "large_bytes": 128, "chunk_bytes": 2048})";
  const std::map<std::string, std::string> wrong{
      {"", "not JSON"},
      {"[]", "no object whose \"rows\" and \"between_hosts\" are arrays of rows"},
      {R"({"from": "nowhere"})", "no object whose \"rows\" and \"between_hosts\" are arrays of rows"},
      {R"({"rows": []})", "no object whose \"rows\" and \"between_hosts\" are arrays of rows"},
      {R"({"rows": [)" + good + R"(], "between_hosts": {}})",
       "no object whose \"rows\" and \"between_hosts\" are arrays of rows"},
      {R"({"rows": [)" + good + R"(], "between_host": []})", "unknown field 'between_host'"},
      {R"({"rows": [)" + good + R"(, 7]})", "row 2: is not an object"},
      {R"({"rows": [{"degree": 2, "large_bytes": 128}]})", "row 1: chunk_bytes is missing"},
      {R"({"rows": [{"degree": -1, "large_bytes": 128, "chunk_bytes": 2048}]})",
       "row 1: degree is -1: must be 0 .. 1024"},
      {R"({"rows": [{"degree": "2", "large_bytes": 128, "chunk_bytes": 2048}]})",
       "row 1: degree is \"2\": must be 0 .. 1024"},
      {R"({"rows": [{"degree": 2, "large_bytes": 100, "chunk_bytes": 2048}]})",
       "row 1: large_bytes is 100: must be 64 .. 1048576, a multiple of 64"},
      {R"({"rows": [{"degree": 2, "large_bytes": 128, "chunk_bytes": 99999999}]})",
       "row 1: chunk_bytes is 99999999: must be 1024 .. 16777216, a multiple of 64"},
      {R"({"rows": [{"ranks": 0, "degree": 2, "large_bytes": 128, "chunk_bytes": 2048}]})",
       "row 1: ranks is 0: must be 1 .. 1048576"},
      {R"({"rows": [{"rank": 4, "degree": 2, "large_bytes": 128, "chunk_bytes": 2048}]})",
       "row 1: unknown field 'rank'"},
      {R"({"rows": [)" + good + R"(], "between_hosts": [{"whole_bytes": 4, "straight_bytes": 0}]})",
       "between_hosts, row 1: straight_bytes is 0: must be 1 .. 1073741824"},
      {R"({"between_hosts": [{"processes": 2, "whole_bytes": 4}]})",
       "between_hosts, row 1: straight_bytes is missing"}};
  for (const auto& [text, expected] : wrong) {
    HostTuning tuning;
    std::string error;
    EXPECT_FALSE(parse_tuning(text, tuning, error)) << text;
    EXPECT_EQ(error, expected) << text;
  }
}

}  // namespace
}  // namespace ucft::detail

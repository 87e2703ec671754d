// ucft_info as a process: the machine, and trees of ranks on machines that HWLOC_SYNTHETIC describes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace ucft::detail::test {
namespace {

struct Answer {
  std::string text;  // stdout and stderr
  int exit_code;
};

// topology: for HWLOC_SYNTHETIC; empty: this machine.
Answer info(const std::string& arguments, const std::string& topology = "") {
  const std::string command = "HWLOC_XMLFILE= HWLOC_SYNTHETIC='" + topology + "' " UCFT_INFO " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Answer answer{"", -1};
  for (int byte; (byte = std::fgetc(pipe)) != EOF;) answer.text += static_cast<char>(byte);
  const int status = pclose(pipe);
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* two_packages = "package:2 [numa] l3:2 core:4 pu:1";

TEST(Info, SaysWhatTheMachineHas) {
  const auto here = nlohmann::json::parse(info("--json").text)["topology"];
  EXPECT_EQ(here["is_this_machine"], true);
  EXPECT_GE(here["numa_nodes"], 1);
  EXPECT_TRUE(contains(info("").text, "\ntopology       ")) << info("").text;
  EXPECT_TRUE(
      contains(info("", two_packages).text, "topology       2 packages, 2 NUMA nodes, 4 L3, 16 cores (not this"));
  EXPECT_TRUE(
      contains(info("", "package:1 core:1 pu:1").text, "topology       1 package, 1 NUMA node, 0 L3, 1 core ("));
  const auto there = nlohmann::json::parse(info("--json", two_packages).text)["topology"];
  EXPECT_EQ(there["packages"], 2);
  EXPECT_EQ(there["l3"], 4);
  EXPECT_EQ(there["cores"], 16);
  EXPECT_EQ(there["is_this_machine"], false);
}

TEST(Info, ATopologyThatCannotBeReadIsSaidToBeUnknown) {
  const Answer text = info("", "nonsense"), json = info("--json", "nonsense"), tree = info("--tree 4", "nonsense");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(contains(text.text, "topology       unknown: HWLOC_SYNTHETIC")) << text.text;
  EXPECT_TRUE(contains(nlohmann::json::parse(json.text)["topology"]["error"], "'nonsense'"));
  EXPECT_EQ(tree.exit_code, 1);
  EXPECT_TRUE(contains(tree.text, "'nonsense'")) << tree.text;
}

TEST(Info, ListsTheSettingsOfTheMpiShimsWithTheLibrarys) {
  setenv("UCFT_MPI_INFO", "json", 1);
  const Answer answer = info("-f");
  const auto settings = nlohmann::json::parse(info("-f --json").text)["settings"];
  unsetenv("UCFT_MPI_INFO");
  EXPECT_TRUE(contains(answer.text, "\nUCFT_STATS=n (default)\n")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "#\nUCFT_MPI=y (default)\n")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "#\nUCFT_MPI_INFO=json (environment)\n")) << answer.text;
  EXPECT_EQ(settings.back(), "UCFT_MPI_INFO=json (environment)");
}

// Each setting has its text, and its default is what is in force where nothing is set.
TEST(Info, EverySettingIsInTheReferenceWithItsDefault) {
  const auto information = nlohmann::json::parse(info("-f --json").text);
  std::vector<std::string> in_force, said;
  for (const auto& line : information["settings"]) in_force.push_back(line);
  for (const auto& each : information["settings_reference"]) {
    said.push_back(each["name"].get<std::string>() + "=" + each["default"].get<std::string>() + " (default)");
    EXPECT_GT(each["description"].get<std::string>().size(), 20U) << each["name"];
    EXPECT_FALSE(each["values"].get<std::string>().empty()) << each["name"];
  }
  EXPECT_EQ(in_force, said);
  EXPECT_GT(said.size(), 15U);
}

// "A .. B": both ends are taken, and what is beyond them is not.
TEST(Info, TheLimitsInTheReferenceAreThoseInForce) {
  const auto information = nlohmann::json::parse(info("-f --json").text);
  const std::regex range("([0-9]+)([a-z]*) \\.\\. ([0-9]+)([a-z]*).*");
  int ranges = 0;
  setenv("UCFT_HEARTBEAT_PERIOD", "100us",
         1);  // the least that it takes: UCFT_SUSPECT_AFTER must be three times as long
  for (const auto& each : information["settings_reference"]) {
    const std::string name = each["name"], values = each["values"];
    std::smatch ends;
    const std::string text = values.substr(values.find("or ") == std::string::npos ? 0 : values.find("or ") + 3);
    if (!std::regex_match(text, ends, range)) continue;
    ++ranges;
    const auto is_taken = [&](long number, const std::string& unit) {
      setenv(name.c_str(), (std::to_string(number) + unit).c_str(), 1);
      const bool taken = !contains(info("-f").text, "error: ");
      unsetenv(name.c_str());
      if (name == "UCFT_HEARTBEAT_PERIOD") setenv("UCFT_HEARTBEAT_PERIOD", "100us", 1);
      return taken;
    };
    const long low = std::stol(ends[1]), high = std::stol(ends[3]);
    EXPECT_TRUE(name == "UCFT_HEARTBEAT_PERIOD" || is_taken(high, ends[4])) << name;
    EXPECT_TRUE(is_taken(low, ends[2])) << name;
    EXPECT_FALSE(is_taken(high + 1, ends[4])) << name;
    EXPECT_FALSE(low > 0 && is_taken(low - 1, ends[2])) << name;
  }
  unsetenv("UCFT_HEARTBEAT_PERIOD");
  EXPECT_GE(ranges, 7);
}

TEST(Info, ThePageOfSettingsIsTheOneInTheDocs) {
  std::ifstream page(UCFT_SETTINGS_PAGE);
  std::stringstream text;
  text << page.rdbuf();
  EXPECT_EQ(info("--settings-page").text, text.str())
      << "build/bin/ucft_info --settings-page > docs/settings.md makes it";
}

TEST(Info, AnOptionThatIsNotKnownIsNamed) {
  const Answer answer = info("--jbo 3");
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_TRUE(contains(answer.text, "ucft_info: --jbo is not known\n")) << answer.text;
}

TEST(InfoJob, NamesWhatIsNoRank) {
  const Answer none = info("--job 1"), wrong = info("--job one");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.text, "process 1 is no rank of a ucft job")) << none.text;
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(contains(wrong.text, "'one' is no process, nor all")) << wrong.text;
}

TEST(InfoTree, RanksOnCoresCombineInTheirCachesThenInTheirPackages) {
  const Answer answer = info("--tree 16 --bind core --degree 8", two_packages);
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_EQ(answer.text,
            "16 ranks, --bind core: tree of degree 8, depth 4\n"
            "rank 0 (package 0, numa 0, l3 0): children 1 2 3 4 8\n"
            "rank 4 (package 0, numa 0, l3 1): children 5 6 7\n"
            "rank 8 (package 1, numa 1, l3 2): children 9 10 11 12\n"
            "rank 12 (package 1, numa 1, l3 3): children 13 14 15\n");
}

// Rank 16 runs on the core of rank 0.
TEST(InfoTree, MoreRanksThanCoresGoRoundAgain) {
  const auto report = nlohmann::json::parse(info("--tree 18 --bind core --degree 8 --json", two_packages).text);
  EXPECT_EQ(report["nodes"][17]["l3"], 0);
  EXPECT_EQ(report["nodes"][0]["children"], nlohmann::json({1, 2, 3, 16, 17, 4, 8}));
}

TEST(InfoTree, RanksOnPackagesFillOneAfterTheOther) {
  const Answer answer = info("--tree 5 --bind package --degree 2", two_packages);
  EXPECT_EQ(answer.text,
            "5 ranks, --bind package: tree of degree 2, depth 3\n"
            "rank 0 (package 0, numa 0, l3 -): children 1 2 3\n"
            "rank 3 (package 1, numa 1, l3 -): children 4\n");
}

TEST(InfoTree, RanksThatAreNotBoundAreOneGroup) {
  for (const char* arguments : {"--tree 4 --degree 8", "--tree 4 --degree 8 --bind none"})
    EXPECT_EQ(info(arguments, two_packages).text,
              "4 ranks, --bind none: tree of degree 8, depth 2\n"
              "rank 0 (package -, numa -, l3 -): children 1 2 3\n");
}

TEST(InfoTree, WithoutADegreeTheTuningTableSays) {
  EXPECT_EQ(info("--tree 16 --bind core", two_packages).text,
            "16 ranks, --bind core: flat: each reads the values of all others\n");
  EXPECT_TRUE(
      contains(info("--tree 17 --bind core", two_packages).text, "17 ranks, --bind core: tree of degree 8, depth "));
  setenv("UCFT_TUNING_FILE", UCFT_TEST_TABLE, 1);
  EXPECT_TRUE(contains(info("--tree 4", two_packages).text, "4 ranks, --bind none: tree of degree 2, depth 3"));
  setenv("UCFT_TUNING_FILE", UCFT_INFO, 1);
  EXPECT_TRUE(contains(info("--tree 4", two_packages).text, ": not JSON"));
  unsetenv("UCFT_TUNING_FILE");
}

TEST(Info, SaysWhetherRanksOfOneHostReadMemory) {
  EXPECT_TRUE(contains(info("").text, "\non one host    ranks ")) << info("").text;
  setenv("UCFT_ALGORITHM", "corrected", 1);
  EXPECT_TRUE(contains(info("").text, "\non one host    ranks send messages: UCFT_ALGORITHM=corrected\n"));
  const auto answer = nlohmann::json::parse(info("--json").text)["on_one_host"];
  unsetenv("UCFT_ALGORITHM");
  EXPECT_EQ(answer["reads_memory"], false);
  EXPECT_EQ(answer["why_not"], "UCFT_ALGORITHM=corrected");
}

TEST(InfoTree, JsonHasAllRanks) {
  EXPECT_EQ(info("--tree 2 --bind numa --degree 8 --json", two_packages).text,
            "{\"ranks\":2,\"bind\":\"numa\",\"degree\":8,\"nodes\":["
            "{\"rank\":0,\"package\":0,\"numa\":0,\"l3\":null,\"children\":[1]},"
            "{\"rank\":1,\"package\":1,\"numa\":1,\"l3\":null,\"children\":[]}]}\n");
}

TEST(InfoTree, FromOneRankTo65536) {
  EXPECT_EQ(info("--tree 1 --bind l3 --degree 8", two_packages).text, "1 rank, --bind l3: tree of degree 8, depth 1\n");
  const auto report = nlohmann::json::parse(info("--tree 65536 --bind l3 --json", two_packages).text);
  ASSERT_EQ(report["nodes"].size(), 65536u);
  EXPECT_EQ(report["nodes"][65535]["l3"], 3);
}

TEST(InfoTree, TheTreeOfThisMachineIsThereToo) {
  for (const char* bind : {"core", "l3", "numa", "package", "none"}) {
    const Answer answer = info(std::string("--tree 8 --json --bind ") + bind);
    EXPECT_EQ(answer.exit_code, 0) << answer.text;
    EXPECT_EQ(nlohmann::json::parse(answer.text)["nodes"].size(), 8u);
  }
}

TEST(InfoTree, WrongUsageIsNamed) {
  const struct {
    const char* arguments;
    const char* named;
  } cases[] = {{"--tree 0", "--tree"},
               {"--tree 65537", "--tree"},
               {"--tree many", "--tree"},
               {"--tree", "--tree"},
               {"--tree 4 --bind socket", "--bind: 'socket' is none of core, l3, numa, package, none"},
               {"--tree 4 --degree -1", "--degree"},
               {"--tree 4 --degree 1025", "--degree"},
               {"--bind core", "--bind requires --tree"},
               {"--degree 4", "--degree requires --tree"},
               {"--tree 4 -f", "-f excludes --tree"}};
  for (const auto& each : cases) {
    const Answer answer = info(each.arguments, two_packages);
    EXPECT_EQ(answer.exit_code, 2) << each.arguments;
    EXPECT_TRUE(contains(answer.text, each.named)) << answer.text;
  }
}

}  // namespace
}  // namespace ucft::detail::test

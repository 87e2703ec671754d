// ucft_run as a process: output, exit codes, kill and stop, and that nothing is ever left.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "tests/launcher/process.hpp"
#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail::test {
namespace {

using Strings = std::vector<std::string>;

std::multiset<std::string> lines(const std::string& text) {
  std::multiset<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) found.insert(line);
  return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Strings shell(Strings options, const std::string& script) {
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

// ---- output ----

TEST(LauncherOutput, EachLineCarriesItsRank) {
  const auto job = run(shell({"-n", "3"}, "echo one; echo two; echo problem >&2"));
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(lines(job.output),
            (std::multiset<std::string>{"[0] one", "[0] two", "[1] one", "[1] two", "[2] one", "[2] two"}));
  EXPECT_EQ(lines(job.errors), (std::multiset<std::string>{"[0] problem", "[1] problem", "[2] problem"}));
}

TEST(LauncherOutput, ALastLineWithoutNewlineIsNotLost) {
  EXPECT_EQ(lines(run(shell({"-n", "2"}, "printf 'a\\nend'")).output),
            (std::multiset<std::string>{"[0] a", "[0] end", "[1] a", "[1] end"}));
  EXPECT_EQ(run(shell({"-n", "1", "--no-tag"}, "printf 'a\\nend'")).output, "a\nend");
}

TEST(LauncherOutput, ALongLineOfOneRankStaysOneLine) {
  const auto job = run(shell({"-n", "1"}, "head -c 1000000 /dev/zero | tr '\\0' x; echo"));
  EXPECT_TRUE(job.output == "[0] " + std::string(1000000, 'x') + "\n");
}

TEST(LauncherOutput, LongLinesOfManyRanksLoseNothing) {
  const auto job = run(shell({"-n", "3"}, "head -c 1000000 /dev/zero | tr '\\0' \"$UCFT_RANK\"; echo"));
  std::size_t counts[3] = {};
  for (const auto& line : lines(job.output)) {
    ASSERT_GE(line.size(), 4u);
    const char rank = line[1];
    EXPECT_TRUE(line.find_first_not_of(rank, 4) == std::string::npos) << "a line belongs to one rank";
    counts[rank - '0'] += line.size() - 4;
  }
  for (const auto count : counts) EXPECT_EQ(count, 1000000u);
}

TEST(LauncherOutput, BytesPassUnchanged) {
  const std::string all = "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %03o $i)\"; i=$((i+1)); done";
  std::string expected;
  for (int byte = 0; byte < 256; ++byte) expected += static_cast<char>(byte);
  EXPECT_EQ(run(shell({"-n", "1", "--no-tag"}, all)).output, expected);
}

TEST(LauncherOutput, MuchOutputIsCompleteThroughASlowReader) {
  Launcher launcher(shell({"-n", "2"}, "head -c 3000000 /dev/zero | tr '\\0' '\\n'"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // all pipes are full by then, mostly
  const auto job = launcher.wait();
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(std::count(job.output.begin(), job.output.end(), '\n'), 6000000);
}

TEST(LauncherOutput, WhatARankWroteRightBeforeItsDeathIsThere) {
  for (int i = 0; i < 20; ++i) {
    const auto job = run(shell({"-n", "2"}, "echo last; kill -9 $$"));
    EXPECT_EQ(lines(job.output), (std::multiset<std::string>{"[0] last", "[1] last"}));
    EXPECT_EQ(job.exit_code, 137);
  }
}

TEST(LauncherOutput, AReaderThatLeavesEndsTheWriters) {
  Launcher launcher({"-n", "2", "yes"});
  ASSERT_TRUE(launcher.read_until("y"));
  launcher.close_output();
  const auto job = launcher.wait();
  EXPECT_EQ(job.exit_code, 128 + SIGPIPE);
  EXPECT_FALSE(contains(job.errors, "yes:")) << job.errors;
}

TEST(LauncherOutput, AFullDiskIsNamed) {
  Launcher launcher({"-n", "1", "echo", "lost"}, {.output_file = "/dev/full"});
  const auto finished = launcher.wait();
  EXPECT_EQ(finished.exit_code, 125);
  EXPECT_TRUE(contains(finished.errors, "cannot write to stdout: No space left on device")) << finished.errors;
}

// The C library of a program that writes to a pipe would keep these lines to itself.
TEST(LauncherOutput, LinesAppearAsTheyAreWritten) {
  Launcher launcher({"-n", "2", TEST_RANK, "say_and_wait", "1"});
  EXPECT_TRUE(launcher.read_until("[1] said\n"));
}

TEST(LauncherOutput, ARankThatIsKilledLosesNoLine) {
  const auto job = run({"-n", "2", TEST_RANK, "say_and_die", "1"});
  EXPECT_EQ(lines(job.output), (std::multiset<std::string>{"[1] said", "[1] said more"}));
  EXPECT_EQ(job.exit_code, 137);
}

TEST(LauncherOutput, StdoutIsATerminalUnlessAPipeIsAskedFor) {
  const std::string script = "if [ -t 1 ]; then echo terminal $TERM; else echo pipe; fi";
  EXPECT_EQ(run(shell({"-n", "1"}, script)).output, "[0] terminal dumb\n");
  EXPECT_EQ(run(shell({"-n", "1", "--no-terminal"}, script)).output, "[0] pipe\n");
}

// ---- input ----

TEST(LauncherInput, Rank0ReadsStdinAndTheOthersNothing) {
  const auto job = run({"-n", "3", "cat"}, {.input = "one\ntwo\n"});
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.output, "[0] one\n[0] two\n");
}

TEST(LauncherInput, Rank0ReadsWhatIsTyped) {
  Launcher launcher({"-n", "2", "cat"}, {.from_terminal = true});
  launcher.type("hello\n");
  ASSERT_TRUE(launcher.read_until("[0] hello\n"));
  launcher.type("\x04");  // Ctrl-D
  const auto job = launcher.wait();
  EXPECT_EQ(job.exit_code, 0) << job.errors;
  EXPECT_EQ(job.output, "[0] hello\n");
}

TEST(LauncherInput, APromptAppearsBeforeItsLineEnds) {
  const std::string ask = "[ $UCFT_RANK = 0 ] || exit 0; printf 'name? '; read name; echo hello $name";
  Launcher launcher(shell({"-n", "2"}, ask), {.from_terminal = true});
  ASSERT_TRUE(launcher.read_until("[0] name? "));
  launcher.type("you\n");
  EXPECT_EQ(launcher.wait().output, "[0] name? hello you\n");
}

TEST(LauncherInput, AJobEndsThoughNobodyTypes) {
  EXPECT_EQ(run({"-n", "2", "true"}, {.from_terminal = true}).exit_code, 0);
  EXPECT_EQ(run({"-n", "2", "--timeout", "100ms", "cat"}, {.from_terminal = true}).exit_code, 124);
}

TEST(LauncherOutput, JsonTellsTheWholeStory) {
  const auto job = run(shell({"-n", "3", "--json", "--kill", "1@start+50ms"},
                             "case $UCFT_RANK in 0) exit 0;; 1) sleep 1000;; 2) exit 7;; esac"));
  EXPECT_EQ(job.exit_code, 7);
  const auto story = nlohmann::json::parse(job.output);
  EXPECT_EQ(story["ranks"], 3);
  EXPECT_EQ(story["exit_code"], 7);
  EXPECT_EQ(story["killed"], nlohmann::json::array({1}));
  EXPECT_EQ(story["stopped"], nlohmann::json::array());
  EXPECT_EQ(story["exits"][0]["code"], 0);
  EXPECT_EQ(story["exits"][1]["signal"], 9);
  EXPECT_EQ(story["exits"][2]["code"], 7);
  EXPECT_GT(story["exits"][2]["pid"], 0);
  EXPECT_GE(story["seconds"], 0.05);
}

// ---- environment ----

TEST(LauncherEnvironment, RanksKnowWhoTheyAre) {
  const auto job =
      run(shell({"-n", "2"}, "echo $UCFT_RANK $UCFT_LOCAL_RANK $UCFT_SIZE ${UCFT_RENDEZVOUS%:*} ${#UCFT_JOB_SECRET}"));
  EXPECT_EQ(lines(job.output), (std::multiset<std::string>{"[0] 0 0 2 127.0.0.1 64", "[1] 1 1 2 127.0.0.1 64"}));
}

TEST(LauncherEnvironment, RanksHaveTheVariablesOfPyTorch) {
  const std::string script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT";
  const auto said = lines(run(shell({"-n", "2"}, script)).output);
  std::set<std::string> ports;
  std::smatch match;
  for (const std::string& line : said)
    if (std::regex_match(line, match, std::regex("\\[([01])\\] \\1 2 \\1 2 127.0.0.1 ([1-9]\\d+)")))
      ports.insert(match[2]);
  EXPECT_EQ(said.size(), 2u);
  EXPECT_EQ(ports.size(), 1u) << "the same on both";

  setenv("MASTER_ADDR", "elsewhere", 1);
  setenv("MASTER_PORT", "7", 1);
  EXPECT_EQ(run(shell({"-n", "1"}, script)).output, "[0] 0 1 0 1 elsewhere 7\n");
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
}

// The cpus that a rank may use, as it says itself: "0-1,8".
std::multiset<std::string> affinities(const std::string& bind, int ranks) {
  return lines(
      run({"-n", std::to_string(ranks), "--bind", bind, "grep", "Cpus_allowed_list", "/proc/self/status"}).output);
}

std::string affinity_line(int rank, const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const bool follows = i > 0 && cpus[i] == cpus[i - 1] + 1;
    if (follows && i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) continue;
    text += (i == 0 ? "" : follows ? "-" : ",") + std::to_string(cpus[i]);
  }
  return "[" + std::to_string(rank) + "] Cpus_allowed_list:\t" + text;
}

TEST(LauncherEnvironment, BindingGoesRoundTheAllowedCores) {
  std::vector<int> cpus;
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  std::string error;
  const auto cores = Machine::load(error)->units(Bind::core);
  std::vector<int> all;
  for (const auto& core : cores) all.insert(all.end(), core.cpus.begin(), core.cpus.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, cpus);
  const int ranks = static_cast<int>(cores.size()) + 1;
  std::multiset<std::string> expected;
  for (int rank = 0; rank < ranks; ++rank)
    expected.insert(affinity_line(rank, cores[static_cast<std::size_t>(rank) % cores.size()].cpus));
  EXPECT_EQ(affinities("core", ranks), expected);
}

TEST(LauncherEnvironment, RanksFillCachesNumaNodesAndPackagesOneAfterTheOther) {
  std::string error;
  const auto machine = Machine::load(error);
  constexpr int ranks = 5;
  for (const std::string bind : {"l3", "numa", "package", "none"}) {
    const auto units = machine->units(*bind_named(bind));
    std::multiset<std::string> expected;
    for (int rank = 0; rank < ranks; ++rank)
      expected.insert(affinity_line(rank, units[unit_of_rank(*bind_named(bind), rank, ranks, units.size())].cpus));
    EXPECT_EQ(affinities(bind, ranks), expected) << bind;
  }
}

TEST(LauncherEnvironment, AMachineThatIsOnlyDescribedIsNotBoundTo) {
  ASSERT_EQ(setenv("HWLOC_SYNTHETIC", "package:2 l3:2 core:2 pu:1", 1), 0);
  const auto bound = run({"-n", "2", "--bind", "core", "true"}), unbound = run({"-n", "2", "true"});
  ASSERT_EQ(setenv("HWLOC_SYNTHETIC", "nonsense", 1), 0);
  const auto unreadable = run({"-n", "2", "--bind", "l3", "true"});
  unsetenv("HWLOC_SYNTHETIC");
  EXPECT_EQ(bound.exit_code, 2);
  EXPECT_TRUE(contains(bound.errors, "HWLOC_SYNTHETIC describes another machine")) << bound.errors;
  EXPECT_EQ(unbound.exit_code, 0) << unbound.errors;
  EXPECT_EQ(unreadable.exit_code, 125);
  EXPECT_TRUE(contains(unreadable.errors, "does not understand 'nonsense'")) << unreadable.errors;
}

TEST(LauncherEnvironment, SignalsAreAsTheLaunchersCallerHadThem) {
  const auto job = run({"-n", "1", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"});
  EXPECT_EQ(job.output, "[0] SigBlk:\t0000000000000000\n[0] SigIgn:\t0000000000000000\n");
}

// ---- start-up ----

TEST(LauncherStartUp, RanksFindEachOther) {
  const auto job = run({"-n", "4", "--json", TEST_RANK});
  EXPECT_EQ(job.exit_code, 0) << job.output << job.errors;
  EXPECT_EQ(job.errors, "");
  const auto story = nlohmann::json::parse(job.output.substr(job.output.find('{')));
  std::string pids;
  for (const auto& exit : story["exits"]) pids += std::to_string(exit["pid"].get<int>()) + " ";
  for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(contains(job.output, "[" + std::to_string(rank) + "] " + pids));
}

TEST(LauncherStartUp, ARankThatDiesMeanwhileIsNamedByTheOthers) {
  const auto job = run({"-n", "3", TEST_RANK, "die", "1"});
  EXPECT_TRUE(contains(job.output, "[0] error: rank 1 (pid ")) << job.output;
  EXPECT_TRUE(contains(job.output, "[2] error: rank 1 (pid ")) << job.output;
  EXPECT_TRUE(contains(job.errors, "start-up failed: rank 1 (pid ")) << job.errors;
  EXPECT_TRUE(contains(job.errors, "failed: exit code 3")) << job.errors;
}

TEST(LauncherStartUp, ARankWithoutUcftAmongOthersIsNamed) {
  const auto job = run(shell({"-n", "2"}, "[ $UCFT_RANK = 1 ] || exec " TEST_RANK));
  EXPECT_TRUE(contains(job.output, "died during start-up: exit code 0")) << job.output;
}

// It is killed when it is alone: whoever stops on purpose can't be woken up any more.
TEST(LauncherStartUp, ARankThatDoesNotArriveIsNamed) {
  const auto job = run({"-n", "2", "--startup-timeout", "200ms", "--expect-kill", "1", TEST_RANK, "stop", "1"});
  EXPECT_TRUE(contains(job.output, "did not arrive within 200 ms")) << job.output;
  EXPECT_EQ(job.exit_code, 10);
}

// ---- kill and stop ----

// Rank 1 begins start-up late. Were its kill counted from the start, it would die before.
TEST(LauncherSignals, TimesCountFromTheEndOfStartUp) {
  for (const std::string option : {"--kill", "--stop"}) {
    const auto job = run({"-n", "2", option, "1@0", TEST_RANK, "late", "1"});
    EXPECT_EQ(job.exit_code, 0) << job.errors;
    for (const std::string line : {"[0] start-up is over", "[1] start-up is over"})
      EXPECT_EQ(lines(job.output).count(line), 1u) << job.output;
    const std::string done = option == "--kill" ? "killed" : "stopped";
    EXPECT_TRUE(contains(job.errors, "ucft_run: " + done + " rank 1 (pid ")) << job.errors;
    EXPECT_TRUE(contains(job.errors, " after start-up\n")) << job.errors;
  }
}

TEST(LauncherSignals, AStartUpThatFailsIsOverToo) {
  const auto job = run({"-n", "3", "--kill", "0@0", TEST_RANK, "die_linger", "1"});
  EXPECT_EQ(job.exit_code, 3) << job.errors;
  EXPECT_TRUE(contains(job.errors, "ucft_run: killed rank 0 (pid ") && contains(job.errors, " after start-up\n"))
      << job.errors;
}

TEST(LauncherSignals, TimesCountFromTheStartOfAProgramWithoutStartUp) {
  const auto job = run(shell({"-n", "2", "--startup-timeout", "100ms", "--kill", "1@20ms"},
                             "[ $UCFT_RANK = 0 ] && exit 0; sleep 1000; true"));
  EXPECT_EQ(job.exit_code, 0) << job.errors;
  EXPECT_TRUE(contains(job.errors, "ucft_run: no rank has begun start-up within 100 ms: --kill and --stop count from"))
      << job.errors;
  EXPECT_TRUE(contains(job.errors, " after the start\n")) << job.errors;
}

// ---- exit codes ----

TEST(LauncherExit, AFailingRankIsNamedAndTheOthersGoOn) {
  const auto job = run(shell({"-n", "3"}, "[ $UCFT_RANK = 1 ] && exit 5; sleep 0.3; echo survived"));
  EXPECT_EQ(job.exit_code, 5);
  EXPECT_EQ(lines(job.output), (std::multiset<std::string>{"[0] survived", "[2] survived"}));
  EXPECT_TRUE(contains(job.errors, "rank 1 (pid ") && contains(job.errors, "failed: exit code 5")) << job.errors;
}

TEST(LauncherExit, ASignalCountsAs128PlusItsNumber) {
  const auto job = run(shell({"-n", "2"}, "[ $UCFT_RANK = 0 ] || kill -SEGV $$"));
  EXPECT_EQ(job.exit_code, 128 + SIGSEGV);
  EXPECT_TRUE(contains(job.errors, "signal 11")) << job.errors;
}

TEST(LauncherExit, ARankKilledOnPurposeIsExcused) {
  const auto job = run(shell({"-n", "2", "--kill", "1@start+20ms"}, "[ $UCFT_RANK = 0 ] && exit 0; sleep 1000; true"));
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_TRUE(
      std::regex_match(job.errors, std::regex("ucft_run: killed rank 1 \\(pid \\d+\\), \\d.* after the start\n")))
      << job.errors;
}

TEST(LauncherExit, ARankExpectedToBeKilledIsExcused) {
  EXPECT_EQ(run(shell({"-n", "2", "--expect-kill", "1"}, "[ $UCFT_RANK = 0 ] && exit 0; kill -9 $$")).exit_code, 0);
  EXPECT_EQ(run(shell({"-n", "2", "--expect-kill", "0"}, "[ $UCFT_RANK = 0 ] && exit 0; kill -9 $$")).exit_code, 137);
  EXPECT_EQ(run(shell({"-n", "2", "--expect-kill", "1"}, "[ $UCFT_RANK = 0 ] && exit 0; exit 3")).exit_code, 3);
}

TEST(LauncherExit, ExpectedKillsAreRanksRangesAnyOrAll) {
  const struct {
    std::string expected;
    std::string script;
    int exit_code;
  } cases[] = {
      {"0,2", "[ $UCFT_RANK = 1 ] || kill -9 $$", 0},
      {"1-2", "[ $UCFT_RANK = 0 ] || kill -9 $$", 0},
      {"0,1-2", "kill -9 $$", 0},
      {"0-1", "[ $UCFT_RANK = 0 ] || kill -9 $$", 137},
      {"any", "[ $UCFT_RANK = 1 ] || kill -9 $$", 0},
      {"any", "kill -9 $$", 137},
      {"any", "[ $UCFT_RANK = 1 ] || kill -9 $$; exit 4", 4},
      {"any", "kill -TERM $$", 143},
      {"all", "kill -9 $$", 0},
      {"all", "true", 0},
      {"all", "[ $UCFT_RANK = 1 ] || kill -9 $$; exit 4", 4},
  };
  for (const auto& each : cases) {
    const auto job = run(shell({"-n", "3", "--expect-kill", each.expected}, each.script));
    EXPECT_EQ(job.exit_code, each.exit_code) << each.expected << ": " << each.script << ": " << job.errors;
  }
}

TEST(LauncherExit, ARankThatAnnouncesItsDeathIsExcused) {
  const std::string script =
      "[ $UCFT_RANK = 0 ] && exit 0; printf '\\001\\000\\000\\000' >&$UCFT_PURPOSE_FD; kill -9 $$";
  const auto job = run({"-n", "2", "bash", "-c", script});  // dash knows no descriptors of two digits
  EXPECT_EQ(job.exit_code, 0) << job.errors;
}

TEST(LauncherExit, ARankThatEndedBeforeItsKillIsReported) {
  const auto job = run({"-n", "1", "--kill", "0@start+100s", "true"});
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.errors, "ucft_run: rank 0 was not killed 100 s after the start: it had ended before\n");
  const auto without_start_up = run({"-n", "1", "--kill", "0@100s", "true"});
  EXPECT_EQ(without_start_up.exit_code, 0);
  EXPECT_TRUE(contains(without_start_up.errors,
                       "rank 0 was not killed 100 s after start-up: it had ended before, "
                       "without start-up (RANK@start+TIME"))
      << without_start_up.errors;
}

TEST(LauncherExit, AStoppedRankIsKilledWhenItIsAlone) {
  const auto job = run(
      shell({"-n", "2", "--stop", "1@start+20ms", "--json"}, "[ $UCFT_RANK = 0 ] && exec sleep 2; sleep 1000; true"));
  EXPECT_EQ(job.exit_code, 0) << job.errors;
  const auto story = nlohmann::json::parse(job.output);
  EXPECT_EQ(story["stopped"], nlohmann::json::array({1}));
  EXPECT_EQ(story["exits"][1]["signal"], 9);
}

// As shells do: the kernel does not report that the parent is stopped.
TEST(LauncherExit, ARankStoppedInsideVforkIsKilledWhenItIsAlone) {
  const auto job = run({"-n", "2", "--stop", "1@start+500ms", "--timeout", "20s", TEST_RANK, "vfork", "1"});
  EXPECT_EQ(job.exit_code, 0) << job.errors;
}

TEST(LauncherExit, AStoppedRankKilledByAPeerIsExcused) {
  const std::string mark = new_mark();
  Launcher launcher({"-n", "2", "--stop", "1@start+20ms", "--expect-kill", "0", "sleep", mark});
  pid_t stopped = 0;
  ASSERT_TRUE(eventually([&] { return (stopped = one_stopped_sleeper(mark)) != 0; }));
  kill(stopped, SIGKILL);
  ASSERT_TRUE(eventually([&] { return sleepers(mark) == 1; }));
  kill(one_sleeper(mark), SIGKILL);
  EXPECT_EQ(launcher.wait().exit_code, 0);
}

TEST(LauncherExit, TheTimeLimitEndsEverythingAndNamesWhoRan) {
  const std::string mark = new_mark();
  const auto job =
      run(shell({"-n", "2", "--timeout", "10s"}, "[ $UCFT_RANK = 0 ] && exit 0; setsid sleep " + mark + "; true"));
  EXPECT_EQ(job.exit_code, 124);
  EXPECT_TRUE(contains(job.errors, "limit of 10 s has passed") && contains(job.errors, "rank 1 (pid ")) << job.errors;
  EXPECT_FALSE(contains(job.errors, "rank 0")) << job.errors;
  EXPECT_EQ(sleepers(mark), 0);
}

TEST(LauncherExit, WrongUsageIsNamedBeforeAnythingStarts) {
  const struct {
    Strings arguments;
    int exit_code;
    std::string named;
  } cases[] = {
      {{"true"}, 2, "-n N is missing"},
      {{"-n", "0", "true"}, 2, "-n: '0'"},
      {{"-n", "-3", "true"}, 2, "-n"},
      {{"-n", "many", "true"}, 2, "-n: 'many'"},
      {{"-n", "2"}, 2, "no program"},
      {{"-n", "2", "--what", "true"}, 2, "unknown option --what"},
      {{"--kil", "1@1s", "-n", "2", "true"}, 2, "unknown option --kil"},
      {{"-n", "2", "--kill", "2@1s", "true"}, 2, "--kill 2@1s"},
      {{"-n", "2", "--kill", "1", "true"}, 2, "--kill: '1'"},
      {{"-n", "2", "--stop", "1@soon", "true"}, 2, "--stop 1@soon"},
      {{"-n", "2", "--stop", "1@-1s", "true"}, 2, "--stop 1@-1s"},
      {{"-n", "2", "--stop", "1@start+", "true"}, 2, "--stop 1@start+"},
      {{"-n", "2", "--stop", "1@start", "true"}, 2, "--stop 1@start"},
      {{"-n", "2", "--bind", "socket", "true"}, 2, "--bind: 'socket' is none of core, l3, numa, package, none"},
      {{"-n", "2", "--expect-kill", "2", "true"}, 2, "--expect-kill: '2'"},
      {{"-n", "2", "--expect-kill", "0,2", "true"}, 2, "--expect-kill 0,2: '2'"},
      {{"-n", "2", "--expect-kill", "1-0", "true"}, 2, "--expect-kill: '0' is not a number from 1 to 1"},
      {{"-n", "2", "--expect-kill", "some", "true"}, 2, "--expect-kill: 'some'"},
      {{"-np", "0", "true"}, 2, "-n: '0'"},
      {{"-n", "2", "--timeout", "0", "true"}, 2, "--timeout"},
      {{"-n", "2", "--startup-timeout", "1h", "true"}, 2, "--startup-timeout: '1h'"},
      {{"-n", "2", "no_such_program"}, 127, "no_such_program"},
      {{"-n", "2", "/no/such/program"}, 127, "/no/such/program"},
      {{"-n", "2", "/etc/passwd"}, 126, "/etc/passwd"},
      {{"-n", "2", "/etc"}, 126, "/etc"}};
  for (const auto& each : cases) {
    const auto job = run(each.arguments);
    EXPECT_EQ(job.exit_code, each.exit_code) << each.named;
    EXPECT_TRUE(contains(job.errors, each.named)) << job.errors;
    EXPECT_EQ(job.output, "");
  }
}

TEST(LauncherExit, OptionsAfterTheProgramBelongToIt) {
  EXPECT_EQ(run({"-n", "1", "echo", "-n", "7", "--kill", "--help"}).output, "[0] 7 --kill --help\n");
  EXPECT_EQ(run({"-n", "1", "--", "echo", "--", "x"}).output, "[0] -- x\n");
  EXPECT_EQ(run({"--no-tag", "-np", "1", "--timeout", "20s", "echo", "-np", "2"}).output, "-np 2\n");
  EXPECT_EQ(run({"-n", "1", "echo", "-np", "2"}).output, "[0] -np 2\n");
  EXPECT_EQ(run({"--version"}).output, "ucft_run 0.1.0\n");
  EXPECT_TRUE(contains(run({"--help"}).output, "RANK@TIME"));
}

// ---- nothing is left ----

// Each rank: a plain child, one in its own session, and one that was double-forked into its own session.
constexpr int sleepers_per_rank = 3;
std::string family(const std::string& mark, const std::string& end) {
  return "sleep " + mark + " & setsid sleep " + mark + " & (setsid sleep " + mark + " &); " + end;
}

class LauncherOrphans : public testing::Test {
 protected:
  void start_family(const std::string& end = "echo up; wait; true") {
    launcher_ = std::make_unique<Launcher>(shell({"-n", "2"}, family(mark_, end)));
    ASSERT_TRUE(eventually([&] { return sleepers(mark_) == 2 * sleepers_per_rank; }));
  }
  void expect_none_left() {
    EXPECT_TRUE(eventually([&] { return sleepers(mark_) == 0; })) << sleepers(mark_) << " left";
  }

  const std::string mark_ = new_mark();
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(LauncherOrphans, NoneAfterANormalEnd) {
  const auto job = run(shell({"-n", "2"}, family(mark_, "exit 0")));
  EXPECT_EQ(job.exit_code, 0) << job.errors;
  EXPECT_EQ(sleepers(mark_), 0) << "at the latest when ucft_run has ended";
}

TEST_F(LauncherOrphans, NoneAfterEachSignalThatEndsTheLauncher) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    start_family();
    launcher_->send(signal);
    EXPECT_EQ(launcher_->wait().exit_code, 128 + signal);
    EXPECT_EQ(sleepers(mark_), 0);
  }
}

TEST_F(LauncherOrphans, NoneAfterTheLauncherIsKilled) {
  start_family();
  launcher_->send(SIGKILL);
  EXPECT_EQ(launcher_->wait().exit_code, 137);
  expect_none_left();
}

TEST_F(LauncherOrphans, NoneAfterTheSupervisorIsKilled) {
  start_family();
  kill(launcher_->supervisor(), SIGKILL);
  const auto job = launcher_->wait();
  EXPECT_EQ(job.exit_code, 137);
  EXPECT_TRUE(contains(job.errors, "the supervisor (pid ")) << job.errors;
  EXPECT_EQ(sleepers(mark_), 0);
}

TEST_F(LauncherOrphans, NoneAfterTheLauncherIsKilledWhileTheSupervisorIsStopped) {
  start_family();
  kill(launcher_->supervisor(), SIGSTOP);
  launcher_->send(SIGKILL);
  expect_none_left();
}

TEST_F(LauncherOrphans, NoneAfterTheLauncherIsKilledWhileNobodyReadsItsOutput) {
  launcher_ = std::make_unique<Launcher>(shell({"-n", "2"}, family(mark_, "yes; true")));
  ASSERT_TRUE(eventually([&] { return sleepers(mark_) == 2 * sleepers_per_rank; }));
  launcher_->send(SIGKILL);
  expect_none_left();
}

TEST_F(LauncherOrphans, ASecondInterruptEndsThoseWhoIgnoreTheFirstAtOnce) {
  start_family("trap '' INT TERM; echo up; while :; do sleep 0.05; done");
  ASSERT_TRUE(launcher_->read_until("[0] up") && launcher_->read_until("[1] up"));
  launcher_->send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // or the two would be one; right in any case
  launcher_->send(SIGINT);
  EXPECT_EQ(launcher_->wait().exit_code, 130);
  EXPECT_EQ(sleepers(mark_), 0);
}

TEST_F(LauncherOrphans, ThoseWhoIgnoreTheRequestToEndAreKilledLater) {
  start_family("trap '' TERM; echo up; while :; do sleep 0.05; done");
  ASSERT_TRUE(launcher_->read_until("[0] up") && launcher_->read_until("[1] up"));
  launcher_->send(SIGTERM);
  EXPECT_EQ(launcher_->wait().exit_code, 143);
  EXPECT_EQ(sleepers(mark_), 0);
}

TEST_F(LauncherOrphans, KillingARankTakesTheProgramBehindTheShell) {
  Launcher launcher(shell({"-n", "2", "--kill", "1@start+2s"},
                          "[ $UCFT_RANK = 1 ] && sleep " + mark_ + "; echo alive; sleep 1000; true"));
  ASSERT_TRUE(eventually([&] { return sleepers(mark_) == 1; }));
  ASSERT_TRUE(launcher.read_until("[0] alive"));
  expect_none_left();
  launcher.send(SIGTERM);
  launcher.wait();
}

}  // namespace
}  // namespace ucft::detail::test

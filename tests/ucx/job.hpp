// Runs a scenario (ranks.hpp), or another program, under ucft_run, mpirun or srun and says how it went. Whoever starts
// it, the rank program is ucx_scenario_test.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace ucft::detail::test {

// Mpirun: Open MPI's, without network. Srun: in ci/slurm, over its nodes. Nobody: the program alone, `ranks` doesn't
// count.
enum class Launcher { UcftRun, Mpirun, Srun, Nobody };

// By the test, for a launcher that doesn't do it: SIGKILL so long after the rank has said "STARTED <pid>".
struct Kill {
  int rank = 0;
  std::chrono::milliseconds after{};
};

struct JobPlan {
  int ranks = 4;
  std::string scenario = "loop";
  std::vector<std::string> arguments{};  // of the scenario
  std::vector<std::string> launcher{};   // further options of the launcher: --kill 1@start+20ms, --expect-kill 0
  std::map<std::string, std::string> environment{};  // UCX_TLS, UCFT_TEST_KILL, ...
  Launcher started_by = Launcher::UcftRun;
  std::vector<Kill> kills{};  // Mpirun, and Srun on one node
  std::string program{};      // instead of the rank program and its scenario
};

struct JobResult {
  int exit_code = -1;
  std::string output;                    // stdout and stderr, in any order
  std::vector<std::string> errors;       // lines of stderr that do not come from the launcher
  std::map<int, std::string> verdicts;   // rank -> what follows "VERDICT "
  std::vector<std::string> killed;       // lines of stderr that say that a rank was killed for its silence
  std::vector<std::string> left_behind;  // in /dev/shm
};

// The environment of a job over "shm": all ranks read each other's memory; "tcp": no memory is shared; "two_level":
// shared memory between every two ranks, which take themselves for a host, and tcp between hosts. By default ranks have
// one of those three. Two are fallbacks: "corrected" is shared memory with messages in it. "hosts" is as "two_level",
// but ranks don't prove deaths (UCFT_FENCE), so that each is a process.
std::map<std::string, std::string> over(const std::string& transport);
inline bool spans_hosts(const std::string& transport) { return transport == "hosts" || transport == "two_level"; }
inline bool is_fallback(const std::string& transport) { return transport == "corrected" || transport == "hosts"; }
inline bool needs_ucx(const std::string& transport) { return transport == "tcp" || spans_hosts(transport); }
// All of them; with sanitizers without the fallbacks, whose code the others run as well.
std::vector<const char*> all_transports();

// A file for UCFT_TUNING_FILE: trees of degree 2, chunks of 1 KiB from 64 bytes on.
inline constexpr const char* table_of_a_tree = UCFT_TEST_TABLE;

// UCFT_SUSPECT_AFTER for tests that wait for it. Whoever wants to run and gets no processor is spared on its own host,
// but not by other hosts, which can't know: there a machine that stops for a second must not look like a death.
inline std::string patience(const std::string& transport) { return spans_hosts(transport) ? "1200ms" : "300ms"; }

// Open MPI's. Of 5 are other options, other output, and a PMIx server that treats the dead differently.
bool mpirun_is_version_4();

// The number of jobs of a test, times UCFT_KILL_RUNS.
int runs(int normally);

// The command that runs it again, with its environment: for people.
std::string words_of(const JobPlan& plan);

JobResult run_job(const JobPlan& plan);
// The first promise that the run broke, or nothing: exit code 0 (mpirun's and srun's say nothing if a rank died), no
// noise, nothing left behind, a verdict of every rank but those that may be dead, the same one on all.
std::string what_is_wrong(const JobPlan& plan, const JobResult& result, const std::vector<int>& may_be_dead);

}  // namespace ucft::detail::test

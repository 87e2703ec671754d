#include "tools/settings_reference.hpp"

#include <fmt/core.h>

#include <sstream>

namespace ucft::detail {

namespace {

using enum SettingReference::Part;

constexpr const char* durations = "100us, 10ms, 1.5s, 2m";

constexpr SettingReference all[] = {
    {"UCFT_F", behaviour, "0 .. 1048576", "1",
     "How many failures an operation completes with, if messages carry it. Between hosts a failed host is one "
     "failure, however many ranks it had. Ranks of one host that share memory complete with any number of "
     "failures. It must be the same on all ranks."},
    {"UCFT_FENCE", behaviour, "y, n", "y",
     "y: a rank of this host that gives no sign of life for UCFT_SUSPECT_AFTER is killed (SIGKILL), so that "
     "its death is certain. In a job on one host a process that a debugger or strace holds is not killed: the "
     "others wait for it. n: a silent rank is not killed, but it is out for good (UCFT_ERR_EXCLUDED). Ranks of one "
     "host then send messages instead of reading each other's memory, and have only the promises of ranks on "
     "different hosts. To debug a rank, set UCFT_SUSPECT_AFTER instead."},
    {"UCFT_HEARTBEAT_PERIOD", behaviour, "100us .. 1m", "10ms",
     "How often a rank's detector thread wakes and gives a sign of life. It must be the same on all ranks."},
    {"UCFT_SUSPECT_AFTER", behaviour, "300us .. 60m, at least 3 times UCFT_HEARTBEAT_PERIOD", "1s",
     "How long a rank may be silent before the others take it for failed. Only a process that hangs or is "
     "stopped, or a host that cannot be reached, is silent: the end of a process is seen at once. Set it to "
     "10m on all ranks to stop a rank by hand for a while, or to debug a job of several hosts. It must be the "
     "same on all ranks."},
    {"UCFT_STARTUP_TIMEOUT", behaviour, "1ms .. 1440m", "1m",
     "How long ranks wait for each other in start-up before those that are missing are named. Under ucft_run "
     "its --startup-timeout (60s) is a limit, too."},
    {"UCFT_LOG", behaviour, "off, warn, info", "warn",
     "How much ucft says on stderr. warn: what a user has to know, such as that a rank was killed for its "
     "silence. info: also each failure, each message that is dropped, and what this system lacks. y is info, "
     "and n is warn."},
    {"UCFT_STATS", behaviour, "y, n, json", "n",
     "Counters of this rank go to stderr when it leaves the job: as text, or as a line of JSON."},
    {"UCFT_PMIX", behaviour, "auto, off", "auto",
     "auto: a program that a PMIx server has started (Open MPI's mpirun, srun --mpi=pmix) joins the job of "
     "that server. off: it is a job of one rank."},
    {"UCFT_JOINABLE", behaviour, "y, n", "n",
     "y: new processes may take the seats of ranks that have failed (ucft_comm_renew). Each rank then listens on a "
     "TCP port of its own, with a thread that sleeps until somebody connects. Newcomers show the job's secret: 64 "
     "hexadecimal digits in the file that UCFT_JOIN_SECRET_FILE names, else UCFT_JOB_SECRET, which ucft_run sets. A "
     "newcomer finds the addresses of one or more ranks in UCFT_JOIN (HOST:PORT, with commas between). ucft_run "
     "--respawn sets all of these, and --join UCFT_JOIN. It must be the same on all ranks."},
    {"UCFT_SINGLE", behaviour, "y, n", "n",
     "y: this process is a job of one rank, whatever program has started it. (Not in MPI programs, nor where the "
     "program passes an allgather of its own.) A launcher may have started this process as one of several "
     "(WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE or SLURM_NTASKS is above 1). If it then finds no job, and this "
     "is n, it fails to start. UCFT_PMIX=off is taken for y there."},
    {"UCFT_GOSSIP_FAULTS", behaviour, "none, or e.g. loss=0.1,seed=3", "none",
     "Faults that are injected into gossip, for experiments. docs/gossip_api.md has the list. It must be the "
     "same on all ranks."},
    {"UCFT_RMA", performance, "auto, off", "auto",
     "auto: messages between hosts go into remote memory by RDMA, where the network can do that. off: active "
     "messages."},
    {"UCFT_CONNECT_ALL", performance, "auto, or a number of ranks", "auto",
     "Up to so many ranks on other hosts all pairs are connected in start-up; beyond it a rank connects to "
     "another one when it needs to. auto: 40 where each host has several ranks, else 256. It must be the same "
     "on all ranks."},
    {"UCFT_SPIN", performance, "auto, or 0 .. 1000000000 polls", "auto",
     "How often a wait polls before it yields the processor. auto: by whether ranks share processors."},
    {"UCFT_SLEEP_AFTER", performance, "0us .. 60m", "2ms",
     "How long a wait yields before it sleeps. 0: it sleeps at once."},
    {"UCFT_SHARED_MEMORY", performance, "auto, or bytes: 64M, at most 16384G", "auto",
     "Address space that each rank reserves for memory that ranks of its host share. auto: as much as the "
     "machine has memory, or less under ulimit -v. No memory is used for it before it is needed."},
    {"UCFT_WINDOW", performance, "2 .. 1024", "8",
     "How many operations of a communicator may be in flight on a rank. It must be the same on all ranks."},
    {"UCFT_ALGORITHM", performance, "auto, corrected", "auto",
     "auto: ranks of a host read each other's memory, and hosts send messages. corrected: all ranks send messages "
     "that are prepared for deaths from the first one on (the paper's algorithm, to study and to compare). It must "
     "be the same on all ranks."},
    {"UCFT_MODEL", performance, "auto, or a file", "auto",
     "A file with the LogGP parameters by which trees and gossip are planned. ucft_perftest --calibrate writes "
     "one."},
    {"UCFT_TUNING_FILE", performance, "auto, or a file", "auto",
     "A file with the shapes of operations on one host, and the sizes at which those between hosts go another way. "
     "ucft_perftest --tune writes one. It must be the same on all ranks."},
    {"UCFT_MPI", mpi, "y, n", "y", "n: the MPI shims take nothing over, and the program runs on MPI alone."},
    {"UCFT_MPI_ON_FAILURE", mpi, "continue, end, end-unless-collective", "continue",
     "A death ends the job of an MPI program: end: any; end-unless-collective: one that is an error of a call, while "
     "collectives go on. One line names the dead rank, and the exit code is not 0."},
    {"UCFT_MPI_INFO", mpi, "y, n, json", "n",
     "y: the MPI shims say at the end of the program, on stderr, which calls ucft has carried out. json: as a "
     "JSON object a line."},
};

}  // namespace

std::span<const SettingReference> settings_reference() { return all; }

std::string wrapped(const std::string& text, std::size_t columns, const std::string& indent) {
  std::string lines, line = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool is_first = line.size() == indent.size();
    if (!is_first && line.size() + 1 + word.size() > columns) {
      lines += line + "\n";
      line = indent + word;
    } else {
      line += (is_first ? "" : " ") + word;
    }
  }
  return lines + line + "\n";
}

std::string settings_page() {
  std::string page =
      "# Settings\n\n"
      "ucft reads these variables of the environment when `ucft_context_create` starts, and in MPI programs when\n"
      "`MPI_Init` does. This page is for people who run programs over ucft. `ucft_info -f` prints the same, with the "
      "value\n"
      "that each has here and where it comes from.\n\n";
  page += wrapped(
      fmt::format(
          "A duration is a number with its unit ({}). An empty variable is the default. A name that begins with "
          "`UCFT_` and is no setting is a warning at start-up. Fields of `ucft_context_params_t` go before the "
          "environment.",
          durations),
      118, "");
  const struct {
    SettingReference::Part part;
    const char* title;
  } parts[] = {{behaviour, "Behaviour"}, {performance, "Performance"}, {mpi, "MPI programs"}};
  for (const auto& [part, title] : parts) {
    page += fmt::format("\n## {}\n", title);
    for (const SettingReference& each : all)
      if (each.part == part)
        page += fmt::format("\n### {}\n\n- Values: {}\n- Default: {}\n\n{}", each.name, each.values, each.initial,
                            wrapped(each.text, 118, ""));
  }
  return page;
}

}  // namespace ucft::detail

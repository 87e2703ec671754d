#include "mpi/report.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ucft::mpi {

Counters counters;

namespace {

constexpr const char* function_names[] = {
    "MPI_Allreduce",    "MPI_Reduce",    "MPI_Bcast",     "MPI_Barrier",        "MPI_Allgather",
    "MPI_Allgatherv",   "MPI_Gather",    "MPI_Gatherv",   "MPI_Scatter",        "MPI_Scatterv",
    "MPI_Alltoall",     "MPI_Alltoallv", "MPI_Alltoallw", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
    "MPI_Scan",         "MPI_Exscan",    "MPI_Comm_dup",  "MPI_Comm_split",     "MPIX_Comm_agree",
    "MPIX_Comm_shrink", "point-to-point"};
static_assert(std::size(function_names) == static_cast<int>(Function::end));

constexpr const char* outcome_names[] = {"taken over", "communicator",           "datatype", "operator", "length",
                                         "arguments",  "refused, a rank is dead"};
static_assert(std::size(outcome_names) == static_cast<int>(Outcome::end));

// {"function":"MPI_Bcast","taken over":12,"passed on":{"communicator":3}}, or the same for people. Empty: never called.
std::string line(int function, bool json) {
  std::string reasons;
  std::uint64_t all = 0;
  const char* quote = json ? "\"" : "";
  for (int outcome = 1; outcome < static_cast<int>(Outcome::end); ++outcome)
    if (const std::uint64_t n = counters[function][outcome]; n > 0) {
      reasons += std::string(reasons.empty() ? ""
                             : json          ? ","
                                             : ", ") +
                 quote + outcome_names[outcome] + quote + ":" + (json ? "" : " ") + std::to_string(n);
      all += n;
    }
  const std::uint64_t ours = counters[function][0];
  if (all + ours == 0) return {};
  const std::string name = function_names[function];
  if (json)
    return "{\"function\":\"" + name + "\",\"taken over\":" + std::to_string(ours) + ",\"passed on\":{" + reasons +
           "}}\n";
  return "ucft: " + name + ": " + std::to_string(ours) + " taken over, " + std::to_string(all) + " not" +
         (reasons.empty() ? "" : " (" + reasons + ")") + "\n";
}

}  // namespace

const char* name_of(Function function) { return function_names[static_cast<int>(function)]; }

void print_report() {
  const char* value = std::getenv("UCFT_MPI_INFO");
  const std::string form = value == nullptr ? "n" : value;
  if (form != "y" && form != "json") return;
  std::string text;
  for (int function = 0; function < static_cast<int>(Function::end); ++function) text += line(function, form == "json");
  std::fputs(text.c_str(), stderr);
}

}  // namespace ucft::mpi

// The plan of a whole job, drawn by a seed: its hosts and ranks, settings, how things go, and the faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulator/jobs/kernel.hpp"

namespace ucft::jobs {

// A short silence: no rank may be given up for it.
constexpr Time short_silence = 400 * millisecond;

// starve: a rank wants to run, and gets no processor. freeze: so does a whole host, whose ranks go on one by one.
// memory, descriptors: a rank gets no more. connection: UCX loses those of two ranks. ucx: some of its calls fail.
enum class Fault : std::uint8_t { kill, stop, starve, freeze, power, cut, memory, descriptors, connection, ucx };

// The thing that a fault waits for.
enum class After : std::uint8_t { the_begin, all_have_begun, a_situation };
// Of a fault that waits for a situation: whom it befalls.
enum class Near : std::uint8_t { the_rank, the_next_on_its_host, any };

struct PlannedFault {
  Fault kind = Fault::kill;
  After what = After::all_have_begun;
  std::size_t situation = 0;  // (situations.hpp)
  std::uint64_t times = 1;    // so often it must have happened, to all ranks together
  Near near = Near::any;
  Time after = 0;
  int who = 0;     // a rank, or a host (is_of_host)
  int other = 0;   // the second rank of a connection, or the host that a cut leads to
  Time lasts = 0;  // of those that end

  bool is_of_host() const { return kind == Fault::freeze || kind == Fault::power || kind == Fault::cut; }
};

struct JobPlan {
  std::uint64_t seed = 0;
  std::vector<int> hosts;  // of each rank
  int steps = 50;
  int processors = 1;  // of a host
  Temper temper;
  std::vector<HostClock> clocks;  // empty: all are right
  int late = -1;                  // the rank that starts so much later than the others
  Time late_by = 0;
  bool by_launcher = false;  // ranks find each other by ucft_run's rendezvous; else by an allgather of the program
  int missing = -1;          // the rank that never comes
  struct Stranger {          // a process that says it is a rank, too
    int rank;
    bool knows_secret;
    Time after;
  };
  std::vector<Stranger> strangers;
  std::map<std::string, std::string, std::less<>> environment;
  std::vector<PlannedFault> faults;

  // Of a job in which new processes take the seats of ranks that have failed or left.
  struct Respawn {
    Time after;         // the end of the one before
    Time killed_after;  // its start; -1: it is not
    bool elsewhere;     // on any host
  };
  bool has_newcomers = false, some_leave = false;
  std::uint64_t renews_each = 1;  // steps, on average
  std::vector<Respawn> respawns;  // in the order in which ranks end
  std::int32_t grow_to = 0;       // ranks; 0: it doesn't grow
  struct Join {                   // a process for which no seat is free, or any
    Time after;                   // all have begun
    Time killed_after;            // its start; -1: it is not
    int host;
  };
  std::vector<Join> joins;

  int ranks() const { return static_cast<int>(hosts.size()); }
};

// One of six has newcomers; with_newcomers: each has.
JobPlan plan_of(std::uint64_t seed, bool with_newcomers = false);
// For people: a line each.
std::string described(const JobPlan& plan);

}  // namespace ucft::jobs

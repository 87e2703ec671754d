// The command line that ucft_perftest and its peers share. Everything wrong with it is named before anything starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/disturbance.hpp"
#include "ucft/ucft.hpp"

namespace ucft::detail::bench {

enum class Test {
  allreduce,
  reduce,
  broadcast,
  barrier,
  allgather,
  gather,
  reduce_scatter,
  scatter,
  alltoall,
  alltoallv,
  scan,
  exscan,
  sendrecv
};
inline bool has_blocks(Test test) { return test == Test::allgather || test == Test::gather; }
inline bool combines(Test test) {
  return test == Test::allreduce || test == Test::reduce || test == Test::reduce_scatter || test == Test::scan ||
         test == Test::exscan;
}
inline bool has_shares_of_all(Test test) { return test == Test::alltoall || test == Test::alltoallv; }
inline bool has_shares(Test test) {
  return test == Test::reduce_scatter || test == Test::scatter || has_shares_of_all(test);
}
inline bool comes_from_root(Test test) { return test == Test::broadcast || test == Test::scatter; }
// Payloads of a row that a rank gives, and gets.
inline std::size_t given_by_rank(Test test, int ranks) {
  return has_shares(test) ? static_cast<std::size_t>(ranks) : 1;
}
inline std::size_t got_by_rank(Test test, int ranks) {
  return has_blocks(test) || has_shares_of_all(test) ? static_cast<std::size_t>(ranks) : 1;
}
// Elements of the shares of an alltoallv, in the order of ranks. Each rank gives, and gets, as many as in an alltoall
// with shares of `count`. But of two neighbours one gets half as many as that, and the other half as many again.
struct OwnCounts {
  std::vector<std::uint64_t> given, wanted;

  OwnCounts() = default;
  OwnCounts(int rank, int ranks, std::size_t count) {
    const auto of = [&](int distance) {
      const bool has_neighbour = distance % 2 == 1 || distance + 1 < ranks;
      const std::size_t half = has_neighbour ? count / 2 : 0;
      return distance % 2 == 0 ? count - half : count + half;
    };
    for (int other = 0; other < ranks; ++other) {
      given.push_back(of((other - rank + ranks) % ranks));
      wanted.push_back(of((rank - other + ranks) % ranks));
    }
  }
};
// -t sendrecv: ranks in pairs. The even one sends its payload, and the other one then sends back its own.
inline int partner_of(int rank) { return rank ^ 1; }
inline bool goes_to_root(Test test) { return test == Test::reduce || test == Test::gather; }
// Of so many ranks, those that a result of that rank is never of.
inline std::uint32_t ranks_left_out(Test test, int rank, int ranks) {
  if (test != Test::scan && test != Test::exscan) return 0;
  return static_cast<std::uint32_t>(ranks - rank - (test == Test::scan ? 1 : 0));
}

// The library under test; the peers know no algorithms of ours, and no deaths.
enum class Library { ucft, mpi };

// --kill, --stop: that rank raises the signal on itself right before its operation of that iteration.
struct PlannedDeath {
  int rank = 0;
  std::int64_t iteration = 0;  // counted from 0 over all rows, without the warm-up
  int signal = 0;
};

// -t gossip: the names as typed, and their meaning for ucft.
enum class GossipData : std::uint8_t { uniform, cancel, huge, tiny };

struct GossipArguments {
  std::string algorithm, topology, stop;
  GossipOptions options;
  GossipData data = GossipData::uniform;
  bool watches = false;  // the ranks' own estimates, too
  std::string faults;    // for UCFT_GOSSIP_FAULTS; "": what the environment says
};

struct Arguments {
  Test test = Test::allreduce;
  std::string algorithm = "auto";
  Options options;                       // what `algorithm` and -f mean to ucft
  std::vector<std::size_t> sizes_bytes;  // one row each (of blocks and shares: of one); a barrier has one row of 0
  std::int64_t iterations = 1000;        // per row
  std::int64_t warmup = 100;             // per row
  ucft_dtype_t dtype = UCFT_UINT64;
  ucft_op_t op = UCFT_SUM;
  int root = 0;
  std::vector<PlannedDeath> deaths;
  std::int64_t respawns = 0;  // > 0: all deaths happen so often, and newcomers follow them
  Disturbances disturbances;
  std::int64_t step_ns = 0;    // instead of a barrier: sleep before each operation
  bool back_to_back = false;   // no barrier, no check and no clock between the operations of a batch
  bool shared_memory = false;  // buffers from ucft_alloc
  bool json = false;
  std::optional<GossipArguments> gossip;  // instead of `test`
  std::string setting;                    // of UCFT_ALGORITHM; "": what the environment says
  std::string calibrate;                  // a file: measure the cost model instead
  std::string tune;                       // a file: measure a row of the tuning table instead

  // Operations between two clocks, of a payload of so many bytes.
  std::int64_t batch(std::size_t bytes) const { return !back_to_back ? 1 : bytes <= 4096 ? 64 : 8; }
};

inline constexpr int exit_usage = 2;

const char* name_of(Test test);
const char* name_of(ucft_dtype_t dtype);
const char* name_of(ucft_op_t op);

// The arguments, or the exit code (0 after --help and --version); the message has been printed, if `speaks`.
struct ParsedArguments {
  std::optional<Arguments> arguments;
  int exit_code = 0;
};
ParsedArguments parse_arguments(int argument_count, char** argument_values, Library library, bool speaks);

// Checks that need the number of ranks: "" or what is wrong.
std::string problem_with(const Arguments& arguments, int rank_count);

}  // namespace ucft::detail::bench

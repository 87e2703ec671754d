// The calls of the ranks of a job and their results, as the ranks themselves wrote them down. The judge (judge.hpp)
// reads nothing else of a job, and shares no code with the library: of ucft it knows the names in ucft.h.
//
// A rank writes a line for each event, in one write(2) each, so that a rank that is killed leaves all but at most the
// line that it was writing. A file per rank, "rank.N" in the directory of the job:
//
//   {"rank": 0, "ranks": 4, "host": 0, "f": 1, "reads_memory": true, "at": ...}    first
//   {"call": 0, "kind": "allreduce", "communicator": "all", ..., "at": ...}        a call begins
//   {"end": 0, "status": 0, ..., "at": ...}                                        it has ended
//   {"over": true, "at": ...}                                                      last: its program came to its end
//
// Times are CLOCK_MONOTONIC in ns; ranks of one machine have the same clock. Data are blocks: how many elements, a hash
// of all their bytes, and the bytes of some elements (sampled_places). So a history stays small however long data are,
// and copies are compared whole all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ucft/ucft.h"

namespace ucft::judge {

struct Block {
  std::uint64_t count = 0;            // elements
  std::uint64_t hash = 0;             // of all their bytes
  std::vector<std::uint8_t> sampled;  // the bytes of the elements at sampled_places(count), one after the other
  friend bool operator==(const Block&, const Block&) = default;
};

// Ascending. All of up to 24 elements; else the first and last 8, and 8 between.
std::vector<std::uint64_t> sampled_places(std::uint64_t count);
std::size_t bytes_of(ucft_dtype_t dtype);
// memory: count elements.
Block block_of(const void* memory, std::uint64_t count, ucft_dtype_t dtype);

enum class Kind : std::uint8_t {
  allreduce,
  reduce,
  broadcast,
  allgather,
  gather,
  reduce_scatter,
  scatter,
  alltoall,
  scan,
  exscan,
  barrier,
  agree,
  split,
  dup,
  leave,    // a communicator
  destroy,  // the context: it leaves the job
  send,
  receive,
  quorum,  // an allreduce with a quorum
  gossip   // an all-reduce by gossip; its aggregate by the operator
};
const char* name_of(Kind kind);

// A member has a meaning for some kinds alone; the others leave it as it is here.
struct Call {
  Kind kind = Kind::barrier;
  std::string communicator = "all";  // a name that is the same on all of its ranks
  std::int32_t rank = 0, size = 0;   // the caller's in it, and of how many ranks it was made
  std::int32_t root = -1;            // of send and receive: the other rank (-1: any)
  std::int32_t tag = 0;
  ucft_dtype_t dtype = UCFT_UINT64;
  ucft_op_t op = UCFT_SUM;
  std::int32_t f = -1;  // -1: the job's
  bool uniform = false;
  bool differs = false;  // on purpose: another rank calls with other arguments
  ucft_failure_info_t failure_info = UCFT_FAILURE_INFO_LIST;
  std::int32_t colour = 0, key = 0;  // of split
  std::int32_t quorum = 0;
  std::vector<Block> given;   // of scatter (at its root), alltoall and reduce_scatter: one for each rank
  std::vector<Block> before;  // what stood where results go: blocks as in `got`
  std::int64_t began_at = 0;

  std::int64_t ended_at = -1;  // -1: it has not
  ucft_status_t status = UCFT_INPROGRESS;
  std::uint32_t contributors = 0;
  std::optional<std::vector<std::int32_t>> missing;  // nothing: not known
  std::vector<std::int32_t> late;                    // of quorum
  bool is_late = false;
  std::vector<Block> got;  // of allgather, gather (at its root) and alltoall: one for each rank; also after an error
  std::string made;        // of split and dup: the name of the communicator; empty: none
  std::int32_t made_rank = -1, made_size = 0;
  std::int32_t source = -1, source_tag = 0;  // of a receive
  // Of gossip. bound: of its relative error; -1: nothing is said.
  double bound = 0;
  ucft_gossip_answer_t answer = UCFT_GOSSIP_ALL_RANKS;

  bool has_ended() const { return ended_at >= 0; }
  friend bool operator==(const Call&, const Call&) = default;
};

struct RankHistory {
  std::int32_t rank = 0, ranks = 0, host = 0;
  std::int32_t f = 1;
  bool reads_memory = false;  // ranks of its host and it read each other's memory, and can prove deaths
  std::vector<Call> calls;    // in the order in which they began
  bool is_over = false;
  std::int64_t began_at = 0, last_at = 0;  // of its first and last line
};

// ---- as text --------------------------------------------------------------------------------------------------------

// Lines without the newline.
std::string line_of_begin(const RankHistory& rank);
std::string line_of_call(std::size_t number, const Call& call);  // what is known when it begins
std::string line_of_end(std::size_t number, const Call& call);
std::string line_of_over(std::int64_t at);
// Its whole file, each end behind its begin.
std::string text_of(const RankHistory& rank);

// The history of one rank. A last line that is cut off is left out. Throws std::runtime_error, which names line and
// cause.
RankHistory read_history(std::istream& lines);
// All of a job. ranks[r] is rank r's; a rank that wrote nothing has no calls. Throws as above, and names the file.
std::vector<RankHistory> read_job(const std::filesystem::path& directory);

}  // namespace ucft::judge

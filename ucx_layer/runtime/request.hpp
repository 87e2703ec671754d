// A request: the operation that a caller posts, and its outcome.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/on_host/host_call.hpp"
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/catalogue/landing.hpp"
#include "collectives/catalogue/own_shares.hpp"
#include "collectives/gossip/gossip_call.hpp"
#include "ucft/ucft.h"

namespace ucft::detail {

class Communicator;

constexpr ucft_status_t status_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::success: return UCFT_OK;
    case Outcome::root_failed: return UCFT_ERR_ROOT_FAILED;
    case Outcome::too_many_failures: return UCFT_ERR_TOO_MANY_FAILURES;
    case Outcome::mismatch: return UCFT_ERR_MISMATCH;
    case Outcome::no_memory: return UCFT_ERR_NO_MEMORY;
  }
  return UCFT_ERR_UNSUPPORTED;
}

// The places of the blocks of a gather or allgather(v) in the caller's memory, in bytes. Of a landing: their lengths
// alone.
struct BlockLayout {
  std::uint64_t block_bytes = 0;              // all are of that length, one after the other,
  std::vector<std::uint64_t> bytes, offsets;  // or: by rank

  std::uint64_t bytes_of(Rank rank) const {
    return bytes.empty() ? block_bytes : bytes[static_cast<std::size_t>(rank)];
  }
  std::uint64_t offset_of(Rank rank) const {
    return offsets.empty() ? block_bytes * static_cast<std::uint64_t>(rank) : offsets[static_cast<std::size_t>(rank)];
  }
};

// A long sum of a host's ranks that stays where they have combined it, or blocks that stay where they were given. The
// rest is in the request's own memory.
struct ResultInPlace {
  struct Piece {
    std::uint64_t offset;
    const std::byte* data;
    std::uint64_t bytes;
  };
  std::vector<Piece> pieces;
  BufferId room = no_buffer;  // where other ranks have pieces that this one has combined, or gives: one reference
};

// Takes the blocks of the ranks that share memory, in their order. First it is asked of each that has given, then it is
// given each. They are there during both.
class BlockTaker {
 public:
  virtual bool expects(std::span<const std::byte> block) = 0;  // false: it can be no block
  virtual void take(std::span<const std::byte> block) = 0;

 protected:
  ~BlockTaker() = default;
};

// The arguments that a caller passed to a collective.
struct Call {
  Kind kind = Kind::barrier;
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t count = 0;
  ucft_dtype_t dtype = UCFT_UINT64;
  const ucft_operator_t* op = nullptr;
  std::int32_t root = 0;
  const ucft_coll_options_t* options = nullptr;
  // of blocks: elements of each rank's and where they go; null: count each, one after the other
  const std::uint64_t *counts = nullptr, *displacements = nullptr;
  // of an alltoallv: the same of what this rank gives; those above are of what it gets
  const std::uint64_t *send_counts = nullptr, *send_displacements = nullptr;
};

struct GossipRequest {
  GossipCall call;
  GossipOutcome outcome;
};

// Of a quorum allreduce; see collectives/quorum/.
struct QuorumRequest {
  std::uint32_t quorum = 1;
  std::int64_t deadline_ns = 0;
  std::vector<std::int32_t> late{};  // of its result, ascending
  bool is_late = false;

  std::uint16_t signature(const Arguments& arguments) const {
    const std::uint64_t mixed =
        (std::uint64_t{quorum} << 40 ^ static_cast<std::uint64_t>(deadline_ns)) * 0x9e3779b97f4a7c15ull;
    Arguments compared;  // those that count
    compared.kind = arguments.kind;
    compared.reduction = arguments.reduction;
    compared.count = arguments.count;
    return static_cast<std::uint16_t>(compared.signature() ^ mixed >> 48);
  }
};

struct Request;

// A send or a receive.
struct PointToPointCall {
  Communicator* communicator = nullptr;
  std::byte* memory = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t element = 1;  // bytes of one
  std::int32_t peer = 0;      // of a receive: or any_source
  std::int32_t tag = 0;
  bool is_send = false;
  bool is_complete = false;
  ucft_status_t status = UCFT_OK;
  std::int32_t other = -1;     // of a receive: whose message it was; gone: the rank that is
  std::uint64_t received = 0;  // bytes of that message
  Request* request = nullptr;  // it is complete, too, then; none: of a blocking call
};

// The object that a caller holds from init to free. Each post makes an operation of it.
struct Request {
  enum class State : std::uint8_t { idle, active, copying, complete, taken };

  Communicator* communicator = nullptr;  // null: not prepared
  Call call;                             // of which it was; what that points to may be gone,
  ucft_coll_options_t options{};         // but for these,
  std::vector<std::uint64_t> arrays;     // and what its four arrays said, one after the other, of those it had
  Arguments arguments;
  // By Communicator::plan(), where ranks read each other's memory.
  std::optional<HostCall> host_call;
  std::optional<HostShortcut> shortcut;  // with nothing to finish
  bool in_two_operations = false;        // two_operations.hpp: it is never posted itself
  bool is_unsettled = false;             // posted with accumulators whose result is not settled yet
  const void* send = nullptr;
  void* receive = nullptr;
  BufferId send_block = no_buffer;    // of a part in an operation over hosts: send is its beginning, for others to read
  BlockLayout layout;                 // of blocks; of shares: their lengths
  Share share;                        // of the result: this rank's
  std::unique_ptr<Landing> landing;   // of blocks that are not taken as they are
  std::unique_ptr<OwnShares> shares;  // of an alltoallv
  std::unique_ptr<Request> seal;      // uniform, between processes: a barrier behind it, with which it completes
  Request* sealed = nullptr;          // of a seal: its request
  ResultInPlace* in_place = nullptr;  // of a part in an operation over hosts: for what need not be copied to receive
  BlockTaker* taker = nullptr;        // of a part, whose blocks say how long they are: instead of receive

  State state = State::idle;
  OperationNumber number = 0;
  bool awaits_seal = false;   // it is complete but for that
  bool lacks_memory = false;  // of a part in an operation over hosts: this rank has none for what follows, and no data
  BufferId lent_input = no_buffer, lent_output = no_buffer;  // the caller's own memory that peers may be reading
  // Stored one by one and read soon after: in an order in which no two are read at once, which would wait for both
  // stores.
  std::uint32_t attempts = 0;
  ucft_status_t status = UCFT_OK;
  std::uint32_t contributors = 0;
  bool missing_known = false, has_usual_outcome = false;
  bool stands_for_rooted = false;  // of a part in which the ranks of a host differ: all have called rooted ones
  std::int32_t missing_count = -1;
  std::uint32_t usual_contributors = 0;
  std::vector<std::int32_t> missing;
  std::int32_t culprit = -1;                       // of a mismatch
  std::unique_ptr<GossipRequest> gossip;           // a gossip all-reduce: `arguments` don't count
  std::optional<PointToPointCall> point_to_point;  // a send or a receive: the same
  std::unique_ptr<QuorumRequest> quorum;           // a quorum allreduce

  // The outcome of the operation, and what follows for rank `me` of so many. missing stays empty: a caller that can
  // tell adds the ranks. True if this rank has, or may read, the result.
  struct Verdict {
    Outcome outcome;
    std::uint32_t contributors, attempts;
    Rank culprit;
  };
  bool take_outcome(const Verdict& verdict, Rank me, Rank ranks) {
    has_usual_outcome = false;
    const CatalogueRow& row = arguments.row();
    const bool knows = verdict.outcome == Outcome::success && (row.disseminates || arguments.root == me);
    status = status_of(verdict.outcome);
    contributors = knows ? verdict.contributors : 0;
    attempts = verdict.attempts;
    culprit = verdict.culprit;
    missing.clear();
    missing_known = knows && (arguments.failure_info == FailureInfo::list || row.has_own_lengths());
    missing_count = knows && row.collects ? ranks - static_cast<std::int32_t>(verdict.contributors) : -1;
    return knows;
  }
  // A success of an operation on a host. Mostly that was the outcome the last time, too, of as many ranks. These are
  // the same ranks then: a rank that is missing once is missing from then on. False: it was not.
  bool take_usual_outcome(std::uint32_t from_ranks) {
    state = State::complete;
    return has_usual_outcome && usual_contributors == from_ranks;
  }
  void take_new_outcome(std::uint32_t from_ranks, Rank me, Rank ranks) {
    take_outcome({Outcome::success, from_ranks, 1, no_rank}, me, ranks);
    has_usual_outcome = true;
    usual_contributors = from_ranks;
  }
  // Into the caller's memory: the result of these bytes of the combined carriers, from `offset` on. Only if the
  // reduction finishes.
  void finish_part(std::uint64_t offset, const std::byte* carriers, std::uint64_t bytes,
                   std::uint32_t from_ranks) const;
  // Of the only rank, with a host_call: its own data are the result.
  void complete_alone();
  // Into the caller's memory: a block, or what this rank takes of it. In the order of ranks.
  void put_block(Rank rank, const std::byte* block, std::uint64_t bytes) const;
  // Whether this rank takes a part of the blocks: then put_block() does that.
  bool takes_part_of_blocks() const { return landing != nullptr || shares != nullptr; }
  // Whether all that it takes of that rank's block is a share which this rank itself has given.
  bool has_own_share_of(Rank rank) const {
    return shares != nullptr ? rank == shares->me : landing != nullptr && landing->is_own_share(rank);
  }
  // The operator of the caller.
  Operator op() const { return landing != nullptr ? landing->reduction().op() : arguments.reduction.op(); }
  // Into the caller's memory: the whole result, of so many ranks. Of blocks a set, where a block that
  // does not fit its place makes the outcome a mismatch.
  void copy_result(std::span<const std::byte> result, Rank ranks);
  // Of an alltoall among so many ranks, in the caller's memory.
  OwnShare given_share(Rank rank, Rank ranks) const {
    return shares != nullptr ? shares->given[static_cast<std::size_t>(rank)] : equal_share(rank, ranks);
  }
  OwnShare wanted_share(Rank rank, Rank ranks) const {
    return shares != nullptr ? shares->wanted[static_cast<std::size_t>(rank)] : equal_share(rank, ranks);
  }
  // Into the caller's memory: one of each rank, of the lengths that are wanted; none: that one is missing.
  void take_shares(std::span<const std::optional<std::span<const std::byte>>> taken);
  // Of a scan, which has ended: its contributors, and the missing, are of the ranks that its result may be of.
  void leave_out_later_ranks(Rank ranks);
  // There is no outcome.
  void give_up(ucft_status_t why);

  bool pending() const { return state == State::active || state == State::copying; }

 private:
  OwnShare equal_share(Rank rank, Rank ranks) const {
    const std::uint64_t bytes = layout.block_bytes / static_cast<std::uint64_t>(ranks);
    return {static_cast<std::uint64_t>(rank) * bytes, bytes};
  }
  void place_blocks(std::span<const std::byte> blocks, Rank ranks);
};

}  // namespace ucft::detail

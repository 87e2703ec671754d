// A request: what a caller posts, and what has come of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/operations/catalogue.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/runtime/gossip_driver.hpp"

namespace ucft::detail {

class Communicator;

// Where the blocks of an allgather(v) go in the caller's memory, in bytes.
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

// What a caller holds from init to free. Each post makes an operation of it.
struct Request {
  enum class State : std::uint8_t { idle, active, copying, complete, taken };

  Communicator* communicator = nullptr;
  Arguments arguments;
  const void* send = nullptr;
  void* receive = nullptr;
  BlockLayout layout;  // allgather

  State state = State::idle;
  OperationNumber number = 0;
  BufferId lent_input = no_buffer;  // the caller's own memory that peers may be reading
  Slice value;                      // State::copying: the result, until lent_input is free
  ucft_status_t status = UCFT_OK;
  std::uint32_t contributors = 0, attempts = 0;
  std::int32_t missing_count = -1;
  bool missing_known = false;
  std::vector<std::int32_t> missing;
  std::int32_t culprit = -1;              // of a mismatch
  std::unique_ptr<GossipRequest> gossip;  // a gossip all-reduce: `arguments` don't count

  // What has come of the operation, and what follows for rank `me` of so many. missing stays empty: whoever can tell adds them. True
  // if this rank has, or may read, the result.
  struct Verdict {
    Outcome outcome;
    std::uint32_t contributors, attempts;
    Rank culprit;
  };
  bool take_outcome(const Verdict& verdict, Rank me, Rank ranks);

  bool pending() const { return state == State::active || state == State::copying; }
};

}  // namespace ucft::detail

// The ballots of one operation on one rank: which rank is the root, and which is next if it dies. Küttler, Härtig,
// "Fault-tolerant Reduce and Allreduce operations based on correction", Algorithm 5: the operation of the first
// candidate runs. If that rank dies the operation of the next candidate runs, and so on. The paper needs f+1 candidates
// that don't die meanwhile. The rest is ours (docs/algorithms.md): any member may be root, in the order of members, and
// every message belongs to a ballot.
//
// Invariants
//   - A ballot is the rank of its root. Ballots are ordered by distance from the first candidate, going up and around.
//     The optimistic ballot, which has no root, comes before all others.
//   - promised() only grows. From a ballot on nothing of an earlier one counts.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/core/protocol.hpp"
#include "collectives/topology/membership.hpp"

namespace ucft::detail {

// Ranks known to have failed, ascending.
class FailedRanks {
 public:
  bool contains(Rank rank) const { return !ranks_.empty() && is_among_them(rank); }
  bool insert(Rank rank);  // false: known already
  const std::vector<Rank>& ranks() const { return ranks_; }

 private:
  bool is_among_them(Rank rank) const;

  std::vector<Rank> ranks_;
};

// A rank that posts nothing from that operation on.
struct Leaver {
  Rank rank;
  OperationNumber from;
};

// How operations begin with the optimistic ballot; the same on all ranks.
struct Optimism {
  constexpr Optimism(bool begins_so = true) : begins(begins_so) {}  // NOLINT(google-explicit-constructor)
  bool begins;                                                      // where they can
  // A member sends up to so many as whole vectors, one a step; more go in blocks (phases/circulant.hpp). So does a
  // vector that UCX can't send at a time over tcp, with its header.
  std::uint64_t whole_bytes = 256 * 1024, segment_bytes = 256 * 1024;
  // Of blocks, in one message, which fits into 64 KiB with its headers. One element, if that is more.
  std::uint64_t piece_bytes = 60 * 1024;
  // More than so many are longer ones: 4 GiB are pieces of 256 KiB.
  static constexpr std::uint64_t most_pieces = 1 << 14;
  // Of an alltoall: sets of less than so many bytes go to each member, and more goes straight to the members that it is
  // for. Of two members all does, which need no closing (phases/personal_exchange.hpp). Of a scatter all of less goes
  // along a tree.
  std::uint64_t straight_bytes = 96 * 1024;
  // And its root sends to each member only if they get so much each.
  std::uint64_t straight_part_bytes = 4 * 1024;
  std::uint64_t set_bytes =
      64 * 1024 * 1024;  // of sets of blocks that grow from step to step there is room for so much
  // So many members' blocks may go in pieces at the same time: a rank has a schedule of each.
  static constexpr std::int32_t most_streams = 1 << 10;
  static std::uint64_t steps(std::int32_t members) { return std::bit_width(static_cast<std::uint32_t>(members - 1)); }
  // Of data of so many bytes.
  std::uint64_t piece_of(std::uint64_t bytes) const {
    constexpr std::uint64_t word = 8;
    return std::max(piece_bytes, (bytes / most_pieces + word - 1) / word * word);
  }
  // Whether so many bytes are exchanged as they are among so many members.
  bool goes_whole(std::uint64_t bytes, std::int32_t members) const {
    return bytes < segment_bytes && bytes * steps(members) <= whole_bytes;
  }
  bool goes_straight(std::uint64_t bytes, std::int32_t members) const {
    return bytes > 0 && (members == 2 || bytes >= straight_bytes);
  }
  // Whether of so many bytes each of so many members gets its part straight from the root of a scatter.
  bool goes_straight_from_root(std::uint64_t bytes, std::int32_t members) const {
    return bytes >= straight_bytes && bytes >= straight_part_bytes * static_cast<std::uint64_t>(members);
  }
  // Whether each of so many members gives its part of so many bytes in pieces, to all. Else sets of these parts go: in
  // fewer messages, but each is copied in each step. Both send as many bytes.
  bool goes_in_pieces(std::uint64_t bytes, std::int32_t members) const {
    const bool has_long_parts = bytes > piece_bytes * static_cast<std::uint64_t>(members);
    return members > 1 && members <= most_streams && !goes_whole(bytes, members) &&
           (has_long_parts || bytes * steps(members) > set_bytes);
  }
};

struct Surroundings {
  Rank me = no_rank;
  const FailedRanks* failed = nullptr;
  const FailedRanks* reported =
      nullptr;  // those that don't count against f: some decision has named them, or they have left
  const std::vector<Leaver>* left =
      nullptr;  // in operations from theirs on they are as those that have failed; null: none
  Optimism optimism = false;
  const std::vector<Rank>* hosts = nullptr;  // of each rank; null: each rank fails by itself
};

class Ballots {
 public:
  // No ballot yet. The first candidate is `root`, or the next member if it is none.
  void begin(OperationNumber number, const Membership& members, Rank root, const Surroundings& surroundings);
  void end() { promised_ = no_rank; }

  const Membership& members() const { return members_; }
  const Surroundings& surroundings() const { return surroundings_; }
  Rank me() const { return surroundings_.me; }
  // In this operation.
  bool has_failed(Rank rank) const {
    return surroundings_.failed->contains(rank) || (any_left() && is_among_leavers(rank));
  }
  bool any_failed() const { return !surroundings_.failed->ranks().empty() || any_left(); }
  std::vector<Rank> failed_members() const;

  Rank first() const { return members_.rank_at(first_position_); }
  Rank promised() const { return promised_; }  // no_rank: none
  bool is_root() const { return promised_ == surroundings_.me; }
  bool is_optimistic() const { return promised_ == optimistic_ballot; }
  void promise_optimistic() { promised_ = optimistic_ballot; }
  bool any_member_failed() const { return any_failed() && !failed_members().empty(); }
  // The first member from `from` on that is not known to have failed becomes root. This rank is one, so there is one.
  void promise(Rank from) {
    promised_ = from;
    if (any_failed() || !members_.contains(from)) promise_first_alive(from);
  }

  bool before(Rank a, Rank b) const { return ordinal(a) < ordinal(b); }
  // The papers' process numbers in a ballot: the root is 0, the others follow in rank order.
  std::int32_t process_of(Rank rank, Rank ballot) const {
    const std::int32_t distance = members_.position_of(rank) - members_.position_of(ballot);
    return distance >= 0 ? distance : distance + members_.size();
  }
  // distance: more than -size, less than size.
  Rank member_after(Rank rank, std::int32_t distance) const {
    const std::int32_t size = members_.size(), position = members_.position_of(rank) + distance;
    return members_.rank_at(position < 0 ? position + size : position < size ? position : position - size);
  }
  Rank rank_of(std::int32_t process, Rank ballot) const {
    const std::int32_t position = members_.position_of(ballot) + process;
    return members_.rank_at(position < members_.size() ? position : position - members_.size());
  }

 private:
  bool any_left() const { return surroundings_.left != nullptr && !surroundings_.left->empty(); }
  bool is_among_leavers(Rank rank) const;
  void promise_first_alive(Rank from);
  std::int32_t ordinal(Rank rank) const {
    if (rank == optimistic_ballot) return -1;
    const std::int32_t distance = members_.position_of(rank) - first_position_;
    return distance >= 0 ? distance : distance + members_.size();
  }

  OperationNumber number_ = 0;
  Membership members_;
  Surroundings surroundings_;
  std::int32_t first_position_ = 0;
  Rank promised_ = no_rank;
};

}  // namespace ucft::detail

// The processes that a rank connects with in start-up: those that protocols need for any root, and not all. A pure
// function of what all ranks know, so it is the same seen from both ends.
//
// Source: Kuettler, Haertig, "Fault-tolerant Reduce and Allreduce operations based on correction", sections 4.2 and
// 4.5. With processes numbered from the root on, groups, the I(f)-tree and a binomial broadcast tree are one circulant
// graph for all roots.
//
//   process p of n (n groups of ranks that share memory)            p +- 1 .. f            groups of up-correction
//                                                                   p +- 2^k               broadcast, plain reduce
//                                                                   p +- (f+1) 2^k         I(f)-tree
//                                                                   of recursive doubling  plain allreduce
//
// Of each process two ranks are connected: the one that speaks for it and the one that would be next
// (collectives/among/process_member.hpp). For other trees, gossip, communicators of some ranks, and long broadcasts
// among processes whose number is no power of two, each connection is made when the first message wants to go over it.
#pragma once

#include <cstdint>
#include <vector>

#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail {

class ConnectionPlan {
 public:
  ConnectionPlan() = default;
  // group_of: by rank, a number of those that it shares memory with. all_upto: where no rank has more ranks outside its
  // group, all are connected. absent: by rank, those that no rank connects with; empty: none.
  ConnectionPlan(const std::vector<std::uint64_t>& group_of, std::int32_t me, std::int32_t f, std::int32_t all_upto,
                 const std::vector<bool>& absent = {});

  bool connects_all() const { return all_; }
  bool includes(std::int32_t rank) const;                            // in start-up
  const std::vector<std::int32_t>& peers() const { return peers_; }  // those, ascending
  // This rank's group, then the neighbours of it as a process: ranks, ascending. Empty where all are connected.
  const std::vector<std::vector<std::int32_t>>& near() const { return near_; }
  // Of that rank: whom it shares memory with, and those that it is connected with in start-up. Ascending; not where all
  // are connected.
  std::vector<std::int32_t> mailboxes_of(std::int32_t rank) const;
  MailboxPlaces mailboxes() const;  // of this rank

 private:
  std::vector<std::int32_t> neighbours_of(std::size_t group) const;
  std::vector<std::int32_t> peers_of(std::int32_t rank) const;

  static constexpr std::size_t no_group = SIZE_MAX;

  bool all_ = true;
  std::int32_t me_ = 0, f_ = 0;
  std::vector<std::size_t> group_of_;              // by rank; no_group: absent
  std::vector<std::vector<std::int32_t>> groups_;  // by their lowest ranks
  std::vector<std::int32_t> peers_;
  std::vector<std::vector<std::int32_t>> near_;
};

// Of process `me` of `size`: ascending.
std::vector<std::int32_t> process_neighbours(std::int32_t size, std::int32_t me, std::int32_t f);

}  // namespace ucft::detail

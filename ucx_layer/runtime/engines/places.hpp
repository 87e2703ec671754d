// Which rank of a communicator belongs to which process among processes. Ranks have places: sorted by process, and on
// each by rank.
#pragma once

#include <vector>

#include "collectives/among/journal.hpp"

namespace ucft::detail {

class Places {
 public:
  // hosts: of each rank, any numbers; ranks of a host are one process. Empty: each of the `ranks` is a process.
  Places(const std::vector<std::int32_t>& hosts, Rank ranks, Rank me);

  const std::vector<Host>& processes() const { return processes_; }  // by place
  Host process_count() const { return processes_.back() + 1; }
  bool are_ranks() const { return process_count() == static_cast<Host>(processes_.size()); }
  Rank size() const { return static_cast<Rank>(processes_.size()); }
  Rank place_of(Rank rank) const { return place_of_[static_cast<std::size_t>(rank)]; }
  Rank rank_at(Rank place) const { return rank_at_[static_cast<std::size_t>(place)]; }
  Host process_of(Rank rank) const { return processes_[static_cast<std::size_t>(place_of(rank))]; }

  Rank ranks_of(Host process) const { return ranks_of_[static_cast<std::size_t>(process)]; }

  // Of this rank's process: the place of its first rank, and how many it has.
  Rank first_here() const { return first_here_; }
  Rank here() const { return here_; }
  bool is_here(Rank rank) const { return local_rank_of(rank) >= 0 && local_rank_of(rank) < here_; }
  Rank local_rank_of(Rank rank) const { return place_of(rank) - first_here_; }
  Rank local_rank_at(Rank local_rank) const { return rank_at(first_here_ + local_rank); }

 private:
  std::vector<Host> processes_;
  std::vector<Rank> rank_at_, place_of_, ranks_of_;
  Rank first_here_ = 0, here_ = 0;
};

}  // namespace ucft::detail

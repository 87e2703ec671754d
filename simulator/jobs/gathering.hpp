// The allgather by which the ranks of a job find each other, where no launcher helps.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "simulator/jobs/kernel.hpp"
#include "ucft/ucft.h"

namespace ucft::jobs {

// The out-of-band allgather of start-up: rounds that are complete when all have given.
class Gathering {
 public:
  explicit Gathering(int ranks) : ranks_(ranks), next_(static_cast<std::size_t>(ranks)) {}

  struct Member {
    Gathering* all;
    int rank;
  };
  ucft_oob_coll_t of(Member& member) {
    return {&Gathering::allgather,
            &Gathering::test,
            &Gathering::free,
            &member,
            static_cast<std::uint32_t>(ranks_),
            static_cast<std::uint32_t>(member.rank)};
  }
  // A rank that has not given will not: those that wait for it hear of it.
  void note_death(int rank) { dead_.insert(rank); }

 private:
  struct Round {
    std::map<int, std::vector<std::byte>> given;
  };
  struct Pending {
    Gathering* all;
    std::size_t round;
    std::byte* received;
    std::size_t bytes;
  };

  static ucft_status_t allgather(void* source, void* received, size_t bytes, void* info, void** request) {
    const auto& member = *static_cast<Member*>(info);
    Gathering& self = *member.all;
    const std::size_t round = self.next_[static_cast<std::size_t>(member.rank)]++;
    const auto* begin = static_cast<const std::byte*>(source);
    self.rounds_[round].given[member.rank].assign(begin, begin + bytes);
    *request = new Pending{&self, round, static_cast<std::byte*>(received), bytes};
    return UCFT_OK;
  }
  static ucft_status_t test(void* request) {
    Kernel::running()->pass();
    const Pending& pending = *static_cast<Pending*>(request);
    const Round& round = pending.all->rounds_[pending.round];
    if (static_cast<int>(round.given.size()) == pending.all->ranks_) {
      for (const auto& [rank, given] : round.given)
        std::memcpy(pending.received + static_cast<std::size_t>(rank) * pending.bytes, given.data(), pending.bytes);
      return UCFT_OK;
    }
    for (const int rank : pending.all->dead_)
      if (!round.given.contains(rank)) return UCFT_ERR_PEER_FAILED;
    return UCFT_INPROGRESS;
  }
  static ucft_status_t free(void* request) {
    delete static_cast<Pending*>(request);
    return UCFT_OK;
  }

  int ranks_;
  std::vector<std::size_t> next_;  // round of each rank
  std::map<std::size_t, Round> rounds_;
  std::set<int> dead_;
};

}  // namespace ucft::jobs

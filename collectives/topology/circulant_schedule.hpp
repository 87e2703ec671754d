// A broadcast of many blocks in rounds, on a circulant graph. J. L. Träff, "Optimal Broadcast Schedules in Logarithmic
// Time with Applications to Broadcast, All-Broadcast, Reduction and All-Reduction" (arXiv:2407.18004). Pure functions
// of (process, size); process 0 is the root.
//
//   In each round a process gives one block and gets one. After blocks - 1 + q rounds, q = ceil(log2 size), every
//   process has all blocks. No algorithm in which a process gives one block and gets one at a time takes fewer.
//
//   skip(q) = size; skip(k) = skip(k+1) / 2, rounded up. In round i a process gives to the one at + skip(i mod q) and
//   gets from the one at - skip(i mod q). q rounds are a phase. A phase is like the one before it, q blocks further on.
//   Of the q blocks that are new in it a process gets one in it, and the others in the next one:
//
//   9 processes, q = 4, skips 1 2 3 5. Process 7 gets, in a phase that begins with block b:  b-4  b-1  b-2  b+1
//                                      Process 6, which gives to it in the first round:      b-1  b-2  b-3  b+0
//
// Invariant: a process gives a block that it has had in an earlier round.
#pragma once

#include <cstdint>
#include <vector>

namespace ucft::detail {

class CirculantSchedule {
 public:
  static constexpr std::int64_t no_block = -1;
  struct Transfer {
    std::int32_t peer = 0;
    std::int64_t block = no_block;  // no_block: nothing in this round
  };

  CirculantSchedule() = default;
  // size >= 2. O(log(size)^2) time.
  CirculantSchedule(std::int32_t process, std::int32_t size);

  std::int32_t phase() const { return static_cast<std::int32_t>(gets_.size()); }  // q
  std::int64_t rounds(std::int64_t blocks) const { return blocks - 1 + phase(); }
  // Rounds are counted from 0. Each block comes once to each process but the root.
  Transfer given(std::int64_t round, std::int64_t blocks) const;
  Transfer gotten(std::int64_t round, std::int64_t blocks) const;
  // Where it gives to and gets from, each at most once.
  const std::vector<std::int32_t>& targets() const { return targets_; }
  const std::vector<std::int32_t>& sources() const { return sources_; }

 private:
  Transfer transfer(std::int64_t round, std::int64_t blocks, const std::vector<std::int32_t>& of_phase,
                    const std::vector<std::int32_t>& peers) const;

  std::vector<std::int32_t> gives_, gets_;       // in each round of a phase; relative to its first block
  std::vector<std::int32_t> targets_, sources_;  // in each round of a phase
  std::int32_t process_ = 0;
};

}  // namespace ucft::detail

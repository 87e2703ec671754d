// The optimistic ballot's schedule for long data: an allreduce as a reduce-scatter and an allgather. Of m bytes among p
// members each sends and gets 2m(p-1)/p, in 2 ceil(log2 p) steps, for any p. J. L. Träff, "Optimal, Non-pipelined
// Reduce-scatter and Allreduce Algorithms" (arXiv:2410.14234), Algorithms 1 and 2, on a circulant graph. There its
// skips are p halved and rounded up. Here they are powers of two, which will do as well. Trees need the connections of
// powers of two anyway, so the schedule needs no others.
//
//   The vector is cut into p blocks of consecutive elements; block (r + i) mod p is member r's block i. Skips: s' = p,
//   then s, the largest power of two below s', and so on
//
//   reduce_scatter   s' down to 1   r gives its blocks s .. s'-1 to r + s, which adds them to its blocks 0 .. s'-s-1
//   allgather        and back       r gives its blocks 0 .. s'-s-1 to r - s, whose blocks s .. s'-1 they are
//   closing          s' down to 1   r gives an empty message to r + s: when it has one from r - s for each s, all
//                                   members have it all
//
//   6 members: s = 4, 2, 1.   reduce_scatter: r gives 4 5 to r+4, 2 3 to r+2, 1 to r+1.
//                             allgather: 0 to r-1, 0 1 to r-2, 0 1 to r-4
//
// A step's blocks travel in pieces, so that one can be added while the next is on its way. Each piece names its place
// in the vector, and may come in any order. The last step of reduce_scatter adds to block 0, and the first of allgather
// gives block 0. So each of its pieces goes as soon as it is summed. Each block is summed on one member, in the order
// of steps: all ranks have the same bits. Operators must be commutative.
//
// Invariants
//   - Pieces are parts of the input or of the sum. A piece is written to again only by what proves that it was taken
//     in. Example: a sum's block comes back when the rank that it was given to has added it.
//   - The caller's memory is not written to before all have agreed to take part.
//   - closing begins when this rank has all of the result. So a rank that is through knows that all members have the
//     whole result.
#pragma once

#include <vector>

#include "collectives/core/ballots.hpp"
#include "collectives/catalogue/arguments.hpp"

namespace ucft::detail {

class Circulant {
 public:
  static bool has(Phase phase) {
    return phase == Phase::reduce_scatter || phase == Phase::allgather || phase == Phase::closing;
  }
  // Whether it is meant for so much data, among so many members.
  static bool fits(const Arguments& arguments, const Ballots& ballots);

  // blank: what all messages have; input: this rank's. lent: for the sum, from when all have agreed; if there is none,
  // memory is found here. References stay with the caller. False: there is no memory for the sum.
  bool start(const Message& blank, Slice input, BufferId lent, const Arguments& arguments, const Ballots& ballots,
             Buffers& buffers);
  // Whether a message of that phase, from that sender, can be a part of this sum. If not, the sender has posted a
  // different operation.
  bool accepts(const Message& message, const Arguments& arguments, const Ballots& ballots);
  // False: not awaited.
  bool on_message(const Message& message, Buffers& buffers);
  // Goes as far as the arrivals allow. True: to the end. is_agreed: all take part, and this rank lacks nothing else of
  // the result.
  bool advance(bool is_agreed, const Arguments& arguments, const Ballots& ballots, Outbox& out);

  bool is_active() const { return is_active_; }
  Slice sum() const { return sum_; }
  // True as soon as this rank has all of the result, and may have said so.
  bool is_whole() const { return is_active_ && at_ >= 2 * skips_.size() && has_given_; }
  // The rank whose messages the next step needs; no_rank: none.
  Rank awaited(const Ballots& ballots) const;
  void clear(Buffers& buffers);

 private:
  struct Skip {
    std::int32_t distance, blocks;
  };
  struct Run {  // of bytes in the vector
    std::uint64_t begin, end;
  };
  struct Runs {
    Run runs[2];  // the second is behind the end of the vector, so at its beginning; maybe empty
    std::uint64_t bytes() const { return runs[0].end - runs[0].begin + runs[1].end - runs[1].begin; }
  };
  static constexpr std::size_t no_step = SIZE_MAX;

  void plan(const Ballots& ballots);
  std::size_t steps() const { return 3 * skips_.size(); }
  Phase phase_of(std::size_t step) const;
  const Skip& skip_of(std::size_t step) const;
  Rank source_of(std::size_t step, const Ballots& ballots) const;
  Rank target_of(std::size_t step, const Ballots& ballots) const;
  std::size_t step_of(Phase phase, Rank from, const Ballots& ballots) const;
  Runs given(std::size_t step, const Arguments& arguments, const Ballots& ballots) const;
  Runs awaited(std::size_t step, const Arguments& arguments, const Ballots& ballots) const;
  Runs runs_of(std::int32_t first, std::int32_t blocks, const Arguments& arguments, const Ballots& ballots) const;
  bool may_write(bool is_agreed, const Arguments& arguments, const Ballots& ballots, Buffers& buffers);
  void give(const Arguments& arguments, const Ballots& ballots, Outbox& out);
  void give_piece(std::uint64_t at, std::uint64_t bytes, Slice from, std::size_t step, const Ballots& ballots,
                  Outbox& out);
  void take(const Message& piece, const Arguments& arguments, Buffers& buffers);

  std::vector<Skip> skips_;  // of size_ members, the longest first
  std::int32_t size_ = 0;
  bool is_active_ = false, has_written_ = false, has_given_ = false;
  std::size_t at_ = 0;      // the step
  std::uint64_t left_ = 0;  // bytes that it waits for; closing: messages
  Message blank_;
  Slice input_, sum_;  // a reference each
  std::vector<Message> kept_;
};

}  // namespace ucft::detail

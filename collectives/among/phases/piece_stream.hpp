// The pieces of one member's data on one rank, on their way to all members, in the rounds of
// topology/circulant_schedule.hpp. Processes are numbered from that member on. Two of them are connected by pieces that
// go straight from one to the other, in a row.
//
// Invariants
//   - A piece is given when it is here, and each only once to a process.
//   - Pieces are given in the order of rounds: the schedule is what keeps all processes busy.
#pragma once

#include <vector>

#include "collectives/core/buffers.hpp"
#include "collectives/topology/circulant_schedule.hpp"

namespace ucft::detail {

class PieceStream {
 public:
  PieceStream(std::int32_t process, std::int32_t size) : schedule_(process, size), process_(process) {}

  static std::int64_t pieces_in(std::uint64_t bytes, std::uint64_t piece_bytes) {
    return static_cast<std::int64_t>((bytes + piece_bytes - 1) / piece_bytes);
  }
  // Whether process `from` gives this one that piece, if there are so many.
  bool gets(std::int64_t piece, std::int64_t pieces, std::int32_t from) const;

  // data: those of process 0, or room for them. It stays with the caller.
  void begin(Slice data, std::uint64_t piece_bytes);
  void end();
  bool has_begun() const { return pieces_ > 0; }
  const Slice& data() const { return data_; }
  Slice part(std::int64_t piece) const;
  // A piece comes. False: it has come already.
  bool take(std::int64_t piece);
  // The next one to give. no_block: it is not here yet, or there is none.
  CirculantSchedule::Transfer give();
  bool is_whole() const { return has_begun() && left_ == 0; }

  // This rank's number, that of the process whose piece it needs next, and those that it gives to.
  std::int32_t process() const { return process_; }
  std::int32_t source() const { return has_begun() ? schedule_.gotten(expects_, pieces_).peer : 0; }
  const std::vector<std::int32_t>& targets() const { return schedule_.targets(); }

 private:
  void skip_what_is_here();

  CirculantSchedule schedule_;
  std::int32_t process_;
  Slice data_;
  std::uint64_t piece_bytes_ = 1;
  std::int64_t pieces_ = 0;
  std::int64_t round_ = 0;     // the next one to give in
  std::int64_t expects_ = 0;   // the next one whose piece has not come
  std::int64_t left_ = 0;      // pieces to come
  std::vector<bool> is_here_;  // of each piece
};

}  // namespace ucft::detail

#include "collectives/among/phases/piece_stream.hpp"

#include <algorithm>

namespace ucft::detail {

// It comes in its own phase, or one of those before and after.
bool PieceStream::gets(std::int64_t piece, std::int64_t pieces, std::int32_t from) const {
  const std::int64_t q = schedule_.phase(), last = schedule_.rounds(pieces) - 1;
  for (std::int64_t round = std::max<std::int64_t>(piece - q, 0); round <= std::min(piece + 2 * q, last); ++round)
    if (const auto [peer, block] = schedule_.gotten(round, pieces); block == piece) return peer == from;
  return false;
}

void PieceStream::begin(Slice data, std::uint64_t piece_bytes) {
  data_ = data;
  piece_bytes_ = piece_bytes;
  pieces_ = pieces_in(data.bytes, piece_bytes);
  is_here_.assign(static_cast<std::size_t>(pieces_), process_ == 0);
  left_ = process_ == 0 ? 0 : pieces_;
  round_ = expects_ = 0;
  skip_what_is_here();
}

void PieceStream::end() { pieces_ = 0; }

Slice PieceStream::part(std::int64_t piece) const {
  const std::uint64_t begin = static_cast<std::uint64_t>(piece) * piece_bytes_;
  return data_.part(begin, std::min(piece_bytes_, data_.bytes - begin));
}

bool PieceStream::take(std::int64_t piece) {
  if (is_here_[static_cast<std::size_t>(piece)]) return false;
  is_here_[static_cast<std::size_t>(piece)] = true;
  --left_;
  skip_what_is_here();
  return true;
}

CirculantSchedule::Transfer PieceStream::give() {
  while (has_begun() && round_ < schedule_.rounds(pieces_)) {
    const CirculantSchedule::Transfer next = schedule_.given(round_, pieces_);
    if (next.block != CirculantSchedule::no_block && !is_here_[static_cast<std::size_t>(next.block)]) break;
    ++round_;
    if (next.block != CirculantSchedule::no_block) return next;
  }
  return {};
}

void PieceStream::skip_what_is_here() {
  for (; left_ > 0; ++expects_) {
    const std::int64_t piece = schedule_.gotten(expects_, pieces_).block;
    if (piece != CirculantSchedule::no_block && !is_here_[static_cast<std::size_t>(piece)]) return;
  }
}

}  // namespace ucft::detail

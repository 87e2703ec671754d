#include "ucx_layer/runtime/engines/share_rounds.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

// Of a round's block, about; alltoalls of more than four times that go in rounds. (Shorter ones are faster at once.)
std::uint64_t bytes_of_a_round() {
  return UCFT_TEST_SWITCH(has_short_rounds) ? std::uint64_t{4096} : std::uint64_t{8} << 20;
}
constexpr std::uint64_t least_part = 512;

}  // namespace

bool ShareRounds::wants(const Request& request) const {
  return request.landing != nullptr && request.landing->is_own_share(me_) && request.taker == nullptr && ranks_ > 1 &&
         request.layout.block_bytes > 4 * bytes_of_a_round();
}

void ShareRounds::begin(Request& request) {
  request_ = &request;
  is_due_ = false;
  share_bytes_ = request.layout.block_bytes / static_cast<std::uint64_t>(ranks_);
  most_ = std::max((bytes_of_a_round() - header_bytes) / static_cast<std::uint64_t>(ranks_) / 64 * 64, least_part);
  round_ = done_ = 0;
  for (BufferId& room : rooms_) room = buffers_.allocate(block_bytes_of(most_));
  if (std::ranges::find(rooms_, no_buffer) != rooms_.end()) release_rooms();
}

void ShareRounds::end() {
  release_rooms();
  request_ = nullptr;
  is_due_ = false;
}

void ShareRounds::release_rooms() {
  for (BufferId& room : rooms_) buffers_.release(std::exchange(room, no_buffer));
}

const std::byte* ShareRounds::given(Rank rank) const {
  return static_cast<const std::byte*>(request_->send) + static_cast<std::uint64_t>(rank) * share_bytes_ + done_;
}

void ShareRounds::put(Rank rank, const std::byte* block) const {
  const std::byte* const from =
      rank == me_ ? given(me_) : block + header_bytes + static_cast<std::uint64_t>(me_) * part_bytes();
  std::byte* const to =
      static_cast<std::byte*>(request_->receive) + static_cast<std::uint64_t>(rank) * share_bytes_ + done_;
  if (to != from) std::memcpy(to, from, part_bytes());
}

bool ShareRounds::go_on() {
  done_ += part_bytes();
  ++round_;
  return is_due_ = done_ < share_bytes_;
}

}  // namespace ucft::detail

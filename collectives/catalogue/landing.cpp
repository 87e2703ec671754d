#include "collectives/catalogue/landing.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/reduction/types.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint64_t combined_at_once = 8192;  // of carriers: a few pieces are in the nearest cache

void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

Landing::Landing(Lands lands, Rank me, std::uint64_t count, std::uint64_t for_each_rank, const Reduction& reduction)
    : lands_(lands), me_(me), count_(count), for_each_rank_(for_each_rank), reduction_(reduction) {
  if (lands != Lands::share_of_each) blocks_.reserve(static_cast<std::size_t>(me) + 1);
}

void Landing::take(Rank rank, const std::byte* block, std::byte* result) {
  if (lands_ == Lands::share_of_each) {
    const std::uint64_t bytes = for_each_rank_ * element_bytes(reduction_.type());
    return copy(result + static_cast<std::uint64_t>(rank) * bytes, block + static_cast<std::uint64_t>(me_) * bytes,
                bytes);
  }
  if (std::exchange(last_, rank) >= rank) blocks_.clear();  // of another operation
  if (rank < me_ || (rank == me_ && lands_ == Lands::prefix)) blocks_.push_back(block);
  if (rank == me_) combine_into(result);
}

void Landing::combine_into(std::byte* result) const {
  alignas(64) std::byte carriers[combined_at_once], widened[combined_at_once];
  const std::uint64_t carrier = reduction_.carrier_bytes(), element = element_bytes(reduction_.type()),
                      most = combined_at_once / carrier;
  for (std::uint64_t done = 0; done < count_ && has_result(); done += most) {
    const std::uint64_t count = std::min(most, count_ - done);
    std::byte* const to = result + done * element;
    std::byte* const into = reduction_.finishes() ? carriers : to;
    const std::byte* sum = nullptr;
    for (const std::byte* block : blocks_) {
      const std::byte* part = block + done * element;
      if (reduction_.widens()) {
        std::byte* const wide = sum == nullptr ? carriers : widened;
        widen(reduction_, wide, part, count);
        part = wide;
      }
      sum = combiner_.add(sum, part, count, into);
    }
    if (reduction_.finishes())
      finish(reduction_, to, sum, count, static_cast<std::uint32_t>(blocks_.size()));
    else
      copy(to, sum, count * element);
  }
}

}  // namespace ucft::detail

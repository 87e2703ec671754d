#include "ucx_layer/runtime/request.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/on_host/host_copy.hpp"
#include "ucx_layer/runtime/default_rounding.hpp"

namespace ucft::detail {

void Request::finish_part(std::uint64_t offset, const std::byte* carriers, std::uint64_t bytes,
                          std::uint32_t from_ranks) const {
  [[maybe_unused]] const DefaultRounding rounding;
  const Reduction& reduction = arguments.reduction;
  const std::uint64_t first = offset / reduction.carrier_bytes(), count = bytes / reduction.carrier_bytes();
  finish(reduction, static_cast<std::byte*>(receive) + first * element_bytes(reduction.type()), carriers, count,
         from_ranks);
}

void Request::complete_alone() {
  [[maybe_unused]] const DefaultRounding rounding;
  const Reduction& reduction = arguments.reduction;
  const auto* const from = static_cast<const std::byte*>(send);
  if (reduction.finishes()) {
    constexpr std::uint64_t piece = 4096;  // bytes of carriers
    alignas(64) std::byte carriers[piece];
    const std::uint64_t carrier = reduction.carrier_bytes(), element = element_bytes(reduction.type()),
                        most = piece / carrier;
    for (std::uint64_t done = 0; done < arguments.count; done += most) {
      const std::uint64_t count = std::min(most, arguments.count - done);
      if (reduction.widens())
        widen(reduction, carriers, from + done * element, count);
      else
        host_copy(carriers, from + done * element, count * element);
      finish_part(done * carrier, carriers, count * carrier, 1);
    }
  } else {
    const std::uint64_t bytes = host_call->taken_bytes();
    if (host_call->pattern.puts_side_by_side())
      put_block(0, from, layout.bytes_of(0));
    else if (bytes > 0 && send != receive)
      host_copy(static_cast<std::byte*>(receive), from, bytes);
  }
  take_outcome({Outcome::success, 1, 1, no_rank}, 0, 1);
  leave_out_later_ranks(1);
  state = State::complete;
}

void Request::put_block(Rank rank, const std::byte* block, std::uint64_t bytes) const {
  if (landing != nullptr) {
    [[maybe_unused]] const DefaultRounding rounding(landing->rounds());
    return landing->take(rank, block, static_cast<std::byte*>(receive));
  }
  if (shares != nullptr) {
    const auto place = static_cast<std::size_t>(rank);
    if (shares->wanted[place].bytes == 0) return;
    const std::byte* const from =
        rank == shares->me ? block + shares->given[place].offset : shares->find(rank, {block, bytes})->data();
    std::byte* const to = static_cast<std::byte*>(receive) + shares->wanted[place].offset;
    if (from != to) host_copy(to, from, shares->wanted[place].bytes);
    return;
  }
  std::byte* const to = static_cast<std::byte*>(receive) + layout.offset_of(rank);
  if (bytes > 0 && block != to) host_copy(to, block, bytes);
}

void Request::copy_result(std::span<const std::byte> result, Rank ranks) {
  if (share.count != Share::all) {
    const std::uint64_t carrier = arguments.reduction.carrier_bytes(),
                        first = std::min<std::uint64_t>(share.first * carrier, result.size());
    result = result.subspan(first, std::min<std::uint64_t>(share.count * carrier, result.size() - first));
    if (result.empty()) return;
  }
  const std::uint64_t bytes = std::min<std::uint64_t>(result.size(), arguments.bytes());
  if (arguments.reduction.finishes()) [[unlikely]]
    finish_part(0, result.data(), bytes, contributors);
  else if (arguments.row().pattern().puts_side_by_side())
    place_blocks(result, ranks);
  else if (result.size() == sizeof(std::uint64_t))
    std::memcpy(receive, result.data(), sizeof(std::uint64_t));
  else
    std::memcpy(receive, result.data(), bytes);
}

// Whose blocks are there, they say themselves; the places of the others are left as they are. Nothing is written if a
// block does not fit its place: then some rank gave other counts.
void Request::place_blocks(std::span<const std::byte> blocks, Rank ranks) {
  std::vector<std::optional<std::span<const std::byte>>> there(static_cast<std::size_t>(ranks));
  std::uint32_t count = 0;
  Rank blamed = no_rank;
  bool fits = true;
  fits &= Blocks::for_each(blocks, [&](Rank rank, std::span<const std::byte> block) {
    const bool exists = rank >= 0 && rank < ranks;
    fits = fits && exists && !there[static_cast<std::size_t>(rank)] && block.size() == layout.bytes_of(rank);
    if (!fits && blamed == no_rank && exists) blamed = rank;
    if (exists) there[static_cast<std::size_t>(rank)] = block;
    ++count;
  });
  missing.clear();
  if (!fits || count != contributors) {
    status = UCFT_ERR_MISMATCH;
    culprit = blamed;
    contributors = 0;
    missing_count = -1;
    missing_known = false;
    return;
  }
  missing_known = true;
  for (Rank rank = 0; rank < ranks; ++rank)
    if (const auto& block = there[static_cast<std::size_t>(rank)])
      put_block(rank, block->data(), block->size());
    else
      missing.push_back(rank);
  missing_count = static_cast<std::int32_t>(missing.size());
  leave_out_later_ranks(ranks);
}

void Request::take_shares(std::span<const std::optional<std::span<const std::byte>>> taken) {
  const auto ranks = static_cast<Rank>(taken.size());
  missing.clear();
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto& share = taken[static_cast<std::size_t>(rank)];
    if (!share) missing.push_back(rank);
    if (!share || share->empty()) continue;
    std::byte* const to = static_cast<std::byte*>(receive) + wanted_share(rank, ranks).offset;
    if (share->data() != to) host_copy(to, share->data(), share->size());
  }
  missing_known = true;
  missing_count = static_cast<std::int32_t>(missing.size());
  contributors = static_cast<std::uint32_t>(ranks - missing_count);
}

void Request::leave_out_later_ranks(Rank ranks) {
  if (landing == nullptr || !missing_known) return;
  const Rank end = landing->end(ranks);
  std::erase_if(missing, [end](Rank rank) { return rank >= end; });
  missing_count = static_cast<std::int32_t>(missing.size());
  contributors = static_cast<std::uint32_t>(end - missing_count);
}

void Request::give_up(ucft_status_t why) {
  status = why;
  contributors = attempts = 0;
  culprit = -1;
  missing.clear();
  missing_known = has_usual_outcome = false;
  missing_count = -1;
  if (quorum != nullptr) quorum->late.clear();
  if (quorum != nullptr) quorum->is_late = false;
}

}  // namespace ucft::detail

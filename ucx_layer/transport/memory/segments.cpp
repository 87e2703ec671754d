// Memory of this rank that others map or reach: segments of its range, their registrations with the devices, windows.
#include <algorithm>
#include <bit>

#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

// nullptr: it can't be registered, or its key is too long for a message.
const Transport::Registration* Transport::registration_of(const Segment& segment) {
  const auto found = registrations_.find(segment.name().id);
  if (found != registrations_.end()) return found->second.key.empty() ? nullptr : &found->second;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = segment.data();
  params.length = segment.name().bytes;
  Registration made{};
  if (ucp_mem_map(ucx_.context(), &params, &made.handle) != UCS_OK) return nullptr;
  void* packed = nullptr;
  std::size_t bytes = 0;
  if (ucp_rkey_pack(ucx_.context(), made.handle, &packed, &bytes) == UCS_OK) {
    const auto* key = static_cast<const std::byte*>(packed);
    if (bytes <= remote_key_limit) made.key.assign(key, key + bytes);
    ucp_rkey_buffer_release(packed);
  }
  Registration& kept = registrations_[segment.name().id] = std::move(made);
  return kept.key.empty() ? nullptr : &kept;
}

// After this the device refuses whoever still has the key.
void Transport::unregister(const Segment& segment) {
  const auto found = registrations_.find(segment.name().id);
  if (found == registrations_.end()) return;
  ucp_mem_unmap(ucx_.context(), found->second.handle);
  registrations_.erase(found);
}

WindowMemory* Transport::take_window(int index, std::size_t bytes) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return nullptr;
  WindowMemory* best = nullptr;
  for (const auto& each : peer.windows)
    if (!each->taken && each->bytes >= bytes && (best == nullptr || each->bytes < best->bytes)) best = each.get();
  if (best == nullptr) {
    WindowMemory fresh;
    fresh.bytes = std::bit_ceil(bytes);  // so that what is too small, later, is no more than what is used
    fresh.data = carve_window(fresh.bytes);
    if (fresh.data == nullptr) return nullptr;
    peer.windows.push_back(std::make_unique<WindowMemory>(fresh));
    best = peer.windows.back().get();
  }
  best->taken = true;
  ++best->generation;
  return best;
}

// Peers map whole segments, and devices register them: so few, each as large as all before it.
std::byte* Transport::carve_window(std::size_t bytes) {
  constexpr std::size_t smallest = 1 << 18;
  if (window_segments_.empty() || window_segments_.back().name().bytes - window_bytes_used_ < bytes) {
    std::size_t all = smallest;
    for (const Segment& each : window_segments_) all += each.name().bytes;
    Segment fresh;
    std::string error;
    if (!range_.take(std::max(bytes, all), SharedRange::Use::internal, fresh, error) &&
        !range_.take(bytes, SharedRange::Use::internal, fresh, error))
      return nullptr;
    window_segments_.push_back(fresh);
    window_bytes_used_ = 0;
  }
  std::byte* data = window_segments_.back().data() + window_bytes_used_;
  window_bytes_used_ += bytes;
  return data;
}

const Segment* Transport::window_segment(const std::byte* memory) const {
  for (const Segment& each : window_segments_)
    if (each.contains(memory, 1)) return &each;
  return nullptr;
}

std::span<const std::byte> Transport::remote_key_of(const Segment& segment) {
  const Registration* registration = registration_of(segment);
  return registration == nullptr ? std::span<const std::byte>{} : registration->key;
}

std::byte* Transport::window_of(int index, std::uint64_t address, std::uint64_t bytes) {
  const MappedRange& mapped = peer_at(index).mapped;
  return mapped.contains(address, bytes) ? mapped.at(address) : nullptr;
}

std::byte* Transport::allocate_chunk(void* arg, std::size_t bytes) {
  auto& self = *static_cast<Transport*>(arg);
  Segment chunk;
  std::string error;
  if (!self.range_.take(bytes, SharedRange::Use::internal, chunk, error)) return nullptr;
  self.chunks_.push_back(chunk);
  return self.chunks_.back().data();
}

const Segment* Transport::segment_of(const void* memory, std::size_t bytes) const {
  for (const std::vector<Segment>* segments : {&chunks_, &lent_})
    for (std::size_t i = segments->size(); i-- > 0;)
      if ((*segments)[i].contains(memory, bytes)) return &(*segments)[i];
  return nullptr;
}

std::byte* Transport::allocate_shared(std::size_t bytes) {
  Segment segment;
  std::string error;
  if (!range_.take(bytes, SharedRange::Use::lent, segment, error)) return nullptr;
  lent_.push_back(segment);
  return lent_.back().data();
}

bool Transport::free_shared(void* memory) {
  const auto found =
      std::find_if(lent_.begin(), lent_.end(), [&](const Segment& each) { return each.data() == memory; });
  if (found == lent_.end()) return false;
  unregister(*found);
  range_.give_back(*found);
  lent_.erase(found);
  return true;
}

bool Transport::is_shared(const void* memory, std::size_t bytes) const {
  return std::any_of(lent_.begin(), lent_.end(), [&](const Segment& each) { return each.contains(memory, bytes); });
}

}  // namespace ucft::detail

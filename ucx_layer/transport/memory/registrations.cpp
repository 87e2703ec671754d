#include "ucx_layer/transport/memory/registrations.hpp"

#include <utility>

#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

Registrations::~Registrations() {
  for (const auto& [id, registration] : registrations_) ucp_mem_unmap(context_, registration.handle);
}

std::span<const std::byte> Registrations::key_of(const Segment& segment) {
  const auto found = registrations_.find(segment.name().id);
  if (found != registrations_.end()) return found->second.key;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = segment.data();
  params.length = segment.name().bytes;
  Registration made{};
  if (ucp_mem_map(context_, &params, &made.handle) != UCS_OK) return {};
  void* packed = nullptr;
  std::size_t bytes = 0;
  if (ucp_rkey_pack(context_, made.handle, &packed, &bytes) == UCS_OK) {
    const auto* key = static_cast<const std::byte*>(packed);
    if (bytes <= remote_key_limit) made.key.assign(key, key + bytes);
    ucp_rkey_buffer_release(packed);
  }
  return (registrations_[segment.name().id] = std::move(made)).key;
}

void Registrations::forget(const Segment& segment) {
  const auto found = registrations_.find(segment.name().id);
  if (found == registrations_.end()) return;
  ucp_mem_unmap(context_, found->second.handle);
  registrations_.erase(found);
}

}  // namespace ucft::detail

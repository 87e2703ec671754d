// Segments of this rank's that network devices may read and write: registered when the first of them is wanted.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ucx_layer/transport/memory/shared_memory.hpp"

namespace ucft::detail {

class Registrations {
 public:
  explicit Registrations(ucp_context_h context) : context_(context) {}
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // The key that a peer needs to reach the segment. Empty: the segment can't be registered (the limit of locked
  // memory), or its key is too long.
  std::span<const std::byte> key_of(const Segment& segment);
  // After this the device refuses a peer that still has the key.
  void forget(const Segment& segment);

 private:
  struct Registration {
    ucp_mem_h handle;
    std::vector<std::byte> key;  // packed
  };
  ucp_context_h context_;
  std::map<std::uint64_t, Registration> registrations_;  // by id of the segment
};

}  // namespace ucft::detail

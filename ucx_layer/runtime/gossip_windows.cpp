#include "ucx_layer/runtime/gossip_windows.hpp"

#include <algorithm>

#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

WindowObjection GossipWindows::take(std::span<const Rank> neighbours, const std::vector<bool>& dead,
                                    std::size_t row_bytes) {
  Windows& windows = communicator_.context().transport().windows();
  WindowObjection objection = WindowObjection::none;
  std::vector<End> before;
  before.swap(ends_);
  for (Rank neighbour : neighbours) {
    const auto found =
        std::find_if(before.begin(), before.end(), [&](const End& each) { return each.neighbour == neighbour; });
    if (found != before.end()) {
      ends_.push_back(std::move(*found));
      continue;
    }
    ends_.push_back({neighbour, nullptr});
    if (dead[static_cast<std::size_t>(neighbour)] || objection != WindowObjection::none) continue;
    const int peer = communicator_.context_rank(neighbour);
    if (!windows.can_reach(peer)) {
      objection = WindowObjection::unsupported;
      continue;
    }
    ends_.back().window = std::make_unique<RmaWindow>(windows, peer, sizeof(GossipLinkState), row_bytes);
    if (!ends_.back().window->has_memory()) objection = WindowObjection::no_memory;
  }
  return objection;
}

}  // namespace ucft::detail

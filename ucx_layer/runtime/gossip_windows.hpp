// The RMA windows of one gossip operation, by link: one for each neighbour, made here, and connected when its name has
// come.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/gossip/agreement_table.hpp"
#include "collectives/gossip/gossip_message.hpp"
#include "ucx_layer/transport/paths/rma_window.hpp"

namespace ucft::detail {

class Communicator;

class GossipWindows {
 public:
  // The name of a neighbour's window that has come before we were there.
  struct Name {
    Rank neighbour;
    std::uint16_t tag;  // of its sender
    std::vector<std::byte> bytes;
  };

  explicit GossipWindows(Communicator& communicator) : communicator_(communicator) {}

  // One window for each neighbour that is not dead, for rows of so many bytes. A neighbour of before keeps its window:
  // both ends have it. unsupported: some neighbour is reached by messages only. After an objection not all windows
  // exist.
  WindowObjection take(std::span<const Rank> neighbours, const std::vector<bool>& dead, std::size_t row_bytes);
  void clear() { ends_.clear(); }

  RmaWindow& at(int link) { return *ends_[static_cast<std::size_t>(link)].window; }

  void keep(Name name) { early_.push_back(std::move(name)); }  // bounded: one of each link
  std::vector<Name> take_kept() { return std::exchange(early_, {}); }

 private:
  struct End {
    Rank neighbour;
    std::unique_ptr<RmaWindow> window;  // nullptr: it was dead, or there is an objection
  };

  Communicator& communicator_;
  std::vector<End> ends_;
  std::vector<Name> early_;
};

}  // namespace ucft::detail

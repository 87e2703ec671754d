// The traffic of a gossip operation, in and out: messages to ranks, and the states that the RMA windows of links show.
//
// A message is an event: it arrives once, and messages of one rank arrive in order. A window is a state: it shows all
// that its writer has ever said on that link. So nothing is lost if a window is read late. A state that has not been
// written yet can take in more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/gossip/mass.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

// Within a host: gives_input to the rank that speaks for it. Back: gives_input and is_done, with its estimate, and with
// the number of ranks that it is of.
enum GossipFlags : std::uint8_t {
  carries_row = 1,       // absent: its row was lost on purpose, or there was nothing to push
  gives_input = 2,       // the row is what a rank gives, for the one that speaks for its host
  carries_presence = 4,  // behind the row (presence.hpp); a row without it is of a rank that knows that all have come
  is_window = 8,         // about windows: the name of one, which is the driver's; none: rank `number` goes by messages
  is_last = 16,          // of its link until the next agreement
  passes_turn = 32,      // asynchronous: the two ends of a link push in turn
  is_done = 64,          // its sender has pushed enough, and only answers from now on
  link_failed = 128,     // asynchronous, injected: the link is gone for both ends
};

struct GossipMessage {
  OperationNumber operation = 0;  // for the driver
  Rank peer = no_rank;            // where it is sent the receiver, where it arrives the sender
  std::uint16_t tag = 0;          // of its sender's epoch (epoch.hpp)
  std::uint8_t flags = 0;
  // passes_turn: turns that its sender has given on that link since it has met; is_last: messages with rows or turns;
  // by rounds: the round; an estimate: iterations since a rank was heard of last
  std::uint32_t number = 0;
  std::uint32_t era = 0, ack = 0;  // of the row (mass.hpp)

  bool has(GossipFlags flag) const { return (flags & flag) != 0; }
  bool is_estimate() const { return has(gives_input) && has(is_done); }
};

// The state of a link that a window shows, before the row. Counts since the last restart.
struct GossipLinkState {
  std::uint16_t tag = 0;  // of the operation
  std::uint16_t dones = 0, lasts = 0;
  std::uint16_t presence = 0;  // 1: the row has it behind it
  static constexpr std::uint32_t passed = 1u << 31;
  std::uint32_t rows = 0;          // so many have been sent
  std::uint32_t turns = 0;         // passed on; and a bit that changes with each
  std::uint32_t era = 0, ack = 0;  // of the row
};
static_assert(sizeof(GossipLinkState) == 24, "three doubles fit into the line, too");

// Collects what an operation sends. Rows lie in one block that keeps its memory; rules push right into it.
template <class Real>
class GossipSends {
 public:
  struct Row {
    std::size_t begin = 0, length = 0;
  };
  struct Send {
    enum class What : std::uint8_t { message, show };
    What what;
    int link;  // asynchronous: that a row is of, or that is shown; else -1
    GossipMessage message;
    GossipLinkState state;  // show
    Row row;                // message: of length 0: none; show: of length 0: the same as before
  };

  void send(const GossipMessage& message, int link = -1, Row row = {}) {
    sends_.push_back({Send::What::message, link, message, {}, row});
  }
  void show(int link, const GossipLinkState& state, Row row) {
    sends_.push_back({Send::What::show, link, {}, state, row});
  }

  GossipOutbox<Real>& rows() { return rows_; }
  Row copy(ConstMass<Real> values) { return {rows_.append(values), values.size()}; }
  Row extended(Row row, ConstMass<Real> tail) {
    const std::size_t begin = rows_.append_copy(row.begin, row.length);
    rows_.append(tail);
    return {begin, row.length + tail.size()};
  }
  Mass<Real> at(Row row) { return rows_.row(row.begin, row.length); }
  std::span<const Send> sends() const { return sends_; }
  bool empty() const { return sends_.empty(); }
  void clear() {
    rows_.clear();
    sends_.clear();
  }

 private:
  GossipOutbox<Real> rows_;
  std::vector<Send> sends_;
};

}  // namespace ucft::detail

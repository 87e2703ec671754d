// The links of a rank that gossips asynchronously, from where its operation begins (again) until nothing is on its way.
// A link knows which end has the turn, the flows that were sent and received there, and which end has said its last
// word.
//
//   turns       On a link the two ends push in turn. Flows overwrite each other: where pushes cross, both sides' halves
//               are undone and both sides' masses arrive. If they cross again and again (ranks that answer each other
//               at once do) flows grow without limit. With turns, no more than one push is ever on its way on a link,
//               however slow its other end. No end waits for ever: if neither end of a link is through, the turn is at
//               one of them, which will take it.
//   greetings   A rank that has not come yet takes no part. One that comes says so to its neighbours. Of messages the
//               end that does not push first passes the turn to the one that does. A window can be written once its
//               name has come. Until then there is no turn on the link, or no place to write, and pushes pass by.
//   last words  A rank that has pushed enough says so (is_done), and only answers until the other end has, too. Ranks
//               differ in speed, and a rank that found the others gone would stay behind. Then both ends say their last
//               word (is_last), and how many messages there were. When all have come nothing is on its way, and mass is
//               conserved.
//   windows     One-sided, an RMA window shows what messages would have said. The next state of the link keeps the row
//               of a push, and its number: it is taken in exactly once. A repair that has not been written yet is
//               overtaken by the next row. To algorithms that send repairs that is a lost message.
//
// Invariant: a row that must not get lost is made only where the row before it has left (messages) or has been read
// (windows).
#pragma once

#include <chrono>
#include <vector>

#include "collectives/gossip/fault_injector.hpp"
#include "collectives/gossip/gossip_message.hpp"

namespace ucft::detail {

using GossipTime = std::chrono::nanoseconds;  // since any moment, the same one in all calls

// The way out: what leaves passes the faults that are injected.
template <class Real>
struct GossipExit {
  GossipSends<Real>& sends;
  GossipFaultInjector& faults;
  ConstMass<Real> presence{};  // behind each row

  // The row as it leaves, and the flags that say so.
  typename GossipSends<Real>::Row finish(typename GossipSends<Real>::Row row, std::uint8_t& flags) const {
    if (row.length == 0 || presence.empty()) return row;
    flags |= carries_presence;
    return sends.extended(row, presence);
  }
};

template <class Real>
class GossipLinks {
 public:
  struct Place {
    Rank rank;  // in the communicator
    std::uint16_t tag;
    bool one_sided;
    bool has_met;
    std::uint64_t seed;  // of the choices of all ranks, in this operation
  };
  struct Counts {  // through all beginnings
    std::uint64_t iterations = 0, choices = 0;
  };
  using Exit = GossipExit<Real>;

  // ends: the ranks at the other ends of state's links, ascending.
  GossipLinks(GossipRank<Real> state, std::vector<Rank> ends, const Place& place, const Counts& counts);

  // Says to the neighbours that this rank has come.
  void greet(Exit exit);

  const GossipRank<Real>& state() const { return state_; }
  // A rank has come: if this one was idle it is not any more.
  void wake();
  // All have come. tau: of checksums.
  void meet(double tau);
  MassError add_input(ConstMass<Real> values, Real weight) { return state_.add_input(values, weight); }
  const Counts& counts() const { return counts_; }
  std::span<const int> live() const { return state_.live_links(); }
  int link_of(Rank rank) const;  // -1: none
  Rank end(int link) const { return ends_[static_cast<std::size_t>(link)]; }

  // Fails links that are to fail on purpose, by now. The end that gets there first tells the other.
  void fail_due_links(Exit exit);
  // Pushes to a neighbour chosen by chance, if it is time. is_idle: all that was wanted is done. True if anything was
  // done.
  bool push(GossipTime now, bool is_idle, Exit exit);
  // For drivers that don't ask again and again: the next push is not earlier, unless something comes. In the past: now,
  // or there is none.
  GossipTime next_push() const { return heard_ && !is_idle_ ? GossipTime::min() : next_push_; }
  // Says what is to be said before the next agreement. True once all has been said and heard.
  bool settle(Exit exit);
  // The same state, another stage: after an agreement.
  void go_on() { ++stage_; }

  void on_message(const GossipMessage& message, ConstMass<Real> row, Exit exit);
  void on_failure(Rank rank);

  // ---- as the driver sees them
  // The other end has read what was shown last; or what was sent last has left. Not to be asked of dead links.
  bool is_clear(int link) const { return at(link).clear; }
  void on_clear(int link, Exit exit);
  bool brings_row(int link, const GossipLinkState& shown) const { return shown.rows != at(link).theirs.rows; }
  // The other end's window has news, which has been read by now. row: if it brings one, else anything. is_clear: what
  // was shown last has been read. Valid during the call.
  void on_shown(int link, const GossipLinkState& shown, ConstMass<Real> row, bool is_clear, Exit exit);
  bool has_turn(int link) const { return at(link).my_turn; }

 private:
  struct Link {
    bool my_turn = false;  // to push
    bool other_has_met = false;
    bool failed = false;  // injected
    bool clear = false;
    std::uint32_t turns = 0;  // given to the other end, since the meeting
    std::uint32_t sent = 0, received = 0, promised = 0;
    std::uint32_t dones_sent = 0, dones_received = 0, lasts_sent = 0, lasts_received = 0;  // one a stage
    // one-sided
    GossipLinkState mine, theirs;  // as it is here; as it was seen last
    bool unwritten = false;        // mine
    std::vector<Real> row;         // if one is unwritten
  };

  Link& at(int link) { return links_[static_cast<std::size_t>(link)]; }
  const Link& at(int link) const { return links_[static_cast<std::size_t>(link)]; }
  bool begins(Rank other) const;
  bool is_closed(const Link& link) const { return link.dones_sent > stage_ && link.dones_received > stage_; }
  int choose();
  void fail_link(int number, GossipFaultInjector& faults);
  void give_turn(Link& link, GossipMessage& message);
  static void take_turn(Link& link, std::uint32_t theirs);
  void push_to(int number, Exit exit);
  void send_pushed(int pushed, Exit exit);
  void say(int number, int flags, Exit exit);
  void answer_if_due(int number, Exit exit);
  void take_row(const GossipArrival<Real>& arrival, Exit exit);
  void send(int number, GossipMessage message, typename GossipSends<Real>::Row row, Exit exit);
  void show(int number, const GossipMessage& message, typename GossipSends<Real>::Row row, GossipSends<Real>& sends);
  void show_what_waits(int number, GossipSends<Real>& sends);

  GossipRank<Real> state_;
  std::vector<Rank> ends_;
  Place place_;
  Counts counts_;
  std::vector<Link> links_;
  std::vector<int> ready_;
  std::uint32_t stage_ = 0;  // since the last restart
  bool has_met_;
  bool is_idle_ = false;
  bool heard_ = false;  // since the last push
  GossipTime next_push_ = GossipTime::min();
  GossipTime pace_;
};

extern template class GossipLinks<float>;
extern template class GossipLinks<double>;

}  // namespace ucft::detail

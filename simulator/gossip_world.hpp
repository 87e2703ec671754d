// A small world of ranks in one gossip all-reduce: the same GossipOperation objects that run on UCX. A pool of pending
// events drives them; any event may be next, by a seed. Messages of one rank to another stay in order; all else may
// overtake. A crash stops a rank between any two of its sends: a message, a write into an RMA window, the name of one,
// a contribution to an agreement. Every survivor hears of a death at some later event.
//
// The world is a value: a copy of it goes on in the same way.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "collectives/gossip/gossip_operation.hpp"

namespace ucft::detail::simulator {

struct GossipCrash {
  Rank rank;
  std::int64_t after_sends;  // dies right before its send number after_sends (0: before the first)
};

struct GossipWorldPlan {
  GossipCall call;  // for doubles; its neighbourhood says how many ranks
  std::vector<GossipCrash> crashes;
  Rank refuses = no_rank;         // this rank can't map the RMA windows of others
  Rank objects = no_rank;         // this one has no memory for its own
  bool only_messages = false;     // no two hosts reach each other one-sided
  std::span<const Rank> hosts{};  // see GossipSeat
  std::vector<double> inputs{};   // of each rank, in all places; empty: GossipWorld::given()
  std::vector<Rank> late{};       // these post at any moment; all others before anything else happens
  std::int64_t late_by = 0;       // events, at least; the next one so many later
  GossipFaults faults{};          // injected
  std::uint64_t seed = 1;         // of the order of events
};

class GossipWorld {
 public:
  explicit GossipWorld(const GossipWorldPlan& plan);

  // Until all live ranks have finished. False if max_events did not suffice.
  bool run(std::int64_t max_events = 400000);

  Rank ranks() const { return static_cast<Rank>(nodes_.size()); }
  bool alive(Rank rank) const { return at(rank).alive; }
  std::int64_t sends(Rank rank) const { return at(rank).sends; }
  std::int64_t events() const { return events_; }
  const GossipOperation<double>& operation(Rank rank) const { return *at(rank).operation; }

  // Empty if all that docs/gossip_api.md promises is so, else the first thing that is not, in words.
  std::string check() const;
  double input(Rank rank, std::size_t i) const {
    return plan_.inputs.empty() ? given(rank, i) : plan_.inputs[static_cast<std::size_t>(rank)];
  }
  // The value that a rank gives in its place i.
  static double given(Rank rank, std::size_t i) { return 1 + rank * 3 + static_cast<double>(i * 7 % 13); }

 private:
  using Operation = GossipOperation<double>;
  // A window that one rank writes and another one reads: both ends of one direction.
  struct Window {
    std::uint32_t generation = 0;  // of the reader's memory
    GossipLinkState state;
    std::vector<double> row;
    std::uint32_t written = 0, read = 0, told = 0;
    // of the writer
    bool connected = false;
    std::uint32_t generation_there = 0, writes = 0;
  };
  struct Letter {
    enum class What : std::uint8_t { message, name };
    What what;
    GossipMessage message;  // name: its tag
    std::vector<double> row;
    std::uint32_t generation = 0;  // name
  };
  struct Node {
    std::optional<Operation> operation;
    bool alive = true;
    std::int64_t sends = 0, dies_after = -1;
    std::uint32_t begun = 0;
    std::vector<Rank> window_ends;  // whom it has windows for
    std::vector<Letter> kept;       // names that have come too early
    std::size_t agreed = 0;         // agreements that it has the results of
    bool has_contributed = false;   // to the next one
    std::vector<Rank> unheard;      // dead, and not known to be here
  };
  struct Agreement {
    std::vector<std::vector<double>> tables;  // by rank; empty: nothing has come
    bool is_complete = false;
    std::vector<double> table;  // the largest
    std::vector<Rank> missing;
    std::uint32_t contributors = 0;
  };
  struct Event {
    enum class What : std::uint8_t { come, turn, letter, failure, agreement, look, clear };
    What what;
    Rank rank;  // whom it happens to
    Rank other = no_rank;
  };

  Node& at(Rank rank) { return nodes_[static_cast<std::size_t>(rank)]; }
  const Node& at(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]; }
  std::size_t pair(Rank from, Rank to) const { return static_cast<std::size_t>(from * ranks() + to); }
  Window& window(Rank from, Rank to) { return windows_[pair(from, to)]; }
  std::deque<Letter>& channel(Rank from, Rank to) { return channels_[pair(from, to)]; }

  // Of a link, one way: the turns that the receiver has been told of, and under which tag.
  struct TurnsTold {
    std::uint16_t tag = 0;
    std::uint32_t turns = 0;
  };

  void come(Rank rank);
  void take_message(Rank from, Rank to, const Letter& letter);
  void note_turns(Rank from, Rank to, const GossipMessage& message);
  void collect_events();
  bool can_write(Rank from, Rank to);
  void happen(const Event& event);
  bool may_send(Rank rank);
  void kill(Rank rank);
  void carry_out(Rank rank);
  void flush(Rank rank);
  void write(Rank rank, int link, const GossipLinkState& state, ConstMass<double> row);
  void follow_beginnings(Rank rank);
  WindowObjection take_windows(Rank rank);
  void send_names(Rank rank);
  void take_name(Rank rank, const Letter& letter);
  void contribute(Rank rank);
  void complete_agreements();
  void tell(Rank rank, Rank from);
  void look(Rank rank, Rank from);
  int link_of(Rank rank, Rank other) const;

  GossipWorldPlan plan_;
  std::vector<Node> nodes_;
  std::vector<Window> windows_;
  std::vector<std::deque<Letter>> channels_;
  std::vector<TurnsTold> turns_told_;  // by pair
  std::string problem_;                // the first promise that was broken on the way
  std::vector<Agreement> agreements_;
  GossipSends<double> sends_;
  std::vector<Event> pending_;
  Random random_;
  std::int64_t events_ = 0;
};

}  // namespace ucft::detail::simulator

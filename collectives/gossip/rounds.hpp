// A rank that gossips by rounds among the members of an operation, since it last began (again): GossipByRounds, its
// messages and its faults. Every round waits for its one message. So nothing is on its way when the last round is over.
#pragma once

#include "collectives/gossip/links.hpp"
#include "collectives/gossip/members.hpp"

namespace ucft::detail {

template <class Real>
class GossipRounds {
 public:
  using Exit = GossipExit<Real>;

  // plan: of the members. begun: rounds before this beginning.
  GossipRounds(const GossipPlan& plan, const GossipMembers& members, Rank rank, ConstMass<Real> values, Real weight,
               std::uint16_t tag, std::uint64_t begun)
      : machine_(plan, members.place_of(rank), values, weight), tag_(tag), begun_(begun) {}

  const GossipRank<Real>& state() const { return machine_.state(); }
  std::uint64_t iterations() const {
    return begun_ + static_cast<std::uint64_t>(machine_.round());
  }  // rounds, through all beginnings
  bool finished() const { return machine_.finished(); }

  void start(const GossipMembers& members, Exit exit) {
    exit.sends.rows().clear_sends();
    inject(0, exit);
    machine_.start(exit.sends.rows());
    send_pushed(members, exit);
  }

  enum class Taken : std::uint8_t { early, yes, goes_on };
  // early: it belongs to a later round; nothing has changed, and it is to come again when this rank goes on.
  Taken on_message(const GossipMessage& message, ConstMass<Real> row, const GossipMembers& members, Exit exit) {
    if (members.place_of(message.peer) == no_rank) return Taken::yes;
    if (row.size() != state().row_length()) row = {};  // damaged: it is lost
    exit.sends.rows().clear_sends();
    const int round = static_cast<int>(message.number);
    if (message.era != is_push) {
      if (!machine_.on_repair({round, message.era, message.ack, row}, members.place_of(message.peer),
                              exit.sends.rows()))
        return Taken::early;
      send_pushed(members, exit);
      return Taken::goes_on;
    }
    const int before = machine_.round();
    if (machine_.awaits(round) && round + 1 < machine_.rounds()) inject(round + 1, exit);
    if (!machine_.on_message(round, row, exit.sends.rows())) return Taken::early;
    send_pushed(members, exit);
    return machine_.round() == before ? Taken::yes : Taken::goes_on;
  }
  void on_failure(Rank rank, const GossipMembers& members, Exit exit) {
    if (members.place_of(rank) == no_rank) return;
    exit.sends.rows().clear_sends();
    machine_.on_failure(members.place_of(rank), exit.sends.rows());
    send_pushed(members, exit);
  }

 private:
  void inject(int round, Exit exit) {
    exit.faults.before_push(machine_.state(), begun_ + static_cast<std::uint64_t>(round),
                            std::min(machine_.links(), 2 * std::max(1, round)));
  }
  // A lost row is waited for: so an empty message goes. A question has no row.
  void send_pushed(const GossipMembers& members, Exit exit) {
    for (const auto& each : exit.sends.rows().sends()) {
      GossipMessage message;
      message.peer = members.rank_at(machine_.to(each));
      message.tag = tag_;
      message.number = static_cast<std::uint32_t>(each.link);
      message.era = each.era;
      message.ack = each.ack;
      if (each.length > 0 && exit.faults.survives_the_way(exit.sends.rows().row(each))) {
        message.flags = carries_row;
        const auto row = exit.finish({each.begin, each.length}, message.flags);
        exit.sends.send(message, -1, row);
      } else {
        exit.sends.send(message);
      }
    }
  }

  GossipByRounds<Real> machine_;
  std::uint16_t tag_;
  std::uint64_t begun_;
};

}  // namespace ucft::detail

// The decision's way to all: down the broadcast tree, or by gossip; along the ring of ranks (correction); and to ranks
// that ask the root. A rank asks because some rank above it in the tree is dead, or because gossip has passed it by.
// Küttler et al., "Corrected trees for reliable group communication"; gossip, checked and failure-proof correction:
// Hoefler et al., "Corrected gossip algorithms".
//
// Invariants: a rank forwards each ballot's decision once. Only the root of a ballot answers for it. A rank corrects in
// one ballot at a time, the latest that it knows of.
#pragma once

#include <vector>

#include "collectives/core/decision.hpp"
#include "collectives/catalogue/arguments.hpp"
#include "collectives/among/phases/ballot_plan.hpp"
#include "collectives/among/phases/gossip_spread.hpp"
#include "collectives/topology/ring_correction.hpp"

namespace ucft::detail {

class Dissemination {
 public:
  void reset();

  bool has_forwarded(Rank ballot) const;
  // Forwards to the tree of that ballot, or by gossip, in turns. blank: what all messages of the operation have. Then
  // this rank takes part in correction. age_ns: of a broadcast by gossip, when it came here.
  void forward(Rank ballot, const Decision& decision, const Message& blank, const Arguments& arguments,
               const BallotPlan& plan, const Ballots& ballots, Outbox& out, std::int64_t age_ns = 0);
  // Tells the root's own decision to the tree, and to all that have asked.
  void tell(const Decision& decision, const Message& blank, const Arguments& arguments, const BallotPlan& plan,
            const Ballots& ballots, Outbox& out);

  // A new ballot: nobody was asked in it yet.
  void join() { asked_ = waits_ = false; }
  // Backstop: an ancestor in the broadcast tree is dead, so nothing may ever come down to me. question: but for its
  // phase.
  void ask_if_cut_off(Message question, const Arguments& arguments, const Ballots& ballots, Outbox& out);
  // By gossip nobody is above me, and chance decides which ranks are reached, so time is what tells. A rank that still
  // waits for the decision ask_after_ns after its next turn asks the root of the ballot. That is never wrong, only a
  // message more.
  void wait(const GossipSetting& gossip);
  void stop_waiting() { waits_ = false; }
  bool asks_at(std::int64_t now_ns);
  void ask(Message question, const Ballots& ballots, Outbox& out);
  // The root can't answer yet.
  void keep_asker(Rank rank) { askers_.push_back(rank); }

  // A correction has come; was_delivered: this rank had a decision before. True: it has to forward it.
  bool on_correction(const Message& message, bool was_delivered, const Arguments& arguments, const Ballots& ballots);
  void on_failure(Rank rank, const Ballots& ballots);
  bool wants_turn() const { return owes_turn() || waits_ || awaits_exit(); }
  // Others need that turn, at any time.
  bool owes_turn() const { return correction_.wants_turn() || spread_.active(); }
  // Earlier turns change nothing. 0: not known.
  std::int64_t turn_due_ns() const;
  // One message of gossip or correction, or none. now_ns: of this rank's clock; -1: it is time, for all that it waits
  // for. may_gossip: see GossipSpread::turn.
  void on_turn(std::int64_t now_ns, bool may_gossip, const Decision& decision, const Message& blank,
               const Arguments& arguments, const Ballots& ballots, Outbox& out);

 private:
  static constexpr std::int64_t unknown = -1;

  static void send_to(const std::vector<Rank>& children, Rank ballot, const Decision& decision, const Message& blank,
                      const Ballots& ballots, Outbox& out);
  void start_gossip(Rank ballot, OperationNumber number, std::int64_t age_ns, const Arguments& arguments,
                    const Ballots& ballots);
  void gossip(std::int64_t now_ns, bool may_gossip, const Decision& decision, const Message& blank,
              const Ballots& ballots, Outbox& out);
  void correct(const Decision& decision, const Message& blank, const Ballots& ballots, Outbox& out);
  bool correction_is_due(std::int64_t now_ns, std::int64_t delay_us);
  void begin_correction();
  void start_correction(Rank ballot, const Arguments& arguments, const Ballots& ballots);
  void enter_correction(Rank ballot, const Arguments& arguments, const Ballots& ballots);
  bool note_correction(const Message& message, const Arguments& arguments, const Ballots& ballots);
  void panic_if_alone(const Ballots& ballots);
  void panic_if_late(std::int64_t now_ns, const Ballots& ballots);
  void panic(const Ballots& ballots);
  bool awaits_exit() const { return coloured_by_ != no_rank && panic_after_ns_ != never_asks; }

  std::vector<Rank> askers_, forwarded_;  // ranks; ballots
  bool asked_ = false;
  bool waits_ = false;  // by gossip: to ask, when the time has come
  std::int64_t ask_after_ns_ = 0, ask_at_ns_ = unknown;
  GossipSpread spread_;
  RingCorrection correction_;
  Rank correction_ballot_ = no_rank;
  Rank coloured_by_ = no_rank;  // failure-proof: reached by this one's correction alone, and not let go yet
  std::int64_t panic_after_ns_ = never_asks, panic_at_ns_ = unknown;  // of that
  std::int64_t turn_wanted_since_ns_ = unknown;
};

}  // namespace ucft::detail

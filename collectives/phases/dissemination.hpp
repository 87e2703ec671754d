// The decision's way to all: down the broadcast tree, along the ring of ranks (correction), and to those who ask the root
// because somebody above them in the tree is dead. Küttler et al., "Corrected trees for reliable group communication";
// checked and failure-proof correction: Hoefler et al., "Corrected gossip algorithms".
//
// Invariants: a rank forwards each ballot's decision once; only the root of a ballot answers for it; it corrects in one
// ballot at a time, the latest that it knows of.
#pragma once

#include <vector>

#include "collectives/decision.hpp"
#include "collectives/operations/arguments.hpp"
#include "collectives/phases/ballot_plan.hpp"
#include "collectives/ring_correction.hpp"

namespace ucft::detail {

class Dissemination {
 public:
  void reset();

  bool has_forwarded(Rank ballot) const;
  // To the tree of that ballot. blank: what all messages of the operation have. Then this rank takes part in correction.
  void forward(Rank ballot, const Decision& decision, const Message& blank, const Arguments& arguments,
               const BallotPlan& plan, const Ballots& ballots, Outbox& out);
  // The root's own: to the tree, and to all that have asked.
  void tell(const Decision& decision, const Message& blank, const Arguments& arguments, const BallotPlan& plan,
            const Ballots& ballots, Outbox& out);

  // A new ballot: nobody was asked in it yet.
  void join() { asked_ = false; }
  // Backstop: an ancestor in the broadcast tree is dead, so nothing may ever come down to me. question: but for its phase.
  void ask_if_cut_off(Message question, const Arguments& arguments, const Ballots& ballots, Outbox& out);
  // The root can't answer yet.
  void keep_asker(Rank rank) { askers_.push_back(rank); }

  // A correction has come; was_delivered: this rank had a decision before. True: it has to forward it.
  bool on_correction(const Message& message, bool was_delivered, const Arguments& arguments, const Ballots& ballots);
  void on_failure(Rank rank, const Ballots& ballots);
  bool wants_turn() const { return correction_.wants_turn(); }
  // Whether the turn that it wants is due: correction_delay_us after it was offered for the first time.
  bool turn_is_due(std::int64_t now_us, std::int64_t delay_us);
  // One correction message, or none.
  void on_turn(const Decision& decision, const Message& blank, const Ballots& ballots, Outbox& out);

 private:
  static void send_to(const std::vector<Rank>& children, Rank ballot, const Decision& decision, const Message& blank,
                      const Ballots& ballots, Outbox& out);
  void start_correction(Rank ballot, const Arguments& arguments, const Ballots& ballots);
  void enter_correction(Rank ballot, const Arguments& arguments, const Ballots& ballots);
  bool note_correction(const Message& message, const Arguments& arguments, const Ballots& ballots);
  void panic_if_alone(const Ballots& ballots);

  std::vector<Rank> askers_, forwarded_;  // ranks; ballots
  bool asked_ = false;
  RingCorrection correction_;
  Rank correction_ballot_ = no_rank;
  Rank coloured_by_ = no_rank;  // failure-proof: reached by this one's correction alone, and not let go yet
  std::int64_t turn_wanted_since_us_ = -1;
};

}  // namespace ucft::detail

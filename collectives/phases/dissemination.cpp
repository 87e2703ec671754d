#include "collectives/phases/dissemination.hpp"

#include <algorithm>

namespace ucft::detail {

namespace {

Message telling(const Decision& decision, const Message& blank, Phase phase, Rank ballot) {
  Message message = blank;
  decision.write(message);
  message.phase = phase;
  message.attempt = ballot;
  return message;
}

}  // namespace

void Dissemination::reset() {
  askers_.clear();
  forwarded_.clear();
  asked_ = false;
  if (correction_ballot_ != no_rank) correction_.reset({});
  correction_ballot_ = coloured_by_ = no_rank;
}

// ---- the tree -------------------------------------------------------------------------------------------------------

bool Dissemination::has_forwarded(Rank ballot) const {
  return std::find(forwarded_.begin(), forwarded_.end(), ballot) != forwarded_.end();
}

void Dissemination::forward(Rank ballot, const Decision& decision, const Message& blank, const Arguments& arguments,
                            const BallotPlan& plan, const Ballots& ballots, Outbox& out) {
  forwarded_.push_back(ballot);
  if (ballot == ballots.promised()) {
    if (!plan.broadcast_children.empty()) send_to(plan.broadcast_children, ballot, decision, blank, ballots, out);
  } else {
    std::vector<Rank> children;
    broadcast_children_of(ballot, ballots, arguments.shape, children);
    send_to(children, ballot, decision, blank, ballots, out);
  }
  if (arguments.correction != Correction::none) start_correction(ballot, arguments, ballots);
}

void Dissemination::send_to(const std::vector<Rank>& children, Rank ballot, const Decision& decision,
                            const Message& blank, const Ballots& ballots, Outbox& out) {
  const Message message = telling(decision, blank, Phase::broadcast, ballot);
  for (Rank child : children)
    if (!ballots.has_failed(child)) out.send(child, message);
}

void Dissemination::tell(const Decision& decision, const Message& blank, const Arguments& arguments,
                         const BallotPlan& plan, const Ballots& ballots, Outbox& out) {
  forward(ballots.promised(), decision, blank, arguments, plan, ballots, out);
  for (Rank asker : askers_) {
    const Message answer = telling(decision, blank, Phase::decided, ballots.promised());
    out.send(asker, answer);
  }
  askers_.clear();
}

void Dissemination::ask_if_cut_off(Message question, const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  if (asked_) return;
  const BroadcastTopology tree(arguments.shape, ballots.members().size());
  std::int32_t process = ballots.process_of(ballots.me(), ballots.promised());
  while ((process = tree.parent(process)) != 0) {
    if (!ballots.has_failed(ballots.rank_of(process, ballots.promised()))) continue;
    asked_ = true;
    question.phase = Phase::ask;
    out.send(ballots.promised(), question);
    return;
  }
}

// ---- correction, on the ring of processes ---------------------------------------------------------------------------

void Dissemination::enter_correction(Rank ballot, const Arguments& arguments, const Ballots& ballots) {
  if (correction_ballot_ == ballot) return;
  correction_ballot_ = ballot;
  coloured_by_ = no_rank;
  correction_.reset({arguments.correction, arguments.correction_distance, arguments.f, ballots.members().size()});
}

// A process that the tree has reached sends along the ring. In the opportunistic forms so does one that correction has.
void Dissemination::start_correction(Rank ballot, const Arguments& arguments, const Ballots& ballots) {
  enter_correction(ballot, arguments, ballots);
  coloured_by_ = no_rank;
  turn_wanted_since_us_ = -1;
  correction_.start();
}

bool Dissemination::on_correction(const Message& message, bool was_delivered, const Arguments& arguments,
                                  const Ballots& ballots) {
  if (!note_correction(message, arguments, ballots)) return false;
  // The opportunistic forms: whoever has the value spreads it, so one correction saves all below a dead process. The
  // other forms measure gaps, which ranks that only correction has reached must not hide.
  if (!was_delivered && is_opportunistic(arguments.correction)) return true;
  if (arguments.correction != Correction::failure_proof) return false;
  if (message.has(panics)) {
    correction_.panic();
    return false;
  }
  if (message.has(lets_go))
    coloured_by_ = no_rank;
  else if (!was_delivered)
    coloured_by_ = message.peer;
  panic_if_alone(ballots);
  return false;
}

// A right-moving message tells how near a process coloured by the tree is on my left; one that panics need not be one.
// False: of an earlier ballot than the one that this rank corrects in.
bool Dissemination::note_correction(const Message& message, const Arguments& arguments, const Ballots& ballots) {
  if (correction_ballot_ != no_rank && ballots.before(message.attempt, correction_ballot_)) return false;
  enter_correction(message.attempt, arguments, ballots);
  if (message.has(panics)) return true;
  const std::int32_t size = ballots.members().size();
  const bool from_left = message.has(moves_right);
  const std::int32_t difference =
      ballots.process_of(ballots.me(), message.attempt) - ballots.process_of(message.peer, message.attempt);
  correction_.hear(from_left, ((from_left ? difference : -difference) + size) % size);
  return true;
}

void Dissemination::on_failure(Rank rank, const Ballots& ballots) {
  if (rank == coloured_by_) panic_if_alone(ballots);
}

// Failure-proof: the one that coloured me is dead, and may have reached nobody else. Of a ballot whose root is dead as
// well nobody would take it.
void Dissemination::panic_if_alone(const Ballots& ballots) {
  if (coloured_by_ == no_rank || !ballots.has_failed(coloured_by_)) return;
  if (!ballots.before(correction_ballot_, ballots.promised())) correction_.panic();
}

bool Dissemination::turn_is_due(std::int64_t now_us, std::int64_t delay_us) {
  if (correction_.panics()) return true;
  if (turn_wanted_since_us_ < 0) turn_wanted_since_us_ = now_us;
  return now_us - turn_wanted_since_us_ >= delay_us;
}

void Dissemination::on_turn(const Decision& decision, const Message& blank, const Ballots& ballots, Outbox& out) {
  if (!wants_turn()) return;
  const auto send = correction_.turn();
  if (!send) return;
  const std::int32_t size = ballots.members().size();
  const std::int32_t mine = ballots.process_of(ballots.me(), correction_ballot_);
  const Rank target =
      ballots.rank_of((mine + (send->right ? send->distance : size - send->distance)) % size, correction_ballot_);
  if (ballots.has_failed(target)) return;
  Message message = telling(decision, blank, Phase::correction, correction_ballot_);
  if (send->right) message.flags |= moves_right;
  if (send->word == RingCorrection::Word::exit) message.flags |= lets_go;
  if (send->word == RingCorrection::Word::panic) message.flags |= panics;
  out.send(target, message);
}

}  // namespace ucft::detail

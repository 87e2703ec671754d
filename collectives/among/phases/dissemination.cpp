#include "collectives/among/phases/dissemination.hpp"

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
  asked_ = waits_ = false;
  spread_.stop();
  if (correction_ballot_ != no_rank) correction_.reset({});
  correction_ballot_ = coloured_by_ = no_rank;
}

// ---- the tree, or gossip --------------------------------------------------------------------------------------------

bool Dissemination::has_forwarded(Rank ballot) const {
  return std::find(forwarded_.begin(), forwarded_.end(), ballot) != forwarded_.end();
}

void Dissemination::forward(Rank ballot, const Decision& decision, const Message& blank, const Arguments& arguments,
                            const BallotPlan& plan, const Ballots& ballots, Outbox& out, std::int64_t age_ns) {
  forwarded_.push_back(ballot);
  if (arguments.by_gossip()) return start_gossip(ballot, blank.operation, age_ns, arguments, ballots);
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

// Nothing for a ballot before the one that this rank corrects in: the earlier one's root is dead.
void Dissemination::start_gossip(Rank ballot, OperationNumber number, std::int64_t age_ns, const Arguments& arguments,
                                 const Ballots& ballots) {
  if (correction_ballot_ != no_rank && ballots.before(ballot, correction_ballot_)) return;
  enter_correction(ballot, arguments, ballots);
  coloured_by_ = no_rank;
  const std::uint64_t seed =
      mixed(mixed(arguments.gossip.seed, number), static_cast<std::uint64_t>(static_cast<std::uint32_t>(ballot)));
  spread_.start(arguments.gossip, {ballots.process_of(ballots.me(), ballot), ballots.members().size()}, seed, age_ns);
}

// A rank that is known to be dead gets no message, nor does another in its place: the message's time has passed.
void Dissemination::gossip(std::int64_t now_ns, bool may_gossip, const Decision& decision, const Message& blank,
                           const Ballots& ballots, Outbox& out) {
  const auto process = spread_.turn(now_ns, may_gossip);
  if (!spread_.active()) return begin_correction();
  if (!process) return;
  const Rank target = ballots.rank_of(*process, correction_ballot_);
  if (ballots.has_failed(target)) return;
  Message message = telling(decision, blank, Phase::broadcast, correction_ballot_);
  message.flags |= by_gossip;
  message.age_ns = static_cast<std::int32_t>(spread_.age_ns());
  out.send(target, message);
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
  if (asked_ || arguments.by_gossip()) return;
  const BroadcastTopology tree(arguments.shape, ballots.members().size());
  std::int32_t process = ballots.process_of(ballots.me(), ballots.promised());
  while ((process = tree.parent(process)) != 0) {
    if (!ballots.has_failed(ballots.rank_of(process, ballots.promised()))) continue;
    return ask(question, ballots, out);
  }
}

void Dissemination::wait(const GossipSetting& gossip) {
  waits_ = gossip.ask_after_ns != never_asks;
  ask_after_ns_ = gossip.ask_after_ns;
  ask_at_ns_ = unknown;
}

bool Dissemination::asks_at(std::int64_t now_ns) {
  if (!waits_ || now_ns < 0) return waits_;
  if (ask_at_ns_ == unknown) ask_at_ns_ = now_ns + ask_after_ns_;
  return now_ns >= ask_at_ns_;
}

void Dissemination::ask(Message question, const Ballots& ballots, Outbox& out) {
  waits_ = false;
  asked_ = true;
  question.phase = Phase::ask;
  out.send(ballots.promised(), question);
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
  begin_correction();
}

void Dissemination::begin_correction() {
  turn_wanted_since_ns_ = unknown;
  correction_.start();
}

bool Dissemination::on_correction(const Message& message, bool was_delivered, const Arguments& arguments,
                                  const Ballots& ballots) {
  if (!note_correction(message, arguments, ballots)) return false;
  // The opportunistic forms: a rank that has the value spreads it, so one correction saves all below a dead process.
  // (Of gossip there is nobody below.) The other forms measure gaps, which ranks that only correction has reached must
  // not hide.
  if (!was_delivered && is_opportunistic(arguments.correction))
    return arguments.corrected_spread && !arguments.by_gossip();
  if (arguments.correction != Correction::failure_proof) return false;
  if (message.has(panics)) {
    coloured_by_ = no_rank;
    correction_.panic();
    return false;
  }
  if (message.has(lets_go)) {
    coloured_by_ = no_rank;
  } else if (!was_delivered) {
    coloured_by_ = message.peer;
    panic_after_ns_ = arguments.gossip.panic_after_ns;
    panic_at_ns_ = unknown;
  }
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

// Failure-proof: the process that coloured me is dead, and may have reached no other.
void Dissemination::panic_if_alone(const Ballots& ballots) {
  if (coloured_by_ != no_rank && ballots.has_failed(coloured_by_)) panic(ballots);
}

// FCG: no process has let me go for so long since my first turn with the value.
void Dissemination::panic_if_late(std::int64_t now_ns, const Ballots& ballots) {
  if (!awaits_exit()) return;
  if (panic_at_ns_ == unknown && now_ns >= 0) panic_at_ns_ = now_ns + panic_after_ns_;
  if (now_ns < 0 || now_ns >= panic_at_ns_) panic(ballots);
}

// Nothing in a ballot whose root is dead as well: no rank would take it.
void Dissemination::panic(const Ballots& ballots) {
  coloured_by_ = no_rank;
  if (!ballots.before(correction_ballot_, ballots.promised())) correction_.panic();
}

// ---- turns ----------------------------------------------------------------------------------------------------------

std::int64_t Dissemination::turn_due_ns() const {
  if (correction_.wants_turn()) return 0;
  std::int64_t due = INT64_MAX;
  if (spread_.active()) due = spread_.due_ns();
  if (waits_) due = std::min(due, std::max(ask_at_ns_, std::int64_t{0}));
  if (awaits_exit()) due = std::min(due, std::max(panic_at_ns_, std::int64_t{0}));
  return due;
}

// Correction is due correction_delay_us after it was offered for the first time.
bool Dissemination::correction_is_due(std::int64_t now_ns, std::int64_t delay_us) {
  if (now_ns < 0 || correction_.panics()) return true;
  if (turn_wanted_since_ns_ == unknown) turn_wanted_since_ns_ = now_ns;
  return now_ns - turn_wanted_since_ns_ >= 1000 * delay_us;
}

void Dissemination::on_turn(std::int64_t now_ns, bool may_gossip, const Decision& decision, const Message& blank,
                            const Arguments& arguments, const Ballots& ballots, Outbox& out) {
  panic_if_late(now_ns, ballots);
  if (spread_.active() && !correction_.panics()) gossip(now_ns, may_gossip, decision, blank, ballots, out);
  if (correction_.wants_turn() && correction_is_due(now_ns, arguments.correction_delay_us))
    correct(decision, blank, ballots, out);
}

void Dissemination::correct(const Decision& decision, const Message& blank, const Ballots& ballots, Outbox& out) {
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

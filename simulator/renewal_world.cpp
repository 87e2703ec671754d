#include "simulator/renewal_world.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace ucft::detail::simulator {

using RenewalStep = RenewalWorld::Event::Kind;
using SponsorStep = Sponsor::Step::Kind;

namespace {

std::int8_t small(int number) { return static_cast<std::int8_t>(number); }

}  // namespace

RenewalWorld::RenewalWorld(const RenewalPlan& plan) : plan_(&plan), results_(static_cast<std::size_t>(plan.renewals)) {
  Epoch first;
  for (int seat = 0; seat < plan.seats; ++seat) {
    const bool is_absent = std::ranges::find(plan.absent, seat) != plan.absent.end();
    first.seats.push_back(is_absent ? Seat::absent : Seat::survivor);
    first.process_of.push_back(is_absent ? -1 : processes());
    if (is_absent) continue;
    first.members |= bit(seat);
    Process& made = processes_.emplace_back();
    made.seat = small(seat);
    made.next_id = 1 + static_cast<std::uint32_t>(seat);  // they may have made communicators without each other
    made.known = KnownEpochs::of_member(1);
  }
  for (int i = 0; i < plan.newcomers; ++i) processes_.emplace_back().doing = Process::Doing::joins;
  assert(processes() <= most_processes && plan.seats <= most_processes);
  for (Process& each : processes_) each.gone.push_back(static_cast<Bits>(~first.members & (bit(plan.seats) - 1)));
  epochs_.push_back(std::move(first));
}

// ---- what processes know --------------------------------------------------------------------------------------------

EpochMembers RenewalWorld::members(int process) const {
  EpochMembers members;
  if (!at(process).known.is_member()) return members;
  members.me = at(process).seat;
  members.lives = gone(process, current(process));
  members.lives.flip();
  members.hosts.assign(members.lives.size(), "host");
  return members;
}

std::vector<bool> RenewalWorld::gone(int process, int from_epoch) const {
  std::vector<bool> gone;
  for (int seat = 0; seat < plan_->seats; ++seat)
    gone.push_back((at(process).gone[static_cast<std::size_t>(from_epoch)] & bit(seat)) != 0);
  return gone;
}

// In truth.
bool RenewalWorld::has_gone(int process, int from_epoch) const {
  return process < 0 || !runs(process) || (epoch(from_epoch).lost & bit(process)) != 0;
}

RenewalWorld::Bits RenewalWorld::gone_seats(int in_epoch) const {
  Bits gone = 0;
  for (int seat = 0; seat < plan_->seats; ++seat)
    if (has_gone(epoch(in_epoch).process_of[static_cast<std::size_t>(seat)], in_epoch)) gone |= bit(seat);
  return gone;
}

KnownEpochs::IsBroken RenewalWorld::broken_ones(int process) const {
  return [this, process](const CandidateEpoch& each) {
    return is_broken(each.newcomers, gone(process, current(process)), gone(process, static_cast<int>(each.start)));
  };
}

EpochOffer RenewalWorld::offer(int start, int process) const {
  const Epoch& offered = epoch(start);
  const auto seat = std::ranges::find(offered.process_of, process) - offered.process_of.begin();
  return {static_cast<std::uint64_t>(start), static_cast<std::uint32_t>(offered.base + 1),
          static_cast<std::int32_t>(seat), offered.seats, offered.sponsor == process};
}

Sponsor::StateOf RenewalWorld::states_of(int process) const {
  return [this, process](std::uint64_t start) { return at(process).known.state_of(start, broken_ones(process)); };
}

Sponsor::Step RenewalWorld::step_of(int process) const {
  Sponsor copy = at(process).sponsor;
  return copy.look(members(process), states_of(process));
}

bool RenewalWorld::is_ready(int start) const {
  return epoch(start).arrived == epoch(start).guests && !epoch(start).lacks_guest;
}

// Somebody does not come, or the rendezvous has ended, before all have got all that they need.
bool RenewalWorld::may_fail(int process, int start) const {
  const Epoch& made = epoch(start);
  if (made.has_ended || made.lacks_guest || !runs(made.sponsor)) return true;
  for (int other = 0; other < processes(); ++other) {
    if ((made.guests & bit(other)) == 0 || other == process) continue;
    if (has_gone(other, start)) return true;
    const auto& under_way = at(other).known.under_way();
    const bool is_coming = ((made.arrived | made.invited) & bit(other)) != 0 ||
                           (under_way && under_way->start == static_cast<std::uint64_t>(start));
    if (!is_coming) return true;
  }
  return false;
}

KnownEpochs::Ballot RenewalWorld::ballot(int process, KnownEpochs& known) const {
  const Process& here = at(process);
  const auto has_free = [&](int in) { return here.gone[static_cast<std::size_t>(in)] != 0; };
  return known.look({plan_->wanted, plan_->seats, has_free(current(process)), here.time_is_over},
                    [&](const CandidateEpoch& each) { return has_free(static_cast<int>(each.start)); });
}

bool RenewalWorld::looks(int process) const {
  KnownEpochs known = at(process).known;
  return !known.drop_broken(broken_ones(process)).empty() || ballot(process, known).says_something();
}

// ---- which events are possible --------------------------------------------------------------------------------------

std::vector<RenewalWorld::Event> RenewalWorld::enabled() const {
  std::vector<Event> events;
  for (int process = 0; process < processes(); ++process)
    if (runs(process)) events_of(process, events);
  for (int each = 0; each < static_cast<int>(epochs_.size()); ++each) events_of_collectives(each, events);
  if (!events.empty()) {
    if (deaths_ < plan_->deaths)
      for (int process = 0; process < processes(); ++process)
        if (runs(process)) events.push_back({RenewalStep::dies, small(process)});
    return events;
  }
  for (int process = 0; process < processes(); ++process)
    if (runs(process) && at(process).doing == Process::Doing::joins)
      events.push_back({RenewalStep::runs_out_of_time, small(process)});
  return events;
}

bool RenewalWorld::is_quiet(const std::vector<Event>& events) const {
  return std::ranges::all_of(events, [](const Event& each) { return each.kind == RenewalStep::runs_out_of_time; });
}

void RenewalWorld::events_of(int process, std::vector<Event>& events) const {
  const Process& here = at(process);
  using Doing = Process::Doing;
  for (int of = 0; of < static_cast<int>(epochs_.size()); ++of) {
    const bool is_in =
        of == current(process) || std::ranges::find(here.known.candidates(), static_cast<std::uint64_t>(of),
                                                    &CandidateEpoch::start) != here.known.candidates().end();
    if (!is_in) continue;
    const Bits news = gone_seats(of) & static_cast<Bits>(~here.gone[static_cast<std::size_t>(of)]);
    for (int seat = 0; seat < plan_->seats; ++seat)
      if ((news & bit(seat)) != 0) events.push_back({RenewalStep::learns, small(process), small(seat), small(of)});
  }
  events_of_start(process, events);
  if (here.known.is_member()) events_of_sponsor(process, events);
  switch (here.doing) {
    case Doing::renews:
      if (looks(process)) events.push_back({RenewalStep::looks, small(process)});
      if (plan_->has_limit && !here.time_is_over) events.push_back({RenewalStep::has_no_time, small(process)});
      break;
    case Doing::votes:
      if (epoch(current(process)).votes[static_cast<std::size_t>(here.vote)].is_decided)
        events.push_back({RenewalStep::takes_result, small(process)});
      break;
    case Doing::adopts: events.push_back({RenewalStep::enters, small(process)}); break;
    case Doing::joins: events_of_newcomer(process, events); break;
    case Doing::has_done:
      if (plan_->leaves) events.push_back({RenewalStep::leaves_job, small(process)});
      break;
    case Doing::has_failed:
    case Doing::has_given_up: break;
  }
}

void RenewalWorld::events_of_newcomer(int process, std::vector<Event>& events) const {
  const Process& here = at(process);
  for (const CandidateEpoch& each : here.known.candidates())
    if (const Epoch& tried = epoch(static_cast<int>(each.start)); tried.is_decided)
      events.push_back({RenewalStep::leaves_barrier, small(process), -1, small(static_cast<int>(each.start))});
  if (here.asks >= 0) {
    if (!runs(here.asks) || !at(here.asks).sponsor.has(process))
      events.push_back({RenewalStep::loses_sponsor, small(process)});
    return;
  }
  if (here.known.under_way()) return;
  bool any_lives = false;
  for (int other = 0; other < processes(); ++other) {
    if (!runs(other) || !at(other).known.is_member()) continue;
    any_lives = true;
    const EpochMembers theirs = members(other);
    if (theirs.lowest() == theirs.me && !at(other).sponsor.has(process))
      events.push_back({RenewalStep::asks, small(process), small(other)});
  }
  if (!any_lives && here.known.candidates().empty()) events.push_back({RenewalStep::is_refused, small(process)});
}

void RenewalWorld::events_of_start(int process, std::vector<Event>& events) const {
  for (int start = 1; start < static_cast<int>(epochs_.size()); ++start) {
    if ((epoch(start).invited & bit(process)) == 0) continue;
    events.push_back({RenewalStep::is_invited, small(process), -1, small(start)});
    if (!runs(epoch(start).sponsor)) events.push_back({RenewalStep::is_uninvited, small(process), -1, small(start)});
  }
  if (!at(process).known.under_way()) return;
  const int start = static_cast<int>(at(process).known.under_way()->start);
  const Epoch& made = epoch(start);
  if ((made.arrived & bit(process)) == 0 && !made.has_ended && runs(made.sponsor))
    events.push_back({RenewalStep::comes, small(process), -1, small(start)});
  if (is_ready(start)) events.push_back({RenewalStep::has_started, small(process), -1, small(start)});
  if (may_fail(process, start)) events.push_back({RenewalStep::fails_to_start, small(process), -1, small(start)});
}

void RenewalWorld::events_of_sponsor(int process, std::vector<Event>& events) const {
  const Sponsor& sponsor = at(process).sponsor;
  for (int other = 0; other < processes(); ++other)
    if (sponsor.has(other) && (!runs(other) || at(other).asks != process || !sponsor.waits(other)))
      events.push_back({RenewalStep::loses_newcomer, small(process), small(other)});
  switch (step_of(process).kind) {
    case SponsorStep::nothing: return;
    case SponsorStep::seated: return events.push_back({RenewalStep::has_seated, small(process)});
    case SponsorStep::end_start:
      if (!epoch(static_cast<int>(sponsor.led())).has_ended)
        events.push_back({RenewalStep::ends_start, small(process)});
      return;
    case SponsorStep::give_up: return events.push_back({RenewalStep::gives_up_start, small(process)});
    case SponsorStep::turn_away: return events.push_back({RenewalStep::turns_away, small(process)});
    case SponsorStep::begin:
      if (static_cast<int>(epochs_.size()) <= plan_->starts)
        events.push_back({RenewalStep::begins_start, small(process)});
  }
}

void RenewalWorld::events_of_collectives(int in_epoch, std::vector<Event>& events) const {
  const Epoch& here = epoch(in_epoch);
  const Bits gone = gone_seats(in_epoch);
  const auto each_part_of = [&](Bits dead, RenewalStep kind) {
    for (Bits part = dead;; part = static_cast<Bits>((part - 1) & dead)) {
      events.push_back({kind, -1, -1, small(in_epoch), part});
      if (part == 0) return;
    }
  };
  if (!here.votes.empty() && !here.votes.back().is_decided) {
    const Vote& vote = here.votes.back();
    if ((vote.members & static_cast<Bits>(~(vote.posted | gone))) == 0 && (vote.posted & ~gone) != 0)
      each_part_of(vote.posted & gone, RenewalStep::decides);
  }
  if (here.is_decided || in_epoch == 0) return;
  Bits posted = 0;
  bool is_awaited = false;
  for (int seat = 0; seat < plan_->seats; ++seat) {
    const int process = here.process_of[static_cast<std::size_t>(seat)];
    if (process < 0 || (here.posted & bit(process)) == 0) continue;
    posted |= bit(seat);
    is_awaited |= runs(process) && at(process).doing == Process::Doing::joins;
  }
  Bits dead = 0;
  for (int seat = 0; seat < plan_->seats; ++seat)
    if (const int process = here.process_of[static_cast<std::size_t>(seat)]; process >= 0 && !runs(process))
      dead |= bit(seat);
  const Bits all = static_cast<Bits>(bit(plan_->seats) - 1);
  if (is_awaited && (all & static_cast<Bits>(~(posted | gone))) == 0)
    each_part_of(posted & dead, RenewalStep::decides_barrier);
}

// ---- what they do ---------------------------------------------------------------------------------------------------

void RenewalWorld::carry_out(const Event& event) {
  const int process = event.process, number = event.epoch;
  switch (event.kind) {
    case RenewalStep::dies:
      at(process).dead = true;
      ++deaths_;
      return;
    case RenewalStep::learns: at(process).gone[static_cast<std::size_t>(number)] |= bit(event.other); return;
    case RenewalStep::is_invited: return invite(process, number);
    case RenewalStep::is_uninvited: epoch(number).invited &= static_cast<Bits>(~bit(process)); return;
    case RenewalStep::comes: epoch(number).arrived |= bit(process); return;
    case RenewalStep::has_started: return end_start(process, number, true);
    case RenewalStep::fails_to_start: return end_start(process, number, false);
    case RenewalStep::asks: return ask(process, event.other);
    case RenewalStep::is_refused:
    case RenewalStep::runs_out_of_time: at(process).doing = Process::Doing::has_given_up; return leave_all(process);
    case RenewalStep::loses_sponsor: at(process).asks = -1; return;
    case RenewalStep::loses_newcomer: return at(process).sponsor.lose(event.other);
    case RenewalStep::ends_start:
    case RenewalStep::gives_up_start:
    case RenewalStep::has_seated:
    case RenewalStep::turns_away:
    case RenewalStep::begins_start: return sponsor(process);
    case RenewalStep::has_no_time: at(process).time_is_over = true; return;
    case RenewalStep::looks: return look(process);
    case RenewalStep::decides: return decide(number, event.bits);
    case RenewalStep::takes_result: return take_result(process);
    case RenewalStep::enters: return enter(process);
    case RenewalStep::decides_barrier: return decide_barrier(number, event.bits);
    case RenewalStep::leaves_barrier: return leave_barrier(process, number);
    case RenewalStep::leaves_job: return leave_all(process);
  }
}

void RenewalWorld::ask(int process, int member) {
  at(process).asks = small(member);
  std::vector<std::uint64_t> starts;
  for (const CandidateEpoch& each : at(process).known.candidates()) starts.push_back(each.start);
  at(member).sponsor.accept(process, {plan_->wanted_seat, "host"}, std::move(starts));
}

void RenewalWorld::invite(int process, int start) {
  epoch(start).invited &= static_cast<Bits>(~bit(process));
  if (at(process).known.on_invited(offer(start, process)) == KnownEpochs::Invited::begins) has_begun(process, start);
}

// A sponsor's own start invites the other survivors.
void RenewalWorld::has_begun(int process, int start) {
  Epoch& begun = epoch(start);
  if (begun.sponsor != process) return;
  for (int seat = 0; seat < plan_->seats; ++seat)
    if (const int guest = begun.process_of[static_cast<std::size_t>(seat)];
        guest != process && begun.seats[static_cast<std::size_t>(seat)] == Seat::survivor)
      begun.invited |= bit(guest);
}

void RenewalWorld::begin_waiting(int process) {
  if (at(process).known.begin_waiting()) has_begun(process, static_cast<int>(at(process).known.under_way()->start));
}

void RenewalWorld::end_start(int process, int start, bool succeeds) {
  Process& here = at(process);
  Epoch& made = epoch(start);
  const KnownEpochs::Started started = here.known.on_start_over(succeeds ? static_cast<std::uint32_t>(start + 1) : 0);
  if (!started.is_kept) made.lost |= bit(process);
  if (started.is_kept && here.doing == Process::Doing::joins) made.posted |= bit(process);
  leave(process, started.left);
  begin_waiting(process);
}

void RenewalWorld::leave(int process, const KnownEpochs::Starts& starts) {
  for (const std::uint64_t each : starts) epoch(static_cast<int>(each)).lost |= bit(process);
}

void RenewalWorld::leave_all(int process) {
  at(process).has_left = true;
  for (Epoch& each : epochs_) each.invited &= static_cast<Bits>(~bit(process));
}

void RenewalWorld::look(int process) {
  Process& here = at(process);
  const int base = current(process);
  leave(process, here.known.drop_broken(broken_ones(process)));
  const KnownEpochs::Ballot ours = ballot(process, here.known);
  if (!ours.says_something()) return;
  Epoch& in = epoch(base);
  if (static_cast<std::size_t>(here.vote) == in.votes.size()) {
    Vote& next = in.votes.emplace_back();
    next.members = in.members;
    next.words.resize(static_cast<std::size_t>(plan_->seats));
  }
  Vote& vote = in.votes[static_cast<std::size_t>(here.vote)];
  vote.posted |= bit(here.seat);
  vote.words[static_cast<std::size_t>(here.seat)] = RenewalVote::of(ours.epoch, ours.is_over, here.next_id);
  here.doing = Process::Doing::votes;
}

void RenewalWorld::decide(int in_epoch, Bits of_dead) {
  Vote& vote = epoch(in_epoch).votes.back();
  const Bits gone = gone_seats(in_epoch);
  const Bits contributed = static_cast<Bits>((vote.posted & ~gone) | of_dead);
  vote.is_decided = true;
  vote.has_failed = std::popcount(static_cast<unsigned>(vote.members & gone)) > plan_->f;
  vote.missing = static_cast<Bits>(vote.members & ~contributed);
  bool is_first = true;
  for (int seat = 0; seat < plan_->seats; ++seat) {
    if ((contributed & bit(seat)) == 0) continue;
    const RenewalVote& words = vote.words[static_cast<std::size_t>(seat)];
    if (std::exchange(is_first, false)) vote.result = words;
    vote.result.epoch = std::max(vote.result.epoch, words.epoch);
    vote.result.minus_epoch = std::max(vote.result.minus_epoch, words.minus_epoch);
    vote.result.is_over = std::max(vote.result.is_over, words.is_over);
    vote.result.next_id = std::max(vote.result.next_id, words.next_id);
  }
}

// As renew() in ucx_layer/api/membership_calls.cpp.
void RenewalWorld::take_result(int process) {
  Process& here = at(process);
  const int base = current(process);
  const Vote vote = epoch(base).votes[static_cast<std::size_t>(here.vote++)];
  if (vote.has_failed) {
    leave(process, here.known.after_vote());
    here.doing = Process::Doing::has_failed;
    return leave_all(process);
  }
  const RenewalVote::Outcome outcome = vote.result.outcome();
  if (outcome == RenewalVote::Outcome::adopt) {
    here.adopts = here.known.adopt(static_cast<std::uint32_t>(vote.result.epoch));
    if (!here.adopts) return fail(fmt::format("process {}: the epoch that all agree on is not there", process));
    Epoch& adopted = epoch(static_cast<int>(here.adopts->start));
    adopted.posted |= bit(process);
    if (adopted.adopted_in < 0) {
      adopted.adopted_in = here.round;
      check_seats(static_cast<int>(here.adopts->start));
    }
    here.doing = Process::Doing::adopts;
    return note_result(process, {static_cast<int>(here.adopts->start), 0, 0});
  }
  leave(process, here.known.after_vote());
  if (outcome == RenewalVote::Outcome::same_seats) {
    const auto id = static_cast<std::uint32_t>(vote.result.next_id);
    if (id < here.next_id) fail(fmt::format("process {}: number {} is of another communicator", process, id));
    here.next_id = id + 1;
    epoch(base).members = static_cast<Bits>(vote.members & ~vote.missing);
    note_result(process, {base, id, vote.missing});
    finish_round(process);
  } else {
    here.doing = Process::Doing::renews;
  }
  forget_votes(base);
}

void RenewalWorld::enter(int process) {
  Process& here = at(process);
  const CandidateEpoch adopted = *std::exchange(here.adopts, std::nullopt);
  leave(process, here.known.enter(adopted.start, adopted.epoch));
  here.vote = 0;
  here.next_id = 1;
  finish_round(process);
  begin_waiting(process);
}

void RenewalWorld::finish_round(int process) {
  Process& here = at(process);
  here.time_is_over = false;
  here.doing = ++here.round < plan_->renewals ? Process::Doing::renews : Process::Doing::has_done;
}

void RenewalWorld::decide_barrier(int in_epoch, Bits of_dead) {
  Epoch& here = epoch(in_epoch);
  here.is_decided = true;
  for (int seat = 0; seat < plan_->seats; ++seat) {
    const int process = here.process_of[static_cast<std::size_t>(seat)];
    if (process < 0 || (here.posted & bit(process)) == 0) continue;
    if (runs(process) || (of_dead & bit(seat)) != 0) here.contributed |= bit(seat);
  }
}

// As Epochs::join in ucx_layer/membership/epochs.cpp.
void RenewalWorld::leave_barrier(int process, int of_epoch) {
  Process& here = at(process);
  Epoch& tried = epoch(of_epoch);
  const CandidateEpoch candidate =
      *std::ranges::find(here.known.candidates(), static_cast<std::uint64_t>(of_epoch), &CandidateEpoch::start);
  std::vector<std::int32_t> missing;
  for (int seat = 0; seat < plan_->seats; ++seat)
    if ((tried.contributed & bit(seat)) == 0) missing.push_back(seat);
  const auto contributors = static_cast<std::uint32_t>(std::popcount(static_cast<unsigned>(tried.contributed)));
  if (!was_admitted(candidate.newcomers, contributors, true, missing)) {
    here.known.drop(candidate.start);
    tried.lost |= bit(process);
    return;
  }
  here.seat = small(static_cast<int>(std::ranges::find(tried.process_of, process) - tried.process_of.begin()));
  here.asks = -1;
  if (tried.adopted_in < 0) return fail(fmt::format("process {} is admitted where no survivor is", process));
  here.round = small(tried.adopted_in);
  leave(process, here.known.enter(candidate.start, candidate.epoch));
  note_result(process, {of_epoch, 0, 0});
  finish_round(process);
  begin_waiting(process);
}

// Those that all have taken, so that votes that come to nothing lead back to the same state.
void RenewalWorld::forget_votes(int in_epoch) {
  Epoch& here = epoch(in_epoch);
  while (!here.votes.empty() && here.votes.front().is_decided) {
    for (const int process : here.process_of)
      if (!has_gone(process, in_epoch) && (current(process) != in_epoch || at(process).vote == 0)) return;
    here.votes.erase(here.votes.begin());
    for (Process& each : processes_)
      if (each.known.current() == static_cast<std::uint32_t>(in_epoch + 1) && each.vote > 0) --each.vote;
  }
}

// ---- sponsors -------------------------------------------------------------------------------------------------------

// As Agent::look_after_newcomers in ucx_layer/membership/agent.cpp.
void RenewalWorld::sponsor(int process) {
  Sponsor& here = at(process).sponsor;
  const bool led = here.leads();
  const int start = led ? static_cast<int>(here.led()) : 0;
  const Sponsor::Step step = here.look(members(process), states_of(process));
  if (led && (step.kind == SponsorStep::end_start || step.kind == SponsorStep::give_up)) epoch(start).has_ended = true;
  if (step.kind == SponsorStep::give_up || step.kind == SponsorStep::turn_away)
    for (const int newcomer : step.newcomers) here.lose(newcomer);
  if (step.kind == SponsorStep::begin) begin_start(process, step);
}

void RenewalWorld::begin_start(int process, const Sponsor::Step& step) {
  const int start = static_cast<int>(epochs_.size());
  Epoch begun;
  begun.base = current(process);
  begun.sponsor = process;
  begun.seats = step.seats;
  for (int seat = 0; seat < plan_->seats; ++seat) {
    const bool survives = step.seats[static_cast<std::size_t>(seat)] == Seat::survivor;
    begun.process_of.push_back(survives ? epoch(begun.base).process_of[static_cast<std::size_t>(seat)] : -1);
  }
  for (const auto& [newcomer, seat] : step.seat_of) {
    const int adopted = at(process).adopts ? static_cast<int>(at(process).adopts->start) : 0;
    if (adopted > 0 && std::ranges::count(epoch(adopted).process_of, newcomer) > 0 && !has_gone(newcomer, adopted))
      fail(fmt::format("process {} is in an epoch that counts, and is invited to another one", newcomer));
    if (const auto old = std::ranges::find(begun.process_of, newcomer); old != begun.process_of.end()) {
      if (!has_gone(newcomer, begun.base))
        fail(fmt::format("process {} is given another seat in epoch {}", newcomer, start));
      *old = -1;  // its start of the base has failed, and others don't know yet: nobody comes for that seat
      begun.lacks_guest = true;
    }
    begun.process_of[static_cast<std::size_t>(seat)] = newcomer;
    begun.invited |= bit(newcomer);
  }
  Bits absent = 0;
  for (int seat = 0; seat < plan_->seats; ++seat) {
    const int guest = begun.process_of[static_cast<std::size_t>(seat)];
    if (guest >= 0) begun.guests |= bit(guest);
    (guest >= 0 ? begun.members : absent) |= bit(seat);
  }
  epochs_.push_back(std::move(begun));
  for (Process& each : processes_) each.gone.push_back(absent);
  at(process).sponsor.begun(static_cast<std::uint64_t>(start), step);
  invite(process, start);
}

}  // namespace ucft::detail::simulator

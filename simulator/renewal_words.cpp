// The events of a RenewalWorld, in words.
#include <fmt/core.h>

#include "simulator/renewal_world.hpp"

namespace ucft::detail::simulator {

using RenewalStep = RenewalWorld::Event::Kind;

namespace {

std::string dead_in(const RenewalWorld::Event& event) {
  std::string text;
  for (int seat = 0; seat < 8; ++seat)
    if ((event.bits >> seat & 1) != 0)
      text += fmt::format("{} {}", text.empty() ? ", with the dead in seat" : "", seat);
  return text;
}

}  // namespace

std::string RenewalWorld::text_of(const Event& event) {
  const int process = event.process, other = event.other, epoch = event.epoch;
  switch (event.kind) {
    case RenewalStep::dies: return fmt::format("{} dies", process);
    case RenewalStep::learns:
      return fmt::format("{} learns that seat {} has gone from epoch {}", process, other, epoch);
    case RenewalStep::is_invited: return fmt::format("{} is invited to start epoch {}", process, epoch);
    case RenewalStep::is_uninvited: return fmt::format("{} never gets its invitation to epoch {}", process, epoch);
    case RenewalStep::comes: return fmt::format("{} comes to the start of epoch {}", process, epoch);
    case RenewalStep::has_started: return fmt::format("{} has a context of epoch {}", process, epoch);
    case RenewalStep::fails_to_start: return fmt::format("{} fails to start epoch {}", process, epoch);
    case RenewalStep::asks: return fmt::format("{} asks {}, which accepts it", process, other);
    case RenewalStep::is_refused: return fmt::format("{} finds no member", process);
    case RenewalStep::loses_sponsor: return fmt::format("{} loses its sponsor", process);
    case RenewalStep::loses_newcomer: return fmt::format("{} closes its connection with {}", process, other);
    case RenewalStep::ends_start: return fmt::format("{} ends its rendezvous", process);
    case RenewalStep::gives_up_start: return fmt::format("{} gives its start up", process);
    case RenewalStep::has_seated: return fmt::format("{} has seated its newcomers", process);
    case RenewalStep::turns_away: return fmt::format("{} sends its newcomers to another member", process);
    case RenewalStep::begins_start: return fmt::format("{} begins a start", process);
    case RenewalStep::has_no_time: return fmt::format("{} waits no longer", process);
    case RenewalStep::looks: return fmt::format("{} looks for an epoch to vote for", process);
    case RenewalStep::decides: return fmt::format("the vote in epoch {} is decided{}", epoch, dead_in(event));
    case RenewalStep::takes_result: return fmt::format("{} has the result of the vote", process);
    case RenewalStep::enters: return fmt::format("{} enters the epoch", process);
    case RenewalStep::decides_barrier:
      return fmt::format("the barrier of epoch {} is complete{}", epoch, dead_in(event));
    case RenewalStep::leaves_barrier:
      return fmt::format("{} has the result of the barrier of epoch {}", process, epoch);
    case RenewalStep::leaves_job: return fmt::format("{} leaves the job", process);
    case RenewalStep::runs_out_of_time: return fmt::format("{} has waited for long enough", process);
  }
  return "";
}

// Of an event that has just happened.
std::string RenewalWorld::detail_of(const Event& event) const {
  const auto words = [](const RenewalVote& vote) {
    const std::string named = vote.epoch == 0 ? "none" : fmt::format("epoch {}", vote.epoch - 1);
    return named + (vote.is_over != 0 ? ", and waits no longer" : "");
  };
  if (event.kind == RenewalStep::begins_start) {
    std::string text = fmt::format("epoch {}, on epoch {}, with", epochs_.size() - 1, epochs_.back().base);
    for (const int process : epochs_.back().process_of) text += process < 0 ? " -" : fmt::format(" {}", process);
    return text;
  }
  if (event.kind == RenewalStep::looks && at(event.process).doing == Process::Doing::votes)
    return "it votes for " + words(epoch(current(event.process))
                                       .votes[static_cast<std::size_t>(at(event.process).vote)]
                                       .words[static_cast<std::size_t>(at(event.process).seat)]);
  if (event.kind == RenewalStep::decides) {
    const RenewalVote& result = epoch(event.epoch).votes.back().result;
    if (result.outcome() == RenewalVote::Outcome::adopt) return "all have named " + words(result);
    return result.outcome() == RenewalVote::Outcome::again ? "they have named different ones" : "the same seats";
  }
  if (event.kind == RenewalStep::takes_result && at(event.process).doing == Process::Doing::renews)
    return "it tries again";
  if (event.kind == RenewalStep::leaves_barrier)
    return at(event.process).known.is_member() ? "it is in" : "no survivor was there; it tries again";
  return "";
}

std::string RenewalWorld::standing(int process) const {
  const Process& here = at(process);
  if (here.dead) return "is dead";
  constexpr const char* names[] = {"looks for an epoch", "is in a vote", "is about to enter an epoch",
                                   "waits to join",      "has renewed",  "has failed",
                                   "has given up"};
  std::string text = names[static_cast<int>(here.doing)];
  if (here.known.is_member()) text += fmt::format(", in epoch {}, renewal {}", current(process), here.round);
  for (const CandidateEpoch& each : here.known.candidates()) text += fmt::format(", has {}", each.start);
  if (here.known.under_way()) text += fmt::format(", starts {}", here.known.under_way()->start);
  if (here.known.waiting()) text += fmt::format(", is to start {}", here.known.waiting()->start);
  if (here.sponsor.leads()) text += fmt::format(", leads {}", here.sponsor.led());
  if (here.sponsor.waiting() > 0) text += fmt::format(", {} newcomers wait there", here.sponsor.waiting());
  if (here.has_left) text += ", has left";
  return text;
}

std::string RenewalWorld::text() const {
  std::string text;
  for (int process = 0; process < processes(); ++process)
    text += fmt::format("{}{} {}", process == 0 ? "" : "; ", process, standing(process));
  return text;
}

}  // namespace ucft::detail::simulator

// The rules that must hold in a RenewalWorld, and the hash by which a state is known.
#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "collectives/core/random.hpp"
#include "simulator/renewal_world.hpp"

namespace ucft::detail::simulator {

void RenewalWorld::fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void RenewalWorld::note_result(int process, const Result& result) {
  Result& agreed = results_[static_cast<std::size_t>(at(process).round)];
  if (agreed.epoch < 0) agreed = result;
  if (agreed != result)
    fail(fmt::format("renewal {}: process {} is in epoch {} ({}), and others are in {} ({})", at(process).round,
                     process, result.epoch, result.id, agreed.epoch, agreed.id));
}

// All that live in the base keep their seats there.
void RenewalWorld::check_seats(int in_epoch) {
  const Epoch& made = epoch(in_epoch);
  for (int process = 0; process < processes(); ++process)
    if (runs(process) && current(process) == made.base &&
        made.process_of[static_cast<std::size_t>(at(process).seat)] != process)
      fail(fmt::format("process {} lives, and its seat is not its own in epoch {}", process, in_epoch));
}

bool RenewalWorld::is_cut() const {
  if (static_cast<int>(epochs_.size()) <= plan_->starts) return false;
  for (int process = 0; process < processes(); ++process)
    if (runs(process) && at(process).known.is_member() && step_of(process).kind == Sponsor::Step::Kind::begin)
      return true;
  return false;
}

int RenewalWorld::joined() const {
  int joined = 0;
  for (int process = processes() - plan_->newcomers; process < processes(); ++process)
    joined += at(process).known.is_member();
  return joined;
}

void RenewalWorld::check_end() {
  if (is_cut()) return;
  int joining = 0;
  for (const Process& each : processes_) joining += !each.dead && !each.has_left && each.doing == Process::Doing::joins;
  for (int process = 0; process < processes(); ++process) {
    const Process& here = at(process);
    if (!runs(process) || here.doing == Process::Doing::has_done || here.doing == Process::Doing::joins) continue;
    const int free = std::popcount(static_cast<unsigned>(gone_seats(current(process))));
    const int wanted = plan_->wanted < 0 ? free : std::min(plan_->wanted, free);
    const bool waits_for_more = !plan_->has_limit && (joining < wanted || (free == 0 && plan_->wanted > 0));
    if (!waits_for_more) fail(fmt::format("process {} waits forever ({})", process, standing(process)));
  }
}

// Left out: all that can't matter any more, as the knowledge of the dead, and news of epochs that are over.
std::uint64_t RenewalWorld::hash() const {
  std::uint64_t hash = static_cast<std::uint64_t>(deaths_);
  const auto mix = [&hash](auto value) { hash = mixed(hash, static_cast<std::uint64_t>(value)); };
  for (const Process& each : processes_) {
    mix(each.dead || each.has_left);
    if (each.dead || each.has_left) continue;
    mix(static_cast<std::uint64_t>(each.doing) | std::uint64_t{each.time_is_over} << 8 |
        std::uint64_t{each.next_id} << 16 | static_cast<std::uint64_t>(each.seat + 1) << 24 |
        static_cast<std::uint64_t>(each.round) << 32 | static_cast<std::uint64_t>(each.asks + 1) << 40 |
        static_cast<std::uint64_t>(each.vote) << 48);
    mix(each.known.hash());
    mix(each.sponsor.hash());
    mix(each.adopts ? each.adopts->start : 0);
    if (each.known.is_member()) mix(each.gone[each.known.current() - 1]);
    for (const CandidateEpoch& candidate : each.known.candidates()) mix(each.gone[candidate.start]);
    if (each.adopts) mix(each.gone[each.adopts->start]);
  }
  for (const Epoch& each : epochs_) {
    mix((each.base + 1) | (each.sponsor + 1) << 8 | (each.adopted_in + 1) << 16 | each.has_ended << 24 |
        each.is_decided << 25);
    for (const int process : each.process_of) mix(process + 1);
    for (const Seat seat : each.seats) mix(seat);
    mix(each.lacks_guest);
    mix(std::uint64_t{each.invited} | std::uint64_t{each.arrived} << 8 | std::uint64_t{each.lost} << 16 |
        std::uint64_t{each.posted} << 24 | std::uint64_t{each.contributed} << 32 | std::uint64_t{each.members} << 40);
    mix(each.votes.size());
    for (const Vote& vote : each.votes) {
      mix(vote.posted | vote.members << 8 | vote.missing << 16 | vote.is_decided << 24 | vote.has_failed << 25);
      for (const RenewalVote& words : vote.words) mix(words.epoch | words.is_over << 8 | words.next_id << 16);
      mix(vote.result.epoch | (vote.result.minus_epoch + 256) << 16 | vote.result.is_over << 32 |
          vote.result.next_id << 40);
    }
  }
  for (const Result& each : results_) mix((each.epoch + 1) | static_cast<int>(each.id) << 8 | each.missing << 24);
  return hash;
}

}  // namespace ucft::detail::simulator

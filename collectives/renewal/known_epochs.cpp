#include "collectives/renewal/known_epochs.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

namespace {

constexpr std::size_t adopted_kept = 8;

std::vector<std::int32_t> newcomers_of(const EpochOffer& offer) {
  std::vector<std::int32_t> ranks;
  for (std::size_t rank = 0; rank < offer.seats.size(); ++rank)
    if (offer.seats[rank] == Seat::newcomer) ranks.push_back(static_cast<std::int32_t>(rank));
  return ranks;
}

}  // namespace

bool is_broken(const std::vector<std::int32_t>& newcomers, const std::vector<bool>& gone_from_base,
               const std::vector<bool>& gone_from_candidate) {
  for (std::size_t rank = 0; rank < gone_from_candidate.size(); ++rank) {
    const bool is_new = std::ranges::find(newcomers, static_cast<std::int32_t>(rank)) != newcomers.end();
    const bool may_be_in_it = is_new || (rank < gone_from_base.size() && !gone_from_base[rank]);
    if (may_be_in_it == gone_from_candidate[rank]) return true;
  }
  return false;
}

KnownEpochs KnownEpochs::of_member(std::uint32_t epoch) {
  KnownEpochs made;
  made.current_ = epoch;
  return made;
}

// A member follows those of its own epoch; a newcomer those that invite it as a newcomer.
bool KnownEpochs::may_start(const EpochOffer& offer) const {
  if (is_member()) return offer.base == current_;
  return offer.seats[static_cast<std::size_t>(offer.seat)] == Seat::newcomer;
}

// An invitation of a sponsor that is an epoch ahead waits until this process is there, too.
KnownEpochs::Invited KnownEpochs::on_invited(const EpochOffer& offer) {
  const bool may_start_now = may_start(offer);
  if (!may_start_now && UCFT_SOMETIMES("an invitation comes before its epoch's base") && offer.is_mine &&
      UCFT_SOMETIMES("a sponsor of newcomers invites to an epoch whose base is over"))
    return Invited::ignored;
  if (may_start_now && !under_way_) {
    under_way_ = offer;
    return Invited::begins;
  }
  waiting_ = offer;
  return Invited::waits;
}

KnownEpochs::Started KnownEpochs::on_start_over(std::uint32_t epoch) {
  assert(under_way_);
  const EpochOffer offer = *std::exchange(under_way_, std::nullopt);
  if (epoch == 0) return {};
  if (is_member() && offer.base != current_ && UCFT_SOMETIMES("an epoch starts whose base is over"))
    return {};  // its newcomers may be members
  Started started{.is_kept = true};
  if (is_member()) started.left = leave([this](const CandidateEpoch& each) { return each.epoch != voted_; });
  candidates_.push_back({offer.start, epoch, newcomers_of(offer), static_cast<std::int32_t>(offer.seats.size())});
  return started;
}

bool KnownEpochs::begin_waiting() {
  if (!waiting_ || under_way_ || !may_start(*waiting_)) return false;
  under_way_ = std::exchange(waiting_, std::nullopt);
  return true;
}

EpochState KnownEpochs::state_of(std::uint64_t start, const IsBroken& is_broken) const {
  if (std::ranges::find(adopted_, start) != adopted_.end()) return EpochState::adopted;
  if ((waiting_ && waiting_->start == start) || (under_way_ && under_way_->start == start)) return EpochState::starting;
  const auto found = std::ranges::find(candidates_, start, &CandidateEpoch::start);
  if (found == candidates_.end()) return EpochState::none;
  return is_broken(*found) ? EpochState::broken : EpochState::ready;
}

KnownEpochs::Starts KnownEpochs::drop_broken(const IsBroken& is_broken) { return leave(is_broken); }

std::uint32_t KnownEpochs::choose(std::int32_t newcomers, std::int32_t most_seats, const HasFreeSeat& has_free_seat) {
  if (candidates_.empty()) return 0;
  const CandidateEpoch& last = candidates_.back();
  if (last.seats > most_seats) return 0;
  const bool has_enough = newcomers >= 0 && static_cast<std::size_t>(newcomers) <= last.newcomers.size();
  if (!has_enough && (last.seats < most_seats || has_free_seat(last))) return 0;
  return voted_ = last.epoch;
}

KnownEpochs::Ballot KnownEpochs::look(const Asked& asked, const HasFreeSeat& has_free_seat) {
  const bool waits = !asked.time_is_over && (asked.newcomers > 0 || (asked.newcomers < 0 && asked.has_room));
  return {choose(waits ? asked.newcomers : 1, asked.most_seats, has_free_seat), !waits};
}

KnownEpochs::Starts KnownEpochs::after_vote() {
  voted_ = 0;
  return leave([this](const CandidateEpoch& each) { return &each != &candidates_.back(); });
}

std::optional<CandidateEpoch> KnownEpochs::adopt(std::uint32_t epoch) {
  const auto found = std::ranges::find(candidates_, epoch, &CandidateEpoch::epoch);
  if (found == candidates_.end()) return std::nullopt;
  CandidateEpoch adopted = std::move(*found);
  candidates_.erase(found);
  note_adopted(adopted.start);
  return adopted;
}

KnownEpochs::Starts KnownEpochs::enter(std::uint64_t start, std::uint32_t epoch) {
  if (adopted_.empty() || adopted_.back() != start) note_adopted(start);
  current_ = epoch;
  voted_ = 0;
  std::erase_if(candidates_, [&](const CandidateEpoch& each) { return each.epoch == epoch; });
  if (waiting_ && waiting_->is_mine && waiting_->base != current_) waiting_.reset();  // its base is over
  return leave([](const CandidateEpoch&) { return true; });
}

void KnownEpochs::note_adopted(std::uint64_t start) {
  adopted_.push_back(start);
  if (adopted_.size() > adopted_kept) adopted_.erase(adopted_.begin());
}

void KnownEpochs::drop(std::uint64_t start) {
  std::erase_if(candidates_, [&](const CandidateEpoch& each) { return each.start == start; });
}

std::uint64_t KnownEpochs::hash() const {
  std::uint64_t hash = current_;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ (hash >> 29) ^ value) * 0x9e3779b97f4a7c15u; };
  mix(voted_);
  for (const CandidateEpoch& each : candidates_) mix(each.start);
  for (const auto* offer : {&under_way_, &waiting_}) mix(*offer ? (*offer)->start : 0);
  for (const std::uint64_t each : adopted_) mix(each);
  return hash;
}

KnownEpochs::Starts KnownEpochs::leave(const IsBroken& which) {
  Starts left;
  std::vector<CandidateEpoch> stay;
  for (const CandidateEpoch& each : candidates_)
    if (which(each) && UCFT_SOMETIMES("an epoch is dropped"))
      left.push_back(each.start);
    else
      stay.push_back(each);
  candidates_ = std::move(stay);
  return left;
}

}  // namespace ucft::detail

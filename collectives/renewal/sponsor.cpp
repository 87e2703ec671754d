#include "collectives/renewal/sponsor.hpp"

#include <algorithm>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

namespace {

constexpr int most_failures = 3;  // of starts that a newcomer was in: then it is sent away
constexpr std::size_t starts_kept = 8;

}  // namespace

std::int32_t EpochMembers::lowest() const {
  for (std::size_t rank = 0; rank < lives.size(); ++rank)
    if (lives[rank]) return static_cast<std::int32_t>(rank);
  return me;
}

void Sponsor::accept(Connection newcomer, Applicant applicant, std::vector<std::uint64_t> starts) {
  newcomers_[newcomer] = Newcomer{.applicant = std::move(applicant), .starts = std::move(starts)};
}

void Sponsor::lose(Connection newcomer) {
  newcomers_.erase(newcomer);
  if (led_ && led_->seat_of.erase(newcomer) > 0) led_->has_lost = true;  // its number may come again
}

bool Sponsor::waits(Connection newcomer) const {
  const auto found = newcomers_.find(newcomer);
  return found != newcomers_.end() && !found->second.is_seated;
}

int Sponsor::waiting() const {
  return static_cast<int>(std::ranges::count_if(newcomers_, [](const auto& each) { return !each.second.is_seated; }));
}

Sponsor::Step Sponsor::look(const EpochMembers& members, const StateOf& state_of) {
  if (std::vector<Connection> seated = seat_adopted(state_of); !seated.empty())
    return {.kind = Step::Kind::seated, .newcomers = std::move(seated)};
  if (led_) return look_at_start(members, state_of(led_->start));
  return waiting() > 0 ? look_for_start(members) : Step{};
}

// Survivors may agree on an epoch whose start was given up meanwhile.
std::vector<Sponsor::Connection> Sponsor::seat_adopted(const StateOf& state_of) {
  const auto is_adopted = [&](std::uint64_t start) { return state_of(start) == EpochState::adopted; };
  std::vector<Connection> seated;
  for (auto& [connection, newcomer] : newcomers_) {
    if (newcomer.is_seated || !std::ranges::any_of(newcomer.starts, is_adopted)) continue;
    newcomer.is_seated = true;
    seated.push_back(connection);
  }
  if (led_ && is_adopted(led_->start)) led_.reset();
  return seated;
}

Sponsor::Step Sponsor::look_at_start(const EpochMembers& members, EpochState state) {
  bool lacks_survivor = false;  // the start would wait for it
  for (std::size_t rank = 0; rank < members.lives.size(); ++rank)
    lacks_survivor |= led_->seats[rank] == Seat::survivor && !members.lives[rank];
  switch (state) {
    case EpochState::adopted: break;  // seat_adopted
    case EpochState::none: return give_up(true);
    case EpochState::broken: UCFT_SOMETIMES("an epoch breaks before it is adopted"); return give_up(false);
    case EpochState::starting:
      if (led_->has_lost) UCFT_SOMETIMES("a newcomer is lost while its epoch begins");
      if (lacks_survivor) UCFT_SOMETIMES("a survivor is lost while an epoch with newcomers begins");
      if (led_->has_lost || lacks_survivor) return {.kind = Step::Kind::end_start};
      return {};
    case EpochState::ready: break;
  }
  const auto seats = static_cast<std::int32_t>(led_->seats.size());
  const bool has_seat =
      lacks_survivor || std::ranges::count(led_->seats, Seat::absent) > 0 || seats < members.most_seats;
  const bool has_more = has_seat && static_cast<std::size_t>(waiting()) > led_->seat_of.size();
  if ((led_->has_lost || has_more) && UCFT_SOMETIMES("an epoch begins anew for other newcomers")) return give_up(false);
  const bool is_too_large = seats > std::max(members.most_seats, static_cast<std::int32_t>(members.lives.size()));
  if (is_too_large && UCFT_SOMETIMES("an epoch has more seats than are asked for")) return give_up(false);
  return {};
}

// Newcomers may be why a start fails. One that was in some such starts is sent away: it may ask again.
Sponsor::Step Sponsor::give_up(bool has_failed) {
  Step step{.kind = Step::Kind::give_up, .has_failed = has_failed};
  if (has_failed)
    for (const auto& [newcomer, seat] : led_->seat_of)
      if (const auto found = newcomers_.find(newcomer);
          found != newcomers_.end() && ++found->second.failures >= most_failures)
        step.newcomers.push_back(newcomer);
  led_.reset();
  return step;
}

Sponsor::Step Sponsor::look_for_start(const EpochMembers& members) {
  Step step;
  if (members.lowest() != members.me && UCFT_SOMETIMES("a sponsor of newcomers is none any more")) {
    step.kind = Step::Kind::turn_away;
    for (const auto& [newcomer, each] : newcomers_)
      if (!each.is_seated) step.newcomers.push_back(newcomer);
    return step;
  }
  std::vector<Applicant> applicants;
  std::vector<Connection> connections;
  for (const auto& [newcomer, each] : newcomers_) {
    if (each.is_seated) continue;
    applicants.push_back(each.applicant);
    connections.push_back(newcomer);
  }
  std::vector<bool> free = members.lives;
  free.flip();
  const std::vector<std::int32_t> seats = seats_for(applicants, free, members.hosts, members.most_seats);
  for (const bool lives : members.lives) step.seats.push_back(lives ? Seat::survivor : Seat::absent);
  for (std::size_t i = 0; i < seats.size(); ++i) {
    if (seats[i] < 0) continue;
    const auto seat = static_cast<std::size_t>(seats[i]);
    if (seat >= step.seats.size() && UCFT_SOMETIMES("an epoch has more seats than the last"))
      step.seats.resize(seat + 1, Seat::newcomer);
    step.seats[seat] = Seat::newcomer;
    step.seat_of[connections[i]] = seats[i];
  }
  if (!step.seat_of.empty()) step.kind = Step::Kind::begin;  // else no seat is free
  return step;
}

std::uint64_t Sponsor::hash() const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](auto value) {
    hash = (hash ^ (hash >> 29) ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
  };
  for (const auto& [newcomer, each] : newcomers_) {
    mix(newcomer << 8 | each.failures << 1 | (each.is_seated ? 1 : 0));
    for (const std::uint64_t start : each.starts) mix(start);
  }
  mix(led_ ? led_->start << 1 | (led_->has_lost ? 1 : 0) : 0);
  if (led_)
    for (const auto& [newcomer, seat] : led_->seat_of) mix(newcomer << 8 | seat);
  return hash;
}

void Sponsor::begun(std::uint64_t start, const Step& step) {
  led_ = Led{start, step.seats, step.seat_of};
  for (const auto& [newcomer, seat] : step.seat_of) {
    std::vector<std::uint64_t>& starts = newcomers_.at(newcomer).starts;
    starts.push_back(start);
    if (starts.size() > starts_kept) starts.erase(starts.begin());
  }
}

}  // namespace ucft::detail

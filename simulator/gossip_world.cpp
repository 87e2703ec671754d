#include "simulator/gossip_world.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ucft::detail::simulator {

GossipWorld::GossipWorld(const GossipWorldPlan& plan) : plan_(plan), random_(mixed(plan.seed, 0x676f73736970u)) {
  const Rank n = plan.call.plan.neighbourhood.ranks;
  nodes_.resize(static_cast<std::size_t>(n));
  windows_.resize(static_cast<std::size_t>(n * n));
  channels_.resize(windows_.size());
  turns_told_.resize(windows_.size());
  for (const GossipCrash& crash : plan.crashes) at(crash.rank).dies_after = crash.after_sends;
  for (Rank rank = 0; rank < n; ++rank) {
    if (std::ranges::find(plan.late, rank) == plan.late.end()) come(rank);
  }
}

// Posts. It knows some of those that have died.
void GossipWorld::come(Rank rank) {
  Node& node = at(rank);
  std::vector<double> input(plan_.call.count);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = this->input(rank, i);
  std::vector<Rank> known;
  std::erase_if(node.unheard, [&](Rank dead) {
    if (random_.below(2) == 0) return false;
    known.push_back(dead);
    return true;
  });
  Operation& operation =
      node.operation.emplace(plan_.call, GossipSeat{rank, ranks(), 0, plan_.hosts}, input, known, plan_.faults);
  operation.start(operation.one_sided().is_possible() ? take_windows(rank) : WindowObjection::none, sends_);
  carry_out(rank);
}

bool GossipWorld::run(std::int64_t max_events) {
  for (std::int64_t i = 0; i < max_events; ++i) {
    collect_events();
    if (pending_.empty()) return true;
    ++events_;
    happen(pending_[random_.below(pending_.size())]);
  }
  return false;
}

// Turns of ranks that have finished are none.
void GossipWorld::collect_events() {
  using What = Event::What;
  pending_.clear();
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const Node& node = at(rank);
    if (!node.alive || (node.operation && node.operation->finished())) continue;
    if (!node.operation) {
      const auto place = std::ranges::find(plan_.late, rank) - plan_.late.begin();
      if (events_ >= plan_.late_by * (place + 1)) pending_.push_back({What::come, rank});
      continue;
    }
    pending_.push_back({What::turn, rank});
    for (Rank dead : node.unheard) pending_.push_back({What::failure, rank, dead});
    if (node.has_contributed && agreements_[node.agreed].is_complete) pending_.push_back({What::agreement, rank});
    for (Rank other = 0; other < ranks(); ++other) {
      if (!channel(other, rank).empty()) pending_.push_back({What::letter, rank, other});
      const int link = node.operation->one_sided().is_possible() ? link_of(rank, other) : -1;
      if (link < 0) continue;
      const Window& theirs = window(other, rank);
      if (theirs.written > theirs.read && !node.operation->epoch().is_ahead(theirs.state.tag))
        pending_.push_back({What::look, rank, other});
      if (!node.operation->links()->is_clear(link) && can_write(rank, other))
        pending_.push_back({What::clear, rank, other});
    }
  }
}

void GossipWorld::happen(const Event& event) {
  if (event.what == Event::What::come) return come(event.rank);
  Node& node = at(event.rank);
  Operation& operation = *node.operation;
  switch (event.what) {
    case Event::What::turn: operation.on_turn(std::chrono::microseconds(events_), sends_); break;
    case Event::What::letter: {
      const Letter letter = std::move(channel(event.other, event.rank).front());
      channel(event.other, event.rank).pop_front();
      if (letter.what == Letter::What::name)
        take_name(event.rank, letter);
      else
        take_message(event.other, event.rank, letter);
      break;
    }
    case Event::What::failure:
      std::erase(node.unheard, event.other);
      operation.on_failure(event.other, sends_);
      break;
    case Event::What::agreement: {
      const Agreement& agreed = agreements_[node.agreed++];
      node.has_contributed = false;
      operation.on_agreement({agreed.table, agreed.missing, agreed.contributors}, sends_);
      break;
    }
    case Event::What::look: look(event.rank, event.other); break;
    case Event::What::come: break;
    case Event::What::clear: operation.on_clear(link_of(event.rank, event.other), sends_); break;
  }
  carry_out(event.rank);
}

void GossipWorld::take_message(Rank from, Rank to, const Letter& letter) {
  note_turns(from, to, letter.message);
  at(to).operation->on_message(letter.message, letter.row, sends_);
}

// Of a link that both ends have met on the counts differ by one at most, or an end could wait for the other for ever.
void GossipWorld::note_turns(Rank from, Rank to, const GossipMessage& message) {
  if (!message.has(passes_turn) || message.number == 0) return;
  turns_told_[pair(from, to)] = {message.tag, message.number};
  const TurnsTold& back = turns_told_[pair(to, from)];
  if (back.tag != message.tag || back.turns == 0) return;
  const std::uint32_t more = std::max(back.turns, message.number), fewer = std::min(back.turns, message.number);
  if (problem_.empty() && more > fewer + 1)
    problem_ = fmt::format("rank {} has given rank {} {} turns, and got {}", from, to, message.number, back.turns);
}

// ---- what leaves a rank

bool GossipWorld::may_send(Rank rank) {
  Node& node = at(rank);
  if (node.alive && node.sends == node.dies_after) kill(rank);
  if (node.alive) ++node.sends;
  return node.alive;
}

void GossipWorld::kill(Rank rank) {
  at(rank).alive = false;
  for (Node& other : nodes_)
    if (other.alive) other.unheard.push_back(rank);
  complete_agreements();
}

void GossipWorld::carry_out(Rank rank) {
  Node& node = at(rank);
  if (node.begun != node.operation->epoch().begun() && !node.operation->is_gathering()) follow_beginnings(rank);
  flush(rank);
  if (node.alive && !node.operation->finished() && node.operation->wants_agreement() && !node.has_contributed)
    contribute(rank);
}

void GossipWorld::flush(Rank rank) {
  using What = GossipSends<double>::Send::What;
  for (const auto& each : sends_.sends()) {
    if (!may_send(rank)) break;
    const auto row = sends_.at(each.row);
    if (each.what == What::show) {
      write(rank, each.link, each.state, row);
      continue;
    }
    Letter letter{Letter::What::message, each.message, {row.begin(), row.end()}};
    letter.message.peer = rank;
    if (at(each.message.peer).alive) channel(rank, each.message.peer).push_back(std::move(letter));
    if (each.link >= 0 && !row.empty()) at(rank).operation->on_clear(each.link, sends_);
  }
  sends_.clear();
}

// ---- agreements: everybody alive takes part in them, in the same order

void GossipWorld::contribute(Rank rank) {
  if (!may_send(rank)) return;
  Node& node = at(rank);
  node.has_contributed = true;
  if (agreements_.size() == node.agreed) agreements_.emplace_back().tables.resize(nodes_.size());
  agreements_[node.agreed].tables[static_cast<std::size_t>(rank)] = node.operation->table();
  complete_agreements();
}

// A table that a dead rank has given before is part of the agreement or not, by chance.
void GossipWorld::complete_agreements() {
  for (std::size_t number = 0; number < agreements_.size(); ++number) {
    Agreement& agreement = agreements_[number];
    if (agreement.is_complete) continue;
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (at(rank).alive && agreement.tables[static_cast<std::size_t>(rank)].empty()) return;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      const std::vector<double>& table = agreement.tables[static_cast<std::size_t>(rank)];
      if (table.empty() || (!at(rank).alive && random_.below(2) == 0)) {
        agreement.missing.push_back(rank);
        continue;
      }
      ++agreement.contributors;
      if (agreement.table.empty()) agreement.table = table;
      for (std::size_t i = 0; i < table.size(); ++i) agreement.table[i] = std::max(agreement.table[i], table[i]);
    }
    agreement.is_complete = true;
  }
}

// ---- RMA windows

// -1: there is none, or it is dead.
int GossipWorld::link_of(Rank rank, Rank other) const {
  const GossipLinks<double>* links = at(rank).operation->links();
  const int link = links == nullptr ? -1 : links->link_of(other);
  return link >= 0 && links->state().is_live(link) ? link : -1;
}

// The reader has told that it has read the last one.
bool GossipWorld::can_write(Rank from, Rank to) {
  const Window& mine = window(from, to);
  return mine.connected && mine.generation == mine.generation_there && mine.told == mine.writes;
}

void GossipWorld::write(Rank rank, int link, const GossipLinkState& state, ConstMass<double> row) {
  const Rank to = at(rank).operation->neighbours()[static_cast<std::size_t>(link)];
  Window& mine = window(rank, to);
  ++mine.writes;
  if (mine.generation != mine.generation_there) return;  // the other end has other memory by now
  mine.state = state;
  if (!row.empty()) mine.row.assign(row.begin(), row.end());
  mine.written = mine.writes;
  window(to, rank).told = window(to, rank).read;
}

// How far this rank has read: by a store into the other end's memory, of which it must know.
void GossipWorld::tell(Rank rank, Rank from) {
  if (window(rank, from).connected) window(from, rank).told = window(from, rank).read;
}

void GossipWorld::look(Rank rank, Rank from) {
  Operation& operation = *at(rank).operation;
  Window& theirs = window(from, rank);
  const int link = link_of(rank, from);
  const GossipLinkState state = theirs.state;
  const std::vector<double> row = theirs.row;
  theirs.read = theirs.written;
  operation.on_shown(link, state, row, can_write(rank, from), sends_);
  flush(rank);
  if (at(rank).alive && !(operation.is_pushing() && operation.links()->has_turn(link))) tell(rank, from);
}

// A rank that was a neighbour before keeps its window.
WindowObjection GossipWorld::take_windows(Rank rank) {
  Node& node = at(rank);
  const std::vector<Rank>& neighbours = node.operation->neighbours();
  for (Rank end : node.window_ends) {
    if (std::find(neighbours.begin(), neighbours.end(), end) != neighbours.end()) continue;
    window(rank, end).connected = false;
  }
  for (Rank neighbour : neighbours) {
    if (std::find(node.window_ends.begin(), node.window_ends.end(), neighbour) != node.window_ends.end()) continue;
    Window& memory = window(neighbour, rank);
    ++memory.generation;
    memory.written = memory.read = memory.told = 0;
  }
  node.window_ends = neighbours;
  if (plan_.only_messages && !neighbours.empty()) return WindowObjection::unsupported;
  return rank == plan_.objects ? WindowObjection::no_memory : WindowObjection::none;
}

void GossipWorld::follow_beginnings(Rank rank) {
  Node& node = at(rank);
  Operation& operation = *node.operation;
  node.begun = operation.epoch().begun();
  if (!operation.one_sided().is_possible()) return;
  take_windows(rank);
  send_names(rank);
  const std::vector<Letter> kept = std::exchange(node.kept, {});
  for (const Letter& each : kept)
    if (node.alive) take_name(rank, each);
}

void GossipWorld::send_names(Rank rank) {
  Node& node = at(rank);
  for (Rank neighbour : node.window_ends) {
    if (link_of(rank, neighbour) < 0 || !may_send(rank)) continue;
    tell(rank, neighbour);
    Letter letter{Letter::What::name, {}, {}, window(neighbour, rank).generation};
    letter.message.peer = rank;
    letter.message.tag = node.operation->epoch().tag();
    if (at(neighbour).alive) channel(rank, neighbour).push_back(letter);
  }
}

void GossipWorld::take_name(Rank rank, const Letter& letter) {
  Operation& operation = *at(rank).operation;
  if (operation.is_early(letter.message.tag)) return at(rank).kept.push_back(letter);
  if (!operation.epoch().is_now(letter.message.tag) || !operation.one_sided().is_possible() ||
      link_of(rank, letter.message.peer) < 0)
    return;
  if (rank == plan_.refuses) return operation.refuse_windows(rank, sends_);
  Window& mine = window(rank, letter.message.peer);
  if (mine.connected) return;
  mine.connected = true;
  mine.generation_there = letter.generation;
  mine.writes = 0;
  tell(rank, letter.message.peer);  // what was read before
}

// ---- promises

std::string GossipWorld::check() const {
  if (!problem_.empty()) return problem_;
  const Operation* first = nullptr;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (!alive(rank)) continue;
    const Operation& mine = operation(rank);
    if (!mine.finished()) return fmt::format("rank {} does not end", rank);
    if (first == nullptr) first = &mine;
    if (mine.outcome().end != first->outcome().end)
      return fmt::format("rank {} ends as {}, others as {}", rank, static_cast<int>(mine.outcome().end),
                         static_cast<int>(first->outcome().end));
    if (mine.outcome().end != GossipEnd::success) continue;
    if (!std::ranges::equal(mine.result(), first->result()))
      return fmt::format("rank {} has {}, others {}", rank, mine.result(), first->result());
    const GossipOutcome &one = mine.outcome(), &other = first->outcome();
    if (one.error_bound != other.error_bound || one.contributors != other.contributors || one.answer != other.answer ||
        one.stages != other.stages || one.live != other.live || one.one_sided != other.one_sided ||
        mine.outcome().missing != first->outcome().missing)
      return fmt::format("rank {} tells another story: bound {} {}, contributors {} {}, stages {} {}", rank,
                         one.error_bound, other.error_bound, one.contributors, other.contributors, one.stages,
                         other.stages);
    if (mine.outcome().missing[static_cast<std::size_t>(rank)]) return fmt::format("rank {}, alive, is missing", rank);
    if (one.contributors != std::count(mine.outcome().missing.begin(), mine.outcome().missing.end(), false))
      return fmt::format("{} contributors", one.contributors);
    if (one.reached != (one.error_bound <= plan_.call.eps))
      return fmt::format("bound {}, reached {}", one.error_bound, one.reached);
    if (plan_.call.adaptive && plan_.inputs.empty() && !one.reached && !goes_by_rounds(plan_.call.plan.algorithm))
      return fmt::format("bound {} after {} stages", one.error_bound, one.stages);
  }
  if (first == nullptr || first->outcome().end != GossipEnd::success) return "";
  const GossipOutcome& outcome = first->outcome();
  if (std::isinf(outcome.error_bound)) return "";
  long double worst = 0, largest = 0;
  const bool is_nearly = outcome.answer == GossipStandsFor::nearly_all_ranks;
  const int deaths = ranks() - static_cast<int>(outcome.live);
  for (std::size_t i = 0; i < plan_.call.count; ++i) {
    double low = input(0, i), high = low;
    long double sum = 0;
    double extreme = std::numeric_limits<double>::quiet_NaN();
    for (Rank rank = 0; rank < ranks(); ++rank) {
      low = std::min(low, input(rank, i));
      high = std::max(high, input(rank, i));
      if (outcome.missing[static_cast<std::size_t>(rank)]) continue;
      sum += static_cast<long double>(input(rank, i));
      extreme = extreme_of(plan_.call.plan.extremum, extreme, input(rank, i));
    }
    const long double truth = plan_.call.is_extremum() ? static_cast<long double>(extreme)
                              : plan_.call.sum         ? sum
                                                       : sum / outcome.contributors;
    const double result = first->result()[i];
    worst = std::max(worst, std::abs(static_cast<long double>(result) - truth));
    largest = std::max(largest, std::abs(truth));
    if (!is_nearly) continue;
    // Each death leaves it off by as much as the dead rank was off, which is at most the width of what was given.
    const double mean = plan_.call.sum ? result / outcome.contributors : result;
    const double room = (high - low) * std::max(0, deaths - 1);
    if (!(mean >= low - room && mean <= high + room))
      return fmt::format("element {} is {}, outside all that was given", i, mean);
  }
  if (!is_nearly && !(worst <= static_cast<long double>(outcome.error_bound) * largest))
    return fmt::format("off by {}, the bound is {} of {}", static_cast<double>(worst), outcome.error_bound,
                       static_cast<double>(largest));
  return "";
}

}  // namespace ucft::detail::simulator

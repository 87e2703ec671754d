// See departures_world.hpp.
#include "simulator/departures_world.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {
namespace {

constexpr Departures::Time suspect_after = std::chrono::seconds(1);

std::uint8_t bit(Departures::Rank rank) { return static_cast<std::uint8_t>(1u << rank); }

}  // namespace

std::uint64_t links(std::initializer_list<int> from, std::initializer_list<int> to) {
  std::uint64_t links = 0;
  for (const int a : from)
    for (const int b : to) links |= std::uint64_t{1} << (8 * a + b);
  return links;
}

std::uint64_t links_between(std::initializer_list<int> some, std::initializer_list<int> others) {
  return links(some, others) | links(others, some);
}

DeparturesWorld::DeparturesWorld(const DeparturesPlan& plan) : plan_(&plan) {
  const auto ranks = plan.host_of.size();
  assert(ranks <= 8 && plan.faults.size() <= 32);
  processes_.resize(ranks);
  messages_.resize(ranks * ranks);
  lifelines_.resize(ranks * ranks);
  std::vector<LifelineEnds> lifelines;
  for (Rank rank = 0; rank < size(); ++rank)
    for (Rank other = rank + 1; other < size(); ++other)
      if (have_lifeline(rank, other)) lifelines.emplace_back(rank, other);
  for (Rank rank = 0; rank < size(); ++rank) {
    at(rank).departures = Departures(rank, plan.host_of, {.suspect_after = suspect_after, .fence = plan.fence});
    if (is_absent(rank)) {
      at(rank).dead = true;
      continue;
    }
    at(rank).departures.begin_without(plan.absent);
    for (Rank other = 0; other < size(); ++other)
      if (is_absent(other)) at(rank).proved |= bit(other);
    at(rank).departures.watch_along(lifelines);
    if (plan.in_a_ring) at(rank).departures.tell_along(near(rank));
  }
}

std::vector<std::vector<DeparturesWorld::Rank>> DeparturesWorld::near(Rank rank) const {
  const std::vector<std::uint64_t>& hosts = plan_->host_of;
  const std::uint64_t mine = hosts[static_cast<std::size_t>(rank)];
  std::vector<std::vector<Rank>> near(1);
  for (std::uint64_t host = 0; host <= *std::ranges::max_element(hosts); ++host) {
    std::vector<Rank>& group = host == mine ? near[0] : near.emplace_back();
    for (Rank each = 0; each < size(); ++each)
      if (hosts[static_cast<std::size_t>(each)] == host && !is_absent(each)) group.push_back(each);
    if (host != mine && !are_near(host, mine)) near.pop_back();
  }
  return near;
}

bool DeparturesWorld::are_near(std::uint64_t host, std::uint64_t other) const {
  const std::uint64_t apart = host < other ? other - host : host - other;
  return !plan_->in_a_ring || apart <= 1 || apart == *std::ranges::max_element(plan_->host_of);
}

// Of each host the first two are, and whoever has become one of them.
bool DeparturesWorld::are_connected(Rank a, Rank b) const {
  return are_near(plan_->host_of[static_cast<std::size_t>(a)], plan_->host_of[static_cast<std::size_t>(b)]);
}

bool DeparturesWorld::have_lifeline(Rank a, Rank b) const {
  const Rank apart = std::abs(a - b);
  return !is_here(a, b) && !is_absent(a) && !is_absent(b) && std::min(apart, size() - apart) <= plan_->reach;
}

bool DeparturesWorld::is_cut(Rank from, Rank to) const {
  const std::uint64_t a = plan_->host_of[static_cast<std::size_t>(from)],
                      b = plan_->host_of[static_cast<std::size_t>(to)];
  return (cut_ >> (8 * a + b) & 1) != 0;
}

// Of another host: no heartbeat comes. A rank sends none to a rank that it has declared dead. A rank that is out says
// so instead.
bool DeparturesWorld::is_unheard(Rank by, Rank of) const {
  const Process& other = at(of);
  if (!is_cut(of, by) && !channel(lifelines_, of, by).empty()) return false;
  if (is_cut(of, by) || other.dead || other.suspended || other.has_left) return true;
  return ((other.suspected | other.proved) & bit(by)) != 0 && !other.departures.is_out();
}

// ---- what may happen ------------------------------------------------------------------------------------------------

bool DeparturesWorld::is_enabled(const Fault& fault) const {
  switch (fault.kind) {
    case Fault::Kind::power_off:
    case Fault::Kind::cut: return true;
    case Fault::Kind::heal: return (cut_ & fault.links) == fault.links;
    case Fault::Kind::resume: return at(fault.rank).suspended;
    case Fault::Kind::die:
    case Fault::Kind::die_losing: return !at(fault.rank).dead;
    case Fault::Kind::suspect: return takes_part(fault.rank) && !at(fault.rank).departures.is_gone(fault.other);
    case Fault::Kind::suspend: return runs(fault.rank);
    case Fault::Kind::leave: return runs(fault.rank) && !at(fault.rank).is_leaving;
  }
  return false;
}

// While a rank has heard something and not drawn its conclusions, nothing else needs to happen. The others' steps could
// as well be done before or after. It may hear more, so that it judges that together.
std::vector<DeparturesWorld::Event> DeparturesWorld::enabled() const {
  std::vector<Event> events;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!at(rank).turn_due) continue;
    events_of(rank, true, events);
    if (!plan_->prompt) slow_events_of(rank, events);
    events.push_back({Event::Kind::turn, static_cast<std::int8_t>(rank)});
    return events;
  }
  for (Rank rank = 0; rank < size(); ++rank) events_of(rank, false, events);
  if (events.empty() || !plan_->prompt)
    for (Rank rank = 0; rank < size(); ++rank) slow_events_of(rank, events);
  for (std::size_t i = 0; i < plan_->faults.size(); ++i)
    if ((faults_done_ >> i & 1) == 0 && is_enabled(plan_->faults[i]))
      events.push_back({Event::Kind::fault, -1, static_cast<std::int8_t>(i)});
  return events;
}

// All that are to hear it have: those that run, and can.
bool DeparturesWorld::may_go(Rank rank) const { return have_heard(rank, true); }
// All ranks that it counts on, even those that it can't reach.
bool DeparturesWorld::have_all_heard(Rank rank) const { return at(rank).is_leaving && have_heard(rank, false); }

bool DeparturesWorld::have_heard(Rank rank, bool excuses) const {
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank || at(other).dead || at(other).has_left || at(rank).departures.is_gone(other)) continue;
    const bool is_reachable =
        takes_part(other) && !is_cut(rank, other) && are_connected(rank, other) && (at(rank).lost & bit(other)) == 0;
    if ((at(other).told_leaving & bit(rank)) == 0 && (is_reachable || !excuses)) return false;
  }
  return true;
}

void DeparturesWorld::events_of(Rank rank, bool of_turn, std::vector<Event>& events) const {
  if (!takes_part(rank)) return;
  const Process& process = at(rank);
  const auto add = [&](Event::Kind kind, Rank other) {
    events.push_back({kind, static_cast<std::int8_t>(rank), static_cast<std::int8_t>(other)});
  };
  if (process.excluded_mark && !of_turn) add(Event::Kind::look, rank);
  if (process.is_leaving && !of_turn && may_go(rank)) add(Event::Kind::go, -1);
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    if (!is_cut(other, rank) && !channel(messages_, other, rank).empty()) add(Event::Kind::message, other);
    if (!is_cut(other, rank) && !channel(lifelines_, other, rank).empty()) add(Event::Kind::lifeline, other);
    const bool here = is_here(rank, other), gone = process.departures.is_gone(other);
    if (here && at(other).dead && (process.proved & bit(other)) == 0) add(Event::Kind::death, other);
    if (here && plan_->shares_memory && at(other).mark != Mark::none && !of_turn &&
        (!gone ||
         (at(other).mark == Mark::out && !process.departures.is_proved(other) && !process.departures.has_left(other))))
      add(Event::Kind::look, other);
    const bool closed = (at(other).lost & bit(rank)) != 0 || at(other).departures.is_gone(rank);
    const bool broken =
        is_cut(rank, other) || is_cut(other, rank) || at(other).dead || (at(other).has_left && plan_->prompt) || closed;
    if (plan_->connections_break && !here && are_connected(rank, other) && broken && !gone &&
        (process.lost & bit(other)) == 0)
      add(Event::Kind::connection_lost, other);
  }
}

void DeparturesWorld::slow_events_of(Rank rank, std::vector<Event>& events) const {
  if (!takes_part(rank)) return;
  const Process& process = at(rank);
  const auto add = [&](Event::Kind kind, Rank other) {
    events.push_back({kind, static_cast<std::int8_t>(rank), static_cast<std::int8_t>(other)});
  };
  bool afar = false;
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank || ((process.suspected | process.proved | process.leaving) & bit(other)) != 0) continue;
    if (have_lifeline(rank, other))
      afar = afar || is_unheard(rank, other);
    else if (is_here(rank, other) && at(other).suspended && !at(other).dead && at(other).mark == Mark::none)
      add(Event::Kind::silence, other);
  }
  if (afar) add(Event::Kind::silence, -1);
  if (process.departures.is_waiting() && !process.turn_due) add(Event::Kind::timer, -1);
}

void DeparturesWorld::carry_out(const Event& event) {
  const std::vector<std::uint32_t> before = standings();
  const Rank rank = event.rank, other = event.other;
  if (event.kind != Event::Kind::fault) at(rank).turn_due = event.kind != Event::Kind::turn;
  const auto pop = [&](std::vector<Channel>& all) {
    const Word word = channel(all, other, rank).front();
    channel(all, other, rank).erase(channel(all, other, rank).begin());
    return word;
  };
  switch (event.kind) {
    case Event::Kind::fault:
      faults_done_ |= 1u << event.other;
      harm(plan_->faults[static_cast<std::size_t>(event.other)]);
      break;
    case Event::Kind::message: take(rank, other, pop(messages_)); break;
    case Event::Kind::lifeline: hear(rank, other, pop(lifelines_)); break;
    case Event::Kind::turn: take_turn(rank); break;
    case Event::Kind::death:
      at(rank).proved |= bit(other);
      at(rank).departures.on_verdict(other, true);
      break;
    case Event::Kind::silence: find_silent(rank, other); break;
    case Event::Kind::look:
      if (other != rank) {
        at(rank).departures.on_mark(other, at(other).mark);
      } else {
        at(rank).excluded_mark = false;
        at(rank).departures.on_excluded_mark(-1);
      }
      break;
    case Event::Kind::timer: at(rank).now += suspect_after; break;
    case Event::Kind::go:
      at(rank).turn_due = false;
      leave(rank);
      break;
    case Event::Kind::connection_lost:
      at(rank).lost |= bit(other);
      channel(messages_, rank, other).clear();
      if (at(other).has_left) channel(messages_, other, rank).clear();  // its last word, too
      at(rank).departures.on_connection_lost(other, at(rank).now);
      break;
  }
  check_step(before);
}

// ---- what it does ---------------------------------------------------------------------------------------------------

void DeparturesWorld::send(Rank from, Rank to, Word word) {
  if (!are_connected(from, to)) return;
  if (at(to).dead || at(to).has_left || at(to).departures.is_out() || (at(from).lost & bit(to)) != 0) return;
  channel(messages_, from, to).push_back(word);
}

void DeparturesWorld::say(Rank from, Rank to, Word word) {
  if (!have_lifeline(from, to) || at(to).dead || at(to).has_left || at(to).departures.is_out()) return;
  channel(lifelines_, from, to).push_back(word);
}

void DeparturesWorld::take(Rank rank, Rank from, Word word) {
  Departures& departures = at(rank).departures;
  if (departures.is_gone(from) && !is_here(rank, from)) return;  // its connection is closed
  if (word.kind == Word::Kind::alarm) departures.on_word(from, word.about, word.proved);
  if (word.kind == Word::Kind::excluded) departures.on_excluded_word(from);
  if (word.kind == Word::Kind::leaving) {
    departures.on_leaving(from);
    at(rank).told_leaving |= bit(from);
  }
  if (word.kind == Word::Kind::leave) departures.on_leave_word(from, word.all_know);
  if (word.kind == Word::Kind::left) departures.on_left_word(word.about, word.all_know, at(rank).now);
}

// As DetectorThread::listen_afar().
void DeparturesWorld::hear(Rank rank, Rank from, Word word) {
  Process& process = at(rank);
  if (word.kind == Word::Kind::excluded) return process.departures.on_excluded_word(from);
  if (word.kind == Word::Kind::leave) {
    process.leaving |= bit(from);
    return process.departures.on_lifeline_leave(from, word.all_know, process.now);
  }
  if ((process.proved & bit(from)) != 0 || (word.kind == Word::Kind::end && (process.leaving & bit(from)) != 0)) return;
  process.proved |= bit(from);
  if (word.kind == Word::Kind::out)
    process.departures.on_lifeline_out(from);
  else
    process.departures.on_verdict(from, true);
}

void DeparturesWorld::harm(const Fault& fault) {
  const auto touches = [&](Rank rank) {
    const int host = static_cast<int>(plan_->host_of[static_cast<std::size_t>(rank)]);
    std::uint64_t of_host = std::uint64_t{0xff} << (8 * host);
    for (int from = 0; from < 8; ++from) of_host |= std::uint64_t{1} << (8 * from + host);
    return rank == fault.rank || rank == fault.other || host == fault.host || (fault.links & of_host) != 0;
  };
  if (fault.kind != Fault::Kind::leave)
    for (Rank rank = 0; rank < size(); ++rank) at(rank).was_harmed |= touches(rank);
  switch (fault.kind) {
    case Fault::Kind::die: return kill(fault.rank, true, false);
    case Fault::Kind::die_losing: return kill(fault.rank, true, true);
    case Fault::Kind::power_off:
      for (Rank rank = 0; rank < size(); ++rank)
        if (static_cast<int>(plan_->host_of[static_cast<std::size_t>(rank)]) == fault.host) kill(rank, false, true);
      return;
    case Fault::Kind::suspend: at(fault.rank).suspended = true; return;
    case Fault::Kind::resume: at(fault.rank).suspended = false; return;
    case Fault::Kind::cut: cut_ |= fault.links; return;
    case Fault::Kind::heal: cut_ &= ~fault.links; return;
    case Fault::Kind::leave: return say_that_it_leaves(fault.rank);
    case Fault::Kind::suspect:
      at(fault.rank).suspected |= bit(fault.other);
      at(fault.rank).departures.on_verdict(fault.other, false);
      at(fault.rank).turn_due = true;
  }
}

void DeparturesWorld::say_that_it_leaves(Rank rank) {
  Process& process = at(rank);
  if (process.departures.is_out()) return leave(rank);
  process.is_leaving = true;
  process.departures.leave();
  for (Rank other = 0; other < size(); ++other)
    if (other != rank && !process.departures.is_gone(other)) send(rank, other, {Word::Kind::leaving});
}

void DeparturesWorld::leave(Rank rank) {
  Process& process = at(rank);
  const bool all_know = have_all_heard(rank);
  if (process.mark == Mark::none) {  // else it is out
    process.mark = all_know ? Mark::left : Mark::left_early;
    for (Rank other = 0; other < size(); ++other) at(other).is_ready |= !process.departures.is_gone(other);
  }
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    const bool by_message = !is_here(rank, other) || !plan_->shares_memory;
    const Word word{.kind = Word::Kind::leave, .all_know = all_know};
    if (by_message && !process.departures.is_gone(other)) send(rank, other, word);
    say(rank, other, word);
    say(rank, other, {Word::Kind::end});
  }
  process.has_left = true;
}

void DeparturesWorld::kill(Rank rank, bool kernel_tells, bool loses) {
  Process& process = at(rank);
  if (process.dead) return;
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    if (loses) channel(messages_, rank, other).clear();
    if (!kernel_tells) channel(lifelines_, rank, other).clear();
    if (kernel_tells && !process.has_left) say(rank, other, {Word::Kind::end});
    channel(messages_, other, rank).clear();
    channel(lifelines_, other, rank).clear();
  }
  process.dead = true;
  process.turn_due = process.suspended = false;
}

void DeparturesWorld::find_silent(Rank rank, Rank other) {
  Process& process = at(rank);
  if (other >= 0 && plan_->fence) {
    process.turn_due = false;
    return kill(other, true, false);
  }
  for (Rank each = 0; each < size(); ++each) {
    const bool is_meant = other >= 0 ? each == other : have_lifeline(rank, each) && is_unheard(rank, each);
    if (!is_meant || ((process.suspected | process.proved | process.leaving) & bit(each)) != 0) continue;
    process.suspected |= bit(each);
    process.departures.on_verdict(each, false);
  }
}

void DeparturesWorld::take_turn(Rank rank) {
  Departures& departures = at(rank).departures;
  departures.on_turn(at(rank).now);
  while (const auto action = departures.next_action()) follow(rank, *action);
}

// As DeparturesDriver::carry_out().
void DeparturesWorld::follow(Rank rank, const Departures::Action& action) {
  using Kind = Departures::Action::Kind;
  Process& process = at(rank);
  const Rank other = action.rank;
  const bool by_memory = is_here(rank, other) && plan_->shares_memory;
  switch (action.kind) {
    case Kind::hear_out:  // of another host: what has come in time was taken before
      while (is_here(rank, other) && !channel(messages_, other, rank).empty()) {
        const Word word = channel(messages_, other, rank).front();
        channel(messages_, other, rank).erase(channel(messages_, other, rank).begin());
        take(rank, other, word);
        process.turn_due = true;
      }
      return process.departures.on_heard_out(other, by_memory ? at(other).mark : Mark::none);
    case Kind::fence: return kill(other, true, false);
    case Kind::tell_out:
      if (by_memory)
        at(other).excluded_mark = true;
      else
        send(rank, other, {Word::Kind::excluded});
      return say(rank, other, {Word::Kind::excluded});
    case Kind::depart: return;
    case Kind::announce:
      return send(rank, other,
                  {action.has_left ? Word::Kind::left : Word::Kind::alarm, static_cast<std::int8_t>(action.about),
                   action.proved, action.all_know});
    case Kind::exclude_self:
      process.mark = Mark::out;
      for (Rank each = 0; each < size(); ++each) {
        if (each == rank) continue;
        say(rank, each, {Word::Kind::out});
        channel(messages_, each, rank).clear();
        channel(lifelines_, each, rank).clear();
      }
  }
}

// ---- what must hold -------------------------------------------------------------------------------------------------

// Per rank: out, and of each other one whether it is proved, left, failed.
std::vector<std::uint32_t> DeparturesWorld::standings() const {
  std::vector<std::uint32_t> standings;
  for (const Process& process : processes_) {
    std::uint32_t standing = process.departures.is_out() ? 1u << 31 : 0;
    for (Rank other = 0; other < size(); ++other) {
      standing |= static_cast<std::uint32_t>(process.departures.is_proved(other)) << (3 * other);
      standing |= static_cast<std::uint32_t>(process.departures.has_left(other)) << (3 * other + 1);
      standing |= static_cast<std::uint32_t>(process.departures.has_failed(other)) << (3 * other + 2);
    }
    standings.push_back(standing);
  }
  return standings;
}

void DeparturesWorld::check_step(const std::vector<std::uint32_t>& before) {
  const std::vector<std::uint32_t> after = standings();
  for (Rank rank = 0; rank < size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if ((before[index] & ~after[index]) != 0) violation_ = fmt::format("rank {} has turned back what it knew", rank);
    for (Rank other = 0; other < size(); ++other) {
      const Process& process = at(other);
      const Departures& departures = at(rank).departures;
      const bool stopped = process.dead || process.has_left || process.departures.is_out();
      if (departures.is_proved(other) && !stopped)
        violation_ = fmt::format("rank {} has a proof against {}, which lives", rank, other);
      if (departures.has_left(other) && !process.has_left && !process.is_leaving)
        violation_ = fmt::format("rank {} believes that {} has left", rank, other);
      if (departures.has_left(other) && process.mark == Mark::out && !process.is_leaving)
        violation_ = fmt::format("rank {} believes that {}, which is out, has left", rank, other);
      if (departures.has_failed(other) && process.has_left && process.mark != Mark::out && !process.was_harmed &&
          !at(rank).was_harmed)
        violation_ = fmt::format("rank {} counts {}, which has left, as failed", rank, other);
    }
  }
}

void DeparturesWorld::check_end() {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!takes_part(rank)) continue;
    const Departures& departures = at(rank).departures;
    for (const Departures::Failure& each : Departures(departures).take_failures())
      if (is_absent(each.rank)) violation_ = fmt::format("rank {} reports {}, which is absent", rank, each.rank);
    for (Rank other = 0; other < size(); ++other) {
      if (other == rank) continue;
      const bool gone = departures.is_gone(other);
      if (is_absent(other) && !departures.has_failed(other))
        violation_ = fmt::format("rank {} counts {}, which is absent, among the others", rank, other);
      if (takes_part(other) && gone && !(at(rank).is_ready && at(other).is_ready))
        violation_ = fmt::format("ranks {} and {} both go on, and {} counts {} as gone", rank, other, rank, other);
      const bool is_owed = are_connected(rank, other) || !at(other).has_left || at(other).mark == Mark::out;
      if (!takes_part(other) && !gone && is_owed)
        violation_ = fmt::format("rank {} waits for {} for ever", rank, other);
    }
  }
}

int DeparturesWorld::going_on() const {
  int going_on = 0;
  for (Rank rank = 0; rank < size(); ++rank) going_on += takes_part(rank);
  return going_on;
}

bool DeparturesWorld::has_two_sides() const {
  for (Rank rank = 0; rank < size(); ++rank)
    for (Rank other = 0; other < rank; ++other)
      if (takes_part(rank) && takes_part(other) && at(rank).departures.has_failed(other) &&
          at(other).departures.has_failed(rank) && !(at(rank).is_ready && at(other).is_ready))
        return true;
  return false;
}

std::string DeparturesWorld::text() const {
  std::string text;
  for (Rank rank = 0; rank < size(); ++rank) {
    const Process& process = at(rank);
    text += fmt::format("rank {} (host {}) {}", rank, plan_->host_of[static_cast<std::size_t>(rank)],
                        process.dead                  ? "is dead"
                        : process.has_left            ? "has left"
                        : process.suspended           ? "hangs"
                        : process.departures.is_out() ? "is out"
                                                      : "goes on without");
    for (Rank other = 0; other < size() && takes_part(rank); ++other)
      if (process.departures.is_gone(other)) text += fmt::format(" {}", other);
    text += "; ";
  }
  return text;
}

std::string DeparturesWorld::text_of(const Event& event) {
  constexpr const char* names[] = {"fault", "message", "lifeline",        "turn", "death", "silence",
                                   "look",  "timer",   "connection_lost", "go"};
  return fmt::format("{} {} {}", names[static_cast<int>(event.kind)], event.rank, event.other);
}

std::uint64_t DeparturesWorld::hash() const {
  std::uint64_t hash = mixed(cut_, faults_done_);
  for (const Process& process : processes_) {
    hash = mixed(hash, process.departures.hash());
    hash = mixed(hash, static_cast<std::uint64_t>(process.now.count()));
    hash = mixed(hash, static_cast<std::uint64_t>(process.mark) | std::uint64_t{process.excluded_mark} << 2 |
                           std::uint64_t{process.dead} << 3 | std::uint64_t{process.suspended} << 4 |
                           std::uint64_t{process.has_left} << 5 | std::uint64_t{process.turn_due} << 6 |
                           std::uint64_t{process.was_harmed} << 7 | std::uint64_t{process.is_ready} << 40 |
                           std::uint64_t{process.is_leaving} << 41 | std::uint64_t{process.told_leaving} << 42 |
                           std::uint64_t{process.suspected} << 8 | std::uint64_t{process.proved} << 16 |
                           std::uint64_t{process.leaving} << 24 | std::uint64_t{process.lost} << 32);
  }
  for (const auto* channels : {&messages_, &lifelines_})
    for (const Channel& channel : *channels) {
      hash = mixed(hash, channel.size());
      for (const Word& word : channel)
        hash = mixed(hash, static_cast<std::uint64_t>(word.kind) | static_cast<std::uint64_t>(word.about + 1) << 8 |
                               std::uint64_t{word.proved} << 16 | std::uint64_t{word.all_know} << 17);
    }
  return hash;
}

}  // namespace ucft::detail::simulator

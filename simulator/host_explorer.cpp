#include "simulator/host_explorer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {

namespace {

struct Hash {
  std::size_t operator()(const HostWorld::Fingerprint& print) const { return print.a; }
};

class Search {
 public:
  explicit Search(bool compares) : compares_(compares) {}

  void run(const HostPlan& plan, std::int64_t max_states) {
    enter(HostWorld(plan), none, {});
    while (!open_.empty() && found.violation.empty()) {
      if (found.states >= max_states) {
        found.is_complete = false;
        return;
      }
      const auto [world, state] = std::move(open_.back());
      open_.pop_back();
      for (const HostWorld::Event& event : world.events()) {
        HostWorld next = world;
        next.happen(event);
        ++found.transitions;
        const std::string violation = next.violation();
        const std::uint32_t there = enter(std::move(next), state, event);
        if (event.what != HostWorld::Event::What::death && there != state) ways_.push_back({there, state});
        if (!violation.empty()) return report(violation, there);
      }
    }
    if (found.violation.empty()) look_for_the_stuck();
  }

  HostExploration found;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct State {
    std::uint32_t from;
    HostWorld::Event event;
  };
  struct Way {
    std::uint32_t to, from;
  };

  std::uint32_t enter(HostWorld world, std::uint32_t from, const HostWorld::Event& event) {
    const auto [place, is_new] = seen_.emplace(world.fingerprint(), static_cast<std::uint32_t>(states_.size()));
    if (!is_new) return place->second;
    states_.push_back({from, event});
    ++found.states;
    if (compares_) note_contents(world);
    if (world.is_over()) {
      ends_.push_back(place->second);
      ++found.ends;
      found.ends_of_several += world.alive() > 1;
    }
    open_.emplace_back(std::move(world), place->second);
    return place->second;
  }

  void note_contents(const HostWorld& world) {
    HostWorld::Fingerprint contents = world.outside();
    contents.a ^= static_cast<std::uint64_t>(world.is_over());
    if (!contents_.insert(contents).second) return;
    ++found.contents;
    found.sum_of_contents += mixed(contents.a, contents.b);
  }

  // Backwards from all ends.
  void look_for_the_stuck() {
    std::sort(ways_.begin(), ways_.end(), [](const Way& a, const Way& b) { return a.to < b.to; });
    std::vector<bool> reaches(states_.size());
    std::vector<std::uint32_t> open = ends_;
    for (std::uint32_t end : ends_) reaches[end] = true;
    while (!open.empty()) {
      const std::uint32_t state = open.back();
      open.pop_back();
      auto way =
          std::lower_bound(ways_.begin(), ways_.end(), state, [](const Way& a, std::uint32_t b) { return a.to < b; });
      for (; way != ways_.end() && way->to == state; ++way) {
        if (reaches[way->from]) continue;
        reaches[way->from] = true;
        open.push_back(way->from);
      }
    }
    for (std::uint32_t state = 0; state < states_.size(); ++state)
      if (!reaches[state]) return report("from here nobody gets to the end", state);
  }

  void report(const std::string& what, std::uint32_t state) {
    std::string way;
    for (; state != none; state = states_[state].from)
      if (states_[state].from != none) way = fmt::format(" {};{}", HostWorld::words(states_[state].event), way);
    found.violation = what + ":" + way;
  }

  const bool compares_;
  std::unordered_set<HostWorld::Fingerprint, Hash> contents_;
  std::unordered_map<HostWorld::Fingerprint, std::uint32_t, Hash> seen_;
  std::vector<State> states_;
  std::vector<Way> ways_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::pair<HostWorld, std::uint32_t>> open_;
};

}  // namespace

HostExploration explore(const HostPlan& plan, std::int64_t max_states, bool compares) {
  Search search(compares);
  search.run(plan, max_states);
  return search.found;
}

namespace {

constexpr std::int64_t longest_walk = 2000000;

// Of the ranks whose turns are chosen by their weights.
class Pace {
 public:
  Pace(Rank ranks, Random& random) : random_(random), weights_(static_cast<std::size_t>(ranks), 1) {}

  const HostWorld::Event& choose(const std::vector<HostWorld::Event>& events) {
    constexpr std::uint64_t some[] = {1, 30, 1000};
    if (random_.below(300) == 0)
      for (std::uint64_t& each : weights_) each = some[random_.below(3)];
    std::uint64_t all = 0;
    for (const HostWorld::Event& event : events) all += weight(event);
    std::uint64_t left = random_.below(all);
    for (const HostWorld::Event& event : events) {
      if (left < weight(event)) return event;
      left -= weight(event);
    }
    return events.back();
  }

 private:
  std::uint64_t weight(const HostWorld::Event& event) const { return weights_[static_cast<std::size_t>(event.rank)]; }

  Random& random_;
  std::vector<std::uint64_t> weights_;
};

// Steps from the begin to the end, or -1. deaths_at: descending.
std::int64_t walk_once(HostWorld& world, Rank ranks, std::vector<std::int64_t> deaths_at, Random& random) {
  Pace pace(ranks, random);
  std::int64_t steps = 0;
  for (; !world.is_over() && world.violation().empty(); ++steps) {
    if (steps == longest_walk) return -1;
    if (deaths_at.empty() || steps < deaths_at.back()) {
      const std::vector<HostWorld::Event> events = world.events();
      world.happen(pace.choose(events));
      continue;
    }
    deaths_at.pop_back();
    const Rank rank = static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks)));
    if (world.is_alive(rank) && world.alive() > 1) world.happen({HostWorld::Event::What::death, rank});
  }
  return steps;
}

}  // namespace

HostExploration walk(const HostPlan& plan, std::int64_t runs, std::uint64_t seed) {
  HostExploration found;
  HostPlan calm = plan;
  calm.max_deaths = 0;
  std::int64_t length = 1;  // of the first, in which no rank dies
  for (std::int64_t run = 0; run < runs && found.violation.empty(); ++run) {
    Random random(mixed(seed, static_cast<std::uint64_t>(run)));
    HostWorld world(calm);
    std::vector<std::int64_t> deaths_at(run == 0 ? 0 : random.below(static_cast<std::uint64_t>(plan.max_deaths) + 1));
    for (std::int64_t& each : deaths_at)
      each = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length)));
    std::sort(deaths_at.rbegin(), deaths_at.rend());
    const std::int64_t steps = walk_once(world, plan.ranks, deaths_at, random);
    if (run == 0) length = std::max<std::int64_t>(steps, 1);
    found.transitions += std::max<std::int64_t>(steps, 0);
    ++found.ends;
    found.ends_of_several += world.alive() > 1;
    found.violation = steps < 0 ? fmt::format("not at the end after {} steps", longest_walk) : world.violation();
    if (!found.violation.empty()) found.violation += fmt::format(" (seed {}, run {})", seed, run);
  }
  found.is_complete = false;
  return found;
}

}  // namespace ucft::detail::simulator

#include "simulator/host_explorer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/random.hpp"

namespace ucft::detail::simulator {

namespace {

struct Hash {
  std::size_t operator()(const HostWorld::Fingerprint& print) const { return print.a; }
};

class Search {
 public:
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
        if (event.what != HostWorld::Event::What::death) ways_.push_back({there, state});
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
    if (world.is_over()) {
      ends_.push_back(place->second);
      ++found.ends;
    }
    open_.emplace_back(std::move(world), place->second);
    return place->second;
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
      if (states_[state].from != none) way = " " + HostWorld::words(states_[state].event) + ";" + way;
    found.violation = what + ":" + way;
  }

  std::unordered_map<HostWorld::Fingerprint, std::uint32_t, Hash> seen_;
  std::vector<State> states_;
  std::vector<Way> ways_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::pair<HostWorld, std::uint32_t>> open_;
};

}  // namespace

HostExploration explore(const HostPlan& plan, std::int64_t max_states) {
  Search search;
  search.run(plan, max_states);
  return search.found;
}

HostExploration walk(const HostPlan& plan, std::int64_t runs, std::uint64_t seed) {
  HostExploration found;
  for (std::int64_t run = 0; run < runs && found.violation.empty(); ++run) {
    HostWorld world(plan);
    Random random(mixed(seed, static_cast<std::uint64_t>(run)));
    const std::uint64_t death_in = 1 + random.below(400);
    std::int64_t left = 2000000;
    while (!world.is_over() && world.violation().empty() && left-- > 0) {
      const std::vector<HostWorld::Event> events = world.events();
      const HostWorld::Event& event = events[random.below(events.size())];
      if (event.what == HostWorld::Event::What::death && random.below(death_in) != 0) continue;
      world.happen(event);
      ++found.transitions;
    }
    ++found.ends;
    if (!world.violation().empty()) found.violation = world.violation();
    if (left <= 0) found.violation = "not at the end after 2,000,000 steps";
    if (!found.violation.empty()) found.violation += fmt::format(" (seed {}, run {})", seed, run);
  }
  found.is_complete = false;
  return found;
}

}  // namespace ucft::detail::simulator

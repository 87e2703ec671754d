// Every order, or random ones, of a DeparturesWorld: see departures_world.hpp.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "collectives/core/random.hpp"
#include "simulator/departures_world.hpp"
#include "simulator/orders.hpp"

namespace ucft::detail::simulator {
namespace {

using Event = DeparturesWorld::Event;

constexpr std::int64_t enough_violations = 100;

std::string text_of(const DeparturesPlan& plan) {
  constexpr const char* names[] = {"die", "die_losing", "power_off", "suspend", "resume",
                                   "cut", "heal",       "leave",     "suspect"};
  std::string text = "hosts";
  for (const auto host : plan.host_of) text += fmt::format(" {}", host);
  text += fmt::format(", {}, {}, {}, {}; faults:", plan.fence ? "fence" : "no fence",
                      plan.shares_memory ? "shared memory" : "messages only",
                      fmt::format("connections {}, reach {}{}", plan.connections_break ? "break" : "hold", plan.reach,
                                  plan.in_a_ring ? ", in a ring" : ""),
                      plan.prompt ? "prompt" : "any delay");
  for (std::size_t rank = 0; rank < plan.absent.size(); ++rank)
    if (plan.absent[rank]) text += fmt::format(" {} is absent,", rank);
  for (const Fault& fault : plan.faults) {
    text += fmt::format(" {}", names[static_cast<int>(fault.kind)]);
    if (fault.rank >= 0) text += fmt::format(" {}", fault.rank);
    if (fault.other >= 0) text += fmt::format(" {}", fault.other);
    if (fault.host >= 0) text += fmt::format(" host {}", fault.host);
    for (int link = 0; link < 64; ++link)
      if ((fault.links >> link & 1) != 0) text += fmt::format(" {}>{}", link / 8, link % 8);
    text += ",";
  }
  return text;
}

void note(DeparturesExploration& result, const DeparturesPlan& plan, const DeparturesWorld& world,
          const std::vector<Event>& way, std::size_t& shortest, const std::string& name) {
  ++result.violations;
  if (way.size() >= shortest) return;
  shortest = way.size();
  result.first_violation =
      fmt::format("{}\n  {}\n  {}\n  {}\n  ", world.violation(), name, text_of(plan), world.text());
  for (const Event& event : way) result.first_violation += DeparturesWorld::text_of(event) + ", ";
}

}  // namespace

// A state that has been seen is known by its hash.
DeparturesExploration explore_departures(const DeparturesPlan& plan, std::int64_t most_states) {
  DeparturesExploration result;
  std::unordered_set<std::uint64_t> seen;
  std::size_t shortest = SIZE_MAX;
  const auto visit = [&](DeparturesWorld& world, const std::vector<Event>& way) -> std::vector<Event> {
    if (world.violation().empty() && !seen.insert(world.hash()).second) return {};
    ++result.states;
    result.two_sides += world.has_two_sides();
    std::vector<Event> events = world.enabled();
    if (events.empty()) {
      ++result.ends;
      result.nobody_went_on += world.going_on() == 0;
      if (world.violation().empty()) world.check_end();
    }
    if (world.violation().empty()) return events;
    note(result, plan, world, way, shortest, "explored");
    return {};
  };
  result.complete = try_every_order(DeparturesWorld(plan), visit, [&] {
    return result.states >= most_states || result.violations >= enough_violations;
  });
  return result;
}

DeparturesExploration walk_departures(const DeparturesPlan& plan, std::int64_t runs, std::uint64_t seed) {
  DeparturesExploration result;
  std::size_t shortest = SIZE_MAX;
  const auto is_end = [&](DeparturesWorld& world, const std::vector<Event>& events) {
    if (!events.empty()) return false;
    ++result.ends;
    result.nobody_went_on += world.going_on() == 0;
    world.check_end();
    return true;
  };
  for (std::int64_t run = 0; run < runs; ++run) {
    Random random(seed + static_cast<std::uint64_t>(run));
    DeparturesWorld world(plan);
    const std::vector<Event> way = take_some_order(world, random, is_end);
    result.states += static_cast<std::int64_t>(way.size());
    if (!world.violation().empty())
      note(result, plan, world, way, shortest, fmt::format("walk {}", seed + static_cast<std::uint64_t>(run)));
  }
  return result;
}

DeparturesPlan random_departures_plan(std::uint64_t seed) {
  Random random(mixed(seed, 1));
  const auto below = [&](std::size_t limit) { return static_cast<int>(random.below(limit)); };
  DeparturesPlan plan;
  const int ranks = 2 + below(5), hosts = 1 + below(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    plan.host_of.push_back(static_cast<std::uint64_t>(rank < hosts ? rank : below(static_cast<std::size_t>(hosts))));
  std::sort(plan.host_of.begin(), plan.host_of.end());
  plan.fence = below(3) != 0;
  plan.shares_memory = below(4) != 0;
  plan.connections_break = below(2) == 0;
  plan.prompt = below(3) != 0;
  if (plan.connections_break && below(3) == 0) plan.reach = 2;
  for (int faults = 1 + below(4); faults > 0; --faults) {
    const int rank = below(static_cast<std::size_t>(ranks));
    switch (below(8)) {
      case 0: plan.faults.push_back({.kind = Fault::Kind::die, .rank = rank}); break;
      case 1: plan.faults.push_back({.kind = Fault::Kind::die_losing, .rank = rank}); break;
      case 2:
        plan.faults.push_back({.kind = Fault::Kind::power_off, .host = below(static_cast<std::size_t>(hosts))});
        break;
      case 3: plan.faults.push_back({.kind = Fault::Kind::leave, .rank = rank}); break;
      case 4:
      case 5:
        plan.faults.push_back({.kind = Fault::Kind::suspend, .rank = rank});
        plan.faults.push_back({.kind = Fault::Kind::resume, .rank = rank});
        break;
      default: {
        std::uint64_t cut = 0;
        const int parts = 2 + below(2);
        const bool one_way = below(2) == 0;
        std::vector<int> part_of;
        for (int host = 0; host < hosts; ++host) part_of.push_back(below(static_cast<std::size_t>(parts)));
        for (int a = 0; a < hosts; ++a)
          for (int b = 0; b < hosts; ++b)
            if (part_of[static_cast<std::size_t>(a)] != part_of[static_cast<std::size_t>(b)] &&
                (!one_way || part_of[static_cast<std::size_t>(a)] == 0))
              cut |= links({a}, {b});
        if (cut == 0) continue;
        plan.faults.push_back({.kind = Fault::Kind::cut, .links = cut});
        if (below(2) == 0) plan.faults.push_back({.kind = Fault::Kind::heal, .links = cut});
      }
    }
  }
  // With few lifelines, words that come later than a link takes to break and mend may leave two sides
  // (docs/failure_model.md).
  const auto mends = [](const Fault& fault) { return fault.kind == Fault::Kind::heal; };
  plan.prompt |= plan.reach < 8 && std::ranges::any_of(plan.faults, mends);
  return plan;
}

}  // namespace ucft::detail::simulator

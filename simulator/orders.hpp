// The orders in which the events of a world may happen: each of them, or one by chance. A world is a value: Event,
// enabled() (the events that may be next), carry_out(event), violation() ("": none).
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {

// Every order, depth first. False: is_enough() has ended it.
// visit(world, way): of each world that the events of `way` lead to, those that may be next. None: it goes on from
// another one.
template <class World, class Visit, class IsEnough>
bool try_every_order(World first, Visit visit, IsEnough is_enough) {
  using Event = typename World::Event;
  struct Level {
    World world;
    std::vector<Event> events;
    std::size_t next = 0;
  };
  std::vector<Level> levels;
  std::vector<Event> way;
  const auto enter = [&](World world) {
    std::vector<Event> events = visit(world, std::as_const(way));
    if (events.empty()) return false;
    levels.push_back({std::move(world), std::move(events)});
    return true;
  };
  enter(std::move(first));
  while (!levels.empty()) {
    if (is_enough()) return false;
    Level& level = levels.back();
    if (level.next == level.events.size()) {
      levels.pop_back();
      if (!way.empty()) way.pop_back();
      continue;
    }
    const Event event = level.events[level.next++];
    World world = level.world;
    world.carry_out(event);
    way.push_back(event);
    if (!enter(std::move(world))) way.pop_back();
  }
  return true;
}

// One order, up to a violation, or until is_end(world, events): the events that may be next. Its events.
template <class World, class IsEnd>
std::vector<typename World::Event> take_some_order(World& world, Random& random, IsEnd is_end,
                                                   std::size_t longest = std::numeric_limits<std::size_t>::max()) {
  std::vector<typename World::Event> way;
  while (way.size() < longest && world.violation().empty()) {
    const auto events = world.enabled();
    if (is_end(world, events)) break;
    way.push_back(events[random.below(events.size())]);
    world.carry_out(way.back());
  }
  return way;
}

}  // namespace ucft::detail::simulator

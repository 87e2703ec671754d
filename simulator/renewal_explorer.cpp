// Every order, or random ones, of a RenewalWorld: see renewal_world.hpp.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "collectives/core/random.hpp"
#include "simulator/orders.hpp"
#include "simulator/renewal_world.hpp"

namespace ucft::detail::simulator {

// Other explorers name things alike, and are compiled at once.
namespace of_renewals {
namespace {

using Event = RenewalWorld::Event;

constexpr std::int64_t enough_violations = 100;

std::string text_of(const RenewalPlan& plan) {
  std::string text = fmt::format("{} seats, {} newcomers, {} deaths, f = {}, {} renewals for {} newcomers, {}{}",
                                 plan.seats, plan.newcomers, plan.deaths, plan.f, plan.renewals, plan.wanted,
                                 plan.has_limit ? "with a time limit" : "for as long as it takes",
                                 plan.leaves ? ", and then leave" : "");
  for (const int seat : plan.absent) text += fmt::format(", seat {} is empty", seat);
  if (plan.wanted_seat >= 0) text += fmt::format(", they want seat {}", plan.wanted_seat);
  return text + fmt::format(", at most {} starts", plan.starts);
}

std::string story_of(const std::string& violation, const std::string& name, const RenewalPlan& plan,
                     const RenewalWorld& world, const std::vector<Event>& way) {
  std::string text = fmt::format("{}\n  {}\n  {}\n  {}\n", violation, name, text_of(plan), world.text());
  for (const Event& event : way) text += "    " + RenewalWorld::text_of(event) + "\n";
  return text;
}

void note(RenewalExploration& result, const RenewalPlan& plan, const RenewalWorld& world, const std::vector<Event>& way,
          std::size_t& shortest, const std::string& name) {
  ++result.violations;
  if (way.size() >= shortest) return;
  shortest = way.size();
  result.first_violation = story_of(world.violation(), name, plan, world, way);
}

void note_end(RenewalExploration& result, RenewalWorld& world) {
  ++result.ends;
  result.joined += world.joined();
  result.cut += world.is_cut();
  world.check_end();
}

using Number = std::uint32_t;  // of a state, in the order in which they were found

// The states and what leads from one to another.
class Ways {
 public:
  struct Found {
    Number from;
    Event by;
  };
  // (its number, whether it is new)
  std::pair<Number, bool> add(std::uint64_t hash, Number from, const Event& by) {
    const auto [place, is_new] = numbers_.try_emplace(hash, static_cast<Number>(found_.size()));
    if (is_new) found_.push_back({from, by});
    if (place->second != from) back_.push_back({place->second, from});
    return {place->second, is_new};
  }
  void is_end(Number state) { ends_.push_back(state); }
  // A state from which no order leads to an end; -1: there is none.
  std::int64_t trap() {
    std::sort(back_.begin(), back_.end());
    std::vector<char> leads(found_.size());
    std::vector<Number> open = ends_;
    for (const Number each : open) leads[each] = 1;
    while (!open.empty()) {
      const Number here = open.back();
      open.pop_back();
      for (auto each = std::lower_bound(back_.begin(), back_.end(), std::pair{here, Number{0}});
           each != back_.end() && each->first == here; ++each)
        if (!std::exchange(leads[each->second], 1)) open.push_back(each->second);
    }
    const auto found = std::find(leads.begin(), leads.end(), 0);
    return found == leads.end() ? -1 : found - leads.begin();
  }
  std::vector<Event> way_to(Number state) const {
    std::vector<Event> way;
    for (; state != 0; state = found_[state].from) way.push_back(found_[state].by);
    std::reverse(way.begin(), way.end());
    return way;
  }

 private:
  std::unordered_map<std::uint64_t, Number> numbers_;
  std::vector<Found> found_;
  std::vector<std::pair<Number, Number>> back_;
  std::vector<Number> ends_;
};

}  // namespace

// A state that has been seen is known by its hash.
RenewalExploration explore(const RenewalPlan& plan, std::int64_t most_states) {
  RenewalExploration result;
  Ways ways;
  std::vector<Number> passed;  // the states on the way: passed[i] after i events
  std::size_t shortest = SIZE_MAX;
  const auto visit = [&](RenewalWorld& world, const std::vector<Event>& way) -> std::vector<Event> {
    passed.resize(way.size());
    const auto [number, is_new] =
        ways.add(world.hash(), way.empty() ? 0 : passed.back(), way.empty() ? Event{} : way.back());
    if (!is_new && world.violation().empty()) return {};
    passed.push_back(number);
    result.states += is_new;
    std::vector<Event> events = world.enabled();
    if (world.is_quiet(events)) {
      ways.is_end(number);
      note_end(result, world);
    }
    if (world.violation().empty()) return events;
    ways.is_end(number);
    note(result, plan, world, way, shortest, "explored");
    return {};
  };
  result.complete = try_every_order(RenewalWorld(plan), visit, [&] {
    return result.states >= most_states || result.violations >= enough_violations;
  });
  if (const std::int64_t trap = result.complete ? ways.trap() : -1; trap >= 0) {
    ++result.violations;
    const std::vector<Event> to_trap = ways.way_to(static_cast<Number>(trap));
    RenewalWorld world(plan);
    for (const Event& each : to_trap) world.carry_out(each);
    if (result.first_violation.empty())
      result.first_violation = story_of("no order leads to an end from here", "explored", plan, world, to_trap);
  }
  return result;
}

RenewalExploration walk(const RenewalPlan& plan, std::int64_t runs, std::uint64_t seed) {
  constexpr std::size_t longest = 5000;  // events
  RenewalExploration result;
  std::size_t shortest = SIZE_MAX;
  const auto is_end = [&](RenewalWorld& world, const std::vector<Event>& events) {
    if (!world.is_quiet(events)) return false;
    note_end(result, world);
    return true;
  };
  for (std::int64_t run = 0; run < runs; ++run) {
    Random random(seed + static_cast<std::uint64_t>(run));
    RenewalWorld world(plan);
    const std::vector<Event> way = take_some_order(world, random, is_end, longest);
    result.states += static_cast<std::int64_t>(way.size());
    if (!world.violation().empty())
      note(result, plan, world, way, shortest, fmt::format("walk {}", seed + static_cast<std::uint64_t>(run)));
  }
  return result;
}

}  // namespace of_renewals

RenewalExploration explore_renewals(const RenewalPlan& plan, std::int64_t most_states) {
  return of_renewals::explore(plan, most_states);
}

RenewalExploration walk_renewals(const RenewalPlan& plan, std::int64_t runs, std::uint64_t seed) {
  return of_renewals::walk(plan, runs, seed);
}

RenewalPlan random_renewal_plan(std::uint64_t seed) {
  Random random(mixed(seed, 1));
  const auto below = [&](int limit) { return static_cast<int>(random.below(static_cast<std::size_t>(limit))); };
  RenewalPlan plan;
  plan.seats = 2 + below(4);
  for (int seat = 0; seat < plan.seats; ++seat)
    if (below(4) == 0 && static_cast<int>(plan.absent.size()) + 1 < plan.seats) plan.absent.push_back(seat);
  plan.newcomers = 1 + below(std::min(3, 8 - plan.seats));
  plan.wanted_seat = below(plan.seats + 2) - 1;
  plan.deaths = below(4);
  plan.f = below(3) == 0 ? 1 : 8;
  plan.renewals = 1 + below(3);
  plan.wanted = below(4) - 1;
  plan.has_limit = below(3) != 0;
  plan.leaves = below(2) == 0;
  plan.starts = 3 + below(6);
  return plan;
}

}  // namespace ucft::detail::simulator

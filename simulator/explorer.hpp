// Tries every crash plan of a small world: every set of at most f victims, every send boundary of each, several
// delivery orders. Counts what it tried, by algorithm and by the role of the victim.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/world.hpp"

namespace ucft::detail::simulator {

// Of a victim, in the first ballot of the first operation.
enum class Role : std::uint8_t { root, last_group, inner, leaf };
inline constexpr int role_count = 4;
const char* role_name(Role role);
Role role_of(Rank rank, Rank ranks, const Arguments& arguments);

// The sends of a rank without failures in one operation whose ballot is `ballot`: closed form, from the topology alone.
// Corrections are not counted in (their number depends on the delivery order); by gossip it is the most that it may
// send.
std::int64_t sends_without_failure(Rank rank, Rank ranks, const Arguments& arguments, Rank ballot);
// The same of the optimistic ballot, by counting.
std::int64_t sends_optimistic(Rank rank, Rank ranks, const Arguments& arguments, const Optimism& optimism);
// Boundaries that are tried for a rank, with up to `deaths` roots that die: before each send that it may do in the
// program, and after the last one.
std::int64_t boundaries(Rank rank, const Plan& plan, int deaths);

struct Exploration {
  std::int64_t plans = 0;
  std::array<std::int64_t, role_count> plans_by_role{};  // plans with a victim of this role
  std::int64_t events = 0;
  std::int64_t violations = 0;
  std::string first_violation;  // with the plan that shows it
};

struct Scope {
  int max_victims = 1;
  std::vector<Order> orders = {Order::oldest_first, Order::newest_first, Order::failures_first, Order::failures_last};
  int seeds = 1;                   // runs of Order::shuffled
  std::int64_t stride = 1;         // of sets of several victims: every stride-th plan only (1: all)
  std::int64_t stride_of_one = 1;  // the same of single victims
  bool all_again = false;  // runs also those plans of which it is known that they are event for event as another
};

// `base` without crashes and order; all its operations and ranks are explored.
Exploration explore(const Plan& base, const Scope& scope);
// The number of plans that explore() tries, by combinatorics alone.
std::int64_t plans_expected(const Plan& base, const Scope& scope);

// Random plans for worlds too large to exhaust: victims, boundaries, orders from a seed.
Exploration walk(const Plan& base, int max_victims, std::int64_t runs, std::uint64_t seed);

}  // namespace ucft::detail::simulator

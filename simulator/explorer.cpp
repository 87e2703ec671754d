#include "simulator/explorer.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/topology/circulant_schedule.hpp"
#include "collectives/topology/reduce_topology.hpp"

namespace ucft::detail::simulator {

const char* role_name(Role role) {
  static constexpr const char* names[role_count] = {"root", "last-group", "inner", "leaf"};
  return names[static_cast<int>(role)];
}

Role role_of(Rank rank, Rank ranks, const Arguments& arguments) {
  const Rank process = (rank - arguments.root + ranks) % ranks;
  if (process == 0) return Role::root;
  if (!arguments.row().collects && arguments.by_gossip()) return Role::inner;
  const ReduceTopology reduce(ranks, arguments.f);
  std::vector<std::int32_t> children;
  if (!arguments.row().collects)
    BroadcastTopology(arguments.shape, ranks).children(process, children);
  else if ((process - 1) / (reduce.f() + 1) == (ranks - 2) / (reduce.f() + 1))
    return Role::last_group;
  else
    reduce.children(process, children);
  return children.empty() ? Role::leaf : Role::inner;
}

std::int64_t sends_without_failure(Rank rank, Rank ranks, const Arguments& arguments, Rank ballot) {
  const Rank process = (rank - ballot + ranks) % ranks;
  std::int64_t sends = 0;
  if (arguments.row().collects || ballot != arguments.root) {
    std::vector<std::int32_t> group;
    ReduceTopology(ranks, arguments.f).group_members(process, group);
    sends += static_cast<std::int64_t>(group.size()) - 1 + (process == 0 ? 0 : 1);
  }
  if (!arguments.row().disseminates) return sends;
  if (arguments.by_gossip())
    return sends + (arguments.gossip.time_ns + arguments.gossip.interval_ns - 1) / arguments.gossip.interval_ns;
  std::vector<std::int32_t> children;
  BroadcastTopology(arguments.shape, ranks).children(process, children);
  return sends + static_cast<std::int64_t>(children.size());
}

namespace {

// Messages for so many of n blocks of a vector from `first` on: its end separates two runs.
std::int64_t pieces(Rank first, Rank blocks, Rank n, std::uint64_t count, std::uint64_t of_piece) {
  const auto runs = [&](Rank begin, Rank end) {
    const auto from = count * static_cast<std::uint64_t>(begin) / static_cast<std::uint64_t>(n);
    const auto to = count * static_cast<std::uint64_t>(end) / static_cast<std::uint64_t>(n);
    return static_cast<std::int64_t>((to - from + of_piece - 1) / of_piece);
  };
  first %= n;
  return first + blocks <= n ? runs(first, first + blocks) : runs(first, n) + runs(0, first + blocks - n);
}

// The messages of data in blocks. Each step has the messages of pieces there and back, and one that closes.
std::int64_t sends_in_blocks(Rank rank, Rank ranks, const Arguments& arguments, const Optimism& optimism) {
  const std::uint64_t of_piece = optimism.piece_bytes / arguments.reduction.carrier_bytes();
  std::int64_t sends = 0;
  for (Rank all = ranks, kept = 0; all > 1; all = kept) {
    kept = static_cast<Rank>(std::bit_floor(static_cast<unsigned>(all - 1)));
    sends += pieces(rank + kept, all - kept, ranks, arguments.count, of_piece) +
             pieces(rank, all - kept, ranks, arguments.count, of_piece) + 1;
  }
  return sends;
}

// The pieces of so many bytes of a root's that a rank gives.
std::int64_t sends_of_pieces(Rank rank, Rank ranks, Rank root, std::uint64_t bytes, std::uint64_t of_piece) {
  const auto pieces = static_cast<std::int64_t>((bytes + of_piece - 1) / of_piece);
  const CirculantSchedule schedule((rank - root + ranks) % ranks, ranks);
  std::int64_t sends = 0;
  for (std::int64_t round = 0; round < schedule.rounds(pieces); ++round)
    sends += schedule.given(round, pieces).block != CirculantSchedule::no_block;
  return sends;
}

// The messages of a broadcast in pieces, or of an allgather, and those that close it.
std::int64_t sends_in_pieces(Rank rank, Rank ranks, const Arguments& arguments, const Optimism& optimism) {
  const auto pieces_of_own = [&](Rank of) {
    const std::uint64_t bytes = Blocks::record_bytes(block_words(of) * sizeof(std::uint64_t));
    return static_cast<std::int64_t>((bytes + optimism.piece_bytes - 1) / optimism.piece_bytes);
  };
  if (arguments.row().to_root()) return rank == arguments.root ? 0 : pieces_of_own(rank);
  auto sends = static_cast<std::int64_t>(Optimism::steps(ranks));
  if (arguments.row().from_root())
    return sends + sends_of_pieces(rank, ranks, arguments.root, arguments.bytes(), optimism.piece_bytes);
  for (Rank root = 0; root < ranks; ++root)
    sends += sends_of_pieces(rank, ranks, root, Blocks::record_bytes(block_words(root) * sizeof(std::uint64_t)),
                             optimism.piece_bytes);
  return sends;
}

// The pieces of the streams to all others, and the messages that close.
std::int64_t sends_of_exchange(Rank rank, Rank ranks, const Arguments& arguments, const Optimism& optimism) {
  auto sends = static_cast<std::int64_t>(Optimism::steps(ranks));
  if (!is_one_of(arguments.row().gives, rank == arguments.root)) return sends;
  for (Rank to = 0; to < ranks; ++to) {
    const std::uint64_t bytes = exchanged(rank, to).size() * sizeof(std::uint64_t);
    if (to == rank) continue;
    sends +=
        std::max<std::int64_t>(static_cast<std::int64_t>((bytes + optimism.piece_bytes - 1) / optimism.piece_bytes), 1);
  }
  return sends;
}

}  // namespace

std::int64_t sends_optimistic(Rank rank, Rank ranks, const Arguments& arguments, const Optimism& optimism) {
  const CatalogueRow& row = arguments.row();
  if (ranks < 2) return 0;
  if (row.goes_straight) return sends_of_exchange(rank, ranks, arguments, optimism);
  if (row.from_root()) {
    const bool is_long = arguments.bytes() > optimism.piece_bytes && !optimism.goes_whole(arguments.bytes(), ranks);
    return is_long && !arguments.by_gossip() ? sends_in_pieces(rank, ranks, arguments, optimism) : 0;
  }
  Arguments outcome = arguments;
  outcome.count = 0;
  if (row.reduces && row.disseminates && !optimism.goes_whole(arguments.bytes(), ranks))
    return sends_in_blocks(rank, ranks, arguments, optimism) + sends_optimistic(rank, ranks, outcome, optimism);
  if (row.has_own_lengths() && optimism.goes_in_pieces(arguments.bytes(), ranks))
    return sends_in_pieces(rank, ranks, arguments, optimism) + sends_optimistic(rank, ranks, outcome, optimism);
  if (!row.disseminates) return rank == arguments.root ? 0 : 1;
  const auto steps = std::bit_width(static_cast<unsigned>(ranks)) - 1;
  const Rank folded = ranks - (1 << steps);
  if (rank >= 2 * folded) return steps;
  return rank % 2 == 0 ? 1 : steps + 1;
}

namespace {
// The operations that a rank really posts: see operation_window.hpp.
std::vector<Arguments> with_internal_barriers(const Plan& plan) {
  std::vector<Arguments> all;
  Arguments barrier;
  barrier.kind = Kind::barrier;
  barrier.f = 0;
  int rooted_in_a_row = 0;
  const auto post_barrier_if_due = [&] {
    if (rooted_in_a_row < plan.window / 2) return;
    all.push_back(barrier);
    rooted_in_a_row = barrier.f = 0;
  };
  for (const Arguments& arguments : plan.program) {
    post_barrier_if_due();
    rooted_in_a_row = arguments.rooted() ? rooted_in_a_row + 1 : 0;
    barrier.f = arguments.rooted() ? std::max(barrier.f, arguments.f) : 0;
    all.push_back(arguments);
  }
  set_lengths(all, plan.ranks);
  return all;
}

// Along the ring and to ranks that ask, in one ballot: at most so many.
std::int64_t correction_sends(const Plan& plan, const Arguments& arguments) {
  const std::int64_t others = plan.ranks - 1;
  const std::int64_t answers = arguments.by_gossip() ? others : 0;  // anybody may ask
  switch (arguments.correction) {
    case Correction::none: return answers;
    case Correction::opportunistic:
    case Correction::opportunistic_optimised:
      return answers + std::min<std::int64_t>(arguments.correction_distance, others);
    case Correction::checked: return answers + others;
    case Correction::failure_proof:
      return answers + 3 * others;  // values; exit signals; panic, which may come before, between or after them
  }
  return 0;
}
}  // namespace

// Every ballot that `deaths` deaths can lead to, with one question or answer in each.
std::int64_t boundaries(Rank rank, const Plan& plan, int deaths) {
  std::int64_t sends = 0;
  for (const Arguments& arguments : with_internal_barriers(plan)) {
    const bool disseminates = arguments.row().disseminates;
    const int ballots = disseminates ? deaths + 1 + static_cast<int>(plan.leaves.size()) : 1;
    for (int ballot = 0; ballot < ballots; ++ballot)
      sends +=
          sends_without_failure(rank, plan.ranks, arguments, (arguments.root + ballot) % plan.ranks) + (ballot > 0);
    if (disseminates) sends += ballots * correction_sends(plan, arguments);
    if (plan.optimistic.begins || arguments.row().goes_straight)
      sends += sends_optimistic(rank, plan.ranks, arguments, plan.optimistic);
  }
  // The word that it leaves, and the answer to those of others.
  if (plan.ends || !plan.leaves.empty()) sends += 2 * (plan.ranks - 1);
  return sends + 1;
}

namespace {

// The results of one run.
struct Run {
  std::vector<std::int64_t> sends;  // by rank
  std::int64_t events = 0;
  std::string wrong;
};

Run run_of(const Plan& plan) {
  World world(plan);
  Run run;
  run.wrong = world.run() ? world.check() : "still running after a million events";
  run.events = world.events();
  for (Rank rank = 0; rank < plan.ranks; ++rank) run.sends.push_back(world.sends(rank));
  return run;
}

// Boundaries are an upper bound. So in many plans the victim lives on, because it never sends so much. In the same
// order such a run is event for event that of the plan without this crash: it counts, but isn't run again.
class Runs {
 public:
  // Of a plan in an order without chance: the run that is known to be the same, or a new one.
  const Run& of(const Plan& plan) {
    auto& known = by_crashes_[static_cast<std::size_t>(plan.order)];
    const std::size_t subsets = std::size_t{1} << plan.crashes.size();
    for (std::size_t die = 0; die + 1 < subsets; ++die) {  // all but the set of all
      const auto found = known.find(chosen(plan.crashes, die));
      if (found == known.end()) continue;
      bool others_live_on = true;
      for (std::size_t i = 0; i < plan.crashes.size(); ++i) {
        const auto& [rank, after] = plan.crashes[i];
        if ((die >> i & 1) == 0 && (after == 0 || found->second.sends[static_cast<std::size_t>(rank)] > after))
          others_live_on = false;
      }
      if (others_live_on) return found->second;
    }
    return known.insert_or_assign(chosen(plan.crashes, subsets - 1), run_of(plan)).first->second;
  }

 private:
  using Crashes = std::vector<std::pair<Rank, std::int64_t>>;
  static Crashes chosen(const std::vector<Crash>& crashes, std::size_t set) {
    Crashes some;
    for (std::size_t i = 0; i < crashes.size(); ++i)
      if ((set >> i & 1) != 0) some.emplace_back(crashes[i].rank, crashes[i].after_sends);
    return some;
  }

  std::map<Crashes, Run> by_crashes_[order_count];
};

void count(const Plan& plan, const Run& run, Exploration& found) {
  ++found.plans;
  found.events += run.events;
  std::array<bool, role_count> seen{};
  for (const Crash& crash : plan.crashes)
    seen[static_cast<std::size_t>(role_of(crash.rank, plan.ranks, plan.program[0]))] = true;
  for (std::size_t role = 0; role < seen.size(); ++role) found.plans_by_role[role] += seen[role];
  if (run.wrong.empty()) return;
  if (found.violations++ == 0) found.first_violation = describe(plan) + ": " + run.wrong;
}

void run_orders(Plan& plan, const Scope& scope, Runs& runs, Exploration& found) {
  for (Order order : scope.orders) {
    plan.order = order;
    count(plan, scope.all_again || order == Order::shuffled ? run_of(plan) : runs.of(plan), found);
  }
  plan.order = Order::shuffled;
  for (int seed = 1; seed <= scope.seeds; ++seed) {
    plan.seed = static_cast<std::uint64_t>(seed) * 7919 + static_cast<std::uint64_t>(found.plans);
    count(plan, run_of(plan), found);
  }
}

// Calls visit(victims) for every set of 0 .. max ranks.
template <class Visit>
void for_each_victim_set(Rank ranks, int max, Visit visit) {
  std::vector<Rank> victims;
  const auto grow = [&](auto&& self, Rank from) -> void {
    visit(victims);
    if (static_cast<int>(victims.size()) == max) return;
    for (Rank rank = from; rank < ranks; ++rank) {
      victims.push_back(rank);
      self(self, rank + 1);
      victims.pop_back();
    }
  };
  grow(grow, 0);
}

std::int64_t combinations(const std::vector<Rank>& victims, const Plan& base) {
  std::int64_t product = 1;
  for (Rank victim : victims) product *= boundaries(victim, base, static_cast<int>(victims.size()));
  return product;
}

std::int64_t stride_of(const std::vector<Rank>& victims, const Scope& scope) {
  return victims.size() < 2 ? scope.stride_of_one : scope.stride;
}

}  // namespace

std::int64_t plans_expected(const Plan& base, const Scope& scope) {
  std::int64_t total = 0;
  for_each_victim_set(base.ranks, scope.max_victims, [&](const std::vector<Rank>& victims) {
    const std::int64_t all = combinations(victims, base);
    const std::int64_t stride = stride_of(victims, scope);
    total += (all + stride - 1) / stride;
  });
  return total * (static_cast<std::int64_t>(scope.orders.size()) + scope.seeds);
}

Exploration explore(const Plan& base, const Scope& scope) {
  Exploration found;
  Runs runs;
  Plan plan = base;
  for_each_victim_set(base.ranks, scope.max_victims, [&](const std::vector<Rank>& victims) {
    const std::int64_t all = combinations(victims, base);
    const std::int64_t stride = stride_of(victims, scope);
    for (std::int64_t index = 0; index < all; index += stride) {  // mixed radix: one digit a victim
      plan.crashes.clear();
      std::int64_t rest = index;
      for (Rank victim : victims) {
        const std::int64_t radix = boundaries(victim, base, static_cast<int>(victims.size()));
        plan.crashes.push_back({victim, rest % radix});
        rest /= radix;
      }
      run_orders(plan, scope, runs, found);
    }
  });
  return found;
}

Exploration walk(const Plan& base, int max_victims, std::int64_t runs, std::uint64_t seed) {
  Exploration found;
  std::mt19937_64 random(seed);
  for (std::int64_t run = 0; run < runs; ++run) {
    Plan plan = base;
    std::vector<Rank> ranks(static_cast<std::size_t>(base.ranks));
    for (Rank rank = 0; rank < base.ranks; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
    std::shuffle(ranks.begin(), ranks.end(), random);
    const int victims = static_cast<int>(random() % static_cast<std::uint64_t>(max_victims + 1));
    for (int i = 0; i < victims; ++i) {
      const Rank victim = ranks[static_cast<std::size_t>(i)];
      plan.crashes.push_back({victim, static_cast<std::int64_t>(
                                          random() % static_cast<std::uint64_t>(boundaries(victim, base, victims)))});
    }
    plan.order = static_cast<Order>(random() % order_count);
    plan.seed = random();
    count(plan, run_of(plan), found);
  }
  return found;
}

}  // namespace ucft::detail::simulator

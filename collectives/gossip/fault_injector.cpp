#include "collectives/gossip/fault_injector.hpp"

#include <algorithm>

namespace ucft::detail {

GossipFaultInjector::GossipFaultInjector(const GossipFaults& faults, const Where& where)
    : faults_(&faults),
      active_(faults.any()),
      candidates_(where.values + 1),
      random_(mixed(mixed(faults.seed, where.operation), static_cast<std::uint64_t>(where.rank))) {
  for (const LinkFailure& each : faults.links) {
    if (each.a == where.rank) links_.push_back({each.b, each.time});
    if (each.b == where.rank) links_.push_back({each.a, each.time});
  }
  Random of_all(mixed(mixed(faults.seed, where.operation), 0x666c6970));  // the same on all ranks: whose bit flips
  for (const BitFlip& each : faults.flips) {
    const auto by_chance = static_cast<Rank>(of_all.below(static_cast<std::uint64_t>(where.ranks)));
    if ((each.rank == no_rank ? by_chance : each.rank) == where.rank) flips_.push_back(each);
  }
  std::stable_sort(flips_.begin(), flips_.end(),
                   [](const BitFlip& one, const BitFlip& other) { return one.time < other.time; });
}

void GossipFaultInjector::note_failed_link(Rank other) {
  for (FailingLink& each : links_) {
    if (each.other != other || each.failed) continue;
    each.failed = true;
    ++counts_.failed_links;
    return;
  }
}

}  // namespace ucft::detail

#include "simulator/judge/communicators.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "simulator/judge/kinds.hpp"

namespace ucft::judge {
namespace {

bool all_read_memory(const std::vector<RankHistory>& job, const std::vector<std::int32_t>& members) {
  return std::ranges::all_of(members, [&](std::int32_t rank) {
    return rank >= 0 && job[static_cast<std::size_t>(rank)].reads_memory &&
           job[static_cast<std::size_t>(rank)].host == job[static_cast<std::size_t>(members.front())].host;
  });
}

// First of the ranks that survived. Another one had a communicator with other members, maybe: between hosts its result
// is not always the survivors'.
void take_members(const RankHistory& history, bool survives, std::map<std::string, Communicator>& all) {
  for (const Call& call : history.calls) {
    if (call.made.empty()) continue;
    const auto known = all.find(call.made);
    if (!survives && known != all.end() && known->second.size() != call.made_size) continue;
    Communicator& made = all[call.made];
    made.name = call.made;
    made.members.resize(std::max(made.members.size(), static_cast<std::size_t>(call.made_size)), -1);
    if (call.made_rank >= 0 && call.made_rank < made.size())
      made.members[static_cast<std::size_t>(call.made_rank)] = history.rank;
  }
}

void take_calls(const RankHistory& history, bool survives, std::map<std::string, Communicator>& all) {
  std::map<const std::vector<Instance>*, std::size_t> next;
  for (const Call& call : history.calls) {
    const auto found = all.find(call.communicator);
    const bool is_quorum = call.kind == Kind::quorum, is_gossip = call.kind == Kind::gossip;
    if ((!is_quorum && !is_gossip && !is_collective(call.kind)) || found == all.end()) continue;
    Communicator& on = found->second;
    if (call.rank < 0 || call.rank >= on.size() || (!survives && call.size != on.size())) continue;
    std::vector<Instance>& instances = is_quorum ? on.quorums : is_gossip ? on.gossips : on.collectives;
    const std::size_t number = next[&instances]++;
    while (instances.size() <= number)
      instances.push_back({instances.size(), std::vector<const Call*>(on.members.size(), nullptr)});
    instances[number].calls[static_cast<std::size_t>(call.rank)] = &call;
  }
}

}  // namespace

std::map<std::string, Communicator> communicators_of(const std::vector<RankHistory>& job,
                                                     const std::vector<bool>& survived) {
  std::map<std::string, Communicator> all;
  Communicator& everybody = all["all"];
  everybody.name = "all";
  everybody.members.resize(job.size());
  std::iota(everybody.members.begin(), everybody.members.end(), 0);
  for (const bool survive : {true, false})
    for (std::size_t rank = 0; rank < job.size(); ++rank)
      if (survived[rank] == survive) take_members(job[rank], survive, all);
  for (std::size_t rank = 0; rank < job.size(); ++rank) take_calls(job[rank], survived[rank], all);
  for (auto& [name, each] : all) each.reads_memory = all_read_memory(job, each.members);
  return all;
}

}  // namespace ucft::judge

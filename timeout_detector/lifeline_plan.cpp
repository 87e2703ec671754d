// See lifeline_plan.hpp.
#include "timeout_detector/lifeline_plan.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace ucft::detail {
namespace {

// All distances on a ring of so many hosts, each once: the powers of two, then the others.
std::vector<std::size_t> distances(std::size_t hosts) {
  std::vector<std::size_t> all, others;
  for (std::size_t distance = 1; distance < hosts; ++distance)
    (std::has_single_bit(distance) ? all : others).push_back(distance);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

std::vector<LifelineEnds> lifeline_plan(const std::vector<std::uint64_t>& hosts, std::int32_t reach,
                                        std::int32_t all_upto, const std::vector<bool>& absent) {
  const auto is_absent = [&](std::size_t rank) { return !absent.empty() && absent[rank]; };
  std::map<std::uint64_t, std::size_t> number;
  std::vector<std::vector<std::int32_t>> ranks_of;  // by host, in the order of their lowest ranks
  std::size_t present = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (is_absent(rank)) continue;
    ++present;
    const auto [found, is_new] = number.try_emplace(hosts[rank], ranks_of.size());
    if (is_new) ranks_of.emplace_back();
    ranks_of[found->second].push_back(static_cast<std::int32_t>(rank));
  }
  std::vector<LifelineEnds> lines;
  if (ranks_of.size() < 2) return lines;
  const auto add = [&](std::int32_t a, std::int32_t b) { lines.emplace_back(std::min(a, b), std::max(a, b)); };

  const std::size_t least = std::ranges::min_element(ranks_of, {}, &std::vector<std::int32_t>::size)->size();
  if (present - least <= static_cast<std::size_t>(std::max(all_upto, 0))) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      for (std::size_t other = 0; other < rank; ++other)
        if (hosts[rank] != hosts[other] && !is_absent(rank) && !is_absent(other))
          add(static_cast<std::int32_t>(rank), static_cast<std::int32_t>(other));
    return std::ranges::sort(lines), lines;
  }

  const std::vector<std::size_t> all = distances(ranks_of.size());
  const std::size_t powers = std::bit_width(ranks_of.size() - 1);
  for (std::size_t host = 0; host < ranks_of.size(); ++host) {
    const std::vector<std::int32_t>& here = ranks_of[host];
    const std::size_t each = std::max(static_cast<std::size_t>(reach), (powers + here.size() - 1) / here.size());
    const std::size_t used = std::min(all.size(), std::max(powers, each));  // of all distances
    for (std::size_t place = 0; place < here.size(); ++place)
      for (std::size_t i = 0; i < each; ++i) {
        const auto& there = ranks_of[(host + all[(place * each + i) % used]) % ranks_of.size()];
        add(here[place], there[(place + i / used) % there.size()]);
      }
  }
  std::ranges::sort(lines);
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

std::vector<std::int32_t> lifelines_of(const std::vector<LifelineEnds>& plan, std::int32_t rank) {
  std::vector<std::int32_t> others;
  for (const auto& [a, b] : plan)
    if (a == rank || b == rank) others.push_back(a == rank ? b : a);
  return others;
}

}  // namespace ucft::detail

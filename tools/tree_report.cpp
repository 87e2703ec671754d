// The placement of ucft_run --bind, and HostTree::of_sites of it.
#include "tools/tree_report.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "collectives/on_host/host_tree.hpp"

namespace ucft::detail {

namespace {

std::string number_text(std::int16_t number) { return number < 0 ? "-" : std::to_string(number); }

nlohmann::ordered_json number_json(std::int16_t number) {
  return number < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(number);
}

std::string text_of(const TreeQuestion& question, const std::vector<HostSite>& sites, const HostTree& tree) {
  std::string text = fmt::format("{} rank{}, --bind {}: ", tree.ranks(), tree.ranks() == 1 ? "" : "s", question.bind);
  if (tree.is_flat()) return text + "flat: each reads the values of all others\n";
  text += fmt::format("tree of degree {}, depth {}\n", question.degree, tree.depth());
  for (Rank rank = 0; rank < tree.ranks(); ++rank) {
    if (!tree.is_inner(rank)) continue;
    const HostSite& site = sites[static_cast<std::size_t>(rank)];
    text += fmt::format("rank {} (package {}, numa {}, l3 {}): children {}\n", rank, number_text(site.package),
                        number_text(site.numa), number_text(site.cache), fmt::join(tree.children(rank), " "));
  }
  return text;
}

std::string json_of(const TreeQuestion& question, const std::vector<HostSite>& sites, const HostTree& tree) {
  auto nodes = nlohmann::ordered_json::array();
  for (Rank rank = 0; rank < tree.ranks(); ++rank) {
    const HostSite& site = sites[static_cast<std::size_t>(rank)];
    auto children = nlohmann::ordered_json::array();
    for (Rank child : tree.children(rank)) children.push_back(child);
    nodes.push_back({{"rank", rank},
                     {"package", number_json(site.package)},
                     {"numa", number_json(site.numa)},
                     {"l3", number_json(site.cache)},
                     {"children", children}});
  }
  const nlohmann::ordered_json report = {
      {"ranks", question.ranks}, {"bind", question.bind}, {"degree", question.degree}, {"nodes", nodes}};
  return report.dump() + "\n";
}

}  // namespace

std::string tree_report(const Machine& machine, TreeQuestion question, const HostTuning& tuning, bool json,
                        std::string& error) {
  const Bind bind = bind_named(question.bind).value();
  const std::vector<Machine::Unit> units = machine.units(bind);
  if (units.empty()) {
    error = "hwloc finds no cpu that this process may use";
    return "";
  }
  std::vector<HostSite> sites;
  for (int rank = 0; rank < question.ranks; ++rank)
    sites.push_back(units[unit_of_rank(bind, rank, question.ranks, units.size())].site);
  if (question.degree < 0) {
    const auto threads = machine.is_this_system() ? sysconf(_SC_NPROCESSORS_ONLN)
                                                  : static_cast<long>(machine.units(Bind::none).at(0).cpus.size());
    question.degree =
        tuning.choose(HostTuning::where(sites, question.ranks, static_cast<std::int32_t>(std::max(1L, threads))))
            .degree;
  }
  const HostTree tree = HostTree::of_sites(sites, question.degree);
  return json ? json_of(question, sites, tree) : text_of(question, sites, tree);
}

}  // namespace ucft::detail

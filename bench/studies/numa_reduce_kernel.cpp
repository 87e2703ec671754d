// A reduce among the cores of a described machine, by trees that know where ranks run and by trees that do not: its
// latency under a model of cache lines, and the lines that cross packages. For bench/studies/reproducible_sums.
//
//   HWLOC_SYNTHETIC="package:2 [numa] l3:8 core:8 pu:1" numa_reduce_kernel 16
//
// Source: Lapillonne and Peltekov, Bitwise reproducible sum: SingleNotify, MultiNotify, trees bound by hwloc. The trees
// are the library's (HostTree).
//
// The model: a value of D doubles is lines of 7 doubles and a stamp. A rank that reads a line that another core wrote
// waits as long as their distance says; for each further line of the same value a fixed time. A core reads one value
// after the other.
//   MultiNotify   a parent reads each child's value as it comes
//   SingleNotify  children count themselves in at their parent, one after the other, since the line of the count must
//                 come to each; then the parent reads the count, and all values
// All ranks begin at 0. A line of JSON for each binding, tree and form.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "collectives/on_host/host_tree.hpp"
#include "ucx_layer/bootstrap/machine.hpp"

using namespace ucft::detail;

namespace {

using Sites = std::vector<HostSite>;

struct Model {
  double cache_ns = 30, node_ns = 70, package_ns = 90, far_ns = 160, next_line_ns = 10;
  int lines = 1;

  double line(const HostSite& a, const HostSite& b) const {
    if (a.package != b.package) return far_ns;
    if (a.numa != b.numa) return package_ns;
    return a.cache != b.cache ? node_ns : cache_ns;
  }
  double value(const HostSite& a, const HostSite& b) const { return line(a, b) + next_line_ns * (lines - 1); }
};

class Reduce {
 public:
  Reduce(const Model& model, const Sites& sites, const HostTree& tree, bool counts)
      : model_(model), sites_(sites), tree_(tree), counts_(counts), latency_ns_(done(0)) {}

  double latency_ns() const { return latency_ns_; }
  int far_lines() const { return far_lines_; }

 private:
  struct Child {
    Rank rank;
    double ready;
  };

  // When this rank has the sum of its subtree.
  double done(Rank rank) {
    std::vector<Child> children;
    for (Rank child : tree_.children(rank)) children.push_back({child, done(child)});
    std::stable_sort(children.begin(), children.end(),
                     [](const Child& a, const Child& b) { return a.ready < b.ready; });
    double now = counts_ && !children.empty() ? counted_in(rank, children) : 0;
    for (const Child& child : children) {
      now = std::max(now, child.ready) + model_.value(site(rank), site(child.rank));
      note(rank, child.rank, model_.lines);
    }
    return now;
  }
  // When the parent knows that all are there.
  double counted_in(Rank parent, const std::vector<Child>& children) {
    Rank owner = parent;
    double free = 0;
    for (const Child& child : children) {
      free = std::max(free, child.ready) + model_.line(site(owner), site(child.rank));
      note(owner, child.rank, 1);
      owner = child.rank;
    }
    note(owner, parent, 1);
    return free + model_.line(site(owner), site(parent));
  }
  const HostSite& site(Rank rank) const { return sites_[static_cast<std::size_t>(rank)]; }
  void note(Rank a, Rank b, int lines) { far_lines_ += site(a).package != site(b).package ? lines : 0; }

  const Model& model_;
  const Sites& sites_;
  const HostTree& tree_;
  const bool counts_;
  int far_lines_ = 0;
  const double latency_ns_;
};

// One rank on each core.
Sites in_order(const Machine& machine) {
  Sites sites;
  for (const Machine::Unit& core : machine.units(Bind::core)) sites.push_back(core.site);
  return sites;
}
// Ranks that follow each other run in different packages.
Sites packages_in_turn(Sites sites, int packages) {
  Sites dealt;
  const std::size_t each = sites.size() / static_cast<std::size_t>(packages);
  for (std::size_t i = 0; i < each; ++i)
    for (std::size_t first = i; first < sites.size(); first += each) dealt.push_back(sites[first]);
  return dealt;
}

void print_all(const Model& model, const Sites& sites, const char* binding) {
  for (const int degree : {0, 2, 4, 8, 16})
    for (const bool knows_sites : {false, true})
      for (const bool counts : {false, true}) {
        if (degree == 0 && knows_sites) continue;
        const auto ranks = static_cast<Rank>(sites.size());
        const HostTree tree = knows_sites ? HostTree::of_sites(sites, degree) : HostTree::of_degree(ranks, degree);
        const Reduce reduce(model, sites, tree, counts);
        fmt::print(
            "{{\"binding\": \"{}\", \"degree\": {}, \"by\": \"{}\", \"form\": \"{}\", \"ranks\": {}, "
            "\"latency_ns\": {:.0f}, \"far_lines\": {}}}\n",
            binding, degree, knows_sites ? "site" : "number", counts ? "SingleNotify" : "MultiNotify", ranks,
            reduce.latency_ns(), reduce.far_lines());
      }
}

}  // namespace

int main(int count, char** words) {
  constexpr int doubles_in_a_line = 7;
  Model model;
  int doubles = 0;
  CLI::App app{"A reduce among the cores of the machine that HWLOC_SYNTHETIC or HWLOC_XMLFILE describes, by a model."};
  app.add_option("DOUBLES", doubles)->required()->check(CLI::Range(1, 1 << 20));
  app.add_option("--cache-ns", model.cache_ns, "a line from a core of the same cache")->capture_default_str();
  app.add_option("--node-ns", model.node_ns, "of the same NUMA node")->capture_default_str();
  app.add_option("--package-ns", model.package_ns, "of the same package")->capture_default_str();
  app.add_option("--far-ns", model.far_ns, "of another package")->capture_default_str();
  app.add_option("--next-line-ns", model.next_line_ns, "each further line of a value")->capture_default_str();
  CLI11_PARSE(app, count, words);
  model.lines = (doubles + doubles_in_a_line - 1) / doubles_in_a_line;

  std::string error;
  const std::unique_ptr<Machine> machine = Machine::load(error);
  if (machine == nullptr) {
    fmt::print(stderr, "numa_reduce_kernel: {}\n", error);
    return 1;
  }
  const Sites sites = in_order(*machine);
  print_all(model, sites, "in order");
  print_all(model, packages_in_turn(sites, machine->counts().packages), "packages in turn");
}

// This machine's packages, NUMA nodes, caches and cores, read by hwloc: where a rank runs, and where ranks can be
// bound.
//
// HWLOC_XMLFILE and HWLOC_SYNTHETIC ("package:2 [numa] l3:8 core:8 pu:1") describe another machine, to plan for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/on_host/host_site.hpp"
#include "ucx_layer/bootstrap/processors.hpp"

struct hwloc_topology;

namespace ucft::detail {

// The unit of the machine that a rank is confined to.
enum class Bind { none, core, l3, numa, package };

// nullopt: not one of them.
std::optional<Bind> bind_named(std::string_view name);

// On which of so many units a rank of one host runs. Cores: on one after the other, and round again. Others: ranks that
// follow each other share a unit, as evenly as can be; 4 ranks on 2 units: 0 0 1 1. With fewer ranks than units each
// has its own.
std::size_t unit_of_rank(Bind bind, int rank, int ranks, std::size_t units);

// May be read by several threads at a time.
class Machine {
 public:
  struct Unit {
    HostSite site;
    std::vector<int> cpus;  // the operating system's numbers, ascending; at least one
  };
  struct Counts {
    int packages, numa_nodes, l3_caches, cores;
  };

  // nullptr: `error` says why.
  static std::unique_ptr<Machine> load(std::string& error);

  // False: the environment describes another machine. Nothing can be bound then.
  bool is_this_system() const;
  // All there are, whether this process may use them or not.
  Counts counts() const;
  // Where this process, all of its threads, may run. All unknown: this is another machine.
  HostSite own_site() const;
  // Cores, caches, .. with their cpus that this process may use, in hwloc's logical order (neighbours are near each
  // other); those without are left out. No cpu is in two of them. A machine without L3 caches: its packages;
  // Bind::none: one unit of all cpus. Empty if this process may use no cpu of the described machine.
  std::vector<Unit> units(Bind bind) const;

 private:
  struct Unload {
    void operator()(hwloc_topology* topology) const;
  };
  using Topology = std::unique_ptr<hwloc_topology, Unload>;
  explicit Machine(Topology topology) : topology_(std::move(topology)) {}

  Topology topology_;
};

// The place of this process, which may run on `own`, on a host with so many hardware threads online. All fields are
// unknown if it is not bound, or if `problem` says why that can't be known. Reading the whole machine takes time: only
// a process that is bound to a part of it does.
HostSite site_of_this_process(const Processors& own, std::int32_t hardware_threads, std::string& problem);

}  // namespace ucft::detail

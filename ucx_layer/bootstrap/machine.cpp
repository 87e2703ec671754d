// hwloc also loads the objects that this process may not use. So a number means the same in all processes of a host,
// even if they are confined to different cores.
#include "ucx_layer/bootstrap/machine.hpp"

#include <fmt/core.h>
#include <hwloc.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ucft::detail {

namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Cpus = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Cpus no_cpus() { return Cpus(hwloc_bitmap_alloc()); }

constexpr std::pair<std::string_view, Bind> binds[] = {
    {"none", Bind::none}, {"core", Bind::core}, {"l3", Bind::l3}, {"numa", Bind::numa}, {"package", Bind::package}};

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// hwloc would read the variables by itself, but take this machine where it does not understand them.
std::string describe(hwloc_topology_t topology) {
  const char* file = variable("HWLOC_XMLFILE");
  const char* text = variable("HWLOC_SYNTHETIC");
  if (file != nullptr && hwloc_topology_set_xml(topology, file) != 0)
    return fmt::format("HWLOC_XMLFILE: hwloc cannot read '{}' as a topology", file);
  if (file == nullptr && text != nullptr && hwloc_topology_set_synthetic(topology, text) != 0)
    return fmt::format("HWLOC_SYNTHETIC: hwloc does not understand '{}'", text);
  return "";
}

// Less is faster: devices, small caches and distances are left out. hwloc must not visit each cpu to ask it what it is,
// either. Ranks that start would get in each other's way then, and threads of the program would lose their places.
void leave_out_what_is_not_needed(hwloc_topology_t topology) {
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING |
                                         HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                         HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (hwloc_obj_type_t type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_CORE})
    hwloc_topology_set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  // A NUMA node that is a part of a package hangs below a group; without groups it would have all cpus of the package.
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
}

int count(hwloc_topology_t topology, hwloc_obj_type_t type) { return hwloc_get_nbobjs_by_type(topology, type); }

// The first object of that type that has all of these cpus; -1: none.
std::int16_t number_of(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t cpus) {
  if (hwloc_bitmap_iszero(cpus)) return -1;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;)
    if (hwloc_bitmap_isincluded(cpus, object->cpuset)) return static_cast<std::int16_t>(object->logical_index);
  return -1;
}

HostSite site_of(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
  return {number_of(topology, HWLOC_OBJ_PACKAGE, cpus), number_of(topology, HWLOC_OBJ_NUMANODE, cpus),
          number_of(topology, HWLOC_OBJ_L3CACHE, cpus)};
}

// Of the process, where this is its machine; else all that are there.
Cpus allowed_cpus(hwloc_topology_t topology) {
  Cpus cpus = no_cpus();
  if (!hwloc_topology_is_thissystem(topology) || hwloc_get_cpubind(topology, cpus.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(cpus.get(), hwloc_topology_get_allowed_cpuset(topology));
  hwloc_bitmap_and(cpus.get(), cpus.get(), hwloc_topology_get_topology_cpuset(topology));
  return cpus;
}

// The machine is always there, and so are its cpus (hardware threads) and at least one NUMA node.
hwloc_obj_type_t type_of(hwloc_topology_t topology, Bind bind) {
  const bool has_packages = count(topology, HWLOC_OBJ_PACKAGE) > 0;
  const hwloc_obj_type_t package = has_packages ? HWLOC_OBJ_PACKAGE : HWLOC_OBJ_MACHINE;
  switch (bind) {
    case Bind::none: return HWLOC_OBJ_MACHINE;
    case Bind::core: return count(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    case Bind::l3: return count(topology, HWLOC_OBJ_L3CACHE) > 0 ? HWLOC_OBJ_L3CACHE : package;
    case Bind::numa: return HWLOC_OBJ_NUMANODE;
    case Bind::package: return package;
  }
  std::abort();
}

}  // namespace

std::optional<Bind> bind_named(std::string_view name) {
  for (const auto& [each, bind] : binds)
    if (name == each) return bind;
  return std::nullopt;
}

std::size_t unit_of_rank(Bind bind, int rank, int ranks, std::size_t units) {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
  if (bind == Bind::core) return r % units;
  return n < units ? r : r * units / n;
}

void Machine::Unload::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

std::unique_ptr<Machine> Machine::load(std::string& error) {
  hwloc_topology_t loaded = nullptr;
  if (hwloc_topology_init(&loaded) != 0) {
    error = fmt::format("hwloc cannot start: {}", std::strerror(errno));
    return nullptr;
  }
  Topology topology(loaded);
  error = describe(loaded);
  if (!error.empty()) return nullptr;
  leave_out_what_is_not_needed(loaded);
  if (hwloc_topology_load(loaded) != 0) {
    error = fmt::format("hwloc cannot read the machine's topology: {}", std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<Machine>(new Machine(std::move(topology)));
}

bool Machine::is_this_system() const { return hwloc_topology_is_thissystem(topology_.get()) != 0; }

Machine::Counts Machine::counts() const {
  hwloc_topology_t topology = topology_.get();
  return {count(topology, HWLOC_OBJ_PACKAGE), count(topology, HWLOC_OBJ_NUMANODE), count(topology, HWLOC_OBJ_L3CACHE),
          count(topology, HWLOC_OBJ_CORE)};
}

HostSite Machine::own_site() const {
  if (!is_this_system()) return {};
  return site_of(topology_.get(), allowed_cpus(topology_.get()).get());
}

std::vector<Machine::Unit> Machine::units(Bind bind) const {
  hwloc_topology_t topology = topology_.get();
  const hwloc_obj_type_t type = type_of(topology, bind);
  const Cpus left = allowed_cpus(topology);  // NUMA nodes of two kinds of memory may have the same cpus
  const Cpus cpus = no_cpus();
  std::vector<Unit> units;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    hwloc_bitmap_and(cpus.get(), object->cpuset, left.get());
    if (hwloc_bitmap_iszero(cpus.get())) continue;
    hwloc_bitmap_andnot(left.get(), left.get(), cpus.get());
    Unit& unit = units.emplace_back(Unit{site_of(topology, cpus.get()), {}});
    for (int cpu = -1; (cpu = hwloc_bitmap_next(cpus.get(), cpu)) != -1;) unit.cpus.push_back(cpu);
  }
  return units;
}

HostSite site_of_this_process(const Processors& own, std::int32_t hardware_threads, std::string& problem) {
  if (own.count == 0 || own.count >= hardware_threads) return {};
  const std::unique_ptr<Machine> machine = Machine::load(problem);
  return machine == nullptr ? HostSite{} : machine->own_site();
}

}  // namespace ucft::detail

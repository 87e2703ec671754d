// Units of this machine, dealt out to ranks.
#include "tools/run/binding.hpp"

#include "tools/run/arguments.hpp"

namespace ucft::detail::run {

Binding find_binding(Bind bind, int rank_count) {
  Binding binding{std::vector<std::vector<int>>(static_cast<std::size_t>(rank_count)), "", 0};
  if (bind == Bind::none) return binding;
  std::string error;
  const std::unique_ptr<Machine> machine = Machine::load(error);
  if (machine == nullptr) return {{}, "--bind: " + error, exit_internal};
  if (!machine->is_this_system())
    return {{},
            "--bind: ranks can't be bound while HWLOC_XMLFILE or HWLOC_SYNTHETIC describes another machine",
            exit_usage};
  const std::vector<Machine::Unit> units = machine->units(bind);
  if (units.empty()) return {{}, "--bind: hwloc finds no cpu that this process may use", exit_internal};
  for (int rank = 0; rank < rank_count; ++rank)
    binding.cpus[static_cast<std::size_t>(rank)] = units[unit_of_rank(bind, rank, rank_count, units.size())].cpus;
  return binding;
}

}  // namespace ucft::detail::run

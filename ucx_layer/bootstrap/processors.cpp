#include "ucx_layer/bootstrap/processors.hpp"

#include <sched.h>

namespace ucft::detail {

Processors own_processors() {
  constexpr int most = 8192;
  cpu_set_t* const allowed = CPU_ALLOC(most);
  if (allowed == nullptr) return {};
  const std::size_t bytes = CPU_ALLOC_SIZE(most);
  std::vector<int> cpus;
  if (sched_getaffinity(0, bytes, allowed) == 0)
    for (int cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, allowed)) cpus.push_back(cpu);
  CPU_FREE(allowed);
  return Processors::of(cpus);
}

}  // namespace ucft::detail

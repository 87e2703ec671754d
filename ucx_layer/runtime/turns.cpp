#include "ucx_layer/runtime/turns.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucft::detail {

bool Turns::helper_enter() {
  helper_inside_.store(1, std::memory_order_seq_cst);
  if (!caller_fences_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  if (inside_.load(std::memory_order_seq_cst) == 0) return true;
  helper_leave();
  return false;
}

void Turns::wait_for_helper() {
  while (helper_inside_.load(std::memory_order_acquire) != 0) sched_yield();
}

}  // namespace ucft::detail

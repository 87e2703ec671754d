#include "mpi/own_stack.hpp"

#ifdef OPEN_MPI
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <utility>

namespace ucft::mpi {

namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 20;  // those that are touched count
constexpr unsigned turns_per_question = 256;

struct CallOnStack {
  ucontext_t caller{}, callee{};
  std::function<void()> call;
  const std::function<bool()>* must_leave = nullptr;
  unsigned turns = 0;
  bool has_ended = false;
};
thread_local CallOnStack* on_stack __attribute__((tls_model("initial-exec"))) = nullptr;

thread_local void* idle_stack = nullptr;

// nullptr: no memory.
void* take_stack() {
  if (idle_stack != nullptr) return std::exchange(idle_stack, nullptr);
  void* const stack =
      mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return nullptr;
  mprotect(stack, 4096, PROT_NONE);  // a stack that grows too far is an error
  return stack;
}

void enter_call() {
  CallOnStack& call = *on_stack;
  call.call();
  call.has_ended = true;
  swapcontext(&call.callee, &call.caller);
}

[[gnu::noinline]] void prepare(ucontext_t& callee, void* stack) {
  getcontext(&callee);
  callee.uc_stack.ss_sp = stack;
  callee.uc_stack.ss_size = stack_bytes;
  callee.uc_link = nullptr;
  makecontext(&callee, enter_call, 0);
}

}  // namespace

bool call_on_own_stack(const std::function<void()>& call, const std::function<bool()>& must_leave) {
  void* const stack = take_stack();
  if (stack == nullptr) return call(), true;  // then nobody watches
  auto* const one = new CallOnStack;
  one->call = call;
  one->must_leave = &must_leave;
  prepare(one->callee, stack);
  on_stack = one;
  swapcontext(&one->caller, &one->callee);
  on_stack = nullptr;
  if (!one->has_ended) return false;
  idle_stack = stack;
  delete one;
  return true;
}

}  // namespace ucft::mpi

// Turns inside a turn are not counted: there something may be half done.
extern "C" __attribute__((visibility("default"))) int opal_progress() {
  using namespace ucft::mpi;
  static auto* const real = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "opal_progress"));
  CallOnStack* const call = on_stack;
  if (call == nullptr) [[likely]]
    return real();
  on_stack = nullptr;
  const int events = real();
  on_stack = call;
  if (++call->turns % turns_per_question == 0 && (*call->must_leave)()) swapcontext(&call->callee, &call->caller);
  return events;
}

#else

namespace ucft::mpi {
bool call_on_own_stack(const std::function<void()>& call, const std::function<bool()>&) { return call(), true; }
}  // namespace ucft::mpi

#endif

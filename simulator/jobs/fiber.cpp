#include "simulator/jobs/fiber.hpp"

#include <cxxabi.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>

#include "simulator/jobs/real.hpp"

namespace ucft::jobs {
namespace {

constexpr std::size_t stack_bytes = std::size_t{512} << 10, guard_bytes = 4096;

Fiber* beginning = nullptr;

// By the functions behind: they are not the calling process's.
void* take_stack() {
  UCFT_REAL(mmap);
  void* const stack =
      real_mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, guard_bytes, PROT_NONE) != 0) throw std::bad_alloc();
  return stack;
}

// Each thread has of its own: this program's thread-local variables, the state of exceptions, and errno.
struct OwnOfThreads {
  std::span<std::byte> variables, exceptions, error;
  std::vector<std::byte> of_new_one;

  OwnOfThreads() {
    dl_iterate_phdr(&OwnOfThreads::look, this);
    exceptions = {reinterpret_cast<std::byte*>(abi::__cxa_get_globals()), 2 * sizeof(void*)};
    error = {reinterpret_cast<std::byte*>(&errno), sizeof errno};
    of_new_one.resize(variables.size() + exceptions.size() + error.size());
    std::ranges::copy(image_, of_new_one.begin());
  }
  void put_into(std::vector<std::byte>& memory) const {
    std::byte* to = memory.data();
    for (const std::span<std::byte>& each : {variables, exceptions, error}) {
      std::memcpy(to, each.data(), each.size());
      to += each.size();
    }
  }
  void take_from(const std::vector<std::byte>& memory) const {
    const std::byte* from = memory.data();
    for (const std::span<std::byte>& each : {variables, exceptions, error}) {
      std::memcpy(each.data(), from, each.size());
      from += each.size();
    }
  }

 private:
  // The first is the program itself.
  static int look(dl_phdr_info* info, std::size_t, void* arg) {
    auto& self = *static_cast<OwnOfThreads*>(arg);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info->dlpi_phdr[i];
      if (part.p_type != PT_TLS) continue;
      self.variables = {static_cast<std::byte*>(info->dlpi_tls_data), part.p_memsz};
      self.image_ = {reinterpret_cast<const std::byte*>(info->dlpi_addr + part.p_vaddr), part.p_filesz};
    }
    return 1;
  }
  std::span<const std::byte> image_;
};

const OwnOfThreads& own_of_threads() {
  static const OwnOfThreads all;
  return all;
}

}  // namespace

Fiber::Fiber(std::uint64_t id, Process& process, std::function<void()> body)
    : id_(id), process_(process), body_(std::move(body)), stack_(take_stack()), own_(own_of_threads().of_new_one) {}

Fiber::~Fiber() {
  UCFT_REAL(munmap);
  real_munmap(stack_, stack_bytes);
}

// The first switch is makecontext()'s; the others are jumps, which ask nothing of the kernel.
void Fiber::resume() {
  take_own();
  if (_setjmp(scheduler_) != 0) return;
  if (has_begun_) _longjmp(here_, 1);
  has_begun_ = true;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = stack_bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, &Fiber::begin, 0);
  beginning = this;
  setcontext(&context_);
}

namespace {

std::vector<std::byte>* owner = nullptr;  // whose variables they are; nullptr: the program's
std::vector<std::byte> of_program;

void switch_own(std::vector<std::byte>* to) {
  if (owner == to) return;
  if (of_program.empty()) of_program = own_of_threads().of_new_one;
  own_of_threads().put_into(owner == nullptr ? of_program : *owner);
  own_of_threads().take_from(to == nullptr ? of_program : *to);
  owner = to;
}

}  // namespace

void Fiber::take_own() { switch_own(&own_); }
void Fiber::leave_all() { switch_own(nullptr); }

void Fiber::begin() {
  Fiber* const self = beginning;
  self->body_();
  self->is_over_ = true;
  self->suspend();
}

void Fiber::suspend() {
  if (_setjmp(here_) == 0) _longjmp(scheduler_, 1);
}

}  // namespace ucft::jobs

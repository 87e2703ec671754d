#include "ucx_layer/api/memory_check.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace ucft::detail {

namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool writable = false;
};
// Of the calling thread. (In static thread storage, which libraries that are loaded later have some of, too: a look is
// a load then, and no call.)
struct Known {
  std::array<Range, 8> ranges;
  std::size_t next;
  std::size_t last[2];  // the latest found: to be read, to be written
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Known known{};

bool is_in(const Range& range, std::uintptr_t begin, std::uintptr_t end, bool write) {
  return begin >= range.begin && end <= range.end && (range.writable || !write);
}

bool is_known(std::uintptr_t begin, std::uintptr_t end, bool write) {
  std::size_t& last = known.last[write ? 1 : 0];
  if (is_in(known.ranges[last], begin, end, write)) return true;
  for (std::size_t i = 0; i < known.ranges.size(); ++i) {
    if (!is_in(known.ranges[i], begin, end, write)) continue;
    last = i;
    return true;
  }
  return false;
}

// Two bytes of our own memory, by the kernel: EFAULT, or one byte less, instead of a signal. Where this call is
// forbidden nothing is said. (In a fork it may be the parent's memory, which has the same ranges.)
bool try_bytes(std::uintptr_t first, std::uintptr_t last, bool write) {
  static const pid_t self = getpid();
  char bytes[2] = {};
  const iovec local{bytes, 2}, remote[]{{reinterpret_cast<void*>(first), 1}, {reinterpret_cast<void*>(last), 1}};
  const auto has_failed = [](ssize_t done) { return done >= 0 ? done < 2 : errno == EFAULT; };
  if (has_failed(process_vm_readv(self, &local, 1, remote, 2, 0))) return false;
  return !write || !has_failed(process_vm_writev(self, &local, 1, remote, 2, 0));
}

bool check(const void* memory, std::size_t bytes, bool write) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  if (is_known(begin, end, write)) return true;
  if (end < begin || !try_bytes(begin, end - 1, write)) return false;
  known.ranges[known.next++ % known.ranges.size()] = {begin, end, write};
  return true;
}

}  // namespace

bool is_readable(const void* memory, std::size_t bytes) { return bytes == 0 || check(memory, bytes, false); }
bool is_writable(void* memory, std::size_t bytes) { return bytes == 0 || check(memory, bytes, true); }

}  // namespace ucft::detail

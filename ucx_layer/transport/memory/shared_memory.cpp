#include "ucx_layer/transport/memory/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "ucx_layer/transport/memory/available_memory.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             ? limit.rlim_cur
             : UINT64_MAX;
}

// In three steps, since a process that has called mlockall(MCL_FUTURE) would commit all of it.
std::byte* map(int descriptor, std::uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  munlock(memory, bytes);
  if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, bytes);
    return nullptr;
  }
  madvise(memory, bytes, MADV_DONTFORK);
  madvise(memory, bytes, MADV_DONTDUMP);  // a dump would read, and so commit, all of it
  return static_cast<std::byte*>(memory);
}

// The kernel refuses no memory that there is not: it ends a process, which may be any. Others take memory at the same
// time, so some is left to them.
bool is_available(std::uint64_t bytes) {
  const std::uint64_t available = available_memory(), reserve = (std::uint64_t{256} << 20) + available / 32;
  if (available >= reserve && bytes <= available - reserve) return true;
  errno = ENOMEM;
  return false;
}

// In pieces: a signal that arrives makes fallocate undo what it has done and say EINTR. Of much it looks before each
// piece whether the rest is there.
bool commit(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t at_once = std::uint64_t{16} << 20, much = 8 * at_once;
  const bool looks = bytes >= much;
  while (bytes > 0) {
    if (looks && !is_available(bytes)) return false;
    const std::uint64_t length = std::min(bytes, at_once);
    if (fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) {
      if (errno == EINTR) continue;
      return false;
    }
    offset += length;
    bytes -= length;
  }
  return true;
}

void free_pages(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  while (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) != 0 &&
         errno == EINTR) {}
}

}  // namespace

// ---- this rank's range ----------------------------------------------------------------------------------------------

std::uint64_t SharedRange::mappable() {
  for (std::uint64_t bytes = std::uint64_t{1} << 44; bytes > page; bytes /= 2) {
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    munmap(memory, bytes);
    return bytes;
  }
  return 0;
}

bool SharedRange::open(std::uint64_t bytes, std::uint64_t least, std::string& error) {
  assert(name_.address == 0);
  const std::uint64_t file_limit = limit_of(RLIMIT_FSIZE) / page * page;  // beyond it SIGXFSZ would end the process
  if (file_limit < least) {
    error = fmt::format("its files may have {} bytes (RLIMIT_FSIZE, ulimit -f), and its shared memory needs {}",
                        file_limit, least);
    return false;
  }
  bytes = std::min(std::max(bytes, least), file_limit) / page * page;
  const int descriptor = memfd_create("ucft", MFD_CLOEXEC);
  if (descriptor < 0) {
    error = fmt::format("memfd_create: {}", std::strerror(errno));
    return false;
  }
  struct stat file {};
  std::byte* memory = ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 && fstat(descriptor, &file) == 0
                          ? map(descriptor, bytes)
                          : nullptr;
  if (memory == nullptr) {
    error = fmt::format("a range of {} bytes for shared memory: {}", bytes, std::strerror(errno));
    ::close(descriptor);
    return false;
  }
  name_ = {reinterpret_cast<std::uint64_t>(memory), bytes, file.st_ino, static_cast<std::int32_t>(getpid()),
           descriptor};
  gaps_[0] = bytes;
  return true;
}

void SharedRange::close() {
  if (name_.address == 0) return;
  munmap(data(), name_.bytes);
  ::close(name_.descriptor);
  name_ = {};
  gaps_.clear();
}

bool SharedRange::take(std::size_t bytes, Use use, Segment& segment, std::string& error) {
  bytes = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& each) { return each.second >= bytes; });
  if (gap == gaps_.end()) {
    error = fmt::format("{} bytes of shared memory: the range of {} bytes that was reserved in start-up is used up",
                        bytes, name_.bytes);
    return false;
  }
  const auto [offset, length] = *gap;
  if (!commit(name_.descriptor, offset, bytes)) {
    error = fmt::format("{} bytes of shared memory: {}", bytes, std::strerror(errno));
    free_pages(name_.descriptor, offset, bytes);
    return false;
  }
  gaps_.erase(gap);
  if (length > bytes) gaps_[offset + bytes] = length - bytes;
  std::byte* memory = data() + offset;
  if (use == Use::lent) {
    madvise(memory, bytes, MADV_DOFORK);
    madvise(memory, bytes, MADV_DODUMP);
  }
  segment = Segment({reinterpret_cast<std::uint64_t>(memory), bytes, ++segments_});
  return true;
}

void SharedRange::give_back(const Segment& segment) {
  std::uint64_t offset = segment.name().address - name_.address, bytes = segment.name().bytes;
  free_pages(name_.descriptor, offset, bytes);
  madvise(segment.data(), bytes, MADV_DONTFORK);
  madvise(segment.data(), bytes, MADV_DONTDUMP);
  // One gap with its neighbours.
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin())
    if (const auto before = std::prev(next); before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  gaps_[offset] = bytes;
}

// ---- a peer's -------------------------------------------------------------------------------------------------------

MappedRange& MappedRange::operator=(MappedRange&& other) noexcept {
  close();
  data_ = std::exchange(other.data_, nullptr);
  name_ = other.name_;
  return *this;
}

namespace {

std::string why_not_opened(const RangeName& name, const std::string& path, int problem) {
  if (problem == ENOENT)
    return fmt::format("process {} has ended, or /proc/{}/fd is hidden from us", name.pid, name.pid);
  const bool is_refused = problem == EACCES || problem == EPERM;
  return fmt::format("{}: {}{}", path, std::strerror(problem),
                     is_refused ? " (another user namespace, or another user)" : "");
}

}  // namespace

bool MappedRange::open(const RangeName& name, std::string& error) {
  const std::string path = fmt::format("/proc/{}/fd/{}", name.pid, name.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    error = why_not_opened(name, path, errno);
    return false;
  }
  struct stat file {};
  const bool is_meant = fstat(descriptor, &file) == 0 && file.st_ino == name.inode &&
                        static_cast<std::uint64_t>(file.st_size) == name.bytes;
  std::byte* memory = is_meant ? map(descriptor, name.bytes) : nullptr;
  if (!is_meant) error = fmt::format("process {} has ended: {} is another's", name.pid, path);
  if (is_meant && memory == nullptr)
    error = fmt::format("mapping {} bytes: {} (RLIMIT_AS, ulimit -v)", name.bytes, std::strerror(errno));
  ::close(descriptor);
  if (memory == nullptr) return false;
  data_ = memory;
  name_ = name;
  return true;
}

void MappedRange::close() {
  if (data_ != nullptr) munmap(data_, name_.bytes);
  data_ = nullptr;
}

}  // namespace ucft::detail

#include "ucx_layer/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ucft {

Segment& Segment::operator=(Segment&& other) noexcept {
  close();
  name_ = std::exchange(other.name_, {});
  return *this;
}

bool Segment::open(std::size_t bytes, std::string& error) {
  const int descriptor = memfd_create("ucft", MFD_CLOEXEC);
  if (descriptor < 0) {
    error = fmt::format("memfd_create: {}", std::strerror(errno));
    return false;
  }
  struct stat file {};
  void* memory = MAP_FAILED;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 && fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0 &&
      fstat(descriptor, &file) == 0)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    error = fmt::format("{} bytes of shared memory: {}", bytes, std::strerror(errno));
    ::close(descriptor);
    return false;
  }
  name_ = {reinterpret_cast<std::uint64_t>(memory), bytes, file.st_ino, static_cast<std::int32_t>(getpid()), descriptor};
  return true;
}

void Segment::close() {
  if (name_.address == 0) return;
  munmap(data(), name_.bytes);
  ::close(name_.descriptor);
  name_ = {};
}

MappedSegment& MappedSegment::operator=(MappedSegment&& other) noexcept {
  close();
  data_ = std::exchange(other.data_, nullptr);
  name_ = other.name_;
  return *this;
}

bool MappedSegment::open(const SegmentName& name) {
  const std::string path = fmt::format("/proc/{}/fd/{}", name.pid, name.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT) errno = ESRCH;
    return false;
  }
  struct stat file {};
  void* memory = MAP_FAILED;
  int error = ESRCH;   // the pid, or the descriptor, is another's now
  if (fstat(descriptor, &file) == 0 && file.st_ino == name.inode && static_cast<std::uint64_t>(file.st_size) == name.bytes) {
    memory = mmap(nullptr, name.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    error = errno;
  }
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    errno = error;
    return false;
  }
  data_ = static_cast<std::byte*>(memory);
  name_ = name;
  return true;
}

void MappedSegment::close() {
  if (data_ != nullptr) munmap(data_, name_.bytes);
  data_ = nullptr;
}

}  // namespace ucft

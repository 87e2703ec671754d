// Memory that the ranks of one host share: anonymous files (memfd) that peers open through /proc/PID/fd.
//
// Why not memory that UCX allocates, and its remote keys: payload segments are mapped when they are first named, and their
// owner may have died by then. ucp_ep_rkey_unpack (UCX 1.13.1) follows a null pointer in a survivor in that case, and
// writes to its stderr. Here it is a false. Nothing ever has a name in /dev/shm, so nothing can be left there; pages are
// reserved when a segment is made, so there is no SIGBUS later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ucft {

// What a peer needs to map a segment. The inode tells whether the descriptor is still the one that was meant.
struct SegmentName {
  std::uint64_t address;   // in the owner
  std::uint64_t bytes;
  std::uint64_t inode;
  std::int32_t pid;
  std::int32_t descriptor;
};

class Segment {
 public:
  Segment() = default;
  ~Segment() { close(); }
  Segment(Segment&& other) noexcept { *this = static_cast<Segment&&>(other); }
  Segment& operator=(Segment&& other) noexcept;

  // Zeroed. False with a reason if memory is exhausted.
  bool open(std::size_t bytes, std::string& error);
  // Peers that have it mapped keep it.
  void close();
  std::byte* data() const { return reinterpret_cast<std::byte*>(name_.address); }
  const SegmentName& name() const { return name_; }
  bool contains(const void* memory, std::size_t length) const {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return at >= name_.address && at - name_.address <= name_.bytes && length <= name_.bytes - (at - name_.address);
  }

 private:
  SegmentName name_{};
};

// A peer's segment in this address space. Stays readable after the peer's death, until closed.
class MappedSegment {
 public:
  MappedSegment() = default;
  ~MappedSegment() { close(); }
  MappedSegment(MappedSegment&& other) noexcept { *this = static_cast<MappedSegment&&>(other); }
  MappedSegment& operator=(MappedSegment&& other) noexcept;

  // False, and errno: ESRCH, its owner is gone; else what this process lacks.
  bool open(const SegmentName& name);
  void close();
  bool is_open() const { return data_ != nullptr; }
  std::uint64_t inode() const { return name_.inode; }
  bool contains(std::uint64_t owner_address, std::uint64_t length) const {
    return owner_address >= name_.address && owner_address - name_.address <= name_.bytes &&
           length <= name_.bytes - (owner_address - name_.address);
  }
  std::byte* at(std::uint64_t owner_address) const { return data_ + (owner_address - name_.address); }

 private:
  std::byte* data_ = nullptr;
  SegmentName name_{};
};

}  // namespace ucft

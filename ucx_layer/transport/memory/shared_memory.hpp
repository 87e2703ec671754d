// Memory that the ranks of one host share. Each rank has one range of addresses: an anonymous file (memfd) of a fixed,
// sparse size. All peers map it whole, once, in start-up, through /proc/PID/fd. Segments are pieces of it, committed
// when they are needed. So a running rank never has to open or map anything of a peer's. A limit of descriptors or of
// address space that is reached later, or a /proc that is hidden, can't come between live ranks. And the memory of a
// dead rank can still be read.
//
// Memory that UCX allocates, with its remote keys, won't do. ucp_ep_rkey_unpack (UCX 1.13.1) follows a null pointer in
// a survivor if the owner has died, and writes to its stderr. Memory here never has a name in /dev/shm, so none can be
// left there. Pages are reserved when a segment is made, so there is no SIGBUS later.
//
// Forked children don't inherit ranges (a write of theirs would be one of the rank's), but for segments that are lent
// to the caller. Core dumps leave out all but those, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ucft::detail {

// The data that a peer needs to map a range. The inode tells whether the descriptor is still the one that was meant.
struct RangeName {
  std::uint64_t address;  // in the owner
  std::uint64_t bytes;
  std::uint64_t inode;
  std::int32_t pid;
  std::int32_t descriptor;
};

struct SegmentName {
  std::uint64_t address;  // in the owner
  std::uint64_t bytes;
  std::uint64_t id;  // of the owner's segments; never used again
};

// A piece of this rank's range. Does not own it.
class Segment {
 public:
  Segment() = default;
  explicit Segment(const SegmentName& name) : name_(name) {}

  std::byte* data() const { return reinterpret_cast<std::byte*>(name_.address); }
  const SegmentName& name() const { return name_; }
  bool contains(const void* memory, std::size_t length) const {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return at >= name_.address && at - name_.address <= name_.bytes && length <= name_.bytes - (at - name_.address);
  }

 private:
  SegmentName name_{};
};

class SharedRange {
 public:
  enum class Use : std::uint8_t { internal, lent };  // lent: to the caller, so forked children have it, too

  SharedRange() = default;
  ~SharedRange() { close(); }
  SharedRange(const SharedRange&) = delete;
  SharedRange& operator=(const SharedRange&) = delete;

  // Bytes of address space that this process can still map, about: a power of two, 16 TiB at most.
  static std::uint64_t mappable();

  // Sparse. False with a reason. least: bytes without which it would be of no use.
  bool open(std::uint64_t bytes, std::uint64_t least, std::string& error);
  // Peers that have it mapped keep it.
  void close();
  const RangeName& name() const { return name_; }

  // A segment of at least so many bytes, zeroed and committed. False with a reason: the range or memory is exhausted.
  bool take(std::size_t bytes, Use use, Segment& segment, std::string& error);
  // Frees its pages: no rank may read it any more.
  void give_back(const Segment& segment);

 private:
  std::byte* data() const { return reinterpret_cast<std::byte*>(name_.address); }

  RangeName name_{};
  std::map<std::uint64_t, std::uint64_t> gaps_;  // offset -> bytes, of what is not taken
  std::uint64_t segments_ = 0;                   // that were ever taken
};

// A peer's range in this address space. Stays readable after the peer's death, until closed.
class MappedRange {
 public:
  MappedRange() = default;
  ~MappedRange() { close(); }
  MappedRange(MappedRange&& other) noexcept { *this = static_cast<MappedRange&&>(other); }
  MappedRange& operator=(MappedRange&& other) noexcept;

  // False with a reason.
  bool open(const RangeName& name, std::string& error);
  void close();
  bool is_open() const { return data_ != nullptr; }
  bool contains(std::uint64_t owner_address, std::uint64_t length) const {
    return owner_address >= name_.address && owner_address - name_.address <= name_.bytes &&
           length <= name_.bytes - (owner_address - name_.address);
  }
  std::byte* at(std::uint64_t owner_address) const { return data_ + (owner_address - name_.address); }

 private:
  std::byte* data_ = nullptr;
  RangeName name_{};
};

}  // namespace ucft::detail

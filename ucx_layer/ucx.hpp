// The part of UCX that ucft uses, each object closed by its owner: context and worker, memory that UCX allocated,
// remote keys. Traps of UCX 1.13 that are worked around here are named where they are.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ucft {

struct UcxOptions {
  bool single_host;       // all ranks share a host
  bool any_shared_host;   // some ranks do
};

// A UCP context with one worker. One thread at a time.
class Ucx {
 public:
  Ucx() = default;
  ~Ucx();
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;

  bool open(const UcxOptions& options, std::string& error);
  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  std::vector<std::byte> address(std::string& error) const;   // empty: error
  // Closes an endpoint without asking the peer; never blocks for longer than its own bookkeeping needs.
  void close(ucp_ep_h endpoint);

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

// Memory that UCX allocated, so that peers of this host can map it. Its pages exist from the start.
class Segment {
 public:
  Segment() = default;
  ~Segment() { close(); }
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept;

  bool open(ucp_context_h context, std::size_t bytes, std::string& error);
  void close();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::vector<std::byte>& packed_rkey() const { return packed_rkey_; }
  bool contains(const void* memory, std::size_t length) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(data_), at = reinterpret_cast<std::uintptr_t>(memory);
    return at >= begin && at - begin <= bytes_ && length <= bytes_ - (at - begin);
  }

 private:
  ucp_context_h context_ = nullptr;
  ucp_mem_h handle_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::byte> packed_rkey_;
};

// A peer's segment in this address space. Stays readable after the peer's death, until closed.
class MappedSegment {
 public:
  MappedSegment() = default;
  ~MappedSegment() { close(); }
  MappedSegment(MappedSegment&& other) noexcept { *this = std::move(other); }
  MappedSegment& operator=(MappedSegment&& other) noexcept;

  // owner_address: where the segment is in its owner. False without an error text: it can't be mapped (another host).
  bool open(ucp_ep_h endpoint, const void* packed_rkey, std::uint64_t owner_address);
  void close();
  bool is_open() const { return rkey_ != nullptr; }
  std::byte* at(std::uint64_t owner_address) const { return data_ + (owner_address - owner_address_); }

 private:
  ucp_rkey_h rkey_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t owner_address_ = 0;
};

}  // namespace ucft

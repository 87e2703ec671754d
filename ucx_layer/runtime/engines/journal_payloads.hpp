// Memory that entries of a host's journal point to, which all of the host's ranks read where it is: each block, as long
// as this rank or another one needs it.
//
//   lent       this rank has appended the entry: until all others have let go of it
//   borrowed   another rank has: until nothing here refers to it any more
#pragma once

#include <deque>
#include <span>

#include "collectives/core/buffers.hpp"

namespace ucft::detail {

class JournalPayloads {
 public:
  explicit JournalPayloads(Buffers& buffers) : buffers_(buffers) {}
  ~JournalPayloads();
  JournalPayloads(const JournalPayloads&) = delete;
  JournalPayloads& operator=(const JournalPayloads&) = delete;

  // Whether these data, of this block, may be lent as they are: all ranks of the host have mapped it, at whole words.
  bool lies_where_all_read(const Slice& of, std::span<const std::byte> data) const;
  // Memory that all ranks of the host read, to be lent. None: there is none.
  Slice allocate(std::uint64_t bytes);
  // Of the entry there; takes over one reference.
  void lend(std::uint64_t position, const Slice& payload) { lent_.push_back({position, payload.buffer}); }
  bool has_lent() const { return !lent_.empty(); }
  // Others need nothing of entries before that one.
  void take_back(std::uint64_t before);

  // Of the entry there, which is read next.
  Slice borrow(std::uint64_t position, const std::byte* data, std::uint64_t bytes);
  // This rank is through with all before that one. Returns from which entry on something here refers to theirs.
  std::uint64_t give_back(std::uint64_t before);

 private:
  struct Payload {
    std::uint64_t position;
    BufferId block;  // one reference
  };
  using Payloads = std::deque<Payload>;  // oldest first

  Buffers& buffers_;
  Payloads lent_, borrowed_;
};

}  // namespace ucft::detail

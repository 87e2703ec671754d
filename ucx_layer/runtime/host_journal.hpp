// The journal of a host among hosts (collectives/hosts/journal.hpp), in memory that its ranks share. Entry k is the
// k-th broadcast on a communicator of theirs, from the rank that speaks. So after any deaths an entry is there for all
// of them or for none. A speaker that is proved dead is known by a broadcast that its root has not given.
//
//   head      what has happened, and short data             one broadcast
//   payload   longer data                                   a second one, of as many bytes as the head says
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "collectives/hosts/journal.hpp"
#include "ucx_layer/runtime/request.hpp"

namespace ucft::detail {

class Communicator;

class HostJournal : public Journal {
 public:
  // ranks: those of this host; null: this one is the only one. contribution: of this rank's part in a call. It is null
  // while that is not through here; until then the entry is not to be read.
  HostJournal(Communicator* ranks, Buffers& buffers,
              std::function<const HostContribution*(OperationNumber call)> contribution);
  ~HostJournal() override { give_back(); }

  bool may_append() const override { return speaks() && !writes_ && !is_there_ && !ended_ && !lacks_memory_; }
  void append(std::uint64_t position, const JournalEntry& entry) override;
  const JournalEntry* at(std::uint64_t position) override;

  // Goes on with what waited for others. True: a speaker was found dead (dead(), as a rank of this host): the next rank
  // speaks.
  bool advance();
  Rank speaker() const { return speaker_; }
  // For an entry, here: this rank must leave the others to theirs.
  bool lacks_memory() const { return lacks_memory_; }
  bool is_written() const { return !writes_; }

 private:
  struct Head;
  static constexpr std::size_t head_bytes = 112;  // as much as a slab has room for beside a stamp

  bool speaks() const;
  static std::size_t payload_of(const Head& head);
  bool post(Request& request, const std::byte* data, std::size_t bytes);
  void write();
  void read();
  bool make_room();
  void give_back();
  void open();

  Communicator* ranks_;
  Buffers& buffers_;
  std::function<const HostContribution*(OperationNumber)> contribution_;
  Rank speaker_ = 0;
  std::uint64_t position_ = 0;  // of the entry that is there, or comes next
  enum class Written : std::uint8_t { nothing, head, payload } written_ = Written::nothing;
  bool is_there_ = false, writes_ = false, reads_ = false, in_payload_ = false, ended_ = false, lacks_memory_ = false;
  alignas(8) std::array<std::byte, head_bytes> head_{};
  std::size_t payload_bytes_ = 0;       // 0: the head has room for them
  const std::byte* payload_ = nullptr;  // of a value that is long and alone: where its writer has it
  BufferId block_ = no_buffer;          // else
  Request request_;
  JournalEntry entry_;
};

}  // namespace ucft::detail

// Collectives of ranks that share memory which outlives its writer: agreement is reading. No message, no ballot, no retry, any
// number of deaths, and what one rank has delivered all survivors deliver.
//
//   operation s, of rank i:   V[i] = its data, stamped s
//                             P[i] = V[i] + P of its children, stamped s             (inner nodes of a tree; none if it is flat)
//                             result = P[root of the tree], or the sum of all V      (reduce: its root alone; broadcast: V[root])
//   wanting P[x]:             it is there; or V[x] is there, or x is proved dead (then look at P[x] and V[x] again): so do x's
//                             work yourself. Nothing is sent for it
//
// Why all have the same result: V[x] is in it if and only if it is stamped once x has ended, since nobody leaves it out before x
// is proved dead and looked at again; and all combine in one fixed shape. So a proof must be one: a suspicion never reaches this.
//
// Invariants:
// - A word of a slab is stored by its owner alone, the stamp after what it speaks for. Stamps and is_dead() are loaded with
//   acquire order, stamps stored with release order: who has seen the stamp sees the data, who has seen the proof sees all
//   that the dead has stored. Nothing needs an order between a load and an earlier store (no Dekker), so x86 needs no fence.
// - Bank s mod B is stored to again, for s + B, when all have completed s: each has posted s + W, or is proved dead.
//   (Who has posted t has completed t - W.) After an operation that all take part in that is known without looking.
// - Every rank stamps every operation, also where it gives no data: what it has posted is compared there, signature and length, by
//   those who read it. Who posts something else holds nobody up; who posts nothing more, and lives, does.
// - Several ranks compute one result: reductions give the same bits for the same operands on all ranks. User operators must, too.
//
// Large data (host_slab.hpp), of an allreduce: when every V is there or never will be, the set of contributors is fixed. Then
// rank i combines the chunks c with c mod n = i, from all inputs, and stamps each; all take them from there. Chunks of a dead rank
// that it has not stamped, each combines itself: the inputs are in memory that outlives it. An area is used again when all have
// said that they are through with it, or are proved dead.
//
// A value: it holds no pointer into that memory, has no clock, and every access goes through a Memory, which is an argument:
//
//   HostWord load(Rank owner, HostPlace)          acquire
//   void store(HostPlace, HostWord)               release; this rank's slab
//   void write(HostPlace first, const std::byte* data, std::uint64_t bytes)    this rank's slab, before a store
//   const std::byte* read(Rank owner, HostPlace first, std::uint64_t bytes)    after a load; valid until the next read
//   bool is_dead(Rank)                            acquire; a proof. False of this rank
//   std::byte* scratch(int level)                 payload_bytes, or chunk_bytes if more; for each level < depth() of the tree
//   void deliver(OperationNumber, std::uint64_t offset, const std::byte* data, std::uint64_t bytes)   a result, or a chunk of it
//   void deliver_block(OperationNumber, Rank, const std::byte* data, std::uint64_t bytes) an allgather's, of each contributor.
//                                                 The length is what that rank has given: compare it
//
// On atomics these are single instructions; the explorer (simulator/host_world.hpp) makes each a step of its own, between
// which any other rank may go on or die.
#pragma once

#include <cassert>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/host/host_reading.hpp"

namespace ucft::detail {

class HostStage {
 public:
  // layout, tree: the same on all ranks. With 2 * window banks, a rank whose operations all read all values never looks for a bank.
  HostStage(const HostSeat& seat, const HostLayout& layout, std::shared_ptr<const HostTree> tree)
      : seat_(seat),
        layout_(layout),
        tree_(std::move(tree)),
        users_(static_cast<std::size_t>(layout.areas)),
        operations_(static_cast<std::size_t>(seat.window)) {
    assert(tree_->ranks() == seat.ranks && seat.me >= 0 && seat.me < seat.ranks && seat.window >= 1);
    assert(seat.use >= 1 && seat.use < host_uses && layout.banks > seat.window && layout.areas <= 256);
    assert(layout.most_bytes() <= 0xffffffff && (layout.areas == 0 || layout.chunk_bytes > 0));
  }

  // Whether an operation to which this rank gives that many bytes can be posted now. If the window has room but memory may still be
  // read by others, it looks how far they are.
  template <class Memory>
  bool ready(Memory& memory, std::uint64_t bytes) {
    if (next_ - done_ >= static_cast<OperationNumber>(seat_.window)) return false;
    return is_bank_free(memory) && (!layout_.is_large(bytes) || is_area_free(memory));
  }

  // Requires ready(). data: call.bytes(), needed during the call only; null where this rank gives none.
  template <class Memory>
  OperationNumber post(Memory& memory, const HostCall& call, const std::byte* data) {
    assert(call.bytes() <= layout_.most_bytes() && next_ + 1 < host_numbers);
    const OperationNumber number = next_++;
    Operation& operation = at(number);
    operation = Operation{};
    operation.call = call;
    const HostPlace place = layout_.value(number);
    const std::uint64_t bytes = bytes_given(call);
    HostNote note{call.signature, call.lacks_memory ? Outcome::no_memory : Outcome::success, 0,
                  static_cast<std::uint32_t>(bytes)};
    if (layout_.is_large(bytes)) {
      note.area = static_cast<std::uint8_t>(larges_ % users_.size());
      users_[note.area] = number;
      ++larges_;
    }
    if (bytes > 0) memory.write(reading(memory, number).data_place(note), data, bytes);
    memory.store(place + 1, note.word());
    memory.store(place, stamp(number));
    return number;
  }

  // Goes as far as what others have stored allows; calls completed(number) for each operation that is through now, with its
  // data delivered. True if there was one.
  template <class Memory, class Completed>
  bool progress(Memory& memory, Completed completed) {
    bool any = false;
    for (OperationNumber number = done_; number < next_; ++number)
      if (!at(number).finished && advance(reading(memory, number))) {
        completed(number);
        any = true;
      }
    const OperationNumber before = done_;
    while (done_ < next_ && at(done_).finished) ++done_;
    if (layout_.areas > 0 && done_ > before) memory.store(layout_.through(), stamp(done_ - 1));
    return any;
  }

  // The slab's last word of this use: nothing in it will be read by this rank again. Requires idle().
  template <class Memory>
  void close(Memory& memory) {
    looked_at_ = 0;  // it may have stood still in ready()
    memory.store(layout_.closed(), seat_.use);
  }
  // Whether all have closed it, or are proved dead: then it may be given to a greater use. Its first word is for ever.
  template <class Memory>
  bool is_closed_by_all(Memory& memory) {
    return all_have(memory, looked_at_, layout_.closed(), seat_.use);
  }

  // Of what is posted next, as ready() wants to know it.
  std::uint64_t bytes_given(const HostCall& call) const { return gives(call) && !call.lacks_memory ? call.bytes() : 0; }
  OperationNumber next() const { return next_; }
  OperationNumber done() const { return done_; }  // all before it are finished
  bool idle() const { return done_ == next_; }
  bool finished(OperationNumber number) const { return number < done_ || at(number).finished; }
  const HostResult& result(OperationNumber number) const { return at(number).result; }  // until W more were posted

  // All that its future depends on, a word at a time.
  template <class Use>
  void describe(Use word) const {
    for (HostWord each : {next_, done_, posted_by_all_, larges_}) word(each);
    for (OperationNumber each : users_) word(each);
    word(static_cast<HostWord>(looked_at_) << 32 | static_cast<HostWord>(looked_through_));
    for (OperationNumber number = done_; number < next_; ++number) {
      const Operation& each = at(number);
      word(each.chunks_done << 1 | static_cast<HostWord>(each.has_combined_mine));
      word(static_cast<HostWord>(each.seen) << 32 | static_cast<HostWord>(each.looks) << 2 |
           static_cast<HostWord>(each.has_given_partial) << 1 | static_cast<HostWord>(each.finished));
    }
  }

 private:
  struct Operation {
    HostCall call;
    HostResult result;
    Rank seen = 0;  // V of all lower ranks is there, or never will be
    int looks = 0;
    bool has_given_partial = false, finished = false;
    bool has_combined_mine = false;  // large: this rank's chunks
    std::uint64_t chunks_done = 0;   // large: delivered
  };

  HostWord stamp(OperationNumber number) const { return host_stamp(seat_.use, number); }
  Operation& at(OperationNumber number) { return operations_[number % operations_.size()]; }
  const Operation& at(OperationNumber number) const { return operations_[number % operations_.size()]; }
  bool gives(const HostCall& call) const { return call.pattern != HostPattern::broadcast_of || call.root == seat_.me; }
  template <class Memory>
  HostReading<Memory> reading(Memory& memory, OperationNumber number) const {
    return {seat_, layout_, *tree_, at(number).call, number, memory};
  }

  template <class Memory>
  bool is_bank_free(Memory& memory) {
    const auto banks = static_cast<OperationNumber>(layout_.banks), window = static_cast<OperationNumber>(seat_.window);
    if (next_ < banks) return true;
    const OperationNumber needed = next_ - banks + window;
    if (needed < posted_by_all_) return true;
    if (!all_have(memory, looked_at_, layout_.value(needed), stamp(needed))) return false;
    note_posted_by_all(needed);
    return true;
  }

  // Of an area that has been used, all must be through with the operation that used it.
  template <class Memory>
  bool is_area_free(Memory& memory) {
    if (larges_ < users_.size()) return true;
    return all_have(memory, looked_through_, layout_.through(), stamp(users_[larges_ % users_.size()]));
  }

  // Each rank has stored `least` or more there, or is proved dead. cursor: how far it has been seen; it begins anew when all have.
  template <class Memory>
  bool all_have(Memory& memory, Rank& cursor, HostPlace place, HostWord least) const {
    for (; cursor < seat_.ranks; ++cursor)
      if (memory.load(cursor, place) < least && !memory.is_dead(cursor)) return false;
    cursor = 0;
    return true;
  }

  template <class Memory>
  bool advance(const HostReading<Memory>& all) {
    const HostCall& call = all.call();
    switch (call.pattern) {
      case HostPattern::broadcast_of: return receive_broadcast(all);
      case HostPattern::reduce_to:
        if (call.root != seat_.me) return leave_to_root(all);
        if (!has_all_values(all)) return false;
        return layout_.is_large(call.bytes()) ? take_all_chunks(all) : sum_up(all);
      case HostPattern::gather_all: return has_all_values(all) && take_blocks(all);
      case HostPattern::reduce_all: break;
    }
    if (layout_.is_large(call.bytes())) return has_all_values(all) && scatter_and_gather(all);
    return tree_->is_flat() ? has_all_values(all) && sum_up(all) : climb(all);
  }

  // Every V is there, or its owner is dead and left none.
  template <class Memory>
  bool has_all_values(const HostReading<Memory>& all) {
    Operation& operation = at(all.number());
    for (; operation.seen < seat_.ranks; ++operation.seen)
      if (!all.is_settled(operation.seen)) return false;
    note_posted_by_all(all.number());
    return true;
  }
  void note_posted_by_all(OperationNumber number) {
    if (number < posted_by_all_) return;
    posted_by_all_ = number + 1;
    looked_at_ = 0;
  }

  template <class Memory>
  bool sum_up(const HostReading<Memory>& all) {
    return finish(all, all.combined(0, 0));
  }

  template <class Memory>
  bool take_blocks(const HostReading<Memory>& all) {
    const HostResult result = all.result_of_all();
    for (Rank x = 0; x < seat_.ranks && result.outcome == Outcome::success; ++x) {
      if (!all.is_there(x)) continue;
      const HostNote note = all.note_of(x);
      const std::byte* const block = all.memory().read(x, all.data_place(note), note.count);
      all.memory().deliver_block(all.number(), x, block, note.count);
    }
    return finish(all, {result, nullptr});
  }

  // ---- rooted -------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool receive_broadcast(const HostReading<Memory>& all) {
    const Rank root = all.call().root;
    if (!all.is_settled(root)) return false;
    HostPartial got;
    if (!all.is_there(root)) {
      got.result.outcome = Outcome::root_failed;
    } else if (all.add_note(root, got.result) && root != seat_.me) {
      got.data = all.memory().read(root, all.data_place(all.note_of(root)), all.call().bytes());
    }
    return finish(all, got);
  }

  // What became of the sum only the root knows.
  template <class Memory>
  bool leave_to_root(const HostReading<Memory>& all) {
    HostPartial none;
    if (all.memory().is_dead(all.call().root)) none.result.outcome = Outcome::root_failed;
    return finish(all, none);
  }

  // ---- on a tree ----------------------------------------------------------------------------------------------------

  template <class Memory>
  bool climb(const HostReading<Memory>& all) {
    Operation& operation = at(all.number());
    const bool helps = has_patience_ended(operation);
    if (!operation.has_given_partial && all.has_partial(seat_.me) && all.are_settled_below(seat_.me, helps)) {
      give_partial(all);
      operation.has_given_partial = true;
    }
    if (!all.is_subtree_settled(0, helps)) return false;
    note_posted_by_all(all.number());
    return sum_up(all);
  }
  // One more look that was in vain, if it was: then others' work may be done for them.
  bool has_patience_ended(Operation& operation) const {
    if (operation.looks >= seat_.patience) return true;
    ++operation.looks;
    return false;
  }

  template <class Memory>
  void give_partial(const HostReading<Memory>& all) {
    const HostPartial mine = all.combined(seat_.me, 0);
    const HostCall& call = all.call();
    const HostPlace place = layout_.partial(all.number());
    if (mine.data != nullptr && call.bytes() > 0) all.memory().write(place + 2, mine.data, call.bytes());
    const std::uint32_t count = has_culprit(mine.result.outcome) ? static_cast<std::uint32_t>(mine.result.culprit + 1)
                                                                 : mine.result.contributors;
    all.memory().store(place + 1, HostNote{call.signature, mine.result.outcome, 0, count}.word());
    all.memory().store(place, all.stamp());
  }

  // ---- large --------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool scatter_and_gather(const HostReading<Memory>& all) {
    Operation& operation = at(all.number());
    const HostResult result = all.result_of_all();
    if (result.outcome != Outcome::success) return finish(all, {result, nullptr});
    if (!operation.has_combined_mine) {
      for (std::uint64_t chunk = 0; chunk < all.chunks(); ++chunk)
        if (owner_of(chunk) == seat_.me) give_chunk(all, chunk);
      operation.has_combined_mine = true;
    }
    const bool helps = has_patience_ended(operation);
    for (; operation.chunks_done < all.chunks(); ++operation.chunks_done)
      if (!take_chunk(all, operation.chunks_done, helps)) return false;
    return finish(all, {result, nullptr});
  }
  Rank owner_of(std::uint64_t chunk) const {
    return static_cast<Rank>(chunk % static_cast<std::uint64_t>(seat_.ranks));
  }

  template <class Memory>
  void give_chunk(const HostReading<Memory>& all, std::uint64_t chunk) {
    const std::uint64_t area = all.note_of(seat_.me).area;
    all.memory().write(layout_.combined(area) + HostLayout::words_of(all.offset_of_chunk(chunk)),
                       all.combined_chunk(chunk), all.bytes_of_chunk(chunk));
    all.memory().store(layout_.chunk_stamp(area, chunk), all.stamp());
  }

  // From its owner; or combined here, if the owner is dead, or lives and does not come to it.
  template <class Memory>
  bool take_chunk(const HostReading<Memory>& all, std::uint64_t chunk, bool helps) {
    const Rank owner = owner_of(chunk);
    const bool gives = all.is_there(owner);  // else it is dead
    const std::byte* const data = gives ? all.chunk_of(owner, chunk) : nullptr;
    if (data == nullptr && gives && !helps && !all.memory().is_dead(owner)) return false;
    deliver_chunk(all, chunk, data != nullptr ? data : all.combined_chunk(chunk));
    return true;
  }

  // The root of a reduce needs nobody: others are through already.
  template <class Memory>
  bool take_all_chunks(const HostReading<Memory>& all) {
    const HostResult result = all.result_of_all();
    for (std::uint64_t chunk = 0; chunk < all.chunks() && result.outcome == Outcome::success; ++chunk)
      deliver_chunk(all, chunk, all.combined_chunk(chunk));
    return finish(all, {result, nullptr});
  }

  template <class Memory>
  static void deliver_chunk(const HostReading<Memory>& all, std::uint64_t chunk, const std::byte* data) {
    all.memory().deliver(all.number(), all.offset_of_chunk(chunk), data, all.bytes_of_chunk(chunk));
  }

  // ---- all ----------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool finish(const HostReading<Memory>& all, const HostPartial& got) {
    Operation& operation = at(all.number());
    if (got.data != nullptr && got.result.outcome == Outcome::success && operation.call.bytes() > 0)
      all.memory().deliver(all.number(), 0, got.data, operation.call.bytes());
    operation.result = got.result;
    operation.finished = true;
    return true;
  }

  HostSeat seat_;
  HostLayout layout_;
  std::shared_ptr<const HostTree> tree_;
  OperationNumber next_ = 0, done_ = 0;
  OperationNumber posted_by_all_ = 0;        // those before it: by all that live
  OperationNumber larges_ = 0;               // posted, with large data of this rank
  Rank looked_at_ = 0, looked_through_ = 0;  // of the ranks whose word is waited for: all lower ones were fine
  std::vector<OperationNumber> users_;       // of this rank's areas: the operation that has used each last
  std::vector<Operation> operations_;
};

}  // namespace ucft::detail

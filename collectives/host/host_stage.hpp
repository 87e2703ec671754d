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
// - Every rank stamps every operation, also where it gives no data: what it has posted is compared there.
//
// Large data (host_slab.hpp), of an allreduce: when every V is there or never will be, the set of contributors is fixed. Then
// rank i combines the chunks c with c mod n = i, from all inputs, and stamps each; all take them from there. Chunks of a dead rank
// that it has not stamped, each combines itself: the inputs are in memory that outlives it. An area is used again when all have
// said that they are through with it, or are proved dead.
//
// A value: it holds no pointer, has no clock, and every access goes through a Memory, which is an argument:
//
//   HostWord load(Rank owner, HostPlace)          acquire
//   void store(HostPlace, HostWord)               release; this rank's slab
//   void write(HostPlace first, const std::byte* data, std::uint64_t bytes)    this rank's slab, before a store
//   const std::byte* read(Rank owner, HostPlace first, std::uint64_t bytes)    after a load; valid until the next read
//   bool is_dead(Rank)                            acquire; a proof. False of this rank
//   std::byte* scratch(int level)                 payload_bytes, or chunk_bytes if more; one for each level of the tree
//   void deliver(OperationNumber, std::uint64_t offset, const std::byte* data, std::uint64_t bytes)   a result, or a chunk of it
//   void deliver_block(OperationNumber, Rank, const std::byte* data, std::uint64_t bytes) an allgather's, of each contributor
//
// On atomics these are single instructions; the explorer (simulator/host_world.hpp) makes each a step of its own, between
// which any other rank may go on or die.
#pragma once

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/host/host_slab.hpp"
#include "collectives/host/host_tree.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {

enum class HostPattern : std::uint8_t {
  reduce_all,    // allreduce, and barrier with no data
  reduce_to,     // to the root alone: others are through when they have given theirs
  broadcast_of,  // of the root's data; an error for all if it has died before
  gather_all     // each contributor's block, to all
};

struct HostCall {
  HostPattern pattern = HostPattern::reduce_all;
  Reduction reduction{};
  std::uint64_t count = 0;  // elements; gather_all: of this rank's block
  Rank root = 0;
  std::uint16_t signature = 0;  // differs where ranks post different things
  bool lacks_memory = false;    // this rank has no data: then nobody has a result

  std::uint64_t bytes() const { return count * element_bytes(reduction.type); }
};

struct HostResult {
  Outcome outcome = Outcome::success;
  Rank culprit = no_rank;          // mismatch, no_memory
  std::uint32_t contributors = 0;  // of reduce_all, gather_all, and of reduce_to at its root
};

struct HostSeat {
  Rank me = 0, ranks = 1;
  std::int32_t window = 2;  // operations that may be in flight
  HostUse use = 1;
  int patience = 0;  // looks at an inner node's P before its work is done for it, though it lives
};

class HostStage {
 public:
  // layout.banks: 2 * window or more. tree: of seat.ranks.
  HostStage(const HostSeat& seat, const HostLayout& layout, std::shared_ptr<const HostTree> tree)
      : seat_(seat),
        layout_(layout),
        tree_(std::move(tree)),
        users_(static_cast<std::size_t>(layout.areas)),
        operations_(static_cast<std::size_t>(seat.window)) {
    assert(tree_->ranks() == seat.ranks && seat.me >= 0 && seat.me < seat.ranks && seat.window >= 1);
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
    assert(call.bytes() <= layout_.most_bytes());
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
    if (bytes > 0) memory.write(data_place(note, number), data, bytes);
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
      if (!at(number).finished && advance(memory, number)) {
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
    looked_at_ = 0;
    memory.store(layout_.closed(), seat_.use);
  }
  // Whether all have closed it, or are proved dead: then it may be given to another use.
  template <class Memory>
  bool is_closed_by_all(Memory& memory) {
    for (; looked_at_ < seat_.ranks; ++looked_at_)
      if (memory.load(looked_at_, layout_.closed()) < seat_.use && !memory.is_dead(looked_at_)) return false;
    return true;
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
  // What is known of a subtree. data: null if nobody of it has contributed, or there are no data.
  struct Partial {
    HostResult result;
    const std::byte* data = nullptr;
  };

  HostWord stamp(OperationNumber number) const { return host_stamp(seat_.use, number); }
  Operation& at(OperationNumber number) { return operations_[number % operations_.size()]; }
  const Operation& at(OperationNumber number) const { return operations_[number % operations_.size()]; }
  bool gives(const HostCall& call) const { return call.pattern != HostPattern::broadcast_of || call.root == seat_.me; }
  bool has_partial(Rank rank) const { return !tree_->is_flat() && tree_->is_inner(rank); }

  // Of the data of the V with that note.
  HostPlace data_place(const HostNote& note, OperationNumber number) const {
    return layout_.is_large(note.count) ? layout_.input(note.area) : layout_.value(number) + 2;
  }
  template <class Memory>
  HostNote note_of(Memory& memory, Rank x, OperationNumber number) const {
    return HostNote::of(memory.load(x, layout_.value(number) + 1));
  }

  template <class Memory>
  bool is_bank_free(Memory& memory) {
    const auto banks = static_cast<OperationNumber>(layout_.banks), window = static_cast<OperationNumber>(seat_.window);
    if (next_ < banks) return true;
    const OperationNumber needed = next_ - banks + window;
    if (needed < posted_by_all_) return true;
    for (; looked_at_ < seat_.ranks; ++looked_at_)
      if (memory.load(looked_at_, layout_.value(needed)) < stamp(needed) && !memory.is_dead(looked_at_)) return false;
    looked_at_ = 0;
    posted_by_all_ = needed + 1;
    return true;
  }

  // Of an area that has been used, all must be through with the operation that used it.
  template <class Memory>
  bool is_area_free(Memory& memory) {
    if (larges_ < users_.size()) return true;
    const HostWord needed = stamp(users_[larges_ % users_.size()]);
    for (; looked_through_ < seat_.ranks; ++looked_through_)
      if (memory.load(looked_through_, layout_.through()) < needed && !memory.is_dead(looked_through_)) return false;
    looked_through_ = 0;
    return true;
  }

  template <class Memory>
  bool is_stamped(Memory& memory, Rank rank, HostPlace place, OperationNumber number) {
    return memory.load(rank, place) == stamp(number);
  }

  template <class Memory>
  bool advance(Memory& memory, OperationNumber number) {
    switch (const HostCall& call = at(number).call; call.pattern) {
      case HostPattern::broadcast_of: return receive_broadcast(memory, number);
      case HostPattern::reduce_to:
        if (call.root != seat_.me) return leave_to_root(memory, number);
        if (!has_all_values(memory, number)) return false;
        return layout_.is_large(call.bytes()) ? take_all_chunks(memory, number) : sum_up(memory, number);
      case HostPattern::gather_all: return has_all_values(memory, number) && take_blocks(memory, number);
      case HostPattern::reduce_all: break;
    }
    if (layout_.is_large(at(number).call.bytes()))
      return has_all_values(memory, number) && scatter_and_gather(memory, number);
    return tree_->is_flat() ? has_all_values(memory, number) && sum_up(memory, number) : climb(memory, number);
  }

  // ---- flat ---------------------------------------------------------------------------------------------------------

  // Every V is there, or its owner is dead and left none.
  template <class Memory>
  bool has_all_values(Memory& memory, OperationNumber number) {
    Operation& operation = at(number);
    for (; operation.seen < seat_.ranks; ++operation.seen)
      if (!is_settled(memory, operation.seen, number)) return false;
    if (posted_by_all_ <= number) posted_by_all_ = number + 1, looked_at_ = 0;
    return true;
  }

  // V[x] is stamped, or never will be: x is proved dead, and it was not there after that.
  template <class Memory>
  bool is_settled(Memory& memory, Rank x, OperationNumber number) {
    return is_stamped(memory, x, layout_.value(number), number) || memory.is_dead(x);
  }

  template <class Memory>
  bool sum_up(Memory& memory, OperationNumber number) {
    return finish(memory, number, combined(memory, 0, number, 0));
  }

  template <class Memory>
  bool take_blocks(Memory& memory, OperationNumber number) {
    Partial all;
    for (Rank x = 0; x < seat_.ranks; ++x) add_note(memory, x, number, all.result);
    if (all.result.outcome == Outcome::success)
      for (Rank x = 0; x < seat_.ranks; ++x) {
        if (!is_stamped(memory, x, layout_.value(number), number)) continue;
        const HostNote note = note_of(memory, x, number);
        memory.deliver_block(number, x, memory.read(x, data_place(note, number), note.count), note.count);
      }
    return finish(memory, number, all);
  }

  // ---- rooted -------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool receive_broadcast(Memory& memory, OperationNumber number) {
    const Rank root = at(number).call.root;
    if (!is_settled(memory, root, number)) return false;
    Partial got;
    got.result.outcome = Outcome::root_failed;
    if (is_stamped(memory, root, layout_.value(number), number)) {
      got.result.outcome = Outcome::success;
      add_note(memory, root, number, got.result);
      got.result.contributors = got.result.outcome == Outcome::success ? 1 : 0;
      if (got.result.outcome == Outcome::success && root != seat_.me)
        got.data = memory.read(root, data_place(note_of(memory, root, number), number), at(number).call.bytes());
    }
    return finish(memory, number, got);
  }

  // What became of the sum only the root knows.
  template <class Memory>
  bool leave_to_root(Memory& memory, OperationNumber number) {
    Partial none;
    if (memory.is_dead(at(number).call.root)) none.result.outcome = Outcome::root_failed;
    return finish(memory, number, none);
  }

  // ---- large --------------------------------------------------------------------------------------------------------

  // Of an operation whose values are all there.
  template <class Memory>
  HostResult result_of_all(Memory& memory, OperationNumber number) {
    HostResult all;
    for (Rank x = 0; x < seat_.ranks; ++x) add_note(memory, x, number, all);
    return all;
  }

  template <class Memory>
  bool scatter_and_gather(Memory& memory, OperationNumber number) {
    Operation& operation = at(number);
    operation.result = result_of_all(memory, number);
    if (operation.result.outcome != Outcome::success) return operation.finished = true;
    const std::uint64_t chunks = chunks_of(number);
    if (!operation.has_combined_mine) {
      for (std::uint64_t chunk = 0; chunk < chunks; ++chunk)
        if (owner_of(chunk) == seat_.me) give_chunk(memory, number, chunk);
      operation.has_combined_mine = true;
    }
    for (; operation.chunks_done < chunks; ++operation.chunks_done)
      if (!take_chunk(memory, number, operation.chunks_done)) {
        if (seat_.patience > operation.looks) ++operation.looks;
        return false;
      }
    return operation.finished = true;
  }

  // The root of a reduce needs nobody: others are through already.
  template <class Memory>
  bool take_all_chunks(Memory& memory, OperationNumber number) {
    Operation& operation = at(number);
    operation.result = result_of_all(memory, number);
    if (operation.result.outcome == Outcome::success)
      for (std::uint64_t chunk = 0; chunk < chunks_of(number); ++chunk)
        deliver_chunk(memory, number, chunk, combined_chunk(memory, number, chunk));
    return operation.finished = true;
  }

  std::uint64_t chunks_of(OperationNumber number) const {
    return (at(number).call.bytes() + layout_.chunk_bytes - 1) / layout_.chunk_bytes;
  }
  std::uint64_t bytes_of_chunk(OperationNumber number, std::uint64_t chunk) const {
    return std::min(layout_.chunk_bytes, at(number).call.bytes() - chunk * layout_.chunk_bytes);
  }
  Rank owner_of(std::uint64_t chunk) const {
    return static_cast<Rank>(chunk % static_cast<std::uint64_t>(seat_.ranks));
  }

  // In scratch: of all inputs, in rank order.
  template <class Memory>
  const std::byte* combined_chunk(Memory& memory, OperationNumber number, std::uint64_t chunk) {
    const HostCall& call = at(number).call;
    const std::uint64_t bytes = bytes_of_chunk(number, chunk);
    const HostPlace offset = HostLayout::words_of(chunk * layout_.chunk_bytes);
    std::byte* const sum = memory.scratch(0);
    bool is_first = true;
    for (Rank x = 0; x < seat_.ranks; ++x) {
      if (!is_stamped(memory, x, layout_.value(number), number)) continue;
      const HostPlace place = data_place(note_of(memory, x, number), number) + offset;
      const std::byte* const data = memory.read(x, place, bytes);
      if (std::exchange(is_first, false))
        std::copy(data, data + bytes, sum);
      else
        combine(call.reduction, sum, sum, data, bytes / element_bytes(call.reduction.type));
    }
    return sum;
  }

  template <class Memory>
  void give_chunk(Memory& memory, OperationNumber number, std::uint64_t chunk) {
    const std::uint64_t area = note_of(memory, seat_.me, number).area;
    memory.write(layout_.combined(area) + HostLayout::words_of(chunk * layout_.chunk_bytes),
                 combined_chunk(memory, number, chunk), bytes_of_chunk(number, chunk));
    memory.store(layout_.chunk_stamp(area, chunk), stamp(number));
  }

  // From its owner; or combined here, if the owner is dead, or lives and does not come to it.
  template <class Memory>
  bool take_chunk(Memory& memory, OperationNumber number, std::uint64_t chunk) {
    const Rank owner = owner_of(chunk);
    if (is_stamped(memory, owner, layout_.value(number), number)) {
      const std::uint64_t area = note_of(memory, owner, number).area;
      if (is_stamped(memory, owner, layout_.chunk_stamp(area, chunk), number)) {
        const HostPlace place = layout_.combined(area) + HostLayout::words_of(chunk * layout_.chunk_bytes);
        deliver_chunk(memory, number, chunk, memory.read(owner, place, bytes_of_chunk(number, chunk)));
        return true;
      }
      if (!may_do_its_work(number) && !memory.is_dead(owner)) return false;
    }
    deliver_chunk(memory, number, chunk, combined_chunk(memory, number, chunk));
    return true;
  }

  template <class Memory>
  void deliver_chunk(Memory& memory, OperationNumber number, std::uint64_t chunk, const std::byte* data) {
    memory.deliver(number, chunk * layout_.chunk_bytes, data, bytes_of_chunk(number, chunk));
  }

  // ---- on a tree ----------------------------------------------------------------------------------------------------

  template <class Memory>
  bool climb(Memory& memory, OperationNumber number) {
    Operation& operation = at(number);
    if (!operation.has_given_partial && has_partial(seat_.me) && are_settled_below(memory, seat_.me, number)) {
      give_partial(memory, number);
      operation.has_given_partial = true;
    }
    if (is_subtree_settled(memory, 0, number)) {
      if (posted_by_all_ <= number) posted_by_all_ = number + 1, looked_at_ = 0;
      return sum_up(memory, number);
    }
    if (seat_.patience > operation.looks) ++operation.looks;
    return false;
  }

  template <class Memory>
  bool are_settled_below(Memory& memory, Rank x, OperationNumber number) {
    for (Rank child : tree_->children(x))
      if (!is_subtree_settled(memory, child, number)) return false;
    return true;
  }

  template <class Memory>
  bool is_subtree_settled(Memory& memory, Rank x, OperationNumber number) {
    if (has_partial(x) && is_stamped(memory, x, layout_.partial(number), number)) return true;
    if (!is_settled(memory, x, number)) return false;
    if (!has_partial(x)) return true;
    if (x != seat_.me && !may_do_its_work(number) && !memory.is_dead(x)) return false;
    return are_settled_below(memory, x, number);
  }
  bool may_do_its_work(OperationNumber number) const { return at(number).looks >= seat_.patience; }

  template <class Memory>
  void give_partial(Memory& memory, OperationNumber number) {
    const Partial mine = combined(memory, seat_.me, number, 0);
    const HostCall& call = at(number).call;
    const HostPlace place = layout_.partial(number);
    if (mine.data != nullptr && call.bytes() > 0) memory.write(place + 2, mine.data, call.bytes());
    const std::uint32_t count = has_culprit(mine.result.outcome) ? static_cast<std::uint32_t>(mine.result.culprit + 1)
                                                                 : mine.result.contributors;
    memory.store(place + 1, HostNote{call.signature, mine.result.outcome, 0, count}.word());
    memory.store(place, stamp(number));
  }

  // ---- both ---------------------------------------------------------------------------------------------------------

  // The sum of a settled subtree, in the one shape: its root's P, or V + what its children have.
  template <class Memory>
  Partial combined(Memory& memory, Rank x, OperationNumber number, int level) {
    const HostCall& call = at(number).call;
    if (has_partial(x) && is_stamped(memory, x, layout_.partial(number), number)) return partial_of(memory, x, number);
    Partial sum;
    if (add_note(memory, x, number, sum.result)) {
      sum.data = memory.read(x, layout_.value(number) + 2, call.bytes());
      if (!tree_->is_inner(x)) return sum;
    }
    std::byte* const mine = memory.scratch(level);
    const auto add = [&](const std::byte* data) {
      if (data == nullptr || call.bytes() == 0) return;
      if (sum.data == nullptr)
        std::copy(data, data + call.bytes(), mine);
      else
        combine(call.reduction, mine, mine, data, call.count);
      sum.data = mine;
    };
    add(std::exchange(sum.data, nullptr));
    for (Rank child : tree_->children(x)) {
      const Partial part = combined(memory, child, number, level + 1);
      merge(part.result, sum.result);
      add(part.data);
    }
    return sum;
  }

  template <class Memory>
  Partial partial_of(Memory& memory, Rank x, OperationNumber number) {
    const HostPlace place = layout_.partial(number);
    const HostNote note = HostNote::of(memory.load(x, place + 1));
    Partial given;
    given.result = {note.outcome, no_rank, note.count};
    if (has_culprit(note.outcome)) given.result = {note.outcome, static_cast<Rank>(note.count) - 1, 0};
    if (note.signature != at(number).call.signature) given.result = {Outcome::mismatch, x, 0};
    if (given.result.contributors > 0) given.data = memory.read(x, place + 2, at(number).call.bytes());
    return given;
  }

  // Of V[x]. True if there are data in it.
  template <class Memory>
  bool add_note(Memory& memory, Rank x, OperationNumber number, HostResult& result) {
    const HostPlace place = layout_.value(number);
    if (!is_stamped(memory, x, place, number)) return false;
    const HostNote note = HostNote::of(memory.load(x, place + 1));
    HostResult its{note.outcome, no_rank, 1};
    if (note.signature != at(number).call.signature)
      its = {Outcome::mismatch, x, 0};
    else if (note.outcome != Outcome::success)
      its = {note.outcome, x, 0};
    merge(its, result);
    return its.outcome == Outcome::success;
  }

  // A mismatch absorbs everything, a lack of memory all but that; of two the one named first.
  static void merge(const HostResult& from, HostResult& to) {
    if (to.outcome == Outcome::mismatch) return;
    if (from.outcome == Outcome::mismatch || (has_culprit(from.outcome) && !has_culprit(to.outcome))) to = from;
    if (!has_culprit(to.outcome)) to.contributors += from.contributors;
  }

  template <class Memory>
  bool finish(Memory& memory, OperationNumber number, const Partial& got) {
    Operation& operation = at(number);
    if (got.data != nullptr && got.result.outcome == Outcome::success && operation.call.bytes() > 0)
      memory.deliver(number, 0, got.data, operation.call.bytes());
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

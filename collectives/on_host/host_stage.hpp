// Collectives of ranks that share memory which outlives its writer: agreement is reading. No message, no ballot, no
// retry, any number of deaths, and what one rank has delivered all survivors deliver.
//
//   operation s, of rank i:   V[i] = its data, stamped s
//                             P[i] = V[i] + P of its children, stamped s   (inner nodes of a tree; none if it is flat)
//                             result = P[root of the tree], or the sum of all V  (reduce: its root; broadcast: V[root])
//   wanting P[x]:             it is there; or V[x] is there, or x is proved dead (then look at P[x] and V[x] again): so
//                             do x's work yourself. Nothing is sent for it
//
// Why all have the same result: V[x] is in it if and only if it is stamped once x has ended. No rank leaves it out
// before x is proved dead and looked at again, and all combine in one fixed shape. So a proof must be one: a suspicion
// never reaches this.
//
// Invariants:
// - A word of a slab is stored by its owner alone, the stamp after what it speaks for. Stamps and is_dead() are loaded
//   with acquire order, stamps stored with release order. A rank that has seen the stamp sees the data. One that has
//   seen the proof sees all that the dead rank stored. No load needs an order after an earlier store, so x86 needs no
//   fence. `through`, and the stamp of t for t - W, are stored behind the last read of what may then be overwritten.
//   Release order keeps that read before them. The overwriter may learn of the stamp by P of others, which have loaded
//   it and stored theirs behind it. tests/unit/litmus_test.cpp races the shapes.
// - Bank s mod B is stored to again, for s + B, when all have completed s: each is through with it, or is proved dead.
//   After an operation that all take part in much of that is known: a rank that has posted t has completed t - W.
// - Every rank stamps every operation, also where it gives no data: its readers compare signature and length there. A
//   rank that posts a different operation delays no other. A live one that stops posting does.
// - A rank that has left is as a dead one: it posts and reads nothing more. It has completed all that it had posted.
// - Several ranks compute one result: reductions give all the same bits for the same operands. So must user operators.
//
// Large data (host_slab.hpp), of an allreduce: when every V is there or never will be, the set of contributors is
// fixed. Then rank i combines and finishes the chunks c with c mod n = i, from all inputs, and stamps each; all take
// them from there. Chunks of a dead rank that it has not stamped, each combines itself: the inputs are in memory that
// outlives it. Memory outside the slab is used again when all are through with the operation, or are proved dead.
//
// A value: no pointer into that memory, no clock. Every access goes through a Memory, which is an argument:
//
//   HostWord load(Rank owner, HostPlace)         acquire
//   bool has(Rank owner, HostPlace p, HostWord, HostWord)      whether load(p) and then load(p + 1) would find these
//   void store(HostPlace, HostWord)              release; this rank's slab
//   void write(HostPlace, const std::byte*, bytes)             the same, before a store; data: or room() of that place
//   std::byte* room(HostPlace)                   where to make what write() is to write: there, or apart. chunk_bytes
//   const std::byte* read(Rank owner, HostPlace, bytes)        after a load; valid until each rank was read, in chunks
//                                                of one sweep until the next but one
//   bool is_dead(Rank)                           acquire; a proof, or it has left. False of this rank
//   bool looks_again()                           whether to look again, in the same call, for what was not there yet
//   void announce(OperationNumber)               run() only: what this rank gives to it is stored, and will be read
//   std::byte* scratch(int level)                large_bytes, level 0: or chunk_bytes; for each level of the tree
//   std::byte* destination(OperationNumber, offset)            where to combine a chunk that is delivered then:
//                                                chunk_bytes, such as scratch(0)
//   void deliver(OperationNumber, offset, const std::byte*, bytes)            (a chunk of) a result, to be finished
//   void deliver_finished(OperationNumber, offset, const std::byte*, bytes)   a chunk that is
//   void deliver_block(OperationNumber, Rank, const std::byte*, bytes)        an allgather's, of each contributor
//   bool expects_block(OperationNumber, Rank, bytes, read)                    whether this rank expects that length.
//                                                read() returns the block, if its length is not enough to tell
//
// On atomics these are single instructions; in simulator/host_world.hpp any rank may go on or die between two of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/core/sometimes.hpp"
#include "collectives/on_host/host_reading.hpp"

namespace ucft::detail {

class HostStage {
 public:
  // layout, tree: the same on all ranks. With 2 * window banks, one whose operations read all values looks for no bank.
  HostStage(const HostSeat& seat, const HostLayout& layout, std::shared_ptr<const HostTree> tree)
      : seat_(seat),
        layout_(layout),
        bank_mask_(static_cast<OperationNumber>(layout.banks - 1)),
        stride_(layout.stride()),
        tree_(std::move(tree)),
        givers_(static_cast<std::size_t>(seat.ranks)),
        operations_(std::bit_ceil(static_cast<std::size_t>(seat.window))),
        mask_(operations_.size() - 1) {
    assert(tree_->ranks() == seat.ranks && seat.me >= 0 && seat.me < seat.ranks && seat.window >= 1);
    assert(layout.banks > seat.window && std::has_single_bit(static_cast<unsigned>(layout.banks)) &&
           layout.inline_bytes <= layout.large_bytes && layout.chunk_bytes > 0 &&
           (layout.cells == 2 || tree_->is_flat()));
    std::iota(givers_.begin(), givers_.end(), 0);
  }

  // Whether an operation can be posted now. If others may still read a bank, it looks how far they are.
  template <class Memory>
  bool ready(Memory& memory) {
    return next_ - done_ < static_cast<OperationNumber>(seat_.window) && is_bank_free(memory);
  }

  // Bytes that this rank gives; they need a place of their own if they are not inline.
  std::uint64_t bytes_given(const HostCall& call) const { return gives(call) && !call.lacks_memory ? call.bytes() : 0; }
  // Bytes of the room that this rank needs beside it, to combine in.
  std::uint64_t combined_bytes(const HostCall& call) const {
    const std::uint64_t bytes = bytes_given(call);
    const bool is_large = layout_.is_large(bytes);
    if (layout_.is_inline(bytes) || !(is_large ? call.is_made_by_all() : call.pattern.sums_for_all())) return 0;
    if (!is_large) return tree_->is_flat() || !tree_->is_inner(seat_.me) ? 0 : bytes;
    return layout_.own_chunks(bytes, seat_.ranks) *
           (HostLayout::words_of(layout_.bytes_of_chunks(bytes, seat_.ranks)) + 1) * sizeof(HostWord);
  }

  // Whether a rank that needs a result of so many bytes reads what each has given: a sum may be made of all at once.
  bool reads_all(std::uint64_t bytes) const {
    return (tree_->is_flat() || layout_.is_large(bytes)) && seat_.ranks <= HostSources::most;
  }

  // None where more than one look at each is needed: tree, chunks, user operator. places: for data not inline.
  std::optional<HostShortcut> shortcut(const HostCall& call, const HostPlaces& places = {}) const {
    const std::uint64_t bytes = call.bytes();
    if (layout_.is_large(bytes) || call.lacks_memory) return std::nullopt;
    const bool from_one = call.pattern.from_root(), to_one = call.pattern.to_root();
    HostShortcut way;
    way.bytes = bytes;
    way.take(call);
    if (!from_one && !call.pattern.puts_side_by_side()) {
      way.kernel = Combiner(call.reduction).kernel();
      const bool combines = bytes == 0 || way.kernel != nullptr || call.reduction.sweeps_twice();
      if (!tree_->is_flat() || !combines) return std::nullopt;
    }
    way.note = note_of(call).word();
    way.usual = usual_note(call, bytes).word();
    way.gives = gives(call) && bytes > 0;
    const bool is_root = call.root == seat_.me;
    if (from_one && (!is_root || !call.takes_all()))
      way.reads = HostShortcut::Reads::root;
    else if (!from_one && (!to_one || is_root))
      way.reads = call.pattern.is_prefix ? HostShortcut::Reads::up_to_own : HostShortcut::Reads::all;
    way.is_inline = layout_.is_inline(bytes);
    way.apart = static_cast<OperationNumber>(layout_.banks);
    if (way.gives && !way.is_inline && HostLayout::words_of(bytes) <= places.words) {
      way.places = places;
      way.apart = std::min(way.apart, places.count);
    }
    return way;
  }

  // post() and progress() in one, of a call that has a shortcut, can_run(), and has nothing to finish. no: nothing was
  // done: others are in flight, or its bank or place may still be read. ended: with success, and contributors().
  enum class Ran : std::uint8_t { no, posted, ended };
  template <class Memory>
  [[gnu::always_inline]] Ran run(Memory& memory, const HostCall& call, const HostShortcut& way, const std::byte* data) {
    assert(!call.reduction.finishes() && way.can_run());
    const OperationNumber number = next_;
    if (number != done_ || (number - finished_by_all_ >= way.apart && !is_free(memory, number - way.apart)))
      return Ran::no;
    const HostPlace cell = value_of(number);
    next_ = number + 1;
    if (way.gives) {
      const HostPlace place = way.is_inline ? cell + 2 : way.places.of(number);
      memory.write(place, data, way.bytes);
      if (!way.is_inline) memory.store(cell + 2, place);
    }
    memory.store(cell + 1, way.note);
    memory.store(cell, host_stamp(number));
    memory.announce(number);
    std::size_t alike = 0;
    if (!end_at_once(memory, number, cell, call, way, alike)) {
      keep(number, call, way, alike);
      return Ran::posted;
    }
    done_ = next_;
    memory.store(HostLayout::through(), host_stamp(number));
    return Ran::ended;
  }

  // The contributors of an operation that has just ended by its shortcut; of a reduce at its root.
  std::uint32_t contributors(const HostShortcut& way) const {
    if (way.reads == HostShortcut::Reads::up_to_own) return static_cast<std::uint32_t>(givers_up_to_own().size());
    return way.reads == HostShortcut::Reads::all ? static_cast<std::uint32_t>(givers_.size()) : 1;
  }

  // Requires ready().
  template <class Memory>
  OperationNumber post(Memory& memory, const HostCall& call, const HostData& given) {
    const OperationNumber number = next_++;
    at(number) = Operation{.call = call, .way = shortcut(call)};
    const HostPlace place = layout_.value(number);
    const std::uint64_t bytes = bytes_given(call);
    if (!layout_.is_inline(bytes)) {
      memory.store(place + 2, given.place);
      memory.store(place + 3, given.combined);
      if (bytes >= HostNote::most) memory.store(place + 4, bytes);
      if (layout_.is_large(bytes) && call.is_made_by_all()) clear_stamps(reading(memory, number), given.combined);
    }
    if (bytes > 0 && given.data != nullptr)
      memory.write(layout_.is_inline(bytes) ? place + 2 : given.place, given.data, bytes);
    memory.store(place + 1, note_of(call).word());
    memory.store(place, host_stamp(number));
    return number;
  }

  // Whether nobody reads any more what this rank gave to that operation, and all before. Looks only if it has to.
  template <class Memory>
  [[gnu::always_inline]] bool is_free(Memory& memory, OperationNumber number) {
    if (finished_by_all(number)) return true;
    OperationNumber finished = next_;
    for (Rank x : givers_) {
      const HostWord through = memory.load(x, HostLayout::through());  // the stamp of an operation: 1 + its number
      if (through >= host_stamp(number))
        finished = std::min(finished, through);
      else if (!memory.is_dead(x))
        return false;
    }
    finished_by_all_ = finished;
    return true;
  }
  // As far as this rank knows without looking.
  bool finished_by_all(OperationNumber number) const { return number < finished_by_all_; }

  // Goes as far as what others have stored allows; calls completed(number) for each operation that is through now, with
  // its data delivered. True if there was one.
  template <class Memory, class Completed>
  bool progress(Memory& memory, Completed completed) {
    bool any = false;
    for (OperationNumber number = done_; number < next_; ++number)
      if (!at(number).finished && (finish_at_once(memory, number) || advance(memory, number))) {
        completed(number);
        any = true;
      }
    const OperationNumber before = done_;
    while (done_ < next_ && at(done_).finished) ++done_;
    if (done_ > before) memory.store(HostLayout::through(), host_stamp(done_ - 1));
    return any;
  }

  // HostReading's, of an operation of this rank.
  template <class Memory, class Use>
  void for_each_awaited(Memory& memory, OperationNumber number, Use use) const {
    reading(memory, number).for_each_awaited(use);
  }

  // Where the data of the operation that is posted next are to be; if they are there, its given.data is null.
  HostPlace place_of_next(const HostCall& call, const HostData& given) const {
    return layout_.is_inline(bytes_given(call)) ? layout_.value(next_) + 2 : given.place;
  }

  OperationNumber next() const { return next_; }
  OperationNumber done() const { return done_; }  // all before it are finished
  bool idle() const { return done_ == next_; }
  bool finished(OperationNumber number) const { return number < done_ || at(number).finished; }
  const HostResult& result(OperationNumber number) const { return at(number).result; }  // until W more were posted

  // All that its future depends on, a word at a time.
  template <class Use>
  void describe(Use word) const {
    for (HostWord each : {next_, done_, finished_by_all_, givers_from_, HostWord{givers_.size()}}) word(each);
    for (Rank each : givers_) word(static_cast<HostWord>(each));
    for (OperationNumber number = done_; number < next_; ++number) {
      const Operation& each = at(number);
      word(each.chunks_done << 32 | each.rounds_given);
      word(static_cast<HostWord>(each.alike) << 48 | static_cast<HostWord>(each.seen) << 32 |
           static_cast<HostWord>(each.looks) << 2 | static_cast<HostWord>(each.has_given_partial) << 1 |
           static_cast<HostWord>(each.finished));
    }
  }

 private:
  struct Operation {
    HostCall call{};
    std::optional<HostShortcut> way{};
    HostResult result{};
    std::size_t alike = 0;  // with a shortcut: of so many that are read V is there, and says what is usual
    Rank seen = 0;          // V of all lower ranks is there, or never will be
    int looks = 0;
    bool has_given_partial = false, finished = false;
    std::uint64_t rounds_given = 0;  // large: of chunks, one of each rank, in which this rank has given its own
    std::uint64_t chunks_done = 0;   // large: delivered
  };

  [[gnu::noinline]] void keep(OperationNumber number, const HostCall& its, const HostShortcut& way, std::size_t alike) {
    at(number) = Operation{.call = its, .way = way, .alike = alike};
  }
  // layout_.value(), worked out as far as it is the same for all.
  HostPlace value_of(OperationNumber number) const { return layout_.first_bank() + (number & bank_mask_) * stride_; }
  Operation& at(OperationNumber number) { return operations_[number & mask_]; }
  const Operation& at(OperationNumber number) const { return operations_[number & mask_]; }
  // The note of this rank's V.
  HostNote note_of(const HostCall& call) const {
    const Outcome outcome = call.lacks_memory ? Outcome::no_memory : Outcome::success;
    const std::uint32_t count =
        gives(call) ? HostNote::count_of(bytes_given(call)) : HostNote::is_root | static_cast<std::uint32_t>(call.root);
    return {call.signature, outcome, count, call.what};
  }
  bool gives(const HostCall& call) const { return !call.pattern.from_root() || call.root == seat_.me; }
  template <class Memory>
  HostReading<Memory> reading(Memory& memory, OperationNumber number) const {
    return {seat_, layout_, *tree_, at(number).call, number, memory};
  }

  template <class Memory>
  bool is_bank_free(Memory& memory) {
    const auto banks = static_cast<OperationNumber>(layout_.banks);
    return next_ < banks || is_free(memory, next_ - banks);
  }

  // For the chunks that this rank will combine: older words in that memory must not be taken for their stamps.
  template <class Memory>
  void clear_stamps(const HostReading<Memory>& all, HostPlace room) const {
    for (std::uint64_t chunk = static_cast<std::uint64_t>(seat_.me); chunk < all.chunks();
         chunk += static_cast<std::uint64_t>(seat_.ranks))
      all.memory().store(room + all.chunk_stamp(chunk), 0);
  }

  // As advance() with a shortcut, where all that are read are there and alike. False: it has to look.
  template <class Memory>
  bool finish_at_once(Memory& memory, OperationNumber number) {
    Operation& operation = at(number);
    if (!operation.way || number < givers_from_) return false;
    operation.result = {Outcome::success, no_rank, contributors(*operation.way)};  // deliver() may ask
    return operation.finished =
               end_at_once(memory, number, value_of(number), operation.call, *operation.way, operation.alike);
  }
  // alike: where it has come to.
  template <class Memory>
  [[gnu::always_inline]] bool end_at_once(Memory& memory, OperationNumber number, HostPlace cell, const HostCall& call,
                                          const HostShortcut& way, std::size_t& alike) {
    const HostWord stamp = host_stamp(number);
    const std::span<const Rank> read = read_by(call, way);
    while (alike < read.size()) {
      const Rank x = read[alike];
      if (memory.has(x, cell, stamp, way.usual))
        ++alike;
      else if (!memory.looks_again())
        return false;
    }
    if (read.empty()) return !call.pattern.to_root() || !memory.is_dead(call.root);
    if (way.reads == HostShortcut::Reads::all) note_posted_by_all(number);
    return deliver_at_once(memory, number, cell, call, way, read);
  }
  template <class Memory>
  [[gnu::always_inline]] bool deliver_at_once(Memory& memory, OperationNumber number, HostPlace cell,
                                              const HostCall& call, const HostShortcut& way,
                                              std::span<const Rank> read) const {
    const auto data_of = [&](Rank x) {
      return memory.read(x, way.is_inline ? cell + 2 : memory.load(x, cell + 2), way.bytes);
    };
    if (call.pattern.puts_side_by_side()) {
      for (Rank x : read)
        if (!memory.expects_block(number, x, way.bytes, [&] { return data_of(x); })) return false;
      for (Rank x : read) memory.deliver_block(number, x, data_of(x), way.bytes);
    } else if (call.reduction.sweeps_twice() && way.taken > 0) {
      HostSources sources;
      for (Rank x : read) sources.add(data_of(x) + way.from);
      memory.deliver(number, 0, sources.sum(call.reduction, way.taken, memory.scratch(0)), way.taken);
    } else if (way.taken > 0) {
      const std::byte* sum = nullptr;
      for (Rank x : read) {
        const std::byte* const its = data_of(x) + way.from;
        if (sum == nullptr) {
          sum = its;
        } else {
          std::byte* const into = memory.scratch(0);
          way.kernel(into, sum, its, way.taken_count);
          sum = into;
        }
      }
      memory.deliver(number, 0, sum, way.taken);
    }
    return true;
  }

  template <class Memory>
  [[gnu::noinline]] bool advance(Memory& memory, OperationNumber number) {
    const HostReading<Memory> all = reading(memory, number);
    const HostCall& call = all.call();
    if (call.pattern.from_root()) return receive_broadcast(all);
    if (call.pattern.to_root() && call.root != seat_.me) return leave_to_root(all);
    if (call.pattern.puts_side_by_side()) return has_all_values(all) && take_blocks(all);
    if (layout_.is_large(call.bytes()))
      return has_all_values(all) && (call.is_made_by_all() ? scatter_and_gather(all) : take_share(all));
    return tree_->is_flat() || call.pattern.to_root() ? has_all_values(all) && sum_up(all) : climb(all);
  }

  // Every V that is needed is there, or its owner is dead and left none.
  template <class Memory>
  bool has_all_values(const HostReading<Memory>& all) {
    Rank& seen = at(all.number()).seen;
    Rank x = seen;
    while (x < all.end() && (all.is_there(x) || note_if_absent(all, x))) ++x;
    seen = x;
    if (x == seat_.ranks) note_posted_by_all(all.number());
    return x == all.end();
  }
  // True: x is dead. If it has not given this, it gives nothing more: each posts t after all before it.
  template <class Memory>
  bool note_if_absent(const HostReading<Memory>& all, Rank x) {
    if (!all.memory().is_dead(x)) return false;
    if (all.is_there(x)) return UCFT_SOMETIMES("a rank that is gone has given its part");
    if (std::erase(givers_, x) > 0) givers_from_ = std::max(givers_from_, all.number());
    return UCFT_SOMETIMES("a rank that is gone has not given its part");
  }
  // The ranks whose data this rank needs, of an operation not before givers_from_.
  std::span<const Rank> read_by(const HostCall& call, const HostShortcut& way) const {
    if (way.reads == HostShortcut::Reads::all) return givers_;
    if (way.reads == HostShortcut::Reads::up_to_own) return givers_up_to_own();
    return {&call.root, way.reads == HostShortcut::Reads::root ? 1u : 0u};
  }
  std::span<const Rank> givers_up_to_own() const {
    return {givers_.begin(), std::ranges::upper_bound(givers_, seat_.me)};
  }
  void note_posted_by_all(OperationNumber number) {
    const auto window = static_cast<OperationNumber>(seat_.window);
    if (number >= window) finished_by_all_ = std::max(finished_by_all_, number - window + 1);
  }

  template <class Memory>
  bool sum_up(const HostReading<Memory>& all) {
    return finish(all, tree_->is_flat() ? all.sum_of_values() : all.combined(0, 0));
  }

  template <class Memory>
  bool take_blocks(const HostReading<Memory>& all) {
    HostResult result = all.result_of_all();
    const auto read = [&](Rank x) {
      const std::uint64_t bytes = all.bytes_of(x);
      return all.memory().read(x, all.value_place(x, bytes), bytes);
    };
    for (Rank x = 0; x < all.end() && result.outcome == Outcome::success; ++x)
      if (all.is_there(x) && !all.memory().expects_block(all.number(), x, all.bytes_of(x), [&] { return read(x); }))
        result = {Outcome::mismatch, x, 0};
    for (Rank x = 0; x < all.end() && result.outcome == Outcome::success; ++x)
      if (all.is_there(x)) all.memory().deliver_block(all.number(), x, read(x), all.bytes_of(x));
    return finish(all, {result, nullptr});
  }

  // ---- rooted -------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool receive_broadcast(const HostReading<Memory>& all) {
    const Rank root = all.call().root;
    if (!all.is_settled(root)) return false;
    HostPartial got;
    if (!all.is_there(root) && UCFT_SOMETIMES("a root is gone before it has given")) {
      got.result.outcome = Outcome::root_failed;
    } else if (all.add_note(root, got.result) && (root != seat_.me || !all.call().takes_all())) {
      got.data = all.memory().read(root, all.value_place(root, all.call().bytes()), all.call().bytes());
    }
    return finish(all, got);
  }

  // Only the root knows what became of the sum. But a rank that has given nothing knows that of itself.
  template <class Memory>
  bool leave_to_root(const HostReading<Memory>& all) {
    HostPartial none;
    if (all.call().lacks_memory)
      none.result = {Outcome::no_memory, seat_.me, 0};
    else if (all.memory().is_dead(all.call().root) && !all.has_completed(all.call().root) &&
             UCFT_SOMETIMES("the root of a sum is gone"))
      none.result.outcome = Outcome::root_failed;
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
  // Counts a look that was in vain. True after seat_.patience of them: then others' work may be done for them.
  bool has_patience_ended(Operation& operation) const {
    if (operation.looks >= seat_.patience) return UCFT_SOMETIMES("a rank loses its patience with another one");
    ++operation.looks;
    return false;
  }

  template <class Memory>
  void give_partial(const HostReading<Memory>& all) {
    const HostPartial mine = all.combined(seat_.me, 0);
    const HostCall& call = all.call();
    const HostPlace place = layout_.partial(all.number());
    if (mine.result.outcome == Outcome::success && mine.data != nullptr && call.bytes() > 0) {
      const HostPlace room = layout_.is_inline(call.bytes()) ? place + 2 : all.combined_place(seat_.me);
      if (room != place + 2) all.memory().store(place + 2, room);
      all.memory().write(room, mine.data, call.bytes());
    }
    const std::uint32_t count = has_culprit(mine.result.outcome) ? static_cast<std::uint32_t>(mine.result.culprit + 1)
                                                                 : mine.result.contributors;
    all.memory().store(place + 1, HostNote{call.signature, mine.result.outcome, count}.word());
    all.memory().store(place, all.stamp());
  }

  // ---- large --------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool scatter_and_gather(const HostReading<Memory>& all) {
    Operation& operation = at(all.number());
    if (operation.rounds_given == 0) {
      operation.result = all.result_of_all();
      if (operation.result.outcome != Outcome::success) return finish(all, {operation.result, nullptr});
    }
    // After each of its own it takes what others have given, while that is in their caches.
    for (; operation.rounds_given < all.rounds(); ++operation.rounds_given) {
      const std::uint64_t mine =
          operation.rounds_given * static_cast<std::uint64_t>(seat_.ranks) + static_cast<std::uint64_t>(seat_.me);
      if (mine < all.chunks()) give_chunk(all, mine);
      take_chunks(all, false);
    }
    return take_chunks(all, has_patience_ended(operation)) && finish(all, {operation.result, nullptr});
  }

  template <class Memory>
  void give_chunk(const HostReading<Memory>& all, std::uint64_t chunk) {
    const HostPlace room = all.combined_place(seat_.me), place = room + all.chunk_place(chunk);
    const std::uint64_t bytes = all.bytes_of_chunk(chunk);
    const Reduction& reduction = all.call().reduction;
    std::byte* const to = all.memory().room(place);
    const std::byte* made = all.combined_chunk(chunk, reduction.finishes() ? all.memory().scratch(0) : to);
    if (reduction.finishes()) {
      ucft::detail::finish(reduction, to, made, bytes / reduction.carrier_bytes(),
                           at(all.number()).result.contributors);
      made = to;
    }
    all.memory().write(place, made, all.finished_bytes(bytes));
    all.memory().store(room + all.chunk_stamp(chunk), all.stamp());
  }

  // Takes the chunks in their order, as far as they are there. True: all.
  template <class Memory>
  bool take_chunks(const HostReading<Memory>& all, bool helps) {
    Operation& operation = at(all.number());
    while (operation.chunks_done < all.chunks() && take_chunk(all, operation.chunks_done, helps))
      ++operation.chunks_done;
    return operation.chunks_done == all.chunks();
  }

  // Takes a chunk from its owner. If the owner is dead, or lives and does not come to it, it is combined here.
  template <class Memory>
  bool take_chunk(const HostReading<Memory>& all, std::uint64_t chunk, bool helps) {
    const Rank owner = all.owner_of(chunk);
    const bool gives = all.is_there(owner);  // else it is dead
    const std::byte* const data = gives ? all.given_chunk(chunk) : nullptr;
    if (data == nullptr && gives && !helps && !all.memory().is_dead(owner)) return false;
    if (data != nullptr)
      all.memory().deliver_finished(all.number(), all.finished_bytes(all.offset_of_chunk(chunk)), data,
                                    all.finished_bytes(all.bytes_of_chunk(chunk)));
    else if (UCFT_SOMETIMES("a part of a sum is made for another rank"))
      deliver_part(all, 0, all.offset_of_chunk(chunk), all.bytes_of_chunk(chunk));
    return true;
  }

  // Makes it of the inputs of all, alone: a rank's own share of a sum, or at the root of a reduce the whole.
  template <class Memory>
  bool take_share(const HostReading<Memory>& all) {
    const HostResult result = at(all.number()).result = all.result_of_all();
    const std::uint64_t end = result.outcome == Outcome::success ? all.call().taken_bytes() : 0;
    for (std::uint64_t done = 0; done < end; done += all.bytes_of_chunk(0))
      deliver_part(all, all.call().taken_from(), done, std::min(all.bytes_of_chunk(0), end - done));
    return finish(all, {result, nullptr});
  }

  template <class Memory>
  static void deliver_part(const HostReading<Memory>& all, std::uint64_t share, std::uint64_t offset,
                           std::uint64_t bytes) {
    std::byte* const into = all.memory().destination(all.number(), offset);
    all.memory().deliver(all.number(), offset, all.combined_part(share + offset, bytes, into), bytes);
  }

  // ---- all ----------------------------------------------------------------------------------------------------------

  template <class Memory>
  bool finish(const HostReading<Memory>& all, const HostPartial& got) {
    Operation& operation = at(all.number());
    operation.result = got.result;
    const HostCall& call = operation.call;
    if (got.data != nullptr && got.result.outcome == Outcome::success && call.taken_bytes() > 0)
      all.memory().deliver(all.number(), 0, got.data + call.taken_from(), call.taken_bytes());
    operation.finished = true;
    return true;
  }

  HostSeat seat_;
  HostLayout layout_;
  OperationNumber bank_mask_;
  HostPlace stride_;
  std::shared_ptr<const HostTree> tree_;
  OperationNumber next_ = 0, done_ = 0;
  OperationNumber finished_by_all_ = 0;  // those before it: by all that live
  std::vector<Rank> givers_;  // all, but for those known to have given nothing to an operation, and so to none after it
  OperationNumber givers_from_ = 0;  // of those before it there may be others
  std::vector<Operation> operations_;
  OperationNumber mask_;
};

}  // namespace ucft::detail

// A reader of one operation in the slabs of all ranks (host_stage.hpp): values, partial results, and sums of them in
// the one shape that all ranks use.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "collectives/on_host/host_call.hpp"
#include "collectives/on_host/host_slab.hpp"
#include "collectives/on_host/host_tree.hpp"
#include "collectives/reduction/two_sweeps.hpp"

namespace ucft::detail {

// The result of a subtree. data: null if no rank of it has contributed, or there are no data.
struct HostPartial {
  HostResult result;
  const std::byte* data = nullptr;
};

// The note of a V where nothing is amiss.
inline HostNote usual_note(const HostCall& call, std::uint64_t bytes) {
  return {call.signature, Outcome::success, HostNote::count_of(bytes), call.what};
}

// Values that are summed all at once (two_sweeps.hpp).
struct HostSources {
  static constexpr Rank most = 64;
  std::array<const std::byte*, most> data;
  std::size_t count = 0;

  void add(const std::byte* its) { data[count++] = its; }
  // The sum of sources of so many bytes each, in `into`; null of none.
  const std::byte* sum(const Reduction& reduction, std::uint64_t bytes, std::byte* into) const {
    if (count == 0) return nullptr;
    sum_in_two_sweeps(reduction, into, data.data(), count, bytes / reduction.carrier_bytes());
    return into;
  }
};

// The sum of values of so many bytes each, in the order in which they are added.
class HostSum {
 public:
  // into: where it is made.
  HostSum(const Reduction& reduction, std::uint64_t bytes, std::byte* into)
      : reduction_(reduction), combine_(reduction), bytes_(bytes), into_(into) {}

  void add(const std::byte* its) {
    if (reduction_.sweeps_twice())
      sources_.add(its);
    else
      sum_ = combine_.add(sum_, its, bytes_ / reduction_.carrier_bytes(), into_);
  }
  // Of memory that the next value may be in, too. Not in two sweeps.
  void add_before_it_changes(const std::byte* its) {
    assert(!reduction_.sweeps_twice());
    if (sum_ != nullptr) return add(its);
    std::copy(its, its + bytes_, into_);
    sum_ = into_;
  }
  // There, or a single value where that is; null of none.
  const std::byte* data() const { return reduction_.sweeps_twice() ? sources_.sum(reduction_, bytes_, into_) : sum_; }

 private:
  const Reduction& reduction_;
  const Combiner combine_;
  const std::uint64_t bytes_;
  std::byte* const into_;
  const std::byte* sum_ = nullptr;
  HostSources sources_;
};

template <class Memory>
class HostReading {
 public:
  HostReading(const HostSeat& seat, const HostLayout& layout, const HostTree& tree, const HostCall& call,
              OperationNumber number, Memory& memory)
      : seat_(seat),
        layout_(layout),
        tree_(tree),
        call_(call),
        number_(number),
        bytes_(call.bytes()),
        cell_(layout.value(number)),
        memory_(memory) {}

  Memory& memory() const { return memory_; }
  OperationNumber number() const { return number_; }
  const HostCall& call() const { return call_; }
  HostWord stamp() const { return host_stamp(number_); }

  // ---- values

  // This rank needs the values of ranks below this one alone; or of the root.
  Rank end() const { return call_.pattern.is_prefix ? seat_.me + 1 : seat_.ranks; }
  bool is_there(Rank x) const { return is_stamped(x, cell_); }
  // V[x] is there, or never will be, as x is proved dead. Only after that a reader looks whether it is there.
  bool is_settled(Rank x) const { return is_there(x) || memory_.is_dead(x); }
  // x had this result, and has left since.
  bool has_completed(Rank x) const { return is_there(x) && memory_.load(x, HostLayout::left()) != 0; }
  HostNote note_of(Rank x) const { return HostNote::of(memory_.load(x, cell_ + 1)); }
  // The data that x has given.
  std::uint64_t bytes_of(Rank x) const { return bytes_of(x, note_of(x)); }
  // The place of `bytes` of data in V[x], or P[x], which begins at `cell`.
  HostPlace data_place(Rank x, HostPlace cell, std::uint64_t bytes) const {
    return layout_.is_inline(bytes) ? cell + 2 : memory_.load(x, cell + 2);
  }
  HostPlace value_place(Rank x, std::uint64_t bytes) const {
    return x == seat_.me && call_.kept != 0 ? call_.kept : data_place(x, cell_, bytes);
  }
  // Where x, whose V is there, combines.
  HostPlace combined_place(Rank x) const { return memory_.load(x, cell_ + 3); }
  // Adds the note of V[x] to the result, if it is there. True if there are data in it.
  bool add_note(Rank x, HostResult& result) const {
    if (!is_there(x)) return false;
    const HostNote note = note_of(x);
    HostResult its{note.outcome, no_rank, 1};
    if (note.signature != call_.signature || !has_right_length(x, note) || keeps_data(x, note))
      its = {Outcome::mismatch, x, 0};
    else if (note.outcome != Outcome::success)
      its = {note.outcome, x, 0};
    merge(its, result);
    return its.outcome == Outcome::success;
  }
  // The result of all ranks that are needed, once they are settled.
  HostResult result_of_all() const {
    HostResult all;
    for (Rank x = 0; x < end(); ++x) add_note(x, all);
    return all;
  }

  // The ranks that this rank waits for: use(rank). Those that haven't given what it needs. If all have, those that
  // aren't at its end: they are to combine chunks, or read what this rank lends. In rank order.
  template <class Use>
  void for_each_awaited(Use use) const {
    const bool from_one = call_.pattern.from_root();
    bool any = false;
    for (Rank x = 0; x < end(); ++x) {
      if ((from_one && x != call_.root) || is_settled(x)) continue;
      any = true;
      use(x);
    }
    for (Rank x = 0; x < seat_.ranks && !any; ++x)
      if (x != seat_.me && memory_.load(x, HostLayout::through()) < stamp() && !memory_.is_dead(x)) use(x);
  }

  // ---- sums

  bool has_partial(Rank x) const { return !tree_.is_flat() && tree_.is_inner(x); }
  // All that combined(x) reads is there, or never will be. helps: also if live inner nodes have not combined theirs.
  bool is_subtree_settled(Rank x, bool helps) const {
    if (has_partial(x) && is_stamped(x, layout_.partial(number_))) return true;
    if (!is_settled(x)) return false;
    if (!has_partial(x)) return true;
    if (x != seat_.me && !helps && !memory_.is_dead(x)) return false;
    return are_settled_below(x, helps);
  }
  bool are_settled_below(Rank x, bool helps) const {
    for (Rank child : tree_.children(x))
      if (!is_subtree_settled(child, helps)) return false;
    return true;
  }

  // The sum of a settled subtree: its root's P, or V + what its children have.
  HostPartial combined(Rank x, int level) const {
    if (has_partial(x) && is_stamped(x, layout_.partial(number_))) return partial_of(x);
    HostPartial sum;
    HostSum values(call_.reduction, bytes_, memory_.scratch(level));
    if (add_note(x, sum.result)) values.add(memory_.read(x, value_place(x, bytes_), bytes_));
    for (Rank child : tree_.children(x)) {
      const HostPartial part = combined(child, level + 1);
      merge(part.result, sum.result);
      if (part.data != nullptr) values.add_before_it_changes(part.data);
    }
    sum.data = values.data();
    return sum;
  }

  // The sum of all values, which are settled, in rank order; read by this rank alone.
  HostPartial sum_of_values() const {
    HostPartial sum;
    const HostWord usual = usual_note(call_, bytes_).word();
    HostSum values(call_.reduction, bytes_, memory_.scratch(0));
    std::uint32_t usual_ones = 0;
    for (Rank x = 0; x < seat_.ranks; ++x) {
      if (!is_there(x)) continue;
      if (memory_.load(x, cell_ + 1) == usual) [[likely]]
        ++usual_ones;
      else if (!add_note(x, sum.result))
        continue;
      values.add(memory_.read(x, value_place(x, bytes_), bytes_));
    }
    sum.data = values.data();
    if (!has_culprit(sum.result.outcome)) sum.result.contributors += usual_ones;
    return sum;
  }

  // ---- chunks of large data

  std::uint64_t chunks() const { return layout_.chunks(bytes_, seat_.ranks); }
  std::uint64_t bytes_of_chunk(std::uint64_t chunk) const {
    return std::min(layout_.bytes_of_chunks(bytes_, seat_.ranks), bytes_ - offset_of_chunk(chunk));
  }
  std::uint64_t offset_of_chunk(std::uint64_t chunk) const {
    return chunk * layout_.bytes_of_chunks(bytes_, seat_.ranks);
  }
  Rank owner_of(std::uint64_t chunk) const {
    return static_cast<Rank>(chunk % static_cast<std::uint64_t>(seat_.ranks));
  }
  // A round: a chunk of each rank.
  std::uint64_t rounds() const { return layout_.own_chunks(bytes_, seat_.ranks); }
  // From the beginning of its owner's room: all of its chunks, then the stamps of them.
  HostPlace chunk_place(std::uint64_t chunk) const {
    return chunk / static_cast<std::uint64_t>(seat_.ranks) *
           HostLayout::words_of(layout_.bytes_of_chunks(bytes_, seat_.ranks));
  }
  HostPlace chunk_stamp(std::uint64_t chunk) const {
    return layout_.own_chunks(bytes_, seat_.ranks) *
               HostLayout::words_of(layout_.bytes_of_chunks(bytes_, seat_.ranks)) +
           chunk / static_cast<std::uint64_t>(seat_.ranks);
  }
  // The sum of that chunk of all values, which are settled, in rank order. It is in `into`, or it is what was read
  // last, which is valid until the next read.
  const std::byte* combined_chunk(std::uint64_t chunk, std::byte* into) const {
    return combined_part(offset_of_chunk(chunk), bytes_of_chunk(chunk), into);
  }
  // The same of any part.
  const std::byte* combined_part(std::uint64_t offset, std::uint64_t bytes, std::byte* into) const {
    const HostPlace first = offset / sizeof(HostWord);
    const std::uint64_t before = offset % sizeof(HostWord);
    HostSum values(call_.reduction, bytes, into);
    for (Rank x = 0; x < seat_.ranks; ++x)
      if (is_there(x)) values.add(memory_.read(x, value_place(x, bytes_) + first, before + bytes) + before);
    return values.data();
  }
  // The bytes that so many bytes of carriers take when they are finished (reduction.hpp).
  std::uint64_t finished_bytes(std::uint64_t bytes) const {
    if (!call_.reduction.finishes()) return bytes;
    return bytes / call_.reduction.carrier_bytes() * element_bytes(call_.reduction.type());
  }
  // The chunk that its owner, whose V is there, has combined and finished; null if it has not.
  const std::byte* given_chunk(std::uint64_t chunk) const {
    const Rank owner = owner_of(chunk);
    const HostPlace room = combined_place(owner);
    if (!is_stamped(owner, room + chunk_stamp(chunk))) return nullptr;
    return memory_.read(owner, room + chunk_place(chunk), finished_bytes(bytes_of_chunk(chunk)));
  }

 private:
  bool is_stamped(Rank x, HostPlace place) const { return memory_.load(x, place) == stamp(); }

  // Signatures of different counts may be equal. Blocks of an allgather may differ: deliver_block() sees to those.
  bool has_right_length(Rank x, const HostNote& note) const {
    return call_.pattern.puts_side_by_side() || note.outcome != Outcome::success || bytes_of(x, note) == bytes_;
  }
  // note: of x. One that gives nothing counts more than any data.
  std::uint64_t bytes_of(Rank x, const HostNote& note) const {
    return note.count == HostNote::most ? memory_.load(x, cell_ + 4) : note.count;
  }
  // The note is of x, which has kept its data for itself. So it has posted something else than this rank, which needs
  // them. Not inline: the reduces of 8 bytes would take a third longer.
  [[gnu::noinline]] bool keeps_data(Rank x, const HostNote& note) const {
    return x != seat_.me && note.outcome == Outcome::success && layout_.is_large(note.count) &&
           memory_.load(x, cell_ + 2) == 0;
  }

  // x has posted the same as this rank, and so have those below it, or P says that it has not.
  HostPartial partial_of(Rank x) const {
    HostPartial given;
    if (add_note(x, given.result); given.result.outcome == Outcome::mismatch) return given;
    const HostPlace place = layout_.partial(number_);
    const HostNote note = HostNote::of(memory_.load(x, place + 1));
    if (has_culprit(note.outcome))
      given.result = {note.outcome, static_cast<Rank>(note.count) - 1, 0};
    else
      given = {{note.outcome, no_rank, note.count}, memory_.read(x, data_place(x, place, bytes_), bytes_)};
    return given;
  }

  // A mismatch absorbs everything, a lack of memory all but that; of two the one named first.
  static void merge(const HostResult& from, HostResult& to) {
    if (to.outcome == Outcome::mismatch) return;
    if (from.outcome == Outcome::mismatch || (has_culprit(from.outcome) && !has_culprit(to.outcome))) to = from;
    if (!has_culprit(to.outcome)) to.contributors += from.contributors;
  }

  const HostSeat& seat_;
  const HostLayout& layout_;
  const HostTree& tree_;
  const HostCall& call_;
  const OperationNumber number_;
  const std::uint64_t bytes_;  // of the call
  const HostPlace cell_;       // of V
  Memory& memory_;
};

}  // namespace ucft::detail

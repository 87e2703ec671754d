// A log that the ranks of a host share: one of them appends, all read the same entries in the same order, whichever
// ranks die, and at whatever store. Which rank appends is a consequence of deaths alone: the first that lives.
//
//   entry k, appended by rank w:   slot k mod S of w's slab = payload, then stamp
//   reading entry k:               it is stamped in the slab of the rank that speaks, w; or w is proved dead (then look
//                                  again): so it was never there, and w + 1 speaks, from entry k on
//   passing it:                    `through` of this rank's slab = k + 1
//   letting go of what it points to, and what all before it point to: `needs` of this rank's slab = k + 1
//
// Why all read the same: only w stores to its slab, and the proof of w's death comes after w's last store. So the stamp
// of k is there for all, or for no rank. Either all read entry k from w, or all go on to w + 1 at k. By induction over
// k they agree on the rank that speaks at each entry. A rank appends only after it has found all before it dead.
//
// The bound: slot k mod S holds entry k - S of the same writer. It is stored to for k when all have
// passed k - S: each has stored that in `through`, or is proved dead. A reader stores `through` behind its last read of
// the entry, in release order, and the writer loads it with acquire order. So no reader finds a payload that changes.
// Memory that an entry points to is free when all have let go of it (let_go_by_all()): `needs` is stored and loaded as
// `through` is, and a rank that is proved dead needs nothing.
//
// The slab is one of HostSlabs: zeros at first. Word 0 is `through`, word 5 says that its owner has left, and word 6 is
// `needs`. A rank that has left counts as dead: it appends nothing more, and reads nothing more.
//
// A value: no pointer into that memory, no clock. The Memory is an argument, as the stage's (host_stage.hpp): load,
// store, write, read, is_dead.
#pragma once

#include <algorithm>
#include <cassert>

#include "collectives/on_host/host_slab.hpp"

namespace ucft::detail {

class HostLog {
 public:
  // words: of a slab; slot_words: of an entry with its stamp. The same on all ranks.
  HostLog(Rank me, Rank ranks, HostPlace words, HostPlace slot_words)
      : me_(me), ranks_(ranks), slot_words_(slot_words), slots_((words - first_slot) / slot_words) {
    assert(slots_ > 0 && me >= 0 && me < ranks);
  }

  static constexpr HostPlace first_slot = 8;

  Rank speaker() const { return speaker_; }
  bool speaks() const { return speaker_ == me_; }
  // The entry that this rank reads, or appends, next.
  std::uint64_t position() const { return position_; }

  // For the rank that speaks, when it has passed all that it has appended. Whether there is a slot for the next entry,
  // as far as it has looked.
  bool has_room() const { return position_ - passed_by_all_ < slots_; }
  // Requires has_room().
  template <class Memory>
  void append(Memory& memory, const std::byte* payload, std::uint64_t bytes) {
    assert(speaks() && has_room() && bytes <= (slot_words_ - 1) * sizeof(HostWord));
    memory.write(slot() + 1, payload, bytes);
    memory.store(slot(), host_stamp(position_));
  }

  enum class Look : std::uint8_t {
    there,
    nothing,
    next_speaks  // the rank that spoke is dead, and has not appended it: look again
  };
  template <class Memory>
  Look look(Memory& memory) {
    if (is_there(memory)) return Look::there;
    if (speaks() || !memory.is_dead(speaker_)) return Look::nothing;
    if (is_there(memory)) return Look::there;
    ++speaker_;
    return Look::next_speaks;
  }
  // Requires that it is there. Valid until it is passed.
  template <class Memory>
  const std::byte* payload(Memory& memory, std::uint64_t bytes) const {
    return memory.read(speaker_, slot() + 1, bytes);
  }
  // This rank is through with the entry. No rank asks how far the speaker is.
  template <class Memory>
  void pass(Memory& memory) {
    ++position_;
    if (!speaks()) memory.store(HostLayout::through(), position_);
  }

  // This rank needs no data that entries before that one point to. It has passed them.
  template <class Memory>
  void let_go(Memory& memory, std::uint64_t before) const {
    assert(before <= position_);
    if (!speaks()) memory.store(HostLayout::needs(), before);
  }

  // All data that entries before it point to are needed by no other rank that lives, as far as this rank has looked.
  std::uint64_t let_go_by_all() const { return let_go_by_all_; }
  template <class Memory>
  void look_for_readers(Memory& memory) {
    std::uint64_t passed = position_, let_go = position_;
    for (Rank x = 0; x < ranks_; ++x) {
      if (x == me_) continue;
      const std::uint64_t through = memory.load(x, HostLayout::through()), needs = memory.load(x, HostLayout::needs());
      if ((through >= passed && needs >= let_go) || memory.is_dead(x)) continue;
      passed = std::min(passed, through);
      let_go = std::min(let_go, needs);
    }
    passed_by_all_ = std::max(passed_by_all_, passed);
    let_go_by_all_ = std::max(let_go_by_all_, let_go);
  }

  // All that its future depends on, a word at a time.
  template <class Use>
  void describe(Use word) const {
    for (const HostWord each :
         {static_cast<HostWord>(speaker_), HostWord{position_}, HostWord{passed_by_all_}, HostWord{let_go_by_all_}})
      word(each);
  }

 private:
  HostPlace slot() const { return first_slot + position_ % slots_ * slot_words_; }
  template <class Memory>
  bool is_there(Memory& memory) const {
    return memory.load(speaker_, slot()) == host_stamp(position_);
  }

  Rank me_, ranks_;
  HostPlace slot_words_;
  std::uint64_t slots_;
  Rank speaker_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t passed_by_all_ = 0;  // all entries before it, by all that live, as far as this rank has looked
  std::uint64_t let_go_by_all_ = 0;
};

}  // namespace ucft::detail

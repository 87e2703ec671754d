// Correction: the processes that a broadcast tree has reached send the value along the ring of process numbers. So the
// processes below a dead one get it, too. Küttler et al., "Corrected trees for reliable group communication" (PPoPP
// '19). Checked and failure-proof correction are Hoefler et al., "Corrected gossip algorithms" (IPDPS '17), CCG and
// FCG.
//
// A RingCorrection is one process's part in one ballot: the process to send to next, one message a turn. A turn is
// given when what has arrived has been handled, so that messages of others save some of one's own. docs/algorithms.md
// says what each form guarantees.
//
//   opportunistic(d)             d/2 to the left, d - d/2 to the right
//   opportunistic_optimised(d)   the same; less, where a message of another one shows that it is served already
//   checked                      growing offsets; a side ends at the nearest process that was heard from on that side
//   failure_proof(f)             the same with the (f+1)-th nearest; exit signals and panic
//
// Invariants
//   - Offsets only grow, and the right side begins. So a sender at offset x has left out only what it was told of.
//   - offset_left_ + offset_right_ <= size - 1: no process is sent to from both sides.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ucft::detail {

enum class Correction : std::uint8_t { none, opportunistic, checked, opportunistic_optimised, failure_proof };
inline constexpr int correction_count = 5;
constexpr bool is_opportunistic(Correction kind) {
  return kind == Correction::opportunistic || kind == Correction::opportunistic_optimised;
}

class RingCorrection {
 public:
  struct Setting {
    Correction kind = Correction::none;
    std::int32_t distance = 2;  // d of the opportunistic forms
    std::int32_t f = 1;         // of failure_proof
    std::int32_t size = 1;      // of the ring
  };
  enum class Word : std::uint8_t { value, exit, panic };
  struct Send {
    bool right = true;
    std::int32_t distance = 0;  // 1 .. size-1
    Word word = Word::value;
  };

  void reset(const Setting& setting);  // nothing heard, nothing to send
  // The tree has reached this process: it takes part.
  void start();
  // A correction has come from a process that the tree has reached, `distance` away on that side.
  void hear(bool from_left, std::int32_t distance);
  // To all, once: all else that was to be sent is part of it.
  void panic();
  bool wants_turn() const { return step_ != Step::silent; }
  bool panics() const { return step_ == Step::panic; }
  // Requires wants_turn(). Nothing: this was the end.
  std::optional<Send> turn();

 private:
  enum class Step : std::uint8_t { silent, correct, let_go, panic };

  std::int32_t reach_left() const;
  std::int32_t reach_right() const;
  bool done(std::int32_t offset, std::int32_t reach, const std::vector<std::int32_t>& heard) const;
  std::int32_t end_of_gap(std::int32_t offset, const std::vector<std::int32_t>& heard) const;
  std::optional<Send> correct();
  std::optional<Send> let_go();

  Setting setting_;
  Step step_ = Step::silent;
  bool panicked_ = false;
  std::int32_t offset_left_ = 0, offset_right_ = 0, skipped_right_ = 0;
  std::int32_t told_left_ = 0, told_right_ = 0;         // exit signals
  std::vector<std::int32_t> heard_left_, heard_right_;  // distances, ascending: as many of the nearest as count
};

}  // namespace ucft::detail

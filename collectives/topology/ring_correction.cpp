#include "collectives/topology/ring_correction.hpp"

#include <algorithm>
#include <cassert>

namespace ucft::detail {

void RingCorrection::reset(const Setting& setting) {
  setting_ = setting;
  step_ = Step::silent;
  panicked_ = false;
  offset_left_ = offset_right_ = skipped_right_ = told_left_ = told_right_ = 0;
  heard_left_.clear();
  heard_right_.clear();
}

void RingCorrection::start() {
  if (setting_.kind == Correction::none || setting_.size == 1 || panicked_) return;
  offset_left_ = offset_right_ = 0;
  step_ = Step::correct;
}

void RingCorrection::hear(bool from_left, std::int32_t distance) {
  std::vector<std::int32_t>& heard = from_left ? heard_left_ : heard_right_;
  const auto place = std::lower_bound(heard.begin(), heard.end(), distance);
  if (place != heard.end() && *place == distance) return;
  heard.insert(place, distance);
  const std::size_t counts = setting_.kind == Correction::failure_proof ? static_cast<std::size_t>(setting_.f) + 1 : 1;
  if (heard.size() > counts) heard.pop_back();
  // Its sender goes on to the right, beyond this process. This is relied on in one direction only, and only by a
  // process that has sent nothing to the left: docs/algorithms.md tells why.
  if (from_left && offset_left_ == 0) skipped_right_ = std::max(skipped_right_, reach_right() - distance);
}

void RingCorrection::panic() {
  if (panicked_) return;
  panicked_ = true;
  offset_right_ = 0;
  step_ = Step::panic;
}

std::int32_t RingCorrection::reach_left() const { return std::min(setting_.distance / 2, setting_.size - 1); }

std::int32_t RingCorrection::reach_right() const {
  const std::int32_t left = reach_left();
  return std::min(setting_.distance - left, setting_.size - 1 - left);
}

bool RingCorrection::done(std::int32_t offset, std::int32_t reach, const std::vector<std::int32_t>& heard) const {
  switch (setting_.kind) {
    case Correction::opportunistic: return offset >= reach;
    case Correction::opportunistic_optimised: return offset >= reach || !heard.empty();
    case Correction::checked: return !heard.empty() && offset >= heard.back();
    case Correction::failure_proof:
      return heard.size() > static_cast<std::size_t>(setting_.f) && offset >= heard.back();
    case Correction::none: break;
  }
  return true;
}

std::optional<RingCorrection::Send> RingCorrection::turn() {
  assert(wants_turn());
  if (step_ == Step::panic) {
    if (++offset_right_ < setting_.size) return Send{true, offset_right_, Word::panic};
    step_ = Step::silent;
    return std::nullopt;
  }
  if (step_ == Step::correct) {
    if (const auto send = correct()) return send;
    step_ = setting_.kind == Correction::failure_proof ? Step::let_go : Step::silent;
  }
  if (step_ == Step::let_go) {
    if (const auto send = let_go()) return send;
    step_ = Step::silent;
  }
  return std::nullopt;
}

// The side that is less far, the right one first.
std::optional<RingCorrection::Send> RingCorrection::correct() {
  if (setting_.kind == Correction::opportunistic_optimised) offset_right_ = std::max(offset_right_, skipped_right_);
  const bool left_done = done(offset_left_, reach_left(), heard_left_);
  const bool right_done = done(offset_right_, reach_right(), heard_right_);
  if ((left_done && right_done) || offset_left_ + offset_right_ >= setting_.size - 1) return std::nullopt;
  const bool right = left_done || (!right_done && offset_right_ <= offset_left_);
  return Send{right, right ? ++offset_right_ : ++offset_left_, Word::value};
}

// The processes between this one and the nearest one heard from were reached by correction alone.
std::int32_t RingCorrection::end_of_gap(std::int32_t offset, const std::vector<std::int32_t>& heard) const {
  return heard.empty() ? offset : std::min(offset, heard.front() - 1);
}

std::optional<RingCorrection::Send> RingCorrection::let_go() {
  if (told_right_ < end_of_gap(offset_right_, heard_right_)) return Send{true, ++told_right_, Word::exit};
  if (told_left_ < end_of_gap(offset_left_, heard_left_)) return Send{false, ++told_left_, Word::exit};
  return std::nullopt;
}

}  // namespace ucft::detail

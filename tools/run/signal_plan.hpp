// The times at which each --kill and --stop is due. They count from the program's start, or from the end of its
// start-up.
//
// A program that does not use ucft has no start-up. If no rank has begun one within `patience`, all times count from
// the program's start.
//
// Time is an argument.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/arguments.hpp"

namespace ucft::detail::run {

class SignalPlan {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  SignalPlan(std::vector<PlannedSignal> signals, Duration patience)
      : pending_(std::move(signals)), patience_(patience) {}

  void on_program_start(TimePoint now) { program_start_ = now; }
  // Takes what is known of start-up by now. True once: `patience` has passed, and some signal has waited for start-up.
  bool on_start_up(bool begun, bool ended, TimePoint now);

  // When to ask again.
  std::optional<TimePoint> next_deadline() const;
  // The earliest signal that is due, if there is one. It is pending no longer.
  std::optional<PlannedSignal> take_due(TimePoint now);
  // All that never came due.
  std::vector<PlannedSignal> take_rest();

  // "1.0 s after start-up", "60 ms after the start"; from its origin to `now`, or as it was planned.
  std::string moment(const PlannedSignal& planned, TimePoint now) const;
  static std::string planned_moment(const PlannedSignal& planned);

 private:
  std::optional<TimePoint> origin(const PlannedSignal& planned) const;
  std::vector<PlannedSignal>::const_iterator earliest() const;
  bool waits_for_start_up() const;

  std::vector<PlannedSignal> pending_;
  Duration patience_;
  std::optional<TimePoint> program_start_;
  std::optional<TimePoint> start_up_end_;
  bool has_begun_ = false;  // start-up, at some rank
  bool is_without_start_up_ = false;
};

}  // namespace ucft::detail::run

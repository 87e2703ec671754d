// The times at which each --kill and --stop is due.
#include "tools/run/signal_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail::run {

namespace {

// With as many digits as a reader wants: "60 ms", "1.0 s".
std::string rounded(std::chrono::steady_clock::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

const char* origin_text(bool is_program_start) { return is_program_start ? "after the start" : "after start-up"; }

}  // namespace

bool SignalPlan::on_start_up(bool begun, bool ended, TimePoint now) {
  if (start_up_end_ || !program_start_) return false;
  has_begun_ = begun;
  if (ended) start_up_end_ = now;
  is_without_start_up_ = !begun && !ended && now >= *program_start_ + patience_;
  if (is_without_start_up_) start_up_end_ = program_start_;
  return is_without_start_up_ && waits_for_start_up();
}

bool SignalPlan::waits_for_start_up() const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [](const PlannedSignal& each) { return each.origin == Origin::start_up_end; });
}

std::optional<SignalPlan::TimePoint> SignalPlan::origin(const PlannedSignal& planned) const {
  return planned.origin == Origin::program_start ? program_start_ : start_up_end_;
}

std::vector<PlannedSignal>::const_iterator SignalPlan::earliest() const {
  auto found = pending_.end();
  for (auto each = pending_.begin(); each != pending_.end(); ++each) {
    if (!origin(*each)) continue;
    if (found == pending_.end() || *origin(*each) + each->after < *origin(*found) + found->after) found = each;
  }
  return found;
}

std::optional<SignalPlan::TimePoint> SignalPlan::next_deadline() const {
  std::optional<TimePoint> next;
  if (const auto first = earliest(); first != pending_.end()) next = *origin(*first) + first->after;
  if (program_start_ && !start_up_end_ && !has_begun_ && waits_for_start_up()) {
    const TimePoint end_of_patience = *program_start_ + patience_;
    next = next ? std::min(*next, end_of_patience) : end_of_patience;
  }
  return next;
}

std::optional<PlannedSignal> SignalPlan::take_due(TimePoint now) {
  const auto first = earliest();
  if (first == pending_.end() || now < *origin(*first) + first->after) return std::nullopt;
  const PlannedSignal due = *first;
  pending_.erase(first);
  return due;
}

std::vector<PlannedSignal> SignalPlan::take_rest() { return std::exchange(pending_, {}); }

std::string SignalPlan::moment(const PlannedSignal& planned, TimePoint now) const {
  const bool from_program_start = planned.origin == Origin::program_start || is_without_start_up_;
  return rounded(now - *origin(planned)) + " " + origin_text(from_program_start);
}

std::string SignalPlan::planned_moment(const PlannedSignal& planned) {
  return bootstrap::duration_text(planned.after) + " " + origin_text(planned.origin == Origin::program_start);
}

}  // namespace ucft::detail::run

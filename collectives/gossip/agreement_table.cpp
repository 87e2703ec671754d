#include "collectives/gossip/agreement_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ucft::detail {

namespace {
constexpr double infinite = std::numeric_limits<double>::infinity();
}

// Example: range 3 .. 5, reach 0, spread 1. The aggregate is 4 +- 1, so at least 3, and 4 is off by a third of it at
// most.
void ErrorBound::add(const EstimateRange& range, double rounding) {
  const double half = range.high / 2 - range.low / 2;
  const double spread = (half == 0 ? 0 : half * spread_) + rounding, off = half * reach_ + spread;
  const double least = std::max(0.0, std::abs(range.high / 2 + range.low / 2) - spread);
  off_ = std::max(off_, off);
  least_ = std::max(least_, least);
  each_ = std::max(each_, off == 0 ? 0 : off / least);
}

double ErrorBound::of_largest() const { return off_ == 0 ? 0 : least_ > 0 ? off_ / least_ : infinite; }

std::vector<double> meeting_table(const GossipMeeting& meeting, Rank me, std::size_t ranks) {
  std::vector<double> table(9 + ranks);
  table[0] = static_cast<double>(meeting.signature);
  table[1] = -table[0];
  table[2] = meeting.scale;
  if (meeting.objection != WindowObjection::none) table[2 + static_cast<std::size_t>(meeting.objection)] = 1 + me;
  table[5] = static_cast<double>(meeting.view);
  table[6] = -table[5];
  table[7] = meeting.largest;
  table[8] = meeting.is_one_sided ? 1 : 0;
  return table;
}

std::vector<double> AgreedEstimates::of(std::span<const double> values, const MassError& rounding, std::size_t count,
                                        std::size_t ranks) {
  std::vector<double> table(2 * count + 3 + ranks, -infinite);
  const bool knows = values.size() == count;
  for (std::size_t i = 0; knows && i < count; ++i) {
    table[i] = values[i];
    table[count + i] = -values[i];
  }
  table[2 * count] = knows ? 0 : 1;
  table[2 * count + 1] = rounding.values;
  table[2 * count + 2] = rounding.weight;
  return table;
}

std::vector<double> AgreedEstimates::of_none(std::size_t count, std::size_t ranks) {
  std::vector<double> table = of({}, {}, count, ranks);
  table[2 * count] = 0;
  return table;
}

bool AgreedEstimates::knows_nobody() const { return count > 0 && table[0] == -infinite; }

double AgreedEstimates::rounding(std::size_t i, double epsilon, double step) const {
  const double most = std::max(std::abs(range(i).low), std::abs(range(i).high));
  const bool are_same = range(i).low == range(i).high, are_right = table[2 * count + 1] == 0;
  if (are_same && are_right && (most == 0 || table[2 * count + 2] == 0)) return 0;  // 0 of any weight is 0
  return table[2 * count + 1] + most * (table[2 * count + 2] + 2 * epsilon) + step;
}

double AgreedEstimates::error_bound(double epsilon, double step) const {
  if (knows_nobody() || somebody_lacks()) return infinite;
  ErrorBound bound;
  for (std::size_t i = 0; i < count; ++i) {
    bound.add(range(i), rounding(i, epsilon, step));
  }
  return bound.of_largest();
}

bool AgreedEstimates::can_improve(double epsilon, double step) const {
  for (std::size_t i = 0; i < count; ++i)
    if (range(i).high / 2 - range(i).low / 2 > rounding(i, epsilon, step)) return true;
  return false;
}

}  // namespace ucft::detail

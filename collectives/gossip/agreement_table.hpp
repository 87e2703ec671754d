// The tables by which the ranks of a gossip operation agree. They hold doubles, and of each entry the largest of all
// ranks counts.
//
//   meeting      signature  -signature  scale  unsupported  no memory  view  -view  largest  one-sided
//                                                                                         | dead of rank 0, 1, ..
//   estimates    x_1 .. x_k  -x_1 .. -x_k  lacks  rounding of values, of weights         | dead of rank 0, 1, ..
//
// The largest and the smallest signature (the negated one) are equal only if all ranks ask for the same. The view is
// the ranks that a rank has begun with. Largest is the largest magnitude of an input, infinite if one is not a number.
// Scale is 1 and the sum of magnitudes. One-sided is 1 of a rank that gossips so. A rank that lacks nothing writes 0:
// the rank that is named is the highest that lacks something.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/gossip/extremum.hpp"
#include "collectives/gossip/mass.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

// The objection of a rank to going one-sided.
enum class WindowObjection : std::uint8_t { none, unsupported, no_memory };

// The smallest and the largest estimate of a value.
struct EstimateRange {
  double low, high;
  double middle() const { return high == low ? high : high / 2 + low / 2; }  // no overflow
  double aggregate(GossipExtremum extremum) const {
    return extremum == GossipExtremum::none ? middle() : extremum == GossipExtremum::maximum ? high : low;
  }
};

// A bound of how far results may be off, from ranges between which the aggregates lie. With weights that are not all
// positive (spread: sum of |w| / sum of w) the aggregate is off the middle of its range by half of its width times the
// spread. The reported value may be off the middle, too, by so many (reach) halves of the width. reach is 0 if the
// value is the middle, 1 if it is any rank's own estimate.
class ErrorBound {
 public:
  explicit ErrorBound(double reach = 0, double spread = 1) : reach_(reach), spread_(spread) {}

  // rounding: by so much an estimate may be off beside all that, absolute.
  void add(const EstimateRange& range, double rounding = 0);
  double of_largest() const;                // the largest error, relative to the least that the largest value can be
  double of_each() const { return each_; }  // the largest of the errors, each relative to its value

 private:
  double reach_, spread_;
  double off_ = 0, least_ = 0, each_ = 0;
};

struct GossipMeeting {
  std::uint64_t signature, view;  // 48 bits each
  double scale, largest;
  WindowObjection objection;
  bool is_one_sided;
};
std::vector<double> meeting_table(const GossipMeeting& meeting, Rank me, std::size_t ranks);

// Reads tables that have been agreed on.
struct AgreedMeeting {
  std::span<const double> table;

  bool is_match() const { return table[0] == -table[1]; }
  // Of all ranks, and of the paths of those that gossip.
  bool is_same_view() const { return table[5] == -table[6] && !(table[8] > 0 && (table[3] > 0 || table[4] > 0)); }
  double scale() const { return table[2]; }
  double largest() const { return table[7]; }
  Rank objector(WindowObjection objection) const {
    return static_cast<Rank>(table[2 + static_cast<std::size_t>(objection)]) - 1;
  }  // -1: nobody
};

struct AgreedEstimates {
  std::span<const double> table;
  std::size_t count;

  // values: empty if nothing is known here. rounding: of the mass that they are of.
  static std::vector<double> of(std::span<const double> values, const MassError& rounding, std::size_t count,
                                std::size_t ranks);
  // The table of a rank for which another one speaks.
  static std::vector<double> of_none(std::size_t count, std::size_t ranks);
  static void refuse_windows(std::span<double> table, std::size_t count, Rank refuser) {
    table[2 * count] = refused + refuser;
  }

  EstimateRange range(std::size_t i) const { return {-table[count + i], table[i]}; }
  bool knows_nobody() const;                                    // the data are no numbers
  bool somebody_lacks() const { return table[2 * count] > 0; }  // an estimate; or RMA windows
  bool refuses_windows() const { return table[2 * count] >= refused; }
  Rank refuser() const { return static_cast<Rank>(table[2 * count]) - refused; }
  // Of the middles. epsilon: of the type of the result; step: of its smallest numbers.
  double error_bound(double epsilon, double step) const;
  // Whether the estimates are further apart than what rounding makes of them.
  bool can_improve(double epsilon, double step) const;

 private:
  static constexpr Rank refused = 2;
  // Each rank's mass may be off by so much, so may the mean of all masses. Then an estimate is divided, and the middle
  // is rounded.
  double rounding(std::size_t i, double epsilon, double step) const;
};

}  // namespace ucft::detail

// The tables by which the ranks of a gossip operation agree. They hold doubles, and of each entry the largest of all
// ranks counts.
//
//   meeting      signature  -signature  scale  unsupported  no memory            | dead of rank 0, 1, ..
//   estimates    x_1 .. x_k             -x_1 .. -x_k        what somebody lacks  | dead of rank 0, 1, ..
//
// The largest and the smallest signature (the negated one) are equal only if all ranks ask for the same. Scale is 1 and
// the sum of magnitudes. A rank that lacks nothing writes 0, so the rank that is named is the highest that lacks
// something.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/protocol.hpp"

namespace ucft::detail {

// The objection of a rank to going one-sided.
enum class WindowObjection : std::uint8_t { none, unsupported, no_memory };

// The smallest and the largest estimate of a value.
struct EstimateRange {
  double low, high;
  double middle() const { return high == low ? high : high / 2 + low / 2; }  // no overflow
};

// A bound of how far results may be off, from ranges between which the aggregates lie. With weights that are not all
// positive (spread: sum of |w| / sum of w) the aggregate is off the middle of its range by half of its width times the
// spread. The reported value may be off the middle, too, by so many (reach) halves of the width. reach is 0 if the
// value is the middle, 1 if it is any rank's own estimate.
class ErrorBound {
 public:
  explicit ErrorBound(double reach = 0, double spread = 1) : reach_(reach), spread_(spread) {}

  void add(const EstimateRange& range);
  double of_largest() const;                // the largest error, relative to the least that the largest value can be
  double of_each() const { return each_; }  // the largest of the errors, each relative to its value

 private:
  double reach_, spread_;
  double off_ = 0, least_ = 0, each_ = 0;
};

std::vector<double> meeting_table(std::uint64_t signature, double scale, WindowObjection objection, Rank me,
                                  std::size_t ranks);

// Reads tables that have been agreed on.
struct AgreedMeeting {
  std::span<const double> table;

  bool is_match() const { return table[0] == -table[1]; }
  double scale() const { return table[2]; }
  Rank objector(WindowObjection objection) const {
    return static_cast<Rank>(table[2 + static_cast<std::size_t>(objection)]) - 1;
  }  // -1: nobody
};

struct AgreedEstimates {
  std::span<const double> table;
  std::size_t count;

  // values: empty if nothing is known here.
  static std::vector<double> of(std::span<const double> values, std::size_t count, std::size_t ranks);
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
  double error_bound() const;  // of the middles

 private:
  static constexpr Rank refused = 2;
};

}  // namespace ucft::detail

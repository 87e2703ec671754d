// Masses, which gossip moves from rank to rank. A mass is a row of Reals,
//
//   x_1 .. x_k   weight          (push-sum, push-flow, push-cancel-flow)
//   x_1 .. x_k   weight   check  (with checksums: check = x_1 + .. + x_k + weight; Casas et al. 2018, 4.2, for k = 1)
//
// and the estimate of the aggregate is x_m / weight.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace ucft::detail {

template <class Real>
using Mass = std::span<Real>;
template <class Real>
using ConstMass = std::span<const Real>;

template <class Real>
void add(Mass<Real> to, ConstMass<Real> mass) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += mass[i];
}
template <class Real>
void subtract(Mass<Real> from, ConstMass<Real> mass) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= mass[i];
}
template <class Real>
void copy(Mass<Real> to, ConstMass<Real> mass) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = mass[i];
}
template <class Real>
void copy_negated(Mass<Real> to, ConstMass<Real> mass) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = -mass[i];
}
template <class Real>
void clear(Mass<Real> mass) {
  for (Real& each : mass) each = 0;
}
template <class Real>
bool is_finite(ConstMass<Real> mass) {
  for (Real each : mass)
    if (!std::isfinite(each)) return false;
  return true;
}

// The largest magnitude; infinite where one is no number. In vectors, since it is asked of each mass that comes.
template <class Real>
double largest(ConstMass<Real> numbers) {
  using Lanes [[gnu::vector_size(16)]] = Real;
  constexpr std::size_t lanes = sizeof(Lanes) / sizeof(Real), at_once = 4;
  Lanes high[at_once] = {}, low[at_once] = {}, odd = {};  // odd: not 0 where there is an infinity, or no number
  std::size_t i = 0;
  for (; i + at_once * lanes <= numbers.size(); i += at_once * lanes)
    for (std::size_t k = 0; k < at_once; ++k) {
      Lanes some;
      std::memcpy(&some, numbers.data() + i + k * lanes, sizeof some);
      high[k] = some > high[k] ? some : high[k];
      low[k] = some < low[k] ? some : low[k];
      odd += some - some;  // NOLINT(misc-redundant-expression): not 0 of infinities, nor of what is no number
    }
  Real most = 0, is_odd = 0;
  for (; i < numbers.size(); ++i) {
    most = std::max(most, std::abs(numbers[i]));
    is_odd += numbers[i] - numbers[i];  // NOLINT(misc-redundant-expression)
  }
  for (std::size_t k = 0; k < at_once; ++k)
    for (std::size_t lane = 0; lane < lanes; ++lane) most = std::max({most, high[k][lane], -low[k][lane]});
  for (std::size_t lane = 0; lane < lanes; ++lane) is_odd += odd[lane];
  return is_odd == 0 ? static_cast<double>(most) : std::numeric_limits<double>::infinity();
}

// Inputs are multiplied by this power of 2 where their sums could overflow, or halves of them lose bits: then the
// largest is about 1.
template <class Real>
int scaling_of(double largest) {
  constexpr int lowest = sizeof(Real) == 4 ? -60 : -500, highest = sizeof(Real) == 4 ? 90 : 900;
  if (largest == 0) return 0;
  const int exponent = std::ilogb(largest);
  return exponent < lowest || exponent > highest ? -exponent : 0;
}

// A bound of how far a mass is off the exact one by rounding: each of its values, and its weight. The exact masses of
// all ranks add up to what they gave. (Running error analysis: an operation is off by half an epsilon of its result, or
// by half of the smallest number.)
struct MassError {
  double values = 0, weight = 0;

  template <class Real>
  static constexpr double smallest() {
    return static_cast<double>(std::numeric_limits<Real>::denorm_min());
  }

  void add(const MassError& other) {
    values += other.values;
    weight += other.weight;
  }
  // Magnitudes of numbers of which each was rounded once. mass: values, weight, and maybe a check.
  template <class Real>
  void add(ConstMass<Real> mass, std::size_t count, double times = 1) {
    const double unit = times * static_cast<double>(std::numeric_limits<Real>::epsilon()) / 2;
    values += unit * largest(mass.first(count)) + times * smallest<Real>();
    weight += unit * std::abs(static_cast<double>(mass[count]));
  }
};

// The right check for these numbers, before it is rounded to a Real.
template <class Real>
double checksum_of(ConstMass<Real> numbers) {
  double sum = 0;
  for (Real each : numbers) sum += each;
  return sum;
}
// The checksum's error is larger than tau, or isn't a number.
template <class Real>
bool is_bad(ConstMass<Real> mass, double tau) {
  return !(std::abs(checksum_of(mass.first(mass.size() - 1)) - static_cast<double>(mass.back())) <= tau);
}

// The messages that a rank has to send. Each has a link (an index into the rank's neighbours) and one or more masses.
// Its era and ack tell the algorithm old from new. The rows are one block that keeps its memory.
template <class Real>
class GossipOutbox {
 public:
  struct Send {
    int link;
    std::uint32_t era, ack;
    std::size_t begin, length;
  };

  // A row to be filled in, valid until the next add().
  Mass<Real> add(int link, std::size_t length, std::uint32_t era = 0, std::uint32_t ack = 0) {
    const std::size_t begin = rows_.size();
    rows_.resize(begin + length);
    sends_.push_back({link, era, ack, begin, length});
    return {rows_.data() + begin, length};
  }
  // A row alone; where it begins.
  std::size_t append(ConstMass<Real> row) {
    rows_.insert(rows_.end(), row.begin(), row.end());
    return rows_.size() - row.size();
  }
  std::size_t append_copy(std::size_t begin, std::size_t length) {
    const std::size_t end = rows_.size();
    rows_.resize(end + length);
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(begin), length,
                rows_.end() - static_cast<std::ptrdiff_t>(length));
    return end;
  }
  std::span<const Send> sends() const { return sends_; }
  Mass<Real> row(const Send& send) { return row(send.begin, send.length); }
  Mass<Real> row(std::size_t begin, std::size_t length) { return {rows_.data() + begin, length}; }
  bool empty() const { return sends_.empty(); }
  void clear() {
    rows_.clear();
    sends_.clear();
  }
  void clear_sends() { sends_.clear(); }  // their rows stay

 private:
  std::vector<Real> rows_;
  std::vector<Send> sends_;
};

// One that has arrived.
template <class Real>
struct GossipArrival {
  int link;
  std::uint32_t era, ack;
  ConstMass<Real> row;
};

}  // namespace ucft::detail

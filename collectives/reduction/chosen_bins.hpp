// Reproducible sums that keep more bins than is usual (K; ucft_coll_options_t::reproducible_bins). They never keep
// fewer: with the usual 3 (of floats 2) a number that is alone comes back as it is.
//
// Source and idea as in binned.hpp, with bins of the same width. An accumulator has the sums of its numbers' digits in
// the K highest bins that it needs. The part of a number that is dropped is less than 2^(-width (K - 1)) of the largest
// magnitude. Each K is a contract of its own: sums with the same K have the same bits, sums with another one may
// differ. The usual number has loops of its own (binned.cpp). These are made by templates, an element at a time.
//
//   K = 3  {bins[3], top, marks}, 32 bytes     K = 4 .. 7  {bins[7], top, marks}, 64 bytes; bins beyond K are 0
//
// Powers of two, so that a carrier doesn't lie across two pieces of a payload.
#pragma once

#include "collectives/reduction/binned.hpp"

namespace ucft::detail {

inline constexpr int fewest_bins = 3;

template <class Real, int kept>
struct ChosenBins {
  static_assert(fewest_bins <= kept && kept <= most_bins);
  static constexpr int width = Binned<Real>::width;
  std::int64_t bins[kept <= 3 ? 3 : 7];  // the highest first
  std::int32_t top;
  std::uint32_t marks;
};

// Bits bin * width .. of magnitude << place; bins below 0 have none.
template <class Real>
[[gnu::always_inline]] inline std::uint64_t digits_of(std::uint64_t magnitude, int place, int bin) {
  const int down = bin * Binned<Real>::width - place;
  if (down >= 64 || down <= -Binned<Real>::width) return 0;
  return (down >= 0 ? magnitude >> down : magnitude << -down) & Cut<Real>::mask;
}

template <class Real, int kept>
ChosenBins<Real, kept> with_bins(Real value) {
  const Cut<Real> of = cut(value);
  const int place = of.shift + Binned<Real>::width * (of.top + 1 - Binned<Real>::kept);
  ChosenBins<Real, kept> made{{}, of.top, of.marks};
  for (int i = 0; i < kept; ++i) made.bins[i] = of.digit(digits_of<Real>(of.magnitude, place, of.top - i));
  return made;
}

template <class Real, int kept>
ChosenBins<Real, kept> merged(const ChosenBins<Real, kept>& a, const ChosenBins<Real, kept>& b) {
  ChosenBins<Real, kept> sum{{}, a.top > b.top ? a.top : b.top, a.marks | b.marks};
  const auto add = [&sum](const ChosenBins<Real, kept>& its) {
    for (int i = 0, down = sum.top - its.top; i + down < kept; ++i) sum.bins[i + down] += its.bins[i];
  };
  add(a);
  add(b);
  return sum;
}

// Rounded once: the leading bits as an integer of at least 57, whose last bit is set if anything is behind them.
template <class Real, int kept>
Real sum_of(const ChosenBins<Real, kept>& all) {
  constexpr int width = Binned<Real>::width;
  constexpr auto mask = static_cast<std::int64_t>(Cut<Real>::mask);
  std::int64_t bins[kept];
  std::int64_t carry = 0;
  for (int i = kept - 1; i > 0; --i) {
    const std::int64_t with_carry = all.bins[i] + carry;
    bins[i] = with_carry & mask;
    carry = with_carry >> width;
  }
  bins[0] = all.bins[0] + carry;
  const bool is_negative = bins[0] < 0;
  if (is_negative) {  // the magnitude: what is behind is subtracted from one more
    std::int64_t borrow = 0;
    for (int i = kept - 1; i > 0; --i) {
      const std::int64_t negated = -bins[i] - borrow;
      bins[i] = negated & mask;
      borrow = negated < 0;
    }
    bins[0] = -bins[0] - borrow;
  }
  unsigned __int128 leading = static_cast<std::uint64_t>(bins[0]);
  int next = 1;
  for (; next < kept && leading < (std::uint64_t{1} << 56); ++next)
    leading = leading << width | static_cast<std::uint64_t>(bins[next]);
  const int exponent = width * (all.top + 1 - next) + FormatOfReal<Real>::least;
  for (; next < kept; ++next) leading |= bins[next] != 0;
  const auto magnitude = static_cast<Real>(leading);
  return special_or(scaled<Real>(static_cast<double>(is_negative ? -magnitude : magnitude), exponent), all.marks);
}

// As combine_binned(), widen_binned() and finish_binned(), with so many bins.
void combine_with_bins(DataType type, int bins, std::byte* destination, const std::byte* lower, const std::byte* higher,
                       std::uint64_t count);
void widen_with_bins(DataType type, int bins, std::byte* carriers, const std::byte* elements, std::uint64_t count);
void finish_with_bins(DataType type, int bins, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                      std::uint32_t divisor);

}  // namespace ucft::detail

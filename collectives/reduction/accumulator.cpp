// See accumulator.hpp. A block of numbers is summed in vectors (block_sums.hpp), and its two sums go into the digits.
// Numbers that a block can't take go one by one: infinities, NaNs, the largest ones, and products that a double can't
// hold.
#include "collectives/reduction/accumulator.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/reduction/block_sums.hpp"

namespace ucft::detail {
namespace {

using Wide = unsigned __int128;

constexpr int digit_bits = Accumulator::digit_bits;
constexpr std::int64_t digit_mask = (std::int64_t{1} << digit_bits) - 1;
constexpr std::size_t digit_count = Accumulator::digit_count;

// ---- digits ---------------------------------------------------------------------------------------------------------

std::int64_t check_of(const Accumulator& accumulator) {
  std::array<std::uint64_t, accumulator_words> words;
  std::memcpy(words.data(), &accumulator, sizeof accumulator);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) sum += (2 * i + 1) * words[i];
  return static_cast<std::int64_t>(-sum);
}

void carry(Accumulator& accumulator) {
  std::int64_t carried = 0;
  for (std::size_t i = 0; i + 1 < digit_count; ++i) {
    const std::int64_t digit = accumulator.digits[i] + carried;
    accumulator.digits[i] = digit & digit_mask;
    carried = digit >> digit_bits;
  }
  accumulator.digits[digit_count - 1] += carried;
}

// Adds whole 2^exponent. No digit changes by more than 2^40.
void deposit(Accumulator& accumulator, std::int64_t whole, int exponent) {
  const int place = exponent - Accumulator::least;
  const __int128 shifted = static_cast<__int128>(whole) * (std::int64_t{1} << place % digit_bits);
  std::int64_t* const digits = accumulator.digits + place / digit_bits;
  digits[0] += static_cast<std::int64_t>(shifted) & digit_mask;
  digits[1] += static_cast<std::int64_t>(shifted >> digit_bits) & digit_mask;
  digits[2] += static_cast<std::int64_t>(shifted >> 2 * digit_bits);
}
// From one carry() to the next a digit has room for 2^22 deposits.
constexpr std::uint64_t most_passes = 48, blocks_between_carries = 1024;
static_assert(blocks_between_carries * std::max<std::uint64_t>(4 * most_passes, 2 * BlockSums::most) <= 1 << 22);

// ---- one by one -----------------------------------------------------------------------------------------------------

// whole 2^exponent, of a finite number.
struct Parts {
  std::int64_t whole;
  int exponent;
};
Parts parts_of(double value) {
  constexpr int mantissa_bits = 52, least = -1074;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> mantissa_bits & 2047);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  const auto magnitude = static_cast<std::int64_t>(fraction | std::uint64_t{exponent != 0} << mantissa_bits);
  return {std::signbit(value) ? -magnitude : magnitude, exponent - (exponent != 0) + least};
}

void mark(Accumulator& accumulator, double value) {
  if (std::isnan(value)) accumulator.marks[Accumulator::nan] = 1;
  if (std::isinf(value)) accumulator.marks[value > 0 ? Accumulator::plus_infinity : Accumulator::minus_infinity] = 1;
  const bool is_minus_zero = value == 0 && std::signbit(value);
  accumulator.marks[is_minus_zero ? Accumulator::minus_zero : Accumulator::other_than_minus_zero] = 1;
}

void add_number(Accumulator& accumulator, double value) {
  mark(accumulator, value);
  if (!std::isfinite(value)) return;
  const Parts parts = parts_of(value);
  deposit(accumulator, parts.whole, parts.exponent);
}

void add_product(Accumulator& accumulator, double a, double b) {
  const bool is_plain = std::isfinite(a) && std::isfinite(b) && a != 0 && b != 0;
  if (!is_plain) return add_number(accumulator, a * b);  // 0, infinite or a NaN
  accumulator.marks[Accumulator::other_than_minus_zero] = 1;
  constexpr int lower_bits = 53;
  const Parts one = parts_of(a), other = parts_of(b);
  const __int128 product = static_cast<__int128>(one.whole) * other.whole;  // below 2^106
  const int exponent = one.exponent + other.exponent;
  deposit(accumulator, static_cast<std::int64_t>(product & ((std::int64_t{1} << lower_bits) - 1)), exponent);
  deposit(accumulator, static_cast<std::int64_t>(product >> lower_bits), exponent + lower_bits);
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

const BlockKernels& kernels_of([[maybe_unused]] Instructions with) {
#if defined(__x86_64__)
  static const bool can_be_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (with == Instructions::fastest && can_be_wide) return wide_kernels;
#endif
  return portable_kernels;
}

// Adds blocks of numbers, and of products. A block that a function returns false of has to be added one by one: nothing
// of it has been added then.
class Blocks {
 public:
  Blocks(Accumulator& accumulator, Instructions with) : accumulator_(accumulator), kernels_(kernels_of(with)) {}

  bool add(const std::byte* block, std::size_t length, double) {
    const BlockSums sums = extract(block, length, bound_);
    if (sums.largest > BlockSums::most_magnitude) return false;
    if (sums.has_rests && std::any_of(rests_, rests_ + length, [](double rest) { return std::isnan(rest); }))
      return false;
    if (sums.largest == 0)
      for (std::size_t i = 0; i < length; ++i) mark(accumulator_, element_at<double>(block, i));
    else
      accumulator_.marks[Accumulator::other_than_minus_zero] = 1;
    add_sums(sums, length);
    return true;
  }
  bool add(const std::byte* block, std::size_t length, float) {
    kernels_.widen_floats(block, length, products_);
    return add(bytes_of(products_), length, double{});
  }
  bool add_products(const std::byte* a, const std::byte* b, std::size_t length, double) {
    if (!kernels_.multiply(a, b, length, products_, errors_) || !add(bytes_of(products_), length, double{}))
      return false;
    add_sums(extract(bytes_of(errors_), length, bound_of_errors_), length);
    return true;
  }
  bool add_products(const std::byte* a, const std::byte* b, std::size_t length, float) {
    kernels_.multiply_floats(a, b, length, products_);
    return add(bytes_of(products_), length, double{});
  }

 private:
  static const std::byte* bytes_of(const double* block) { return reinterpret_cast<const std::byte*>(block); }
  // A pass finds the largest magnitude as well. So the block before tells the bound, with a factor of 2 to spare; a
  // block for which that was too low is done again.
  BlockSums extract(const std::byte* block, std::size_t length, double& bound) {
    const BlockSums sums = kernels_.extract(block, length, bound, rests_);
    const bool is_too_low = sums.largest > bound;
    bound = std::min(2 * sums.largest, BlockSums::most_magnitude);
    return is_too_low ? kernels_.extract(block, length, bound, rests_) : sums;
  }
  // The rests of each pass are a block, whose bound is known: half of the last unit that was taken.
  void add_sums(BlockSums sums, std::size_t length) {
    for (std::uint64_t pass = 1;; ++pass) {
      assert(pass < most_passes);
      for (int each = 0; each < 2; ++each) deposit(accumulator_, sums.whole[each], sums.exponent[each]);
      if (!sums.has_rests) return;
      sums = kernels_.extract(bytes_of(rests_), length, std::ldexp(1, sums.exponent[1] - 1), rests_);
    }
  }

  Accumulator& accumulator_;
  const BlockKernels& kernels_;
  double bound_ = 0, bound_of_errors_ = 0;
  alignas(64) double rests_[BlockSums::most], products_[BlockSums::most], errors_[BlockSums::most];
};

// Calls add_block(first, length) for whole lanes, and add_one(i) for each number that is left, or of a block that
// add_block refuses.
template <class AddBlock, class AddOne>
void add_all(Accumulator& accumulator, std::uint64_t count, AddBlock add_block, AddOne add_one) {
  std::uint64_t done = 0;
  for (std::uint64_t blocks = 0; done < count; ++blocks) {
    if (blocks % blocks_between_carries == 0) carry(accumulator);
    const std::uint64_t left = std::min<std::uint64_t>(count - done, BlockSums::most);
    const std::uint64_t length = left < BlockSums::lanes ? left : left / BlockSums::lanes * BlockSums::lanes;
    if (length % BlockSums::lanes != 0 || !add_block(done, length))
      for (std::uint64_t i = done; i < done + length; ++i) add_one(i);
    done += length;
  }
  settle(accumulator);
}

// ---- rounding -------------------------------------------------------------------------------------------------------

// leading 2^exponent, and something behind that is less, if has_more.
struct Magnitude {
  Wide leading = 0;
  bool has_more = false;
  int exponent = 0;
};

int width_of(Wide value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(value));
}

// Of settled digits that are not negative: 65 bits or more, if there are so many.
Magnitude magnitude_of(const Accumulator& accumulator) {
  Magnitude magnitude;
  std::size_t next = digit_count;
  while (next > 0 && magnitude.leading >> 64 == 0)
    magnitude.leading = magnitude.leading << digit_bits | static_cast<Wide>(accumulator.digits[--next]);
  magnitude.exponent = digit_bits * static_cast<int>(next) + Accumulator::least;
  magnitude.has_more =
      std::any_of(accumulator.digits, accumulator.digits + next, [](std::int64_t digit) { return digit != 0; });
  return magnitude;
}

// To nearest, ties to even; subnormal numbers, too.
template <class Real>
Real rounded(const Magnitude& magnitude) {
  constexpr int digits = std::numeric_limits<Real>::digits,
                least = std::numeric_limits<Real>::min_exponent - digits;  // -1074; -149
  const int width = width_of(magnitude.leading);
  const int dropped = std::max({width - digits, least - magnitude.exponent, 0});
  if (dropped > width) return 0;  // less than half of the least number
  Wide kept = magnitude.leading;
  if (dropped > 0) {
    const Wide half = Wide{1} << (dropped - 1), behind = magnitude.leading & (half + half - 1);
    kept = dropped < 128 ? magnitude.leading >> dropped : 0;
    if (behind > half || (behind == half && (magnitude.has_more || (kept & 1) != 0))) ++kept;
  }
  return static_cast<Real>(std::ldexp(static_cast<double>(kept), magnitude.exponent + dropped));
}

// The integer below the root of a square from 2^125 to 2^127.
std::uint64_t root_below(Wide square) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(square)));  // right to 2^-52 of it
  root = static_cast<std::uint64_t>((root + square / root) / 2);
  while (Wide{root} * root > square) --root;
  while (Wide{root + 1} * (root + 1) <= square) ++root;
  return root;
}

Magnitude root_of(const Magnitude& square) {
  int shift = 126 - width_of(square.leading);
  if ((square.exponent - shift) % 2 != 0) ++shift;
  const Wide leading = square.leading << shift;
  const std::uint64_t root = root_below(leading);
  return {root, square.has_more || Wide{root} * root != leading, (square.exponent - shift) / 2};
}

// The sum, its magnitude changed by `change`; of a negative sum `of_negative` says what becomes of it.
enum class Negative { stays, is_nan };
template <class Real, class Change>
Real special_or(const Accumulator& accumulator, Negative negative, Change change) {
  using Limits = std::numeric_limits<Real>;
  const auto is_marked = [&](Accumulator::Mark mark) { return accumulator.marks[mark] > 0; };
  const bool plus = is_marked(Accumulator::plus_infinity), minus = is_marked(Accumulator::minus_infinity);
  Accumulator digits = accumulator;
  carry(digits);
  const bool is_below_0 = digits.digits[digit_count - 1] < 0;
  if (is_marked(Accumulator::nan) || (plus && minus)) return Limits::quiet_NaN();
  if ((minus || (is_below_0 && !plus)) && negative == Negative::is_nan) return Limits::quiet_NaN();
  if (plus || minus) return plus ? Limits::infinity() : -Limits::infinity();
  if (is_below_0) {
    for (std::int64_t& digit : digits.digits) digit = -digit;
    carry(digits);
  }
  const Magnitude magnitude = magnitude_of(digits);
  if (magnitude.leading == 0)
    return is_marked(Accumulator::minus_zero) && !is_marked(Accumulator::other_than_minus_zero) ? Real(-0.0) : Real(0);
  const Real value = rounded<Real>(change(magnitude));
  return is_below_0 ? -value : value;
}

}  // namespace

bool is_accumulator(const Accumulator& accumulator) { return accumulator.check == check_of(accumulator); }

bool is_settled(const Accumulator& accumulator) {
  Accumulator same = accumulator;
  settle(same);
  return std::memcmp(&same, &accumulator, sizeof same) == 0;
}

void settle(Accumulator& accumulator) {
  carry(accumulator);
  for (std::int64_t& mark : accumulator.marks) mark = mark > 0;
  if (accumulator.marks[Accumulator::other_than_minus_zero] != 0) accumulator.marks[Accumulator::minus_zero] = 0;
  accumulator.check = check_of(accumulator);
}

template <class Real>
void accumulate(Accumulator& accumulator, const std::byte* values, std::uint64_t count, Instructions with) {
  Blocks blocks(accumulator, with);
  add_all(
      accumulator, count,
      [&](std::uint64_t first, std::uint64_t length) {
        return blocks.add(values + first * sizeof(Real), length, Real{});
      },
      [&](std::uint64_t i) { add_number(accumulator, static_cast<double>(element_at<Real>(values, i))); });
}

template <class Real>
void accumulate_products(Accumulator& accumulator, const std::byte* a, const std::byte* b, std::uint64_t count,
                         Instructions with) {
  Blocks blocks(accumulator, with);
  add_all(
      accumulator, count,
      [&](std::uint64_t first, std::uint64_t length) {
        const std::uint64_t offset = first * sizeof(Real);
        return blocks.add_products(a + offset, b + offset, length, Real{});
      },
      [&](std::uint64_t i) {
        add_product(accumulator, static_cast<double>(element_at<Real>(a, i)),
                    static_cast<double>(element_at<Real>(b, i)));
      });
}

template void accumulate<float>(Accumulator&, const std::byte*, std::uint64_t, Instructions);
template void accumulate<double>(Accumulator&, const std::byte*, std::uint64_t, Instructions);
template void accumulate_products<float>(Accumulator&, const std::byte*, const std::byte*, std::uint64_t, Instructions);
template void accumulate_products<double>(Accumulator&, const std::byte*, const std::byte*, std::uint64_t,
                                          Instructions);

void merge(Accumulator& into, const Accumulator& from) {
  Accumulator other = from;
  settle(into);
  settle(other);
  for (std::size_t i = 0; i < digit_count; ++i) into.digits[i] += other.digits[i];
  for (int i = 0; i < Accumulator::mark_count; ++i) into.marks[i] += other.marks[i];
  settle(into);
}

template <class Real>
Real value_of(const Accumulator& accumulator) {
  return special_or<Real>(accumulator, Negative::stays, [](const Magnitude& magnitude) { return magnitude; });
}
template <class Real>
Real root_of(const Accumulator& accumulator) {
  return special_or<Real>(accumulator, Negative::is_nan, [](const Magnitude& magnitude) { return root_of(magnitude); });
}

template float value_of<float>(const Accumulator&);
template double value_of<double>(const Accumulator&);
template float root_of<float>(const Accumulator&);
template double root_of<double>(const Accumulator&);

}  // namespace ucft::detail

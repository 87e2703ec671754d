// Exact sums: an accumulator holds the sum of all numbers that it was given, without any rounding. So neither the order
// of the numbers, nor how they are cut among calls, threads and ranks, changes a bit of it.
//
// Source: Kulisch's long accumulator; the sums of blocks by error-free extraction, Rump, Ogita and Oishi, Accurate
// floating-point summation (block_sums.hpp); the use in reductions, Lapillonne and Peltekov, Bitwise reproducible sum
// (docs/algorithms.md, "Exact sums").
//
// The sum is an integer in units of 2^-2148, the least product of two doubles. It is kept in digits of 40 bits, each in
// 64 bits:
//
//   sum = (digits[0] + digits[1] 2^40 + .. + digits[105] 2^4200) 2^-2148      a product of doubles is below 2^4196
//
// Settled digits are from 0 and below 2^40, but for the last one, which has the sign. So a sum has one settled form.
// Accumulators are merged by adding them word by word: the marks and the check, too. That is what lets an allreduce of
// int64 merge them, in pieces of any length. Up to 2^22 settled ones may be added before they are settled again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ucft::detail {

struct Accumulator {
  static constexpr int digit_bits = 40, least = -2148;  // the power of two that a unit of digits[0] is
  static constexpr std::size_t digit_count = 106;
  // Which special numbers were added. Above 0 means yes; settled: 0 or 1, and minus_zero only if it is alone.
  enum Mark { nan, plus_infinity, minus_infinity, minus_zero, other_than_minus_zero, mark_count };

  std::int64_t digits[digit_count];
  std::int64_t marks[mark_count];
  std::int64_t check;  // minus the sum of (2 i + 1) word[i]; odd, so that no bit is lost. Right after an addition, too
};
static_assert(sizeof(Accumulator) == 896);
inline constexpr std::size_t accumulator_words = sizeof(Accumulator) / sizeof(std::int64_t);

// Whether it is an accumulator: one that was never initialised, or is damaged, is none. All bytes 0: an empty one.
bool is_accumulator(const Accumulator& accumulator);
bool is_settled(const Accumulator& accumulator);
// The one form of this sum.
void settle(Accumulator& accumulator);

// A machine's way to the same bits. Fastest: what this processor can.
enum class Instructions : std::uint8_t { portable, fastest };

// Adds count numbers, or the products of count pairs, exactly. No pointer needs any alignment. Need the default
// rounding. The accumulator is settled afterwards. Any thread, one at a time for each accumulator.
template <class Real>
void accumulate(Accumulator& accumulator, const std::byte* values, std::uint64_t count,
                Instructions with = Instructions::fastest);
template <class Real>
void accumulate_products(Accumulator& accumulator, const std::byte* a, const std::byte* b, std::uint64_t count,
                         Instructions with = Instructions::fastest);

void merge(Accumulator& into, const Accumulator& from);

// The sum, or its square root, rounded once: to nearest, ties to even. Of nothing: 0. A NaN, or infinities of both
// signs: the positive quiet NaN. The root of less than 0 is that NaN, too. A sum that is 0 is -0.0 if all that was
// added is -0.0. Need the default rounding.
template <class Real>
Real value_of(const Accumulator& accumulator);
template <class Real>
Real root_of(const Accumulator& accumulator);

}  // namespace ucft::detail

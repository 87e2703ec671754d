// Reproducible sums by two sweeps, of numbers that one rank can read all together: the bits of the single sweep
// (binned.hpp).
//
// Source: the double-sweep sum; Lapillonne and Peltekov, Bitwise reproducible sum (docs/algorithms.md, "Reproducible
// sums"). The first sweep finds the highest bin that is needed. The second deposits each number once into the bins
// below it, which are fixed by then. Ours differs in that bins are where the single sweep has them. So both keep the
// same bins, with the same digits in them, and only time depends on which of them was taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/reduction/reduction.hpp"

namespace ucft::detail {

// elements[i] = sources[0][i] + .. + sources[sources_count - 1][i], of `count` elements, from one source on. An average
// is not divided yet: that is finish()'s. No pointer needs any alignment; elements overlaps no source. Needs the
// default rounding.
void sum_in_two_sweeps(const Reduction& reduction, std::byte* elements, const std::byte* const* sources,
                       std::size_t sources_count, std::uint64_t count);

// ---- where nobody reads all: two operations -------------------------------------------------------------------------

// The height of a number is what the first sweep needs of it: its highest bin, and its marks. Heights are bits: the
// `or` of those of all numbers is the height of the sum. Bits of doubles in uint64, of floats in uint16.
DataType heights_of(DataType type);
void note_heights(DataType type, std::byte* heights, const std::byte* elements, std::uint64_t count);

// The digits of numbers in the bins that the heights of their sum leave. They are integers that may be added by the sum
// of int64: so many for each number, the highest first.
int digits_each(const Reduction& reduction);
void deposit(const Reduction& reduction, std::int64_t* digits, const std::byte* elements, const std::byte* heights,
             std::uint64_t count);
// The sums of digits, rounded; divisor: 1 of a sum.
void round_digits(const Reduction& reduction, std::byte* elements, const std::int64_t* digits, const std::byte* heights,
                  std::uint64_t count, std::uint32_t divisor);

}  // namespace ucft::detail

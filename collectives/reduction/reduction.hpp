// Combines two partial results element by element: destination[i] = lower[i] op higher[i].
//
// Source: the reduction operator "o" of the corrected reduce (docs/algorithms.md); rules for integers, NaN and ties
// as promised in include/ucft/ucft.h.
// Invariants: the result depends on the operand values alone, neither on alignment, nor on which operand is
// overwritten, nor on the vector width of the machine. (One exception: the payload bits of a NaN that comes out of a
// floating-point sum or product are the processor's choice.)
//
// What travels, and is combined, are carriers. Mostly these are the caller's elements; sums, products and averages of halves
// are carried in float. A rank's input is widened into carriers once (widen), and the combined carriers are finished once, on
// each rank that gets the result (finish): rounded to the caller's type, and divided where it is an average.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/reduction/types.hpp"

namespace ucft::detail {

// inout[i] = in[i] op inout[i]; `in` holds the lower ranks. ucft_user_function_t, with an int for the enumeration.
using UserFunction = void (*)(const void* in, void* inout, std::uint64_t count, int dtype, void* arg);

struct Reduction {
  DataType type = DataType::float64;  // of the caller's elements
  Operator op = Operator::sum;
  UserFunction function = nullptr;  // of Operator::user only
  void* arg = nullptr;              // handed to function

  std::size_t carrier_bytes() const;  // of one
  // Whether the caller's elements must be widened into carriers.
  bool widens() const { return carrier_of(type, op) != type; }
  // Whether a result must be finished, and is no copy of the combined carriers.
  bool finishes() const;
};

// destination[i] = lower[i] op higher[i] for count carriers.
//
// destination is exactly lower, or exactly higher, or overlaps neither. Lower and higher may be the same. No pointer
// needs any alignment; count 0 touches nothing. No allocation, no error; any thread.
//
// Sums and products of integers wrap. Minimum and maximum of floating-point numbers: if any operand is a NaN, the
// result is the positive quiet NaN without payload (0x7fc00000, 0x7ff8000000000000; of halves 0x7e00, 0x7fc0), whichever
// operand it was and whatever its bits; -0.0 < +0.0. With location: the same for the value, and of equal values, and of NaNs,
// the lowest location. Padding in a pair is not read, and 0 in results.
//
// Operator::user: the function sees element-aligned memory, `in` and `inout` never overlap, and it may be called
// several times, for consecutive ranges of elements in ascending order.
void combine(const Reduction& reduction, void* destination, const void* lower, const void* higher, std::uint64_t count);

// The carriers of count elements, exactly. Only if widens(). The two must not overlap; neither needs any alignment.
void widen(const Reduction& reduction, void* carriers, const void* elements, std::uint64_t count);
// The caller's elements from the carriers that so many ranks have contributed to (at least 1). Only if finishes(). The two must
// not overlap; neither needs any alignment. Needs the default rounding.
void finish(const Reduction& reduction, void* elements, const void* carriers, std::uint64_t count,
            std::uint32_t contributors);

// ---- looked up, since operations ask for them again and again

namespace reduction_table {
inline constexpr std::size_t columns = 16;  // at least operator_count + 1
template <class Value, class Of>
constexpr std::array<Value, type_count * columns> filled(Of of) {
  std::array<Value, type_count * columns> table{};
  for (std::size_t type = 0; type < type_count; ++type)
    for (std::size_t op = 0; op <= operator_count; ++op)
      table[type * columns + op] = of(static_cast<DataType>(type), static_cast<Operator>(op));
  return table;
}
inline constexpr auto carrier_bytes =
    filled<std::uint8_t>([](DataType type, Operator op) { return row_of(carrier_of(type, op)).bytes; });
constexpr std::size_t place(const Reduction& reduction) {
  return static_cast<std::size_t>(reduction.type) * columns + static_cast<std::size_t>(reduction.op);
}
}  // namespace reduction_table

inline std::size_t Reduction::carrier_bytes() const {
  return reduction_table::carrier_bytes[reduction_table::place(*this)];
}

// Also where one contributor's value is the result: 7 AND nothing is 1, and padding is 0.
inline bool Reduction::finishes() const {
  if (op == Operator::none || op == Operator::user) return false;
  const bool logical = op >= Operator::logical_and && op <= Operator::logical_xor;
  return widens() || logical || op == Operator::average || is_of(type, booleans | pairs);
}

}  // namespace ucft::detail

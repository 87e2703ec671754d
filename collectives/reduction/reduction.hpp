// Combines two partial results element by element: destination[i] = lower[i] op higher[i].
//
// Source: the reduction operator "o" of the corrected reduce (docs/algorithms.md); rules for integers, NaN and ties
// as promised in include/ucft/ucft.h.
// Invariants: the result depends on the operand values alone, neither on alignment, nor on which operand is
// overwritten, nor on the vector width of the machine. (One exception: the payload bits of a NaN that comes out of a
// floating-point sum or product are the processor's choice.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace ucft::detail {

// The values of ucft_dtype_t.
enum class DataType : std::uint8_t { float32 = 0, float64 = 1, int32 = 2, int64 = 3, uint64 = 4 };

// The values of ucft_op_t.
enum class Operator : std::uint8_t { sum = 0, prod = 1, min = 2, max = 3, user = 4 };

// inout[i] = in[i] op inout[i]; `in` holds the lower ranks. ucft_user_function_t, with an int for the enumeration.
using UserFunction = void (*)(const void* in, void* inout, std::uint64_t count, int dtype, void* arg);

struct Reduction {
  DataType type = DataType::float64;
  Operator op = Operator::sum;
  UserFunction function = nullptr;  // of Operator::user only
  void* arg = nullptr;              // handed to function
};

// Bytes of one element.
constexpr std::size_t element_bytes(DataType type) {
  constexpr std::uint8_t bytes[] = {4, 8, 4, 8, 8};
  return bytes[static_cast<std::size_t>(type)];
}

// destination[i] = lower[i] op higher[i] for count elements.
//
// destination is exactly lower, or exactly higher, or overlaps neither. Lower and higher may be the same. No pointer
// needs any alignment; count 0 touches nothing. No allocation, no error; any thread.
//
// Sums and products of integers wrap. Minimum and maximum of floating-point numbers: if any operand is a NaN, the
// result is the positive quiet NaN without payload (0x7fc00000, 0x7ff8000000000000), whichever operand it was and
// whatever its bits; -0.0 < +0.0.
//
// Operator::user: the function sees element-aligned memory, `in` and `inout` never overlap, and it may be called
// several times, for consecutive ranges of elements in ascending order.
void combine(const Reduction& reduction, void* destination, const void* lower, const void* higher, std::uint64_t count);

}  // namespace ucft::detail

// Combines two partial results element by element: destination[i] = lower[i] op higher[i].
//
// Source: the reduction operator "o" of the corrected reduce (docs/algorithms.md); rules for integers, NaN and ties
// as promised in include/ucft/ucft.h.
// Invariants: the result depends on the operand values alone, neither on alignment, nor on which operand is
// overwritten, nor on the vector width of the machine. (One exception: the payload bits of a NaN that comes out of a
// floating-point sum or product are the processor's choice.)
//
// Carriers are what travels, and what is combined. Mostly these are the caller's elements. Sums, products and averages
// of halves are carried in float. Reproducible sums are carried in accumulators of four times an element's bytes, or
// more if more bins are asked for. A rank's input is widened into carriers once (widen). The combined carriers are
// finished once, on each rank that gets the result (finish): rounded to the caller's type, and divided where it is an
// average. Where one rank reads all inputs, reproducible sums need no carriers (two_sweeps.hpp). Then elements travel,
// all of which are summed in one call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/reduction/types.hpp"

namespace ucft::detail {

// inout[i] = in[i] op inout[i]; `in` holds the lower ranks. ucft_user_function_t, with an int for the enumeration.
using UserFunction = void (*)(const void* in, void* inout, std::uint64_t count, int dtype, void* arg);

class Reduction {
 public:
  // by: of Operator::user only; with is handed to it. bins: of a reproducible sum only; 0: as many as are usual.
  constexpr Reduction(DataType of = DataType::float64, Operator is = Operator::sum, UserFunction by = nullptr,
                      void* with = nullptr, int bins = 0)
      : type_(of),
        op_(is),
        bins_(static_cast<std::uint8_t>(is_binned(is) && bins != usual_bins_of(of) ? bins : 0)),
        carrier_bytes_(static_cast<std::uint8_t>(carrier_bytes_of(of, is, bins_))),
        widens_(is_binned(is) || carrier_of(of, is) != of),
        finishes_(is_finished(of, is)),
        rounds_(is == Operator::user || (is != Operator::none && !is_of(of, integers | booleans))),
        function_(by),
        arg_(with) {}

  // The same reproducible sum, made of all inputs at once by sum_in_two_sweeps(). combine() does not take it.
  constexpr Reduction in_two_sweeps() const {
    Reduction its = *this;
    its.sweeps_twice_ = true;
    its.carrier_bytes_ = static_cast<std::uint8_t>(element_bytes(type_));
    its.widens_ = false;
    its.finishes_ = is_average(op_);
    return its;
  }
  bool sweeps_twice() const { return sweeps_twice_; }

  DataType type() const { return type_; }  // of the caller's elements
  Operator op() const { return op_; }
  UserFunction function() const { return function_; }
  void* arg() const { return arg_; }

  int bins() const { return bins_; }                            // 0: as many as are usual
  std::size_t carrier_bytes() const { return carrier_bytes_; }  // of one
  // Whether the caller's elements must be widened into carriers.
  bool widens() const { return widens_; }
  // Whether a result must be finished, and is no copy of the combined carriers.
  bool finishes() const { return finishes_; }
  // The same of carriers: they are given, and what is left is not finished.
  constexpr Reduction of_carriers() const {
    Reduction same = *this;
    same.widens_ = same.finishes_ = false;
    return same;
  }
  // Whether a result may depend on the processor's rounding mode, or on what it does with denormals.
  bool rounds() const { return rounds_; }

 private:
  // Also where one contributor's value is the result: 7 AND nothing is 1, and padding is 0.
  static constexpr bool is_finished(DataType of, Operator is) {
    if (is == Operator::none || is == Operator::user) return false;
    const bool is_logical = is >= Operator::logical_and && is <= Operator::logical_xor;
    return carrier_of(of, is) != of || is_logical || is_average(is) || is_binned(is) || is_of(of, booleans | pairs);
  }

  DataType type_;
  Operator op_;
  std::uint8_t bins_, carrier_bytes_;
  bool widens_, finishes_, rounds_, sweeps_twice_ = false;
  UserFunction function_;
  void* arg_;
};

// destination[i] = lower[i] op higher[i] for count carriers.
//
// destination is exactly lower, or exactly higher, or overlaps neither. Lower and higher may be the same. No pointer
// needs any alignment; count 0 touches nothing. No allocation, no error; any thread.
//
// Sums and products of integers wrap. Minimum and maximum of floating-point numbers: if any operand is a NaN, the
// result is the positive quiet NaN without payload. Its bits are 0x7fc00000, 0x7ff8000000000000; of halves 0x7e00,
// 0x7fc0. The operand's place and bits don't matter. -0.0 < +0.0. With location: the same for the value, and of equal
// values, and of NaNs, the lowest location. Padding in a pair is not read, and 0 in results.
//
// Operator::user: the function sees element-aligned memory, `in` and `inout` never overlap, and it may be called
// several times, for consecutive ranges of elements in ascending order.
void combine(const Reduction& reduction, void* destination, const void* lower, const void* higher, std::uint64_t count);

// combine() again and again with one reduction, which must outlive it: the loop for its type and operator is looked up
// once.
class Combiner {
 public:
  using Kernel = void (*)(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t count);

  explicit Combiner(const Reduction& reduction) : reduction_(reduction), kernel_(kernel_of(reduction)) {}

  void operator()(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t count) const {
    if (kernel_ != nullptr) [[likely]]
      kernel_(destination, lower, higher, count);
    else
      combine(reduction_, destination, lower, higher, count);
  }
  Kernel kernel() const { return kernel_; }
  // lower op higher, in `into`; lower may be there, or null: then it is higher, where that is.
  const std::byte* add(const std::byte* lower, const std::byte* higher, std::uint64_t count, std::byte* into) const {
    if (lower == nullptr) return higher;
    (*this)(into, lower, higher, count);
    return into;
  }

 private:
  static Kernel kernel_of(const Reduction& reduction);

  const Reduction& reduction_;
  const Kernel kernel_;  // null: combine() knows more
};

// The carriers of count elements, exactly. Only if widens(). The two must not overlap; neither needs any alignment.
void widen(const Reduction& reduction, void* carriers, const void* elements, std::uint64_t count);
// The caller's elements from the carriers that so many ranks have contributed to (at least 1). Only if finishes(). The
// two must not overlap; neither needs any alignment. Needs the default rounding.
void finish(const Reduction& reduction, void* elements, const void* carriers, std::uint64_t count,
            std::uint32_t contributors);

}  // namespace ucft::detail

// Fills the buffers of an operation, and says what is wrong with its result.
//
// All elements are checked of results of up to 1024. Of longer ones the first, the last and every 509th are. All are
// checked in every 16th operation, after a second attempt, and whenever the set of contributors has changed.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/arguments.hpp"
#include "bench/payload.hpp"

namespace ucft::detail::bench {

// "" if all is well.
struct Verdict {
  std::string complaint;
  std::uint64_t digest = 0;  // must be the same on all survivors
};

// Its functions are compiled for each type once (checker.cpp), for all programs.
template <Element T>
class Checker {
 public:
  struct World {
    int rank = 0;
    int rank_count = 1;
  };
  Checker(ucft_op_t op, World world) : payload_(op, world.rank_count), world_(world) {}

  // The contribution of `rank` to that operation.
  void fill(std::span<T> values, int rank, std::uint64_t operation) const;

  // A reduction that the library calls a success.
  Verdict check_combined(std::span<const T> values, std::uint64_t operation, const Result& result);

  // Of shares that differ, from now on.
  void set_counts(OwnCounts counts) { counts_ = std::move(counts); }
  // With a quorum a rank that is missing in one result may be in the next one.
  void note_quorum() { may_be_late_ = true; }
  // An alltoall that goes in rounds: of a missing rank's share a part may have come, from its beginning on.
  void set_rounds(bool has_rounds) { has_rounds_ = has_rounds; }

  // The same of a share of the sum. Inputs for the shares of different ranks differ.
  void fill_shares(std::span<T> values, std::uint64_t operation) const;
  Verdict check_share(std::span<const T> values, std::uint64_t operation, const Result& result);

  // The share of what `root` has filled so; and a share in a buffer that clear() was given before, and nobody has
  // written to.
  Verdict check_share_of(std::span<const T> values, std::uint64_t operation, int root) const;
  std::string check_untouched(std::span<const T> values, std::uint64_t operation) const;

  // The shares that all ranks have filled so for this one, as check_blocks(). And the sum of what the ranks before this
  // one have filled in, and this one with_own; untouched, as clear() has left it, where there is none.
  Verdict check_shares_of_all(std::span<const T> values, std::uint64_t operation, const Result& result);
  Verdict check_prefix(std::span<const T> values, std::uint64_t operation, const Result& result, bool with_own);

  // A buffer that must hold the values that `rank` filled in.
  Verdict check_copy(std::span<const T> values, std::uint64_t operation, int rank) const;

  // The blocks of an allgather, in a buffer that clear() was given before. A rank's block is its own, or it is missing
  // and its place is untouched.
  static void clear(std::span<T> values);
  Verdict check_blocks(std::span<const T> values, std::uint64_t operation, const Result& result);

 private:
  static T untouched();
  Verdict check_blocks(std::span<const T> values, std::uint64_t filled, std::uint64_t operation, const Result& result);
  // Of a missing rank, that much of its share is there: not all, and with any operation but one in rounds nothing.
  std::size_t part_there(std::span<const T> share, int rank, std::uint64_t filled) const;
  // filled: the operation that fill() was told.
  Verdict check_sum(std::span<const T> values, std::uint64_t filled, std::uint64_t operation, const Result& result);
  std::uint64_t operation_of_share(std::uint64_t operation, int rank) const {
    return operation * rank_count() + static_cast<std::uint64_t>(rank);
  }
  std::uint32_t rank_count() const { return static_cast<std::uint32_t>(world_.rank_count); }

  // Neither decodable nor reported (failure information count or bit, with another operator than sum). Some one or two
  // ranks must explain the result by their absence; of more, only the agreement between the ranks is checked.
  Verdict check_unreported(std::span<const T> values, std::uint64_t operation, std::uint32_t contributors) const;
  // Of a result of so many ranks.
  std::string complaint_about(const std::vector<std::int32_t>& missing, const Result& result, std::size_t ranks) const;

  Payload<T> payload_;
  World world_;
  OwnCounts counts_;
  std::vector<std::int32_t> last_missing_;
  bool may_be_late_ = false, has_rounds_ = false;
};

// Calls action with a value of the C++ type.
template <class Action>
auto with_element_type(ucft_dtype_t dtype, Action action) {
  switch (dtype) {
    case UCFT_FLOAT: return action(float{});
    case UCFT_DOUBLE: return action(double{});
    case UCFT_INT8: return action(std::int8_t{});
    case UCFT_INT16: return action(std::int16_t{});
    case UCFT_INT32: return action(std::int32_t{});
    case UCFT_INT64: return action(std::int64_t{});
    case UCFT_UINT8: return action(std::uint8_t{});
    case UCFT_UINT16: return action(std::uint16_t{});
    case UCFT_UINT32: return action(std::uint32_t{});
    case UCFT_FLOAT16: return action(float16{});
    case UCFT_BFLOAT16: return action(bfloat16{});
    case UCFT_COMPLEX_FLOAT: return action(std::complex<float>{});
    case UCFT_COMPLEX_DOUBLE: return action(std::complex<double>{});
    case UCFT_BOOL: return action(bool{});
    case UCFT_FLOAT_INT32: return action(located<float, std::int32_t>{});
    case UCFT_DOUBLE_INT32: return action(located<double, std::int32_t>{});
    case UCFT_INT32_INT32: return action(located<std::int32_t, std::int32_t>{});
    case UCFT_INT64_INT64: return action(located<std::int64_t, std::int64_t>{});
    case UCFT_DOUBLE_INT64: return action(located<double, std::int64_t>{});
    case UCFT_ACCUMULATOR:  // no type of these programs
    case UCFT_UINT64: break;
  }
  return action(std::uint64_t{});
}

// The user operator of the tests: a sum. Not of bool and pairs, which have none, nor of halves, where it would be
// rounded each time.
template <Element T>
void add_elements(const T* in, T* inout, std::uint64_t count) {
  if constexpr (Integer<T> || std::floating_point<T> || is_complex<T>)
    for (std::uint64_t i = 0; i < count; ++i)
      inout[i] = static_cast<T>(static_cast<Arithmetic<T>>(in[i]) + static_cast<Arithmetic<T>>(inout[i]));
}

}  // namespace ucft::detail::bench

// Fills the buffers of an operation, and says what is wrong with its result.
//
// Up to 1024 elements are checked one by one. Of longer results the first, the last and every 509th; all of them in
// every 16th operation, after a second attempt, and whenever the set of contributors has changed.
#pragma once

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bench/payload.hpp"

namespace ucft::detail::bench {

template <class T>
std::string shown(const T& value) {
  if constexpr (Half<T>)
    return fmt::format("{}", static_cast<float>(value));
  else if constexpr (is_complex<T>)
    return fmt::format("({}, {})", value.real(), value.imag());
  else if constexpr (is_pair<T>)
    return fmt::format("{} at {}", value.value, value.location);
  else
    return fmt::format("{}", value);
}

// "" if all is well.
struct Verdict {
  std::string complaint;
  std::uint64_t digest = 0;  // must be the same on all survivors
};

template <Element T>
class Checker {
 public:
  struct World {
    int rank = 0;
    int rank_count = 1;
  };
  Checker(ucft_op_t op, World world) : payload_(op, world.rank_count), world_(world) {}

  // What `rank` contributes to that operation.
  void fill(std::span<T> values, int rank, std::uint64_t operation) const {
    const std::size_t fresh = std::min(values.size(), period_elements);
    for (std::size_t i = 0; i < fresh; ++i) values[i] = payload_.contribution(rank, operation, i);
    for (std::size_t done = fresh; done < values.size(); done += std::min(fresh, values.size() - done)) {
      std::memcpy(&values[done], &values[0], std::min(fresh, values.size() - done) * sizeof(T));
    }
  }

  // A reduction that the library calls a success.
  Verdict check_combined(std::span<const T> values, std::uint64_t operation, const Result& result) {
    if (!payload_.has_digits() && !result.missing_known && result.contributors != rank_count()) {
      return check_unreported(values, operation, result.contributors);
    }
    const auto missing = payload_.has_digits() ? payload_.missing_in(values[0], operation) : result.missing;
    if (!missing) return {fmt::format("element 0 is {}: not each rank once or not at all", shown(values[0])), 0};
    Verdict verdict{complaint_about(*missing, result), digest_of(*missing)};
    const bool thorough = result.attempts > 1 || *missing != last_missing_ || operation % 16 == 0;
    last_missing_ = *missing;
    if (verdict.complaint.empty()) {
      verdict.complaint = first_difference(
          values, thorough, [&](std::size_t position) { return payload_.combined(operation, position, *missing); });
    }
    return verdict;
  }

  // A buffer that must hold what `rank` filled it with.
  Verdict check_copy(std::span<const T> values, std::uint64_t operation, int rank) const {
    return {first_difference(values, operation % 16 == 0,
                             [&](std::size_t position) { return payload_.contribution(rank, operation, position); }),
            mix(operation) ^ static_cast<std::uint64_t>(rank)};
  }

  // The blocks of an allgather, in a buffer that clear() was given before. A rank's block is its own, or it is missing and its
  // place is untouched.
  static void clear(std::span<T> values) { std::fill(values.begin(), values.end(), untouched()); }
  Verdict check_blocks(std::span<const T> values, std::uint64_t operation, const Result& result) {
    if (!result.missing_known) return {"it is not known who is missing", 0};
    const std::size_t count = values.size() / rank_count();
    Verdict verdict{complaint_about(result.missing, result), digest_of(result.missing)};
    last_missing_ = result.missing;
    for (int rank = 0; rank < world_.rank_count && verdict.complaint.empty(); ++rank) {
      const std::span<const T> block = values.subspan(static_cast<std::size_t>(rank) * count, count);
      const bool missing = std::binary_search(result.missing.begin(), result.missing.end(), rank);
      const std::string wrong = first_difference(block, operation % 16 == 0, [&](std::size_t position) {
        return missing ? untouched() : payload_.contribution(rank, operation, position);
      });
      if (!wrong.empty())
        verdict.complaint = fmt::format("block of {}rank {}: {}", missing ? "missing " : "", rank, wrong);
    }
    return verdict;
  }

 private:
  static T untouched() {
    if constexpr (is_pair<T>)
      return {85, 85};
    else if constexpr (is_complex<T>)
      return {85, 85};
    else
      return static_cast<T>(85.0f);
  }

  std::uint32_t rank_count() const { return static_cast<std::uint32_t>(world_.rank_count); }

  // Neither decodable nor reported (failure information count or bit, with another operator than sum). Some one or two
  // ranks must explain the result by their absence; of more, only the agreement between the ranks is checked.
  Verdict check_unreported(std::span<const T> values, std::uint64_t operation, std::uint32_t contributors) const {
    const std::uint64_t digest = mix(bits_of(values[0])) ^ contributors;
    const std::size_t absent = rank_count() - contributors;
    if (absent > 2) return {"", digest};
    for (int one = 0; one < world_.rank_count; ++one) {
      for (int two = absent == 1 ? one : one + 1; two < (absent == 1 ? one + 1 : world_.rank_count); ++two) {
        if (one == world_.rank || two == world_.rank) continue;
        std::vector<std::int32_t> missing{one};
        if (absent == 2) missing.push_back(two);
        const auto expected = [&](std::size_t position) { return payload_.combined(operation, position, missing); };
        if (values[0] == expected(0) && first_difference_of_all(values, expected).empty()) return {"", digest};
      }
    }
    return {fmt::format("no set of {} ranks gives this result; element 0 is {}", contributors, shown(values[0])),
            digest};
  }

  std::string complaint_about(const std::vector<std::int32_t>& missing, const Result& result) const {
    const std::string decoded = fmt::format("ranks [{}] are missing in the result", fmt::join(missing, ","));
    if (result.contributors + missing.size() != rank_count()) {
      return fmt::format("{}, but {} contributors are reported", decoded, result.contributors);
    }
    if (result.missing_known && result.missing != missing) {
      return fmt::format("{}, but [{}] are reported", decoded, fmt::join(result.missing, ","));
    }
    if (std::binary_search(missing.begin(), missing.end(), world_.rank)) {
      return fmt::format("{}, but this rank is alive", decoded);
    }
    if (!std::includes(missing.begin(), missing.end(), last_missing_.begin(), last_missing_.end())) {
      return fmt::format("{}, but [{}] were missing before", decoded, fmt::join(last_missing_, ","));
    }
    return "";
  }

  static std::uint64_t digest_of(const std::vector<std::int32_t>& missing) {
    std::uint64_t digest = missing.size();
    for (const std::int32_t rank : missing) digest = mix(digest ^ static_cast<std::uint64_t>(rank));
    return digest;
  }

  // expected(position): the right value; it repeats with the period.
  template <class Expected>
  static std::string first_difference(std::span<const T> values, bool thorough, Expected expected) {
    constexpr std::size_t few = 1024;
    constexpr std::size_t stride = 509;
    if (values.empty()) return "";
    if (values.size() <= few || thorough) return first_difference_of_all(values, expected);
    for (std::size_t i = 0; i < values.size(); i += stride) {
      if (values[i] != expected(i % period_elements)) return difference(i, values[i], expected(i % period_elements));
    }
    const std::size_t last = values.size() - 1;
    const T right = expected(last % period_elements);
    return values[last] == right ? "" : difference(last, values[last], right);
  }

  template <class Expected>
  static std::string first_difference_of_all(std::span<const T> values, Expected expected) {
    std::vector<T> pattern(std::min(values.size(), period_elements));
    for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = expected(i);
    for (std::size_t begin = 0; begin < values.size(); begin += pattern.size()) {
      const std::size_t length = std::min(pattern.size(), values.size() - begin);
      for (std::size_t i = 0; i < length; ++i) {
        if (values[begin + i] != pattern[i]) return difference(begin + i, values[begin + i], pattern[i]);
      }
    }
    return "";
  }

  static std::uint64_t bits_of(T value) {
    std::uint64_t words[2] = {};
    std::memcpy(words, &value, sizeof value);
    return mix(words[0]) ^ words[1];
  }

  static std::string difference(std::size_t at, T value, T expected) {
    return fmt::format("element {} is {}, not {}", at, shown(value), shown(expected));
  }

  Payload<T> payload_;
  World world_;
  std::vector<std::int32_t> last_missing_;
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
    case UCFT_UINT64: break;
  }
  return action(std::uint64_t{});
}

// The user operator of the tests: a sum. Not of bool and pairs, which have none, nor of halves, where it would be rounded each
// time.
template <Element T>
void add_elements(const T* in, T* inout, std::uint64_t count) {
  if constexpr (Integer<T> || std::floating_point<T> || is_complex<T>)
    for (std::uint64_t i = 0; i < count; ++i)
      inout[i] = static_cast<T>(static_cast<Arithmetic<T>>(in[i]) + static_cast<Arithmetic<T>>(inout[i]));
}

}  // namespace ucft::detail::bench

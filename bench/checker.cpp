#include "bench/checker.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace ucft::detail::bench {

namespace {

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

template <class T>
std::string difference(std::size_t at, T value, T expected) {
  return fmt::format("element {} is {}, not {}", at, shown(value), shown(expected));
}

template <class T, class Expected>
std::string first_difference_of_all(std::span<const T> values, Expected expected) {
  std::vector<T> pattern(std::min(values.size(), period_elements));
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = expected(i);
  for (std::size_t begin = 0; begin < values.size(); begin += pattern.size()) {
    const std::size_t length = std::min(pattern.size(), values.size() - begin);
    for (std::size_t i = 0; i < length; ++i) {
      if (values[begin + i] != pattern[i]) return difference<T>(begin + i, values[begin + i], pattern[i]);
    }
  }
  return "";
}

// expected(position): the right value; it repeats with the period.
template <class T, class Expected>
std::string first_difference(std::span<const T> values, bool thorough, Expected expected) {
  constexpr std::size_t few = 1024;
  constexpr std::size_t stride = 509;
  if (values.empty()) return "";
  if (values.size() <= few || thorough) return first_difference_of_all(values, expected);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    if (values[i] != expected(i % period_elements)) return difference<T>(i, values[i], expected(i % period_elements));
  }
  const std::size_t last = values.size() - 1;
  const T right = expected(last % period_elements);
  return values[last] == right ? "" : difference<T>(last, values[last], right);
}

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t words[2] = {};
  std::memcpy(words, &value, sizeof value);
  return mix(words[0]) ^ words[1];
}

// The shares or blocks of all ranks in a buffer, in their order. counts: of their elements; empty: they are alike.
template <class Value>
std::vector<std::span<Value>> parts_of(std::span<Value> values, const std::vector<std::uint64_t>& counts,
                                       std::size_t ranks) {
  std::vector<std::span<Value>> parts;
  const std::size_t alike = values.size() / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t count = counts.empty() ? alike : counts[rank];
    parts.push_back(values.first(count));
    values = values.subspan(count);
  }
  return parts;
}

std::uint64_t digest_of(const std::vector<std::int32_t>& missing) {
  std::uint64_t digest = missing.size();
  for (const std::int32_t rank : missing) digest = mix(digest ^ static_cast<std::uint64_t>(rank));
  return digest;
}

}  // namespace

template <Element T>
void Checker<T>::fill(std::span<T> values, int rank, std::uint64_t operation) const {
  const std::size_t fresh = std::min(values.size(), period_elements);
  for (std::size_t i = 0; i < fresh; ++i) values[i] = payload_.contribution(rank, operation, i);
  for (std::size_t done = fresh; done < values.size(); done += std::min(fresh, values.size() - done)) {
    std::memcpy(&values[done], &values[0], std::min(fresh, values.size() - done) * sizeof(T));
  }
}

template <Element T>
Verdict Checker<T>::check_combined(std::span<const T> values, std::uint64_t operation, const Result& result) {
  return check_sum(values, operation, operation, result);
}

template <Element T>
Verdict Checker<T>::check_sum(std::span<const T> values, std::uint64_t filled, std::uint64_t operation,
                              const Result& result) {
  const bool tells_who = payload_.has_digits() && !values.empty();
  if (!tells_who && !result.missing_known && result.contributors != rank_count()) {
    return check_unreported(values, filled, result.contributors);
  }
  const auto missing = tells_who ? payload_.missing_in(values[0], filled) : result.missing;
  if (!missing) return {fmt::format("element 0 is {}: not each rank once or not at all", shown(values[0])), 0};
  Verdict verdict{complaint_about(*missing, result, rank_count()), digest_of(*missing)};
  const bool thorough = result.attempts > 1 || *missing != last_missing_ || operation % 16 == 0;
  last_missing_ = *missing;
  if (verdict.complaint.empty()) {
    verdict.complaint = first_difference(
        values, thorough, [&](std::size_t position) { return payload_.combined(filled, position, *missing); });
  }
  return verdict;
}

template <Element T>
void Checker<T>::fill_shares(std::span<T> values, std::uint64_t operation) const {
  const std::vector<std::span<T>> shares = parts_of(values, counts_.given, rank_count());
  for (int rank = 0; rank < world_.rank_count; ++rank)
    fill(shares[static_cast<std::size_t>(rank)], world_.rank, operation_of_share(operation, rank));
}

// Where nobody says who is missing, the digest is of the number alone: shares differ.
template <Element T>
Verdict Checker<T>::check_share(std::span<const T> values, std::uint64_t operation, const Result& result) {
  Verdict verdict = check_sum(values, operation_of_share(operation, world_.rank), operation, result);
  if (!payload_.has_digits() && !result.missing_known) verdict.digest = mix(operation) ^ result.contributors;
  return verdict;
}

template <Element T>
Verdict Checker<T>::check_share_of(std::span<const T> values, std::uint64_t operation, int root) const {
  Verdict verdict = check_copy(values, operation_of_share(operation, world_.rank), root);
  verdict.digest = mix(operation) ^ static_cast<std::uint64_t>(root);
  return verdict;
}

template <Element T>
std::string Checker<T>::check_untouched(std::span<const T> values, std::uint64_t operation) const {
  return first_difference(values, operation % 16 == 0, [](std::size_t) { return untouched(); });
}

template <Element T>
Verdict Checker<T>::check_shares_of_all(std::span<const T> values, std::uint64_t operation, const Result& result) {
  return check_blocks(values, operation_of_share(operation, world_.rank), operation, result);
}

template <Element T>
Verdict Checker<T>::check_prefix(std::span<const T> values, std::uint64_t operation, const Result& result,
                                 bool with_own) {
  if (!result.missing_known) return {"it is not known who is missing", 0};
  const std::size_t ranks = static_cast<std::size_t>(world_.rank) + with_own;
  Verdict verdict{complaint_about(result.missing, result, ranks), mix(operation)};
  const bool thorough = result.missing != last_missing_ || operation % 16 == 0;
  last_missing_ = result.missing;
  std::vector<std::int32_t> absent;
  for (int rank = 0; rank < world_.rank_count; ++rank)
    if (static_cast<std::size_t>(rank) >= ranks ||
        std::binary_search(result.missing.begin(), result.missing.end(), rank))
      absent.push_back(rank);
  if (!verdict.complaint.empty()) return verdict;
  const bool any = absent.size() < rank_count();
  verdict.complaint = first_difference(values, thorough, [&](std::size_t position) {
    return any ? payload_.combined(operation, position, absent) : untouched();
  });
  return verdict;
}

template <Element T>
Verdict Checker<T>::check_copy(std::span<const T> values, std::uint64_t operation, int rank) const {
  return {first_difference(values, operation % 16 == 0,
                           [&](std::size_t position) { return payload_.contribution(rank, operation, position); }),
          mix(operation) ^ static_cast<std::uint64_t>(rank)};
}

template <Element T>
T Checker<T>::untouched() {
  if constexpr (is_pair<T>)
    return {85, 85};
  else if constexpr (is_complex<T>)
    return {85, 85};
  else
    return static_cast<T>(85.0f);
}

template <Element T>
void Checker<T>::clear(std::span<T> values) {
  std::fill(values.begin(), values.end(), untouched());
}

template <Element T>
Verdict Checker<T>::check_blocks(std::span<const T> values, std::uint64_t operation, const Result& result) {
  return check_blocks(values, operation, operation, result);
}

template <Element T>
Verdict Checker<T>::check_blocks(std::span<const T> values, std::uint64_t filled, std::uint64_t operation,
                                 const Result& result) {
  if (!result.missing_known) return {"it is not known who is missing", 0};
  const std::vector<std::span<const T>> blocks = parts_of(values, counts_.wanted, rank_count());
  Verdict verdict{complaint_about(result.missing, result, rank_count()), digest_of(result.missing)};
  last_missing_ = result.missing;
  for (int rank = 0; rank < world_.rank_count && verdict.complaint.empty(); ++rank) {
    const std::span<const T> block = blocks[static_cast<std::size_t>(rank)];
    const bool missing = std::binary_search(result.missing.begin(), result.missing.end(), rank);
    const std::string wrong = missing ? check_untouched(block.subspan(part_there(block, rank, filled)), operation)
                                      : first_difference(block, operation % 16 == 0, [&](std::size_t position) {
                                          return payload_.contribution(rank, filled, position);
                                        });
    if (!wrong.empty())
      verdict.complaint = fmt::format("block of {}rank {}: {}", missing ? "missing " : "", rank, wrong);
  }
  return verdict;
}

template <Element T>
std::size_t Checker<T>::part_there(std::span<const T> share, int rank, std::uint64_t filled) const {
  if (!has_rounds_ || share.empty()) return 0;
  std::size_t there = 0;
  while (there < share.size() - 1 && share[there] == payload_.contribution(rank, filled, there % period_elements))
    ++there;
  return there;
}

template <Element T>
Verdict Checker<T>::check_unreported(std::span<const T> values, std::uint64_t operation,
                                     std::uint32_t contributors) const {
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
  return {fmt::format("no set of {} ranks gives this result; element 0 is {}", contributors, shown(values[0])), digest};
}

template <Element T>
std::string Checker<T>::complaint_about(const std::vector<std::int32_t>& missing, const Result& result,
                                        std::size_t ranks) const {
  const std::string decoded = fmt::format("ranks [{}] are missing in the result", fmt::join(missing, ","));
  if (result.contributors + missing.size() != ranks) {
    return fmt::format("{}, but {} contributors are reported", decoded, result.contributors);
  }
  std::vector<std::int32_t> reported = result.missing;
  reported.insert(reported.end(), result.late.begin(), result.late.end());
  std::ranges::sort(reported);
  if (result.missing_known && reported != missing) {
    return fmt::format("{}, but [{}] are reported", decoded, fmt::join(reported, ","));
  }
  if (result.is_late != std::binary_search(result.late.begin(), result.late.end(), world_.rank))
    return fmt::format("{}, but this rank is {}", decoded, result.is_late ? "late" : "not late");
  if (!result.is_late && std::binary_search(missing.begin(), missing.end(), world_.rank)) {
    return fmt::format("{}, but this rank is alive", decoded);
  }
  if (!may_be_late_ && !std::includes(missing.begin(), missing.end(), last_missing_.begin(), last_missing_.end())) {
    return fmt::format("{}, but [{}] were missing before", decoded, fmt::join(last_missing_, ","));
  }
  return "";
}

template class Checker<float>;
template class Checker<double>;
template class Checker<std::int8_t>;
template class Checker<std::int16_t>;
template class Checker<std::int32_t>;
template class Checker<std::int64_t>;
template class Checker<std::uint8_t>;
template class Checker<std::uint16_t>;
template class Checker<std::uint32_t>;
template class Checker<std::uint64_t>;
template class Checker<float16>;
template class Checker<bfloat16>;
template class Checker<std::complex<float>>;
template class Checker<std::complex<double>>;
template class Checker<bool>;
template class Checker<located<float, std::int32_t>>;
template class Checker<located<double, std::int32_t>>;
template class Checker<located<std::int32_t, std::int32_t>>;
template class Checker<located<std::int64_t, std::int64_t>>;
template class Checker<located<double, std::int64_t>>;

}  // namespace ucft::detail::bench

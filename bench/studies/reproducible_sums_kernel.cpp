// The errors of reproducible sums: single sweep (accumulators that adapt to what they meet) against double sweep (the
// largest magnitude first, then sums below it), and against a plain sum. Docs: algorithms.md, "Reproducible sums".
//
//   reproducible_sums_kernel DATA LOG2_TERMS SEED       DATA: uniform, signed, wide, hidden
//
// The library's sweeps, single and double, cut at places that are fixed, so up to width - 1 bits of the highest bin are
// empty. Both must agree in all bits, too. The textbook's double sweep cuts K bins below the largest exponent, so its
// highest bin is full. Each sum is made twice, from two orders of the terms: reproducible ones must agree in all bits,
// or this ends with exit code 1. The reference has 7 bins, 252 bits, which lose nothing of these data. A line of JSON:
// errors, relative to the reference and to the sum of magnitudes.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/core/random.hpp"
#include "collectives/reduction/chosen_bins.hpp"
#include "collectives/reduction/two_sweeps.hpp"

using namespace ucft::detail;

namespace {

using Numbers = std::vector<double>;

Numbers drawn(const std::string& data, std::size_t terms, std::uint64_t seed) {
  Random random(seed);
  Numbers numbers(terms);
  for (std::size_t i = 0; i < terms; ++i) {
    const double uniform = random.fraction(), sign = random.below(2) == 0 ? 1 : -1;
    if (data == "uniform") numbers[i] = uniform;
    if (data == "signed") numbers[i] = sign * uniform;
    if (data == "wide") numbers[i] = sign * std::ldexp(uniform, static_cast<int>(random.below(80)));
    if (data == "hidden")  // L, -L, and two small ones, of which alone the sum is
      numbers[i] = i % 4 == 1 ? -numbers[i - 1] : i % 4 == 0 ? std::ldexp(0.5 + uniform / 2, 80) : uniform;
  }
  return numbers;
}

template <int kept>
double single_sweep(const Numbers& numbers) {
  if constexpr (kept == Binned<double>::kept) {
    Binned<double> all = binned(numbers[0]);
    for (std::size_t i = 1; i < numbers.size(); ++i) all = merged(all, binned(numbers[i]));
    return sum_of(all);
  } else {
    ChosenBins<double, kept> all = with_bins<double, kept>(numbers[0]);
    for (std::size_t i = 1; i < numbers.size(); ++i) all = merged(all, with_bins<double, kept>(numbers[i]));
    return sum_of(all);
  }
}

// The library's, as it is between hosts: all heights are known before the first digit is added.
double double_sweep_of_library(const Numbers& numbers) {
  const Reduction reduction{DataType::float64, Operator::sum_reproducible};
  const auto* const elements = reinterpret_cast<const std::byte*>(numbers.data());
  std::vector<std::uint64_t> heights(numbers.size());
  note_heights(reduction.type(), reinterpret_cast<std::byte*>(heights.data()), elements, numbers.size());
  std::uint64_t height = 0;
  for (const std::uint64_t its : heights) height |= its;
  std::fill(heights.begin(), heights.end(), height);
  const auto each = static_cast<std::size_t>(digits_each(reduction));
  std::vector<std::int64_t> digits(numbers.size() * each), sums(each);
  deposit(reduction, digits.data(), elements, reinterpret_cast<const std::byte*>(heights.data()), numbers.size());
  for (std::size_t i = 0; i < digits.size(); ++i) sums[i % each] += digits[i];
  double sum = 0;
  round_digits(reduction, reinterpret_cast<std::byte*>(&sum), sums.data(),
               reinterpret_cast<const std::byte*>(heights.data()), 1, 1);
  return sum;
}

// The textbook's. First sweep: the largest exponent. Second: integers in units of the last bit that is kept, bins *
// width below it.
double double_sweep(const Numbers& numbers, int bins) {
  constexpr int width = Binned<double>::width;
  double largest = 0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  if (largest == 0) return 0;
  const int unit = std::ilogb(largest) + 1 - bins * width;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(bins));
  for (const double number : numbers) {
    double rest = number;
    for (int i = 0; i < bins; ++i) {  // each digit and each rest is exact
      const int place = unit + (bins - 1 - i) * width;
      const double digit = std::trunc(std::ldexp(rest, -place));
      sums[static_cast<std::size_t>(i)] += static_cast<std::int64_t>(digit);
      rest -= std::ldexp(digit, place);
    }
  }
  // Rounded once, by an accumulator of 7 bins that holds all of it.
  ChosenBins<double, most_bins> all = with_bins<double, most_bins>(0.0);
  for (int i = 0; i < bins; ++i)
    for (const int half : {32, 0}) {
      const std::int64_t sum = sums[static_cast<std::size_t>(i)];
      const auto part = static_cast<double>(half == 32 ? sum >> 32 : sum & 0xffffffff);
      all = merged(all, with_bins<double, most_bins>(std::ldexp(part, unit + (bins - 1 - i) * width + half)));
    }
  return sum_of(all);
}

double plain(const Numbers& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum;
}

struct Way {
  const char* name;
  double (*sum)(const Numbers& numbers);
  bool is_reproducible;
};
constexpr Way ways[] = {{"plain", plain, false},
                        {"single_3", single_sweep<3>, true},
                        {"single_4", single_sweep<4>, true},
                        {"double", double_sweep_of_library, true},
                        {"double_2", [](const Numbers& numbers) { return double_sweep(numbers, 2); }, true},
                        {"double_3", [](const Numbers& numbers) { return double_sweep(numbers, 3); }, true}};

}  // namespace

int main(int count, char** words) {
  std::string data;
  int log2_terms = 0;
  std::uint64_t seed = 1;
  CLI::App app{"Errors of plain and of reproducible sums, single and double sweep."};
  app.add_option("DATA", data)->required()->check(CLI::IsMember({"uniform", "signed", "wide", "hidden"}));
  app.add_option("LOG2_TERMS", log2_terms)->required()->check(CLI::Range(1, 26));
  app.add_option("SEED", seed)->required();
  CLI11_PARSE(app, count, words);

  const Numbers numbers = drawn(data, std::size_t{1} << log2_terms, seed);
  Numbers otherwise(numbers.rbegin(), numbers.rend());
  std::rotate(otherwise.begin(), otherwise.begin() + static_cast<std::ptrdiff_t>(otherwise.size() / 3),
              otherwise.end());
  const double exact = single_sweep<most_bins>(numbers);
  double magnitudes = 0;
  for (const double number : numbers) magnitudes += std::abs(number);
  if (std::bit_cast<std::uint64_t>(single_sweep<3>(numbers)) !=
      std::bit_cast<std::uint64_t>(double_sweep_of_library(numbers))) {
    fmt::print(stderr, "reproducible_sums_kernel: one sweep and two have different bits\n");
    return 1;
  }
  std::string line = fmt::format("{{\"condition\": {:.6e}", magnitudes / std::abs(exact));
  for (const Way& way : ways) {
    const double one = way.sum(numbers), two = way.sum(otherwise);
    if (way.is_reproducible && std::bit_cast<std::uint64_t>(one) != std::bit_cast<std::uint64_t>(two)) {
      fmt::print(stderr, "reproducible_sums_kernel: {} of {}: {:a} in one order and {:a} in another\n", way.name, data,
                 one, two);
      return 1;
    }
    line += fmt::format(", \"{}\": {:.6e}, \"{}_orders\": {:.6e}", way.name, std::abs(one - exact) / std::abs(exact),
                        way.name, std::abs(one - two) / std::abs(exact));
  }
  fmt::print("{}}}\n", line);
}

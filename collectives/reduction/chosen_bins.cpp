#include "collectives/reduction/chosen_bins.hpp"

#include <type_traits>
#include <utility>

#include "collectives/reduction/kernels.hpp"

namespace ucft::detail {
namespace {

// Calls function with an accumulator of the type and the number of bins.
template <class Real, class Function, int... less>
void with_number(int bins, const Function& function, std::integer_sequence<int, less...>) {
  (void)((bins == fewest_bins + less && (function(ChosenBins<Real, fewest_bins + less>{}, Real{}), true)) || ...);
}
template <class Function>
void with_type(DataType type, int bins, const Function& function) {
  constexpr std::make_integer_sequence<int, most_bins - fewest_bins + 1> numbers{};
  if (type == DataType::float32) return with_number<float>(bins, function, numbers);
  with_number<double>(bins, function, numbers);
}

}  // namespace

void combine_with_bins(DataType type, int bins, std::byte* destination, const std::byte* lower, const std::byte* higher,
                       std::uint64_t count) {
  with_type(type, bins, [&](auto accumulator, auto) {
    using Bins = decltype(accumulator);
    for (std::uint64_t i = 0; i < count; ++i)
      put(destination, i, merged(element_at<Bins>(lower, i), element_at<Bins>(higher, i)));
  });
}

void widen_with_bins(DataType type, int bins, std::byte* carriers, const std::byte* elements, std::uint64_t count) {
  with_type(type, bins, [&]<class Real, int kept>(ChosenBins<Real, kept>, Real) {
    for (std::uint64_t i = 0; i < count; ++i) put(carriers, i, with_bins<Real, kept>(element_at<Real>(elements, i)));
  });
}

void finish_with_bins(DataType type, int bins, std::byte* elements, const std::byte* carriers, std::uint64_t count,
                      std::uint32_t divisor) {
  with_type(type, bins, [&](auto accumulator, auto real) {
    using Real = decltype(real);
    for (std::uint64_t i = 0; i < count; ++i)
      put(elements, i, sum_of(element_at<decltype(accumulator)>(carriers, i)) / static_cast<Real>(divisor));
  });
}

}  // namespace ucft::detail

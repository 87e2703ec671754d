// The data from which two operations make a reproducible sum (collectives/reduction/two_sweeps.hpp): heights, then
// digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/reduction/two_sweeps.hpp"
#include "ucx_layer/runtime/default_rounding.hpp"
#include "ucx_layer/runtime/request.hpp"

namespace ucft::detail {

class SweptSum {
 public:
  explicit SweptSum(const Request& request)
      : request_(request),
        heights_(count() * element_bytes(heights_type())),
        digits_(count() * static_cast<std::uint64_t>(digits_each(reduction()))) {}

  std::uint64_t count() const { return request_.arguments.count; }
  DataType heights_type() const { return heights_of(reduction().type()); }
  std::byte* heights() { return heights_.data(); }         // count() of them, for a bitwise or
  std::vector<std::int64_t>& digits() { return digits_; }  // for a sum

  // Of this rank's numbers; the digits once the heights are those of all.
  void note() { note_heights(reduction().type(), heights_.data(), elements(), count()); }
  void deposit() { detail::deposit(reduction(), digits_.data(), elements(), heights_.data(), count()); }
  // Into the caller's memory, once the digits are those of all.
  void round(std::uint32_t contributors) const {
    [[maybe_unused]] const DefaultRounding rounding;
    round_digits(reduction(), static_cast<std::byte*>(request_.receive), digits_.data(), heights_.data(), count(),
                 is_average(reduction().op()) ? contributors : 1);
  }

 private:
  const Reduction& reduction() const { return request_.arguments.reduction; }
  const std::byte* elements() const { return static_cast<const std::byte*>(request_.send); }

  const Request& request_;
  std::vector<std::byte> heights_;
  std::vector<std::int64_t> digits_;
};

}  // namespace ucft::detail

// The functions that collectives share whose messages all carry values of one length, arguments.bytes().
#pragma once

#include <span>

#include "collectives/core/buffers.hpp"
#include "collectives/catalogue/arguments.hpp"

namespace ucft::detail {

struct SameLengths {
  static bool accepts(const Arguments& arguments, std::uint64_t bytes) { return bytes == arguments.bytes(); }
  static std::uint64_t input_bytes(const Arguments& arguments) { return arguments.bytes(); }
  static std::uint64_t result_bytes(const Arguments& arguments, std::int32_t) { return arguments.bytes(); }
};

// Contributions are added element by element. False: there is no memory for the sum.
struct Elementwise : SameLengths {
  static bool add(const Arguments& arguments, Slice& sum, bool& fresh, const Slice& part, std::int32_t,
                  Buffers& buffers) {
    if (arguments.count == 0) return true;
    const Slice to = fresh ? sum : Slice{buffers.allocate(sum.bytes), 0, sum.bytes};
    if (!to) return false;
    buffers.combine(arguments.reduction, to, sum, part);
    sum = to;
    fresh = true;
    return true;
  }
};

}  // namespace ucft::detail

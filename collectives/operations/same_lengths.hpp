// What collectives have in common whose messages all carry values of one length, arguments.bytes().
#pragma once

#include <cstring>
#include <span>

#include "collectives/buffers.hpp"
#include "collectives/operations/arguments.hpp"

namespace ucft::detail {

struct SameLengths {
  static bool accepts(const Arguments& arguments, std::uint64_t bytes) { return bytes == arguments.bytes(); }
  static std::uint64_t input_bytes(const Arguments& arguments) { return arguments.bytes(); }
  static std::uint64_t result_bytes(const Arguments& arguments, std::int32_t) { return arguments.bytes(); }
};

// Contributions are added element by element. False: there is no memory for the sum.
struct Elementwise : SameLengths {
  static bool add(const Arguments& arguments, Slice& sum, bool& fresh, Slice part, std::int32_t, Buffers& buffers) {
    if (arguments.count == 0) return true;
    const Slice target = fresh ? sum : Slice{buffers.allocate(arguments.bytes()), 0, arguments.bytes()};
    if (!target) return false;
    combine(arguments.reduction, buffers.data(target), buffers.data(sum), buffers.data(part), arguments.count);
    sum = target;
    fresh = true;
    return true;
  }
};

}  // namespace ucft::detail

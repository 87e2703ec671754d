// The functions that collectives share whose messages all carry values of one length, arguments.bytes().
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
  static bool add(const Arguments& arguments, Slice& sum, bool& fresh, const Slice& part, std::int32_t,
                  Buffers& buffers) {
    if (arguments.count == 0) return true;
    const BufferId target = fresh ? sum.buffer : buffers.allocate(sum.bytes);
    if (target == no_buffer) return false;
    std::byte* const to = fresh ? buffers.data(sum) : buffers.data(target);
    combine(arguments.reduction, to, buffers.data(sum), buffers.data(part), arguments.count);
    if (!fresh) sum = {target, 0, sum.bytes};
    fresh = true;
    return true;
  }
};

}  // namespace ucft::detail

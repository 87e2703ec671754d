#include "simulator/judge/combine.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace ucft::judge {
namespace {

// Integers wrap around.
template <class T>
T arithmetic(T a, T b, ucft_op_t op) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  switch (op) {
    case UCFT_PROD: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case UCFT_MIN: return std::min(a, b);
    case UCFT_MAX: return std::max(a, b);
    default: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <class T>
T with_bits(T a, T b, ucft_op_t op) {
  switch (op) {
    case UCFT_LAND: return static_cast<T>(a != 0 && b != 0);
    case UCFT_LOR: return static_cast<T>(a != 0 || b != 0);
    case UCFT_LXOR: return static_cast<T>((a != 0) != (b != 0));
    case UCFT_BAND: return static_cast<T>(a & b);
    case UCFT_BOR: return static_cast<T>(a | b);
    case UCFT_BXOR: return static_cast<T>(a ^ b);
    default: return arithmetic(a, b, op);
  }
}

bool is_logical(ucft_op_t op) { return op == UCFT_LAND || op == UCFT_LOR || op == UCFT_LXOR; }

template <class T>
std::vector<std::uint8_t> combined(const std::vector<const std::vector<std::uint8_t>*>& contributions, ucft_op_t op) {
  std::vector<std::uint8_t> result(contributions.front()->size());
  for (std::size_t place = 0; place < result.size(); place += sizeof(T)) {
    const auto value_of = [&](std::size_t contributor) {
      T value;
      std::memcpy(&value, contributions[contributor]->data() + place, sizeof value);
      return value;
    };
    T all = value_of(0);
    if constexpr (!std::is_floating_point_v<T>)
      if (is_logical(op)) all = static_cast<T>(all != 0);
    for (std::size_t i = 1; i < contributions.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>)
        all = arithmetic(all, value_of(i), op);
      else
        all = with_bits(all, value_of(i), op);
    }
    if constexpr (std::is_floating_point_v<T>)
      if (op == UCFT_AVG || op == UCFT_AVG_REPRODUCIBLE) all /= static_cast<T>(contributions.size());
    std::memcpy(result.data() + place, &all, sizeof all);
  }
  return result;
}

}  // namespace

bool can_combine(ucft_dtype_t dtype, ucft_op_t op) {
  switch (dtype) {
    case UCFT_FLOAT:
    case UCFT_DOUBLE:
      return op == UCFT_SUM || op == UCFT_PROD || op == UCFT_MIN || op == UCFT_MAX || op == UCFT_AVG ||
             op == UCFT_SUM_REPRODUCIBLE || op == UCFT_AVG_REPRODUCIBLE;
    case UCFT_INT8:
    case UCFT_UINT8:
    case UCFT_INT16:
    case UCFT_UINT16:
    case UCFT_INT32:
    case UCFT_UINT32:
    case UCFT_INT64:
    case UCFT_UINT64:
      return op == UCFT_SUM || op == UCFT_PROD || op == UCFT_MIN || op == UCFT_MAX ||
             (op >= UCFT_LAND && op <= UCFT_BXOR);
    default: return false;
  }
}

std::vector<std::uint8_t> combine(const std::vector<const std::vector<std::uint8_t>*>& contributions,
                                  ucft_dtype_t dtype, ucft_op_t op) {
  switch (dtype) {
    case UCFT_FLOAT: return combined<float>(contributions, op);
    case UCFT_DOUBLE: return combined<double>(contributions, op);
    case UCFT_INT8: return combined<std::int8_t>(contributions, op);
    case UCFT_UINT8: return combined<std::uint8_t>(contributions, op);
    case UCFT_INT16: return combined<std::int16_t>(contributions, op);
    case UCFT_UINT16: return combined<std::uint16_t>(contributions, op);
    case UCFT_INT32: return combined<std::int32_t>(contributions, op);
    case UCFT_UINT32: return combined<std::uint32_t>(contributions, op);
    case UCFT_INT64: return combined<std::int64_t>(contributions, op);
    case UCFT_UINT64: return combined<std::uint64_t>(contributions, op);
    default: assert(false && "can_combine() says no"); return {};
  }
}

}  // namespace ucft::judge

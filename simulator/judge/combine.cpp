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

template <class T>
struct Located {
  T value, location;
};

// Of equal values the lowest location.
template <class T>
Located<T> located(Located<T> a, Located<T> b, ucft_op_t op) {
  if (a.value == b.value) return a.location <= b.location ? a : b;
  return (a.value < b.value) == (op == UCFT_MINLOC) ? a : b;
}

bool is_logical(ucft_op_t op) { return op == UCFT_LAND || op == UCFT_LOR || op == UCFT_LXOR; }

using Contributions = std::vector<const std::vector<std::uint8_t>*>;

// first: of one contribution; both: of what was combined before and one more; last: of all.
template <class T, class First, class Both, class Last>
std::vector<std::uint8_t> combined(const Contributions& contributions, First first, Both both, Last last) {
  std::vector<std::uint8_t> result(contributions.front()->size());
  for (std::size_t place = 0; place < result.size(); place += sizeof(T)) {
    const auto value_of = [&](const std::vector<std::uint8_t>* contribution) {
      T value;
      std::memcpy(&value, contribution->data() + place, sizeof value);
      return value;
    };
    T all = first(value_of(contributions.front()));
    for (std::size_t i = 1; i < contributions.size(); ++i) all = both(all, value_of(contributions[i]));
    all = last(all);
    std::memcpy(result.data() + place, &all, sizeof all);
  }
  return result;
}

template <class T>
std::vector<std::uint8_t> of_reals(const Contributions& contributions, ucft_op_t op) {
  const bool averages = op == UCFT_AVG || op == UCFT_AVG_REPRODUCIBLE;
  return combined<T>(
      contributions, [](T one) { return one; }, [op](T all, T one) { return arithmetic(all, one, op); },
      [&](T all) { return averages ? all / static_cast<T>(contributions.size()) : all; });
}

template <class T>
std::vector<std::uint8_t> of_integers(const Contributions& contributions, ucft_op_t op) {
  return combined<T>(
      contributions, [op](T one) { return is_logical(op) ? static_cast<T>(one != 0) : one; },
      [op](T all, T one) { return with_bits(all, one, op); }, [](T all) { return all; });
}

template <class T>
std::vector<std::uint8_t> of_pairs(const Contributions& contributions, ucft_op_t op) {
  return combined<Located<T>>(
      contributions, [](Located<T> one) { return one; },
      [op](Located<T> all, Located<T> one) { return located(all, one, op); }, [](Located<T> all) { return all; });
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
    case UCFT_BOOL: return op >= UCFT_LAND && op <= UCFT_BXOR;
    case UCFT_COMPLEX_FLOAT:
    case UCFT_COMPLEX_DOUBLE: return op == UCFT_SUM;
    case UCFT_INT32_INT32:
    case UCFT_INT64_INT64: return op == UCFT_MINLOC || op == UCFT_MAXLOC;
    default: return false;
  }
}

std::vector<std::uint8_t> combine(const std::vector<const std::vector<std::uint8_t>*>& contributions,
                                  ucft_dtype_t dtype, ucft_op_t op) {
  switch (dtype) {
    case UCFT_COMPLEX_FLOAT:  // a sum of two floats each
    case UCFT_FLOAT: return of_reals<float>(contributions, op);
    case UCFT_COMPLEX_DOUBLE:
    case UCFT_DOUBLE: return of_reals<double>(contributions, op);
    case UCFT_INT8: return of_integers<std::int8_t>(contributions, op);
    case UCFT_BOOL:  // 0 and 1
    case UCFT_UINT8: return of_integers<std::uint8_t>(contributions, op);
    case UCFT_INT16: return of_integers<std::int16_t>(contributions, op);
    case UCFT_UINT16: return of_integers<std::uint16_t>(contributions, op);
    case UCFT_INT32: return of_integers<std::int32_t>(contributions, op);
    case UCFT_UINT32: return of_integers<std::uint32_t>(contributions, op);
    case UCFT_INT64: return of_integers<std::int64_t>(contributions, op);
    case UCFT_UINT64: return of_integers<std::uint64_t>(contributions, op);
    case UCFT_INT32_INT32: return of_pairs<std::int32_t>(contributions, op);
    case UCFT_INT64_INT64: return of_pairs<std::int64_t>(contributions, op);
    default: assert(false && "can_combine() says no"); return {};
  }
}

}  // namespace ucft::judge

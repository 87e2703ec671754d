// The types of elements, the operators on them, and which operator takes which type. From this one table the kernels,
// the check of a call's arguments, its sentence and the tests' list are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace ucft::detail {

// The values of ucft_dtype_t. The last five: a value and its location, in the layout of a C structure.
enum class DataType : std::uint8_t {
  float32 = 0,
  float64 = 1,
  int32 = 2,
  int64 = 3,
  uint64 = 4,
  int8 = 5,
  uint8 = 6,
  int16 = 7,
  uint16 = 8,
  uint32 = 9,
  float16 = 10,
  bfloat16 = 11,
  complex_float = 12,
  complex_double = 13,
  boolean = 14,
  float_int32 = 15,
  double_int32 = 16,
  int32_int32 = 17,
  int64_int64 = 18,
  double_int64 = 19
};

// The values of ucft_op_t; and none, of collectives that reduce nothing.
enum class Operator : std::uint8_t {
  sum = 0,
  prod = 1,
  min = 2,
  max = 3,
  user = 4,
  minloc = 5,
  maxloc = 6,
  logical_and = 7,
  logical_or = 8,
  logical_xor = 9,
  bitwise_and = 10,
  bitwise_or = 11,
  bitwise_xor = 12,
  average = 13,
  sum_reproducible = 14,
  average_reproducible = 15,
  none = 16
};

// Classes of types, as bits of a set.
using TypeClasses = std::uint8_t;
inline constexpr TypeClasses integers = 1, reals = 2, halves = 4, complexes = 8, booleans = 16, pairs = 32;
inline constexpr TypeClasses all_classes = integers | reals | halves | complexes | booleans | pairs;

struct TypeRow {
  const char *name, *constant;
  std::uint8_t bytes, alignment;
  TypeClasses its_class;
};
inline constexpr TypeRow type_rows[] = {{"float", "UCFT_FLOAT", 4, 4, reals},
                                        {"double", "UCFT_DOUBLE", 8, 8, reals},
                                        {"int32", "UCFT_INT32", 4, 4, integers},
                                        {"int64", "UCFT_INT64", 8, 8, integers},
                                        {"uint64", "UCFT_UINT64", 8, 8, integers},
                                        {"int8", "UCFT_INT8", 1, 1, integers},
                                        {"uint8", "UCFT_UINT8", 1, 1, integers},
                                        {"int16", "UCFT_INT16", 2, 2, integers},
                                        {"uint16", "UCFT_UINT16", 2, 2, integers},
                                        {"uint32", "UCFT_UINT32", 4, 4, integers},
                                        {"float16", "UCFT_FLOAT16", 2, 2, halves},
                                        {"bfloat16", "UCFT_BFLOAT16", 2, 2, halves},
                                        {"complex_float", "UCFT_COMPLEX_FLOAT", 8, 4, complexes},
                                        {"complex_double", "UCFT_COMPLEX_DOUBLE", 16, 8, complexes},
                                        {"bool", "UCFT_BOOL", 1, 1, booleans},
                                        {"float_int32", "UCFT_FLOAT_INT32", 8, 4, pairs},
                                        {"double_int32", "UCFT_DOUBLE_INT32", 16, 8, pairs},
                                        {"int32_int32", "UCFT_INT32_INT32", 8, 4, pairs},
                                        {"int64_int64", "UCFT_INT64_INT64", 16, 8, pairs},
                                        {"double_int64", "UCFT_DOUBLE_INT64", 16, 8, pairs}};
inline constexpr std::size_t type_count = std::size(type_rows);

struct OperatorRow {
  const char *name, *constant;
  TypeClasses takes;
};
inline constexpr OperatorRow operator_rows[] = {{"sum", "UCFT_SUM", integers | reals | halves | complexes},
                                                {"prod", "UCFT_PROD", integers | reals | halves | complexes},
                                                {"min", "UCFT_MIN", integers | reals | halves},
                                                {"max", "UCFT_MAX", integers | reals | halves},
                                                {"user", "UCFT_USER", all_classes},
                                                {"minloc", "UCFT_MINLOC", pairs},
                                                {"maxloc", "UCFT_MAXLOC", pairs},
                                                {"land", "UCFT_LAND", integers | booleans},
                                                {"lor", "UCFT_LOR", integers | booleans},
                                                {"lxor", "UCFT_LXOR", integers | booleans},
                                                {"band", "UCFT_BAND", integers | booleans},
                                                {"bor", "UCFT_BOR", integers | booleans},
                                                {"bxor", "UCFT_BXOR", integers | booleans},
                                                {"avg", "UCFT_AVG", reals | halves | complexes},
                                                {"sum_reproducible", "UCFT_SUM_REPRODUCIBLE", reals},
                                                {"avg_reproducible", "UCFT_AVG_REPRODUCIBLE", reals}};
inline constexpr std::size_t operator_count = std::size(operator_rows);
static_assert(type_count == static_cast<std::size_t>(DataType::double_int64) + 1 &&
              operator_count == static_cast<std::size_t>(Operator::average_reproducible) + 1);

constexpr const TypeRow& row_of(DataType type) { return type_rows[static_cast<std::size_t>(type)]; }
constexpr const OperatorRow& row_of(Operator op) { return operator_rows[static_cast<std::size_t>(op)]; }
constexpr bool is_of(DataType type, TypeClasses classes) { return (row_of(type).its_class & classes) != 0; }
constexpr bool takes(Operator op, DataType type) { return is_of(type, row_of(op).takes); }

// Bytes of one element.
constexpr std::size_t element_bytes(DataType type) { return row_of(type).bytes; }

// Carried in accumulators (binned.hpp), which are no type of a caller's.
constexpr bool is_binned(Operator op) {
  return op == Operator::sum_reproducible || op == Operator::average_reproducible;
}
constexpr bool is_average(Operator op) { return op == Operator::average || op == Operator::average_reproducible; }

// The type in which partial results travel and are combined, unless they are binned: sums of halves in float.
constexpr DataType carrier_of(DataType type, Operator op) {
  const bool accumulates = op == Operator::sum || op == Operator::prod || op == Operator::average;
  return is_of(type, halves) && accumulates ? DataType::float32 : type;
}

// bins: of an accumulator (chosen_bins.hpp), or 0 for the usual number.
constexpr std::size_t carrier_bytes_of(DataType type, Operator op, int bins = 0) {
  if (!is_binned(op)) return element_bytes(carrier_of(type, op));
  return bins == 0 ? 4 * element_bytes(type) : bins <= 3 ? 32 : 64;
}
inline constexpr int most_bins = 7;
constexpr int usual_bins_of(DataType type) { return type == DataType::float64 ? 3 : 2; }

}  // namespace ucft::detail

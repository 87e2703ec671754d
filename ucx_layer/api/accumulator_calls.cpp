// Functions of the C API on accumulators, which need no context. They compute on a copy, so that nothing has changed
// where they return an error.
#include <cstddef>
#include <cstring>

#include "collectives/reduction/accumulator.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/api/accumulators.hpp"
#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/api/memory_check.hpp"
#include "ucx_layer/runtime/default_rounding.hpp"

using namespace ucft::detail;

namespace {

ucft_status_t check_real(ucft_dtype_t dtype) {
  if (dtype == UCFT_FLOAT || dtype == UCFT_DOUBLE) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "dtype is {} ({}): must be UCFT_FLOAT or UCFT_DOUBLE", static_cast<int>(dtype),
              type_name(dtype));
}

ucft_status_t check_values(const char* name, const void* values, std::uint64_t count, ucft_dtype_t dtype) {
  const std::uint64_t element = dtype == UCFT_FLOAT ? sizeof(float) : sizeof(double), limit = UINT64_MAX / 2 / element;
  if (count == 0) return UCFT_OK;
  if (values == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with count {}", name, count);
  if (count > limit) return fail(UCFT_ERR_INVALID_PARAM, "count is {}: at most {}", count, limit);
  if (is_readable(values, count * element)) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can read: device memory?", name,
              values, count * element);
}

ucft_status_t read_sum(const char* name, const ucft_accumulator_t* from, Accumulator& accumulator) {
  if (from == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "{} is null", name);
  std::memcpy(&accumulator, from, sizeof accumulator);
  if (is_accumulator(accumulator)) return UCFT_OK;
  return fail_as_no_accumulator(name);
}

void write_sum(ucft_accumulator_t* to, const Accumulator& accumulator) {
  std::memcpy(to, &accumulator, sizeof accumulator);
}

// a alone: numbers. Both: products.
ucft_status_t add_values(const void* a, const void* b, std::uint64_t count, ucft_dtype_t dtype,
                         ucft_accumulator_t* accumulator) {
  Accumulator sum;
  if (ucft_status_t status = read_sum("accumulator", accumulator, sum); status != UCFT_OK) return status;
  [[maybe_unused]] const DefaultRounding rounding;
  const auto* const first = static_cast<const std::byte*>(a);
  const auto* const second = static_cast<const std::byte*>(b);
  const auto add = [&]<class Real>(Real) {
    second == nullptr ? accumulate<Real>(sum, first, count) : accumulate_products<Real>(sum, first, second, count);
  };
  dtype == UCFT_FLOAT ? add(float{}) : add(double{});
  write_sum(accumulator, sum);
  return UCFT_OK;
}

// Calls rounded(sum, Real{}).
template <class Rounded>
ucft_status_t round_to(const ucft_accumulator_t* accumulator, ucft_dtype_t dtype, void* value, Rounded rounded) {
  if (ucft_status_t status = check_real(dtype); status != UCFT_OK) return status;
  Accumulator sum;
  if (ucft_status_t status = read_sum("accumulator", accumulator, sum); status != UCFT_OK) return status;
  if (value == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "value is null");
  [[maybe_unused]] const DefaultRounding rounding;
  const auto put = [&](auto result) { std::memcpy(value, &result, sizeof result); };
  dtype == UCFT_FLOAT ? put(rounded(sum, float{})) : put(rounded(sum, double{}));
  return UCFT_OK;
}

}  // namespace

extern "C" {

ucft_status_t ucft_accumulate(const void* values, uint64_t count, ucft_dtype_t dtype, ucft_accumulator_t* accumulator) {
  if (ucft_status_t status = check_real(dtype); status != UCFT_OK) return status;
  if (ucft_status_t status = check_values("values", values, count, dtype); status != UCFT_OK) return status;
  return add_values(values, nullptr, count, dtype, accumulator);
}

ucft_status_t ucft_accumulate_products(const void* a, const void* b, uint64_t count, ucft_dtype_t dtype,
                                       ucft_accumulator_t* accumulator) {
  if (ucft_status_t status = check_real(dtype); status != UCFT_OK) return status;
  if (ucft_status_t status = check_values("a", a, count, dtype); status != UCFT_OK) return status;
  if (ucft_status_t status = check_values("b", b, count, dtype); status != UCFT_OK) return status;
  return add_values(a, b, count, dtype, accumulator);
}

ucft_status_t ucft_accumulate_squares(const void* values, uint64_t count, ucft_dtype_t dtype,
                                      ucft_accumulator_t* accumulator) {
  if (ucft_status_t status = check_real(dtype); status != UCFT_OK) return status;
  if (ucft_status_t status = check_values("values", values, count, dtype); status != UCFT_OK) return status;
  return add_values(values, values, count, dtype, accumulator);
}

ucft_status_t ucft_accumulator_merge(ucft_accumulator_t* into, const ucft_accumulator_t* from) {
  Accumulator sum, other;
  if (ucft_status_t status = read_sum("into", into, sum); status != UCFT_OK) return status;
  if (ucft_status_t status = read_sum("from", from, other); status != UCFT_OK) return status;
  merge(sum, other);
  write_sum(into, sum);
  return UCFT_OK;
}

ucft_status_t ucft_accumulator_value(const ucft_accumulator_t* accumulator, ucft_dtype_t dtype, void* value) {
  return round_to(accumulator, dtype, value,
                  []<class Real>(const Accumulator& sum, Real) { return value_of<Real>(sum); });
}

ucft_status_t ucft_accumulator_root(const ucft_accumulator_t* accumulator, ucft_dtype_t dtype, void* value) {
  return round_to(accumulator, dtype, value,
                  []<class Real>(const Accumulator& sum, Real) { return root_of<Real>(sum); });
}

}  // extern "C"

#include "ucx_layer/api/operators.hpp"

#include <fmt/core.h>

#include <string>
#include <tuple>

#include "ucx_layer/api/errors.hpp"

namespace ucft::detail {

namespace {

// "op is UCFT_BAND, and dtype UCFT_FLOAT: it takes int32, int64, .. only"
ucft_status_t refuse(Operator op, DataType type) {
  std::string taken;
  for (std::size_t i = 0; i < type_count; ++i)
    if (takes(op, static_cast<DataType>(i))) taken += fmt::format("{}{}", taken.empty() ? "" : ", ", type_rows[i].name);
  const bool could_divide = is_average(op) && is_of(type, integers);
  return fail(UCFT_ERR_INVALID_PARAM, "op is {}, and dtype {}: it takes {} only{}", row_of(op).constant,
              row_of(type).constant, taken,
              could_divide ? "; of integers take UCFT_SUM, and divide it by the result's contributors" : "");
}

}  // namespace

ucft_status_t check_reproducible(const ucft_coll_options_t& options, Kind kind, Operator op, DataType type) {
  const std::tuple<const char*, int, int, int> table[] = {
      {"reproducible_bins", options.reproducible_bins, usual_bins_of(type), most_bins},
      {"reproducible_sweeps", options.reproducible_sweeps, 1, 2}};
  for (const auto& [name, value, least, most] : table) {
    if (value == 0) continue;
    if (!row_of(kind).takes_operator())
      return fail(UCFT_ERR_INVALID_PARAM, "options.{} is {}: there is no sum in a {}", name, value, row_of(kind).name);
    if (row_of(kind).combines_landed() && options.reproducible_sweeps == 2)
      return fail(UCFT_ERR_INVALID_PARAM, "options.reproducible_sweeps is 2: a {} takes one", row_of(kind).name);
    if (!is_binned(op))
      return fail(UCFT_ERR_INVALID_PARAM, "options.{} is {}, and op {}: it is of reproducible sums", name, value,
                  row_of(op).constant);
    if (value < least || value > most)
      return fail(UCFT_ERR_INVALID_PARAM, "options.{} is {}: must be {} .. {} of {}, or 0", name, value, least, most,
                  row_of(type).name);
  }
  return UCFT_OK;
}

ucft_status_t read_operator(const ucft_operator_t* op, const ucft_coll_options_t* options, Kind kind, DataType type,
                            Reduction& reduction) {
  if (op == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "op is null");
  if (ucft_status_t wrong = check_size("op", *op, "UCFT_OPERATOR_INIT"); wrong != UCFT_OK) return wrong;
  if (op->op < 0 || op->op >= static_cast<int>(operator_count))
    return fail(UCFT_ERR_INVALID_PARAM, "op is {}: not a ucft_op_t", static_cast<int>(op->op));
  if (op->op == UCFT_USER && op->function == nullptr)
    return fail(UCFT_ERR_INVALID_PARAM, "op is UCFT_USER and its function is null");
  const auto its = static_cast<Operator>(op->op);
  if (!takes(its, type)) return refuse(its, type);
  // Options of another version are refused where all of them are read.
  const bool has_options = options != nullptr && options->struct_size == sizeof *options;
  if (has_options)
    if (ucft_status_t status = check_reproducible(*options, kind, its, type); status != UCFT_OK) return status;
  // By value: the operation may be asked about after its request has been freed.
  reduction = {type, its, reinterpret_cast<UserFunction>(op->function), op->arg,
               has_options ? options->reproducible_bins : 0};
  return UCFT_OK;
}

}  // namespace ucft::detail

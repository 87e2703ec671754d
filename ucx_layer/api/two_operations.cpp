#include "ucx_layer/api/two_operations.hpp"

#include <new>

#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/runtime/swept_sum.hpp"

namespace ucft::detail {
namespace {

// In place, on memory of this file's.
ucft_status_t allreduce(Communicator& comm, void* data, std::uint64_t count, ucft_dtype_t type, ucft_op_t op,
                        const ucft_coll_options_t& options, Request& request, Run run, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  const ucft_status_t status =
      prepare(comm, {Kind::allreduce, UCFT_IN_PLACE, data, count, type, &with, 0, &options}, request);
  return status == UCFT_OK ? run(request, result) : status;
}

// Ends: each repetition takes a death.
ucft_status_t sum(Communicator& comm, const Request& request, Run run, ucft_result_t* result) {
  ucft_coll_options_t options = request.options;
  options.reproducible_bins = options.reproducible_sweeps = 0;
  SweptSum swept(request);
  Request first, second;
  do {
    swept.note();
    if (ucft_status_t status =
            allreduce(comm, swept.heights(), swept.count(), static_cast<ucft_dtype_t>(swept.heights_type()), UCFT_BOR,
                      options, first, run, result);
        status != UCFT_OK)
      return status;
    swept.deposit();
    if (ucft_status_t status = allreduce(comm, swept.digits().data(), swept.digits().size(), UCFT_INT64, UCFT_SUM,
                                         options, second, run, result);
        status != UCFT_OK)
      return status;
  } while (second.contributors != first.contributors);
  swept.round(second.contributors);
  return UCFT_OK;
}

}  // namespace

ucft_status_t sum_in_two_operations(Communicator& comm, const Request& request, Run run, ucft_result_t* result) try {
  return sum(comm, request, run, result);
} catch (const std::bad_alloc&) {
  return fail(UCFT_ERR_NO_MEMORY, "no memory for the digits of {} elements", request.arguments.count);
}

}  // namespace ucft::detail

// Collectives of accumulators (UCFT_ACCUMULATOR). They are carried out as collectives of the int64 that accumulators
// consist of, whose sum merges them (collectives/reduction/accumulator.hpp). Each rank looks at its own before they are
// added, so that no rank's nonsense gets into the sum. The result is settled once it is complete.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ucft/ucft.h"
#include "ucx_layer/runtime/communicator.hpp"

namespace ucft::detail {

// A call as one of int64. It must outlive the check of its arguments.
struct CallInWords {
  Call call;
  std::array<std::vector<std::uint64_t>, 4> arrays;  // as arrays_of() has them: `call` points to them
};
inline bool has_accumulators(const Call& call) { return call.dtype == UCFT_ACCUMULATOR; }
// Of a call that has accumulators: checks what only they have.
ucft_status_t put_in_words(const Communicator& comm, const Call& call, CallInWords& its);

// For a function of the API: `name` is memory that is none.
ucft_status_t fail_as_no_accumulator(std::string_view name);
// Are those right that this rank adds?
ucft_status_t check_accumulators(const Request& request);
// Before a prepared request is posted, whatever it has.
inline ucft_status_t check_input(const Request& request) {
  return has_accumulators(request.call) ? check_accumulators(request) : UCFT_OK;
}
// Of a request that is complete. It may be called again.
void settle_accumulators(Request& request);

}  // namespace ucft::detail

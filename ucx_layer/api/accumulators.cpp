#include "ucx_layer/api/accumulators.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <cstring>

#include "collectives/reduction/accumulator.hpp"
#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/errors.hpp"

namespace ucft::detail {
namespace {

static_assert(sizeof(ucft_accumulator_t) == sizeof(Accumulator));

constexpr std::uint64_t count_limit = bytes_limit / sizeof(Accumulator);

// In the caller's memory, which need not be aligned.
Accumulator accumulator_at(const void* memory, std::uint64_t i) {
  Accumulator accumulator;
  std::memcpy(&accumulator, static_cast<const std::byte*>(memory) + i * sizeof accumulator, sizeof accumulator);
  return accumulator;
}

ucft_status_t check_count(const char* name, std::uint64_t count) {
  if (count <= count_limit) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "{} is {}: more than {} bytes of accumulator", name, count, bytes_limit);
}

// A displacement that is out of range stays so.
std::uint64_t words_of(std::uint64_t count) {
  return count < UINT64_MAX / accumulator_words ? count * accumulator_words : UINT64_MAX;
}

}  // namespace

ucft_status_t put_in_words(const Communicator& comm, const Call& call, CallInWords& its) {
  its.call = call;
  its.call.dtype = UCFT_INT64;
  if (row_of(call.kind).takes_operator() && call.op != nullptr && call.op->struct_size == sizeof *call.op &&
      call.op->op != UCFT_SUM)
    return fail(UCFT_ERR_INVALID_PARAM, "dtype is UCFT_ACCUMULATOR, and op is {}: it takes UCFT_SUM only",
                static_cast<int>(call.op->op));
  if (ucft_status_t status = check_count("count", call.count); status != UCFT_OK) return status;
  its.call.count = words_of(call.count);
  const auto arrays = arrays_of(comm, call);
  for (std::size_t i = 0; i < arrays.size(); ++i)
    for (std::int32_t rank = 0; arrays[i] != nullptr && rank < comm.size(); ++rank) {
      const std::uint64_t given = arrays[i][rank];
      const bool is_count = arrays[i] == call.counts || arrays[i] == call.send_counts;
      if (ucft_status_t status = check_count("a count", is_count ? given : 0); status != UCFT_OK) return status;
      its.arrays[i].push_back(words_of(given));
    }
  const auto in_words = [&](std::size_t i) { return arrays[i] == nullptr ? nullptr : its.arrays[i].data(); };
  its.call.counts = in_words(0);
  its.call.displacements = in_words(1);
  its.call.send_counts = in_words(2);
  its.call.send_displacements = in_words(3);
  return UCFT_OK;
}

ucft_status_t fail_as_no_accumulator(std::string_view name) {
  return fail(UCFT_ERR_INVALID_PARAM,
              "{} is no accumulator: it was not initialised (UCFT_ACCUMULATOR_INIT), or is damaged", name);
}

ucft_status_t check_accumulators(const Request& request) {
  if (!row_of(request.call.kind).takes_operator()) return UCFT_OK;
  const char* const name = request.call.send == UCFT_IN_PLACE ? "recv (in place)" : "send";
  for (std::uint64_t i = 0; i < request.arguments.given_count() / accumulator_words; ++i) {
    const Accumulator accumulator = accumulator_at(request.send, i);
    if (!is_accumulator(accumulator)) return fail_as_no_accumulator(fmt::format("{}[{}]", name, i));
    if (!is_settled(accumulator))
      return fail(UCFT_ERR_INVALID_PARAM,
                  "{}[{}] is a sum that another library has made: merge it into an empty accumulator before", name, i);
  }
  return UCFT_OK;
}

void settle_accumulators(Request& request) {
  if (!request.is_unsettled || request.pending()) return;
  request.is_unsettled = false;
  const bool at_root = request.communicator->rank() == request.call.root;
  const CatalogueRow& row = row_of(request.call.kind);
  if (request.status != UCFT_OK || !row.takes_operator() || !is_one_of(row.gets, at_root)) return;
  if (request.landing != nullptr && !request.landing->has_result()) return;
  const std::uint64_t words = row.has_shares() ? request.share.count : request.arguments.given_count();
  for (std::uint64_t i = 0; i < words / accumulator_words; ++i) {
    Accumulator accumulator = accumulator_at(request.receive, i);
    settle(accumulator);
    std::memcpy(static_cast<std::byte*>(request.receive) + i * sizeof accumulator, &accumulator, sizeof accumulator);
  }
}

}  // namespace ucft::detail

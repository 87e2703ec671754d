#include "ucx_layer/runtime/request.hpp"

#include "ucx_layer/runtime/default_rounding.hpp"

namespace ucft::detail {

namespace {

ucft_status_t status_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::success: return UCFT_OK;
    case Outcome::root_failed: return UCFT_ERR_ROOT_FAILED;
    case Outcome::too_many_failures: return UCFT_ERR_TOO_MANY_FAILURES;
    case Outcome::mismatch: return UCFT_ERR_MISMATCH;
    case Outcome::no_memory: return UCFT_ERR_NO_MEMORY;
  }
  return UCFT_ERR_UNSUPPORTED;
}

}  // namespace

bool Request::take_outcome(const Verdict& verdict, Rank me, Rank ranks) {
  const CatalogueRow& row = arguments.row();
  const bool knows = verdict.outcome == Outcome::success && (row.disseminates || arguments.root == me);
  status = status_of(verdict.outcome);
  contributors = knows ? verdict.contributors : 0;
  attempts = verdict.attempts;
  culprit = verdict.culprit;
  missing.clear();
  missing_known = knows && arguments.failure_info == FailureInfo::list;
  missing_count = knows && row.collects ? ranks - static_cast<std::int32_t>(verdict.contributors) : -1;
  return knows;
}

void Request::finish_part(std::uint64_t offset, const std::byte* carriers, std::uint64_t bytes,
                          std::uint32_t from_ranks) const {
  [[maybe_unused]] const DefaultRounding rounding;
  const Reduction& reduction = arguments.reduction;
  const std::uint64_t first = offset / reduction.carrier_bytes(), count = bytes / reduction.carrier_bytes();
  finish(reduction, static_cast<std::byte*>(receive) + first * element_bytes(reduction.type()), carriers, count,
         from_ranks);
}

void Request::give_up(ucft_status_t why) {
  status = why;
  contributors = attempts = 0;
  culprit = -1;
  missing.clear();
  missing_known = false;
  missing_count = -1;
}

}  // namespace ucft::detail

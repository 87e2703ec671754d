#include "ucx_layer/api/split.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

ucft_status_t split(Communicator& comm, std::int32_t colour, std::int32_t key, Run run, Communicator*& part) {
  constexpr std::int64_t nobody = std::numeric_limits<std::int64_t>::min();
  const auto ranks = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> table(2 * ranks + 1, nobody);
  table[2 * me] = colour;
  table[2 * me + 1] = key;
  table[2 * ranks] = comm.context().communicators().next_id();
  const ucft_operator_t max = UCFT_OPERATOR_INIT(UCFT_MAX);
  Call call{Kind::allreduce, UCFT_IN_PLACE, table.data(), table.size(), UCFT_INT64, &max, 0, nullptr};
  Request request;
  if (ucft_status_t status = prepare(comm, call, request); status != UCFT_OK) return status;
  if (ucft_status_t status = run(request, nullptr); status != UCFT_OK) return status;

  const auto id = static_cast<std::uint32_t>(table[2 * ranks]);
  comm.context().communicators().note_id(id);
  part = nullptr;
  if (colour < 0) return UCFT_OK;
  std::vector<std::pair<std::int64_t, std::int32_t>> members;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (table[2 * rank] == colour && table[2 * rank + 1] != nobody)
      members.emplace_back(table[2 * rank + 1], static_cast<std::int32_t>(rank));
  std::sort(members.begin(), members.end());
  std::vector<std::int32_t> context_ranks;
  for (const auto& [order, rank] : members) context_ranks.push_back(comm.context_rank(rank));
  part = comm.context().communicators().create(id, std::move(context_ranks));
  return UCFT_OK;
}

}  // namespace ucft::detail

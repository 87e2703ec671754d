#include "ucx_layer/api/look.hpp"

#include <algorithm>
#include <cstring>

#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

void write_text(const std::string& from, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t length = std::min(from.size(), bytes - 1);
  std::memcpy(to, from.data(), length);
  to[length] = 0;
}

namespace {

static_assert(posted_kind_count == 11 && UCFT_COLLECTIVE_ALLREDUCE == static_cast<int>(Kind::allreduce) &&
              UCFT_COLLECTIVE_BARRIER == static_cast<int>(Kind::barrier) &&
              UCFT_COLLECTIVE_BROADCAST == static_cast<int>(Kind::broadcast) &&
              UCFT_COLLECTIVE_REDUCE == static_cast<int>(Kind::reduce) &&
              UCFT_COLLECTIVE_ALLGATHER == static_cast<int>(Kind::allgather) &&
              UCFT_COLLECTIVE_GATHER == static_cast<int>(Kind::gather) &&
              UCFT_COLLECTIVE_REDUCE_SCATTER == static_cast<int>(Kind::reduce_scatter) &&
              UCFT_COLLECTIVE_SCATTER == static_cast<int>(Kind::scatter) &&
              UCFT_COLLECTIVE_ALLTOALL == static_cast<int>(Kind::alltoall) &&
              UCFT_COLLECTIVE_SCAN == static_cast<int>(Kind::scan) &&
              UCFT_COLLECTIVE_EXSCAN == static_cast<int>(Kind::exscan));

void write_part(const PartView& part, ucft_rank_sight_t& to) {
  to.posted = static_cast<std::int64_t>(part.posted);
  to.finished = part.is_heard_of ? -1 : static_cast<std::int64_t>(part.finished);
  to.posted_at_ns = part.posted_at_ns;
  if (const PartView::Posted* last = part.posted == 0 ? nullptr : part.find(part.posted - 1))
    to.last = static_cast<ucft_collective_t>(kind_in(last->note));
}

void write_sight(JobView& job, const Communicator& comm, std::int32_t rank, ucft_rank_sight_t& to) {
  const std::int32_t context_rank = comm.context_rank(rank);
  const std::string text = sentence_about(job, comm, context_rank);  // has looked at its process, too
  const RankView& view = job.ranks.at(context_rank);
  const ucft_rank_sight_t given = to;
  to = UCFT_RANK_SIGHT_INIT;
  to.state = static_cast<ucft_rank_state_t>(job.doing(context_rank));
  to.heard_at_ns = view.heard_at_ns;
  to.pid = view.pid;
  if (const auto part = view.parts.find(comm.id()); part != view.parts.end()) write_part(part->second, to);
  to.waits_for = given.waits_for;
  to.waits_for_capacity = given.waits_for_capacity;
  std::vector<std::int32_t> awaited;
  for (std::int32_t each : job.awaited_by(context_rank, comm.id())) awaited.push_back(comm.rank_of(each));
  std::ranges::sort(awaited);
  to.waits_for_count = static_cast<std::int32_t>(awaited.size());
  if (to.waits_for != nullptr)
    std::copy_n(awaited.begin(), std::clamp(to.waits_for_capacity, 0, to.waits_for_count), to.waits_for);
  to.text = given.text;
  to.text_bytes = given.text_bytes;
  write_text(text, to.text, to.text_bytes);
}

}  // namespace

ucft_status_t look(const Communicator& comm, ucft_rank_sight_t* sights, std::int32_t* count) {
  if (count == nullptr || *count < 0) return fail(UCFT_ERR_INVALID_PARAM, "count is null or negative");
  if (sights == nullptr && *count > 0)
    return fail(UCFT_ERR_INVALID_PARAM, "sights is null, with a capacity of {}", *count);
  const std::int32_t wanted = std::min(*count, comm.size());
  for (std::int32_t rank = 0; rank < wanted; ++rank)
    if (sights[rank].struct_size != sizeof *sights)
      return fail(UCFT_ERR_INVALID_PARAM, "sights[{}].struct_size is {}, expected {}: use UCFT_RANK_SIGHT_INIT", rank,
                  sights[rank].struct_size, sizeof *sights);
  JobView job = comm.view();
  for (std::int32_t rank = 0; rank < wanted; ++rank) write_sight(job, comm, rank, sights[rank]);
  *count = comm.size();
  return UCFT_OK;
}

}  // namespace ucft::detail

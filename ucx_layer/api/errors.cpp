#include "ucx_layer/api/errors.hpp"

#include <algorithm>

#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

namespace {

ucft_status_t explain_mismatch(const Request& request) {
  const Communicator& comm = *request.communicator;
  std::string culprit = "some rank", difference;
  if (request.culprit >= 0) {
    const std::int32_t rank = comm.context_rank(request.culprit);
    culprit = comm.context().describe(rank);
    if (request.quorum == nullptr)
      difference = comm.view().difference(rank, comm.context().rank(), comm.id(), request.number);
  }
  if (request.quorum != nullptr)
    return fail(request.status,
                "quorum allreduce {}: {} posted something else: another type, operator, count, quorum or deadline",
                request.number, culprit);
  if (difference.empty())
    difference = "posted something else: another operation, type, operator, count, root, f or algorithm";
  return fail(request.status, "operation {}: {} {}", request.number, culprit, difference);
}

}  // namespace

ucft_status_t explain(const Communicator& comm, const PointToPointCall& call) {
  const auto name = [&](std::int32_t rank) { return comm.context().describe(comm.context_rank(rank)); };
  switch (call.status) {
    case UCFT_OK: return UCFT_OK;
    case UCFT_ERR_PEER_FAILED:
      return fail(call.status, "a {} of tag {}: {} has failed, or has left", call.is_send ? "send" : "receive",
                  call.tag, name(call.other));
    case UCFT_ERR_TRUNCATED:
      return fail(call.status, "a receive of tag {} has room for {} bytes, and {} has sent {}", call.tag, call.bytes,
                  name(call.other), call.received);
    default: return fail(call.status, "{}", comm.context().exclusion_text());
  }
}

ucft_status_t explain(const Request& request) {
  if (request.point_to_point) return explain(*request.communicator, *request.point_to_point);
  Context& context = request.communicator->context();
  switch (request.status) {
    case UCFT_OK: return UCFT_OK;
    case UCFT_ERR_MISMATCH:
      if (request.gossip != nullptr)
        return fail(request.status, "gossip operation {}: the ranks differ in type, count or options", request.number);
      return explain_mismatch(request);
    case UCFT_ERR_ROOT_FAILED:
      return fail(request.status, "operation {}: its root, {}, has failed", request.number,
                  context.describe(request.communicator->context_rank(request.arguments.root)));
    case UCFT_ERR_TOO_MANY_FAILURES:
      return fail(request.status, "operation {}: more than f = {} ranks failed in it", request.number,
                  request.arguments.f);
    case UCFT_ERR_EXCLUDED:
    case UCFT_ERR_PARTITION: return fail(request.status, "{}", context.exclusion_text());
    case UCFT_ERR_LATE:
      return fail(request.status,
                  "quorum allreduce {}: it was decided without this rank, and its result is not kept any more",
                  request.number);
    case UCFT_ERR_UNSUPPORTED:
      if (request.culprit < 0) break;
      return fail(request.status,
                  "gossip operation {}: options.path is UCFT_GOSSIP_PATH_RMA, and {} reaches a neighbour by messages "
                  "only (neither by shared memory nor by RDMA)",
                  request.number, context.describe(request.communicator->context_rank(request.culprit)));
    case UCFT_ERR_NO_MEMORY:
      if (request.culprit < 0) break;
      if (request.shares != nullptr)
        return fail(request.status,
                    "operation {}: {} has no shared memory for its part, or its host gives or gets more than 1 TiB",
                    request.number, context.describe(request.communicator->context_rank(request.culprit)));
      if (request.gossip == nullptr)
        return fail(request.status, "operation {}: {} has no shared memory for {} bytes", request.number,
                    context.describe(request.communicator->context_rank(request.culprit)), request.arguments.bytes());
      return fail(request.status, "gossip operation {}: {} has no memory for the windows of its neighbours",
                  request.number, context.describe(request.communicator->context_rank(request.culprit)));
    default: break;
  }
  return fail(request.status, "operation {}: {}", request.number, ucft_status_name(request.status));
}

// "stopped, last heard 0.31 s ago; 17 posted, 16 finished, the last: barrier 0.52 s ago"
std::string sentence_about(JobView& job, const Communicator& comm, std::int32_t context_rank) {
  comm.context().look_at_process(job.ranks.at(context_rank));
  return job.words_about(context_rank) + "; " + job.words_about(context_rank, comm.id());
}

namespace {

std::vector<std::int32_t> awaited_in(const JobView& job, Communicator& comm, const Request& request) {
  if (!comm.is_on_host()) return job.awaited_by(comm.context().rank(), comm.id());
  std::vector<std::int32_t> ranks;
  for (Rank rank : comm.awaited(request)) ranks.push_back(comm.context_rank(rank));
  return ranks;
}

}  // namespace

ucft_status_t explain_lateness(const Request& request, std::uint64_t timeout_us) {
  constexpr std::uint64_t worth_telling_us = 10000;  // looking at processes takes some of it; programs wait in slices
  constexpr std::size_t most = 4;
  Communicator& comm = *request.communicator;
  comm.context().say_waited_until(Context::Clock::now());
  std::string text = fmt::format("operation {} is still in progress after {} us", request.number, timeout_us);
  if (request.quorum != nullptr) {
    const std::int32_t lead = comm.context_rank(comm.quorum().lead());
    JobView job = comm.view();
    text = fmt::format(
        "quorum allreduce {} is still in progress after {} us: fewer than {} ranks have posted it, or its "
        "deadline is not over, or the rank that leads does not answer: {}: {}",
        request.number, timeout_us, request.quorum->quorum, comm.context().describe(lead),
        sentence_about(job, comm, lead));
  } else if (request.point_to_point) {
    const PointToPointCall& call = *request.point_to_point;
    text = fmt::format("a {} {} of tag {} is still in progress after {} us", call.is_send ? "send to" : "receive from",
                       call.peer < 0 ? "any rank" : comm.context().describe(comm.context_rank(call.peer)), call.tag,
                       timeout_us);
    if (timeout_us >= worth_telling_us && call.peer >= 0) {
      JobView job = comm.view();
      text += fmt::format("; rank {}: {}", call.peer, sentence_about(job, comm, comm.context_rank(call.peer)));
    }
  } else if (timeout_us >= worth_telling_us && request.gossip == nullptr) {
    comm.note_awaited();
    JobView job = comm.view();
    std::vector<std::int32_t> named;
    for (std::int32_t rank : awaited_in(job, comm, request)) {
      if (named.size() == most) {
        text += ", and others";
        break;
      }
      text += fmt::format("{} {}: {}", named.empty() ? ": it waits for" : "; and for", comm.context().describe(rank),
                          sentence_about(job, comm, rank));
      named.push_back(rank);
    }
    for (std::int32_t rank : comm.ranks())
      if (const std::string mismatch = job.mismatch_of(rank);
          !mismatch.empty() && std::ranges::find(named, rank) == named.end())
        text += fmt::format("; {} {}", comm.context().describe(rank), mismatch);
  }
  last_error() = std::move(text);
  return UCFT_ERR_TIMED_OUT;
}

}  // namespace ucft::detail

using ucft::detail::last_error;

extern "C" {

const char* ucft_status_name(ucft_status_t status) {
  switch (status) {
#define UCFT_NAME(value) \
  case value: return #value
    UCFT_NAME(UCFT_OK);
    UCFT_NAME(UCFT_INPROGRESS);
    UCFT_NAME(UCFT_ERR_INVALID_PARAM);
    UCFT_NAME(UCFT_ERR_NO_MEMORY);
    UCFT_NAME(UCFT_ERR_BUSY);
    UCFT_NAME(UCFT_ERR_TIMED_OUT);
    UCFT_NAME(UCFT_ERR_ROOT_FAILED);
    UCFT_NAME(UCFT_ERR_TOO_MANY_FAILURES);
    UCFT_NAME(UCFT_ERR_MISMATCH);
    UCFT_NAME(UCFT_ERR_EXCLUDED);
    UCFT_NAME(UCFT_ERR_PARTITION);
    UCFT_NAME(UCFT_ERR_STARTUP);
    UCFT_NAME(UCFT_ERR_CLOSED);
    UCFT_NAME(UCFT_ERR_STATE);
    UCFT_NAME(UCFT_ERR_THREAD);
    UCFT_NAME(UCFT_ERR_FORKED);
    UCFT_NAME(UCFT_ERR_TRANSPORT);
    UCFT_NAME(UCFT_ERR_UNSUPPORTED);
    UCFT_NAME(UCFT_ERR_PEER_FAILED);
    UCFT_NAME(UCFT_ERR_TRUNCATED);
    UCFT_NAME(UCFT_ERR_LATE);
#undef UCFT_NAME
  }
  return "not a ucft_status_t";
}

const char* ucft_last_error(void) { return last_error().c_str(); }
const char* ucft_version(void) { return UCFT_VERSION_STRING; }

}  // extern "C"

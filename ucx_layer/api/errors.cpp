#include "ucx_layer/api/errors.hpp"

#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

ucft_status_t explain(const Request& request) {
  Context& context = request.communicator->context();
  switch (request.status) {
    case UCFT_OK: return UCFT_OK;
    case UCFT_ERR_MISMATCH:
      if (request.gossip != nullptr)
        return fail(request.status, "gossip operation {}: the ranks differ in type, count or options", request.number);
      return fail(
          request.status,
          "operation {}: {} posted something else: another operation, type, operator, count, root, f or algorithm",
          request.number,
          request.culprit < 0 ? "some rank" : context.describe(request.communicator->context_rank(request.culprit)));
    case UCFT_ERR_ROOT_FAILED:
      return fail(request.status, "operation {}: its root, {}, has failed", request.number,
                  context.describe(request.communicator->context_rank(request.arguments.root)));
    case UCFT_ERR_TOO_MANY_FAILURES:
      return fail(request.status, "operation {}: more than f = {} ranks failed in it", request.number,
                  request.arguments.f);
    case UCFT_ERR_EXCLUDED:
    case UCFT_ERR_PARTITION: return fail(request.status, "{}", context.exclusion_text());
    case UCFT_ERR_UNSUPPORTED:
      if (request.culprit < 0) break;
      return fail(request.status,
                  "gossip operation {}: options.path is UCFT_GOSSIP_PATH_RMA, and {} reaches a neighbour by messages "
                  "only (neither by shared memory nor by RDMA)",
                  request.number, context.describe(request.communicator->context_rank(request.culprit)));
    case UCFT_ERR_NO_MEMORY:
      if (request.culprit < 0) break;
      if (request.gossip == nullptr)
        return fail(request.status, "operation {}: {} has no shared memory for {} bytes", request.number,
                    context.describe(request.communicator->context_rank(request.culprit)), request.arguments.bytes());
      return fail(request.status, "gossip operation {}: {} has no memory for the windows of its neighbours",
                  request.number, context.describe(request.communicator->context_rank(request.culprit)));
    default: break;
  }
  return fail(request.status, "operation {}: {}", request.number, ucft_status_name(request.status));
}

namespace {

// "is stopped (by a signal or a debugger), and was last seen alive 0.3 s ago"
std::string doings(const Context& context, std::int32_t rank) {
  const auto sight = context.sight_of(rank);
  if (!sight) return "can't be looked at";
  const auto what = [&] {
    switch (sight->state) {
      case ProcessState::runnable: return "runs, or waits for a processor";
      case ProcessState::blocked: return "waits for a page or a device";
      case ProcessState::sleeping: return "sleeps in a system call";
      case ProcessState::stopped: return "is stopped (by a signal or a debugger)";
      case ProcessState::dead: return "has ended, which is about to be proved";
      case ProcessState::unknown: break;
    }
    return "can't be looked at";
  }();
  return fmt::format("{}; it was last seen alive {:.2f} s ago", what,
                     std::chrono::duration<double>(sight->silent_for).count());
}

}  // namespace

ucft_status_t explain_lateness(const Request& request, std::uint64_t timeout_us) {
  constexpr std::uint64_t worth_telling_us = 10000;  // looking at processes takes some of it; programs wait in slices
  constexpr std::size_t most = 4;
  Communicator& comm = *request.communicator;
  std::string text = fmt::format("operation {} is still in progress after {} us", request.number, timeout_us);
  if (timeout_us >= worth_telling_us && request.gossip == nullptr && comm.is_on_host()) {
    const auto awaited = comm.awaited(request);
    for (std::size_t i = 0; i < awaited.size() && i < most; ++i) {
      const auto [rank, posted] = awaited[i];
      const std::int32_t who = comm.context_rank(rank);
      text += fmt::format("{} {}, which has posted {} of the {} operations of this communicator, and {}",
                          i == 0 ? ": it waits for" : ", and", comm.context().describe(who), posted, request.number + 1,
                          doings(comm.context(), who));
    }
    if (awaited.size() > most) text += fmt::format(", and {} others", awaited.size() - most);
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
#undef UCFT_NAME
  }
  return "not a ucft_status_t";
}

const char* ucft_last_error(void) { return last_error().c_str(); }
const char* ucft_version(void) { return UCFT_VERSION_STRING; }

}  // extern "C"

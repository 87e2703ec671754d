#include "ucx_layer/api/membership_calls.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/core/sometimes.hpp"
#include "collectives/renewal/renewal_vote.hpp"
#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/entry.hpp"

namespace ucft::detail {

namespace {

bool has_open_communicators(const Context& context) {
  return !comms.all([&](const Communicator* each) { return &each->context() == &context; }).empty();
}

}  // namespace

ucft_status_t create_joinable(const ucft_context_params_t* params, ucft_context_h* out) {
  auto epochs = std::make_unique<Epochs>();
  std::string error;
  try {
    if (ucft_status_t status = epochs->open(params, error); status != UCFT_OK) return fail(status, "{}", error);
    auto first = std::make_unique<Context>();
    first->set_epochs(epochs.get());
    if (Epochs::is_newcomer()) {
      first->await_job();
    } else {
      first->set_listener(epochs->listener());
      first->enter();
      if (ucft_status_t status = first->start(&epochs->params(), error); status != UCFT_OK)
        return fail(status, "{}", error);
      first->leave();
    }
    if (ucft_status_t status = epochs->begin(std::move(first), error); status != UCFT_OK)
      return fail(status, "{}", error);
  } catch (const std::exception& failure) {  // descriptors, threads or memory have run out
    return fail(UCFT_ERR_STARTUP, "{}", failure.what());
  }
  *out = contexts.open(&epochs->current());
  if (*out == nullptr) return fail(UCFT_ERR_NO_MEMORY, "{} contexts are open already", contexts.capacity);
  epochs.release();
  return UCFT_OK;
}

ucft_status_t destroy_joinable(ucft_context_h handle, Epochs& epochs) {
  if (Context& current = epochs.current(); !current.awaits_job())
    if (const Entry entry(current); entry.status() != UCFT_OK) return entry.status();
  const auto is_of_job = [&](const Communicator* each) { return each->context().epochs() == &epochs; };
  for (ucft_comm_h each : comms.all(is_of_job)) {
    Communicator* const comm = comms.find(each);
    const Entry entry(comm->context());
    if (entry.status() != UCFT_OK) return entry.status();
    if (comm->has_pending()) return fail(UCFT_ERR_STATE, "an operation is still in progress: wait for it first");
  }
  for (ucft_comm_h each : comms.all(is_of_job)) {
    close_requests_of(comms.find(each));
    comms.close(each);
  }
  contexts.close(handle);
  epochs.end();
  delete &epochs;
  return UCFT_OK;
}

bool free_in_other_epoch(Context& current, void* memory) {
  current.leave();
  const bool is_freed = current.epochs()->free_memory(memory);
  current.enter();
  return is_freed;
}

void leave_if_unused(Context& context) {
  if (&context.epochs()->current() != &context && !has_open_communicators(context))
    context.epochs()->on_unused(context);
}

namespace {

// missing: ranks that were not in it, as all that were agree. Empty also if there are too many to tell.
ucft_status_t vote(Communicator& comm, RenewalVote& ours, std::vector<Rank>& missing) {
  static constexpr ucft_operator_t max = UCFT_OPERATOR_INIT(UCFT_MAX);
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.uniform = 1;
  // A rank that the others have left behind must not go on without them. It adopts what they have, and finds itself
  // out.
  const Context& context = comm.context();
  options.f = std::min(std::max(context.settings().f, 8), comm.size() - 1);
  const Call call{Kind::allreduce, UCFT_IN_PLACE, &ours, sizeof ours / sizeof(std::int64_t),
                  UCFT_INT64,      &max,          0,     &options};
  Request request;
  if (ucft_status_t status = prepare(comm, call, request); status != UCFT_OK) return status;
  const ucft_status_t status = run_to_end(request, nullptr);
  missing = request.missing;
  return status;
}

// The same seats, with nobody new.
Communicator* same_seats(Communicator& comm, std::uint32_t id, std::vector<Rank> missing) {
  comm.context().communicators().note_id(id);
  return comm.context().communicators().create(id, comm.ranks(), std::move(missing));
}

ucft_status_t check_renewable(const Communicator& comm) {
  if (comm.context().epochs() == nullptr)
    return fail(UCFT_ERR_STATE,
                "newcomers can't join this job: start its ranks with UCFT_JOINABLE=y (ucft_run --respawn "
                "does)");
  if (&comm.context() != &comm.context().epochs()->current())
    return fail(UCFT_ERR_STATE, "comm was renewed before: renew the latest communicator of the context");
  if (comm.size() != comm.context().size())
    return fail(UCFT_ERR_INVALID_PARAM,
                "comm has {} of the {} ranks of its context: renew one of all ranks, and split "
                "the renewed one",
                comm.size(), comm.context().size());
  return UCFT_OK;
}

ucft_status_t renew(Communicator& comm, const ucft_renew_options_t& options, Communicator*& renewed) {
  Context& context = comm.context();
  Epochs& epochs = *context.epochs();
  const auto limit = limit_after(options.timeout_us);
  epochs.grow_to(options.grow_to);
  for (;;) {
    KnownEpochs::Ballot ballot;
    const auto look = [&] {
      ballot = epochs.look(options.newcomers, context.excluded() || Context::Clock::now() >= limit);
      return ballot.says_something();
    };
    if (!look()) context.wait_until(look, limit);
    RenewalVote ours = RenewalVote::of(ballot.epoch, ballot.is_over, context.communicators().next_id());
    std::vector<Rank> missing;
    const ucft_status_t status = vote(comm, ours, missing);
    const bool is_agreed = status == UCFT_OK && ours.outcome() == RenewalVote::Outcome::adopt;
    if (is_agreed) renewed = epochs.adopt(static_cast<std::uint32_t>(ours.epoch));
    if (renewed != nullptr) return UCFT_OK;
    if (is_agreed) UCFT_SOMETIMES("an epoch is agreed on and not there");
    if (status != UCFT_OK) UCFT_SOMETIMES("a vote on an epoch fails");
    // All whose votes counted have it: this rank's did not.
    if (is_agreed || (status != UCFT_OK && epochs.is_left_behind())) {
      epochs.after_vote();
      const std::string why = "the others have gone on without this rank, in an epoch with newcomers";
      context.stand_aside(why);
      return fail(UCFT_ERR_EXCLUDED, "{}", why);
    }
    if (status == UCFT_OK && ours.is_split()) UCFT_SOMETIMES("votes on an epoch differ");
    epochs.after_vote();
    if (status != UCFT_OK) return status;
    if (ours.is_over == 0) {
      context.wait_until([] { return false; }, Context::Clock::now() + std::chrono::milliseconds(1));
      continue;
    }
    renewed = same_seats(comm, static_cast<std::uint32_t>(ours.next_id), std::move(missing));
    return UCFT_OK;
  }
}

}  // namespace
}  // namespace ucft::detail

using namespace ucft::detail;

extern "C" {

ucft_status_t ucft_comm_renew(ucft_comm_h handle, const ucft_renew_options_t* options, ucft_comm_h* out) {
  UCFT_FIND(comm, comms, handle, "comm");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "renewed is null");
  ucft_renew_options_t with = UCFT_RENEW_OPTIONS_INIT;
  if (options != nullptr) {
    if (ucft_status_t wrong = check_size("options", *options, "UCFT_RENEW_OPTIONS_INIT"); wrong != UCFT_OK)
      return wrong;
    with = *options;
  }
  if (with.newcomers < -1)
    return fail(UCFT_ERR_INVALID_PARAM, "options: newcomers is {}: a number, or -1 for all free seats", with.newcomers);
  if (with.grow_to < 0 || with.grow_to > bootstrap::max_ranks)
    return fail(UCFT_ERR_INVALID_PARAM, "options: grow_to is {}: a number of ranks up to {}, or 0", with.grow_to,
                bootstrap::max_ranks);
  Communicator* renewed = nullptr;
  Epochs* epochs = nullptr;
  {
    const Entry entry(comm->context());
    if (entry.status() != UCFT_OK) return entry.status();
    if (ucft_status_t wrong = check_renewable(*comm); wrong != UCFT_OK) return wrong;
    epochs = comm->context().epochs();
    if (ucft_status_t status = renew(*comm, with, renewed); status != UCFT_OK) return status;
  }
  if (&renewed->context() != &comm->context())
    for (ucft_context_h each : contexts.all([&](const Context* open) { return open == &comm->context(); }))
      contexts.replace(each, &epochs->current());
  return open_comm(renewed, out);
}

ucft_status_t ucft_comm_join(ucft_context_h handle, uint64_t timeout_us, ucft_comm_h* out) {
  UCFT_FIND(context, contexts, handle, "context");
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "comm is null");
  if (!context->awaits_job()) return ucft_comm_create(handle, out);
  if (context->forked()) return refuse_fork();
  Epochs& epochs = *context->epochs();
  ucft_status_t status = UCFT_OK;
  std::string error;
  Communicator* const comm = epochs.join(limit_after(timeout_us), status, error);
  if (comm == nullptr) return fail(status, "{}", error);
  contexts.replace(handle, &epochs.current());
  return open_comm(comm, out);
}

ucft_status_t ucft_comm_newcomers(ucft_comm_h handle, int32_t* ranks, int32_t* count) {
  UCFT_FIND(comm, comms, handle, "comm");
  if (count == nullptr || *count < 0) return fail(UCFT_ERR_INVALID_PARAM, "count is null or negative");
  if (ranks == nullptr && *count > 0)
    return fail(UCFT_ERR_INVALID_PARAM, "ranks is null, with a capacity of {}", *count);
  const std::vector<Rank>& newcomers = comm->newcomers();
  const auto found = static_cast<std::int32_t>(newcomers.size());
  std::copy_n(newcomers.begin(), std::min(found, *count), ranks);
  *count = found;
  return UCFT_OK;
}

ucft_status_t ucft_context_waiting(ucft_context_h handle, int32_t* ready, int32_t* known) {
  UCFT_FIND(context, contexts, handle, "context");
  if (context->forked()) return refuse_fork();
  std::pair<std::int32_t, std::int32_t> waiting{};
  if (context->epochs() != nullptr && !context->awaits_job()) waiting = context->epochs()->waiting();
  if (ready != nullptr) *ready = waiting.first;
  if (known != nullptr) *known = waiting.second;
  return UCFT_OK;
}

ucft_status_t ucft_context_address(ucft_context_h handle, char* text, size_t bytes) {
  UCFT_FIND(context, contexts, handle, "context");
  if (text == nullptr || bytes == 0) return fail(UCFT_ERR_INVALID_PARAM, "text is null, or has no room");
  if (context->epochs() == nullptr)
    return fail(UCFT_ERR_STATE, "newcomers can't join this job: start its ranks with UCFT_JOINABLE=y");
  const std::string address = context->epochs()->address();
  if (address.size() >= bytes)
    return fail(UCFT_ERR_INVALID_PARAM, "the address needs {} bytes, and text has {}", address.size() + 1, bytes);
  std::memcpy(text, address.c_str(), address.size() + 1);
  return UCFT_OK;
}

}  // extern "C"

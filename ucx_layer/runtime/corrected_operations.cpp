#include "ucx_layer/runtime/corrected_operations.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

// UCFT_ALGORITHM=corrected is the papers' protocol: f counts ranks, and deaths are expected from the first message on.
OperationWindow::Size size_of(const Communicator& communicator, const Context& context) {
  const bool as_published = context.settings().algorithm == Algorithm::corrected;
  OperationWindow::Size size{communicator.rank(), communicator.size(), context.settings().window, !as_published, {}};
  if (!as_published) size.hosts = context.hosts_of(communicator.ranks());
  return size;
}

}  // namespace

CorrectedOperations::CorrectedOperations(Communicator& communicator, Context& context)
    : communicator_(communicator),
      context_(context),
      me_(communicator.rank()),
      window_(size_of(communicator, context), context.transport().buffers()),
      outbox_(context.transport().buffers()),
      requests_(std::bit_ceil(static_cast<std::size_t>(context.settings().window) * 4), nullptr),
      heard_of_(static_cast<std::size_t>(communicator.size())),
      published_(communicator.id(), me_, communicator.size(), *context.transport().control()),
      lets_us_go_(static_cast<std::size_t>(communicator.size())) {}

CorrectedOperations::~CorrectedOperations() {
  window_.release_all();
  for (const Message& send : outbox_.sends()) {
    outbox_.buffers().release(send.value);
    outbox_.buffers().release(send.list);
  }
}

// ---- posting --------------------------------------------------------------------------------------------------------

// Reserves the input and a block for the result, so that a decided result can be kept. Memory that sums need on the way
// is not reserved: a rank that lacks it says so in its message.
Operation::Memory CorrectedOperations::provide(Request& request) {
  const Arguments& arguments = request.arguments;
  const CatalogueRow& row = arguments.row();
  const bool is_root = arguments.root == me_;
  Buffers& buffers = context_.transport().buffers();
  Operation::Memory memory;
  if (arguments.bytes() == 0 && row.kind != Kind::allgather) return memory;
  if (is_one_of(row.gets, is_root)) {
    const std::uint64_t bytes = with_collective(
        row.kind, [&](auto collective) { return collective.result_bytes(arguments, communicator_.size()); });
    if (bytes > inline_limit) memory.result = buffers.allocate(bytes);
    memory.lacks = bytes > inline_limit && memory.result == no_buffer;
  }
  if (memory.lacks || !is_one_of(row.gives, is_root)) return memory;
  memory.input = stage(request);
  memory.lacks = !memory.input;
  return memory;
}

// The input as a buffer: carriers, a copy, or the caller's own memory. The last only if peers can have it from there
// and nothing will be written to it.
Slice CorrectedOperations::stage(Request& request) {
  const Arguments& arguments = request.arguments;
  const std::uint64_t bytes = arguments.bytes();
  Buffers& buffers = context_.transport().buffers();
  if (arguments.kind == Kind::allgather) {
    const Slice block = buffers.whole(buffers.allocate(Allgather::input_bytes(arguments)));
    if (block) Allgather::pack(arguments, me_, request.send, buffers.data(block));
    return block;
  }
  if (arguments.reduction.widens()) {
    const Slice carriers = buffers.whole(buffers.allocate(bytes));
    if (carriers) widen(arguments.reduction, buffers.data(carriers), request.send, arguments.count);
    return carriers;
  }
  const bool lend = arguments.kind == Kind::allreduce && bytes > inline_limit && request.send != request.receive &&
                    context_.transport().can_send_from(request.send, bytes);
  if (!lend) return buffers.whole(buffers.copy_in(request.send, bytes));
  request.lent_input = buffers.adopt(static_cast<const std::byte*>(request.send), bytes, untold);
  buffers.retain(request.lent_input);  // one for the operation, one to see when everybody is done with it
  return buffers.whole(request.lent_input);
}

ucft_status_t CorrectedOperations::post(Request& request) {
  if (context_.excluded()) return context_.why_excluded();
  const bool ready = window_.ready(outbox_);
  if (!outbox_.empty() || !window_.completed().empty()) {
    flush();
    collect();
  }
  if (context_.excluded()) return context_.why_excluded();
  if (!ready) return UCFT_ERR_BUSY;
  const Operation::Memory memory = provide(request);

  request.state = Request::State::active;
  ++pending_;
  request.number = window_.next();
  slot(request.number) = &request;
  window_.post(request.arguments, memory, outbox_);
  published_.note_posted(request.arguments, request.number);
  flush();
  collect();
  return UCFT_OK;
}

void CorrectedOperations::note_awaited() {
  if (finished_ < window_.next()) published_.note_awaited(window_.operation(finished_).awaited());
}

// A rank that sends nothing in what it has posted does not say what that is.
void CorrectedOperations::ask_awaited(Patience::Time now) {
  if (finished_ >= window_.next() || !patience_.is_over(finished_, now)) return;
  for (Rank rank : window_.operation(finished_).awaited()) communicator_.ask_whether_left(rank);
  if (context_.is_stopping()) return;
  window_.say_waiting(outbox_);
  flush();
}

// When all that this rank has posted is finished it says so, and then waits for the answers of those that live.
bool CorrectedOperations::is_through() {
  if (!window_.idle()) return false;
  if (!window_.has_left()) {
    window_.leave();
    communicator_.say_leaves(false);
    collect();
  }
  for (Rank rank = 0; rank < communicator_.size(); ++rank)
    if (rank != me_ && !lets_us_go_[static_cast<std::size_t>(rank)] &&
        !context_.is_gone(communicator_.context_rank(rank)) &&
        !context_.transport().is_unconnected(communicator_.context_rank(rank)))
      return false;
  return true;
}

// ---- events ---------------------------------------------------------------------------------------------------------

void CorrectedOperations::on_message(const WireHeader& header, const Message& message) {
  if (!window_.acceptable(message.operation)) return context_.communicators().note_stale();  // see accepts()
  if (message.operation >= window_.dropped_upto() && message.operation < window_.next()) {
    const auto epoch = static_cast<std::uint16_t>(window_.operation(message.operation).members().excluded().size());
    if (header.epoch != epoch)
      return context_.communicators().note_stale();  // planned with another membership: its sender is dead
  }
  if (message.peer >= 0 && message.peer < communicator_.size())
    if (auto& heard = heard_of_[static_cast<std::size_t>(message.peer)];
        heard.load(std::memory_order_relaxed) <= message.operation)
      heard.store(message.operation + 1, std::memory_order_relaxed);
  window_.on_message(message, outbox_);
  flush();
  collect();
}

void CorrectedOperations::on_failure(Rank rank) {
  window_.on_failure(rank, outbox_);
  flush();
  collect();
}

void CorrectedOperations::on_leaves(Rank rank, OperationNumber from, bool is_gone) {
  lets_us_go_[static_cast<std::size_t>(rank)] = true;  // it has finished all that it has posted
  window_.on_leave(rank, from);
  collect();
  if (is_gone && window_.is_needed(rank)) on_left(rank, true);
}

void CorrectedOperations::on_left(Rank rank, bool was_needed) {
  window_.on_left(rank, was_needed, outbox_);
  flush();
  collect();
}

void CorrectedOperations::on_turn() {
  if (window_.wants_turn()) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    window_.on_turn(outbox_, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                    context_.transport().waiting() == 0);
    flush();
  }
  for (std::size_t i = 0; i < copying_.size();) {
    Request& request = *copying_[i];
    if (is_needed(request)) {
      ++i;
      continue;
    }
    copy_out(request);
    copying_.erase(copying_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void CorrectedOperations::exclude_self(ucft_status_t why) {
  Buffers& buffers = context_.transport().buffers();
  // Memory that the caller has lent is the caller's own again in a moment.
  const auto lends = [](const Request* request) { return request != nullptr && request->lent_input != no_buffer; };
  if (std::ranges::any_of(requests_, lends) || std::ranges::any_of(copying_, lends))
    context_.transport().cut_messages();
  const auto give_up = [&](Request& request) {
    buffers.release(request.value);
    buffers.release(request.lent_input);
    request.value = {};
    request.lent_input = no_buffer;
    request.give_up(why);
    request.state = Request::State::complete;
    --pending_;
  };
  for (Request*& request : requests_) {
    if (request != nullptr && request->pending()) give_up(*request);
    request = nullptr;
  }
  for (Request* request : copying_) give_up(*request);
  copying_.clear();
}

void CorrectedOperations::flush() {
  if (outbox_.empty()) return;
  Transport& transport = context_.transport();
  WireStamp wire{context_.cookie(), communicator_.id(), 0, me_};
  for (const Message& send : outbox_.sends()) {
    UCFT_TEST_POINT(send);
    wire.epoch = static_cast<std::uint16_t>(window_.operation(send.operation).members().excluded().size());
    transport.send(communicator_.context_rank(send.peer), send, wire);
    transport.buffers().release(send.value);
    transport.buffers().release(send.list);
  }
  outbox_.clear();
  transport.ring_doorbells();
}

void CorrectedOperations::collect() {
  take_completed();
  for (Rank leaver; (leaver = window_.take_leaver(outbox_)) != no_rank;) {
    flush();
    if (!window_.has_left())  // else it has been told more
      context_.transport().send_control(communicator_.context_rank(leaver), Control::lets_go, communicator_.id());
    context_.transport().ring_doorbells();
    take_completed();
  }
}

void CorrectedOperations::take_completed() {
  if (window_.completed().empty()) return;
  while (finished_ < window_.next() && (finished_ < window_.dropped_upto() || window_.operation(finished_).finished()))
    ++finished_;
  published_.note_finished(finished_);
  for (OperationNumber number : window_.completed()) {
    Request*& request = slot(number);
    if (request != nullptr && request->number == number && request->state == Request::State::active) {
      Request& finished = *request;
      request = nullptr;
      complete(finished, window_.operation(number));
    }
  }
  window_.clear_completed();
  if (window_.is_out()) context_.exclude_self();  // the others have decided to go on without us
}

void CorrectedOperations::complete(Request& request, const Operation& operation) {
  const Decision& decision = operation.decision();
  Buffers& buffers = context_.transport().buffers();
  const bool knows = request.take_outcome(
      {decision.outcome, decision.contributors, static_cast<std::uint32_t>(operation.attempts()), decision.culprit},
      me_, communicator_.size());
  request.missing_known = request.missing_known && !decision.truncated;
  if (request.missing_known && request.missing_count > 0) {
    request.missing = operation.members().excluded();
    const auto* list = reinterpret_cast<const std::uint32_t*>(buffers.data(decision.list));
    for (std::uint32_t i = 0; i < decision.list_length; ++i)
      if ((list[i] & contributed_bit) == 0) request.missing.push_back(static_cast<std::int32_t>(list[i]));
    std::sort(request.missing.begin(), request.missing.end());
  }
  if (knows && decision.value && is_one_of(operation.row().gets, request.arguments.root == me_)) {
    request.value = decision.value;
    buffers.retain(request.value);
  }
  if (is_needed(request)) {
    request.state = Request::State::copying;
    copying_.push_back(&request);
    return;
  }
  copy_out(request);
}

// By peers that read its input. Or for its turns: a broadcast by gossip has sent nothing when its root has its result.
// And a caller that has returned may stay away.
bool CorrectedOperations::is_needed(const Request& request) const {
  const Buffers& buffers = context_.transport().buffers();
  if (request.lent_input != no_buffer && buffers.references(request.lent_input) > 1) return true;
  return request.arguments.by_gossip() && request.number >= window_.dropped_upto() &&
         window_.operation(request.number).owes_turn();
}

void CorrectedOperations::copy_out(Request& request) {
  Buffers& buffers = context_.transport().buffers();
  if (request.value) {
    request.copy_result({buffers.data(request.value), request.value.bytes}, communicator_.size());
    buffers.release(request.value);
    request.value = {};
  }
  buffers.release(request.lent_input);
  request.lent_input = no_buffer;
  request.state = Request::State::complete;
  --pending_;
}

}  // namespace ucft::detail

#include "ucx_layer/runtime/quorum_driver.hpp"

#include <cstring>
#include <thread>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/runtime/default_rounding.hpp"

namespace ucft::detail {

QuorumDriver::QuorumDriver(Communicator& communicator)
    : communicator_(communicator),
      value_(communicator.rank(), communicator.size(), communicator.context().transport().buffers()),
      lines_(static_cast<std::size_t>(communicator.size())) {}

void QuorumDriver::tell_time() {
  value_.on_time(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

ucft_status_t QuorumDriver::post(Request& request) {
  Context& context = communicator_.context();
  for (int looks = 0; looks < 16 && value_.leads() && context.transport().poll(); ++looks) {}  // do others wait for it?
  if (context.excluded()) return context.why_excluded();
  if (requests_.size() >= in_flight) return UCFT_ERR_BUSY;
  const Arguments& arguments = request.arguments;
  const std::uint64_t bytes = arguments.bytes();
  const BufferId body = value_.allocate_post(bytes);
  if (body == no_buffer) return UCFT_ERR_NO_MEMORY;  // nothing was said: it is late, if it does not try again
  std::byte* const to = context.transport().buffers().data(Quorum::value_of_post(body, bytes));
  if (arguments.reduction.widens())
    widen(arguments.reduction, to, request.send, arguments.count);
  else if (bytes > 0)
    std::memcpy(to, request.send, bytes);
  request.state = Request::State::active;
  request.number = value_.posted();
  requests_.push_back(&request);
  context.communicators().note_pending(1);
  const QuorumRequest& its = *request.quorum;
  tell_time();
  [[maybe_unused]] const DefaultRounding rounding;
  value_.post(
      {&request, arguments.reduction.of_carriers(), bytes, its.signature(arguments), its.quorum, its.deadline_ns},
      body);
  flush();
  return UCFT_OK;
}

void QuorumDriver::on_message(const WireHeader& header, const Message& message) {
  QuorumLetter letter = parse_quorum(header);
  letter.body = message.value;
  if (letter.peer < 0 || letter.peer >= communicator_.size() || value_.is_gone(letter.peer)) return;
  Buffers& buffers = communicator_.context().transport().buffers();
  Line& line = lines_[static_cast<std::size_t>(letter.peer)];
  if (header.quorum.number < line.taken) return communicator_.context().communicators().note_stale();
  if (header.quorum.number > line.taken) {  // it has overtaken others
    UCFT_SOMETIMES("a letter of a quorum has overtaken another one");
    buffers.retain(letter.body);
    if (!line.early.emplace(header.quorum.number, letter).second) buffers.release(letter.body);
    return;
  }
  tell_time();
  [[maybe_unused]] const DefaultRounding rounding;
  for (bool is_early = false;; is_early = true) {
    ++line.taken;
    value_.on_letter(letter);
    if (is_early) buffers.release(letter.body);
    const auto next = line.early.find(line.taken);
    if (next == line.early.end()) break;
    letter = next->second;
    line.early.erase(next);
  }
  flush();
}

QuorumDriver::~QuorumDriver() {
  for (Line& line : lines_) release_early(line);
}

void QuorumDriver::release_early(Line& line) {
  for (const auto& [number, letter] : line.early) communicator_.context().transport().buffers().release(letter.body);
  line.early.clear();
}

void QuorumDriver::on_gone(Rank rank) {
  release_early(lines_[static_cast<std::size_t>(rank)]);
  tell_time();
  [[maybe_unused]] const DefaultRounding rounding;
  value_.on_gone(rank);
  flush();
}

bool QuorumDriver::on_turn() {
  if (wants_turn()) ask_awaited(std::chrono::steady_clock::now());  // also where no caller is inside
  if (!value_.wants_time()) return false;
  tell_time();
  [[maybe_unused]] const DefaultRounding rounding;
  value_.on_turn();
  const bool has_news = !value_.letters().empty() || !value_.completions().empty();
  flush();
  return has_news;
}

// Its last letters must be in the others' memory before that says that it has left. A rank that does not read it in
// time may get a result of its own. A rank that has left meanwhile reads none, and is not waited for.
void QuorumDriver::leave() {
  makes_connections_ = value_.leads();
  value_.leave();
  flush();
  makes_connections_ = false;
  if (!communicator_.is_on_host()) return;
  Context& context = communicator_.context();
  Transport& transport = context.transport();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (transport.waiting() > 0 && !context.excluded() && std::chrono::steady_clock::now() < limit) {
    if (!transport.poll()) std::this_thread::yield();
    transport.ring_doorbells();
    context.look_for_departures();
  }
  for (Rank rank = 0; rank < communicator_.size(); ++rank)  // it is in no list that is told
    if (const std::int32_t peer = communicator_.context_rank(rank); context.is_final(peer))
      communicator_.on_death(peer);
}

void QuorumDriver::flush() {
  Context& context = communicator_.context();
  Transport& transport = context.transport();
  const bool has_letters = !value_.letters().empty();
  const WireStamp stamp{context.cookie(), communicator_.id(), 0, communicator_.rank()};
  for (const QuorumLetter& letter : value_.letters()) {
    const std::int32_t to = communicator_.context_rank(letter.peer);
    // For its last words a rank makes no new connections, but for those of a lead.
    if (!communicator_.has_left() || makes_connections_ || !transport.is_unconnected(to)) {
      communicator_.note_letter_to(letter.peer);
      transport.send(to, letter, lines_[static_cast<std::size_t>(letter.peer)].sent++, stamp);
      context.want_answers_of(to);
    }
    transport.buffers().release(letter.body);
  }
  value_.letters().clear();
  if (has_letters) transport.ring_doorbells();
  bool is_out = false;
  for (const Quorum::Completion& each : value_.completions()) is_out |= !complete(each);
  value_.completions().clear();
  if (is_out && UCFT_SOMETIMES("a quorum that takes this rank for dead comes to it")) context.exclude_self();
}

// False: the others have taken this rank for dead. It is their result: this rank is to learn that it is out.
bool QuorumDriver::complete(const Quorum::Completion& completion) {
  auto& request = *static_cast<Request*>(completion.id);
  Buffers& buffers = communicator_.context().transport().buffers();
  if (completion.result && !quorum_body::is_in(buffers, completion.result, communicator_.rank()) &&
      quorum_body::was_gone(buffers, completion.result, communicator_.size(), communicator_.rank())) {
    buffers.release(completion.result);
    return false;
  }
  request.missing.clear();
  request.quorum->late.clear();
  request.attempts = 1;
  request.culprit = no_rank;
  if (completion.result) {
    take(request, completion.result);
    buffers.release(completion.result);
  } else {
    request.give_up(UCFT_ERR_LATE);
    request.quorum->is_late = true;
  }
  end(request);
  return true;
}

void QuorumDriver::take(Request& request, Slice result) {
  const Buffers& buffers = communicator_.context().transport().buffers();
  const QuorumHead head = quorum_body::head(buffers, result);
  const Rank ranks = communicator_.size();
  std::uint32_t in = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const bool is_in = quorum_body::is_in(buffers, result, rank);
    in += is_in ? 1 : 0;
    if (!is_in && quorum_body::was_gone(buffers, result, ranks, rank))
      request.missing.push_back(rank);
    else if (!is_in)
      request.quorum->late.push_back(rank);
  }
  request.quorum->is_late = !quorum_body::is_in(buffers, result, communicator_.rank());
  request.status = status_of(static_cast<Outcome>(head.outcome));
  const Arguments& arguments = request.arguments;
  // A rank that is late was not compared with the others.
  if (request.status == UCFT_OK &&
      (head.bytes != arguments.bytes() || head.signature != request.quorum->signature(arguments))) {
    request.status = UCFT_ERR_MISMATCH;
    request.culprit = communicator_.rank();
  }
  if (request.status != UCFT_OK) {
    const Rank culprit = request.culprit != no_rank ? request.culprit : head.culprit;
    request.give_up(request.status);
    request.culprit = culprit;
    return;
  }
  request.contributors = in;
  request.missing_known = true;
  request.missing_count = static_cast<std::int32_t>(request.missing.size());
  const Slice value = quorum_body::value(result, head);
  if (arguments.reduction.finishes())
    request.finish_part(0, buffers.data(value), value.bytes, in);
  else if (value.bytes > 0)
    std::memcpy(request.receive, buffers.data(value), value.bytes);
}

void QuorumDriver::end(Request& request) {
  request.state = Request::State::complete;
  std::erase(requests_, &request);
  awaited_since_ = {};
  communicator_.context().communicators().note_pending(-1);
}

void QuorumDriver::exclude_self(ucft_status_t why) {
  value_.clear();
  for (Line& line : lines_) release_early(line);
  while (!requests_.empty()) {
    Request& request = *requests_.front();
    request.give_up(why);
    end(request);
  }
}

void QuorumDriver::ask_awaited(std::chrono::steady_clock::time_point now) {
  constexpr auto long_enough = std::chrono::milliseconds(50);
  if (communicator_.is_on_host() || !wants_turn()) return;
  if (awaited_since_ == std::chrono::steady_clock::time_point{}) awaited_since_ = now;
  if (now - awaited_since_ < long_enough) return;
  awaited_since_ = now;
  for (Rank rank = 0; rank < communicator_.size(); ++rank)
    if (rank != communicator_.rank() && !value_.is_gone(rank)) communicator_.ask_whether_left(rank);
}

}  // namespace ucft::detail

#include "ucx_layer/runtime/two_level_operations.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <new>
#include <numeric>

#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

bool TwoLevelOperations::fits(const std::vector<std::int32_t>& ranks, const Context& context) {
  if (context.settings().algorithm != Algorithm::automatic) return false;
  std::vector<std::int32_t> hosts = context.hosts_of(ranks);
  const auto can = [&](std::int32_t rank) {
    return context.job().peer(rank).may_share && context.job().peer(rank).may_prove;
  };
  if (!std::ranges::all_of(ranks, can)) return false;
  std::ranges::sort(hosts);
  const auto different = std::unique(hosts.begin(), hosts.end()) - hosts.begin();
  return different > 1 && different < static_cast<std::ptrdiff_t>(ranks.size());
}

TwoLevelOperations::Places TwoLevelOperations::places_of(const Communicator& communicator, const Context& context) {
  const std::vector<std::int32_t> first = context.hosts_of(communicator.ranks());
  Places places;
  places.rank_at.resize(first.size());
  places.place_of.resize(first.size());
  std::iota(places.rank_at.begin(), places.rank_at.end(), 0);
  const auto host_of = [&](Rank rank) { return first[static_cast<std::size_t>(rank)]; };
  std::ranges::stable_sort(places.rank_at, {}, host_of);
  Host host = -1;
  std::int32_t last = -1;
  for (std::size_t place = 0; place < first.size(); ++place) {
    const Rank rank = places.rank_at[place];
    places.place_of[static_cast<std::size_t>(rank)] = static_cast<Rank>(place);
    if (host_of(rank) != last) ++host;
    last = host_of(rank);
    places.hosts.push_back(host);
    if (last != host_of(communicator.rank())) continue;
    if (places.here++ == 0) places.first_here = static_cast<Rank>(place);
  }
  return places;
}

std::vector<Host> TwoLevelOperations::hosts_by_rank() const {
  std::vector<Host> hosts;
  for (Rank rank = 0; rank < communicator_.size(); ++rank) hosts.push_back(host_of(rank));
  return hosts;
}

// Of the context, in the order of places.
std::vector<std::int32_t> TwoLevelOperations::ranks_here() const {
  std::vector<std::int32_t> ranks;
  for (Rank each = 0; each < places_.here; ++each)
    ranks.push_back(communicator_.context_rank(places_.rank_at[static_cast<std::size_t>(places_.first_here + each)]));
  return ranks;
}

Communicator* TwoLevelOperations::make_local() {
  if (places_.here == 1) return nullptr;
  Communicator* const made =
      context_.communicators().create(communicator_id::of(communicator_.id(), communicator_id::on_host), ranks_here());
  made->make_part();
  context_.communicators().note_part();
  return made;
}

TwoLevelOperations::TwoLevelOperations(Communicator& communicator, Context& context)
    : communicator_(communicator),
      context_(context),
      me_(communicator.rank()),
      places_(places_of(communicator, context)),
      local_(make_local()),
      journal_(communicator_id::of(communicator.id(), communicator_id::journal_of_host), ranks_here(),
               local_rank_of(me_), context, [this](OperationNumber call) { return contribution_of(call); }),
      member_({places_.place_of[static_cast<std::size_t>(me_)], &places_.hosts, context.settings().window, true},
              journal_, *this, context.transport().buffers()),
      published_(std::in_place, communicator.id(), me_, communicator.size(), *context.transport().control()) {}

TwoLevelOperations::~TwoLevelOperations() {
  retire();
  member_.release_rooms();
}

void TwoLevelOperations::retire() {
  published_.reset();
  for (const HostMember::Packet& packet : member_.outbox()) {
    context_.transport().buffers().release(packet.message.value);
    context_.transport().buffers().release(packet.message.list);
  }
  member_.outbox().clear();
  member_.release_all();
  parts_.clear();
}

std::vector<Communicator*> TwoLevelOperations::parts() const {
  if (local_ == nullptr) return {};
  return {local_};
}

TwoLevelOperations::Part::~Part() {
  buffers.release(in_place.room);
  for (const HostContribution::Piece& piece : contribution.pieces) buffers.release(piece.data);
}

// ---- on this host ---------------------------------------------------------------------------------------------------

ucft_status_t TwoLevelOperations::post(Request& request) {
  if (context_.excluded()) return context_.why_excluded();
  if (const ucft_status_t status = post(request.arguments, &request); status != UCFT_OK) return status;
  advance();
  return UCFT_OK;
}

ucft_status_t TwoLevelOperations::post(const Arguments& arguments, Request* caller) {
  if (parts_.size() >= static_cast<std::size_t>(context_.settings().window)) {
    advance();
    if (context_.excluded()) return context_.why_excluded();
    if (parts_.size() >= static_cast<std::size_t>(context_.settings().window)) return UCFT_ERR_BUSY;
  }
  auto part = std::make_unique<Part>(context_.transport().buffers());
  part->caller = caller;
  part->contribution.call = calls_;
  part->contribution.arguments = arguments;
  try {
    if (!begin(*part, arguments)) return UCFT_ERR_BUSY;
  } catch (const std::bad_alloc&) {  // its data are wanted by all
    context_.stand_aside("this rank has no memory for its part in an operation: the others go on without it");
    return context_.why_excluded();
  }
  if (caller != nullptr) {
    caller->state = Request::State::active;
    caller->number = calls_;
    ++pending_;
    published_->note_posted(arguments, calls_);
  }
  parts_.push_back(std::move(part));
  ++calls_;
  return UCFT_OK;
}

// False: not now.
bool TwoLevelOperations::begin(Part& part, const Arguments& arguments) {
  HostContribution& mine = part.contribution;
  const Request* const caller = part.caller;
  // Root and kind are compared, too, where the operations between hosts, or on a host, would not show a difference.
  const std::uint64_t told_apart =
      static_cast<std::uint64_t>(arguments.root + 1) << 20 ^ static_cast<std::uint64_t>(arguments.kind) << 56;
  mine.arguments.layout ^= told_apart;
  mine.arguments.root = host_of(arguments.root);
  mine.arguments.f = std::min(arguments.f, places_.hosts.back());
  mine.arguments.blocks = arguments.kind == Kind::allgather ? communicator_.size() : 0;
  Request& request = part.request;
  request.arguments = arguments;
  request.arguments.layout ^= told_apart;
  request.arguments.root = 0;
  request.arguments.failure_info = FailureInfo::list;
  request.options.reproducible_sweeps = 1;  // what is wanted is accumulators
  request.send = caller == nullptr ? nullptr : caller->send;
  switch (arguments.kind) {
    case Kind::allreduce:
    case Kind::reduce:
      request.arguments.kind = Kind::allreduce;
      request.arguments.reduction = arguments.reduction.of_carriers();
      if (goes_in_pieces(arguments)) request.in_place = &part.in_place;
      request.lacks_memory = !part.value.make(arguments.bytes());
      if (!arguments.reduction.widens()) break;
      request.lacks_memory |= !part.give.make(arguments.bytes());
      if (request.lacks_memory) break;
      widen(arguments.reduction, part.give.data(), request.send, arguments.count);
      request.send = part.give.data();
      break;
    case Kind::barrier: break;
    case Kind::broadcast: begin_broadcast(part, arguments); break;
    case Kind::allgather: begin_blocks(part); break;
  }
  request.lacks_memory |= !has_memory_for(mine.arguments);
  request.receive = part.value.data();
  request.communicator = local_;
  if (local_ == nullptr) {
    if (part.value.size() > 0 && !request.lacks_memory) std::memcpy(part.value.data(), request.send, part.value.size());
    request.status = request.lacks_memory ? UCFT_ERR_NO_MEMORY : UCFT_OK;
    request.contributors = 1;
    request.missing_known = true;
    request.state = Request::State::complete;
    return true;
  }
  local_->plan(request);
  if (request.lacks_memory) request.shortcut.reset();
  return local_->post(request) == UCFT_OK;
}

// Between hosts. Fetches the memory that this rank's replica of the host will need. Others can still be told now that
// it is not there.
bool TwoLevelOperations::has_memory_for(const Arguments& arguments) const {
  const std::uint64_t bytes =
      with_collective(arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, hosts()); });
  if (bytes <= inline_limit) return true;
  Buffers& buffers = context_.transport().buffers();
  std::vector<BufferId> fetched(2 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(hosts()))));
  bool all = true;
  for (BufferId& each : fetched) all = all && (each = buffers.allocate(bytes)) != no_buffer;
  for (BufferId each : fetched) buffers.release(each);
  return all;
}

// A sum that hosts exchange in blocks may stay in the memory of the ranks that have combined it: a rank that does not
// speak needs no copy. Without a death it is not needed any more when all hosts have it, so that memory is free soon.
bool TwoLevelOperations::goes_in_pieces(const Arguments& arguments) const {
  return arguments.kind == Kind::allreduce && local_ != nullptr && !Optimism().goes_whole(arguments.bytes(), hosts());
}

// Each call is one operation here in which all read what all have posted, so that it is compared. A broadcast from here
// gathers the root's block alone, one from elsewhere nothing.
void TwoLevelOperations::begin_broadcast(Part& part, const Arguments& arguments) {
  Request& request = part.request;
  const std::uint64_t bytes = arguments.bytes();
  request.arguments.kind = Kind::barrier;
  request.arguments.count = 0;
  if (!is_here(arguments.root)) return;
  request.arguments.kind = Kind::allgather;
  request.arguments.reduction = {DataType::uint8, Operator::none};
  request.arguments.count = bytes;
  request.arguments.own_count = arguments.root == me_ ? bytes : 0;
  request.layout.bytes.assign(static_cast<std::size_t>(places_.here), 0);
  request.layout.offsets.assign(static_cast<std::size_t>(places_.here), 0);
  request.layout.bytes[static_cast<std::size_t>(local_rank_of(arguments.root))] = bytes;
  request.lacks_memory = !part.value.make(bytes);
}

// Each rank's block is a record, as it is in a set of blocks.
void TwoLevelOperations::begin_blocks(Part& part) {
  Arguments& arguments = part.request.arguments;
  const Request& caller = *part.caller;
  const std::uint64_t mine = Allgather::input_bytes(arguments);
  part.request.lacks_memory = !part.give.make(mine);
  if (!part.request.lacks_memory) Allgather::pack(arguments, me_, caller.send, part.give.data());
  part.request.send = part.give.data();
  std::uint64_t all = 0;
  for (Rank each = 0; each < places_.here; ++each) {
    const Rank rank = places_.rank_at[static_cast<std::size_t>(places_.first_here + each)];
    part.request.layout.bytes.push_back(Allgather::record_bytes(caller.layout.bytes_of(rank)));
    part.request.layout.offsets.push_back(all);
    all += part.request.layout.bytes.back();
  }
  arguments.reduction = {DataType::uint8, Operator::none};
  arguments.own_count = mine;
  arguments.count = all;
  part.request.lacks_memory |= !part.value.make(all);
}

// The outcome of the host's own operation is its contribution, the same on all of its ranks.
void TwoLevelOperations::finish_local(Part& part) {
  const Request& request = part.request;
  HostContribution& mine = part.contribution;
  const bool is_broadcast = mine.arguments.kind == Kind::broadcast;
  part.is_done = true;
  if (request.status == UCFT_ERR_MISMATCH) {  // the same on all ranks here, and like nothing of another host
    mine.arguments = Arguments{};
    mine.arguments.kind = Kind::barrier;
    mine.arguments.layout = ~std::uint64_t{0};
    mine.contributors = 1;
    mine.has_value = true;
    return;
  }
  const Rank root =
      is_broadcast && is_here(part.caller->arguments.root) ? local_rank_of(part.caller->arguments.root) : no_rank;
  mine.root_died = request.status == UCFT_OK && std::ranges::find(request.missing, root) != request.missing.end();
  if (request.status != UCFT_OK && !mine.root_died)
    mine.lacking = places_.first_here + (local_ == nullptr ? 0 : std::max(request.culprit, 0));
  mine.has_value = request.status == UCFT_OK && !mine.root_died && (!is_broadcast || root != no_rank);
  if (mine.arguments.kind == Kind::allgather && mine.has_value) gather_blocks(part);
  if (mine.has_value) {
    mine.value = part.value.bytes();
    mine.block = part.value.slice();
    mine.room = part.in_place.room;
    for (const auto& [offset, data, bytes] : part.in_place.pieces)
      mine.pieces.push_back(
          {static_cast<std::uint32_t>(offset), part.buffers.whole(part.buffers.adopt(data, bytes, untold))});
  }
  mine.contributors = is_broadcast ? 1 : request.contributors;
  if (is_broadcast) return;
  for (Rank each : request.missing) mine.missing.push_back(places_.first_here + each);
}

void TwoLevelOperations::gather_blocks(Part& part) {
  const BlockLayout& layout = part.request.layout;
  std::uint64_t there = 0;
  for (Rank each = 0; each < places_.here && local_ != nullptr; ++each) {
    if (std::ranges::find(part.request.missing, each) != part.request.missing.end()) continue;
    std::memmove(part.value.data() + there, part.value.data() + layout.offset_of(each), layout.bytes_of(each));
    there += layout.bytes_of(each);
  }
  if (local_ != nullptr) part.value.shrink(there);
}

// Of this host until all have given, then of others.
void TwoLevelOperations::note_awaited() {
  if (parts_.empty()) return;
  const Part& oldest = *parts_.front();
  const bool here = !oldest.is_done && local_ != nullptr;
  std::vector<Rank> ranks = here ? local_->awaited(oldest.request) : member_.awaited(first_part_);
  for (Rank& rank : ranks) rank = places_.rank_at[static_cast<std::size_t>(here ? places_.first_here + rank : rank)];
  published_->note_awaited(std::move(ranks));
}

// Of other hosts, see CorrectedOperations.
void TwoLevelOperations::ask_awaited(Patience::Time now) {
  if (is_over_ || parts_.empty() || !parts_.front()->is_done || !member_.speaks()) return;
  if (!patience_.is_over(first_part_, now)) return;
  for (Rank place : member_.awaited(first_part_))
    communicator_.ask_whether_left(places_.rank_at[static_cast<std::size_t>(place)]);
  if (context_.is_stopping()) return;
  if (!member_.say_waiting()) patience_.try_again();
  flush();
}

const HostContribution* TwoLevelOperations::contribution_of(OperationNumber call) const {
  if (call < first_part_ || call >= calls_) return nullptr;
  const Part& part = *parts_[call - first_part_];
  return part.is_done ? &part.contribution : nullptr;
}

// ---- between hosts --------------------------------------------------------------------------------------------------

// Goes as far as the arrived data allow.
bool TwoLevelOperations::advance() {
  const std::uint64_t before = member_.entries();
  if (local_ != nullptr) local_->progress_part();
  for (const auto& part : parts_)
    if (!part->is_done && !part->request.pending()) finish_local(*part);
  for (Rank dead; (dead = journal_.advance()) != no_rank;) member_.on_failure(places_.first_here + dead);
  member_.look();
  offer();
  flush();
  if (member_.lost() || journal_.lacks_memory())
    context_.stand_aside("this rank has no memory for what its host takes in: the others go on without it");
  return member_.entries() != before;
}

void TwoLevelOperations::offer() {
  while (member_.wants_contribution()) {
    const HostContribution* const mine = contribution_of(member_.next_call());
    if (mine == nullptr) return;
    member_.on_contribution(*mine);
  }
}

void TwoLevelOperations::flush() {
  if (member_.process().window().is_out()) context_.exclude_self();
  if (member_.outbox().empty()) return;
  Transport& transport = context_.transport();
  WireStamp wire{context_.cookie(), communicator_.id(), 0, me_};
  for (const HostMember::Packet& packet : member_.outbox()) {
    const std::int32_t to = communicator_.context_rank(places_.rank_at[static_cast<std::size_t>(packet.to)]);
    // A rank that leaves makes no new connections. The other rank may be about to leave, too, and it will ask if it has
    // to know.
    if ((packet.place == HostMember::we_leave || context_.is_stopping()) && transport.is_unconnected(to)) {
      if (packet.place == HostMember::we_leave) member_.excuse(packet.message.peer);
      transport.buffers().release(packet.message.value);
      transport.buffers().release(packet.message.list);
      continue;
    }
    UCFT_TEST_POINT(send);
    wire.epoch = static_cast<std::uint16_t>(packet.place);
    transport.send(to, packet.message, wire);
    transport.buffers().release(packet.message.value);
    transport.buffers().release(packet.message.list);
  }
  member_.outbox().clear();
  transport.ring_doorbells();
}

void TwoLevelOperations::on_message(const WireHeader& header, Message message) {
  const Rank from = places_.place_of[static_cast<std::size_t>(message.peer)];
  message.peer = host_of(message.peer);
  if (message.peer == host_of(me_)) return context_.communicators().note_stale();
  member_.on_packet(from, header.epoch, message);
  flush();
}

// Those of this host are known by what they have not written any more.
void TwoLevelOperations::on_failure(Rank rank) {
  if (is_here(rank)) return;
  member_.on_failure(places_.place_of[static_cast<std::size_t>(rank)]);
  flush();
}

void TwoLevelOperations::on_left(Rank rank, bool was_needed) {
  if (is_here(rank)) return;
  member_.on_left(places_.place_of[static_cast<std::size_t>(rank)], was_needed);
  flush();
}

bool TwoLevelOperations::on_turn() {
  if (is_over_) return false;
  const bool active = advance();
  if (member_.wants_turn()) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    member_.on_turn(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                    context_.transport().waiting() == 0);
    flush();
  }
  if (!spreading_.empty()) finish_spread();
  return active;
}

void TwoLevelOperations::exclude_self(ucft_status_t why) {
  is_over_ = true;
  for (Request* request : std::exchange(spreading_, {})) {
    request->state = Request::State::complete;
    --pending_;
  }
  for (const auto& part : parts_) {
    if (part->caller == nullptr || part->is_complete) continue;
    part->is_complete = true;
    part->caller->give_up(why);
    part->caller->state = Request::State::complete;
    --pending_;
  }
}

// ---- results --------------------------------------------------------------------------------------------------------

void TwoLevelOperations::on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) {
  if (call == HostProcess::internal || call < first_part_) return;
  Part& part = *parts_[call - first_part_];
  part.is_complete = true;
  if (part.caller != nullptr) complete(*part.caller, part, number, value);
  while (!parts_.empty() && parts_.front()->is_complete) {
    parts_.pop_front();
    ++first_part_;
  }
  published_->note_finished(first_part_);
}

void TwoLevelOperations::complete(Request& request, const Part& part, OperationNumber number,
                                  std::span<const std::byte> value) {
  const Operation& operation = member_.process().operation(number);
  const Decision& decision = operation.decision();
  Rank culprit = member_.culprit(number);
  if (culprit != no_rank) culprit = places_.rank_at[static_cast<std::size_t>(culprit)];
  // The root of a reduce is told what has become of it; the other ranks of its host are not.
  const CatalogueRow& row = request.arguments.row();
  Outcome outcome = decision.outcome;
  if (row.rooted() && !row.disseminates && request.arguments.root != me_ &&
      (outcome == Outcome::too_many_failures || (outcome == Outcome::no_memory && culprit != me_)))
    outcome = Outcome::success;
  const bool knows =
      request.take_outcome({outcome, decision.contributors, static_cast<std::uint32_t>(operation.attempts()), culprit},
                           me_, communicator_.size());
  if (request.missing_known && request.missing_count > 0) {
    std::vector<Rank> places;
    request.missing_known = member_.missing(number, places);
    for (Rank place : places) request.missing.push_back(places_.rank_at[static_cast<std::size_t>(place)]);
    std::ranges::sort(request.missing);
  }
  if (knows && !value.empty() && is_one_of(request.arguments.row().gets, request.arguments.root == me_))
    request.copy_result(value, communicator_.size());
  if (part.request.status == UCFT_ERR_MISMATCH) {
    request.give_up(UCFT_ERR_MISMATCH);
    request.culprit = part.request.culprit < 0
                          ? -1
                          : places_.rank_at[static_cast<std::size_t>(places_.first_here + part.request.culprit)];
  }
  request.number = number;  // from here on, between hosts
  request.state = Request::State::copying;
  spreading_.push_back(&request);
  finish_spread();
}

// A broadcast by gossip may have sent nothing when its host has the result, and a caller that has returned may stay
// away. So the rank that speaks stays until all is sent.
void TwoLevelOperations::finish_spread() {
  const OperationWindow& window = member_.process().window();
  std::erase_if(spreading_, [&](Request* request) {
    if (member_.speaks() && request->arguments.by_gossip() && request->number >= window.dropped_upto() &&
        window.operation(request->number).owes_turn())
      return false;
    request->state = Request::State::complete;
    --pending_;
    return true;
  });
}

// ---- leaving --------------------------------------------------------------------------------------------------------

// It posts nothing on this host any more. The others' operations, here and elsewhere, go on without it.
void TwoLevelOperations::leave() {
  has_left_ = true;
  left_at_ = Clock::now();
  if (local_ != nullptr) local_->say_left_here();
  communicator_.say_leaves(false);
}

// After this rank has said so itself. Of two that leave at once at least one sees the other (HostSlabs::say_left).
bool TwoLevelOperations::is_last_here() {
  for (Rank rank = 0; local_ != nullptr && rank < local_->size(); ++rank)
    if (rank != local_->rank() && !local_->is_out_here(rank)) return false;
  return true;
}

// If others of this host stay, they have all that this rank knows, and it just goes. A rank that speaks waits a little
// first. Else all hosts would say again to another rank what they have said to it, and that one may be about to leave,
// too. The last one sees its host to the end.
bool TwoLevelOperations::is_through() {
  if (is_over_) return true;
  advance();
  if (!parts_.empty() || !spreading_.empty()) return false;
  const auto grace = std::chrono::milliseconds(context_.transport().connects_late() ? 1000 : 100);
  const bool is_last = is_last_here();
  if (!is_last && member_.speaks() && Clock::now() - left_at_ < grace) return false;
  if (is_last) {
    const bool has_ended = member_.leave();
    flush();
    if (!has_ended) return false;
  }
  go();
  return true;
}

void TwoLevelOperations::go() {
  is_over_ = true;
  for (Communicator* each : parts()) each->leave();
  journal_.leave();
  communicator_.say_leaves(true);
}

}  // namespace ucft::detail

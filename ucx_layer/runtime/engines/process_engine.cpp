#include "ucx_layer/runtime/engines/process_engine.hpp"

#include <algorithm>
#include <new>

#include "collectives/core/sometimes.hpp"
#include "collectives/on_host/host_copy.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

// Facts that all ranks know since start-up. An agreement of gossip is among ranks.
Places ProcessEngine::places_of(const Communicator& communicator, const Context& context) {
  const std::vector<std::int32_t>& ranks = communicator.ranks();
  const auto can = [&](std::int32_t rank) { return context.job().peer(rank).may_be_part_of_host(); };
  std::vector<std::int32_t> hosts;
  if (context.settings().algorithm == Algorithm::automatic && communicator_id::place_in(communicator.id()) == 0 &&
      std::ranges::all_of(ranks, can))
    hosts = context.hosts_of(ranks);
  Places places(hosts, communicator.size(), communicator.rank());
  if (places.process_count() > 1 && !places.are_ranks()) return places;
  return {{}, communicator.size(), communicator.rank()};  // in their order
}

// UCFT_ALGORITHM=corrected is the papers' protocol: f counts ranks, and deaths are expected from the first message on.
ProcessMember::Place ProcessEngine::place_in(const Places& places, Rank me, Optimism optimism,
                                             const Communicator& communicator, const Context& context) {
  const bool as_published = context.settings().algorithm == Algorithm::corrected;
  optimism.begins = !as_published;
  ProcessMember::Place place{places.place_of(me), &places.processes(), context.settings().window, optimism};
  if (places.are_ranks() && !as_published) place.failing_together = context.hosts_of(communicator.ranks());
  std::vector<bool> is_absent(static_cast<std::size_t>(places.process_count()), true);
  for (Rank rank = 0; rank < communicator.size(); ++rank)
    if (!communicator.is_absent(rank)) is_absent[static_cast<std::size_t>(places.process_of(rank))] = false;
  for (std::size_t process = 0; process < is_absent.size(); ++process)
    if (is_absent[process]) place.absent.push_back(static_cast<Rank>(process));
  return place;
}

// Of the context, by local rank.
std::vector<std::int32_t> ProcessEngine::ranks_here() const {
  std::vector<std::int32_t> ranks;
  for (Rank each = 0; each < places_.here(); ++each)
    ranks.push_back(communicator_.context_rank(places_.local_rank_at(each)));
  return ranks;
}

std::unique_ptr<Journal> ProcessEngine::make_journal() {
  if (places_.here() == 1) return std::make_unique<OwnJournal>();
  const Rank local = places_.local_rank_of(me_);
  on_host_ = std::make_unique<HostEngine>(communicator_id::of(communicator_.id(), communicator_id::on_host),
                                          ranks_here(), local, context_);
  on_host_->make_part();
  auto journal = std::make_unique<HostJournal>(
      communicator_id::of(communicator_.id(), communicator_id::journal_of_host), ranks_here(), local, context_,
      [this](OperationNumber call) { return contribution_of(call); });
  log_ = journal.get();
  return journal;
}

ProcessEngine::ProcessEngine(Communicator& communicator, Context& context)
    : communicator_(communicator),
      context_(context),
      me_(communicator.rank()),
      places_(places_of(communicator, context)),
      optimism_(context.settings().tuning.optimism_among(places_.process_count())),
      journal_(make_journal()),
      member_(place_in(places_, me_, optimism_, communicator, context), *journal_, *this,
              context.transport().buffers()),
      published_(std::in_place, communicator.id(), me_, communicator.size(), *context.transport().control()),
      heard_of_(places_.are_ranks() ? static_cast<std::size_t>(communicator.size()) : 0) {}

ProcessEngine::~ProcessEngine() {
  retire();
  member_.release_rooms();
}

void ProcessEngine::retire() {
  published_.reset();
  for (const ProcessMember::Packet& packet : member_.outbox()) release(packet.message);
  member_.outbox().clear();
  member_.release_all();
  parts_.clear();
  next_seal_.reset();
}

void ProcessEngine::release(const Message& message) {
  context_.transport().buffers().release(message.value);
  context_.transport().buffers().release(message.list);
}

std::vector<Rank> ProcessEngine::hosts_by_rank() const {
  std::vector<Rank> hosts;
  for (Rank rank = 0; !places_.are_ranks() && rank < places_.size(); ++rank) hosts.push_back(places_.process_of(rank));
  return hosts;
}

// ---- posting --------------------------------------------------------------------------------------------------------

ucft_status_t ProcessEngine::post(Request& request) {
  const auto is_full = [this] {
    return next_seal_ != nullptr || parts_.size() >= static_cast<std::size_t>(context_.settings().window);
  };
  if (is_full()) advance();
  if (context_.excluded()) return context_.why_excluded();
  if (is_full() && UCFT_SOMETIMES("a window is full")) return UCFT_ERR_BUSY;
  try {
    auto part = std::make_unique<LocalPart>(request, calls_, me_, places_, optimism_, on_host_.get(),
                                            context_.settings().f, context_.transport());
    std::unique_ptr<LocalPart> seal = request.arguments.uniform ? make_seal(request) : nullptr;
    if (!part->begin()) return UCFT_ERR_BUSY;
    parts_.push_back(std::move(part));
    next_seal_ = std::move(seal);
  } catch (const std::bad_alloc&) {  // its data are wanted by all
    context_.stand_aside("this rank has no memory for its part in an operation: the others go on without it");
    return context_.why_excluded();
  }
  request.state = Request::State::active;
  request.number = calls_;
  ++pending_;
  published_->note_posted(request.arguments, request.op(), calls_++);
  if (next_seal_ != nullptr) begin_seal();
  advance();
  return UCFT_OK;
}

// A rank that is through a barrier knows that all others have the result that was there before it. So its process gives
// to the barrier when it has the result. (`Uniform` in optimistic_explorer_test.)
std::unique_ptr<LocalPart> ProcessEngine::make_seal(Request& request) {
  request.awaits_seal = false;
  request.seal = std::make_unique<Request>();
  Request& barrier = *request.seal;
  barrier.sealed = &request;
  barrier.communicator = &communicator_;
  barrier.state = Request::State::active;
  barrier.arguments.kind = Kind::barrier;
  barrier.arguments.reduction = {DataType::uint64, Operator::none};
  barrier.arguments.f = request.arguments.f;
  return std::make_unique<LocalPart>(barrier, calls_ + 1, me_, places_, optimism_, on_host_.get(),
                                     context_.settings().f, context_.transport());
}

void ProcessEngine::begin_seal() {
  if (!next_seal_->begin()) return;
  parts_.push_back(std::move(next_seal_));
  published_->note_posted(parts_.back()->caller()->arguments, Operator::none, calls_++);
}

// Of this process until all of its ranks have given, then of others.
void ProcessEngine::note_awaited() {
  if (parts_.empty()) return;
  const LocalPart& oldest = *parts_.front();
  std::vector<Rank> ranks;
  if (oldest.contribution() == nullptr)
    ranks = oldest.awaited();
  else
    for (Rank place : member_.awaited(first_part_)) ranks.push_back(places_.rank_at(place));
  published_->note_awaited(std::move(ranks));
}

// Those of other processes. A rank that sends nothing in what it has posted does not say what that is. Behind the last
// part a barrier of the window's own may be left.
void ProcessEngine::ask_awaited(Patience::Time now) {
  if (is_over_ || !member_.speaks() || window().idle()) return;
  if (!parts_.empty() && parts_.front()->contribution() == nullptr) return;
  const OperationNumber oldest = parts_.empty() ? first_part_ - 1 : first_part_;
  if (!patience_.is_over(oldest, now)) return;
  for (Rank place : member_.awaited(oldest)) communicator_.ask_whether_left(places_.rank_at(place));
  if (context_.is_stopping()) return;
  UCFT_SOMETIMES("a rank asks those that it waits for");
  if (!member_.say_waiting()) patience_.try_again();
  flush();
}

std::int64_t ProcessEngine::heard_of(Rank rank) const {
  if (heard_of_.empty()) return -1;
  return static_cast<std::int64_t>(heard_of_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed));
}

// ---- the journal ----------------------------------------------------------------------------------------------------

const ProcessContribution* ProcessEngine::contribution_of(OperationNumber call) const {
  return call < first_part_ || call >= calls_ ? nullptr : parts_[call - first_part_]->contribution();
}

// Goes as far as the arrived data allow.
bool ProcessEngine::advance() {
  const std::uint64_t before = member_.entries();
  if (on_host_ != nullptr) {
    if (on_host_->wants_progress()) on_host_->progress();
    if (next_seal_ != nullptr) begin_seal();
    for (const auto& part : parts_) part->ends();
    for (Rank dead; (dead = log_->advance()) != no_rank;) member_.on_failure(places_.first_here() + dead);
    member_.look();
  }
  follow();
  return member_.entries() != before;
}

void ProcessEngine::follow() {
  offer();
  flush();
  const bool has_lost = std::ranges::any_of(parts_, [](const auto& part) { return part->has_lost(); });
  if (has_lost || member_.lost() || (log_ != nullptr && log_->lacks_memory()))
    context_.stand_aside("this rank has no memory for what its host takes in: the others go on without it");
}

void ProcessEngine::offer() {
  while (member_.wants_contribution()) {
    const ProcessContribution* const mine = contribution_of(member_.next_call());
    if (mine == nullptr || !may_offer(member_.next_call())) return;
    member_.on_contribution(*mine);
  }
}

// To a seal when the operation before it is through.
bool ProcessEngine::may_offer(OperationNumber call) const {
  const Request* const caller = parts_[call - first_part_]->caller();
  return caller == nullptr || caller->sealed == nullptr || call == first_part_ ||
         parts_[call - 1 - first_part_]->caller() == nullptr;
}

void ProcessEngine::flush() {
  if (window().is_out()) context_.exclude_self();
  if (member_.outbox().empty()) return;
  Transport& transport = context_.transport();
  WireStamp wire{context_.cookie(), communicator_.id(), 0, me_};
  for (const ProcessMember::Packet& packet : member_.outbox()) {
    const std::int32_t to = communicator_.context_rank(places_.rank_at(packet.to));
    // For words a rank that leaves makes no new connections. The other rank may be about to leave, too, and it will ask
    // if it has to know.
    if ((packet.place == ProcessMember::we_leave || (context_.is_stopping() && ProcessMember::is_word(packet.place))) &&
        transport.is_unconnected(to)) {
      if (packet.place == ProcessMember::we_leave) member_.excuse(packet.message.peer);
      release(packet.message);
      continue;
    }
    wire.place = static_cast<std::uint16_t>(packet.place);
    transport.send(to, packet.message, wire);
    release(packet.message);
  }
  member_.outbox().clear();
  transport.ring_doorbells();
}

// ---- events ---------------------------------------------------------------------------------------------------------

// Of ranks alone no packet is kept, as long as the ring that it comes by can keep it. A number that no live rank can
// have reached is taken, and dropped.
bool ProcessEngine::accepts(const WireHeader& header) const {
  if (!places_.are_ranks()) return member_.held() < most_held;
  return member_.is_word(header.place) || window().acceptable(header.operation) ||
         header.operation > window().next() + 8 * static_cast<OperationNumber>(context_.settings().window);
}

void ProcessEngine::on_message(const WireHeader& header, const Message& message) {
  const Rank from = message.peer;
  if (places_.is_here(from)) return context_.communicators().note_stale();
  if (places_.are_ranks()) {
    if (!member_.is_word(header.place) && !window().acceptable(header.operation))
      return context_.communicators().note_stale();
    if (!member_.is_word(header.place)) note_heard(from, message.operation);
  }
  Message of_process = message;
  of_process.peer = places_.process_of(from);
  if (!member_.on_packet(places_.place_of(from), header.place, of_process)) context_.communicators().note_stale();
  follow();
}

// As calls. How many of the operations that this rank has yet to begin are barriers of the window's own is not known:
// one at most. The next one is not if a call can be taken in.
void ProcessEngine::note_heard(Rank from, OperationNumber operation) {
  const ProcessReplica& process = member_.process();
  OperationNumber posted = process.calls() + operation - window().next();
  if (operation < window().next()) {
    if (operation < window().dropped_upto() || process.call_of(operation) == ProcessReplica::internal) return;
    posted = process.call_of(operation) + 1;
  } else if (operation == window().next() && process.ready()) {
    ++posted;
  }
  auto& heard = heard_of_[static_cast<std::size_t>(from)];
  if (heard.load(std::memory_order_relaxed) < posted) heard.store(posted, std::memory_order_relaxed);
}

// Of this process.
void ProcessEngine::on_death(Rank rank) {
  if (on_host_ == nullptr || !places_.is_here(rank)) return;
  on_host_->on_death(places_.local_rank_of(rank));
  log_->on_death(places_.local_rank_of(rank));
}

// Those of this process are known by what they have not written any more.
void ProcessEngine::on_failure(Rank rank) {
  if (places_.is_here(rank)) return;
  member_.on_failure(places_.place_of(rank));
  follow();
}

void ProcessEngine::on_left(Rank rank, bool was_needed) {
  if (places_.is_here(rank)) return;
  member_.on_left(places_.place_of(rank), was_needed);
  follow();
}

// A host leaves when its last rank does, and its speaker says so in a packet. A rank alone says so in a packet, too,
// and in a word: as an answer to a rank that it is not connected with, and for gossip.
void ProcessEngine::on_leaves(Rank rank, OperationNumber from, bool is_gone) {
  if (!places_.are_ranks()) {
    if (is_gone) on_left(rank, false);
    return;
  }
  member_.on_leave_word(places_.process_of(rank), from, is_gone);
  if (is_gone && window().is_needed(places_.process_of(rank))) member_.on_left(places_.place_of(rank), true);
  follow();
}

void ProcessEngine::on_let_go(Rank rank) {
  if (places_.are_ranks()) member_.excuse(places_.process_of(rank));
}

void ProcessEngine::note_left(Rank rank) { on_leaves(rank, window().finished_upto(), false); }

bool ProcessEngine::wants_turn() const {
  if (is_over_) return false;
  if (!needed_.empty() || member_.wants_turn()) return true;
  return on_host_ != nullptr && (has_left_ || !parts_.empty() || member_.held() > 0);
}

bool ProcessEngine::on_turn() {
  if (is_over_) return false;
  const bool active = on_host_ != nullptr && advance();
  if (member_.wants_turn()) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    member_.on_turn(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                    context_.transport().waiting() == 0);
    follow();
  }
  if (!needed_.empty()) give_back_needed();
  return active;
}

// Memory that callers have lent is their own again in a moment.
void ProcessEngine::exclude_self(ucft_status_t why) {
  is_over_ = true;
  if (on_host_ != nullptr) on_host_->exclude_self(why);
  std::vector<Request*> callers;
  if (!parts_.empty()) UCFT_SOMETIMES("a rank is excluded while operations run");
  const auto give_up = [&](LocalPart& part) {
    Request* const caller = part.take_caller();
    if (caller == nullptr) return;
    caller->give_up(why);
    callers.push_back(caller);
  };
  for (const auto& part : parts_) give_up(*part);
  if (next_seal_ != nullptr) give_up(*next_seal_);
  for (const Needed& each : std::exchange(needed_, {})) {
    if (each.value) each.request->give_up(why);
    context_.transport().buffers().release(each.value);
    callers.push_back(each.request);
  }
  const auto has_lent = [](const Request* each) {
    return each->lent_input != no_buffer || each->lent_output != no_buffer;
  };
  if (std::ranges::any_of(callers, has_lent) && UCFT_SOMETIMES("a rank is excluded that has lent its memory"))
    context_.transport().cut_messages();
  for (Request* caller : callers) give_back(*caller);
}

// ---- results --------------------------------------------------------------------------------------------------------

void ProcessEngine::on_given_up(Rank rank) { context_.give_up(communicator_.context_rank(places_.rank_at(rank))); }

void ProcessEngine::on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) {
  if (call == ProcessReplica::internal || call < first_part_) return;
  LocalPart& part = *parts_[call - first_part_];
  if (Request* const caller = part.take_caller(); caller != nullptr) complete(*caller, part, number, value);
  while (!parts_.empty() && parts_.front()->caller() == nullptr) {
    parts_.pop_front();
    ++first_part_;
  }
  published_->note_finished(first_part_);
}

void ProcessEngine::complete(Request& request, const LocalPart& part, OperationNumber number,
                             std::span<const std::byte> value) {
  const Operation& operation = member_.process().operation(number);
  const Decision& decision = operation.decision();
  Rank culprit = member_.culprit(number);
  if (culprit != no_rank) culprit = places_.rank_at(culprit);
  // The root of a reduce or gather is told what has become of it; the other ranks of its host are not.
  const CatalogueRow& row = request.arguments.row();
  Outcome outcome = decision.outcome;
  if (row.rooted() && !row.disseminates && request.arguments.root != me_ &&
      (outcome == Outcome::too_many_failures || (outcome == Outcome::no_memory && culprit != me_)))
    outcome = Outcome::success;
  const bool knows = request.take_outcome(
      {outcome, row.collects ? decision.contributors : 1, static_cast<std::uint32_t>(operation.attempts()), culprit},
      me_, communicator_.size());
  const bool goes_straight = operation.row().goes_straight;
  if (!goes_straight && request.missing_known && request.missing_count > 0) {
    std::vector<Rank> places;
    request.missing_known = member_.missing(number, places);
    for (Rank place : places) request.missing.push_back(places_.rank_at(place));
    std::ranges::sort(request.missing);
  }
  // A sum that has landed has no value.
  Needed needed{&request, number, {}};
  if (goes_straight && knows && row.from_root()) {
    take_share_of_root(request, operation, value);
  } else if (goes_straight && knows) {
    take_streams(request, operation, value);
  } else if (knows && !value.empty() && is_one_of(row.gets, request.arguments.root == me_)) {
    if (is_read(request.lent_output)) UCFT_SOMETIMES("peers still read a result that has landed");
    if (is_read(request.lent_output))
      context_.transport().buffers().retain(needed.value = decision.value);
    else
      request.copy_result(value, communicator_.size());
  } else {
    request.leave_out_later_ranks(communicator_.size());
  }
  if (part.has_mismatch()) {
    request.give_up(UCFT_ERR_MISMATCH);
    request.culprit = part.culprit();
  }
  request.state = Request::State::copying;
  needed_.push_back(needed);
  give_back_needed();
}

// Of an exchange: as LocalPart has made them. Nothing is written if one does not have the shares that this rank
// expects: then some rank gave other counts.
void ProcessEngine::take_streams(Request& request, const Operation& operation, std::span<const std::byte> value) const {
  const Rank ranks = communicator_.size();
  std::vector<std::optional<std::span<const std::byte>>> taken(static_cast<std::size_t>(ranks));
  Rank blamed = no_rank;
  const auto take = [&](Rank from, const std::optional<std::span<const std::byte>>& share) {
    auto& there = taken[static_cast<std::size_t>(from)];
    if (there || !share || share->size() != request.wanted_share(from, ranks).bytes)
      blamed = from;
    else
      there = share;
  };
  if (places_.are_ranks()) {
    const auto [offset, bytes] = request.given_share(me_, ranks);
    take(me_, bytes == 0 ? std::span<const std::byte>()
                         : std::span(static_cast<const std::byte*>(request.send) + offset, bytes));
  }
  const auto here = static_cast<std::size_t>(places_.local_rank_of(me_)),
             all_here = static_cast<std::size_t>(places_.here());
  for (Host process = 0; process < places_.process_count() && blamed == no_rank; ++process) {
    const auto* const its = operation.stream_of(process, context_.transport().buffers());
    if (its == nullptr || (places_.are_ranks() && process == places_.process_of(me_))) continue;
    const Rank first = first_rank_of(process);
    if (!its->is_whole || its->begin + its->bytes > value.size()) {
      blamed = first;
      break;
    }
    const std::span<const std::byte> stream = value.subspan(its->begin, its->bytes);
    if (places_.are_ranks()) {
      take(first, stream);
      continue;
    }
    const bool is_set = Blocks::for_each(stream, [&](Rank rank, std::span<const std::byte> block) {
      if (rank >= 0 && rank < ranks && places_.process_of(rank) == process)
        take(rank, PackedShares::find(block, here, all_here));
      else
        blamed = first;
    });
    if (!is_set) blamed = first;
  }
  if (blamed == no_rank) return request.take_shares(taken);
  request.give_up(UCFT_ERR_MISMATCH);
  request.culprit = blamed;
}

// Of an exchange from the root of a scatter: as LocalPart has made it.
void ProcessEngine::take_share_of_root(Request& request, const Operation& operation,
                                       std::span<const std::byte> value) const {
  const std::uint64_t element = request.arguments.reduction.carrier_bytes(), bytes = request.share.count * element;
  const Rank root = request.arguments.root;
  if (bytes == 0) return;
  if (places_.are_ranks() && root == me_) {
    const std::byte* const from = static_cast<const std::byte*>(request.send) + request.share.first * element;
    if (from != request.receive) host_copy(static_cast<std::byte*>(request.receive), from, bytes);
    return;
  }
  std::uint64_t offset = 0, all = 0;
  for (Rank each = 0; each < places_.here(); ++each) {
    const Rank rank = places_.local_rank_at(each);
    if (rank < me_) offset += request.layout.bytes_of(rank);
    all += request.layout.bytes_of(rank);
  }
  const auto* const stream = operation.stream_of(places_.process_of(root), context_.transport().buffers());
  if (stream != nullptr && stream->is_whole && stream->bytes == all && stream->begin + all <= value.size())
    return host_copy(static_cast<std::byte*>(request.receive), value.data() + stream->begin + offset, bytes);
  request.give_up(UCFT_ERR_MISMATCH);
  request.culprit = root;
}

Rank ProcessEngine::first_rank_of(Host process) const {
  return places_.rank_at(
      static_cast<Rank>(std::ranges::find(places_.processes(), process) - places_.processes().begin()));
}

// Of a caller, lent.
bool ProcessEngine::is_read(BufferId memory) const {
  return memory != no_buffer && context_.transport().buffers().references(memory) > 1;
}

// By peers that read its memory. Or for its turns: a broadcast by gossip may have sent nothing when its process has the
// result, and a caller that has returned may stay away. So the rank that speaks stays until all is sent.
bool ProcessEngine::is_needed(const Needed& needed) const {
  const Request& request = *needed.request;
  if (is_read(request.lent_input) || is_read(request.lent_output)) return true;
  return member_.speaks() && request.arguments.by_gossip() && needed.number >= window().dropped_upto() &&
         window().operation(needed.number).owes_turn();
}

void ProcessEngine::give_back_needed() {
  std::erase_if(needed_, [&](const Needed& each) {
    if (is_needed(each)) return false;
    Buffers& buffers = context_.transport().buffers();
    if (each.value) each.request->copy_result({buffers.data(each.value), each.value.bytes}, communicator_.size());
    buffers.release(each.value);
    give_back(*each.request);
    return true;
  });
}

void ProcessEngine::give_back(Request& request) {
  for (BufferId* const lent : {&request.lent_input, &request.lent_output})
    context_.transport().buffers().release(std::exchange(*lent, no_buffer));
  if (request.sealed != nullptr) {
    request.state = Request::State::complete;
    if (request.sealed->awaits_seal) hand_back(*request.sealed);
  } else if (request.seal != nullptr && request.seal->state != Request::State::complete) {
    request.awaits_seal = true;
  } else {
    hand_back(request);
  }
}

void ProcessEngine::hand_back(Request& request) {
  const bool has_seal_failed = request.seal != nullptr && request.seal->status != UCFT_OK;
  if (has_seal_failed && request.status == UCFT_OK) request.give_up(request.seal->status);
  request.seal.reset();
  request.state = Request::State::complete;
  --pending_;
}

// ---- leaving --------------------------------------------------------------------------------------------------------

// It posts nothing here any more. The others' operations, here and elsewhere, go on without it. Of a rank alone they do
// when it has finished its own.
void ProcessEngine::leave(OperationNumber) {
  has_left_ = true;
  left_at_ = Clock::now();
  if (on_host_ != nullptr) on_host_->say_left(0);
  if (!places_.are_ranks()) communicator_.say_leaves(false);
}

// If others of this host stay, they have all that this rank knows, and it just goes. A rank that speaks waits a little
// first. Else all hosts would say again to another rank what they have said to it, and that one may be about to leave,
// too. The last one sees its process to the end.
bool ProcessEngine::is_through() {
  if (is_over_) return true;
  advance();
  if (!parts_.empty() || !needed_.empty()) return false;
  const auto grace = std::chrono::milliseconds(context_.transport().connects_late() ? 1000 : 100);
  const bool is_last = on_host_ == nullptr || on_host_->is_last();
  if (!is_last && member_.speaks() && Clock::now() - left_at_ < grace) return false;
  if (!is_last && member_.speaks()) UCFT_SOMETIMES("a speaker leaves before others of its host");
  if (is_last && UCFT_SOMETIMES("the last rank of a host leaves")) {
    const bool has_ended = member_.leave();
    flush();
    if (places_.are_ranks() && window().has_left() && !std::exchange(has_told_, true)) communicator_.say_leaves(false);
    if (!has_ended) return false;
  }
  go();
  return true;
}

void ProcessEngine::go() {
  is_over_ = true;
  if (places_.are_ranks()) return;
  if (on_host_ != nullptr) {
    on_host_->leave(0);
    log_->leave();
  }
  communicator_.say_leaves(true);
}

bool ProcessEngine::end() {
  if (on_host_ == nullptr) return true;
  has_ended_on_host_ = has_ended_on_host_ || on_host_->end();
  return has_ended_on_host_ && log_->end();
}

}  // namespace ucft::detail

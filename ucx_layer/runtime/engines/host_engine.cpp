#include "ucx_layer/runtime/engines/host_engine.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstring>

#include "collectives/core/sometimes.hpp"
#include "collectives/on_host/host_copy.hpp"
#include "ucx_layer/observer/job_view.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/runtime/default_rounding.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint64_t lent_from = 2048;    // bytes: the caller's own memory is read, if it is shared
constexpr std::uint64_t least_block = 4096;  // more than Buffers::private_limit: so all have it mapped
constexpr std::uint64_t place_bytes = 1024;  // data of operations that run
constexpr OperationNumber place_count =
    16;  // more than UCFT_WINDOW usually is: all have read the overwritten data, and no rank must look
constexpr std::uint64_t block_alignment = 64;
constexpr std::uint64_t streamed_from = 8 << 20;  // bytes of a result: more than its caller would find in a cache
constexpr int patience = 64;                      // looks, before another inner node's work is done for it
static_assert(least_block > Buffers::private_limit);

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + block_alignment - 1) / block_alignment * block_alignment; }

void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == sizeof(HostWord))
    std::memcpy(to, from, sizeof(HostWord));
  else
    host_copy(to, from, bytes);
}

const std::byte* bytes_at(const void* memory) { return static_cast<const std::byte*>(memory); }

// Whether data may be read where the caller has them: as they are, by whole words, and nothing else is written there.
bool may_be_read_in_place(const Request& request, const HostCall& call) {
  return (request.send != request.receive || call.pattern.puts_side_by_side()) && !call.reduction.widens() &&
         reinterpret_cast<std::uintptr_t>(request.send) % sizeof(HostWord) == 0;
}

// Into lines that others have read, for others to read. A store to such a line first takes it from their caches. That
// lasts a few nanoseconds where these are near, and tens where they are far (other dies of the package). In the second
// case the store goes past the caches, and a reader pays less for that than this rank saves. Of many lines the first
// are timed, and tell whether the caches are far. Of a few lines the last known answer counts.
inline void stage(std::byte* to, const std::byte* from, std::uint64_t bytes, bool& are_far) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t lines = 64, first = lines * 64, worth_it = 4 * first;
  if (bytes < first) return copy(to, from, bytes);
  constexpr auto near = std::chrono::nanoseconds(14) * static_cast<int>(lines);
  std::uint64_t done = 0;
  if (bytes >= worth_it) {
    const Clock::time_point begin = Clock::now();
    host_copy(to, from, first);
    are_far = UCFT_TEST_SWITCH(has_far_readers) || Clock::now() - begin > near;
    done = first;
  }
  if (are_far)
    host_stream(to + done, from + done, bytes - done);
  else
    host_copy(to + done, from + done, bytes - done);
}

}  // namespace

// ---- the stage's memory ---------------------------------------------------------------------------------------------

class HostEngine::Memory {
 public:
  // waits: see Communicator::run().
  explicit Memory(HostEngine& operations, bool waits = false)
      : operations_(operations), slabs_(*operations.slabs_), waits_(waits) {}

  HostWord load(Rank owner, HostPlace place) { return slabs_.load(owner, place); }
  bool has(Rank owner, HostPlace first, HostWord one, HostWord other) { return slabs_.has(owner, first, one, other); }
  void store(HostPlace place, HostWord word) { slabs_.store(place, word); }
  void write(HostPlace first, const std::byte* data, std::uint64_t bytes) {
    std::byte* const to = slabs_.write_to(first);
    if (data != to) stage(to, data, bytes, operations_.readers_are_far_);
  }
  std::byte* room(HostPlace first) {
    if (!operations_.readers_are_far_) return slabs_.at(first);
    // No level of a tree is in use.
    return operations_.context_.host_work().scratch(1, operations_.layout_.chunk_bytes);
  }
  const std::byte* read(Rank owner, HostPlace first, std::uint64_t) const { return slabs_.read(owner, first); }
  bool is_dead(Rank rank) const { return slabs_.is_dead(rank); }
  bool looks_again() {
    if (!std::exchange(has_looked_, true)) looks_ = operations_.looks_in_call(waits_);
    const Looks::Next next = looks_.next();
    if (next == Looks::Next::yield) sched_yield();
    return next != Looks::Next::end;
  }
  std::byte* scratch(int level) {
    const HostLayout& layout = operations_.layout_;  // chunks are combined in the first alone
    return operations_.context_.host_work().scratch(
        level, level == 0 ? std::max(layout.large_bytes, layout.chunk_bytes) : layout.large_bytes);
  }
  // In the caller's memory. But carriers that have yet to be finished may take more than their result, and very long
  // results are stored past the caches.
  std::byte* destination(OperationNumber number, std::uint64_t offset) {
    const Request& request = *operations_.slot(number);
    if (request.arguments.reduction.finishes() || request.host_call->taken_bytes() >= streamed_from) return scratch(0);
    return static_cast<std::byte*>(request.receive) + offset;
  }
  void deliver(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    const Request& request = *operations_.slot(number);
    if (request.arguments.reduction.finishes()) [[unlikely]]
      return request.finish_part(offset, data, bytes, operations_.stage_.result(number).contributors);
    put(request, offset, data, bytes);
  }
  void deliver_finished(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    const Request& request = *operations_.slot(number);
    if (request.in_place != nullptr)
      request.in_place->pieces.push_back({offset, data, bytes});
    else
      put(request, offset, data, bytes);
  }
  static void put(const Request& request, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    std::byte* const to = static_cast<std::byte*>(request.receive) + offset;
    if (data == to) return;
    if (bytes >= least_block && request.host_call->taken_bytes() >= streamed_from)
      host_stream(to, data, bytes);
    else
      copy(to, data, bytes);
  }
  template <class Read>
  bool expects_block(OperationNumber number, Rank rank, std::uint64_t bytes, Read read) {
    const Request& request = *operations_.slot(number);
    if (operations_.rounds_.request() == &request) [[unlikely]]
      return rank == operations_.me_ || operations_.rounds_.is_right(bytes, read);
    if (request.shares != nullptr) [[unlikely]]
      return rank == operations_.me_ || request.shares->find(rank, {read(), bytes});
    if (request.taker != nullptr) [[unlikely]]
      return request.taker->expects({read(), bytes});
    return request.layout.bytes_of(rank) == bytes;
  }
  void deliver_block(OperationNumber number, Rank rank, const std::byte* data, std::uint64_t bytes) {
    const Request& request = *operations_.slot(number);
    if (operations_.rounds_.request() == &request) [[unlikely]]
      return operations_.rounds_.put(rank, data);
    if (request.taker != nullptr) [[unlikely]]
      return request.taker->take({data, bytes});
    put_block(request, rank, data, bytes);
  }

 protected:
  static void put_block(const Request& request, Rank rank, const std::byte* data, std::uint64_t bytes) {
    if (request.takes_part_of_blocks()) [[unlikely]]
      return request.put_block(rank, request.has_own_share_of(rank) ? bytes_at(request.send) : data, bytes);
    const std::uint64_t offset = request.layout.offset_of(rank);
    if (request.in_place != nullptr) [[unlikely]]
      return request.in_place->pieces.push_back({offset, data, bytes});
    std::byte* const to = static_cast<std::byte*>(request.receive) + offset;
    if (bytes > 0 && data != to) copy(to, data, bytes);
  }

  HostEngine& operations_;
  HostSlabs& slabs_;

 private:
  const bool waits_;
  bool has_looked_ = false;  // and found nothing
  Looks looks_{0};           // then
};

// Of an operation that is no request's yet, and whose results go straight to its caller. No pointer to it is handed on,
// so that its members can be in registers.
class HostEngine::ShortMemory : public Memory {
 public:
  ShortMemory(HostEngine& operations, const Request& request, bool waits)
      : Memory(operations, waits), request_(request) {}

  void store(HostPlace place, HostWord word) const { slabs_.put(place, word); }
  void announce(OperationNumber number) const {
    operations_.describe(*request_.host_call, number);
    slabs_.wake_others();
  }
  std::byte* scratch(int) const { return static_cast<std::byte*>(request_.receive); }
  void deliver(OperationNumber, std::uint64_t, const std::byte* data, std::uint64_t bytes) const {
    if (data != request_.receive) copy(static_cast<std::byte*>(request_.receive), data, bytes);
  }
  template <class Read>
  bool expects_block(OperationNumber, Rank rank, std::uint64_t bytes, Read) const {
    return request_.layout.bytes_of(rank) == bytes;
  }
  void deliver_block(OperationNumber, Rank rank, const std::byte* data, std::uint64_t bytes) const {
    put_block(request_, rank, data, bytes);
  }

 private:
  const Request& request_;
};

// ---- posting --------------------------------------------------------------------------------------------------------

HostEngine::HostEngine(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context)
    : HostEngine(id, ranks, me, context, context.host_work().shape(ranks)) {}

HostEngine::HostEngine(std::uint32_t id, const std::vector<std::int32_t>& ranks, Rank me, Context& context,
                       const HostShape& shape)
    : context_(context),
      me_(me),
      size_(static_cast<Rank>(ranks.size())),
      layout_(shape.layout),
      slabs_(std::make_unique<HostSlabs>(id, ranks, me, context.transport())),
      clock_(context.transport().control()->heartbeat),
      stage_({me, size_, context.settings().window, patience}, layout_, shape.tree),
      requests_(std::bit_ceil(static_cast<std::size_t>(context.settings().window)), nullptr),
      mask_(requests_.size() - 1),
      rooms_(2 * static_cast<std::size_t>(context.settings().window)),
      rounds_(context.transport().buffers(), me, size_) {
  if (!slabs_->is_there()) return;
  slabs_->describe(HostLayout::stride_and_banks(), layout_.stride() << 32 | static_cast<HostWord>(layout_.banks));
  slabs_->describe(HostLayout::rank_and_ranks(), static_cast<HostWord>(me) << 32 | static_cast<HostWord>(size_));
}

HostEngine::~HostEngine() {
  context_.host_work().forget(*this);
  for (std::size_t i = 0; i < room_count_; ++i) context_.transport().buffers().release(room(i).block);
  context_.transport().buffers().release(places_block_);
}

HostCall HostEngine::call_of(const Request& request) {
  const Arguments& arguments = request.arguments;
  HostCall call;
  call.pattern = arguments.row().pattern();
  call.reduction = arguments.reduction;
  call.count = arguments.given_count();
  call.share = request.share;
  call.root = arguments.root;
  call.signature = arguments.signature();
  call.what = bits_of(arguments.kind, arguments.reduction.type(), request.op());
  if (request.shares != nullptr) {
    call.reduction = {DataType::uint8, Operator::none};
    call.count = PackedShares::bytes(request.shares->for_others);
  }
  return call;
}

// The root of a reduce or gather alone reads what it gives, so long data may stay where the caller has them.
bool HostEngine::reads_alone(const Request& request, const HostCall& call) const {
  return call.pattern.to_root() && call.root == me_ && layout_.is_large(stage_.bytes_given(call)) &&
         may_be_read_in_place(request, call);
}

// For data that are not in the slab: the caller's own memory, if others can read it and nothing will be written to it.
// Else a copy. False: others may still read the rooms that there are. If there is no memory, data.data is null.
bool HostEngine::find_room(Request& request, const HostCall& call, HostData& data, Room& room) {
  Buffers& buffers = context_.transport().buffers();
  const auto* const send = static_cast<const std::byte*>(request.send);
  const std::uint64_t bytes = stage_.bytes_given(call), combined = stage_.combined_bytes(call);
  const bool lends = call.pattern.sums_for_all() && bytes >= lent_from && may_be_read_in_place(request, call) &&
                     context_.transport().is_shared(send, bytes);
  const bool is_given = request.send_block != no_buffer && combined == 0;
  const std::uint64_t wanted = (lends || is_given ? 0 : aligned(bytes)) + combined;
  if (is_given) buffers.retain(room.block = request.send_block);
  if (wanted > 0) {
    room.block = buffers.allocate(std::max(wanted, least_block));
    if (room.block == no_buffer) {
      free_rooms(true);
      room.block = buffers.allocate(std::max(wanted, least_block));
    }
    if (room.block == no_buffer && room_count_ > 0) return false;
    if (room.block == no_buffer) {
      data.data = nullptr;
      return true;
    }
  }
  std::byte* const block = room.block == no_buffer ? nullptr : buffers.data(room.block);
  room.is_large = lends || layout_.is_large(bytes);
  room.lender = lends ? &request : nullptr;
  data = {lends || is_given ? nullptr : send, slabs_->place_of(lends || is_given ? send : block),
          combined == 0 ? 0 : slabs_->place_of(block + (lends ? 0 : aligned(bytes)))};
  return true;
}

// Straight into its place.
void HostEngine::widen_input(const Request& request, const HostCall& call, HostData& data) {
  if (stage_.bytes_given(call) > 0)
    widen(call.reduction, slabs_->write_to(stage_.place_of_next(call, data)), request.send, call.count);
  data.data = nullptr;
}

// All but this rank's own, which it takes from where its caller has it.
void HostEngine::stage_shares_of_others(const Request& request, const HostCall& call, HostData& data) {
  std::byte* const to = slabs_->write_to(stage_.place_of_next(call, data));
  if (request.shares != nullptr) {
    PackedShares::pack(request.shares->for_others, std::exchange(data.data, nullptr), to);
    return;
  }
  const std::uint64_t bytes = stage_.bytes_given(call), share = bytes / static_cast<std::uint64_t>(size_),
                      before = share * static_cast<std::uint64_t>(me_), behind = before + share;
  stage(to, data.data, before, readers_are_far_);
  stage(to + behind, data.data + behind, bytes - behind, readers_are_far_);
  data.data = nullptr;
}

void HostEngine::plan(Request& request) {
  Arguments& arguments = request.arguments;
  if (is_binned(arguments.reduction.op()) && request.options.reproducible_sweeps != 1 && size_ > 1 &&
      stage_.reads_all(arguments.bytes_of_caller()))
    arguments.reduction = arguments.reduction.in_two_sweeps();
  plan(request, call_of(request));
}

void HostEngine::plan(Request& request, const HostCall& call) {
  request.host_call = call;
  if (size_ == 1 || call.reduction.finishes() || request.shares != nullptr || request.taker != nullptr) return;
  std::optional<HostShortcut> way = stage_.shortcut(call, places_);
  if (way && !way->can_run() && find_places(way->bytes)) way = stage_.shortcut(call, places_);
  if (way && way->can_run()) request.shortcut = way;
}

// For the data that this rank gives in operations that run. Where there is no memory, or not enough, such operations
// are posted: no other rank needs to know.
bool HostEngine::find_places(std::uint64_t bytes) {
  if (bytes > place_bytes || places_.count > 0 || UCFT_TEST_SWITCH(lacks_places)) return false;
  Buffers& buffers = context_.transport().buffers();
  places_block_ = buffers.allocate(place_count * place_bytes);
  if (places_block_ == no_buffer) return false;
  places_ = {slabs_->place_of(buffers.data(places_block_)), HostLayout::words_of(place_bytes), place_count};
  return true;
}

// For observers from outside: no note has the root of a reduce or gather.
[[gnu::always_inline]] inline void HostEngine::describe(const HostCall& call, OperationNumber number) {
  if (call.pattern.to_root())
    slabs_->describe(HostLayout::root_of_reduce(), number << 32 | static_cast<HostWord>(call.root));
  if (clock_.has_ticked()) slabs_->describe(HostLayout::posted_at(), static_cast<HostWord>(monotonic_ns()));
}

Looks HostEngine::looks_in_call(bool waits) const {
  const Spin& spin = context_.spin();
  return spin.in_call(waits && spin.yields_in_call() && context_.has_only_host());
}

// The way of small operations that find all there; else they are posted, or nothing has been done.
HostStage::Ran HostEngine::run(Request& request, bool waits) {
  if (rounds_.is_active()) [[unlikely]]
    return HostStage::Ran::no;  // also while the next round has yet to be given
  ShortMemory memory(*this, request, waits);
  const HostCall& call = *request.host_call;
  const OperationNumber number = stage_.next();
  HostStage::Ran ran;
  {
    [[maybe_unused]] const DefaultRounding rounding(call.reduction.rounds());
    ran = stage_.run(memory, call, *request.shortcut, static_cast<const std::byte*>(request.send));
  }
  if (ran == HostStage::Ran::ended) [[likely]] {
    const std::uint32_t contributors = stage_.contributors(*request.shortcut);
    if (!request.take_usual_outcome(contributors)) note_outcome(request, number, contributors);
    return ran;
  }
  if (ran == HostStage::Ran::no) return ran;
  request.state = Request::State::active;
  request.number = number;
  slot(number) = &request;
  rounding_ += call.reduction.rounds();
  ++pending_;
  if (!is_part_) context_.host_work().want(*this);
  return ran;
}

ucft_status_t HostEngine::post(Request& request) {
  if (request.shortcut && run(request, false) != HostStage::Ran::no) return UCFT_OK;
  if (size_ == 1) {
    ++alone_;
    request.complete_alone();
    return UCFT_OK;
  }
  Memory memory(*this);
  const auto is_busy = [&] { return rounds_.is_active() || !stage_.ready(memory); };
  if (is_busy()) {
    progress();
    if (is_busy() && UCFT_SOMETIMES("a stage is full")) return UCFT_ERR_BUSY;
  }
  assert(request.host_call.has_value());
  HostData data{static_cast<const std::byte*>(request.send)};
  if (!(rounds_.wants(request) ? begin_rounds(request, data) : lay_out(request, data))) return UCFT_ERR_BUSY;
  request.state = Request::State::active;
  ++pending_;
  rounding_ += request.host_call->reduction.rounds();
  give(request, data);
  progress();
  if (wants_progress() && !is_part_) context_.host_work().want(*this);
  return UCFT_OK;
}

// Puts the data that this rank gives where others read them. False, here and below: others may still read the rooms
// that there are.
bool HostEngine::lay_out(Request& request, HostData& data) {
  HostCall& call = *request.host_call;
  call.lacks_memory = request.lacks_memory;
  call.kept = 0;
  if (reads_alone(request, call)) {
    call.kept = slabs_->place_of(data.data);
    data.data = nullptr;
  } else if (!layout_.is_inline(stage_.bytes_given(call))) {
    Room given{stage_.next(), no_buffer, false, nullptr};
    if (room_count_ > 0) free_rooms(larges_ > 0 || room_count_ == rooms_.size());
    if (room_count_ == rooms_.size()) UCFT_SOMETIMES("all rooms for long data are in use");
    if (room_count_ == rooms_.size() || !find_room(request, call, data, given)) return false;
    call.lacks_memory = given.block == no_buffer && given.lender == nullptr;
    if (!call.lacks_memory) keep_room(given);
    if (!call.lacks_memory && request.in_place != nullptr) {
      request.in_place->room = given.block;
      context_.transport().buffers().retain(given.block);
    }
  }
  if (call.reduction.widens()) [[unlikely]]
    widen_input(request, call, data);
  if (request.has_own_share_of(me_) && !call.lacks_memory && stage_.bytes_given(call) > 0)
    stage_shares_of_others(request, call, data);
  return true;
}

bool HostEngine::begin_rounds(Request& request, HostData& data) {
  free_rooms(true);
  if (room_count_ == rooms_.size()) return false;
  rounds_.begin(request);
  if (!rounds_.has_memory() && room_count_ > 0) {
    rounds_.end();
    return false;
  }
  data = lay_out_round();
  return true;
}

// There is a free room.
HostData HostEngine::lay_out_round() {
  Buffers& buffers = context_.transport().buffers();
  HostCall& call = *rounds_.request()->host_call;
  call.reduction = {DataType::uint8, Operator::none};
  call.count = rounds_.block_bytes();
  call.kept = 0;
  call.lacks_memory = !rounds_.has_memory();
  rounds_.note_given();
  if (call.lacks_memory) return {};
  rounds_.pack(
      [this](std::byte* to, const std::byte* from, std::uint64_t bytes) { stage(to, from, bytes, readers_are_far_); });
  buffers.retain(rounds_.room());
  keep_room({stage_.next(), rounds_.room(), true, nullptr});
  return {nullptr, slabs_->place_of(buffers.data(rounds_.room()))};
}

void HostEngine::keep_room(const Room& given) {
  room(room_count_++) = given;
  larges_ += given.is_large;
}

// To the stage, as its next operation.
void HostEngine::give(Request& request, const HostData& data) {
  Memory memory(*this);
  request.number = stage_.next();
  slot(request.number) = &request;
  stage_.post(memory, *request.host_call, data);
  describe(*request.host_call, request.number);
  slabs_->wake();
}

// A part may have operations that this rank has posted and not finished. They are left as they are: they have nothing
// of the caller's.
void HostEngine::say_left(OperationNumber gossip_posted) {
  std::ranges::fill(requests_, nullptr);
  rounds_.end();
  context_.host_work().forget(*this);
  if (slabs_->is_there()) slabs_->say_left(gossip_posted);
}

// After this rank has said so itself. Of two that leave at once at least one sees the other (HostSlabs::say_left).
bool HostEngine::is_last() {
  for (Rank rank = 0; rank < size_; ++rank)
    if (rank != me_ && !slabs_->is_dead(rank)) return false;
  return true;
}

void HostEngine::leave(OperationNumber gossip_posted) {
  say_left(gossip_posted);
  if (slabs_->is_there()) slabs_->close();
}

// ---- events ---------------------------------------------------------------------------------------------------------

bool HostEngine::progress() {
  [[maybe_unused]] const DefaultRounding rounding(rounding_ > 0);
  Memory memory(*this);
  const auto advance = [&] { return stage_.progress(memory, [this](OperationNumber number) { complete(number); }); };
  bool any = advance();
  while (rounds_.is_due() && stage_.ready(memory) && room_count_ < rooms_.size()) {
    UCFT_SOMETIMES("an alltoall goes into its next round");
    give(*rounds_.request(), lay_out_round());
    any |= advance();
  }
  if (larges_ > 0) free_rooms(true);
  slabs_->wake();
  return any;
}

void HostEngine::free_rooms(bool looks) {
  Memory memory(*this);
  while (room_count_ > 0) {
    const Room& oldest = room(0);
    if (!stage_.finished_by_all(oldest.number) && !(looks && stage_.is_free(memory, oldest.number))) return;
    context_.transport().buffers().release(oldest.block);
    if (oldest.lender != nullptr && oldest.lender->state == Request::State::copying) finish(*oldest.lender);
    larges_ -= oldest.is_large;
    first_room_ = (first_room_ + 1) % rooms_.size();
    --room_count_;
  }
}

void HostEngine::note_outcome(Request& request, OperationNumber number, std::uint32_t contributors) {
  request.take_new_outcome(contributors, me_, size_);
  name_missing(request, number);
}

void HostEngine::name_missing(Request& request, OperationNumber number) {
  if (!request.missing_known) return;
  for (Rank rank = 0; rank < size_ && request.missing_count > 0; ++rank)
    if (!has_given(rank, number)) request.missing.push_back(rank);
  request.leave_out_later_ranks(size_);
}

// All that have given to it. All ranks that read it say the same.
bool HostEngine::have_called_rooted(OperationNumber number) const {
  for (Rank rank = 0; rank < size_; ++rank) {
    const HostNote note = HostNote::of(slabs_->load(rank, layout_.value(number) + 1));
    if (has_given(rank, number) && !row_of(kind_in(note)).rooted()) return false;
  }
  return true;
}

void HostEngine::complete(OperationNumber number) {
  Request* const found = std::exchange(slot(number), nullptr);
  if (found == nullptr) return;
  Request& request = *found;
  const HostResult& result = stage_.result(number);
  if (rounds_.request() == &request) [[unlikely]] {
    if (result.outcome == Outcome::success && rounds_.go_on()) return;
    rounds_.end();
  }
  request.take_outcome({result.outcome, result.contributors, 1, result.culprit}, me_, size_);
  name_missing(request, number);
  if (is_part_ && result.outcome == Outcome::mismatch) request.stands_for_rooted = have_called_rooted(number);
  request.state = Request::State::copying;
  for (std::size_t i = 0; larges_ > 0 && i < room_count_; ++i)
    if (room(i).lender == &request && UCFT_SOMETIMES("a result is here while others read the memory that was lent"))
      return;  // others may read its memory yet
  finish(request);
}

void HostEngine::finish(Request& request) {
  request.state = Request::State::complete;
  rounding_ -= request.arguments.reduction.rounds();
  --pending_;
}

std::vector<Rank> HostEngine::awaited(const Request& request) {
  Memory memory(*this);
  std::vector<Rank> found;
  stage_.for_each_awaited(memory, request.number, [&](Rank rank) { found.push_back(rank); });
  return found;
}

// Nothing is stored any more: others take this rank's words of itself for its last ones.
void HostEngine::exclude_self(ucft_status_t why) {
  const auto give_up = [&](Request& request) {
    if (!request.pending()) return;
    request.give_up(why);
    finish(request);
  };
  for (Request*& request : requests_)
    if (Request* each = std::exchange(request, nullptr)) give_up(*each);
  for (std::size_t i = 0; i < room_count_; ++i)
    if (Request* lender = std::exchange(room(i).lender, nullptr)) give_up(*lender);
  if (Request* const between_rounds = rounds_.request()) {
    rounds_.end();
    give_up(*between_rounds);
  }
  context_.host_work().forget(*this);
}

}  // namespace ucft::detail

#include "ucx_layer/runtime/engines/local_part.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "collectives/among/process_replica.hpp"
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/core/ballots.hpp"
#include "ucx_layer/observer/job_view.hpp"

namespace ucft::detail {

LocalPart::LocalPart(Request& caller, OperationNumber call, Rank me, const Places& places, HostEngine* on_host,
                     Transport& transport)
    : caller_(&caller),
      row_(caller.arguments.row()),
      me_(me),
      places_(places),
      on_host_(on_host),
      transport_(transport),
      buffers_(transport.buffers()),
      send_(caller.send),
      give_(buffers_),
      value_(buffers_) {
  const Arguments& arguments = caller.arguments;
  if (on_host != nullptr) request_ = std::make_unique<Request>();
  contribution_.call = call;
  contribution_.arguments = arguments;
  Arguments& among = contribution_.arguments;
  among.root = places.process_of(arguments.root);
  among.f = std::min(arguments.f, places.process_count() - 1);
  const bool is_long = Optimism().goes_straight(arguments.bytes(), places.process_count());
  if (row_.lands == Lands::share_of_each && is_long) {
    among.of_callers = arguments.signature();
    Exchange::put_into(among, places.process_count());
    contribution_.room_bytes = stream_bytes(places.here()) * static_cast<std::uint64_t>(places.size());
    return;
  }
  if (places.are_ranks()) return;
  among.of_callers = arguments.signature();
  if (row_.pattern().puts_side_by_side()) among.blocks = places.size();
}

LocalPart::~LocalPart() {
  buffers_.release(in_place_.room);
  for (const ProcessContribution::Piece& piece : contribution_.pieces) buffers_.release(piece.data);
}

// All ranks here read what all have posted, so that it is compared. Of a broadcast from here they gather the root's
// block alone, and from elsewhere nothing.
bool LocalPart::begin() {
  const Arguments& arguments = caller_->arguments;
  HostCall call;
  if (on_host_ != nullptr) {
    call.signature = arguments.signature();
    call.what = bits_of(arguments.kind, arguments.reduction.type(), caller_->op());
  }
  bool has_memory = true;
  if (row_.reduces)
    has_memory = begin_sum(call);
  else if (row_.pattern().puts_side_by_side())
    has_memory = begin_blocks(call);
  else if (row_.from_root() && places_.is_here(arguments.root))
    has_memory = begin_block_of_root(call);
  if (on_host_ == nullptr) {
    if (value_.size() > 0 && has_memory && send_ != value_.data()) std::memcpy(value_.data(), send_, value_.size());
    outcome_.status = has_memory ? UCFT_OK : UCFT_ERR_NO_MEMORY;
    finish();
    return true;
  }
  request_->arguments.reduction = call.reduction;
  request_->lacks_memory = !has_memory || !has_memory_among();
  request_->send = send_;
  request_->receive = value_.data();
  on_host_->plan(*request_, call);
  if (request_->lacks_memory) request_->shortcut.reset();
  return on_host_->post(*request_) == UCFT_OK;
}

// False, here and below: there is no memory.
bool LocalPart::begin_sum(HostCall& call) {
  const Arguments& arguments = caller_->arguments;
  call.reduction = arguments.reduction.of_carriers();
  call.count = arguments.count;
  const bool in_blocks =
      row_.disseminates && !Optimism().goes_whole(arguments.bytes(), places_.process_count());  // among processes
  if (in_blocks) lend_output();
  if (lend_input(arguments.bytes())) return true;
  // A sum that processes exchange in blocks may stay in the memory of the ranks that have combined it: a rank that does
  // not speak needs no copy. Without a death that memory is free when all processes have the sum.
  if (in_blocks && on_host_ != nullptr) request_->in_place = &in_place_;
  if (!value_.make(arguments.bytes())) return false;
  if (!arguments.reduction.widens()) return true;
  if (on_host_ == nullptr) {
    widen(arguments.reduction, value_.data(), send_, arguments.count);
    send_ = value_.data();
    return true;
  }
  if (!give_.make(arguments.bytes())) return false;
  widen(arguments.reduction, give_.data(), send_, arguments.count);
  send_ = give_.data();
  return true;
}

// Each rank's block is a record, as it is in a set of blocks; or one for each process, if these go straight there.
bool LocalPart::begin_blocks(HostCall& call) {
  const std::uint64_t mine = block_bytes(places_.local_rank_of(me_));
  if (goes_straight() && places_.are_ranks()) return lend_input(mine) || value_.make(mine);
  Room& packed = on_host_ == nullptr ? value_ : give_;
  if (!packed.make(mine)) return false;
  if (goes_straight())
    pack_streams(packed.data());
  else
    Blocks::pack(caller_->arguments, me_, caller_->send, packed.data());
  send_ = packed.data();
  call.pattern = {Who::all, Who::all, Combines::blocks};
  call.reduction = {DataType::uint8, Operator::none};
  call.count = mine;
  if (on_host_ == nullptr) return true;
  std::uint64_t all = 0, least = UINT64_MAX;
  for (Rank each = 0; each < places_.here(); ++each) {
    const std::uint64_t bytes = block_bytes(each);
    request_->layout.bytes.push_back(bytes);
    request_->layout.offsets.push_back(all);
    all += bytes;
    least = std::min(least, bytes);
  }
  // Long blocks may stay where they are given: a rank that does not speak needs no copy.
  if (least >= ProcessReplica::usually_long) {
    request_->in_place = &in_place_;
    request_->send_block = give_.slice().buffer;
  }
  return value_.make(all);
}

std::uint64_t LocalPart::block_bytes(Rank local_rank) const {
  if (!goes_straight()) return Blocks::record_bytes(caller_->layout.bytes_of(places_.local_rank_at(local_rank)));
  std::uint64_t bytes = 0;
  for (Host process = 0; process < places_.process_count(); ++process) bytes += stream_bytes(places_.ranks_of(process));
  return bytes;
}

// Of one rank, to a process of so many ranks: a record with a share for each. Where all processes are ranks alone it is
// the share as it is.
std::uint64_t LocalPart::stream_bytes(Rank ranks) const {
  const std::uint64_t share = caller_->share_bytes(places_.size());
  return places_.are_ranks() ? share : Blocks::record_bytes(share * static_cast<std::uint64_t>(ranks));
}

// One after the other, in the order of processes; the shares in a stream in that of their ranks' places.
void LocalPart::pack_streams(std::byte* to) const {
  const std::uint64_t share = caller_->share_bytes(places_.size());
  const auto* const from = static_cast<const std::byte*>(caller_->send);
  Rank place = 0;
  for (Host process = 0; process < places_.process_count(); ++process) {
    const Rank ranks = places_.ranks_of(process);
    const Blocks::Record record{static_cast<std::uint32_t>(me_),
                                static_cast<std::uint32_t>(share * static_cast<std::uint64_t>(ranks))};
    std::byte* const end = to + stream_bytes(ranks);
    std::memcpy(to, &record, sizeof record);
    to += sizeof record;
    for (const Rank behind = place + ranks; place < behind; ++place, to += share)
      if (share > 0) std::memcpy(to, from + static_cast<std::uint64_t>(places_.rank_at(place)) * share, share);
    to = std::fill_n(to, end - to, std::byte{0});
  }
}

// The blocks of the ranks that have given, one after the other. A rank alone sends itself nothing: it has its share.
void LocalPart::share_out() {
  std::uint64_t at = 0;
  for (std::uint32_t rank = 0; rank < outcome_.contributors; ++rank)
    for (Host process = 0; process < places_.process_count(); ++process) {
      const std::uint64_t bytes = stream_bytes(places_.ranks_of(process));
      if (!places_.are_ranks() || process != places_.process_of(me_))
        contribution_.shares.push_back({process, at, bytes});
      at += bytes;
    }
}

bool LocalPart::begin_block_of_root(HostCall& call) {
  const Arguments& arguments = caller_->arguments;
  const std::uint64_t bytes = arguments.bytes();
  call.pattern = {Who::all, Who::all, Combines::blocks};
  call.reduction = {DataType::uint8, Operator::none};
  call.count = arguments.root == me_ ? bytes : 0;
  if (on_host_ == nullptr) return value_.make(bytes);
  request_->layout.bytes.assign(static_cast<std::size_t>(places_.here()), 0);
  request_->layout.offsets.assign(static_cast<std::size_t>(places_.here()), 0);
  request_->layout.bytes[static_cast<std::size_t>(places_.local_rank_of(arguments.root))] = bytes;
  return value_.make(bytes);
}

// Whether the caller's own memory may be lent. Packets must not be kept (ProcessReplica::Size), else it would be lent
// for too long. And a result must not be written where the input is.
bool LocalPart::may_lend() const {
  return places_.are_ranks() && row_.disseminates && !caller_->arguments.reduction.widens() &&
         caller_->send != caller_->receive;
}

// The caller's own memory, if peers can have the data from there.
bool LocalPart::lend_input(std::uint64_t bytes) {
  if (!may_lend() || bytes <= inline_limit || !transport_.can_send_from(caller_->send, bytes)) return false;
  caller_->lent_input = buffers_.adopt(static_cast<const std::byte*>(caller_->send), bytes, untold);
  contribution_.block = buffers_.whole(caller_->lent_input);
  contribution_.value = {static_cast<const std::byte*>(caller_->send), bytes};
  return true;
}

// The caller's own memory, for a sum that peers get in messages. A shorter one is copied in less time than it takes
// until all have agreed to take part.
void LocalPart::lend_output() {
  const Arguments& arguments = caller_->arguments;
  const std::uint64_t bytes = arguments.bytes();
  if (!may_lend() || row_.has_shares() || bytes < Optimism().segment_bytes || arguments.reduction.finishes() ||
      !transport_.has_only_messages())
    return;
  caller_->lent_output = buffers_.adopt(static_cast<const std::byte*>(caller_->receive), bytes, untold);
  contribution_.landing = caller_->lent_output;
}

// Fetches the memory that this rank's replica of the process will need. Others can still be told now that it is not
// there.
bool LocalPart::has_memory_among() const {
  const Arguments& arguments = contribution_.arguments;
  const Host processes = places_.process_count();
  const std::uint64_t bytes =
      with_collective(arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, processes); });
  if (contribution_.room_bytes > 0) {
    const BufferId room = buffers_.allocate(contribution_.room_bytes);
    buffers_.release(room);
    return room != no_buffer;
  }
  if (bytes <= inline_limit) return true;
  std::vector<BufferId> fetched(2 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(processes))));
  bool all = true;
  for (BufferId& each : fetched) all = all && (each = buffers_.allocate(bytes)) != no_buffer;
  for (BufferId each : fetched) buffers_.release(each);
  return all;
}

bool LocalPart::ends() {
  if (is_done_ || request_->pending()) return is_done_;
  outcome_ = {request_->status, request_->contributors, std::move(request_->missing), request_->culprit};
  finish();
  return true;
}

std::vector<Rank> LocalPart::awaited() const {
  std::vector<Rank> ranks = on_host_->awaited(*request_);
  for (Rank& rank : ranks) rank = places_.local_rank_at(rank);
  return ranks;
}

// The outcome here is the contribution, the same on all ranks of the process.
void LocalPart::finish() {
  ProcessContribution& mine = contribution_;
  is_done_ = true;
  if (has_mismatch()) {  // like nothing of another process
    mine.arguments = Arguments{};
    mine.arguments.kind = Kind::barrier;
    mine.arguments.layout = ~std::uint64_t{0};
    mine.room_bytes = 0;
    mine.contributors = 1;
    mine.has_value = true;
    return;
  }
  const Rank root = !row_.collects && places_.is_here(caller_->arguments.root)
                        ? places_.local_rank_of(caller_->arguments.root)
                        : no_rank;
  const bool is_through = outcome_.status == UCFT_OK;
  mine.root_died = is_through && std::ranges::find(outcome_.missing, root) != outcome_.missing.end();
  if (!is_through) mine.lacking = places_.first_here() + std::max(outcome_.culprit, 0);
  mine.has_value = is_through && !mine.root_died && (row_.collects || root != no_rank);
  if (row_.pattern().puts_side_by_side() && mine.has_value) gather_blocks();
  if (goes_straight() && mine.has_value) share_out();
  if (mine.has_value && value_.size() > 0) {
    mine.value = value_.bytes();
    mine.block = value_.slice();
    mine.room = in_place_.room;
    for (const auto& [offset, data, bytes] : in_place_.pieces)
      mine.pieces.push_back({static_cast<std::uint32_t>(offset), buffers_.whole(buffers_.adopt(data, bytes, untold))});
  }
  mine.contributors = row_.collects ? outcome_.contributors : 1;
  if (!row_.collects) return;
  for (Rank each : outcome_.missing) mine.missing.push_back(places_.first_here() + each);
}

void LocalPart::gather_blocks() {
  if (on_host_ == nullptr) return;
  const BlockLayout& layout = request_->layout;
  std::uint64_t there = 0;
  auto piece = in_place_.pieces.begin();
  for (Rank each = 0; each < places_.here(); ++each) {
    if (std::ranges::find(outcome_.missing, each) != outcome_.missing.end()) continue;
    if (request_->in_place != nullptr)
      piece++->offset = there;
    else
      std::memmove(value_.data() + there, value_.data() + layout.offset_of(each), layout.bytes_of(each));
    there += layout.bytes_of(each);
  }
  value_.shrink(there);
}

}  // namespace ucft::detail

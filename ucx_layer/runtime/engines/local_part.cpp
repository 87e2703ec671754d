#include "ucx_layer/runtime/engines/local_part.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "collectives/among/process_replica.hpp"
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/core/ballots.hpp"
#include "ucx_layer/observer/job_view.hpp"

namespace ucft::detail {

LocalPart::LocalPart(Request& caller, OperationNumber call, Rank me, const Places& places, const Optimism& optimism,
                     HostEngine* on_host, std::int32_t usual_f, Transport& transport)
    : caller_(&caller),
      row_(caller.arguments.row()),
      me_(me),
      places_(places),
      optimism_(optimism),
      usual_f_(std::min(usual_f, places.process_count() - 1)),
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
  const bool spreads_by_gossip = row_.from_root() && arguments.by_gossip();
  if (caller.shares != nullptr ||
      (!spreads_by_gossip && Exchange::carries(row_, arguments.bytes(), places.process_count(), optimism_))) {
    among.of_callers = arguments.signature();
    Exchange::put_into(among, places.process_count());
    contribution_.room_grows = caller.shares != nullptr;
    for (Rank each = 0; row_.from_root() && each < places.here(); ++each)
      contribution_.room_bytes += caller.layout.bytes_of(places.local_rank_at(each));
    if (row_.from_root()) contribution_.room_bytes = std::max<std::uint64_t>(contribution_.room_bytes, 1);
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
      row_.disseminates && !optimism_.goes_whole(arguments.bytes(), places_.process_count());  // among processes
  if (in_blocks) lend_output();
  if (lend_input(arguments.bytes())) return true;
  // A sum that processes exchange in blocks may stay in the memory of the ranks that have combined it: a rank that does
  // not speak needs no copy. Without a death that memory is free when all processes have the sum.
  if (in_blocks && on_host_ != nullptr && arguments.bytes() >= ProcessReplica::usually_long)
    request_->in_place = &in_place_;
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

// Each rank's block is a record, as it is in a set of blocks.
bool LocalPart::begin_blocks(HostCall& call) {
  call.pattern = {Who::all, Who::all, Combines::blocks};
  call.reduction = {DataType::uint8, Operator::none};
  if (goes_straight()) return places_.are_ranks() ? begin_shares() : begin_streams(call);
  const BlockLayout& layout = caller_->layout;
  const auto block_bytes = [&](Rank local_rank) {
    return Blocks::record_bytes(layout.bytes_of(places_.local_rank_at(local_rank)));
  };
  const std::uint64_t mine = block_bytes(places_.local_rank_of(me_));
  Room& packed = on_host_ == nullptr ? value_ : give_;
  if (!packed.make(mine)) return false;
  Blocks::pack(caller_->arguments, me_, caller_->send, packed.data());
  send_ = packed.data();
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

// Of an exchange among ranks alone: a stream is a share as it is, from where its caller has it if others can have it
// from there. The one for this rank itself stays there.
bool LocalPart::begin_shares() {
  std::uint64_t end = 0, given = 0, wanted = 0;
  for (Rank rank = 0; rank < places_.size(); ++rank) {
    if (rank == me_) continue;
    const auto [offset, bytes] = caller_->given_share(rank, places_.size());
    if (bytes > 0) end = std::max(end, offset + bytes);
    given += bytes;
    wanted += caller_->wanted_share(rank, places_.size()).bytes;
  }
  contribution_.room_bytes = std::max<std::uint64_t>(wanted, 1);
  const bool is_lent = lend_input(end);
  if (!is_lent && !value_.make(given)) return false;
  std::uint64_t packed = 0;
  for (Rank rank = 0; rank < places_.size(); ++rank) {
    const auto [offset, bytes] = caller_->given_share(rank, places_.size());
    if (rank == me_ || bytes == 0) continue;
    if (!is_lent) std::memcpy(value_.data() + packed, static_cast<const std::byte*>(send_) + offset, bytes);
    contribution_.shares.push_back({places_.process_of(rank), is_lent ? offset : packed, bytes});
    packed += bytes;
  }
  if (!is_lent) send_ = value_.data();
  return true;
}

// Before the streams that a rank gives, in the memory that it shares with the others here.
struct LocalPart::StreamsHeader {
  std::uint64_t bytes;   // of the header and all its streams
  std::uint64_t wanted;  // of the shares that the rank gets
};

// Of an exchange among hosts: a stream has a record of each rank there, whose block is the shares for the ranks here,
// packed. Only the rank that gives it knows its length. A long one stays where it is given: a rank that does not speak
// needs no copy.
bool LocalPart::begin_streams(HostCall& call) {
  std::vector<OwnShare> shares;  // by place
  StreamsHeader header{sizeof header, 0};
  for (Rank place = 0; place < places_.size(); ++place) {
    shares.push_back(caller_->given_share(places_.rank_at(place), places_.size()));
    header.wanted += caller_->wanted_share(place, places_.size()).bytes;
  }
  const auto for_each_process = [&](auto use) {
    auto first = shares.begin();
    for (Host process = 0; process < places_.process_count(); ++process) {
      const auto end = first + places_.ranks_of(process);
      use(std::span<const OwnShare>(first, end));
      first = end;
    }
  };
  for_each_process(
      [&](std::span<const OwnShare> there) { header.bytes += Blocks::record_bytes(PackedShares::bytes(there)); });
  Room& packed = on_host_ == nullptr ? value_ : give_;
  if (!packed.make(header.bytes)) return false;
  std::byte* to = packed.data();
  std::memcpy(to, &header, sizeof header);
  to += sizeof header;
  for_each_process([&](std::span<const OwnShare> there) {
    const std::uint64_t bytes = PackedShares::bytes(there);
    const Blocks::Record record{static_cast<std::uint64_t>(me_), bytes};
    std::byte* const end = to + Blocks::record_bytes(bytes);
    std::memcpy(to, &record, sizeof record);
    to = PackedShares::pack(there, caller_->send, to + sizeof record);
    to = std::fill_n(to, end - to, std::byte{0});
  });
  send_ = packed.data();
  call.count = header.bytes;
  contribution_.room_bytes = room_for_streams(header.wanted);
  if (on_host_ == nullptr) return expects(value_.bytes());
  request_->taker = this;
  request_->in_place = &in_place_;
  if (header.bytes >= ProcessReplica::usually_long) request_->send_block = give_.slice().buffer;
  return true;
}

// That come from all ranks, with shares of so many bytes together for ranks here.
std::uint64_t LocalPart::room_for_streams(std::uint64_t wanted) const {
  const std::uint64_t around =
      Blocks::record_bytes(PackedShares::header_bytes(static_cast<std::size_t>(places_.here()))) + 7;
  return wanted + around * static_cast<std::uint64_t>(places_.size());
}

// Of a block of begin_streams(): its parts for each process, and how much its rank gets.
bool LocalPart::expects(std::span<const std::byte> block) {
  StreamsHeader header{};
  if (block.size() < sizeof header) return false;
  std::memcpy(&header, block.data(), sizeof header);
  std::uint64_t at = sizeof header;
  for (Host process = 0; process < places_.process_count(); ++process) {
    Blocks::Record record{};
    if (block.size() - at < sizeof record) return false;
    std::memcpy(&record, block.data() + at, sizeof record);
    const std::uint64_t bytes = Blocks::record_bytes(record.bytes);
    if (bytes > block.size() - at) return false;
    contribution_.shares.push_back({process, given_ + at, bytes});
    at += bytes;
  }
  given_ += block.size();
  wanted_ += header.wanted;
  return at == block.size() && header.bytes == at;
}

// All that have given have been asked. One block behind the other; short ones are copied while they are there.
void LocalPart::take(std::span<const std::byte> block) {
  if (taken_ == 0 && !is_too_long()) has_lost_ = !value_.make(given_);
  if (is_too_long() || has_lost_) return;
  if (block.size() >= ProcessReplica::usually_long)
    in_place_.pieces.push_back({taken_, block.data(), block.size()});
  else
    std::memcpy(value_.data() + taken_, block.data(), block.size());
  taken_ += block.size();
}

// For one process.
bool LocalPart::is_too_long() const { return std::max(given_, room_for_streams(wanted_)) > bytes_limit; }

bool LocalPart::begin_block_of_root(HostCall& call) {
  const Arguments& arguments = caller_->arguments;
  const std::uint64_t bytes = arguments.bytes();
  call.pattern = {Who::all, Who::all, Combines::blocks};
  call.reduction = {DataType::uint8, Operator::none};
  call.count = arguments.root == me_ ? bytes : 0;
  if (goes_straight()) add_shares_of_root();
  if (on_host_ == nullptr) return (goes_straight() && lend_input(bytes)) || value_.make(bytes);
  request_->layout.bytes.assign(static_cast<std::size_t>(places_.here()), 0);
  request_->layout.offsets.assign(static_cast<std::size_t>(places_.here()), 0);
  request_->layout.bytes[static_cast<std::size_t>(places_.local_rank_of(arguments.root))] = bytes;
  if (goes_straight() && bytes >= ProcessReplica::usually_long) {  // as in begin_blocks()
    request_->in_place = &in_place_;
    if (arguments.root == me_) {
      if (!give_.make(bytes)) return false;
      std::memcpy(give_.data(), send_, bytes);
      send_ = give_.data();
      request_->send_block = give_.slice().buffer;
    }
  }
  return value_.make(bytes);
}

// Each process gets the shares of its ranks, one behind the other. That of a root that is alone stays where it is.
void LocalPart::add_shares_of_root() {
  const BlockLayout& layout = caller_->layout;
  std::vector<PersonalExchange::Share>& shares = contribution_.shares;
  for (Rank rank = 0; rank < places_.size(); ++rank) {
    if (rank == me_ && places_.are_ranks()) continue;
    const PersonalExchange::Share share{places_.process_of(rank), layout.offset_of(rank), layout.bytes_of(rank)};
    if (!shares.empty() && shares.back().to == share.to && shares.back().offset + shares.back().bytes == share.offset)
      shares.back().bytes += share.bytes;
    else
      shares.push_back(share);
  }
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
  if (!may_lend() || row_.has_shares() || bytes < optimism_.segment_bytes || arguments.reduction.finishes() ||
      !transport_.has_only_messages())
    return;
  caller_->lent_output = buffers_.adopt(static_cast<const std::byte*>(caller_->receive), bytes, untold);
  contribution_.landing = caller_->lent_output;
}

// Fetches the memory that this rank's replica of the process will need: of values, with lists of failures behind them
// (host_journal.cpp). Others can still be told now that it is not there.
bool LocalPart::has_memory_among() const {
  const Arguments& arguments = contribution_.arguments;
  const Host processes = places_.process_count();
  const std::uint64_t bytes =
      with_collective(arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, processes); });
  std::vector<std::uint64_t> wanted;
  if (contribution_.room_bytes > 0 && row_.from_root()) {
    wanted = {contribution_.room_bytes};
  } else if (contribution_.room_bytes > 0) {
    // Of shares of one length all ranks here give and get as many bytes; else this rank knows its own.
    const auto ranks = caller_->shares != nullptr ? 1 : static_cast<std::uint64_t>(places_.here());
    wanted = {contribution_.room_bytes * ranks, give_.size() * ranks};
  } else if (bytes > inline_limit) {
    wanted.assign(2 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(processes))), bytes);
  }
  std::vector<BufferId> fetched;
  for (const std::uint64_t each : wanted)
    if (each > 0) fetched.push_back(buffers_.allocate(each + failure_list_limit * sizeof(std::uint32_t)));
  const bool all = std::ranges::find(fetched, no_buffer) == fetched.end();
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
  if (has_mismatch()) {  // like nothing of another process, but for its place among the others
    mine.arguments = Arguments{};
    mine.arguments.kind = Kind::barrier;
    mine.arguments.layout = ~std::uint64_t{0};
    mine.arguments.stands_for_rooted = request_->stands_for_rooted;
    mine.arguments.f = usual_f_;  // this rank's own may be where they differ
    mine.room_bytes = 0;
    mine.contributors = 1;
    mine.has_value = true;
    return;
  }
  const Rank root = !row_.collects && places_.is_here(caller_->arguments.root)
                        ? places_.local_rank_of(caller_->arguments.root)
                        : no_rank;
  const bool is_through = outcome_.status == UCFT_OK && !is_too_long();
  mine.root_died = is_through && std::ranges::find(outcome_.missing, root) != outcome_.missing.end();
  if (!is_through) mine.lacking = places_.first_here() + std::max(outcome_.culprit, 0);
  mine.has_value = is_through && !mine.root_died && (row_.collects || root != no_rank);
  if (goes_straight() && row_.collects && mine.has_value && !places_.are_ranks()) {
    mine.room_bytes = room_for_streams(wanted_);
    mine.room_grows |= !outcome_.missing.empty();
  } else if (row_.pattern().puts_side_by_side() && mine.has_value) {
    gather_blocks();
  }
  if (mine.has_value && value_.size() > 0) {
    mine.value = value_.bytes();
    mine.block = value_.slice();
    mine.room = in_place_.room;
    for (const auto& [offset, data, bytes] : in_place_.pieces)
      if (bytes > 0) mine.pieces.push_back({offset, buffers_.whole(buffers_.adopt(data, bytes, untold))});
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

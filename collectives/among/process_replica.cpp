#include "collectives/among/process_replica.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

ProcessReplica::ProcessReplica(Size size, Buffers& buffers)
    : size_(std::move(size)),
      buffers_(buffers),
      window_({size_.me, size_.hosts, size_.window, size_.optimism, size_.failing_together, size_.absent}, buffers),
      outbox_(buffers),
      deferred_(size_.long_bytes),
      slots_(std::bit_ceil(static_cast<std::size_t>(size_.window) * 4)) {
  make_ready();
}

void ProcessReplica::apply(const JournalEntry& entry) {
  buffers_.defer_to(computes_ ? nullptr : &deferred_);
  const Message message = entry.what == JournalEntry::What::message ? message_in(entry) : Message{};
  const std::uint64_t refused = buffers_.refused();
  switch (entry.what) {
    case JournalEntry::What::contribution: contribute(*entry.contribution); break;
    case JournalEntry::What::message: take_in(message); break;
    case JournalEntry::What::failure: window_.on_failure(entry.about, outbox_); break;
    case JournalEntry::What::turn: window_.on_turn(outbox_, entry.now_ns, entry.may_gossip); break;
    case JournalEntry::What::leave:
      if (entry.about == size_.me)
        window_.leave();
      else
        window_.on_leave(entry.about, entry.from);
      break;
    case JournalEntry::What::left: window_.on_left(entry.about, entry.was_needed, outbox_); break;
    case JournalEntry::What::waiting: window_.say_waiting(outbox_); break;
    case JournalEntry::What::result:
    case JournalEntry::What::end: break;
  }
  for (Host host; (host = window_.take_leaver(outbox_)) != no_rank;) let_go_.push_back(host);
  lost_ |= size_.has_replicas && buffers_.refused() != refused;
  buffers_.release(message.value);
  buffers_.release(message.list);
  note_named();
  pack();
  buffers_.defer_to(nullptr);
  forget_what_all_have();
}

void ProcessReplica::compute() {
  computes_ = true;
  if (!deferred_.empty()) UCFT_SOMETIMES("a replica has yet to compute what its predecessor had");
  deferred_.take_all(buffers_);
}

bool ProcessReplica::has_long_result(OperationNumber number) const {
  const Slice value = operation(number).value();
  const std::uint64_t bytes = std::max<std::uint64_t>(value.bytes, slot(number).straight_bytes);
  const bool is_long = size_.has_replicas && call_of(number) != internal && value && bytes >= size_.long_bytes;
  assert(is_long || !deferred_.lead_to(value.buffer));
  return is_long;
}

// The window's own barriers are posted as soon as they are due. So that moment is a function of the entries, too.
void ProcessReplica::make_ready() {
  const OperationNumber next = window_.next();
  const std::uint64_t refused = buffers_.refused();
  ready_ = window_.ready(outbox_);
  lost_ |= size_.has_replicas && buffers_.refused() != refused;
  if (window_.next() > next) {
    begin(next, internal);
    note_named();
    pack();
  }
  drop_packets();
}

// ---- operations -----------------------------------------------------------------------------------------------------

// A slot serves the operation 4W later when that one is first heard of. Then this host has at least begun the operation
// W after the old one, which is the last to ask. No host is further ahead of it than an operation window and a stretch
// of rooted operations.
ProcessReplica::Slot& ProcessReplica::slot_for(OperationNumber number) {
  Slot& slot = slots_[number & (slots_.size() - 1)];
  if (slot.operation != number) {
    slot.operation = number;
    slot.call = internal;
    slot.straight_bytes = 0;
    slot.counts.clear();
    slot.missing_before.clear();
    slot.named.clear();
  }
  return slot;
}

ProcessReplica::Count& ProcessReplica::count_of(Host host, OperationNumber operation) {
  std::vector<Count>& counts = slot_for(operation).counts;
  const auto found = std::ranges::find(counts, host, &Count::host);
  if (found != counts.end()) return *found;
  counts.push_back({host});
  return counts.back();
}

// As with membership, all know what the results up to W operations before have said. Where all processes are ranks
// alone, no rank is missing on a host that lives.
void ProcessReplica::begin(OperationNumber number, OperationNumber call) {
  Slot& slot = slot_for(number);
  slot.call = call;
  if (size_.are_ranks) return;
  if (number > 0) slot.missing_before = slot_for(number - 1).missing_before;
  const auto window = static_cast<OperationNumber>(size_.window);
  if (number < window) return;
  std::vector<Rank> all;
  std::ranges::set_union(slot.missing_before, slot_for(number - window).named, std::back_inserter(all));
  slot.missing_before.swap(all);
}

void ProcessReplica::note_named() {
  if (size_.are_ranks) return;
  for (; noted_ < window_.completed().size(); ++noted_) {
    const OperationNumber number = window_.completed()[noted_];
    const Operation& operation = window_.operation(number);
    if (!operation.row().disseminates || operation.decision().list_length == 0) continue;
    std::vector<Rank>& named = slot_for(number).named;
    const auto* list = reinterpret_cast<const std::uint32_t*>(buffers_.data(operation.decision().list));
    for (std::uint32_t i = 0; i < operation.decision().list_length; ++i)
      if ((list[i] & of_living_host) != 0) named.push_back(static_cast<Rank>(list[i] & ~of_living_host));
    std::ranges::sort(named);
  }
}

void ProcessReplica::contribute(const ProcessContribution& contribution) {
  const OperationNumber number = window_.next();
  begin(number, calls_++);
  if (contribution.arguments.row().goes_straight) slot_for(number).straight_bytes = contribution.value.size();
  if (contribution.room != no_buffer) rooms_.push_back({number, contribution.room});
  buffers_.retain(contribution.room);
  const Operation::Memory memory = memory_for(contribution, slot(number).missing_before);
  window_.post(contribution.arguments, memory, outbox_);
}

Operation::Memory ProcessReplica::memory_for(const ProcessContribution& contribution,
                                             const std::vector<Rank>& missing_before) {
  const Arguments& arguments = contribution.arguments;
  Operation::Memory memory;
  memory.contributors = contribution.contributors;
  memory.root_died = contribution.root_died;
  memory.lacks = contribution.lacking != no_rank;
  if (memory.lacks) {
    memory.lacking = size_.hosts + contribution.lacking;
    return memory;
  }
  if (contribution.has_value && !contribution.value.empty()) {
    memory.input = contribution.block;
    buffers_.retain(memory.input);
    for (const auto& [offset, data] : contribution.pieces)
      buffers_.copy_part(memory.input.part(offset, data.bytes), data, memory.input.bytes);
    if (!memory.input)
      memory.input = buffers_.whole(buffers_.copy_in(contribution.value.data(), contribution.value.size()));
  }
  const bool is_root = arguments.root == size_.me;
  const std::uint64_t bytes =
      with_collective(arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, size_.hosts); });
  if (bytes > 0 && is_one_of(arguments.row().gets, is_root)) {
    memory.result = buffers_.allocate(bytes);
    memory.lacks = memory.result == no_buffer;
  }
  memory.lacks |= contribution.has_value && !contribution.value.empty() && !memory.input;
  if (contribution.room_bytes > 0) {
    memory.shares = contribution.shares;
    memory.room = buffers_.allocate(contribution.room_bytes);
    memory.room_grows = contribution.room_grows;
    memory.lacks |= memory.room == no_buffer;
  }
  memory.landing = contribution.landing;
  buffers_.retain(memory.landing);
  std::vector<std::uint32_t> entries;
  for (Rank rank : contribution.missing)
    if (!std::ranges::binary_search(missing_before, rank))
      entries.push_back(static_cast<std::uint32_t>(rank) | of_living_host);
  if (entries.empty()) return memory;
  memory.missing_truncated = entries.size() > failure_list_limit;
  memory.missing_length = std::min(static_cast<std::uint32_t>(entries.size()), failure_list_limit);
  memory.missing = buffers_.copy_in(entries.data(), memory.missing_length * sizeof(std::uint32_t));
  return memory;
}

// ---- messages -------------------------------------------------------------------------------------------------------

ProcessReplica::Admission ProcessReplica::admission(Host from, std::uint32_t place, OperationNumber operation) const {
  if (operation < window_.dropped_upto()) return Admission::late;
  if (!window_.acceptable(operation)) return Admission::later;
  if (size_.are_ranks)
    return operation >= window_.next() || place == planned_without(operation) ? Admission::now : Admission::late;
  std::uint32_t taken = 0;
  const Slot& slot = this->slot(operation);
  if (slot.operation == operation) {
    const auto found = std::ranges::find(slot.counts, from, &Count::host);
    if (found != slot.counts.end()) taken = found->taken;
  }
  return place < taken ? Admission::late : place == taken ? Admission::now : Admission::later;
}

Message ProcessReplica::message_in(const JournalEntry& entry) {
  Message message = entry.message;
  const auto copy = [&](std::span<const std::byte> bytes) {
    const BufferId copied = bytes.empty() ? no_buffer : buffers_.copy_anywhere(bytes.data(), bytes.size());
    lost_ |= copied == no_buffer && !bytes.empty();
    return copied;
  };
  message.value = entry.block;
  buffers_.retain(message.value);
  if (!message.value)
    if (const BufferId value = copy(entry.value); value != no_buffer) message.value = buffers_.whole(value);
  message.list = copy(entry.list);
  return message;
}

void ProcessReplica::take_in(const Message& message) {
  if (!size_.are_ranks) ++count_of(message.peer, message.operation).taken;
  window_.on_message(message, outbox_);
}

// One that says another number planned with another membership: its sender is dead to the others.
std::uint32_t ProcessReplica::planned_without(OperationNumber operation) const {
  return static_cast<std::uint32_t>(window_.operation(operation).members().excluded().size()) & 0x7fff;
}

void ProcessReplica::pack() {
  for (const Message& send : outbox_.sends()) {
    const std::uint32_t place =
        size_.are_ranks ? planned_without(send.operation) : count_of(send.peer, send.operation).sent++;
    assert(place < UINT16_MAX - 2);
    packets_.push_back({send.peer, place, send});
  }
  outbox_.clear();
}

void ProcessReplica::note_sent() {
  while (size_.are_ranks && !packets_.empty()) drop_packet();
}

void ProcessReplica::clear_completed() {
  if (window_.completed().empty()) return;
  if (!size_.are_ranks) taken_.insert(taken_.end(), window_.completed().begin(), window_.completed().end());
  window_.clear_completed();
  noted_ = 0;
  forget_what_all_have();
  forget_unneeded();
}

// A broadcast or allgather in pieces may be over before all hosts have it.
void ProcessReplica::forget_what_all_have() {
  const std::size_t forgotten = std::erase_if(taken_, [&](OperationNumber number) {
    if (number < window_.dropped_upto()) return true;
    if (!window_.operation(number).all_have_data()) return false;
    forget_values_of(number);
    give_back_rooms([&](const Room& room) { return room.operation == number; });
    return true;
  });
  if (forgotten > 0) forget_unneeded();
}

// A new speaker repeats the packets without values, and no host looks at those any more.
void ProcessReplica::forget_values_of(OperationNumber number) {
  for (Packet& packet : packets_)
    if (packet.message.operation == number) buffers_.release(std::exchange(packet.message.value, {}));
}

// This replica needs no values of the operation. Nor will one that speaks later: it reads to the end of the log first.
template <class IsOver>
void ProcessReplica::give_back_rooms(IsOver is_over) {
  std::erase_if(rooms_, [&](const Room& room) {
    if (!is_over(room)) return false;
    buffers_.release(room.block);
    return true;
  });
}

void ProcessReplica::drop_packet() {
  buffers_.release(packets_.front().message.value);
  buffers_.release(packets_.front().message.list);
  packets_.pop_front();
  ++packets_begin_;
}

// Packets are dropped in the order in which they were made. An older one keeps those behind it, which are few.
void ProcessReplica::drop_packets() {
  while (!packets_.empty() && packets_.front().message.operation < window_.dropped_upto()) drop_packet();
  give_back_rooms([&](const Room& room) { return room.operation < window_.dropped_upto(); });
}

void ProcessReplica::release_all() {
  for (const Packet& packet : packets_) {
    buffers_.release(packet.message.value);
    buffers_.release(packet.message.list);
  }
  packets_.clear();
  deferred_.clear(buffers_);
  window_.release_all();
}

void ProcessReplica::release_rooms() {
  give_back_rooms([](const Room&) { return true; });
}

}  // namespace ucft::detail

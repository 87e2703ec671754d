// The remote path: the rings and descriptors of the shared path, by ucp_put and ucp_get, where a device can write and read
// remote memory by itself. What is put is put into rings and tables of the transport, never into memory of the caller.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ucx_layer/transport/paths/calls.hpp"

namespace ucft::detail {

std::vector<std::byte> Transport::own_remote_key() {
  for (const Peer& peer : peers_)
    if (peer.endpoint != nullptr && !Ucx::has_remote_access(peer.endpoint)) return {};
  const Registration* registration = message_peers_ > 0 ? registration_of(own_) : nullptr;
  return registration == nullptr ? std::vector<std::byte>{} : registration->key;
}

bool Transport::open_remote_mailbox(int index, std::uint64_t segment, std::span<const std::byte> key,
                                    std::string& error) {
  Peer& peer = peer_at(index);
  if (peer.endpoint == nullptr || peer.forgotten) return true;  // shares memory with us, or is gone
  auto remote = std::make_unique<Remote>();
  const ucs_status_t status = ucp_ep_rkey_unpack(peer.endpoint, key.data(), &remote->key);
  if (status != UCS_OK) {
    error = fmt::format("rank {}'s remote key is of no use here: {}", index, ucs_status_string(status));
    return false;
  }
  remote->segment = segment;
  remote->lines = std::vector<MailboxLine>(mailbox_lines);
  const auto tag = static_cast<std::uint16_t>(setup_.cookie ^ (setup_.cookie >> 16));
  peer.writer = MailboxWriter(remote->lines.data(),
                              reinterpret_cast<std::atomic<std::uint64_t>*>(credit_area(own_.data(), index)), tag);
  reader_of(peer) = MailboxReader(reinterpret_cast<MailboxLine*>(ring_area(own_.data(), index)), &remote->credit, tag);
  peer.pulled_here = reinterpret_cast<std::atomic<std::uint32_t>*>(pulled_area(own_.data(), index));
  peer.remote = std::move(remote);
  mailbox_peers_.push_back(index);
  remote_peers_.push_back(index);
  return true;
}

Transport::RemoteCall* Transport::new_call(Peer& peer) {
  if (free_calls_.empty()) {
    all_calls_.push_back(std::make_unique<RemoteCall>());
    free_calls_.push_back(all_calls_.back().get());
  }
  RemoteCall* call = free_calls_.back();
  free_calls_.pop_back();
  *call = RemoteCall{};
  ++calls_under_way_;
  call->owner = this;
  call->peer = index_of(peer);
  ++waiting_;
  return call;
}

void Transport::on_call_done(void* request, ucs_status_t status, void* arg) {
  auto* call = static_cast<RemoteCall*>(arg);
  call->owner->finish_call(call, status);
  ucp_request_free(request);
}

// Who still waits for the call takes it from `done`; what nobody waits for is put away here.
void Transport::finish_call(RemoteCall* call, ucs_status_t status) {
  --waiting_;
  --calls_under_way_;
  call->done = true;
  call->status = status;
  if (status != UCS_OK && !call->abandoned) broken_.push_back({call->peer, status});
  buffers_->release(call->source);
  call->source = no_buffer;
  if (call->key != nullptr) count_call(peer_at(call->peer), std::exchange(call->key, nullptr), -1);
  const bool awaited = !call->abandoned && (call->last_line > 0 || call->value != no_buffer);
  if (awaited) return;
  buffers_->release(call->value);
  free_calls_.push_back(call);
}

// source stays as it is (or grows, for counters) until the call is done.
void Transport::put(Peer& peer, const void* source, std::size_t bytes, std::uint64_t target) {
  Remote& remote = *peer.remote;
  if (peer.endpoint == nullptr || peer.endpoint_broken) return;
  RemoteCall* call = new_call(peer);
  if (source >= remote.lines.data() && source < remote.lines.data() + mailbox_lines) {
    call->last_line = remote.lines_put;
    remote.puts.push_back(call);
  }
  start_put(peer, call, source, bytes, target, remote.key);
}

void Transport::start_put(Peer& peer, RemoteCall* call, const void* source, std::size_t bytes, std::uint64_t target,
                          ucp_rkey_h key) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &Transport::on_call_done;
  param.user_data = call;
  const ucs_status_ptr_t request = ucp_put_nbx(peer.endpoint, source, bytes, target, key, &param);
  if (!UCS_PTR_IS_PTR(request)) finish_call(call, UCS_PTR_RAW_STATUS(request));
}

// All lines that have been written and not yet been put: one put, or two where the ring ends.
//   256 lines, put up to 254, written up to 257: lines 255 (place 255), then 256 and 257 (places 0 and 1)
void Transport::put_lines(Peer& peer) {
  Remote& remote = *peer.remote;
  const auto ring = static_cast<std::uint64_t>(ring_area(nullptr, setup_.me) - static_cast<std::byte*>(nullptr));
  while (remote.lines_put < peer.writer.written()) {
    const std::size_t place = MailboxWriter::place_of(remote.lines_put + 1);
    const std::size_t count = std::min<std::size_t>(peer.writer.written() - remote.lines_put, mailbox_lines - place);
    remote.lines_put += count;
    put(peer, &remote.lines[place], count * sizeof(MailboxLine), remote.segment + ring + place * sizeof(MailboxLine));
  }
  settle_puts(remote);
}

void Transport::settle_puts(Remote& remote) {
  while (!remote.puts.empty() && remote.puts.front()->done) {
    remote.lines_left = remote.puts.front()->last_line;
    free_calls_.push_back(remote.puts.front());
    remote.puts.pop_front();
  }
}

// On the remote path a line can't be written again before its put is done, whatever the reader says.
bool Transport::has_room(Peer& peer, std::uint32_t lines) {
  if (!peer.writer.has_room(lines)) return false;
  if (peer.remote == nullptr) return true;
  settle_puts(*peer.remote);
  return peer.writer.written() + lines - peer.remote->lines_left <= mailbox_lines;
}

void Transport::put_credit(Peer& peer) {
  if (peer.remote == nullptr) return;
  Remote& remote = *peer.remote;
  const std::uint64_t consumed = remote.credit.load(std::memory_order_relaxed);
  if (consumed == remote.credit_put) return;
  remote.credit_put = consumed;
  const auto there = static_cast<std::uint64_t>(credit_area(nullptr, setup_.me) - static_cast<std::byte*>(nullptr));
  put(peer, &remote.credit, sizeof remote.credit, remote.segment + there);
}

// The peer's segments are few, and live long: their keys are unpacked once. A segment that was given back and made anew
// has another key.
ucp_rkey_h Transport::key_of(Peer& peer, const SegmentName& segment, std::span<const std::byte> packed) {
  std::vector<RemoteKey>& keys = peer.remote->keys;
  for (const RemoteKey& each : keys)
    if (each.segment.id == segment.id &&
        std::equal(each.packed.begin(), each.packed.end(), packed.begin(), packed.end()))
      return each.key;
  constexpr std::size_t many = 64;
  const auto idle = std::find_if(keys.begin(), keys.end(), [](const RemoteKey& each) { return each.calls == 0; });
  if (keys.size() >= many && idle != keys.end()) {
    ucp_rkey_destroy(idle->key);
    keys.erase(idle);
  }
  RemoteKey fresh{segment, {packed.begin(), packed.end()}, nullptr, 0};
  if (ucp_ep_rkey_unpack(peer.endpoint, packed.data(), &fresh.key) != UCS_OK) return nullptr;
  keys.push_back(std::move(fresh));
  return keys.back().key;
}

void Transport::count_call(Peer& peer, ucp_rkey_h key, int change) {
  for (RemoteKey& each : peer.remote->keys)
    if (each.key == key) each.calls += change;
}

// The message stays in the ring, and what follows it, until its payload is here: so messages keep their order.
bool Transport::start_pull(Peer& peer, const WireHeader& header) {
  MailboxReader& reader = reader_of(peer);
  WireDescriptor descriptor;
  reader.copy(sizeof header, reinterpret_cast<std::byte*>(&descriptor), sizeof descriptor);
  std::byte packed[remote_key_limit];
  const std::size_t packed_bytes = header.value_bytes - sizeof descriptor;
  reader.copy(sizeof header + sizeof descriptor, packed, packed_bytes);
  const bool fits = descriptor.ticket < tickets && descriptor.bytes > 0 &&
                    descriptor.address >= descriptor.segment.address &&
                    descriptor.address - descriptor.segment.address <= descriptor.segment.bytes &&
                    descriptor.bytes <= descriptor.segment.bytes - (descriptor.address - descriptor.segment.address);
  const ucp_rkey_h key = fits && peer.endpoint != nullptr && !peer.endpoint_broken
                             ? key_of(peer, descriptor.segment, {packed, packed_bytes})
                             : nullptr;
  if (key == nullptr) {  // malformed, or its owner is gone
    if (!fits) note_malformed(Malformed::length, index_of(peer));
    reader.consume(mailbox_lines_of(sizeof header + body_bytes(header)));
    put_credit(peer);
    return true;
  }
  BufferId value = buffers_->allocate(descriptor.bytes);
  if (value == no_buffer) value = buffers_->allocate_private(descriptor.bytes);
  if (value == no_buffer) return false;  // some may come back
  RemoteCall* call = new_call(peer);
  call->value = value;
  call->ticket = descriptor.ticket;
  call->generation = descriptor.generation;
  call->key = key;
  count_call(peer, key, 1);
  peer.remote->pull = call;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &Transport::on_call_done;
  param.user_data = call;
  const ucs_status_ptr_t request =
      ucp_get_nbx(peer.endpoint, buffers_->data(value), descriptor.bytes, descriptor.address, key, &param);
  if (!UCS_PTR_IS_PTR(request)) finish_call(call, UCS_PTR_RAW_STATUS(request));
  return true;
}

bool Transport::finish_pull(Peer& peer) {
  Remote& remote = *peer.remote;
  RemoteCall* call = remote.pull;
  if (!call->done) return false;
  remote.pull = nullptr;
  MailboxReader& reader = reader_of(peer);
  WireHeader header;
  std::memcpy(&header, reader.payload(), sizeof header);
  std::int32_t ballots[2] = {no_rank, no_rank};
  std::size_t offset = sizeof header + header.value_bytes;
  if ((header.transport_flags & has_ballots) != 0) {
    reader.copy(offset, reinterpret_cast<std::byte*>(ballots), sizeof ballots);
    offset += sizeof ballots;
  }
  Message message = parse_header(header, ballots);
  if (header.list_length > 0) {
    message.list = buffers_->allocate(header.list_length * sizeof(std::uint32_t));
    reader.copy(offset, buffers_->data(message.list), header.list_length * sizeof(std::uint32_t));
  }
  message.value = buffers_->whole(call->value);
  const bool arrived = call->status == UCS_OK;
  const auto table = static_cast<std::uint64_t>(pulled_area(nullptr, setup_.me) - static_cast<std::byte*>(nullptr));
  remote.pulled[call->ticket] = call->generation;
  put(peer, &remote.pulled[call->ticket], sizeof(std::uint32_t),
      remote.segment + table + call->ticket * sizeof(std::uint32_t));
  call->value = no_buffer;
  free_calls_.push_back(call);
  reader.consume(mailbox_lines_of(sizeof header + body_bytes(header)));
  put_credit(peer);
  if (arrived) setup_.sink.deliver(setup_.sink.arg, header, message, index_of(peer));
  buffers_->release(message.value);
  buffers_->release(message.list);
  return true;
}

// Its sends, puts and gets complete, canceled. The buffers of gets stay until UCX says that they have ended: the device
// may still write into them. Keys go last, since calls that were never begun refer to them.
void Transport::close_endpoint(Peer& peer) {
  if (peer.endpoint == nullptr) return;
  if (peer.remote != nullptr) abandon_calls(*peer.remote);
  ucx_.close(peer.endpoint);
  peer.endpoint = nullptr;
  if (peer.remote == nullptr) return;
  for (const RemoteKey& each : peer.remote->keys) ucp_rkey_destroy(each.key);
  peer.remote->keys.clear();
  ucp_rkey_destroy(peer.remote->key);
  peer.remote->key = nullptr;
}

void Transport::abandon_calls(Remote& remote) {
  const auto abandon = [&](RemoteCall* call) {
    if (!call->done) {
      call->abandoned = true;
      return;
    }
    buffers_->release(call->value);
    free_calls_.push_back(call);
  };
  for (RemoteCall* call : remote.puts) abandon(call);
  remote.puts.clear();
  if (remote.pull != nullptr) abandon(remote.pull);
  remote.pull = nullptr;
}

bool Transport::is_connected(int index) const {
  const Peer& peer = peers_[static_cast<std::size_t>(index)];
  return !peer.forgotten && peer.endpoint != nullptr && !peer.endpoint_broken;
}

bool Transport::has_key(int index, const SegmentName& segment, std::span<const std::byte> packed) {
  Peer& peer = peer_at(index);
  return key_of(peer, segment, packed) != nullptr;
}

// Puts to one peer stay in order: UCX has one connection for them. A peer that can't be reached is found dead by others.
void Transport::put_window(int index, BufferId source, std::size_t offset, std::size_t bytes, std::uint64_t target,
                           const SegmentName& segment, std::span<const std::byte> packed) {
  Peer& peer = peer_at(index);
  if (peer.forgotten || peer.endpoint == nullptr || peer.endpoint_broken) return;
  const ucp_rkey_h key = key_of(peer, segment, packed);
  if (key == nullptr) return;
  RemoteCall* call = new_call(peer);
  call->source = source;
  buffers_->retain(source);
  call->key = key;
  count_call(peer, key, 1);
  start_put(peer, call, buffers_->data(source) + offset, bytes, target, key);
}

}  // namespace ucft::detail

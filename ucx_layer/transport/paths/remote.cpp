#include "ucx_layer/transport/paths/remote.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ucft::detail {

bool RemotePath::connect(int peer, std::uint64_t segment, std::span<const std::byte> key, std::string& error) {
  const ucp_ep_h endpoint = connections_.to(peer);
  if (endpoint == nullptr) {
    error = fmt::format("rank {} can't be reached: its connection is lost", peer);
    return false;
  }
  auto link = std::make_unique<RemoteLink>();
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint, key.data(), &link->first_key);
  if (status != UCS_OK) {
    error = fmt::format("rank {}'s remote key is of no use here: {}", peer, ucs_status_string(status));
    return false;
  }
  link->segment = segment;
  link->lines = std::vector<MailboxLine>(station_.ring_lines);
  MailboxLine* lines = link->lines.data();
  std::atomic<std::uint64_t>* credit = &link->credit;
  add(peer, std::move(link), lines, credit);
  return true;
}

bool RemotePath::poll() {
  bool active = poll_rings();
  for (int peer : peers())
    if (link_of(peer).fetch != nullptr) active |= finish_fetch(peer, link_of(peer));
  if (waiting_ > 0) advance_waiting();
  return active;
}

// Its puts and gets complete, canceled. The buffers of gets stay until UCX says that they have ended: the device may
// still write into them. Keys go last, since calls that were never begun refer to them.
void RemotePath::forget(int peer) {
  RemoteLink& link = link_of(peer);
  forget_link(link);
  for (RemoteCall* call : link.puts) abandon(call);
  link.puts.clear();
  if (link.fetch != nullptr) abandon(std::exchange(link.fetch, nullptr));
  connections_.close(peer);
  for (const RemoteLink::Key& each : link.keys) ucp_rkey_destroy(each.key);
  link.keys.clear();
  ucp_rkey_destroy(std::exchange(link.first_key, nullptr));
}

void RemotePath::abandon(RemoteCall* call) {
  if (!call->done) {
    call->abandoned = true;
    return;
  }
  station_.buffers.release(call->value);
  free_calls_.push_back(call);
}

RemoteCall* RemotePath::new_call(int peer) {
  if (free_calls_.empty()) {
    all_calls_.push_back(std::make_unique<RemoteCall>());
    free_calls_.push_back(all_calls_.back().get());
  }
  RemoteCall* call = free_calls_.back();
  free_calls_.pop_back();
  *call = RemoteCall{};
  call->owner = this;
  call->peer = peer;
  ++calls_under_way_;
  ++waiting_;
  return call;
}

void RemotePath::on_call_done(void* request, ucs_status_t status, void* arg) {
  auto* call = static_cast<RemoteCall*>(arg);
  call->owner->finish(call, status);
  ucp_request_free(request);
}

// A caller that still waits for the call takes it from `done`. A call without a waiting caller is put away here.
void RemotePath::finish(RemoteCall* call, ucs_status_t status) {
  --waiting_;
  --calls_under_way_;
  call->done = true;
  call->status = status;
  if (status != UCS_OK && !call->abandoned) connections_.note_failure(call->peer, status);
  station_.buffers.release(call->source);
  call->source = no_buffer;
  if (call->key != nullptr) count_call(call->peer, std::exchange(call->key, nullptr), -1);
  const bool awaited = !call->abandoned && (call->last_line > 0 || call->value != no_buffer);
  if (awaited) return;
  station_.buffers.release(call->value);
  free_calls_.push_back(call);
}

// Into the peer's first segment. source stays as it is (or grows, for counters) until the call is done.
void RemotePath::put_own(RemoteLink& link, int peer, const void* source, std::size_t bytes, std::uint64_t target) {
  if (connections_.to(peer) == nullptr) return;
  RemoteCall* call = new_call(peer);
  if (source >= link.lines.data() && source < link.lines.data() + link.lines.size()) {
    call->last_line = link.lines_put;
    link.puts.push_back(call);
  }
  start_put(call, source, bytes, link.segment + target, link.first_key);
}

void RemotePath::start_put(RemoteCall* call, const void* source, std::size_t bytes, std::uint64_t target,
                           ucp_rkey_h key) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &RemotePath::on_call_done;
  param.user_data = call;
  const ucs_status_ptr_t request = ucp_put_nbx(connections_.to(call->peer), source, bytes, target, key, &param);
  if (!UCS_PTR_IS_PTR(request)) finish(call, UCS_PTR_RAW_STATUS(request));
}

// All lines that have been written and not yet been put: one put, or two where the ring ends.
//   256 lines, put up to 254, written up to 257: lines 255 (place 255), then 256 and 257 (places 0 and 1)
void RemotePath::wrote(int peer, RemoteLink& link) {
  while (link.lines_put < link.writer.written()) {
    const std::size_t place = link.writer.place_of(link.lines_put + 1);
    const std::size_t count = std::min<std::size_t>(link.writer.written() - link.lines_put, link.lines.size() - place);
    link.lines_put += count;
    put_own(link, peer, &link.lines[place], count * sizeof(MailboxLine),
            first_.ring(mailbox_there(peer)) + place * sizeof(MailboxLine));
  }
  settle_puts(link);
}

void RemotePath::settle_puts(RemoteLink& link) {
  while (!link.puts.empty() && link.puts.front()->done) {
    link.lines_left = link.puts.front()->last_line;
    free_calls_.push_back(link.puts.front());
    link.puts.pop_front();
  }
}

// A line can't be written again before its put is done, even if the reader has read it.
bool RemotePath::has_room(RemoteLink& link, std::uint32_t lines) {
  settle_puts(link);
  return link.writer.written() + lines - link.lines_left <= link.lines.size();
}

// The credit travels when the reader has published it.
void RemotePath::read(int peer, RemoteLink& link) {
  const std::uint64_t consumed = link.credit.load(std::memory_order_relaxed);
  if (consumed == link.credit_put) return;
  link.credit_put = consumed;
  put_own(link, peer, &link.credit, sizeof link.credit, first_.credit(mailbox_there(peer)));
}

bool RemotePath::key_of(const Segment& segment, std::span<const std::byte>& key) {
  key = registrations_.key_of(segment);
  return !key.empty();
}

// The peer's segments are few, and live long: their keys are unpacked once. A segment that was given back and made anew
// has another key.
ucp_rkey_h RemotePath::unpacked(int peer, const SegmentName& segment, std::span<const std::byte> packed) {
  std::vector<RemoteLink::Key>& keys = link_of(peer).keys;
  for (const RemoteLink::Key& each : keys)
    if (each.segment.id == segment.id &&
        std::equal(each.packed.begin(), each.packed.end(), packed.begin(), packed.end()))
      return each.key;
  constexpr std::size_t many = 64;
  const auto idle = std::find_if(keys.begin(), keys.end(), [](const RemoteLink::Key& each) { return each.calls == 0; });
  if (keys.size() >= many && idle != keys.end()) {
    ucp_rkey_destroy(idle->key);
    keys.erase(idle);
  }
  RemoteLink::Key fresh{segment, {packed.begin(), packed.end()}, nullptr, 0};
  if (ucp_ep_rkey_unpack(connections_.to(peer), packed.data(), &fresh.key) != UCS_OK) return nullptr;
  keys.push_back(std::move(fresh));
  return keys.back().key;
}

void RemotePath::count_call(int peer, ucp_rkey_h key, int change) {
  for (RemoteLink::Key& each : link_of(peer).keys)
    if (each.key == key) each.calls += change;
}

// The message and those behind it stay in the ring until its payload is here: so messages keep their order.
bool RemotePath::take_payload(int peer, RemoteLink& link, const WireHeader& header) {
  MailboxReader& reader = reader_of(peer);
  WireDescriptor descriptor;
  reader.copy(sizeof header, reinterpret_cast<std::byte*>(&descriptor), sizeof descriptor);
  std::byte packed[remote_key_limit];
  const std::size_t packed_bytes = header.value_bytes - sizeof descriptor;
  reader.copy(sizeof header + sizeof descriptor, packed, packed_bytes);
  const std::uint64_t offset = descriptor.address - descriptor.segment.address;
  const bool fits = descriptor.ticket < pull_tickets && descriptor.bytes > 0 && descriptor.bytes <= value_limit &&
                    descriptor.address >= descriptor.segment.address && offset <= descriptor.segment.bytes &&
                    descriptor.bytes <= descriptor.segment.bytes - offset;
  const ucp_ep_h endpoint = connections_.to(peer);
  const ucp_rkey_h key =
      fits && endpoint != nullptr ? unpacked(peer, descriptor.segment, {packed, packed_bytes}) : nullptr;
  if (key == nullptr) {  // malformed, or its owner is gone, or UCX can't take the key: then the message is lost
    if (!fits) station_.rejects.note(Malformed::length, peer);
    if (fits && endpoint != nullptr) connections_.note_failure(peer, UCS_ERR_NO_RESOURCE);
    consume(peer, link, reader, header);
    return true;
  }
  BufferId value = station_.buffers.allocate(descriptor.bytes);
  if (value == no_buffer) value = station_.buffers.allocate_private(descriptor.bytes);
  if (value == no_buffer) return false;  // some may come back
  RemoteCall* call = new_call(peer);
  call->value = value;
  call->ticket = descriptor.ticket;
  call->generation = descriptor.generation;
  call->key = key;
  count_call(peer, key, 1);
  link.fetch = call;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &RemotePath::on_call_done;
  param.user_data = call;
  const ucs_status_ptr_t request =
      ucp_get_nbx(endpoint, station_.buffers.data(value), descriptor.bytes, descriptor.address, key, &param);
  if (!UCS_PTR_IS_PTR(request)) finish(call, UCS_PTR_RAW_STATUS(request));
  return true;
}

bool RemotePath::finish_fetch(int peer, RemoteLink& link) {
  if (!link.fetch->done) return false;
  RemoteCall* call = std::exchange(link.fetch, nullptr);
  MailboxReader& reader = reader_of(peer);
  WireHeader header;
  std::memcpy(&header, reader.payload(), sizeof header);
  Message message = parse(reader, header);
  message.value = station_.buffers.whole(call->value);
  const bool arrived = call->status == UCS_OK;
  link.read_there[call->ticket] = call->generation;
  put_own(link, peer, &link.read_there[call->ticket], sizeof(std::uint32_t),
          first_.pulled(mailbox_there(peer)) + call->ticket * sizeof(std::uint32_t));
  call->value = no_buffer;
  free_calls_.push_back(call);
  consume(peer, link, reader, header);
  if (arrived) deliver(peer, header, message);
  release(message);
  return true;
}

bool RemotePath::has_key(int peer, const SegmentName& segment, std::span<const std::byte> packed) {
  return unpacked(peer, segment, packed) != nullptr;
}

void RemotePath::put(int peer, Slice source, std::uint64_t target, const SegmentName& segment,
                     std::span<const std::byte> packed) {
  if (connections_.to(peer) == nullptr) return;
  const ucp_rkey_h key = unpacked(peer, segment, packed);
  if (key == nullptr) return connections_.note_failure(peer, UCS_ERR_NO_RESOURCE);
  RemoteCall* call = new_call(peer);
  call->source = source.buffer;
  station_.buffers.retain(source);
  call->key = key;
  count_call(peer, key, 1);
  start_put(call, station_.buffers.data(source), source.bytes, target, key);
}

}  // namespace ucft::detail

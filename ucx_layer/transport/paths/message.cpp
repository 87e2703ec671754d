// The message path: UCX active messages, where each connection has a queue of its own (tcp, rc, ud).
#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "ucx_layer/transport/paths/calls.hpp"

namespace ucft::detail {

void Transport::send_am(Peer& peer, const Queued& message) {
  if (peer.endpoint == nullptr || peer.endpoint_broken) return drop(message);
  if (free_am_.empty()) {
    all_am_.push_back(std::make_unique<AmSend>());
    free_am_.push_back(all_am_.back().get());
  }
  AmSend* send = free_am_.back();
  free_am_.pop_back();
  send->owner = this;
  send->value = message.value.buffer;
  send->peer = index_of(peer);
  WireHeader header = message.header;
  const std::uint64_t value_bytes = message.value.bytes;
  header.value_bytes = static_cast<std::uint32_t>(value_bytes);
  std::byte* to = send->header.data();
  const auto append = [&](const void* data, std::size_t bytes) {
    std::memcpy(to, data, bytes);
    to += bytes;
  };
  append(&header, sizeof header);
  if ((header.transport_flags & has_ballots) != 0) append(message.ballots, sizeof message.ballots);
  if (header.list_length > 0) append(buffers_->data(message.list), header.list_length * sizeof(std::uint32_t));
  buffers_->release(message.list);

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &Transport::on_am_sent;
  param.user_data = send;
  ++waiting_;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(peer.endpoint, am_id, send->header.data(), static_cast<std::size_t>(to - send->header.data()),
                      buffers_->data(message.value), value_bytes, &param);
  if (!UCS_PTR_IS_PTR(request)) finish_am(send, UCS_PTR_RAW_STATUS(request));
}

void Transport::on_am_sent(void* request, ucs_status_t status, void* arg) {
  auto* send = static_cast<AmSend*>(arg);
  send->owner->finish_am(send, status);
  ucp_request_free(request);
}

void Transport::finish_am(AmSend* send, ucs_status_t status) {
  buffers_->release(send->value);
  send->value = no_buffer;
  free_am_.push_back(send);
  --waiting_;
  if (status != UCS_OK) broken_.push_back({send->peer, status});
}

// Only hands the message over: nothing may be progressed from inside.
ucs_status_t Transport::on_am(void* arg, const void* header_data, size_t header_bytes, void* data, size_t bytes,
                              const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<Transport*>(arg);
  WireHeader header;
  if (header_bytes < sizeof header) {
    self.note_malformed(Malformed::length, -1);
    return UCS_OK;
  }
  std::memcpy(&header, header_data, sizeof header);
  const Malformed wrong = header.value_bytes != bytes
                              ? Malformed::length
                              : examine(header, self.setup_.cookie, header_bytes - sizeof header + bytes, UINT32_MAX);
  if (wrong != Malformed::no || (header.transport_flags & has_descriptor) != 0) {
    self.note_malformed(wrong == Malformed::no ? Malformed::length : wrong, -1);
    return UCS_OK;
  }
  AmArrival arrival;
  arrival.header = header;
  const auto* tail = static_cast<const std::byte*>(header_data) + sizeof header;
  if ((header.transport_flags & has_ballots) != 0) {
    std::memcpy(arrival.ballots, tail, sizeof arrival.ballots);
    tail += sizeof arrival.ballots;
  }
  arrival.list.resize(header.list_length);
  if (header.list_length > 0) std::memcpy(arrival.list.data(), tail, header.list_length * sizeof(std::uint32_t));
  ucs_status_t status = UCS_OK;
  if (bytes > 0 && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
    const std::uint64_t tag = reinterpret_cast<std::uint64_t>(data) | std::uint64_t{1} << 63;
    arrival.value = self.buffers_->adopt(static_cast<const std::byte*>(data), bytes, tag);
    status = UCS_INPROGRESS;  // kept until ucp_am_data_release
  } else if (bytes > 0) {
    arrival.value = self.buffers_->copy_in(data, bytes);
  }
  self.arrivals_.push_back(std::move(arrival));
  return status;
}

bool Transport::poll_am() {
  bool active = false;
  for (int rounds = 0; rounds < 16 && ucp_worker_progress(ucx_.worker()) != 0; ++rounds) active = true;
  for (std::size_t waiting = arrivals_.size(); waiting > 0; --waiting) {
    AmArrival arrival = std::move(arrivals_.front());
    arrivals_.pop_front();
    if (arrival.header.phase >= static_cast<std::uint8_t>(Control::hello)) {
      if (arrival.header.sender < setup_.ranks) {
        if (arrival.header.phase == static_cast<std::uint8_t>(Control::hello))
          peer_at(arrival.header.sender).hello_seen = true;
        setup_.sink.control(setup_.sink.arg, arrival.header, arrival.header.sender);
      }
    } else if (setup_.sink.accepts(setup_.sink.arg, arrival.header, -1)) {
      take_am(arrival, -1);
    } else {
      arrivals_.push_back(std::move(arrival));
      continue;
    }
    active = true;
  }
  std::vector<std::pair<int, ucs_status_t>> broken;
  broken.swap(broken_);
  for (const auto& [peer, status] : broken)
    setup_.sink.endpoint_failed(setup_.sink.arg, peer, ucs_status_string(status));
  return active;
}

void Transport::take_am(const AmArrival& arrival, int peer) {
  Message message = parse_header(arrival.header, arrival.ballots);
  message.value = buffers_->whole(arrival.value);
  if (!arrival.list.empty())
    message.list = buffers_->copy_in(arrival.list.data(), arrival.list.size() * sizeof(std::uint32_t));
  setup_.sink.deliver(setup_.sink.arg, arrival.header, message, peer);
  buffers_->release(message.value);
  buffers_->release(message.list);
}

// In the callback it is only recorded.
void Transport::on_endpoint_error(void* arg, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(arg);
  peer.endpoint_broken = true;
  peer.owner->broken_.push_back({peer.owner->index_of(peer), status});
}

int Transport::event_fd() {
  int descriptor = -1;
  return ucp_worker_get_efd(ucx_.worker(), &descriptor) == UCS_OK ? descriptor : -1;
}

bool Transport::arm() { return ucp_worker_arm(ucx_.worker()) == UCS_OK; }

}  // namespace ucft::detail

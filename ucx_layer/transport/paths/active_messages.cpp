#include "ucx_layer/transport/paths/active_messages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ucft::detail {

namespace {
std::uint32_t saturated(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX));
}
}  // namespace

bool ActiveMessages::open(std::string& error) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &ActiveMessages::on_arrival;
  handler.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(connections_.ucx().worker(), &handler);
  if (status == UCS_OK) return true;
  error = std::string("ucp_worker_set_am_recv_handler: ") + ucs_status_string(status);
  return false;
}

void ActiveMessages::send(int peer, const Outgoing& message) {
  const ucp_ep_h endpoint = connections_.to(peer);
  if (endpoint == nullptr) return;
  if (free_.empty()) {
    all_.push_back(std::make_unique<Sending>());
    free_.push_back(all_.back().get());
  }
  Sending* sending = free_.back();
  free_.pop_back();
  sending->owner = this;
  sending->value = message.value.buffer;
  station_.buffers.retain(sending->value);
  sending->peer = peer;
  WireHeader header = message.header;
  const std::uint64_t value_bytes = message.value.bytes;
  header.value_bytes = saturated(value_bytes);
  std::byte* to = sending->header.data();
  const auto append = [&](const void* data, std::size_t bytes) {
    std::memcpy(to, data, bytes);
    to += bytes;
  };
  append(&header, sizeof header);
  if ((header.transport_flags & has_tail) != 0) append(&message.tail, sizeof message.tail);
  if (header.list_length() > 0)
    append(station_.buffers.data(message.list), header.list_length() * sizeof(std::uint32_t));

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &ActiveMessages::on_sent;
  param.user_data = sending;
  ucs_status_ptr_t request = nullptr;
  const bool was_taken = connections_.ucx().run([&] {
    request =
        ucp_am_send_nbx(endpoint, id, sending->header.data(), static_cast<std::size_t>(to - sending->header.data()),
                        station_.buffers.data(message.value), value_bytes, &param);
  });
  if (was_taken && !UCS_PTR_IS_PTR(request)) finish(sending, UCS_PTR_RAW_STATUS(request));
}

void ActiveMessages::on_sent(void* request, ucs_status_t status, void* arg) {
  const AbortsKept::Outside outside;
  auto* sending = static_cast<Sending*>(arg);
  sending->owner->finish(sending, status);
  ucp_request_free(request);
}

void ActiveMessages::finish(Sending* sending, ucs_status_t status) {
  station_.buffers.release(sending->value);
  sending->value = no_buffer;
  free_.push_back(sending);
  if (status != UCS_OK) connections_.note_failure(sending->peer, status);
}

// Hands the message over, or delivers it in passing: nothing may be progressed from inside.
ucs_status_t ActiveMessages::on_arrival(void* arg, const void* header_data, size_t header_bytes, void* data,
                                        size_t bytes, const ucp_am_recv_param_t* param) {
  const AbortsKept::Outside outside;
  auto& self = *static_cast<ActiveMessages*>(arg);
  Arrival arrival;
  WireHeader& header = arrival.header;
  if (header_bytes < sizeof header) {
    self.station_.rejects.note(Malformed::length, -1);
    return UCS_OK;
  }
  std::memcpy(&header, header_data, sizeof header);
  const Malformed wrong =
      header.value_bytes != saturated(bytes)
          ? Malformed::length
          : examine(header, self.station_.cookie, header_bytes - sizeof header + header.value_bytes, UINT32_MAX);
  if (wrong != Malformed::no || (header.transport_flags & has_descriptor) != 0) {
    self.station_.rejects.note(wrong == Malformed::no ? Malformed::length : wrong, -1);
    return UCS_OK;
  }
  const auto* behind = static_cast<const std::byte*>(header_data) + sizeof header;
  if ((header.transport_flags & has_tail) != 0) {
    std::memcpy(&arrival.tail, behind, sizeof arrival.tail);
    behind += sizeof arrival.tail;
  }
  arrival.list.resize(header.list_length());
  if (header.list_length() > 0) std::memcpy(arrival.list.data(), behind, header.list_length() * sizeof(std::uint32_t));
  ucs_status_t status = UCS_OK;
  if (bytes > 0 && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
    arrival.value = self.station_.buffers.adopt(static_cast<const std::byte*>(data), bytes,
                                                reinterpret_cast<std::uint64_t>(data) | lent_by_message_path);
    status = UCS_INPROGRESS;  // kept until ucp_am_data_release
  } else if (bytes > short_bytes) {
    self.long_passed_ |= self.pass_by(std::move(arrival), {static_cast<const std::byte*>(data), bytes});
    return UCS_OK;
  } else if (bytes > 0) {
    arrival.value = self.station_.buffers.copy_anywhere(static_cast<const std::byte*>(data), bytes);
    if (arrival.value == no_buffer) return UCS_OK;  // lost, as what UCX has no memory for
  }
  self.short_came_ |= bytes <= short_bytes;
  self.arrived(std::move(arrival));
  return status;
}

void ActiveMessages::give_back(std::uint64_t tag) {
  if (connections_.ucx().has_given_up()) return;
  ucp_am_data_release(connections_.ucx().worker(), reinterpret_cast<void*>(tag & ~lent_by_message_path));
}

bool ActiveMessages::drive() {
  bool active = false;
  short_came_ = long_passed_ = false;
  for (int rounds = 0; rounds < 16 && !short_came_ && !long_passed_ && connections_.ucx().progress(); ++rounds)
    active = true;
  return active;
}

void ActiveMessages::report() {
  for (const auto& [peer, status] : connections_.take_failures())
    station_.sink.endpoint_failed(station_.sink.arg, peer, ucs_status_string(status));
}

int ActiveMessages::event_fd() {
  if (connections_.ucx().has_given_up()) return -1;
  int descriptor = -1;
  return ucp_worker_get_efd(connections_.ucx().worker(), &descriptor) == UCS_OK ? descriptor : -1;
}

bool ActiveMessages::arm() {
  return connections_.ucx().has_given_up() || ucp_worker_arm(connections_.ucx().worker()) == UCS_OK;
}

}  // namespace ucft::detail

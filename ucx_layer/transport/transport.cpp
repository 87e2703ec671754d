#include "ucx_layer/transport/transport.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <climits>
#include <cstdio>

#include <utility>

#include <fmt/core.h>

namespace ucft::detail {

namespace {

constexpr std::size_t page = 4096;
constexpr unsigned am_id = 17;
constexpr std::size_t am_tail_limit = 8 + failure_list_limit * sizeof(std::uint32_t);

void futex_wake(std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::span<const std::byte> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
}

}  // namespace

// One active message of ours on its way. Header and tail must stay where they are until UCX is done: 1.13 can't copy.
struct Transport::AmSend {
  std::array<std::byte, sizeof(WireHeader) + am_tail_limit> header;
  BufferId value = no_buffer;
  Transport* owner = nullptr;
  int peer = 0;
};

Transport::Transport(const Setup& setup) : setup_(setup), peers_(static_cast<std::size_t>(setup.ranks)), readers_(static_cast<std::size_t>(setup.ranks)) {
  buffers_ = std::make_unique<Buffers>(ChunkSource{&Transport::allocate_chunk, this});
}

Transport::~Transport() {
  for (AmArrival& arrival : arrivals_) buffers_->release(arrival.value);
  give_back();   // into memory that is still mapped
  for (Peer& peer : peers_) {
    peer.mapped.close();
    close_endpoint(peer);
  }
  // What was on its way ends now, one way or the other, while the memory that it points to is still there.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (calls_under_way_ > 0 && std::chrono::steady_clock::now() < until) ucp_worker_progress(ucx_.worker());
  ucx_.destroy_worker();
  for (auto& [inode, registration] : registrations_) ucp_mem_unmap(ucx_.context(), registration.handle);
  range_.close();
}

// ---- wire-up --------------------------------------------------------------------------------------------------------

// The segment: control page | credit, one line a reader | pull tables, one a reader | rings, one a writer.
std::byte* Transport::credit_area(std::byte* segment, int reader) const {
  return segment + page + static_cast<std::size_t>(reader) * 64;
}
std::byte* Transport::pulled_area(std::byte* segment, int reader) const {
  const auto credits = static_cast<std::size_t>(setup_.ranks) * 64;
  return segment + page + credits + static_cast<std::size_t>(reader) * tickets * sizeof(std::uint32_t);
}
std::byte* Transport::ring_area(std::byte* segment, int writer) const {
  return pulled_area(segment, setup_.ranks) + static_cast<std::size_t>(writer) * mailbox_lines * sizeof(MailboxLine);
}
std::size_t Transport::segment_bytes() const {
  return static_cast<std::size_t>(ring_area(nullptr, setup_.ranks) - static_cast<std::byte*>(nullptr));
}

bool Transport::open(std::string& error) {
  if (!range_.open(setup_.range_bytes, least_range_bytes(), error) || !range_.take(segment_bytes(), SharedRange::Use::internal, own_, error)) return false;
  control_ = reinterpret_cast<ControlPage*>(own_.data());
  control_->cookie = setup_.cookie;
  if (!setup_.needs_messages) return true;
  if (!ucx_.open(static_cast<std::size_t>(setup_.ranks), setup_.on_one_host, error)) return false;

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = am_id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = &Transport::on_am;
  handler.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(ucx_.worker(), &handler);
  if (status == UCS_OK) return true;
  error = std::string("ucp_worker_set_am_recv_handler: ") + ucs_status_string(status);
  return false;
}

PeerAddress Transport::own_address(std::string& error) const {
  PeerAddress address;
  if (setup_.needs_messages) address.worker = ucx_.address(error);
  address.range = range_.name();
  return address;
}

bool Transport::connect(const std::vector<PeerAddress>& addresses, std::string& error) {
  const auto tag = static_cast<std::uint16_t>(setup_.cookie ^ (setup_.cookie >> 16));
  for (int index = 0; index < setup_.ranks; ++index) {
    Peer& peer = peer_at(index);
    peer.owner = this;
    if (index == setup_.me) {
      peer.forgotten = true;
      continue;
    }
    const PeerAddress& address = addresses[static_cast<std::size_t>(index)];
    if (address.shares_memory) {
      if (!peer.mapped.open(address.range, error)) {
        error = fmt::format("rank {}'s memory can't be mapped: {}", index, error);
        return false;
      }
      std::byte* there = peer.mapped.at(address.range.address);
      peer.control = reinterpret_cast<ControlPage*>(there);
      if (peer.control->cookie != setup_.cookie) {
        error = fmt::format("rank {}'s memory belongs to another job", index);
        return false;
      }
      peer.writer = MailboxWriter(reinterpret_cast<MailboxLine*>(ring_area(there, setup_.me)),
                                  reinterpret_cast<std::atomic<std::uint64_t>*>(credit_area(own_.data(), index)), tag);
      reader_of(peer) = MailboxReader(reinterpret_cast<MailboxLine*>(ring_area(own_.data(), index)),
                                  reinterpret_cast<std::atomic<std::uint64_t>*>(credit_area(there, setup_.me)), tag);
      peer.pulled_here = reinterpret_cast<std::atomic<std::uint32_t>*>(pulled_area(own_.data(), index));
      peer.pulled_there = reinterpret_cast<std::atomic<std::uint32_t>*>(pulled_area(there, setup_.me));
      mailbox_peers_.push_back(index);
      continue;
    }
    ++message_peers_;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.worker.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &Transport::on_endpoint_error;
    params.err_handler.arg = &peer;
    const ucs_status_t status = ucp_ep_create(ucx_.worker(), &params, &peer.endpoint);
    if (status != UCS_OK) {
      peer.endpoint = nullptr;
      error = fmt::format("rank {} can't be reached: {}", index, ucs_status_string(status));
      return false;
    }
  }
  return true;
}

Transport::Paths Transport::paths() const {
  Paths paths;
  for (const Peer& peer : peers_) {
    paths.shared_memory += peer.mapped.is_open();
    paths.remote_mailboxes += peer.remote != nullptr;
  }
  paths.messages = message_peers_ - paths.remote_mailboxes;
  return paths;
}

void Transport::send_hellos() {
  for (int index = 0; index < setup_.ranks; ++index)
    if (!peer_at(index).forgotten && !is_mapped(index)) send_control(index, Control::hello, 0, setup_.me);
}

int Transport::missing_greeting(bool lost) const {
  for (const Peer& peer : peers_)
    if (!peer.forgotten && !peer.mapped.is_open() && !peer.hello_seen && (!lost || peer.endpoint_broken)) return index_of(peer);
  return -1;
}

bool Transport::wired() const { return waiting_ == 0 && missing_greeting() < 0; }

std::vector<std::byte> Transport::own_remote_key() {
  for (const Peer& peer : peers_)
    if (peer.endpoint != nullptr && !Ucx::has_remote_access(peer.endpoint)) return {};
  const Registration* registration = message_peers_ > 0 ? registration_of(own_) : nullptr;
  return registration == nullptr ? std::vector<std::byte>{} : registration->key;
}

bool Transport::open_remote_mailbox(int index, std::uint64_t segment, std::span<const std::byte> key, std::string& error) {
  Peer& peer = peer_at(index);
  if (peer.endpoint == nullptr || peer.forgotten) return true;   // shares memory with us, or is gone
  auto remote = std::make_unique<Remote>();
  const ucs_status_t status = ucp_ep_rkey_unpack(peer.endpoint, key.data(), &remote->key);
  if (status != UCS_OK) {
    error = fmt::format("rank {}'s remote key is of no use here: {}", index, ucs_status_string(status));
    return false;
  }
  remote->segment = segment;
  remote->lines = std::vector<MailboxLine>(mailbox_lines);
  const auto tag = static_cast<std::uint16_t>(setup_.cookie ^ (setup_.cookie >> 16));
  peer.writer = MailboxWriter(remote->lines.data(), reinterpret_cast<std::atomic<std::uint64_t>*>(credit_area(own_.data(), index)), tag);
  reader_of(peer) = MailboxReader(reinterpret_cast<MailboxLine*>(ring_area(own_.data(), index)), &remote->credit, tag);
  peer.pulled_here = reinterpret_cast<std::atomic<std::uint32_t>*>(pulled_area(own_.data(), index));
  peer.remote = std::move(remote);
  mailbox_peers_.push_back(index);
  remote_peers_.push_back(index);
  return true;
}

// ---- sending --------------------------------------------------------------------------------------------------------

void Transport::send(int index, const Message& message, const WireContext& context) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return;
  Queued queued{compose_header(message, context), {message.first_decided, message.accepted}, message.value, message.list};
  if (by_mailbox(peer) && peer.backlog.empty() && try_write(peer, queued)) return;
  buffers_->retain(queued.value);
  buffers_->retain(queued.list);
  push(peer, queued);
}

Transport::Queued Transport::control_message(Control control, std::uint32_t communicator, std::int32_t sender) const {
  Queued queued{};
  queued.header.cookie = setup_.cookie;
  queued.header.version = wire_version;
  queued.header.phase = static_cast<std::uint8_t>(control);
  queued.header.communicator = communicator;
  queued.header.sender = sender;
  return queued;
}

void Transport::send_control(int index, Control control, std::uint32_t communicator, std::int32_t sender) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return;
  const Queued queued = control_message(control, communicator, sender);
  if (by_mailbox(peer) && peer.backlog.empty() && try_write(peer, queued)) return;
  push(peer, queued);
}

void Transport::send_alarm(int index, std::int32_t failed, bool proved) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return;
  Queued queued = control_message(Control::failed, 0, setup_.me);
  queued.header.attempt = failed;
  queued.header.flags = proved;
  if (by_mailbox(peer) && peer.backlog.empty() && try_write(peer, queued)) return;
  push(peer, queued);
}

// Takes over the references.
void Transport::push(Peer& peer, const Queued& message) {
  if (!by_mailbox(peer)) return send_am(peer, message);
  peer.backlog.push_back(message);
  ++waiting_;
}

void Transport::drop(const Queued& message) {
  buffers_->release(message.value);
  buffers_->release(message.list);
}

// Into the ring at once, with no reference kept; false if there is no room.
bool Transport::try_write(Peer& peer, const Queued& message) {
  WireHeader header = message.header;
  const std::uint64_t value_bytes = message.value.bytes;
  if (value_bytes > inline_limit) {
    const int ticket = free_ticket(peer);
    return ticket >= 0 && write_descriptor(peer, message, static_cast<std::uint32_t>(ticket));
  }
  header.value_bytes = static_cast<std::uint32_t>(value_bytes);
  const std::uint64_t body = body_bytes(header);
  if (body == value_bytes && (body == 8 || body == 0)) {   // the common case
    if (!has_room(peer, 1)) return false;
    std::uint64_t word = 0;
    if (body == 8) std::memcpy(&word, buffers_->data(message.value), sizeof word);
    peer.writer.write_line(header, word);
    touch(peer);
    return true;
  }
  if (!has_room(peer, mailbox_lines_of(sizeof header + body))) return false;
  const bool ballots = (header.transport_flags & has_ballots) != 0;
  const std::span<const std::byte> parts[] = {
      bytes_of(header), {buffers_->data(message.value), value_bytes},
      ballots ? bytes_of(message.ballots) : std::span<const std::byte>{},
      {buffers_->data(message.list), header.list_length * sizeof(std::uint32_t)}};
  peer.writer.write(parts);
  touch(peer);
  return true;
}

int Transport::free_ticket(Peer& peer) const {
  for (int ticket = 0; ticket < tickets && peer.pulls_open < tickets; ++ticket)
    if (peer.pulls[static_cast<std::size_t>(ticket)].value == no_buffer) return ticket;
  return -1;
}

bool Transport::write_descriptor(Peer& peer, const Queued& message, std::uint32_t ticket) {
  Pull& pull = peer.pulls[ticket];
  const std::uint64_t bytes = message.value.bytes;
  const Segment* segment = segment_of(buffers_->data(message.value), bytes);
  assert(segment != nullptr && "a value lives in memory that peers can map");
  std::span<const std::byte> key;
  if (peer.remote != nullptr) {
    const Registration* registration = registration_of(*segment);
    if (registration == nullptr) {   // e.g. the limit of locked memory: as a message it goes, too
      Queued whole = message;
      buffers_->retain(whole.value);
      buffers_->retain(whole.list);
      send_am(peer, whole);
      return true;
    }
    key = registration->key;
  }
  const WireDescriptor descriptor{reinterpret_cast<std::uint64_t>(buffers_->data(message.value)), bytes, ticket,
                                  pull.generation + 1, segment->name()};
  WireHeader header = message.header;
  header.transport_flags |= has_descriptor;
  header.value_bytes = static_cast<std::uint32_t>(sizeof descriptor + key.size());
  if (!has_room(peer, mailbox_lines_of(sizeof header + body_bytes(header)))) return false;
  const bool ballots = (header.transport_flags & has_ballots) != 0;
  const std::span<const std::byte> parts[] = {
      bytes_of(header), bytes_of(descriptor), key, ballots ? bytes_of(message.ballots) : std::span<const std::byte>{},
      {buffers_->data(message.list), header.list_length * sizeof(std::uint32_t)}};
  peer.writer.write(parts);
  touch(peer);
  ++pull.generation;
  pull.value = message.value.buffer;
  buffers_->retain(message.value);
  ++peer.pulls_open;
  ++waiting_;
  return true;
}

// After a line was written.
void Transport::touch(Peer& peer) {
  if (peer.remote != nullptr) return put_lines(peer);
  if (peer.touched) return;
  peer.touched = true;
  touched_.push_back(index_of(peer));
}

// A store wakes nobody: whoever was written to and sleeps is woken here. Our lines must be visible before we look at
// `sleeping`. A fence for that would wait until the line has travelled, in every message; so the sleeper makes all of us
// fence (membarrier) after it has set the word, and looks at its rings again.
void Transport::ring_doorbells() {
  if (touched_.empty()) return;
  if (setup_.sleeper_fences)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int index : touched_) {
    Peer& peer = peer_at(index);
    peer.touched = false;
    if (peer.control->sleeping.load(std::memory_order_relaxed) == 0) continue;
    peer.control->sleeping.store(0, std::memory_order_relaxed);
    futex_wake(&peer.control->sleeping);
  }
  touched_.clear();
}

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

// ---- receiving ------------------------------------------------------------------------------------------------------

bool Transport::poll() {
  bool active = false;
  for (int index : mailbox_peers_) {
    if (readers_[static_cast<std::size_t>(index)].has_line() && !peer_at(index).forgotten)
      active |= poll_mailbox(peer_at(index));
  }
  for (int index : remote_peers_)
    if (peer_at(index).remote->pull != nullptr) active |= finish_pull(peer_at(index));
  if (message_peers_ > 0 || arrivals_.size() > 0) active |= poll_am();
  if (waiting_ > 0) advance_waiting();
  give_back();
  return active;
}

void Transport::drain(int index) {
  Peer& peer = peer_at(index);
  if (!by_mailbox(peer) || peer.forgotten) return;
  while (poll_mailbox(peer)) {
  }
  give_back();
}

// At most one message. Its lines are consumed once its bytes are ours.
bool Transport::poll_mailbox(Peer& peer) {
  MailboxReader& reader = reader_of(peer);
  if (!reader.has_line() || (peer.remote != nullptr && peer.remote->pull != nullptr)) return false;
  WireHeader header;
  std::memcpy(&header, reader.payload(), sizeof header);
  const Malformed wrong = examine(header, setup_.cookie, body_bytes(header), inline_limit);
  if (wrong != Malformed::no) {
    note_malformed(wrong, index_of(peer));
    reader.consume(1);
    put_credit(peer);
    return true;
  }
  const std::uint64_t body = body_bytes(header);
  const std::uint32_t lines = mailbox_lines_of(sizeof header + body);
  if (lines > 1 && !reader.has_lines(lines)) return false;
  if (header.phase >= static_cast<std::uint8_t>(Control::hello)) {
    reader.consume(lines);
    put_credit(peer);
    setup_.sink.control(setup_.sink.arg, header, index_of(peer));
    return true;
  }
  if (!setup_.sink.accepts(setup_.sink.arg, header, index_of(peer))) return false;
  if (peer.remote != nullptr && (header.transport_flags & has_descriptor) != 0) return start_pull(peer, header);

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
  bool complete = true;
  if ((header.transport_flags & has_descriptor) != 0) {
    message.value = buffers_->whole(map_payload(peer));
    complete = static_cast<bool>(message.value);
    if (complete) copy_if_crowded(peer, message);
  } else if (header.value_bytes > 0) {
    message.value = {read_value(peer, header), 0, header.value_bytes};
  }
  reader.consume(lines);
  put_credit(peer);
  if (complete) setup_.sink.deliver(setup_.sink.arg, header, message, index_of(peer));
  buffers_->release(message.value);
  buffers_->release(message.list);
  return true;
}

BufferId Transport::read_value(Peer& peer, const WireHeader& header) {
  const BufferId value = buffers_->allocate(header.value_bytes);   // inline, so there is a private block at least
  if (header.value_bytes == 8)
    std::memcpy(buffers_->data(value), reader_of(peer).payload() + sizeof header, 8);
  else
    reader_of(peer).copy(sizeof header, buffers_->data(value), header.value_bytes);
  return value;
}

// Not copied: the value is the peer's own memory, until the last reference to the buffer goes (give_back).
BufferId Transport::map_payload(Peer& peer) {
  WireDescriptor descriptor;
  reader_of(peer).copy(sizeof(WireHeader), reinterpret_cast<std::byte*>(&descriptor), sizeof descriptor);
  if (descriptor.ticket >= tickets || descriptor.bytes == 0) {
    note_malformed(Malformed::length, index_of(peer));
    return no_buffer;
  }
  if (!peer.mapped.contains(descriptor.address, descriptor.bytes)) {
    note_malformed(Malformed::length, index_of(peer));
    return no_buffer;
  }
  ++peer.views;
  const std::uint64_t tag = std::uint64_t{static_cast<std::uint32_t>(index_of(peer))} << 40 |
                            std::uint64_t{descriptor.ticket} << 32 | descriptor.generation;
  return buffers_->adopt(peer.mapped.at(descriptor.address), descriptor.bytes, tag);
}

// The owner has so many tickets. What we keep of one operation must not block the next message of the same one.
void Transport::copy_if_crowded(Peer& peer, Message& message) {
  if (peer.views <= tickets / 2) return;
  const BufferId copy = buffers_->copy_in(buffers_->data(message.value), message.value.bytes);
  if (copy == no_buffer) return;
  buffers_->release(message.value);
  message.value = buffers_->whole(copy);
}

// Tells owners that their payloads have been read, and UCX that its data can go.
void Transport::give_back() {
  std::vector<std::uint64_t>& released = buffers_->released();
  if (released.empty()) return;
  for (std::uint64_t tag : released) {
    if (tag >> 63) {
      if (tag != ~std::uint64_t{0}) ucp_am_data_release(ucx_.worker(), reinterpret_cast<void*>(tag & ~(std::uint64_t{1} << 63)));
      continue;
    }
    Peer& peer = peer_at(static_cast<int>(tag >> 40));
    --peer.views;
    peer.pulled_there[(tag >> 32) & 0xff].store(static_cast<std::uint32_t>(tag), std::memory_order_release);
  }
  released.clear();
}

void Transport::collect_pulls(Peer& peer) {
  for (std::size_t ticket = 0; ticket < tickets && peer.pulls_open > 0; ++ticket) {
    Pull& pull = peer.pulls[ticket];
    if (pull.value == no_buffer || peer.pulled_here[ticket].load(std::memory_order_acquire) != pull.generation) continue;
    buffers_->release(pull.value);
    pull.value = no_buffer;
    --peer.pulls_open;
    --waiting_;
  }
}

void Transport::advance_waiting() {
  for (int index : mailbox_peers_) {
    Peer& peer = peer_at(index);
    if (peer.pulls_open > 0) collect_pulls(peer);
    while (!peer.backlog.empty() && try_write(peer, peer.backlog.front())) {
      drop(peer.backlog.front());
      peer.backlog.pop_front();
      --waiting_;
    }
  }
  ring_doorbells();
}

void Transport::publish_credit() {
  for (int index : mailbox_peers_) {
    readers_[static_cast<std::size_t>(index)].publish();
    put_credit(peer_at(index));
  }
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
    status = UCS_INPROGRESS;   // kept until ucp_am_data_release
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
        if (arrival.header.phase == static_cast<std::uint8_t>(Control::hello)) peer_at(arrival.header.sender).hello_seen = true;
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
  if (!arrival.list.empty()) message.list = buffers_->copy_in(arrival.list.data(), arrival.list.size() * sizeof(std::uint32_t));
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

void Transport::forget(int index) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return;
  peer.forgotten = true;
  for (const Queued& message : peer.backlog) {
    drop(message);
    --waiting_;
  }
  peer.backlog.clear();
  for (Pull& pull : peer.pulls) {
    if (pull.value == no_buffer) continue;
    buffers_->release(pull.value);
    pull.value = no_buffer;
    --waiting_;
  }
  peer.pulls_open = 0;
  close_endpoint(peer);
}

void Transport::note_malformed(Malformed what, int peer) {
  if (malformed_++ == 0 && setup_.log)
    fmt::print(stderr, "ucft: rank {}: dropped a message ({}{}); further ones are only counted\n", setup_.me,
               malformed_name(what), peer < 0 ? "" : fmt::format(", from rank {}", peer));
}

int Transport::event_fd() {
  int descriptor = -1;
  return ucp_worker_get_efd(ucx_.worker(), &descriptor) == UCS_OK ? descriptor : -1;
}
bool Transport::arm() { return ucp_worker_arm(ucx_.worker()) == UCS_OK; }

void Transport::say_goodbye(const std::function<bool(int peer)>& may_live) {
  for (int index = 0; index < setup_.ranks; ++index)
    if (!peer_at(index).forgotten && !is_mapped(index)) send_control(index, Control::leave, 0, setup_.me);
  if (message_peers_ == 0) return;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto arrived_by = begin + std::chrono::seconds(3);
  while (waiting_ > 0 && Clock::now() < begin + std::chrono::seconds(1)) poll();
  // The kernel sees to what went over tcp. A flush there is not only idle: if the peer closes its end meanwhile, UCX 1.13
  // may end the process (uct_iface.h, "comp->count > 0").
  std::vector<std::pair<int, Ucx::Flush>> flushes;
  for (const Peer& peer : peers_)
    if (peer.endpoint != nullptr && !peer.endpoint_broken && !Ucx::is_over_tcp(peer.endpoint)) flushes.emplace_back(index_of(peer), Ucx::Flush(peer.endpoint));
  const auto awaited = [&](const auto& each) { return each.second.is_under_way() && may_live(each.first); };
  while (std::any_of(flushes.begin(), flushes.end(), awaited) && Clock::now() < arrived_by) poll();
  // Closing a socket with unread bytes resets it, and the other side may lose what we said: read for a moment longer.
  const auto read_until = begin + std::chrono::milliseconds(100);
  const auto still_there = [&](const Peer& peer) { return !peer.forgotten && !peer.mapped.is_open() && !peer.endpoint_broken; };
  while (Clock::now() < read_until && std::any_of(peers_.begin(), peers_.end(), still_there)) poll();
}

// ---- the remote path ------------------------------------------------------------------------------------------------

// A put or a get of ours on its way.
struct Transport::RemoteCall {
  Transport* owner = nullptr;
  int peer = 0;
  bool done = false, abandoned = false;
  ucs_status_t status = UCS_OK;
  std::uint64_t last_line = 0;         // a put of lines; 0: of anything else
  BufferId value = no_buffer;          // a get: where it goes
  BufferId source = no_buffer;         // a put of a window's content: where it comes from
  ucp_rkey_h key = nullptr;            // one of Remote::keys
  std::uint32_t ticket = 0, generation = 0;
};

// nullptr: it can't be registered, or its key is too long for a message.
const Transport::Registration* Transport::registration_of(const Segment& segment) {
  const auto found = registrations_.find(segment.name().id);
  if (found != registrations_.end()) return found->second.key.empty() ? nullptr : &found->second;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = segment.data();
  params.length = segment.name().bytes;
  Registration made{};
  if (ucp_mem_map(ucx_.context(), &params, &made.handle) != UCS_OK) return nullptr;
  void* packed = nullptr;
  std::size_t bytes = 0;
  if (ucp_rkey_pack(ucx_.context(), made.handle, &packed, &bytes) == UCS_OK) {
    const auto* key = static_cast<const std::byte*>(packed);
    if (bytes <= remote_key_limit) made.key.assign(key, key + bytes);
    ucp_rkey_buffer_release(packed);
  }
  Registration& kept = registrations_[segment.name().id] = std::move(made);
  return kept.key.empty() ? nullptr : &kept;
}

// After this the device refuses whoever still has the key.
void Transport::unregister(const Segment& segment) {
  const auto found = registrations_.find(segment.name().id);
  if (found == registrations_.end()) return;
  ucp_mem_unmap(ucx_.context(), found->second.handle);
  registrations_.erase(found);
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

void Transport::start_put(Peer& peer, RemoteCall* call, const void* source, std::size_t bytes, std::uint64_t target, ucp_rkey_h key) {
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
    if (each.segment.id == segment.id && std::equal(each.packed.begin(), each.packed.end(), packed.begin(), packed.end()))
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
  const bool fits = descriptor.ticket < tickets && descriptor.bytes > 0 && descriptor.address >= descriptor.segment.address &&
                    descriptor.address - descriptor.segment.address <= descriptor.segment.bytes &&
                    descriptor.bytes <= descriptor.segment.bytes - (descriptor.address - descriptor.segment.address);
  const ucp_rkey_h key = fits && peer.endpoint != nullptr && !peer.endpoint_broken ? key_of(peer, descriptor.segment, {packed, packed_bytes}) : nullptr;
  if (key == nullptr) {   // malformed, or its owner is gone
    if (!fits) note_malformed(Malformed::length, index_of(peer));
    reader.consume(mailbox_lines_of(sizeof header + body_bytes(header)));
    put_credit(peer);
    return true;
  }
  BufferId value = buffers_->allocate(descriptor.bytes);
  if (value == no_buffer) value = buffers_->allocate_private(descriptor.bytes);
  if (value == no_buffer) return false;   // some may come back
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
  const ucs_status_ptr_t request = ucp_get_nbx(peer.endpoint, buffers_->data(value), descriptor.bytes, descriptor.address, key, &param);
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
  put(peer, &remote.pulled[call->ticket], sizeof(std::uint32_t), remote.segment + table + call->ticket * sizeof(std::uint32_t));
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

// ---- windows --------------------------------------------------------------------------------------------------------

WindowMemory* Transport::take_window(int index, std::size_t bytes) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return nullptr;
  WindowMemory* best = nullptr;
  for (const auto& each : peer.windows)
    if (!each->taken && each->bytes >= bytes && (best == nullptr || each->bytes < best->bytes)) best = each.get();
  if (best == nullptr) {
    WindowMemory fresh;
    fresh.bytes = std::bit_ceil(bytes);   // so that what is too small, later, is no more than what is used
    fresh.data = carve_window(fresh.bytes);
    if (fresh.data == nullptr) return nullptr;
    peer.windows.push_back(std::make_unique<WindowMemory>(fresh));
    best = peer.windows.back().get();
  }
  best->taken = true;
  ++best->generation;
  return best;
}

// Peers map whole segments, and devices register them: so few, each as large as all before it.
std::byte* Transport::carve_window(std::size_t bytes) {
  constexpr std::size_t smallest = 1 << 18;
  if (window_segments_.empty() || window_segments_.back().name().bytes - window_bytes_used_ < bytes) {
    std::size_t all = smallest;
    for (const Segment& each : window_segments_) all += each.name().bytes;
    Segment fresh;
    std::string error;
    if (!range_.take(std::max(bytes, all), SharedRange::Use::internal, fresh, error) && !range_.take(bytes, SharedRange::Use::internal, fresh, error)) return nullptr;
    window_segments_.push_back(fresh);
    window_bytes_used_ = 0;
  }
  std::byte* data = window_segments_.back().data() + window_bytes_used_;
  window_bytes_used_ += bytes;
  return data;
}

const Segment* Transport::window_segment(const std::byte* memory) const {
  for (const Segment& each : window_segments_)
    if (each.contains(memory, 1)) return &each;
  return nullptr;
}

std::span<const std::byte> Transport::remote_key_of(const Segment& segment) {
  const Registration* registration = registration_of(segment);
  return registration == nullptr ? std::span<const std::byte>{} : registration->key;
}

std::byte* Transport::window_of(int index, std::uint64_t address, std::uint64_t bytes) {
  const MappedRange& mapped = peer_at(index).mapped;
  return mapped.contains(address, bytes) ? mapped.at(address) : nullptr;
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

// ---- memory ---------------------------------------------------------------------------------------------------------

std::byte* Transport::allocate_chunk(void* arg, std::size_t bytes) {
  auto& self = *static_cast<Transport*>(arg);
  Segment chunk;
  std::string error;
  if (!self.range_.take(bytes, SharedRange::Use::internal, chunk, error)) return nullptr;
  self.chunks_.push_back(chunk);
  return self.chunks_.back().data();
}

const Segment* Transport::segment_of(const void* memory, std::size_t bytes) const {
  for (const std::vector<Segment>* segments : {&chunks_, &lent_})
    for (std::size_t i = segments->size(); i-- > 0;)
      if ((*segments)[i].contains(memory, bytes)) return &(*segments)[i];
  return nullptr;
}

std::byte* Transport::allocate_shared(std::size_t bytes) {
  Segment segment;
  std::string error;
  if (!range_.take(bytes, SharedRange::Use::lent, segment, error)) return nullptr;
  lent_.push_back(segment);
  return lent_.back().data();
}

bool Transport::free_shared(void* memory) {
  const auto found = std::find_if(lent_.begin(), lent_.end(), [&](const Segment& each) { return each.data() == memory; });
  if (found == lent_.end()) return false;
  unregister(*found);
  range_.give_back(*found);
  lent_.erase(found);
  return true;
}

bool Transport::is_shared(const void* memory, std::size_t bytes) const {
  return std::any_of(lent_.begin(), lent_.end(), [&](const Segment& each) { return each.contains(memory, bytes); });
}

}  // namespace ucft::detail

#include "ucx_layer/transport/transport.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "ucx_layer/transport/paths/calls.hpp"

namespace ucft::detail {

namespace {

constexpr std::size_t page = 4096;

}  // namespace

Transport::Transport(const Setup& setup)
    : setup_(setup), peers_(static_cast<std::size_t>(setup.ranks)), readers_(static_cast<std::size_t>(setup.ranks)) {
  buffers_ = std::make_unique<Buffers>(ChunkSource{&Transport::allocate_chunk, this});
}

Transport::~Transport() {
  for (AmArrival& arrival : arrivals_) buffers_->release(arrival.value);
  give_back();  // into memory that is still mapped
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
  if (!range_.open(setup_.range_bytes, least_range_bytes(), error) ||
      !range_.take(segment_bytes(), SharedRange::Use::internal, own_, error))
    return false;
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
      reader_of(peer) =
          MailboxReader(reinterpret_cast<MailboxLine*>(ring_area(own_.data(), index)),
                        reinterpret_cast<std::atomic<std::uint64_t>*>(credit_area(there, setup_.me)), tag);
      peer.pulled_here = reinterpret_cast<std::atomic<std::uint32_t>*>(pulled_area(own_.data(), index));
      peer.pulled_there = reinterpret_cast<std::atomic<std::uint32_t>*>(pulled_area(there, setup_.me));
      mailbox_peers_.push_back(index);
      continue;
    }
    ++message_peers_;
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
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
    if (!peer.forgotten && !peer.mapped.is_open() && !peer.hello_seen && (!lost || peer.endpoint_broken))
      return index_of(peer);
  return -1;
}

bool Transport::wired() const { return waiting_ == 0 && missing_greeting() < 0; }

// ---- sending --------------------------------------------------------------------------------------------------------

void Transport::send(int index, const Message& message, const WireStamp& context) {
  Peer& peer = peer_at(index);
  if (peer.forgotten) return;
  Queued queued{
      compose_header(message, context), {message.first_decided, message.accepted}, message.value, message.list};
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

// ---- receiving ------------------------------------------------------------------------------------------------------

bool Transport::poll() {
  bool active = false;
  for (int index : mailbox_peers_) {
    if (readers_[static_cast<std::size_t>(index)].has_line() && !peer_at(index).forgotten)
      active |= poll_mailbox(peer_at(index));
  }
  for (int index : remote_peers_)
    if (peer_at(index).remote->pull != nullptr) active |= finish_pull(peer_at(index));
  if (message_peers_ > 0 || !arrivals_.empty()) active |= poll_am();
  if (waiting_ > 0) advance_waiting();
  give_back();
  return active;
}

void Transport::drain(int index) {
  Peer& peer = peer_at(index);
  if (!by_mailbox(peer) || peer.forgotten) return;
  while (poll_mailbox(peer)) {}
  give_back();
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
    if (peer.endpoint != nullptr && !peer.endpoint_broken && !Ucx::is_over_tcp(peer.endpoint))
      flushes.emplace_back(index_of(peer), Ucx::Flush(peer.endpoint));
  const auto awaited = [&](const auto& each) { return each.second.is_under_way() && may_live(each.first); };
  while (std::any_of(flushes.begin(), flushes.end(), awaited) && Clock::now() < arrived_by) poll();
  // Closing a socket with unread bytes resets it, and the other side may lose what we said: read for a moment longer.
  const auto read_until = begin + std::chrono::milliseconds(100);
  const auto still_there = [&](const Peer& peer) {
    return !peer.forgotten && !peer.mapped.is_open() && !peer.endpoint_broken;
  };
  while (Clock::now() < read_until && std::any_of(peers_.begin(), peers_.end(), still_there)) poll();
}

}  // namespace ucft::detail

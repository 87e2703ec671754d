#include "ucx_layer/transport/wiring.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ucx_layer/transport/paths/active_messages.hpp"
#include "ucx_layer/transport/paths/remote.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

std::byte* chunk_of(void* segments, std::size_t bytes) { return static_cast<Segments*>(segments)->chunk(bytes); }

}  // namespace

void Rejects::note(Malformed what, int peer) {
  if (count_++ == 0 && log_)
    fmt::print(stderr, "ucft: rank {}: dropped a message ({}{}); further ones are only counted\n", me_,
               malformed_name(what), peer < 0 ? "" : fmt::format(", from rank {}", peer));
}

Wiring::Wiring(const Setup& setup)
    : setup_(setup),
      mailboxes_(setup.mailboxes.here.empty() ? MailboxPlaces::of_all(setup.ranks, setup.me) : setup.mailboxes),
      first_(mailboxes_.count, setup.ring_lines),
      buffers_(ChunkSource{&chunk_of, &segments_}),
      rejects_(setup.me, setup.log),
      station_{setup.me, setup.ranks, setup.cookie, setup.ring_lines, mailboxes_, setup.sink, buffers_, rejects_},
      shared_(station_, segments_, setup.sleeper_fences),
      windows_({buffers_, segments_, shared_}, setup.ranks),
      paths_(static_cast<std::size_t>(setup.ranks), nullptr) {}

Wiring::~Wiring() = default;

bool Wiring::open(std::string& error) {
  if (!segments_.open(setup_.range_bytes, least_range_bytes(), first_.bytes(), error)) return false;
  control()->cookie = setup_.cookie;
  control()->rank = setup_.me;
  control()->ranks = setup_.ranks;
  control()->pid = segments_.range().pid;
  control()->address = reinterpret_cast<std::uint64_t>(control());
  if (!setup_.needs_messages) return true;
  if (setup_.message_path) {
    messages_ = setup_.message_path(station_);
    return messages_->open(error);
  }
  connections_ = std::make_unique<Connections>(setup_.ranks);
  if (!connections_->open(setup_.connections, setup_.on_one_host, error, setup_.tcp_devices)) return false;
  messages_ = std::make_unique<ActiveMessages>(station_, *connections_);
  registrations_ = std::make_unique<Registrations>(connections_->ucx().context());
  remote_ = std::make_unique<RemotePath>(station_, segments_, *connections_, *registrations_, *messages_);
  windows_.reach_by(remote_.get(), connections_.get(), registrations_.get());
  return messages_->open(error);
}

PeerAddress Wiring::own_address(std::string& error) {
  PeerAddress address;
  if (messages_ != nullptr) address.messages = messages_->address(error);
  address.range = segments_.range();
  return address;
}

bool Wiring::connect(const std::vector<PeerAddress>& addresses, std::string& error) {
  for (int peer = 0; peer < setup_.ranks; ++peer) {
    if (peer == setup_.me) continue;
    const PeerAddress& address = addresses[static_cast<std::size_t>(peer)];
    absent_ += address.is_absent;
    if (address.is_absent) continue;
    if (!address.shares_memory && !address.at_once) {
      addresses_.resize(paths_.size());
      addresses_[static_cast<std::size_t>(peer)] = address.messages;
      paths_[static_cast<std::size_t>(peer)] = &unconnected_;
      continue;
    }
    if (!(address.shares_memory ? shared_.connect(peer, address.range, error)
                                : messages_->connect(peer, address.messages, error)))
      return false;
    paths_[static_cast<std::size_t>(peer)] = address.shares_memory ? static_cast<Path*>(&shared_) : messages_.get();
  }
  return true;
}

void Wiring::connect_to(int peer) {
  Path*& path = paths_[static_cast<std::size_t>(peer)];
  if (!is_unconnected(peer)) return;
  path = messages_.get();
  connected_late_.resize(paths_.size());
  connected_late_[static_cast<std::size_t>(peer)] = true;
  std::string error;
  std::vector<std::byte>& address = addresses_[static_cast<std::size_t>(peer)];
  if (!messages_->connect(peer, address, error) && connections_ != nullptr) {
    // A peer that is gone is reported by those that have seen it go. A shortage here is this rank's own to say.
    if (error.find("RLIMIT_NOFILE") != std::string::npos) fmt::print(stderr, "ucft: rank {}: {}\n", setup_.me, error);
    connections_->note_failure(peer, UCS_ERR_UNREACHABLE);
  }
  std::vector<std::byte>().swap(address);
  if (!messages_->has_greeted(peer)) send_control(peer, Control::hello);
  publish_counts();
}

void Wiring::send_hellos() {
  for (int peer = 0; peer < setup_.ranks; ++peer)
    if (is_connected(peer)) send_control(peer, Control::hello);
}

int Wiring::missing_greeting(bool lost) const {
  for (int peer = 0; peer < setup_.ranks; ++peer)
    if (paths_[static_cast<std::size_t>(peer)] == messages_.get() && messages_ != nullptr &&
        !messages_->has_greeted(peer) && (!lost || messages_->is_lost(peer)))
      return peer;
  return -1;
}

bool Wiring::wired() const { return waiting() == 0 && missing_greeting() < 0; }
bool Wiring::has_given_up() const { return connections_ != nullptr && connections_->ucx().has_given_up(); }
void Wiring::end_of_start_up() {
  if (connections_ != nullptr) connections_->ucx().end_of_start_up();
}
bool Wiring::connected() const { return connections_ == nullptr || connections_->ucx().sockets().are_connected(); }
bool Wiring::accept_no_more() { return connections_ == nullptr || connections_->ucx().accept_no_more(); }

std::vector<std::byte> Wiring::own_remote_key() {
  if (connections_ == nullptr || !connections_->have_remote_access()) return {};
  const std::span<const std::byte> key = registrations_->key_of(segments_.first());
  return {key.begin(), key.end()};
}

bool Wiring::open_remote_mailbox(int peer, std::uint64_t segment, std::span<const std::byte> key, std::string& error) {
  Path*& path = paths_[static_cast<std::size_t>(peer)];
  if (connections_ == nullptr || path != messages_.get()) return true;  // shares memory with us, or has no connection
  if (!remote_->connect(peer, segment, key, error)) return false;
  path = remote_.get();
  return true;
}

Wiring::Counts Wiring::counts() const {
  Counts counts;
  for (int peer = 0; peer < setup_.ranks; ++peer) {
    if (peer == setup_.me) continue;
    if (shared_.has(peer))
      ++counts.shared_memory;
    else if (remote_ != nullptr && remote_->has(peer))
      ++counts.remote_mailboxes;
    else
      ++counts.messages;
  }
  counts.messages -= absent_;
  if (connections_ != nullptr) {
    counts.connections = connections_->open_now();
    counts.most_connections = connections_->most_open();
  }
  counts.mailboxes = mailboxes_.count;
  counts.mailbox_bytes = static_cast<std::uint64_t>(counts.mailboxes) * first_.mailbox_bytes();
  return counts;
}

void Wiring::publish_counts() {
  const Counts now = counts();
  only_messages_ = now.shared_memory == 0 && now.remote_mailboxes == 0;
  control()->connections.store(now.connections, std::memory_order_relaxed);
  control()->mailboxes.store(now.mailboxes, std::memory_order_relaxed);
  control()->mailbox_bytes.store(now.mailbox_bytes, std::memory_order_relaxed);
}

bool Wiring::has_remote_mailboxes() const { return remote_ != nullptr && !remote_->peers().empty(); }

// A word that a peer without business with this rank need not know is not worth a connection.
void Wiring::send_control(int peer, Control control, std::uint32_t communicator, const ControlWord& word) {
  const bool is_courtesy = control == Control::leave || control == Control::excluded || control == Control::leaving ||
                           control == Control::leaves_communicator || control == Control::left;
  if (is_courtesy && is_unconnected(peer)) return;
  Outgoing message{};
  message.header.cookie = setup_.cookie;
  message.header.version = wire_version;
  message.header.phase = static_cast<std::uint8_t>(control);
  message.header.communicator = communicator;
  message.header.sender = setup_.me;
  message.header.operation = word.operation;
  message.header.control.about = word.about;
  message.header.control.letters = word.letters;
  message.header.flags = word.flag;
  hand_over(peer, message);
}

std::int64_t Wiring::waiting() const {
  return shared_.waiting() + (remote_ != nullptr ? remote_->waiting() : 0) +
         (messages_ != nullptr ? messages_->waiting() : 0);
}

void Wiring::postpone(int peer, Path* path, const Outgoing* message) {
  postponed_.push_back({peer, path, message != nullptr, message != nullptr ? *message : Outgoing{}});
  buffers_.retain(postponed_.back().message.value);
  buffers_.retain(postponed_.back().message.list);
}

// In order: also what was sent to a peer that was forgotten afterwards.
void Wiring::catch_up() {
  if (postponed_.empty()) return;
  for (const auto& [peer, path, is_sent, message] : std::exchange(postponed_, {})) {
    if (is_sent) {
      UCFT_TEST_POINT(send);
      path->send(peer, message);
    } else {
      path->forget(peer);
    }
    buffers_.release(message.value);
    buffers_.release(message.list);
  }
}

}  // namespace ucft::detail

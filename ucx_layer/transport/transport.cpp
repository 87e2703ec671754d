#include "ucx_layer/transport/transport.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/transport/paths/remote.hpp"

namespace ucft::detail {

Transport::~Transport() {
  if (messages_ != nullptr) messages_->drop_arrivals();
  // Where connections are made when they are needed somebody may have begun one that UCX has not answered.
  const bool may_owe_answers = !all_have_greeted_ || !addresses_.empty() || has_given_up();
  for (int peer = 0; peer < setup_.ranks; ++peer) forget(peer, true);
  give_back();  // into memory that is still mapped
  shared_.unmap();
  if (remote_ != nullptr) {
    // Calls under way end now, one way or the other, while the memory that they point to is still there.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (remote_->calls_under_way() > 0 && std::chrono::steady_clock::now() < until) connections_->ucx().progress();
  }
  if (connections_ != nullptr && may_owe_answers)
    connections_->ucx().abandon();
  else if (connections_ != nullptr)
    connections_->ucx().destroy_worker();
  registrations_.reset();
  segments_.close();
}

bool Transport::poll(bool listens) {
  bool active = shared_.poll();
  if (remote_ != nullptr) active |= remote_->poll();
  if (messages_ != nullptr && listens) active |= messages_->poll();
  catch_up();
  if (!addresses_.empty() && messages_ != nullptr)
    for (const int peer : messages_->take_greetings()) connect_to(peer);
  give_back();
  return active;
}

void Transport::drain(int peer) {
  Path* path = paths_[static_cast<std::size_t>(peer)];
  if (path == nullptr) return;
  path->drain(peer);
  give_back();
}

void Transport::publish_credit() {
  shared_.publish_credit();
  if (remote_ != nullptr) remote_->publish_credit();
}

void Transport::forget(int peer, bool is_ending) {
  if (is_ending && connections_ != nullptr && !connected_late_.empty() &&
      connected_late_[static_cast<std::size_t>(peer)])
    connections_->leave_to_ucx(peer);
  const bool waits = postpones(peer);
  Path* const path = std::exchange(paths_[static_cast<std::size_t>(peer)], nullptr);
  if (path == nullptr && UCFT_SOMETIMES("a rank is given up that there is no connection to")) return;
  if (waits && UCFT_SOMETIMES("forgetting a rank is postponed"))
    postpone(peer, path, nullptr);
  else
    path->forget(peer);
}

// Over tcp by never asking UCX again. Others close their connections to a rank that is out. If it closes its ends, too,
// UCX 1.13 may end them. It frees an endpoint of theirs that is told of that while data wait there, and looks at it
// again (uct_tcp_cm_handle_conn_pkt, CONN_FIN).
void Transport::cut_messages() {
  if (connections_ != nullptr && !has_remote_mailboxes() && connections_->are_over_tcp() &&
      UCFT_SOMETIMES("UCX is never asked again"))
    return connections_->ucx().give_up();
  for (int peer = 0; peer < setup_.ranks; ++peer)
    if (paths_[static_cast<std::size_t>(peer)] == messages_.get()) forget(peer);
}

// The owner of the memory may use it again. An operation that has lent memory of the caller looks at it itself.
void Transport::give_back() {
  std::vector<std::uint64_t>& released = buffers_.released();
  if (released.empty()) return;
  for (std::uint64_t tag : released) {
    if (tag == untold) continue;
    if (tag & lent_by_message_path)
      messages_->give_back(tag);
    else
      shared_.give_back(tag);
  }
  released.clear();
}

void Transport::say_goodbye(bool is_out, bool all_know, const std::function<bool(int peer)>& may_live) {
  for (int peer = 0; peer < setup_.ranks; ++peer)
    if (!shared_.has(peer) && !is_unconnected(peer))
      send_control(peer, is_out ? Control::failed : Control::leave, 0,
                   {.about = setup_.me, .flag = is_out || all_know});
  if (messages_ == nullptr) return;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto arrived_by = begin + std::chrono::seconds(3);
  while (waiting() > 0 && Clock::now() < begin + std::chrono::seconds(1)) poll();
  if (connections_ != nullptr) {
    const std::vector<std::pair<int, Ucx::Flush>> flushes = connections_->flush();
    const auto awaited = [&](const auto& each) { return each.second.is_under_way() && may_live(each.first); };
    while (std::any_of(flushes.begin(), flushes.end(), awaited) && Clock::now() < arrived_by) poll();
  }
  // Closing a socket with unread bytes resets it, and the other side may lose our last words: read for a moment longer.
  const auto read_until = begin + std::chrono::milliseconds(100);
  const auto anybody = [&] {
    for (int peer = 0; peer < setup_.ranks; ++peer)
      if (is_connected(peer) && !messages_->is_lost(peer)) return true;
    return false;
  };
  while (Clock::now() < read_until && anybody()) poll();
}

bool Transport::free_shared(void* memory) {
  const Segment* lent = segments_.lent_at(memory);
  if (lent == nullptr) return false;
  if (registrations_ != nullptr) registrations_->forget(*lent);
  segments_.take_back(*lent);
  return true;
}

}  // namespace ucft::detail

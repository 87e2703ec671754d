#include "ucx_layer/membership/invitation.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ucft::detail {

std::string Invitation::frame_for(std::int32_t seat) const {
  InviteHead theirs = head;
  theirs.seat = seat;
  std::string body(bootstrap::bytes_of(theirs));
  for (const Seat each : seats) body += static_cast<char>(each);
  return make_join_frame(JoinWord::invite, body);
}

std::vector<bool> Invitation::absent() const {
  std::vector<bool> absent;
  for (const Seat each : seats) absent.push_back(each == Seat::absent);
  return absent;
}

std::vector<std::int32_t> Invitation::newcomers() const {
  std::vector<std::int32_t> ranks;
  for (std::size_t rank = 0; rank < seats.size(); ++rank)
    if (seats[rank] == Seat::newcomer) ranks.push_back(static_cast<std::int32_t>(rank));
  return ranks;
}

std::optional<Invitation> Invitation::in(std::string_view body) {
  const auto head = structure_in<InviteHead>(body);
  if (!head || head->size < 1 || body.size() != sizeof *head + static_cast<std::size_t>(head->size))
    return std::nullopt;
  Invitation found{*head, {}};
  for (const char each : body.substr(sizeof *head)) {
    if (each < 0 || each > static_cast<char>(Seat::newcomer)) return std::nullopt;
    found.seats.push_back(static_cast<Seat>(each));
  }
  if (head->seat < 0 || head->seat >= head->size) return std::nullopt;
  return found.seats[static_cast<std::size_t>(head->seat)] == Seat::absent ? std::nullopt : std::optional(found);
}

int connect_to_listener(const ListenerName& name, int limit_ms, std::string* reached) {
  for (const IpAddress& address : in_order_of_promise(name, own_addresses({}))) {
    const int descriptor = begin_connect(address, name.port);
    if (descriptor < 0) continue;
    pollfd entry{descriptor, POLLOUT, 0};
    int problem = 0;
    socklen_t length = sizeof problem;
    if (poll(&entry, 1, limit_ms) == 1 && getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 &&
        problem == 0) {
      const int on = 1;
      setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (reached != nullptr) *reached = text_of(address, name.port);
      return descriptor;
    }
    ::close(descriptor);
  }
  return -1;
}

bool send_whole(int descriptor, std::string_view bytes, int limit_ms) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    pollfd entry{descriptor, POLLOUT, 0};
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || poll(&entry, 1, limit_ms) != 1) return false;
  }
  return true;
}

}  // namespace ucft::detail

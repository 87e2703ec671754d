#include "ucx_layer/bootstrap/address_trial.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ucft::detail {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int most_answers_a_turn = 64;

sockaddr_in address_of(std::uint32_t address, std::uint16_t port) {
  sockaddr_in all{};
  all.sin_family = AF_INET;
  all.sin_addr.s_addr = address;
  all.sin_port = htons(port);
  return all;
}

// A connection that is being made; -1: there is no way.
int begin_connect(std::uint32_t address, std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_in target = address_of(address, port);
  if (made < 0 || connect(made, reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0 || errno == EINPROGRESS)
    return made;
  close(made);
  return -1;
}

}  // namespace

std::vector<NetworkDevice> network_devices() {
  std::vector<NetworkDevice> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  constexpr unsigned wanted = IFF_UP | IFF_RUNNING;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const std::string name = each->ifa_name;
    const bool is_known = std::ranges::find(found, name, &NetworkDevice::name) != found.end();
    if ((each->ifa_flags & wanted) != wanted || (each->ifa_flags & IFF_LOOPBACK) != 0 || is_known) continue;
    if (access(("/sys/class/net/" + name).c_str(), F_OK) != 0) continue;  // where UCX looks
    found.push_back({name, reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr});
  }
  freeifaddrs(list);
  if (found.size() > TrialName::most_addresses) found.resize(TrialName::most_addresses);
  return found;
}

AddressTrial::AddressTrial(const std::vector<NetworkDevice>& own) {
  if (getrandom(&name_.number, sizeof name_.number, 0) != sizeof name_.number) return;
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in any = address_of(INADDR_ANY, 0);
  socklen_t length = sizeof any;
  auto* const where = reinterpret_cast<sockaddr*>(&any);
  if (listener_ < 0 || bind(listener_, where, length) != 0 || listen(listener_, SOMAXCONN) != 0 ||
      getsockname(listener_, where, &length) != 0)
    return;
  name_.port = ntohs(any.sin_port);
  for (const NetworkDevice& each : own) name_.addresses[name_.count++] = each.address;
}

AddressTrial::~AddressTrial() {
  if (listener_ >= 0) close(listener_);
}

void AddressTrial::serve() const {
  for (int i = 0; i < most_answers_a_turn && listener_ >= 0; ++i) {
    const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0) return;
    // One that has gone meanwhile gets no answer, and needs none.
    static_cast<void>(send(made, &name_.number, sizeof name_.number, MSG_NOSIGNAL));
    close(made);
  }
}

std::vector<ReachedAddresses> AddressTrial::try_out(const std::vector<TrialName>& peers,
                                                    std::chrono::milliseconds limit) const {
  struct Attempt {
    std::size_t peer;
    unsigned address;
  };
  std::vector<ReachedAddresses> reached(peers.size());
  std::vector<Attempt> attempts;
  std::vector<pollfd> sockets{{listener_, POLLIN, 0}};  // then one for each attempt
  for (std::size_t peer = 0; peer < peers.size(); ++peer)
    for (unsigned i = 0; i < peers[peer].count && i < TrialName::most_addresses; ++i)
      if (const int made = begin_connect(peers[peer].addresses[i], peers[peer].port); made >= 0) {
        attempts.push_back({peer, i});
        sockets.push_back({made, POLLIN, 0});
      }
  const auto until = Clock::now() + limit;
  for (std::size_t open = attempts.size(); open > 0 && Clock::now() < until;) {
    poll(sockets.data(), sockets.size(), 5);
    serve();
    for (std::size_t i = 1; i < sockets.size(); ++i) {
      if (sockets[i].fd < 0 || sockets[i].revents == 0) continue;
      const Attempt& attempt = attempts[i - 1];
      std::uint64_t number = 0;
      const bool answers = recv(sockets[i].fd, &number, sizeof number, 0) == sizeof number;
      if (answers && number == peers[attempt.peer].number)
        reached[attempt.peer] = static_cast<ReachedAddresses>(reached[attempt.peer] | 1u << attempt.address);
      close(std::exchange(sockets[i].fd, -1));
      --open;
    }
  }
  for (std::size_t i = 1; i < sockets.size(); ++i)
    if (sockets[i].fd >= 0) close(sockets[i].fd);
  return reached;
}

std::vector<std::size_t> hosts_to_try(std::size_t host, std::size_t hosts) {
  std::vector<std::size_t> all;
  for (std::size_t distance = 1; distance < hosts; distance *= 2) all.push_back((host + distance) % hosts);
  return all;
}

ReachedAddresses reached_by_all(std::size_t host, const std::vector<TrialResults>& by_host, std::size_t addresses) {
  auto all = static_cast<ReachedAddresses>((1u << addresses) - 1);
  for (std::size_t other = 0; other < by_host.size(); ++other) {
    const std::vector<std::size_t> tried = hosts_to_try(other, by_host.size());
    const auto place = std::ranges::find(tried, host);
    if (place == tried.end()) continue;
    const ReachedAddresses reached = by_host[other][static_cast<std::size_t>(place - tried.begin())];
    if (reached != 0) all &= reached;
  }
  return all;
}

}  // namespace ucft::detail

// See addresses.hpp.
#include "timeout_detector/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ucft::detail {

namespace {

constexpr std::uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_mapped(const IpAddress& address) {
  return std::memcmp(address.data(), mapped_prefix, sizeof mapped_prefix) == 0;
}

bool is_loopback(const IpAddress& address) {
  static const IpAddress six = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return is_mapped(address) ? address[12] == 127 : address == six;
}

int common_bits(const IpAddress& a, const IpAddress& b) {
  int bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto differing = static_cast<std::uint8_t>(a[i] ^ b[i]);
    if (differing == 0) {
      bits += 8;
      continue;
    }
    return bits + __builtin_clz(differing) - 24;
  }
  return bits;
}

}  // namespace

IpAddress mapped(std::uint32_t ipv4) {
  IpAddress all;
  std::memcpy(all.data(), mapped_prefix, sizeof mapped_prefix);
  std::memcpy(all.data() + 12, &ipv4, 4);
  return all;
}

std::vector<IpAddress> own_addresses(const std::vector<std::string>& without) {
  std::vector<IpAddress> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    if (std::find(without.begin(), without.end(), each->ifa_name) != without.end()) continue;
    if (each->ifa_addr->sa_family == AF_INET) {
      all.push_back(mapped(reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr));
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&six)) continue;
      IpAddress address;
      std::memcpy(address.data(), &six, sizeof six);
      all.push_back(address);
    }
  }
  freeifaddrs(list);
  std::stable_partition(all.begin(), all.end(), [](const IpAddress& address) { return !is_loopback(address); });
  if (all.size() > ListenerName::most_addresses) all.resize(ListenerName::most_addresses);
  return all;
}

std::vector<IpAddress> in_order_of_promise(const ListenerName& name, const std::vector<IpAddress>& ours) {
  std::vector<IpAddress> all(name.addresses.begin(),
                             name.addresses.begin() + std::min<std::size_t>(name.count, ListenerName::most_addresses));
  const auto nearness = [&](const IpAddress& address) {
    int best = is_loopback(address) ? -1 : 0;
    for (const IpAddress& own : ours)
      if (!is_loopback(own) && !is_loopback(address)) best = std::max(best, common_bits(own, address));
    return best;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const IpAddress& a, const IpAddress& b) { return nearness(a) > nearness(b); });
  return all;
}

int begin_connect(const IpAddress& address, std::uint16_t port) {
  const bool four = is_mapped(address);
  const int made = socket(four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  std::memcpy(&v4.sin_addr, address.data() + 12, 4);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, address.data(), 16);
  const auto* target = four ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  if (::connect(made, target, four ? sizeof v4 : sizeof v6) == 0 || errno == EINPROGRESS) return made;
  ::close(made);
  return -1;
}

int listen_anywhere(ListenerName& name, std::string& error, const std::vector<std::string>& unreached) {
  for (const int family : {AF_INET6, AF_INET}) {
    const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) continue;
    const int off = 0;
    if (family == AF_INET6) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const int silent_seconds = 2;  // those that say nothing stay in the kernel for this long
    setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_seconds, sizeof silent_seconds);
    sockaddr_storage any{};  // zero is the wildcard address and any port, in both families
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (bind(listener, reinterpret_cast<sockaddr*>(&any), length) == 0 && ::listen(listener, SOMAXCONN) == 0 &&
        getsockname(listener, reinterpret_cast<sockaddr*>(&any), &length) == 0) {
      name.port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(any).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(any).sin_port);
      const std::vector<IpAddress> addresses = own_addresses(unreached);
      name.count = static_cast<std::uint16_t>(addresses.size());
      std::copy(addresses.begin(), addresses.end(), name.addresses.begin());
      return listener;
    }
    ::close(listener);
  }
  error = std::string("no socket to listen on: ") + std::strerror(errno);
  return -1;
}

std::string text_of(const IpAddress& address, std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_mapped(address))
    inet_ntop(AF_INET, address.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, address.data(), text, sizeof text);
  const std::string host = text;
  return (is_mapped(address) ? host : "[" + host + "]") + ":" + std::to_string(port);
}

}  // namespace ucft::detail

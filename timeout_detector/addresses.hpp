// How ranks reach each other's TCP listeners: the addresses of a host, and which of a peer's to try first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ucft::detail {

using IpAddress = std::array<std::uint8_t, 16>;  // IPv6, or IPv4 mapped into it

// How others reach a listener of this rank. Travels as it is in memory.
struct ListenerName {
  static constexpr std::size_t most_addresses = 6;
  std::uint16_t port = 0;   // 0: there is none
  std::uint16_t count = 0;  // of addresses
  std::uint32_t reserved = 0;
  std::array<IpAddress, most_addresses> addresses{};
};
static_assert(sizeof(ListenerName) == 8 + 16 * ListenerName::most_addresses);

// Listens on all addresses of this host. The descriptor, non-blocking; -1 with a reason. unreached: devices that others
// can't reach, so they need not try their addresses.
int listen_anywhere(ListenerName& name, std::string& error, const std::vector<std::string>& unreached = {});
// The addresses of all interfaces that are up, loopback last: it serves ranks that share a machine but not a process
// namespace. Link-local ones are left out, as they need the other host's interface number.
std::vector<IpAddress> own_addresses(const std::vector<std::string>& without);
// The peer's addresses, those first that look as if they were in a network of ours.
std::vector<IpAddress> in_order_of_promise(const ListenerName& name, const std::vector<IpAddress>& ours);
// A connection that is being made; -1: the address leads nowhere.
int begin_connect(const IpAddress& address, std::uint16_t port);
IpAddress mapped(std::uint32_t ipv4);  // in network order
// "10.0.0.1:4711", "[fe00::1]:4711"
std::string text_of(const IpAddress& address, std::uint16_t port);

}  // namespace ucft::detail

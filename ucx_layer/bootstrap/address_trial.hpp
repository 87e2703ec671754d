// Which network devices of a host the others reach. A host may have several, and some lead nowhere: bridges of
// containers and virtual machines, a network for management. UCX can't tell, so start-up tries them.
//
// Each host connects to all addresses of some others, at distances 1, 2, 4, 8 ... on a ring of hosts. A process that is
// connected to says a random number, so an address that is another host's, too, does not count. All ranks exchange
// which addresses have answered.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ucft::detail {

// With an IPv4 address, which UCX's tcp needs; loopback is none.
struct NetworkDevice {
  std::string name;
  std::uint32_t address;  // in network order
};

// Those that are up and that UCX can find, at most 8.
std::vector<NetworkDevice> network_devices();

// How others try this host. Travels as it is in memory.
struct TrialName {
  static constexpr std::size_t most_addresses = 8;
  std::uint64_t number = 0;
  std::array<std::uint32_t, most_addresses> addresses{};
  std::uint16_t port = 0;  // 0: it can't be tried
  std::uint16_t count = 0;
  std::uint32_t reserved = 0;
};

// A bit for each address of a host that has answered.
using ReachedAddresses = std::uint8_t;

// One thread; during start-up alone.
class AddressTrial {
 public:
  explicit AddressTrial(const std::vector<NetworkDevice>& own);
  ~AddressTrial();
  AddressTrial(const AddressTrial&) = delete;
  AddressTrial& operator=(const AddressTrial&) = delete;

  const TrialName& name() const { return name_; }
  // Answers those that try this host.
  void serve() const;
  // Tries all addresses of all `peers`, and serves. Waits for those that don't answer until `limit`.
  std::vector<ReachedAddresses> try_out(const std::vector<TrialName>& peers, std::chrono::milliseconds limit) const;

 private:
  TrialName name_{};
  int listener_ = -1;
};

// The hosts that a host tries, of so many.
std::vector<std::size_t> hosts_to_try(std::size_t host, std::size_t hosts);

// The findings of a host, in the order of hosts_to_try(). Travel as they are in memory.
using TrialResults = std::array<ReachedAddresses, 32>;

// The addresses of a host, of so many, that all that have tried it have reached. A host that has reached none of them
// says nothing: it may have been late.
ReachedAddresses reached_by_all(std::size_t host, const std::vector<TrialResults>& by_host, std::size_t addresses);

}  // namespace ucft::detail

// What a message costs: the LogGP parameters of an endpoint, and how far apart two ranks are.
//
// LogP: Culler et al., PPoPP '93; LogGP: Alexandrov et al., SPAA '95. A message of k bytes keeps its sender's processor
// busy for o_send and its port for max(o_send, g) + (k-1)G, arrives o_send + (k-1)G + L after it was begun, and keeps
// the receiver busy for o_receive. All times are in one unit, which is the user's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/protocol.hpp"

namespace ucft::simulator {

struct LogGP {
  double latency = 2;            // L, between neighbours in the flat network
  double send_overhead = 1;      // o of a send
  double receive_overhead = 1;   // o of a receive
  double gap = 1;                // g, between two sends, and between two receives
  double gap_per_byte = 0;       // G
  // Whether a rank's processor does one thing at a time (LogP to the letter), or sends and receives side by side.
  bool one_processor = false;

  double per_message() const { return gap > send_overhead ? gap : send_overhead; }   // between two sends
  double delivery() const { return latency + send_overhead + receive_overhead; }     // L + 2o
};

// Latency by distance. Ranks are placed in blocks: rank r is on host r / ranks_per_host.
struct NetworkShape {
  enum class Kind : std::uint8_t { flat, two_level, fat_tree, dragonfly };
  Kind kind = Kind::flat;
  std::int32_t ranks_per_host = 1;
  double local_latency = 0;          // between ranks of one host; flat: not used
  double hop_latency = 0;            // fat tree, dragonfly: per switch-to-switch hop, on top of L
  std::int32_t hosts_per_switch = 16;
  std::int32_t switches_per_group = 16;   // fat tree: children of every inner switch; dragonfly: routers of a group
};

class Network {
 public:
  virtual ~Network() = default;
  virtual double latency(Rank from, Rank to) const = 0;
};

// 0 <= x < 1. `number` tells the messages of one sender apart: a function of it, not of the order of calls.
double chance_of(std::uint64_t seed, Rank rank, std::uint64_t number);

std::unique_ptr<Network> make_network(const NetworkShape& shape, const LogGP& costs);
// Switch-to-switch hops of a minimal route. Fat tree: up to the lowest common switch and down again. Dragonfly: at most
// local, global, local.
std::int32_t hops(const NetworkShape& shape, Rank from, Rank to);

const char* network_name(NetworkShape::Kind kind);
bool parse_network(const std::string& name, NetworkShape::Kind& kind);

}  // namespace ucft::simulator

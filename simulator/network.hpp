// The distance of two ranks, and by it the latency of the cost model (collectives/models/cost_model.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/models/cost_model.hpp"

namespace ucft::detail::simulator {

// Latency by distance. Ranks are placed in blocks: rank r is on host r / ranks_per_host.
struct NetworkShape {
  enum class Kind : std::uint8_t { flat, two_level, fat_tree, dragonfly };
  Kind kind = Kind::flat;
  std::int32_t ranks_per_host = 1;
  double local_latency = 0;  // between ranks of one host; flat: not used
  double hop_latency = 0;    // fat tree, dragonfly: per switch-to-switch hop, on top of L
  std::int32_t hosts_per_switch = 16;
  std::int32_t switches_per_group = 16;  // fat tree: children of every inner switch; dragonfly: routers of a group
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

}  // namespace ucft::detail::simulator

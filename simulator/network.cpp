#include "simulator/network.hpp"

#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr const char* names[] = {"flat", "two-level", "fat-tree", "dragonfly"};

class Flat : public Network {
 public:
  explicit Flat(double latency) : latency_(latency) {}
  double latency(Rank, Rank) const override { return latency_; }

 private:
  double latency_;
};

class Hierarchical : public Network {
 public:
  Hierarchical(const NetworkShape& shape, double latency) : shape_(shape), latency_(latency) {}
  double latency(Rank from, Rank to) const override {
    if (from / shape_.ranks_per_host == to / shape_.ranks_per_host) return shape_.local_latency;
    return latency_ + hops(shape_, from, to) * shape_.hop_latency;
  }

 private:
  NetworkShape shape_;
  double latency_;
};

}  // namespace

std::int32_t hops(const NetworkShape& shape, Rank from, Rank to) {
  std::int32_t a = from / shape.ranks_per_host / shape.hosts_per_switch;
  std::int32_t b = to / shape.ranks_per_host / shape.hosts_per_switch;
  if (a == b || shape.kind == NetworkShape::Kind::two_level || shape.kind == NetworkShape::Kind::flat) return 0;
  if (shape.kind == NetworkShape::Kind::fat_tree) {
    std::int32_t levels = 0;
    for (; a != b; ++levels) a /= shape.switches_per_group, b /= shape.switches_per_group;
    return 2 * levels;
  }
  const std::int32_t routers = shape.switches_per_group;
  const std::int32_t group_a = a / routers, group_b = b / routers;
  if (group_a == group_b) return 1;  // routers of a group know each other
  // The global link from group A to group B is at router (B mod routers) of A, and the other way round.
  return 1 + (a % routers != group_b % routers) + (b % routers != group_a % routers);
}

std::unique_ptr<Network> make_network(const NetworkShape& shape, const LogGP& costs) {
  if (shape.kind == NetworkShape::Kind::flat) return std::make_unique<Flat>(costs.latency);
  return std::make_unique<Hierarchical>(shape, costs.latency);
}

double chance_of(std::uint64_t seed, Rank rank, std::uint64_t number) {
  return Random(mixed(mixed(seed, static_cast<std::uint64_t>(rank)), number)).fraction();
}

const char* network_name(NetworkShape::Kind kind) { return names[static_cast<int>(kind)]; }

bool parse_network(const std::string& name, NetworkShape::Kind& kind) {
  for (int i = 0; i < 4; ++i)
    if (name == names[i]) {
      kind = static_cast<NetworkShape::Kind>(i);
      return true;
    }
  return false;
}

}  // namespace ucft::detail::simulator

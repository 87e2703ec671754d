// The RDMA devices of this host and the state of their ports, through libibverbs. UCX moves the data. These are for
// people (ucft_info, error texts) and for the one event that UCX keeps to itself: a port that goes down.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ucft::detail {

struct RdmaGid {
  std::uint32_t index;
  std::string gid;      // as an IPv6 address
  std::string type;     // "IB", "RoCE v1", "RoCE v2"
  std::string network;  // the interface that it belongs to; empty for InfiniBand
};

struct RdmaPort {
  std::string device;      // rxe0, mlx5_0
  std::uint32_t number;    // 1 ..
  std::string state;       // ACTIVE, DOWN, ...
  std::string link_layer;  // InfiniBand, Ethernet
  std::uint32_t lid;
  std::uint32_t mtu_bytes;
  std::vector<RdmaGid> gids;  // those that are set
};

// All ports of all devices; none: this host has no RDMA device, or this process may not use it.
std::vector<RdmaPort> rdma_ports();

// Listens to the asynchronous events of the devices. One thread at a time.
class RdmaWatch {
 public:
  // devices: UCX_NET_DEVICES ("rxe0:1,mlx5_0:1", "all"); nullptr: all. Devices that can't be opened are left out.
  explicit RdmaWatch(const char* devices);
  ~RdmaWatch();
  RdmaWatch(const RdmaWatch&) = delete;
  RdmaWatch& operator=(const RdmaWatch&) = delete;

  bool is_empty() const { return devices_.empty(); }
  // The events since the last look, one line each ("rxe0 port 1 is down"). Doesn't wait: a system call.
  std::vector<std::string> look();
  // The ports that are down and were not at first: "port 1 of rxe0 has been down for 1.4 s"; empty: none.
  std::string down_text() const;

 private:
  struct Device;
  struct Down {
    std::string device;
    int port;
    std::chrono::steady_clock::time_point since;
  };
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Down> down_;
};

}  // namespace ucft::detail

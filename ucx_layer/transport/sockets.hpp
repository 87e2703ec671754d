// The TCP sockets that UCX opens in this process. UCX 1.13 listens on every network device for as long as its worker
// lives, accepts a connection from anybody, asks nothing, and keeps it. So others can use up a rank's descriptors. All
// connections that a job needs are made in start-up, so from then on its listeners can be made deaf.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include <sys/types.h>

namespace ucft::detail {

class SocketsOfUcx {
 public:
  // Before UCX opens its first socket.
  void remember_others();
  // After its worker was made. The worker's address tells its listeners from sockets that the program opened meanwhile:
  // it contains their ports.
  void find_listeners(std::span<const std::byte> worker_address);
  // Whether all that was sent on connections made since has been acknowledged, a connection's first packet included:
  // the other side has the connection then.
  bool are_connected() const;
  // Packets to the listeners are dropped by the kernel from now on. Connections that exist, or that wait to be
  // accepted, stay. They are still open, as UCX closes them itself. False: the kernel refuses.
  bool accept_no_more();
  std::size_t listeners() const { return listeners_.size(); }

 private:
  std::set<ino_t> others_;
  std::vector<int> listeners_;
};

}  // namespace ucft::detail

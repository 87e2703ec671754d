#include "ucx_layer/transport/sockets.hpp"

#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace ucft::detail {

namespace {

struct Socket {
  int descriptor;
  ino_t inode;
};

std::vector<Socket> open_sockets() {
  std::vector<Socket> found;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const long descriptor = std::strtol(entry->d_name, &end, 10);
    struct stat file {};
    if (end == entry->d_name || fstat(static_cast<int>(descriptor), &file) != 0 || !S_ISSOCK(file.st_mode)) continue;
    found.push_back({static_cast<int>(descriptor), file.st_ino});
  }
  closedir(folder);
  return found;
}

int option_of(int socket, int level, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(socket, level, name, &value, &length) == 0 ? value : 0;
}

bool is_tcp(int socket) {
  const int domain = option_of(socket, SOL_SOCKET, SO_DOMAIN);
  return (domain == AF_INET || domain == AF_INET6) && option_of(socket, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
}

// In network order, as it is in UCX's address.
std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

}  // namespace

void SocketsOfUcx::remember_others() {
  for (const Socket& each : open_sockets()) others_.insert(each.inode);
}

void SocketsOfUcx::find_listeners(std::span<const std::byte> worker_address) {
  for (const Socket& each : open_sockets()) {
    if (others_.contains(each.inode) || !is_tcp(each.descriptor) ||
        option_of(each.descriptor, SOL_SOCKET, SO_ACCEPTCONN) == 0)
      continue;
    const std::uint16_t port = port_of(each.descriptor);
    const auto* bytes = reinterpret_cast<const std::byte*>(&port);
    if (std::search(worker_address.begin(), worker_address.end(), bytes, bytes + sizeof port) != worker_address.end())
      listeners_.push_back(each.descriptor);
  }
}

bool SocketsOfUcx::are_connected() const {
  for (const Socket& each : open_sockets()) {
    if (others_.contains(each.inode) || !is_tcp(each.descriptor)) continue;
    tcp_info state{};
    socklen_t length = sizeof state;
    if (getsockopt(each.descriptor, IPPROTO_TCP, TCP_INFO, &state, &length) != 0) continue;
    if ((state.tcpi_state == TCP_ESTABLISHED || state.tcpi_state == TCP_SYN_SENT) && state.tcpi_unacked > 0)
      return false;
  }
  return true;
}

// By a filter that lets nothing through. To shut the listener down instead would make UCX's thread call accept(), fail,
// and say so on stdout.
bool SocketsOfUcx::accept_no_more() {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  bool all = true;
  for (const int each : listeners_)
    all &= setsockopt(each, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
  return all;
}

}  // namespace ucft::detail

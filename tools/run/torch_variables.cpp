// The variables that PyTorch's env:// reads.
#include "tools/run/torch_variables.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace ucft::detail::run {

namespace {

struct HeldPort {
  int socket = -1;
  int port = 0;
};

HeldPort hold_free_port(int family) {
  const int holder = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (holder < 0) return {};
  const int on = 1;
  setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  auto& four = reinterpret_cast<sockaddr_in&>(six);
  if (family == AF_INET) {
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
  }
  auto* const generic = reinterpret_cast<sockaddr*>(&six);
  socklen_t length = family == AF_INET ? sizeof four : sizeof six;
  if (bind(holder, generic, length) != 0 || getsockname(holder, generic, &length) != 0) {
    close(holder);
    return {};
  }
  return {holder, ntohs(family == AF_INET ? four.sin_port : six.sin6_port)};
}

}  // namespace

TorchVariables::TorchVariables() {
  HeldPort held = hold_free_port(AF_INET);
  address_ = held.socket >= 0 ? "127.0.0.1" : "::1";
  if (held.socket < 0) held = hold_free_port(AF_INET6);
  holder_ = held.socket;
  port_ = std::to_string(held.port);
}

TorchVariables::~TorchVariables() {
  if (holder_ >= 0) close(holder_);
}

std::vector<std::pair<std::string, std::string>> TorchVariables::of_rank(int rank, int rank_count) const {
  std::vector<std::pair<std::string, std::string>> variables = {{"RANK", std::to_string(rank)},
                                                                {"WORLD_SIZE", std::to_string(rank_count)},
                                                                {"LOCAL_RANK", std::to_string(rank)},
                                                                {"LOCAL_WORLD_SIZE", std::to_string(rank_count)}};
  if (std::getenv("MASTER_ADDR") == nullptr) variables.emplace_back("MASTER_ADDR", address_);
  if (std::getenv("MASTER_PORT") == nullptr && holder_ >= 0) variables.emplace_back("MASTER_PORT", port_);
  return variables;
}

}  // namespace ucft::detail::run

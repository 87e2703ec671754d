#include "ucx_layer/transport/connections.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace ucft::detail {

Connections::Connections(int ranks) : endpoints_(static_cast<std::size_t>(ranks)) {
  for (Endpoint& each : endpoints_) each.owner = this;
}

bool Connections::open(std::size_t peers, bool on_one_host, std::string& error, const std::string& tcp_devices) {
  const bool opened = ucx_.open(std::max<std::size_t>(peers, 1), on_one_host, error, tcp_devices);
  spare_.take();
  return opened;
}

void SpareDescriptors::take() {
  while (held_.size() < wanted) {
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    held_.push_back(descriptor);
  }
}

bool SpareDescriptors::give() {
  take();
  if (held_.size() < needed) return false;
  drop();
  return true;
}

void SpareDescriptors::drop() {
  for (const int descriptor : held_) ::close(descriptor);
  held_.clear();
}

std::string SpareDescriptors::problem() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("this process has no file descriptor left (RLIMIT_NOFILE, ulimit -n: {})", limit.rlim_cur);
}

bool Connections::connect(int peer, std::span<const std::byte> address, std::string& error) {
  Endpoint& made = endpoints_[static_cast<std::size_t>(peer)];
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &Connections::on_error;
  params.err_handler.arg = &made;
  if (!spare_.give()) {
    error = fmt::format("rank {} can't be reached: {}", peer, SpareDescriptors::problem());
    return false;
  }
  ucs_status_t status = UCS_ERR_CANCELED;
  ucx_.run([&] { status = ucp_ep_create(ucx_.worker(), &params, &made.endpoint); });
  spare_.take();
  if (status == UCS_OK) {
    most_open_ = std::max(most_open_, ++open_now_);
    return true;
  }
  made.endpoint = nullptr;
  error = fmt::format("rank {} can't be reached: {}", peer, ucs_status_string(status));
  if (spare_.are_short()) error += "; " + SpareDescriptors::problem();
  return false;
}

// In the callback it is only recorded.
void Connections::on_error(void* arg, ucp_ep_h, ucs_status_t status) {
  const AbortsKept::Outside outside;
  auto& endpoint = *static_cast<Endpoint*>(arg);
  endpoint.broken = true;
  Connections& self = *endpoint.owner;
  self.note_failure(static_cast<int>(&endpoint - self.endpoints_.data()), status);
}

// UCX first hears that the peer's process has ended, if it has. UCX 1.13 looks at the end of a connection over tcp that
// it was told to close while data waited there, and frees what it is about to look at again (uct_tcp_iface_progress).
void Connections::close(int peer) {
  Endpoint& closed = endpoints_[static_cast<std::size_t>(peer)];
  if (closed.endpoint == nullptr) return;
  for (int looks = 0; looks < 4 && !closed.broken && ucx_.progress(); ++looks) {}
  ucp_ep_h const endpoint = std::exchange(closed.endpoint, nullptr);
  if (!closed.is_left_to_ucx) ucx_.close(endpoint);
  --open_now_;
}

std::vector<std::pair<int, Ucx::Flush>> Connections::flush() {
  std::vector<std::pair<int, Ucx::Flush>> flushes;
  for (int peer = 0; peer < static_cast<int>(endpoints_.size()); ++peer)
    if (to(peer) != nullptr && !Ucx::is_over_tcp(to(peer))) flushes.emplace_back(peer, Ucx::Flush(to(peer)));
  return flushes;
}

bool Connections::are_over_tcp() const {
  for (int peer = 0; peer < static_cast<int>(endpoints_.size()); ++peer)
    if (to(peer) != nullptr && Ucx::is_over_tcp(to(peer))) return true;
  return false;
}

bool Connections::have_remote_access() const {
  for (const Endpoint& each : endpoints_)
    if (each.endpoint != nullptr && !Ucx::has_remote_access(each.endpoint)) return false;
  return true;
}

}  // namespace ucft::detail

// UCX's endpoints to peers that no memory is shared with. The message path and the remote path use the same ones.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ucx_layer/transport/ucx.hpp"

namespace ucft::detail {

// Descriptors that are kept for UCX. It needs one for a moment as it opens its first endpoint, beside the connection's
// own. If it gets none, UCX 1.13 ends the process ("failed to set active message handler"). That happens to a rank that
// connects on demand, at its RLIMIT_NOFILE. Meanwhile UCX's own thread may accept a connection or two.
class SpareDescriptors {
 public:
  SpareDescriptors() = default;
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;
  ~SpareDescriptors() { drop(); }
  void take();  // as many as there are to be had, at most `wanted`
  bool give();  // false: fewer than `needed` are to be had. UCX must not be asked then
  bool are_short() const { return held_.size() < wanted; }
  static std::string problem();  // what to say then

 private:
  void drop();
  static constexpr std::size_t wanted = 8, needed = 4;
  std::vector<int> held_;
};

class Connections {
 public:
  explicit Connections(int ranks);

  // See Ucx::open.
  bool open(std::size_t peers, bool on_one_host, std::string& error, const std::string& tcp_devices = {});
  Ucx& ucx() { return ucx_; }
  // address: the peer's, as Ucx::address() there.
  bool connect(int peer, std::span<const std::byte> address, std::string& error);
  // nullptr: there is none, it was closed, or it is broken. Nothing may ever be posted to a broken one.
  ucp_ep_h to(int peer) const { return is_broken(peer) ? nullptr : at(peer).endpoint; }
  bool is_broken(int peer) const { return at(peer).broken || ucx_.has_given_up(); }
  int open_now() const { return open_now_; }
  int most_open() const { return most_open_; }  // at a time, so far
  // Messages on their way to the peer end, canceled. Their callbacks run later, in progress.
  void close(int peer);
  // It was made late, and its peer's process has ended or is about to: UCX finds that out itself, and is not to be
  // told. It may still have to answer the peer, and 1.13 ends a process that closes such an endpoint ("got REP
  // message"). Then close() only forgets it.
  void leave_to_ucx(int peer) { endpoints_[static_cast<std::size_t>(peer)].is_left_to_ucx = true; }

  // Of endpoints and of calls: each with the reason of UCX's.
  void note_failure(int peer, ucs_status_t why) { failures_.push_back({peer, why}); }
  std::vector<std::pair<int, ucs_status_t>> take_failures() { return std::exchange(failures_, {}); }

  // One for each peer. Not over tcp: the kernel sees to what went there, and if the peer closes its end meanwhile, UCX
  // 1.13 may end the process (uct_iface.h, "comp->count > 0").
  std::vector<std::pair<int, Ucx::Flush>> flush();
  bool are_over_tcp() const;  // one of them at least
  // Whether devices can write and read the memory of all peers by themselves.
  bool have_remote_access() const;

 private:
  struct Endpoint {
    Connections* owner = nullptr;
    ucp_ep_h endpoint = nullptr;
    bool broken = false, is_left_to_ucx = false;
  };
  static void on_error(void* arg, ucp_ep_h endpoint, ucs_status_t status);
  const Endpoint& at(int peer) const { return endpoints_[static_cast<std::size_t>(peer)]; }

  Ucx ucx_;
  SpareDescriptors spare_;
  std::vector<Endpoint> endpoints_;  // by rank; stay where they are: UCX points to them
  std::vector<std::pair<int, ucs_status_t>> failures_;
  int open_now_ = 0, most_open_ = 0;
};

}  // namespace ucft::detail

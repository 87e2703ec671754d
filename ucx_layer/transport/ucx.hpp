// The part of UCX that ucft uses: a UCP context and a worker, closed by their owner. Traps of UCX 1.13 that are worked
// around here are named where they are.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ucx_layer/transport/aborts.hpp"
#include "ucx_layer/transport/sockets.hpp"

namespace ucft::detail {

// A UCP context with one worker. One thread at a time.
class Ucx {
 public:
  Ucx() = default;
  ~Ucx();
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;

  // peers: the number of endpoints that there will be; UCX chooses transports by it.
  // on_one_host: all peers are on this host, so a transport that has a loopback needs no other device.
  // tcp_devices: that tcp may choose from if the user names none, with commas between; empty: all.
  bool open(std::size_t peers, bool on_one_host, std::string& error, const std::string& tcp_devices = {});
  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  std::vector<std::byte> address(std::string& error) const;  // empty: error
  // Everything that may meet a peer's death while UCX connects to it goes through here. False: UCX has given up, now or
  // before. From open() to end_of_start_up() that is an answer; later UCX's abort() ends the process.
  template <class Call>
  bool run(Call&& call) {
    if (kept_ == nullptr) {
      if (!has_given_up_) call();
    } else if (!has_given_up_) {
      has_given_up_ = !AbortsKept::run(call);
    }
    return !has_given_up_;
  }
  bool progress() {
    unsigned moved = 0;
    return run([this, &moved] { moved = ucp_worker_progress(worker_); }) && moved != 0;
  }
  void end_of_start_up() { kept_.reset(); }
  bool has_given_up() const { return has_given_up_; }
  // From now on UCX isn't asked for anything: it reads no memory that it was given to send, and runs no callback. Its
  // sockets stay open to the end of the process.
  void give_up();
  // Whether puts and gets on this endpoint are done by the network device. Else UCX emulates them by active messages
  // that need the target's progress. Known once the endpoint is wired up (has greeted and been greeted).
  static bool has_remote_access(ucp_ep_h endpoint);
  static bool is_over_tcp(ucp_ep_h endpoint);
  // Ends when everything that was sent on the endpoint before has arrived, or when the endpoint is closed. Needs
  // progress.
  class Flush {
   public:
    explicit Flush(ucp_ep_h endpoint);
    ~Flush();
    Flush(Flush&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
    Flush& operator=(Flush&&) = delete;
    bool is_under_way() const;

   private:
    ucs_status_ptr_t request_;  // nullptr: it has ended
  };
  const SocketsOfUcx& sockets() const { return sockets_; }
  bool accept_no_more() { return sockets_.accept_no_more(); }
  // Closes an endpoint without asking the peer; never blocks for longer than its own bookkeeping needs.
  void close(ucp_ep_h endpoint);
  // Ends the requests that are still on their way; their callbacks run in here. After the endpoints are closed, and not
  // if it has given up.
  void destroy_worker();
  // Leaves worker and context to the end of the process, and what is on its way: nothing of that is looked at. For one
  // that has given up, and for a worker that may still have to answer a peer that began to connect and died. UCX 1.13
  // with assertions ends a process that destroys such a worker ("got REP message"). After expect_more() it is destroyed
  // all the same, with aborts kept, and left only if UCX aborts: else each start that fails costs descriptors.
  void abandon();
  static void expect_more();        // this process will start contexts again and again
  static bool has_left_a_worker();  // in this process: abandoned, or given up

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  SocketsOfUcx sockets_;
  std::unique_ptr<AbortsKept> kept_;
  bool has_given_up_ = false;  // nothing may be asked of UCX any more
};

}  // namespace ucft::detail

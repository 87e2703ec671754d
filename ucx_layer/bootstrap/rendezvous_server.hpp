// The launcher's side of the rendezvous: gathers what each rank contributes and hands it to all, round by round.
//
// Single-threaded and driven by somebody else's poll() loop; time is an argument. Listens on the loopback interface: on
// 127.0.0.1, or where that doesn't exist on ::1. Or on all interfaces, for a job whose ranks are on several hosts.
//
// Some ranks of the job may be absent: their places are empty. No round waits for them.
//
// Invariants
//  - There is one round at a time. A rank that has contributed to it waits. The round ends when all that are not absent
//    have, or fails.
//  - Start-up fails once, with one text that names the culprit. The ranks that wait get it, and so do later ones.
//    As long as no rank waits, nothing is told: programs that never use ucft run in peace.
//  - A connection that has not shown the secret can cost its own descriptor and a few bytes, nothing else.
//  - A rank may connect again after Done (a second context); its next contribution belongs to the next round.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail::bootstrap {

using TimePoint = std::chrono::steady_clock::time_point;

class RendezvousServer {
 public:
  struct Options {
    int size = 1;
    Secret secret{};
    std::chrono::microseconds startup_limit = std::chrono::seconds(60);  // from a round's first contribution
    std::function<void(const std::string&)> log;                         // one line, without newline
    std::vector<bool> absent{};                                          // by rank; empty: none is
    bool any_interface = false;                                          // listens on all, else on loopback alone
  };

  // nullptr: `error` says why.
  static std::unique_ptr<RendezvousServer> listen(Options options, std::string& error);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // "127.0.0.1:PORT" or "[::1]:PORT", for UCFT_RENDEZVOUS. With any_interface "[::]:PORT" or "0.0.0.0:PORT": then the
  // ranks need an address of this host, and port().
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // For the poll loop: appends what to watch; on_ready() for each of them that has events; on_timer() when
  // next_deadline() has passed (calling it more often does no harm).
  void add_poll_entries(std::vector<pollfd>& entries, TimePoint now) const;
  void on_ready(int descriptor, short events, TimePoint now);
  void on_timer(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // The launcher has seen the process end. `how`: "exit code 1", "signal 9 (Killed)".
  void on_rank_exit(int rank, std::int64_t pid, const std::string& how);

  // A rank has said who it is: the program uses ucft.
  bool start_up_begun() const { return begun_; }
  // The first start-up is over: each rank that is there has said Done or has ended, or a failure has been told.
  bool start_up_ended() const;

 private:
  struct Connection {
    TimePoint accepted_at{};
    std::optional<int> rank;  // set once the secret was right
    std::int64_t pid = 0;
    bool was_answered = false;                              // with a refusal
    std::string input;                                      // the frame that is being read
    std::deque<std::shared_ptr<const std::string>> output;  // frames to send; results are shared between ranks
    std::size_t sent_bytes = 0;                             // of output.front()

    void forget_output() {
      output.clear();
      sent_bytes = 0;
    }
  };
  enum class Reading { Continues, Blocked, Ended };

  struct Listener {
    int descriptor;
    std::string address;
    int port;
  };
  RendezvousServer(Options options, Listener listener);
  static std::optional<Listener> listen_on(int family, bool any_interface);  // else: errno says why

  bool is_absent(std::size_t rank) const { return !options_.absent.empty() && options_.absent[rank]; }

  void accept_all(TimePoint now);
  bool drop_oldest_stranger(TimePoint now, const std::string& reason);
  void read_from(int descriptor, TimePoint now);
  Reading read_some(int descriptor, Connection& connection, TimePoint now);
  void write_to(int descriptor, Connection& connection);
  // The bytes that the frame being read has, as far as known; nullopt: it must not come here.
  std::optional<std::size_t> frame_bytes(const Connection& connection) const;
  // False: the connection has been dropped.
  bool handle_frame(int descriptor, Connection& connection, TimePoint now);
  bool handle_hello(int descriptor, Connection& connection, TimePoint now);
  void refuse(int descriptor, Connection& connection, const std::string& reason);
  void handle_contribution(Connection& connection, TimePoint now);

  void finish_round();
  void fail(const std::string& culprit);
  void tell_waiting_ranks();
  std::string missing_ranks_text() const;
  void send_frame(int descriptor, Connection& connection, std::shared_ptr<const std::string> frame);
  void drop(int descriptor, const std::string& reason);
  void forget(int descriptor);
  void log(const std::string& line) const;

  Options options_;
  int listener_;
  std::string address_;
  int port_;
  int present_;                                          // ranks that are not absent
  std::map<int, Connection> connections_;                // by descriptor
  int strangers_ = 0;                                    // of these: have not shown the secret
  std::vector<int> descriptor_of_rank_;                  // -1: not connected
  std::vector<std::int64_t> began_;                      // of the rank's last Hello; -1: none yet
  std::vector<std::optional<std::string>> contributed_;  // of the current round
  int contributed_count_ = 0;
  TimePoint round_deadline_{};               // valid while contributed_count_ > 0
  std::chrono::microseconds round_limit_{};  // what led to it, for the error text
  bool begun_ = false;
  std::vector<bool> finished_;  // by rank: it has said Done, or has ended, or is absent
  std::string failure_;         // empty: none so far
  bool failure_logged_ = false;
  TimePoint accept_again_at_{};  // after accept() ran out of descriptors
  int drops_logged_ = 0;
};

}  // namespace ucft::detail::bootstrap

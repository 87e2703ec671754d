// A rank's part in a job: start-up, the transport, the detector, the communicators, and the loop that drives them.
//
// Threads: one caller at a time (enter/leave). After a failure a helper thread takes turns when no caller is inside, so
// that a rank which computes still answers those that lost a root. The hand-over costs the caller two plain stores and a
// load: the thread pays, with membarrier.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "timeout_detector/departures.hpp"
#include "timeout_detector/detector_thread.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/runtime/helper_thread.hpp"
#include "ucx_layer/bootstrap/out_of_band.hpp"
#include "ucx_layer/transport/rdma_ports.hpp"
#include "ucx_layer/runtime/settings.hpp"
#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

class Context {
 public:
  using Clock = std::chrono::steady_clock;

  Context() = default;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Collective. params may be null. On an error `error` names the culprit.
  ucft_status_t start(const ucft_context_params_t* params, std::string& error);
  // Leaves the job.
  void stop();

  std::int32_t rank() const { return rank_; }
  std::int32_t size() const { return size_; }
  std::uint32_t cookie() const { return cookie_; }
  const Settings& settings() const { return settings_; }
  const LogGP& costs() const {
    return settings_.costs ? *settings_.costs : all_share_memory_ ? shared_memory_costs : network_costs;
  }
  Transport& transport() { return *transport_; }
  bool excluded() const { return departures_.is_out(); }
  ucft_status_t why_excluded() const {
    return departures_.exclusion() == Departures::Exclusion::minority ? UCFT_ERR_PARTITION : UCFT_ERR_EXCLUDED;
  }
  void exclude_self();  // the others have decided to go on without us: ends all operations
  std::string exclusion_text() const;
  bool forked() const;
  std::string describe(std::int32_t rank) const;  // "rank 3 (host a, pid 17)"

  // The caller's way in and out. False: somebody is inside.
  bool enter() {
    if (inside_.load(std::memory_order_relaxed) != 0) return false;
    inside_.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (fallback_fence_) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (helper_inside_.load(std::memory_order_acquire) != 0) wait_for_helper();
    return true;
  }
  void leave() { inside_.store(0, std::memory_order_release); }

  // True if anything was done.
  bool progress();
  // progress() for callers that test instead of waiting: looks at what a wait looks at while it yields, too, now and then,
  // and yields as it does when nothing has come for so long.
  void glance();
  bool has_failed(std::int32_t rank) const { return departures_.has_failed(rank); }
  // Waits until done() or the time limit (max(): none). False: the limit came first.
  template <class Done>
  bool wait_until(Done done, Clock::time_point limit) {
    Idle idle;
    for (std::uint32_t busy = 0; !done();) {
      if (!progress()) {
        if (!rest(idle, limit)) return done();
      } else if (++busy % 1024 != 0 || Clock::now() < limit) {  // the traffic of others does not stop the clock
        idle = Idle{};
      } else {
        return done();
      }
    }
    return true;
  }

  Communicator* create_for_all();
  std::uint32_t next_id() const { return next_id_; }
  // ranks: context ranks in the order of the new communicator. Every member of the parent calls note_id().
  Communicator* create(std::uint32_t id, std::vector<std::int32_t> ranks);
  void note_id(std::uint32_t id) { next_id_ = std::max(next_id_, id + 1); }
  void destroy(Communicator* communicator);  // after its farewell
  bool farewell(std::vector<Communicator*> communicators);
  std::vector<Communicator*> communicators() const;

  void note_stale() { ++stale_; }

 private:
  struct Peer {
    std::int32_t pid = 0;
    std::uint64_t start_time = 0;
    std::uint64_t host = 0;
    std::string host_name;
    bool may_share = false;  // memory, with ranks of its host
    bool shares_memory_with(const Peer& other) const { return host == other.host && may_share && other.may_share; }
  };
  struct News {  // of the detector
    enum class Kind : std::uint8_t { verdict, excluded, leave, line_lost };
    Kind kind;
    std::int32_t rank;
    bool proved = false;
  };
  struct Early {  // for a communicator that this rank has yet to create
    WireHeader header;
    Message message;
    int peer;
  };
  struct Idle {
    std::uint32_t rounds = 0;
    Clock::time_point since{};
  };
  static constexpr std::size_t early_limit = 4096, destroyed_limit = 1024;

  // Start-up
  bool exchange_identities(OutOfBand& oob, std::string& error);
  bool wire_up(OutOfBand& oob, std::string& error);
  bool shut_the_door(OutOfBand& oob, std::string& error);
  bool exchange_addresses(OutOfBand& oob, const PeerAddress& mine, const LifelineName& lifeline,
                          std::vector<PeerAddress>& all, std::vector<LifelineName>& lifelines, std::string& error);
  bool open_remote_mailboxes(OutOfBand& oob, std::string& error);
  bool connect_lifelines(OutOfBand& oob, LifelineMaker& maker, const std::vector<LifelineName>& names,
                         std::string& error);
  bool agree(OutOfBand& oob, bool ok, std::string& error, const char* step);
  bool start_detector(std::string& error);
  void meet();

  // Messages
  static bool accepts(void* self, const WireHeader& header, int peer);
  static void deliver(void* self, const WireHeader& header, const Message& message, int peer);
  static void on_control(void* self, const WireHeader& header, int peer);
  static void endpoint_failed(void* self, int peer, const char* why);
  Communicator* find(std::uint32_t id);
  Communicator* find_other(std::uint32_t id);
  bool is_future(std::uint32_t id) const;
  void answer_gone(const WireHeader& header, int peer);
  void tell_gone(std::uint32_t id, const std::vector<std::int32_t>& ranks, std::int32_t failed);

  // Departures
  static void on_verdict(void* self, const Verdict& verdict);
  static void on_tick(void* self);
  static void on_excluded(void* self, std::int32_t by);
  static void on_left(void* self, std::int32_t rank);
  static void on_line_lost(void* self, std::int32_t rank);
  void tell(const std::vector<News>& news);
  void take_news();
  void handle_news(Clock::time_point now);
  void follow_up();
  void carry_out(const Departures::Action& action);
  void depart(const Departures::Action& action);
  void stand_aside();
  void fence(std::int32_t rank);
  void look_around(Clock::time_point now);
  void mark_left();
  void report_failures();
  void look_at_ports();
  static void helper_turn(void* self);
  void wait_for_helper();

  bool rest(Idle& idle, Clock::time_point limit);
  void sleep_a_little();

  Settings settings_;
  std::int32_t rank_ = 0, size_ = 1;
  std::uint32_t cookie_ = 0;
  int pid_ = 0;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<HelperThread> helper_;  // woken by the detector's thread
  std::unique_ptr<DetectorThread> detector_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Departures departures_;
  std::uint64_t mappable_ = UINT64_MAX;  // bytes of address space that each rank of this host can still map,
  std::int32_t mappable_rank_ = 0;       // and the one that can map least
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::deque<std::pair<std::uint32_t, std::vector<std::int32_t>>>
      destroyed_;  // the latest: whom a late message came from
  Communicator* last_found_ = nullptr;
  std::vector<Early> early_;
  std::uint32_t next_id_ = 0, made_for_all_ = 0;
  std::uint64_t stale_ = 0;
  ucft_failure_callback_t failure_callback_ = nullptr;
  void* failure_callback_arg_ = nullptr;
  bool started_ = false;
  bool many_hosts_ = false, all_share_memory_ = true, one_network_ = true;
  std::unique_ptr<RdmaWatch> ports_;  // the detector's thread looks; guarded by ports_mutex_
  mutable std::mutex ports_mutex_;
  std::vector<std::pair<std::int32_t, Lifeline>> lifelines_;  // in start-up: by rank, for the detector
  std::uint32_t spin_ = 0, glances_ = 0, idle_glances_ = 0;

  alignas(64) std::atomic<int> inside_{0};
  std::atomic<int> helper_inside_{0};
  bool fallback_fence_ = false;               // enter() has to fence itself
  bool sleeper_fences_ = true;                // see Transport::ring_doorbells
  std::atomic<std::uint32_t> news_count_{0};  // whatever departures_ has to be told, or has to conclude
  std::uint32_t news_handled_ = 0;
  std::mutex news_mutex_;
  std::vector<News> news_;              // from the detector; guarded
  std::vector<News> silent_;            // found together, until the last of them: the detector's thread alone
  std::atomic<bool> answering_{false};  // a rank has departed: the helper takes turns
  bool in_helper_ = false, to_report_ = false, following_ = false;
};

}  // namespace ucft::detail

// A rank's part in a job: from start-up to the end, with the loop that drives everything between.
//
// Threads: one caller at a time (enter/leave). After a failure a helper thread takes turns when no caller is inside, so
// that a rank which computes still answers those that lost a root (turns.hpp).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ucft/ucft.h"
#include "ucx_layer/observer/job_view.hpp"
#include "ucx_layer/runtime/communicators.hpp"
#include "ucx_layer/runtime/departures_driver.hpp"
#include "ucx_layer/runtime/helper_thread.hpp"
#include "ucx_layer/runtime/host_work.hpp"
#include "ucx_layer/runtime/job.hpp"
#include "ucx_layer/runtime/spin.hpp"
#include "ucx_layer/runtime/turns.hpp"
#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

class OutOfBand;
struct PointToPointCall;
class Epochs;

class Context {
 public:
  using Clock = std::chrono::steady_clock;

  Context() = default;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Collective. params may be null. On an error `error` names the culprit.
  ucft_status_t start(const ucft_context_params_t* params, std::string& error);
  // The same, over an out-of-band that has been opened. Ranks that are absent from it have failed from the start.
  ucft_status_t start(const ucft_context_params_t* params, OutOfBand oob, std::string& error);
  // Leaves the job.
  void stop();

  // Before start(): newcomers may come later, and ask this process there.
  void set_listener(const ListenerName& name) {
    job_.is_joinable = true;
    job_.listener = name;
  }
  // Those that it is one of; null: newcomers can't come.
  void set_epochs(Epochs* epochs) { epochs_ = epochs; }
  Epochs* epochs() const { return epochs_; }
  // Instead of start(): this process has yet to join a job. enter() is refused.
  void await_job();
  bool awaits_job() const { return awaits_job_; }
  // No rank is killed for its silence: this context may be dropped. Before start(), and later.
  void spare_all(bool spares) { departures_.spare_all(spares); }
  void set_callback(ucft_failure_callback_t callback, void* arg) { departures_.set_callback(callback, arg); }

  std::int32_t rank() const { return job_.rank; }
  std::int32_t size() const { return job_.size; }
  std::uint32_t cookie() const { return job_.cookie; }
  const Settings& settings() const { return job_.settings; }
  const Job& job() const { return job_; }
  const LogGP& costs() const {
    return settings().costs ? *settings().costs : job_.all_share_memory ? shared_memory_costs : network_costs;
  }
  std::string describe(std::int32_t rank) const { return job_.describe(rank); }
  // The host of each of these, as the first rank of the job that is there.
  std::vector<std::int32_t> hosts_of(const std::vector<std::int32_t>& ranks) const;
  const Spin& spin() const { return spin_; }
  void note_death(std::int32_t rank);
  // News of deaths and leavers: looked for, and carried out, now.
  void look_for_departures() { departures_.look_around(Clock::now()); }
  // That rank shall answer from now on also while its program computes.
  void want_answers_of(std::int32_t rank) {
    if (ControlPage* const its = transport_->control_of(rank);
        its != nullptr && its->answers_wanted.load(std::memory_order_relaxed) == 0)
      its->answers_wanted.store(1, std::memory_order_relaxed);
  }
  bool forked() const;

  Transport& transport() { return *transport_; }
  Communicators& communicators() { return communicators_; }
  bool has_failed(std::int32_t rank) const { return departures_.state().has_failed(rank); }
  bool is_gone(std::int32_t rank) const { return departures_.state().is_gone(rank); }
  bool is_final(std::int32_t rank) const { return departures_.is_final(rank); }
  bool was_told_out() const { return departures_.was_told_out(); }  // this rank is out. Any thread
  bool was_told_gone(std::int32_t rank) const {                     // as communicators know it. Any thread
    return departures_.was_told_failed(rank) || departures_.was_told_left(rank);
  }
  // The job as it is seen from here, without the processes' activities, which cost several microseconds for each of
  // their threads. Any thread, also while another one is inside.
  JobView view() const;
  void look_at_process(RankView& view) const;
  // A wait has ended without its operation; it may go on at once.
  void say_waited_until(Clock::time_point limit);
  bool excluded() const { return departures_.is_out(); }
  bool is_stopping() const { return !started_; }  // it leaves the job
  ucft_status_t why_excluded() const { return departures_.why_out(); }
  std::string exclusion_text() const { return departures_.exclusion_text(); }
  void exclude_self() { departures_.exclude_self(); }  // ends all operations
  // The same, since this rank can't go on. why: for exclusion_text().
  void stand_aside(const std::string& why) { departures_.exclude_self(why); }
  // A communicator takes that rank for gone: it gets no message there. If it is not gone soon it is silent.
  void give_up(std::int32_t rank) { departures_.on_connection_lost(rank); }

  HostWork& host_work() { return host_work_; }
  const HostWork& host_work() const { return host_work_; }
  // No work is known but what is tried now, and no other engine is in a hurry.
  bool has_only_host() const { return host_work_.empty() && messages_can_wait(); }

  // The caller's way in and out. False: somebody is inside.
  bool enter() { return turns_.enter(); }
  void leave() { turns_.leave(); }

  // True if anything was done.
  bool progress(bool asks_ucx = false);  // false: UCX is asked if messages may be for this rank, else now and then
  // progress() for callers that test instead of waiting. Now and then it also looks at what a wait looks at while it
  // yields. And it yields as a wait does when nothing has come for so long.
  void glance();
  // Waits until done() or the time limit (max(): none). False: the limit came first.
  template <class Done>
  bool wait_until(Done done, Clock::time_point limit) {
    Idle idle(*this);
    for (std::uint32_t busy = 0; !done();) {
      if (!progress()) {
        if (!rest(idle, limit)) return done();
        continue;
      }
      idle.begin_anew();
      if (++busy % 1024 != 0) continue;  // the traffic of others does not stop the clock, nor hides a rank that leaves
      const auto now = Clock::now();
      if (now >= limit) return done();
      departures_.look_around(now);
    }
    return true;
  }
  // The same, for a message of a rank of this host: it looks at that first.
  template <class Done>
  void wait_for_message(Done done) {
    for (std::uint32_t looks = 0; looks < spin_.looks(); ++looks) {
      transport_->poll_shared();
      if (done()) return;
      relax();
      if (looks % 32 == 31) progress();
    }
    wait_until(done, Clock::time_point::max());
  }
  // Of the program, outside: for observers. Any thread, one at a time.
  void note_activity(const char* name) { transport_->control()->activity.store(name); }

  // A send or a receive that waits for as long as this lives: for observers. Null: something else.
  class WaitFor {
   public:
    WaitFor(Context& context, const PointToPointCall* call) : context_(context) { context_.awaited_ = call; }
    ~WaitFor() { context_.awaited_ = nullptr; }
    WaitFor(const WaitFor&) = delete;
    WaitFor& operator=(const WaitFor&) = delete;

   private:
    Context& context_;
  };

 private:
  struct Idle {
    explicit Idle(Context& of) : context(of) {}
    ~Idle() {
      if (slept) context.say_waiting_since({});
    }
    Idle(const Idle&) = delete;
    Idle& operator=(const Idle&) = delete;
    void begin_anew() {
      rounds = 0;
      since = {};
    }

    Context& context;
    std::uint32_t rounds = 0;
    Clock::time_point since{};
    bool slept = false;
  };

  bool messages_can_wait() const {  // for a few looks
    return job_.all_share_memory && !communicators_.have_gossip() && !communicators_.await_letters() &&
           !departures_.has_news();
  }
  static bool accepts(void* self, const WireHeader& header, int peer);
  static void deliver(void* self, const WireHeader& header, const Message& message, int peer);
  static void on_control(void* self, const WireHeader& header, int peer);
  static void endpoint_failed(void* self, int peer, const char* why);
  static void helper_turn(void* self);
  bool prepare(const ucft_context_params_t* params, std::string& error);
  ucft_status_t start_over(OutOfBand& oob, std::string& error);
  bool start_threads(std::vector<std::pair<std::int32_t, Lifeline>> lifelines, std::string& error);
  void meet();
  void print_stats() const;
  bool progress_all(bool asks_ucx);
  bool listens() const;
  bool rest(Idle& idle, Clock::time_point limit);
  void look_around(Clock::time_point now);
  void say_waiting_since(Clock::time_point since);
  void sleep_a_little();

  Job job_;
  std::uint32_t forks_at_start_ = 0;  // of the process, and of those that it comes from
  std::unique_ptr<Transport> transport_;
  HostWork host_work_{job_};
  DeparturesDriver departures_{job_, communicators_};
  Communicators communicators_{*this, departures_.state()};
  Spin spin_;
  std::uint32_t looks_ = 0, turns_unheard_ = 0;
  std::unique_ptr<HelperThread> helper_;  // woken by the detector's thread
  Turns turns_;
  std::uint32_t glances_ = 0, idle_glances_ = 0;
  std::uint64_t naps_ = 0;
  const PointToPointCall* awaited_ = nullptr;
  Clock::duration napped_{};
  bool started_ = false, in_helper_ = false, awaits_job_ = false;
  Epochs* epochs_ = nullptr;
};

}  // namespace ucft::detail

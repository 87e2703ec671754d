// One job: starts the ranks, then one poll loop serves their output, their rendezvous, planned signals and limits.
//
// Runs in the supervisor (guard.hpp), single-threaded.
//
// Invariants
//  - A rank that fails changes the exit code and nothing else: the others go on.
//  - No descendant of this process is left when run() returns, as far as that can be had.
//  - The ranks' output is written out before run() returns. The exception: the job was cut short, and the reader of our
//    output does not take it.
#pragma once

#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/arguments.hpp"
#include "tools/run/guard.hpp"
#include "tools/run/output.hpp"
#include "tools/run/ranks.hpp"
#include "tools/run/signal_plan.hpp"
#include "tools/run/torch_variables.hpp"
#include "ucx_layer/bootstrap/rendezvous_server.hpp"

namespace ucft::detail::run {

class Job {
 public:
  // cpus: of each rank, as StartOrder has them.
  Job(Arguments arguments, std::string program_path, std::vector<std::vector<int>> cpus,
      const SupervisorContext& context);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  bool open_rendezvous();
  bool start_ranks();
  StartOrder order_for(int rank) const;
  bool start(int rank, const StartOrder& order);
  void add_stream(int descriptor, Stream::Kind kind, int rank, Sink& sink);
  void leave_input();
  void say(const std::string& line);
  void take_announcements();

  // Waits for the next event, at most until `deadline`, and handles what there is. How many streams had input?
  int step(std::optional<TimePoint> deadline);
  std::vector<pollfd> poll_entries(TimePoint now) const;
  std::optional<TimePoint> next_deadline() const;
  int serve_output(const std::vector<pollfd>& entries);
  void note_write_problem(const char* name, int problem);
  void on_timers();

  void take_signals();
  void on_interrupt(int signal);
  void reap();
  void note_wait_status(pid_t pid, int status);
  void note_end(int rank);
  bool plan_respawn(int rank);
  void respawn_due(TimePoint now);
  void read_addresses();
  bool was_in_job(int rank);
  std::string addresses();
  void send_planned_signals(TimePoint now);
  void send(const PlannedSignal& planned, TimePoint now);
  void say_not_sent(const PlannedSignal& planned);
  void on_job_limit();
  void kill_stopped_if_alone();
  void signal_rank(const RankProcess& process, int signal);

  void end_descendants_of_job();
  void drain_output(std::optional<TimePoint> deadline);
  void write_out(std::optional<TimePoint> deadline);
  bool may_go_on(std::optional<TimePoint> deadline) const;
  void say_what_was_not_sent();
  void require_survivor();
  int exit_code() const;
  std::string json_line(double seconds) const;

  Arguments arguments_;
  std::string program_path_;
  std::vector<std::vector<int>> cpus_;  // by rank
  SupervisorContext context_;
  rlimit original_open_files_{};
  bootstrap::Secret secret_;
  std::unique_ptr<bootstrap::RendezvousServer> rendezvous_;
  TorchVariables torch_;
  int signals_ = -1;                    // signalfd
  std::array<int, 2> purpose_{-1, -1};  // pipe: see take_announcements
  std::array<int, 2> address_{-1, -1};  // pipe: see addresses

  Sink output_;
  Sink errors_;
  std::deque<Stream> streams_;    // two per rank
  std::size_t first_stream_ = 0;  // rotates, so that no rank is always served last

  std::vector<RankProcess> ranks_;  // by rank: the latest of each
  struct Respawn {
    int rank;
    TimePoint at;
  };
  std::vector<Respawn> respawns_;  // to be done
  struct Seat {
    TimePoint since{};  // its process
    Duration pause{};   // before the next one
    int respawned = 0;
    int number = 0;  // of its process, among all that were started
  };
  std::vector<Seat> seats_;               // by rank
  int respawned_ = 0;                     // in all
  int started_ = 0;                       // processes
  std::map<int, std::string> addresses_;  // of processes, by their numbers
  std::string unread_address_;
  int alive_count_ = 0;
  TimePoint started_at_{};
  SignalPlan plan_;
  std::vector<int> killed_;   // ranks, in the order of the signals
  std::vector<int> stopped_;  // likewise

  // How it ends.
  bool end_now_ = false;  // no more waiting
  bool timed_out_ = false;
  bool guard_lost_ = false;
  int interrupted_by_ = 0;                       // signal
  std::optional<TimePoint> kill_after_term_at_;  // ranks have been asked to end
  int failure_exit_code_ = 0;                    // of the first rank that failed
};

}  // namespace ucft::detail::run

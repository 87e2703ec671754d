// The machine under a whole job: virtual time, hosts, processes and their threads, all on one thread of this program.
//
// The library runs in it unchanged. It asks libc and UCX for all that is not memory of its own, and both are names that
// the linker finds: ucft_world defines those that the library uses (libc_*.cpp, ucp.cpp), so they lead here.
// Calls that come from no simulated process go to the system as ever.
//
// All that happens follows from a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>

#include "simulator/jobs/fiber.hpp"

namespace ucft::jobs {

using Time = std::int64_t;  // ns
constexpr Time microsecond = 1000, millisecond = 1000 * microsecond, second = 1000 * millisecond;
constexpr Time never = INT64_MAX;

class Kernel;
enum class Life : std::uint8_t { lives, is_ending, has_ended };

struct Process {
  int pid = 0, host = 0;
  std::uint64_t start_time = 0;
  Life life = Life::lives;
  Time stopped_until = 0;
  Time starves_until = 0;  // it wants to run, and gets no processor
  std::map<std::string, std::string, std::less<>> environment;
  std::vector<std::unique_ptr<Fiber>> threads;
  std::vector<std::pair<Fiber*, std::uint64_t>> held;  // wake-ups of one that is stopped, or starves
  std::set<int> descriptors;
  std::map<std::uintptr_t, std::size_t> mappings;
  std::set<pthread_mutex_t*> locked;
  std::int64_t memory_left = INT64_MAX;  // bytes of shared memory that it still gets
  std::size_t most_descriptors = SIZE_MAX;
  Time ucx_fails_until = 0;                  // until then one of four calls of UCX ends with an error
  std::map<const Process*, Time> unreached;  // to whom one has, and when first
  bool has_lacked_memory = false, has_lacked_descriptors = false;  // it was refused some
  std::vector<std::function<void()>> at_end;                       // when its kernel takes it away
};

// How things go in a job, drawn by its seed. Times in ns.
struct Temper {
  Time call = 20;                             // what a call of the system costs
  Time yield = 500;                           // at most, until a thread that yields runs again
  Time wake = 3 * microsecond;                // at most, from a wake-up to running
  Time latency = 20 * microsecond;            // at most, of a message between hosts
  Time dying = 200 * microsecond;             // at most, from a SIGKILL until the process has ended
  std::uint64_t blocks_between_cuts = 20000;  // of the library's code, on average: then another thread may run
  Time longest_cut = 0;                       // of some of these cuts: the thread gets no processor for so long
  bool has_remote_access = false;             // puts and gets are done by devices, as over InfiniBand
  bool has_long_way = false;                  // long messages may be overtaken
  bool refuses_some = false;                  // connections of TCP
};

// The clock of a host. No two need agree.
struct HostClock {
  Time ahead = 0;   // ns
  Time faster = 0;  // by so many millionths
  Time at(Time now) const { return ahead + now * (million + faster) / million; }
  // The first moment at which it says so.
  Time when(Time says) const {
    if (says - ahead > longest) return never;
    return ((says - ahead) * million + million + faster - 1) / (million + faster);
  }
  static constexpr Time million = 1000000, longest = 9000 * second;
};

// In order, from host to host. While the way is cut nothing arrives, and nothing is lost: as over TCP.
struct Channel {
  struct Item {
    Time at;
    std::function<void()> arrives;
  };
  int from, to;
  std::deque<Item> items;
};

class Kernel {
 public:
  explicit Kernel(std::uint64_t seed);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // The one that a thread of a simulated process runs in now; nullptr: none does.
  static Kernel* running() { return current_ == nullptr ? nullptr : instance_; }
  static Kernel* instance() { return instance_; }
  static Fiber* current() { return current_; }
  static Process& process() { return current_->process(); }

  Temper temper;
  int processors_of_a_host = 1;
  std::vector<HostClock> clocks;  // by host; empty: all are right

  // ---- chance -----------------------------------------------------------------------------------------------------
  std::uint64_t draw() { return random_(); }
  std::uint64_t below(std::uint64_t end) { return end == 0 ? 0 : random_() % end; }
  bool one_in(std::uint64_t many) { return below(many) == 0; }
  Time some(Time most) { return static_cast<Time>(below(static_cast<std::uint64_t>(most) + 1)); }

  // ---- time and threads -------------------------------------------------------------------------------------------
  Time now() const { return now_; }
  // Of the host that runs now. clock(): what its clock says; when_clock_says(): the virtual time at which it will say
  // so; after(): the one at which it will have gone so much further.
  Time clock() const { return host_clock().at(now_); }
  Time when_clock_says(Time time) const { return host_clock().when(time); }
  Time after(Time by_clock) const { return when_clock_says(clock() + by_clock); }
  void at(Time when, std::function<void()> action);
  // A call of the system begins: it costs time.
  void pass();
  // Lets others run for so long.
  void yield(Time duration);
  // As above, since it has found nothing to do. The longer in a row, the longer: else waiting takes most of the time.
  void idle();
  // For something to happen: until it is woken (true), or that time.
  bool wait(Time until);
  void wake(Fiber& fiber);
  // It runs some time after that delay.
  Fiber& start_thread(Process& process, std::function<void()> body, Time delay = 0);
  Process& start_process(int host, std::function<void()> main, Time delay = 0);

  // Runs until all main threads are over, or that time. False: some are not over.
  bool run(Time until);

  // ---- faults -----------------------------------------------------------------------------------------------------
  // No code of it runs any more. Its kernel takes it away some time later.
  void kill(Process& process);
  // It runs no further until then.
  void stop(Process& process, Time until);
  // It gets no processor until then.
  void starve(Process& process, Time until);
  // Of a host that loses power: nothing that it has not sent by now is sent.
  void lose_power(int host);
  void cut(int from, int to);
  void mend(int from, int to);
  bool is_cut(int from, int to) const { return cuts_.contains({from, to}); }
  bool has_power(int host) const { return !dark_.contains(host); }

  // ---- what others of this folder need ----------------------------------------------------------------------------
  Process* process_of(int pid);
  Channel& new_channel(int from, int to);  // lives as long as the kernel
  // Brings it from host to host, after a latency.
  void send(Channel& channel, std::function<void()> arrives);
  // A table of that kind, the job's own: it begins empty, and ends with the kernel.
  template <class Table>
  Table& own() {
    static const int key = 0;
    std::shared_ptr<void>& found = tables_[&key];
    if (found == nullptr) found = std::make_shared<Table>();
    return *static_cast<Table*>(found.get());
  }
  // Blocks of the library's code until the next cut.
  static std::int64_t budget;
  void cut_in();

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    Fiber* fiber;  // or an action
    std::uint64_t wait;
    std::shared_ptr<std::function<void()>> action;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  HostClock host_clock() const {
    return clocks.empty() ? HostClock() : clocks.at(static_cast<std::size_t>(process().host));
  }
  bool is_held(const Process& process) const { return std::max(process.stopped_until, process.starves_until) > now_; }
  void hold(Process& process, Time& its_until, Time until);
  void run_thread(Fiber& fiber);
  void begin_to_end(Process& process);
  bool sleep_until(Time until);
  void push(Time at, Fiber& fiber);
  void take_away(Process& process, bool is_silent);
  void release(Process& process, bool is_silent);
  void deliver(Channel& channel);
  void draw_budget();

  static Kernel* instance_;
  static Fiber* current_;

  std::mt19937_64 random_;
  Time now_ = 0;
  std::uint64_t orders_ = 0, threads_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::size_t living_ = 0;  // processes
  std::set<std::pair<int, int>> cuts_;
  std::set<int> dark_;
  std::deque<Channel> channels_;
  std::map<const void*, std::shared_ptr<void>> tables_;
};

}  // namespace ucft::jobs

// The thread around TimeoutDetector, ProcessWatch and Lifelines. It advances this rank's heartbeat, looks at those of
// its peers, and reports verdicts. It keeps the promise that a rank which computes for minutes is not suspected.
//
// Source: docs/failure_model.md, "Detection". There are two kinds of verdict. *Proved*: the process has ended (its
// pidfd says so, or its kernel closed the lifeline). *Suspected*: silence. With fencing, silence of a rank of this host
// is turned into proof: SIGKILL through the pidfd, then its end. Silence of another host's rank stays silence.
// Invariants
//  - Each peer gets at most one suspected and at most one proved verdict, in this order, whichever thread reports.
//  - A proved verdict is never wrong. The process has ended, or no thread of it runs its program any more, or it said
//    itself that it is out.
//  - Silent peers of other hosts are reported together, a quarter of suspect_after after the first was found silent.
//    One rank that looks dead may be the first of half a cluster behind a broken link, and that is another matter.
//  - The thread never waits for a peer: it sleeps for one heartbeat period at most.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "timeout_detector/lifelines.hpp"
#include "timeout_detector/process_watch.hpp"
#include "timeout_detector/timeout_detector.hpp"

namespace ucft::detail {

struct Verdict {
  enum class Kind : std::uint8_t { suspected, proved };
  std::int32_t rank;
  Kind kind;
  std::chrono::nanoseconds silent_for;  // since the last sign of life that this thread saw
  int pid;
  bool out;   // proved by its own word that it takes no part any more; it may live
  bool more;  // others follow at once that belong to the same event: judge them together
};

// A peer's signs of life are
//  - with a heartbeat counter: a change of it. A peer is looked at every period if it is one of few, follows this rank
//    closely, or was silent at the last look. Any other peer is looked at in its turn, such that all are looked at in a
//    quarter of suspect_after. That may find silence so much later. So many ranks of a host share the work. With
//    fencing it is enough that one of them kills the silent one, which proves its death to all.
//  - without one (nullptr): a state in /proc that isn't "stopped". Looked at every quarter of suspect_after, so a stop
//    may be suspected up to a quarter early. A hang that isn't a stop is not seen.
//  - on another host (RemotePeer): a byte on its lifeline, sent every tenth of suspect_after (never more often than
//    every period). A closed lifeline is proof of its end, unless it said before that it leaves. So is a lifeline that
//    was reset, if the peer was heard in the last half of suspect_after (see Lifeline::End).
// A silent peer of this host that is traced is neither killed nor suspected (spares_traced): it may stand at a
// breakpoint.
// /proc shows nothing of another host, so its ranks say themselves that they are starved. A thread that has run late by
// a quarter of suspect_after says so for the next ten times suspect_after. A peer that has said so gets three deadlines
// more in one silence. If this thread has run late itself, all peers of other hosts do. A silent peer that wants to run
// but can't (runnable, or in an uninterruptible wait) gets its deadline extended, up to Options::extensions_limit
// times. With the default of 10, it is suspected after 11 * suspect_after anyway. (The time that this thread was away
// for comes on top, see TimeoutDetector::tick.)
class DetectorThread {
 public:
  struct Peer {
    std::int32_t rank;  // ascending; those that follow our own follow closely
    int pid;
    std::uint64_t start_time;                          // process_start_time() as the peer itself had it
    const std::atomic<std::uint64_t>* heartbeat;       // stays mapped until stop(); may be nullptr
    const std::atomic<std::uint32_t>* left = nullptr;  // not 0: it has left, its silence means nothing; likewise
  };
  struct RemotePeer {  // of another host
    std::int32_t rank;
    int pid;        // for verdicts
    Lifeline line;  // open, and the peer has the other end
  };
  // Called on the thread, with a lock held: must be short, must not block, throw, nor call anything of the detector.
  class Listener {
   public:
    virtual void on_verdict(const Verdict& verdict) = 0;  // also in look_now(); never two at a time
    virtual void on_tick() {}  // on every wake, after the verdicts; short, or we would fall silent
    // A peer of another host says that it declared us dead; that it leaves. Or its lifeline is lost, so that nothing is
    // known of it any more.
    virtual void on_excluded(std::int32_t /*rank*/) {}
    virtual void on_left(std::int32_t /*rank*/, bool /*all_know*/) {}
    virtual void on_line_lost(std::int32_t /*rank*/) {}
    // This thread has killed a silent peer of this host (tracer 0), or left it alone, since process `tracer` traces it.
    // Said once for each time that it is traced.
    virtual void on_fenced(std::int32_t /*rank*/, std::chrono::nanoseconds /*silent_for*/, int /*tracer*/) {}

   protected:
    ~Listener() = default;
  };

  struct Setup {
    TimeoutDetector::Options options;  // valid
    std::int32_t rank = 0;             // our own
    bool fence = true;                 // kill silent peers before they are declared dead
    bool spares_traced = true;         // silent peers of this host that are traced are waited for
    bool silence_counts =
        true;  // false: not before count_silence(), so that peers may begin to beat later than we watch
    // The end of a killed peer must show in this time, else it is only suspected; at most a year.
    std::chrono::nanoseconds fence_limit = std::chrono::seconds(1);
    std::atomic<std::uint64_t>* own_heartbeat = nullptr;  // advanced on every wake, by nobody else; may be nullptr
    Listener* listener = nullptr;
  };

  // Starts the thread ("ucft-detector"; all signals blocked). Deaths before this moment are reported, too. Throws
  // std::system_error if descriptors or threads have run out. Every peer has a rank of its own, and isn't this process.
  DetectorThread(const Setup& setup, const std::vector<Peer>& peers, std::vector<RemotePeer> remote = {});
  // Stops. In a fork of the creating process, where the thread doesn't exist, it only gives resources back; nothing
  // else may be called there.
  ~DetectorThread();
  DetectorThread(const DetectorThread&) = delete;
  DetectorThread& operator=(const DetectorThread&) = delete;

  // Ends the thread; afterwards it calls nothing. Tells the other hosts' peers that this rank leaves, and waits for at
  // most a second until they have heard it. Again: no effect. Not from a callback.
  void stop(bool all_know = true);

  // Makes the thread take a turn now. Any thread, also a signal handler; before the destructor.
  void poke();

  // Whether silent peers are killed, if the setup says that they are. Any thread.
  void spare_all(bool spares) { spares_all_.store(spares, std::memory_order_release); }

  // Silence counts from now on. Any thread.
  void count_silence() { silence_counts_.store(true, std::memory_order_release); }

  // The silence of this peer means nothing from now on: it has left. Any thread.
  void forget(std::int32_t rank);

  // Another host's rank has been declared dead: tell it, should it be alive. Any thread.
  void tell_excluded(std::int32_t rank);

  // This rank takes no part any more: tell the other hosts. Any thread.
  void declare_out();

  // A peer as it is seen now. silent_for: since the last sign of life. state: unknown of another host.
  struct Sight {
    std::chrono::nanoseconds silent_for;
    ProcessState state;
  };
  // Empty: it is no peer. Any thread; reads /proc, several microseconds per thread of the peer.
  std::optional<Sight> sight_of(std::int32_t rank) const;

  // Reports deaths (not silence) at once, on the calling thread; returns how many. Any thread, also while the
  // thread runs; without a death it takes no lock: one system call.
  int look_now();

 private:
  using Time = TimeoutDetector::Time;

  struct Watched {
    Peer peer;
    bool remote = false;
    bool missed = false;  // silent for two periods when it was last looked at
    Lifeline lifeline;    // if remote
    std::uint64_t last_heartbeat = 0;
    std::atomic<Time> heard_at{};  // for silent_for; the detector has its own
    std::atomic<bool> forgotten{false};
    std::atomic<bool> tell_excluded{false};
    bool has_left() const {
      return forgotten.load(std::memory_order_acquire) ||
             (peer.left != nullptr && peer.left->load(std::memory_order_acquire) != 0);
    }
    bool suspected = false;           // guarded by verdicts_
    std::atomic<bool> proved{false};  // set under verdicts_
    bool fencing = false;             // silent, and killed if it could be; its end is not seen yet
    Time fence_until{};               // then it is only suspected
    int tracer = 0;                   // the last that was found
    Time starved_until{};             // if remote: by its own word
    int patience = 0;                 // deadlines that it has been given for that, in this silence
    std::uint64_t ending = 0;         // ProcessWatch::ending() when it was last looked at; 0 if not lately
  };

  void run();
  void take_turn(Time now);
  void listen(Time now);
  void look_for_endings();
  bool look_for_ending(std::size_t index);
  void choose_closely_watched();
  void listen_here(Time now);
  static bool has_beaten(Watched& watched);
  bool look_at(std::size_t index, Time now);
  void listen_afar(std::size_t index, Time now);
  void speak(Time now);
  void heard(std::size_t index, Time now);
  bool is_proof(const Watched& watched, const Lifeline::News& news, Time now) const;
  void watch(Peer peer, bool remote, Lifeline line, Time now);
  void judge(std::size_t index, Time now);
  bool may_want_to_run(std::int32_t rank) const;
  bool is_traced(Watched& watched);
  void say_fenced(const Watched& watched, int tracer);
  static Time silence_of(const Watched& watched);  // until now
  void note_lateness(Time now);
  bool may_be_starved(Watched& watched, Time now) const;
  void begin_waiting_anew(Time now);
  void give_up_fencing(Time now);
  void start_waiting(std::size_t index, Time until);
  void report_silent_hosts();
  int report_deaths();
  bool report(Watched& watched, Verdict::Kind kind, bool out = false, bool more = false);
  void sleep();

  Setup setup_;
  int creator_pid_;
  std::vector<std::unique_ptr<Watched>> watched_;  // the index is the detector's name for the peer; of this host first
  std::size_t here_ = 0;                           // so many are of this host
  std::vector<std::size_t> closely_, missed_;      // looked at every period: by choice; those with Watched::missed
  std::size_t next_look_ = 0;                      // whose turn it is, of all of this host
  bool any_fencing_ = false;
  ProcessWatch processes_;
  TimeoutDetector silence_;  // the thread's alone
  Time listened_at_{}, next_state_look_{}, next_beat_{};
  Time turned_at_{}, late_until_{};
  bool states_looked_at_ = false;  // in this turn, of those without a heartbeat counter
  std::mutex verdicts_;
  std::atomic<bool> stopping_ = false, out_ = false, silence_counts_ = true;
  std::atomic<bool> spares_all_ = false;
  int wake_ = -1;                // eventfd
  std::vector<pollfd> awaited_;  // the thread's alone
  std::thread thread_;
};

}  // namespace ucft::detail

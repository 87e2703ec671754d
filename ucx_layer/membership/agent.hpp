// A process's part in finding newcomers their seats, on a thread that sleeps until somebody connects. Each member has a
// listener. The lowest rank that lives sponsors: it collects newcomers, and invites all to start an epoch together. A
// newcomer asks one member after the other until one sponsors it. Sponsor decides what a sponsor does next. Here are
// the connections, and all that takes time.
//
// No member in particular has to live. If the sponsor dies, its rendezvous dies with it, and so each start that it led.
// The newcomers then ask the next member.
//
// Threads: its own, but for what says otherwise. Its owner's functions are called there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/renewal/sponsor.hpp"
#include "ucx_layer/bootstrap/rendezvous_server.hpp"
#include "ucx_layer/membership/invitation.hpp"

namespace ucft::detail {

// The members of the epoch that a process is in.
struct Roster : EpochMembers {
  std::uint32_t cookie = 0;
  std::vector<ListenerName> names{};  // by rank
  std::vector<ListenerName> living(std::int32_t but) const;
};

class Agent {
 public:
  class Owner {
   public:
    virtual Roster roster() = 0;
    virtual void on_turn() = 0;
    virtual void on_invited(Invitation invitation) = 0;
    // As a newcomer: whether a start is under way; the starts of epochs that it waits to be in, the latest last.
    virtual bool is_starting() = 0;
    virtual std::vector<std::uint64_t> started() = 0;
    virtual EpochState state_of(std::uint64_t start) = 0;
    virtual void on_refused(const std::string& why) = 0;  // as a newcomer, for good
    virtual void say(const std::string& line, bool is_warning) = 0;

   protected:
    ~Owner() = default;
  };

  Agent(Owner& owner, const bootstrap::Secret& secret) : owner_(owner), secret_(secret) {}
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Listens. False with a reason.
  bool open(std::string& error);
  const ListenerName& name() const { return name_; }
  void start();  // its thread; throws std::system_error
  void stop();
  void wake();  // something has changed for its owner. Any thread, also after stop()
  // As a newcomer, before start(): whom to ask, and the seat that is wanted (-1: any).
  void apply_to(std::vector<ListenerName> members, std::int32_t wanted_seat);
  // Newcomers that wait here. Any thread.
  std::int32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Visitor {
    JoinReader reader;
    Clock::time_point since;
  };

  void run();
  void step();
  int wait_ms() const;
  void accept_all();
  void listen_to(int descriptor);
  bool take_frame(int descriptor, const JoinFrame& frame);
  bool take_application(int descriptor, const JoinFrame& frame);
  bool take_invitation(const JoinFrame& frame);
  void drop(int descriptor);
  void count_waiting();

  void look_after_newcomers();
  void tell_newcomers(const Roster& roster);
  void pause_after_failure();
  void sponsor(const Roster& roster);
  void look_at_server();
  void begin_start(const Sponsor::Step& step, const Roster& roster);
  void turn_away(const std::vector<int>& newcomers, const Roster& roster);

  void ask_next();
  void listen_to_sponsor();
  void lose_sponsor();

  Owner& owner_;
  bootstrap::Secret secret_;
  ListenerName name_{};
  int listener_ = -1, wakes_ = -1;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int32_t> waiting_{0};
  std::map<int, Visitor> visitors_;  // by descriptor
  Sponsor sponsor_;                  // which newcomers it seats, by their descriptors, and when
  // Of the start that it leads, or has led: until all ranks have what they need of it.
  std::unique_ptr<bootstrap::RendezvousServer> server_;
  Clock::time_point serve_until_{};
  Clock::time_point sponsor_after_{}, tell_after_{};
  Clock::time_point accept_after_{};  // descriptors have run out
  Clock::duration pause_{};           // after a start that failed
  int refused_ = 0;                   // connections with a wrong secret

  // As a newcomer.
  std::vector<ListenerName> first_, to_ask_;  // those given; those to be asked yet, the next one last
  std::int32_t wanted_seat_ = -1;
  int to_sponsor_ = -1;  // descriptor
  JoinReader heard_;
  Clock::time_point ask_after_{}, heard_at_{};
  int rounds_unheard_ = 0;

  std::thread thread_;
};

}  // namespace ucft::detail

// A process's part in finding newcomers their seats, on a thread that sleeps until somebody connects. Each member has a
// listener. The lowest rank that lives sponsors: it collects newcomers, and invites all to start an epoch together. A
// newcomer asks one member after the other until one sponsors it.
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

#include "ucx_layer/bootstrap/rendezvous_server.hpp"
#include "ucx_layer/membership/invitation.hpp"

namespace ucft::detail {

// The members of the epoch that a process is in.
struct Roster {
  std::int32_t me = -1;  // -1: it has not joined
  std::uint32_t cookie = 0;
  std::vector<bool> lives;          // by rank
  std::vector<ListenerName> names;  // by rank
  std::vector<std::string> hosts;   // by rank: names
  std::int32_t lowest() const;      // that lives
  std::vector<ListenerName> living(std::int32_t but) const;
};

class Agent {
 public:
  enum class EpochState : std::uint8_t { none, starting, ready, broken, adopted };

  class Owner {
   public:
    virtual Roster roster() = 0;
    virtual void on_turn() = 0;
    virtual void on_invited(Invitation invitation) = 0;
    virtual bool may_be_in_soon() = 0;  // as a newcomer: an epoch of its has started, or is about to
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
    std::optional<Apply> applies{};
    int failures = 0;        // of starts that it was in
    bool is_seated = false;  // it is about to find that out, and to hang up

    bool waits() const { return applies.has_value() && !is_seated; }
  };
  // A start that this process leads.
  struct Sponsored {
    Invitation invitation;
    std::map<int, std::int32_t> seat_of;  // by the newcomer's descriptor
    std::unique_ptr<bootstrap::RendezvousServer> server;
    Clock::time_point since;
    bool has_lost = false;  // one of its newcomers
  };

  void run();
  void step();
  int wait_ms() const;
  void accept_all();
  void listen_to(int descriptor);
  bool take_frame(int descriptor, Visitor& visitor, const JoinFrame& frame);
  bool take_application(int descriptor, Visitor& visitor, const JoinFrame& frame);
  bool take_invitation(const JoinFrame& frame);
  void drop(int descriptor);
  void count_waiting();

  void look_after_newcomers();
  void tell_newcomers(const Roster& roster);
  void look_at_sponsored(const Roster& roster);
  void end_sponsored(bool has_failed);
  void sponsor(const Roster& roster);

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
  std::optional<Sponsored> sponsored_;
  Clock::time_point sponsor_after_{}, tell_after_{};
  Clock::time_point accept_after_{};  // descriptors have run out
  Clock::duration pause_{};           // after a start that failed
  int refused_ = 0;                   // connections with a wrong secret

  // As a newcomer.
  std::vector<ListenerName> first_, to_ask_;  // those given; those to be asked yet, the next one last
  std::int32_t wanted_seat_ = -1;
  int sponsor_ = -1;  // descriptor
  JoinReader heard_;
  Clock::time_point ask_after_{}, heard_at_{};
  int rounds_unheard_ = 0;

  std::thread thread_;
};

}  // namespace ucft::detail

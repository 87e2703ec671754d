// Hosts as processes, in one process. It has the ProcessMember objects of all ranks and packets between hosts. The
// ranks of a host share memory, with the gift of each and the journal. Single ranks die between any two of their stores
// into shared memory and sends. Every survivor hears of a death at some later event, and sees what is stored in its
// host's memory at some later event, too. (host_world.hpp has the steps of a host's ranks among themselves; here a
// rank's gift is a word.)
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/among/process_member.hpp"
#include "simulator/kept_entry.hpp"
#include "simulator/world.hpp"

namespace ucft::detail::simulator {

struct HostsPlan {
  std::vector<Host> hosts;  // of each rank, ascending
  int window = 2;           // W
  int in_flight = 1;        // operations a rank posts before it waits for the oldest
  Optimism optimistic = false;
  bool slow_journal = false;       // an entry is there some time after it was appended
  std::uint64_t long_bytes = 1;    // from so many on only a rank that speaks computes values
  std::vector<Arguments> program;  // roots are ranks; f counts hosts
  bool ends = false;               // all leave after it
  bool uniform = false;            // a barrier follows each operation, as in Plan
  struct Other {
    Host host;
    std::size_t call;
    Arguments arguments;
  };
  std::vector<Other> mismatched{};  // what a host posts instead of the program's call; its size in words is the same
  int waits = 0;                    // times at which each rank says that its host waits, whenever they come
  std::vector<Leave> leaves{};
  std::vector<Crash> crashes;  // after_sends: steps, that is stores and sends
  Order order = Order::oldest_first;
  std::uint64_t seed = 1;
};
std::string describe(const HostsPlan& plan);

class HostsWorld {
 public:
  explicit HostsWorld(const HostsPlan& plan);
  ~HostsWorld();

  // Runs until nothing is pending. False if max_events did not suffice.
  bool run(std::int64_t max_events = 1000000);

  Rank ranks() const { return static_cast<Rank>(plan_.hosts.size()); }
  // Those that have left live, too.
  bool alive(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]->alive; }
  const Result& result(Rank rank, std::size_t call) const {
    return nodes_[static_cast<std::size_t>(rank)]->results[call];
  }
  // How many entries the list had that came with that result.
  std::uint32_t named(Rank rank, std::size_t call) const { return nodes_[static_cast<std::size_t>(rank)]->named[call]; }
  std::int64_t stores(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]->stores; }
  std::int64_t sends(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]->sends; }
  std::int64_t steps(Rank rank) const { return stores(rank) + sends(rank); }
  std::int64_t events() const { return events_; }
  std::vector<Rank> survivors() const;

  // The promises of docs/failure_model.md, with hosts as what fails. Empty if all hold, else the first that does not.
  std::string check() const;

 private:
  struct Entry {
    KeptEntry kept;
    bool stamped = false;
  };
  struct HostMemory {
    std::deque<Entry> journal;
    std::vector<std::vector<bool>> given;  // by call, by rank of the job
    std::vector<bool> left;                // by rank of the job
  };
  // One rank's view of its host's journal.
  class RankJournal : public Journal {
   public:
    RankJournal(HostsWorld& world, Rank rank) : world_(world), rank_(rank) {}
    void append(std::uint64_t position, const JournalEntry& entry) override { world_.append(rank_, position, entry); }
    bool may_append() const override { return world_.alive(rank_) && !world_.node(rank_).stamp_is_owed; }
    const JournalEntry* at(std::uint64_t position) override;

   private:
    HostsWorld& world_;
    Rank rank_;
  };
  class RankCaller : public ProcessMember::Caller {
   public:
    RankCaller(HostsWorld& world, Rank rank) : world_(world), rank_(rank) {}
    void on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) override {
      world_.complete(rank_, call, number, value);
    }
    void on_given_up(Rank rank) override { world_.given_up_.insert(rank); }

   private:
    HostsWorld& world_;
    Rank rank_;
  };
  struct Node {
    Node(HostsWorld& world, Rank rank);
    std::vector<std::unique_ptr<std::byte[]>> blocks;
    Buffers buffers;
    RankJournal journal;
    RankCaller caller;
    ProcessMember member;
    std::vector<Result> results;
    std::vector<std::uint32_t> named;
    std::size_t posted = 0, waited = 0;
    std::vector<bool> proved;  // ranks of its host, known to be dead
    std::int64_t stores = 0, sends = 0, dies_after = -1;
    bool alive = true, stamp_is_owed = false;
    bool has_left = false, is_gone = false, has_ended = false;
    JournalEntry read{};  // of a contribution in pieces
    ProcessContribution contribution{};
  };
  struct Event {
    enum class What : std::uint8_t { packet, failure, gone, look, stamp, turn, waiting };
    What what;
    Rank to;
    Rank about = no_rank;     // failure, gone; packet: its sender
    bool was_needed = false;  // gone
    std::uint32_t place = 0;
    Message message{};  // buffers are not used, the bytes are here
    std::vector<std::byte> value{}, list{};
  };

  static std::byte* allocate(void* node, std::size_t bytes);
  Node& node(Rank rank) { return *nodes_[static_cast<std::size_t>(rank)]; }
  Host host_of(Rank rank) const { return plan_.hosts[static_cast<std::size_t>(rank)]; }
  HostMemory& memory_of(Rank rank) { return memories_[static_cast<std::size_t>(host_of(rank))]; }
  template <class Use>
  void for_each_on(Host host, Use use) const {
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (host_of(rank) == host) use(rank);
  }
  void append(Rank rank, std::uint64_t position, const JournalEntry& entry);
  const JournalEntry* in_pieces(Rank rank, const JournalEntry& entry);
  void stamp_last(Rank rank);
  bool may_step(Rank rank, std::int64_t& counter);
  void tell_host(Rank rank);
  void kill(Rank rank);
  void pump(Rank rank);
  void post_what_can_be(Rank rank);
  const Leave* leave_of(Rank rank) const;
  std::size_t share_of(Rank rank) const;  // how much of the program it posts
  void leave_if_due(Rank rank);
  bool is_last_here(Rank rank) const;
  void go(Rank rank, bool is_needed);
  void give(Rank rank, std::size_t call);
  bool offer(Rank rank);
  bool is_final(Rank rank, std::size_t call);
  const Arguments& arguments_of(Host host, std::size_t call) const;
  bool is_mismatched(std::size_t call) const;
  bool say_waiting();
  std::string check_mismatched(Rank rank, std::size_t call) const;
  ProcessContribution contribution_of_host(Rank rank, std::size_t call, std::vector<std::byte>& value);
  void flush(Rank rank);
  void complete(Rank rank, OperationNumber call, OperationNumber number, std::span<const std::byte> value);
  Result read_result(Rank rank, std::size_t call, OperationNumber number, std::span<const std::byte> value);
  void deliver(const Event& event);
  bool is_sound(Host host) const;
  bool binds(Rank rank) const;
  std::size_t failed_hosts() const;
  Terms terms_of(std::size_t call) const;
  std::string check_result(const Terms& terms, Rank rank, std::size_t call, const Result*& reference) const;
  std::string check_uniform(std::size_t call, const Result& reference) const;
  std::string check_host(Rank rank, Rank first) const;

  HostsPlan plan_;
  std::vector<HostMemory> memories_;
  std::vector<std::vector<std::byte>> lent_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::set<Rank> given_up_;  // by the log of another host, before its reader had lost them
  std::deque<Event> pool_;
  std::mt19937_64 random_;
  std::int64_t events_ = 0;
  int stalls_ = 0;  // times at which nothing was pending, and a host that waits said so
};

struct HostsScope {
  std::vector<Order> orders = {Order::oldest_first, Order::newest_first, Order::failures_first, Order::failures_last};
  int seeds = 1;            // runs of Order::shuffled, for each point of each victim
  std::int64_t stride = 1;  // between the points of all victims but the last
};
struct HostsExploration {
  std::int64_t plans = 0, events = 0, violations = 0;
  std::string first_violation;
};
// Every plan in which exactly these ranks are to die: each at each of its steps, as many as it takes until it outlives
// the run. Adds to what was found.
void explore_hosts(const HostsPlan& base, const std::vector<Rank>& victims, const HostsScope& scope,
                   HostsExploration& found);
// The same of every set of so many ranks.
void explore_hosts_of(const HostsPlan& base, int victims, const HostsScope& scope, HostsExploration& found);
// Random ones, up to so many victims.
void walk_hosts(const HostsPlan& base, int max_victims, std::int64_t runs, std::uint64_t seed, HostsExploration& found);

}  // namespace ucft::detail::simulator

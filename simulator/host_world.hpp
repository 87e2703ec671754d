// A small world of ranks that share memory, in the host stage (collectives/on_host). Every access to that memory is a
// step. Between two steps any other rank may make its own, die, or hear of a death. Each rank posts a program, goes on
// with its operations, and at last closes its slab. Then it begins anew with the next use of the same memory. Chance
// decides which of these calls is next, if several are possible.
//
// A rank in the middle of a call is its state before the call and what its accesses have returned since. A step repeats
// the call with these and makes one access more. So the product's own functions are explored, unchanged.
//
// The reduced world leaves out orders that no rank can tell apart from others:
//
// - A look is *final* if it finds the same whenever it is made: at memory of the dead, at a death that this rank has
//   heard of, at its own memory, at V or P of an operation that it has not completed, once that is stamped. For the
//   last: a rank that stores there before it is through breaks a promise by that store (check_store), which ends the
//   way. Until then no rank stores there. A final look changes only what this rank has seen. No other rank looks at
//   that, no promise speaks of it, and its death forgets it. So in any way the look can be moved to where it became
//   possible, and, where the way has none, added there: memory, deaths and results are the same at each place of it. So
//   it is made at once, and is no step. Unless an operation is completed by it: that is checked then.
// - News of a death differ from later news only for a rank that asks in between. So they come when a rank is about to
//   ask.
//
// So each way of the full world has one here that passes through the same contents of memory, deaths and results, in
// the same order. And where no end can be reached there, none can be reached here: a rank that has made its final
// looks, or has not heard what it has not asked for yet, is where it could be there. No rank runs on for ever: calls
// end, and no rank begins one unasked.
//
// The world is a value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/on_host/host_lease.hpp"
#include "collectives/on_host/host_stage.hpp"
#include "simulator/promises.hpp"

namespace ucft::detail::simulator {

struct HostPlan {
  Rank ranks = 3;
  int window = 2;
  int banks = 4;   // more than the window
  int degree = 0;  // of the tree; 0: flat
  int patience = 0;
  std::vector<HostCall> program;  // of 64-bit sums: up to 1 element in a slab, up to 2 in an area. With a share: each
                                  // rank takes so many of the elements, in the order of ranks, the last ones none
  int areas = 0;                  // beside each slab
  bool has_chunks = true;  // data in areas are large: combined in chunks; else each combines them, or the tree does
  int uses = 1;            // of the memory, each with the whole program
  int max_deaths = 1;
  int max_leavers = 0;             // ranks that leave before they have posted all
  Rank differs = no_rank;          // this rank posts another operation than the others:
  bool differs_in_length = false;  // of the same signature
  Rank lacks = no_rank;            // this one has no memory
  bool trusts_suspicions = false;  // a rank may hear of the death of a live one: to see what goes wrong
  bool reduced = false;            // see above
  bool runs = false;               // what has a shortcut is posted and looked at in one (HostStage::run)
  OperationNumber places = 0;      // behind the areas, for what runs and is not in a slab (HostPlaces)
};

class HostWorld {
 public:
  explicit HostWorld(const HostPlan& plan);

  struct Event {
    enum class What : std::uint8_t { post, progress, close, reuse, go_on, death, news };
    What what;
    Rank rank;
    Rank other = no_rank;  // news: who is dead
  };
  // The events that may be next. A call that only looks, and sees nothing new, leads back to the same world.
  std::vector<Event> events() const;
  void happen(const Event& event);

  // All that the future depends on, as 128 bits of hash.
  struct Fingerprint {
    std::uint64_t a = 0, b = 0;
    bool operator==(const Fingerprint&) const = default;
  };
  Fingerprint fingerprint() const;
  // Only the part that is common to all: memory, the ranks that live, the results that were delivered. The reduced
  // world has the same ones as the full world.
  Fingerprint outside() const;

  bool is_over() const;  // every live rank has been through all uses
  int alive() const { return plan_().ranks - deaths_; }
  bool is_alive(Rank rank) const { return at(rank).is_alive; }
  // "" or the first promise that was broken.
  const std::string& violation() const { return violation_; }
  static std::string words(const Event& event);

 private:
  class Memory;
  // One of a rank's, to memory or to what it knows.
  struct Access {
    enum class What : std::uint8_t { none, load, lease, is_dead, store } what = What::none;
    Rank owner = no_rank;  // is_dead: who may be dead
    HostPlace place = 0;
  };
  // The state that a call changes, once it is over.
  struct State {
    HostStage stage;
    int use = 0;
    std::vector<OperationNumber> users;                          // of this rank's areas: the operations that used them
    std::map<OperationNumber, std::vector<HostWord>> delivered;  // of operations that are not complete
    std::uint32_t found = 0;                                     // whose slab: bits
  };
  struct Node {
    State state;
    bool is_alive = true;
    Event::What call = Event::What::go_on;  // none: go_on
    std::vector<HostWord> log{};            // of the call: what its accesses have returned
    std::uint32_t knows_dead = 0;           // bits
    Access next{};                          // of the call
    bool completes = false;                 // with which it completes an operation, though it is a final look
  };
  using Completion = std::pair<OperationNumber, HostResult>;
  static std::uint32_t bit(Rank rank) { return std::uint32_t{1} << rank; }
  Node& at(Rank rank) {
    std::shared_ptr<Node>& node = nodes_[static_cast<std::size_t>(rank)];
    if (node.use_count() > 1) node = std::make_shared<Node>(*node);
    return *node;
  }
  const Node& at(Rank rank) const { return *nodes_[static_cast<std::size_t>(rank)]; }
  State state_of(Rank rank, int use) const;
  static Share share_of(Rank rank, const HostCall& call);
  HostCall call_of(Rank rank, OperationNumber number) const;
  static HostWord given(Rank rank, int use, OperationNumber number, std::uint64_t element);
  static std::vector<HostWord> given(Rank rank, int use, OperationNumber number, const HostCall& call);
  void step(Rank rank, int steps);
  void run(Rank rank, State& state, Memory& memory, std::vector<Completion>& completed) const;
  void add_calls(Rank rank, std::vector<Event>& all) const;
  void add_news(Rank rank, std::vector<Event>& all) const;
  std::uint32_t asked_by(Rank rank) const;
  bool is_final(Rank rank, const Access& access) const;
  void make_final_looks();
  template <class Use>
  void describe_outside(Use& word) const;
  void post(Rank rank, State& state, Memory& memory, std::vector<Completion>& completed) const;
  void begin_anew(Rank rank, State& state, Memory& memory) const;
  HostPlace area_words() const;
  HostPlace first_place() const { return layout_.words() + static_cast<HostPlace>(plan_().areas) * area_words(); }
  HostPlace words() const;
  HostWord& opened(Rank rank) { return opened_[static_cast<std::size_t>(rank)]; }
  bool has_left(Rank rank, int use) const { return left_[static_cast<std::size_t>(use * plan_().ranks + rank)] != 0; }
  static void leave(const State& state, Memory& memory);
  HostWord& lease(Rank rank, int use) { return leases_[static_cast<std::size_t>(use * plan_().ranks + rank)]; }
  HostLease lease_of(Rank rank, int use) const {
    return static_cast<HostLease>(leases_[static_cast<std::size_t>(use * plan_().ranks + rank)]);
  }
  bool reads(Rank rank, int use) const;
  HostWord& word(Rank owner, HostPlace place) { return words_[index(owner, place)]; }
  const HostWord& word(Rank owner, HostPlace place) const { return words_[index(owner, place)]; }
  std::size_t index(Rank owner, HostPlace place) const { return static_cast<std::size_t>(owner) * words() + place; }
  HostPlace cell_of(HostPlace place) const;
  void check_store(Rank rank, HostPlace place);
  void check(Rank rank, OperationNumber number, const HostResult& result, const std::vector<HostWord>& data);
  void check_mixture(Rank rank, OperationNumber number, const HostResult& result);
  Terms terms_of(int use, OperationNumber number) const;
  bool has_stamped(Rank rank, int use, OperationNumber number) const;
  bool is_absent(Rank rank, int use, OperationNumber number) const;
  void complain(Rank rank, OperationNumber number, const std::string& what);

  std::shared_ptr<const HostPlan> shared_plan_;
  const HostPlan& plan_() const { return *shared_plan_; }
  HostLayout layout_;
  std::shared_ptr<const HostTree> tree_;
  std::vector<HostWord> words_;   // of each rank: slab, areas
  std::vector<HostWord> leases_;  // by use and rank
  std::vector<HostWord> opened_;  // by rank: uses
  std::vector<HostWord> left_;    // by use and rank: 1 + operations that it has posted, all of them if it is not early
  std::vector<std::shared_ptr<Node>> nodes_;       // shared with other worlds until they change
  std::vector<std::optional<Result>> deliveries_;  // by use and operation: of the first rank to have it
  int deaths_ = 0, leavers_ = 0;
  std::string violation_;
};

}  // namespace ucft::detail::simulator

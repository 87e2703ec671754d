// A small world of ranks that share memory, in the host stage (collectives/host): every access to that memory is a step, between
// which any other rank may make its own, die, or hear of a death. Each rank posts a program, goes on with what it has posted, at
// last closes its slab, and then begins anew with the next use of the same memory, by chance whichever of these it may.
//
// A rank in the middle of a call is its state before the call and what its accesses have returned since: a step repeats the call
// with these and makes one access more. So what is explored are the product's own functions, unchanged.
//
// The world is a value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/host/host_lease.hpp"
#include "collectives/host/host_stage.hpp"

namespace ucft::detail::simulator {

struct HostPlan {
  Rank ranks = 3;
  int window = 2;
  int banks = 4;   // more than the window
  int degree = 0;  // of the tree; 0: flat
  int patience = 0;
  std::vector<HostCall> program;  // of 64-bit sums: up to 1 element in a slab, up to 2 in an area
  int areas = 0;                  // beside each slab
  bool has_chunks = true;  // data in areas are large: combined in chunks; else each combines them, or the tree does
  int uses =
      1;  // of the memory, each with the whole program, whose last operation must be a barrier if there are several
  int max_deaths = 1;
  Rank differs = no_rank;          // this rank posts another operation than the others:
  bool differs_in_length = false;  // of the same signature
  Rank lacks = no_rank;            // this one has no memory
  bool trusts_suspicions = false;  // somebody may hear of the death of one who lives: to see what goes wrong
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
  // What may happen next. A call that only looks, and sees nothing new, leads back to the same world.
  std::vector<Event> events() const;
  void happen(const Event& event);

  // All that the future depends on, as 128 bits of hash.
  struct Fingerprint {
    std::uint64_t a = 0, b = 0;
    bool operator==(const Fingerprint&) const = default;
  };
  Fingerprint fingerprint() const;

  bool is_over() const;  // every live rank has been through all uses
  int alive() const { return plan_.ranks - deaths_; }
  bool is_alive(Rank rank) const { return at(rank).is_alive; }
  // "" or the first promise that was broken.
  const std::string& violation() const { return violation_; }
  static std::string words(const Event& event);

 private:
  class Memory;
  // What a call changes, once it is over.
  struct State {
    HostStage stage;
    int use = 0;
    std::vector<OperationNumber> users;                          // of this rank's areas: the operations that used them
    std::map<OperationNumber, std::vector<HostWord>> delivered;  // of operations that are not complete
    std::vector<bool> found;                                     // whose slab
  };
  struct Node {
    State state;
    bool is_alive = true;
    Event::What call = Event::What::go_on;  // none: go_on
    std::vector<HostWord> log;              // of the call: what its accesses have returned
    std::vector<bool> knows_dead;
  };
  // What the first to have it was given, and all others must be.
  struct Delivery {
    bool is_known = false;
    HostResult result;
    std::vector<HostWord> data;
  };

  Node& at(Rank rank) { return nodes_[static_cast<std::size_t>(rank)]; }
  const Node& at(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)]; }
  State state_of(Rank rank, int use) const;
  HostCall call_of(Rank rank, OperationNumber number) const;
  static HostWord given(Rank rank, int use, OperationNumber number, std::uint64_t element);
  static std::vector<HostWord> given(Rank rank, int use, OperationNumber number, const HostCall& call);
  void step(Rank rank);
  void run(Rank rank, State& state, Memory& memory, std::vector<OperationNumber>& completed) const;
  void post(Rank rank, State& state, Memory& memory) const;
  void begin_anew(Rank rank, State& state, Memory& memory) const;
  HostPlace area_words() const;
  HostPlace words() const { return layout_.words() + static_cast<HostPlace>(plan_.areas) * area_words(); }
  HostWord& lease(Rank rank, int use) { return leases_[static_cast<std::size_t>(use * plan_.ranks + rank)]; }
  HostLease lease_of(Rank rank, int use) const {
    return static_cast<HostLease>(leases_[static_cast<std::size_t>(use * plan_.ranks + rank)]);
  }
  bool reads(Rank rank, int use) const;
  HostWord& word(Rank owner, HostPlace place) { return words_[index(owner, place)]; }
  const HostWord& word(Rank owner, HostPlace place) const { return words_[index(owner, place)]; }
  std::size_t index(Rank owner, HostPlace place) const { return static_cast<std::size_t>(owner) * words() + place; }
  void check_reuse(Rank rank);
  void check(Rank rank, OperationNumber number, const HostResult& result, const std::vector<HostWord>& data);
  void check_mixture(Rank rank, OperationNumber number, const HostResult& result);
  void check_sum(Rank rank, OperationNumber number, const HostResult& result, const std::vector<HostWord>& data);
  std::vector<HostWord> expected_data(int use, OperationNumber number) const;
  bool has_stamped(Rank rank, int use, OperationNumber number) const;
  void complain(Rank rank, OperationNumber number, const std::string& what);

  HostPlan plan_;
  HostLayout layout_;
  std::shared_ptr<const HostTree> tree_;
  std::vector<HostWord> words_;   // of each rank: slab, areas
  std::vector<HostWord> leases_;  // by use and rank
  std::vector<Node> nodes_;
  std::vector<Delivery> deliveries_;  // by use and operation
  int deaths_ = 0;
  std::string violation_;
};

}  // namespace ucft::detail::simulator

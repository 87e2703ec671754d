// The operations of a communicator over several hosts, in two levels. The ranks of a host combine what they have in the
// memory that they share, and the host is one process among hosts (collectives/among/). A host with a live rank has not
// failed.
//
//   post -> on this host's communicator: an allreduce, a broadcast .. of its ranks alone   -> what the host gives
//        -> the speaker writes it into the host's journal, and exchanges packets with other hosts' speakers
//        -> all ranks read the journal, and have the result when their replica of the host has
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/among/host_member.hpp"
#include "ucx_layer/runtime/host_journal.hpp"
#include "ucx_layer/runtime/patience.hpp"
#include "ucx_layer/runtime/published_part.hpp"
#include "ucx_layer/runtime/request.hpp"
#include "ucx_layer/runtime/room.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

class Communicator;
class Context;

class TwoLevelOperations : private HostMember::Caller {
 public:
  // Whether these ranks can: of several hosts, some with several, and all of a host share memory. The same on all.
  static bool fits(const std::vector<std::int32_t>& context_ranks, const Context& context);

  TwoLevelOperations(Communicator& communicator, Context& context);
  ~TwoLevelOperations() override;

  // See Communicator.
  ucft_status_t post(Request& request);
  void leave();
  bool is_through();
  bool has_pending() const { return pending_ > 0; }
  Host hosts() const { return places_.hosts.back() + 1; }
  std::vector<Host> hosts_by_rank() const;
  OperationNumber posted() const { return calls_; }
  bool accepts() const { return member_.held() < most_held; }
  void on_message(const WireHeader& header, Message message);
  void on_failure(Rank rank);
  void on_left(Rank rank, bool was_needed);
  bool on_turn();  // true if anything was done
  // Else it wants one now and then, for words that the ranks of this host may have written.
  bool wants_turn() const {
    return !is_over_ &&
           (has_left_ || !parts_.empty() || !spreading_.empty() || member_.held() > 0 || member_.wants_turn());
  }
  bool listens() const { return member_.speaks(); }  // to other hosts
  void note_awaited();
  void ask_awaited(Patience::Time now);
  const PublishedPart& published() const { return *published_; }
  void exclude_self(ucft_status_t why);
  std::vector<Communicator*> parts() const;  // its communicator on this host
  bool has_slab() const { return journal_.has_slab(); }
  // Gives back all that other ranks of this host don't need.
  void retire();
  bool end() { return journal_.end(); }  // no rank of this host reads this one's journal any more

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t most_held = 4096;
  // A call's part on this host.
  struct Part {
    explicit Part(Buffers& buffers) : buffers(buffers), give(buffers), value(buffers) {}
    ~Part();
    Buffers& buffers;
    Request request;  // on local_; idle: there is none
    Request* caller = nullptr;
    bool is_done = false, is_complete = false;
    Room give, value;
    ResultInPlace in_place;  // of request
    HostContribution contribution;
  };
  struct Places {                   // communicator ranks, sorted by host
    std::vector<Host> hosts;        // by place
    std::vector<Rank> rank_at;      // by place
    std::vector<Rank> place_of;     // by rank
    Rank first_here = 0, here = 0;  // places of this host's ranks
  };
  static Places places_of(const Communicator& communicator, const Context& context);
  Host host_of(Rank rank) const {
    return places_.hosts[static_cast<std::size_t>(places_.place_of[static_cast<std::size_t>(rank)])];
  }
  Rank local_rank_of(Rank rank) const { return places_.place_of[static_cast<std::size_t>(rank)] - places_.first_here; }
  bool is_here(Rank rank) const { return host_of(rank) == host_of(me_); }
  std::vector<std::int32_t> ranks_here() const;
  Communicator* make_local();

  ucft_status_t post(const Arguments& arguments, Request* caller);
  bool begin(Part& part, const Arguments& arguments);
  bool has_memory_for(const Arguments& arguments) const;
  bool goes_in_pieces(const Arguments& arguments) const;
  void begin_broadcast(Part& part, const Arguments& arguments);
  void begin_blocks(Part& part);
  void finish_local(Part& part);
  void gather_blocks(Part& part);
  const HostContribution* contribution_of(OperationNumber call) const;
  bool advance();
  void offer();
  void flush();
  void on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) override;
  void complete(Request& request, const Part& part, OperationNumber number, std::span<const std::byte> value);
  void finish_spread();
  bool is_last_here();
  void go();

  Communicator& communicator_;
  Context& context_;
  const Rank me_;
  const Places places_;
  Communicator* local_;  // null: no other rank is here
  HostJournal journal_;
  HostMember member_;
  std::optional<PublishedPart> published_;  // until retire()
  std::deque<std::unique_ptr<Part>> parts_;
  OperationNumber first_part_ = 0, calls_ = 0;
  std::vector<Request*> spreading_;  // they have their results, and wait for their turns
  int pending_ = 0;
  bool has_left_ = false, is_over_ = false;
  Clock::time_point left_at_{};
  Patience patience_;
};

}  // namespace ucft::detail

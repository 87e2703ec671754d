// The operations of a communicator over processes that send each other messages. A process is a host, whose ranks
// combine what they have in the memory that they share; or it is a rank alone. A host with a live rank has not failed.
//
//   post -> local_part.hpp: what the ranks here give together -> the contribution of their process
//        -> ProcessMember: the rank that speaks writes it into the journal, and exchanges packets with other processes
//        -> all ranks here read the journal, and have the result when their replica of the process has
//
// Hosts are the processes where ranks of a host share memory and can prove deaths, and some host has several. A rank
// alone on its host has no journal in shared memory, since no rank could take over.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/among/process_member.hpp"
#include "ucx_layer/runtime/engines/engine.hpp"
#include "ucx_layer/runtime/engines/host_journal.hpp"
#include "ucx_layer/runtime/engines/local_part.hpp"

namespace ucft::detail {

class Communicator;
class Context;

class ProcessEngine : public Engine, private ProcessMember::Caller {
 public:
  ProcessEngine(Communicator& communicator, Context& context);
  ~ProcessEngine() override;

  ucft_status_t post(Request& request) override;
  bool has_pending() const override { return pending_ > 0; }
  OperationNumber posted() const override { return calls_; }
  void exclude_self(ucft_status_t why) override;

  bool accepts(const WireHeader& header) const override;
  void on_message(const WireHeader& header, const Message& message) override;
  void on_death(Rank rank) override;
  void on_failure(Rank rank) override;
  void on_left(Rank rank, bool was_needed) override;
  void on_leaves(Rank rank, OperationNumber from, bool is_gone) override;
  void on_let_go(Rank rank) override;
  void note_left(Rank rank) override;
  bool on_turn() override;
  bool wants_turn() const override;
  bool listens() const override { return member_.speaks(); }

  void note_awaited() override;
  void ask_awaited(Patience::Time now) override;
  const PublishedPart* published() const override { return &*published_; }
  std::int64_t heard_of(Rank rank) const override;

  OperationNumber leaves_from() const override { return window().next(); }
  bool has_said_leave() const override { return !places_.are_ranks() || window().has_left(); }
  void leave(OperationNumber gossip_posted) override;
  bool is_through() override;
  void retire() override;
  bool end() override;

  bool has_slab() const override { return log_ == nullptr || log_->has_slab(); }
  bool shares_memory() const override { return log_ != nullptr; }
  std::vector<Rank> hosts_by_rank() const override;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t most_held = 4096;
  static Places places_of(const Communicator& communicator, const Context& context);
  static ProcessMember::Place place_in(const Places& places, Rank me, Optimism optimism,
                                       const Communicator& communicator, const Context& context);
  std::unique_ptr<Journal> make_journal();
  std::vector<std::int32_t> ranks_here() const;
  const OperationWindow& window() const { return member_.process().window(); }

  const ProcessContribution* contribution_of(OperationNumber call) const;
  bool advance();
  void follow();
  void offer();
  void flush();
  void release(const Message& message);
  void note_heard(Rank from, OperationNumber operation);
  void on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) override;
  void on_given_up(Rank rank) override;
  void complete(Request& request, const LocalPart& part, OperationNumber number, std::span<const std::byte> value);
  struct Needed {
    Request* request;
    OperationNumber number;  // of its operation among processes
    Slice value;             // its result, one reference, for memory that peers may be reading
  };
  void take_streams(Request& request, const Operation& operation, std::span<const std::byte> value) const;
  void take_share_of_root(Request& request, const Operation& operation, std::span<const std::byte> value) const;
  Rank first_rank_of(Host process) const;
  bool is_read(BufferId memory) const;
  bool is_needed(const Needed& needed) const;
  void give_back_needed();
  void give_back(Request& request);
  std::unique_ptr<LocalPart> make_seal(Request& request);
  void begin_seal();
  void hand_back(Request& request);
  bool may_offer(OperationNumber call) const;
  void go();

  Communicator& communicator_;
  Context& context_;
  const Rank me_;
  const Places places_;
  const Optimism optimism_;              // of the tuning table
  std::unique_ptr<HostEngine> on_host_;  // null, as log_: no other rank is here
  HostJournal* log_ = nullptr;           // journal_, in memory that the ranks here share
  const std::unique_ptr<Journal> journal_;
  ProcessMember member_;
  std::optional<PublishedPart> published_;  // until retire()
  std::deque<std::unique_ptr<LocalPart>> parts_;
  std::unique_ptr<LocalPart> next_seal_;  // behind them: there is no room for it yet
  OperationNumber first_part_ = 0, calls_ = 0;
  std::vector<Needed> needed_;  // they have their results; others need their memory, or their turns
  std::vector<std::atomic<OperationNumber>> heard_of_;  // by rank, where each is a process
  int pending_ = 0;
  bool has_left_ = false, has_told_ = false, is_over_ = false, has_ended_on_host_ = false;
  Clock::time_point left_at_{};
  Patience patience_;
};

}  // namespace ucft::detail

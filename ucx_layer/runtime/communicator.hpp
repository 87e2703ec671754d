// A communicator: its ranks, gossip, and its operations, by one of two engines. Where all ranks share memory and deaths
// can be proved, operations are read in that memory (HostEngine). Otherwise processes send each other messages
// (ProcessEngine). The choice depends on facts that all ranks know since start-up, so it is the same on all.
//
// Threads: one at a time, the one that is inside the context.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ucx_layer/observer/job_view.hpp"
#include "ucx_layer/runtime/engines/host_engine.hpp"
#include "ucx_layer/runtime/gossip_driver.hpp"
#include "ucx_layer/runtime/last_two.hpp"
#include "ucx_layer/runtime/point_to_point_driver.hpp"
#include "ucx_layer/runtime/quorum_driver.hpp"
#include "ucx_layer/runtime/request.hpp"

namespace ucft::detail {

class Communicator {
 public:
  // absent: ranks of it that take part in nothing, as all that make it have agreed; they count in no f.
  Communicator(Context& context, std::uint32_t id, std::vector<std::int32_t> ranks, std::vector<Rank> absent = {});
  ~Communicator();

  std::uint32_t id() const { return id_; }
  std::int32_t rank() const { return me_; }
  std::int32_t size() const { return static_cast<std::int32_t>(ranks_.size()); }
  std::int32_t context_rank(std::int32_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  std::int32_t rank_of(std::int32_t context_rank) const;  // -1: not in here
  const std::vector<std::int32_t>& ranks() const { return ranks_; }
  bool is_absent(Rank rank) const;  // or has been from the start of the job
  Context& context() const { return context_; }
  // Its ranks that have come with it (Epochs), ascending.
  const std::vector<Rank>& newcomers() const { return newcomers_; }
  void set_newcomers(std::vector<Rank> newcomers) { newcomers_ = std::move(newcomers); }
  const BroadcastShape& fastest_shape(std::uint64_t bytes);  // by the cost model
  // Whether gossip is over earlier than the fastest tree, by the cost model (collectives/models/gossip_model.hpp).
  bool prefers_gossip(std::uint64_t bytes);
  // By gossip, for as long as given (0: by the cost model); the correction and its distance are in arguments.
  void set_gossip(std::int64_t time_ns, Arguments& arguments);

  // UCFT_OK, UCFT_ERR_BUSY; UCFT_ERR_EXCLUDED or UCFT_ERR_PARTITION. Where memory lacks the operation goes on, and ends
  // with UCFT_ERR_NO_MEMORY on all.
  ucft_status_t post(Request& request);
  // The short way of one that has a shortcut. waits: the caller will do nothing else until it is complete.
  HostStage::Ran run(Request& request, bool waits) { return host_->run(request, waits); }
  // Once, before it is posted for the first time.
  void plan(Request& request) const { engine_->plan(request); }
  // Of the blocking calls, of which there is one at a time. The last two are kept, as programs go from one to another
  // and back.
  LastTwo<Request>& blocking() { return blocking_; }
  // From which of its operations on a rank posts nothing: ordinary ones, and gossip.
  struct Left {
    OperationNumber from = 0, gossip_from = 0;
  };
  // This rank posts nothing any more; nothing is pending. It answers until is_through().
  void leave();
  // Of an agreement: that rank has left its caller's, and takes part in nothing here that this rank has yet to finish.
  void note_left(Rank rank) { engine_->note_left(rank); }
  bool has_left() const { return has_left_; }
  Left left() const { return left_; }
  bool is_through() { return engine_->is_through(); }  // no rank needs this one here any more, as far as messages go
  // It is through, or this rank is out. Only its memory stays, until end().
  void retire() { engine_->retire(); }
  // No rank of this host reads the memory of this one any more.
  bool end() { return engine_->end(); }
  // A rank has said so. is_gone: it doesn't answer any more, either.
  // letters: that it has sent to this rank; the word may have overtaken some.
  void on_leaves(std::int32_t context_rank, const Left& left, bool is_gone, std::uint32_t letters);
  // Of sends and receives, or of a quorum: one is sent now.
  void note_letter_to(Rank rank) { ++letters_of(rank).sent; }
  void on_let_go(std::int32_t context_rank);
  // A rank that this one has no connection with does not say by itself that it has left.
  void ask_whether_left(Rank rank);
  void answer_whether_left(std::int32_t context_rank);
  void say_leaves(bool is_gone);
  bool has_pending() const {  // of the caller's
    return engine_->has_pending() || (gossip_ != nullptr && gossip_->active() > 0) || awaits_letters() ||
           (quorum_ != nullptr && quorum_->has_pending());
  }
  // On a host: whom a pending request waits for.
  std::vector<Rank> awaited(const Request& request) { return host_->awaited(request); }
  // The job as it is seen from here, with what is known of this communicator's ranks elsewhere. Any thread.
  JobView view() const;
  void note_awaited() { engine_->note_awaited(); }
  // Asks those that its oldest operation has awaited for long whether they have left, or posted something else.
  void ask_awaited(Patience::Time now) {
    engine_->ask_awaited(now);
    if (awaits_letters()) point_to_point_->ask_awaited(now);
    if (quorum_ != nullptr) quorum_->ask_awaited(now);
  }
  // By the caller.
  OperationNumber posted() const { return engine_->posted(); }
  bool is_on_host() const { return host_ != nullptr; }
  bool shares_memory() const { return engine_->shares_memory(); }  // some of its ranks do
  bool has_slab() const { return engine_->has_slab(); }
  GossipDriver& gossip();  // made when first needed
  const std::vector<Rank>& gossip_left() const { return gossip_left_; }
  // Where one of a host gossips for all of it: by rank, the number of its host; empty: each for itself.
  std::span<const Rank> gossip_hosts() const { return gossip_hosts_; }
  // How many gossip then.
  std::int32_t gossiping() const { return gossip_hosts_.empty() ? size() : processes(); }
  bool has_gossip() const { return gossip_ != nullptr; }
  PointToPointDriver& point_to_point();  // made when first needed
  QuorumDriver& quorum();                // the same
  // The letters that had come before this rank made it are delivered. Until then no rank is gone for these drivers: it
  // had sent them before.
  void end_opening();
  bool awaits_quorum() const { return quorum_ != nullptr && quorum_->wants_turn(); }
  bool awaits_letters() const { return point_to_point_ != nullptr && point_to_point_->has_pending(); }
  // A message of a gossip operation.
  void send_aside(const GossipMessage& message, BufferId value);

  // From the context.
  // False: too early, wait.
  bool accepts(const WireHeader& header) const {
    if (header.is_of_gossip() || header.is_of_letter()) return true;
    return engine_->accepts(header);
  }
  void on_message(const WireHeader& header, const Message& message);
  void on_death(std::int32_t context_rank);
  void on_failure(std::int32_t context_rank);
  void on_left(std::int32_t context_rank, bool was_needed);  // the job
  bool on_turn();  // true if anything was done that a waiting caller should not sleep over
  bool wants_turn() const { return has_more_ || engine_->wants_turn() || awaits_letters() || awaits_quorum(); }
  // Whether this rank answers messages here, or waits for some. Else it waits for words in its host's memory.
  bool listens() const {
    return engine_->listens() || gossip_ != nullptr || has_left_ ||
           (host_ == nullptr && (awaits_letters() || quorum_ != nullptr));
  }
  void exclude_self(ucft_status_t why);  // completes everything with that

 private:
  std::unique_ptr<Engine> make_engine();
  std::int32_t processes() const { return processes_; }
  std::uint64_t shape_bytes_ = UINT64_MAX;  // that shape_ is the fastest for
  BroadcastShape shape_;
  std::map<std::uint64_t, bool> prefers_gossip_;  // by bytes
  struct GossipChoice {                           // the last that was made: of what, and what came of it
    std::int64_t time_ns = -1;
    std::uint64_t bytes = 0;
    std::int32_t distance = 0, f = 0;
    Correction correction = Correction::none;
    bool operator==(const GossipChoice&) const = default;
  } gossip_choice_;
  GossipSetting gossip_setting_;
  std::int32_t gossip_distance_ = 0;

  std::vector<Rank> absent_;
  Context& context_;
  std::uint32_t id_;
  std::vector<std::int32_t> ranks_;    // communicator rank -> context rank
  std::vector<std::int32_t> inverse_;  // empty: identity
  std::int32_t me_ = 0;
  HostEngine* host_ = nullptr;  // engine_, if it is that
  std::unique_ptr<Engine> engine_;
  std::int32_t processes_;
  std::unique_ptr<GossipDriver> gossip_;
  std::unique_ptr<PointToPointDriver> point_to_point_;
  std::unique_ptr<QuorumDriver> quorum_;
  std::vector<Rank> newcomers_;
  std::vector<Rank> leavers_;  // those that have said so, or whose memory does
  struct Letters {
    std::uint32_t sent = 0, taken = 0;
    std::uint32_t last = UINT32_MAX;  // of a rank that leaves: so many in all
  };
  std::vector<Letters> letters_;  // by rank; none as long as there are none
  std::uint32_t letter_turns_ = 0;
  std::vector<Rank> gossip_hosts_;
  LastTwo<Request> blocking_;
  bool has_more_ = false;  // it may have something to do
  bool has_left_ = false, is_opening_ = true;
  Left left_;
  struct GossipLeaver {
    Rank rank;
    OperationNumber from;
  };
  void note_gossip_leaver(const GossipLeaver& leaver);
  void note_gossip_leavers();
  std::uint32_t letters_to(Rank rank) const {
    return letters_.empty() ? 0 : letters_[static_cast<std::size_t>(rank)].sent;
  }
  Letters& letters_of(Rank rank) {
    letters_.resize(static_cast<std::size_t>(size()));
    return letters_[static_cast<std::size_t>(rank)];
  }
  void note_gone(Rank rank, bool has_left);
  void note_all_gone();
  bool has_said_that_it_leaves(Rank rank) const { return std::ranges::find(leavers_, rank) != leavers_.end(); }
  void note_left_on_host();
  std::vector<GossipLeaver> gossip_leavers_;  // that may take part in some gossip operation yet
  std::vector<Rank> gossip_left_;             // that take part in none any more
  std::uint32_t gossip_turns_ = 0;
};

// As it travels.
inline ControlWord word_of(const Communicator::Left& left, bool is_gone, std::uint32_t letters = 0) {
  return {left.from, static_cast<std::int32_t>(left.gossip_from), is_gone, letters};
}

}  // namespace ucft::detail

// The communicators of a context, by their ids. Finds the one that a message is for. Keeps messages that come before
// their communicator exists here, and answers them when it no longer does.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "timeout_detector/departures.hpp"
#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

class Communicators {
 public:
  // The context's transport, and departures, are needed from the first communicator on.
  Communicators(Context& context, const Departures& departures) : context_(context), departures_(departures) {}

  Communicator* create_for_all(std::int32_t ranks);
  // ranks: context ranks in the order of the new communicator. Every member of the parent calls note_id().
  Communicator* create(std::uint32_t id, std::vector<std::int32_t> ranks, std::vector<Rank> absent = {});
  std::uint32_t next_id() const { return next_id_; }
  void note_id(std::uint32_t id) { next_id_ = std::max(next_id_, id + 1); }
  // This rank posts nothing there any more. The communicator stays as long as some rank needs this one there. No call
  // waits for that.
  void destroy(Communicator* communicator);
  // True: no rank needs this one any more in those that are destroyed, as far as messages go.
  bool are_left() const { return left_.empty(); }
  void leave_all();  // the same of all, with the job
  bool has_ended() const { return has_ended_; }
  void end() { has_ended_ = true; }  // nothing is stored or sent any more
  bool have_gossip() const { return gossiping_ > 0; }
  bool await_letters() const { return awaiting_ > 0; }  // sends or receives are pending
  void note_pending(int more) { awaiting_ += more; }
  void note_gossip(Communicator& communicator);    // it has some now
  void note_messages(Communicator& communicator);  // the same of sends and receives
  // Those that may want turns: all but those whose ranks read each other's memory and don't gossip.
  const std::vector<Communicator*>& turning() const { return turning_; }
  // One of them after the other, even one that wants no turn: words that ranks of its host have written may concern it.
  // null: there are none.
  Communicator* next_in_turn();
  void clear();
  std::vector<Communicator*> all() const;
  std::uint64_t posted() const;                 // operations by the caller, on all that there are and were
  std::uint64_t made() const { return made_; }  // communicators

  // Messages: see Sink.
  bool accepts(const WireHeader& header);
  void deliver(const WireHeader& header, const Message& message, int peer);
  void on_control(const WireHeader& header);
  // A rank of this host stores nothing any more (DeparturesDriver::is_final).
  void on_death(std::int32_t rank);
  void on_failure(std::int32_t rank);
  // It has left the job. was_needed: somebody may not have finished all that it has posted.
  void on_left(std::int32_t rank, bool was_needed);
  void exclude_self(ucft_status_t why);
  // Destroyed ones whose end may have come.
  void sweep() {
    if (!left_.empty() && !has_ended_) sweep_left();
  }
  void note_stale() { ++stale_; }

 private:
  struct Early {  // for a communicator that this rank has yet to create
    WireHeader header;
    Message message;
    int peer;
  };
  static constexpr std::size_t early_limit = 4096, gone_limit = 1024;
  struct Gone {  // a communicator that this rank is through with
    std::uint32_t id;
    std::vector<std::int32_t> ranks;
    Communicator::Left left;
  };

  Communicator* find(std::uint32_t id) {
    return last_found_ != nullptr && last_found_->id() == id ? last_found_ : find_other(id);
  }
  Communicator* find_other(std::uint32_t id);
  bool is_future(std::uint32_t id) const;
  void answer_late(const WireHeader& header, int peer);
  void answer_gone(std::uint32_t id, std::int32_t rank);
  bool has_right_sender(const WireHeader& header, const Communicator& communicator, int peer);
  void release(const Early& early);
  void say_opened();
  void sweep_left();
  void retire(std::unique_ptr<Communicator> communicator);
  void end_closed();
  Transport& transport();

  Context& context_;
  const Departures& departures_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::deque<Gone> gone_;  // the latest: whom a late message came from
  std::vector<Communicator*> turning_;
  std::size_t in_turn_ = 0;
  Communicator* last_found_ = nullptr;
  std::uint64_t made_ = 0, posted_before_ = 0;  // on those that are gone
  std::vector<Early> early_;
  std::vector<WireHeader> early_words_;  // of ranks that have left one that this rank has yet to create
  std::uint32_t next_id_ = 0, made_for_all_ = 0;
  std::uint64_t stale_ = 0;
  int gossiping_ = 0, awaiting_ = 0;
  bool has_ended_ = false;
  // Destroyed: others may still send messages there, or read what this rank has left in memory.
  std::vector<std::unique_ptr<Communicator>> left_;
  std::deque<std::unique_ptr<Communicator>> closed_;
};

}  // namespace ucft::detail

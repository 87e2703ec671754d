// The contexts of a process in one job, one after the other: its epochs. An epoch has fixed members. A new one begins
// when newcomers take the seats of ranks that have failed. Survivors and newcomers start its context together, in the
// background, while the program goes on in the one before (Agent, EpochStart). It counts from the moment on at which
// all survivors agree that it does (renew), and it is dropped if they don't.
//
// Which start begins, which epoch is voted for and which are left is decided by KnownEpochs. Here are the contexts.
//
// Source: docs/algorithms.md, "Newcomers".
//
// Invariants
//  - A rank is in one epoch for its program: the latest that survivors have agreed on. Communicators of earlier ones go
//    on as they were, without newcomers.
//  - Nothing of a context is ever reset: no message of a dead rank can be taken for its successor's.
//  - A survivor votes for an epoch only if its own context of it is there. The vote's result is uniform. So if one
//    survivor goes on in an epoch, all that live do.
//  - A newcomer is in an epoch once all others of it have said so, or have failed. It waits for that in a barrier
//    there.
//
// Threads: the caller's, one at a time, but for what says otherwise; Agent's and EpochStart's, behind a mutex.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/renewal/known_epochs.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/membership/agent.hpp"
#include "ucx_layer/membership/epoch_start.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

class Epochs final : public Agent::Owner {
 public:
  using Clock = std::chrono::steady_clock;

  // Whether the environment says that newcomers may come (UCFT_JOINABLE), or that this process is one (UCFT_JOIN).
  static bool is_wanted();
  static bool is_newcomer();

  Epochs() = default;
  ~Epochs();
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  // Reads the environment and listens. On an error `error` names the culprit.
  ucft_status_t open(const ucft_context_params_t* params, std::string& error);
  const ucft_context_params_t& params() const { return params_; }  // with a callback of this class
  const ListenerName& listener() const { return agent_->name(); }
  // The first epoch, which has started in the usual way; or, of a newcomer, one that has yet to be.
  ucft_status_t begin(std::unique_ptr<Context> first, std::string& error);
  // Leaves the job, in all epochs. No caller is inside of any.
  void end();

  Context& current() { return *epochs_.back().context; }
  // The one that was current before, until its memory is given back.
  bool free_memory(void* memory);
  // The caller has closed its last communicator in that context.
  void on_unused(Context& context);

  // Newcomers may have new seats, up to so many in all, in epochs that begin from now on. 0: none.
  void grow_to(std::int32_t most_seats);
  // This rank's words for the vote. The epoch that they name stays until after_vote(). newcomers: as in
  // ucft_renew_options_t.
  KnownEpochs::Ballot look(std::int32_t newcomers, bool time_is_over);
  // The survivors have agreed on it: its communicator for the caller. Else: null, and nothing has changed.
  Communicator* adopt(std::uint32_t cookie);
  void after_vote();
  // The others have agreed on the epoch that this rank has voted for, and have given it up there.
  bool is_left_behind();

  // A newcomer's way in: its communicator, once it is in an epoch. Null: the time is over, or it can't join, and
  // `error` says why.
  Communicator* join(Clock::time_point limit, ucft_status_t& status, std::string& error);
  bool has_joined() const { return known_.is_member(); }

  // Newcomers in an epoch that is there and not agreed on yet; and those that this process knows to be on their way.
  std::pair<std::int32_t, std::int32_t> waiting();
  std::string address() const;  // of this process, for UCFT_JOIN

 private:
  struct Epoch {
    std::unique_ptr<Request> admission{};  // the barrier in which newcomers wait; its context may point to it
    std::unique_ptr<Context> context{};
    std::uint64_t start = 0;  // 0: the first
    std::vector<std::int32_t> newcomers{};
  };

  Roster roster() override;
  void on_invited(Invitation invitation) override;
  bool is_starting() override;
  std::vector<std::uint64_t> started() override;
  EpochState state_of(std::uint64_t start) override;
  void on_refused(const std::string& why) override;
  void say(const std::string& line, bool is_warning) override;

  void on_turn() override;

  void begin_start(Invitation invitation);  // mutex_ is held
  void begin_waiting();                     // the same
  void take_start();                        // the same
  bool is_broken(const CandidateEpoch& candidate) const;
  KnownEpochs::IsBroken broken_ones() const;
  Epoch& epoch_of(std::uint64_t start);
  Epoch take_started(std::uint64_t start);
  void retire(Epoch epoch);  // leaves it, in the background
  void retire_all(const KnownEpochs::Starts& starts);
  static void leave(Context& context, const Request* admission);
  void report_deaths(const Epoch& next);  // inside of the current context
  void post_admission(Epoch& epoch);
  Communicator* enter(Epoch epoch);
  static void on_failure(const ucft_failure_t* failure, void* self);
  void publish_address() const;
  void show_seats(Context& context) const;
  bool was_admitted(const Epoch& epoch) const;
  Communicator* enter_as_newcomer(Epoch& candidate);
  ucft_context_params_t params_without_callback() const;
  void say_now(const std::string& line) const;

  ucft_context_params_t params_ = UCFT_CONTEXT_PARAMS_INIT;
  ucft_failure_callback_t callback_ = nullptr;
  void* callback_arg_ = nullptr;
  std::set<std::pair<std::int32_t, std::int64_t>> reported_;  // ranks and pids
  bool warns_ = true, informs_ = false;
  bootstrap::Secret secret_{};
  std::unique_ptr<Agent> agent_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Epoch> epochs_;  // the last is current
  KnownEpochs known_;          // guarded, as the next three
  std::list<Epoch> started_;   // of its candidates
  std::unique_ptr<EpochStart> start_;
  std::optional<Invitation> next_;  // the one that waits
  std::int32_t most_seats_ = 0;     // that newcomers may have; 0: those that are there
  std::string refusal_;
  bool ending_ = false;
  struct Leaver {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> is_through;
    std::unique_ptr<Request> admission;  // its context may point to it
    std::unique_ptr<Context> context;
    std::vector<void*> to_free{};  // memory that the caller has given back meanwhile
  };
  std::vector<Leaver> leavers_;
};

}  // namespace ucft::detail

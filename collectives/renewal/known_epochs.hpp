// The epochs that a process knows, as a value: the one that it is in, those that have started and that nobody is in
// yet, the start under way, and an invitation that waits for its turn. It decides which start begins, which epoch is
// voted for, and which are left.
//
// A driver (Epochs; the explorer's RenewalWorld) has the contexts. It reports what happens, and asks what follows.
//
// Source: docs/algorithms.md, "Newcomers".
//
// Invariants
//  - The epoch that was voted for stays until the vote is over. So a survivor that hears that all agree can follow.
//  - Of a member, all candidates have grown from the epoch that it is in.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "collectives/renewal/seats.hpp"

namespace ucft::detail {

// An invitation to start an epoch, as far as anything is decided by it.
struct EpochOffer {
  std::uint64_t start = 0;
  std::uint32_t base = 0;  // the epoch whose survivors are invited
  std::int32_t seat = -1;  // of this process
  std::vector<Seat> seats{};
  bool is_mine = false;  // this process sponsors it
};

// An epoch whose context is there.
struct CandidateEpoch {
  std::uint64_t start = 0;
  std::uint32_t epoch = 0;  // its number, which no other has; never 0
  std::vector<std::int32_t> newcomers{};
  std::int32_t seats = 0;  // how many it has
};

enum class EpochState : std::uint8_t { none, starting, ready, broken, adopted };

// Not all that live in `base` are in the candidate any more, or one of its newcomers is not: it can't be agreed on, or
// has nobody new. Each by rank: whether it is gone, as this process knows it there. The base may have fewer ranks.
bool is_broken(const std::vector<std::int32_t>& newcomers, const std::vector<bool>& gone_from_base,
               const std::vector<bool>& gone_from_candidate);

class KnownEpochs {
 public:
  using Starts = std::vector<std::uint64_t>;
  using IsBroken = std::function<bool(const CandidateEpoch&)>;

  // A newcomer is in no epoch: it is no member yet.
  static KnownEpochs of_member(std::uint32_t epoch);
  static KnownEpochs of_newcomer() { return {}; }

  bool is_member() const { return current_ != 0; }
  std::uint32_t current() const { return current_; }
  const std::vector<CandidateEpoch>& candidates() const { return candidates_; }
  const std::optional<EpochOffer>& under_way() const { return under_way_; }
  const std::optional<EpochOffer>& waiting() const { return waiting_; }
  std::uint32_t voted() const { return voted_; }  // for that candidate; 0: none

  // An invitation: its start begins now; it waits, in the place of one that waited before; or nothing follows.
  enum class Invited : std::uint8_t { begins, waits, ignored };
  Invited on_invited(const EpochOffer& offer);
  // The start under way is over. epoch: it has led to that one; 0: it has failed.
  struct Started {
    bool is_kept = false;  // the epoch is a candidate; else it is left, if there is one
    Starts left{};         // these candidates, too
  };
  Started on_start_over(std::uint32_t epoch);
  // The start that waits begins now: it is under way. False: none does.
  bool begin_waiting();

  EpochState state_of(std::uint64_t start, const IsBroken& is_broken) const;

  // Before a vote: the broken ones, which are no candidates from here on.
  Starts drop_broken(const IsBroken& is_broken);
  // The latest, if it has so many newcomers (-1: in all free seats), or its seats are taken and no more may be added:
  // it is voted for. Else 0. So it is if it has more than most_seats.
  using HasFreeSeat = std::function<bool(const CandidateEpoch&)>;
  std::uint32_t choose(std::int32_t newcomers, std::int32_t most_seats, const HasFreeSeat& has_free_seat);
  // Wishes of a renewal, and its rank's knowledge.
  struct Asked {
    std::int32_t newcomers = -1;  // as in ucft_renew_options_t
    std::int32_t most_seats = 0;  // that an epoch may have
    bool has_room = false;        // the epoch that it is in has a free seat, or fewer than most_seats
    bool time_is_over = false;    // it waits for nobody any more
  };
  // The rank's words for the vote.
  struct Ballot {
    std::uint32_t epoch = 0;  // that it names; 0: none
    bool is_over = false;     // it waits for nobody any more, or for nobody at all
    bool says_something() const { return epoch != 0 || is_over; }
  };
  Ballot look(const Asked& asked, const HasFreeSeat& has_free_seat);
  // No epoch was agreed on: all candidates but the latest are left.
  Starts after_vote();
  // The survivors have agreed on it. None: it is not there. It counts as adopted from here on, though this process has
  // yet to enter it: its newcomers have their seats.
  std::optional<CandidateEpoch> adopt(std::uint32_t epoch);
  // This process goes on there: a survivor after adopt(), or a newcomer that was admitted. All other candidates are
  // left.
  Starts enter(std::uint64_t start, std::uint32_t epoch);
  // As a newcomer: its barrier has ended without a survivor. Or: this process leaves the job.
  void drop(std::uint64_t start);

  // Equal values have equal hashes.
  std::uint64_t hash() const;

 private:
  bool may_start(const EpochOffer& offer) const;
  void note_adopted(std::uint64_t start);
  Starts leave(const IsBroken& which);

  std::uint32_t current_ = 0;               // 0: a newcomer's, which is in none
  std::vector<CandidateEpoch> candidates_;  // the latest last
  std::optional<EpochOffer> under_way_;
  std::optional<EpochOffer> waiting_;  // while one is under way, or of an epoch that this process has yet to enter
  Starts adopted_;                     // the latest
  std::uint32_t voted_ = 0;            // for that candidate
};

}  // namespace ucft::detail

// The end of an operation whose data go in pieces: a member that has all of its part says so, in rounds. In the round
// of distance s = 1, 2, 4 .. it gives a word to the member s places behind it, when it has the words of the rounds
// before. So each word says that its sender has its part, and so have those that it has heard this from. After the last
// round all members have theirs. (Dissemination: D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier
// Synchronization".)
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/core/ballots.hpp"

namespace ucft::detail {

class Closing {
 public:
  void start(const Ballots& ballots) {
    for (std::int32_t distance = 1; distance < ballots.members().size(); distance *= 2)
      rounds_.push_back(
          {ballots.member_after(ballots.me(), distance), ballots.member_after(ballots.me(), -distance), false});
  }
  // A word has come. False: not awaited.
  bool on_word(Rank from) {
    const auto found = std::ranges::find(rounds_, from, &Round::source);
    return found != rounds_.end() && !std::exchange(found->has_come, true);
  }
  // This rank has its part: gives words as far as the arrivals allow. True: to the end.
  bool advance(const Message& word, Outbox& out) {
    for (; !is_through(); ++over_, has_given_ = false) {
      if (!std::exchange(has_given_, true)) out.send(rounds_[over_].target, word);
      if (!rounds_[over_].has_come) return false;
    }
    return true;
  }
  bool is_through() const { return over_ == rounds_.size(); }
  // The rank whose word is next; no_rank: none.
  Rank awaited() const { return is_through() ? no_rank : rounds_[over_].source; }
  void clear() {
    rounds_.clear();
    over_ = 0;
    has_given_ = false;
  }

 private:
  struct Round {
    Rank target, source;
    bool has_come;
  };
  std::vector<Round> rounds_;
  std::size_t over_ = 0;    // rounds
  bool has_given_ = false;  // in the next one
};

}  // namespace ucft::detail

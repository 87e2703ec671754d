// The ranks that take no part in the job any more, as one rank sees it, and what follows. It says which ranks have
// failed, left or are suspected, which are told, which are fenced, and whether this rank itself is out.
//
// Source: docs/failure_model.md, "Suspected and proved", "Partitions", "Detection". A plain value: events in, a queue
// of actions out. No clock (time is an argument, from any origin, never decreasing), no thread, no input or output. The
// detector says which rank is silent or has ended (detector_thread.hpp). This class says what it means.
//
// Invariants
//  - A rank is present, then left or failed; there is no way back, and each rank departs once.
//  - A proof stays: suspicions before and after it, and those of others, don't change it.
//  - Leaving is not failing: a rank that said that it leaves is never reported, however it ends. But a rank that said
//    that it is out has failed, though it leaves afterwards: it owes what it has not finished.
//  - While a rank leaves, the others do not agree on which ranks count. So it says that it is about to leave, and goes
//    when all that live know that. Between the two it counts for no side, but against the side that has lost it. If not
//    all knew, it counts against that side for ever.
//  - A closed connection is no proof, and no silence: a rank that leaves closes it, too, and its word may be lost with
//    it.
//  - Only the side that holds the majority acts upon the silence of ranks of other hosts. The other side is out.
//  - A rank that is silent alone is one rank: its host, over whose other lifelines something is heard, stays. See
//    watch_along().
//  - Before a rank departs, all that it said has been read (hear_out).
//  - A rank that has failed is believed only when it says that it is out itself. Otherwise a suspicion would count for
//    ever that is a proof by now, and two sides could count different ranks. (And, on one host, when it says that this
//    rank is out: on_excluded_word().)
//  - A rank that is out draws no conclusions any more, and stays out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "timeout_detector/lifeline_plan.hpp"

namespace ucft::detail {

class Departures {
 public:
  using Rank = std::int32_t;
  using Time = std::chrono::nanoseconds;

  struct Options {
    Time suspect_after =
        std::chrono::seconds(1);  // so long a lost connection, or a word that a rank leaves, waits for more
    bool fence = true;            // ranks of this host may be killed
    bool operator==(const Options&) const = default;
  };

  // A rank's mark about itself, in its own shared memory. Its values are those in the memory.
  enum class Mark : std::uint8_t { none = 0, left = 1, out = 2, left_early = 3 };

  enum class Exclusion : std::uint8_t { none, declared_dead, minority };

  struct Action {
    enum class Kind : std::uint8_t {
      hear_out,     // read all that `rank` has sent, then answer with on_heard_out()
      fence,        // kill `rank`, of this host; answer with on_fence_refused() if that is not possible
      tell_out,     // `rank` may be alive: tell it that it was declared dead. Comes before its depart
      depart,       // forget `rank`; communicators and users learn that it has left or failed
      announce,     // tell `rank` that `about` has failed, or left
      exclude_self  // this rank is out: its operations end, and it says so wherever it can
    };
    Kind kind;
    Rank rank = -1;
    Rank about = -1;        // of announce
    bool has_left = false;  // of depart, announce
    bool all_know = false;  // then: that all knew before that it was about to
    bool proved = false;    // of depart, announce
    bool operator==(const Action&) const = default;
  };

  struct Failure {
    Rank rank;
    bool proved;
    bool operator==(const Failure&) const = default;
  };

  Departures() = default;  // of an empty job
  // hosts[rank]: a number of its host; me < hosts.size().
  Departures(Rank me, const std::vector<std::uint64_t>& hosts, Options options);
  // Before all else: those ranks have failed already, as every rank of the job knows. by rank; empty: none. They are
  // proved dead and count for no side, and nothing follows from them: no rank is told, and no user.
  void begin_without(const std::vector<bool>& absent);
  // The lifelines that there are, of all ranks. They join hosts. A host may have been within reach over those that are
  // heard, and no longer be when some have fallen silent. Then it is silent as a whole, also those of its ranks that no
  // rank on this side watches.
  void watch_along(std::vector<LifelineEnds> lifelines);
  // From now on news travel along a graph of groups of ranks, such as those of one host. Each rank passes on what it
  // hears, once, to its group. If it is one of the first two of its group it also passes it to the first two of each
  // neighbour. A rank that becomes one of these gets all of it. near: the ranks of this rank's group, then of its
  // neighbours, ascending. Empty: a rank that sees a failure tells all.
  void tell_along(std::vector<std::vector<Rank>> near) { near_ = std::move(near); }
  bool tells_along() const { return !near_.empty(); }
  // The ranks that this rank passes news to, now: of its group, then of others.
  std::vector<Rank> near() const;

  // ---- events ----
  // Verdicts and words about others are only noted; on_turn() decides, so that what comes together is judged together.
  // A rank's word about itself (that it leaves, that it is out) counts at once.

  // This rank's own detector.
  void on_verdict(Rank rank, bool proved);
  // The rank said on its lifeline that it is out.
  void on_lifeline_out(Rank rank);
  // `by` says that `about` has failed; about may be this rank, or `by` itself, which then is out.
  void on_word(Rank by, Rank about, bool proved);
  // `by` has declared this rank dead, by its own word. A rank that this rank has lost, too, is not believed, unless it
  // is a lower one of this host.
  void on_excluded_word(Rank by);
  // `by` wrote so into this rank's memory; or (-1) the others have decided so, in an operation.
  void on_excluded_mark(Rank by);
  // The rank is about to leave. However it ends now, it has left.
  void on_leaving(Rank rank);
  // The last message of a rank that leaves.
  void on_leave_word(Rank rank, bool all_know);
  // Another rank says that it has left.
  void on_left_word(Rank rank, bool all_know, Time now);
  // This rank leaves: other ranks that leave are no business of its any more.
  void leave() { is_leaving_ = true; }
  // The rank said on its lifeline that it leaves. Its last message may follow, or be lost.
  void on_lifeline_leave(Rank rank, bool all_know, Time now);
  void on_mark(Rank rank, Mark mark);
  // The rank's lifeline has ended, and that shows nothing.
  void on_line_lost(Rank rank) { peer_of(rank).has_lifeline = false; }
  // No message can reach the rank, or this host sends it none any more. If its process has ended, that is heard in
  // another way, and soon.
  void on_connection_lost(Rank rank, Time now);
  void on_fence_refused(Rank rank);
  // The rank's messages have been read. mark: what stands in its memory, or none.
  void on_heard_out(Rank rank, Mark mark);
  // Concludes from all that has been noted, and from the time that has passed. The only place that declares others
  // failed.
  void on_turn(Time now);

  // ---- what follows ----
  // Oldest first; to be carried out before the next one is taken. Exception: that this rank is out comes first.
  std::optional<Action> next_action();

  // Failures since the last call, in rank order.
  std::vector<Failure> take_failures();

  Exclusion exclusion() const { return exclusion_; }
  Rank excluded_by() const { return excluded_by_; }  // the first that said so; -1: unknown
  bool is_out() const { return exclusion_ != Exclusion::none; }
  bool is_gone(Rank rank) const { return has_left(rank) || has_failed(rank); }
  bool has_left(Rank rank) const { return peer_of(rank).standing == Standing::left; }
  bool has_failed(Rank rank) const { return peer_of(rank).standing == Standing::failed; }
  bool is_proved(Rank rank) const { return peer_of(rank).evidence == Evidence::proof; }
  // Nothing speaks against the rank, whether it has departed or not.
  bool may_live(Rank rank) const { return peer_of(rank).evidence == Evidence::none; }
  bool is_here(Rank rank) const { return peer_of(rank).host == peer_of(me_).host; }
  // on_turn() has something to wait for.
  bool is_waiting() const { return waiting_; }

  // Of those that are neither proved dead nor have left as all knew (`counted`): those that this side has lost, and
  // those that count for no side. See holds_majority().
  struct Count {
    std::int32_t counted = 0, leaving = 0;
    std::vector<Rank> lost;
  };
  Count count() const;

  bool operator==(const Departures&) const = default;
  // Equal values have equal hashes.
  std::uint64_t hash() const;

 private:
  enum class Evidence : std::uint8_t { none, silence, proof };              // grows only
  enum class Standing : std::uint8_t { present, departing, left, failed };  // departing: being heard out
  struct Peer {
    std::size_t host = 0;  // 0 .. hosts_-1
    std::optional<Time> broken_since{}, leaving_since{};
    Evidence evidence = Evidence::none;
    Standing standing = Standing::present;
    bool has_lifeline = false;
    bool is_out = false;  // says so itself
    bool is_leaving = false, all_know = false, left_is_announced = false;
    bool seen_here = false;  // found by this rank, not told by another
    Evidence announced = Evidence::none;
    bool reported = false;
    bool is_absent = false;    // has failed before the job began: all know
    bool is_informed = false;  // along a graph: was told what this rank has announced
    bool operator==(const Peer&) const = default;
  };

  Peer& peer_of(Rank rank);
  const Peer& peer_of(Rank rank) const { return const_cast<Departures*>(this)->peer_of(rank); }
  Rank size() const { return static_cast<Rank>(peers_.size()); }
  bool holds_majority() const;
  std::vector<std::size_t> hosts_within_reach(bool heard) const;
  void note_silent_hosts();
  void note(Rank rank, Evidence evidence);
  void hear_out(Rank rank);
  void watch_leaver(Rank rank, Time now);
  void watch_broken(Rank rank, Time now);
  void depart(Rank rank, bool has_left);
  void announce();
  void announce_left(Rank left);
  bool is_among_two_lowest_here() const;
  void pass_on();
  std::vector<Rank> present() const;  // all others that have not gone
  bool is_leaving_here(Rank rank) const;
  bool counts(Rank rank) const { return !is_proved(rank) && !(has_left(rank) && peer_of(rank).all_know); }
  void tell(const std::vector<Rank>& ranks, Rank about, bool proved);
  void tell_left(const std::vector<Rank>& ranks, Rank left);
  void exclude_self(Exclusion why);

  Rank me_ = 0;
  Options options_;
  std::vector<Peer> peers_;
  std::size_t hosts_ = 0;
  std::vector<LifelineEnds> lifelines_;
  std::vector<std::vector<Rank>> near_;
  std::vector<Action> actions_;  // at most n+4 for each rank
  std::size_t actions_taken_ = 0;
  Exclusion exclusion_ = Exclusion::none;
  Rank excluded_by_ = -1;
  bool told_out_ = false, is_leaving_ = false;
  bool undecided_ = false;  // something was noted since the last turn
  bool waiting_ = false;
};

}  // namespace ucft::detail

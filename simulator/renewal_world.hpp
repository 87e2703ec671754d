// A world of a few survivors of a job and a few newcomers, each with its KnownEpochs and its Sponsor (the objects that
// run in a real job). They renew their communicator while any of them may die. No clock: any possible event may be
// next. So every delay of a message, of news of a death and of a context's start is among the orders.
//
// Collectives are their specifications. A vote (a uniform allreduce) is decided once, when each member has posted it or
// has gone. All that have a result have the same. A member that has died may be in it if it had posted. If more than f
// have died before, it fails on all. The barrier of an epoch is decided in the same way. A start of an epoch leads to a
// context on a rank once all that are invited have come to it. If one of them dies, or its rendezvous ends, it may fail
// on some ranks and succeed on others.
//
// News of deaths, and of ranks that leave an epoch, come to each process and each of its epochs at a moment of its own.
//
// Checked after every event: all that return from a renewal have the same; an epoch that all agree on is there; a
// newcomer is admitted only where survivors are; a seat has one process. When nothing more can happen: see check_end().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/renewal/known_epochs.hpp"
#include "collectives/renewal/renewal_vote.hpp"
#include "collectives/renewal/sponsor.hpp"

namespace ucft::detail::simulator {

struct RenewalPlan {
  int seats = 3;
  std::vector<int> absent{};  // seats whose ranks have died before, as all know
  int newcomers = 1;
  int wanted_seat = -1;   // of all newcomers
  int deaths = 1;         // so many processes die, at any moment
  int f = 8;              // of a vote
  int renewals = 1;       // that each program calls, one after the other
  int wanted = -1;        // newcomers: as in ucft_renew_options_t
  bool has_limit = true;  // a renewal's time may be over at any moment; else it waits for as long as it takes
  bool leaves = false;    // a program that has done all may end at any moment
  int starts = 3;         // at most so many. A sponsor that would begin another one does not: see is_cut()
};

class RenewalWorld {
 public:
  explicit RenewalWorld(const RenewalPlan& plan);

  struct Event {
    enum class Kind : std::uint8_t {
      dies,
      learns,        // that seat `other` has gone from `epoch`
      is_invited,    // to start `epoch`
      is_uninvited,  // an invitation is lost with its sender
      comes,         // to the start of `epoch`
      has_started,   // its context of `epoch` is there
      fails_to_start,
      asks,            // a newcomer a member, `other`, that accepts it
      is_refused,      // a newcomer: no member lives
      loses_sponsor,   // a newcomer
      loses_newcomer,  // a sponsor: `other` has hung up, or has a seat and has not done so for long
      ends_start,      // a sponsor, its rendezvous
      gives_up_start,
      has_seated,  // a sponsor: its start has led to an epoch that counts
      turns_away,  // a sponsor that is none any more
      begins_start,
      has_no_time,   // its renewal's time is over
      looks,         // for an epoch to vote for, and votes
      decides,       // the vote of `epoch`'s members: of the dead those in `bits` are in it
      takes_result,  // of that vote
      enters,        // the epoch that was agreed on
      decides_barrier,
      leaves_barrier,  // a newcomer: it is in, or tries again
      leaves_job,
      runs_out_of_time  // a newcomer, when nothing else can happen
    };
    Kind kind;
    std::int8_t process = -1;  // to which it happens
    std::int8_t other = -1;    // a process, or a seat
    std::int8_t epoch = -1;
    std::uint8_t bits = 0;
  };
  std::vector<Event> enabled() const;
  void carry_out(const Event& event);  // one of those

  const std::string& violation() const { return violation_; }  // "" or what is wrong
  // The world is quiet. No survivor is in a renewal, unless it waits without a limit for more newcomers than there are.
  // No rank is in a vote of which all others are through.
  void check_end();
  bool is_cut() const;                                    // a sponsor would begin another start
  int joined() const;                                     // newcomers
  bool is_quiet(const std::vector<Event>& events) const;  // nothing but that newcomers run out of time
  std::string text() const;                               // what has become of each process
  std::uint64_t hash() const;
  static std::string text_of(const Event& event);

  // For those that tell what happens.
  int processes() const { return static_cast<int>(processes_.size()); }
  std::string standing(int process) const;
  std::string detail_of(const Event& event) const;  // that has just happened: what came of it, or ""

 private:
  using Bits = std::uint8_t;  // by process, or by seat
  static constexpr int most_processes = 8;
  struct Process {
    enum class Doing : std::uint8_t { renews, votes, adopts, joins, has_done, has_failed, has_given_up };
    Doing doing = Doing::renews;
    bool dead = false, has_left = false, time_is_over = false;
    std::int8_t seat = -1, round = 0, asks = -1;
    std::int8_t vote = 0;  // of those in its epoch, the next, or the one that it waits for
    std::uint32_t next_id = 1;
    KnownEpochs known;
    Sponsor sponsor;
    std::optional<CandidateEpoch> adopts;
    std::vector<Bits> gone;  // by epoch: seats, as it knows
  };
  struct Vote {
    Bits posted = 0;  // seats
    std::vector<RenewalVote> words;
    bool is_decided = false, has_failed = false;
    RenewalVote result;
    Bits members = 0, missing = 0;  // seats
  };
  struct Epoch {
    int base = -1, sponsor = -1;
    std::vector<Seat> seats;
    std::vector<int> process_of;  // by seat; -1: none
    bool has_ended = false;       // its rendezvous
    bool lacks_guest = false;     // a seat whose process can't come
    // By process.
    Bits guests = 0, invited = 0, arrived = 0, lost = 0, posted = 0;
    bool is_decided = false;  // its barrier
    Bits contributed = 0;     // to it
    int adopted_in = -1;      // renewal
    Bits members = 0;         // seats: of the communicator that is to be renewed
    std::vector<Vote> votes;
  };
  // The same for all that return from a renewal.
  struct Result {
    int epoch = -1;
    std::uint32_t id = 0;  // of the same seats
    Bits missing = 0;
    bool operator==(const Result&) const = default;
  };

  static Bits bit(int number) { return static_cast<Bits>(1u << number); }
  Process& at(int process) { return processes_[static_cast<std::size_t>(process)]; }
  const Process& at(int process) const { return processes_[static_cast<std::size_t>(process)]; }
  Epoch& epoch(int number) { return epochs_[static_cast<std::size_t>(number)]; }
  const Epoch& epoch(int number) const { return epochs_[static_cast<std::size_t>(number)]; }
  bool runs(int process) const { return !at(process).dead && !at(process).has_left; }
  int current(int process) const { return static_cast<int>(at(process).known.current()) - 1; }
  EpochMembers members(int process) const;
  bool has_gone(int process, int from_epoch) const;
  std::vector<bool> gone(int process, int from_epoch) const;
  KnownEpochs::IsBroken broken_ones(int process) const;
  EpochOffer offer(int start, int process) const;
  Sponsor::StateOf states_of(int process) const;
  Sponsor::Step step_of(int process) const;
  bool may_fail(int process, int start) const;
  bool is_ready(int start) const;
  KnownEpochs::Ballot ballot(int process, KnownEpochs& known) const;
  bool looks(int process) const;
  Bits gone_seats(int in_epoch) const;

  void events_of(int process, std::vector<Event>& events) const;
  void events_of_newcomer(int process, std::vector<Event>& events) const;
  void events_of_start(int process, std::vector<Event>& events) const;
  void events_of_sponsor(int process, std::vector<Event>& events) const;
  void events_of_collectives(int in_epoch, std::vector<Event>& events) const;

  void ask(int process, int member);
  void invite(int process, int start);
  void has_begun(int process, int start);
  void begin_waiting(int process);
  void end_start(int process, int start, bool succeeds);
  void leave(int process, const KnownEpochs::Starts& starts);
  void leave_all(int process);
  void look(int process);
  void decide(int in_epoch, Bits of_dead);
  void take_result(int process);
  void enter(int process);
  void decide_barrier(int in_epoch, Bits of_dead);
  void leave_barrier(int process, int of_epoch);
  void sponsor(int process);
  void begin_start(int process, const Sponsor::Step& step);
  void note_result(int process, const Result& result);
  void finish_round(int process);
  void check_seats(int in_epoch);
  void forget_votes(int in_epoch);
  void fail(const std::string& what);

  const RenewalPlan* plan_;
  std::vector<Process> processes_;  // survivors first, by their seats; then newcomers
  std::vector<Epoch> epochs_;       // [0] is the first; [i] comes of start i, and has the number i + 1
  std::vector<Result> results_;     // by renewal
  int deaths_ = 0;
  std::string violation_;
};

struct RenewalExploration {
  std::int64_t states = 0;  // of walks: events
  std::int64_t ends = 0;
  std::int64_t joined = 0;  // newcomers, in all ends together
  std::int64_t cut = 0;     // ends in which a sponsor would have begun another start
  std::int64_t violations = 0;
  bool complete = true;  // false: there were more states than asked for, or enough violations
  std::string first_violation;
};

// Every order. Also: from each state some order leads to an end, so that no processes chase each other forever.
RenewalExploration explore_renewals(const RenewalPlan& plan, std::int64_t most_states);
// Random orders.
RenewalExploration walk_renewals(const RenewalPlan& plan, std::int64_t runs, std::uint64_t seed);
RenewalPlan random_renewal_plan(std::uint64_t seed);

}  // namespace ucft::detail::simulator

// A member's part in finding newcomers their seats, as a value: which member sponsors, which newcomers it seats where,
// when it ends a start, and when it begins another one.
//
// A driver (Agent; the explorer's RenewalWorld) has the connections and the rendezvous. It reports what happens, asks
// for the next step, and takes it.
//
// Source: docs/algorithms.md, "Newcomers".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/renewal/known_epochs.hpp"
#include "collectives/renewal/seats.hpp"

namespace ucft::detail {

// The epoch that a process is in, as it knows it.
struct EpochMembers {
  std::int32_t me = -1;              // -1: it has not joined
  std::vector<bool> lives{};         // by rank
  std::vector<std::string> hosts{};  // by rank: names
  std::int32_t most_seats = 0;       // that the next epoch may have
  std::int32_t lowest() const;       // that lives
};

class Sponsor {
 public:
  // Newcomers by the connections that they came on. A number may come again once it was lost.
  using Connection = int;

  // starts: that it was in with another sponsor, and that may yet lead it into the job.
  void accept(Connection newcomer, Applicant applicant, std::vector<std::uint64_t> starts);
  void lose(Connection newcomer);  // it has hung up
  bool has(Connection newcomer) const { return newcomers_.contains(newcomer); }
  bool waits(Connection newcomer) const;  // for a seat
  int waiting() const;
  bool leads() const { return led_.has_value(); }
  // The start that it leads, by a number that its driver knows from begun().
  std::uint64_t led() const { return led_->start; }

  struct Step {
    enum class Kind : std::uint8_t {
      nothing,
      seated,     // `newcomers` are in an epoch that counts; a start that has led to it is led no more
      end_start,  // the rendezvous ends, on all; the start is still led
      give_up,    // the start is led no more. It has come to nothing, or another one shall follow
      turn_away,  // another member is the sponsor: these newcomers are sent there
      begin       // a start with these seats
    };
    Kind kind = Kind::nothing;
    bool has_failed = false;                       // give_up: pause before the next one
    std::vector<Connection> newcomers{};           // seated; give_up, turn_away: these connections are closed
    std::vector<Seat> seats{};                     // begin
    std::map<Connection, std::int32_t> seat_of{};  // begin
  };
  // The next step. This value takes it at once, but for `begin`: that takes effect with begun(). state_of: of starts
  // that it has begun.
  using StateOf = std::function<EpochState(std::uint64_t)>;
  Step look(const EpochMembers& members, const StateOf& state_of);
  // The driver has begun it.
  void begun(std::uint64_t start, const Step& step);

  // Equal values have equal hashes.
  std::uint64_t hash() const;

 private:
  struct Newcomer {
    Applicant applicant{};
    std::vector<std::uint64_t> starts{};  // that it was in, the latest last
    int failures = 0;                     // of these
    bool is_seated = false;               // it is about to find that out, and to hang up
  };
  struct Led {
    std::uint64_t start = 0;
    std::vector<Seat> seats{};
    std::map<Connection, std::int32_t> seat_of{};
    bool has_lost = false;  // one of its newcomers
  };

  std::vector<Connection> seat_adopted(const StateOf& state_of);
  Step look_at_start(const EpochMembers& members, EpochState state);
  Step look_for_start(const EpochMembers& members);
  Step give_up(bool has_failed);

  std::map<Connection, Newcomer> newcomers_;
  std::optional<Led> led_;
};

}  // namespace ucft::detail

// Ranks that are slow or disturbed on purpose, in a measurement: --slow, --noise.
//
// A timer interrupts the rank's thread, and the rank sleeps in the signal's handler. So it stops wherever it is, in the
// library too, and its core is free for other ranks meanwhile. The process's other threads run on, those of the failure
// detector among them.
//
//   slow    the rank sleeps factor - 1 times as long as its thread has had a processor. It is interrupted after 200 us
//           of that, since an interruption costs some us itself. Sleep that was too long or too short counts at the
//           next one
//   noise   each period it sleeps for duration, whatever it does. Each noisy rank has a phase of its own, from the seed
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ucft::detail::bench {

struct SlowRank {
  int rank = 0;
  double factor = 1;
};

struct Noise {
  std::string text;  // as typed; "": none
  double period_us = 0, duration_us = 0;
  int ranks = 0;  // so many, drawn; 0: all
};

struct Disturbances {
  std::vector<SlowRank> slow;
  Noise noise;

  double factor(int rank) const;
  bool is_slow(int rank) const { return factor(rank) > 1; }
  // Whether its samples count: those of slow ranks don't, unless all are slow.
  bool counts(int rank, int rank_count) const;
  std::vector<int> noisy_ranks(int rank_count) const;  // ascending
  std::string slow_text() const;                       // "3@10,4@2"
  // '#' line for people; "" if there is nothing to say.
  std::string header(int rank_count) const;
};

// RANK@FACTOR; PERIOD:DURATION[@RANKS], us. Throw std::invalid_argument, which names option and text.
SlowRank parse_slow(const std::string& text);
Noise parse_noise(const std::string& text);
// Checks that need the number of ranks: "" or what is wrong.
std::string problem_with(const Disturbances& disturbances, int rank_count);

// While it lives the calling thread is this rank, slow and disturbed as was asked. One at a time.
class Disturbed {
 public:
  Disturbed(const Disturbances& disturbances, int rank, int rank_count);
  ~Disturbed();
  Disturbed(const Disturbed&) = delete;
  Disturbed& operator=(const Disturbed&) = delete;
};

}  // namespace ucft::detail::bench

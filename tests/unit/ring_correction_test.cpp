// Corrections on a ring of processes, without operations around them: whom each form reaches, in random orders of turns
// and arrivals, and with deaths in between. No verdict is given to anybody.
#include "collectives/topology/ring_correction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ucft::detail {
namespace {

using Flags = std::vector<bool>;

// Processes, messages on their way, and one random event after the other.
class Ring {
 public:
  Ring(Correction kind, std::int32_t distance, std::int32_t f, const Flags& coloured, std::uint64_t seed)
      : size_(static_cast<std::int32_t>(coloured.size())),
        coloured_(coloured),
        to_start_(coloured),
        alive_(coloured.size(), true),
        reached_(coloured),
        processes_(coloured.size()),
        random_(seed) {
    for (RingCorrection& process : processes_) process.reset({kind, distance, f, size_});
  }

  // Until nothing is left. `deaths` coloured processes die, each at a random moment.
  void run(int deaths = 0) {
    while (true) {
      std::vector<std::int32_t> busy;
      for (std::int32_t p = 0; p < size_; ++p)
        if (alive_[at(p)] && (to_start_[at(p)] || processes_[at(p)].wants_turn())) busy.push_back(p);
      if (busy.empty() && letters_.empty()) return;
      if (deaths > 0 && !busy.empty() && random_() % 6 == 0) {
        alive_[at(busy[random_() % busy.size()])] = false;
        --deaths;
      } else if (!letters_.empty() && (busy.empty() || random_() % 2 == 0)) {
        arrive(random_() % letters_.size());
      } else {
        step(busy[random_() % busy.size()]);
      }
    }
  }
  bool coloured_survivor() const {
    for (std::size_t p = 0; p < alive_.size(); ++p)
      if (alive_[p] && coloured_[p]) return true;
    return false;
  }
  bool all_live_reached() const {
    for (std::size_t p = 0; p < alive_.size(); ++p)
      if (alive_[p] && !reached_[p]) return false;
    return true;
  }
  bool reached(std::int32_t process) const { return reached_[at(process)]; }
  std::int64_t sends() const { return sends_; }

 private:
  struct Letter {
    std::int32_t to, distance;
    bool right;
  };
  std::size_t at(std::int32_t process) const { return static_cast<std::size_t>(process); }
  void step(std::int32_t process) {
    if (to_start_[at(process)]) {
      to_start_[at(process)] = false;
      return processes_[at(process)].start();
    }
    const auto send = processes_[at(process)].turn();
    if (!send) return;
    ASSERT_TRUE(send->distance >= 1 && send->distance < size_);
    ++sends_;
    letters_.push_back(
        {(process + (send->right ? send->distance : size_ - send->distance)) % size_, send->distance, send->right});
  }
  void arrive(std::size_t index) {
    const Letter letter = letters_[index];
    letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!alive_[at(letter.to)]) return;
    reached_[at(letter.to)] = true;
    processes_[at(letter.to)].hear(letter.right, letter.distance);
  }

  std::int32_t size_;
  Flags coloured_, to_start_, alive_, reached_;
  std::vector<RingCorrection> processes_;
  std::vector<Letter> letters_;
  std::mt19937_64 random_;
  std::int64_t sends_ = 0;
};

Flags random_ring(std::mt19937_64& random, std::int32_t most = 24) {
  Flags coloured(2 + random() % static_cast<std::uint64_t>(most - 1));
  const std::uint64_t rarity = 1 + random() % 6;
  for (std::size_t p = 0; p < coloured.size(); ++p) coloured[p] = p == 0 || random() % rarity == 0;
  return coloured;
}

// Of processes in a row that the tree has not reached, around the ring.
std::int32_t longest_gap(const Flags& coloured) {  // coloured[0]
  std::int32_t longest = 0, run = 0;
  for (const bool is : coloured) {
    run = is ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  return longest;
}

#ifdef __SANITIZE_ADDRESS__  // a tenth; run_mutants needs all
constexpr int rounds = 2000;
#else
constexpr int rounds = 20000;
#endif

TEST(RingCorrection, OpportunisticReachesAllIfAndOnlyIfNoGapIsLongerThanItsDistance) {
  std::mt19937_64 random(1);
  int missed = 0;
  for (int round = 0; round < rounds; ++round) {
    const Flags coloured = random_ring(random);
    const auto distance = static_cast<std::int32_t>(random() % 9);
    Ring ring(Correction::opportunistic, distance, 1, coloured, random());
    ring.run();
    ASSERT_EQ(ring.all_live_reached(), longest_gap(coloured) <= distance) << "round " << round;
    missed += !ring.all_live_reached();
  }
  EXPECT_GT(missed, 100) << "both cases were there";
}

TEST(RingCorrection, TheOptimisedFormReachesAsFarAndSendsNoMore) {
  std::mt19937_64 random(2);
  std::int64_t plain = 0, optimised = 0;
  for (int round = 0; round < 10 * rounds; ++round) {
    const Flags coloured = random_ring(random, 14);
    const auto distance = static_cast<std::int32_t>(random() % 11);
    const auto size = static_cast<std::int32_t>(coloured.size());
    Ring ring(Correction::opportunistic_optimised, distance, 1, coloured, random());
    ring.run();
    if (longest_gap(coloured) <= distance) {
      ASSERT_TRUE(ring.all_live_reached()) << "round " << round << " distance " << distance << " size " << size;
    }
    const std::int64_t of_plain = std::count(coloured.begin(), coloured.end(), true) * std::min(distance, size - 1);
    ASSERT_LE(ring.sends(), of_plain);
    plain += of_plain;
    optimised += ring.sends();
  }
  EXPECT_LT(optimised, plain * 9 / 10);
}

// A live process r is missed only if its nearest survivors on both sides stopped before it, each because of processes
// that it had heard, which lie between it and r, and have all died since. One process can't be on both sides of r.
class Deaths : public testing::Test {
 protected:
  // Rounds that left somebody without the value, of those in which a process that the tree has reached survives.
  int missed(Correction kind, std::int32_t f, int deaths, int of) {
    int count = 0;
    for (int round = 0; round < of; ++round) {
      Ring ring(kind, 0, f, random_ring(random_, 40), random_());
      ring.run(static_cast<int>(random_() % static_cast<unsigned>(deaths + 1)));
      count += ring.coloured_survivor() && !ring.all_live_reached();
    }
    return count;
  }
  std::mt19937_64 random_{3};
};

TEST_F(Deaths, CheckedReachesAllWhileAtMostOneDies) { EXPECT_EQ(missed(Correction::checked, 0, 1, 2 * rounds), 0); }

// Hoefler et al., FCG, promise f.
TEST_F(Deaths, FailureProofReachesAllWhileUpToTwoFPlusOneDie) {
  for (std::int32_t f = 0; f <= 3; ++f)
    EXPECT_EQ(missed(Correction::failure_proof, f, 2 * f + 1, rounds), 0) << "f " << f;
}

// 0 . 2 . . . 6 . 0: processes 2 and 6 tell 0 of themselves, and die before they have told those between them.
TEST_F(Deaths, TwoAreEnoughForCheckedToMissSomebody) {
  for (Correction kind : {Correction::checked, Correction::failure_proof}) {
    RingCorrection root;
    root.reset({kind, 0, kind == Correction::checked ? 0 : 1, 8});
    root.hear(false, 2);
    root.hear(true, 2);
    root.start();
    std::vector<bool> told(8, false);
    while (root.wants_turn())
      if (const auto send = root.turn())
        told[static_cast<std::size_t>(send->right ? send->distance : 8 - send->distance)] = true;
    EXPECT_EQ(told[4], kind == Correction::failure_proof);
  }
}

// All begin at time 0, send one message per unit, and each arrives after `delay` units, before that time's turn.
struct InStep {
  std::int64_t sends = 0, last_arrival = 0, exits = 0;
};
InStep run_in_step(const RingCorrection::Setting& setting, std::int64_t delay) {
  struct Letter {
    std::int64_t at;
    std::int32_t to, distance;
    bool right;
  };
  std::vector<RingCorrection> ring(static_cast<std::size_t>(setting.size));
  for (RingCorrection& process : ring) process.reset(setting), process.start();
  std::vector<Letter> letters;
  std::size_t arrived = 0;  // letters are in the order of their times
  InStep cost;
  for (std::int64_t now = 0; now < 1000; ++now) {
    for (; arrived < letters.size() && letters[arrived].at <= now; ++arrived)
      ring[static_cast<std::size_t>(letters[arrived].to)].hear(letters[arrived].right, letters[arrived].distance);
    for (std::int32_t p = 0; p < setting.size; ++p) {
      RingCorrection& process = ring[static_cast<std::size_t>(p)];
      if (!process.wants_turn()) continue;
      const auto send = process.turn();
      if (!send) continue;
      ++cost.sends;
      cost.exits += send->word == RingCorrection::Word::exit;
      cost.last_arrival = now + delay;
      letters.push_back({now + delay,
                         (p + (send->right ? send->distance : setting.size - send->distance)) % setting.size,
                         send->distance, send->right});
    }
  }
  return cost;
}

// docs/algorithms.md, the table of corrections. checked with D = 4 (L = 2, o = g = 1): 5 messages per process, time 8.
TEST(RingCorrection, InStepCostsWhatTheDocumentSays) {
  constexpr std::int32_t n = 100;
  for (std::int64_t delay = 1; delay <= 12; ++delay) {
    for (std::int32_t d = 1; d <= 6; ++d) {
      const InStep cost = run_in_step({Correction::opportunistic, d, 1, n}, delay);
      EXPECT_EQ(cost.sends, n * d);
      EXPECT_EQ(cost.last_arrival, d - 1 + delay);
      EXPECT_LE(run_in_step({Correction::opportunistic_optimised, d, 1, n}, delay).sends, n * d);
    }
    const InStep checked = run_in_step({Correction::checked, 0, 1, n}, delay);
    EXPECT_EQ(checked.sends, n * (delay + 1));
    EXPECT_EQ(checked.last_arrival, 2 * delay);
    for (std::int32_t f = 0; f <= 4; ++f) {
      const InStep proof = run_in_step({Correction::failure_proof, 0, f, n}, delay);
      EXPECT_EQ(proof.sends, n * (delay + 2 * f + 1)) << "delay " << delay << " f " << f;
      EXPECT_EQ(proof.last_arrival, 2 * delay + 2 * f);
      EXPECT_EQ(proof.exits, 0) << "everybody has heard its neighbours";
    }
  }
}

std::vector<std::int32_t> distances(RingCorrection& process, RingCorrection::Word word) {  // right is positive
  std::vector<std::int32_t> all;
  while (process.wants_turn())
    if (const auto send = process.turn(); send && send->word == word)
      all.push_back(send->right ? send->distance : -send->distance);
  return all;
}

using Distances = std::vector<std::int32_t>;
using Word = RingCorrection::Word;

TEST(RingCorrection, SidesTakeTurnsTheRightOneFirst) {
  RingCorrection process;
  process.reset({Correction::opportunistic, 5, 1, 20});
  process.start();
  EXPECT_EQ(distances(process, Word::value), (Distances{1, -1, 2, -2, 3}));
}

TEST(RingCorrection, TheOptimisedFormStopsTowardsASideThatWasHeardAndSkipsWhatItsSenderServes) {
  RingCorrection process;
  process.reset({Correction::opportunistic_optimised, 8, 1, 20});
  process.hear(true, 3);  // from the left: it serves one beyond this process
  process.start();
  EXPECT_EQ(distances(process, Word::value), (Distances{2, 3, 4}));
  process.reset({Correction::opportunistic_optimised, 8, 1, 20});
  process.hear(false, 3);  // from the right: nothing is skipped on the left
  process.start();
  EXPECT_EQ(distances(process, Word::value), (Distances{-1, -2, -3, -4}));
  process.reset({Correction::opportunistic_optimised, 8, 1, 20});
  process.start();
  process.turn();
  process.turn();  // has sent to both sides
  process.hear(true, 3);
  EXPECT_EQ(distances(process, Word::value), (Distances{2, 3, 4}))
      << "offset 2 is not left out: it was sent to the left";
}

TEST(RingCorrection, FailureProofCountsDistinctProcessesAndLetsGoThoseInItsOwnGap) {
  RingCorrection process;
  process.reset({Correction::failure_proof, 0, 1, 20});
  process.hear(true, 2);
  process.hear(true, 2);  // the same again
  process.hear(false, 3);
  process.hear(false, 4);
  process.hear(false, 9);  // farther than the second: does not count
  process.start();
  int right = 0;
  for (int i = 0; i < 4 + 6; ++i) {
    const auto send = process.turn();
    ASSERT_TRUE(send && send->word == Word::value) << "the left goes on: one is not two";
    right += send->right;
  }
  EXPECT_EQ(right, 4) << "up to the second nearest";
  process.hear(true, 6);
  EXPECT_EQ(distances(process, Word::exit), (Distances{1, 2, -1}));
  EXPECT_FALSE(process.wants_turn());
}

TEST(RingCorrection, PanicGoesToAllOnce) {
  RingCorrection process;
  process.reset({Correction::failure_proof, 0, 1, 5});
  process.start();
  process.panic();
  EXPECT_EQ(distances(process, Word::panic), (Distances{1, 2, 3, 4}));
  process.panic();
  process.start();
  EXPECT_FALSE(process.wants_turn());
}

}  // namespace
}  // namespace ucft::detail

// Many jobs, each in a process of its own: it finds the same memory whatever ran before, and a crash ends no other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simulator/jobs/kernel.hpp"

namespace ucft::jobs {

struct Outcome {
  std::uint64_t calls = 0, faults = 0;
  Time lasted = 0;
  bool is_bad = false;
  std::string words;                      // to be said; empty: none
  std::vector<std::uint64_t> situations;  // how often each has happened
};

struct Totals {
  std::uint64_t begun = 0;  // jobs
  std::uint64_t calls = 0, faults = 0;
  Time lasted = 0;
  std::vector<std::uint64_t> bad;      // seeds, ascending
  std::vector<std::uint64_t> crashed;  // of these: those whose process ended, or took too long
  std::vector<std::uint64_t> jobs_in;  // of each situation: the jobs in which it has happened
};

// Runs this program anew, once, so that its memory stands where it stood before: addresses are not drawn. Before all
// else. Where the system does not allow it, it says so and goes on.
void stand_still(char** argv);

// Runs the jobs of seeds first .. first + jobs - 1, so many at a time. until_bad: begins none after one that is bad.
// run: called in a child of this process. say: called here, with the words of jobs in the order in which they end. A
// job in which its process ends, or that takes 30 s of processor time, is bad. Throws std::system_error if it can't
// start a process.
Totals run_many(std::uint64_t first, std::uint64_t jobs, int workers, bool until_bad,
                const std::function<Outcome(std::uint64_t seed)>& run,
                const std::function<void(const std::string& words)>& say);

}  // namespace ucft::jobs

// UCFT_TEST_KILL=RANK:send|line|entry|step|fence:K ends that rank by SIGKILL before its K-th send (or line, or step
// of start-up; fence: while it waits in that step for all others; entry: of its host's journal, one whose payload is
// written); several, with commas.
// UCFT_TEST_STOP=RANK:MS stops that rank for so long when all others make lifelines.
// UCFT_TEST_LATE=RANK:MS lets that rank sleep for so long when start-up is over, before it tells the launcher.
#include "ucx_layer/test_points.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include <unistd.h>

namespace ucft::detail::test_points {

namespace {

struct Fuses {
  // left; negative: none. Atomic: contexts of several threads burn them.
  std::atomic<long> sends = -1, lines = -1, entries = -1, steps = -1, fences = -1;
  std::atomic<long> fences_of_others = -1;

  Fuses() {
    const char* rank = std::getenv("UCFT_RANK");
    if (rank == nullptr) rank = std::getenv("PMIX_RANK");
    const char* plan = std::getenv("UCFT_TEST_KILL");
    if (rank == nullptr || plan == nullptr) return;
    std::string rest = plan;
    while (!rest.empty()) {
      const std::string one = rest.substr(0, rest.find(','));
      rest = one.size() < rest.size() ? rest.substr(one.size() + 1) : "";
      const auto first = one.find(':'), second = one.rfind(':');
      const std::string where = one.substr(first + 1, second - first - 1);
      const bool me = one.substr(0, first) == rank;
      if (!me && where != "fence") continue;
      std::atomic<long>& fuse = !me                ? fences_of_others
                                : where == "line"  ? lines
                                : where == "entry" ? entries
                                : where == "step"  ? steps
                                : where == "fence" ? fences
                                                   : sends;
      fuse = std::stol(one.substr(second + 1));
    }
  }
};

Fuses& fuses() {
  static Fuses all;
  return all;
}

void burn(std::atomic<long>& fuse) {
  if (fuse >= 0 && fuse-- == 0) std::raise(SIGKILL);
}

}  // namespace

void pass_send() { burn(fuses().sends); }
void pass_line() { burn(fuses().lines); }
void pass_entry() { burn(fuses().entries); }

void pass_step() {
  burn(fuses().steps);
  if (fuses().fences_of_others-- == 0) usleep(1000000);
  if (fuses().fences-- != 0) return;
  std::thread([] {
    usleep(100000);
    std::raise(SIGKILL);
  }).detach();
}

void pass_lifelines() {
  const char* rank = std::getenv("UCFT_RANK");
  const char* plan = std::getenv("UCFT_TEST_STOP");
  if (rank == nullptr || plan == nullptr || std::atoi(rank) != std::atoi(plan)) return;
  const long milliseconds = std::atol(std::strchr(plan, ':') + 1);
  if (fork() == 0) {  // wakes us up
    usleep(static_cast<useconds_t>(milliseconds * 1000));
    kill(getppid(), SIGCONT);
    _exit(0);
  }
  std::raise(SIGSTOP);
}

void pass_close() {
  const char* rank = std::getenv("PMIX_RANK");
  const char* plan = std::getenv("UCFT_TEST_LATE");
  if (rank == nullptr || plan == nullptr || std::atoi(rank) != std::atoi(plan)) return;
  usleep(static_cast<useconds_t>(std::atol(std::strchr(plan, ':') + 1) * 1000));
}

bool has_short_rounds() { return std::getenv("UCFT_TEST_SHORT_ROUNDS") != nullptr; }
bool has_far_readers() { return std::getenv("UCFT_TEST_FAR") != nullptr; }
bool lacks_places() {
  const char *rank = std::getenv("UCFT_RANK"), *lacks = std::getenv("UCFT_TEST_NO_PLACES");
  return rank != nullptr && lacks != nullptr && std::atoi(rank) == std::atoi(lacks);
}
bool has_sites() { return std::getenv("UCFT_TEST_SITES") != nullptr; }
bool stamps_all_lines() { return std::getenv("UCFT_TEST_STAMPS") != nullptr; }

bool refuses_window() {
  static std::mt19937 random(std::random_device{}());
  const char* part = std::getenv("UCFT_TEST_REFUSE");
  return part != nullptr && std::uniform_real_distribution<>()(random) < std::atof(part);
}

std::uint64_t host_of(int rank) {
  const char* ranks = std::getenv("UCFT_TEST_RANKS_PER_HOST");
  return ranks == nullptr ? 0 : static_cast<std::uint64_t>(rank / std::max(1, std::atoi(ranks)));
}

}  // namespace ucft::detail::test_points

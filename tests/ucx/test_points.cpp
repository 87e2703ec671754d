// UCFT_TEST_KILL=RANK:send|line:K ends that rank by SIGKILL before its K-th send (or line); several, with commas.
#include "ucx_layer/test_points.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

namespace ucft::test_points {

namespace {

struct Fuses {
  long sends = -1, lines = -1;   // left; negative: none

  Fuses() {
    const char* rank = std::getenv("UCFT_RANK");
    const char* plan = std::getenv("UCFT_TEST_KILL");
    if (rank == nullptr || plan == nullptr) return;
    std::string rest = plan;
    while (!rest.empty()) {
      const std::string one = rest.substr(0, rest.find(','));
      rest = one.size() < rest.size() ? rest.substr(one.size() + 1) : "";
      const auto first = one.find(':'), second = one.rfind(':');
      if (one.substr(0, first) != rank) continue;
      (one.substr(first + 1, second - first - 1) == "line" ? lines : sends) = std::stol(one.substr(second + 1));
    }
  }
};

Fuses& fuses() {
  static Fuses all;
  return all;
}

void burn(long& fuse) {
  if (fuse >= 0 && fuse-- == 0) std::raise(SIGKILL);
}

}  // namespace

void pass_send() { burn(fuses().sends); }
void pass_line() { burn(fuses().lines); }

std::uint64_t host_of(int rank) {
  const char* ranks = std::getenv("UCFT_TEST_RANKS_PER_HOST");
  return ranks == nullptr ? 0 : static_cast<std::uint64_t>(rank / std::max(1, std::atoi(ranks)));
}

}  // namespace ucft::test_points

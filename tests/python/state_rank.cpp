// A rank of python_test's job "mixed": it shares a state in C++ with ranks in Python. As donor, or as newcomer.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "ucft/ucft.hpp"

int main() try {
  ucft::Context context;
  ucft::Communicator world = ucft::Communicator::join(context, std::chrono::seconds(100));
  const bool is_new = !world.newcomers().empty();
  if (!is_new) world = world.renew(1, std::chrono::seconds(100));
  std::vector<std::byte> expected(1000), state;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::byte>(i % 251);
  if (!is_new) state = expected;
  world.share_state(state, 3);
  std::int64_t ranks = 1;
  world.allreduce(ranks, UCFT_SUM);
  if (state != expected || ranks != world.size()) return 1;
  std::printf("survived\n");
} catch (const std::exception& problem) {
  std::fprintf(stderr, "state_rank: %s\n", problem.what());
  return 1;
}

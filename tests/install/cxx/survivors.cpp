// The same as ../c/survivors.c with the C++ API: rank 2 of four kills itself half way, and survivors check their sums.
#include <csignal>
#include <cstdio>
#include <span>
#include <ucft/ucft.hpp>
#include <vector>

int main() {
  constexpr int iterations = 100, victim = 2;
  try {
    ucft::Context context;
    ucft::Communicator all(context);
    int late = 0;  // results without the victim
    for (int i = 0; i < iterations; ++i) {
      if (all.rank() == victim && i == iterations / 2) std::raise(SIGKILL);
      std::vector<double> values(10, all.rank() + 1.0);
      const ucft::Result result = all.allreduce(values, UCFT_SUM);
      double expected = all.size() * (all.size() + 1) / 2.0;
      if (result.missing == std::vector<std::int32_t>{victim}) {
        expected -= victim + 1.0;
        ++late;
      }
      if (!result.ok() || values != std::vector<double>(10, expected)) {
        std::fprintf(stderr, "survivors: iteration %d: %s, %g\n", i, ucft_status_name(result.status), values[0]);
        return 1;
      }
    }
    // A single variable: in place, into another one, from a constant, as a block.
    double one = 1, sum = 0;
    const double fixed = 2;
    std::vector<double> blocks(4);
    if (!all.allreduce(one, UCFT_SUM).ok() || one != 3 || !all.allreduce(fixed, sum, UCFT_MAX).ok() || sum != 2 ||
        !all.iallreduce(fixed, sum, UCFT_SUM).wait().ok() || sum != 6 || !all.broadcast(sum, 0).ok() ||
        !all.reduce(fixed, sum, UCFT_SUM, 0).ok() || !all.allgather(fixed, blocks).ok() || blocks[3] != 2) {
      std::fprintf(stderr, "survivors: single variables: %g %g\n", one, sum);
      return 1;
    }
    static_assert(!ucft::WritableElements<double> && !ucft::WritableElements<const double&>);
    static_assert(!ucft::LastingElements<double> && !ucft::LastingElements<std::vector<double>>);
    static_assert(ucft::LastingElements<const double&> && ucft::LastingElements<std::span<const double>>);
    static_assert(ucft::WritableElements<double&> && ucft::WritableElements<std::vector<double>&>);
    const std::vector<ucft::RankSight> seen = all.look();
    if (seen.size() != 4 || seen[victim].state != UCFT_RANK_DEAD || seen[victim].posted != iterations / 2) {
      std::fprintf(stderr, "survivors: seen of the dead: %s\n", seen[victim].text.c_str());
      return 1;
    }
    std::printf("rank %d of %d: %d sums, %d without rank %d\n", all.rank(), all.size(), iterations, late, victim);
  } catch (const ucft::Error& error) {
    std::fprintf(stderr, "survivors: %s\n", error.what());
    return 1;
  }
}

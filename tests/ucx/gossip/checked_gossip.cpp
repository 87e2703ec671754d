#include "tests/ucx/gossip/checked_gossip.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include <sched.h>

#include "tests/ucx/rank_checks.hpp"

namespace ucft::detail::test {
namespace {

template <class Real>
constexpr ucft_dtype_t dtype = sizeof(Real) == 4 ? UCFT_FLOAT : UCFT_DOUBLE;

}  // namespace

int algorithm_named(const std::string& name) {
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    if (algorithms[algorithm] == name) return algorithm;
  wrong("no algorithm '{}'", name);
}

ucft_gossip_topology_t topology_named(const std::string& name) {
  const std::map<std::string, ucft_gossip_topology_t> known = {{"complete", UCFT_GOSSIP_COMPLETE},
                                                               {"hypercube", UCFT_GOSSIP_HYPERCUBE},
                                                               {"torus_2d", UCFT_GOSSIP_TORUS_2D},
                                                               {"ring", UCFT_GOSSIP_RING},
                                                               {"bus", UCFT_GOSSIP_BUS},
                                                               {"tree", UCFT_GOSSIP_TREE},
                                                               {"random_regular", UCFT_GOSSIP_RANDOM_REGULAR}};
  const auto found = known.find(name);
  if (found == known.end()) wrong("no topology '{}'", name);
  return found->second;
}

double given(int rank, std::size_t i, int salt) {
  return 1 + rank * 3 + static_cast<double>((i * 7 + static_cast<std::size_t>(salt)) % 13);
}

ucft_gossip_options_t options_of(int algorithm, double asked) {
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.algorithm = static_cast<ucft_gossip_algorithm_t>(algorithm);
  options.eps = asked;
  const char* path = std::getenv("UCFT_TEST_GOSSIP_PATH");
  if (path != nullptr && std::strcmp(path, "message") == 0) options.path = UCFT_GOSSIP_PATH_MESSAGE;
  if (path != nullptr && std::strcmp(path, "rma") == 0 && algorithm < UCFT_GOSSIP_HPS)
    options.path = UCFT_GOSSIP_PATH_RMA;
  return options;
}

template <class Real>
CheckedGossip<Real>::CheckedGossip(const ucft_gossip_options_t& with, std::size_t count, int salted)
    : options(with), salt(salted), in(count), out(count) {
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<Real>(given(rank_, i, salt));
  check(ucft_gossip_allreduce_init(comm, in.data(), out.data(), count, dtype<Real>, &options, &request), "init");
}

template <class Real>
void CheckedGossip<Real>::post() {
  while (true) {
    const ucft_status_t status = ucft_post(request);
    if (status == UCFT_OK) return;
    expect(status, UCFT_ERR_BUSY, "post");
    check(ucft_progress(context), "progress");
    sched_yield();  // there are more ranks than cores
  }
}

template <class Real>
ucft_gossip_result_t CheckedGossip<Real>::finish(bool must_reach) {
  check(ucft_wait(request, UINT64_MAX), "wait");
  const ucft_gossip_result_t result = judge(must_reach);
  check(ucft_request_free(request), "free");
  return result;
}

template <class Real>
ucft_gossip_result_t CheckedGossip<Real>::judge(bool must_reach) {
  ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
  check(ucft_gossip_result(request, &result), "gossip_result");
  std::vector<std::int32_t> missing(static_cast<std::size_t>(size_));
  ucft_result_t plain = UCFT_RESULT_INIT;
  plain.missing = missing.data();
  plain.missing_capacity = size_;
  check(ucft_request_result(request, &plain), "request_result");
  const char* name = algorithms[options.algorithm];
  if (plain.status != UCFT_OK || plain.contributors != result.contributors ||
      plain.missing_count != size_ - static_cast<int>(result.contributors))
    wrong("{}: {} contributors, {} missing", name, plain.contributors, plain.missing_count);
  if ((result.error_bound <= options.eps) != (result.reached != 0))
    wrong("{}: bound {}, reached {}", name, result.error_bound, result.reached);
  if (options.path != UCFT_GOSSIP_PATH_AUTO && result.path != options.path)
    wrong("{}: path {}, not {}", name, static_cast<int>(result.path), static_cast<int>(options.path));
  const char* chosen =
      std::getenv("UCFT_TEST_GOSSIP_CHOSEN");  // of asynchronous ones, by the library: "message", "rma"
  if (chosen != nullptr &&
      (result.path == UCFT_GOSSIP_PATH_RMA) != (std::strcmp(chosen, "rma") == 0 && options.algorithm < UCFT_GOSSIP_HPS))
    wrong("{}: path {}", name, static_cast<int>(result.path));
  if (must_reach && result.reached == 0)
    wrong("{}, topology {}, {} values: bound {} after {} stages, {} iterations", name,
          static_cast<int>(options.topology), in.size(), result.error_bound, result.stages, result.iterations);
  std::vector<bool> is_missing(static_cast<std::size_t>(size_));
  for (int i = 0; i < plain.missing_count; ++i)
    is_missing[static_cast<std::size_t>(missing[static_cast<std::size_t>(i)])] = true;
  long double worst = 0, largest = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    long double sum = 0;
    double least = 1e300, most = -1e300;  // of all
    double low = least, high = most;      // of those that it stands for
    for (int rank = 0; rank < size_; ++rank) {
      const double value = given(rank, i, salt);
      least = std::min(least, value);
      most = std::max(most, value);
      if (is_missing[static_cast<std::size_t>(rank)]) continue;
      sum += static_cast<Real>(value);
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const long double truth = options.aggregate == UCFT_GOSSIP_SUM       ? sum
                              : options.aggregate == UCFT_GOSSIP_MINIMUM ? static_cast<long double>(low)
                              : options.aggregate == UCFT_GOSSIP_MAXIMUM ? static_cast<long double>(high)
                                                                         : sum / result.contributors;
    if (!std::isfinite(out[i])) wrong("{}: element {} is {}", name, i, out[i]);
    if (result.answer == UCFT_GOSSIP_NEARLY_ALL_RANKS) {  // of whom exactly can't be said
      const double average =
          static_cast<double>(out[i]) * (options.aggregate == UCFT_GOSSIP_SUM ? 1.0 / result.contributors : 1);
      if (!(average >= least && average <= most))
        wrong("{}: element {} is {}, outside {} .. {}", name, i, average, least, most);
    } else {
      worst = std::max(worst, std::abs(static_cast<long double>(out[i]) - truth));
      largest = std::max(largest, std::abs(truth));
    }
    note(std::bit_cast<std::uint64_t>(static_cast<double>(out[i])));
  }
  if (worst > result.error_bound * largest)
    wrong("{}: off by {} of {}, the bound is {} ({} stages, {} iterations, answer {})", name,
          static_cast<double>(worst), static_cast<double>(largest), result.error_bound, result.stages,
          result.iterations, static_cast<int>(result.answer));
  note(std::bit_cast<std::uint64_t>(result.error_bound));
  note(static_cast<std::uint64_t>(result.answer) * 1000 + result.stages);
  return result;
}

template struct CheckedGossip<float>;
template struct CheckedGossip<double>;

}  // namespace ucft::detail::test

// One rank of the jobs of gossip_test. Each result is compared with the aggregate of the ranks that it says it stands for;
// what all survivors must have in common goes into "VERDICT ...". Anything wrong: a line on stderr and exit code 1.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "tests/ucx/rank_checks.hpp"

namespace ucft::detail::test {
namespace {

constexpr const char* algorithms[] = {"push_sum", "push_flow", "pflc",  "pfcc", "pcf",
                                      "pcf_flip", "hps",       "hpflc", "ardb", "recursive_doubling"};
constexpr int algorithm_count = 10;

int algorithm_named(const std::string& name) {
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    if (algorithms[algorithm] == name) return algorithm;
  wrong("no algorithm '{}'", name);
}

template <class Real>
constexpr ucft_dtype_t dtype = sizeof(Real) == 4 ? UCFT_FLOAT : UCFT_DOUBLE;
template <class Real>
constexpr double eps = sizeof(Real) == 4 ? 1e-3 : 1e-8;
template <class Real>
constexpr double rounding = sizeof(Real) == 4 ? 1e-4 : 1e-11;  // that a bound does not cover

// What rank r gives in its place i: no two the same.
double given(int rank, std::size_t i, int salt) {
  return 1 + rank * 3 + static_cast<double>((i * 7 + static_cast<std::size_t>(salt)) % 13);
}

ucft_gossip_options_t options_of(int algorithm, double asked) {
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.algorithm = static_cast<ucft_gossip_algorithm_t>(algorithm);
  options.eps = asked;
  // "message", "rma": all that can go that way do. Else the library chooses.
  const char* path = std::getenv("UCFT_TEST_GOSSIP_PATH");
  if (path != nullptr && std::strcmp(path, "message") == 0) options.path = UCFT_GOSSIP_PATH_MESSAGE;
  if (path != nullptr && std::strcmp(path, "rma") == 0 && algorithm < UCFT_GOSSIP_HPS)
    options.path = UCFT_GOSSIP_PATH_RMA;
  return options;
}

// One operation with all that belongs to it.
template <class Real>
struct Gossip {
  ucft_gossip_options_t options;
  int salt;
  std::vector<Real> in, out;
  ucft_request_h request = UCFT_REQUEST_NULL;

  Gossip(const ucft_gossip_options_t& with, std::size_t count, int salted)
      : options(with), salt(salted), in(count), out(count) {
    for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<Real>(given(rank_, i, salt));
    check(ucft_gossip_allreduce_init(comm, in.data(), out.data(), count, dtype<Real>, &options, &request), "init");
  }
  void post() {
    while (true) {
      const ucft_status_t status = ucft_post(request);
      if (status == UCFT_OK) return;
      expect(status, UCFT_ERR_BUSY, "post");
      check(ucft_progress(context), "progress");
      sched_yield();  // there are more ranks than cores
    }
  }
  ucft_gossip_result_t finish(bool must_reach) {
    check(ucft_wait(request, UINT64_MAX), "wait");
    const ucft_gossip_result_t result = judge(must_reach);
    check(ucft_request_free(request), "free");
    return result;
  }

  ucft_gossip_result_t judge(bool must_reach) {
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
    if (chosen != nullptr && (result.path == UCFT_GOSSIP_PATH_RMA) !=
                                 (std::strcmp(chosen, "rma") == 0 && options.algorithm < UCFT_GOSSIP_HPS))
      wrong("{}: path {}", name, static_cast<int>(result.path));
    if (must_reach && result.reached == 0)
      wrong("{}, topology {}, {} values: bound {} after {} stages, {} iterations", name,
            static_cast<int>(options.topology), in.size(), result.error_bound, result.stages, result.iterations);
    std::vector<bool> is_missing(static_cast<std::size_t>(size_));
    for (int i = 0; i < plain.missing_count; ++i)
      is_missing[static_cast<std::size_t>(missing[static_cast<std::size_t>(i)])] = true;
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      double sum = 0, least = 1e300, most = -1e300;
      for (int rank = 0; rank < size_; ++rank) {
        const double value = given(rank, i, salt);
        least = std::min(least, value);
        most = std::max(most, value);
        if (!is_missing[static_cast<std::size_t>(rank)]) sum += value;
      }
      const double factor = options.aggregate == UCFT_GOSSIP_SUM ? 1 : 1.0 / result.contributors;
      if (!std::isfinite(out[i])) wrong("{}: element {} is {}", name, i, out[i]);
      if (result.answer == UCFT_GOSSIP_NEARLY_ALL_RANKS) {  // of whom exactly can't be said
        const double average =
            static_cast<double>(out[i]) * (options.aggregate == UCFT_GOSSIP_SUM ? 1.0 / result.contributors : 1);
        if (!(average >= least && average <= most))
          wrong("{}: element {} is {}, outside {} .. {}", name, i, average, least, most);
      } else {
        worst = std::max(worst, std::abs(static_cast<double>(out[i]) - sum * factor));
        largest = std::max(largest, std::abs(sum * factor));
      }
      note(std::bit_cast<std::uint64_t>(static_cast<double>(out[i])));
    }
    if (worst > (result.error_bound + rounding<Real>)*largest)
      wrong("{}: off by {} of {}, the bound is {} ({} stages, {} iterations, answer {})", name, worst, largest,
            result.error_bound, result.stages, result.iterations, static_cast<int>(result.answer));
    note(std::bit_cast<std::uint64_t>(result.error_bound));
    note(static_cast<std::uint64_t>(result.answer) * 1000 + result.stages);
    return result;
  }
};

std::vector<ucft_gossip_topology_t> topologies() {
  std::vector<ucft_gossip_topology_t> all{UCFT_GOSSIP_COMPLETE, UCFT_GOSSIP_RING, UCFT_GOSSIP_BUS, UCFT_GOSSIP_TREE};
  if ((size_ & (size_ - 1)) == 0) all.push_back(UCFT_GOSSIP_HYPERCUBE);
  if (size_ == 4 || size_ == 8) all.push_back(UCFT_GOSSIP_TORUS_2D);
  if (size_ == 8) all.insert(all.end(), {UCFT_GOSSIP_TORUS_3D, UCFT_GOSSIP_RANDOM_REGULAR});
  return all;
}

template <class Real>
void all_algorithms_in() {
  int salt = 0;
  const auto places = topologies();
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    for (std::size_t count : {1u, 3u, 1000u})
      for (ucft_gossip_stop_t stop : {UCFT_GOSSIP_ROUNDS, UCFT_GOSSIP_ADAPTIVE}) {
        ucft_gossip_options_t options = options_of(algorithm, eps<Real>);
        options.stop = stop;
        options.topology = places[static_cast<std::size_t>(salt) % places.size()];
        options.aggregate = salt % 2 == 0 ? UCFT_GOSSIP_AVERAGE : UCFT_GOSSIP_SUM;
        Gossip<Real> gossip(options, count, ++salt);
        gossip.post();
        gossip.finish(stop == UCFT_GOSSIP_ADAPTIVE);
      }
}

// Every algorithm, every topology that there is for so many ranks, both types, both ways to stop.
void all(const std::vector<std::string>&) {
  all_algorithms_in<double>();
  all_algorithms_in<float>();
}

// Every algorithm on the complete topology, with rows of one line and of many.
void each(const std::vector<std::string>&) {
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm)
    for (std::size_t count : {1u, 700u}) {
      Gossip<double> gossip(options_of(algorithm, 1e-8), count, algorithm);
      gossip.post();
      gossip.finish(true);
    }
}

// More gossip operations than may be in flight, ordinary ones beside them; estimates are asked for meanwhile.
void several(const std::vector<std::string>&) {
  const ucft_operator_t sum = UCFT_OPERATOR_INIT(UCFT_SUM);
  for (int round = 0; round < 10; ++round) {
    std::vector<Gossip<double>> gossips;
    for (int i = 0; i < 6; ++i)
      gossips.emplace_back(options_of((round + i) % algorithm_count, 1e-6), i % 2 == 0 ? 5 : 700, round + i);
    std::uint64_t one[6], out[6];
    ucft_request_h plain[6];
    for (std::size_t i = 0; i < 6; ++i) {
      one[i] = 1;
      check(ucft_allreduce_init(comm, &one[i], &out[i], 1, UCFT_UINT64, &sum, nullptr, &plain[i]), "init");
      gossips[i].post();
      while (ucft_post(plain[i]) == UCFT_ERR_BUSY) check(ucft_progress(context), "progress");
    }
    for (std::size_t i = 6; i-- > 0;) {
      check(ucft_wait(plain[i], UINT64_MAX), "wait");
      if (out[i] != static_cast<std::uint64_t>(size_)) wrong("sum {}", out[i]);
      check(ucft_request_free(plain[i]), "free");
    }
    for (auto& each : gossips) {
      std::vector<double> now(each.in.size());
      double expected = 0;
      while (ucft_test(each.request) == UCFT_INPROGRESS) {
        check(ucft_gossip_estimate(each.request, now.data(), &expected), "estimate");
        for (double value : now)
          if (!std::isfinite(value)) wrong("estimate {}", value);
        sched_yield();
        if (!(expected >= 0)) wrong("expected error {}", expected);
      }
      check(ucft_gossip_estimate(each.request, now.data(), &expected), "estimate");
      if (now != each.out) wrong("the last estimate is not the result");
      ucft_gossip_result_t result = each.finish(true);
      if (expected != result.error_bound)
        wrong("error estimate {} after the end, bound {}", expected, result.error_bound);
    }
  }
}

// Two operations, which some ranks post together and others one after the other: whose memory goes with whose differs from
// one to the next.
void overlap(const std::vector<std::string>&) {
  for (int algorithm = 0; algorithm < 6; ++algorithm)
    for (int i = 0; i < 20; ++i) {
      Gossip<double> first(options_of(algorithm, 1e-6), 2, i), second(options_of(algorithm, 1e-6), 2, i + 1);
      first.post();
      if ((rank_ + i / 5) % 2 == 0) check(ucft_wait(first.request, UINT64_MAX), "wait");
      second.post();
      if ((rank_ + i / 5) % 2 != 0) check(ucft_wait(first.request, UINT64_MAX), "wait");
      first.judge(true);
      check(ucft_request_free(first.request), "free");
      second.finish(true);
    }
}

// death ALGORITHM COUNT OPERATIONS: somebody dies meanwhile.
void death(const std::vector<std::string>& arguments) {
  const int algorithm = algorithm_named(arguments.at(0));
  for (int i = 0; i < std::stoi(arguments.at(2)); ++i) {
    ucft_gossip_options_t options = options_of(algorithm, 1e-8);
    if (i % 2 == 1) options.aggregate = UCFT_GOSSIP_SUM;
    Gossip<double> gossip(options, std::stoul(arguments.at(1)), i);
    gossip.post();
    gossip.finish(true);
  }
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

// cut ALGORITHM TOPOLOGY STOP MOST POLLS VICTIM..: after the first operation the victims die, so many polls into the next one (or
// before it, -1). All later ones reach their accuracy all the same, in at most so many stages; those that began after the
// deaths have the answer of the survivors.
void cut(const std::vector<std::string>& arguments) {
  const int algorithm = algorithm_named(arguments.at(0));
  const bool adaptive = arguments.at(2) == "adaptive";
  const int polls = std::stoi(arguments.at(4));
  const bool dies = std::find(arguments.begin() + 5, arguments.end(), std::to_string(rank_)) != arguments.end();
  const auto victims = static_cast<std::uint32_t>(arguments.size() - 5);
  bool all_known = false;
  for (int i = 0; i < 6; ++i) {
    ucft_gossip_options_t options = options_of(algorithm, 1e-8);
    options.topology = topology_named(arguments.at(1));
    options.stop = adaptive ? UCFT_GOSSIP_ADAPTIVE : UCFT_GOSSIP_ROUNDS;
    if (i % 2 == 1) options.aggregate = UCFT_GOSSIP_SUM;
    if (!adaptive) options.rounds = 1000;
    if (dies && i == 1 && polls < 0) std::raise(SIGKILL);
    Gossip<double> gossip(options, i % 2 == 0 ? 3 : 300, i);
    gossip.post();
    if (dies && i == 1) {
      for (int poll = 0; poll < polls; ++poll) ucft_test(gossip.request);
      std::raise(SIGKILL);
    }
    const ucft_gossip_result_t result = gossip.finish(true);
    if (result.stages > std::stoul(arguments.at(3)))
      wrong("operation {}: {} stages, {} iterations", i, result.stages, result.iterations);
    // The deaths of operation 1 may be noticed after it; the next one is over when everybody alive has taken part in it.
    const std::uint32_t left = static_cast<std::uint32_t>(size_) - victims;
    if (all_known && (result.answer != UCFT_GOSSIP_SURVIVORS || result.contributors != left ||
                      result.live_ranks != static_cast<std::int32_t>(left)))
      wrong("operation {}: answer {}, {} contributors, {} live", i, static_cast<int>(result.answer),
            result.contributors, result.live_ranks);
    all_known = result.live_ranks == static_cast<std::int32_t>(left);
    if (i > 1 && !all_known) wrong("operation {}: {} live", i, result.live_ranks);
  }
}

// late ALGORITHM TOPOLOGY VICTIM: it dies when it has long had the average of all. What the others go on to is that one, which
// its value is in, and not the survivors'.
void late(const std::vector<std::string>& arguments) {
  ucft_gossip_options_t options = options_of(algorithm_named(arguments.at(0)), 1e-8);
  options.topology = topology_named(arguments.at(1));
  options.stop = UCFT_GOSSIP_ROUNDS;
  options.rounds = 2000;
  const int victim = std::stoi(arguments.at(2));
  Gossip<double> gossip(options, 3, 0);
  gossip.post();
  const double average =
      given((size_ - 1), 0, 0) / 2 + given(0, 0, 0) / 2;  // of element 0: given() grows with the rank by the same
  if (rank_ == victim) {
    std::vector<double> now(3);
    double expected = 0;
    for (int near = 0; near < 50;) {
      if (ucft_test(gossip.request) != UCFT_INPROGRESS) wrong("over before the victim was near");
      check(ucft_gossip_estimate(gossip.request, now.data(), &expected), "estimate");
      near = std::abs(now[0] - average) < 1e-6 ? near + 1 : 0;
    }
    std::raise(SIGKILL);
  }
  const ucft_gossip_result_t result = gossip.finish(true);
  if (result.answer != UCFT_GOSSIP_NEARLY_ALL_RANKS || result.contributors != static_cast<std::uint32_t>(size_) ||
      result.live_ranks != size_ - 1)
    wrong("answer {}, {} contributors, {} live", static_cast<int>(result.answer), result.contributors,
          result.live_ranks);
  const double without = (average * size_ - given(victim, 0, 0)) / (size_ - 1);
  if (!(std::abs(gossip.out[0] - average) < 0.1 * std::abs(without - average)))
    wrong("{} after {} stages: of all it is {}, of the survivors {}", gossip.out[0], result.stages, average, without);
}

// stages MOST: so many are enough where each link is used as often as the others. On a tree each link is the only way.
void stages(const std::vector<std::string>& arguments) {
  for (int i = 0; i < 2; ++i)
    for (const ucft_gossip_algorithm_t algorithm : {UCFT_GOSSIP_PUSH_SUM, UCFT_GOSSIP_PFCC, UCFT_GOSSIP_PCF}) {
      ucft_gossip_options_t options = options_of(algorithm, 1e-8);
      options.topology = UCFT_GOSSIP_TREE;
      Gossip<double> gossip(options, 3, i);
      gossip.post();
      const ucft_gossip_result_t result = gossip.finish(true);
      if (result.stages > std::stoul(arguments.at(0))) wrong("{}: {} stages", algorithms[algorithm], result.stages);
    }
}

// stopped ALGORITHM: rank 1 stops in the middle; the others kill it when it has been silent for too long, and go on.
void stopped(const std::vector<std::string>& arguments) {
  const int algorithm = algorithm_named(arguments.at(0));
  for (int i = 0; i < 6; ++i) {
    Gossip<double> gossip(options_of(algorithm, 1e-8), 500, i);
    gossip.post();
    if (rank_ == 1 && i == 3) {
      for (int polls = 0; polls < 20; ++polls) ucft_test(gossip.request);
      std::raise(SIGSTOP);
    }
    gossip.finish(true);
  }
}

// excluded ALGORITHM: without fencing rank 1, which stops, is only suspected; the others go on without it, in memory that it
// knew. When it wakes up it may still write, which must harm nobody, and is told that it is out. (The others go on until
// it has had its time.)
void excluded(const std::vector<std::string>& arguments) {
  const int algorithm = algorithm_named(arguments.at(0));
  if (rank_ == 1) {
    Gossip<double> gossip(options_of(algorithm, 1e-8), 500, 0);
    gossip.post();
    for (int polls = 0; polls < 40; ++polls) ucft_test(gossip.request);
    stop_for(1500);
    const ucft_status_t status = ucft_wait(gossip.request, UINT64_MAX);
    expect(status == UCFT_OK ? go_on(100000) : status, UCFT_ERR_EXCLUDED, "a rank that the others gave up");
    return;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::uint64_t over = 0;
  for (int i = 0; over == 0; ++i) {
    Gossip<double> gossip(options_of(algorithm, 1e-8), 500, i);
    gossip.post();
    gossip.finish(true);
    const std::uint64_t mine = std::chrono::steady_clock::now() > end;
    check(ucft_allreduce(comm, &mine, &over, 1, UCFT_UINT64, UCFT_MAX, nullptr, nullptr), "allreduce");
  }
}

// Where some neighbour is out of reach of one-sided writes all are told so, and by messages it works.
void unsupported(const std::vector<std::string>&) {
  double in = 1, out = 0;
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  for (int i = 0; i < 3; ++i) {
    options.path = UCFT_GOSSIP_PATH_RMA;
    expect(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), UCFT_ERR_UNSUPPORTED,
           "one-sided");
    const std::string culprit = fmt::format("rank {} ", size_ - 1);
    if (std::strstr(ucft_last_error(), "UCFT_GOSSIP_PATH_RMA") == nullptr ||
        std::strstr(ucft_last_error(), culprit.c_str()) == nullptr)
      wrong("the message names nobody: {}", ucft_last_error());
    options.path = UCFT_GOSSIP_PATH_MESSAGE;
    check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), "by messages");
    if (!(std::abs(out - 1) < 1e-6)) wrong("by messages: {}", out);
  }
}

// Where windows can't be mapped, and were asked for.
void no_memory(const std::vector<std::string>&) {
  double in = 1, out = 0;
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.path = UCFT_GOSSIP_PATH_RMA;
  expect(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, nullptr), UCFT_ERR_NO_MEMORY, "one-sided");
  if (std::strstr(ucft_last_error(), "rank ") == nullptr) wrong("the message names nobody: {}", ucft_last_error());
}

// Communicators with gossip in them come and go; a persistent request is posted again.
void communicators(const std::vector<std::string>&) {
  const ucft_comm_h world = comm;
  for (int i = 0; i < 12; ++i) {
    check(ucft_comm_dup(world, &comm), "dup");
    Gossip<double> gossip(options_of(i % algorithm_count, 1e-6), 3, i);
    for (int again = 0; again < 7; ++again) {
      gossip.post();
      check(ucft_wait(gossip.request, UINT64_MAX), "wait");
      gossip.judge(true);
    }
    check(ucft_request_free(gossip.request), "free");
    check(ucft_comm_destroy(comm), "destroy");
  }
  comm = world;
}

void mismatch(const std::vector<std::string>& arguments) {
  const std::string& what = arguments.at(0);
  const bool odd = rank_ == size_ - 1;
  std::vector<double> in(9, 1), out(9);
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  if (odd && what == "algorithm") options.algorithm = UCFT_GOSSIP_HPS;
  if (odd && what == "eps") options.eps = 1e-3;
  if (odd && what == "seed") options.seed = 3;
  if (odd && what == "path") options.path = UCFT_GOSSIP_PATH_RMA;
  const std::uint64_t count = odd && what == "count" ? 9 : 8;
  const ucft_dtype_t type = odd && what == "type" ? UCFT_FLOAT : UCFT_DOUBLE;
  expect(ucft_gossip_allreduce(comm, in.data(), out.data(), count, type, &options, nullptr), UCFT_ERR_MISMATCH,
         what.c_str());
  for (int i = 0; i < 5; ++i) {
    Gossip<double> gossip(options_of(i, 1e-6), 2, i);
    gossip.post();
    gossip.finish(true);
  }
}

// Values around 0 have no relative error to reach, and values that are no numbers no aggregate: both end, and say so.
void awkward(const std::vector<std::string>&) {
  for (int algorithm = 0; algorithm < algorithm_count; ++algorithm) {
    ucft_gossip_options_t options = options_of(algorithm, 1e-6);
    options.stop = UCFT_GOSSIP_ROUNDS;
    ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
    double in = rank_ == 0 ? std::nan("") : 1, out = 0;
    check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, &result), "NaN");
    if (result.reached != 0 || result.error_bound != HUGE_VAL || !std::isnan(out))
      wrong("NaN: {}, bound {}", out, result.error_bound);
    in = 0;
    check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, &result), "zero");
    if (out != 0 || result.error_bound != 0 || result.reached == 0)
      wrong("zero: {} with bound {}", out, result.error_bound);
  }
}

}  // namespace
}  // namespace ucft::detail::test

int main(int argc, char** argv) {
  using namespace ucft::detail::test;
  const std::map<std::string, std::function<void(const std::vector<std::string>&)>> scenarios = {
      {"all", all},
      {"each", each},
      {"several", several},
      {"overlap", overlap},
      {"death", death},
      {"stopped", stopped},
      {"communicators", communicators},
      {"mismatch", mismatch},
      {"awkward", awkward},
      {"excluded", excluded},
      {"unsupported", unsupported},
      {"no_memory", no_memory},
      {"stages", stages},
      {"cut", cut},
      {"late", late}};
  const std::string scenario = argc > 1 ? argv[1] : "";
  const auto found = scenarios.find(scenario);
  if (found == scenarios.end()) wrong("no scenario '{}'", scenario);
  check(ucft_context_create(nullptr, &context), "context");
  check(ucft_comm_create(context, &comm), "comm");
  check(ucft_comm_rank(comm, &rank_), "rank");
  check(ucft_comm_size(comm, &size_), "size");
  found->second(std::vector<std::string>(argv + 2, argv + argc));
  check(ucft_context_destroy(context), "destroy");
  fmt::print("VERDICT {} {:x}\n", scenario, noted());
  return 0;
}

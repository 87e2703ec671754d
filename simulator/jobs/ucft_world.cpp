// ucft_world: whole jobs of the library in a simulated machine, each drawn by a seed and judged.
#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "simulator/jobs/job.hpp"
#include "simulator/jobs/many_jobs.hpp"
#include "simulator/jobs/situations.hpp"
#include "ucft/ucft.h"

namespace {

using namespace ucft;
using jobs::JobPlan;
using jobs::JobResult;

struct Options {
  std::string seed;
  std::uint64_t jobs = 1;
  int workers = 0;
  int steps = -1, ranks = -1;
  std::vector<int> without;
  std::string history, log;
  bool has_newcomers = false;
  bool as_json = false, verbose = false, until_bad = false, shrinks = false, lists_situations = false;
};

// Of a rank or host that there is.
bool is_there(const jobs::PlannedFault& fault, const JobPlan& plan) {
  const int end = fault.is_of_host() ? plan.hosts.back() + 1 : plan.ranks();
  const bool is_of_two = fault.kind == jobs::Fault::cut || fault.kind == jobs::Fault::connection;
  return fault.who < end && (!is_of_two || fault.other < end);
}

// The plan without the things that --shrink leaves out.
JobPlan changed(JobPlan plan, const Options& options) {
  if (!options.log.empty()) plan.environment["UCFT_LOG"] = options.log;
  if (options.steps >= 0) plan.steps = options.steps;
  if (options.ranks > 0 && options.ranks < plan.ranks()) plan.hosts.resize(static_cast<std::size_t>(options.ranks));
  if (plan.late >= plan.ranks()) plan.late = -1;
  if (plan.missing >= plan.ranks()) plan.missing = -1;
  std::erase_if(plan.strangers, [&](const JobPlan::Stranger& each) { return each.rank >= plan.ranks(); });
  std::vector<jobs::PlannedFault> left;
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    const bool is_left_out = std::ranges::find(options.without, static_cast<int>(i)) != options.without.end();
    if (!is_left_out && is_there(plan.faults[i], plan)) left.push_back(plan.faults[i]);
  }
  plan.faults = std::move(left);
  return plan;
}

void write_histories(const std::string& directory, const JobResult& result) {
  std::filesystem::create_directories(directory);
  if (!result.log.empty()) std::ofstream(std::filesystem::path(directory) / "log") << result.log;
  for (const judge::RankHistory& each : result.histories) {
    std::ofstream file(std::filesystem::path(directory) / ("rank." + std::to_string(each.rank)));
    file << judge::text_of(each);
    if (!file) throw std::runtime_error("a history can't be written to " + directory);
  }
}

std::string words_of(const JobPlan& plan, const JobResult& result) {
  std::string text = described(plan);
  text += fmt::format("  {} calls, {} faults, {:.6f} s, history {:016x}\n", result.calls, result.faults,
                      static_cast<double>(result.lasted) / 1e9, result.hash);
  for (const judge::Violation& each : result.violations) text += fmt::format("  {}: {}\n", each.rule, each.text);
  return text;
}

std::string json_of(const JobPlan& plan, const JobResult& result) {
  nlohmann::json violations = nlohmann::json::array();
  for (const judge::Violation& each : result.violations)
    violations.push_back({{"rule", each.rule}, {"text", each.text}});
  return nlohmann::json{{"seed", fmt::format("{:016x}", plan.seed)},
                        {"ranks", plan.ranks()},
                        {"calls", result.calls},
                        {"faults", result.faults},
                        {"virtual_s", static_cast<double>(result.lasted) / 1e9},
                        {"history", fmt::format("{:016x}", result.hash)},
                        {"violations", violations}}
             .dump() +
         "\n";
}

jobs::Outcome run_job(const Options& options, std::uint64_t seed) {
  const JobPlan plan = changed(jobs::plan_of(seed, options.has_newcomers), options);
  const JobResult result = jobs::run(plan);
  if (!options.history.empty()) write_histories(options.history, result);
  const bool is_bad = !result.violations.empty();
  jobs::Outcome outcome{result.calls, result.faults, result.lasted, is_bad, {}, jobs::times_of_situations()};
  if (options.jobs == 1)
    outcome.words = options.as_json ? json_of(plan, result) : words_of(plan, result);
  else if (!options.as_json && (is_bad || options.verbose))
    outcome.words = words_of(plan, result);
  return outcome;
}

// Those of the fewest jobs first.
std::string words_of_situations(const std::vector<std::uint64_t>& jobs_in) {
  std::vector<std::pair<std::uint64_t, std::string>> rows;
  for (std::size_t i = 0; i < jobs_in.size(); ++i) rows.emplace_back(jobs_in[i], jobs::name_of_situation(i));
  std::ranges::sort(rows);
  std::string text = "    jobs  situation\n";
  for (const auto& [jobs, name] : rows) text += fmt::format("{:8}  {}\n", jobs, name);
  return text;
}

std::string words_of(const Options& options, std::uint64_t first, const jobs::Totals& totals, double real_s) {
  if (!options.as_json)
    return fmt::format(
        "{} jobs from seed {:016x} on, {} calls, {} faults, {} of {} situations, {} bad; {:.1f} s, {:.1f} jobs a "
        "second\n",
        totals.begun, first, totals.calls, totals.faults, totals.jobs_in.size() - std::ranges::count(totals.jobs_in, 0),
        totals.jobs_in.size(), totals.bad.size(), real_s, static_cast<double>(totals.begun) / real_s);
  nlohmann::json situations = nlohmann::json::object();
  for (std::size_t i = 0; i < totals.jobs_in.size(); ++i) situations[jobs::name_of_situation(i)] = totals.jobs_in[i];
  nlohmann::json bad = nlohmann::json::array();
  for (const std::uint64_t each : totals.bad) bad.push_back(fmt::format("{:016x}", each));
  return nlohmann::json{{"seed", fmt::format("{:016x}", first)},
                        {"jobs", totals.begun},
                        {"calls", totals.calls},
                        {"faults", totals.faults},
                        {"virtual_s", static_cast<double>(totals.lasted) / 1e9},
                        {"real_s", real_s},
                        {"situations", situations},
                        {"bad", bad}}
             .dump() +
         "\n";
}

int run_all(const Options& options, std::uint64_t first) {
  const auto begin = std::chrono::steady_clock::now();
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const jobs::Totals totals = jobs::run_many(
      first, options.jobs, options.workers > 0 ? options.workers : cores, options.until_bad,
      [&](std::uint64_t seed) { return run_job(options, seed); },
      [](const std::string& words) {
        fmt::print("{}", words);
        std::fflush(stdout);
      });
  if (!options.as_json)
    for (const std::uint64_t each : totals.crashed)
      fmt::print("{}", described(changed(jobs::plan_of(each, options.has_newcomers), options)));
  const double real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.lists_situations && !options.as_json) fmt::print("{}", words_of_situations(totals.jobs_in));
  if (options.jobs > 1) fmt::print("{}", words_of(options, first, totals, real_s));
  return totals.bad.empty() ? 0 : 1;
}

// How a job fails: the first rule that it breaks, or "crash"; empty: it does not. Its process is its own.
std::string failure_of(const Options& options, std::uint64_t seed) {
  std::string rule;
  const auto run = [&](std::uint64_t each) {
    const JobResult result = jobs::run(changed(jobs::plan_of(each, options.has_newcomers), options));
    const bool is_bad = !result.violations.empty();
    return jobs::Outcome{0, 0, 0, is_bad, is_bad ? result.violations.front().rule : std::string(), {}};
  };
  const jobs::Totals totals = jobs::run_many(seed, 1, 1, false, run, [&](const std::string& words) { rule = words; });
  return totals.crashed.empty() ? rule : "crash";
}

// Fewer faults, ranks and steps, as long as the job fails in the same way.
int shrink(Options options, std::uint64_t seed) {
  const std::string failure = failure_of(options, seed);
  const auto take_if_bad = [&](const Options& tried) {
    const bool took = failure_of(tried, seed) == failure;
    if (took) options = tried;
    return took;
  };
  if (failure.empty()) {
    fmt::print("the job of this seed breaks no promise\n");
    return 0;
  }
  const JobPlan plan = jobs::plan_of(seed, options.has_newcomers);
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    if (std::ranges::find(options.without, static_cast<int>(i)) != options.without.end()) continue;
    Options tried = options;
    tried.without.push_back(static_cast<int>(i));
    take_if_bad(tried);
  }
  for (int ranks = changed(plan, options).ranks() - 1; ranks > 0; --ranks) {
    Options tried = options;
    tried.ranks = ranks;
    take_if_bad(tried);
  }
  int steps = options.steps >= 0 ? options.steps : plan.steps;
  for (int less = (steps + 1) / 2; less > 0; less = less > 1 ? (less + 1) / 2 : 0) {
    Options tried = options;
    while (steps >= less && (tried.steps = steps - less, take_if_bad(tried))) steps -= less;
  }
  std::string command = fmt::format("build/bin/ucft_world --seed {:016x}", seed);
  if (options.has_newcomers) command += " --newcomers";
  if (options.steps >= 0) command += fmt::format(" --steps {}", options.steps);
  if (options.ranks > 0) command += fmt::format(" --ranks {}", options.ranks);
  for (const int each : options.without) command += fmt::format(" --without {}", each);
  fmt::print("{}\n", command);
  return 1;
}

std::uint64_t drawn_seed() {
  std::random_device random;
  return static_cast<std::uint64_t>(random()) << 32 | random();
}

int run(int argc, char** argv) {
  CLI::App app{
      "Runs whole jobs of ucft in a simulated machine: threads, memory, processes, sockets and UCX under virtual time, "
      "with faults, all drawn by a seed. The judge (docs/failure_model.md) reads what the ranks got. Exit code 1: a "
      "job has broken a promise.",
      "ucft_world"};
  Options options;
  app.set_version_flag("--version", UCFT_VERSION_STRING);
  app.add_option("--seed", options.seed,
                 "Of the first job, up to 16 hexadecimal digits; the next ones count up (default: drawn, and printed)")
      ->check([](const std::string& text) {
        const bool is_one =
            !text.empty() && text.size() <= 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
        return is_one ? "" : fmt::format("'{}' is no number of up to 16 hexadecimal digits (0-9, a-f)", text);
      });
  auto* const jobs = app.add_option("--jobs", options.jobs, "How many")->check(CLI::PositiveNumber);
  app.add_option("--workers", options.workers, "Processes that run jobs at a time (default: one for each core)")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "Of each rank, instead of those that are drawn")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ranks", options.ranks, "The first ones alone")->check(CLI::PositiveNumber);
  app.add_option("--without", options.without, "Leaves out the fault of that number, from 0");
  app.add_option("--history", options.history,
                 "Writes the ranks' histories into that directory (ucft_judge reads them)")
      ->excludes(jobs);
  app.add_flag("--newcomers", options.has_newcomers, "In each job, not in one of six, newcomers come");
  app.add_option("--log", options.log, "UCFT_LOG of the ranks");
  app.add_flag("--json", options.as_json, "Results as a line of JSON");
  app.add_flag("--situations", options.lists_situations,
               "Lists the situations that are named in the library, each with the jobs in which it has happened");
  app.add_flag("--until-bad", options.until_bad, "Begins no job after one that has broken a promise");
  app.add_flag("--verbose", options.verbose, "Describes each job");
  app.add_flag("--shrink", options.shrinks, "Looks for a smaller job that breaks a promise; prints its command")
      ->excludes(jobs);
  CLI11_PARSE(app, argc, argv);
  const std::uint64_t first = options.seed.empty() ? drawn_seed() : std::strtoull(options.seed.c_str(), nullptr, 16);
  if (options.shrinks) return shrink(options, first);
  return run_all(options, first);
}

}  // namespace

int main(int argc, char** argv) {
  ucft::jobs::stand_still(argv);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ucft_world: {}\n", error.what());
    return 2;
  }
}

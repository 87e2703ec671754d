// Jobs of random calls, in which ranks die, judged by what the ranks wrote down: simulator/judge shares no code with
// the library.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "simulator/judge/judge.hpp"
#include "simulator/judge/random_calls.hpp"
#include "tests/ucx/job.hpp"
#include "tests/ucx/ranks.hpp"

namespace ucft::detail::test {
namespace {

std::int32_t number_in(const char* name, std::int32_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

judge::RankHistory head_of_this_rank() {
  judge::RankHistory head;
  head.rank = rank_;
  head.ranks = size_;
  head.f = number_in("UCFT_F", 1);
  const bool only_tcp = std::string(std::getenv("UCX_TLS") == nullptr ? "" : std::getenv("UCX_TLS")) == "tcp",
             by_messages = only_tcp || std::getenv("UCFT_ALGORITHM") != nullptr;
  head.reads_memory = !by_messages && std::getenv("UCFT_FENCE") == nullptr;
  // Where ranks share nothing each counts against f.
  head.host = by_messages ? rank_ : rank_ / number_in("UCFT_TEST_RANKS_PER_HOST", size_);
  return head;
}

// random_calls SEED STEPS DIRECTORY [awake]. awake: none stops itself. (A parent like nsenter stops with it, for good.)
RANKS(random_calls) {
  judge::FileRecorder recorder(arguments.at(2), head_of_this_rank());
  const bool may_stop = arguments.size() < 4;
  const judge::RandomCalls::Around around{&say_started, [may_stop](std::chrono::milliseconds time) {
                                            if (may_stop) stop_for(static_cast<unsigned>(time.count()));
                                          }};
  try {
    judge::RandomCalls(std::stoull(arguments.at(0)), context, comm, recorder, around).run(std::stoi(arguments.at(1)));
  } catch (const std::logic_error& error) {
    wrong("{}", error.what());
  }
  context = nullptr;  // it has left
}

class Judged : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, Judged, testing::ValuesIn(all_transports()),
                         [](const auto& each) { return std::string(each.param); });

unsigned long first_seed() {
  const char* given = std::getenv("UCFT_KILL_SEED");
  return given == nullptr ? 20261129u : std::strtoul(given, nullptr, 10);
}

// The histories of a job that breaks a promise stay where they are.
void expect_kept(const JobPlan& plan, const std::filesystem::path& histories, const std::vector<int>& may_be_dead) {
  std::string text;
  const std::string ran = what_is_wrong(plan, run_job(plan), may_be_dead);
  if (!std::filesystem::is_empty(histories))
    for (const judge::Violation& each : judge::judge(judge::read_job(histories), may_be_dead))
      text += each.rule + ": " + each.text + "\n";
  EXPECT_EQ(ran + text, "") << words_of(plan);
  if (ran.empty() && text.empty()) std::filesystem::remove_all(histories);
}

std::filesystem::path new_directory() {
  std::string name = std::filesystem::temp_directory_path() / "ucft_histories_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  return name;
}

// The job of a seed: which ranks die and when, and settings under which other ways are taken. In a third of the jobs
// nobody dies, in the others one or two ranks.
struct DrawnJob {
  JobPlan plan;
  std::vector<int> victims;
};

DrawnJob drawn_job(unsigned long seed, const std::string& transport, const std::filesystem::path& histories) {
  std::mt19937_64 random(seed);
  const auto one_in = [&](unsigned many) { return random() % many == 0; };
  const int ranks = one_in(8) ? 8 + static_cast<int>(random() % 6) : 2 + static_cast<int>(random() % 6);
  DrawnJob job{{ranks, "random_calls", {std::to_string(seed), "60", histories}, {}, over(transport)}, {}};
  auto& environment = job.plan.environment;
  if (spans_hosts(transport)) environment["UCFT_TEST_RANKS_PER_HOST"] = std::to_string(1 + random() % 3);
  if (needs_ucx(transport) && one_in(3)) environment["UCFT_CONNECT_ALL"] = "0";
  if (one_in(3)) environment["UCFT_WINDOW"] = std::to_string(2 + random() % 4);
  if (one_in(3)) environment["UCFT_F"] = std::to_string(random() % 3);
  if (one_in(3)) environment["UCFT_TUNING_FILE"] = table_of_a_tree;
  std::string kills;
  for (int deaths = static_cast<int>(random() % 3); deaths > 0; --deaths) {
    const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    if (!job.victims.empty() && job.victims.front() == victim) continue;
    job.victims.push_back(victim);
    kills += (kills.empty() ? "" : ",") + std::to_string(victim) + ":send:" + std::to_string(random() % 300);
    job.plan.launcher.insert(job.plan.launcher.end(), {"--expect-kill", std::to_string(victim)});
  }
  if (!kills.empty()) environment["UCFT_TEST_KILL"] = kills;
  return job;
}

TEST_P(Judged, RandomCallsKeepAllPromises) {
  for (int run = 0; run < runs(20); ++run) {
    const std::filesystem::path histories = new_directory();
    const DrawnJob job = drawn_job(first_seed() + static_cast<unsigned long>(run), GetParam(), histories);
    expect_kept(job.plan, histories, job.victims);
  }
}

}  // namespace
}  // namespace ucft::detail::test

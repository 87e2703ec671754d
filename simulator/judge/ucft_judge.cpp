// ucft_judge: whether jobs kept the promises of docs/failure_model.md, by the histories that their ranks wrote.
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "simulator/judge/judge.hpp"
#include "ucft/ucft.h"

using namespace ucft::judge;

namespace {

struct Asked {
  std::vector<std::string> jobs;
  std::vector<std::int32_t> may_be_dead;
  bool json = false;
};

// How many promises were broken.
std::size_t judge_job(const std::string& directory, const Asked& asked) {
  const std::vector<RankHistory> job = read_job(directory);
  const std::vector<Violation> violations = judge(job, asked.may_be_dead);
  std::size_t calls = 0;
  for (const RankHistory& each : job) calls += each.calls.size();
  if (asked.json) {
    nlohmann::json line{{"job", directory}, {"ranks", job.size()}, {"calls", calls}};
    line["violations"] = nlohmann::json::array();
    for (const Violation& each : violations) line["violations"].push_back({{"rule", each.rule}, {"text", each.text}});
    fmt::print("{}\n", line.dump());
  } else {
    for (const Violation& each : violations) fmt::print("{}: {}: {}\n", directory, each.rule, each.text);
    fmt::print("{}: {} ranks, {} calls, {} violations\n", directory, job.size(), calls, violations.size());
  }
  return violations.size();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Judges jobs by the histories that their ranks wrote: whether each call ended, survivors agree, results are "
      "what\n"
      "their contributors gave, and nothing else of docs/failure_model.md was broken.\n"
      "Exit code: 0 if all promises were kept, 1 if not, 2: wrong usage, or no history.");
  Asked asked;
  app.set_version_flag("--version", std::string("ucft_judge ") + UCFT_VERSION_STRING);
  app.add_option("JOB", asked.jobs, "Directories, each with the files rank.N of one job")->required();
  app.add_option("--may-be-dead", asked.may_be_dead, "Ranks that were killed, stopped or cut off: 1,3")->delimiter(',');
  app.add_flag("--json", asked.json, "One JSON object per job, each on a line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    std::size_t violations = 0;
    for (const std::string& each : asked.jobs) violations += judge_job(each, asked);
    return violations == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ucft_judge: {}\n", error.what());
    return 2;
  }
}

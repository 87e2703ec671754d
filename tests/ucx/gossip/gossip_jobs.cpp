#include "tests/ucx/gossip/gossip_jobs.hpp"

#include <iterator>

namespace ucft::detail::test {

std::vector<std::string> GossipJobs::algorithms() const {
  std::vector<std::string> all(std::begin(asynchronous), std::end(asynchronous));
  if (!one_sided()) all.insert(all.end(), std::begin(by_rounds), std::end(by_rounds));
  return all;
}

JobPlan GossipJobs::plan(int ranks, const std::string& scenario, const std::vector<std::string>& arguments) const {
  JobPlan made{ranks, "", {scenario}, {}, over(path())};
  if (one_sided())
    made.environment["UCFT_TEST_GOSSIP_PATH"] = "rma";
  else if (path() == "shm")
    made.environment["UCFT_TEST_GOSSIP_PATH"] = "message";  // else the library chooses
  made.arguments.insert(made.arguments.end(), arguments.begin(), arguments.end());
  made.program = GOSSIP_PROGRAM;
  return made;
}

JobResult GossipJobs::expect_right(const JobPlan& made, const std::vector<int>& may_be_dead) {
  std::string how;
  for (const std::string& word : made.arguments) how += " " + word;
  for (const auto& [name, value] : made.environment) how += " " + name + "=" + value;
  const JobResult result = run_job(made);
  EXPECT_EQ(what_is_wrong(made, result, may_be_dead), "") << made.ranks << " ranks:" << how;
  return result;
}

std::string GossipJobs::moment(int victim, int send) const {
  return std::to_string(victim) + (one_sided() ? ":line:" : ":send:") + std::to_string(send);
}

void GossipJobs::kill(const std::string& algorithm, int ranks, int victim, int send, const char* count) {
  JobPlan made = plan(ranks, "death", {algorithm, count, "4"});
  made.launcher = {"--expect-kill", std::to_string(victim)};
  made.environment["UCFT_TEST_KILL"] = moment(victim, send);
  expect_right(made, {victim});
}

namespace {

INSTANTIATE_TEST_SUITE_P(Over, Gossip, testing::Values("shm", "windows", "tcp", "hosts", "two_level"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ucft::detail::test

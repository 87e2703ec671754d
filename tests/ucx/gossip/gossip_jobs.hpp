// Gossip all-reduces among real processes: every algorithm, beside other operations, while ranks are killed and
// stopped. Nothing here depends on how long anything takes: results are compared with the bound that the library itself
// gives.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ucx/job.hpp"
#include "tests/ucx/ranks.hpp"

namespace ucft::detail::test {

constexpr const char* asynchronous[] = {"push_sum", "push_flow", "pflc", "pfcc", "pcf", "pcf_flip"};
constexpr const char* by_rounds[] = {"hps", "hpflc", "hpfcc", "ardb", "recursive_doubling"};

// path() "windows": over shared memory, by RMA windows.
class GossipJobs : public testing::Test {
 protected:
  virtual std::string path() const = 0;
  bool one_sided() const { return path() == "windows"; }
  std::vector<std::string> algorithms() const;
  JobPlan plan(int ranks, const std::string& scenario, const std::vector<std::string>& arguments = {}) const;
  JobResult expect_right(const JobPlan& made, const std::vector<int>& may_be_dead = {});
  // "2:send:12": rank 2, before its send 12. What is written into windows is counted by lines.
  std::string moment(int victim, int send) const;
  // A rank of "death" (deaths.cpp) dies before that send; or never, where it sends less.
  void kill(const std::string& algorithm, int ranks, int victim, int send, const char* count);
};

class Gossip : public GossipJobs, public testing::WithParamInterface<const char*> {
 protected:
  std::string path() const override { return GetParam(); }
};

class Windows : public GossipJobs {
  std::string path() const override { return "windows"; }
};

}  // namespace ucft::detail::test

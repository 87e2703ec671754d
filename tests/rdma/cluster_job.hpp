// A job over the nodes of a cluster that ci/rdma-cluster has booted: starts ranks of tests/ucx/scenarios on them
// through the remote shell, lets a test inject faults meanwhile, and says how it went. Only inside of `ci/rdma-cluster
// --on-host`.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ucft::detail::test {

// ci/cluster/control. False: the cluster itself can't do it, which is no verdict on ucft.
bool control(const std::vector<std::string>& arguments);
int cluster_nodes();

struct ClusterPlan {
  int nodes = 2;                                 // the first so many
  int ranks_per_node = 2;                        // rank = node index * ranks_per_node + i
  std::string transports = "rc_v,ud_v,self,sm";  // UCX_TLS
  std::vector<std::string> command;              // scenario, and its arguments
  std::map<std::string, std::string> environment;
  std::string program = {};  // instead of ucx_scenario_test

  int ranks() const { return nodes * ranks_per_node; }
  int node_of(int rank) const { return rank / ranks_per_node + 1; }
  std::vector<int> ranks_of(int node) const;
};

struct RankReport {
  long pid = 0;         // 0: not started
  std::string verdict;  // what follows "VERDICT "
  std::string out;      // "UCFT_ERR_PARTITION ...": the rank was told so and stopped
  long slowest_ms = -1, operations = 0;
  bool misses = false;  // it has had a result without somebody
  int exit_code = -1;   // 128 + signal; -1: never heard
  std::vector<std::string> other_lines;
};

class ClusterJob {
 public:
  explicit ClusterJob(const ClusterPlan& plan);
  ~ClusterJob();
  ClusterJob(const ClusterJob&) = delete;
  ClusterJob& operator=(const ClusterJob&) = delete;

  // Until all ranks are past their first operation. False: not within the limit.
  bool wait_until_started(std::chrono::seconds limit = std::chrono::seconds(90));
  // Until all of these have had a result without somebody. False: not within the limit.
  bool wait_until_missed(const std::vector<int>& by, std::chrono::seconds limit = std::chrono::seconds(90));
  // From now on nothing is expected of that node: it is gone.
  void give_up_node(int node);
  // Until all ranks of the other nodes have ended. False: not within the limit (a hang).
  bool wait_until_ended(std::chrono::seconds limit = std::chrono::seconds(120));

  const RankReport& report(int rank) const { return reports_[static_cast<std::size_t>(rank)]; }
  std::string text() const;  // everything that was heard

 private:
  struct Implementation;
  void pump(const std::function<bool()>& done, std::chrono::seconds limit);
  void take_line(int node, const std::string& line);

  ClusterPlan plan_;
  std::vector<RankReport> reports_;
  std::string heard_;
  std::unique_ptr<Implementation> inner_;
};

// The first promise that was broken, or nothing: every rank ends with exit code 0 and either a verdict, the same on
// all, or the word that it is out. may_die: need not end at all; may_be_out: need not have a verdict. All others must.
std::string what_is_wrong(const ClusterPlan& plan, const ClusterJob& job, const std::vector<int>& may_die,
                          const std::vector<int>& may_be_out);

}  // namespace ucft::detail::test

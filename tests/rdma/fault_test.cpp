// Faults that only a cluster has, over RDMA: dead processes, nodes that vanish or hang, links that are cut, packets
// that are lost, delayed and doubled. Right results or a named error; never a hang, never two answers.
//
// Under `ci/rdma-cluster --on-host`, see ci/rdma. UCFT_RDMA_FAULTS: how many mixed faults (12); UCFT_RDMA_SEED replays
// a series. Each fault prints a line of JSON: what it was, and how long the slowest operation of a survivor took.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "tests/rdma/cluster_job.hpp"

namespace ucft::detail::test {
namespace {

using namespace std::chrono_literals;

constexpr auto suspect_after = 1500ms;

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

void pause_for(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

std::vector<int> all_but(const ClusterPlan& plan, const std::vector<int>& ranks) {
  std::vector<int> others;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) others.push_back(rank);
  return others;
}

// Without this node the others are more than half, or half with rank 0: then they go on. Else they must not.
bool others_go_on(const ClusterPlan& plan, int node) {
  const int others = plan.ranks() - plan.ranks_per_node;
  return 2 * others > plan.ranks() || (2 * others == plan.ranks() && node != 1);
}

struct Fault {
  std::string name;
  ClusterPlan plan;
  int node = 0;  // that it hits
  std::vector<int> may_die, may_be_out;
  std::vector<int> must_be_out;
  int wait_ms = 0;
};

class Faults : public testing::Test {
 protected:
  static ClusterPlan plan_of(int nodes, int ranks_per_node, const std::string& transports, int run_ms = 5000) {
    ClusterPlan plan{nodes, ranks_per_node, transports, {"survive", std::to_string(run_ms), "5000"}, {}};
    plan.environment["UCFT_SUSPECT_AFTER"] = std::to_string(suspect_after.count()) + "ms";
    return plan;
  }

  // inject runs when all ranks are past their first operation, heal at the end whatever happens.
  template <class Inject, class Heal>
  void run(const Fault& fault, Inject inject, Heal heal) {
    dead_ = 0;
    ClusterJob job(fault.plan);
    const bool started = job.wait_until_started();
    EXPECT_TRUE(started) << fault.name << ": not started\n" << job.text();
    if (started) {
      pause_for(std::chrono::milliseconds(fault.wait_ms));
      inject(job);
      EXPECT_TRUE(job.wait_until_ended()) << fault.name << ": hang\n" << job.text();
      EXPECT_EQ(what_is_wrong(fault.plan, job, fault.may_die, fault.may_be_out), "") << fault.name;
      for (int rank : fault.must_be_out)
        EXPECT_NE(job.report(rank).out, "") << fault.name << ": rank " << rank << "\n" << job.text();
      long slowest = -1, operations = 0;
      int out = 0, dead = 0;
      for (int rank = 0; rank < fault.plan.ranks(); ++rank) {
        slowest = std::max(slowest, job.report(rank).slowest_ms);
        operations = std::max(operations, job.report(rank).operations);
        out += !job.report(rank).out.empty();
        outs_[rank] = job.report(rank).out;
        dead += job.report(rank).exit_code != 0;
      }
      dead_ = dead;
      std::printf(
          "{\"fault\":\"%s\",\"transports\":\"%s\",\"nodes\":%d,\"ranks_per_node\":%d,\"operations\":%ld,\"slowest_"
          "ms\":%ld,\"out\":%d,"
          "\"dead\":%d,\"suspect_after_ms\":%ld}\n",
          fault.name.c_str(), fault.plan.transports.c_str(), fault.plan.nodes, fault.plan.ranks_per_node, operations,
          slowest, out, dead, static_cast<long>(suspect_after.count()));
      std::fflush(stdout);
    }
    heal();
  }

  // By itself, before its send number `send`: a moment that no signal from outside could choose, and that comes at any
  // load.
  void kill_rank(ClusterPlan plan, int rank, int send) {
    plan.environment["UCFT_TEST_KILL"] = std::to_string(rank) + ":send:" + std::to_string(send);
    const Fault fault{"rank killed", plan, plan.node_of(rank), {rank}, {}, {}, 0};
    run(
        fault, [](ClusterJob&) {}, [] {});
    EXPECT_EQ(dead_, 1) << "rank " << rank << " did not come to its send " << send;
  }

  // The node is cut off (or hangs) for a while; if that is much longer than suspect_after, until the others go on
  // without it: on a loaded machine they may notice late, since who has not run itself accuses nobody.
  template <class Cut, class Mend>
  void cut_off(const char* name, const ClusterPlan& plan, int node, int wait_ms, std::chrono::milliseconds time,
               Cut cut, Mend mend) {
    const bool goes_on = others_go_on(plan, node);
    const bool is_long = time > 2 * suspect_after;
    Fault fault{name, plan, node, {}, {}, {}, wait_ms};
    // One that comes back may find that all others have left, be it done or out.
    const std::vector<int> out = goes_on ? plan.ranks_of(node) : all_but(plan, {});
    if (is_long) fault.may_be_out = out;
    if (is_long && goes_on) fault.must_be_out = plan.ranks_of(node);
    run(
        fault,
        [&](ClusterJob& job) {
          const auto begin = std::chrono::steady_clock::now();
          cut();
          pause_for(time);
          if (is_long && goes_on) {
            EXPECT_TRUE(job.wait_until_missed(all_but(plan, plan.ranks_of(node)))) << name << "\n" << job.text();
          }
          mend();
          // On a loaded machine a short cut may have become a long one: then it may be taken for what it was.
          if (std::chrono::steady_clock::now() - begin > suspect_after / 2) fault.may_be_out = out;
        },
        [] {});
  }

  void link_down(const ClusterPlan& plan, int node, int wait_ms, std::chrono::milliseconds time) {
    const std::string number = std::to_string(node);
    cut_off(
        time > 2 * suspect_after ? "link down" : "link flaps", plan, node, wait_ms, time,
        [&] {
          EXPECT_TRUE(control({"link", number, "down"}));
        },
        [&] {
          EXPECT_TRUE(control({"link", number, "up"}));
        });
  }

  void hang_node(const ClusterPlan& plan, int node, int wait_ms, std::chrono::milliseconds time) {
    const std::string number = std::to_string(node);
    cut_off(
        time > 2 * suspect_after ? "node hangs" : "node stutters", plan, node, wait_ms, time,
        [&] {
          EXPECT_TRUE(control({"pause", number}));
        },
        [&] {
          EXPECT_TRUE(control({"resume", number}));
        });
  }

  void kill_node(const ClusterPlan& plan, int node, int wait_ms) {
    Fault fault{"node vanishes", plan, node, plan.ranks_of(node), {}, {}, wait_ms};
    if (!others_go_on(plan, node)) fault.may_be_out = fault.must_be_out = all_but(plan, plan.ranks_of(node));
    run(
        fault,
        [&](ClusterJob& job) {
          EXPECT_TRUE(control({"kill", std::to_string(node)}));
          job.give_up_node(node);
        },
        [&] {
          ASSERT_TRUE(control({"boot", std::to_string(node)}));
        });
  }

  // Delays are fixed ones: a random delay reorders packets, which no fabric does, and which makes Soft-RoCE's go-back-n
  // repeat a 40 KB transfer for half a minute.
  void disturb(ClusterPlan plan, int node, const std::vector<std::string>& how) {
    plan.command[1] = "2000";
    std::vector<std::string> command = {"netem", std::to_string(node)};
    command.insert(command.end(), how.begin(), how.end());
    const Fault fault{"netem " + how.front() + " " + how[1], plan, node, {}, {}, {}, 0};
    ASSERT_TRUE(control(command));  // from before the start-up on
    run(
        fault, [](ClusterJob&) {},
        [&] {
          ASSERT_TRUE(control({"netem", std::to_string(node)}));
        });
  }

  int dead_ = 0;                     // ranks of the last job that did not end by themselves
  std::map<int, std::string> outs_;  // of the last job: who was out, and what it was told
  static constexpr const char* rc = "rc_v,ud_v,self,sm";
  static constexpr const char* ud = "ud_v,self,sm";
};

TEST_F(Faults, AKilledRankIsNotMissedForLong) {
  for (const char* transports : {rc, ud}) {
    kill_rank(plan_of(2, 2, transports), 0, 40);
    kill_rank(plan_of(2, 2, transports), 3, 41);
  }
  kill_rank(plan_of(2, 1, rc), 0, 100);  // nobody else on its host: its kernel says so
}

TEST_F(Faults, ANodeVanishes) {
  kill_node(plan_of(2, 2, rc), 2, 300);
  kill_node(plan_of(2, 2, rc), 1, 300);  // half of the ranks, with rank 0: the others must not go on
}

TEST_F(Faults, ALinkThatFlapsHurtsNobody) { link_down(plan_of(2, 2, rc), 2, 300, 500ms); }

TEST_F(Faults, ALinkThatStaysDownNeverMakesTwoAnswers) {
  const ClusterPlan plan = plan_of(2, 2, rc);
  link_down(plan, 2, 300, 2 * suspect_after + 1s);
  for (int rank : plan.ranks_of(2)) {
    EXPECT_NE(outs_[rank].find("UCFT_ERR_PARTITION"), std::string::npos) << outs_[rank];
    EXPECT_NE(outs_[rank].find("port 1 of rxe0 has been down"), std::string::npos)
        << outs_[rank];  // a verbs event said so
  }
}

// What a leaver sends last is lost, at first. UCFT_LOG: whoever took it for a failure would say so.
TEST_F(Faults, ACutWhileARankLeavesHoldsNobodyUp) {
  for (const auto& [transports, rma] :
       std::map<std::string, std::vector<std::string>>{{rc, {"auto", "off"}}, {ud, {"auto"}}})
    for (const std::string& setting : rma)
      for (const char* milliseconds : {"300", "600"}) {
        ClusterPlan plan = plan_of(2, 1, transports);
        plan.command = {"leave_cut", milliseconds};
        plan.environment["UCFT_RMA"] = setting;
        plan.environment["UCFT_LOG"] = "y";
        const Fault fault{"cut while leaving, UCFT_RMA=" + setting, plan, 1, {}, {}, {}, 0};
        run(
            fault, [](ClusterJob&) {}, [] {});
      }
}

TEST_F(Faults, TheDeviceIsShown) {
  const std::string info = UCFT_INFO;
  EXPECT_TRUE(control({"run", "1", info + " | tee /dev/stderr | grep -q 'rxe0:1 active'"}));
  EXPECT_TRUE(control({"run", "1", info + " --json | tee /dev/stderr | grep -q '\"type\":\"RoCE v2\"'"}));
}

TEST_F(Faults, PacketsAreLostDelayedAndDoubled) {
  for (const char* transports : {rc, ud}) {
    disturb(plan_of(2, 1, transports), 2, {"loss", "1%"});
    disturb(plan_of(2, 1, transports), 1, {"duplicate", "5%"});
    disturb(plan_of(2, 1, transports), 1, {"delay", "10ms"});
  }
}

// What a rank that was declared dead writes when it comes back: nowhere where it could do harm.
TEST_F(Faults, NoLateWriteTouchesMemoryThatWasGivenBack) {
  for (const char* transports : {rc, ud}) {
    ClusterPlan plan = plan_of(2, 2, transports);
    plan.command = {"late_write", "7000"};
    ClusterJob job(plan);
    ASSERT_TRUE(job.wait_until_started()) << job.text();
    pause_for(1s);
    ASSERT_TRUE(control({"pause", "2"}));
    pause_for(7 * suspect_after);  // others that have run late give three deadlines more
    ASSERT_TRUE(control({"resume", "2"}));
    EXPECT_TRUE(job.wait_until_ended()) << job.text();
    EXPECT_EQ(what_is_wrong(plan, job, {}, plan.ranks_of(2)), "");
    for (int rank : plan.ranks_of(2)) EXPECT_NE(job.report(rank).out, "") << job.text();
  }
}

TEST_F(Faults, Mixed) {
  std::mt19937 random(static_cast<unsigned>(number("UCFT_RDMA_SEED", 20261121)));
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  const int faults = number("UCFT_RDMA_FAULTS", 12);
  for (int i = 0; i < faults; ++i) {
    const int nodes = 2 + below(cluster_nodes() - 1);
    const ClusterPlan plan = plan_of(nodes, 1 + below(nodes == 4 ? 2 : 3), below(3) == 0 ? ud : rc);
    const int node = 1 + below(nodes), wait_ms = below(1000);
    SCOPED_TRACE(i);
    switch (below(8)) {
      case 0:
      case 1:
      case 2: kill_rank(plan, below(2) == 0 ? 0 : below(plan.ranks()), 10 + below(60)); break;
      case 3: kill_node(plan, node, wait_ms); break;
      case 4: link_down(plan, node, wait_ms, below(2) == 0 ? 400ms : 2 * suspect_after + 1s); break;
      case 5: hang_node(plan, node, wait_ms, below(2) == 0 ? 400ms : 2 * suspect_after + 1s); break;
      case 6: disturb(plan, node, {"loss", std::to_string(1 + below(2)) + "%"}); break;
      case 7:
        disturb(
            plan, node,
            below(2) == 0 ? std::vector<std::string>{"delay", "10ms"} : std::vector<std::string>{"duplicate", "10%"});
        break;
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ucft::detail::test

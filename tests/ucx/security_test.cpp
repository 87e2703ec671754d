// What somebody who is not of the job can reach of its ranks, over TCP. See docs/security.md.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp_version.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/file_text.hpp"
#include "tests/launcher/process.hpp"
#include "tests/own_network.hpp"

namespace ucft::detail::test {
namespace {

constexpr int ucx_version = 1000 * UCP_API_MAJOR + UCP_API_MINOR;

struct Listener {
  std::string address;  // as the kernel writes it: hexadecimal, in its byte order
  int port;
  bool is_loopback() const { return address == "0100007F" || address == "00000000000000000000000001000000"; }
};

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code problem;
  for (const auto& each : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", problem)) {
    const std::string target = std::filesystem::read_symlink(each.path(), problem).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

std::vector<Listener> listeners_of(pid_t pid) {
  const std::set<std::string> own = sockets_of(pid);
  std::vector<Listener> found;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::istringstream lines(file_text("/proc/" + std::to_string(pid) + table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
      if (state != "0A" || !own.contains(inode)) continue;
      const auto colon = local.find(':');
      found.push_back({local.substr(0, colon), std::stoi(local.substr(colon + 1), nullptr, 16)});
    }
  }
  return found;
}

int descriptors_of(pid_t pid) {
  std::error_code problem;
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", problem))
    count += !each.path().empty();
  return count;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> pids;
  const std::string wanted = "\nPPid:\t" + std::to_string(parent) + "\n";
  for (const auto& each : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(each.path().filename().c_str());
    if (pid > 0 && file_text("/proc/" + std::to_string(pid) + "/status").find(wanted) != std::string::npos)
      pids.push_back(pid);
  }
  return pids;
}

bool has_another_interface() {
  ifaddrs* list = nullptr;
  bool found = false;
  if (getifaddrs(&list) != 0) return false;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    found |= each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET && (each->ifa_flags & IFF_UP) != 0 &&
             (each->ifa_flags & IFF_LOOPBACK) == 0;
  freeifaddrs(list);
  return found;
}

// As tests/ucx/job.hpp has it: three ranks on two "hosts".
std::map<std::string, std::string> over(const std::string& transport) {
  if (transport == "tcp") return {{"UCX_TLS", "tcp"}};
  if (transport == "two_level") return {{"UCX_TLS", "tcp,sm"}, {"UCFT_TEST_RANKS_PER_HOST", "2"}, {"UCFT_SPIN", "6"}};
  return {};
}

// Three ranks that are past start-up. They may have 512 descriptors each, and no more.
class RunningJob {
 public:
  explicit RunningJob(const std::string& transport) {
    std::map<std::string, std::string> environment = over(transport);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    // Both limits: ranks raise the soft one to the hard one.
    std::vector<std::string> arguments = {"-n",
                                          "3",
                                          "--timeout",
                                          "100s",
                                          "--expect-kill",
                                          "0",
                                          "--expect-kill",
                                          "1",
                                          "--expect-kill",
                                          "2",
                                          "sh",
                                          "-c",
                                          "ulimit -n 512; exec \"$@\"",
                                          "sh",
                                          RANK_PROGRAM,
                                          "loop",
                                          "1000000000",
                                          "2000",
                                          "50"};
    launcher_ = std::make_unique<ucft::detail::test::Launcher>(arguments);
    for (const auto& [name, value] : environment) unsetenv(name.c_str());
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(launcher_->read_until("[" + std::to_string(rank) + "] STARTED "));
    supervisor_ = launcher_->supervisor();
    ranks_ = children_of(supervisor_);
    EXPECT_EQ(ranks_.size(), 3u);
  }
  pid_t supervisor() const { return supervisor_; }
  const std::vector<pid_t>& ranks() const { return ranks_; }
  // Kills one of them: the other two go on, see it, do 50 iterations more and end.
  void expect_it_works() {
    kill(ranks_.back(), SIGKILL);
    const Finished end = launcher_->wait();
    EXPECT_EQ(end.exit_code, 0) << end.output << end.errors;
    EXPECT_EQ(end.errors, "");
    const auto first = end.output.find("VERDICT ");
    ASSERT_NE(first, std::string::npos) << end.output;
    EXPECT_NE(end.output.find("VERDICT ", first + 1), std::string::npos) << end.output;
  }

 private:
  std::unique_ptr<ucft::detail::test::Launcher> launcher_;
  pid_t supervisor_ = 0;
  std::vector<pid_t> ranks_;
};

// Connections to one port; how many of them the other side takes within half a second (on one machine it's at once).
class Strangers {
 public:
  Strangers(const Listener& target, int count) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(target.port));
    address.sin_addr.s_addr = static_cast<in_addr_t>(std::stoul(target.address, nullptr, 16));
    for (int i = 0; i < count; ++i) {
      const int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (made < 0) break;
      connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address);
      open_.push_back({made, POLLOUT, 0});
    }
  }
  Strangers(Strangers&& other) noexcept : open_(std::move(other.open_)) { other.open_.clear(); }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;
  Strangers& operator=(Strangers&&) = delete;
  ~Strangers() {
    for (const pollfd& each : open_) close(each.fd);
  }
  int taken() {
    poll(open_.data(), open_.size(), 500);
    int count = 0;
    for (const pollfd& each : open_) {
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      count += getpeername(each.fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
    }
    return count;
  }

 private:
  std::vector<pollfd> open_;
};

// Not vacuous: the same look finds the launcher's rendezvous.
TEST(Security, RanksThatShareMemoryListenNowhere) {
  RunningJob job("shm");
  for (const pid_t rank : job.ranks())
    EXPECT_TRUE(listeners_of(rank).empty()) << "port " << listeners_of(rank).front().port;
  const std::vector<Listener> rendezvous = listeners_of(job.supervisor());
  ASSERT_EQ(rendezvous.size(), 1u);
  EXPECT_TRUE(rendezvous[0].is_loopback());
  job.expect_it_works();
}

TEST(Security, RanksOfOneHostListenOnLoopbackOnly) {
  if (!has_another_interface()) GTEST_SKIP() << "NOT TESTED: this machine has no other network than loopback";
  RunningJob job("tcp");
  for (const pid_t rank : job.ranks()) {
    const std::vector<Listener> all = listeners_of(rank);
    EXPECT_FALSE(all.empty()) << "UCX listens somewhere";
    for (const Listener& each : all) EXPECT_TRUE(each.is_loopback()) << each.address << " port " << each.port;
  }
  job.expect_it_works();
}

// Somebody else on this machine, or on the network, connects 900 times to each of UCX's ports: it must cost no
// descriptor.
class SecurityOver : public testing::TestWithParam<const char*> {};

TEST_P(SecurityOver, NobodyConnectsToARankAfterStartUp) {
  RunningJob job(GetParam());
  std::vector<Strangers> everywhere;
  for (const pid_t rank : job.ranks()) {
    const int before = descriptors_of(rank);
    EXPECT_GT(before, 0);
    const std::vector<Listener> all = listeners_of(rank);
    EXPECT_FALSE(all.empty()) << "UCX listens somewhere";
    for (const Listener& each : all) {
      everywhere.emplace_back(each, 900);
      EXPECT_EQ(everywhere.back().taken(), 0) << "port " << each.port;
      EXPECT_LE(descriptors_of(rank), before + 10) << "of 512";
    }
  }
  job.expect_it_works();
}

// What opens under /proc/PID of those that `uid` may not: environment, and descriptors that are memory.
int opened_by(uid_t uid, const std::vector<pid_t>& ranks) {
  std::vector<std::string> files;
  for (const pid_t rank : ranks) {
    const std::string folder = "/proc/" + std::to_string(rank);
    files.push_back(folder + "/environ");
    std::error_code problem;
    for (const auto& each : std::filesystem::directory_iterator(folder + "/fd", problem))
      if (std::filesystem::read_symlink(each.path(), problem).string().starts_with("/memfd:"))
        files.push_back(each.path());
  }
  const pid_t child = fork();
  if (child == 0) {
    if (uid != getuid() && (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0)) _exit(255);
    int count = 0;
    for (const std::string& each : files) count += open(each.c_str(), O_RDONLY | O_CLOEXEC) >= 0;
    _exit(count);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Security, AnotherUserOpensNeitherARanksMemoryNorItsSecret) {
  if (getuid() != 0) GTEST_SKIP() << "NOT TESTED: only root can become another user";
  RunningJob job("shm");
  EXPECT_GE(opened_by(getuid(), job.ranks()), 6)
      << "environment and memory of three ranks: the same look, by their own user";
  EXPECT_EQ(opened_by(65534, job.ranks()), 0);
  job.expect_it_works();
}

TEST(SecurityInItsOwnNetwork, JobsThatShareMemoryRunOverIpv6AloneAndOverIpv4Alone) {
  for (const Loopback which : {Loopback::six_only, Loopback::four_only}) {
    const OwnNetwork network(which);
    if (!network.problem().empty()) GTEST_SKIP() << network.problem();
    RunningJob("shm").expect_it_works();
  }
}

// UCX 1.13's tcp is of IPv4 only. Over 1.18's the job runs to its end.
TEST(SecurityInItsOwnNetwork, TcpWhereThereIsOnlyIpv6WorksOrIsAnErrorThatSaysSo) {
  const OwnNetwork network(Loopback::six_only);
  if (!network.problem().empty()) GTEST_SKIP() << network.problem();
  setenv("UCX_TLS", "tcp", 1);
  const Finished end = run({"-n", "2", "--timeout", "60s", RANK_PROGRAM, "words", "10"});
  unsetenv("UCX_TLS");
  // UCX's tcp has known IPv6 addresses since some version after 1.13, and does by 1.18.
  if (ucx_version >= 1018) {
    EXPECT_EQ(end.exit_code, 0) << end.errors;
    return;
  }
  if (ucx_version > 1013 && end.exit_code == 0) return;
  EXPECT_NE(end.exit_code, 0) << "UCX 1.13's tcp has no IPv6";
  EXPECT_NE(end.exit_code, 124) << "hang";
  EXPECT_NE(end.errors.find("no interface has an IPv4 address"), std::string::npos) << end.errors;
}

INSTANTIATE_TEST_SUITE_P(Transports, SecurityOver, testing::Values("tcp", "two_level"));

}  // namespace
}  // namespace ucft::detail::test

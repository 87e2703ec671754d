#include "tests/rdma/cluster_job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "ucx_layer/bootstrap/rendezvous_server.hpp"

namespace ucft::detail::test {

namespace {

using Clock = std::chrono::steady_clock;

std::string control_program() {
  const char* path = std::getenv("UCFT_CLUSTER");
  if (path != nullptr) return path;
  std::fprintf(stderr, "this program runs under: ci/rdma-cluster --on-host -- ...\n");
  std::exit(2);
}

pid_t start(const std::vector<std::string>& words, int output) {
  std::vector<std::string> copy = words;
  std::vector<char*> argv;
  for (std::string& word : copy) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, 0);
  if (output >= 0) {
    dup2(output, 1);
    dup2(output, 2);
  }
  execv(argv[0], argv.data());
  _exit(127);
}

std::string quoted(const std::string& word) {
  std::string made = "'";
  for (char letter : word) made += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return made + "'";
}

}  // namespace

bool control(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {control_program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  int status = 0;
  const pid_t pid = start(words, -1);
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int cluster_nodes() {
  const char* nodes = std::getenv("UCFT_CLUSTER_NODES");
  return nodes == nullptr ? 0 : std::atoi(nodes);
}

std::vector<int> ClusterPlan::ranks_of(int node) const {
  std::vector<int> ranks;
  for (int i = 0; i < ranks_per_node; ++i) ranks.push_back((node - 1) * ranks_per_node + i);
  return ranks;
}

struct ClusterJob::Implementation {
  std::unique_ptr<bootstrap::RendezvousServer> rendezvous;
  struct Node {
    pid_t shell = -1;  // the remote shell; -1: ended
    int output = -1;
    std::string line;  // its beginning
    bool given_up = false;
  };
  std::vector<Node> nodes;
};

ClusterJob::ClusterJob(const ClusterPlan& plan)
    : plan_(plan), reports_(static_cast<std::size_t>(plan.ranks())), inner_(std::make_unique<Implementation>()) {
  bootstrap::RendezvousServer::Options options;
  options.size = plan.ranks();
  options.secret = bootstrap::random_secret();
  const std::string secret = bootstrap::secret_to_hex(options.secret);
  std::string error;
  inner_->rendezvous = bootstrap::RendezvousServer::listen(std::move(options), error);
  if (inner_->rendezvous == nullptr) {
    std::fprintf(stderr, "rendezvous: %s\n", error.c_str());
    std::exit(2);
  }
  const std::string address = inner_->rendezvous->address();
  std::string settings = "export UCX_TLS=" + quoted(plan.transports) +
                         " UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0 UCFT_SIZE=" + std::to_string(plan.ranks()) +
                         " UCFT_RENDEZVOUS=" + address + " UCFT_JOB_SECRET=" + secret;
  for (const auto& [name, value] : plan.environment) settings += " " + name + "=" + quoted(value);
  std::string program = quoted(plan.program.empty() ? RANK_PROGRAM : plan.program);
  for (const std::string& word : plan.command) program += " " + quoted(word);
  for (int node = 1; node <= plan.nodes; ++node) {
    std::string line = settings;
    for (int rank : plan.ranks_of(node)) {
      const std::string number = std::to_string(rank);
      line +=
          "; { UCFT_RANK=" + number + " " + program + "; echo \"EXIT $?\"; } 2>&1 | sed -u 's/^/[" + number + "] /' &";
      line.replace(line.rfind(" &"), 2, " & true");
    }
    line += "; wait";
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::exit(2);
    Implementation::Node made;
    made.shell = start(
        {control_program(), "run", "--reverse-port", address.substr(address.find(':') + 1), std::to_string(node), line},
        ends[1]);
    made.output = ends[0];
    close(ends[1]);
    inner_->nodes.push_back(made);
  }
}

ClusterJob::~ClusterJob() {
  for (Implementation::Node& node : inner_->nodes) {
    if (node.shell > 0) {
      kill(node.shell, SIGTERM);
      waitpid(node.shell, nullptr, 0);
    }
    if (node.output >= 0) close(node.output);
  }
}

void ClusterJob::pump(const std::function<bool()>& done, std::chrono::seconds limit) {
  const auto until = Clock::now() + limit;
  while (!done() && Clock::now() < until) {
    std::vector<pollfd> entries;
    for (const auto& node : inner_->nodes) entries.push_back({node.output, POLLIN, 0});
    const auto now = Clock::now();
    inner_->rendezvous->add_poll_entries(entries, now);
    if (poll(entries.data(), entries.size(), 20) < 0) continue;
    for (std::size_t i = 0; i < inner_->nodes.size(); ++i) {
      auto& node = inner_->nodes[i];
      if (node.output < 0 || entries[i].revents == 0) continue;
      char bytes[65536];
      const ssize_t count = read(node.output, bytes, sizeof bytes);
      if (count <= 0) {
        close(node.output);
        node.output = -1;
        waitpid(node.shell, nullptr, 0);
        node.shell = -1;
        continue;
      }
      node.line.append(bytes, static_cast<std::size_t>(count));
      for (auto end = node.line.find('\n'); end != std::string::npos; end = node.line.find('\n')) {
        take_line(static_cast<int>(i) + 1, node.line.substr(0, end));
        node.line.erase(0, end + 1);
      }
    }
    for (std::size_t i = inner_->nodes.size(); i < entries.size(); ++i)
      if (entries[i].revents != 0) inner_->rendezvous->on_ready(entries[i].fd, entries[i].revents, Clock::now());
    inner_->rendezvous->on_timer(Clock::now());
  }
}

void ClusterJob::take_line(int node, const std::string& line) {
  heard_ += "node " + std::to_string(node) + ": " + line + "\n";
  const auto bracket = line.find("] ");
  if (line.empty() || line[0] != '[' || bracket == std::string::npos) return;
  const int rank = std::atoi(line.c_str() + 1);
  if (rank < 0 || rank >= plan_.ranks()) return;
  RankReport& report = reports_[static_cast<std::size_t>(rank)];
  const std::string text = line.substr(bracket + 2);
  const auto follows = [&](const char* word) { return text.rfind(word, 0) == 0; };
  if (follows("STARTED ")) {
    report.pid = std::atol(text.c_str() + 8);
  } else if (follows("VERDICT ")) {
    report.verdict = text.substr(8);
  } else if (follows("OUT ")) {
    report.out = text.substr(4);
  } else if (follows("MISSES ")) {
    report.misses = true;
  } else if (follows("SLOWEST ")) {
    std::sscanf(text.c_str(), "SLOWEST %ld ms of %ld", &report.slowest_ms, &report.operations);
  } else if (follows("EXIT ")) {
    report.exit_code = std::atoi(text.c_str() + 5);
  } else {
    report.other_lines.push_back(text);
  }
}

bool ClusterJob::wait_until_started(std::chrono::seconds limit) {
  const auto started = [&] {
    return std::all_of(reports_.begin(), reports_.end(),
                       [](const RankReport& each) { return each.pid != 0 || each.exit_code >= 0; });
  };
  pump(started, limit);
  return started();
}

bool ClusterJob::wait_until_missed(const std::vector<int>& by, std::chrono::seconds limit) {
  const auto missed = [&] { return std::ranges::all_of(by, [&](int rank) { return report(rank).misses; }); };
  pump(missed, limit);
  return missed();
}

void ClusterJob::give_up_node(int node) { inner_->nodes[static_cast<std::size_t>(node - 1)].given_up = true; }

bool ClusterJob::wait_until_ended(std::chrono::seconds limit) {
  const auto ended = [&] {
    return std::all_of(inner_->nodes.begin(), inner_->nodes.end(),
                       [](const auto& node) { return node.given_up || node.output < 0; });
  };
  pump(ended, limit);
  return ended();
}

std::string ClusterJob::text() const { return heard_; }

std::string what_is_wrong(const ClusterPlan& plan, const ClusterJob& job, const std::vector<int>& may_die,
                          const std::vector<int>& may_be_out) {
  const auto among = [](const std::vector<int>& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  std::set<std::string> verdicts;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const RankReport& report = job.report(rank);
    const std::string name = "rank " + std::to_string(rank);
    const bool died = report.exit_code == -1 || report.exit_code == 128 + SIGKILL || report.exit_code == 128 + SIGTERM;
    if (died && among(may_die, rank)) continue;
    if (report.exit_code != 0) return name + " ended with " + std::to_string(report.exit_code) + "\n" + job.text();
    if (!report.other_lines.empty()) return name + " says: " + report.other_lines.front() + "\n" + job.text();
    if (!report.out.empty()) {
      if (!among(may_be_out, rank) && !among(may_die, rank)) return name + " is out: " + report.out + "\n" + job.text();
      continue;
    }
    if (report.verdict.empty()) return name + " has no verdict\n" + job.text();
    verdicts.insert(report.verdict);
  }
  if (verdicts.size() > 1) return "ranks disagree\n" + job.text();
  return {};
}

}  // namespace ucft::detail::test

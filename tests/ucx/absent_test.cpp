// Contexts that start with ranks that are absent: real processes over a rendezvous server in this one. Some seats of
// the job are empty from the start, and all operations go on without them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ucx/ranks.hpp"
#include "ucx_layer/api/entry.hpp"
#include "ucx_layer/bootstrap/out_of_band.hpp"
#include "ucx_layer/bootstrap/rendezvous_server.hpp"

namespace ucft::detail::test {
namespace {

using namespace std::chrono_literals;
using bootstrap::RendezvousServer;
using Clock = std::chrono::steady_clock;
using RankList = std::vector<std::int32_t>;

// ---- the ranks ------------------------------------------------------------------------------------------------------

RankList absent, absent_from_the_start, present;  // in `absent` also those that have died since
std::vector<std::int32_t> reported;               // by the failure callback

bool is_present(std::int32_t rank) { return std::ranges::find(absent, rank) == absent.end(); }
std::size_t place(std::int32_t rank) { return static_cast<std::size_t>(rank); }

void note_report(const ucft_failure_t* failure, void*) { reported.push_back(failure->rank); }

// arguments: the rank, the number of seats, the server's address, the job's secret, "x" or "-" for each seat.
bootstrap::Seat seat_of(const Arguments& arguments) {
  return {std::stoi(arguments[0]), std::stoi(arguments[1]), arguments[2], *bootstrap::secret_from_hex(arguments[3])};
}

std::unique_ptr<Context> start_context(const Arguments& arguments) {
  const bootstrap::Seat seat = seat_of(arguments);
  std::vector<bool> is_absent;
  for (const char letter : arguments[4]) is_absent.push_back(letter == 'x');
  std::string error;
  auto rendezvous = bootstrap::Rendezvous::connect(seat, 20s, error);
  if (rendezvous == nullptr) end_with_verdict(error);
  OutOfBand oob;
  oob.use(std::move(rendezvous), is_absent, 20s);
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.failure_callback = &note_report;
  auto started = std::make_unique<Context>();
  started->enter();
  const ucft_status_t status = started->start(&params, std::move(oob), error);
  if (status == UCFT_ERR_STARTUP) {
    started.reset();
    end_with_verdict(error);
  }
  check(status, "start");
  started->leave();
  return started;
}

void start_with_absent(const Arguments& arguments) {
  const bootstrap::Seat seat = seat_of(arguments);
  rank_ = seat.rank;
  for (std::int32_t rank = 0; rank < seat.size; ++rank)
    (arguments[4][place(rank)] == 'x' ? absent : present).push_back(rank);
  absent_from_the_start = absent;
  context = contexts.open(start_context(arguments).release());
  check(ucft_comm_create(context, &comm), "comm");
  check(ucft_comm_size(comm, &size_), "size");
  if (size_ != seat.size) wrong("{} ranks", size_);
}

struct Result {
  std::vector<std::int32_t> missing = std::vector<std::int32_t>(64);
  ucft_result_t raw = UCFT_RESULT_INIT;

  Result() {
    raw.missing = missing.data();
    raw.missing_capacity = static_cast<std::int32_t>(missing.size());
  }
  RankList list() const { return {missing.begin(), missing.begin() + std::max(raw.missing_count, 0)}; }
  void expect_only_absent(const char* what, std::uint32_t contributors) const {
    if (raw.contributors != contributors) wrong("{}: {} contributors", what, raw.contributors);
    if (list() != absent) wrong("{}: {} ranks are missing", what, raw.missing_count);
  }
  void expect_only_absent(const char* what) const {
    expect_only_absent(what, static_cast<std::uint32_t>(present.size()));
  }
};

std::uint64_t bit(std::int32_t rank) { return std::uint64_t{1} << rank; }
std::uint64_t sum_of(const RankList& ranks) {
  std::uint64_t sum = 0;
  for (const std::int32_t rank : ranks) sum += bit(rank);
  return sum;
}

void try_allreduce(std::size_t words, bool uniform = false) {
  std::vector<std::uint64_t> in(words, bit(rank_)), out(words);
  Result result;
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.uniform = uniform;
  check(ucft_allreduce(comm, in.data(), out.data(), words, UCFT_UINT64, UCFT_SUM, &options, &result.raw), "allreduce");
  if (out != std::vector<std::uint64_t>(words, sum_of(present))) wrong("allreduce: {:x}", out[0]);
  result.expect_only_absent("allreduce");
}

// Blocks that a rank gives, and those that it gets.
std::vector<std::uint64_t> block(std::size_t words, std::int32_t from, std::int32_t to) {
  return std::vector<std::uint64_t>(words, 1000 * static_cast<std::uint64_t>(from) + static_cast<std::uint64_t>(to));
}
constexpr std::uint64_t untouched = 77777;

void expect_blocks(const std::vector<std::uint64_t>& got, std::size_t words, std::int32_t to, const char* what) {
  for (std::int32_t from = 0; from < size_; ++from) {
    const std::vector<std::uint64_t> wanted =
        is_present(from) ? block(words, from, to) : std::vector<std::uint64_t>(words, untouched);
    const auto first = got.begin() + static_cast<std::ptrdiff_t>(place(from) * words);
    if (!std::equal(wanted.begin(), wanted.end(), first)) wrong("{}: block of rank {}: {}", what, from, *first);
  }
}

void try_blocks(std::size_t words) {
  const std::vector<std::uint64_t> mine = block(words, rank_, 500);
  std::vector<std::uint64_t> all(words * place(size_), untouched);
  Result gathered_by_all;
  check(ucft_allgather(comm, mine.data(), all.data(), words, UCFT_UINT64, nullptr, &gathered_by_all.raw), "allgather");
  expect_blocks(all, words, 500, "allgather");
  gathered_by_all.expect_only_absent("allgather");

  std::vector<std::uint64_t> given;
  for (std::int32_t to = 0; to < size_; ++to) {
    const std::vector<std::uint64_t> share = block(words, rank_, to);
    given.insert(given.end(), share.begin(), share.end());
  }
  std::ranges::fill(all, untouched);
  Result exchanged;
  check(ucft_alltoall(comm, given.data(), all.data(), words, UCFT_UINT64, nullptr, &exchanged.raw), "alltoall");
  expect_blocks(all, words, rank_, "alltoall");
  exchanged.expect_only_absent("alltoall");

  for (const std::int32_t root : present) {
    std::ranges::fill(all, untouched);
    Result gathered;
    check(ucft_gather(comm, mine.data(), all.data(), words, UCFT_UINT64, root, nullptr, &gathered.raw), "gather");
    if (rank_ == root) expect_blocks(all, words, 500, "gather");
    if (rank_ == root) gathered.expect_only_absent("gather");
    std::vector<std::uint64_t> share(words, untouched);
    check(ucft_scatter(comm, given.data(), share.data(), words, UCFT_UINT64, root, nullptr, nullptr), "scatter");
    if (share != block(words, root, rank_)) wrong("scatter from {}: {}", root, share[0]);
  }
}

void try_rooted(std::size_t words) {
  for (const std::int32_t root : present) {
    std::vector<std::uint64_t> value(words, rank_ == root ? 5000 + place(root) : 0);
    check(ucft_broadcast(comm, value.data(), words, UCFT_UINT64, root, nullptr, nullptr), "broadcast");
    if (value != std::vector<std::uint64_t>(words, 5000 + place(root))) wrong("broadcast from {}: {}", root, value[0]);
    const std::vector<std::uint64_t> in(words, bit(rank_));
    std::vector<std::uint64_t> out(words);
    Result result;
    check(ucft_reduce(comm, in.data(), out.data(), words, UCFT_UINT64, UCFT_SUM, root, nullptr, &result.raw), "reduce");
    if (rank_ != root) continue;
    if (out != std::vector<std::uint64_t>(words, sum_of(present))) wrong("reduce to {}: {:x}", root, out[0]);
    result.expect_only_absent("reduce");
  }
  for (const std::int32_t root : absent) {
    std::uint64_t value = 0;
    expect(ucft_broadcast(comm, &value, 1, UCFT_UINT64, root, nullptr, nullptr), UCFT_ERR_ROOT_FAILED, "broadcast");
  }
}

void try_scans() {
  const std::uint64_t in = bit(rank_);
  std::uint64_t out = 0, before = untouched, flags = ~bit(rank_);
  check(ucft_scan(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "scan");
  if (out != (sum_of(present) & (2 * bit(rank_) - 1))) wrong("scan: {:x}", out);
  check(ucft_exscan(comm, &in, &before, 1, UCFT_UINT64, UCFT_SUM, nullptr, nullptr), "exscan");
  if (before != (rank_ == present[0] ? untouched : sum_of(present) & (bit(rank_) - 1))) wrong("exscan: {:x}", before);
  check(ucft_barrier(comm, nullptr, nullptr), "barrier");
  check(ucft_agree(comm, &flags, nullptr, nullptr), "agree");
  if (flags != ~sum_of(present)) wrong("agree: {:x}", flags);
}

void try_sights() {
  RankList failed(place(size_));
  std::int32_t count = size_;
  check(ucft_comm_failed(comm, failed.data(), &count), "failed");
  failed.resize(place(count));
  if (failed != absent) wrong("{} ranks have failed", count);
  std::vector<ucft_rank_sight_t> sights(place(size_), UCFT_RANK_SIGHT_INIT);
  count = size_;
  check(ucft_comm_look(comm, sights.data(), &count), "look");
  for (const std::int32_t rank : absent)
    if (sights[place(rank)].state != UCFT_RANK_DEAD) wrong("look: rank {} is {}", rank, int{sights[place(rank)].state});
  ucft_context_paths_t paths = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &paths), "paths");
  if (paths.shared_memory + paths.messages + paths.remote_mailboxes != static_cast<std::int32_t>(present.size()) - 1)
    wrong("paths to {} and {} ranks", paths.shared_memory, paths.messages);
}

void try_letters() {
  std::uint64_t value = place(rank_), got = untouched;
  for (const std::int32_t rank : absent) {
    expect(ucft_send(comm, &value, 1, UCFT_UINT64, rank, 3), UCFT_ERR_PEER_FAILED, "send to an absent rank");
    expect(ucft_recv(comm, &got, 1, UCFT_UINT64, rank, 3, nullptr), UCFT_ERR_PEER_FAILED, "receive of an absent rank");
  }
  const std::size_t mine = static_cast<std::size_t>(std::ranges::find(present, rank_) - present.begin());
  const std::int32_t next = present[(mine + 1) % present.size()];
  const std::int32_t last = present[(mine + present.size() - 1) % present.size()];
  check(ucft_send(comm, &value, 1, UCFT_UINT64, next, 4), "send");
  check(ucft_recv(comm, &got, 1, UCFT_UINT64, last, 4, nullptr), "receive");
  if (got != place(last)) wrong("received {}", got);
}

void try_quorum() {
  ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
  options.quorum = size_;  // so it waits for all that live
  options.deadline_ns = 1'000'000;
  const std::uint64_t in = bit(rank_);
  std::uint64_t out = 0;
  Result result;
  check(ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, &options, &result.raw), "quorum");
  if (out != sum_of(present)) wrong("quorum: {:x}", out);
  result.expect_only_absent("quorum");
}

void try_gossip(ucft_gossip_algorithm_t algorithm, ucft_gossip_path_t path) {
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.algorithm = algorithm;
  options.path = path;
  const double in = static_cast<double>(rank_);
  double out = 0, expected = 0;
  for (const std::int32_t rank : present) expected += static_cast<double>(rank) / static_cast<double>(present.size());
  ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
  check(ucft_gossip_allreduce(comm, &in, &out, 1, UCFT_DOUBLE, &options, &result), "gossip");
  if (std::abs(out - expected) > 1e-3) wrong("gossip {}: {} instead of {}", int{algorithm}, out, expected);
  if (result.contributors != present.size()) wrong("gossip {} of {} ranks", int{algorithm}, result.contributors);
  if (path != UCFT_GOSSIP_PATH_AUTO && result.path != path) wrong("gossip {} by another path", int{algorithm});
}

// Of all that are there; and communicators of parts.
void try_communicators() {
  const auto expect_sum = [](ucft_comm_h among, const RankList& ranks) {
    std::int32_t size = 0, rank = 0, count = 0;
    check(ucft_comm_size(among, &size), "size");
    check(ucft_comm_rank(among, &rank), "rank");
    check(ucft_comm_failed(among, nullptr, &count), "failed");
    if (place(size) != ranks.size() || ranks[place(rank)] != rank_ || count != 0)
      wrong("rank {} of {}, {} have failed", rank, size, count);
    const std::uint64_t in = bit(rank_);
    std::uint64_t out = 0;
    Result result;
    check(ucft_allreduce(among, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result.raw), "sum of a part");
    if (out != sum_of(ranks) || result.raw.missing_count != 0) wrong("sum of a part: {:x}", out);
    check(ucft_comm_destroy(among), "destroy a part");
  };
  ucft_comm_h copy = UCFT_COMM_NULL, part = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &copy), "dup");
  expect_sum(copy, present);
  check(ucft_comm_split(comm, rank_ % 2, 0, &part), "split");
  RankList like_me;
  for (const std::int32_t rank : present)
    if (rank % 2 == rank_ % 2) like_me.push_back(rank);
  expect_sum(part, like_me);
  // The same ranks once more, the absent ones included. A rank that has died since would count against f there.
  if (absent != absent_from_the_start) return;
  ucft_comm_h before = comm;
  check(ucft_comm_create(context, &comm), "comm");
  try_allreduce(3);
  check(ucft_comm_destroy(comm), "destroy");
  comm = before;
}

// One more rank dies in a loop of allreduces.
void lose(std::int32_t victim) {
  std::uint64_t out = 0;
  RankList missing = absent, with_victim = absent;
  with_victim.push_back(victim);
  std::ranges::sort(with_victim);
  for (int i = 0, after = 0; after < 30; ++i) {
    if (rank_ == victim && i == 20) std::raise(SIGKILL);
    const std::uint64_t in = bit(rank_);
    Result result;
    check(ucft_allreduce(comm, &in, &out, 1, UCFT_UINT64, UCFT_SUM, nullptr, &result.raw), "allreduce with a death");
    if (result.list() != absent && result.list() != with_victim)
      wrong("{} ranks are missing", result.raw.missing_count);
    const bool has_died = result.list() == with_victim;
    if (out != sum_of(present) - (has_died ? bit(victim) : 0)) wrong("allreduce with a death: {:x}", out);
    after += has_died;
  }
  // Results name it as soon as others have seen the death; this rank hears of it soon.
  const auto heard_of = [] {
    std::int32_t count = 0;
    check(ucft_comm_failed(comm, nullptr, &count), "failed");
    return place(count);
  };
  while (heard_of() < with_victim.size()) std::this_thread::sleep_for(1ms);
  absent = with_victim;
  std::erase(present, victim);
  note(sum_of(present));
}

// arguments also: the rank that dies.
RANKS_BEFORE_START_UP(all_calls) {
  start_with_absent(arguments);
  for (const std::size_t words : {1, 3, 100, 20000}) {
    for (int i = 0; i < 20; ++i) try_allreduce(words);
    try_blocks(words);
    try_rooted(words);
  }
  try_allreduce(5, true);
  try_scans();
  try_letters();
  try_quorum();
  for (const auto algorithm : {UCFT_GOSSIP_PCF, UCFT_GOSSIP_PUSH_FLOW, UCFT_GOSSIP_ARDB, UCFT_GOSSIP_HPS})
    try_gossip(algorithm, UCFT_GOSSIP_PATH_AUTO);
  try_gossip(UCFT_GOSSIP_PCF, UCFT_GOSSIP_PATH_MESSAGE);
  ucft_context_paths_t paths = UCFT_CONTEXT_PATHS_INIT;
  check(ucft_context_paths(context, &paths), "paths");
  if (paths.messages == 0) try_gossip(UCFT_GOSSIP_PCF, UCFT_GOSSIP_PATH_RMA);
  try_sights();
  try_communicators();
  if (!reported.empty()) wrong("rank {} is reported", reported[0]);
  const std::int32_t victim = std::stoi(arguments[5]);
  if (victim < 0) return;
  lose(victim);
  try_letters();
  for (std::size_t words : {1, 1000}) {
    try_allreduce(words);
    try_blocks(words);
  }
  try_communicators();
  if (reported != RankList{victim}) wrong("{} ranks are reported", reported.size());
}

RANKS_BEFORE_START_UP(start_alone) { start_with_absent(arguments); }

// A second context is started in the background, while this one is in use. Then both are.
RANKS_BEFORE_START_UP(two_contexts) {
  start_with_absent(arguments);
  std::unique_ptr<Context> started;
  std::atomic<bool> is_there = false;
  std::thread starter([&] {
    started = start_context(arguments);
    is_there = true;
  });
  for (std::uint64_t all_have_it = 0; all_have_it == 0;) {
    try_allreduce(100);
    const std::uint64_t mine = is_there ? 1 : 0;
    check(ucft_allreduce(comm, &mine, &all_have_it, 1, UCFT_UINT64, UCFT_MIN, nullptr, nullptr), "minimum");
  }
  starter.join();
  const ucft_context_h first = std::exchange(context, contexts.open(started.release()));
  ucft_comm_h other = comm;
  check(ucft_comm_create(context, &comm), "comm");
  for (int i = 0; i < 20; ++i) {
    try_allreduce(10);
    std::swap(comm, other);
    try_allreduce(1000);
    std::swap(comm, other);
  }
  try_blocks(100);
  check(ucft_context_destroy(first), "destroy the first");
  try_blocks(3);
  if (!reported.empty()) wrong("rank {} is reported", reported[0]);
}

// ---- the test -------------------------------------------------------------------------------------------------------

struct Job {
  int size = 0;
  RankList absent{};
  std::string scenario = "all_calls";
  std::int32_t victim = -1;
  std::map<std::string, std::string> environment{};
  bool any_interface = false;
};

struct Ended {
  std::string text;  // all that it has said
  int status = 0;    // of waitpid()
  std::string verdict() const {
    const auto at = text.find("VERDICT ");
    return at == std::string::npos ? "" : text.substr(at + 8, text.find('\n', at) - at - 8);
  }
};

struct Child {
  pid_t pid;
  int output;  // a pipe
};

Child begin_rank(const Job& job, int rank, const std::string& address, const std::string& secret) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::string seats;
  for (int each = 0; each < job.size; ++each)
    seats += std::ranges::find(job.absent, each) == job.absent.end() ? '-' : 'x';
  std::vector<std::string> words{
      "/proc/self/exe", job.scenario, std::to_string(rank),      std::to_string(job.size), address,
      secret,           seats,        std::to_string(job.victim)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    ::close(ends[0]);
    ::close(ends[1]);
    setenv("UCFT_RANK", std::to_string(rank).c_str(), 1);  // for test points
    for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

// By rank; absent ones have nothing.
std::vector<Ended> run(const Job& job) {
  RendezvousServer::Options options;
  options.size = job.size;
  options.secret = bootstrap::random_secret();
  options.any_interface = job.any_interface;
  options.absent.resize(static_cast<std::size_t>(job.size));
  for (const std::int32_t rank : job.absent) options.absent[place(rank)] = true;
  std::string error;
  const auto server = RendezvousServer::listen(options, error);
  EXPECT_NE(server, nullptr) << error;
  const std::string address = job.any_interface ? "127.0.0.1:" + std::to_string(server->port()) : server->address();
  std::vector<Ended> ended(static_cast<std::size_t>(job.size));
  std::map<int, Child> children;
  for (int rank = 0; rank < job.size; ++rank)
    if (!options.absent[place(rank)])
      children[rank] = begin_rank(job, rank, address, bootstrap::secret_to_hex(options.secret));
  for (const auto limit = Clock::now() + 120s; !children.empty();) {
    std::vector<pollfd> entries;
    server->add_poll_entries(entries, Clock::now());
    for (const auto& [rank, child] : children) entries.push_back({child.output, POLLIN, 0});
    poll(entries.data(), entries.size(), 20);
    for (const pollfd& entry : entries) {
      const auto talks = std::ranges::find_if(children, [&](const auto& it) { return it.second.output == entry.fd; });
      if (talks == children.end()) {
        if (entry.revents != 0) server->on_ready(entry.fd, entry.revents, Clock::now());
        continue;
      }
      auto& [rank, child] = *talks;
      char bytes[4096];
      if (entry.revents == 0) continue;
      if (const ssize_t count = read(child.output, bytes, sizeof bytes); count > 0) {
        ended[place(rank)].text.append(bytes, static_cast<std::size_t>(count));
        continue;
      }
      waitpid(child.pid, &ended[place(rank)].status, 0);
      ::close(child.output);
      children.erase(talks);
    }
    server->on_timer(Clock::now());
    if (Clock::now() > limit) {
      ADD_FAILURE() << "ranks hang";
      for (const auto& [rank, child] : children) kill(child.pid, SIGKILL);
    }
  }
  return ended;
}

std::map<std::string, std::string> environment_of(const std::string& way) {
  if (way == "shared") return {};
  if (way == "corrected") return {{"UCFT_ALGORITHM", "corrected"}};
  if (way == "tcp") return {{"UCX_TLS", "tcp"}};
  if (way == "unfenced") return {{"UCFT_FENCE", "0"}};
  if (way == "no_pidfd") return {{"UCFT_TEST_NO_PIDFD", "1"}};
  std::map<std::string, std::string> hosts{
      {"UCX_TLS", "tcp,sm"}, {"UCX_NET_DEVICES", "lo"}, {"UCFT_SPIN", "6"}, {"UCFT_TEST_RANKS_PER_HOST", "2"}};
  if (way == "lonely_hosts" || way == "corrected_hosts") hosts["UCFT_TEST_RANKS_PER_HOST"] = "1";
  if (way == "corrected_hosts") hosts["UCFT_ALGORITHM"] = "corrected";
  if (way == "unfenced_hosts") hosts["UCFT_FENCE"] = "0";
  if (way == "few_connections") hosts["UCFT_CONNECT_ALL"] = "0";
  return hosts;
}

class Absent : public testing::TestWithParam<std::string> {
 protected:
  // The survivors agree, and the victim has been killed.
  void expect_right(int size, const RankList& absent, std::int32_t victim, const std::string& scenario = "all_calls") {
    const Job job{.size = size,
                  .absent = absent,
                  .scenario = scenario,
                  .victim = victim,
                  .environment = environment_of(GetParam())};
    const std::vector<Ended> ended = run(job);
    std::string verdict;
    for (int rank = 0; rank < size; ++rank) {
      const Ended& its = ended[place(rank)];
      if (std::ranges::find(absent, rank) != absent.end()) continue;
      if (rank == victim) {
        EXPECT_TRUE(WIFSIGNALED(its.status) && WTERMSIG(its.status) == SIGKILL) << rank << ": " << its.text;
        continue;
      }
      EXPECT_EQ(its.status, 0) << "rank " << rank << ": " << its.text;
      EXPECT_NE(its.verdict(), "") << "rank " << rank << ": " << its.text;
      if (verdict.empty()) verdict = its.verdict();
      EXPECT_EQ(its.verdict(), verdict) << "rank " << rank;
    }
  }
};

TEST_P(Absent, ARankInTheMiddle) { expect_right(4, {1}, 3); }
TEST_P(Absent, TheFirstRankAndThenTheNext) { expect_right(4, {0}, 1); }
TEST_P(Absent, TwoRanks) { expect_right(5, {0, 2}, 3); }
TEST_P(Absent, AHostsOnlyRank) { expect_right(5, {4}, 0); }
TEST_P(Absent, AWholeHost) { expect_right(5, {0, 1}, 4); }
TEST_P(Absent, MostRanks) { expect_right(7, {0, 2, 3, 5}, 6); }
TEST_P(Absent, SomeOfMany) { expect_right(9, {1, 6, 7}, 0); }
TEST_P(Absent, AllButOne) { expect_right(3, {0, 2}, -1); }
TEST_P(Absent, ASecondContextIsStartedInTheBackground) { expect_right(5, {1, 4}, -1, "two_contexts"); }

INSTANTIATE_TEST_SUITE_P(Ways, Absent,
                         testing::Values("shared", "corrected", "tcp", "unfenced", "no_pidfd", "hosts", "lonely_hosts",
                                         "corrected_hosts", "unfenced_hosts", "few_connections"),
                         [](const auto& tested) { return tested.param; });

// Before each step; or while it waits in that step for the others.
TEST(AbsentStart, ARankThatDiesInStartUpIsNamedOnAllOthers) {
  struct Way {
    const char* name;
    int steps;
  };
  for (const auto& [way, steps] : {Way{"shared", 6}, Way{"hosts", 9}})
    for (int step = 0; step < steps; ++step)
      for (const char* moment : {"step", "fence"}) {
        Job job{.size = 4, .absent = {0}, .scenario = "start_alone", .environment = environment_of(way)};
        job.environment["UCFT_TEST_KILL"] = fmt::format("2:{}:{}", moment, step);
        const std::vector<Ended> ended = run(job);
        EXPECT_TRUE(WIFSIGNALED(ended[2].status)) << way << ", " << moment << " " << step;
        for (const int rank : {1, 3})
          EXPECT_NE(ended[place(rank)].verdict().find("rank 2 ("), std::string::npos)
              << way << ", " << moment << " " << step << ", rank " << rank << ": " << ended[place(rank)].text;
      }
}

TEST(AbsentStart, AServerOnAllInterfacesIsReached) {
  const std::vector<Ended> ended = run({.size = 3, .absent = {1}, .scenario = "start_alone", .any_interface = true});
  for (const int rank : {0, 2})
    EXPECT_NE(ended[place(rank)].verdict().find("start_alone"), std::string::npos) << ended[place(rank)].text;
}

}  // namespace
}  // namespace ucft::detail::test

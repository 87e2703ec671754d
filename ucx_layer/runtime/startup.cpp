// Start-up of a context: who is where, UCX, wire-up of everything that later operations use, the detector. Each step is
// collective over the out-of-band allgather, so that a rank that fails in one is named on all.
#include <fmt/core.h>
#include <linux/membarrier.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/runtime/descriptors.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

namespace {

constexpr std::size_t text_bytes = 200;

struct Identity {
  std::uint32_t version;
  std::uint32_t cookie;  // rank 0's is the job's
  std::uint64_t host;
  std::uint64_t network;  // namespace
  std::uint64_t start_time;
  std::int32_t pid;
  std::int32_t window;       // this and the detector's times must be the same on all ranks
  std::int32_t may_share;    // memory with ranks of the same host (UCX_TLS)
  std::int32_t has_barrier;  // others can make it fence
  std::uint64_t mappable;    // SharedRange::mappable()
  std::uint64_t suspect_after_us, heartbeat_period_us;
  std::uint64_t gossip_faults;  // of the text
  char host_name[64];
};

struct StepResult {
  std::int32_t ok;
  char error[text_bytes];
};

struct Address {
  RangeName range;
  std::uint64_t worker_bytes;
  LifelineName lifeline;
};

constexpr std::int32_t lifelines_wanted = 16;  // at least, in each direction
constexpr auto connected_limit = std::chrono::seconds(5);
constexpr std::chrono::microseconds lifeline_limit = std::chrono::seconds(10);

// Ranks with the same number can signal each other and share memory: same kernel, same PID namespace.
std::uint64_t host_number() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  std::uint64_t hash = 14695981039346656037ull ^ space.st_ino;
  for (char letter : boot) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ull;
  return hash;
}

std::uint64_t network_number() {
  struct stat space {};
  return stat("/proc/self/ns/net", &space) == 0 ? space.st_ino : 0;
}

std::uint32_t random_cookie() {
  std::uint32_t cookie = 0;
  while (cookie == 0)
    if (getrandom(&cookie, sizeof cookie, 0) != sizeof cookie) cookie = static_cast<std::uint32_t>(getpid()) | 1u;
  return cookie;
}

// What a rank reserves for shared memory: as much as the machine has, if all ranks can map that of all others beside what
// else they need.
std::uint64_t range_bytes(std::uint64_t mappable, int sharing, std::int64_t wanted) {
  if (wanted >= 0)
    mappable =
        std::min(mappable, static_cast<std::uint64_t>(wanted) * 2 * static_cast<std::uint64_t>(std::max(sharing, 1)));
  const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
  return std::min(memory, mappable / 2 / static_cast<std::uint64_t>(std::max(sharing, 1))) / page * page;
}

void copy_text(char* target, std::size_t bytes, const std::string& text) {
  std::strncpy(target, text.c_str(), bytes - 1);
  target[bytes - 1] = 0;
}

// So that others can make this process fence: its own helper thread, and ranks that go to sleep.
bool register_membarrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

}  // namespace

ucft_status_t Context::start(const ucft_context_params_t* params, std::string& error) {
  pid_ = static_cast<int>(getpid());
  raise_descriptor_limit();  // peers, lifelines and whoever connects to UCX need descriptors
  forked();                  // registers the fork handler
  fallback_fence_ = !register_membarrier();
  if (!read_settings(params, settings_, error)) return UCFT_ERR_INVALID_PARAM;
  if (params != nullptr) {
    failure_callback_ = params->failure_callback;
    failure_callback_arg_ = params->failure_callback_arg;
  }
  OutOfBand oob;
  const ucft_oob_coll_t none{};
  if (!oob.open(params == nullptr ? none : params->oob, std::chrono::microseconds(settings_.startup_timeout_us), error,
                settings_.pmix != 0))
    return params != nullptr && params->oob.allgather != nullptr ? UCFT_ERR_INVALID_PARAM : UCFT_ERR_STARTUP;
  rank_ = oob.rank();
  size_ = oob.size();
  if (!exchange_identities(oob, error) || !wire_up(oob, error) || !shut_the_door(oob, error)) return UCFT_ERR_STARTUP;
  const bool watching = start_detector(error);
  if (!agree(oob, watching, error, "detector")) return UCFT_ERR_STARTUP;
  detector_->count_silence();  // all ranks' detectors run now
  std::string complaint;
  const bool all_must_close = oob.close(complaint);
  if (!complaint.empty()) fmt::print(stderr, "ucft: rank {}: {}\n", rank_, complaint);
  started_ = true;
  if (all_must_close) meet();
  return UCFT_OK;
}

// A barrier over the survivors: the launcher's are for ranks that it knows, and can't survive. A rank that dies in it is dead
// like any other; more than f deaths end it, too.
void Context::meet() {
  Communicator* everybody = create_for_all();
  farewell({everybody});
  destroy(everybody);
}

bool Context::exchange_identities(OutOfBand& oob, std::string& error) {
  Identity mine{};
  mine.version = UCFT_VERSION_MAJOR << 16 | UCFT_VERSION_MINOR;
  mine.cookie = random_cookie();
  mine.host = host_number();
  mine.network = network_number();
#ifdef UCFT_TEST_POINTS
  mine.host += test_points::host_of(rank_);  // several hosts on one machine
#endif
  mine.pid = pid_;
  mine.start_time = process_start_time(pid_);
  mine.window = settings_.window;
  mine.suspect_after_us = settings_.suspect_after_us;
  mine.heartbeat_period_us = settings_.heartbeat_period_us;
  for (const char each : settings_.gossip_faults_text)
    mine.gossip_faults = mixed(mine.gossip_faults, static_cast<std::uint64_t>(each));
  mine.may_share = shared_memory_allowed();
  mine.has_barrier = !fallback_fence_;
  mine.mappable = SharedRange::mappable();
  gethostname(mine.host_name, sizeof mine.host_name - 1);
  std::vector<Identity> all(static_cast<std::size_t>(size_));
  if (!oob.allgather(&mine, all.data(), sizeof mine, error)) return false;
  cookie_ = all[0].cookie;
  for (int rank = 0; rank < size_; ++rank) {
    const Identity& identity = all[static_cast<std::size_t>(rank)];
    peers_.push_back(std::make_unique<Peer>());
    Peer& peer = *peers_.back();
    peer.pid = identity.pid;
    peer.start_time = identity.start_time;
    peer.host = identity.host;
    peer.may_share = identity.may_share != 0;
    one_network_ = one_network_ && identity.network == mine.network;
    if (identity.host == mine.host && identity.mappable < mappable_) {
      mappable_ = identity.mappable;
      mappable_rank_ = rank;
    }
    sleeper_fences_ = sleeper_fences_ && identity.has_barrier != 0;
    peer.host_name = std::string(identity.host_name, strnlen(identity.host_name, sizeof identity.host_name));
    if (identity.version != mine.version) {
      error = fmt::format("rank {} runs another version of ucft", rank);
      return false;
    }
    const auto differs = [&](const char* name, auto ours, auto theirs, const char* unit) {
      if (ours != theirs)
        error = fmt::format("{} is {}{} on rank {} and {}{} on rank {}: it must be the same", name, ours, unit, rank_,
                            theirs, unit, rank);
      return ours != theirs;
    };
    if (differs("UCFT_WINDOW", mine.window, identity.window, "") ||
        differs("UCFT_SUSPECT_AFTER", mine.suspect_after_us, identity.suspect_after_us, "us") ||
        differs("UCFT_HEARTBEAT_PERIOD", mine.heartbeat_period_us, identity.heartbeat_period_us, "us"))
      return false;
    if (mine.gossip_faults != identity.gossip_faults) {
      error = fmt::format("UCFT_GOSSIP_FAULTS is '{}' on rank {} and another one on rank {}: it must be the same",
                          settings_.gossip_faults_text, rank_, rank);
      return false;
    }
  }
  std::vector<std::uint64_t> hosts;
  for (const auto& peer : peers_) hosts.push_back(peer->host);
  departures_ = Departures(
      rank_, hosts, {.suspect_after = std::chrono::microseconds(settings_.suspect_after_us), .fence = settings_.fence});
  return true;
}

// Whether a step worked everywhere. `error` names the first rank where it didn't.
bool Context::agree(OutOfBand& oob, bool ok, std::string& error, const char* step) {
  StepResult mine{ok ? 1 : 0, {}};
  copy_text(mine.error, sizeof mine.error, ok ? "" : error);
  std::vector<StepResult> all(static_cast<std::size_t>(size_));
  if (!oob.allgather(&mine, all.data(), sizeof mine, error, [this] { transport_->poll(); })) return false;
  for (int rank = 0; rank < size_; ++rank) {
    const StepResult& result = all[static_cast<std::size_t>(rank)];
    if (result.ok != 0) continue;
    error = fmt::format("{} failed at {}: {}", describe(rank), step,
                        std::string(result.error, strnlen(result.error, text_bytes)));
    return false;
  }
  return true;
}

bool Context::wire_up(OutOfBand& oob, std::string& error) {
  const Peer& me = *peers_[static_cast<std::size_t>(rank_)];
  int local = 0, sharing = 0;
  for (const auto& peer : peers_) {
    local += peer->host == me.host;
    many_hosts_ = many_hosts_ || peer->host != me.host;
    all_share_memory_ = all_share_memory_ && peer->host == me.host && peer->may_share;
    sharing += peer.get() == &me || peer->shares_memory_with(me);
  }
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  spin_ = settings_.spin >= 0 ? static_cast<std::uint32_t>(settings_.spin) : local <= cores ? 1000 : 6;

  transport_ = std::make_unique<Transport>(
      Transport::Setup{rank_,
                       size_,
                       cookie_,
                       settings_.log_errors,
                       {this, &Context::accepts, &Context::deliver, &Context::on_control, &Context::endpoint_failed},
                       sleeper_fences_,
                       sharing < size_,
                       !many_hosts_ && one_network_,
                       range_bytes(mappable_, sharing, settings_.shared_memory_bytes)});
  PeerAddress mine;
  const std::uint64_t range = range_bytes(mappable_, sharing, settings_.shared_memory_bytes),
                      least = transport_->least_range_bytes();
  bool ok = range >= least;
  if (!ok && settings_.shared_memory_bytes >= 0 && static_cast<std::uint64_t>(settings_.shared_memory_bytes) < least)
    error = fmt::format("UCFT_SHARED_MEMORY is {} bytes, and {} are needed", settings_.shared_memory_bytes, least);
  else if (!ok)
    error = fmt::format(
        "{} can map {} bytes of address space (RLIMIT_AS, ulimit -v): each of the {} ranks here needs {} in all of "
        "them",
        describe(mappable_rank_), mappable_, sharing, least);
  ok = ok && transport_->open(error);
  if (ok) {
    mine = transport_->own_address(error);
    ok = error.empty();
  }
  LifelineMaker lifelines;
  if (ok && many_hosts_) ok = lifelines.listen(error);
  if (!agree(oob, ok, error, "opening its transports")) return false;

  std::vector<PeerAddress> addresses;
  std::vector<LifelineName> lifeline_names;
  if (!exchange_addresses(oob, mine, lifelines.name(), addresses, lifeline_names, error)) return false;
  ok = transport_->connect(addresses, error);
  if (!agree(oob, ok, error, "connecting")) return false;

  // Every connection is used once before the first collective: a peer that dies during UCX's lazy wire-up could take a
  // survivor with it.
  transport_->send_hellos();
  const auto limit = Clock::now() + std::chrono::microseconds(settings_.startup_timeout_us);
  while (!transport_->wired() && transport_->missing_greeting(true) < 0 && Clock::now() < limit) transport_->poll();
  ok = transport_->wired();
  if (!ok) error = fmt::format("no greeting from {}", describe(transport_->missing_greeting()));
  if (!agree(oob, ok, error, "greeting")) return false;
  if (many_hosts_ && !connect_lifelines(oob, lifelines, lifeline_names, error)) return false;
  return open_remote_mailboxes(oob, error);
}

// UCX listens for as long as it lives, and takes in whoever connects. No rank may stop before all have their connections.
bool Context::shut_the_door(OutOfBand& oob, std::string& error) {
  if (all_share_memory_) return true;
  const auto limit = Clock::now() + connected_limit;
  while (!transport_->connected() && Clock::now() < limit) transport_->poll();
  const char mine = transport_->connected() ? 1 : 0;
  std::vector<char> all(static_cast<std::size_t>(size_));
  if (!oob.allgather(&mine, all.data(), sizeof mine, error, [this] { transport_->poll(); })) return false;
  const auto late = std::find(all.begin(), all.end(), 0);
  const bool shut = late == all.end() && transport_->accept_no_more();
  if (!shut && settings_.log_errors)
    fmt::print(stderr, "ucft: rank {}: UCX's listeners stay open: {}\n", rank_,
               late == all.end() ? "the kernel refuses a filter"
                                 : fmt::format("a connection of {} is not acknowledged",
                                               describe(static_cast<int>(late - all.begin()))));
  return true;
}

// The more ranks watch one, the more of them may die with it unnoticed. In a job of up to some 30 ranks all watch all.
// A lifeline that only one side knows of ends without its process: so none counts that the other side does not have.
bool Context::connect_lifelines(OutOfBand& oob, LifelineMaker& maker, const std::vector<LifelineName>& names,
                                std::string& error) {
  std::vector<std::uint64_t> hosts;
  for (const auto& peer : peers_) hosts.push_back(peer->host);
  std::vector<LifelineMaker::Wanted> wanted;
  for (const std::int32_t rank : lifeline_neighbours(hosts, rank_, std::max(lifelines_wanted, settings_.f + 1)))
    wanted.push_back({rank, names[static_cast<std::size_t>(rank)]});
  const std::uint64_t job = std::uint64_t{cookie_} << 32 | static_cast<std::uint32_t>(peers_[0]->pid);
  UCFT_TEST_POINT(lifelines);
  const auto limit = std::min(lifeline_limit, std::chrono::microseconds(settings_.startup_timeout_us) / 2);
  std::vector<Lifeline> lines = maker.connect(rank_, job, wanted, limit, [this] { transport_->poll(); });

  LifelineGaps mine;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!lines[i].is_open()) mine.add(wanted[i].rank);
  std::vector<LifelineGaps> gaps(static_cast<std::size_t>(size_));
  if (!oob.allgather(&mine, gaps.data(), sizeof mine, error, [this] { transport_->poll(); })) return false;

  std::int32_t missing = 0, example = no_rank;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int32_t rank = wanted[i].rank;
    if (mine.include(rank) || gaps[static_cast<std::size_t>(rank)].include(rank_)) {
      ++missing;
      example = rank;
      continue;
    }
    departures_.add_lifeline(rank);
    lifelines_.emplace_back(rank, std::move(lines[i]));
  }
  if (missing > 0)
    fmt::print(stderr, "ucft: rank {}: no TCP connection to {}{}: only UCX will tell if it falls silent\n", rank_,
               describe(example), missing > 1 ? fmt::format(" and {} more", missing - 1) : "");
  return true;
}

// Between hosts: if the transport writes into remote memory by itself on both sides, messages go into mailboxes there.
bool Context::open_remote_mailboxes(OutOfBand& oob, std::string& error) {
  if (all_share_memory_) return true;
  const std::vector<std::byte> mine = settings_.rma == 0 ? std::vector<std::byte>{} : transport_->own_remote_key();
  struct Key {
    std::uint64_t address;
    std::uint32_t bytes;  // of the key; 0: no mailboxes with this rank
    std::byte key[remote_key_limit];
  } own{};
  own.address = transport_->own_segment_address();
  own.bytes = static_cast<std::uint32_t>(mine.size());
  std::copy(mine.begin(), mine.end(), own.key);
  std::vector<Key> all(static_cast<std::size_t>(size_));
  if (!oob.allgather(&own, all.data(), sizeof own, error, [this] { transport_->poll(); })) return false;
  bool ok = true;
  if (own.bytes > 0)
    for (std::int32_t rank = 0; rank < size_ && ok; ++rank) {
      const Key& key = all[static_cast<std::size_t>(rank)];
      if (key.bytes > 0) ok = transport_->open_remote_mailbox(rank, key.address, {key.key, key.bytes}, error);
    }
  return agree(oob, ok, error, "opening mailboxes");
}

bool Context::exchange_addresses(OutOfBand& oob, const PeerAddress& mine, const LifelineName& lifeline,
                                 std::vector<PeerAddress>& all, std::vector<LifelineName>& lifelines,
                                 std::string& error) {
  const auto ranks = static_cast<std::size_t>(size_);
  const Address address{mine.range, mine.messages.size(), lifeline};
  std::vector<Address> addresses(ranks);
  if (!oob.allgather(&address, addresses.data(), sizeof address, error)) return false;
  std::size_t longest = 0;
  for (const Address& each : addresses) longest = std::max(longest, static_cast<std::size_t>(each.worker_bytes));
  std::vector<std::byte> blob(longest), blobs(longest * ranks);
  std::copy(mine.messages.begin(), mine.messages.end(), blob.begin());
  if (longest > 0 && !oob.allgather(blob.data(), blobs.data(), longest, error)) return false;
  const Peer& me = *peers_[static_cast<std::size_t>(rank_)];
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::byte* worker = blobs.data() + rank * longest;
    all.push_back(
        {peers_[rank]->shares_memory_with(me), addresses[rank].range, {worker, worker + addresses[rank].worker_bytes}});
    lifelines.push_back(addresses[rank].lifeline);
  }
  return true;
}

bool Context::start_detector(std::string& error) {
  std::vector<DetectorThread::Peer> watched;
  std::vector<DetectorThread::RemotePeer> afar;
  for (auto& [rank, line] : lifelines_)
    afar.push_back({rank, peers_[static_cast<std::size_t>(rank)]->pid, std::move(line)});
  lifelines_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    const Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    if (rank == rank_ || peer.host != peers_[static_cast<std::size_t>(rank_)]->host) continue;
    if (peer.pid == pid_) continue;  // ranks that are threads of one process die together
    const ControlPage* control = transport_->control_of(rank);
    DetectorThread::Peer here{};
    here.rank = rank;
    here.pid = peer.pid;
    here.start_time = peer.start_time;
    if (control != nullptr) {
      here.heartbeat = &control->heartbeat;
      here.left = &control->left;
    }
    watched.push_back(here);
  }
  if (many_hosts_) {
    ports_ = std::make_unique<RdmaWatch>(std::getenv("UCX_NET_DEVICES"));
    if (ports_->is_empty()) ports_.reset();
  }
  DetectorThread::Setup setup;
  setup.options.heartbeat_period = std::chrono::microseconds(settings_.heartbeat_period_us);
  setup.options.suspect_after = std::chrono::microseconds(settings_.suspect_after_us);
  setup.fence = settings_.fence;
  setup.silence_counts = false;
  setup.own_heartbeat = &transport_->control()->heartbeat;
  setup.on_verdict = &Context::on_verdict;
  setup.on_tick = &Context::on_tick;
  setup.on_excluded = &Context::on_excluded;
  setup.on_left = &Context::on_left;
  setup.on_line_lost = &Context::on_line_lost;
  setup.arg = this;
  if (!ProcessWatch::has_pidfds() && settings_.log_errors)
    fmt::print(stderr,
               "ucft: rank {}: this system has no pidfds: ends of ranks are looked for in /proc, and silent ranks are "
               "not killed\n",
               rank_);
  try {
    helper_ = std::make_unique<HelperThread>(&Context::helper_turn, this);
    detector_ = std::make_unique<DetectorThread>(setup, watched, std::move(afar));
  } catch (const std::system_error& failure) {
    error = fmt::format("the detector can't start: {}", failure.what());
    return false;
  }
  return true;
}

}  // namespace ucft::detail

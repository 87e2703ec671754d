#include "ucx_layer/runtime/startup.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>

#include "collectives/core/sometimes.hpp"
#include "collectives/on_host/tuning_file.hpp"
#include "ucx_layer/bootstrap/machine.hpp"
#include "ucx_layer/test_points.hpp"

namespace ucft::detail {

struct Identity {
  std::uint32_t version;
  std::uint32_t cookie;  // rank 0's is the job's
  std::uint64_t machine, host;
  std::uint64_t network;  // namespace
  std::uint64_t start_time;
  std::int32_t pid;
  std::int32_t window;       // this and the detector's times must be the same on all ranks
  std::int32_t may_share;    // memory with ranks of the same host (UCX_TLS)
  std::int32_t has_barrier;  // others can make it fence
  std::int32_t may_prove;    // see Job
  std::int32_t algorithm;
  std::int32_t f, connect_all;
  std::int32_t joinable;
  std::int32_t devices;    // of the network
  std::uint64_t mappable;  // SharedRange::mappable()
  RangeName page;          // of its memory, for the others to try; empty: memory can't be had, as a later step will say
  std::uint64_t suspect_after_us, heartbeat_period_us;
  std::uint64_t gossip_faults;  // of the text
  std::uint64_t tuning;         // of the table
  Processors processors;
  std::int32_t hardware_threads;
  HostSite site;
  char host_name[64];
};

constexpr std::size_t text_bytes = 200;

struct StepResult {
  std::int32_t ok;
  char error[text_bytes];
};

namespace {

constexpr std::uint64_t trial_bytes = 4096;

struct Address {
  RangeName range;
  std::uint64_t messages_bytes;
  LifelineName lifeline;
};

constexpr auto trial_limit = std::chrono::milliseconds(1000);
constexpr std::int32_t lifelines_wanted = 2, all_have_lifelines = 32;  // at least; up to so many ranks on other hosts
constexpr auto connected_limit = std::chrono::seconds(5);
constexpr std::chrono::microseconds lifeline_limit = std::chrono::seconds(10);

// Ranks with the same number have the same kernel, and so the same processors.
std::uint64_t machine_number() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::uint64_t hash = 14695981039346656037ull;
  for (char letter : boot) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ull;
  return hash;
}

// Ranks with the same number have the same kernel and PID namespace. Whether they share memory is tried.
std::uint64_t host_number(std::uint64_t machine) {
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  return mixed(machine, space.st_ino);
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

// The bytes that a rank reserves for shared memory. They are as many as the machine has, if all ranks can map those of
// all others beside what else they need.
std::uint64_t range_bytes(std::uint64_t mappable, int sharing, std::int64_t wanted) {
  if (wanted >= 0)
    mappable =
        std::min(mappable, static_cast<std::uint64_t>(wanted) * 2 * static_cast<std::uint64_t>(std::max(sharing, 1)));
  const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
  return std::min(memory, mappable / 2 / static_cast<std::uint64_t>(std::max(sharing, 1))) / page * page;
}

HostSite own_site(const Job& job, const Processors& own, std::int32_t hardware_threads) {
  if (UCFT_TEST_SWITCH(has_sites)) {
    const auto turn = static_cast<std::int16_t>(job.rank % 4);
    return {static_cast<std::int16_t>(turn % 2), static_cast<std::int16_t>(turn % 2), turn};
  }
  std::string problem;
  const HostSite site = site_of_this_process(own, hardware_threads, problem);
  if (!problem.empty() && job.settings.says(LogLevel::info))
    fmt::print(stderr, "ucft: rank {}: where it is bound to is not known: {}\n", job.rank, problem);
  return site;
}

StepResult result_of(bool ok, const std::string& error) {
  StepResult result{ok ? 1 : 0, {}};
  if (!ok) std::strncpy(result.error, error.c_str(), text_bytes - 1);
  return result;
}

std::string error_of(const StepResult& result) { return {result.error, strnlen(result.error, text_bytes)}; }

Identity own_identity(const Job& job) {
  const Settings& settings = job.settings;
  Identity mine{};
  mine.version = UCFT_VERSION_MAJOR << 24 | UCFT_VERSION_MINOR << 8 | wire_version;
  mine.cookie = random_cookie();
  mine.machine = machine_number();
  mine.host = host_number(mine.machine);
  mine.network = network_number();
#ifdef UCFT_TEST_POINTS
  mine.host += test_points::host_of(job.rank);  // several hosts on one machine
#endif
  mine.pid = job.pid;
  mine.start_time = process_start_time(job.pid);
  mine.window = settings.window;
  mine.suspect_after_us = settings.suspect_after_us;
  mine.heartbeat_period_us = settings.heartbeat_period_us;
  for (const char each : settings.gossip_faults_text)
    mine.gossip_faults = mixed(mine.gossip_faults, static_cast<std::uint64_t>(each));
  mine.may_share = shared_memory_allowed();
  mine.has_barrier = job.membarriers;
  mine.may_prove = settings.fence && ProcessWatch::has_pidfds();
  mine.algorithm = static_cast<std::int32_t>(settings.algorithm);
  mine.f = settings.f;
  mine.connect_all = settings.connect_all;
  mine.joinable = job.is_joinable;
  mine.mappable = SharedRange::mappable();
  mine.tuning = tuning_hash(settings.tuning);
  mine.hardware_threads = static_cast<std::int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  mine.processors = own_processors();
  mine.site = own_site(job, mine.processors, mine.hardware_threads);
  gethostname(mine.host_name, sizeof mine.host_name - 1);
  return mine;
}

// Settings that must be the same on all ranks, and can be shown.
constexpr std::pair<const char*, std::string (*)(const Identity&)> same_settings[] = {
    {"UCFT_WINDOW", [](const Identity& of) { return fmt::to_string(of.window); }},
    {"UCFT_JOINABLE", [](const Identity& of) { return std::string(of.joinable != 0 ? "y" : "n"); }},
    {"UCFT_CONNECT_ALL", [](const Identity& of) { return fmt::to_string(of.connect_all); }},
    {"UCFT_SUSPECT_AFTER", [](const Identity& of) { return fmt::format("{}us", of.suspect_after_us); }},
    {"UCFT_HEARTBEAT_PERIOD", [](const Identity& of) { return fmt::format("{}us", of.heartbeat_period_us); }},
    {"UCFT_ALGORITHM", [](const Identity& of) { return std::string(name_of(static_cast<Algorithm>(of.algorithm))); }},
};

// Why two ranks can't be in one job; empty: they can.
std::string difference(const Job& job, const Identity& mine, std::int32_t rank, const Identity& theirs) {
  if (theirs.version != mine.version) return fmt::format("rank {} runs another version of ucft", rank);
  for (const auto& [name, value] : same_settings)
    if (value(mine) != value(theirs))
      return fmt::format("{} is {} on rank {} and {} on rank {}: it must be the same", name, value(mine), job.rank,
                         value(theirs), rank);
  if (mine.tuning != theirs.tuning)
    return fmt::format(
        "UCFT_TUNING_FILE (or the table that is built in) has other rows on rank {} than on rank {}: it must be the "
        "same",
        job.rank, rank);
  if (mine.gossip_faults != theirs.gossip_faults)
    return fmt::format("UCFT_GOSSIP_FAULTS is '{}' on rank {} and another one on rank {}: it must be the same",
                       job.settings.gossip_faults_text, job.rank, rank);
  return {};
}

// Of an absent rank, which has told nothing. It counts as a rank of the host of `first`, the first one that is there.
// So a job on one host stays one, all of whose ranks share memory.
Identity stand_in(const Identity& first) {
  Identity identity = first;
  identity.pid = 0;
  identity.start_time = 0;
  identity.may_share = identity.may_prove = 1;
  identity.devices = 0;
  identity.mappable = UINT64_MAX;
  identity.page = {};
  identity.processors = {};
  return identity;
}

Job::Peer peer_of(const Identity& identity, const Identity& mine) {
  return {.pid = identity.pid,
          .start_time = identity.start_time,
          .host = identity.host,
          .host_name = std::string(identity.host_name, strnlen(identity.host_name, sizeof identity.host_name)),
          .hardware_threads = identity.hardware_threads,
          .site = identity.site,
          .shares_processors = identity.machine == mine.machine && identity.processors.is_shared_with(mine.processors),
          .may_share = identity.may_share != 0,
          .may_prove = identity.may_prove != 0};
}

}  // namespace

StartUp::StartUp(Job& job, OutOfBand& oob, DeparturesDriver& departures)
    : job_(job), oob_(oob), departures_(departures) {
  job_.rank = oob.rank();
  job_.size = oob.size();
  for (std::int32_t rank = 0; rank < job_.size; ++rank)
    if (oob.is_absent(rank)) {
      job_.absent.resize(static_cast<std::size_t>(job_.size));
      job_.absent[static_cast<std::size_t>(rank)] = true;
    }
}

bool StartUp::exchange_identities(std::string& error) {
  Identity mine = own_identity(job_);
  devices_ = network_devices();
  mine.devices = static_cast<std::int32_t>(devices_.size());
  SharedRange page;
  std::string shortage;
  if (mine.may_share != 0 && page.open(trial_bytes, trial_bytes, shortage)) mine.page = page.name();
  std::vector<Identity> all;
  if (!oob_.allgather(mine, all, error)) return false;
  const Identity& first = all[static_cast<std::size_t>(job_.first_present())];
  for (std::int32_t rank = 0; rank < job_.size; ++rank) {
    if (job_.is_absent(rank)) {
      all[static_cast<std::size_t>(rank)] = stand_in(first);
      continue;
    }
    error = difference(job_, mine, rank, all[static_cast<std::size_t>(rank)]);
    if (!error.empty()) return false;
  }
  take_in(mine, all);
  if (!divide_hosts(all, error)) return false;
  note_places();
  plan_connections(std::ranges::max_element(all, {}, &Identity::f)->f);
  departures_.begin();
  return true;
}

// Of a job that newcomers may join.
bool StartUp::exchange_listeners(std::string& error) {
  return !job_.is_joinable || oob_.allgather(job_.listener, job_.listeners, error);
}

void StartUp::take_in(const Identity& mine, const std::vector<Identity>& all) {
  job_.cookie = all[0].cookie;
  job_.own_threads = mine.processors.count > 0 ? mine.processors.count : mine.hardware_threads;
  for (const Identity& identity : all) {
    const bool is_here = identity.host == mine.host;
    if (is_here && identity.mappable < mappable_) {
      mappable_ = identity.mappable;
      mappable_rank_ = static_cast<std::int32_t>(job_.peers.size());
    }
    job_.peers.push_back(peer_of(identity, mine));
    job_.one_network = job_.one_network && is_here && identity.network == mine.network;
    job_.all_membarriers = job_.all_membarriers && identity.has_barrier != 0;
    networks_.push_back(mixed(identity.host, identity.network));
    most_devices_ = std::max(most_devices_, identity.devices);
  }
}

// Of a step: the first rank where it didn't work; -1: none.
std::int32_t StartUp::first_failed(const std::vector<StepResult>& all) const {
  for (std::int32_t rank = 0; rank < job_.size; ++rank)
    if (!job_.is_absent(rank) && all[static_cast<std::size_t>(rank)].ok == 0) return rank;
  return -1;
}

// The ranks of this host whose memory this one can't open. why: of the first; empty if there is none.
Unopened StartUp::try_pages(const std::vector<Identity>& all, std::string& why) const {
  Unopened unopened(job_.size);
  for (std::int32_t rank = 0; rank < job_.size; ++rank) {
    const RangeName& page = all[static_cast<std::size_t>(rank)].page;
    MappedRange mapped;
    std::string problem;
    const bool is_tried = rank != job_.rank && page.bytes > 0 && job_.peer(rank).shares_memory_with(job_.me());
    if (!is_tried || mapped.open(page, problem)) continue;
    unopened.add(rank);
    if (why.empty()) why = problem;
  }
  return unopened;
}

// Ranks that can't open each other's memory are on different hosts from here on. So they have all that hosts have:
// messages, and lifelines, which need no rights.
bool StartUp::divide_hosts(const std::vector<Identity>& identities, std::string& error) {
  std::string why;
  const Unopened unopened = try_pages(identities, why);
  std::vector<StepResult> all;
  if (!oob_.allgather(result_of(why.empty(), why), all, error)) return false;
  const std::int32_t example = first_failed(all);
  if (example < 0) return true;

  const std::size_t words = unopened.words().size();
  std::vector<std::uint64_t> tables(words * all.size());
  if (!oob_.allgather(unopened.words().data(), tables.data(), words * sizeof tables[0], error)) return false;
  std::vector<Unopened> by_rank;
  for (auto table = tables.begin(); table != tables.end(); table += static_cast<std::ptrdiff_t>(words))
    by_rank.emplace_back(std::vector<std::uint64_t>(table, table + static_cast<std::ptrdiff_t>(words)));
  const std::vector<std::int32_t> parts = parts_of_hosts(job_.hosts(), by_rank);
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    job_.peers[rank].host = mixed(job_.peers[rank].host, static_cast<std::uint64_t>(parts[rank]));
  for (std::int32_t rank = 0; rank < job_.size; ++rank)
    if (job_.is_absent(rank)) job_.peers[static_cast<std::size_t>(rank)].host = job_.peer(job_.first_present()).host;
  if (job_.rank == job_.first_present() && job_.settings.says(LogLevel::warn))
    fmt::print(stderr,
               "ucft: {} can't share memory with all ranks of its host: {}. Ranks that can't share memory count as "
               "different hosts, and send messages\n",
               job_.describe(example), error_of(all[static_cast<std::size_t>(example)]));
  return true;
}

void StartUp::note_places() {
  const Job::Peer& me = job_.me();
  std::map<std::uint64_t, std::int32_t> first;
  job_.local_ranks = 0;
  job_.hardware_threads = me.hardware_threads;
  for (std::int32_t rank = 0; rank < job_.size; ++rank) {
    const Job::Peer& peer = job_.peer(rank);
    const bool is_here = peer.host == me.host;
    job_.first_on_host.push_back(first.try_emplace(peer.host, rank).first->second);
    if (job_.is_absent(rank)) continue;
    job_.local_ranks += is_here;
    if (is_here) job_.hardware_threads = std::min(job_.hardware_threads, peer.hardware_threads);
    job_.all_share_memory = job_.all_share_memory && is_here && peer.may_share;
    sharing_ += rank == job_.rank || peer.shares_memory_with(me);
  }
  job_.many_hosts = job_.local_ranks < job_.present_ranks();
}

// A device that leads nowhere is left out: UCX takes any, and a lifeline waits for seconds. The first rank of each
// network tries others, and is tried.
bool StartUp::try_devices(std::string& error) {
  if (job_.one_network || most_devices_ < 2) return true;
  std::vector<std::size_t> first;  // of each network
  std::map<std::uint64_t, std::size_t> numbers;
  for (std::size_t rank = 0; rank < networks_.size(); ++rank)
    if (!job_.is_absent(static_cast<std::int32_t>(rank)) && numbers.try_emplace(networks_[rank], first.size()).second)
      first.push_back(rank);
  const std::size_t here = numbers[networks_[static_cast<std::size_t>(job_.rank)]];
  const bool is_first = first[here] == static_cast<std::size_t>(job_.rank);

  const AddressTrial trial(is_first ? devices_ : std::vector<NetworkDevice>{});
  std::vector<TrialName> names;
  if (!oob_.allgather(trial.name(), names, error)) return false;
  TrialResults mine{};
  if (is_first) {
    std::vector<TrialName> tried;
    for (const std::size_t network : hosts_to_try(here, first.size())) tried.push_back(names[first[network]]);
    std::ranges::copy(trial.try_out(tried, trial_limit), mine.begin());
  }
  std::vector<TrialResults> all, of_networks;
  if (!oob_.allgather(mine, all, error, [&] { trial.serve(); })) return false;
  for (const std::size_t rank : first) of_networks.push_back(all[rank]);
  choose_devices(reached_by_all(here, of_networks, devices_.size()), is_first);
  return true;
}

void StartUp::choose_devices(ReachedAddresses reached, bool tells) {
  std::vector<std::string> good, bad;
  for (std::size_t i = 0; i < devices_.size(); ++i) ((reached >> i & 1) != 0 ? good : bad).push_back(devices_[i].name);
  if (good.empty() || bad.empty()) return;  // nothing to choose
  if (tells && job_.settings.says(LogLevel::info))
    fmt::print(stderr, "ucft: rank {}: others don't reach {}: UCX and lifelines use {}\n", job_.rank,
               fmt::join(bad, ", "), fmt::join(good, ", "));
  reached_ = std::move(good);
  unreached_ = std::move(bad);
}

// Where hosts are processes few connections are used but those that are planned. Else every pair may be: after a death
// all are asked.
void StartUp::plan_connections(std::int32_t f) {
  std::vector<std::uint64_t> groups;
  std::map<std::uint64_t, std::int32_t> ranks;
  bool two_levels = job_.settings.algorithm == Algorithm::automatic;
  for (const Job::Peer& peer : job_.peers) {
    const bool is_absent = job_.is_absent(static_cast<std::int32_t>(groups.size()));
    groups.push_back(peer.may_share ? peer.host : mixed(peer.host, groups.size()));
    if (is_absent) continue;
    ++ranks[groups.back()];
    two_levels = two_levels && peer.may_be_part_of_host();
  }
  two_levels = two_levels && std::ranges::all_of(ranks, [](const auto& each) { return each.second > 1; });
  const std::int32_t wanted = job_.settings.connect_all;
  job_.connections = ConnectionPlan(groups, job_.rank, f, wanted >= 0 ? wanted : two_levels ? 40 : 256, job_.absent);
}

bool StartUp::agree(bool ok, std::string& error, const char* step) {
  // The others may wait for this rank's greeting, and not come here: not for long, then.
  const bool has_given_up = transport_->has_given_up();
  if (has_given_up) {
    error = "UCX has called abort(), as it does where a peer dies that it is connecting to";
    ok = false;
    oob_.wait_at_most(std::chrono::seconds(3));
  }
  const StepResult mine = result_of(ok, error);
  std::vector<StepResult> all;
  if (has_given_up) UCFT_SOMETIMES("UCX has aborted in start-up");
  if (!oob_.allgather(mine, all, error, polling_)) {
    if (has_given_up) error = fmt::format("{}; {}", mine.error, error);
    return false;
  }
  const std::int32_t failed = first_failed(all);
  if (failed < 0) return true;
  // Another rank's death may be why, after it had said that it was well: then this names it.
  std::vector<char> presence;
  if (!oob_.allgather(char{1}, presence, error)) return false;
  UCFT_SOMETIMES("a rank fails in start-up, and all name it");
  error =
      fmt::format("{} failed at {}: {}", job_.describe(failed), step, error_of(all[static_cast<std::size_t>(failed)]));
  return false;
}

bool StartUp::wire_up(const Sink& sink, std::unique_ptr<Transport>& transport, std::string& error) {
  if (!try_devices(error)) return false;
  transport = std::make_unique<Transport>(setup_of_transport(sink));
  transport_ = transport.get();
  departures_.attach(*transport_);
  PeerAddress mine;
  LifelineMaker lifelines;
  const bool is_open = open_transport(mine, error) && (!job_.many_hosts || lifelines.listen(error, unreached_));
  if (!agree(is_open, error, "opening its transports")) return false;
  std::vector<PeerAddress> addresses;
  std::vector<LifelineName> lifeline_names;
  if (!exchange_addresses(mine, lifelines.name(), addresses, lifeline_names, error)) return false;
  if (!agree(transport_->connect(addresses, error), error, "connecting")) return false;
  if (!agree(greet(error), error, "greeting")) return false;
  transport_->note_wired();
  if (job_.many_hosts && !connect_lifelines(lifelines, lifeline_names, error)) return false;
  return open_remote_mailboxes(error);
}

Transport::Setup StartUp::setup_of_transport(const Sink& sink) const {
  bool all_read = job_.settings.algorithm == Algorithm::automatic;
  for (std::int32_t rank = 0; rank < job_.size; ++rank) all_read = all_read && job_.reads_memory_of(rank);
  return {.me = job_.rank,
          .ranks = job_.size,
          .cookie = job_.cookie,
          .ring_lines = all_read ? mailbox_few_lines : mailbox_lines,
          .log = job_.settings.says(LogLevel::info),
          .sink = sink,
          .sleeper_fences = job_.all_membarriers,
          .needs_messages = sharing_ < job_.present_ranks(),
          .on_one_host = job_.one_network,
          .range_bytes = range_bytes(mappable_, sharing_, job_.settings.shared_memory_bytes),
          .connections = job_.connections.peers().size(),
          .mailboxes = job_.connections.mailboxes(),
          .tcp_devices = fmt::format("{}", fmt::join(reached_, ","))};
}

bool StartUp::open_transport(PeerAddress& mine, std::string& error) {
  const std::int64_t wanted = job_.settings.shared_memory_bytes;
  const std::uint64_t least = transport_->least_range_bytes();
  if (range_bytes(mappable_, sharing_, wanted) >= least) {
    if (!transport_->open(error)) return false;
    mine = transport_->own_address(error);
    return error.empty();
  }
  if (wanted >= 0 && static_cast<std::uint64_t>(wanted) < least)
    error = fmt::format("UCFT_SHARED_MEMORY is {} bytes, and {} are needed", wanted, least);
  else
    error = fmt::format(
        "{} can map {} bytes of address space (RLIMIT_AS, ulimit -v): each of the {} ranks here needs {} in all of "
        "them",
        job_.describe(mappable_rank_), mappable_, sharing_, least);
  return false;
}

// Every connection is used once before the first collective: a peer that dies during UCX's lazy wire-up could take a
// survivor with it.
bool StartUp::greet(std::string& error) {
  transport_->send_hellos();
  const auto limit = Clock::now() + std::chrono::microseconds(job_.settings.startup_timeout_us);
  while (!transport_->wired() && transport_->missing_greeting(true) < 0 && !transport_->has_given_up() &&
         Clock::now() < limit)
    transport_->poll();
  if (!transport_->wired()) UCFT_SOMETIMES("a greeting is missing");
  if (!transport_->wired() && !transport_->has_given_up())
    error = fmt::format("no greeting from {}", job_.describe(transport_->missing_greeting()));
  return transport_->wired();
}

// UCX listens for as long as it lives, and takes in any process that connects. A rank may stop that when all ranks have
// their connections. It must not where some connections are made later.
bool StartUp::shut_the_door(std::string& error) {
  if (job_.all_share_memory || !job_.connections.connects_all()) return true;
  const auto limit = Clock::now() + connected_limit;
  while (!transport_->connected() && Clock::now() < limit) transport_->poll();
  std::vector<char> all;
  if (!oob_.allgather(transport_->connected() ? char{1} : char{0}, all, error, polling_)) return false;
  std::int32_t late = 0;
  while (late < job_.size && (job_.is_absent(late) || all[static_cast<std::size_t>(late)] != 0)) ++late;
  const bool shut = late == job_.size && transport_->accept_no_more();
  if (!shut && job_.settings.says(LogLevel::info))
    fmt::print(stderr, "ucft: rank {}: UCX's listeners stay open: {}\n", job_.rank,
               late == job_.size ? "the kernel refuses a filter"
                                 : fmt::format("a connection of {} is not acknowledged", job_.describe(late)));
  return true;
}

// A lifeline that only one side knows of ends without its process: so none counts that the other side does not have.
bool StartUp::connect_lifelines(LifelineMaker& maker, const std::vector<LifelineName>& names, std::string& error) {
  std::vector<LifelineMaker::Wanted> wanted;
  std::vector<LifelineEnds> plan =
      lifeline_plan(job_.hosts(), std::max(lifelines_wanted, job_.settings.f + 1), all_have_lifelines, job_.absent);
  for (const std::int32_t rank : lifelines_of(plan, job_.rank))
    wanted.push_back({rank, names[static_cast<std::size_t>(rank)]});
  const std::uint64_t job =
      std::uint64_t{job_.cookie} << 32 | static_cast<std::uint32_t>(job_.peer(job_.first_present()).pid);
  UCFT_TEST_POINT(lifelines);
  const auto limit = std::min(lifeline_limit, std::chrono::microseconds(job_.settings.startup_timeout_us) / 2);
  std::vector<Lifeline> lines = maker.connect(job_.rank, job, wanted, limit, polling_);

  LifelineGaps mine;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!lines[i].is_open()) mine.add(wanted[i].rank);
  std::vector<LifelineGaps> gaps;
  if (!oob_.allgather(mine, gaps, error, polling_)) return false;
  const auto is_missing = [&](std::int32_t a, std::int32_t b) {
    return gaps[static_cast<std::size_t>(a)].include(b) || gaps[static_cast<std::size_t>(b)].include(a);
  };
  std::vector<std::int32_t> missing;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (const std::int32_t rank = wanted[i].rank; is_missing(job_.rank, rank))
      missing.push_back(rank);
    else
      lifelines_.emplace_back(rank, std::move(lines[i]));
  std::erase_if(plan, [&](const LifelineEnds& ends) { return is_missing(ends.first, ends.second); });
  departures_.watch_along(std::move(plan));
  if (!missing.empty()) UCFT_SOMETIMES("a lifeline is missing from the start");
  if (!missing.empty() && job_.settings.says(LogLevel::warn))
    fmt::print(stderr, "ucft: rank {}: no TCP connection to {}{}: only UCX will tell if it falls silent\n", job_.rank,
               job_.describe(missing.back()),
               missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "");
  return true;
}

// Between hosts: if the transport writes into remote memory by itself on both sides, messages go into mailboxes there.
bool StartUp::open_remote_mailboxes(std::string& error) {
  if (job_.all_share_memory) return true;
  const std::vector<std::byte> mine = job_.settings.rma == 0 ? std::vector<std::byte>{} : transport_->own_remote_key();
  struct Key {
    std::uint64_t address;
    std::uint32_t bytes;  // of the key; 0: no mailboxes with this rank
    std::byte key[remote_key_limit];
  } own{};
  own.address = transport_->own_segment_address();
  own.bytes = static_cast<std::uint32_t>(mine.size());
  std::copy(mine.begin(), mine.end(), own.key);
  std::vector<Key> all;
  if (!oob_.allgather(own, all, error, polling_)) return false;
  bool ok = true;
  if (own.bytes > 0)
    for (std::int32_t rank = 0; rank < job_.size && ok; ++rank) {
      const Key& key = all[static_cast<std::size_t>(rank)];
      if (key.bytes > 0) ok = transport_->open_remote_mailbox(rank, key.address, {key.key, key.bytes}, error);
    }
  return agree(ok, error, "opening mailboxes");
}

bool StartUp::exchange_addresses(const PeerAddress& mine, const LifelineName& lifeline, std::vector<PeerAddress>& all,
                                 std::vector<LifelineName>& lifelines, std::string& error) {
  const auto ranks = static_cast<std::size_t>(job_.size);
  std::vector<Address> addresses;
  if (!oob_.allgather(Address{mine.range, mine.messages.size(), lifeline}, addresses, error)) return false;
  std::size_t longest = 0;
  for (const Address& each : addresses) longest = std::max(longest, static_cast<std::size_t>(each.messages_bytes));
  std::vector<std::byte> blob(longest), blobs(longest * ranks);
  std::copy(mine.messages.begin(), mine.messages.end(), blob.begin());
  if (longest > 0 && !oob_.allgather(blob.data(), blobs.data(), longest, error)) return false;
  const Job::Peer& me = job_.me();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::byte* messages = blobs.data() + rank * longest;
    all.push_back({job_.is_absent(static_cast<std::int32_t>(rank)),
                   job_.peers[rank].shares_memory_with(me),
                   job_.connections.includes(static_cast<std::int32_t>(rank)),
                   addresses[rank].range,
                   {messages, messages + addresses[rank].messages_bytes}});
    lifelines.push_back(addresses[rank].lifeline);
  }
  return true;
}

}  // namespace ucft::detail

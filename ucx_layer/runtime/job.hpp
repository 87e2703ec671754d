// The job as this rank knows it: written in start-up, read by everybody after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/on_host/host_site.hpp"
#include "timeout_detector/addresses.hpp"
#include "ucx_layer/runtime/settings.hpp"
#include "ucx_layer/transport/connection_plan.hpp"

namespace ucft::detail {

struct Job {
  struct Peer {
    std::int32_t pid = 0;
    std::uint64_t start_time = 0;
    std::uint64_t host = 0;  // its ranks can open each other's memory
    std::string host_name;
    std::int32_t hardware_threads = 1;  // online on its host, as it sees it
    HostSite site;
    bool shares_processors = false;  // may run on one of those that this rank may; this rank does
    bool may_share = false;          // memory, with ranks of its host
    bool may_prove = false;          // it can prove deaths, and kills who is silent
    // Its host can be one process among hosts.
    bool may_be_part_of_host() const { return may_share && may_prove; }
    bool shares_memory_with(const Peer& other) const { return host == other.host && may_share && other.may_share; }
  };

  Settings settings;
  std::int32_t rank = 0, size = 1;
  std::uint32_t cookie = 0;
  int pid = 0;
  std::vector<Peer> peers;                  // by rank; an absent one counts as one of the first present rank's host
  std::vector<bool> absent;                 // by rank: failed from the start, never seen; empty: none
  std::vector<std::int32_t> first_on_host;  // by rank: the lowest rank of its host
  ConnectionPlan connections;
  bool is_joinable = false;             // newcomers may ask each rank there:
  ListenerName listener;                // this one,
  std::vector<ListenerName> listeners;  // all, by rank
  bool many_hosts = false, all_share_memory = true, one_network = true;
  bool membarriers = false;     // this process can be made to fence by its own threads,
  bool all_membarriers = true;  // and all ranks of this host by each other (see SharedPath::ring_doorbells)
  std::int32_t local_ranks = 1, hardware_threads = 1;  // of this host; the same on all its ranks

  std::int32_t own_threads = 1;  // that this rank may run on

  bool is_absent(std::int32_t of) const { return !absent.empty() && absent[static_cast<std::size_t>(of)]; }
  std::int32_t first_present() const {
    std::int32_t first = 0;
    while (is_absent(first)) ++first;
    return first;
  }
  std::int32_t present_ranks() const { return size - static_cast<std::int32_t>(std::ranges::count(absent, true)); }
  const Peer& peer(std::int32_t of) const { return peers[static_cast<std::size_t>(of)]; }
  const Peer& me() const { return peer(rank); }
  std::vector<std::uint64_t> hosts() const {  // by rank
    std::vector<std::uint64_t> all;
    for (const Peer& each : peers) all.push_back(each.host);
    return all;
  }
  // Whether what it has written is read in place, also after its death, which can be proved.
  bool reads_memory_of(std::int32_t of) const {
    return peer(of).may_prove && (of == rank || peer(of).shares_memory_with(me()));
  }
  std::string describe(std::int32_t who) const;  // "rank 3 (host a, pid 17)"
};

}  // namespace ucft::detail

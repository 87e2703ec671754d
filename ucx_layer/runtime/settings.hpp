// The settings, each with its source: defaults, UCFT_* environment variables, ucft_context_params_t.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/models/cost_model.hpp"
#include "collectives/gossip/faults.hpp"
#include "collectives/on_host/host_tuning.hpp"
#include "ucft/ucft.h"

namespace ucft::detail {

enum class Algorithm : std::uint8_t { automatic, corrected };
const char* name_of(Algorithm algorithm);  // auto, ..
enum class Stats : std::uint8_t { none, text, json };
// The messages that go to stderr. warn: what a user has to know, such as that a rank was killed for its silence. info
// adds what is dropped or declared.
enum class LogLevel : std::uint8_t { off, warn, info };

struct Settings {
  // behaviour
  std::int32_t f = 1;                           // UCFT_F
  bool fence = true;                            // UCFT_FENCE
  std::uint64_t heartbeat_period_us = 10000;    // UCFT_HEARTBEAT_PERIOD
  std::uint64_t suspect_after_us = 1000000;     // UCFT_SUSPECT_AFTER
  std::uint64_t startup_timeout_us = 60000000;  // UCFT_STARTUP_TIMEOUT
  LogLevel log = LogLevel::warn;                // UCFT_LOG
  bool joinable = false;                        // UCFT_JOINABLE: newcomers may take the seats of failed ranks
  bool single = false;                          // UCFT_SINGLE: this process is a job of its own, under any launcher
  Stats stats = Stats::none;                    // UCFT_STATS: counters go to stderr when the rank leaves
  std::int32_t pmix = -1;                       // UCFT_PMIX; -1: join the job of a PMIx server, if one started us
  GossipFaults gossip_faults;                   // UCFT_GOSSIP_FAULTS: injected, for experiments; none
  std::string gossip_faults_text;               // as given
  // performance
  std::int32_t rma = -1;  // UCFT_RMA; -1: mailboxes by RDMA put where the transport has it
  std::int32_t connect_all =
      -1;                  // UCFT_CONNECT_ALL: up to so many ranks on other hosts all pairs are connected in start-up;
                           // -1: 40 where hosts are processes and have several ranks each, else 256
  std::int32_t spin = -1;  // UCFT_SPIN; -1: chosen at start-up
  std::uint64_t sleep_after_us = 2000;  // UCFT_SLEEP_AFTER: a wait yields for as long before it sleeps
  std::int64_t shared_memory_bytes =
      -1;                   // UCFT_SHARED_MEMORY: address space reserved per rank; -1: as the machine has memory
  std::int32_t window = 8;  // UCFT_WINDOW: operations in flight per communicator
  // UCFT_ALGORITHM; corrected: by messages between all ranks, whatever memory they share, prepared for deaths from the
  // first message on.
  Algorithm algorithm = Algorithm::automatic;
  std::optional<LogGP> costs;  // UCFT_MODEL: a file, us; none: built-in values
  HostTuning tuning;           // UCFT_TUNING_FILE: a file; auto: built in

  bool says(LogLevel level) const { return log >= level; }

  struct Source {
    std::string name, value, source;  // value: as it is written in the environment
  };
  std::vector<Source> sources;  // one per setting, in the order above
};

// Environment over defaults (an empty variable is none), params (may be null) over both. False: a bad value; `error`
// names the variable or field.
bool read_settings(const ucft_context_params_t* params, Settings& settings, std::string& error);
std::string settings_text(const Settings& settings);

}  // namespace ucft::detail

// One collective operation over hosts of several ranks, under the clock: the ProcessMember objects that run on UCX.
// Between hosts messages cost what the engine says; a host's own part is two figures.
//
//   last rank's call --gather--> the host's contribution --engine--> the result is in the journal --deliver--> all
//   ranks have it
//
// Only ranks that speak, or that something was sent to, have an object. A rank that reads the journal would do the same
// as its speaker.
#pragma once

#include <cstdint>

#include "simulator/collective_run.hpp"

namespace ucft::detail::simulator {

struct TwoLevelRun {
  Arguments arguments;  // as of a CollectiveRun; root: a rank. f, trees and groups count hosts
  std::uint64_t payload_bytes = 8;
  Rank ranks_per_host = 1;  // rank r is on host r / ranks_per_host
  bool optimistic = false;
  double gather = 0;       // from the last call on a host until its first rank has what all give
  double deliver = 0;      // from the result in the journal until all ranks of the host have it
  double proof_delay = 0;  // from a death until the ranks of its host have the proof
  Setting setting;         // ranks: of all hosts. A delay of detection counts between hosts
};

// Times are of ranks, deliver included; counts of messages are those between hosts.
CollectiveResult simulate(const TwoLevelRun& run);

}  // namespace ucft::detail::simulator

// ucft_perftest --tune: finds the fastest shape and sizes for the ranks of this job, which share memory, or the sizes
// for so many hosts.
#pragma once

#include <string>

#include "collectives/on_host/host_tuning.hpp"

namespace ucft::detail::bench {

struct Tuned {
  HostTuning table;  // with one row: of ranks of a host, or between hosts
  int rank = 0;
};

// Collective, with no context open: opens one after the other, each with another table. The figures are of back to back
// allreduces of doubles, as the slowest rank sees them, medians of 7 alternating turns. The built-in choice stays
// unless another one is 5 % better:
//
//   degree       8 bytes, flat and of degree 2, 4, 8, 16
//   large_bytes  the most of 1 KiB .. 64 KiB up to which it is better that each rank combines all by itself
//   chunk_bytes  8 KiB .. 128 KiB, at 256 KiB and 1 MiB
//
// Over several hosts:
//
//   whole_bytes     the most of 8 KiB .. 128 KiB up to which whole vectors are better than blocks, times the steps
//   straight_bytes  the least of 24 KiB .. 768 KiB, of all blocks of an alltoall together, from which on it is better
//                   that they go straight to their readers. Of two hosts they always do: a scatter is measured
//
// Rank 0 prints what it finds. Throws Error; std::runtime_error if ranks of one host send messages, or temporary files
// can't be written.
Tuned tune(bool json);

// The table of that file; of none yet, if it is not there. False: error says why it is none, or that it can't be
// written.
bool read_table(const std::string& path, HostTuning& table, std::string& error);
// The row of that table goes into that of the file, or becomes it. The whole file or none. False: error says why.
bool write_row(const std::string& path, const HostTuning& found, std::string& error);

}  // namespace ucft::detail::bench

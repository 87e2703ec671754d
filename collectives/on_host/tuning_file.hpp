// The tuning table (HostTuning) as a JSON object:
//
//   {"from": "where it was measured", "rows": [{"ranks": 16, "ranks_per_core": 1, "caches": 1,
//                                               "degree": 0, "large_bytes": 8192, "chunk_bytes": 32768}, ...],
//    "between_hosts": [{"processes": 4, "whole_bytes": 262144, "straight_bytes": 98304}, ...]}
//
// "ranks", "ranks_per_core" and "caches" say up to how many a row is for; where one is missing, for any number. The
// first row that fits counts. The built-in rows come behind those of the file. Bytes: large_bytes 64 to 1 MiB,
// chunk_bytes 1 KiB to 16 MiB, both multiples of 64. degree: 0 (flat), or 1 to 1024.
//
// between_hosts is the same by "processes". whole_bytes 0 to 16 MiB, straight_bytes 1 to 1 GiB. One of the two arrays
// may be missing, and so may "from".
#pragma once

#include <cstdint>
#include <string>

#include "collectives/on_host/host_tuning.hpp"

namespace ucft::detail {

// The table of that file, with the rows that are built in behind it. False: error says why there is none.
bool read_tuning(const std::string& path, HostTuning& tuning, std::string& error);
// False: error names the row and the field.
bool parse_tuning(const std::string& text, HostTuning& tuning, std::string& error);
// One row a line. from: a sentence for the reader.
std::string tuning_text(const HostTuning& tuning, const std::string& from);
// The hash that ranks compare at start-up.
std::uint64_t tuning_hash(const HostTuning& tuning);
// Built in (default_tuning.json). Its last row includes everything.
const HostTuning& default_tuning();

}  // namespace ucft::detail

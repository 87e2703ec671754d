// Ranks of one host share memory if each can open that of the other (/proc/PID/fd). The kernel refuses it between user
// namespaces, as of rootless containers, and between users; /proc may hide processes. Each rank tries, and all ranks
// exchange which ones it could not open. The parts of a host are a pure function of that: the same on all ranks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace ucft::detail {

// The ranks whose memory one rank can't open: a bit for each rank of the job.
class Unopened {
 public:
  explicit Unopened(std::int32_t ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64) {}
  explicit Unopened(std::vector<std::uint64_t> words) : words_(std::move(words)) {}

  void add(std::int32_t rank) { words_[place_of(rank)] |= bit_of(rank); }
  bool includes(std::int32_t rank) const { return (words_[place_of(rank)] & bit_of(rank)) != 0; }
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  static std::size_t place_of(std::int32_t rank) { return static_cast<std::size_t>(rank) / 64; }
  static std::uint64_t bit_of(std::int32_t rank) { return std::uint64_t{1} << (static_cast<unsigned>(rank) % 64); }

  std::vector<std::uint64_t> words_;
};

// Each host in parts whose ranks can all open each other's memory. host_of, unopened: by rank. Returns by rank the
// lowest rank of its part. A rank joins the first part that it fits: of four ranks in two containers, 0 and 2 in one
// and 1 and 3 in the other, it is {0, 1, 0, 1}.
std::vector<std::int32_t> parts_of_hosts(const std::vector<std::uint64_t>& host_of,
                                         const std::vector<Unopened>& unopened);

}  // namespace ucft::detail

// The ranks whose mass may be in a rank's own: those that have come to a gossip operation, as it has heard. Until all
// are known to have come (the meeting), this rides on each row, behind it, as whole numbers that a Real holds exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "collectives/gossip/mass.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

template <class Real>
class GossipPresence {
 public:
  explicit GossipPresence(Rank ranks) : words_(length(ranks)) {}

  static constexpr std::size_t length(Rank ranks) { return (static_cast<std::size_t>(ranks) + bits - 1) / bits; }
  void add(Rank rank) { words_[static_cast<std::size_t>(rank) / bits] |= std::uint64_t{1} << rank % bits; }
  bool has(Rank rank) const { return (words_[static_cast<std::size_t>(rank) / bits] >> rank % bits & 1) != 0; }
  bool add_all() {
    constexpr std::uint64_t all = (std::uint64_t{1} << bits) - 1;
    bool is_news = false;
    for (std::uint64_t& word : words_) is_news |= std::exchange(word, all) != all;
    return is_news;
  }
  // False: nothing new is in it. A word that is no whole number of so many bits was damaged, and is passed by.
  bool add(ConstMass<Real> row) {
    bool is_news = false;
    for (std::size_t i = 0; i < words_.size() && i < row.size(); ++i) {
      if (!(row[i] >= 0 && row[i] < std::ldexp(Real{1}, bits))) continue;
      const std::uint64_t all = words_[i] | static_cast<std::uint64_t>(row[i]);
      is_news |= all != words_[i];
      words_[i] = all;
    }
    return is_news;
  }
  std::vector<Real> row() const { return {words_.begin(), words_.end()}; }

 private:
  static constexpr int bits = std::numeric_limits<Real>::digits - 1;
  std::vector<std::uint64_t> words_;
};

}  // namespace ucft::detail

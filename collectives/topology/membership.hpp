// The ranks that take part: all n ranks of the communicator minus those that earlier decisions have excluded.
// Memory grows with the number of excluded ranks, not with n.
#pragma once

#include <cstdint>
#include <vector>

namespace ucft::detail {

class Membership {
 public:
  explicit Membership(std::int32_t size = 0) : size_(size) {}

  std::int32_t size() const { return size_ - static_cast<std::int32_t>(excluded_.size()); }
  bool contains(std::int32_t rank) const { return rank >= 0 && rank < size_ && (excluded_.empty() || remains(rank)); }
  // Members in rank order are at positions 0 .. size()-1. A rank that is no member has the position of the next one.
  std::int32_t position_of(std::int32_t rank) const { return excluded_.empty() ? rank : rank - excluded_below(rank); }
  std::int32_t rank_at(std::int32_t position) const { return excluded_.empty() ? position : member_at(position); }
  void exclude(std::int32_t rank);
  const std::vector<std::int32_t>& excluded() const { return excluded_; }  // ascending

  bool operator==(const Membership&) const = default;

 private:
  bool remains(std::int32_t rank) const;
  std::int32_t excluded_below(std::int32_t rank) const;
  std::int32_t member_at(std::int32_t position) const;

  std::int32_t size_;
  std::vector<std::int32_t> excluded_;
};

}  // namespace ucft::detail

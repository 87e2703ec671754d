// Up-correction groups and the I(f)-tree (Küttler, Härtig: Fault-tolerant Reduce and Allreduce operations based on
// correction, sections 4.2 and 4.5). Pure functions of (process, size, f); process 0 is the root.
//
//   group of p >= 1     floor((p-1)/(f+1)); the last group, if it has fewer than f+1 members, takes the root in
//   subtree of p >= 1   (p-1) mod (f+1)
//   inside a subtree    one binomial tree over group numbers, the same in all f+1 subtrees
//
//   size 7, f 1:   groups {1,2} {3,4} {5,6}       size 8, f 1:  {1,2} {3,4} {5,6} {7,0}
//                  0 -> 1, 2;  1 -> 3, 5;  2 -> 4, 6            0 -> 1, 2;  1 -> 3, 5;  2 -> 4, 6;  3 -> 7
#pragma once

#include <cstdint>
#include <vector>

namespace ucft::detail {

class ReduceTopology {
 public:
  // f is cut to size-1: if more fail no process is left.
  ReduceTopology(std::int32_t size, std::int32_t f);

  std::int32_t size() const { return size_; }
  std::int32_t f() const { return f_; }
  // Groups of f+1 members, without the root.
  std::int32_t complete_groups() const { return (size_ - 1) / (f_ + 1); }
  // Members of the short last group, the root included; 1: there is none. (`a` in Theorem 5.)
  std::int32_t short_group_size() const { return (size_ - 1) % (f_ + 1) + 1; }
  bool in_short_group(std::int32_t process) const;  // true of the root as well, if there is a short group

  // All members of the process's group, itself included, ascending (the root, 0, first).
  void group_members(std::int32_t process, std::vector<std::int32_t>& members) const;
  std::int32_t parent(std::int32_t process) const;  // process >= 1
  void children(std::int32_t process, std::vector<std::int32_t>& children) const;

  // Theorem 5.
  std::int64_t messages_without_failure() const;

 private:
  std::int32_t size_;
  std::int32_t f_;
};

}  // namespace ucft::detail

// A sum under construction: contributions added one by one, in the order of the calls, so that its bits depend on that
// order alone. A contribution that is an earlier decision absorbs everything. Where there is none, so does one whose
// sender has no memory.
#pragma once

#include "collectives/core/ballots.hpp"
#include "collectives/catalogue/arguments.hpp"

namespace ucft::detail {

class Sum {
 public:
  // All three must outlive it, and so must the messages that are added.
  Sum(const Arguments& arguments, const Ballots& ballots, Buffers& buffers)
      : arguments_(arguments), ballots_(ballots), buffers_(buffers) {}
  ~Sum() {
    if (fresh_) buffers_.release(value_);
  }
  Sum(const Sum&) = delete;
  Sum another() const { return Sum(arguments_, ballots_, buffers_); }  // empty, of the same kind

  void add(const Message& contribution);
  // All that was added to part, as one operand. Takes over what it has allocated.
  void add(Sum& part);

  bool any() const { return any_; }  // a value at all
  Slice value() const { return value_; }
  std::uint32_t contributors() const { return contributors_; }
  const Message* decided() const { return decided_; }  // of several decisions the one accepted last; nullptr: none
  Rank lacks_memory() const { return lacks_memory_; }  // no_rank: nobody; else there is no sum

 private:
  const Arguments& arguments_;
  const Ballots& ballots_;
  Buffers& buffers_;
  Slice value_;
  bool fresh_ = false, any_ = false;  // fresh: in memory of its own, never in an operand
  std::uint32_t contributors_ = 0;
  const Message* decided_ = nullptr;
  Rank lacks_memory_ = no_rank;
};

}  // namespace ucft::detail

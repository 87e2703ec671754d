// Faults in one gossip operation of one rank, injected where they are asked for. If none is asked for, nothing is
// touched. The injector is a value: its actions follow from its seed and from the questions put to it. A copy goes on
// in the same way.
//
// Chances come from the seed, the operation's number and the rank. The messages that they hit depend on the order of
// arrival, so two runs with one seed differ. Which link fails, and whose bit flips in which iteration, is the same in
// both.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/gossip/faults.hpp"

namespace ucft::detail {

class GossipFaultInjector {
 public:
  struct Where {
    Rank rank, ranks;
    std::uint64_t operation;
    std::uint64_t values;  // of a mass, without its weight
  };
  struct Counts {
    std::uint64_t lost = 0, flips = 0, failed_links = 0;  // failed_links: one at each end
  };
  struct FailingLink {
    Rank other;
    double time;
    bool failed = false;  // once in this operation
  };

  // faults: must outlive it.
  GossipFaultInjector(const GossipFaults& faults, const Where& where);

  const Counts& counts() const { return counts_; }
  const std::vector<FailingLink>& failing_links() const { return links_; }  // of this rank
  void note_failed_link(Rank other);

  // The masses of a message that is about to leave. False: they are lost.
  template <class Real>
  bool survives_the_way(Mass<Real> row) {
    if (!active_) [[likely]]
      return true;
    if (happens(faults_->loss)) {
      ++counts_.lost;
      return false;
    }
    if (faults_->target != FlipTarget::message) return true;
    if (!due_.empty()) {
      flip(row, due_.back());
      due_.pop_back();
    } else if (happens(faults_->flip_rate)) {
      flip(row, -1);
    }
    return true;
  }

  // Flows and data, right before the push of that iteration. links_used: by rounds, where none are listed.
  template <class Real>
  void before_push(GossipRank<Real>& state, std::uint64_t iteration, int links_used = 0) {
    if (!active_) [[likely]]
      return;
    for (; next_flip_ < flips_.size() && flips_[next_flip_].time <= static_cast<double>(iteration); ++next_flip_)
      due_.push_back(flips_[next_flip_].bit);
    if (faults_->target == FlipTarget::message) return;  // due_: in the next ones
    if (happens(faults_->flip_rate)) due_.push_back(-1);
    for (const int bit : due_) flip_state(state, links_used, bit);
    due_.clear();
  }

 private:
  bool happens(double probability) { return probability > 0 && random_.fraction() < probability; }

  template <class Real>
  void flip_state(GossipRank<Real>& state, int links_used, int bit) {
    const auto live = state.live_links();
    const auto choices = live.empty() ? static_cast<std::uint64_t>(links_used) : live.size();
    if (faults_->target == FlipTarget::data) return flip(state.local_data(), bit);
    if (choices == 0) return;
    const std::uint64_t chosen = random_.below(choices);
    flip(state.flows(live.empty() ? static_cast<int>(chosen) : live[chosen]), bit);
  }
  template <class Real>
  void flip(Mass<Real> row, int bit) {
    flip_bit(row, candidates_, bit, random_);
    ++counts_.flips;
  }

  const GossipFaults* faults_;  // outlives it
  bool active_;
  std::size_t candidates_;
  Random random_;
  std::vector<FailingLink> links_;
  std::vector<BitFlip> flips_;  // of this rank, the earliest first
  std::size_t next_flip_ = 0;
  std::vector<int> due_;  // bits
  Counts counts_;
};

}  // namespace ucft::detail

// Push-Flow, gossip that survives lost messages, and its two ways of repairing flows that were corrupted silently.
//
//   PF     Casas et al. 2018, Algorithm 3; Niederbrucker et al. 2012, Figure 1
//   PFLC   with local correction: Algorithm 4. On the schedule of cycles: HPFLC (section 6.1)
//   PFCC   with cooperative correction: Algorithm 5. On the schedule of cycles: HPFCC (ours)
//
// A rank never gives its initial mass away. For each neighbour j it keeps the flow f[j]: what came from j, less what
// went there. Its current mass is e = initial + sum of all f. A message carries the whole flow and overwrites the other
// side's, negated. So a lost or flipped flow is repaired by the next message that gets through.
//
// Invariant (flow conservation): f[j] here is -f[i] there, unless a message is on its way between the two.
//
// Misprints mended: Algorithms 3-5 push e_j/2 for e_i/2, and Algorithm 5, line 6 sends f_ij for f_ik. Beyond the
// papers: half of an e that is found bad and can't be repaired is not pushed. A flow that is not a number counts as a
// lost flow in PF, too.
//
// Repair of the initial mass (section 4.5): if e and all flows are right, initial = e - sum f. For that e is kept from
// one event to the next. Only a fault ever changes the initial mass. So its check is compared exactly, not up to tau. A
// flow that is flipped in the same interval between two events is one fault too many, and leaves the initial mass bad.
#pragma once

#include "collectives/gossip/mass.hpp"

namespace ucft::detail {

enum class FlowCorrection : std::uint8_t { none, local, cooperative };

template <class Real>
class PushFlow {
 public:
  // initial: with a check if there is a correction. tau: the largest error of a checksum that is not a fault.
  // repairs_initial: only with a correction.
  PushFlow(ConstMass<Real> initial, int links, FlowCorrection correction, double tau, bool repairs_initial = false)
      : initial_(initial.begin(), initial.end()),
        flows_(initial.size() * static_cast<std::size_t>(links)),
        current_(initial_),
        tau_(tau),
        links_(links),
        correction_(correction),
        repairs_initial_(repairs_initial) {}

  // Errors that nobody could see before may be in all flows by now, though not in any mass. With them no row would ever
  // be taken again. (Cooperative correction asks the neighbour.)
  void set_tau(double tau) {
    tau_ = tau;
    if (correction_ != FlowCorrection::local) return;
    for (int link = 0; link < links_; ++link)
      if (bad(flows(link))) clear(flows(link));
    keep_current();
  }

  void push(int link, GossipOutbox<Real>& out) {
    repair_initial();
    push_half(link, out);
    keep_current();
  }

  void settle(int link, GossipOutbox<Real>& out) { send(link, out); }

  void on_message(const GossipArrival<Real>& arrival, GossipOutbox<Real>& out) {
    repair_initial();
    take(arrival, out);
    keep_current();
  }

  // Excludes what was exchanged with the dead rank: the aggregate is the survivors' then.
  void on_failure(int link) {
    repair_initial();
    clear(flows(link));
    keep_current();
  }

  // With a check, if there is a correction. A fault that is in the initial mass shows afterwards, too.
  void add_input(ConstMass<Real> input) {
    repair_initial();
    const bool was_right = correction_ != FlowCorrection::none && initial_.back() == check_of_initial();
    add<Real>(initial_, input);
    if (was_right) initial_.back() = check_of_initial();
    keep_current();
  }

  // ---- by rounds, cooperative: HPFCC (see GossipByRounds)
  void add_bad_links(std::vector<int>& found) const {
    for (int link = 0; link < links_; ++link)
      if (bad(flow_of(link))) found.push_back(link);
  }
  bool is_good(ConstMass<Real> row) const { return row.size() == initial_.size() && !bad(row); }
  // To the neighbour whose copy of that flow is bad (Algorithm 5, lines 17-20). Where both are the flow is given up.
  void answer(int link, GossipOutbox<Real>& out) {
    if (bad(flows(link))) {
      clear(flows(link));
      keep_current();
    }
    send(link, out);
  }
  // Its answer. A bad one doesn't help: then a bad flow here is corrected locally.
  void take_answer(int link, ConstMass<Real> row) {
    if (is_good(row))
      copy_negated<Real>(flows(link), row);
    else if (bad(flows(link)))
      clear(flows(link));
    keep_current();
  }

  // Bad flows are left out.
  void add_estimate(Mass<Real> mass) const {
    if (knows_better()) return add<Real>(mass, current_);
    add<Real>(mass, initial_);
    for (int link = 0; link < links_; ++link)
      if (!bad(flow_of(link))) add<Real>(mass, flow_of(link));
  }
  // Of add_estimate() alone: flows are the same at both ends.
  MassError error() const {
    const std::size_t count = initial_.size() - 1 - (correction_ != FlowCorrection::none);
    MassError error;
    int terms = 0;
    for (int link = 0; link < links_; ++link) terms += largest(flow_of(link)) > 0;
    error.add<Real>(initial_, count, terms);
    for (int link = 0; link < links_; ++link) error.add<Real>(flow_of(link), count, terms);
    return error;
  }
  std::size_t row_length() const { return initial_.size(); }

  // For fault injection, and tests.
  Mass<Real> local_data() { return initial_; }
  Mass<Real> flows(int link) {
    return {flows_.data() + initial_.size() * static_cast<std::size_t>(link), initial_.size()};
  }

 private:
  void push_half(int link, GossipOutbox<Real>& out) {
    sum_up();
    if (bad(current_)) {  // lines 3-10
      for (int other = 0; other < links_; ++other) {
        if (!bad(flows(other))) continue;
        if (correction_ == FlowCorrection::cooperative)
          send(other, out);  // Algorithm 5, line 6: the neighbour answers with its own
        else
          clear(flows(other));
      }
      if (correction_ == FlowCorrection::cooperative) return;
      sum_up();
      if (bad(current_)) {  // the initial mass itself: nothing new goes
        send(link, out);
        return;
      }
    }
    Mass<Real> flow = flows(link);
    for (std::size_t i = 0; i < flow.size(); ++i) flow[i] -= current_[i] / 2;
    send(link, out);
  }

  void take(const GossipArrival<Real>& arrival, GossipOutbox<Real>& out) {
    Mass<Real> flow = flows(arrival.link);
    if (!bad(arrival.row)) {
      copy_negated<Real>(flow, arrival.row);
    } else if (correction_ == FlowCorrection::cooperative) {  // Algorithm 5, lines 17-20
      if (bad(flow)) clear(flow);
      send(arrival.link, out);
    }
  }

  // The initial mass is wrong, and e, of the last event, is right.
  bool knows_better() const { return repairs_initial_ && initial_.back() != check_of_initial() && !bad(current_); }
  Real check_of_initial() const {
    return static_cast<Real>(checksum_of(ConstMass<Real>(initial_).first(initial_.size() - 1)));
  }
  void repair_initial() {
    if (!knows_better()) return;
    for (int link = 0; link < links_; ++link)
      if (bad(flow_of(link))) return;
    copy<Real>(initial_, current_);
    for (int link = 0; link < links_; ++link) subtract<Real>(initial_, flow_of(link));
    initial_.back() = check_of_initial();
  }
  void keep_current() {
    if (repairs_initial_) sum_up();
  }

  ConstMass<Real> flow_of(int link) const {
    return {flows_.data() + initial_.size() * static_cast<std::size_t>(link), initial_.size()};
  }
  bool bad(ConstMass<Real> mass) const {
    return correction_ == FlowCorrection::none ? !is_finite(mass) : is_bad(mass, tau_) || !is_finite(mass);
  }
  void sum_up() {
    copy<Real>(current_, initial_);
    for (int link = 0; link < links_; ++link) add<Real>(current_, flow_of(link));
  }
  void send(int link, GossipOutbox<Real>& out) { copy<Real>(out.add(link, initial_.size()), flow_of(link)); }

  std::vector<Real> initial_, flows_, current_;
  double tau_;
  int links_;
  FlowCorrection correction_;
  bool repairs_initial_;
};

}  // namespace ucft::detail

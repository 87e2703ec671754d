// A gossip all-reduce of one rank: the protocol around the rules of gossip.hpp, as a value. It has no clock, no thread and no
// I/O: what happens comes in through the functions on_..., what is to be sent goes out into GossipSends.
//
//   meet      an agreement: who takes part, do all ask for the same, how large are the data. From here on everybody has
//             posted the operation, so no message of it ever comes before its operation: what does is dropped
//   gossip    asynchronous (links.hpp): a number of iterations, each a push to a live neighbour chosen by chance;
//             by rounds (rounds.hpp): each round waits for its one message
//   settle    asynchronous: on each link both ends say their last word. When all have come mass is conserved
//   agree     an agreement on the largest and the smallest estimate of each value. With all weights positive and mass
//             conserved the aggregate lies between them; the result is the middle, the same bits on every survivor
//
// Then it is over, or (not accurate enough, adaptive) goes on with another stage, or (a rank died that had not been agreed to be
// dead when the stage began) goes on without that rank: flows are cleared and the stage repeated; algorithms without flows
// begin again from their inputs, so that what was on its way to the dead rank is not missing.
//
// The topology is that of the members (members.hpp): who was agreed to live when the operation last began (again). A death that
// cuts it is one more reason to begin again. Who the members are, and whether they are cut, follows from agreements alone, so
// all do the same; messages and states of links carry how often their sender has begun again.
//
// An agreement is a maximum over a table of all survivors (agreement_table.hpp): wants_agreement() asks for it, the driver takes
// table() as late as it can, and answers with on_agreement(). Whoever is missing from it, dead or not, is out.
//
// One-sided (the driver's windows instead of messages): the driver makes a window for each neighbours() whenever begun() has
// changed, and says so if it can't. Then this rank tells all others before it goes to the next agreement, so all begin again by
// messages there, whoever dies meanwhile.
#pragma once

#include <optional>
#include <vector>

#include "collectives/gossip/agreement_table.hpp"
#include "collectives/gossip/gossip_call.hpp"
#include "collectives/gossip/rounds.hpp"

namespace ucft::detail {

// How it ended. excluded: the others have agreed that this rank is dead. no_answer: it was stopped.
enum class GossipEnd : std::uint8_t { none, success, mismatch, unsupported, no_memory, excluded, no_answer };

// What has been agreed on, the same on all survivors.
struct GossipAgreed {
  std::span<const double> table;        // the largest of each entry
  std::span<const Rank> missing;        // who has not contributed to it
  std::uint32_t contributors;
};

struct GossipSeat {
  Rank rank, ranks;
  OperationNumber number;
};

template <class Real>
class GossipOperation {
 public:
  using Sends = GossipSends<Real>;

  // failed: who is known to be dead here. faults: must outlive it.
  GossipOperation(const GossipCall& call, const GossipSeat& seat, ConstMass<Real> input, std::span<const Rank> failed, const GossipFaults& faults);

  void start(WindowObjection objection);
  // row: what the message carries; empty: nothing. Valid during the call.
  void on_message(const GossipMessage& message, ConstMass<Real> row, Sends& out);
  void on_failure(Rank rank, Sends& out);
  void on_agreement(const GossipAgreed& agreed, Sends& out);
  // now: needed only where needs_time(). True if anything was done.
  bool on_turn(GossipTime now, Sends& out);
  // Whatever it was doing, it is over.
  void stop();

  const std::vector<bool>& dead() const { return dead_; }   // by rank, as it is known here
  bool needs_time() const { return step_ == Step::gossiping && links_.has_value(); }
  bool wants_agreement() const { return step_ == Step::meeting || step_ == Step::agreeing; }
  // What this rank has to say in the agreement; who is dead as it is known now.
  std::vector<double> table() const;

  // ---- one-sided
  // One-sided so far: until an agreement says that somebody can't.
  bool one_sided() const { return one_sided_; }
  bool wants_windows() const { return one_sided_ && refuser_ == no_rank; }
  // Whom windows are needed for, by link: from the beginning on of those who are believed to be members, then of those who are.
  const std::vector<Rank>& neighbours() const { return neighbours_; }
  std::uint32_t begun() const { return begun_; }   // so often it has begun; 0: they have not met
  std::uint16_t restarts() const { return static_cast<std::uint16_t>(restarts_); }
  // Whether what somebody says who has begun again so often is to wait here (others have seen the end of the agreement before
  // us), or can be taken in. Neither: it is of before a restart.
  bool is_ahead(std::uint16_t restarts) const { return is_by(1, restarts) || (is_by(0, restarts) && step_ == Step::meeting); }
  bool is_of_now(std::uint16_t restarts) const { return is_by(0, restarts) && step_ != Step::meeting; }
  void on_windows_refused(Sends& out) { refuse_windows(seat_.rank, out); }

  // ---- links, asynchronous. None before it has begun, and when it is over
  std::span<const int> live_links() const { return links_ ? links_->live() : std::span<const int>{}; }
  // See GossipLinks.
  bool is_clear(int link) const { return links_->is_clear(link); }
  void on_clear(int link, Sends& out) { links_->on_clear(link, exit(out)); }
  bool brings_row(int link, const GossipLinkState& shown) const { return is_of_now(shown.restarts) && links_->brings_row(link, shown); }
  // What was shown before the operation began again is only noted as read.
  void on_shown(int link, const GossipLinkState& shown, ConstMass<Real> row, bool is_clear, Sends& out);
  // The other end is about to be shown something: what has been read can be told along with it.
  bool will_push(int link) const { return step_ == Step::gossiping && links_->has_turn(link); }

  // ---- what comes of it
  // This rank's own estimate (its input, if it has none yet). Returns the error to be expected; infinite: nothing is known yet.
  double estimate(Mass<Real> values) const;
  GossipEnd end() const { return end_; }
  bool finished() const { return end_ != GossipEnd::none; }
  Rank culprit() const { return culprit_; }   // of unsupported, no_memory
  const GossipOutcome& outcome() const { return outcome_; }
  ConstMass<Real> result() const { return result_; }   // of a success
  // By rank: whom the result does not stand for. Of push-cancel-flow whoever dies on the way stays in, nearly.
  const std::vector<bool>& missing() const { return is_pcf() ? dead_at_start_ : agreed_dead_; }

 private:
  enum class Step : std::uint8_t { meeting, gossiping, settling, agreeing, finished };
  struct Arrival {
    GossipMessage message;
    std::vector<Real> row;
  };

  bool is_by(std::uint16_t ahead, std::uint16_t restarts) const { return static_cast<std::uint16_t>(restarts - restarts_) == ahead; }
  GossipExit<Real> exit(Sends& out) { return {out, faults_}; }
  bool keeps_flows() const { return uses_flows(call_.plan.algorithm) && !goes_by_rounds(call_.plan.algorithm); }
  bool gives_up_windows() const { return one_sided_ && refuser_ != no_rank; }   // in the next agreement, which it goes to at once
  bool is_pcf() const { return answer_after_death(call_.plan.algorithm) == GossipAnswer::all_ranks; }
  const GossipRank<Real>* state() const { return links_ ? &links_->state() : rounds_ ? &rounds_->state() : nullptr; }
  std::uint64_t iterations() const { return links_ ? links_->counts().iterations : rounds_ ? rounds_->iterations() : 0; }
  std::uint32_t contributors() const;
  double factor() const { return call_.sum ? static_cast<double>(contributors()) : 1; }

  void finish(GossipEnd end);
  void meet(const AgreedMeeting& agreed, Sends& out);
  void begin(Sends& out) { begin(input_, static_cast<Real>(1), out); }
  void begin(ConstMass<Real> values, Real weight, Sends& out);
  void exclude(Rank rank, Sends& out);
  void go_on();
  bool gossip(GossipTime now, Sends& out);
  void take(const GossipMessage& message, ConstMass<Real> row, Sends& out);
  void replay(Sends& out);
  void refuse_windows(Rank refuser, Sends& out);
  void begin_agreement();
  void judge(const AgreedEstimates& agreed, bool is_complete, Sends& out);
  void go_on_without(Sends& out);
  void give_up_windows(Rank refuser, Sends& out);
  bool improve(Sends& out);
  void report(const AgreedEstimates& agreed, double bound);

  GossipCall call_;
  GossipSeat seat_;
  int wanted_;                       // iterations of a stage; by rounds: rounds
  GossipFaultInjector faults_;
  std::vector<Real> input_;
  Step step_ = Step::meeting;
  std::vector<double> table_;
  std::vector<bool> dead_, agreed_dead_, dead_at_start_;   // by rank: known here; to all; to all in the first agreement
  GossipMembers members_;
  std::vector<Rank> neighbours_;
  std::uint32_t restarts_ = 0, begun_ = 0;
  std::vector<Arrival> early_;
  std::optional<GossipLinks<Real>> links_;     // asynchronous
  int iteration_ = 0;                          // of this stage
  bool one_sided_ = false;
  Rank refuser_ = no_rank;                     // who can't go one-sided, as it is known here
  std::optional<GossipRounds<Real>> rounds_;   // by rounds
  GossipEnd end_ = GossipEnd::none;
  Rank culprit_ = no_rank;
  GossipOutcome outcome_;
  std::vector<Real> result_;
};

extern template class GossipOperation<float>;
extern template class GossipOperation<double>;

}  // namespace ucft::detail

// A gossip all-reduce of one rank: the protocol around the rules of gossip.hpp, as a value. It has no clock, no thread
// and no I/O. Events come in through the functions on_..., messages go out into GossipSends.
//
//   begin     at once, among the ranks that it takes for alive. No rank waits for one that has not come: that one has
//             no weight, and pushes pass by
//   meet      an agreement, beside all that: which ranks take part, do all ask for the same, how large are the data.
//             When it is over all have come. If they have begun alike they go on, and a stage may end from now on.
//             Else all begin again
//   gather    of several ranks of a host one speaks for it. The others give it their inputs: the host's mass is their
//             sum, and its weight their number. Asynchronous: it begins with its own, and adds the others as they come.
//             By rounds it waits for them. The others say nothing until the next agreement, and are told estimates
//   gossip    asynchronous (links.hpp): a number of iterations, each a push to a live neighbour chosen by chance;
//             by rounds (rounds.hpp): each round waits for its one message
//   settle    asynchronous: on each link both ends say their last word. When all have come mass is conserved
//   agree     an agreement on the largest and the smallest estimate of each value. With all weights positive and mass
//             conserved the aggregate lies between them; the result is the middle, the same bits on every survivor
//
// Then the operation is over, or it goes on. If the result is not accurate enough (adaptive) another stage follows. If
// a rank died that was not agreed to be dead when the stage began, the operation goes on without it. Then flows are
// cleared and the stage is repeated. Algorithms without flows begin again from their inputs, so that the mass on its
// way to the dead rank is not missing.
//
// The topology is that of the members (members.hpp): the ranks that were agreed to live when the operation last began
// (again). A death that cuts the topology is one more reason to begin again. The list of members, and whether they are
// cut, follow from agreements alone, so all ranks do the same. Messages and states of links carry how often their
// sender has begun again.
//
// With hosts, a rank that dies takes its input out of its host's mass. So algorithms whose answer is the survivors'
// begin again from the inputs. Those that keep the input of the dead (push-cancel-flow) go on, unless a rank died that
// spoke for its host. Then they begin again from the first masses of all hosts, which each rank of a host has been
// told.
//
// An agreement is a maximum over a table of all survivors (agreement_table.hpp). wants_agreement() asks for it. The
// driver takes table() as late as it can, and answers with on_agreement(). A rank that is missing from the agreement,
// dead or not, is out.
//
// One-sided (the driver's RMA windows instead of messages): the driver makes a window for each of neighbours() whenever
// epoch() has changed, and says so if it can't. Then this rank tells all others before it goes to the next agreement.
// So all begin again by messages there, whichever ranks die meanwhile.
#pragma once

#include <optional>
#include <vector>

#include "collectives/gossip/agreement_table.hpp"
#include "collectives/gossip/deaths.hpp"
#include "collectives/gossip/epoch.hpp"
#include "collectives/gossip/gossip_call.hpp"
#include "collectives/gossip/host_inputs.hpp"
#include "collectives/gossip/presence.hpp"
#include "collectives/gossip/rounds.hpp"

namespace ucft::detail {

struct GossipSeat {
  Rank rank, ranks;
  OperationNumber number;
  std::span<const Rank> hosts{};  // see GossipMembers; must outlive the operation
};

// Whether an operation goes one-sided: so far, and until an agreement says that somebody can't.
struct OneSided {
  bool is_on = false;
  Rank refuser = no_rank;  // the rank that can't, as it is known here

  bool is_possible() const { return is_on && refuser == no_rank; }
  bool is_given_up() const { return is_on && refuser != no_rank; }  // in the next agreement, which it goes to at once
};

template <class Real>
class GossipOperation {
 public:
  using Sends = GossipSends<Real>;

  // failed: the ranks that are known to be dead here. faults: must outlive it.
  GossipOperation(const GossipCall& call, const GossipSeat& seat, std::vector<Real> input, std::span<const Rank> failed,
                  const GossipFaults& faults);

  void start(WindowObjection objection, Sends& out);
  // row: what the message carries; empty: nothing. Valid during the call.
  void on_message(const GossipMessage& message, ConstMass<Real> row, Sends& out);
  void on_failure(Rank rank, Sends& out);
  void on_agreement(const GossipAgreed& agreed, Sends& out);
  // now: needed only where is_pushing(). True if anything was done.
  bool on_turn(GossipTime now, Sends& out);
  // The operation is over, in whatever step it was.
  void finish(GossipEnd end);

  // Asynchronous, and not through yet. Only then on_turn() needs the time; and where it has the turn it is about to
  // push.
  bool is_pushing() const { return step_ == Step::gossiping && links_.has_value(); }
  // It has gossiped enough with the ranks that have come, and goes on slowly until all have met.
  bool is_resting() const { return is_pushing() && !epoch_.has_met() && iteration_ >= wanted_; }
  bool wants_agreement() const { return step_ != Step::finished && (!epoch_.has_met() || step_ == Step::agreeing); }
  // This rank's table for the agreement, with the deaths that it knows of now.
  std::vector<double> table() const;
  const GossipDeaths& deaths() const { return deaths_; }
  const GossipEpoch& epoch() const { return epoch_; }
  // By rounds: it has begun, and waits for what the ranks of its host give. It has no neighbours yet.
  bool is_gathering() const { return step_ == Step::gathering; }
  // True if a message with that tag must wait until this rank gossips, too.
  bool is_early(std::uint16_t tag) const { return epoch_.is_ahead(tag) || (is_gathering() && epoch_.is_now(tag)); }

  // ---- one-sided
  const OneSided& one_sided() const { return one_sided_; }
  // The ranks for which windows are needed, by link: at first neighbours among the believed members, once it has begun
  // among the real ones.
  const std::vector<Rank>& neighbours() const { return neighbours_; }
  // refuser: this rank, for the driver: a window can't be made, or mapped.
  void refuse_windows(Rank refuser, Sends& out);

  // Asynchronous. nullptr before it has begun, and when it is over.
  const GossipLinks<Real>* links() const { return links_ ? &*links_ : nullptr; }
  // See GossipLinks. A state that was shown before the operation began again is only noted as read.
  void on_clear(int link, Sends& out) {
    greet(links_->end(link));
    links_->on_clear(link, exit(out));
  }
  void on_shown(int link, const GossipLinkState& shown, ConstMass<Real> row, bool is_clear, Sends& out);

  // This rank's own estimate (its input, if it has none yet), of the ranks that it has heard of. Returns the error to
  // be expected; infinite: nothing is known yet.
  double estimate(Mass<Real> values) const;
  bool counts(Rank rank) const;        // whether this is one of them
  std::uint32_t contributors() const;  // how many these are
  bool finished() const { return step_ == Step::finished; }
  const GossipOutcome& outcome() const { return outcome_; }  // when it has finished
  ConstMass<Real> result() const { return result_; }         // of a success

 private:
  // waiting: for the meeting.
  enum class Step : std::uint8_t { waiting, gathering, gossiping, settling, agreeing, finished };
  struct Arrival {
    GossipMessage message;
    std::vector<Real> row;
  };
  struct Told {  // an estimate: of so many ranks
    std::vector<Real> values;
    std::uint32_t contributors = 1;
    std::uint64_t iterations = 0;  // since one of these was heard of
  };

  GossipExit<Real> exit(Sends& out) { return {out, faults_, presence_row_}; }
  const GossipRank<Real>* state() const { return links_ ? &links_->state() : rounds_ ? &rounds_->state() : nullptr; }
  std::uint64_t iterations() const {
    return links_ ? links_->counts().iterations : rounds_ ? rounds_->iterations() : counts_.iterations;
  }
  const std::vector<bool>& missing() const { return call_.keeps_the_dead() ? deaths_.at_start() : deaths_.agreed(); }
  double factor() const { return call_.sum ? GossipDeaths::alive(missing()) : 1; }

  double unscaled(double value) const { return exponent_ == 0 ? value : std::ldexp(value, -exponent_); }
  void meet(const AgreedMeeting& agreed, Sends& out);
  void go_on_as_met(Sends& out);
  // By rounds, checksums can't be judged later.
  bool must_meet_first() const {
    const GossipAlgorithm algorithm = call_.plan.algorithm;
    return goes_by_rounds(algorithm) && has_checksums(algorithm) && call_.plan.tau == 0;
  }
  void become_present(std::span<const Rank> ranks);
  ConstMass<Real> take_presence(const GossipMessage& message, ConstMass<Real> row);
  void greet(Rank rank);
  void note_presence();
  void note_news();
  std::vector<Rank> ranks_here() const { return ranks_of_host(seat_.hosts, seat_.rank); }
  bool is_silent() const { return members_.place_of(seat_.rank) == no_rank; }  // another rank speaks for its host
  void begin_from_inputs(Sends& out);
  void begin_again();
  void begin_again_from_inputs(Sends& out);
  void give(Rank to, ConstMass<Real> row, Sends& out, GossipMessage message = {});  // within the host
  void gather(const GossipMessage& message, ConstMass<Real> row, Sends& out);
  void take_input(Rank from, ConstMass<Real> row, Sends& out);
  void tell_host(Sends& out);
  void end_gathering(Sends& out);
  void begin(ConstMass<Real> values, Real weight, Sends& out);
  void exclude(Rank rank, Sends& out);
  void go_on();
  bool gossip(GossipTime now, Sends& out);
  void hear(const GossipMessage& message, ConstMass<Real> row, Sends& out);
  void take(const GossipMessage& message, ConstMass<Real> row, Sends& out);
  void replay(Sends& out);
  void begin_agreement();
  MassError rounding() const;  // of this rank's mass
  void judge(const AgreedEstimates& agreed, bool is_complete, Sends& out);
  void go_on_without(Sends& out);
  void give_up_windows(Rank refuser, Sends& out);
  bool improve(Sends& out);
  void report(const AgreedEstimates& agreed, double bound);

  GossipCall call_;
  GossipSeat seat_;
  int wanted_;  // iterations of a stage; by rounds: rounds
  GossipFaultInjector faults_;
  std::vector<Real> input_;
  double largest_ = 0;  // of all ranks' inputs, once they have met
  int exponent_ = 0;    // input_, and all that comes of it, is 2^so much times what was given
  Step step_ = Step::waiting;
  std::vector<double> table_;
  GossipDeaths deaths_;
  GossipEpoch epoch_;
  std::vector<bool> believed_;  // the dead, as this rank began
  GossipPresence<Real> presence_;
  std::vector<bool> greeted_;       // by rank: it has come, though no mass of its may have
  std::vector<Real> presence_row_;  // empty: all have come
  std::uint64_t at_news_ = 0;       // iterations, when a rank was heard of last
  GossipMembers members_;
  std::vector<Rank> neighbours_;
  OneSided one_sided_;
  std::vector<Arrival> early_;
  HostInputs<Real> inputs_;                    // of the ranks for which it speaks
  Told told_;                                  // silent: by the rank that speaks
  std::uint64_t next_telling_ = 0;             // of its own estimate: iterations since the news
  std::vector<Real> host_mass_;                // where the dead are kept: what this host began with, and its weight
  typename GossipLinks<Real>::Counts counts_;  // of this rank, before it last began
  std::optional<GossipLinks<Real>> links_;     // asynchronous
  MassError began_off_;                        // by rounding, what it last began with
  int iteration_ = 0;                          // of this stage
  std::optional<GossipRounds<Real>> rounds_;   // by rounds
  GossipOutcome outcome_;
  std::vector<Real> result_;
};

extern template class GossipOperation<float>;
extern template class GossipOperation<double>;

}  // namespace ucft::detail

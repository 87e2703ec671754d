#include "collectives/gossip/gossip_operation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ucft::detail {

namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();
// The most stages of an adaptive operation, and of one where some rank has no weight to tell an estimate by.
constexpr std::uint32_t stages_limit = 32;
static_assert(stages_limit < 1 << 16, "counts of a stage's words in GossipLinkState");

}  // namespace

template <class Real>
GossipOperation<Real>::GossipOperation(const GossipCall& call, const GossipSeat& seat, std::vector<Real> input,
                                       std::span<const Rank> failed, const GossipFaults& faults)
    : call_(call),
      seat_(seat),
      wanted_(call.iterations),
      faults_(faults, {seat.rank, seat.ranks, seat.number, call.count}),
      input_(std::move(input)),
      deaths_(failed, seat.ranks),
      presence_(seat.ranks),
      members_(call.plan.neighbourhood, deaths_.known(), seat.hosts),
      one_sided_{call.path != GossipPath::messages && !goes_by_rounds(call.plan.algorithm)} {
  if (one_sided_.is_on && !is_silent()) neighbours_ = members_.neighbours_of_rank(seat.rank);
}

template <class Real>
void GossipOperation<Real>::finish(GossipEnd end) {
  outcome_.end = end;
  outcome_.iterations = iterations();
  outcome_.injected = faults_.counts();
  outcome_.live = GossipDeaths::alive(deaths_.agreed());
  outcome_.missing = missing();
  outcome_.contributors = GossipDeaths::alive(missing());
  links_.reset();
  rounds_.reset();
  early_.clear();
  inputs_.clear();
  step_ = Step::finished;
}

template <class Real>
double GossipOperation<Real>::estimate(Mass<Real> values) const {
  const bool is_told = state() == nullptr && !told_.values.empty();
  if (is_told)
    copy<Real>(values, told_.values);
  else if (state() == nullptr || !state()->estimate(values))
    copy<Real>(values, input_);
  const double factor = call_.sum ? contributors() : 1;
  for (Real& each : values) each = static_cast<Real>(unscaled(static_cast<double>(each)) * factor);
  const auto done = static_cast<double>(is_told ? told_.iterations : iterations() - at_news_);
  if (done == 0) return unbounded;
  // By the model errors shrink geometrically, down to eps in so many iterations.
  return std::pow(call_.eps, done / std::max(1, call_.iterations));
}

template <class Real>
bool GossipOperation<Real>::counts(Rank rank) const {
  if (presence_row_.empty() && epoch_.has_met()) return !missing()[static_cast<std::size_t>(rank)];
  return presence_.has(rank) && !deaths_.is_known(rank);
}
template <class Real>
std::uint32_t GossipOperation<Real>::contributors() const {
  if (finished()) return outcome_.contributors;
  if (state() == nullptr) return told_.contributors;
  std::uint32_t count = 0;
  for (Rank rank = 0; rank < seat_.ranks; ++rank) count += counts(rank);
  return count;
}

// ---- meet

template <class Real>
void GossipOperation<Real>::start(WindowObjection objection, Sends& out) {
  double scale = 1;
  for (Real value : input_) scale += std::abs(static_cast<double>(value));
  const double most = largest(ConstMass<Real>(input_));
  one_sided_.is_on = one_sided_.is_on && objection == WindowObjection::none;
  believed_ = deaths_.known();
  members_ = GossipMembers(call_.plan.neighbourhood, believed_, seat_.hosts);
  const std::uint64_t view = view_of(believed_);
  table_ = meeting_table({call_.signature(), view, scale, most, objection, one_sided_.is_on && !is_silent()},
                         seat_.rank, deaths_.ranks());
  const std::uint64_t within_host = mixed(call_.signature(), view);
  epoch_.begin_with(mixed(within_host, one_sided_.is_on), within_host);
  if (!must_meet_first()) begin_from_inputs(out);
}

template <class Real>
void GossipOperation<Real>::meet(const AgreedMeeting& agreed, Sends& out) {
  if (!agreed.is_match()) return finish(GossipEnd::mismatch);
  for (const auto& [objection, end] : {std::pair(WindowObjection::unsupported, GossipEnd::unsupported),
                                       std::pair(WindowObjection::no_memory, GossipEnd::no_memory)}) {
    if (agreed.objector(objection) == no_rank) continue;
    one_sided_.is_on = false;
    if (call_.path != GossipPath::windows) continue;
    outcome_.culprit = agreed.objector(objection);
    return finish(end);
  }
  outcome_.one_sided = one_sided_.is_on;
  epoch_.meet();
  deaths_.start();
  if (!std::isfinite(agreed.largest())) {  // so would the result be
    result_.assign(input_.size(), std::numeric_limits<Real>::quiet_NaN());
    outcome_.error_bound = unbounded;
    return finish(GossipEnd::success);
  }
  exponent_ = call_.is_extremum() ? 0 : scaling_of<Real>(agreed.largest());  // which adds nothing, and halves nothing
  const bool begins_now =
      must_meet_first() || exponent_ != 0 || !agreed.is_same_view() || deaths_.agreed() != believed_;
  for (Real& each : input_) each = std::ldexp(each, exponent_);
  largest_ = std::ldexp(agreed.largest(), exponent_);
  const double scale =
      exponent_ == 0 ? agreed.scale() : 1 + static_cast<double>(call_.count) * std::ldexp(agreed.largest(), exponent_);
  if (double& tau = call_.plan.tau; tau == 0)
    tau =
        std::sqrt(static_cast<double>(std::numeric_limits<Real>::epsilon())) * scale * static_cast<double>(seat_.ranks);
  else
    tau = std::ldexp(tau, exponent_);
  if (!begins_now) return go_on_as_met(out);
  host_mass_.clear();
  begin_again_from_inputs(out);
}

// All have begun with the same, and with the ranks that are agreed to live now.
template <class Real>
void GossipOperation<Real>::go_on_as_met(Sends& out) {
  note_news();  // all have come; and so far a rank may have gossiped with few others, over and over
  if (links_) links_->meet(call_.plan.tau);
  if (step_ == Step::waiting) begin_agreement();  // another rank speaks for this one
  replay(out);
}

// ---- presence

// Begins with the masses of these ranks.
template <class Real>
void GossipOperation<Real>::become_present(std::span<const Rank> ranks) {
  presence_ = GossipPresence<Real>(seat_.ranks);
  greeted_.assign(static_cast<std::size_t>(seat_.ranks), false);
  for (Rank rank : ranks) presence_.add(rank);
  note_presence();
  note_news();
}

// A rank has come, and waits for pushes.
template <class Real>
void GossipOperation<Real>::greet(Rank rank) {
  if (!presence_.has(rank) && !greeted_[static_cast<std::size_t>(rank)]) note_news();
  greeted_[static_cast<std::size_t>(rank)] = true;
}

// The row without what is behind it.
template <class Real>
ConstMass<Real> GossipOperation<Real>::take_presence(const GossipMessage& message, ConstMass<Real> row) {
  const std::size_t length = message.has(carries_presence) ? GossipPresence<Real>::length(seat_.ranks) : 0;
  if (row.empty() || row.size() < length) return {};
  if (!presence_row_.empty() && (length > 0 ? presence_.add(row.last(length)) : presence_.add_all())) {
    note_presence();
    note_news();
  }
  return row.first(row.size() - length);
}

template <class Real>
void GossipOperation<Real>::note_presence() {
  presence_row_.clear();
  for (Rank rank = 0; rank < seat_.ranks && presence_row_.empty(); ++rank)
    if (!presence_.has(rank) && !deaths_.is_known(rank)) presence_row_ = presence_.row();
}

// All gossip so far was without a rank that has come now.
template <class Real>
void GossipOperation<Real>::note_news() {
  iteration_ = 0;
  at_news_ = iterations();
  if (links_) links_->wake();
  next_telling_ = epoch_.has_met() ? 1 : 0;
}

// ---- gather

// Among all that are agreed to live.
template <class Real>
void GossipOperation<Real>::begin_again() {
  epoch_.begin_again();
  members_ = GossipMembers(call_.plan.neighbourhood, deaths_.agreed(), seat_.hosts);
}

template <class Real>
void GossipOperation<Real>::begin_again_from_inputs(Sends& out) {
  begin_again();
  begin_from_inputs(out);
}

template <class Real>
void GossipOperation<Real>::begin_from_inputs(Sends& out) {
  began_off_ = {exponent_ < 0 ? MassError::smallest<Real>() : 0, 0};  // scaled down it may have lost bits
  if (seat_.hosts.empty()) {
    become_present({&seat_.rank, 1});
    return begin(input_, 1, out);
  }
  if (links_)
    counts_ = links_->counts();
  else
    counts_.iterations = iterations();
  links_.reset();
  rounds_.reset();
  neighbours_.clear();
  inputs_.clear();
  told_ = {};
  if (is_silent()) {
    give(members_.speaker_of(seat_.rank, seat_.hosts), input_, out);
    step_ = Step::waiting;
    if (epoch_.has_met()) begin_agreement();
    return replay(out);
  }
  if (!host_mass_.empty()) {
    const std::vector<Rank> here = ranks_here();
    const auto terms = static_cast<double>(here.size());  // another rank has added them: all that may have happened
    constexpr double epsilon = std::numeric_limits<Real>::epsilon();
    began_off_.values += terms * (terms * largest_ * epsilon + MassError::smallest<Real>());
    become_present(here);
    return begin(ConstMass<Real>(host_mass_).first(input_.size()), host_mass_.back(), out);
  }
  inputs_.begin(seat_.rank, input_);
  if (goes_by_rounds(call_.plan.algorithm)) {
    step_ = Step::gathering;
  } else {
    become_present({&seat_.rank, 1});
    begin(input_, 1, out);
  }
  end_gathering(out);
  replay(out);
}

template <class Real>
void GossipOperation<Real>::give(Rank to, ConstMass<Real> row, Sends& out, GossipMessage message) {
  message.peer = to;
  message.tag = epoch_.host_tag();
  message.flags |= carries_row | gives_input;
  out.send(message, -1, out.copy(row));
}

// A row of its own host is an input to the rank that speaks. To the others it is an estimate, or the host's mass.
template <class Real>
void GossipOperation<Real>::gather(const GossipMessage& message, ConstMass<Real> row, Sends& out) {
  const bool is_here = std::ranges::binary_search(ranks_here(), message.peer);
  if (!is_here || row.size() != input_.size() + is_silent()) return;
  if (!is_silent()) return take_input(message.peer, row, out);
  if (message.is_estimate()) {
    if (row.back() >= 1 && row.back() <= static_cast<Real>(seat_.ranks))
      told_ = {{row.begin(), row.end() - 1}, static_cast<std::uint32_t>(row.back()), message.number};
  } else if (host_mass_.empty())
    host_mass_.assign(row.begin(), row.end());
}

template <class Real>
void GossipOperation<Real>::take_input(Rank from, ConstMass<Real> row, Sends& out) {
  if (!inputs_.take(from, row)) return;
  if (links_) {
    began_off_.add(links_->add_input(row, 1));
    presence_.add(from);
    note_presence();
    note_news();
  }
  end_gathering(out);
}

// The ranks for which this one speaks are told its estimate: after 1, 4, 16 .. iterations, and when a rank has come.
template <class Real>
void GossipOperation<Real>::tell_host(Sends& out) {
  const std::uint64_t done = iterations() - at_news_;
  if (seat_.hosts.empty() || done < next_telling_) return;
  next_telling_ = std::max<std::uint64_t>(1, 4 * done);
  const auto rest = static_cast<std::uint64_t>(wanted_);  // when it has most to say
  if (!epoch_.has_met() && done < rest) next_telling_ = std::min(next_telling_, rest);
  std::vector<Real> row(input_.size() + 1);
  if (!state()->estimate(Mass<Real>(row).first(input_.size()))) return;
  row.back() = static_cast<Real>(contributors());
  GossipMessage message;
  message.flags = is_done;
  message.number = static_cast<std::uint32_t>(done);
  for (Rank rank : ranks_here())
    if (rank != seat_.rank && presence_.has(rank) && !deaths_.is_known(rank)) give(rank, row, out, message);
}

// When all have given. By rounds it begins now.
template <class Real>
void GossipOperation<Real>::end_gathering(Sends& out) {
  if (!inputs_.awaits()) return;
  const std::vector<Rank> here = ranks_here();
  std::vector<Rank> given;
  for (Rank rank : here) {
    const bool is_dead = deaths_.is_known(rank) || deaths_.agreed()[static_cast<std::size_t>(rank)];
    if (!inputs_.has(rank) && !is_dead) return;
    if (inputs_.has(rank)) given.push_back(rank);
  }
  const typename HostInputs<Real>::Sum sum = inputs_.end(call_.plan.extremum);
  if (call_.keeps_the_dead()) {
    host_mass_ = sum.mass;
    for (Rank rank : given)
      if (rank != seat_.rank) give(rank, host_mass_, out);
  }
  if (links_) return;
  began_off_.values *= static_cast<double>(given.size());
  began_off_.add(sum.off);
  become_present(here);
  begin(ConstMass<Real>(sum.mass).first(input_.size()), sum.mass.back(), out);
}

// ---- gossip

// Begins a stage in which this member has that mass.
template <class Real>
void GossipOperation<Real>::begin(ConstMass<Real> values, Real weight, Sends& out) {
  iteration_ = 0;
  step_ = Step::gossiping;
  GossipPlan plan = call_.plan;
  plan.neighbourhood = members_.neighbourhood();
  if (plan.tau == 0) plan.tau = unbounded;  // until the ranks have met
  if (goes_by_rounds(plan.algorithm)) {
    plan.rounds = wanted_;
    plan.seed = mixed(plan.seed, epoch_.begun() - 1);
    rounds_.emplace(plan, members_, seat_.rank, values, weight, epoch_.tag(), iterations());
    rounds_->start(members_, exit(out));
  } else {
    neighbours_ = members_.neighbours_of_rank(seat_.rank);
    const typename GossipLinks<Real>::Place place{seat_.rank, epoch_.tag(), one_sided_.is_on, epoch_.has_met(),
                                                  mixed(plan.seed, seat_.number)};
    const auto counts = links_ ? links_->counts() : counts_;  // a copy: emplace ends the old one first
    links_.emplace(GossipRank<Real>(plan, members_.place_of(seat_.rank), values, weight), neighbours_, place, counts);
  }
  for (Rank rank = 0; rank < seat_.ranks; ++rank)
    if (deaths_.is_known(rank)) exclude(rank, out);
  if (links_) links_->greet(exit(out));
  replay(out);
}

// Goes on from the same state, with more iterations.
template <class Real>
void GossipOperation<Real>::go_on() {
  if (is_silent()) return begin_agreement();
  iteration_ = 0;
  links_->go_on();
  step_ = Step::gossiping;
}

template <class Real>
void GossipOperation<Real>::exclude(Rank rank, Sends& out) {
  if (links_) links_->on_failure(rank);
  if (!rounds_) return;
  rounds_->on_failure(rank, members_, exit(out));
  replay(out);
}

template <class Real>
bool GossipOperation<Real>::on_turn(GossipTime now, Sends& out) {
  if (step_ == Step::gossiping) return gossip(now, out);
  if (step_ != Step::settling) return false;
  if (!one_sided_.is_given_up() && !links_->settle(exit(out))) return false;
  begin_agreement();
  return true;
}
template <class Real>
bool GossipOperation<Real>::gossip(GossipTime now, Sends& out) {
  if (rounds_ ? rounds_->finished() : one_sided_.is_given_up()) {
    if (!epoch_.has_met()) return false;
    begin_agreement();
    return true;
  }
  tell_host(out);
  if (rounds_) return false;
  links_->fail_due_links(exit(out));
  const bool is_idle = iteration_ >= wanted_ || links_->live().empty();
  if (is_idle && epoch_.has_met() && !inputs_.awaits()) {
    step_ = Step::settling;
    return true;
  }
  const bool pushed = links_->push(now, is_idle, exit(out));
  iteration_ += pushed && !is_idle;
  return pushed;
}

// ---- events

template <class Real>
void GossipOperation<Real>::on_message(const GossipMessage& message, ConstMass<Real> row, Sends& out) {
  if (step_ == Step::finished || message.peer < 0 || message.peer >= seat_.ranks || deaths_.is_known(message.peer))
    return;
  if (message.has(is_window)) return refuse_windows(static_cast<Rank>(message.number), out);  // whenever that was
  hear(message, row, out);
}
template <class Real>
void GossipOperation<Real>::hear(const GossipMessage& message, ConstMass<Real> row, Sends& out) {
  const bool is_input = message.has(gives_input);
  // Bounded. Within a host: an input of each; an estimate after 4 times the iterations, and for each rank that comes.
  // By rounds: one a round. Else: a push, a last word, and repairs on each link.
  if (is_input ? epoch_.is_ahead_here(message.tag) : is_early(message.tag))
    return early_.push_back({message, {row.begin(), row.end()}});
  if (!(is_input ? epoch_.is_now_here(message.tag) : epoch_.is_now(message.tag))) return;
  if (is_input && !seat_.hosts.empty()) return gather(message, row, out);
  if (!is_input && state() != nullptr) take(message, row, out);
}
template <class Real>
void GossipOperation<Real>::take(const GossipMessage& message, ConstMass<Real> row, Sends& out) {
  greet(message.peer);
  const ConstMass<Real> mass = take_presence(message, row);
  if (links_) return links_->on_message(message, mass, exit(out));
  using Taken = typename GossipRounds<Real>::Taken;
  const Taken taken = rounds_->on_message(message, mass, members_, exit(out));
  if (taken == Taken::early) early_.push_back({message, {row.begin(), row.end()}});
  if (taken == Taken::goes_on) replay(out);
}
template <class Real>
void GossipOperation<Real>::replay(Sends& out) {
  std::vector<Arrival> early;
  early.swap(early_);
  for (Arrival& each : early)
    if (!deaths_.is_known(each.message.peer)) hear(each.message, each.row, out);
}

template <class Real>
void GossipOperation<Real>::on_failure(Rank rank, Sends& out) {
  if (step_ == Step::finished || !deaths_.learn(rank)) return;
  if (!presence_row_.empty()) note_presence();
  exclude(rank, out);
  end_gathering(out);
}

template <class Real>
void GossipOperation<Real>::on_shown(int link, const GossipLinkState& shown, ConstMass<Real> row, bool is_clear,
                                     Sends& out) {
  if (epoch_.is_now(shown.tag)) {
    GossipMessage message;
    message.flags = shown.presence != 0 ? carries_presence : 0;
    const ConstMass<Real> mass = take_presence(message, row);  // before exit(), which looks at what it changes
    return links_->on_shown(link, shown, mass, is_clear, exit(out));
  }
  if (is_clear) links_->on_clear(link, exit(out));
}

template <class Real>
void GossipOperation<Real>::refuse_windows(Rank refuser, Sends& out) {
  if (step_ == Step::finished || !one_sided_.is_possible() || refuser < 0 || refuser >= seat_.ranks) return;
  one_sided_.refuser = refuser;
  for (Rank rank = 0; rank < seat_.ranks; ++rank) {
    if (deaths_.is_known(rank) || rank == seat_.rank) continue;
    GossipMessage message;
    message.peer = rank;
    message.tag = epoch_.tag();
    message.flags = is_window;
    message.number = static_cast<std::uint32_t>(refuser);
    out.send(message);
  }
}

// ---- agree

template <class Real>
void GossipOperation<Real>::begin_agreement() {
  step_ = Step::agreeing;
  if (is_silent()) {
    table_ = AgreedEstimates::of_none(input_.size(), deaths_.ranks());
    return;
  }
  std::vector<Real> now(input_.size());
  std::vector<double> known;
  if (state()->estimate(now)) known.assign(now.begin(), now.end());
  table_ = AgreedEstimates::of(known, rounding(), now.size(), deaths_.ranks());
  if (one_sided_.is_given_up()) AgreedEstimates::refuse_windows(table_, now.size(), one_sided_.refuser);
}

template <class Real>
MassError GossipOperation<Real>::rounding() const {
  const MassError since = state()->error();
  return {began_off_.values + since.values, began_off_.weight + since.weight};
}

template <class Real>
std::vector<double> GossipOperation<Real>::table() const {
  std::vector<double> table = table_;
  std::copy(deaths_.known().begin(), deaths_.known().end(), table.end() - static_cast<std::ptrdiff_t>(deaths_.ranks()));
  return table;
}

template <class Real>
void GossipOperation<Real>::on_agreement(const GossipAgreed& agreed, Sends& out) {
  const bool is_complete = deaths_.agree(agreed);
  const std::vector<bool> dead = deaths_.agreed();
  if (dead[static_cast<std::size_t>(seat_.rank)]) return finish(GossipEnd::excluded);  // the others go on without us
  for (Rank rank = 0; rank < seat_.ranks; ++rank)
    if (dead[static_cast<std::size_t>(rank)]) on_failure(rank, out);
  if (!epoch_.has_met()) return meet({agreed.table}, out);
  judge({agreed.table, input_.size()}, is_complete, out);
}

// is_complete: all that were agreed to live when the stage began have taken part, and nobody knew of a death.
template <class Real>
void GossipOperation<Real>::judge(const AgreedEstimates& agreed, bool is_complete, Sends& out) {
  if (agreed.refuses_windows()) return give_up_windows(agreed.refuser(), out);
  ++outcome_.stages;
  if (!is_complete) return go_on_without(out);
  const double epsilon = std::numeric_limits<Real>::epsilon();
  const double step = std::ldexp(MassError::smallest<Real>(), std::max(exponent_, 0));
  // The largest of what all have heard of is the maximum, however far they have gossiped. Of zeros nothing is rounded.
  const bool is_exact = (call_.is_extremum() || largest_ == 0) && !agreed.somebody_lacks();
  const double bound = is_exact ? 0 : agreed.error_bound(epsilon, step);
  const bool may_go_on = !(bound <= call_.eps) && !agreed.knows_nobody() && outcome_.stages < stages_limit &&
                         (agreed.somebody_lacks() || agreed.can_improve(epsilon, step));
  if (may_go_on && (call_.adaptive || agreed.somebody_lacks()) && improve(out)) return;
  report(agreed, bound);
}

template <class Real>
void GossipOperation<Real>::report(const AgreedEstimates& agreed, double bound) {
  result_.resize(input_.size());
  double off = 0, largest = 0;                               // by the rounding to a half
  constexpr double most = std::numeric_limits<Real>::max();  // a mean of such numbers is no larger
  for (std::size_t i = 0; i < result_.size(); ++i) {
    const double mean = std::clamp(unscaled(agreed.range(i).aggregate(call_.plan.extremum)), -most, most);
    const double value = agreed.knows_nobody() ? std::numeric_limits<double>::quiet_NaN() : mean * factor();
    result_[i] = static_cast<Real>(call_.half == GossipHalf::none ? value : rounded_to(call_.half, value));
    if (call_.half == GossipHalf::none) continue;
    off = std::max(off, std::abs(static_cast<double>(result_[i]) - value));
    largest = std::max(largest, std::abs(value));
  }
  // The aggregate's largest value is at least largest / (1 + bound).
  if (off > 0) bound = (bound + off / largest * (1 + bound)) * (1 + 8 * std::numeric_limits<double>::epsilon());
  if (!is_finite(ConstMass<Real>(result_))) bound = unbounded;  // a sum that the type can't hold
  outcome_.error_bound = bound;
  outcome_.reached = bound <= call_.eps;
  const bool nearly = call_.keeps_the_dead() && deaths_.agreed() != deaths_.at_start();
  const bool all = GossipDeaths::alive(deaths_.agreed()) == deaths_.ranks();
  outcome_.answer = all      ? GossipStandsFor::all_ranks
                    : nearly ? GossipStandsFor::nearly_all_ranks
                             : GossipStandsFor::survivors;
  finish(GossipEnd::success);
}

// Flows survive a death unless it has cut the topology. Then they would go on in parts, for ever. All know which ranks
// are dead, so all judge alike. On the mended topology flows start from zero. Push-cancel-flow starts with what
// everybody has by now, which is what the dead rank has left to each. All others start from the inputs, as the answer
// is the survivors' anyway.
template <class Real>
void GossipOperation<Real>::go_on_without(Sends& out) {
  if (!seat_.hosts.empty()) {
    if (call_.keeps_the_dead() && !members_.is_any_of(deaths_.agreed())) return go_on();
    return begin_again_from_inputs(out);
  }
  if (call_.keeps_flows() && members_.is_connected_without(deaths_.agreed())) return go_on();
  if (!call_.keeps_the_dead()) return begin_again_from_inputs(out);
  std::vector<Real> mass(input_.size() + 1);
  state()->mass(mass);
  began_off_ = rounding();
  begin_again();
  begin(ConstMass<Real>(mass).first(input_.size()), mass.back(), out);
}

template <class Real>
void GossipOperation<Real>::give_up_windows(Rank refuser, Sends& out) {
  one_sided_.is_on = false;
  if (call_.path == GossipPath::windows) {
    outcome_.culprit = refuser;
    return finish(GossipEnd::no_memory);
  }
  outcome_.one_sided = false;
  deaths_.start();  // it starts now
  host_mass_.clear();
  begin_again_from_inputs(out);
}

// Goes on with more iterations, or rounds. False: that would not help.
template <class Real>
bool GossipOperation<Real>::improve(Sends& out) {
  if (!goes_by_rounds(call_.plan.algorithm)) {
    go_on();
    return true;
  }
  constexpr std::int64_t most = 16;  // times what the model says: by then it is as accurate as its numbers
  const int wanted = 2 * std::max(1, wanted_);
  const GossipAlgorithm algorithm = call_.plan.algorithm;
  if (algorithm == GossipAlgorithm::recursive_doubling || wanted > most * std::max(1, call_.iterations)) return false;
  const auto members = static_cast<std::uint64_t>(members_.count());
  if (algorithm == GossipAlgorithm::ardb && 1ull << std::min(wanted_, 40) >= members) return false;
  wanted_ = wanted;
  begin_again_from_inputs(out);
  return true;
}

template class GossipOperation<float>;
template class GossipOperation<double>;

}  // namespace ucft::detail

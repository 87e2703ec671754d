#include "collectives/gossip/gossip.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ucft::detail {

namespace {

constexpr const char* algorithm_names[] = {"push_sum",           "push_flow",   "pflc", "pfcc",  "pcf",
                                           "pcf_flip",           "pcf_printed", "hps",  "hpflc", "ardb",
                                           "recursive_doubling", "hpfcc"};
static_assert(std::size(algorithm_names) == gossip_algorithm_count);

constexpr int rounds_limit = 1 << 20;

const char* name_of(GossipExtremum extremum) { return extremum == GossipExtremum::minimum ? "minimum" : "maximum"; }

int doublings_of(Rank ranks) { return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(ranks))) - 1; }

}  // namespace

std::span<const char* const> gossip_algorithm_names() { return algorithm_names; }
const char* gossip_algorithm_name(GossipAlgorithm algorithm) {
  return algorithm_names[static_cast<std::size_t>(algorithm)];
}

bool parse_gossip_algorithm(std::string_view name, GossipAlgorithm& algorithm) {
  const auto* found = std::find(std::begin(algorithm_names), std::end(algorithm_names), name);
  if (found == std::end(algorithm_names)) return false;
  algorithm = static_cast<GossipAlgorithm>(found - std::begin(algorithm_names));
  return true;
}

std::string problem_with(const GossipPlan& plan) {
  if (!goes_by_rounds(plan.algorithm)) {
    if (const std::string problem = problem_with(plan.neighbourhood); !problem.empty()) return problem;
  } else if (plan.neighbourhood.ranks < 1) {
    return fmt::format("{} ranks: at least one is needed", plan.neighbourhood.ranks);
  }
  if (plan.rounds < 0 || plan.rounds > rounds_limit)
    return fmt::format("{} rounds: 0 .. {}", plan.rounds, rounds_limit);
  if (plan.cycles < 0 || plan.cycles > most_cycles) return fmt::format("{} cycles: 0 .. {}", plan.cycles, most_cycles);
  if (has_checksums(plan.algorithm) && !(plan.tau > 0 && std::isfinite(plan.tau)))
    return fmt::format("tau = {} finds {}: it must be a positive number", plan.tau,
                       plan.tau <= 0 ? "faults in rounding errors" : "no faults");
  if (plan.accelerated && goes_by_rounds(plan.algorithm))
    return fmt::format("no acceleration: with whom {} goes is not chosen by chance",
                       gossip_algorithm_name(plan.algorithm));
  if (plan.accelerated && plan.neighbourhood.topology == GossipTopology::complete)
    return "no acceleration: on complete no rank is far from another";
  if (plan.extremum != GossipExtremum::none && !takes_extrema(plan.algorithm))
    return fmt::format(
        "no {} by {}, which repairs flows: a {} has none. push_sum, push_flow, pcf, hps, ardb and "
        "recursive_doubling have it",
        name_of(plan.extremum), gossip_algorithm_name(plan.algorithm), name_of(plan.extremum));
  if (plan.repairs_initial && !has_checksums(plan.algorithm))
    return fmt::format("no repair of what a rank gave: {} has no checksums", gossip_algorithm_name(plan.algorithm));
  return "";
}

GossipSchedule::GossipSchedule(const GossipPlan& plan) : algorithm_(plan.algorithm), ranks_(plan.neighbourhood.ranks) {
  if (!uses_cycles(algorithm_)) {
    const int all = doublings_of(ranks_);
    doublings_ = algorithm_ == GossipAlgorithm::ardb && plan.rounds > 0 ? std::min(plan.rounds, all) : all;
    extra_ = ranks_ - (1 << all);
    rounds_ = doublings_ + (extra_ > 0 ? 2 : 0);
    return;
  }
  rounds_ = ranks_ == 1 ? 0 : plan.rounds;
  kept_cycles_ = plan.cycles > 0 ? std::min(plan.cycles, std::max(1, rounds_)) : std::max(1, rounds_);
  for (int cycle = 0; cycle < std::min(kept_cycles_, rounds_); ++cycle)
    cycles_.emplace_back(static_cast<std::uint64_t>(ranks_), mixed(plan.seed, static_cast<std::uint64_t>(cycle)));
}

GossipRound GossipSchedule::round(Rank rank, int number) const {
  if (!uses_cycles(algorithm_)) return doubling(rank, number);
  const int cycle = number % kept_cycles_;
  const Permutation& order = cycles_[static_cast<std::size_t>(cycle)];
  GossipRound round;
  round.to = static_cast<Rank>(order.next(static_cast<std::uint64_t>(rank)));
  round.from = static_cast<Rank>(order.previous(static_cast<std::uint64_t>(rank)));
  round.link_to = 2 * cycle;
  round.link_from = 2 * cycle + 1;
  return round;
}

Rank GossipSchedule::end(Rank rank, int link) const {
  const GossipRound round = this->round(rank, link / 2);
  return link % 2 == 0 ? round.to : round.from;
}

// n = 6: 4 and 2 extra: 1 -> 0 and 3 -> 2; then 0 2 4 5 double; then 0 -> 1 and 2 -> 3.
GossipRound GossipSchedule::doubling(Rank rank, int number) const {
  GossipRound round;
  const bool pairs = rank < 2 * extra_, odd = rank % 2 == 1;
  if (extra_ > 0 && (number == 0 || number == rounds_ - 1)) {
    if (!pairs) return round;
    const bool sends = odd == (number == 0);
    (sends ? round.to : round.from) = rank ^ 1;
    round.link_to = round.link_from =
        number == 0 ? RecursiveDoubling<double>::exchanges : RecursiveDoubling<double>::takes_over;
    return round;
  }
  if (pairs && odd) return round;
  const Rank place = (pairs ? rank / 2 : rank - extra_) ^ (Rank{1} << (number - (extra_ > 0 ? 1 : 0)));
  round.to = round.from = place < extra_ ? 2 * place : place + extra_;
  return round;
}

// The error's square halves in a round of push-sum on well-connected neighbourhoods, and the worst of n ranks is about
// sqrt(2 ln n) standard deviations off. Where ranks choose by chance some are left out at first: ln n more. Elsewhere
// the slowest part of the error decides, which is one of n parts at the start. Two flows that cross undo each other
// until the link is used again. That takes as many rounds as a rank has neighbours: on few links that costs little, on
// many nearly all the time.
int rounds_for(const GossipPlan& plan, double eps, double variation) {
  const Rank n = plan.neighbourhood.ranks;
  if (n == 1) return 0;
  if (plan.extremum != GossipExtremum::none && plan.algorithm != GossipAlgorithm::ardb &&
      plan.algorithm != GossipAlgorithm::recursive_doubling) {
    GossipPlan mean = plan;  // where half of each rank's share in the mean has come, its values have, too
    mean.extremum = GossipExtremum::none;
    if (!goes_by_rounds(plan.algorithm)) mean.algorithm = GossipAlgorithm::push_sum;
    return rounds_for(mean, 0.5 / n);
  }
  const double worst = variation * std::sqrt(2 * std::log(std::max(2.0, static_cast<double>(n))));
  const double halvings = std::max(1.0, 2 * std::log2(std::max(worst / eps, 1.0)));
  if (plan.algorithm == GossipAlgorithm::recursive_doubling) return GossipSchedule(plan).rounds();
  if (plan.algorithm == GossipAlgorithm::ardb) {  // a block of b ranks has their mean: it is off by variation / sqrt(b)
    const double block = std::pow(worst / eps, 2);
    return block >= n ? doublings_of(n)
                      : std::clamp(static_cast<int>(std::ceil(std::log2(std::max(block, 1.0)))), 0, doublings_of(n));
  }
  if (uses_cycles(plan.algorithm)) return static_cast<int>(std::ceil(halvings)) + 1;
  const double slowest = -std::log(second_eigenvalue(plan.neighbourhood));
  const double mixing =
      1.15 * std::log(std::max(worst / eps, 2.0)) / slowest;  // pushes by chance are not the average of all
  const double chance = std::log(n) + 4;
  double wanted = std::max(1.05 * halvings, mixing) + chance;
  if (plan.algorithm != GossipAlgorithm::push_sum) {
    const auto links = plan.neighbourhood.topology == GossipTopology::complete
                           ? n - 1.0
                           : static_cast<double>(neighbours_of(plan.neighbourhood, 0).size());
    wanted = 1.5 * wanted + 2 * std::min(links, 10.0) + 0.5 * links * std::max(0.0, std::log(0.01 / eps));
  }
  return static_cast<int>(std::ceil(std::min(wanted, static_cast<double>(rounds_limit))));
}

namespace {

template <class Real>
std::vector<Real> initial_mass(ConstMass<Real> values, Real weight, bool with_check) {
  std::vector<Real> mass(values.begin(), values.end());
  mass.push_back(weight);
  if (with_check) mass.push_back(static_cast<Real>(checksum_of(ConstMass<Real>(mass))));
  return mass;
}

}  // namespace

template <class Real>
auto GossipRank<Real>::make_rule(const GossipPlan& plan, Rank me, std::span<const Rank> neighbours, int links,
                                 ConstMass<Real> values, Real weight) -> Rule {
  const std::vector<Real> initial = initial_mass(values, weight, has_checksums(plan.algorithm));
  if (plan.extremum != GossipExtremum::none) return Extremum<Real>(initial, plan.extremum);
  switch (plan.algorithm) {
    case GossipAlgorithm::push_sum:
    case GossipAlgorithm::hps: return PushSum<Real>(initial);
    case GossipAlgorithm::push_flow: return PushFlow<Real>(initial, links, FlowCorrection::none, 0);
    case GossipAlgorithm::pflc:
    case GossipAlgorithm::hpflc:
      return PushFlow<Real>(initial, links, FlowCorrection::local, plan.tau, plan.repairs_initial);
    case GossipAlgorithm::pfcc:
    case GossipAlgorithm::hpfcc:
      return PushFlow<Real>(initial, links, FlowCorrection::cooperative, plan.tau, plan.repairs_initial);
    case GossipAlgorithm::pcf_printed: return PushCancelFlowPrinted<Real>(initial, links);
    case GossipAlgorithm::pcf:
    case GossipAlgorithm::pcf_flip: {
      std::vector<bool> leads;
      for (Rank neighbour : neighbours) leads.push_back(me < neighbour);
      return PushCancelFlow<Real>(initial, leads, plan.algorithm == GossipAlgorithm::pcf_flip);
    }
    case GossipAlgorithm::ardb:
    case GossipAlgorithm::recursive_doubling: break;
  }
  return RecursiveDoubling<Real>(initial);
}

template <class Real>
GossipRank<Real>::GossipRank(const GossipPlan& plan, Rank me, ConstMass<Real> values, Real weight, bool lists)
    : links_(plan.neighbourhood.ranks - 1),
      me_(me),
      lists_(lists),
      neighbours_(lists ? neighbours_of(plan.neighbourhood, me) : std::vector<Rank>()),
      live_(neighbours_.size()),
      rule_(make_rule(plan, me, neighbours_, lists ? static_cast<int>(neighbours_.size()) : links_, values, weight)),
      scratch_(values.size() + 2) {
  assert(lists || plan.neighbourhood.topology == GossipTopology::complete);
  if (lists) links_ = static_cast<int>(neighbours_.size());
  if (plan.accelerated) preference_ = GossipPreference<Real>(neighbours_.size(), values.size());
  for (std::size_t link = 0; link < live_.size(); ++link) live_[link] = static_cast<int>(link);
}

template <class Real>
GossipRank<Real>::GossipRank(const GossipPlan& plan, const GossipSchedule& schedule, ConstMass<Real> values,
                             Real weight)
    : rule_(make_rule(plan, 0, {}, schedule.links(), values, weight)), scratch_(values.size() + 2) {}

template <class Real>
bool GossipRank<Real>::is_live(int link) const {
  if (!lists_) return std::find(dead_.begin(), dead_.end(), link) == dead_.end();
  return std::binary_search(live_.begin(), live_.end(), link);
}

template <class Real>
int GossipRank<Real>::link_of(Rank neighbour) const {
  if (!lists_) return neighbour == me_ ? -1 : neighbour < me_ ? neighbour : neighbour - 1;
  const auto found = std::lower_bound(neighbours_.begin(), neighbours_.end(), neighbour);
  return found == neighbours_.end() || *found != neighbour ? -1 : static_cast<int>(found - neighbours_.begin());
}

template <class Real>
int GossipRank<Real>::choose_of(std::span<const int> links, Random& random) const {
  if (preference_.is_active()) {
    const Mass<Real> mine{scratch_.data(), scratch_.size() - 2};
    if (estimate(mine)) return preference_.choose(links, mine, random);
  }
  return links[random.below(links.size())];
}

template <class Real>
void GossipRank<Real>::learn_from(const GossipArrival<Real>& arrival, GossipOutbox<Real>& out) {
  mass(preference_.before());
  std::visit([&](auto& rule) { rule.on_message(arrival, out); }, rule_);
  mass(preference_.after());
  preference_.learn(arrival.link);
}

template <class Real>
MassError GossipRank<Real>::add_input(ConstMass<Real> values, Real weight) {
  const std::vector<Real> input = initial_mass(values, weight, local_data().size() > values.size() + 1);
  std::visit([&](auto& rule) { rule.add_input(input); }, rule_);
  MassError error;
  error.add<Real>(local_data(), values.size());
  return error;
}

template <class Real>
void GossipRank<Real>::mass(Mass<Real> mass) const {
  const bool has_check =
      std::holds_alternative<PushFlow<Real>>(rule_) && std::get<PushFlow<Real>>(rule_).row_length() > mass.size();
  const Mass<Real> all{scratch_.data(), mass.size() + (has_check ? 1 : 0)};
  clear(all);
  std::visit([&](const auto& rule) { rule.add_estimate(all); }, rule_);
  copy<Real>(mass, all.first(mass.size()));
}

template <class Real>
bool GossipRank<Real>::estimate(Mass<Real> values) const {
  const Mass<Real> all{scratch_.data(), values.size() + 1};
  mass(all);
  const Real weight = all.back();
  if (weight == 0 || !std::isfinite(weight))
    return false;  // Push-Flow's may be negative for a moment, after messages have crossed
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = all[i] / weight;
  return is_finite<Real>(values);
}

template <class Real>
void GossipByRounds<Real>::advance(GossipOutbox<Real>& out) {
  for (;;) {
    if (!sent_ && asks_ && awaited_.empty() && rounds() > 0) {
      std::vector<int> bad;
      state_.add_bad_links(bad);
      for (const int link : bad) ask(link, out);
    }
    if (is_over() || !awaited_.empty()) return;
    const GossipRound now = schedule_.round(me_, round_);
    if (!sent_) {
      sent_ = true;
      if (now.to != no_rank && !dead_[static_cast<std::size_t>(now.to)]) push(now.link_to, out);
    }
    if (now.from != no_rank && !dead_[static_cast<std::size_t>(now.from)]) return;
    ++round_;
    sent_ = false;
  }
}

template <class Real>
void GossipByRounds<Real>::push(int link, GossipOutbox<Real>& out) {
  pushed_.clear();
  state_.push(link, pushed_);
  if (pushed_.empty())
    state_.settle(link, pushed_);  // nothing new, as the mass here is bad: but the round is waited for
  for (const auto& send : pushed_.sends()) copy<Real>(out.add(round_, send.length), pushed_.row(send));
}

template <class Real>
void GossipByRounds<Real>::ask(int link, GossipOutbox<Real>& out) {
  const Rank end = schedule_.end(me_, link);
  if (dead_[static_cast<std::size_t>(end)]) return state_.take_answer(link, {});
  awaited_.push_back(link);
  out.add(round_, 0, asks_for_flow, static_cast<std::uint32_t>(link ^ 1));
}

template <class Real>
bool GossipByRounds<Real>::on_message(int round, ConstMass<Real> row, GossipOutbox<Real>& out) {
  if (round < round_) return true;  // of a rank that was taken for dead
  if (!awaits(round)) return false;
  const int link = schedule_.round(me_, round).link_from;
  ++round_;
  sent_ = false;
  if (asks_ && !state_.is_good(row)) {
    ask(link, out);
  } else if (!row.empty()) {
    pushed_.clear();
    state_.on_message({link, 0, 0, row}, pushed_);
  }
  advance(out);
  return true;
}

template <class Real>
bool GossipByRounds<Real>::on_repair(const GossipArrival<Real>& arrival, Rank from, GossipOutbox<Real>& out) {
  const int link = static_cast<int>(arrival.ack);
  if (!asks_ || rounds() == 0 || link < 0 || link >= schedule_.links() || schedule_.end(me_, link) != from) return true;
  if (arrival.era == asks_for_flow) {
    if (arrival.link > round_) return false;
    pushed_.clear();
    state_.answer(link, pushed_);
    copy<Real>(
        out.add(arrival.link, pushed_.sends()[0].length, answers_with_flow, static_cast<std::uint32_t>(link ^ 1)),
        pushed_.row(pushed_.sends()[0]));
    return true;
  }
  if (std::erase(awaited_, link) == 0) return true;
  state_.take_answer(link, arrival.row);
  advance(out);
  return true;
}

template <class Real>
void GossipByRounds<Real>::on_failure(Rank failed, GossipOutbox<Real>& out) {
  if (dead_[static_cast<std::size_t>(failed)]) return;
  dead_[static_cast<std::size_t>(failed)] = true;
  for (int round = 0; round < std::min(schedule_.rounds(), schedule_.links() / 2); ++round) {
    const GossipRound each = schedule_.round(me_, round);
    if (each.to == failed) state_.on_failure(each.link_to);
    if (each.from == failed) state_.on_failure(each.link_from);
  }
  std::erase_if(awaited_, [&](int link) { return schedule_.end(me_, link) == failed; });
  advance(out);
}

template class GossipRank<float>;
template class GossipRank<double>;
template class GossipByRounds<float>;
template class GossipByRounds<double>;

}  // namespace ucft::detail

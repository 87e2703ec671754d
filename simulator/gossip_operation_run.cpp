#include "simulator/gossip_operation_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "collectives/models/cost_model.hpp"
#include "collectives/gossip/gossip_operation.hpp"
#include "collectives/among/operation_window.hpp"
#include "simulator/estimate_watch.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr int window = 8;  // as UCFT_WINDOW, if it is not set
constexpr double longest_us = 1e9;

GossipTime gossip_time(double us) { return GossipTime(std::llround(us * 1000)); }
double us_of(GossipTime time) { return static_cast<double>(time.count()) / 1000; }

template <class Real>
class GossipActors {
 public:
  explicit GossipActors(const GossipOperationRun& run) : run_(run), buffers_({&GossipActors::allocate, this, 1 << 20}) {
    GossipCall call = run.call;
    call.path = GossipPath::messages;
    std::vector<Real> input(call.count);
    for (Rank rank = 0; rank < run.setting.ranks; ++rank) {
      for (std::size_t i = 0; i < input.size(); ++i) input[i] = given(rank, i);
      nodes_.emplace_back(call, rank, run, input, buffers_);
    }
    const Setting& setting = run.setting;
    if (setting.dead.empty() && setting.deaths.empty() && setting.suspicions.empty())
      watch_.emplace(call, setting.slow, [this](Rank rank, std::size_t place) { return given(rank, place); });
  }
  ~GossipActors() {
    for (Node& node : nodes_) node.agreements.release_all();
  }
  GossipActors(const GossipActors&) = delete;
  GossipActors& operator=(const GossipActors&) = delete;

  // ---- as the engine sees them

  Buffers& buffers() { return buffers_; }
  void start(Rank rank, Outbox& out) {
    for (Rank failed : failed_) learn(at(rank), failed, out);
    at(rank).operation.start(WindowObjection::none, sends_);
    at(rank).may_contribute = true;
    carry_out(at(rank), out);
  }
  void deliver(Rank rank, const Message& message, Outbox& out) {
    Node& node = at(rank);
    if (message.phase == gossip_phase)
      take(node, message);
    else
      node.agreements.on_message(message, out);
    node.wake = 0;
    carry_out(node, out);
  }
  void fail(Rank rank, Rank failed, Outbox& out) {
    learn(at(rank), failed, out);
    at(rank).wake = 0;
    carry_out(at(rank), out);
  }
  template <class Visit>
  void note_failure(Rank failed, Visit visit) {
    failed_.push_back(failed);
    for (Rank rank = 0; rank < run_.setting.ranks; ++rank) visit(rank);
  }
  bool wants_turn(Rank rank) const {
    const Node& node = nodes_[static_cast<std::size_t>(rank)];
    const bool gossips = node.operation.is_pushing() && !node.operation.is_resting();  // before the meeting, too
    return !finished(rank) && (gossips || !node.operation.wants_agreement()) && node.wake != never;
  }
  double turn_at(Rank rank) { return at(rank).wake; }
  void turn(Rank rank, double now, Outbox& out) {
    Node& node = at(rank);
    const GossipTime time = gossip_time(now);
    if (node.operation.on_turn(time, sends_))
      node.wake = 0;
    else if (node.operation.is_pushing() && node.operation.links()->next_push() > time)
      node.wake = us_of(node.operation.links()->next_push());
    else
      node.wake = never;  // until something happens to it
    carry_out(node, out);
  }
  // Of an agreement the decision may be without a value, and of gossip there are messages that carry no row.
  std::uint64_t payload_bytes(const Message& message) const {
    return message.phase == gossip_phase ? message.value.bytes - sizeof(GossipMessage) : message.value.bytes;
  }
  bool finished(Rank rank) const { return operation(rank).finished(); }
  void look(Rank rank, double now) {
    if (watch_) watch_->look(rank, operation(rank), now);
  }

  // ---- what came of it

  const GossipOperation<Real>& operation(Rank rank) const { return nodes_[static_cast<std::size_t>(rank)].operation; }
  std::uint32_t agreements(Rank rank) const {
    return static_cast<std::uint32_t>(nodes_[static_cast<std::size_t>(rank)].agreements.next());
  }
  const std::optional<EstimateWatch<Real>>& watch() const { return watch_; }
  Real given(Rank rank, std::size_t i) const {
    return static_cast<Real>(gossip_value(run_.data, run_.setting.seed, run_.setting.ranks, rank, static_cast<int>(i)));
  }

 private:
  struct Node {
    Node(const GossipCall& call, Rank rank, const GossipOperationRun& run, const std::vector<Real>& input,
         Buffers& buffers)
        : operation(call, {rank, run.setting.ranks, 0, run.hosts}, input, {}, run.faults),
          agreements({rank, run.setting.ranks, window}, buffers) {}
    GossipOperation<Real> operation;
    OperationWindow agreements;
    bool may_contribute = false;  // it has started, and is in no agreement
    double wake = 0;              // no turn helps before, unless something happens
  };

  static std::byte* allocate(void* arg, std::size_t bytes) {
    auto& memory = static_cast<GossipActors*>(arg)->memory_;
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    return memory.back().get();
  }
  Node& at(Rank rank) { return nodes_[static_cast<std::size_t>(rank)]; }

  void learn(Node& node, Rank failed, Outbox& out) {
    node.agreements.on_failure(failed, out);
    node.operation.on_failure(failed, sends_);
  }

  // Carries out what the operation wants after an event.
  void carry_out(Node& node, Outbox& out) {
    for (;;) {
      flush(node, out);
      if (!node.operation.finished() && node.operation.wants_agreement() && node.may_contribute) contribute(node, out);
      if (node.agreements.completed().empty()) return;
      agree(node);
    }
  }

  // ---- gossip messages: a header and the row in one block, which costs no copy on its way

  void flush(Node& node, Outbox& out) {
    for (const auto& each : sends_.sends()) {
      const auto row = sends_.at(each.row);
      const BufferId block = buffers_.allocate(sizeof(GossipMessage) + row.size_bytes());
      std::memcpy(buffers_.data(block), &each.message, sizeof(GossipMessage));
      if (!row.empty()) std::memcpy(buffers_.data(block) + sizeof(GossipMessage), row.data(), row.size_bytes());
      Message message;
      message.phase = gossip_phase;
      message.value = buffers_.whole(block);
      out.send(each.message.peer, message);
      buffers_.release(block);
      if (each.link >= 0 && !row.empty()) node.operation.on_clear(each.link, sends_);
    }
    sends_.clear();
  }
  void take(Node& node, const Message& message) {
    const std::byte* block = buffers_.data(message.value);
    GossipMessage arrived;
    std::memcpy(&arrived, block, sizeof arrived);
    arrived.peer = message.peer;
    static_assert(sizeof(GossipMessage) % alignof(double) == 0, "rows are aligned");
    node.operation.on_message(
        arrived, {reinterpret_cast<const Real*>(block + sizeof arrived), payload_bytes(message) / sizeof(Real)},
        sends_);
  }

  // ---- agreements, as the library's gossip driver has them

  void contribute(Node& node, Outbox& out) {
    [[maybe_unused]] const bool is_ready = node.agreements.ready(out);
    assert(is_ready && "one agreement at a time, and the engine gives no step to who is out");
    const std::vector<double> table = node.operation.table();
    Arguments arguments;
    arguments.kind = Kind::allreduce;
    arguments.reduction = {DataType::float64, Operator::max};
    arguments.count = table.size();
    arguments.f = std::min(run_.f, run_.setting.ranks - 1);
    arguments.shape = best_shape(run_.setting.costs, arguments.bytes());
    node.may_contribute = false;
    node.agreements.post(arguments, {.input = buffers_.whole(buffers_.copy_in(table.data(), arguments.bytes()))}, out);
  }
  void agree(Node& node) {
    const Operation& agreement = node.agreements.operation(node.agreements.completed().back());
    const Decision& decision = agreement.decision();
    node.agreements.clear_completed();
    node.may_contribute = true;
    node.wake = 0;
    if (decision.outcome == Outcome::too_many_failures) return;  // more than f at once: another try
    assert(decision.outcome == Outcome::success);
    std::vector<Rank> missing;
    if (!decision.truncated) {
      missing = agreement.members().excluded();
      const auto* list = reinterpret_cast<const std::uint32_t*>(buffers_.data(decision.list));
      for (std::uint32_t i = 0; i < decision.list_length; ++i)
        if ((list[i] & contributed_bit) == 0) missing.push_back(static_cast<Rank>(list[i]));
    }
    const auto* table = reinterpret_cast<const double*>(buffers_.data(decision.value));
    node.operation.on_agreement({{table, decision.value.bytes / sizeof(double)}, missing, decision.contributors},
                                sends_);
  }

  const GossipOperationRun& run_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  Buffers buffers_;
  std::deque<Node> nodes_;
  std::vector<Rank> failed_;  // as the detector has told
  GossipSends<Real> sends_;
  std::optional<EstimateWatch<Real>> watch_;
};

// Compared with the ranks that the result stands for.
template <class Real>
double error_of(const GossipOperation<Real>& operation, const GossipActors<Real>& actors, const GossipCall& call) {
  const GossipOutcome& outcome = operation.outcome();
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < operation.result().size(); ++i) {
    long double sum = 0, extreme = std::numeric_limits<long double>::quiet_NaN();
    for (std::size_t rank = 0; rank < outcome.missing.size(); ++rank) {
      if (outcome.missing[rank]) continue;
      const auto value = static_cast<long double>(actors.given(static_cast<Rank>(rank), i));
      sum += value;
      extreme = extreme_of(call.plan.extremum, extreme, value);
    }
    const long double truth = call.is_extremum() ? extreme : call.sum ? sum : sum / outcome.contributors;
    const auto off = static_cast<double>(std::abs(static_cast<long double>(operation.result()[i]) - truth));
    if (!(off <= worst)) worst = off;  // no number stays
    largest = std::max(largest, static_cast<double>(std::abs(truth)));
  }
  return worst == 0 ? 0 : worst / largest;
}

SpreadOfTimes spread_of(std::vector<double> times) {
  std::ranges::sort(times);
  if (times.empty()) return {};
  return {times.front(), times[(times.size() - 1) / 2], times.back()};
}

template <class Real>
void note_estimates(const EstimateWatch<Real>& watch, const Slowness& slowness, GossipOperationResult& result) {
  std::vector<double> within_eps, without_slow;
  double slow = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(watch.within_eps().size()); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (slowness.is_slow(rank)) {
      slow = std::max(slow, watch.within_eps()[at]);
      continue;
    }
    within_eps.push_back(watch.within_eps()[at]);
    without_slow.push_back(watch.without_slow()[at]);
  }
  if (slow > 0) result.within_eps_slow = slow;
  result.within_eps = spread_of(std::move(within_eps));
  result.without_slow = spread_of(std::move(without_slow));
}

bool tells_the_same(const GossipOutcome& one, const GossipOutcome& other) {
  return one.end == other.end && one.error_bound == other.error_bound && one.missing == other.missing &&
         one.contributors == other.contributors && one.answer == other.answer && one.stages == other.stages &&
         one.live == other.live;
}

template <class Real>
GossipOperationResult run_of(const GossipOperationRun& run) {
  Setting setting = run.setting;
  setting.in_order = true;
  GossipActors<Real> actors(run);
  Engine<GossipActors<Real>> engine(setting, actors);
  engine.run();

  GossipOperationResult result;
  const GossipOperation<Real>* reference = nullptr;
  double last = 0, others = 0;
  for (Rank rank = 0; rank < setting.ranks; ++rank) {
    if (!engine.alive(rank) || !engine.trusted(rank)) continue;
    ++result.live;
    const GossipOperation<Real>& operation = actors.operation(rank);
    const GossipOutcome& outcome = operation.outcome();
    result.agreements = std::max(result.agreements, actors.agreements(rank));
    if (!operation.finished()) {
      ++result.missed;
      continue;
    }
    if (reference == nullptr) reference = &operation;
    result.first = std::min(result.first, engine.finished_at(rank));
    last = std::max(last, engine.finished_at(rank));
    if (!engine.slowness().is_slow(rank)) others = std::max(others, engine.finished_at(rank));
    result.iterations = std::max(result.iterations, outcome.iterations);
    result.injected.lost += outcome.injected.lost;
    result.injected.flips += outcome.injected.flips;
    result.injected.failed_links += outcome.injected.failed_links;
    result.wrong += !tells_the_same(outcome, reference->outcome()) ||
                    !std::ranges::equal(std::as_bytes(operation.result()), std::as_bytes(reference->result()));
  }
  result.messages = engine.messages(gossip_phase);
  result.agreement_messages = engine.messages() - result.messages;
  result.bytes = engine.bytes();
  result.events = engine.events();
  if (actors.watch()) note_estimates(*actors.watch(), engine.slowness(), result);
  if (reference == nullptr) return result;
  if (result.missed == 0) result.latency = last;
  if (result.missed == 0 && others > 0) result.others = others;
  const GossipOutcome& outcome = reference->outcome();
  result.stages = outcome.stages;
  result.bound = outcome.error_bound;
  result.reached = outcome.reached;
  result.end = outcome.end;
  result.answer = outcome.answer;
  for (std::size_t rank = 0; rank < outcome.missing.size(); ++rank)
    if (outcome.missing[rank]) result.missing.push_back(static_cast<Rank>(rank));
  if (outcome.end != GossipEnd::success) return result;
  result.error = error_of(*reference, actors, run.call);
  result.above_bound =
      !run.faults.any() && outcome.answer != GossipStandsFor::nearly_all_ranks && result.error > outcome.error_bound;
  return result;
}

// Each rank knows of each: a table, its copy and sums on their way, members. And the state of its links.
double memory_of(const GossipOperationRun& run) {
  const GossipPlan& plan = run.call.plan;
  const double n = run.setting.ranks, number = run.call.is_float ? 4 : 8;
  const double links = goes_by_rounds(plan.algorithm)
                           ? 2.0 *
                                 (plan.cycles > 0 ? std::min(plan.cycles, run.call.iterations) : run.call.iterations) *
                                 uses_flows(plan.algorithm)
                           : static_cast<double>(neighbours_of(plan.neighbourhood, 0).size());
  const double copies = plan.algorithm == GossipAlgorithm::pcf_flip ? 6 : 2;
  return n * n * 48 + n * links * (200 + copies * static_cast<double>(run.call.count + 2) * number);
}

}  // namespace

std::string problem_with(const GossipOperationRun& run) {
  const GossipCall& call = run.call;
  const GossipAlgorithm algorithm = call.plan.algorithm;
  if (algorithm == GossipAlgorithm::pcf_printed) return "pcf_printed: for study only, the library does not have it";
  GossipPlan plan = call.plan;
  if (plan.tau == 0) plan.tau = 1;  // chosen when the ranks meet
  if (const std::string problem = problem_with(plan); !problem.empty()) return problem;
  const double epsilon = call.is_float ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  if (has_checksums(algorithm) && plan.tau < epsilon)
    return fmt::format("tau = {}: smaller than the rounding errors of the checksums, {:.2g} and more", plan.tau,
                       epsilon);
  if (!(call.eps > 0 && call.eps < 1)) return fmt::format("eps = {}: it must be above 0 and below 1", call.eps);
  const LogGP& costs = run.setting.costs;
  const Slowness slowness(run.setting.ranks, run.setting.slow, run.setting.noise, run.setting.seed);
  const double longest =
      slowness.longest(costs.delivery() + costs.gap +
                       costs.stretch(8 * (2 * call.count + 8 + static_cast<std::uint64_t>(run.setting.ranks)))) *
      (1 + run.setting.jitter);
  if (longest > longest_us)
    return fmt::format("a message takes {:g} us: at most {:g}, as gossip's clock counts ns", longest, longest_us);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (memory_of(run) > memory)
    return fmt::format("{} ranks with {} on {} need {:.0f} GiB; this machine has {:.0f}", run.setting.ranks,
                       gossip_algorithm_name(algorithm), gossip_topology_name(plan.neighbourhood.topology),
                       memory_of(run) / 0x1p30, memory / 0x1p30);
  std::vector<bool> dies(static_cast<std::size_t>(run.setting.ranks));
  for (Rank rank : run.setting.dead) dies[static_cast<std::size_t>(rank)] = true;
  for (const Death& death : run.setting.deaths) dies[static_cast<std::size_t>(death.rank)] = true;
  for (const Suspicion& suspicion : run.setting.suspicions) dies[static_cast<std::size_t>(suspicion.rank)] = true;
  if (std::find(dies.begin(), dies.end(), false) == dies.end())
    return fmt::format("{} deaths of {} ranks: one must live", dies.size(), dies.size());
  return problem_with(run.faults, plan, call.is_float ? 32 : 64);
}

GossipOperationResult simulate(const GossipOperationRun& run) {
  return run.call.is_float ? run_of<float>(run) : run_of<double>(run);
}

}  // namespace ucft::detail::simulator

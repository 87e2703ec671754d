// ucft_sim advise: proposes f, tree and correction for a job, and says what they cost. An operation begins with the
// schedule that expects no death (collectives/models/plain_model.hpp). f, tree and correction are those of the one that
// it falls back to after a death, and of short broadcasts, which have no other.
//
// Hosts are the processes, so f counts hosts, and latencies and messages are those between hosts. (The work of a host's
// ranks among themselves comes on top.) Hosts fail independently, at a constant rate (MTBF of a host). An operation is
// lost if more hosts fail than it tolerates before a result has named the first of them. That is within the exposure =
// time until the detector's word + one operation. With m tolerated hosts, rate r of all hosts and a job of length J
// (Poisson):
//
//     lost operations = J r P(at least m more failures within the exposure);   P(job loses one) = 1 - exp(-that)
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/models/gossip_model.hpp"
#include "collectives/models/plain_model.hpp"
#include "simulator/commands.hpp"

namespace ucft::detail::simulator::advise_command {

namespace {

constexpr double us_per_hour = 3.6e9;
constexpr std::int32_t most_hosts =
    32;  // tolerated per operation: beyond that it is no operation that is lost, but a machine

struct Options {
  std::string operation = "allreduce", model;
  std::int64_t ranks = 64;
  std::int32_t ranks_per_host = 1;
  std::uint64_t bytes = 8;
  double latency = -1, overhead = -1, gap = -1, gap_per_byte = -1;
  double mtbf_hours = 18304, job_hours = 12, detection_us = 1.35e6, risk = 1e-6;
  double unknown_dead = 0;  // a fraction of the ranks
  bool json = false;
  std::int32_t hosts() const { return static_cast<std::int32_t>((ranks + ranks_per_host - 1) / ranks_per_host); }
};

// P(at least `least` events), Poisson with this mean.
double poisson_tail(int least, double mean) {
  const auto probability_of = [&](int k) { return std::exp(-mean + k * std::log(mean) - std::lgamma(k + 1.0)); };
  if (least == 0) return 1;
  double sum = 0;
  if (mean > least) {  // 1 minus the head
    for (int k = 0; k < least; ++k) sum += probability_of(k);
    return std::max(0.0, 1 - sum);
  }
  // The tail itself: 1 minus the head would lose all digits of a small one.
  double term = probability_of(least);
  for (int k = least + 1; term > sum * 1e-17; ++k, term *= mean / (k - 1)) sum += term;
  return std::min(sum, 1.0);
}

struct Choice {
  std::int32_t f = 0;  // hosts, per operation
  double lost_job = 0;
  double latency = 0;  // of the fallback
  std::int64_t messages = 0;
};

struct Advice {
  double expected_failures = 0;
  std::vector<Choice> choices;  // f = 0, 1, 2 ..; the last one is the first that suffices, or all there are
  bool suffices = false;
  Arguments arguments;
  PlainSchedule schedule = PlainSchedule::none;
  PlainCost usual;              // without a death
  double binomial_latency = 0;  // of the fallback: binomial tree, f = 0
  std::int64_t cut_off = 0;     // most ranks below one process of the broadcast tree
  std::string why_correction;
  double corrections = 0;  // messages of the correction, without failure, about
  // Of a broadcast: when the last message of a checked correction has come, after a tree and after gossip.
  SpreadForecast spread;
};

Choice choice_of(std::int32_t f, const Options& options, const Arguments& base, const LogGP& costs) {
  Choice choice;
  choice.f = f;
  Arguments arguments = base;
  arguments.f = f;
  choice.latency = predict_latency(arguments, options.hosts(), costs, options.bytes);
  choice.messages = predict_messages(arguments, options.hosts());
  const double rate = options.hosts() / (options.mtbf_hours * us_per_hour);
  const double exposure = options.detection_us + choice.latency;
  choice.lost_job = -std::expm1(-options.job_hours * us_per_hour * rate * poisson_tail(f, rate * exposure));
  return choice;
}

// The first child of the root has the largest subtree.
std::int64_t largest_subtree(const BroadcastShape& shape, std::int32_t size) {
  const BroadcastTopology tree(shape, size);
  std::vector<std::int32_t> children, open;
  tree.children(0, open);
  if (open.empty()) return 0;
  open.resize(1);
  std::int64_t below = -1;
  while (!open.empty()) {
    tree.children(open.back(), children);
    open.pop_back();
    ++below;
    open.insert(open.end(), children.begin(), children.end());
  }
  return below;
}

Advice advise(const Options& options, const LogGP& costs) {
  Advice advice;
  Arguments& arguments = advice.arguments;
  const std::int32_t size = options.hosts();
  arguments.kind = row_named(options.operation == "bcast" ? "broadcast" : options.operation)->kind;
  const CatalogueRow& row = arguments.row();
  arguments.f = 0;
  advice.binomial_latency = predict_latency(arguments, size, costs, options.bytes);
  arguments.shape = best_shape(costs, row.has_data() ? options.bytes : 0);
  advice.expected_failures = options.job_hours / options.mtbf_hours * size;
  for (std::int32_t f = 0; !advice.suffices && f <= std::min(size - 1, most_hosts); ++f) {
    advice.choices.push_back(choice_of(f, options, arguments, costs));
    advice.suffices = advice.choices.back().lost_job <= options.risk;
  }
  const Choice& chosen = advice.choices.back();
  arguments.f = chosen.f;
  advice.schedule = plain_schedule_of(arguments, size, options.bytes);
  advice.usual = advice.schedule == PlainSchedule::none ? PlainCost{chosen.latency, chosen.messages}
                                                        : predict_plain(arguments, size, costs, options.bytes);
  if (!row.collects) {
    GossipCase given;
    given.size = size;
    given.costs = costs;
    given.bytes = options.bytes;
    given.dead = options.unknown_dead;
    advice.spread = forecast_spread(given, arguments.shape);
  }

  // A death inside the broadcast cuts off a subtree. Without correction each of its ranks asks the root, after
  // detection.
  advice.cut_off = row.disseminates ? largest_subtree(arguments.shape, size) : 0;
  const double storm = static_cast<double>(advice.cut_off) * (costs.per_receive() + costs.per_message());
  if (!row.disseminates) {
    advice.why_correction = "a reduce has no broadcast";
  } else if (storm < options.detection_us / 10) {
    advice.why_correction =
        fmt::format("at most {} hosts ask the root after a death: {:.3g} us beside {:.3g} us until it is known",
                    advice.cut_off, storm, options.detection_us);
  } else {
    arguments.correction = Correction::checked;
    advice.corrections = static_cast<double>(size) * (arguments.shape.delay_quarters / 4.0 + 1);  // docs/algorithms.md
    advice.why_correction =
        fmt::format("without it up to {} hosts would ask the root after a death, one after the other: {:.3g} us",
                    advice.cut_off, storm);
  }
  return advice;
}

const char* algorithm_of(const Advice& advice) {
  return advice.schedule == PlainSchedule::none ? "corrected" : "optimistic";
}
const char* schedule_of(const Advice& advice) {
  if (advice.schedule != PlainSchedule::none) return plain_schedule_name(advice.schedule);
  return advice.arguments.row().collects ? "up-correction and a broadcast tree" : "a broadcast tree";
}

// One host: there is nothing to choose.
int print_alone(const Options& options) {
  const bool is_one_rank = options.ranks == 1;
  const char* const what =
      is_one_rank ? "one rank has its result at once: its own value; it sends nothing"
                  : "the ranks of one host read each other's memory: no messages, and any number of deaths is survived";
  if (options.json) {
    const nlohmann::ordered_json nothing = nullptr;
    fmt::print("{}\n", nlohmann::ordered_json{{"operation", options.operation},
                                              {"algorithm", is_one_rank ? "alone" : "shared memory"},
                                              {"ranks", options.ranks},
                                              {"ranks_per_host", options.ranks_per_host},
                                              {"hosts", 1},
                                              {"bytes", options.bytes},
                                              {"f", 0},
                                              {"latency_us", is_one_rank ? nlohmann::ordered_json(0) : nothing},
                                              {"messages", 0}}
                           .dump());
    return 0;
  }
  fmt::print("{} of {} bytes, {} on 1 host: {}\n", options.operation, options.bytes,
             is_one_rank ? "1 rank" : fmt::format("{} ranks", options.ranks), what);
  return 0;
}

int print(const Options& options, const Advice& advice) {
  constexpr int latency_width = 16;
  const Choice& chosen = advice.choices.back();
  const Arguments& arguments = advice.arguments;
  if (options.json) {
    nlohmann::ordered_json line = {{"operation", options.operation},
                                   {"algorithm", algorithm_of(advice)},
                                   {"schedule", schedule_of(advice)},
                                   {"ranks", options.ranks},
                                   {"ranks_per_host", options.ranks_per_host},
                                   {"hosts", options.hosts()},
                                   {"bytes", options.bytes},
                                   {"mtbf_hours", options.mtbf_hours},
                                   {"job_hours", options.job_hours},
                                   {"expected_failures", advice.expected_failures},
                                   {"f", chosen.f},
                                   {"tree", tree_name(arguments.shape.tree)},
                                   {"delay_quarters", arguments.shape.delay_quarters},
                                   {"correction", correction_name(arguments.correction)},
                                   {"latency_us", advice.usual.latency},
                                   {"messages", advice.usual.messages},
                                   {"fallback_latency_us", chosen.latency},
                                   {"fallback_messages", chosen.messages},
                                   {"correction_messages_about", advice.corrections},
                                   {"fallback_latency_us_f0", advice.choices.front().latency},
                                   {"fallback_latency_us_f0_binomial", advice.binomial_latency},
                                   {"lost_job_probability", chosen.lost_job},
                                   {"risk", options.risk},
                                   {"suffices", advice.suffices}};
    if (!arguments.row().collects) {
      line["spread"] = advice.spread.gossip_is_faster() ? "gossip" : "tree";
      line["tree_end_us"] = advice.spread.tree_end;
      line["gossip_time_us"] = advice.spread.gossip.time;
      line["gossip_end_us"] = advice.spread.gossip_end;
      line["gossip_end_formula_us"] = advice.spread.gossip.end;
    }
    for (const Choice& choice : advice.choices)
      line["choices"].push_back({{"f", choice.f},
                                 {"lost_job_probability", choice.lost_job},
                                 {"fallback_latency_us", choice.latency},
                                 {"fallback_messages", choice.messages}});
    fmt::print("{}\n", line.dump());
    return 0;
  }
  fmt::print("{} of {} bytes, {} ranks on {} hosts, {:g} h: {:.3g} hosts fail\n\n", options.operation, options.bytes,
             options.ranks, options.hosts(), options.job_hours, advice.expected_failures);
  const bool falls_back = advice.schedule != PlainSchedule::none;
  fmt::print("{:>15}  {:>25}  {:>{}}  {:>10}\n", "f, hosts", "P(job loses an operation)",
             falls_back ? "us after a death" : "latency, us", latency_width, "messages");
  for (const Choice& choice : advice.choices)
    fmt::print("{:>15}  {:>25.3g}  {:>{}.3f}  {:>10}{}\n", choice.f, choice.lost_job, choice.latency, latency_width,
               choice.messages, &choice == &chosen ? "  <-" : "");
  if (advice.corrections > 0) fmt::print("\nand about {:.0f} messages of the correction\n", advice.corrections);
  if (!advice.suffices) fmt::print("\nNo f up to {} reaches a risk of {:g}.\n", chosen.f, options.risk);
  fmt::print("\nalgorithm   {}: {}\n", algorithm_of(advice), schedule_of(advice));
  if (falls_back)
    fmt::print(
        "latency     {:.3f} us, {} messages\nfallback    corrected, after a death, for UCFT_WINDOW operations:\n",
        advice.usual.latency, advice.usual.messages);
  fmt::print("f           {}\n", chosen.f);
  if (arguments.row().disseminates)
    fmt::print("tree        {} ((L + 2o) / max(g, o) = {:g})\ncorrection  {}: {}\n", tree_name(arguments.shape.tree),
               arguments.shape.delay_quarters / 4.0, correction_name(arguments.correction), advice.why_correction);
  fmt::print("{}{:.3f} us; {:.3f} us with f = 0, {:.3f} us with f = 0 and a binomial tree\n",
             falls_back ? "then        " : "latency     ", chosen.latency, advice.choices.front().latency,
             advice.binomial_latency);
  if (!arguments.row().collects)
    fmt::print(
        "gossip      {}: with checked correction all is over after {:.3f} us, T = {:.3f}; after the tree {:.3f} us\n",
        advice.spread.gossip_is_faster() ? "yes" : "no", advice.spread.gossip_end, advice.spread.gossip.time,
        advice.spread.tree_end);
  fmt::print("\nucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;\noptions.f = {};\n", chosen.f);
  if (advice.spread.gossip_is_faster()) {
    fmt::print("options.tree = UCFT_TREE_GOSSIP;\noptions.gossip_time_ns = {:.0f};\n",
               1000 * advice.spread.gossip.time);
    fmt::print("options.correction = UCFT_CORRECTION_CHECKED;\n");
    return 0;
  }
  if (!arguments.row().disseminates) return 0;
  fmt::print("options.tree = UCFT_TREE_OPTIMAL;\noptions.tree_delay_quarters = {};\n", arguments.shape.delay_quarters);
  if (arguments.correction == Correction::checked) fmt::print("options.correction = UCFT_CORRECTION_CHECKED;\n");
  return 0;
}

}  // namespace

void add_advise_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  const CLI::Validator positive = number_between(0, longest_time), above_zero = number_between(1e-9, longest_time);
  CLI::App* command =
      app.add_subcommand("advise", "which f, tree and correction to use, and what they cost; times in us");
  command->add_option("operation", options->operation, "the operation that the job repeats")
      ->check(CLI::IsMember({"allreduce", "reduce", "bcast", "barrier"}))
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "how many ranks the job has")
      ->check(whole_between(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--ranks-per-host", options->ranks_per_host, "a host is one process, and fails as one")
      ->check(whole_between(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--bytes", options->bytes, "payload")
      ->check(whole_between(0, 1000000000000))
      ->capture_default_str();
  command->add_option("--model", options->model,
                      "LogGP parameters in us (ucft_perftest --calibrate); those below override it");
  command->add_option("--L,--latency", options->latency, "default: 1 us")->check(positive);
  command->add_option("--o,--overhead", options->overhead, "default: 0.3 us")->check(positive);
  command->add_option("--g,--gap", options->gap, "default: 0.3 us")->check(positive);
  command->add_option("--G,--gap-per-byte", options->gap_per_byte, "default: 0.0001 us (10 GB/s)")->check(positive);
  command->add_option("--mtbf", options->mtbf_hours, "mean time between failures of one host, hours")
      ->check(above_zero)
      ->capture_default_str();
  command->add_option("--job", options->job_hours, "length of the job, hours")
      ->check(above_zero)
      ->capture_default_str();
  command
      ->add_option("--detect", options->detection_us,
                   "us from a death until all know it (1.35 times UCFT_SUSPECT_AFTER between hosts)")
      ->check(positive)
      ->capture_default_str();
  command
      ->add_option(
          "--unknown-dead", options->unknown_dead,
          "bcast: fraction of the hosts that are dead and not known to be, for the choice between tree and gossip")
      ->check(number_between(0, 0.9))
      ->capture_default_str();
  command->add_option("--risk", options->risk, "accepted probability that the job loses an operation")
      ->check(number_between(0, 1))
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options, command, &exit_code] {
    refuse_meaningless(*command, {{"--unknown-dead", options->operation == "bcast", "of bcast"},
                                  {"--bytes", options->operation != "barrier", "of an operation with data"}});
    LogGP costs = network_costs;
    std::string error;
    if (!options->model.empty() && !read_costs(options->model, costs, error)) refuse("--model: " + error);
    if (options->latency >= 0) costs.latency = options->latency;
    if (options->overhead >= 0) costs.send_overhead = costs.receive_overhead = options->overhead;
    if (options->gap >= 0) costs.gap = options->gap;
    if (options->gap_per_byte >= 0) costs.gap_per_byte = options->gap_per_byte;
    exit_code = options->hosts() == 1 ? print_alone(*options) : print(*options, advise(*options, costs));
  });
}

}  // namespace ucft::detail::simulator::advise_command

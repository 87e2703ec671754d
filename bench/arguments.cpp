#include "bench/arguments.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <limits>
#include <stdexcept>
#include <span>
#include <string_view>
#include <utility>

#include "bench/algorithm.hpp"
#include "bench/number.hpp"
#include "collectives/gossip/faults.hpp"
#include "collectives/gossip/gossip.hpp"
#include "collectives/topology/names.hpp"
#include "collectives/reduction/types.hpp"

namespace ucft::detail::bench {

namespace {

template <class Value>
struct Named {
  const char* name;
  Value value;
};
constexpr std::array<Named<Test>, 14> tests{{{"allreduce", Test::allreduce},
                                             {"reduce", Test::reduce},
                                             {"bcast", Test::broadcast},
                                             {"barrier", Test::barrier},
                                             {"allgather", Test::allgather},
                                             {"gather", Test::gather},
                                             {"reduce_scatter", Test::reduce_scatter},
                                             {"scatter", Test::scatter},
                                             {"alltoall", Test::alltoall},
                                             {"alltoallv", Test::alltoallv},
                                             {"scan", Test::scan},
                                             {"exscan", Test::exscan},
                                             {"sendrecv", Test::sendrecv},
                                             {"broadcast", Test::broadcast}}};  // another name of bcast
template <class Value, std::size_t count>
constexpr auto named_by(const auto(&rows)[count]) {
  std::array<Named<Value>, count> table{};
  for (std::size_t i = 0; i < count; ++i) table[i] = {rows[i].name, static_cast<Value>(i)};
  return table;
}
constexpr auto dtypes = named_by<ucft_dtype_t>(type_rows);
constexpr auto operators = named_by<ucft_op_t>(operator_rows);

constexpr std::array<Named<ucft_gossip_stop_t>, 2> gossip_stops{
    {{"rounds", UCFT_GOSSIP_ROUNDS}, {"adaptive", UCFT_GOSSIP_ADAPTIVE}}};
constexpr std::array<Named<GossipData>, 4> gossip_data{{{"uniform", GossipData::uniform},
                                                        {"cancel", GossipData::cancel},
                                                        {"huge", GossipData::huge},
                                                        {"tiny", GossipData::tiny}}};
constexpr std::array<Named<std::int32_t>, 3> gossip_repairs{{{"default", 0}, {"yes", 1}, {"no", -1}}};
constexpr std::array<Named<ucft_gossip_path_t>, 3> gossip_paths{
    {{"auto", UCFT_GOSSIP_PATH_AUTO}, {"message", UCFT_GOSSIP_PATH_MESSAGE}, {"rma", UCFT_GOSSIP_PATH_RMA}}};

constexpr std::int64_t most_iterations = 1'000'000'000;
constexpr std::int64_t most_respawns = 10'000;
constexpr std::int64_t most_bytes = std::int64_t{1} << 32;

template <class Table, class Value>
const char* name_in(const Table& table, Value value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  return "?";
}

template <class Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& row : table) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

template <class Table>
auto value_in(const Table& table, const std::string& option, const std::string& text) {
  for (const auto& row : table)
    if (text == row.name) return row.value;
  throw std::invalid_argument(fmt::format("{}: '{}' is none of {}", option, text, names_in(table)));
}

void check_operator(ucft_op_t op, ucft_dtype_t dtype) {
  const auto type = static_cast<DataType>(dtype);
  if (!takes(op == UCFT_USER ? Operator::sum : static_cast<Operator>(op), type))
    throw std::invalid_argument(fmt::format("-o {}: not of {}", name_in(operators, op), name_in(dtypes, dtype)));
  if (op == UCFT_USER && is_of(type, halves))
    throw std::invalid_argument(
        fmt::format("-o user: not of {}, where the caller's sum would be rounded each time", name_in(dtypes, dtype)));
}

// "65536", "64K", "1M", "1G"
std::int64_t parse_bytes(const char* option, std::string_view text) {
  const std::string given = fmt::format("{} {}", option, text);
  std::int64_t factor = 1;
  if (text.ends_with('K')) factor = 1 << 10;
  if (text.ends_with('M')) factor = 1 << 20;
  if (text.ends_with('G')) factor = 1 << 30;
  if (factor > 1) text.remove_suffix(1);
  return factor * parse_number(given, text, {0, most_bytes / factor});
}

// As the user typed it, before the values are looked at.
struct RawArguments {
  std::string test = "allreduce";
  std::string algorithm = "auto";
  std::string sizes = "8", first, last, factor = "2";
  std::string iterations = "1000";
  std::string warmup = "100";
  std::string f;
  std::string correction_delay_us;
  std::string dtype;
  std::string op = "sum";
  std::string root = "0";
  std::string memory = "plain";
  std::string topology = "complete";
  std::string eps = "1e-6";
  std::string stop = "adaptive";
  std::string data_path = "auto", data = "uniform";
  std::string seed = "1";
  std::string cycles = "0", repair_initial = "default";
  std::string loss, flip_rate, flip_target;
  std::string bins, sweeps;
  std::string quorum, deadline_us, step_us;
  std::vector<std::string> flips, failing_links;
  std::vector<std::string> kills;
  std::vector<std::string> stops;
  std::vector<std::string> slow;
  std::string noise, respawns;
  bool watches = false, uniform = false;
};

// The payloads of the rows: "8", or "8:1M" for 8, 16, 32 .. 1M; or from, to and factor, as nccl-tests have them.
// After a row without elements comes one with one: "0:16" is 0, 8, 16, if an element has 8 bytes.
std::vector<std::size_t> sizes_of(const RawArguments& raw, std::size_t element_bytes, const char* dtype) {
  const bool is_range = !raw.first.empty() || !raw.last.empty();
  const auto colon = raw.sizes.find(':');
  const std::string_view given(raw.sizes);
  const std::int64_t first = is_range ? parse_bytes("-b", raw.first.empty() ? raw.last : raw.first)
                                      : parse_bytes("-s", given.substr(0, colon));
  std::int64_t last = first;
  if (is_range && !raw.last.empty()) last = parse_bytes("-e", raw.last);
  if (!is_range && colon != std::string::npos) last = parse_bytes("-s", given.substr(colon + 1));
  const std::int64_t factor = parse_number("--stepfactor", raw.factor, {2, 1024});
  const std::string text = is_range ? fmt::format("-b {} -e {}", first, last) : fmt::format("-s {}", raw.sizes);
  if (last < first) throw std::invalid_argument(fmt::format("{}: the end is below the beginning", text));
  if (first % static_cast<std::int64_t>(element_bytes) != 0) {
    throw std::invalid_argument(fmt::format("{}: {} bytes are not a whole number of {} elements of {} bytes", text,
                                            first, dtype, element_bytes));
  }
  std::vector<std::size_t> sizes;
  const auto after = [&](std::int64_t bytes) {
    return bytes == 0 ? static_cast<std::int64_t>(element_bytes) : bytes * factor;
  };
  for (std::int64_t bytes = first; bytes <= last; bytes = after(bytes))
    sizes.push_back(static_cast<std::size_t>(bytes));
  return sizes;
}

// "3@100"
PlannedDeath parse_death(const std::string& option, const std::string& text, int signal) {
  const auto at = text.find('@');
  if (at == std::string::npos) {
    throw std::invalid_argument(fmt::format("{}: '{}' is not of the form RANK@ITERATION, e.g. 3@100", option, text));
  }
  const std::string context = fmt::format("{} {}", option, text);
  const std::string_view view(text);
  constexpr Range ranks{0, std::numeric_limits<int>::max()};
  return {static_cast<int>(parse_number(context + ": rank", view.substr(0, at), ranks)),
          parse_number(context + ": iteration", view.substr(at + 1), {0, most_iterations}), signal};
}

void add_common_options(CLI::App& app, RawArguments& raw, Arguments& arguments) {
  app.add_option(
         "-t", raw.test,
         "allreduce, reduce, bcast, barrier, allgather, gather, scatter, reduce_scatter, alltoall, alltoallv, scan, "
         "exscan, sendrecv (a round trip of each pair of ranks); ucft_perftest: gossip, too")
      ->type_name("TEST")
      ->capture_default_str();
  CLI::Option* sizes =
      app.add_option("-s", raw.sizes,
                     "Payload; with MAX one row for each of BYTES, 2 BYTES, 4 BYTES .. MAX. 64K, 1M, 1G are understood")
          ->type_name("BYTES[:MAX]")
          ->capture_default_str();
  app.add_option("-b,--minbytes", raw.first, "Instead of -s, as nccl-tests have it: the payload of the first row")
      ->type_name("BYTES")
      ->excludes(sizes);
  app.add_option("-e,--maxbytes", raw.last, "The same: at most so much in the last row")
      ->type_name("BYTES")
      ->excludes(sizes);
  app.add_option("--stepfactor", raw.factor,
                 "Of both: from row to row (nccl-tests have -f, which is another thing here)")
      ->type_name("FACTOR")
      ->capture_default_str();
  app.add_option("-n", raw.iterations, "Measured iterations per row")->type_name("ITERATIONS")->capture_default_str();
  app.add_option("-w", raw.warmup, "Iterations before them")->type_name("WARMUP")->capture_default_str();
  app.add_option("-d", raw.dtype, fmt::format("{} (the default is uint64; of gossip: double)", names_in(dtypes)))
      ->type_name("DTYPE");
  app.add_option("-o", raw.op, fmt::format("{} (user: a sum, by a function of the caller)", names_in(operators)))
      ->type_name("OP")
      ->capture_default_str();
  app.add_option("--root", raw.root,
                 "Root of bcast, scatter, reduce and gather; where an allreduce and a barrier meet first")
      ->type_name("RANK")
      ->capture_default_str();
  app.add_flag("--back-to-back", arguments.back_to_back,
               "No barrier, check and clock between the operations of a batch (64; above 4 KiB: 8), of which the last "
               "is checked");
  app.add_flag("--json", arguments.json, "One JSON object per row, each on a line");
}

void add_ucft_options(CLI::App& app, RawArguments& raw, Arguments& arguments) {
  app.add_option(
         "--calibrate", arguments.calibrate,
         "Instead: measures LogGP parameters between the first and the last rank, for ucft_sim --model and UCFT_MODEL")
      ->type_name("FILE");
  app.add_option(
         "--tune", arguments.tune,
         "Instead: measures which shape and sizes are the fastest for so many ranks of one host, or which sizes for so "
         "many hosts, as a row of the table for UCFT_TUNING_FILE; other rows of FILE stay")
      ->type_name("FILE")
      ->excludes("--calibrate");
  app.add_option(
         "-a", raw.algorithm,
         "auto; corrected: by messages between all ranks, whatever memory they share, prepared for deaths from the "
         "first message on; or, as corrected, TREE[K][-in-order][+CORRECTION[D]][/INFO]. TREE: "
         "auto (by the cost model), auto_or_gossip (that, or gossip), binomial, kary (K children), "
         "knomial (radix K), lame "
         "(of K), optimal (K: (L + 2o) / max(g, o) in quarters), chain, flat. Instead of TREE and CORRECTION: "
         "ocg[T][+C], "
         "ccg[T], fcg[T], corrected gossip for T ns (default: by the cost model), C ranks each way; gossip[T], without "
         "correction. With -t gossip: push_sum, push_flow, "
         "pflc, pfcc, pcf, pcf_flip, hps, hpflc, hpfcc, ardb, recursive_doubling. CORRECTION: opportunistic, "
         "opportunistic-optimised (D messages), checked, failure-proof. INFO of failures: list, count, bit")
      ->type_name("ALGORITHM")
      ->capture_default_str();
  app.add_option("--topology", raw.topology, fmt::format("Of -t gossip: {}", fmt::join(gossip_topology_names(), ", ")))
      ->type_name("T")
      ->capture_default_str();
  app.add_option("--eps", raw.eps, "Of -t gossip: the relative error that is asked for")
      ->type_name("E")
      ->capture_default_str();
  app.add_option("--until", raw.stop,
                 "Of -t gossip: rounds (as many as the model says), or adaptive (until the measured bound is below E)")
      ->type_name("rounds|adaptive")
      ->capture_default_str();
  app.add_option("--data", raw.data,
                 "Of -t gossip: what ranks give: uniform; cancel (all but 1e-12 of it); huge (a sum overflows); tiny "
                 "(subnormal)")
      ->capture_default_str();
  app.add_option("--data-path", raw.data_path, "Of -t gossip: auto, message, rma")
      ->type_name("PATH")
      ->capture_default_str();
  app.add_option(
         "--cycles", raw.cycles,
         "Of -t gossip, hps, hpflc, hpfcc: so many cycles, used in turn; -1: a new one in each round; 0: hps -1, "
         "the others half of the first rounds, at most 16")
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--repair-initial", raw.repair_initial,
         "Of -t gossip, algorithms with checksums: whether a rank's own values are repaired (default: of hpflc, hpfcc)")
      ->type_name("default|yes|no")
      ->capture_default_str();
  app.add_option("--seed", raw.seed, "Of -t gossip: of its choices, and of the faults")
      ->type_name("S")
      ->capture_default_str();
  app.add_option("--loss", raw.loss, "Of -t gossip: probability that a message is lost")->type_name("P");
  app.add_option("--flip-rate", raw.flip_rate,
                 "Of -t gossip: probability of a flip of any bit, before each push (of a message: on its way)")
      ->type_name("P");
  app.add_option("--flip", raw.flips,
                 "Of -t gossip: BIT from the lowest or 'any', of RANK or any, in its TIMEth iteration of each "
                 "operation: in a flow, message or data by chance")
      ->type_name("BIT[:RANK]@TIME")
      ->delimiter(',');
  app.add_option("--flip-target", raw.flip_target,
                 "Of -t gossip: flow (the default; where there are none: the mass), message, data (the rank's own)")
      ->type_name("flow|message|data");
  app.add_option(
         "--fail-link", raw.failing_links,
         "Of -t gossip: in each operation that link is gone once an end has made TIME iterations, and both know")
      ->type_name("RANK-RANK@TIME")
      ->delimiter(',');
  app.add_option("-f", raw.f, "Failures tolerated in each operation (default: that of the library)")->type_name("F");
  app.add_flag("--uniform", raw.uniform, "What a rank has returned that dies then, the survivors return, too");
  app.add_option("--quorum", raw.quorum,
                 "Of -t allreduce: decided once Q ranks have posted it and the deadline is over")
      ->type_name("Q");
  app.add_option("--deadline", raw.deadline_us, "With --quorum: after the first post (default: 0, at once)")
      ->type_name("US");
  app.add_option("--bins", raw.bins,
                 "Of -o sum_reproducible, avg_reproducible: bins of a sum (default: that of the library)")
      ->type_name("K");
  app.add_option("--sweeps", raw.sweeps, "Of the same: 1 or 2 sweeps over the numbers (default: the faster)")
      ->type_name("N");
  app.add_option("--correction-delay", raw.correction_delay_us,
                 "Phased: corrections begin this long after the value has come (default: at once)")
      ->type_name("US");
  app.add_option("--memory", raw.memory, "plain, or ucft: buffers from ucft_alloc")
      ->type_name("plain|ucft")
      ->capture_default_str();
  app.add_option("--kill", raw.kills, "That rank kills itself (SIGKILL) right before that iteration; may be repeated")
      ->type_name("RANK@ITERATION")
      ->allow_extra_args(false);
  app.add_option("--respawn", raw.respawns,
                 "Of -t allreduce, with --kill, in a job of ucft_run --respawn: N times over the ranks of --kill die, "
                 "newcomers take their seats, and the other iterations follow. -n and ITERATION are of each time")
      ->type_name("N");
  app.add_option("--stop", raw.stops, "That rank stops itself (SIGSTOP) right before that iteration; may be repeated")
      ->type_name("RANK@ITERATION")
      ->allow_extra_args(false);
  app.add_option("--slow", raw.slow, "That rank's steps take FACTOR times as long: it sleeps in between; several: ','")
      ->type_name("RANK@FACTOR")
      ->delimiter(',');
  app.add_option("--step", raw.step_us,
                 "No barrier before an operation: a rank sleeps so long, a slow one FACTOR times as long")
      ->type_name("US");
  app.add_option("--noise", raw.noise,
                 "Each PERIOD (us) a rank sleeps for DURATION (us), wherever it is: of RANKS ranks that are drawn "
                 "(default: of all)")
      ->type_name("PERIOD:DURATION[@RANKS]");
  app.add_flag("--watch", raw.watches,
               "Of -t gossip: also when the ranks know the result: their own estimates are within E of the truth");
  app.footer(
      "ITERATION counts from 0 over all rows, without the warm-up: with -n 100, iteration 250 is in the third row.\n"
      "algbw, busbw: 10^9 bytes a second by the average, as nccl-tests have them.\n"
      "Every result is checked. Exit code: 0 if all were right and no status was unexpected, else 1; 2: wrong usage.\n"
      "bench/README.md tells how times are taken.");
}

// The library reads them again, from UCFT_GOSSIP_FAULTS. "": none.
std::string interpret_faults(const RawArguments& raw, std::uint64_t& seed) {
  GossipFaults faults;
  std::string text;
  const auto set = [&](const char* name, const std::string& value) {
    if (const std::string problem = set_fault(name, value, faults); !problem.empty())
      throw std::invalid_argument(fmt::format("--{} {}: {}", name, value, problem));
    text += fmt::format("{}={},", name, value);
  };
  if (!raw.loss.empty()) set("loss", raw.loss);
  if (!raw.flip_rate.empty()) set("flip-rate", raw.flip_rate);
  for (const std::string& each : raw.flips) set("flip", each);
  if (!raw.flip_target.empty()) set("flip-target", raw.flip_target);
  for (const std::string& each : raw.failing_links) set("fail-link", each);
  const bool any = !text.empty();
  set("seed", raw.seed);
  seed = faults.seed;
  return any ? text : "";
}

GossipArguments interpret_gossip(const RawArguments& raw) {
  GossipArguments gossip;
  gossip.algorithm = raw.algorithm == "auto" ? "pcf" : raw.algorithm;
  gossip.topology = raw.topology;
  gossip.stop = raw.stop;
  gossip.faults = interpret_faults(raw, gossip.options.seed);
  GossipAlgorithm algorithm{};
  GossipTopology topology{};
  if (!parse_gossip_algorithm(gossip.algorithm, algorithm) || algorithm == GossipAlgorithm::pcf_printed) {
    std::vector<std::string> names(gossip_algorithm_names().begin(), gossip_algorithm_names().end());
    std::erase(names, gossip_algorithm_name(GossipAlgorithm::pcf_printed));
    throw std::invalid_argument(
        fmt::format("-a: '{}' is no gossip algorithm: {}", raw.algorithm, fmt::join(names, ", ")));
  }
  if (!parse_gossip_topology(raw.topology, topology))
    throw std::invalid_argument(
        fmt::format("--topology: '{}' is none of {}", raw.topology, fmt::join(gossip_topology_names(), ", ")));
  const int number = static_cast<int>(algorithm);  // the library leaves pcf_printed out
  gossip.options.algorithm =
      static_cast<ucft_gossip_algorithm_t>(algorithm > GossipAlgorithm::pcf_printed ? number - 1 : number);
  gossip.options.topology = static_cast<ucft_gossip_topology_t>(topology);
  char* end = nullptr;
  gossip.options.eps = std::strtod(raw.eps.c_str(), &end);
  if (*end != 0 || !(gossip.options.eps > 0 && gossip.options.eps < 1))
    throw std::invalid_argument(fmt::format("--eps: '{}' is not a number between 0 and 1", raw.eps));
  gossip.options.stop = value_in(gossip_stops, "--until", raw.stop);
  gossip.options.path = value_in(gossip_paths, "--data-path", raw.data_path);
  gossip.data = value_in(gossip_data, "--data", raw.data);
  gossip.options.cycles = static_cast<std::int32_t>(parse_number("--cycles", raw.cycles, {-1, most_cycles}));
  gossip.options.repair_initial = value_in(gossip_repairs, "--repair-initial", raw.repair_initial);
  return gossip;
}

void interpret_reproducible(const RawArguments& raw, Arguments& arguments) {
  if (raw.bins.empty() && raw.sweeps.empty()) return;
  if (!is_binned(static_cast<Operator>(arguments.op)) || raw.test == "gossip" || !combines(arguments.test))
    throw std::invalid_argument("--bins, --sweeps: of -o sum_reproducible and avg_reproducible");
  const auto type = static_cast<DataType>(arguments.dtype);
  const auto number = [](const char* option, const std::string& word, auto range) {
    return word.empty() ? 0 : static_cast<std::int32_t>(parse_number(option, word, range));
  };
  arguments.options.reproducible_bins = number("--bins", raw.bins, Range{usual_bins_of(type), most_bins});
  arguments.options.reproducible_sweeps = number("--sweeps", raw.sweeps, Range{1, 2});
}

void interpret_respawns(const RawArguments& raw, Arguments& arguments) {
  if (raw.respawns.empty()) return;
  arguments.respawns = parse_number("--respawn", raw.respawns, {1, most_respawns});
  if (raw.test != "allreduce") throw std::invalid_argument("--respawn: of -t allreduce");
  if (raw.kills.empty()) throw std::invalid_argument("--respawn: with --kill, which says who dies and when");
  for (const auto& [option, is_given] :
       {std::pair("--stop", !raw.stops.empty()), std::pair("--quorum", !raw.quorum.empty()),
        std::pair("--step", !raw.step_us.empty()), std::pair("--memory ucft", arguments.shared_memory),
        std::pair("--slow", !raw.slow.empty()), std::pair("--noise", !raw.noise.empty()),
        std::pair("-o user", arguments.op == UCFT_USER), std::pair("--calibrate", !arguments.calibrate.empty()),
        std::pair("--tune", !arguments.tune.empty()), std::pair("several payloads", arguments.sizes_bytes.size() > 1)})
    if (is_given) throw std::invalid_argument(fmt::format("--respawn: not with {}", option));
  for (const PlannedDeath& death : arguments.deaths)
    if (death.iteration != arguments.deaths.front().iteration)
      throw std::invalid_argument("--respawn: all ranks of --kill die in the same iteration");
}

// Of UCFT_ALGORITHM.
bool is_setting(const std::string& algorithm) { return algorithm == "corrected"; }

void interpret_ucft(const RawArguments& raw, Arguments& arguments) {
  arguments.algorithm = raw.algorithm;
  if (raw.test == "gossip")
    arguments.gossip = interpret_gossip(raw);
  else if (std::uint64_t seed = 1; !interpret_faults(raw, seed).empty() || seed != 1)
    throw std::invalid_argument("--loss, --flip-rate, --flip, --flip-target, --fail-link, --seed: of -t gossip");
  else
    arguments.options = parse_algorithm(is_setting(raw.algorithm) ? "auto" : raw.algorithm);
  if (!arguments.calibrate.empty() || (raw.test != "gossip" && raw.algorithm != "auto"))
    arguments.setting = is_setting(raw.algorithm) ? raw.algorithm : "corrected";
  interpret_reproducible(raw, arguments);
  arguments.options.uniform = raw.uniform;
  if (!raw.quorum.empty()) {
    if (raw.test != "allreduce") throw std::invalid_argument("--quorum: of -t allreduce");
    arguments.options.quorum = static_cast<std::int32_t>(parse_number("--quorum", raw.quorum, {1, 1'000'000}));
  }
  if (!raw.deadline_us.empty()) {
    if (raw.quorum.empty()) throw std::invalid_argument("--deadline: with --quorum");
    arguments.options.deadline_ns = 1000 * parse_number("--deadline", raw.deadline_us, {0, 3'600'000'000});
  }
  if (!raw.f.empty()) arguments.options.f = static_cast<std::int32_t>(parse_number("-f", raw.f, {0, 1'000'000}));
  if (!raw.correction_delay_us.empty())
    arguments.options.correction_delay_us =
        parse_number("--correction-delay", raw.correction_delay_us, {0, 3'600'000'000});
  if (raw.memory != "plain" && raw.memory != "ucft") {
    throw std::invalid_argument(fmt::format("--memory: '{}' is neither plain nor ucft", raw.memory));
  }
  arguments.shared_memory = raw.memory == "ucft";
  for (const auto& text : raw.kills) arguments.deaths.push_back(parse_death("--kill", text, SIGKILL));
  for (const auto& text : raw.stops) arguments.deaths.push_back(parse_death("--stop", text, SIGSTOP));
  if (arguments.back_to_back && !arguments.deaths.empty())
    throw std::invalid_argument("--back-to-back: not with --kill or --stop, which happen before an iteration");
  if (!raw.step_us.empty()) arguments.step_ns = 1000 * parse_number("--step", raw.step_us, {1, 60'000'000});
  if (arguments.step_ns > 0 && (!arguments.deaths.empty() || arguments.back_to_back || arguments.gossip))
    throw std::invalid_argument("--step: not with --kill, --stop, --back-to-back, and -t gossip");
  for (const std::string& text : raw.slow) arguments.disturbances.slow.push_back(parse_slow(text));
  if (!raw.noise.empty()) arguments.disturbances.noise = parse_noise(raw.noise);
  for (const auto& [option, is_given] :
       {std::pair("--slow", !raw.slow.empty()), std::pair("--noise", !raw.noise.empty())})
    if (is_given && (!arguments.calibrate.empty() || !arguments.tune.empty()))
      throw std::invalid_argument(fmt::format("{}: not with --calibrate and --tune", option));
  interpret_respawns(raw, arguments);
  if (raw.watches && !arguments.gossip) throw std::invalid_argument("--watch: of -t gossip");
  if (arguments.gossip) arguments.gossip->watches = raw.watches;
  const auto rows = static_cast<std::int64_t>(arguments.sizes_bytes.size());
  for (const PlannedDeath& death : arguments.deaths) {
    if (death.iteration >= rows * arguments.iterations) {
      throw std::invalid_argument(fmt::format("--kill, --stop: rank {} never reaches iteration {}: there are {}",
                                              death.rank, death.iteration, rows * arguments.iterations));
    }
  }
}

void interpret(const RawArguments& raw, Arguments& arguments, Library library) {
  const bool gossip = library == Library::ucft && raw.test == "gossip";
  if (!gossip) arguments.test = value_in(tests, "-t", raw.test);
  arguments.dtype = value_in(dtypes, "-d", raw.dtype.empty() ? gossip ? "double" : "uint64" : raw.dtype);
  if (gossip && arguments.dtype != UCFT_FLOAT && arguments.dtype != UCFT_DOUBLE)
    throw std::invalid_argument(fmt::format("-d {}: gossip needs float or double", raw.dtype));
  arguments.op = value_in(operators, "-o", raw.op);
  arguments.iterations = parse_number("-n", raw.iterations, {1, most_iterations});
  arguments.warmup = parse_number("-w", raw.warmup, {0, most_iterations});
  arguments.root = static_cast<int>(parse_number("--root", raw.root, {0, std::numeric_limits<int>::max()}));
  if (!gossip && combines(arguments.test)) check_operator(arguments.op, arguments.dtype);
  const std::size_t bytes = element_bytes(static_cast<DataType>(arguments.dtype));
  arguments.sizes_bytes =
      arguments.test == Test::barrier ? std::vector<std::size_t>{0} : sizes_of(raw, bytes, name_of(arguments.dtype));
  if (arguments.back_to_back && gossip) throw std::invalid_argument("--back-to-back: not with -t gossip");
}

}  // namespace

const char* name_of(Test test) { return name_in(tests, test); }
const char* name_of(ucft_dtype_t dtype) { return name_in(dtypes, dtype); }
const char* name_of(ucft_op_t op) { return name_in(operators, op); }

ParsedArguments parse_arguments(int argument_count, char** argument_values, Library library, bool speaks) {
  const std::string program = library == Library::ucft ? "ucft_perftest" : "mpi_perftest";
  CLI::App app("Measures collective operations, and checks every result.", program);
  app.set_version_flag("--version", fmt::format("{} {}", program, UCFT_VERSION_STRING));
  RawArguments raw;
  Arguments arguments;
  add_common_options(app, raw, arguments);
  if (library == Library::ucft) add_ucft_options(app, raw, arguments);
  try {
    app.parse(argument_count, argument_values);
    interpret(raw, arguments, library);
    if (library == Library::ucft) interpret_ucft(raw, arguments);
    arguments.options.first_root = arguments.root;  // interpret_ucft made new options
  } catch (const CLI::Success& success) {           // --help, --version
    return {std::nullopt, speaks ? app.exit(success) : 0};
  } catch (const CLI::ExtrasError&) {
    if (speaks)
      fmt::print(stderr, "{}: {} is not known\nRun with --help for more information.\n", program,
                 app.remaining().front());
    return {std::nullopt, exit_usage};
  } catch (const std::exception& problem) {
    if (speaks) fmt::print(stderr, "{}: {}\nRun with --help for more information.\n", program, problem.what());
    return {std::nullopt, exit_usage};
  }
  return {arguments, 0};
}

std::string problem_with(const Arguments& arguments, int rank_count) {
  if (arguments.root >= rank_count) {
    return fmt::format("--root {}: there are {} ranks", arguments.root, rank_count);
  }
  if (arguments.test == Test::sendrecv && rank_count % 2 == 1)
    return fmt::format("-t sendrecv: pairs of ranks, and there are {}", rank_count);
  if (arguments.options.f >= rank_count) {
    return fmt::format("-f {}: at most {} of {} ranks may fail (nccl-tests' -f, from row to row, is --stepfactor here)",
                       arguments.options.f, rank_count - 1, rank_count);
  }
  if (const std::string problem = problem_with(arguments.disturbances, rank_count); !problem.empty()) return problem;
  std::vector<bool> dies(static_cast<std::size_t>(rank_count));
  for (const PlannedDeath& death : arguments.deaths) {
    if (death.rank >= rank_count) return fmt::format("--kill, --stop: rank {} of {} ranks", death.rank, rank_count);
    if (dies[static_cast<std::size_t>(death.rank)]) return fmt::format("--kill, --stop: rank {} twice", death.rank);
    dies[static_cast<std::size_t>(death.rank)] = true;
  }
  if (arguments.deaths.size() == dies.size()) return "--kill, --stop: nobody is left";
  return "";
}

}  // namespace ucft::detail::bench

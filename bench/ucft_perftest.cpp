// ucft_perftest: latency of ucft's collectives, with and without ranks that die, every result checked.
//
//   ucft_run -n 4 ./ucft_perftest -t allreduce -s 8:64K --kill 2@500
//
// One iteration: [announce deaths] fill, barrier, [die], clock, operation, clock, check. Only the operation is timed.
// The other steps go over ucft, too, with default options and an f that covers all planned deaths.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/arguments.hpp"
#include "bench/aside.hpp"
#include "bench/calibrate.hpp"
#include "bench/checker.hpp"
#include "bench/gossip.hpp"
#include "bench/report.hpp"
#include "bench/respawn.hpp"
#include "bench/tally.hpp"
#include "bench/tune.hpp"

namespace ucft::detail::bench {
namespace {

constexpr std::size_t most_at_once_bytes = std::size_t{32} << 20;  // of a rank's alltoall on one host (ucft.h)
constexpr std::uint64_t most_complaints = 5;

void user_sum(const void* in, void* inout, std::uint64_t count, ucft_dtype_t dtype, void*) {
  with_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    add_elements(static_cast<const T*>(in), static_cast<T*>(inout), count);
  });
}

// The f that -1 stands for, as the library says: "UCFT_F=1 (default)".
int default_f(const Context& context, int rank_count) {
  std::string text(ucft_settings(context.get(), nullptr, 0), '\0');
  ucft_settings(context.get(), text.data(), text.size());
  const auto at = text.find("UCFT_F=");
  const int f = at == std::string::npos ? 1 : std::atoi(text.c_str() + at + 7);
  return std::min(f, rank_count - 1);
}

// ---- the measurement ---------------------------------------------------------------------------------------------

template <Element T>
class Perftest {
 public:
  // first_proof_ns: of a death, written by the failure callback if it is 0.
  Perftest(Context& context, Communicator& world, const Arguments& arguments, int f, std::int64_t& first_proof_ns)
      : first_proof_ns_(first_proof_ns),
        context_(context),
        world_(world),
        arguments_(arguments),
        f_(f),
        aside_(world, f, arguments.deaths.size()),
        checker_(arguments.op, {world.rank(), world.size()}),
        root_(arguments.root),
        counts_(arguments.disturbances.counts(world.rank(), world.size())) {
    if (has_quorum()) checker_.note_quorum();
  }

  // All rows. The number of wrong results over all ranks and rows; the same on all survivors.
  std::uint64_t run() {
    for (std::size_t row = 0; row < arguments_.sizes_bytes.size(); ++row) run_row(row);
    return wrong_;
  }

 private:
  void run_row(std::size_t row) {
    batch_ = arguments_.batch(arguments_.sizes_bytes[row]);
    tally_ = Tally(batch_);
    died_at_ns_ = 0;
    recovered_ = proof_noted_ = false;
    allocate(arguments_.sizes_bytes[row] / sizeof(T));
    const auto first_iteration = static_cast<std::int64_t>(row) * arguments_.iterations;
    for (std::int64_t i = 0; i < arguments_.warmup; i += batch_) iterate(false);
    aside_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (std::int64_t i = 0; i < arguments_.iterations; i += batch_) {
      announce_deaths(first_iteration + i);
      iterate(true);
    }
    tally_.add_loop(now_ns() - begin_ns);
    release();
    report(row);
  }

  void allocate(std::size_t count) {
    if (arguments_.test == Test::alltoallv)
      checker_.set_counts(own_counts_ = OwnCounts(world_.rank(), world_.size(), count));
    const std::size_t sent = count * given_by_rank(arguments_.test, world_.size()),
                      received = count * got_by_rank(arguments_.test, world_.size());
    checker_.set_rounds(arguments_.test == Test::alltoall && sent * sizeof(T) > most_at_once_bytes && shares_memory());
    if (arguments_.shared_memory && count > 0) {
      send_ = context_.allocate<T>(sent);
      recv_ = context_.allocate<T>(received);
      return;
    }
    own_send_ = std::make_unique<T[]>(sent);
    own_recv_ = std::make_unique<T[]>(received);
    send_ = {own_send_.get(), sent};
    recv_ = {own_recv_.get(), received};
  }

  // With all others, and reads it: -a may have set that variable.
  bool shares_memory() const {
    const char* const algorithm = std::getenv("UCFT_ALGORITHM");
    if (algorithm != nullptr && algorithm == std::string_view("corrected")) return false;
    ucft_context_paths_t paths = UCFT_CONTEXT_PATHS_INIT;
    const ucft_status_t status = ucft_context_paths(context_.get(), &paths);
    if (status != UCFT_OK) give_up(world_.rank(), "the paths", status);
    return paths.shared_memory == world_.size() - 1;
  }

  void release() {
    if (!arguments_.shared_memory || send_.empty()) return;
    context_.deallocate(send_);
    context_.deallocate(recv_);
  }

  // All learn when a rank will die. The barrier makes sure that the announcement has arrived before it does.
  void announce_deaths(std::int64_t iteration) {
    std::size_t due = 0;
    for (const PlannedDeath& death : arguments_.deaths) {
      if (death.iteration != iteration) continue;
      ++due;
      if (death.rank == world_.rank()) own_death_ = &death;
    }
    if (due == 0) return;
    deaths_ += due;
    std::vector<std::int64_t> moment_ns{own_death_ != nullptr ? now_ns() + notice_before_death_ns : 0};
    aside_.allreduce(moment_ns, UCFT_MAX);
    aside_.barrier();
    if (moment_ns[0] == 0) return;  // they had all died before
    died_at_ns_ = moment_ns[0];
    recovered_ = proof_noted_ = false;
    first_proof_ns_ = 0;
  }

  void die_if_due() {
    if (own_death_ == nullptr) return;
    sleep_until(died_at_ns_);
    tell_launcher(world_.rank());
    raise(std::exchange(own_death_, nullptr)->signal);
  }

  void iterate(bool counted) {
    const bool aligned = arguments_.test != Test::barrier && !arguments_.back_to_back && arguments_.step_ns == 0;
    std::int64_t latency_ns = 0;
    bool again = true;
    for (int attempt = 0; again; ++attempt) {  // again: of a root that had died; it goes on with the next one
      if (attempt > world_.size()) give_up(world_.rank(), "a root that lives", UCFT_ERR_ROOT_FAILED);
      ++operation_;
      prepare();
      if (aligned && attempt == 0) move_root(aside_.barrier());
      die_if_due();
      if (arguments_.step_ns > 0)
        sleep_until(now_ns() + static_cast<std::int64_t>(static_cast<double>(arguments_.step_ns) *
                                                         arguments_.disturbances.factor(world_.rank())));
      const ContextSwitches before = ContextSwitches::now();
      begin_ns_ = now_ns();
      for (std::int64_t i = 1; i < batch_; ++i)
        if (const Result each = operate(); !each.ok() && !is_late(each))
          give_up(world_.rank(), name_of(arguments_.test), each.status);
      const Result result = operate();
      end_ns_ = now_ns();
      if (counted) tally_.add_switches(before, ContextSwitches::now());
      latency_ns += end_ns_ - begin_ns_;
      again = settle(result);
    }
    if (counted && counts_) tally_.add_sample(latency_ns);
  }

  void prepare() {
    if (arguments_.test == Test::broadcast) {
      checker_.fill(recv_, world_.rank(), operation_);
    } else if (has_shares(arguments_.test)) {
      checker_.fill_shares(send_, operation_);
      checker_.clear(recv_);
    } else if (arguments_.test != Test::barrier) {
      checker_.fill(send_, world_.rank(), operation_);
      if (has_blocks(arguments_.test) || arguments_.test == Test::exscan) checker_.clear(recv_);
    }
  }

  // A reduce or gather does not tell for certain that its root has died. The barrier after it does. All survivors agree
  // on that, so they agree on the next root.
  void move_root(const Result& barrier) {
    if (!goes_to_root(arguments_.test)) return;
    const auto is_missing = [&](int rank) {
      return std::binary_search(barrier.missing.begin(), barrier.missing.end(), rank);
    };
    if (excused_root_failure_ && !is_missing(root_)) complain("UCFT_ERR_ROOT_FAILED, but the root is alive");
    excused_root_failure_ = false;
    for (int step = 0; step < world_.size() && is_missing(root_); ++step) root_ = (root_ + 1) % world_.size();
  }

  Result operate() {
    const Operator op = arguments_.op == UCFT_USER ? Operator(&user_sum) : Operator(arguments_.op);
    switch (arguments_.test) {
      case Test::allreduce: return world_.allreduce(send_, recv_, op, arguments_.options);
      case Test::reduce: return world_.reduce(send_, recv_, op, root_, arguments_.options);
      case Test::broadcast: return world_.broadcast(recv_, root_, arguments_.options);
      case Test::allgather: return world_.allgather(send_, recv_, arguments_.options);
      case Test::gather: return world_.gather(send_, recv_, root_, arguments_.options);
      case Test::scatter: return world_.scatter(send_, recv_, root_, arguments_.options);
      case Test::alltoall: return world_.alltoall(send_, recv_, arguments_.options);
      case Test::alltoallv:
        return world_.alltoallv(send_, own_counts_.given, recv_, own_counts_.wanted, arguments_.options);
      case Test::scan: return world_.scan(send_, recv_, op, arguments_.options);
      case Test::exscan: return world_.exscan(send_, recv_, op, arguments_.options);
      case Test::reduce_scatter: return world_.reduce_scatter(send_, recv_, op, arguments_.options);
      case Test::sendrecv: return exchange();
      case Test::barrier: break;
    }
    return world_.barrier(arguments_.options);
  }

  // -t sendrecv
  Result exchange() {
    const int partner = partner_of(world_.rank());
    const bool is_first = partner > world_.rank();
    Result result;
    result.status = is_first ? world_.send(send_, partner) : UCFT_OK;
    if (result.ok()) result.status = world_.recv(recv_, partner).status;
    if (result.ok() && !is_first) result.status = world_.send(send_, partner);
    result.contributors = static_cast<std::uint32_t>(world_.size());
    result.attempts = 1;
    return result;
  }

  bool has_quorum() const { return arguments_.options.quorum > 0; }
  bool is_late(const Result& result) const { return result.status == UCFT_ERR_LATE && has_quorum(); }

  bool is_to_die(int rank) const {
    return std::ranges::any_of(arguments_.deaths, [&](const PlannedDeath& death) { return death.rank == rank; });
  }

  // Judges one result. True: it is to be done again, from the next root.
  bool settle(const Result& result) {
    if (result.status == UCFT_ERR_ROOT_FAILED && comes_from_root(arguments_.test)) return settle_failed_root();
    if (result.status == UCFT_ERR_ROOT_FAILED && goes_to_root(arguments_.test)) {
      excused_root_failure_ = true;  // move_root() looks whether it was
      return false;
    }
    if (result.status == UCFT_ERR_PEER_FAILED && is_to_die(partner_of(world_.rank()))) {
      counts_ = false;
      tally_.add_digest(operation_, mix(operation_));
      return false;
    }
    if (result.status == UCFT_ERR_TOO_MANY_FAILURES && too_many_could_have_died()) {
      tally_.add_refused();
      if (!goes_to_root(arguments_.test)) tally_.add_digest(operation_, static_cast<std::uint64_t>(result.status));
      if (arguments_.test == Test::barrier) check_barrier(false);
      return false;
    }
    if (is_late(result)) return false;  // its result is not known here
    if (!result.ok()) {
      give_up(world_.rank(),
              fmt::format("{} of {} bytes, operation {}", name_of(arguments_.test), send_.size_bytes(), operation_),
              result.status);
    }
    settle_success(result);
    return false;
  }

  bool too_many_could_have_died() const {
    return std::max(deaths_, world_.failed().size()) > static_cast<std::size_t>(f_);
  }

  bool settle_failed_root() {
    if (root_ == world_.rank()) complain("UCFT_ERR_ROOT_FAILED at the root itself");
    // Must not have been touched.
    note(arguments_.test == Test::scatter ? checker_.check_untouched(recv_, operation_)
                                          : checker_.check_copy(recv_, operation_, world_.rank()).complaint);
    tally_.add_digest(operation_, mix(static_cast<std::uint64_t>(root_)));
    root_ = (root_ + 1) % world_.size();
    return true;
  }

  void settle_success(const Result& result) {
    const bool has_result = !goes_to_root(arguments_.test) || root_ == world_.rank();
    bool right = true;
    if (has_result) {
      tally_.add_contributors(result.contributors + ranks_left_out(arguments_.test, world_.rank(), world_.size()));
      const Verdict verdict = check(result);
      right = note(verdict.complaint);
      // With a quorum a rank may not know some results.
      if (!goes_to_root(arguments_.test) && !has_quorum()) tally_.add_digest(operation_, verdict.digest);
    }
    if (right && has_result && died_at_ns_ > 0 && !recovered_) {
      tally_.add_recovery(end_ns_ - died_at_ns_);
      recovered_ = true;
    }
    for (int turn = 0; recovered_ && first_proof_ns_ == 0 && turn < 64; ++turn) context_.progress();  // may report it
    if (recovered_ && !proof_noted_ && first_proof_ns_ >= died_at_ns_) {
      tally_.add_proof(first_proof_ns_ - died_at_ns_);
      proof_noted_ = true;
    }
  }

  Verdict check(const Result& result) {
    switch (arguments_.test) {
      case Test::scatter:
      case Test::broadcast: {
        Verdict verdict = arguments_.test == Test::scatter ? checker_.check_share_of(recv_, operation_, root_)
                                                           : checker_.check_copy(recv_, operation_, root_);
        if (result.contributors != 1) verdict.complaint = fmt::format("{} contributors", result.contributors);
        return verdict;
      }
      case Test::sendrecv: {
        Verdict verdict = checker_.check_copy(recv_, operation_, partner_of(world_.rank()));
        verdict.digest = mix(operation_);
        return verdict;
      }
      case Test::barrier: return {check_barrier(true), 0};
      case Test::allgather:
      case Test::gather: return checker_.check_blocks(recv_, operation_, result);
      case Test::reduce_scatter: return checker_.check_share(recv_, operation_, result);
      case Test::alltoallv:
      case Test::alltoall: return checker_.check_shares_of_all(recv_, operation_, result);
      case Test::scan: return checker_.check_prefix(recv_, operation_, result, true);
      case Test::exscan: return checker_.check_prefix(recv_, operation_, result, false);
      case Test::allreduce:
      case Test::reduce: break;
    }
    return checker_.check_combined(recv_, operation_, result);
  }

  // In every 16th operation, and the first ones: no rank has left before the last survivor had entered.
  std::string check_barrier(bool completed) {
    constexpr std::uint64_t sampled = 16;
    if (operation_ % sampled != 0 && operation_ > sampled) return "";
    std::vector<std::int64_t> last_enter_first_leave{begin_ns_, -end_ns_};
    aside_.allreduce(last_enter_first_leave, UCFT_MAX);
    const std::int64_t last_enter = last_enter_first_leave[0];
    const std::int64_t first_leave = -last_enter_first_leave[1];
    if (!completed || first_leave >= last_enter || last_enter != begin_ns_) return "";  // the last one to enter speaks
    return fmt::format("somebody left {} ns before this rank entered", last_enter - first_leave);
  }

  void complain(const std::string& complaint) { note(complaint); }

  // True if there is none.
  bool note(const std::string& complaint) {
    if (complaint.empty()) return true;
    tally_.add_wrong();
    if (++complaints_ <= most_complaints) {
      fmt::print(stderr, "ucft_perftest: rank {}: {} of {} bytes, operation {}, root {}: WRONG: {}\n", world_.rank(),
                 name_of(arguments_.test), send_.size_bytes(), operation_, root_, complaint);
    }
    return false;
  }

  // Merges the tallies and prints them.
  void report(std::size_t row) {
    tally_.close();
    aside_.allreduce(tally_.sums(), UCFT_SUM);
    const Result merged = aside_.allreduce(tally_.maxima(), UCFT_MAX);
    wrong_ += tally_.wrong();
    aside_.print_once(merged, [&](const Result& last) { print(row, last); });
  }

  void print(std::size_t number, const Result& merged) const {
    const Row row{"ucft", world_.size(), f_, arguments_.sizes_bytes[number], merged.missing};
    const std::string text = (number == 0 ? header_of(arguments_, row) : "") + line_of(arguments_, row, tally_);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  std::int64_t& first_proof_ns_;
  Context& context_;
  Communicator& world_;
  const Arguments& arguments_;
  const int f_;
  Aside aside_;
  Checker<T> checker_;
  OwnCounts own_counts_;    // -t alltoallv
  std::int64_t batch_ = 1;  // operations between two clocks
  Tally tally_;
  int root_;
  bool counts_;  // its samples
  std::unique_ptr<T[]> own_send_, own_recv_;
  std::span<T> send_, recv_;
  std::uint64_t operation_ = 0;  // the same on all ranks, warm-up and repetitions included
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  std::size_t deaths_ = 0;  // planned ones whose iteration has come
  const PlannedDeath* own_death_ = nullptr;
  std::int64_t died_at_ns_ = 0;  // the last announced death of this row
  bool recovered_ = false;       // this rank has had a right result since
  bool proof_noted_ = false;     // and has been told when it had the proof
  bool excused_root_failure_ = false;
  std::uint64_t complaints_ = 0;
  std::uint64_t wrong_ = 0;
};

bool is_first_process() {
  const char* rank = std::getenv("UCFT_RANK");
  return rank == nullptr || std::string(rank) == "0";
}

int calibrate_and_print(Communicator& world, const Arguments& arguments) {
  if (world.size() < 2) {
    fmt::print(stderr, "ucft_perftest: --calibrate: one rank has nobody to measure with\n");
    return exit_usage;
  }
  const Calibration found = calibrate(world);
  std::string error;
  if (world.rank() != 0) return 0;
  if (!write_model(arguments.calibrate, found, world.size(), error)) {
    fmt::print(stderr, "ucft_perftest: --calibrate: {}\n", error);
    return 1;
  }
  fmt::print(fmt::runtime(arguments.json
                              ? "{{\"library\":\"ucft\",\"test\":\"calibrate\",\"ranks\":{},\"L\":{:.4g},\"o_send\":{:."
                                "4g},\"o_receive\":{:.4g},\"g\":{:.4g},\"G\":{:.4g},\"disturbance\":{:.2g}}}\n"
                              : "{} ranks: L {:.4g} us, o_send {:.4g} us, o_receive {:.4g} us, g {:.4g} us, G {:.4g} "
                                "us/byte; disturbance {:.2g}\n"),
             world.size(), found.latency, found.send_overhead, found.receive_overhead, found.gap, found.gap_per_byte,
             found.disturbance);
  if (found.disturbance > disturbed)
    fmt::print(stderr,
               "ucft_perftest: --calibrate: something else was running here: in the middle of the times an allreduce "
               "took {:.0f} % longer than in the quiet ones. Repeat it on idle machines\n",
               100 * found.disturbance);
  return 0;
}

int tune_and_write(const Arguments& arguments) {
  HostTuning there;
  std::string error;
  if (!read_table(arguments.tune, there, error)) {
    if (is_first_process()) fmt::print(stderr, "ucft_perftest: --tune: {}\n", error);
    return exit_usage;
  }
  try {
    const Tuned found = tune(arguments.json);
    if (found.rank != 0 || write_row(arguments.tune, found.table, error)) return 0;
    fmt::print(stderr, "ucft_perftest: --tune: {}\n", error);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& problem) {
    fmt::print(stderr, "ucft_perftest: --tune: {}\n", problem.what());
  }
  return 1;
}

void note_proof(const ucft_failure_t* failure, void* arg) {
  auto& first_proof_ns = *static_cast<std::int64_t*>(arg);
  if (first_proof_ns == 0 && failure->kind == UCFT_FAILURE_PROVED) first_proof_ns = failure->known_at_ns;
}

int run(const Arguments& arguments) {
  if (!arguments.tune.empty()) return tune_and_write(arguments);
  if (arguments.gossip && !arguments.gossip->faults.empty())
    setenv("UCFT_GOSSIP_FAULTS", arguments.gossip->faults.c_str(), 1);
  ContextOptions options;
  std::int64_t first_proof_ns = 0;
  options.failure_callback = note_proof;
  options.failure_callback_arg = &first_proof_ns;
  Context context(options);
  Communicator world = arguments.respawns > 0 ? Communicator::join(context) : Communicator(context);
  if (arguments.respawns > 0 && !takes_newcomers(context)) {
    if (world.rank() == 0)
      fmt::print(stderr, "ucft_perftest: --respawn: this job takes no newcomers: start it by ucft_run --respawn {}\n",
                 arguments.respawns * static_cast<std::int64_t>(arguments.deaths.size()));
    return exit_usage;
  }
  if (!arguments.calibrate.empty()) return calibrate_and_print(world, arguments);
  if (const std::string problem = problem_with(arguments, world.size()); !problem.empty()) {
    if (world.rank() == 0) fmt::print(stderr, "ucft_perftest: {}\n", problem);
    return exit_usage;
  }
  const Disturbed disturbed(arguments.disturbances, world.rank(), world.size());
  if (arguments.gossip) return run_gossip(world, arguments);
  const int f = arguments.options.f >= 0 ? arguments.options.f : default_f(context, world.size());
  if (arguments.respawns > 0) return run_respawns(world, arguments, f);
  return with_element_type(arguments.dtype, [&](auto element) {
    return Perftest<decltype(element)>(context, world, arguments, f, first_proof_ns).run() == 0 ? 0 : 1;
  });
}

}  // namespace
}  // namespace ucft::detail::bench

int main(int argument_count, char** argument_values) {
  using namespace ucft::detail::bench;
  const ParsedArguments parsed = parse_arguments(argument_count, argument_values, Library::ucft, is_first_process());
  if (!parsed.arguments) return parsed.exit_code;
  if (const std::string& setting = parsed.arguments->setting; !setting.empty())
    setenv("UCFT_ALGORITHM", setting.c_str(), 1);
  try {
    return run(*parsed.arguments);
  } catch (const ucft::Error& error) {
    fmt::print(stderr, "ucft_perftest: {}\n", error.what());
    return error.status() == UCFT_ERR_INVALID_PARAM ? exit_usage : 1;
  }
}

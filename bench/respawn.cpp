#include "bench/respawn.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/aside.hpp"
#include "bench/checker.hpp"
#include "bench/gossip.hpp"
#include "bench/tally.hpp"

namespace ucft::detail::bench {

namespace {

// Until all seats are taken again. Then something is wrong, such as that ucft_run starts no more newcomers.
constexpr std::int64_t longest_cycle_ns = 120'000'000'000;
constexpr std::uint64_t most_complaints_shown = 5;

enum Phase : std::size_t { before, during, after, phase_count };
constexpr std::array phase_names{"before", "during", "after"};

// The same on all ranks; newcomers get it.
struct State {
  std::int64_t cycle = 0;
  std::int64_t iteration = 0;  // of the cycle; it stands still while a seat is empty
  std::uint64_t operation = 0;
  std::int64_t killed_at_ns = 0;  // in this cycle; 0: not yet
  bool is_full = true;            // the last result was of all ranks
};

double percentile(std::vector<std::uint64_t> values, double fraction) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return static_cast<double>(values[std::max<std::size_t>(at, 1) - 1]);
}

template <Element T>
class Respawns {
 public:
  Respawns(Communicator& world, const Arguments& arguments, int f)
      : world_(world),
        arguments_(arguments),
        f_(f),
        aside_(world, f, arguments.deaths.size()),
        checker_(arguments.op, {world.rank(), world.size()}),
        send_(std::make_unique<T[]>(count())),
        recv_(std::make_unique<T[]>(count())) {
    for (std::vector<std::uint64_t>* const each : {&stalls_ns_, &widths_ns_, &digests_, &inverse_digests_})
      each->resize(static_cast<std::size_t>(arguments.respawns));
    state_.iteration = -arguments.warmup;
  }

  int run() {
    if (!world_.newcomers().empty()) {
      share_state();
      state_.killed_at_ns = now_ns();  // by its own clock
      has_next_result_ = true;         // the pause is the survivors'
    }
    while (state_.cycle < arguments_.respawns) {
      const bool is_measured = state_.iteration >= 0;
      aside_.barrier();
      if (is_measured && state_.killed_at_ns == 0) announce_deaths();
      operate(is_measured);
      if (!state_.is_full) {
        renew();
      } else if (++state_.iteration == arguments_.iterations) {
        end_cycle();
      }
    }
    return report();
  }

 private:
  std::size_t count() const { return arguments_.sizes_bytes[0] / sizeof(T); }
  std::size_t cycle() const { return static_cast<std::size_t>(state_.cycle); }

  void share_state() {
    std::vector<std::byte> bytes(sizeof state_);
    std::memcpy(bytes.data(), &state_, sizeof state_);
    world_.share_state(bytes);
    std::memcpy(&state_, bytes.data(), sizeof state_);
    checker_ = Checker<T>(arguments_.op, {world_.rank(), world_.size()});  // it remembers who was missing
  }

  // Those that die do so right before the operation, soon after all have come here. Each rank takes that moment by its
  // own clock.
  void announce_deaths() {
    const auto is_due = [&](const PlannedDeath& death) { return death.iteration == state_.iteration; };
    if (std::ranges::none_of(arguments_.deaths, is_due)) return;
    const bool is_mine = std::ranges::any_of(
        arguments_.deaths, [&](const PlannedDeath& death) { return is_due(death) && death.rank == world_.rank(); });
    aside_.barrier();
    state_.killed_at_ns = now_ns() + notice_before_death_ns;
    has_next_result_ = false;
    if (!is_mine) return;
    sleep_until(state_.killed_at_ns);
    tell_launcher(world_.rank());
    raise(SIGKILL);
  }

  void operate(bool is_measured) {
    const std::uint64_t operation = ++state_.operation;
    const std::span send(send_.get(), count()), recv(recv_.get(), count());
    checker_.fill(send, world_.rank(), operation);
    const std::int64_t begin_ns = now_ns();
    const Result result = world_.allreduce(send, recv, arguments_.op, arguments_.options);
    const std::int64_t end_ns = now_ns();
    if (!result.ok()) give_up(world_.rank(), fmt::format("the allreduce, operation {}", operation), result.status);
    state_.is_full = result.contributors == static_cast<std::uint32_t>(world_.size());
    const Verdict verdict = checker_.check_combined(recv, operation, result);
    note(verdict, operation);
    if (!is_measured) return;
    const std::int64_t killed_at_ns = state_.killed_at_ns;
    const Phase phase = killed_at_ns == 0 ? before : state_.is_full ? after : during;
    ++checked_[phase];
    operations_[phase].add_sample(end_ns - begin_ns);
    if (killed_at_ns == 0) return;
    if (!std::exchange(has_next_result_, true)) stalls_ns_[cycle()] = since(killed_at_ns, end_ns);
    if (state_.is_full && widths_ns_[cycle()] == 0) widths_ns_[cycle()] = since(killed_at_ns, end_ns);
    if (!state_.is_full && end_ns - killed_at_ns > longest_cycle_ns) {
      fmt::print(stderr, "ucft_perftest: rank {}: {} s after the death there is no newcomer (ucft_run --respawn {}?)\n",
                 world_.rank(), longest_cycle_ns / 1'000'000'000,
                 arguments_.respawns * static_cast<std::int64_t>(arguments_.deaths.size()));
      std::fflush(nullptr);
      std::_Exit(1);
    }
  }

  static std::uint64_t since(std::int64_t moment_ns, std::int64_t now) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(now - moment_ns, 1));
  }

  // A newcomer has seen a part of the cycle in which it comes, so it has no digest of that.
  void note(const Verdict& verdict, std::uint64_t operation) {
    digest_ = mix(digest_ ^ verdict.digest);
    if (verdict.complaint.empty()) return;
    ++wrong_;
    if (wrong_ <= most_complaints_shown)
      fmt::print(stderr, "ucft_perftest: rank {}: allreduce of {} bytes, operation {}: WRONG: {}\n", world_.rank(),
                 arguments_.sizes_bytes[0], operation, verdict.complaint);
  }

  void renew() {
    const std::int64_t begin_ns = now_ns();
    world_ = world_.renew();
    renewals_.add_sample(now_ns() - begin_ns);
    ++renewal_count_;
    if (!world_.newcomers().empty()) share_state();
  }

  void end_cycle() {
    if (const bool has_seen_all = was_here_ == state_.cycle; has_seen_all) {
      digests_[cycle()] = digest_;
      inverse_digests_[cycle()] = ~digest_;
    }
    ++state_.cycle;
    was_here_ = state_.cycle;
    digest_ = 0;
    state_.iteration = 0;
    state_.killed_at_ns = 0;
  }

  int report() {
    std::vector<std::uint64_t> sums{wrong_, renewal_count_, checked_[before], checked_[during], checked_[after]};
    aside_.allreduce(sums, UCFT_SUM);
    for (Tally* const each : {&operations_[before], &operations_[during], &operations_[after], &renewals_}) {
      aside_.allreduce(each->sums(), UCFT_SUM);
      aside_.allreduce(each->maxima(), UCFT_MAX);
    }
    for (std::vector<std::uint64_t>* const each : {&stalls_ns_, &widths_ns_, &digests_, &inverse_digests_})
      aside_.allreduce(*each, UCFT_MAX);
    wrong_ = sums[0];
    renewal_count_ = sums[1];
    std::copy_n(sums.begin() + 2, checked_.size(), checked_.begin());
    for (std::size_t i = 0; i < digests_.size(); ++i) wrong_ += digests_[i] != ~inverse_digests_[i];
    aside_.print_once(aside_.barrier(), [&](const Result&) {
      const std::string text = arguments_.json ? json() : table();
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    });
    return wrong_ == 0 ? 0 : 1;
  }

  std::string killed_text() const {
    std::vector<std::string> each;
    for (const PlannedDeath& death : arguments_.deaths)
      each.push_back(fmt::format("{}@{}", death.rank, death.iteration));
    return fmt::format("{}", fmt::join(each, ","));
  }

  std::string json() const {
    const auto us = [](double ns) { return std::round(ns) / 1000; };
    nlohmann::ordered_json line;
    line["library"] = "ucft";
    line["test"] = name_of(arguments_.test);
    line["algorithm"] = arguments_.algorithm;
    line["ranks"] = world_.size();
    line["f"] = f_;
    line["dtype"] = name_of(arguments_.dtype);
    line["op"] = name_of(arguments_.op);
    line["bytes"] = arguments_.sizes_bytes[0];
    line["iterations"] = arguments_.iterations;
    line["kill"] = killed_text();
    line["respawns"] = arguments_.respawns;
    for (std::size_t phase = 0; phase < phase_count; ++phase) {
      const Tally& tally = operations_[phase];
      line[phase_names[phase]] = {{"checked", checked_[phase]},
                                  {"p50_us", us(1000 * tally.percentile_us(0.5))},
                                  {"p99_us", us(1000 * tally.percentile_us(0.99))},
                                  {"max_us", us(1000 * tally.max_us())}};
    }
    line["wrong"] = wrong_;
    line["stall_p50_us"] = us(percentile(stalls_ns_, 0.5));
    line["stall_max_us"] = us(percentile(stalls_ns_, 1));
    line["full_width_p50_us"] = us(percentile(widths_ns_, 0.5));
    line["full_width_max_us"] = us(percentile(widths_ns_, 1));
    line["renewals"] = renewal_count_;
    line["renew_p50_us"] = us(1000 * renewals_.percentile_us(0.5));
    line["renew_p99_us"] = us(1000 * renewals_.percentile_us(0.99));
    line["renew_max_us"] = us(1000 * renewals_.max_us());
    return line.dump() + "\n";
  }

  std::string table() const {
    std::string text = fmt::format(
        "# ucft_perftest {}: {}, {}, {} ranks, f={}, {} {}, {} bytes, --kill {}, {} times, with a newcomer each\n"
        "#{:>9} {:>9} {:>9} {:>9} {:>9}\n",
        UCFT_VERSION_STRING, name_of(arguments_.test), arguments_.algorithm, world_.size(), f_,
        name_of(arguments_.dtype), name_of(arguments_.op), arguments_.sizes_bytes[0], killed_text(),
        arguments_.respawns, "", "results", "p50 us", "p99 us", "max us");
    for (std::size_t phase = 0; phase < phase_count; ++phase) {
      const Tally& tally = operations_[phase];
      text += fmt::format("{:>10} {:>9} {:>9.2f} {:>9.2f} {:>9.2f}\n", phase_names[phase], checked_[phase],
                          tally.percentile_us(0.5), tally.percentile_us(0.99), tally.max_us());
    }
    text += fmt::format("from a kill to the last survivor's next result: p50 {:.1f} us, max {:.1f} us\n",
                        percentile(stalls_ns_, 0.5) / 1e3, percentile(stalls_ns_, 1) / 1e3);
    text += fmt::format("from a kill to a result of all ranks: p50 {:.1f} ms, max {:.1f} ms\n",
                        percentile(widths_ns_, 0.5) / 1e6, percentile(widths_ns_, 1) / 1e6);
    text += fmt::format("{} renewals: p50 {:.1f} us, p99 {:.1f} us, max {:.1f} us\n", renewal_count_,
                        renewals_.percentile_us(0.5), renewals_.percentile_us(0.99), renewals_.max_us());
    return text + fmt::format("wrong results: {}\n", wrong_);
  }

  Communicator& world_;
  const Arguments& arguments_;
  const int f_;
  Aside aside_;
  Checker<T> checker_;
  std::unique_ptr<T[]> send_, recv_;
  State state_;
  bool has_next_result_ = false;                        // since the death
  std::int64_t was_here_ = takes_part_late() ? -1 : 0;  // the cycle whose beginning this rank has seen
  std::uint64_t digest_ = 0, wrong_ = 0, renewal_count_ = 0;
  std::array<std::uint64_t, phase_count> checked_{};
  std::array<Tally, phase_count> operations_;
  Tally renewals_;
  std::vector<std::uint64_t> stalls_ns_, widths_ns_;      // by cycle; 0: this rank was not there
  std::vector<std::uint64_t> digests_, inverse_digests_;  // the same; their maxima tell whether all are equal

  bool takes_part_late() const { return !world_.newcomers().empty(); }
};

}  // namespace

bool takes_newcomers(const Context& context) {
  char address[64];
  return ucft_context_address(context.get(), address, sizeof address) == UCFT_OK;
}

int run_respawns(Communicator& world, const Arguments& arguments, int f) {
  return with_element_type(arguments.dtype,
                           [&](auto element) { return Respawns<decltype(element)>(world, arguments, f).run(); });
}

}  // namespace ucft::detail::bench

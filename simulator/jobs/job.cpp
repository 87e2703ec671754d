#include "simulator/jobs/job.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <set>

#include "simulator/jobs/files.hpp"
#include "simulator/jobs/gathering.hpp"
#include "simulator/jobs/launcher.hpp"
#include "simulator/jobs/newcomers_job.hpp"
#include "simulator/jobs/situations.hpp"
#include "simulator/judge/fates.hpp"
#include "simulator/judge/random_calls.hpp"
#include "simulator/judge/recorder.hpp"
#include "ucft/ucft.h"

namespace ucft::jobs {

namespace {

// After a freeze the last rank of the host goes on so much later than the first, at most.
constexpr Time thaw = 200 * millisecond;
// From the start of the last rank until all have their contexts. Where lifelines can't be made they are tried for 10 s.
constexpr Time longest_start = 4 * second, longest_start_without_lines = 12 * second;
constexpr Time longest_job = 150 * second;

class RunningJob {
 public:
  explicit RunningJob(const JobPlan& plan)
      : plan_(plan), kernel_(plan.seed), gathering_(plan.ranks()), launcher_(plan.ranks(), plan.seed) {
    kernel_.temper = plan.temper;
    kernel_.processors_of_a_host = plan.processors;
    kernel_.clocks = plan.clocks;
    members_.resize(plan.hosts.size());
    result_.histories.resize(plan.hosts.size());
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  JobResult run() {
    const Time begin = kernel_.now();
    if (plan_.by_launcher) {
      kernel_.start_process(0, [this] { launch(); });
    } else {
      for (int rank = 0; rank < plan_.ranks(); ++rank) start(rank, {});
      expect_faults(After::the_begin);
    }
    watch_situations([this](std::size_t situation, std::uint64_t times) { on_situation(situation, times); });
    const bool has_ended = kernel_.run(begin + longest_job);
    watch_situations({});
    result_.lasted = kernel_.now() - begin;
    for (int rank = 0; rank < plan_.ranks(); ++rank)  // of two that don't reach each other either may be given up
      for (const auto& [other, since] : process(rank).unreached) {
        fall_silent(rank, since);
        fall_silent(rank_of(*other), since);
      }
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      if (may_be_minority(rank)) may_be_dead_.insert(rank);
    for (const auto& [rank, since] : silent_) {  // the others may go on without it, and it may not know yet
      std::int64_t& last = result_.histories[static_cast<std::size_t>(rank)].last_at;
      last = std::min(last, since);
    }
    for (int rank = 0; rank < plan_.ranks(); ++rank) {  // the others may have to go on without one that ran short
      lacks_memory_ |= process(rank).has_lacked_memory;
      if (process(rank).has_lacked_memory || process(rank).has_lacked_descriptors) may_be_dead_.insert(rank);
    }
    const std::vector<std::int32_t> may_be_dead(may_be_dead_.begin(), may_be_dead_.end());
    for (const judge::RankHistory& each : result_.histories) {
      result_.calls += each.calls.size();
      result_.hash = result_.hash * 0x9e3779b97f4a7c15ull + std::hash<std::string>()(judge::text_of(each));
    }
    if (!has_ended) add("ends", hanging());
    if (result_.violations.empty()) {
      const auto found = judge::judge(result_.histories, may_be_dead, lacks_memory_, &disturbed_);
      result_.violations.insert(result_.violations.end(), found.begin(), found.end());
    }
    return std::move(result_);
  }

 private:
  void launch() {
    try {
      launcher_.run([this](int rank, const Launcher::Variables& variables) {
        Process* const started = start(rank, variables);
        if (rank + 1 == plan_.ranks()) {
          expect_faults(After::the_begin);
          for (const JobPlan::Stranger& each : plan_.strangers) start_stranger(each);
        }
        return started;
      });
    } catch (const std::exception& error) {
      add("start-up", error.what());
    }
  }

  // With the secret it may come before the rank itself, which is refused then. So anything may fail.
  void start_stranger(const JobPlan::Stranger& stranger) {
    start_up_is_hit_ |= stranger.knows_secret;
    // First: the library's code may let others run.
    Launcher::Variables variables = launcher_.variables_of(stranger.rank, stranger.knows_secret);
    Process& process = kernel_.start_process(
        0, [this, &stranger] { stranger.knows_secret ? be(stranger.rank) : be_refused(); }, stranger.after);
    process.environment = plan_.environment;
    process.environment.merge(variables);
  }

  void be_refused() {
    ucft_context_h context = UCFT_CONTEXT_NULL;
    const ucft_status_t status = ucft_context_create(nullptr, &context);
    if (status != UCFT_ERR_STARTUP)
      add("start-up", fmt::format("a process with a wrong secret got {}", ucft_status_name(status)));
  }

  Process* start(int rank, const Launcher::Variables& variables) {
    const auto place = static_cast<std::size_t>(rank);
    judge::RankHistory& history = result_.histories[place];
    history.rank = rank;
    history.ranks = plan_.ranks();
    history.host = plan_.hosts[place];
    const auto f = plan_.environment.find("UCFT_F");
    history.f = f == plan_.environment.end() ? 1 : std::stoi(f->second);
    history.reads_memory = true;
    members_[place] = {&gathering_, rank};
    Process& process = kernel_.start_process(
        plan_.hosts[place], [this, rank] { be(rank); }, rank == plan_.late ? plan_.late_by : 0);
    process.environment = plan_.environment;
    process.environment.insert(variables.begin(), variables.end());
    process.at_end.push_back([this, rank] { gathering_.note_death(rank); });
    processes_.push_back(&process);
    return &process;
  }

  // The program of a rank.
  void be(int rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (rank == plan_.missing) return miss(rank);
    try {
      ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
      if (!plan_.by_launcher) params.oob = gathering_.of(members_[place]);
      ucft_context_h context = UCFT_CONTEXT_NULL;
      last_start_ = kernel_.now();
      if (const ucft_status_t status = ucft_context_create(&params, &context); status != UCFT_OK)
        return note_failed_start(rank, status);
      const bool has_all_lines =
          !plan_.temper.refuses_some && std::ranges::none_of(processes_, &Process::has_lacked_descriptors);
      const Time longest = has_all_lines ? longest_start : longest_start_without_lines;
      if (const std::string late = judge::how_late(last_start_, kernel_.now(), &disturbed_, longest); !late.empty())
        add("time", fmt::format("rank {} starts: {}", rank, late));
      if (plan_.missing >= 0)
        add("start-up", fmt::format("rank {} has a context, without rank {}", rank, plan_.missing));
      if (!started_.insert(rank).second) add("start-up", fmt::format("two processes are rank {}", rank));
      ucft_comm_h all = UCFT_COMM_NULL;
      if (const ucft_status_t status = ucft_comm_create(context, &all); status != UCFT_OK)
        return add("start-up", fmt::format("rank {}: {}", rank, ucft_last_error()));
      judge::MemoryRecorder recorder(result_.histories[place], [this] {
        kernel_.pass();
        return kernel_.now();
      });
      const judge::RandomCalls::Around around{[this] { has_begun(); },
                                              [this](std::chrono::milliseconds time) { stop_self(time); }};
      judge::RandomCalls(plan_.seed, context, all, recorder, around).run(plan_.steps);
    } catch (const std::exception& error) {
      add("program", fmt::format("rank {}: {}", rank, error.what()));
    }
  }

  // Its program computes, and ends without having called ucft.
  void miss(int rank) {
    start_up_is_hit_ = true;
    may_be_dead_.insert(rank);
    kernel_.wait(kernel_.now() + 80 * second);
  }

  void stop_self(std::chrono::milliseconds time) {
    Process& process = Kernel::process();
    kernel_.stop(process, kernel_.now() + time.count() * millisecond);
    kernel_.yield(0);
  }

  void has_begun() {
    if (++begun_ == plan_.ranks()) expect_faults(After::all_have_begun);
  }

  void expect_faults(After what) {
    for (const PlannedFault& fault : plan_.faults)
      if (fault.what == what) kernel_.at(kernel_.now() + fault.after, [this, &fault] { befall(fault); });
  }

  // In a thread of the rank to which it happens. It goes no further if the fault befalls it at once. While it holds a
  // lock it goes on: ranks share them.
  void on_situation(std::size_t situation, std::uint64_t times) {
    if (Kernel::running() == nullptr) return;
    const int here = rank_of(Kernel::process());
    if (here == plan_.ranks()) return;  // of another process
    bool has_stopped = false;
    for (const PlannedFault& planned : plan_.faults) {
      if (planned.what != After::a_situation || planned.situation != situation || planned.times != times) continue;
      const PlannedFault& fault = found_.emplace_back(placed(planned, here));
      if (fault.after > 0 || Kernel::current()->uncut > 0) {
        kernel_.at(kernel_.now() + fault.after, [this, &fault] { befall(fault); });
        continue;
      }
      befall(fault);
      has_stopped |= fault.kind == Fault::stop || fault.kind == Fault::starve || fault.kind == Fault::freeze;
    }
    if (has_stopped) kernel_.yield(0);
  }

  int rank_of(const Process& process) const {
    return static_cast<int>(std::ranges::find(processes_, &process) - processes_.begin());
  }

  PlannedFault placed(PlannedFault fault, int here) const {
    const auto host_of = [this](int rank) { return plan_.hosts[static_cast<std::size_t>(rank)]; };
    if (fault.near == Near::any) return fault;
    int rank = here;
    if (fault.near == Near::the_next_on_its_host) {
      do {
        rank = (rank + 1) % plan_.ranks();
      } while (host_of(rank) != host_of(here));
    }
    fault.who = fault.is_of_host() ? host_of(here) : rank;
    if (fault.kind == Fault::cut && fault.other == fault.who)
      fault.other = host_of(0) == fault.who ? plan_.hosts.back() : 0;
    return fault;
  }

  // One that befalls a rank or host that has ended is none.
  void befall(const PlannedFault& fault) {
    if (!fault.is_of_host() && process(fault.who).life != Life::lives) return;
    ++result_.faults;
    disturbed_.push_back({kernel_.now(), kernel_.now() + length_of(fault)});
    const bool does_harm = may_harm(fault);
    if (does_harm) start_up_is_hit_ = start_up_is_hit_ || begun_ < plan_.ranks();
    switch (fault.kind) {
      case Fault::kill:
        note_end(fault.who);
        may_be_dead_.insert(fault.who);
        if (plan_.temper.refuses_some || process(fault.who).has_lacked_descriptors)
          fall_silent(fault.who);  // to those without a lifeline
        else
          killed_.try_emplace(fault.who, kernel_.now());
        return kernel_.kill(process(fault.who));
      case Fault::stop:
        if (does_harm) fall_silent(fault.who);
        return kernel_.stop(process(fault.who), kernel_.now() + fault.lasts);
      case Fault::starve:
        if (does_harm) fall_silent(fault.who);
        return kernel_.starve(process(fault.who), kernel_.now() + fault.lasts);
      case Fault::freeze:
        if (does_harm) host_falls_silent(fault.who);
        for (int rank = 0; rank < plan_.ranks(); ++rank)
          if (plan_.hosts[static_cast<std::size_t>(rank)] == fault.who)
            kernel_.starve(process(rank), kernel_.now() + fault.lasts + kernel_.some(thaw));
        return;
      case Fault::power: host_falls_silent(fault.who); return kernel_.lose_power(fault.who);
      case Fault::cut:
        if (does_harm) {
          host_falls_silent(fault.who);
          host_falls_silent(fault.other);
        }
        kernel_.cut(fault.who, fault.other);
        return kernel_.at(kernel_.now() + fault.lasts, [this, &fault] { kernel_.mend(fault.who, fault.other); });
      case Fault::memory:
        process(fault.who).memory_left = static_cast<std::int64_t>(kernel_.below(1 << 20));
        return kernel_.at(kernel_.now() + fault.lasts, [this, &fault] { process(fault.who).memory_left = INT64_MAX; });
      case Fault::descriptors:
        process(fault.who).most_descriptors = process(fault.who).descriptors.size() + kernel_.below(4);
        return kernel_.at(kernel_.now() + fault.lasts,
                          [this, &fault] { process(fault.who).most_descriptors = SIZE_MAX; });
      case Fault::ucx: process(fault.who).ucx_fails_until = kernel_.now() + fault.lasts; return;
      case Fault::connection:
        if (!lose_connections(process(fault.who), process(fault.other))) return;
        if (kernel_.one_in(2)) lose_streams(process(fault.who), process(fault.other));
        fall_silent(fault.who);
        return fall_silent(fault.other);
    }
  }

  // Until nobody is in the middle of it any more.
  Time length_of(const PlannedFault& fault) const {
    switch (fault.kind) {
      case Fault::kill: return plan_.temper.dying;
      case Fault::power:
      case Fault::connection: return 0;
      case Fault::freeze: return fault.lasts + thaw;
      default: return fault.lasts;
    }
  }

  // Some rank may be given up for it. One that gets no processor is never given up by ranks of its own host, unless it
  // is stopped, too.
  bool may_harm(const PlannedFault& fault) {
    const bool is_silence = fault.kind == Fault::stop || fault.kind == Fault::cut;
    const bool starves = fault.kind == Fault::starve || fault.kind == Fault::freeze;
    if (!is_silence && !starves) return true;
    if (length_of(fault) > short_silence && (is_silence || plan_.hosts.back() > 0)) return true;
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      const int host = plan_.hosts[static_cast<std::size_t>(rank)];
      const Process& its = process(rank);
      if ((fault.is_of_host() ? host : rank) == fault.who &&
          std::max(its.stopped_until, its.starves_until) > kernel_.now())
        return true;
    }
    return false;
  }

  // It lived until now, if nothing has befallen it before: a result that lacks it must not have come earlier.
  void note_end(int rank) {
    if (!may_be_dead_.contains(rank)) result_.histories[static_cast<std::size_t>(rank)].last_at = kernel_.now();
  }

  Process& process(int rank) { return *processes_.at(static_cast<std::size_t>(rank)); }
  void fall_silent(int rank) { fall_silent(rank, kernel_.now()); }
  void fall_silent(int rank, Time since) {
    may_be_dead_.insert(rank);
    Time& first = silent_.try_emplace(rank, since).first->second;
    first = std::min(first, since);
    // It may have been all that a host could hear.
    if (!plan_.temper.refuses_some || plan_.hosts.back() == 0) return;
    for (int other = 0; other < plan_.ranks(); ++other) may_be_dead_.insert(other);
  }
  void host_falls_silent(int host) {
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      if (plan_.hosts[static_cast<std::size_t>(rank)] == host) {
        fall_silent(rank);
        if (process(rank).life != Life::has_ended) killed_.erase(rank);  // its kernel has told nobody yet
      }
  }

  // Silent ranks may as well be alive behind a broken link, and may not know who has left. The others go on if they are
  // more than half of those that are not proved dead, or half with the lowest (docs/failure_model.md, Partitions). A
  // death just before may have been proved, or not.
  bool may_be_minority(int rank) const {
    const auto& calls = result_.histories[static_cast<std::size_t>(rank)].calls;
    const auto found = std::ranges::find(calls, UCFT_ERR_PARTITION, &judge::Call::status);
    if (found == calls.end() || silent_.empty()) return false;
    const Time until_proved = plan_.temper.dying + plan_.temper.latency + second;
    return is_minority_at(found->ended_at, 0) || is_minority_at(found->ended_at, until_proved);
  }
  bool is_minority_at(Time when, Time until_proved) const {
    const auto leaves = [&](int other) {
      const auto& theirs = result_.histories[static_cast<std::size_t>(other)].calls;
      return !theirs.empty() && theirs.back().kind == judge::Kind::destroy && theirs.back().began_at <= when;
    };
    int ours = 0, lost = 0;
    bool lowest_is_lost = false;
    for (int other = 0; other < plan_.ranks(); ++other) {
      if (const auto at = killed_.find(other); at != killed_.end() && at->second + until_proved <= when) continue;
      const bool is_lost = silent_.contains(other) || leaves(other);
      if (ours + lost == 0) lowest_is_lost = is_lost;
      (is_lost ? lost : ours) += 1;
    }
    return lost > ours || (lost == ours && lowest_is_lost);
  }

  // Where something has befallen start-up it may fail, for some ranks or for all.
  void note_failed_start(int rank, ucft_status_t status) {
    may_be_dead_.insert(rank);
    if (!start_up_is_hit_ || status != UCFT_ERR_STARTUP)
      add("start-up", fmt::format("rank {}: {}: {}", rank, ucft_status_name(status), ucft_last_error()));
  }

  void add(std::string rule, std::string text) { result_.violations.push_back({std::move(rule), std::move(text)}); }

  std::string hanging() const {
    std::string text;
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      const Process& process = *processes_[static_cast<std::size_t>(rank)];
      if (process.life != Life::lives) continue;
      const auto& calls = result_.histories[static_cast<std::size_t>(rank)].calls;
      text += fmt::format(" rank {} in call {} {};", rank, calls.size(),
                          calls.empty() ? "start-up" : judge::name_of(calls.back().kind));
    }
    return "still there after " + std::to_string(longest_job / second) + " s:" + text;
  }

  const JobPlan& plan_;
  Kernel kernel_;
  Gathering gathering_;
  Launcher launcher_;
  std::vector<Gathering::Member> members_;
  std::vector<Process*> processes_;
  std::deque<PlannedFault> found_;  // those that wait for a situation, with the rank that they befall
  std::set<int> may_be_dead_;
  std::map<int, Time> silent_, killed_;  // since when. killed_: it can be proved
  std::vector<judge::Disturbed> disturbed_;
  std::set<int> started_;
  int begun_ = 0;
  Time last_start_ = 0;  // of a rank
  bool start_up_is_hit_ = false, lacks_memory_ = false;
  JobResult result_;
};

}  // namespace

JobResult run(const JobPlan& plan) { return plan.has_newcomers ? run_with_newcomers(plan) : RunningJob(plan).run(); }

}  // namespace ucft::jobs

// A job with newcomers while it runs: its processes and communicators, their faults, and the checks of both.
//
// Of each renewal there is a Record: the survivors that make it agree on it, and newcomers find it by a broadcast.
#pragma once

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "simulator/jobs/files.hpp"
#include "simulator/jobs/gathering.hpp"
#include "simulator/jobs/job.hpp"
#include "simulator/jobs/situations.hpp"
#include "simulator/judge/fates.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::jobs {

constexpr Time thaw = 200 * millisecond, longest_job = 150 * second;
constexpr Time longest_wait = judge::longest_wait_ns;
// After the last step ranks wait for newcomers, in rounds.
constexpr int last_rounds = 60;
constexpr Time last_round = 200 * millisecond;
// Within it a newcomer that nothing disturbs has joined, if survivors renew all the time.
constexpr Time longest_join = 9 * second;

using Ranks = std::vector<std::int32_t>;
inline bool contains(const Ranks& ranks, std::int32_t rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

struct Member;

// A communicator of the whole job.
struct Record {
  int number = 0;
  Ranks newcomers;
  std::vector<Member*> replaced;  // that were killed
  std::vector<Member*> members;   // by rank; nullptr: a newcomer that has not told its name yet, or none has ever come
};

// A process of the job.
struct Member {
  int number = 0;
  Process* process = nullptr;
  int wanted = -1;  // the seat; -1: any
  bool is_newcomer = false;
  std::string address;  // empty: not known yet
  Time began_at = 0, joined_at = -1, killed_at = -1;
  bool may_be_out = false;  // something befell it
  bool was_killed = false, leaves = false, is_over = false, survives = true;
  std::string doing = "start-up";
  bool has_state = false;
  int extra = 0;  // 1: it has ended without having come to its end: somebody may take its seat
};

struct State {
  std::int64_t step = 0, record = 0;
  std::uint64_t hash = 1;
};

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
}

class NewcomersJob {
 public:
  explicit NewcomersJob(const JobPlan& plan) : plan_(plan), kernel_(plan.seed), gathering_(plan.ranks()) {
    kernel_.temper = plan.temper;
    kernel_.processors_of_a_host = plan.processors;
    kernel_.clocks = plan.clocks;
    seats_.resize(plan.hosts.size());
    oob_.resize(plan.hosts.size());
  }
  NewcomersJob(const NewcomersJob&) = delete;
  NewcomersJob& operator=(const NewcomersJob&) = delete;

  JobResult run() {
    const Time begin = kernel_.now();
    records_.push_back({0, {}, {}, {}});
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      records_[0].members.push_back(start(rank, plan_.hosts[at(rank)], false, rank == plan_.late ? plan_.late_by : 0));
    }
    expect_faults(After::the_begin);
    watch_situations([this](std::size_t situation, std::uint64_t times) { on_situation(situation, times); });
    const bool has_ended = kernel_.run(begin + longest_job);
    watch_situations({});
    result_.lasted = kernel_.now() - begin;
    if (!has_ended) add("ends", hanging());
    judge_calls();
    result_.hash = std::hash<std::string>()(result_.log);
    return std::move(result_);
  }

 private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }

  // ---- processes ----------------------------------------------------------------------------------------------------

  Member* start(int seat, int host, bool is_newcomer, Time delay) {
    Member& made = members_.emplace_back();
    made.number = static_cast<int>(members_.size());
    made.wanted = seat;
    made.is_newcomer = is_newcomer;
    made.began_at = kernel_.now() + delay;
    made.may_be_out = has_silence_ && plan_.hosts.back() > 0;
    bootstrap_secret();
    made.process = &kernel_.start_process(
        host, [this, &made] { be(made); }, delay);
    auto& environment = made.process->environment;
    environment = plan_.environment;
    environment["UCFT_JOINABLE"] = "y";
    environment["UCFT_JOB_SECRET"] = secret_;
    if (is_newcomer) {
      environment["UCFT_JOIN"] = addresses();
      if (plan_.seed % 5 != 0 && seat >= 0) environment["UCFT_RANK"] = std::to_string(seat);
    } else {
      oob_[at(seat)] = {&gathering_, seat};
    }
    if (seat >= 0) seats_[at(seat)] = &made;
    made.process->at_end.push_back([this, &made] { on_end(made); });
    return &made;
  }

  void bootstrap_secret() {
    if (!secret_.empty()) return;
    detail::bootstrap::Secret secret{};
    std::memcpy(secret.data(), &plan_.seed, sizeof plan_.seed);
    secret_ = detail::bootstrap::secret_to_hex(secret);
  }

  // Of all that have joined, and live.
  std::string addresses() const {
    std::string text;
    int count = 0;
    for (const Member& each : members_)
      if (each.joined_at >= 0 && each.process->life == Life::lives && !each.leaves && count++ < 8)
        text += (text.empty() ? "" : ",") + each.address;
    return text;
  }

  void on_end(Member& member) {
    note("{} has ended{}", member.number, member.was_killed ? ", killed" : "");
    if (!member.is_newcomer) gathering_.note_death(member.wanted);
    member.survives = member.survives && member.is_over;
    const bool is_lost = !member.was_killed && !member.is_over;
    if (is_lost && !member.may_be_out)
      add("killed", fmt::format("process {}, which nothing befell, was killed, in {}", member.number, member.doing));
    if (member.is_over && member.extra == 0) return;
    if (next_respawn_ == plan_.respawns.size()) return;
    const JobPlan::Respawn& next = plan_.respawns[next_respawn_++];
    ++pending_;
    const int seat = member.wanted, host = member.process->host;
    kernel_.at(kernel_.now() + next.after, [this, &next, seat, host] { respawn(next, seat, host); });
  }

  void respawn(const JobPlan::Respawn& how, int seat, int host) {
    --pending_;
    for (int tries = 0; (!kernel_.has_power(host) || how.elsewhere) && tries < 8; ++tries) {
      host = static_cast<int>(kernel_.below(at(plan_.hosts.back()) + 1));
      if (kernel_.has_power(host)) break;
    }
    come(seat, host, how.killed_after);
  }

  void come(int seat, int host, Time killed_after) {
    if (addresses().empty() || !kernel_.has_power(host)) return;
    Member* const made = start(seat, host, true, 0);
    note("{} starts, for the seat {}, on host {}", made->number, seat, host);
    disturbed_.push_back({kernel_.now(), kernel_.now()});
    if (killed_after >= 0)
      kernel_.at(kernel_.now() + killed_after, [this, made] {
        if (made->process->life == Life::lives) kill(*made);
      });
  }

  // ---- the program --------------------------------------------------------------------------------------------------

  struct Out {};  // it can't go on, which is no fault of the library

  void be(Member& self);
  class Rank;

  bool somebody_comes() const {
    return pending_ > 0 || std::ranges::any_of(members_, [](const Member& each) {
             return each.is_newcomer && each.joined_at < 0 && each.process->life == Life::lives;
           });
  }
  bool is_calm_since(Time when) const {
    return std::ranges::none_of(disturbed_, [&](const judge::Disturbed& each) { return each.until > when; });
  }
  // Newcomers alone may be left.
  void check_nobody_donates(const Member& self) {
    for (const Member& each : members_)
      if (each.has_state && each.process->life == Life::lives && !each.may_be_out && !each.leaves && !each.is_over &&
          !has_silence_)
        add("donor", fmt::format("process {} finds no donor, and {} lives", self.number, each.number));
  }
  // A newcomer that has joined, and not said so yet, or ended before that.
  void note_unknown(const Record&, std::int32_t) {}

  // ---- the judge ----------------------------------------------------------------------------------------------------

  struct CallEnd {
    const Member* member;
    std::string what, result;
    Time began_at, ended_at, waits;
  };

  void judge_calls() {
    for (const auto& [key, ends] : calls_) {
      const CallEnd* first = nullptr;
      Time last_begin = 0;
      for (const CallEnd& each : ends) {
        last_begin = std::max(last_begin, each.began_at);
        if (!each.member->survives) continue;
        if (first == nullptr) first = &each;
        if (each.result != first->result || each.what != first->what)
          add("agreement",
              fmt::format("{}: process {} got {}; {}: process {} got {}", first->what, first->member->number,
                          first->result, each.what, each.member->number, each.result));
      }
      for (const CallEnd& each : ends)
        if (const std::string late = judge::how_late(last_begin + each.waits, each.ended_at, &disturbed_, longest_wait);
            !late.empty())
          add("time", fmt::format("process {}: {}: {}", each.member->number, each.what, late));
    }
  }

  // ---- faults -------------------------------------------------------------------------------------------------------

  void has_begun() {
    if (++begun_ != plan_.ranks()) return;
    expect_faults(After::all_have_begun);
    for (const JobPlan::Join& each : plan_.joins) {
      ++pending_;
      kernel_.at(kernel_.now() + each.after, [this, &each] {
        --pending_;
        come(-1, each.host, each.killed_after);
      });
    }
  }
  void expect_faults(After what) {
    for (const PlannedFault& fault : plan_.faults)
      if (fault.what == what) kernel_.at(kernel_.now() + fault.after, [this, &fault] { befall(fault); });
  }

  Member* member_of(const Process& process) {
    const auto found = std::ranges::find(members_, &process, &Member::process);
    return found == members_.end() ? nullptr : &*found;
  }

  void on_situation(std::size_t situation, std::uint64_t times) {
    if (Kernel::running() == nullptr) return;
    Member* const here = member_of(Kernel::process());
    if (here == nullptr) return;
    bool has_stopped = false;
    for (const PlannedFault& planned : plan_.faults) {
      if (planned.what != After::a_situation || planned.situation != situation || planned.times != times) continue;
      PlannedFault& fault = found_.emplace_back(planned);
      Member* const whom = fault.near == Near::the_rank ? here : nullptr;
      if (fault.near == Near::the_next_on_its_host) fault.who = (here->wanted + 1) % plan_.ranks();
      if (fault.near == Near::the_rank && fault.is_of_host()) fault.who = here->process->host;
      if (fault.kind == Fault::cut && fault.other == fault.who) fault.other = fault.who == 0 ? plan_.hosts.back() : 0;
      if (fault.near == Near::the_next_on_its_host && fault.is_of_host()) fault.who %= plan_.hosts.back() + 1;
      if (fault.kind == Fault::cut && fault.other == fault.who) continue;
      if (fault.after > 0 || Kernel::current()->uncut > 0) {
        kernel_.at(kernel_.now() + fault.after, [this, &fault, whom] { befall(fault, whom); });
        continue;
      }
      has_stopped |= fault.kind != Fault::kill;
      befall(fault, whom);
    }
    if (has_stopped) kernel_.yield(0);
  }

  void kill(Member& whom) {
    note("{} is killed", whom.number);
    ++result_.faults;
    disturbed_.push_back({kernel_.now(), kernel_.now() + plan_.temper.dying});
    whom.may_be_out = whom.was_killed = true;
    whom.killed_at = kernel_.now();
    whom.survives = false;
    if (begun_ < plan_.ranks()) start_is_hit_ = true;
    kernel_.kill(*whom.process);
  }

  void fall_silent(bool is_long) {
    if (!is_long) return;
    if (begun_ < plan_.ranks()) start_is_hit_ = true;
    has_silence_ = true;
    // Of two that don't hear each other either may be given up, and either may be in the minority.
    for (Member& each : members_)
      if (plan_.hosts.back() > 0) each.may_be_out = true;
  }

  void befall(const PlannedFault& fault, Member* whom = nullptr) {
    Member& victim = whom != nullptr ? *whom : *seats_[at(fault.is_of_host() ? 0 : fault.who)];
    if (!fault.is_of_host() && victim.process->life != Life::lives) return;
    if (fault.kind == Fault::kill) return kill(victim);
    ++result_.faults;
    const bool is_long = fault.lasts + (fault.kind == Fault::freeze ? thaw : 0) > short_silence ||
                         fault.kind == Fault::power || fault.kind == Fault::connection || silences_++ > 0;
    note("{} of {}", described_kind(fault), fault.is_of_host() ? fault.who : victim.number);
    disturbed_.push_back({kernel_.now(), kernel_.now() + fault.lasts + thaw});
    switch (fault.kind) {
      case Fault::stop:
        if (is_long) victim.may_be_out = true;
        fall_silent(is_long);
        return kernel_.stop(*victim.process, kernel_.now() + fault.lasts);
      case Fault::starve:
        fall_silent(is_long && plan_.hosts.back() > 0);
        return kernel_.starve(*victim.process, kernel_.now() + fault.lasts);
      case Fault::freeze:
        fall_silent(is_long && plan_.hosts.back() > 0);
        for (Member& each : members_)
          if (each.process->host == fault.who)
            kernel_.starve(*each.process, kernel_.now() + fault.lasts + kernel_.some(thaw));
        return;
      case Fault::power:
        fall_silent(true);
        for (Member& each : members_)
          if (each.process->host == fault.who) each.survives = false;
        return kernel_.lose_power(fault.who);
      case Fault::cut:
        fall_silent(is_long);
        kernel_.cut(fault.who, fault.other);
        return kernel_.at(kernel_.now() + fault.lasts, [this, &fault] { kernel_.mend(fault.who, fault.other); });
      case Fault::connection:
        fall_silent(true);
        lose_connections(*victim.process, *seats_[at(fault.other)]->process);
        return lose_streams(*victim.process, *seats_[at(fault.other)]->process);
      default: return;
    }
  }

  static const char* described_kind(const PlannedFault& fault) {
    constexpr const char* names[] = {"kill", "stop",   "starve",      "freeze",     "power",
                                     "cut",  "memory", "descriptors", "connection", "ucx"};
    return names[static_cast<std::size_t>(fault.kind)];
  }

  // ---- words --------------------------------------------------------------------------------------------------------

  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    result_.log += fmt::format("{:12.6f} ", static_cast<double>(kernel_.now() - 1000 * second) / 1e6);
    result_.log += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  void add(std::string rule, std::string text) {
    note("VIOLATION {}: {}", rule, text);
    if (result_.violations.size() < 8) result_.violations.push_back({std::move(rule), std::move(text)});
  }
  std::string hanging() const {
    std::string text = "still there after " + std::to_string(longest_job / second) + " s:";
    for (const Member& each : members_)
      if (each.process->life == Life::lives) text += fmt::format(" process {} in {};", each.number, each.doing);
    return text;
  }

  const JobPlan& plan_;
  Kernel kernel_;
  Gathering gathering_;
  std::string secret_;
  std::deque<Member> members_;
  std::deque<Record> records_;
  std::map<std::pair<int, std::uint64_t>, Record*> renewed_;
  std::map<std::tuple<int, std::uint64_t, int>, std::vector<CallEnd>> calls_;
  std::vector<Member*> seats_;  // the last process that wants it
  std::vector<Gathering::Member> oob_;
  std::deque<PlannedFault> found_;
  std::vector<judge::Disturbed> disturbed_;
  std::size_t next_respawn_ = 0;
  int pending_ = 0, begun_ = 0, silences_ = 0;
  bool start_is_hit_ = false, has_silence_ = false;
  JobResult result_;
};

}  // namespace ucft::jobs

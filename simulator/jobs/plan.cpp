#include "simulator/jobs/plan.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "simulator/jobs/situations.hpp"

namespace ucft::jobs {

namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed ^ 0x7563667477ull) {}
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t many) { return below(many) == 0; }
  // Each magnitude as often as any other.
  Time magnitude(Time least, Time most) {
    std::uint64_t steps = 1;
    for (Time each = least; each < most; each *= 4) ++steps;
    return std::min(least << 2 * below(steps), most);
  }
  Time within(Time most) { return static_cast<Time>(below(static_cast<std::uint64_t>(most) + 1)); }

 private:
  std::mt19937_64 random_;
};

// Until the detector has noticed.
constexpr Time long_silence = 4 * second;

// In half of all cases where something happens that is worth it, at once or some time later.
void draw_when(Draw& draw, PlannedFault& fault) {
  fault.what = draw.one_in(8) ? After::the_begin : After::all_have_begun;
  fault.after = draw.within(draw.magnitude(10 * microsecond, 100 * millisecond));
  if (draw.one_in(2)) return;
  fault.what = After::a_situation;
  fault.situation = draw.below(situation_count());
  fault.times = draw.one_in(2) ? 1 : 1 + draw.below(20);
  fault.near = static_cast<Near>(draw.below(3));
  fault.after = draw.one_in(2) ? 0 : draw.within(draw.magnitude(1, 10 * millisecond));
}

PlannedFault drawn_fault(Draw& draw, const JobPlan& plan) {
  constexpr Fault kinds[] = {Fault::kill,        Fault::kill,       Fault::kill,  Fault::kill, Fault::stop,
                             Fault::starve,      Fault::freeze,     Fault::power, Fault::cut,  Fault::memory,
                             Fault::descriptors, Fault::connection, Fault::ucx};
  PlannedFault fault;
  fault.kind = kinds[draw.below(std::size(kinds))];
  const auto hosts = static_cast<std::uint64_t>(plan.hosts.back() + 1);
  const bool is_of_hosts = fault.kind == Fault::power || fault.kind == Fault::cut || fault.kind == Fault::connection ||
                           fault.kind == Fault::ucx;
  if (hosts == 1 && is_of_hosts) fault.kind = Fault::kill;
  // Without lifelines UCX alone could tell of a silent host.
  if (plan.temper.refuses_some && fault.kind != Fault::stop) fault.kind = Fault::kill;
  draw_when(draw, fault);
  const std::uint64_t there = fault.is_of_host() ? hosts : plan.hosts.size(), of = std::max<std::uint64_t>(there, 2);
  fault.who = static_cast<int>(draw.below(of) % there);
  fault.other = static_cast<int>((static_cast<std::uint64_t>(fault.who) + 1 + draw.below(of - 1)) % of % there);
  fault.lasts = draw.one_in(2) ? draw.within(short_silence) : draw.within(long_silence);
  return fault;
}

// Of those in which newcomers come.
std::size_t drawn_situation_of_newcomers(Draw& draw) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < situation_count(); ++i) {
    const std::string_view name = name_of_situation(i);
    if (name.find("newcomer") != name.npos || name.find("epoch") != name.npos) found.push_back(i);
  }
  return found[draw.below(found.size())];
}

// How fast things go.
void draw_pace(Draw& draw, Temper& temper) {
  temper.call = draw.magnitude(1, 100);
  temper.yield = draw.magnitude(100, 20 * microsecond);
  temper.wake = draw.magnitude(100, 200 * microsecond);
  temper.latency = draw.magnitude(500, 2 * millisecond);
  temper.dying = draw.magnitude(1000, 50 * millisecond);
  temper.blocks_between_cuts = static_cast<std::uint64_t>(draw.magnitude(30, 100000));
}

JobPlan plan_with_newcomers(std::uint64_t seed) {
  Draw draw(seed ^ 0x6e6577636f6d6572ull);
  JobPlan plan;
  plan.seed = seed;
  plan.has_newcomers = true;
  const int hosts = draw.one_in(2) ? 1 : 2 + static_cast<int>(draw.below(2));
  for (int host = 0; host < hosts; ++host)
    for (std::uint64_t ranks = 1 + draw.below(hosts == 1 ? 6 : 3); ranks > 0; --ranks) plan.hosts.push_back(host);
  if (plan.ranks() == 1) plan.hosts.push_back(0);
  plan.steps = 20 + static_cast<int>(draw.below(60));
  plan.processors = 1 + static_cast<int>(draw.below(8));
  plan.temper.has_remote_access = draw.one_in(3);
  plan.temper.has_long_way = draw.one_in(2);
  draw_pace(draw, plan.temper);
  if (draw.one_in(2)) plan.temper.longest_cut = draw.magnitude(50 * microsecond, 10 * millisecond);
  if (draw.one_in(3)) plan.environment["UCFT_WINDOW"] = std::to_string(2 + draw.below(4));
  if (draw.one_in(3)) plan.environment["UCFT_CONNECT_ALL"] = "0";
  if (draw.one_in(3)) plan.environment["UCFT_SPIN"] = std::to_string(draw.below(20));
  plan.environment["UCFT_LOG"] = "off";
  for (int host = 0, uneven = draw.one_in(4) ? hosts : 0; host < uneven; ++host)
    plan.clocks.push_back({draw.within(1'000'000 * second), draw.within(100'000) - 50'000});
  plan.renews_each = 1 + draw.below(5);
  plan.some_leave = draw.one_in(3);
  for (std::uint64_t faults = 2 + draw.below(8); faults > 0; --faults) {
    plan.faults.push_back(drawn_fault(draw, plan));
    PlannedFault& last = plan.faults.back();
    if (draw.one_in(2) || last.kind > Fault::cut) last.kind = Fault::kill;
    if (last.kind == Fault::kill) last.who %= plan.ranks();
    if (last.what == After::a_situation && !draw.one_in(4)) last.situation = drawn_situation_of_newcomers(draw);
    if (last.what == After::a_situation) last.times = draw.one_in(2) ? 1 : 1 + draw.below(4);
    if (last.what == After::the_begin) last.what = After::all_have_begun;
    if (last.what == After::all_have_begun)
      last.after = draw.within(draw.magnitude(10 * microsecond, 300 * millisecond));
  }
  for (std::uint64_t respawns = 1 + draw.below(10); respawns > 0; --respawns)
    plan.respawns.push_back({draw.one_in(2) ? 0 : draw.within(draw.magnitude(10 * microsecond, 200 * millisecond)),
                             draw.one_in(3) ? draw.within(draw.magnitude(10 * microsecond, 300 * millisecond)) : -1,
                             draw.one_in(4)});
  if (!draw.one_in(3)) return plan;
  plan.grow_to = plan.ranks() + 1 + static_cast<int>(draw.below(3));
  for (std::uint64_t joins = 1 + draw.below(4); joins > 0; --joins)
    plan.joins.push_back({draw.within(draw.magnitude(10 * microsecond, 300 * millisecond)),
                          draw.one_in(4) ? draw.within(draw.magnitude(10 * microsecond, 300 * millisecond)) : -1,
                          static_cast<int>(draw.below(static_cast<std::uint64_t>(hosts)))});
  return plan;
}

}  // namespace

JobPlan plan_of(std::uint64_t seed, bool with_newcomers) {
  if (with_newcomers || Draw(seed ^ 0x6a6f696eull).one_in(6)) return plan_with_newcomers(seed);
  Draw draw(seed);
  JobPlan plan;
  plan.seed = seed;
  const int hosts = draw.one_in(2) ? 1 : 2 + static_cast<int>(draw.below(3));
  const std::uint64_t most_here = hosts == 1 ? 7 : draw.one_in(3) ? 1 : 3;
  for (int host = 0; host < hosts; ++host)
    for (std::uint64_t ranks = 1 + draw.below(most_here); ranks > 0; --ranks) plan.hosts.push_back(host);
  plan.steps = 10 + static_cast<int>(draw.below(50));
  plan.processors = 1 + static_cast<int>(draw.below(8));
  plan.temper.has_remote_access = draw.one_in(3);
  plan.temper.has_long_way = draw.one_in(2);
  plan.temper.refuses_some = draw.one_in(16);
  draw_pace(draw, plan.temper);
  if (draw.one_in(3)) plan.environment["UCFT_WINDOW"] = std::to_string(2 + draw.below(4));
  if (draw.one_in(3)) plan.environment["UCFT_F"] = std::to_string(draw.below(3));
  if (draw.one_in(3)) plan.environment["UCFT_CONNECT_ALL"] = "0";
  if (draw.one_in(3)) plan.environment["UCFT_SPIN"] = std::to_string(draw.below(20));
  plan.environment["UCFT_LOG"] = "off";
  for (int host = 0, uneven = draw.one_in(4) ? hosts : 0; host < uneven; ++host)
    plan.clocks.push_back({draw.within(1'000'000 * second), draw.within(100'000) - 50'000});
  if (draw.one_in(8)) {
    plan.late = static_cast<int>(draw.below(plan.hosts.size()));
    plan.late_by = draw.within(draw.magnitude(millisecond, 2 * second));
  }
  plan.by_launcher = hosts == 1 && plan.ranks() > 1 && !plan.temper.refuses_some && draw.one_in(2);
  if (plan.by_launcher && draw.one_in(16)) plan.missing = static_cast<int>(draw.below(plan.hosts.size()));
  if (plan.by_launcher && draw.one_in(4))
    plan.strangers.push_back({static_cast<int>(draw.below(plan.hosts.size())), draw.one_in(2),
                              draw.within(draw.magnitude(10 * microsecond, 10 * millisecond))});
  for (std::uint64_t faults = draw.below(5); faults > 0; --faults) plan.faults.push_back(drawn_fault(draw, plan));
  return plan;
}

namespace {

std::string when_of(const PlannedFault& fault) {
  const double us = static_cast<double>(fault.after) / static_cast<double>(microsecond);
  switch (fault.what) {
    case After::the_begin: return fmt::format("{} us after the begin", us);
    case After::all_have_begun: return fmt::format("{} us after all have begun", us);
    case After::a_situation: break;
  }
  return fmt::format("{} us after: {}{}", us, name_of_situation(fault.situation),
                     fault.times == 1 ? std::string() : fmt::format(" ({} times)", fault.times));
}

std::string words_of(const PlannedFault& fault) {
  const std::string when = when_of(fault), lasting = fmt::format(" for {} us", fault.lasts / microsecond);
  std::string rank = fmt::format("rank {}", fault.who), host = fmt::format("host {}", fault.who);
  if (fault.what == After::a_situation && fault.near != Near::any) {
    rank = fault.near == Near::the_rank ? "the rank there" : "the next rank on the host there";
    host = "the host there";
  }
  switch (fault.kind) {
    case Fault::kill: return fmt::format("kill {} {}", rank, when);
    case Fault::stop: return fmt::format("stop {} {}{}", rank, when, lasting);
    case Fault::starve: return fmt::format("{} gets no processor {}{}", rank, when, lasting);
    case Fault::freeze: return fmt::format("{} freezes {}{}", host, when, lasting);
    case Fault::power: return fmt::format("{} loses its power {}", host, when);
    case Fault::cut: return fmt::format("cut from {} to host {} {}{}", host, fault.other, when, lasting);
    case Fault::memory: return fmt::format("memory of {} ends {}{}", rank, when, lasting);
    case Fault::descriptors: return fmt::format("descriptors of {} end {}{}", rank, when, lasting);
    case Fault::ucx: return fmt::format("UCX's calls of {} fail now and then {}{}", rank, when, lasting);
    case Fault::connection: return fmt::format("{} and rank {} lose their connection {}", rank, fault.other, when);
  }
  return {};
}

}  // namespace

std::string described(const JobPlan& plan) {
  std::string text = fmt::format("seed {:016x}: {} ranks on hosts {}, {} steps, {} processors each{}\n", plan.seed,
                                 plan.ranks(), fmt::join(plan.hosts, " "), plan.steps, plan.processors,
                                 plan.temper.has_remote_access ? ", remote access" : "") +
                     (plan.temper.has_long_way ? "  long messages may be overtaken\n" : "") +
                     (plan.temper.refuses_some ? "  connections of TCP are refused now and then\n" : "");
  text += fmt::format("  call {} ns, yield {} ns, wake {} ns, latency {} ns, dying {} ns, a cut in {} blocks\n",
                      plan.temper.call, plan.temper.yield, plan.temper.wake, plan.temper.latency, plan.temper.dying,
                      plan.temper.blocks_between_cuts);
  for (int host = 0; const HostClock& each : plan.clocks)
    text += fmt::format("  the clock of host {} is {} s ahead, and {} millionths faster\n", host++, each.ahead / second,
                        each.faster);
  if (plan.temper.longest_cut > 0)
    text += fmt::format("  one cut of 50 lasts up to {} us\n", plan.temper.longest_cut / microsecond);
  if (plan.late >= 0) text += fmt::format("  rank {} starts {} us late\n", plan.late, plan.late_by / microsecond);
  if (plan.by_launcher) text += "  started by a launcher\n";
  if (plan.missing >= 0) text += fmt::format("  rank {} never comes\n", plan.missing);
  for (const JobPlan::Stranger& each : plan.strangers)
    text += fmt::format("  another process says that it is rank {}, with {} secret, {} us after the launcher\n",
                        each.rank, each.knows_secret ? "the" : "a wrong", each.after / microsecond);
  for (const auto& [name, value] : plan.environment) text += fmt::format("  {}={}\n", name, value);
  if (plan.has_newcomers)
    text += fmt::format("  with newcomers; communicators are renewed each {} steps{}\n", plan.renews_each,
                        plan.some_leave ? "; ranks leave early" : "");
  if (plan.grow_to > 0) text += fmt::format("  it may grow to {} ranks\n", plan.grow_to);
  for (const JobPlan::Respawn& each : plan.respawns)
    text += fmt::format(
        "  a newcomer starts {} us after an end{}{}\n", each.after / microsecond, each.elsewhere ? " on any host" : "",
        each.killed_after < 0 ? "" : fmt::format(", and is killed after {} us", each.killed_after / microsecond));
  for (const JobPlan::Join& each : plan.joins)
    text += fmt::format(
        "  a newcomer starts on host {} {} us after all have begun{}\n", each.host, each.after / microsecond,
        each.killed_after < 0 ? "" : fmt::format(", and is killed after {} us", each.killed_after / microsecond));
  for (const PlannedFault& each : plan.faults) text += "  " + words_of(each) + "\n";
  return text;
}

}  // namespace ucft::jobs

#include "simulator/judge/judge.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "simulator/judge/combine.hpp"
#include "simulator/judge/communicators.hpp"
#include "simulator/judge/fates.hpp"
#include "simulator/judge/gossips.hpp"
#include "simulator/judge/kinds.hpp"
#include "simulator/judge/messages.hpp"

namespace ucft::judge {
namespace {

using Ranks = std::vector<Rank>;

bool has(const Ranks& ranks, Rank rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

std::string list_of(const Ranks& ranks) {
  std::string text;
  for (const Rank each : ranks) text += (text.empty() ? "" : ",") + std::to_string(each);
  return text.empty() ? "none" : text;
}

// The block that a rank gives to rank `to`.
const Block* given_to(const Call& giver, Rank to) {
  const std::size_t which = gives_shares(giver.kind) ? at(to) : 0;
  return which < giver.given.size() ? &giver.given[which] : nullptr;
}

// ---- one collective -------------------------------------------------------------------------------------------------

class Collective {
 public:
  // lost_at: lost_with_its_host_at(), of each of its ranks.
  Collective(const Case& judged, const Communicator& on, const std::vector<std::int64_t>& lost_at,
             const Instance& instance, std::vector<Violation>& violations)
      : job_(judged.job),
        fates_(judged.fates),
        may_lack_memory_(judged.may_lack_memory),
        disturbed_(judged.disturbed),
        on_(on),
        lost_at_(lost_at),
        instance_(instance),
        first_(*instance.any()),
        violations_(violations) {
    for (Rank rank = 0; rank < on.size(); ++rank) {
      const Call* const call = call_of(rank);
      if (call != nullptr) (survives(rank) ? survivors_ : dead_).push_back(rank);
      if (call == nullptr && lives_on(rank)) absent_.push_back(rank);  // it has left
    }
  }

  void judge() {
    if (first_.differs) return judge_mistake();
    if (!is_one_program()) return;
    for (const Rank rank : absent_)
      if (!has_left_by(rank, INT64_MAX)) violate("program", rank, "did not post it, and has not left");
    for (const Rank rank : survivors_)
      if (!call_of(rank)->has_ended()) violate("ends", rank, "has not ended");
    std::erase_if(survivors_, [&](Rank rank) { return !call_of(rank)->has_ended(); });
    for (const Rank rank : survivors_) judge_one(rank);
    judge_own_part();
    judge_together();
    judge_the_dead();
    judge_order();
    judge_time();
  }

 private:
  const Call* call_of(Rank rank) const { return instance_.calls[at(rank)]; }
  bool is_known(Rank rank) const { return on_.members[at(rank)] >= 0; }
  const Fate& fate_of_member(Rank rank) const { return fates_[at(on_.members[at(rank)])]; }
  bool lacks_memory(Rank rank) const { return call_of(rank)->status == UCFT_ERR_NO_MEMORY; }
  bool survives(Rank rank) const { return lives_on(rank) && !has_left_unheard(rank); }
  bool is_on_one_host() const {
    return std::ranges::all_of(job_, [this](const RankHistory& each) { return each.host == job_.front().host; });
  }
  bool lives_on(Rank rank) const {
    return is_known(rank) && fate_of_member(rank).survives && !is_lost_with_its_host(rank);
  }
  // It may have been cut off, and left before another one ended, or soon after. Then it counts as silent, and its
  // result binds nobody.
  bool has_left_unheard(Rank rank) const {
    if (is_on_one_host()) return false;
    for (Rank other = 0; other < on_.size(); ++other) {
      const Call* const call = call_of(other);
      if (other != rank && call != nullptr && is_known(other) && fate_of_member(other).survives &&
          left_in_silence(rank, call->has_ended() ? call->ended_at + until_it_looks : INT64_MAX))
        return true;
    }
    return false;
  }
  // And another host may not have had all that it needs for this call. Of quorums a rank tells the others by itself.
  bool is_lost_with_its_host(Rank rank) const {
    const std::int64_t died_at = lost_at_[at(rank)];
    if (on_.reads_memory || is_quorum() || died_at < 0) return false;
    const Rank in_job = on_.members[at(rank)];
    for (Rank other = 0; other < on_.size(); ++other) {
      const Rank there = on_.members[at(other)];
      if (there < 0 || job_[at(there)].host == job_[at(in_job)].host || !fates_[at(there)].survives) continue;
      const Call* const call = call_of(other);
      if (call != nullptr && (!call->has_ended() || call->ended_at >= died_at)) return true;
    }
    return false;
  }
  Rank f() const { return first_.f >= 0 ? first_.f : job_.front().f; }
  bool is_quorum() const { return first_.kind == Kind::quorum; }
  bool is_uniform() const { return !is_quorum() && (on_.reads_memory || first_.uniform || first_.kind == Kind::agree); }

  void violate(const char* rule, Rank rank, const std::string& what) {
    violations_.push_back({rule, std::string(name_of(first_.kind)) + " " + std::to_string(instance_.number) + " of " +
                                     on_.name + (rank < 0 ? "" : ", rank " + std::to_string(rank)) + ": " + what});
  }

  bool is_one_program() {
    for (Rank rank = 0; rank < on_.size(); ++rank) {
      const Call* const call = call_of(rank);
      if (call == nullptr || (call->kind == first_.kind && call->root == first_.root && call->op == first_.op &&
                              call->dtype == first_.dtype && call->size == on_.size()))
        continue;
      violate("program", rank, std::string("posted another call, ") + name_of(call->kind));
      return false;
    }
    return true;
  }

  // No agreement is owed.
  void judge_mistake() {
    for (const Rank rank : survivors_) {
      if (!call_of(rank)->has_ended())
        violate("ends", rank, "has not ended");
      else if (call_of(rank)->status != UCFT_OK)
        judge_untouched(rank);
    }
  }

  // ---- a survivor's result --------------------------------------------------------------------------------------

  void judge_one(Rank rank) {
    const Call& call = *call_of(rank);
    judge_status(rank);
    if (call.status != UCFT_OK) return judge_untouched(rank);
    if (is_to_root(call.kind) && rank != call.root) return judge_untouched(rank);
    judge_contributors(rank);
    judge_values(rank);
    if (makes(call.kind)) judge_made(rank);
  }

  void judge_status(Rank rank) {
    const Call& call = *call_of(rank);
    switch (call.status) {
      case UCFT_OK: return;
      case UCFT_ERR_NO_MEMORY:
        if (!may_lack_memory_ || call.kind == Kind::barrier)
          violate("status", rank, "NO_MEMORY, and no rank lacks any");
        return;
      case UCFT_ERR_LATE:
        if (!is_quorum()) violate("status", rank, "LATE without a quorum");
        return;
      case UCFT_ERR_ROOT_FAILED:
        if (!is_rooted(call.kind)) return violate("status", rank, "ROOT_FAILED of a call without a root");
        if (survives(call.root) && call_of(call.root) != nullptr)
          violate("status", rank, "ROOT_FAILED, and its root lives and took part");
        if (lived_on(call.root, call.ended_at)) violate("status", rank, "ROOT_FAILED, and its root lived on");
        return;
      case UCFT_ERR_TOO_MANY_FAILURES:
        // A barrier is behind a uniform call between hosts, and its error is the call's.
        if (!call.uniform && (is_from_root(call.kind) || (is_to_root(call.kind) && rank != call.root)))
          violate("status", rank, "TOO_MANY_FAILURES, which this call never says here");
        if (on_.reads_memory) violate("status", rank, "TOO_MANY_FAILURES in shared memory");
        if (const Rank failed = failed_hosts(call.ended_at); failed <= f())
          violate("f", rank,
                  "TOO_MANY_FAILURES with " + std::to_string(failed) + " failed hosts and f " + std::to_string(f()));
        return;
      default: violate("status", rank, "status " + std::to_string(call.status));
    }
  }

  // Hosts of which a member had failed by then, and none that takes part lived. One that is unknown counts for itself.
  Rank failed_hosts(std::int64_t until) const {
    std::set<Rank> failed, lives;
    Rank unknown = 0;
    for (Rank rank = 0; rank < on_.size(); ++rank) {
      if (!is_known(rank)) {
        ++unknown;
        continue;
      }
      const Fate& fate = fate_of_member(rank);
      const bool has_failed = !fate.survives                ? fate.out_at >= 0 || fate.last_at <= until
                              : is_lost_with_its_host(rank) ? lost_at_[at(rank)] <= until
                                                            : left_in_silence(rank, until);
      const Rank host = job_[at(on_.members[at(rank)])].host;
      if (has_failed)
        failed.insert(host);
      else if (call_of(rank) != nullptr)  // else it has left
        lives.insert(host);
    }
    for (const Rank host : lives) failed.erase(host);
    return unknown + static_cast<Rank>(failed.size());
  }

  // Promise 7, with its exceptions.
  void judge_untouched(Rank rank) {
    const Call& call = *call_of(rank);
    constexpr std::uint64_t long_bytes = 256 << 10;
    if (call.status != UCFT_OK && call.uniform && !on_.reads_memory) return;
    if (call.kind == Kind::allreduce && !on_.reads_memory && !call.got.empty() &&
        call.got.front().count * bytes_of(call.dtype) >= long_bytes)
      return;
    if (call.got != call.before) violate("untouched", rank, "its memory was written to, without a result");
  }

  // A rank that the others have declared dead is told so. It has no result of theirs.
  void judge_own_part() {
    for (Rank rank = 0; rank < on_.size(); ++rank) {
      const Call* const call = call_of(rank);
      if (call != nullptr && call->status == UCFT_OK && has(call->missing.value_or(Ranks()), rank))
        violate("completeness", rank, "it is missing in its own result");
    }
  }

  // Ranks that the result of this one may be of.
  Rank end_of_contributors(Rank rank) const {
    return first_.kind == Kind::scan ? rank + 1 : first_.kind == Kind::exscan ? rank : on_.size();
  }

  void judge_contributors(Rank rank) {
    const Call& call = *call_of(rank);
    if (is_from_root(call.kind) || makes(call.kind) || !call.missing) return;
    const Ranks& missing = *call.missing;
    const Rank end = end_of_contributors(rank);
    if (!std::ranges::is_sorted(missing) || std::ranges::adjacent_find(missing) != missing.end() ||
        (!missing.empty() && (missing.front() < 0 || missing.back() >= end)))
      return violate("agreement", rank, "missing is no list of ranks: " + list_of(missing));
    if (is_quorum()) judge_late(rank);
    if (static_cast<Rank>(call.contributors) + static_cast<Rank>(missing.size() + call.late.size()) != end)
      violate("agreement", rank, std::to_string(call.contributors) + " contributors, and missing " + list_of(missing));
    for (const Rank each : missing) {
      if (has(survivors_, each) && !may_lack(each, call) && !decides_alone(rank))
        violate("completeness", rank, "survivor " + std::to_string(each) + " is missing");
      if (!is_known(each) || has(absent_, each)) continue;
      if (lived_on(each, call.ended_at))
        violate("completeness", rank, "rank " + std::to_string(each) + " is missing, and lived on");
    }
  }

  // A root may lack the value of a rank that has left right behind it, if another one died.
  bool may_lack(Rank rank, const Call& call) const {
    if (left_in_silence(rank, call.ended_at)) return true;
    const bool any_died = std::ranges::any_of(fates_, [](const Fate& each) { return !each.survives; });
    return is_to_root(call.kind) && any_died && has_left_by(rank, call.ended_at);
  }
  // Behind a cut link, as it may have been: it counts as silent.
  bool left_in_silence(Rank rank, std::int64_t by) const {
    if (!has_left_by(rank, by) || !fate_of_member(rank).may_be_dead) return false;
    return fate_of_member(rank).last_at <= is_heard_until(job_[at(on_.members[at(rank)])], on_.name);
  }
  bool has_left_by(Rank rank, std::int64_t by) const {
    return is_known(rank) && has_left(job_[at(on_.members[at(rank)])], on_.name, by);
  }
  // It died later, and had not left.
  bool lived_on(Rank rank, std::int64_t after) const {
    if (!is_known(rank) || survives(rank) || has_left_by(rank, after)) return false;
    const Fate& fate = fate_of_member(rank);
    return fate.out_at < 0 && fate.last_at > after;
  }
  // Of a quorum: all others had left or died, and it had not heard of their result.
  bool decides_alone(Rank rank) const {
    const Call& call = *call_of(rank);
    if (!is_quorum() || call.contributors != 1) return false;
    for (Rank each = 0; each < on_.size(); ++each)
      if (each != rank && survives(each) && !has_left_by(each, call.ended_at)) return false;
    return true;
  }

  // All that have died may have been among those that the quorum was of.
  void judge_late(Rank rank) {
    const Call& call = *call_of(rank);
    if (call.is_late != has(call.late, rank)) violate("quorum", rank, "is_late is not what `late` says");
    for (const Rank each : call.late)
      if (each < 0 || each >= on_.size() || has(*call.missing, each))
        violate("quorum", rank, "rank " + std::to_string(each) + " is late and missing, or no rank");
    if (decides_alone(rank)) return;
    Rank gone = static_cast<Rank>(absent_.size());
    for (Rank each = 0; each < on_.size(); ++each) gone += !survives(each);
    if (static_cast<Rank>(call.contributors) + gone < std::min(call.quorum, on_.size()))
      violate("quorum", rank, std::to_string(call.contributors) + " contributors are no quorum");
  }

  // ---- values ---------------------------------------------------------------------------------------------------

  void judge_values(Rank rank) {
    const Call& call = *call_of(rank);
    if (gets_blocks(call.kind)) return judge_blocks(rank);
    if (is_from_root(call.kind)) return judge_from_root(rank);
    if (!combines(call.kind)) return;
    if (call.got.size() != 1) return violate("program", rank, "has not one result");
    if (call.missing) {
      Ranks without = *call.missing;
      without.insert(without.end(), call.late.begin(), call.late.end());
      if (const std::string what = not_combined_of(rank, without); !what.empty()) violate("values", rank, what);
      return;
    }
    // The number of contributors alone: some set of so many has to fit.
    Ranks open;
    for (Rank each = 0; each < end_of_contributors(rank); ++each)
      if (has(dead_, each) || (has(survivors_, each) && may_lack(each, call))) open.push_back(each);
    for (std::uint32_t with = 0; with < 1u << std::min<std::size_t>(open.size(), 16); ++with) {
      Ranks missing;
      for (Rank each = 0; each < end_of_contributors(rank); ++each) {
        const auto place = static_cast<std::size_t>(std::ranges::find(open, each) - open.begin());
        const bool is_in = place < open.size() ? (with >> place & 1) != 0 : has(survivors_, each);
        if (!is_in) missing.push_back(each);
      }
      const bool fits = call.contributors == static_cast<std::uint32_t>(end_of_contributors(rank)) - missing.size();
      if (fits && not_combined_of(rank, missing).empty()) return;
    }
    violate("values", rank, "it is of no " + std::to_string(call.contributors) + " contributors");
  }

  // Empty: the result is that of all but those.
  std::string not_combined_of(Rank rank, const Ranks& missing) const {
    const Call& call = *call_of(rank);
    std::vector<const std::vector<std::uint8_t>*> contributions;
    for (Rank each = 0; each < end_of_contributors(rank); ++each) {
      if (has(missing, each)) continue;
      const Call* const giver = call_of(each);
      const Block* const given = giver == nullptr ? nullptr : given_to(*giver, rank);
      if (given == nullptr) return "rank " + std::to_string(each) + " contributed, and gave nothing";
      contributions.push_back(&given->sampled);
    }
    if (contributions.empty()) return call.got == call.before ? "" : "it was written to, of no contributors";
    if (!can_combine(call.dtype, call.op)) return {};
    for (const auto* each : contributions)
      if (each->size() != call.got.front().sampled.size()) return "lengths differ";
    if (combine(contributions, call.dtype, call.op) != call.got.front().sampled)
      return "it is not what its contributors gave, without " + list_of(missing);
    return {};
  }

  void judge_blocks(Rank rank) {
    const Call& call = *call_of(rank);
    if (!call.missing) return violate("agreement", rank, "missing is not known");
    for (Rank each = 0; each < on_.size(); ++each) {
      const Block& block = call.got.at(at(each));
      if (has(*call.missing, each)) {
        if (block != call.before.at(at(each)))
          violate("untouched", rank, "the place of missing rank " + std::to_string(each) + " was written to");
        continue;
      }
      const Call* const giver = call_of(each);
      const Block* const given = giver == nullptr ? nullptr : given_to(*giver, rank);
      if (given == nullptr || *given != block)
        violate("values", rank, "the block of rank " + std::to_string(each) + " is not what that rank gave");
    }
  }

  void judge_from_root(Rank rank) {
    const Call& call = *call_of(rank);
    const Call* const root = call_of(call.root);
    if (root == nullptr) return violate("values", rank, "data of a root that gave nothing");
    const Block* const given = given_to(*root, rank);
    if (call.got.empty()) return;  // the root's own share stayed where it was
    if (given == nullptr || call.got.front() != *given) violate("values", rank, "it is not what the root gave");
  }

  void judge_made(Rank rank) {
    const Call& call = *call_of(rank);
    const bool wants_one = call.kind == Kind::dup || call.colour >= 0;
    if (call.made.empty() == wants_one)
      return violate("members", rank, wants_one ? "it got no communicator" : "it got one without a colour");
    for (const Rank other : survivors_) {
      const Call& theirs = *call_of(other);
      if (!wants_one || theirs.status != UCFT_OK || theirs.made != call.made || other <= rank) continue;
      if (theirs.made_size != call.made_size)
        violate("members", rank, "sizes differ from those of rank " + std::to_string(other));
      const bool is_before = call.kind == Kind::dup || call.key <= theirs.key;
      if ((call.made_rank < theirs.made_rank) != is_before || call.made_rank == theirs.made_rank)
        violate("members", rank, "its place and that of rank " + std::to_string(other) + " are not in order");
    }
  }

  // ---- of several ranks -----------------------------------------------------------------------------------------

  void judge_together() {
    if (survivors_.empty() || is_to_root(first_.kind)) return;
    if (is_quorum()) judge_the_late();
    // Of a scan the one that knows most; if some lack memory, of those that have a result.
    const auto found =
        std::find_if(survivors_.rbegin(), survivors_.rend(), [&](Rank rank) { return !lacks_memory(rank); });
    const Rank reference = found == survivors_.rend() ? survivors_.back() : *found;
    for (const Rank rank : survivors_)
      if (const std::string what = difference(reference, rank); !what.empty())
        violate("agreement", rank, what + " than rank " + std::to_string(reference));
  }

  // Where nobody dies or leaves: a rank that gets no result is late by the result of another one. The histories don't
  // say which ranks were late to an error.
  void judge_the_late() {
    if (std::ranges::any_of(survivors_, [&](Rank rank) { return lacks_memory(rank); })) return;
    const auto is_calm = [&](Rank rank) { return survives(rank) && !has_left_by(rank, call_of(rank)->ended_at); };
    if (static_cast<Rank>(survivors_.size()) != on_.size() || !std::ranges::all_of(survivors_, is_calm)) return;
    const auto found = std::ranges::find_if(survivors_, [&](Rank rank) { return call_of(rank)->status == UCFT_OK; });
    if (found == survivors_.end()) return violate("quorum", -1, "no rank has a result");
    for (const Rank rank : survivors_)
      if (call_of(rank)->status == UCFT_ERR_LATE && !has(call_of(*found)->late, rank))
        violate("quorum", rank, "LATE, and it is in the result");
  }

  // Empty: the results agree, as far as they have to.
  std::string difference(Rank one, Rank other) const {
    const Call &a = *call_of(one), &b = *call_of(other);
    if (is_quorum() && (a.status == UCFT_ERR_LATE || b.status == UCFT_ERR_LATE)) return {};
    if (decides_alone(one) || decides_alone(other)) return {};
    if (may_differ_by_memory(one, other)) return {};
    if (a.status != b.status) return "another status (" + std::to_string(b.status) + ")";
    if (a.status != UCFT_OK || makes(a.kind)) return {};
    if (is_scan(a.kind)) {
      const Rank end = std::min(end_of_contributors(one), end_of_contributors(other));
      for (Rank each = 0; each < end; ++each)
        if (a.missing && b.missing && has(*a.missing, each) != has(*b.missing, each)) return "other missing ranks";
      return {};
    }
    if (a.contributors != b.contributors) return "another number of contributors";
    if (a.missing != b.missing) return "other missing ranks";
    if (a.late != b.late) return "other late ranks";
    if (!has_same_bits(a.kind)) return {};
    if (a.kind != Kind::allgather) return a.got == b.got ? "" : "other bits";
    for (Rank each = 0; each < on_.size(); ++each)
      if (!has(a.missing.value_or(Ranks()), each) && a.got.at(at(each)) != b.got.at(at(each))) return "other blocks";
    return {};
  }

  // A rank of a host hears nothing of those behind it in a scan. Between hosts some of a root's ranks may have the
  // data, and survivors of a death may differ.
  bool may_differ_by_memory(Rank one, Rank other) const {
    const bool lacks_one = lacks_memory(one), lacks_other = lacks_memory(other);
    if (!lacks_one && !lacks_other) return false;
    if (on_.reads_memory) return is_scan(first_.kind) && lacks_one != lacks_other && (one > other) == lacks_one;
    const std::int64_t by = std::max(call_of(one)->ended_at, call_of(other)->ended_at);
    for (Rank rank = 0; rank < on_.size(); ++rank)
      if (!survives(rank) &&
          (!is_known(rank) || fate_of_member(rank).out_at >= 0 || fate_of_member(rank).last_at <= by))
        return true;
    return is_from_root(first_.kind);
  }

  // The results of ranks that died later.
  void judge_the_dead() {
    if (!is_uniform() || is_to_root(first_.kind) || makes(first_.kind)) return;
    if (!on_.reads_memory && failed_hosts(INT64_MAX) > f()) return;
    Rank reference = survivors_.empty() ? -1 : survivors_.back();
    for (const Rank rank : dead_) {
      if (!call_of(rank)->has_ended() || is_out(call_of(rank)->status)) continue;
      if (reference < 0) reference = rank;
      if (const std::string what = difference(reference, rank); !what.empty())
        violate("uniform", rank, "before it died it had " + what + " than rank " + std::to_string(reference));
    }
  }

  // A result that is of all survivors is there when all have come.
  void judge_order() {
    if (is_rooted(first_.kind) || is_quorum()) return;
    for (const Rank rank : survivors_) {
      if (call_of(rank)->status != UCFT_OK) continue;
      for (const Rank other : survivors_)
        if (other < end_of_contributors(rank) && call_of(other)->began_at > call_of(rank)->ended_at)
          violate("order", rank, "it ended before rank " + std::to_string(other) + " had begun");
    }
  }

  void judge_time() {
    std::int64_t from = 0;
    for (const Rank rank : survivors_) from = std::max(from, call_of(rank)->began_at);
    for (const Rank rank : absent_) from = std::max(from, leaves_at(job_[at(on_.members[at(rank)])], on_.name));
    for (const Rank rank : survivors_)
      if (const std::string late = how_late(from, call_of(rank)->ended_at, disturbed_); !late.empty())
        violate("time", rank, late);
  }

  const std::vector<RankHistory>& job_;
  const std::vector<Fate>& fates_;
  const bool may_lack_memory_;
  const std::vector<Disturbed>* const disturbed_;
  const Communicator& on_;
  const std::vector<std::int64_t>& lost_at_;
  const Instance& instance_;
  const Call& first_;
  std::vector<Violation>& violations_;
  Ranks survivors_, dead_, absent_;
};

}  // namespace

std::vector<Violation> judge(const std::vector<RankHistory>& job, const std::vector<Rank>& may_be_dead,
                             bool may_lack_memory, const std::vector<Disturbed>* disturbed) {
  std::vector<Violation> violations;
  std::vector<Fate> fates;
  for (const RankHistory& each : job) {
    fates.push_back(fate_of(each));
    fates.back().may_be_dead = has(may_be_dead, each.rank);
    if (fates.back().may_be_dead) continue;
    if (fates.back().out_at >= 0)
      violations.push_back({"status", "rank " + std::to_string(each.rank) + " was declared out, and nobody harmed it"});
    if (each.is_over) continue;
    const Call* const last = each.calls.empty() ? nullptr : &each.calls.back();
    violations.push_back(
        {"ends",
         "rank " + std::to_string(each.rank) + " did not come to its end, and nobody killed it" +
             (last == nullptr ? std::string()
                              : std::string("; its last call: ") + name_of(last->kind) + " of " + last->communicator)});
  }
  for (const RankHistory& each : job)
    for (const Call& call : each.calls)
      if (call.kind == Kind::destroy && call.has_ended())
        if (const std::string late = how_late(call.began_at, call.ended_at, disturbed, longest_leave_ns); !late.empty())
          violations.push_back({"time", "rank " + std::to_string(each.rank) + " leaves: " + late});
  std::vector<Rank> ranks;
  for (const RankHistory& each : job) ranks.push_back(each.rank);
  const Case judged{job, std::move(fates), may_lack_memory, disturbed};
  const auto lost_of = [&](const std::vector<Rank>& members, const std::string& communicator) {
    std::vector<std::int64_t> lost_at;
    for (const Rank each : members)
      lost_at.push_back(each < 0 ? -1 : lost_with_its_host_at(judged, members, each, communicator));
    return lost_at;
  };
  std::vector<bool> survived;
  for (const std::int64_t lost_at : lost_of(ranks, "all")) {
    const Fate& fate = judged.fates[survived.size()];
    survived.push_back(fate.survives && !fate.may_be_dead && lost_at < 0);
  }
  const std::map<std::string, Communicator> all = communicators_of(job, survived);
  for (const auto& [name, each] : all) {
    const std::vector<std::int64_t> lost_at = lost_of(each.members, name);
    for (const auto* instances : {&each.collectives, &each.quorums})
      for (const Instance& instance : *instances)
        if (instance.any() != nullptr) Collective(judged, each, lost_at, instance, violations).judge();
    judge_gossips(judged, each, violations);
  }
  judge_messages(judged, all, violations);
  return violations;
}

}  // namespace ucft::judge

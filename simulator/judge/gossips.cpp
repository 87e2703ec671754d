#include "simulator/judge/gossips.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "simulator/judge/kinds.hpp"

namespace ucft::judge {
namespace {

class Gossip {
 public:
  Gossip(const Case& judged, const Communicator& on, const Instance& instance, std::vector<Violation>& violations)
      : judged_(judged), on_(on), instance_(instance), first_(*instance.any()), violations_(violations) {
    for (Rank rank = 0; rank < on.size(); ++rank) {
      const Rank in_job = on.members[at(rank)];
      const bool survives = in_job >= 0 && judged.fates[at(in_job)].survives;
      const Call* const call = instance.calls[at(rank)];
      if (call != nullptr) givers_.push_back(rank);
      if (call != nullptr && survives) survivors_.push_back(rank);
      is_quiet_ = is_quiet_ && survives && call != nullptr && stays(rank, *call);
    }
  }

  void judge() {
    for (const Rank rank : survivors_)
      if (!call_of(rank).has_ended()) violate("ends", rank, "has not ended");
    std::erase_if(survivors_, [&](Rank rank) { return !call_of(rank).has_ended(); });
    for (const Rank rank : survivors_) judge_one(rank);
    judge_time();
  }

 private:
  const Call& call_of(Rank rank) const { return *instance_.calls[at(rank)]; }
  // Until that call has ended: nothing of it may be missing.
  bool stays(Rank rank, const Call& call) const {
    return !has_left(judged_.job[at(on_.members[at(rank)])], on_.name, call.ended_at);
  }

  void violate(const char* rule, Rank rank, const std::string& what) {
    violations_.push_back({rule, std::string(name_of(first_.kind)) + " " + std::to_string(instance_.number) + " of " +
                                     on_.name + ", rank " + std::to_string(rank) + ": " + what});
  }

  void judge_one(Rank rank) {
    const Call& call = call_of(rank);
    if (call.status != UCFT_OK && (call.status != UCFT_ERR_NO_MEMORY || !judged_.may_lack_memory))
      return violate("status", rank, "status " + std::to_string(call.status));
    if (call.status != UCFT_OK) return;
    const Call& reference =
        call_of(*std::ranges::find_if(survivors_, [this](Rank each) { return call_of(each).status == UCFT_OK; }));
    if (call.got != reference.got || call.contributors != reference.contributors || call.bound != reference.bound ||
        call.answer != reference.answer)
      violate("agreement", rank, "other than rank " + std::to_string(reference.rank));
    const auto contributors = static_cast<std::size_t>(call.contributors);
    const auto least =
        is_quiet_
            ? givers_.size()
            : static_cast<std::size_t>(std::ranges::count_if(survivors_, [&](Rank each) { return stays(each, call); }));
    if (contributors > givers_.size() || contributors < least)
      violate(
          "completeness", rank,
          std::to_string(contributors) + " contributors, and " + std::to_string(least) + " have posted it, and live");
    if (is_quiet_ && call.answer != UCFT_GOSSIP_ALL_RANKS) violate("completeness", rank, "it is not of all ranks");
    if (const std::string what = how_far_off(call); !what.empty()) violate("values", rank, what);
  }

  std::vector<double> numbers_of(const Block& block) const {
    std::vector<double> numbers;
    const std::size_t each = bytes_of(first_.dtype);
    for (std::size_t place = 0; place + each <= block.sampled.size(); place += each) {
      float one = 0;
      double number = 0;
      if (first_.dtype == UCFT_FLOAT) std::memcpy(&one, block.sampled.data() + place, sizeof one);
      if (first_.dtype == UCFT_DOUBLE) std::memcpy(&number, block.sampled.data() + place, sizeof number);
      numbers.push_back(first_.dtype == UCFT_FLOAT ? one : number);
    }
    return numbers;
  }

  // Empty: it may be what was asked for. Where all elements are sampled alone: the error is relative to the largest.
  // Where ranks die the aggregate is one of some of those that gave, and lies between theirs; but see
  // UCFT_GOSSIP_NEARLY_ALL_RANKS.
  std::string how_far_off(const Call& call) const {
    if (call.got.size() != 1 || call.got.front().count != sampled_places(call.got.front().count).size()) return {};
    if (call.bound < 0) return is_quiet_ ? "nothing is said of its error" : "";
    if (call.answer == UCFT_GOSSIP_NEARLY_ALL_RANKS) return {};
    const std::vector<double> result = numbers_of(call.got.front());
    std::vector<std::vector<double>> given;
    for (const Rank each : givers_)
      if (!call_of(each).given.empty()) given.push_back(numbers_of(call_of(each).given.front()));
    double largest = 0;
    for (const double each : result) largest = std::max(largest, std::abs(each));
    const double rounding = first_.dtype == UCFT_FLOAT ? std::numeric_limits<float>::epsilon() : 1e-15;
    const double off = call.bound * largest + rounding * largest;
    for (std::size_t i = 0; i < result.size(); ++i) {
      double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0;
      for (const auto& each : given) {
        if (i >= each.size()) return "lengths differ";
        least = std::min(least, each[i]);
        most = std::max(most, each[i]);
        sum += each[i];
      }
      const auto contributors = static_cast<double>(call.contributors);
      const double scale = call.op == UCFT_SUM ? contributors : 1;
      least *= scale;
      most *= scale;
      if (is_quiet_ && call.op == UCFT_AVG) least = most = sum / contributors;
      if (is_quiet_ && call.op == UCFT_SUM) least = most = sum;
      if (is_quiet_ && call.op == UCFT_MIN) most = least;
      if (is_quiet_ && call.op == UCFT_MAX) least = most;
      if (!(result[i] >= least - off && result[i] <= most + off))
        return std::to_string(result[i]) + " is not within " + std::to_string(off) + " of " + std::to_string(least) +
               " .. " + std::to_string(most);
    }
    return {};
  }

  void judge_time() {
    std::int64_t from = 0;
    for (const Rank rank : survivors_) from = std::max(from, call_of(rank).began_at);
    for (const Rank rank : survivors_)
      if (const std::string late = how_late(from, call_of(rank).ended_at, judged_.disturbed); !late.empty())
        violate("time", rank, late);
  }

  const Case& judged_;
  const Communicator& on_;
  const Instance& instance_;
  const Call& first_;
  std::vector<Violation>& violations_;
  std::vector<Rank> givers_, survivors_;
  bool is_quiet_ = true;  // no rank dies, or leaves before it has ended
};

}  // namespace

void judge_gossips(const Case& judged, const Communicator& on, std::vector<Violation>& violations) {
  for (const Instance& instance : on.gossips)
    if (instance.any() != nullptr) Gossip(judged, on, instance, violations).judge();
}

}  // namespace ucft::judge

#include "simulator/judge/messages.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ucft::judge {
namespace {

// Of one communicator, from one rank to another under one tag.
struct Stream {
  std::string communicator;
  Rank from = 0, to = 0, tag = 0;
  friend auto operator<=>(const Stream&, const Stream&) = default;
};

class Messages {
 public:
  Messages(const Case& judged, const std::map<std::string, Communicator>& all, std::vector<Violation>& violations)
      : job_(judged.job), fates_(judged.fates), disturbed_(judged.disturbed), all_(all), violations_(violations) {
    for (const RankHistory& each : job_)
      for (const Call& call : each.calls)
        if (call.kind == Kind::send || call.kind == Kind::receive) take(each, call);
  }

  void judge() {
    for (const auto& [stream, received] : received_) judge(stream, received);
    for (const auto& [stream, failed] : failed_) judge_lost(stream, *failed);
  }

 private:
  void take(const RankHistory& history, const Call& call) {
    const bool is_send = call.kind == Kind::send, lives = fates_[at(history.rank)].survives;
    if (is_send)
      sent_[{call.communicator, call.rank, call.root, call.tag}].push_back(&call);
    else if (call.status == UCFT_OK && is_asked_for(call))
      received_[{call.communicator, call.source, call.rank, call.source_tag}].push_back(&call);
    if (lives && !call.has_ended()) violate(call, "ends", "has not ended");
    if (lives && call.has_ended() && call.status != UCFT_OK && call.status != UCFT_ERR_PEER_FAILED)
      violate(call, "status", "status " + std::to_string(call.status));
    if (call.status != UCFT_ERR_PEER_FAILED) return;
    if (!is_send && lives && call.root >= 0)
      failed_.try_emplace({call.communicator, call.root, call.rank, call.tag}, &call);
    const Rank peer = is_send ? call.root : call.source;
    if (peer < 0 || peer >= all_.at(call.communicator).size() || (call.root >= 0 && peer != call.root))
      return violate(call, "messages", "PEER_FAILED names rank " + std::to_string(peer));
    if (!is_send && lives && call.root < 0) judge_named(call);
    if (lives_in(peer, call) && fates_[at(history.rank)].out_at < 0)
      violate(call, "messages", "PEER_FAILED, and rank " + std::to_string(peer) + " lives");
  }

  // Of any source: of a rank that has failed it is said once, and then only if nobody is left.
  void judge_named(const Call& call) {
    const bool is_first = named_.insert({call.communicator, call.source, call.rank, 0}).second;
    const Communicator& on = all_.at(call.communicator);
    for (Rank other = 0; other < on.size() && !is_first; ++other)
      if (other != call.rank && lives_in(other, call))
        return violate(call, "messages", "PEER_FAILED names rank " + std::to_string(call.source) + " again");
  }

  bool is_asked_for(const Call& call) {
    const bool is = call.source >= 0 && call.source < all_.at(call.communicator).size() &&
                    (call.root < 0 || call.source == call.root) && call.source_tag == call.tag && !call.got.empty();
    if (!is) violate(call, "messages", "it is of rank " + std::to_string(call.source) + ", which was not asked for");
    return is;
  }

  bool lives_in(Rank peer, const Call& call) const {
    const Communicator& on = all_.at(call.communicator);
    const Rank rank = on.members[at(peer)];
    if (rank < 0 || !fates_[at(rank)].survives) return false;
    return !has_left(job_[at(rank)], on.name, call.ended_at + (fates_[at(rank)].may_be_dead ? until_it_looks : 0));
  }

  void violate(const Call& call, const char* rule, const std::string& what) {
    violations_.push_back({rule, std::string(name_of(call.kind)) + " of " + call.communicator + ", rank " +
                                     std::to_string(call.rank) + ", tag " + std::to_string(call.tag) + ": " + what});
  }

  // Each message that is received is one that was sent after those that were received before. From a rank that lives
  // none is left out.
  void judge(const Stream& stream, const std::vector<const Call*>& received) {
    const std::vector<const Call*>& sent = sent_[stream];
    const Rank in_job = all_.at(stream.communicator).members[at(stream.from)];
    const bool is_whole = in_job >= 0 && fates_[at(in_job)].survives;
    std::size_t next = 0;
    for (const Call* each : received) {
      const std::size_t first = next;
      while (next < sent.size() && (sent[next]->given.empty() || sent[next]->given.front() != each->got.front()))
        ++next;
      if (next == sent.size()) return violate(*each, "messages", "it was never sent, or twice received");
      if (is_whole && next > first) return violate(*each, "messages", "messages before it are lost");
      if (sent[next]->began_at > each->ended_at) violate(*each, "order", "it came before it was sent");
      const std::int64_t from = std::max(sent[next]->began_at, each->began_at);
      if (const std::string late = how_late(from, each->ended_at, disturbed_); !late.empty())
        violate(*each, "time", late);
      ++next;
    }
  }

  // A rank that left in order had sent them: they come before it is said that it has left.
  void judge_lost(const Stream& stream, const Call& failed) {
    const Rank in_job = all_.at(stream.communicator).members[at(stream.from)];
    if (in_job < 0 || !fates_[at(in_job)].survives || fates_[at(in_job)].may_be_dead) return;
    const auto sent = std::ranges::count(sent_[stream], UCFT_OK, &Call::status);
    if (sent > static_cast<std::ptrdiff_t>(received_[stream].size()))
      violate(failed, "messages", "PEER_FAILED, and a message before it is lost");
  }

  const std::vector<RankHistory>& job_;
  const std::vector<Fate>& fates_;
  const std::vector<Disturbed>* const disturbed_;
  const std::map<std::string, Communicator>& all_;
  std::vector<Violation>& violations_;
  std::map<Stream, std::vector<const Call*>> sent_, received_;
  std::set<Stream> named_;                // to a receive of any source, of any tag
  std::map<Stream, const Call*> failed_;  // the first receive of it that did
};

}  // namespace

void judge_messages(const Case& judged, const std::map<std::string, Communicator>& all,
                    std::vector<Violation>& violations) {
  Messages(judged, all, violations).judge();
}

}  // namespace ucft::judge

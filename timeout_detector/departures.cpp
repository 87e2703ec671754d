// See departures.hpp.
#include "timeout_detector/departures.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

Departures::Departures(Rank me, const std::vector<std::uint64_t>& hosts, Options options) : me_(me), options_(options) {
  assert(me >= 0 && static_cast<std::size_t>(me) < hosts.size());
  std::map<std::uint64_t, std::size_t> number;
  for (const std::uint64_t host : hosts)
    peers_.push_back({.host = number.try_emplace(host, number.size()).first->second});
  hosts_ = number.size();
}

void Departures::begin_without(const std::vector<bool>& absent) {
  for (std::size_t rank = 0; rank < absent.size(); ++rank) {
    if (!absent[rank]) continue;
    assert(static_cast<Rank>(rank) != me_);
    Peer& peer = peers_[rank];
    peer.standing = Standing::failed;
    peer.evidence = peer.announced = Evidence::proof;
    peer.reported = peer.is_absent = true;
  }
}

void Departures::watch_along(std::vector<LifelineEnds> lifelines) {
  lifelines_ = std::move(lifelines);
  for (const Rank other : lifelines_of(lifelines_, me_)) peer_of(other).has_lifeline = true;
}

// ---- events ---------------------------------------------------------------------------------------------------------

void Departures::on_verdict(Rank rank, bool proved) {
  peer_of(rank).seen_here = true;
  note(rank, proved ? Evidence::proof : Evidence::silence);
}

void Departures::on_lifeline_out(Rank rank) {
  peer_of(rank).is_out = true;
  on_verdict(rank, true);
}

void Departures::on_word(Rank by, Rank about, bool proved) {
  if (about == me_) return on_excluded_word(by);
  if (has_left(by) || (has_failed(by) && about != by)) return;
  if (about == by && UCFT_SOMETIMES("a rank says of itself that it is out")) peer_of(by).is_out = true;
  note(about, proved ? Evidence::proof : Evidence::silence);
}

// If each has lost the other, the rest decides. But ranks of one host do not count each other, so of two of them the
// lower goes on.
void Departures::on_excluded_word(Rank by) {
  const bool is_lower_here = is_here(by) && by < me_ && !is_proved(by);
  if (may_live(by) || (UCFT_SOMETIMES("two ranks have lost each other") && is_lower_here)) on_excluded_mark(by);
}

void Departures::on_excluded_mark(Rank by) {
  if (by >= 0) UCFT_SOMETIMES("a rank hears that it is declared dead");
  if (excluded_by_ < 0) excluded_by_ = by;
  told_out_ = true;
}

void Departures::on_leaving(Rank rank) {
  if (!is_gone(rank) && !peer_of(rank).is_out) peer_of(rank).is_leaving = true;
}

void Departures::on_leave_word(Rank rank, bool all_know) {
  Peer& peer = peer_of(rank);
  peer.all_know |= all_know;
  if (!is_gone(rank) && !peer.is_out) depart(rank, true);
}

void Departures::on_lifeline_leave(Rank rank, bool all_know, Time now) {
  Peer& peer = peer_of(rank);
  peer.all_know |= all_know;
  if (is_proved(rank) || peer.leaving_since) return;
  peer.leaving_since = now;
  waiting_ = true;
  if (peer.broken_since) hear_out(rank);  // nothing can follow
}

// The sender has heard the rank out, and nothing is on its way here since.
void Departures::on_left_word(Rank rank, bool all_know, Time now) {
  Peer& peer = peer_of(rank);
  peer.all_know |= all_know;
  if (is_gone(rank) || is_proved(rank) || peer.is_out) return;
  if (!peer.leaving_since) peer.leaving_since = now;
  hear_out(rank);
}

// Its process may live on, so nothing else would tell.
void Departures::on_mark(Rank rank, Mark mark) {
  if (mark == Mark::none || is_out() || has_left(rank)) return;
  if (mark != Mark::out) UCFT_SOMETIMES("a mark in memory says that its rank has left");
  peer_of(rank).all_know |= mark == Mark::left;
  if (mark == Mark::out) {
    Peer& peer = peer_of(rank);
    UCFT_SOMETIMES("a mark in memory says that its rank is out");
    peer.is_out = peer.seen_here = true;
    peer.evidence = Evidence::proof;
  }
  hear_out(rank);
}

// If the process has ended this rank hears so within the millisecond, by its pidfd or its lifeline, or from those that
// have one. watch_broken() sees to it that something follows.
void Departures::on_connection_lost(Rank rank, Time now) {
  Peer& peer = peer_of(rank);
  if (is_gone(rank)) return;
  UCFT_SOMETIMES("a connection is lost");
  if (!peer.broken_since) peer.broken_since = now;
  waiting_ = true;
  if (peer.leaving_since && UCFT_SOMETIMES("a connection is lost to a rank that leaves")) hear_out(rank);
}

void Departures::on_fence_refused(Rank rank) {
  if (!is_gone(rank)) on_verdict(rank, false);
}

// A rank that has said that it leaves, and then ended, has left.
void Departures::on_heard_out(Rank rank, Mark mark) {
  Peer& peer = peer_of(rank);
  if (peer.standing != Standing::departing) return;  // its word that it leaves was among it
  if (mark == Mark::out) {
    UCFT_SOMETIMES("a rank that is heard out says that it is out");
    peer.is_out = true;
    peer.evidence = Evidence::proof;
  }
  peer.all_know |= mark == Mark::left;
  depart(rank,
         !peer.is_out && (mark == Mark::left || mark == Mark::left_early || peer.leaving_since || peer.is_leaving));
}

void Departures::on_turn(Time now) {
  if (is_out()) return;
  if (told_out_) return exclude_self(Exclusion::declared_dead);
  if (std::exchange(waiting_, false)) {
    for (Rank rank = 0; rank < size(); ++rank) {
      if (is_gone(rank)) continue;
      if (peer_of(rank).leaving_since)
        watch_leaver(rank, now);
      else if (peer_of(rank).broken_since)
        watch_broken(rank, now);
    }
  }
  if (!std::exchange(undecided_, false)) return;
  note_silent_hosts();
  if (!holds_majority() && UCFT_SOMETIMES("a rank finds itself in a minority"))
    return exclude_self(Exclusion::minority);
  for (Rank rank = 0; rank < size(); ++rank)
    if (!may_live(rank)) hear_out(rank);
  announce();  // what this rank was told by another and sees itself now: that one may have died before it told all
}

// The last messages of a rank, its part in the last barrier and the word that it leaves, may get lost with its
// connection. It owes nothing any more, but a rank that still waits for it must not do so for ever.
void Departures::watch_leaver(Rank rank, Time now) {
  if (now - *peer_of(rank).leaving_since >= options_.suspect_after && UCFT_SOMETIMES("a farewell does not come"))
    hear_out(rank);
  else
    waiting_ = true;
}

// A rank whose connection is lost, but which has neither left nor ended: no message can reach it.
void Departures::watch_broken(Rank rank, Time now) {
  Peer& peer = peer_of(rank);
  waiting_ = true;
  if (now - *peer.broken_since < options_.suspect_after) return;
  UCFT_SOMETIMES("a rank whose connection is lost for long");
  if (peer.is_leaving) return hear_out(rank);
  if (!options_.fence || !is_here(rank)) return on_verdict(rank, false);
  peer.broken_since = now;  // its end is seen as a proof; else once more
  actions_.push_back({.kind = Action::Kind::fence, .rank = rank});
}

// ---- decisions ------------------------------------------------------------------------------------------------------

// Ranks of other hosts that are silent may be dead, or cut off from us and alive: then they see us as we see them. Only
// one side may go on: the one with more than half of all that are not known to be dead or to have left. Of two halves
// the one with the lowest rank goes on. A proof is never wrong, so both sides count the same ranks. Of a rank that
// leaves the other side may know more or less than this one, or as much. So this one must win whether that rank counts
// or not.
bool Departures::holds_majority() const {
  const auto is_silent = [this](const Peer& peer) {
    return peer.evidence == Evidence::silence && peer.host != peer_of(me_).host;
  };
  if (std::ranges::none_of(peers_, is_silent)) return true;
  const Count now = count();
  const auto lost = static_cast<std::int32_t>(now.lost.size()), ours = now.counted - lost - now.leaving;
  if (now.leaving > 0) UCFT_SOMETIMES("a rank leaves while majorities are counted");
  if (ours != lost) return ours > lost;
  UCFT_SOMETIMES("a partition has equal halves");
  Rank lowest = 0;
  while (!counts(lowest) || is_leaving_here(lowest)) ++lowest;  // this rank is neither
  return now.lost.front() != lowest;
}

// It is about to go, has not gone yet, and no evidence speaks against it.
bool Departures::is_leaving_here(Rank rank) const {
  return rank != me_ && (peer_of(rank).is_leaving || has_left(rank)) && may_live(rank) && !has_left(rank);
}

Departures::Count Departures::count() const {
  Count count;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!counts(rank)) continue;
    ++count.counted;
    if ((!may_live(rank) && !is_here(rank)) || has_left(rank))
      count.lost.push_back(rank);
    else
      count.leaving += is_leaving_here(rank);
  }
  return count;
}

// A name of the part that each host is in. Ranks of a host are joined, and lifelines join hosts: all but those of ranks
// that have ended or left; or of these only those that are heard.
std::vector<std::size_t> Departures::hosts_within_reach(bool heard) const {
  std::vector<std::size_t> part(hosts_);
  std::iota(part.begin(), part.end(), std::size_t{0});
  const auto part_of = [&](std::size_t host) {
    while (part[host] != host) host = part[host] = part[part[host]];
    return host;
  };
  const auto joins = [&](const Peer& peer) {
    if (peer.standing == Standing::left) return false;
    if (peer.evidence == Evidence::proof) return peer.is_out && !heard;
    return !heard || peer.evidence == Evidence::none || peer.host == peer_of(me_).host;
  };
  for (const auto& [a, b] : lifelines_)
    if (joins(peer_of(a)) && joins(peer_of(b))) part[part_of(peer_of(a).host)] = part_of(peer_of(b).host);
  for (std::size_t host = 0; host < hosts_; ++host) part[host] = part_of(host);
  return part;
}

// Where lifelines have become fewer by deaths and farewells alone, nothing follows. The conclusion is the same in
// whatever order silence and ends are heard of.
void Departures::note_silent_hosts() {
  if (std::ranges::all_of(peers_, [](const Peer& peer) {
        return peer.evidence == Evidence::none || (peer.evidence == Evidence::proof && !peer.is_out);
      }))
    return;
  const std::vector<std::size_t> all = hosts_within_reach(false), heard = hosts_within_reach(true);
  const std::size_t here = peer_of(me_).host;
  for (Peer& peer : peers_)
    if (all[peer.host] == all[here] && heard[peer.host] != heard[here] && peer.standing == Standing::present &&
        UCFT_SOMETIMES("a host is taken for silent, since nobody hears it"))
      peer.evidence = std::max(peer.evidence, Evidence::silence);
}

void Departures::note(Rank rank, Evidence evidence) {
  Peer& peer = peer_of(rank);
  peer.evidence = std::max(peer.evidence, evidence);
  undecided_ = true;
}

void Departures::hear_out(Rank rank) {
  Peer& peer = peer_of(rank);
  if (peer.standing != Standing::present) return;
  peer.standing = Standing::departing;
  actions_.push_back({.kind = Action::Kind::hear_out, .rank = rank});
}

void Departures::depart(Rank rank, bool has_left) {
  Peer& peer = peer_of(rank);
  peer.standing = has_left ? Standing::left : Standing::failed;
  const bool proved = is_proved(rank);
  if (!has_left && !proved && UCFT_SOMETIMES("a rank that may live is declared dead"))
    actions_.push_back({.kind = Action::Kind::tell_out, .rank = rank});
  actions_.push_back(
      {.kind = Action::Kind::depart, .rank = rank, .has_left = has_left, .all_know = peer.all_know, .proved = proved});
  if (!has_left)
    announce();
  else if (!is_leaving_)
    announce_left(rank);
}

// A rank that has seen a failure tells the ranks that may not have. A death on this host is known to all its ranks, and
// the two lowest of them that live tell the other hosts. A death on another host is known to the other ends of the dead
// rank's lifelines, and they tell everybody. This is done anew after each failure: this rank may be among the two
// lowest now.
void Departures::announce() {
  if (!near_.empty()) return pass_on();
  const bool speaks = is_among_two_lowest_here();
  for (Rank failed = 0; failed < size(); ++failed) {
    Peer& peer = peer_of(failed);
    if (!has_failed(failed) || peer.announced != Evidence::none || !peer.seen_here) continue;
    if (is_here(failed) && !speaks) continue;
    UCFT_SOMETIMES("a failure is announced");
    peer.announced = peer.evidence;
    tell(present(), failed, is_proved(failed));
  }
}

bool Departures::is_among_two_lowest_here() const {
  int lower = 0;
  for (Rank rank = 0; rank < me_; ++rank) lower += is_here(rank) && !is_gone(rank);
  return lower < 2;
}

// Ranks that watch it, or sit beside it, have heard so in a way that a closing connection can't spoil. All others hear
// it from them.
void Departures::announce_left(Rank left) {
  if (!near_.empty()) return pass_on();
  const std::vector<Rank> watching = lifelines_of(lifelines_, left);
  const bool watches = std::ranges::find(watching, me_) != watching.end();
  if (!watches && !(is_here(left) && is_among_two_lowest_here())) return;
  std::vector<Rank> others = present();
  std::erase_if(others, [&](Rank rank) {
    return peer_of(rank).host == peer_of(left).host || std::ranges::find(watching, rank) != watching.end();
  });
  tell_left(others, left);
}

// This rank's news, of what it has seen or heard, and again when a suspicion has become a proof. A rank that has taken
// the place of a dead neighbour gets all of it: the dead one may not have come to pass it on.
void Departures::pass_on() {
  const std::vector<Rank> all = near();
  std::vector<Rank> newcomers;
  for (const Rank rank : all)
    if (!std::exchange(peer_of(rank).is_informed, true) &&
        UCFT_SOMETIMES("a rank tells a neighbour for the first time"))
      newcomers.push_back(rank);
  for (Rank failed = 0; failed < size(); ++failed) {
    Peer& peer = peer_of(failed);
    if (has_left(failed) && !is_leaving_)
      tell_left(std::exchange(peer.left_is_announced, true) ? newcomers : all, failed);
    if (!has_failed(failed) || peer.is_absent) continue;
    tell(peer.announced < peer.evidence ? all : newcomers, failed, is_proved(failed));
    peer.announced = peer.evidence;
  }
}

std::vector<Departures::Rank> Departures::near() const {
  std::vector<Rank> near;
  int lower = 0;
  for (std::size_t i = 0; i < near_.size(); ++i) {
    int speakers = 0;
    for (const Rank rank : near_[i]) {
      if (rank == me_ || is_gone(rank) || (i > 0 && ++speakers > 2)) continue;
      near.push_back(rank);
      lower += i == 0 && rank < me_;
    }
    if (lower >= 2) break;
  }
  return near;
}

std::vector<Departures::Rank> Departures::present() const {
  std::vector<Rank> present;
  for (Rank rank = 0; rank < size(); ++rank)
    if (rank != me_ && !is_gone(rank)) present.push_back(rank);
  return present;
}

void Departures::tell(const std::vector<Rank>& ranks, Rank about, bool proved) {
  for (const Rank rank : ranks)
    if (about == me_ || !(is_here(about) && is_here(rank)))
      actions_.push_back({.kind = Action::Kind::announce, .rank = rank, .about = about, .proved = proved});
}

void Departures::tell_left(const std::vector<Rank>& ranks, Rank left) {
  for (const Rank rank : ranks)
    if (!(is_here(left) && is_here(rank)))
      actions_.push_back({.kind = Action::Kind::announce,
                          .rank = rank,
                          .about = left,
                          .has_left = true,
                          .all_know = peer_of(left).all_know});
}

// Others may not know that we are out, and would wait for us: our process lives. It comes before all else: a rank that
// learns that it is out while it hears others out must not go on without them meanwhile.
void Departures::exclude_self(Exclusion why) {
  exclusion_ = why;
  actions_.insert(actions_.begin() + static_cast<std::ptrdiff_t>(actions_taken_),
                  {.kind = Action::Kind::exclude_self, .rank = me_});
  tell(near_.empty() ? present() : near(), me_, true);
}

// A rank that is out kills nobody for silence any more, and tells nobody else that it is out.
std::optional<Departures::Action> Departures::next_action() {
  if (told_out_ && !is_out()) exclude_self(Exclusion::declared_dead);
  while (actions_taken_ < actions_.size()) {
    const Action& next = actions_[actions_taken_++];
    if (!is_out() || (next.kind != Action::Kind::tell_out && next.kind != Action::Kind::fence)) return next;
  }
  actions_.clear();
  actions_taken_ = 0;
  return {};
}

std::vector<Departures::Failure> Departures::take_failures() {
  std::vector<Failure> failures;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!has_failed(rank) || std::exchange(peer_of(rank).reported, true)) continue;
    failures.push_back({rank, is_proved(rank)});
  }
  return failures;
}

std::uint64_t Departures::hash() const {
  std::uint64_t hash = static_cast<std::uint64_t>(me_);
  const auto mix = [&hash](auto value) {
    hash = (hash ^ (hash >> 29) ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
  };
  for (const Peer& peer : peers_) {
    mix(peer.broken_since.value_or(Time(-1)).count());
    mix(peer.leaving_since.value_or(Time(-1)).count());
    mix(static_cast<int>(peer.evidence) | static_cast<int>(peer.standing) << 2 | peer.has_lifeline << 4 |
        peer.is_out << 5 | peer.seen_here << 6 | static_cast<int>(peer.announced) << 7 | peer.reported << 9 |
        peer.is_informed << 10 | peer.is_leaving << 11 | peer.left_is_announced << 12 | peer.all_know << 13 |
        peer.is_absent << 14);
  }
  mix(actions_taken_);
  for (const Action& action : actions_)
    mix(static_cast<int>(action.kind) | action.has_left << 3 | action.proved << 4 | action.rank << 5 |
        action.about << 18);
  mix(static_cast<int>(exclusion_) | told_out_ << 2 | undecided_ << 3 | waiting_ << 4 | is_leaving_ << 5 |
      (excluded_by_ + 1) << 6);
  return hash;
}

Departures::Peer& Departures::peer_of(Rank rank) {
  assert(rank >= 0 && rank < size());
  return peers_[static_cast<std::size_t>(rank)];
}

}  // namespace ucft::detail

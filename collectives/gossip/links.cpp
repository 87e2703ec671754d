#include "collectives/gossip/links.hpp"

#include <algorithm>

namespace ucft::detail {

namespace {

// A rank pushes again when something has come since its last push, else after a pace that doubles each time. Ranks that
// share a core must not run through all of their iterations before the others have had their turn.
constexpr GossipTime first_pace = std::chrono::microseconds(5), longest_pace = std::chrono::microseconds(100);
// One that has done its iterations, and waits for others to come, goes on at this pace: they may need its answers.
constexpr GossipTime idle_pace = std::chrono::milliseconds(5);

}  // namespace

template <class Real>
GossipLinks<Real>::GossipLinks(GossipRank<Real> state, std::vector<Rank> ends, const Place& place, const Counts& counts)
    : state_(std::move(state)),
      ends_(std::move(ends)),
      place_(place),
      counts_(counts),
      links_(ends_.size()),
      has_met_(place.has_met),
      pace_(first_pace) {
  for (std::size_t link = 0; link < links_.size(); ++link) {
    links_[link].my_turn = place_.one_sided && begins(ends_[link]);
    links_[link].clear = !place_.one_sided;  // a window can be written once the driver has it
    links_[link].mine.tag = links_[link].theirs.tag = place_.tag;
  }
}

template <class Real>
int GossipLinks<Real>::link_of(Rank rank) const {
  const auto found = std::lower_bound(ends_.begin(), ends_.end(), rank);
  return found == ends_.end() || *found != rank ? -1 : static_cast<int>(found - ends_.begin());
}

template <class Real>
bool GossipLinks<Real>::begins(Rank other) const {
  const Rank me = place_.rank;
  return (me + other) % 2 == 0 ? me < other : me > other;  // about half of its links each
}

template <class Real>
void GossipLinks<Real>::greet(Exit exit) {
  for (const int number : live()) {
    if (place_.one_sided || begins(end(number))) continue;
    ++at(number).sent;
    GossipMessage message;
    message.flags = passes_turn;
    give_turn(at(number), message);
    send(number, message, {}, exit);
  }
}

// ---- pushing

template <class Real>
bool GossipLinks<Real>::push(GossipTime now, bool is_idle, Exit exit) {
  is_idle_ = is_idle;
  if (next_push() > now) return false;
  const int link = choose();
  if (link < 0) return false;
  pace_ = heard_ ? first_pace : std::min(2 * pace_, longest_pace);
  next_push_ = now + (is_idle ? idle_pace : pace_);
  heard_ = false;
  exit.faults.before_push(state_, counts_.iterations);
  push_to(link, exit);
  ++counts_.iterations;
  return true;
}

// A link by chance, or preference, of those on which it is our turn; -1: none. Some links are fast, or join two ranks
// that happen to run at the same time. Pushes back and forth there bring nobody anything new. So once the ranks have
// met no link may be more than a few turns ahead of the slowest. (That waits for nobody for ever, either: where fewest
// turns have been taken both ends may go on. The counts of two ends differ by one at most: an end that has not met does
// not answer one that has.)
template <class Real>
int GossipLinks<Real>::choose() {
  constexpr std::uint32_t ahead = 4;
  ready_.clear();
  std::uint32_t fewest = ~std::uint32_t{0};
  for (int number : live()) fewest = std::min(fewest, at(number).turns);
  for (int number : live()) {
    const Link& link = at(number);
    const bool may_go = has_met_ ? link.turns <= fewest + ahead : !link.other_has_met;
    if (link.my_turn && may_go && link.clear) ready_.push_back(number);
  }
  if (ready_.empty()) return -1;
  Random random(mixed(place_.seed, mixed(static_cast<std::uint64_t>(place_.rank), counts_.choices++)));
  return state_.choose_of(ready_, random);
}

// Turns count from the meeting on.
template <class Real>
void GossipLinks<Real>::meet(double tau) {
  state_.set_tau(tau);
  has_met_ = true;
}
template <class Real>
void GossipLinks<Real>::wake() {
  if (!is_idle_) return;
  is_idle_ = false;
  pace_ = first_pace;
  next_push_ = GossipTime::min();
}
// theirs: as the other end has counted; 0: it has not met.
template <class Real>
void GossipLinks<Real>::take_turn(Link& link, std::uint32_t theirs) {
  link.my_turn = true;
  link.other_has_met = theirs > 0;
}

// The other end is told: it could wait for a turn on that link, and not get there itself.
template <class Real>
void GossipLinks<Real>::fail_due_links(Exit exit) {
  for (const auto& each : exit.faults.failing_links()) {
    const int number = link_of(each.other);
    if (number < 0 || !state_.is_live(number) || (!each.failed && static_cast<double>(counts_.iterations) < each.time))
      continue;
    fail_link(number, exit.faults);
    GossipMessage message;
    message.peer = each.other;
    message.tag = place_.tag;
    message.flags = link_failed;
    exit.sends.send(message);
  }
}
template <class Real>
void GossipLinks<Real>::fail_link(int number, GossipFaultInjector& faults) {
  at(number).failed = true;
  state_.on_failure(number);
  faults.note_failed_link(end(number));
}

template <class Real>
void GossipLinks<Real>::on_failure(Rank rank) {
  const int number = link_of(rank);
  if (number >= 0 && state_.is_live(number)) state_.on_failure(number);
}

// A turn is counted however it is used. Otherwise the two ends' counts would drift apart (see choose()).
template <class Real>
void GossipLinks<Real>::give_turn(Link& link, GossipMessage& message) {
  link.my_turn = false;
  link.turns += has_met_;
  message.number = link.turns;
}

template <class Real>
void GossipLinks<Real>::push_to(int number, Exit exit) {
  exit.sends.rows().clear_sends();
  state_.push(number, exit.sends.rows());
  send_pushed(number, exit);
}

// pushed: the link on which the turn goes to the other end; what else there is are repairs.
template <class Real>
void GossipLinks<Real>::send_pushed(int pushed, Exit exit) {
  for (const auto& each : exit.sends.rows().sends()) {
    Link& link = at(each.link);
    if (link.failed || link.lasts_sent > stage_)
      continue;  // we have said our last word there: it is as if this were lost
    GossipMessage message;
    ++link.sent;
    message.era = each.era;
    message.ack = each.ack;
    // Where the row is lost, the message still says that there was one, and passes the turn.
    const bool survives = exit.faults.survives_the_way(exit.sends.rows().row(each));
    if (survives) message.flags |= carries_row;
    if (each.link == pushed) {
      message.flags |= passes_turn;
      give_turn(link, message);
    }
    if (survives)
      send(each.link, message, {each.begin, each.length}, exit);
    else
      send(each.link, message, {}, exit);
  }
}

// ---- settling

template <class Real>
bool GossipLinks<Real>::settle(Exit exit) {
  bool complete = true;
  for (int number : live()) {
    Link& link = at(number);
    if (link.dones_sent <= stage_) say(number, is_done | (link.my_turn ? passes_turn : 0), exit);
    if (is_closed(link) && link.lasts_sent <= stage_) say(number, is_last, exit);
    complete = complete && link.lasts_sent > stage_ && link.lasts_received > stage_ && link.received == link.promised &&
               !link.unwritten;
  }
  return complete;
}
template <class Real>
void GossipLinks<Real>::say(int number, int flags, Exit exit) {
  Link& link = at(number);
  GossipMessage message;
  if ((flags & is_last) != 0) message.number = link.sent;
  message.flags = static_cast<std::uint8_t>(flags);
  if ((flags & passes_turn) != 0) give_turn(link, message);
  ++((flags & is_last) != 0 ? link.lasts_sent : link.dones_sent);
  send(number, message, {}, exit);
}
template <class Real>
void GossipLinks<Real>::answer_if_due(int number, Exit exit) {
  Link& link = at(number);
  if (!link.my_turn || link.dones_sent <= stage_ || is_closed(link)) return;
  push_to(number, exit);
  if (!link.my_turn) return;
  GossipMessage message;  // there was nothing to push
  ++link.sent;
  message.flags = passes_turn;
  give_turn(link, message);
  send(number, message, {}, exit);
}

// ---- what arrives

template <class Real>
void GossipLinks<Real>::on_message(const GossipMessage& message, ConstMass<Real> row, Exit exit) {
  const int number = link_of(message.peer);
  if (number < 0) return;
  Link& link = at(number);
  if (link.failed) return;
  if (message.has(link_failed)) return fail_link(number, exit.faults);
  if (message.has(passes_turn)) take_turn(link, message.number);
  if (message.has(is_done)) {
    ++link.dones_received;
    return;
  }
  if (message.has(is_last)) {
    ++link.lasts_received;
    link.promised = message.number;
    return;
  }
  ++link.received;
  // A greeting is no push. If each of them were answered by one, so many pushes would be on their way for ever.
  heard_ = heard_ || !row.empty() || message.number > 0;
  if (row.size() == state_.row_length()) take_row({number, message.era, message.ack, row}, exit);
  answer_if_due(number, exit);
}
template <class Real>
void GossipLinks<Real>::take_row(const GossipArrival<Real>& arrival, Exit exit) {
  exit.sends.rows().clear_sends();
  state_.on_message(arrival, exit.sends.rows());
  send_pushed(-1, exit);  // repairs
}

template <class Real>
void GossipLinks<Real>::on_shown(int number, const GossipLinkState& shown, ConstMass<Real> row, bool is_clear,
                                 Exit exit) {
  Link& link = at(number);
  const bool has_row = brings_row(number, shown),
             has_turn = ((shown.turns ^ link.theirs.turns) & GossipLinkState::passed) != 0;
  heard_ = heard_ || has_row || has_turn;
  if (has_turn) take_turn(link, shown.turns & ~GossipLinkState::passed);
  link.clear = is_clear;
  link.dones_received = shown.dones;
  link.lasts_received = shown.lasts;
  link.theirs = shown;
  if (has_row) take_row({number, shown.era, shown.ack, row}, exit);
  answer_if_due(number, exit);
  show_what_waits(number, exit.sends);
}

// ---- the way out

template <class Real>
void GossipLinks<Real>::send(int number, GossipMessage message, typename GossipSends<Real>::Row row, Exit exit) {
  row = exit.finish(row, message.flags);
  if (place_.one_sided) return show(number, message, row, exit.sends);
  message.peer = end(number);
  message.tag = place_.tag;
  if (row.length > 0) at(number).clear = false;
  exit.sends.send(message, number, row);
}

template <class Real>
void GossipLinks<Real>::show(int number, const GossipMessage& message, typename GossipSends<Real>::Row row,
                             GossipSends<Real>& sends) {
  Link& link = at(number);
  if (message.has(carries_row)) {
    ++link.mine.rows;
    link.mine.presence = message.has(carries_presence);
    link.mine.era = message.era;
    link.mine.ack = message.ack;
  }
  if (message.has(passes_turn)) link.mine.turns = (~link.mine.turns & GossipLinkState::passed) | message.number;
  link.mine.dones = static_cast<std::uint16_t>(link.mine.dones + message.has(is_done));
  link.mine.lasts = static_cast<std::uint16_t>(link.mine.lasts + message.has(is_last));
  if (link.clear && (row.length > 0 || link.row.empty())) {
    link.clear = link.unwritten = false;
    link.row.clear();
    return sends.show(number, link.mine, row);
  }
  link.unwritten = true;
  if (row.length > 0) {
    const auto values = sends.at(row);
    link.row.assign(values.begin(), values.end());
  }
  show_what_waits(number, sends);
}
template <class Real>
void GossipLinks<Real>::show_what_waits(int number, GossipSends<Real>& sends) {
  Link& link = at(number);
  if (!link.unwritten || !link.clear) return;
  link.clear = link.unwritten = false;
  sends.show(number, link.mine, sends.copy(link.row));
  link.row.clear();
}
template <class Real>
void GossipLinks<Real>::on_clear(int number, Exit exit) {
  at(number).clear = true;
  show_what_waits(number, exit.sends);
}

template class GossipLinks<float>;
template class GossipLinks<double>;

}  // namespace ucft::detail

#include "collectives/among/process_member.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::detail {

ProcessMember::ProcessMember(Place place, Journal& journal, Caller& caller, Buffers& buffers)
    : place_(std::move(place)),
      are_ranks_(place_.are_ranks()),
      host_((*place_.hosts)[static_cast<std::size_t>(place_.me)]),
      journal_(journal),
      caller_(caller),
      buffers_(buffers),
      process_({host_, place_.hosts->back() + 1, place_.window, place_.optimism, place_.long_bytes, are_ranks_,
                ranks_of(host_).end - ranks_of(host_).first > 1, place_.failing_together, place_.absent},
               buffers),
      let_go_(static_cast<std::size_t>(place_.hosts->back()) + 1),
      lets_us_go_(let_go_.size()),
      told_we_leave_(let_go_.size()) {
  last_gone_.resize(let_go_.size(), Gone::somehow);
  speaks_ = first_alive(host_) == place_.me;
  if (speaks_) process_.compute();
}

ProcessMember::Ranks ProcessMember::ranks_of(Host host) const {
  if (are_ranks_) return {host, host + 1};
  const std::vector<Host>& hosts = *place_.hosts;
  const auto first = std::lower_bound(hosts.begin(), hosts.end(), host);
  return {static_cast<Rank>(first - hosts.begin()),
          static_cast<Rank>(std::upper_bound(first, hosts.end(), host) - hosts.begin())};
}

Rank ProcessMember::first_alive(Host host) const {
  const Ranks ranks = ranks_of(host);
  for (Rank rank = ranks.first; rank < ranks.end; ++rank)
    if (!dead_.contains(rank)) return rank;
  return no_rank;
}

// ---- the journal ----------------------------------------------------------------------------------------------------

void ProcessMember::look() {
  read();
  if (!speaks_) return;
  send_new();
  go_on();
}

// A replica that lacks memory differs from the others: it tells its callers nothing.
void ProcessMember::read() {
  while (!lost()) {
    const JournalEntry* const entry = journal_.at(position_);
    if (entry == nullptr) break;
    ++position_;
    ended_ |= entry->what == JournalEntry::What::end;
    for (Leaver& each : leavers_)
      each.is_recorded |= entry->what == JournalEntry::What::leave && entry->about == each.host;
    if (entry->what == JournalEntry::What::failure) note_given_up(*entry);
    if (entry->what == JournalEntry::What::result)
      take_result(*entry);
    else
      process_.apply(*entry);
    if (lost()) break;
    report();
    if (!owed_.empty()) continue;
    process_.make_ready();
    report();
  }
  for (const Host host : process_.let_go()) {
    let_go_[static_cast<std::size_t>(host)] = true;
    if (speaks_) say(host, you_may_go, 0);
  }
  process_.let_go().clear();
}

// A bit for each rank of the host: whether it has failed, as this rank has heard. Others may have left.
std::vector<std::byte> ProcessMember::failed_of(Host host) const {
  const Ranks ranks = ranks_of(host);
  std::vector<std::byte> bits(static_cast<std::size_t>(ranks.end - ranks.first + 7) / 8);
  for (Rank rank = ranks.first; rank < ranks.end; ++rank) {
    const auto place = static_cast<std::size_t>(rank - ranks.first);
    if (failed_.contains(rank)) bits[place / 8] |= std::byte{1} << place % 8;
  }
  return bits;
}

void ProcessMember::note_given_up(const JournalEntry& entry) {
  const Ranks ranks = ranks_of(entry.about);
  for (std::size_t place = 0; place < entry.list.size() * 8; ++place) {
    const Rank rank = ranks.first + static_cast<Rank>(place);
    const bool has_failed = (entry.list[place / 8] >> place % 8 & std::byte{1}) != std::byte{0};
    if (has_failed && !dead_.contains(rank) && UCFT_SOMETIMES("a log gives up a rank that its reader has not lost"))
      caller_.on_given_up(rank);
  }
}

void ProcessMember::report() {
  // A decision has named this process as dead. It is the others' result: this rank is to learn that it is out.
  if (process_.window().is_out()) {
    if (!process_.completed().empty()) UCFT_SOMETIMES("a decision that takes this rank for dead comes to it");
    return process_.clear_completed();
  }
  bool any = false;
  for (OperationNumber number : process_.completed()) {
    const OperationNumber call = process_.call_of(number);
    const Slice value = process_.operation(number).value();
    if (process_.has_long_result(number)) {
      buffers_.retain(value);
      owed_.push_back({call, number, value});
      continue;
    }
    any |= call != ProcessReplica::internal;
    caller_.on_completed(call, number, bytes_of(value));
  }
  process_.clear_completed();
  if (any && speaks_) journal_.wake();
}

std::span<const std::byte> ProcessMember::bytes_of(Slice value) const {
  if (!value) return {};
  return {buffers_.data(value), value.bytes};
}

void ProcessMember::take_result(const JournalEntry& entry) {
  const Owed owed = owed_.front();
  owed_.pop_front();
  assert(entry.from == owed.number && entry.value.size() == owed.value.bytes);
  if (speaks_)
    journal_.wake();
  else
    UCFT_SOMETIMES("a long result is taken where the speaker has it");
  caller_.on_completed(owed.call, owed.number, entry.value);
  buffers_.release(owed.value);
  process_.forget_unneeded();
}

void ProcessMember::record(const JournalEntry& entry) {
  journal_.append(position_, entry);
  read();
  send_new();
}

void ProcessMember::record_message(const Held& held) {
  JournalEntry entry;
  entry.what = JournalEntry::What::message;
  entry.message = held.message;
  entry.value = bytes_of(held.message.value);
  entry.block = held.message.value;
  if (held.message.list != no_buffer)
    entry.list = {buffers_.data(held.message.list), held.message.list_length * sizeof(std::uint32_t)};
  record(entry);
}

// Writes down what has come and is not written down yet.
void ProcessMember::go_on() {
  while (may_append() && (record_result() || record_failures() || record_leavers() || take_held())) {}
}

// Before all else: the callers of this host wait for it.
bool ProcessMember::record_result() {
  if (owed_.empty()) return false;
  const auto [call, number, value] = owed_.front();
  record({.what = JournalEntry::What::result, .value = bytes_of(value), .block = value, .from = number});
  return true;
}

// Writes down that a host is gone, all of whose ranks are gone. False: there is none.
bool ProcessMember::record_failures() {
  while (!dead_hosts_.empty()) {
    const auto [host, how] = dead_hosts_.back();
    dead_hosts_.pop_back();
    if (process_.window().failed().contains(host) && UCFT_SOMETIMES("a host is gone that is known to be so")) continue;
    const bool has_left = how == Gone::left || how == Gone::left_needed;
    if (how == Gone::left_needed) UCFT_SOMETIMES("a host has left whose last one may have been needed");
    const std::vector<std::byte> failed = has_left ? std::vector<std::byte>() : failed_of(host);
    record({.what = has_left ? JournalEntry::What::left : JournalEntry::What::failure,
            .list = failed,
            .about = host,
            .was_needed = how == Gone::left_needed});
    return true;
  }
  return false;
}

bool ProcessMember::record_leavers() {
  const auto found = std::ranges::find(leavers_, false, &Leaver::is_recorded);
  if (found == leavers_.end()) return false;
  found->is_recorded = true;
  record({.what = JournalEntry::What::leave, .about = found->host, .from = found->from});
  return true;
}

// Takes in the first packet that it can take in now. A late one is forgotten, an early one is kept. False: there is
// none.
bool ProcessMember::take_held() {
  for (std::size_t i = 0; i < held_.size();) {
    const Held held = held_[i];
    const auto admission = process_.admission(held.message.peer, held.place, held.message.operation);
    if (admission == ProcessReplica::Admission::later) {
      UCFT_SOMETIMES("a packet is too early, and kept");
      ++i;
      continue;
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    if (admission == ProcessReplica::Admission::now) record_message(held);
    buffers_.release(held.message.value);
    buffers_.release(held.message.list);
    if (admission == ProcessReplica::Admission::now) return true;
  }
  return false;
}

// ---- events ---------------------------------------------------------------------------------------------------------

void ProcessMember::on_contribution(const ProcessContribution& contribution) {
  record({.what = JournalEntry::What::contribution, .contribution = &contribution, .from = contribution.call});
  go_on();
}

bool ProcessMember::on_packet(Rank from, std::uint32_t place, const Message& message) {
  on_failures(ranks_of(message.peer).first, from, Gone::somehow);
  if (place == you_may_go) lets_us_go_[static_cast<std::size_t>(message.peer)] = true;
  if (place == we_leave) on_leave_word(message.peer, message.operation);
  if (is_word(place)) return true;
  if (process_.admission(message.peer, place, message.operation) == ProcessReplica::Admission::late &&
      UCFT_SOMETIMES("a packet comes again, and is dropped"))
    return false;
  buffers_.retain(message.value);
  buffers_.retain(message.list);
  held_.push_back({place, message});
  if (speaks_) go_on();
  keep_last_held();
  return true;
}

// It has finished all that it has posted, and needs nothing. A rank alone says so twice, and a third time if it has
// gone: so each is answered once.
void ProcessMember::on_leave_word(Host host, OperationNumber from, bool is_gone) {
  lets_us_go_[static_cast<std::size_t>(host)] = true;
  if (is_gone) told_we_leave_[static_cast<std::size_t>(host)] = true;
  if (std::ranges::find(leavers_, host, &Leaver::host) == leavers_.end()) leavers_.push_back({host, from});
  if (!speaks_) return;
  if (let_go_[static_cast<std::size_t>(host)] && !are_ranks_ &&
      UCFT_SOMETIMES("a leaver is told once more that it may go"))
    say(host, you_may_go, 0);  // a speaker before this one may not have come to that
  go_on();
}

// Memory that was lent is given back soon.
void ProcessMember::keep_last_held() {
  if (held_.empty()) return;
  Slice& value = held_.back().message.value;
  if (!value || !buffers_.is_adopted(value.buffer)) return;
  const BufferId copy = buffers_.copy_anywhere(buffers_.data(value), value.bytes);
  lost_ |= copy == no_buffer;
  buffers_.release(std::exchange(value, copy == no_buffer ? Slice{} : buffers_.whole(copy)));
}

// Ranks of one host. News of several may come in any order. So a host that has lost a rank, and whose others have left,
// may have been needed: the lost one may have been its last.
void ProcessMember::on_failures(Rank first, Rank end, Gone how) {
  bool is_news = false;
  const Host host = host_of(first);
  Gone& last = last_gone_[static_cast<std::size_t>(host)];
  const bool may_be_needed = last == Gone::failed || last == Gone::left_needed;
  if (how != Gone::somehow) last = how == Gone::left && may_be_needed ? Gone::left_needed : how;
  const Rank spoke = first_alive(host);
  for (Rank rank = first; rank < end; ++rank) {
    is_news |= dead_.insert(rank);
    if (how == Gone::failed) failed_.insert(rank);
  }
  if (!is_news) return;
  const Rank speaks = first_alive(host);
  if (speaks == no_rank && UCFT_SOMETIMES("the last rank of a host is gone")) dead_hosts_.push_back({host, last});
  if (!speaks_ && host == host_ && speaks == place_.me) {
    read();
    speaks_ = has_taken_over_ = true;
    if (!held_.empty()) UCFT_SOMETIMES("a deputy takes over with packets that are not taken in yet");
    if (!owed_.empty()) UCFT_SOMETIMES("a deputy takes over while its callers are owed a result");
    UCFT_SOMETIMES("a deputy takes over");
    process_.compute();
    send_new();  // all
  } else if (speaks_ && host != host_ && speaks != spoke && speaks != no_rank &&
             !let_go_[static_cast<std::size_t>(host)]) {
    send_again(host);
    UCFT_SOMETIMES("packets are sent again to the next speaker of a host");
    told_we_leave_[static_cast<std::size_t>(host)] = false;
    say_that_we_leave();
  }
  if (speaks_) go_on();
}

void ProcessMember::on_turn(std::int64_t now_ns, bool may_gossip) {
  record({.what = JournalEntry::What::turn, .may_gossip = may_gossip, .now_ns = now_ns});
  go_on();
}

bool ProcessMember::say_waiting() {
  if (!may_append()) return false;
  record({.what = JournalEntry::What::waiting});
  go_on();
  return true;
}

// ---- leaving --------------------------------------------------------------------------------------------------------

void ProcessMember::say(Host to, std::uint32_t place, OperationNumber operation) {
  const Rank rank = first_alive(to);
  if (rank == no_rank) return;
  Message word;
  word.operation = operation;
  word.peer = to;
  outbox_.push_back({rank, place, word});
}

// A new speaker says it again.
void ProcessMember::say_that_we_leave() {
  if (!speaks_ || !process_.window().has_left()) return;
  for (Host host = 0; host < static_cast<Host>(told_we_leave_.size()); ++host) {
    if (host == host_ || told_we_leave_[static_cast<std::size_t>(host)]) continue;
    told_we_leave_[static_cast<std::size_t>(host)] = true;
    say(host, we_leave, process_.window().next());
  }
}

bool ProcessMember::leave() {
  if (!speaks_ || ended_) return ended_;
  if (!process_.window().has_left() && process_.window().idle() && may_append())
    record({.what = JournalEntry::What::leave, .about = host_});
  say_that_we_leave();
  go_on();
  if (!process_.window().has_left() || !process_.window().idle() || !may_append()) return ended_;
  for (Host host = 0; host < static_cast<Host>(lets_us_go_.size()); ++host)
    if (host != host_ && !lets_us_go_[static_cast<std::size_t>(host)] && !has_gone(host)) return false;
  UCFT_SOMETIMES("the last entry of a log is written");
  record({.what = JournalEntry::What::end});
  return ended_;
}

// ---- speaking -------------------------------------------------------------------------------------------------------

// A new speaker sends all packets.
void ProcessMember::send_new() {
  if (lost()) return;  // what it would say is not what its host has written down
  sent_upto_ = std::max(sent_upto_, process_.packets_begin());
  for (; sent_upto_ < process_.packets_end(); ++sent_upto_) send(sent_upto_);
  process_.note_sent();
  if (has_taken_over_) tell_awaited();
}

// A new speaker tells the hosts that it waits for: they may have sent to its predecessor what that one never wrote
// down. Their next ranks hear it, too: their speakers may be as dead.
void ProcessMember::tell_awaited() {
  const OperationWindow& window = process_.window();
  for (OperationNumber number = window.dropped_upto(); number < window.next(); ++number) {
    if (window.operation(number).finished()) continue;
    for (Host host : window.operation(number).awaited()) {
      if (std::ranges::find(told_, host) != told_.end()) continue;
      told_.push_back(host);
      UCFT_SOMETIMES("a new speaker asks a host for what its predecessor did not write down");
      Message word;
      word.operation = number;
      word.peer = host;
      const Ranks ranks = ranks_of(host);
      for (Rank rank = ranks.first, words = 0; rank < ranks.end && words < 2; ++rank)
        if (!dead_.contains(rank)) outbox_.push_back({rank, i_speak, word}), ++words;
    }
  }
}

void ProcessMember::send(std::uint64_t number) {
  const ProcessReplica::Packet& packet = process_.packet(number);
  const Rank to = first_alive(packet.to);
  if (to == no_rank || packet.message.operation < process_.window().dropped_upto()) return;
  buffers_.retain(packet.message.value);
  buffers_.retain(packet.message.list);
  outbox_.push_back({to, packet.place, packet.message});
}

void ProcessMember::send_again(Host host) {
  for (std::uint64_t number = process_.packets_begin(); number < sent_upto_; ++number)
    if (process_.packet(number).to == host) send(number);
}

// ---- results --------------------------------------------------------------------------------------------------------

std::vector<Rank> ProcessMember::awaited(OperationNumber call) const {
  if (process_.calls() <= call || !owed_.empty())
    return speaks_ ? std::vector<Rank>() : std::vector<Rank>{first_alive(host_)};
  const OperationWindow& window = process_.window();
  const OperationNumber number = window.finished_upto();
  std::vector<Rank> ranks;
  if (number == window.next()) return ranks;
  for (Host host : window.operation(number).awaited()) ranks.push_back(first_alive(host));
  std::erase(ranks, no_rank);
  return ranks;
}

bool ProcessMember::missing(OperationNumber number, std::vector<Rank>& ranks) const {
  const Operation& operation = process_.operation(number);
  const Decision& decision = operation.decision();
  ranks = process_.missing_before(number);
  const auto add_host = [&](Host host) {
    const Ranks all = ranks_of(host);
    for (Rank rank = all.first; rank < all.end; ++rank) ranks.push_back(rank);
  };
  for (Host host : operation.members().excluded()) add_host(host);
  const auto* list = reinterpret_cast<const std::uint32_t*>(buffers_.data(decision.list));
  for (std::uint32_t i = 0; i < decision.list_length; ++i) {
    if ((list[i] & of_living_host) != 0)
      ranks.push_back(static_cast<Rank>(list[i] & ~of_living_host));
    else if ((list[i] & contributed_bit) == 0)
      add_host(static_cast<Host>(list[i]));
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return !decision.truncated;
}

Rank ProcessMember::culprit(OperationNumber number) const {
  const Rank blamed = process_.operation(number).decision().culprit;
  const Host hosts = place_.hosts->back() + 1;
  return blamed == no_rank ? no_rank : blamed < hosts ? ranks_of(blamed).first : blamed - hosts;
}

void ProcessMember::release_all() {
  for (const Owed& owed : std::exchange(owed_, {})) buffers_.release(owed.value);
  for (const Held& held : std::exchange(held_, {})) {
    buffers_.release(held.message.value);
    buffers_.release(held.message.list);
  }
  process_.release_all();
}

}  // namespace ucft::detail

#include "ucx_layer/observer/job_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "collectives/catalogue/catalogue.hpp"
#include "collectives/reduction/types.hpp"
#include "timeout_detector/addresses.hpp"
#include "timeout_detector/departures.hpp"
#include "ucx_layer/transport/communicator_id.hpp"
#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail {

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t least_silence_ns = std::chrono::nanoseconds(50ms).count();
constexpr std::int64_t between_waits_ns = std::chrono::nanoseconds(50ms).count();  // at most, of who waits in slices

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

// ---- reading --------------------------------------------------------------------------------------------------------

void take_rank_and_ranks(std::uint64_t word, PartView& part) {
  part.rank = static_cast<Rank>(word >> 32);
  part.ranks = static_cast<Rank>(word & 0xffffffff);
}

// A note that is damaged, or of a later version, may name no collective.
const CatalogueRow& row_in(const HostNote& note) {
  static constexpr CatalogueRow something{Kind{kind_count}, "something", Who::nobody, Who::nobody, {}, {}, {}};
  return static_cast<int>(kind_in(note)) < posted_kind_count ? row_of(kind_in(note)) : something;
}

// The root that a note of `owner` names. The note of a broadcast names it on the ranks that get the data. A rank that
// gives the data is the root itself.
Rank root_in(const HostNote& note, Rank owner) {
  if (!row_in(note).from_root()) return no_rank;
  return (note.count & HostNote::is_root) == 0 ? owner : static_cast<Rank>(note.count & ~HostNote::is_root);
}

// Of a slab at that offset. Empty: it has just been made.
std::optional<PartView> read_slab(const ReadMemory& memory, std::uint64_t offset) {
  HostWord line[HostLayout::first_bank()] = {};
  if (!memory(offset, line)) return std::nullopt;
  PartView part;
  take_rank_and_ranks(line[HostLayout::rank_and_ranks()], part);
  if (part.ranks == 0) return std::nullopt;
  part.posted_at_ns = static_cast<std::int64_t>(line[HostLayout::posted_at()]);
  part.finished = line[HostLayout::through()];
  const std::uint64_t stride = line[HostLayout::stride_and_banks()] >> 32,
                      banks = line[HostLayout::stride_and_banks()] & 0xffffffff;
  for (std::uint64_t bank = 0; bank < banks; ++bank) {
    HostWord stamp_and_note[2] = {}, bytes[1] = {}, stamp_after[1] = {};
    const std::uint64_t place = offset + (HostLayout::first_bank() + bank * stride) * sizeof(HostWord);
    if (!memory(place, stamp_and_note) || !memory(place + 4 * sizeof(HostWord), bytes) || !memory(place, stamp_after))
      break;
    if (stamp_and_note[0] == 0 || stamp_and_note[0] != stamp_after[0]) continue;  // or it is posted again meanwhile
    PartView::Posted posted{stamp_and_note[0] - 1, HostNote::of(stamp_and_note[1]), no_rank, bytes[0]};
    const std::uint64_t reduce = line[HostLayout::root_of_reduce()];
    posted.root = row_in(posted.note).to_root() && reduce >> 32 == (posted.number & 0xffffffff)
                      ? static_cast<Rank>(reduce & 0xffffffff)
                      : root_in(posted.note, part.rank);
    part.latest.push_back(posted);
    part.posted = std::max<OperationNumber>(part.posted, stamp_and_note[0]);
  }
  part.finished = std::min(part.finished, part.posted);
  return part;
}

// base: address of the control page in its owner.
void read_slabs(const ReadMemory& memory, std::uint64_t base, RankView& view) {
  std::vector<std::uint64_t> page(sizeof(SlabPage) / sizeof(std::uint64_t));
  for (std::uint64_t offset = FirstSegment::slabs_offset(); memory(offset, page); offset = page[0] - base) {
    for (std::size_t entry = 1; entry <= SlabPage::size; ++entry) {
      const std::uint64_t key = page[2 * entry], address = page[2 * entry + 1];
      if (key == 0) continue;
      const auto communicator = static_cast<std::uint32_t>((key & ~SlabEntry::closed) - 1);
      if (communicator_id::place_in(communicator) >= communicator_id::on_host) continue;  // the caller's is published
      auto& parts = (key & SlabEntry::closed) != 0 ? view.left_parts : view.parts;
      if (auto part = read_slab(memory, address - base)) parts[communicator] = std::move(*part);
    }
    if (page[0] == 0) return;
  }
}

void read_messages(const ControlPage& control, RankView& view) {
  for (const PostedByMessages& each : control.by_messages) {
    const std::uint64_t key = each.key.load(std::memory_order_relaxed);
    if (key == 0) continue;
    PartView part;
    take_rank_and_ranks(each.rank_and_ranks.load(std::memory_order_relaxed), part);
    part.by_messages = true;
    part.posted = each.posted.load(std::memory_order_relaxed);
    part.finished = std::min(each.finished.load(std::memory_order_relaxed), part.posted);
    part.posted_at_ns = each.posted_at_ns.load(std::memory_order_relaxed);
    if (part.posted > 0) {
      const HostNote note = HostNote::of(each.note.load(std::memory_order_relaxed));
      const auto root = static_cast<Rank>(each.root.load(std::memory_order_relaxed));
      part.latest.push_back(
          {part.posted - 1, note, row_in(note).rooted() ? root : no_rank, each.bytes.load(std::memory_order_relaxed)});
    }
    view.parts[static_cast<std::uint32_t>(key - 1)] = std::move(part);
  }
}

void read_seats(const SeatWords& seats, RankView& view) {
  const std::uint32_t port = seats.port.load(std::memory_order_acquire);
  if (port == 0) return;
  const std::uint64_t words[] = {seats.address[0].load(std::memory_order_relaxed),
                                 seats.address[1].load(std::memory_order_relaxed)};
  IpAddress address;
  static_assert(sizeof words == sizeof address);
  std::memcpy(address.data(), words, sizeof words);
  view.join_address = text_of(address, static_cast<std::uint16_t>(port));
  view.is_newcomer = seats.is_newcomer.load(std::memory_order_relaxed) != 0;
  for (std::int32_t seat = 0; seat < std::min(view.ranks, static_cast<std::int32_t>(SeatWords::most)); ++seat)
    if ((seats.empty[seat / 64].load(std::memory_order_relaxed) >> (seat % 64) & 1) != 0)
      view.empty_seats.push_back(seat);
}

// It may change meanwhile.
std::string read_name(const ReadMemory& memory, std::uint64_t place) {
  std::uint64_t words[ActivityWords::count] = {}, again[ActivityWords::count] = {};
  if (!memory(place, words) || !memory(place, again) || words[0] == 0 || !std::ranges::equal(words, again)) return {};
  const char* const name = reinterpret_cast<const char*>(words);
  return {name, ::strnlen(name, sizeof words)};
}

// ---- words ----------------------------------------------------------------------------------------------------------

std::size_t type_in(const HostNote& note) { return note.what / operator_count % type_count; }
std::size_t operator_in(const HostNote& note) { return note.what % operator_count; }

// "allreduce (sum of double, 8 bytes)", "broadcast (double, 8 bytes, from rank 1)"; roots are ranks of the
// communicator.
std::string words_of(const PartView::Posted& posted) {
  const HostNote& note = posted.note;
  const CatalogueRow& row = row_in(note);
  if (!row.has_data()) return row.name;
  std::string text = fmt::format("{} (", row.name);
  if (row.takes_operator()) text += fmt::format("{} of ", operator_rows[operator_in(note)].name);
  text += type_rows[type_in(note)].name;
  if (!row.from_root() || (note.count & HostNote::is_root) == 0) text += fmt::format(", {} bytes", posted.bytes());
  if (posted.root != no_rank) text += fmt::format(", {} rank {}", row.to_root() ? "to" : "from", posted.root);
  return text + ")";
}

// Blocks that land whole may differ, and so may what ranks give to an alltoallv. Of a broadcast its root alone says how
// long the data are. Of shares it is the sum of counts.
bool has_count_of_all(const CatalogueRow& row) {
  return (!row.has_own_lengths() || row.combines_landed()) && !row.from_root();
}

bool are_alike(const PartView::Posted& a, const PartView::Posted& b) {
  return a.note.signature == b.note.signature && (!has_count_of_all(row_in(a.note)) || a.bytes() == b.bytes());
}

// "the roots differ", of two operations that are not alike. Fields that are in no note show in the signature only.
std::string fields_that_differ(const PartView::Posted& a, const PartView::Posted& b) {
  if (kind_in(a.note) != kind_in(b.note)) return "the operations differ";
  const CatalogueRow& row = row_in(a.note);
  std::vector<const char*> fields;
  if (type_in(a.note) != type_in(b.note)) fields.push_back("types");
  if (row.takes_operator() && operator_in(a.note) != operator_in(b.note)) fields.push_back("operators");
  if (has_count_of_all(row) && a.bytes() != b.bytes()) fields.push_back("counts");
  if (a.root != no_rank && b.root != no_rank && a.root != b.root) fields.push_back("roots");
  if (!fields.empty()) return fmt::format("the {} differ", fmt::join(fields, " and "));
  if (row.to_root() && (a.root == no_rank || b.root == no_rank)) fields.push_back("roots");
  if (!has_count_of_all(row) || row.has_shares()) fields.push_back("counts");
  if (fields.empty()) return "f or other options differ";
  return fmt::format("the {}, f or other options differ", fmt::join(fields, ", "));
}

const char* words_of(ProcessState state) {
  switch (state) {
    case ProcessState::runnable: return " (runs, or waits for a processor)";
    case ProcessState::blocked: return " (waits for a page or a device)";
    case ProcessState::sleeping: return " (sleeps in a system call)";
    default: return "";
  }
}

}  // namespace

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const char* name_of(Doing doing) {
  switch (doing) {
    case Doing::computes: return "computes";
    case Doing::in_operation: return "in an operation";
    case Doing::mismatched: return "mismatched";
    case Doing::stopped: return "stopped";
    case Doing::silent: return "silent";
    case Doing::dead: return "dead";
    case Doing::out: return "out of the job";
    case Doing::left: return "has left";
    case Doing::unknown: break;
  }
  return "unknown";
}

const PartView::Posted* PartView::find(OperationNumber number) const {
  const auto found = std::ranges::find(latest, number, &Posted::number);
  return found == latest.end() ? nullptr : &*found;
}

bool RankView::is_waiting(std::int64_t now_ns) const {
  return waits_since_ns != 0 || (waited_until_ns != 0 && now_ns - waited_until_ns < between_waits_ns);
}

bool RankView::read(const ReadMemory& memory) {
  alignas(64) std::uint64_t page[sizeof(ControlPage) / sizeof(std::uint64_t)];
  if (!memory(0, page)) return false;
  const auto& control = *reinterpret_cast<const ControlPage*>(page);
  if (control.ranks <= 0) return false;
  cookie = control.cookie;
  rank = control.rank;
  ranks = control.ranks;
  own_pid = control.pid;
  const std::uint32_t mark = control.left.load(std::memory_order_relaxed);
  has_left = mark == static_cast<std::uint32_t>(Departures::Mark::left) ||
             mark == static_cast<std::uint32_t>(Departures::Mark::left_early);
  is_out = mark == static_cast<std::uint32_t>(Departures::Mark::out);
  heard_at_ns = control.beat_at_ns.load(std::memory_order_relaxed);
  silent_after_ns = std::max(5000 * static_cast<std::int64_t>(control.heartbeat_period_us), least_silence_ns);
  waits_since_ns = control.waits_since_ns.load(std::memory_order_relaxed);
  waited_until_ns = control.waited_until_ns.load(std::memory_order_relaxed);
  connections = control.connections.load(std::memory_order_relaxed);
  lifelines = control.lifelines.load(std::memory_order_relaxed);
  mailboxes = control.mailboxes.load(std::memory_order_relaxed);
  mailbox_bytes = control.mailbox_bytes.load(std::memory_order_relaxed);
  read_seats(control.seats, *this);
  waits_in = read_name(memory, offsetof(ControlPage, waits_in));
  activity = read_name(memory, offsetof(ControlPage, activity));
  read_messages(control, *this);
  read_slabs(memory, control.address, *this);
  return true;
}

// ---- who waits for whom ---------------------------------------------------------------------------------------------

std::vector<std::int32_t> JobView::awaited_by(std::int32_t rank, std::uint32_t communicator) const {
  std::vector<std::int32_t> late;
  const RankView& waiting = ranks.at(rank);
  const auto own = waiting.parts.find(communicator);
  if (own == waiting.parts.end() || !own->second.is_in_operation()) return late;
  const OperationNumber number = own->second.finished;
  const PartView::Posted* const posted = own->second.find(number);
  Pattern pattern = Allreduce::row.pattern();  // by messages, or if it is not known: all need all
  if (posted != nullptr && !own->second.by_messages) pattern = row_in(posted->note).pattern();
  for (const auto& [other, view] : ranks) {
    const auto part = view.parts.find(communicator);
    if (part == view.parts.end() || part->second.posted > number || view.has_failed || view.has_left || view.is_out)
      continue;
    if (pattern.from_root() && part->second.rank != posted->root) continue;
    if (pattern.is_prefix && part->second.rank > own->second.rank) continue;
    if (view.is_afar && std::ranges::find(own->second.needs, other) == own->second.needs.end()) continue;
    late.push_back(other);
  }
  return late.empty() ? own->second.needs : late;
}

// chain: how it comes to that, at its end. seen: from whom it doesn't.
bool JobView::waits_for(std::int32_t from, std::int32_t whom, std::vector<std::int32_t>& seen,
                        std::vector<Link>& chain) const {
  seen.push_back(from);
  if (!ranks.at(from).is_waiting(now_ns)) return false;
  for (const auto& [communicator, part] : ranks.at(from).parts)
    for (std::int32_t next : awaited_by(from, communicator)) {
      chain.push_back({next, communicator});
      if (next == whom || (std::ranges::find(seen, next) == seen.end() && waits_for(next, whom, seen, chain)))
        return true;
      chain.pop_back();
    }
  return false;
}

// It waits in one communicator for a rank that waits for it in another, or for one that does. That is a circle, if all
// are inside waits. The communicator in which fewer ranks wait is the wrong one. (A rank that has only posted an
// operation can still post another.)
std::string JobView::crosses(const RankView& view) const {
  const auto waiting_in = [&](std::uint32_t communicator) {
    return std::ranges::count_if(ranks, [&](const auto& each) {
      const auto part = each.second.parts.find(communicator);
      return each.second.is_waiting(now_ns) && part != each.second.parts.end() && part->second.is_in_operation();
    });
  };
  if (!view.is_waiting(now_ns)) return {};
  for (const auto& [communicator, part] : view.parts)
    for (std::int32_t other : awaited_by(view.rank, communicator)) {
      std::vector<std::int32_t> seen;
      std::vector<Link> chain;
      if (!waits_for(other, view.rank, seen, chain) || chain.front().communicator == communicator ||
          waiting_in(communicator) > waiting_in(chain.front().communicator))
        continue;
      std::string text = fmt::format("waits in communicator {} for rank {}", communicator, other);
      for (const Link& link : chain)
        text += link.awaited == view.rank
                    ? fmt::format(", which waits for it in communicator {}", link.communicator)
                    : fmt::format(", which waits in communicator {} for rank {}", link.communicator, link.awaited);
      return text;
    }
  return {};
}

// The first operation that it has posted that differs from what most have posted under that number, and that some rank
// is in. (It may have been through, and have gone on.)
std::string JobView::differs_in(std::uint32_t communicator, const PartView& part) const {
  std::vector<PartView::Posted> own = part.latest;
  std::ranges::sort(own, {}, &PartView::Posted::number);
  for (const PartView::Posted& each : own)
    if (std::string differs = differs_at(communicator, each); !differs.empty()) return differs;
  return {};
}

std::string JobView::differs_at(std::uint32_t communicator, const PartView::Posted& own) const {
  const OperationNumber number = own.number;
  struct Group {
    const PartView::Posted* posted;
    int members = 0;
  };
  std::vector<Group> groups;
  bool is_under_way = false;
  for (const auto& [rank, view] : ranks) {
    const auto found = view.parts.find(communicator);
    if (found == view.parts.end() || view.has_failed || view.has_left || view.is_out) continue;
    const PartView::Posted* const posted = found->second.find(number);
    if (posted == nullptr) continue;
    is_under_way = is_under_way || found->second.finished <= number;
    auto group = std::ranges::find_if(groups, [&](const Group& each) { return are_alike(*each.posted, *posted); });
    if (group == groups.end()) group = groups.insert(groups.end(), {posted});
    ++group->members;
  }
  if (groups.size() < 2 || !is_under_way) return {};
  const Group& most = *std::ranges::max_element(groups, {}, &Group::members);  // the first of equals
  if (are_alike(*most.posted, own)) return {};
  return fmt::format("has posted {} as operation {}, and {} other rank{} {}: {}", words_of(own), number, most.members,
                     most.members == 1 ? "" : "s", words_of(*most.posted), fields_that_differ(own, *most.posted));
}

std::string JobView::difference(std::int32_t rank, std::int32_t from, std::uint32_t communicator,
                                OperationNumber number) const {
  const auto posted_by = [&](std::int32_t each) -> const PartView::Posted* {
    const RankView& view = ranks.at(each);
    const auto& parts = view.parts.contains(communicator) ? view.parts : view.left_parts;
    const auto part = parts.find(communicator);
    return part == parts.end() ? nullptr : part->second.find(number);
  };
  const PartView::Posted *const its = posted_by(rank), *const own = posted_by(from);
  if (its == nullptr || own == nullptr || are_alike(*its, *own)) return {};
  return fmt::format("has posted {}, and this rank {}: {}", words_of(*its), words_of(*own),
                     fields_that_differ(*its, *own));
}

std::string JobView::mismatch_of(std::int32_t rank) const {
  const RankView& view = ranks.at(rank);
  for (const auto& [communicator, part] : view.parts)
    if (std::string differs = differs_in(communicator, part); !differs.empty()) return differs;
  return crosses(view);
}

Doing JobView::doing(std::int32_t rank) const {
  const RankView& view = ranks.at(rank);
  if (view.has_left) return Doing::left;
  if (view.is_out) return Doing::out;
  if (view.has_failed || view.process == ProcessState::dead) return Doing::dead;
  if (view.process == ProcessState::stopped) return Doing::stopped;
  if (view.silent_after_ns != 0 && now_ns - view.heard_at_ns > view.silent_after_ns) return Doing::silent;
  if (!mismatch_of(rank).empty()) return Doing::mismatched;
  if (view.is_afar) return Doing::unknown;
  // Its operation may have all that it needs: then it has only to look.
  const bool waits = std::ranges::any_of(view.parts, [&](const auto& each) {
    return each.second.by_messages ? each.second.is_in_operation() : !awaited_by(rank, each.first).empty();
  });
  return waits || view.waits_since_ns != 0 ? Doing::in_operation : Doing::computes;
}

std::string JobView::words_about(std::int32_t rank) const {
  const RankView& view = ranks.at(rank);
  const Doing does = doing(rank);
  const bool is_inside = does == Doing::computes && !view.activity.empty();
  const bool waits_in_message = does == Doing::in_operation && !view.waits_in.empty();
  std::string text = is_inside ? "inside " + view.activity : waits_in_message ? "in a " + view.waits_in : name_of(does);
  if (does == Doing::computes) text += words_of(view.process);
  if (does == Doing::unknown) text += " (its memory can't be read from here)";
  if (does == Doing::mismatched) text += fmt::format(" ({})", mismatch_of(rank));
  if (view.heard_at_ns != 0)
    text += fmt::format(", last heard {:.2f} s ago", std::max(seconds(now_ns - view.heard_at_ns), 0.0));
  return text;
}

std::string JobView::last_posted(std::int32_t rank, std::uint32_t communicator) const {
  const PartView& part = ranks.at(rank).parts.at(communicator);
  const PartView::Posted* const last = part.posted == 0 ? nullptr : part.find(part.posted - 1);
  return last == nullptr ? "" : words_of(*last);
}

std::string JobView::words_about(std::int32_t rank, std::uint32_t communicator) const {
  const RankView& view = ranks.at(rank);
  const auto found = view.parts.find(communicator);
  if (found == view.parts.end()) return "what it has posted is not known";
  const PartView& part = found->second;
  if (part.is_heard_of) return fmt::format("{} posted at least", part.posted);
  std::string text = fmt::format("{} posted, {} finished", part.posted, part.finished);
  if (const std::string last = last_posted(rank, communicator); !last.empty()) {
    text += ", the last: " + last;
    if (part.posted_at_ns != 0)
      text += fmt::format(" {:.2f} s ago", std::max(seconds(now_ns - part.posted_at_ns), 0.0));
  }
  return text;
}

}  // namespace ucft::detail

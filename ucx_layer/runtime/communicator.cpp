#include "ucx_layer/runtime/communicator.hpp"

#include <algorithm>

#include "collectives/core/sometimes.hpp"
#include "collectives/models/gossip_model.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/runtime/engines/process_engine.hpp"

namespace ucft::detail {

Communicator::Communicator(Context& context, std::uint32_t id, std::vector<std::int32_t> ranks,
                           std::vector<Rank> absent)
    : absent_(std::move(absent)),
      context_(context),
      id_(id),
      ranks_(std::move(ranks)),
      me_(static_cast<std::int32_t>(std::ranges::find(ranks_, context.rank()) - ranks_.begin())) {
  bool identity = true;
  for (std::int32_t rank = 0; rank < size(); ++rank) identity = identity && context_rank(rank) == rank;
  if (!identity) {
    inverse_.assign(static_cast<std::size_t>(context.size()), -1);
    for (std::int32_t rank = 0; rank < size(); ++rank) inverse_[static_cast<std::size_t>(context_rank(rank))] = rank;
  }
  engine_ = make_engine();
  std::vector<Rank> hosts = engine_->hosts_by_rank();
  processes_ = hosts.empty() ? size() : *std::ranges::max_element(hosts) + 1;
  // Faults on purpose hit ranks, and links between ranks.
  if (!context.settings().gossip_faults.any()) gossip_hosts_ = std::move(hosts);
}

Communicator::~Communicator() = default;

bool Communicator::is_absent(Rank rank) const {
  return context_.job().is_absent(context_rank(rank)) || std::ranges::find(absent_, rank) != absent_.end();
}

std::unique_ptr<Engine> Communicator::make_engine() {
  if (!context_.host_work().reads_memory_of_all(ranks_)) return std::make_unique<ProcessEngine>(*this, context_);
  auto made = std::make_unique<HostEngine>(id_, ranks_, me_, context_);
  host_ = made.get();
  return made;
}

const BroadcastShape& Communicator::fastest_shape(std::uint64_t bytes) {
  if (host_ == nullptr && bytes != shape_bytes_) {
    shape_ = best_shape(context_.costs(), bytes);
    shape_bytes_ = bytes;
  }
  return shape_;
}

// A forecast takes milliseconds, so it is kept.
bool Communicator::prefers_gossip(std::uint64_t bytes) {
  if (host_ != nullptr) return false;
  constexpr std::size_t most_kept = 4096;
  if (prefers_gossip_.size() == most_kept) prefers_gossip_.clear();
  const auto [kept, is_new] = prefers_gossip_.try_emplace(bytes);
  if (is_new) {
    GossipCase given;
    given.size = processes();
    given.costs = context_.costs();
    given.bytes = bytes;
    kept->second = forecast_spread(given, fastest_shape(bytes)).gossip_is_faster();
  }
  return kept->second;
}

// A rank that waits for a late root asks it in vain. So a rank asks only after it has waited for ten times as long as
// all the questions and answers would take. A panic because of a late neighbour would go to all in vain, so it waits
// as long.
void Communicator::set_gossip(std::int64_t time_ns, Arguments& arguments) {
  if (host_ != nullptr) return;
  const GossipChoice choice{time_ns, arguments.bytes(), arguments.correction_distance, arguments.f,
                            arguments.correction};
  if (choice != gossip_choice_) {
    arguments.f = std::min(choice.f, processes() - 1);
    detail::set_gossip(context_.costs(), arguments.bytes(), processes(), time_ns, arguments);
    arguments.f = choice.f;
    arguments.gossip.ask_after_ns = 10'000'000 + 10'000 * std::int64_t{processes()};
    arguments.gossip.panic_after_ns = arguments.gossip.ask_after_ns;
    gossip_choice_ = choice;
    gossip_setting_ = arguments.gossip;
    gossip_distance_ = arguments.correction_distance;
  }
  arguments.gossip = gossip_setting_;
  arguments.correction_distance = gossip_distance_;
}

std::int32_t Communicator::rank_of(std::int32_t context_rank) const {
  if (context_rank < 0) return -1;
  if (inverse_.empty()) return context_rank < size() ? context_rank : -1;
  return inverse_[static_cast<std::size_t>(context_rank)];
}

ucft_status_t Communicator::post(Request& request) {
  if (context_.excluded()) return context_.why_excluded();
  return engine_->post(request);
}

// ---- leaving --------------------------------------------------------------------------------------------------------

void Communicator::leave() {
  has_left_ = true;
  if (gossip_ != nullptr) left_.gossip_from = gossip_->posted();
  if (quorum_ != nullptr) quorum_->leave();
  if (!context_.excluded()) engine_->leave(left_.gossip_from);
}

void Communicator::say_leaves(bool is_gone) {
  left_.from = engine_->leaves_from();
  for (std::int32_t rank : ranks_)
    if (rank != context_.rank() && !context_.is_gone(rank))
      context_.transport().send_control(rank, Control::leaves_communicator, id_,
                                        word_of(left_, is_gone, letters_to(rank_of(rank))));
  context_.transport().ring_doorbells();
}

void Communicator::on_leaves(std::int32_t leaver, const Left& left, bool is_gone, std::uint32_t letters) {
  const std::int32_t rank = rank_of(leaver);
  if (rank < 0 || context_.excluded()) return;
  note_gossip_leaver({rank, left.gossip_from});
  has_more_ = true;
  if (letters > 0 && letters > letters_of(rank).taken && UCFT_SOMETIMES("the word of a leaver overtakes its letters"))
    letters_of(rank).last = letters;
  else
    note_gone(rank, true);
  engine_->on_leaves(rank, left.from, is_gone);
}

void Communicator::on_let_go(std::int32_t by) {
  if (const std::int32_t rank = rank_of(by); rank >= 0) engine_->on_let_go(rank);
}

void Communicator::ask_whether_left(Rank rank) {
  Transport& transport = context_.transport();
  if (const std::int32_t peer = context_rank(rank); transport.is_unconnected(peer))
    transport.send_control(peer, Control::has_left, id_);
}

void Communicator::answer_whether_left(std::int32_t asker) {
  if (!has_left_ || rank_of(asker) < 0 || !engine_->has_said_leave()) return;
  context_.transport().send_control(asker, Control::leaves_communicator, id_,
                                    word_of(left_, false, letters_to(rank_of(asker))));
  context_.transport().ring_doorbells();
}

void Communicator::note_gossip_leaver(const GossipLeaver& leaver) {
  if (std::ranges::find(gossip_leavers_, leaver.rank, &GossipLeaver::rank) == gossip_leavers_.end() &&
      std::ranges::find(gossip_left_, leaver.rank) == gossip_left_.end())
    gossip_leavers_.push_back(leaver);
}

// Those that are not in any gossip operation that this rank has yet to finish take part in none any more. On a host
// what a rank has said stands in its memory.
void Communicator::note_gossip_leavers() {
  if (host_ != nullptr && ++gossip_turns_ % 64 == 0)
    for (Rank rank = 0; rank < size(); ++rank)
      if (const std::optional<OperationNumber> from = host_->gossip_left(rank)) note_gossip_leaver({rank, *from});
  std::erase_if(gossip_leavers_, [&](const GossipLeaver& each) {
    if (gossip_ == nullptr ? each.from > 0 : !gossip_->has_finished_before(each.from)) return false;
    gossip_left_.push_back(each.rank);
    if (gossip_ == nullptr) return true;
    for (Communicator* agreement : gossip_->agreements()) agreement->note_left(each.rank);
    gossip_->on_failure(each.rank);
    return true;
  });
}

JobView Communicator::view() const {
  JobView job = context_.view();
  const PublishedPart* const published = engine_->published();
  if (published == nullptr) return job;
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    RankView& view = job.ranks.at(context_rank(rank));
    const std::int64_t heard = engine_->heard_of(rank);
    if (!view.is_afar || heard < 0) continue;
    PartView& part = view.parts[id_];
    part.rank = rank;
    part.ranks = size();
    part.posted = part.finished = static_cast<OperationNumber>(heard);
    part.is_heard_of = part.by_messages = true;
  }
  for (Rank rank : published->awaited()) job.ranks.at(context_.rank()).parts[id_].needs.push_back(context_rank(rank));
  return job;
}

// ---- events ---------------------------------------------------------------------------------------------------------

void Communicator::on_message(const WireHeader& header, const Message& message) {
  if (context_.excluded()) return;  // our operations have ended
  if (message.phase == gossip_phase) [[unlikely]] {
    const Buffers& buffers = context_.transport().buffers();
    if (has_left_) return context_.communicators().note_stale();
    return gossip().on_message(parse_gossip(header), {buffers.data(message.value), message.value.bytes});
  }
  if (header.is_of_letter()) {
    if (has_left_ && header.is_of_quorum()) return answer_whether_left(context_rank(header.sender));
    if (has_left_ && UCFT_SOMETIMES("a message comes for a rank that has left"))
      return context_.communicators().note_stale();
    if (header.is_of_quorum())
      quorum().on_message(header, message);
    else
      point_to_point().on_message(header, message);
    if (Letters& its = letters_of(header.sender); ++its.taken == its.last) note_gone(header.sender, true);
    return;
  }
  if (host_ != nullptr) return context_.communicators().note_stale();
  engine_->on_message(header, message);
}

PointToPointDriver& Communicator::point_to_point() {
  if (point_to_point_ == nullptr) {
    point_to_point_ = std::make_unique<PointToPointDriver>(*this);
    note_all_gone();
  }
  return *point_to_point_;
}

QuorumDriver& Communicator::quorum() {
  if (quorum_ == nullptr) {
    quorum_ = std::make_unique<QuorumDriver>(*this);
    note_all_gone();
  }
  return *quorum_;
}

void Communicator::end_opening() {
  is_opening_ = false;
  if (point_to_point_ != nullptr || quorum_ != nullptr) note_all_gone();
}

// For a driver that was not there before.
void Communicator::note_all_gone() {
  if (is_opening_) return;
  context_.communicators().note_messages(*this);
  for (std::int32_t rank = 0; rank < size(); ++rank)
    if (context_.is_gone(context_rank(rank))) note_gone(rank, !context_.has_failed(context_rank(rank)));
  for (const Rank rank : std::vector<Rank>(leavers_)) note_gone(rank, true);
}

// It sends nothing more here, and what it has sent, and can come, has come.
void Communicator::note_gone(Rank rank, bool has_left) {
  if (has_left && !has_said_that_it_leaves(rank)) leavers_.push_back(rank);
  if (point_to_point_ != nullptr && !point_to_point_->is_gone(rank)) point_to_point_->on_gone(rank, has_left);
  if (quorum_ != nullptr) quorum_->on_gone(rank);
}

// On a host a rank that has left says so in its memory alone. Its messages are in this rank's memory by then.
void Communicator::note_left_on_host() {
  // A rank that only holds others' letters has few turns: its helper's.
  const bool waits = awaits_letters() || (quorum_ != nullptr && quorum_->has_pending());
  if (host_ == nullptr || (++letter_turns_ % 64 != 0 && waits)) return;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (rank == me_ || has_said_that_it_leaves(rank) || !host_->gossip_left(rank)) continue;
    UCFT_SOMETIMES("a rank has left a communicator on a host");
    context_.transport().drain(context_rank(rank));
    note_gone(rank, true);
  }
}

void Communicator::on_death(std::int32_t dead) {
  if (const std::int32_t rank = rank_of(dead); rank >= 0) engine_->on_death(rank);
}

void Communicator::on_failure(std::int32_t failed) {
  const std::int32_t rank = rank_of(failed);
  if (rank < 0 || context_.excluded()) return;
  engine_->on_failure(rank);
  if (gossip_ != nullptr) gossip_->on_failure(rank);
  note_gone(rank, false);
}

void Communicator::on_left(std::int32_t leaver, bool was_needed) {
  const std::int32_t rank = rank_of(leaver);
  if (rank < 0 || context_.excluded()) return;
  engine_->on_left(rank, was_needed);
  if (gossip_ != nullptr) gossip_->on_failure(rank);
  note_gone(rank, true);
}

GossipDriver& Communicator::gossip() {
  if (gossip_ == nullptr) {
    gossip_ = std::make_unique<GossipDriver>(*this);
    context_.communicators().note_gossip(*this);
    for (std::int32_t rank = 0; rank < size(); ++rank)
      if (context_.is_gone(context_rank(rank))) gossip_->on_failure(rank);
    for (Rank rank : gossip_left_) gossip_->on_failure(rank);
  }
  has_more_ = true;  // the caller is about to give it something
  return *gossip_;
}

void Communicator::send_aside(const GossipMessage& message, BufferId value) {
  context_.transport().send(context_rank(message.peer), message, context_.transport().buffers().whole(value),
                            {context_.cookie(), id_, 0, me_});
}

bool Communicator::on_turn() {
  if (context_.excluded()) return false;
  bool active = engine_->on_turn();
  if (!has_left_ && (!gossip_leavers_.empty() || (host_ != nullptr && gossip_ != nullptr))) note_gossip_leavers();
  if (gossip_ != nullptr) active |= gossip_->on_turn();
  if (awaits_letters() || awaits_quorum()) note_left_on_host();
  if (awaits_letters()) active |= point_to_point_->on_turn();
  if (awaits_quorum()) active |= quorum_->on_turn();
  has_more_ = gossip_ != nullptr && (gossip_->active() > 0 || (!gossip_leavers_.empty() && !has_left_));
  return active;
}

void Communicator::exclude_self(ucft_status_t why) {
  engine_->exclude_self(why);
  if (gossip_ != nullptr) gossip_->exclude_self(why);
  if (point_to_point_ != nullptr) point_to_point_->exclude_self(why);
  if (quorum_ != nullptr) quorum_->exclude_self(why);
}

}  // namespace ucft::detail

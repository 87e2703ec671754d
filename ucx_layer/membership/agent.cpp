#include "ucx_layer/membership/agent.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "timeout_detector/own_descriptors.hpp"
#include "timeout_detector/signals_blocked.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t version = UCFT_VERSION_MAJOR << 24 | UCFT_VERSION_MINOR << 8 | wire_version;
constexpr std::size_t most_visitors = 1024;
constexpr auto word_limit = 10s;  // for a visitor to say what it wants
constexpr auto gather_for = 2ms;  // more newcomers, before an epoch begins
constexpr auto start_limit = 5s;  // of a round of its start-up
constexpr auto first_pause = 50ms, longest_pause = 2000ms;
constexpr auto tick = 10ms;
constexpr auto accept_pause = 100ms;  // while no descriptor is left
constexpr int rounds_to_ask = 3;      // all members that are known, before nobody is there
constexpr auto pause_between_rounds = 200ms;
// Of a sponsor to those that wait: else they take it for lost, as if its host was. No connection ends then.
constexpr auto tell_each = 500ms, silence_limit = 3000ms;

bool contains(const std::vector<ListenerName>& all, const ListenerName& one) {
  return std::ranges::any_of(
      all, [&](const ListenerName& each) { return bootstrap::bytes_of(each) == bootstrap::bytes_of(one); });
}

std::string seats_text(const std::vector<std::int32_t>& seats) {
  std::string text;
  for (const std::int32_t seat : seats) text += fmt::format("{}{}", text.empty() ? "" : ", ", seat);
  return text;
}

}  // namespace

std::vector<ListenerName> Roster::living(std::int32_t but) const {
  std::vector<ListenerName> found;
  for (std::size_t rank = 0; rank < lives.size() && found.size() < most_members_named; ++rank)
    if (lives[rank] && static_cast<std::int32_t>(rank) != but) found.push_back(names[rank]);
  return found;
}

Agent::~Agent() {
  stop();
  if (wakes_ >= 0) close_own(wakes_);  // until then others may call wake()
}

bool Agent::open(std::string& error) {
  wakes_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakes_ < 0) {
    error = std::string("no descriptor for the thread that lets newcomers in: ") + std::strerror(errno);
    return false;
  }
  listener_ = listen_anywhere(name_, error);
  if (listener_ < 0) return false;
  note_own(wakes_);
  note_own(listener_);
  return true;
}

void Agent::apply_to(std::vector<ListenerName> members, std::int32_t wanted_seat) {
  first_ = std::move(members);
  wanted_seat_ = wanted_seat;
}

void Agent::start() {
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

void Agent::stop() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  while (!visitors_.empty()) drop(visitors_.begin()->first);
  server_.reset();
  for (int* const each : {&to_sponsor_, &listener_})
    if (const int descriptor = std::exchange(*each, -1); descriptor >= 0) close_own(descriptor);
}

void Agent::wake() {
  const std::uint64_t one = 1;
  if (wakes_ >= 0) [[maybe_unused]]
    const ssize_t written = write(wakes_, &one, sizeof one);
}

void Agent::run() {
  pthread_setname_np(pthread_self(), "ucft-members");
  while (!stopping_) step();
}

int Agent::wait_ms() const {
  const bool has_business =
      accept_after_ > Clock::now() || !visitors_.empty() || sponsor_.leads() || server_ != nullptr || !first_.empty();
  return has_business ? static_cast<int>(tick.count()) : -1;
}

void Agent::step() {
  const bool accepts = Clock::now() >= accept_after_;
  std::vector<pollfd> entries{{wakes_, POLLIN, 0}, {accepts ? listener_ : -1, POLLIN, 0}, {to_sponsor_, POLLIN, 0}};
  constexpr std::size_t own_entries = 3;
  for (const auto& [descriptor, visitor] : visitors_) entries.push_back({descriptor, POLLIN, 0});
  const std::size_t of_server = entries.size();
  if (server_ != nullptr) server_->add_poll_entries(entries, Clock::now());
  if (poll(entries.data(), entries.size(), wait_ms()) < 0) return;  // EINTR
  std::uint64_t count = 0;
  if (entries[0].revents != 0) [[maybe_unused]]
    const ssize_t taken = read(wakes_, &count, sizeof count);
  const auto now = Clock::now();
  for (std::size_t i = of_server; i < entries.size(); ++i)
    if (entries[i].revents != 0) server_->on_ready(entries[i].fd, entries[i].revents, now);
  if (server_ != nullptr) server_->on_timer(now);
  if (entries[2].revents != 0) listen_to_sponsor();
  for (std::size_t i = own_entries; i < of_server; ++i)
    if (entries[i].revents != 0) listen_to(entries[i].fd);
  if (entries[1].revents != 0) accept_all();
  owner_.on_turn();
  look_after_newcomers();
}

// ---- visitors -------------------------------------------------------------------------------------------------------

void Agent::accept_all() {
  for (int i = 0; i < 64; ++i) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_short) accept_after_ = Clock::now() + accept_pause;
      return;
    }
    if (visitors_.size() >= most_visitors) {
      ::close(descriptor);
      continue;
    }
    note_own(descriptor);
    visitors_[descriptor].since = Clock::now();
    listen_to(descriptor);
  }
}

void Agent::listen_to(int descriptor) {
  const auto found = visitors_.find(descriptor);
  if (found == visitors_.end()) return;
  const bool stays = found->second.reader.read_from(descriptor);
  while (const auto frame = found->second.reader.take())
    if (!take_frame(descriptor, *frame)) return drop(descriptor);
  if (!stays) drop(descriptor);
}

// False: it has nothing more to say here.
bool Agent::take_frame(int descriptor, const JoinFrame& frame) {
  bootstrap::Secret secret{};
  if (frame.body.size() < sizeof secret) return false;
  std::memcpy(secret.data(), frame.body.data(), sizeof secret);
  if (!bootstrap::equal_in_constant_time(secret, secret_)) {
    if (++refused_ <= 3)
      owner_.say(fmt::format("a process that wanted to join is refused: its secret is wrong{}",
                             refused_ == 3 ? " (more are not reported)" : ""),
                 true);
    send_whole(descriptor, make_join_frame(JoinWord::refused, "its secret is not the job's"), word_limit_ms);
    return false;
  }
  if (frame.word == JoinWord::invite) return take_invitation(frame);
  return frame.word == JoinWord::apply && take_application(descriptor, frame);
}

bool Agent::take_application(int descriptor, const JoinFrame& frame) {
  const auto apply = structure_in<Apply>(frame.body);
  if (!apply || sponsor_.has(descriptor)) return false;
  if (apply->version != version) {
    send_whole(descriptor, make_join_frame(JoinWord::refused, "it runs another version of ucft than the job"),
               word_limit_ms);
    return false;
  }
  const Roster roster = owner_.roster();
  if (roster.me < 0) return false;  // a newcomer itself
  if (roster.lives.size() > bootstrap::max_ranks) {
    const std::string why = fmt::format("a job of more than {} ranks takes nobody new", bootstrap::max_ranks);
    send_whole(descriptor, make_join_frame(JoinWord::refused, why), word_limit_ms);
    return false;
  }
  if (const std::int32_t lowest = roster.lowest();
      lowest != roster.me && UCFT_SOMETIMES("a newcomer is sent to the sponsor")) {
    send_whole(descriptor, make_join_frame(JoinWord::members, body_of(roster.living(-1))), word_limit_ms);
    return false;
  }
  if (!send_whole(descriptor, make_join_frame(JoinWord::accepted, body_of(roster.living(roster.me))), word_limit_ms))
    return false;
  std::vector<std::uint64_t> starts(std::begin(apply->starts), std::end(apply->starts));
  std::erase(starts, 0u);
  sponsor_.accept(descriptor, {apply->wanted_seat, std::string(apply->host, strnlen(apply->host, sizeof apply->host))},
                  std::move(starts));
  UCFT_SOMETIMES("a newcomer is accepted");
  sponsor_after_ = std::max(sponsor_after_, Clock::now() + gather_for);
  owner_.say(fmt::format("process {} of host {} wants to join", apply->pid, apply->host), false);
  count_waiting();
  return true;
}

bool Agent::take_invitation(const JoinFrame& frame) {
  if (auto invitation = Invitation::in(frame.body)) owner_.on_invited(std::move(*invitation));
  return false;
}

void Agent::drop(int descriptor) {
  visitors_.erase(descriptor);
  sponsor_.lose(descriptor);
  close_own(descriptor);
  count_waiting();
}

void Agent::count_waiting() { waiting_.store(sponsor_.waiting(), std::memory_order_relaxed); }

// ---- as a sponsor ---------------------------------------------------------------------------------------------------

void Agent::look_after_newcomers() {
  const auto now = Clock::now();
  std::vector<int> silent;
  for (const auto& [descriptor, visitor] : visitors_)
    if (!sponsor_.waits(descriptor) && now >= visitor.since + word_limit) silent.push_back(descriptor);
  for (const int each : silent) drop(each);
  if (visitors_.empty() && !sponsor_.leads() && server_ == nullptr && first_.empty()) return;
  const Roster roster = owner_.roster();
  if (roster.me < 0) {
    if (to_sponsor_ >= 0 && now >= heard_at_ + silence_limit && UCFT_SOMETIMES("a newcomer's sponsor is silent"))
      lose_sponsor();
    if (!first_.empty() && to_sponsor_ < 0 && now >= ask_after_ && !owner_.is_starting()) ask_next();
    return;
  }
  first_.clear();  // it is a member now
  if (to_sponsor_ >= 0) close_own(std::exchange(to_sponsor_, -1));
  if (waiting() > 0 && now >= tell_after_) tell_newcomers(roster);
  sponsor(roster);
}

// That this process lives, and which others do.
void Agent::tell_newcomers(const Roster& roster) {
  tell_after_ = Clock::now() + tell_each;
  const std::string frame = make_join_frame(JoinWord::accepted, body_of(roster.living(roster.me)));
  std::vector<int> lost;
  for (const auto& [descriptor, visitor] : visitors_)
    if (sponsor_.waits(descriptor) && !send_whole(descriptor, frame, word_limit_ms)) lost.push_back(descriptor);
  for (const int each : lost) drop(each);
}

// The next step of the sponsor in this process.
void Agent::sponsor(const Roster& roster) {
  look_at_server();
  if (!sponsor_.leads() && (waiting() == 0 || Clock::now() < sponsor_after_)) return;
  using Kind = Sponsor::Step::Kind;
  const Sponsor::Step step = sponsor_.look(roster, [this](std::uint64_t start) { return owner_.state_of(start); });
  if (step.kind == Kind::end_start || step.kind == Kind::give_up) server_.reset();
  switch (step.kind) {
    case Kind::nothing:
    case Kind::end_start: return;
    case Kind::seated:
      for (const int each : step.newcomers) visitors_.at(each).since = Clock::now();
      count_waiting();
      pause_ = {};
      serve_until_ = Clock::now() + start_limit;
      return;
    case Kind::give_up:
      if (step.has_failed) pause_after_failure();
      for (const int each : step.newcomers) drop(each);
      return;
    case Kind::turn_away: return turn_away(step.newcomers, roster);
    case Kind::begin: return begin_start(step, roster);
  }
}

// It stays for ranks that have yet to read what they need of it, though the epoch may count already.
void Agent::look_at_server() {
  if (server_ == nullptr) return;
  if (sponsor_.leads() && owner_.state_of(sponsor_.led()) != EpochState::ready) return;
  const bool is_late = !sponsor_.leads() && Clock::now() >= serve_until_;
  if (server_->start_up_ended() || is_late) server_.reset();
}

void Agent::pause_after_failure() {
  pause_ = std::clamp<Clock::duration>(2 * pause_, first_pause, longest_pause);
  sponsor_after_ = Clock::now() + pause_;
}

void Agent::turn_away(const std::vector<int>& newcomers, const Roster& roster) {
  for (const int descriptor : newcomers) {
    send_whole(descriptor, make_join_frame(JoinWord::members, body_of(roster.living(-1))), word_limit_ms);
    drop(descriptor);
  }
}

void Agent::begin_start(const Sponsor::Step& step, const Roster& roster) {
  Invitation invitation;
  invitation.seats = step.seats;

  bootstrap::RendezvousServer::Options options;
  options.size = static_cast<int>(invitation.seats.size());
  options.secret = bootstrap::random_secret();
  options.startup_limit = start_limit;
  options.absent = invitation.absent();
  options.any_interface = true;
  std::string error;
  const bootstrap::Secret rendezvous_secret = options.secret;
  server_ = bootstrap::RendezvousServer::listen(std::move(options), error);
  if (server_ == nullptr) {
    owner_.say(fmt::format("no newcomer can join: {}", error), true);
    sponsor_after_ = Clock::now() + longest_pause;
    return;
  }
  invitation.is_mine = true;
  InviteHead& head = invitation.head;
  head.secret = secret_;
  head.rendezvous_secret = rendezvous_secret;
  if (getrandom(&head.id, sizeof head.id, 0) != sizeof head.id)
    head.id = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  head.base_cookie = roster.cookie;
  head.seat = roster.me;
  head.size = static_cast<std::int32_t>(invitation.seats.size());
  head.sponsor = name_;
  head.port = static_cast<std::uint16_t>(server_->port());
  for (std::size_t rank = 0; rank < roster.lives.size(); ++rank)
    if (roster.lives[rank] && static_cast<std::int32_t>(rank) != roster.me)
      invitation.guests.push_back({static_cast<std::int32_t>(rank), roster.names[rank]});
  owner_.say(fmt::format("an epoch begins, with newcomers in the seats {}", seats_text(invitation.newcomers())), false);
  sponsor_.begun(head.id, step);
  for (const auto& [descriptor, seat] : step.seat_of) send_whole(descriptor, invitation.frame_for(seat), word_limit_ms);
  UCFT_SOMETIMES("a sponsor has invited newcomers");
  owner_.on_invited(std::move(invitation));
}

// ---- as a newcomer --------------------------------------------------------------------------------------------------

void Agent::ask_next() {
  if (to_ask_.empty()) {
    if (rounds_unheard_++ >= rounds_to_ask) {
      first_.clear();
      return owner_.on_refused("no member of the job can be reached");
    }
    to_ask_ = first_;
    std::ranges::reverse(to_ask_);
    ask_after_ = Clock::now() + (rounds_unheard_ == 1 ? 0ms : pause_between_rounds);
    return;
  }
  UCFT_SOMETIMES("a newcomer asks a member");
  const ListenerName asked = to_ask_.back();
  to_ask_.pop_back();
  to_sponsor_ = connect_to_listener(asked, connect_limit_ms);
  if (to_sponsor_ < 0) return;
  note_own(to_sponsor_);
  heard_ = {};
  heard_at_ = Clock::now();
  Apply apply;
  apply.secret = secret_;
  apply.version = version;
  apply.wanted_seat = wanted_seat_;
  apply.pid = getpid();
  apply.name = name_;
  gethostname(apply.host, sizeof apply.host - 1);
  const std::vector<std::uint64_t> started = owner_.started();
  std::copy_n(started.rbegin(), std::min(started.size(), std::size(apply.starts)), std::begin(apply.starts));
  if (!send_whole(to_sponsor_, make_join_frame(JoinWord::apply, bootstrap::bytes_of(apply)), word_limit_ms))
    lose_sponsor();
}

void Agent::listen_to_sponsor() {
  const bool stays = heard_.read_from(to_sponsor_);
  heard_at_ = Clock::now();
  while (const auto frame = heard_.take()) {
    rounds_unheard_ = 0;
    switch (frame->word) {
      case JoinWord::refused:
        first_.clear();
        lose_sponsor();
        return owner_.on_refused(fmt::format("the job refuses this process: {}", frame->body));
      case JoinWord::members:
      case JoinWord::accepted:
        if (const std::vector<ListenerName> members = members_in(frame->body); !members.empty()) {
          to_ask_ = members;
          std::ranges::reverse(to_ask_);
          if (frame->word == JoinWord::accepted) {
            std::erase_if(first_, [&](const ListenerName& each) { return contains(members, each); });
            first_.insert(first_.begin(), members.begin(), members.end());
          }
          if (first_.size() > most_members_named) first_.resize(most_members_named);
        }
        break;
      case JoinWord::invite: take_invitation(*frame); break;
      case JoinWord::apply: return lose_sponsor();
    }
  }
  if (!stays) lose_sponsor();
}

void Agent::lose_sponsor() {
  UCFT_SOMETIMES("a newcomer loses its sponsor");
  if (to_sponsor_ >= 0) close_own(std::exchange(to_sponsor_, -1));
  ask_after_ = Clock::now();
}

}  // namespace ucft::detail

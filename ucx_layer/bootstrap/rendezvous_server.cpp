// The launcher's side of the rendezvous.
#include "ucx_layer/bootstrap/rendezvous_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ucft::detail::bootstrap {

namespace {

using std::chrono::microseconds;

constexpr int strangers_allowed = 64;  // connections that have not shown the secret
constexpr auto hello_limit = std::chrono::seconds(10);
constexpr auto accept_pause = std::chrono::milliseconds(100);
constexpr int drops_to_log = 20;
constexpr std::size_t missing_ranks_to_name = 8;
constexpr std::size_t read_bytes = std::size_t{1} << 18;

template <class Structure>
Structure structure_at(const std::string& bytes, std::size_t offset) {
  Structure structure;
  assert(bytes.size() >= offset + sizeof structure);
  std::memcpy(&structure, bytes.data() + offset, sizeof structure);
  return structure;
}

std::string named(int rank, std::int64_t pid) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ")";
}

std::string address_text(int family, bool any_interface) {
  if (family == AF_INET) return any_interface ? "0.0.0.0" : "127.0.0.1";
  return any_interface ? "::" : "::1";
}

std::string in_brackets(int family, bool any_interface) {
  const std::string text = address_text(family, any_interface);
  return family == AF_INET ? text : "[" + text + "]";
}

std::shared_ptr<const std::string> error_frame(const std::string& text) {
  return std::make_shared<const std::string>(make_frame(FrameType::Error, text.substr(0, max_error_bytes)));
}

}  // namespace

std::optional<RendezvousServer::Listener> RendezvousServer::listen_on(int family, bool any_interface) {
  sockaddr_storage storage{};
  auto& four = reinterpret_cast<sockaddr_in&>(storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(storage);
  storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET)
    four.sin_addr.s_addr = htonl(any_interface ? INADDR_ANY : INADDR_LOOPBACK);
  else
    six.sin6_addr = any_interface ? in6addr_any : in6addr_loopback;
  socklen_t length = family == AF_INET ? sizeof four : sizeof six;
  auto* const generic = reinterpret_cast<sockaddr*>(&storage);
  const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // Those that say nothing stay in the kernel for this long.
  const int silent_seconds = 2, off = 0;
  if (listener >= 0) setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_seconds, sizeof silent_seconds);
  if (listener >= 0 && any_interface && family == AF_INET6)
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (listener >= 0 && bind(listener, generic, length) == 0 && ::listen(listener, SOMAXCONN) == 0 &&
      getsockname(listener, generic, &length) == 0) {
    const int port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
    return Listener{listener, in_brackets(family, any_interface) + ":" + std::to_string(port), port};
  }
  const int problem = errno;
  if (listener >= 0) ::close(listener);
  errno = problem;
  return {};
}

// On all interfaces a socket of IPv6 takes connections over IPv4, too.
std::unique_ptr<RendezvousServer> RendezvousServer::listen(Options options, std::string& error) {
  assert(options.size >= 1 && options.size <= max_ranks);
  assert(options.absent.empty() || options.absent.size() == static_cast<std::size_t>(options.size));
  const auto families = options.any_interface ? std::array{AF_INET6, AF_INET} : std::array{AF_INET, AF_INET6};
  for (const int family : families) {
    if (std::optional<Listener> listener = listen_on(family, options.any_interface))
      return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(options), std::move(*listener)));
    error += (family == families[0] ? "cannot listen on " : ", nor on ") + address_text(family, options.any_interface) +
             ": " + std::strerror(errno);
  }
  return nullptr;
}

RendezvousServer::RendezvousServer(Options options, Listener listener)
    : options_(std::move(options)),
      listener_(listener.descriptor),
      address_(std::move(listener.address)),
      port_(listener.port),
      present_(options_.size - static_cast<int>(std::ranges::count(options_.absent, true))),
      descriptor_of_rank_(static_cast<std::size_t>(options_.size), -1),
      began_(static_cast<std::size_t>(options_.size), -1),
      contributed_(static_cast<std::size_t>(options_.size)),
      finished_(options_.absent) {
  finished_.resize(static_cast<std::size_t>(options_.size));
}

RendezvousServer::~RendezvousServer() {
  for (const auto& [descriptor, connection] : connections_) ::close(descriptor);
  ::close(listener_);
}

// ---- the poll loop's calls ----

void RendezvousServer::add_poll_entries(std::vector<pollfd>& entries, TimePoint now) const {
  if (now >= accept_again_at_) entries.push_back({listener_, POLLIN, 0});
  for (const auto& [descriptor, connection] : connections_) {
    // A client is heard again when it has taken its answer. So output stays bounded.
    const short events = connection.output.empty() ? POLLIN : POLLOUT;
    entries.push_back({descriptor, events, 0});
  }
}

void RendezvousServer::on_ready(int descriptor, short events, TimePoint now) {
  if (descriptor == listener_) return accept_all(now);
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;                          // dropped by an event handled just before
  if (events & (POLLHUP | POLLERR)) found->second.forget_output();  // no client takes it any more
  if (events & POLLOUT) write_to(descriptor, found->second);
  if (events & (POLLIN | POLLHUP | POLLERR)) read_from(descriptor, now);
}

void RendezvousServer::on_timer(TimePoint now) {
  if (now >= accept_again_at_) accept_again_at_ = {};
  if (contributed_count_ > 0 && now >= round_deadline_) {
    fail(missing_ranks_text() + " within " + duration_text(round_limit_));
  }
  std::vector<int> silent;
  for (const auto& [descriptor, connection] : connections_) {
    if (!connection.rank && now >= connection.accepted_at + hello_limit) silent.push_back(descriptor);
  }
  for (const int descriptor : silent) drop(descriptor, "it did not say who it is");
}

std::optional<TimePoint> RendezvousServer::next_deadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (contributed_count_ > 0) consider(round_deadline_);
  if (accept_again_at_ != TimePoint{}) consider(accept_again_at_);
  for (const auto& [descriptor, connection] : connections_) {
    if (!connection.rank) consider(connection.accepted_at + hello_limit);
  }
  return next;
}

void RendezvousServer::on_rank_exit(int rank, std::int64_t pid, const std::string& how) {
  finished_[static_cast<std::size_t>(rank)] = true;
  fail(named(rank, pid) + " died during start-up: " + how);
}

bool RendezvousServer::start_up_ended() const {
  if (failure_logged_) return true;
  return begun_ && std::find(finished_.begin(), finished_.end(), false) == finished_.end();
}

// ---- connections ----

void RendezvousServer::accept_all(TimePoint now) {
  accept_again_at_ = {};
  for (int i = 0; i < strangers_allowed; ++i) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!is_short) return;
      // A stranger must not have a descriptor that a rank needs. If there is none to send away, the listener stays
      // readable, so look again later rather than all the time.
      if (!drop_oldest_stranger(now, "there is no descriptor left")) {
        accept_again_at_ = now + accept_pause;
        return;
      }
      continue;
    }
    if (strangers_ >= strangers_allowed) drop_oldest_stranger(now, "there are too many silent ones");
    connections_[descriptor].accepted_at = now;
    ++strangers_;
    read_from(descriptor, now);  // its greeting came with it, mostly: so no other can push it out
  }
}

// The one that has been silent for the longest. It may have spoken just now, so listen first. False: there is none.
bool RendezvousServer::drop_oldest_stranger(TimePoint now, const std::string& reason) {
  int oldest = -1;
  for (const auto& [descriptor, connection] : connections_)
    if (!connection.rank && (oldest < 0 || connection.accepted_at < connections_[oldest].accepted_at))
      oldest = descriptor;
  if (oldest < 0) return false;
  read_from(oldest, now);
  const auto found = connections_.find(oldest);
  if (found != connections_.end() && !found->second.rank) drop(oldest, reason);
  return true;
}

void RendezvousServer::read_from(int descriptor, TimePoint now) {
  // Bounded, so that one fast talker cannot keep the launcher's loop; poll() brings us back.
  for (int i = 0; i < 16; ++i) {
    const auto found = connections_.find(descriptor);
    if (found == connections_.end() || !found->second.output.empty()) return;
    if (read_some(descriptor, found->second, now) != Reading::Continues) return;
  }
}

RendezvousServer::Reading RendezvousServer::read_some(int descriptor, Connection& connection, TimePoint now) {
  const auto whole = frame_bytes(connection);
  if (!whole) {
    drop(descriptor, "it does not follow the protocol");
    return Reading::Ended;
  }
  assert(*whole > connection.input.size());
  const std::size_t held = connection.input.size();
  connection.input.resize(std::min(*whole, held + read_bytes));
  const ssize_t received = recv(descriptor, connection.input.data() + held, connection.input.size() - held, 0);
  const int problem = errno;
  connection.input.resize(held + static_cast<std::size_t>(std::max<ssize_t>(received, 0)));
  if (received < 0 && (problem == EAGAIN || problem == EINTR)) return Reading::Blocked;
  if (received <= 0) {
    if (connection.rank) {
      fail(named(*connection.rank, connection.pid) + " died during start-up");
      forget(descriptor);
    } else {
      drop(descriptor, "it ended before it said who it is");
    }
    return Reading::Ended;
  }
  const auto needed = frame_bytes(connection);
  if (!needed || connection.input.size() < *needed) return Reading::Continues;
  return handle_frame(descriptor, connection, now) ? Reading::Continues : Reading::Ended;
}

std::optional<std::size_t> RendezvousServer::frame_bytes(const Connection& connection) const {
  if (connection.input.size() < sizeof(FrameHeader)) return sizeof(FrameHeader);
  const auto header = structure_at<FrameHeader>(connection.input, 0);
  bool allowed = header.magic == frame_magic;
  if (!connection.rank) {
    allowed = allowed && header.type == FrameType::Hello && header.payload_bytes == sizeof(Hello);
  } else if (header.type == FrameType::Contribution) {
    const auto result_share = max_result_bytes / static_cast<std::size_t>(options_.size);
    const auto most = sizeof(ContributionHead) + std::min(max_contribution_bytes, result_share);
    allowed = allowed && header.payload_bytes >= sizeof(ContributionHead) && header.payload_bytes <= most &&
              !contributed_[static_cast<std::size_t>(*connection.rank)];
  } else {
    allowed = allowed && header.type == FrameType::Done && header.payload_bytes == 0;
  }
  if (!allowed) return std::nullopt;
  return sizeof header + header.payload_bytes;
}

bool RendezvousServer::handle_frame(int descriptor, Connection& connection, TimePoint now) {
  switch (structure_at<FrameHeader>(connection.input, 0).type) {
    case FrameType::Hello: return handle_hello(descriptor, connection, now);
    case FrameType::Contribution: handle_contribution(connection, now); return true;
    default:
      if (contributed_[static_cast<std::size_t>(*connection.rank)]) {
        fail(named(*connection.rank, connection.pid) + " left start-up in the middle of a round");
      }
      finished_[static_cast<std::size_t>(*connection.rank)] = true;
      forget(descriptor);  // Done
      return false;
  }
}

bool RendezvousServer::handle_hello(int descriptor, Connection& connection, TimePoint now) {
  const auto hello = structure_at<Hello>(connection.input, sizeof(FrameHeader));
  connection.input.clear();
  if (!equal_in_constant_time(hello.secret, options_.secret)) {
    refuse(descriptor, connection, "its job secret is wrong");
    return false;
  }
  const auto size = static_cast<std::uint32_t>(options_.size);
  // One more of its attempts, which it has given up, or will: it has been welcomed on another.
  if (hello.rank < size && hello.size == size &&
      (hello.began == began_[hello.rank] ||
       (descriptor_of_rank_[hello.rank] < 0 && hello.began < began_[hello.rank]))) {
    forget(descriptor);
    return false;
  }
  // Its last start-up may be over, and the Done of that one be there to read.
  if (hello.rank < size && descriptor_of_rank_[hello.rank] >= 0) read_from(descriptor_of_rank_[hello.rank], now);
  std::string refusal;
  if (hello.size != size) {
    refusal = "it takes the job for one of " + std::to_string(hello.size) + " ranks, not " + std::to_string(size);
  } else if (hello.rank >= size) {
    refusal = "there is no rank " + std::to_string(hello.rank) + " among " + std::to_string(size);
  } else if (is_absent(hello.rank)) {
    refusal = "rank " + std::to_string(hello.rank) + " is absent from this job: its place stays empty";
  } else if (const int other = descriptor_of_rank_[hello.rank]; other >= 0) {
    refusal = "rank " + std::to_string(hello.rank) + " is connected already, as pid " +
              std::to_string(connections_[other].pid);
  }
  if (!refusal.empty()) {
    refuse(descriptor, connection, refusal);
    return false;
  }
  connection.rank = static_cast<int>(hello.rank);
  begun_ = true;
  --strangers_;
  connection.pid = hello.pid;
  descriptor_of_rank_[hello.rank] = descriptor;
  began_[hello.rank] = hello.began;
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  static const auto welcome = std::make_shared<const std::string>(make_frame(FrameType::Welcome));
  send_frame(descriptor, connection, welcome);
  return true;
}

void RendezvousServer::refuse(int descriptor, Connection& connection, const std::string& reason) {
  send_frame(descriptor, connection, error_frame("refused by the rendezvous: " + reason));
  connection.was_answered = true;
  drop(descriptor, reason);
}

void RendezvousServer::handle_contribution(Connection& connection, TimePoint now) {
  const auto rank = static_cast<std::size_t>(*connection.rank);
  const auto head = structure_at<ContributionHead>(connection.input, sizeof(FrameHeader));
  contributed_[rank] = connection.input.substr(sizeof(FrameHeader) + sizeof head);
  connection.input = std::string();
  // The shortest of the limits counts: the rank that gives up first must be told which ranks it has waited for.
  const auto own = microseconds(std::min<std::uint64_t>(head.limit_us, 1ULL << 50));
  const auto limit = std::min(own, options_.startup_limit);
  if (contributed_count_++ == 0 || now + limit < round_deadline_) {
    round_deadline_ = now + limit;
    round_limit_ = limit;
  }
  if (!failure_.empty()) {
    tell_waiting_ranks();
  } else if (contributed_count_ == present_) {
    finish_round();
  }
}

// ---- rounds ----

void RendezvousServer::finish_round() {
  std::size_t first = 0;
  while (is_absent(first)) ++first;
  const std::size_t bytes = contributed_[first]->size();
  for (std::size_t rank = first + 1; rank < contributed_.size(); ++rank) {
    if (is_absent(rank) || contributed_[rank]->size() == bytes) continue;
    return fail("rank " + std::to_string(rank) + " contributed " + std::to_string(contributed_[rank]->size()) +
                " bytes to a round of start-up, rank " + std::to_string(first) + " " + std::to_string(bytes));
  }
  const std::string zeros(present_ < options_.size ? bytes : 0, '\0');
  std::string all;
  all.reserve(bytes * contributed_.size());
  for (const auto& contribution : contributed_) all += contribution ? *contribution : zeros;
  const auto frame = std::make_shared<const std::string>(make_frame(FrameType::Result, all));
  for (auto& contribution : contributed_) contribution.reset();
  contributed_count_ = 0;
  for (const int descriptor : descriptor_of_rank_) {
    const auto found = connections_.find(descriptor);
    if (found != connections_.end()) send_frame(descriptor, found->second, frame);
  }
}

void RendezvousServer::fail(const std::string& culprit) {
  if (failure_.empty()) failure_ = culprit;
  tell_waiting_ranks();
}

void RendezvousServer::tell_waiting_ranks() {
  if (contributed_count_ == 0) return;
  if (!std::exchange(failure_logged_, true)) log("start-up failed: " + failure_);
  const auto frame = error_frame(failure_);
  contributed_count_ = 0;
  for (std::size_t rank = 0; rank < contributed_.size(); ++rank) {
    if (!contributed_[rank]) continue;
    contributed_[rank].reset();
    const auto found = connections_.find(descriptor_of_rank_[rank]);
    if (found != connections_.end()) send_frame(found->first, found->second, frame);
  }
}

// "rank 5 did not arrive", "rank 5 (pid 7) did not take part", "ranks 5, 6 did not arrive"
std::string RendezvousServer::missing_ranks_text() const {
  std::vector<std::size_t> missing;
  for (std::size_t rank = 0; rank < contributed_.size(); ++rank) {
    if (!contributed_[rank] && !is_absent(rank)) missing.push_back(rank);
  }
  assert(!missing.empty());
  if (missing.size() == 1) {
    const auto found = connections_.find(descriptor_of_rank_[missing[0]]);
    if (found == connections_.end()) return "rank " + std::to_string(missing[0]) + " did not arrive";
    return named(static_cast<int>(missing[0]), found->second.pid) + " connected, but did not arrive";
  }
  std::string text = "ranks ";
  const auto shown = std::min(missing.size(), missing_ranks_to_name);
  for (std::size_t i = 0; i < shown; ++i) text += (i ? ", " : "") + std::to_string(missing[i]);
  if (missing.size() > shown) text += " and " + std::to_string(missing.size() - shown) + " more";
  return text + " did not arrive";
}

// ---- bytes ----

void RendezvousServer::send_frame(int descriptor, Connection& connection, std::shared_ptr<const std::string> frame) {
  connection.output.push_back(std::move(frame));
  assert(connection.output.size() <= 2 && "one answer per question, and no question is read before it is taken");
  write_to(descriptor, connection);
}

// Never drops the connection: its end is noticed, and judged, by the reading side, as Done may be there to read.
void RendezvousServer::write_to(int descriptor, Connection& connection) {
  while (!connection.output.empty()) {
    const std::string& frame = *connection.output.front();
    const ssize_t sent = send(descriptor, frame.data() + connection.sent_bytes, frame.size() - connection.sent_bytes,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return connection.forget_output();
    connection.sent_bytes += static_cast<std::size_t>(sent);
    if (connection.sent_bytes < frame.size()) continue;
    connection.output.pop_front();
    connection.sent_bytes = 0;
  }
}

// For those that break the rules. A known rank that does is lost to the job, and named.
void RendezvousServer::drop(int descriptor, const std::string& reason) {
  const Connection& connection = connections_.at(descriptor);
  const std::string who = connection.rank ? named(*connection.rank, connection.pid) : "a stranger";
  if (drops_logged_ < drops_to_log) log("rendezvous: dropped the connection of " + who + ": " + reason);
  if (++drops_logged_ == drops_to_log) log("rendezvous: further dropped connections are not reported");
  if (connection.rank) fail(who + " broke the protocol of start-up");
  forget(descriptor);
}

void RendezvousServer::forget(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  if (found->second.rank) {
    descriptor_of_rank_[static_cast<std::size_t>(*found->second.rank)] = -1;
  } else {
    --strangers_;
    // By a reset, so that thousands of them leave nothing in the kernel. It would overtake an answer.
    const linger reset{1, 0};
    if (!found->second.was_answered) setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  connections_.erase(found);
  ::close(descriptor);
}

void RendezvousServer::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

}  // namespace ucft::detail::bootstrap

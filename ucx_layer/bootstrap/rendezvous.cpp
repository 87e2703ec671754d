// The ranks' side of the launcher's rendezvous: environment, connection, rounds.
#include "ucx_layer/bootstrap/rendezvous.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail::bootstrap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr const char* variables[] = {"UCFT_RANK", "UCFT_SIZE", "UCFT_RENDEZVOUS", "UCFT_JOB_SECRET"};

// The server keeps this rank's limit and names the culprit when it passes. We give it a little longer to say so.
constexpr microseconds grace = std::chrono::seconds(3);
// Longer limits are cut to this, so that no sum overflows.
constexpr microseconds longest_limit = std::chrono::hours(24 * 365);

// Of an error text: the process that runs the rendezvous.
constexpr const char *launcher = "the launcher", *server = "the server";

// A rank's place, from the environment or given.
struct Environment {
  const char* host = launcher;
  int rank = 0;
  int size = 0;
  sockaddr_storage address{};
  socklen_t address_bytes = 0;
  std::string address_text;
  Secret secret{};
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool parse_integer(std::string_view text, int lowest, int highest, int& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest;
}

// "127.0.0.1:4711" or "[::1]:4711"
bool parse_address(const std::string& text, Environment& environment) {
  const auto colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !parse_integer(std::string_view(text).substr(colon + 1), 1, 65535, port))
    return false;
  std::string host = text.substr(0, colon);
  const bool is_six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_six) {
    host = host.substr(1, host.size() - 2);
    auto& six = reinterpret_cast<sockaddr_in6&>(environment.address);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    environment.address_bytes = sizeof six;
    return inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1;
  }
  auto& four = reinterpret_cast<sockaddr_in&>(environment.address);
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<std::uint16_t>(port));
  environment.address_bytes = sizeof four;
  return inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1;
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

// Empty: well. Else the sentence that names the faulty variable. The secret is not shown.
std::string parse_environment(Environment& environment) {
  for (const char* name : variables) {
    if (!is_set(name)) return std::string(name) + " is not set, but other variables of the launcher are";
  }
  if (!parse_integer(variable("UCFT_SIZE"), 1, max_ranks, environment.size)) {
    return "UCFT_SIZE=" + variable("UCFT_SIZE") + " is not a number from 1 to " + std::to_string(max_ranks);
  }
  if (!parse_integer(variable("UCFT_RANK"), 0, environment.size - 1, environment.rank)) {
    return "UCFT_RANK=" + variable("UCFT_RANK") + " is not a number from 0 to UCFT_SIZE-1, which is " +
           std::to_string(environment.size - 1);
  }
  environment.address_text = variable("UCFT_RENDEZVOUS");
  if (!parse_address(environment.address_text, environment)) {
    return "UCFT_RENDEZVOUS=" + environment.address_text + " is not of the form 127.0.0.1:PORT or [::1]:PORT";
  }
  const auto secret = secret_from_hex(variable("UCFT_JOB_SECRET"));
  if (!secret) return "UCFT_JOB_SECRET is not " + std::to_string(2 * sizeof(Secret)) + " hexadecimal digits";
  environment.secret = *secret;
  return {};
}

// False: the deadline passed.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{socket, events, 0};
    // In slices, as poll() counts in int; also the right thing after EINTR.
    if (poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000))) > 0) return true;
  }
}

enum class Transfer { Complete, TimedOut, Closed };

Transfer send_all(int socket, const char* bytes, std::size_t count, Clock::time_point deadline) {
  while (count > 0) {
    const ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes += sent;
      count -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!wait_for(socket, POLLOUT, deadline)) return Transfer::TimedOut;
    } else {
      return Transfer::Closed;
    }
  }
  return Transfer::Complete;
}

Transfer receive_all(int socket, char* bytes, std::size_t count, Clock::time_point deadline) {
  while (count > 0) {
    const ssize_t received = recv(socket, bytes, count, MSG_DONTWAIT);
    if (received > 0) {
      bytes += received;
      count -= static_cast<std::size_t>(received);
    } else if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(socket, POLLIN, deadline)) return Transfer::TimedOut;
    } else {
      return Transfer::Closed;
    }
  }
  return Transfer::Complete;
}

std::string transfer_error(Transfer outcome, microseconds limit, const std::string& host) {
  return host + "'s rendezvous " +
         (outcome == Transfer::TimedOut ? "did not answer within " + duration_text(limit)
                                        : "closed the connection (" + host + " has ended, or refused this rank)");
}

std::string not_ours(const char* host) {
  return (host == launcher ? "UCFT_RENDEZVOUS leads" : "the address of the server leads") +
         std::string(" to something that is not this job's rendezvous");
}

struct Expected {
  FrameType type;
  std::size_t payload_bytes;
};

// Receives the frame `expected` into `payload`; an Error frame becomes the error text.
bool receive_frame(int socket, Expected expected, std::vector<char>& payload, microseconds limit, const char* host,
                   std::string& error) {
  const auto deadline = Clock::now() + limit;
  FrameHeader header;
  Transfer outcome = receive_all(socket, reinterpret_cast<char*>(&header), sizeof header, deadline);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit, host);
    return false;
  }
  const bool is_expected = header.type == expected.type && header.payload_bytes == expected.payload_bytes;
  const bool is_error = header.type == FrameType::Error && header.payload_bytes <= max_error_bytes;
  if (header.magic != frame_magic || (!is_expected && !is_error)) {
    error = not_ours(host);
    return false;
  }
  payload.resize(header.payload_bytes);
  outcome = receive_all(socket, payload.data(), payload.size(), deadline);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit, host);
  } else if (is_error) {
    error.assign(payload.begin(), payload.end());
  }
  return outcome == Transfer::Complete && is_expected;
}

// Gets this rank a connection with a Welcome. Any number of other processes may connect to the launcher, too. Their
// connections may fill its queue, so that ours is not answered, or push ours out.
//
// Invariants
//  - An attempt on which Hello has been said is kept until one is welcomed: the launcher takes its end for our death.
//  - There are at most `most_attempts`; the pauses between two grow, so that a slow launcher is not stormed.
class Arrival {
 public:
  Arrival(const Environment& environment, microseconds limit)
      : environment_(environment), limit_(limit), deadline_(Clock::now() + limit) {
    Hello hello;
    hello.secret = environment.secret;
    hello.rank = static_cast<std::uint32_t>(environment.rank);
    hello.size = static_cast<std::uint32_t>(environment.size);
    hello.pid = getpid();
    hello.began = Clock::now().time_since_epoch().count();
    hello_ = make_frame(FrameType::Hello, bytes_of(hello));
  }
  ~Arrival() {
    for (const Attempt& each : attempts_) ::close(each.socket);
  }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  // -1: `error` says why.
  int connection(std::string& error) {
    while (welcomed_ < 0 && error_.empty()) {
      const auto now = Clock::now();
      if (now >= deadline_) {
        error_ = why_none();
        break;
      }
      if (now >= next_at_) begin(now);
      wait(now);
    }
    error = error_;
    return welcomed_;
  }

 private:
  static constexpr std::size_t most_attempts = 4;
  static constexpr auto first_pause = std::chrono::milliseconds(50), longest_pause = std::chrono::milliseconds(1000);
  static constexpr auto pushed_out_pause = std::chrono::milliseconds(20);
  // A connect() that the kernel doesn't answer at once stands before a full queue. It would ask again after 1, 3, 7, 15
  // s.
  static constexpr auto unanswered_for = std::chrono::milliseconds(100);

  struct Attempt {
    int socket;
    Clock::time_point since;
    bool greeted = false;
    std::string input{};
  };

  void begin(Clock::time_point now) {
    std::size_t greeted = 0;
    for (const Attempt& each : attempts_) greeted += each.greeted;
    pause_ = std::min<Clock::duration>(greeted > 0 ? 4 * pause_ : 2 * pause_, longest_pause);
    next_at_ = now + pause_;
    if (attempts_.size() >= most_attempts) return;
    const int made = socket(environment_.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return fail_to_reach(errno);
    if (bind_elsewhere_) bind_to_another_loopback_address(made);
    const auto* address = reinterpret_cast<const sockaddr*>(&environment_.address);
    if (::connect(made, address, environment_.address_bytes) == 0 || errno == EINPROGRESS || errno == EINTR) {
      attempts_.push_back({made, now});
      return;
    }
    const int problem = errno;
    ::close(made);
    lost(problem);
  }

  // All of 127.0.0.0/8 is this host. For when others hold all ports of 127.0.0.1 that may be used towards the launcher.
  void bind_to_another_loopback_address(int socket) const {
    const auto salt = static_cast<std::uint32_t>(Clock::now().time_since_epoch().count() ^ getpid());
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(0x7f000002 + salt % 0xfffff0);
    const int on = 1;
    setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own);  // if not: as before
  }

  bool leads_to_loopback() const {  // in IPv4
    const auto& four = reinterpret_cast<const sockaddr_in&>(environment_.address);
    return environment_.address.ss_family == AF_INET && ntohl(four.sin_addr.s_addr) >> 24 == 127;
  }

  void wait(Clock::time_point now) {
    std::vector<pollfd> entries;
    auto until = std::min(deadline_, next_at_);
    for (const Attempt& each : attempts_) {
      entries.push_back({each.socket, static_cast<short>(each.greeted ? POLLIN : POLLOUT), 0});
      if (!each.greeted) until = std::min(until, each.since + unanswered_for);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    poll(entries.data(), entries.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    now = Clock::now();
    for (std::size_t i = attempts_.size(); i-- > 0 && welcomed_ < 0 && error_.empty();) {
      Attempt& attempt = attempts_[i];
      const bool stays =
          attempt.greeted ? listen(attempt, entries[i].revents) : greet(attempt, entries[i].revents, now);
      if (stays) continue;
      if (attempt.socket >= 0) ::close(attempt.socket);
      attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // Both: false, this attempt is over.
  bool greet(Attempt& attempt, short events, Clock::time_point now) {
    if (events == 0) return now < attempt.since + unanswered_for;
    int problem = 0;
    socklen_t length = sizeof problem;
    if (getsockopt(attempt.socket, SOL_SOCKET, SO_ERROR, &problem, &length) != 0) problem = errno;
    if (problem == 0) {
      const int on = 1;
      setsockopt(attempt.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      attempt.greeted = send(attempt.socket, hello_.data(), hello_.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                        static_cast<ssize_t>(hello_.size());
      ever_greeted_ = ever_greeted_ || attempt.greeted;
      return attempt.greeted;
    }
    lost(problem);
    return false;
  }

  bool listen(Attempt& attempt, short events) {
    if (events == 0) return true;
    char bytes[sizeof(FrameHeader) + max_error_bytes];
    const std::size_t held = attempt.input.size();
    const std::size_t wanted = held < sizeof(FrameHeader) ? sizeof(FrameHeader) : frame_bytes(attempt.input);
    const ssize_t count = recv(attempt.socket, bytes, wanted - held, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0) {
      ++closed_;
      next_at_ = std::min(next_at_, Clock::now() + pushed_out_pause);
      return false;
    }
    attempt.input.append(bytes, static_cast<std::size_t>(count));
    if (attempt.input.size() < sizeof(FrameHeader)) return true;
    FrameHeader header;
    std::memcpy(&header, attempt.input.data(), sizeof header);
    if (header.magic == frame_magic && header.type == FrameType::Welcome && header.payload_bytes == 0) {
      welcomed_ = std::exchange(attempt.socket, -1);
      return false;
    }
    if (header.magic != frame_magic || header.type != FrameType::Error || header.payload_bytes == 0 ||
        header.payload_bytes > max_error_bytes) {
      error_ = not_ours(environment_.host);
      return false;
    }
    if (attempt.input.size() < frame_bytes(attempt.input)) return true;
    error_ = attempt.input.substr(sizeof header);
    return false;
  }

  static std::size_t frame_bytes(const std::string& input) {
    FrameHeader header;
    std::memcpy(&header, input.data(), sizeof header);
    return sizeof header + header.payload_bytes;
  }

  // A problem that passes leads to another attempt. One that another attempt would meet, too, is an error.
  void lost(int problem) {
    if (problem == EADDRNOTAVAIL && leads_to_loopback()) bind_elsewhere_ = true;
    for (const int passing : {EADDRNOTAVAIL, EAGAIN, ECONNRESET, ECONNABORTED, ETIMEDOUT, ENOBUFS, ENOMEM, EINTR})
      if (problem == passing) {
        last_problem_ = problem;
        return;
      }
    fail_to_reach(problem);
  }
  void fail_to_reach(int problem) { error_ = at() + ": " + std::strerror(problem); }
  std::string why_none() const {
    if (closed_ > 0)
      return std::string(environment_.host) + "'s rendezvous closed all connections of this rank, " +
             std::to_string(closed_) + " within " + duration_text(limit_);
    if (ever_greeted_) return transfer_error(Transfer::TimedOut, limit_, environment_.host);
    return at() + " within " + duration_text(limit_) + ": " + std::strerror(last_problem_);
  }
  std::string at() const {
    return "cannot reach " + std::string(environment_.host) + "'s rendezvous at " + environment_.address_text;
  }

  const Environment& environment_;
  microseconds limit_;
  Clock::time_point deadline_;
  std::string hello_;
  std::vector<Attempt> attempts_;
  Clock::time_point next_at_{};
  Clock::duration pause_ = first_pause;
  bool bind_elsewhere_ = false, ever_greeted_ = false;
  long closed_ = 0;  // by the other side, without a word
  int last_problem_ = ETIMEDOUT;
  int welcomed_ = -1;
  std::string error_;
};

}  // namespace

bool rendezvous_in_environment() { return std::all_of(std::begin(variables), std::end(variables), is_set); }

std::string rendezvous_environment_fault() {
  if (std::none_of(std::begin(variables), std::end(variables), is_set)) return {};
  Environment environment;
  return parse_environment(environment);
}

std::unique_ptr<Rendezvous> Rendezvous::connect(microseconds limit, std::string& error) {
  limit = std::clamp(limit, microseconds(0), longest_limit);
  Environment environment;
  error = parse_environment(environment);
  if (!error.empty()) return nullptr;
  const int connection = Arrival(environment, limit).connection(error);
  if (connection < 0) return nullptr;
  return std::unique_ptr<Rendezvous>(new Rendezvous(connection, environment.rank, environment.size, environment.host));
}

std::unique_ptr<Rendezvous> Rendezvous::connect(const Seat& seat, microseconds limit, std::string& error) {
  limit = std::clamp(limit, microseconds(0), longest_limit);
  Environment given{.host = server, .rank = seat.rank, .size = seat.size, .address_text = seat.address};
  given.secret = seat.secret;
  if (seat.size < 1 || seat.size > max_ranks || seat.rank < 0 || seat.rank >= seat.size) {
    error = "there is no rank " + std::to_string(seat.rank) + " among " + std::to_string(seat.size);
  } else if (!parse_address(seat.address, given)) {
    error = "the address of the server, " + seat.address + ", is not of the form 192.0.2.1:PORT or [2001:db8::1]:PORT";
  } else if (const int connection = Arrival(given, limit).connection(error); connection >= 0) {
    return std::unique_ptr<Rendezvous>(new Rendezvous(connection, seat.rank, seat.size, given.host));
  }
  return nullptr;
}

Rendezvous::~Rendezvous() {
  if (socket_ >= 0) ::close(socket_);
}

bool Rendezvous::allgather(const void* source, void* received, std::size_t bytes, microseconds limit,
                           std::string& error) {
  limit = std::clamp(limit, microseconds(0), longest_limit);
  const auto ranks = static_cast<std::size_t>(size_);
  if (socket_ < 0) {
    error = "the rendezvous of rank " + std::to_string(rank_) + " is closed";
    return false;
  }
  if (bytes > max_contribution_bytes || bytes > max_result_bytes / ranks) {
    error = "rank " + std::to_string(rank_) + " wants to contribute " + std::to_string(bytes) +
            " bytes to start-up, more than the rendezvous carries";
    return false;
  }
  const ContributionHead head{static_cast<std::uint64_t>(limit.count())};
  const std::string frame =
      make_frame(FrameType::Contribution, bytes_of(head),
                 bytes ? std::string_view(static_cast<const char*>(source), bytes) : std::string_view());
  const Transfer outcome = send_all(socket_, frame.data(), frame.size(), Clock::now() + limit + grace);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit, host_);
    return false;
  }
  std::vector<char> result;
  if (!receive_frame(socket_, {FrameType::Result, ranks * bytes}, result, limit + grace, host_, error)) return false;
  if (!result.empty()) std::memcpy(received, result.data(), result.size());
  return true;
}

void Rendezvous::close() {
  if (socket_ < 0) return;
  const std::string frame = make_frame(FrameType::Done);
  send_all(socket_, frame.data(), frame.size(), Clock::now() + grace);  // a launcher that is gone need not know
  ::close(socket_);
  socket_ = -1;
}

}  // namespace ucft::detail::bootstrap

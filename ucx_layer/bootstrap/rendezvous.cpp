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
#include <vector>

#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::bootstrap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr const char* variables[] = {"UCFT_RANK", "UCFT_SIZE", "UCFT_RENDEZVOUS", "UCFT_JOB_SECRET"};

// The server keeps this rank's limit and names the culprit when it passes. We give it a little longer to say so.
constexpr microseconds grace = std::chrono::seconds(3);
// Longer limits are cut to this, so that no sum overflows.
constexpr microseconds longest_limit = std::chrono::hours(24 * 365);

struct Environment {
  int rank = 0;
  int size = 0;
  sockaddr_in address{};
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

// "127.0.0.1:4711"
bool parse_address(const std::string& text, sockaddr_in& address) {
  const auto colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !parse_integer(std::string_view(text).substr(colon + 1), 1, 65535, port)) return false;
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) == 1;
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
  if (!parse_address(environment.address_text, environment.address)) {
    return "UCFT_RENDEZVOUS=" + environment.address_text + " is not of the form 127.0.0.1:PORT";
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

std::string transfer_error(Transfer outcome, microseconds limit) {
  return outcome == Transfer::TimedOut
             ? "the launcher's rendezvous did not answer within " + duration_text(limit)
             : "the launcher's rendezvous closed the connection (the launcher has ended, or refused this rank)";
}

struct Expected {
  FrameType type;
  std::size_t payload_bytes;
};

// Receives the frame `expected` into `payload`; an Error frame becomes the error text.
bool receive_frame(int socket, Expected expected, std::vector<char>& payload, microseconds limit, std::string& error) {
  const auto deadline = Clock::now() + limit;
  FrameHeader header;
  Transfer outcome = receive_all(socket, reinterpret_cast<char*>(&header), sizeof header, deadline);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit);
    return false;
  }
  const bool is_expected = header.type == expected.type && header.payload_bytes == expected.payload_bytes;
  const bool is_error = header.type == FrameType::Error && header.payload_bytes <= max_error_bytes;
  if (header.magic != frame_magic || (!is_expected && !is_error)) {
    error = "UCFT_RENDEZVOUS leads to something that is not this job's rendezvous";
    return false;
  }
  payload.resize(header.payload_bytes);
  outcome = receive_all(socket, payload.data(), payload.size(), deadline);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit);
  } else if (is_error) {
    error.assign(payload.begin(), payload.end());
  }
  return outcome == Transfer::Complete && is_expected;
}

// -1: `error` says why.
int open_connection(const Environment& environment, microseconds limit, std::string& error) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int problem = connection < 0 ? errno : 0;
  if (!problem && ::connect(connection, reinterpret_cast<const sockaddr*>(&environment.address),
                            sizeof environment.address) != 0) {
    problem = errno;
    if (problem == EINPROGRESS || problem == EINTR) {
      socklen_t length = sizeof problem;
      if (!wait_for(connection, POLLOUT, Clock::now() + limit)) {
        problem = ETIMEDOUT;
      } else if (getsockopt(connection, SOL_SOCKET, SO_ERROR, &problem, &length) != 0) {
        problem = errno;
      }
    }
  }
  if (!problem) {
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connection;
  }
  error = "cannot reach the launcher's rendezvous at " + environment.address_text + ": " + std::strerror(problem);
  if (connection >= 0) ::close(connection);
  return -1;
}

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
  const int connection = open_connection(environment, limit, error);
  if (connection < 0) return nullptr;
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(connection, environment.rank, environment.size));

  Hello hello;
  hello.secret = environment.secret;
  hello.rank = static_cast<std::uint32_t>(environment.rank);
  hello.size = static_cast<std::uint32_t>(environment.size);
  hello.pid = getpid();
  const std::string frame = make_frame(FrameType::Hello, bytes_of(hello));
  const Transfer outcome = send_all(connection, frame.data(), frame.size(), Clock::now() + limit);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit);
    return nullptr;
  }
  std::vector<char> nothing;
  if (!receive_frame(connection, {FrameType::Welcome, 0}, nothing, limit, error)) return nullptr;
  return rendezvous;
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
  const std::string frame = make_frame(FrameType::Contribution, bytes_of(head),
                                       bytes ? std::string_view(static_cast<const char*>(source), bytes)
                                             : std::string_view());
  const Transfer outcome = send_all(socket_, frame.data(), frame.size(), Clock::now() + limit + grace);
  if (outcome != Transfer::Complete) {
    error = transfer_error(outcome, limit);
    return false;
  }
  std::vector<char> result;
  if (!receive_frame(socket_, {FrameType::Result, ranks * bytes}, result, limit + grace, error)) return false;
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

}  // namespace ucft::bootstrap

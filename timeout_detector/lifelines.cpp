// See lifelines.hpp.
#include "timeout_detector/lifelines.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "timeout_detector/own_descriptors.hpp"

namespace ucft::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char confirmation = 'k';

struct Greeting {
  std::uint64_t job;
  std::int32_t from, to;
  friend bool operator==(const Greeting&, const Greeting&) = default;
};
static_assert(sizeof(Greeting) == 16);

// Single bytes must leave at once, and a lost one must be repeated soon. The default doubles the pause each time, and a
// short outage would turn into a long silence. And the kernel must not give the connection up by itself (after minutes,
// or seconds, as the system's tcp_retries2 has it). It would answer the other side's next byte with a reset.
void make_prompt(int descriptor) {
  const int on = 1;
  const unsigned milliseconds = 3600 * 1000;
  setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

}  // namespace

// ---- one end --------------------------------------------------------------------------------------------------------

Lifeline::Lifeline(int descriptor) : descriptor_(descriptor) {
  if (descriptor_ >= 0) note_own(descriptor_);
}

Lifeline& Lifeline::operator=(Lifeline&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  error_ = other.error_;
  lost_ = other.lost_;
  return *this;
}

void Lifeline::close() {
  if (descriptor_ >= 0) close_own(descriptor_);
  descriptor_ = -1;
}

void leave(std::span<Lifeline* const> lines, std::chrono::milliseconds limit, LifelineWord word) {
  for (Lifeline* line : lines) {
    line->say(word);
    if (line->descriptor_ >= 0) shutdown(line->descriptor_, SHUT_WR);
  }
  const auto until = Clock::now() + limit;
  while (true) {
    std::vector<pollfd> open;
    for (Lifeline* line : lines) {
      line->listen();
      if (line->is_open()) open.push_back({line->descriptor_, POLLIN, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (open.empty() || left.count() <= 0) break;
    ::poll(open.data(), open.size(), static_cast<int>(left.count()));
  }
  for (Lifeline* line : lines) line->close();
}

// A full connection drops the byte. EPIPE: its end is still to be read.
void Lifeline::say(LifelineWord word) {
  if (!is_open()) return;
  const auto byte = static_cast<std::uint8_t>(word);
  if (::send(descriptor_, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) return;
  for (const int harmless : {EAGAIN, EWOULDBLOCK, EINTR, EPIPE, ENOBUFS, ENOMEM})
    if (errno == harmless) return;
  error_ = errno;
}

Lifeline::News Lifeline::listen() {
  News news;
  while (is_open()) {
    std::uint8_t bytes[256];
    const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return news;
    if (count <= 0) {
      const int error = count < 0 ? errno : error_;  // a read after a failed send shows an end without an error
      news.end = error == 0 ? End::closed : error == ECONNRESET ? End::reset : End::lost;
      if (news.end == End::lost)
        lost_ = true;
      else
        close();
      return news;
    }
    for (ssize_t i = 0; i < count; ++i) {
      switch (static_cast<LifelineWord>(bytes[i])) {
        case LifelineWord::heartbeat: news.heartbeat = true; break;
        case LifelineWord::starved: news.heartbeat = news.starved = true; break;
        case LifelineWord::leave: news.leave = true; break;
        case LifelineWord::leave_early: news.leave = news.early = true; break;
        case LifelineWord::excluded: news.excluded = true; break;
        case LifelineWord::out: news.out = true; break;
      }
    }
  }
  return news;
}

// ---- making them ----------------------------------------------------------------------------------------------------

LifelineMaker::~LifelineMaker() {
  if (listener_ >= 0) ::close(listener_);
}

bool LifelineMaker::listen(std::string& error, const std::vector<std::string>& unreached) {
  listener_ = listen_anywhere(name_, error, unreached);
  return listener_ >= 0;
}

namespace {

// Both sides of all connections of one rank, in one poll loop.
class Meeting {
 public:
  Meeting(int listener, std::int32_t me, std::uint64_t job, const std::vector<LifelineMaker::Wanted>& wanted,
          std::chrono::milliseconds patience)
      : listener_(listener), me_(me), job_(job), patience_(patience), result_(wanted.size()), callers_(wanted.size()) {
    const std::vector<IpAddress> ours = own_addresses({});
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      index_of_[wanted[i].rank] = i;
      if (wanted[i].rank < me) {  // that rank calls
        ++missing_;
        continue;
      }
      Caller& caller = callers_[i];
      caller.rank = wanted[i].rank;
      caller.port = wanted[i].name.port;
      caller.addresses = in_order_of_promise(wanted[i].name, ours);
      caller.active = true;
      ++missing_;
      next_address(i);
    }
  }
  ~Meeting() {
    for (const Caller& caller : callers_)
      if (caller.socket >= 0) ::close(caller.socket);
    for (const auto& [descriptor, guest] : guests_) ::close(descriptor);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  bool complete() const { return missing_ == 0; }

  void turn() {
    std::vector<pollfd> entries;
    if (listener_ >= 0) entries.push_back({listener_, POLLIN, 0});
    for (const auto& [descriptor, guest] : guests_) entries.push_back({descriptor, POLLIN, 0});
    for (const Caller& caller : callers_)
      if (caller.socket >= 0)
        entries.push_back({caller.socket, static_cast<short>(caller.greeted ? POLLIN : POLLOUT), 0});
    if (::poll(entries.data(), entries.size(), 5) < 0) return;
    const auto now = Clock::now();
    accept_some(now);
    for (auto each = guests_.begin(); each != guests_.end();) each = attend(each, now);
    for (std::size_t i = 0; i < callers_.size(); ++i)
      if (callers_[i].socket >= 0) advance(i, now);
  }

  std::vector<Lifeline> take() { return std::move(result_); }

 private:
  struct Caller {
    bool active = false, greeted = false;
    std::int32_t rank = -1;
    std::uint16_t port = 0;
    std::vector<IpAddress> addresses;  // still to be tried
    IpAddress address{};               // that `socket` leads to
    int socket = -1;
    int returns = 0;  // to addresses that have hung up on us
    Clock::time_point since{};
  };
  static constexpr int most_returns = 20;
  static constexpr std::size_t nobody = SIZE_MAX;
  static constexpr int most_silent = 64, most_accepted_a_turn = 256;
  struct Guest {
    Clock::time_point since;
    std::size_t index;  // its own, once it has greeted and been answered
  };

  // Any process that finds the port can connect, and has shown nothing yet. Connections that have not greeted are
  // limited: the one that has been silent for the longest goes. It goes, too, when a descriptor is missing.
  void accept_some(Clock::time_point now) {
    for (int i = 0; i < most_accepted_a_turn && listener_ >= 0; ++i) {
      const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      const bool is_short = made < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
      if (made < 0 && !is_short) return;
      if (is_short || silent_guests() >= most_silent) {
        if (!send_one_away(now) && is_short) return;
      }
      if (made < 0) continue;
      const auto [place, is_new] = guests_.insert_or_assign(made, Guest{now, nobody});
      attend(place, now);  // its greeting came with it, mostly: so nobody can push it out
    }
  }

  int silent_guests() const {
    return static_cast<int>(
        std::count_if(guests_.begin(), guests_.end(), [](const auto& each) { return each.second.index == nobody; }));
  }

  // False: all have greeted.
  bool send_one_away(Clock::time_point now) {
    auto oldest = guests_.end();
    for (auto each = guests_.begin(); each != guests_.end(); ++each)
      if (each->second.index == nobody && (oldest == guests_.end() || each->second.since < oldest->second.since))
        oldest = each;
    if (oldest == guests_.end()) return false;
    const int descriptor = oldest->first;
    attend(oldest, now);  // it may have greeted just now
    const auto still = guests_.find(descriptor);
    if (still == guests_.end() || still->second.index != nobody) return true;
    ::close(descriptor);
    guests_.erase(still);
    return true;
  }

  // Serves one guest. Returns the guest after it.
  template <class Place>
  Place attend(Place each, Clock::time_point now) {
    const Hearing hearing = hear(each->first, each->second, now);
    if (hearing == Hearing::refused) ::close(each->first);
    return hearing == Hearing::waiting ? std::next(each) : guests_.erase(each);
  }

  void next_address(std::size_t index) {
    Caller& caller = callers_[index];
    if (caller.socket >= 0) ::close(caller.socket);
    caller.socket = -1;
    caller.greeted = false;
    while (caller.socket < 0 && !caller.addresses.empty() && caller.port != 0) {
      caller.address = caller.addresses.front();
      caller.socket = begin_connect(caller.address, caller.port);
      caller.addresses.erase(caller.addresses.begin());
      caller.since = Clock::now();
    }
    if (caller.socket < 0 && caller.active) {
      caller.active = false;  // no way there
      --missing_;
    }
  }

  void advance(std::size_t index, Clock::time_point now) {
    Caller& caller = callers_[index];
    if (!caller.greeted) {
      pollfd entry{caller.socket, POLLOUT, 0};
      if (::poll(&entry, 1, 0) <= 0) return give_up_slow(index, now);
      const Greeting greeting{job_, me_, caller.rank};
      if (::send(caller.socket, &greeting, sizeof greeting, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof greeting) {
        if (errno == EPIPE || errno == ECONNRESET) call_again(caller);
        return next_address(index);
      }
      caller.greeted = true;
      return;
    }
    Greeting answer{};
    const Reading reading = read_greeting(caller.socket, answer);
    if (reading == Reading::incomplete) return give_up_slow(index, now);
    if (reading == Reading::failed) call_again(caller);
    if (reading == Reading::failed || answer != Greeting{job_, caller.rank, me_} ||
        ::send(caller.socket, &confirmation, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
      return next_address(index);
    settle(index, std::exchange(caller.socket, -1));
    caller.active = false;
  }

  // Closed without a word: the wrong process; or the right one, which many others call, too.
  static void call_again(Caller& caller) {
    if (caller.returns++ < most_returns) caller.addresses.push_back(caller.address);
  }

  // A process that says nothing may be the right one, and late. A connection that isn't made may be waiting behind many
  // others.
  void give_up_slow(std::size_t index, Clock::time_point now) {
    Caller& caller = callers_[index];
    if (now - caller.since <= patience_) return;
    caller.addresses.push_back(caller.address);
    next_address(index);
  }

  // A caller may have hung up long ago: its greeting can still be read, and an answer still be sent. So only the
  // confirmation counts, which it sends on one connection at most. (Its others end by themselves.)
  enum class Hearing : std::uint8_t { waiting, refused, settled };
  Hearing hear(int descriptor, Guest& guest, Clock::time_point now) {
    if (guest.index != nobody) {
      char byte = 0;
      const ssize_t count = ::recv(descriptor, &byte, 1, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Hearing::waiting;
      if (count != 1 || byte != confirmation || result_[guest.index].is_open()) return Hearing::refused;
      settle(guest.index, descriptor);
      return Hearing::settled;
    }
    Greeting greeting{};
    const Reading reading = read_greeting(descriptor, greeting);
    if (reading == Reading::incomplete) return now - guest.since > patience_ ? Hearing::refused : Hearing::waiting;
    const auto found = index_of_.find(greeting.from);
    const bool expected = reading == Reading::complete && greeting.job == job_ && greeting.to == me_ &&
                          found != index_of_.end() && greeting.from < me_ && !result_[found->second].is_open();
    const Greeting answer{job_, me_, greeting.from};
    if (!expected || ::send(descriptor, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof answer)
      return Hearing::refused;
    guest.index = found->second;
    return Hearing::waiting;
  }

  enum class Reading : std::uint8_t { incomplete, complete, failed };
  // Sixteen bytes at the beginning of a connection, taken as a whole.
  static Reading read_greeting(int descriptor, Greeting& greeting) {
    const ssize_t there = ::recv(descriptor, &greeting, sizeof greeting, MSG_DONTWAIT | MSG_PEEK);
    if (there == 0 || (there < 0 && errno != EAGAIN && errno != EINTR)) return Reading::failed;
    if (there != sizeof greeting) return Reading::incomplete;
    return ::recv(descriptor, &greeting, sizeof greeting, MSG_DONTWAIT) == sizeof greeting ? Reading::complete
                                                                                           : Reading::failed;
  }

  void settle(std::size_t index, int descriptor) {
    make_prompt(descriptor);
    result_[index] = Lifeline(descriptor);
    --missing_;
  }

  int listener_;
  std::int32_t me_;
  std::uint64_t job_;
  std::chrono::milliseconds patience_;
  std::vector<Lifeline> result_;
  std::vector<Caller> callers_;  // by index in `wanted`; idle where the peer calls
  std::map<int, Guest> guests_;  // accepted, not yet confirmed
  std::map<std::int32_t, std::size_t> index_of_;
  int missing_ = 0;
};

}  // namespace

std::vector<Lifeline> LifelineMaker::connect(std::int32_t me, std::uint64_t job, const std::vector<Wanted>& wanted,
                                             std::chrono::microseconds limit, const std::function<void()>& meanwhile) {
  Meeting meeting(listener_, me, job, wanted, patience_);
  const auto until = Clock::now() + limit;
  while (!meeting.complete() && Clock::now() < until) {
    meeting.turn();
    if (meanwhile) meanwhile();
  }
  return meeting.take();
}

}  // namespace ucft::detail

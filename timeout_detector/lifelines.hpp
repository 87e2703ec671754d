// TCP connections between ranks of different hosts, beside the data path. They carry two things that an RDMA fabric
// doesn't. One is heartbeats, which need nobody's progress. The other is the end of a process: its kernel closes the
// connection within a millisecond, where a queue pair would just fall silent for 20 s.
//
// Source: docs/failure_model.md, "Detection"; TCP's FIN and RST as proof of an end: tcp(7). A lifeline carries the
// caller's greeting, the answer, the caller's confirmation; then single bytes, so that nothing can arrive in part.
//   heartbeat   this side lives (detector_thread.hpp says how often)
//   starved     a heartbeat, of a thread that has lately run late: this host may be silent for longer, and alive
//   leave       this side leaves the job: the end that follows is no failure
//   leave_early likewise, though not all that live have heard before that it was about to
//   excluded    you were declared dead
//   out         this side has found that it was declared dead, or that it is in the smaller part of a partition: it
//               takes no part any more
// Invariants
//  - Only the process that made a connection holds it open: a fork of it does not (children of vfork, posix_spawn:
//    until exec). Otherwise its end would be seen only when they have ended, too.
//  - Nothing here waits for a peer after connect(): a word that finds the connection full is dropped.
//  - A connection counts only after both greetings, which name job, sender and receiver. Private addresses repeat from
//    host to host, and a connection to the wrong process must not vouch for the right one.
//  - A rank that was called has a lifeline only if the caller has the same one (it confirms after it has settled). The
//    other direction needs a third party, since the last message of any handshake may be late: see LifelineGaps. The
//    end of a connection proves something only if both sides know that it is one.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "timeout_detector/addresses.hpp"

namespace ucft::detail {

using LifelineName = ListenerName;

enum class LifelineWord : std::uint8_t {
  heartbeat = 'b',
  leave = 'l',
  leave_early = 'e',
  starved = 's',
  excluded = 'x',
  out = 'o'
};

// One end of a lifeline, non-blocking. Moves, doesn't copy.
class Lifeline {
 public:
  enum class End : std::uint8_t {
    none,
    closed,  // FIN, by the peer's kernel: the process has ended, or has closed it
    reset,   // RST: the same, or that kernel has lost the connection before (it does after an hour without an answer)
    lost     // anything else, of our own kernel: says nothing of the peer
  };
  struct News {
    bool heartbeat = false, leave = false, early = false, starved = false, excluded = false, out = false;
    End end = End::none;
  };

  Lifeline() = default;
  explicit Lifeline(int descriptor);  // takes it over
  ~Lifeline() { close(); }
  Lifeline(Lifeline&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), error_(other.error_), lost_(other.lost_) {}
  Lifeline& operator=(Lifeline&& other) noexcept;

  bool is_open() const { return descriptor_ >= 0 && !lost_; }
  int descriptor() const { return descriptor_; }  // for poll(POLLRDHUP)
  void say(LifelineWord word);
  // The news since the last look. After an end the lifeline isn't open any more. A lost one keeps its descriptor: the
  // peer must not take our closing it for our end.
  News listen();
  void close();

 private:
  friend void leave(std::span<Lifeline* const> lines, std::chrono::milliseconds limit, LifelineWord word);

  int descriptor_ = -1;
  int error_ = 0;  // of a send: the kernel tells each error once
  bool lost_ = false;
};

// Says on all of them that this side leaves, and ends them in a way that lets the word arrive. Waits until the other
// sides have ended theirs, at most `limit`: bytes that come in after that are answered with a reset, which could
// overtake the word.
void leave(std::span<Lifeline* const> lines, std::chrono::milliseconds limit, LifelineWord word);

// The ranks with which a rank wanted a lifeline and has none. All ranks exchange theirs after connect(). Travels as it
// is in memory.
struct LifelineGaps {
  static constexpr std::int32_t most = 31;
  std::int32_t count = 0;  // more than `most`: it counts as having none at all
  std::array<std::int32_t, most> ranks{};

  void add(std::int32_t rank) {
    if (count < most) ranks[static_cast<std::size_t>(count)] = rank;
    ++count;
  }
  bool include(std::int32_t rank) const {
    return count > most || std::find(ranks.begin(), ranks.begin() + count, rank) != ranks.begin() + count;
  }
};

// Makes the connections. One thread; all of it during start-up.
class LifelineMaker {
 public:
  struct Wanted {
    std::int32_t rank;
    LifelineName name;
  };

  // patience: with one address, before the next one is tried.
  explicit LifelineMaker(std::chrono::milliseconds patience = std::chrono::seconds(2)) : patience_(patience) {}
  ~LifelineMaker();
  LifelineMaker(const LifelineMaker&) = delete;
  LifelineMaker& operator=(const LifelineMaker&) = delete;

  // From now on others can connect. False with a reason: no socket can be had. unreached: devices that others can't
  // reach, so they need not try their addresses.
  bool listen(std::string& error, const std::vector<std::string>& unreached = {});
  LifelineName name() const { return name_; }

  // Collective between the ranks that want each other (A wants B if and only if B wants A). The lower rank connects, to
  // one address after the other, and again to those that don't answer yet or hang up. Returns lifelines in the order of
  // `wanted`. Those that can't be had within `limit` stay closed, perhaps on one side only: exchange LifelineGaps then.
  // `meanwhile` runs now and then.
  std::vector<Lifeline> connect(std::int32_t me, std::uint64_t job, const std::vector<Wanted>& wanted,
                                std::chrono::microseconds limit, const std::function<void()>& meanwhile);

 private:
  std::chrono::milliseconds patience_;
  LifelineName name_{};
  int listener_ = -1;
};

}  // namespace ucft::detail

// A program of random calls of the API, collectives and messages, the same on all ranks, drawn by a seed. It writes
// down what it calls and what it gets, for the judge.
//
// Its parts: random_calls.cpp (steps, communicators), random_collective.cpp (data and calls of collectives),
// random_messages.cpp, random_gossip.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "simulator/judge/history.hpp"
#include "simulator/judge/recorder.hpp"
#include "ucft/ucft.h"

namespace ucft::judge {

// Of one step, drawn by all ranks alike before any of it happens. So ranks stay in step, whatever each has met.
struct Drawn {
  explicit Drawn(std::mt19937_64& random);
  std::uint64_t below(std::size_t which, std::uint64_t end) const { return words[which % std::size(words)] % end; }

  std::uint64_t words[16];
};

class RandomCalls {
 public:
  struct Around {
    std::function<void()> has_begun;                          // after the first step
    std::function<void(std::chrono::milliseconds)> stop_for;  // stops the process for so long, in some steps
  };

  // Of the job that the context is of. all: a communicator of all of its ranks.
  RandomCalls(std::uint64_t seed, ucft_context_h context, ucft_comm_h all, Recorder& recorder, Around around);

  // So many steps, then it leaves the job. Less: the rank leaves before, or is out. Throws std::logic_error if a call
  // has failed that can't fail.
  void run(int steps);

 private:
  struct Communicator {
    std::string name;
    ucft_comm_h handle = UCFT_COMM_NULL;  // this rank is not in it
    std::int32_t rank = 0, size = 0;
    std::uint64_t collections = 0;       // that this rank has made: collect()
    std::vector<std::uint64_t> taken{};  // by rank: its messages in these. UINT64_MAX: it has failed
    bool is_there() const { return handle != UCFT_COMM_NULL; }
  };
  // Words of plain memory, or of ucft_alloc.
  class Words {
   public:
    Words() = default;
    ~Words();
    Words(Words&& other) noexcept { swap(other); }
    Words& operator=(Words&& other) noexcept {
      swap(other);
      return *this;
    }
    // The same memory again if the number is the same.
    void fill(std::size_t count, std::uint64_t word, ucft_context_h lends);
    std::uint64_t* data() const { return words_; }
    std::size_t size() const { return count_; }
    std::uint64_t back() const { return words_[count_ - 1]; }

   private:
    void swap(Words& other) noexcept;

    std::vector<std::uint64_t> plain_;
    ucft_context_h lends_ = UCFT_CONTEXT_NULL;  // whose memory it is
    std::uint64_t* words_ = nullptr;
    std::size_t count_ = 0;
  };
  // A collective from its post to its end, with its memory.
  struct Posted {
    Call call;
    std::size_t number = 0;
    Words in, out;                      // one word more than is needed
    std::vector<std::uint64_t> counts;  // of the ranks; empty: all have the same
    std::uint64_t count = 0;
    bool in_place = false, is_lent = false;
    bool has_function = false;  // its operator is a function of this program
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    std::vector<std::int32_t> missing, late;
    ucft_result_t result = UCFT_RESULT_INIT;
    ucft_request_h request = UCFT_REQUEST_NULL;
    bool is_in_flight = false;
    // Of alltoallv.
    std::vector<std::uint64_t> send_counts;
  };

  struct Letter {
    Call call;
    ucft_request_h request = UCFT_REQUEST_NULL;
    std::size_t number = 0;  // of the call
  };

  void sleep_for_at_most(std::uint64_t microseconds);
  bool take_step(const Drawn& drawn, int step);
  void blocking(const Drawn& drawn, int step, Communicator& on);
  void several(const Drawn& drawn, int step, Communicator& on);
  ucft_status_t post(ucft_request_h request);
  void post_all(std::vector<Posted>& all);
  void wait_for_all(std::vector<Posted>& all);
  void split(const Drawn& drawn, int step, std::size_t which);
  void close(std::size_t which);
  void messages(const Drawn& drawn, int step, Communicator& on);
  void collect(const Drawn& drawn, int step, Communicator& on);
  void prepare_send(Letter& letter, int step, const Communicator& on, std::vector<std::uint64_t>& words);
  void post(Letter& letter);
  void take_sent(Letter& letter);
  void take_received(Letter& letter, const std::vector<std::uint64_t>& words);
  void finish(const Letter& letter);
  void gossip(const Drawn& drawn, int step, Communicator& on);
  void leave_job();

  Posted prepare(const Drawn& drawn, int step, const Communicator& on, bool is_blocking) const;
  void fill(const Drawn& drawn, int step, Posted& posted, const Communicator& on) const;
  void note_places(Posted& posted, std::vector<Block>& blocks) const;
  ucft_status_t run_quorum(Posted& posted, ucft_comm_h on);
  ucft_status_t call(Posted& posted, ucft_comm_h on) const;
  ucft_status_t init(Posted& posted, ucft_comm_h on) const;
  void end(Posted& posted, ucft_status_t status);

  std::mt19937_64 common_, own_;
  ucft_context_h context_;
  Recorder& recorder_;
  Around around_;
  std::vector<Communicator> communicators_;
  std::int32_t rank_ = 0, size_ = 0;  // in the job
  std::uint64_t extra_ = 0;           // elements, by mistake
  std::size_t most_communicators_ = 4;
  std::uint64_t longest_ = 20000, long_from_ = 97;  // elements; of a hundred calls those from there on are as long
  bool one_leaves_early_ = false;                   // some rank does
  bool is_out_ = false;
};

}  // namespace ucft::judge

// Ranks fed by hand: a test says which message arrives where, which is lost with its sender, and who hears of which
// death when. The objects are the product's own OperationWindows; values are bytes, so any data type can be used.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "collectives/among/operation_window.hpp"

namespace ucft::detail::by_hand {

using Bytes = std::vector<std::byte>;

template <class Element>
Bytes bytes_of(const std::vector<Element>& values) {
  Bytes bytes(values.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class Element>
std::vector<Element> elements_of(const Bytes& bytes) {
  std::vector<Element> values(bytes.size() / sizeof(Element));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
inline Bytes word(std::uint64_t value) { return bytes_of(std::vector<std::uint64_t>{value}); }
inline std::uint64_t word_of(const Bytes& bytes) {
  EXPECT_EQ(bytes.size(), 8u);
  return bytes.size() == 8 ? elements_of<std::uint64_t>(bytes)[0] : ~std::uint64_t{0};
}

inline Arguments sum_of_words(std::int32_t f, Rank root = 0, Kind kind = Kind::allreduce) {
  Arguments arguments;
  arguments.kind = kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = kind == Kind::barrier ? 0 : 1;
  arguments.f = f;
  arguments.root = root;
  return arguments;
}

// A message on its way, with bytes of its own.
struct Letter {
  Rank from = no_rank, to = no_rank;
  Message message;
  Bytes value, list;
};

// Of the optimistic ballot of that call.
inline Letter optimistic_letter(const Arguments& arguments, Phase phase, Rank from, Rank to) {
  Letter letter{from, to, {}, {}, {}};
  letter.message.phase = phase;
  letter.message.attempt = optimistic_ballot;
  letter.message.signature = arguments.signature();
  return letter;
}
// A piece of long data, from there on, in bytes.
inline Letter piece_letter(const Arguments& arguments, Phase phase, Rank from, Rank to, std::uint32_t offset,
                           Bytes value) {
  Letter letter = optimistic_letter(arguments, phase, from, to);
  letter.message.flags = has_value;
  letter.message.offset = offset;
  letter.value = std::move(value);
  return letter;
}

// What an operation came to on one rank.
struct Ended {
  Outcome outcome = Outcome::success;
  Bytes value;
  std::uint32_t contributors = 0, failed_count = 0, attempts = 0;
  std::vector<std::uint32_t> list;
  Rank first_decided = no_rank, culprit = no_rank;
  bool truncated = false;
  int times = 0;  // reported as completed

  std::vector<Rank> missing() const {  // listed without a value in the sum
    std::vector<Rank> ranks;
    for (std::uint32_t entry : list)
      if ((entry & contributed_bit) == 0) ranks.push_back(static_cast<Rank>(entry));
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
};

class HandFedRank {
 public:
  HandFedRank(Rank rank, Rank ranks, int window_size = 2, Optimism optimistic = false, std::vector<Rank> absent = {})
      : me(rank),
        buffers({&HandFedRank::allocate, this, 4096}),
        outbox(buffers),
        window({rank, ranks, window_size, optimistic, {}, std::move(absent)}, buffers) {}
  ~HandFedRank() { window.release_all(); }
  HandFedRank(const HandFedRank&) = delete;

  bool ready() {
    const bool is = window.ready(outbox);
    collect();
    return is;
  }
  // input: of an exchange a word for each rank.
  OperationNumber post(const Arguments& arguments, const Bytes& input = {}) {
    Operation::Memory memory{.input = copy_of(input)};
    if (!arguments.row().goes_straight) return post(arguments, memory);
    for (Rank to = 0; to < static_cast<Rank>(input.size() / 8); ++to)
      memory.shares.push_back({to, static_cast<std::uint64_t>(to) * 8, 8});
    memory.room = buffers.allocate(input.size());
    memory.result = buffers.allocate(arguments.bytes());
    return post(arguments, memory);
  }
  OperationNumber post(const Arguments& arguments, const Operation::Memory& memory) {
    EXPECT_TRUE(ready());
    const OperationNumber number = window.post(arguments, memory, outbox);
    collect();
    return number;
  }
  void feed(const Letter& letter) {
    ASSERT_TRUE(window.acceptable(letter.message.operation));
    Message message = letter.message;
    message.peer = letter.from;
    message.value = copy_of(letter.value);
    message.list = copy_of(letter.list).buffer;
    window.on_message(message, outbox);
    buffers.release(message.value);
    buffers.release(message.list);
    collect();
  }
  void hear_of_death(Rank rank) {
    window.on_failure(rank, outbox);
    collect();
  }
  void take_turn(std::int64_t now_ns = -1) {
    window.on_turn(outbox, now_ns);
    collect();
  }
  void say_waiting() {
    window.say_waiting(outbox);
    collect();
  }
  // What was sent since the last call.
  std::vector<Letter> sent() {
    collect();
    return std::exchange(sent_, {});
  }
  std::vector<Letter> sent(Phase phase) {
    std::vector<Letter> all = sent();
    std::erase_if(all, [&](const Letter& letter) { return letter.message.phase != phase; });
    return all;
  }
  bool has_ended(OperationNumber number) const { return ended_.count(number) != 0; }
  const Ended& ended(OperationNumber number) const {
    static const Ended never;
    EXPECT_TRUE(has_ended(number)) << "rank " << me << ", operation " << number << " has not ended";
    return has_ended(number) ? ended_.at(number) : never;
  }

  const Rank me;
  std::vector<std::unique_ptr<std::byte[]>> chunks;  // memory that was asked for
  Buffers buffers;
  Outbox outbox;
  OperationWindow window;

 private:
  static std::byte* allocate(void* arg, std::size_t bytes) {
    auto& chunks = static_cast<HandFedRank*>(arg)->chunks;
    chunks.push_back(std::make_unique<std::byte[]>(bytes));
    return chunks.back().get();
  }
  Slice copy_of(const Bytes& bytes) {
    return bytes.empty() ? Slice{} : buffers.whole(buffers.copy_in(bytes.data(), bytes.size()));
  }
  Bytes contents(Slice slice) const {
    return slice ? Bytes(buffers.data(slice), buffers.data(slice) + slice.bytes) : Bytes{};
  }
  Bytes contents(BufferId id) const { return contents(buffers.whole(id)); }
  void collect() {
    for (const Message& message : outbox.sends()) {
      Letter letter{me, message.peer, message, contents(message.value), contents(message.list)};
      letter.message.value = {};
      letter.message.list = no_buffer;
      sent_.push_back(std::move(letter));
      buffers.release(message.value);
      buffers.release(message.list);
    }
    outbox.clear();
    for (OperationNumber number : window.completed()) {
      const Operation& operation = window.operation(number);
      const Decision& decision = operation.decision();
      Ended& ended = ended_[number];
      ended = {decision.outcome,       contents(decision.value), decision.contributors,
               decision.failed_count,  operation.attempts(),     elements_of<std::uint32_t>(contents(decision.list)),
               decision.first_decided, decision.culprit,         decision.truncated,
               ended.times + 1};
    }
    window.clear_completed();
  }

  std::vector<Letter> sent_;
  std::map<OperationNumber, Ended> ended_;
};

// All ranks of a communicator, and the letters on their way.
class HandFedWorld {
 public:
  // absent: they are dead from the start, and all ranks know it.
  explicit HandFedWorld(Rank ranks, int window_size = 2, Optimism optimistic = false,
                        const std::vector<Rank>& absent = {}) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<HandFedRank>(rank, ranks, window_size, optimistic, absent));
      alive_.push_back(std::ranges::find(absent, rank) == absent.end());
    }
  }

  HandFedRank& operator[](Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  Rank size() const { return static_cast<Rank>(ranks_.size()); }
  bool alive(Rank rank) const { return alive_[static_cast<std::size_t>(rank)]; }

  OperationNumber post(Rank rank, const Arguments& arguments, const Bytes& input = {}) {
    const OperationNumber number = (*this)[rank].post(arguments, input);
    collect(rank);
    return number;
  }
  void post_without_memory(Rank rank, const Arguments& arguments) {
    Operation::Memory memory;
    memory.lacks = true;
    (*this)[rank].post(arguments, memory);
    collect(rank);
  }
  // Rank r gives input(r). If a rank isn't ready (a barrier of the operation window's own is on its way), everything is
  // delivered first.
  void post_all(const Arguments& arguments, const std::function<Bytes(Rank)>& input) {
    bool all_ready = true;
    for (Rank rank = 0; rank < size(); ++rank) {
      if (!alive(rank)) continue;
      all_ready &= (*this)[rank].ready();
      collect(rank);
    }
    if (!all_ready) run();
    for (Rank rank = 0; rank < size(); ++rank)
      if (alive(rank)) post(rank, arguments, input(rank));
  }
  // Sends nothing from now on; what is on its way stays on its way. Nobody hears of it yet.
  void kill(Rank rank) { alive_[static_cast<std::size_t>(rank)] = false; }
  void tell(Rank rank, Rank dead) {
    (*this)[rank].hear_of_death(dead);
    collect(rank);
  }
  void say_waiting(Rank rank) {
    (*this)[rank].say_waiting();
    collect(rank);
  }
  void tell_all(Rank dead) {
    for (Rank rank = 0; rank < size(); ++rank)
      if (alive(rank)) tell(rank, dead);
  }

  using Which = std::function<bool(const Letter&)>;
  static Which is(Rank from, Rank to, Phase phase) {
    return
        [=](const Letter& letter) { return letter.from == from && letter.to == to && letter.message.phase == phase; };
  }
  static Which is(Phase phase) {
    return [=](const Letter& letter) { return letter.message.phase == phase; };
  }
  // Delivers the oldest letter of this kind.
  bool deliver(const Which& which) {
    const auto found = std::find_if(letters.begin(), letters.end(), which);
    if (found == letters.end()) return false;
    const Letter letter = *found;
    letters.erase(found);
    arrive(letter);
    return true;
  }
  int deliver_all(const Which& which) {
    int count = 0;
    while (deliver(which)) ++count;
    return count;
  }
  // Letters that a dying rank did not come to send.
  std::size_t lose(const Which& which) { return std::erase_if(letters, which); }
  // Delivers everything, oldest first, and gives each rank a turn after each arrival, until nothing is left.
  void run() {
    while (turns() || !letters.empty()) {
      if (letters.empty()) continue;
      const Letter letter = letters.front();
      letters.pop_front();
      arrive(letter);
    }
  }
  // One turn to each rank that wants one. False: nobody did.
  bool turns() {
    bool anybody = false;
    for (Rank rank = 0; rank < size(); ++rank) {
      if (!alive(rank) || !(*this)[rank].window.wants_turn()) continue;
      (*this)[rank].take_turn();
      collect(rank);
      anybody = true;
    }
    return anybody;
  }
  void run_shuffled(std::mt19937_64& random) {
    while (!letters.empty()) {
      const std::size_t index = random() % letters.size();
      const Letter letter = letters[index];
      letters.erase(letters.begin() + static_cast<std::ptrdiff_t>(index));
      arrive(letter);
    }
  }

  std::deque<Letter> letters;
  std::map<Phase, std::int64_t> counted;  // letters sent
  std::function<void(const Letter&)> on_arrival = [](const Letter&) {};

 private:
  void arrive(const Letter& letter) {
    if (!alive(letter.to)) return;
    on_arrival(letter);
    (*this)[letter.to].feed(letter);
    collect(letter.to);
  }
  void collect(Rank rank) {
    for (Letter& letter : (*this)[rank].sent()) {
      ++counted[letter.message.phase];
      letters.push_back(std::move(letter));
    }
  }

  std::vector<std::unique_ptr<HandFedRank>> ranks_;
  std::vector<bool> alive_;
};

// Messages that arrive from then on, when all live ranks have heard of the death.
inline std::int64_t messages_after_death_of(Rank dead, HandFedWorld& world) {
  world.kill(dead);
  std::int64_t arrived = 0;
  world.on_arrival = [&](const Letter&) { ++arrived; };
  world.tell_all(dead);
  world.run();
  world.on_arrival = [](const Letter&) {};
  return arrived;
}

}  // namespace ucft::detail::by_hand

// share_state (ucft/state.hpp) among four ranks, each a thread, on broadcasts that give all or nothing. Donors die at
// any broadcast of theirs, for sizes around those of a piece. 8 bytes are a piece here.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ucft/state.hpp"

namespace ucft::internal {
namespace {

using Bytes = std::vector<std::byte>;
using Ranks = std::vector<std::int32_t>;
constexpr std::int32_t rank_count = 4;
constexpr std::uint64_t piece = 8;

Bytes some_bytes(std::size_t count, std::size_t seed) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + seed);
  return bytes;
}

struct Dead {};

// The n-th broadcast of each rank is the same one.
class Broadcasts {
 public:
  // last: rank r dies when it begins its last[r]-th one as root, counted from 0.
  explicit Broadcasts(std::map<std::int32_t, int> last) : last_(std::move(last)) {}

  bool run(std::size_t n, std::int32_t me, std::int32_t root, void* data, std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    if (me == root) {
      const bool dies = last_.contains(me) && begun_[me]++ == last_[me];
      const auto* from = static_cast<const std::byte*>(data);
      sent_[n] = {root, !dies, dies ? Bytes() : Bytes(from, from + bytes)};
      changed_.notify_all();
      if (dies) throw Dead();
      return true;
    }
    changed_.wait(lock, [&] { return sent_.contains(n); });
    const Sent& sent = sent_[n];
    EXPECT_EQ(sent.root, root) << "rank " << me << ", broadcast " << n;
    if (!sent.arrives) return false;
    EXPECT_EQ(sent.data.size(), bytes) << "rank " << me << ", broadcast " << n;
    if (bytes > 0) std::memcpy(data, sent.data.data(), std::min<std::size_t>(sent.data.size(), bytes));
    return true;
  }
  std::size_t count() const { return sent_.size(); }

 private:
  struct Sent {
    std::int32_t root = -1;
    bool arrives = false;
    Bytes data;
  };
  std::map<std::int32_t, int> last_, begun_;
  std::map<std::size_t, Sent> sent_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct Outcome {
  std::int32_t donor = -2;  // -2: the rank has died
  Bytes got;
  StateVerdict verdict;
};

// states[r]: that of rank r. versions: of the ranks' programs. spoils: the newcomers' pieces arrive damaged.
std::vector<Outcome> share(Broadcasts& broadcasts, const Ranks& newcomers, std::vector<Bytes> states,
                           const std::vector<std::uint64_t>& versions = {0, 0, 0, 0}, bool spoils = false) {
  std::vector<Outcome> outcomes(rank_count);
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < rank_count; ++rank)
    threads.emplace_back([&, rank, r = static_cast<std::size_t>(rank)] {
      const Bytes before = states[r];
      StateHeader header;
      StateSharing sharing{rank, rank_count, newcomers, states[r], versions[r], header, piece};
      std::size_t n = 0;
      try {
        outcomes[r].donor = sharing.run(
            [&](void* data, std::uint64_t count, ucft_dtype_t dtype, std::int32_t root) {
              const bool came =
                  broadcasts.run(n++, rank, root, data, count * (dtype == UCFT_UINT64 ? sizeof(std::uint64_t) : 1));
              if (came && spoils && dtype == UCFT_UINT8 && sharing.is_newcomer(rank) && count == piece)
                *static_cast<std::byte*>(data) ^= std::byte{1};
              return came;
            },
            [&](std::uint64_t bytes) {
              outcomes[r].got.resize(bytes);
              return outcomes[r].got.data();
            },
            checksum_of);
        outcomes[r].verdict = sharing.judge(outcomes[r].donor);
      } catch (const Dead&) {}
      EXPECT_EQ(states[r], before) << "rank " << rank;
    });
  for (std::thread& each : threads) each.join();
  return outcomes;
}

// Whatever byte is another one, wherever it stands, and whether one is there at all.
TEST(State, HasAChecksumThatShowsEachByte) {
  for (std::size_t size = 0; size < 200; ++size) {
    Bytes bytes = some_bytes(size, 1);
    const std::uint64_t right = checksum_of(bytes);
    EXPECT_EQ(checksum_of(bytes), right);
    for (std::byte& each : bytes) {
      each ^= std::byte{0x10};
      EXPECT_NE(checksum_of(bytes), right) << size;
      each ^= std::byte{0x10};
    }
    bytes.push_back({});
    EXPECT_NE(checksum_of(bytes), right) << size;
  }
}

// Rows of eight words; the second one differs in its signs alone.
TEST(State, HasAChecksumThatShowsTheOrder) {
  for (const double other : {-1.5, 2.5}) {
    std::vector<double> numbers(16, 1.5);
    std::fill_n(numbers.begin() + 8, 8, other);
    const std::uint64_t right = checksum_of(std::as_bytes(std::span(numbers)));
    std::swap_ranges(numbers.begin(), numbers.begin() + 8, numbers.begin() + 8);
    EXPECT_NE(checksum_of(std::as_bytes(std::span(numbers))), right);
  }
}

// Two bits of two words, of one lane or of two.
TEST(State, HasAChecksumThatShowsTwoWrongBits) {
  Bytes bytes = some_bytes(24 * 8, 1);
  const std::uint64_t right = checksum_of(bytes);
  const auto flip = [&](std::size_t word, int bit) {
    bytes[word * 8 + static_cast<std::size_t>(bit / 8)] ^= static_cast<std::byte>(1 << bit % 8);
  };
  for (std::size_t second = 1; second < 24; ++second)
    for (int bit = 0; bit < 64; ++bit)
      for (int other = 0; other < 64; ++other) {
        flip(0, bit);
        flip(second, other);
        EXPECT_NE(checksum_of(bytes), right) << second << ": " << bit << ", " << other;
        flip(second, other);
        flip(0, bit);
      }
}

struct Case {
  Ranks newcomers;
  std::size_t bytes = 0;
  bool are_equal = true;                  // the states
  int first_dies = -1, second_dies = -1;  // at that broadcast of theirs; -1: never

  Ranks donors() const {
    Ranks all;
    for (std::int32_t rank = 0; rank < rank_count; ++rank)
      if (std::ranges::find(newcomers, rank) == newcomers.end()) all.push_back(rank);
    return all;
  }
};

// With equal states no piece is sent twice. With others the last donor's is complete.
void check(const Case& is) {
  SCOPED_TRACE(testing::Message() << is.newcomers.size() << " newcomers, the first is " << is.newcomers[0] << ", "
                                  << is.bytes << " bytes, equal: " << is.are_equal << ", the first donor dies at "
                                  << is.first_dies << ", the second at " << is.second_dies);
  const Ranks donors = is.donors();
  std::map<std::int32_t, int> last;
  if (is.first_dies >= 0) last[donors[0]] = is.first_dies;
  if (is.second_dies >= 0 && donors.size() > 1) last[donors[1]] = is.second_dies;
  std::vector<Bytes> states;
  for (std::size_t r = 0; r < rank_count; ++r) states.push_back(some_bytes(is.bytes, is.are_equal ? 0 : r));
  Broadcasts broadcasts(last);
  const std::vector<Outcome> outcomes = share(broadcasts, is.newcomers, states);
  const auto outcome_of = [&](std::int32_t rank) { return outcomes[static_cast<std::size_t>(rank)]; };
  const std::int32_t donor = outcome_of(is.newcomers[0]).donor;
  const Bytes given = donor < 0 ? Bytes() : states[static_cast<std::size_t>(donor)];
  for (const std::int32_t rank : is.newcomers) {
    EXPECT_EQ(outcome_of(rank).donor, donor);
    EXPECT_EQ(outcome_of(rank).verdict.status, donor < 0 ? UCFT_ERR_ROOT_FAILED : UCFT_OK);
    EXPECT_TRUE(donor < 0 || outcome_of(rank).got == given);
  }
  for (const std::int32_t rank : donors)
    EXPECT_EQ(outcome_of(rank).donor, donor < 0 || rank < donor ? -2 : donor) << "rank " << rank;
  const auto tried = static_cast<std::size_t>(std::ranges::find(donors, donor) - donors.begin());
  // Of each piece two, of each other donor a header, a piece, and one that fails.
  const std::size_t most = 3 * tried + 1 + 2 * ((is.bytes + piece - 1) / piece);
  EXPECT_TRUE(!is.are_equal || donor < 0 || broadcasts.count() <= most) << broadcasts.count() << " > " << most;
}

TEST(State, IsThatOfTheFirstDonorThatLives) {
  for (const Ranks& newcomers : {Ranks{3}, Ranks{0}, Ranks{1}, Ranks{0, 2}, Ranks{1, 3}, Ranks{1, 2, 3}})
    for (const std::size_t bytes : {0, 1, 8, 9, 24})
      for (const bool are_equal : {true, false})
        for (int first_dies = -1; first_dies <= 6; ++first_dies)
          for (int second_dies = -1; second_dies <= 6; ++second_dies)
            check({newcomers, bytes, are_equal, first_dies, second_dies});
}

// A piece of the first donor is damaged, and the second one goes on.
TEST(State, ThatIsDamagedIsAnErrorThatNamesTheDonorOfThatPiece) {
  const std::vector<Bytes> states(rank_count, some_bytes(20, 1));
  Broadcasts broadcasts(std::map<std::int32_t, int>{{0, 5}});
  const std::vector<Outcome> outcomes = share(broadcasts, {3}, states, {0, 0, 0, 0}, true);
  EXPECT_EQ(outcomes[3].donor, 1);
  EXPECT_EQ(outcomes[3].verdict.status, UCFT_ERR_TRANSPORT);
  EXPECT_NE(outcomes[3].verdict.explanation.find("rank 0"), std::string::npos) << outcomes[3].verdict.explanation;
}

TEST(State, OfAnotherVersionOrWithAnotherChecksumIsAnErrorThatNamesTheDonor) {
  const std::vector<Bytes> states(rank_count, some_bytes(20, 1));
  for (const bool spoils : {false, true}) {
    Broadcasts broadcasts(std::map<std::int32_t, int>{{0, 1}});
    const std::vector<Outcome> outcomes = share(broadcasts, {3}, states, {7, 7, 7, spoils ? 7u : 8u}, spoils);
    EXPECT_EQ(outcomes[1].verdict.status, UCFT_OK);
    EXPECT_EQ(outcomes[3].verdict.status, spoils ? UCFT_ERR_TRANSPORT : UCFT_ERR_MISMATCH);
    EXPECT_NE(outcomes[3].verdict.explanation.find("rank 1"), std::string::npos) << outcomes[3].verdict.explanation;
  }
}

}  // namespace
}  // namespace ucft::internal

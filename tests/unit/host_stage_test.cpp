// The host stage on atomics: ranks are threads. (Also under ThreadSanitizer.) Every order of accesses of small worlds:
// tests/simulator/host_explorer_test.cpp; real processes that are killed: host_kill_test.cpp.
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/on_host/host_stage.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/host_memory.hpp"

namespace ucft::detail::test {
namespace {

#ifdef UCFT_SMALL
constexpr OperationNumber operations = 400;
#else
constexpr OperationNumber operations = 6000;
#endif
constexpr std::uint64_t most_elements = 9;

struct Case {
  Rank ranks;
  int window, degree, patience, banks;
  int packages = 1;  // ranks are dealt to them in turn
};

class HostThreads : public testing::TestWithParam<Case> {
 protected:
  HostThreads() : memory_(new std::byte[Shared::bytes(layout(), GetParam().ranks)]()) {}

  static HostLayout layout() { return {GetParam().banks, 4 * 8, 6 * 8, 2 * 8, GetParam().degree == 0 ? 1 : 2}; }
  Shared shared() { return Shared::in(memory_.get(), layout(), GetParam().ranks); }
  HostStage stage(Rank me) const {
    const Case& each = GetParam();
    std::vector<HostSite> sites(static_cast<std::size_t>(each.ranks));
    for (Rank rank = 0; rank < each.ranks; ++rank)
      sites[static_cast<std::size_t>(rank)].package = static_cast<std::int16_t>(rank % each.packages);
    return {{me, each.ranks, each.window, each.patience},
            layout(),
            std::make_shared<HostTree>(HostTree::of_sites(sites, each.degree))};
  }
  // All ranks' results, each compared with the plan and with what others were told.
  void note(Rank me, OperationNumber number, const HostTold& told) {
    const HostCall call = host_call(number, GetParam().ranks, most_elements);
    const std::string problem = problem_with(call, number, me, GetParam().ranks, told);
    EXPECT_EQ(problem, "") << "rank " << me << ", operation " << number;
    const std::uint64_t digest = digest_of(call, number, me, told);
    const std::scoped_lock lock(mutex_);
    ++counted_;
    if (digest == 0) return;
    EXPECT_EQ(told_.try_emplace(number, digest).first->second, digest) << "rank " << me << ", operation " << number;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::mutex mutex_;
  std::map<OperationNumber, std::uint64_t> told_;  // digests
  std::uint64_t counted_ = 0;
};

TEST_P(HostThreads, AllHaveTheSameRightResults) {
  const Rank ranks = GetParam().ranks;
  std::vector<std::thread> threads;
  for (Rank me = 0; me < ranks; ++me)
    threads.emplace_back([&, me] {
      SharedMemory memory(shared(), me);
      HostStage mine = stage(me);
      run_program(
          memory, mine, me, ranks, {0, operations, most_elements},
          [&](OperationNumber number, const HostTold& told) {
            note(me, number, told);
            EXPECT_EQ(told.result.outcome, Outcome::success);
            const Pattern pattern = host_call(number, ranks, 1).pattern;
            if (!pattern.sums_for_all() && !pattern.puts_side_by_side()) return;
            EXPECT_EQ(told.result.contributors, static_cast<std::uint32_t>(ranks));
          },
          [] { std::this_thread::yield(); });
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(counted_, operations * static_cast<std::uint64_t>(ranks));
}

// A thread that ends in mid-program is as good as dead: the proof is that it was joined.
TEST_P(HostThreads, SurvivorsAgreeOnEverything) {
  const Rank ranks = GetParam().ranks;
  std::vector<std::thread> threads;
  struct End {};
  std::uint32_t last_contributors = 0;  // of the one who lives to the end
  for (Rank me = 0; me < ranks; ++me)
    threads.emplace_back([&, me] {
      SharedMemory memory(shared(), me);
      HostStage mine = stage(me);
      const OperationNumber last =
          me == 0 ? operations : operations * static_cast<OperationNumber>(me) / static_cast<OperationNumber>(ranks);
      try {
        run_program(
            memory, mine, me, ranks, {0, operations, most_elements},
            [&](OperationNumber number, const HostTold& told) {
              note(me, number, told);
              if (me == 0 && host_call(number, ranks, 1).pattern.sums_for_all())
                last_contributors = told.result.contributors;
              if (number >= last) throw End{};
            },
            [] { std::this_thread::yield(); });
      } catch (const End&) {}
    });
  for (Rank me = 1; me < ranks; ++me) {
    threads[static_cast<std::size_t>(me)].join();
    shared().proved_dead[me].store(1, std::memory_order_release);
  }
  threads[0].join();
  EXPECT_EQ(last_contributors, 1u);
}

// The slabs go from one use to the next as soon as all are through.
TEST_P(HostThreads, MemoryIsUsedAgain) {
  const Rank ranks = GetParam().ranks;
  std::vector<std::thread> threads;
  for (Rank me = 0; me < ranks; ++me)
    threads.emplace_back([&, me] {
      for (std::uint32_t use = 1; use <= 200; ++use) {
        SharedMemory memory(shared(), me, use);
        HostStage mine = stage(me);
        run_program(
            memory, mine, me, ranks, {use * 10, 1 + use % 7, most_elements},
            [&](OperationNumber number, const HostTold& told) { note(me, number, told); },
            [] { std::this_thread::yield(); });
        end_use(memory, mine, me, ranks, [] { std::this_thread::yield(); });
      }
    });
  for (std::thread& each : threads) each.join();
}

INSTANTIATE_TEST_SUITE_P(Of, HostThreads,
                         testing::Values(Case{1, 1, 0, 0, 2}, Case{2, 1, 0, 0, 2}, Case{2, 4, 0, 0, 8},
                                         Case{3, 2, 0, 0, 4}, Case{4, 2, 1, 0, 4}, Case{4, 3, 2, 5, 8},
                                         Case{5, 3, 2, 1000, 4}, Case{5, 3, 2, 5, 8, 2}),
                         [](const auto& tested) {
                           const Case& each = tested.param;
                           return std::to_string(each.ranks) + "RanksW" + std::to_string(each.window) +
                                  (each.degree == 0 ? "Flat" : "Degree" + std::to_string(each.degree)) + "Patience" +
                                  std::to_string(each.patience) +
                                  (each.packages == 1 ? "" : "Packages" + std::to_string(each.packages));
                         });

TEST(HostSlab, PlacesDoNotOverlapAndNotesComeBack) {
  const HostLayout layout{4, 20, 64, 16};
  EXPECT_EQ(layout.value(0), 8u);
  EXPECT_EQ(layout.partial(0), 13u);
  EXPECT_EQ(layout.value(1), 18u);
  EXPECT_EQ(layout.value(4), layout.value(0));
  EXPECT_EQ(layout.words(), 48u);
  EXPECT_TRUE(layout.is_inline(20));
  EXPECT_FALSE(layout.is_inline(21));
  EXPECT_FALSE(layout.is_large(64));
  EXPECT_TRUE(layout.is_large(65));
  const HostLayout smallest{4, 8, 64, 16};
  EXPECT_EQ(smallest.partial(0) - smallest.value(0), 5u);  // room for two places and a length
  const HostNote note{0xfedc, Outcome::no_memory, 0xffffffff, 0xabc};
  EXPECT_EQ(HostNote::of(note.word()), note);
  EXPECT_NE(host_stamp(0), 0u);
}

// A chunk is a cache line at least, and there is one for each rank, if they are not too short.
TEST(HostSlab, ChunksCoverTheDataAndAreSharedOut) {
  const HostLayout layout{4, 48, 1000, 4096};
  for (std::uint64_t bytes : {1001ul, 4096ul, 8192ul, 100001ul, 1048576ul})
    for (Rank ranks : {1, 2, 3, 8, 100}) {
      const std::uint64_t each = layout.bytes_of_chunks(bytes, ranks), all = layout.chunks(bytes, ranks);
      EXPECT_EQ(each % 64, 0u);
      EXPECT_LE(each, 4096u);
      EXPECT_GE(all * each, bytes);
      EXPECT_LT((all - 1) * each, bytes);
      EXPECT_GE(layout.own_chunks(bytes, ranks) * static_cast<std::uint64_t>(ranks), all);
    }
}

// Two ranks on a flat tree, with a window of one operation.
struct TwoRanks {
  HostLayout layout{4, 4 * 8, 6 * 8, 2 * 8};
  std::unique_ptr<std::byte[]> slabs = std::make_unique<std::byte[]>(Shared::bytes(layout, 2));
  Shared shared = Shared::in(slabs.get(), layout, 2);
  SharedMemory memory[2] = {{shared, 0}, {shared, 1}};
  std::shared_ptr<const HostTree> tree = std::make_shared<HostTree>(HostTree::of_degree(2, 0));
  HostStage stage[2] = {{{0, 2, 1, 0}, layout, tree}, {{1, 2, 1, 0}, layout, tree}};

  void post(Rank rank, const HostCall& call, const void* data) {
    stage[rank].post(memory[rank], call, {static_cast<const std::byte*>(data), shared.area(0), shared.area(1)});
  }
  void progress(Rank rank) {
    stage[rank].progress(memory[rank], [](OperationNumber) {});
  }
};

// Long data of single bytes: 77 of them, of which rank 1 takes those from 5 on.
TEST(HostStage, AShareBeginsAnywhereInAWord) {
  constexpr std::uint64_t count = 77, first = 5;
  TwoRanks ranks;
  HostCall call = host_call(0, 2, 9);
  call.pattern = ReduceScatter::row.pattern();
  call.reduction = {DataType::uint8, Operator::sum};
  call.count = count;
  std::vector<std::uint8_t> data(count);
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  for (const Rank rank : {0, 1}) {
    call.share = rank == 0 ? Share{0, first} : Share{first, count - first};
    ranks.post(rank, call, data.data());
  }
  for (int turn = 0; turn < 3; ++turn)
    for (const Rank rank : {0, 1}) ranks.progress(rank);
  for (const Rank rank : {0, 1}) {
    ASSERT_TRUE(ranks.stage[rank].finished(0));
    const std::vector<std::byte> got = ranks.memory[rank].take(0).data;
    ASSERT_EQ(got.size(), rank == 0 ? first : count - first);
    for (std::uint64_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(static_cast<std::uint64_t>(got[i]), 2 * (i + (rank == 0 ? 0 : first))) << "rank " << rank;
  }
}

// Of two words: one look at the root is enough, for the root as well.
TEST(HostStage, ARootTakesItsShareOfAScatter) {
  TwoRanks ranks;
  HostCall call = host_call(0, 2, 9);
  call.pattern = ScatterFromRoot::row.pattern();
  call.root = 1;
  call.count = 2;
  const std::uint64_t data[] = {5, 6};
  for (const Rank rank : {1, 0}) {
    call.share = {static_cast<std::uint64_t>(rank), 1};
    ASSERT_TRUE(ranks.stage[rank].shortcut(call));
    ranks.post(rank, call, data);
    ranks.progress(rank);
    ASSERT_TRUE(ranks.stage[rank].finished(0));
    const std::vector<std::byte> got = ranks.memory[rank].take(0).data;
    ASSERT_EQ(got.size(), sizeof data[0]);
    EXPECT_EQ(std::memcmp(got.data(), data + rank, sizeof data[0]), 0) << "rank " << rank;
  }
}

// The first rank needs no other. So that it has posted as many scans as there are banks shows nothing of the others,
// whether it looks at once (HostStage::shortcut) or not.
TEST(HostStage, ARankAheadInScansWaitsForTheSlowest) {
  for (const bool is_large : {false, true}) {
    TwoRanks ranks;
    HostCall call = host_call(0, 2, 9);
    call.pattern = Scan::row.pattern();
    call.count = is_large ? 7 : 2;
    const std::uint64_t data[7] = {5, 6};
    for (OperationNumber number = 0; number < 4; ++number) {
      ASSERT_TRUE(ranks.stage[0].ready(ranks.memory[0]));
      EXPECT_NE(ranks.stage[0].shortcut(call).has_value(), is_large);
      ranks.post(0, call, data);
      ranks.progress(0);
      ASSERT_TRUE(ranks.stage[0].finished(number));
    }
    EXPECT_FALSE(ranks.stage[0].ready(ranks.memory[0])) << "rank 1 has yet to read the first";
    ranks.post(1, call, data);
    ranks.progress(1);
    ASSERT_TRUE(ranks.stage[1].finished(0));
    EXPECT_EQ(ranks.stage[1].result(0).contributors, 2u);
    EXPECT_TRUE(ranks.stage[0].ready(ranks.memory[0]));
  }
}

// The root of a long reduce keeps what it gives where it is. Another rank that has posted something else with the same
// signature has a mismatch, and looks nowhere.
TEST(HostStage, DataThatARankHasKeptAreForItAlone) {
  const Pattern reduce = Reduce::row.pattern();
  const struct {
    Pattern pattern;
    Rank root;
    bool is_same;
  } others[] = {{reduce, 0, true},
                {reduce, 1, false},
                {Allreduce::row.pattern(), 0, false},
                {Allgather::row.pattern(), 0, false},
                {Broadcast::row.pattern(), 0, false}};
  for (const auto& other : others) {
    const HostLayout layout{4, 4 * 8, 6 * 8, 2 * 8};
    const auto bytes = std::make_unique<std::byte[]>(Shared::bytes(layout, 2));
    const Shared shared = Shared::in(bytes.get(), layout, 2);
    SharedMemory memory[] = {{shared, 0}, {shared, 1}};
    const auto tree = std::make_shared<HostTree>(HostTree::of_degree(2, 0));
    HostStage stage[] = {{{0, 2, 1, 0}, layout, tree}, {{1, 2, 1, 0}, layout, tree}};
    HostCall call = host_call(0, 2, 9);
    call.count = 9;
    call.pattern = reduce;
    call.root = 0;
    std::vector<std::uint64_t> data(call.count);
    for (const Rank rank : {0, 1}) {
      for (std::uint64_t i = 0; i < call.count; ++i) data[i] = host_given(rank, 0, i);
      HostData given{reinterpret_cast<const std::byte*>(data.data()), shared.area(0), shared.area(1)};
      if (rank == 0) {
        memory[0].write(shared.area(0), given.data, call.bytes());
        call.kept = shared.area(0);
        given = {};
      } else {
        call.kept = 0;
        call.pattern = other.pattern;
        call.root = other.root;
      }
      stage[rank].post(memory[rank], call, given);
    }
    EXPECT_EQ(memory[1].load(0, layout.value(0) + 2), 0u);
    for (int turn = 0; turn < 3; ++turn)
      for (const Rank rank : {0, 1}) stage[rank].progress(memory[rank], [](OperationNumber) {});
    const Rank reader = other.is_same ? 0 : 1;
    ASSERT_TRUE(stage[reader].finished(0));
    const HostResult result = stage[reader].result(0);
    EXPECT_EQ(result.outcome, other.is_same ? Outcome::success : Outcome::mismatch);
    EXPECT_EQ(result.culprit, other.is_same ? no_rank : 0);
    const std::vector<std::byte> got = memory[reader].take(0).data;
    if (!other.is_same) {
      EXPECT_TRUE(got.empty());
      continue;
    }
    EXPECT_EQ(result.contributors, 2u);
    ASSERT_EQ(got.size(), call.bytes());
    for (std::uint64_t i = 0; i < call.count; ++i) {
      std::uint64_t word;
      std::memcpy(&word, got.data() + i * sizeof word, sizeof word);
      EXPECT_EQ(word, host_given(0, 0, i) + host_given(1, 0, i));
    }
  }
}

}  // namespace
}  // namespace ucft::detail::test

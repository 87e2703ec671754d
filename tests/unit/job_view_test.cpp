// What an observer makes of ranks' memory, and of what several have posted. Real ranks:
// tests/ucx/scenarios/lateness.cpp.
#include "ucx_layer/observer/job_view.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail::test {
namespace {

constexpr std::uint32_t communicator = 7;
constexpr HostNote a_sum{1, Outcome::success, 8, bits_of(Kind::allreduce, DataType::float64, Operator::sum)};
constexpr HostNote a_barrier{2, Outcome::success, 0, bits_of(Kind::barrier, DataType::uint64, Operator::none)};
HostNote broadcast_from(Rank root) {
  return {3, Outcome::success, HostNote::is_root | static_cast<std::uint32_t>(root),
          bits_of(Kind::broadcast, DataType::int32, Operator::none)};
}

// n ranks that have posted and finished so many, all of them sums.
JobView job_of(const std::vector<std::pair<OperationNumber, OperationNumber>>& posted_and_finished) {
  JobView job;
  job.now_ns = 1000000000;
  for (const auto& [posted, finished] : posted_and_finished) {
    const auto rank = static_cast<std::int32_t>(job.ranks.size());
    RankView& view = job.ranks[rank];
    view.rank = rank;
    view.heard_at_ns = job.now_ns;
    view.silent_after_ns = 50000000;
    PartView& part = view.parts[communicator];
    part.rank = rank;
    part.posted = posted;
    part.finished = finished;
    for (OperationNumber number = 0; number < posted; ++number) part.latest.push_back({number, a_sum});
  }
  return job;
}
void repost(JobView& job, std::int32_t rank, const HostNote& note) {
  PartView::Posted& last = job.ranks.at(rank).parts.at(communicator).latest.back();
  last.note = note;
  last.root = kind_in(note) != Kind::broadcast        ? no_rank
              : (note.count & HostNote::is_root) == 0 ? rank
                                                      : static_cast<Rank>(note.count & ~HostNote::is_root);
}
void repost(JobView& job, std::int32_t rank, const HostNote& note, Rank root) {
  repost(job, rank, note);
  job.ranks.at(rank).parts.at(communicator).latest.back().root = root;
}
using Ranks = std::vector<std::int32_t>;

TEST(JobView, WhoHasNotPostedIsAwaited) {
  JobView job = job_of({{3, 2}, {2, 2}, {3, 2}, {1, 1}});
  EXPECT_EQ(job.awaited_by(0, communicator), (Ranks{1, 3}));
  EXPECT_EQ(job.awaited_by(1, communicator), Ranks{});  // it is in no operation
  EXPECT_EQ(job.awaited_by(0, 8), Ranks{});
  EXPECT_EQ(job.doing(0), Doing::in_operation);
  EXPECT_EQ(job.doing(1), Doing::computes);
  job.ranks.at(3).has_failed = true;  // which is known: nobody waits for it any more
  EXPECT_EQ(job.awaited_by(0, communicator), (Ranks{1}));
}

TEST(JobView, WhoHasAllThatItNeedsHasOnlyToLook) {
  const JobView job = job_of({{3, 2}, {3, 3}});
  EXPECT_EQ(job.awaited_by(0, communicator), Ranks{});
  EXPECT_EQ(job.doing(0), Doing::computes);
}

TEST(JobView, ABroadcastWaitsForItsRootAlone) {
  JobView job = job_of({{3, 2}, {2, 2}, {2, 2}});
  repost(job, 0, broadcast_from(2));
  EXPECT_EQ(job.awaited_by(0, communicator), (Ranks{2}));
  job.ranks.at(0).parts.at(communicator).by_messages = true;  // those between pass it on
  EXPECT_EQ(job.awaited_by(0, communicator), (Ranks{1, 2}));
}

TEST(JobView, AScanWaitsForTheRanksBeforeItAlone) {
  JobView job = job_of({{2, 2}, {3, 2}, {2, 2}});
  repost(job, 1, {7, Outcome::success, 8, bits_of(Kind::scan, DataType::int32, Operator::sum)});
  EXPECT_EQ(job.awaited_by(1, communicator), (Ranks{0}));
  job.ranks.at(1).parts.at(communicator).by_messages = true;
  EXPECT_EQ(job.awaited_by(1, communicator), (Ranks{0, 2}));
}

TEST(JobView, OfRanksElsewhereThoseThatItNeedsAreAwaited) {
  JobView job = job_of({{3, 2}, {2, 2}, {2, 2}});
  for (std::int32_t rank : {1, 2}) job.ranks.at(rank).is_afar = true;
  job.ranks.at(0).parts.at(communicator).needs = {2};
  EXPECT_EQ(job.awaited_by(0, communicator), (Ranks{2}));
  EXPECT_EQ(job.doing(2), Doing::unknown);
}

TEST(JobView, StatesInTheirOrder) {
  JobView job = job_of({{2, 2}});
  RankView& view = job.ranks.at(0);
  view.heard_at_ns = job.now_ns - 50000000;
  EXPECT_EQ(job.doing(0), Doing::computes);
  view.heard_at_ns -= 1;
  EXPECT_EQ(job.doing(0), Doing::silent);
  view.process = ProcessState::stopped;
  EXPECT_EQ(job.doing(0), Doing::stopped);
  view.process = ProcessState::dead;
  EXPECT_EQ(job.doing(0), Doing::dead);
  view.is_out = true;
  EXPECT_EQ(job.doing(0), Doing::out);
  view.has_left = true;
  EXPECT_EQ(job.doing(0), Doing::left);
}

TEST(JobView, WhoComputesSaysWhatItIsInsideOf) {
  JobView job = job_of({{3, 2}, {2, 2}});
  for (auto& [rank, view] : job.ranks) view.activity = "MPI_Recv";
  job.ranks.at(1).process = ProcessState::sleeping;
  EXPECT_EQ(job.words_about(0), "in an operation, last heard 0.00 s ago");
  EXPECT_EQ(job.words_about(1), "inside MPI_Recv (sleeps in a system call), last heard 0.00 s ago");
  job.ranks.at(1).activity.clear();
  EXPECT_EQ(job.words_about(1), "computes (sleeps in a system call), last heard 0.00 s ago");
}

TEST(JobView, TheFewerAreWrong) {
  JobView job = job_of({{3, 2}, {2, 2}, {3, 2}, {3, 2}});
  EXPECT_EQ(job.mismatch_of(2), "");
  repost(job, 2, a_barrier);
  EXPECT_EQ(
      job.mismatch_of(2),
      "has posted barrier as operation 2, and 2 other ranks allreduce (sum of double, 8 bytes): the operations differ");
  EXPECT_EQ(job.doing(2), Doing::mismatched);
  for (std::int32_t rank : {0, 1, 3}) EXPECT_EQ(job.mismatch_of(rank), "") << rank;
  HostNote another = a_sum;  // another f, say
  another.signature = 9;
  repost(job, 2, another);
  EXPECT_EQ(
      job.mismatch_of(2),
      "has posted allreduce (sum of double, 8 bytes) as operation 2, and 2 other ranks allreduce (sum of double, 8 "
      "bytes): f or other options differ");
  for (auto& [rank, view] : job.ranks) view.parts.at(communicator).finished = 3;  // all have had their error
  EXPECT_EQ(job.mismatch_of(2), "");
}

std::string fields_that_differ(const HostNote& note, Rank root, const HostNote& most, Rank most_root) {
  JobView job = job_of({{1, 0}, {1, 0}, {1, 0}, {0, 0}});
  repost(job, 0, most, most_root);
  repost(job, 1, note, root);
  repost(job, 2, most, most_root);
  EXPECT_EQ(job.mismatch_of(0) + job.mismatch_of(2), "");
  const std::string said = job.mismatch_of(1), between = job.difference(1, 2, communicator, 0);
  EXPECT_EQ(said.substr(said.rfind(": ")), between.substr(between.rfind(": ")));
  return said.substr(said.rfind(": ") + 2);
}

TEST(JobView, WhichFieldsDifferIsSaid) {
  constexpr HostNote sum{1, Outcome::success, 8, bits_of(Kind::reduce, DataType::float64, Operator::sum)};
  HostNote other = sum;
  other.signature = 2;
  EXPECT_EQ(fields_that_differ(other, 1, sum, 0), "the roots differ");
  EXPECT_EQ(fields_that_differ(other, no_rank, sum, 0), "the roots, f or other options differ");
  EXPECT_EQ(fields_that_differ(other, 0, sum, 0), "f or other options differ");
  other.count = 16;
  EXPECT_EQ(fields_that_differ(other, 0, sum, 0), "the counts differ");
  other.what = bits_of(Kind::reduce, DataType::int32, Operator::max);
  EXPECT_EQ(fields_that_differ(other, 1, sum, 0), "the types and operators and counts and roots differ");
  EXPECT_EQ(fields_that_differ(a_barrier, no_rank, sum, 0), "the operations differ");
  HostNote broadcast = broadcast_from(2), elsewhere = broadcast_from(1);
  elsewhere.signature = 9;
  EXPECT_EQ(fields_that_differ(elsewhere, 1, broadcast, 2), "the roots differ");
  elsewhere.count = 4;  // of the root itself, whose note has a length
  EXPECT_EQ(fields_that_differ(elsewhere, 2, broadcast, 2), "the counts, f or other options differ");
}

TEST(JobView, WhoHasGoneOnAfterItsMistakeIsNamed) {
  JobView job = job_of({{3, 2}, {4, 3}, {3, 2}});
  PartView& part = job.ranks.at(1).parts.at(communicator);
  part.latest[2].note = a_barrier;
  EXPECT_EQ(
      job.mismatch_of(1),
      "has posted barrier as operation 2, and 2 other ranks allreduce (sum of double, 8 bytes): the operations differ");
  std::swap(part.latest[2], part.latest[3]);  // banks are in no order
  EXPECT_NE(job.mismatch_of(1), "");
}

TEST(JobView, TheRootIsNamed) {
  JobView job = job_of({{1, 0}, {1, 0}, {0, 0}});
  repost(job, 0, broadcast_from(2));
  HostNote of_root = broadcast_from(1);
  of_root.signature = 4;
  of_root.count = 12;
  repost(job, 1, of_root);
  EXPECT_EQ(
      job.mismatch_of(1),
      "has posted broadcast (int32, 12 bytes, from rank 1) as operation 0, and 1 other rank broadcast (int32, from "
      "rank 2): the roots differ");
  EXPECT_EQ(
      job.difference(0, 1, communicator, 0),
      "has posted broadcast (int32, from rank 2), and this rank broadcast (int32, 12 bytes, from rank 1): the roots "
      "differ");
  EXPECT_EQ(job.difference(2, 1, communicator, 0), "");  // it has posted nothing
  EXPECT_EQ(job.difference(1, 1, communicator, 0), "");
}

TEST(JobView, BlocksAndBroadcastsMayDifferInLength) {
  JobView job = job_of({{1, 0}, {1, 0}, {0, 0}});
  repost(job, 0, broadcast_from(1));
  HostNote of_root = broadcast_from(1);
  of_root.count = 64;
  repost(job, 1, of_root);
  EXPECT_EQ(job.mismatch_of(0) + job.mismatch_of(1), "");
  HostNote longer = a_sum;
  longer.count = 16;  // by chance of the same signature
  repost(job, 0, a_sum);
  repost(job, 1, longer);
  EXPECT_NE(job.mismatch_of(1), "");
}

// Rank 2 waits for 0 and 1 in another communicator, in which they wait for nobody.
TEST(JobView, WaitsInACircleAreAMismatchIfTheRanksAreInsideThem) {
  JobView job = job_of({{3, 2}, {3, 2}, {2, 2}});
  for (auto& [rank, view] : job.ranks) {
    PartView& part = view.parts[8];
    part.rank = rank;
    if (rank != 2) continue;
    part.posted = 1;
    part.latest.push_back({0, a_barrier});
  }
  EXPECT_EQ(job.mismatch_of(2), "");  // it may have posted that only, and compute
  for (auto& [rank, view] : job.ranks) view.waits_since_ns = rank == 2 ? 0 : 5;
  EXPECT_EQ(job.mismatch_of(2), "");
  for (auto& [rank, view] : job.ranks) view.waits_since_ns = 5;
  EXPECT_EQ(job.mismatch_of(2), "waits in communicator 8 for rank 0, which waits for it in communicator 7");
  EXPECT_EQ(job.mismatch_of(0), "");
  job.ranks.at(0).waits_since_ns = job.ranks.at(1).waits_since_ns = 0;
  EXPECT_EQ(job.mismatch_of(2), "");
  for (std::int32_t rank : {0, 1}) job.ranks.at(rank).waited_until_ns = job.now_ns - 49999999;  // in slices
  EXPECT_NE(job.mismatch_of(2), "");
  for (std::int32_t rank : {0, 1}) job.ranks.at(rank).waited_until_ns = job.now_ns - 50000000;
  EXPECT_EQ(job.mismatch_of(2), "");
}

// 0 waits for 1 in communicator 10, 1 for 2 in 11, 2 for 0 in 12.
TEST(JobView, ALongCircleIsNamedLinkByLink) {
  JobView job = job_of({{1, 1}, {1, 1}, {1, 1}});
  for (auto& [rank, view] : job.ranks) {
    view.waits_since_ns = 5;
    for (const bool waits : {true, false}) {
      PartView& part = view.parts[10 + static_cast<std::uint32_t>(waits ? rank : (rank + 2) % 3)];
      part.rank = waits ? 0 : 1;
      if (!waits) continue;
      part.posted = 1;
      part.latest.push_back({0, a_barrier});
    }
  }
  EXPECT_EQ(job.mismatch_of(0),
            "waits in communicator 10 for rank 1, which waits in communicator 11 for rank 2, which waits for it in "
            "communicator 12");
  job.ranks.at(2).waits_since_ns = 0;
  for (std::int32_t rank : {0, 1, 2}) EXPECT_EQ(job.mismatch_of(rank), "") << rank;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// A rank's first segment, and behind it a slab of 4 banks.
class Memory {
 public:
  static constexpr std::uint64_t base = 0x10000, slab = 3 * 4096, bytes = 4 * 4096;
  Memory() : data_(new (std::align_val_t(4096)) std::byte[bytes]()) {
    control().ranks = 4;
    control().rank = 3;
    control().cookie = 77;
    control().address = base;
    control().heartbeat_period_us = 20000;
    control().beat_at_ns = 123;
    SlabPage& page = *FirstSegment::slabs_in(data_);
    page.entries[9].address = base + slab;
    page.entries[9].key = SlabEntry::key_of(communicator);
    page.entries[10].address = base + slab;
    page.entries[10].key = SlabEntry::key_of(8) | SlabEntry::closed;
    word(HostLayout::stride_and_banks()) = std::uint64_t{8} << 32 | 4;
    word(HostLayout::rank_and_ranks()) = std::uint64_t{2} << 32 | 3;
    word(HostLayout::posted_at()) = 456;
  }
  ~Memory() { operator delete[](data_, std::align_val_t(4096)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  ControlPage& control() { return *FirstSegment::control_in(data_); }
  std::uint64_t& word(HostPlace place) { return reinterpret_cast<std::uint64_t*>(data_ + slab)[place]; }
  void post(OperationNumber number, const HostNote& note) {
    const HostPlace bank = HostLayout::first_bank() + number % 4 * 8;
    word(bank) = host_stamp(number);
    word(bank + 1) = note.word();
  }
  ReadMemory reader() const {
    return [this](std::uint64_t offset, std::span<std::uint64_t> words) {
      if (offset + words.size_bytes() > bytes) return false;
      std::memcpy(words.data(), data_ + offset, words.size_bytes());
      return true;
    };
  }

 private:
  std::byte* data_;
};

TEST(RankView, ReadsWhatARankHasPosted) {
  Memory memory;
  for (OperationNumber number = 0; number < 6; ++number) memory.post(number, number == 5 ? a_barrier : a_sum);
  memory.word(HostLayout::through()) = host_stamp(3);
  memory.control().left = 2;
  RankView view;
  ASSERT_TRUE(view.read(memory.reader()));
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.cookie, 77u);
  EXPECT_EQ(view.heard_at_ns, 123);
  EXPECT_EQ(view.silent_after_ns, 100000000);
  EXPECT_TRUE(view.is_out);
  ASSERT_EQ(view.parts.size(), 1u);  // what is closed is over
  const PartView& part = view.parts.at(communicator);
  EXPECT_EQ(part.rank, 2);
  EXPECT_EQ(part.posted, 6u);
  EXPECT_EQ(part.finished, 4u);
  EXPECT_EQ(part.posted_at_ns, 456);
  ASSERT_NE(part.find(5), nullptr);
  EXPECT_EQ(part.find(5)->note, a_barrier);
  EXPECT_EQ(part.find(2)->note, a_sum);
  EXPECT_EQ(part.find(1), nullptr);  // its bank was used again
}

TEST(RankView, ReadsTheRoots) {
  constexpr HostNote a_reduce{5, Outcome::success, 8, bits_of(Kind::reduce, DataType::float64, Operator::sum)};
  Memory memory;
  HostNote of_root = broadcast_from(0);
  of_root.count = 12;
  memory.post(0, broadcast_from(1));
  memory.post(1, of_root);  // by rank 2 of the communicator
  memory.post(2, a_reduce);
  memory.post(3, a_reduce);
  memory.word(HostLayout::root_of_reduce()) = std::uint64_t{3} << 32 | 1;
  RankView view;
  ASSERT_TRUE(view.read(memory.reader()));
  const PartView& part = view.parts.at(communicator);
  EXPECT_EQ(part.find(0)->root, 1);
  EXPECT_EQ(part.find(1)->root, 2);
  EXPECT_EQ(part.find(2)->root, no_rank);  // not known any more
  EXPECT_EQ(part.find(3)->root, 1);
}

TEST(RankView, ReadsWhatARankHasPostedByMessages) {
  Memory memory;
  PostedByMessages& posted = memory.control().by_messages[2];
  posted.rank_and_ranks = std::uint64_t{1} << 32 | 2;
  posted.posted = 5;
  posted.finished = 4;
  posted.note = a_barrier.word();
  posted.key = 10;
  RankView view;
  ASSERT_TRUE(view.read(memory.reader()));
  const PartView& part = view.parts.at(9);
  EXPECT_TRUE(part.by_messages && part.is_in_operation());
  EXPECT_EQ(part.find(4)->note, a_barrier);
  EXPECT_EQ(part.find(4)->root, no_rank);
  posted.note = broadcast_from(0).word();
  posted.root = 1;
  ASSERT_TRUE(view.read(memory.reader()));
  EXPECT_EQ(view.parts.at(9).find(4)->root, 1);
}

TEST(RankView, ReadsWhatItIsInsideOf) {
  Memory memory;
  const auto read = [](const ReadMemory& reader) {
    RankView view;
    EXPECT_TRUE(view.read(reader));
    return view.activity;
  };
  EXPECT_EQ(read(memory.reader()), "");
  for (const char* name : {"MPI_Reduce_scatter_block", "MPI_Recv", "Wait", ""}) {  // long ones leave nothing behind
    memory.control().activity.store(name);
    EXPECT_EQ(read(memory.reader()), name);
  }
  memory.control().activity.store("a name of more than 31 characters");
  EXPECT_EQ(read(memory.reader()), "a name of more than 31 characte");
  int reads = 0;
  const ReadMemory changing = [&](std::uint64_t offset, std::span<std::uint64_t> words) {
    if (offset == offsetof(ControlPage, activity))
      memory.control().activity.store(++reads == 1 ? "MPI_Recv" : "MPI_Send");
    return memory.reader()(offset, words);
  };
  EXPECT_EQ(read(changing), "");
  memory.control().activity.store(nullptr);
  EXPECT_EQ(read(memory.reader()), "");
  memory.control().waits_in.store("recv from 3, tag 7");
  RankView view;
  EXPECT_TRUE(view.read(memory.reader()));
  EXPECT_EQ(view.waits_in, "recv from 3, tag 7");
}

TEST(RankView, WhoStartsUpIsNoRankYet) {
  Memory memory;
  memory.control().ranks = 0;
  RankView view;
  EXPECT_FALSE(view.read(memory.reader()));
  EXPECT_FALSE(view.read([](std::uint64_t, std::span<std::uint64_t>) { return false; }));
}

}  // namespace
}  // namespace ucft::detail::test

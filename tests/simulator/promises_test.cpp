// The checker of promises that all worlds share: results that it must find wrong. Each world shows that right ones
// pass.
#include "simulator/promises.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/catalogue/catalogue.hpp"
#include "simulator/exchanged.hpp"

namespace ucft::detail::simulator {
namespace {

Arguments call(Kind kind) {
  Arguments arguments;
  arguments.kind = kind;
  arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  arguments.count = arguments.row().has_data() ? 2 : 0;
  return arguments;
}
bool has_blocks(Kind kind) { return row_of(kind).has_own_lengths() || kind == Kind::exchange; }
// The block that a rank gives to rank 0.
std::vector<std::byte> block_of(const Arguments& arguments, Rank rank) {
  if (!arguments.row().goes_straight) return input_of(arguments, rank, 0);
  ExchangeInput input;
  input.add(rank, 1, true);
  return input.bytes;
}
// Of four ranks. Ranks 2 and 3 have died: rank 2 after it gave, rank 3 before.
struct Case {
  explicit Case(Kind kind) : arguments(call(kind)), terms(terms_of(arguments, 4, 0)) {
    terms.parts = {Part::must, Part::must, Part::may, Part::cannot};
    terms.failures = 2;
    result.finished = true;
    result.contributors = 3;
    result.missing = {3};
    result.value = kind == Kind::exchange_from_root ? exchanged(0, 0)
                   : row_of(kind).from_root()       ? std::vector<std::uint64_t>{1000, 1000}
                   : kind == Kind::barrier          ? std::vector<std::uint64_t>{}
                                                    : std::vector<std::uint64_t>{7, 7};
    if (has_blocks(kind)) set({0, 1, 2});
  }
  void set(const std::vector<Rank>& ranks) {
    result.value.clear();
    for (Rank rank : ranks) {
      const std::vector<std::byte> block = block_of(arguments, rank);
      result.value.resize(result.value.size() + block.size() / 8);
      std::memcpy(result.value.data() + result.value.size() - block.size() / 8, block.data(), block.size());
    }
  }
  std::string wrong(const Result* reference = nullptr) const { return broken_promise(terms, 0, result, reference); }

  Arguments arguments;
  Terms terms;
  Result result;
};

TEST(Promises, ARightResultIsRight) {
  for (const CatalogueRow& row : catalogue) EXPECT_EQ(Case(row.kind).wrong(), "") << row.name;
}

TEST(Promises, AResultHasEachLiveRank) {
  for (Kind kind :
       {Kind::allreduce, Kind::reduce, Kind::reduce_scatter, Kind::barrier, Kind::allgather, Kind::gather}) {
    Case it(kind);
    if (has_blocks(kind)) it.set({0, 2});
    if (it.result.value.size() == 2) it.result.value = {5, 5};
    it.result.contributors = 2;
    it.result.missing = {1, 3};
    EXPECT_EQ(it.wrong(), "lacks the value of live rank 1") << kind_name(kind);
    it.result.missing_known = false;
    it.result.contributors -= kind == Kind::barrier;  // 2 might be of ranks 0 and 1
    EXPECT_NE(it.wrong(), "") << kind_name(kind);
  }
}

TEST(Promises, ARankThatNeverGaveIsInNoResult) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::allgather, Kind::gather}) {
    Case it(kind);
    if (has_blocks(kind)) it.set({0, 1, 3});
    if (kind == Kind::allreduce) it.result.value = {11, 11};
    it.result.missing = {2};
    EXPECT_EQ(it.wrong(), "has a value that was never given, of rank 3") << kind_name(kind);
  }
}

TEST(Promises, CountAndListAreThoseOfTheValue) {
  for (Kind kind : {Kind::allreduce, Kind::barrier, Kind::allgather, Kind::gather}) {
    Case it(kind);
    it.result.contributors = 2;
    EXPECT_EQ(it.wrong(), "miscounted contributors") << kind_name(kind);
  }
  for (Kind kind : {Kind::allreduce, Kind::allgather, Kind::gather}) {
    Case it(kind);
    it.result.missing = {2, 3};
    it.result.contributors = 2;
    EXPECT_NE(it.wrong(), "") << kind_name(kind);
  }
}

TEST(Promises, AValueIsWhole) {
  for (const std::vector<std::uint64_t>& value : {std::vector<std::uint64_t>{7}, {7, 3}, {7, 7, 7}, {8, 8}, {}})
    for (Kind kind : {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::allgather, Kind::gather})
      for (bool known : {true, false}) {
        Case it(kind);
        it.result.value = value;
        it.result.missing_known = known;
        EXPECT_NE(it.wrong(), "") << kind_name(kind);
      }
  Case twice(Kind::allgather);
  twice.set({0, 1, 1});
  EXPECT_NE(twice.wrong(), "");
}

TEST(Promises, OfManyRanksASumIsBetweenThatOfTheLiveAndThatOfAll) {
  const Arguments arguments = call(Kind::allreduce);
  Terms terms = terms_of_numbers(arguments, 100, 1);
  terms.lists_missing = false;
  for (Rank rank = 0; rank < 80; ++rank) terms.part(rank) = Part::must;
  Result result;
  const auto wrong = [&](std::uint64_t sum, std::uint32_t contributors) {
    result.value = {sum};
    result.contributors = contributors;
    return wrong_contents(terms, result);
  };
  EXPECT_EQ(wrong(6400, 80), "");
  EXPECT_EQ(wrong(6400 + 161, 81), "");
  EXPECT_NE(wrong(6400 + 161, 82), "");
  EXPECT_NE(wrong(6400 - 2, 80), "");
  EXPECT_NE(wrong(6400 + 2, 80), "");
  EXPECT_NE(wrong(6399, 79), "");
  EXPECT_NE(wrong(10001, 101), "");
}

TEST(Promises, AllGetTheSame) {
  for (const CatalogueRow& row : catalogue) {
    const Case it(row.kind);
    for (int field = 0; field < 5; ++field) {
      Result other = it.result;
      if (field == 0) other.outcome = Outcome::too_many_failures;
      if (field == 1 && row.goes_straight) continue;  // each has its own
      if (field == 1) other.value.push_back(1);
      if (field == 2) ++other.contributors;
      if (field == 3) other.missing.clear();
      if (field == 4) other.culprit = 1;
      EXPECT_NE(it.wrong(&other), "") << row.name << " " << field;
    }
    EXPECT_EQ(it.wrong(&it.result), "");
  }
}

// Each of its own elements, and of the same set of ranks.
TEST(Promises, EachRankTakesItsShare) {
  Case it(Kind::reduce_scatter);
  it.terms.given = [](Rank rank) {
    return std::vector<std::uint64_t>{std::uint64_t{1} << rank, std::uint64_t{100} << rank};
  };
  it.terms.share = [](Rank rank) { return Share{static_cast<std::uint64_t>(rank), 1}; };
  it.result.value = {7};
  EXPECT_EQ(it.wrong(), "");
  Result of_other = it.result;
  of_other.value = {700};
  EXPECT_EQ(broken_promise(it.terms, 1, of_other, &it.result), "");
  EXPECT_NE(broken_promise(it.terms, 0, of_other, nullptr), "") << "another's share";
  ++of_other.contributors;
  EXPECT_NE(broken_promise(it.terms, 1, of_other, &it.result), "");
  it.result.value = {7, 700};
  EXPECT_NE(it.wrong(), "") << "more than its share";
  it.result.value = {5};
  EXPECT_NE(it.wrong(), "") << "not of each live rank";
}

// Of the ranks up to its own. So a rank may have fewer than another, and is not to blame for what comes behind it.
TEST(Promises, EachRankTakesItsPrefix) {
  Case it(Kind::scan);
  it.terms.pattern.is_prefix = true;
  const auto wrong = [&](Rank rank, const std::vector<Rank>& of) {
    it.set(of);
    it.result.contributors = static_cast<std::uint32_t>(of.size());
    it.result.missing_known = false;
    return broken_promise(it.terms, rank, it.result, nullptr);
  };
  EXPECT_EQ(wrong(0, {0}), "");
  EXPECT_EQ(wrong(1, {0, 1}), "");
  EXPECT_EQ(wrong(2, {0, 1, 2}), "");
  EXPECT_NE(wrong(1, {1}), "") << "lacks one before it";
  EXPECT_NE(wrong(0, {0, 1}), "") << "has one behind it";
  EXPECT_NE(wrong(3, {0, 1, 2, 3}), "") << "has one that never gave";
  it.result.outcome = Outcome::no_memory;
  it.result.culprit = it.terms.lacks = 1;
  it.result.value.clear();
  EXPECT_EQ(broken_promise(it.terms, 1, it.result, nullptr), "");
  EXPECT_NE(broken_promise(it.terms, 0, it.result, nullptr), "") << "needs nothing of rank 1";
  it.terms.lack_is_known = true;
  it.result.outcome = Outcome::success;
  EXPECT_EQ(wrong(0, {0}), "");
  EXPECT_NE(wrong(1, {0, 1}), "") << "not all have memory for it";
}

TEST(Promises, AnErrorHasItsReason) {
  for (const CatalogueRow& row : catalogue) {
    Case it(row.kind);
    it.result.value.clear();
    const auto is_wrong = [&](Outcome outcome) {
      it.result.outcome = outcome;
      return !it.wrong().empty();
    };
    EXPECT_TRUE(is_wrong(Outcome::mismatch));
    EXPECT_TRUE(is_wrong(Outcome::no_memory));
    EXPECT_TRUE(is_wrong(Outcome::root_failed));
    EXPECT_EQ(is_wrong(Outcome::too_many_failures), row.from_root());
    it.terms.failures = 1;
    EXPECT_TRUE(is_wrong(Outcome::too_many_failures));
    it.terms.root_stays = false;
    it.terms.part(0) = Part::may;
    EXPECT_EQ(is_wrong(Outcome::root_failed), !row.rooted());
    it.terms.part(0) = Part::must;
    EXPECT_EQ(is_wrong(Outcome::root_failed), !row.to_root()) << "its data are there";
    it.terms.lacks = it.result.culprit = 1;
    EXPECT_FALSE(is_wrong(Outcome::no_memory));
    it.result.culprit = 2;
    EXPECT_TRUE(is_wrong(Outcome::no_memory));
    it.result.culprit = 1;
    it.result.value = {7};
    EXPECT_TRUE(is_wrong(Outcome::no_memory)) << "data beside an error";
    Case lacking(row.kind);
    lacking.terms.lack_is_known = true;
    EXPECT_EQ(lacking.wrong().empty(), row.from_root());
  }
}

TEST(Promises, OfAReduceTheRootAloneHasAResult) {
  Case it(Kind::reduce);
  it.result.value.clear();
  EXPECT_EQ(broken_promise(it.terms, 1, it.result, nullptr), "");
  it.result.finished = false;
  EXPECT_EQ(broken_promise(it.terms, 1, it.result, nullptr), "never finished");
}

}  // namespace
}  // namespace ucft::detail::simulator

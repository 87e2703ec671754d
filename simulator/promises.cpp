#include "simulator/promises.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail::simulator {

namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::size_t most_sets = 10;  // of so many ranks that may be in a result all sets are tried

std::string named(const char* what, Rank rank) { return what + std::to_string(rank); }

void add(Words& sum, const Words& part) {
  sum.resize(std::max(sum.size(), part.size()));
  for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
}

// As float64 all words are subnormal numbers, whose sums are those of the integers.
Words finished(const Terms& terms, Words sum, std::uint32_t contributors) {
  if (terms.averages)
    for (std::uint64_t& each : sum) each = std::bit_cast<std::uint64_t>(std::bit_cast<double>(each) / contributors);
  return sum;
}

std::string wrong_set(const Terms& terms, const Result& result, const std::vector<bool>& in) {
  for (Rank rank = 0; rank < static_cast<Rank>(in.size()); ++rank) {
    const bool is_in = in[static_cast<std::size_t>(rank)];
    if (!is_in && terms.part(rank) == Part::must) return named("lacks the value of live rank ", rank);
    if (is_in && terms.part(rank) == Part::cannot) return named("has a value that was never given, of rank ", rank);
    if (terms.lists_missing && result.missing_known && std::ranges::binary_search(result.missing, rank) == is_in)
      return "wrong list of missing ranks";
  }
  const auto size = static_cast<std::uint32_t>(std::ranges::count(in, true));
  return size == result.contributors ? "" : "miscounted contributors";
}

// A set of blocks: of a rank its whole block or nothing.
std::string wrong_blocks(const Terms& terms, const Result& result) {
  std::vector<bool> in(terms.parts.size());
  std::string wrong;
  const bool whole =
      Blocks::for_each(std::as_bytes(std::span(result.value)), [&](Rank rank, std::span<const std::byte> block) {
        if (rank < 0 || rank >= static_cast<Rank>(in.size())) return wrong = named("a block of rank ", rank), void();
        if (in[static_cast<std::size_t>(rank)]) wrong = named("two blocks of rank ", rank);
        in[static_cast<std::size_t>(rank)] = true;
        const Words its = terms.given(rank);
        if (!std::ranges::equal(block, std::as_bytes(std::span(its))))
          wrong = named("another block than that of rank ", rank);
      });
  if (!whole) return "no set of blocks";
  return wrong.empty() ? wrong_set(terms, result, in) : wrong;
}

// The same set, by rank: an allgather in pieces leaves its blocks in the order in which they have come.
Result in_order_of_ranks(Result result) {
  std::vector<std::pair<Rank, Words>> blocks;
  if (!Blocks::for_each(std::as_bytes(std::span(result.value)), [&](Rank rank, std::span<const std::byte> block) {
        blocks.emplace_back(rank, Words(block.size() / sizeof(std::uint64_t)));
        if (!block.empty()) std::memcpy(blocks.back().second.data(), block.data(), block.size());
      }))
    return result;
  std::ranges::sort(blocks);
  result.value.clear();
  for (const auto& [rank, words] : blocks) {
    result.value.insert(result.value.end(), {static_cast<std::uint64_t>(rank), words.size()});
    result.value.insert(result.value.end(), words.begin(), words.end());
  }
  return result;
}

// Some set makes this sum: the one that the list says, if there is one. If the sets are too many: all numbers are odd,
// so a sum of one number too few or too many shows in the count.
std::string wrong_sum(Terms terms, const Result& result) {
  if (terms.lists_missing && result.missing_known) {
    std::vector<bool> in(terms.parts.size(), true);
    for (Rank rank : result.missing) in[static_cast<std::size_t>(rank)] = false;
    if (std::string wrong = wrong_set(terms, result, in); !wrong.empty()) return wrong;
    std::ranges::transform(in, terms.parts.begin(), [](bool is_in) { return is_in ? Part::must : Part::cannot; });
  }
  Words least, most;
  std::uint32_t certain = 0;
  std::vector<Words> others;
  for (Rank rank = 0; rank < static_cast<Rank>(terms.parts.size()); ++rank) {
    if (terms.part(rank) == Part::cannot) continue;
    Words its = terms.given(rank);
    add(most, its);
    if (terms.part(rank) == Part::may) {
      others.push_back(std::move(its));
      continue;
    }
    add(least, its);
    ++certain;
  }
  least.resize(most.size());
  if (others.size() <= most_sets) {
    for (std::size_t set = 0; set < std::size_t{1} << others.size(); ++set) {
      if (certain + static_cast<std::uint32_t>(std::popcount(set)) != result.contributors) continue;
      Words sum = least;
      for (std::size_t i = 0; i < others.size(); ++i)
        if ((set >> i & 1) != 0) add(sum, others[i]);
      if (result.value == finished(terms, sum, result.contributors)) return "";
    }
    return "not the sum of all live ranks and so many others";
  }
  bool right = result.value.size() == most.size() && result.contributors >= certain &&
               result.contributors <= certain + others.size();
  for (std::size_t i = 0; right && i < most.size(); ++i)
    right =
        result.value[i] >= least[i] && result.value[i] <= most[i] && (result.value[i] - result.contributors) % 2 == 0;
  right = right && (result.contributors > certain || result.value == least);
  return right ? "" : "no sum of all live ranks and so many others";
}

// Of the ranks up to that one alone. So the results of two ranks differ, and each is held against the terms.
Terms terms_up_to(Terms terms, Rank rank) {
  terms.parts.resize(static_cast<std::size_t>(rank) + 1);
  terms.lack_is_known = terms.lack_is_known && terms.lacks <= rank;
  terms.pattern.is_prefix = false;
  return terms;
}

// As if all had given no more than what goes to that rank.
Terms terms_of_share(const Terms& terms, Rank rank) {
  Terms its = terms;
  its.given = [&terms, share = terms.share(rank)](Rank from) {
    const Words words = terms.given(from);
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(share.first);
    return Words(first, first + static_cast<std::ptrdiff_t>(share.count));
  };
  return its;
}

}  // namespace

Result result_of(const Decision& decision, std::uint32_t attempts) {
  return {.finished = true,
          .outcome = decision.outcome,
          .value = {},
          .contributors = decision.contributors,
          .missing = {},
          .attempts = attempts,
          .culprit = decision.culprit};
}

std::string wrong_contents(const Terms& terms, const Result& result) {
  if (terms.pattern.from_root()) return result.value == terms.given(terms.root) ? "" : "not the root's data";
  if (terms.pattern.puts_side_by_side()) return wrong_blocks(terms, result);
  return wrong_sum(terms, result);
}

std::string disagreement(const Result& result, const Result& reference) {
  if (result.outcome != reference.outcome) return "another outcome than the others";
  if (result.value != reference.value) return "another value than the others";
  if (result.contributors != reference.contributors) return "another count than the others";
  if (result.missing != reference.missing) return "another list than the others";
  return result.culprit == reference.culprit ? "" : "another culprit than the others";
}

std::string not_uniform(const Arguments& arguments, const Result& barrier, Result result, const Result& survivors) {
  if (!barrier.finished || barrier.outcome != Outcome::success) return {};
  if (arguments.row().goes_straight) result.value = survivors.value;  // each has its own
  const std::string wrong = disagreement(result, survivors);
  return wrong.empty() ? wrong : "is not uniform: " + wrong;
}

bool has_same_blocks(const Terms& terms, const Result& result, const Result& reference) {
  return terms.pattern.puts_side_by_side() &&
         disagreement(in_order_of_ranks(result), in_order_of_ranks(reference)).empty();
}

Terms terms_at(const Terms& terms, Rank rank) {
  Terms its = terms;
  if (!terms.given_to) return its;
  its.given = [&terms, rank](Rank from) { return terms.given_to(from, rank); };
  its.given_to = nullptr;
  its.pattern = (terms.pattern.from_root() ? ScatterFromRoot::row : Allgather::row).pattern();
  return its;
}

std::string broken_promise(const Terms& terms, Rank rank, const Result& result, const Result* reference) {
  if (!result.finished) return "never finished";
  if (terms.given_to) {
    const Terms its = terms_at(terms, rank);
    Result alike = result;
    if (reference != nullptr) alike.value = reference->value;
    std::string wrong = reference == nullptr ? "" : disagreement(alike, *reference);
    return wrong.empty() ? broken_promise(its, rank, result, nullptr) : wrong;
  }
  if (terms.pattern.is_prefix) {
    if (result.outcome == Outcome::no_memory && result.culprit > rank)
      return named("blames later rank ", result.culprit);
    return broken_promise(terms_up_to(terms, rank), rank, result, nullptr);
  }
  switch (result.outcome) {
    case Outcome::success:
      if (terms.lack_is_known && terms.gets(rank) && !terms.pattern.from_root())
        return "through, although not all have memory for it";
      break;
    case Outcome::no_memory:
      if (result.culprit == no_rank || result.culprit != terms.lacks)
        return named("not enough memory, and the one to blame is rank ", result.culprit);
      break;
    case Outcome::root_failed:
      if (!terms.pattern.rooted() || terms.root_stays) return "root_failed";
      if (terms.pattern.from_root() && terms.part(terms.root) == Part::must) return "the root's data are there";
      break;
    case Outcome::too_many_failures:
      if (terms.pattern.from_root() || terms.failures <= static_cast<std::size_t>(terms.f))
        return "too_many_failures with " + std::to_string(terms.failures) + " of them";
      break;
    default: return "mismatch";
  }
  if (!terms.gets(rank)) return {};
  if (reference != nullptr && terms.pattern.puts_side_by_side())
    return disagreement(in_order_of_ranks(result), in_order_of_ranks(*reference));
  if (reference != nullptr && terms.share) {  // which differ
    Result alike = result;
    alike.value = reference->value;
    if (std::string wrong = disagreement(alike, *reference); !wrong.empty()) return wrong;
  } else if (reference != nullptr) {
    return disagreement(result, *reference);
  }
  if (result.outcome == Outcome::success)
    return wrong_contents(terms.share ? terms_of_share(terms, rank) : terms, result);
  return result.value.empty() ? "" : "data beside an error";
}

// ---- what the ranks of a world give ---------------------------------------------------------------------------------

namespace {

Words words_of(const Arguments& arguments, Rank rank, std::size_t operation) {
  const CatalogueRow& row = arguments.row();
  return Words(row.has_own_lengths() ? block_words(rank) : arguments.count,
               row.from_root() ? broadcast_data(rank, operation) : contribution_of(rank));
}

}  // namespace

std::vector<std::byte> input_of(const Arguments& arguments, Rank rank, std::size_t operation) {
  const Words words = words_of(arguments, rank, operation);
  Arguments mine = arguments;
  mine.own_count = words.size();
  std::vector<std::byte> input(
      with_collective(arguments.kind, [&](auto collective) { return collective.input_bytes(mine); }));
  if (arguments.row().has_own_lengths())
    Blocks::pack(mine, rank, words.data(), input.data());
  else if (!input.empty())
    std::memcpy(input.data(), words.data(), input.size());
  return input;
}

void set_lengths(std::vector<Arguments>& program, Rank ranks) {
  std::uint64_t all = 0;
  for (Rank rank = 0; rank < ranks; ++rank) all += block_words(rank);
  for (Arguments& arguments : program)
    if (arguments.row().has_own_lengths())
      arguments.count = all, arguments.blocks = ranks;
    else if (arguments.row().goes_straight)
      Exchange::put_into(arguments, ranks);
}

Terms terms_of(const Arguments& arguments, Rank ranks, std::size_t operation) {
  Pattern pattern = arguments.row().pattern();
  pattern.is_prefix = false;  // what is agreed on is whole; each rank takes its part of that
  const bool goes_straight = arguments.row().goes_straight;
  return {.pattern = pattern,
          .root = arguments.root,
          .f = arguments.f,
          .lists_missing =
              arguments.failure_info == FailureInfo::list || arguments.row().has_own_lengths() || goes_straight,
          .parts = std::vector<Part>(static_cast<std::size_t>(ranks), Part::may),
          .given = [&arguments, operation](Rank rank) { return words_of(arguments, rank, operation); },
          .given_to = goes_straight ? exchanged : nullptr};
}

Terms terms_of_numbers(const Arguments& arguments, Rank ranks, std::uint64_t words) {
  Terms terms = terms_of(arguments, ranks, 0);
  const std::size_t given = arguments.row().has_data() ? words : 0;
  terms.given = [given](Rank rank) { return Words(given, number_of(rank)); };
  if (terms.given_to) terms.given_to = [words](Rank from, Rank to) { return Words(words, number_for(from, to)); };
  return terms;
}

}  // namespace ucft::detail::simulator

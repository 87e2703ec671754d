// The promises of docs/failure_model.md about the result of one operation, as all worlds and timed runs check them.
//
// A result is right if it is made of what some set of ranks gave. That set has every rank that stays, any of those that
// died or left after they gave, and no other. It has the size that the result says, and the list of missing ranks names
// the others. The row (catalogue/row.hpp) says how a result is made of a set. All ranks that get a result get the same.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/catalogue/arguments.hpp"
#include "collectives/core/decision.hpp"

namespace ucft::detail::simulator {

// The result that one rank got from one operation.
struct Result {
  bool finished = false;
  Outcome outcome = Outcome::success;
  std::vector<std::uint64_t> value;  // what the operation left; empty without a value. Blocks: a set (blocks.hpp)
  std::uint32_t contributors = 0;
  bool missing_known = true;  // the list is whole
  std::vector<Rank> missing;  // ranks that did not contribute, ascending (FailureInfo::list)
  std::uint32_t attempts = 0;
  Rank culprit = no_rank;  // of Outcome::no_memory
};
// All but its value and its list.
Result result_of(const Decision& decision, std::uint32_t attempts);

// Whether a rank's contribution is in a result.
enum class Part : std::uint8_t { must, may, cannot };

struct Terms {
  Pattern pattern{};
  Rank root = 0;
  std::int32_t f = 0;
  bool lists_missing = true;                                // a whole list names each rank that is missing
  bool averages = false;                                    // what was summed as float64
  std::vector<Part> parts{};                                // by rank
  std::function<std::vector<std::uint64_t>(Rank)> given{};  // the words that a rank gives
  std::size_t failures = 0;
  bool root_stays = true;
  Rank lacks = no_rank;        // this rank has no memory
  bool lack_is_known = false;  // then there is no result for ranks that would have read what it gives

  std::function<Share(Rank)> share{};  // of a sum, that each rank takes; none: all take it whole
  // The words that a rank gives to that one, where each gets its own: a result is a set of such blocks. Else none.
  std::function<std::vector<std::uint64_t>(Rank from, Rank to)> given_to{};

  Part& part(Rank rank) { return parts[static_cast<std::size_t>(rank)]; }
  Part part(Rank rank) const { return parts[static_cast<std::size_t>(rank)]; }
  bool gets(Rank rank) const { return !pattern.to_root() || rank == root; }
};

// The first promise that the rank's result breaks, or "". reference: of a rank that got a result before, or nullptr.
std::string broken_promise(const Terms& terms, Rank rank, const Result& result, const Result* reference);
// Its parts: how the results of two ranks differ; and the error in the contents of a success.
std::string disagreement(const Result& result, const Result& reference);
// Of a rank, dead or alive, that may have been through the barrier behind an operation: its result there, and the one
// that survivors have.
std::string not_uniform(const Arguments& arguments, const Result& barrier, Result result, const Result& survivors);
// Two sets of blocks that agree, but for their order.
bool has_same_blocks(const Terms& terms, const Result& result, const Result& reference);
std::string wrong_contents(const Terms& terms, const Result& result);
// The terms of that rank: of an exchange those of the blocks for it.
Terms terms_at(const Terms& terms, Rank rank);

// ---- what the ranks of a world give ---------------------------------------------------------------------------------

// Rank r contributes 2^r, so a sum says which ranks are in it.
inline std::uint64_t contribution_of(Rank rank) { return std::uint64_t{1} << rank; }
// To an allgather: a block of so many words, each contribution_of(rank). The plan's count is not used. Some give none.
inline std::uint64_t block_words(Rank rank) { return static_cast<std::uint64_t>(rank + 1) % 3; }
// To that process, in an exchange.
inline std::vector<std::uint64_t> exchanged(Rank from, Rank to) {
  const auto words = static_cast<std::size_t>(from + 2 * to) % 3;
  return std::vector<std::uint64_t>(words, 1000 * contribution_of(from) + static_cast<std::uint64_t>(to));
}
// The word that the root of a broadcast sends.
inline std::uint64_t broadcast_data(Rank root, std::size_t operation) {
  return 1000 * (operation + 1) + static_cast<std::uint64_t>(root);
}
// A rank's input to that operation, as the product takes it.
std::vector<std::byte> input_of(const Arguments& arguments, Rank rank, std::size_t operation);
// Sets the lengths that such inputs have together.
void set_lengths(std::vector<Arguments>& program, Rank ranks);
// Of that operation if each rank may have contributed.
Terms terms_of(const Arguments& arguments, Rank ranks, std::size_t operation);

// Under the clock, where ranks may be many, each gives an odd number.
constexpr std::uint64_t number_of(Rank rank) { return 2 * static_cast<std::uint64_t>(rank) + 1; }
constexpr std::uint64_t number_for(Rank from, Rank to) {
  return number_of(from) << 32 | static_cast<std::uint64_t>(to);
}
// words: that a rank gives; in an exchange to each.
Terms terms_of_numbers(const Arguments& arguments, Rank ranks, std::uint64_t words);

}  // namespace ucft::detail::simulator

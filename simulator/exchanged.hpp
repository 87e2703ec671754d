// The data of an exchange in a world. Each process is given a set of blocks (blocks.hpp), one of each rank that gives,
// with words of its own. Of ranks alone, and of a root that alone gives, it is given the words as they are, which may
// be none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "collectives/among/operation.hpp"
#include "collectives/catalogue/blocks.hpp"
#include "simulator/promises.hpp"

namespace ucft::detail::simulator {

constexpr std::uint64_t exchanged_record(Rank from, std::size_t words) {
  return std::bit_cast<std::uint64_t>(Blocks::Record{static_cast<std::uint64_t>(from), words * sizeof(std::uint64_t)});
}

// The inputs of the ranks of a process, one after the other.
struct ExchangeInput {
  std::vector<std::byte> bytes{};
  std::vector<PersonalExchange::Share> shares{};

  void add(Rank from, Rank processes, bool has_records) {
    for (Rank to = 0; to < processes; ++to) {
      const std::vector<std::uint64_t> words = exchanged(from, to);
      const std::uint64_t record = exchanged_record(from, words.size());
      shares.push_back({to, bytes.size(), (words.size() + (has_records ? 1 : 0)) * sizeof record});
      if (has_records) append({&record, 1});
      append(words);
    }
  }

 private:
  void append(std::span<const std::uint64_t> words) {
    const std::span<const std::byte> its = std::as_bytes(words);
    bytes.insert(bytes.end(), its.begin(), its.end());
  }
};

// Room for what a process gets from so many ranks. is_short: it has to grow, unless hardly anything comes.
inline std::uint64_t room_of_exchange(Rank ranks, Rank to, bool is_short) {
  std::uint64_t words = 0;
  for (Rank from = 0; from < ranks && !is_short; ++from) words += 1 + exchanged(from, to).size();
  return std::max<std::uint64_t>(words, 1) * sizeof(std::uint64_t);
}

// Of an operation whose value this is, in which the root's process alone gives: its stream.
inline void read_exchange_from_root(const Operation& operation, std::span<const std::byte> value,
                                    const Buffers& buffers, Result& result) {
  result.value.clear();
  result.missing.clear();
  result.contributors = 1;
  const PersonalExchange::Stream* const stream = operation.stream_of(operation.arguments().root, buffers);
  if (stream == nullptr || !stream->is_whole || stream->outcome != Outcome::success) return;
  result.value.resize(stream->bytes / sizeof(std::uint64_t));
  if (!result.value.empty()) std::memcpy(result.value.data(), value.data() + stream->begin, stream->bytes);
}

// The blocks that count, of an operation whose value this is: who is missing, and the number of the others.
inline void read_exchange(const Operation& operation, std::span<const std::byte> value, const Buffers& buffers,
                          Rank processes, Rank ranks, bool are_ranks, Result& result) {
  if (operation.row().from_root()) return read_exchange_from_root(operation, value, buffers, result);
  result.value.clear();
  result.missing.clear();
  result.missing_known = true;
  std::vector<bool> is_there(static_cast<std::size_t>(ranks));
  for (Rank process = 0; process < processes; ++process) {
    const PersonalExchange::Stream* const stream = operation.stream_of(process, buffers);
    if (stream == nullptr) continue;
    if (!stream->is_whole || stream->outcome != Outcome::success)
      result.value.push_back(~std::uint64_t{0});  // no set of blocks
    const std::span<const std::byte> its = value.subspan(stream->begin, stream->bytes);
    if (are_ranks) {
      is_there[static_cast<std::size_t>(process)] = true;
      result.value.push_back(exchanged_record(process, its.size() / sizeof(std::uint64_t)));
    } else {
      Blocks::for_each(its, [&](Rank of, std::span<const std::byte>) {
        if (of >= 0 && of < ranks) is_there[static_cast<std::size_t>(of)] = true;
      });
    }
    result.value.resize(result.value.size() + its.size() / sizeof(std::uint64_t));
    if (!its.empty())
      std::memcpy(result.value.data() + result.value.size() - its.size() / sizeof(std::uint64_t), its.data(),
                  its.size());
  }
  for (Rank rank = 0; rank < ranks; ++rank)
    if (!is_there[static_cast<std::size_t>(rank)]) result.missing.push_back(rank);
  result.contributors = static_cast<std::uint32_t>(std::ranges::count(is_there, true));
}

}  // namespace ucft::detail::simulator

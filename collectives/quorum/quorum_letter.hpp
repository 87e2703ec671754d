// The letters of a quorum allreduce, and how they lie in memory.
//
// A body is a head, a list of words, and a value at a multiple of 64 bytes:
//
//   post       the sender has posted operation `number`; its value, if that is short. head.of: another rank has, and
//              the sender, which does not lead any more, hands that on
//   pull       the lead wants the value of a post
//   value      that one
//   result     how the operation was decided: two sets of ranks (in; gone), the value
//   have       all operations before head.have are complete at the sender
//   forgotten  the operation was decided without the receiver, and its result is not kept any more
//   lead       the sender's view, and nothing more
//   token      the receiver leads from `number` on; list: have, of each rank
//   ask        the sender wants to lead, in head.epoch, as the lead has gone
//   state      the answer: nothing is taken from the one before any more. list: the results that are kept here
//   fetch      the sender wants that result
//   overdue    the deadline of what the sender has posted is over: is the lead itself late?
//   closing    the sender leaves; it knows the outcomes of all operations before `number`
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "collectives/core/buffers.hpp"
#include "collectives/core/protocol.hpp"

namespace ucft::detail {

struct QuorumLetter {
  enum class Kind : std::uint8_t {
    post,
    pull,
    value,
    result,
    have,
    forgotten,
    lead,
    token,
    ask,
    state,
    fetch,
    overdue,
    closing
  };
  Kind kind = Kind::lead;
  Rank peer = no_rank;  // to whom it goes, or from whom it comes
  OperationNumber number = 0;
  std::uint64_t promised = 0;  // the latest epoch that its sender has heard of
  Slice body;                  // of one that goes: one reference
};
inline constexpr int quorum_kind_count = 13;

struct QuorumHead {
  std::uint64_t epoch = 0, turn = 0;  // the sender's view (quorum.hpp)
  std::int32_t lead = 0, by = 0;
  std::uint32_t list_words = 0;
  std::uint64_t bytes = 0;         // post, value, result: of the whole value, wherever it is
  std::uint64_t have = 0;          // all operations before it are complete at the sender
  std::uint64_t through = 0;       // result: all before it are complete at all that were in them
  std::int64_t deadline_ns = 0;    // post
  std::uint32_t quorum = 0;        // post
  std::uint32_t has_value = 0;     // post: the value is in the body
  std::uint16_t signature = 0;     // post, result
  std::uint8_t outcome = 0;        // result
  std::uint8_t is_over = 0;        // token: the deadline of the operation has passed
  std::int32_t culprit = no_rank;  // result
  std::int32_t of = no_rank;       // post
  std::int32_t unused = 0;
};
static_assert(sizeof(QuorumHead) == 88);

namespace quorum_body {

inline constexpr std::uint64_t value_at(std::uint64_t list_words) {
  return (sizeof(QuorumHead) + list_words * 8 + 63) / 64 * 64;
}
inline constexpr std::uint64_t words_of_set(Rank ranks) { return (static_cast<std::uint64_t>(ranks) + 63) / 64; }

inline QuorumHead head(const Buffers& buffers, const Slice& body) {
  QuorumHead head;
  std::memcpy(&head, buffers.data(body), sizeof head);
  return head;
}
inline void write(const Buffers& buffers, const Slice& body, const QuorumHead& head) {
  std::memcpy(buffers.data(body), &head, sizeof head);
}
inline std::uint64_t word(const Buffers& buffers, const Slice& body, std::uint64_t index) {
  std::uint64_t word;
  std::memcpy(&word, buffers.data(body) + sizeof(QuorumHead) + index * 8, sizeof word);
  return word;
}
inline void write_word(const Buffers& buffers, const Slice& body, std::uint64_t index, std::uint64_t word) {
  std::memcpy(buffers.data(body) + sizeof(QuorumHead) + index * 8, &word, sizeof word);
}
inline bool is_in_set(const Buffers& buffers, const Slice& body, std::uint64_t first_word, Rank rank) {
  return (word(buffers, body, first_word + static_cast<std::uint64_t>(rank) / 64) >> rank % 64 & 1) != 0;
}
// Of a result: whose values it has; the ranks that had gone when it was decided.
inline bool is_in(const Buffers& buffers, const Slice& body, Rank rank) { return is_in_set(buffers, body, 0, rank); }
inline bool was_gone(const Buffers& buffers, const Slice& body, Rank ranks, Rank rank) {
  return is_in_set(buffers, body, words_of_set(ranks), rank);
}
inline Slice value(const Slice& body, const QuorumHead& head) {
  return body.part(value_at(head.list_words), head.bytes);
}
// Whether a body that came has the lengths that it says.
bool is_sound(const Buffers& buffers, const QuorumLetter& letter, Rank ranks);

}  // namespace quorum_body
}  // namespace ucft::detail

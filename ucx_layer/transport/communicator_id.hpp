// The number of a communicator. A communicator that the library makes for its own use belongs to one of the caller's:
// it has that one's number and a place in it.
#pragma once

#include <cstdint>

namespace ucft::detail::communicator_id {

// Places: 0 is the caller's, 1 .. 4 are for the agreements of gossip operations in flight, and of one over several
// hosts:
inline constexpr std::uint32_t on_host = 5, journal_of_host = 6;

inline constexpr int shift = 28;
inline constexpr std::uint32_t places = 7u << shift;

// Those of all ranks of a job have numbers of their own.
inline constexpr std::uint32_t for_all_bit = 0x80000000u;
constexpr bool is_for_all(std::uint32_t id) { return (id & for_all_bit) != 0; }
constexpr std::uint32_t number_of(std::uint32_t id) { return id & ~(places | for_all_bit); }

constexpr std::uint32_t place_in(std::uint32_t id) { return (id & places) >> shift; }
constexpr std::uint32_t callers(std::uint32_t id) { return id & ~places; }
constexpr std::uint32_t of(std::uint32_t callers, std::uint32_t place) { return callers | place << shift; }

}  // namespace ucft::detail::communicator_id

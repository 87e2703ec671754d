// The number of a communicator. Those that the library makes for its own use, for a communicator of the caller's, have that one's
// number and a place in it.
#pragma once

#include <cstdint>

namespace ucft::detail::communicator_id {

// Places: 0 is the caller's, 1 .. 4 are for the agreements of gossip operations in flight, and of one over several hosts:
inline constexpr std::uint32_t on_host = 5, journal_of_host = 6;

inline constexpr int shift = 28;
inline constexpr std::uint32_t places = 7u << shift;

constexpr std::uint32_t place_in(std::uint32_t id) { return (id & places) >> shift; }
constexpr std::uint32_t callers(std::uint32_t id) { return id & ~places; }
constexpr std::uint32_t of(std::uint32_t callers, std::uint32_t place) { return callers | place << shift; }

}  // namespace ucft::detail::communicator_id

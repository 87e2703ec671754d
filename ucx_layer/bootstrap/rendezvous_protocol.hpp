// The protocol between rendezvous client and server: frames over a TCP connection, mostly over loopback.
//
//   client                                   server
//   Hello {secret, rank, size, pid, began} ->
//                                      <-    Welcome, or Error and the connection is closed
//   Contribution {limit, bytes}        ->
//                                      <-    Result {bytes of all ranks, in rank order; zeros of absent ones}, or
//                                            Error {text}
//   ... more rounds ...
//   Done                               ->    and both close: this rank has finished start-up
//
// A connection that ends without Done means that the rank died during start-up. Both ends are on one host, or on hosts
// of one kind, so numbers go in their byte order.
//
// Other processes may connect, too, and be many. A rank that gets no Welcome connects again, and keeps the connections
// on which it has said Hello. The server welcomes one of them and closes the others without a word, and so does the
// rank. A close without a word means: try again. A rank that is refused gets an Error.
//
// Invariant: the receiver knows from its state which frames, and how many bytes, can come next, and reads no more.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace ucft::detail::bootstrap {

enum class FrameType : std::uint32_t { Hello = 1, Welcome, Contribution, Result, Error, Done };

inline constexpr std::uint32_t frame_magic = 0x54464355;  // "UCFT"

struct FrameHeader {
  std::uint32_t magic = frame_magic;
  FrameType type = FrameType::Hello;
  std::uint64_t payload_bytes = 0;
};

using Secret = std::array<std::uint8_t, 32>;

struct Hello {
  Secret secret{};
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::int64_t pid = 0;
  std::int64_t began = 0;  // when the rank began to connect, on the host's steady clock: the same in all its attempts
};

// The contribution's payload is this, then the bytes.
struct ContributionHead {
  std::uint64_t limit_us = 0;  // how long this rank is willing to wait for the others
};

// Structures travel as they are in memory: they must have no padding.
static_assert(sizeof(FrameHeader) == 16 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(sizeof(Hello) == 56 && std::is_trivially_copyable_v<Hello>);
static_assert(sizeof(ContributionHead) == 8 && std::is_trivially_copyable_v<ContributionHead>);

// Bounds of one allgather: per rank, and of the result. Clients check them before they send.
inline constexpr std::size_t max_contribution_bytes = std::size_t{16} << 20;
inline constexpr std::size_t max_result_bytes = std::size_t{512} << 20;
inline constexpr std::size_t max_error_bytes = 4096;
inline constexpr int max_ranks = 4096;

// A frame as bytes; `head` and `body` are its payload.
std::string make_frame(FrameType type, std::string_view head = {}, std::string_view body = {});

template <class Structure>
std::string_view bytes_of(const Structure& structure) {
  static_assert(std::is_trivially_copyable_v<Structure>);
  return {reinterpret_cast<const char*>(&structure), sizeof structure};
}

// Takes the same time wherever the first difference is, so a guess cannot be improved byte by byte.
bool equal_in_constant_time(const Secret& left, const Secret& right);

std::string secret_to_hex(const Secret& secret);
std::optional<Secret> secret_from_hex(std::string_view hex);
Secret random_secret();

// "60 s", "1.5 s", "20 ms", "7 us".
std::string duration_text(std::chrono::microseconds duration);

}  // namespace ucft::detail::bootstrap

#include "collectives/on_host/host_copy.hpp"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ucft::detail {
namespace {

constexpr std::uint64_t line = 64;
constexpr std::uint64_t ahead = 8 * line;

// In pieces: for more at once the C library may take string instructions.
void copy_in_pieces(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  constexpr std::uint64_t piece = 1024;
  for (; bytes > piece; bytes -= piece, to += piece, from += piece) std::memcpy(to, from, piece);
  std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)
template <bool past_the_caches>
[[gnu::target("avx2")]] void copy_lines(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; i += line) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + ahead), _MM_HINT_T0);
    const auto* const source = reinterpret_cast<const __m256i_u*>(from + i);
    auto* const place = reinterpret_cast<__m256i*>(to + i);
    const __m256i low = _mm256_loadu_si256(source), high = _mm256_loadu_si256(source + 1);
    if constexpr (past_the_caches) {
      _mm256_stream_si256(place, low);
      _mm256_stream_si256(place + 1, high);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(place), low);
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(place + 1), high);
    }
  }
  if constexpr (past_the_caches) _mm_sfence();
}
#endif

// Copies whole lines. It returns the bytes copied: the rest is less than a line, or all.
template <bool past_the_caches>
std::uint64_t whole_lines(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  constexpr std::uint64_t worth_it = 256;
#if defined(__x86_64__)
  if (bytes < worth_it || !__builtin_cpu_supports("avx2")) return 0;
  const std::uint64_t whole = bytes / line * line;
  copy_lines<past_the_caches>(to, from, whole);
  return whole;
#else
  return 0;
#endif
}

}  // namespace

void host_copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t done = whole_lines<false>(to, from, bytes);
  copy_in_pieces(to + done, from + done, bytes - done);
}

void host_stream(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t lead = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % line);
  std::memcpy(to, from, lead);
  const std::uint64_t done = lead + whole_lines<true>(to + lead, from + lead, bytes - lead);
  copy_in_pieces(to + done, from + done, bytes - done);
}

}  // namespace ucft::detail

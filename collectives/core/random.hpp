// Random numbers that are a function of a seed and of their purpose: the same on every machine, library and thread.
#pragma once

#include <cstdint>

namespace ucft::detail {

// splitmix64 (Steele, Lea, Flood, OOPSLA '14).
inline std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return mixed(mixed(a) ^ b); }

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mixed(seed)) {}

  std::uint64_t next() { return mixed(state_++); }
  std::uint64_t below(std::uint64_t limit) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * limit) >> 64);
  }
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // 0 <= x < 1

 private:
  std::uint64_t state_;
};

// Visits `wanted` of the numbers 0 .. limit - 1, ascending. Each set of them is drawn as often as any other (Knuth,
// TAOCP 2, 3.4.2, Algorithm S).
template <class Visit>
void draw_some(Random& random, std::int32_t wanted, std::int32_t limit, Visit visit) {
  for (std::int32_t number = 0; number < limit; ++number) {
    if (random.below(static_cast<std::uint64_t>(limit - number)) >= static_cast<std::uint64_t>(wanted)) continue;
    --wanted;
    visit(number);
  }
}

}  // namespace ucft::detail

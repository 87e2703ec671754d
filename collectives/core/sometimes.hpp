// Situations that whole jobs must come into, each named at its place: UCFT_SOMETIMES("a deputy takes over"). ucft_world
// counts them, and so shows what its faults never lead to (docs/world.md). In the library they are nothing.
//
// The macro is true, so that it can stand at the end of a condition:
//   if (window.is_full() && UCFT_SOMETIMES("a window is full")) return busy;
// Two places with the same name are one situation.
#pragma once

#ifdef UCFT_COUNTS_SITUATIONS

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ucft::detail {

struct Situation {
  const char* name;
  std::uint64_t times = 0;
  std::size_t number = 0;  // for those that list them
};

// Of this program, those that never happen, too.
inline std::vector<Situation*>& all_situations() {
  static std::vector<Situation*> all;
  return all;
}

// Called each time, where it happens. nullptr: not.
inline void (*on_situation)(const Situation&) = nullptr;

template <std::size_t length>
struct SituationName {
  constexpr SituationName(const char (&name)[length]) { std::copy_n(name, length, text); }
  char text[length];
};

template <SituationName name>
struct CountedSituation {
  static bool happens() {
    ++listed->times;
    if (on_situation != nullptr) on_situation(situation);
    return true;
  }
  static inline Situation situation{name.text};
  static inline Situation* const listed = all_situations().emplace_back(&situation);
};

}  // namespace ucft::detail

#define UCFT_SOMETIMES(name) (::ucft::detail::CountedSituation<name>::happens())

#else

namespace ucft::detail {
constexpr bool is_so() { return true; }
}  // namespace ucft::detail

#define UCFT_SOMETIMES(name) (::ucft::detail::is_so())

#endif

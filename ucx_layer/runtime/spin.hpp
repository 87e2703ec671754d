// The number of times that a rank looks for what others give before it lets them have its processor.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ucft::detail {

// Between two looks: a look too many would take the line from the rank that is about to write it.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Within one call, before all else is looked after: first some looks, then some of which each is behind a yield.
class Looks {
 public:
  enum class Next : std::uint8_t { look, yield, end };

  explicit Looks(std::uint32_t looks, int yields = 0) : looks_(static_cast<int>(looks)), yields_(yields) {}
  Next next() { return --looks_ >= 0 ? Next::look : --yields_ >= 0 ? Next::yield : Next::end; }

 private:
  int looks_, yields_;
};

class Spin {
 public:
  struct Host {
    std::int32_t setting = -1;          // UCFT_SPIN; negative: chosen here
    std::int32_t living = 1;            // ranks that share this one's processors, and this one
    std::int32_t hardware_threads = 1;  // that this rank may run on
  };

  Spin() = default;
  explicit Spin(const Host& host) : host_(host), looks_(chosen()) {}

  // Of a rank that shares them: the others have its processor now.
  void note_death() {
    --host_.living;
    looks_ = chosen();
  }

  // Of a wait, before it yields.
  std::uint32_t looks() const { return looks_; }
  // Within one call; yields: if the rank can do nothing else meanwhile, and yields_in_call().
  Looks in_call(bool yields) const { return Looks(std::min(looks_, most_in_call), yields ? most_yields : 0); }
  // Ranks share processors, and others are to run on this one's.
  bool yields_in_call() const { return looks_ <= most_in_call; }

 private:
  static constexpr std::uint32_t most_in_call = 16;
  static constexpr int most_yields = 8;

  std::uint32_t chosen() const {
    if (host_.setting >= 0) return static_cast<std::uint32_t>(host_.setting);
    return host_.living <= host_.hardware_threads ? 1000 : host_.living <= 2 * host_.hardware_threads ? 6 : 0;
  }

  Host host_;
  std::uint32_t looks_ = 0;
};

}  // namespace ucft::detail

// The default rounding mode, for a result that several ranks compute. All use it, though their programs may have set
// others.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ucft::detail {

#if defined(__SSE2__)
class DefaultRounding {
 public:
  explicit DefaultRounding(bool is_needed = true) : was_(is_needed ? _mm_getcsr() : usual) {
    if ((was_ & ~exceptions) != usual) _mm_setcsr(usual);
  }
  ~DefaultRounding() {
    if ((was_ & ~exceptions) != usual) _mm_setcsr(was_);
  }
  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

 private:
  static constexpr unsigned exceptions = 0x3f, usual = 0x1f80;
  const unsigned was_;
};
#else
struct DefaultRounding {
  explicit DefaultRounding(bool = true) {}
};
#endif

}  // namespace ucft::detail

// Several ranks compute one result: with the same rounding, whatever their programs have set.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ucft::detail {

#if defined(__SSE2__)
class DefaultRounding {
 public:
  DefaultRounding() : was_(_mm_getcsr()) {
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
struct DefaultRounding {};
#endif

}  // namespace ucft::detail

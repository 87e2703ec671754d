// The last two of what was made for something, for those who go from one to another and back.
#pragma once

#include <array>
#include <cstddef>

namespace ucft::detail {

template <class Made>
class LastTwo {
 public:
  // Whether fits() is true of one: latest() from now on. Else that is the older one, to be made anew.
  template <class Fits>
  bool find(Fits fits) {
    if (fits(latest())) return true;
    latest_ ^= 1;
    return fits(latest());
  }
  Made& latest() { return made_[latest_]; }

 private:
  std::array<Made, 2> made_;
  std::size_t latest_ = 0;
};

}  // namespace ucft::detail

// The last two things made for some key, for callers that go from one to another and back.
#pragma once

#include <array>

namespace ucft::detail {

template <class Made>
class LastTwo {
 public:
  LastTwo() = default;
  LastTwo(const LastTwo&) = delete;
  LastTwo& operator=(const LastTwo&) = delete;

  // Whether fits() is true of one: latest() from now on. Else that is the older one, to be made anew.
  template <class Fits>
  bool find(Fits fits) {
    if (fits(latest())) return true;
    latest_ = latest_ == &made_[0] ? &made_[1] : &made_[0];
    return fits(latest());
  }
  Made& latest() { return *latest_; }

 private:
  std::array<Made, 2> made_;
  Made* latest_ = &made_[0];
};

}  // namespace ucft::detail

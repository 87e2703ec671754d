// Acceleration of gossip: a rank pushes rather to the neighbours whose estimate is furthest from its own.
//
// Casas, Gansterer, Wimmer 2018, section 5.1, name strategies by which gossip converges faster, without a rule: those
// of Dimakis, Sarwate, Wainwright 2008 and of Janecek, Gansterer 2016. This one is ours, in the manner of the latter. A
// rank learns from the messages that it gets anyway which neighbours gain most by a push. Ants learn the same way from
// what others have left on their way. It costs no message and no byte of one, only computation proportional to the
// number of neighbours. The mass that neighbours get is chosen as before, so masses and flows are conserved as they are
// without it.
//
//   what a link's other end thinks    what its last message brought, value / weight: the mass here after it less that
//                                     before
//   chance of link k                  proportional to 0.1 + (d_k / max d)^2, d_k = |what it thinks - what I think|, the
//                                     largest of a vector's values; a neighbour that has said nothing yet has max d
//
//   d = 4, 2, 0, unknown:   1.1 : 0.35 : 0.1 : 1.1
//
// Every chance is above 0, which convergence needs. A message that brought no weight (crossed flows) tells nothing.
#pragma once

#include <algorithm>
#include <limits>

#include "collectives/gossip/mass.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail {

template <class Real>
class GossipPreference {
 public:
  GossipPreference() = default;  // none: not active
  GossipPreference(std::size_t links, std::size_t values)
      : thought_(links * values, std::numeric_limits<Real>::quiet_NaN()),
        before_(values + 1),
        after_(values + 1),
        values_(values) {}

  bool is_active() const { return values_ > 0; }

  // The masses (values and a weight) here before a message of that link and after it, to be filled in; and what follows
  // from them.
  Mass<Real> before() { return before_; }
  Mass<Real> after() { return after_; }
  void learn(int link) {
    subtract<Real>(after_, before_);
    const Real weight = after_.back();
    if (!(weight > 0) || !is_finite<Real>(after_)) return;
    const Mass<Real> thought{thought_.data() + static_cast<std::size_t>(link) * values_, values_};
    for (std::size_t i = 0; i < values_; ++i) thought[i] = after_[i] / weight;
  }

  // One of these links, at least one. mine: the estimate here.
  int choose(std::span<const int> links, ConstMass<Real> mine, Random& random) const {
    constexpr double least = 0.1;
    double furthest = 0;
    for (int link : links) furthest = std::max(furthest, distance(link, mine));
    const auto weight = [&](int link) {
      const double distant = distance(link, mine);
      const double part = furthest == 0 ? 0 : distant < 0 ? 1 : distant / furthest;
      return least + part * part;
    };
    double sum = 0;
    for (int link : links) sum += weight(link);
    double left = random.fraction() * sum;
    for (int link : links) {
      left -= weight(link);
      if (left < 0) return link;
    }
    return links.back();  // rounding
  }

 private:
  // Below 0: unknown.
  double distance(int link, ConstMass<Real> mine) const {
    const ConstMass<Real> thought{thought_.data() + static_cast<std::size_t>(link) * values_, values_};
    double most = -1;
    for (std::size_t i = 0; i < values_; ++i)
      most = std::max(most, std::abs(static_cast<double>(thought[i]) - static_cast<double>(mine[i])));
    return most;
  }

  std::vector<Real> thought_;  // of each link's other end; NaN: unknown
  std::vector<Real> before_, after_;
  std::size_t values_ = 0;
};

}  // namespace ucft::detail

// A gossip operation whose result is compared with the aggregate of the ranks that it says it stands for. What all
// survivors must have in common is noted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ucft/ucft.h"

namespace ucft::detail::test {

constexpr const char* algorithms[] = {
    "push_sum", "push_flow", "pflc", "pfcc", "pcf", "pcf_flip", "hps", "hpflc", "ardb", "recursive_doubling", "hpfcc"};
constexpr int algorithm_count = 11;

int algorithm_named(const std::string& name);
ucft_gossip_topology_t topology_named(const std::string& name);

// What rank r gives in its place i: no two the same.
double given(int rank, std::size_t i, int salt);

// By UCFT_TEST_GOSSIP_PATH, "message" or "rma": all that can go that way do. Else the library chooses.
ucft_gossip_options_t options_of(int algorithm, double asked);

// One operation with all that belongs to it. Real: float or double.
template <class Real>
struct CheckedGossip {
  ucft_gossip_options_t options;
  int salt;
  std::vector<Real> in, out;
  ucft_request_h request = UCFT_REQUEST_NULL;

  CheckedGossip(const ucft_gossip_options_t& with, std::size_t count, int salted);
  void post();
  ucft_gossip_result_t judge(bool must_reach);
  ucft_gossip_result_t finish(bool must_reach);  // waits, judges and frees
};
extern template struct CheckedGossip<float>;
extern template struct CheckedGossip<double>;

}  // namespace ucft::detail::test

#include <cmath>
#include <cstdint>
#include <vector>

#include "simulator/judge/kinds.hpp"
#include "simulator/judge/random_calls.hpp"
#include "simulator/judge/random_checks.hpp"

namespace ucft::judge {

namespace {

ucft_gossip_options_t options_for(const Drawn& drawn, ucft_op_t aggregate) {
  constexpr ucft_gossip_algorithm_t all[] = {UCFT_GOSSIP_PCF,      UCFT_GOSSIP_PUSH_SUM, UCFT_GOSSIP_PUSH_FLOW,
                                             UCFT_GOSSIP_HPS,      UCFT_GOSSIP_ARDB,     UCFT_GOSSIP_RECURSIVE_DOUBLING,
                                             UCFT_GOSSIP_PCF_FLIP, UCFT_GOSSIP_PFLC,     UCFT_GOSSIP_PFCC,
                                             UCFT_GOSSIP_HPFLC,    UCFT_GOSSIP_HPFCC};
  constexpr std::uint64_t of_extrema = 6;  // the first ones
  constexpr ucft_gossip_topology_t topologies[] = {UCFT_GOSSIP_COMPLETE, UCFT_GOSSIP_RING, UCFT_GOSSIP_BUS,
                                                   UCFT_GOSSIP_TREE};
  const bool is_extremum = aggregate == UCFT_MIN || aggregate == UCFT_MAX;
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  options.algorithm = all[drawn.below(5, is_extremum ? of_extrema : std::size(all))];
  options.topology = topologies[drawn.below(6, std::size(topologies))];
  options.aggregate = aggregate == UCFT_AVG   ? UCFT_GOSSIP_AVERAGE
                      : aggregate == UCFT_SUM ? UCFT_GOSSIP_SUM
                      : aggregate == UCFT_MIN ? UCFT_GOSSIP_MINIMUM
                                              : UCFT_GOSSIP_MAXIMUM;
  options.stop = drawn.below(7, 2) == 0 ? UCFT_GOSSIP_ROUNDS : UCFT_GOSSIP_ADAPTIVE;
  options.path = drawn.below(8, 3) == 0 ? UCFT_GOSSIP_PATH_MESSAGE : UCFT_GOSSIP_PATH_AUTO;
  options.eps = std::pow(10., -1. - static_cast<double>(drawn.below(9, 9)));
  options.seed = drawn.below(10, UINT64_MAX);
  return options;
}

}  // namespace

// Half of the ranks look at their estimates meanwhile.
void RandomCalls::gossip(const Drawn& drawn, int step, Communicator& on) {
  constexpr ucft_op_t aggregates[] = {UCFT_AVG, UCFT_AVG, UCFT_SUM, UCFT_MIN, UCFT_MAX};
  Call call;
  call.kind = Kind::gossip;
  call.communicator = on.name;
  call.rank = on.rank;
  call.size = on.size;
  call.dtype = drawn.below(2, 3) == 0 ? UCFT_FLOAT : UCFT_DOUBLE;
  call.op = aggregates[drawn.below(3, std::size(aggregates))];
  const std::uint64_t count = 1 + drawn.below(4, drawn.below(11, 8) == 0 ? 300 : 20);
  std::vector<std::uint64_t> in(count + 1, hole), out(count + 1, hole), estimate(count + 1, hole);
  for (std::uint64_t i = 0; i < count; ++i)
    put(in.data(), i, 1 + mixed(drawn.words[12] + static_cast<std::uint64_t>(step) * 1000003 + i, own_()) % 100,
        call.dtype);
  call.given = {block_of(in.data(), count, call.dtype)};
  call.before = {block_of(out.data(), count, call.dtype)};
  const ucft_gossip_options_t options = options_for(drawn, call.op);
  ucft_gossip_result_t result = UCFT_GOSSIP_RESULT_INIT;
  ucft_request_h request = UCFT_REQUEST_NULL;
  check(ucft_gossip_allreduce_init(on.handle, in.data(), out.data(), count, call.dtype, &options, &request), "gossip");
  const std::size_t number = recorder_.begins(call);
  call.status = post(request);
  if (call.status == UCFT_OK && own_() % 2 == 0)
    call.status = ucft_wait(request, UINT64_MAX);
  else if (call.status == UCFT_OK)
    while ((call.status = ucft_test(request)) == UCFT_INPROGRESS) {
      const ucft_status_t status = ucft_gossip_estimate(request, estimate.data(), nullptr);
      if (status != UCFT_OK && !is_out(status) && status != UCFT_ERR_NO_MEMORY) check(status, "estimate");
    }
  if (call.status == UCFT_OK) {
    check(ucft_gossip_result(request, &result), "gossip's result");
    call.contributors = result.contributors;
    call.bound = std::isfinite(result.error_bound) ? result.error_bound : -1;
    call.answer = result.answer;
  }
  call.got = {block_of(out.data(), count, call.dtype)};
  if (out.back() != hole || estimate.back() != hole) wrong("gossip {}: written behind its memory", number);
  recorder_.has_ended(number, call);
  is_out_ |= is_out(call.status);
  check(ucft_request_free(request), "free");
}

}  // namespace ucft::judge

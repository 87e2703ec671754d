#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <tuple>

#include "ucx_layer/api/calls.hpp"
#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

namespace {

static_assert(UCFT_GOSSIP_PUSH_FLOW == static_cast<int>(GossipAlgorithm::push_flow) &&
                  UCFT_GOSSIP_PCF_FLIP == static_cast<int>(GossipAlgorithm::pcf_flip) &&
                  UCFT_GOSSIP_HPS == static_cast<int>(GossipAlgorithm::pcf_printed) &&
                  UCFT_GOSSIP_HPFCC + 1 == static_cast<int>(GossipAlgorithm::hpfcc),
              "pcf_printed is for study only: the algorithms behind it move up");
static_assert(UCFT_GOSSIP_HYPERCUBE == static_cast<int>(GossipTopology::hypercube) &&
              UCFT_GOSSIP_TORUS_3D == static_cast<int>(GossipTopology::torus_3d) &&
              UCFT_GOSSIP_RANDOM_REGULAR == static_cast<int>(GossipTopology::random_regular));
static_assert(UCFT_GOSSIP_PATH_MESSAGE == static_cast<int>(GossipPath::messages) &&
              UCFT_GOSSIP_PATH_RMA == static_cast<int>(GossipPath::windows));
static_assert(UCFT_GOSSIP_SURVIVORS == static_cast<int>(GossipStandsFor::survivors) &&
              UCFT_GOSSIP_NEARLY_ALL_RANKS == static_cast<int>(GossipStandsFor::nearly_all_ranks));

// Of programs that were compiled when the options ended with `seed`.
constexpr std::size_t first_options_bytes = offsetof(ucft_gossip_options_t, cycles);
constexpr std::uint64_t gossip_limit = (std::uint64_t{1} << 31) - 1;  // bytes of an operation

GossipAlgorithm algorithm_of(ucft_gossip_algorithm_t algorithm) {
  return static_cast<GossipAlgorithm>(static_cast<int>(algorithm) + (algorithm >= UCFT_GOSSIP_HPS ? 1 : 0));
}

GossipExtremum extremum_of(ucft_gossip_aggregate_t aggregate) {
  return aggregate == UCFT_GOSSIP_MINIMUM   ? GossipExtremum::minimum
         : aggregate == UCFT_GOSSIP_MAXIMUM ? GossipExtremum::maximum
                                            : GossipExtremum::none;
}

ucft_status_t read_gossip_options(const Communicator& comm, const ucft_gossip_options_t* given, GossipCall& call) {
  constexpr int rounds_limit = 1 << 20;
  ucft_gossip_options_t options = UCFT_GOSSIP_OPTIONS_INIT;
  if (given != nullptr) {
    if (given->struct_size != sizeof options && given->struct_size != first_options_bytes)
      return fail(UCFT_ERR_INVALID_PARAM, "options.struct_size is {}, expected {}: use UCFT_GOSSIP_OPTIONS_INIT",
                  given->struct_size, sizeof options);
    std::memcpy(&options, given, given->struct_size);  // what is behind that is the default
  }
  const std::tuple<const char*, int, int, int> table[] = {
      {"algorithm", options.algorithm, UCFT_GOSSIP_PUSH_SUM, UCFT_GOSSIP_HPFCC},
      {"topology", options.topology, UCFT_GOSSIP_COMPLETE, UCFT_GOSSIP_RANDOM_REGULAR},
      {"aggregate", options.aggregate, UCFT_GOSSIP_AVERAGE, UCFT_GOSSIP_MAXIMUM},
      {"stop", options.stop, UCFT_GOSSIP_ROUNDS, UCFT_GOSSIP_ADAPTIVE},
      {"path", options.path, UCFT_GOSSIP_PATH_AUTO, UCFT_GOSSIP_PATH_RMA}};
  for (const auto& [name, value, first, last] : table)
    if (value < first || value > last)
      return fail(UCFT_ERR_INVALID_PARAM, "options.{} is {}: not a ucft_gossip_{}_t", name, value, name);
  if (options.path == UCFT_GOSSIP_PATH_RMA && goes_by_rounds(algorithm_of(options.algorithm)))
    return fail(UCFT_ERR_UNSUPPORTED,
                "options.path is UCFT_GOSSIP_PATH_RMA, and options.algorithm {}: it goes by rounds, each with another "
                "neighbour, by messages only",
                gossip_algorithm_name(algorithm_of(options.algorithm)));
  if (!(options.eps > 0 && options.eps < 1))
    return fail(UCFT_ERR_INVALID_PARAM, "options.eps is {}: must be above 0 and below 1", options.eps);
  if (!(options.tau >= 0 && options.tau < std::numeric_limits<double>::infinity()))
    return fail(UCFT_ERR_INVALID_PARAM, "options.tau is {}: must be a positive number, or 0", options.tau);
  if (options.rounds < 0 || options.rounds > rounds_limit)
    return fail(UCFT_ERR_INVALID_PARAM, "options.rounds is {}: must be 0 .. {}", options.rounds, rounds_limit);
  GossipPlan& plan = call.plan;
  plan.algorithm = algorithm_of(options.algorithm);
  plan.extremum = extremum_of(options.aggregate);
  plan.neighbourhood.topology = static_cast<GossipTopology>(options.topology);
  plan.neighbourhood.ranks = comm.size();
  if (options.arity != 0) plan.neighbourhood.arity = options.arity;
  if (options.degree != 0) plan.neighbourhood.degree = options.degree;
  plan.neighbourhood.seed = plan.seed = options.seed;
  GossipPlan checked = plan;
  checked.tau = options.tau == 0 ? 1 : options.tau;  // 0: chosen when the data are known
  if (const std::string problem = problem_with(checked); !problem.empty())
    return fail(UCFT_ERR_INVALID_PARAM, "options: {}", problem);
  plan.tau = options.tau;
  call.eps = options.eps;
  call.adaptive = options.stop == UCFT_GOSSIP_ADAPTIVE;
  call.sum = options.aggregate == UCFT_GOSSIP_SUM;
  call.path = static_cast<GossipPath>(options.path);
  GossipPlan between_hosts = plan;
  between_hosts.neighbourhood = mended(plan.neighbourhood, comm.gossiping());
  call.iterations = options.rounds > 0 ? options.rounds : rounds_for(between_hosts, options.eps);
  if (const std::string problem = call.choose_repair(options.cycles, options.repair_initial); !problem.empty())
    return fail(UCFT_ERR_INVALID_PARAM, "options.{}", problem);
  return UCFT_OK;
}

// Faults would be found in the rounding errors of this rank's own checksum.
template <class Real>
ucft_status_t check_tau(const GossipCall& call, const void* send) {
  if (!has_checksums(call.plan.algorithm) || call.plan.tau == 0) return UCFT_OK;
  double scale = 1;
  for (const Real value : read_values<Real>(call.half, send, call.count)) scale += std::abs(static_cast<double>(value));
  const double least = scale * static_cast<double>(std::numeric_limits<Real>::epsilon());
  if (call.plan.tau >= least || !std::isfinite(least)) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "options.tau is {}: too small, the data's rounding errors come to {}",
              call.plan.tau, least);
}

ucft_status_t check_is_gossip(const Request& request) {
  if (request.gossip != nullptr) return UCFT_OK;
  return fail(UCFT_ERR_STATE, "the request is not one of ucft_gossip_allreduce_init");
}

ucft_status_t check_was_posted(const Request& request) {
  if (ucft_status_t status = check_is_gossip(request); status != UCFT_OK) return status;
  return request.state == Request::State::idle ? fail(UCFT_ERR_STATE, "the request was never posted") : UCFT_OK;
}

}  // namespace

ucft_status_t prepare_gossip(Communicator& comm, const GossipArguments& given, Request& request) {
  request.communicator = &comm;
  request.gossip = std::make_unique<GossipRequest>();
  if (given.dtype != UCFT_FLOAT && given.dtype != UCFT_DOUBLE && given.dtype != UCFT_FLOAT16 &&
      given.dtype != UCFT_BFLOAT16)
    return fail(UCFT_ERR_INVALID_PARAM,
                "dtype is {} ({}): gossip needs UCFT_FLOAT, UCFT_DOUBLE, UCFT_FLOAT16 or UCFT_BFLOAT16",
                static_cast<int>(given.dtype), type_name(given.dtype));
  Arguments& arguments = request.arguments;  // for the checks of memory
  arguments.kind = Kind::allreduce;
  arguments.reduction = {static_cast<DataType>(given.dtype), Operator::none};
  const std::uint64_t most = gossip_limit / 4 / sizeof(double);  // two rows, two tables of doubles
  if (given.count > most) return fail(UCFT_ERR_INVALID_PARAM, "count is {}: at most {}", given.count, most);
  arguments.count = given.count;
  request.gossip->call.count = given.count;
  request.gossip->call.is_float = given.dtype != UCFT_DOUBLE;
  request.gossip->call.half = given.dtype == UCFT_FLOAT16    ? GossipHalf::float16
                              : given.dtype == UCFT_BFLOAT16 ? GossipHalf::bfloat16
                                                             : GossipHalf::none;
  request.send = given.send == UCFT_IN_PLACE ? given.receive : given.send;
  request.receive = given.receive;
  const Call call{Kind::allreduce, given.send, given.receive, given.count, given.dtype, nullptr, 0, nullptr};
  if (ucft_status_t status = read_gossip_options(comm, given.options, request.gossip->call); status != UCFT_OK)
    return status;
  if (ucft_status_t status = check_memory(comm, call, request); status != UCFT_OK) return status;
  if (const std::string problem = problem_with(comm.context().settings().gossip_faults, request.gossip->call.plan,
                                               request.gossip->call.is_float ? 32 : 64);
      !problem.empty())
    return fail(UCFT_ERR_INVALID_PARAM, "UCFT_GOSSIP_FAULTS: {}", problem);
  return request.gossip->call.is_float ? check_tau<float>(request.gossip->call, request.send)
                                       : check_tau<double>(request.gossip->call, request.send);
}

ucft_status_t check_gossip_result(const ucft_gossip_result_t* result) {
  return result == nullptr ? UCFT_OK : check_size("result", *result, "UCFT_GOSSIP_RESULT_INIT");
}

void write_gossip_result(const Request& request, ucft_gossip_result_t* result) {
  if (result == nullptr) return;
  const GossipOutcome& outcome = request.gossip->outcome;
  const bool ok = request.status == UCFT_OK;
  result->eps = request.gossip->call.eps;
  result->error_bound = ok ? outcome.error_bound : std::numeric_limits<double>::infinity();
  result->reached = ok && outcome.reached ? 1 : 0;
  result->live_ranks = static_cast<std::int32_t>(outcome.live);
  result->contributors = ok ? outcome.contributors : 0;
  result->stages = outcome.stages;
  result->iterations = outcome.iterations;
  result->messages = outcome.messages;
  result->answer = static_cast<ucft_gossip_answer_t>(outcome.answer);
  result->path = outcome.one_sided ? UCFT_GOSSIP_PATH_RMA : UCFT_GOSSIP_PATH_MESSAGE;
  result->injected_losses = outcome.injected.lost;
  result->injected_flips = outcome.injected.flips;
  result->injected_link_failures = outcome.injected.failed_links;
}

ucft_status_t gossip_estimate(Request& request, void* values, double* error_estimate) {
  if (ucft_status_t status = check_was_posted(request); status != UCFT_OK) return status;
  if (values == nullptr && request.gossip->call.count > 0)
    return fail(UCFT_ERR_INVALID_PARAM, "values is null, with count {}", request.gossip->call.count);
  if (request.pending()) request.communicator->context().glance();
  double expected = request.gossip->outcome.error_bound;
  if (request.pending())
    expected = request.communicator->gossip().estimate(request, values);
  else if (request.status != UCFT_OK)
    return explain(request);
  else if (request.arguments.bytes() > 0)
    std::memmove(values, request.receive, request.arguments.bytes());
  if (error_estimate != nullptr) *error_estimate = expected;
  return UCFT_OK;
}

ucft_status_t gossip_contributors(const Request& request, std::uint32_t* contributors) {
  if (ucft_status_t status = check_was_posted(request); status != UCFT_OK) return status;
  if (contributors == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "contributors is null");
  if (!request.pending() && request.status != UCFT_OK) return explain(request);
  *contributors = request.pending() ? request.communicator->gossip().contributors(request) : request.contributors;
  return UCFT_OK;
}

ucft_status_t gossip_result(const Request& request, ucft_gossip_result_t* result) {
  if (ucft_status_t status = check_is_gossip(request); status != UCFT_OK) return status;
  if (result == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "result is null");
  if (ucft_status_t status = check_gossip_result(result); status != UCFT_OK) return status;
  if (request.state == Request::State::idle || request.pending())
    return fail(UCFT_ERR_STATE, "the request has not completed");
  write_gossip_result(request, result);
  return UCFT_OK;
}

}  // namespace ucft::detail

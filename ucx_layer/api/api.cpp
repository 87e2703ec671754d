// The C API: handles, argument checks, the thread rule, last_error. Everything else is behind it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "collectives/names.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/api/handles.hpp"
#include "ucx_layer/api/memory_check.hpp"

using namespace ucft::detail;

namespace {

thread_local std::string last_error;

template <class... Parts>
ucft_status_t fail(ucft_status_t status, fmt::format_string<Parts...> format, Parts&&... parts) {
  last_error = fmt::format(format, std::forward<Parts>(parts)...);
  return status;
}

HandleTable<Context, ucft_context_h, 1> contexts;
HandleTable<Communicator, ucft_comm_h, 2> comms;
HandleTable<Request, ucft_request_h, 3> requests;

constexpr std::uint64_t bytes_limit = (std::uint64_t{1} << 31) - 1;
constexpr std::int64_t correction_delay_limit_us = 3'600'000'000;
static_assert(UCFT_TREE_BINOMIAL == static_cast<int>(Tree::binomial) && UCFT_TREE_KARY == static_cast<int>(Tree::kary) &&
              UCFT_TREE_KNOMIAL == static_cast<int>(Tree::knomial) && UCFT_TREE_LAME == static_cast<int>(Tree::lame) &&
              UCFT_TREE_OPTIMAL == static_cast<int>(Tree::optimal) && UCFT_TREE_CHAIN == static_cast<int>(Tree::chain) &&
              UCFT_TREE_FLAT == static_cast<int>(Tree::flat));
static_assert(UCFT_CORRECTION_NONE == static_cast<int>(Correction::none) &&
              UCFT_CORRECTION_OPPORTUNISTIC == static_cast<int>(Correction::opportunistic) &&
              UCFT_CORRECTION_CHECKED == static_cast<int>(Correction::checked) &&
              UCFT_CORRECTION_OPPORTUNISTIC_OPTIMISED == static_cast<int>(Correction::opportunistic_optimised) &&
              UCFT_CORRECTION_FAILURE_PROOF == static_cast<int>(Correction::failure_proof));

// Inside the context for as long as it lives.
class Entry {
 public:
  explicit Entry(Context& context) : context_(context) {
    if (context.forked())
      status_ = fail(UCFT_ERR_FORKED, "process {} is a fork of the one that created the context", getpid());
    else if (!context.enter())
      status_ = fail(UCFT_ERR_THREAD, "another thread, a failure callback or an operator is inside this context");
  }
  ~Entry() {
    if (status_ == UCFT_OK) context_.leave();
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ucft_status_t status() const { return status_; }

 private:
  Context& context_;
  ucft_status_t status_ = UCFT_OK;
};

#define UCFT_FIND(object, table, handle, what)                                                \
  auto* const object = table.find(handle);                                                    \
  if (object == nullptr) return fail(UCFT_ERR_CLOSED, "{}: not an open handle: {}", what, static_cast<void*>(handle))
#define UCFT_ENTER(context)                                 \
  const Entry entry(context);                               \
  if (entry.status() != UCFT_OK) return entry.status()

const char* type_name(ucft_dtype_t dtype) {
  static constexpr const char* names[] = {"float", "double", "int32", "int64", "uint64"};
  return dtype >= UCFT_FLOAT && dtype <= UCFT_UINT64 ? names[dtype] : "unknown";
}

// ---- arguments ------------------------------------------------------------------------------------------------------

ucft_status_t read_options(Communicator& comm, const ucft_coll_options_t* given, Arguments& arguments) {
  static constexpr ucft_coll_options_t defaults = UCFT_COLL_OPTIONS_INIT;
  const ucft_coll_options_t& options = given == nullptr ? defaults : *given;
  if (options.struct_size != sizeof options)
    return fail(UCFT_ERR_INVALID_PARAM, "options.struct_size is {}, expected {}: use UCFT_COLL_OPTIONS_INIT", options.struct_size, sizeof options);
  if (options.f < -1 || options.f > comm.size() - 1)
    return fail(UCFT_ERR_INVALID_PARAM, "options.f is {}: must be 0 .. {} (ranks - 1), or -1", options.f, comm.size() - 1);
  if (options.tree < UCFT_TREE_AUTO || options.tree > UCFT_TREE_FLAT)
    return fail(UCFT_ERR_INVALID_PARAM, "options.tree is {}: not a ucft_tree_t", static_cast<int>(options.tree));
  const bool chosen_here = options.tree == UCFT_TREE_AUTO && options.numbering == UCFT_INTERLEAVED;
  const Tree tree = options.tree == UCFT_TREE_AUTO ? Tree::binomial : static_cast<Tree>(options.tree);
  const std::int32_t highest_arity = tree == Tree::lame ? highest_lame_arity : 1 << 20;
  if (options.arity != 0 && (options.arity < lowest_arity(tree) || options.arity > highest_arity))
    return fail(UCFT_ERR_INVALID_PARAM, "options.arity is {}: must be {} .. {} in a {} tree, or 0", options.arity, lowest_arity(tree), highest_arity, tree_name(tree));
  if (options.tree_delay_quarters != 0 && (options.tree_delay_quarters < lowest_delay_quarters || options.tree_delay_quarters > highest_delay_quarters))
    return fail(UCFT_ERR_INVALID_PARAM, "options.tree_delay_quarters is {}: must be {} .. {}, or 0", options.tree_delay_quarters, lowest_delay_quarters, highest_delay_quarters);
  if (options.numbering != UCFT_INTERLEAVED && options.numbering != UCFT_IN_ORDER)
    return fail(UCFT_ERR_INVALID_PARAM, "options.numbering is {}: not a ucft_numbering_t", static_cast<int>(options.numbering));
  if (options.numbering == UCFT_IN_ORDER && !has_in_order_numbering(tree))
    return fail(UCFT_ERR_INVALID_PARAM, "options.numbering is UCFT_IN_ORDER and options.tree is {}: that tree is interleaved only", tree_name(tree));
  if (options.correction < UCFT_CORRECTION_NONE || options.correction > UCFT_CORRECTION_FAILURE_PROOF)
    return fail(UCFT_ERR_INVALID_PARAM, "options.correction is {}: not a ucft_correction_t", static_cast<int>(options.correction));
  if (options.correction_distance < 0)
    return fail(UCFT_ERR_INVALID_PARAM, "options.correction_distance is {}: must not be negative", options.correction_distance);
  if (options.correction_delay_us < 0 || options.correction_delay_us > correction_delay_limit_us)
    return fail(UCFT_ERR_INVALID_PARAM, "options.correction_delay_us is {}: must be 0 .. {}", options.correction_delay_us, correction_delay_limit_us);
  if (options.failure_info < UCFT_FAILURE_INFO_LIST || options.failure_info > UCFT_FAILURE_INFO_BIT)
    return fail(UCFT_ERR_INVALID_PARAM, "options.failure_info is {}: not a ucft_failure_info_t", static_cast<int>(options.failure_info));
  if (!arguments.rooted()) {
    if (options.first_root < -1 || options.first_root >= comm.size())
      return fail(UCFT_ERR_INVALID_PARAM, "options.first_root is {}: must be 0 .. {}, or -1", options.first_root, comm.size() - 1);
    arguments.root = std::max(options.first_root, 0);
  }
  arguments.f = options.f == -1 ? std::min(comm.context().settings().f, comm.size() - 1) : options.f;
  arguments.shape.tree = tree;
  arguments.shape.arity = options.arity == 0 ? 4 : options.arity;
  arguments.shape.numbering = static_cast<Numbering>(options.numbering);
  if (options.tree_delay_quarters != 0) arguments.shape.delay_quarters = options.tree_delay_quarters;
  if (chosen_here) arguments.shape = comm.fastest_shape(arguments.bytes());
  arguments.correction = static_cast<Correction>(options.correction);
  arguments.correction_delay_us = options.correction_delay_us;
  arguments.correction_distance = options.correction_distance == 0 ? 2 : options.correction_distance;
  arguments.failure_info = static_cast<FailureInfo>(options.failure_info);
  return UCFT_OK;
}

static_assert(sizeof(ucft_dtype_t) == sizeof(int), "a user function takes an enumeration where UserFunction has an int");

struct Call {
  Kind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t count = 0;
  ucft_dtype_t dtype = UCFT_UINT64;
  const ucft_operator_t* op = nullptr;
  std::int32_t root = 0;
  const ucft_coll_options_t* options = nullptr;
};

ucft_status_t check_memory(const Communicator& comm, const Call& call, const Request& request) {
  const std::uint64_t bytes = request.arguments.bytes();
  if (bytes == 0) return UCFT_OK;
  const bool at_root = comm.rank() == call.root;
  const bool reads = call.kind == Kind::allreduce || call.kind == Kind::reduce || (call.kind == Kind::broadcast && at_root);
  const bool writes = call.kind == Kind::allreduce || (call.kind == Kind::reduce && at_root) || (call.kind == Kind::broadcast && !at_root);
  const char* input = call.kind == Kind::broadcast ? "buffer" : call.send == UCFT_IN_PLACE ? "recv (in place)" : "send";
  const char* output = call.kind == Kind::broadcast ? "buffer" : "recv";
  if (reads && request.send == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with count {}", input, call.count);
  if (writes && request.receive == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with count {}", output, call.count);
  if (reads && !is_readable(request.send, bytes))
    return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can read: device memory?", input, request.send, bytes);
  if (writes && !is_writable(request.receive, bytes))
    return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can write: device memory?", output, request.receive, bytes);
  if (reads && writes && request.send != request.receive) {
    const auto a = reinterpret_cast<std::uintptr_t>(request.send), b = reinterpret_cast<std::uintptr_t>(request.receive);
    if (a < b + bytes && b < a + bytes)
      return fail(UCFT_ERR_INVALID_PARAM, "send and recv overlap: make them the same (UCFT_IN_PLACE) or disjoint");
  }
  return UCFT_OK;
}

// Checks everything and fills the request in. Nothing is sent.
ucft_status_t prepare(Communicator& comm, const Call& call, Request& request) {
  request.communicator = &comm;   // request.arguments are the defaults
  Arguments& arguments = request.arguments;
  arguments.kind = call.kind;
  if (call.kind != Kind::barrier) {
    if (call.dtype < UCFT_FLOAT || call.dtype > UCFT_UINT64)
      return fail(UCFT_ERR_INVALID_PARAM, "dtype is {}: not a ucft_dtype_t", static_cast<int>(call.dtype));
    arguments.reduction.type = static_cast<DataType>(call.dtype);
    if (call.count > bytes_limit / element_bytes(arguments.reduction.type))
      return fail(UCFT_ERR_INVALID_PARAM, "count is {}: more than {} bytes of {}", call.count, bytes_limit, type_name(call.dtype));
    arguments.count = call.count;
  }
  if (call.kind == Kind::allreduce || call.kind == Kind::reduce) {
    if (call.op == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "op is null");
    if (call.op->struct_size != sizeof *call.op)
      return fail(UCFT_ERR_INVALID_PARAM, "op.struct_size is {}, expected {}: use UCFT_OPERATOR_INIT", call.op->struct_size, sizeof *call.op);
    if (call.op->op < UCFT_SUM || call.op->op > UCFT_USER)
      return fail(UCFT_ERR_INVALID_PARAM, "op is {}: not a ucft_op_t", static_cast<int>(call.op->op));
    if (call.op->op == UCFT_USER && call.op->function == nullptr)
      return fail(UCFT_ERR_INVALID_PARAM, "op is UCFT_USER and its function is null");
    arguments.reduction.op = static_cast<Operator>(call.op->op);
    // By value: the operation may be asked about after its request has been freed.
    arguments.reduction.function = reinterpret_cast<UserFunction>(call.op->function);
    arguments.reduction.arg = call.op->arg;
  }
  if (arguments.rooted()) {
    if (call.root < 0 || call.root >= comm.size())
      return fail(UCFT_ERR_INVALID_PARAM, "root is {}: must be 0 .. {}", call.root, comm.size() - 1);
    arguments.root = call.root;
  }
  if (ucft_status_t status = read_options(comm, call.options, arguments); status != UCFT_OK)
    return status;
  request.send = call.send == UCFT_IN_PLACE || call.kind == Kind::broadcast ? call.receive : call.send;
  request.receive = call.receive;
  return check_memory(comm, call, request);
}

ucft_status_t write_result(const Request& request, ucft_result_t* result) {
  if (result == nullptr) return UCFT_OK;
  if (result->struct_size != sizeof *result)
    return fail(UCFT_ERR_INVALID_PARAM, "result.struct_size is {}, expected {}: use UCFT_RESULT_INIT", result->struct_size, sizeof *result);
  result->status = request.status;
  result->contributors = request.contributors;
  result->attempts = request.attempts;
  result->missing_count = request.missing_known ? request.missing_count : -1;
  if (result->missing != nullptr && request.missing_known)
    std::copy_n(request.missing.begin(), std::min<std::size_t>(request.missing.size(), static_cast<std::size_t>(std::max(result->missing_capacity, 0))), result->missing);
  return UCFT_OK;
}

ucft_status_t explain(const Request& request) {
  Context& context = request.communicator->context();
  switch (request.status) {
    case UCFT_OK: return UCFT_OK;
    case UCFT_ERR_MISMATCH:
      if (request.gossip != nullptr)
        return fail(request.status, "gossip operation {}: the ranks differ in type, count or options", request.number);
      return fail(request.status, "operation {}: {} posted something else: another operation, type, operator, count, root, f or algorithm",
                  request.number, request.culprit < 0 ? "some rank" : context.describe(request.communicator->context_rank(request.culprit)));
    case UCFT_ERR_ROOT_FAILED:
      return fail(request.status, "operation {}: its root, {}, has failed", request.number,
                  context.describe(request.communicator->context_rank(request.arguments.root)));
    case UCFT_ERR_TOO_MANY_FAILURES:
      return fail(request.status, "operation {}: more than f = {} ranks failed in it", request.number, request.arguments.f);
    case UCFT_ERR_EXCLUDED:
      return fail(request.status, "{} declared this rank dead and the others went on without it",
                  context.describe(static_cast<std::int32_t>(context.transport().control()->excluded.load()) - 1));
    case UCFT_ERR_PARTITION: return fail(request.status, "{}", context.partition_text());
    case UCFT_ERR_UNSUPPORTED:
      if (request.culprit < 0) break;
      return fail(request.status, "gossip operation {}: options.path is UCFT_GOSSIP_PATH_RMA, and {} reaches a neighbour by messages only (neither by shared memory nor by RDMA)",
                  request.number, context.describe(request.communicator->context_rank(request.culprit)));
    case UCFT_ERR_NO_MEMORY:
      if (request.culprit < 0) break;
      if (request.gossip == nullptr)
        return fail(request.status, "operation {}: {} has no shared memory for {} bytes", request.number,
                    context.describe(request.communicator->context_rank(request.culprit)), request.arguments.bytes());
      return fail(request.status, "gossip operation {}: {} has no memory for the windows of its neighbours", request.number,
                  context.describe(request.communicator->context_rank(request.culprit)));
    default: break;
  }
  return fail(request.status, "operation {}: {}", request.number, ucft_status_name(request.status));
}

ucft_status_t start(Request& request) {
  return request.gossip != nullptr ? request.communicator->gossip().post(request) : request.communicator->post(request);
}

ucft_status_t post(Request& request) {
  const ucft_status_t status = start(request);
  if (status == UCFT_ERR_BUSY && request.gossip != nullptr)
    return fail(status, "{} gossip operations are in flight on this communicator", GossipDriver::in_flight);
  if (status == UCFT_ERR_BUSY)
    return fail(status, "too many operations in flight on this communicator (UCFT_WINDOW is {})", request.communicator->context().settings().window);
  if (status == UCFT_ERR_NO_MEMORY) return fail(status, "no shared memory for {} bytes", request.arguments.bytes());
  if (status == UCFT_ERR_EXCLUDED || status == UCFT_ERR_PARTITION) {
    request.status = status;
    return explain(request);
  }
  return status;
}

// Runs a prepared operation to its end.
ucft_status_t run(Request& request, ucft_result_t* result) {
  Context& context = request.communicator->context();
  ucft_status_t status = start(request);
  if (status == UCFT_ERR_BUSY) {
    context.wait_until([&] { return (status = start(request)) != UCFT_ERR_BUSY; },
                       Context::Clock::time_point::max());
  }
  if (status != UCFT_OK) {
    request.status = status;
    write_result(request, result);
    return status == UCFT_ERR_NO_MEMORY ? fail(status, "no shared memory for {} bytes", request.arguments.bytes()) : explain(request);
  }
  context.wait_until([&] { return !request.pending(); }, Context::Clock::time_point::max());
  if (ucft_status_t wrong = write_result(request, result); wrong != UCFT_OK) return wrong;
  return explain(request);
}

ucft_status_t run_call(ucft_comm_h handle, const Call& call, ucft_result_t* result) {
  UCFT_FIND(comm, comms, handle, "comm");
  UCFT_ENTER(comm->context());
  if (result != nullptr && result->struct_size != sizeof *result)
    return fail(UCFT_ERR_INVALID_PARAM, "result.struct_size is {}, expected {}: use UCFT_RESULT_INIT", result->struct_size, sizeof *result);
  Request request;
  if (ucft_status_t status = prepare(*comm, call, request); status != UCFT_OK) {
    if (result != nullptr) result->status = status;
    return status;
  }
  return run(request, result);
}

ucft_status_t open_request(std::unique_ptr<Request> request, ucft_request_h* out) {
  const ucft_request_h opened = requests.open(request.get());
  if (opened == nullptr) return fail(UCFT_ERR_NO_MEMORY, "{} requests are open already", requests.capacity);
  request.release();
  *out = opened;
  return UCFT_OK;
}

ucft_status_t init_call(ucft_comm_h handle, const Call& call, ucft_request_h* out) {
  UCFT_FIND(comm, comms, handle, "comm");
  UCFT_ENTER(comm->context());
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "request is null");
  auto request = std::make_unique<Request>();
  if (ucft_status_t status = prepare(*comm, call, *request); status != UCFT_OK) return status;
  return open_request(std::move(request), out);
}

// ---- gossip

static_assert(UCFT_GOSSIP_PUSH_FLOW == static_cast<int>(GossipAlgorithm::push_flow) && UCFT_GOSSIP_PCF_FLIP == static_cast<int>(GossipAlgorithm::pcf_flip) &&
              UCFT_GOSSIP_HPS == static_cast<int>(GossipAlgorithm::pcf_printed), "pcf_printed is for study only: the algorithms behind it move up");
static_assert(UCFT_GOSSIP_HYPERCUBE == static_cast<int>(GossipTopology::hypercube) && UCFT_GOSSIP_TORUS_3D == static_cast<int>(GossipTopology::torus_3d) &&
              UCFT_GOSSIP_RANDOM_REGULAR == static_cast<int>(GossipTopology::random_regular));
static_assert(UCFT_GOSSIP_PATH_MESSAGE == static_cast<int>(GossipPath::messages) && UCFT_GOSSIP_PATH_RMA == static_cast<int>(GossipPath::windows));
static_assert(UCFT_GOSSIP_SURVIVORS == static_cast<int>(GossipStandsFor::survivors) && UCFT_GOSSIP_NEARLY_ALL_RANKS == static_cast<int>(GossipStandsFor::nearly_all_ranks));

GossipAlgorithm algorithm_of(ucft_gossip_algorithm_t algorithm) {
  return static_cast<GossipAlgorithm>(static_cast<int>(algorithm) + (algorithm >= UCFT_GOSSIP_HPS ? 1 : 0));
}

ucft_status_t read_gossip_options(const Communicator& comm, const ucft_gossip_options_t* given, GossipCall& call) {
  static constexpr ucft_gossip_options_t defaults = UCFT_GOSSIP_OPTIONS_INIT;
  constexpr int rounds_limit = 1 << 20;
  const ucft_gossip_options_t& options = given == nullptr ? defaults : *given;
  if (options.struct_size != sizeof options)
    return fail(UCFT_ERR_INVALID_PARAM, "options.struct_size is {}, expected {}: use UCFT_GOSSIP_OPTIONS_INIT", options.struct_size, sizeof options);
  if (options.algorithm < UCFT_GOSSIP_PUSH_SUM || options.algorithm > UCFT_GOSSIP_RECURSIVE_DOUBLING)
    return fail(UCFT_ERR_INVALID_PARAM, "options.algorithm is {}: not a ucft_gossip_algorithm_t", static_cast<int>(options.algorithm));
  if (options.topology < UCFT_GOSSIP_COMPLETE || options.topology > UCFT_GOSSIP_RANDOM_REGULAR)
    return fail(UCFT_ERR_INVALID_PARAM, "options.topology is {}: not a ucft_gossip_topology_t", static_cast<int>(options.topology));
  if (options.aggregate != UCFT_GOSSIP_AVERAGE && options.aggregate != UCFT_GOSSIP_SUM)
    return fail(UCFT_ERR_INVALID_PARAM, "options.aggregate is {}: not a ucft_gossip_aggregate_t", static_cast<int>(options.aggregate));
  if (options.stop != UCFT_GOSSIP_ROUNDS && options.stop != UCFT_GOSSIP_ADAPTIVE)
    return fail(UCFT_ERR_INVALID_PARAM, "options.stop is {}: not a ucft_gossip_stop_t", static_cast<int>(options.stop));
  if (options.path < UCFT_GOSSIP_PATH_AUTO || options.path > UCFT_GOSSIP_PATH_RMA)
    return fail(UCFT_ERR_INVALID_PARAM, "options.path is {}: not a ucft_gossip_path_t", static_cast<int>(options.path));
  if (options.path == UCFT_GOSSIP_PATH_RMA && goes_by_rounds(algorithm_of(options.algorithm)))
    return fail(UCFT_ERR_UNSUPPORTED, "options.path is UCFT_GOSSIP_PATH_RMA, and options.algorithm {}: it goes by rounds, each with another neighbour, by messages only",
                gossip_algorithm_name(algorithm_of(options.algorithm)));
  if (!(options.eps > 0 && options.eps < 1))
    return fail(UCFT_ERR_INVALID_PARAM, "options.eps is {}: must be above 0 and below 1", options.eps);
  if (!(options.tau >= 0 && options.tau < std::numeric_limits<double>::infinity()))
    return fail(UCFT_ERR_INVALID_PARAM, "options.tau is {}: must be a positive number, or 0", options.tau);
  if (options.rounds < 0 || options.rounds > rounds_limit)
    return fail(UCFT_ERR_INVALID_PARAM, "options.rounds is {}: must be 0 .. {}", options.rounds, rounds_limit);
  GossipPlan& plan = call.plan;
  plan.algorithm = algorithm_of(options.algorithm);
  plan.neighbourhood.topology = static_cast<GossipTopology>(options.topology);
  plan.neighbourhood.ranks = comm.size();
  if (options.arity != 0) plan.neighbourhood.arity = options.arity;
  if (options.degree != 0) plan.neighbourhood.degree = options.degree;
  plan.neighbourhood.seed = plan.seed = options.seed;
  GossipPlan checked = plan;
  checked.tau = options.tau == 0 ? 1 : options.tau;   // 0: chosen when the data are known
  if (const std::string problem = problem_with(checked); !problem.empty()) return fail(UCFT_ERR_INVALID_PARAM, "options: {}", problem);
  plan.tau = options.tau;
  call.eps = options.eps;
  call.adaptive = options.stop == UCFT_GOSSIP_ADAPTIVE;
  call.sum = options.aggregate == UCFT_GOSSIP_SUM;
  call.path = static_cast<GossipPath>(options.path);
  call.iterations = options.rounds > 0 ? options.rounds : rounds_for(plan, options.eps);
  return UCFT_OK;
}

// Faults would be found in the rounding errors of this rank's own checksum.
template <class Real>
ucft_status_t check_tau(const GossipCall& call, const void* send) {
  if (!has_checksums(call.plan.algorithm) || call.plan.tau == 0) return UCFT_OK;
  double scale = 1;
  for (std::uint64_t i = 0; i < call.count; ++i) scale += std::abs(static_cast<double>(static_cast<const Real*>(send)[i]));
  const double least = scale * static_cast<double>(std::numeric_limits<Real>::epsilon());
  if (call.plan.tau >= least || !std::isfinite(least)) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "options.tau is {}: too small, the data's rounding errors come to {}", call.plan.tau, least);
}

struct GossipArguments {
  const void* send;
  void* receive;
  std::uint64_t count;
  ucft_dtype_t dtype;
  const ucft_gossip_options_t* options;
};

ucft_status_t prepare_gossip(Communicator& comm, const GossipArguments& given, Request& request) {
  request.communicator = &comm;
  request.gossip = std::make_unique<GossipRequest>();
  if (given.dtype != UCFT_FLOAT && given.dtype != UCFT_DOUBLE)
    return fail(UCFT_ERR_INVALID_PARAM, "dtype is {} ({}): gossip needs UCFT_FLOAT or UCFT_DOUBLE", static_cast<int>(given.dtype), type_name(given.dtype));
  Arguments& arguments = request.arguments;   // for the checks of memory
  arguments.kind = Kind::allreduce;
  arguments.reduction.type = static_cast<DataType>(given.dtype);
  const std::uint64_t most = bytes_limit / 4 / sizeof(double);   // two rows, two tables of doubles
  if (given.count > most) return fail(UCFT_ERR_INVALID_PARAM, "count is {}: at most {}", given.count, most);
  arguments.count = given.count;
  request.gossip->call.count = given.count;
  request.gossip->call.is_float = given.dtype == UCFT_FLOAT;
  request.send = given.send == UCFT_IN_PLACE ? given.receive : given.send;
  request.receive = given.receive;
  const Call call{Kind::allreduce, given.send, given.receive, given.count, given.dtype, nullptr, 0, nullptr};
  if (ucft_status_t status = read_gossip_options(comm, given.options, request.gossip->call); status != UCFT_OK) return status;
  if (ucft_status_t status = check_memory(comm, call, request); status != UCFT_OK) return status;
  if (const std::string problem = problem_with(comm.context().settings().gossip_faults, request.gossip->call.plan, request.gossip->call.is_float ? 32 : 64); !problem.empty())
    return fail(UCFT_ERR_INVALID_PARAM, "UCFT_GOSSIP_FAULTS: {}", problem);
  return request.gossip->call.is_float ? check_tau<float>(request.gossip->call, request.send) : check_tau<double>(request.gossip->call, request.send);
}

ucft_status_t check_gossip_result(const ucft_gossip_result_t* result) {
  if (result == nullptr || result->struct_size == sizeof *result) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "result.struct_size is {}, expected {}: use UCFT_GOSSIP_RESULT_INIT", result->struct_size, sizeof *result);
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

// A communicator of the ranks that gave the same colour. All that go on agree on its members and its number: both come
// out of one allreduce, in which each rank fills its own places of a table.
ucft_status_t split(Communicator& comm, std::int32_t colour, std::int32_t key, Communicator*& part) {
  constexpr std::int64_t nobody = std::numeric_limits<std::int64_t>::min();
  const auto ranks = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> table(2 * ranks + 1, nobody);
  table[2 * me] = colour;
  table[2 * me + 1] = key;
  table[2 * ranks] = comm.context().next_id();
  const ucft_operator_t max = UCFT_OPERATOR_INIT(UCFT_MAX);
  Call call{Kind::allreduce, UCFT_IN_PLACE, table.data(), table.size(), UCFT_INT64, &max, 0, nullptr};
  Request request;
  if (ucft_status_t status = prepare(comm, call, request); status != UCFT_OK) return status;
  if (ucft_status_t status = run(request, nullptr); status != UCFT_OK) return status;

  const auto id = static_cast<std::uint32_t>(table[2 * ranks]);
  comm.context().note_id(id);
  part = nullptr;
  if (colour < 0) return UCFT_OK;
  std::vector<std::pair<std::int64_t, std::int32_t>> members;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (table[2 * rank] == colour && table[2 * rank + 1] != nobody)
      members.emplace_back(table[2 * rank + 1], static_cast<std::int32_t>(rank));
  std::sort(members.begin(), members.end());
  std::vector<std::int32_t> context_ranks;
  for (const auto& [order, rank] : members) context_ranks.push_back(comm.context_rank(rank));
  part = comm.context().create(id, std::move(context_ranks));
  return UCFT_OK;
}

ucft_status_t open_comm(Communicator* communicator, ucft_comm_h* out) {
  *out = comms.open(communicator);
  return *out != nullptr ? UCFT_OK : fail(UCFT_ERR_NO_MEMORY, "{} communicators are open already", comms.capacity);
}

void close_requests_of(const Communicator* communicator) {
  for (ucft_request_h handle : requests.all([&](const Request* request) { return request->communicator == communicator; })) {
    const std::unique_ptr<Request> request(requests.find(handle));
    requests.close(handle);
  }
}

}  // namespace

// ---- the functions --------------------------------------------------------------------------------------------------

extern "C" {

const char* ucft_status_name(ucft_status_t status) {
  switch (status) {
#define UCFT_NAME(value) case value: return #value
    UCFT_NAME(UCFT_OK);
    UCFT_NAME(UCFT_INPROGRESS);
    UCFT_NAME(UCFT_ERR_INVALID_PARAM);
    UCFT_NAME(UCFT_ERR_NO_MEMORY);
    UCFT_NAME(UCFT_ERR_BUSY);
    UCFT_NAME(UCFT_ERR_TIMED_OUT);
    UCFT_NAME(UCFT_ERR_ROOT_FAILED);
    UCFT_NAME(UCFT_ERR_TOO_MANY_FAILURES);
    UCFT_NAME(UCFT_ERR_MISMATCH);
    UCFT_NAME(UCFT_ERR_EXCLUDED);
    UCFT_NAME(UCFT_ERR_PARTITION);
    UCFT_NAME(UCFT_ERR_STARTUP);
    UCFT_NAME(UCFT_ERR_CLOSED);
    UCFT_NAME(UCFT_ERR_STATE);
    UCFT_NAME(UCFT_ERR_THREAD);
    UCFT_NAME(UCFT_ERR_FORKED);
    UCFT_NAME(UCFT_ERR_TRANSPORT);
    UCFT_NAME(UCFT_ERR_UNSUPPORTED);
#undef UCFT_NAME
  }
  return "not a ucft_status_t";
}

const char* ucft_last_error(void) { return last_error.c_str(); }
const char* ucft_version(void) { return UCFT_VERSION_STRING; }

ucft_status_t ucft_context_create(const ucft_context_params_t* params, ucft_context_h* out) {
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "context is null");
  if (params != nullptr && params->struct_size != sizeof *params)
    return fail(UCFT_ERR_INVALID_PARAM, "params.struct_size is {}, expected {}: use UCFT_CONTEXT_PARAMS_INIT", params->struct_size, sizeof *params);
  auto context = std::make_unique<Context>();
  context->enter();
  std::string error;
  try {
    if (ucft_status_t status = context->start(params, error); status != UCFT_OK) return fail(status, "{}", error);
  } catch (const std::exception& failure) {   // descriptors, threads or memory have run out
    return fail(UCFT_ERR_STARTUP, "{}", failure.what());
  }
  context->leave();
  *out = contexts.open(context.get());
  if (*out == nullptr) return fail(UCFT_ERR_NO_MEMORY, "{} contexts are open already", contexts.capacity);
  context.release();
  return UCFT_OK;
}

ucft_status_t ucft_context_destroy(ucft_context_h handle) {
  UCFT_FIND(context, contexts, handle, "context");
  if (context->forked()) return fail(UCFT_ERR_FORKED, "process {} is a fork of the one that created the context", getpid());
  if (!context->enter()) return fail(UCFT_ERR_THREAD, "another thread, a failure callback or an operator is inside this context");
  for (Communicator* communicator : context->communicators()) {
    if (!communicator->has_pending()) continue;
    context->leave();
    return fail(UCFT_ERR_STATE, "an operation is still in progress: wait for it first");
  }
  context->stop();
  for (Communicator* communicator : context->communicators()) {
    close_requests_of(communicator);
    for (ucft_comm_h each : comms.all([&](const Communicator* open) { return open == communicator; })) comms.close(each);
  }
  contexts.close(handle);
  delete context;
  return UCFT_OK;
}

ucft_status_t ucft_context_rank(ucft_context_h handle, int32_t* rank) {
  UCFT_FIND(context, contexts, handle, "context");
  if (rank == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "rank is null");
  *rank = context->rank();
  return UCFT_OK;
}

ucft_status_t ucft_context_size(ucft_context_h handle, int32_t* size) {
  UCFT_FIND(context, contexts, handle, "context");
  if (size == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "size is null");
  *size = context->size();
  return UCFT_OK;
}

ucft_status_t ucft_context_paths(ucft_context_h handle, ucft_context_paths_t* paths) {
  UCFT_FIND(context, contexts, handle, "context");
  if (paths == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "paths is null");
  if (paths->struct_size != sizeof *paths)
    return fail(UCFT_ERR_INVALID_PARAM, "paths.struct_size is {}, expected {}: use UCFT_CONTEXT_PATHS_INIT", paths->struct_size, sizeof *paths);
  UCFT_ENTER(*context);
  const Transport::Paths found = context->transport().paths();
  paths->shared_memory = found.shared_memory;
  paths->remote_mailboxes = found.remote_mailboxes;
  paths->messages = found.messages;
  return UCFT_OK;
}

ucft_status_t ucft_progress(ucft_context_h handle) {
  UCFT_FIND(context, contexts, handle, "context");
  UCFT_ENTER(*context);
  context->glance();
  return UCFT_OK;
}

ucft_status_t ucft_alloc(ucft_context_h handle, size_t bytes, void** memory) {
  UCFT_FIND(context, contexts, handle, "context");
  UCFT_ENTER(*context);
  if (memory == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "memory is null");
  std::byte* allocated = bytes > bytes_limit ? nullptr : context->transport().allocate_shared(bytes);
  if (allocated == nullptr) return fail(UCFT_ERR_NO_MEMORY, "no shared memory for {} bytes", bytes);
  *memory = allocated;
  return UCFT_OK;
}

ucft_status_t ucft_free(ucft_context_h handle, void* memory) {
  UCFT_FIND(context, contexts, handle, "context");
  UCFT_ENTER(*context);
  if (memory == nullptr || context->transport().free_shared(memory)) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "{} did not come from ucft_alloc", memory);
}

// ---- communicators

ucft_status_t ucft_comm_create(ucft_context_h handle, ucft_comm_h* out) {
  UCFT_FIND(context, contexts, handle, "context");
  UCFT_ENTER(*context);
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "comm is null");
  return open_comm(context->create_world(), out);
}

ucft_status_t ucft_comm_split(ucft_comm_h handle, int32_t colour, int32_t key, ucft_comm_h* out) {
  UCFT_FIND(comm, comms, handle, "comm");
  UCFT_ENTER(comm->context());
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "part is null");
  Communicator* part = nullptr;
  if (ucft_status_t status = split(*comm, colour, key, part); status != UCFT_OK) return status;
  *out = UCFT_COMM_NULL;
  return part == nullptr ? UCFT_OK : open_comm(part, out);
}

ucft_status_t ucft_comm_dup(ucft_comm_h handle, ucft_comm_h* out) { return ucft_comm_split(handle, 0, 0, out); }

ucft_status_t ucft_comm_destroy(ucft_comm_h handle) {
  UCFT_FIND(comm, comms, handle, "comm");
  Context& context = comm->context();
  UCFT_ENTER(context);
  if (comm->has_pending()) return fail(UCFT_ERR_STATE, "an operation is still in progress: wait for it first");
  std::vector<Communicator*> all{comm};
  if (comm->has_gossip())
    for (Communicator* each : comm->gossip().agreements()) all.push_back(each);
  if (!context.excluded()) context.farewell(all);
  close_requests_of(comm);
  comms.close(handle);
  for (auto each = all.rbegin(); each != all.rend(); ++each) context.destroy(*each);   // the caller's own last
  return UCFT_OK;
}

ucft_status_t ucft_comm_rank(ucft_comm_h handle, int32_t* rank) {
  UCFT_FIND(comm, comms, handle, "comm");
  if (rank == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "rank is null");
  *rank = comm->rank();
  return UCFT_OK;
}

ucft_status_t ucft_comm_size(ucft_comm_h handle, int32_t* size) {
  UCFT_FIND(comm, comms, handle, "comm");
  if (size == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "size is null");
  *size = comm->size();
  return UCFT_OK;
}

ucft_status_t ucft_comm_failed(ucft_comm_h handle, int32_t* ranks, int32_t* count) {
  UCFT_FIND(comm, comms, handle, "comm");
  UCFT_ENTER(comm->context());
  if (count == nullptr || *count < 0) return fail(UCFT_ERR_INVALID_PARAM, "count is null or negative");
  if (ranks == nullptr && *count > 0) return fail(UCFT_ERR_INVALID_PARAM, "ranks is null, with a capacity of {}", *count);
  comm->context().progress();
  std::int32_t found = 0;
  for (std::int32_t rank = 0; rank < comm->size(); ++rank) {
    if (!comm->context().has_failed(comm->context_rank(rank))) continue;
    if (found < *count) ranks[found] = rank;
    ++found;
  }
  *count = found;
  return UCFT_OK;
}

// ---- operations

ucft_status_t ucft_allreduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                             ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::allreduce, send, recv, count, dtype, &with, 0, options}, result);
}

ucft_status_t ucft_reduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                          ucft_op_t op, int32_t root, const ucft_coll_options_t* options, ucft_result_t* result) {
  const ucft_operator_t with = UCFT_OPERATOR_INIT(op);
  return run_call(comm, {Kind::reduce, send, recv, count, dtype, &with, root, options}, result);
}

ucft_status_t ucft_broadcast(ucft_comm_h comm, void* buffer, uint64_t count, ucft_dtype_t dtype, int32_t root,
                             const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::broadcast, nullptr, buffer, count, dtype, nullptr, root, options}, result);
}

ucft_status_t ucft_barrier(ucft_comm_h comm, const ucft_coll_options_t* options, ucft_result_t* result) {
  return run_call(comm, {Kind::barrier, nullptr, nullptr, 0, UCFT_UINT64, nullptr, 0, options}, result);
}

ucft_status_t ucft_allreduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                  const ucft_operator_t* op, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::allreduce, send, recv, count, dtype, op, 0, options}, request);
}

ucft_status_t ucft_reduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                               const ucft_operator_t* op, int32_t root, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::reduce, send, recv, count, dtype, op, root, options}, request);
}

ucft_status_t ucft_broadcast_init(ucft_comm_h comm, void* buffer, uint64_t count, ucft_dtype_t dtype, int32_t root,
                                  const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::broadcast, nullptr, buffer, count, dtype, nullptr, root, options}, request);
}

ucft_status_t ucft_barrier_init(ucft_comm_h comm, const ucft_coll_options_t* options, ucft_request_h* request) {
  return init_call(comm, {Kind::barrier, nullptr, nullptr, 0, UCFT_UINT64, nullptr, 0, options}, request);
}

ucft_status_t ucft_gossip_allreduce(ucft_comm_h handle, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                    const ucft_gossip_options_t* options, ucft_gossip_result_t* result) {
  UCFT_FIND(comm, comms, handle, "comm");
  UCFT_ENTER(comm->context());
  if (ucft_status_t status = check_gossip_result(result); status != UCFT_OK) return status;
  Request request;
  if (ucft_status_t status = prepare_gossip(*comm, {send, recv, count, dtype, options}, request); status != UCFT_OK) return status;
  const ucft_status_t status = run(request, nullptr);
  write_gossip_result(request, result);
  return status;
}

ucft_status_t ucft_gossip_allreduce_init(ucft_comm_h handle, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                         const ucft_gossip_options_t* options, ucft_request_h* out) {
  UCFT_FIND(comm, comms, handle, "comm");
  UCFT_ENTER(comm->context());
  if (out == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "request is null");
  auto request = std::make_unique<Request>();
  if (ucft_status_t status = prepare_gossip(*comm, {send, recv, count, dtype, options}, *request); status != UCFT_OK) return status;
  return open_request(std::move(request), out);
}

ucft_status_t ucft_gossip_estimate(ucft_request_h handle, void* values, double* error_estimate) {
  UCFT_FIND(request, requests, handle, "request");
  Context& context = request->communicator->context();
  UCFT_ENTER(context);
  if (request->gossip == nullptr) return fail(UCFT_ERR_STATE, "the request is not one of ucft_gossip_allreduce_init");
  if (request->state == Request::State::idle) return fail(UCFT_ERR_STATE, "the request was never posted");
  if (values == nullptr && request->gossip->call.count > 0) return fail(UCFT_ERR_INVALID_PARAM, "values is null, with count {}", request->gossip->call.count);
  if (request->pending()) context.glance();
  double expected = request->gossip->outcome.error_bound;
  if (request->pending())
    expected = request->communicator->gossip().estimate(*request, values);
  else if (request->status != UCFT_OK)
    return explain(*request);
  else if (request->arguments.bytes() > 0)
    std::memmove(values, request->receive, request->arguments.bytes());
  if (error_estimate != nullptr) *error_estimate = expected;
  return UCFT_OK;
}

ucft_status_t ucft_gossip_result(ucft_request_h handle, ucft_gossip_result_t* result) {
  UCFT_FIND(request, requests, handle, "request");
  UCFT_ENTER(request->communicator->context());
  if (request->gossip == nullptr) return fail(UCFT_ERR_STATE, "the request is not one of ucft_gossip_allreduce_init");
  if (result == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "result is null");
  if (ucft_status_t status = check_gossip_result(result); status != UCFT_OK) return status;
  if (request->state == Request::State::idle || request->pending()) return fail(UCFT_ERR_STATE, "the request has not completed");
  write_gossip_result(*request, result);
  return UCFT_OK;
}

ucft_status_t ucft_post(ucft_request_h handle) {
  UCFT_FIND(request, requests, handle, "request");
  UCFT_ENTER(request->communicator->context());
  if (request->pending()) return fail(UCFT_ERR_STATE, "the request is posted already and not complete");
  return post(*request);
}

ucft_status_t ucft_test(ucft_request_h handle) {
  UCFT_FIND(request, requests, handle, "request");
  Context& context = request->communicator->context();
  UCFT_ENTER(context);
  if (request->state == Request::State::idle) return fail(UCFT_ERR_STATE, "the request was never posted");
  if (request->pending()) context.glance();
  return request->pending() ? UCFT_INPROGRESS : explain(*request);
}

ucft_status_t ucft_wait(ucft_request_h handle, uint64_t timeout_us) {
  UCFT_FIND(request, requests, handle, "request");
  Context& context = request->communicator->context();
  UCFT_ENTER(context);
  if (request->state == Request::State::idle) return fail(UCFT_ERR_STATE, "the request was never posted");
  if (request->state == Request::State::taken) return fail(UCFT_ERR_STATE, "the request was waited for already");
  const auto now = Context::Clock::now();
  const auto limit = timeout_us > 1000000000000ull ? Context::Clock::time_point::max() : now + std::chrono::microseconds(timeout_us);
  if (!context.wait_until([&] { return !request->pending(); }, limit))
    return fail(UCFT_ERR_TIMED_OUT, "operation {} is still in progress after {} us", request->number, timeout_us);
  request->state = Request::State::taken;
  return explain(*request);
}

ucft_status_t ucft_request_result(ucft_request_h handle, ucft_result_t* result) {
  UCFT_FIND(request, requests, handle, "request");
  UCFT_ENTER(request->communicator->context());
  if (result == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "result is null");
  if (request->state == Request::State::idle || request->pending())
    return fail(UCFT_ERR_STATE, "the request has not completed");
  return write_result(*request, result);
}

ucft_status_t ucft_request_free(ucft_request_h handle) {
  UCFT_FIND(request, requests, handle, "request");
  UCFT_ENTER(request->communicator->context());
  if (request->pending()) return fail(UCFT_ERR_STATE, "the operation is still in progress: wait for it first");
  requests.close(handle);
  delete request;
  return UCFT_OK;
}

size_t ucft_settings(ucft_context_h handle, char* text, size_t bytes) {
  Settings settings;
  std::string error, all;
  if (const Context* context = contexts.find(handle); context != nullptr)
    all = settings_text(context->settings());
  else
    all = read_settings(nullptr, settings, error) ? settings_text(settings) : "error: " + error + "\n";
  if (text != nullptr && bytes > 0) {
    const std::size_t length = std::min(all.size(), bytes - 1);
    std::memcpy(text, all.data(), length);
    text[length] = 0;
  }
  return all.size() + 1;
}

}  // extern "C"

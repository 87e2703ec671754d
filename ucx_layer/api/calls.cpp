#include "ucx_layer/api/calls.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/topology/names.hpp"
#include "collectives/core/random.hpp"
#include "ucx_layer/api/accumulators.hpp"
#include "ucx_layer/api/errors.hpp"
#include "ucx_layer/api/memory_check.hpp"
#include "ucx_layer/api/operators.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

namespace {

constexpr std::uint64_t displacement_limit = std::uint64_t{1} << 56;  // elements
constexpr std::int64_t correction_delay_limit_us = 3'600'000'000, deadline_limit_ns = 3'600'000'000'000;
static_assert(UCFT_TREE_BINOMIAL == static_cast<int>(Tree::binomial) &&
              UCFT_TREE_KARY == static_cast<int>(Tree::kary) && UCFT_TREE_KNOMIAL == static_cast<int>(Tree::knomial) &&
              UCFT_TREE_LAME == static_cast<int>(Tree::lame) && UCFT_TREE_OPTIMAL == static_cast<int>(Tree::optimal) &&
              UCFT_TREE_CHAIN == static_cast<int>(Tree::chain) && UCFT_TREE_FLAT == static_cast<int>(Tree::flat) &&
              UCFT_TREE_GOSSIP == tree_count);
static_assert(UCFT_CORRECTION_NONE == static_cast<int>(Correction::none) &&
              UCFT_CORRECTION_OPPORTUNISTIC == static_cast<int>(Correction::opportunistic) &&
              UCFT_CORRECTION_CHECKED == static_cast<int>(Correction::checked) &&
              UCFT_CORRECTION_OPPORTUNISTIC_OPTIMISED == static_cast<int>(Correction::opportunistic_optimised) &&
              UCFT_CORRECTION_FAILURE_PROOF == static_cast<int>(Correction::failure_proof));

#define UCFT_SAME(constant, value) static_assert(static_cast<int>(constant) == static_cast<int>(value))
UCFT_SAME(UCFT_UINT64, DataType::uint64);
UCFT_SAME(UCFT_INT8, DataType::int8);
UCFT_SAME(UCFT_UINT32, DataType::uint32);
UCFT_SAME(UCFT_FLOAT16, DataType::float16);
UCFT_SAME(UCFT_BFLOAT16, DataType::bfloat16);
UCFT_SAME(UCFT_COMPLEX_DOUBLE, DataType::complex_double);
UCFT_SAME(UCFT_BOOL, DataType::boolean);
UCFT_SAME(UCFT_DOUBLE_INT32, DataType::double_int32);
UCFT_SAME(UCFT_DOUBLE_INT64, DataType::double_int64);
UCFT_SAME(UCFT_USER, Operator::user);
UCFT_SAME(UCFT_MAXLOC, Operator::maxloc);
UCFT_SAME(UCFT_LXOR, Operator::logical_xor);
UCFT_SAME(UCFT_BAND, Operator::bitwise_and);
UCFT_SAME(UCFT_BXOR, Operator::bitwise_xor);
UCFT_SAME(UCFT_AVG, Operator::average);
UCFT_SAME(UCFT_SUM_REPRODUCIBLE, Operator::sum_reproducible);
UCFT_SAME(UCFT_AVG_REPRODUCIBLE, Operator::average_reproducible);
#undef UCFT_SAME

bool is_a_type(ucft_dtype_t dtype) { return dtype >= 0 && dtype < static_cast<int>(type_count); }

}  // namespace

const char* type_name(ucft_dtype_t dtype) {
  if (dtype == UCFT_ACCUMULATOR) return "accumulator";
  return is_a_type(dtype) ? row_of(static_cast<DataType>(dtype)).name : "unknown";
}

namespace {

// ---- arguments ------------------------------------------------------------------------------------------------------

// An option may have a value of a range, or another one. wrong: the sentence about the rest, of value, least, most and
// the tree's name.
struct Option {
  const char* wrong;
  std::int64_t value, least, most, other = least;
};

ucft_status_t check(const Option& option, Tree tree) {
  const auto& [wrong, value, least, most, other] = option;
  if (value == other || (least <= value && value <= most)) return UCFT_OK;
  return fail(UCFT_ERR_INVALID_PARAM, "{}", fmt::format(fmt::runtime(wrong), value, least, most, tree_name(tree)));
}

ucft_status_t read_options(Communicator& comm, const ucft_coll_options_t* given, Arguments& arguments) {
  const std::int32_t last = comm.size() - 1, usual_f = std::min(comm.context().settings().f, last);
  if (given == nullptr) {  // what UCFT_COLL_OPTIONS_INIT says; the rest are the defaults of Arguments
    arguments.f = usual_f;
    arguments.shape = comm.fastest_shape(arguments.bytes());
    return UCFT_OK;
  }
  const ucft_coll_options_t& options = *given;
  if (ucft_status_t wrong = check_size("options", options, "UCFT_COLL_OPTIONS_INIT"); wrong != UCFT_OK) return wrong;
  const bool is_gossip = options.tree == UCFT_TREE_GOSSIP, may_gossip = options.tree == UCFT_TREE_AUTO_OR_GOSSIP;
  const bool names_tree = options.tree >= UCFT_TREE_BINOMIAL && options.tree < UCFT_TREE_GOSSIP;
  const Tree tree = names_tree ? static_cast<Tree>(options.tree) : Tree::binomial;
  const auto in_order_if = [](bool may_be) { return may_be ? UCFT_IN_ORDER : UCFT_INTERLEAVED; };
  const Option table[] = {
      {"options.f is {0}: must be {1} .. {2} (ranks - 1), or -1", options.f, 0, last, -1},
      {"options.tree is {0}: not a ucft_tree_t", options.tree, UCFT_TREE_AUTO, UCFT_TREE_AUTO_OR_GOSSIP},
      {"options.arity is {0}: must be {1} .. {2} in a {3} tree, or 0", options.arity, lowest_arity(tree),
       tree == Tree::lame ? highest_lame_arity : 1 << 20, 0},
      {"options.tree_delay_quarters is {0}: must be {1} .. {2}, or 0", options.tree_delay_quarters,
       lowest_delay_quarters, highest_delay_quarters, 0},
      {"options.numbering is {0}: not a ucft_numbering_t", options.numbering, UCFT_INTERLEAVED, UCFT_IN_ORDER},
      {"options.numbering is UCFT_IN_ORDER and options.tree is {3}: that tree is interleaved only", options.numbering,
       UCFT_INTERLEAVED, in_order_if(has_in_order_numbering(tree))},
      {"options.numbering is UCFT_IN_ORDER and options.tree is UCFT_TREE_GOSSIP: there is no tree", options.numbering,
       UCFT_INTERLEAVED, in_order_if(!is_gossip)},
      {"options.numbering is UCFT_IN_ORDER and options.tree is UCFT_TREE_AUTO_OR_GOSSIP: there may be no tree",
       options.numbering, UCFT_INTERLEAVED, in_order_if(!may_gossip)},
      {"options.gossip_time_ns is {0}: must be {1} .. {2}", options.gossip_time_ns, 0, gossip_time_limit_ns},
      {"options.gossip_time_ns is {0}, and options.tree not UCFT_TREE_GOSSIP", options.gossip_time_ns, 0,
       is_gossip ? gossip_time_limit_ns : 0},
      {"options.correction is {0}: not a ucft_correction_t", options.correction, UCFT_CORRECTION_NONE,
       UCFT_CORRECTION_FAILURE_PROOF},
      {"options.correction_distance is {0}: must not be negative", options.correction_distance, 0, INT32_MAX},
      {"options.correction_delay_us is {0}: must be {1} .. {2}", options.correction_delay_us, 0,
       correction_delay_limit_us},
      {"options.uniform is {0}: must be 0 or 1", options.uniform, 0, 1},
      {"options.quorum is {0}: must be {1} .. {2} (the ranks)", options.quorum, 0, comm.size()},
      {"options.quorum is {0}: it is of an allreduce", options.quorum, 0,
       arguments.kind == Kind::allreduce ? comm.size() : 0},
      {"options.quorum is {0}, and options.uniform 1: ranks that are late can't wait for that", options.quorum, 0,
       options.uniform == 0 ? comm.size() : 0},
      {"options.quorum is {0}, and options.reproducible_sweeps 2: it takes one", options.quorum, 0,
       options.reproducible_sweeps != 2 ? comm.size() : 0},
      {"options.quorum is {0}, and options.tree UCFT_TREE_GOSSIP: there is no tree", options.quorum, 0,
       is_gossip ? 0 : comm.size()},
      {"options.deadline_ns is {0}: must be {1} .. {2}", options.deadline_ns, 0, deadline_limit_ns},
      {"options.deadline_ns is {0}, and options.quorum 0", options.deadline_ns, 0,
       options.quorum != 0 ? deadline_limit_ns : 0},
      {"options.failure_info is {0}: not a ucft_failure_info_t", options.failure_info, UCFT_FAILURE_INFO_LIST,
       UCFT_FAILURE_INFO_BIT},
      {"options.first_root is {0}: must be {1} .. {2}, or -1", arguments.rooted() ? -1 : options.first_root, 0, last,
       -1},
  };
  for (const Option& option : table)
    if (ucft_status_t status = check(option, tree); status != UCFT_OK) return status;
  const bool gossips =
      is_gossip || (may_gossip && options.correction != UCFT_CORRECTION_NONE && comm.prefers_gossip(arguments.bytes()));
  arguments.f = options.f == -1 ? usual_f : options.f;
  if (!arguments.rooted()) arguments.root = std::max(options.first_root, 0);
  arguments.shape.tree = tree;
  arguments.shape.arity = options.arity == 0 ? 4 : options.arity;
  arguments.shape.numbering = static_cast<Numbering>(options.numbering);
  if (options.tree_delay_quarters != 0) arguments.shape.delay_quarters = options.tree_delay_quarters;
  if (!gossips && !names_tree && options.numbering == UCFT_INTERLEAVED)
    arguments.shape = comm.fastest_shape(arguments.bytes());
  arguments.correction = static_cast<Correction>(options.correction);
  arguments.correction_delay_us = options.correction_delay_us;
  arguments.correction_distance = options.correction_distance == 0 && !gossips ? 2 : options.correction_distance;
  arguments.failure_info = static_cast<FailureInfo>(options.failure_info);
  arguments.uniform = options.uniform != 0;
  if (gossips) comm.set_gossip(options.gossip_time_ns, arguments);
  return UCFT_OK;
}

static_assert(sizeof(ucft_dtype_t) == sizeof(int),
              "a user function takes an enumeration where UserFunction has an int");

// Nothing is written there.
bool is_first_of_exscan(const Communicator& comm, const Call& call) {
  return row_of(call.kind).lands == Lands::prefix_before && comm.rank() == 0;
}

}  // namespace

ucft_status_t check_memory(const Communicator& comm, const Call& call, const Request& request) {
  const std::uint64_t element = element_bytes(request.arguments.reduction.type()),
                      bytes = request.arguments.given_count() * element,
                      written = row_of(call.kind).has_shares() ? request.share.count * element : bytes;
  if (bytes == 0) return UCFT_OK;
  const bool at_root = comm.rank() == call.root;
  const bool reads = is_one_of(row_of(call.kind).gives, at_root),
             writes = is_one_of(row_of(call.kind).gets, at_root) && written > 0 && !is_first_of_exscan(comm, call);
  const bool in_one = row_of(call.kind).has_one_buffer();
  const char* input = in_one ? "buffer" : call.send == UCFT_IN_PLACE ? "recv (in place)" : "send";
  const char* output = in_one ? "buffer" : "recv";
  if (reads && request.send == nullptr)
    return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with {} elements", input, bytes / element);
  if (writes && request.receive == nullptr)
    return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with {} elements", output, written / element);
  if (reads && !is_readable(request.send, bytes))
    return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can read: device memory?",
                input, request.send, bytes);
  if (writes && !is_writable(request.receive, written))
    return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can write: device memory?",
                output, request.receive, written);
  const bool may_be_the_same = !(row_of(call.kind).has_shares() && row_of(call.kind).from_root());
  if (reads && writes && !(may_be_the_same && request.send == request.receive)) {
    const auto a = reinterpret_cast<std::uintptr_t>(request.send),
               b = reinterpret_cast<std::uintptr_t>(request.receive);
    if (a < b + written && b < a + bytes)
      return fail(UCFT_ERR_INVALID_PARAM, "send and recv overlap: use UCFT_IN_PLACE, or disjoint memory");
  }
  return UCFT_OK;
}

namespace {

// Lengths and places in elements, as a caller has given them. prefix: of their names.
struct GivenPlaces {
  const char* prefix;
  const std::uint64_t *counts, *displacements;
};

// In bytes.
ucft_status_t read_places(const GivenPlaces& given, ucft_dtype_t dtype, std::vector<OwnShare>& places) {
  const std::uint64_t element = element_bytes(static_cast<DataType>(dtype)), most = bytes_limit / element;
  std::uint64_t all = 0;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::uint64_t count = given.counts[rank],
                        place = given.displacements == nullptr ? all : given.displacements[rank];
    if (count > most - all)
      return fail(UCFT_ERR_INVALID_PARAM, "{}counts[{}] is {}: more than {} bytes of {} with those before",
                  given.prefix, rank, count, bytes_limit, type_name(dtype));
    if (place > displacement_limit)
      return fail(UCFT_ERR_INVALID_PARAM, "{}displacements[{}] is {}: at most {}", given.prefix, rank, place,
                  displacement_limit);
    places[rank] = {place * element, count * element};
    all += count;
  }
  return UCFT_OK;
}

// No two may share a byte.
ucft_status_t check_apart(std::span<const OwnShare> places) {
  std::vector<std::size_t> ranks(places.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::erase_if(ranks, [&](std::size_t rank) { return places[rank].bytes == 0; });
  std::ranges::sort(ranks, {}, [&](std::size_t rank) { return std::pair(places[rank].offset, rank); });
  for (std::size_t i = 1; i < ranks.size(); ++i)
    if (places[ranks[i]].offset < places[ranks[i - 1]].offset + places[ranks[i - 1]].bytes)
      return fail(UCFT_ERR_INVALID_PARAM, "the blocks of rank {} and rank {} overlap in recv", ranks[i - 1], ranks[i]);
  return UCFT_OK;
}

// Where each block goes.
ucft_status_t read_layout(const Communicator& comm, const Call& call, Request& request) {
  Arguments& arguments = request.arguments;
  const std::uint64_t element = element_bytes(arguments.reduction.type()), most = bytes_limit / element;
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (call.counts == nullptr) {
    if (call.count > most / ranks)
      return fail(UCFT_ERR_INVALID_PARAM, "count is {}: {} blocks of it are more than {} bytes of {}", call.count,
                  ranks, bytes_limit, type_name(call.dtype));
    request.layout.block_bytes = call.count * element;
    arguments.own_count = call.count;
    arguments.count = call.count * ranks;
    arguments.layout = mixed(0, call.count);
    return UCFT_OK;
  }
  // A rank that gets nothing places nothing.
  const bool gets = is_one_of(row_of(call.kind).gets, comm.rank() == call.root);
  std::vector<OwnShare> places(ranks);
  if (ucft_status_t status = read_places({"", call.counts, gets ? call.displacements : nullptr}, call.dtype, places);
      status != UCFT_OK)
    return status;
  for (const auto& [offset, bytes] : places) {
    request.layout.bytes.push_back(bytes);
    request.layout.offsets.push_back(offset);
    arguments.count += bytes / element;
    arguments.layout = mixed(arguments.layout, bytes / element);
  }
  arguments.own_count = call.counts[static_cast<std::size_t>(comm.rank())];
  return check_apart(places);
}

// Of an alltoall or a scan: all give blocks of one length, of which each rank takes a part. The operator is of the
// landing, and in the signature.
ucft_status_t read_landing(const Communicator& comm, const Call& call, const Reduction& reduction, Request& request) {
  const Lands lands = row_of(call.kind).lands;
  const std::uint64_t element = element_bytes(reduction.type()), most = bytes_limit / element;
  const auto ranks = static_cast<std::uint64_t>(comm.size());
  const std::uint64_t shares = lands == Lands::share_of_each ? ranks : 1;
  if (call.count > most / ranks / shares)
    return fail(UCFT_ERR_INVALID_PARAM, "count is {}: what {} ranks give is more than {} bytes of {}", call.count,
                ranks, bytes_limit, type_name(call.dtype));
  Arguments& arguments = request.arguments;
  arguments.own_count = call.count * shares;
  arguments.count = arguments.own_count * ranks;
  arguments.layout = mixed(mixed(0, call.count), static_cast<std::uint64_t>(reduction.op()) << 8 |
                                                     static_cast<std::uint64_t>(reduction.bins()));
  request.layout.block_bytes = arguments.own_count * element;
  request.landing = std::make_unique<Landing>(lands, comm.rank(), arguments.own_count, call.count, reduction);
  return UCFT_OK;
}

// Of an alltoallv. Lengths differ from rank to rank, so no count is in the signature.
ucft_status_t read_own_shares(const Communicator& comm, const Call& call, Request& request) {
  const bool in_place = call.send == UCFT_IN_PLACE;
  if (!in_place && call.send_counts == nullptr) return fail(UCFT_ERR_INVALID_PARAM, "send_counts is null");
  auto shares = std::make_unique<OwnShares>();
  const auto ranks = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
  shares->me = comm.rank();
  shares->given.resize(ranks);
  shares->wanted.resize(ranks);
  if (ucft_status_t status = read_places({"recv_", call.counts, call.displacements}, call.dtype, shares->wanted);
      status != UCFT_OK)
    return status;
  if (ucft_status_t status = check_apart(shares->wanted); status != UCFT_OK) return status;
  if (in_place)
    shares->given = shares->wanted;
  else if (ucft_status_t status =
               read_places({"send_", call.send_counts, call.send_displacements}, call.dtype, shares->given);
           status != UCFT_OK)
    return status;
  if (!in_place && call.send_counts[me] != call.counts[me])
    return fail(UCFT_ERR_INVALID_PARAM,
                "send_counts[{0}] is {1}, and recv_counts[{0}] {2}: this rank's share for itself", me,
                call.send_counts[me], call.counts[me]);
  shares->for_others = shares->given;
  shares->for_others[me].bytes = 0;
  const std::uint64_t bytes = PackedShares::bytes(shares->given);
  if (bytes > bytes_limit)
    return fail(UCFT_ERR_INVALID_PARAM, "what this rank gives is {} bytes with its lengths: more than {}", bytes,
                bytes_limit);
  request.arguments.layout = mixed(0, UINT64_MAX);  // no alltoall of one length has this
  request.shares = std::move(shares);
  return UCFT_OK;
}

// Shares of the caller's memory. Where there are no holes it is looked at as a whole: a look costs system calls.
struct GivenMemory {
  const char* name;
  const void* memory;
  std::span<const OwnShare> shares;
  bool has_holes, is_written;

  const std::byte* at(std::uint64_t offset) const { return static_cast<const std::byte*>(memory) + offset; }
  bool is_there(std::uint64_t offset, std::uint64_t bytes) const {
    auto* const place = const_cast<std::byte*>(at(offset));
    return is_written ? is_writable(place, bytes) : is_readable(place, bytes);
  }
};

ucft_status_t check_shares(const GivenMemory& given) {
  std::uint64_t all = 0;
  for (const OwnShare& share : given.shares) all += share.bytes;
  if (all == 0) return UCFT_OK;
  const bool is_whole = !given.has_holes && given.memory != nullptr && given.is_there(0, all);
  for (std::size_t rank = 0; rank < given.shares.size() && !is_whole; ++rank) {
    const auto [offset, bytes] = given.shares[rank];
    if (bytes == 0) continue;
    if (given.memory == nullptr)
      return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with {} bytes of rank {}", given.name, bytes, rank);
    if (!given.is_there(offset, bytes))
      return fail(UCFT_ERR_INVALID_PARAM,
                  "{} ({}, {} bytes of rank {}) is not memory that this host can {}: device memory?", given.name,
                  static_cast<const void*>(given.at(offset)), bytes, rank, given.is_written ? "write" : "read");
  }
  return UCFT_OK;
}

ucft_status_t check_own_shares(const Call& call, const Request& request) {
  const OwnShares& shares = *request.shares;
  const bool in_place = call.send == UCFT_IN_PLACE;
  const GivenMemory given{in_place ? "recv (in place)" : "send", request.send, shares.given,
                          (in_place ? call.displacements : call.send_displacements) != nullptr, false},
      wanted{"recv", request.receive, shares.wanted, call.displacements != nullptr, true};
  for (const GivenMemory& each : {given, wanted})
    if (ucft_status_t status = check_shares(each); status != UCFT_OK) return status;
  if (in_place) return UCFT_OK;
  struct Place {
    const std::byte *begin, *end;
    std::size_t rank;
    bool is_written;
  };
  std::vector<Place> places;
  for (const GivenMemory& each : {given, wanted})
    for (std::size_t rank = 0; rank < each.shares.size(); ++rank)
      if (const auto [offset, bytes] = each.shares[rank]; bytes > 0)
        places.push_back({each.at(offset), each.at(offset + bytes), rank, each.is_written});
  std::ranges::sort(places, {}, &Place::begin);
  const Place* last[2] = {nullptr, nullptr};  // that ends last: of those that are read, and written
  for (const Place& place : places) {
    const Place*& its = last[place.is_written ? 1 : 0];
    const Place* const other = last[place.is_written ? 0 : 1];
    if (other != nullptr && place.begin < other->end)
      return fail(
          UCFT_ERR_INVALID_PARAM,
          "what send has for rank {} overlaps the place of rank {} in recv: use UCFT_IN_PLACE, or disjoint memory",
          place.is_written ? other->rank : place.rank, place.is_written ? place.rank : other->rank);
    if (its == nullptr || its->end < place.end) its = &place;
  }
  return UCFT_OK;
}

// The shares follow each other in the order of ranks.
ucft_status_t read_shares(const Communicator& comm, const Call& call, Request& request) {
  if (ucft_status_t status = read_layout(comm, call, request); status != UCFT_OK) return status;
  const Reduction& reduction = request.arguments.reduction;
  if (request.arguments.count > bytes_limit / reduction.carrier_bytes())
    return fail(UCFT_ERR_INVALID_PARAM,
                "all ranks' elements together are {}: more than {} bytes; on the way an element takes {}",
                request.arguments.count, bytes_limit, reduction.carrier_bytes());
  request.share = {request.layout.offset_of(comm.rank()) / element_bytes(reduction.type()),
                   std::exchange(request.arguments.own_count, 0)};
  return UCFT_OK;
}

// Of a scatter. In place the root's share stays where it is.
ucft_status_t place_share(const Communicator& comm, const Call& call, Request& request) {
  const bool is_root = comm.rank() == call.root;
  if (!is_root && call.receive == UCFT_IN_PLACE)
    return fail(UCFT_ERR_INVALID_PARAM, "recv is UCFT_IN_PLACE, and this rank not the root ({})", call.root);
  if (is_root && call.send == UCFT_IN_PLACE)
    return fail(UCFT_ERR_INVALID_PARAM, "send is UCFT_IN_PLACE: of a scatter recv is, at the root");
  if (!is_root) request.send = nullptr;  // not looked at
  if (call.receive != UCFT_IN_PLACE) return UCFT_OK;
  request.receive = nullptr;
  request.share.count = 0;
  return UCFT_OK;
}

ucft_status_t check_blocks(const Communicator& comm, const Call& call, const Request& request) {
  const bool in_place = call.send == UCFT_IN_PLACE;
  const bool writes = is_one_of(row_of(call.kind).gets, comm.rank() == call.root);
  if (in_place && !writes)
    return fail(UCFT_ERR_INVALID_PARAM,
                "send is UCFT_IN_PLACE, and this rank not the root ({}): it has no place in recv", call.root);
  const char* input = in_place ? "recv (in place)" : "send";
  const std::uint64_t own_bytes = request.layout.bytes_of(comm.rank());
  if (own_bytes > 0 && request.send == nullptr)
    return fail(UCFT_ERR_INVALID_PARAM, "{} is null, with a block of {} bytes", input, own_bytes);
  if (own_bytes > 0 && !is_readable(request.send, own_bytes))
    return fail(UCFT_ERR_INVALID_PARAM, "{} ({}, {} bytes) is not memory that this host can read: device memory?",
                input, request.send, own_bytes);
  if (!writes) return UCFT_OK;
  const auto send = reinterpret_cast<std::uintptr_t>(request.send);
  // Looked at as a whole where there are no holes: a look costs system calls.
  const bool all_writable = call.displacements == nullptr && request.arguments.bytes() > 0 &&
                            request.receive != nullptr && is_writable(request.receive, request.arguments.bytes());
  for (std::int32_t rank = 0; rank < comm.size(); ++rank) {
    const std::uint64_t bytes = request.layout.bytes_of(rank);
    if (bytes == 0) continue;
    if (request.receive == nullptr)
      return fail(UCFT_ERR_INVALID_PARAM, "recv is null, with a block of {} bytes of rank {}", bytes, rank);
    auto* const place = static_cast<std::byte*>(request.receive) + request.layout.offset_of(rank);
    if (!all_writable && !is_writable(place, bytes))
      return fail(UCFT_ERR_INVALID_PARAM,
                  "recv ({}, {} bytes, the block of rank {}) is not memory that this host can write: device memory?",
                  static_cast<void*>(place), bytes, rank);
    const auto begin = reinterpret_cast<std::uintptr_t>(place);
    if (!in_place && own_bytes > 0 && send < begin + bytes && begin < send + own_bytes)
      return fail(UCFT_ERR_INVALID_PARAM,
                  "send overlaps the block of rank {} in recv: use UCFT_IN_PLACE, or disjoint memory", rank);
  }
  return UCFT_OK;
}

ucft_status_t fill_in(Communicator& comm, const Call& call, Request& request) {
  Arguments& arguments = request.arguments;
  Reduction& reduction = arguments.reduction;
  arguments.kind = call.kind;
  if (!is_a_type(call.dtype))
    return fail(UCFT_ERR_INVALID_PARAM, "dtype is {}: not a ucft_dtype_t", static_cast<int>(call.dtype));
  const auto type = static_cast<DataType>(call.dtype);
  reduction = {type, Operator::none};
  const CatalogueRow& row = row_of(call.kind);
  if (row.takes_operator())
    if (ucft_status_t status = read_operator(call.op, call.options, call.kind, type, reduction); status != UCFT_OK)
      return status;
  const bool has_own_shares = row.lands == Lands::share_of_each && call.counts != nullptr;
  if (has_own_shares) {
    if (ucft_status_t status = read_own_shares(comm, call, request); status != UCFT_OK) return status;
  } else if (row.has_own_lengths() && row.lands != Lands::whole) {
    if (ucft_status_t status = read_landing(comm, call, std::exchange(reduction, {type, Operator::none}), request);
        status != UCFT_OK)
      return status;
  } else if (row.has_own_lengths()) {
    if (ucft_status_t status = read_layout(comm, call, request); status != UCFT_OK) return status;
  } else if (row.has_shares()) {
    if (ucft_status_t status = read_shares(comm, call, request); status != UCFT_OK) return status;
  } else if (row.has_data()) {
    if (call.count > bytes_limit / reduction.carrier_bytes())
      return fail(UCFT_ERR_INVALID_PARAM, "count is {}: more than {} bytes; on the way an element takes {}", call.count,
                  bytes_limit, reduction.carrier_bytes());
    arguments.count = call.count;
  }
  if (arguments.rooted()) {
    if (call.root < 0 || call.root >= comm.size())
      return fail(UCFT_ERR_INVALID_PARAM, "root is {}: must be 0 .. {}", call.root, comm.size() - 1);
    arguments.root = call.root;
  }
  if (ucft_status_t status = read_options(comm, call.options, arguments); status != UCFT_OK) return status;
  if (!row.takes_operator() && call.options != nullptr)
    if (ucft_status_t status = check_reproducible(*call.options, call.kind, Operator::none, type); status != UCFT_OK)
      return status;
  request.send = call.send == UCFT_IN_PLACE || row.has_one_buffer() ? call.receive : call.send;
  request.receive = call.receive;
  if (row.has_shares() && row.from_root())
    if (ucft_status_t status = place_share(comm, call, request); status != UCFT_OK) return status;
  if (has_own_shares) return check_own_shares(call, request);
  if (!row.has_own_lengths() || row.lands != Lands::whole) return check_memory(comm, call, request);
  if (call.send == UCFT_IN_PLACE && call.receive != nullptr)  // this rank's block is in its place
    request.send = static_cast<const std::byte*>(call.receive) + request.layout.offset_of(comm.rank());
  return check_blocks(comm, call, request);
}

}  // namespace

std::array<const std::uint64_t*, 4> arrays_of(const Communicator& comm, const Call& call) {
  const bool gets = is_one_of(row_of(call.kind).gets, comm.rank() == call.root), gives = call.send != UCFT_IN_PLACE;
  return {call.counts, gets ? call.displacements : nullptr, gives ? call.send_counts : nullptr,
          gives ? call.send_displacements : nullptr};
}

bool has_same_arrays(const Call& call, const Request& request) {
  const Communicator& comm = *request.communicator;
  const auto arrays = arrays_of(comm, call), its = arrays_of(comm, request.call);
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::uint64_t* said = request.arrays.data();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if ((arrays[i] == nullptr) != (its[i] == nullptr)) return false;
    if (arrays[i] == nullptr) continue;
    if (!std::equal(said, said + ranks, arrays[i])) return false;
    said += ranks;
  }
  return true;
}

ucft_status_t refuse_two_operations() {
  return fail(
      UCFT_ERR_INVALID_PARAM,
      "options.reproducible_sweeps is 2: between hosts these are two operations, of a blocking ucft_allreduce only");
}

ucft_status_t prepare(Communicator& comm, const Call& call, Request& request) {
  request = Request{};
  CallInWords in_words{call, {}};
  if (has_accumulators(call))
    if (ucft_status_t status = put_in_words(comm, call, in_words); status != UCFT_OK) return status;
  if (ucft_status_t status = fill_in(comm, in_words.call, request); status != UCFT_OK) return status;
  request.communicator = &comm;
  request.call = call;
  for (const std::uint64_t* array : arrays_of(comm, call))
    if (array != nullptr) request.arrays.insert(request.arrays.end(), array, array + comm.size());
  if (call.options != nullptr) request.options = *call.options;
  if (request.options.quorum > 0) {
    request.quorum = std::make_unique<QuorumRequest>();
    request.quorum->quorum = static_cast<std::uint32_t>(request.options.quorum);
    request.quorum->deadline_ns = request.options.deadline_ns;
    return UCFT_OK;
  }
  comm.plan(request);
  if (has_accumulators(call)) request.shortcut.reset();  // they are looked at before, and settled afterwards
  const Reduction& reduction = request.arguments.reduction;
  request.in_two_operations = request.options.reproducible_sweeps == 2 && !reduction.sweeps_twice() && comm.size() > 1;
  if (!request.in_two_operations || call.kind == Kind::allreduce) return UCFT_OK;
  request.communicator = nullptr;
  return refuse_two_operations();
}

}  // namespace ucft::detail

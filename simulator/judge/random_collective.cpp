#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "simulator/judge/combine.hpp"
#include "simulator/judge/kinds.hpp"
#include "simulator/judge/random_calls.hpp"
#include "simulator/judge/random_checks.hpp"

namespace ucft::judge {

namespace {

template <class T>
struct Pair {
  T first, second;
};

}  // namespace

void put(void* memory, std::uint64_t place, std::uint64_t number, ucft_dtype_t dtype) {
  const auto store = [&](auto value) {
    std::memcpy(static_cast<char*>(memory) + place * sizeof value, &value, sizeof value);
  };
  switch (dtype) {
    case UCFT_FLOAT: return store(static_cast<float>(number));
    case UCFT_DOUBLE: return store(static_cast<double>(number));
    case UCFT_COMPLEX_FLOAT: return store(Pair<float>{static_cast<float>(number), static_cast<float>(number % 7)});
    case UCFT_COMPLEX_DOUBLE: return store(Pair<double>{static_cast<double>(number), static_cast<double>(number % 7)});
    case UCFT_INT32_INT32:
      return store(Pair<std::int32_t>{static_cast<std::int32_t>(number % 5), static_cast<std::int32_t>(number)});
    case UCFT_BOOL: return store(static_cast<std::uint8_t>(number % 2));
    default: break;
  }
  switch (bytes_of(dtype)) {
    case 1: return store(static_cast<std::uint8_t>(number));
    case 2: return store(static_cast<std::uint16_t>(number));
    case 4: return store(static_cast<std::uint32_t>(number));
    default: return store(number);
  }
}

namespace {

std::uint64_t sum_before(const std::vector<std::uint64_t>& counts, std::int32_t rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
}

ucft_op_t operator_for(ucft_dtype_t dtype, std::uint64_t number) {
  constexpr ucft_op_t of_reals[] = {UCFT_SUM, UCFT_SUM, UCFT_MIN, UCFT_MAX, UCFT_PROD, UCFT_AVG, UCFT_SUM_REPRODUCIBLE};
  constexpr ucft_op_t of_integers[] = {UCFT_SUM,  UCFT_SUM, UCFT_MIN,  UCFT_MAX, UCFT_PROD, UCFT_BAND,
                                       UCFT_BXOR, UCFT_BOR, UCFT_LAND, UCFT_LOR, UCFT_LXOR};
  constexpr ucft_op_t of_bool[] = {UCFT_LAND, UCFT_LOR, UCFT_LXOR, UCFT_BOR};
  switch (dtype) {
    case UCFT_FLOAT:
    case UCFT_DOUBLE: return of_reals[number % std::size(of_reals)];
    case UCFT_BOOL: return of_bool[number % std::size(of_bool)];
    case UCFT_COMPLEX_FLOAT:
    case UCFT_COMPLEX_DOUBLE: return UCFT_SUM;
    case UCFT_INT32_INT32: return number % 2 == 0 ? UCFT_MINLOC : UCFT_MAXLOC;
    default: return of_integers[number % std::size(of_integers)];
  }
}

// Of two ranks it makes what it makes of all, one after the other.
bool may_be_users(ucft_op_t op, ucft_dtype_t dtype) {
  const bool is_logical = op == UCFT_LAND || op == UCFT_LOR || op == UCFT_LXOR;
  return op != UCFT_AVG && op != UCFT_SUM_REPRODUCIBLE && (!is_logical || dtype == UCFT_BOOL);
}

// arg: an ucft_op_t. (It may be called when the request is gone.)
void combine_for_user(const void* in, void* inout, std::uint64_t count, ucft_dtype_t dtype, void* arg) {
  const std::size_t bytes = count * bytes_of(dtype);
  const auto* const one = static_cast<const std::uint8_t*>(in);
  auto* const other = static_cast<std::uint8_t*>(inout);
  const std::vector<std::uint8_t> a(one, one + bytes), b(other, other + bytes);
  const std::vector<std::uint8_t> both =
      combine({&a, &b}, dtype, static_cast<ucft_op_t>(reinterpret_cast<std::uintptr_t>(arg)));
  std::copy_n(both.data(), bytes, other);
}

}  // namespace

RandomCalls::Posted RandomCalls::prepare(const Drawn& drawn, int step, const Communicator& on, bool is_blocking) const {
  constexpr Kind kinds[] = {Kind::allreduce, Kind::allreduce,      Kind::reduce,  Kind::broadcast, Kind::allgather,
                            Kind::gather,    Kind::reduce_scatter, Kind::scatter, Kind::alltoall,  Kind::scan,
                            Kind::exscan,    Kind::barrier,        Kind::agree,   Kind::quorum};
  constexpr ucft_dtype_t types[] = {UCFT_UINT64, UCFT_DOUBLE,        UCFT_FLOAT,          UCFT_INT32,      UCFT_INT64,
                                    UCFT_INT8,   UCFT_UINT8,         UCFT_UINT16,         UCFT_INT16,      UCFT_UINT32,
                                    UCFT_BOOL,   UCFT_COMPLEX_FLOAT, UCFT_COMPLEX_DOUBLE, UCFT_INT32_INT32};
  Posted posted;
  Call& call = posted.call;
  call.kind = kinds[drawn.below(4, std::size(kinds) - (is_blocking ? 0 : 2))];
  call.communicator = on.name;
  call.rank = on.rank;
  call.size = on.size;
  const bool agrees = call.kind == Kind::agree;
  call.dtype = agrees ? UCFT_UINT64 : types[drawn.below(5, std::size(types))];
  if (combines(call.kind)) call.op = agrees ? UCFT_BAND : operator_for(call.dtype, drawn.words[6]);
  if (is_rooted(call.kind)) call.root = static_cast<std::int32_t>(drawn.below(7, static_cast<std::uint64_t>(on.size)));
  const std::uint64_t length = drawn.below(8, 100);
  posted.count = length < 4            ? 0
                 : length < 70         ? 1 + drawn.below(9, 8)
                 : length < 90         ? drawn.below(9, 300)
                 : length < long_from_ ? drawn.below(9, 3000)
                                       : drawn.below(9, longest_);
  const bool is_root = call.root == on.rank;
  posted.count += extra_;
  if (agrees) posted.count = 1;
  const bool is_quorum = call.kind == Kind::quorum;
  posted.has_function = combines(call.kind) && (is_quorum || !is_blocking) && may_be_users(call.op, call.dtype) &&
                        mixed(drawn.words[6], 0) % 4 == 0;
  if (is_quorum) call.quorum = static_cast<std::int32_t>(1 + drawn.below(7, static_cast<std::uint64_t>(on.size)));
  posted.in_place = agrees || (drawn.below(10, 3) == 0 && call.kind != Kind::broadcast && call.kind != Kind::barrier &&
                               (!is_rooted(call.kind) || is_root));
  if ((gives_shares(call.kind) || gets_blocks(call.kind)) && drawn.below(11, 3) == 0 &&
      (call.kind != Kind::alltoall || !posted.in_place))
    for (std::int32_t rank = 0; rank < on.size; ++rank)
      posted.counts.push_back(posted.count * (mixed(drawn.words[11], static_cast<std::uint64_t>(rank)) % 3));
  if (call.kind == Kind::alltoall && !posted.counts.empty())
    for (std::int32_t other = 0; other < on.size; ++other) {  // what I give to it, and get from it
      const auto me = static_cast<std::uint64_t>(on.rank), they = static_cast<std::uint64_t>(other);
      posted.send_counts.push_back(posted.count * (mixed(drawn.words[11], me * 64 + they) % 3));
      posted.counts[they] = posted.count * (mixed(drawn.words[11], they * 64 + me) % 3);
    }
  call.uniform = agrees || (!is_quorum && drawn.below(12, 12) == 0);
  call.failure_info = static_cast<ucft_failure_info_t>(drawn.below(13, 5) == 0 ? 1 + drawn.below(13, 2) : 0);
  posted.options.uniform = call.uniform;
  posted.options.quorum = call.quorum;
  posted.options.deadline_ns = is_quorum ? static_cast<std::int64_t>(drawn.below(14, 4)) * 100000 : 0;
  posted.options.failure_info = call.failure_info;
  if (!is_rooted(call.kind))
    posted.options.first_root = static_cast<std::int32_t>(drawn.below(14, static_cast<std::uint64_t>(on.size)));
  if (call.kind == Kind::broadcast) {
    posted.options.tree = static_cast<ucft_tree_t>(drawn.below(14, 8));
    posted.options.correction = static_cast<ucft_correction_t>(drawn.below(15, 5));
  }
  posted.is_lent = drawn.below(15, 6) == 0;
  posted.missing.resize(static_cast<std::size_t>(on.size));
  posted.late.resize(static_cast<std::size_t>(on.size));
  posted.result.missing = posted.missing.data();  // stays where it is, however Posted is moved
  posted.result.late = posted.late.data();
  posted.result.missing_capacity = posted.result.late_capacity = on.size;
  fill(drawn, step, posted, on);
  return posted;
}

namespace {

std::uint64_t words_of(std::uint64_t count, ucft_dtype_t dtype) { return count * bytes_of(dtype) / 8 + 2; }

}  // namespace

// Fills the memory: with the numbers that this rank gives, and with others where its result goes.
void RandomCalls::fill(const Drawn& drawn, int step, Posted& posted, const Communicator& on) const {
  Call& call = posted.call;
  const ucft_dtype_t dtype = call.dtype;
  const bool is_root = call.root == on.rank;
  const auto count_of = [&](const std::vector<std::uint64_t>& counts, std::int32_t rank) {
    return counts.empty() ? posted.count : counts[static_cast<std::size_t>(rank)];
  };
  const std::vector<std::uint64_t>& send_counts = call.kind == Kind::alltoall ? posted.send_counts : posted.counts;
  const bool gives = call.kind != Kind::barrier && (call.kind != Kind::broadcast || is_root) &&
                     (call.kind != Kind::scatter || is_root);
  std::vector<std::uint64_t> given;  // lengths
  if (gives && gives_shares(call.kind))
    for (std::int32_t rank = 0; rank < on.size; ++rank) given.push_back(count_of(send_counts, rank));
  else if (gives)
    given.push_back(gets_blocks(call.kind) ? count_of(posted.counts, on.rank) : posted.count);
  const std::uint64_t all_given = std::accumulate(given.begin(), given.end(), std::uint64_t{0});
  std::uint64_t all_got = 0;
  if (gets_blocks(call.kind))
    for (std::int32_t rank = 0; rank < on.size; ++rank) all_got += count_of(posted.counts, rank);
  else if (call.kind != Kind::barrier)
    all_got = call.kind == Kind::reduce_scatter && posted.in_place ? all_given
              : gives_shares(call.kind)                            ? count_of(posted.counts, on.rank)
                                                                   : posted.count;
  const ucft_context_h lends = posted.is_lent ? context_ : UCFT_CONTEXT_NULL;
  posted.in.fill(words_of(all_given, dtype), hole, lends);
  posted.out.fill(words_of(all_got, dtype), hole, lends);
  call.given.clear();
  for (std::uint64_t i = 0; i < all_given; ++i) {
    std::uint64_t number =
        mixed(drawn.words[15] + static_cast<std::uint64_t>(step) * 1000003 + i, static_cast<std::uint64_t>(rank_));
    number = call.op == UCFT_PROD ? 1 + number % 2 : number % 100;
    put(posted.in.data(), i, number, dtype);
  }
  const auto* const in = reinterpret_cast<const char*>(posted.in.data());
  std::uint64_t place = 0;
  for (const std::uint64_t each : given) {
    call.given.push_back(block_of(in + place * bytes_of(dtype), each, dtype));
    place += each;
  }
  // In place: the input stands where the result goes; of a scatter nothing is written at the root.
  const bool is_block = call.kind == Kind::allgather || call.kind == Kind::gather;
  if (posted.in_place && call.kind != Kind::scatter)
    std::memcpy(reinterpret_cast<char*>(posted.out.data()) +
                    (is_block ? posted.counts.empty() ? posted.count * static_cast<std::uint64_t>(on.rank)
                                                      : sum_before(posted.counts, on.rank)
                              : 0) *
                        bytes_of(dtype),
                in, all_given * bytes_of(dtype));
  if (call.kind == Kind::broadcast && is_root) std::memcpy(posted.out.data(), in, all_given * bytes_of(dtype));
  note_places(posted, call.before);
}

void RandomCalls::note_places(Posted& posted, std::vector<Block>& blocks) const {
  const Call& call = posted.call;
  const bool is_root = call.root == call.rank;
  blocks.clear();
  if (call.kind == Kind::barrier || (call.kind == Kind::scatter && posted.in_place)) return;
  if ((call.kind == Kind::reduce || call.kind == Kind::gather) && !is_root) return;
  std::vector<std::uint64_t> lengths;
  if (gets_blocks(call.kind))
    for (std::int32_t rank = 0; rank < call.size; ++rank)
      lengths.push_back(posted.counts.empty() ? posted.count : posted.counts[static_cast<std::size_t>(rank)]);
  else
    lengths.push_back(gives_shares(call.kind) && !posted.counts.empty()
                          ? posted.counts[static_cast<std::size_t>(call.rank)]
                          : posted.count);
  std::uint64_t place = 0;
  for (const std::uint64_t each : lengths) {
    blocks.push_back(
        block_of(reinterpret_cast<const char*>(posted.out.data()) + place * bytes_of(call.dtype), each, call.dtype));
    place += each;
  }
}

ucft_status_t RandomCalls::call(Posted& posted, ucft_comm_h on) const {
  const Call& c = posted.call;
  const void* const in = posted.in_place ? UCFT_IN_PLACE : posted.in.data();
  void* const out = posted.out.data();
  const std::uint64_t* const counts = posted.counts.empty() ? nullptr : posted.counts.data();
  const ucft_coll_options_t* const how = &posted.options;
  ucft_result_t* const result = &posted.result;
  switch (c.kind) {
    case Kind::allreduce: return ucft_allreduce(on, in, out, posted.count, c.dtype, c.op, how, result);
    case Kind::reduce: return ucft_reduce(on, in, out, posted.count, c.dtype, c.op, c.root, how, result);
    case Kind::broadcast: return ucft_broadcast(on, out, posted.count, c.dtype, c.root, how, result);
    case Kind::scan: return ucft_scan(on, in, out, posted.count, c.dtype, c.op, how, result);
    case Kind::exscan: return ucft_exscan(on, in, out, posted.count, c.dtype, c.op, how, result);
    case Kind::allgather:
      return counts == nullptr ? ucft_allgather(on, in, out, posted.count, c.dtype, how, result)
                               : ucft_allgatherv(on, in, out, counts, nullptr, c.dtype, how, result);
    case Kind::gather:
      return counts == nullptr ? ucft_gather(on, in, out, posted.count, c.dtype, c.root, how, result)
                               : ucft_gatherv(on, in, out, counts, nullptr, c.dtype, c.root, how, result);
    case Kind::reduce_scatter:
      return counts == nullptr ? ucft_reduce_scatter(on, in, out, posted.count, c.dtype, c.op, how, result)
                               : ucft_reduce_scatterv(on, in, out, counts, c.dtype, c.op, how, result);
    case Kind::scatter: {
      void* const to = posted.in_place ? const_cast<void*>(UCFT_IN_PLACE) : out;
      return counts == nullptr ? ucft_scatter(on, posted.in.data(), to, posted.count, c.dtype, c.root, how, result)
                               : ucft_scatterv(on, posted.in.data(), to, counts, c.dtype, c.root, how, result);
    }
    case Kind::alltoall:
      return counts == nullptr ? ucft_alltoall(on, in, out, posted.count, c.dtype, how, result)
                               : ucft_alltoallv(on, in, posted.send_counts.data(), nullptr, out, counts, nullptr,
                                                c.dtype, how, result);
    case Kind::agree: return ucft_agree(on, posted.out.data(), how, result);
    default: return ucft_barrier(on, how, result);
  }
}

ucft_status_t RandomCalls::init(Posted& posted, ucft_comm_h on) const {
  const Call& c = posted.call;
  const void* const in = posted.in_place ? UCFT_IN_PLACE : posted.in.data();
  void* const out = posted.out.data();
  const std::uint64_t* const counts = posted.counts.empty() ? nullptr : posted.counts.data();
  const ucft_coll_options_t* const how = &posted.options;
  ucft_operator_t op = UCFT_OPERATOR_INIT(posted.has_function ? UCFT_USER : c.op);
  if (posted.has_function) {
    op.function = &combine_for_user;
    op.arg = reinterpret_cast<void*>(static_cast<std::uintptr_t>(c.op));
  }
  ucft_request_h* const to = &posted.request;
  switch (c.kind) {
    case Kind::quorum:
    case Kind::allreduce: return ucft_allreduce_init(on, in, out, posted.count, c.dtype, &op, how, to);
    case Kind::reduce: return ucft_reduce_init(on, in, out, posted.count, c.dtype, &op, c.root, how, to);
    case Kind::broadcast: return ucft_broadcast_init(on, out, posted.count, c.dtype, c.root, how, to);
    case Kind::scan: return ucft_scan_init(on, in, out, posted.count, c.dtype, &op, how, to);
    case Kind::exscan: return ucft_exscan_init(on, in, out, posted.count, c.dtype, &op, how, to);
    case Kind::allgather:
      return counts == nullptr ? ucft_allgather_init(on, in, out, posted.count, c.dtype, how, to)
                               : ucft_allgatherv_init(on, in, out, counts, nullptr, c.dtype, how, to);
    case Kind::gather:
      return counts == nullptr ? ucft_gather_init(on, in, out, posted.count, c.dtype, c.root, how, to)
                               : ucft_gatherv_init(on, in, out, counts, nullptr, c.dtype, c.root, how, to);
    case Kind::reduce_scatter:
      return counts == nullptr ? ucft_reduce_scatter_init(on, in, out, posted.count, c.dtype, &op, how, to)
                               : ucft_reduce_scatterv_init(on, in, out, counts, c.dtype, &op, how, to);
    case Kind::scatter: {
      void* const own = posted.in_place ? const_cast<void*>(UCFT_IN_PLACE) : out;
      return counts == nullptr ? ucft_scatter_init(on, posted.in.data(), own, posted.count, c.dtype, c.root, how, to)
                               : ucft_scatterv_init(on, posted.in.data(), own, counts, c.dtype, c.root, how, to);
    }
    case Kind::alltoall:
      return counts == nullptr ? ucft_alltoall_init(on, in, out, posted.count, c.dtype, how, to)
                               : ucft_alltoallv_init(on, in, posted.send_counts.data(), nullptr, out, counts, nullptr,
                                                     c.dtype, how, to);
    default: return ucft_barrier_init(on, how, to);
  }
}

void RandomCalls::end(Posted& posted, ucft_status_t status) {
  Call& call = posted.call;
  call.status = status;
  call.contributors = posted.result.contributors;
  call.missing.reset();
  if (status == UCFT_OK && posted.result.missing_count >= 0)
    call.missing.emplace(posted.missing.begin(), posted.missing.begin() + posted.result.missing_count);
  call.late.assign(posted.late.begin(), posted.late.begin() + posted.result.late_count);
  call.is_late = posted.result.is_late != 0;
  note_places(posted, call.got);
  if (posted.out.back() != hole || posted.in.back() != hole)
    wrong("{} {}: written behind its memory", name_of(call.kind), posted.number);
  recorder_.has_ended(posted.number, call);
  is_out_ |= is_out(status);
}

}  // namespace ucft::judge

// Of mpi_blocks: types, operators and calls by chance, and what each call has to do, by a model: blocks that are sent
// packed, or reduced in the order of the ranks by MPI_Reduce_local.
#pragma once

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

// One program includes it.
namespace {

int rank, size, wrong = 0;
long comparisons = 0;
std::uint64_t seed = 1, cases = 0;
bool shimmed = false;        // MPI_... is not MPI's own
char now[200] = "MPI_Init";  // where this rank is

void expect(bool right, const std::string& what) {
  ++comparisons;
  if (!right && ++wrong <= 20) std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

void on_alarm(int) {
  const auto unused = write(2, now, std::strlen(now)) + write(2, ": hangs\n", 8);
  _exit(unused >= 0 ? 3 : 4);
}

// ---- chance ---------------------------------------------------------------------------------------------------------

struct Dice {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  int operator()(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
};

// The same on all ranks, however many a rank has thrown in the case before.
Dice dice_of_next_case() { return Dice{seed * 1000003 + ++cases * 7919}; }
Dice dice_of_this_rank(const Dice& dice) { return Dice{dice.state ^ (static_cast<std::uint64_t>(rank) + 1) << 40}; }

std::vector<int> in_any_order(int n, Dice& dice) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int i = n; i > 1; --i)
    std::swap(order[static_cast<std::size_t>(i) - 1], order[static_cast<std::size_t>(dice(i))]);
  return order;
}

using Bytes = std::vector<unsigned char>;

void fill(Bytes& bytes, Dice dice) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = dice.next();
    std::memcpy(&bytes[i], &word, std::min<std::size_t>(8, bytes.size() - i));
  }
}

// ---- types, operators -----------------------------------------------------------------------------------------------

const std::vector<MPI_Datatype> bases = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_LONG_DOUBLE, MPI_DOUBLE_INT};
const char* const names_of_bases[] = {"int", "double", "char", "long double", "double and int"};
constexpr int units[] = {1, 1, 3, 2, 3, 2};  // elements of the base in one of each shape
constexpr int plain = 0;

int any_shape(int elements, Dice& dice) {
  for (;;)
    if (const int shape = dice(std::size(units)); elements % units[shape] == 0) return shape;
}

MPI_Aint extent(MPI_Datatype type) {
  MPI_Aint lower = 0, bytes = 0;
  MPI_Type_get_extent(type, &lower, &bytes);
  return bytes;
}

MPI_Datatype resized(MPI_Datatype type, MPI_Aint lower, MPI_Aint bytes) {
  MPI_Datatype made;
  MPI_Type_create_resized(type, lower, bytes, &made);
  if (type != MPI_INT && std::find(bases.begin(), bases.end(), type) == bases.end()) MPI_Type_free(&type);
  return made;
}

MPI_Datatype make_type(MPI_Datatype base, int shape) {
  MPI_Datatype type = base;
  const MPI_Aint x = extent(base);
  const int lengths[] = {2, 1}, ones[] = {1, 1};
  const MPI_Aint places[] = {x, 4 * x}, backwards[] = {x, -x};
  const MPI_Datatype both[] = {base, base};
  switch (shape) {
    case 1: type = resized(base, 0, 2 * x); break;
    case 2: MPI_Type_contiguous(3, base, &type); break;
    case 3: MPI_Type_vector(2, 1, 2, base, &type); break;
    case 4: MPI_Type_create_struct(2, lengths, places, both, &type), type = resized(type, 0, 6 * x); break;
    case 5: MPI_Type_create_struct(2, ones, backwards, both, &type), type = resized(type, -x, 3 * x); break;
    default: return base;
  }
  MPI_Type_commit(&type);
  return type;
}

struct Located {
  double value;
  int place;
};

// For each element, `first` ints from its start: a sum of one int, or a product of two matrices.
template <int first, int length>
void add_or_multiply(void* in, void* inout, int* n, MPI_Datatype* type) {
  const MPI_Aint bytes = extent(*type);
  for (int i = 0; i < *n; ++i) {
    const unsigned* a = reinterpret_cast<unsigned*>(static_cast<char*>(in) + i * bytes) + first;
    unsigned* b = reinterpret_cast<unsigned*>(static_cast<char*>(inout) + i * bytes) + first;
    if constexpr (length == 1) {
      *b += *a;
    } else {
      const unsigned product[] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                                  a[2] * b[1] + a[3] * b[3]};
      std::memcpy(b, product, sizeof product);
    }
  }
}

enum Numbers { int_sum, int_max, double_sum, double_max, long_sum, long_max, char_max, minloc, user, gap, matrix, far };
const char* const names_of_numbers[] = {
    "int sum",  "int max", "double sum", "double max",     "long double sum",  "long double max",
    "char max", "minloc",  "function",   "function, gaps", "does not commute", "does not commute, gaps"};

MPI_Datatype type_of(int numbers) {
  MPI_Datatype type = MPI_INT;
  switch (numbers) {
    case double_sum:
    case double_max: return MPI_DOUBLE;
    case long_sum:
    case long_max: return MPI_LONG_DOUBLE;
    case char_max: return MPI_SIGNED_CHAR;
    case minloc: return MPI_DOUBLE_INT;
    case gap: type = resized(MPI_INT, 0, 8); break;
    case matrix: MPI_Type_contiguous(4, MPI_INT, &type); break;
    case far: {
      const int length = 4;
      const MPI_Aint place = 8;
      MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &type);
      type = resized(type, 0, 32);
    } break;
    default: return MPI_INT;
  }
  MPI_Type_commit(&type);
  return type;
}

MPI_Op operator_of(int numbers) {
  MPI_Op op = MPI_SUM;
  switch (numbers) {
    case int_sum:
    case double_sum:
    case long_sum: return MPI_SUM;
    case minloc: return MPI_MINLOC;
    case user:
    case gap: MPI_Op_create(add_or_multiply<0, 1>, 1, &op); return op;
    case matrix: MPI_Op_create(add_or_multiply<0, 4>, 0, &op); return op;
    case far: MPI_Op_create(add_or_multiply<2, 4>, 0, &op); return op;
    default: return MPI_MAX;
  }
}

// Sums are exact in any order.
void put_number(unsigned char* at, int numbers, Dice& dice) {
  const auto put = [at](const auto& value) { std::memcpy(at, &value, sizeof value); };
  switch (numbers) {
    case double_sum:
    case double_max: return put(static_cast<double>(dice(1000) - 500));
    case long_sum:
    case long_max: return put(static_cast<long double>(dice(1000) - 500));
    case minloc: put(static_cast<double>(dice(4))), std::memcpy(at + offsetof(Located, place), &rank, 4); return;
    case int_sum:
    case int_max: return put(dice(1000) - 500);
    default: return;  // any bytes
  }
}

// ---- calls ----------------------------------------------------------------------------------------------------------

#define ALL_FUNCTIONS(F)                                                  \
  F(gather, Gather, s, *sc, *st, r, *rc, *rt, root, comm)                 \
  F(gatherv, Gatherv, s, *sc, *st, r, rc, rp, *rt, root, comm)            \
  F(scatter, Scatter, s, *sc, *st, r, *rc, *rt, root, comm)               \
  F(scatterv, Scatterv, s, sc, sp, *st, r, *rc, *rt, root, comm)          \
  F(alltoall, Alltoall, s, *sc, *st, r, *rc, *rt, comm)                   \
  F(alltoallv, Alltoallv, s, sc, sp, *st, r, rc, rp, *rt, comm)           \
  F(alltoallw, Alltoallw, s, sc, sp, st, r, rc, rp, rt, comm)             \
  F(allgather, Allgather, s, *sc, *st, r, *rc, *rt, comm)                 \
  F(allgatherv, Allgatherv, s, *sc, *st, r, rc, rp, *rt, comm)            \
  F(bcast, Bcast, r, *rc, *rt, root, comm)                                \
  F(reduce, Reduce, s, r, *rc, *rt, op, root, comm)                       \
  F(allreduce, Allreduce, s, r, *rc, *rt, op, comm)                       \
  F(reduce_scatter, Reduce_scatter, s, r, rc, *rt, op, comm)              \
  F(reduce_scatter_block, Reduce_scatter_block, s, r, *rc, *rt, op, comm) \
  F(scan, Scan, s, r, *rc, *rt, op, comm)                                 \
  F(exscan, Exscan, s, r, *rc, *rt, op, comm)                             \
  F(barrier, Barrier, comm)
#define KIND(name, ...) name,
#define NAME(name, Name, ...) #Name,
#define BLOCKING(name, Name, ...) \
  case name:                      \
    MPI_##Name(__VA_ARGS__);      \
    break;
#define OF_MPI(name, Name, ...) \
  case name:                    \
    PMPI_##Name(__VA_ARGS__);   \
    break;
#define NONBLOCKING(name, Name, ...) \
  case name: MPI_I##name(__VA_ARGS__, request); break;

enum Kind { ALL_FUNCTIONS(KIND) kinds };
const char* const names[] = {ALL_FUNCTIONS(NAME)};

bool is_rooted(Kind kind) { return kind <= scatterv || kind == bcast || kind == reduce; }
bool scatters(Kind kind) { return kind == scatter || kind == scatterv; }
bool exchanges(Kind kind) { return kind == alltoall || kind == alltoallv || kind == alltoallw; }
bool reduces(Kind kind) { return kind >= reduce && kind <= exscan; }

struct Communicator {
  MPI_Comm comm;
  const char* name;
  int n = 0, me = 0;
  Communicator(MPI_Comm c, const char* called) : comm(c), name(called) {
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
  }
};

enum Size { none, one, some, many };
enum class Way { blocking, of_mpi, nonblocking };
enum class Placing { in_sequence, by_chance, in_bytes };
constexpr std::size_t margin = 256;  // nobody may write there
const std::vector<int> nonsense(64, -1);
const std::vector<MPI_Datatype> no_types(64, MPI_DATATYPE_NULL);

// The blocks that a rank sends, or receives: block i is elements[i] of the base.
struct Blocks {
  std::vector<int> counts, places, shapes;
  std::vector<MPI_Datatype> types;  // one, or one for each block
  bool in_bytes = false;
  Bytes memory, before;

  MPI_Datatype type(std::size_t i) const { return types[types.size() == 1 ? 0 : i]; }
  MPI_Aint place(std::size_t i) const {
    return static_cast<MPI_Aint>(margin) + places[i] * (in_bytes ? 1 : extent(types[0]));
  }

  void lay_out(const std::vector<int>& elements, MPI_Datatype base, Placing placing, bool may_overlap, Dice& dice) {
    const std::size_t n = elements.size();
    in_bytes = placing == Placing::in_bytes;
    if (!in_bytes) shapes.resize(1);
    for (int shape : shapes) types.push_back(make_type(base, shape));
    counts.resize(n), places.resize(n);
    std::vector<int> order = in_any_order(static_cast<int>(n), dice);
    if (placing == Placing::in_sequence) std::sort(order.begin(), order.end());
    MPI_Aint at = 0, end = 0;  // in bytes
    for (int block : order) {
      const auto i = static_cast<std::size_t>(block);
      const MPI_Aint bytes = extent(type(i)), unit = in_bytes ? 1 : bytes;
      counts[i] = elements[i] / units[shapes[types.size() == 1 ? 0 : i]];
      if (placing != Placing::in_sequence)
        at = (may_overlap ? 0 : at) + (in_bytes ? (1 + dice(3)) * extent(base) : dice(3) * bytes);
      places[i] = static_cast<int>(at / unit);
      at += counts[i] * bytes;
      end = std::max(end, at);
    }
    memory.resize(2 * margin + static_cast<std::size_t>(end));
  }
};

class Call {
 public:
  Call(Kind which, const Communicator& on, Size how_many, int of_root, bool in_place, Dice dice)
      : kind_(which), on_(on), size_(how_many), root_(of_root), careless_(dice(3) == 0), in_place_(in_place) {
    if (kind_ == bcast || kind_ == barrier) in_place_ = false;
    if (reduces(kind_)) {
      prepare_reduction(dice);
    } else {
      prepare_blocks(dice);
    }
    at_root_in_place_ = in_place_ && is_rooted(kind_);
    if (on_.me != root_ && at_root_in_place_) in_place_ = false;
    send_.before = send_.memory;
    recv_.before = expected_ = recv_.memory;
    if (reduces(kind_)) {
      reduce_here();
    } else if (kind_ != barrier) {
      exchange();
    }
    do_it(Way::of_mpi, nullptr);
  }
  ~Call() { forget(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void call() { do_it(Way::blocking, nullptr); }
  void begin(MPI_Request* request) { do_it(Way::nonblocking, request); }

  // Frees types and operators, also before a nonblocking call has completed. MPI may still read the arrays of types.
  void forget() {
    for (const Blocks* blocks : {&send_, &recv_})
      for (MPI_Datatype type : blocks->types) {
        int n_numbers = 0, n_addresses = 0, n_types = 0, combiner = MPI_COMBINER_NAMED;
        if (!forgotten_) MPI_Type_get_envelope(type, &n_numbers, &n_addresses, &n_types, &combiner);
        if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&type);
      }
    if (!forgotten_ && numbers_ >= user) MPI_Op_free(&op_);
    forgotten_ = true;
  }

  void check(const char* way) {
    if (!done_) return;
    for (Bytes* bytes : {&recv_.memory, &expected_})
      for (auto [from, length] : undefined_) std::memset(bytes->data() + from, 0, length);
    if (send_.memory != send_.before) complain(way, "has written into its send buffer", send_.memory, send_.before);
    if (recv_.memory != expected_) complain(way, "is wrong", recv_.memory, expected_);
    ++comparisons;
    recv_.memory = recv_.before;
  }

 private:
  std::string described(const char* way) const {
    return std::string(way) + " MPI_" + names[kind_] + " on " + on_.name + ", root " + std::to_string(root_) +
           (in_place_ ? ", in place, " : ", ") + numbers_name_ + ", size " + std::to_string(size_) + ", counts" +
           listed(send_.counts) + " ->" + listed(recv_.counts) + ", shapes" + listed(send_.shapes) + " ->" +
           listed(recv_.shapes);
  }
  static std::string listed(const std::vector<int>& all) {
    std::string list;
    for (int each : all) list += ' ' + std::to_string(each);
    return list;
  }
  void complain(const char* way, const char* what, const Bytes& a, const Bytes& b) const {
    const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    expect(false, described(way) + ": " + what + " at byte " + std::to_string(at - static_cast<long>(margin)));
  }

  int elements(bool vary, Dice& dice) const {
    switch (size_) {
      case none: return 0;
      case one: return vary ? dice(2) : 1;
      case some: return vary ? 6 * dice(30) * (dice(4) > 0) : 6 * (1 + dice(30));
      default: return vary && dice(2) == 0 ? 6 * dice(4) : 6 * (3300 + dice(60));
    }
  }

  // Not what MPI itself gets wrong, or hangs in: Open MPI 4.1.4 or MPICH 4.0.2.
  bool mpi_can(Way way) const {
    if (on_.n == 1 && (kind_ == alltoallw || kind_ == allgatherv)) return false;  // wrong places
    if (in_place_ && exchanges(kind_)) return false;                              // MPICH: "Message truncated"
    if (mixed_ && (size_ == many || kind_ == allgatherv)) return false;
    if ((kind_ == scatter || kind_ == gather) && size_ == many) return false;
    if (kind_ == reduce && at_root_in_place_) return false;
    if (way == Way::nonblocking && (mixed_ || exchanges(kind_))) return false;
    if (kind_ == reduce_scatter && in_place_ && size_ >= some) return false;
    return numbers_ != far || kind_ < reduce_scatter || kind_ > exscan;
  }

  void prepare_blocks(Dice dice) {
    const auto n = static_cast<std::size_t>(on_.n), me = static_cast<std::size_t>(on_.me);
    const bool vary =
        kind_ == gatherv || kind_ == scatterv || kind_ == allgatherv || kind_ == alltoallv || kind_ == alltoallw;
    const int base = dice(static_cast<int>(bases.size())), same = elements(false, dice);
    numbers_name_ = names_of_bases[base];
    std::vector<int> all(n * n);  // from each rank to each
    for (int& each : all) each = vary ? elements(true, dice) : same;
    std::vector<int> out(n), in(n), shapes_out(n * n), shapes_in(n * n);
    mixed_ = dice(3) > 0;
    const int of_all = any_shape(size_ == one ? 1 : 6, dice);
    for (std::vector<int>* shapes : {&shapes_out, &shapes_in})
      for (int& shape : *shapes) shape = mixed_ ? any_shape(size_ == one ? 1 : 6, dice) : of_all;
    for (std::size_t i = 0; i < n; ++i) {
      const bool turned = in_place_ && exchanges(kind_) && i < me;
      out[i] = exchanges(kind_) ? all[me * n + i] : all[i];
      in[i] = !exchanges(kind_) ? all[i] : turned || !in_place_ ? all[i * n + me] : all[me * n + i];
    }
    const bool one_out = !exchanges(kind_) && !scatters(kind_), one_in = scatters(kind_) || kind_ == bcast;
    if (one_out) out = {all[me]};
    if (one_in) in = {all[me]};
    Dice mine = dice_of_this_rank(dice);
    const auto from = static_cast<long>(me * n), to = from + static_cast<long>(n);
    send_.shapes.assign(shapes_out.begin() + from, shapes_out.begin() + to);
    recv_.shapes.assign(shapes_in.begin() + from, shapes_in.begin() + to);
    const Placing by = kind_ == alltoallw ? Placing::in_bytes : vary ? Placing::by_chance : Placing::in_sequence;
    send_.lay_out(out, bases[static_cast<std::size_t>(base)], one_out ? Placing::in_sequence : by, mine(4) == 0, mine);
    recv_.lay_out(in, bases[static_cast<std::size_t>(base)], one_in ? Placing::in_sequence : by, false, mine);
    fill(send_.memory, Dice{mine.next()});
    fill(recv_.memory, Dice{mine.next()});
    // Bytes inside a predefined type that are no part of its value may be copied, or be anything.
    const MPI_Datatype of_base = bases[static_cast<std::size_t>(base)];
    const std::size_t end_of_value = of_base == MPI_LONG_DOUBLE ? 10 : of_base == MPI_DOUBLE_INT ? 12 : 16;
    for (std::size_t i = 0; end_of_value < 16 && i < recv_.memory.size(); i += 16)
      undefined_.push_back({i + end_of_value, 16 - end_of_value});
  }

  void prepare_reduction(Dice dice) {
    const auto n = static_cast<std::size_t>(on_.n);
    numbers_ = dice(far + 1);
    numbers_name_ = names_of_numbers[numbers_];
    op_ = operator_of(numbers_);
    recv_.types = {type_of(numbers_)};
    const bool scattered = kind_ == reduce_scatter || kind_ == reduce_scatter_block;
    recv_.counts.assign(scattered ? n : 1, elements(false, dice) + (size_ > one ? dice(6) : 0));
    if (kind_ == reduce_scatter)
      for (int& count : recv_.counts) count = elements(true, dice);
    const int total = std::accumulate(recv_.counts.begin(), recv_.counts.end(), 0);
    const auto x = static_cast<std::size_t>(extent(recv_.types[0]));
    Dice mine = dice_of_this_rank(dice);
    for (Blocks* blocks : {&send_, &recv_}) {
      blocks->memory.resize(2 * margin + static_cast<std::size_t>(total) * x);
      fill(blocks->memory, Dice{mine.next()});
      for (int i = 0; i < total; ++i)
        put_number(&blocks->memory[margin + static_cast<std::size_t>(i) * x], numbers_, mine);
    }
    const bool long_doubles = numbers_ == long_sum || numbers_ == long_max;
    for (std::size_t i = 0; (long_doubles || numbers_ == minloc) && i < static_cast<std::size_t>(total); ++i)
      undefined_.push_back({margin + i * x + (long_doubles ? 10u : 12u), long_doubles ? 6u : 4u});
    if (kind_ == exscan && on_.me == 0) undefined_.push_back({margin, static_cast<std::size_t>(total) * x});
    if (scattered && in_place_) {
      const auto of_me = static_cast<std::size_t>(recv_.counts[static_cast<std::size_t>(on_.me)]);
      undefined_.push_back({margin + of_me * x, (static_cast<std::size_t>(total) - of_me) * x});
    }
  }

  // Makes the memory that a call must leave, by messages of packed blocks.
  void exchange() {
    const bool to_root = kind_ == gather || kind_ == gatherv, of_root = scatters(kind_) || kind_ == bcast;
    const Blocks& from = kind_ == bcast || (in_place_ && !of_root) ? recv_ : send_;
    const auto n = static_cast<std::size_t>(on_.n), me = static_cast<std::size_t>(on_.me);
    std::vector<Bytes> out(n), in(n);
    std::vector<MPI_Request> requests;
    const auto packed_size = [&](const Blocks& blocks, std::size_t block) {
      int bytes = 0;
      MPI_Pack_size(blocks.counts[block], blocks.type(block), on_.comm, &bytes);
      return bytes;
    };
    const auto comes_to = [&](std::size_t i) { return of_root || kind_ == bcast ? 0 : i; };
    for (std::size_t i = 0; i < n; ++i) {
      const int peer = static_cast<int>(i);
      if (to_root ? on_.me == root_ : of_root ? peer == root_ : true) {
        in[i].resize(static_cast<std::size_t>(packed_size(recv_, comes_to(i))));
        PMPI_Irecv(in[i].data(), static_cast<int>(in[i].size()), MPI_PACKED, peer, 77, on_.comm,
                   &requests.emplace_back());
      }
      if (to_root ? peer == root_ : of_root ? on_.me == root_ : true) {
        const std::size_t block = exchanges(kind_) || scatters(kind_) ? i : &from == &recv_ && kind_ != bcast ? me : 0;
        out[i].resize(static_cast<std::size_t>(packed_size(from, block)));
        int position = 0;
        if (from.counts[block] > 0)
          MPI_Pack(from.memory.data() + from.place(block), from.counts[block], from.type(block), out[i].data(),
                   static_cast<int>(out[i].size()), &position, on_.comm);
        PMPI_Isend(out[i].data(), position, MPI_PACKED, peer, 77, on_.comm, &requests.emplace_back());
      }
    }
    PMPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; i < n; ++i)
      if (int position = 0; recv_.counts[comes_to(i)] > 0 && !in[i].empty() && !(in_place_ && scatters(kind_)))
        MPI_Unpack(in[i].data(), static_cast<int>(in[i].size()), &position, expected_.data() + recv_.place(comes_to(i)),
                   recv_.counts[comes_to(i)], recv_.type(comes_to(i)), on_.comm);
  }

  // The same of a reduction: one rank after the other.
  void reduce_here() {
    const Bytes& mine = in_place_ ? recv_.memory : send_.memory;
    const auto n = static_cast<std::size_t>(on_.n), me = static_cast<std::size_t>(on_.me), bytes = mine.size();
    Bytes all(n * bytes);
    PMPI_Allgather(mine.data(), static_cast<int>(bytes), MPI_BYTE, all.data(), static_cast<int>(bytes), MPI_BYTE,
                   on_.comm);
    const bool scattered = kind_ == reduce_scatter || kind_ == reduce_scatter_block;
    const std::size_t ranks = kind_ == scan ? me + 1 : kind_ == exscan ? me : n;
    if (ranks == 0 || (kind_ == reduce && on_.me != root_)) return;
    const MPI_Datatype type = recv_.types[0];
    const auto x = static_cast<std::size_t>(extent(type)), total = (bytes - 2 * margin) / x;
    for (std::size_t r = ranks - 1; r-- > 0;)
      MPI_Reduce_local(&all[r * bytes + margin], &all[(ranks - 1) * bytes + margin], static_cast<int>(total), type,
                       op_);
    std::size_t first = 0, count = total;
    if (scattered) {
      first = static_cast<std::size_t>(std::accumulate(recv_.counts.begin(), recv_.counts.begin() + on_.me, 0));
      count = static_cast<std::size_t>(recv_.counts[me]);
    }
    PMPI_Sendrecv(&all[(ranks - 1) * bytes + margin + first * x], static_cast<int>(count), type, 0, 77,
                  expected_.data() + margin, static_cast<int>(count), type, 0, 77, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  }

  void do_it(Way way, MPI_Request* request) {
    done_ = mpi_can(way) || (way != Way::of_mpi && shimmed && on_.comm != MPI_COMM_SELF);
    if (!done_) return;
    std::snprintf(now, sizeof now, "rank %d: case %d: %s", rank, static_cast<int>(cases),
                  described(way == Way::of_mpi     ? "MPI's"
                            : way == Way::blocking ? "blocking"
                                                   : "nonblocking")
                      .c_str());
    const int root = root_;
    const MPI_Comm comm = on_.comm;
    const MPI_Op op = op_;
    void *s = send_.memory.data() + margin, *r = recv_.memory.data() + margin;
    const int *sc = send_.counts.data(), *sp = send_.places.data(), *rc = recv_.counts.data(),
              *rp = recv_.places.data();
    const MPI_Datatype *st = send_.types.data(), *rt = recv_.types.data();
    if (in_place_) (scatters(kind_) ? r : s) = MPI_IN_PLACE;
    // What MPI ignores may be anything.
    const bool elsewhere = is_rooted(kind_) && on_.me != root_ && kind_ != bcast;
    if (careless_ && (scatters(kind_) ? elsewhere : in_place_)) {
      sc = sp = nonsense.data(), st = no_types.data();
      if (elsewhere) s = nullptr;
    }
    if (careless_ && kind_ != reduce && (scatters(kind_) ? in_place_ : elsewhere)) {
      rc = rp = nonsense.data(), rt = no_types.data();
      if (elsewhere) r = nullptr;
    }
    switch (way) {
      case Way::blocking:
        switch (kind_) { ALL_FUNCTIONS(BLOCKING) default : break; }
        break;
      case Way::of_mpi:
        switch (kind_) { ALL_FUNCTIONS(OF_MPI) default : break; }
        check("MPI's");
        break;
      case Way::nonblocking:
        switch (kind_) { ALL_FUNCTIONS(NONBLOCKING) default : break; }
    }
  }

  const Kind kind_;
  const Communicator on_;
  const Size size_;
  const int root_;
  const bool careless_;
  bool in_place_, at_root_in_place_ = false, forgotten_ = false, mixed_ = false, done_ = false;
  int numbers_ = -1;
  const char* numbers_name_ = "";
  MPI_Op op_ = MPI_OP_NULL;
  Blocks send_, recv_;
  Bytes expected_;
  struct Range {
    std::size_t from, length;
  };
  std::vector<Range> undefined_;  // by MPI
};

Kind any_kind(Dice& dice) { return static_cast<Kind>(dice(kinds)); }

}  // namespace

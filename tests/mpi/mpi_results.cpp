// Compares the shim's result of each call with MPI's, MPI_... beside PMPI_... in one process: every type with every
// operator that MPI allows on it, users' functions, derived types, in place, counts of 0, new communicators. At the end
// it prints how many calls of each function there were, to be compared with the shim's own counts.
#include <mpi.h>

#include <array>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

int rank, size, wrong = 0, allreduces = 0, reduces = 0;

void expect(bool right, const char* what, const char* type) {
  if (right) return;
  ++wrong;
  std::fprintf(stderr, "rank %d: %s of %s differs from MPI's\n", rank, what, type);
}

struct Named {
  MPI_Op op;
  const char* name;
};
const std::vector<Named> arithmetic = {{MPI_SUM, "sum"}, {MPI_PROD, "product"}, {MPI_MIN, "min"}, {MPI_MAX, "max"}};
const std::vector<Named> of_complex = {{MPI_SUM, "sum"}, {MPI_PROD, "product"}};
const std::vector<Named> logical = {{MPI_LAND, "and"}, {MPI_LOR, "or"}, {MPI_LXOR, "xor"}};
const std::vector<Named> bitwise = {{MPI_BAND, "bits and"}, {MPI_BOR, "bits or"}, {MPI_BXOR, "bits xor"}};
const std::vector<Named> located = {{MPI_MINLOC, "minloc"}, {MPI_MAXLOC, "maxloc"}};

std::vector<Named> both(std::vector<Named> a, const std::vector<Named>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
const std::vector<Named> of_integers = both(arithmetic, both(logical, bitwise));

template <class Number>
struct Pair {
  Number value;
  int place;
  bool operator==(const Pair&) const = default;
};

template <class T>
T element(int i) {
  return static_cast<T>((rank + 2 * i) % 3 + (i % 5 == 0));
}
template <>
bool element<bool>(int i) {
  return (rank + i) % 3 != 0;
}
template <class T>
requires requires(T t) { t.place; }
T element(int i) {
  T t;
  std::memset(static_cast<void*>(&t), 0x5a, sizeof t);  // its gap, too
  t.value = static_cast<decltype(t.value)>((rank * 7 + i) % 5);
  t.place = rank;
  return t;
}

template <class T>
void compare(MPI_Datatype type, MPI_Op op, const char* name, const char* type_name, MPI_Comm comm) {
  if (type == MPI_DATATYPE_NULL) return;
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  int n_ranks = 0, my_rank = 0;
  MPI_Comm_size(comm, &n_ranks);
  MPI_Comm_rank(comm, &my_rank);
  for (int n : {0, 1, 7, 1000}) {
    const auto places = static_cast<std::size_t>(n) + 1;  // one more, which nobody may write
    std::vector<std::array<unsigned char, sizeof(T)>> a(places), b(places), in(places);
    for (int i = 0; i < n; ++i) {
      const T t = element<T>(i);
      std::memcpy(&in[static_cast<std::size_t>(i)], &t, sizeof t);
    }
    const auto same = [&] {
      for (std::size_t i = 0; i < places; ++i) {
        T x, y;
        std::memcpy(static_cast<void*>(&x), &a[i], sizeof x);
        std::memcpy(static_cast<void*>(&y), &b[i], sizeof y);
        if (!(x == y)) return false;
      }
      return true;
    };
    for (int in_place : {0, 1}) {
      a = b = in_place != 0 ? in : decltype(in)(places);
      MPI_Allreduce(in_place != 0 ? MPI_IN_PLACE : in.data(), a.data(), n, type, op, comm);
      PMPI_Allreduce(in_place != 0 ? MPI_IN_PLACE : in.data(), b.data(), n, type, op, comm);
      expect(same(), name, type_name);
      ++allreduces;
      const int root = n % n_ranks;
      const bool at_root_in_place = in_place != 0 && my_rank == root;
      a = at_root_in_place ? in : decltype(in)(places);
      void* nowhere = reinterpret_cast<void*>(16);
      MPI_Reduce(at_root_in_place ? MPI_IN_PLACE : in.data(), my_rank == root ? a.data() : nowhere, n, type, op, root,
                 comm);
      expect(my_rank != root || same(), name, type_name);  // as MPI's allreduce: MPICH 4.0's reduce in place crashes
      ++reduces;
    }
  }
}

template <class T>
void compare_all(MPI_Datatype type, const char* type_name, const std::vector<Named>& operators) {
  for (const Named& each : operators) compare<T>(type, each.op, each.name, type_name, MPI_COMM_WORLD);
}
#define COMPARE(T, type, operators) compare_all<T>(type, #type, operators)

void compare_types() {
  COMPARE(signed char, MPI_SIGNED_CHAR, of_integers);
  COMPARE(unsigned char, MPI_UNSIGNED_CHAR, of_integers);
  COMPARE(short, MPI_SHORT, of_integers);
  COMPARE(unsigned short, MPI_UNSIGNED_SHORT, of_integers);
  COMPARE(int, MPI_INT, of_integers);
  COMPARE(unsigned, MPI_UNSIGNED, of_integers);
  COMPARE(long, MPI_LONG, of_integers);
  COMPARE(unsigned long, MPI_UNSIGNED_LONG, of_integers);
  COMPARE(long long, MPI_LONG_LONG, of_integers);
  COMPARE(unsigned long long, MPI_UNSIGNED_LONG_LONG, of_integers);
  COMPARE(std::int8_t, MPI_INT8_T, of_integers);
  COMPARE(std::int16_t, MPI_INT16_T, of_integers);
  COMPARE(std::int32_t, MPI_INT32_T, of_integers);
  COMPARE(std::int64_t, MPI_INT64_T, of_integers);
  COMPARE(std::uint8_t, MPI_UINT8_T, of_integers);
  COMPARE(std::uint16_t, MPI_UINT16_T, of_integers);
  COMPARE(std::uint32_t, MPI_UINT32_T, of_integers);
  COMPARE(std::uint64_t, MPI_UINT64_T, of_integers);
  COMPARE(MPI_Aint, MPI_AINT, arithmetic);
  COMPARE(MPI_Offset, MPI_OFFSET, arithmetic);
  COMPARE(MPI_Count, MPI_COUNT, arithmetic);
  COMPARE(int, MPI_INTEGER, arithmetic);
  COMPARE(unsigned char, MPI_BYTE, bitwise);
  COMPARE(bool, MPI_C_BOOL, logical);
  COMPARE(float, MPI_FLOAT, arithmetic);
  COMPARE(double, MPI_DOUBLE, arithmetic);
  COMPARE(float, MPI_REAL, arithmetic);
  COMPARE(double, MPI_DOUBLE_PRECISION, arithmetic);
  COMPARE(long double, MPI_LONG_DOUBLE, arithmetic);
  COMPARE(std::complex<float>, MPI_C_FLOAT_COMPLEX, of_complex);
  COMPARE(std::complex<double>, MPI_C_DOUBLE_COMPLEX, of_complex);
  COMPARE(std::complex<double>, MPI_DOUBLE_COMPLEX, of_complex);
  COMPARE(Pair<float>, MPI_FLOAT_INT, located);
  COMPARE(Pair<double>, MPI_DOUBLE_INT, located);
  COMPARE(Pair<int>, MPI_2INT, located);
  COMPARE(Pair<long>, MPI_LONG_INT, located);
  COMPARE(Pair<short>, MPI_SHORT_INT, located);
  COMPARE(Pair<long double>, MPI_LONG_DOUBLE_INT, located);
}

// ---- users' functions -----------------------------------------------------------------------------------------------

void add_ints(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

// a x + b, one after the other: the order matters.
struct Affine {
  long a, b;
  bool operator==(const Affine&) const = default;
};
void compose(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n; ++i) {
    const Affine f = static_cast<Affine*>(in)[i], g = static_cast<Affine*>(inout)[i];
    static_cast<Affine*>(inout)[i] = {f.a * g.a, f.a * g.b + f.b};
  }
}
template <>
Affine element<Affine>(int i) {
  return {rank + 2, i - rank};
}

struct Gap {
  int value;
  int gap;
  bool operator==(const Gap& other) const { return value == other.value; }
};
void add_gaps(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n; ++i) static_cast<Gap*>(inout)[i].value += static_cast<Gap*>(in)[i].value;
}
template <>
Gap element<Gap>(int i) {
  return {rank + i, -1};
}

void compare_functions() {
  MPI_Op sum, then, gaps;
  MPI_Op_create(add_ints, 1, &sum);
  MPI_Op_create(compose, 0, &then);
  MPI_Op_create(add_gaps, 1, &gaps);
  MPI_Datatype affine, gap, with_gap;
  MPI_Type_contiguous(2, MPI_LONG, &affine);
  MPI_Type_contiguous(1, MPI_INT, &gap);
  MPI_Type_create_resized(gap, 0, sizeof(Gap), &with_gap);
  MPI_Type_commit(&affine);
  MPI_Type_commit(&with_gap);
  compare<int>(MPI_INT, sum, "a function", "MPI_INT", MPI_COMM_WORLD);
  compare<Affine>(affine, then, "a function that does not commute", "a derived type", MPI_COMM_WORLD);
  compare<Gap>(with_gap, gaps, "a function", "a type with gaps", MPI_COMM_WORLD);
  for (MPI_Datatype* type : {&affine, &gap, &with_gap}) MPI_Type_free(type);
  for (MPI_Op* op : {&sum, &then, &gaps}) MPI_Op_free(op);
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

// The root describes the column of a matrix, the others a row: one message, two types.
void compare_broadcasts() {
  MPI_Datatype column;
  MPI_Type_vector(4, 1, 4, MPI_INT, &column);
  MPI_Type_commit(&column);
  for (int root = 0; root < size; ++root) {
    std::array<int, 16> a{}, b{};
    for (std::size_t i = 0; i < 16 && rank == root; ++i) a[i] = b[i] = static_cast<int>(i) + root;
    if (rank == root) {
      MPI_Bcast(a.data(), 1, column, root, MPI_COMM_WORLD), PMPI_Bcast(b.data(), 1, column, root, MPI_COMM_WORLD);
    } else {
      MPI_Bcast(a.data(), 4, MPI_INT, root, MPI_COMM_WORLD), PMPI_Bcast(b.data(), 4, MPI_INT, root, MPI_COMM_WORLD);
    }
    expect(a == b, "broadcast", "a column");
    std::array<Pair<double>, 3> x;
    x.fill({root + rank + 0.5, rank});
    auto y = x;
    MPI_Bcast(x.data(), 3, MPI_DOUBLE_INT, root, MPI_COMM_WORLD);
    PMPI_Bcast(y.data(), 3, MPI_DOUBLE_INT, root, MPI_COMM_WORLD);
    expect(x == y, "broadcast", "MPI_DOUBLE_INT");
    MPI_Bcast(nullptr, 0, MPI_CHAR, root, MPI_COMM_WORLD);
  }
  MPI_Type_free(&column);
}

void compare_allgathers() {
  const auto n = static_cast<std::size_t>(size);
  MPI_Datatype spread;  // an int, and one that is left alone
  MPI_Type_create_resized(MPI_INT, 0, 8, &spread);
  MPI_Type_commit(&spread);
  const std::vector<int> mine = {rank, 10 * rank, 100 * rank, 7};
  for (bool in_place : {false, true}) {
    std::vector<int> a(4 * n + 8, -1), b;
    if (in_place) a[3 * static_cast<std::size_t>(rank)] = a[3 * static_cast<std::size_t>(rank) + 2] = rank;
    b = a;
    MPI_Allgather(in_place ? MPI_IN_PLACE : mine.data(), 3, MPI_INT, a.data(), 3, MPI_INT, MPI_COMM_WORLD);
    PMPI_Allgather(in_place ? MPI_IN_PLACE : mine.data(), 3, MPI_INT, b.data(), 3, MPI_INT, MPI_COMM_WORLD);
    expect(a == b, "allgather", "MPI_INT");
    MPI_Allgather(in_place ? MPI_IN_PLACE : mine.data(), 2, MPI_INT, a.data(), 2, spread, MPI_COMM_WORLD);
    PMPI_Allgather(in_place ? MPI_IN_PLACE : mine.data(), 2, MPI_INT, b.data(), 2, spread, MPI_COMM_WORLD);
    expect(a == b, "allgather", "a type with gaps");
    std::vector<int> counts(n), places(n);
    for (int r = 0; r < size; ++r) {
      counts[static_cast<std::size_t>(r)] = r % 3;
      places[static_cast<std::size_t>(r)] = 2 * (size - 1 - r);
    }
    for (MPI_Datatype type : {MPI_INT, spread}) {
      MPI_Allgatherv(in_place ? MPI_IN_PLACE : mine.data(), rank % 3, MPI_INT, a.data(), counts.data(), places.data(),
                     type, MPI_COMM_WORLD);
      PMPI_Allgatherv(in_place ? MPI_IN_PLACE : mine.data(), rank % 3, MPI_INT, b.data(), counts.data(), places.data(),
                      type, MPI_COMM_WORLD);
      expect(a == b, "allgatherv", type == MPI_INT ? "MPI_INT" : "a type with gaps");
    }
    MPI_Allgather(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, MPI_COMM_WORLD);
  }
  MPI_Type_free(&spread);
}

// ---- communicators --------------------------------------------------------------------------------------------------

void expect_same_communicator(MPI_Comm a, MPI_Comm b, const char* what) {
  int result = MPI_UNEQUAL;
  if (a != MPI_COMM_NULL && b != MPI_COMM_NULL) MPI_Comm_compare(a, b, &result);
  expect(a == b || result == MPI_CONGRUENT, what, "communicators");
  if (a != MPI_COMM_NULL) compare<int>(MPI_INT, MPI_SUM, what, "MPI_INT", a), MPI_Barrier(a), MPI_Comm_free(&a);
  if (b != MPI_COMM_NULL) PMPI_Comm_free(&b);
}

void compare_communicators() {
  MPI_Comm a, b;
  for (int round = 0; round < 3; ++round) {  // MPI uses handles again
    MPI_Comm_dup(MPI_COMM_WORLD, &a), PMPI_Comm_dup(MPI_COMM_WORLD, &b);
    expect_same_communicator(a, b, "copy");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &a), PMPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &b);
    expect_same_communicator(a, b, "half");
    const int colour = rank == 0 ? MPI_UNDEFINED : 5;
    MPI_Comm_split(MPI_COMM_WORLD, colour, 0, &a), PMPI_Comm_split(MPI_COMM_WORLD, colour, 0, &b);
    expect_same_communicator(a, b, "all but the first");
  }
  MPI_Group all, some;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  const int range[1][3] = {{size - 1, size / 2, -1}};
  MPI_Group_range_incl(all, 1, const_cast<int(*)[3]>(range), &some);
  MPI_Comm_create(MPI_COMM_WORLD, some, &a), PMPI_Comm_create(MPI_COMM_WORLD, some, &b);
  expect_same_communicator(a, b, "of a group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
}

// What a program hangs on a communicator goes into its copy.
void check_attributes() {
  int keyval = 0, value = 5, found = 0;
  int* there = nullptr;
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &value);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_get_attr(copy, keyval, &there, &found);
  expect(found != 0 && there == &value, "attribute", "a copy");
  MPI_Comm_free(&copy);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  MPI_Comm_free_keyval(&keyval);
}

// Arguments that are wrong are MPI's to complain about.
void check_errors() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int a = 0, b = 0;
  const auto expect_same = [&](int error, int expected, const char* what) {
    int of_error = MPI_SUCCESS, of_expected = MPI_SUCCESS;
    MPI_Error_class(error, &of_error);
    MPI_Error_class(expected, &of_expected);
    expect(of_error == of_expected && error != MPI_SUCCESS, "error", what);
  };
  expect_same(MPI_Bcast(&a, 1, MPI_INT, size, MPI_COMM_WORLD), PMPI_Bcast(&a, 1, MPI_INT, size, MPI_COMM_WORLD),
              "root");
  expect_same(MPI_Bcast(&a, -1, MPI_INT, 0, MPI_COMM_WORLD), PMPI_Bcast(&a, -1, MPI_INT, 0, MPI_COMM_WORLD), "count");
  expect_same(MPI_Allreduce(&a, &b, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD),
              PMPI_Allreduce(&a, &b, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD), "no type");
  expect_same(MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD),
              PMPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), "type and operator");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// What is passed on, and counted as that.
void pass_something_on() {
  int a = 1, b = 0;
  MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  MPI_Scan(&a, &b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(b == rank + 1, "scan", "MPI_INT");
  for (int round = 0; round < 3; ++round) {  // MPI may use one's handle for the other
    MPI_Comm grid, copy;
    const int periodic = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &grid);
    MPI_Barrier(grid);
    MPI_Comm_free(&grid);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  compare_types();
  compare_functions();
  compare_broadcasts();
  compare_allgathers();
  compare_communicators();
  check_attributes();
  check_errors();
  pass_something_on();
  MPI_Barrier(MPI_COMM_WORLD);
  std::printf("CALLS %d: %d allreduces, %d reduces; %d wrong\n", rank, allreduces, reduces, wrong);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}

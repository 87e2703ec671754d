// mpi_perftest: the measurement of ucft_perftest over MPI, in the manner of osu_allreduce. It has the same buffers,
// clocks, checks and output, so that the two differ in the library only.
//
//   mpirun -n 4 mpi_perftest -t allreduce -s 8:64K
#include <mpi.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "bench/peers/peer_perftest.hpp"

namespace ucft::detail::bench {
namespace {

#ifdef MPICH_VERSION
constexpr const char* library = "mpich";
#else
constexpr const char* library = "openmpi";
#endif

MPI_Datatype mpi_type(ucft_dtype_t dtype) {
  switch (dtype) {
    case UCFT_FLOAT: return MPI_FLOAT;
    case UCFT_DOUBLE: return MPI_DOUBLE;
    case UCFT_INT32: return MPI_INT32_T;
    case UCFT_INT64: return MPI_INT64_T;
    case UCFT_UINT64: return MPI_UINT64_T;
    case UCFT_INT8: return MPI_INT8_T;
    case UCFT_UINT8: return MPI_UINT8_T;
    case UCFT_INT16: return MPI_INT16_T;
    case UCFT_UINT16: return MPI_UINT16_T;
    case UCFT_UINT32: return MPI_UINT32_T;
    case UCFT_COMPLEX_FLOAT: return MPI_C_FLOAT_COMPLEX;
    case UCFT_COMPLEX_DOUBLE: return MPI_C_DOUBLE_COMPLEX;
    case UCFT_BOOL: return MPI_C_BOOL;
    case UCFT_FLOAT_INT32: return MPI_FLOAT_INT;
    case UCFT_DOUBLE_INT32: return MPI_DOUBLE_INT;
    case UCFT_INT32_INT32: return MPI_2INT;
    case UCFT_FLOAT16:
    case UCFT_BFLOAT16:
    case UCFT_INT64_INT64:
    case UCFT_DOUBLE_INT64:
    case UCFT_ACCUMULATOR: break;
  }
  return MPI_DATATYPE_NULL;  // MPI has none
}

MPI_Op mpi_operator(ucft_op_t op) {
  switch (op) {
    case UCFT_SUM: return MPI_SUM;
    case UCFT_PROD: return MPI_PROD;
    case UCFT_MIN: return MPI_MIN;
    case UCFT_MAX: return MPI_MAX;
    case UCFT_MINLOC: return MPI_MINLOC;
    case UCFT_MAXLOC: return MPI_MAXLOC;
    case UCFT_LAND: return MPI_LAND;
    case UCFT_LOR: return MPI_LOR;
    case UCFT_LXOR: return MPI_LXOR;
    case UCFT_BAND: return MPI_BAND;
    case UCFT_BOR: return MPI_BOR;
    case UCFT_BXOR: return MPI_BXOR;
    case UCFT_AVG:
    case UCFT_SUM_REPRODUCIBLE:
    case UCFT_AVG_REPRODUCIBLE:
    case UCFT_USER: break;  // made of a function
  }
  return MPI_OP_NULL;
}

// "" or the thing that MPI lacks.
std::string missing_in_mpi(const Arguments& arguments) {
  if (mpi_type(arguments.dtype) == MPI_DATATYPE_NULL)
    return fmt::format("-d {}: MPI has none", name_of(arguments.dtype));
  if (!combines(arguments.test)) return "";
  const bool is_bitwise = arguments.op >= UCFT_BAND && arguments.op <= UCFT_BXOR;
  if ((arguments.op != UCFT_USER && mpi_operator(arguments.op) == MPI_OP_NULL) ||
      (is_bitwise && arguments.dtype == UCFT_BOOL))
    return fmt::format("-o {}: MPI has none of {}", name_of(arguments.op), name_of(arguments.dtype));
  return "";
}

template <Element T>
void user_sum(void* in, void* inout, int* count, MPI_Datatype*) {
  add_elements(static_cast<const T*>(in), static_cast<T*>(inout), static_cast<std::uint64_t>(*count));
}

template <class T>
class Mpi {
 public:
  static constexpr const char* name = "mpi";

  Mpi(World world, const Arguments& arguments)
      : type_(mpi_type(arguments.dtype)),
        op_(mpi_operator(arguments.op)),
        root_(arguments.root),
        ranks_(world.size),
        world_(world) {
    if (arguments.op == UCFT_USER) MPI_Op_create(&user_sum<T>, 1, &op_);
  }
  void begin_row(std::size_t count) {
    const OwnCounts counts(world_.rank, world_.size, count);
    given_ = Places(counts.given);
    wanted_ = Places(counts.wanted);
  }

  void allreduce(std::span<const T> send, std::span<T> recv) const {
    MPI_Allreduce(send.data(), recv.data(), count_of(send), type_, op_, MPI_COMM_WORLD);
  }
  void reduce(std::span<const T> send, std::span<T> recv) const {
    MPI_Reduce(send.data(), recv.data(), count_of(send), type_, op_, root_, MPI_COMM_WORLD);
  }
  void broadcast(std::span<T> recv) const { MPI_Bcast(recv.data(), count_of(recv), type_, root_, MPI_COMM_WORLD); }
  void allgather(std::span<const T> send, std::span<T> recv) const {
    MPI_Allgather(send.data(), count_of(send), type_, recv.data(), count_of(send), type_, MPI_COMM_WORLD);
  }
  void gather(std::span<const T> send, std::span<T> recv) const {
    MPI_Gather(send.data(), count_of(send), type_, recv.data(), count_of(send), type_, root_, MPI_COMM_WORLD);
  }
  void scatter(std::span<const T> send, std::span<T> recv) const {
    MPI_Scatter(send.data(), count_of(recv), type_, recv.data(), count_of(recv), type_, root_, MPI_COMM_WORLD);
  }
  void alltoall(std::span<const T> send, std::span<T> recv) const {
    const int count = count_of(send) / ranks_;
    MPI_Alltoall(send.data(), count, type_, recv.data(), count, type_, MPI_COMM_WORLD);
  }
  void alltoallv(std::span<const T> send, std::span<T> recv) const {
    MPI_Alltoallv(send.data(), given_.counts.data(), given_.places.data(), type_, recv.data(), wanted_.counts.data(),
                  wanted_.places.data(), type_, MPI_COMM_WORLD);
  }
  void scan(std::span<const T> send, std::span<T> recv) const {
    MPI_Scan(send.data(), recv.data(), count_of(recv), type_, op_, MPI_COMM_WORLD);
  }
  void exscan(std::span<const T> send, std::span<T> recv) const {
    MPI_Exscan(send.data(), recv.data(), count_of(recv), type_, op_, MPI_COMM_WORLD);
  }
  void reduce_scatter(std::span<const T> send, std::span<T> recv) const {
    MPI_Reduce_scatter_block(send.data(), recv.data(), count_of(recv), type_, op_, MPI_COMM_WORLD);
  }
  void sendrecv(std::span<const T> send, std::span<T> recv) const {
    const int partner = partner_of(world_.rank);
    const bool is_first = partner > world_.rank;
    if (is_first) MPI_Send(send.data(), count_of(send), type_, partner, 0, MPI_COMM_WORLD);
    MPI_Recv(recv.data(), count_of(recv), type_, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!is_first) MPI_Send(send.data(), count_of(send), type_, partner, 0, MPI_COMM_WORLD);
  }
  void barrier() const { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  static int count_of(std::span<const T> elements) { return static_cast<int>(elements.size()); }

  const MPI_Datatype type_;
  MPI_Op op_;
  const int root_, ranks_;
  const World world_;
  struct Places {
    std::vector<int> counts, places;

    Places() = default;
    explicit Places(const std::vector<std::uint64_t>& all) : counts(all.begin(), all.end()), places(all.size()) {
      std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
    }
  };
  Places given_, wanted_;  // of an alltoallv
};

}  // namespace
}  // namespace ucft::detail::bench

int main(int argument_count, char** argument_values) {
  using namespace ucft::detail::bench;
  return peer_perftest<Mpi>(argument_count, argument_values, library, missing_in_mpi);
}

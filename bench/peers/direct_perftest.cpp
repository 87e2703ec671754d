// direct_perftest: mpi_perftest's loop with calls of ucft.h where that has MPI's. MPI starts the ranks, and it starts
// ucft by the same allgather that the shim uses. So under one mpirun it differs from mpi_perftest with libucft_mpi.so
// preloaded in the shim only.
//
//   mpirun -n 4 direct_perftest -t allreduce -s 8:64K
#include <mpi.h>

#include <cstdlib>
#include <span>

#include "bench/peers/peer_perftest.hpp"
#include "ucft/ucft.h"

namespace ucft::detail::bench {
namespace {

void expect_ok(const char* what, ucft_status_t status) {
  if (status == UCFT_OK) return;
  fmt::print(stderr, "direct_perftest: {}: {}: {}\n", what, ucft_status_name(status), ucft_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

ucft_status_t exchange(void* send, void* recv, size_t bytes, void*, void**) {
  const int count = static_cast<int>(bytes);
  return MPI_Allgather(send, count, MPI_BYTE, recv, count, MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS ? UCFT_OK
                                                                                                    : UCFT_ERR_STARTUP;
}
ucft_status_t has_ended(void*) { return UCFT_OK; }

template <class T>
class Direct {
 public:
  static constexpr const char* name = "ucft";

  Direct(World world, const Arguments& arguments)
      : dtype_(arguments.dtype),
        op_(arguments.op),
        root_(arguments.root),
        is_root_(world.rank == arguments.root),
        ranks_(static_cast<std::size_t>(world.size)),
        partner_(partner_of(world.rank)),
        world_(world) {
    ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
    params.oob = {exchange,
                  has_ended,
                  has_ended,
                  nullptr,
                  static_cast<std::uint32_t>(world.size),
                  static_cast<std::uint32_t>(world.rank)};
    expect_ok("ucft_context_create", ucft_context_create(&params, &context_));
    expect_ok("ucft_comm_create", ucft_comm_create(context_, &comm_));
  }
  ~Direct() { ucft_context_destroy(context_); }
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;
  void begin_row(std::size_t count) { counts_ = OwnCounts(world_.rank, world_.size, count); }

  void allreduce(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status =
        ucft_allreduce(comm_, send.data(), recv.data(), send.size(), dtype_, op_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_allreduce", status);
  }
  void reduce(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status = ucft_reduce(comm_, send.data(), is_root_ ? recv.data() : nullptr, send.size(), dtype_,
                                             op_, root_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_reduce", status);
  }
  void broadcast(std::span<T> recv) const {
    const ucft_status_t status = ucft_broadcast(comm_, recv.data(), recv.size(), dtype_, root_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_broadcast", status);
  }
  void allgather(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status = ucft_allgather(comm_, send.data(), recv.data(), send.size(), dtype_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_allgather", status);
  }
  void gather(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status =
        ucft_gather(comm_, send.data(), is_root_ ? recv.data() : nullptr, send.size(), dtype_, root_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_gather", status);
  }
  void scatter(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status =
        ucft_scatter(comm_, send.data(), recv.data(), recv.size(), dtype_, root_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_scatter", status);
  }
  void alltoall(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status =
        ucft_alltoall(comm_, send.data(), recv.data(), send.size() / ranks_, dtype_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_alltoall", status);
  }
  void alltoallv(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status = ucft_alltoallv(comm_, send.data(), counts_.given.data(), nullptr, recv.data(),
                                                counts_.wanted.data(), nullptr, dtype_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_alltoallv", status);
  }
  void scan(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status = ucft_scan(comm_, send.data(), recv.data(), recv.size(), dtype_, op_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_scan", status);
  }
  void exscan(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status =
        ucft_exscan(comm_, send.data(), recv.data(), recv.size(), dtype_, op_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_exscan", status);
  }
  void reduce_scatter(std::span<const T> send, std::span<T> recv) const {
    const ucft_status_t status =
        ucft_reduce_scatter(comm_, send.data(), recv.data(), recv.size(), dtype_, op_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_reduce_scatter", status);
  }
  void sendrecv(std::span<const T> send, std::span<T> recv) const {
    const bool is_first = partner_ % 2 == 1;
    if (is_first) expect_ok("ucft_send", ucft_send(comm_, send.data(), send.size(), dtype_, partner_, 0));
    expect_ok("ucft_recv", ucft_recv(comm_, recv.data(), recv.size(), dtype_, partner_, 0, nullptr));
    if (!is_first) expect_ok("ucft_send", ucft_send(comm_, send.data(), send.size(), dtype_, partner_, 0));
  }
  void barrier() const {
    const ucft_status_t status = ucft_barrier(comm_, nullptr, nullptr);
    if (status != UCFT_OK) expect_ok("ucft_barrier", status);
  }

 private:
  const ucft_dtype_t dtype_;
  const ucft_op_t op_;
  const int root_;
  const bool is_root_;
  const std::size_t ranks_;
  const int partner_;
  const World world_;
  OwnCounts counts_;
  ucft_context_h context_ = UCFT_CONTEXT_NULL;
  ucft_comm_h comm_ = UCFT_COMM_NULL;
};

std::string missing_in_direct(const Arguments& arguments) {
  return arguments.op == UCFT_USER ? "-o user: not in direct_perftest" : "";
}

}  // namespace
}  // namespace ucft::detail::bench

int main(int argument_count, char** argument_values) {
  using namespace ucft::detail::bench;
  return peer_perftest<Direct>(argument_count, argument_values, "auto", missing_in_direct);
}

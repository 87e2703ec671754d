#include "mpi/ending.hpp"

#include <atomic>

#include "mpi/watch.hpp"
#include "mpi/world.hpp"

namespace ucft::mpi {

namespace {

std::atomic<bool> callbacks_are_over = false;

int on_last_callback(MPI_Comm, int, void*, void*) {
  callbacks_are_over = true;
  return MPI_SUCCESS;
}

}  // namespace

void prepare_end() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_last_callback, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);  // set first, so it is deleted last
  PMPI_Comm_free_keyval(&keyval);
}

bool end_mpi(int& error) {
  const Needed all = members_of(MPI_COMM_WORLD).all;
  return call_watched([] { return PMPI_Finalize(); }, all, error, &callbacks_are_over);
}

}  // namespace ucft::mpi

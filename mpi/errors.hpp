// MPI errors of a communicator, for calls that can't be done any more. The communicator's error handler is called, and
// if that returns, the call returns the code. Codes are ULFM's classes (mpi-ext.h): MPI_Error_string names the rank
// that this thread's last such error was about. Errors that have ucft's own sentence have a code each.
#pragma once

#include <string>

#include "mpi/world.hpp"

namespace ucft::mpi {

// world_rank is dead, and the call needs it.
int raise_death(MPI_Comm comm, int world_rank);
// The code of that error, to be raised later. world_rank: or by_revocation.
int death_code(int world_rank);
// The same of a receive from any source, which stays begun.
int pending_code(int world_rank);
// Once, right behind MPI_Init.
void prepare_errors();
int error_code(MPI_Comm comm, ucft_status_t status, int root);
// While it lives errors of this thread call no handler: they are raised later.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  const bool was_silent_;
};
// Of a code of ours; empty: of another one. Any thread.
std::string sentence_of(int code);
// Returns it. revokes: under UCFT_MPI_ON_FAILURE=revoke, if a rank has failed (revoke_for).
int raise_code(MPI_Comm comm, int code, bool revokes = true);
void revoke_for(MPI_Comm comm, int code);
int raise_on_window(MPI_Win window, int code);
int raise_on_file(MPI_File file, int code);
// MPI has an error on another rank of the communicator that was to be made.
int raise_failure_elsewhere(MPI_Comm comm);
int raise_error(MPI_Comm comm, ucft_status_t status, int root);
// MPI_SUCCESS of UCFT_OK; else raises what status says. root: of a rooted operation, as comm numbers it; else -1.
// do_it raises nothing itself (Silence): its error of ucft's is raised behind it, when nothing is held any more.
// revokes: as raise_code has it.
template <class Do>
int raise_behind(MPI_Comm comm, const Do& do_it, bool revokes = true) {
  int code = MPI_SUCCESS;
  {
    const Silence silence;
    code = do_it();
  }
  return code == MPI_SUCCESS || sentence_of(code).empty() ? code : raise_code(comm, code, revokes);
}
inline int raise_status(MPI_Comm comm, ucft_status_t status, int root) {
  return status == UCFT_OK ? MPI_SUCCESS : raise_error(comm, status, root);
}

}  // namespace ucft::mpi

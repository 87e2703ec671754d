// MPI_Abort, and an error handler that is fatal, end the job. Open MPI's mpirun does not see to that where survivors
// are to live (--enable-recovery). To it a rank that aborts is one more that has failed (4.1.4: proc_errors in
// errmgr_default_hnp.c). So the rank that aborts asks mpirun to end, by SIGTERM: that ends all ranks of all hosts.
// mpirun's exit code is 1 then; it takes no other code from outside.
//
// In Open MPI all of that goes through one function: MPI_Abort in C and in Fortran, and each fatal error, the shim's
// and its own. libmpi calls it by its name, so the shim's comes first. Nothing is changed under mpirun without
// --enable-recovery, and with MPICH, whose mpiexec ends the job in any case.
#include "mpi/world.hpp"

#ifdef OPEN_MPI

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 10s;  // of a rank that has asked mpirun to end it

bool mpirun_lets_survivors_live() {
  const char* value = std::getenv("OMPI_MCA_orte_enable_recovery");
  return value != nullptr && (std::strcmp(value, "1") == 0 || std::strcmp(value, "true") == 0);
}

// 0: there is none.
pid_t parent_of(pid_t process) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  char text[512] = "";
  text[std::fread(text, 1, sizeof(text) - 1, file)] = 0;
  std::fclose(file);
  const char* name_ends = std::strrchr(text, ')');  // "17 (a name) S 16 ..."
  int parent = 0;
  return name_ends != nullptr && std::sscanf(name_ends, ") %*c %d", &parent) == 1 ? parent : 0;
}

bool is_mpirun(pid_t process) {
  char path[PATH_MAX] = "";
  if (readlink(("/proc/" + std::to_string(process) + "/exe").c_str(), path, sizeof(path) - 1) <= 0) return false;
  const char* name = std::strrchr(path, '/');
  return name != nullptr && std::strncmp(name, "/orterun", 8) == 0;
}

// The mpirun that has started this rank, maybe by way of a shell; 0: it runs on another host.
pid_t find_mpirun() {
  pid_t process = getppid();
  while (process > 1 && !is_mpirun(process)) process = parent_of(process);
  return process > 1 ? process : 0;
}

// Also before MPI_Init has come to its end.
const char* own_rank() {
  const char* value = std::getenv("OMPI_COMM_WORLD_RANK");
  return value != nullptr ? value : "?";
}

void end_job(int code) {
  const pid_t mpirun = find_mpirun();
  if (mpirun == 0) {
    std::fprintf(stderr,
                 "ucft: rank %s of MPI_COMM_WORLD aborts with code %d, and alone: mpirun --enable-recovery runs on "
                 "another host, and can't be asked to end the others\n",
                 own_rank(), code);
    return;
  }
  std::fprintf(stderr,
               "ucft: rank %s of MPI_COMM_WORLD aborts the job with code %d (that of mpirun --enable-recovery is 1)\n",
               own_rank(), code);
  if (kill(mpirun, SIGTERM) == 0) std::this_thread::sleep_for(patience);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" int ompi_mpi_abort(MPI_Comm comm, int code) {
  static std::atomic<bool> has_begun{false};
  if (!ucft::mpi::is_switched_off() && mpirun_lets_survivors_live() && !has_begun.exchange(true)) end_job(code);
  static auto* const mpis = reinterpret_cast<int (*)(MPI_Comm, int)>(dlsym(RTLD_NEXT, "ompi_mpi_abort"));
  if (mpis == nullptr) _exit(code);
  return mpis(comm, code);
}
#pragma GCC visibility pop

#endif

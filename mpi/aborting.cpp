// MPI_Abort, and an error handler that is fatal, end the job. Open MPI's mpirun does not see to that where survivors
// are to live (--enable-recovery). To it a rank that aborts is one more that has failed (4.1.4: proc_errors in
// errmgr_default_hnp.c). So the rank that aborts asks mpirun to end, by SIGTERM: that ends all ranks of all hosts.
// mpirun's exit code is 1 then; it takes no other code from outside.
//
// In Open MPI all of that goes through one function: MPI_Abort in C and in Fortran, and each fatal error, the shim's
// and its own. libmpi calls it by its name, so the shim's comes first. Nothing is changed under mpirun without
// --enable-recovery, and with MPICH, whose mpiexec ends the job in any case.
//
// UCFT_MPI_ON_FAILURE ends it at a death: each rank that knows of it ends, and asks mpirun to, if that is beside it.
#include <dlfcn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "mpi/errors.hpp"
#include "mpi/world.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto reading_takes = 1s;       // at most: a launcher may read nothing
constexpr auto forwarding_takes = 20ms;  // from its agent to its own stderr

}  // namespace

void ucft::mpi::wait_until_stderr_is_read() {
  struct stat kind {};
  if (fstat(STDERR_FILENO, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return;
  int unread = 0;
  for (auto waited = 0ms; waited < reading_takes; waited += 1ms) {
    if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) return;
    std::this_thread::sleep_for(1ms);
  }
}

namespace {

#ifdef OPEN_MPI

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

// Asks it to end, and waits for that. Once for all ranks beside it: at a second signal it would leave at once, with
// exit code 0. The first is the one that has this name; it goes with the process.
void ask_to_end(pid_t mpirun) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "ucft_mpi_ends.%d", mpirun);
  const int socket_of_name = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  const bool is_first =
      bind(socket_of_name, reinterpret_cast<const sockaddr*>(&name), bytes) == 0 || errno != EADDRINUSE;
  if (!is_first || kill(mpirun, SIGTERM) == 0) std::this_thread::sleep_for(patience);
}

// Also before MPI_Init has come to its end.
const char* own_rank() {
  const char* value = std::getenv("OMPI_COMM_WORLD_RANK");
  return value != nullptr ? value : "?";
}

void end_job(int code) {
  using ucft::mpi::wait_until_stderr_is_read;
  const std::string why = ucft::mpi::sentence_of(code);  // mpirun may lose MPI's own words
  const pid_t mpirun = find_mpirun();
  if (mpirun == 0) {
    std::fprintf(stderr,
                 "ucft: rank %s of MPI_COMM_WORLD aborts with code %d, and alone: mpirun --enable-recovery runs on "
                 "another host, and can't be asked to end the others\n",
                 own_rank(), code);
    return;
  }
  std::fprintf(
      stderr,
      "ucft: rank %s of MPI_COMM_WORLD aborts the job with code %d (that of mpirun --enable-recovery is 1)%s%s\n",
      own_rank(), code, why.empty() ? "" : ": ", why.c_str());
  wait_until_stderr_is_read();
  std::this_thread::sleep_for(forwarding_takes);
  ask_to_end(mpirun);
}
#endif

}  // namespace

void ucft::mpi::end_by_failure(int world_rank) {
  int lowest = 0;
  while (lowest < world.size - 1 && failure_of(lowest) >= 0) ++lowest;
  if (lowest == world.rank) {
    std::fprintf(stderr, "ucft: rank %d of MPI_COMM_WORLD has failed, and the job ends (UCFT_MPI_ON_FAILURE)\n",
                 world_rank);
    wait_until_stderr_is_read();
  }
  std::this_thread::sleep_for(lowest == world.rank ? forwarding_takes : 2 * forwarding_takes);
#ifdef OPEN_MPI
  if (const pid_t mpirun = find_mpirun(); mpirun > 0) ask_to_end(mpirun);
#endif
  _exit(1);
}

#ifdef OPEN_MPI
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

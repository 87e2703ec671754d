// Preloaded behind the shim: a rank that ends inside the part of MPI that makes a communicator, or ends MPI.
//
//   DIE_IN_MPI=RANK:FUNCTION:CALL:WHEN    in its CALL-th call, from 1, of Comm_create_group, Comm_idup, Comm_dup,
//                                         Comm_dup_with_info or Finalize; WHEN: "before" it, "after" it, or so many us
//                                         after its beginning
//   FINALIZE_MEETS=y                      ranks wait for each other inside PMPI_Finalize, as the standard allows
#include <dlfcn.h>
#pragma GCC visibility push(default)  // as in mpi/world.hpp
#include <mpi.h>
#pragma GCC visibility pop
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

[[noreturn]] void die() {
  const char* by = std::getenv("DIE_BY");
  if (by != nullptr && std::strcmp(by, "exit") == 0) _exit(9);
  std::raise(SIGKILL);
  std::abort();
}

template <class... Arguments>
int call(const char* function, int& calls, Arguments... arguments) {
  using Function = int(Arguments...);
  const std::string name = std::string("PMPI_") + function;
  static auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name.c_str()));
  int who = -1, when = 0, rank = -1;
  char where[32] = "", moment[16] = "";
  const char* plan = std::getenv("DIE_IN_MPI");
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool dies = plan != nullptr && std::sscanf(plan, "%d:%31[^:]:%d:%15s", &who, where, &when, moment) == 4 &&
                    who == rank && std::strcmp(where, function) == 0 && ++calls == when;
  if (dies && std::strcmp(moment, "before") == 0) die();
  if (dies && std::strcmp(moment, "after") != 0)
    std::thread([us = std::atoi(moment)] {
      std::this_thread::sleep_for(std::chrono::microseconds(us)), die();
    }).detach();
  const int error = real(arguments...);
  if (dies && std::strcmp(moment, "after") == 0) die();
  return error;
}

int meet(MPI_Comm, int, void*, void*) { return PMPI_Barrier(MPI_COMM_WORLD); }

}  // namespace

extern "C" {

int PMPI_Init(int* argc, char*** argv) {
  static auto* const real = reinterpret_cast<int (*)(int*, char***)>(dlsym(RTLD_NEXT, "PMPI_Init"));
  const int error = real(argc, argv);
  if (std::getenv("FINALIZE_MEETS") == nullptr) return error;
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, meet, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);  // the first, so it is called last
  return error;
}

int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* created) {
  static int calls = 0;
  return call("Comm_create_group", calls, comm, group, tag, created);
}
int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm* created, MPI_Request* request) {
  static int calls = 0;
  return call("Comm_idup", calls, comm, created, request);
}
int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm* created) {
  static int calls = 0;
  return call("Comm_dup", calls, comm, created);
}
int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* created) {
  static int calls = 0;
  return call("Comm_dup_with_info", calls, comm, info, created);
}
int PMPI_Finalize() {
  static int calls = 0;
  return call("Finalize", calls);
}

}  // extern "C"

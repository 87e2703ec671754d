#include "mpi/errors.hpp"

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "mpi/revocation.hpp"
#include "ucft/mpi/mpi-ext.h"

namespace ucft::mpi {

namespace {

constexpr std::size_t most_codes = 1000;  // MPI can't take them back

struct Own {
  int code, error_class;
};

std::mutex mutex_of_codes;
std::map<std::string, Own> codes;   // by sentence; guarded
thread_local int last_failed = -1;  // that an error of this thread has named
thread_local bool is_silent = false;
bool are_prepared = false;

// MPI's code for this sentence, a new one if it has not been said before. Any thread.
int code_of(std::string sentence, int error_class) {
  const std::lock_guard lock(mutex_of_codes);
  if (sentence.size() >= MPI_MAX_ERROR_STRING) sentence.resize(MPI_MAX_ERROR_STRING - 1);
  if (const auto said = codes.find(sentence); said != codes.end()) return said->second.code;
  if (codes.size() >= most_codes) return error_class;
  int code = error_class;
  PMPI_Add_error_code(error_class, &code);
  PMPI_Add_error_string(code, sentence.c_str());
  codes.emplace(std::move(sentence), Own{code, error_class});
  return code;
}

bool is_ulfms(int code) {
  return are_prepared &&
         (code == MPIX_ERR_PROC_FAILED || code == MPIX_ERR_PROC_FAILED_PENDING || code == MPIX_ERR_REVOKED);
}

// Of a code that code_of has made: its sentence and class. first: empty of another one.
std::pair<std::string, int> said_by(int code) {
  const std::lock_guard lock(mutex_of_codes);
  for (const auto& [sentence, own] : codes)
    if (own.code == code) return {sentence, own.error_class};
  return {};
}

int class_of(ucft_status_t status) {
  switch (status) {
    case UCFT_ERR_TOO_MANY_FAILURES:
    case UCFT_ERR_ROOT_FAILED:
    case UCFT_ERR_PEER_FAILED:
    case UCFT_ERR_PARTITION:
    case UCFT_ERR_EXCLUDED: return MPIX_ERR_PROC_FAILED;
    case UCFT_ERR_NO_MEMORY: return MPI_ERR_NO_MEM;
    default: return MPI_ERR_OTHER;
  }
}

#ifdef OPEN_MPI
void end_job_if_fatal(MPI_Errhandler, int) {}  // its handler sees to that: aborting.cpp
#else
// MPICH's handler ends its caller alone where it is called by MPI_Comm_call_errhandler and its like (4.0.2).
void end_job_if_fatal(MPI_Errhandler handler, int code) {
  if (handler != MPI_ERRORS_ARE_FATAL) return;
  char sentence[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, sentence, &length);
  std::fprintf(stderr, "%s; rank %d ends the job, as MPI_ERRORS_ARE_FATAL\n", sentence, world.rank);
  wait_until_stderr_is_read();
  PMPI_Abort(MPI_COMM_WORLD, 1);
}
#endif

template <class Object>
int raise_on(Object object, int code, int (*handler_of)(Object, MPI_Errhandler*), int (*call)(Object, int)) {
  if (is_silent) return code;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (handler_of(object, &handler) == MPI_SUCCESS) {
    end_job_if_fatal(handler, code);
    PMPI_Errhandler_free(&handler);
  }
  call(object, code);
  return code;
}

}  // namespace

Silence::Silence() : was_silent_(is_silent) { is_silent = true; }
Silence::~Silence() { is_silent = was_silent_; }

void prepare_errors() {
  are_prepared = true;
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
  for (const char* sentence : {"ucft: a rank has failed", "ucft: a rank that could have sent has failed",
                               "ucft: the communicator has been revoked"}) {
    int error_class = 0;  // the next that is free: as mpi-ext.h has it
    PMPI_Add_error_class(&error_class);
    PMPI_Add_error_string(error_class, sentence);
  }
#endif
}

std::string sentence_of(int code) {
  if (!is_ulfms(code)) return said_by(code).first;
  if (code == MPIX_ERR_REVOKED) return "ucft: the communicator has been revoked";
  return last_failed < 0 ? "ucft: a rank has failed"
                         : "ucft: rank " + std::to_string(last_failed) + " of MPI_COMM_WORLD has failed";
}

void revoke_for(MPI_Comm comm, int code) {
  if (world.on_failure != OnFailure::revoke || is_silent) return;
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class != MPIX_ERR_PROC_FAILED && error_class != MPIX_ERR_PROC_FAILED_PENDING) return;
  const Communicator* const one = find_any(comm);
  if (one == nullptr) return;
  const Turn turn;
  revoke(*one);
}

int raise_code(MPI_Comm comm, int code, bool revokes) {
  if (revokes) revoke_for(comm, code);
  return raise_on(comm, code, PMPI_Comm_get_errhandler, PMPI_Comm_call_errhandler);
}
int raise_on_window(MPI_Win window, int code) {
  return raise_on(window, code, PMPI_Win_get_errhandler, PMPI_Win_call_errhandler);
}
int raise_on_file(MPI_File file, int code) {
  return raise_on(file, code, PMPI_File_get_errhandler, PMPI_File_call_errhandler);
}

int death_code(int world_rank) {
  if (world_rank == by_revocation) return MPIX_ERR_REVOKED;
  if (world.on_failure == OnFailure::end_unless_collective) end_by_failure(world_rank);
  last_failed = world_rank;
  return MPIX_ERR_PROC_FAILED;
}

int pending_code(int world_rank) {
  const int code = death_code(world_rank);
  return code == MPIX_ERR_PROC_FAILED ? MPIX_ERR_PROC_FAILED_PENDING : code;
}

int raise_death(MPI_Comm comm, int world_rank) { return raise_code(comm, death_code(world_rank)); }

int raise_failure_elsewhere(MPI_Comm comm) {
  return raise_code(comm, code_of("ucft: MPI could not make the communicator on another rank", MPI_ERR_OTHER));
}

int error_code(MPI_Comm comm, ucft_status_t status, int root) {
  if (status == UCFT_ERR_STATE && is_revoked(comm)) return MPIX_ERR_REVOKED;
  if (status == UCFT_ERR_ROOT_FAILED && root >= 0) {
    MPI_Group group = MPI_GROUP_NULL;
    int world_rank = root;
    PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, 1, &root, world.group, &world_rank);
    PMPI_Group_free(&group);
    return death_code(world_rank);
  }
  return code_of(std::string("ucft: ") + ucft_status_name(status) + ": " + ucft_last_error(), class_of(status));
}

int raise_error(MPI_Comm comm, ucft_status_t status, int root) {
  return raise_code(comm, error_code(comm, status, root));
}

}  // namespace ucft::mpi

using namespace ucft::mpi;

extern "C" {

int MPI_Error_class(int code, int* error_class) {
  const auto [sentence, own] = said_by(code);
  if (!is_ulfms(code) && sentence.empty()) return PMPI_Error_class(code, error_class);
  *error_class = sentence.empty() ? code : own;
  return MPI_SUCCESS;
}

int MPI_Error_string(int code, char* text, int* length) {
  const std::string sentence = sentence_of(code);
  if (sentence.empty()) return PMPI_Error_string(code, text, length);
  *length = std::snprintf(text, MPI_MAX_ERROR_STRING, "%s", sentence.c_str());
  return MPI_SUCCESS;
}

}  // extern "C"

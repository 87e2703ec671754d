#include "mpi/errors.hpp"

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

namespace ucft::mpi {

namespace {

constexpr std::size_t most_codes = 1000;  // MPI can't take them back

std::mutex mutex;
std::map<std::string, int> codes;  // guarded

// MPI's code for this sentence, a new one if it has not been said before. Any thread.
int code_of(std::string sentence) {
  static int error_class = MPI_ERR_OTHER;
  const std::lock_guard lock(mutex);
  if (codes.empty()) {
    PMPI_Add_error_class(&error_class);
    PMPI_Add_error_string(error_class, "ucft: a process has failed");
  }
  if (sentence.size() >= MPI_MAX_ERROR_STRING) sentence.resize(MPI_MAX_ERROR_STRING - 1);
  if (const auto known = codes.find(sentence); known != codes.end()) return known->second;
  if (codes.size() >= most_codes) return error_class;
  int code = error_class;
  PMPI_Add_error_code(error_class, &code);
  PMPI_Add_error_string(code, sentence.c_str());
  codes.emplace(std::move(sentence), code);
  return code;
}

#ifdef OPEN_MPI
void end_job_if_fatal(MPI_Errhandler, const std::string&) {}  // its handler sees to that: aborting.cpp
#else
// MPICH's handler ends its caller alone where it is called by MPI_Comm_call_errhandler and its like (4.0.2).
void end_job_if_fatal(MPI_Errhandler handler, const std::string& sentence) {
  if (handler != MPI_ERRORS_ARE_FATAL) return;
  std::fprintf(stderr, "%s; rank %d ends the job, as MPI_ERRORS_ARE_FATAL\n", sentence.c_str(), world.rank);
  wait_until_stderr_is_read();
  PMPI_Abort(MPI_COMM_WORLD, 1);
}
#endif

template <class Object>
int raise_on(Object object, int code, int (*handler_of)(Object, MPI_Errhandler*), int (*call)(Object, int)) {
  char sentence[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(code, sentence, &length);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (handler_of(object, &handler) == MPI_SUCCESS) {
    end_job_if_fatal(handler, sentence);
    PMPI_Errhandler_free(&handler);
  }
  call(object, code);
  return code;
}

std::string sentence_of_death(int world_rank) {
  return "ucft: rank " + std::to_string(world_rank) + " of MPI_COMM_WORLD has failed";
}

}  // namespace

std::string sentence_of(int code) {
  const std::lock_guard lock(mutex);
  for (const auto& [sentence, known] : codes)
    if (known == code) return sentence;
  return {};
}

int raise_code(MPI_Comm comm, int code) {
  return raise_on(comm, code, PMPI_Comm_get_errhandler, PMPI_Comm_call_errhandler);
}
int raise_on_window(MPI_Win window, int code) {
  return raise_on(window, code, PMPI_Win_get_errhandler, PMPI_Win_call_errhandler);
}
int raise_on_file(MPI_File file, int code) {
  return raise_on(file, code, PMPI_File_get_errhandler, PMPI_File_call_errhandler);
}

int death_code(int world_rank) {
  if (world.on_failure == OnFailure::end_unless_collective) end_by_failure(world_rank);
  return code_of(sentence_of_death(world_rank));
}

int raise_death(MPI_Comm comm, int world_rank) { return raise_code(comm, death_code(world_rank)); }

int raise_failure_elsewhere(MPI_Comm comm) {
  return raise_code(comm, code_of("ucft: MPI could not make the communicator on another rank"));
}

int error_code(MPI_Comm comm, ucft_status_t status, int root) {
  if (status == UCFT_ERR_ROOT_FAILED && root >= 0) {
    MPI_Group group = MPI_GROUP_NULL;
    int world_rank = root;
    PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, 1, &root, world.group, &world_rank);
    PMPI_Group_free(&group);
    return death_code(world_rank);
  }
  return code_of(std::string("ucft: ") + ucft_status_name(status) + ": " + ucft_last_error());
}

int raise_error(MPI_Comm comm, ucft_status_t status, int root) {
  return raise_code(comm, error_code(comm, status, root));
}

}  // namespace ucft::mpi

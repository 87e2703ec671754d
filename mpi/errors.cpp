#include "mpi/errors.hpp"

#include <map>
#include <mutex>
#include <string>

namespace ucft::mpi {

namespace {

constexpr std::size_t most_codes = 1000;  // MPI can't take them back

// MPI's code for this sentence, a new one if it has not been said before. Any thread.
int code_of(std::string sentence) {
  static std::mutex mutex;
  static std::map<std::string, int> codes;
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

int raise(MPI_Comm comm, std::string sentence) {
  const int code = code_of(std::move(sentence));
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace

int raise_death(MPI_Comm comm, int world_rank) {
  return raise(comm, "ucft: rank " + std::to_string(world_rank) + " of MPI_COMM_WORLD has failed");
}

int raise_failure_elsewhere(MPI_Comm comm) {
  return raise(comm, "ucft: MPI could not make the communicator on another rank");
}

int raise_error(MPI_Comm comm, ucft_status_t status, int root) {
  if (status == UCFT_ERR_ROOT_FAILED && root >= 0) {
    MPI_Group group = MPI_GROUP_NULL;
    int world_rank = root;
    PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, 1, &root, world.group, &world_rank);
    PMPI_Group_free(&group);
    return raise_death(comm, world_rank);
  }
  return raise(comm, std::string("ucft: ") + ucft_status_name(status) + ": " + ucft_last_error());
}

}  // namespace ucft::mpi

// Collective calls on files. MPI has them. A rank that is dead is an error of the file, and so is one that dies while
// they wait (watch.hpp).
#include "mpi/errors.hpp"
#include "mpi/watch.hpp"

using namespace ucft::mpi;

namespace {

template <class Pmpi>
int opened(const char* function, MPI_Comm comm, Pmpi pmpi) {
  return run_watched(function, comm, pmpi, [](int dead) { return raise_on_file(MPI_FILE_NULL, death_code(dead)); });
}

template <class Pmpi>
int on_file(const char* function, MPI_File file, Pmpi pmpi) {
  if (!world.on || file == MPI_FILE_NULL) return pmpi();
  const auto raise = [&](int dead) { return raise_on_file(file, death_code(dead)); };
  if (world.lost_by >= 0) return raise(world.lost_by);
  MPI_Group group = MPI_GROUP_NULL;
  if (PMPI_File_get_group(file, &group) != MPI_SUCCESS) return pmpi();
  Needed needed = members_of_group(group);
  PMPI_Group_free(&group);
  return run_watched(function, std::move(needed), pmpi, raise);
}

}  // namespace

extern "C" {

int MPI_File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  return opened("MPI_File_open", comm, [=] { return PMPI_File_open(comm, name, mode, info, file); });
}
int MPI_File_close(MPI_File* file) {
  return on_file("MPI_File_close", file == nullptr ? MPI_FILE_NULL : *file, [=] { return PMPI_File_close(file); });
}
int MPI_File_set_view(MPI_File file, MPI_Offset at, MPI_Datatype element, MPI_Datatype type, const char* representation,
                      MPI_Info info) {
  return on_file("MPI_File_set_view", file,
                 [=] { return PMPI_File_set_view(file, at, element, type, representation, info); });
}
int MPI_File_set_size(MPI_File file, MPI_Offset bytes) {
  return on_file("MPI_File_set_size", file, [=] { return PMPI_File_set_size(file, bytes); });
}
int MPI_File_preallocate(MPI_File file, MPI_Offset bytes) {
  return on_file("MPI_File_preallocate", file, [=] { return PMPI_File_preallocate(file, bytes); });
}
int MPI_File_set_atomicity(MPI_File file, int flag) {
  return on_file("MPI_File_set_atomicity", file, [=] { return PMPI_File_set_atomicity(file, flag); });
}
int MPI_File_sync(MPI_File file) {
  return on_file("MPI_File_sync", file, [=] { return PMPI_File_sync(file); });
}
int MPI_File_seek_shared(MPI_File file, MPI_Offset at, int from) {
  return on_file("MPI_File_seek_shared", file, [=] { return PMPI_File_seek_shared(file, at, from); });
}
int MPI_File_read_all(MPI_File file, void* to, int n, MPI_Datatype type, MPI_Status* status) {
  return on_file("MPI_File_read_all", file, [=] { return PMPI_File_read_all(file, to, n, type, status); });
}
int MPI_File_write_all(MPI_File file, const void* from, int n, MPI_Datatype type, MPI_Status* status) {
  return on_file("MPI_File_write_all", file, [=] { return PMPI_File_write_all(file, from, n, type, status); });
}
int MPI_File_read_at_all(MPI_File file, MPI_Offset at, void* to, int n, MPI_Datatype type, MPI_Status* status) {
  return on_file("MPI_File_read_at_all", file, [=] { return PMPI_File_read_at_all(file, at, to, n, type, status); });
}
int MPI_File_write_at_all(MPI_File file, MPI_Offset at, const void* from, int n, MPI_Datatype type,
                          MPI_Status* status) {
  return on_file("MPI_File_write_at_all", file,
                 [=] { return PMPI_File_write_at_all(file, at, from, n, type, status); });
}
int MPI_File_read_ordered(MPI_File file, void* to, int n, MPI_Datatype type, MPI_Status* status) {
  return on_file("MPI_File_read_ordered", file, [=] { return PMPI_File_read_ordered(file, to, n, type, status); });
}
int MPI_File_write_ordered(MPI_File file, const void* from, int n, MPI_Datatype type, MPI_Status* status) {
  return on_file("MPI_File_write_ordered", file, [=] { return PMPI_File_write_ordered(file, from, n, type, status); });
}
int MPI_File_read_all_begin(MPI_File file, void* to, int n, MPI_Datatype type) {
  return on_file("MPI_File_read_all_begin", file, [=] { return PMPI_File_read_all_begin(file, to, n, type); });
}
int MPI_File_read_all_end(MPI_File file, void* to, MPI_Status* status) {
  return on_file("MPI_File_read_all_end", file, [=] { return PMPI_File_read_all_end(file, to, status); });
}
int MPI_File_write_all_begin(MPI_File file, const void* from, int n, MPI_Datatype type) {
  return on_file("MPI_File_write_all_begin", file, [=] { return PMPI_File_write_all_begin(file, from, n, type); });
}
int MPI_File_write_all_end(MPI_File file, const void* from, MPI_Status* status) {
  return on_file("MPI_File_write_all_end", file, [=] { return PMPI_File_write_all_end(file, from, status); });
}
int MPI_File_read_at_all_begin(MPI_File file, MPI_Offset at, void* to, int n, MPI_Datatype type) {
  return on_file("MPI_File_read_at_all_begin", file,
                 [=] { return PMPI_File_read_at_all_begin(file, at, to, n, type); });
}
int MPI_File_read_at_all_end(MPI_File file, void* to, MPI_Status* status) {
  return on_file("MPI_File_read_at_all_end", file, [=] { return PMPI_File_read_at_all_end(file, to, status); });
}
int MPI_File_write_at_all_begin(MPI_File file, MPI_Offset at, const void* from, int n, MPI_Datatype type) {
  return on_file("MPI_File_write_at_all_begin", file,
                 [=] { return PMPI_File_write_at_all_begin(file, at, from, n, type); });
}
int MPI_File_write_at_all_end(MPI_File file, const void* from, MPI_Status* status) {
  return on_file("MPI_File_write_at_all_end", file, [=] { return PMPI_File_write_at_all_end(file, from, status); });
}
int MPI_File_read_ordered_begin(MPI_File file, void* to, int n, MPI_Datatype type) {
  return on_file("MPI_File_read_ordered_begin", file, [=] { return PMPI_File_read_ordered_begin(file, to, n, type); });
}
int MPI_File_read_ordered_end(MPI_File file, void* to, MPI_Status* status) {
  return on_file("MPI_File_read_ordered_end", file, [=] { return PMPI_File_read_ordered_end(file, to, status); });
}
int MPI_File_write_ordered_begin(MPI_File file, const void* from, int n, MPI_Datatype type) {
  return on_file("MPI_File_write_ordered_begin", file,
                 [=] { return PMPI_File_write_ordered_begin(file, from, n, type); });
}
int MPI_File_write_ordered_end(MPI_File file, const void* from, MPI_Status* status) {
  return on_file("MPI_File_write_ordered_end", file, [=] { return PMPI_File_write_ordered_end(file, from, status); });
}

}  // extern "C"

// What a communicator has of its parent: MPI_Comm_dup and MPI_Comm_dup_with_info hand attributes on, by copy callbacks,
// which run on the thread that calls; MPI_Comm_split and MPI_Comm_create hand on none, and call none (MPI 3.1, 6.4.2).
// All hand on the error handler.
#include <mpi.h>

#include <cstdio>
#include <string>
#include <thread>

namespace {

int rank, size, wrong = 0, copies = 0, deletions = 0;
int counted = MPI_KEYVAL_INVALID, shared = MPI_KEYVAL_INVALID;
int value = 17;
std::thread::id caller;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++wrong;
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

int copy(MPI_Comm, int, void*, void* from, void* to, int* flag) {
  ++copies;
  expect(std::this_thread::get_id() == caller, "a copy callback is called by another thread");
  *static_cast<void**>(to) = from;
  *flag = 1;
  return MPI_SUCCESS;
}

int remove(MPI_Comm, int, void*, void*) {
  ++deletions;
  expect(std::this_thread::get_id() == caller, "a delete callback is called by another thread");
  return MPI_SUCCESS;
}

bool has(MPI_Comm comm, int keyval) {
  void* got = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, keyval, &got, &found);
  return found != 0 && got == &value;
}

bool returns_errors(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(comm, &handler);
  const bool right = handler == MPI_ERRORS_RETURN;
  MPI_Errhandler_free(&handler);
  return right;
}

void set(MPI_Comm comm) {
  MPI_Comm_set_attr(comm, counted, &value);
  MPI_Comm_set_attr(comm, shared, &value);
}

void expect_child(MPI_Comm child, bool has_attributes, const std::string& what) {
  if (child == MPI_COMM_NULL) return;
  expect(has(child, counted) == has_attributes && has(child, shared) == has_attributes, what + ": attributes");
  expect(returns_errors(child), what + ": the error handler is another one");
  int topology = MPI_UNDEFINED;
  MPI_Topo_test(child, &topology);
  expect(topology == MPI_UNDEFINED, what + ": it has a topology");
  int sum = 0, members = 0;
  const int one = 1;
  MPI_Comm_size(child, &members);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, child);
  expect(sum == members, what + ": its sum is of other ranks");
}

void children_of(MPI_Comm parent, const std::string& name) {
  MPI_Comm child = MPI_COMM_NULL;
  int of_parent = 0, before = copies, removed = deletions;
  MPI_Comm_rank(parent, &of_parent);
  MPI_Comm_split(parent, of_parent % 2, -of_parent, &child);
  expect_child(child, false, name + ": split");
  MPI_Comm_free(&child);
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  const int first[] = {0};
  MPI_Comm_group(parent, &all);
  MPI_Group_excl(all, 1, first, &some);
  MPI_Comm_create(parent, some, &child);
  expect((child == MPI_COMM_NULL) == (of_parent == 0), name + ": create: ranks");
  expect_child(child, false, name + ": create");
  if (child != MPI_COMM_NULL) MPI_Comm_free(&child);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  expect(copies == before && deletions == removed, name + ": split or create has called callbacks");

  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "name", "value");
  for (bool with_info : {false, true}) {
    before = copies, removed = deletions;
    if (with_info)
      MPI_Comm_dup_with_info(parent, info, &child);
    else
      MPI_Comm_dup(parent, &child);
    expect(copies == before + 1, name + ": a copy has not called one copy callback");
    expect_child(child, true, name + ": copy");
    MPI_Comm_free(&child);
    expect(deletions == removed + 1, name + ": the end of a copy has not called one delete callback");
  }
  MPI_Info_free(&info);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  caller = std::this_thread::get_id();
  MPI_Comm_create_keyval(copy, remove, &counted, nullptr);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &shared, nullptr);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  set(MPI_COMM_WORLD);
  children_of(MPI_COMM_WORLD, "world");
  MPI_Comm reversed = MPI_COMM_NULL, third = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  set(reversed);
  children_of(reversed, "reversed");
  MPI_Comm_split(reversed, rank == 0 ? MPI_UNDEFINED : 0, rank, &third);
  if (third != MPI_COMM_NULL) {
    set(third);
    children_of(third, "part of a part");
    MPI_Comm_free(&third);
  }
  MPI_Comm_free(&reversed);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, counted);
  MPI_Finalize();
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  return wrong == 0 ? 0 : 1;
}

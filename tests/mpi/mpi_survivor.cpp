// A program of plain MPI that knows nothing of ucft: rounds of every collective that the shim takes over, each checked
// against arithmetic. Rank r contributes 2^r, so a sum says who is in it: everybody, less victims, and nobody who was
// missing before.
//
//   mpi_survivor ROUNDS [RANK:ROUND:STEP ...] [RANK:us:MICROSECONDS ...]     who kills itself, and where, or when
//
// With a death at any time there are as many rounds more as it takes until it has come. A death inside the making of
// communicators may be an error of MPI_Comm_split, after which there may be no new communicators at all (docs/mpi.md).
// STEP counts the calls of a round; "split" is inside the making of communicators, "end" after the last collective.
// With DIE_BY=exit in the environment it ends with an exit code, not by a signal. Survivors' last words come from an
// exit handler: VERDICT, the ranks in the last sum, and a hash of all that every survivor must have seen alike.
#include <mpi.h>
// Behind it.
#include <mpi-ext.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Ranks = std::uint64_t;  // bit r: rank r
constexpr int in_split = 100, at_end = 101;

int rank, size, rounds;
Ranks victims, present, in_last_sum;  // the last: the same on all survivors
std::uint64_t hash = 1469598103934665603u;
bool failed = false, at_any_time = false;
int errors_of_making = 0;

struct Death {
  int round, step;
};
std::vector<Death> deaths;  // this rank's

[[noreturn]] void die() {
  const char* by = std::getenv("DIE_BY");
  if (by != nullptr && std::strcmp(by, "exit") == 0) _exit(9);
  std::raise(SIGKILL);
  std::abort();
}

void die_if_due(int round, int step) {
  for (const Death& death : deaths)
    if (death.round == round && death.step == step) die();
}

void complain(const char* what, int round, unsigned long long value) {
  if (!failed) std::fprintf(stderr, "rank %d, round %d: %s: %llx\n", rank, round, what, value);
  failed = true;
}

bool is_victim(int r) { return (victims >> r & 1) != 0; }

// of: the ranks whose contributions could be there.
void check_ranks(Ranks found, Ranks of, int round, const char* what) {
  const Ranks before = present & of;
  if ((found & ~before) != 0 || (before & ~found & ~victims) != 0) complain(what, round, found);
  present &= found | ~of;
}

void remember(std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; }

void sum_up(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<Ranks*>(inout)[i] += static_cast<Ranks*>(in)[i];
}

// A sum of `count` numbers, the i-th of them (i+1) * 2^r of each rank r.
template <class Number>
void check_allreduce(MPI_Comm comm, Ranks of, MPI_Datatype type, MPI_Op op, int count, bool in_place, int round,
                     const char* what) {
  std::vector<Number> send(static_cast<std::size_t>(count)), recv(send.size(), Number(-1));
  for (std::size_t i = 0; i < send.size(); ++i) send[i] = Number(i + 1) * Number(Ranks{1} << rank);
  if (in_place) recv = send;
  MPI_Allreduce(in_place ? MPI_IN_PLACE : send.data(), recv.data(), count, type, op, comm);
  const auto found = static_cast<Ranks>(recv[0]);
  check_ranks(found, of, round, what);
  for (std::size_t i = 0; i < recv.size(); ++i)
    if (recv[i] != Number(i + 1) * Number(found)) complain(what, round, i);
}

// The least of those that are there: nothing may stand in for the dead.
void check_least(int round) {
  const long double mine = rank + 1;
  long double least = -1;
  MPI_Allreduce(&mine, &least, 1, MPI_LONG_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  const int found = static_cast<int>(least) - 1;
  if (found < 0 || found > rank || (present >> found & 1) == 0) complain("least", round, static_cast<unsigned>(found));
}

void check_rooted(MPI_Comm comm, int round, int step) {
  const int root = round % size;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int word = rank == root ? 1000 * round + root : -1;
  die_if_due(round, step);
  const int error = MPI_Bcast(&word, 1, MPI_INT, root, comm);
  if (error == MPI_SUCCESS ? word != 1000 * round + root : !is_victim(root) || word != -1)
    complain("broadcast", round, static_cast<unsigned>(word));
  remember(error == MPI_SUCCESS);
  Ranks mine = Ranks{1} << rank, all = 0;
  die_if_due(round, step + 1);
  const int of_reduce =
      MPI_Reduce(&mine, rank == root ? &all : reinterpret_cast<Ranks*>(8), 1, MPI_UINT64_T, MPI_SUM, root, comm);
  if (of_reduce != MPI_SUCCESS && !is_victim(root)) complain("reduce", round, static_cast<unsigned>(of_reduce));
  if (rank == root) check_ranks(all, ~Ranks{0}, round, "reduce");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

// Blocks of victims may be missing: untouched.
void check_gathered(const std::vector<int>& got, const std::vector<int>& counts, const std::vector<int>& places,
                    int round, const char* what) {
  for (int r = 0; r < size; ++r) {
    const auto at = static_cast<std::size_t>(places[static_cast<std::size_t>(r)]);
    const int n = counts[static_cast<std::size_t>(r)];
    const bool missing = n > 0 && got[at] == -1;
    if (missing && !is_victim(r)) complain(what, round, static_cast<unsigned>(r));
    for (int i = 0; i < n; ++i)
      if (got[at + static_cast<std::size_t>(i)] != (missing ? -1 : 1000 * round + r))
        complain(what, round, static_cast<unsigned>(r));
    remember(missing);
  }
}

void check_allgathers(MPI_Comm comm, int round, int step) {
  std::vector<int> counts(static_cast<std::size_t>(size), 3), places(counts.size());
  for (int r = 0; r < size; ++r) places[static_cast<std::size_t>(r)] = 3 * r;
  const std::vector<int> mine(static_cast<std::size_t>(size) + 3, 1000 * round + rank);
  std::vector<int> got(3 * counts.size(), -1);
  die_if_due(round, step);
  MPI_Allgather(mine.data(), 3, MPI_INT, got.data(), 3, MPI_INT, comm);
  check_gathered(got, counts, places, round, "allgather");
  int place = 1;
  for (int r = size; r-- > 0;) {
    counts[static_cast<std::size_t>(r)] = r;
    places[static_cast<std::size_t>(r)] = place;
    place += r + 1;
  }
  got.assign(static_cast<std::size_t>(place) + 1, -1);
  die_if_due(round, step + 1);
  MPI_Allgatherv(mine.data(), rank, MPI_INT, got.data(), counts.data(), places.data(), MPI_INT, comm);
  check_gathered(got, counts, places, round, "allgatherv");
}

// Whose contributions a sum on comm may have: its members, as ranks of the world.
Ranks members(MPI_Comm comm) {
  MPI_Group world_group, group;
  MPI_Comm_group(MPI_COMM_WORLD, &world_group);
  MPI_Comm_group(comm, &group);
  int n = 0;
  MPI_Group_size(group, &n);
  Ranks found = 0;
  for (int r = 0, there = 0; r < n; ++r) {
    MPI_Group_translate_ranks(group, 1, &r, world_group, &there);
    found |= Ranks{1} << there;
  }
  MPI_Group_free(&group);
  MPI_Group_free(&world_group);
  return found;
}

// False: an error, of which a death must be the cause, and there is no communicator.
bool is_made(int error, const MPI_Comm& made, int round) {
  if (error == MPI_SUCCESS && made != MPI_COMM_NULL) return true;
  int error_class = MPI_SUCCESS;
  MPI_Error_class(error, &error_class);
  if (victims == 0 || made != MPI_COMM_NULL || error_class != MPIX_ERR_PROC_FAILED)
    complain("no communicator", round, static_cast<unsigned>(error));
  errors_of_making += 1;
  return false;
}

void check_new_communicators(int round, MPI_Op op) {
  MPI_Comm copy = MPI_COMM_NULL, half = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!is_made(MPI_Comm_dup(MPI_COMM_WORLD, &copy), copy, round)) return;
  check_ranks(members(copy), ~Ranks{0}, round, "members of a copy");
  die_if_due(round, in_split);
  if (is_made(MPI_Comm_split(copy, rank % 2, -rank, &half), half, round)) {
    const Ranks of_half = rank % 2 == 0 ? 0x5555555555555555u : 0xaaaaaaaaaaaaaaaau;
    if ((members(half) & ~of_half) != 0) complain("members of a half", round, members(half));
    check_allreduce<Ranks>(half, of_half, MPI_UINT64_T, MPI_SUM, 5, false, round, "sum of a half");
    MPI_Comm_free(&half);
  }
  check_allreduce<Ranks>(copy, ~Ranks{0}, MPI_UINT64_T, op, 2, false, round, "sum of a copy");
  MPI_Comm_free(&copy);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

void run_round(int round, MPI_Comm copy, MPI_Op op) {
  constexpr Ranks everybody = ~Ranks{0};
  die_if_due(round, 0);
  check_allreduce<Ranks>(MPI_COMM_WORLD, everybody, MPI_UINT64_T, MPI_SUM, 1, false, round, "sum");
  in_last_sum = present;
  remember(present);
  die_if_due(round, 1);
  check_allreduce<double>(copy, everybody, MPI_DOUBLE, MPI_SUM, 3000, true, round, "sum of doubles");
  die_if_due(round, 2);
  check_allreduce<long double>(MPI_COMM_WORLD, everybody, MPI_LONG_DOUBLE, MPI_SUM, 3, false, round,
                               "sum of long doubles");
  check_least(round);
  die_if_due(round, 3);
  check_allreduce<Ranks>(copy, everybody, MPI_UINT64_T, op, 20, round % 2 == 0, round, "by a function");
  check_rooted(copy, round, 4);
  check_allgathers(MPI_COMM_WORLD, round, 6);
  die_if_due(round, 8);
  MPI_Barrier(copy);
  if (round % 20 == 0) check_new_communicators(round, op);
}

void last_words() {
  if (errors_of_making > 0) std::printf("rank %d: %d communicators were not made\n", rank, errors_of_making);
  std::printf("VERDICT %d: %s, %llx of %llx, %llx\n", rank, failed ? "wrong" : "right",
              static_cast<unsigned long long>(present), (1ULL << size) - 1, static_cast<unsigned long long>(hash));
}

// On MPI_COMM_SELF: MPI_Finalize calls it, and must not be cut short by a death meanwhile.
int on_finalize(MPI_Comm, int, void*, void*) {
  if (const char* takes_ms = std::getenv("CALLBACK_TAKES_MS"); takes_ms != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(takes_ms)));
    std::printf("rank %d: called back\n", rank);
  }
  return MPI_SUCCESS;
}

void read_deaths(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    int who = 0, when = 0;
    char where[16] = "";
    if (std::sscanf(argv[i], "%d:us:%d", &who, &when) == 2) {
      at_any_time = true;
      if (who == rank)
        std::thread([when] { std::this_thread::sleep_for(std::chrono::microseconds(when)), die(); }).detach();
    } else if (std::sscanf(argv[i], "%d:%d:%15s", &who, &when, where) == 3) {
      const int step = std::strcmp(where, "split") == 0 ? in_split
                       : std::strcmp(where, "end") == 0 ? at_end
                                                        : std::atoi(where);
      if (who == rank) deaths.push_back({when, step});
    }
    victims |= Ranks{1} << who;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::atexit(last_words);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  present = (Ranks{1} << size) - 1;
  rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Op_create(sum_up, 1, &op);
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  read_deaths(argc, argv);
  for (int round = 0; round < rounds || (at_any_time && (in_last_sum & victims) != 0); ++round)
    run_round(round, copy, op);
  die_if_due(rounds, at_end);
  MPI_Op_free(&op);
  MPI_Finalize();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) complain("finalized", rounds, 0);
  return failed ? 1 : 0;
}

// Of mpi_ulfm: cases that go on with a shrunk communicator.
#pragma once

#include <csetjmp>

#include "mpi_ulfm_common.hpp"

namespace {

// ---- shrinking ------------------------------------------------------------------------------------------------------

void shrink_world() {
  MPI_Comm comm = shrunk(MPI_COMM_WORLD);
  std::vector<int> outcomes;  // sizes, or -1
  expect_works(comm, living(), "shrunk before any death");
  for (const auto [victim, when] : deaths) {
    int is_good = 0, tries = 0;
    meet();
    if (when < 0)
      let_die(victim);
    else if (rank == victim)
      die_in(when);
    for (; is_good == 0 && tries < 5; ++tries) {
      MPI_Comm next = MPI_COMM_NULL;
      const int error = MPIX_Comm_shrink(comm, &next);
      if (rank == victim) die();  // it's too early else
      if (error != MPI_SUCCESS) expect_class(error, MPIX_ERR_PROC_FAILED, "MPIX_Comm_shrink");
      outcomes.push_back(error == MPI_SUCCESS ? Place(next).members : -1);
      if (error != MPI_SUCCESS) continue;
      MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN);
      int sum = 0;
      is_good = count(next, &sum) == MPI_SUCCESS && sum == Place(next).members;
      if (MPIX_Comm_agree(next, &is_good) != MPI_SUCCESS) is_good = 0;
      expect_success(MPI_Comm_free(&comm), "MPI_Comm_free of what was shrunk");
      comm = next;
    }
    expect(is_good != 0, "no good communicator in five tries");
    expect(when >= 0 || tries == 1, "a death of before disturbs MPIX_Comm_shrink");
    await_death(victim);
    expect_works(comm, living(), "shrunk");
  }
  expect_alike(comm, outcomes, "MPIX_Comm_shrink");
  expect_works(shrunk(comm), living(), "shrunk again");
  expect_works(shrunk(MPI_COMM_WORLD), living(), "MPI_COMM_WORLD, shrunk again");
}

void ishrink() {
  const bool is_swapped = options.contains("swapped");
  MPI_Comm of[2] = {copy(MPI_COMM_WORLD), is_swapped ? copy(MPI_COMM_WORLD) : half()};
  for (std::size_t i = 0; i <= deaths.size(); ++i) {
    MPI_Comm made_of[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Request requests[4];
    int from = -1;
    const int first = is_swapped ? rank % 2 : 0;
    std::vector<int> part = living();
    if (!is_swapped) std::erase_if(part, [](int r) { return r % 2 != rank % 2; });
    if (!is_swapped) std::reverse(part.begin(), part.end());
    for (int k : {0, 1})
      expect_success(MPIX_Comm_ishrink(of[k], made_of + k, requests + (first + k) % 2), "MPIX_Comm_ishrink");
    MPI_Irecv(&from, 1, MPI_INT, neighbour(-1), 41, MPI_COMM_WORLD, requests + 2);
    MPI_Isend(&rank, 1, MPI_INT, neighbour(1), 41, MPI_COMM_WORLD, requests + 3);
    expect_success(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE), "MPI_Waitall for MPIX_Comm_ishrink");
    for (MPI_Request request : requests) expect(request == MPI_REQUEST_NULL, "a request is still there");
    expect(from == neighbour(-1), "the message beside MPIX_Comm_ishrink is wrong");
    for (MPI_Comm comm : made_of) made(MPI_SUCCESS, comm, "");
    expect_works(made_of[0], living(), "one of two");
    expect_works(made_of[1], part, "the other one of two");
    meet();
    if (i < deaths.size()) let_die(deaths[i].victim);
  }
  if (rank == living().front()) revoke(of[0]);
  for (const bool by_test : {true, false}) {
    MPI_Comm again = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    const int error = finish(MPIX_Comm_ishrink(of[0], &again, &request), &request, by_test);
    expect_works(made(error, again, "MPIX_Comm_ishrink"), living(), "of a revoked communicator");
  }
}

// As HDF5's exit handler does, which closes files. After a death MPI is left as it is: an error, which ends nothing.
void call_mpi_at_exit() {
  static MPI_Comm comm = copy(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  std::atexit([] {
    if (MPI_Barrier(comm) == MPI_SUCCESS) _exit(1);
  });
}

void finalize() {
  MPI_Comm other = copy(MPI_COMM_WORLD);
  if (!deaths.empty()) call_mpi_at_exit();
  for (const Death& death : deaths) let_die(death.victim);
  meet(other);  // nobody is in a call on MPI_COMM_WORLD
  if (rank == living().back()) revoke(MPI_COMM_WORLD);
  const int error = MPI_Recv(buffer, 1, MPI_INT, neighbour(1), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect_class(error, MPIX_ERR_REVOKED, "MPI_Recv");
  expect_revoked(MPI_COMM_WORLD);
  expect_works(shrunk(MPI_COMM_WORLD), living(), "of MPI_COMM_WORLD");
}

// ---- ranks that know of a revocation, and wait elsewhere ------------------------------------------------------------

// Rank 0 is in a collective of what rank 1 has revoked. The others only test, or probe, for its message elsewhere. Rank
// 1 has more collectives begun there than can be under way at once.
void revoke_testing() {
  MPI_Comm comm = copy(MPI_COMM_WORLD);
  std::vector<MPI_Request> begun(rank == 1 ? 400 : 0);
  std::vector<int> sums(begun.size());
  int word = -1, flag = 0;
  meet();
  if (rank == 0) {
    expect_class(count(comm, &word), MPIX_ERR_REVOKED, "MPI_Allreduce");
    for (int to = 1; to < size; ++to) MPI_Send(&rank, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
  } else if (rank == 1) {
    const int one = 1;
    for (std::size_t i = 0; i < begun.size(); ++i) MPI_Iallreduce(&one, &sums[i], 1, MPI_INT, MPI_SUM, comm, &begun[i]);
    revoke(comm);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request);
    while (flag == 0) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    for (MPI_Request& each : begun) {
      int error = MPI_SUCCESS;
      for (flag = 0; flag == 0;) error = MPI_Test(&each, &flag, MPI_STATUS_IGNORE);
      expect_class(error, MPIX_ERR_REVOKED, "MPI_Test for MPI_Iallreduce");
    }
  } else {
    while (flag == 0) MPI_Iprobe(0, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Recv(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  expect(rank == 0 || word == 0, "not rank 0's message");
  expect_works(shrunk(comm), living(), "shrunk");
  MPI_Comm_free(&comm);
}

// A receive that outlives its communicator, which was revoked.
void revoke_freed() {
  MPI_Comm comm = copy(MPI_COMM_WORLD);
  int word = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&word, 1, MPI_INT, neighbour(1), 8, comm, &request);
  meet();
  revoke(comm);
  MPI_Request from_any = MPI_REQUEST_NULL;
  MPI_Comm other = copy(MPI_COMM_WORLD);
  MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 8, other, &from_any);
  MPI_Comm_free(&comm);
  expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED, "MPI_Wait for what was begun before");
  meet();
  revoke(other);
  expect_class(MPI_Wait(&from_any, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED, "MPI_Wait from any");
  expect(from_any == MPI_REQUEST_NULL, "MPI_Wait from any: the request is still there");
  MPI_Comm_free(&other);
  MPI_Comm third = copy(MPI_COMM_WORLD);
  if (rank == 0) MPI_Comm_free(&third);  // it does not know of the revocation that comes
  meet();
  if (rank != 0) {
    revoke(third);
    MPI_Comm_free(&third);
  }
  expect_works(MPI_COMM_WORLD, living(), "MPI_COMM_WORLD");
}

void revoke_new() {
  for (int i = 0; i < 200; ++i) {
    MPI_Comm comm = copy(MPI_COMM_WORLD);
    int sum = 0;
    if (rank == i % size)
      revoke(comm);
    else
      expect_class(count(comm, &sum), MPIX_ERR_REVOKED, "MPI_Allreduce");
    MPI_Comm_free(&comm);
  }
  expect_works(MPI_COMM_WORLD, living(), "MPI_COMM_WORLD");
}

MPI_Comm repaired_by_handler = MPI_COMM_NULL;
std::jmp_buf out_of_handler;
bool handler_jumps = false;

void repair_in_handler(MPI_Comm* comm, int*, ...) {
  if (repaired_by_handler != MPI_COMM_NULL) return;
  MPI_Comm shrunk_here = MPI_COMM_NULL;
  MPIX_Comm_revoke(*comm);
  MPIX_Comm_shrink(*comm, &shrunk_here);
  repaired_by_handler = shrunk_here;
  if (handler_jumps) std::longjmp(out_of_handler, 1);
}

// The error handler repairs, while ranks make communicators: rank 0 has had none of the errors, and is in a collective.
void handler_repairs() {
  static int turn;  // a jump leaves it alone
  for (turn = 0; turn < 2; ++turn) {
    const bool jumps = turn == 1;
    MPI_Comm comm = copy(MPI_COMM_WORLD), made = MPI_COMM_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    int sum = 0;
    MPI_Comm_create_errhandler(repair_in_handler, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    handler_jumps = jumps && rank != size - 1;
    repaired_by_handler = MPI_COMM_NULL;
    meet();
    if (rank == size - 1) {
      int code = MPI_SUCCESS;
      revoke(comm);
      repair_in_handler(&comm, &code);
    } else if (setjmp(out_of_handler) == 0) {
      if (rank == 0)
        count(comm, &sum);
      else
        MPI_Comm_dup(comm, &made);
    }
    expect(made == MPI_COMM_NULL, "a copy of what is revoked");
    expect_works(repaired_by_handler, living(), "repaired by a handler");
    MPI_Comm_free(&comm);
    MPI_Errhandler_free(&handler);
  }
}

// ---- programs -------------------------------------------------------------------------------------------------------

// Whether all of comm have come here without an error, and live. Each has seen errors.
bool is_well(MPI_Comm comm, int error, int* errors) {
  int flag = error == MPI_SUCCESS;
  if (error != MPI_SUCCESS) {
    ++*errors;
    expect_failure(error, "an error of the work");
    revoke(comm);
  }
  error = MPIX_Comm_agree(comm, &flag);
  if (error != MPI_SUCCESS) expect_class(error, MPIX_ERR_PROC_FAILED, "MPIX_Comm_agree");
  return error == MPI_SUCCESS && flag == 1;
}

// The loop of both programs: work, until all have done it. After a failure the living ranks go back, and go on.
MPI_Comm until_done(const std::function<int(MPI_Comm)>& work, const std::function<int(MPI_Comm)>& go_back,
                    int* errors) {
  MPI_Comm comm = copy(MPI_COMM_WORLD);
  for (bool is_new = false; (is_new && !is_well(comm, go_back(comm), errors)) || !is_well(comm, work(comm), errors);) {
    MPI_Comm next = shrunk(comm);
    expect_success(MPI_Comm_free(&comm), "MPI_Comm_free");
    comm = next;
    is_new = true;
  }
  return comm;
}

void rebuild() {
  constexpr int iterations = 400, late = 100;
  const int mine = index_of_mine(), share = (iterations - late) / std::max(1, static_cast<int>(deaths.size()));
  std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
  const int last = mine < 0 ? iterations : mine * share + static_cast<int>(random() % static_cast<unsigned>(share));
  const auto how = random() % 3, us = random() % 300;
  const bool only_sums = options.contains("sums");
  int done = 0, errors = 0;
  const auto go_back = [&](MPI_Comm comm) {
    int least = 0;
    const int error = MPI_Allreduce(&done, &least, 1, MPI_INT, MPI_MIN, comm);
    if (error == MPI_SUCCESS) done = least;
    return error;
  };
  const auto work = [&](MPI_Comm comm) {
    int sum = 0, from = -1;
    for (const int members = Place(comm).members; done < iterations; ++done) {
      if (done == last && how == 0) die_in(static_cast<int>(us));
      if ((done == last && how == 1) || done == last + late / 2) die();
      int error = only_sums ? MPI_SUCCESS : ring(comm, done, &from);
      if (done == last && how == 2) die();
      if (error == MPI_SUCCESS) error = count(comm, &sum);
      if (error != MPI_SUCCESS) return error;
      expect(only_sums || from == done, "a message of another round");
      const int fewest = raises ? members : size - static_cast<int>(deaths.size());
      expect(fewest <= sum && sum <= members, "a sum of " + std::to_string(sum) + " of " + std::to_string(members));
    }
    return MPI_SUCCESS;
  };
  MPI_Comm comm = until_done(work, go_back, &errors);
  for (const Death& death : deaths) dead.insert(death.victim);
  expect(errors > 0 || deaths.empty() || !raises, "this rank has seen no error");
  for (int i = 0; i < 20; ++i) expect_works(comm, living(), "in the end");
  expect_alike(comm, {done}, "the iterations");
}

constexpr int cells = 24;
constexpr double enough = 1e-9;

// One iteration of the cells from the first on, which are between two of others. How much it changes.
double relax(std::vector<double>* u, int first) {
  std::vector<double> next = *u;
  double change = 0;
  for (std::size_t i = 1; i + 1 < u->size(); ++i) {
    const double source = std::cos(0.3 * (first + static_cast<int>(i))) / (cells * cells);
    next[i] = ((*u)[i - 1] + (*u)[i + 1] + source) / 2;
    change = std::max(change, std::fabs(next[i] - (*u)[i]));
  }
  *u = next;
  return change;
}

struct Block {
  int owner = -1, first = 0;   // owner: in the world
  std::vector<double> values;  // without its neighbours'
};

struct Checkpoint {
  int id = 0, iteration = 0;
  Block mine, befores;
};

struct Solver {
  int iteration = 0, id = 0, first = 0;  // id: of the last checkpoint
  std::vector<double> u;
  Checkpoint checkpoints[2];  // the last one, and that before, as others may not have the last one

  void take(const Place& place, const std::vector<double>& all) {
    first = cells * place.at / place.members;
    u.assign(static_cast<std::size_t>(cells * (place.at + 1) / place.members - first) + 2, 0);
    std::copy_n(all.begin() + first, u.size() - 2, u.begin() + 1);
  }

  // At the rank behind this one, too.
  int save(MPI_Comm comm) {
    const Place place(comm);
    Checkpoint next = {id + 1, iteration, {rank, first, {u.begin() + 1, u.end() - 1}}, {}};
    std::array<double, cells + 3> mine = {double(rank), double(first), double(u.size() - 2)}, befores = {};
    std::copy(u.begin() + 1, u.end() - 1, mine.begin() + 3);
    const int error = MPI_Sendrecv(mine.data(), cells + 3, MPI_DOUBLE, place.next(), 1, befores.data(), cells + 3,
                                   MPI_DOUBLE, place.before(), 1, comm, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) return error;
    next.befores = {int(befores[0]), int(befores[1]), {&befores[3], &befores[3] + int(befores[2])}};
    checkpoints[++id % 2] = next;
    return MPI_SUCCESS;
  }

  // The last checkpoint that all have. Blocks of the dead come from those behind them.
  int restore(MPI_Comm comm) {
    int least = 0, error = MPI_Allreduce(&id, &least, 1, MPI_INT, MPI_MIN, comm);
    const Checkpoint& last = checkpoints[least % 2];
    std::vector<double> given(2 * cells), all(2 * cells);  // values, and who has them
    const std::vector<int> ranks = ranks_of(comm);
    for (const Block* block : {&last.mine, &last.befores}) {
      if (block == &last.befores && std::count(ranks.begin(), ranks.end(), block->owner) > 0) continue;
      std::copy(block->values.begin(), block->values.end(), given.begin() + block->first);
      std::fill_n(given.begin() + cells + block->first, block->values.size(), 1);
    }
    if (error == MPI_SUCCESS) error = MPI_Allreduce(given.data(), all.data(), 2 * cells, MPI_DOUBLE, MPI_SUM, comm);
    if (error != MPI_SUCCESS) return error;
    expect(last.id == least, "the checkpoint is gone");
    iteration = last.iteration;
    id = least;
    if (std::count(all.begin() + cells, all.end(), 1) != cells) {
      expect(deaths.size() > 1, "a block is lost");  // two neighbours have died together
      all.assign(all.size(), 0);
      iteration = 0;
    }
    take(Place(comm), all);
    return MPI_SUCCESS;
  }

  int iterate(MPI_Comm comm, double* change) {
    const Place place(comm);
    const int left = place.at == 0 ? MPI_PROC_NULL : place.at - 1;
    const int right = place.at == place.members - 1 ? MPI_PROC_NULL : place.at + 1;
    int error =
        MPI_Sendrecv(&u[1], 1, MPI_DOUBLE, left, 2, &u.back(), 1, MPI_DOUBLE, right, 2, comm, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS)
      error = MPI_Sendrecv(&u[u.size() - 2], 1, MPI_DOUBLE, right, 3, &u.front(), 1, MPI_DOUBLE, left, 3, comm,
                           MPI_STATUS_IGNORE);
    const double mine = error == MPI_SUCCESS ? relax(&u, first) : 0;
    return error == MPI_SUCCESS ? MPI_Allreduce(&mine, change, 1, MPI_DOUBLE, MPI_MAX, comm) : error;
  }
};

void solver() {
  std::vector<double> serial(cells + 2);
  int iterations = 1, errors = 0;
  while (relax(&serial, 0) >= enough) ++iterations;
  const int mine = index_of_mine(), given = mine < 0 ? -1 : deaths[static_cast<std::size_t>(mine)].when;
  const int when = mine < 0 ? -1 : given < 0 ? 100 : given;
  std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
  Solver solver;
  solver.take(Place(MPI_COMM_WORLD), std::vector<double>(cells));
  const auto work = [&](MPI_Comm comm) {
    int error = MPI_SUCCESS;
    for (double change = 1; error == MPI_SUCCESS && change >= enough; ++solver.iteration) {
      if (solver.iteration == when) die_in(static_cast<int>(random() % 200));
      if (solver.iteration % 20 == 0) error = solver.save(comm);
      if (error == MPI_SUCCESS) error = solver.iterate(comm, &change);
    }
    if (mine >= 0 && error == MPI_SUCCESS) die();
    return error;
  };
  const auto go_back = [&](MPI_Comm comm) { return solver.restore(comm); };
  MPI_Comm comm = until_done(work, go_back, &errors);
  for (const Death& death : deaths) dead.insert(death.victim);
  expect_works(comm, living(), "in the end");
  expect_same({solver.iteration}, {iterations}, "the iterations");
  for (std::size_t i = 1; i + 1 < solver.u.size(); ++i) {
    const std::size_t cell = static_cast<std::size_t>(solver.first) + i;
    expect(std::fabs(solver.u[i] - serial[cell]) <= 1e-9, "cell " + std::to_string(cell) + " is wrong");
  }
}

}  // namespace

// ULFM's calls (mpi-ext.h), each alone and as programs use them, with and without deaths.
//
//   mpi_ulfm CASE [RANK[:NUMBER] ...] [seed=N] [OPTION]
//
// The ranks given die, one after the other; without any it is rank 1, where the case has deaths, or nobody with "none".
//
//   revoke_idle        nobody dies; ranks that add up for ever end when rank 0 revokes, and what is left of it
//   revoke_p2p         every kind of message that is waited for ends by a revocation
//   revoke_collective  and every kind of collective
//   revoke_twice       by one rank, and by several at once
//   revoke_dying       by ranks that die at once, or NUMBER us after they have called it: all learn of it, or none
//   revoke_testing     ranks that only test and probe elsewhere know of a revocation
//   revoke_freed       a receive outlives what was revoked; it is freed on one rank before another revokes it
//   revoke_new         at once, while others are still in its making
//   handler_repairs    by revoking and shrinking, and by a jump out of it
//   rebuild            the loop of most programs: add up; after an error revoke, shrink, and go on; the seed says when
//                      ranks die. sums: without messages
//   agree, iagree      flags, and failures that nobody, some, and all have acknowledged; further ranks die in a row of
//                      agreements (agree: the second given and later ones)
//   failed             the groups of those that have failed, and of those that are acknowledged
//   any                receives from any, which wait for what is acknowledged
//   classes            error classes and texts; error handlers of the program's own
//   shrink_world       after each death, and while a rank dies NUMBER us after it has entered
//   ishrink            two at once; swapped: waited for in different orders
//   solver             Jacobi's iteration with checkpoints at a neighbour; ranks die in iteration NUMBER (100)
//   finalize           MPI_COMM_WORLD is revoked
//
// All go with UCFT_MPI_ON_FAILURE=raise too. With DIE_BY=exit the dead end with an exit code, not by a signal.
#include "mpi_ulfm_programs.hpp"

namespace {

// ---- revocation -----------------------------------------------------------------------------------------------------

struct Kind {
  const char* name;
  std::function<int(MPI_Comm comm, int peer)> wait;
  bool of_all = true;  // nobody is through without rank 0
};

int receive(MPI_Comm comm, int peer, MPI_Request* request) {
  return MPI_Irecv(buffer, 1, MPI_INT, peer, 22, comm, request);
}

int wait_for_some(MPI_Request* request) {
  int done = 0, index = -1;
  MPI_Status status;
  expect_in_status(MPI_Waitsome(1, request, &done, &index, &status), "MPI_Waitsome");
  expect(done == 1 && index == 0, "the index of MPI_Waitsome");
  return done == 1 ? status.MPI_ERROR : MPI_SUCCESS;
}

// A receive that is begun, and ends by error: it is gone.
Kind of_request(const char* name, std::function<int(MPI_Request*)> wait) {
  return {name, [name, wait](MPI_Comm comm, int peer) {
            MPI_Request request = MPI_REQUEST_NULL;
            const int begun = receive(comm, peer, &request), error = begun == MPI_SUCCESS ? wait(&request) : begun;
            expect(request == MPI_REQUEST_NULL, std::string(name) + ": the request is still there");
            return error;
          }};
}

void revoke_p2p() {
  static std::vector<int> large(1'000'000);
  MPI_Message message;
  int index = -1;
  const auto ignore = MPI_STATUS_IGNORE;
  const std::vector<Kind> kinds = {
      {"MPI_Recv", [&](MPI_Comm comm, int peer) { return MPI_Recv(buffer, 1, MPI_INT, peer, 1, comm, ignore); }},
      of_request("MPI_Wait", [](MPI_Request* request) { return finish(MPI_SUCCESS, request); }),
      of_request("MPI_Waitall", wait_for_two),
      {"MPI_Probe", [&](MPI_Comm comm, int peer) { return MPI_Probe(peer, 2, comm, ignore); }},
      {"MPI_Ssend", [](MPI_Comm comm, int peer) { return MPI_Ssend(&rank, 1, MPI_INT, peer, 3, comm); }},
      {"MPI_Recv from any",
       [&](MPI_Comm comm, int) { return MPI_Recv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, 4, comm, ignore); }},
      {"MPI_Start", wait_persistently},
      {"MPI_Sendrecv",
       [&](MPI_Comm comm, int peer) {
         return MPI_Sendrecv(&rank, 1, MPI_INT, peer, 5, buffer, 1, MPI_INT, peer, 6, comm, ignore);
       }},
      of_request("MPI_Waitany", [&](MPI_Request* request) { return MPI_Waitany(1, request, &index, ignore); }),
      of_request("MPI_Waitsome", wait_for_some),
      of_request("MPI_Test", [](MPI_Request* request) { return finish(MPI_SUCCESS, request, true); }),
      {"MPI_Mprobe", [&](MPI_Comm comm, int peer) { return MPI_Mprobe(peer, 7, comm, &message, ignore); }},
      {"MPI_Send", [](MPI_Comm comm, int peer) { return MPI_Send(large.data(), 1'000'000, MPI_INT, peer, 8, comm); }},
  };
  const int number = static_cast<int>(kinds.size());
  for (int round = 0; round < number; ++round) {
    MPI_Comm comm = copy(MPI_COMM_WORLD);
    const Kind& kind = kinds[static_cast<std::size_t>((rank + round) % number)];
    meet();
    if (rank == round % size) {
      sleep_ms(20);  // most wait by then
      revoke(comm);
    } else {
      expect_class(kind.wait(comm, (rank + 1) % size), MPIX_ERR_REVOKED, kind.name);
    }
    expect_success(MPI_Comm_free(&comm), "MPI_Comm_free");
  }
}

void revoke_collective() {
  static std::vector<int> in(64, 1), out(64);
  const int *from = in.data(), colour = 0;
  int* to = out.data();
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  const std::vector<Kind> kinds = {
      {"MPI_Allreduce", [&](MPI_Comm comm, int) { return MPI_Allreduce(from, to, 1, MPI_INT, MPI_SUM, comm); }},
      {"MPI_Barrier", [&](MPI_Comm comm, int) { return MPI_Barrier(comm); }},
      {"MPI_Bcast", [&](MPI_Comm comm, int) { return MPI_Bcast(to, 1, MPI_INT, 0, comm); }},
      {"MPI_Gather", [&](MPI_Comm comm, int) { return MPI_Gather(from, 1, MPI_INT, to, 1, MPI_INT, 1, comm); },
       rank == 1},
      {"MPI_Reduce", [&](MPI_Comm comm, int) { return MPI_Reduce(from, to, 1, MPI_INT, MPI_SUM, 1, comm); }, rank == 1},
      {"MPI_Alltoall", [&](MPI_Comm comm, int) { return MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, comm); }},
      {"MPI_Allgather", [&](MPI_Comm comm, int) { return MPI_Allgather(from, 1, MPI_INT, to, 1, MPI_INT, comm); }},
      {"MPI_Scan", [&](MPI_Comm comm, int) { return MPI_Scan(from, to, 1, MPI_INT, MPI_SUM, comm); }},
      {"MPI_Iallreduce",
       [&](MPI_Comm comm, int) {
         return finish(MPI_Iallreduce(from, to, 1, MPI_INT, MPI_SUM, comm, &request), &request);
       }},
      {"MPI_Ibarrier", [&](MPI_Comm comm, int) { return finish(MPI_Ibarrier(comm, &request), &request, true); }},
      {"MPI_Comm_dup", [&](MPI_Comm comm, int) { return MPI_Comm_dup(comm, &other); }},
      {"MPI_Comm_split", [&](MPI_Comm comm, int) { return MPI_Comm_split(comm, colour, rank, &other); }},
  };
  for (const Kind& kind : kinds) {
    MPI_Comm comm = copy(MPI_COMM_WORLD);
    int error = MPI_SUCCESS, through = 0;
    meet();
    if (rank == 0) {
      sleep_ms(20);  // most wait by then
      revoke(comm);
    }
    while (error == MPI_SUCCESS) {
      error = kind.wait(comm, 0);
      through += error == MPI_SUCCESS;
    }
    expect_class(error, MPIX_ERR_REVOKED, kind.name);
    expect(!kind.of_all || through == 0, std::string(kind.name) + " went on without rank 0");
    expect_success(MPI_Comm_free(&comm), "MPI_Comm_free");
  }
}

void revoke_idle() {
  constexpr int rounds = 50;
  MPI_Comm comm = copy(MPI_COMM_WORLD), child = copy(comm);
  expect(!is_revoked(comm), "a new communicator is revoked");
  meet();
  int through = 0, error = MPI_SUCCESS;
  while (error == MPI_SUCCESS && !(rank == 0 && through == rounds)) {
    int sum = 0;
    error = count(comm, &sum);
    if (error != MPI_SUCCESS) break;
    ++through;
    expect(sum == size, "a sum of " + std::to_string(sum));
  }
  if (rank == 0) {
    expect_success(error, "a sum before it is revoked");
    revoke(comm);
  } else {
    expect_class(error, MPIX_ERR_REVOKED, "a sum that rank 0 doesn't join");
    expect(through <= rounds, "more sums than rank 0 has joined");
  }
  expect_revoked(comm);
  expect_agreed(comm, without(rank), without_all(living()), MPI_SUCCESS, "MPIX_Comm_agree on a revoked communicator");
  MPI_Comm same = shrunk(comm);
  expect_works(same, living(), "of a revoked communicator");
  for (MPI_Comm each : {same, child, MPI_COMM_WORLD}) expect(!is_revoked(each), "another communicator is revoked");
  expect_success(MPI_Comm_free(&comm), "MPI_Comm_free of a revoked communicator");
  expect_works(child, living(), "its copy of before");
  expect_works(MPI_COMM_WORLD, living(), "MPI_COMM_WORLD");
  expect_success(MPI_Comm_free(&child), "MPI_Comm_free");
  expect_success(MPI_Comm_free(&same), "MPI_Comm_free");
}

void revoke_twice() {
  for (const int step : {size, 2, 1}) {  // rank 0, the even ones, all
    MPI_Comm comm = copy(MPI_COMM_WORLD);
    meet();
    if (rank % step == 0) revoke(comm);
    if (rank % step == 0) revoke(comm);
    const int error = MPI_Recv(buffer, 1, MPI_INT, (rank + 1) % size, 1, comm, MPI_STATUS_IGNORE);
    expect_class(error, MPIX_ERR_REVOKED, "MPI_Recv");
    expect_revoked(comm);
    if (rank == size - 1) revoke(comm);  // late
    meet();
    expect_works(shrunk(comm), living(), "of what was revoked more than once");
    expect_success(MPI_Comm_free(&comm), "MPI_Comm_free");
  }
  expect_works(MPI_COMM_WORLD, living(), "MPI_COMM_WORLD");
}

void revoke_dying() {
  std::vector<MPI_Comm> comms;
  for (std::size_t i = 0; i < deaths.size(); ++i) comms.push_back(copy(MPI_COMM_WORLD));
  for (std::size_t i = 0; i < deaths.size(); ++i) {
    MPI_Comm comm = comms[i];
    const auto [victim, when] = deaths[i];
    meet();
    if (rank == victim) {
      sleep_ms(20);  // most wait by then
      if (when >= 0) die_in(when);
      MPIX_Comm_revoke(comm);
      die();
    }
    int error = MPI_Recv(buffer, 1, MPI_INT, victim, 1, comm, MPI_STATUS_IGNORE), knows = 0;
    expect_failure(error, "MPI_Recv from one that has revoked and died");
    await_death(victim);
    meet();
    error = MPI_Barrier(comm);
    if (error != MPIX_ERR_REVOKED && !raises) expect_success(error, "MPI_Barrier");
    if (raises) expect_failure(error, "MPI_Barrier");
    const int mine = is_revoked(comm);
    expect(mine != 0 || error != MPIX_ERR_REVOKED, "an error of what isn't revoked");
    MPI_Comm others = shrunk(MPI_COMM_WORLD);
    expect_success(MPI_Allreduce(&mine, &knows, 1, MPI_INT, MPI_MAX, others), "MPI_Allreduce");
    if (knows != 0) {  // then I shall, too
      int flag = 0;
      do error = MPI_Iprobe(rank, 1, comm, &flag, MPI_STATUS_IGNORE);
      while (error == MPI_SUCCESS);
      expect_revoked(comm);
    }
    expect_works(shrunk(comm), living(), "of what a dying rank has revoked");
    expect_works(others, living(), "MPI_COMM_WORLD, shrunk");
  }
}

// ---- agreement ------------------------------------------------------------------------------------------------------

// Of a rank in a round: most bits are set.
int flags_of(int round, int of_rank) {
  std::mt19937 random(seed + 7919U * static_cast<unsigned>(round) + 131U * static_cast<unsigned>(of_rank));
  const auto some = random(), others = random();
  return static_cast<int>(static_cast<unsigned>(some | others));
}

int flags_of_all(int round, const std::vector<int>& ranks) {
  int flags = -1;
  for (int r : ranks) flags &= flags_of(round, r);
  return flags;
}

// Those from the second on die, each in its share of the rounds.
void agree_in_a_row() {
  constexpr int rounds = 400;
  MPI_Comm comm = shrunk(MPI_COMM_WORLD);
  const std::vector<int> all = living();
  std::vector<int> survivors = all, results;
  for (std::size_t i = 1; i < deaths.size(); ++i) std::erase(survivors, deaths[i].victim);
  const int mine = index_of_mine(1), share = rounds / static_cast<int>(std::max<std::size_t>(deaths.size(), 2) - 1);
  std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
  const int last = mine < 0 ? -1 : mine * share + static_cast<int>(random() % static_cast<unsigned>(share));
  bool has_failed = false;
  for (int round = 0; round < rounds; ++round) {
    if (round == last) die_in(static_cast<int>(random() % 200));
    int flag = flags_of(round, rank);
    const int error = MPIX_Comm_agree(comm, &flag), of_all = flags_of_all(round, all);
    if (error == MPI_SUCCESS) {
      expect(!has_failed, "MPIX_Comm_agree: a failure that nobody has acknowledged is gone");
      expect_same({flag}, {of_all}, "MPIX_Comm_agree: the flag");
    } else {
      has_failed = true;
      expect_class(error, MPIX_ERR_PROC_FAILED, "MPIX_Comm_agree");
      expect((flag & of_all) == of_all && (flag & ~flags_of_all(round, survivors)) == 0, "it is nobody's flag");
    }
    results.insert(results.end(), {error, flag});
  }
  if (mine >= 0) die();
  for (std::size_t i = 1; i < deaths.size(); ++i) await_death(deaths[i].victim);
  MPI_Comm end = shrunk(comm);
  expect_works(end, living(), "after agreements");
  expect_alike(end, results, "agreements");
}

void agree() {
  for (int bit = 0; bit < 32; ++bit) {
    const int alone = static_cast<int>(1U << bit);
    expect_agreed(MPI_COMM_WORLD, rank == bit % size ? without(bit) : -1, without(bit), MPI_SUCCESS, "all but a bit");
    expect_agreed(MPI_COMM_WORLD, alone, alone, MPI_SUCCESS, "a bit");
  }
  expect_agreed(MPI_COMM_WORLD, rank == 0 ? INT_MIN : -1 - rank, INT_MIN, MPI_SUCCESS, "negative flags");
  expect_agreed(MPI_COMM_WORLD, rank == size - 1 ? 0 : -1, 0, MPI_SUCCESS, "no flags");
  if (!deaths.empty()) {
    meet();
    let_die(deaths.front().victim);
    const int wanted = without_all(living());
    const auto again = [&](int error, const char* what) {
      expect_agreed(MPI_COMM_WORLD, without(rank), wanted, error, what);
    };
    again(MPIX_ERR_PROC_FAILED, "acknowledged by nobody");
    again(MPIX_ERR_PROC_FAILED, "acknowledged by nobody yet");
    if (rank == living().front()) acknowledge(MPI_COMM_WORLD);
    if (living().size() > 1) again(MPIX_ERR_PROC_FAILED, "acknowledged by one");
    acknowledge(MPI_COMM_WORLD);
    again(MPI_SUCCESS, "acknowledged by all");
    again(MPI_SUCCESS, "acknowledged by all before");
  }
  agree_in_a_row();
}

// On MPI_COMM_WORLD, with this error, and on another one, with none, among messages.
void agree_among_others(MPI_Comm other, int wanted_error) {
  const int given[2] = {without(rank), rank == living().back() ? 5 : 7};
  int flags[2] = {given[0], given[1]}, from = -1;
  MPI_Request requests[4];
  MPI_Status statuses[4];
  for (int i : {rank % 2, 1 - rank % 2}) {
    expect_success(MPIX_Comm_iagree(i == 0 ? MPI_COMM_WORLD : other, flags + i, requests + i), "MPIX_Comm_iagree");
    flags[i] = 0;  // it has been read
  }
  MPI_Irecv(&from, 1, MPI_INT, neighbour(-1), 41, MPI_COMM_WORLD, requests + 2);
  MPI_Isend(&rank, 1, MPI_INT, neighbour(1), 41, MPI_COMM_WORLD, requests + 3);
  const int error = MPI_Waitall(4, requests, statuses);
  if (wanted_error == MPI_SUCCESS) {
    expect_success(error, "MPI_Waitall");
  } else {
    expect_in_status(error, "MPI_Waitall");
    expect_class(statuses[0].MPI_ERROR, wanted_error, "MPIX_Comm_iagree in MPI_Waitall");
    for (int i : {1, 2, 3}) {
      int& of_this = statuses[i].MPI_ERROR;
      if (of_this == MPI_ERR_PENDING) of_this = MPI_Wait(requests + i, MPI_STATUS_IGNORE);
      expect_success(of_this, "another request in MPI_Waitall");
    }
  }
  expect_same({flags[0], flags[1]}, {without_all(living()), 5}, "MPIX_Comm_iagree: the flags");
  expect(from == neighbour(-1), "the message beside MPIX_Comm_iagree is wrong");
  for (MPI_Request request : requests) expect(request == MPI_REQUEST_NULL, "a request is still there");
}

void iagree() {
  MPI_Comm twin = copy(MPI_COMM_WORLD), last = copy(MPI_COMM_WORLD);
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = without(rank);
  agree_among_others(twin, MPI_SUCCESS);
  expect_success(finish(MPIX_Comm_iagree(twin, &flag, &request), &request, true), "MPI_Test for MPIX_Comm_iagree");
  expect_same({flag}, {without_all(living())}, "MPIX_Comm_iagree with MPI_Test: the flag");
  std::vector<int> results;
  for (const Death& death : deaths) {
    const int before = without_all(living());
    flag = without(rank);
    expect_success(MPIX_Comm_iagree(last, &flag, &request), "MPIX_Comm_iagree");
    meet();  // by all
    if (rank == death.victim && death.when >= 0) die_in(death.when);
    if (rank == death.victim && death.when >= 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    let_die(death.victim);
    const int error = MPI_Wait(&request, MPI_STATUS_IGNORE), after = without_all(living());
    if (error != MPI_SUCCESS) expect_class(error, MPIX_ERR_PROC_FAILED, "MPI_Wait for MPIX_Comm_iagree");
    expect(flag == before || (flag == after && error != MPI_SUCCESS), "it is nobody's flag");
    results.insert(results.end(), {error, flag});
    meet();
    MPI_Comm others = shrunk(MPI_COMM_WORLD);
    agree_among_others(others, MPIX_ERR_PROC_FAILED);
    acknowledge(MPI_COMM_WORLD);
    acknowledge(last);
    agree_among_others(others, MPI_SUCCESS);
    expect_alike(others, results, "MPIX_Comm_iagree");
  }
  if (rank == living().back()) revoke(twin);
  flag = without(rank);
  const int error = finish(MPIX_Comm_iagree(twin, &flag, &request), &request), wanted = without_all(living());
  expect_class(error, deaths.empty() ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED, "MPIX_Comm_iagree, revoked");
  expect_same({flag}, {wanted}, "MPIX_Comm_iagree, revoked: the flag");
}

// ---- failures -------------------------------------------------------------------------------------------------------

std::vector<int> those(int (*call)(MPI_Comm, MPI_Group*), MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_EMPTY;
  expect_success(call(comm, &group), "a group of those that have failed");
  const std::vector<int> ranks = ranks_of_group(group);
  if (group != MPI_GROUP_EMPTY) MPI_Group_free(&group);
  return ranks;
}

std::vector<int> failed_in(MPI_Comm comm) { return those(MPIX_Comm_get_failed, comm); }
std::vector<int> acked_in(MPI_Comm comm) { return those(MPIX_Comm_failure_get_acked, comm); }

void failed() {
  MPI_Comm twin = copy(MPI_COMM_WORLD), part = half(), comms[] = {MPI_COMM_WORLD, twin, part};
  std::vector<int> known, of_part;  // in the order of their deaths
  int acked = -1, most = 0;
  MPI_Group earlier = MPI_GROUP_EMPTY, none = MPI_GROUP_EMPTY;
  expect_success(MPIX_Comm_get_failed(MPI_COMM_WORLD, &none), "MPIX_Comm_get_failed");
  for (MPI_Comm comm : comms) {
    expect_same(failed_in(comm), {}, "nobody has failed");
    expect_success(MPIX_Comm_ack_failed(comm, 5, &acked), "MPIX_Comm_ack_failed");
    expect(acked == 0, "nobody that has failed is acknowledged");
  }
  for (const Death& death : deaths) {
    meet();
    let_die(death.victim);
    known.push_back(death.victim);
    if (death.victim % 2 == rank % 2) of_part.push_back(death.victim);
    for (MPI_Comm comm : comms) expect_same(failed_in(comm), comm == part ? of_part : known, "MPIX_Comm_get_failed");
    for (MPI_Comm comm : comms) expect_same(acked_in(comm), {}, "acknowledged before it was");
    expect_same(ranks_of_group(earlier), {known.begin(), known.end() - 1}, "the earlier group has changed");
    MPIX_Comm_get_failed(MPI_COMM_WORLD, &earlier);
  }
  expect_same(ranks_of_group(none), {}, "the group of before has changed");
  const int number = static_cast<int>(known.size());
  for (int to_ack : {0, 1, 0, 1, number, 1, number + 5}) {
    most = std::max(most, std::min(to_ack, number));
    expect_success(MPIX_Comm_ack_failed(MPI_COMM_WORLD, to_ack, &acked), "MPIX_Comm_ack_failed");
    expect_same({acked}, {most}, "the number of those that are acknowledged");
    expect_same(acked_in(MPI_COMM_WORLD), {known.begin(), known.begin() + most}, "the acknowledged");
    const int error = most == number ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED;
    expect_agreed(MPI_COMM_WORLD, -1, -1, error, std::to_string(most) + " are acknowledged");
  }
  expect_same(acked_in(twin), {}, "acknowledged on another communicator");
  expect_success(MPIX_Comm_ack_failed(twin, 1, &acked), "MPIX_Comm_ack_failed");
  expect_same(acked_in(twin), {known.begin(), known.begin() + std::min(number, 1)}, "one is acknowledged");
  expect_success(MPIX_Comm_failure_ack(twin), "MPIX_Comm_failure_ack");
  expect_same(acked_in(twin), known, "MPIX_Comm_failure_ack: all are acknowledged");
  expect_same(acked_in(part), {}, "acknowledged in another part");
  expect_success(MPIX_Comm_failure_ack(part), "MPIX_Comm_failure_ack");
  expect_same(acked_in(part), of_part, "MPIX_Comm_failure_ack: all of the part");
  for (MPI_Comm comm : comms) expect_agreed(comm, 3, 3, MPI_SUCCESS, "all are acknowledged");
  MPI_Group group = MPI_GROUP_EMPTY, of_comm = MPI_GROUP_EMPTY;
  MPIX_Comm_get_failed(part, &group);
  MPI_Comm_group(part, &of_comm);
  for (int i = 0; i < static_cast<int>(of_part.size()); ++i) {
    int there = -1;
    MPI_Group_translate_ranks(group, 1, &i, of_comm, &there);  // the last rank of the world is the part's first
    expect_same({there}, {(size - 1 - of_part[static_cast<std::size_t>(i)]) / 2}, "its rank in the part");
  }
}

int wait_for_any(std::size_t kind, MPI_Comm comm, MPI_Request* request) {
  int index = -1;
  switch (kind) {
    case 0: return MPI_Wait(request, MPI_STATUS_IGNORE);
    case 1: return finish(MPI_SUCCESS, request, true);
    case 2: return wait_for_two(request);
    case 3: return MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
    case 4: return MPI_Recv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, 5, comm, MPI_STATUS_IGNORE);
    default: return MPI_Probe(MPI_ANY_SOURCE, 5, comm, MPI_STATUS_IGNORE);
  }
}

void any() {
  const std::vector<std::string> kinds = {"MPI_Wait",    "MPI_Test", "MPI_Waitall",
                                          "MPI_Waitany", "MPI_Recv", "MPI_Probe"};
  constexpr std::size_t begun = 4;
  std::vector<MPI_Comm> comms;
  for (std::size_t i = 0; i < kinds.size(); ++i) comms.push_back(copy(MPI_COMM_WORLD));
  for (const Death& death : deaths) {
    std::vector<int> from(kinds.size(), -1);
    std::vector<MPI_Request> requests(kinds.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < begun; ++i) MPI_Irecv(&from[i], 1, MPI_INT, MPI_ANY_SOURCE, 5, comms[i], &requests[i]);
    meet();
    if (rank == death.victim) let_die(rank);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const int error = wait_for_any(i, comms[i], &requests[i]);
      if (i < begun || (i > begun && error == MPIX_ERR_PROC_FAILED_PENDING))
        expect_class(error, MPIX_ERR_PROC_FAILED_PENDING, kinds[i] + " from any");
      else
        expect_class(error, MPIX_ERR_PROC_FAILED, kinds[i] + " from any");
      expect(i >= begun || requests[i] != MPI_REQUEST_NULL, kinds[i] + " from any: the request is gone");
    }
    await_death(death.victim);
    for (MPI_Comm comm : comms) acknowledge(comm);
    meet();
    for (std::size_t i = 0; i < begun; ++i) {  // nobody has sent yet
      int flag = 0;
      expect_success(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE), "MPI_Test, acknowledged");
      expect(flag == 0 && requests[i] != MPI_REQUEST_NULL, "MPI_Test, acknowledged: it is over");
    }
    meet();
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      MPI_Status status;
      const int word = 100 * static_cast<int>(i), source = neighbour(-1);
      const int mine = word + rank;
      expect_success(MPI_Send(&mine, 1, MPI_INT, neighbour(1), 5, comms[i]), "MPI_Send");
      if (i > begun) expect_success(MPI_Probe(MPI_ANY_SOURCE, 5, comms[i], &status), "MPI_Probe, acknowledged");
      const int error = i < begun ? MPI_Wait(&requests[i], &status)
                                  : MPI_Recv(&from[i], 1, MPI_INT, MPI_ANY_SOURCE, 5, comms[i], &status);
      expect_success(error, kinds[i] + " from any, acknowledged");
      expect_same({from[i], status.MPI_SOURCE}, {word + source, source}, kinds[i] + " from any: the message");
    }
    meet();
  }
}

std::vector<int> handled;  // the codes
MPI_Comm handled_comm = MPI_COMM_NULL;

void handle(MPI_Comm* comm, int* code, ...) {
  handled.push_back(*code);
  handled_comm = *comm;
}

void classes() {
  const std::set<int> all = {MPI_SUCCESS, MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
  int own = -1, index = -1;
  expect_success(MPI_Add_error_class(&own), "MPI_Add_error_class");
  expect(all.size() == 4 && !all.contains(own), "classes are the same");
  MPI_Comm comm = copy(MPI_COMM_WORLD);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  const auto expect_handled = [&](int error, int wanted, const std::string& what) {
    expect_class(error, wanted, what);
    expect(!text(error).empty(), what + ": no text");
    expect_same(handled, {wanted}, what + ": the codes that the handler had");
    expect(handled_comm == comm, what + ": the communicator that the handler had");
    handled.clear();
    handled_comm = MPI_COMM_NULL;
  };
  for (const Death& death : deaths) {
    meet();
    let_die(death.victim);
    for (int victim : dead) {
      const int error = MPI_Recv(buffer, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(error == MPIX_ERR_PROC_FAILED, "it isn't its own class");
      expect(text(error).find("rank " + std::to_string(victim) + " ") != std::string::npos, text(error));
      expect(handled.empty(), "the handler of another communicator was called");
    }
  }
  const int victim = deaths.front().victim;
  MPI_Request request = MPI_REQUEST_NULL;
  expect_handled(MPI_Recv(buffer, 1, MPI_INT, victim, 1, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED, "MPI_Recv");
  expect_handled(MPI_Ssend(&rank, 1, MPI_INT, victim, 1, comm), MPIX_ERR_PROC_FAILED, "MPI_Ssend");
  MPI_Irecv(buffer, 1, MPI_INT, victim, 1, comm, &request);
  expect_handled(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED, "MPI_Wait");
  MPI_Irecv(buffer, 1, MPI_INT, victim, 1, comm, &request);
  expect_handled(MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED, "MPI_Waitany");
  MPI_Irecv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &request);
  expect_handled(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING, "MPI_Wait for any");
  int flag = 1;
  expect_handled(MPIX_Comm_agree(comm, &flag), MPIX_ERR_PROC_FAILED, "MPIX_Comm_agree");
  acknowledge(comm);
  meet();
  if (rank == living().back()) revoke(comm);
  expect(handled.empty(), "a revocation is no error");
  expect_handled(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED, "MPI_Wait, revoked");
  expect_handled(MPI_Recv(buffer, 1, MPI_INT, neighbour(1), 1, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED, "MPI_Recv");
  expect_handled(MPI_Barrier(comm), MPIX_ERR_REVOKED, "MPI_Barrier");
  for (int each : all) expect(!text(each).empty() && class_of(each) == each, "a class has no text");
}

struct Case {
  std::function<void()> run;
  bool has_deaths = true;
};

const std::map<std::string, Case> cases = {
    {"revoke_idle", {revoke_idle, false}},
    {"revoke_p2p", {revoke_p2p, false}},
    {"revoke_collective", {revoke_collective, false}},
    {"revoke_twice", {revoke_twice, false}},
    {"revoke_dying", {revoke_dying}},
    {"revoke_testing", {revoke_testing, false}},
    {"revoke_freed", {revoke_freed, false}},
    {"revoke_new", {revoke_new, false}},
    {"handler_repairs", {handler_repairs, false}},
    {"rebuild", {rebuild}},
    {"agree", {agree}},
    {"iagree", {iagree}},
    {"failed", {failed}},
    {"any", {any}},
    {"classes", {classes}},
    {"shrink_world", {shrink_world}},
    {"ishrink", {ishrink}},
    {"solver", {solver}},
    {"finalize", {finalize}},
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_group(MPI_COMM_WORLD, &world_group);
  const auto found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t colon = word.find(':');
    if (word.starts_with("seed="))
      seed = static_cast<unsigned>(std::stoul(word.substr(5)));
    else if (std::isdigit(word[0]) != 0)
      deaths.push_back({std::stoi(word), colon == std::string::npos ? -1 : std::stoi(word.substr(colon + 1))});
    else
      options.insert(word);
  }
  if (deaths.empty() && found->second.has_deaths && !options.contains("none")) deaths.push_back({1, -1});
  const char* on_failure = std::getenv("UCFT_MPI_ON_FAILURE");
  raises = on_failure != nullptr && std::strcmp(on_failure, "raise") == 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  found->second.run();
  MPI_Finalize();
  std::printf("VERDICT %d: %s\n", rank, wrong == 0 ? "right" : "wrong");
  return wrong == 0 ? 0 : 1;
}

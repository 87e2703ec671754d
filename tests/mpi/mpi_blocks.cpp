// Compares every collective of MPI, blocking and nonblocking, with MPI's own: MPI_... beside PMPI_... on the same
// arguments, and then the whole memory, with the bytes that nobody may write. A program of plain MPI that knows nothing
// of ucft; without the shim it must be right, too.
//
//   mpi_blocks [SEED [ROUNDS]]     the same on all ranks; ROUNDS of many nonblocking calls at once
//
// First come all functions on all communicators by nested loops, with the rest of the arguments by chance. Then handles
// that MPI uses again. Then rounds with many nonblocking calls at once, which each rank completes in a way of its own,
// with messages and blocking calls in between.
//
// What PMPI_... should give is always found before nonblocking calls begin: inside PMPI_... the shim can't go on.
// After MPI_Finalize each rank says VERDICT. A rank that takes longer than 100 s says in which call it is.
#include "mpi_blocks_model.hpp"

namespace {

// ---- one call after the other ---------------------------------------------------------------------------------------

void compare_one_by_one(const Communicator& on) {
  for (int k = 0; k < kinds; ++k)
    for (Size how_many : {none, one, some, many})
      for (bool in_place : {false, true}) {
        const auto kind = static_cast<Kind>(k);
        Dice dice = dice_of_next_case();
        const int any_root = dice(on.n), last = is_rooted(kind) && how_many != many ? on.n : 1;
        for (int i = 0; i < last; ++i) {
          Call call(kind, on, how_many, last == 1 ? any_root : i, in_place, Dice{dice.next()});
          call.call();
          call.check("blocking");
          MPI_Request request = MPI_REQUEST_NULL;
          call.begin(&request);
          if (dice(2) == 0) call.forget();
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          expect(request == MPI_REQUEST_NULL, "a request that is not null after MPI_Wait");
          call.check("nonblocking");
        }
      }
}

// ---- handles that are used again ------------------------------------------------------------------------------------

template <int what>
void compute(void* in, void* inout, int* n, MPI_Datatype*) {
  const int* a = static_cast<int*>(in);
  int* b = static_cast<int*>(inout);
  for (int i = 0; i < *n; ++i) b[i] = what == 0 ? a[i] + b[i] : what == 1 ? std::max(a[i], b[i]) : a[i];
}

// The same addresses and counts, and handles that MPI gives again: for other types, functions, communicators.
void compare_reused_handles() {
  static int a[64], b[64], mine[64];
  for (int round = 0; round < 24; ++round) {
    std::snprintf(now, sizeof now, "rank %d: handles used again, round %d", rank, round);
    const auto restart = [&] {
      for (int i = 0; i < 64; ++i) a[i] = b[i] = 64 * rank + i, mine[i] = 1000 * rank + i + round;
    };
    const auto compare = [&](const char* what) {
      expect(std::equal(a, a + 64, b), std::string("handles used again, ") + what + ", round " + std::to_string(round));
      restart();
    };
    restart();
    MPI_Datatype type;
    MPI_Type_vector(2, 1, 1 + round % 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Bcast(a, 3, type, 0, MPI_COMM_WORLD), PMPI_Bcast(b, 3, type, 0, MPI_COMM_WORLD), compare("Bcast");
    MPI_Allgather(mine, 6, MPI_INT, a, 3, type, MPI_COMM_WORLD);
    PMPI_Allgather(mine, 6, MPI_INT, b, 3, type, MPI_COMM_WORLD), compare("Allgather");
    MPI_Gather(mine, 6, MPI_INT, a, 3, type, 0, MPI_COMM_WORLD);
    PMPI_Gather(mine, 6, MPI_INT, b, 3, type, 0, MPI_COMM_WORLD), compare("Gather");
    MPI_Alltoall(mine, 2, MPI_INT, a, 1, type, MPI_COMM_WORLD);
    PMPI_Alltoall(mine, 2, MPI_INT, b, 1, type, MPI_COMM_WORLD), compare("Alltoall");
    MPI_Type_free(&type);
    MPI_Op op;
    MPI_Op_create(round % 3 == 0 ? compute<0> : round % 3 == 1 ? compute<1> : compute<2>, round % 3 < 2, &op);
    MPI_Allreduce(mine, a, 5, MPI_INT, op, MPI_COMM_WORLD);
    PMPI_Allreduce(mine, b, 5, MPI_INT, op, MPI_COMM_WORLD), compare("Allreduce");
    MPI_Scan(mine, a, 5, MPI_INT, op, MPI_COMM_WORLD), PMPI_Scan(mine, b, 5, MPI_INT, op, MPI_COMM_WORLD);
    compare("Scan");
    MPI_Op_free(&op);
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, round % 3 == 0 ? rank % 2 : 0, round % 2 == 0 ? -rank : rank, &comm);
    MPI_Bcast(a, 5, MPI_INT, 0, comm), PMPI_Bcast(b, 5, MPI_INT, 0, comm), compare("Bcast on a split");
    MPI_Allgather(mine, 5, MPI_INT, a, 5, MPI_INT, comm), PMPI_Allgather(mine, 5, MPI_INT, b, 5, MPI_INT, comm);
    compare("Allgather on a split");
    MPI_Exscan(mine, a, 5, MPI_INT, MPI_SUM, comm), PMPI_Exscan(mine, b, 5, MPI_INT, MPI_SUM, comm);
    int first = 0;
    MPI_Comm_rank(comm, &first);
    if (first == 0) restart();
    compare("Exscan on a split");
    MPI_Comm_free(&comm);
  }
}

// ---- many at once ---------------------------------------------------------------------------------------------------

struct Message {
  Bytes bytes;
  int from = 0, tag = 0;
  bool comes = false;
  void put(int sender) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(static_cast<std::size_t>(tag * 31 + sender * 7) + i);
  }
};

struct Pending {
  std::vector<MPI_Request> requests;
  std::vector<MPI_Status> statuses;
  std::vector<std::unique_ptr<Call>> calls;        // the call of each request, if it is one
  std::vector<std::unique_ptr<Message>> messages;  // the message

  MPI_Request* add(std::unique_ptr<Call> call, std::unique_ptr<Message> message) {
    calls.push_back(std::move(call));
    messages.push_back(std::move(message));
    statuses.emplace_back();
    return &requests.emplace_back(MPI_REQUEST_NULL);
  }
};

constexpr int ways = 10;
const char* const names_of_ways[] = {"Waitall",
                                     "Waitany",
                                     "Waitsome",
                                     "Wait",
                                     "Test",
                                     "Testall",
                                     "Testany",
                                     "Testsome",
                                     "Request_get_status",
                                     "Waitall, no statuses"};

void complete(Pending& all, std::size_t from, std::size_t to, int way, Dice& dice) {
  const int n = static_cast<int>(to - from);
  MPI_Request* requests = all.requests.data() + from;
  MPI_Status* statuses = all.statuses.data() + from;
  std::snprintf(now, sizeof now, "rank %d: case %d: completes %d by %s", rank, static_cast<int>(cases), n,
                names_of_ways[way]);
  int left = 0, done = 0, found = 0;
  for (int i = 0; i < n; ++i) left += requests[i] != MPI_REQUEST_NULL;
  const std::vector<int> order = in_any_order(n, dice);
  std::vector<int> indices(static_cast<std::size_t>(n));
  std::vector<MPI_Status> some_statuses(static_cast<std::size_t>(n));
  const std::vector<MPI_Request> before(requests, requests + n);
  const auto take = [&](int i, const MPI_Status& status) {
    expect(
        i >= 0 && i < n && before[static_cast<std::size_t>(i)] != MPI_REQUEST_NULL && requests[i] == MPI_REQUEST_NULL,
        std::string(names_of_ways[way]) + ": an index that is wrong: " + std::to_string(i));
    if (i >= 0 && i < n) statuses[i] = status;
    --left;
  };
  MPI_Status status{};
  switch (way) {
    case 0: MPI_Waitall(n, requests, statuses); break;
    case 1:
      for (; left > 0; take(done, status)) MPI_Waitany(n, requests, &done, &status);
      MPI_Waitany(n, requests, &done, &status);
      expect(done == MPI_UNDEFINED, "MPI_Waitany of null requests");
      break;
    case 2:
      while (left > 0) {
        MPI_Waitsome(n, requests, &done, indices.data(), some_statuses.data());
        expect(done > 0 && done <= left, "MPI_Waitsome: a wrong number");
        for (int i = 0; i < done; ++i)
          take(indices[static_cast<std::size_t>(i)], some_statuses[static_cast<std::size_t>(i)]);
      }
      MPI_Waitsome(n, requests, &done, indices.data(), some_statuses.data());
      expect(done == MPI_UNDEFINED, "MPI_Waitsome of null requests");
      break;
    case 3:
      for (int i : order) MPI_Wait(&requests[i], &statuses[i]);
      break;
    case 4:
      for (; left > 0; sched_yield())
        for (int i : order)
          if (requests[i] != MPI_REQUEST_NULL)
            if (MPI_Test(&requests[i], &found, &status), found != 0) take(i, status);
      break;
    case 5:
      for (found = 0; found == 0; sched_yield()) MPI_Testall(n, requests, &found, statuses);
      break;
    case 6:
      for (; left > 0; sched_yield())
        if (MPI_Testany(n, requests, &done, &found, &status), found != 0) take(done, status);
      MPI_Testany(n, requests, &done, &found, &status);
      expect(found != 0 && done == MPI_UNDEFINED, "MPI_Testany of null requests");
      break;
    case 7:
      for (; left > 0; sched_yield()) {
        MPI_Testsome(n, requests, &done, indices.data(), some_statuses.data());
        for (int i = 0; i < done; ++i)
          take(indices[static_cast<std::size_t>(i)], some_statuses[static_cast<std::size_t>(i)]);
      }
      MPI_Testsome(n, requests, &done, indices.data(), some_statuses.data());
      expect(done == MPI_UNDEFINED, "MPI_Testsome of null requests");
      break;
    case 8:
      for (int i : order) {
        for (found = 0; found == 0; sched_yield()) MPI_Request_get_status(requests[i], &found, &status);
        MPI_Test(&requests[i], &found, &statuses[i]);
        expect(found != 0, "MPI_Test after MPI_Request_get_status");
      }
      break;
    default: MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < n; ++i) {
    expect(requests[i] == MPI_REQUEST_NULL, std::string(names_of_ways[way]) + ": a request that is not null");
    const std::size_t at = from + static_cast<std::size_t>(i);
    int count = -1, cancelled = 1;
    const bool was_null = before[static_cast<std::size_t>(i)] == MPI_REQUEST_NULL;
    if (way < ways - 1 && !(was_null && (way == 1 || way == 2 || way == 4 || way == 6 || way == 7))) {
      const bool comes = all.messages[at] && all.messages[at]->comes;
      expect(MPI_Get_count(&statuses[i], MPI_BYTE, &count) == MPI_SUCCESS &&
                 MPI_Test_cancelled(&statuses[i], &cancelled) == MPI_SUCCESS && cancelled == 0 &&
                 (!was_null || (statuses[i].MPI_SOURCE == MPI_ANY_SOURCE && count == 0)) &&
                 (!comes ||
                  (statuses[i].MPI_SOURCE == all.messages[at]->from && statuses[i].MPI_TAG == all.messages[at]->tag &&
                   count == static_cast<int>(all.messages[at]->bytes.size()))),
             std::string(names_of_ways[way]) + ": a status that is wrong");
    }
    if (all.calls[at]) all.calls[at]->check(names_of_ways[way]);
    if (all.messages[at] && all.messages[at]->comes) {
      Message expected = *all.messages[at];
      expected.put(expected.from);
      expect(all.messages[at]->bytes == expected.bytes, std::string(names_of_ways[way]) + ": a message that is wrong");
    }
  }
}

// One rank of a pair waits for the other, which first completes its calls: both must go on.
void wait_crosswise(const Communicator& on, Pending& all, int how, Dice dice) {
  Dice mine = dice_of_this_rank(dice);
  const int peer = on.me ^ 1, tag = 9999;
  const bool first = on.me % 2 == 0;
  int word = 0, there = 0;
  const auto finish = [&] { complete(all, 0, all.requests.size(), mine(ways), mine); };
  MPI_Comm copy = MPI_COMM_NULL;
  if (first) finish();
  std::snprintf(now, sizeof now, "rank %d: case %d: crosswise %d", rank, static_cast<int>(cases), how);
  MPI_Message message;
  MPI_Request request;
  if (how < 2) {
    how == 0 ? MPI_Barrier(on.comm) : MPI_Comm_dup(on.comm, &copy);
  } else if (peer < on.n && first) {
    MPI_Send(&tag, 1, MPI_INT, peer, tag, on.comm);
  } else if (peer < on.n) {
    if (how == 2) MPI_Probe(peer, tag, on.comm, MPI_STATUS_IGNORE);
    while (how == 3 && there == 0) MPI_Iprobe(peer, tag, on.comm, &there, MPI_STATUS_IGNORE), sched_yield();
    if (how == 4) {
      MPI_Mprobe(peer, tag, on.comm, &message, MPI_STATUS_IGNORE);
      MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    } else if (how == 5) {
      MPI_Irecv(&word, 1, MPI_INT, peer, tag, on.comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(&word, 1, MPI_INT, how == 6 ? MPI_ANY_SOURCE : peer, tag, on.comm, MPI_STATUS_IGNORE);
    }
    expect(word == tag, "crosswise: a message that is wrong");
  }
  if (!first) finish();
  if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
}

void compare_many_at_once(const std::vector<Communicator>& of, std::size_t how_many, bool crosswise) {
  Dice dice = dice_of_next_case();
  Communicator copy(MPI_COMM_SELF, "a copy that is freed");
  MPI_Comm_dup(MPI_COMM_WORLD, &copy.comm);
  copy = Communicator(copy.comm, copy.name);
  const bool on_one = dice(3) == 0;
  const int which = dice(static_cast<int>(of.size()) + 1);
  const auto any_call = [&] {
    const int each = on_one ? which : dice(static_cast<int>(of.size()) + 1);
    const Communicator& on = each == 0 ? copy : of[static_cast<std::size_t>(each) - 1];
    const Kind kind = any_kind(dice);
    const int root = static_cast<int>(dice.next() % 1024) % on.n;
    const int large = dice(12);
    return std::make_unique<Call>(kind, on, how_many > 50 || large != 0 ? static_cast<Size>(dice(3)) : many, root,
                                  dice(3) == 0, Dice{dice.next()});
  };
  std::vector<std::unique_ptr<Call>> calls, blocking;
  for (std::size_t i = 0; i < how_many; ++i) calls.push_back(any_call());
  for (int i = 0; i < 4; ++i) blocking.push_back(any_call());
  Pending all;
  all.requests.reserve(4 * how_many);
  Dice mine = dice_of_this_rank(dice);
  for (std::size_t i = 0; i < how_many; ++i) {
    if (mine(8) == 0) usleep(static_cast<useconds_t>(mine(300)));
    Call* call = calls[i].get();
    call->begin(all.add(std::move(calls[i]), nullptr));
    if (mine(2) == 0) call->forget();
    if (mine(4) == 0) all.add(nullptr, nullptr);
    if (dice(5) == 0) {
      const Communicator& on = of[static_cast<std::size_t>(dice(static_cast<int>(of.size())))];
      const bool anybody = dice(3) == 0, synchronous = dice(3) == 0;
      const int bytes = dice(3) == 0 ? 100000 : 10 * dice(3), tag = static_cast<int>(i);
      Message in{Bytes(static_cast<std::size_t>(bytes)), (on.me + on.n - 1) % on.n, tag, true}, out = in;
      out.put(on.me), out.comes = false;
      auto* to_come = in.bytes.data();
      auto* to_go = out.bytes.data();
      MPI_Request* request = all.add(nullptr, std::make_unique<Message>(std::move(in)));
      MPI_Irecv(to_come, bytes, MPI_BYTE, anybody ? MPI_ANY_SOURCE : all.messages.back()->from, tag, on.comm, request);
      request = all.add(nullptr, std::make_unique<Message>(std::move(out)));
      (synchronous ? MPI_Issend : MPI_Isend)(to_go, bytes, MPI_BYTE, (on.me + 1) % on.n, tag, on.comm, request);
    }
    if (i % 8 == 7 && i / 8 < 2) blocking[i / 8]->call(), blocking[i / 8]->check("blocking, among others");
  }
  // Only what does not need the communicator any more.
  std::vector<std::unique_ptr<Call>> late;
  for (std::size_t i = 2; i < 4; ++i) late.push_back(std::move(blocking[i]));
  late[0]->call(), late[0]->check("blocking, before any has completed");
  const bool freed_early = dice(2) == 0 && shimmed;  // Open MPI 4.1.4 itself hangs
  late[1]->call(), late[1]->check("blocking, before any has completed");
  if (freed_early) MPI_Comm_free(&copy.comm);
  if (crosswise) {
    wait_crosswise(of[static_cast<std::size_t>(dice(static_cast<int>(of.size())))], all, dice(8), dice);
  } else {
    const std::size_t half = mine(2) == 0 ? 0 : all.requests.size() / 2;
    complete(all, 0, half, mine(ways), mine);
    if (dice(2) == 0) MPI_Barrier(of[0].comm);
    complete(all, half, all.requests.size(), mine(ways), mine);
  }
  if (!freed_early) MPI_Comm_free(&copy.comm);
}

std::vector<Communicator> make_communicators() {
  std::vector<Communicator> made = {{MPI_COMM_WORLD, "the world"}};
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  made.push_back({comm, "a copy"});
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  made.push_back({comm, "a half"});
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
  made.push_back({comm, "a ring"});
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
  made.push_back({comm, "a host"});
  made.push_back({MPI_COMM_SELF, "itself"});
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) seed = static_cast<std::uint64_t>(std::atoll(argv[1]));
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  shimmed = dlsym(RTLD_DEFAULT, "MPI_Barrier") != dlsym(RTLD_DEFAULT, "PMPI_Barrier");
  std::signal(SIGALRM, on_alarm);
  std::signal(SIGSEGV, on_alarm);
  alarm(100);
  std::vector<Communicator> communicators = make_communicators();
  for (const Communicator& on : communicators) compare_one_by_one(on);
  compare_reused_handles();
  for (int round = 0; round < rounds; ++round) compare_many_at_once(communicators, 20, round % 3 == 0);
  compare_many_at_once(communicators, 300, false);
  for (std::size_t i = 1; i + 1 < communicators.size(); ++i) MPI_Comm_free(&communicators[i].comm);
  MPI_Finalize();
  if (wrong == 0) std::printf("VERDICT %d: right, %ld\n", rank, comparisons);
  if (wrong != 0) std::printf("VERDICT %d: wrong\n", rank);
  return wrong == 0 ? 0 : 1;
}

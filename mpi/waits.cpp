// Waits and tests for nonblocking calls. A request whose peer is dead, and which MPI has not completed, is an error of
// the communicator that it was begun on: MPI would wait for ever. Of several requests the others stay as they are. A
// receive from MPI_ANY_SOURCE stays begun, too: another rank may send yet.
#include <algorithm>
#include <vector>

#include "mpi/errors.hpp"
#include "mpi/nonblocking.hpp"
#include "mpi/peers.hpp"
#include "mpi/requests.hpp"
#include "mpi/world.hpp"

using namespace ucft::mpi;

namespace {

// A request of the program's, as it was before MPI's call.
class Waited {
 public:
  Waited(MPI_Request* request) : request_(request), before_(*request), entry_(requests.find(*request)) {}

  // World rank, or -1.
  int dead() const {
    return *request_ == MPI_REQUEST_NULL || entry_.number == 0 || entry_.watched.collective != nullptr
               ? -1
               : failed_peer(entry_.watched.comm, entry_.watched.peer);
  }
  // MPI has completed it, if it has: the error of a collective.
  int settle() {
    if (entry_.number == 0 || entry_.watched.is_persistent || *request_ == before_) return MPI_SUCCESS;
    requests.remove(entry_);
    if (entry_.watched.collective == nullptr) return MPI_SUCCESS;
    comm_ = communicator_of(*entry_.watched.collective);
    return forget(entry_.watched.collective);
  }
  // Its peer is dead. MPI_SUCCESS: it has come after all.
  int fail(int world_rank, MPI_Status* status) {
    const Watched& watched = entry_.watched;
    comm_ = watched.comm;
    if (watched.peer == MPI_ANY_SOURCE) return name_failed_peer(watched.comm, watched.peer, world_rank);
    if (!abandon(*request_, watched.receives, status)) return settle();
    if (!watched.is_persistent) {
      requests.remove(entry_);
      *request_ = MPI_REQUEST_NULL;
    }
    return name_failed_peer(watched.comm, watched.peer, world_rank);
  }
  MPI_Comm of() const { return entry_.watched.comm; }
  // Whose error handler gets its error.
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Request* request_;
  MPI_Request before_;
  Requests::Entry entry_;
  MPI_Comm comm_ = MPI_COMM_WORLD;
};

void set_error(MPI_Status* status, int error) {
  if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
}

MPI_Status* status_of(MPI_Status* statuses, int at) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + at;
}

// The requests of one call.
class Batch {
 public:
  Batch(int count, MPI_Request* all) {
    each_.reserve(static_cast<std::size_t>(std::max(count, 0)));
    for (int i = 0; i < count; ++i) each_.emplace_back(all + i);
  }

  // The first whose peer is dead: where it stands, and the world rank in `dead`. -1: none.
  int first_dead(int& dead) const {
    if (nobody_is_dead()) return dead = -1;
    for (std::size_t i = 0; i < each_.size(); ++i)
      if (dead = each_[i].dead(); dead >= 0) return static_cast<int>(i);
    return dead = -1;
  }
  bool has_dead() const {
    int dead = -1;
    return first_dead(dead) >= 0;
  }
  Waited& operator[](int at) { return each_[static_cast<std::size_t>(at)]; }

 private:
  std::vector<Waited> each_;
};

// MPI has completed those at `indices` (all of them: nullptr), with this error of its own.
int settle(Batch& batch, int count, const int* indices, MPI_Status* statuses, int error) {
  int first = MPI_SUCCESS;
  MPI_Comm comm = MPI_COMM_WORLD;
  std::vector<int> errors(static_cast<std::size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) {
    Waited& each = batch[indices == nullptr ? i : indices[i]];
    errors[static_cast<std::size_t>(i)] = each.settle();
    if (first == MPI_SUCCESS && errors[static_cast<std::size_t>(i)] != MPI_SUCCESS) {
      first = errors[static_cast<std::size_t>(i)];
      comm = each.comm();
    }
  }
  if (first == MPI_SUCCESS) return error;
  for (int i = 0; i < count; ++i)
    if (error == MPI_SUCCESS || errors[static_cast<std::size_t>(i)] != MPI_SUCCESS)
      set_error(status_of(statuses, i), errors[static_cast<std::size_t>(i)]);
  raise_code(comm, first);
  return MPI_ERR_IN_STATUS;
}

// Some wait for a dead rank. Those that are complete are completed; the others stay as they are.
int fail_all(Batch& batch, int count, MPI_Request* all, MPI_Status* statuses) {
  int first = MPI_SUCCESS;
  MPI_Comm comm = MPI_COMM_WORLD;
  for (int i = 0; i < count; ++i) {
    MPI_Status* const status = status_of(statuses, i);
    int done = 0;
    int error = PMPI_Test(all + i, &done, status);
    if (error == MPI_SUCCESS && done != 0) {
      error = batch[i].settle();
    } else if (error == MPI_SUCCESS) {
      const int dead = batch[i].dead();
      error = dead >= 0 ? batch[i].fail(dead, status) : MPI_ERR_PENDING;
    }
    set_error(status, error);
    if (first == MPI_SUCCESS && error != MPI_SUCCESS && error != MPI_ERR_PENDING) {
      first = error;
      comm = batch[i].comm();
    }
  }
  if (first == MPI_SUCCESS) return MPI_SUCCESS;
  raise_code(comm, first);
  return MPI_ERR_IN_STATUS;
}

// The request at `at` waits for that dead rank.
int fail_one(Waited& waited, int dead, MPI_Status* status) {
  const int error = waited.fail(dead, status);
  return error == MPI_SUCCESS ? MPI_SUCCESS : raise_code(waited.comm(), error);
}

// A test that has found nothing, of a loop of them: lets the news in now and then. True: a peer is dead, and nothing of
// it has come after some more tests.
template <class Test, class HasDead>
bool nothing_will_come(Test test, HasDead has_dead) {
  constexpr unsigned calls_per_look = 64;
  thread_local unsigned calls __attribute__((tls_model("initial-exec"))) = 0;
  if (++calls % calls_per_look == 0) look_for_deaths();
  if (nobody_is_dead() || !has_dead()) return false;
  for (int turn = 0; turn < turns_per_look; ++turn) {
    drive();
    if (test()) return false;
  }
  return true;
}

// Waits, or looks once (flag: whether it is over).
enum class How { wait, test };

// test() makes MPI's own, and says whether it is over; has_dead() whether it can't be over. True: over, or not yet; the
// flag that test sets says which. False: it will not come.
template <class Test, class HasDead>
bool run(How how, const char* function, Test test, HasDead has_dead) {
  if (how == How::wait) return wait_unless(function, test, [&] { return has_dead() ? 0 : -1; });
  drive();
  return test() || !nothing_will_come(test, has_dead);
}

bool is_mpis(const void* requests_or_flag) { return !world.on || requests_or_flag == nullptr; }

// MPI can't be asked any more.
bool is_lost() { return world.lost_by >= 0; }
int lost() { return raise_death(MPI_COMM_WORLD, world.lost_by); }

int one(How how, const char* function, MPI_Request* request, int* flag, MPI_Status* status) {
  if (is_lost()) return lost();
  Waited waited(request);
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Test(request, flag, status);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  if (run(how, function, test, [&] { return waited.dead() >= 0; })) {
    if (*flag == 0 && error == MPI_SUCCESS) return MPI_SUCCESS;
    const int own = waited.settle();
    return own == MPI_SUCCESS ? error : raise_code(waited.comm(), own);
  }
  *flag = 1;
  return fail_one(waited, waited.dead(), status);
}

int all(How how, const char* function, int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  if (is_lost()) return lost();
  Batch batch(count, requests);
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Testall(count, requests, flag, statuses);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  if (run(how, function, test, [&] { return batch.has_dead(); }))
    return *flag == 0 && error == MPI_SUCCESS ? MPI_SUCCESS : settle(batch, count, nullptr, statuses, error);
  *flag = 1;
  return fail_all(batch, count, requests, statuses);
}

int any(How how, const char* function, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  if (is_lost()) return lost();
  Batch batch(count, requests);
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Testany(count, requests, index, flag, status);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  if (run(how, function, test, [&] { return batch.has_dead(); })) {
    if (*flag == 0 || *index == MPI_UNDEFINED) return error;
    const int own = batch[*index].settle();
    return own == MPI_SUCCESS ? error : raise_code(batch[*index].comm(), own);
  }
  int dead = -1;
  *flag = 1;
  *index = batch.first_dead(dead);
  return fail_one(batch[*index], dead, status);
}

int some(How how, const char* function, int count, MPI_Request* requests, int* done, int* indices,
         MPI_Status* statuses) {
  if (is_lost()) return lost();
  Batch batch(count, requests);
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Testsome(count, requests, done, indices, statuses);
    return *done != 0 || error != MPI_SUCCESS;
  };
  if (run(how, function, test, [&] { return batch.has_dead(); }))
    return *done == MPI_UNDEFINED ? error : settle(batch, *done, indices, statuses, error);
  int dead = -1;
  *done = 1;
  *indices = batch.first_dead(dead);
  const int failed = batch[*indices].fail(dead, status_of(statuses, 0));
  set_error(status_of(statuses, 0), failed);
  if (failed == MPI_SUCCESS) return MPI_SUCCESS;
  raise_code(batch[*indices].comm(), failed);
  return MPI_ERR_IN_STATUS;
}

}  // namespace

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (is_mpis(request)) return PMPI_Wait(request, status);
  int flag = 0;
  return one(How::wait, "MPI_Wait", request, &flag, status);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (is_mpis(request) || is_mpis(flag)) return PMPI_Test(request, flag, status);
  return one(How::test, "MPI_Test", request, flag, status);
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  if (is_mpis(requests)) return PMPI_Waitall(count, requests, statuses);
  int flag = 0;
  return all(How::wait, "MPI_Waitall", count, requests, &flag, statuses);
}
int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  if (is_mpis(requests) || is_mpis(flag)) return PMPI_Testall(count, requests, flag, statuses);
  return all(How::test, "MPI_Testall", count, requests, flag, statuses);
}

int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  if (is_mpis(requests) || is_mpis(index)) return PMPI_Waitany(count, requests, index, status);
  int flag = 0;
  return any(How::wait, "MPI_Waitany", count, requests, index, &flag, status);
}
int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  if (is_mpis(requests) || is_mpis(index) || is_mpis(flag)) return PMPI_Testany(count, requests, index, flag, status);
  return any(How::test, "MPI_Testany", count, requests, index, flag, status);
}

int MPI_Waitsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  if (is_mpis(requests) || is_mpis(done) || is_mpis(indices))
    return PMPI_Waitsome(count, requests, done, indices, statuses);
  return some(How::wait, "MPI_Waitsome", count, requests, done, indices, statuses);
}
int MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  if (is_mpis(requests) || is_mpis(done) || is_mpis(indices))
    return PMPI_Testsome(count, requests, done, indices, statuses);
  return some(How::test, "MPI_Testsome", count, requests, done, indices, statuses);
}

// It is not completed: a dead peer is its error when it is waited for, too.
int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (is_mpis(flag)) return PMPI_Request_get_status(request, flag, status);
  if (is_lost()) return lost();
  const Waited waited(&request);
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Request_get_status(request, flag, status);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  if (run(How::test, "MPI_Request_get_status", test, [&] { return waited.dead() >= 0; })) return error;
  return raise_death(waited.of(), waited.dead());
}

int MPI_Request_free(MPI_Request* request) {
  if (is_mpis(request)) return PMPI_Request_free(request);
  const Requests::Entry entry = requests.find(*request);
  requests.remove(entry);
  if (entry.watched.collective != nullptr) let_go(entry.watched.collective);
  return PMPI_Request_free(request);
}

// Persistent ones. The requests of a dead peer are not started; those before them are.
int MPI_Start(MPI_Request* request) {
  if (!is_mpis(request) && !nobody_is_dead())
    if (const Requests::Entry entry = requests.find(*request); entry.number != 0)
      if (const int dead = failed_peer(entry.watched.comm, entry.watched.peer);
          dead >= 0 && entry.watched.peer != MPI_ANY_SOURCE)
        return raise_code(entry.watched.comm, name_failed_peer(entry.watched.comm, entry.watched.peer, dead));
  return PMPI_Start(request);
}
int MPI_Startall(int count, MPI_Request* requests) {
  if (is_mpis(requests) || nobody_is_dead()) return PMPI_Startall(count, requests);
  for (int i = 0; i < count; ++i)
    if (const int error = MPI_Start(requests + i); error != MPI_SUCCESS) return error;
  return MPI_SUCCESS;
}

}  // extern "C"

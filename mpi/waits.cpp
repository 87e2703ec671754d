// Waits and tests for nonblocking calls. A request whose peer is dead, and which MPI has not completed, is an error of
// the communicator that it was begun on: MPI would wait for ever. Of several requests the others stay as they are. A
// receive from MPI_ANY_SOURCE stays begun, too: another rank may send yet.
#include <algorithm>
#include <utility>
#include <vector>

#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/nonblocking.hpp"
#include "mpi/peers.hpp"
#include "mpi/requests.hpp"
#include "mpi/world.hpp"

using namespace ucft::mpi;

namespace {

// A request of the program's, as it was before MPI's call.
class Waited {
 public:
  explicit Waited(MPI_Request* request) : request_(request), before_(*request), entry_(requests.find(*request)) {}

  // Rank of MPI_COMM_WORLD whose failure keeps it from its end, or -1.
  int failed() const {
    if (!is_known() || entry_.watched.collective != nullptr) return -1;
    const Watched& watched = entry_.watched;
    const int failed =
        watched.is_revoked && watched.peer != every_member ? by_revocation : failed_peer(watched.comm, watched.peer);
    return failed >= 0 && !is_over() ? failed : -1;
  }
  // MPI has completed it for the program: the error of a collective.
  int settle() {
    if (entry_.number == 0 || *request_ == before_) return MPI_SUCCESS;  // a persistent one stays
    requests.remove(entry_);
    if (entry_.watched.collective == nullptr) return MPI_SUCCESS;
    comm_ = communicator_of(*entry_.watched.collective);
    revokes_ = ucft::mpi::revokes(*entry_.watched.collective);
    return forget(entry_.watched.collective);
  }
  // That rank has failed. MPI_SUCCESS: it has come after all. A nonblocking call of MPI's that waits for all ranks
  // can't be taken back, and would write into the program's memory yet: that is the end of MPI in this process.
  int fail(int world_rank, MPI_Status* status) {
    const Watched& watched = entry_.watched;
    comm_ = watched.comm;
    const bool is_revoked = world_rank == by_revocation;
    revokes_ = !watched.is_moved;
    if (watched.peer == every_member) lose_mpi(world_rank);
    if (watched.peer == MPI_ANY_SOURCE && !is_revoked)
      return name_failed_peer(watched.comm, watched.peer, world_rank, true);
    const auto may_end = [&] {  // a receive that a living rank has begun to answer
      return is_revoked && dead_sender(watched.comm, watched.peer) < 0;
    };
    if (!abandon(*request_, watched.receives, status, may_end)) return settle();
    if (!watched.is_persistent) {
      requests.remove(entry_);
      *request_ = MPI_REQUEST_NULL;
    }
    return name_failed_peer(watched.comm, watched.peer, world_rank);
  }
  bool is_known() const { return *request_ != MPI_REQUEST_NULL && entry_.number != 0; }
  Started* collective() const { return is_known() ? entry_.watched.collective : nullptr; }
  MPI_Comm of() const { return is_known() ? entry_.watched.comm : MPI_COMM_WORLD; }
  // The communicator whose error handler gets its error.
  MPI_Comm comm() const { return comm_; }
  int raise(int error) const { return raise_code(comm_, error, revokes_); }
  bool revokes() const { return revokes_; }

 private:
  // MPI has it complete, and the program does not know yet. Or it is a persistent one that is not begun.
  bool is_over() const {
    int flag = 0;
    return PMPI_Request_get_status(*request_, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0;
  }

  MPI_Request* request_;
  MPI_Request before_;
  Requests::Entry entry_;
  MPI_Comm comm_ = MPI_COMM_WORLD;
  bool revokes_ = false;  // its error, under UCFT_MPI_ON_FAILURE=revoke
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
  Batch(int count, MPI_Request* all) : all_(all) {
    each_.reserve(static_cast<std::size_t>(std::max(count, 0)));
    std::vector<Started*> collectives;
    for (int i = 0; i < count; ++i) {
      each_.emplace_back(all + i);
      if (Started* const one = each_.back().collective(); one != nullptr) collectives.push_back(one);
    }
    if (!collectives.empty()) make_deferred(std::move(collectives));
  }

  int size() const { return static_cast<int>(each_.size()); }
  Waited& operator[](int at) { return each_[static_cast<std::size_t>(at)]; }
  MPI_Request* request(int at) const { return all_ + at; }
  // The first that can't end: where it stands, and the rank whose failure it is. -1: none.
  int first_failed(int& failed) const {
    failed = -1;
    for (int i = 0; i < size() && !nobody_is_dead(); ++i) {
      failed = each_[static_cast<std::size_t>(i)].failed();
      if (failed >= 0) return i;
    }
    return -1;
  }
  bool has_failed() const {
    int failed = -1;
    return first_failed(failed) >= 0;
  }

 private:
  std::vector<Waited> each_;
  MPI_Request* all_;
};

// The errors of several requests.
class Errors {
 public:
  void add(int at, int error, const Waited& of, MPI_Status* statuses) {
    set_error(status_of(statuses, at), error);
    if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) return;
    if (of.revokes()) revoke_for(of.comm(), error);
    if (first_ != MPI_SUCCESS) return;
    first_ = error;
    comm_ = of.comm();
  }
  bool is_empty() const { return first_ == MPI_SUCCESS; }
  int raise() const {
    raise_code(comm_, first_, false);
    return MPI_ERR_IN_STATUS;
  }

 private:
  int first_ = MPI_SUCCESS;
  MPI_Comm comm_ = MPI_COMM_WORLD;
};

// MPI has completed those at `indices` (all of them: nullptr), with this error of its own.
int settle(Batch& batch, int count, const int* indices, MPI_Status* statuses, int error) {
  Errors errors;
  std::vector<std::pair<int, int>> own;  // which, and its error
  for (int i = 0; i < count; ++i) {
    const int at = indices == nullptr ? i : indices[i];
    if (const int failed = batch[at].settle(); failed != MPI_SUCCESS) own.emplace_back(i, failed);
  }
  if (own.empty()) return error;
  for (int i = 0; i < count && error == MPI_SUCCESS; ++i) set_error(status_of(statuses, i), MPI_SUCCESS);
  for (const auto& [i, failed] : own) errors.add(i, failed, batch[indices == nullptr ? i : indices[i]], statuses);
  return errors.raise();
}

// One at least can't end. Those that are complete are completed; the others stay as they are.
int fail_all(Batch& batch, MPI_Status* statuses) {
  Errors errors;
  for (int i = 0; i < batch.size(); ++i) {
    MPI_Status* const status = status_of(statuses, i);
    int done = 0, failed = -1;
    int error = world.lost_by < 0 ? PMPI_Test(batch.request(i), &done, status) : MPI_SUCCESS;
    if (done != 0 || error != MPI_SUCCESS) {
      const int own = batch[i].settle();
      if (error == MPI_SUCCESS) error = own;
    } else if (failed = batch[i].failed(); failed >= 0) {
      error = batch[i].fail(failed, status);
    } else {
      error = *batch.request(i) == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_PENDING;
    }
    errors.add(i, error, batch[i], statuses);
  }
  return errors.is_empty() ? MPI_SUCCESS : errors.raise();
}

// A peer has failed. Whether test says in MPI's last turns that it is over. Once it has said so MPI is not asked again.
template <class Test>
bool comes_at_last(Test test) {
  LastTurns last;
  last.begin_if(true);
  while (!last.are_over()) {
    for (int turn = 0; turn < turns_per_look; ++turn) {
      drive();
      if (test()) return true;
    }
  }
  return false;
}

// Waits, or looks once (flag: whether it is over).
enum class How { wait, test };

// test() makes MPI's own, and says whether it is over: over() then. fail(at, rank): the one that stands there can't
// end, as that rank has failed. Of a test that has found nothing: MPI_SUCCESS, and the flag that test has set says so.
template <class Test, class Over, class Fail>
int run(How how, const char* function, Batch& batch, Test test, Over over, Fail fail) {
  for (;;) {
    const auto has_failed = [&] { return batch.has_failed(); };
    if (how == How::wait) {
      if (wait_unless(function, test, has_failed)) return over();
    } else {
      drive();
      if (test()) return over();
      look_now_and_then(calls_per_look_in_tests);
      if (!has_failed()) return MPI_SUCCESS;
      if (comes_at_last(test)) return over();
    }
    int failed = -1;
    if (const int at = batch.first_failed(failed); at >= 0) return fail(at, failed);
    if (how == How::test) return MPI_SUCCESS;  // it has come right now, or another thread has named the death
  }
}

bool is_mpis(const void* requests_or_flag) { return !world.on || requests_or_flag == nullptr; }

// MPI can't be asked any more. Requests that are left never end.
template <class Nothing>
int lost(Batch& batch, MPI_Status* statuses, bool in_status, Nothing nothing) {
  for (int i = 0; i < batch.size(); ++i) {
    if (*batch.request(i) == MPI_REQUEST_NULL) continue;
    const int code = death_code(world.lost_by);
    for (int at = 0; at < batch.size() && in_status; ++at)
      set_error(status_of(statuses, at), *batch.request(at) == MPI_REQUEST_NULL ? MPI_SUCCESS : code);
    raise_code(batch[i].of(), code, false);
    return in_status ? MPI_ERR_IN_STATUS : code;
  }
  nothing();
  return MPI_SUCCESS;
}

// The request at `at` can't end.
int fail_one(Waited& waited, int failed, MPI_Status* status) {
  const int error = waited.fail(failed, status);
  return error == MPI_SUCCESS ? MPI_SUCCESS : waited.raise(error);
}

int one(How how, const char* function, MPI_Request* request, int* flag, MPI_Status* status) {
  Batch batch(1, request);
  *flag = 0;
  if (world.lost_by >= 0) return lost(batch, MPI_STATUSES_IGNORE, false, [&] { *flag = 1; });
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Test(request, flag, status);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  const auto over = [&] {
    const int own = batch[0].settle();
    return own == MPI_SUCCESS ? error : batch[0].raise(own);
  };
  return run(how, function, batch, test, over, [&](int, int failed) {
    *flag = 1;
    return fail_one(batch[0], failed, status);
  });
}

int all(How how, const char* function, int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  Batch batch(count, requests);
  *flag = 0;
  if (world.lost_by >= 0) return lost(batch, statuses, true, [&] { *flag = 1; });
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Testall(count, requests, flag, statuses);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  const auto over = [&] { return settle(batch, batch.size(), nullptr, statuses, error); };
  return run(how, function, batch, test, over, [&](int, int) {
    *flag = 1;
    return fail_all(batch, statuses);
  });
}

int any(How how, const char* function, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  Batch batch(count, requests);
  *index = MPI_UNDEFINED;
  *flag = 0;
  if (world.lost_by >= 0) return lost(batch, MPI_STATUSES_IGNORE, false, [&] { *flag = 1; });
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Testany(count, requests, index, flag, status);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  const auto over = [&] {
    if (*index < 0 || *index >= batch.size()) return error;
    const int own = batch[*index].settle();
    return own == MPI_SUCCESS ? error : batch[*index].raise(own);
  };
  return run(how, function, batch, test, over, [&](int at, int failed) {
    *flag = 1;
    *index = at;
    return fail_one(batch[at], failed, status);
  });
}

int some(How how, const char* function, int count, MPI_Request* requests, int* done, int* indices,
         MPI_Status* statuses) {
  Batch batch(count, requests);
  *done = 0;
  if (world.lost_by >= 0) return lost(batch, MPI_STATUSES_IGNORE, false, [&] { *done = MPI_UNDEFINED; });
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Testsome(count, requests, done, indices, statuses);
    return *done != 0 || error != MPI_SUCCESS;
  };
  const auto over = [&] { return *done < 0 ? error : settle(batch, *done, indices, statuses, error); };
  return run(how, function, batch, test, over, [&](int at, int failed) {
    *done = 1;
    *indices = at;
    const int own = batch[at].fail(failed, status_of(statuses, 0));
    set_error(status_of(statuses, 0), own);
    if (own == MPI_SUCCESS) return MPI_SUCCESS;
    batch[at].raise(own);
    return MPI_ERR_IN_STATUS;
  });
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
  Batch batch(1, &request);
  *flag = 0;
  if (world.lost_by >= 0) return lost(batch, MPI_STATUSES_IGNORE, false, [&] { *flag = 1; });
  int error = MPI_SUCCESS;
  const auto test = [&] {
    error = PMPI_Request_get_status(request, flag, status);
    return *flag != 0 || error != MPI_SUCCESS;
  };
  return run(
      How::test, "MPI_Request_get_status", batch, test, [&] { return error; },
      [&](int, int failed) { return raise_death(batch[0].of(), failed); });
}

int MPI_Request_free(MPI_Request* request) {
  if (is_mpis(request)) return PMPI_Request_free(request);
  const Requests::Entry entry = requests.find(*request);
  requests.remove(entry);
  if (entry.watched.collective != nullptr) let_go(entry.watched.collective);
  return PMPI_Request_free(request);
}

// Persistent ones. The request of a dead peer is not started.
int MPI_Start(MPI_Request* request) {
  if (is_mpis(request)) return PMPI_Start(request);
  const Requests::Entry entry = requests.find(*request);
  const Watched& watched = entry.watched;
  if (entry.number != 0)
    if (const int failed = watched.peer != MPI_ANY_SOURCE ? failed_peer(watched.comm, watched.peer)
                           : is_revoked(watched.comm)     ? by_revocation
                                                          : -1;
        failed >= 0)
      return raise_code(watched.comm, name_failed_peer(watched.comm, watched.peer, failed));
  return PMPI_Start(request);
}
// One after the other: those before one of a dead peer are started.
int MPI_Startall(int count, MPI_Request* requests) {
  if (is_mpis(requests) || count < 0) return PMPI_Startall(count, requests);
  for (int i = 0; i < count; ++i)
    if (const int error = MPI_Start(requests + i); error != MPI_SUCCESS) return error;
  return MPI_SUCCESS;
}

}  // extern "C"

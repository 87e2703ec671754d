#include "mpi/nonblocking.hpp"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/datatypes.hpp"
#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/peers.hpp"
#include "mpi/requests.hpp"
#include "mpi/revocation.hpp"
#include "mpi/running.hpp"

namespace ucft::mpi {

std::atomic<int> queued{0};

struct Started {
  Collective collective;
  const Communicator* on = nullptr;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;  // as MPI knows it, to be told of the end
  int error = MPI_SUCCESS;
  ucft_status_t posted = UCFT_OK;
  bool is_posted = false, has_ended = false;
  bool is_wanted = true;          // by the program
  bool is_on_control = false;     // a revocation does not end it
  bool is_moved = false;          // comm is not the one that it was begun on
  std::function<int()> deferred;  // the call itself, if it is one that blocks

  bool is_revoked() const { return on->is_revoked && !is_on_control; }
};

namespace {

std::atomic<int> going{0};                    // that have not ended
std::list<std::unique_ptr<Started>> started;  // in the order of the calls; guarded by a Turn
std::vector<MPI_Op> freed;                    // by the program, and used by one of them

// In UCFT_MPI_ON_FAILURE=raise, too.
int code_of_end(const Started& one, ucft_status_t status) {
  if (one.is_revoked()) return death_code(by_revocation);
  if (status != UCFT_OK) return error_code(one.comm, status, one.collective.root);
  const int dead = collectives_raise() && !one.is_on_control ? dead_member(one.comm) : -1;
  return dead >= 0 ? death_code(dead) : MPI_SUCCESS;
}

void end_with(Started& one, int error) {
  one.error = error;
  one.has_ended = true;
  --going;
  if (one.request != MPI_REQUEST_NULL && world.lost_by < 0) PMPI_Grequest_complete(one.request);
}

// An end, with that status of ucft's.
void end(Started& one, ucft_status_t status) { end_with(one, code_of_end(one, one.collective.end(status))); }

// It may have to wait.
void post_one(Started& one) {
  one.posted = ucft_post(one.collective.request);
  if (one.posted == UCFT_ERR_BUSY) return;
  one.is_posted = true;
  --queued;
  --one.on->queued;
}

void free_operators() {
  if (going.load(std::memory_order_relaxed) > 0) return;
  for (MPI_Op& op : freed) PMPI_Op_free(&op);
  freed.clear();
}

void erase(const Started* one) {
  const auto found = std::find_if(started.begin(), started.end(), [&](const auto& each) { return each.get() == one; });
  if (found != started.end()) started.erase(found);
}

std::vector<Started*> deferred_on(const Communicator* comm) {
  const Turn turn;
  std::vector<Started*> calls;
  for (const auto& one : started)
    if (one->on == comm) calls.push_back(one.get());
  return calls;
}

}  // namespace

void post_queued() {
  const Turn turn;
  std::vector<std::pair<const Communicator*, bool>> full;
  for (const auto& one : started) {
    if (one->is_posted || one->deferred || one->is_revoked()) continue;
    const std::pair lane(one->on, one->is_on_control);
    if (std::find(full.begin(), full.end(), lane) != full.end()) continue;
    post_one(*one);
    if (!one->is_posted) full.push_back(lane);
  }
}

void drive() {
  if (going.load(std::memory_order_relaxed) == 0) return;
  const Turn turn;
  if (queued.load(std::memory_order_relaxed) > 0) post_queued();
  for (auto each = started.begin(); each != started.end();) {
    Started& one = **each;
    ++each;  // one that nobody wants goes
    if (one.has_ended || !one.is_posted) continue;
    const ucft_status_t status = one.posted == UCFT_OK ? ucft_test(one.collective.request) : one.posted;
    if (status == UCFT_INPROGRESS) continue;
    end(one, status);
    if (!one.is_wanted) erase(&one);
  }
  free_operators();
}

int forget(Started* one) {
  const Turn turn;
  const int error = one->error;
  erase(one);
  return error;
}

MPI_Comm communicator_of(const Started& one) { return one.comm; }
bool revokes(const Started& one) { return !one.is_on_control && !one.is_moved; }

void let_go(Started* one) {
  const Turn turn;
  one->is_wanted = false;
  if (one->has_ended) erase(one);
}

void end_queued_of(const Communicator& comm) {
  for (auto each = started.begin(); each != started.end();) {
    Started& one = **each;
    ++each;  // one that nobody wants goes
    if (one.on != &comm || one.is_posted || one.deferred || !one.is_revoked()) continue;
    one.is_posted = true;
    --queued;
    --comm.queued;
    end(one, UCFT_ERR_STATE);
    if (!one.is_wanted) erase(&one);
  }
}

void end_queued_on_control(const Communicator& comm) {
  const auto is_queued = [&] {
    const Turn turn;
    return std::any_of(started.begin(), started.end(), [&](const auto& one) {
      return one->on == &comm && one->is_on_control && !one->deferred && !one->is_posted;
    });
  };
  while (is_queued()) {
    look_for_deaths();  // posts them, too
    let_mpi_go_on();
    drive();
  }
}

bool has_begun_on(const Communicator& comm) {
  return std::any_of(started.begin(), started.end(),
                     [&](const auto& one) { return one->on == &comm && !one->has_ended && !one->is_on_control; });
}

int make_request(MPI_Request* request) {
  const auto fill_status = [](void*, MPI_Status* status) {
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
  };
  const auto let_it_go = [](void*) { return MPI_SUCCESS; };
  const auto do_not_cancel = [](void*, int) { return MPI_SUCCESS; };
  return PMPI_Grequest_start(fill_status, let_it_go, do_not_cancel, nullptr, request);
}

int begin_deferred(MPI_Comm on, const Communicator& comm, const std::function<int()>& call, MPI_Request* request) {
  auto one = std::make_unique<Started>();
  one->on = &comm;
  one->comm = on;
  one->is_on_control = true;
  one->deferred = call;
  const Turn turn;
  if (const int error = make_request(&one->request); error != MPI_SUCCESS) return error;
  *request = one->request;
  requests.add(*request, {.comm = on, .collective = one.get()});
  started.push_back(std::move(one));
  ++going;
  return MPI_SUCCESS;
}

void make_deferred(std::vector<Started*> calls) {
  std::erase_if(calls, [](const Started* one) { return !one->deferred || one->has_ended; });
  std::sort(calls.begin(), calls.end(), [](const Started* a, const Started* b) { return a->on->id < b->on->id; });
  const Silence silence;  // whoever waits raises the errors
  for (Started* one : calls) {
    const int error = one->deferred();
    const Turn turn;
    end_with(*one, error);
  }
}

void end_all_of(const Communicator& comm) {
  const auto is_going = [&] {
    const Turn turn;
    if (comm.is_revoked && comm.handle != UCFT_COMM_NULL) return true;
    return std::any_of(started.begin(), started.end(),
                       [&](const auto& one) { return one->on == &comm && !one->has_ended; });
  };
  while (is_going()) {
    look_for_deaths();
    let_mpi_go_on();
    leave_revoked();
    make_deferred(deferred_on(&comm));
    drive();
  }
  const Turn turn;
  for (const auto& one : started)
    if (one->on == &comm) {
      one->comm = MPI_COMM_WORLD;  // for its error
      one->is_moved = true;
    }
}

int begin_call(Function function, MPI_Comm on, const Call& call, MPI_Request* request,
               const std::function<int()>& pmpi) {
  const Communicator* comm = find_communicator(on);
  if (comm != nullptr)
    if (const int error = call.check(on, *comm); error != MPI_SUCCESS) return error;
  const Outcome outcome = comm == nullptr      ? Outcome::communicator
                          : request == nullptr ? Outcome::arguments
                                               : call.outcome(*comm);
  if (outcome != Outcome::taken_over) {
    count(function, dead_member(on) >= 0 ? Outcome::dead : outcome);
    return begin_by_mpi(on, request, pmpi);
  }
  return begin_here(function, on, *comm, call, false, request);
}

int begin_here(Function function, MPI_Comm on, const Communicator& comm, const Call& call, bool is_on_control,
               MPI_Request* request) {
  count(function, Outcome::taken_over);
  return raise_behind(on, [&] {
    auto one = std::make_unique<Started>();
    one->on = &comm;
    one->comm = on;
    one->is_on_control = is_on_control;
    one->is_wanted = world.lost_by < 0;  // else it has no request, and goes for the others' sake
    const Turn turn;
    if (comm.is_revoked && !is_on_control) return raise_death(on, by_revocation);
    if (const ucft_status_t status = call.make(comm, one->collective); status != UCFT_OK)
      return raise_status(on, status, one->collective.root);
    if (one->is_wanted)
      if (const int error = make_request(&one->request); error != MPI_SUCCESS) {
        ucft_request_free(one->collective.request);
        return error;
      }
    Started& begun = *started.emplace_back(std::move(one));
    ++going;
    ++queued;
    ++comm.queued;
    if (begun.is_wanted) {
      *request = begun.request;
      requests.add(begun.request, {.comm = on, .collective = &begun});
    }
    post_queued();
    return begun.is_wanted ? MPI_SUCCESS : raise_death(on, world.lost_by);
  });
}

}  // namespace ucft::mpi

// An operator that a nonblocking collective uses lives until that has ended.
extern "C" int MPI_Op_free(MPI_Op* op) {
  using namespace ucft::mpi;
  if (op == nullptr || !world.on || going.load(std::memory_order_relaxed) == 0) return PMPI_Op_free(op);
  const Turn turn;
  const bool is_used = find_operation(*op) == nullptr && *op != MPI_OP_NULL &&
                       std::any_of(started.begin(), started.end(),
                                   [](const auto& one) { return !one->has_ended && one->collective.uses_operator; });
  if (!is_used) return PMPI_Op_free(op);
  freed.push_back(*op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

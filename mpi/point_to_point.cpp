// Messages between two ranks are MPI's. The shim adds one thing: a rank that is known to be dead is an MPI error, where
// MPI would wait for it for ever. Blocking calls also see a death that comes while they wait: they are nonblocking
// ones, and a loop that lets ucft's news in. MPI_ANY_SOURCE is MPI's alone, and so is a wait for a nonblocking call
// (MPI_Wait ...). A rank that waits long is said to (Inside).
#include <optional>

#include "mpi/errors.hpp"
#include "mpi/report.hpp"
#include "mpi/world.hpp"

using namespace ucft::mpi;

namespace {

// Turns of a loop that waits for MPI. It looks for news every so many, and makes so many more for messages that a dead
// rank has sent before it died.
constexpr int turns_per_look = 1024;

int refuse(MPI_Comm comm, int dead) {
  count(Function::point_to_point, Outcome::dead);
  return raise_death(comm, dead);
}

// done says whether it is over, and leaves MPI's error in `error`, which is the result then. Else the peer is dead, and
// has been while MPI had turns_per_look more turns.
template <class Done>
int wait_unless_dead(const char* function, MPI_Comm comm, int peer, const int& error, Done done) {
  bool was_dead = false;
  std::optional<Inside> inside;  // after the first turns
  for (;;) {
    for (int turn = 0; turn < turns_per_look; ++turn)
      if (done()) return error;
    if (!inside) inside.emplace(function);
    if (was_dead) return refuse(comm, dead_peer(comm, peer));
    look_for_deaths();
    was_dead = dead_peer(comm, peer) >= 0;
  }
}

// A receive that nobody answers must not write into the caller's memory later. A call that can't be taken back (a send;
// a receive that a dead rank has begun to answer) stays with MPI.
void abandon(MPI_Request& request, bool receives) {
  if (request == MPI_REQUEST_NULL || !receives) return;
  PMPI_Cancel(&request);
  int done = 0;
  for (int turn = 0; turn < turns_per_look && done == 0; ++turn) PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

bool is_watched(int peer) { return world.on && peer >= 0; }

// A blocking call, as start (its nonblocking form) and a wait for that.
template <class Start>
int blocking(const char* function, MPI_Comm comm, int peer, bool receives, MPI_Status* status, Start start) {
  MPI_Request request = MPI_REQUEST_NULL;
  int error = start(&request);
  if (error != MPI_SUCCESS) return error;
  const int result = wait_unless_dead(function, comm, peer, error, [&] {
    int done = 0;
    error = PMPI_Test(&request, &done, status);
    return done != 0 || error != MPI_SUCCESS;
  });
  abandon(request, receives);
  return result;
}

// MPI's own wait.
template <class Pmpi>
int within(const char* function, Pmpi pmpi) {
  const Inside inside(function);
  return pmpi();
}

// A look before it, no more.
template <class Pmpi>
int unless_dead(MPI_Comm comm, int peer, Pmpi pmpi) {
  if (nobody_is_dead()) return pmpi();
  const int dead = dead_peer(comm, peer);
  return dead >= 0 ? refuse(comm, dead) : pmpi();
}

using Isend = int(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
using Send = int(const void*, int, MPI_Datatype, int, int, MPI_Comm);

struct Message {
  const void* buffer;
  int count;
  MPI_Datatype type;
  int peer, tag;
  MPI_Comm comm;
};

int send(const char* function, const Message& m, Send* blocking_form, Isend* form) {
  if (!is_watched(m.peer)) return blocking_form(m.buffer, m.count, m.type, m.peer, m.tag, m.comm);
  return unless_dead(m.comm, m.peer, [&] {
    return blocking(function, m.comm, m.peer, false, MPI_STATUS_IGNORE, [&](MPI_Request* request) {
      return form(m.buffer, m.count, m.type, m.peer, m.tag, m.comm, request);
    });
  });
}

int isend(const Message& m, MPI_Request* request, Isend* form) {
  return unless_dead(m.comm, m.peer, [&] { return form(m.buffer, m.count, m.type, m.peer, m.tag, m.comm, request); });
}

// Of a dead rank that is an error, so that loops of MPI_Iprobe end, too. They let the news in.
int nothing_found(MPI_Comm comm, int peer) {
  constexpr unsigned calls_per_look = 64;
  thread_local unsigned calls __attribute__((tls_model("initial-exec"))) = 0;
  if (is_watched(peer) && ++calls % calls_per_look == 0) look_for_deaths();
  return unless_dead(comm, peer, [] { return MPI_SUCCESS; });
}

}  // namespace

extern "C" {

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return send("MPI_Send", {buffer, count, type, peer, tag, comm}, PMPI_Send, PMPI_Isend);
}
int MPI_Ssend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return send("MPI_Ssend", {buffer, count, type, peer, tag, comm}, PMPI_Ssend, PMPI_Issend);
}
int MPI_Bsend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return send("MPI_Bsend", {buffer, count, type, peer, tag, comm}, PMPI_Bsend, PMPI_Ibsend);
}
int MPI_Rsend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return send("MPI_Rsend", {buffer, count, type, peer, tag, comm}, PMPI_Rsend, PMPI_Irsend);
}
int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return isend({buffer, count, type, peer, tag, comm}, request, PMPI_Isend);
}
int MPI_Issend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return isend({buffer, count, type, peer, tag, comm}, request, PMPI_Issend);
}
int MPI_Ibsend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return isend({buffer, count, type, peer, tag, comm}, request, PMPI_Ibsend);
}
int MPI_Irsend(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return isend({buffer, count, type, peer, tag, comm}, request, PMPI_Irsend);
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!is_watched(peer))
    return within("MPI_Recv", [&] { return PMPI_Recv(buffer, count, type, peer, tag, comm, status); });
  return blocking("MPI_Recv", comm, peer, true, status,
                  [&](MPI_Request* request) { return PMPI_Irecv(buffer, count, type, peer, tag, comm, request); });
}
int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  return unless_dead(comm, peer, [&] { return PMPI_Irecv(buffer, count, type, peer, tag, comm, request); });
}

// Both at once; then the wait for one, and for the other.
int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  if (!is_watched(to) && !is_watched(from))
    return within("MPI_Sendrecv", [&] {
      return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
    });
  return blocking("MPI_Sendrecv", comm, from, true, status, [&](MPI_Request* request) {
    const int error = PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, request);
    if (error != MPI_SUCCESS) return error;
    const int sent = MPI_Send(out, out_count, out_type, to, out_tag, comm);
    if (sent != MPI_SUCCESS) abandon(*request, true);
    return sent;
  });
}
int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int to, int out_tag, int from, int in_tag,
                         MPI_Comm comm, MPI_Status* status) {
  return unless_dead(comm, dead_peer(comm, to) >= 0 ? to : from, [&] {
    const Inside inside("MPI_Sendrecv_replace");
    return PMPI_Sendrecv_replace(buffer, count, type, to, out_tag, from, in_tag, comm, status);
  });
}

int MPI_Probe(int peer, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!is_watched(peer)) return within("MPI_Probe", [&] { return PMPI_Probe(peer, tag, comm, status); });
  int error = MPI_SUCCESS;
  return wait_unless_dead("MPI_Probe", comm, peer, error, [&] {
    int found = 0;
    error = PMPI_Iprobe(peer, tag, comm, &found, status);
    return found != 0 || error != MPI_SUCCESS;
  });
}
int MPI_Mprobe(int peer, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  if (!is_watched(peer)) return within("MPI_Mprobe", [&] { return PMPI_Mprobe(peer, tag, comm, message, status); });
  int error = MPI_SUCCESS;
  return wait_unless_dead("MPI_Mprobe", comm, peer, error, [&] {
    int found = 0;
    error = PMPI_Improbe(peer, tag, comm, &found, message, status);
    return found != 0 || error != MPI_SUCCESS;
  });
}
int MPI_Iprobe(int peer, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  const int error = PMPI_Iprobe(peer, tag, comm, found, status);
  return error != MPI_SUCCESS || *found != 0 ? error : nothing_found(comm, peer);
}
int MPI_Improbe(int peer, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status) {
  const int error = PMPI_Improbe(peer, tag, comm, found, message, status);
  return error != MPI_SUCCESS || *found != 0 ? error : nothing_found(comm, peer);
}

// Waits for nonblocking calls are MPI's.

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return within("MPI_Wait", [=] { return PMPI_Wait(request, status); });
}
int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  return within("MPI_Waitall", [=] { return PMPI_Waitall(count, requests, statuses); });
}
int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  return within("MPI_Waitany", [=] { return PMPI_Waitany(count, requests, index, status); });
}
int MPI_Waitsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  return within("MPI_Waitsome", [=] { return PMPI_Waitsome(count, requests, done, indices, statuses); });
}

}  // extern "C"

// Messages between two ranks are MPI's. The shim adds one thing: a rank that is known to be dead is an MPI error, where
// MPI would wait for it for ever. Blocking calls also see a death that comes while they wait: they are nonblocking
// ones, and a loop that lets ucft's news in. Of nonblocking calls it notes the peer, for those that wait for them
// (waits.cpp). A rank that waits long is said to (Inside).
#include <climits>
#include <vector>

#include "mpi/errors.hpp"
#include "mpi/members.hpp"
#include "mpi/memory.hpp"
#include "mpi/peers.hpp"
#include "mpi/report.hpp"
#include "mpi/requests.hpp"
#include "mpi/world.hpp"

using namespace ucft::mpi;

namespace {

int refuse(MPI_Comm comm, int peer, int dead) { return raise_code(comm, name_failed_peer(comm, peer, dead)); }

bool is_watched(int peer) { return world.on && (peer >= 0 || peer == MPI_ANY_SOURCE); }

// Waits until done says that it is over: -1. Else the rank by whose failure it can't be.
template <class Done>
int wait_for_peer(const char* function, MPI_Comm comm, int peer, Done done) {
  while (!wait_unless(function, done, [&] { return failed_peer(comm, peer) >= 0; }))
    if (const int failed = failed_peer(comm, peer); failed >= 0) return failed;  // else another thread has named it
  return -1;
}

// done leaves MPI's error in `error`, which is the result if it is over.
template <class Done>
int wait_unless_dead(const char* function, MPI_Comm comm, int peer, const int& error, Done done) {
  const int why = unusable(comm), failed = why >= 0 ? why : wait_for_peer(function, comm, peer, done);
  return failed >= 0 ? refuse(comm, peer, failed) : error;
}

// A blocking call, as start (its nonblocking form) and a wait for that.
template <class Start>
int blocking(const char* function, MPI_Comm comm, int peer, bool receives, MPI_Status* status, Start start) {
  if (const int why = unusable(comm); why >= 0) return refuse(comm, peer, why);
  MPI_Request request = MPI_REQUEST_NULL;
  int error = start(&request);
  if (error != MPI_SUCCESS) return error;
  const int failed = wait_for_peer(function, comm, peer, [&] {
    int is_done = 0;
    error = PMPI_Test(&request, &is_done, status);
    return is_done != 0 || error != MPI_SUCCESS;
  });
  if (failed < 0) return error;
  return abandon(request, receives, status) ? refuse(comm, peer, failed) : MPI_SUCCESS;
}

// The request of a call that has begun, if it has.
int noted(int error, const MPI_Request* request, const Watched& watched) {
  if (error == MPI_SUCCESS && is_watched(watched.peer)) requests.add(*request, watched);
  return error;
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
  return dead >= 0 ? refuse(comm, peer, dead) : pmpi();
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

// A refused one leaves a request that can be waited for.
int isend(const Message& m, MPI_Request* request, Isend* form) {
  if (!nobody_is_dead() && request != nullptr) *request = MPI_REQUEST_NULL;
  return unless_dead(m.comm, m.peer, [&] {
    const int error = form(m.buffer, m.count, m.type, m.peer, m.tag, m.comm, request);
    return noted(error, request, {.comm = m.comm, .peer = m.peer});
  });
}

// Persistent; begun later.
int prepare(const Message& m, MPI_Request* request, Isend* form) {
  const int error = form(m.buffer, m.count, m.type, m.peer, m.tag, m.comm, request);
  return noted(error, request, {.comm = m.comm, .peer = m.peer, .is_persistent = true});
}

// Of a dead rank that is an error, so that loops of MPI_Iprobe end, too. They let the news in.
int nothing_found(MPI_Comm comm, int peer) {
  if (!is_watched(peer)) return MPI_SUCCESS;
  look_now_and_then(calls_per_look_in_tests);
  drive();
  if (nobody_is_dead()) return MPI_SUCCESS;
  const int dead = failed_peer(comm, peer);
  return dead >= 0 ? refuse(comm, peer, dead) : MPI_SUCCESS;
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
// Of a dead rank, too: it may have sent it.
int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  if (const int why = unusable(comm); why >= 0) {
    if (request != nullptr) *request = MPI_REQUEST_NULL;
    return refuse(comm, peer, why);
  }
  const int error = PMPI_Irecv(buffer, count, type, peer, tag, comm, request);
  return noted(error, request, {.comm = comm, .peer = peer, .receives = true});
}

int MPI_Send_init(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  return prepare({buffer, count, type, peer, tag, comm}, request, PMPI_Send_init);
}
int MPI_Ssend_init(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  return prepare({buffer, count, type, peer, tag, comm}, request, PMPI_Ssend_init);
}
int MPI_Bsend_init(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  return prepare({buffer, count, type, peer, tag, comm}, request, PMPI_Bsend_init);
}
int MPI_Rsend_init(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  return prepare({buffer, count, type, peer, tag, comm}, request, PMPI_Rsend_init);
}
int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  const int error = PMPI_Recv_init(buffer, count, type, peer, tag, comm, request);
  return noted(error, request, {.comm = comm, .peer = peer, .receives = true, .is_persistent = true});
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
    if (sent != MPI_SUCCESS) abandon(*request, true, MPI_STATUS_IGNORE);
    return sent;
  });
}
// It sends a copy.
int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int to, int out_tag, int from, int in_tag,
                         MPI_Comm comm, MPI_Status* status) {
  int bytes = 0, packed = 0;
  if ((!is_watched(to) && !is_watched(from)) || count < 0 || type == MPI_DATATYPE_NULL ||
      packed_bytes(count, type) > INT_MAX / 2 || PMPI_Pack_size(count, type, comm, &bytes) != MPI_SUCCESS)
    return within("MPI_Sendrecv_replace",
                  [&] { return PMPI_Sendrecv_replace(buffer, count, type, to, out_tag, from, in_tag, comm, status); });
  std::vector<char> copy(static_cast<std::size_t>(bytes) + 1);
  if (const int error = PMPI_Pack(buffer, count, type, copy.data(), bytes, &packed, comm); error != MPI_SUCCESS)
    return error;
  return MPI_Sendrecv(copy.data(), packed, MPI_PACKED, to, out_tag, buffer, count, type, from, in_tag, comm, status);
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
  if (const int why = unusable(comm); why >= 0) return refuse(comm, peer, why);
  const int error = PMPI_Iprobe(peer, tag, comm, found, status);
  return error != MPI_SUCCESS || *found != 0 ? error : nothing_found(comm, peer);
}
int MPI_Improbe(int peer, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status) {
  if (const int why = unusable(comm); why >= 0) return refuse(comm, peer, why);
  const int error = PMPI_Improbe(peer, tag, comm, found, message, status);
  return error != MPI_SUCCESS || *found != 0 ? error : nothing_found(comm, peer);
}

}  // extern "C"

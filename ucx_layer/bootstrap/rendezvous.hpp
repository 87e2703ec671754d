// The ranks' side of the launcher's rendezvous: a blocking allgather for start-up, and nothing after it. Or of one that
// another rank runs: then the place in the job is given, and not read from the environment.
//
// ucft_run sets four variables: UCFT_RANK, UCFT_SIZE, UCFT_RENDEZVOUS=127.0.0.1:PORT (or [::1]:PORT) and
// UCFT_JOB_SECRET (64 hex digits). The server names the culprit when a rank dies or does not arrive; its words are the
// error text here.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail::bootstrap {

// All four variables are set. Whether they make sense is for rendezvous_environment_fault() to say.
bool rendezvous_in_environment();

// Empty if none of the four variables is set, or all are and make sense. Else one sentence that names the variable.
std::string rendezvous_environment_fault();

// The place of a rank in a job whose rendezvous is run by another rank.
struct Seat {
  int rank = 0, size = 1;
  std::string address;  // "192.0.2.1:PORT" or "[2001:db8::1]:PORT"
  Secret secret{};
};

// One thread at a time.
class Rendezvous {
 public:
  // Connects to the launcher named by the environment and says who we are. nullptr: `error` says why.
  static std::unique_ptr<Rendezvous> connect(std::chrono::microseconds limit, std::string& error);
  // The same, to the server at that address, as the rank that has that seat.
  static std::unique_ptr<Rendezvous> connect(const Seat& seat, std::chrono::microseconds limit, std::string& error);

  // Without close() the launcher and the other ranks take this rank for dead.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int descriptor() const { return socket_; }

  // Blocks until each rank has contributed `bytes` bytes from `source` (the same number everywhere; 0 is a barrier).
  // Puts size() * bytes into `received`, in rank order; those of absent ranks are zero. `received` is written on
  // success only. False: a rank died or did not arrive within `limit`, and `error` names it; start-up has failed for
  // all, and later rounds fail too.
  bool allgather(const void* source, void* received, std::size_t bytes, std::chrono::microseconds limit,
                 std::string& error);

  // Start-up is over for this rank, all is well. No call but the destructor may follow.
  void close();

 private:
  Rendezvous(int socket, int rank, int size, const char* host)
      : socket_(socket), rank_(rank), size_(size), host_(host) {}

  int socket_;
  int rank_;
  int size_;
  const char* host_;  // of the rendezvous, for error texts
};

}  // namespace ucft::detail::bootstrap

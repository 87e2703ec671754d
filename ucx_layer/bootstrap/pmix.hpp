// Start-up by the PMIx server that started the job (Open MPI's mpirun, prterun, srun --mpi=pmix): the same blocking
// allgather as Rendezvous, and nothing after it.
//
// Each step is a PMIx_Put of this rank's bytes, a fence over the job, and a PMIx_Get per rank. libpmix is loaded when
// the first context needs it. So libucft doesn't depend on it, and neither do programs started without a PMIx server.
//
// Invariants
//  - A rank waits for a PMIx server for at most the limit and a few seconds, even if that server does nothing or errs.
//  - All ranks create the same contexts in the same order: the n-th step of the m-th context has the same key on all.
//  - Start-up by PMIx fails once in a process. Ranks that gave up a fence are out of step with the server for good.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace ucft::detail::bootstrap {

// PMIX_NAMESPACE and PMIX_RANK are set: a PMIx server has started this process, or one of its ancestors.
bool pmix_in_environment();

// One thread at a time, and one at a time in a process.
class Pmix {
 public:
  // Joins the job that the environment names. nullptr: `error` says why. Never a job of one rank instead.
  static std::unique_ptr<Pmix> connect(std::chrono::microseconds limit, std::string& error);

  // Without close(), start-up has failed, and the others are told so when they look for this rank.
  ~Pmix();
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Blocks until each rank has contributed `bytes` bytes from `source` (the same number everywhere; 0 is a barrier).
  // Puts size() * bytes into `received`, in rank order; runs meanwhile() now and then. `received` is written on success
  // only. False: a rank died or did not arrive within `limit`, and `error` names it; later steps fail too.
  bool allgather(const void* source, void* received, std::size_t bytes, std::chrono::microseconds limit,
                 std::string& error, const std::function<void()>& meanwhile = {});

  // Start-up is over for this rank, all is well. Only the destructor may be called after this. It asks nothing of other
  // processes, unless this one has to leave the job. Slurm's server ends the job when a rank dies that has not left,
  // and MPI 5 wants to join by itself (pmix.cpp). True, on all ranks: some leave, and the caller must wait until all
  // ranks have been here, lest one joins again too early. `complaint`: it has not worked within `limit`; the caller
  // goes on all the same.
  bool close(std::chrono::microseconds limit, std::string& complaint);

 private:
  Pmix(int rank, int size, unsigned context) : rank_(rank), size_(size), context_(context) {}

  int rank_;
  int size_;
  unsigned context_;  // of this process, counted from 1
  unsigned steps_ = 0;
  bool open_ = true;
};

}  // namespace ucft::detail::bootstrap

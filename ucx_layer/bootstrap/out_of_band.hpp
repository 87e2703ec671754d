// The out-of-band allgather of start-up. The first of these that exists is used: the caller's, ucft_run's rendezvous, a
// PMIx server's. Without any of them the job has one rank. Or it is a rendezvous that is given, of a job in which some
// ranks may be absent from the start.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ucx_layer/bootstrap/pmix.hpp"
#include "ucx_layer/bootstrap/rendezvous.hpp"
#include "ucft/ucft.h"

namespace ucft::detail {

class OutOfBand {
 public:
  using Microseconds = std::chrono::microseconds;

  struct Choice {
    bool pmix = true;     // UCFT_PMIX
    bool single = false;  // UCFT_SINGLE
  };
  // callbacks.allgather == nullptr: the environment decides. False with a reason, also where a launcher has started
  // several processes and none of the ways to find the others is there.
  bool open(const ucft_oob_coll_t& callbacks, Microseconds limit, std::string& error, const Choice& choice);
  // The same, over that rendezvous. absent: by rank; empty: none is. It must be the same on all that are there.
  void use(std::unique_ptr<bootstrap::Rendezvous> rendezvous, std::vector<bool> absent, Microseconds limit);
  void wait_at_most(Microseconds limit) {
    limit_ = std::min(limit_, limit);
  }  // from now on, for ranks that don't arrive
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_absent(int rank) const { return !absent_.empty() && absent_[static_cast<std::size_t>(rank)]; }

  // received: size() * bytes; those of absent ranks are zero. Runs meanwhile() now and then, so that peers who need our
  // progress get it. False with a reason that names the culprit, if the other side knows it.
  bool allgather(const void* source, void* received, std::size_t bytes, std::string& error,
                 const std::function<void()>& meanwhile = {});
  // The same, of one value.
  template <class T>
  bool allgather(const T& mine, std::vector<T>& all, std::string& error, const std::function<void()>& meanwhile = {}) {
    all.resize(static_cast<std::size_t>(size_));
    return allgather(&mine, all.data(), sizeof mine, error, meanwhile);
  }
  // Start-up is over, all is well. True, on all ranks: none may go on before all have been here (Pmix::close).
  bool close(std::string& complaint);

 private:
  bool call_back(const void* source, void* received, std::size_t bytes, std::string& error,
                 const std::function<void()>& meanwhile);
  bool use_rendezvous(const void* source, void* received, std::size_t bytes, std::string& error,
                      const std::function<void()>& meanwhile);

  ucft_oob_coll_t callbacks_{};
  std::unique_ptr<bootstrap::Rendezvous> rendezvous_;  // at most one of the two
  std::unique_ptr<bootstrap::Pmix> pmix_;
  Microseconds limit_{};
  int rank_ = 0, size_ = 1;
  std::vector<bool> absent_;  // by rank; empty: none
};

}  // namespace ucft::detail

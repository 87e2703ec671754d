// The program's requests, and whom they wait for. A request that it does not know is MPI's alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "mpi/world.hpp"

namespace ucft::mpi {

struct Started;

constexpr int every_member = -1000;  // as a peer: it waits for all ranks of its communicator

// One request. Of a message: its peer. Of a nonblocking collective of ucft's: that.
struct Watched {
  MPI_Comm comm = MPI_COMM_NULL;
  int peer = MPI_PROC_NULL;  // or MPI_ANY_SOURCE, or every_member
  bool receives = false;
  bool is_persistent = false;
  bool is_revoked = false;  // its communicator was, and has been freed
  bool is_moved = false;    // comm is not the one that it was begun on
  Started* collective = nullptr;
};

// A table by MPI's handle, with open addressing. Any thread. MPI uses a handle again once it is completed: an entry has
// a number, and goes only by it.
class Requests {
 public:
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t number = 0;  // 0: the place is empty
    Watched watched;
  };

  void add(MPI_Request request, const Watched& watched);
  // number 0: unknown.
  Entry find(MPI_Request request) const;
  void remove(const Entry& entry);
  // Of a communicator that goes: peers are named as MPI_COMM_WORLD numbers them. A request that is for any of its
  // ranks, or all, is for those of the world then.
  void move_to_world(MPI_Comm comm);
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  std::size_t home_of(std::uint64_t key) const { return (key * 0x9e3779b97f4a7c15u) >> 32 & (entries_.size() - 1); }
  std::size_t place_of(std::uint64_t key) const;  // where it is, or could be
  void grow();

  // Where threads of the program may be in MPI at once.
  class Guard {
   public:
    explicit Guard(std::mutex& mutex) : mutex_(world.threaded ? &mutex : nullptr) {
      if (mutex_ != nullptr) mutex_->lock();
    }
    ~Guard() {
      if (mutex_ != nullptr) mutex_->unlock();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::mutex* mutex_;
  };

  std::vector<Entry> entries_;  // as many as a power of two, at most half of them used
  std::atomic<std::size_t> count_{0};
  std::uint64_t last_number_ = 0;
  mutable std::mutex mutex_;
};

extern Requests requests;

}  // namespace ucft::mpi

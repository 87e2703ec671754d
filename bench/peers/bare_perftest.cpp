// bare_perftest: the data flow of ucft's collectives on one host without a library around it. Contributions lie in
// memory that outlives its rank, and the host stage's own loops and copies combine them in rank order. But no rank
// dies, nothing is compared, one operation is in flight, and there are no requests, communicators, types or options.
// The time of ucft beyond this is the price of a library that survives. The time of this beyond a peer is the price of
// memory that outlives its rank (bench/README.md).
//
//   mpirun -n 4 bare_perftest -t allreduce -s 8:64K
//
// Small payloads: a cell beside its stamp in the rank's memory, read by all ranks (allreduce, allgather, barrier), or
// by those that need it. Large ones: staged in pieces, each told by a counter, so that readers follow. Of an allreduce
// rank i combines the chunks c with c mod n = i, and all take them from there. Cells are used again after `banks`
// operations. If all ranks take part, all are through then: a rank that has given to s + 1 has completed s. Rooted
// operations look at the `through` of the readers.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "bench/peers/bare.hpp"
#include "bench/peers/peer_perftest.hpp"
#include "collectives/on_host/host_copy.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail::bench {
namespace {

constexpr std::size_t line = 64, small_bytes = 8192, piece_bytes = 32768;
constexpr std::uint64_t small_banks = 64, small_banks_on_shared_cores = 256, large_banks = 2;

std::size_t rounded(std::size_t bytes) { return (bytes + line - 1) / line * line; }

// The words that one rank writes, each in a line. The banks follow.
struct Words {
  alignas(line) std::atomic<std::uint64_t> through{0};   // operations that it needs nothing of any more
  alignas(line) std::atomic<std::uint64_t> staged{0};    // pieces, of all operations
  alignas(line) std::atomic<std::uint64_t> combined{0};  // chunks of its own, of all operations
};

template <class T>
class Bare {
 public:
  static constexpr const char* name = "bare";

  Bare(World world, const Arguments& arguments)
      : me_(world.rank),
        ranks_(world.size),
        root_(arguments.root),
        given_(given_by_rank(arguments.test, world.size)),
        keeps_own_share_(arguments.test == Test::alltoall),
        yields_(world.size > sysconf(_SC_NPROCESSORS_ONLN)),
        reduction_(static_cast<DataType>(arguments.dtype)),
        combine_two_(reduction_) {}
  ~Bare() { leave_row(); }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  void begin_row(std::size_t count) {
    leave_row();
    bytes_ = count * sizeof(T) * given_;
    share_bytes_ = bytes_ / static_cast<std::size_t>(ranks_);
    is_small_ = bytes_ <= small_bytes;
    banks_ = !is_small_ ? large_banks : yields_ ? small_banks_on_shared_cores : small_banks;
    piece_ = std::min(piece_bytes, rounded(bytes_ / static_cast<std::size_t>(ranks_)));
    pieces_ = is_small_ ? 0 : (bytes_ + piece_ - 1) / piece_;
    bank_bytes_ = is_small_ ? rounded(sizeof(std::uint64_t) + bytes_) : 2 * rounded(bytes_);
    std::byte* own = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(sizeof(Words) + banks_ * bank_bytes_), 1, MPI_INFO_NULL,
                            MPI_COMM_WORLD, &own, &window_);
    std::memset(static_cast<void*>(own), 0, sizeof(Words) + banks_ * bank_bytes_);
    bases_.assign(static_cast<std::size_t>(ranks_), nullptr);
    for (int rank = 0; rank < ranks_; ++rank) {
      MPI_Aint bytes = 0;
      int unit = 0;
      MPI_Win_shared_query(window_, rank, &bytes, &unit, &bases_[static_cast<std::size_t>(rank)]);
    }
    number_ = free_until_ = combined_before_ = 0;
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void allreduce(std::span<const T> send, std::span<T> recv) {
    ++number_;
    if (!is_small_) return scatter_and_gather(bytes_of(send), bytes_of(recv));
    give(bytes_of(send));
    add_up(ranks_, 0, bytes_, bytes_of(send), bytes_of(recv));
  }

  void reduce(std::span<const T> send, std::span<T> recv) {
    ++number_;
    if (me_ != root_) return give_to_root(bytes_of(send));
    add_up(ranks_, 0, bytes_, bytes_of(send), bytes_of(recv));
    note_through();
  }

  void reduce_scatter(std::span<const T> send, std::span<T> recv) {
    ++number_;
    put(bytes_of(send));
    add_up(ranks_, own_share(), share_bytes_, bytes_of(send), bytes_of(recv));
  }

  void scan(std::span<const T> send, std::span<T> recv) { scan_up_to(me_ + 1, bytes_of(send), bytes_of(recv)); }
  void exscan(std::span<const T> send, std::span<T> recv) { scan_up_to(me_, bytes_of(send), bytes_of(recv)); }

  void broadcast(std::span<T> recv) {
    ++number_;
    std::byte* const data = bytes_of(recv);
    if (me_ == root_) {
      wait_for_bank(0, ranks_);
      put(data);
      return;
    }
    take(root_, 0, bytes_, data);
    note_through();
  }

  void scatter(std::span<const T> send, std::span<T> recv) {
    ++number_;
    if (me_ == root_) {
      wait_for_bank(0, ranks_);
      put(bytes_of(send));
      return copy(bytes_of(recv), bytes_of(send) + own_share(), share_bytes_);
    }
    take(root_, own_share(), share_bytes_, bytes_of(recv));
    note_through();
  }

  void gather(std::span<const T> send, std::span<T> recv) {
    ++number_;
    if (me_ != root_) return give_to_root(bytes_of(send));
    take_all(0, bytes_, bytes_of(send), bytes_of(recv));
    note_through();
  }

  void allgather(std::span<const T> send, std::span<T> recv) {
    ++number_;
    put(bytes_of(send));
    take_all(0, bytes_, bytes_of(send), bytes_of(recv));
  }

  void alltoall(std::span<const T> send, std::span<T> recv) {
    ++number_;
    put(bytes_of(send));
    take_all(own_share(), share_bytes_, bytes_of(send) + own_share(), bytes_of(recv));
  }

  void alltoallv(std::span<const T>, std::span<T>) { std::abort(); }  // these are refused
  void sendrecv(std::span<const T>, std::span<T>) { std::abort(); }

  void barrier() {
    ++number_;
    give(nullptr);
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != me_) wait_for_cell(rank);
  }

 private:
  using Word = std::atomic<std::uint64_t>;

  static const std::byte* bytes_of(std::span<const T> elements) {
    return reinterpret_cast<const std::byte*>(elements.data());
  }
  static std::byte* bytes_of(std::span<T> elements) { return reinterpret_cast<std::byte*>(elements.data()); }
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == sizeof(std::uint64_t))
      std::memcpy(to, from, sizeof(std::uint64_t));
    else if (bytes > 0)
      host_copy(to, from, bytes);
  }

  void leave_row() {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  }

  Words& words(int rank) const { return *reinterpret_cast<Words*>(bases_[static_cast<std::size_t>(rank)]); }
  std::byte* bank(int rank) const {
    return bases_[static_cast<std::size_t>(rank)] + sizeof(Words) + number_ % banks_ * bank_bytes_;
  }
  Word& stamp(int rank) const { return *reinterpret_cast<Word*>(bank(rank)); }
  std::byte* cell(int rank) const { return bank(rank) + sizeof(Word); }
  std::byte* chunks(int rank) const { return bank(rank) + rounded(bytes_); }  // behind what it has staged

  void wait_for(const Word& word, std::uint64_t least) const {
    for (int looks = 0; word.load(std::memory_order_acquire) < least; ++looks)
      if (yields_ ? looks > 0 : looks > 10000) sched_yield();
  }
  void wait_for_cell(int rank) const { wait_for(stamp(rank), number_); }
  void wait_for_piece(int rank, std::size_t piece) const {
    wait_for(words(rank).staged, (number_ - 1) * pieces_ + piece + 1);
  }
  // Until those ranks need no data that are overwritten now.
  void wait_for_bank(int first, int end) {
    if (number_ <= banks_ || number_ - banks_ <= free_until_) return;
    free_until_ = number_;
    for (int rank = first; rank < end; ++rank) {
      if (rank == me_) continue;
      wait_for(words(rank).through, number_ - banks_);
      free_until_ = std::min(free_until_, words(rank).through.load(std::memory_order_acquire));
    }
  }

  void give(const std::byte* data) const {
    copy(cell(me_), data, bytes_);
    stamp(me_).store(number_, std::memory_order_release);
  }
  void stage(const std::byte* data) const {
    for (std::size_t piece = 0; piece < pieces_; ++piece) {
      if (!keeps_own_share_ || !is_in_own_share(piece))
        host_copy(bank(me_) + piece * piece_, data + piece * piece_, bytes_of_piece(piece));
      words(me_).staged.store((number_ - 1) * pieces_ + piece + 1, std::memory_order_release);
    }
  }
  void put(const std::byte* data) const { is_small_ ? give(data) : stage(data); }
  void give_to_root(const std::byte* data) {
    wait_for_bank(root_, root_ + 1);
    put(data);
  }
  void note_through() { words(me_).through.store(number_, std::memory_order_release); }
  std::size_t own_share() const { return static_cast<std::size_t>(me_) * share_bytes_; }

  // A part of the data of that rank, once it is there.
  const std::byte* read(int rank, std::size_t offset, std::size_t bytes) const {
    if (is_small_) {
      wait_for_cell(rank);
      return cell(rank) + offset;
    }
    wait_for_piece(rank, (offset + bytes - 1) / piece_);
    return bank(rank) + offset;
  }
  // step(done, bytes): parts as long as a piece; or all of small data, which may be none.
  template <class Step>
  void for_each_step(std::size_t bytes, Step step) const {
    const std::size_t most = is_small_ ? bytes : piece_;
    std::size_t done = 0;
    do step(done, std::min(most, bytes - done));
    while ((done += most) < bytes);
  }
  void take(int rank, std::size_t offset, std::size_t bytes, std::byte* to) const {
    for_each_step(bytes,
                  [&](std::size_t done, std::size_t part) { copy(to + done, read(rank, offset + done, part), part); });
  }
  // Side by side, so much of each rank's. `own`: this rank's part, where its caller has it.
  void take_all(std::size_t offset, std::size_t bytes, const std::byte* own, std::byte* into) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      std::byte* const to = into + static_cast<std::size_t>(rank) * bytes;
      if (rank == me_)
        copy(to, own, bytes);
      else
        take(rank, offset, bytes, to);
    }
  }

  // The sum of a part of what the ranks before `end` have given. `given`: this rank's, where its caller has it.
  void add_up(int end, std::size_t offset, std::size_t bytes, const std::byte* given, std::byte* into) const {
    for_each_step(bytes, [&](std::size_t done, std::size_t part) {
      const std::byte* sum = nullptr;
      for (int rank = 0; rank < end; ++rank) {
        const std::byte* const its = rank == me_ ? given + offset + done : read(rank, offset + done, part);
        sum = combine_two_.add(sum, its, part / sizeof(T), into + done);
      }
      if (end == 1) copy(into + done, sum, part);
    });
  }
  void scan_up_to(int end, const std::byte* given, std::byte* into) {
    ++number_;
    wait_for_bank(me_ + 1, ranks_);
    put(given);
    add_up(end, 0, bytes_, given, into);
    note_through();
  }
  std::size_t bytes_of_piece(std::size_t piece) const { return std::min(piece_, bytes_ - piece * piece_); }
  bool is_in_own_share(std::size_t piece) const {
    return piece * piece_ >= own_share() && piece * piece_ + bytes_of_piece(piece) <= own_share() + share_bytes_;
  }

  void scatter_and_gather(const std::byte* own, std::byte* into) {
    stage(own);
    const auto ranks = static_cast<std::size_t>(ranks_), me = static_cast<std::size_t>(me_);
    std::size_t taken = 0, given = 0;
    for (std::size_t piece = me; piece < pieces_; piece += ranks) {
      add_up(ranks_, piece * piece_, bytes_of_piece(piece), own, into + piece * piece_);
      host_copy(chunks(me_) + piece * piece_, into + piece * piece_, bytes_of_piece(piece));
      words(me_).combined.store(combined_before_ + ++given, std::memory_order_release);
      while (taken < pieces_ && take_chunk(taken, into, false)) ++taken;
    }
    for (; taken < pieces_; ++taken) take_chunk(taken, into, true);
    combined_before_ += (pieces_ + ranks - 1) / ranks;
    words(me_).combined.store(combined_before_, std::memory_order_release);
  }
  // False: its owner has not combined it, and this rank does not wait.
  bool take_chunk(std::size_t piece, std::byte* into, bool waits) const {
    const int owner = static_cast<int>(piece % static_cast<std::size_t>(ranks_));
    const std::uint64_t least = combined_before_ + piece / static_cast<std::size_t>(ranks_) + 1;
    if (owner == me_) return waits || words(me_).combined.load(std::memory_order_relaxed) >= least;
    const Word& combined = words(owner).combined;
    if (!waits && combined.load(std::memory_order_acquire) < least) return false;
    wait_for(combined, least);
    host_copy(into + piece * piece_, chunks(owner) + piece * piece_, bytes_of_piece(piece));
    return true;
  }

  const int me_, ranks_, root_;
  const std::size_t given_;  // payloads that a rank gives
  const bool keeps_own_share_;
  const bool yields_;
  const Reduction reduction_;
  const Combiner combine_two_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte*> bases_;            // by rank
  std::size_t bytes_ = 0, share_bytes_ = 0;  // that a rank gives: in all, and to each
  std::size_t piece_ = 0, pieces_ = 0, bank_bytes_ = 0;
  bool is_small_ = true;
  std::uint64_t banks_ = small_banks, number_ = 0;  // operations begun
  std::uint64_t free_until_ = 0;                    // operations that no rank needs anything of
  std::uint64_t combined_before_ = 0;               // chunks of each rank, of the operations before
};

}  // namespace
}  // namespace ucft::detail::bench

int main(int argument_count, char** argument_values) {
  using namespace ucft::detail::bench;
  return peer_perftest<Bare>(argument_count, argument_values, "bare", [](const Arguments& arguments) {
    if (arguments.test == Test::alltoallv || arguments.test == Test::sendrecv)
      return std::string("not -t alltoallv and sendrecv");
    return lacks_of_bare(arguments);
  });
}

// The loop of ucft_perftest for its peers: the same buffers, clocks, checks and output, in the manner of osu_allreduce.
// So they differ in the library only. MPI starts the ranks and merges what they have measured.
#pragma once

#include <fmt/core.h>
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/arguments.hpp"
#include "bench/checker.hpp"
#include "bench/report.hpp"
#include "bench/tally.hpp"

namespace ucft::detail::bench {

struct World {
  int rank = 0;
  int size = 1;
};

inline World join_world() {
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  return world;
}

// Library<T>: with what `name` says, operations on elements T.
//   Library(World, const Arguments&)
//   begin_row(count)                 a payload of so many elements follows, on all ranks
//   allreduce(send, recv), reduce(send, recv), broadcast(recv), allgather(send, recv), gather(send, recv),
//   reduce_scatter(send, recv), scatter(send, recv), alltoall(send, recv), alltoallv(send, recv), scan(send, recv),
//   exscan(send, recv), sendrecv(send, recv), barrier()      spans
template <template <class> class Library, Element T>
class Perftest {
 public:
  Perftest(World world, const Arguments& arguments)
      : world_(world),
        arguments_(arguments),
        library_(world, arguments),
        checker_(arguments.op, {world.rank, world.size}) {}

  std::uint64_t run() {
    for (std::size_t row = 0; row < arguments_.sizes_bytes.size(); ++row) run_row(row);
    return wrong_;
  }

 private:
  void run_row(std::size_t row) {
    const std::int64_t batch = arguments_.batch(arguments_.sizes_bytes[row]);
    tally_ = Tally(batch);
    const std::size_t count = arguments_.sizes_bytes[row] / sizeof(T);
    const std::size_t sent = count * given_by_rank(arguments_.test, world_.size),
                      received = count * got_by_rank(arguments_.test, world_.size);
    own_send_ = std::make_unique<T[]>(sent);
    own_recv_ = std::make_unique<T[]>(received);
    send_ = {own_send_.get(), sent};
    recv_ = {own_recv_.get(), received};
    library_.begin_row(count);
    if (arguments_.test == Test::alltoallv) checker_.set_counts(OwnCounts(world_.rank, world_.size, count));
    for (std::int64_t i = 0; i < arguments_.warmup; i += batch) iterate(false, batch);
    MPI_Barrier(MPI_COMM_WORLD);
    const std::int64_t begin_ns = now_ns();
    for (std::int64_t i = 0; i < arguments_.iterations; i += batch) iterate(true, batch);
    tally_.add_loop(now_ns() - begin_ns);
    report(row);
  }

  void iterate(bool counted, std::int64_t batch) {
    ++operation_;
    if (arguments_.test == Test::broadcast)
      checker_.fill(recv_, world_.rank, operation_);
    else if (has_shares(arguments_.test))
      checker_.fill_shares(send_, operation_);
    else
      checker_.fill(send_, world_.rank, operation_);
    if (arguments_.test == Test::exscan) checker_.clear(recv_);  // of the first rank it stays so
    if (arguments_.test != Test::barrier && !arguments_.back_to_back) MPI_Barrier(MPI_COMM_WORLD);
    const ContextSwitches before = ContextSwitches::now();
    begin_ns_ = now_ns();
    for (std::int64_t i = 0; i < batch; ++i) operate();
    end_ns_ = now_ns();
    if (counted) {
      tally_.add_switches(before, ContextSwitches::now());
      tally_.add_sample(end_ns_ - begin_ns_);
    }
    check();
  }

  void operate() {
    switch (arguments_.test) {
      case Test::allreduce: library_.allreduce(send_, recv_); break;
      case Test::reduce: library_.reduce(send_, recv_); break;
      case Test::broadcast: library_.broadcast(recv_); break;
      case Test::allgather: library_.allgather(send_, recv_); break;
      case Test::gather: library_.gather(send_, recv_); break;
      case Test::scatter: library_.scatter(send_, recv_); break;
      case Test::reduce_scatter: library_.reduce_scatter(send_, recv_); break;
      case Test::alltoall: library_.alltoall(send_, recv_); break;
      case Test::alltoallv: library_.alltoallv(send_, recv_); break;
      case Test::scan: library_.scan(send_, recv_); break;
      case Test::exscan: library_.exscan(send_, recv_); break;
      case Test::sendrecv: library_.sendrecv(send_, recv_); break;
      case Test::barrier: library_.barrier(); break;
    }
  }

  void check() {
    Result result;  // what ucft would have said
    result.status = UCFT_OK;
    result.contributors = static_cast<std::uint32_t>(world_.size);
    result.attempts = 1;
    result.missing_known = true;
    Verdict verdict;
    if (goes_to_root(arguments_.test) && world_.rank != arguments_.root) return;
    switch (arguments_.test) {
      case Test::reduce:
      case Test::allreduce: verdict = checker_.check_combined(recv_, operation_, result); break;
      case Test::broadcast:
        result.contributors = 1;
        verdict = checker_.check_copy(recv_, operation_, arguments_.root);
        break;
      case Test::allgather:
      case Test::gather: verdict = checker_.check_blocks(recv_, operation_, result); break;
      case Test::scatter:
        result.contributors = 1;
        verdict = checker_.check_share_of(recv_, operation_, arguments_.root);
        break;
      case Test::reduce_scatter: verdict = checker_.check_share(recv_, operation_, result); break;
      case Test::alltoallv:
      case Test::alltoall: verdict = checker_.check_shares_of_all(recv_, operation_, result); break;
      case Test::scan:
      case Test::exscan:
        result.contributors -= ranks_left_out(arguments_.test, world_.rank, world_.size);
        verdict = checker_.check_prefix(recv_, operation_, result, arguments_.test == Test::scan);
        break;
      case Test::sendrecv: verdict = checker_.check_copy(recv_, operation_, partner_of(world_.rank)); break;
      case Test::barrier: verdict.complaint = check_barrier(); break;
    }
    tally_.add_contributors(result.contributors + ranks_left_out(arguments_.test, world_.rank, world_.size));
    if (verdict.complaint.empty()) return;
    tally_.add_wrong();
    if (++complaints_ <= 5) {
      fmt::print(stderr, "{}_perftest: rank {}: operation {}: WRONG: {}\n", Library<T>::name, world_.rank, operation_,
                 verdict.complaint);
    }
  }

  // As in ucft_perftest.
  std::string check_barrier() {
    constexpr std::uint64_t sampled = 16;
    if (operation_ % sampled != 0 && operation_ > sampled) return "";
    std::int64_t last_enter_first_leave[2] = {begin_ns_, -end_ns_};
    MPI_Allreduce(MPI_IN_PLACE, last_enter_first_leave, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    const std::int64_t first_leave = -last_enter_first_leave[1];
    if (first_leave >= last_enter_first_leave[0] || last_enter_first_leave[0] != begin_ns_) return "";
    return fmt::format("somebody left {} ns before this rank entered", begin_ns_ - first_leave);
  }

  void report(std::size_t number) {
    tally_.close();
    merge(tally_.sums(), MPI_SUM);
    merge(tally_.maxima(), MPI_MAX);
    wrong_ += tally_.wrong();
    if (world_.rank != 0) return;
    const Row row{Library<T>::name, world_.size, 0, arguments_.sizes_bytes[number], {}};
    fmt::print("{}{}", number == 0 ? header_of(arguments_, row) : "", line_of(arguments_, row, tally_));
    std::fflush(stdout);
  }

  static void merge(std::vector<std::uint64_t>& values, MPI_Op op) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_UINT64_T, op, MPI_COMM_WORLD);
  }

  const World world_;
  const Arguments& arguments_;
  Library<T> library_;
  Checker<T> checker_;
  Tally tally_;
  std::unique_ptr<T[]> own_send_, own_recv_;
  std::span<T> send_, recv_;
  std::uint64_t operation_ = 0;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  std::uint64_t complaints_ = 0;
  std::uint64_t wrong_ = 0;
};

// algorithm: what the output calls it. lacks: "" or what the library can't do.
template <template <class> class Library>
int run(World world, Arguments arguments, const char* algorithm, const std::string& lacks) {
  arguments.algorithm = algorithm;
  for (const std::string& problem : {problem_with(arguments, world.size), lacks}) {
    if (problem.empty()) continue;
    if (world.rank == 0) fmt::print(stderr, "{}: {}\n", algorithm, problem);
    return exit_usage;
  }
  return with_element_type(arguments.dtype, [&](auto element) {
    return Perftest<Library, decltype(element)>(world, arguments).run() == 0 ? 0 : 1;
  });
}

// The whole program. lacks(arguments): "" or what the library can't do.
template <template <class> class Library, class Lacks>
int peer_perftest(int argument_count, char** argument_values, const char* algorithm, Lacks lacks) {
  MPI_Init(&argument_count, &argument_values);
  const World world = join_world();
  const ParsedArguments parsed = parse_arguments(argument_count, argument_values, bench::Library::mpi, world.rank == 0);
  const int exit_code =
      parsed.arguments ? run<Library>(world, *parsed.arguments, algorithm, lacks(*parsed.arguments)) : parsed.exit_code;
  MPI_Finalize();
  return exit_code;
}

}  // namespace ucft::detail::bench

#include "simulator/collective_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "collectives/catalogue/blocks.hpp"
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/topology/reduce_topology.hpp"
#include "simulator/exchanged.hpp"
#include "simulator/explorer.hpp"
#include "simulator/promises.hpp"

namespace ucft::detail::simulator {

namespace {

class CollectiveActors {
 public:
  explicit CollectiveActors(const CollectiveRun& run)
      : run_(run),
        stand_in_(run.arguments.kind, run.payload_bytes, run.setting.ranks, run.optimistic),
        arguments_(run.arguments),
        buffers_({&CollectiveActors::allocate, this, 1 << 20}),
        members_(run.setting.ranks),
        operations_(static_cast<std::size_t>(run.setting.ranks)) {
    const CatalogueRow& row = arguments_.row();
    const auto ranks = static_cast<std::uint64_t>(run.setting.ranks);
    arguments_.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
    arguments_.count = !row.has_data() ? 0 : row.has_own_lengths() ? ranks * stand_in_.words() : stand_in_.words();
    arguments_.own_count = row.has_own_lengths() ? stand_in_.words() : 0;
    if (row.goes_straight) Exchange::put_into(arguments_, run.setting.ranks);
    root_ = arguments_.root;
  }
  CollectiveActors(const CollectiveActors&) = delete;
  CollectiveActors& operator=(const CollectiveActors&) = delete;

  Buffers& buffers() { return buffers_; }
  void start(Rank rank, Outbox& out) {
    of(rank).start(0, arguments_, members_, {rank, &failed_, &reported_, nullptr, stand_in_.optimism()},
                   memory_of(rank), no_rank, out);
  }
  void deliver(Rank rank, const Message& message, Outbox& out) {
    const bool had_it = of(rank).finished();
    of(rank).on_message(message, out);
    // Failure-proof correction: if the one that brought the value dies, this rank may panic.
    if (arguments_.correction == Correction::failure_proof && !had_it && message.phase == Phase::correction)
      brought_by_.emplace(message.peer, rank);
  }
  void fail(Rank rank, Rank failed, Outbox& out) { of(rank).on_failure(failed, out); }
  bool wants_turn(Rank rank) const { return of(rank).wants_turn(); }
  void turn(Rank rank, double now, Outbox& out) { of(rank).on_turn(out, std::llround(now * 1000), true); }  // 1 is 1 us
  double turn_at(Rank rank) const { return static_cast<double>(of(rank).turn_due_ns()) / 1000; }
  bool finished(Rank rank) const { return of(rank).finished(); }
  std::uint64_t payload_bytes(const Message& message) const { return stand_in_.payload_of(message); }

  // A failure matters to the ranks that wait for the failed one in the reduce. It matters to those below it in the
  // broadcast tree, or with the value from it. And to a root that gathers, and to all if the failed one was the root.
  template <class Visit>
  void note_failure(Rank failed, Visit visit) {
    failed_.insert(failed);
    if (run_.tell_everybody || run_.optimistic || failed == root_ || arguments_.row().goes_straight) {
      for (Rank rank = 0; rank < run_.setting.ranks; ++rank) visit(rank);
      if (failed == root_) root_ = next_root();
      return;
    }
    const Rank size = run_.setting.ranks;
    const Rank process = process_of(failed);
    std::vector<std::int32_t> processes = {0}, children;
    if (arguments_.row().collects || root_ != arguments_.root) {
      const ReduceTopology topology(size, arguments_.f);
      topology.group_members(process, children);
      processes.insert(processes.end(), children.begin(), children.end());
      processes.push_back(topology.parent(process));
    }
    if (arguments_.row().disseminates && !arguments_.by_gossip()) add_descendants(process, processes);
    for (std::int32_t& each : processes) each = (each + root_) % size;
    for (auto [at, end] = brought_by_.equal_range(failed); at != end; ++at) processes.push_back(at->second);
    std::sort(processes.begin(), processes.end());
    processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
    for (Rank rank : processes) visit(rank);
  }

  const Operation& operation(Rank rank) const { return operations_[static_cast<std::size_t>(rank)]; }
  Rank root() const { return root_; }
  Terms terms() const { return terms_of_numbers(arguments_, run_.setting.ranks, stand_in_.words()); }
  Result result_of(Rank rank) const {
    const Operation& its = operation(rank);
    Result result = simulator::result_of(its.decision(), its.attempts());
    const Slice found = its.value();
    if (!found) return result;
    const std::span<const std::byte> bytes{buffers_.data(found), found.bytes};
    if (its.row().goes_straight) {
      const Rank ranks = run_.setting.ranks;
      if (result.outcome == Outcome::success) read_exchange(its, bytes, buffers_, ranks, ranks, true, result);
      return result;
    }
    result.value.resize(bytes.size() / sizeof(std::uint64_t));
    std::memcpy(result.value.data(), bytes.data(), sizeof(std::uint64_t) * result.value.size());
    return result;
  }

 private:
  // Pages that nobody writes to take no memory: there is room for all blocks in most messages.
  static std::byte* allocate(void* arg, std::size_t bytes) {
    auto& memory = static_cast<CollectiveActors*>(arg)->memory_;
    memory.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return memory.back().get();
  }
  Operation::Memory memory_of(Rank rank) {
    const CatalogueRow& row = arguments_.row();
    Operation::Memory memory;
    std::vector<std::uint64_t> numbers(stand_in_.words(), number_of(rank));
    if (row.goes_straight) {
      const std::uint64_t streams = row.from_root() ? 1 : static_cast<std::uint64_t>(run_.setting.ranks);
      memory.room = buffers_.allocate(8 * std::max<std::uint64_t>(streams * stand_in_.words(), 1));
      memory.result = buffers_.allocate(arguments_.bytes());
    }
    if (!is_one_of(row.gives, rank == arguments_.root)) return memory;
    if (row.goes_straight) numbers.clear();
    for (Rank to = 0; row.goes_straight && to < run_.setting.ranks; ++to) {
      memory.shares.push_back({to, 8 * numbers.size(), 8 * stand_in_.words()});
      numbers.insert(numbers.end(), stand_in_.words(), number_for(rank, to));
    }
    if (!row.has_own_lengths()) {
      memory.input = buffers_.whole(buffers_.copy_in(numbers.data(), 8 * numbers.size()));
      return memory;
    }
    if (is_one_of(row.gets, rank == arguments_.root))
      memory.result = buffers_.allocate(Blocks::result_bytes(arguments_, run_.setting.ranks));
    memory.input = buffers_.whole(buffers_.allocate(Blocks::input_bytes(arguments_)));
    memory.input.bytes = Blocks::input_bytes(arguments_);
    Blocks::pack(arguments_, rank, numbers.data(), buffers_.data(memory.input));
    return memory;
  }
  Operation& of(Rank rank) { return operations_[static_cast<std::size_t>(rank)]; }
  const Operation& of(Rank rank) const { return operations_[static_cast<std::size_t>(rank)]; }
  Rank process_of(Rank rank) const { return (rank - root_ + run_.setting.ranks) % run_.setting.ranks; }
  Rank next_root() const {
    Rank rank = root_;
    do rank = rank + 1 == run_.setting.ranks ? 0 : rank + 1;
    while (failed_.contains(rank) && rank != root_);
    return rank;
  }
  void add_descendants(Rank process, std::vector<std::int32_t>& all) const {
    const BroadcastTopology tree(arguments_.shape, run_.setting.ranks);
    std::vector<std::int32_t> children;
    std::vector<std::int32_t> open = {process};
    while (!open.empty()) {
      tree.children(open.back(), children);
      open.pop_back();
      all.insert(all.end(), children.begin(), children.end());
      open.insert(open.end(), children.begin(), children.end());
    }
  }

  const CollectiveRun& run_;
  const StandIn stand_in_;
  Arguments arguments_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  Buffers buffers_;
  Membership members_;
  FailedRanks failed_, reported_;
  std::vector<Operation> operations_;
  Rank root_ = 0;
  std::unordered_multimap<Rank, Rank> brought_by_;  // who sent a correction that brought the value -> to whom
};

// The ring of processes, from the first root on. A run may go around its end.
Rank largest_gap(const Engine<CollectiveActors>& engine, Rank ranks, Rank root) {
  Rank longest = 0, length = 0;
  for (Rank step = 1; step <= 2 * ranks && length < ranks; ++step) {
    const Rank rank = (root + step) % ranks;
    const bool reached = rank == root ? engine.alive(root) : engine.was_in_tree(rank);
    length = reached ? 0 : length + 1;
    longest = std::max(longest, length);
  }
  return longest;
}

// Each gets data of its own from an exchange. Sets of blocks may have come in another order.
bool differs(const Terms& terms, Rank rank, const Result& its, const Result& reference) {
  if (!terms.given_to) return !disagreement(its, reference).empty() && !has_same_blocks(terms, its, reference);
  Result alike = its;
  alike.value = reference.value;
  return !disagreement(alike, reference).empty() ||
         (its.outcome == Outcome::success && !wrong_contents(terms_at(terms, rank), its).empty());
}

}  // namespace

StandIn::StandIn(Kind kind, std::uint64_t payload_bytes, Rank processes, bool optimistic)
    : row_(row_of(kind)), payload_bytes_(payload_bytes), optimism_(optimistic) {
  const std::uint64_t blocks = static_cast<std::uint64_t>(processes), piece = optimism_.piece_of(payload_bytes);
  const std::uint64_t pieces = (payload_bytes + piece - 1) / piece;
  if (row_.has_own_lengths()) {
    const std::uint64_t all = blocks * payload_bytes;
    if (optimistic && optimism_.goes_in_pieces(all, processes))
      put_blocks_in_pieces(processes);
    else if (row_.disseminates && !optimism_.goes_whole(all, processes) &&
             all * Optimism::steps(processes) > optimism_.set_bytes)
      optimism_.begins = false;  // as OptimisticBallot::fits()
    return;
  }
  if (row_.goes_straight) {
    words_ = pieces;
    optimism_.piece_bytes = 8;
    return;
  }
  if (Optimism().goes_whole(payload_bytes, processes)) return;
  const std::uint64_t of_all_pieces = blocks * piece;
  const bool has_blocks = payload_bytes >= sizeof(std::uint64_t) * blocks;  // else some have no element
  if (optimistic && row_.reduces && row_.disseminates && has_blocks)
    words_ = blocks * ((payload_bytes + of_all_pieces - 1) / of_all_pieces);
  if (optimistic && row_.from_root() && pieces > 1) words_ = pieces;
  optimism_.whole_bytes = 0;
  optimism_.piece_bytes = 8;
}

std::int64_t StandIn::sends(Rank rank, Rank processes, const Arguments& arguments) const {
  const auto others = static_cast<std::int64_t>(processes) - 1, words = static_cast<std::int64_t>(words_),
             steps = static_cast<std::int64_t>(Optimism::steps(processes));
  if (row_.goes_straight) return (is_one_of(row_.gives, rank == arguments.root) ? others * words : 0) + steps;
  if (row_.has_own_lengths() && optimism_.set_bytes == 0)  // in pieces
    return (row_.disseminates ? others * (words + 1) + 2 * steps : words + 2);
  return sends_without_failure(rank, processes, arguments, arguments.root);
}

// A record goes in pieces, whose head counts as a number, too.
void StandIn::put_blocks_in_pieces(Rank processes) {
  const std::uint64_t piece = optimism_.piece_of(payload_bytes_ * static_cast<std::uint64_t>(processes)),
                      pieces = (payload_bytes_ + piece - 1) / piece;
  words_ = std::max<std::uint64_t>(pieces, 2) - 1;
  optimism_.piece_bytes = pieces > 1 ? 8 : 16;
  optimism_.whole_bytes = optimism_.set_bytes = 0;
}

double tree_deadline(const CollectiveRun& run) {
  CollectiveRun plain = run;
  plain.arguments.correction = Correction::none;
  plain.phased = false;
  plain.setting.jitter = 0;
  plain.setting.slow.clear();
  plain.setting.noise = {};
  plain.setting.dead.clear();
  plain.setting.deaths.clear();
  plain.setting.suspicions.clear();
  return simulate(plain).last;
}

CollectiveResult simulate(const CollectiveRun& given, Tracer* tracer) {
  CollectiveRun run = given;
  if (run.phased) run.setting.first_turn = tree_deadline(run);
  CollectiveActors actors(run);
  Engine<CollectiveActors> engine(run.setting, actors, tracer);
  engine.run();

  CollectiveResult result;
  const Arguments& arguments = run.arguments;
  const Rank ranks = run.setting.ranks;
  const bool to_root = arguments.row().to_root();
  std::vector<double> times;
  Terms terms = actors.terms();
  terms.lists_missing = arguments.row().goes_straight;  // else they are not read
  for (Rank rank = 0; rank < ranks; ++rank) {
    result.most_sends = std::max(result.most_sends, engine.sends(rank));
    result.most_receives = std::max(result.most_receives, engine.receives(rank));
    if (!engine.alive(rank) || !engine.trusted(rank)) continue;
    ++result.live;
    terms.part(rank) = Part::must;
    if (engine.finished_at(rank) == never) {
      ++result.missed;
      continue;
    }
    times.push_back(engine.finished_at(rank));
    result.attempts = std::max(result.attempts, actors.operation(rank).attempts());
  }
  std::optional<Result> reference;
  bool is_wrong = false;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (!engine.alive(rank) || !engine.trusted(rank) || engine.finished_at(rank) == never || !terms.gets(rank))
      continue;
    const Result its = actors.result_of(rank);
    if (!reference) {
      reference = its;
      result.outcome = its.outcome;
      result.contributors = static_cast<Rank>(its.contributors);
      is_wrong = its.outcome == Outcome::success && !wrong_contents(terms_at(terms, rank), its).empty();
    }
    result.wrong += is_wrong || differs(terms, rank, its, *reference);
  }
  note_times_and_counts(std::move(times), engine, result);
  result.others = last_of_others(engine, ranks);
  result.latency = to_root ? engine.finished_at(arguments.root) : result.last;
  if (to_root && !reference && (!engine.alive(arguments.root) || !engine.trusted(arguments.root)))
    result.outcome = Outcome::root_failed;
  if (!to_root && !arguments.row().goes_straight) result.largest_gap = largest_gap(engine, ranks, arguments.root);
  return result;
}

}  // namespace ucft::detail::simulator

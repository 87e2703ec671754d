// The host stage's Memory on atomics: slabs in memory that the ranks share, whether they are threads or processes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/on_host/host_lease.hpp"
#include "collectives/catalogue/catalogue.hpp"
#include "collectives/on_host/host_stage.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail::test {

// What the ranks of a test share. All zero at first.
struct Shared {
  // Of each rank, behind its slab: of operations that are posted, and behind them of those that run.
  static constexpr std::uint64_t areas = 2, area_bytes = 2048, places = 4, place_bytes = 1024;

  std::byte* slabs;                         // with their areas
  std::atomic<std::uint32_t>* proved_dead;  // by rank: != 0
  std::atomic<std::uint32_t>* leases;  // by rank: 3 * use, and 1 once it is closed, 2 once it is gone; uses from 1 on
  HostLayout layout;
  Rank ranks;

  static std::uint64_t slab_bytes(const HostLayout& layout) {
    return (layout.words() * 8 + 63) / 64 * 64 + areas * area_bytes + places * place_bytes;
  }
  static std::uint64_t bytes(const HostLayout& layout, Rank ranks) {
    return static_cast<std::uint64_t>(ranks) * (slab_bytes(layout) + 2 * sizeof(std::uint32_t));
  }
  static Shared in(std::byte* memory, const HostLayout& layout, Rank ranks) {
    auto* dead =
        reinterpret_cast<std::atomic<std::uint32_t>*>(memory + static_cast<std::uint64_t>(ranks) * slab_bytes(layout));
    return {memory, dead, dead + ranks, layout, ranks};
  }
  HostPlace area(std::uint64_t number) const {
    return (slab_bytes(layout) - places * place_bytes - (1 + number % areas) * area_bytes) / sizeof(HostWord);
  }
  HostPlaces all_places() const {
    return {(slab_bytes(layout) - places * place_bytes) / sizeof(HostWord), place_bytes / sizeof(HostWord), places};
  }
};

class SharedMemory {
 public:
  // use: 0, or of a slab that others find only when it is open for that use.
  SharedMemory(const Shared& shared, Rank me, std::uint32_t use = 0) : shared_(shared), me_(me), use_(use) {
    for (auto& each : scratch_) each.resize(std::max(shared.layout.large_bytes, shared.layout.chunk_bytes));
    if (use == 0) return;  // open, and all zeros, from the beginning
    std::memset(at(me, 0), 0, shared.layout.words() * sizeof(HostWord));
    shared_.leases[me].store(3 * use, std::memory_order_release);
  }
  void close() { shared_.leases[me_].store(3 * use_ + 1, std::memory_order_release); }
  HostLease lease(Rank owner) const {
    const std::uint32_t word = shared_.leases[owner].load(std::memory_order_acquire);
    if (word / 3 < use_) return HostLease::open;  // it is yet to come
    return word / 3 > use_ || word % 3 == 2 ? HostLease::none : word % 3 == 1 ? HostLease::closed : HostLease::open;
  }
  void end_lease() { shared_.leases[me_].store(3 * use_ + 2, std::memory_order_release); }
  const Shared& shared() const { return shared_; }

  HostWord load(Rank owner, HostPlace place) {
    const std::uint32_t its = shared_.leases[owner].load(std::memory_order_acquire);
    return its / 3 != use_ || its % 3 == 2 ? 0 : word(owner, place).load(std::memory_order_acquire);
  }
  bool has(Rank owner, HostPlace first, HostWord one, HostWord other) {
    return load(owner, first) == one && load(owner, first + 1) == other;
  }
  void store(HostPlace place, HostWord value) { word(me_, place).store(value, std::memory_order_release); }
  void write(HostPlace first, const std::byte* data, std::uint64_t bytes) {
    if (data != room(first)) std::memcpy(room(first), data, bytes);
  }
  std::byte* room(HostPlace first) { return at(me_, first); }
  const std::byte* read(Rank owner, HostPlace first, std::uint64_t) { return at(owner, first); }
  static bool looks_again() { return false; }
  bool is_final(Rank rank) { return is_dead(rank); }
  static void announce(OperationNumber) {}
  bool is_dead(Rank rank) { return rank != me_ && shared_.proved_dead[rank].load(std::memory_order_acquire) != 0; }
  std::byte* destination(OperationNumber, std::uint64_t) { return scratch(0); }
  std::byte* scratch(int level) { return scratch_[level].data(); }
  void deliver(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    std::vector<std::byte>& all = delivered_[number].data;
    all.resize(std::max(all.size(), static_cast<std::size_t>(offset + bytes)));
    std::memcpy(all.data() + offset, data, bytes);
  }
  void deliver_finished(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    deliver(number, offset, data, bytes);  // of carriers that are elements
  }
  template <class Read>
  bool expects_block(OperationNumber, Rank, std::uint64_t, Read) const {
    return true;
  }
  void deliver_block(OperationNumber number, Rank rank, const std::byte* data, std::uint64_t bytes) {
    delivered_[number].blocks.push_back(rank);
    delivered_[number].data.insert(delivered_[number].data.end(), data, data + bytes);
  }

  struct Delivered {
    std::vector<std::byte> data;
    std::vector<Rank> blocks;
  };
  Delivered take(OperationNumber number) {
    Delivered its = std::move(delivered_[number]);
    delivered_.erase(number);
    return its;
  }

 private:
  std::byte* at(Rank owner, HostPlace place) {
    return shared_.slabs + static_cast<std::uint64_t>(owner) * Shared::slab_bytes(shared_.layout) +
           place * sizeof(HostWord);
  }
  std::atomic<HostWord>& word(Rank owner, HostPlace place) {
    return *reinterpret_cast<std::atomic<HostWord>*>(at(owner, place));
  }

  Shared shared_;
  Rank me_;
  std::uint32_t use_;
  std::vector<std::byte> scratch_[16];
  std::map<OperationNumber, Delivered> delivered_;
};

// Operation `number` of a program that all ranks follow.
inline HostCall host_call(OperationNumber number, Rank ranks, std::uint64_t count) {
  static constexpr Pattern patterns[] = {Allreduce::row.pattern(), Reduce::row.pattern(), Broadcast::row.pattern(),
                                         Allgather::row.pattern()};
  HostCall call;
  call.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  call.pattern = patterns[number * 7 % 11 % 4];
  call.count = number % 5 == 0 && call.pattern.sums_for_all() ? 0 : 1 + number % count;
  call.root = static_cast<Rank>(number % static_cast<OperationNumber>(ranks));
  call.signature = static_cast<std::uint16_t>(number);
  return call;
}

// What a rank gives: in byte `rank` of each word 1, and above all ranks' bytes a number that tells operations apart.
// Sums name their contributors. Up to 5 ranks.
inline std::uint64_t host_given(Rank rank, OperationNumber number, std::uint64_t element) {
  return std::uint64_t{1} << 8 * rank | ((number + element) & 0xfff) << 44;
}

// What a rank has been told of one operation.
struct HostTold {
  HostResult result;
  std::vector<std::uint64_t> data;
  std::vector<Rank> blocks;
};

// What all that it is told to must be told: of a broadcast by its root, too, which has the data itself; of a reduce
// nothing.
inline std::uint64_t digest_of(const HostCall& call, OperationNumber number, Rank me, const HostTold& told) {
  if (call.pattern.to_root()) return 0;
  const bool is_broadcast = call.pattern.from_root();
  std::uint64_t value =
      mixed(static_cast<std::uint64_t>(told.result.outcome), is_broadcast ? 0 : told.result.contributors);
  std::vector<std::uint64_t> data = told.data;
  if (is_broadcast && me == call.root)
    for (std::uint64_t i = 0; i < call.count; ++i) data.push_back(host_given(me, number, i));
  for (std::uint64_t word : data) value = mixed(value, word);
  for (Rank rank : told.blocks) value = mixed(value, static_cast<std::uint64_t>(rank));
  return value == 0 ? 1 : value;
}

// "" if this is right for somebody, whoever else has died.
inline std::string problem_with(const HostCall& call, OperationNumber number, Rank me, Rank ranks,
                                const HostTold& told) {
  const auto& [result, data, blocks] = told;
  if (result.outcome == Outcome::root_failed)
    return call.pattern.from_root() || call.pattern.to_root() ? "" : "there is no root";
  if (result.outcome != Outcome::success) return "neither a success nor a failed root";
  if (call.pattern.to_root() && me != call.root) return data.empty() ? "" : "data that are the root's";
  if (call.pattern.from_root()) {
    if (me == call.root) return "";
    for (std::uint64_t i = 0; i < call.count; ++i)
      if (data.size() != call.count || data[i] != host_given(call.root, number, i)) return "not the root's data";
    return "";
  }
  if (result.contributors < 1 || result.contributors > static_cast<std::uint32_t>(ranks)) return "contributors";
  if (call.pattern.puts_side_by_side()) {
    if (blocks.size() != result.contributors || data.size() != blocks.size() * call.count) return "number of blocks";
    for (std::size_t i = 0; i < data.size(); ++i)
      if (data[i] != host_given(blocks[i / call.count], number, i % call.count)) return "not that rank's block";
    return "";
  }
  if (data.size() != call.count) return "length of the data";
  for (std::uint64_t i = 0; i < call.count; ++i) {
    std::uint64_t sum = 0;
    std::uint32_t contributors = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const std::uint64_t part = data[i] >> 8 * rank & 0xff;
      if (part > 1) return "more than one value of a rank";
      contributors += static_cast<std::uint32_t>(part);
      if (part == 1) sum += host_given(rank, number, i);
    }
    if (contributors != result.contributors || data[i] != sum) return "not the sum of its contributors";
    if ((data[i] >> 8 * me & 0xff) != 1) return "a sum without this rank's own value";
  }
  return "";
}

struct HostProgram {
  OperationNumber first = 0, operations = 0;  // those of another use of the memory are others: first + 0, first + 1 ..
  std::uint64_t most_elements = 1;
  bool runs = false;  // what can (HostStage::run); three of four operations wait for those before them
};

// One rank's way through it; told(number, HostTold) for each operation as it completes, idle() when there was nothing
// to do.
template <class Told, class Idle>
void run_program(SharedMemory& memory, HostStage& stage, Rank me, Rank ranks, const HostProgram& program, Told told,
                 Idle idle) {
  std::vector<OperationNumber> users;  // of this rank's areas
  const auto tell = [&](OperationNumber number, const HostResult& result) {
    const auto [bytes, blocks] = memory.take(number);
    HostTold what{result, std::vector<std::uint64_t>(bytes.size() / 8), blocks};
    if (!bytes.empty()) std::memcpy(what.data.data(), bytes.data(), bytes.size());
    told(program.first + number, what);
  };
  while (stage.done() < program.operations) {
    bool any = false;
    const OperationNumber number = program.first + stage.next();
    const HostCall call = host_call(number, ranks, program.most_elements);
    const bool is_inline = memory.shared().layout.is_inline(stage.bytes_given(call));
    const bool has_room =
        is_inline || users.size() < Shared::areas || stage.is_free(memory, users[users.size() - Shared::areas]);
    const bool waits = program.runs && number % 4 != 0 && !stage.idle();
    if (stage.next() < program.operations && !waits && stage.ready(memory) && has_room) {
      std::vector<std::uint64_t> data;
      for (std::uint64_t i = 0; i < call.count; ++i) data.push_back(host_given(me, number, i));
      if (program.runs) {
        const auto way = stage.shortcut(call, memory.shared().all_places());
        const auto ran = way && way->can_run()
                             ? stage.run(memory, call, *way, reinterpret_cast<const std::byte*>(data.data()))
                             : HostStage::Ran::no;
        if (ran == HostStage::Ran::ended)
          tell(number - program.first, {Outcome::success, no_rank, stage.contributors(*way)});
        if (ran != HostStage::Ran::no) continue;
      }
      const HostPlace area = memory.shared().area(users.size());
      if (!is_inline) users.push_back(stage.next());
      stage.post(memory, call, {reinterpret_cast<const std::byte*>(data.data()), area, area + Shared::area_bytes / 16});
      any = true;
    }
    any = stage.progress(memory, [&](OperationNumber completed) { tell(completed, stage.result(completed)); }) || any;
    if (!any) idle();
  }
}

// The last barrier of a use; after it the slab may go to another.
template <class Idle>
void end_use(SharedMemory& memory, HostStage& stage, Rank me, Rank ranks, Idle idle) {
  while (!stage.ready(memory)) idle();
  stage.post(memory, {}, {});
  while (!stage.idle())
    if (!stage.progress(memory, [](OperationNumber) {})) idle();
  memory.close();
  while (!may_end_lease(memory, me, ranks)) idle();
  memory.end_lease();
}

}  // namespace ucft::detail::test

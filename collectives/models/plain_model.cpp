#include "collectives/models/plain_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace ucft::detail {

namespace {

// The ports of a process that takes messages one after the other.
struct Ports {
  double now = 0, sends_from = 0, receives_from = 0;
};

class PlainPredictor {
 public:
  PlainPredictor(std::int32_t size, const LogGP& costs, std::uint64_t bytes)
      : size_(size), costs_(costs), stretch_(costs.stretch(bytes)), ports_(static_cast<std::size_t>(size)) {}

  // Pairs before, doublings, pairs after: see Optimistic::plan_doubling.
  PlainCost doubling() {
    const auto doubled = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size_)));
    const std::int32_t folded = size_ - doubled;
    const auto at = [&](std::int32_t place) { return place < folded ? 2 * place + 1 : place + folded; };
    for (std::int32_t pair = 0; pair < folded; ++pair) take(2 * pair + 1, give(2 * pair));
    std::vector<double> arrivals(static_cast<std::size_t>(doubled));
    std::int64_t messages = 2 * std::int64_t{folded};
    for (std::int32_t distance = 1; distance < doubled; distance *= 2, messages += doubled) {
      for (std::int32_t place = 0; place < doubled; ++place)
        arrivals[static_cast<std::size_t>(place ^ distance)] = give(at(place));
      for (std::int32_t place = 0; place < doubled; ++place) take(at(place), arrivals[static_cast<std::size_t>(place)]);
    }
    for (std::int32_t pair = 0; pair < folded; ++pair) take(2 * pair, give(2 * pair + 1));
    double last = 0;
    for (const Ports& each : ports_) last = std::max(last, each.now);
    return {last, messages};
  }

  // Process p has its subtree's values when it has heard from p + 1, p + 2, p + 4 ..: see Optimistic::plan_tree.
  PlainCost tree() {
    std::vector<std::vector<double>> arrivals(static_cast<std::size_t>(size_));
    for (std::int32_t process = size_ - 1; process >= 0; --process) {
      std::vector<double>& mine = arrivals[static_cast<std::size_t>(process)];
      std::sort(mine.begin(), mine.end());
      for (double arrival : mine) take(process, arrival);
      mine = {};
      const std::int32_t lowest_bit = process & -process;
      if (process > 0) arrivals[static_cast<std::size_t>(process - lowest_bit)].push_back(give(process));
    }
    return {ports_[0].now, size_ - 1};
  }

 private:
  Ports& of(std::int32_t process) { return ports_[static_cast<std::size_t>(process)]; }
  // Returns its arrival.
  double give(std::int32_t process) {
    Ports& mine = of(process);
    const double begin = std::max(mine.now, mine.sends_from);
    mine.sends_from = begin + costs_.per_message() + stretch_;
    return begin + costs_.send_overhead + stretch_ + costs_.latency;
  }
  void take(std::int32_t process, double arrival) {
    Ports& mine = of(process);
    const double begin = std::max(arrival, mine.receives_from);
    mine.receives_from = begin + costs_.per_receive();
    mine.now = std::max(mine.now, begin + costs_.receive_overhead);
  }

  const std::int32_t size_;
  const LogGP& costs_;
  const double stretch_;
  std::vector<Ports> ports_;
};

// The messages of recursive doubling.
std::int64_t doublings(std::int32_t size) {
  const auto blocks = static_cast<std::uint32_t>(size);
  const std::int64_t folded = size - static_cast<std::int64_t>(std::bit_floor(blocks));
  return (size - folded) * (std::bit_width(blocks) - 1) + 2 * folded;
}

// All processes do the same at the same time, so one stands for all. Before the first pieces goes a message of the
// doubling that carries no data. The pieces of the last sum go on as they come, but
// after this process's own.
PlainCost predict_in_blocks(std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
  const std::uint64_t blocks = static_cast<std::uint64_t>(size), piece_bytes = Optimism().piece_of(bytes);
  const std::uint64_t pieces = (bytes + blocks * piece_bytes - 1) / (blocks * piece_bytes);  // of a block
  const double stretch = costs.stretch(bytes / (blocks * pieces));
  const double interval = costs.per_message() + stretch, flight = costs.delivery() + stretch;
  const auto sent = [&](std::int32_t of_blocks) {
    return static_cast<double>(static_cast<std::uint64_t>(of_blocks) * pieces - 1) * interval;
  };
  double now = costs.per_message();
  std::int64_t steps = 0;
  for (std::int32_t rest = size, distance = 0; rest > 1; rest = distance, ++steps) {
    distance = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(rest - 1)));
    const double step = sent(rest - distance) + flight;
    now += distance > 1 ? 2 * step : std::max(flight, static_cast<double>(pieces) * interval) + step;
  }
  now += static_cast<double>(steps) * costs.delivery();  // closing
  return {now, size * (2 * (size - 1) * static_cast<std::int64_t>(pieces) + steps) + doublings(size)};
}

std::int64_t pieces_of(std::uint64_t bytes) {
  const std::uint64_t piece_bytes = Optimism().piece_of(bytes);
  return static_cast<std::int64_t>((bytes + piece_bytes - 1) / piece_bytes);
}

// The root sends one piece after the other. The last one that it sends takes a flight for each round of a phase.
PlainCost predict_in_pieces(std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
  const std::int64_t pieces = pieces_of(bytes), steps = static_cast<std::int64_t>(Optimism::steps(size));
  const double stretch = costs.stretch(bytes / static_cast<std::uint64_t>(pieces));
  return {static_cast<double>(pieces - 1) * (costs.per_message() + stretch) +
              static_cast<double>(steps) * (costs.delivery() + stretch),
          pieces * (size - 1) + size * steps};
}

// Of one of equal blocks that have so many bytes together.
struct PiecesOfABlock {
  std::int64_t pieces;
  double stretch;  // of each

  PiecesOfABlock(std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
    const std::uint64_t block = bytes / static_cast<std::uint64_t>(size), piece_bytes = Optimism().piece_of(bytes);
    pieces = static_cast<std::int64_t>(std::max<std::uint64_t>((block + piece_bytes - 1) / piece_bytes, 1));
    stretch = costs.stretch(block / static_cast<std::uint64_t>(pieces));
  }
};

// An allgather of equal blocks: each process sends as many pieces as it gets, one after the other.
PlainCost predict_all_in_pieces(std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
  const auto [pieces, stretch] = PiecesOfABlock(size, costs, bytes);
  const auto steps = static_cast<std::int64_t>(Optimism::steps(size));
  return {costs.per_message() + static_cast<double>((size - 1) * pieces - 1) * (costs.per_message() + stretch) +
              static_cast<double>(steps) * (costs.delivery() + stretch),
          size * ((size - 1) * pieces + steps) + doublings(size)};
}

// All send at once, behind a word of the tree if they are leaves of it. The root takes one piece after the other, of
// which the last ones come when their sender has sent all.
PlainCost predict_to_root_in_pieces(std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
  const auto [pieces, stretch] = PiecesOfABlock(size, costs, bytes);
  const double sent = costs.per_message() + static_cast<double>(pieces - 1) * (costs.per_message() + stretch),
               taken = static_cast<double>((size - 1) * pieces - 1) * costs.per_receive();
  return {costs.delivery() + stretch + std::max(sent, taken), (size - 1) * (pieces + 1)};
}

}  // namespace

PlainSchedule plain_schedule_of(const Arguments& arguments, std::int32_t size, std::uint64_t bytes) {
  constexpr std::uint64_t element_bytes = 8;
  const CatalogueRow& row = arguments.row();
  if (size < 2) return PlainSchedule::none;
  if (row.from_root()) {
    const bool is_long = pieces_of(bytes) > 1 && !Optimism().goes_whole(bytes, size);
    return is_long && !arguments.by_gossip() ? PlainSchedule::in_pieces : PlainSchedule::none;
  }
  const bool has_long_blocks = row.has_own_lengths() && Optimism().goes_in_pieces(bytes, size);
  if (row.to_root()) return has_long_blocks ? PlainSchedule::to_root_in_pieces : PlainSchedule::tree;
  if (row.has_own_lengths()) {
    if (has_long_blocks) return PlainSchedule::all_in_pieces;
    const bool has_memory = Optimism().goes_whole(bytes, size) || bytes * Optimism::steps(size) <= Optimism().set_bytes;
    return has_memory ? PlainSchedule::doubling : PlainSchedule::none;
  }
  if (!row.has_data() || Optimism().goes_whole(bytes, size)) return PlainSchedule::doubling;
  return bytes >= element_bytes * static_cast<std::uint64_t>(size) ? PlainSchedule::in_blocks : PlainSchedule::none;
}

const char* plain_schedule_name(PlainSchedule schedule) {
  switch (schedule) {
    case PlainSchedule::doubling: return "recursive doubling";
    case PlainSchedule::tree: return "a binomial tree";
    case PlainSchedule::in_blocks: return "a reduce-scatter and an allgather";
    case PlainSchedule::in_pieces: return "pieces on a circulant graph";
    case PlainSchedule::all_in_pieces: return "pieces from all on a circulant graph";
    case PlainSchedule::to_root_in_pieces: return "pieces straight to the root";
    case PlainSchedule::none: break;
  }
  return "none";
}

PlainCost predict_plain(const Arguments& arguments, std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
  const PlainSchedule schedule = plain_schedule_of(arguments, size, bytes);
  if (schedule == PlainSchedule::in_blocks) return predict_in_blocks(size, costs, bytes);
  if (schedule == PlainSchedule::in_pieces) return predict_in_pieces(size, costs, bytes);
  if (schedule == PlainSchedule::all_in_pieces) return predict_all_in_pieces(size, costs, bytes);
  if (schedule == PlainSchedule::to_root_in_pieces) return predict_to_root_in_pieces(size, costs, bytes);
  PlainPredictor predictor(size, costs, arguments.row().has_data() ? bytes : 0);
  return schedule == PlainSchedule::tree ? predictor.tree() : predictor.doubling();
}

}  // namespace ucft::detail

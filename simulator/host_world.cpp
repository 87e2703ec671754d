#include "simulator/host_world.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/random.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr std::uint64_t elements = 1;       // of a payload, and of a chunk: one word, so that an access is one
constexpr std::uint64_t most_elements = 2;  // of an area
constexpr int levels = 8;

struct Pause {};

}  // namespace

// One access of a call, after those that were made before.
class HostWorld::Memory {
 public:
  Memory(HostWorld& world, Rank me) : world_(world), me_(me), delivered_(world.at(me).delivered) {}

  HostWord load(Rank owner, HostPlace place) {
    return access([&] { return world_.word(owner, place); });
  }
  void store(HostPlace place, HostWord word) {
    access([&] {
      world_.check_reuse(me_);
      return world_.word(me_, place) = word;
    });
  }
  void write(HostPlace first, const std::byte* data, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i * sizeof(HostWord) < bytes; ++i) {
      HostWord word = 0;
      std::memcpy(&word, data + i * sizeof word, sizeof word);
      store(first + i, word);
    }
  }
  const std::byte* read(Rank owner, HostPlace first, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i * sizeof(HostWord) < bytes; ++i) view_[i] = load(owner, first + i);
    return reinterpret_cast<const std::byte*>(view_);
  }
  bool is_dead(Rank rank) {
    if (rank == me_) return false;
    return access([&] { return static_cast<HostWord>(world_.at(me_).knows_dead[static_cast<std::size_t>(rank)]); }) !=
           0;
  }
  std::byte* scratch(int level) {
    assert(level < levels);
    return reinterpret_cast<std::byte*>(scratch_[level]);
  }
  void deliver(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    std::vector<HostWord>& all = delivered_[number];
    all.resize(std::max(all.size(), (offset + bytes) / sizeof(HostWord)));
    std::memcpy(all.data() + offset / sizeof(HostWord), data, bytes);
  }
  void deliver_block(OperationNumber number, Rank rank, const std::byte* data, std::uint64_t bytes) {
    std::vector<HostWord>& all = delivered_[number];
    all.push_back(static_cast<HostWord>(rank));
    for (std::uint64_t i = 0; i * sizeof(HostWord) < bytes; ++i) {
      HostWord word = 0;
      std::memcpy(&word, data + i * sizeof word, sizeof word);
      all.push_back(word);
    }
  }

  std::map<OperationNumber, std::vector<HostWord>>& delivered() { return delivered_; }

 private:
  template <class Act>
  HostWord access(Act act) {
    std::vector<HostWord>& log = world_.at(me_).log;
    if (next_ < log.size()) return log[next_++];
    if (has_accessed_) throw Pause{};
    has_accessed_ = true;
    log.push_back(act());
    return log[next_++];
  }

  HostWorld& world_;
  Rank me_;
  std::size_t next_ = 0;
  bool has_accessed_ = false;
  HostWord view_[most_elements] = {}, scratch_[levels][elements] = {};
  std::map<OperationNumber, std::vector<HostWord>> delivered_;
};

HostWorld::HostWorld(const HostPlan& plan)
    : plan_(plan),
      layout_{plan.banks, elements * sizeof(HostWord), plan.areas, most_elements * sizeof(HostWord),
              elements * sizeof(HostWord)},
      tree_(std::make_shared<HostTree>(HostTree::of_degree(plan.ranks, plan.degree))),
      words_(static_cast<std::size_t>(plan.ranks) * layout_.words()),
      deliveries_(static_cast<std::size_t>(plan.uses) * plan.program.size()) {
  for (Rank rank = 0; rank < plan.ranks; ++rank)
    nodes_.push_back({stage_of(rank, 0),
                      true,
                      0,
                      Event::What::go_on,
                      {},
                      {},
                      std::vector<bool>(static_cast<std::size_t>(plan.ranks))});
}

HostStage HostWorld::stage_of(Rank rank, int use) const {
  return {{rank, plan_.ranks, plan_.window, static_cast<HostUse>(use + 1), plan_.patience}, layout_, tree_};
}

HostCall HostWorld::call_of(Rank rank, OperationNumber number) const {
  HostCall call = plan_.program[number];
  call.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  call.signature = static_cast<std::uint16_t>(1 + number);
  if (rank == plan_.differs && plan_.differs_in_length)
    call.count = call.count == 1 ? most_elements : 1;
  else if (rank == plan_.differs)
    call.signature = 99;
  call.lacks_memory = rank == plan_.lacks;
  return call;
}

// Different for each, very likely: 8 bits of a rank.
HostWord HostWorld::given(Rank rank, int use, OperationNumber number, std::uint64_t element) {
  return (1 + mixed(mixed(static_cast<std::uint64_t>(use), number), element) % 255) << 8 * rank;
}
std::vector<HostWord> HostWorld::given(Rank rank, int use, OperationNumber number, const HostCall& call) {
  std::vector<HostWord> all;
  for (std::uint64_t i = 0; i < call.count; ++i) all.push_back(given(rank, use, number, i));
  return all;
}

// ---- events ---------------------------------------------------------------------------------------------------------

std::vector<HostWorld::Event> HostWorld::events() const {
  std::vector<Event> all;
  for (Rank rank = 0; rank < plan_.ranks; ++rank) {
    const Node& node = at(rank);
    if (!node.is_alive) continue;
    if (node.call != Event::What::go_on) {
      all.push_back({Event::What::go_on, rank});
    } else if (node.use < plan_.uses) {
      const bool has_posted_all = node.stage.next() == plan_.program.size();
      const bool has_closed = word(rank, HostLayout::closed()) == static_cast<HostWord>(node.use + 1);
      if (!has_posted_all) all.push_back({Event::What::post, rank});
      if (!node.stage.idle()) all.push_back({Event::What::progress, rank});
      if (has_posted_all && node.stage.idle())
        all.push_back({has_closed ? Event::What::reuse : Event::What::close, rank});
    }
    if (deaths_ < plan_.max_deaths) all.push_back({Event::What::death, rank});
    for (Rank other = 0; other < plan_.ranks; ++other)
      if ((!at(other).is_alive || (plan_.trusts_suspicions && other != rank)) &&
          !node.knows_dead[static_cast<std::size_t>(other)])
        all.push_back({Event::What::news, rank, other});
  }
  return all;
}

void HostWorld::happen(const Event& event) {
  Node& node = at(event.rank);
  switch (event.what) {
    case Event::What::death:
      node.is_alive = false;
      node.log.clear();
      ++deaths_;
      return;
    case Event::What::news: node.knows_dead[static_cast<std::size_t>(event.other)] = true; return;
    case Event::What::go_on: break;
    default: node.call = event.what;
  }
  step(event.rank);
}

// Calls that make no access end at once.
void HostWorld::step(Rank rank) {
  Node& node = at(rank);
  HostStage stage = node.stage;
  Memory memory(*this, rank);
  std::vector<OperationNumber> completed;
  try {
    run(node, stage, memory, completed);
  } catch (const Pause&) {
    return;
  }
  for (OperationNumber number : completed) {
    check(rank, number, stage.result(number), memory.delivered()[number]);
    memory.delivered().erase(number);
  }
  node.delivered = std::move(memory.delivered());
  node.stage = std::move(stage);
  node.call = Event::What::go_on;
  node.log.clear();
}

void HostWorld::run(Node& node, HostStage& stage, Memory& memory, std::vector<OperationNumber>& completed) const {
  const auto rank = static_cast<Rank>(&node - nodes_.data());
  switch (node.call) {
    case Event::What::post: {
      const HostCall call = call_of(rank, stage.next());
      if (!stage.ready(memory, stage.bytes_given(call))) break;
      const std::vector<HostWord> data = given(rank, node.use, stage.next(), call);
      stage.post(memory, call, reinterpret_cast<const std::byte*>(data.data()));
      break;
    }
    case Event::What::progress:
      stage.progress(memory, [&](OperationNumber number) { completed.push_back(number); });
      break;
    case Event::What::close: stage.close(memory); break;
    case Event::What::reuse:
      if (!stage.is_closed_by_all(memory)) break;
      ++node.use;
      if (node.use < plan_.uses) stage = stage_of(rank, node.use);
      break;
    default: break;
  }
}

// A rank is about to store something: for what it posts, into a bank that nobody may need for what was in it before.
void HostWorld::check_reuse(Rank rank) {
  const Node& node = at(rank);
  if (node.call != Event::What::post) return;
  const OperationNumber number = node.stage.next();
  for (Rank other = 0; other < plan_.ranks; ++other) {
    const Node& its = at(other);
    if (!its.is_alive || other == rank) continue;
    const bool has_closed = word(other, HostLayout::closed()) >= static_cast<HostWord>(node.use);
    const bool is_in_bank = its.stage.done() + static_cast<OperationNumber>(plan_.banks) <= number;
    if ((its.use < node.use && !has_closed) || (its.use == node.use && is_in_bank))
      complain(rank, number, fmt::format("stores into a bank that rank {} may read", other));
  }
}

bool HostWorld::is_over() const {
  for (const Node& node : nodes_)
    if (node.is_alive && node.use < plan_.uses) return false;
  return true;
}

HostWorld::Fingerprint HostWorld::fingerprint() const {
  Fingerprint print{1, 2};
  const auto word = [&](std::uint64_t value) {
    print.a = mixed(print.a, value);
    print.b = mixed(value ^ 0x5bd1e995, print.b);
  };
  for (HostWord each : words_) word(each);
  for (const Node& node : nodes_) {
    word(static_cast<std::uint64_t>(node.is_alive));
    if (!node.is_alive) continue;
    word(static_cast<std::uint64_t>(node.call) << 32 | static_cast<std::uint64_t>(node.use));
    std::uint64_t dead = 0;
    for (bool each : node.knows_dead) dead = dead << 1 | static_cast<std::uint64_t>(each);
    word(dead);
    node.stage.describe(word);
    word(node.log.size());
    for (HostWord each : node.log) word(each);
    for (const auto& [number, data] : node.delivered) {
      word(number);
      for (HostWord each : data) word(each);
    }
  }
  for (const Delivery& each : deliveries_) {
    word(static_cast<std::uint64_t>(each.is_known) << 32 | static_cast<std::uint64_t>(each.result.outcome) << 40 |
         each.result.contributors);
    word(static_cast<std::uint64_t>(each.result.culprit));
    for (HostWord data : each.data) word(data);
  }
  return print;
}

// ---- what is promised -----------------------------------------------------------------------------------------------

bool HostWorld::has_stamped(Rank rank, int use, OperationNumber number) const {
  return word(rank, layout_.value(number)) == host_stamp(static_cast<HostUse>(use + 1), number);
}

void HostWorld::complain(Rank rank, OperationNumber number, const std::string& what) {
  if (violation_.empty())
    violation_ = fmt::format("rank {}, use {}, operation {}: {}", rank, at(rank).use + 1, number, what);
}

// From the plan and the stamps alone: at the first delivery they are all still there.
std::vector<HostWord> HostWorld::expected_data(int use, OperationNumber number) const {
  const HostCall& call = plan_.program[number];
  if (call.pattern == HostPattern::broadcast_of) return given(call.root, use, number, call);
  std::vector<HostWord> blocks, sum(call.count);
  for (Rank rank = 0; rank < plan_.ranks; ++rank) {
    if (!has_stamped(rank, use, number)) continue;
    const std::vector<HostWord> its = given(rank, use, number, call);
    for (std::uint64_t i = 0; i < call.count; ++i) sum[i] += its[i];
    blocks.push_back(static_cast<HostWord>(rank));
    blocks.insert(blocks.end(), its.begin(), its.end());
  }
  return call.pattern == HostPattern::gather_all ? blocks : sum;
}

// Nobody is owed agreement, and nobody may have data that were given for something else.
void HostWorld::check_mixture(Rank rank, OperationNumber number, const HostResult& result) {
  const HostCall& call = plan_.program[number];
  const bool reads_all = call.pattern == HostPattern::reduce_all || call.pattern == HostPattern::gather_all ||
                         (call.pattern == HostPattern::reduce_to && call.root == rank);
  const bool reads_root = call.pattern == HostPattern::broadcast_of && call.root != rank;
  bool is_mixed = false;
  for (Rank other = 0; other < plan_.ranks; ++other)
    if (has_stamped(other, at(rank).use, number) && (other == plan_.differs) != (rank == plan_.differs))
      is_mixed = is_mixed || reads_all || (reads_root && other == call.root);
  if (is_mixed && result.outcome == Outcome::success)
    complain(rank, number, "a success with data of another operation");
}

void HostWorld::check(Rank rank, OperationNumber number, const HostResult& result, const std::vector<HostWord>& data) {
  if (plan_.differs != no_rank) return check_mixture(rank, number, result);
  const HostCall& call = plan_.program[number];
  const bool is_root = call.root == rank;
  if (call.pattern == HostPattern::reduce_to && !is_root) {
    if (result.outcome == Outcome::root_failed && at(call.root).is_alive) complain(rank, number, "the root lives");
    return;
  }
  if (call.pattern == HostPattern::broadcast_of && is_root && result.outcome == Outcome::success) return;
  check_sum(rank, number, result, data);
}

void HostWorld::check_sum(Rank rank, OperationNumber number, const HostResult& result,
                          const std::vector<HostWord>& data) {
  const HostCall& call = plan_.program[number];
  const int use = at(rank).use;
  Delivery& first = deliveries_[static_cast<std::size_t>(use) * plan_.program.size() + number];
  if (first.is_known) {
    if (first.result.outcome != result.outcome || first.result.contributors != result.contributors ||
        first.data != data || first.result.culprit != result.culprit)
      complain(rank, number, "another result than somebody had before");
    return;
  }
  first = {true, result, data};
  if (result.outcome == Outcome::mismatch) return complain(rank, number, "a mismatch that is none");
  if (result.outcome != Outcome::success && !data.empty()) complain(rank, number, "data beside an error");
  if (result.outcome == Outcome::no_memory) {
    if (result.culprit != plan_.lacks) complain(rank, number, "no memory, of one who has some");
    return;
  }
  if (result.outcome == Outcome::root_failed) {
    if (call.pattern != HostPattern::broadcast_of || has_stamped(call.root, use, number) || at(call.root).is_alive)
      complain(rank, number, "the root's data are there");
    return;
  }
  if (data != expected_data(use, number))
    return complain(rank, number, "the data are not those of the ranks that have stamped");
  if (call.pattern == HostPattern::broadcast_of) return;
  std::uint32_t stamped = 0;
  for (Rank other = 0; other < plan_.ranks; ++other) {
    stamped += has_stamped(other, use, number);
    if (at(other).is_alive && !has_stamped(other, use, number)) complain(rank, number, "a live rank is missing");
    if (other == plan_.lacks && has_stamped(other, use, number)) complain(rank, number, "a sum without what one lacks");
  }
  if (result.contributors != stamped) complain(rank, number, "the contributors are not those that have stamped");
}

std::string HostWorld::words(const Event& event) {
  const char* names[] = {"posts", "looks", "closes", "reuses", "goes on", "dies", "hears of the death of"};
  const std::string text = fmt::format("{} {}", event.rank, names[static_cast<int>(event.what)]);
  return event.other == no_rank ? text : fmt::format("{} {}", text, event.other);
}

}  // namespace ucft::detail::simulator

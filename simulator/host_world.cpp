#include "simulator/host_world.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "collectives/catalogue/blocks.hpp"
#include "collectives/core/random.hpp"

namespace ucft::detail::simulator {

namespace {

constexpr std::uint64_t elements = 1;       // of a payload, and of a chunk: one word, so that an access is one
constexpr std::uint64_t most_elements = 2;  // of an area
constexpr int views = 9;                    // of read(): 8 ranks' at once, and one more
constexpr int levels = 8;
constexpr HostPlace no_cell = ~HostPlace{0};

struct Pause {};

}  // namespace

// Of a call, after the accesses that were made before: so many more, and the final looks behind them.
class HostWorld::Memory {
 public:
  Memory(HostWorld& world, Rank me, State& state, int steps) : world_(world), me_(me), state_(state), steps_(steps) {}

  HostWord load(Rank owner, HostPlace place) {
    if ((state_.found & bit(owner)) == 0 && entry(owner) == HostLease::none) return 0;
    state_.found |= bit(owner);
    return access({What::load, owner, place}, [&] { return world_.word(owner, place); });
  }
  bool has(Rank owner, HostPlace first, HostWord one, HostWord other) {
    return load(owner, first) == one && load(owner, first + 1) == other;
  }
  HostLease entry(Rank owner) {
    return static_cast<HostLease>(access({What::lease, owner}, [&] { return world_.lease(owner, state_.use); }));
  }
  HostLease lease(Rank owner) {
    const auto use = static_cast<HostWord>(state_.use);
    if (world_.plan_().uses > 1 && access({What::lease, owner}, [&] { return world_.opened(owner); }) <= use)
      return HostLease::open;  // to come
    return entry(owner);
  }
  void say_opened(int use) {
    access({What::store, me_}, [&] { return world_.opened(me_) = static_cast<HostWord>(use) + 1; });
  }
  void set_lease(HostLease lease) {
    access({What::store, me_}, [&] { return world_.lease(me_, state_.use) = static_cast<HostWord>(lease); });
  }
  void say_left(HostWord word) {
    if (world_.plan_().max_leavers == 0) return;
    access({What::store, me_, HostLayout::left()}, [&] {
      world_.left_[static_cast<std::size_t>(state_.use * world_.plan_().ranks + me_)] = word;
      return world_.word(me_, HostLayout::left()) = word;
    });
  }
  void store(HostPlace place, HostWord word) {
    access({What::store, me_, place}, [&] {
      world_.check_store(me_, place);
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
  void clear(HostPlace place) {  // no step if it is clear
    if (access(
            {What::load, me_, place}, [&] { return world_.word(me_, place); }, true) != 0)
      store(place, 0);
  }
  const std::byte* read(Rank owner, HostPlace first, std::uint64_t bytes) {
    HostWord* const view = views_[++reads_ % views];
    for (std::uint64_t i = 0; i * sizeof(HostWord) < bytes; ++i) view[i] = load(owner, first + i);
    return reinterpret_cast<const std::byte*>(view);
  }
  void announce(OperationNumber) {}
  static bool looks_again() { return false; }
  bool is_final(Rank rank) {
    return access({What::is_dead, rank}, [&] { return HostWord{world_.at(me_).knows_dead & bit(rank)}; }) != 0;
  }
  bool is_dead(Rank rank) {
    if (rank == me_) return false;
    if (is_final(rank)) return true;
    return world_.plan_().max_leavers > 0 && load(rank, HostLayout::left()) != 0;
  }
  std::byte* room(HostPlace) { return reinterpret_cast<std::byte*>(room_); }
  std::byte* destination(OperationNumber, std::uint64_t) { return scratch(0); }
  std::byte* scratch(int level) {
    assert(level < levels);
    return reinterpret_cast<std::byte*>(scratch_[level]);
  }
  void deliver(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    deliver_finished(number, offset, data, bytes);
    const Reduction& reduction = world_.plan_().program[number].reduction;
    std::byte* const delivered = reinterpret_cast<std::byte*>(state_.delivered[number].data()) + offset;
    if (reduction.finishes())
      finish(reduction, delivered, delivered, bytes / sizeof(HostWord), state_.stage.result(number).contributors);
  }
  void deliver_finished(OperationNumber number, std::uint64_t offset, const std::byte* data, std::uint64_t bytes) {
    std::vector<HostWord>& all = state_.delivered[number];
    all.resize(std::max(all.size(), (offset + bytes) / sizeof(HostWord)));
    std::memcpy(all.data() + offset / sizeof(HostWord), data, bytes);
  }
  template <class Read>
  bool expects_block(OperationNumber, Rank, std::uint64_t, Read) const {
    return true;
  }
  void deliver_block(OperationNumber number, Rank rank, const std::byte* data, std::uint64_t bytes) {
    std::vector<HostWord>& all = state_.delivered[number];
    all.push_back(std::bit_cast<HostWord>(Blocks::Record{static_cast<std::uint64_t>(rank), bytes}));
    for (std::uint64_t i = 0; i * sizeof(HostWord) < bytes; ++i) {
      HostWord word = 0;
      std::memcpy(&word, data + i * sizeof word, sizeof word);
      all.push_back(word);
    }
  }

  // That was made last, or would be made next.
  const Access& last() const { return last_; }
  bool ends_with_final_look() const { return ends_with_final_look_; }

 private:
  using What = Access::What;

  // own: of memory that no other rank stores to, so the time of the look makes no difference.
  template <class Act>
  HostWord access(const Access& it, Act act, bool own = false) {
    std::vector<HostWord>& log = world_.at(me_).log;
    if (next_ < log.size()) return log[next_++];
    last_ = it;
    ends_with_final_look_ = steps_ == 0 && !own && world_.is_final(me_, it);
    if (!own && !ends_with_final_look_ && steps_-- == 0) throw Pause{};
    log.push_back(act());
    return log[next_++];
  }

  HostWorld& world_;
  Rank me_;
  State& state_;
  int steps_;
  std::size_t next_ = 0, reads_ = 0;
  Access last_;
  bool ends_with_final_look_ = false;
  HostWord views_[views][most_elements] = {}, scratch_[levels][most_elements] = {}, room_[most_elements] = {};
};

HostWorld::HostWorld(const HostPlan& plan)
    : shared_plan_(std::make_shared<HostPlan>(plan)),
      layout_{plan.banks, elements * sizeof(HostWord), (plan.has_chunks ? elements : most_elements) * sizeof(HostWord),
              elements * sizeof(HostWord), plan.degree == 0 ? 1 : 2},
      tree_(std::make_shared<HostTree>(HostTree::of_degree(plan.ranks, plan.degree))),
      words_(static_cast<std::size_t>(plan.ranks) * words()),
      leases_(static_cast<std::size_t>(plan.ranks * plan.uses)),
      opened_(static_cast<std::size_t>(plan.ranks), 1),
      left_(leases_.size()),
      deliveries_(static_cast<std::size_t>(plan.uses) * plan.program.size()) {
  for (Rank rank = 0; rank < plan.ranks; ++rank) {
    nodes_.push_back(std::make_shared<Node>(Node{.state = state_of(rank, 0)}));
    lease(rank, 0) = static_cast<HostWord>(HostLease::open);
  }
}

HostWorld::State HostWorld::state_of(Rank rank, int use) const {
  // Those of the first use are found at once: all have been there from the beginning.
  return {{{rank, plan_().ranks, plan_().window, plan_().patience}, layout_, tree_},
          use,
          {},
          {},
          use == 0 ? ~std::uint32_t{0} : 0};
}

// Data, then chunks or a partial result, and stamps.
HostPlace HostWorld::area_words() const { return 3 * most_elements; }

HostPlace HostWorld::words() const { return first_place() + plan_().places * most_elements; }

// May this rank still read the others' slabs for that use?
bool HostWorld::reads(Rank rank, int use) const {
  return at(rank).is_alive && at(rank).state.use == use && lease_of(rank, use) == HostLease::open &&
         !has_left(rank, use);
}

Share HostWorld::share_of(Rank rank, const HostCall& call) {
  const std::uint64_t first = std::min(static_cast<std::uint64_t>(rank) * call.share.count, call.count);
  return {first, std::min(call.share.count, call.count - first)};
}

HostCall HostWorld::call_of(Rank rank, OperationNumber number) const {
  HostCall call = plan_().program[number];
  if (!call.reduction.finishes() && !call.reduction.sweeps_twice())
    call.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  call.signature = static_cast<std::uint16_t>(1 + number);
  if (rank == plan_().differs && plan_().differs_in_length)
    call.count = call.count == 1 ? most_elements : 1;
  else if (rank == plan_().differs)
    call.signature = 99;
  call.lacks_memory = rank == plan_().lacks;
  if (!call.takes_all()) call.share = share_of(rank, call);
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
  for (Rank rank = 0; rank < plan_().ranks; ++rank) {
    if (!at(rank).is_alive) continue;
    add_calls(rank, all);
    if (deaths_ < plan_().max_deaths) all.push_back({Event::What::death, rank});
    add_news(rank, all);
  }
  return all;
}

// The events that a rank may cause itself.
void HostWorld::add_calls(Rank rank, std::vector<Event>& all) const {
  const Node& node = at(rank);
  if (node.call != Event::What::go_on) {
    all.push_back({Event::What::go_on, rank});
  } else if (node.state.use < plan_().uses) {
    const HostStage& stage = node.state.stage;
    const bool has_posted_all = stage.next() == plan_().program.size();
    if (!has_posted_all && !has_left(rank, node.state.use)) all.push_back({Event::What::post, rank});
    if (!stage.idle()) all.push_back({Event::What::progress, rank});
    const bool is_open = lease_of(rank, node.state.use) == HostLease::open,
               may_leave = stage.idle() && leavers_ < plan_().max_leavers;
    if (is_open && ((has_posted_all && stage.idle()) || may_leave)) all.push_back({Event::What::close, rank});
    if (!is_open) all.push_back({Event::What::reuse, rank});
  }
}

void HostWorld::add_news(Rank rank, std::vector<Event>& all) const {
  std::uint32_t news = 0;
  for (Rank other = 0; other < plan_().ranks; ++other)
    if (!at(other).is_alive || (plan_().trusts_suspicions && other != rank)) news |= bit(other);
  news &= ~at(rank).knows_dead;
  if (news != 0 && plan_().reduced) news &= asked_by(rank);
  for (Rank other = 0; other < plan_().ranks; ++other)
    if ((news & bit(other)) != 0) all.push_back({Event::What::news, rank, other});
}

// Whose death the next access of one of this rank's calls asks for, but for final looks before it.
std::uint32_t HostWorld::asked_by(Rank rank) const {
  std::vector<Event> calls;
  add_calls(rank, calls);
  std::uint32_t asked = 0;
  for (const Event& event : calls) {
    Access next = at(rank).next;
    if (event.what != Event::What::go_on) {
      HostWorld trial = *this;
      trial.at(rank).call = event.what;
      trial.step(rank, 0);
      next = std::as_const(trial).at(rank).next;
    }
    if (next.what == Access::What::is_dead) asked |= bit(next.owner);
  }
  return asked;
}

void HostWorld::happen(const Event& event) {
  Node& node = at(event.rank);
  switch (event.what) {
    case Event::What::death:
      node.is_alive = false;
      node.log.clear();
      node.next = {};
      ++deaths_;
      break;
    case Event::What::news: node.knows_dead |= bit(event.other); break;
    case Event::What::go_on: step(event.rank, 1); break;
    case Event::What::close:
      leavers_ += node.state.stage.next() < plan_().program.size();
      node.call = event.what;
      step(event.rank, 1);
      break;
    default: node.call = event.what; step(event.rank, 1);
  }
  if (plan_().reduced) make_final_looks();
}

// Of a call: so many accesses, and the final looks behind them, but for one that completes an operation. Calls that
// make no access end at once.
void HostWorld::step(Rank rank, int steps) {
  Node& node = at(rank);
  State state = node.state;
  Memory memory(*this, rank, state, steps);
  std::vector<Completion> completed;
  node.completes = false;
  try {
    run(rank, state, memory, completed);
  } catch (const Pause&) {
    node.next = memory.last();
    return;
  }
  if (memory.ends_with_final_look() && !completed.empty()) {
    node.log.pop_back();
    node.next = memory.last();
    node.completes = true;
    return;
  }
  for (const auto& [number, result] : completed) {
    check(rank, number, result, state.delivered[number]);
    state.delivered.erase(number);
  }
  node.state = std::move(state);
  node.call = Event::What::go_on;
  node.log.clear();
  node.next = {};
}

// That have become final. Those of one rank make no others so.
void HostWorld::make_final_looks() {
  for (Rank rank = 0; rank < plan_().ranks; ++rank)
    if (const Node& node = *nodes_[static_cast<std::size_t>(rank)];
        node.is_alive && !node.completes && is_final(rank, node.next))
      step(rank, 0);
}

bool HostWorld::is_final(Rank rank, const Access& access) const {
  if (!plan_().reduced || access.what == Access::What::none || access.what == Access::What::store) return false;
  if (access.what == Access::What::is_dead) return (at(rank).knows_dead & bit(access.owner)) != 0;
  if (access.owner == rank || !at(access.owner).is_alive) return true;
  if (access.what == Access::What::lease || cell_of(access.place) == no_cell) return false;
  const State& state = at(rank).state;
  return reads(rank, state.use) && at(access.owner).state.use == state.use &&
         word(access.owner, cell_of(access.place)) >= host_stamp(state.stage.done());
}

// The V or P that this word is in: where its stamp is.
HostPlace HostWorld::cell_of(HostPlace place) const {
  const HostPlace first = layout_.value(0), length = layout_.partial(0) - first;
  if (place < first || place >= layout_.words()) return no_cell;
  return place - (place - first) % length;
}

void HostWorld::run(Rank rank, State& state, Memory& memory, std::vector<Completion>& completed) const {
  switch (at(rank).call) {
    case Event::What::post: return post(rank, state, memory, completed);
    case Event::What::progress:
      state.stage.progress(memory,
                           [&](OperationNumber number) { completed.emplace_back(number, state.stage.result(number)); });
      return;
    case Event::What::close: return leave(state, memory);
    case Event::What::reuse: return begin_anew(rank, state, memory);
    default: return;
  }
}

void HostWorld::post(Rank rank, State& state, Memory& memory, std::vector<Completion>& completed) const {
  HostStage& stage = state.stage;
  const HostCall call = call_of(rank, stage.next());
  const OperationNumber number = stage.next();
  const std::vector<HostWord> data = given(rank, state.use, number, call);
  HostData its{reinterpret_cast<const std::byte*>(data.data())};
  const auto way = stage.shortcut(call, {first_place(), most_elements, plan_().places});
  if (plan_().runs && way && way->can_run() && !call.reduction.finishes()) {
    const HostStage::Ran ran = stage.run(memory, call, *way, its.data);
    if (ran == HostStage::Ran::ended)
      completed.emplace_back(number, HostResult{Outcome::success, no_rank, stage.contributors(*way)});
    if (ran != HostStage::Ran::no) return;
  }
  if (!stage.ready(memory)) return;
  if (!layout_.is_inline(stage.bytes_given(call))) {
    const std::size_t areas = static_cast<std::size_t>(plan_().areas), earlier = state.users.size();
    if (earlier >= areas && !stage.is_free(memory, state.users[earlier - areas])) return;
    its.place = layout_.words() + earlier % areas * area_words();
    its.combined = its.place + most_elements;
    state.users.push_back(stage.next());
  }
  stage.post(memory, call, its);
}

void HostWorld::leave(const State& state, Memory& memory) {
  memory.say_left(1 + state.stage.next());
  memory.set_lease(HostLease::closed);
}

void HostWorld::begin_anew(Rank rank, State& state, Memory& memory) const {
  if (!may_end_lease(memory, rank, plan_().ranks)) return;
  memory.set_lease(HostLease::none);
  for (HostPlace place = 0; place < layout_.words(); ++place) memory.clear(place);
  const int next = state.use + 1;
  if (next == plan_().uses) {
    state.use = next;
    return;
  }
  state = state_of(rank, next);
  memory.set_lease(HostLease::open);
  memory.say_opened(next);
}

// A rank is about to store something. A call that posts stores into a bank that no rank may need for its old contents.
// A call that begins anew stores into a slab that no rank reads. None stores into a V or P that is stamped for a rank
// that may still read it.
void HostWorld::check_store(Rank rank, HostPlace place) {
  const Node& node = at(rank);
  const OperationNumber number = node.state.stage.next();
  for (Rank other = 0; other < plan_().ranks; ++other) {
    if (other == rank || !reads(other, node.state.use)) continue;
    const OperationNumber done = at(other).state.stage.done();
    const bool is_in_bank = done + static_cast<OperationNumber>(plan_().banks) <= number,
               is_in_place = place >= first_place() && done + plan_().places <= number;
    if (node.call == Event::What::reuse || (node.call == Event::What::post && (is_in_bank || is_in_place)))
      complain(rank, number, fmt::format("stores into memory that rank {} may read", other));
    if (cell_of(place) != no_cell && word(rank, cell_of(place)) >= host_stamp(at(other).state.stage.done()))
      complain(rank, number, fmt::format("stores behind a stamp that rank {} may have seen", other));
  }
}

bool HostWorld::is_over() const {
  for (const auto& node : nodes_)
    if (node->is_alive && node->state.use < plan_().uses) return false;
  return true;
}

namespace {

class Hasher {
 public:
  // Different values never bring two to the same, nor one value two different.
  void operator()(std::uint64_t value) {
    print_.a = mixed(print_.a ^ value);
    print_.b = mixed(print_.b + value * 0x9e3779b97f4a7c15);
  }
  const HostWorld::Fingerprint& print() const { return print_; }

 private:
  HostWorld::Fingerprint print_{1, 2};
};

}  // namespace

HostWorld::Fingerprint HostWorld::fingerprint() const {
  Hasher word;
  describe_outside(word);
  for (const auto& shared : nodes_) {
    const Node& node = *shared;
    if (!node.is_alive) continue;
    const State& state = node.state;
    word(static_cast<std::uint64_t>(node.call) << 32 | static_cast<std::uint64_t>(state.use));
    word(static_cast<std::uint64_t>(node.knows_dead) << 32 | state.found);
    state.stage.describe(std::ref(word));
    for (OperationNumber each : state.users) word(each);
    word(node.log.size());
    for (HostWord each : node.log) word(each);
    for (const auto& [number, data] : state.delivered) {
      word(number);
      for (HostWord each : data) word(each);
    }
  }
  return word.print();
}

HostWorld::Fingerprint HostWorld::outside() const {
  Hasher word;
  describe_outside(word);
  return word.print();
}

template <class Use>
void HostWorld::describe_outside(Use& word) const {
  for (HostWord each : words_) word(each);
  for (HostWord each : leases_) word(each);
  for (HostWord each : opened_) word(each);
  for (HostWord each : left_) word(each);
  word(static_cast<std::uint64_t>(leavers_));
  for (const auto& node : nodes_) word(static_cast<std::uint64_t>(node->is_alive));
  for (const std::optional<Result>& each : deliveries_) {
    word(each ? std::uint64_t{1} << 32 | static_cast<std::uint64_t>(each->outcome) << 40 | each->contributors : 0);
    if (!each) continue;
    word(static_cast<std::uint64_t>(each->culprit));
    for (HostWord data : each->value) word(data);
  }
}

// ---- what is promised -----------------------------------------------------------------------------------------------

// It has left, and does not post that any more. Asked by one that is in the same use.
bool HostWorld::is_absent(Rank rank, int use, OperationNumber number) const {
  const HostWord left = left_[static_cast<std::size_t>(use * plan_().ranks + rank)];
  return left != 0 && number >= left - 1;
}

bool HostWorld::has_stamped(Rank rank, int use, OperationNumber number) const {
  return lease_of(rank, use) != HostLease::none && word(rank, layout_.value(number)) == host_stamp(number);
}

void HostWorld::complain(Rank rank, OperationNumber number, const std::string& what) {
  if (violation_.empty())
    violation_ = fmt::format("rank {}, use {}, operation {}: {}", rank, at(rank).state.use + 1, number, what);
}

// From the plan and the stamps alone: at the first delivery they are all still there.
Terms HostWorld::terms_of(int use, OperationNumber number) const {
  const HostCall& call = plan_().program[number];
  const auto stays = [&](Rank rank) { return at(rank).is_alive && !is_absent(rank, use, number); };
  Terms terms{.pattern = call.pattern,
              .root = call.root,
              .averages = is_average(call.reduction.op()),
              .given = [this, &call, use, number](Rank rank) { return given(rank, use, number, call); },
              .root_stays = stays(call.root),
              .lacks = plan_().lacks,
              .lack_is_known = plan_().lacks != no_rank && has_stamped(plan_().lacks, use, number)};
  if (!call.takes_all()) terms.share = [&call](Rank rank) { return share_of(rank, call); };
  for (Rank rank = 0; rank < plan_().ranks; ++rank)
    terms.parts.push_back(stays(rank) || has_stamped(rank, use, number) ? Part::must : Part::cannot);
  return terms;
}

// No rank is owed agreement, and no rank may have data that were given for something else.
void HostWorld::check_mixture(Rank rank, OperationNumber number, const HostResult& result) {
  const HostCall& call = plan_().program[number];
  const bool is_root = call.root == rank, from_root = call.pattern.from_root();
  const bool reads_all = !from_root && (!call.pattern.to_root() || is_root),
             reads_root = from_root && (!is_root || !call.takes_all());
  bool is_mixed = false;
  const Rank end = call.pattern.is_prefix ? rank + 1 : plan_().ranks;
  for (Rank other = 0; other < end; ++other)
    if (has_stamped(other, at(rank).state.use, number) && (other == plan_().differs) != (rank == plan_().differs))
      is_mixed = is_mixed || reads_all || (reads_root && other == call.root);
  if (is_mixed && result.outcome == Outcome::success)
    complain(rank, number, "a success with data of another operation");
}

void HostWorld::check(Rank rank, OperationNumber number, const HostResult& result, const std::vector<HostWord>& data) {
  if (plan_().differs != no_rank) return check_mixture(rank, number, result);
  const HostCall& call = plan_().program[number];
  const bool has_its_data = call.pattern.from_root() && call.root == rank && call.takes_all();
  if (has_its_data && result.outcome == Outcome::success) return;
  const int use = at(rank).state.use;
  std::optional<Result>& first = deliveries_[static_cast<std::size_t>(use) * plan_().program.size() + number];
  const Terms terms = terms_of(use, number);
  const Result got{.finished = true,
                   .outcome = result.outcome,
                   .value = data,
                   .contributors = result.contributors,
                   .missing_known = false,
                   .missing = {},
                   .culprit = result.culprit};
  if (std::string wrong = broken_promise(terms, rank, got, first ? &*first : nullptr); !wrong.empty())
    return complain(rank, number, wrong);
  if (terms.gets(rank)) first = got;
}

std::string HostWorld::words(const Event& event) {
  const char* names[] = {"posts", "looks", "closes", "reuses", "goes on", "dies", "hears of the death of"};
  const std::string text = fmt::format("{} {}", event.rank, names[static_cast<int>(event.what)]);
  return event.other == no_rank ? text : fmt::format("{} {}", text, event.other);
}

}  // namespace ucft::detail::simulator

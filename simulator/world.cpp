#include "simulator/world.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "collectives/catalogue/blocks.hpp"
#include "simulator/exchanged.hpp"

namespace ucft::detail::simulator {

const char* order_name(Order order) {
  static constexpr const char* names[order_count] = {"oldest-first", "newest-first", "failures-first", "failures-last",
                                                     "shuffled"};
  return names[static_cast<int>(order)];
}

std::string describe(const std::vector<Arguments>& program, bool ends, const std::vector<Leave>& leaves,
                     const std::vector<Crash>& crashes) {
  std::string text;
  for (const Arguments& arguments : program)
    text += std::string(" ") + arguments.row().name + "(f=" + std::to_string(arguments.f) +
            ",root=" + std::to_string(arguments.root) + ")";
  if (ends) text += " the end";
  for (const Leave& each : leaves)
    text += " " + std::to_string(each.rank) + (each.waits ? " leaves after " : " leaves at once after ") +
            std::to_string(each.after);
  for (const Crash& crash : crashes)
    text += " kill " + std::to_string(crash.rank) + "@" + std::to_string(crash.after_sends);
  return text;
}

std::string describe(const Plan& plan) {
  std::string text = (plan.optimistic.begins ? "optimistic n=" : "n=") + std::to_string(plan.ranks) +
                     " W=" + std::to_string(plan.window) + " in flight " + std::to_string(plan.in_flight) + ":";
  if (plan.lends) text += " lends";
  if (plan.ranks_per_host > 0) text += " in hosts of " + std::to_string(plan.ranks_per_host);
  text += describe(plan.program, plan.ends, plan.leaves, plan.crashes);
  if (plan.short_of_memory != no_rank)
    text += " memory of " + std::to_string(plan.short_of_memory) + " ends after " + std::to_string(plan.after_blocks);
  return text + " " + order_name(plan.order) + " seed " + std::to_string(plan.seed);
}

std::byte* World::allocate(void* arg, std::size_t bytes) {
  auto& memory = *static_cast<Memory*>(arg);
  if (memory.left-- <= 0) return nullptr;
  memory.blocks.push_back(std::make_unique<std::byte[]>(bytes));
  return memory.blocks.back().get();
}

namespace {

std::vector<Rank> hosts_of(const Plan& plan) {
  std::vector<Rank> hosts;
  for (Rank rank = 0; rank < plan.ranks && plan.ranks_per_host > 0; ++rank) hosts.push_back(rank / plan.ranks_per_host);
  return hosts;
}

}  // namespace

World::Node::Node(const Plan& plan, Rank rank)
    : buffers({&World::allocate, nullptr}),
      window({rank, plan.ranks, plan.window, plan.optimistic, hosts_of(plan)}, buffers),
      outbox(buffers),
      results(plan.program.size()),
      through(static_cast<std::size_t>(plan.ranks)),
      landings(plan.program.size()) {}

World::World(const Plan& plan) : plan_(plan), memory_(static_cast<std::size_t>(plan.ranks)), random_(plan.seed) {
  if (plan.short_of_memory != no_rank) memory_[static_cast<std::size_t>(plan.short_of_memory)].left = plan.after_blocks;
  for (Rank rank = 0; rank < plan.ranks; ++rank) {
    nodes_.push_back(std::make_unique<Node>(plan, rank));
    nodes_.back()->buffers = Buffers({&World::allocate, &memory_[static_cast<std::size_t>(rank)], 4096});
  }
  set_lengths(plan_.program, plan_.ranks);
  for (const Crash& crash : plan.crashes) node(crash.rank).dies_after = crash.after_sends;
}

World::~World() {
  for (auto& each : nodes_) each->window.release_all();
}

std::vector<Rank> World::survivors() const {
  std::vector<Rank> live;
  for (Rank rank = 0; rank < plan_.ranks; ++rank)
    if (alive(rank)) live.push_back(rank);
  return live;
}

bool World::run(std::int64_t max_events) {
  for (Rank rank = 0; rank < plan_.ranks; ++rank)
    if (node(rank).dies_after == 0) kill(rank);
  for (Rank rank = 0; rank < plan_.ranks; ++rank)
    if (alive(rank)) pump(rank);
  Event event;
  while (take(event)) {
    if (++events_ > max_events) return false;
    if (!alive(event.to)) continue;
    deliver(event);
    if (alive(event.to)) pump(event.to);
  }
  return true;
}

// The work of a driver between two arrivals: post, send, collect, and give turns while there is nothing else to do.
void World::pump(Rank rank) {
  if (node(rank).is_gone) return;
  post_what_can_be(rank);
  while (alive(rank) && node(rank).window.wants_turn()) {
    node(rank).window.on_turn(node(rank).outbox, clock_of(rank));
    flush(rank);
    // One turn per event keeps arrivals and turns interleaved; without pending events the rest follows at once.
    if (!pool_.empty()) {
      pool_.push_back({Event::What::turn, rank});
      break;
    }
    ++idle_;  // time passes all the same
  }
  if (alive(rank)) post_what_can_be(rank);
  if (alive(rank)) leave_if_due(rank);
  if (alive(rank)) answer_leavers(rank);
  if (alive(rank)) go_if_not_needed(rank);
}

// ---- leaving --------------------------------------------------------------------------------------------------------

const Leave* World::leave_of(Rank rank) const {
  const auto found = std::ranges::find(plan_.leaves, rank, &Leave::rank);
  return found == plan_.leaves.end() ? nullptr : &*found;
}

std::size_t World::share_of(Rank rank) const {
  const Leave* const leave = leave_of(rank);
  return leave == nullptr ? plan_.program.size() : leave->after;
}

// When its own operations are complete.
void World::leave_if_due(Rank rank) {
  Node& here = node(rank);
  const Leave* const leave = leave_of(rank);
  if (here.has_left || here.waited < share_of(rank) || (leave == nullptr && !plan_.ends)) return;
  if (!here.window.idle() && (leave == nullptr || leave->waits)) return;  // what it waits for others might forget
  here.has_left = true;
  here.window.leave();
  for (Rank other = 0; other < plan_.ranks; ++other)
    if (other != rank && may_send(rank))
      pool_.push_back({.what = Event::What::leave, .to = other, .about = rank, .from = here.window.next()});
  if (!here.alive || leave == nullptr || leave->waits) return;
  here.is_gone = true;
  for (Rank other = 0; other < plan_.ranks; ++other)
    if (other != rank) pool_.push_back({.what = Event::What::left, .to = other, .about = rank});
}

void World::answer_leavers(Rank rank) {
  Node& here = node(rank);
  for (Rank leaver; !here.is_gone && (leaver = here.window.take_leaver(here.outbox)) != no_rank;) {
    flush(rank);
    if (!here.has_left) say_through(rank, leaver);
    post_what_can_be(rank);
    if (here.alive) leave_if_due(rank);
  }
}

void World::say_through(Rank rank, Rank to) {
  if (may_send(rank)) pool_.push_back({.what = Event::What::through, .to = to, .about = rank});
}

void World::go_if_not_needed(Rank rank) {
  Node& here = node(rank);
  if (!here.has_left || here.is_gone || !here.window.idle()) return;
  for (Rank other = 0; other < plan_.ranks; ++other)
    if (other != rank && !here.through[static_cast<std::size_t>(other)]) return;
  here.is_gone = true;
}

void World::post_what_can_be(Rank rank) {
  Node& here = node(rank);
  collect(rank);
  while (alive(rank) && here.numbers.size() < share_of(rank) &&
         here.numbers.size() < here.waited + static_cast<std::size_t>(plan_.in_flight)) {
    const bool ready = here.window.ready(here.outbox);
    flush(rank);
    if (!ready || !alive(rank)) return;
    const Arguments& arguments = plan_.program[here.numbers.size()];
    const std::size_t index = here.numbers.size();
    here.numbers.push_back(here.window.next());
    here.window.post(arguments, provide(rank, arguments, index), here.outbox);
    flush(rank);
    if (alive(rank)) collect(rank);
  }
}

// In the order of ProcessReplica::memory_for(): a rank may have memory for what it gives, and none for what it gets.
Operation::Memory World::provide(Rank rank, const Arguments& arguments, std::size_t index) {
  Buffers& buffers = node(rank).buffers;
  const CatalogueRow& row = arguments.row();
  const bool is_root = arguments.root == rank;
  Operation::Memory memory;
  if (arguments.count == 0 && !row.has_own_lengths()) return memory;
  if (is_one_of(row.gives, is_root)) {
    std::vector<std::byte> input;
    if (row.goes_straight) {
      ExchangeInput mine;
      mine.add(rank, plan_.ranks, false);
      input.swap(mine.bytes);
      memory.shares.swap(mine.shares);
    } else {
      input = input_of(arguments, rank, index);
    }
    memory.input = buffers.whole(buffers.copy_in(input.data(), input.size()));
    memory.lacks = !memory.input;
  }
  if (is_one_of(row.gets, is_root)) {
    memory.result = buffers.allocate(with_collective(
        arguments.kind, [&](auto collective) { return collective.result_bytes(arguments, plan_.ranks); }));
    memory.lacks |= memory.result == no_buffer;
  }
  const bool lends = (static_cast<std::size_t>(rank) + index) % 3 != 2;  // the others' result goes where their input is
  if (plan_.lends && lends && row.reduces && row.disseminates && !row.goes_straight) {
    std::vector<std::uint64_t>& landing = node(rank).landings[index];
    landing.resize(arguments.count);
    memory.landing = buffers.adopt(reinterpret_cast<std::byte*>(landing.data()), arguments.bytes(), 0);
  }
  if (row.goes_straight) {
    memory.room_grows = rank % 2 == 1 && plan_.short_of_memory == no_rank;
    memory.room = buffers.allocate(room_of_exchange(plan_.ranks, rank, memory.room_grows));
    memory.lacks |= memory.room == no_buffer;
  }
  return memory;
}

void World::flush(Rank rank) {
  Node& here = node(rank);
  for (const Message& send : here.outbox.sends()) {
    if (may_send(rank)) {
      ++sends_by_phase_[static_cast<std::size_t>(send.phase)];
      Event event{Event::What::message, send.peer, no_rank, send};
      event.message.peer = rank;
      const auto copy = [&](Slice slice, std::vector<std::byte>& bytes) {
        if (slice) bytes.assign(here.buffers.data(slice), here.buffers.data(slice) + slice.bytes);
      };
      if (plan_.lends)
        here.buffers.retain(send.value);  // for as long as the world lasts
      else
        copy(send.value, event.value);
      copy(here.buffers.whole(send.list), event.list);
      pool_.push_back(std::move(event));
    }
    here.buffers.release(send.value);
    here.buffers.release(send.list);
  }
  here.outbox.clear();
}

// Counts the send. False: the rank is dead, maybe from now on.
bool World::may_send(Rank rank) {
  Node& here = node(rank);
  if (here.alive && here.sends == here.dies_after) kill(rank);
  here.sends += here.alive;
  return here.alive;
}

void World::kill(Rank rank) {
  node(rank).alive = false;
  for (Rank other = 0; other < plan_.ranks; ++other)
    if (other != rank && alive(other)) pool_.push_back({Event::What::failure, other, rank});
}

bool World::take(Event& event) {
  return take_next(
      pool_, plan_.order, random_, [](const Event& e) { return e.what == Event::What::message; }, event);
}

void World::deliver(const Event& event) {
  Node& here = node(event.to);
  if (here.is_gone) {  // its context lives, if it has waited
    const Leave* const leave = leave_of(event.to);
    if (event.what == Event::What::leave && (leave == nullptr || leave->waits)) say_through(event.to, event.about);
    return;
  }
  if (event.what == Event::What::turn) return;
  if (event.what == Event::What::failure) {
    here.through[static_cast<std::size_t>(event.about)] = true;
    here.window.on_failure(event.about, here.outbox);
  } else if (event.what == Event::What::left) {
    here.through[static_cast<std::size_t>(event.about)] = true;
    here.window.on_left(event.about, true, here.outbox);
  } else if (event.what == Event::What::leave) {
    here.through[static_cast<std::size_t>(event.about)] = true;  // it has finished all that it has posted
    here.window.on_leave(event.about, event.from);
  } else if (event.what == Event::What::through) {
    here.through[static_cast<std::size_t>(event.about)] = true;
  } else if (!here.window.acceptable(event.message.operation)) {
    pool_.push_back(event);
    return;
  } else {
    Message message = event.message;
    // Values are lent, as those that the library pulls are: so the receiver needs no memory to hear of them.
    if (event.message.value && !plan_.lends) lent_.push_back(event.value);
    if (event.message.value) {
      const std::byte* const bytes =
          plan_.lends ? node(message.peer).buffers.data(event.message.value) : lent_.back().data();
      message.value = here.buffers.whole(here.buffers.adopt(bytes, event.message.value.bytes, 0));
    }
    message.list =
        event.message.list == no_buffer ? no_buffer : here.buffers.copy_in(event.list.data(), event.list.size());
    here.window.on_message(message, here.outbox);
    here.buffers.release(message.value);
    here.buffers.release(message.list);
    here.buffers.released().clear();
  }
  flush(event.to);
}

void World::collect(Rank rank) {
  Node& here = node(rank);
  for (OperationNumber number : here.window.completed()) {
    const auto found = std::find(here.numbers.begin(), here.numbers.end(), number);
    const std::size_t index = static_cast<std::size_t>(found - here.numbers.begin());
    if (index >= here.numbers.size()) continue;
    here.results[index] = read_result(rank, here.window.operation(number));
    take_landing(rank, index);
  }
  here.window.clear_completed();
  while (here.waited < here.numbers.size() && here.results[here.waited].finished) ++here.waited;
}

// A result that has landed is taken, and the caller uses its memory again at once. Without a death an operation that
// fails has left it alone.
void World::take_landing(Rank rank, std::size_t index) {
  std::vector<std::uint64_t>& landing = node(rank).landings[index];
  Result& result = node(rank).results[index];
  if (landing.empty()) return;
  if (result.outcome == Outcome::success && result.value.empty()) {
    result.value = landing;
    std::ranges::fill(landing, ~std::uint64_t{0});
  } else if (result.outcome != Outcome::success && plan_.crashes.empty() &&
             std::ranges::any_of(landing, [](std::uint64_t word) { return word != 0; })) {
    found_ = "a failed operation has written to the caller's memory on rank " + std::to_string(rank);
  }
}

Result World::read_result(Rank rank, const Operation& operation) {
  const Decision& decision = operation.decision();
  Node& here = node(rank);
  Result result = result_of(decision, operation.attempts());
  if (decision.value) {
    result.value.resize(decision.value.bytes / sizeof(std::uint64_t));
    std::memcpy(result.value.data(), here.buffers.data(decision.value), decision.value.bytes);
  }
  if (operation.row().goes_straight) {
    result.value.clear();
    if (result.outcome != Outcome::success) return result;
    const Slice value = operation.value();
    read_exchange(operation, {here.buffers.data(value), value.bytes}, here.buffers, plan_.ranks, plan_.ranks, true,
                  result);
    return result;
  }
  result.missing_known = !decision.truncated;
  result.missing = operation.members().excluded();
  const auto* list = reinterpret_cast<const std::uint32_t*>(here.buffers.data(decision.list));
  for (std::uint32_t i = 0; i < decision.list_length; ++i)
    if ((list[i] & contributed_bit) == 0) result.missing.push_back(static_cast<Rank>(list[i]));
  // As the caller has it: whose block is not there. No list says that of a gather, nor of an allgather with COUNT or
  // BIT.
  const bool is_listed = operation.row().disseminates && operation.arguments().failure_info == FailureInfo::list;
  if (operation.row().has_own_lengths() && !is_listed && !result.value.empty()) {
    result.missing.resize(static_cast<std::size_t>(plan_.ranks));
    std::iota(result.missing.begin(), result.missing.end(), 0);
    Blocks::for_each(std::as_bytes(std::span(result.value)),
                     [&](Rank of, std::span<const std::byte>) { std::erase(result.missing, of); });
  }
  std::sort(result.missing.begin(), result.missing.end());
  return result;
}

// ---- promises -------------------------------------------------------------------------------------------------------

// The dead ranks, or hosts without a rank left of which some rank has died.
std::size_t World::failed_units() const {
  const Rank unit = std::max(plan_.ranks_per_host, 1);
  std::vector<bool> lives(static_cast<std::size_t>((plan_.ranks + unit - 1) / unit)), has_died = lives;
  for (Rank rank = 0; rank < plan_.ranks; ++rank) {
    const auto host = static_cast<std::size_t>(rank / unit);
    if (!alive(rank)) has_died[host] = true;
    if (alive(rank) && leave_of(rank) == nullptr) lives[host] = true;
  }
  std::size_t failed = 0;
  for (std::size_t host = 0; host < lives.size(); ++host) failed += has_died[host] && !lives[host];
  return failed;
}

// live: those that have survived, and whose result binds the others.
std::string World::check_operation(std::size_t index, const std::vector<Rank>& live) const {
  const Arguments& arguments = plan_.program[index];
  const bool any_died = survivors().size() < nodes_.size();
  const bool broken_off = std::any_of(live.begin(), live.end(),
                                      [&](Rank rank) { return result(rank, index).outcome == Outcome::no_memory; });
  Terms terms = terms_of(arguments, plan_.ranks, index);
  terms.failures = failed_units();
  terms.lacks = plan_.short_of_memory;
  terms.lack_is_known = broken_off && arguments.row().gives == Who::all && arguments.row().disseminates && !any_died;
  for (Rank rank = 0; rank < plan_.ranks; ++rank)
    if (nodes_[static_cast<std::size_t>(rank)]->numbers.size() <= index) terms.part(rank) = Part::cannot;
  for (Rank rank : live) {  // a rank's that leaves in order is in it, but in a reduce in which some rank dies
    const Leave* const leave = leave_of(rank);
    if (leave == nullptr || (leave->waits && (!any_died || arguments.row().disseminates)))
      terms.part(rank) = Part::must;
  }
  terms.root_stays = terms.part(terms.root) == Part::must;
  const Result* reference = nullptr;
  for (Rank rank : live) {
    const Result& its = result(rank, index);
    // Some may have been through before it was broken off.
    if (std::string wrong = broken_promise(terms, rank, its, broken_off ? nullptr : reference); !wrong.empty())
      return "rank " + std::to_string(rank) + ", operation " + std::to_string(index) + ": " + wrong;
    if (terms.gets(rank)) reference = &its;
  }
  return {};
}

// Of the dead, too.
std::string World::check_uniform(std::size_t index, Rank survivor) const {
  for (Rank rank = 0; rank < plan_.ranks; ++rank) {
    const std::string wrong =
        not_uniform(plan_.program[index], result(rank, index + 1), result(rank, index), result(survivor, index));
    if (!wrong.empty()) return "rank " + std::to_string(rank) + ", operation " + std::to_string(index) + " " + wrong;
  }
  return {};
}

std::string World::check_end(Rank rank, Rank first) const {
  const Node& here = *nodes_[static_cast<std::size_t>(rank)];
  const std::string where = "rank " + std::to_string(rank) + ": ";
  if (here.has_left && !here.is_gone) return where + "has left, and never went";
  if (leave_of(rank) != nullptr) return here.has_left ? "" : where + "never left";
  if (!(here.window.members() == nodes_[static_cast<std::size_t>(first)]->window.members()))
    return where + "another membership";
  for (Rank gone : here.window.members().excluded())
    if (alive(gone) && leave_of(gone) == nullptr) return where + "excluded live rank " + std::to_string(gone);
  if (!here.window.idle()) return where + "not idle";
  if (plan_.ends && !here.is_gone) return where + "the communicator never ended";
  return {};
}

std::string World::check() const {
  if (!found_.empty()) return found_;
  const std::vector<Rank> all = survivors();
  std::vector<Rank> stay;
  std::ranges::copy_if(all, std::back_inserter(stay), [&](Rank rank) { return leave_of(rank) == nullptr; });
  for (std::size_t index = 0; index < plan_.program.size(); ++index) {
    std::vector<Rank> live;
    std::ranges::copy_if(all, std::back_inserter(live), [&](Rank rank) {  // and whose result binds the others
      const Leave* const leave = leave_of(rank);
      return index < share_of(rank) && (leave == nullptr || leave->waits);
    });
    if (std::string wrong = check_operation(index, live); !wrong.empty()) return wrong;
    if (plan_.uniform && index % 2 == 0 && !live.empty())
      if (std::string wrong = check_uniform(index, live[0]); !wrong.empty()) return wrong;
  }
  for (Rank rank : all)
    if (std::string wrong = check_end(rank, stay.empty() ? rank : stay[0]); !wrong.empty()) return wrong;
  return {};
}

}  // namespace ucft::detail::simulator

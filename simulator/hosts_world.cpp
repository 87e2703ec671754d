#include "simulator/hosts_world.hpp"

#include <algorithm>
#include <cstring>

#include "simulator/exchanged.hpp"

namespace ucft::detail::simulator {

std::string describe(const HostsPlan& plan) {
  std::string text = plan.optimistic.begins ? "optimistic hosts" : "hosts";
  if (plan.slow_journal) text = "slow journal, " + text;
  for (Host host : plan.hosts) text += " " + std::to_string(host);
  text += " W=" + std::to_string(plan.window) + " in flight " + std::to_string(plan.in_flight) + ":";
  text += describe(plan.program, plan.ends, plan.leaves, plan.crashes);
  return text + " " + order_name(plan.order) + " seed " + std::to_string(plan.seed);
}

std::byte* HostsWorld::allocate(void* arg, std::size_t bytes) {
  auto& blocks = static_cast<Node*>(arg)->blocks;
  blocks.push_back(std::make_unique<std::byte[]>(bytes));
  return blocks.back().get();
}

HostsWorld::Node::Node(HostsWorld& world, Rank rank)
    : buffers({&HostsWorld::allocate, this, 4096}),
      journal(world, rank),
      caller(world, rank),
      member({rank, &world.plan_.hosts, world.plan_.window, world.plan_.optimistic, world.plan_.long_bytes}, journal,
             caller, buffers),
      results(world.plan_.program.size()),
      named(world.plan_.program.size()),
      proved(world.plan_.hosts.size()) {}

HostsWorld::HostsWorld(const HostsPlan& plan)
    : plan_(plan), memories_(static_cast<std::size_t>(plan.hosts.back() + 1)), random_(plan.seed) {
  set_lengths(plan_.program, ranks());
  for (HostMemory& memory : memories_) {
    memory.given.assign(plan.program.size(), std::vector<bool>(plan.hosts.size()));
    memory.left.assign(plan.hosts.size(), false);
  }
  for (Rank rank = 0; rank < ranks(); ++rank) nodes_.push_back(std::make_unique<Node>(*this, rank));
  for (const Crash& crash : plan.crashes) node(crash.rank).dies_after = crash.after_sends;
}

HostsWorld::~HostsWorld() {
  for (auto& each : nodes_) each->member.release_all();
}

std::vector<Rank> HostsWorld::survivors() const {
  std::vector<Rank> live;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (alive(rank)) live.push_back(rank);
  return live;
}

bool HostsWorld::run(std::int64_t max_events) {
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (node(rank).dies_after == 0) kill(rank);
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (alive(rank)) pump(rank);
  for (int time = 0; time < plan_.waits; ++time)
    for (Rank rank = 0; rank < ranks(); ++rank) pool_.push_back({Event::What::waiting, rank});
  Event event;
  const auto is_packet = [](const Event& e) { return e.what == Event::What::packet; };
  while (take_next(pool_, plan_.order, random_, is_packet, event) ||
         (say_waiting() && take_next(pool_, plan_.order, random_, is_packet, event))) {
    if (++events_ > max_events) return false;
    if (!alive(event.to) || node(event.to).is_gone) continue;
    deliver(event);
    if (alive(event.to)) pump(event.to);
  }
  return true;
}

// Where hosts have posted different calls, time passes when all wait.
bool HostsWorld::say_waiting() {
  constexpr int most_stalls = 3;  // one for each call, and for a speaker that dies as it speaks
  if (plan_.mismatched.empty() || stalls_++ == most_stalls) return false;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (alive(rank)) pool_.push_back({Event::What::waiting, rank});
  return !pool_.empty();
}

// ---- shared memory --------------------------------------------------------------------------------------------------

// Counts a step. False: the rank is dead, maybe from now on.
bool HostsWorld::may_step(Rank rank, std::int64_t& counter) {
  if (alive(rank) && steps(rank) == node(rank).dies_after) kill(rank);
  counter += alive(rank);
  return alive(rank);
}

void HostsWorld::kill(Rank rank) {
  node(rank).alive = false;
  for (Rank other = 0; other < ranks(); ++other)
    if (alive(other)) pool_.push_back({Event::What::failure, other, rank});
}

void HostsWorld::tell_host(Rank rank) {
  for_each_on(host_of(rank), [&](Rank other) {
    if (other != rank && alive(other)) pool_.push_back({Event::What::look, other});
  });
}

// Two stores: the contents, and the stamp. A dead predecessor's entry may be there without its stamp.
void HostsWorld::append(Rank rank, std::uint64_t position, const JournalEntry& entry) {
  if (!may_step(rank, node(rank).stores)) return;
  std::deque<Entry>& journal = memory_of(rank).journal;
  if (journal.size() == position) journal.emplace_back();
  journal.at(position).kept = KeptEntry(entry);
  node(rank).stamp_is_owed = plan_.slow_journal;
  if (plan_.slow_journal)
    pool_.push_back({Event::What::stamp, rank});
  else
    stamp_last(rank);
}

void HostsWorld::stamp_last(Rank rank) {
  node(rank).stamp_is_owed = false;
  if (!may_step(rank, node(rank).stores)) return;
  memory_of(rank).journal.back().stamped = true;
  tell_host(rank);
}

const JournalEntry* HostsWorld::RankJournal::at(std::uint64_t position) {
  const std::deque<Entry>& journal = world_.memory_of(rank_).journal;
  if (position >= journal.size() || !journal[position].stamped) return nullptr;
  const JournalEntry& entry = journal[position].kept.entry;
  const bool lies_elsewhere = entry.contribution != nullptr && entry.contribution->arguments.row().goes_straight;
  return lies_elsewhere ? world_.in_pieces(rank_, entry) : &entry;
}

// As long blocks are in a job: each reader has a block of its own, and in it what it computes of the ranks' pieces.
const JournalEntry* HostsWorld::in_pieces(Rank rank, const JournalEntry& entry) {
  Node& here = node(rank);
  here.buffers.release(here.contribution.block);
  for (const ProcessContribution::Piece& piece : here.contribution.pieces) here.buffers.release(piece.data);
  here.contribution = *entry.contribution;
  if (!here.contribution.value.empty()) {
    lent_.emplace_back(here.contribution.value.begin(), here.contribution.value.end());
    const std::vector<std::byte>& bytes = lent_.back();
    here.contribution.block = here.buffers.whole(here.buffers.allocate(bytes.size()));
    here.contribution.pieces = {{0, here.buffers.whole(here.buffers.adopt(bytes.data(), bytes.size(), 0))}};
  }
  here.read = entry;
  here.read.contribution = &here.contribution;
  return &here.read;
}

// ---- what a rank does -----------------------------------------------------------------------------------------------

void HostsWorld::pump(Rank rank) {
  post_what_can_be(rank);
  while (alive(rank) && offer(rank)) post_what_can_be(rank);
  if (alive(rank)) leave_if_due(rank);
  if (!alive(rank) || node(rank).is_gone || !node(rank).member.wants_turn()) return;
  node(rank).member.on_turn(-1);
  flush(rank);
  pool_.push_back({Event::What::turn, rank});
}

void HostsWorld::post_what_can_be(Rank rank) {
  Node& here = node(rank);
  while (here.waited < here.posted && here.results[here.waited].finished) ++here.waited;
  while (alive(rank) && here.posted < share_of(rank)) {
    while (here.waited < here.posted && here.results[here.waited].finished) ++here.waited;
    if (here.posted >= here.waited + static_cast<std::size_t>(plan_.in_flight)) return;
    give(rank, here.posted++);
  }
}

// ---- leaving

const Leave* HostsWorld::leave_of(Rank rank) const {
  const auto found = std::ranges::find(plan_.leaves, rank, &Leave::rank);
  return found == plan_.leaves.end() ? nullptr : &*found;
}

std::size_t HostsWorld::share_of(Rank rank) const {
  const Leave* const leave = leave_of(rank);
  return leave == nullptr ? plan_.program.size() : leave->after;
}

// When its own operations are complete: it says so in its host's memory. Then it goes, if others stay; else it sees to
// it that its host leaves, too, with the others that have.
void HostsWorld::leave_if_due(Rank rank) {
  Node& here = node(rank);
  const Leave* const leave = leave_of(rank);
  if (here.is_gone || here.waited < share_of(rank) || (leave == nullptr && !plan_.ends)) return;
  if (!here.has_left) {
    if (!may_step(rank, here.stores)) return;
    here.has_left = memory_of(rank).left[static_cast<std::size_t>(rank)] = true;
    tell_host(rank);
    if (leave != nullptr && !leave->waits) return go(rank, true);
    if (!is_last_here(rank)) return go(rank, false);
  }
  const bool is_over = here.member.leave();
  flush(rank);
  here.has_ended = here.alive && is_over;
  if (here.has_ended) go(rank, false);
}

// As it sees it.
bool HostsWorld::is_last_here(Rank rank) const {
  bool is_last = true;
  for_each_on(host_of(rank), [&](Rank other) {
    const auto place = static_cast<std::size_t>(other);
    is_last &= memories_[static_cast<std::size_t>(host_of(rank))].left[place] ||
               nodes_[static_cast<std::size_t>(rank)]->proved[place];
  });
  return is_last;
}

void HostsWorld::go(Rank rank, bool is_needed) {
  node(rank).is_gone = true;
  for (Rank other = 0; other < ranks(); ++other)
    if (other != rank && alive(other))
      pool_.push_back({.what = Event::What::gone, .to = other, .about = rank, .was_needed = is_needed});
}

// Its data, and the stamp.
void HostsWorld::give(Rank rank, std::size_t call) {
  if (!may_step(rank, node(rank).stores) || !may_step(rank, node(rank).stores)) return;
  memory_of(rank).given[call][static_cast<std::size_t>(rank)] = true;
  tell_host(rank);
}

// The host's contribution to its next call, if it is final and this rank speaks. True: given.
bool HostsWorld::offer(Rank rank) {
  ProcessMember& member = node(rank).member;
  if (!member.wants_contribution() || member.next_call() >= node(rank).posted) return false;
  const auto call = static_cast<std::size_t>(member.next_call());
  if (!is_final(rank, call)) return false;
  std::vector<std::byte> value;
  member.on_contribution(contribution_of_host(rank, call, value));
  flush(rank);
  return true;
}

const Arguments& HostsWorld::arguments_of(Host host, std::size_t call) const {
  for (const HostsPlan::Other& other : plan_.mismatched)
    if (other.host == host && other.call == call) return other.arguments;
  return plan_.program[call];
}

bool HostsWorld::is_mismatched(std::size_t call) const {
  return std::ranges::find(plan_.mismatched, call, &HostsPlan::Other::call) != plan_.mismatched.end();
}

// As this rank sees it: all have given, or are proved dead. A broadcast needs its root alone, and on other hosts no
// data.
bool HostsWorld::is_final(Rank rank, std::size_t call) {
  const Arguments& arguments = arguments_of(host_of(rank), call);
  const std::vector<bool>& given = memory_of(rank).given[call];
  bool final = true;
  for_each_on(host_of(rank), [&](Rank other) {
    if (arguments.row().from_root() && other != (host_of(arguments.root) == host_of(rank) ? arguments.root : rank))
      return;
    const auto place = static_cast<std::size_t>(other);
    final &= given[place] || node(rank).proved[place] || memory_of(rank).left[place];
  });
  return final;
}

ProcessContribution HostsWorld::contribution_of_host(Rank rank, std::size_t call, std::vector<std::byte>& value) {
  const std::vector<bool>& given = memory_of(rank).given[call];
  ProcessContribution contribution;
  contribution.arguments = arguments_of(host_of(rank), call);
  const Arguments& arguments = contribution.arguments;
  const Rank root = std::exchange(contribution.arguments.root, host_of(arguments.root));
  const bool root_is_here = host_of(root) == host_of(rank), root_gave = given[static_cast<std::size_t>(root)];
  contribution.has_value = !arguments.row().from_root() || (root_is_here && root_gave);
  contribution.root_died = arguments.row().from_root() && root_is_here && !root_gave;
  ExchangeInput exchange;
  const auto add = [&](Rank other) {
    if (arguments.row().goes_straight) return exchange.add(other, plan_.hosts.back() + 1, !arguments.row().from_root());
    const std::vector<std::byte> part = input_of(arguments_of(host_of(rank), call), other, call);
    if (arguments.row().combines == Combines::blocks)
      return static_cast<void>(value.insert(value.end(), part.begin(), part.end()));
    if (value.empty()) return static_cast<void>(value = part);
    combine(arguments.reduction, value.data(), value.data(), part.data(), arguments.count);
  };
  for_each_on(host_of(rank), [&](Rank other) {
    if (arguments.row().from_root() && other != root) return;
    if (!given[static_cast<std::size_t>(other)]) return static_cast<void>(contribution.missing.push_back(other));
    ++contribution.contributors;
    add(other);
  });
  if (arguments.row().goes_straight) {
    value.swap(exchange.bytes);
    contribution.shares.swap(exchange.shares);
    contribution.room_grows = !contribution.missing.empty();
    contribution.room_bytes = room_of_exchange(ranks(), host_of(rank), contribution.room_grows);
  }
  contribution.value = value;
  return contribution;
}

void HostsWorld::flush(Rank rank) {
  Node& here = node(rank);
  for (const ProcessMember::Packet& packet : here.member.outbox()) {
    if (may_step(rank, here.sends)) {
      Event event{.what = Event::What::packet,
                  .to = packet.to,
                  .about = rank,
                  .place = packet.place,
                  .message = packet.message};
      event.message.peer = host_of(rank);
      const auto copy = [&](Slice slice, std::vector<std::byte>& bytes) {
        if (slice) bytes.assign(here.buffers.data(slice), here.buffers.data(slice) + slice.bytes);
      };
      copy(packet.message.value, event.value);
      copy(here.buffers.whole(packet.message.list), event.list);
      pool_.push_back(std::move(event));
    }
    here.buffers.release(packet.message.value);
    here.buffers.release(packet.message.list);
  }
  here.member.outbox().clear();
}

void HostsWorld::deliver(const Event& event) {
  Node& here = node(event.to);
  switch (event.what) {
    case Event::What::look: here.member.look(); break;
    case Event::What::stamp:
      stamp_last(event.to);
      here.member.look();
      break;
    case Event::What::turn: break;
    case Event::What::waiting: here.member.say_waiting(); break;
    case Event::What::failure:
      if (host_of(event.about) == host_of(event.to)) here.proved[static_cast<std::size_t>(event.about)] = true;
      here.member.on_failure(event.about);
      break;
    case Event::What::gone:
      if (host_of(event.about) == host_of(event.to)) {
        here.proved[static_cast<std::size_t>(event.about)] = true;
        here.member.on_failure(event.about);
      } else {
        here.member.on_left(event.about, event.was_needed);
      }
      break;
    case Event::What::packet: {
      Message message = event.message;
      if (message.value) {
        lent_.push_back(event.value);
        message.value = here.buffers.whole(here.buffers.adopt(lent_.back().data(), lent_.back().size(), 0));
      }
      message.list = event.list.empty() ? no_buffer : here.buffers.copy_in(event.list.data(), event.list.size());
      here.member.on_packet(event.about, event.place, message);
      here.buffers.release(message.value);
      here.buffers.release(message.list);
    }
  }
  here.buffers.released().clear();
  flush(event.to);
}

void HostsWorld::complete(Rank rank, OperationNumber call, OperationNumber number, std::span<const std::byte> value) {
  if (alive(rank) && call != ProcessReplica::internal)
    node(rank).results[call] = read_result(rank, call, number, value);
}

Result HostsWorld::read_result(Rank rank, std::size_t call, OperationNumber number, std::span<const std::byte> value) {
  Node& here = node(rank);
  const Operation& operation = here.member.process().operation(number);
  const Decision& decision = operation.decision();
  Result result = result_of(decision, operation.attempts());
  here.named[call] = decision.list_length;
  result.missing_known = here.member.missing(number, result.missing);
  const Arguments& arguments = arguments_of(host_of(rank), call);
  if (arguments.row().goes_straight) {
    if (result.outcome == Outcome::success)
      read_exchange(operation, value, here.buffers, plan_.hosts.back() + 1, ranks(), false, result);
    return result;
  }
  if (!value.empty() && (!arguments.row().to_root() || rank == arguments.root)) {
    result.value.resize(value.size() / sizeof(std::uint64_t));
    std::memcpy(result.value.data(), value.data(), value.size());
  }
  return result;
}

// ---- promises -------------------------------------------------------------------------------------------------------

// Some rank stays, or has seen the host through its end.
bool HostsWorld::is_sound(Host host) const {
  bool sound = false;
  for_each_on(host, [&](Rank rank) {
    const bool stays = leave_of(rank) == nullptr && !plan_.ends;
    sound |= alive(rank) && (stays || nodes_[static_cast<std::size_t>(rank)]->has_ended);
  });
  return sound;
}

// A result that a rank has got before its host failed, or before it went without waiting, binds no other rank.
bool HostsWorld::binds(Rank rank) const {
  const Leave* const leave = leave_of(rank);
  return (leave == nullptr || leave->waits) && is_sound(host_of(rank));
}

std::size_t HostsWorld::failed_hosts() const {
  std::size_t failed = 0;
  for (Host host = 0; host <= plan_.hosts.back(); ++host) {
    bool has_died = false;
    for_each_on(host, [&](Rank rank) { has_died |= !alive(rank); });
    failed += has_died && !is_sound(host);
  }
  return failed;
}

// Not a success of a rank that is to have a result, with a part in it of a rank that has posted something else.
std::string HostsWorld::check_mismatched(Rank rank, std::size_t call) const {
  const Result& result = this->result(rank, call);
  const Arguments& mine = arguments_of(host_of(rank), call);
  Terms terms = simulator::terms_of(mine, ranks(), call);
  if (result.outcome != Outcome::success || mine.row().from_root() || !terms.gets(rank)) return {};
  for (Rank other = 0; other < ranks(); ++other)
    if (arguments_of(host_of(other), call).signature() != mine.signature()) terms.part(other) = Part::cannot;
  return wrong_contents(terms, result);
}

Terms HostsWorld::terms_of(std::size_t call) const {
  const Arguments& arguments = plan_.program[call];
  const bool any_died = survivors().size() < plan_.hosts.size();
  Terms terms = simulator::terms_of(arguments, ranks(), call);
  if (terms.given_to) terms.given_to = [this](Rank from, Rank to) { return exchanged(from, host_of(to)); };
  terms.failures = failed_hosts();
  for (Rank rank = 0; rank < ranks(); ++rank) {
    // A rank's that leaves in order is in it, but in a reduce in which some rank dies.
    const bool is_certain = leave_of(rank) == nullptr || !any_died || arguments.row().disseminates;
    if (alive(rank) && call < share_of(rank) && binds(rank) && is_certain)
      terms.part(rank) = Part::must;
    else if (!memories_[static_cast<std::size_t>(host_of(rank))].given[call][static_cast<std::size_t>(rank)])
      terms.part(rank) = Part::cannot;
  }
  terms.root_stays = terms.part(terms.root) == Part::must;
  return terms;
}

// reference: of a rank before, or nullptr. Of the dead only the results that they have got before they died.
std::string HostsWorld::check_result(const Terms& terms, Rank rank, std::size_t call, const Result*& reference) const {
  const Result& result = this->result(rank, call);
  if (!result.finished && (!alive(rank) || call >= share_of(rank))) return {};
  const bool differs = result.finished && is_mismatched(call);
  const std::string wrong = differs ? check_mismatched(rank, call) : broken_promise(terms, rank, result, reference);
  if (!wrong.empty()) return "rank " + std::to_string(rank) + ", operation " + std::to_string(call) + ": " + wrong;
  if (!differs && terms.gets(rank)) reference = &result;
  return {};
}

// Of those, too, whose hosts have died as a whole.
std::string HostsWorld::check_uniform(std::size_t call, const Result& reference) const {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const std::string wrong = not_uniform(plan_.program[call], result(rank, call + 1), result(rank, call), reference);
    if (!wrong.empty()) return "rank " + std::to_string(rank) + ", operation " + std::to_string(call) + " " + wrong;
  }
  return {};
}

// All replicas of a host have read the same, and all hosts go on with the same others.
std::string HostsWorld::check_host(Rank rank, Rank first) const {
  const ProcessMember& member = nodes_[static_cast<std::size_t>(rank)]->member;
  const std::string where = "rank " + std::to_string(rank) + ": ";
  const Node& here = *nodes_[static_cast<std::size_t>(rank)];
  if (here.has_left && !here.is_gone) return where + "has left, and never went";
  if (leave_of(rank) != nullptr) return here.has_left ? "" : where + "never left";
  if (plan_.ends) return here.is_gone ? "" : where + "never left at the end";
  if (!(member.process().window().members() ==
        nodes_[static_cast<std::size_t>(first)]->member.process().window().members()))
    return where + "another membership";
  if (!member.process().window().idle()) return where + "not idle";
  const std::deque<Entry>& journal = memories_[static_cast<std::size_t>(host_of(rank))].journal;
  if (member.entries() != static_cast<std::uint64_t>(std::ranges::count(journal, true, &Entry::stamped)))
    return where + "has not read all of the journal";
  for (Host gone : member.process().window().members().excluded())
    for (Rank other = 0; other < ranks(); ++other)
      if (host_of(other) == gone && alive(other) && leave_of(other) == nullptr)
        return where + "excluded living host " + std::to_string(gone);
  return {};
}

std::string HostsWorld::check() const {
  const std::vector<Rank> live = survivors();
  for (const Rank rank : live)
    if (given_up_.contains(rank)) return "a log gave up living rank " + std::to_string(rank);
  for (std::size_t call = 0; call < plan_.program.size(); ++call) {
    const Terms terms = terms_of(call);
    const Result* reference = nullptr;
    for (Rank rank : live)
      if (std::string wrong = binds(rank) ? check_result(terms, rank, call, reference) : ""; !wrong.empty())
        return wrong;
    // Delivery is uniform on a host that lives: all get the result that a dead rank has got.
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (!alive(rank) && binds(rank))
        if (std::string wrong = check_result(terms, rank, call, reference); !wrong.empty()) return "dead " + wrong;
    if (plan_.uniform && call % 2 == 0 && reference != nullptr)
      if (std::string wrong = check_uniform(call, *reference); !wrong.empty()) return wrong;
  }
  const auto first = std::ranges::find_if(live, [&](Rank rank) { return leave_of(rank) == nullptr; });
  for (Rank rank : live)
    if (std::string wrong = check_host(rank, first == live.end() ? rank : *first); !wrong.empty()) return wrong;
  return {};
}

// ---- exploring ------------------------------------------------------------------------------------------------------

namespace {

// Which of the victims have died.
std::vector<bool> run_hosts(const HostsPlan& plan, HostsExploration& found) {
  HostsWorld world(plan);
  const std::string wrong = world.run() ? world.check() : "still running after a million events";
  ++found.plans;
  found.events += world.events();
  if (!wrong.empty() && found.violations++ == 0) found.first_violation = describe(plan) + ": " + wrong;
  std::vector<bool> died;
  for (const Crash& crash : plan.crashes) died.push_back(!world.alive(crash.rank));
  return died;
}

// Points of the victims from `at` on; true for those of `at` .. that died in some run.
std::vector<bool> explore_points(HostsPlan& plan, std::size_t at, const HostsScope& scope, HostsExploration& found) {
  if (at == plan.crashes.size()) return run_hosts(plan, found);
  const bool is_last = at + 1 == plan.crashes.size();
  std::vector<bool> ever(plan.crashes.size());
  for (std::int64_t point = 0;; point += is_last ? 1 : scope.stride) {
    plan.crashes[at].after_sends = point;
    const std::vector<bool> died = explore_points(plan, at + 1, scope, found);
    for (std::size_t i = 0; i < died.size(); ++i) ever[i] = ever[i] || died[i];
    if (!died[at]) return ever;
  }
}

}  // namespace

void explore_hosts(const HostsPlan& base, const std::vector<Rank>& victims, const HostsScope& scope,
                   HostsExploration& found) {
  HostsPlan plan = base;
  plan.crashes.clear();
  for (Rank victim : victims) plan.crashes.push_back({victim, 0});
  for (Order order : scope.orders) {
    plan.order = order;
    explore_points(plan, 0, scope, found);
  }
  plan.order = Order::shuffled;
  for (int seed = 1; seed <= scope.seeds; ++seed) {
    plan.seed = static_cast<std::uint64_t>(seed) * 7919;
    for (Rank victim : victims) plan.seed = plan.seed * 31 + static_cast<std::uint64_t>(victim);
    explore_points(plan, 0, scope, found);
  }
}

void explore_hosts_of(const HostsPlan& base, int victims, const HostsScope& scope, HostsExploration& found) {
  std::vector<Rank> set;
  const auto grow = [&](auto&& self, Rank from) -> void {
    if (static_cast<int>(set.size()) == victims) return explore_hosts(base, set, scope, found);
    for (Rank rank = from; rank < static_cast<Rank>(base.hosts.size()); ++rank) {
      set.push_back(rank);
      self(self, rank + 1);
      set.pop_back();
    }
  };
  grow(grow, 0);
}

void walk_hosts(const HostsPlan& base, int max_victims, std::int64_t runs, std::uint64_t seed,
                HostsExploration& found) {
  std::mt19937_64 random(seed);
  HostsWorld calm(base);
  calm.run();
  const auto ranks = static_cast<Rank>(base.hosts.size());
  std::vector<std::uint64_t> points;  // of a rank that takes over: more than of any rank without deaths
  for (Rank rank = 0; rank < ranks; ++rank) {
    points.push_back(1);
    for (Rank other = 0; other < ranks; ++other)
      if (base.hosts[static_cast<std::size_t>(other)] == base.hosts[static_cast<std::size_t>(rank)])
        points.back() = std::max(points.back(), static_cast<std::uint64_t>(2 * calm.steps(other)));
  }
  for (std::int64_t run = 0; run < runs; ++run) {
    HostsPlan plan = base;
    std::vector<Rank> victims;
    for (Rank rank = 0; rank < ranks; ++rank) victims.push_back(rank);
    std::shuffle(victims.begin(), victims.end(), random);
    victims.resize(random() % static_cast<std::uint64_t>(max_victims + 1));
    for (Rank victim : victims)
      plan.crashes.push_back({victim, static_cast<std::int64_t>(random() % points[static_cast<std::size_t>(victim)])});
    plan.order = static_cast<Order>(random() % order_count);
    plan.seed = random();
    run_hosts(plan, found);
  }
}

}  // namespace ucft::detail::simulator

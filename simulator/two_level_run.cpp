#include "simulator/two_level_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "collectives/among/process_member.hpp"
#include "simulator/kept_entry.hpp"
#include "simulator/promises.hpp"

namespace ucft::detail::simulator {

namespace {

class TwoLevelActors {
 public:
  explicit TwoLevelActors(const TwoLevelRun& run);
  ~TwoLevelActors() {
    for (auto& [rank, member] : members_) member->member.release_all();
  }
  TwoLevelActors(const TwoLevelActors&) = delete;
  TwoLevelActors& operator=(const TwoLevelActors&) = delete;

  // For the engine.
  Buffers& buffers() { return buffers_; }
  void start(Rank rank, Outbox&) {  // who speaks from the start needs its object
    const Rank first = host_of(rank) * run_.ranks_per_host;
    if (std::all_of(dies_.begin() + first, dies_.begin() + rank, [](double time) { return time == 0; }))
      member_of(rank);
  }
  void deliver(Rank rank, const Message& message, Outbox& out);
  void fail(Rank rank, Rank failed, Outbox& out);
  bool wants_turn(Rank rank) const;
  double turn_at(Rank rank) const;
  void turn(Rank rank, double now, Outbox& out);
  bool finished(Rank rank) const {
    const Member* const found = find(rank);
    return found != nullptr && found->result.finished;
  }
  std::uint64_t payload_bytes(const Message& message) const { return stand_in_.payload_of(message); }
  template <class Visit>
  void note_failure(Rank failed, Visit visit);
  template <class Visit>
  void note_proof(Rank failed, Visit visit);
  double proof_delay() const { return run_.proof_delay; }

  // After the run.
  Rank hosts() const { return hosts_.back() + 1; }
  bool has_given(Rank rank) const { return !is_absent_[static_cast<std::size_t>(rank)]; }
  const Result* result_of(Rank rank) const { return finished(rank) ? &find(rank)->result : nullptr; }
  std::uint32_t partners(Host host) const { return static_cast<std::uint32_t>(of(host).partners.size()); }
  Rank takeovers() const { return takeovers_; }

 private:
  struct HostMemory : Journal {
    std::deque<KeptEntry> entries;
    double ready_at = 0;
    ProcessContribution contribution;
    std::vector<std::uint64_t> value;  // a number, once for each word of its stand-in
    std::vector<Host> partners;
    void append(std::uint64_t position, const JournalEntry& entry) override {
      assert(position == entries.size());
      entries.emplace_back(entry);
    }
    const JournalEntry* at(std::uint64_t position) override {
      return position < entries.size() ? &entries[position].entry : nullptr;
    }
  };
  struct Member : ProcessMember::Caller {
    Member(TwoLevelActors& actors, Rank rank);
    void on_completed(OperationNumber call, OperationNumber number, std::span<const std::byte> value) override;
    void on_given_up(Rank rank) override;
    TwoLevelActors& actors;
    ProcessMember member;
    Result result;  // with the first word of its value
  };

  static constexpr int window = 4;  // so that no barrier of the window follows a rooted operation

  static std::byte* allocate(void* arg, std::size_t bytes) {
    auto& memory = static_cast<TwoLevelActors*>(arg)->memory_;
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    return memory.back().get();
  }
  Host host_of(Rank rank) const { return rank / run_.ranks_per_host; }
  HostMemory& of(Host host) { return memories_[static_cast<std::size_t>(host)]; }
  const HostMemory& of(Host host) const { return memories_[static_cast<std::size_t>(host)]; }
  const Member* find(Rank rank) const {
    const auto found = members_.find(rank);
    return found == members_.end() ? nullptr : found->second.get();
  }
  Member& member_of(Rank rank);
  void make_contribution(Host host);
  void flush(Rank rank, Outbox& out);
  static std::uint64_t pair_of(Rank from, Rank to) {
    return static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
  }

  const TwoLevelRun& run_;
  const StandIn stand_in_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  Buffers buffers_;
  std::vector<Host> hosts_;              // of each rank
  std::vector<std::uint8_t> is_absent_;  // by rank: dead before it could call
  std::vector<double> starts_, dies_;
  std::deque<HostMemory> memories_;
  std::unordered_map<Rank, std::unique_ptr<Member>> members_;
  std::vector<Rank> failed_;                            // as hosts tell each other
  std::unordered_map<Host, std::vector<Rank>> proved_;  // on that host
  std::unordered_map<std::uint64_t, std::deque<std::uint32_t>>
      places_;  // of messages on their way: by sender and receiver, in order
  Rank takeovers_ = 0;
};

TwoLevelActors::TwoLevelActors(const TwoLevelRun& run)
    : run_(run),
      stand_in_(run.arguments.kind, run.payload_bytes, (run.setting.ranks - 1) / run.ranks_per_host + 1,
                run.optimistic),
      buffers_({&TwoLevelActors::allocate, this, 1 << 20}) {
  const Setting& setting = run.setting;
  const auto ranks = static_cast<std::size_t>(setting.ranks);
  for (Rank rank = 0; rank < setting.ranks; ++rank) hosts_.push_back(host_of(rank));
  starts_.assign(ranks, 0);
  dies_.assign(ranks, never);
  is_absent_.assign(ranks, 0);
  for (Rank rank = 0; rank < setting.ranks && setting.skew != 0; ++rank)
    starts_[static_cast<std::size_t>(rank)] = setting.skew * chance_of(~setting.seed, rank, 0);
  for (const Death& death : setting.deaths) dies_[static_cast<std::size_t>(death.rank)] = death.time;
  for (Rank rank : setting.dead) {
    dies_[static_cast<std::size_t>(rank)] = 0;
    proved_[host_of(rank)].push_back(rank);
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) is_absent_[rank] = dies_[rank] <= starts_[rank];
  memories_.resize(static_cast<std::size_t>(hosts()));
  for (Host host = 0; host < hosts(); ++host) make_contribution(host);
}

// A pure function of the ranks that have given. If a rank dies before it calls, the others wait for the proof.
void TwoLevelActors::make_contribution(Host host) {
  HostMemory& memory = of(host);
  ProcessContribution& mine = memory.contribution;
  mine.arguments = run_.arguments;
  mine.arguments.root = host_of(run_.arguments.root);
  mine.arguments.f = std::min(run_.arguments.f, hosts() - 1);
  const CatalogueRow& row = mine.arguments.row();
  mine.arguments.count = row.has_data() ? stand_in_.words() : 0;
  memory.value.assign(stand_in_.words(), 0);
  const Rank first = host * run_.ranks_per_host, end = std::min(first + run_.ranks_per_host, run_.setting.ranks);
  double last = 0;
  for (Rank rank = first; rank < end; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    last = std::max(last, is_absent_[at] == 0 ? starts_[at] : dies_[at] == 0 ? 0 : dies_[at] + run_.proof_delay);
    if (is_absent_[at] != 0) {
      if (row.collects) mine.missing.push_back(rank);
      mine.root_died |= !row.collects && rank == run_.arguments.root;
      continue;
    }
    ++mine.contributors;
    for (std::uint64_t& word : memory.value) word += number_of(rank);
  }
  const bool gives = is_one_of(row.gives, host == mine.arguments.root);
  if (!row.collects) {
    mine.contributors = 1;
    std::ranges::fill(memory.value, number_of(run_.arguments.root));
  }
  mine.has_value = !mine.root_died && (gives || row.collects);
  if (gives && mine.has_value) mine.value = std::as_bytes(std::span(memory.value));
  memory.ready_at = last + run_.gather;
}

TwoLevelActors::Member::Member(TwoLevelActors& of, Rank rank)
    : actors(of),
      member({rank, &of.hosts_, window, of.stand_in_.optimism()}, of.of(of.host_of(rank)), *this, of.buffers_) {}

void TwoLevelActors::Member::on_completed(OperationNumber call, OperationNumber number,
                                          std::span<const std::byte> value) {
  if (call == ProcessReplica::internal) return;
  const Operation& operation = member.process().operation(number);
  result = simulator::result_of(operation.decision(), operation.attempts());
  result.missing_known = !operation.decision().truncated;
  if (!value.empty()) std::memcpy(&result.value.emplace_back(), value.data(), sizeof(std::uint64_t));
  if (result.outcome == Outcome::success) member.missing(number, result.missing);
}

void TwoLevelActors::Member::on_given_up([[maybe_unused]] Rank rank) {
  assert(actors.dies_[static_cast<std::size_t>(rank)] < never && "hosts are given up when they have died");
}

// With all that is known of deaths.
TwoLevelActors::Member& TwoLevelActors::member_of(Rank rank) {
  std::unique_ptr<Member>& place = members_[rank];
  if (place == nullptr) {
    place = std::make_unique<Member>(*this, rank);
    for (Rank failed : failed_)
      if (host_of(failed) != host_of(rank)) place->member.on_failure(failed);
    for (Rank proved : proved_[host_of(rank)]) place->member.on_failure(proved);
  }
  return *place;
}

void TwoLevelActors::flush(Rank rank, Outbox& out) {
  ProcessMember& member = member_of(rank).member;
  std::vector<Host>& partners = of(host_of(rank)).partners;
  for (const ProcessMember::Packet& packet : member.outbox()) {
    places_[pair_of(rank, packet.to)].push_back(packet.place);
    out.send(packet.to, packet.message);
    buffers_.release(packet.message.value);
    buffers_.release(packet.message.list);
    if (std::ranges::find(partners, packet.message.peer) == partners.end()) partners.push_back(packet.message.peer);
  }
  member.outbox().clear();
}

void TwoLevelActors::deliver(Rank rank, const Message& message, Outbox& out) {
  std::deque<std::uint32_t>& places = places_[pair_of(message.peer, rank)];
  const std::uint32_t place = places.front();
  places.pop_front();
  Message of_host = message;
  of_host.peer = host_of(message.peer);
  std::vector<Host>& partners = of(host_of(rank)).partners;
  if (std::ranges::find(partners, of_host.peer) == partners.end()) partners.push_back(of_host.peer);
  member_of(rank).member.on_packet(message.peer, place, of_host);
  flush(rank, out);
}

void TwoLevelActors::fail(Rank rank, Rank failed, Outbox& out) {
  const bool spoke = find(rank) != nullptr && find(rank)->member.speaks();
  ProcessMember& member = member_of(rank).member;  // one that is made now knows already
  member.on_failure(failed);
  takeovers_ += !spoke && member.speaks();
  flush(rank, out);
}

bool TwoLevelActors::wants_turn(Rank rank) const {
  const Member* const found = find(rank);
  return found != nullptr && found->member.speaks() &&
         ((found->member.wants_contribution() && found->member.next_call() == 0) || found->member.wants_turn());
}

double TwoLevelActors::turn_at(Rank rank) const {
  const ProcessMember& member = find(rank)->member;
  return member.next_call() == 0 ? of(host_of(rank)).ready_at : 0;
}

void TwoLevelActors::turn(Rank rank, double now, Outbox& out) {
  ProcessMember& member = member_of(rank).member;
  if (member.next_call() == 0)
    member.on_contribution(of(host_of(rank)).contribution);
  else
    member.on_turn(std::llround(now * 1000));  // 1 is 1 us
  flush(rank, out);
}

template <class Visit>
void TwoLevelActors::note_failure(Rank failed, Visit visit) {
  failed_.push_back(failed);
  std::vector<Rank> told;
  for (const auto& [rank, member] : members_)
    if (host_of(rank) != host_of(failed)) told.push_back(rank);
  std::ranges::sort(told);
  for (Rank rank : told) visit(rank);
}

// The one that comes next may have no object yet.
template <class Visit>
void TwoLevelActors::note_proof(Rank failed, Visit visit) {
  const Host host = host_of(failed);
  std::vector<Rank>& proved = proved_[host];
  proved.push_back(failed);
  for (Rank rank = host * run_.ranks_per_host; rank < std::min((host + 1) * run_.ranks_per_host, run_.setting.ranks);
       ++rank) {
    if (std::ranges::find(proved, rank) != proved.end()) continue;
    visit(rank);
    if (find(rank) == nullptr || find(rank)->member.speaks()) return;
  }
}

}  // namespace

CollectiveResult simulate(const TwoLevelRun& given) {
  TwoLevelRun run = given;
  run.arguments.reduction = {DataType::uint64, Operator::sum, nullptr, nullptr};
  run.setting.in_order = true;
  TwoLevelActors actors(run);
  Engine<TwoLevelActors> engine(run.setting, actors);
  engine.run();

  CollectiveResult result;
  const Arguments& arguments = run.arguments;
  const bool to_root = arguments.row().to_root();
  Terms terms = terms_of_numbers(arguments, run.setting.ranks, 1);
  const Host root_host = arguments.root / run.ranks_per_host;
  std::vector<double> times;
  const Result* reference = nullptr;
  result.outcome = Outcome::success;
  for (Host host = 0; host < actors.hosts(); ++host) {
    const Rank first = host * run.ranks_per_host, end = std::min(first + run.ranks_per_host, run.setting.ranks);
    double finished = never;
    Rank live = 0, speaker = no_rank;
    for (Rank rank = first; rank < end; ++rank) {
      result.most_sends = std::max(result.most_sends, engine.sends(rank));
      result.most_receives = std::max(result.most_receives, engine.receives(rank));
      finished = std::min(finished, engine.finished_at(rank));
      if (!actors.has_given(rank)) terms.part(rank) = Part::cannot;
      if (!engine.alive(rank) || !engine.trusted(rank)) continue;
      ++live;
      if (actors.has_given(rank)) terms.part(rank) = Part::must;
      if (speaker == no_rank) speaker = rank;
    }
    result.most_partners = std::max(result.most_partners, actors.partners(host));
    if (live == 0) continue;
    result.live += live;
    const Result* const its = actors.result_of(speaker);
    if (its == nullptr) {
      result.missed += live;
      continue;
    }
    const double time = finished + run.deliver;
    times.insert(times.end(), static_cast<std::size_t>(live), time);
    result.attempts = std::max(result.attempts, its->attempts);
    if (to_root && host != root_host) continue;
    if (reference == nullptr) reference = its;
    if (to_root) result.latency = time;
    if (!disagreement(*its, *reference).empty()) result.wrong += live;
  }
  if (reference != nullptr) {
    result.outcome = reference->outcome;
    result.contributors = static_cast<Rank>(reference->contributors);
    if (result.outcome == Outcome::success && !wrong_contents(terms, *reference).empty()) result.wrong += result.live;
  }
  note_times_and_counts(std::move(times), engine, result);
  if (!to_root) result.latency = result.last;
  result.others = result.last;
  result.takeovers = actors.takeovers();
  return result;
}

}  // namespace ucft::detail::simulator

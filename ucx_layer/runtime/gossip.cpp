#include "ucx_layer/runtime/gossip.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/transport/memory/window.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double infinite = std::numeric_limits<double>::infinity();

// A rank pushes again when something has come since its last push, else after a pace that doubles each time: ranks that
// share a core must not run through all of their iterations before the others have had their turn.
constexpr std::chrono::microseconds first_pace{5}, longest_pace{100};
// Of UCFT_GOSSIP_ADAPTIVE, and where some rank has no weight to tell an estimate by.
constexpr std::uint32_t stages_limit = 32;

// What a window shows of a link, before the row: all that its writer has ever said on it. Counts since the last restart.
struct LinkState {
  std::uint16_t epoch = 0;                  // restarts of the operation, modulo 65536
  std::uint16_t dones = 0, lasts = 0, unused = 0;
  std::uint32_t rows = 0, turns = 0;        // so many have been sent, and passed on
  std::uint32_t era = 0, ack = 0;           // of the row
};
static_assert(sizeof(LinkState) == 24, "three doubles fit into the line, too");
static_assert(stages_limit < 1 << 16);

// The allreduce (maximum) that all survivors of an operation take part in.
class Agreement {
 public:
  // The last `ranks` entries are filled in: 1 for each rank that is known here to be dead.
  void begin(std::vector<double> table) {
    table_ = std::move(table);
    request_ = Request();
    wanted_ = true;
  }
  // True once it is complete; more than f failures at once only mean another try. dead: communicator ranks.
  bool complete(Communicator& communicator, const std::vector<bool>& dead) {
    if (wanted_ && !post(communicator, dead)) return false;
    if (request_.state != Request::State::complete) return false;
    if (request_.status != UCFT_ERR_TOO_MANY_FAILURES) return true;
    wanted_ = true;
    return false;
  }
  ucft_status_t status() const { return request_.status; }
  std::int32_t culprit() const { return request_.culprit; }
  std::uint32_t contributors() const { return request_.contributors; }
  double operator[](std::size_t place) const { return table_[place]; }
  // Whom any of them knew to be dead, or who is missing from the agreement itself. The same on all survivors.
  std::vector<bool> dead(std::size_t ranks) const {
    std::vector<bool> all(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) all[rank] = table_[table_.size() - ranks + rank] > 0;
    if (request_.missing_known)
      for (std::int32_t rank : request_.missing) all[static_cast<std::size_t>(rank)] = true;
    return all;
  }

 private:
  bool post(Communicator& communicator, const std::vector<bool>& dead) {
    for (std::size_t rank = 0; rank < dead.size(); ++rank) table_[table_.size() - dead.size() + rank] = dead[rank] ? 1 : 0;
    request_ = Request();
    request_.communicator = &communicator;
    Arguments& arguments = request_.arguments;
    arguments.kind = Kind::allreduce;
    arguments.reduction.type = DataType::float64;
    arguments.reduction.op = Operator::max;
    arguments.count = table_.size();
    arguments.f = std::min(communicator.context().settings().f, communicator.size() - 1);
    arguments.shape = communicator.fastest_shape(arguments.bytes());
    request_.send = request_.receive = table_.data();
    if (communicator.post(request_) != UCFT_OK) return false;   // no memory now, or excluded: then others end it
    wanted_ = false;
    return true;
  }

  std::vector<double> table_;
  Request request_;
  bool wanted_ = false;
};

}  // namespace

std::uint64_t GossipCall::signature() const {
  std::uint64_t hash = 0;
  const auto add = [&](std::uint64_t word) { hash = mixed(hash, word); };
  add(static_cast<std::uint64_t>(plan.algorithm));
  add(static_cast<std::uint64_t>(plan.neighbourhood.topology));
  add(static_cast<std::uint64_t>(plan.neighbourhood.arity));
  add(static_cast<std::uint64_t>(plan.neighbourhood.degree));
  add(plan.seed);
  add(std::bit_cast<std::uint64_t>(plan.tau));
  add(std::bit_cast<std::uint64_t>(eps));
  add(static_cast<std::uint64_t>(iterations));
  add(count);
  add(static_cast<std::uint64_t>(adaptive) | static_cast<std::uint64_t>(sum) << 1 | static_cast<std::uint64_t>(is_float) << 2 | static_cast<std::uint64_t>(path) << 3);
  return hash >> 16;
}

namespace {

template <class Real>
class GossipOperation final : public GossipWork {
 public:
  GossipOperation(Communicator& communicator, Communicator& agreements, Request& request, OperationNumber number,
                  const std::vector<Rank>& failed)
      : communicator_(communicator),
        agreements_(agreements),
        request_(request),
        call_(*request.gossip),
        number_(number),
        plan_(call_.plan),
        iterations_(call_.iterations),
        ranks_(static_cast<std::size_t>(communicator.size())),
        faults_(communicator.context().settings().gossip_faults, {communicator.rank(), communicator.size(), number, call_.count}),
        dead_(ranks_),
        agreed_dead_(ranks_),
        dead_at_start_(ranks_) {
    const auto* input = static_cast<const Real*>(request.send);
    input_.assign(input, input + call_.count);
    for (Rank rank : failed) dead_[static_cast<std::size_t>(rank)] = true;
    call_.outcome = {};
    const auto signature = static_cast<double>(call_.signature());
    double scale = 1;
    for (Real value : input_) scale += std::abs(static_cast<double>(value));
    std::vector<double> table{signature, -signature, scale, 0, 0};
    if (call_.path != UCFT_GOSSIP_PATH_MESSAGE && !goes_by_rounds(plan_.algorithm)) {
      one_sided_ = true;
      take_members(dead_);   // what all of them know in the end is only known when they have met
      const ucft_status_t status = take_windows();
      if (status != UCFT_OK) table[status == UCFT_ERR_UNSUPPORTED ? 3 : 4] = 1 + communicator.rank();
    }
    table.resize(table.size() + ranks_);
    agreement_.begin(std::move(table));
  }
  ~GossipOperation() override { forget_links(); }

  bool finished() const override { return step_ == Step::finished; }

  bool on_turn() override {
    bool active = one_sided_ && rank_ && step_ != Step::finished && look_into_windows();
    if (one_sided_ && is_refused_ && (step_ == Step::gossiping || step_ == Step::settling)) begin_agreement();
    switch (step_) {
      case Step::meeting: active = agreement_.complete(agreements_, dead_) && meet(); break;
      case Step::gossiping: active |= rounds_ ? go_by_rounds() : iterate(); break;
      case Step::settling: active |= settle(); break;
      case Step::agreeing: active |= agreement_.complete(agreements_, dead_) && judge(); break;
      case Step::finished: break;
    }
    communicator_.context().transport().ring_doorbells();
    return active;
  }

  void on_message(const Message& message) override {
    const std::span<const std::byte> bytes{communicator_.context().transport().buffers().data(message.value),
                                           message.value.bytes};
    if (step_ == Step::finished || message.peer < 0 || static_cast<std::size_t>(message.peer) >= ranks_ || bytes.size() % sizeof(Real) != 0) return;
    if (dead_[static_cast<std::size_t>(message.peer)]) return;
    if (message.has(static_cast<MessageFlags>(is_window)) && bytes.empty()) return refuse();   // whenever that was
    Arrival arrival{message, std::vector<Real>(bytes.size() / sizeof(Real))};
    if (!bytes.empty()) std::memcpy(arrival.row.data(), bytes.data(), bytes.size());
    const auto begun_again = static_cast<std::uint16_t>(message.signature - restarts_);
    if (begun_again > 1) return;                       // of before a restart
    if (begun_again == 1 || step_ == Step::meeting)
      store(std::move(arrival));                       // others have seen the end of the agreement before us
    else
      take(arrival);
    communicator_.context().transport().ring_doorbells();
  }

  void on_failure(Rank rank) override {
    if (step_ == Step::finished || dead_[static_cast<std::size_t>(rank)]) return;
    dead_[static_cast<std::size_t>(rank)] = true;
    exclude(rank);
  }

  double estimate(void* to) override {
    auto* values = static_cast<Real*>(to);
    std::vector<Real> now(input_.size());
    if (!has_estimate(now)) now = input_;
    for (std::size_t i = 0; i < now.size(); ++i) values[i] = now[i] * static_cast<Real>(factor());
    const double done = static_cast<double>(rounds_ && step_ == Step::gossiping ? done_ + static_cast<std::uint64_t>(rounds_->round()) : done_);
    if (done == 0) return infinite;
    // By the model errors shrink geometrically, down to eps in so many iterations.
    return std::pow(call_.eps, done / std::max(1, call_.iterations));
  }

  void finish(ucft_status_t status) override {
    forget_links();
    windows_.clear();
    step_ = Step::finished;
    call_.outcome.injected = faults_.counts();
    call_.outcome.live = static_cast<std::uint32_t>(std::count(agreed_dead_.begin(), agreed_dead_.end(), false));
    request_.status = status;
    request_.culprit = agreement_culprit_;
    request_.attempts = call_.outcome.stages;
    request_.contributors = status == UCFT_OK ? call_.outcome.contributors : 0;
    request_.missing.clear();
    request_.missing_known = status == UCFT_OK;
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (missing()[rank]) request_.missing.push_back(static_cast<std::int32_t>(rank));
    request_.missing_count = status == UCFT_OK ? static_cast<std::int32_t>(request_.missing.size()) : -1;
    request_.state = Request::State::complete;
  }

 private:
  enum class Step : std::uint8_t { meeting, gossiping, settling, agreeing, finished };

  struct Arrival {
    Message message;              // without its buffers
    std::vector<Real> row;
  };
  struct Link {
    BufferId row = no_buffer;     // messages: what was sent last; the transport holds it, too, while it waits there
    bool my_turn = false;         // to push
    bool failed = false;          // injected
    std::uint32_t turns = 0;      // given to the other end
    std::uint32_t sent = 0, received = 0, promised = 0;
    std::uint32_t dones_sent = 0, dones_received = 0, lasts_sent = 0, lasts_received = 0;   // one a stage
  };
  struct WindowLink {             // one-sided
    LinkState mine, theirs;       // as it is here; as it was read last
    bool unwritten = false;       // mine
    std::vector<Real> row;        // if one is unwritten
  };
  struct WindowEnd {
    Rank neighbour;
    std::unique_ptr<Window> window;   // nullptr: it was dead, or we are refused
    bool named;
  };
  struct Unsent {
    Message message;
    std::vector<Real> row;
  };

  Buffers& buffers() { return communicator_.context().transport().buffers(); }
  bool keeps_flows() const { return uses_flows(plan_.algorithm) && !goes_by_rounds(plan_.algorithm); }
  bool is_pcf() const { return answer_after_death(plan_.algorithm) == GossipAnswer::all_ranks; }
  bool has_estimate(std::span<Real> values) const { return rounds_ ? rounds_->state().estimate(values) : rank_ && rank_->estimate(values); }
  // A sum is the average times the ranks that it stands for.
  double factor() const { return call_.sum ? static_cast<double>(contributors()) : 1; }
  // By rank. Of push-cancel-flow whoever dies on the way stays in, nearly.
  const std::vector<bool>& missing() const { return is_pcf() ? dead_at_start_ : agreed_dead_; }
  std::uint32_t contributors() const {
    return static_cast<std::uint32_t>(std::count(missing().begin(), missing().end(), false));
  }

  // ---- meet

  bool meet() {
    if (!take_agreement()) return true;
    if (agreement_[0] != -agreement_[1]) return give_up(UCFT_ERR_MISMATCH);
    for (const auto& [place, status] : {std::pair(3, UCFT_ERR_UNSUPPORTED), std::pair(4, UCFT_ERR_NO_MEMORY)}) {
      if (agreement_[place] == 0) continue;   // 1 + the rank that has something against windows
      agreement_culprit_ = static_cast<std::int32_t>(agreement_[place]) - 1;
      if (call_.path == UCFT_GOSSIP_PATH_RMA) return give_up(status);
      agreement_culprit_ = -1;
      one_sided_ = false;
      windows_.clear();
    }
    call_.outcome.path = one_sided_ ? UCFT_GOSSIP_PATH_RMA : UCFT_GOSSIP_PATH_MESSAGE;
    dead_at_start_ = agreed_dead_;
    if (!std::isfinite(agreement_[2])) {   // so would the result be
      std::fill_n(static_cast<Real*>(request_.receive), input_.size(), std::numeric_limits<Real>::quiet_NaN());
      call_.outcome.error_bound = infinite;
      call_.outcome.contributors = contributors();
      finish(UCFT_OK);
      return true;
    }
    if (plan_.tau == 0) plan_.tau = std::sqrt(static_cast<double>(std::numeric_limits<Real>::epsilon())) * agreement_[2] * static_cast<double>(ranks_);
    begin();
    return true;
  }

  // False: the operation is over.
  bool take_agreement() {
    agreement_culprit_ = agreement_.status() == UCFT_ERR_MISMATCH ? agreement_.culprit() : -1;
    if (agreement_.status() != UCFT_OK) return !give_up(agreement_.status());
    agreed_dead_ = agreement_.dead(ranks_);
    if (agreed_dead_[static_cast<std::size_t>(communicator_.rank())]) {   // the others go on without us
      communicator_.context().exclude_self();
      return false;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (agreed_dead_[rank]) on_failure(static_cast<Rank>(rank));
    return true;
  }
  bool give_up(ucft_status_t status) {
    finish(status);
    return true;
  }

  // ---- gossip

  // From the inputs of all that are agreed to live.
  void begin() { begin(ConstMass<Real>(input_), static_cast<Real>(1)); }
  // With that much of each of them, on the topology of so many: whoever is dead cuts nobody off.
  void begin(ConstMass<Real> values, Real weight) {
    forget_links();
    iteration_ = 0;
    stage_ = 0;
    step_ = Step::gossiping;
    take_members(agreed_dead_);
    GossipPlan plan = plan_;
    plan.neighbourhood = neighbourhood_;
    if (goes_by_rounds(plan_.algorithm)) {
      plan.rounds = iterations_;
      plan.seed = mixed(plan_.seed, restarts_);
      rounds_.emplace(plan, member(communicator_.rank()), values, weight);
      outbox_.clear();
      before_round(0);
      rounds_->start(outbox_);
      send_rounds();
    } else {
      rank_.emplace(plan, member(communicator_.rank()), values, weight);
      links_.assign(rank_->neighbours().size(), Link{});
      for (std::size_t link = 0; link < links_.size(); ++link) links_[link].my_turn = begins(neighbour(static_cast<int>(link)));
      WindowLink fresh;
      fresh.mine.epoch = fresh.theirs.epoch = static_cast<std::uint16_t>(restarts_);
      if (one_sided_) window_links_.assign(links_.size(), fresh);
      next_push_ = Clock::time_point{};
      pace_ = first_pace;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (dead_[rank]) exclude(static_cast<Rank>(rank));
    if (one_sided_ && !is_refused_) {
      if (take_windows() == UCFT_OK)
        name_windows();
      else
        refuse();
    }
    replay();
  }

  // The same state, more iterations.
  void go_on() {
    iteration_ = 0;
    ++stage_;
    step_ = Step::gossiping;
  }

  // They only get fewer: as many of them are the same ones.
  void take_members(const std::vector<bool>& dead) {
    members_.clear();
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (!dead[rank]) members_.push_back(static_cast<Rank>(rank));
    neighbourhood_ = mended(plan_.neighbourhood, static_cast<Rank>(members_.size()));
  }
  // A rank's place among the members, which is its rank in the topology; no_rank: none of them.
  Rank member(Rank rank) const {
    if (members_.size() == ranks_) return rank;
    const auto found = std::lower_bound(members_.begin(), members_.end(), rank);
    return found == members_.end() || *found != rank ? no_rank : static_cast<Rank>(found - members_.begin());
  }

  Rank neighbour(int link) const { return members_[static_cast<std::size_t>(rank_->neighbours()[static_cast<std::size_t>(link)])]; }
  int link_of(Rank rank) const {   // -1: none
    const Rank place = member(rank);
    return place == no_rank ? -1 : rank_->link_of(place);
  }

  void exclude(Rank rank) {
    if (rank_) {
      const int link = link_of(rank);
      const auto live = rank_->live_links();
      if (link >= 0 && std::find(live.begin(), live.end(), link) != live.end()) rank_->on_failure(link);
    } else if (rounds_ && member(rank) != no_rank) {
      outbox_.clear();
      rounds_->on_failure(member(rank), outbox_);
      send_rounds();
      replay();
    }
  }

  // ---- asynchronous

  // On a link the two ends push in turn. Flows overwrite each other: where pushes cross, both sides' halves are undone and
  // both sides' masses arrive, and if they cross again and again (ranks that answer each other at once do) flows grow
  // without limit. It also means that no more than one push is ever on its way on a link, however slow its other end.
  // Nobody waits for ever: a link on which neither end is through has its turn at one of them, who will take it.
  bool begins(Rank other) const {
    const Rank me = communicator_.rank();
    return (me + other) % 2 == 0 ? me < other : me > other;   // about half of its links each
  }

  bool iterate() {
    fail_due_links();
    if (iteration_ >= iterations_ || rank_->live_links().empty()) {
      step_ = Step::settling;
      return true;
    }
    const auto now = Clock::now();
    if (!heard_ && now < next_push_) return false;
    const int link = choose();
    if (link < 0) return false;
    pace_ = heard_ ? first_pace : std::min(2 * pace_, longest_pace);
    next_push_ = now + pace_;
    heard_ = false;
    outbox_.clear();
    faults_.before_push(*rank_, done_);
    rank_->push(link, outbox_);
    send_outbox(link);
    ++iteration_;
    ++done_;
    ++call_.outcome.iterations;
    return true;
  }
  // Whichever end gets there first tells the other: it could wait for a turn on that link, and not get there itself.
  void fail_due_links() {
    for (const auto& each : faults_.failing_links()) {
      const int number = link_of(each.other);
      if (number < 0 || !rank_->is_live(number) || (!each.failed && static_cast<double>(done_) < each.time)) continue;
      fail_link(number);
      Message message;
      message.flags = link_failed;
      send(each.other, message);
    }
  }
  void fail_link(int number) {
    link_at(number).failed = true;
    rank_->on_failure(number);
    faults_.note_failed_link(neighbour(number));
  }

  // Neither end pushes any more until the next agreement.
  bool is_closed(const Link& link) const { return link.dones_sent > stage_ && link.dones_received > stage_; }

  // A link by chance of those on which it is our turn; -1: none. Pushes back and forth on a fast link, or between two ranks that
  // happen to run at the same time, bring nobody anything new: none may be more than a few turns ahead of the slowest. (That waits
  // for nobody for ever, either: where fewest turns have been taken both ends may go on. The counts of two ends differ by one at most.)
  int choose() {
    constexpr std::uint32_t ahead = 4;
    ready_.clear();
    std::uint32_t fewest = ~std::uint32_t{0};
    for (int number : rank_->live_links()) fewest = std::min(fewest, link_at(number).turns);
    for (int number : rank_->live_links()) {
      Link& link = link_at(number);
      if (link.my_turn && link.turns <= fewest + ahead && can_send(number)) ready_.push_back(number);
    }
    if (ready_.empty()) return -1;
    Random random(mixed(mixed(plan_.seed, number_), mixed(static_cast<std::uint64_t>(communicator_.rank()), draws_++)));
    const int chosen = ready_[random.below(ready_.size())];
    return has_row(chosen) ? chosen : -1;   // what is pushed must not get lost
  }
  bool can_send(int number) {
    if (one_sided_) return !window_link_at(number).unwritten && window_at(number).can_write();
    const Link& link = link_at(number);
    return link.row == no_buffer || buffers().references(link.row) == 1;
  }
  bool has_row(int number) {
    Link& link = link_at(number);
    if (!one_sided_ && link.row == no_buffer) link.row = buffers().allocate(rank_->row_length() * sizeof(Real));
    return one_sided_ || link.row != no_buffer;
  }

  // Counted however it is used, or the two ends' counts would drift apart (see choose()).
  static void give_turn(Link& link) {
    link.my_turn = false;
    ++link.turns;
  }

  // pushed: the link on which the turn goes to the other end; what else there is are repairs.
  void send_outbox(int pushed) {
    for (const auto& each : outbox_.sends()) {
      Link& link = link_at(each.link);
      if (link.failed || link.lasts_sent > stage_) continue;   // we have said our last word there: it is as if this were lost
      Message message;
      message.attempt = static_cast<Rank>(link.sent + 1);
      message.flags = has_value;
      if (each.link == pushed) message.flags |= passes_turn;
      if (!send_on(each, message)) continue;
      ++link.sent;
      if (each.link == pushed) give_turn(link);
    }
  }
  bool send_on(const typename GossipOutbox<Real>::Send& each, Message message) {
    Link& link = link_at(each.link);
    message.prev = static_cast<Rank>(each.ack);
    message.contributors = each.era;
    if (!faults_.survives_the_way(outbox_.row(each))) {   // the turn gets through, and that there was one
      message.flags = static_cast<std::uint8_t>(message.flags & ~has_value);
      send_on_link(each.link, message);
      return true;
    }
    if (one_sided_) {
      show(each.link, message, outbox_.row(each));
      return true;
    }
    if (link.row != no_buffer && buffers().references(link.row) > 1) {
      buffers().release(link.row);   // still waits to leave: the transport keeps it
      link.row = no_buffer;
    }
    if (link.row == no_buffer) link.row = buffers().allocate(each.length * sizeof(Real));
    if (link.row == no_buffer) return false;
    std::memcpy(buffers().data(link.row), outbox_.row(each).data(), each.length * sizeof(Real));
    message.value = buffers().whole(link.row);
    send_on_link(each.link, message);
    return true;
  }
  void send_on_link(int number, const Message& message) {
    if (one_sided_)
      show(number, message, {});
    else
      send(neighbour(number), message);
  }
  void send(Rank to, Message message) {
    message.operation = number_;
    message.phase = gossip_phase;
    message.signature = static_cast<std::uint16_t>(restarts_);
    message.peer = to;
    communicator_.send_aside(message);
    ++call_.outcome.messages;
  }

  // Whoever is done goes on answering pushes until the other end is done, too: ranks differ in speed, and one that found
  // the others gone would stay behind.
  bool settle() {
    bool complete = true;
    for (int number : rank_->live_links()) {
      Link& link = link_at(number);
      if (link.dones_sent <= stage_) say(number, is_done | (link.my_turn ? passes_turn : 0));
      if (is_closed(link) && link.lasts_sent <= stage_) say(number, is_last);
      complete = complete && link.lasts_sent > stage_ && link.lasts_received > stage_ && link.received == link.promised &&
                 (!one_sided_ || (!window_link_at(number).unwritten && window_at(number).is_at_rest()));
    }
    if (complete) begin_agreement();
    return complete;
  }
  void say(int number, int flags) {
    Link& link = link_at(number);
    Message message;
    message.attempt = static_cast<Rank>(link.sent);
    message.flags = static_cast<std::uint8_t>(flags);
    if ((flags & passes_turn) != 0) give_turn(link);
    ++((flags & is_last) != 0 ? link.lasts_sent : link.dones_sent);
    send_on_link(number, message);
  }
  void answer(int number) {
    Link& link = link_at(number);
    outbox_.clear();
    if (has_row(number)) rank_->push(number, outbox_);
    send_outbox(number);
    if (!link.my_turn) return;
    Message message;   // there was no memory, or nothing to push
    message.attempt = static_cast<Rank>(++link.sent);
    message.flags = passes_turn;
    give_turn(link);
    send_on_link(number, message);
  }

  void take_on_link(const Arrival& arrival) {
    const int number = link_of(arrival.message.peer);
    if (number < 0) return;
    Link& link = link_at(number);
    if (link.failed) return;
    if (arrival.message.has(static_cast<MessageFlags>(link_failed))) return fail_link(number);
    if (arrival.message.has(static_cast<MessageFlags>(passes_turn))) link.my_turn = true;
    if (arrival.message.has(static_cast<MessageFlags>(is_done))) {
      ++link.dones_received;
      return;
    }
    if (arrival.message.has(static_cast<MessageFlags>(is_last))) {
      ++link.lasts_received;
      link.promised = static_cast<std::uint32_t>(arrival.message.attempt);
      return;
    }
    ++link.received;
    heard_ = true;
    if (arrival.row.size() == rank_->row_length())
      take_row({number, arrival.message.contributors, static_cast<std::uint32_t>(arrival.message.prev), arrival.row});
    answer_if_due(number);
  }
  void take_row(const GossipArrival<Real>& arrival) {
    outbox_.clear();
    rank_->on_message(arrival, outbox_);
    send_outbox(-1);   // repairs
  }
  void answer_if_due(int number) {
    const Link& link = link_at(number);
    if (link.my_turn && link.dones_sent > stage_ && !is_closed(link)) answer(number);
  }

  // ---- asynchronous, one-sided
  //
  // What a message says, a window shows. Of a push the next state of the link keeps the row, and its number: it is taken in
  // exactly once. A repair that has not been written yet is overtaken by the next row: to algorithms that send repairs
  // that is a lost message.

  // UCFT_ERR_UNSUPPORTED: a neighbour is reached by messages only.
  ucft_status_t take_windows() {
    if (windows_for_ == members_.size()) return UCFT_OK;
    windows_for_ = members_.size();
    Transport& transport = communicator_.context().transport();
    const std::size_t row_bytes = row_length_of(plan_.algorithm, input_.size()) * sizeof(Real);
    std::vector<WindowEnd> before;
    before.swap(windows_);
    ucft_status_t status = UCFT_OK;
    for (Rank place : neighbours_of(neighbourhood_, member(communicator_.rank()))) {
      const Rank neighbour = members_[static_cast<std::size_t>(place)];
      const auto found = std::find_if(before.begin(), before.end(), [&](const WindowEnd& each) { return each.neighbour == neighbour; });
      if (found != before.end()) {   // both ends have it already
        windows_.push_back(std::move(*found));
        continue;
      }
      windows_.push_back({neighbour, nullptr, false});
      const int peer = communicator_.context_rank(neighbour);
      if (dead_[static_cast<std::size_t>(neighbour)] || status != UCFT_OK) continue;
      if (!transport.has_one_sided_path(peer)) {
        status = UCFT_ERR_UNSUPPORTED;
        continue;
      }
      windows_.back().window = std::make_unique<Window>(transport, peer, sizeof(LinkState), row_bytes);
      if (!windows_.back().window->has_memory()) status = UCFT_ERR_NO_MEMORY;
    }
    return status;
  }
  void name_windows() {
    for (int number : rank_->live_links()) {
      WindowEnd& end = windows_[static_cast<std::size_t>(number)];
      if (end.named) continue;
      end.named = true;
      Message message;
      message.flags = is_window;
      const std::vector<std::byte> name = end.window->name();
      message.value = buffers().whole(buffers().copy_in(name.data(), name.size()));
      send(end.neighbour, message);
      buffers().release(message.value);
    }
  }
  void connect_window(Rank peer, std::span<const std::byte> name) {
    if (!one_sided_ || is_refused_) return;
    const int number = link_of(peer);
    if (number >= 0 && window_at(number).connect(name) == Window::Connected::impossible) refuse();
  }
  // A window can't be mapped, or named: this operation goes by messages, from its beginning, as the next agreement says. Who
  // learns of it tells all others before it goes there, so all do, whoever dies meanwhile.
  void refuse() {
    if (is_refused_) return;
    is_refused_ = true;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (dead_[rank] || static_cast<Rank>(rank) == communicator_.rank()) continue;
      Message message;
      message.flags = is_window;
      send(static_cast<Rank>(rank), message);
    }
  }
  bool give_up_windows() {
    if (call_.path == UCFT_GOSSIP_PATH_RMA) {
      agreement_culprit_ = static_cast<std::int32_t>(agreement_[2 * input_.size()]) - refused;
      return give_up(UCFT_ERR_NO_MEMORY);
    }
    one_sided_ = false;
    windows_.clear();
    call_.outcome.path = UCFT_GOSSIP_PATH_MESSAGE;
    dead_at_start_ = agreed_dead_;   // it starts now
    ++restarts_;
    begin();
    return true;
  }

  void show(int number, const Message& message, ConstMass<Real> row) {
    WindowLink& link = window_link_at(number);
    const auto has = [&](int flag) { return message.has(static_cast<MessageFlags>(flag)); };
    if (has(has_value)) {
      ++link.mine.rows;
      link.mine.era = message.contributors;
      link.mine.ack = static_cast<std::uint32_t>(message.prev);
    }
    link.mine.turns += has(passes_turn);
    link.mine.dones = static_cast<std::uint16_t>(link.mine.dones + has(is_done));
    link.mine.lasts = static_cast<std::uint16_t>(link.mine.lasts + has(is_last));
    if (!link.unwritten && window_at(number).can_write()) return write_window(number, row);
    link.unwritten = true;
    if (!row.empty()) link.row.assign(row.begin(), row.end());
  }
  void write_window(int number, ConstMass<Real> row) {
    window_at(number).write(std::as_bytes(std::span(&window_link_at(number).mine, 1)), std::as_bytes(row));
    ++call_.outcome.messages;
  }
  void write_what_waits(int number) {
    WindowLink& link = window_link_at(number);
    if (!link.unwritten || !window_at(number).can_write()) return;
    write_window(number, link.row);
    link.unwritten = false;
    link.row.clear();
  }
  // True if there was anything new.
  bool look_into_windows() {
    if (is_refused_) return false;   // not all of them need to exist
    bool active = false;
    for (int number : rank_->live_links()) {
      write_what_waits(number);
      Window& window = window_at(number);
      if (!window.has_news()) continue;
      LinkState now;
      std::memcpy(&now, window.head(), sizeof now);
      const auto begun_again = static_cast<std::uint16_t>(now.epoch - restarts_);
      if (begun_again == 1) continue;   // it stays there until we have, too
      if (begun_again == 0)
        take_state(number, now);
      else
        window.consume();
      // Whoever has the turn tells with its push how far it has read. All else must be told at once: the other end can't
      // write before, and might be the one that we wait for.
      if (!link_at(number).my_turn || step_ != Step::gossiping) window.publish();
      active = true;
    }
    return active;
  }
  void take_state(int number, const LinkState& now) {
    Link& link = link_at(number);
    LinkState& before = window_link_at(number).theirs;
    const bool has_row = now.rows != before.rows;
    heard_ = heard_ || has_row || now.turns != before.turns;
    link.my_turn = link.my_turn || now.turns != before.turns;
    link.dones_received = now.dones;
    link.lasts_received = now.lasts;
    before = now;
    if (has_row) take_row({number, now.era, now.ack, {reinterpret_cast<const Real*>(window_at(number).row(scratch_)), rank_->row_length()}});
    window_at(number).consume();
    answer_if_due(number);
  }

  // ---- by rounds

  bool go_by_rounds() {
    const bool active = send_unsent();
    if (!rounds_->finished() || !unsent_.empty()) return active;
    done_ += static_cast<std::uint64_t>(rounds_->rounds());
    call_.outcome.iterations += static_cast<std::uint64_t>(rounds_->rounds());
    begin_agreement();
    return true;
  }
  void before_round(int round) {
    faults_.before_push(rounds_->state(), done_ + static_cast<std::uint64_t>(round), 2 * std::min(std::max(1, round), rounds_->rounds()));
  }
  void send_rounds() {
    for (const auto& each : outbox_.sends()) {
      Unsent unsent;
      unsent.message.attempt = each.link;
      unsent.message.contributors = each.era;
      unsent.message.prev = static_cast<Rank>(each.ack);
      unsent.message.flags = has_value;
      unsent.message.peer = members_[static_cast<std::size_t>(rounds_->to(each.link))];
      const auto row = outbox_.row(each);
      if (faults_.survives_the_way(row)) unsent.row.assign(row.begin(), row.end());   // else an empty one: it is waited for
      unsent_.push_back(std::move(unsent));
    }
    send_unsent();
  }
  // In a round everybody is waited for: without memory it waits, too.
  bool send_unsent() {
    std::size_t left = 0;
    for (; left < unsent_.size(); ++left) {
      Unsent& each = unsent_[left];
      if (each.row.empty()) {
        each.message.flags = 0;
        send(each.message.peer, each.message);
        continue;
      }
      each.message.value = buffers().whole(buffers().copy_in(each.row.data(), each.row.size() * sizeof(Real)));
      if (!each.message.value) break;
      send(each.message.peer, each.message);
      buffers().release(each.message.value);
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(left));
    return left > 0;
  }
  void take_in_round(Arrival arrival) {
    if ((!arrival.row.empty() && arrival.row.size() != rounds_->state().row_length()) || member(arrival.message.peer) == no_rank) return;
    outbox_.clear();
    const int before = rounds_->round();
    if (arrival.message.attempt == before && before + 1 < rounds_->rounds()) before_round(before + 1);
    if (!rounds_->on_message(arrival.message.attempt, arrival.row, outbox_)) {
      store(std::move(arrival));
      return;
    }
    send_rounds();
    if (rounds_->round() != before) replay();
  }

  // ---- what comes too early

  void take(const Arrival& arrival) {
    if (arrival.message.has(static_cast<MessageFlags>(is_window)))
      connect_window(arrival.message.peer, std::as_bytes(std::span(arrival.row)));
    else if (rounds_)
      take_in_round(arrival);
    else
      take_on_link(arrival);
  }

  // Bounded: by rounds one a round; else a push, a last word, repairs, and the name of a window on each link.
  void store(Arrival arrival) { early_.push_back(std::move(arrival)); }
  void replay() {
    std::vector<Arrival> early;
    early.swap(early_);
    for (Arrival& each : early) {
      const bool is_now = each.message.signature == static_cast<std::uint16_t>(restarts_);
      if (dead_[static_cast<std::size_t>(each.message.peer)]) continue;
      if (is_now)
        take(each);
      else if (each.message.signature == static_cast<std::uint16_t>(restarts_ + 1))
        store(std::move(each));
    }
  }

  // ---- agree

  void begin_agreement() {
    step_ = Step::agreeing;
    const std::size_t count = input_.size();
    std::vector<double> table(2 * count + 1 + ranks_, -infinite);
    std::vector<Real> now(count);
    const bool knows = has_estimate(now);
    for (std::size_t i = 0; knows && i < count; ++i) {
      table[i] = static_cast<double>(now[i]);
      table[count + i] = -static_cast<double>(now[i]);
    }
    // 1: somebody can't tell. From 2 on: rank 0, rank 1, .. or who told it can't go one-sided.
    table[2 * count] = one_sided_ && is_refused_ ? refused + communicator_.rank() : knows ? 0 : 1;
    agreement_.begin(std::move(table));
  }

  bool judge() {
    const std::vector<bool> dead_before = agreed_dead_;
    if (!take_agreement()) return true;
    if (agreement_[2 * input_.size()] >= refused) return give_up_windows();
    ++call_.outcome.stages;
    const auto expected = static_cast<std::uint32_t>(std::count(dead_before.begin(), dead_before.end(), false));
    if (agreed_dead_ != dead_before || agreement_.contributors() != expected) return go_on_without();
    const std::size_t count = input_.size();
    const bool none = count > 0 && agreement_[0] == -infinite;   // of no rank: the data are no numbers
    const double bound = none ? infinite : error_bound();
    const bool reached = bound <= call_.eps;
    const bool again = !reached && !none && call_.outcome.stages < stages_limit && (call_.adaptive || agreement_[2 * count] > 0);
    if (again && improve()) return true;
    write(none);
    call_.outcome.error_bound = bound;
    call_.outcome.reached = reached;
    call_.outcome.contributors = contributors();
    const bool all = std::find(agreed_dead_.begin(), agreed_dead_.end(), true) == agreed_dead_.end();
    const bool nearly = is_pcf() && agreed_dead_ != dead_at_start_;
    call_.outcome.answer = all ? UCFT_GOSSIP_ALL_RANKS : nearly ? UCFT_GOSSIP_NEARLY_ALL_RANKS : UCFT_GOSSIP_SURVIVORS;
    finish(UCFT_OK);
    return true;
  }

  // Relative to the largest value: half the distance of the extremes, and the least that the largest value can be.
  double error_bound() const {
    const std::size_t count = input_.size();
    if (agreement_[2 * count] > 0) return infinite;
    double half = 0, least = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double high = agreement_[i], low = -agreement_[count + i];
      half = std::max(half, high / 2 - low / 2);
      if ((high > 0) == (low > 0)) least = std::max(least, std::min(std::abs(high), std::abs(low)));
    }
    return half == 0 ? 0 : least > 0 ? half / least : infinite;
  }

  void write(bool none) {
    auto* to = static_cast<Real*>(request_.receive);
    const std::size_t count = input_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const double high = agreement_[i], low = -agreement_[count + i];
      const double middle = high == low ? high : high / 2 + low / 2;
      to[i] = static_cast<Real>(none ? std::numeric_limits<double>::quiet_NaN() : middle * factor());
    }
  }

  // Flows survive a death unless it has cut the topology: then they would go on in parts, for ever. All know who is
  // dead, so all judge alike; on the mended topology flows start from zero. Of push-cancel-flow with what everybody has by
  // now, which is what the dead rank has left to each; else from the inputs, as the answer is the survivors' anyway.
  bool go_on_without() {
    if (keeps_flows() && is_still_connected()) {
      go_on();
      return true;
    }
    ++restarts_;
    if (!is_pcf()) {
      begin();
      return true;
    }
    std::vector<Real> mass(input_.size() + 1);
    rank_->mass(mass);
    begin(ConstMass<Real>(mass).first(input_.size()), mass.back());
    return true;
  }
  bool is_still_connected() const {
    std::vector<bool> dead(members_.size());
    for (std::size_t place = 0; place < members_.size(); ++place) dead[place] = agreed_dead_[static_cast<std::size_t>(members_[place])];
    return is_connected_without(neighbourhood_, dead);
  }

  // More of the same. False: it would not help.
  bool improve() {
    if (!goes_by_rounds(plan_.algorithm)) {
      go_on();
      return true;
    }
    constexpr std::int64_t most = 16;   // times what the model says: by then it is as accurate as its numbers
    const int wanted = 2 * std::max(1, iterations_);
    if (plan_.algorithm == GossipAlgorithm::recursive_doubling || wanted > most * std::max(1, call_.iterations)) return false;
    if (plan_.algorithm == GossipAlgorithm::ardb && (1ull << std::min(iterations_, 40)) >= members_.size()) return false;
    iterations_ = wanted;
    ++restarts_;
    begin();
    return true;
  }

  Link& link_at(int link) { return links_[static_cast<std::size_t>(link)]; }
  WindowLink& window_link_at(int link) { return window_links_[static_cast<std::size_t>(link)]; }
  Window& window_at(int link) { return *windows_[static_cast<std::size_t>(link)].window; }
  void forget_links() {
    for (Link& link : links_) buffers().release(link.row);
    links_.clear();
    unsent_.clear();
  }

  Communicator& communicator_;
  Communicator& agreements_;
  Request& request_;
  GossipCall& call_;
  const OperationNumber number_;
  GossipPlan plan_;
  int iterations_;
  const std::size_t ranks_;
  GossipFaultInjector faults_;
  std::vector<Real> input_;
  Step step_ = Step::meeting;
  Agreement agreement_;
  std::int32_t agreement_culprit_ = -1;
  std::vector<bool> dead_, agreed_dead_, dead_at_start_;   // by rank: known here; to all; to all in the first agreement
  std::vector<Rank> members_;     // who was agreed to live when it last began: the ranks of the topology, in this order
  Neighbourhood neighbourhood_;   // of so many
  std::uint32_t restarts_ = 0;
  std::vector<Arrival> early_;
  GossipOutbox<Real> outbox_;
  std::uint64_t done_ = 0, draws_ = 0;
  // asynchronous
  std::optional<GossipRank<Real>> rank_;
  std::vector<Link> links_;
  std::vector<int> ready_;
  static constexpr int refused = 2;   // in the table of the agreement
  bool one_sided_ = false, is_refused_ = false;
  std::vector<WindowEnd> windows_;                 // by link
  std::size_t windows_for_ = 0;                    // so many members
  std::vector<WindowLink> window_links_;
  std::vector<std::byte> scratch_;
  std::uint32_t stage_ = 0;     // since the last restart
  int iteration_ = 0;
  bool heard_ = false;
  Clock::time_point next_push_{};
  std::chrono::microseconds pace_ = first_pace;
  // by rounds
  std::optional<GossipByRounds<Real>> rounds_;
  std::vector<Unsent> unsent_;
};

}  // namespace

// ---- the window ---------------------------------------------------------------------------------------------------

ucft_status_t GossipWindow::post(Request& request) {
  if (communicator_.context().excluded()) return communicator_.context().why_excluded();
  const auto place = static_cast<int>(next_ % in_flight);
  std::unique_ptr<GossipWork>& work = works_[static_cast<std::size_t>(place)];
  if (work != nullptr && !work->finished()) return UCFT_ERR_BUSY;
  request.number = next_++;
  request.state = Request::State::active;
  if (request.gossip->is_float)
    work = std::make_unique<GossipOperation<float>>(communicator_, agreements(place), request, request.number, failed_);
  else
    work = std::make_unique<GossipOperation<double>>(communicator_, agreements(place), request, request.number, failed_);
  ++active_;
  on_turn();
  return UCFT_OK;
}

void GossipWindow::on_message(const Message& message) {
  GossipWork* work = works_[message.operation % in_flight].get();
  if (work == nullptr || message.operation >= next_ || message.operation + in_flight < next_) return communicator_.context().note_stale();
  work->on_message(message);
}

void GossipWindow::on_failure(Rank rank) {
  if (std::find(failed_.begin(), failed_.end(), rank) != failed_.end()) return;
  failed_.push_back(rank);
  for (const auto& work : works_)
    if (work != nullptr) work->on_failure(rank);
}

bool GossipWindow::on_turn() {
  bool active = false;
  for (const auto& work : works_)
    if (work != nullptr && !work->finished()) active |= work->on_turn();
  count();
  return active;
}

void GossipWindow::exclude_self(ucft_status_t why) {
  for (const auto& work : works_)
    if (work != nullptr && !work->finished()) work->finish(why);
  count();
}

void GossipWindow::count() {
  active_ = 0;
  for (const auto& work : works_) active_ += work != nullptr && !work->finished();
}

double GossipWindow::estimate(const Request& request, void* values) {
  return works_[request.number % in_flight]->estimate(values);
}

Communicator& GossipWindow::agreements(int place) {
  Communicator*& found = agreements_[static_cast<std::size_t>(place)];
  if (found == nullptr)
    found = communicator_.context().create(communicator_.id() | static_cast<std::uint32_t>(place + 1) << place_shift, communicator_.ranks());
  return *found;
}

std::vector<Communicator*> GossipWindow::agreements() const {
  std::vector<Communicator*> all;
  for (Communicator* each : agreements_)
    if (each != nullptr) all.push_back(each);
  return all;
}

}  // namespace ucft::detail

#include "ucx_layer/runtime/gossip_driver.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/gossip/gossip_operation.hpp"
#include "ucx_layer/runtime/communicator.hpp"
#include "ucx_layer/runtime/context.hpp"
#include "ucx_layer/runtime/gossip_windows.hpp"
#include "ucx_layer/transport/wire_format.hpp"

namespace ucft::detail {

namespace {

// The allreduce (maximum) that all survivors of an operation take part in.
class Agreement {
 public:
  bool is_posted() const { return is_posted_; }
  bool is_complete() const { return request_.state == Request::State::complete; }
  // False: no memory now, or excluded: then others end it.
  bool post(Communicator& communicator, std::vector<double> table) {
    table_ = std::move(table);
    request_ = Request();
    request_.communicator = &communicator;
    Arguments& arguments = request_.arguments;
    arguments.kind = Kind::allreduce;
    arguments.reduction = {DataType::float64, Operator::max};
    arguments.count = table_.size();
    arguments.f = std::min(communicator.context().settings().f, communicator.size() - 1);
    arguments.shape = communicator.fastest_shape(arguments.bytes());
    request_.send = request_.receive = table_.data();
    communicator.plan(request_);
    is_posted_ = communicator.post(request_) == UCFT_OK;
    return is_posted_;
  }
  void clear() { is_posted_ = false; }
  ucft_status_t status() const { return request_.status; }
  std::int32_t culprit() const { return request_.culprit; }
  GossipAgreed agreed() const {
    return {table_, request_.missing_known ? std::span<const Rank>(request_.missing) : std::span<const Rank>{},
            request_.contributors};
  }

 private:
  std::vector<double> table_;
  Request request_;
  bool is_posted_ = false;
};

ucft_status_t status_of(GossipEnd end) {
  switch (end) {
    case GossipEnd::mismatch: return UCFT_ERR_MISMATCH;
    case GossipEnd::unsupported: return UCFT_ERR_UNSUPPORTED;
    case GossipEnd::no_memory: return UCFT_ERR_NO_MEMORY;
    default: return UCFT_OK;
  }
}

template <class Real>
class WorkOf final : public GossipWork {
 public:
  WorkOf(Communicator& communicator, Communicator& agreements, Request& request, OperationNumber number,
         const std::vector<Rank>& failed)
      : communicator_(communicator),
        agreements_(agreements),
        request_(request),
        number_(number),
        operation_(request.gossip->call,
                   {communicator.rank(), communicator.size(), number, communicator.gossip_hosts()},
                   read_values<Real>(request.gossip->call.half, request.send, request.gossip->call.count), failed,
                   communicator.context().settings().gossip_faults),
        windows_(communicator) {
    request.gossip->outcome = {};
    operation_.start(operation_.one_sided().is_possible() ? take_windows() : WindowObjection::none, sends_);
  }
  ~WorkOf() override { forget_rows(); }

  bool finished() const override { return finished_; }

  bool on_turn() override {
    bool active = send_what_waits();
    active |= look_into_windows();
    active |= agree();
    if (!finished_)
      active |= operation_.on_turn(
          operation_.is_pushing() ? std::chrono::steady_clock::now().time_since_epoch() : GossipTime{}, sends_);
    carry_out();
    return active;
  }

  void on_message(const GossipMessage& message, std::span<const std::byte> value) override {
    if (finished_ || value.size() % sizeof(Real) != 0) return;
    if (message.has(is_window) && !value.empty()) {
      take_name({message.peer, message.tag, {value.begin(), value.end()}});
    } else {
      row_.resize(value.size() / sizeof(Real));
      if (!value.empty()) std::memcpy(row_.data(), value.data(), value.size());
      operation_.on_message(message, row_, sends_);
    }
    carry_out();
  }

  void on_failure(Rank rank) override {
    if (finished_) return;
    operation_.on_failure(rank, sends_);
    carry_out();
  }

  double estimate(void* values) override {
    const GossipCall& call = request_.gossip->call;
    if (call.half == GossipHalf::none) return operation_.estimate({static_cast<Real*>(values), call.count});
    row_.resize(call.count);
    const double expected = operation_.estimate(row_);
    write_values<Real>(call.half, row_, values);
    return expected;
  }
  std::uint32_t contributors() const override { return operation_.contributors(); }

  void finish(ucft_status_t status) override {
    finished_ = true;
    if (!operation_.finished()) operation_.finish(GossipEnd::no_answer);
    forget_rows();
    windows_.clear();
    const std::uint64_t messages = request_.gossip->outcome.messages;
    GossipOutcome& outcome = request_.gossip->outcome = operation_.outcome();
    outcome.messages = messages;
    request_.status = status;
    request_.culprit = agreement_.status() == UCFT_ERR_MISMATCH ? agreement_.culprit() : operation_.outcome().culprit;
    request_.attempts = outcome.stages;
    request_.contributors = status == UCFT_OK ? outcome.contributors : 0;
    request_.missing.clear();
    request_.missing_known = status == UCFT_OK;
    for (std::int32_t rank = 0; rank < communicator_.size(); ++rank)
      if (outcome.missing[static_cast<std::size_t>(rank)]) request_.missing.push_back(rank);
    request_.missing_count = status == UCFT_OK ? static_cast<std::int32_t>(request_.missing.size()) : -1;
    request_.state = Request::State::complete;
  }

 private:
  struct Waiting {
    GossipMessage message;
    int link;
    std::vector<Real> row;
  };

  Transport& transport() { return communicator_.context().transport(); }
  Buffers& buffers() { return transport().buffers(); }
  BufferId& row_of(int link) { return rows_[static_cast<std::size_t>(link)]; }

  // Carries out what the operation wants after an event.
  void carry_out() {
    if (finished_) return;
    follow_beginnings();
    flush();
    if (operation_.finished())
      report();
    else if (operation_.wants_agreement() && !agreement_.is_posted())
      agree();
    transport().ring_doorbells();
  }
  void report() {
    if (operation_.outcome().end == GossipEnd::excluded)
      return communicator_.context().exclude_self();  // which finishes this, too
    const ConstMass<Real> result = operation_.result();
    if (operation_.outcome().end == GossipEnd::success)
      write_values<Real>(request_.gossip->call.half, result, request_.receive);
    finish(status_of(operation_.outcome().end));
  }

  // ---- agreements

  // True if one has come to an end.
  bool agree() {
    if (finished_ || !operation_.wants_agreement()) return false;
    if (!agreement_.is_posted() && (!are_windows_at_rest() || !agreement_.post(agreements_, operation_.table())))
      return false;
    if (finished_ || !agreement_.is_complete()) return false;
    agreement_.clear();
    if (agreement_.status() == UCFT_ERR_TOO_MANY_FAILURES) return false;  // more than f at once: another try
    if (agreement_.status() != UCFT_OK)
      finish(agreement_.status());
    else
      operation_.on_agreement(agreement_.agreed(), sends_);
    carry_out();
    return true;
  }

  // ---- sending

  void flush() {
    for (const auto& each : sends_.sends()) {
      if (each.what == GossipSends<Real>::Send::What::show)
        write(each.link, each.state, sends_.at(each.row));
      else if (!waiting_.empty() && each.link >= 0)
        wait(each.message, each.link, sends_.at(each.row));  // behind others of its link, maybe
      else if (!send_row(each.message, each.link, sends_.at(each.row)))
        wait(each.message, each.link, sends_.at(each.row));
    }
    sends_.clear();
  }
  void send(GossipMessage message, BufferId value) {
    message.operation = number_;
    communicator_.send_aside(message, value);
    ++request_.gossip->outcome.messages;
  }
  // False: there is no memory.
  bool send_row(const GossipMessage& message, int link, ConstMass<Real> row) {
    if (row.empty()) {
      send(message, no_buffer);
      return true;
    }
    if (link < 0) {
      const BufferId copy = buffers().copy_in(row.data(), row.size_bytes());
      if (copy == no_buffer) return false;
      send(message, copy);
      buffers().release(copy);
      return true;
    }
    BufferId& kept = row_of(link);
    if (kept != no_buffer && (buffers().references(kept) > 1 || buffers().whole(kept).bytes != row.size_bytes())) {
      buffers().release(kept);  // if it still waits to leave the transport keeps it
      kept = no_buffer;
    }
    if (kept == no_buffer) kept = buffers().allocate(row.size_bytes());
    if (kept == no_buffer) return false;
    std::memcpy(buffers().data(kept), row.data(), row.size_bytes());
    send(message, kept);
    if (buffers().references(kept) > 1)
      leaving_.push_back(link);
    else
      operation_.on_clear(link, sends_);
    return true;
  }
  // Every row is waited for by somebody.
  void wait(const GossipMessage& message, int link, ConstMass<Real> row) {
    waiting_.push_back({message, link, {row.begin(), row.end()}});
  }
  // True if anything has left.
  bool send_what_waits() {
    std::size_t left = 0;
    while (left < waiting_.size() && send_row(waiting_[left].message, waiting_[left].link, waiting_[left].row)) ++left;
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(left));
    std::erase_if(leaving_, [&](int link) {
      if (buffers().references(row_of(link)) > 1) return false;
      operation_.on_clear(link, sends_);
      return true;
    });
    return left > 0;
  }
  void forget_rows() {
    for (const BufferId row : rows_) buffers().release(row);
    rows_.clear();
    waiting_.clear();
    leaving_.clear();
  }

  // It has begun, or begun again: rows that were to be sent before are of no use, and there may be other neighbours.
  void follow_beginnings() {
    if (operation_.epoch().begun() == begun_) return;
    forget_rows();
    if (operation_.is_gathering()) return;
    begun_ = operation_.epoch().begun();
    rows_.assign(operation_.neighbours().size(), no_buffer);
    if (!operation_.one_sided().is_possible()) {
      if (!operation_.one_sided().is_on) windows_.clear();
      return;
    }
    if (take_windows() != WindowObjection::none) return operation_.refuse_windows(communicator_.rank(), sends_);
    if (operation_.links() == nullptr) return;  // another rank speaks for this host
    for (int link : operation_.links()->live()) {
      windows_.at(link).publish();  // what was read before, and would have been told with the next push
      name(link);
    }
    for (GossipWindows::Name& each : windows_.take_kept()) take_name(std::move(each));
  }

  // ---- RMA windows

  WindowObjection take_windows() {
    return windows_.take(operation_.neighbours(), operation_.deaths().known(),
                         (row_length() + presence_length()) * sizeof(Real));
  }
  std::size_t row_length() const {
    const GossipCall& call = request_.gossip->call;
    return row_length_of(call.plan.algorithm, call.plan.extremum, call.count);
  }
  std::size_t presence_length() const { return GossipPresence<Real>::length(communicator_.size()); }
  // At each beginning: a neighbour that began with another view has passed it by.
  void name(int link) {
    const std::vector<std::byte> bytes = windows_.at(link).name();
    GossipMessage message;
    message.peer = operation_.neighbours()[static_cast<std::size_t>(link)];
    message.tag = operation_.epoch().tag();
    message.flags = is_window;
    const BufferId value = buffers().copy_in(bytes.data(), bytes.size());
    send(message, value);
    buffers().release(value);
  }
  void take_name(GossipWindows::Name name) {
    if (operation_.is_early(name.tag)) return windows_.keep(std::move(name));
    if (!operation_.epoch().is_now(name.tag) || !operation_.one_sided().is_possible() || operation_.links() == nullptr)
      return;
    const int link = operation_.links()->link_of(name.neighbour);
    if (link < 0 || !operation_.links()->state().is_live(link)) return;
    if (windows_.at(link).connect(name.bytes) == RmaWindow::Connected::impossible)
      operation_.refuse_windows(communicator_.rank(), sends_);
    else
      windows_.at(link).publish();  // what was read before there was a way to say so
  }
  // A device must have let go of all that it was given, too. The meeting is beside all that.
  bool are_windows_at_rest() {
    if (!operation_.epoch().has_met() || !operation_.one_sided().is_possible() || operation_.links() == nullptr)
      return true;  // not all of them need to exist
    return std::ranges::all_of(operation_.links()->live(), [&](int link) { return windows_.at(link).is_at_rest(); });
  }
  void write(int link, const GossipLinkState& state, ConstMass<Real> row) {
    windows_.at(link).write(std::as_bytes(std::span(&state, 1)), std::as_bytes(row));
    ++request_.gossip->outcome.messages;
  }
  // True if there was anything new.
  bool look_into_windows() {
    if (!operation_.one_sided().is_possible() || operation_.links() == nullptr) return false;
    bool active = false;
    for (int link : operation_.links()->live()) {
      RmaWindow& window = windows_.at(link);
      if (!operation_.links()->is_clear(link) && window.can_write()) {
        operation_.on_clear(link, sends_);
        flush();
      }
      if (!window.has_news()) continue;
      GossipLinkState now;
      std::memcpy(&now, window.head(), sizeof now);
      if (operation_.epoch().is_ahead(now.tag)) continue;  // it stays there until we have begun again, too
      ConstMass<Real> row;
      if (operation_.epoch().is_now(now.tag) && operation_.links()->brings_row(link, now))
        row = {reinterpret_cast<const Real*>(window.row(scratch_)),
               row_length() + (now.presence != 0 ? presence_length() : 0)};
      window.consume();  // the row stays until the other end is told, below
      operation_.on_shown(link, now, row, window.can_write(), sends_);
      flush();
      // An end that has the turn tells with its push how far it has read. Otherwise we must tell it at once: the other
      // end can't write before, and might be the one that we wait for.
      if (!operation_.is_pushing() || !operation_.links()->has_turn(link)) window.publish();
      active = true;
    }
    return active;
  }

  Communicator& communicator_;
  Communicator& agreements_;
  Request& request_;
  const OperationNumber number_;
  GossipOperation<Real> operation_;
  GossipSends<Real> sends_;
  Agreement agreement_;
  GossipWindows windows_;
  bool finished_ = false;
  std::uint32_t begun_ = 0;  // that we have followed
  std::vector<BufferId>
      rows_;  // messages, by link: what was sent last; the transport holds it, too, while it waits there
  std::vector<int> leaving_;      // links whose row does
  std::vector<Waiting> waiting_;  // for memory, in this order
  std::vector<Real> row_;
  std::vector<std::byte> scratch_;
};

}  // namespace

// ---- operations in flight -----------------------------------------------------------------------------------------

ucft_status_t GossipDriver::post(Request& request) {
  if (communicator_.context().excluded()) return communicator_.context().why_excluded();
  const auto place = static_cast<int>(next_ % in_flight);
  std::unique_ptr<GossipWork>& work = works_[static_cast<std::size_t>(place)];
  if (work != nullptr && !work->finished()) return UCFT_ERR_BUSY;
  request.number = next_++;
  request.state = Request::State::active;
  if (request.gossip->call.is_float)
    work = std::make_unique<WorkOf<float>>(communicator_, agreements(place), request, request.number, failed_);
  else
    work = std::make_unique<WorkOf<double>>(communicator_, agreements(place), request, request.number, failed_);
  ++active_;
  for (const Early& each : std::exchange(early_, {})) on_message(each.message, each.value);
  on_turn();
  return UCFT_OK;
}

void GossipDriver::on_message(const GossipMessage& message, std::span<const std::byte> value) {
  if (message.operation >= next_ && message.operation < next_ + in_flight)
    return early_.push_back({message, {value.begin(), value.end()}});
  GossipWork* work = works_[message.operation % in_flight].get();
  if (work == nullptr || message.operation >= next_ || message.operation + in_flight < next_)
    return communicator_.context().communicators().note_stale();
  work->on_message(message, value);
}

void GossipDriver::on_failure(Rank rank) {
  if (std::find(failed_.begin(), failed_.end(), rank) != failed_.end()) return;
  failed_.push_back(rank);
  for (const auto& work : works_)
    if (work != nullptr) work->on_failure(rank);
}

bool GossipDriver::on_turn() {
  bool active = false;
  for (const auto& work : works_)
    if (work != nullptr && !work->finished()) active |= work->on_turn();
  count();
  return active;
}

void GossipDriver::exclude_self(ucft_status_t why) {
  for (const auto& work : works_)
    if (work != nullptr && !work->finished()) work->finish(why);
  count();
}

bool GossipDriver::has_finished_before(OperationNumber end) const {
  if (end > next_) return false;
  for (OperationNumber number = next_ > in_flight ? next_ - in_flight : 0; number < end; ++number)
    if (!works_[number % in_flight]->finished()) return false;
  return true;
}

void GossipDriver::count() {
  active_ = 0;
  for (const auto& work : works_) active_ += work != nullptr && !work->finished();
}

double GossipDriver::estimate(const Request& request, void* values) {
  return works_[request.number % in_flight]->estimate(values);
}

std::uint32_t GossipDriver::contributors(const Request& request) const {
  return works_[request.number % in_flight]->contributors();
}

Communicator& GossipDriver::agreements(int place) {
  Communicator*& found = agreements_[static_cast<std::size_t>(place)];
  if (found != nullptr) return *found;
  found = communicator_.context().communicators().create(
      communicator_id::of(communicator_.id(), static_cast<std::uint32_t>(place + 1)), communicator_.ranks());
  for (Rank rank : communicator_.gossip_left()) found->note_left(rank);
  return *found;
}

std::vector<Communicator*> GossipDriver::take_agreements() {
  std::vector<Communicator*> all = agreements();
  agreements_.fill(nullptr);
  return all;
}

std::vector<Communicator*> GossipDriver::agreements() const {
  std::vector<Communicator*> all;
  for (Communicator* each : agreements_)
    if (each != nullptr) all.push_back(each);
  return all;
}

}  // namespace ucft::detail

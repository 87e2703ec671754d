#include "ucx_layer/membership/epochs.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "collectives/core/sometimes.hpp"
#include "collectives/renewal/renewal_vote.hpp"
#include "timeout_detector/signals_blocked.hpp"
#include "ucx_layer/membership/join_environment.hpp"
#include "ucx_layer/transport/ucx.hpp"

namespace ucft::detail {

namespace {

using namespace std::chrono_literals;

// For the others of an epoch that this process leaves: they may be about to enter it.
constexpr auto admission_limit = 3s;

bool is_gone(const Context& context, std::int32_t rank) { return context.was_told_gone(rank); }

bool has_free_seat(const Context& context) {
  for (std::int32_t rank = 0; rank < context.size(); ++rank)
    if (is_gone(context, rank)) return true;
  return false;
}

std::vector<bool> gone_from(const Context& context) {
  std::vector<bool> gone;
  for (std::int32_t rank = 0; rank < context.size(); ++rank) gone.push_back(is_gone(context, rank));
  return gone;
}

EpochOffer offer_of(const Invitation& invitation) {
  const InviteHead& head = invitation.head;
  return {head.id, head.base_cookie, head.seat, invitation.seats, invitation.is_mine};
}

}  // namespace

bool Epochs::is_newcomer() { return variable("UCFT_JOIN") != nullptr; }
bool Epochs::is_wanted() { return is_newcomer() || is_on(variable("UCFT_JOINABLE")); }

Epochs::~Epochs() {
  if (agent_ != nullptr) agent_->stop();  // its thread uses what ends next
  start_.reset();
}

ucft_status_t Epochs::open(const ucft_context_params_t* params, std::string& error) {
  if (params != nullptr) params_ = *params;
  callback_ = std::exchange(params_.failure_callback, &Epochs::on_failure);
  callback_arg_ = std::exchange(params_.failure_callback_arg, this);
  Settings settings;
  if (!read_settings(&params_, settings, error) || !read_secret(secret_, error)) return UCFT_ERR_INVALID_PARAM;
  warns_ = settings.says(LogLevel::warn);
  informs_ = settings.says(LogLevel::info);
  Ucx::expect_more();
  agent_ = std::make_unique<Agent>(*this, secret_);
  if (is_newcomer()) {
    std::vector<ListenerName> members = listeners_in(variable("UCFT_JOIN"), error);
    if (members.empty()) return UCFT_ERR_INVALID_PARAM;
    agent_->apply_to(std::move(members), wanted_seat());
  }
  return agent_->open(error) ? UCFT_OK : UCFT_ERR_STARTUP;
}

ucft_status_t Epochs::begin(std::unique_ptr<Context> first, std::string& error) {
  if (!is_newcomer()) known_ = KnownEpochs::of_member(first->cookie());
  epochs_.push_back({.context = std::move(first)});
  try {
    agent_->start();
  } catch (const std::system_error& failure) {
    error = fmt::format("the thread that lets newcomers in can't start: {}", failure.what());
    return UCFT_ERR_STARTUP;
  }
  if (!known_.is_member()) return UCFT_OK;
  publish_address();
  show_seats(current());
  return UCFT_OK;
}

void Epochs::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  agent_->stop();
  start_.reset();
  while (!started_.empty()) retire(take_started(started_.front().start));
  while (epochs_.size() > 1) {
    retire(std::move(epochs_.front()));
    epochs_.erase(epochs_.begin());
  }
  if (has_joined()) leave(current(), epochs_.back().admission.get());
  for (Leaver& each : leavers_)
    if (each.thread.joinable()) each.thread.join();
  leavers_.clear();
  epochs_.clear();
}

// ---- epochs ---------------------------------------------------------------------------------------------------------

Roster Epochs::roster() {
  const std::lock_guard lock(mutex_);
  Roster roster;
  if (!known_.is_member() || epochs_.back().context->was_told_out()) return roster;
  const Context& context = *epochs_.back().context;
  roster.me = context.rank();
  roster.cookie = context.cookie();
  for (std::int32_t rank = 0; rank < context.size(); ++rank) {
    roster.lives.push_back(!is_gone(context, rank));
    roster.hosts.push_back(context.job().peer(rank).host_name);
  }
  roster.names = context.job().listeners;
  roster.most_seats = std::max(context.size(), most_seats_);
  return roster;
}

void Epochs::on_invited(Invitation invitation) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  take_start();
  switch (known_.on_invited(offer_of(invitation))) {
    case KnownEpochs::Invited::begins: return begin_start(std::move(invitation));
    case KnownEpochs::Invited::waits: next_ = std::move(invitation); return;
    case KnownEpochs::Invited::ignored: return;
  }
}

void Epochs::begin_start(Invitation invitation) {
  try {
    start_ = std::make_unique<EpochStart>(std::move(invitation), params_without_callback(), agent_->name(), [this] {
      changed_.notify_all();
      agent_->wake();
    });
  } catch (const std::system_error& failure) {
    known_.on_start_over(0);
    say_now(fmt::format("an epoch can't be started: {}", failure.what()));
  }
}

void Epochs::begin_waiting() {
  if (!ending_ && known_.begin_waiting()) begin_start(*std::exchange(next_, std::nullopt));
}

void Epochs::on_turn() {
  std::vector<Leaver> through;  // they end without the lock
  const std::lock_guard lock(mutex_);
  take_start();
  for (std::size_t i = 0; i < leavers_.size();) {
    Leaver& each = leavers_[i];
    if (each.is_through->load(std::memory_order_acquire))
      for (void* const memory : std::exchange(each.to_free, {})) each.context->transport().free_shared(memory);
    if (!each.is_through->load(std::memory_order_acquire) || each.context->transport().has_lent_memory()) {
      ++i;
      continue;
    }
    if (each.thread.joinable()) each.thread.join();
    through.push_back(std::move(each));
    leavers_.erase(leavers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// The start that is over has led to a candidate, or has failed.
void Epochs::take_start() {
  if (start_ == nullptr || !start_->is_over()) return begin_waiting();
  Epoch made{.context = start_->take_context(),
             .start = start_->invitation().head.id,
             .newcomers = start_->invitation().newcomers()};
  const std::string error = start_->error();
  const bool is_sponsor = start_->invitation().is_mine;
  start_.reset();
  const KnownEpochs::Started started = known_.on_start_over(made.context == nullptr ? 0 : made.context->cookie());
  if (made.context == nullptr) {
    UCFT_SOMETIMES("the start of an epoch fails");
    if (!ending_ && (is_sponsor ? warns_ : informs_))
      fmt::print(stderr, "ucft: process {}: the start of an epoch with newcomers failed: {}\n", getpid(), error);
  } else if (!started.is_kept) {
    retire(std::move(made));
  } else {
    made.context->set_epochs(this);
    started_.push_back(std::move(made));
  }
  retire_all(started.left);
  begin_waiting();
}

bool Epochs::is_broken(const CandidateEpoch& candidate) const {
  const Context &theirs = *std::ranges::find(started_, candidate.start, &Epoch::start)->context,
                &base = *epochs_.back().context;
  return theirs.was_told_out() || detail::is_broken(candidate.newcomers, gone_from(base), gone_from(theirs));
}

KnownEpochs::IsBroken Epochs::broken_ones() const {
  return [this](const CandidateEpoch& each) { return is_broken(each); };
}

Epochs::Epoch& Epochs::epoch_of(std::uint64_t start) { return *std::ranges::find(started_, start, &Epoch::start); }

Epochs::Epoch Epochs::take_started(std::uint64_t start) {
  const auto found = std::ranges::find(started_, start, &Epoch::start);
  Epoch taken = std::move(*found);
  started_.erase(found);
  return taken;
}

bool Epochs::is_starting() {
  const std::lock_guard lock(mutex_);
  take_start();
  return known_.under_way().has_value();
}

std::vector<std::uint64_t> Epochs::started() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> starts;
  for (const CandidateEpoch& each : known_.candidates()) starts.push_back(each.start);
  return starts;
}

EpochState Epochs::state_of(std::uint64_t start) {
  const std::lock_guard lock(mutex_);
  take_start();
  return known_.state_of(start, broken_ones());
}

void Epochs::grow_to(std::int32_t most_seats) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(most_seats_, most_seats) == most_seats) return;
  }
  agent_->wake();
}

KnownEpochs::Ballot Epochs::look(std::int32_t newcomers, bool time_is_over) {
  const std::lock_guard lock(mutex_);
  take_start();
  retire_all(known_.drop_broken(broken_ones()));
  const Context& base = current();
  const std::int32_t most_seats = std::max(base.size(), most_seats_);
  return known_.look({newcomers, most_seats, has_free_seat(base) || base.size() < most_seats, time_is_over},
                     [this](const CandidateEpoch& each) { return has_free_seat(*epoch_of(each.start).context); });
}

bool Epochs::is_left_behind() {
  Context* voted = nullptr;  // it stays until after_vote()
  {
    const std::lock_guard lock(mutex_);
    for (const Epoch& each : started_)
      if (each.context->cookie() == known_.voted()) voted = each.context.get();
  }
  if (voted == nullptr || !voted->enter()) return false;
  voted->look_for_departures();
  for (int i = 0; i < 64; ++i) voted->progress(true);
  const bool is_out = voted->excluded();
  if (is_out) UCFT_SOMETIMES("a rank is out in the epoch that it has voted for");
  voted->leave();
  return is_out;
}

void Epochs::after_vote() {
  const std::lock_guard lock(mutex_);
  retire_all(known_.after_vote());
}

Communicator* Epochs::adopt(std::uint32_t cookie) {
  Epoch adopted;
  {
    const std::lock_guard lock(mutex_);
    const auto agreed = known_.adopt(cookie);
    if (!agreed) return nullptr;
    adopted = take_started(agreed->start);
  }
  report_deaths(adopted);
  adopted.context->set_callback(&Epochs::on_failure, this);
  adopted.context->enter();
  UCFT_SOMETIMES("an epoch is about to be adopted");
  post_admission(adopted);
  UCFT_SOMETIMES("an epoch is adopted");
  Communicator* const renewed = enter(std::move(adopted));
  current().leave();
  return renewed;
}

// Those whose seats are not theirs any more in the next epoch. It is the last time that the base can tell of them.
void Epochs::report_deaths(const Epoch& next) {
  Context& base = current();
  const auto all_known = [&] {
    return std::ranges::all_of(next.newcomers,
                               [&](std::int32_t rank) { return rank >= base.size() || is_gone(base, rank); });
  };
  base.look_for_departures();
  base.wait_until(all_known, Clock::now() + 1s);
  for (int i = 0; i < 64; ++i) base.progress();  // one of so many looks at all
}

// Inside of its context.
void Epochs::post_admission(Epoch& epoch) {
  Context& context = *epoch.context;
  epoch.admission = std::make_unique<Request>();
  Request& barrier = *epoch.admission;
  barrier.communicator = context.communicators().create_for_all(context.size());
  barrier.arguments.f = std::min(std::max(context.settings().f, 8), context.size() - 1);
  barrier.communicator->plan(barrier);
  if (const ucft_status_t status = barrier.communicator->post(barrier); status != UCFT_OK) barrier.give_up(status);
}

// Inside of its context. It is current from here on.
Communicator* Epochs::enter(Epoch epoch) {
  Communicator* const world = epoch.context->communicators().create_for_all(epoch.context->size());
  world->set_newcomers(epoch.newcomers);
  const std::lock_guard lock(mutex_);
  for (const std::int32_t rank : epoch.newcomers)  // another process has that seat now
    std::erase_if(reported_, [rank](const auto& each) { return each.first == rank; });
  epoch.context->spare_all(false);
  const std::uint64_t start = epoch.start;
  if (!epochs_.empty()) current().transport().control()->seats.port.store(0, std::memory_order_relaxed);
  show_seats(*epoch.context);
  epochs_.push_back(std::move(epoch));
  retire_all(known_.enter(start, current().cookie()));
  if (!known_.waiting()) next_.reset();
  begin_waiting();
  agent_->wake();
  return world;
}

// Leaving takes as long as others need this rank. mutex_ is held, or nobody else is there.
void Epochs::retire(Epoch epoch) {
  if (epoch.context == nullptr) return;
  epoch.context->set_callback(nullptr, nullptr);  // it must not come on that thread
  auto is_through = std::make_shared<std::atomic<bool>>(false);
  const auto work = [this, context = epoch.context.get(), admission = epoch.admission.get(), is_through] {
    leave(*context, admission);
    is_through->store(true, std::memory_order_release);
    agent_->wake();
  };
  std::thread thread;
  try {
    const AllSignalsBlocked blocked;
    thread = std::thread(work);
  } catch (const std::system_error&) {  // threads have run out
    work();
  }
  leavers_.push_back({std::move(thread), is_through, std::move(epoch.admission), std::move(epoch.context)});
}

void Epochs::leave(Context& context, const Request* admission) {
  while (!context.enter()) sched_yield();
  if (admission != nullptr) context.wait_until([=] { return !admission->pending(); }, Clock::now() + admission_limit);
  context.stop();
  context.leave();
}

void Epochs::retire_all(const KnownEpochs::Starts& starts) {
  for (const std::uint64_t each : starts) retire(take_started(each));
}

void Epochs::on_unused(Context& context) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(epochs_, [&](const Epoch& each) { return each.context.get() == &context; });
  if (found == epochs_.end() || found + 1 == epochs_.end()) return;
  Epoch unused = std::move(*found);
  epochs_.erase(found);
  retire(std::move(unused));
}

bool Epochs::free_memory(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto frees = [&](Context& context) {
    while (!context.enter()) sched_yield();
    const bool is_its = context.transport().free_shared(memory);
    context.leave();
    return is_its;
  };
  for (const Epoch& each : epochs_)
    if (frees(*each.context)) return true;
  for (Leaver& each : leavers_) {
    if (!each.context->transport().is_shared(memory, 1)) continue;  // which doesn't change while it is left
    if (each.is_through->load(std::memory_order_acquire)) return frees(*each.context);
    each.to_free.push_back(memory);
    return true;
  }
  return false;
}

// ---- newcomers ------------------------------------------------------------------------------------------------------

Communicator* Epochs::join(Clock::time_point limit, ucft_status_t& status, std::string& error) {
  for (;; std::this_thread::sleep_for(100us)) {
    std::vector<Epoch*> tried;
    {
      std::unique_lock lock(mutex_);
      take_start();
      for (Epoch& each : started_) tried.push_back(&each);
      if (tried.empty() && !refusal_.empty()) {
        status = UCFT_ERR_STARTUP;
        error = refusal_;
        return nullptr;
      }
      if (tried.empty() && Clock::now() < limit) {
        changed_.wait_for(lock, 10ms);
        continue;
      }
    }
    for (Epoch* const each : tried) {
      Context& context = *each->context;
      context.enter();
      if (each->admission == nullptr) {
        context.set_callback(&Epochs::on_failure, this);
        post_admission(*each);
      }
      for (int i = 0; i < 16; ++i) context.progress(true);
      context.look_for_departures();
      const bool is_over = !each->admission->pending();
      const bool is_admitted = is_over && was_admitted(*each);
      Communicator* const world = is_admitted ? enter_as_newcomer(*each) : nullptr;
      context.leave();
      if (world != nullptr) return world;
      if (!is_over) continue;
      UCFT_SOMETIMES("a newcomer's epoch is dropped");
      const std::lock_guard lock(mutex_);
      known_.drop(each->start);
      retire(take_started(each->start));
      break;
    }
    if (Clock::now() >= limit) {  // once it has tried
      status = UCFT_ERR_TIMED_OUT;
      error = "this process has not been admitted: the survivors have not renewed their communicator yet";
      return nullptr;
    }
  }
}

bool Epochs::was_admitted(const Epoch& epoch) const {
  const Request& barrier = *epoch.admission;
  return barrier.status == UCFT_OK &&
         detail::was_admitted(epoch.newcomers, barrier.contributors, barrier.missing_known, barrier.missing);
}

Communicator* Epochs::enter_as_newcomer(Epoch& candidate) {
  Epoch mine;
  {
    const std::lock_guard lock(mutex_);
    mine = take_started(candidate.start);
    epochs_.clear();  // what stood for it until now
  }
  UCFT_SOMETIMES("a newcomer has joined");
  mine.context->set_callback(&Epochs::on_failure, this);
  Communicator* const world = enter(std::move(mine));
  publish_address();
  return world;
}

void Epochs::on_refused(const std::string& why) {
  const std::lock_guard lock(mutex_);
  refusal_ = why;
  changed_.notify_all();
}

std::pair<std::int32_t, std::int32_t> Epochs::waiting() {
  const std::lock_guard lock(mutex_);
  take_start();
  const auto& candidates = known_.candidates();
  const auto ready = candidates.empty() || is_broken(candidates.back()) ? 0 : candidates.back().newcomers.size();
  const auto starting = start_ == nullptr ? 0 : start_->invitation().newcomers().size();
  const auto known =
      std::max({static_cast<std::int32_t>(starting), static_cast<std::int32_t>(ready), agent_->waiting()});
  return {static_cast<std::int32_t>(ready), known};
}

// ---- for users ------------------------------------------------------------------------------------------------------

std::string Epochs::address() const {
  const ListenerName& name = agent_->name();
  return name.count == 0 ? "" : text_of(name.addresses[0], name.port);
}

// For ucft_run, which starts newcomers: UCFT_ADDRESS_FD is a descriptor, a comma, and a name for this process.
void Epochs::publish_address() const {
  if (informs_)
    fmt::print(stderr, "ucft: rank {} (pid {}): newcomers may come to {}\n", epochs_.back().context->rank(), getpid(),
               address());
  const std::string_view wanted = variable("UCFT_ADDRESS_FD") == nullptr ? "" : variable("UCFT_ADDRESS_FD");
  const std::size_t comma = wanted.find(',');
  if (comma == std::string_view::npos) return;
  const std::string line = fmt::format("{} {}\n", wanted.substr(comma + 1), address());
  [[maybe_unused]] const ssize_t written = write(std::atoi(wanted.data()), line.data(), line.size());
}

// For observers. The context is the current one from here on.
void Epochs::show_seats(Context& context) const {
  const ListenerName& name = agent_->name();
  if (name.count == 0) return;
  SeatWords& seats = context.transport().control()->seats;
  std::uint64_t words[2];
  static_assert(sizeof words == sizeof name.addresses[0]);
  std::memcpy(words, name.addresses[0].data(), sizeof words);
  for (std::size_t i = 0; i < std::size(words); ++i) seats.address[i].store(words[i], std::memory_order_relaxed);
  seats.is_newcomer.store(is_newcomer() ? 1 : 0, std::memory_order_relaxed);
  for (std::int32_t seat = 0; seat < std::min(context.size(), static_cast<std::int32_t>(SeatWords::most)); ++seat)
    if (context.job().is_absent(seat))
      seats.empty[seat / 64].fetch_or(std::uint64_t{1} << (seat % 64), std::memory_order_relaxed);
  seats.port.store(name.port, std::memory_order_release);
}

// A death may be seen in two epochs.
void Epochs::on_failure(const ucft_failure_t* failure, void* arg) {
  auto& self = *static_cast<Epochs*>(arg);
  if (self.callback_ == nullptr || !self.reported_.emplace(failure->rank, failure->pid).second) return;
  self.callback_(failure, self.callback_arg_);
}

ucft_context_params_t Epochs::params_without_callback() const {
  ucft_context_params_t params = params_;
  params.failure_callback = nullptr;
  params.oob = {};
  return params;
}

void Epochs::say(const std::string& line, bool is_warning) {
  const std::lock_guard lock(mutex_);
  if (is_warning) return say_now(line);
  if (informs_) fmt::print(stderr, "ucft: {}\n", line);
}

void Epochs::say_now(const std::string& line) const {
  if (warns_) fmt::print(stderr, "ucft: process {}: {}\n", getpid(), line);
}

}  // namespace ucft::detail

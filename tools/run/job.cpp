// One job from start to end.
#include "tools/run/job.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/run/descendants.hpp"
#include "tools/run/typed_input.hpp"

namespace ucft::detail::run {

namespace {

constexpr auto term_grace = std::chrono::seconds(2);       // from SIGTERM to SIGKILL after Ctrl-C
constexpr auto cut_short_grace = std::chrono::seconds(2);  // for a stuck reader of our output after an early end
constexpr auto kill_limit = std::chrono::seconds(10);
constexpr Duration first_pause = std::chrono::milliseconds(100), longest_pause = std::chrono::seconds(10);
constexpr auto steady_after = std::chrono::seconds(10);  // a newcomer that has lived for as long is well
constexpr std::size_t most_addresses = 8;                // that a newcomer is told

rlimit raise_open_files() {
  rlimit original{};
  getrlimit(RLIMIT_NOFILE, &original);
  rlimit raised = original;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  return original;
}

std::vector<int> ascending(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// Where things are among the poll entries; the rendezvous' own come last. A negative descriptor is not watched.
constexpr std::size_t signals_entry = 0;
constexpr std::size_t guard_entry = 1;
constexpr std::size_t sinks_entry = 2;
constexpr std::size_t streams_entry = 4;

}  // namespace

Job::Job(Arguments arguments, std::string program_path, std::vector<std::vector<int>> cpus,
         const SupervisorContext& context)
    : arguments_(std::move(arguments)),
      program_path_(std::move(program_path)),
      cpus_(std::move(cpus)),
      context_(context),
      original_open_files_(raise_open_files()),
      secret_(bootstrap::random_secret()),
      signals_(signalfd(-1, &context_.handled_signals, SFD_CLOEXEC | SFD_NONBLOCK)),
      output_(STDOUT_FILENO),
      errors_(STDERR_FILENO),
      plan_(arguments_.planned_signals, arguments_.startup_limit) {
  if (pipe2(purpose_.data(), O_CLOEXEC | O_NONBLOCK) != 0) purpose_ = {-1, -1};
  if (arguments_.respawns > 0 && pipe2(address_.data(), O_CLOEXEC | O_NONBLOCK) != 0) address_ = {-1, -1};
}

Job::~Job() {
  for (const int end : {purpose_[0], purpose_[1], address_[0], address_[1]})
    if (end >= 0) close(end);
  if (signals_ >= 0) close(signals_);
}

int Job::run() {
  const bool started = open_rendezvous() && start_ranks();
  started_at_ = Clock::now();
  plan_.on_program_start(started_at_);
  while (started && alive_count_ > 0 && !end_now_) {
    step(next_deadline());
    if (alive_count_ > 0) on_timers();
  }
  const bool cut_short = end_now_;
  const double seconds = std::chrono::duration<double>(Clock::now() - started_at_).count();
  end_descendants_of_job();

  end_now_ = guard_lost_;  // from here on it means: stop writing
  const auto deadline = cut_short ? std::optional(Clock::now() + cut_short_grace) : std::nullopt;
  drain_output(deadline);
  if (started && !cut_short) say_what_was_not_sent();
  if (started && !cut_short) require_survivor();
  if (started && arguments_.json) output_.append_line(json_line(seconds));
  write_out(deadline);
  return exit_code();
}

// ---- start ----

bool Job::open_rendezvous() {
  bootstrap::RendezvousServer::Options options;
  options.size = arguments_.rank_count;
  options.secret = secret_;
  options.startup_limit = arguments_.startup_limit;
  options.log = [this](const std::string& line) { say(line); };
  std::string error;
  rendezvous_ = bootstrap::RendezvousServer::listen(std::move(options), error);
  if (rendezvous_ && signals_ >= 0) return true;
  say(rendezvous_ ? "cannot create a signalfd" : error);
  failure_exit_code_ = exit_internal;
  return false;
}

StartOrder Job::order_for(int rank) const {
  StartOrder order;
  order.rank = rank;
  order.program = program_path_;
  order.command = arguments_.command;
  order.environment = {{"UCFT_RANK", std::to_string(rank)},
                       {"UCFT_SIZE", std::to_string(arguments_.rank_count)},
                       {"UCFT_LOCAL_RANK", std::to_string(rank)},
                       {"UCFT_RENDEZVOUS", rendezvous_->address()},
                       {"UCFT_JOB_SECRET", bootstrap::secret_to_hex(secret_)}};
  if (!arguments_.join.empty())
    order.environment = {{"UCFT_LOCAL_RANK", std::to_string(rank)}, {"UCFT_JOIN", arguments_.join}};
  if (arguments_.respawns > 0) order.environment.emplace_back("UCFT_JOINABLE", "y");
  for (auto& variable : torch_.of_rank(rank, arguments_.rank_count)) order.environment.push_back(std::move(variable));
  order.cpus = cpus_[static_cast<std::size_t>(rank)];
  order.purpose = purpose_[1];
  order.address = address_[1];
  order.number = started_;
  if (rank == 0) order.input = context_.input;
  order.wants_terminal = arguments_.use_terminals;
  // A program that colours its output for a terminal must not do so into a file.
  if (arguments_.use_terminals && isatty(STDOUT_FILENO) == 0) order.environment.emplace_back("TERM", "dumb");
  order.signal_mask = context_.original_mask;
  order.open_files = original_open_files_;
  return order;
}

bool Job::start_ranks() {
  seats_.resize(static_cast<std::size_t>(arguments_.rank_count));
  for (int rank = 0; rank < arguments_.rank_count; ++rank) {
    ranks_.emplace_back();
    if (!start(rank, order_for(rank))) return false;
    if (rank == 0 && context_.input_is_typed)
      for (Stream& stream : streams_) stream.show_parts();
    if (rank == 0) leave_input();
  }
  return true;
}

bool Job::start(int rank, const StartOrder& order) {
  const StartedRank started = start_rank(order);
  if (started.error_number != 0) {
    const char* reason = std::strerror(started.error_number);
    if (started.program_refused) {
      say(fmt::format("cannot execute {}: {}", program_path_, reason));
      failure_exit_code_ = started.error_number == ENOENT ? exit_not_found : exit_not_executable;
    } else {
      say(fmt::format("cannot start rank {}: {}", rank, reason));
      failure_exit_code_ = exit_internal;
    }
    return false;
  }
  add_stream(started.output, started.has_terminal ? Stream::Kind::terminal : Stream::Kind::pipe, rank, output_);
  add_stream(started.errors, Stream::Kind::pipe, rank, errors_);
  RankProcess& process = ranks_[static_cast<std::size_t>(rank)];
  process = started.process;
  const ExpectedKills& expected = arguments_.expected_kills;
  process.killed_on_purpose = std::find(expected.ranks.begin(), expected.ranks.end(), rank) != expected.ranks.end();
  process.may_be_killed = expected.all || expected.any;
  seats_[static_cast<std::size_t>(rank)].since = Clock::now();
  seats_[static_cast<std::size_t>(rank)].number = started_++;
  ++alive_count_;
  return true;
}

// In the place of one that has ended, if there is one.
void Job::add_stream(int descriptor, Stream::Kind kind, int rank, Sink& sink) {
  const std::string tag = arguments_.tag_lines ? fmt::format("[{}] ", rank) : "";
  for (Stream& each : streams_) {
    if (each.is_open()) continue;
    each.flush();
    std::destroy_at(&each);
    std::construct_at(&each, descriptor, kind, rank, tag, sink);
    return;
  }
  streams_.emplace_back(descriptor, kind, rank, tag, sink);
}

// ---- newcomers ----

// A process takes the seat of that rank, soon. False: none does.
bool Job::plan_respawn(int rank) {
  if (respawned_ + static_cast<int>(respawns_.size()) >= arguments_.respawns || alive_count_ == 0) return false;
  if (!rendezvous_->start_up_ended()) return false;
  const auto now = Clock::now();
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  const RankProcess& process = ranks_[static_cast<std::size_t>(rank)];
  const bool is_frail = seat.respawned > 0 && now - seat.since < steady_after && !process.excused();
  seat.pause = is_frail ? std::clamp<Duration>(2 * seat.pause, first_pause, longest_pause) : Duration(0);
  respawns_.push_back({rank, now + seat.pause});
  return true;
}

void Job::respawn_due(TimePoint now) {
  for (std::size_t i = 0; i < respawns_.size();) {
    if (now < respawns_[i].at) {
      ++i;
      continue;
    }
    const int rank = respawns_[i].rank;
    respawns_.erase(respawns_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string members = addresses();
    if (members.empty()) continue;  // nobody is there to join
    StartOrder order = order_for(rank);
    std::erase_if(order.environment, [](const auto& each) { return each.first == "UCFT_RENDEZVOUS"; });
    order.environment.emplace_back("UCFT_JOIN", members);
    order.input = -1;
    if (!start(rank, order)) continue;
    ++respawned_;
    ++seats_[static_cast<std::size_t>(rank)].respawned;
    say(fmt::format("rank {}: process {} wants its seat", rank, ranks_[static_cast<std::size_t>(rank)].pid));
  }
}

// Each member writes a line into UCFT_ADDRESS_FD when it has joined: its number, and its address.
void Job::read_addresses() {
  char bytes[4096];
  for (ssize_t count = 0; (count = read(address_[0], bytes, sizeof bytes)) > 0;)
    unread_address_.append(bytes, static_cast<std::size_t>(count));
  for (std::size_t end = 0; (end = unread_address_.find('\n')) != std::string::npos;) {
    const std::string line = unread_address_.substr(0, end);
    unread_address_.erase(0, end + 1);
    if (const std::size_t space = line.find(' '); space != std::string::npos)
      addresses_[std::atoi(line.c_str())] = line.substr(space + 1);
  }
}

bool Job::was_in_job(int rank) {
  read_addresses();
  return addresses_.contains(seats_[static_cast<std::size_t>(rank)].number);
}

// Of some members that live.
std::string Job::addresses() {
  read_addresses();
  std::map<int, std::string> living;
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto found = addresses_.find(seats_[rank].number);
    if (ranks_[rank].ended || found == addresses_.end()) continue;
    living.insert(*found);
    if (living.size() <= most_addresses) text += (text.empty() ? "" : ",") + found->second;
  }
  addresses_ = std::move(living);
  return text;
}

// It is rank 0's alone now: a process that writes there notices when rank 0 has ended.
void Job::leave_input() {
  if (context_.input > STDERR_FILENO) close(context_.input);
  leave_stdin();
}

void Job::say(const std::string& line) { errors_.append_line("ucft_run: " + line); }

// ---- the loop ----

std::vector<pollfd> Job::poll_entries(TimePoint now) const {
  std::vector<pollfd> entries;
  entries.push_back({signals_, POLLIN, 0});
  entries.push_back({guard_lost_ ? -1 : context_.guard_pipe, POLLIN, 0});
  for (const Sink* sink : {&output_, &errors_}) {
    entries.push_back({sink->is_empty() ? -1 : sink->descriptor(), POLLOUT, 0});
  }
  for (const Stream& stream : streams_) {
    entries.push_back({stream.wants_to_read() ? stream.descriptor() : -1, POLLIN, 0});
  }
  if (rendezvous_ != nullptr) rendezvous_->add_poll_entries(entries, now);
  return entries;
}

std::optional<Job::TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> next;
  if (rendezvous_ != nullptr) next = rendezvous_->next_deadline();
  const auto consider = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (const auto planned = plan_.next_deadline()) consider(*planned);
  if (arguments_.job_limit) consider(started_at_ + *arguments_.job_limit);
  if (kill_after_term_at_) consider(*kill_after_term_at_);
  for (const Respawn& each : respawns_) consider(each.at);
  return next;
}

int Job::step(std::optional<TimePoint> deadline) {
  const auto now = Clock::now();
  std::vector<pollfd> entries = poll_entries(now);
  timespec wait{};
  if (deadline) {
    const auto left = std::max(*deadline - now, Clock::duration::zero());
    wait.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    wait.tv_nsec = std::chrono::nanoseconds(left % std::chrono::seconds(1)).count();
  }
  if (ppoll(entries.data(), entries.size(), deadline ? &wait : nullptr, nullptr) < 0) return 0;  // EINTR

  const int streams_read = serve_output(entries);
  for (std::size_t i = streams_entry + streams_.size(); i < entries.size(); ++i) {
    if (entries[i].revents) rendezvous_->on_ready(entries[i].fd, entries[i].revents, now);
  }
  if (entries[signals_entry].revents) take_signals();
  if (entries[guard_entry].revents) guard_lost_ = end_now_ = true;
  return streams_read;
}

int Job::serve_output(const std::vector<pollfd>& entries) {
  if (entries[sinks_entry].revents) note_write_problem("stdout", output_.write_some());
  if (entries[sinks_entry + 1].revents) note_write_problem("stderr", errors_.write_some());
  int streams_read = 0;
  const std::size_t first = first_stream_++;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::size_t index = (first + i) % streams_.size();
    // An earlier stream may have filled the sink meanwhile.
    if (!entries[streams_entry + index].revents || !streams_[index].wants_to_read()) continue;
    if (streams_[index].read_some() == Stream::Reading::SinkGone)
      if (const RankProcess& writer = ranks_[static_cast<std::size_t>(streams_[index].rank())]; !writer.ended)
        kill(writer.pid, SIGPIPE);  // not what it has started, which may write nothing
    ++streams_read;
  }
  return streams_read;
}

// A reader that has left is its own business (`| head`); a full disk is not.
void Job::note_write_problem(const char* name, int problem) {
  if (problem == 0 || problem == EPIPE) return;
  say(fmt::format("cannot write to {}: {}", name, std::strerror(problem)));
  if (failure_exit_code_ == 0) failure_exit_code_ = exit_internal;
}

void Job::on_timers() {
  const auto now = Clock::now();
  if (rendezvous_ != nullptr) rendezvous_->on_timer(now);
  send_planned_signals(now);
  if (!respawns_.empty() && interrupted_by_ == 0) respawn_due(now);
  if (arguments_.job_limit && now >= started_at_ + *arguments_.job_limit) on_job_limit();
  if (kill_after_term_at_ && now >= *kill_after_term_at_) end_now_ = true;
}

void Job::on_job_limit() {
  std::string running;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].ended) continue;
    running += fmt::format("{}rank {} (pid {}{})", running.empty() ? "" : ", ", rank, ranks_[rank].pid,
                           ranks_[rank].is_stopped ? ", stopped" : "");
  }
  say(fmt::format("the job's limit of {} has passed; ending what still runs: {}",
                  bootstrap::duration_text(*arguments_.job_limit), running));
  timed_out_ = end_now_ = true;
}

// ---- signals, those we get and those we send ----

void Job::take_signals() {
  signalfd_siginfo information{};
  while (read(signals_, &information, sizeof information) == sizeof information) {
    const int signal = static_cast<int>(information.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
    } else {
      on_interrupt(signal);
    }
  }
}

void Job::on_interrupt(int signal) {
  const bool again = std::exchange(interrupted_by_, signal) != 0;
  if (again || alive_count_ == 0) {
    end_now_ = true;
    return;
  }
  say(fmt::format("{}: asking the ranks to end", strsignal(signal)));
  for (const RankProcess& process : ranks_) signal_rank(process, SIGTERM);
  kill_after_term_at_ = Clock::now() + term_grace;
}

// The whole group: with a shell around the program, both. The rank itself, if it has gone to another group.
void Job::signal_rank(const RankProcess& process, int signal) {
  if (process.ended) return;
  if (kill(-process.pid, signal) != 0) kill(process.pid, signal);
}

void Job::send_planned_signals(TimePoint now) {
  if (plan_.on_start_up(rendezvous_->start_up_begun(), rendezvous_->start_up_ended(), now)) {
    say(fmt::format("no rank has begun start-up within {}: --kill and --stop count from the start",
                    bootstrap::duration_text(arguments_.startup_limit)));
  }
  while (const auto planned = plan_.take_due(now)) send(*planned, now);
}

void Job::send(const PlannedSignal& planned, TimePoint now) {
  reap();  // a rank that has ended already cannot be killed
  RankProcess& process = ranks_[static_cast<std::size_t>(planned.rank)];
  if (process.ended) return say_not_sent(planned);
  const bool kills = planned.signal == SIGKILL;
  (kills ? process.killed_on_purpose : process.stopped_on_purpose) = true;
  (kills ? killed_ : stopped_).push_back(planned.rank);
  signal_rank(process, planned.signal);
  // The kernel is silent about a shell that is stopped inside vfork(): its child is stopped before exec().
  if (!kills) process.is_stopped = true;
  say(fmt::format("{} rank {} (pid {}), {}", kills ? "killed" : "stopped", planned.rank, process.pid,
                  plan_.moment(planned, now)));
  if (!kills) kill_stopped_if_alone();
}

void Job::say_not_sent(const PlannedSignal& planned) {
  const bool needs_hint = planned.origin == Origin::start_up_end && !rendezvous_->start_up_begun();
  say(fmt::format("rank {} was not {} {}: it had ended before{}", planned.rank,
                  planned.signal == SIGKILL ? "killed" : "stopped", SignalPlan::planned_moment(planned),
                  needs_hint ? ", without start-up (RANK@start+TIME counts from the start)" : ""));
}

void Job::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid <= 0) break;
    note_wait_status(pid, status);
  }
  kill_stopped_if_alone();
}

void Job::note_wait_status(pid_t pid, int status) {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(),
                                  [pid](const RankProcess& process) { return !process.ended && process.pid == pid; });
  if (found == ranks_.end()) return;  // an orphan of some rank
  if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
    found->is_stopped = WIFSTOPPED(status);
    return;
  }
  found->ended = true;
  found->wait_status = status;
  --alive_count_;
  note_end(static_cast<int>(found - ranks_.begin()));
}

// A rank that is about to kill or stop itself on purpose (ucft_perftest --kill) writes its number, four bytes, into the
// descriptor UCFT_PURPOSE_FD. The number is there before the rank's end is.
void Job::take_announcements() {
  std::int32_t rank = 0;
  while (read(purpose_[0], &rank, sizeof rank) == static_cast<ssize_t>(sizeof rank))
    if (rank >= 0 && static_cast<std::size_t>(rank) < ranks_.size())
      ranks_[static_cast<std::size_t>(rank)].killed_on_purpose = true;
}

void Job::note_end(int rank) {
  take_announcements();
  const RankProcess& process = ranks_[static_cast<std::size_t>(rank)];
  if (seats_[static_cast<std::size_t>(rank)].respawned == 0)
    rendezvous_->on_rank_exit(rank, process.pid, process.how_it_ended());
  const bool we_end_it = interrupted_by_ != 0 || end_now_;
  // A newcomer that finds nobody any more has had no part in the job: it came too late, or all that it knew have died.
  const bool has_joined = seats_[static_cast<std::size_t>(rank)].respawned == 0 || was_in_job(rank);
  if (!we_end_it && process.exit_code() != 0 && (plan_respawn(rank) || !has_joined)) {
    if (!process.excused()) say(fmt::format("rank {} (pid {}) failed: {}", rank, process.pid, process.how_it_ended()));
    return;
  }
  if (we_end_it || process.excused() || process.exit_code() == 0) return;
  say(fmt::format("rank {} (pid {}) failed: {}{}", rank, process.pid, process.how_it_ended(),
                  process.was_killed() ? fmt::format("; --expect-kill {} if that is meant", rank) : ""));
  if (failure_exit_code_ == 0) failure_exit_code_ = process.exit_code();
}

// No process is left that could wake them up.
void Job::kill_stopped_if_alone() {
  const bool others = std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& process) {
    return !process.ended && !((process.stopped_on_purpose || process.killed_on_purpose) && process.is_stopped);
  });
  if (others) return;
  for (const RankProcess& process : ranks_) signal_rank(process, SIGKILL);
}

// ---- end ----

void Job::end_descendants_of_job() {
  const bool all = end_descendants([this](pid_t pid, int status) { note_wait_status(pid, status); }, kill_limit);
  if (!all) say("some processes of the job could not be killed");
}

bool Job::may_go_on(std::optional<TimePoint> deadline) const {
  return !end_now_ && (!deadline || Clock::now() < *deadline);
}

// All processes that could write are dead: once the pipes have nothing to read, all has been read.
void Job::drain_output(std::optional<TimePoint> deadline) {
  bool all_read = false;
  while (!all_read && may_go_on(deadline)) {
    const bool all_watched = output_.has_room() && errors_.has_room();
    const int streams_read = step(all_watched ? Clock::now() : deadline);
    all_read = all_watched && streams_read == 0;
  }
  for (Stream& stream : streams_) stream.flush();
  output_.end_tagged_line();
  errors_.end_tagged_line();
}

void Job::write_out(std::optional<TimePoint> deadline) {
  while (!(output_.is_empty() && errors_.is_empty()) && may_go_on(deadline)) step(deadline);
}

void Job::say_what_was_not_sent() {
  for (const PlannedSignal& planned : plan_.take_rest()) say_not_sent(planned);
}

// --expect-kill any: who is killed does not matter, but somebody must survive.
void Job::require_survivor() {
  const ExpectedKills& expected = arguments_.expected_kills;
  const bool survived = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& each) { return !each.was_killed(); });
  if (survived || !expected.any || expected.all) return;
  say("no rank has survived");
  if (failure_exit_code_ == 0) failure_exit_code_ = 128 + SIGKILL;
}

int Job::exit_code() const {
  if (guard_lost_) return 128 + SIGKILL;
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  return timed_out_ ? exit_timeout : failure_exit_code_;
}

std::string Job::json_line(double seconds) const {
  nlohmann::ordered_json exits = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankProcess& process = ranks_[rank];
    nlohmann::ordered_json entry = {{"rank", rank}, {"pid", process.pid}};
    if (process.ended && WIFSIGNALED(process.wait_status)) entry["signal"] = WTERMSIG(process.wait_status);
    if (process.ended && WIFEXITED(process.wait_status)) entry["code"] = WEXITSTATUS(process.wait_status);
    exits.push_back(entry);
  }
  const nlohmann::ordered_json job = {
      {"ranks", arguments_.rank_count}, {"exit_code", exit_code()}, {"killed", ascending(killed_)},
      {"stopped", ascending(stopped_)}, {"exits", exits},           {"seconds", seconds}};
  return job.dump();
}

}  // namespace ucft::detail::run

// The program of a rank calls collectives, and renews its communicator now and then. It checks what it gets at once:
// it sees all processes of the job, and knows which of them are in which communicator.
#include <exception>
#include <random>
#include <utility>

#include "simulator/jobs/newcomers_job.hpp"
#include "simulator/jobs/newcomers_world.hpp"

namespace ucft::jobs {

class NewcomersJob::Rank {
 public:
  Rank(NewcomersJob& job, Member& self) : job_(job), self_(self) {}

  void run() {
    if (!enter()) return;
    while (true) {
      const std::int64_t steps = job_.plan_.steps;
      if (state_.step < steps) {
        take_step();
      } else if (!take_last_round()) {
        break;
      }
    }
    leave();
  }

 private:
  friend class NewcomersJob;

  bool enter() {
    ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
    params.failure_callback = &Rank::on_failure;
    params.failure_callback_arg = this;
    if (!self_.is_newcomer) params.oob = job_.gathering_.of(job_.oob_[at(self_.wanted)]);
    if (const ucft_status_t status = ucft_context_create(&params, &context_); status != UCFT_OK) {
      if (status != UCFT_ERR_STARTUP || !job_.start_is_hit_)
        job_.add("start-up", fmt::format("process {}: {}", self_.number, ucft_last_error()));
      throw Out();
    }
    char text[64] = "";
    if (ucft_context_address(context_, text, sizeof text) != UCFT_OK) job_.add("start-up", ucft_last_error());
    self_.address = text;
    self_.doing = "join";
    std::mt19937_64 random(job_.plan_.seed + at(self_.number));
    const bool polls = random() % 4 == 0;
    while (true) {
      const ucft_status_t status = ucft_comm_join(context_, polls ? 0 : random() % 300'000, &world_);
      if (status == UCFT_ERR_TIMED_OUT) {
        if (polls) job_.kernel_.wait(job_.kernel_.now() + millisecond);
        continue;
      }
      if (status == UCFT_ERR_STARTUP && self_.is_newcomer) return is_too_late();
      if (status != UCFT_OK) bad("join", status);
      break;
    }
    self_.joined_at = job_.kernel_.now();
    ucft_comm_rank(world_, &me_);
    ucft_comm_size(world_, &size_);
    if (!self_.is_newcomer) {
      job_.has_begun();
      record_ = &job_.records_[0];
      self_.has_state = true;
      return true;
    }
    const Ranks newcomers = newcomers_of(world_, size_);
    job_.note("{} has joined as rank {}, newcomers {}", self_.number, me_, newcomers);
    if (!contains(newcomers, me_))
      job_.add("join", fmt::format("process {} is rank {} and no newcomer", self_.number, me_));
    receive(newcomers);
    return true;
  }

  // On this program's thread, once for each process.
  static void on_failure(const ucft_failure_t* failure, void* arg) {
    Rank& self = *static_cast<Rank*>(arg);
    NewcomersJob& job = self.job_;
    if (Kernel::current() != Kernel::process().threads.front().get())
      job.add("callback", fmt::format("process {}: it comes on another thread", self.self_.number));
    for (const ucft_failure_t& each : self.reported_)
      if (each.rank == failure->rank && each.pid == failure->pid)
        job.add("callback", fmt::format("process {}: rank {} is reported twice", self.self_.number, each.rank));
    self.reported_.push_back(*failure);
    const Process* const its = job.kernel_.process_of(static_cast<int>(failure->pid));
    const Member* const whose = its == nullptr ? nullptr : job.member_of(*its);
    if (whose == nullptr)
      job.add("callback",
              fmt::format("process {}: rank {} is reported, of no process", self.self_.number, failure->rank));
    else if (its->life == Life::lives && !whose->may_be_out && !job.has_silence_)
      job.add("callback", fmt::format("process {}: {} is reported, and lives", self.self_.number, whose->number));
  }

  bool is_too_late() {
    job_.note("{} is too late: {}", self_.number, ucft_last_error());
    for (const Member& each : job_.members_) {
      const bool is_there = each.joined_at >= 0 && each.joined_at < self_.began_at &&
                            each.process->life == Life::lives && !each.leaves && !each.may_be_out && !each.is_over;
      if (is_there && !self_.may_be_out && !job_.has_silence_)
        job_.add("join", fmt::format("process {} is sent away while {} is there: {}", self_.number, each.number,
                                     ucft_last_error()));
    }
    self_.doing = "destroy";
    ucft_context_destroy(context_);
    return false;
  }

  static Ranks newcomers_of(ucft_comm_h comm, std::int32_t size) {
    Ranks ranks(at(size));
    auto count = static_cast<std::int32_t>(ranks.size());
    ucft_comm_newcomers(comm, ranks.data(), &count);
    ranks.resize(at(count));
    return ranks;
  }

  // The state of those that have it, from the first of them that lives.
  void receive(const Ranks& newcomers) {
    for (std::int32_t donor = 0; donor < size_; ++donor) {
      if (contains(newcomers, donor)) continue;
      std::int64_t words[] = {state_.step, state_.record, static_cast<std::int64_t>(state_.hash)};
      const bool has_it = record_ != nullptr;
      ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
      options.f = size_ - 1;
      begin("donate", donor);
      const ucft_status_t status = ucft_broadcast(world_, words, 3, UCFT_INT64, donor, &options, nullptr);
      if (status == UCFT_ERR_ROOT_FAILED) {
        if (has_it)
          ends("root failed");
        else
          ++calls_;
        continue;
      }
      if (status != UCFT_OK) bad("donate", status);
      if (has_it) ends("donated");
      state_ = {words[0], words[1], static_cast<std::uint64_t>(words[2])};
      if (!has_it) attach(newcomers);
      return;
    }
    job_.check_nobody_donates(self_);
    job_.note("{} has found no donor", self_.number);
    throw Out();
  }

  void attach(const Ranks& newcomers) {
    if (state_.record < 0 || at(static_cast<int>(state_.record)) >= job_.records_.size())
      throw std::logic_error("a donor's words make no sense");
    record_ = &job_.records_[at(static_cast<int>(state_.record))];
    if (record_->newcomers != newcomers)
      job_.add("newcomers", fmt::format("process {} takes {} for the newcomers, others {}", self_.number, newcomers,
                                        record_->newcomers));
    Member*& place = record_->members.at(at(me_));
    if (place != nullptr && place != &self_)
      job_.add("newcomers", fmt::format("processes {} and {} are both rank {} of {}", place->number, self_.number, me_,
                                        record_->number));
    place = &self_;
    self_.has_state = true;
    ++calls_;
  }

  // ---- steps ----
  void take_step() {
    std::mt19937_64 common(mixed(job_.plan_.seed, static_cast<std::uint64_t>(state_.step)));
    const auto below = [&](std::uint64_t end) { return common() % end; };
    const std::uint64_t pause = below(4) == 0 ? 1ull << below(25) : 0;
    if (pause > 0) {
      self_.doing = "computing";
      job_.kernel_.wait(job_.kernel_.now() + job_.kernel_.some(static_cast<Time>(pause)));
    }
    for (std::uint64_t i = 0, calls = 1 + below(3); i < calls; ++i) {
      const std::uint64_t kind = below(8), words[] = {common(), common()};
      switch (kind) {
        case 0:
        case 1: sum(words[0]); break;
        case 2: gather(words[0]); break;
        case 3: share(words[0]); break;
        case 4: barrier(); break;
        case 5: agree(); break;
        case 6: split(words[0]); break;
        default: ring(); break;
      }
    }
    const bool renews = below(job_.plan_.renews_each) == 0;
    constexpr std::int32_t asked[] = {-1, -1, 0, 1, 2};
    const std::int32_t newcomers = asked[below(5)];
    const std::uint64_t timeout_us = below(2) == 0 ? 0 : below(1ull << below(18));
    const std::uint64_t leaver = below(60);
    ++state_.step;
    if (job_.plan_.some_leave && leaver < at(size_) && static_cast<std::int32_t>(leaver) == me_) {
      self_.leaves = true;
      self_.extra = 1;
      job_.note("{} leaves early", self_.number);
      leave();
      self_.survives = false;
      throw Out();
    }
    const bool keeps = below(2) == 0;
    const bool grows = job_.plan_.grow_to > 0 && below(4) != 0;
    if (renews) renew(newcomers, timeout_us, grows, keeps, below(3) == 0);
    if (below(4) == 0) close_old();
    if (below(8) == 0 && lent_ != nullptr) give_back();
  }

  // False: nobody may come, or nobody comes.
  bool take_last_round() {
    if (state_.step >= job_.plan_.steps + last_rounds) {
      for (const Member& each : job_.members_) {
        const bool waits = each.is_newcomer && each.joined_at < 0 && each.process->life == Life::lives;
        if (waits && !each.may_be_out && !job_.has_silence_ && job_.is_calm_since(job_.kernel_.now() - longest_join) &&
            job_.kernel_.now() - each.began_at > longest_join)
          job_.add("join", fmt::format("process {} waits since {} ms, and has not joined", each.number,
                                       (job_.kernel_.now() - each.began_at) / millisecond));
      }
      return false;
    }
    std::uint64_t flags = job_.somebody_comes() ? 0 : 1;
    const Ranks missing = agree(&flags);
    const bool has_room = !missing.empty() || size_ < job_.plan_.grow_to;
    if (!has_room || flags == 1) return false;
    ++state_.step;
    renew(-1, static_cast<std::uint64_t>(last_round / microsecond), true);
    return true;
  }

  void close_old() {
    self_.doing = "comm_destroy";
    for (ucft_comm_h each : std::exchange(old_, {}))
      if (const ucft_status_t closed = ucft_comm_destroy(each); closed != UCFT_OK) bad("comm_destroy", closed);
  }

  // Maybe of an epoch that is over.
  void give_back() {
    self_.doing = "free";
    if (const ucft_status_t status = ucft_free(context_, std::exchange(lent_, nullptr)); status != UCFT_OK)
      bad("free", status);
  }

  void renew(std::int32_t newcomers, std::uint64_t timeout_us, bool grows, bool keeps = false, bool calls_old = false) {
    ucft_renew_options_t options = UCFT_RENEW_OPTIONS_INIT;
    if (grows) options.grow_to = job_.plan_.grow_to;
    options.newcomers = newcomers;
    options.timeout_us = timeout_us;
    ucft_comm_h renewed = UCFT_COMM_NULL;
    begin("renew", newcomers, static_cast<Time>(timeout_us) * microsecond);
    const ucft_status_t status = ucft_comm_renew(world_, &options, &renewed);
    if (status == UCFT_ERR_TOO_MANY_FAILURES) return ends("too many");
    if (status != UCFT_OK) bad("renew", status);
    const std::pair<int, std::uint64_t> key{record_->number, calls_};
    std::int32_t rank = -1, size = 0;
    ucft_comm_rank(renewed, &rank);
    ucft_comm_size(renewed, &size);
    if (rank != me_ || size < size_ || size > std::max(size_, options.grow_to))
      job_.add("renew",
               fmt::format("process {} was rank {} of {} and is {} of {}", self_.number, me_, size_, rank, size));
    const Ranks found = newcomers_of(renewed, size);
    ends(fmt::format("{}", found));
    Record*& made = job_.renewed_[key];
    if (made == nullptr) {
      made = &job_.records_.emplace_back(Record{static_cast<int>(job_.records_.size()), found, {}, record_->members});
      made->members.resize(at(size));
      for (std::int32_t each = size_; each < size; ++each)
        if (!contains(found, each)) job_.add("renew", fmt::format("rank {} is new and no newcomer's", each));
      for (const std::int32_t each : found) {
        Member*& place = made->members[at(each)];
        if (place != nullptr && place->process->life == Life::lives && !place->leaves && !place->may_be_out)
          job_.add("renew", fmt::format("rank {} is replaced, and process {} lives", each, place->number));
        if (place != nullptr && place->was_killed && !place->leaves) made->replaced.push_back(place);
        place = nullptr;
      }
      job_.note("record {}: {} renewed by {}, newcomers {}", made->number, key.first, self_.number, found);
    }
    if (made->newcomers != found || made->members.size() != at(size))
      job_.add("renew",
               fmt::format("process {} has the newcomers {}, others {}", self_.number, found, made->newcomers));
    if (contains(found, me_)) job_.add("renew", fmt::format("process {} is a newcomer itself", self_.number));
    for (const Member* const each : made->replaced)  // of the time before a newcomer hears nothing
      if (each->killed_at > self_.joined_at) to_be_reported_.push_back(each);
    if (calls_old) barrier();  // it goes on as it was
    size_ = size;
    record_ = made;
    state_.record = made->number;
    calls_ = 0;
    old_.push_back(std::exchange(world_, renewed));
    if (!keeps) close_old();
    if (!found.empty()) receive(found);
  }

  void leave() {
    for (const Member* const each : to_be_reported_)
      if (std::ranges::find(reported_, each->process->pid, &ucft_failure_t::pid) == reported_.end())
        job_.add("callback", fmt::format("process {}: the death of {} was not reported", self_.number, each->number));
    self_.leaves = true;
    self_.doing = "destroy";
    const Time begin = job_.kernel_.now();
    if (const ucft_status_t status = ucft_context_destroy(context_); status != UCFT_OK) bad("destroy", status);
    job_.note("{} has left", self_.number);
    const std::string late = judge::how_late(begin, job_.kernel_.now(), &job_.disturbed_, 2 * judge::longest_leave_ns);
    if (!late.empty()) job_.add("time", fmt::format("process {} leaves: {}", self_.number, late));
  }

  // ---- calls ----
  struct Asked {
    ucft_coll_options_t options = UCFT_COLL_OPTIONS_INIT;
    ucft_result_t result = UCFT_RESULT_INIT;
    Ranks missing = Ranks(64);
    Asked(std::int32_t size, const NewcomersJob& job) {
      options.f = job.plan_.seed % 3 == 0 ? -1 : size - 1;
      result.missing = missing.data();
      result.missing_capacity = 64;
    }
    Ranks take() {
      missing.resize(at(std::max(result.missing_count, 0)));
      return missing;
    }
  };

  std::uint64_t own_value(const Member& member, std::uint64_t word) const {
    return mixed(mixed(at(member.number), word), state_.hash);
  }

  // False: too many hosts have failed.
  bool is_done(const char* what, ucft_status_t status) {
    if (status == UCFT_ERR_TOO_MANY_FAILURES && job_.plan_.hosts.back() > 0) {
      ends("too many");
      return false;
    }
    if (status != UCFT_OK) bad(what, status);
    return true;
  }

  void sum(std::uint64_t word) {
    constexpr std::uint64_t counts[] = {1, 5, 100, 3000, 20000};
    const std::uint64_t count = counts[word % 5];
    std::vector<std::uint64_t> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = own_value(self_, word) * (i + 1);
    Asked asked(size_, job_);
    const void* given = UCFT_IN_PLACE;
    if (word % 7 < 3 && count <= 3000) {
      self_.doing = "alloc";
      void* memory = lent_;
      if (lent_ == nullptr)
        if (const ucft_status_t status = ucft_alloc(context_, 3000 * sizeof(std::uint64_t), &memory); status != UCFT_OK)
          bad("alloc", status);
      lent_ = static_cast<std::uint64_t*>(memory);
      std::ranges::copy(values, lent_);
      given = lent_;
    }
    begin("sum", static_cast<std::int64_t>(count));
    const ucft_status_t status =
        ucft_allreduce(world_, given, values.data(), count, UCFT_UINT64, UCFT_SUM, &asked.options, &asked.result);
    if (!is_done("sum", status)) return;
    const Ranks missing = asked.take();
    check_missing(missing, asked.result);
    std::uint64_t expected = 0;
    for (std::int32_t rank = 0; rank < size_; ++rank)
      if (const Member* const each = record_->members[at(rank)]; !contains(missing, rank) && each != nullptr)
        expected += own_value(*each, word);
    for (std::uint64_t i = 0; i < count; ++i)
      if (values[i] != expected * (i + 1)) {
        job_.add("values",
                 fmt::format("process {}: a wrong sum in call {} of {}", self_.number, calls_, record_->number));
        break;
      }
    ends(fmt::format("{} {}", missing, values[0]));
    state_.hash = mixed(state_.hash, values[0]);
  }

  void gather(std::uint64_t word) {
    const std::uint64_t count = 1 + word % 50;
    std::vector<std::uint64_t> own(count, own_value(self_, word)), all(count * at(size_), 77);
    Asked asked(size_, job_);
    begin("gather", static_cast<std::int64_t>(count));
    const ucft_status_t status =
        ucft_allgather(world_, own.data(), all.data(), count, UCFT_UINT64, &asked.options, &asked.result);
    if (!is_done("gather", status)) return;
    const Ranks missing = asked.take();
    check_missing(missing, asked.result);
    for (std::int32_t rank = 0; rank < size_; ++rank) {
      const Member* const each = record_->members[at(rank)];
      const bool is_missing = contains(missing, rank);
      if (!is_missing && each == nullptr) continue;  // said by check_missing()
      const std::uint64_t expected = is_missing ? 77 : own_value(*each, word);
      for (std::uint64_t i = 0; i < count; ++i)
        if (all[at(rank) * count + i] != expected) {
          job_.add("values", fmt::format("process {}: a wrong block of {} in call {} of {}", self_.number, rank, calls_,
                                         record_->number));
          break;
        }
    }
    ends(fmt::format("{}", missing));
    for (const std::uint64_t each : all) state_.hash = mixed(state_.hash, each);
  }

  void share(std::uint64_t word) {
    const auto root = static_cast<std::int32_t>(word % at(size_));
    std::uint64_t value = own_value(self_, word);
    Asked asked(size_, job_);
    begin("broadcast", root);
    const ucft_status_t status = ucft_broadcast(world_, &value, 1, UCFT_UINT64, root, &asked.options, &asked.result);
    const Member* const its = record_->members[at(root)];
    if (status == UCFT_ERR_ROOT_FAILED) {
      check_gone(root);
      return ends("root failed");
    }
    if (!is_done("broadcast", status)) return;
    if (its == nullptr || value != own_value(*its, word))
      job_.add("values", fmt::format("process {}: a wrong value of root {} in call {} of {}", self_.number, root,
                                     calls_, record_->number));
    ends("shared");
  }

  void barrier() {
    Asked asked(size_, job_);
    begin("barrier", 0);
    if (!is_done("barrier", ucft_barrier(world_, &asked.options, &asked.result))) return;
    const Ranks missing = asked.take();
    check_missing(missing, asked.result);
    ends(fmt::format("{}", missing));
    state_.hash = mixed(state_.hash, missing.size());
  }

  Ranks agree(std::uint64_t* flags = nullptr) {
    std::uint64_t own = ~std::uint64_t{0};
    std::uint64_t& word = flags == nullptr ? own : *flags;
    Asked asked(size_, job_);
    asked.options.f = size_ - 1;
    begin("agree", 0);
    if (const ucft_status_t status = ucft_agree(world_, &word, &asked.options, &asked.result); status != UCFT_OK)
      bad("agree", status);
    Ranks missing = asked.take();
    check_missing(missing, asked.result);
    ends(fmt::format("{} {}", missing, word));
    state_.hash = mixed(state_.hash, missing.size());
    return missing;
  }

  void split(std::uint64_t word) {
    const std::int32_t colour = word % 4 == 0 ? 0 : me_ % 2;
    ucft_comm_h part = UCFT_COMM_NULL;
    begin("split", 0);
    const ucft_status_t made = ucft_comm_split(world_, colour, 0, &part);
    if (!is_done("split", made)) return;
    ends("split");
    std::uint64_t seats = std::uint64_t{1} << me_;
    Asked asked(size_, job_);
    asked.options.f = -1;
    begin("part", colour);
    const ucft_status_t status =
        ucft_allreduce(part, UCFT_IN_PLACE, &seats, 1, UCFT_UINT64, UCFT_BOR, &asked.options, &asked.result);
    if (is_done("part", status)) {
      for (std::int32_t rank = 0; rank < size_; ++rank) {
        const bool should = word % 4 == 0 || rank % 2 == colour;
        if ((seats >> rank & 1) != 0 && !should)
          job_.add("members", fmt::format("process {}: rank {} is in its part", self_.number, rank));
        if ((seats >> rank & 1) == 0 && should) check_gone(rank);
      }
      ends(fmt::format("{}", seats));
    }
    self_.doing = "part_destroy";
    if (const ucft_status_t closed = ucft_comm_destroy(part); closed != UCFT_OK) bad("part_destroy", closed);
  }

  // Each even rank to the next one, and back.
  void ring() {
    const std::int32_t other = me_ ^ 1;
    if (other >= size_) {
      ++calls_;
      return;
    }
    const std::uint64_t sent = own_value(self_, calls_);
    std::uint64_t got = 0;
    const auto tag = static_cast<std::int32_t>(state_.step);
    begin("message", other);
    const auto send = [&] { return ucft_send(world_, &sent, 1, UCFT_UINT64, other, tag); };
    const auto receive = [&] { return ucft_recv(world_, &got, 1, UCFT_UINT64, other, tag, nullptr); };
    ucft_status_t status = me_ < other ? send() : receive();
    const bool is_half = status != UCFT_OK;
    if (status == UCFT_OK) status = me_ < other ? receive() : send();
    if (status == UCFT_ERR_PEER_FAILED) {
      check_gone(other);
    } else if (status != UCFT_OK) {
      bad("message", status);
    } else if (const Member* const its = record_->members[at(other)];
               its == nullptr || got != own_value(*its, calls_)) {
      job_.add("values", fmt::format("process {}: a wrong message of {} in call {} of {} {}", self_.number, other,
                                     calls_, record_->number, is_half));
    }
    ++calls_;
    self_.doing = "computing";
  }

  // ---- checks ----
  void begin(const char* what, std::int64_t detail, Time waits = 0) {
    self_.doing = fmt::format("{} {} (call {} of {})", what, detail, calls_, record_ == nullptr ? -1 : record_->number);
    job_.note("{} {}", self_.number, self_.doing);
    began_at_ = job_.kernel_.now();
    waits_ = waits;
  }

  void ends(const std::string& result) {
    job_.note("{} got {}", self_.number, result);
    const bool is_of_part = self_.doing.starts_with("part");
    const int colour = is_of_part ? me_ % 2 : 0;
    job_.calls_[{record_->number, calls_, colour}].push_back(
        {&self_, self_.doing, result, began_at_, job_.kernel_.now(), waits_});
    ++job_.result_.calls;
    ++calls_;
    self_.doing = "computing";
  }

  void check_gone(std::int32_t rank) {
    const Member* const its = record_->members[at(rank)];
    if (its == nullptr) return job_.note_unknown(*record_, rank);
    if (its->process->life == Life::lives && !its->leaves && !its->may_be_out && !(its->is_over && its->extra == 0))
      job_.add("completeness", fmt::format("process {}: rank {} is missing, and process {} lives ({})", self_.number,
                                           rank, its->number, self_.doing));
  }

  void check_missing(const Ranks& missing, const ucft_result_t& result) {
    for (const std::int32_t rank : missing) check_gone(rank);
    if (contains(missing, me_))
      job_.add("completeness", fmt::format("process {} is missing from its own {}", self_.number, self_.doing));
    if (result.contributors + missing.size() != at(size_))
      job_.add("completeness", fmt::format("process {}: {} contributors, and {} are missing", self_.number,
                                           result.contributors, missing.size()));
    for (std::int32_t rank = 0; rank < size_; ++rank)
      if (!contains(missing, rank) && record_->members[at(rank)] == nullptr)
        job_.add("completeness", fmt::format("process {}: rank {} contributes, and nobody is there ({})", self_.number,
                                             rank, self_.doing));
  }

  [[noreturn]] void bad(const char* what, ucft_status_t status) {
    const bool is_out = status == UCFT_ERR_EXCLUDED || status == UCFT_ERR_PARTITION;
    job_.note("{} {}: {}", self_.number, what, ucft_status_name(status));
    if (!is_out || !self_.may_be_out)
      job_.add("status", fmt::format("process {}: {}: {}: {}", self_.number, self_.doing, ucft_status_name(status),
                                     ucft_last_error()));
    self_.survives = false;
    self_.doing = "destroy";
    ucft_context_destroy(context_);
    throw Out();
  }

  NewcomersJob& job_;
  Member& self_;
  ucft_context_h context_ = UCFT_CONTEXT_NULL;
  ucft_comm_h world_ = UCFT_COMM_NULL;
  std::int32_t me_ = -1, size_ = 0;
  State state_;
  Record* record_ = nullptr;
  std::uint64_t calls_ = 0;  // on this record
  Time began_at_ = 0, waits_ = 0;
  std::vector<ucft_failure_t> reported_;
  std::vector<const Member*> to_be_reported_;
  std::vector<ucft_comm_h> old_;
  std::uint64_t* lent_ = nullptr;  // memory of ucft_alloc
};

void NewcomersJob::be(Member& self) {
  Rank rank{*this, self};
  try {
    rank.run();
    self.is_over = true;
    self.doing = "nothing";
  } catch (const Out&) {
    self.survives = false;
    self.is_over = true;
    self.extra = 1;  // somebody may take its seat
  } catch (const std::exception& error) {
    add("program", fmt::format("process {}: {}", self.number, error.what()));
  }
}

JobResult run_with_newcomers(const JobPlan& plan) { return NewcomersJob(plan).run(); }

}  // namespace ucft::jobs

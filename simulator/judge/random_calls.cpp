#include "simulator/judge/random_calls.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "simulator/judge/kinds.hpp"
#include "simulator/judge/random_checks.hpp"

namespace ucft::judge {

RandomCalls::Words::~Words() {
  if (lends_ != UCFT_CONTEXT_NULL) ucft_free(lends_, words_);
}

void RandomCalls::Words::fill(std::size_t count, std::uint64_t word, ucft_context_h lends) {
  if (words_ == nullptr) {
    count_ = count;
    void* memory = nullptr;
    if (lends != UCFT_CONTEXT_NULL) {
      const ucft_status_t status = ucft_alloc(lends, count * sizeof word, &memory);
      if (status != UCFT_ERR_NO_MEMORY) check(status, "alloc");
      if (memory != nullptr) lends_ = lends;
    }
    plain_.resize(memory == nullptr ? count : 0);
    words_ = memory == nullptr ? plain_.data() : static_cast<std::uint64_t*>(memory);
  }
  if (count != count_) wrong("{} words, and had {}", count, count_);
  std::fill_n(words_, count_, word);
}

void RandomCalls::Words::swap(Words& other) noexcept {
  plain_.swap(other.plain_);
  std::swap(lends_, other.lends_);
  std::swap(words_, other.words_);
  std::swap(count_, other.count_);
}

Drawn::Drawn(std::mt19937_64& random) {
  for (std::uint64_t& word : words) word = random();
}

RandomCalls::RandomCalls(std::uint64_t seed, ucft_context_h context, ucft_comm_h all, Recorder& recorder, Around around)
    : common_(seed), context_(context), recorder_(recorder), around_(std::move(around)) {
  Communicator& everybody = communicators_.emplace_back(Communicator{"all", all});
  check(ucft_comm_rank(all, &everybody.rank), "rank");
  check(ucft_comm_size(all, &everybody.size), "size");
  rank_ = everybody.rank;
  size_ = everybody.size;
  own_.seed(mixed(seed, static_cast<std::uint64_t>(rank_) + 1));
  most_communicators_ = mixed(seed, 0) % 8 == 0 ? 24 : 4;
  if (mixed(seed, 1) % 6 == 0) {
    longest_ = 100000;
    long_from_ = 92;
  }
}

void RandomCalls::run(int steps) {
  const Drawn all(common_);  // of the whole job: in some a rank leaves early
  one_leaves_early_ = all.below(0, 4) == 0;
  const int leaves_at = one_leaves_early_ && static_cast<std::int32_t>(all.below(1, 8)) == rank_ && size_ > 1
                            ? static_cast<int>(all.below(2, static_cast<std::uint64_t>(steps)))
                            : steps;
  for (int step = 0; step < leaves_at && !is_out_; ++step) {
    const Drawn drawn(common_);
    if (!take_step(drawn, step)) break;
    if (step == 0) around_.has_begun();
    if (own_() % 16 == 0) sleep_for_at_most(500);
    if (own_() % 500 == 0) around_.stop_for(std::chrono::milliseconds(20 + own_() % 200));
  }
  leave_job();
}

void RandomCalls::sleep_for_at_most(std::uint64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(own_() % microseconds));
}

bool RandomCalls::take_step(const Drawn& drawn, int step) {
  const auto which = static_cast<std::size_t>(drawn.below(0, communicators_.size()));
  Communicator& on = communicators_[which];
  const std::uint64_t what = drawn.below(1, most_communicators_ > 4 ? 130 : 100);  // in some jobs there are many
  if (what >= 94 && communicators_.size() < most_communicators_) {
    split(drawn, step, which);
  } else if (what >= 92 && which > 0) {
    close(which);
  } else if (on.is_there()) {
    if (what >= 84 && what < 86 && !one_leaves_early_)
      collect(drawn, step, on);
    else if (what >= 86 && what < 88)
      gossip(drawn, step, on);
    else if (what >= 84)
      messages(drawn, step, on);
    else if (what >= 60)
      several(drawn, step, on);
    else
      blocking(drawn, step, on);
  }
  return !is_out_;
}

// Now and then a rank calls with another count. Of quorums it may be that all others are late.
void RandomCalls::blocking(const Drawn& drawn, int step, Communicator& on) {
  const bool is_mistaken = drawn.below(0, 50) == 0 && on.size > 1;
  const bool is_mine = static_cast<std::int32_t>(drawn.below(3, static_cast<std::uint64_t>(on.size))) == on.rank;
  extra_ = is_mistaken && is_mine ? 1 : 0;
  Posted posted = prepare(drawn, step, on, true);
  extra_ = 0;
  posted.call.differs = is_mistaken && posted.call.kind != Kind::barrier && posted.call.kind != Kind::agree;
  if (posted.call.kind == Kind::quorum && own_() % 4 == 0) sleep_for_at_most(2000);
  posted.number = recorder_.begins(posted.call);
  const ucft_status_t status =
      posted.call.kind == Kind::quorum ? run_quorum(posted, on.handle) : call(posted, on.handle);
  end(posted, status);
}

// A rank without memory for its value has told nobody, and tries again.
ucft_status_t RandomCalls::run_quorum(Posted& posted, ucft_comm_h on) {
  check(init(posted, on), "init");
  ucft_status_t status;
  while ((status = post(posted.request)) == UCFT_ERR_NO_MEMORY) check(ucft_progress(context_), "progress");
  if (status == UCFT_OK) status = ucft_wait(posted.request, UINT64_MAX);
  if (!is_out(status)) check(ucft_request_result(posted.request, &posted.result), "result");
  check(ucft_request_free(posted.request), "free");
  return status;
}

// In flight together; sometimes twice, with other data in the same memory.
void RandomCalls::several(const Drawn& drawn, int step, Communicator& on) {
  std::mt19937_64 random(drawn.words[2]);
  std::vector<Posted> all(2 + drawn.below(3, 4));
  std::vector<Drawn> draws;
  for (Posted& each : all) {
    each = prepare(draws.emplace_back(random), step * 16 + static_cast<int>(&each - all.data()), on, false);
    check(init(each, on.handle), "init");
  }
  for (int posts = drawn.below(5, 4) == 0 ? 2 : 1; posts > 0 && !is_out_; --posts) {
    post_all(all);
    wait_for_all(all);
    for (std::size_t i = 0; i < all.size() && posts > 1 && !is_out_; ++i) fill(draws[i], -step * 16 - 1, all[i], on);
  }
  for (Posted& each : all) check(ucft_request_free(each.request), "free");
}

// As soon as its window has room.
ucft_status_t RandomCalls::post(ucft_request_h request) {
  ucft_status_t status;
  while ((status = ucft_post(request)) == UCFT_ERR_BUSY) check(ucft_progress(context_), "progress");
  return status;
}

void RandomCalls::post_all(std::vector<Posted>& all) {
  for (Posted& each : all) {
    each.number = recorder_.begins(each.call);
    const ucft_status_t status = post(each.request);
    each.is_in_flight = status == UCFT_OK;
    if (!each.is_in_flight) end(each, status);
  }
}

// In an order of this rank's own.
void RandomCalls::wait_for_all(std::vector<Posted>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::shuffle(order, own_);
  for (const std::size_t which : order) {
    Posted& each = all[which];
    if (!each.is_in_flight) continue;
    ucft_status_t status;
    if (own_() % 2 == 0)
      status = ucft_wait(each.request, UINT64_MAX);
    else
      while ((status = ucft_test(each.request)) == UCFT_INPROGRESS) {}
    if (status == UCFT_OK) check(ucft_request_result(each.request, &each.result), "result");
    end(each, status);
  }
}

// The new communicator has the same number on all ranks, also on those that are not in it.
void RandomCalls::split(const Drawn& drawn, int step, std::size_t which) {
  const Communicator on = communicators_[which];
  Communicator& made = communicators_.emplace_back();
  if (!on.is_there()) return;
  Call call;
  call.kind = drawn.below(4, 3) == 0 ? Kind::dup : Kind::split;
  call.communicator = on.name;
  call.rank = on.rank;
  call.size = on.size;
  if (call.kind == Kind::split) {
    call.colour = static_cast<std::int32_t>(mixed(drawn.words[5], static_cast<std::uint64_t>(on.rank)) % 3) -
                  static_cast<std::int32_t>(drawn.below(6, 2));
    call.key = static_cast<std::int32_t>(mixed(drawn.words[7], static_cast<std::uint64_t>(on.rank)) % 3);
  }
  const std::size_t number = recorder_.begins(call);
  call.status = call.kind == Kind::dup ? ucft_comm_dup(on.handle, &made.handle)
                                       : ucft_comm_split(on.handle, call.colour, call.key, &made.handle);
  if (call.status == UCFT_OK && made.is_there()) {
    check(ucft_comm_rank(made.handle, &made.rank), "rank");
    check(ucft_comm_size(made.handle, &made.size), "size");
    made.name =
        on.name + "/" + std::to_string(step) + (call.kind == Kind::dup ? "" : "." + std::to_string(call.colour));
    call.made = made.name;
    call.made_rank = made.rank;
    call.made_size = made.size;
  }
  recorder_.has_ended(number, call);
  is_out_ |= is_out(call.status);
}

void RandomCalls::close(std::size_t which) {
  const Communicator on = communicators_[which];
  communicators_.erase(communicators_.begin() + static_cast<std::ptrdiff_t>(which));
  if (!on.is_there()) return;
  Call call;
  call.kind = Kind::leave;
  call.communicator = on.name;
  const std::size_t number = recorder_.begins(call);
  call.status = ucft_comm_destroy(on.handle);
  recorder_.has_ended(number, call);
}

void RandomCalls::leave_job() {
  Call call;
  call.kind = Kind::destroy;
  const std::size_t number = recorder_.begins(call);
  call.status = ucft_context_destroy(context_);
  recorder_.has_ended(number, call);
  recorder_.is_over();
}

}  // namespace ucft::judge

#include "simulator/judge/random_calls.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include "simulator/judge/kinds.hpp"

namespace ucft::judge {

namespace {

// A call that can't fail has failed, or memory was written that no call may write.
template <class... Parts>
[[noreturn]] void wrong(fmt::format_string<Parts...> format, Parts&&... parts) {
  throw std::logic_error(fmt::format(format, std::forward<Parts>(parts)...));
}

void check(ucft_status_t status, const char* what) {
  if (status != UCFT_OK) wrong("{}: {}: {}", what, ucft_status_name(status), ucft_last_error());
}

constexpr std::uint64_t hole = 0x5a5a5a5a5a5a5a5aull;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15ull;
  return a ^ a >> 31;
}

template <class T>
struct Pair {
  T first, second;
};

// Small whole numbers: all sums of floats are exact.
void put(void* memory, std::uint64_t place, std::uint64_t number, ucft_dtype_t dtype) {
  const auto store = [&](auto value) {
    std::memcpy(static_cast<char*>(memory) + place * sizeof value, &value, sizeof value);
  };
  switch (dtype) {
    case UCFT_FLOAT: return store(static_cast<float>(number));
    case UCFT_DOUBLE: return store(static_cast<double>(number));
    case UCFT_COMPLEX_FLOAT: return store(Pair<float>{static_cast<float>(number), static_cast<float>(number % 7)});
    case UCFT_COMPLEX_DOUBLE: return store(Pair<double>{static_cast<double>(number), static_cast<double>(number % 7)});
    case UCFT_INT32_INT32:
      return store(Pair<std::int32_t>{static_cast<std::int32_t>(number % 5), static_cast<std::int32_t>(number)});
    case UCFT_BOOL: return store(static_cast<std::uint8_t>(number % 2));
    default: break;
  }
  switch (bytes_of(dtype)) {
    case 1: return store(static_cast<std::uint8_t>(number));
    case 2: return store(static_cast<std::uint16_t>(number));
    case 4: return store(static_cast<std::uint32_t>(number));
    default: return store(number);
  }
}

std::uint64_t sum_before(const std::vector<std::uint64_t>& counts, std::int32_t rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
}

ucft_op_t operator_for(ucft_dtype_t dtype, std::uint64_t number) {
  constexpr ucft_op_t of_reals[] = {UCFT_SUM, UCFT_SUM, UCFT_MIN, UCFT_MAX, UCFT_PROD, UCFT_AVG, UCFT_SUM_REPRODUCIBLE};
  constexpr ucft_op_t of_integers[] = {UCFT_SUM,  UCFT_SUM, UCFT_MIN,  UCFT_MAX, UCFT_PROD, UCFT_BAND,
                                       UCFT_BXOR, UCFT_BOR, UCFT_LAND, UCFT_LOR, UCFT_LXOR};
  constexpr ucft_op_t of_bool[] = {UCFT_LAND, UCFT_LOR, UCFT_LXOR, UCFT_BOR};
  switch (dtype) {
    case UCFT_FLOAT:
    case UCFT_DOUBLE: return of_reals[number % std::size(of_reals)];
    case UCFT_BOOL: return of_bool[number % std::size(of_bool)];
    case UCFT_COMPLEX_FLOAT:
    case UCFT_COMPLEX_DOUBLE: return UCFT_SUM;
    case UCFT_INT32_INT32: return number % 2 == 0 ? UCFT_MINLOC : UCFT_MAXLOC;
    default: return of_integers[number % std::size(of_integers)];
  }
}

}  // namespace

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
  const int leaves_at = all.below(0, 4) == 0 && static_cast<std::int32_t>(all.below(1, 8)) == rank_ && size_ > 1
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
    if (what >= 84)
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

// Each to one other, and from one other.
void RandomCalls::messages(const Drawn& drawn, int step, Communicator& on) {
  const auto size = static_cast<std::uint64_t>(on.size), me = static_cast<std::uint64_t>(on.rank),
             apart = drawn.below(2, size);
  constexpr std::uint64_t lengths[] = {0, 1, 5, 700, 4000};
  const auto length_of = [&](std::uint64_t from) { return lengths[mixed(drawn.words[3], from) % std::size(lengths)]; };
  Letter sent, received;
  Call &send = sent.call, &receive = received.call;
  for (Call* each : {&receive, &send}) {
    each->communicator = on.name;
    each->rank = on.rank;
    each->size = on.size;
    each->tag = static_cast<std::int32_t>(drawn.below(4, 3));
  }
  receive.kind = Kind::receive;
  receive.root = static_cast<std::int32_t>((me + size - apart) % size);
  send.kind = Kind::send;
  send.root = static_cast<std::int32_t>((me + apart) % size);
  std::vector<std::uint64_t> in(length_of(me)), out(length_of(static_cast<std::uint64_t>(receive.root)), hole);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = mixed(static_cast<std::uint64_t>(step) << 20 | i, me);
  send.given = {block_of(in.data(), in.size(), UCFT_UINT64)};
  check(ucft_send_init(on.handle, in.data(), in.size(), UCFT_UINT64, send.root, send.tag, &sent.request), "send");
  check(ucft_recv_init(on.handle, out.data(), out.size(), UCFT_UINT64, receive.root, receive.tag, &received.request),
        "recv");
  if (own_() % 3 != 0) {
    post(received);
    post(sent);
    take_sent(sent);
    take_received(received, out);
  } else {  // the message may be there before anybody receives it
    post(sent);
    if (own_() % 2 == 0) sleep_for_at_most(2000);
    post(received);
    take_received(received, out);
    take_sent(sent);
  }
  for (const Letter* each : {&sent, &received}) {
    check(ucft_request_free(each->request), "free");
    is_out_ |= is_out(each->call.status);
  }
}

void RandomCalls::post(Letter& letter) {
  letter.number = recorder_.begins(letter.call);
  letter.call.status = post(letter.request);
}

void RandomCalls::take_sent(Letter& letter) {
  if (letter.call.status == UCFT_OK) letter.call.status = ucft_wait(letter.request, UINT64_MAX);
  recorder_.has_ended(letter.number, letter.call);
}

void RandomCalls::take_received(Letter& letter, const std::vector<std::uint64_t>& words) {
  Call& call = letter.call;
  ucft_received_t how = UCFT_RECEIVED_INIT;
  how.source = call.root;
  if (call.status == UCFT_OK) {
    call.status = ucft_wait(letter.request, UINT64_MAX);
    check(ucft_request_received(letter.request, &how), "received");
  }
  call.source = how.source;
  call.source_tag = call.status == UCFT_OK ? how.tag : call.tag;
  call.got = {block_of(words.data(), call.status == UCFT_OK ? how.count : 0, UCFT_UINT64)};
  recorder_.has_ended(letter.number, call);
}

// ---- a collective ---------------------------------------------------------------------------------------------------

RandomCalls::Posted RandomCalls::prepare(const Drawn& drawn, int step, const Communicator& on, bool is_blocking) const {
  constexpr Kind kinds[] = {Kind::allreduce, Kind::allreduce,      Kind::reduce,  Kind::broadcast, Kind::allgather,
                            Kind::gather,    Kind::reduce_scatter, Kind::scatter, Kind::alltoall,  Kind::scan,
                            Kind::exscan,    Kind::barrier,        Kind::agree,   Kind::quorum};
  constexpr ucft_dtype_t types[] = {UCFT_UINT64, UCFT_DOUBLE,        UCFT_FLOAT,          UCFT_INT32,      UCFT_INT64,
                                    UCFT_INT8,   UCFT_UINT8,         UCFT_UINT16,         UCFT_INT16,      UCFT_UINT32,
                                    UCFT_BOOL,   UCFT_COMPLEX_FLOAT, UCFT_COMPLEX_DOUBLE, UCFT_INT32_INT32};
  Posted posted;
  Call& call = posted.call;
  call.kind = kinds[drawn.below(4, std::size(kinds) - (is_blocking ? 0 : 2))];
  call.communicator = on.name;
  call.rank = on.rank;
  call.size = on.size;
  const bool agrees = call.kind == Kind::agree;
  call.dtype = agrees ? UCFT_UINT64 : types[drawn.below(5, std::size(types))];
  if (combines(call.kind)) call.op = agrees ? UCFT_BAND : operator_for(call.dtype, drawn.words[6]);
  if (is_rooted(call.kind)) call.root = static_cast<std::int32_t>(drawn.below(7, static_cast<std::uint64_t>(on.size)));
  const std::uint64_t length = drawn.below(8, 100);
  posted.count = length < 4            ? 0
                 : length < 70         ? 1 + drawn.below(9, 8)
                 : length < 90         ? drawn.below(9, 300)
                 : length < long_from_ ? drawn.below(9, 3000)
                                       : drawn.below(9, longest_);
  const bool is_root = call.root == on.rank;
  posted.count += extra_;
  if (agrees) posted.count = 1;
  const bool is_quorum = call.kind == Kind::quorum;
  if (is_quorum) call.quorum = static_cast<std::int32_t>(1 + drawn.below(7, static_cast<std::uint64_t>(on.size)));
  posted.in_place = agrees || (drawn.below(10, 3) == 0 && call.kind != Kind::broadcast && call.kind != Kind::barrier &&
                               (!is_rooted(call.kind) || is_root));
  if ((gives_shares(call.kind) || gets_blocks(call.kind)) && drawn.below(11, 3) == 0 &&
      (call.kind != Kind::alltoall || !posted.in_place))
    for (std::int32_t rank = 0; rank < on.size; ++rank)
      posted.counts.push_back(posted.count * (mixed(drawn.words[11], static_cast<std::uint64_t>(rank)) % 3));
  if (call.kind == Kind::alltoall && !posted.counts.empty())
    for (std::int32_t other = 0; other < on.size; ++other) {  // what I give to it, and get from it
      const auto me = static_cast<std::uint64_t>(on.rank), they = static_cast<std::uint64_t>(other);
      posted.send_counts.push_back(posted.count * (mixed(drawn.words[11], me * 64 + they) % 3));
      posted.counts[they] = posted.count * (mixed(drawn.words[11], they * 64 + me) % 3);
    }
  call.uniform = agrees || (!is_quorum && drawn.below(12, 12) == 0);
  call.failure_info = static_cast<ucft_failure_info_t>(drawn.below(13, 5) == 0 ? 1 + drawn.below(13, 2) : 0);
  posted.options.uniform = call.uniform;
  posted.options.quorum = call.quorum;
  posted.options.deadline_ns = is_quorum ? static_cast<std::int64_t>(drawn.below(14, 4)) * 100000 : 0;
  posted.options.failure_info = call.failure_info;
  if (!is_rooted(call.kind))
    posted.options.first_root = static_cast<std::int32_t>(drawn.below(14, static_cast<std::uint64_t>(on.size)));
  if (call.kind == Kind::broadcast) {
    posted.options.tree = static_cast<ucft_tree_t>(drawn.below(14, 8));
    posted.options.correction = static_cast<ucft_correction_t>(drawn.below(15, 5));
  }
  posted.is_lent = drawn.below(15, 6) == 0;
  posted.missing.resize(static_cast<std::size_t>(on.size));
  posted.late.resize(static_cast<std::size_t>(on.size));
  posted.result.missing_capacity = posted.result.late_capacity = on.size;
  fill(drawn, step, posted, on);
  return posted;
}

namespace {

std::uint64_t words_of(std::uint64_t count, ucft_dtype_t dtype) { return count * bytes_of(dtype) / 8 + 2; }

}  // namespace

// Fills the memory: with the numbers that this rank gives, and with others where its result goes.
void RandomCalls::fill(const Drawn& drawn, int step, Posted& posted, const Communicator& on) const {
  Call& call = posted.call;
  const ucft_dtype_t dtype = call.dtype;
  const bool is_root = call.root == on.rank;
  const auto count_of = [&](const std::vector<std::uint64_t>& counts, std::int32_t rank) {
    return counts.empty() ? posted.count : counts[static_cast<std::size_t>(rank)];
  };
  const std::vector<std::uint64_t>& send_counts = call.kind == Kind::alltoall ? posted.send_counts : posted.counts;
  const bool gives = call.kind != Kind::barrier && (call.kind != Kind::broadcast || is_root) &&
                     (call.kind != Kind::scatter || is_root);
  std::vector<std::uint64_t> given;  // lengths
  if (gives && gives_shares(call.kind))
    for (std::int32_t rank = 0; rank < on.size; ++rank) given.push_back(count_of(send_counts, rank));
  else if (gives)
    given.push_back(gets_blocks(call.kind) ? count_of(posted.counts, on.rank) : posted.count);
  const std::uint64_t all_given = std::accumulate(given.begin(), given.end(), std::uint64_t{0});
  std::uint64_t all_got = 0;
  if (gets_blocks(call.kind))
    for (std::int32_t rank = 0; rank < on.size; ++rank) all_got += count_of(posted.counts, rank);
  else if (call.kind != Kind::barrier)
    all_got = call.kind == Kind::reduce_scatter && posted.in_place ? all_given
              : gives_shares(call.kind)                            ? count_of(posted.counts, on.rank)
                                                                   : posted.count;
  const ucft_context_h lends = posted.is_lent ? context_ : UCFT_CONTEXT_NULL;
  posted.in.fill(words_of(all_given, dtype), hole, lends);
  posted.out.fill(words_of(all_got, dtype), hole, lends);
  call.given.clear();
  for (std::uint64_t i = 0; i < all_given; ++i) {
    std::uint64_t number =
        mixed(drawn.words[15] + static_cast<std::uint64_t>(step) * 1000003 + i, static_cast<std::uint64_t>(rank_));
    number = call.op == UCFT_PROD ? 1 + number % 2 : number % 100;
    put(posted.in.data(), i, number, dtype);
  }
  const auto* const in = reinterpret_cast<const char*>(posted.in.data());
  std::uint64_t place = 0;
  for (const std::uint64_t each : given) {
    call.given.push_back(block_of(in + place * bytes_of(dtype), each, dtype));
    place += each;
  }
  // In place: the input stands where the result goes; of a scatter nothing is written at the root.
  const bool is_block = call.kind == Kind::allgather || call.kind == Kind::gather;
  if (posted.in_place && call.kind != Kind::scatter)
    std::memcpy(reinterpret_cast<char*>(posted.out.data()) +
                    (is_block ? posted.counts.empty() ? posted.count * static_cast<std::uint64_t>(on.rank)
                                                      : sum_before(posted.counts, on.rank)
                              : 0) *
                        bytes_of(dtype),
                in, all_given * bytes_of(dtype));
  if (call.kind == Kind::broadcast && is_root) std::memcpy(posted.out.data(), in, all_given * bytes_of(dtype));
  note_places(posted, call.before);
}

void RandomCalls::note_places(Posted& posted, std::vector<Block>& blocks) const {
  const Call& call = posted.call;
  const bool is_root = call.root == call.rank;
  blocks.clear();
  if (call.kind == Kind::barrier || (call.kind == Kind::scatter && posted.in_place)) return;
  if ((call.kind == Kind::reduce || call.kind == Kind::gather) && !is_root) return;
  std::vector<std::uint64_t> lengths;
  if (gets_blocks(call.kind))
    for (std::int32_t rank = 0; rank < call.size; ++rank)
      lengths.push_back(posted.counts.empty() ? posted.count : posted.counts[static_cast<std::size_t>(rank)]);
  else
    lengths.push_back(gives_shares(call.kind) && !posted.counts.empty()
                          ? posted.counts[static_cast<std::size_t>(call.rank)]
                          : posted.count);
  std::uint64_t place = 0;
  for (const std::uint64_t each : lengths) {
    blocks.push_back(
        block_of(reinterpret_cast<const char*>(posted.out.data()) + place * bytes_of(call.dtype), each, call.dtype));
    place += each;
  }
}

ucft_status_t RandomCalls::call(Posted& posted, ucft_comm_h on) const {
  const Call& c = posted.call;
  const void* const in = posted.in_place ? UCFT_IN_PLACE : posted.in.data();
  void* const out = posted.out.data();
  const std::uint64_t* const counts = posted.counts.empty() ? nullptr : posted.counts.data();
  const ucft_coll_options_t* const how = &posted.options;
  posted.result.missing = posted.missing.data();
  posted.result.late = posted.late.data();
  ucft_result_t* const result = &posted.result;
  switch (c.kind) {
    case Kind::allreduce: return ucft_allreduce(on, in, out, posted.count, c.dtype, c.op, how, result);
    case Kind::reduce: return ucft_reduce(on, in, out, posted.count, c.dtype, c.op, c.root, how, result);
    case Kind::broadcast: return ucft_broadcast(on, out, posted.count, c.dtype, c.root, how, result);
    case Kind::scan: return ucft_scan(on, in, out, posted.count, c.dtype, c.op, how, result);
    case Kind::exscan: return ucft_exscan(on, in, out, posted.count, c.dtype, c.op, how, result);
    case Kind::allgather:
      return counts == nullptr ? ucft_allgather(on, in, out, posted.count, c.dtype, how, result)
                               : ucft_allgatherv(on, in, out, counts, nullptr, c.dtype, how, result);
    case Kind::gather:
      return counts == nullptr ? ucft_gather(on, in, out, posted.count, c.dtype, c.root, how, result)
                               : ucft_gatherv(on, in, out, counts, nullptr, c.dtype, c.root, how, result);
    case Kind::reduce_scatter:
      return counts == nullptr ? ucft_reduce_scatter(on, in, out, posted.count, c.dtype, c.op, how, result)
                               : ucft_reduce_scatterv(on, in, out, counts, c.dtype, c.op, how, result);
    case Kind::scatter: {
      void* const to = posted.in_place ? const_cast<void*>(UCFT_IN_PLACE) : out;
      return counts == nullptr ? ucft_scatter(on, posted.in.data(), to, posted.count, c.dtype, c.root, how, result)
                               : ucft_scatterv(on, posted.in.data(), to, counts, c.dtype, c.root, how, result);
    }
    case Kind::alltoall:
      return counts == nullptr ? ucft_alltoall(on, in, out, posted.count, c.dtype, how, result)
                               : ucft_alltoallv(on, in, posted.send_counts.data(), nullptr, out, counts, nullptr,
                                                c.dtype, how, result);
    case Kind::agree: return ucft_agree(on, posted.out.data(), how, result);
    default: return ucft_barrier(on, how, result);
  }
}

ucft_status_t RandomCalls::init(Posted& posted, ucft_comm_h on) const {
  const Call& c = posted.call;
  const void* const in = posted.in_place ? UCFT_IN_PLACE : posted.in.data();
  void* const out = posted.out.data();
  const std::uint64_t* const counts = posted.counts.empty() ? nullptr : posted.counts.data();
  const ucft_coll_options_t* const how = &posted.options;
  const ucft_operator_t op = UCFT_OPERATOR_INIT(c.op);
  posted.result.missing = posted.missing.data();
  posted.result.late = posted.late.data();
  ucft_request_h* const to = &posted.request;
  switch (c.kind) {
    case Kind::quorum:
    case Kind::allreduce: return ucft_allreduce_init(on, in, out, posted.count, c.dtype, &op, how, to);
    case Kind::reduce: return ucft_reduce_init(on, in, out, posted.count, c.dtype, &op, c.root, how, to);
    case Kind::broadcast: return ucft_broadcast_init(on, out, posted.count, c.dtype, c.root, how, to);
    case Kind::scan: return ucft_scan_init(on, in, out, posted.count, c.dtype, &op, how, to);
    case Kind::exscan: return ucft_exscan_init(on, in, out, posted.count, c.dtype, &op, how, to);
    case Kind::allgather:
      return counts == nullptr ? ucft_allgather_init(on, in, out, posted.count, c.dtype, how, to)
                               : ucft_allgatherv_init(on, in, out, counts, nullptr, c.dtype, how, to);
    case Kind::gather:
      return counts == nullptr ? ucft_gather_init(on, in, out, posted.count, c.dtype, c.root, how, to)
                               : ucft_gatherv_init(on, in, out, counts, nullptr, c.dtype, c.root, how, to);
    case Kind::reduce_scatter:
      return counts == nullptr ? ucft_reduce_scatter_init(on, in, out, posted.count, c.dtype, &op, how, to)
                               : ucft_reduce_scatterv_init(on, in, out, counts, c.dtype, &op, how, to);
    case Kind::scatter: {
      void* const own = posted.in_place ? const_cast<void*>(UCFT_IN_PLACE) : out;
      return counts == nullptr ? ucft_scatter_init(on, posted.in.data(), own, posted.count, c.dtype, c.root, how, to)
                               : ucft_scatterv_init(on, posted.in.data(), own, counts, c.dtype, c.root, how, to);
    }
    case Kind::alltoall:
      return counts == nullptr ? ucft_alltoall_init(on, in, out, posted.count, c.dtype, how, to)
                               : ucft_alltoallv_init(on, in, posted.send_counts.data(), nullptr, out, counts, nullptr,
                                                     c.dtype, how, to);
    default: return ucft_barrier_init(on, how, to);
  }
}

void RandomCalls::end(Posted& posted, ucft_status_t status) {
  Call& call = posted.call;
  call.status = status;
  call.contributors = posted.result.contributors;
  call.missing.reset();
  if (status == UCFT_OK && posted.result.missing_count >= 0)
    call.missing.emplace(posted.missing.begin(), posted.missing.begin() + posted.result.missing_count);
  call.late.assign(posted.late.begin(), posted.late.begin() + posted.result.late_count);
  call.is_late = posted.result.is_late != 0;
  note_places(posted, call.got);
  if (posted.out.back() != hole || posted.in.back() != hole)
    wrong("{} {}: written behind its memory", name_of(call.kind), posted.number);
  recorder_.has_ended(posted.number, call);
  is_out_ |= is_out(status);
}

}  // namespace ucft::judge

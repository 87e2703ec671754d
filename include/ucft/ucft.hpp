// ucft: fault-tolerant collectives on UCX. A thin C++20 layer over ucft.h; header only, nothing of its own to link.
//
//   ucft::Context context;
//   ucft::Communicator all(context);
//   std::vector<double> values = ...;
//   const ucft::Result result = all.allreduce(values, UCFT_SUM);   // in place; a single double goes, too
//   if (result.ok()) ... // result.contributors of the ranks are in it, result.missing are not
//
// Exceptions:
//  - a constructor that cannot make its object throws Error;
//  - wrong use (UCFT_ERR_INVALID_PARAM, _CLOSED, _STATE, _THREAD, _FORKED, _UNSUPPORTED) throws Error;
//  - everything that a running job can meet (a peer's failure, a lack of memory, too many operations in flight) is a
//    status in the Result. A peer's failure never throws.
//
// All classes are move-only. A moved-from or closed object may be destroyed or assigned to; any other use of it throws
// UCFT_ERR_CLOSED. Threads, ownership of buffers, and what happens when a peer fails meanwhile: as ucft.h says.
#ifndef UCFT_HPP
#define UCFT_HPP

#if __cplusplus < 202002L
#error "ucft.hpp needs C++20: compile with -std=c++20"
#else

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ucft/elements.hpp"
#include "ucft/state.hpp"
#include "ucft/ucft.h"

namespace ucft {
inline namespace v0 {  // its own symbols: a program may link other code that has a namespace ucft

// A status with the sentence that names the culprit.
class Error : public std::runtime_error {
 public:
  Error(ucft_status_t status, const std::string& explanation)
      : std::runtime_error(std::string(ucft_status_name(status)) + ": " + explanation), status_(status) {}
  // Of the last failing call of this thread.
  explicit Error(ucft_status_t status) : Error(status, ucft_last_error()) {}

  ucft_status_t status() const noexcept { return status_; }

 private:
  ucft_status_t status_;
};

// The statuses that only a mistake in the calling program can cause.
constexpr bool is_wrong_use(ucft_status_t status) noexcept {
  return status == UCFT_ERR_INVALID_PARAM || status == UCFT_ERR_CLOSED || status == UCFT_ERR_STATE ||
         status == UCFT_ERR_THREAD || status == UCFT_ERR_FORKED || status == UCFT_ERR_UNSUPPORTED;
}

// ---- elements: their types are in elements.hpp ---------------------------------------------------------------------

namespace internal {

template <class Values>
concept Scalar = Element<std::remove_cvref_t<Values>>;
template <class Values>
concept Range = std::ranges::contiguous_range<Values> && std::ranges::sized_range<Values> &&
    Element<std::remove_cv_t<std::ranges::range_value_t<Values>>>;

template <class Values>
constexpr auto* data_of(Values& values) noexcept {
  if constexpr (Scalar<Values>)
    return &values;
  else
    return std::ranges::data(values);
}
template <class Values>
constexpr std::size_t size_of(const Values& values) noexcept {
  if constexpr (Scalar<Values>)
    return 1;
  else
    return std::ranges::size(values);
}
template <class Values>
using Pointed = std::remove_pointer_t<decltype(data_of(std::declval<std::remove_reference_t<Values>&>()))>;

}  // namespace internal

// A single variable, or anything that a std::span of elements can be made of: a vector, an array, a span.
template <class Values>
concept Elements = internal::Scalar<Values> || internal::Range<Values>;

// As Elements, and may be written to. Of a single variable: not a value that nobody could read afterwards.
template <class Values>
concept WritableElements = Elements<Values> && !std::is_const_v<internal::Pointed<Values>> &&
                           (internal::Range<Values> || std::is_lvalue_reference_v<Values>);

// Elements that are still there when a call has returned and its request is under way: no temporary.
template <class Values>
concept LastingElements = Elements<Values> &&
    (std::is_lvalue_reference_v<Values> || std::ranges::borrowed_range<Values>);

template <class Values>
using ElementOf = std::remove_cv_t<internal::Pointed<Values>>;

// Values that gossip takes here: float and double. The C interface has float16 and bfloat16, too.
template <class Values>
concept Reals = Elements<Values> && std::floating_point<ElementOf<Values>>;

// ---- accumulators --------------------------------------------------------------------------------------------------

// The exact sum of numbers: see ucft_accumulator_t. An element of collectives, too: all.allreduce(sum, UCFT_SUM).
//
//   ucft::Accumulator sum;
//   sum.add(values);
//   all.allreduce(sum, UCFT_SUM);
//   const double total = sum.value();
struct Accumulator : ucft_accumulator_t {
  Accumulator() : ucft_accumulator_t UCFT_ACCUMULATOR_INIT {}

  template <Reals Values>
  Accumulator& add(const Values& values) {
    return checked(
        ucft_accumulate(internal::data_of(values), internal::size_of(values), dtype_of<ElementOf<Values>>(), this));
  }
  // Of a and b, which have one length.
  template <Reals A, Reals B>
  requires std::same_as<ElementOf<A>, ElementOf<B>> Accumulator& add_products(const A& a, const B& b) {
    if (internal::size_of(a) != internal::size_of(b)) throw Error(UCFT_ERR_INVALID_PARAM, "a and b differ in size");
    return checked(ucft_accumulate_products(internal::data_of(a), internal::data_of(b), internal::size_of(a),
                                            dtype_of<ElementOf<A>>(), this));
  }
  template <Reals Values>
  Accumulator& add_squares(const Values& values) {
    return checked(ucft_accumulate_squares(internal::data_of(values), internal::size_of(values),
                                           dtype_of<ElementOf<Values>>(), this));
  }
  Accumulator& operator+=(const Accumulator& other) { return checked(ucft_accumulator_merge(this, &other)); }

  // Rounded once.
  template <std::floating_point Real = double>
  Real value() const {
    Real result = 0;
    check(ucft_accumulator_value(this, dtype_of<Real>(), &result));
    return result;
  }
  // The square root, rounded once: of squares, a norm.
  template <std::floating_point Real = double>
  Real root() const {
    Real result = 0;
    check(ucft_accumulator_root(this, dtype_of<Real>(), &result));
    return result;
  }

  // The same sum: one sum has one form.
  friend bool operator==(const Accumulator& a, const Accumulator& b) { return std::ranges::equal(a.words, b.words); }

 private:
  static void check(ucft_status_t status) {
    if (status != UCFT_OK) throw Error(status);
  }
  Accumulator& checked(ucft_status_t status) {
    check(status);
    return *this;
  }
};
static_assert(sizeof(Accumulator) == sizeof(ucft_accumulator_t));

// ---- arguments and results -----------------------------------------------------------------------------------------

// The fields of ucft_context_params_t and of ucft_coll_options_t, with their defaults.
struct ContextOptions : ucft_context_params_t {
  ContextOptions() : ucft_context_params_t UCFT_CONTEXT_PARAMS_INIT {}
};
struct Options : ucft_coll_options_t {
  Options() : ucft_coll_options_t UCFT_COLL_OPTIONS_INIT {}
};
struct GossipOptions : ucft_gossip_options_t {
  GossipOptions() : ucft_gossip_options_t UCFT_GOSSIP_OPTIONS_INIT {}
};

// How accurate a gossip operation was: the fields of ucft_gossip_result_t. The output is written only if ok().
struct GossipResult : ucft_gossip_result_t {
  GossipResult() : ucft_gossip_result_t UCFT_GOSSIP_RESULT_INIT {}
  ucft_status_t status = UCFT_INPROGRESS;

  bool ok() const noexcept { return status == UCFT_OK; }
};

// An operator of the library, such as UCFT_SUM, or a function of the caller with its argument. The argument must
// outlive the operation.
class Operator {
 public:
  Operator(ucft_op_t op) : operator_ UCFT_OPERATOR_INIT(op) {}  // implicit: allreduce(values, UCFT_SUM)
  explicit Operator(ucft_user_function_t function, void* arg = nullptr) : operator_ UCFT_OPERATOR_INIT(UCFT_USER) {
    operator_.function = function;
    operator_.arg = arg;
  }
  bool is_user() const noexcept { return operator_.op == UCFT_USER; }
  const ucft_operator_t& get() const noexcept { return operator_; }

 private:
  ucft_operator_t operator_;
};

// Ranks, ascending: a range, and a vector where one is wanted. A few ranks are kept inside it, so a result that names
// them costs no allocation.
class RankList {
 public:
  RankList() = default;
  explicit RankList(std::span<const std::int32_t> ranks) { assign(ranks); }
  void assign(std::span<const std::int32_t> ranks) {
    many_.clear();
    if (ranks.size() > few) return many_.assign(ranks.begin(), ranks.end());
    few_count_ = ranks.size();
    for (std::size_t i = 0; i < few_count_; ++i) few_[i] = ranks[i];
  }

  const std::int32_t* data() const noexcept { return many_.empty() ? few_ : many_.data(); }
  std::size_t size() const noexcept { return many_.empty() ? few_count_ : many_.size(); }
  bool empty() const noexcept { return size() == 0; }
  const std::int32_t* begin() const noexcept { return data(); }
  const std::int32_t* end() const noexcept { return data() + size(); }
  std::int32_t operator[](std::size_t place) const noexcept { return data()[place]; }

  operator std::vector<std::int32_t>() const { return {begin(), end()}; }  // implicit: missing = result.missing
  friend bool operator==(const RankList& one, const RankList& other) { return std::ranges::equal(one, other); }
  friend bool operator==(const RankList& one, std::span<const std::int32_t> other) {
    return std::ranges::equal(one, other);
  }

 private:
  static constexpr std::size_t few = 4;

  std::int32_t few_[few] = {};
  std::size_t few_count_ = 0;
  std::vector<std::int32_t> many_;  // else
};

// The result of an operation. Outputs are written only if ok().
struct Result {
  ucft_status_t status = UCFT_INPROGRESS;
  std::uint32_t contributors = 0;  // ranks whose value is in the result; 0: not known here
  std::uint32_t attempts = 0;      // ballots that this rank took part in: see ucft_result_t
  // False: `missing` says nothing, though it is empty: of a broadcast or scatter; of a reduce or gather off the root;
  // with failure_info COUNT or BIT, but not of blocks and scans; with more than 64 failures, where ranks send messages.
  bool missing_known = false;
  RankList missing;  // ranks of the communicator that did not contribute, ascending
  // Of options.quorum: ranks that live, and whose values came too late, ascending; this one is among them.
  RankList late;
  bool is_late = false;

  bool ok() const noexcept { return status == UCFT_OK; }
};

// Of a receive. source: of UCFT_ERR_PEER_FAILED the rank that is dead.
struct Received {
  ucft_status_t status = UCFT_INPROGRESS;
  std::int32_t source = -1, tag = 0;
  std::uint64_t count = 0;  // elements

  bool ok() const noexcept { return status == UCFT_OK; }
};

// A rank of a communicator as it is seen from another one: see ucft_rank_sight_t.
struct RankSight {
  ucft_rank_state_t state = UCFT_RANK_UNKNOWN;
  ucft_collective_t last = UCFT_COLLECTIVE_UNKNOWN;
  std::int64_t posted = 0, finished = -1;
  std::int64_t posted_at_ns = 0, heard_at_ns = 0;
  std::int64_t pid = 0;
  std::vector<std::int32_t> waits_for;  // ranks of the communicator, ascending
  std::string text;
};

namespace internal {

inline void throw_if_wrong_use(ucft_status_t status) {
  if (is_wrong_use(status)) throw Error(status);
}

inline void throw_unless_ok(ucft_status_t status) {
  if (status != UCFT_OK) throw Error(status);
}

// ucft_comm_look, with room for all that there is.
inline std::vector<RankSight> look(ucft_comm_h comm, std::int32_t size) {
  constexpr std::size_t most_text = 1024;
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::int32_t> awaited(ranks * ranks);
  std::vector<char> texts(ranks * most_text);
  std::vector<ucft_rank_sight_t> sights(ranks, ucft_rank_sight_t UCFT_RANK_SIGHT_INIT);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    sights[rank].waits_for = awaited.data() + rank * ranks;
    sights[rank].waits_for_capacity = size;
    sights[rank].text = texts.data() + rank * most_text;
    sights[rank].text_bytes = most_text;
  }
  throw_unless_ok(ucft_comm_look(comm, sights.data(), &size));
  std::vector<RankSight> seen;
  for (const ucft_rank_sight_t& each : sights)
    seen.push_back({each.state,
                    each.last,
                    each.posted,
                    each.finished,
                    each.posted_at_ns,
                    each.heard_at_ns,
                    each.pid,
                    {each.waits_for, each.waits_for + each.waits_for_count},
                    each.text});
  return seen;
}

// The C structure for one result, with room for all ranks in `missing` and in `late`. It is kept and used again, so an
// operation allocates nothing.
class ResultReader {
 public:
  ResultReader() = default;
  explicit ResultReader(std::int32_t rank_count)
      : missing_(static_cast<std::size_t>(rank_count)), late_(static_cast<std::size_t>(rank_count)) {}

  // Reset, to hand to a C call.
  ucft_result_t* fresh() noexcept {
    raw_ = UCFT_RESULT_INIT;
    raw_.missing = missing_.data();
    raw_.missing_capacity = static_cast<std::int32_t>(missing_.size());
    raw_.late = late_.data();
    raw_.late_capacity = static_cast<std::int32_t>(late_.size());
    return &raw_;
  }

  // The status that the C call wrote into it.
  ucft_status_t status() const noexcept { return raw_.status; }

  Result result(ucft_status_t final_status) const {
    Result result;
    result.status = final_status;
    result.contributors = raw_.contributors;
    result.attempts = raw_.attempts;
    result.missing_known = raw_.missing_count >= 0;
    if (raw_.missing_count > 0) result.missing.assign({missing_.data(), static_cast<std::size_t>(raw_.missing_count)});
    if (raw_.late_count > 0) result.late.assign({late_.data(), static_cast<std::size_t>(raw_.late_count)});
    result.is_late = raw_.is_late != 0;
    return result;
  }

 private:
  std::vector<std::int32_t> missing_, late_;
  ucft_result_t raw_ = UCFT_RESULT_INIT;
};

// A handle that closes itself once.
template <class Handle>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) noexcept : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    handle_ = std::exchange(other.handle_, Handle{});
    return *this;
  }
  Handle get() const noexcept { return handle_; }
  Handle release() noexcept { return std::exchange(handle_, Handle{}); }

 private:
  Handle handle_{};
};

inline constexpr std::uint64_t without_limit = std::numeric_limits<std::uint64_t>::max();

}  // namespace internal

// ---- context -------------------------------------------------------------------------------------------------------

// This rank's part in the job. It must outlive its communicators and requests.
class Context {
 public:
  // Collective over all ranks of the job. Throws Error, which names a rank that died or did not arrive.
  explicit Context(const ContextOptions& options = {}) {
    ucft_context_h handle = UCFT_CONTEXT_NULL;
    internal::throw_unless_ok(ucft_context_create(&options, &handle));
    handle_ = internal::Owned<ucft_context_h>(handle);
  }
  Context(Context&&) noexcept = default;
  Context& operator=(Context&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::move(other.handle_);
    }
    return *this;
  }
  ~Context() { close(); }

  std::int32_t rank() const {
    std::int32_t rank = -1;
    internal::throw_unless_ok(ucft_context_rank(get(), &rank));
    return rank;
  }
  std::int32_t size() const {
    std::int32_t size = 0;
    internal::throw_unless_ok(ucft_context_size(get(), &size));
    return size;
  }

  // Lets pending operations advance; calls that wait do this themselves.
  ucft_status_t progress() {
    const ucft_status_t status = ucft_progress(get());
    internal::throw_if_wrong_use(status);
    return status;
  }

  // Memory that peers of the same host read without a staging copy: 64-byte aligned, not initialised. It belongs to
  // the context: free it with deallocate(), or it goes with the context. Throws Error if there is none.
  template <Element T>
  std::span<T> allocate(std::size_t count) {
    void* memory = nullptr;
    internal::throw_unless_ok(ucft_alloc(get(), count * sizeof(T), &memory));
    return {static_cast<T*>(memory), count};
  }
  template <Element T>
  void deallocate(std::span<T> memory) {
    internal::throw_unless_ok(ucft_free(get(), memory.data()));
  }

  // Leaves the job, with all communicators that are left. UCFT_ERR_CLOSED if that was done before.
  ucft_status_t close() noexcept {
    return get() == UCFT_CONTEXT_NULL ? UCFT_ERR_CLOSED : ucft_context_destroy(handle_.release());
  }

  // The C handle, which stays owned by this object.
  ucft_context_h get() const noexcept { return handle_.get(); }

 private:
  internal::Owned<ucft_context_h> handle_;
};

// ---- requests ------------------------------------------------------------------------------------------------------

// Holds a nonblocking or persistent operation. The buffers belong to the operation while it is in progress. The
// destructor waits until it is complete.
class Request {
 public:
  Request() = default;  // none; for a variable that is assigned to later
  Request(ucft_request_h handle, std::int32_t rank_count) : handle_(handle), reader_(rank_count) {}
  Request(Request&& other) noexcept = default;
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::move(other.handle_);
      reader_ = std::move(other.reader_);
      post_status_ = other.post_status_;
    }
    return *this;
  }
  ~Request() { close(); }

  // Starts it, again if you like. UCFT_ERR_BUSY: too many are in flight; let them progress, then post again. Until that
  // has succeeded, test() and wait() say UCFT_ERR_BUSY too.
  ucft_status_t post() {
    post_status_ = ucft_post(get());
    internal::throw_if_wrong_use(post_status_);
    return post_status_;
  }

  // UCFT_INPROGRESS, or the operation's status.
  ucft_status_t test() {
    if (post_status_ != UCFT_OK) return post_status_;
    const ucft_status_t status = ucft_test(get());
    internal::throw_if_wrong_use(status);
    return status;
  }

  // Waits until it is complete. No failure of a peer makes that longer than the detector needs.
  Result wait() { return wait_us(internal::without_limit); }
  // Status UCFT_ERR_TIMED_OUT: it is still in progress.
  Result wait(std::chrono::microseconds limit) {
    return wait_us(limit.count() > 0 ? static_cast<std::uint64_t>(limit.count()) : 0);
  }

  // Of the last completed post.
  Result result() {
    const ucft_status_t status = ucft_request_result(get(), reader_.fresh());
    internal::throw_if_wrong_use(status);
    return reader_.result(reader_.status());
  }

  // Of a receive that is complete.
  Received received() {
    ucft_received_t got = UCFT_RECEIVED_INIT;
    internal::throw_if_wrong_use(ucft_request_received(get(), &got));
    return {this->result().status, got.source, got.tag, got.count};
  }

  // Of a gossip operation: this rank's estimate of the aggregate now, into `values`, and the error to be expected.
  template <WritableElements Values>
  double estimate(Values&& values) {
    double error = 0;
    internal::throw_unless_ok(ucft_gossip_estimate(get(), internal::data_of(values), &error));
    return error;
  }
  // How many ranks' data are in the estimate that was read last.
  std::uint32_t contributors() {
    std::uint32_t contributors = 0;
    internal::throw_unless_ok(ucft_gossip_contributors(get(), &contributors));
    return contributors;
  }
  // Of the last completed post of a gossip operation.
  GossipResult gossip_result() {
    GossipResult result;
    internal::throw_if_wrong_use(ucft_gossip_result(get(), &result));
    result.status = this->result().status;
    return result;
  }

  // Waits until it is complete and frees it. UCFT_ERR_CLOSED if that was done before.
  ucft_status_t close() noexcept {
    if (get() == UCFT_REQUEST_NULL) return UCFT_ERR_CLOSED;
    ucft_status_t status = ucft_request_free(get());
    if (status == UCFT_ERR_STATE) {  // in progress
      ucft_wait(get(), internal::without_limit);
      status = ucft_request_free(get());
    }
    handle_.release();
    return status;
  }

  ucft_request_h get() const noexcept { return handle_.get(); }

 private:
  Result wait_us(std::uint64_t limit_us) {
    Result unfinished;
    unfinished.status = post_status_ != UCFT_OK ? post_status_ : ucft_wait(get(), limit_us);
    internal::throw_if_wrong_use(unfinished.status);
    const bool complete = post_status_ == UCFT_OK && unfinished.status != UCFT_ERR_TIMED_OUT;
    return complete ? result() : unfinished;
  }

  internal::Owned<ucft_request_h> handle_;
  internal::ResultReader reader_;
  ucft_status_t post_status_ = UCFT_OK;  // of a post that did not start anything, else UCFT_OK
};

// ---- communicators -------------------------------------------------------------------------------------------------

// An ordered set of ranks. All of them call the same operations in the same order. Sizes of the ranges are counts of
// elements; they and all arguments must be the same on all ranks.
class Communicator {
 public:
  // All ranks of the context. Local: the n-th one on each rank is the same communicator.
  explicit Communicator(Context& context) {
    ucft_comm_h handle = UCFT_COMM_NULL;
    internal::throw_unless_ok(ucft_comm_create(context.get(), &handle));
    adopt(handle);
  }
  Communicator(Communicator&&) noexcept = default;
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::move(other.handle_);
      rank_ = other.rank_;
      size_ = other.size_;
      reader_ = std::move(other.reader_);
    }
    return *this;
  }
  ~Communicator() { close(); }  // waits for no other rank; all requests must be complete

  // Collective. The survivors in the same order; failures are counted anew in it. Throws Error.
  Communicator dup() {
    ucft_comm_h handle = UCFT_COMM_NULL;
    internal::throw_unless_ok(ucft_comm_dup(get(), &handle));
    return Communicator(handle);
  }

  // Collective. One communicator per colour, ranks ordered by (key, old rank). With colour < 0 the result is null().
  // Throws Error.
  Communicator split(std::int32_t colour, std::int32_t key = 0) {
    ucft_comm_h handle = UCFT_COMM_NULL;
    internal::throw_unless_ok(ucft_comm_split(get(), colour, key, &handle));
    return Communicator(handle);
  }

  // Collective over the survivors. The same seats, with newcomers in those of ranks that have failed or left, if any
  // are ready: waits for so many (-1: for all free seats), as long as `timeout`. With `grow_to` newcomers that find
  // no seat free sit behind the last rank, up to so many ranks (at most 4096). -1 waits for these, too. The first
  // call that asks for more seats begins to connect with them: without a timeout a later call takes them in. All
  // arguments must be the same on all ranks. Throws Error.
  Communicator renew(std::int32_t newcomers = -1, std::chrono::microseconds timeout = {}, std::int32_t grow_to = 0) {
    ucft_renew_options_t options = UCFT_RENEW_OPTIONS_INIT;
    options.newcomers = newcomers;
    options.grow_to = grow_to;
    options.timeout_us = static_cast<std::uint64_t>(timeout.count());
    ucft_comm_h handle = UCFT_COMM_NULL;
    internal::throw_unless_ok(ucft_comm_renew(get(), &options, &handle));
    return Communicator(handle);
  }
  // A newcomer's way in: its first communicator, which survivors renew with it. Of a context that has started in the
  // usual way, one of all its ranks. Throws Error, also when the time is over.
  static Communicator join(Context& context, std::chrono::microseconds timeout = std::chrono::minutes(1)) {
    ucft_comm_h handle = UCFT_COMM_NULL;
    internal::throw_unless_ok(ucft_comm_join(context.get(), static_cast<std::uint64_t>(timeout.count()), &handle));
    return Communicator(handle);
  }
  // The ranks that have come with the renewal that made this communicator, ascending.
  std::vector<std::int32_t> newcomers() const {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(size_));
    std::int32_t count = size_;
    internal::throw_unless_ok(ucft_comm_newcomers(get(), ranks.data(), &count));
    ranks.resize(static_cast<std::size_t>(count));
    return ranks;
  }

  // Collective, after a renewal: gives the newcomers the state of the lowest rank that is none. If that dies, the next
  // one goes on. A newcomer's `state` is replaced; that of other ranks is only read. Without newcomers it does nothing.
  // version: of the state's format. Throws Error and leaves `state` as it was. UCFT_ERR_MISMATCH: the donor has another
  // version. UCFT_ERR_TRANSPORT: the checksum is wrong. UCFT_ERR_ROOT_FAILED: no rank that has the state lives.
  void share_state(std::vector<std::byte>& state, std::uint64_t version = 0) {
    const std::vector<std::int32_t> new_ranks = newcomers();
    if (new_ranks.empty()) return;
    internal::StateHeader header;
    const bool is_new = std::ranges::binary_search(new_ranks, rank_);
    internal::StateSharing sharing{rank_, size_, new_ranks, is_new ? std::span<std::byte>() : state, version, header};
    std::vector<std::byte> got;
    const auto broadcast = [&](void* data, std::uint64_t count, ucft_dtype_t dtype, std::int32_t root) {
      const ucft_status_t status = ucft_broadcast(get(), data, count, dtype, root, nullptr, reader_.fresh());
      if (status != UCFT_ERR_ROOT_FAILED) internal::throw_unless_ok(status);
      return status == UCFT_OK;
    };
    const auto room = [&](std::uint64_t bytes) {
      got.reserve(bytes);
      internal::expect_writes(got.data(), bytes);
      got.resize(bytes);
      return got.data();
    };
    const std::int32_t donor = sharing.run(broadcast, room, internal::checksum_of);
    const internal::StateVerdict verdict = sharing.judge(donor);
    if (verdict.status != UCFT_OK) throw Error(verdict.status, verdict.explanation);
    if (is_new) state = std::move(got);
  }

  bool null() const noexcept { return get() == UCFT_COMM_NULL; }
  std::int32_t rank() const noexcept { return rank_; }
  std::int32_t size() const noexcept { return size_; }

  // Ranks known here to have failed, ascending. A local view: it grows, and may differ between ranks for a moment.
  std::vector<std::int32_t> failed() const {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(size_));
    std::int32_t count = size_;
    internal::throw_unless_ok(ucft_comm_failed(get(), ranks.data(), &count));
    ranks.resize(static_cast<std::size_t>(count));
    return ranks;
  }

  // Which rank is late: the last operation that each has posted, which ranks it waits for, its state. Any thread may
  // call it, also while another one is inside.
  std::vector<RankSight> look() const { return internal::look(get(), size_); }

  // ---- blocking ----

  // Every survivor gets the same combination of send over the ranks in recv.
  template <Elements Send, WritableElements Receive>
  Result allreduce(const Send& send, Receive&& recv, Operator op, const Options& options = {}) {
    return allreduce_from(input(send, recv), output(recv), op, options);
  }
  // In place.
  template <WritableElements Values>
  Result allreduce(Values&& values, Operator op, const Options& options = {}) {
    return allreduce_from(UCFT_IN_PLACE, output(values), op, options);
  }

  // recv matters at the root only; elsewhere it may be empty. If the root dies: UCFT_ERR_ROOT_FAILED on ranks that
  // know of it by then, UCFT_OK on the others.
  template <Elements Send, WritableElements Receive>
  Result reduce(const Send& send, Receive&& recv, Operator op, std::int32_t root, const Options& options = {}) {
    const Arguments arguments = reduce_arguments(send, recv, root);
    if (op.is_user()) return run(reduce_request(arguments, op, root, options));
    return finish(ucft_reduce(get(), arguments.send, arguments.recv, arguments.count, arguments.dtype, op.get().op,
                              root, &options, reader_.fresh()));
  }

  // Each survivor gets its share of the combination in recv: send holds size() times as many.
  template <Elements Send, WritableElements Receive>
  Result reduce_scatter(const Send& send, Receive&& recv, Operator op, const Options& options = {}) {
    if (op.is_user()) return run(reduce_scatter_init(send, recv, op, options));
    return finish(ucft_reduce_scatter(get(), shares(send, recv), internal::data_of(recv), internal::size_of(recv),
                                      dtype_of<ElementOf<Send>>(), op.get().op, &options, reader_.fresh()));
  }
  // Shares of different lengths: counts[r] elements of rank r, behind those of the ranks before it.
  template <Elements Send, WritableElements Receive>
  Result reduce_scatterv(const Send& send, Receive&& recv, std::span<const std::uint64_t> counts, Operator op,
                         const Options& options = {}) {
    if (op.is_user()) return run(reduce_scatterv_init(send, recv, counts, op, options));
    return finish(ucft_reduce_scatterv(get(), shares(send, recv, counts), internal::data_of(recv), counts.data(),
                                       dtype_of<ElementOf<Send>>(), op.get().op, &options, reader_.fresh()));
  }

  // All survivors get the root's data, or all get UCFT_ERR_ROOT_FAILED and keep what they had.
  template <WritableElements Values>
  Result broadcast(Values&& values, std::int32_t root, const Options& options = {}) {
    const auto data = output(values);
    return finish(ucft_broadcast(get(), data.data(), data.size(), dtype_of<ElementOf<Values>>(), root, &options,
                                 reader_.fresh()));
  }

  // Each survivor gets its share of the root's send, which holds size() times as many as recv. Elsewhere send is not
  // looked at. Or all get UCFT_ERR_ROOT_FAILED, and keep what they had.
  template <Elements Send, WritableElements Receive>
  Result scatter(const Send& send, Receive&& recv, std::int32_t root, const Options& options = {}) {
    return finish(ucft_scatter(get(), shares_from(root, send, recv), internal::data_of(recv), internal::size_of(recv),
                               dtype_of<ElementOf<Receive>>(), root, &options, reader_.fresh()));
  }
  // Shares of different lengths: counts[r] elements of rank r, behind those of the ranks before it.
  template <Elements Send, WritableElements Receive>
  Result scatterv(const Send& send, Receive&& recv, std::span<const std::uint64_t> counts, std::int32_t root,
                  const Options& options = {}) {
    return finish(ucft_scatterv(get(), shares_from(root, send, recv, counts), internal::data_of(recv), counts.data(),
                                dtype_of<ElementOf<Receive>>(), root, &options, reader_.fresh()));
  }

  // From each survivor what it has for this rank: send and recv hold as many for each rank, in their order. The place
  // of a rank that `missing` names is left as it was.
  template <Elements Send, WritableElements Receive>
  Result alltoall(const Send& send, Receive&& recv, const Options& options = {}) {
    const void* from = input(send, recv);
    return finish(ucft_alltoall(get(), from, internal::data_of(recv), share_of(send), dtype_of<ElementOf<Send>>(),
                                &options, reader_.fresh()));
  }

  // Shares of different lengths: send_counts[r] elements for rank r, recv_counts[r] from rank r, one after the other.
  template <Elements Send, WritableElements Receive>
  Result alltoallv(const Send& send, std::span<const std::uint64_t> send_counts, Receive&& recv,
                   std::span<const std::uint64_t> recv_counts, const Options& options = {}) {
    const void* from = own_shares(send, send_counts, recv, recv_counts);
    return finish(ucft_alltoallv(get(), from, send_counts.data(), nullptr, internal::data_of(recv), recv_counts.data(),
                                 nullptr, dtype_of<ElementOf<Send>>(), &options, reader_.fresh()));
  }

  // The combination of the ranks up to this one, and of those before this one. `missing` names those that are in
  // nobody's. Where none before this one has contributed, an exscan leaves recv as it was.
  template <Elements Send, WritableElements Receive>
  Result scan(const Send& send, Receive&& recv, Operator op, const Options& options = {}) {
    if (op.is_user()) return run(scan_init(send, recv, op, options));
    const void* from = input(send, recv);
    return finish(ucft_scan(get(), from, internal::data_of(recv), internal::size_of(recv), dtype_of<ElementOf<Send>>(),
                            op.get().op, &options, reader_.fresh()));
  }
  template <Elements Send, WritableElements Receive>
  Result exscan(const Send& send, Receive&& recv, Operator op, const Options& options = {}) {
    if (op.is_user()) return run(exscan_init(send, recv, op, options));
    const void* from = input(send, recv);
    return finish(ucft_exscan(get(), from, internal::data_of(recv), internal::size_of(recv),
                              dtype_of<ElementOf<Send>>(), op.get().op, &options, reader_.fresh()));
  }

  // Every rank's block in recv, rank r's in place r: recv holds size() times as many as send. The place of a rank that
  // `missing` names is left as it was.
  template <Elements Send, WritableElements Receive>
  Result allgather(const Send& send, Receive&& recv, const Options& options = {}) {
    const void* from = block(send, recv);
    return finish(ucft_allgather(get(), from, internal::data_of(recv), internal::size_of(send),
                                 dtype_of<ElementOf<Send>>(), &options, reader_.fresh()));
  }
  // The same on the root alone; elsewhere recv is not looked at. After a ROOT_FAILED: as reduce().
  template <Elements Send, WritableElements Receive>
  Result gather(const Send& send, Receive&& recv, std::int32_t root, const Options& options = {}) {
    return finish(ucft_gather(get(), block_to(root, send, recv), internal::data_of(recv), internal::size_of(send),
                              dtype_of<ElementOf<Send>>(), root, &options, reader_.fresh()));
  }
  // Blocks of different lengths: counts[r] elements of rank r, one behind the other.
  template <Elements Send, WritableElements Receive>
  Result gatherv(const Send& send, Receive&& recv, std::span<const std::uint64_t> counts, std::int32_t root,
                 const Options& options = {}) {
    return finish(ucft_gatherv(get(), block_to(root, send, recv, counts), internal::data_of(recv), counts.data(),
                               nullptr, dtype_of<ElementOf<Send>>(), root, &options, reader_.fresh()));
  }
  // Blocks of different lengths: counts[r] elements of rank r, one after the other.
  template <Elements Send, WritableElements Receive>
  Result allgatherv(const Send& send, Receive&& recv, std::span<const std::uint64_t> counts,
                    const Options& options = {}) {
    const void* from = blocks(send, recv, counts);
    return finish(ucft_allgatherv(get(), from, internal::data_of(recv), counts.data(), nullptr,
                                  dtype_of<ElementOf<Send>>(), &options, reader_.fresh()));
  }

  // Of the elements of values, to one rank. UCFT_ERR_PEER_FAILED: that rank is dead, or has left.
  template <Elements Send>
  ucft_status_t send(const Send& values, std::int32_t destination, std::int32_t tag = 0) {
    const ucft_status_t status = ucft_send(get(), internal::data_of(values), internal::size_of(values),
                                           dtype_of<ElementOf<Send>>(), destination, tag);
    internal::throw_if_wrong_use(status);
    return status;
  }
  // From one rank, or UCFT_ANY_SOURCE: up to as many elements as there are.
  template <WritableElements Receive>
  Received recv(Receive&& values, std::int32_t source, std::int32_t tag = 0) {
    ucft_received_t got = UCFT_RECEIVED_INIT;
    const ucft_status_t status = ucft_recv(get(), internal::data_of(values), internal::size_of(values),
                                           dtype_of<ElementOf<Receive>>(), source, tag, &got);
    internal::throw_if_wrong_use(status);
    return {status, got.source, got.tag, got.count};
  }

  // See ucft_agree: flags becomes the AND of the flags of all that have contributed.
  Result agree(std::uint64_t& flags, const Options& options = {}) {
    return finish(ucft_agree(get(), &flags, &options, reader_.fresh()));
  }
  // Returns once every rank that has not failed has entered.
  Result barrier(const Options& options = {}) { return finish(ucft_barrier(get(), &options, reader_.fresh())); }

  // Averages, sums, minima or maxima of the ranks' values by gossip: the same bits on every survivor. Averages and sums
  // are approximate.
  template <Reals Send, WritableElements Receive>
  GossipResult gossip_allreduce(const Send& send, Receive&& recv, const GossipOptions& options = {}) {
    return gossip_from(input(send, recv), output(recv), options);
  }
  // In place.
  template <WritableElements Values>
  requires Reals<Values> GossipResult gossip_allreduce(Values&& values, const GossipOptions& options = {}) {
    return gossip_from(UCFT_IN_PLACE, output(values), options);
  }

  // ---- persistent: *_init, then Request::post and Request::wait as often as you like ----

  template <LastingElements Send, WritableElements Receive>
  Request allreduce_init(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    return allreduce_request(input(send, recv), output(recv), op, options);
  }
  template <WritableElements Values>
  Request allreduce_init(Values&& values, Operator op, const Options& options = {}) {
    return allreduce_request(UCFT_IN_PLACE, output(values), op, options);
  }
  template <LastingElements Send, WritableElements Receive>
  Request reduce_init(Send&& send, Receive&& recv, Operator op, std::int32_t root, const Options& options = {}) {
    return reduce_request(reduce_arguments(send, recv, root), op, root, options);
  }
  template <LastingElements Send, WritableElements Receive>
  Request reduce_scatter_init(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_reduce_scatter_init(get(), shares(send, recv), internal::data_of(recv),
                                                       internal::size_of(recv), dtype_of<ElementOf<Send>>(), &op.get(),
                                                       &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request reduce_scatterv_init(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, Operator op,
                               const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_reduce_scatterv_init(get(), shares(send, recv, counts), internal::data_of(recv),
                                                        counts.data(), dtype_of<ElementOf<Send>>(), &op.get(), &options,
                                                        &handle));
    return Request(handle, size_);
  }
  template <WritableElements Values>
  Request broadcast_init(Values&& values, std::int32_t root, const Options& options = {}) {
    const auto data = output(values);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(
        ucft_broadcast_init(get(), data.data(), data.size(), dtype_of<ElementOf<Values>>(), root, &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  requires Reals<Send> Request gossip_allreduce_init(Send&& send, Receive&& recv, const GossipOptions& options = {}) {
    const void* from = input(send, recv);
    const auto to = output(recv);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(
        ucft_gossip_allreduce_init(get(), from, to.data(), to.size(), dtype_of<ElementOf<Send>>(), &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request allgather_init(Send&& send, Receive&& recv, const Options& options = {}) {
    const void* from = block(send, recv);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_allgather_init(get(), from, internal::data_of(recv), internal::size_of(send),
                                                  dtype_of<ElementOf<Send>>(), &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request scatter_init(Send&& send, Receive&& recv, std::int32_t root, const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_scatter_init(get(), shares_from(root, send, recv), internal::data_of(recv),
                                                internal::size_of(recv), dtype_of<ElementOf<Receive>>(), root, &options,
                                                &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request scatterv_init(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, std::int32_t root,
                        const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_scatterv_init(get(), shares_from(root, send, recv, counts), internal::data_of(recv),
                                                 counts.data(), dtype_of<ElementOf<Receive>>(), root, &options,
                                                 &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request alltoall_init(Send&& send, Receive&& recv, const Options& options = {}) {
    const void* from = input(send, recv);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_alltoall_init(get(), from, internal::data_of(recv), share_of(send),
                                                 dtype_of<ElementOf<Send>>(), &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request alltoallv_init(Send&& send, std::span<const std::uint64_t> send_counts, Receive&& recv,
                         std::span<const std::uint64_t> recv_counts, const Options& options = {}) {
    const void* from = own_shares(send, send_counts, recv, recv_counts);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_alltoallv_init(get(), from, send_counts.data(), nullptr, internal::data_of(recv),
                                                  recv_counts.data(), nullptr, dtype_of<ElementOf<Send>>(), &options,
                                                  &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send>
  Request send_init(Send&& values, std::int32_t destination, std::int32_t tag = 0) {
    return message_init(ucft_send_init, values, destination, tag);
  }
  template <WritableElements Receive>
  Request recv_init(Receive&& values, std::int32_t source, std::int32_t tag = 0) {
    return message_init(ucft_recv_init, values, source, tag);
  }
  template <LastingElements Send, WritableElements Receive>
  Request scan_init(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    const void* from = input(send, recv);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_scan_init(get(), from, internal::data_of(recv), internal::size_of(recv),
                                             dtype_of<ElementOf<Send>>(), &op.get(), &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request exscan_init(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    const void* from = input(send, recv);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_exscan_init(get(), from, internal::data_of(recv), internal::size_of(recv),
                                               dtype_of<ElementOf<Send>>(), &op.get(), &options, &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request gather_init(Send&& send, Receive&& recv, std::int32_t root, const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_gather_init(get(), block_to(root, send, recv), internal::data_of(recv),
                                               internal::size_of(send), dtype_of<ElementOf<Send>>(), root, &options,
                                               &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request gatherv_init(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, std::int32_t root,
                       const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_gatherv_init(get(), block_to(root, send, recv, counts), internal::data_of(recv),
                                                counts.data(), nullptr, dtype_of<ElementOf<Send>>(), root, &options,
                                                &handle));
    return Request(handle, size_);
  }
  template <LastingElements Send, WritableElements Receive>
  Request allgatherv_init(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts,
                          const Options& options = {}) {
    const void* from = blocks(send, recv, counts);
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_allgatherv_init(get(), from, internal::data_of(recv), counts.data(), nullptr,
                                                   dtype_of<ElementOf<Send>>(), &options, &handle));
    return Request(handle, size_);
  }
  Request barrier_init(const Options& options = {}) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_barrier_init(get(), &options, &handle));
    return Request(handle, size_);
  }

  // ---- nonblocking: posted on return, unless Request::test() says UCFT_ERR_BUSY ----

  template <LastingElements Send, WritableElements Receive>
  Request iallreduce(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    return posted(allreduce_init(send, recv, op, options));
  }
  template <WritableElements Values>
  Request iallreduce(Values&& values, Operator op, const Options& options = {}) {
    return posted(allreduce_init(values, op, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request ireduce(Send&& send, Receive&& recv, Operator op, std::int32_t root, const Options& options = {}) {
    return posted(reduce_init(send, recv, op, root, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request ireduce_scatter(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    return posted(reduce_scatter_init(send, recv, op, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request ireduce_scatterv(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, Operator op,
                           const Options& options = {}) {
    return posted(reduce_scatterv_init(send, recv, counts, op, options));
  }
  template <WritableElements Values>
  Request ibroadcast(Values&& values, std::int32_t root, const Options& options = {}) {
    return posted(broadcast_init(values, root, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request iallgather(Send&& send, Receive&& recv, const Options& options = {}) {
    return posted(allgather_init(send, recv, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request iscatter(Send&& send, Receive&& recv, std::int32_t root, const Options& options = {}) {
    return posted(scatter_init(send, recv, root, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request iscatterv(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, std::int32_t root,
                    const Options& options = {}) {
    return posted(scatterv_init(send, recv, counts, root, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request ialltoall(Send&& send, Receive&& recv, const Options& options = {}) {
    return posted(alltoall_init(send, recv, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request ialltoallv(Send&& send, std::span<const std::uint64_t> send_counts, Receive&& recv,
                     std::span<const std::uint64_t> recv_counts, const Options& options = {}) {
    return posted(alltoallv_init(send, send_counts, recv, recv_counts, options));
  }
  template <LastingElements Send>
  Request isend(Send&& values, std::int32_t destination, std::int32_t tag = 0) {
    return posted(send_init(values, destination, tag));
  }
  template <WritableElements Receive>
  Request irecv(Receive&& values, std::int32_t source, std::int32_t tag = 0) {
    return posted(recv_init(values, source, tag));
  }
  template <LastingElements Send, WritableElements Receive>
  Request iscan(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    return posted(scan_init(send, recv, op, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request iexscan(Send&& send, Receive&& recv, Operator op, const Options& options = {}) {
    return posted(exscan_init(send, recv, op, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request igather(Send&& send, Receive&& recv, std::int32_t root, const Options& options = {}) {
    return posted(gather_init(send, recv, root, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request igatherv(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, std::int32_t root,
                   const Options& options = {}) {
    return posted(gatherv_init(send, recv, counts, root, options));
  }
  template <LastingElements Send, WritableElements Receive>
  Request iallgatherv(Send&& send, Receive&& recv, std::span<const std::uint64_t> counts, const Options& options = {}) {
    return posted(allgatherv_init(send, recv, counts, options));
  }
  Request ibarrier(const Options& options = {}) { return posted(barrier_init(options)); }

  // Waits for no other rank. All requests must be complete, else UCFT_ERR_STATE, and the context will close it.
  ucft_status_t close() noexcept { return null() ? UCFT_ERR_CLOSED : ucft_comm_destroy(handle_.release()); }

  // The C handle, which stays owned by this object.
  ucft_comm_h get() const noexcept { return handle_.get(); }

 private:
  struct Arguments {
    const void* send;
    void* recv;
    std::size_t count;
    ucft_dtype_t dtype;
  };

  explicit Communicator(ucft_comm_h handle) {
    if (handle != UCFT_COMM_NULL) adopt(handle);
  }

  void adopt(ucft_comm_h handle) {
    handle_ = internal::Owned<ucft_comm_h>(handle);
    internal::throw_unless_ok(ucft_comm_rank(handle, &rank_));
    internal::throw_unless_ok(ucft_comm_size(handle, &size_));
    reader_ = internal::ResultReader(size_);
  }

  template <Elements Values>
  static std::span<ElementOf<Values>> output(Values& values) {
    return {internal::data_of(values), internal::size_of(values)};
  }

  template <Elements Send, Elements Receive>
  static const void* input(const Send& send, const Receive& recv) {
    static_assert(std::same_as<ElementOf<Send>, ElementOf<Receive>>, "send and recv differ in type");
    if (internal::size_of(send) != internal::size_of(recv)) {
      throw Error(UCFT_ERR_INVALID_PARAM, "send and recv differ in size");
    }
    return internal::data_of(send);
  }

  template <Elements Send, Elements Receive>
  const void* block(const Send& send, const Receive& recv) const {
    static_assert(std::same_as<ElementOf<Send>, ElementOf<Receive>>, "send and recv differ in type");
    if (internal::size_of(recv) != internal::size_of(send) * static_cast<std::size_t>(size_)) {
      throw Error(UCFT_ERR_INVALID_PARAM, "recv does not hold size() times what send does");
    }
    return internal::data_of(send);
  }

  template <Elements Send>
  std::size_t share_of(const Send& send) const {
    if (internal::size_of(send) % static_cast<std::size_t>(size_) != 0) {
      throw Error(UCFT_ERR_INVALID_PARAM, "send and recv do not hold as many for each of size() ranks");
    }
    return internal::size_of(send) / static_cast<std::size_t>(size_);
  }

  template <Elements Send, Elements Receive>
  const void* shares(const Send& send, const Receive& recv) const {
    static_assert(std::same_as<ElementOf<Send>, ElementOf<Receive>>, "send and recv differ in type");
    if (internal::size_of(send) != internal::size_of(recv) * static_cast<std::size_t>(size_)) {
      throw Error(UCFT_ERR_INVALID_PARAM, "send does not hold size() times what recv does");
    }
    return internal::data_of(send);
  }

  template <Elements Send, Elements Receive>
  const void* shares(const Send& send, const Receive& recv, std::span<const std::uint64_t> counts) const {
    blocks(recv, send, counts);  // for its checks
    return internal::data_of(send);
  }

  template <Elements Send, Elements Receive>
  const void* shares_from(std::int32_t root, const Send& send, const Receive& recv) const {
    return rank_ == root ? shares(send, recv) : nullptr;
  }

  // Away from the root counts must fit recv alone.
  template <Elements Send, Elements Receive>
  const void* shares_from(std::int32_t root, const Send& send, const Receive& recv,
                          std::span<const std::uint64_t> counts) const {
    if (rank_ == root) return shares(send, recv, counts);
    check_own_count(counts, internal::size_of(recv), "counts, one for each rank, do not fit the size of recv");
    return nullptr;
  }

  template <Elements Send, Elements Receive>
  const void* block_to(std::int32_t root, const Send& send, const Receive& recv) const {
    return rank_ == root ? block(send, recv) : internal::data_of(send);
  }
  // Away from the root counts must fit send alone.
  template <Elements Send, Elements Receive>
  const void* block_to(std::int32_t root, const Send& send, const Receive& recv,
                       std::span<const std::uint64_t> counts) const {
    if (rank_ == root) return blocks(send, recv, counts);
    check_own_count(counts, internal::size_of(send), "counts, one for each rank, do not fit the size of send");
    return internal::data_of(send);
  }

  void check_own_count(std::span<const std::uint64_t> counts, std::size_t own, const char* complaint) const {
    if (counts.size() != static_cast<std::size_t>(size_) || counts[static_cast<std::size_t>(rank_)] != own) {
      throw Error(UCFT_ERR_INVALID_PARAM, complaint);
    }
  }

  bool are_counts_of(std::span<const std::uint64_t> counts, std::size_t elements) const {
    std::uint64_t all = 0;
    for (std::uint64_t count : counts) all += count;
    return counts.size() == static_cast<std::size_t>(size_) && all == elements;
  }

  template <Elements Send, Elements Receive>
  const void* own_shares(const Send& send, std::span<const std::uint64_t> send_counts, const Receive& recv,
                         std::span<const std::uint64_t> recv_counts) const {
    static_assert(std::same_as<ElementOf<Send>, ElementOf<Receive>>, "send and recv differ in type");
    if (!are_counts_of(send_counts, internal::size_of(send))) {
      throw Error(UCFT_ERR_INVALID_PARAM, "send_counts, one for each rank, do not fit the size of send");
    }
    if (!are_counts_of(recv_counts, internal::size_of(recv))) {
      throw Error(UCFT_ERR_INVALID_PARAM, "recv_counts, one for each rank, do not fit the size of recv");
    }
    return internal::data_of(send);
  }

  template <Elements Send, Elements Receive>
  const void* blocks(const Send& send, const Receive& recv, std::span<const std::uint64_t> counts) const {
    static_assert(std::same_as<ElementOf<Send>, ElementOf<Receive>>, "send and recv differ in type");
    if (!are_counts_of(counts, internal::size_of(recv)) ||
        counts[static_cast<std::size_t>(rank_)] != internal::size_of(send)) {
      throw Error(UCFT_ERR_INVALID_PARAM, "counts, one for each rank, do not fit the sizes of send and recv");
    }
    return internal::data_of(send);
  }

  template <Elements Send, Elements Receive>
  Arguments reduce_arguments(const Send& send, Receive& recv, std::int32_t root) const {
    if (rank_ == root) input(send, recv);  // for its checks
    return {internal::data_of(send), internal::data_of(recv), internal::size_of(send), dtype_of<ElementOf<Send>>()};
  }

  template <Element T>
  Result allreduce_from(const void* send, std::span<T> recv, const Operator& op, const Options& options) {
    if (op.is_user()) return run(allreduce_request(send, recv, op, options));
    return finish(
        ucft_allreduce(get(), send, recv.data(), recv.size(), dtype_of<T>(), op.get().op, &options, reader_.fresh()));
  }

  template <Element T>
  Request allreduce_request(const void* send, std::span<T> recv, const Operator& op, const Options& options) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(
        ucft_allreduce_init(get(), send, recv.data(), recv.size(), dtype_of<T>(), &op.get(), &options, &handle));
    return Request(handle, size_);
  }

  Request reduce_request(const Arguments& arguments, const Operator& op, std::int32_t root, const Options& options) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(ucft_reduce_init(get(), arguments.send, arguments.recv, arguments.count, arguments.dtype,
                                               &op.get(), root, &options, &handle));
    return Request(handle, size_);
  }

  template <Element T>
  GossipResult gossip_from(const void* send, std::span<T> recv, const GossipOptions& options) {
    GossipResult result;
    result.status = ucft_gossip_allreduce(get(), send, recv.data(), recv.size(), dtype_of<T>(), &options, &result);
    internal::throw_if_wrong_use(result.status);
    return result;
  }

  // Of a send or a receive.
  template <class Init, class Values>
  Request message_init(Init init, Values&& values, std::int32_t other, std::int32_t tag) {
    ucft_request_h handle = UCFT_REQUEST_NULL;
    internal::throw_unless_ok(init(get(), internal::data_of(values), internal::size_of(values),
                                   dtype_of<ElementOf<Values>>(), other, tag, &handle));
    return Request(handle, size_);
  }

  static Request posted(Request request) {
    request.post();
    return request;
  }

  static Result run(Request request) {
    request.post();
    return request.wait();
  }

  Result finish(ucft_status_t status) {
    if (status != UCFT_OK) internal::throw_if_wrong_use(status);
    return reader_.result(status);
  }

  internal::Owned<ucft_comm_h> handle_;
  std::int32_t rank_ = -1;
  std::int32_t size_ = 0;
  internal::ResultReader reader_;
};

}  // namespace v0
}  // namespace ucft

#endif  // C++20
#endif

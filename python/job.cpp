#include "python/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "python/result.hpp"

namespace ucft::python {

namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;
constexpr std::uint64_t short_slice_us = 200;       // deferred operations are posted so often
constexpr Seconds drain_limit = Seconds(10);        // for requests in progress when this rank leaves
constexpr std::uint64_t worth_telling_us = 10'000;  // from such a limit on ucft_wait says whom it has waited for

// Frees it, unless it is in progress, or another thread is inside ucft.
bool is_in_use(const Held& held) {
  if (held.is_deferred) return true;
  const ucft_status_t status = without_gil([&] { return ucft_request_free(held.handle); });
  return status == UCFT_ERR_STATE || status == UCFT_ERR_THREAD;
}

const std::string no_room =
    "too many operations are in flight on its communicator, here or on another rank, for it to begin";

// The culprits in ucft_wait's sentence about a late operation, with a colon before them; or nothing. Of a collective:
// "it waits for rank 2 ...". Of a message, which has them before the time: "a receive from rank 2 of tag 0: it ...".
std::string culprits() {
  const std::string sentence = ucft_last_error();
  const auto time = sentence.find(" is still in progress after "), end = sentence.find(" us", time);
  if (time == std::string::npos || end == std::string::npos) return "";
  const std::string before = sentence.starts_with("operation ") ? "" : ": " + sentence.substr(0, time);
  return before + sentence.substr(end + 3);
}

// Whether ranks must post the two in the same order.
bool are_in_order(const Held& one, const Held& other) { return one.comm == other.comm && one.kind == other.kind; }

// Whether this thread is in an operator of the caller's: objects may be collected there, requests among them, and
// nothing in it may call ucft.
thread_local bool inside_operator = false;

}  // namespace

void Pause::operator()() {
  without_gil([this] { return usleep(length_us_); });
  length_us_ = std::min(2 * length_us_, 1000u);
}

// ---- operators ------------------------------------------------------------------------------------------------------

// Also on ucft's own thread.
void UserOperator::call(const void* in, void* inout, std::uint64_t count, ucft_dtype_t dtype, void* arg) {
  while (Py_IsInitialized() == 0) pause();  // the process is about to end, and is dead to the others then
  const py::gil_scoped_acquire acquired;
  auto& self = *static_cast<UserOperator*>(arg);
  inside_operator = true;
  try {
    const py::object to = borrowed_array(inout, count, dtype, true);
    const py::object returned = self.function(borrowed_array(const_cast<void*>(in), count, dtype, false), to);
    if (!returned.is_none() && !returned.is(to)) {
      PyErr_SetString(PyExc_TypeError,
                      "op: it returns a result, but must store it in its second argument (numpy.add(a, b, out=b))");
      throw py::error_already_set();
    }
  } catch (py::error_already_set& error) {
    if (!self.error) self.error = error.value();
  }
  inside_operator = false;
}

// ---- contexts -------------------------------------------------------------------------------------------------------

Context::Context(const ucft_context_params_t& params, py::object on_failure, py::object allgather,
                 std::optional<std::int32_t> rank, std::optional<std::int32_t> size)
    : on_failure_(std::move(on_failure)), allgather_(std::move(allgather)) {
  ucft_context_params_t all = params;
  if (!on_failure_.is_none()) {
    all.failure_callback = &Context::report;
    all.failure_callback_arg = this;
  }
  if (!allgather_.is_none()) {
    require(rank && size, "allgather: needs rank and size, too");
    require(*size >= 1 && *rank >= 0 && *rank < *size, fmt::format("rank: there is no rank {} of {}", *rank, *size));
    blocks_ = static_cast<std::size_t>(*size);
    all.oob = {&Context::exchange,
               [](void*) { return UCFT_OK; },
               [](void*) { return UCFT_OK; },
               this,
               static_cast<std::uint32_t>(*size),
               static_cast<std::uint32_t>(*rank)};
  }
  const ucft_status_t status = without_gil([&] { return ucft_context_create(&all, &handle_); });
  if (status == UCFT_OK) return;
  handle_ = UCFT_CONTEXT_NULL;
  if (exchange_error_) std::rethrow_exception(exchange_error_);
  raise(status);
}

// The program holds no request of it.
Context::~Context() {
  if (is_open() && !inside_operator) {
    const auto limit = Clock::now() + drain_limit;
    Pause pause;
    while (unfinished() && Clock::now() < limit) pause();
    if (without_gil([this] { return ucft_context_destroy(handle_); }) == UCFT_OK) return;
  }
  if (!left_.empty()) new auto(std::move(left_));  // may still be written
}

void Context::abandon() {
  abandoned_ = abandoned_ || is_open();
  handle_ = UCFT_CONTEXT_NULL;
}

void Context::close() {
  if (!is_open()) return;
  const auto limit = Clock::now() + drain_limit;
  Pause pause;
  while (const auto late = unfinished()) {
    if (Clock::now() >= limit) {
      const ucft_status_t status = late->is_deferred
                                       ? UCFT_ERR_TIMED_OUT
                                       : without_gil([&] { return ucft_wait(late->handle, worth_telling_us); });
      if (status == UCFT_ERR_TIMED_OUT)
        raise(UCFT_ERR_STATE, fmt::format("an operation is not complete {} s after this rank began to leave{}",
                                          drain_limit.count(), late->is_deferred ? ": " + no_room : culprits()));
      if (status == UCFT_ERR_THREAD) raise(status);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    pause();
  }
  const ucft_status_t status = without_gil([this] { return ucft_context_destroy(handle_); });
  raise_unless_ok(status);
  handle_ = UCFT_CONTEXT_NULL;
  left_.clear();
}

std::optional<Context::Unfinished> Context::unfinished() {
  without_gil([this] { return ucft_progress(handle_); });
  collect();
  std::vector<std::shared_ptr<Request>> all;  // another thread may drop some meanwhile
  for (const auto& [_, request] : requests_)
    if (auto held = request.lock()) all.push_back(std::move(held));
  for (const auto& request : all)
    if (!request->held().is_deferred && request->is_pending()) return Unfinished{request->held().handle, false};
  for (const auto& each : left_)
    if (!each->is_deferred) return Unfinished{each->handle, false};
  return deferred_.empty() ? std::nullopt : std::optional(Unfinished{deferred_.front()->handle, true});
}

void Context::report(const ucft_failure_t* failure, void* arg) {
  const py::gil_scoped_acquire acquired;
  try {
    static_cast<Context*>(arg)->on_failure_(py::cast(*failure));
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("ucft: on_failure");
  }
}

ucft_status_t Context::exchange(void* src, void* recv, std::size_t size, void* arg, void** request) {
  const py::gil_scoped_acquire acquired;
  auto& self = *static_cast<Context*>(arg);
  *request = nullptr;
  try {
    const py::list all = py::list(self.allgather_(py::bytes(static_cast<const char*>(src), size)));
    require(all.size() == self.blocks_,
            fmt::format("allgather: {} blocks came back for {} ranks", all.size(), self.blocks_));
    auto* to = static_cast<char*>(recv);
    for (const py::handle each : all) {
      const auto block = each.cast<std::string>();
      require(block.size() == size, "allgather: a block of another length came back");
      std::memcpy(to, block.data(), size);
      to += size;
    }
    return UCFT_OK;
  } catch (...) {
    self.exchange_error_ = std::current_exception();
    return UCFT_ERR_STARTUP;
  }
}

std::int32_t Context::rank() const {
  std::int32_t rank = 0;
  raise_unless_ok(without_gil([&] { return ucft_context_rank(handle_, &rank); }));
  return rank;
}

std::int32_t Context::size() const {
  std::int32_t size = 0;
  raise_unless_ok(without_gil([&] { return ucft_context_size(handle_, &size); }));
  return size;
}

std::string Context::settings() const {
  return without_gil([this] {
    std::string text(ucft_settings(handle_, nullptr, 0), '\0');
    ucft_settings(handle_, text.data(), text.size());
    text.resize(std::strlen(text.c_str()));
    return text;
  });
}

py::tuple Context::waiting() const {
  std::int32_t ready = 0, known = 0;
  raise_unless_ok(without_gil([&] { return ucft_context_waiting(handle_, &ready, &known); }));
  return py::make_tuple(ready, known);
}

std::string Context::address() const {
  char text[64] = "";
  raise_unless_ok(without_gil([&] { return ucft_context_address(handle_, text, sizeof text); }));
  return text;
}

ucft_comm_h Context::join(double timeout_s) {
  require(timeout_s >= 0, "join_timeout: seconds, from 0");
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(std::min(timeout_s, 1e9)));
  for (;;) {
    ucft_comm_h handle = UCFT_COMM_NULL;
    std::string why;
    const ucft_status_t status = without_gil([&] {
      const ucft_status_t said = ucft_comm_join(handle_, slice_us, &handle);
      if (said != UCFT_OK) why = ucft_last_error();
      return said;
    });
    if (status == UCFT_OK) return handle;
    if (status != UCFT_ERR_TIMED_OUT) raise(status, why);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (Clock::now() >= end) raise(status, fmt::format("not within {} s: {}", timeout_s, why));
  }
}

void Context::progress() {
  raise_unless_ok(without_gil([this] { return ucft_progress(handle_); }));
  post_deferred();
}

void Context::post(Held& held) {
  if (held.is_deferred) raise(UCFT_ERR_STATE, "the request is posted already and not complete");
  post_deferred();
  held.refused = UCFT_OK;
  ucft_status_t status = UCFT_ERR_BUSY;
  if (!is_behind_others(held)) status = without_gil([&] { return ucft_post(held.handle); });
  if (status != UCFT_ERR_BUSY) return raise_unless_ok(status);
  held.is_deferred = true;
  deferred_.push_back(&held);
}

void Context::post_deferred() {
  if (deferred_.empty() || is_posting_ || !is_open()) return;
  is_posting_ = true;
  std::vector<const Held*> without_room;
  for (auto next = deferred_.begin(); next != deferred_.end();) {
    Held& held = **next;
    ucft_status_t status = UCFT_ERR_BUSY;
    if (std::ranges::none_of(without_room, [&](const Held* each) { return are_in_order(*each, held); }))
      status = without_gil([&] {
        const ucft_status_t said = ucft_post(held.handle);
        if (said != UCFT_OK) held.why = ucft_last_error();
        return said;
      });
    if (status == UCFT_ERR_BUSY || status == UCFT_ERR_THREAD) {
      without_room.push_back(&held);
      ++next;
      continue;
    }
    held.is_deferred = false;
    held.refused = status;
    next = deferred_.erase(next);
  }
  is_posting_ = false;
}

bool Context::is_behind_others(const Held& held) const {
  return std::ranges::any_of(deferred_, [&](const Held* each) { return are_in_order(*each, held); });
}

bool Context::has_deferred(ucft_comm_h comm) const {
  return std::ranges::any_of(deferred_, [&](const Held* each) { return each->comm == comm; });
}

void Context::make_room(ucft_comm_h comm) {
  for (Pause pause; has_deferred(comm); pause()) {
    progress();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void Context::collect() {
  post_deferred();
  if (left_.empty()) return;
  auto mine = std::exchange(left_, {});  // another thread may be here, too
  mine.remove_if([](const std::unique_ptr<Held>& each) { return !is_in_use(*each); });
  left_.splice(left_.end(), mine);
}

// ---- requests -------------------------------------------------------------------------------------------------------

Request::Request(std::shared_ptr<Context> context, std::int32_t ranks, std::unique_ptr<Held> held, py::object value)
    : context_(std::move(context)), ranks_(ranks), held_(std::move(held)), value_(std::move(value)) {}

Request::~Request() {
  context_->remove(this);
  if (held_ == nullptr || (!context_->is_open() && !context_->is_abandoned())) return;
  if (context_->is_abandoned() || inside_operator || is_in_use(*held_)) context_->leave_to(std::move(held_));
}

void Request::post() { context_->post(*held_); }

void Request::raise_if_refused() const {
  if (held_->refused != UCFT_OK) raise(held_->refused, held_->why);
}

void Request::raise_if_failed(ucft_status_t status) {
  if (held_->user != nullptr && held_->user->error) {
    const py::object error = std::exchange(held_->user->error, py::object());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw py::error_already_set();
  }
  if (status == UCFT_ERR_PEER_FAILED || status == UCFT_ERR_TRUNCATED) {
    const std::string why = ucft_last_error();
    raise(status, why, held_->kind == Kind::send ? held_->destination : received().source);
  }
  raise_unless_ok(status);
}

// Of a receive that is complete.
Received Request::received() const {
  Received got;
  raise_unless_ok(without_gil([&] { return ucft_request_received(held_->handle, &got); }));
  got.value = value_;
  return got;
}

bool Request::is_pending() const {
  if (held_->is_deferred) return true;
  const ucft_status_t status = without_gil([this] { return ucft_test(held_->handle); });
  return status == UCFT_INPROGRESS || status == UCFT_ERR_THREAD;
}

bool Request::test() {
  if (held_->is_deferred) context_->progress();
  if (held_->is_deferred) return false;
  raise_if_refused();
  context_->post_deferred();
  const ucft_status_t status = without_gil([this] { return ucft_test(held_->handle); });
  if (status == UCFT_INPROGRESS) return false;
  raise_if_failed(status);
  return true;
}

// Once, for at most limit_us. UCFT_ERR_TIMED_OUT: it is not complete.
ucft_status_t Request::look(std::uint64_t limit_us, Pause& pause) {
  if (held_->is_deferred) context_->progress();
  if (held_->is_deferred) {
    pause();
    return UCFT_ERR_TIMED_OUT;
  }
  raise_if_refused();
  context_->post_deferred();
  if (context_->has_deferred()) limit_us = std::min(limit_us, short_slice_us);
  return without_gil([&] { return ucft_wait(held_->handle, limit_us); });
}

py::object Request::wait(std::optional<double> timeout_s) {
  require(!timeout_s || *timeout_s >= 0, "timeout: seconds, from 0; None: without limit");
  const auto end = timeout_s
                       ? Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(std::min(*timeout_s, 1e9)))
                       : Clock::time_point::max();
  for (Pause pause;;) {
    std::uint64_t limit_us = slice_us;
    if (timeout_s)
      limit_us = std::min<std::uint64_t>(
          slice_us, static_cast<std::uint64_t>(
                        std::max(std::chrono::duration<double, std::micro>(end - Clock::now()).count(), 0.0)));
    const ucft_status_t status = look(limit_us, pause);
    if (status != UCFT_ERR_TIMED_OUT) {
      raise_if_failed(status);
      return result();
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!timeout_s || Clock::now() < end) continue;
    const bool is_deferred = held_->is_deferred;
    const bool is_told = !is_deferred && *timeout_s * 1e6 >= worth_telling_us;
    const ucft_status_t now =
        is_told ? without_gil([&] { return ucft_wait(held_->handle, worth_telling_us); }) : status;
    if (now != UCFT_ERR_TIMED_OUT) {
      raise_if_failed(now);
      return result();
    }
    raise(now, fmt::format("not complete within {} s; it goes on{}", *timeout_s,
                           is_deferred ? ": " + no_room
                           : is_told   ? culprits()
                                       : ""));
  }
}

py::object Request::run(View send, View receive, py::object value) {
  held_->send = std::move(send);
  held_->receive = std::move(receive);
  value_ = std::move(value);
  ucft_result_t got = UCFT_RESULT_INIT;
  ucft_status_t status = UCFT_ERR_BUSY;
  if (!context_->has_deferred())
    status = without_gil([&] {
      const ucft_status_t so_far = ucft_post_and_wait(held_->handle, slice_us);
      return so_far == UCFT_OK ? ucft_request_result(held_->handle, &got) : so_far;
    });
  if (status == UCFT_ERR_BUSY) {
    context_->post(*held_);
    status = UCFT_ERR_TIMED_OUT;
  }
  if (status != UCFT_ERR_TIMED_OUT) raise_if_failed(status);
  const py::object result = status == UCFT_ERR_TIMED_OUT ? wait({}) : result_of(got, held_->handle, value_, ranks_);
  held_->send = View();
  held_->receive = View();
  value_ = py::none();
  return result;
}

py::object Request::result() {
  if (held_->kind == Kind::gossip) {
    GossipResult got;
    raise_unless_ok(without_gil([&] { return ucft_gossip_result(held_->handle, &got); }));
    got.value = value_;
    return py::cast(std::move(got));
  }
  ucft_result_t got = UCFT_RESULT_INIT;
  raise_unless_ok(without_gil([&] { return ucft_request_result(held_->handle, &got); }));
  if (got.status != UCFT_OK)  // whose sentence may be long gone
    raise_if_failed(without_gil([this] { return ucft_test(held_->handle); }));
  if (held_->kind == Kind::send) return py::none();
  if (held_->kind == Kind::receive) return py::cast(received());
  return result_of(got, held_->handle, value_, ranks_);
}

py::object Request::estimate() {
  require(held_->kind == Kind::gossip, "estimate: of gossip only");
  const py::object values = new_array(value_, 0);
  const View view(values, "values", true, held_->receive.dtype());
  double error = 0;
  raise_unless_ok(without_gil([&] { return ucft_gossip_estimate(held_->handle, view.data(), &error); }));
  return py::make_tuple(values, error);
}

std::uint32_t Request::contributors() {
  require(held_->kind == Kind::gossip, "contributors: of gossip only");
  std::uint32_t contributors = 0;
  raise_unless_ok(ucft_gossip_contributors(held_->handle, &contributors));
  return contributors;
}

}  // namespace ucft::python

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
constexpr std::uint64_t slice_us = 20'000;          // Ctrl-C is looked for so often
constexpr std::uint64_t short_slice_us = 200;       // and deferred operations are posted so often
constexpr Seconds drain_limit = Seconds(10);        // for what is in progress when this rank leaves
constexpr std::uint64_t worth_telling_us = 10'000;  // from such a limit on ucft_wait says whom it has waited for

template <class Call>
auto without_gil(Call call) {
  const py::gil_scoped_release released;
  return call();
}

bool is_in_place(py::handle send, py::handle receive) {
  if (py::isinstance<InPlace>(send) && receive.is_none())
    raise(UCFT_ERR_INVALID_PARAM, "recv: ucft.IN_PLACE needs an array to take the input from");
  return py::isinstance<InPlace>(send) || send.is(receive);
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) raise(UCFT_ERR_INVALID_PARAM, otherwise);
}

// Frees it, unless it is in progress, or another thread is inside ucft.
bool is_in_use(const Held& held) {
  if (held.is_deferred) return true;
  const ucft_status_t status = without_gil([&] { return ucft_request_free(held.handle); });
  return status == UCFT_ERR_STATE || status == UCFT_ERR_THREAD;
}

const std::string no_room =
    "too many operations are in flight on its communicator, here or on another rank, for it to begin";

// Of what ucft_wait says of an operation that is late: "it waits for rank 2 ...", with a colon before it; or nothing.
std::string culprits() {
  const std::string sentence = ucft_last_error();
  const auto begin = sentence.find(" us: ");
  return begin == std::string::npos ? "" : ": " + sentence.substr(begin + 5);
}

const ucft_coll_options_t* address_of(const std::optional<Options>& options) { return options ? &*options : nullptr; }

// A view of `receive`, of the type and with `blocks` times the elements of what is sent.
View receiving(py::handle receive, ucft_dtype_t dtype, std::optional<ucft_dtype_t> forced, std::uint64_t count,
               std::uint64_t blocks = 1) {
  View view(receive, "recv", true, forced);
  if (view.dtype() != dtype) raise(UCFT_ERR_INVALID_PARAM, "recv: its elements are of another type than those of send");
  if (view.count() != count * blocks)
    raise(UCFT_ERR_INVALID_PARAM, fmt::format("recv: {} elements, but there must be {}", view.count(), count * blocks));
  return view;
}

// Whether ranks must post the two in the same order.
bool are_in_order(const Held& one, const Held& other) {
  return one.comm == other.comm && one.is_gossip == other.is_gossip;
}

// Whether this thread is in an operator of the caller's: objects may be collected there, requests among them, and nothing in it may
// call ucft.
thread_local bool inside_operator = false;

ucft_operator_t operator_of(py::handle op, Held& held) {
  if (py::isinstance<ucft_op_t>(op)) return UCFT_OPERATOR_INIT(op.cast<ucft_op_t>());
  require(PyCallable_Check(op.ptr()) != 0, "op: neither a ucft.Op nor a function");
  held.user = std::make_unique<UserOperator>();
  held.user->function = py::reinterpret_borrow<py::function>(op);
  ucft_operator_t user = UCFT_OPERATOR_INIT(UCFT_USER);
  user.function = &UserOperator::call;
  user.arg = held.user.get();
  return user;
}

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

// Nobody holds a request of it.
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

Request::Request(std::shared_ptr<Context> context, std::int32_t ranks, std::unique_ptr<Held> held, py::object value,
                 bool is_gossip)
    : context_(std::move(context)),
      ranks_(ranks),
      held_(std::move(held)),
      value_(std::move(value)),
      is_gossip_(is_gossip) {}

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
  raise_unless_ok(status);
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
  if (is_gossip_) {
    GossipResult got;
    raise_unless_ok(without_gil([&] { return ucft_gossip_result(held_->handle, &got); }));
    got.value = value_;
    return py::cast(std::move(got));
  }
  ucft_result_t got = UCFT_RESULT_INIT;
  raise_unless_ok(without_gil([&] { return ucft_request_result(held_->handle, &got); }));
  raise_unless_ok(got.status);
  return result_of(got, held_->handle, value_, ranks_);
}

py::object Request::estimate() {
  require(is_gossip_, "estimate: of gossip only");
  const py::object values = new_array(value_, 0);
  const View view(values, "values", true, held_->receive.dtype());
  double error = 0;
  raise_unless_ok(without_gil([&] { return ucft_gossip_estimate(held_->handle, view.data(), &error); }));
  return py::make_tuple(values, error);
}

// ---- communicators --------------------------------------------------------------------------------------------------

Communicator::Communicator(std::shared_ptr<Context> context, ucft_comm_h handle)
    : context_(std::move(context)), handle_(handle) {
  raise_unless_ok(without_gil([&] { return ucft_comm_size(handle_, &size_); }));
}

std::int32_t Communicator::rank() const {
  std::int32_t rank = 0;
  raise_unless_ok(without_gil([&] { return ucft_comm_rank(handle_, &rank); }));
  return rank;
}

py::tuple Communicator::failed() const {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size_));
  std::int32_t count = size_;
  raise_unless_ok(without_gil([&] { return ucft_comm_failed(handle_, ranks.data(), &count); }));
  return tuple_of(ranks.data(), static_cast<std::size_t>(count));
}

py::tuple Communicator::look() const {
  std::vector<RankSight> seen;
  ucft_status_t status = UCFT_OK;
  without_gil([&] {
    try {
      seen = internal::look(handle_, size_);
    } catch (const Error& error) {
      status = error.status();
    }
    return status;
  });
  raise_unless_ok(status);
  py::tuple sights(seen.size());
  for (std::size_t rank = 0; rank < seen.size(); ++rank) sights[rank] = std::move(seen[rank]);
  return sights;
}

std::shared_ptr<Communicator> Communicator::dup() {
  ucft_comm_h copy = UCFT_COMM_NULL;
  context_->make_room(handle_);
  raise_unless_ok(without_gil([&] { return ucft_comm_dup(handle_, &copy); }));
  return std::make_shared<Communicator>(context_, copy);
}

std::shared_ptr<Communicator> Communicator::split(std::optional<std::int32_t> colour, std::int32_t key) {
  require(!colour || *colour >= 0, "colour: 0 or more; None: in no part");
  ucft_comm_h part = UCFT_COMM_NULL;
  context_->make_room(handle_);
  raise_unless_ok(without_gil([&] { return ucft_comm_split(handle_, colour.value_or(-1), key, &part); }));
  return part == UCFT_COMM_NULL ? nullptr : std::make_shared<Communicator>(context_, part);
}

void Communicator::close() {
  if (handle_ == UCFT_COMM_NULL || !context_->is_open()) return;
  context_->collect();
  if (context_->has_deferred(handle_)) raise(UCFT_ERR_STATE, "an operation is still in progress: wait for it first");
  last_.reset();
  raise_unless_ok(without_gil([this] { return ucft_comm_destroy(handle_); }));
  handle_ = UCFT_COMM_NULL;
}

template <class Init>
std::shared_ptr<Request> Communicator::make(std::unique_ptr<Held> held, py::object value, bool is_gossip, Init init) {
  context_->collect();
  Held& all = *held;
  all.comm = handle_;
  all.is_gossip = is_gossip;
  raise_unless_ok(without_gil([&] { return init(all, &all.handle); }));
  auto request = std::make_shared<Request>(context_, size_, std::move(held), std::move(value), is_gossip);
  context_->add(request);
  return request;
}

template <class Init>
std::shared_ptr<Request> Communicator::start(std::unique_ptr<Held> held, py::object value, bool is_gossip, Init init) {
  std::shared_ptr<Request> request = make(std::move(held), std::move(value), is_gossip, init);
  request->post();
  return request;
}

std::shared_ptr<Request> Communicator::allreduce(py::object send, py::object receive, py::object op, TypeOf dtype,
                                                 OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool in_place = is_in_place(send, receive);
  if (in_place) {
    held->receive = View(receive, "recv", true, dtype);
  } else {
    send = with_buffer(send, "send");
    held->send = View(send, "send", false, dtype);
    if (receive.is_none()) receive = new_array(send, 0);
    held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count());
  }
  const ucft_operator_t how = operator_of(op, *held);
  return start(std::move(held), receive, false, [&](Held& all, ucft_request_h* request) {
    return ucft_allreduce_init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(), all.receive.data(),
                               all.receive.count(), all.receive.dtype(), &how, address_of(options), request);
  });
}

py::object Communicator::allreduce_again(py::object send, py::object receive, ucft_op_t op) {
  View from, to;
  if (send.is(receive)) {
    to = View(receive, "recv", true, {});
  } else {
    from = View(send, "send", false, {});
    to = receiving(receive, from.dtype(), {}, from.count());
  }
  const Signature now{from.is_there() ? from.data() : UCFT_IN_PLACE, to.data(), to.count(), to.dtype(), op};
  std::shared_ptr<Request> request = std::exchange(last_, nullptr);  // another thread may be here, too
  if (request == nullptr || now != last_signature_) {
    const ucft_operator_t how = UCFT_OPERATOR_INIT(now.op);
    request = make(std::make_unique<Held>(), py::none(), false, [&](Held&, ucft_request_h* handle) {
      return ucft_allreduce_init(handle_, now.send, to.data(), now.count, now.dtype, &how, nullptr, handle);
    });
  }
  const py::object result = request->run(std::move(from), std::move(to), std::move(receive));
  last_signature_ = now;
  const std::shared_ptr<Request> old = std::exchange(last_, std::move(request));  // goes last: that lets others run
  return result;
}

std::shared_ptr<Request> Communicator::reduce(py::object send, py::object receive, py::object op, std::int32_t root,
                                              TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool is_root = root == rank();
  const bool in_place = is_in_place(send, receive);
  if (!in_place || !is_root) {
    send = with_buffer(in_place ? receive : send, "send");
    held->send = View(send, "send", false, dtype);
    if (!is_root) receive = py::none();
    if (is_root && receive.is_none()) receive = new_array(send, 0);
    if (is_root) held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count());
  } else {
    held->receive = View(receive, "recv", true, dtype);
  }
  const ucft_operator_t how = operator_of(op, *held);
  return start(std::move(held), receive, false, [&](Held& all, ucft_request_h* request) {
    const View& shape = all.send.is_there() ? all.send : all.receive;
    return ucft_reduce_init(handle_, all.send.is_there() ? all.send.data() : UCFT_IN_PLACE,
                            all.receive.is_there() ? all.receive.data() : nullptr, shape.count(), shape.dtype(), &how,
                            root, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::broadcast(py::object buffer, std::int32_t root, TypeOf dtype,
                                                 OptionsOf options) {
  auto held = std::make_unique<Held>();
  held->receive = View(buffer, "buffer", true, dtype);
  return start(std::move(held), buffer, false, [&](Held& all, ucft_request_h* request) {
    return ucft_broadcast_init(handle_, all.receive.data(), all.receive.count(), all.receive.dtype(), root,
                               address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::allgather(py::object send, py::object receive, TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  const auto ranks = static_cast<std::uint64_t>(size_);
  const bool in_place = is_in_place(send, receive);
  if (in_place) {
    held->receive = View(receive, "recv", true, dtype);
    require(held->receive.count() % ranks == 0,
            fmt::format("recv: {} elements are no whole block for each of {} ranks", held->receive.count(), ranks));
  } else {
    send = with_buffer(send, "send");
    held->send = View(send, "send", false, dtype);
    if (receive.is_none()) receive = new_array(send, size_);
    held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count(), ranks);
  }
  return start(std::move(held), receive, false, [&](Held& all, ucft_request_h* request) {
    return ucft_allgather_init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(), all.receive.data(),
                               all.receive.count() / ranks, all.receive.dtype(), address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::allgatherv(py::object send, py::object receive,
                                                  std::vector<std::uint64_t> counts,
                                                  std::optional<std::vector<std::uint64_t>> displacements, TypeOf dtype,
                                                  OptionsOf options) {
  auto held = std::make_unique<Held>();
  require(counts.size() == static_cast<std::size_t>(size_),
          fmt::format("counts: {} of them for {} ranks", counts.size(), size_));
  require(!displacements || displacements->size() == counts.size(), "displacements: there must be as many as counts");
  held->receive = View(receive, "recv", true, dtype);
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint64_t at = displacements ? (*displacements)[i] : place;
    require(counts[i] <= held->receive.count() && at <= held->receive.count() - counts[i],
            fmt::format("recv: {} elements; the block of rank {}, {} elements at {}, doesn't fit",
                        held->receive.count(), i, counts[i], at));
    place = at + counts[i];
  }
  const bool in_place = is_in_place(send, receive);
  if (!in_place) {
    send = with_buffer(send, "send");
    held->send = View(send, "send", false, dtype);
    require(held->send.dtype() == held->receive.dtype(), "recv: its elements are of another type than those of send");
    const std::uint64_t own = counts[static_cast<std::size_t>(rank())];
    require(held->send.count() == own, fmt::format("send: {} elements, but counts say {}", held->send.count(), own));
  }
  return start(std::move(held), receive, false, [&](Held& all, ucft_request_h* request) {
    return ucft_allgatherv_init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(), all.receive.data(), counts.data(),
                                displacements ? displacements->data() : nullptr, all.receive.dtype(),
                                address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::barrier(OptionsOf options) {
  return start(std::make_unique<Held>(), py::none(), false, [&](Held&, ucft_request_h* request) {
    return ucft_barrier_init(handle_, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::gossip(py::object send, py::object receive,
                                              const std::optional<GossipOptions>& options, TypeOf dtype) {
  auto held = std::make_unique<Held>();
  send = with_buffer(send, "send");
  held->send = View(send, "send", false, dtype);
  if (receive.is_none()) receive = new_array(send, 0);
  held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count());
  return start(std::move(held), receive, true, [&](Held& all, ucft_request_h* request) {
    return ucft_gossip_allreduce_init(handle_, all.send.data(), all.receive.data(), all.receive.count(),
                                      all.receive.dtype(), options ? &*options : nullptr, request);
  });
}

}  // namespace ucft::python

// The communicators of Python: see job.hpp.
#include <fmt/format.h>
#include <pybind11/numpy.h>

#include <numeric>
#include <utility>

#include "python/job.hpp"
#include "python/result.hpp"

namespace ucft::python {

namespace {

bool is_in_place(py::handle send, py::handle receive) {
  require(!send.is_none(), "send: None is no array");
  if (py::isinstance<InPlace>(send) && receive.is_none())
    raise(UCFT_ERR_INVALID_PARAM, "recv: ucft.IN_PLACE needs an array to take the input from");
  return py::isinstance<InPlace>(send) || send.is(receive);
}

const ucft_coll_options_t* address_of(const std::optional<Options>& options) { return options ? &*options : nullptr; }

// A view of `receive`, of the type of the data that are sent, and with `blocks` times their elements.
View receiving(py::handle receive, ucft_dtype_t dtype, std::optional<ucft_dtype_t> forced, std::uint64_t count,
               std::uint64_t blocks = 1) {
  View view(receive, "recv", true, forced);
  if (view.dtype() != dtype) raise(UCFT_ERR_INVALID_PARAM, "recv: its elements are of another type than those of send");
  if (view.count() != count * blocks)
    raise(UCFT_ERR_INVALID_PARAM, fmt::format("recv: {} elements, but there must be {}", view.count(), count * blocks));
  return view;
}

// The input: send, or in place what is in receive. True: in place.
bool hold_input(py::object& send, py::handle receive, std::optional<ucft_dtype_t> dtype, Held& held) {
  const bool in_place = is_in_place(send, receive);
  if (in_place) {
    held.receive = View(receive, "recv", true, dtype);
  } else {
    send = with_buffer(send, "send");
    held.send = View(send, "send", false, dtype);
  }
  return in_place;
}

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

// The blocks of all ranks in an array: their counts, and where they are.
struct Places {
  const char *array, *prefix;  // of the names that the caller knows
  const std::vector<std::uint64_t>& counts;
  const std::optional<std::vector<std::uint64_t>>& displacements;

  void check_lengths(std::int32_t ranks) const {
    require(counts.size() == static_cast<std::size_t>(ranks),
            fmt::format("{}counts: {} of them for {} ranks", prefix, counts.size(), ranks));
    require(!displacements || displacements->size() == counts.size(),
            fmt::format("{0}displacements: there must be as many as {0}counts", prefix));
  }
  // elements: of the array.
  void check(std::uint64_t elements) const {
    std::uint64_t place = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint64_t at = displacements ? (*displacements)[i] : place;
      require(counts[i] <= elements && at <= elements - counts[i],
              fmt::format("{}: {} elements; the block of rank {}, {} elements at {}, doesn't fit", array, elements, i,
                          counts[i], at));
      place = at + counts[i];
    }
  }
};

// Of one rank, where the shares of all ranks are so many elements.
std::uint64_t share_of(std::uint64_t all, std::int32_t ranks, const char* name) {
  const auto count = static_cast<std::uint64_t>(ranks);
  require(all % count == 0, fmt::format("{}: {} elements are no whole share for each of {} ranks", name, all, ranks));
  return all / count;
}

// The shares that the root of a scatter gives.
void hold_shares(py::object& send, std::optional<ucft_dtype_t> dtype, Held& held) {
  require(!send.is_none() && !py::isinstance<InPlace>(send), "send: there must be an array at the root");
  send = with_buffer(send, "send");
  held.send = View(send, "send", false, dtype);
}

}  // namespace

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
std::shared_ptr<Request> Communicator::make(std::unique_ptr<Held> held, py::object value, Init init) {
  context_->collect();
  Held& all = *held;
  all.comm = handle_;
  raise_unless_ok(without_gil([&] { return init(all, &all.handle); }));
  auto request = std::make_shared<Request>(context_, size_, std::move(held), std::move(value));
  context_->add(request);
  return request;
}

template <class Init>
std::shared_ptr<Request> Communicator::start(std::unique_ptr<Held> held, py::object value, Init init) {
  std::shared_ptr<Request> request = make(std::move(held), std::move(value), init);
  request->post();
  return request;
}

std::shared_ptr<Request> Communicator::combine(InitOfSum init, py::object send, py::object receive, py::object op,
                                               TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool in_place = hold_input(send, receive, dtype, *held);
  if (!in_place) {
    if (receive.is_none()) receive = new_array(send, 0);
    held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count());
  }
  const ucft_operator_t how = operator_of(op, *held);
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(), all.receive.data(), all.receive.count(),
                all.receive.dtype(), &how, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::allreduce(py::object send, py::object receive, py::object op, TypeOf dtype,
                                                 OptionsOf options) {
  return combine(&ucft_allreduce_init, std::move(send), std::move(receive), std::move(op), dtype, options);
}

std::shared_ptr<Request> Communicator::scan(py::object send, py::object receive, py::object op, TypeOf dtype,
                                            OptionsOf options) {
  return combine(&ucft_scan_init, std::move(send), std::move(receive), std::move(op), dtype, options);
}

std::shared_ptr<Request> Communicator::exscan(py::object send, py::object receive, py::object op, TypeOf dtype,
                                              OptionsOf options) {
  require(!receive.is_none() || is_in_place(send, receive),
          "recv: there must be an array, which an exscan leaves as it was on the first rank");
  return combine(&ucft_exscan_init, std::move(send), std::move(receive), std::move(op), dtype, options);
}

std::shared_ptr<Request> Communicator::alltoall(py::object send, py::object receive, TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool in_place = hold_input(send, receive, dtype, *held);
  if (!in_place) {
    if (receive.is_none()) receive = new_array(send, 0, true);
    held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count());
  }
  const std::uint64_t share = share_of(held->receive.count(), size_, in_place ? "recv" : "send");
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return ucft_alltoall_init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(), all.receive.data(), share,
                              all.receive.dtype(), address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::alltoallv(py::object send, std::optional<std::vector<std::uint64_t>> send_counts,
                                                 py::object receive, std::vector<std::uint64_t> receive_counts,
                                                 std::optional<std::vector<std::uint64_t>> send_displacements,
                                                 std::optional<std::vector<std::uint64_t>> receive_displacements,
                                                 TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  const Places to{"recv", "recv_", receive_counts, receive_displacements};
  to.check_lengths(size_);
  const bool in_place = hold_input(send, receive, dtype, *held);
  if (!in_place) {
    require(send_counts.has_value(), "send_counts: there must be one for each rank");
    const Places from{"send", "send_", *send_counts, send_displacements};
    from.check_lengths(size_);
    from.check(held->send.count());
    held->receive = View(receive, "recv", true, dtype);
    require(held->send.dtype() == held->receive.dtype(), "recv: its elements are of another type than those of send");
  }
  to.check(held->receive.count());
  const auto data_of = [](const std::optional<std::vector<std::uint64_t>>& numbers) {
    return numbers ? numbers->data() : nullptr;
  };
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return ucft_alltoallv_init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(), data_of(send_counts),
                               data_of(send_displacements), all.receive.data(), receive_counts.data(),
                               data_of(receive_displacements), all.receive.dtype(), address_of(options), request);
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
    request = make(std::make_unique<Held>(), py::none(), [&](Held&, ucft_request_h* handle) {
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
  require(!py::isinstance<ucft_op_t>(receive), "recv: an operator; write op=");
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
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    const View& shape = all.send.is_there() ? all.send : all.receive;
    return ucft_reduce_init(handle_, all.send.is_there() ? all.send.data() : UCFT_IN_PLACE,
                            all.receive.is_there() ? all.receive.data() : nullptr, shape.count(), shape.dtype(), &how,
                            root, address_of(options), request);
  });
}

// recv may be the memory where the shares of all are.
std::shared_ptr<Request> Communicator::reduce_scatter(py::object send, py::object receive, py::object op, TypeOf dtype,
                                                      OptionsOf options) {
  auto held = std::make_unique<Held>();
  require(!py::isinstance<ucft_op_t>(receive), "recv: an operator; write op=");
  const bool in_place = hold_input(send, receive, dtype, *held);
  const std::uint64_t share =
      in_place ? share_of(held->receive.count(), size_, "recv") : share_of(held->send.count(), size_, "send");
  if (!in_place) {
    if (receive.is_none()) receive = new_share(send, size_);
    held->receive = receiving(receive, held->send.dtype(), dtype, share);
  }
  const ucft_operator_t how = operator_of(op, *held);
  return start(std::move(held), receive, [&](Held& both, ucft_request_h* request) {
    return ucft_reduce_scatter_init(handle_, in_place ? UCFT_IN_PLACE : both.send.data(), both.receive.data(), share,
                                    both.receive.dtype(), &how, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::reduce_scatterv(py::object send, py::object receive,
                                                       std::vector<std::uint64_t> counts, py::object op, TypeOf dtype,
                                                       OptionsOf options) {
  auto held = std::make_unique<Held>();
  require(counts.size() == static_cast<std::size_t>(size_),
          fmt::format("counts: {} of them for {} ranks", counts.size(), size_));
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const bool in_place = hold_input(send, receive, dtype, *held);
  if (!in_place)
    held->receive = receiving(receive, held->send.dtype(), dtype, counts[static_cast<std::size_t>(rank())]);
  const std::uint64_t there = in_place ? held->receive.count() : held->send.count();
  require(there == all, fmt::format("{}: {} elements, but counts say {}", in_place ? "recv" : "send", there, all));
  const ucft_operator_t how = operator_of(op, *held);
  return start(std::move(held), receive, [&](Held& both, ucft_request_h* request) {
    return ucft_reduce_scatterv_init(handle_, in_place ? UCFT_IN_PLACE : both.send.data(), both.receive.data(),
                                     counts.data(), both.receive.dtype(), &how, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::broadcast(py::object buffer, std::int32_t root, TypeOf dtype,
                                                 OptionsOf options) {
  return broadcast_of(View(buffer, "buffer", true, dtype), buffer, root, options);
}

std::shared_ptr<Request> Communicator::broadcast_of(View data, py::object value, std::int32_t root, OptionsOf options) {
  auto held = std::make_unique<Held>();
  held->receive = std::move(data);
  return start(std::move(held), std::move(value), [&](Held& all, ucft_request_h* request) {
    return ucft_broadcast_init(handle_, all.receive.data(), all.receive.count(), all.receive.dtype(), root,
                               address_of(options), request);
  });
}

// The block of this rank in send, of all in receive, which is a new array if there is none; in place in receive alone.
void Communicator::hold_blocks(py::object& send, py::object& receive, TypeOf dtype, Held& held) const {
  const auto ranks = static_cast<std::uint64_t>(size_);
  if (hold_input(send, receive, dtype, held)) {
    require(held.receive.count() % ranks == 0,
            fmt::format("recv: {} elements are no whole block for each of {} ranks", held.receive.count(), ranks));
    return;
  }
  if (receive.is_none()) receive = new_array(send, size_);
  if (held.send.dtype() == UCFT_ACCUMULATOR) dtype = UCFT_ACCUMULATOR;  // its words are int64 by themselves
  held.receive = receiving(receive, held.send.dtype(), dtype, held.send.count(), ranks);
}

std::shared_ptr<Request> Communicator::scatter(py::object send, py::object receive, std::int32_t root, TypeOf dtype,
                                               OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool in_place = py::isinstance<InPlace>(receive);
  std::uint64_t share = 0;
  if (root != rank()) {
    require(!in_place, "recv: in place at the root alone");
    require(!receive.is_none(), "recv: away from the root there must be an array for the share");
    held->receive = View(receive, "recv", true, dtype);
    share = held->receive.count();
  } else {
    hold_shares(send, dtype, *held);
    share = share_of(held->send.count(), size_, "send");
    if (receive.is_none()) receive = new_share(send, size_);
    if (!in_place) held->receive = receiving(receive, held->send.dtype(), dtype, share);
  }
  const ucft_dtype_t type = in_place ? held->send.dtype() : held->receive.dtype();
  if (in_place) receive = py::none();
  return start(std::move(held), receive, [&](Held& both, ucft_request_h* request) {
    return ucft_scatter_init(handle_, both.send.is_there() ? both.send.data() : nullptr,
                             in_place ? const_cast<void*>(UCFT_IN_PLACE) : both.receive.data(), share, type, root,
                             address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::scatterv(py::object send, py::object receive, std::vector<std::uint64_t> counts,
                                                std::int32_t root, TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  require(counts.size() == static_cast<std::size_t>(size_),
          fmt::format("counts: {} of them for {} ranks", counts.size(), size_));
  const bool in_place = py::isinstance<InPlace>(receive), is_root = root == rank();
  require(is_root || !in_place, "recv: in place at the root alone");
  if (is_root) {
    hold_shares(send, dtype, *held);
    const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    require(held->send.count() == all, fmt::format("send: {} elements, but counts say {}", held->send.count(), all));
  }
  if (!in_place) {
    held->receive = View(receive, "recv", true, dtype);
    const std::uint64_t mine = counts[static_cast<std::size_t>(rank())];
    if (is_root) held->receive = receiving(receive, held->send.dtype(), dtype, mine);
    require(held->receive.count() == mine,
            fmt::format("recv: {} elements, but counts say {}", held->receive.count(), mine));
  }
  const ucft_dtype_t type = in_place ? held->send.dtype() : held->receive.dtype();
  if (in_place) receive = py::none();
  return start(std::move(held), receive, [&](Held& both, ucft_request_h* request) {
    return ucft_scatterv_init(handle_, both.send.is_there() ? both.send.data() : nullptr,
                              in_place ? const_cast<void*>(UCFT_IN_PLACE) : both.receive.data(), counts.data(), type,
                              root, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::gather(py::object send, py::object receive, std::int32_t root, TypeOf dtype,
                                              OptionsOf options) {
  auto held = std::make_unique<Held>();
  if (root == rank()) {
    hold_blocks(send, receive, dtype, *held);
  } else {
    require(!is_in_place(send, receive), "send: in place at the root alone");
    send = with_buffer(send, "send");
    held->send = View(send, "send", false, dtype);
    receive = py::none();
  }
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    const bool in_place = !all.send.is_there();
    return ucft_gather_init(handle_, in_place ? UCFT_IN_PLACE : all.send.data(),
                            all.receive.is_there() ? all.receive.data() : nullptr,
                            in_place ? all.receive.count() / static_cast<std::uint64_t>(size_) : all.send.count(),
                            in_place ? all.receive.dtype() : all.send.dtype(), root, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::allgather(py::object send, py::object receive, TypeOf dtype, OptionsOf options) {
  auto held = std::make_unique<Held>();
  const auto ranks = static_cast<std::uint64_t>(size_);
  hold_blocks(send, receive, dtype, *held);
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return ucft_allgather_init(handle_, !all.send.is_there() ? UCFT_IN_PLACE : all.send.data(), all.receive.data(),
                               all.receive.count() / ranks, all.receive.dtype(), address_of(options), request);
  });
}

bool Communicator::hold_blocks(py::object& send, py::object& receive, const std::vector<std::uint64_t>& counts,
                               const std::optional<std::vector<std::uint64_t>>& displacements, bool gets, TypeOf dtype,
                               Held& held) const {
  const Places places{"recv", "", counts, displacements};
  places.check_lengths(size_);
  const bool in_place = is_in_place(send, receive);
  require(gets || !in_place, "send: in place at the root alone");
  if (gets) held.receive = View(receive, "recv", true, dtype);
  if (gets) places.check(held.receive.count());
  if (!gets) receive = py::none();
  if (in_place) return false;
  send = with_buffer(send, "send");
  held.send = View(send, "send", false, dtype);
  require(!gets || held.send.dtype() == held.receive.dtype(),
          "recv: its elements are of another type than those of send");
  const std::uint64_t own = counts[static_cast<std::size_t>(rank())];
  require(held.send.count() == own, fmt::format("send: {} elements, but counts say {}", held.send.count(), own));
  return true;
}

std::shared_ptr<Request> Communicator::gatherv(py::object send, py::object receive, std::vector<std::uint64_t> counts,
                                               std::int32_t root,
                                               std::optional<std::vector<std::uint64_t>> displacements, TypeOf dtype,
                                               OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool gives = hold_blocks(send, receive, counts, displacements, root == rank(), dtype, *held);
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return ucft_gatherv_init(handle_, gives ? all.send.data() : UCFT_IN_PLACE,
                             all.receive.is_there() ? all.receive.data() : nullptr, counts.data(),
                             displacements ? displacements->data() : nullptr,
                             gives ? all.send.dtype() : all.receive.dtype(), root, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::allgatherv(py::object send, py::object receive,
                                                  std::vector<std::uint64_t> counts,
                                                  std::optional<std::vector<std::uint64_t>> displacements, TypeOf dtype,
                                                  OptionsOf options) {
  auto held = std::make_unique<Held>();
  const bool gives = hold_blocks(send, receive, counts, displacements, true, dtype, *held);
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return ucft_allgatherv_init(handle_, gives ? all.send.data() : UCFT_IN_PLACE, all.receive.data(), counts.data(),
                                displacements ? displacements->data() : nullptr, all.receive.dtype(),
                                address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::agree(std::uint64_t flags, OptionsOf options) {
  Options with = options.value_or(Options{});
  with.uniform = 1;
  return allreduce(py::array_t<std::uint64_t>(1, &flags), py::none(), py::cast(UCFT_BAND), {}, with);
}

std::shared_ptr<Request> Communicator::barrier(OptionsOf options) {
  return start(std::make_unique<Held>(), py::none(), [&](Held&, ucft_request_h* request) {
    return ucft_barrier_init(handle_, address_of(options), request);
  });
}

std::shared_ptr<Request> Communicator::gossip(py::object send, py::object receive,
                                              const std::optional<GossipOptions>& options, TypeOf dtype) {
  auto held = std::make_unique<Held>();
  held->kind = Kind::gossip;
  send = with_buffer(send, "send");
  held->send = View(send, "send", false, dtype);
  if (receive.is_none()) receive = new_array(send, 0);
  held->receive = receiving(receive, held->send.dtype(), dtype, held->send.count());
  return start(std::move(held), receive, [&](Held& all, ucft_request_h* request) {
    return ucft_gossip_allreduce_init(handle_, all.send.data(), all.receive.data(), all.receive.count(),
                                      all.receive.dtype(), options ? &*options : nullptr, request);
  });
}

std::shared_ptr<Request> Communicator::send(py::object values, std::int32_t destination, std::int32_t tag,
                                            TypeOf dtype) {
  require(!values.is_none() && !py::isinstance<InPlace>(values), "values: there must be an array");
  auto held = std::make_unique<Held>();
  held->kind = Kind::send;
  held->destination = destination;
  values = with_buffer(values, "values");
  held->send = View(values, "values", false, dtype);
  return start(std::move(held), py::none(), [&](Held& all, ucft_request_h* request) {
    return ucft_send_init(handle_, all.send.data(), all.send.count(), all.send.dtype(), destination, tag, request);
  });
}

std::shared_ptr<Request> Communicator::receive(py::object out, std::int32_t source, std::int32_t tag, TypeOf dtype) {
  require(!out.is_none(), "out: there must be an array, as the length of the message isn't known");
  auto held = std::make_unique<Held>();
  held->kind = Kind::receive;
  held->receive = View(out, "out", true, dtype);
  return start(std::move(held), out, [&](Held& all, ucft_request_h* request) {
    return ucft_recv_init(handle_, all.receive.data(), all.receive.count(), all.receive.dtype(), source, tag, request);
  });
}

}  // namespace ucft::python

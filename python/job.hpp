// Contexts, communicators and requests as Python sees them.
//
// Every call of ucft is made without the GIL: another thread of this process may be inside an operator that waits for
// it. Ownership: a request and a communicator keep their context, and a request keeps the buffers that it was given. A
// request that is dropped while it is in progress (Ctrl-C, or nobody kept it) is left to the context until it is
// complete. (A receive is cancelled, unless a message is for it already.) Leaving the job waits for those, and for
// requests in progress that the program still holds.
//
// An operation that ucft has no room for yet is deferred. Its context posts it when others are complete and this rank
// is inside a call. Operations of its kind behind it on the same communicator wait, too, as ranks must agree on the
// order. Sends and receives have no part in that order, and always have room: they are posted at once.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/elements.hpp"
#include "python/errors.hpp"
#include "ucft/ucft.hpp"

namespace ucft::python {

template <class Call>
auto without_gil(Call call) {
  const py::gil_scoped_release released;
  return call();
}

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) raise(UCFT_ERR_INVALID_PARAM, otherwise);
}

// UCFT_SUM .. or a function of the caller: inout[i] = f(in, inout), which writes inout.
struct UserOperator {
  py::function function;
  py::object error;  // the first exception that it raised; the request raises it when it is complete

  static void call(const void* in, void* inout, std::uint64_t count, ucft_dtype_t dtype, void* arg);
};

// Collectives are matched among themselves, and so are gossip operations.
enum class Kind : std::uint8_t { collective, gossip, send, receive };

// The memory that ucft reads and writes until an operation is complete.
struct Held {
  ucft_request_h handle = UCFT_REQUEST_NULL;
  ucft_comm_h comm = UCFT_COMM_NULL;
  Kind kind = Kind::collective;
  std::int32_t destination = -1;    // of a send
  bool is_deferred = false;         // posted by the program, but not by its context yet
  ucft_status_t refused = UCFT_OK;  // what the context was told when it posted it at last
  std::string why;
  View send, receive;
  std::unique_ptr<UserOperator> user;
};

class Request;

// Ctrl-C is looked for so often.
constexpr std::uint64_t slice_us = 20'000;

// Between two looks at what isn't complete. Lets other threads run.
class Pause {
 public:
  void operator()();

 private:
  unsigned length_us_ = 10;
};

class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(const ucft_context_params_t& params, py::object on_failure, py::object allgather,
          std::optional<std::int32_t> rank, std::optional<std::int32_t> size);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void close();
  // No last word: if the process ends, that is a failure, which the others survive.
  void abandon();
  bool is_open() const { return handle_ != UCFT_CONTEXT_NULL; }

  std::int32_t rank() const;
  std::int32_t size() const;
  std::string settings() const;
  py::tuple waiting() const;
  std::string address() const;
  // The first communicator of a newcomer, once it is admitted; of others as ucft_comm_create.
  ucft_comm_h join(double timeout_s);
  void progress();
  ucft_context_h handle() const { return handle_; }

  // Or defers it.
  void post(Held& held);
  void post_deferred();
  // Whether there are deferred operations that must be posted before it.
  bool is_behind_others(const Held& held) const;
  // All that is deferred on the communicator, when there is room.
  void make_room(ucft_comm_h comm);
  bool has_deferred(ucft_comm_h comm) const;
  bool has_deferred() const { return !deferred_.empty(); }

  void add(const std::shared_ptr<Request>& request) { requests_[request.get()] = request; }
  void remove(Request* request) { requests_.erase(request); }
  void leave_to(std::unique_ptr<Held> held) { left_.push_back(std::move(held)); }
  // It has not left the job, but no caller can ask it any more: memory that it may still write must stay.
  bool is_abandoned() const { return abandoned_; }
  void collect();  // of what was left, that which is complete

 private:
  struct Unfinished {
    ucft_request_h handle;
    bool is_deferred;
  };
  // One that is in progress, of those that were left and of those that the program holds. None: all are complete.
  std::optional<Unfinished> unfinished();
  static void report(const ucft_failure_t* failure, void* arg);
  static ucft_status_t exchange(void* src, void* recv, std::size_t size, void* arg, void** request);

  ucft_context_h handle_ = UCFT_CONTEXT_NULL;
  bool abandoned_ = false;
  py::object on_failure_, allgather_;
  std::size_t blocks_ = 0;  // that allgather must give
  std::exception_ptr exchange_error_;
  std::list<std::unique_ptr<Held>> left_;
  std::map<Request*, std::weak_ptr<Request>> requests_;  // that the program holds
  std::list<Held*> deferred_;                            // in the order of their posts
  bool is_posting_ = false;                              // some thread sees to those
};

struct GossipResult : ucft_gossip_result_t {
  GossipResult() : ucft_gossip_result_t UCFT_GOSSIP_RESULT_INIT {}
  py::object value;
};

// value: the array that the message is in.
struct Received : ucft_received_t {
  Received() : ucft_received_t UCFT_RECEIVED_INIT {}
  py::object value;
};

struct InPlace {};  // instead of what is sent

class Request {
 public:
  Request(std::shared_ptr<Context> context, std::int32_t ranks, std::unique_ptr<Held> held, py::object value);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void post();
  bool is_pending() const;
  Held& held() const { return *held_; }
  bool test();
  py::object wait(std::optional<double> timeout_s);
  py::object result();
  py::object estimate();
  std::uint32_t contributors();
  // Posts it, on arrays at the same places as before, and waits.
  py::object run(View send, View receive, py::object value);

 private:
  void raise_if_failed(ucft_status_t status);
  void raise_if_refused() const;
  Received received() const;
  ucft_status_t look(std::uint64_t limit_us, Pause& pause);

  std::shared_ptr<Context> context_;
  const std::int32_t ranks_;
  std::unique_ptr<Held> held_;
  py::object value_;
};

// One call of ucft_comm_renew, in a thread of its own. It has no limit, so Ctrl-C could not end it otherwise.
class Renewal;

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(std::shared_ptr<Context> context, ucft_comm_h handle);
  ~Communicator();

  std::int32_t rank() const;
  std::int32_t size() const { return size_; }
  bool is_open() const { return handle_ != UCFT_COMM_NULL && context_->is_open(); }
  py::tuple failed() const;
  py::tuple look() const;
  std::shared_ptr<Communicator> dup();
  std::shared_ptr<Communicator> split(std::optional<std::int32_t> colour, std::int32_t key);
  // From here on this one is closed when it is dropped: a program that renews often drops as many.
  std::shared_ptr<Communicator> renew(std::int32_t newcomers, double timeout_s, std::int32_t grow_to);
  py::tuple newcomers() const;
  py::object share_state(py::object state, std::uint64_t version);
  void close();

  using OptionsOf = const std::optional<Options>&;
  using TypeOf = std::optional<ucft_dtype_t>;
  std::shared_ptr<Request> allreduce(py::object send, py::object receive, py::object op, TypeOf dtype,
                                     OptionsOf options);
  std::shared_ptr<Request> reduce(py::object send, py::object receive, py::object op, std::int32_t root, TypeOf dtype,
                                  OptionsOf options);
  std::shared_ptr<Request> broadcast(py::object buffer, std::int32_t root, TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> reduce_scatter(py::object send, py::object receive, py::object op, TypeOf dtype,
                                          OptionsOf options);
  std::shared_ptr<Request> reduce_scatterv(py::object send, py::object receive, std::vector<std::uint64_t> counts,
                                           py::object op, TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> scatter(py::object send, py::object receive, std::int32_t root, TypeOf dtype,
                                   OptionsOf options);
  std::shared_ptr<Request> scatterv(py::object send, py::object receive, std::vector<std::uint64_t> counts,
                                    std::int32_t root, TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> alltoall(py::object send, py::object receive, TypeOf dtype, OptionsOf options);
  // send_counts: none in place.
  std::shared_ptr<Request> alltoallv(py::object send, std::optional<std::vector<std::uint64_t>> send_counts,
                                     py::object receive, std::vector<std::uint64_t> receive_counts,
                                     std::optional<std::vector<std::uint64_t>> send_displacements,
                                     std::optional<std::vector<std::uint64_t>> receive_displacements, TypeOf dtype,
                                     OptionsOf options);
  std::shared_ptr<Request> scan(py::object send, py::object receive, py::object op, TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> exscan(py::object send, py::object receive, py::object op, TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> gather(py::object send, py::object receive, std::int32_t root, TypeOf dtype,
                                  OptionsOf options);
  std::shared_ptr<Request> gatherv(py::object send, py::object receive, std::vector<std::uint64_t> counts,
                                   std::int32_t root, std::optional<std::vector<std::uint64_t>> displacements,
                                   TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> allgather(py::object send, py::object receive, TypeOf dtype, OptionsOf options);
  std::shared_ptr<Request> allgatherv(py::object send, py::object receive, std::vector<std::uint64_t> counts,
                                      std::optional<std::vector<std::uint64_t>> displacements, TypeOf dtype,
                                      OptionsOf options);
  std::shared_ptr<Request> agree(std::uint64_t flags, OptionsOf options);
  std::shared_ptr<Request> barrier(OptionsOf options);
  std::shared_ptr<Request> gossip(py::object send, py::object receive, const std::optional<GossipOptions>& options,
                                  TypeOf dtype);
  std::shared_ptr<Request> send(py::object values, std::int32_t destination, std::int32_t tag, TypeOf dtype);
  std::shared_ptr<Request> receive(py::object out, std::int32_t source, std::int32_t tag, TypeOf dtype);

  // allreduce(...)->wait() for two arrays. It uses the request of the last time if all is as it was then: making one
  // takes longer than a small allreduce.
  py::object allreduce_again(py::object send, py::object receive, ucft_op_t op);

  const std::shared_ptr<Context>& context() const { return context_; }

 private:
  struct Signature {
    const void* send = nullptr;
    const void* receive = nullptr;
    std::uint64_t count = 0;
    ucft_dtype_t dtype = UCFT_FLOAT;
    ucft_op_t op = UCFT_SUM;
    bool operator==(const Signature&) const = default;
  };

  std::vector<std::int32_t> newcomer_ranks() const;
  std::shared_ptr<Request> broadcast_of(View data, py::object value, std::int32_t root, OptionsOf options);
  void hold_blocks(py::object& send, py::object& receive, TypeOf dtype, Held& held) const;
  // The same with counts. False: in place.
  bool hold_blocks(py::object& send, py::object& receive, const std::vector<std::uint64_t>& counts,
                   const std::optional<std::vector<std::uint64_t>>& displacements, bool gets, TypeOf dtype,
                   Held& held) const;
  using InitOfSum = ucft_status_t (*)(ucft_comm_h, const void*, void*, std::uint64_t, ucft_dtype_t,
                                      const ucft_operator_t*, const ucft_coll_options_t*, ucft_request_h*);
  std::shared_ptr<Request> combine(InitOfSum init, py::object send, py::object receive, py::object op, TypeOf dtype,
                                   OptionsOf options);
  // Runs init (a call of ucft that makes held->handle) without the GIL.
  template <class Init>
  std::shared_ptr<Request> make(std::unique_ptr<Held> held, py::object value, Init init);
  // And posts the request.
  template <class Init>
  std::shared_ptr<Request> start(std::unique_ptr<Held> held, py::object value, Init init);

  std::shared_ptr<Context> context_;
  ucft_comm_h handle_;
  std::int32_t size_ = 0;
  std::shared_ptr<Request> last_;  // of allreduce_again: complete; its arrays may be gone
  Signature last_signature_;
  std::shared_ptr<Renewal> renewal_;  // that Ctrl-C has interrupted: the next call goes on with it
  bool is_renewed_ = false;
};

}  // namespace ucft::python

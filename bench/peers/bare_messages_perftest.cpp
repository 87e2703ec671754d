// bare_messages_perftest: the data flow of ucft's allreduce and allgather between two hosts of one rank each, by UCX's
// active messages, without a library around it. UCX is set up as ucft sets it up over tcp: data are copied, since UCX
// 1.13 can't be trusted with zero copy when a peer dies. But no rank dies, nothing is compared, and no result waits for
// the whole of it. The time of ucft beyond this is the price of a library that survives. The time of this beyond a peer
// is the price of UCX's active messages (bench/README.md).
//
//   mpirun -n 2 bare_messages_perftest -t allreduce -s 8:1M
//
// Short payloads: both ranks send theirs. Long sums: each rank sends the other's half in pieces, and passes the sums of
// its own half on, piece by piece.
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/peers/bare.hpp"
#include "bench/peers/peer_perftest.hpp"
#include "collectives/reduction/reduction.hpp"

namespace ucft::detail::bench {
namespace {

constexpr std::size_t short_bytes = 16384, piece_bytes = 61440;

void expect(bool is_so, const char* what) {
  if (is_so) return;
  fmt::print(stderr, "bare_messages_perftest: {} failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// A worker with one connection, to the other rank.
class Connection {
 public:
  Connection(ucp_am_recv_callback_t on_arrival, void* owner, int me) {
    ucp_config_t* config = nullptr;
    expect(ucp_config_read(nullptr, nullptr, &config) == UCS_OK, "ucp_config_read");
    unsigned major = 0, minor = 0, release = 0;
    ucp_get_version(&major, &minor, &release);
    const std::string of_tcp = major > 1 || minor >= 18 ? "TCP_" : "";
    for (const char* never : {"KEEPALIVE_INTERVAL", "ZCOPY_THRESH", "RNDV_THRESH"})
      expect(ucp_config_modify(config, never, "inf") == UCS_OK, never);
    for (const std::string& segment : {of_tcp + "TX_SEG_SIZE", of_tcp + "RX_SEG_SIZE"})
      expect(ucp_config_modify(config, segment.c_str(), "256k") == UCS_OK, segment.c_str());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    expect(ucp_init(&params, config, &context_) == UCS_OK, "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t how{};
    how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    how.thread_mode = UCS_THREAD_MODE_SINGLE;
    expect(ucp_worker_create(context_, &how, &worker_) == UCS_OK, "ucp_worker_create");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = id;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = on_arrival;
    handler.arg = owner;
    expect(ucp_worker_set_am_recv_handler(worker_, &handler) == UCS_OK, "ucp_worker_set_am_recv_handler");
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    expect(ucp_worker_get_address(worker_, &address, &bytes) == UCS_OK, "ucp_worker_get_address");
    std::vector<std::byte> mine(4096), theirs(mine.size());
    expect(bytes <= mine.size(), "an address of up to 4096 bytes");
    std::memcpy(mine.data(), address, bytes);
    ucp_worker_release_address(worker_, address);
    MPI_Sendrecv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, 1 - me, 0, theirs.data(),
                 static_cast<int>(theirs.size()), MPI_BYTE, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ucp_ep_params_t to{};
    to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    to.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
    to.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    expect(ucp_ep_create(worker_, &to, &endpoint_) == UCS_OK, "ucp_ep_create");
  }
  ~Connection() {
    MPI_Barrier(MPI_COMM_WORLD);  // the other rank has all
    ucp_request_param_t param{};
    void* const closing = ucp_ep_close_nbx(endpoint_, &param);
    if (UCS_PTR_IS_PTR(closing)) pending_.push_back(closing);
    finish();
    MPI_Barrier(MPI_COMM_WORLD);
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // header and data must stay until finish().
  void send(const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    void* const request = ucp_am_send_nbx(endpoint_, id, header, header_bytes, data, bytes, &param);
    expect(!UCS_PTR_IS_ERR(request), "ucp_am_send_nbx");
    if (request != nullptr) pending_.push_back(request);
  }
  void progress() { ucp_worker_progress(worker_); }
  void finish() {
    for (void* const each : pending_) {
      while (ucp_request_check_status(each) == UCS_INPROGRESS) progress();
      ucp_request_free(each);
    }
    pending_.clear();
  }

 private:
  static constexpr unsigned id = 17;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<void*> pending_;
};

template <class T>
class Bare {
 public:
  static constexpr const char* name = "bare_messages";

  Bare(World world, const Arguments& arguments)
      : me_(world.rank),
        reduction_(static_cast<DataType>(arguments.dtype)),
        combine_two_(reduction_),
        connection_(&Bare::on_arrival, this, world.rank) {}

  void begin_row(std::size_t count) {
    count_ = count;
    heads_.resize(2 * (count * sizeof(T) / piece_bytes + 2));
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void allreduce(std::span<const T> send, std::span<T> recv) {
    const std::size_t half = count_ * sizeof(T) > short_bytes ? count_ / 2 : 0;
    const std::size_t begin = me_ == 0 ? 0 : half, end = me_ == 0 && half > 0 ? half : count_;  // of what it sums
    this->begin(send, recv);
    give(What::value, send, me_ == 0 ? half : 0, me_ == 0 || half == 0 ? count_ : half);
    take_early();
    for (std::size_t passed_on = begin; got_[0] < end - begin || (half > 0 && got_[1] < count_ - (end - begin));) {
      connection_.progress();
      if (half == 0 || begin + got_[0] == passed_on) continue;
      give(What::result, std::span<const T>(recv), passed_on, begin + got_[0]);
      passed_on = begin + got_[0];
    }
    connection_.finish();
  }

  void allgather(std::span<const T> send, std::span<T> recv) {
    begin(send, recv.subspan(static_cast<std::size_t>(1 - me_) * count_, count_));
    give(What::result, send, 0, count_);
    std::ranges::copy(send, recv.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(me_) * count_));
    take_early();
    while (got_[1] < count_) connection_.progress();
    connection_.finish();
  }

  void reduce(std::span<const T>, std::span<T>) { std::abort(); }  // these are refused
  void broadcast(std::span<T>) { std::abort(); }
  void gather(std::span<const T>, std::span<T>) { std::abort(); }
  void reduce_scatter(std::span<const T>, std::span<T>) { std::abort(); }
  void scatter(std::span<const T>, std::span<T>) { std::abort(); }
  void alltoall(std::span<const T>, std::span<T>) { std::abort(); }
  void alltoallv(std::span<const T>, std::span<T>) { std::abort(); }
  void sendrecv(std::span<const T>, std::span<T>) { std::abort(); }
  void scan(std::span<const T>, std::span<T>) { std::abort(); }
  void exscan(std::span<const T>, std::span<T>) { std::abort(); }
  void barrier() { std::abort(); }

 private:
  enum class What : std::uint32_t { value, result };
  struct Head {
    std::uint64_t operation = 0, offset = 0;  // in elements
    What what{};
  };
  struct Early {
    Head head;
    std::vector<std::byte> data;
  };

  void begin(std::span<const T> send, std::span<T> recv) {
    ++operation_;
    send_ = send;
    recv_ = recv;
    got_[0] = got_[1] = used_heads_ = 0;
  }
  void give(What what, std::span<const T> from, std::size_t begin, std::size_t end) {
    constexpr std::size_t most = piece_bytes / sizeof(T);
    for (; begin < end; begin += std::min(most, end - begin)) {
      Head& head = heads_[used_heads_++ % heads_.size()] = {operation_, begin, what};
      connection_.send(&head, sizeof head, from.data() + begin, std::min(most, end - begin) * sizeof(T));
    }
  }
  void take(const Head& head, const void* data, std::size_t count) {
    T* const to = recv_.data() + head.offset;
    if (head.what == What::result) {
      std::memcpy(to, data, count * sizeof(T));
    } else {
      const auto* const mine = reinterpret_cast<const std::byte*>(send_.data() + head.offset);
      const auto* const theirs = static_cast<const std::byte*>(data);
      combine_two_(reinterpret_cast<std::byte*>(to), me_ == 0 ? mine : theirs, me_ == 0 ? theirs : mine, count);
    }
    got_[static_cast<std::size_t>(head.what)] += count;
  }
  // The other rank may be one operation ahead.
  void take_early() {
    for (const Early& each : early_) take(each.head, each.data.data(), each.data.size() / sizeof(T));
    early_.clear();
  }
  static ucs_status_t on_arrival(void* owner, const void* header, std::size_t, void* data, std::size_t bytes,
                                 const ucp_am_recv_param_t*) {
    auto& self = *static_cast<Bare*>(owner);
    Head head;
    std::memcpy(&head, header, sizeof head);
    const auto* const begin = static_cast<const std::byte*>(data);
    if (head.operation == self.operation_)
      self.take(head, data, bytes / sizeof(T));
    else
      self.early_.push_back({head, {begin, begin + bytes}});
    return UCS_OK;
  }

  const int me_;
  const Reduction reduction_;
  const Combiner combine_two_;
  std::size_t count_ = 0;
  std::uint64_t operation_ = 0;
  std::span<const T> send_;
  std::span<T> recv_;
  std::size_t got_[2] = {}, used_heads_ = 0;  // elements of this operation, by What
  std::vector<Head> heads_;
  std::vector<Early> early_;
  Connection connection_;
};

}  // namespace
}  // namespace ucft::detail::bench

int main(int argument_count, char** argument_values) {
  using namespace ucft::detail::bench;
  return peer_perftest<Bare>(argument_count, argument_values, "bare_messages", [](const Arguments& arguments) {
    const bool is_here = arguments.test == Test::allreduce || arguments.test == Test::allgather;
    if (join_world().size != 2) return std::string("two ranks only: mpirun -n 2");
    if (!is_here) return std::string("-t allreduce and allgather only");
    return lacks_of_bare(arguments);
  });
}

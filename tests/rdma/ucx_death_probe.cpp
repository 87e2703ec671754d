// Plain UCX, no ucft: what a connection does when its peer dies, hangs or is cut off. Driven by measure_ucx_death.
//   ucx_death_probe serve PORT INTERVAL        has memory that the caller reads and writes
//   ucx_death_probe call HOST PORT INTERVAL    has one endpoint per kind of operation, and posts one every INTERVAL ms
// Commands come as lines on stdin, results go as JSON lines to stdout:
//   fault    this is time 0
//   stop     (caller) no more operations; flush for up to 2 s, force-close, then watch the local buffers
//   close    (server) force-closes its endpoints
//   unmap    (server) ucp_mem_unmap
//   remap    (server) munmap, and other memory at the same address
//   fill     (server) writes a pattern all over the memory
//   count    (server) how many words of it are not that pattern any more, per kind of operation
//   die      SIGKILL
//   quit     prints the summary, ends. So does the end of stdin.
// PROBE_NAME names the process in the output; the caller leaves out the operations in PROBE_WITHOUT, put64k for
// example. A caller's endpoint that has failed does by itself what "stop" says, a second after its error callback.
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Counts = std::map<std::string, int>;

enum class Operation { message, put_8, put_8_flush, put_64k, get_8, get_64k, add, idle };
constexpr std::array operations{Operation::message, Operation::put_8,   Operation::put_8_flush, Operation::put_64k,
                                Operation::get_8,   Operation::get_64k, Operation::add,         Operation::idle};
constexpr std::array names{"message", "put 8", "put 8 + flush", "put 64K", "get 8", "get 64K", "fetch-add", "idle"};
constexpr std::array identifiers{"message", "put8", "putflush", "put64k", "get8", "get64k", "add", "idle"};
constexpr std::size_t area_bytes = 2 << 20;  // of the server's memory, per operation
constexpr std::size_t memory_bytes = operations.size() * area_bytes;
constexpr int poison = 0xdd;
constexpr std::uint64_t poison_word = 0xdddddddddddddddd;
constexpr std::uint64_t source_poison_word = 0xeeeeeeeeeeeeeeee;  // into buffers of puts that are over

ucp_context_h context;
ucp_worker_h worker;
std::string name;  // of this process in the output
double interval_ms;
bool faulted = false;
Clock::time_point time_zero;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
double since(Clock::time_point from) { return seconds_between(from, Clock::now()); }

void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", name.c_str(), what, ucs_status_string(status));
  std::exit(1);
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::exit(1);
}

std::string name_of(ucs_status_t status) {
  switch (status) {
    case UCS_OK: return "OK";
    case UCS_INPROGRESS: return "INPROGRESS";
    case UCS_ERR_IO_ERROR: return "IO_ERROR";
    case UCS_ERR_CANCELED: return "CANCELED";
    case UCS_ERR_TIMED_OUT: return "TIMED_OUT";
    case UCS_ERR_UNREACHABLE: return "UNREACHABLE";
    case UCS_ERR_CONNECTION_RESET: return "CONNECTION_RESET";
    case UCS_ERR_ENDPOINT_TIMEOUT: return "ENDPOINT_TIMEOUT";
    default: return ucs_status_string(status);
  }
}

std::string json(const Counts& counts) {
  std::string text = "{";
  for (const auto& [what, count] : counts)
    text += (text.size() > 1 ? ", \"" : "\"") + what + "\": " + std::to_string(count);
  return text + "}";
}

// One JSON line of this process
class Line {
 public:
  explicit Line(const char* event) : text_("{\"process\": \"" + name + "\", \"event\": \"" + event + "\"") {
    if (faulted) number("t", since(time_zero));
  }
  Line& number(const char* key, double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.3f", value);
    return raw(key, digits);
  }
  Line& count(const char* key, std::int64_t value) { return raw(key, std::to_string(value)); }
  Line& word(const char* key, const std::string& value) { return raw(key, '"' + value + '"'); }
  Line& raw(const char* key, const std::string& value) {
    text_ += std::string(", \"") + key + "\": " + value;
    return *this;
  }
  ~Line() {
    std::puts((text_ + "}").c_str());
    std::fflush(stdout);
  }

 private:
  std::string text_;
};

// ---- UCX

void open_ucx() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  check(ucp_init(&params, nullptr, &context), "ucp_init");
  ucp_worker_params_t worker_params{};
  check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
}

void progress() {
  for (int i = 0; i < 1000 && ucp_worker_progress(worker) != 0; ++i) {}
}

ucp_ep_h connect(const std::vector<std::byte>& address, ucp_err_handler_cb_t on_error, void* arg) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, arg};
  ucp_ep_h endpoint;
  check(ucp_ep_create(worker, &params, &endpoint), "ucp_ep_create");
  return endpoint;
}

ucs_status_ptr_t force_close(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  return ucp_ep_close_nbx(endpoint, &param);
}

ucs_status_ptr_t flush(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  return ucp_ep_flush_nbx(endpoint, &param);
}

ucs_status_t state_of(ucs_status_ptr_t request) {
  return UCS_PTR_IS_PTR(request) ? ucp_request_check_status(request) : UCS_PTR_STATUS(request);
}

// ---- Exchange over tcp, before the start

void send_block(int socket, const void* data, std::size_t bytes) {
  const std::uint64_t length = bytes;
  require(::send(socket, &length, sizeof length, 0) == sizeof length, "send");
  require(::send(socket, data, bytes, 0) == static_cast<ssize_t>(bytes), "send");
}

std::vector<std::byte> receive_block(int socket) {
  std::uint64_t length;
  require(::recv(socket, &length, sizeof length, MSG_WAITALL) == sizeof length, "recv");
  std::vector<std::byte> data(length);
  require(::recv(socket, data.data(), length, MSG_WAITALL) == static_cast<ssize_t>(length), "recv");
  return data;
}

void send_worker_address(int socket) {
  ucp_address_t* address;
  std::size_t bytes;
  check(ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
  send_block(socket, address, bytes);
  ucp_worker_release_address(worker, address);
}

int accept_one(int port) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  require(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  require(::listen(listener, 1) == 0, "listen");
  const int socket = ::accept(listener, nullptr, nullptr);
  require(socket >= 0, "accept");
  ::close(listener);
  return socket;
}

int connect_to(const char* host, const char* port) {
  addrinfo* found = nullptr;
  require(getaddrinfo(host, port, nullptr, &found) == 0, "getaddrinfo");
  for (int tries = 0; tries < 600; ++tries) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, found->ai_addr, found->ai_addrlen) == 0) return socket;
    ::close(socket);
    usleep(50000);
  }
  require(false, "connect");
  return -1;
}

// All endpoints are connected on both sides when this returns.
void meet(int socket, const std::vector<ucp_ep_h>& endpoints) {
  for (ucp_ep_h endpoint : endpoints) {
    const ucs_status_ptr_t request = flush(endpoint);
    while (state_of(request) == UCS_INPROGRESS) progress();
    check(state_of(request), "ucp_ep_flush_nbx");
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  char ready = 1;
  require(::send(socket, &ready, 1, 0) == 1, "send");
  while (::recv(socket, &ready, 1, MSG_DONTWAIT) != 1) progress();
}

// ---- Commands

// The next command, or "" if there is none yet
std::string next_command() {
  static std::string buffered;
  static bool ended = false;
  pollfd input{0, POLLIN, 0};
  if (!ended && poll(&input, 1, 0) > 0) {
    char bytes[256];
    const ssize_t n = ::read(0, bytes, sizeof bytes);
    if (n > 0)
      buffered.append(bytes, static_cast<std::size_t>(n));
    else
      ended = true;
  }
  const std::size_t end = buffered.find('\n');
  if (end == buffered.npos) return ended ? "quit" : "";
  const std::string command = buffered.substr(0, end);
  buffered.erase(0, end + 1);
  return command;
}

bool take_common(const std::string& command) {
  if (command == "die") raise(SIGKILL);
  if (command != "fault") return false;
  faulted = true;
  time_zero = Clock::now();
  return true;
}

// ---- The server

struct Server {
  std::byte* memory = nullptr;
  ucp_mem_h handle = nullptr;
  std::vector<ucp_ep_h> endpoints;
  std::int64_t messages = 0;

  static ucs_status_t on_message(void* arg, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
    ++static_cast<Server*>(arg)->messages;
    return UCS_OK;
  }
  static void on_error(void* arg, ucp_ep_h endpoint, ucs_status_t status) {
    const auto& all = static_cast<Server*>(arg)->endpoints;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] == endpoint)
        Line("server's error callback").word("operation", names[i]).word("status", name_of(status));
  }

  void map_memory(bool again) {
    const int file = memfd_create("probe", MFD_CLOEXEC);
    require(ftruncate(file, memory_bytes) == 0, "ftruncate");
    void* mapped = mmap(memory, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (again ? MAP_FIXED : 0), file, 0);
    require(mapped != MAP_FAILED, "mmap");
    memory = static_cast<std::byte*>(mapped);
    ::close(file);
    std::memset(memory, 0, memory_bytes);
  }

  void give_key(int socket) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory;
    params.length = memory_bytes;
    check(ucp_mem_map(context, &params, &handle), "ucp_mem_map");
    void* key;
    std::size_t bytes;
    check(ucp_rkey_pack(context, handle, &key, &bytes), "ucp_rkey_pack");
    send_block(socket, key, bytes);
    ucp_rkey_buffer_release(key);
    send_block(socket, &memory, sizeof memory);
  }

  void close_all() {
    const auto begin = Clock::now();
    std::vector<ucs_status_ptr_t> requests;
    for (ucp_ep_h endpoint : endpoints) requests.push_back(force_close(endpoint));
    const double called = since(begin);
    Counts statuses;
    for (ucs_status_ptr_t request : requests) {
      while (state_of(request) == UCS_INPROGRESS && since(begin) < 20) progress();
      ++statuses[name_of(state_of(request))];
    }
    Line("server has closed").number("call_s", called).number("done_s", since(begin)).raw("statuses", json(statuses));
  }

  void count() const {
    Counts changed, poisoned;
    for (std::size_t i = 0; i < operations.size(); ++i)
      for (std::size_t at = 0; at < area_bytes; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, memory + i * area_bytes + at, 8);
        if (word != poison_word) ++changed[names[i]];
        if (word == source_poison_word) ++poisoned[names[i]];
      }
    Line("server counts")
        .raw("changed_words", json(changed))
        .raw("of_buffers_given_back", json(poisoned))
        .count("messages", messages);
  }

  void take(const std::string& command) {
    const auto begin = Clock::now();
    if (command == "close")
      close_all();
    else if (command == "unmap")
      check(ucp_mem_unmap(context, handle), "ucp_mem_unmap");
    else if (command == "remap") {
      munmap(memory, memory_bytes);
      map_memory(true);
    } else if (command == "fill")
      std::memset(memory, poison, memory_bytes);
    else if (command == "count")
      count();
    else if (!take_common(command))
      return;
    Line("server did").word("command", command).number("took_s", since(begin));
  }
};

int serve(int port) {
  Server server;
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 1;
  handler.cb = Server::on_message;
  handler.arg = &server;
  check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
  server.map_memory(false);
  const int socket = accept_one(port);
  send_worker_address(socket);
  server.give_key(socket);
  const auto address = receive_block(socket);
  for (std::size_t i = 0; i < operations.size(); ++i)
    server.endpoints.push_back(connect(address, Server::on_error, &server));
  meet(socket, server.endpoints);
  for (;;) {
    progress();
    const std::string command = next_command();
    if (command == "quit") break;
    if (!command.empty())
      server.take(command);
    else
      usleep(500);
  }
  _exit(0);
}

// ---- The caller

struct Stream;

struct Slot {  // a buffer, and the operation that uses it
  Stream* stream;
  std::byte* buffer;
  std::uint64_t index;
  bool busy = false, flushing = false, poisoned = false;
};

struct Stream {
  enum class Phase { running, settling, flushing, closing, closed };

  Operation operation;
  const char* label;
  std::uint64_t remote;
  ucp_ep_h endpoint = nullptr;
  ucp_rkey_h key = nullptr;
  std::vector<Slot> slots;
  Phase phase = Phase::running;
  Clock::time_point entered, last_post, last_completion;
  std::uint64_t sequence = 0;
  ucs_status_ptr_t request = nullptr;  // flush or close
  // what is reported
  int ok_before = 0, ok_after = 0, pending_at_callback = -1, pending_after_callback = -1, pending_at_close = -1;
  Counts failed, failed_on_close;
  double error_at = -1, last_ok_at = -1, gap = 0, gap_begin = 0, flush_s = -1, close_call_s = -1, close_s = -1;
  std::string error = "none", flushed = "-", posted_after_error = "-";

  bool large() const { return operation == Operation::put_64k || operation == Operation::get_64k; }
  bool is_put() const {
    return operation == Operation::put_8 || operation == Operation::put_8_flush || operation == Operation::put_64k;
  }
  bool is_get() const { return operation == Operation::get_8 || operation == Operation::get_64k; }
  bool left_out() const {
    const char* without = std::getenv("PROBE_WITHOUT");
    return operation == Operation::idle || (without != nullptr && std::strstr(without, identifier()) != nullptr);
  }
  const char* identifier() const { return identifiers[static_cast<std::size_t>(operation)]; }
  std::size_t bytes() const { return large() ? 65536 : 8; }
  std::size_t window() const { return large() ? 8 : 64; }
  double pace_ms() const { return large() ? 10 * interval_ms : interval_ms; }
  int pending() const {
    int busy = 0;
    for (const Slot& slot : slots) busy += slot.busy ? 1 : 0;
    return busy;
  }
  void enter(Phase next) {
    phase = next;
    entered = Clock::now();
  }

  static void on_error(void* arg, ucp_ep_h, ucs_status_t status) {
    Stream& stream = *static_cast<Stream*>(arg);
    stream.error = name_of(status);
    stream.error_at = faulted ? since(time_zero) : -2;
    stream.pending_at_callback = stream.pending();
    Line("error callback").word("operation", stream.label).word("status", stream.error);
    if (stream.phase == Phase::running) stream.enter(Phase::settling);
  }
  static void on_done(void* request, ucs_status_t status, void* arg) {
    Slot& slot = *static_cast<Slot*>(arg);
    ucp_request_free(request);
    slot.stream->finish(slot, status);
  }

  // As the user of a buffer may do as soon as its request is over
  void poison_buffer(Slot& slot) {
    if (is_put()) {
      for (std::size_t at = 0; at < bytes(); at += 8) std::memcpy(slot.buffer + at, &source_poison_word, 8);
    } else {
      std::memset(slot.buffer, poison, bytes());
    }
    slot.poisoned = true;
  }

  void finish(Slot& slot, ucs_status_t status) {
    if (status == UCS_OK && operation == Operation::put_8_flush && !slot.flushing) {
      slot.flushing = true;
      ucp_request_param_t param = callback(slot);
      const ucs_status_ptr_t flushing = ucp_ep_flush_nbx(endpoint, &param);
      if (!UCS_PTR_IS_PTR(flushing)) finish(slot, UCS_PTR_STATUS(flushing));
      return;
    }
    slot.busy = slot.flushing = false;
    if (status != UCS_OK) {
      ++(phase == Phase::closing ? failed_on_close : failed)[name_of(status)];
      poison_buffer(slot);
      return;
    }
    const auto now = Clock::now();
    ++(faulted ? ok_after : ok_before);
    if (faulted) {
      last_ok_at = since(time_zero);
      if (const double waited = seconds_between(last_completion, now); waited > gap) {
        gap = waited;
        gap_begin = seconds_between(time_zero, last_completion);
      }
    }
    last_completion = now;
    if (phase == Phase::closing) poison_buffer(slot);
  }

  static ucp_request_param_t callback(Slot& slot) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = on_done;
    param.user_data = &slot;
    return param;
  }

  ucs_status_ptr_t start(Slot& slot) {
    ucp_request_param_t param = callback(slot);
    const std::uint64_t target = remote + slot.index * bytes();
    switch (operation) {
      case Operation::message:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_EAGER;
        return ucp_am_send_nbx(endpoint, 1, slot.buffer, 8, nullptr, 0, &param);
      case Operation::put_8:
      case Operation::put_8_flush:
      case Operation::put_64k: return ucp_put_nbx(endpoint, slot.buffer, bytes(), target, key, &param);
      case Operation::get_8:
      case Operation::get_64k: return ucp_get_nbx(endpoint, slot.buffer, bytes(), target, key, &param);
      case Operation::add: {
        static const std::uint64_t one = 1;
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype = ucp_dt_make_contig(8);
        param.reply_buffer = slot.buffer;
        return ucp_atomic_op_nbx(endpoint, UCP_ATOMIC_OP_ADD, &one, 1, remote, key, &param);
      }
      case Operation::idle: break;
    }
    return nullptr;
  }

  ucs_status_t post(Slot& slot) {
    ++sequence;
    if (!is_get())
      for (std::size_t at = 0; at < bytes(); at += 8) std::memcpy(slot.buffer + at, &sequence, 8);
    slot.busy = true;
    slot.poisoned = false;
    const ucs_status_ptr_t posted = start(slot);
    if (UCS_PTR_IS_PTR(posted)) return UCS_INPROGRESS;
    finish(slot, UCS_PTR_STATUS(posted));
    return UCS_PTR_STATUS(posted);
  }

  void post_next() {
    if (left_out() || since(last_post) * 1000 < pace_ms()) return;
    for (Slot& slot : slots)
      if (!slot.busy) {
        last_post = Clock::now();
        post(slot);
        return;
      }
  }

  void begin_flush() {
    request = flush(endpoint);
    enter(Phase::flushing);
  }

  void begin_close() {
    flushed = name_of(state_of(request));
    flush_s = since(entered);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);  // if it is under way, UCX frees it at its end
    pending_at_close = pending();
    enter(Phase::closing);
    if (key != nullptr) ucp_rkey_destroy(key);
    request = force_close(endpoint);
    close_call_s = since(entered);
  }

  void end_close() {
    close_s = since(entered);
    for (Slot& slot : slots)
      if (!slot.busy) poison_buffer(slot);
    enter(Phase::closed);
  }

  void advance() {
    switch (phase) {
      case Phase::running: post_next(); break;
      case Phase::settling:
        if (since(entered) < 1) break;
        pending_after_callback = pending();
        if (!left_out())
          for (Slot& slot : slots)
            if (!slot.busy) {
              posted_after_error = name_of(post(slot));
              break;
            }
        begin_flush();
        break;
      case Phase::flushing:
        if (state_of(request) != UCS_INPROGRESS || since(entered) > 2) begin_close();
        break;
      case Phase::closing:
        if (state_of(request) != UCS_INPROGRESS || since(entered) > 20) end_close();
        break;
      case Phase::closed: break;
    }
  }

  // Buffers that somebody wrote after their request was over
  int written_late() const {
    int written = 0;
    for (const Slot& slot : slots) {
      bool intact = true;
      for (std::size_t at = 0; at < bytes() && slot.poisoned && !is_put(); ++at)
        intact = intact && slot.buffer[at] == std::byte{poison};
      written += intact ? 0 : 1;
    }
    return written;
  }
  int poisoned() const {
    int buffers = 0;
    for (const Slot& slot : slots) buffers += slot.poisoned ? 1 : 0;
    return buffers;
  }

  void report() const {
    Line("summary")
        .word("operation", label)
        .count("ok_before", ok_before)
        .count("ok_after", ok_after)
        .number("last_ok_at", last_ok_at)
        .number("longest_gap_s", gap)
        .number("gap_began_at", gap_begin)
        .word("error", error)
        .number("error_at", error_at)
        .count("pending_at_callback", pending_at_callback)
        .count("pending_a_second_later", pending_after_callback)
        .raw("failed", json(failed))
        .word("posted_after_error", posted_after_error)
        .word("flush", flushed)
        .number("flush_s", flush_s)
        .count("pending_at_close", pending_at_close)
        .number("close_call_s", close_call_s)
        .number("close_s", close_s)
        .raw("failed_on_close", json(failed_on_close))
        .count("pending_at_end", pending())
        .count("buffers_watched", poisoned())
        .count("buffers_written_late", written_late());
  }
};

int call(const char* host, const char* port) {
  const int socket = connect_to(host, port);
  const auto address = receive_block(socket), packed_key = receive_block(socket), where = receive_block(socket);
  send_worker_address(socket);
  std::uint64_t memory;
  std::memcpy(&memory, where.data(), sizeof memory);

  std::vector<std::byte> buffers(operations.size() * area_bytes);
  std::array<Stream, operations.size()> streams;
  std::vector<ucp_ep_h> endpoints;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Stream& stream = streams[i];
    stream.operation = operations[i];
    stream.label = names[i];
    stream.remote = memory + i * area_bytes;
    stream.endpoint = connect(address, Stream::on_error, &stream);
    check(ucp_ep_rkey_unpack(stream.endpoint, packed_key.data(), &stream.key), "ucp_ep_rkey_unpack");
    for (std::uint64_t index = 0; index < stream.window(); ++index)
      stream.slots.push_back({&stream, buffers.data() + i * area_bytes + index * stream.bytes(), index});
    endpoints.push_back(stream.endpoint);
  }
  meet(socket, endpoints);
  if (std::getenv("PROBE_PRINT_ENDPOINT") != nullptr) ucp_ep_print_info(endpoints[0], stderr);
  for (Stream& stream : streams) stream.last_completion = stream.last_post = Clock::now();
  Line("running");

  for (;;) {
    progress();
    for (Stream& stream : streams) stream.advance();
    const std::string command = next_command();
    if (command == "quit") break;
    if (command == "stop")
      for (Stream& stream : streams)
        if (stream.phase == Stream::Phase::running) stream.begin_flush();
    take_common(command);
    if (command.empty()) usleep(500);
  }
  for (const Stream& stream : streams) stream.report();
  bool closed = true;
  for (const Stream& stream : streams) closed = closed && stream.phase == Stream::Phase::closed;
  if (closed) {
    const auto begin = Clock::now();
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    Line("worker destroyed").number("took_s", since(begin));
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (!(role == "serve" && argc == 4) && !(role == "call" && argc == 5)) return 2;
  const char* given = std::getenv("PROBE_NAME");
  name = given != nullptr ? given : role;
  interval_ms = std::atof(argv[argc - 1]);
  open_ucx();
  return role == "serve" ? serve(std::atoi(argv[2])) : call(argv[2], argv[3]);
}

#include "ucx_layer/transport/ucx.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <mutex>
#include <string_view>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "ucx_layer/transport/paths/shared.hpp"
#include "ucx_layer/transport/rdma_ports.hpp"
#include "ucx_layer/transport/ucx_log.hpp"

namespace ucft::detail {

namespace {

// Whether a list like UCX_TLS's names one of them.
bool names_any(std::string_view transports, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    for (std::size_t at = transports.find(name); at != transports.npos; at = transports.find(name, at + 1)) {
      const bool begins = at == 0 || transports[at - 1] == ',' || transports[at - 1] == '^';
      const std::size_t end = at + name.size();
      if (begins && (end == transports.size() || transports[end] == ',')) return true;
    }
  return false;
}

// Whether UCX_TLS allows one of them: a list of names, or "^" and those that it forbids.
bool transports_allow(std::initializer_list<std::string_view> names) {
  const char* list = std::getenv("UCX_TLS");
  if (list == nullptr) return true;
  const std::string_view transports = list;
  if (transports.starts_with('^')) return !names_any(transports, names);
  return names_any(transports, names) || names_any(transports, {"all"});
}

// UCX_TLS without UCX's own shared memory.
std::string transports_for_ucx() {
  constexpr std::string_view unwanted[] = {"sm", "shm", "mm", "posix", "sysv", "xpmem", "cma", "knem"};
  const char* given = std::getenv("UCX_TLS");
  const std::string_view list = given == nullptr ? "all" : given;
  if (list.starts_with('^')) return std::string(list) + ",sm";
  if (names_any(list, {"all"})) return "^sm";
  std::string kept;
  for (std::size_t at = 0; at < list.size();) {
    const std::string_view name = list.substr(at, list.find(',', at) - at);
    at += name.size() + 1;
    if (std::find(std::begin(unwanted), std::end(unwanted), name) != std::end(unwanted)) continue;
    if (!kept.empty()) kept += ',';
    kept += name;
  }
  return kept.empty() ? "self" : kept;
}

bool fail(std::string& error, const char* what, ucs_status_t status) {
  error = std::string(what) + ": " + ucs_status_string(status);
  return false;
}

// The text that `print(FILE*)` prints.
template <class Print>
std::string printed(Print print) {
  char* text = nullptr;
  std::size_t bytes = 0;
  FILE* stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  print(stream);
  std::fclose(stream);
  const std::string copy(text, bytes);
  std::free(text);
  return copy;
}

// UCX 1.13 has no query for it: "#  resource 0 :  md 0 dev 0 flags -- tcp/eth0".
bool has_tcp(ucp_context_h context) {
  return printed([context](FILE* stream) { ucp_context_print_info(context, stream); }).find(" tcp/") !=
         std::string::npos;
}

// UCX's tcp wants an IPv4 address. `name`: of that interface; empty: of any.
bool has_ipv4(std::string_view name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    found = found || (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                      (each->ifa_flags & IFF_UP) != 0 && (name.empty() || name == each->ifa_name));
  freeifaddrs(list);
  return found;
}

bool tcp_is_all() {
  const std::string transports = transports_for_ucx();
  return transports == "tcp" || transports == "tcp,self" || transports == "self,tcp";
}

// True: UCX would listen on networks that no rank needs. tcp is all it may use, and the user names no device.
bool loopback_is_enough() { return tcp_is_all() && std::getenv("UCX_NET_DEVICES") == nullptr && has_ipv4("lo"); }

bool names_no_device() {
  const char* devices = std::getenv("UCX_NET_DEVICES");
  return devices == nullptr || std::string_view(devices) == "all";
}

// These, and the ports of RDMA that UCX may use, too.
std::string with_rdma_ports(std::string devices) {
  if (tcp_is_all()) return devices;
  for (const RdmaPort& port : rdma_ports())
    if (port.state == "ACTIVE") devices += "," + port.device + ":" + std::to_string(port.number);
  return devices;
}

// The name of an option of tcp alone. Since UCX 1.18 it has the transport's prefix, and of the bare one UCX says
// "invalid configurations". 1.13 takes the one with the prefix, and ignores it.
std::string of_tcp(const char* option) {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return (major > 1 || minor >= 18 ? "TCP_" : "") + std::string(option);
}

ucs_status_t configure(ucp_config_t* config, bool with_tcp, const std::string& devices) {
  std::vector<std::pair<std::string, std::string>> options = {
      // The detector is ours. UCX's keepalive would be an active message into queues that we don't use.
      {"KEEPALIVE_INTERVAL", "inf"},
      // Without this the error callback of a peer that died with a full queue never comes.
      {"RESOLVE_REMOTE_EP_ID", "y"},
      // UCX's shared memory must not be used between ranks that may be killed (tests/ucx/wedged_fifo_test). In
      // error-handling mode UCX doesn't, but opens its queues all the same, as files in /dev/shm that stay there if the
      // rank dies meanwhile.
      {"TLS", transports_for_ucx()}};
  if (with_tcp && !devices.empty()) options.emplace_back("NET_DEVICES", devices);
  if (with_tcp) {
    // UCX 1.13 completes a zero-copy send over tcp twice if the write fails, and ends the process ("comp->count > 0").
    // That is a survivor that was sending to a rank as it died. So all is copied, in large segments, which isn't
    // slower.
    for (const char* threshold : {"ZCOPY_THRESH", "RNDV_THRESH"}) options.emplace_back(threshold, "inf");
    for (const char* segment : {"TX_SEG_SIZE", "RX_SEG_SIZE"}) options.emplace_back(of_tcp(segment), "256k");
  }
  for (const auto& [name, value] : options)
    if (ucs_status_t status = ucp_config_modify(config, name.c_str(), value.c_str()); status != UCS_OK) return status;
  return UCS_OK;
}

// nullptr: `error` says why.
ucp_context_h make_context(std::size_t peers, bool with_tcp, const std::string& devices, std::string& error) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    fail(error, "ucp_config_read", status);
    return nullptr;
  }
  ucp_context_h context = nullptr;
  status = configure(config, with_tcp, devices);
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.estimated_num_eps = peers;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
    params.name = "ucft";
    status = ucp_init(&params, config, &context);
  }
  ucp_config_release(config);
  if (status != UCS_OK) fail(error, "ucp_init", status);
  if (status != UCS_OK && with_tcp && !has_ipv4(""))
    error += " (UCX's tcp needs IPv4, and no interface has an IPv4 address)";
  return status == UCS_OK ? context : nullptr;
}

}  // namespace

bool shared_memory_allowed() { return transports_allow({"posix", "sysv", "xpmem", "shm", "sm", "mm"}); }

bool Ucx::open(std::size_t peers, bool on_one_host, std::string& error, const std::string& tcp_devices) {
  sockets_.remember_others();
  quiet_ucx();
  kept_ = std::make_unique<AbortsKept>();
  std::string devices;
  if (on_one_host && loopback_is_enough())
    devices = "lo";
  else if (!tcp_devices.empty() && names_no_device())
    devices = with_rdma_ports(tcp_devices);
  context_ = make_context(peers, transports_allow({"tcp"}), devices, error);
  // Allowed isn't there: UCX_NET_DEVICES may name RDMA devices only. UCX complains, on stdout, of options of a
  // transport that it doesn't open.
  if (context_ != nullptr && transports_allow({"tcp"}) && !has_tcp(context_)) {
    ucp_cleanup(context_);
    context_ = make_context(peers, false, {}, error);
  }
  if (context_ == nullptr) return false;

  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const ucs_status_t status = ucp_worker_create(context_, &worker, &worker_);
  if (status != UCS_OK) return fail(error, "ucp_worker_create", status);
  const std::vector<std::byte> own = address(error);
  sockets_.find_listeners(own);
  return !own.empty();
}

void Ucx::destroy_worker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  worker_ = nullptr;
}

namespace {
std::atomic<bool> is_a_worker_left{false}, has_more_to_come{false};
std::mutex abandoning;
std::vector<std::pair<ucp_context_h, ucp_worker_h>>& abandoned() {
  static auto& all = *new std::vector<std::pair<ucp_context_h, ucp_worker_h>>;
  return all;
}
}  // namespace

void Ucx::give_up() {
  has_given_up_ = true;
  is_a_worker_left.store(true, std::memory_order_relaxed);
}

// An assertion fails while endpoints are destroyed. From then on the worker's lock is held, so that no thread of UCX's
// looks at what is left.
void Ucx::abandon() {
  if (has_more_to_come.load(std::memory_order_relaxed) && !has_given_up_) {
    const AbortsKept kept;
    if (AbortsKept::run([this] { destroy_worker(); })) return;
    UCFT_SOMETIMES("UCX has aborted in the end of a worker");
    has_given_up_ = true;
  }
  is_a_worker_left.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(abandoning);
  abandoned().emplace_back(std::exchange(context_, nullptr), std::exchange(worker_, nullptr));
}

void Ucx::expect_more() { has_more_to_come.store(true, std::memory_order_relaxed); }

bool Ucx::has_left_a_worker() { return is_a_worker_left.load(std::memory_order_relaxed); }

Ucx::~Ucx() {
  destroy_worker();
  if (context_ != nullptr) ucp_cleanup(context_);
}

std::vector<std::byte> Ucx::address(std::string& error) const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  const ucs_status_t status = ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) {
    fail(error, "ucp_worker_get_address", status);
    return {};
  }
  const auto* data = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(data, data + bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

// UCX 1.13 has no query for it. The printed form of an endpoint lists its put and get methods if they are native, and
// leaves them out if they are emulated. A wrong answer costs speed, not correctness: docs/wire_format.md.
namespace {
std::string printed(ucp_ep_h endpoint) {
  return printed([endpoint](FILE* stream) { ucp_ep_print_info(endpoint, stream); });
}
}  // namespace

bool Ucx::has_remote_access(ucp_ep_h endpoint) {
  const std::string text = printed(endpoint);
  return text.find(" put[") != text.npos && text.find(" get[") != text.npos;
}

bool Ucx::is_over_tcp(ucp_ep_h endpoint) { return printed(endpoint).find(":tcp/") != std::string::npos; }

Ucx::Flush::Flush(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  request_ = ucp_ep_flush_nbx(endpoint, &param);
  if (!UCS_PTR_IS_PTR(request_)) request_ = nullptr;
}

Ucx::Flush::~Flush() {
  if (request_ != nullptr) ucp_request_free(request_);  // of one that goes on: UCX frees it when it ends
}

bool Ucx::Flush::is_under_way() const {
  return request_ != nullptr && ucp_request_check_status(request_) == UCS_INPROGRESS;
}

void Ucx::close(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t request = nullptr;
  if (!run([&] { request = ucp_ep_close_nbx(endpoint, &param); }) || !UCS_PTR_IS_PTR(request)) return;
  for (int tries = 0; tries < 1000000 && ucp_request_check_status(request) == UCS_INPROGRESS; ++tries) progress();
  if (!has_given_up_) ucp_request_free(request);
}

}  // namespace ucft::detail

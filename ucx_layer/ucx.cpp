#include "ucx_layer/ucx.hpp"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace ucft {

namespace {

bool uses_shared_memory(std::string_view transports) {
  for (std::string_view name : {"posix", "sysv", "xpmem", "shm", "sm", "mm", "all"})
    for (std::size_t at = transports.find(name); at != transports.npos; at = transports.find(name, at + 1)) {
      const bool begins = at == 0 || transports[at - 1] == ',';
      const std::size_t end = at + name.size();
      if (begins && (end == transports.size() || transports[end] == ',')) return true;
    }
  return false;
}

bool fail(std::string& error, const char* what, ucs_status_t status) {
  error = std::string(what) + ": " + ucs_status_string(status);
  return false;
}

ucs_status_t configure(ucp_config_t* config, const UcxOptions& options) {
  const char* transports = std::getenv("UCX_TLS");
  std::string chosen = transports == nullptr ? "all" : transports;
  if (transports == nullptr && options.single_host) chosen = "posix,self";   // mailboxes carry everything
  if (transports == nullptr)
    if (ucs_status_t status = ucp_config_modify(config, "TLS", chosen.c_str()); status != UCS_OK) return status;
  // In error-handling mode UCX drops shared memory silently unless told so; told so without any, it warns.
  if (uses_shared_memory(chosen) && options.any_shared_host)
    if (ucs_status_t status = ucp_config_modify(config, "MM_ERROR_HANDLING", "y"); status != UCS_OK) return status;
  // Keepalive on shared memory is an active message into the peer's queue, which may be wedged. Ours is the detector.
  if (ucs_status_t status = ucp_config_modify(config, "KEEPALIVE_INTERVAL", "inf"); status != UCS_OK) return status;
  // Without this the error callback of a peer that died with a full queue never comes.
  return ucp_config_modify(config, "RESOLVE_REMOTE_EP_ID", "y");
}

}  // namespace

bool Ucx::open(const UcxOptions& options, std::string& error) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return fail(error, "ucp_config_read", status);
  status = configure(config, options);
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
    params.name = "ucft";
    status = ucp_init(&params, config, &context_);
  }
  ucp_config_release(config);
  if (status != UCS_OK) return fail(error, "ucp_init", status);

  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(context_, &worker, &worker_);
  return status == UCS_OK || fail(error, "ucp_worker_create", status);
}

Ucx::~Ucx() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
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

void Ucx::close(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  for (int tries = 0; tries < 1000000 && ucp_request_check_status(request) == UCS_INPROGRESS; ++tries)
    ucp_worker_progress(worker_);
  ucp_request_free(request);
}

Segment& Segment::operator=(Segment&& other) noexcept {
  close();
  context_ = std::exchange(other.context_, nullptr);
  handle_ = std::exchange(other.handle_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  packed_rkey_ = std::move(other.packed_rkey_);
  return *this;
}

bool Segment::open(ucp_context_h context, std::size_t bytes, std::string& error) {
  context_ = context;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = bytes;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  ucs_status_t status = ucp_mem_map(context, &params, &handle_);
  if (status != UCS_OK) {
    handle_ = nullptr;
    return fail(error, "ucp_mem_map", status);
  }
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  status = ucp_mem_query(handle_, &attributes);
  if (status != UCS_OK) return fail(error, "ucp_mem_query", status);
  data_ = static_cast<std::byte*>(attributes.address);
  bytes_ = attributes.length;
  std::memset(data_, 0, bytes_);

  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  status = ucp_rkey_pack(context, handle_, &packed, &packed_bytes);
  if (status != UCS_OK) return fail(error, "ucp_rkey_pack", status);
  packed_rkey_.assign(static_cast<std::byte*>(packed), static_cast<std::byte*>(packed) + packed_bytes);
  ucp_rkey_buffer_release(packed);
  return true;
}

void Segment::close() {
  if (handle_ != nullptr) ucp_mem_unmap(context_, handle_);
  handle_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

MappedSegment& MappedSegment::operator=(MappedSegment&& other) noexcept {
  close();
  rkey_ = std::exchange(other.rkey_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  owner_address_ = other.owner_address_;
  return *this;
}

bool MappedSegment::open(ucp_ep_h endpoint, const void* packed_rkey, std::uint64_t owner_address) {
  if (ucp_ep_rkey_unpack(endpoint, packed_rkey, &rkey_) != UCS_OK) {
    rkey_ = nullptr;
    return false;
  }
  void* local = nullptr;
  if (ucp_rkey_ptr(rkey_, owner_address, &local) != UCS_OK) {
    close();
    return false;
  }
  data_ = static_cast<std::byte*>(local);
  owner_address_ = owner_address;
  return true;
}

void MappedSegment::close() {
  if (rkey_ != nullptr) ucp_rkey_destroy(rkey_);
  rkey_ = nullptr;
}

}  // namespace ucft

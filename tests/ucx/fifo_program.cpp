// Plain UCX, no ucft: active messages over shared memory, to show what a death does to them (wedged_fifo_test).
//   fifo_program receiver FILE           writes its address to FILE, prints the name of each sender it hears, until
//                                        SIGTERM
//   fifo_program sender FILE NAME COUNT  sends COUNT messages, one a millisecond, says "sent", and waits to be killed:
//                                        what it has sent is in its own memory, perhaps
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

ucp_worker_h worker;

void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  std::exit(1);
}

void open() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  ucp_context_h context;
  check(ucp_init(&params, nullptr, &context), "ucp_init");
  ucp_worker_params_t worker_params{};
  check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
}

ucs_status_t heard(void*, const void* header, size_t bytes, void*, size_t, const ucp_am_recv_param_t*) {
  std::printf("heard %.*s\n", static_cast<int>(bytes), static_cast<const char*>(header));
  std::fflush(stdout);
  return UCS_OK;
}

volatile std::sig_atomic_t over = 0;

// Whatever has come until the signal is heard, too.
int receive(const std::string& file) {
  std::signal(SIGTERM, [](int) { over = 1; });
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
  handler.id = 1;
  handler.cb = heard;
  check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
  ucp_address_t* address;
  size_t bytes;
  check(ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
  std::ofstream(file + ".new", std::ios::binary)
      .write(reinterpret_cast<char*>(address), static_cast<std::streamsize>(bytes));
  std::rename((file + ".new").c_str(), file.c_str());
  for (bool last = false; !last;) {
    last = over != 0;
    while (ucp_worker_progress(worker) != 0) {}
    if (!last) usleep(100);
  }
  return 0;
}

int send(const std::string& file, const std::string& name, int count) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> address((std::istreambuf_iterator<char>(in)), {});
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  ucp_ep_h endpoint;
  check(ucp_ep_create(worker, &params, &endpoint), "ucp_ep_create");
  for (int i = 0; i < count; ++i) {
    ucp_request_param_t param{};
    ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, 1, name.data(), name.size(), nullptr, 0, &param);
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "ucp_am_send_nbx");
    ucp_worker_progress(worker);
    usleep(1000);
  }
  std::puts("sent");
  std::fflush(stdout);
  while (true) pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  open();
  const std::string role = argv[1];
  return role == "receiver" ? receive(argv[2]) : send(argv[2], argv[3], std::atoi(argv[4]));
}

// How UCX is set up for ucft.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/file_text.hpp"
#include "ucx_layer/transport/connections.hpp"
#include "ucx_layer/transport/ucx.hpp"

namespace ucft::detail {
namespace {

// How an endpoint to oneself sends, as UCX prints it: "am_send: 0..<egr/short>..8185..<egr/bcopy>..(inf)"; 1.18 prints
// tables: "| 0..262136 | short |", "| 262137..inf | multi-frag copy-in |".
std::string sends_of(const Ucx& ucx) {
  std::string error;
  const std::vector<std::byte> address = ucx.address(error);
  EXPECT_EQ(error, "");
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  ucp_ep_h endpoint = nullptr;
  EXPECT_EQ(ucp_ep_create(ucx.worker(), &params, &endpoint), UCS_OK);
  char* text = nullptr;
  std::size_t bytes = 0;
  FILE* stream = open_memstream(&text, &bytes);
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::string printed(text, bytes);
  std::free(text);
  return printed;
}

// UCX 1.13 completes a zero-copy send over tcp twice if its write fails, and ends the process (uct_iface.h, comp->count
// > 0): that of a rank that was sending to another as it died.
TEST(OverTcp, NothingIsSentWithoutACopy) {
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_ZCOPY_THRESH", "1k", 1);  // whatever the environment says
  setenv("UCX_RNDV_THRESH", "16k", 1);
  Ucx ucx;
  std::string error;
  ASSERT_TRUE(ucx.open(2, false, error)) << error;
  const std::string sends = sends_of(ucx);
  EXPECT_NE(sends.find("tcp/"), std::string::npos) << sends;
  EXPECT_NE(sends.find("am_send"), std::string::npos) << sends;
  for (const char* unwanted : {"zcopy", "zero-copy", "<rndv>", "rendezvous"})
    EXPECT_EQ(sends.find(unwanted), std::string::npos) << sends;
  EXPECT_NE(sends.find("262137"), std::string::npos) << "segments of 256 KiB: " << sends;
}

// A rank that has died is connected to by all that have not heard of it yet. UCX called that an error, and gave advice
// on the kernel's settings, which users took for the error.
TEST(OverTcp, ConnectingToARankThatIsGoneIsSilent) {
  setenv("UCX_TLS", "tcp", 1);
  unsetenv("UCX_LOG_LEVEL");
  std::string error;
  std::vector<std::byte> address;
  {
    Ucx gone;
    ASSERT_TRUE(gone.open(2, false, error)) << error;
    address = gone.address(error);
  }
  Ucx ucx;
  ASSERT_TRUE(ucx.open(2, false, error)) << error;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  bool broken = false;
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t) { *static_cast<bool*>(arg) = true; };
  params.err_handler.arg = &broken;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t made = ucp_ep_create(ucx.worker(), &params, &endpoint);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (made == UCS_OK && !broken && std::chrono::steady_clock::now() < limit) ucp_worker_progress(ucx.worker());
  EXPECT_TRUE(made != UCS_OK || broken);
  if (made == UCS_OK) ucx.close(endpoint);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Where connections are made on demand a process may have come to its RLIMIT_NOFILE before its first one. UCX ended it.
TEST(OverTcp, WithoutDescriptorsAConnectionIsMadeOrItIsSaid) {
  setenv("UCX_TLS", "tcp", 1);
  constexpr int peers = 12;
  std::string error;
  Connections there(1), here(peers);
  ASSERT_TRUE(there.open(1, false, error)) << error;
  ASSERT_TRUE(here.open(peers, false, error)) << error;
  const std::vector<std::byte> address = there.ucx().address(error);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<int> all;
  for (int descriptor = 0; (descriptor = open("/dev/null", O_RDONLY)) >= 0;) all.push_back(descriptor);
  EXPECT_TRUE(here.connect(0, address, error)) << error;
  int refused = 0;
  for (int peer = 1; peer < peers && refused == 0; ++peer)
    if (!here.connect(peer, address, error)) refused = peer;
  for (const int descriptor : all) close(descriptor);
  EXPECT_GT(refused, 0) << "each connection takes a descriptor";
  EXPECT_NE(error.find("this process has no file descriptor left (RLIMIT_NOFILE, ulimit -n: 256)"), error.npos)
      << error;
  setrlimit(RLIMIT_NOFILE, &before);
  for (int peer = 0; peer < refused; ++peer) here.close(peer);
}

// As on a cluster where UCX_NET_DEVICES names RDMA devices only. UCX says "invalid configurations" of what it can't
// use.
TEST(OverTcp, WhatItNeedsIsNotSetWhereThereIsNone) {
  unsetenv("UCX_TLS");
  setenv("UCX_NET_DEVICES", "", 1);
  Ucx ucx;
  std::string error;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const bool opened = ucx.open(2, false, error);
  std::fflush(stdout);
  const std::string said = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  unsetenv("UCX_NET_DEVICES");
  EXPECT_TRUE(opened) << error;
  EXPECT_EQ(said, "");
}

// A rank that is killed while UCX's shared memory has a name would leave it in /dev/shm.
TEST(SharedMemory, UcxHasNoneOfItsOwn) {
  for (const char* transports : {"tcp,sm", "posix,tcp,cma", "all", "^cma", ""}) {
    if (*transports == 0)
      unsetenv("UCX_TLS");
    else
      setenv("UCX_TLS", transports, 1);
    Ucx ucx;
    std::string error;
    ASSERT_TRUE(ucx.open(2, false, error)) << error;
    const std::string memory = test::file_text("/proc/self/maps");
    EXPECT_EQ(memory.find("ucx_shm_posix"), std::string::npos) << transports << "\n" << memory;
    EXPECT_EQ(memory.find("/SYSV"), std::string::npos) << transports << "\n" << memory;
  }
}

}  // namespace
}  // namespace ucft::detail

// A network namespace for one test: loopback and nothing else, of IPv4, of IPv6, or of both.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace ucft::detail::test {

// As <linux/ipv6.h> has it, which doesn't go together with the system's <netinet/in.h>.
struct Ipv6Address {
  in6_addr address;
  std::uint32_t prefix_bits;
  int interface;
};

enum class Loopback { both, four_only, six_only };

// This thread, and those that it starts, are in a new network as long as this lives.
class OwnNetwork {
 public:
  explicit OwnNetwork(Loopback which) : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    if (before_ < 0 || unshare(CLONE_NEWNET) != 0)
      failed("no network namespace (needs root)");
    else
      set_up(which);
  }
  ~OwnNetwork() {
    if (before_ >= 0) setns(before_, CLONE_NEWNET);
    if (before_ >= 0) close(before_);
  }
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;
  // Empty: all is well. Else why not, for GTEST_SKIP.
  const std::string& problem() const { return problem_; }

 private:
  void failed(const char* what) { problem_ = std::string("NOT TESTED: ") + what + ": " + std::strerror(errno); }

  void set_up(Loopback which) {
    const int four = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
              six = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq lo{};
    std::strcpy(lo.ifr_name, "lo");
    lo.ifr_flags = IFF_UP;
    if (ioctl(four, SIOCSIFFLAGS, &lo) != 0) {
      failed("lo can't be set up");
    } else if (which == Loopback::six_only) {  // 0.0.0.0 takes the address away
      lo = {};
      std::strcpy(lo.ifr_name, "lo");
      lo.ifr_addr.sa_family = AF_INET;
      if (six < 0)
        failed("no IPv6");
      else if (ioctl(four, SIOCSIFADDR, &lo) != 0)
        failed("127.0.0.1 can't be taken away");
    } else if (which == Loopback::four_only && six >= 0) {
      Ipv6Address own{in6addr_loopback, 128, static_cast<int>(if_nametoindex("lo"))};
      if (ioctl(six, SIOCDIFADDR, &own) != 0) failed("::1 can't be taken away");
    }
    for (const int each : {four, six})
      if (each >= 0) close(each);
  }

  int before_;
  std::string problem_;
};

}  // namespace ucft::detail::test

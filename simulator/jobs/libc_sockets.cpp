// libc's names for sockets and for waiting on descriptors, as ucft_world has them. See kernel.hpp.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>

#include "simulator/jobs/files.hpp"
#include "simulator/jobs/kernel.hpp"
#include "simulator/jobs/real.hpp"

using namespace ucft::jobs;

namespace {

// ---- waiting --------------------------------------------------------------------------------------------------------

int look_at(pollfd* descriptors, nfds_t count) {
  int ready = 0;
  for (nfds_t i = 0; i < count; ++i) {
    pollfd& each = descriptors[i];
    const std::shared_ptr<File> file = each.fd < 0 ? nullptr : file_at(each.fd);
    if (file == nullptr && each.fd >= 0) not_simulated("poll", each.fd);
    each.revents = file == nullptr ? short{0} : static_cast<short>(file->events() & (each.events | POLLERR | POLLHUP));
    ready += each.revents != 0;
  }
  return ready;
}

int poll_until(pollfd* descriptors, nfds_t count, Time until) {
  Kernel& kernel = *Kernel::running();
  kernel.pass();
  Fiber* const self = Kernel::current();
  while (true) {
    const int ready = look_at(descriptors, count);
    if (ready > 0 || until <= kernel.now()) return ready;
    for (nfds_t i = 0; i < count; ++i)
      if (const auto file = descriptors[i].fd < 0 ? nullptr : file_at(descriptors[i].fd)) file->pollers.push_back(self);
    const bool was_woken = kernel.wait(until);
    for (nfds_t i = 0; i < count; ++i)
      if (const auto file = descriptors[i].fd < 0 ? nullptr : file_at(descriptors[i].fd))
        std::erase(file->pollers, self);
    if (!was_woken) return look_at(descriptors, count);
  }
}

Time in_milliseconds(int timeout) { return timeout < 0 ? never : Kernel::running()->after(timeout * millisecond); }

// ---- addresses ------------------------------------------------------------------------------------------------------

std::uint16_t port_in(const sockaddr* address) {
  return ntohs(address->sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_port
                                              : reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

struct Interfaces {
  ifaddrs entries[2];
  sockaddr_in addresses[2];
  char names[2][8];
};

struct KnownAddress {
  addrinfo entry;
  sockaddr_in address;
};

std::set<ifaddrs*>& given_interfaces() {
  static auto& all = *new std::set<ifaddrs*>;
  return all;
}

}  // namespace

extern "C" {

int poll(pollfd* descriptors, nfds_t count, int timeout) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(poll);
    return real_poll(descriptors, count, timeout);
  }
  return poll_until(descriptors, count, in_milliseconds(timeout));
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(ppoll);
    return real_ppoll(descriptors, count, timeout, mask);
  }
  return poll_until(descriptors, count,
                    timeout == nullptr ? never : Kernel::running()->after(timeout->tv_sec * second + timeout->tv_nsec));
}

int epoll_create1(int flags) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(epoll_create1);
    return real_epoll_create1(flags);
  }
  return new_descriptor(std::make_shared<Epoll>());
}

int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(epoll_ctl);
    return real_epoll_ctl(epoll, operation, descriptor, event);
  }
  const auto set = file_as<Epoll>(epoll);
  const auto file = file_at(descriptor);
  if (set == nullptr || file == nullptr || operation != EPOLL_CTL_ADD) return errno = EINVAL, -1;
  set->entries[descriptor] = {file, event->data.u64, true};
  file->sets.push_back(set.get());
  return 0;
}

int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(epoll_wait);
    return real_epoll_wait(epoll, events, most, timeout);
  }
  pollfd waited{epoll, POLLIN, 0};
  if (poll_until(&waited, 1, in_milliseconds(timeout)) == 0) return 0;
  int count = 0;
  for (auto& [descriptor, entry] : file_as<Epoll>(epoll)->entries) {
    const short now = entry.file->events();
    if (!entry.is_armed || now == 0 || count == most) continue;
    entry.is_armed = false;
    events[count].events = static_cast<std::uint32_t>(now);
    events[count++].data.u64 = entry.data;
  }
  return count;
}

// ---- sockets --------------------------------------------------------------------------------------------------------

int socket(int domain, int type, int protocol) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(socket);
    return real_socket(domain, type, protocol);
  }
  const auto made = std::make_shared<NewSocket>();
  made->domain = domain;
  return new_descriptor(made);
}

int setsockopt(int descriptor, int level, int option, const void* value, socklen_t bytes) noexcept {
  if (Kernel::running() != nullptr) return 0;
  UCFT_REAL(setsockopt);
  return real_setsockopt(descriptor, level, option, value, bytes);
}

int getsockopt(int descriptor, int level, int option, void* value, socklen_t* bytes) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(getsockopt);
    return real_getsockopt(descriptor, level, option, value, bytes);
  }
  const auto stream = file_as<Stream>(descriptor);
  if (stream == nullptr || level != SOL_SOCKET || option != SO_ERROR) return errno = EBADF, -1;
  std::memcpy(value, &stream->problem, sizeof stream->problem);
  return 0;
}

int bind(int descriptor, const sockaddr* address, socklen_t bytes) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(bind);
    return real_bind(descriptor, address, bytes);
  }
  const auto made = file_as<NewSocket>(descriptor);
  if (made == nullptr) return errno = EBADF, -1;
  made->port = port_in(address);
  return 0;
}

int listen(int descriptor, int most) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(listen);
    return real_listen(descriptor, most);
  }
  const auto made = file_as<NewSocket>(descriptor);
  if (made == nullptr) return errno = EBADF, -1;
  replace_file(descriptor, listen_on(Kernel::process().host, made->port));
  return 0;
}

int getsockname(int descriptor, sockaddr* address, socklen_t* bytes) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(getsockname);
    return real_getsockname(descriptor, address, bytes);
  }
  const auto listener = file_as<Listener>(descriptor);
  if (listener == nullptr) return errno = EBADF, -1;
  if (*bytes >= sizeof(sockaddr_in6))
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(listener->port);
  else
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(listener->port);
  return 0;
}

int accept4(int descriptor, sockaddr* address, socklen_t* bytes, int flags) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(accept4);
    return real_accept4(descriptor, address, bytes, flags);
  }
  Kernel::running()->pass();
  const auto listener = file_as<Listener>(descriptor);
  if (listener == nullptr) return errno = EBADF, -1;
  if (listener->arrived.empty()) return errno = EAGAIN, -1;
  if (!may_have_descriptor()) return -1;
  const auto stream = listener->arrived.front();
  listener->arrived.pop_front();
  return new_descriptor(stream);
}

int connect(int descriptor, const sockaddr* address, socklen_t bytes) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(connect);
    return real_connect(descriptor, address, bytes);
  }
  Kernel::running()->pass();
  const auto* four = reinterpret_cast<const sockaddr_in*>(address);
  if (address->sa_family != AF_INET) return errno = ENETUNREACH, -1;
  replace_file(descriptor, connect_to(Kernel::process().host, four->sin_addr.s_addr, ntohs(four->sin_port)));
  return errno = EINPROGRESS, -1;
}

ssize_t send(int descriptor, const void* data, size_t bytes, int flags) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(send);
    return real_send(descriptor, data, bytes, flags);
  }
  Kernel::running()->pass();
  const auto stream = file_as<Stream>(descriptor);
  return stream == nullptr ? (errno = EBADF, -1) : stream->send(data, bytes);
}

ssize_t recv(int descriptor, void* data, size_t bytes, int flags) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(recv);
    return real_recv(descriptor, data, bytes, flags);
  }
  Kernel::running()->pass();
  const auto stream = file_as<Stream>(descriptor);
  return stream == nullptr ? (errno = EBADF, -1) : stream->receive(data, bytes, (flags & MSG_PEEK) != 0);
}

int shutdown(int descriptor, int how) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(shutdown);
    return real_shutdown(descriptor, how);
  }
  const auto stream = file_as<Stream>(descriptor);
  if (stream == nullptr) return errno = EBADF, -1;
  if (how != SHUT_RD) stream->say_end();
  if (how != SHUT_WR) stream->stop_hearing();
  return 0;
}

// Of numbers alone: these names are known.
int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  UCFT_REAL(getaddrinfo);
  if (Kernel::running() == nullptr) return real_getaddrinfo(node, service, hints, found);
  in_addr address{};
  if (service != nullptr || inet_pton(AF_INET, node, &address) != 1) return EAI_NONAME;
  auto* const made = new (std::nothrow) KnownAddress{};
  if (made == nullptr) return EAI_MEMORY;
  made->address.sin_family = AF_INET;
  made->address.sin_addr = address;
  made->entry.ai_family = AF_INET;
  made->entry.ai_socktype = SOCK_STREAM;
  made->entry.ai_addr = reinterpret_cast<sockaddr*>(&made->address);
  made->entry.ai_addrlen = sizeof made->address;
  *found = &made->entry;
  return 0;
}

void freeaddrinfo(addrinfo* list) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(freeaddrinfo);
    return real_freeaddrinfo(list);
  }
  delete reinterpret_cast<KnownAddress*>(list);
}

int getifaddrs(ifaddrs** list) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(getifaddrs);
    return real_getifaddrs(list);
  }
  auto* const made = new (std::nothrow) Interfaces{};
  if (made == nullptr) return errno = ENOMEM, -1;
  const char* const names[] = {"lo", "eth0"};
  const std::uint32_t addresses[] = {htonl(INADDR_LOOPBACK), address_of(Kernel::process().host)};
  for (int i = 0; i < 2; ++i) {
    ifaddrs& entry = made->entries[i];
    std::strcpy(made->names[i], names[i]);
    made->addresses[i].sin_family = AF_INET;
    made->addresses[i].sin_addr.s_addr = addresses[i];
    entry.ifa_name = made->names[i];
    entry.ifa_flags = i == 0 ? IFF_UP | IFF_RUNNING | IFF_LOOPBACK : IFF_UP | IFF_RUNNING;
    entry.ifa_addr = reinterpret_cast<sockaddr*>(&made->addresses[i]);
    entry.ifa_next = i == 0 ? &made->entries[1] : nullptr;
  }
  *list = &made->entries[0];
  given_interfaces().insert(*list);
  return 0;
}

void freeifaddrs(ifaddrs* list) noexcept {
  if (given_interfaces().erase(list) > 0) {
    delete reinterpret_cast<Interfaces*>(list);
    return;
  }
  UCFT_REAL(freeifaddrs);
  real_freeifaddrs(list);
}
}

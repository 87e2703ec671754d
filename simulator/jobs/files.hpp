// The files that descriptors of simulated processes stand for. Each has a number of its own among all processes. It is
// that of a real descriptor of this program, which leads nowhere.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "simulator/jobs/kernel.hpp"

namespace ucft::jobs {

struct Epoll;

struct File {
  virtual ~File() = default;
  // POLLIN and the like, now.
  virtual short events() const = 0;
  // Its last descriptor is closed. is_silent: its host has lost its power.
  virtual void closed(bool is_silent) { static_cast<void>(is_silent); }

  // Threads that poll it, and epoll sets that it is in, look again.
  void changed();

  std::vector<Fiber*> pollers;
  std::vector<Epoll*> sets;
  int descriptors = 0;  // that stand for it
};

struct EventFd final : File {
  short events() const override { return count > 0 ? POLLIN : 0; }
  std::uint64_t count = 0;
};

// Readable when the process has ended.
struct PidFd final : File {
  explicit PidFd(Process& of) : process(of) {}
  short events() const override { return process.life == Life::has_ended ? POLLIN : 0; }
  Process& process;
};

// Each file in it is reported once (EPOLLONESHOT).
struct Epoll final : File {
  struct Entry {
    std::shared_ptr<File> file;
    std::uint64_t data;
    bool is_armed;
  };
  short events() const override;
  void closed(bool) override;
  std::map<int, Entry> entries;  // by descriptor
};

// Before it listens or connects.
struct NewSocket final : File {
  short events() const override { return 0; }
  int domain = 0;
  std::uint16_t port = 0;
};

// ---- TCP ------------------------------------------------------------------------------------------------------------

struct Stream;

struct Listener final : File {
  short events() const override { return arrived.empty() ? 0 : POLLIN; }
  void closed(bool is_silent) override;
  int host = 0;
  std::uint16_t port = 0;
  bool is_open = true;
  std::deque<std::shared_ptr<Stream>> arrived;  // accept takes them
};

// One end of a connection, or of an attempt.
struct Stream final : File, std::enable_shared_from_this<Stream> {
  short events() const override;
  void closed(bool is_silent) override;

  // Bytes that were sent; -1: errno says why not.
  long send(const void* data, std::size_t bytes);
  long receive(void* data, std::size_t bytes, bool peeks);
  void say_end();       // shutdown(SHUT_WR)
  void stop_hearing();  // shutdown(SHUT_RD)
  void reset();

  int host = 0;
  bool is_connected = false, is_closed = false, has_said_end = false, has_heard_end = false;
  int problem = 0;  // an errno: it is refused, reset or lost
  std::deque<std::byte> inbox;
  std::shared_ptr<Stream> other;
  Channel* way = nullptr;  // to the other
};

std::shared_ptr<Listener> listen_on(int host, std::uint16_t port);  // 0: a free one
// address: of a host (address_of), or loopback.
std::shared_ptr<Stream> connect_to(int host, std::uint32_t address, std::uint16_t port);
std::uint32_t address_of(int host);  // in network order

// ---- the table ------------------------------------------------------------------------------------------------------

// Of the process that runs. Else errno says why not.
bool may_have_descriptor();
// -1: errno says why.
int new_descriptor(std::shared_ptr<File> file);
// A real one, of memory or of a text: it ends with the process.
int note_descriptor(int descriptor);
std::shared_ptr<File> file_at(int descriptor);  // nullptr: it is none of these
void replace_file(int descriptor, std::shared_ptr<File> file);
void close_descriptor(int descriptor, bool is_silent);
void unmap(std::uintptr_t address, std::size_t bytes);

// UCX's connections between the two end on both sides, and what is on its way is lost. False: there is none.
bool lose_connections(const Process& one, const Process& other);
// So do those of TCP: the kernel has given them up.
void lose_streams(const Process& one, const Process& other);

template <class Kind>
std::shared_ptr<Kind> file_as(int descriptor) {
  return std::dynamic_pointer_cast<Kind>(file_at(descriptor));
}

}  // namespace ucft::jobs

#include "simulator/jobs/files.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "simulator/jobs/memory.hpp"
#include "simulator/jobs/real.hpp"

namespace ucft::jobs {

void File::changed() {
  for (Fiber* each : std::exchange(pollers, {})) Kernel::instance()->wake(*each);
  for (Epoll* set : sets) set->changed();
}

short Epoll::events() const {
  for (const auto& [descriptor, entry] : entries)
    if (entry.is_armed && entry.file->events() != 0) return POLLIN;
  return 0;
}

void Epoll::closed(bool) {
  for (const auto& [descriptor, entry] : entries) std::erase(entry.file->sets, this);
  entries.clear();
}

// ---- TCP ------------------------------------------------------------------------------------------------------------

namespace {

struct Listeners {
  std::map<std::pair<int, std::uint16_t>, std::weak_ptr<Listener>> all;  // by host and port
  std::uint16_t last_port = 20000;
};
Listeners& listeners() { return Kernel::instance()->own<Listeners>(); }

}  // namespace

std::uint32_t address_of(int host) { return htonl(0x0a000001u + static_cast<std::uint32_t>(host)); }

std::shared_ptr<Listener> listen_on(int host, std::uint16_t port) {
  const auto made = std::make_shared<Listener>();
  made->host = host;
  made->port = port != 0 ? port : ++listeners().last_port;
  listeners().all[{host, made->port}] = made;
  return made;
}

void Listener::closed(bool is_silent) {
  is_open = false;
  for (const auto& each : std::exchange(arrived, {})) each->closed(is_silent);
}

// The other's host answers: that it is connected, or that nobody listens.
std::shared_ptr<Stream> connect_to(int host, std::uint32_t address, std::uint16_t port) {
  Kernel& kernel = *Kernel::instance();
  const bool is_loopback = (ntohl(address) >> 24) == 127;
  const int target = is_loopback ? host : static_cast<int>(ntohl(address) - 0x0a000001u);
  const auto made = std::make_shared<Stream>();
  made->host = host;
  made->way = &kernel.new_channel(host, target);
  Channel* const back = &kernel.new_channel(target, host);
  kernel.send(*made->way, [made, back, target, port] {
    Kernel& here = *Kernel::instance();
    const auto found = listeners().all.find({target, port});
    const std::shared_ptr<Listener> listener = found == listeners().all.end() ? nullptr : found->second.lock();
    if (listener == nullptr || !listener->is_open || (here.temper.refuses_some && here.one_in(2)))
      return here.send(*back, [made] {
        made->problem = ECONNREFUSED;
        made->changed();
      });
    const auto there = std::make_shared<Stream>();
    there->host = target;
    there->way = back;
    there->other = made;
    there->is_connected = true;
    made->other = there;
    if (made->is_closed) made->reset();  // meanwhile
    listener->arrived.push_back(there);
    listener->changed();
    here.send(*back, [made] {
      made->is_connected = true;
      made->changed();
    });
  });
  return made;
}

short Stream::events() const {
  int all = 0;
  if (problem != 0) return POLLIN | POLLOUT | POLLERR | POLLHUP;
  if (is_connected) all |= POLLOUT;
  if (!inbox.empty() || has_heard_end) all |= POLLIN;
  if (has_heard_end) all |= POLLRDHUP;
  return static_cast<short>(all);
}

long Stream::send(const void* data, std::size_t bytes) {
  if (problem != 0) return errno = problem, -1;
  if (!is_connected) return errno = EAGAIN, -1;
  if (has_said_end) return errno = EPIPE, -1;
  const auto* begin = static_cast<const std::byte*>(data);
  Kernel::instance()->send(*way, [to = other, copy = std::vector<std::byte>(begin, begin + bytes)] {
    // Bytes that arrive at a closed end are answered by a reset.
    if (to->is_closed) return to->reset();
    to->inbox.insert(to->inbox.end(), copy.begin(), copy.end());
    to->changed();
  });
  return static_cast<long>(bytes);
}

long Stream::receive(void* data, std::size_t bytes, bool peeks) {
  if (!inbox.empty()) {
    const std::size_t count = std::min(bytes, inbox.size());
    std::copy_n(inbox.begin(), count, static_cast<std::byte*>(data));
    if (!peeks) inbox.erase(inbox.begin(), inbox.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<long>(count);
  }
  if (problem != 0) return errno = problem, -1;
  if (has_heard_end) return 0;
  return errno = EAGAIN, -1;
}

void Stream::say_end() {
  if (std::exchange(has_said_end, true) || other == nullptr) return;
  Kernel::instance()->send(*way, [to = other] {
    to->has_heard_end = true;
    to->changed();
  });
}

void Stream::stop_hearing() {
  has_heard_end = true;
  changed();
}

// To the other side.
void Stream::reset() {
  if (other == nullptr) return;
  Kernel::instance()->send(*way, [to = other] {
    if (to->problem == 0) to->problem = ECONNRESET;
    if (Kernel::instance()->one_in(2)) to->inbox.clear();
    to->changed();
  });
}

// With bytes that nobody has read the kernel resets it.
void Stream::closed(bool is_silent) {
  if (std::exchange(is_closed, true) || is_silent) return;
  if (!inbox.empty())
    reset();
  else
    say_end();
}

void lose_streams(const Process& one, const Process& other) {
  for (const int each : one.descriptors) {
    const auto stream = file_as<Stream>(each);
    if (stream == nullptr || stream->other == nullptr || !stream->is_connected) continue;
    for (const int theirs : other.descriptors)
      if (file_as<Stream>(theirs) == stream->other)
        for (const auto& end : {stream, stream->other}) {
          end->way->items.clear();
          end->problem = ETIMEDOUT;
          end->changed();
        }
  }
}

// ---- the table ------------------------------------------------------------------------------------------------------

namespace {

struct Table {
  std::map<int, std::shared_ptr<File>> files;
};
std::map<int, std::shared_ptr<File>>& table() { return Kernel::instance()->own<Table>().files; }

}  // namespace

bool may_have_descriptor() {
  Process& process = Kernel::process();
  if (process.descriptors.size() < process.most_descriptors) return true;
  process.has_lacked_descriptors = true;
  errno = EMFILE;
  return false;
}

int new_descriptor(std::shared_ptr<File> file) {
  UCFT_REAL(open);
  const int made = may_have_descriptor() ? real_open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
  if (made < 0) return -1;
  ++file->descriptors;
  table()[made] = std::move(file);
  return note_descriptor(made);
}

int note_descriptor(int descriptor) {
  if (descriptor >= 0) Kernel::process().descriptors.insert(descriptor);
  return descriptor;
}

std::shared_ptr<File> file_at(int descriptor) {
  const auto found = table().find(descriptor);
  return found == table().end() ? nullptr : found->second;
}

void replace_file(int descriptor, std::shared_ptr<File> file) {
  ++file->descriptors;
  table()[descriptor] = std::move(file);
}

// Files that are in a set leave it.
void close_descriptor(int descriptor, bool is_silent) {
  if (const auto found = table().find(descriptor); found != table().end()) {
    const std::shared_ptr<File> file = std::move(found->second);
    table().erase(found);
    if (--file->descriptors == 0) {
      for (Epoll* set : std::exchange(file->sets, {})) set->entries.erase(descriptor);
      file->closed(is_silent);
    }
  }
  UCFT_REAL(close);
  real_close(descriptor);
}

void unmap(std::uintptr_t address, std::size_t bytes) {
  UCFT_REAL(munmap);
  forget_mapping(reinterpret_cast<void*>(address));
  real_munmap(reinterpret_cast<void*>(address), bytes);
}

}  // namespace ucft::jobs

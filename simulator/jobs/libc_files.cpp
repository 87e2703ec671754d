// libc's names for files and memory, as ucft_world has them. See kernel.hpp. /proc is made from what the kernel knows.
#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/jobs/files.hpp"
#include "simulator/jobs/kernel.hpp"
#include "simulator/jobs/memory.hpp"
#include "simulator/jobs/real.hpp"

using namespace ucft::jobs;

// ---- memory ---------------------------------------------------------------------------------------------------------

namespace ucft::jobs {
namespace {

struct Mapping {
  std::size_t bytes;
  std::uint64_t inode, offset;
};

struct Mappings {
  std::map<std::uintptr_t, Mapping> all;
};
std::map<std::uintptr_t, Mapping>& mappings() { return Kernel::instance()->own<Mappings>().all; }

}  // namespace

MemoryName name_of_memory(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  auto found = mappings().upper_bound(number);
  if (found == mappings().begin()) return {0, number};
  --found;
  const std::uintptr_t inside = number - found->first;
  if (inside >= found->second.bytes) return {0, number};
  return {found->second.inode, found->second.offset + inside};
}

void note_mapping(void* address, std::size_t bytes, int descriptor, std::uint64_t offset) {
  struct stat file {};
  if (descriptor >= 0 && fstat(descriptor, &file) == 0)
    mappings()[reinterpret_cast<std::uintptr_t>(address)] = {bytes, file.st_ino, offset};
}

void forget_mapping(void* address) { mappings().erase(reinterpret_cast<std::uintptr_t>(address)); }

}  // namespace ucft::jobs

namespace {

// ---- /proc ----------------------------------------------------------------------------------------------------------

// "/proc/42/stat" -> 42, "stat". Of "self": the caller.
struct ProcPath {
  int pid;
  std::string_view rest;
};

std::optional<ProcPath> proc_path(std::string_view path) {
  constexpr std::string_view root = "/proc/";
  if (!path.starts_with(root)) return std::nullopt;
  path.remove_prefix(root.size());
  const std::size_t slash = path.find('/');
  if (slash == path.npos) return std::nullopt;
  const std::string_view who = path.substr(0, slash), rest = path.substr(slash + 1);
  if (who == "self") return ProcPath{Kernel::process().pid, rest};
  int pid = 0;
  const auto [end, error] = std::from_chars(who.data(), who.data() + who.size(), pid);
  if (error != std::errc() || end != who.data() + who.size()) return std::nullopt;
  return ProcPath{pid, rest};
}

// nullptr: it has been taken away, or is another host's.
Process* visible(int pid) {
  Process* const found = Kernel::running()->process_of(pid);
  return found == nullptr || found->host != Kernel::process().host || found->life == Life::has_ended ? nullptr : found;
}

std::string stat_of(const Process& process, std::uint64_t id, char state) {
  const int flags = process.life == Life::is_ending ? 4 : 0;  // PF_EXITING
  return std::to_string(id) + " (rank) " + state + " 1 0 0 0 0 " + std::to_string(flags) + " 0 0 0 0 0 0 0 0 0 0 0 0 " +
         std::to_string(process.start_time) + " 0\n";
}

char state_of(const Process& process, const Fiber& thread) {
  if (process.life == Life::is_ending) return 'R';
  if (process.stopped_until > Kernel::instance()->now()) return 'T';
  if (process.starves_until > Kernel::instance()->now()) return 'R';
  return thread.is_runnable || !thread.is_waiting ? 'R' : 'S';
}

// The text of a file of /proc; nothing: there is none.
std::optional<std::string> text_of(std::string_view path) {
  if (path == "/proc/sys/kernel/random/boot_id") return "boot-" + std::to_string(Kernel::process().host) + "\n";
  if (path == "/proc/meminfo") return "MemAvailable: 8388608 kB\nSwapFree: 0 kB\n";
  if (path == "/proc/self/cgroup") return "0::/\n";
  const std::optional<ProcPath> parts = proc_path(path);
  if (!parts) return std::nullopt;
  Process* const process = visible(parts->pid);
  if (process == nullptr) return std::nullopt;
  const std::string_view rest = parts->rest;
  if (rest == "stat")
    return stat_of(*process, static_cast<std::uint64_t>(process->pid), state_of(*process, *process->threads.front()));
  if (rest == "status")
    return "Name:\trank\nTracerPid:\t0\nNSpid:\t" + std::to_string(process->pid) + "\nCoreDumping:\t0\n";
  if (rest.starts_with("task/"))
    for (const auto& thread : process->threads)
      if (!thread->is_over() && rest == "task/" + std::to_string(thread->id()) + "/stat")
        return stat_of(*process, thread->id(), state_of(*process, *thread));
  return std::nullopt;
}

// A descriptor that reads it.
int with_text(const std::string& text) {
  UCFT_REAL(memfd_create);
  UCFT_REAL(write);
  const int made = real_memfd_create("text", MFD_CLOEXEC);
  if (made < 0) return -1;
  if (real_write(made, text.data(), text.size()) < 0 || lseek(made, 0, SEEK_SET) != 0) std::abort();
  return made;
}

bool is_made_up(std::string_view path) { return path.starts_with("/proc/") || path.starts_with("/sys/"); }

// "/proc/42/fd/7": what that process has there, once more.
int open_others(const ProcPath& path) {
  Process* const process = visible(path.pid);
  int descriptor = -1;
  const std::string_view number = path.rest.substr(3);
  std::from_chars(number.data(), number.data() + number.size(), descriptor);
  if (process == nullptr || process->life != Life::lives || !process->descriptors.contains(descriptor))
    return errno = ENOENT, -1;
  UCFT_REAL(open);
  return note_descriptor(real_open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDWR | O_CLOEXEC));
}

// A rank's memory is this program's.
pid_t process_behind(pid_t pid) {
  UCFT_REAL(getpid);
  return Kernel::running() == nullptr ? pid : real_getpid();
}

// ---- directories ----------------------------------------------------------------------------------------------------

struct Folder {
  std::vector<std::string> names;
  std::size_t next = 0;
  dirent entry{};
};

// Those that are open: a DIR* is one of these, or the system's.
std::set<Folder*>& folders() {
  static auto& all = *new std::set<Folder*>;
  return all;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(list, unsigned) : 0;
  va_end(list);
  UCFT_REAL(open);
  Kernel* const kernel = Kernel::running();
  if (kernel == nullptr) return real_open(path, flags, mode);
  kernel->pass();
  if (!may_have_descriptor()) return -1;
  if (const auto parts = proc_path(path); parts && parts->rest.starts_with("fd/")) return open_others(*parts);
  if (!is_made_up(path)) return note_descriptor(real_open(path, flags, mode));
  const std::optional<std::string> text = text_of(path);
  return text ? note_descriptor(with_text(*text)) : (errno = ENOENT, -1);
}

FILE* fopen(const char* path, const char* mode) {
  UCFT_REAL(fopen);
  if (Kernel::running() == nullptr || !is_made_up(path)) return real_fopen(path, mode);
  if (!may_have_descriptor()) return nullptr;
  const std::optional<std::string> text = text_of(path);
  if (text) return fdopen(with_text(*text), mode);
  errno = ENOENT;
  return nullptr;
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

// No other thread runs meanwhile: the library closes with locks in its hands.
int close(int descriptor) {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(close);
    return real_close(descriptor);
  }
  if (Kernel::process().descriptors.erase(descriptor) == 0) return errno = EBADF, -1;  // it may be another rank's
  close_descriptor(descriptor, false);
  return 0;
}

int dup(int descriptor) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(dup);
    return real_dup(descriptor);
  }
  const auto file = file_at(descriptor);
  return file == nullptr ? (errno = EBADF, -1) : new_descriptor(file);
}

ssize_t read(int descriptor, void* buffer, size_t bytes) {
  UCFT_REAL(read);
  const auto events = Kernel::running() == nullptr ? nullptr : file_as<EventFd>(descriptor);
  if (events == nullptr) return real_read(descriptor, buffer, bytes);
  if (events->count == 0) return errno = EAGAIN, -1;
  std::memcpy(buffer, &events->count, sizeof events->count);
  events->count = 0;
  return sizeof events->count;
}

ssize_t write(int descriptor, const void* buffer, size_t bytes) {
  UCFT_REAL(write);
  const auto events = Kernel::running() == nullptr ? nullptr : file_as<EventFd>(descriptor);
  if (events == nullptr) return real_write(descriptor, buffer, bytes);
  std::uint64_t more = 0;
  std::memcpy(&more, buffer, sizeof more);
  events->count += more;
  events->changed();
  return sizeof more;
}

int eventfd(unsigned count, int flags) noexcept {
  if (Kernel::running() == nullptr) {
    UCFT_REAL(eventfd);
    return real_eventfd(count, flags);
  }
  const auto made = std::make_shared<EventFd>();
  made->count = count;
  return new_descriptor(made);
}

int access(const char* path, int mode) noexcept {
  if (Kernel::running() == nullptr || !is_made_up(path)) {
    UCFT_REAL(access);
    return real_access(path, mode);
  }
  return 0;
}

int stat(const char* path, struct stat* file) noexcept {
  if (Kernel::running() == nullptr || !is_made_up(path)) {
    int (*const real_stat)(const char*, struct stat*) = function_behind<int(const char*, struct stat*)>("stat");
    return real_stat(path, file);
  }
  *file = {};
  const auto host = static_cast<ino_t>(Kernel::process().host);
  if (std::string_view(path).ends_with("ns/pid")) file->st_ino = 1000 + host;
  if (std::string_view(path).ends_with("ns/net")) file->st_ino = 2000 + host;
  return file->st_ino == 0 ? (errno = ENOENT, -1) : 0;
}

DIR* opendir(const char* path) {
  if (Kernel::running() == nullptr || !is_made_up(path)) {
    UCFT_REAL(opendir);
    return real_opendir(path);
  }
  Kernel::running()->pass();
  if (!may_have_descriptor()) return nullptr;
  const std::optional<ProcPath> parts = proc_path(path);
  Process* const process = parts ? visible(parts->pid) : nullptr;
  if (process == nullptr || (parts->rest != "task" && parts->rest != "fd")) {
    errno = ENOENT;
    return nullptr;
  }
  auto* const made = new Folder;
  folders().insert(made);
  for (const auto& thread : process->threads)  // of descriptors it shows none: there are no sockets of UCX
    if (parts->rest == "task" && !thread->is_over()) made->names.push_back(std::to_string(thread->id()));
  return reinterpret_cast<DIR*>(made);
}

dirent* readdir(DIR* directory) {
  auto* const folder = reinterpret_cast<Folder*>(directory);
  if (!folders().contains(folder)) {
    UCFT_REAL(readdir);
    return real_readdir(directory);
  }
  if (folder->next == folder->names.size()) return nullptr;
  std::strncpy(folder->entry.d_name, folder->names[folder->next++].c_str(), sizeof folder->entry.d_name - 1);
  return &folder->entry;
}

int closedir(DIR* directory) {
  auto* const folder = reinterpret_cast<Folder*>(directory);
  if (folders().erase(folder) == 0) {
    UCFT_REAL(closedir);
    return real_closedir(directory);
  }
  delete folder;
  return 0;
}

int memfd_create(const char* name, unsigned flags) noexcept {
  UCFT_REAL(memfd_create);
  if (Kernel::running() != nullptr && !may_have_descriptor()) return -1;
  const int made = real_memfd_create(name, flags);
  return Kernel::running() == nullptr ? made : note_descriptor(made);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  UCFT_REAL(fallocate);
  if (Kernel::running() != nullptr) {
    std::int64_t& left = Kernel::process().memory_left;
    if (mode == 0 && bytes > left) {
      Kernel::process().has_lacked_memory = true;
      return errno = ENOSPC, -1;
    }
    if (left != INT64_MAX) left -= mode == 0 ? bytes : 0;
  }
  return real_fallocate(descriptor, mode, offset, bytes);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  UCFT_REAL(mmap);
  void* const made = real_mmap(address, bytes, protection, flags, descriptor, offset);
  if (Kernel::running() != nullptr && made != MAP_FAILED) {
    Kernel::process().mappings[reinterpret_cast<std::uintptr_t>(made)] = bytes;
    note_mapping(made, bytes, descriptor, static_cast<std::uint64_t>(offset));
  }
  return made;
}

int munmap(void* address, size_t bytes) noexcept {
  UCFT_REAL(munmap);
  if (Kernel::running() != nullptr) {
    Kernel::process().mappings.erase(reinterpret_cast<std::uintptr_t>(address));
    forget_mapping(address);
  }
  return real_munmap(address, bytes);
}

ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals, const iovec* remote,
                         unsigned long remotes, unsigned long flags) noexcept {
  UCFT_REAL(process_vm_readv);
  return real_process_vm_readv(process_behind(pid), local, locals, remote, remotes, flags);
}

ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long locals, const iovec* remote,
                          unsigned long remotes, unsigned long flags) noexcept {
  UCFT_REAL(process_vm_writev);
  return real_process_vm_writev(process_behind(pid), local, locals, remote, remotes, flags);
}
}

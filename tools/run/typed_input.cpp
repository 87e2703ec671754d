// The stdin of rank 0.
#include "tools/run/typed_input.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

namespace ucft::detail::run {

namespace {

constexpr int background_pause_ms = 300;

bool write_all(int descriptor, const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t written = write(descriptor, bytes, static_cast<std::size_t>(count));
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes += written, count -= written;
  }
  return true;
}

// Another job of the shell has the terminal: typed input is for that one.
bool is_in_background() {
  const pid_t foreground = tcgetpgrp(STDIN_FILENO);
  return foreground > 0 && foreground != getpgrp();
}

// False: the end.
bool hand_on_some(int writer) {
  pollfd entries[] = {{STDIN_FILENO, POLLIN, 0}, {writer, 0, 0}};  // the latter: POLLERR when rank 0 has ended
  const bool must_wait = is_in_background();
  if (must_wait) entries[0].fd = -1;
  if (poll(entries, 2, must_wait ? background_pause_ms : -1) < 0) return errno == EINTR;
  if (entries[1].revents != 0) return false;
  if (entries[0].revents == 0 || is_in_background()) return true;
  char bytes[4096];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  if (count < 0) return errno == EINTR || (errno == EIO && is_in_background());
  return count > 0 && write_all(writer, bytes, count);
}

}  // namespace

void leave_stdin() {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
}

TypedInput::TypedInput() : reader_(STDIN_FILENO) {
  int ends[2];
  if (isatty(STDIN_FILENO) == 0 || pipe2(ends, O_CLOEXEC) != 0) return;
  reader_ = ends[0];
  writer_ = ends[1];
}

void TypedInput::close_writer() {
  if (writer_ >= 0) close(writer_);
}

void TypedInput::hand_on() {
  if (writer_ < 0) return leave_stdin();
  close(reader_);
  signal(SIGTTIN, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  std::thread([writer = writer_] {
    while (hand_on_some(writer)) {}
    close(writer);
  }).detach();
}

}  // namespace ucft::detail::run

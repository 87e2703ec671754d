// Lines from the ranks' pipes to our stdout and stderr.
#include "tools/run/output.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ucft::detail::run {

namespace {

constexpr int discarded_reads = 64;  // more than a terminal holds

// Our stdout may be shared with other processes, and must stay blocking for them. A pipe or terminal can be opened anew
// with a mode of its own. -1: not possible.
int open_without_blocking(int descriptor, mode_t mode) {
  if (!S_ISFIFO(mode) && !S_ISCHR(mode)) return -1;
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

}  // namespace

Sink::Sink(int descriptor) : write_bytes_(PIPE_BUF) {
  struct stat about {};
  if (fstat(descriptor, &about) != 0) return;
  is_socket_ = S_ISSOCK(about.st_mode);
  descriptor_ = open_without_blocking(descriptor, about.st_mode);
  // PIPE_BUF bytes go into a pipe without blocking once poll() says that it is writable.
  if (descriptor_ >= 0 || is_socket_ || S_ISREG(about.st_mode)) write_bytes_ = sink_bytes;
  if (descriptor_ < 0) descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

Sink::~Sink() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Sink::append(int writer, std::string_view tag, std::string_view text) {
  if (is_closed()) return;
  while (!text.empty()) {
    const bool continues = open_line_of_ == writer;
    if (!continues && open_line_of_ != nobody && (open_line_tagged_ || writer < 0)) pending_ += '\n';
    if (!continues) pending_ += tag;
    const auto newline = text.find('\n');
    const auto line = text.substr(0, newline == std::string_view::npos ? text.size() : newline + 1);
    pending_ += line;
    text.remove_prefix(line.size());
    open_line_of_ = newline == std::string_view::npos ? writer : nobody;
    open_line_tagged_ = !tag.empty();
  }
}

void Sink::append_line(std::string_view line) {
  append(-1, "", line);
  append(-1, "", "\n");
}

void Sink::end_tagged_line() {
  if (open_line_of_ != nobody && open_line_tagged_) append(open_line_of_, "", "\n");
}

int Sink::write_some() {
  if (is_closed() || pending_.empty()) return 0;
  const std::size_t count = std::min(pending_.size(), write_bytes_);
  const ssize_t written = is_socket_ ? send(descriptor_, pending_.data(), count, MSG_DONTWAIT | MSG_NOSIGNAL)
                                     : write(descriptor_, pending_.data(), count);
  if (written > 0) pending_.erase(0, static_cast<std::size_t>(written));
  if (written >= 0 || errno == EAGAIN || errno == EINTR) return 0;
  const int problem = errno;
  ::close(descriptor_);
  descriptor_ = -1;
  pending_.clear();
  return problem;
}

Stream::Stream(int descriptor, Kind kind, int rank, std::string tag, Sink& sink)
    : descriptor_(descriptor), kind_(kind), rank_(rank), tag_(std::move(tag)), sink_(&sink) {}

Stream::~Stream() { close(); }

Stream::Stream(Stream&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      kind_(other.kind_),
      shows_parts_(other.shows_parts_),
      discarded_(other.discarded_),
      rank_(other.rank_),
      tag_(std::move(other.tag_)),
      sink_(other.sink_),
      partial_line_(std::move(other.partial_line_)) {}

Stream::Reading Stream::read_some() {
  if (sink_->is_closed()) return discard();
  char bytes[line_bytes];
  const ssize_t count = read(descriptor_, bytes, sizeof bytes);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Reading::Fine;
  if (count <= 0) {  // a terminal's end is EIO
    flush();
    close();
    return Reading::Fine;
  }
  const std::string_view text(bytes, static_cast<std::size_t>(count));
  const auto whole = text.rfind('\n') + 1;  // npos + 1 is 0: no whole line
  if (whole > 0) {
    flush();
    sink_->append(rank_, tag_, text.substr(0, whole));
  }
  partial_line_ += text.substr(whole);
  if (shows_parts_ || partial_line_.size() > line_bytes) flush();
  return Reading::Fine;
}

Stream::Reading Stream::discard() {
  if (kind_ == Kind::pipe) {
    close();
    return Reading::Fine;
  }
  char bytes[line_bytes];
  ssize_t count = read(descriptor_, bytes, sizeof bytes);
  // The first time it is output that the rank had written before. The second write means SIGPIPE, the third an error.
  if (count > 0) ++discarded_;
  for (int reads = 0; count > 0 && reads < discarded_reads; ++reads) count = read(descriptor_, bytes, sizeof bytes);
  const bool has_ended = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  if (has_ended || discarded_ > 2) close();
  return discarded_ == 2 && !has_ended ? Reading::SinkGone : Reading::Fine;
}

void Stream::flush() {
  sink_->append(rank_, tag_, partial_line_);
  partial_line_.clear();
}

void Stream::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace ucft::detail::run

#include "simulator/judge/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>

namespace ucft::judge {
namespace {

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

Recorder::Recorder(const std::filesystem::path& directory, RankHistory head) {
  const std::filesystem::path path = directory / ("rank." + std::to_string(head.rank));
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
  head.began_at = now_ns();
  write(line_of_begin(head));
}

Recorder::~Recorder() { ::close(file_); }

std::size_t Recorder::begins(Call& call) {
  call.began_at = now_ns();
  write(line_of_call(calls_, call));
  return calls_++;
}

void Recorder::has_ended(std::size_t number, Call& call) {
  call.ended_at = now_ns();
  write(line_of_end(number, call));
}

void Recorder::is_over() { write(line_of_over(now_ns())); }

void Recorder::write(std::string line) {
  line += '\n';
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::system_error(errno, std::generic_category(), "a history");
}

}  // namespace ucft::judge

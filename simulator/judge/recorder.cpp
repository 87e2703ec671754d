#include "simulator/judge/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

namespace ucft::judge {
namespace {

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

FileRecorder::FileRecorder(const std::filesystem::path& directory, RankHistory head) {
  const std::filesystem::path path = directory / ("rank." + std::to_string(head.rank));
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
  head.began_at = now_ns();
  write(line_of_begin(head));
}

FileRecorder::~FileRecorder() { ::close(file_); }

std::size_t FileRecorder::begins(Call& call) {
  call.began_at = now_ns();
  write(line_of_call(calls_, call));
  return calls_++;
}

void FileRecorder::has_ended(std::size_t number, Call& call) {
  call.ended_at = now_ns();
  write(line_of_end(number, call));
}

void FileRecorder::is_over() { write(line_of_over(now_ns())); }

void FileRecorder::write(std::string line) {
  line += '\n';
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::system_error(errno, std::generic_category(), "a history");
}

MemoryRecorder::MemoryRecorder(RankHistory& history, std::function<std::int64_t()> clock)
    : history_(history), clock_(std::move(clock)) {
  history_.began_at = history_.last_at = clock_();
}

std::size_t MemoryRecorder::begins(Call& call) {
  history_.last_at = call.began_at = clock_();
  history_.calls.push_back(call);
  history_.calls.back().ended_at = -1;  // of one that was posted before it still says how that ended
  return history_.calls.size() - 1;
}

void MemoryRecorder::has_ended(std::size_t number, Call& call) {
  history_.last_at = call.ended_at = clock_();
  history_.calls[number] = call;
}

void MemoryRecorder::is_over() {
  history_.last_at = clock_();
  history_.is_over = true;
}

}  // namespace ucft::judge

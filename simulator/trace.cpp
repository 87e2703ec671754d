#include "simulator/trace.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>

namespace ucft::detail::simulator {

const char* phase_name(Phase phase) {
  static constexpr const char* names[phase_count] = {
      "group",    "up",       "broadcast",      "correction", "ask",     "decided", "gather",       "gather_reply",
      "mismatch", "exchange", "reduce_scatter", "allgather",  "closing", "waiting", "all_broadcast"};
  return names[static_cast<int>(phase)];
}

ChromeTrace::~ChromeTrace() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove((path_ + ".new").c_str());
}

bool ChromeTrace::open(const std::string& path, std::string& error) {
  if (path.empty()) {
    error = "the name of a file is missing";
    return false;
  }
  path_ = path;
  file_ = std::fopen((path + ".new").c_str(), "w");
  if (file_ == nullptr) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return false;
  }
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file_);
  for (Rank rank = 0; rank < ranks_; ++rank)
    write(fmt::format(R"({{"ph":"M","pid":0,"tid":{},"name":"thread_name","args":{{"name":"rank {}"}}}})", rank, rank));
  return true;
}

bool ChromeTrace::close(std::string& error) {
  failed_ |= std::fputs("\n]}\n", file_) < 0;
  failed_ |= std::fclose(file_) != 0;
  file_ = nullptr;
  failed_ = failed_ || std::rename((path_ + ".new").c_str(), path_.c_str()) != 0;
  if (!failed_) return true;
  error = fmt::format("{}: could not be written: {}", path_, std::strerror(errno));
  std::remove((path_ + ".new").c_str());
  return false;
}

void ChromeTrace::write(const std::string& event) {
  if (!first_) failed_ |= std::fputs(",\n", file_) < 0;
  first_ = false;
  failed_ |= std::fputs(event.c_str(), file_) < 0;
}

void ChromeTrace::send(Rank from, double begin, double end, const Message& message, std::uint64_t number) {
  const char* name = phase_name(message.phase);
  write(fmt::format(R"({{"ph":"X","pid":0,"tid":{},"ts":{},"dur":{},"cat":"send","name":"{}","args":{{"to":{}}}}})",
                    from, begin, end - begin, name, message.peer));
  write(fmt::format(R"({{"ph":"s","pid":0,"tid":{},"ts":{},"id":{},"cat":"message","name":"{}"}})", from, begin, number,
                    name));
}

void ChromeTrace::receive(Rank to, double begin, double end, const Message& message, std::uint64_t number) {
  const char* name = phase_name(message.phase);
  write(
      fmt::format(R"({{"ph":"X","pid":0,"tid":{},"ts":{},"dur":{},"cat":"receive","name":"{}","args":{{"from":{}}}}})",
                  to, begin, end - begin, name, message.peer));
  write(fmt::format(R"({{"ph":"f","bp":"e","pid":0,"tid":{},"ts":{},"id":{},"cat":"message","name":"{}"}})", to, begin,
                    number, name));
}

void ChromeTrace::mark(Rank rank, double time, const std::string& text, const char* scope) {
  write(fmt::format(R"({{"ph":"i","s":"{}","pid":0,"tid":{},"ts":{},"name":"{}"}})", scope, rank, time, text));
}

void ChromeTrace::finish(Rank rank, double time) { mark(rank, time, "has the result", "t"); }
void ChromeTrace::die(Rank rank, double time) { mark(rank, time, "dies", "t"); }
void ChromeTrace::detect(Rank failed, double time) {
  mark(failed, time, fmt::format("rank {} is reported as failed", failed), "g");
}

}  // namespace ucft::detail::simulator

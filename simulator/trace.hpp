// One run as a file for Perfetto or chrome://tracing. It has a row per rank, and a bar per send and receive with an
// arrow between them. Marks show where a rank has its result, dies, or is reported as failed. One unit of the clock is
// shown as 1 us.
#pragma once

#include <cstdio>
#include <string>

#include "simulator/engine.hpp"

namespace ucft::detail::simulator {

class ChromeTrace : public Tracer {
 public:
  explicit ChromeTrace(Rank ranks) : ranks_(ranks) {}
  ~ChromeTrace() override;
  ChromeTrace(const ChromeTrace&) = delete;
  ChromeTrace& operator=(const ChromeTrace&) = delete;

  // It is written beside `path` and takes its place when it is closed. False: it can't be written; error says why.
  bool open(const std::string& path, std::string& error);
  // Nothing is lost silently: false if anything could not be written.
  bool close(std::string& error);

  void send(Rank from, double begin, double end, const Message& message, std::uint64_t number) override;
  void receive(Rank to, double begin, double end, const Message& message, std::uint64_t number) override;
  void finish(Rank rank, double time) override;
  void die(Rank rank, double time) override;
  void detect(Rank failed, double time) override;

 private:
  void write(const std::string& event);
  void mark(Rank rank, double time, const std::string& text, const char* scope);

  Rank ranks_;
  std::FILE* file_ = nullptr;
  std::string path_;
  bool first_ = true, failed_ = false;
};

const char* phase_name(Phase phase);

}  // namespace ucft::detail::simulator

// The ranks' output: whole lines, tagged with the rank, in bounded memory.
//
// A Stream reads one pipe, or the pseudo-terminal, of one rank. It hands lines to a Sink, which is our stdout or
// stderr. A sink that is full makes its streams wait, and with them the ranks (their pipes fill up): back pressure
// instead of memory.
//
// A line longer than line_bytes is handed over in pieces. If nothing else is written in between, the pieces stay one
// line. Else the line is broken and the rest gets a tag of its own. Without tags nothing is ever added.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace ucft::detail::run {

inline constexpr std::size_t line_bytes = std::size_t{1} << 16;
inline constexpr std::size_t sink_bytes = std::size_t{1} << 18;

class Sink {
 public:
  // Takes a duplicate of `descriptor`, and writes without blocking where that is possible.
  explicit Sink(int descriptor);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Text of `writer` (a rank, or -1: ucft_run itself); may end within a line, which the same writer continues.
  void append(int writer, std::string_view tag, std::string_view text);
  // A line of its own, even after a part of a line.
  void append_line(std::string_view line);
  // At the end: a last line without newline gets one, if lines are tagged.
  void end_tagged_line();

  bool has_room() const { return pending_.size() < sink_bytes; }
  bool is_empty() const { return pending_.empty(); }
  bool is_closed() const { return descriptor_ < 0; }  // the reader has gone: everything is discarded
  int descriptor() const { return descriptor_; }
  // When poll() says so: one write. 0, or the errno that has closed the sink.
  int write_some();

 private:
  static constexpr int nobody = -2;

  int descriptor_ = -1;
  std::size_t write_bytes_;  // most in one write: what does not block after poll()
  bool is_socket_ = false;
  std::string pending_;
  int open_line_of_ = nobody;  // whose line has no newline yet
  bool open_line_tagged_ = false;
};

class Stream {
 public:
  enum class Kind { pipe, terminal };
  // Owns `descriptor`, the reading end. An empty tag: none.
  Stream(int descriptor, Kind kind, int rank, std::string tag, Sink& sink);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream& operator=(Stream&&) = delete;

  int descriptor() const { return descriptor_; }
  int rank() const { return rank_; }
  bool is_open() const { return descriptor_ >= 0; }
  bool wants_to_read() const { return is_open() && sink_->has_room(); }
  // When poll() says so: one read. At the end, or if the sink has closed, the stream closes. In the latter case the
  // rank must get SIGPIPE with its next write, as if it had written there itself. The kernel sees to that with a pipe.
  // With a terminal the caller must: so says SinkGone. A rank that ignores the signal gets an error with a later write.
  enum class Reading { Fine, SinkGone };
  Reading read_some();
  // Hands over the part that has been read of a last line without newline.
  void flush();
  // From now on parts of lines are handed over at once: somebody sits there, and waits for a prompt.
  void show_parts() { shows_parts_ = true; }

 private:
  void close();
  Reading discard();

  int descriptor_;
  Kind kind_;
  bool shows_parts_ = false;
  int discarded_ = 0;  // how often there was something after the sink had closed
  int rank_;
  std::string tag_;
  Sink* sink_;
  std::string partial_line_;
};

}  // namespace ucft::detail::run

// The stdin of rank 0.
//
// It is ucft_run's own, if that is a file or a pipe. A terminal can be read by the processes in its foreground only,
// where ranks are not. So the guard reads typed input, and hands it on through a pipe.
#pragma once

namespace ucft::detail::run {

// This process reads end-of-file from now on: its stdin is rank 0's alone.
void leave_stdin();

class TypedInput {
 public:
  TypedInput();

  // A descriptor, which the supervisor inherits.
  int for_rank_0() const { return reader_; }
  bool is_terminal() const { return writer_ >= 0; }
  // In the supervisor.
  void close_writer();
  // In the guard: lets go of rank 0's end, and hands on in the background until there is no more, or rank 0 has ended.
  void hand_on();

 private:
  int reader_;
  int writer_ = -1;  // -1: our stdin is no terminal
};

}  // namespace ucft::detail::run

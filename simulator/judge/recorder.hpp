// A rank's history while it grows: each event is a line in its file before the next one happens.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "simulator/judge/history.hpp"

namespace ucft::judge {

class Recorder {
 public:
  // Makes the file rank.N in the directory, which is there. head: rank, ranks, host, f and reads_memory. Throws
  // std::system_error if it can't.
  Recorder(const std::filesystem::path& directory, RankHistory head);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Notes that a call begins, now; returns its number. Before the call itself.
  std::size_t begins(Call& call);
  // Notes that it has ended, now.
  void has_ended(std::size_t number, Call& call);
  void is_over();

 private:
  void write(std::string line);

  int file_ = -1;
  std::size_t calls_ = 0;
};

}  // namespace ucft::judge

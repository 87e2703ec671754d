// A rank's history while it grows.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "simulator/judge/history.hpp"

namespace ucft::judge {

class Recorder {
 public:
  Recorder() = default;
  virtual ~Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Notes that a call begins, now; returns its number. Before the call itself.
  virtual std::size_t begins(Call& call) = 0;
  // Notes that it has ended, now.
  virtual void has_ended(std::size_t number, Call& call) = 0;
  virtual void is_over() = 0;
};

// Each event is a line in its file before the next one happens.
class FileRecorder final : public Recorder {
 public:
  // Makes the file rank.N in the directory, which is there. head: rank, ranks, host, f and reads_memory. Throws
  // std::system_error if it can't.
  FileRecorder(const std::filesystem::path& directory, RankHistory head);
  ~FileRecorder() override;

  std::size_t begins(Call& call) override;
  void has_ended(std::size_t number, Call& call) override;
  void is_over() override;

 private:
  void write(std::string line);

  int file_ = -1;
  std::size_t calls_ = 0;
};

// In memory that outlives the rank.
class MemoryRecorder final : public Recorder {
 public:
  // history: with its head, as above; outlives this. clock: ns, the same for all ranks.
  MemoryRecorder(RankHistory& history, std::function<std::int64_t()> clock);

  std::size_t begins(Call& call) override;
  void has_ended(std::size_t number, Call& call) override;
  void is_over() override;

 private:
  RankHistory& history_;
  std::function<std::int64_t()> clock_;
};

}  // namespace ucft::judge

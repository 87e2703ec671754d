// ucft_run's part in a job of one host: the rendezvous of its start-up, in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "simulator/jobs/kernel.hpp"

namespace ucft::jobs {

class Launcher {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  // key: of the job's secret.
  Launcher(int ranks, std::uint64_t key) : ranks_(ranks), key_(key) {}

  // In its process. start: makes the process of a rank. Returns when all of them have ended. Throws std::runtime_error
  // if it can't listen.
  void run(const std::function<Process*(int rank, const Variables& variables)>& start);
  // Of a process that says it is that rank. While run() runs.
  Variables variables_of(int rank, bool knows_secret) const;

 private:
  int ranks_;
  std::uint64_t key_;
  std::string address_;
};

}  // namespace ucft::jobs

// A rank for the launcher's tests: one round of start-up, then what the arguments say.
//
//   launcher_test_rank            prints the ranks' pids as the round gave them
//   launcher_test_rank die R      rank R ends with exit code 3 before the round
//   launcher_test_rank stop R     rank R connects, and stops itself
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ucx_layer/bootstrap/rendezvous.hpp"

int main(int argument_count, char** argument_values) {
  using namespace std::chrono_literals;
  const std::string act = argument_count > 2 ? argument_values[1] : "";
  const int actor = argument_count > 2 ? std::atoi(argument_values[2]) : -1;
  std::string error;
  const auto rendezvous = ucft::detail::bootstrap::Rendezvous::connect(30s, error);
  if (rendezvous && rendezvous->rank() == actor) {
    if (act == "die") _exit(3);
    if (act == "stop") raise(SIGSTOP);
  }
  const long pid = getpid();
  std::vector<long> pids(rendezvous ? static_cast<std::size_t>(rendezvous->size()) : 0);
  if (!rendezvous || !rendezvous->allgather(&pid, pids.data(), sizeof pid, 30s, error)) {
    std::printf("error: %s\n", error.c_str());
    return 10;
  }
  for (const long each : pids) std::printf("%ld ", each);
  std::printf("\n");
  rendezvous->close();
}

// A rank for the launcher's tests: one round of start-up, then what the arguments say.
//
//   launcher_test_rank              prints the ranks' pids as the round gave them
//   launcher_test_rank die R        rank R ends with exit code 3 before the round
//   launcher_test_rank die_linger R the same, and rank 0 lives on after the start-up that failed
//   launcher_test_rank stop R       rank R connects, and stops itself
//   launcher_test_rank say_and_wait R, say_and_die R
//                                   rank R says something, as printf does it, and waits, or dies; no start-up
//   launcher_test_rank vfork R      rank R waits for a child of vfork(), which waits, too; no start-up
//   launcher_test_rank late R       rank R connects late, says when start-up is over, and lives on
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ucx_layer/bootstrap/rendezvous.hpp"

namespace {

[[noreturn]] void say_and(bool die) {
  std::printf("said\nsaid ");
  std::printf("more\n");
  if (die) raise(SIGKILL);
  for (;;) pause();
}

[[noreturn]] void wait_in_vfork() {
  if (vfork() == 0)
    for (;;) pause();
  _exit(0);
}

}  // namespace

int main(int argument_count, char** argument_values) {
  using namespace std::chrono_literals;
  const std::string act = argument_count > 2 ? argument_values[1] : "";
  const int actor = argument_count > 2 ? std::atoi(argument_values[2]) : -1;
  const bool is_actor = std::getenv("UCFT_RANK") == std::to_string(actor);
  if (act.rfind("say_and_", 0) == 0) {
    if (is_actor) say_and(act == "say_and_die");
    return 0;
  }
  if (act == "vfork") {
    if (is_actor) wait_in_vfork();
    return 0;
  }
  if (act == "late" && is_actor) std::this_thread::sleep_for(300ms);
  std::string error;
  const auto rendezvous = ucft::detail::bootstrap::Rendezvous::connect(30s, error);
  if (rendezvous && is_actor) {
    if (act == "die" || act == "die_linger") _exit(3);
    if (act == "stop") raise(SIGSTOP);
  }
  const long pid = getpid();
  std::vector<long> pids(rendezvous ? static_cast<std::size_t>(rendezvous->size()) : 0);
  if (!rendezvous || !rendezvous->allgather(&pid, pids.data(), sizeof pid, 30s, error)) {
    std::printf("error: %s\n", error.c_str());
    if (act != "die_linger") return 10;
    if (rendezvous && rendezvous->rank() == 0) pause();
    return 0;
  }
  for (const long each : pids) std::printf("%ld ", each);
  std::printf("\n");
  if (act == "late") {
    std::printf("start-up is over\n");
    std::fflush(stdout);
  }
  rendezvous->close();
  if (act == "late" && is_actor) pause();
}

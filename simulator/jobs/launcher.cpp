#include "simulator/jobs/launcher.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "ucx_layer/bootstrap/rendezvous_server.hpp"

namespace ucft::jobs {

using namespace ucft::detail;
using Clock = std::chrono::steady_clock;

namespace {

bootstrap::Secret secret_of(std::uint64_t key) {
  bootstrap::Secret secret{};
  std::memcpy(secret.data(), &key, std::min(sizeof key, secret.size()));
  return secret;
}

}  // namespace

Launcher::Variables Launcher::variables_of(int rank, bool knows_secret) const {
  return {{"UCFT_RANK", std::to_string(rank)},
          {"UCFT_SIZE", std::to_string(ranks_)},
          {"UCFT_LOCAL_RANK", std::to_string(rank)},
          {"UCFT_RENDEZVOUS", address_},
          {"UCFT_JOB_SECRET", bootstrap::secret_to_hex(secret_of(knows_secret ? key_ : ~key_))}};
}

// As tools/run has it: a poll of all connections, and a look at which ranks have ended.
void Launcher::run(const std::function<Process*(int rank, const Variables& variables)>& start) {
  bootstrap::RendezvousServer::Options options;
  options.size = ranks_;
  options.secret = secret_of(key_);
  std::string error;
  const auto server = bootstrap::RendezvousServer::listen(std::move(options), error);
  if (server == nullptr) throw std::runtime_error(error);
  address_ = server->address();
  std::vector<Process*> running;
  for (int rank = 0; rank < ranks_; ++rank) running.push_back(start(rank, variables_of(rank, true)));
  while (std::ranges::any_of(running, [](const Process* each) { return each != nullptr; })) {
    std::vector<pollfd> entries;
    server->add_poll_entries(entries, Clock::now());
    poll(entries.data(), entries.size(), server->start_up_ended() ? 100 : 5);
    for (const pollfd& each : entries)
      if (each.revents != 0) server->on_ready(each.fd, each.revents, Clock::now());
    server->on_timer(Clock::now());
    for (int rank = 0; rank < ranks_; ++rank) {
      Process*& its = running[static_cast<std::size_t>(rank)];
      if (its == nullptr || its->life != Life::has_ended) continue;
      server->on_rank_exit(rank, its->pid, "an end");
      its = nullptr;
    }
  }
}

}  // namespace ucft::jobs

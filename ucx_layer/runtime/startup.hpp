// Start-up of a context: the places of all ranks, the transport, wire-up of everything that later operations use. Each
// step is collective over the out-of-band allgather, so that a rank that fails in one is named on all.
//
// Some ranks may be absent. They contribute zeros, which mean nothing: each step passes over them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "timeout_detector/lifelines.hpp"
#include "ucx_layer/bootstrap/address_trial.hpp"
#include "ucx_layer/bootstrap/out_of_band.hpp"
#include "ucx_layer/runtime/departures_driver.hpp"
#include "ucx_layer/runtime/job.hpp"
#include "ucx_layer/runtime/openers.hpp"
#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

struct Identity;    // the facts that a rank tells all others first
struct StepResult;  // whether a step worked on a rank

class StartUp {
 public:
  using Clock = std::chrono::steady_clock;

  // job: with its settings and pid; the steps fill in the rest.
  StartUp(Job& job, OutOfBand& oob, DeparturesDriver& departures);

  // In this order. False: `error` names the culprit.
  bool exchange_identities(std::string& error);
  bool exchange_listeners(std::string& error);
  bool wire_up(const Sink& sink, std::unique_ptr<Transport>& transport, std::string& error);
  bool shut_the_door(std::string& error);
  // Whether a step worked everywhere. `error` names the first rank where it didn't.
  bool agree(bool ok, std::string& error, const char* step);
  std::vector<std::pair<std::int32_t, Lifeline>> take_lifelines() { return std::exchange(lifelines_, {}); }  // by rank

 private:
  std::int32_t first_failed(const std::vector<StepResult>& all) const;
  void take_in(const Identity& mine, const std::vector<Identity>& all);
  Unopened try_pages(const std::vector<Identity>& all, std::string& why) const;
  bool divide_hosts(const std::vector<Identity>& identities, std::string& error);
  void note_places();
  void plan_connections(std::int32_t f);
  bool try_devices(std::string& error);
  void choose_devices(ReachedAddresses reached, bool tells);
  Transport::Setup setup_of_transport(const Sink& sink) const;
  bool open_transport(PeerAddress& mine, std::string& error);
  bool exchange_addresses(const PeerAddress& mine, const LifelineName& lifeline, std::vector<PeerAddress>& all,
                          std::vector<LifelineName>& lifelines, std::string& error);
  bool greet(std::string& error);
  bool connect_lifelines(LifelineMaker& maker, const std::vector<LifelineName>& names, std::string& error);
  bool open_remote_mailboxes(std::string& error);

  Job& job_;
  OutOfBand& oob_;
  DeparturesDriver& departures_;
  Transport* transport_ = nullptr;
  const std::function<void()> polling_ = [this] { transport_->poll(); };  // peers need it while this rank waits
  std::int32_t sharing_ = 0;                                              // ranks that share memory, with this one
  std::uint64_t mappable_ = UINT64_MAX;  // bytes of address space that each rank of this host can still map,
  std::int32_t mappable_rank_ = 0;       // and the one that can map least
  std::vector<std::pair<std::int32_t, Lifeline>> lifelines_;
  std::vector<NetworkDevice> devices_;            // of this rank
  std::int32_t most_devices_ = 0;                 // of a rank
  std::vector<std::uint64_t> networks_;           // by rank: those with the same number have the same devices
  std::vector<std::string> reached_, unreached_;  // names, if others can't reach all that this rank has
};

}  // namespace ucft::detail

// The message path over UCX: active messages, where each connection has a queue of its own (tcp, rc, ud).
#pragma once

#include <array>
#include <memory>

#include "ucx_layer/transport/connections.hpp"
#include "ucx_layer/transport/paths/message.hpp"

namespace ucft::detail {

// Its poll drives UCX, for the remote path as well.
class ActiveMessages final : public MessagePath {
 public:
  ActiveMessages(const Station& station, Connections& connections) : MessagePath(station), connections_(connections) {}

  bool open(std::string& error) override;
  std::vector<std::byte> address(std::string& error) override { return connections_.ucx().address(error); }
  bool connect(int peer, std::span<const std::byte> address, std::string& error) override {
    return connections_.connect(peer, address, error);
  }
  bool is_lost(int peer) const override { return connections_.is_broken(peer); }
  void send(int peer, const Outgoing& message) override;
  void forget(int peer) override { connections_.close(peer); }
  std::int64_t waiting() const override {
    return connections_.ucx().has_given_up() ? 0 : static_cast<std::int64_t>(all_.size() - free_.size());
  }
  int event_fd() override;
  bool arm() override;
  void give_back(std::uint64_t tag) override;

 private:
  static constexpr unsigned id = 17;
  static constexpr std::size_t short_bytes = 8192;
  static constexpr std::size_t tail_limit = sizeof(Tail) + failure_list_limit * sizeof(std::uint32_t);

  // One of ours on its way. Header and tail must stay where they are until UCX is done: 1.13 can't copy.
  struct Sending {
    std::array<std::byte, sizeof(WireHeader) + tail_limit> header;
    BufferId value = no_buffer;
    ActiveMessages* owner = nullptr;
    int peer = 0;
  };

  bool drive() override;
  void report() override;
  void finish(Sending* sending, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* sending);
  static ucs_status_t on_arrival(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param);

  Connections& connections_;
  std::vector<std::unique_ptr<Sending>> all_;
  std::vector<Sending*> free_;
  // Since drive() began. A short message is taken before another look, which over tcp is a system call. Long data come
  // in several pieces. After data that were delivered in passing, all that follows from them is sent first.
  bool short_came_ = false, long_passed_ = false;
};

}  // namespace ucft::detail

// Starts the context of an epoch on a thread of its own, while the program goes on in the one before.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ucft/ucft.h"
#include "ucx_layer/membership/invitation.hpp"
#include "ucx_layer/runtime/context.hpp"

namespace ucft::detail {

class EpochStart {
 public:
  // params: of the program, without a callback. own: this process's listener. at_end: runs on the thread, last of all.
  // Throws std::system_error.
  EpochStart(Invitation invitation, const ucft_context_params_t& params, const ListenerName& own,
             std::function<void()> at_end);
  ~EpochStart();  // ends it
  EpochStart(const EpochStart&) = delete;
  EpochStart& operator=(const EpochStart&) = delete;

  const Invitation& invitation() const { return invitation_; }
  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // Once it is over. Null: it failed, and error() says why.
  std::unique_ptr<Context> take_context() { return std::move(context_); }
  const std::string& error() const { return error_; }

 private:
  void run();
  bool start(Context& context);
  void invite_others() const;

  Invitation invitation_;
  ucft_context_params_t params_;
  ListenerName own_;
  std::function<void()> at_end_;
  std::mutex mutex_;
  bool cancelled_ = false;  // guarded
  int rendezvous_ = -1;     // guarded: a descriptor of its connection
  std::unique_ptr<Context> context_;
  std::string error_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace ucft::detail

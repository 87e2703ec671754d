// One operation as c10d knows it: a Work. Its tensors belong to it until it is complete.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ucft/ucft.h"

namespace ucft::pytorch {

class Engine;

// The result of an operation. missing: ranks of the group that did not contribute; nullopt: not known here. root: of a
// broadcast, the rank that the values are from; of a reduce; else -1.
struct Outcome {
  std::uint32_t contributors = 0;
  std::int32_t root = -1;
  std::optional<std::vector<std::int32_t>> missing;
};

class Collective : public c10d::Work {
 public:
  using Clock = std::chrono::steady_clock;
  // Makes the request that is posted then. root: of a broadcast, the one whose turn it is.
  using Init = std::function<ucft_status_t(ucft_comm_h, std::int32_t root, ucft_request_h*)>;
  // Once it has succeeded: copies the received data to where they belong.
  using Deliver = std::function<void(const Outcome&)>;

  struct Plan {
    c10d::OpType kind;
    std::chrono::milliseconds timeout;  // not positive: the group's
    std::vector<at::Tensor> inputs, outputs;
    Init init;
    std::int32_t root = -1;
    Deliver deliver{};
  };
  Collective(std::shared_ptr<Engine> engine, std::int32_t rank, Plan plan);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  bool isCompleted() override;
  void abort() override;

  // Throws unless it is complete, and throws the failure of one that has failed.
  Outcome outcome();

 private:
  friend class Engine;

  bool is_broadcast() const { return opType_ == c10d::OpType::BROADCAST; }
  void complete();
  // Once it is complete. Without any lock: a callback that waits for the future may call anything.
  void tell_future();
  void mark(c10::ivalue::Future& future);

  const std::shared_ptr<Engine> engine_;
  const Plan plan_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool marked_ = false, eager_ = false;

  // The engine's.
  std::int32_t root_;
  ucft_request_h request_ = UCFT_REQUEST_NULL;
  Outcome outcome_;
  std::exception_ptr failed_;
};

}  // namespace ucft::pytorch

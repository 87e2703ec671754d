// The backend that c10d calls. Arguments are checked here, then an operation is queued in the group's engine.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/torch/engine.hpp"

namespace ucft::pytorch {

class ProcessGroupUcft : public c10d::ProcessGroup {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  ProcessGroupUcft(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout);
  ~ProcessGroupUcft() override;

  const std::string getBackendName() const override { return "ucft"; }

  WorkPointer broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // Operations that ucft does not have yet: an error that says what to do.
  using Tensors = std::vector<at::Tensor>;
  WorkPointer gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override { refuse("gather"); }
  WorkPointer scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override { refuse("scatter"); }
  WorkPointer reduce_scatter(Tensors&, std::vector<Tensors>&, const c10d::ReduceScatterOptions&) override {
    refuse("reduce_scatter");
  }
  WorkPointer _reduce_scatter_base(at::Tensor&, at::Tensor&, const c10d::ReduceScatterOptions&) override {
    refuse("reduce_scatter_tensor");
  }
  WorkPointer alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) override { refuse("all_to_all"); }
  WorkPointer alltoall_base(at::Tensor&, at::Tensor&, std::vector<std::int64_t>&, std::vector<std::int64_t>&,
                            const c10d::AllToAllOptions&) override {
    refuse("all_to_all_single");
  }
  WorkPointer send(Tensors&, int, int) override { refuse("send"); }
  WorkPointer recv(Tensors&, int, int) override { refuse("recv"); }
  WorkPointer recvAnysource(Tensors&, int) override { refuse("recv from any rank"); }

  // Ranks of the group known here to have failed, ascending.
  std::vector<std::int32_t> failed() { return engine_->failed(); }

  // Leaves, or (abandon) forgets, every group of this process.
  static void close_all(bool abandon);

 private:
  WorkPointer post(Collective::Plan plan);
  [[noreturn]] static void refuse(const char* operation);

  const std::shared_ptr<Engine> engine_;
};

}  // namespace ucft::pytorch

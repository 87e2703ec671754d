#include "python/torch/process_group.hpp"

#include <Python.h>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "python/torch/arguments.hpp"
#include "python/torch/failure.hpp"

namespace ucft::pytorch {

namespace {

using c10d::OpType;

struct Engines {
  std::mutex mutex;
  std::vector<std::weak_ptr<Engine>> all;
};

Engines& engines() {
  static Engines& every = *new Engines;  // outlives all other objects
  return every;
}

std::string numbered(const char* name, std::size_t i) { return std::string(name) + " " + std::to_string(i); }

Collective::Init allreduce_of(const Elements& elements, ucft_op_t op) {
  return [elements, how = ucft_operator_t UCFT_OPERATOR_INIT(op)](ucft_comm_h comm, std::int32_t,
                                                                  ucft_request_h* request) {
    return ucft_allreduce_init(comm, UCFT_IN_PLACE, elements.data, elements.count, elements.dtype, &how, nullptr,
                               request);
  };
}

Collective::Init allgather_of(const void* send, void* receive, const Elements& block) {
  return [send, receive, block](ucft_comm_h comm, std::int32_t, ucft_request_h* request) {
    return ucft_allgather_init(comm, send, receive, block.count, block.dtype, nullptr, request);
  };
}

// Copies the blocks that lie in `all` one behind the other into their places. The places of missing ranks stay as they
// were.
void copy_out(const at::Tensor& all, const std::vector<at::Tensor>& places, const std::vector<std::int32_t>& missing) {
  const at::AutoDispatchBelowADInplaceOrView plainly;  // autograd does not see that a tensor is written
  std::int64_t at = 0;
  for (std::size_t i = 0; i < places.size(); at += places[i++].numel()) {
    if (std::binary_search(missing.begin(), missing.end(), static_cast<std::int32_t>(i))) continue;
    const at::Tensor from = all.narrow(0, at, places[i].numel());
    if (!places[i].is_contiguous()) {
      places[i].copy_(from.view(places[i].sizes()));
    } else if (from.nbytes() > 0) {
      std::memcpy(places[i].data_ptr(), from.data_ptr(), from.nbytes());
    }
  }
}

void require_writable(const at::Tensor& tensor, const std::string& name) {
  require(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
          name + " has elements that share memory (contiguous() makes a copy without)");
}

// Of broadcast's and reduce's options; tensor: which of the caller's, of which there is one.
std::int32_t root_of(std::int64_t rank, std::int64_t tensor, int size, const char* name) {
  require(rank >= 0 && rank < size, c10::str(name, ": root ", rank, " is none of ", size, " ranks"));
  require(tensor == 0, c10::str(name, ": rootTensor must be 0"));
  return static_cast<std::int32_t>(rank);
}

void require_same(const Elements& one, const Elements& other, const std::string& name) {
  require(one.dtype == other.dtype && one.count == other.count,
          name + ": of another type or number of elements than the input");
}

}  // namespace

ProcessGroupUcft::ProcessGroupUcft(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   std::chrono::milliseconds timeout)
    : ProcessGroup(rank, size), engine_(Engine::start(*store, rank, size, timeout)) {
  Engines& every = engines();
  const std::lock_guard lock(every.mutex);
  std::erase_if(every.all, [](const std::weak_ptr<Engine>& each) { return each.expired(); });
  every.all.push_back(engine_);
}

ProcessGroupUcft::~ProcessGroupUcft() {
  // A callback that waits for the engine's futures may need Python before the engine's thread can end.
  PyThreadState* const python = Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
  engine_->close();
  if (python != nullptr) PyEval_RestoreThread(python);
}

void ProcessGroupUcft::close_all(bool abandon) {
  std::vector<std::weak_ptr<Engine>> all;
  {
    const std::lock_guard lock(engines().mutex);
    all.swap(engines().all);
  }
  for (const std::weak_ptr<Engine>& each : all) {
    if (const std::shared_ptr<Engine> engine = each.lock()) abandon ? engine->abandon() : engine->close();
  }
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::post(Collective::Plan plan) {
  auto work = c10::make_intrusive<Collective>(engine_, rank_, std::move(plan));
  engine_->post(work);
  return work;
}

void ProcessGroupUcft::refuse(const char* operation) {
  TORCH_CHECK(
      false, "the backend ucft has no ", operation,
      ". A group of another backend beside it has: group = torch.distributed.new_group(backend=\"gloo\"), then ",
      operation, " with group=group. An operation of that group does not survive a death");
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::broadcast(std::vector<at::Tensor>& tensors,
                                                          const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only_one_of(tensors, "broadcast: tensors");
  const Elements elements = elements_of(tensor, "broadcast: the tensor", Layout::dense);
  const std::int32_t root = root_of(options.rootRank, options.rootTensor, size_, "broadcast");
  return post({.kind = OpType::BROADCAST,
               .timeout = options.timeout,
               .inputs = {},
               .outputs = {tensor},
               .init =
                   [elements](ucft_comm_h comm, std::int32_t from, ucft_request_h* request) {
                     return ucft_broadcast_init(comm, elements.data, elements.count, elements.dtype, from, nullptr,
                                                request);
                   },
               .root = root});
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::allreduce(std::vector<at::Tensor>& tensors,
                                                          const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only_one_of(tensors, "allreduce: tensors");
  const Elements elements = elements_of(tensor, "allreduce: the tensor", Layout::dense);
  const ucft_op_t op = operator_of(options.reduceOp, tensor, "allreduce");
  return post({.kind = OpType::ALLREDUCE,
               .timeout = options.timeout,
               .inputs = {},
               .outputs = {tensor},
               .init = allreduce_of(elements, op)});
}

// One allreduce of all tensors, laid one behind the other.
ProcessGroupUcft::WorkPointer ProcessGroupUcft::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                                    const c10d::AllreduceCoalescedOptions& options) {
  require(!tensors.empty(), "allreduce_coalesced: there must be a tensor");
  std::vector<at::Tensor> places, pieces;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = numbered("allreduce_coalesced: tensor", i);
    elements_of(tensors[i], name, Layout::strided);
    require_writable(tensors[i], name);
    require(tensors[i].scalar_type() == tensors[0].scalar_type(), name + " is of another type than tensor 0");
    places.push_back(tensors[i].detach());
    pieces.push_back(places[i].reshape({-1}));
  }
  const ucft_op_t op = operator_of(options.reduceOp, tensors[0], "allreduce_coalesced");
  const at::Tensor all = at::cat(pieces);
  return post(
      {.kind = OpType::ALLREDUCE_COALESCED,
       .timeout = options.timeout,
       .inputs = {all},
       .outputs = tensors,
       .init = allreduce_of(elements_of(all, "allreduce_coalesced: the tensors together", Layout::contiguous), op),
       .deliver = [all, places](const Outcome&) { copy_out(all, places, {}); }});
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::reduce(std::vector<at::Tensor>& tensors,
                                                       const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only_one_of(tensors, "reduce: tensors");
  const Elements elements = elements_of(tensor, "reduce: the tensor", Layout::dense);
  const std::int32_t root = root_of(options.rootRank, options.rootTensor, size_, "reduce");
  const ucft_operator_t how = UCFT_OPERATOR_INIT(operator_of(options.reduceOp, tensor, "reduce"));
  return post({.kind = OpType::REDUCE,
               .timeout = options.timeout,
               .inputs = {},
               .outputs = {tensor},
               .init =
                   [elements, how, me = rank_](ucft_comm_h comm, std::int32_t to, ucft_request_h* request) {
                     const bool is_root = to == me;
                     return ucft_reduce_init(comm, is_root ? UCFT_IN_PLACE : elements.data,
                                             is_root ? elements.data : nullptr, elements.count, elements.dtype, &how,
                                             to, nullptr, request);
                   },
               .root = root});
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                          std::vector<at::Tensor>& inputs,
                                                          const c10d::AllgatherOptions& options) {
  const at::Tensor& given = only_one_of(inputs, "allgather: inputs");
  elements_of(given, "allgather: the input", Layout::strided);
  const at::Tensor input = given.detach().contiguous();
  const Elements block = elements_of(input, "allgather: the input", Layout::contiguous);
  require(outputs.size() == 1, c10::str("allgather: lists of outputs: there must be one, not ", outputs.size()));
  require(outputs[0].size() == static_cast<std::size_t>(size_),
          c10::str("allgather: ", outputs[0].size(), " outputs for ", size_, " ranks"));
  std::vector<at::Tensor> places;
  for (std::size_t rank = 0; rank < outputs[0].size(); ++rank) {
    const std::string name = numbered("allgather: output", rank);
    require_same(elements_of(outputs[0][rank], name, Layout::strided), block, name);
    require_writable(outputs[0][rank], name);
    places.push_back(outputs[0][rank].detach());
  }
  const at::Tensor all = at::empty({size_ * input.numel()}, input.options().requires_grad(false));
  const Elements gathered = elements_of(all, "allgather: the outputs together", Layout::contiguous);
  return post({.kind = OpType::ALLGATHER,
               .timeout = options.timeout,
               .inputs = {input, all},
               .outputs = outputs[0],
               .init = allgather_of(block.data, gathered.data, block),
               .deliver = [all, places](const Outcome& outcome) {
                 copy_out(all, places, outcome.missing.value_or(std::vector<std::int32_t>{}));
               }});
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                const c10d::AllgatherOptions& options) {
  const Elements block = elements_of(input, "_allgather_base: the input", Layout::contiguous);
  const Elements all = elements_of(output, "_allgather_base: the output", Layout::contiguous);
  require(all.dtype == block.dtype, "_allgather_base: the output is of another type than the input");
  require(all.count == block.count * static_cast<std::uint64_t>(size_),
          c10::str("_allgather_base: the output has ", all.count, " elements, but ", size_, " ranks give ", block.count,
                   " each"));
  auto* const to = static_cast<char*>(all.data);
  auto* const from = static_cast<char*>(block.data);
  const bool in_place = from == to + static_cast<std::uint64_t>(rank_) * block.bytes;
  require(in_place || block.bytes == 0 || from + block.bytes <= to || to + all.bytes <= from,
          "_allgather_base: the input overlaps the output elsewhere than in this rank's own place");
  return post({.kind = OpType::_ALLGATHER_BASE,
               .timeout = options.timeout,
               .inputs = {input},
               .outputs = {output},
               .init = allgather_of(in_place ? UCFT_IN_PLACE : block.data, all.data, block)});
}

ProcessGroupUcft::WorkPointer ProcessGroupUcft::barrier(const c10d::BarrierOptions& options) {
  return post({.kind = OpType::BARRIER,
               .timeout = options.timeout,
               .inputs = {},
               .outputs = {},
               .init = [](ucft_comm_h comm, std::int32_t, ucft_request_h* request) {
                 return ucft_barrier_init(comm, nullptr, request);
               }});
}

}  // namespace ucft::pytorch

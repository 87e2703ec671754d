// The tensors that PyTorch hands over, checked before anything is sent. Each error is UCFT_ERR_INVALID_PARAM, and names
// the operation and the tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ucft/ucft.h"

namespace ucft::pytorch {

void require(bool holds, const std::string& otherwise);

struct Elements {
  void* data = nullptr;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  // of all
  ucft_dtype_t dtype = UCFT_UINT8;
};

// Where an operation takes a tensor's elements from, and puts them.
enum class Layout {
  contiguous,
  dense,   // in memory without gaps and overlaps, in any order: channels_last, transposed. They are taken as they lie
  strided  // anywhere. They are copied in the order of their indices
};

// name: for the sentence of an error, "allreduce: tensor". Of a strided tensor the count alone is right.
Elements elements_of(const at::Tensor& tensor, const std::string& name, Layout layout);

// The one tensor of a list, as c10d has them.
const at::Tensor& only_one_of(const std::vector<at::Tensor>& tensors, const std::string& name);

// Sums of bool are logical or, products logical and, as everywhere in PyTorch.
ucft_op_t operator_of(const c10d::ReduceOp& op, const at::Tensor& tensor, const std::string& operation);

}  // namespace ucft::pytorch

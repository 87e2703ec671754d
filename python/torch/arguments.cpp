#include "python/torch/arguments.hpp"

#include <ATen/ATen.h>

#include <limits>
#include <optional>

#include "python/torch/failure.hpp"

namespace ucft::pytorch {

namespace {

constexpr std::uint64_t most_bytes = std::numeric_limits<std::int32_t>::max();

std::optional<ucft_dtype_t> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return UCFT_FLOAT;
    case at::kDouble: return UCFT_DOUBLE;
    case at::kHalf: return UCFT_FLOAT16;
    case at::kBFloat16: return UCFT_BFLOAT16;
    case at::kByte: return UCFT_UINT8;
    case at::kChar: return UCFT_INT8;
    case at::kShort: return UCFT_INT16;
    case at::kInt: return UCFT_INT32;
    case at::kLong: return UCFT_INT64;
    case at::kBool: return UCFT_BOOL;
    case at::kComplexFloat: return UCFT_COMPLEX_FLOAT;
    case at::kComplexDouble: return UCFT_COMPLEX_DOUBLE;
    default: return std::nullopt;
  }
}

const char* name_of(c10d::ReduceOp::RedOpType op) {
  constexpr const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  return op < std::size(names) ? names[op] : "UNUSED";
}

using Op = c10d::ReduceOp;

std::optional<ucft_op_t> operator_of_numbers(Op::RedOpType op) {
  switch (op) {
    case Op::SUM: return UCFT_SUM;
    case Op::AVG: return UCFT_AVG;
    case Op::PRODUCT: return UCFT_PROD;
    case Op::MIN: return UCFT_MIN;
    case Op::MAX: return UCFT_MAX;
    case Op::BAND: return UCFT_BAND;
    case Op::BOR: return UCFT_BOR;
    case Op::BXOR: return UCFT_BXOR;
    default: return std::nullopt;
  }
}

std::optional<ucft_op_t> operator_of_bools(Op::RedOpType op) {
  switch (op) {
    case Op::SUM:
    case Op::MAX:
    case Op::BOR: return UCFT_LOR;
    case Op::PRODUCT:
    case Op::MIN:
    case Op::BAND: return UCFT_LAND;
    case Op::BXOR: return UCFT_LXOR;
    default: return std::nullopt;
  }
}

bool takes(at::ScalarType type, ucft_op_t op) {
  if (op == UCFT_SUM || op == UCFT_PROD || type == at::kBool) return true;
  if (op == UCFT_AVG) return at::isFloatingType(type) || at::isComplexType(type);
  if (op == UCFT_MIN || op == UCFT_MAX) return !at::isComplexType(type);
  return at::isIntegralType(type, false);
}

}  // namespace

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(UCFT_ERR_INVALID_PARAM, otherwise);
}

Elements elements_of(const at::Tensor& tensor, const std::string& name, Layout layout) {
  require(tensor.defined(), name + " is undefined");
  require(tensor.layout() == at::kStrided,
          c10::str(name, " is of layout ", tensor.layout(), "; ucft takes dense tensors (to_dense)"));
  require(tensor.device().is_cpu(), c10::str(name, " is on ", tensor.device(), "; ucft takes tensors of the CPU"));
  const std::optional<ucft_dtype_t> dtype = dtype_of(tensor.scalar_type());
  require(dtype.has_value(), c10::str(name, " has elements of type ", tensor.scalar_type(), ", which ucft lacks"));
  require(!tensor.is_conj() && !tensor.is_neg(),
          name + " is conjugated or negated lazily (resolve_conj, resolve_neg make it so in memory)");
  require(layout != Layout::contiguous || tensor.is_contiguous(),
          name + " is not contiguous (contiguous() makes it so)");
  require(layout != Layout::dense || tensor.is_non_overlapping_and_dense(),
          name + " has gaps, or elements that share memory (contiguous() makes a copy without)");
  const std::uint64_t bytes = tensor.nbytes();
  require(bytes <= most_bytes, c10::str(name, " has ", bytes, " bytes, more than ", most_bytes, " in one operation"));
  return {tensor.data_ptr(), static_cast<std::uint64_t>(tensor.numel()), bytes, *dtype};
}

const at::Tensor& only_one_of(const std::vector<at::Tensor>& tensors, const std::string& name) {
  require(tensors.size() == 1, c10::str(name, ": there must be one, not ", tensors.size()));
  return tensors[0];
}

ucft_op_t operator_of(const c10d::ReduceOp& op, const at::Tensor& tensor, const std::string& operation) {
  const at::ScalarType type = tensor.scalar_type();
  const std::optional<ucft_op_t> found = type == at::kBool ? operator_of_bools(op) : operator_of_numbers(op);
  const bool integral = at::isIntegralType(type, true);
  require(found && takes(type, *found),
          c10::str(operation, ": ReduceOp.", name_of(op), " of elements of type ", type, " is not there",
                   op == Op::AVG && integral ? "; take the sum, and divide by ucft.torch.contributors" : ""));
  return *found;
}

}  // namespace ucft::pytorch

// See reduction.hpp. One loop for all types and operators. The compiler vectorises it (CMakeLists.txt: -O3), once for
// the least machine and once for AVX2. Long arrays take the wider form where the processor has it. The choice is a
// plain branch, not an ifunc: those are resolved before sanitizers and libraries are ready.
#include "collectives/reduction/reduction.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

#include "collectives/reduction/chosen_bins.hpp"
#include "collectives/reduction/kernels.hpp"

namespace ucft::detail {
namespace {

// Loads and stores by memcpy: no alignment, no aliasing rule. No element depends on another one, since destination is
// an operand as a whole or not at all. Unless told, the compiler would keep a scalar loop for destination == lower.
template <class Element, class Function>
UCFT_ALWAYS_INLINE void combine_each(std::byte* destination, const std::byte* lower, const std::byte* higher,
                                     std::uint64_t count) {
  UCFT_INDEPENDENT_ITERATIONS
  for (std::uint64_t i = 0; i < count; ++i) {
    Element from_lower, from_higher;
    std::memcpy(&from_lower, lower + i * sizeof(Element), sizeof(Element));
    std::memcpy(&from_higher, higher + i * sizeof(Element), sizeof(Element));
    const Element result = Function::of(from_lower, from_higher);
    std::memcpy(destination + i * sizeof(Element), &result, sizeof(Element));
  }
}

#if defined(__x86_64__)
template <class Element, class Function>
[[gnu::target("avx2")]] void combine_wide(std::byte* destination, const std::byte* lower, const std::byte* higher,
                                          std::uint64_t count) {
  combine_each<Element, Function>(destination, lower, higher, count);
}
#endif

template <class Element, class Function>
void combine_all(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t count) {
#if defined(__x86_64__)
  constexpr std::uint64_t worth_it = 16;
  if (count >= worth_it && __builtin_cpu_supports("avx2"))
    return combine_wide<Element, Function>(destination, lower, higher, count);
#endif
  combine_each<Element, Function>(destination, lower, higher, count);
}

using Kernel = Combiner::Kernel;

// Component by component.
template <class Part>
void add_complex(std::byte* destination, const std::byte* lower, const std::byte* higher, std::uint64_t count) {
  combine_all<Part, Sum>(destination, lower, higher, 2 * count);
}

template <DataType type, Operator op>
constexpr Kernel kernel_of() {
  if constexpr (op == Operator::user || is_binned(op) || !takes(op, type)) {
    return nullptr;
  } else {
    using Carrier = ElementOf<carrier_of(type, op)>;
    using Function = FunctionOf<op>;
    if constexpr (is_of(type, complexes) && std::is_same_v<Function, Sum>)
      return add_complex<typename Carrier::Part>;
    else
      return combine_all<Carrier, Function>;
  }
}

// The kernels by type, then operator; null where there is none.
constexpr auto kernels = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array<Kernel, sizeof...(i)>{
      kernel_of<static_cast<DataType>(i / operator_count), static_cast<Operator>(i % operator_count)>()...};
}
(std::make_index_sequence<type_count * operator_count>());

Kernel kernel_of(DataType type, Operator op) {
  return kernels[static_cast<std::size_t>(type) * operator_count + static_cast<std::size_t>(op)];
}

bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// Block by block through aligned copies. A block's operands are read before its result is written, so destination may
// be either operand.
void combine_by_user_in_blocks(const Reduction& reduction, std::byte* destination, const std::byte* lower,
                               const std::byte* higher, std::uint64_t count) {
  constexpr std::uint64_t block_bytes = 4096;
  alignas(64) std::byte in[block_bytes];
  alignas(64) std::byte inout[block_bytes];
  const std::uint64_t bytes = count * element_bytes(reduction.type());
  for (std::uint64_t done = 0; done < bytes; done += block_bytes) {
    const std::uint64_t size = std::min(block_bytes, bytes - done);
    std::memcpy(in, lower + done, size);
    std::memcpy(inout, higher + done, size);
    reduction.function()(in, inout, size / element_bytes(reduction.type()), static_cast<int>(reduction.type()),
                         reduction.arg());
    std::memcpy(destination + done, inout, size);
  }
}

void combine_by_user(const Reduction& reduction, std::byte* destination, const std::byte* lower,
                     const std::byte* higher, std::uint64_t count) {
  const std::size_t alignment = row_of(reduction.type()).alignment;
  const bool in_place = destination != lower && is_aligned(destination, alignment) && is_aligned(lower, alignment);
  if (!in_place) return combine_by_user_in_blocks(reduction, destination, lower, higher, count);
  if (destination != higher) std::memcpy(destination, higher, count * element_bytes(reduction.type()));
  reduction.function()(lower, destination, count, static_cast<int>(reduction.type()), reduction.arg());
}

}  // namespace

void combine(const Reduction& reduction, void* destination, const void* lower, const void* higher,
             std::uint64_t count) {
  if (count == 0) return;
  auto* const out = static_cast<std::byte*>(destination);
  auto* const low = static_cast<const std::byte*>(lower);
  auto* const high = static_cast<const std::byte*>(higher);
  if (reduction.op() == Operator::user) return combine_by_user(reduction, out, low, high, count);
  assert(reduction.op() < Operator::none && !reduction.sweeps_twice());
  if (reduction.bins() != 0) return combine_with_bins(reduction.type(), reduction.bins(), out, low, high, count);
  if (is_binned(reduction.op())) return combine_binned(reduction.type(), out, low, high, count);
  const Kernel kernel = kernel_of(reduction.type(), reduction.op());
  assert(kernel != nullptr);
  kernel(out, low, high, count);
}

Kernel Combiner::kernel_of(const Reduction& reduction) {
  return reduction.op() < Operator::none ? detail::kernel_of(reduction.type(), reduction.op()) : nullptr;
}

}  // namespace ucft::detail

#include "collectives/catalogue/exchange.hpp"

namespace ucft::detail {

void Exchange::put_into(Arguments& arguments, std::int32_t processes) {
  constexpr std::uint64_t bits = 64;
  arguments.kind = Kind::exchange;
  arguments.reduction = {DataType::uint64, Operator::bitwise_and};
  arguments.count = (static_cast<std::uint64_t>(processes) + bits - 1) / bits;
  arguments.own_count = 0;
  arguments.blocks = 0;
  arguments.layout = 0;
}

}  // namespace ucft::detail

#include "collectives/catalogue/exchange.hpp"

namespace ucft::detail {

bool Exchange::carries(const CatalogueRow& row, std::uint64_t bytes, std::int32_t processes, const Optimism& optimism) {
  if (!row.may_go_straight() || processes < 2) return false;
  return row.from_root() ? optimism.goes_straight_from_root(bytes, processes)
                         : optimism.goes_straight(bytes, processes);
}

void Exchange::put_into(Arguments& arguments, std::int32_t processes) {
  constexpr std::uint64_t bits = 64;
  arguments.kind = kind_for(arguments.row());
  arguments.reduction = {DataType::uint64, Operator::bitwise_and};
  arguments.count = (static_cast<std::uint64_t>(processes) + bits - 1) / bits;
  arguments.own_count = 0;
  arguments.blocks = 0;
  arguments.layout = 0;
}

}  // namespace ucft::detail

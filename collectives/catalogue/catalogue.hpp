// The collectives: for each, which ranks give, which get, whether all contribute, whether the decision goes to all. A
// collective is one file beside this one, with a row and these functions; a Kind (row.hpp); and its place in the list
// below. All ranks that get a result get one value, the same for all: an alltoall does not fit (docs/architecture.md).
//
//   accepts(arguments, bytes)            may a message carry a value of that length?
//   input_bytes(arguments)               what this rank gives takes
//   result_bytes(arguments, ranks)       the most that a result takes
//   add(arguments, sum, fresh, part, ranks, buffers)
//                                        sum = sum + part, part being of higher ranks than sum, or of other ones. Into
//                                        memory of its own (then fresh), never into an operand. False: there is none
//
//   kind        gives   gets           contributions   decision of the first root     if that root dies
//   allreduce   all     all            values          their sum, to all              the next rank is root
//   barrier     nobody  nobody         empty           nothing, to all                the next rank is root
//   allgather   all     all            blocks          all of them, to all            the next rank is root
//   broadcast   root    all but root   none            the root's data, to all        the next rank asks all: decided
//                                                                                     data, or root_failed
//   reduce      all     root           values          their sum, kept                over: root_failed
#pragma once

#include <iterator>
#include <string_view>

#include "collectives/catalogue/allgather.hpp"
#include "collectives/catalogue/allreduce.hpp"
#include "collectives/catalogue/barrier.hpp"
#include "collectives/catalogue/broadcast.hpp"
#include "collectives/catalogue/reduce.hpp"

namespace ucft::detail {

template <class... Each>
struct CatalogueOf {
  static constexpr CatalogueRow rows[] = {Each::row...};
};
// In the order of Kind.
using Catalogue = CatalogueOf<Allreduce, Barrier, Broadcast, Reduce, Allgather>;
inline constexpr const auto& catalogue = Catalogue::rows;
static_assert(std::size(catalogue) == kind_count);

// use(Allreduce{}), ...: the functions of that collective.
template <class Use, class First, class... Rest>
constexpr decltype(auto) with_collective(Kind kind, Use use, CatalogueOf<First, Rest...>) {
  if constexpr (sizeof...(Rest) > 0)
    if (kind != First::row.kind) return with_collective(kind, use, CatalogueOf<Rest...>{});
  return use(First{});
}
template <class Use>
constexpr decltype(auto) with_collective(Kind kind, Use use) {
  return with_collective(kind, use, Catalogue{});
}

constexpr const CatalogueRow& row_of(Kind kind) { return catalogue[static_cast<std::size_t>(kind)]; }
constexpr const char* kind_name(Kind kind) { return row_of(kind).name; }
// nullptr: no such collective.
constexpr const CatalogueRow* row_named(std::string_view name) {
  for (const CatalogueRow& row : catalogue)
    if (name == row.name) return &row;
  return nullptr;
}

}  // namespace ucft::detail

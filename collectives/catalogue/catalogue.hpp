// The collectives: for each, which ranks give, which get, whether all contribute, whether the decision goes to all. A
// collective is one file beside this one, with a row and these functions; a Kind (row.hpp); and its place in the list
// below. All ranks that get a result get one value, or take their part of it.
//
//   accepts(arguments, bytes)            may a message carry a value of that length?
//   input_bytes(arguments)               what this rank gives takes
//   result_bytes(arguments, ranks)       the most that a result takes
//   add(arguments, sum, fresh, part, ranks, buffers)
//                                        sum = sum + part, part being of higher ranks than sum, or of other ones. Into
//                                        memory of its own (then fresh), never into an operand. False: there is none
//
//   kind            gives   gets          contributions  decision of the first root  if that root dies
//   allreduce       all     all           values         their sum, to all           the next rank is root
//   reduce_scatter  all     all, a share  values         their sum, to all           the next rank is root
//   barrier         nobody  nobody        empty          nothing, to all             the next rank is root
//   allgather       all     all           blocks         all of them, to all         the next rank is root
//   alltoall        all     all, shares   blocks         as allgather                the next rank is root
//   scan, exscan    all     all, a sum    blocks         as allgather                the next rank is root
//   broadcast       root    all but root  none           the root's data, to all     the next rank asks all: decided
//                                                                                    data, or root_failed
//   scatter         root    all, a share  none           as broadcast                as broadcast
//   exchange        all     all, a stream sets           whose streams count, to all the next rank is root
//   exchange_from_root
//                   root    all, a stream sets           whether the root's count,   the next rank is root
//                                                        to all
//   reduce          all     root          values         their sum, kept             over: root_failed
//   gather          all     root          blocks         all of them, kept           over: root_failed
#pragma once

#include <iterator>
#include <string_view>

#include "collectives/catalogue/allgather.hpp"
#include "collectives/catalogue/allreduce.hpp"
#include "collectives/catalogue/alltoall.hpp"
#include "collectives/catalogue/barrier.hpp"
#include "collectives/catalogue/broadcast.hpp"
#include "collectives/catalogue/exchange.hpp"
#include "collectives/catalogue/exscan.hpp"
#include "collectives/catalogue/gather.hpp"
#include "collectives/catalogue/reduce.hpp"
#include "collectives/catalogue/reduce_scatter.hpp"
#include "collectives/catalogue/scan.hpp"
#include "collectives/catalogue/scatter.hpp"

namespace ucft::detail {

template <class... Each>
struct CatalogueOf {
  static constexpr CatalogueRow rows[] = {Each::row...};
};
// In the order of Kind.
using Catalogue = CatalogueOf<Allreduce, Barrier, Broadcast, Reduce, Allgather, GatherToRoot, ReduceScatter,
                              ScatterFromRoot, Alltoall, Scan, Exscan, Exchange, ExchangeFromRoot>;
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

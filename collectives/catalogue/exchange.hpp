// Exchange: the form of a long alltoall among processes. Each gives each other one a stream of its own, straight to it
// (among/phases/personal_exchange.hpp). Agreed on is whose streams count. That is an allreduce (Algorithms 4 and 5) of
// sets of processes, as bits, of which those are left that all have. So a message of a ballot has a few words, and all
// survivors take the streams of the same processes. No caller posts it: alltoall(v) is the call.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"
#include "collectives/core/ballots.hpp"

namespace ucft::detail {

struct Exchange : Elementwise {
  static constexpr CatalogueRow row{.kind = Kind::exchange,
                                    .name = "exchange",
                                    .gives = Who::all,
                                    .gets = Who::all,
                                    .combines = Combines::elements,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::same,
                                    .goes_straight = true};

  // Whether so many bytes, of all that give together, go as an exchange among so many processes.
  static bool carries(const CatalogueRow& row, std::uint64_t bytes, std::int32_t processes, const Optimism& optimism);
  static Kind kind_for(const CatalogueRow& row) { return row.from_root() ? Kind::exchange_from_root : Kind::exchange; }
  // Makes these the arguments of one, in place of the call's.
  static void put_into(Arguments& arguments, std::int32_t processes);
};

// An exchange in which the root alone has streams: all survivors take theirs, or none does, with root_failed. No caller
// posts it: scatter is the call.
struct ExchangeFromRoot : Exchange {
  static constexpr CatalogueRow row{.kind = Kind::exchange_from_root,
                                    .name = "exchange_from_root",
                                    .gives = Who::root,
                                    .gets = Who::all,
                                    .combines = Combines::elements,
                                    .lands = Lands::whole,
                                    .lengths = Lengths::same,
                                    .goes_straight = true,
                                    .collects = true};
};

}  // namespace ucft::detail

// Exchange: the form of a long alltoall among processes. Each gives each other one a stream of its own, straight to it
// (among/phases/personal_exchange.hpp). Agreed on is whose streams count. That is an allreduce (Algorithms 4 and 5) of
// sets of processes, as bits, of which those are left that all have. So a message of a ballot has a few words, and all
// survivors take the streams of the same processes. No caller posts it: alltoall is the call.
#pragma once

#include "collectives/catalogue/same_lengths.hpp"

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

  // Makes these the arguments of an exchange among so many processes.
  static void put_into(Arguments& arguments, std::int32_t processes);
};

}  // namespace ucft::detail

#include "collectives/catalogue/arguments.hpp"

#include "collectives/catalogue/catalogue.hpp"

namespace ucft::detail {

const CatalogueRow& Arguments::row() const { return row_of(kind); }

// Differs, very likely, where ranks posted different things. Computed for every operation, so short: the fields packed
// into words, each mixed in by one multiplication.
std::uint16_t Arguments::signature() const {
  const auto word = [](auto a, auto b, auto c, auto d) {
    return static_cast<std::uint64_t>(a) << 48 ^ static_cast<std::uint64_t>(b) << 40 ^
           static_cast<std::uint64_t>(c) << 32 ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(d));
  };
  // A longer correction delay shares bits with the count, whose difference shows in a message's length as well.
  std::uint64_t hash = count ^ layout ^ static_cast<std::uint64_t>(of_callers) << 20 ^
                       static_cast<std::uint64_t>(correction_delay_us) << 18 ^
                       static_cast<std::uint64_t>(shape.delay_quarters) << 50 ^
                       static_cast<std::uint64_t>(gossip.time_ns + 1) << 34;
  hash = (hash ^ word(kind, reduction.type(), reduction.op(), root)) * 0x9e3779b97f4a7c15ull;
  hash = (hash ^ hash >> 32 ^
          word(shape.tree, shape.numbering, static_cast<int>(failure_info) << 1 | uniform, shape.arity)) *
         0x9e3779b97f4a7c15ull;
  hash =
      (hash ^ hash >> 32 ^ word(correction, reduction.bins() << 1 | reduction.sweeps_twice(), correction_distance, f)) *
      0x9e3779b97f4a7c15ull;
  return static_cast<std::uint16_t>(hash >> 48);
}

}  // namespace ucft::detail

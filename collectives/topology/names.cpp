#include "collectives/topology/names.hpp"

#include <algorithm>

#include "collectives/topology/broadcast_topology.hpp"
#include "collectives/topology/ring_correction.hpp"

namespace ucft::detail {

namespace {

constexpr const char* trees[] = {"binomial", "kary", "knomial", "lame", "optimal", "chain", "flat"};
constexpr const char* numberings[] = {"interleaved", "in-order"};
constexpr const char* corrections[] = {"none", "opportunistic", "checked", "opportunistic-optimised", "failure-proof"};
static_assert(std::size(trees) == tree_count && std::size(corrections) == correction_count);

template <class Enumeration>
bool find(std::span<const char* const> names, std::string_view name, Enumeration& value) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return false;
  value = static_cast<Enumeration>(found - names.begin());
  return true;
}

}  // namespace

std::span<const char* const> tree_names() { return trees; }
std::span<const char* const> numbering_names() { return numberings; }
std::span<const char* const> correction_names() { return corrections; }

const char* tree_name(Tree tree) { return trees[static_cast<std::size_t>(tree)]; }
const char* numbering_name(Numbering numbering) { return numberings[static_cast<std::size_t>(numbering)]; }
const char* correction_name(Correction correction) { return corrections[static_cast<std::size_t>(correction)]; }

bool parse_tree(std::string_view name, Tree& tree) { return find(trees, name, tree); }
bool parse_numbering(std::string_view name, Numbering& numbering) { return find(numberings, name, numbering); }
bool parse_correction(std::string_view name, Correction& correction) { return find(corrections, name, correction); }

}  // namespace ucft::detail

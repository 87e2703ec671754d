#include "bench/algorithm.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "bench/number.hpp"
#include "collectives/topology/names.hpp"

namespace ucft::detail::bench {

namespace {

// Reads ALGORITHM from the left: TREE[K][-in-order][+CORRECTION[D]][/INFO], or corrected gossip instead of tree and
// correction.
class AlgorithmParser {
 public:
  explicit AlgorithmParser(const std::string& text) : text_(text), rest_(text_) {}

  Options parse() {
    parse_tree();
    if (accept("-in-order")) options_.numbering = UCFT_IN_ORDER;
    parse_correction();
    parse_failure_info();
    if (!rest_.empty()) fail(fmt::format("'{}' is not understood", rest_));
    return options_;
  }

 private:
  void parse_tree() {
    if (accept("auto_or_gossip")) {
      options_.tree = UCFT_TREE_AUTO_OR_GOSSIP;
      return;
    }
    if (accept("auto") || parse_corrected_gossip()) return;
    const std::string_view name = longest_of(tree_names());
    Tree tree{};
    if (!detail::parse_tree(name, tree))
      fail(fmt::format("'{}' does not begin with a tree: {}; and is none of ocg, ccg, fcg", text_,
                       fmt::join(tree_names(), ", ")));
    rest_.remove_prefix(name.size());
    options_.tree = static_cast<ucft_tree_t>(tree);
    if (options_.tree == UCFT_TREE_KARY || options_.tree == UCFT_TREE_KNOMIAL || options_.tree == UCFT_TREE_LAME)
      options_.arity = number_if_any(tree_name(tree));
    if (options_.tree == UCFT_TREE_OPTIMAL) options_.tree_delay_quarters = number_if_any(tree_name(tree));
  }

  // GOSSIP[T]: ocg, ccg, fcg, or gossip alone; T in ns.
  bool parse_corrected_gossip() {
    constexpr std::array<std::pair<const char*, ucft_correction_t>, 4> forms{{{"ocg", UCFT_CORRECTION_OPPORTUNISTIC},
                                                                              {"ccg", UCFT_CORRECTION_CHECKED},
                                                                              {"fcg", UCFT_CORRECTION_FAILURE_PROOF},
                                                                              {"gossip", UCFT_CORRECTION_NONE}}};
    for (const auto& [name, correction] : forms) {
      if (!accept(name)) continue;
      options_.tree = UCFT_TREE_GOSSIP;
      options_.correction = correction;
      options_.gossip_time_ns = number_if_any(name, 1'000'000'000);
      if (correction == UCFT_CORRECTION_OPPORTUNISTIC && accept("+")) {
        options_.correction_distance = 2 * number_if_any("ocg+C", 500'000);
        if (options_.correction_distance == 0) fail("no number after '+'");
      }
      return true;
    }
    return false;
  }

  void parse_correction() {
    if (options_.tree == UCFT_TREE_GOSSIP && rest_.starts_with("+"))
      fail(fmt::format("'{}': ocg, ccg and fcg have their own correction, gossip alone has none", rest_));
    if (!accept("+")) return;
    const std::string_view name = longest_of(correction_names());
    Correction correction{};
    if (!detail::parse_correction(name, correction))
      fail(fmt::format("'+{}' is no correction: +{}", rest_, fmt::join(correction_names(), ", +")));
    rest_.remove_prefix(name.size());
    options_.correction = static_cast<ucft_correction_t>(correction);
    if (options_.correction == UCFT_CORRECTION_OPPORTUNISTIC ||
        options_.correction == UCFT_CORRECTION_OPPORTUNISTIC_OPTIMISED)
      options_.correction_distance = number_if_any(correction_name(correction));
  }

  void parse_failure_info() {
    if (accept("/list")) return;
    if (accept("/count")) {
      options_.failure_info = UCFT_FAILURE_INFO_COUNT;
    } else if (accept("/bit")) {
      options_.failure_info = UCFT_FAILURE_INFO_BIT;
    } else if (rest_.starts_with('/')) {
      fail(fmt::format("'{}' is no failure information: /list, /count or /bit", rest_));
    }
  }

  // Of the names that the rest begins with; "" if there is none.
  std::string_view longest_of(std::span<const char* const> names) const {
    std::string_view longest;
    for (const std::string_view name : names) {
      if (rest_.starts_with(name) && name.size() > longest.size()) longest = name;
    }
    return longest;
  }

  bool accept(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // The digits that follow; 0 (the library's default) if there are none.
  std::int32_t number_if_any(const char* what, std::int64_t most = 1'000'000) {
    const std::string_view digits = rest_.substr(0, rest_.find_first_not_of("0123456789"));
    rest_.remove_prefix(digits.size());
    if (digits.empty()) return 0;
    return static_cast<std::int32_t>(parse_number(fmt::format("-a {}: {}", text_, what), digits, {1, most}));
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw std::invalid_argument(fmt::format("-a {}: {}", text_, why));
  }

  const std::string text_;
  std::string_view rest_;
  Options options_;
};

}  // namespace

Options parse_algorithm(const std::string& text) { return AlgorithmParser(text).parse(); }

}  // namespace ucft::detail::bench

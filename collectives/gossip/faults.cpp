#include "collectives/gossip/faults.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ucft::detail {

namespace {

constexpr double latest = 1e12;  // iteration

template <class Number>
std::string parse_number(std::string_view text, Number low, Number high, Number& number) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status == std::errc{} && end == text.data() + text.size() && number >= low && number <= high)
    return "";  // NaN is in no range
  return fmt::format("'{}' is no {} from {} to {}", text, std::is_integral_v<Number> ? "whole number" : "number", low,
                     high);
}
std::string parse_rank(std::string_view text, Rank& rank) { return parse_number<Rank>(text, 0, (1 << 30) - 1, rank); }

// WHAT@TIME
std::string parse_time(std::string_view text, const char* form, std::string_view& what, double& time) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return fmt::format("expected {}", form);
  what = text.substr(0, at);
  return parse_number(text.substr(at + 1), 0.0, latest, time);
}

std::string out_of_range(const char* what, Rank rank, Rank ranks) {
  return rank >= 0 && rank < ranks ? "" : fmt::format("{}: rank {} of {}", what, rank, ranks);
}

}  // namespace

std::string parse_flip(std::string_view text, BitFlip& flip) {
  std::string_view what;
  if (const std::string problem = parse_time(text, "BIT@TIME or BIT:RANK@TIME", what, flip.time); !problem.empty())
    return problem;
  const std::size_t colon = what.find(':');
  flip.bit = -1;
  flip.rank = no_rank;
  if (colon != std::string_view::npos)
    if (const std::string problem = parse_rank(what.substr(colon + 1), flip.rank); !problem.empty()) return problem;
  const std::string_view bit = what.substr(0, colon);
  return bit == "any" ? "" : parse_number(bit, 0, 1 << 20, flip.bit);
}

std::string parse_link_failure(std::string_view text, LinkFailure& link) {
  constexpr const char* form = "RANK-RANK@TIME";
  std::string_view ends;
  if (const std::string problem = parse_time(text, form, ends, link.time); !problem.empty()) return problem;
  const std::size_t dash = ends.find('-');
  if (dash == std::string_view::npos) return fmt::format("expected {}", form);
  const std::string problem = parse_rank(ends.substr(0, dash), link.a);
  return problem.empty() ? parse_rank(ends.substr(dash + 1), link.b) : problem;
}

std::string parse_flip_target(std::string_view text, FlipTarget& target) {
  constexpr std::string_view names[] = {"flow", "message", "data"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return fmt::format("'{}' is none of flow, message, data", text);
  target = static_cast<FlipTarget>(found - std::begin(names));
  return "";
}

std::string set_fault(std::string_view name, std::string_view value, GossipFaults& faults) {
  if (name == "loss") return parse_number(value, 0.0, 1.0, faults.loss);
  if (name == "flip-rate") return parse_number(value, 0.0, 1.0, faults.flip_rate);
  if (name == "flip-target") return parse_flip_target(value, faults.target);
  if (name == "seed") return parse_number(value, std::uint64_t{0}, UINT64_MAX, faults.seed);
  if (name == "flip") return parse_flip(value, faults.flips.emplace_back());
  if (name == "fail-link") return parse_link_failure(value, faults.links.emplace_back());
  return "it is none of loss, flip-rate, flip-target, flip, fail-link, seed";
}

std::string parse_faults(std::string_view text, GossipFaults& faults) {
  faults = {};
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) return fmt::format("'{}': expected NAME=VALUE", one);
    if (const std::string problem = set_fault(one.substr(0, equals), one.substr(equals + 1), faults); !problem.empty())
      return fmt::format("{}: {}", one, problem);
  }
  return "";
}

std::string problem_with(const GossipFaults& faults, const GossipPlan& plan, int bits) {
  const Rank n = plan.neighbourhood.ranks;
  if (goes_by_rounds(plan.algorithm) && !faults.links.empty())
    return fmt::format("{}: links that fail are of the asynchronous algorithms", gossip_algorithm_name(plan.algorithm));
  for (const BitFlip& flip : faults.flips) {
    if (flip.rank != no_rank)
      if (const std::string problem = out_of_range("a flip", flip.rank, n); !problem.empty()) return problem;
    if (flip.bit >= bits) return fmt::format("a flip of bit {}: there are {}", flip.bit, bits);
  }
  for (const LinkFailure& failure : faults.links) {
    for (Rank rank : {failure.a, failure.b})
      if (const std::string problem = out_of_range("a link", rank, n); !problem.empty()) return problem;
    const std::vector<Rank> neighbours = neighbours_of(plan.neighbourhood, failure.a);
    if (!std::binary_search(neighbours.begin(), neighbours.end(), failure.b))
      return fmt::format("ranks {} and {} have no link", failure.a, failure.b);
  }
  return "";
}

}  // namespace ucft::detail

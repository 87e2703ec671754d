#include "ucx_layer/runtime/unknown_settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace ucft::detail {

namespace {

// Of ucft_run, of programs, of the Python package and of the MPI shims.
constexpr std::string_view known_elsewhere[] = {
    "UCFT_RANK", "UCFT_SIZE",         "UCFT_LOCAL_RANK",     "UCFT_RENDEZVOUS",       "UCFT_JOB_SECRET", "UCFT_MPI",
    "UCFT_RUN",  "UCFT_MPI_INFO",     "UCFT_MPI_ON_FAILURE", "UCFT_PURPOSE_FD",       "UCFT_MARK",       "UCFT_OUTPUT",
    "UCFT_INFO", "UCFT_MUTANTS_PART", "UCFT_JOIN",           "UCFT_JOIN_SECRET_FILE", "UCFT_ADDRESS_FD"};
// Of tests, and of the scripts in ci.
constexpr std::string_view prefixes_elsewhere[] = {"UCFT_TEST_",      "UCFT_KILL_",        "UCFT_CLUSTER",
                                                   "UCFT_NODE_",      "UCFT_RDMA_",        "UCFT_SLURM_",
                                                   "UCFT_NAMESPACES", "UCFT_GOSSIP_WORLD", "UCFT_WRITE_"};

// Letters to insert, delete or replace until one is the other.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

bool is_known(const Settings& settings, std::string_view name) {
  return std::ranges::any_of(settings.sources, [&](const Settings::Source& each) { return each.name == name; }) ||
         std::ranges::find(known_elsewhere, name) != std::end(known_elsewhere) ||
         std::ranges::any_of(prefixes_elsewhere, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::string> unknown_settings(const Settings& settings, const char* const* environment) {
  std::vector<std::string> sentences;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (!name.starts_with("UCFT_") || is_known(settings, name)) continue;
    const auto nearest = std::ranges::min_element(
        settings.sources, {}, [&](const Settings::Source& each) { return distance(name, each.name); });
    if (nearest == settings.sources.end()) continue;
    sentences.push_back(
        fmt::format("{} is in the environment, and is no setting; the nearest name is {}", name, nearest->name));
  }
  return sentences;
}

}  // namespace ucft::detail

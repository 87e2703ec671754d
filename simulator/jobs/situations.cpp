#include "simulator/jobs/situations.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::jobs {
namespace {

// The number of each: two places with one name are one situation.
const std::map<const detail::Situation*, std::size_t>& numbers() {
  static const auto all = [] {
    std::map<const detail::Situation*, std::size_t> numbers;
    for (const detail::Situation* each : detail::all_situations())
      numbers[each] =
          static_cast<std::size_t>(std::ranges::lower_bound(situations(), each->name) - situations().begin());
    return numbers;
  }();
  return all;
}

std::function<void(std::size_t)>& watcher() {
  static std::function<void(std::size_t)> all;
  return all;
}

}  // namespace

const std::vector<std::string>& situations() {
  static const auto all = [] {
    std::vector<std::string> names;
    for (const detail::Situation* each : detail::all_situations()) names.emplace_back(each->name);
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }();
  return all;
}

std::vector<std::uint64_t> times_of_situations() {
  std::vector<std::uint64_t> times(situations().size());
  for (const auto& [each, number] : numbers()) times[number] += each->times;
  return times;
}

void watch_situations(std::function<void(std::size_t)> watch) {
  watcher() = std::move(watch);
  numbers();
  detail::on_situation = nullptr;
  if (watcher()) detail::on_situation = [](const detail::Situation& each) { watcher()(numbers().at(&each)); };
}

}  // namespace ucft::jobs

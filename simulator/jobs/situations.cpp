#include "simulator/jobs/situations.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "collectives/core/sometimes.hpp"

namespace ucft::jobs {
namespace {

// By name, and numbered.
const std::vector<detail::Situation*>& sorted() {
  static const auto all = [] {
    std::vector<detail::Situation*> by_name = detail::all_situations();
    std::ranges::sort(by_name, {}, [](const detail::Situation* each) { return std::string_view(each->name); });
    for (std::size_t number = 0; number < by_name.size(); ++number) by_name[number]->number = number;
    return by_name;
  }();
  return all;
}

std::function<void(std::size_t, std::uint64_t)>& watcher() {
  static std::function<void(std::size_t, std::uint64_t)> watcher;
  return watcher;
}

}  // namespace

std::size_t situation_count() { return sorted().size(); }
const char* name_of_situation(std::size_t number) { return sorted().at(number)->name; }

std::vector<std::uint64_t> times_of_situations() {
  std::vector<std::uint64_t> times;
  for (const detail::Situation* each : sorted()) times.push_back(each->times);
  return times;
}

void watch_situations(std::function<void(std::size_t, std::uint64_t)> watch) {
  watcher() = std::move(watch);
  detail::on_situation = nullptr;
  if (watcher()) detail::on_situation = [](const detail::Situation& each) { watcher()(each.number, each.times); };
}

}  // namespace ucft::jobs

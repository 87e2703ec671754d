#include "ucx_layer/transport/memory/available_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

namespace ucft::detail {

namespace {

// The number behind that word in a file of such lines.
std::optional<std::uint64_t> number_behind(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string each; file >> each;)
    if (std::uint64_t number = 0; each == word && file >> number) return number;
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;  // "max" is none
}

std::uint64_t left_on_the_machine(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const auto available = number_behind(path, "MemAvailable:");
  return available ? (*available + number_behind(path, "SwapFree:").value_or(0)) * 1024 : UINT64_MAX;
}

// Pages of files that nobody has used lately are given back before a process is ended.
std::uint64_t left_in_group(const std::filesystem::path& folder) {
  const auto limit = number_in(folder / "memory.max"), used = number_in(folder / "memory.current");
  if (!limit || !used) return UINT64_MAX;
  const std::uint64_t cached = number_behind(folder / "memory.stat", "inactive_file").value_or(0);
  const std::uint64_t taken = *used - std::min(cached, *used);
  return *limit - std::min(taken, *limit);
}

// Of the group and those that it is in.
std::uint64_t left_in_groups(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::uint64_t least = UINT64_MAX;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(4);; group = group.parent_path()) {
      least = std::min(least, left_in_group(std::filesystem::path(root + "/sys/fs/cgroup") / group));
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace

std::uint64_t available_memory(const std::string& root) {
  return std::min(left_on_the_machine(root), left_in_groups(root));
}

}  // namespace ucft::detail

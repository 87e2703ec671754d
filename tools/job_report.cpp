// Each rank has one anonymous file, "ucft", that others find by /proc/PID/fd (shared_memory.hpp). It is read as a file: what has no
// page stays without one. What is made of it is observer/job_view.hpp's.
#include "tools/job_report.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ucx_layer/observer/job_view.hpp"

namespace ucft::detail {

namespace {

class File {
 public:
  explicit File(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool read(std::uint64_t offset, std::span<std::uint64_t> to) const {
    return ::pread(descriptor_, to.data(), to.size_bytes(), static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(to.size_bytes());
  }

 private:
  int descriptor_;
};

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> found;
  if (DIR* const directory = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(directory))
      if (entry->d_name[0] != '.') found.emplace_back(entry->d_name);
    ::closedir(directory);
  }
  return found;
}

// Of the rank's file; empty: it has none, or it may not be looked at.
std::string file_of(int pid) {
  const std::string folder = fmt::format("/proc/{}/fd/", pid);
  for (const std::string& entry : entries_of(folder)) {
    char target[64];
    const ssize_t length = ::readlink((folder + entry).c_str(), target, sizeof target);
    if (length > 0 && std::string_view(target, static_cast<std::size_t>(length)) == "/memfd:ucft (deleted)")
      return folder + entry;
  }
  return {};
}

ProcessState state_of(int pid) {
  ProcessWatch watch;
  watch.add(0, pid, process_start_time(pid));
  return watch.state(0);
}

std::optional<RankView> look_at(int pid) {
  const std::string path = file_of(pid);
  if (path.empty()) return std::nullopt;
  const File file(path);
  RankView view;
  if (!view.read([&](std::uint64_t offset, std::span<std::uint64_t> words) { return file.read(offset, words); }))
    return std::nullopt;
  view.pid = pid;
  view.process = state_of(pid);
  return view;
}

// By cookie, of this host.
std::map<std::uint64_t, JobView> find_jobs() {
  std::map<std::uint64_t, JobView> jobs;
  for (const std::string& entry : entries_of("/proc"))
    if (const int pid = std::atoi(entry.c_str()); pid > 0)
      if (auto view = look_at(pid)) jobs[view->cookie].ranks[view->rank] = std::move(*view);
  for (auto& [cookie, job] : jobs) job.now_ns = monotonic_ns();
  return jobs;
}

nlohmann::json seconds_since(std::int64_t at_ns, const JobView& job) {
  return at_ns == 0 ? nlohmann::json() : nlohmann::json(static_cast<double>(job.now_ns - at_ns) / 1e9);
}

nlohmann::json line_of(const JobView& job, const RankView& view) {
  nlohmann::json line{{"job", view.cookie},
                      {"rank", view.rank},
                      {"ranks", view.ranks},
                      {"pid", view.pid},
                      {"does", name_of(job.doing(view.rank))},
                      {"heard_s", seconds_since(view.heard_at_ns, job)},
                      {"connections", view.connections},
                      {"lifelines", view.lifelines},
                      {"mailboxes", view.mailboxes},
                      {"mailbox_bytes", view.mailbox_bytes},
                      {"text", job.words_about(view.rank)}};
  if (!view.activity.empty()) line["inside"] = view.activity;
  line["communicators"] = nlohmann::json::array();
  for (const auto& [communicator, part] : view.parts) {
    nlohmann::json each{{"communicator", communicator},
                        {"rank", part.rank},
                        {"ranks", part.ranks},
                        {"posted", part.posted},
                        {"finished", part.finished},
                        {"posted_s", seconds_since(part.posted_at_ns, job)},
                        {"text", job.words_about(view.rank, communicator)}};
    if (part.is_in_operation()) each["waits_for"] = job.awaited_by(view.rank, communicator);
    line["communicators"].push_back(std::move(each));
  }
  return line;
}

std::string words_of(const nlohmann::json& line) {
  std::string text = fmt::format("rank {:<5} pid {:<8} {}", line["rank"].get<int>(), line["pid"].get<int>(),
                                 line["text"].get<std::string>());
  for (const auto& each : line["communicators"]) {
    text += fmt::format("; communicator {}: {}", each["communicator"].get<std::uint32_t>(),
                        each["text"].get<std::string>());
    if (!each.contains("waits_for") || each["waits_for"].empty()) continue;
    text += ", waits for rank";
    for (const auto& late : each["waits_for"]) text += fmt::format(" {}", late.get<int>());
  }
  return text + fmt::format("; {} connections, {} lifelines, {} mailboxes of {} bytes", line["connections"].get<int>(),
                            line["lifelines"].get<int>(), line["mailboxes"].get<int>(),
                            line["mailbox_bytes"].get<std::uint64_t>());
}

}  // namespace

std::string job_report(int pid, bool json, std::string& error) {
  std::string text;
  for (const auto& [cookie, job] : find_jobs()) {
    if (pid != 0 && std::ranges::none_of(job.ranks, [&](const auto& each) { return each.second.pid == pid; })) continue;
    const std::int32_t ranks = job.ranks.begin()->second.ranks;
    if (!json) text += fmt::format("job {:08x}: {} ranks, {} of them here\n", cookie, ranks, job.ranks.size());
    for (const auto& [rank, view] : job.ranks) {
      const nlohmann::json line = line_of(job, view);
      text += (json ? line.dump() : words_of(line)) + "\n";
    }
    std::string absent;
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      if (!job.ranks.contains(rank)) {
        absent += fmt::format(" {}", rank);
        if (json)
          text += nlohmann::json{{"job", cookie}, {"rank", rank}, {"ranks", ranks}, {"does", "absent"}}.dump() + "\n";
      }
    if (!json && !absent.empty())
      text += fmt::format("rank{}: no process here: dead, or gone, or on another host\n", absent);
  }
  if (text.empty() && pid != 0)
    error = fmt::format("process {} is no rank of a ucft job, or this user may not look at it", pid);
  return text;
}

}  // namespace ucft::detail

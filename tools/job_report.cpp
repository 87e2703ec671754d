// Each rank has one anonymous file, "ucft", that others find by /proc/PID/fd (shared_memory.hpp). It is read as a file: what has no
// page stays without one. A rank may write meanwhile, so a figure may be one operation old; none is torn.
#include "tools/job_report.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/host/host_slab.hpp"
#include "timeout_detector/process_watch.hpp"
#include "ucx_layer/transport/memory/first_segment.hpp"

namespace ucft::detail {

namespace {

using namespace std::chrono_literals;

// A rank's part in a communicator whose ranks read each other's memory.
struct Part {
  Rank rank = 0, ranks = 0;
  std::uint64_t posted = 0, finished = 0;
  bool is_in_operation() const { return posted > finished; }
};

struct Process {
  int pid = 0;
  std::uint64_t cookie = 0, heartbeat = 0;
  std::chrono::microseconds heartbeat_period{};
  std::int32_t rank = 0, ranks = 0;
  bool beats = false;
  ProcessState state = ProcessState::unknown;
  std::uint32_t left = 0;               // as in the control page
  double waits_s = 0;                   // 0: in no wait that has come to sleep
  std::map<std::uint32_t, Part> parts;  // by communicator
};

class File {
 public:
  explicit File(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  template <class Value>
  bool read(std::uint64_t offset, Value* to, std::size_t count = 1) const {
    const std::size_t bytes = count * sizeof(Value);
    return ::pread(descriptor_, static_cast<void*>(to), bytes, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(bytes);
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

std::optional<Part> part_at(const File& file, std::uint64_t offset) {
  HostWord first_line[3] = {};
  if (!file.read(offset, first_line, 3)) return std::nullopt;
  const HostWord layout = first_line[HostLayout::stride_and_banks()], who = first_line[HostLayout::rank_and_ranks()];
  const std::uint64_t stride = layout >> 32, banks = layout & 0xffffffff;
  if (who == 0) return std::nullopt;  // just made
  Part part{static_cast<Rank>(who >> 32), static_cast<Rank>(who & 0xffffffff), 0, first_line[HostLayout::through()]};
  for (std::uint64_t bank = 0; bank < banks; ++bank) {
    HostWord stamp = 0;
    file.read(offset + (HostLayout::first_bank() + bank * stride) * sizeof(HostWord), &stamp);
    part.posted = std::max(part.posted, stamp);
  }
  return part;
}

void read_parts(const File& file, std::uint64_t base, Process& process) {
  std::vector<std::uint64_t> page(sizeof(SlabPage) / sizeof(std::uint64_t));
  for (std::uint64_t offset = FirstSegment::slabs_offset(); file.read(offset, page.data(), page.size());
       offset = page[0] - base) {
    for (std::size_t entry = 1; entry <= SlabPage::size; ++entry) {
      const std::uint64_t key = page[2 * entry], address = page[2 * entry + 1];
      if (key == 0 || (key & SlabEntry::closed) != 0) continue;
      if (const auto part = part_at(file, address - base)) process.parts[static_cast<std::uint32_t>(key - 1)] = *part;
    }
    if (page[0] == 0) return;
  }
}

std::optional<Process> look_at(int pid) {
  const std::string path = file_of(pid);
  if (path.empty()) return std::nullopt;
  const File file(path);
  alignas(64) std::byte page[sizeof(ControlPage)];
  if (!file.read(0, page, sizeof page)) return std::nullopt;
  const auto& control = *reinterpret_cast<const ControlPage*>(page);
  if (control.ranks <= 0) return std::nullopt;  // it starts up
  Process process;
  process.pid = pid;
  process.cookie = control.cookie;
  process.heartbeat = control.heartbeat.load();
  process.heartbeat_period = std::chrono::microseconds(control.heartbeat_period_us);
  process.rank = control.rank;
  process.ranks = control.ranks;
  process.left = control.left.load();
  process.state = state_of(pid);
  if (const std::int64_t since_ns = control.waits_since_ns.load(); since_ns != 0)
    process.waits_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch() -
                                                    std::chrono::nanoseconds(since_ns))
                          .count();
  read_parts(file, control.address, process);
  return process;
}

using Job = std::map<std::int32_t, Process>;  // by rank, of this host

// By cookie. Twice, some heartbeats apart, but no more than a second.
std::map<std::uint64_t, Job> find_jobs() {
  std::map<std::uint64_t, Job> jobs;
  std::map<int, std::uint64_t> heartbeats;
  std::chrono::microseconds between = 50ms;
  for (const std::string& entry : entries_of("/proc"))
    if (const int pid = std::atoi(entry.c_str()); pid > 0)
      if (const auto process = look_at(pid)) {
        heartbeats[pid] = process->heartbeat;
        between = std::clamp<std::chrono::microseconds>(5 * process->heartbeat_period, between, 1s);
      }
  std::this_thread::sleep_for(between);
  for (const auto& [pid, heartbeat] : heartbeats)
    if (auto process = look_at(pid)) {
      process->beats = process->heartbeat != heartbeat || process->heartbeat_period >= between;
      jobs[process->cookie][process->rank] = *process;
    }
  return jobs;
}

// Ranks of the job that have not posted the operation that this one would finish next.
std::vector<std::int32_t> awaited(const Job& job, std::uint32_t communicator, const Part& own) {
  std::vector<std::int32_t> late;
  for (const auto& [rank, process] : job)
    if (const auto part = process.parts.find(communicator);
        part != process.parts.end() && part->second.posted <= own.finished)
      late.push_back(rank);
  return late;
}

std::string what_it_does(const Process& process) {
  if (process.left == 1) return "has left";
  if (process.left == 2) return "is out of the job";
  if (process.state == ProcessState::stopped) return "stopped";
  if (process.state == ProcessState::dead) return "dead";
  if (!process.beats) return "silent";
  if (process.waits_s > 0) return "waits";
  const auto is_in_operation = [](const auto& each) { return each.second.is_in_operation(); };
  return std::ranges::any_of(process.parts, is_in_operation) ? "in an operation" : "computes";
}

nlohmann::json line_of(const Job& job, const Process& process) {
  nlohmann::json line{{"job", process.cookie},
                      {"rank", process.rank},
                      {"ranks", process.ranks},
                      {"pid", process.pid},
                      {"does", what_it_does(process)}};
  line["waits_s"] = process.waits_s > 0 ? nlohmann::json(process.waits_s) : nlohmann::json();
  line["communicators"] = nlohmann::json::array();
  for (const auto& [communicator, part] : process.parts) {
    nlohmann::json each{{"communicator", communicator},
                        {"rank", part.rank},
                        {"ranks", part.ranks},
                        {"posted", part.posted},
                        {"finished", part.finished}};
    if (part.is_in_operation()) each["waits_for"] = awaited(job, communicator, part);
    line["communicators"].push_back(std::move(each));
  }
  return line;
}

std::string words_of(const nlohmann::json& line) {
  std::string text = fmt::format("rank {:<5} pid {:<8} {}", line["rank"].get<int>(), line["pid"].get<int>(),
                                 line["does"].get<std::string>());
  if (!line["waits_s"].is_null()) text += fmt::format(" {:.2f} s", line["waits_s"].get<double>());
  for (const auto& each : line["communicators"]) {
    text += fmt::format("; communicator {}: {} posted, {} finished", each["communicator"].get<std::uint32_t>(),
                        each["posted"].get<std::uint64_t>(), each["finished"].get<std::uint64_t>());
    if (!each.contains("waits_for") || each["waits_for"].empty()) continue;
    text += ", waits for rank";
    for (const auto& late : each["waits_for"]) text += fmt::format(" {}", late.get<int>());
  }
  return text;
}

}  // namespace

std::string job_report(int pid, bool json, std::string& error) {
  const std::map<std::uint64_t, Job> jobs = find_jobs();
  std::string text;
  for (const auto& [cookie, job] : jobs) {
    if (pid != 0 && std::ranges::none_of(job, [&](const auto& each) { return each.second.pid == pid; })) continue;
    const std::int32_t ranks = job.begin()->second.ranks;
    if (!json) text += fmt::format("job {:08x}: {} ranks, {} of them here\n", cookie, ranks, job.size());
    for (const auto& [rank, process] : job) {
      const nlohmann::json line = line_of(job, process);
      text += (json ? line.dump() : words_of(line)) + "\n";
    }
    std::string absent;
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      if (!job.contains(rank)) {
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

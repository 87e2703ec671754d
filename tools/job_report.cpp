// Each rank has one anonymous file, "ucft", that others find by /proc/PID/fd (shared_memory.hpp). It is read as a file:
// a place that has no page stays without one. observer/job_view.hpp makes a view of the bytes. A process that has the
// file open may be no rank: a child, a peer in its start-up, somebody else who looks. The file names its owner.
#include "tools/job_report.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
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

// Of the files that may be a rank's.
std::vector<std::string> files_of(int pid) {
  const std::string folder = fmt::format("/proc/{}/fd/", pid);
  std::vector<std::string> files;
  for (const std::string& entry : entries_of(folder)) {
    char target[64];
    const ssize_t length = ::readlink((folder + entry).c_str(), target, sizeof target);
    if (length > 0 && std::string_view(target, static_cast<std::size_t>(length)) == "/memfd:ucft (deleted)")
      files.push_back(folder + entry);
  }
  return files;
}

ProcessState state_of(int pid) {
  ProcessWatch watch;
  watch.add(0, pid, process_start_time(pid));
  return watch.state(0);
}

std::optional<RankView> view_in(const std::string& path) {
  const File file(path);
  RankView view;
  if (!view.read([&](std::uint64_t offset, std::span<std::uint64_t> words) { return file.read(offset, words); }))
    return std::nullopt;
  return view;
}

struct RankFile {
  int pid;
  std::string path;
};

// Of the ranks of this host that this user may look at. A process may be a rank of several jobs.
std::vector<RankFile> rank_files() {
  std::vector<RankFile> files;
  for (const std::string& entry : entries_of("/proc")) {
    const int pid = std::atoi(entry.c_str());
    if (pid <= 0) continue;
    for (const std::string& path : files_of(pid)) {
      const std::optional<RankView> view = view_in(path);
      if (view && view->own_pid == process_own_pid(pid)) files.push_back({pid, path});
    }
  }
  return files;
}

// By cookie, of this host. All ranks are looked at within a short time, after it is known which processes they are.
std::map<std::uint64_t, JobView> find_jobs() {
  std::map<std::uint64_t, JobView> jobs;
  for (const auto& [pid, path] : rank_files()) {
    auto view = view_in(path);
    if (!view) continue;
    view->pid = pid;
    jobs[view->cookie].ranks[view->rank] = std::move(*view);
  }
  const std::int64_t now_ns = monotonic_ns();
  for (auto& [cookie, job] : jobs) {
    job.now_ns = now_ns;
    for (auto& [rank, view] : job.ranks) view.process = state_of(view.pid);
  }
  return jobs;
}

// nullopt: it has not been.
std::optional<double> seconds_since(std::int64_t at_ns, const JobView& job) {
  return at_ns == 0 ? std::nullopt : std::optional(static_cast<double>(job.now_ns - at_ns) / 1e9);
}
nlohmann::json json_of(std::optional<double> seconds) { return seconds ? nlohmann::json(*seconds) : nlohmann::json(); }

// A silent rank that wants to run, and gets no processor.
bool is_starved(const RankView& view, Doing does) {
  return does == Doing::silent && (view.process == ProcessState::runnable || view.process == ProcessState::blocked);
}

nlohmann::json line_of(const JobView& job, const RankView& view) {
  const Doing does = job.doing(view.rank);
  nlohmann::json line{{"job", view.cookie},
                      {"rank", view.rank},
                      {"ranks", view.ranks},
                      {"pid", view.pid},
                      {"does", name_of(does)},
                      {"starved", is_starved(view, does)},
                      {"heard_s", json_of(seconds_since(view.heard_at_ns, job))},
                      {"connections", view.connections},
                      {"lifelines", view.lifelines},
                      {"mailboxes", view.mailboxes},
                      {"mailbox_bytes", view.mailbox_bytes},
                      {"newcomer", view.is_newcomer},
                      {"join", view.join_address.empty() ? nlohmann::json() : nlohmann::json(view.join_address)},
                      {"text", job.words_about(view.rank)}};
  if (!view.waits_in.empty()) line["waits_in"] = view.waits_in;
  if (!view.activity.empty()) line["inside"] = view.activity;
  line["communicators"] = nlohmann::json::array();
  for (const auto& [communicator, part] : view.parts) {
    nlohmann::json each{{"communicator", communicator},
                        {"rank", part.rank},
                        {"ranks", part.ranks},
                        {"posted", part.posted},
                        {"finished", part.finished},
                        {"posted_s", json_of(seconds_since(part.posted_at_ns, job))},
                        {"text", job.words_about(view.rank, communicator)}};
    if (part.is_in_operation()) each["waits_for"] = job.awaited_by(view.rank, communicator);
    line["communicators"].push_back(std::move(each));
  }
  return line;
}

// "0-3 7".
std::string ranges_of(const std::vector<std::int32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : " ") +
            (last > i ? fmt::format("{}-{}", ranks[i], ranks[last]) : fmt::format("{}", ranks[i]));
    i = last + 1;
  }
  return text;
}

std::string shortened(const std::string& text, std::size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 2) + "..";
}

// "allreduce (sum of double, 8 bytes)" -> "allreduce sum double 8 B".
std::string in_short(std::string text) {
  for (const auto& [from, to] : {std::pair{" of ", " "}, {" bytes", " B"}, {",", ""}, {"(", ""}, {")", ""}})
    for (std::size_t at; (at = text.find(from)) != text.npos;) text.replace(at, std::strlen(from), to);
  return text;
}

// Communicators by small numbers, in the order in which they were made; the library's own ones are large and far apart.
using Numbers = std::map<std::uint32_t, int>;
Numbers numbers_of(const JobView& job) {
  Numbers numbers;
  for (const auto& [rank, view] : job.ranks)
    for (const auto& [communicator, part] : view.parts) numbers[communicator] = 0;
  int next = 0;
  for (auto& [communicator, number] : numbers) number = next++;
  return numbers;
}

std::string state_of(const RankView& view, Doing does) {
  if (is_starved(view, does)) return "starved";
  if (does == Doing::computes && !view.activity.empty()) return "in " + view.activity;
  return does == Doing::in_operation ? "waits" : name_of(does);
}

constexpr const char* row = "{:>5} {:>7} {:<10} {:>4} {:<27} {:>8} {}\n";  // at most 80 columns

// A row for each communicator that the rank is in an operation of; else one, of the communicator in which it has posted
// last.
std::string rows_of(const JobView& job, const RankView& view, Doing does, const Numbers& numbers) {
  struct Shown {
    std::uint32_t communicator;
    std::vector<std::int32_t> awaited;
  };
  std::vector<Shown> shown;
  auto newest = view.parts.end();
  for (auto part = view.parts.begin(); part != view.parts.end(); ++part) {
    auto awaited = job.awaited_by(view.rank, part->first);
    if (!awaited.empty()) shown.push_back({part->first, std::move(awaited)});
    if (newest == view.parts.end() || part->second.posted_at_ns > newest->second.posted_at_ns) newest = part;
  }
  if (shown.empty() && newest != view.parts.end() && view.waits_in.empty()) shown.push_back({newest->first, {}});
  std::string text, rank = fmt::format("{}", view.rank), pid = fmt::format("{}", view.pid);
  std::string state = shortened(state_of(view, does), 10);
  if (shown.empty() || !view.waits_in.empty()) {
    text = fmt::format(row, rank, pid, state, "-", view.waits_in.empty() ? "-" : shortened(view.waits_in, 27), "-", "");
    rank = pid = state = "";
  }
  for (const auto& [communicator, awaited] : shown) {
    const std::string last = job.last_posted(view.rank, communicator);
    const std::optional<double> since = seconds_since(view.parts.at(communicator).posted_at_ns, job);
    text +=
        fmt::format(row, rank, pid, state, numbers.at(communicator), last.empty() ? "-" : shortened(in_short(last), 27),
                    since ? fmt::format("{:.2f} s", *since) : "-", shortened(ranges_of(awaited), 13));
    rank = pid = state = "";
  }
  return text;
}

// A sentence that has no room in a row. Empty: there is none.
std::string remark_on(const JobView& job, const RankView& view, Doing does) {
  if (does == Doing::mismatched) return fmt::format("rank {} {}\n", view.rank, job.mismatch_of(view.rank));
  if (does != Doing::silent && does != Doing::stopped) return "";
  return fmt::format("rank {} {}: {}\n", view.rank,
                     is_starved(view, does) ? "wants to run and gets no processor" : "gives no sign of life",
                     job.words_about(view.rank));
}

std::string legend_of(const JobView& job, const Numbers& numbers) {
  std::string text;
  for (const auto& [communicator, number] : numbers) {
    std::vector<std::int32_t> members;
    for (const auto& [rank, view] : job.ranks)
      if (view.parts.contains(communicator)) members.push_back(rank);
    text += fmt::format("comm {}: number {}, ranks {} here\n", number, communicator, ranges_of(members));
  }
  return text;
}

// Ranks that have no process on this host.
struct Absent {
  std::vector<std::int32_t> empty_seats;  // nobody has had these since the last renewal
  std::vector<std::int32_t> others;       // dead, or gone, or on another host
};

Absent absent_of(const JobView& job) {
  Absent absent;
  std::set<std::int32_t> empty;
  for (const auto& [rank, view] : job.ranks) empty.insert(view.empty_seats.begin(), view.empty_seats.end());
  for (std::int32_t rank = 0; rank < job.ranks.begin()->second.ranks; ++rank)
    if (!job.ranks.contains(rank)) (empty.contains(rank) ? absent.empty_seats : absent.others).push_back(rank);
  return absent;
}

// Where newcomers may come, and those that have. Empty: it is no job that newcomers may join.
std::string seats_of(const JobView& job) {
  std::string text;
  for (const auto& [rank, view] : job.ranks)
    if (!view.join_address.empty())
      text += fmt::format("{:>5} {}{}\n", rank, view.join_address, view.is_newcomer ? ", is a newcomer itself" : "");
  return text.empty() ? text : " rank where newcomers may come (UCFT_JOIN)\n" + text + "\n";
}

std::string table_of(const JobView& job, std::uint64_t cookie, const Absent& absent) {
  const std::int32_t ranks = job.ranks.begin()->second.ranks;
  const Numbers numbers = numbers_of(job);
  std::string text = fmt::format("job {:08x}: {} ranks, {} of them on this host\n\n", cookie, ranks, job.ranks.size());
  text += fmt::format(row, "rank", "pid", "state", "comm", "last operation", "since", "waits for");
  std::string remarks;
  for (const auto& [rank, view] : job.ranks) {
    const Doing does = job.doing(rank);
    text += rows_of(job, view, does, numbers);
    remarks += remark_on(job, view, does);
  }
  text += "\n";
  if (numbers.size() > 1) text += legend_of(job, numbers);
  text += seats_of(job) + remarks;
  if (!absent.empty_seats.empty())
    text += fmt::format("rank {}: an empty seat, which a newcomer may take\n", ranges_of(absent.empty_seats));
  if (!absent.others.empty())
    text += fmt::format("rank {}: no process here: dead, or gone, or on another host\n", ranges_of(absent.others));
  return text;
}

// The reason why a report is empty.
std::string nothing_to_report(int pid) {
  if (pid == 0) return "no rank of a ucft job runs here that this user may look at";
  if (::kill(pid, 0) != 0 && errno == ESRCH) return fmt::format("there is no process {}", pid);
  return fmt::format("process {} is no rank of a ucft job, nor has it started one, or this user may not look at it",
                     pid);
}

// Whether it is that process, or one of its descendants. It may be a rank, ucft_run, mpirun.
bool is_of(int pid, int ancestor) {
  for (int steps = 0; pid > 1 && steps < 100; ++steps, pid = process_parent(pid))
    if (pid == ancestor) return true;
  return false;
}

}  // namespace

std::string job_report(int pid, bool json, std::string& error) {
  std::string text;
  for (const auto& [cookie, job] : find_jobs()) {
    if (pid != 0 && std::ranges::none_of(job.ranks, [&](const auto& each) { return is_of(each.second.pid, pid); }))
      continue;
    const Absent absent = absent_of(job);
    if (!json) {
      text += (text.empty() ? "" : "\n") + table_of(job, cookie, absent);
      continue;
    }
    for (const auto& [rank, view] : job.ranks) text += line_of(job, view).dump() + "\n";
    for (const auto* const ranks : {&absent.empty_seats, &absent.others})
      for (const std::int32_t rank : *ranks) {
        const nlohmann::json line{{"job", cookie},
                                  {"rank", rank},
                                  {"ranks", job.ranks.begin()->second.ranks},
                                  {"does", "absent"},
                                  {"empty_seat", ranks == &absent.empty_seats}};
        text += line.dump() + "\n";
      }
  }
  if (text.empty()) error = nothing_to_report(pid);
  return text;
}

}  // namespace ucft::detail

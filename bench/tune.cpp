#include "bench/tune.hpp"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "ucft/ucft.hpp"
#include "collectives/on_host/tuning_file.hpp"
#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail::bench {

namespace {

using Choice = HostTuning::Choice;

constexpr int turns = 7;
constexpr double worth_it = 0.95;  // of the time of the built-in choice
constexpr double turn_us = 20000;

double clock_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A table that has one row, in a file of this rank's own, for the contexts that are made while this lives.
class TableInForce {
 public:
  explicit TableInForce(const Choice& choice) {
    const int file = mkstemp(path_);
    const std::string text = tuning_text({{{{}, choice}}}, "a trial");
    const bool written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) close(file);
    if (!written) throw std::runtime_error(fmt::format("{}: {}", path_, std::strerror(errno)));
    setenv(variable, path_, 1);
  }
  ~TableInForce() {
    unsetenv(variable);
    unlink(path_);
  }
  TableInForce(const TableInForce&) = delete;
  TableInForce& operator=(const TableInForce&) = delete;

 private:
  static constexpr const char* variable = "UCFT_TUNING_FILE";
  char path_[32] = "/tmp/ucft_tune_XXXXXX";
};

// us per allreduce, of the slowest rank; the same on all.
double measure(Communicator& world, std::size_t bytes) {
  std::vector<double> send(std::max<std::size_t>(bytes / sizeof(double), 1), 1), receive(send.size());
  const auto loop = [&](std::int64_t iterations) {
    world.barrier();
    const double begin = clock_us();
    for (std::int64_t i = 0; i < iterations; ++i) world.allreduce(send, receive, Operator(UCFT_SUM));
    std::vector<double> each{(clock_us() - begin) / static_cast<double>(iterations)};
    world.allreduce(each, Operator(UCFT_MAX));
    return each[0];
  };
  const double about = loop(10);
  return loop(std::clamp<std::int64_t>(std::llround(turn_us / about), 10, 20000));
}

class Trials {
 public:
  explicit Trials(bool json) : json_(json) {}

  // Medians, by candidate and size.
  std::vector<std::vector<double>> run(const char* what, const std::vector<Choice>& candidates,
                                       const std::vector<std::size_t>& sizes_bytes) {
    std::vector<std::vector<std::vector<double>>> times(candidates.size(),
                                                        std::vector<std::vector<double>>(sizes_bytes.size()));
    for (int turn = 0; turn < turns; ++turn)
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const TableInForce table(candidates[i]);
        Context context;
        Communicator world(context);
        for (std::size_t k = 0; k < sizes_bytes.size(); ++k) times[i][k].push_back(measure(world, sizes_bytes[k]));
        speaks_ = world.rank() == 0;
      }
    std::vector<std::vector<double>> medians(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i)
      for (std::size_t k = 0; k < sizes_bytes.size(); ++k) {
        medians[i].push_back(median(times[i][k]));
        if (speaks_) print(what, candidates[i], sizes_bytes[k], medians[i][k]);
      }
    return medians;
  }

 private:
  void print(const char* what, const Choice& choice, std::size_t bytes, double us) const {
    fmt::print(
        fmt::runtime(json_ ? "{{\"tune\":\"{}\",\"degree\":{},\"large_bytes\":{},\"chunk_bytes\":{},\"bytes\":{},"
                             "\"us\":{:.3f}}}\n"
                           : "{}: degree {}, large_bytes {}, chunk_bytes {}: {} bytes {:.3f} us\n"),
        what, choice.degree, choice.large_bytes, choice.chunk_bytes, bytes, us);
    std::fflush(stdout);
  }

  bool json_;
  bool speaks_ = false;
};

// The place of the best; 0, the built-in choice, if none is better by enough.
std::size_t best_of(const std::vector<double>& times) {
  const auto best = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  return times[best] < worth_it * times[0] ? best : 0;
}

std::string this_machine() {
  std::ifstream cpus("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(cpus, line))
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      model = line.substr(line.find(": ") + 2);
      break;
    }
  double load = 0;
  getloadavg(&load, 1);
  return fmt::format("{} cores, {}, load {:.1f}; ucft_perftest --tune of ucft {}", sysconf(_SC_NPROCESSORS_ONLN), model,
                     load, UCFT_VERSION_STRING);
}

// Of all ranks.
std::vector<HostSite> sites_of(Communicator& world, std::int32_t hardware_threads) {
  std::string problem;
  const HostSite own = site_of_this_process(own_processors(), hardware_threads, problem);
  if (!problem.empty())
    throw std::runtime_error(fmt::format("rank {}: where it is bound to is not known: {}", world.rank(), problem));
  const std::vector<std::int32_t> mine{own.package, own.numa, own.cache};
  std::vector<std::int32_t> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.allgather(mine, all);
  std::vector<HostSite> sites;
  for (std::size_t i = 0; i < all.size(); i += mine.size())
    sites.push_back({static_cast<std::int16_t>(all[i]), static_cast<std::int16_t>(all[i + 1]),
                     static_cast<std::int16_t>(all[i + 2])});
  return sites;
}

}  // namespace

Tuned tune(bool json) {
  Tuned found;
  HostTuning::Where& where = found.row.where;
  {
    Context context;
    Communicator world(context);
    ucft_context_paths_t paths = UCFT_CONTEXT_PATHS_INIT;
    const ucft_status_t status = ucft_context_paths(context.get(), &paths);
    if (status != UCFT_OK) throw Error(status, ucft_last_error());
    if (paths.shared_memory != world.size() - 1)
      throw std::runtime_error(
          fmt::format("rank {} shares memory with {} of the {} others: the table is for ranks of one host",
                      world.rank(), paths.shared_memory, world.size() - 1));
    std::string settings(ucft_settings(context.get(), nullptr, 0), '\0');
    ucft_settings(context.get(), settings.data(), settings.size());
    for (const char* by_messages : {"UCFT_ALGORITHM=corrected", "UCFT_FENCE=0"})
      if (settings.find(by_messages) != std::string::npos)
        throw std::runtime_error(fmt::format("{}: ranks send messages then, which the table is not for", by_messages));
    const long own = syscall(SYS_pidfd_open, getpid(), 0);
    if (own < 0)
      throw std::runtime_error("this system has no pidfds: ranks send messages then, which the table is not for");
    close(static_cast<int>(own));
    const auto hardware_threads = static_cast<std::int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    where = HostTuning::where(sites_of(world, hardware_threads), world.size(), hardware_threads);
    found.row.choice = default_tuning().choose(where);
    found.rank = world.rank();
  }
  Trials trials(json);
  Choice& choice = found.row.choice;

  std::vector<Choice> candidates{choice};
  for (const std::int32_t degree : {0, 2, 4, 8, 16})
    if (degree != choice.degree && degree < where.ranks - 1) {
      candidates.push_back(choice);
      candidates.back().degree = degree;
    }
  std::vector<double> times;
  for (const auto& each : trials.run("degree", candidates, {8})) times.push_back(each[0]);
  choice.degree = candidates[best_of(times)].degree;

  const std::vector<std::size_t> sizes_bytes{1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16};
  candidates = {choice, choice};
  candidates[0].large_bytes = sizes_bytes.back();  // each rank by itself
  candidates[1].large_bytes = 64;                  // in chunks
  const auto ways = trials.run("large_bytes", candidates, sizes_bytes);
  choice.large_bytes = sizes_bytes[0] / 2;
  for (std::size_t i = 0; i < sizes_bytes.size() && ways[0][i] <= ways[1][i]; ++i) choice.large_bytes = sizes_bytes[i];

  candidates = {choice};
  for (const std::uint64_t bytes : {8u << 10, 16u << 10, 32u << 10, 64u << 10, 128u << 10})
    if (bytes != choice.chunk_bytes) {
      candidates.push_back(choice);
      candidates.back().chunk_bytes = bytes;
    }
  times.clear();
  for (const auto& each : trials.run("chunk_bytes", candidates, {256 << 10, 1 << 20}))
    times.push_back(std::sqrt(each[0] * each[1]));
  choice.chunk_bytes = candidates[best_of(times)].chunk_bytes;
  if (found.rank == 0)
    fmt::print(
        fmt::runtime(json ? "{{\"tune\":\"row\",\"ranks\":{},\"ranks_per_core\":{},\"caches\":{},\"degree\":{},"
                            "\"large_bytes\":{},\"chunk_bytes\":{}}}\n"
                          : "row: ranks {}, ranks_per_core {}, caches {}: degree {}, large_bytes {}, chunk_bytes {}\n"),
        where.ranks, where.ranks_per_core, where.caches, choice.degree, choice.large_bytes, choice.chunk_bytes);
  return found;
}

bool read_table(const std::string& path, HostTuning& table, std::string& error) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(directory.c_str(), W_OK) != 0) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return false;
  }
  std::ifstream file(path);
  if (!file.is_open() && errno == ENOENT) return true;
  std::stringstream text;
  text << file.rdbuf();
  std::string problem = std::strerror(errno);
  if (file.is_open() && parse_tuning(text.str(), table, problem)) return true;
  error = fmt::format("{} is there already, and no tuning table: {}", path, problem);
  return false;
}

bool write_row(const std::string& path, const HostTuning::Row& row, std::string& error) {
  HostTuning table;
  if (!read_table(path, table, error)) return false;
  std::erase_if(table.rows, [&](const HostTuning::Row& each) { return each.where == row.where; });
  const auto place = std::find_if(table.rows.begin(), table.rows.end(),
                                  [&](const HostTuning::Row& each) { return row.where < each.where; });
  table.rows.insert(place, row);
  const std::string beside = path + ".new", text = tuning_text(table, this_machine());
  std::FILE* const file = std::fopen(beside.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written && std::rename(beside.c_str(), path.c_str()) == 0) return true;
  error = fmt::format("{}: {}", path, std::strerror(errno));
  std::remove(beside.c_str());
  return false;
}

}  // namespace ucft::detail::bench

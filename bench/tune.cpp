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
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "ucft/ucft.hpp"
#include "collectives/on_host/tuning_file.hpp"
#include "ucx_layer/bootstrap/machine.hpp"

namespace ucft::detail::bench {

namespace {

using Choice = HostTuning::Choice;
using BetweenHosts = HostTuning::BetweenHosts;
using Json = nlohmann::ordered_json;

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

HostTuning table_of(const Choice& choice) { return {.between_hosts = {}, .rows = {{{}, choice}}}; }
HostTuning table_of(const BetweenHosts& row) { return {.between_hosts = {row}, .rows = {}}; }

Json fields_of(const Choice& choice) {
  return {{"degree", choice.degree}, {"large_bytes", choice.large_bytes}, {"chunk_bytes", choice.chunk_bytes}};
}
Json fields_of(const BetweenHosts& row) {
  return {{"whole_bytes", row.whole_bytes}, {"straight_bytes", row.straight_bytes}};
}

// "degree 2, large_bytes 64"
std::string text_of(const Json& fields) {
  std::string text;
  for (const auto& [name, value] : fields.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value.dump());
  return text;
}

// A table in a file of this rank's own, for the contexts that are made while this lives.
class TableInForce {
 public:
  explicit TableInForce(const HostTuning& table) {
    const int file = mkstemp(path_);
    const std::string text = tuning_text(table, "a trial");
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

// us per call, of the slowest rank; the same on all.
template <class Call>
double measure(Communicator& world, Call call) {
  const auto loop = [&](std::int64_t iterations) {
    world.barrier();
    const double begin = clock_us();
    for (std::int64_t i = 0; i < iterations; ++i) call();
    std::vector<double> each{(clock_us() - begin) / static_cast<double>(iterations)};
    world.allreduce(each, Operator(UCFT_MAX));
    return each[0];
  };
  const double about = loop(10);
  return loop(std::clamp<std::int64_t>(std::llround(turn_us / about), 10, 20000));
}

double measure_allreduce(Communicator& world, std::size_t bytes) {
  std::vector<double> send(std::max<std::size_t>(bytes / sizeof(double), 1), 1), receive(send.size());
  return measure(world, [&] { world.allreduce(send, receive, Operator(UCFT_SUM)); });
}

// bytes: of all blocks together.
double measure_alltoall(Communicator& world, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::uint8_t> send(std::max<std::size_t>(bytes / ranks / ranks, 1) * ranks), receive(send.size());
  return measure(world, [&] { world.alltoall(send, receive); });
}

// bytes: of all shares together.
double measure_scatter(Communicator& world, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::uint8_t> receive(std::max<std::size_t>(bytes / ranks, 1)), send(receive.size() * ranks);
  return measure(world, [&] { world.scatter(send, receive, 0); });
}

class Trials {
 public:
  explicit Trials(bool json) : json_(json) {}

  // Medians, by candidate and size.
  template <class Candidate>
  std::vector<std::vector<double>> run(const char* what, const std::vector<Candidate>& candidates,
                                       const std::vector<std::size_t>& sizes_bytes,
                                       double (*measure_one)(Communicator&, std::size_t) = measure_allreduce) {
    std::vector<std::vector<std::vector<double>>> times(candidates.size(),
                                                        std::vector<std::vector<double>>(sizes_bytes.size()));
    for (int turn = 0; turn < turns; ++turn)
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const TableInForce table(table_of(candidates[i]));
        Context context;
        Communicator world(context);
        for (std::size_t k = 0; k < sizes_bytes.size(); ++k) times[i][k].push_back(measure_one(world, sizes_bytes[k]));
        speaks_ = world.rank() == 0;
      }
    std::vector<std::vector<double>> medians(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i)
      for (std::size_t k = 0; k < sizes_bytes.size(); ++k) {
        medians[i].push_back(median(times[i][k]));
        if (speaks_) print(what, fields_of(candidates[i]), sizes_bytes[k], medians[i][k]);
      }
    return medians;
  }

 private:
  void print(const char* what, const Json& fields, std::size_t bytes, double us) const {
    if (json_) {
      Json line{{"tune", what}};
      line.update(fields);
      line["bytes"] = bytes;
      line["us"] = std::round(us * 1000) / 1000;
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{}: {}: {} bytes {:.3f} us\n", what, text_of(fields), bytes, us);
    }
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

// Of the first sizes those at which the first way is not slower than the second.
std::size_t sizes_of_first(const std::vector<std::vector<double>>& ways) {
  std::size_t sizes = 0;
  while (sizes < ways[0].size() && ways[0][sizes] <= ways[1][sizes]) ++sizes;
  return sizes;
}

// Processes: hosts, or ranks that share no memory.
std::int32_t processes_of(Communicator& world, const Context& context) {
  ucft_context_paths_t paths = UCFT_CONTEXT_PATHS_INIT;
  const ucft_status_t status = ucft_context_paths(context.get(), &paths);
  if (status != UCFT_OK) throw Error(status, ucft_last_error());
  std::vector<double> each{1.0 / (paths.shared_memory + 1)};
  world.allreduce(each, Operator(UCFT_SUM));
  return static_cast<std::int32_t>(std::lround(each[0]));
}

void refuse_messages(const Context& context) {
  std::string settings(ucft_settings(context.get(), nullptr, 0), '\0');
  ucft_settings(context.get(), settings.data(), settings.size());
  for (const char* by_messages : {"UCFT_ALGORITHM=corrected", "UCFT_FENCE=0"})
    if (settings.find(by_messages) != std::string::npos)
      throw std::runtime_error(fmt::format("{}: ranks send messages then, which the table is not for", by_messages));
  const long own = syscall(SYS_pidfd_open, getpid(), 0);
  if (own < 0)
    throw std::runtime_error("this system has no pidfds: ranks send messages then, which the table is not for");
  close(static_cast<int>(own));
}

Choice tune_host(Trials& trials, const HostTuning::Where& where) {
  Choice choice = default_tuning().choose(where);
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
  const std::size_t sizes = sizes_of_first(trials.run("large_bytes", candidates, sizes_bytes));
  choice.large_bytes = sizes == 0 ? sizes_bytes[0] / 2 : sizes_bytes[sizes - 1];

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
  return choice;
}

BetweenHosts tune_between_hosts(Trials& trials, std::int32_t processes) {
  BetweenHosts row{.processes = processes};
  std::vector<std::size_t> sizes_bytes{8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10};
  const std::uint64_t steps = Optimism::steps(processes);
  std::vector<BetweenHosts> candidates{row, row};
  candidates[0].whole_bytes = sizes_bytes.back() * steps;
  candidates[1].whole_bytes = sizes_bytes[0] / 2 * steps;
  std::size_t sizes = sizes_of_first(trials.run("whole_bytes", candidates, sizes_bytes));
  row.whole_bytes = (sizes == 0 ? sizes_bytes[0] / 2 : sizes_bytes[sizes - 1]) * steps;

  sizes_bytes = {24 << 10, 48 << 10, 96 << 10, 192 << 10, 384 << 10, 768 << 10};
  candidates = {row, row};
  candidates[0].straight_bytes = 2 * sizes_bytes.back();
  candidates[1].straight_bytes = 1;
  sizes = sizes_of_first(
      trials.run("straight_bytes", candidates, sizes_bytes, processes == 2 ? measure_scatter : measure_alltoall));
  row.straight_bytes = sizes_bytes[0] << sizes;
  return row;
}

// In place of the row for the same case, or before the first for a larger one.
template <class Row, class Case>
void put_row(std::vector<Row>& rows, const Row& row, Case Row::*its_case) {
  std::erase_if(rows, [&](const Row& each) { return each.*its_case == row.*its_case; });
  rows.insert(std::ranges::find_if(rows, [&](const Row& each) { return row.*its_case < each.*its_case; }), row);
}

}  // namespace

Tuned tune(bool json) {
  Tuned found;
  HostTuning::Where where;
  std::int32_t processes = 1;
  {
    Context context;
    Communicator world(context);
    found.rank = world.rank();
    processes = processes_of(world, context);
    if (processes < world.size() || processes == 1) refuse_messages(context);
    const auto hardware_threads = static_cast<std::int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    if (processes == 1) where = HostTuning::where(sites_of(world, hardware_threads), world.size(), hardware_threads);
  }
  Trials trials(json);
  Json case_of_row, choice;
  if (processes == 1) {
    const HostTuning::Row row{where, tune_host(trials, where)};
    found.table.rows = {row};
    case_of_row = {{"ranks", where.ranks}, {"ranks_per_core", where.ranks_per_core}, {"caches", where.caches}};
    choice = fields_of(row.choice);
  } else {
    const BetweenHosts row = tune_between_hosts(trials, processes);
    found.table.between_hosts = {row};
    case_of_row = {{"processes", processes}};
    choice = fields_of(row);
  }
  if (found.rank != 0) return found;
  if (!json) {
    fmt::print("row: {}: {}\n", text_of(case_of_row), text_of(choice));
    return found;
  }
  Json line{{"tune", "row"}};
  line.update(case_of_row);
  line.update(choice);
  fmt::print("{}\n", line.dump());
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

bool write_row(const std::string& path, const HostTuning& found, std::string& error) {
  HostTuning table;
  if (!read_table(path, table, error)) return false;
  for (const HostTuning::Row& row : found.rows) put_row(table.rows, row, &HostTuning::Row::where);
  for (const BetweenHosts& row : found.between_hosts) put_row(table.between_hosts, row, &BetweenHosts::processes);
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

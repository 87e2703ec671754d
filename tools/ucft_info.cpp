// ucft_info: prints the version, this machine with its topology, and its RDMA devices. With -f it prints every setting
// with its value and its source. With --tree it prints the placement and the tree of a job's ranks on one host.
#include <fmt/core.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collectives/on_host/tuning_file.hpp"
#include "tools/job_report.hpp"
#include "tools/tree_report.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/bootstrap/machine.hpp"
#include "tools/settings_reference.hpp"
#include "ucx_layer/transport/rdma_ports.hpp"

namespace {

using ucft::detail::default_tuning, ucft::detail::HostTuning, ucft::detail::read_tuning, ucft::detail::bind_named,
    ucft::detail::Machine, ucft::detail::TreeQuestion, ucft::detail::SettingReference, ucft::detail::settings_reference,
    ucft::detail::wrapped;

std::string settings_text() {
  std::string text(ucft_settings(UCFT_CONTEXT_NULL, nullptr, 0), '\0');
  if (text.empty()) return text;
  ucft_settings(UCFT_CONTEXT_NULL, text.data(), text.size());
  text.resize(text.find('\0'));  // the size counts the final 0
  return text;
}

// Of the MPI shims, which read them themselves.
std::string mpi_settings_text() {
  std::string text;
  for (const auto& [name, by_default] :
       {std::pair{"UCFT_MPI", "y"}, std::pair{"UCFT_MPI_ON_FAILURE", "continue"}, std::pair{"UCFT_MPI_INFO", "n"}}) {
    const char* const value = std::getenv(name);
    text += fmt::format("{}={} ({})\n", name, value == nullptr ? by_default : value,
                        value == nullptr ? "default" : "environment");
  }
  return text;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

long allowed_core_count() {
  constexpr int most_cores = 8192;
  cpu_set_t* set = CPU_ALLOC(most_cores);
  const std::size_t bytes = CPU_ALLOC_SIZE(most_cores);
  const bool known = sched_getaffinity(0, bytes, set) == 0;
  const long count = known ? CPU_COUNT_S(bytes, set) : -1;
  CPU_FREE(set);
  return count;
}

// Why ranks of this host, even if they share memory, would send messages; "": they would not.
std::string why_messages() {
  const std::string settings = settings_text();
  const char* const by_messages = "UCFT_ALGORITHM=corrected";
  if (settings.find(by_messages) != std::string::npos) return by_messages;
  if (settings.find("UCFT_FENCE=n") != std::string::npos) return "UCFT_FENCE is off";
  const long own = syscall(SYS_pidfd_open, getpid(), 0);
  if (own < 0) return std::string("this system has no pidfds: ") + std::strerror(errno);
  close(static_cast<int>(own));
  return "";
}

std::string on_one_host_text() {
  const std::string settings = settings_text(), why = why_messages();
  if (settings.rfind("error: ", 0) == 0) return "unknown: " + settings.substr(7, settings.find('\n') - 7);
  if (!why.empty()) return "ranks send messages: " + why;
  return "ranks read each other's memory; where some of a communicator don't share it (hosts, containers), they send "
         "messages";
}

// "2 packages, 2 NUMA nodes, 16 L3, 128 cores"
std::string topology_text() {
  std::string error;
  const std::unique_ptr<Machine> machine = Machine::load(error);
  if (machine == nullptr) return "unknown: " + error;
  const auto [packages, numa_nodes, l3_caches, cores] = machine->counts();
  const auto plural = [](int count) { return count == 1 ? "" : "s"; };
  return fmt::format("{} package{}, {} NUMA node{}, {} L3, {} core{}{}", packages, plural(packages), numa_nodes,
                     plural(numa_nodes), l3_caches, cores, plural(cores),
                     machine->is_this_system() ? "" : " (not this machine: HWLOC_XMLFILE or HWLOC_SYNTHETIC is set)");
}

nlohmann::json topology_json() {
  std::string error;
  const std::unique_ptr<Machine> machine = Machine::load(error);
  if (machine == nullptr) return {{"error", error}};
  const auto [packages, numa_nodes, l3_caches, cores] = machine->counts();
  return {{"packages", packages},
          {"numa_nodes", numa_nodes},
          {"l3", l3_caches},
          {"cores", cores},
          {"is_this_machine", machine->is_this_system()}};
}

void print_json(bool with_settings) {
  nlohmann::json information = {{"version", ucft_version()},
                                {"host", host_name()},
                                {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                {"allowed_cores", allowed_core_count()},
                                {"topology", topology_json()}};
  auto& host = information["on_one_host"] = {{"reads_memory", why_messages().empty()}};
  if (!why_messages().empty()) host["why_not"] = why_messages();
  auto& ports = information["rdma_ports"] = nlohmann::json::array();
  for (const ucft::detail::RdmaPort& port : ucft::detail::rdma_ports()) {
    auto gids = nlohmann::json::array();
    for (const ucft::detail::RdmaGid& gid : port.gids)
      gids.push_back({{"index", gid.index}, {"gid", gid.gid}, {"type", gid.type}, {"network", gid.network}});
    ports.push_back({{"device", port.device},
                     {"port", port.number},
                     {"state", port.state},
                     {"link_layer", port.link_layer},
                     {"lid", port.lid},
                     {"mtu_bytes", port.mtu_bytes},
                     {"gids", gids}});
  }
  if (with_settings) {
    auto& lines = information["settings"] = nlohmann::json::array();
    std::istringstream text(settings_text() + mpi_settings_text());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    auto& reference = information["settings_reference"] = nlohmann::json::array();
    for (const SettingReference& each : settings_reference())
      reference.push_back(
          {{"name", each.name}, {"values", each.values}, {"default", each.initial}, {"description", each.text}});
  }
  const auto replace = nlohmann::json::error_handler_t::replace;  // a host name may hold any bytes
  fmt::print("{}\n", information.dump(-1, ' ', false, replace));
}

void print_text() {
  fmt::print("ucft           {}\n", ucft_version());
  fmt::print("host           {}\n", host_name());
  fmt::print("cores          {}\n", sysconf(_SC_NPROCESSORS_ONLN));
  fmt::print("allowed cores  {}\n", allowed_core_count());
  fmt::print("topology       {}\n", topology_text());
  fmt::print("on one host    {}\n", on_one_host_text());
  const std::vector<ucft::detail::RdmaPort> ports = ucft::detail::rdma_ports();
  if (ports.empty()) fmt::print("RDMA           no device\n");
  for (const ucft::detail::RdmaPort& port : ports) {
    fmt::print("RDMA           {}:{} {} ({}, lid {}, mtu {} bytes)\n", port.device, port.number, port.state,
               port.link_layer, port.lid, port.mtu_bytes);
    for (const ucft::detail::RdmaGid& gid : port.gids)
      fmt::print("  gid {:<9}{} ({}{}{})\n", gid.index, gid.gid, gid.type, gid.network.empty() ? "" : ", ",
                 gid.network);
  }
}

// As ucx_info -f: what each is for, then its value. Lines that are no setting (an error) stand alone.
void print_settings() {
  std::istringstream text(settings_text() + mpi_settings_text());
  for (std::string line; std::getline(text, line);) {
    const std::string name = line.substr(0, line.find('='));
    for (const SettingReference& each : settings_reference())
      if (name == each.name)
        fmt::print("\n#\n{}#\n{}#\n", wrapped(each.text, 100, "# "),
                   wrapped(fmt::format("Values: {}. Default: {}", each.values, each.initial), 100, "# "));
    fmt::print("{}\n", line);
  }
}

// The exit code.
int print_tree(const TreeQuestion& question, bool json) {
  std::string error, report;
  HostTuning tuning = default_tuning();
  if (const char* path = std::getenv("UCFT_TUNING_FILE"); path != nullptr && *path != '\0') {
    std::string problem;
    if (!read_tuning(path, tuning, problem)) {
      fmt::print(stderr, "ucft_info: UCFT_TUNING_FILE={}: {}\n", path, problem);
      return 2;
    }
  }
  const std::unique_ptr<Machine> machine = Machine::load(error);
  if (machine != nullptr) report = tree_report(*machine, question, tuning, json, error);
  fmt::print("{}", report);
  if (!error.empty()) fmt::print(stderr, "ucft_info: {}\n", error);
  return error.empty() ? 0 : 1;
}

// every: again after so many seconds, until there is nothing to see; 0: once. The exit code.
int print_job(int pid, bool json, double every) {
  const bool clears = every > 0 && !json && isatty(STDOUT_FILENO) != 0;
  for (bool again = false;; again = true) {
    std::string error;
    const std::string report = ucft::detail::job_report(pid, json, error);
    if (again && report.empty()) return 0;
    fmt::print("{}{}{}", clears ? "\033[H\033[J" : "", report, every > 0 && !json ? "\n" : "");
    std::fflush(stdout);
    if (!error.empty()) fmt::print(stderr, "ucft_info: {}\n", error);
    if (!error.empty() || every <= 0) return error.empty() ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::duration<double>(every));
  }
}

}  // namespace

int main(int argument_count, char** argument_values) {
  CLI::App app("What ucft is and would use on this machine.", "ucft_info");
  bool with_settings = false;
  bool json = false;
  TreeQuestion question;
  app.set_version_flag("--version", std::string("ucft_info ") + ucft_version());
  CLI::Option* settings = app.add_flag(
      "-f", with_settings, "All settings: what each is for, its values, and the value here with where it comes from");
  bool with_page = false;
  app.add_flag("--settings-page", with_page, "The reference of settings as a page of Markdown (docs/settings.md)")
      ->excludes(settings);
  app.add_flag("--json", json, "As one JSON object");
  CLI::Option* tree = app.add_option("--tree", question.ranks, "The tree in which N ranks of one host would combine")
                          ->type_name("N")
                          ->check(CLI::Range(1, 65536))
                          ->excludes(settings);
  app.add_option("--bind", question.bind, "--tree: ranks are bound as by ucft_run --bind")
      ->type_name("core|l3|numa|package|none")
      ->check([](const std::string& name) {
        return bind_named(name) ? "" : fmt::format("'{}' is none of core, l3, numa, package, none", name);
      })
      ->needs(tree)
      ->capture_default_str();
  app.add_option(
         "--degree", question.degree,
         "--tree: how many children a rank has at most, in its cache and at each level above; 0: flat. Without it: "
         "what the tuning table says (UCFT_TUNING_FILE, or the one built in)")
      ->type_name("D")
      ->check(CLI::Range(0, 1024))
      ->needs(tree);
  std::string job;
  app.add_option(
         "--job", job,
         "What the ranks on this host do, of the job that process PID is in or has started (ucft_run), or of all jobs")
      ->type_name("PID|all")
      ->check([](const std::string& text) {
        const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        return text == "all" || (is_number && text.size() < 10) ? "" : fmt::format("'{}' is no process, nor all", text);
      })
      ->excludes(tree)
      ->excludes(settings);
  double every = 0;
  app.add_option("--watch", every, "--job: again and again, SECONDS apart (default 1), until the job has ended")
      ->type_name("SECONDS")
      ->expected(0, 1)
      ->default_str("1")
      ->check(CLI::Range(0.05, 86400.0))
      ->needs("--job");
  app.footer(
      "--tree prints a line for each rank that has children, with the package, the NUMA node and the L3 cache that it\n"
      "is confined to (-: it may run on several, or unknown); --json has all ranks. HWLOC_SYNTHETIC or HWLOC_XMLFILE\n"
      "may describe another machine: HWLOC_SYNTHETIC='package:2 [numa] l3:8 core:8 pu:1' ucft_info --tree 128 --bind "
      "core");
  try {
    app.parse(argument_count, argument_values);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ExtrasError&) {
    fmt::print(stderr, "ucft_info: {} is not known\nRun with --help for more information.\n", app.remaining().front());
    return 2;
  } catch (const CLI::ParseError& problem) {
    fmt::print(stderr, "ucft_info: {}\nRun with --help for more information.\n", problem.what());
    return 2;
  }
  if (with_page) {
    fmt::print("{}", ucft::detail::settings_page());
    return 0;
  }
  if (question.ranks > 0) return print_tree(question, json);
  if (!job.empty()) return print_job(job == "all" ? 0 : std::atoi(job.c_str()), json, every);
  if (json) {
    print_json(with_settings);
  } else if (with_settings) {
    print_settings();
  } else {
    print_text();
  }
  return 0;
}

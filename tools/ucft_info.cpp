// ucft_info: the version, this machine with its RDMA devices, and with -f every setting with its value and where it
// comes from.
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "ucft/ucft.h"
#include "ucx_layer/transport/rdma_ports.hpp"

namespace {

std::string settings_text() {
  std::string text(ucft_settings(UCFT_CONTEXT_NULL, nullptr, 0), '\0');
  if (text.empty()) return text;
  ucft_settings(UCFT_CONTEXT_NULL, text.data(), text.size());
  text.resize(text.find('\0'));  // the size counts the final 0
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

void print_json(bool with_settings) {
  nlohmann::json information = {{"version", ucft_version()},
                                {"host", host_name()},
                                {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                {"allowed_cores", allowed_core_count()}};
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
    std::istringstream text(settings_text());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }
  const auto replace = nlohmann::json::error_handler_t::replace;  // a host name may hold any bytes
  fmt::print("{}\n", information.dump(-1, ' ', false, replace));
}

void print_text() {
  fmt::print("ucft           {}\n", ucft_version());
  fmt::print("host           {}\n", host_name());
  fmt::print("cores          {}\n", sysconf(_SC_NPROCESSORS_ONLN));
  fmt::print("allowed cores  {}\n", allowed_core_count());
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

}  // namespace

int main(int argument_count, char** argument_values) {
  CLI::App app("What ucft is and would use on this machine.", "ucft_info");
  bool with_settings = false;
  bool json = false;
  app.set_version_flag("--version", std::string("ucft_info ") + ucft_version());
  app.add_flag("-f", with_settings, "All settings: name, value and where the value comes from");
  app.add_flag("--json", json, "As one JSON object");
  try {
    app.parse(argument_count, argument_values);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& problem) {
    fmt::print(stderr, "ucft_info: {}\nRun with --help for more information.\n", problem.what());
    return 2;
  }
  if (json) {
    print_json(with_settings);
  } else if (with_settings) {
    fmt::print("{}", settings_text());
  } else {
    print_text();
  }
  return 0;
}

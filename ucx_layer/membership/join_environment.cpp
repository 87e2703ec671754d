#include "ucx_layer/membership/join_environment.hpp"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace ucft::detail {

namespace {

// "host:port", "[::1]:port"; empty: it is nothing of that kind, or not known.
std::vector<ListenerName> listeners_at(std::string_view text) {
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  if (colon == std::string_view::npos) return {};
  const auto [end, problem] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (problem != std::errc() || end != text.data() + text.size() || port == 0) return {};
  std::string host(text.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  ListenerName name;
  name.port = port;
  for (const addrinfo* each = found; each != nullptr && name.count < ListenerName::most_addresses;
       each = each->ai_next) {
    IpAddress& address = name.addresses[name.count];
    if (each->ai_family == AF_INET6) {
      std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6*>(each->ai_addr)->sin6_addr, address.size());
    } else if (each->ai_family == AF_INET) {
      address = mapped(reinterpret_cast<const sockaddr_in*>(each->ai_addr)->sin_addr.s_addr);
    } else {
      continue;
    }
    ++name.count;
  }
  freeaddrinfo(found);
  return {name};
}

}  // namespace

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

bool is_on(const char* text) {
  const std::string_view word = text == nullptr ? "" : text;
  return word == "y" || word == "yes" || word == "on" || word == "1";
}

bool read_secret(bootstrap::Secret& secret, std::string& error) {
  std::string text;
  const char* const file = variable("UCFT_JOIN_SECRET_FILE");
  if (file != nullptr) {
    std::ifstream stream(file);
    if (!(stream >> text)) {
      error = fmt::format("UCFT_JOIN_SECRET_FILE={}: it can't be read", file);
      return false;
    }
  } else if (const char* const own = variable("UCFT_JOB_SECRET"); own != nullptr) {
    text = own;
  } else {
    error =
        "newcomers need a secret: UCFT_JOIN_SECRET_FILE must name a file with 64 hexadecimal digits (ucft_run gives "
        "its ranks UCFT_JOB_SECRET)";
    return false;
  }
  const auto found = bootstrap::secret_from_hex(text);
  if (!found) {
    error = fmt::format("{} has no {} hexadecimal digits", file != nullptr ? file : "UCFT_JOB_SECRET",
                        2 * sizeof(bootstrap::Secret));
    return false;
  }
  secret = *found;
  return true;
}

std::vector<ListenerName> listeners_in(const std::string& text, std::string& error) {
  std::vector<ListenerName> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string each = text.substr(at, comma - at);
    at = comma + 1;
    if (each.empty()) continue;
    const std::vector<ListenerName> found = listeners_at(each);
    if (found.empty()) {
      error = fmt::format("UCFT_JOIN={}: '{}' is not of the form HOST:PORT, or the host is not known", text, each);
      return {};
    }
    all.insert(all.end(), found.begin(), found.end());
  }
  if (all.empty())
    error = fmt::format("UCFT_JOIN={}: expected HOST:PORT of a member of the job, or several with commas", text);
  return all;
}

std::int32_t wanted_seat() {
  const char* const rank = variable("UCFT_RANK");
  return rank == nullptr ? -1 : static_cast<std::int32_t>(std::strtol(rank, nullptr, 10));
}

}  // namespace ucft::detail

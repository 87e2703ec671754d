// Frames, secrets and durations of the rendezvous protocol.
#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

#include <sys/random.h>

#include <cstdlib>
#include <sstream>

namespace ucft::detail::bootstrap {

namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

int hex_value(char digit) {
  if (digit >= 'A' && digit <= 'F') digit = static_cast<char>(digit - 'A' + 'a');
  const auto position = hex_digits.find(digit);
  return position == std::string_view::npos ? -1 : static_cast<int>(position);
}

}  // namespace

std::string make_frame(FrameType type, std::string_view head, std::string_view body) {
  FrameHeader header;
  header.type = type;
  header.payload_bytes = head.size() + body.size();
  std::string frame;
  frame.reserve(sizeof header + head.size() + body.size());
  frame.append(bytes_of(header)).append(head).append(body);
  return frame;
}

bool equal_in_constant_time(const Secret& left, const Secret& right) {
  volatile std::uint8_t difference = 0;  // volatile: no early exit by the optimiser
  for (std::size_t i = 0; i < left.size(); ++i) difference = difference | (left[i] ^ right[i]);
  return difference == 0;
}

std::string secret_to_hex(const Secret& secret) {
  std::string hex;
  for (const std::uint8_t byte : secret) {
    hex += hex_digits[byte >> 4];
    hex += hex_digits[byte & 15];
  }
  return hex;
}

std::optional<Secret> secret_from_hex(std::string_view hex) {
  Secret secret{};
  if (hex.size() != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    secret[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return secret;
}

Secret random_secret() {
  Secret secret{};
  // Up to 256 bytes getrandom() is all or nothing; a guessable secret would be worse than no job.
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) std::abort();
  return secret;
}

std::string duration_text(std::chrono::microseconds duration) {
  const auto count = duration.count();
  std::ostringstream text;
  if (count >= 1'000'000) {
    text << static_cast<double>(count) / 1e6 << " s";
  } else if (count >= 1000) {
    text << static_cast<double>(count) / 1e3 << " ms";
  } else {
    text << count << " us";
  }
  return text.str();
}

}  // namespace ucft::detail::bootstrap

#include "ucx_layer/membership/join_protocol.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace ucft::detail {

namespace {

struct Header {
  std::uint32_t magic;
  JoinWord word;
  std::uint64_t bytes;  // of the body
};
constexpr std::uint32_t join_magic = 0x4a464355;  // "UCFJ"
constexpr std::size_t most_bytes = sizeof(InviteHead) + bootstrap::max_ranks;

}  // namespace

std::string make_join_frame(JoinWord word, std::string_view body) {
  const Header header{join_magic, word, body.size()};
  std::string frame(bootstrap::bytes_of(header));
  return frame.append(body);
}

bool JoinReader::read_from(int descriptor) {
  for (;;) {
    char bytes[4096];
    const ssize_t count = recv(descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count <= 0) return false;
    bytes_.append(bytes, static_cast<std::size_t>(count));
    const auto header = structure_in<Header>(bytes_);
    if (header && (header->magic != join_magic || header->bytes > most_bytes)) return false;
    if (bytes_.size() > 4 * most_bytes) return false;
  }
}

std::optional<JoinFrame> JoinReader::take() {
  const auto header = structure_in<Header>(bytes_);
  if (!header || header->magic != join_magic || header->bytes > most_bytes) return std::nullopt;
  if (bytes_.size() < sizeof(Header) + header->bytes) return std::nullopt;
  JoinFrame frame{header->word, bytes_.substr(sizeof(Header), header->bytes)};
  bytes_.erase(0, sizeof(Header) + header->bytes);
  return frame;
}

std::string body_of(const std::vector<ListenerName>& members) {
  std::string body;
  for (std::size_t i = 0; i < std::min(members.size(), most_members_named); ++i)
    body.append(bootstrap::bytes_of(members[i]));
  return body;
}

std::vector<ListenerName> members_in(std::string_view body) {
  std::vector<ListenerName> members;
  for (; body.size() >= sizeof(ListenerName); body.remove_prefix(sizeof(ListenerName)))
    members.push_back(*structure_in<ListenerName>(body));
  return members;
}

}  // namespace ucft::detail

// The words by which a newcomer finds its place in a job, as frames over TCP. Each member listens (Agent).
//
//   newcomer                            member
//   apply {secret, who}  ->
//                            <-         members {addresses}    ask the first of these, which sponsors newcomers; closes
//                            <-         accepted {addresses}   it waits for a seat; others to ask if this one dies.
//                                                          Again and again: a silent sponsor is lost
//                            <-         refused {why}          closes
//                            <-         invite                 an epoch begins: take part in its start-up
//   sponsor                             another member
//   invite               ->             closes
//
// An invitation has the address and secret of a rendezvous at the sponsor, by which the epoch's ranks start their
// context. Its end says nothing: a start that fails ends at the rendezvous.
//
// The secret travels as it is: whoever reads the traffic between hosts can join. UCX's own traffic is as open.
//
// Invariant: a connection that has not shown the secret can cost a descriptor and a few bytes, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "timeout_detector/addresses.hpp"
#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"

namespace ucft::detail {

enum class JoinWord : std::uint32_t { apply = 1, members, accepted, refused, invite };

struct Apply {
  bootstrap::Secret secret{};
  std::uint32_t version = 0;
  std::int32_t wanted_seat = -1;
  std::int64_t pid = 0;
  ListenerName name;
  char host[64] = {};
  // Of epochs that it waits to be in: a sponsor that has died led these starts. The members may have agreed on one.
  std::uint64_t starts[8] = {};
};

struct InviteHead {
  bootstrap::Secret secret{};             // the job's
  bootstrap::Secret rendezvous_secret{};  // of this start
  std::uint64_t id = 0;                   // of this start
  std::uint32_t base_cookie = 0;          // of the epoch whose survivors are invited
  std::int32_t seat = -1;                 // of the receiver
  std::int32_t size = 0;
  std::uint16_t port = 0;  // of the rendezvous,
  std::uint16_t reserved = 0;
  ListenerName sponsor;  // on one of these addresses
};
static_assert(sizeof(Apply) == 280 && sizeof(InviteHead) == 192);

inline constexpr std::size_t most_members_named = 16;

struct JoinFrame {
  JoinWord word = JoinWord::refused;
  std::string body;
};

std::string make_join_frame(JoinWord word, std::string_view body = {});

// Takes the bytes of one connection.
class JoinReader {
 public:
  // Reads what there is. False: the connection has ended, or breaks the rules.
  bool read_from(int descriptor);
  std::optional<JoinFrame> take();  // the next whole frame

 private:
  std::string bytes_;
};

std::string body_of(const std::vector<ListenerName>& members);
std::vector<ListenerName> members_in(std::string_view body);

template <class Structure>
std::optional<Structure> structure_in(std::string_view body) {
  if (body.size() < sizeof(Structure)) return std::nullopt;
  Structure found;
  std::char_traits<char>::copy(reinterpret_cast<char*>(&found), body.data(), sizeof found);
  return found;
}

}  // namespace ucft::detail

// An invitation to start an epoch: which seats it has, and where its rendezvous is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ucx_layer/membership/join_protocol.hpp"
#include "collectives/renewal/seats.hpp"

namespace ucft::detail {

struct Invitation {
  InviteHead head;
  std::vector<Seat> seats;  // by rank
  // Of the sponsor's own: the other survivors, which it invites.
  struct Guest {
    std::int32_t seat;
    ListenerName name;
  };
  std::vector<Guest> guests{};

  bool is_mine = false;  // this process sponsors it

  std::string frame_for(std::int32_t seat) const;
  std::vector<bool> absent() const;
  std::vector<std::int32_t> newcomers() const;
  static std::optional<Invitation> in(std::string_view body);  // none: it makes no sense
};

inline constexpr int connect_limit_ms = 300, word_limit_ms = 500;

// A connection to the listener, blocking; -1: none within `limit_ms` for each of its addresses. reached: where it
// leads.
int connect_to_listener(const ListenerName& name, int limit_ms, std::string* reached = nullptr);
// Sends all; false: it can't be had within `limit_ms`.
bool send_whole(int descriptor, std::string_view bytes, int limit_ms);

}  // namespace ucft::detail

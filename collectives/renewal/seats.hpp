// Which newcomer sits in which seat of a job. A seat is a rank; it is free if its rank has failed or left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ucft::detail {

enum class Seat : std::uint8_t { survivor, absent, newcomer };

struct Applicant {
  std::int32_t wanted = -1;  // a seat; -1: any
  std::string host{};        // its name
};

// For each applicant its seat; -1: none is free. hosts: of each seat, the name of the host of its last rank. An
// applicant gets the free seat that it wants, else one of its host, else the lowest. Those for whom none is left get
// new seats behind the last, as long as there are fewer than most_seats.
std::vector<std::int32_t> seats_for(const std::vector<Applicant>& applicants, const std::vector<bool>& is_free,
                                    const std::vector<std::string>& hosts, std::int32_t most_seats);

}  // namespace ucft::detail

#include "collectives/renewal/seats.hpp"

namespace ucft::detail {

std::vector<std::int32_t> seats_for(const std::vector<Applicant>& applicants, const std::vector<bool>& is_free,
                                    const std::vector<std::string>& hosts, std::int32_t most_seats) {
  std::vector<bool> free = is_free;
  std::vector<std::int32_t> seats(applicants.size(), -1);
  const auto seat_all = [&](const auto& suits) {
    for (std::size_t i = 0; i < applicants.size(); ++i)
      for (std::size_t seat = 0; seat < free.size() && seats[i] < 0; ++seat)
        if (free[seat] && suits(applicants[i], seat)) {
          free[seat] = false;
          seats[i] = static_cast<std::int32_t>(seat);
        }
  };
  seat_all([](const Applicant& who, std::size_t seat) { return who.wanted == static_cast<std::int32_t>(seat); });
  seat_all([&](const Applicant& who, std::size_t seat) { return who.host == hosts[seat]; });
  seat_all([](const Applicant&, std::size_t) { return true; });
  auto next = static_cast<std::int32_t>(is_free.size());
  for (std::int32_t& seat : seats)
    if (seat < 0 && next < most_seats) seat = next++;
  return seats;
}

}  // namespace ucft::detail

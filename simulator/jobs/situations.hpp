// Of the situations that are named in the library (collectives/core/sometimes.hpp): which there are, and how often each
// has happened in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ucft::jobs {

std::size_t situation_count();
const char* name_of_situation(std::size_t number);  // the numbers are in the order of the alphabet
std::vector<std::uint64_t> times_of_situations();   // by number

// From now on called each time that one happens, where it happens: its number, and how often it has. Empty: not.
void watch_situations(std::function<void(std::size_t number, std::uint64_t times)> watch);

}  // namespace ucft::jobs

// Of the situations that are named in the library (collectives/core/sometimes.hpp): which there are, and how often each
// has happened in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ucft::jobs {

const std::vector<std::string>& situations();      // in the order of the alphabet
std::vector<std::uint64_t> times_of_situations();  // in the same order

// From now on called with its number, each time that one happens, where it happens. Empty: not.
void watch_situations(std::function<void(std::size_t situation)> watch);

}  // namespace ucft::jobs

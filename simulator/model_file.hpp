// LogGP parameters in a file, as `ucft_perftest --calibrate` writes them: a name and a number on each line.
//
//     # 2 ranks over shared memory, us
//     L 0.31
//     o_send 0.08
//     o_receive 0.09
//     g 0.12
//     G 0.00011
#pragma once

#include <string>

#include "simulator/network.hpp"

namespace ucft::simulator {

// Names that are missing keep their value. False: error names file, line and reason.
bool read_model(const std::string& path, LogGP& costs, std::string& error);

}  // namespace ucft::simulator

// The judge of messages: each that is received was sent, in order, and comes in time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulator/judge/communicators.hpp"
#include "simulator/judge/fates.hpp"

namespace ucft::judge {

// all: the communicators by name.
void judge_messages(const Case& judged, const std::map<std::string, Communicator>& all,
                    std::vector<Violation>& violations);

}  // namespace ucft::judge

// Names in the environment that look like settings and are none, such as UCFT_SUSPECTAFTER.
#pragma once

#include <string>
#include <vector>

#include "ucx_layer/runtime/settings.hpp"

namespace ucft::detail {

// A sentence for each, with the setting whose name is nearest. environment: as environ, "NAME=VALUE" up to a null
// pointer.
std::vector<std::string> unknown_settings(const Settings& settings, const char* const* environment);

}  // namespace ucft::detail

// The purpose of each setting, for people: ucft_info -f, and docs/settings.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ucft::detail {

struct SettingReference {
  enum class Part : std::uint8_t { behaviour, performance, mpi };
  const char* name;
  Part part;
  const char* values;   // how it is written, with its limits
  const char* initial;  // the default
  const char* text;     // one or more sentences
};

// In the order of ucft_settings(), then those of the MPI shims.
std::span<const SettingReference> settings_reference();

// docs/settings.md.
std::string settings_page();

// Words of a text, in lines of at most `columns`; each begins with `indent`.
std::string wrapped(const std::string& text, std::size_t columns, const std::string& indent);

}  // namespace ucft::detail

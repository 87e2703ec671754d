#include "ucx_layer/transport/ucx_log.hpp"

#include <ucs/config/types.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string_view>

namespace ucft::detail {

namespace {

bool says_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    if (text.find(part) != text.npos) return true;
  return false;
}

// "connect(fd=31, dest_addr=10.0.0.2:40017) failed: Connection refused", and the advice that follows it: 'try to
// increase "net.core.somaxconn", ..'. Also where the host answers that no process listens, or no answer comes at all.
bool is_expected(std::string_view text) {
  if (says_any(text, {"net.core.somaxconn"})) return true;
  return says_any(text, {"connect("}) &&
         says_any(text, {"Connection refused", "Connection reset", "timed out", "No route to host", "unreachable"});
}

ucs_log_func_rc_t without_the_expected(const char*, unsigned, const char*, ucs_log_level_t level,
                                       const ucs_log_component_config_t*, const char* format, va_list arguments) {
  if (level > UCS_LOG_LEVEL_DIAG) return UCS_LOG_FUNC_RC_CONTINUE;
  char text[512];
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(text, sizeof text, format, copy);
  va_end(copy);
  return is_expected(text) ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

}  // namespace

void quiet_ucx() {
  static std::once_flag once;
  if (std::getenv("UCX_LOG_LEVEL") == nullptr)
    std::call_once(once, [] { ucs_log_push_handler(&without_the_expected); });
}

}  // namespace ucft::detail

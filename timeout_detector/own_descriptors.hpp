// Connections that only the process which made them holds open. A fork of it does not: else their end would be seen
// only when both have ended. (Children of vfork, posix_spawn: until exec.)
#pragma once

namespace ucft::detail {

void note_own(int descriptor);
void close_own(int descriptor);

}  // namespace ucft::detail

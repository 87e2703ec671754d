// The text of a file for tests that look at other processes through /proc.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace ucft::detail::test {

// What can be read of it: nothing, or the beginning, of a file of a process that has ended meanwhile. (A std::ifstream
// read through its iterators would throw: a file of /proc can be opened and then fail to be read.)
inline std::string file_text(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char bytes[4096];
  for (ssize_t count; (count = read(file, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(count));
  close(file);
  return text;
}

}  // namespace ucft::detail::test

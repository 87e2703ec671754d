// PATH search, with the shell's exit codes: 127 not found, 126 found but not executable.
#include "tools/run/program.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tools/run/arguments.hpp"

namespace ucft::detail::run {

namespace {

// 0: can be executed; else the errno that says why not.
int check(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

ProgramSearch refused(const std::string& name, int problem) {
  const bool missing = problem == ENOENT || problem == ENOTDIR;
  return {"", fmt::format("{}: {}", name, std::strerror(problem)), missing ? exit_not_found : exit_not_executable};
}

}  // namespace

ProgramSearch find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    const int problem = check(name);
    return problem ? refused(name, problem) : ProgramSearch{name, "", 0};
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  std::string seen_but_refused;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    const int problem = check(candidate);
    if (!problem && !name.empty()) return {candidate, "", 0};
    if (problem == EACCES) seen_but_refused = candidate;
  }
  if (!seen_but_refused.empty()) return refused(seen_but_refused, EACCES);
  return {"", fmt::format("{}: program not found", name.empty() ? "''" : name), exit_not_found};
}

}  // namespace ucft::detail::run

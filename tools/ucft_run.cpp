// ucft_run: starts the ranks of a job on this machine, gives them a rendezvous, and leaves nothing behind.
//
//   ucft_run -n 8 --kill 3@500ms ./program its arguments
//
// A rank that fails does not end the others: survivors go on, which is the purpose of this project.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "tools/run/arguments.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/guard.hpp"
#include "tools/run/job.hpp"
#include "tools/run/program.hpp"

namespace {

// If the caller has closed one of 0, 1, 2, a socket of ours would take its place and get the ranks' output.
void open_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

}  // namespace

int main(int argument_count, char** argument_values) {
  using namespace ucft::detail::run;
  open_standard_descriptors();
  const ParsedArguments parsed = parse_arguments(argument_count, argument_values);
  if (!parsed.arguments) return parsed.exit_code;
  const ProgramSearch program = find_program(parsed.arguments->command[0]);
  if (program.path.empty()) {
    fmt::print(stderr, "ucft_run: {}\n", program.error);
    return program.exit_code;
  }
  const Binding binding = find_binding(parsed.arguments->bind, parsed.arguments->rank_count);
  if (!binding.error.empty()) {
    fmt::print(stderr, "ucft_run: {}\n", binding.error);
    return binding.exit_code;
  }
  return run_guarded(argument_count, argument_values, [&](const SupervisorContext& context) {
    return Job(*parsed.arguments, program.path, binding.cpus, context).run();
  });
}

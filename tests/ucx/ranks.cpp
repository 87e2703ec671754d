#include "tests/ucx/ranks.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <map>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "ucx_layer/transport/ucx.hpp"

namespace ucft::detail::test {
namespace {

std::map<std::string, const Ranks*>& scenarios() {
  static std::map<std::string, const Ranks*> all;
  return all;
}

// As under valgrind, on a kernel before 5.3, or in a sandbox: pidfd_open is unknown.
void hide_pidfds() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    wrong("seccomp");
}

void be_a_rank(const std::string& scenario, const Arguments& arguments) {
  if (std::getenv("UCFT_TEST_NO_PIDFD") != nullptr) hide_pidfds();
  const auto found = scenarios().find(scenario);
  if (found == scenarios().end()) wrong("no scenario '{}'", scenario);
  const Ranks& ranks = *found->second;
  if (ranks.begin == Ranks::Begin::in_the_job) start_up();
  ranks.part(arguments);
  if (context != nullptr) check(ucft_context_destroy(context), "destroy");
  say_verdict(fmt::format("{} {:x}", scenario, noted()));
}

}  // namespace

Ranks::Ranks(std::string named, Begin begins, void (*does)(const Arguments&))
    : name(std::move(named)), begin(begins), part(does) {
  if (!scenarios().emplace(name, this).second) wrong("two scenarios are called '{}'", name);
}

}  // namespace ucft::detail::test

// Asked by LeakSanitizer at the end. UCX keeps pointers to its own memory that it can't follow: from a worker that was
// left alone it would report endpoints.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off();  // NOLINT(bugprone-reserved-identifier)
int __lsan_is_turned_off() {
  return ucft::detail::Ucx::has_left_a_worker() ? 1 : 0;
}  // NOLINT(bugprone-reserved-identifier)

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') {
    ucft::detail::test::be_a_rank(argv[1], {argv + 2, argv + argc});
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

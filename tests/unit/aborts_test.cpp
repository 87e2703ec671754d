// An abort() in a library that is called, kept from ending the process.
#include "ucx_layer/transport/aborts.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>

namespace ucft::detail {
namespace {

// How a child ends that does it; 0: by itself.
int signal_that_ends(const std::function<void()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGABRT, SIG_DFL);
    what();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

volatile int handled = 0;
void note(int) { handled = handled + 1; }

TEST(AbortsKept, AnAbortEndsTheCallAndNotTheProcess) {
  const AbortsKept kept;
  volatile int reached = 0;
  for (int time = 1; time <= 3; ++time) {
    EXPECT_FALSE(AbortsKept::run([&] {
      reached = reached + 1;
      std::abort();
    }));
    EXPECT_EQ(reached, time);
  }
  EXPECT_TRUE(AbortsKept::run([&] { reached = 0; }));
  EXPECT_EQ(reached, 0);
}

TEST(AbortsKept, OutsideACallAnAbortEndsTheProcess) {
  EXPECT_EQ(signal_that_ends([] {
              const AbortsKept kept;
              AbortsKept::run([] {});
              std::abort();
            }),
            SIGABRT);
  EXPECT_EQ(signal_that_ends([] {
              { const AbortsKept kept; }
              AbortsKept::run([] { std::abort(); });
            }),
            SIGABRT);
}

TEST(AbortsKept, WhatIsCalledBackIsOutside) {
  EXPECT_EQ(signal_that_ends([] {
              const AbortsKept kept;
              AbortsKept::run([] {
                const AbortsKept::Outside outside;
                std::abort();
              });
            }),
            SIGABRT);
  const AbortsKept kept;
  EXPECT_FALSE(AbortsKept::run([] {
    { const AbortsKept::Outside outside; }
    std::abort();
  }));
}

TEST(AbortsKept, ASignalFromSomebodyElseIsForTheProcess) {
  EXPECT_EQ(signal_that_ends([] {
              const AbortsKept kept;
              AbortsKept::run([] {
                const pid_t parent = ::getpid();
                if (const pid_t sender = ::fork(); sender == 0) {
                  ::kill(parent, SIGABRT);
                  ::_exit(0);
                }
                for (;;) ::pause();
              });
            }),
            SIGABRT);
}

TEST(AbortsKept, TheProgramsOwnHandlerIsCalledMeanwhileAndIsBackAfterwards) {
  struct sigaction mine {
  }, before{}, after{};
  mine.sa_handler = &note;
  ::sigaction(SIGABRT, &mine, &before);
  handled = 0;
  {
    const AbortsKept kept;
    const AbortsKept another;
    ::raise(SIGABRT);
    EXPECT_EQ(handled, 1);
    EXPECT_FALSE(AbortsKept::run([] { std::abort(); }));
    EXPECT_EQ(handled, 1);
  }
  ::raise(SIGABRT);
  EXPECT_EQ(handled, 2);
  ::sigaction(SIGABRT, &before, &after);
  EXPECT_EQ(after.sa_handler, &note);
}

}  // namespace
}  // namespace ucft::detail

// See own_descriptors.hpp.
#include "timeout_detector/own_descriptors.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace ucft::detail {

namespace {

// In a forked child each is replaced by one of /dev/null, so that its number still belongs to its owner there, should
// that ever close it. Never destroyed: threads may run until the process has ended.
std::mutex& descriptors_mutex = *new std::mutex;
std::set<int>& descriptors = *new std::set<int>;

void before_fork() { descriptors_mutex.lock(); }
void after_fork_in_parent() { descriptors_mutex.unlock(); }
void after_fork_in_child() {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int each : descriptors) {
    if (nothing >= 0)
      dup3(nothing, each, O_CLOEXEC);
    else
      close(each);
  }
  if (nothing >= 0) close(nothing);
  descriptors.clear();
  descriptors_mutex.unlock();
}

}  // namespace

void note_own(int descriptor) {
  static const int registered = pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  (void)registered;
  const std::lock_guard lock(descriptors_mutex);
  descriptors.insert(descriptor);
}

// As one step: a fork in between would leave the number of somebody else's descriptor on the list.
void close_own(int descriptor) {
  const std::lock_guard lock(descriptors_mutex);
  descriptors.erase(descriptor);
  ::close(descriptor);
}

}  // namespace ucft::detail

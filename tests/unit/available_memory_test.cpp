// The memory that is left, by files of /proc and /sys that a test has written.
#include "ucx_layer/transport/memory/available_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ucft::detail::test {
namespace {

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() {
    char folder[] = "/tmp/ucft_memory_XXXXXX";
    if (mkdtemp(folder) != nullptr) root_ = folder;
  }
  ~AvailableMemory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::uint64_t left() const { return available_memory(root_); }

 private:
  std::string root_ = "/nowhere";
};

TEST_F(AvailableMemory, IsWhatTheMachineHasWithItsSwap) {
  EXPECT_EQ(left(), UINT64_MAX) << "nothing is known";
  write("/proc/meminfo", "MemTotal:  2000 kB\nMemFree:  5 kB\nMemAvailable:  100 kB\nSwapFree:  7 kB\n");
  EXPECT_EQ(left(), 107u * 1024);
}

TEST_F(AvailableMemory, IsNoMoreThanEachGroupOfTheProcessLeaves) {
  write("/proc/meminfo", "MemAvailable:  100 kB\n");
  write("/proc/self/cgroup", "4:memory:/else\n0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/one/memory.current", "5\n");
  EXPECT_EQ(left(), 100u * 1024) << "a group without a limit";
  write("/sys/fs/cgroup/jobs/memory.max", "5000\n");
  write("/sys/fs/cgroup/jobs/memory.current", "3000\n");
  EXPECT_EQ(left(), 2000u) << "the one that it is in has one";
  write("/sys/fs/cgroup/jobs/memory.stat", "anon 7\ninactive_file 500\nactive_file 9\n");
  EXPECT_EQ(left(), 2500u) << "pages of files can be given back";
  write("/sys/fs/cgroup/jobs/one/memory.max", "4\n");
  EXPECT_EQ(left(), 0u) << "more is taken than the limit that was set then";
  write("/sys/fs/cgroup/memory.max", "1\n");
  EXPECT_EQ(left(), 0u);
}

TEST_F(AvailableMemory, OfAGroupThatIsTheRootOfItsNamespaceIsInThatFolder) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "5000\n");
  write("/sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(left(), 4000u);
}

TEST(AvailableMemoryHere, IsKnown) {
  EXPECT_GT(available_memory(), 0u);
  EXPECT_LT(available_memory(), std::uint64_t{1} << 60);
}

}  // namespace
}  // namespace ucft::detail::test

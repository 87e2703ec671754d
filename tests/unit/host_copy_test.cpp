// Copies of ranks that share memory: every length and alignment around lines and pieces, and nothing beside it is
// touched.
#include "collectives/on_host/host_copy.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace ucft::detail {
namespace {

using Copy = void (*)(std::byte*, const std::byte*, std::uint64_t);

class HostCopy : public testing::TestWithParam<Copy> {
 protected:
  void expect_copies(std::size_t bytes, std::size_t to, std::size_t from) {
    constexpr std::size_t fence = 192;
    std::vector<std::byte> source(from + bytes), target(to + bytes + fence, std::byte{0x5a});
    for (std::byte& each : source) each = static_cast<std::byte>(random_());
    GetParam()(target.data() + to, source.data() + from, bytes);
    for (std::size_t i = 0; i < target.size(); ++i) {
      const bool inside = i >= to && i < to + bytes;
      ASSERT_EQ(target[i], inside ? source[from + i - to] : std::byte{0x5a})
          << "byte " << i << " of " << bytes << " bytes from +" << from << " to +" << to;
    }
  }

 private:
  std::mt19937 random_{7};
};

TEST_P(HostCopy, OfAnyLength) {
  for (std::size_t bytes = 0; bytes <= 700; ++bytes) expect_copies(bytes, 64 + bytes % 5, 64 + bytes % 3);
}

TEST_P(HostCopy, AtAnyAlignment) {
  for (const std::size_t bytes : {255, 256, 1024, 16384, 16385})
    for (std::size_t to = 0; to<64; to += bytes> 1024 ? 7 : 1)
      for (const std::size_t from : {0, 1, 8, 33}) expect_copies(bytes, to, from);
}

TEST_P(HostCopy, OfMuch) {
  for (const std::size_t bytes : {100'000, 1'000'003}) expect_copies(bytes, 16, 8);
}

constexpr const char* names[] = {"Copy", "Stream"};
INSTANTIATE_TEST_SUITE_P(Ways, HostCopy, testing::Values(host_copy, host_stream),
                         [](const auto& each) { return names[each.index]; });

}  // namespace
}  // namespace ucft::detail

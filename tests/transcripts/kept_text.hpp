// The texts beside this file: compared with what is said now, or written anew (UCFT_WRITE_TRANSCRIPTS=1).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace ucft::detail {

inline void compare_with_kept(const std::string& text, const std::string& name) {
  const std::string path = std::string(TRANSCRIPTS) + "/" + name + ".txt";
  if (std::getenv("UCFT_WRITE_TRANSCRIPTS") != nullptr) {
    std::ofstream file(path);
    file << text;
    ASSERT_TRUE(file.good()) << path;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::stringstream written;
  written << file.rdbuf();
  EXPECT_EQ(text, written.str()) << "if the protocol was to change: UCFT_WRITE_TRANSCRIPTS=1 transcripts_test";
}

}  // namespace ucft::detail

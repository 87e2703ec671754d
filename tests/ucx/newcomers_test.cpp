// The API of newcomers in a job of one rank: what is refused, and by which words. tests/launcher/newcomers_test has
// whole jobs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "ucft/ucft.h"

namespace {

class Newcomers : public testing::Test {
 protected:
  void SetUp() override {
    setenv("UCFT_JOINABLE", "y", 1);
    std::ofstream(secret_) << std::string(64, 'a') << "\n";
    setenv("UCFT_JOIN_SECRET_FILE", secret_.c_str(), 1);
  }
  void TearDown() override {
    std::remove(secret_.c_str());
    for (const char* each : {"UCFT_JOINABLE", "UCFT_JOB_SECRET", "UCFT_JOIN", "UCFT_JOIN_SECRET_FILE"}) unsetenv(each);
  }
  static void blames(ucft_status_t status, ucft_status_t expected, const char* culprit) {
    EXPECT_EQ(status, expected) << ucft_status_name(status) << ": " << ucft_last_error();
    EXPECT_NE(std::strstr(ucft_last_error(), culprit), nullptr)
        << "'" << ucft_last_error() << "' does not name '" << culprit << "'";
  }
  const std::string secret_ = testing::TempDir() + "newcomers_test." + std::to_string(getpid());
  static std::int32_t newcomers_of(ucft_comm_h comm) {
    std::int32_t count = 0;
    EXPECT_EQ(ucft_comm_newcomers(comm, nullptr, &count), UCFT_OK) << ucft_last_error();
    return count;
  }
};

TEST_F(Newcomers, ARenewalWithNobodyNewHasTheSameSeats) {
  ucft_context_h context;
  ucft_comm_h world, renewed;
  ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ASSERT_EQ(ucft_comm_join(context, 0, &world), UCFT_OK) << ucft_last_error();  // it is no newcomer
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ucft_comm_renew(world, nullptr, &renewed), UCFT_OK) << ucft_last_error();
    ASSERT_EQ(ucft_comm_destroy(world), UCFT_OK);
    world = renewed;
  }
  std::int32_t size = 0, ready = -1, known = -1;
  EXPECT_EQ(ucft_comm_size(world, &size), UCFT_OK);
  EXPECT_EQ(size, 1);
  EXPECT_EQ(newcomers_of(world), 0);
  EXPECT_EQ(ucft_context_waiting(context, &ready, &known), UCFT_OK);
  EXPECT_EQ(ready, 0);
  EXPECT_EQ(known, 0);
  double value = 2;
  EXPECT_EQ(ucft_allreduce(world, UCFT_IN_PLACE, &value, 1, UCFT_DOUBLE, UCFT_SUM, nullptr, nullptr), UCFT_OK);
  EXPECT_EQ(ucft_context_destroy(context), UCFT_OK) << ucft_last_error();
}

TEST_F(Newcomers, ATimeLimitEndsARenewalThatWaits) {
  ucft_context_h context;
  ucft_comm_h world, renewed;
  ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ASSERT_EQ(ucft_comm_create(context, &world), UCFT_OK);
  ucft_renew_options_t options = UCFT_RENEW_OPTIONS_INIT;
  options.newcomers = 1;
  options.timeout_us = 20000;
  EXPECT_EQ(ucft_comm_renew(world, &options, &renewed), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(newcomers_of(renewed), 0);
  EXPECT_EQ(ucft_context_destroy(context), UCFT_OK);
}

TEST_F(Newcomers, WrongValuesAreNamed) {
  ucft_context_h context;
  ucft_comm_h world, renewed;
  ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ASSERT_EQ(ucft_comm_create(context, &world), UCFT_OK);
  blames(ucft_comm_renew(world, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, "renewed is null");
  ucft_renew_options_t options = UCFT_RENEW_OPTIONS_INIT;
  options.newcomers = -2;
  blames(ucft_comm_renew(world, &options, &renewed), UCFT_ERR_INVALID_PARAM, "newcomers is -2");
  options.newcomers = -1;
  for (const std::int32_t wrong : {-1, 4097}) {
    options.grow_to = wrong;
    blames(ucft_comm_renew(world, &options, &renewed), UCFT_ERR_INVALID_PARAM,
           ("grow_to is " + std::to_string(wrong)).c_str());
  }
  options.struct_size = 3;
  blames(ucft_comm_renew(world, &options, &renewed), UCFT_ERR_INVALID_PARAM, "UCFT_RENEW_OPTIONS_INIT");
  blames(ucft_comm_renew(UCFT_COMM_NULL, nullptr, &renewed), UCFT_ERR_CLOSED, "comm");
  blames(ucft_comm_join(context, 0, nullptr), UCFT_ERR_INVALID_PARAM, "comm is null");
  blames(ucft_comm_newcomers(world, nullptr, nullptr), UCFT_ERR_INVALID_PARAM, "count");
  char address[64] = "";
  blames(ucft_context_address(context, address, 3), UCFT_ERR_INVALID_PARAM, "needs");
  blames(ucft_context_address(context, nullptr, 64), UCFT_ERR_INVALID_PARAM, "text");
  EXPECT_EQ(ucft_context_address(context, address, sizeof address), UCFT_OK);
  EXPECT_NE(std::strchr(address, ':'), nullptr) << address;
  EXPECT_EQ(ucft_context_destroy(context), UCFT_OK);
}

TEST_F(Newcomers, AJobThatIsNotJoinableSaysHowToMakeItSo) {
  unsetenv("UCFT_JOINABLE");
  ucft_context_h context;
  ucft_comm_h world, renewed;
  ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ASSERT_EQ(ucft_comm_join(context, 0, &world), UCFT_OK) << ucft_last_error();
  blames(ucft_comm_renew(world, nullptr, &renewed), UCFT_ERR_STATE, "UCFT_JOINABLE=y");
  char address[64];
  blames(ucft_context_address(context, address, sizeof address), UCFT_ERR_STATE, "UCFT_JOINABLE=y");
  EXPECT_EQ(newcomers_of(world), 0);
  EXPECT_EQ(ucft_context_destroy(context), UCFT_OK);
}

TEST_F(Newcomers, ACommunicatorOfSomeRanksCannotBeRenewed) {
  ucft_context_h context;
  ucft_comm_h world, part;
  ASSERT_EQ(ucft_context_create(nullptr, &context), UCFT_OK) << ucft_last_error();
  ASSERT_EQ(ucft_comm_create(context, &world), UCFT_OK);
  ASSERT_EQ(ucft_comm_split(world, 0, 0, &part), UCFT_OK);  // of all that there are: one of all ranks
  ucft_comm_h renewed;
  EXPECT_EQ(ucft_comm_renew(part, nullptr, &renewed), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(ucft_context_destroy(context), UCFT_OK);
}

TEST_F(Newcomers, TheSecretAndTheAddressAreNamedIfTheyAreWrong) {
  ucft_context_h context;
  std::ofstream(secret_) << "abc";
  blames(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM, secret_.c_str());
  unsetenv("UCFT_JOIN_SECRET_FILE");
  setenv("UCFT_JOB_SECRET", "abc", 1);
  blames(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM, "UCFT_JOB_SECRET");
  unsetenv("UCFT_JOB_SECRET");
  blames(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM, "UCFT_JOIN_SECRET_FILE");
  setenv("UCFT_JOIN_SECRET_FILE", "/nonexistent", 1);
  blames(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM, "/nonexistent");
  std::ofstream(secret_) << std::string(64, 'a');
  setenv("UCFT_JOIN_SECRET_FILE", secret_.c_str(), 1);
  for (const char* wrong : {"nowhere", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", ":1x", ","}) {
    setenv("UCFT_JOIN", wrong, 1);
    blames(ucft_context_create(nullptr, &context), UCFT_ERR_INVALID_PARAM, "UCFT_JOIN=");
  }
}

TEST_F(Newcomers, AProcessThatHasNotJoinedCanDoNothingElse) {
  ucft_context_h job, newcomer;
  char address[64];
  ASSERT_EQ(ucft_context_create(nullptr, &job), UCFT_OK) << ucft_last_error();
  ASSERT_EQ(ucft_context_address(job, address, sizeof address), UCFT_OK);
  setenv("UCFT_JOIN", address, 1);
  ASSERT_EQ(ucft_context_create(nullptr, &newcomer), UCFT_OK) << ucft_last_error();
  std::int32_t number = 0;
  ucft_comm_h comm;
  void* memory = nullptr;
  blames(ucft_comm_create(newcomer, &comm), UCFT_ERR_STATE, "ucft_comm_join");
  blames(ucft_context_rank(newcomer, &number), UCFT_ERR_STATE, "ucft_comm_join");
  blames(ucft_context_size(newcomer, &number), UCFT_ERR_STATE, "ucft_comm_join");
  blames(ucft_progress(newcomer), UCFT_ERR_STATE, "ucft_comm_join");
  blames(ucft_alloc(newcomer, 8, &memory), UCFT_ERR_STATE, "ucft_comm_join");
  blames(ucft_note_activity(newcomer, "x"), UCFT_ERR_STATE, "ucft_comm_join");
  // All seats of the job are taken.
  blames(ucft_comm_join(newcomer, 50000, &comm), UCFT_ERR_TIMED_OUT, "has not been admitted");
  EXPECT_EQ(ucft_context_destroy(newcomer), UCFT_OK) << ucft_last_error();
  EXPECT_EQ(ucft_context_destroy(job), UCFT_OK) << ucft_last_error();
  setenv("UCFT_JOIN", address, 1);
  ASSERT_EQ(ucft_context_create(nullptr, &newcomer), UCFT_OK) << ucft_last_error();
  blames(ucft_comm_join(newcomer, 60'000'000, &comm), UCFT_ERR_STARTUP, "no member of the job can be reached");
  EXPECT_EQ(ucft_context_destroy(newcomer), UCFT_OK) << ucft_last_error();
}

}  // namespace

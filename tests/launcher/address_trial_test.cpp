// Which addresses of a host answer, and are its own.
#include "ucx_layer/bootstrap/address_trial.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>

#include <atomic>
#include <thread>

namespace ucft::detail {
namespace {

using Places = std::vector<std::size_t>;
using Bits = std::vector<ReachedAddresses>;
constexpr auto generous = std::chrono::seconds(30);

std::uint32_t loopback(std::uint32_t last) { return htonl(0x7f000000 | last); }

// A host with two addresses, which answers meanwhile.
class Host {
 public:
  Host()
      : trial_({{"a", loopback(1)}, {"b", loopback(2)}}), answers_([this] {
          while (!over_) trial_.serve();
        }) {}
  ~Host() {
    over_ = true;
    answers_.join();
  }
  const TrialName& name() const { return trial_.name(); }

 private:
  AddressTrial trial_;
  std::atomic<bool> over_{false};
  std::thread answers_;
};

TEST(AddressTrial, AllAddressesThatAnswerAreReached) {
  const Host one, other;
  const AddressTrial here({});
  EXPECT_EQ(here.try_out({one.name(), other.name()}, generous), (Bits{3, 3}));
}

TEST(AddressTrial, AnAddressThatRefusesIsNotReached) {
  const Host host;
  TrialName name = host.name();
  name.addresses[1] = htonl(0xffffffff);  // no host's
  EXPECT_EQ(AddressTrial({}).try_out({name}, generous), Bits{1});
  name.port = 1;
  EXPECT_EQ(AddressTrial({}).try_out({name}, generous), Bits{0});
}

// Private addresses repeat from host to host.
TEST(AddressTrial, AnotherHostThatAnswersDoesNotCount) {
  const Host host, with_the_same_address;
  TrialName name = host.name();
  name.port = with_the_same_address.name().port;
  EXPECT_EQ(AddressTrial({}).try_out({name}, generous), Bits{0});
}

TEST(AddressTrial, AHostThatIsSilentIsWaitedForUntilTheLimit) {
  const AddressTrial silent({{"a", loopback(1)}});
  EXPECT_EQ(AddressTrial({}).try_out({silent.name()}, std::chrono::milliseconds(20)), Bits{0});
}

TEST(AddressTrial, EachHostIsTriedByFewOthers) {
  EXPECT_EQ(hosts_to_try(0, 1), Places{});
  EXPECT_EQ(hosts_to_try(1, 2), Places{0});
  EXPECT_EQ(hosts_to_try(4, 6), (Places{5, 0, 2}));
  EXPECT_EQ(hosts_to_try(7, 1000).size(), 10u);
}

TEST(AddressTrial, AnAddressCountsIfAllHaveReachedIt) {
  // Of three hosts each tries the next, then the one after it: host 0 is tried by 2, then by 1.
  const auto reached = [](ReachedAddresses by_2, ReachedAddresses by_1) {
    return reached_by_all(0, {TrialResults{}, TrialResults{0, by_1}, TrialResults{by_2, 0}}, 3);
  };
  EXPECT_EQ(reached(0b111, 0b101), 0b101);
  EXPECT_EQ(reached(0b010, 0b101), 0) << "no one of them";
  EXPECT_EQ(reached(0b000, 0b101), 0b101) << "host 2 was late";
  EXPECT_EQ(reached_by_all(0, {TrialResults{}}, 8), 0xff);
}

}  // namespace
}  // namespace ucft::detail

// Newcomers: seats, the words by which they find one, and the agents that say them, over sockets of this process.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "ucx_layer/membership/agent.hpp"
#include "ucx_layer/membership/invitation.hpp"
#include "ucx_layer/membership/join_protocol.hpp"
#include "collectives/renewal/seats.hpp"

namespace ucft::detail {
namespace {

using Seats = std::vector<std::int32_t>;
using namespace std::chrono_literals;

// ---- seats ----

TEST(Seats, ANewcomerHasTheSeatThatItWants) {
  EXPECT_EQ(seats_for({{2, "a"}}, {false, true, true, false}, {"a", "a", "b", "b"}, 0), Seats{2});
}

TEST(Seats, AWantedSeatIsNotGivenToAnEarlierNewcomer) {
  EXPECT_EQ(seats_for({{-1, "a"}, {1, "a"}}, {false, true, true}, {"a", "a", "a"}, 0), (Seats{2, 1}));
}

TEST(Seats, OfTwoThatWantTheSameSeatTheFirstHasIt) {
  EXPECT_EQ(seats_for({{1, "a"}, {1, "a"}}, {true, true, false}, {"a", "a", "a"}, 0), (Seats{1, 0}));
}

TEST(Seats, ASeatThatIsTakenOrDoesNotExistIsNotGiven) {
  EXPECT_EQ(seats_for({{0, "a"}}, {false, true}, {"a", "a"}, 0), Seats{1});
  EXPECT_EQ(seats_for({{7, "a"}}, {false, true}, {"a", "a"}, 0), Seats{1});
  EXPECT_EQ(seats_for({{-7, "a"}}, {false, true}, {"a", "a"}, 0), Seats{1});
}

TEST(Seats, ASeatOfTheSameHostComesBeforeALowerOne) {
  EXPECT_EQ(seats_for({{-1, "b"}}, {true, true, true}, {"a", "a", "b"}, 0), Seats{2});
  EXPECT_EQ(seats_for({{-1, "a"}, {-1, "b"}}, {true, false, true}, {"b", "b", "c"}, 0), (Seats{2, 0}));
}

TEST(Seats, WithoutAFreeSeatThereIsNone) {
  EXPECT_EQ(seats_for({{-1, "a"}, {0, "a"}}, {false, false}, {"a", "a"}, 0), (Seats{-1, -1}));
  EXPECT_EQ(seats_for({{-1, "a"}, {-1, "a"}}, {true, false}, {"a", "a"}, 0), (Seats{0, -1}));
}

TEST(Seats, WithoutAFreeSeatThereAreNewOnesBehindTheLast) {
  EXPECT_EQ(seats_for({{-1, "a"}, {0, "a"}, {7, "b"}}, {false, false}, {"a", "a"}, 4), (Seats{2, 3, -1}));
  EXPECT_EQ(seats_for({{-1, "a"}, {-1, "a"}}, {true, false}, {"a", "a"}, 8), (Seats{0, 2}));
  EXPECT_EQ(seats_for({{-1, "a"}}, {false, false, false}, {"a", "a", "a"}, 2), (Seats{-1}));
}

// ---- words ----

class Words : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  void TearDown() override {
    for (const int each : ends_)
      if (each >= 0) ::close(each);
  }
  void say(std::string_view bytes) {
    ASSERT_EQ(send(ends_[1], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }
  int ends_[2] = {-1, -1};
  JoinReader reader_;
};

TEST_F(Words, ComeInAnyPieces) {
  const std::string frames = make_join_frame(JoinWord::refused, "no") + make_join_frame(JoinWord::members, "");
  for (const char each : frames) {
    say({&each, 1});
    ASSERT_TRUE(reader_.read_from(ends_[0]));
  }
  const auto first = reader_.take();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->word, JoinWord::refused);
  EXPECT_EQ(first->body, "no");
  ASSERT_TRUE(reader_.take());
  EXPECT_FALSE(reader_.take());
}

TEST_F(Words, BeforeAnEndAreStillHeard) {
  say(make_join_frame(JoinWord::refused, "no"));
  hang_up();
  EXPECT_FALSE(reader_.read_from(ends_[0]));
  EXPECT_TRUE(reader_.take());
}

TEST_F(Words, GarbageEndsTheConnection) {
  say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(reader_.read_from(ends_[0]));
  EXPECT_FALSE(reader_.take());
}

TEST_F(Words, AFrameThatClaimsToBeHugeEndsTheConnection) {
  std::string frame = make_join_frame(JoinWord::apply, "x");
  const std::uint64_t huge = std::uint64_t{1} << 60;
  frame.replace(8, sizeof huge, reinterpret_cast<const char*>(&huge), sizeof huge);
  say(frame);
  EXPECT_FALSE(reader_.read_from(ends_[0]));
  EXPECT_FALSE(reader_.take());
}

Invitation invitation_of(std::vector<Seat> seats) {
  Invitation made{{}, std::move(seats)};
  made.head.size = static_cast<std::int32_t>(made.seats.size());
  made.head.id = 77;
  made.head.port = 4711;
  return made;
}

std::string body_of_frame(const std::string& frame) { return frame.substr(16); }

TEST(Invitations, AreReadAsTheyWereWritten) {
  const Invitation written = invitation_of({Seat::survivor, Seat::newcomer, Seat::absent, Seat::newcomer});
  const auto read = Invitation::in(body_of_frame(written.frame_for(3)));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->head.seat, 3);
  EXPECT_EQ(read->head.id, 77u);
  EXPECT_EQ(read->head.port, 4711);
  EXPECT_EQ(read->seats, written.seats);
  EXPECT_EQ(read->newcomers(), (Seats{1, 3}));
  EXPECT_EQ(read->absent(), (std::vector<bool>{false, false, true, false}));
}

TEST(Invitations, ThatMakeNoSenseAreNone) {
  const Invitation good = invitation_of({Seat::survivor, Seat::absent});
  const std::string body = body_of_frame(good.frame_for(0));
  EXPECT_TRUE(Invitation::in(body));
  EXPECT_FALSE(Invitation::in(body_of_frame(good.frame_for(1))));  // an absent seat
  EXPECT_FALSE(Invitation::in(body_of_frame(good.frame_for(2))));
  EXPECT_FALSE(Invitation::in(body_of_frame(good.frame_for(-1))));
  EXPECT_FALSE(Invitation::in(body + "x"));
  EXPECT_FALSE(Invitation::in(body.substr(0, body.size() - 1)));
  EXPECT_FALSE(Invitation::in(""));
  std::string wrong = body;
  wrong.back() = 3;
  EXPECT_FALSE(Invitation::in(wrong));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = body;
    for (int change = 0; change < 4; ++change) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto read = Invitation::in(bytes)) {
      ASSERT_EQ(read->seats.size(), static_cast<std::size_t>(read->head.size));
      ASSERT_TRUE(read->head.seat >= 0 && read->head.seat < read->head.size);
    }
  }
}

// ---- agents ----

class Owner : public Agent::Owner {
 public:
  Roster roster() override {
    const std::lock_guard lock(mutex_);
    return roster_;
  }
  void on_turn() override {}
  void on_invited(Invitation invitation) override {
    const std::lock_guard lock(mutex_);
    invitations_.push_back(std::move(invitation));
    changed_.notify_all();
  }
  bool is_starting() override { return false; }
  std::vector<std::uint64_t> started() override { return {}; }
  EpochState state_of(std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  void on_refused(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    refusal_ = why;
    changed_.notify_all();
  }
  void say(const std::string& line, bool) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }

  template <class Condition>
  bool until(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, condition);
  }
  bool is_invited(std::size_t count = 1) {
    return until([&] { return invitations_.size() >= count; });
  }
  bool is_refused() {
    return until([&] { return !refusal_.empty(); });
  }
  void set_state(EpochState state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Roster roster_;
  EpochState state_ = EpochState::starting;
  std::vector<Invitation> invitations_;
  std::string refusal_;
  std::vector<std::string> lines_;
};

bootstrap::Secret secret_of(std::uint8_t digit) {
  bootstrap::Secret secret;
  secret.fill(digit);
  return secret;
}

struct Member {
  explicit Member(std::uint8_t secret = 1) : agent(owner, secret_of(secret)) {
    std::string error;
    if (!agent.open(error)) ADD_FAILURE() << error;
  }
  ~Member() { agent.stop(); }
  // Of a job of these ranks.
  void is(std::int32_t rank, std::vector<bool> lives, std::vector<ListenerName> names) {
    owner.roster_ = {{rank, lives, std::vector<std::string>(lives.size(), "host")}, 9, std::move(names)};
    agent.start();
  }
  void applies_to(const ListenerName& name, std::int32_t seat = -1) {
    agent.apply_to({name}, seat);
    agent.start();
  }
  Owner owner;
  Agent agent;
};

TEST(Agents, TheLowestRankInvitesANewcomerAndAllThatLive) {
  Member lowest, other, newcomer;
  const std::vector<ListenerName> names{{}, lowest.agent.name(), {}, other.agent.name()};
  lowest.is(1, {false, true, false, true}, names);
  other.is(3, {false, true, false, true}, names);
  newcomer.applies_to(lowest.agent.name(), 2);
  ASSERT_TRUE(newcomer.owner.is_invited());
  ASSERT_TRUE(lowest.owner.is_invited());
  const Invitation& theirs = newcomer.owner.invitations_[0];
  EXPECT_EQ(theirs.head.seat, 2);
  EXPECT_EQ(theirs.seats, (std::vector<Seat>{Seat::absent, Seat::survivor, Seat::newcomer, Seat::survivor}));
  const Invitation& own = lowest.owner.invitations_[0];
  EXPECT_TRUE(own.is_mine);
  EXPECT_EQ(own.head.seat, 1);
  EXPECT_EQ(own.head.id, theirs.head.id);
  ASSERT_EQ(own.guests.size(), 1u);  // which EpochStart invites
  EXPECT_EQ(own.guests[0].seat, 3);
  EXPECT_EQ(own.guests[0].name.port, other.agent.name().port);
}

TEST(Agents, AnotherMemberNamesTheLowest) {
  Member lowest, other, newcomer;
  const std::vector<ListenerName> names{lowest.agent.name(), {}, other.agent.name()};
  lowest.is(0, {true, false, true}, names);
  other.is(2, {true, false, true}, names);
  newcomer.applies_to(other.agent.name());
  EXPECT_TRUE(newcomer.owner.is_invited());
  EXPECT_TRUE(lowest.owner.is_invited());
  EXPECT_TRUE(other.owner.invitations_.empty());
}

TEST(Agents, ANewcomerAsksTheNextMemberIfItsSponsorDies) {
  auto first = std::make_unique<Member>();
  Member second, newcomer;
  const std::vector<ListenerName> names{first->agent.name(), second.agent.name(), {}};
  first->is(0, {true, true, false}, names);
  newcomer.applies_to(first->agent.name(), 2);
  ASSERT_TRUE(newcomer.owner.is_invited());
  first.reset();
  second.is(1, {false, true, false}, names);
  ASSERT_TRUE(newcomer.owner.is_invited(2));
  EXPECT_EQ(newcomer.owner.invitations_[1].seats[0], Seat::absent);
}

TEST(Agents, AWrongSecretIsRefusedByNameAndNothingElseHappens) {
  Member member, stranger(2);
  member.is(0, {true, false}, {member.agent.name(), {}});
  stranger.applies_to(member.agent.name());
  ASSERT_TRUE(stranger.owner.is_refused());
  EXPECT_NE(stranger.owner.refusal_.find("its secret is not the job's"), std::string::npos);
  EXPECT_TRUE(member.owner.until([&] { return !member.owner.lines_.empty(); }));
  EXPECT_NE(member.owner.lines_[0].find("secret is wrong"), std::string::npos);
  EXPECT_TRUE(member.owner.invitations_.empty());
  EXPECT_EQ(member.agent.waiting(), 0);
}

TEST(Agents, NobodyThereIsSaid) {
  ListenerName gone;
  {
    Member member;
    gone = member.agent.name();
  }
  Member newcomer;
  newcomer.applies_to(gone);
  ASSERT_TRUE(newcomer.owner.is_refused());
  EXPECT_NE(newcomer.owner.refusal_.find("no member of the job can be reached"), std::string::npos);
}

TEST(Agents, WithoutAFreeSeatANewcomerWaitsUntilThereIsOne) {
  Member member, newcomer;
  member.is(0, {true, true}, {member.agent.name(), {}});
  newcomer.applies_to(member.agent.name());
  ASSERT_TRUE(member.owner.until([&] { return !member.owner.lines_.empty(); }));  // it wants to join
  {
    const std::lock_guard lock(member.owner.mutex_);
    EXPECT_TRUE(member.owner.invitations_.empty());
    member.owner.roster_.lives[1] = false;
  }
  EXPECT_TRUE(newcomer.owner.is_invited());
}

TEST(Agents, AStartThatFailsIsFollowedByAnother) {
  Member member, newcomer;
  member.is(0, {true, false}, {member.agent.name(), {}});
  newcomer.applies_to(member.agent.name());
  ASSERT_TRUE(newcomer.owner.is_invited());
  member.owner.set_state(EpochState::none);
  EXPECT_TRUE(newcomer.owner.is_invited(2));
}

TEST(Agents, ANewcomerThatComesWhileAnEpochIsReadyIsInTheNext) {
  Member member, first, second;
  member.is(0, {true, false, false}, {member.agent.name(), {}, {}});
  first.applies_to(member.agent.name(), 1);
  ASSERT_TRUE(first.owner.is_invited());
  member.owner.set_state(EpochState::ready);
  second.applies_to(member.agent.name(), 2);
  ASSERT_TRUE(second.owner.is_invited());
  EXPECT_TRUE(first.owner.is_invited(2));
  EXPECT_EQ(second.owner.invitations_[0].newcomers(), (Seats{1, 2}));
}

TEST(Agents, GarbageAndSilenceCostTheOthersNothing) {
  Member member, newcomer;
  member.is(0, {true, false}, {member.agent.name(), {}});
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_to_listener(member.agent.name(), 1000));
    ASSERT_GE(strangers.back(), 0);
    if (i % 2 == 0) send_whole(strangers.back(), std::string(static_cast<std::size_t>(i) + 1, 'x'), 1000);
  }
  newcomer.applies_to(member.agent.name());
  EXPECT_TRUE(newcomer.owner.is_invited());
  for (const int each : strangers) ::close(each);
}

}  // namespace
}  // namespace ucft::detail

// The judge refuses each thing that it is there for: a right history of three ranks, and the same with one lie in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/judge/combine.hpp"
#include "simulator/judge/judge.hpp"
#include "simulator/judge/recorder.hpp"

namespace ucft::judge {
namespace {

using Words = std::vector<std::uint64_t>;

Block block(const Words& words) { return block_of(words.data(), words.size(), UCFT_UINT64); }

// Three ranks, of which rank 2 may have died. Each call begins at 100 times its number and ends 50 later, on all.
class Job {
 public:
  explicit Job(bool reads_memory = false) {
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      RankHistory& each = ranks.emplace_back();
      each.rank = rank;
      each.ranks = 3;
      each.host = reads_memory ? 0 : rank;
      each.reads_memory = reads_memory;
      each.is_over = true;
      each.last_at = 1000000;
    }
  }
  Call& of(std::int32_t rank) { return ranks[static_cast<std::size_t>(rank)].calls.back(); }

  // A call of all ranks that live, right but for data.
  void add(Kind kind, std::int32_t root = -1) {
    for (RankHistory& each : ranks) {
      if (dead && each.rank == 2) continue;
      Call call;
      call.kind = kind;
      call.rank = each.rank;
      call.size = 3;
      call.root = root;
      call.began_at = 100 * static_cast<std::int64_t>(each.calls.size() + 1);
      call.ended_at = call.began_at + 50;
      call.status = UCFT_OK;
      each.calls.push_back(call);
    }
  }
  void set_contributors(std::uint32_t contributors, const std::vector<std::int32_t>& missing) {
    for (RankHistory& each : ranks) {
      if (dead && each.rank == 2) continue;
      each.calls.back().contributors = contributors;
      each.calls.back().missing = missing;
    }
  }
  // Rank r gives 10^r; all get the sum.
  void add_allreduce() {
    add(Kind::allreduce);
    const Words sum = {dead ? 11u : 111u};
    for (std::int32_t rank = 0; rank < 3 - dead; ++rank) {
      of(rank).given = {block({rank == 0 ? 1u : rank == 1 ? 10u : 100u})};
      of(rank).before = {block({7})};
      of(rank).got = {block(sum)};
    }
    if (dead)
      set_contributors(2, {2});
    else
      set_contributors(3, {});
  }
  void add_allgather() {
    add(Kind::allgather);
    for (std::int32_t rank = 0; rank < 3 - dead; ++rank) {
      of(rank).given = {block({5, static_cast<std::uint64_t>(rank)})};
      of(rank).before = {block({7, 7}), block({7, 7}), block({7, 7})};
      of(rank).got = {block({5, 0}), block({5, 1}), dead ? block({7, 7}) : block({5, 2})};
    }
    if (dead)
      set_contributors(2, {2});
    else
      set_contributors(3, {});
  }
  void add_broadcast() {
    add(Kind::broadcast, 1);
    for (std::int32_t rank = 0; rank < 3 - dead; ++rank) {
      of(rank).before = {block({rank == 1 ? 42u : 7u})};
      of(rank).got = {block({42})};
    }
    of(1).given = {block({42})};
  }
  void add_scan() {
    add(Kind::scan);
    for (std::int32_t rank = 0; rank < 3 - dead; ++rank) {
      of(rank).given = {block({static_cast<std::uint64_t>(rank) + 1})};
      of(rank).before = {block({7})};
      of(rank).got = {block({static_cast<std::uint64_t>((rank + 1) * (rank + 2) / 2)})};
      of(rank).contributors = static_cast<std::uint32_t>(rank) + 1;
      of(rank).missing.emplace();
    }
  }
  void add_reduce() {
    add(Kind::reduce, 0);
    for (std::int32_t rank = 0; rank < 3 - dead; ++rank) of(rank).given = {block({1})};
    of(0).before = {block({7})};
    of(0).got = {block({3u - dead})};
    of(0).contributors = 3u - dead;
    of(0).missing.emplace();
    if (dead) of(0).missing = {2};
  }
  // Of two ranks; rank 2 is late.
  void add_quorum() {
    add(Kind::quorum);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      of(rank).quorum = 2;
      of(rank).given = {block({rank == 0 ? 1u : rank == 1 ? 10u : 100u})};
      of(rank).before = {block({7})};
      of(rank).got = {block({11})};
      of(rank).late = {2};
      of(rank).is_late = rank == 2;
    }
    set_contributors(2, {});
  }
  // The mean of 1, 10 and 100, and 0.1 off.
  void add_gossip() {
    add(Kind::gossip);
    for (std::int32_t rank = 0; rank < 3 - dead; ++rank) {
      of(rank).dtype = UCFT_DOUBLE;
      of(rank).op = UCFT_AVG;
      of(rank).given = {number(rank == 0 ? 1 : rank == 1 ? 10 : 100)};
      of(rank).got = {number(dead ? 5.6 : 37.1)};
      of(rank).contributors = 3u - dead;
      of(rank).bound = 0.01;
      of(rank).answer = dead ? UCFT_GOSSIP_SURVIVORS : UCFT_GOSSIP_ALL_RANKS;
    }
  }
  static Block number(double value) { return block_of(&value, 1, UCFT_DOUBLE); }
  // Rank 0 receives of any rank; it hears of rank 2.
  void add_named() {
    Call call;
    call.kind = Kind::receive;
    call.size = 3;
    call.source = 2;
    call.status = UCFT_ERR_PEER_FAILED;
    call.began_at = 500;
    call.ended_at = 510;
    ranks[0].calls.push_back(call);
  }
  void add_split() {
    add(Kind::split);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      of(rank).made = "all/1.0";
      of(rank).made_rank = rank;
      of(rank).made_size = 3;
    }
  }
  // Rank 0 sends two to rank 1.
  void add_messages() {
    for (const std::uint64_t word : {5u, 6u}) {
      for (const std::int32_t rank : {0, 1}) {
        Call call;
        call.kind = rank == 0 ? Kind::send : Kind::receive;
        call.rank = rank;
        call.size = 3;
        call.root = call.source = 1 - rank;
        call.began_at = 300 + static_cast<std::int64_t>(word);
        call.ended_at = call.began_at + 50;
        call.status = UCFT_OK;
        std::vector<Block>& data = rank == 0 ? call.given : call.got;
        data = {block({word})};
        ranks[static_cast<std::size_t>(rank)].calls.push_back(call);
      }
    }
  }
  // Rank 2 dies before the next call.
  void kill() {
    dead = true;
    ranks[2].is_over = false;
    ranks[2].last_at = ranks[2].calls.empty() ? 0 : ranks[2].calls.back().ended_at;
  }

  std::vector<RankHistory> ranks;
  bool dead = false;
};

std::string rules_of(const Job& job, bool may_lack_memory = false) {
  std::string rules;
  for (const Violation& each :
       judge(job.ranks, job.dead ? std::vector<std::int32_t>{2} : std::vector<std::int32_t>{}, may_lack_memory))
    if (rules.find(each.rule) == std::string::npos) rules += (rules.empty() ? "" : " ") + each.rule;
  return rules;
}

Job job_of(const std::function<void(Job&)>& make, bool reads_memory = false) {
  Job job(reads_memory);
  make(job);
  return job;
}

void add_all(Job& job) {
  job.add_allreduce();
  job.add_allgather();
  job.add_broadcast();
  job.add_scan();
  job.add_reduce();
  job.add(Kind::barrier);
  job.set_contributors(3u - job.dead, job.dead ? std::vector<std::int32_t>{2} : std::vector<std::int32_t>{});
}

TEST(Judge, ARightHistoryIsRight) {
  EXPECT_EQ(rules_of(job_of([](Job& job) {
              add_all(job);
              job.add_quorum();
              job.add_gossip();
              job.add_split();
              job.add_messages();
            })),
            "");
  EXPECT_EQ(rules_of(job_of([](Job& job) {
              add_all(job);
              job.kill();
              add_all(job);
              job.add_gossip();
              job.add_named();
            })),
            "");
}

struct Lie {
  const char* name;
  const char* rule;
  std::function<void(Job&)> make;
  friend void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }
};

class Lies : public testing::TestWithParam<Lie> {};

TEST_P(Lies, AreRefused) { EXPECT_EQ(rules_of(job_of(GetParam().make)), GetParam().rule); }

const Lie lies[] = {
    {"AHang", "ends",
     [](Job& job) {
       job.add_allreduce();
       job.of(1).ended_at = -1;
       job.of(1).status = UCFT_INPROGRESS;
     }},
    {"ARankThatNobodyKilledIsGone", "ends",
     [](Job& job) {
       job.add_allreduce();
       job.ranks[0].is_over = false;
     }},
    {"OneIsOut", "status",
     [](Job& job) {
       job.add_allreduce();
       job.of(1).status = UCFT_ERR_EXCLUDED;
       job.of(1).got = job.of(1).before;
     }},
    {"AGossipThatHasNotEnded", "ends",
     [](Job& job) {
       job.add_gossip();
       job.of(1).ended_at = -1;
     }},
    {"AGossipThatFails", "status",
     [](Job& job) {
       job.add_gossip();
       for (std::int32_t rank = 0; rank < 3; ++rank) job.of(rank).status = UCFT_ERR_TOO_MANY_FAILURES;
     }},
    {"AGossipWithOtherBits", "agreement",
     [](Job& job) {
       job.add_gossip();
       job.of(1).got = {Job::number(37.05)};
     }},
    {"AGossipFurtherOffThanItsBound", "values",
     [](Job& job) {
       job.add_gossip();
       for (std::int32_t rank = 0; rank < 3; ++rank) job.of(rank).bound = 0.002;
     }},
    {"AGossipOfSurvivorsBeyondWhatTheyGave", "values",
     [](Job& job) {
       job.kill();
       job.add_gossip();
       for (std::int32_t rank = 0; rank < 2; ++rank) job.of(rank).got = {Job::number(10.2)};
     }},
    {"AGossipOfSomeAlone", "completeness",
     [](Job& job) {
       job.add_gossip();
       for (std::int32_t rank = 0; rank < 3; ++rank) job.of(rank).answer = UCFT_GOSSIP_SURVIVORS;
     }},
    {"AGossipOfFewer", "completeness values",
     [](Job& job) {
       job.add_gossip();
       for (std::int32_t rank = 0; rank < 3; ++rank) job.of(rank).contributors = 2;
     }},
    {"ARankThatLivesIsNamedToAReceiveOfAny", "messages",
     [](Job& job) {
       job.add_allreduce();
       job.add_named();
     }},
    {"ADeathThatIsNamedTwice", "messages",
     [](Job& job) {
       job.add_allreduce();
       job.kill();
       job.add_named();
       job.add_named();
     }},
    {"AStatusThatIsNotPromised", "status agreement",
     [](Job& job) {
       job.add_allreduce();
       job.of(1).status = UCFT_ERR_TRANSPORT;
       job.of(1).got = job.of(1).before;
     }},
    {"TheRootLives", "status agreement",
     [](Job& job) {
       job.add_broadcast();
       job.of(0).status = UCFT_ERR_ROOT_FAILED;
       job.of(0).got = job.of(0).before;
     }},
    {"TooManyOfNone", "f",
     [](Job& job) {
       job.add_allreduce();
       for (std::int32_t rank = 0; rank < 3; ++rank) {
         job.of(rank).status = UCFT_ERR_TOO_MANY_FAILURES;
         job.of(rank).got = job.of(rank).before;
       }
     }},
    {"AnotherSumForAll", "values",
     [](Job& job) {
       job.add_allreduce();
       for (std::int32_t rank = 0; rank < 3; ++rank) job.of(rank).got = {block({112})};
     }},
    {"AnotherSumForOne", "values agreement",
     [](Job& job) {
       job.add_allreduce();
       job.of(2).got = {block({11})};
     }},
    {"HalfOfADeadRanksData", "values agreement",
     [](Job& job) {
       job.add_allgather();
       job.kill();
       job.add_allgather();
       job.of(1).got[2] = block({5, 7});
       job.of(1).missing.emplace();
       job.of(1).contributors = 3;
     }},
    {"ASurvivorIsMissing", "completeness values",
     [](Job& job) {
       job.add_allreduce();
       job.set_contributors(2, {1});
     }},
    {"AMissingRankLivedOn", "completeness",
     [](Job& job) {
       job.add_allreduce();
       job.kill();
       job.add_allreduce();
       job.ranks[2].last_at = 100000;
     }},
    {"OtherMissingRanks", "values agreement",
     [](Job& job) {
       job.add_allreduce();
       job.kill();
       job.add_allreduce();
       job.of(1).missing.emplace();
       job.of(1).contributors = 3;
     }},
    {"ContributorsAndMissingAreNotAll", "agreement",
     [](Job& job) {
       job.add(Kind::barrier);
       job.set_contributors(2, {});
     }},
    {"ThePlaceOfAMissingRankIsWritten", "untouched",
     [](Job& job) {
       job.kill();
       job.add_allgather();
       job.of(0).got[2] = block({0, 0});
     }},
    {"AnErrorWrites", "untouched",
     [](Job& job) {
       job.kill();
       job.add_allreduce();
       for (std::int32_t rank = 0; rank < 2; ++rank) {
         job.of(rank).f = 0;
         job.of(rank).status = UCFT_ERR_TOO_MANY_FAILURES;
       }
       job.of(0).got = job.of(0).before;
     }},
    {"ABlockIsNotWhatWasGiven", "values agreement",
     [](Job& job) {
       job.add_allgather();
       job.of(0).got[1] = block({5, 2});
     }},
    {"DataThatAreNotTheRoots", "values agreement",
     [](Job& job) {
       job.add_broadcast();
       job.of(2).got = {block({43})};
     }},
    {"AScanWithoutOneInTheMiddle", "values",
     [](Job& job) {
       job.add_scan();
       job.of(2).got = {block({4})};
     }},
    {"AScanOfOtherRanks", "completeness agreement",
     [](Job& job) {
       job.add_scan();
       job.of(2).got = {block({4})};
       job.of(2).contributors = 2;
       job.of(2).missing = {1};
     }},
    {"ABarrierIsLeftTooEarly", "order",
     [](Job& job) {
       job.add(Kind::barrier);
       job.set_contributors(3, {});
       job.of(1).began_at = 5000;
       job.of(1).ended_at = 5050;
       job.of(0).ended_at = job.of(2).ended_at = 4000;
     }},
    {"ARankThatIsInIsLate", "quorum",
     [](Job& job) {
       job.add_quorum();
       job.of(1).is_late = true;
     }},
    {"OtherLateRanks", "values agreement",
     [](Job& job) {
       job.add_quorum();
       job.of(0).late.clear();
       job.of(0).contributors = 3;
     }},
    {"NoQuorum", "quorum",
     [](Job& job) {
       job.add_quorum();
       for (std::int32_t rank = 0; rank < 3; ++rank) {
         job.of(rank).quorum = 3;
         job.of(rank).is_late = rank == 2;
       }
     }},
    {"LateWithoutAQuorum", "status agreement",
     [](Job& job) {
       job.add_allreduce();
       job.of(2).status = UCFT_ERR_LATE;
       job.of(2).got = job.of(2).before;
     }},
    {"OtherSizes", "members",
     [](Job& job) {
       job.add_split();
       job.of(1).made_size = 2;
     }},
    {"OneMemberHasNone", "members",
     [](Job& job) {
       job.add_split();
       job.of(1).made.clear();
     }},
    {"TwoHaveOnePlace", "members",
     [](Job& job) {
       job.add_split();
       job.of(1).made_rank = 0;
     }},
    {"AMessageIsLost", "messages",
     [](Job& job) {
       job.add_messages();
       auto& calls = job.ranks[1].calls;
       calls.erase(calls.begin());
     }},
    {"AMessageComesTwice", "messages",
     [](Job& job) {
       job.add_messages();
       job.of(1).got = job.ranks[1].calls.front().got;
     }},
    {"AMessageOfAnotherTag", "messages",
     [](Job& job) {
       job.add_messages();
       job.of(1).source_tag = 4;
     }},
    {"TheRootLivedOn", "status",
     [](Job& job) {
       job.add_broadcast();
       job.kill();
       job.add(Kind::broadcast, 2);
       for (std::int32_t rank = 0; rank < 2; ++rank) job.of(rank).status = UCFT_ERR_ROOT_FAILED;
       job.ranks[2].last_at = 100000;
     }},
    {"AllAreLate", "quorum",
     [](Job& job) {
       job.add_quorum();
       for (std::int32_t rank = 0; rank < 3; ++rank) {
         job.of(rank).status = UCFT_ERR_LATE;
         job.of(rank).got = job.of(rank).before;
       }
     }},
    {"ALiveSourceFails", "messages",
     [](Job& job) {
       job.add_messages();
       job.of(1).status = UCFT_ERR_PEER_FAILED;
     }},
    {"AnotherCall", "program",
     [](Job& job) {
       job.add(Kind::barrier);
       job.of(1).kind = Kind::allgather;
     }},
    {"ACallIsLeftOut", "program",
     [](Job& job) {
       job.add_allreduce();
       job.ranks[2].calls.clear();
       for (std::int32_t rank = 0; rank < 2; ++rank) {
         job.of(rank).got = {block({11})};
         job.of(rank).contributors = 2;
         job.of(rank).missing = {2};
       }
     }},
};
INSTANTIATE_TEST_SUITE_P(All, Lies, testing::ValuesIn(lies),
                         [](const auto& each) { return std::string(each.param.name); });

// In shared memory a rank that dies has had what the survivors have, and nothing else.
TEST(Judge, AResultOfTheDeadBindsInSharedMemory) {
  const auto make = [](Job& job) {
    job.add_allreduce();
    job.kill();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.of(rank).got = {block({11})};
      job.of(rank).contributors = 2;
      job.of(rank).missing = {2};
      job.of(rank).ended_at = job.ranks[2].last_at + 50;
    }
  };
  EXPECT_EQ(rules_of(job_of(make, true)), "uniform");
  EXPECT_EQ(rules_of(job_of(make, false)), "");
}

// Where the number of contributors alone is known, some set of so many has to fit.
TEST(Judge, ANumberOfContributorsIsEnough) {
  const auto with = [](std::uint64_t sum, std::uint32_t contributors) {
    return rules_of(job_of([&](Job& job) {
      job.add_allreduce();
      job.kill();
      for (std::int32_t rank = 0; rank < 2; ++rank) {
        job.of(rank).got = {block({sum})};
        job.of(rank).contributors = contributors;
        job.of(rank).missing.reset();
      }
    }));
  };
  EXPECT_EQ(with(111, 3), "");
  EXPECT_EQ(with(11, 2), "");
  EXPECT_EQ(with(111, 2), "values");
  EXPECT_EQ(with(101, 2), "values");
}

TEST(Judge, CombinesAsTheHeaderSays) {
  const auto of = [](ucft_dtype_t dtype, ucft_op_t op, auto a, auto b) {
    const Block one = block_of(&a, 1, dtype), other = block_of(&b, 1, dtype);
    const auto bytes = combine({&one.sampled, &other.sampled}, dtype, op);
    decltype(a) result;
    std::memcpy(&result, bytes.data(), sizeof result);
    return result;
  };
  EXPECT_EQ(of(UCFT_UINT8, UCFT_SUM, std::uint8_t{200}, std::uint8_t{100}), 44);
  EXPECT_EQ(of(UCFT_INT32, UCFT_PROD, std::int32_t{1 << 20}, std::int32_t{1 << 20}), 0);
  EXPECT_EQ(of(UCFT_INT16, UCFT_MIN, std::int16_t{-3}, std::int16_t{2}), -3);
  EXPECT_EQ(of(UCFT_INT64, UCFT_LXOR, std::int64_t{4}, std::int64_t{8}), 0);
  EXPECT_EQ(of(UCFT_UINT16, UCFT_BAND, std::uint16_t{12}, std::uint16_t{10}), 8);
  EXPECT_EQ(of(UCFT_DOUBLE, UCFT_AVG, 1.0, 2.0), 1.5);
  EXPECT_EQ(of(UCFT_FLOAT, UCFT_MAX, 1.0f, 2.0f), 2.0f);
}

// Between hosts its communicator has other members than the survivors'.
TEST(Judge, ARankThatDiesOrIsOutMayHaveACommunicatorOfItsOwn) {
  const auto make = [](Job& job) {
    job.add_split();
    for (std::int32_t rank = 0; rank < 2; ++rank) job.of(rank).made_size = 2;
    job.of(2).made_rank = 0;
    job.kill();
    job.add(Kind::barrier);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.of(rank).communicator = "all/1.0";
      job.of(rank).size = 2;
    }
    job.set_contributors(2, {});
  };
  EXPECT_EQ(rules_of(job_of(make)), "");
  EXPECT_EQ(rules_of(job_of([&](Job& job) {
              make(job);
              job.ranks[2].is_over = true;
              job.ranks[2].calls.push_back(job.ranks[2].calls.back());
              job.of(2).kind = Kind::barrier;
              job.of(2).communicator = "all/1.0";
              job.of(2).made.clear();
              job.of(2).status = UCFT_ERR_EXCLUDED;
            })),
            "");
  Job job = job_of(make);
  job.ranks[2].is_over = true;  // it did not die
  EXPECT_FALSE(judge(job.ranks, {}).empty());
}

// A leaver behind a cut link counts as silent: nobody died, and a root may lack what it gave.
TEST(Judge, ARankThatLeavesBehindACutLinkMayBeMissing) {
  Job job;
  job.add_reduce();
  job.of(0).got = {block({2})};
  job.of(0).contributors = 2;
  job.of(0).missing = {2};
  Call leaves;
  leaves.kind = Kind::destroy;
  leaves.began_at = job.of(2).ended_at;
  leaves.ended_at = leaves.began_at + 10;
  job.ranks[2].calls.push_back(leaves);
  job.of(0).ended_at = leaves.ended_at + 10;
  EXPECT_FALSE(judge(job.ranks, {}).empty());
  EXPECT_TRUE(judge(job.ranks, {2}).empty());
}

// It had its own result, and left before the others had theirs.
TEST(Judge, TheResultOfALeaverBehindACutLinkBindsNobody) {
  Job job;
  job.add_allreduce();
  for (const std::int32_t rank : {0, 1}) {
    job.of(rank).got = {block({11})};
    job.of(rank).contributors = 2;
    job.of(rank).missing = {2};
    job.of(rank).ended_at += 100;
  }
  Call leaves;
  leaves.kind = Kind::destroy;
  leaves.began_at = job.of(2).ended_at;
  leaves.ended_at = leaves.began_at + 10;
  job.ranks[2].calls.push_back(leaves);
  EXPECT_FALSE(judge(job.ranks, {}).empty());
  EXPECT_TRUE(judge(job.ranks, {2}).empty());
  job.ranks[2].calls.back().began_at += 2'000'000'000;
  job.ranks[2].calls.back().ended_at += 2'000'000'000;
  EXPECT_FALSE(judge(job.ranks, {2}).empty()) << "it had time to look";
}

// Ranks 1 and 2 are of one host, and rank 2 dies. If rank 1 had left before, its results bind nobody.
TEST(Judge, ARankIsLostWithItsHostIfThoseThatStayedDie) {
  const auto rules = [](std::int64_t leaves_at, std::int64_t dies_at, bool reads_memory) {
    Job job(reads_memory);
    job.add_allreduce();
    job.of(0).got = {block({1})};
    job.of(0).contributors = 1;
    job.of(0).missing = {1, 2};
    for (RankHistory& each : job.ranks) {
      each.host = each.rank > 0 || reads_memory ? 1 : 0;
      each.reads_memory = true;
    }
    job.kill();
    job.ranks[2].last_at = dies_at;
    Call leaves;
    leaves.kind = Kind::destroy;
    leaves.began_at = leaves_at;
    leaves.ended_at = leaves_at + 10;
    job.ranks[1].calls.push_back(leaves);
    job.of(0).ended_at = dies_at + 100;
    return rules_of(job);
  };
  EXPECT_EQ(rules(200, 300, false), "");
  EXPECT_EQ(rules(300, 200, false), "completeness agreement") << "it outlived the other";
  EXPECT_EQ(rules(200, 300, true), "completeness agreement") << "its memory outlives it";
}

// Rank 0 has sent two, and leaves.
TEST(Judge, MessagesOfALeaverComeBeforeItIsSaidThatItHasLeft) {
  Job job;
  job.add_messages();
  Call leaves;
  leaves.kind = Kind::destroy;
  leaves.began_at = job.of(0).ended_at;
  leaves.ended_at = leaves.began_at + 10;
  job.ranks[0].calls.push_back(leaves);
  Call& last = job.of(1);
  last.ended_at = leaves.ended_at + 10;
  EXPECT_EQ(rules_of(job), "");
  last.status = UCFT_ERR_PEER_FAILED;
  last.got = {block({})};
  EXPECT_EQ(rules_of(job), "messages");
  EXPECT_TRUE(judge(job.ranks, {0}).empty()) << "it may have been silent";
}

// Also of a rank that does not live to the end.
TEST(Judge, ARankIsInItsOwnResult) {
  Job job;
  job.kill();
  job.add_allreduce();
  job.ranks[2].calls.push_back(job.of(0));
  job.of(2).rank = 2;
  job.of(2).given = {block({100})};
  EXPECT_EQ(rules_of(job), "completeness");
  job.of(2).status = UCFT_ERR_EXCLUDED;
  job.of(2).got = job.of(2).before;
  job.of(2).missing.reset();
  EXPECT_EQ(rules_of(job), "");
}

// From the last post on, or from the end of the last fault.
TEST(Judge, AWaitIsNotLongWhenAllIsThere) {
  const auto rules = [](const Job& job, std::int64_t from, std::int64_t until) {
    const std::vector<Disturbed> disturbed{{from, until}};
    std::string text;
    for (const Violation& each : judge(job.ranks, {}, false, &disturbed)) text += each.rule + " ";
    return text;
  };
  Job job;
  job.add_allreduce();
  job.add_messages();
  for (const std::size_t call : {0u, 1u}) {
    Job late = job;
    Call& slow = late.ranks[1].calls[call];
    slow.ended_at = slow.began_at + longest_wait_ns;
    EXPECT_EQ(rules(late, 0, 0), "");
    ++slow.ended_at;
    EXPECT_EQ(rules(late, 0, 0), "time ");
    EXPECT_EQ(rules_of(late), "") << "nothing is known of time";
    EXPECT_EQ(rules(late, 0, slow.began_at + 1), "");
    EXPECT_EQ(rules(late, slow.ended_at, INT64_MAX), "");
    EXPECT_EQ(rules(late, slow.ended_at + 1, INT64_MAX), "time ") << "it came later";
    late.ranks[0].calls[call].began_at += 1;
    EXPECT_EQ(rules(late, 0, 0), "");
  }
}

TEST(Judge, LeavingTakesNoLonger) {
  const std::vector<Disturbed> none;
  Job job;
  job.add(Kind::destroy);
  job.of(1).ended_at = job.of(1).began_at + longest_leave_ns;
  EXPECT_TRUE(judge(job.ranks, {}, false, &none).empty());
  ++job.of(1).ended_at;
  ASSERT_EQ(judge(job.ranks, {}, false, &none).size(), 1U);
  EXPECT_EQ(judge(job.ranks, {}, false, &none).front().rule, "time");
  const std::vector<Disturbed> meanwhile{{0, job.of(1).began_at + 1}};
  EXPECT_TRUE(judge(job.ranks, {}, false, &meanwhile).empty());
}

void lack_memory(Job& job, const std::vector<std::int32_t>& ranks) {
  for (const std::int32_t rank : ranks) {
    job.of(rank).status = UCFT_ERR_NO_MEMORY;
    job.of(rank).got = job.of(rank).before;
  }
}

std::string rules_of_lack(const Job& job) { return rules_of(job, true); }

TEST(Judge, AlikeOnAllWhereMemoryEnds) {
  const auto of_all = [](Job& job) {
    job.add_allreduce();
    lack_memory(job, {0, 1, 2});
  };
  EXPECT_EQ(rules_of_lack(job_of(of_all)), "");
  EXPECT_EQ(rules_of(job_of(of_all)), "status");
  EXPECT_EQ(rules_of_lack(job_of([](Job& job) {
              job.add_allreduce();
              lack_memory(job, {1});
            })),
            "agreement");
}

// On purpose: no agreement is owed. But all end, and an error writes nothing.
TEST(Judge, OfACallThatDiffersOnPurposeItChecksLittle) {
  const auto mistaken = [](const std::function<void(Job&)>& change) {
    return rules_of(job_of([&](Job& job) {
      job.add_allreduce();
      for (std::int32_t rank = 0; rank < 3; ++rank) job.of(rank).differs = true;
      for (const std::int32_t rank : {0, 1}) {
        job.of(rank).status = UCFT_ERR_MISMATCH;
        job.of(rank).got = job.of(rank).before;
      }
      change(job);
    }));
  };
  EXPECT_EQ(mistaken([](Job&) {}), "");
  EXPECT_EQ(mistaken([](Job& job) { job.of(1).got = {block({1})}; }), "untouched");
  EXPECT_EQ(mistaken([](Job& job) {
              job.of(1).ended_at = -1;
              job.of(1).status = UCFT_INPROGRESS;
            }),
            "ends");
  EXPECT_EQ(mistaken([](Job& job) { job.of(0).differs = false; }), "status agreement") << "the first says what it is";
}

// A broadcast needs no memory where ranks read each other's.
TEST(Judge, WhereRanksShareMemoryABroadcastFailsOnAllOrOnNone) {
  EXPECT_EQ(rules_of_lack(job_of(
                [](Job& job) {
                  job.add_broadcast();
                  lack_memory(job, {1});
                },
                true)),
            "agreement");
}

TEST(Judge, MemoryMayEndForSomeRanksOfARootAndBehindARankOfAScan) {
  EXPECT_EQ(rules_of_lack(job_of([](Job& job) {
              job.add_broadcast();
              lack_memory(job, {1});
            })),
            "");
  const auto scan = [](const std::vector<std::int32_t>& ranks, bool reads_memory) {
    return rules_of_lack(job_of(
        [&](Job& job) {
          job.add_scan();
          lack_memory(job, ranks);
        },
        reads_memory));
  };
  EXPECT_EQ(scan({1, 2}, true), "");
  EXPECT_EQ(scan({0, 2}, true), "agreement");
  EXPECT_EQ(scan({0}, true), "agreement");
  EXPECT_EQ(scan({1, 2}, false), "agreement");
}

TEST(History, InMemoryItIsWhatFilesSay) {
  Job job;
  add_all(job);
  RankHistory kept = job.ranks[0];
  kept.calls.clear();
  kept.is_over = false;
  std::int64_t now = 0;
  MemoryRecorder recorder(kept, [&now] { return ++now; });
  Call call = job.ranks[0].calls.front();
  recorder.has_ended(recorder.begins(call), call);
  EXPECT_TRUE(kept.calls[0].has_ended());
  recorder.begins(call);  // posted again: of the first time it still says how that ended
  EXPECT_FALSE(kept.calls[1].has_ended());
  recorder.is_over();
  EXPECT_TRUE(kept.is_over);
  std::istringstream text(text_of(kept));
  const RankHistory read = read_history(text);
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.calls[0], kept.calls[0]);
  EXPECT_EQ(read.calls[1].began_at, kept.calls[1].began_at);
  EXPECT_FALSE(read.calls[1].has_ended());
}

TEST(History, IsReadAsItWasWritten) {
  const std::filesystem::path directory = std::filesystem::temp_directory_path() / "ucft_history_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  Job job(true);
  add_all(job);
  job.add_quorum();
  job.add_split();
  job.add_messages();
  for (RankHistory& each : job.ranks) {
    FileRecorder recorder(directory, each);
    for (Call& call : each.calls) recorder.has_ended(recorder.begins(call), call);
    recorder.is_over();
  }
  const std::vector<RankHistory> read = read_job(directory);
  ASSERT_EQ(read.size(), 3u);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(read[rank].calls, job.ranks[rank].calls);
    EXPECT_TRUE(read[rank].is_over && read[rank].reads_memory);
  }
  std::filesystem::remove_all(directory);
}

TEST(History, ALineThatIsCutOffIsTheLast) {
  std::istringstream cut(
      "{\"rank\":1,\"ranks\":2,\"host\":0,\"f\":1,\"at\":5,\"reads_memory\":true}\n"
      "{\"call\":0,\"kind\":\"barrier\",\"at\":7}\n{\"end\":0,\"stat");
  const RankHistory read = read_history(cut);
  EXPECT_EQ(read.calls.size(), 1u);
  EXPECT_FALSE(read.calls[0].has_ended());
  EXPECT_EQ(read.last_at, 7);
  std::istringstream damaged("{\"rank\":1,\"ra\n{\"over\":true,\"at\":9}\n");
  EXPECT_THROW(read_history(damaged), std::runtime_error);
}

TEST(History, SampledPlacesAreAscendingAndWithin) {
  for (const std::uint64_t count : {0u, 1u, 24u, 25u, 31u, 1000u, 4000000u}) {
    const std::vector<std::uint64_t> places = sampled_places(count);
    EXPECT_EQ(places.size(), std::min<std::uint64_t>(count, 24));
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_LT(places[i], count);
      EXPECT_TRUE(i == 0 || places[i] > places[i - 1]) << count;
    }
    EXPECT_TRUE(count == 0 || places.back() == count - 1);
  }
}

}  // namespace
}  // namespace ucft::judge

// Sends and receives of real processes: order, lengths, any source, and deaths at random moments.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/ucx/scenarios/scenario.hpp"

namespace ucft::detail::test {
namespace {

std::uint64_t word_of(int from, int to, int which, std::size_t i) {
  return static_cast<std::uint64_t>(from) * 1000003 + static_cast<std::uint64_t>(to) * 10007 +
         static_cast<std::uint64_t>(which) * 101 + i;
}
std::size_t words_of(int which) {  // empty, short, eager, long
  const std::size_t lengths[] = {0, 1, 30, 700, 2040, 2100, 40000};
  return lengths[static_cast<std::size_t>(which) % std::size(lengths)];
}

struct Exchange {
  std::vector<std::uint64_t> data;
  ucft_request_h request = UCFT_REQUEST_NULL;
};

// Each sends so many messages of all lengths to each, itself included, and receives as many, with all in flight at a
// time. Those of one tag come in order.
RANKS(each_to_each) {
  const int messages = std::stoi(arguments.at(0));
  std::vector<Exchange> all;
  all.reserve(static_cast<std::size_t>(2 * messages * size_));
  for (int which = 0; which < messages; ++which)
    for (int other = 0; other < size_; ++other) {
      Exchange& in = all.emplace_back();
      in.data.assign(words_of(which) + 5, 7);
      check(ucft_recv_init(comm, in.data.data(), in.data.size(), UCFT_UINT64, other, which % 2, &in.request), "recv");
      check(ucft_post(in.request), "post");
      Exchange& out = all.emplace_back();
      for (std::size_t i = 0; i < words_of(which); ++i) out.data.push_back(word_of(rank_, other, which, i));
      check(ucft_send_init(comm, out.data.data(), out.data.size(), UCFT_UINT64, other, which % 2, &out.request),
            "send");
      check(ucft_post(out.request), "post");
    }
  for (std::size_t place = 0; place < all.size(); ++place) {
    Exchange& each = all[place];
    check(ucft_wait(each.request, UINT64_MAX), "wait");
    if (place % 2 == 0) {
      const int which = static_cast<int>(place) / (2 * size_), other = static_cast<int>(place) / 2 % size_;
      ucft_received_t received = UCFT_RECEIVED_INIT;
      check(ucft_request_received(each.request, &received), "received");
      if (received.source != other || received.tag != which % 2 || received.count != words_of(which))
        wrong("message {} of {}: {} words of {}", which, other, received.count, received.source);
      for (std::size_t i = 0; i < each.data.size(); ++i)
        if (each.data[i] != (i < received.count ? word_of(other, rank_, which, i) : 7))
          wrong("message {} of {}: word {} is {}", which, other, i, each.data[i]);
    }
    ucft_request_free(each.request);
  }
}

TEST_P(Scenario, MessagesOfAllLengthsComeInOrder) {
  for (int ranks : {1, 2, 5}) expect_right(plan(ranks, each_to_each, {"21"}));
}

// a_slow_receiver MARK MESSAGES: all are posted before their receiver begins. The senders wait; nothing is lost.
RANKS(a_slow_receiver) {
  const int messages = std::stoi(arguments.at(1));
  std::vector<std::uint64_t> words(static_cast<std::size_t>(messages));
  if (rank_ == 0) {
    for (int other = 1; other < size_; ++other) wait_for_mark(arguments.at(0) + "_" + std::to_string(other));
    for (int i = 0; i < messages; ++i)
      for (int other = 1; other < size_; ++other) {
        check(ucft_recv(comm, words.data(), 1, UCFT_UINT64, other, 1, nullptr), "recv");
        if (words[0] != word_of(other, 0, i, 0)) wrong("message {} of {} is {}", i, other, words[0]);
      }
    return;
  }
  std::vector<ucft_request_h> sends(words.size());
  for (int i = 0; i < messages; ++i) {
    const auto place = static_cast<std::size_t>(i);
    words[place] = word_of(rank_, 0, i, 0);
    check(ucft_send_init(comm, &words[place], 1, UCFT_UINT64, 0, 1, &sends[place]), "send_init");
    check(ucft_post(sends[place]), "post");
  }
  constexpr int window = 256 * 1024 / (8 + 64);
  if (messages > window) expect(ucft_test(sends.back()), UCFT_INPROGRESS, "the last one");
  leave_mark(arguments.at(0) + "_" + std::to_string(rank_));
  for (ucft_request_h each : sends) check(ucft_wait(each, UINT64_MAX), "wait");
}

TEST_P(Scenario, ASenderThatIsFarAheadWaits) {
  for (const char* messages : {"3000", "5000"}) expect_right(plan(3, a_slow_receiver, {new_mark("ahead"), messages}));
}

RANKS(too_long_a_message) {
  const std::vector<std::uint64_t> in(5000, 3);
  std::vector<std::uint64_t> out(5000, 7);
  for (std::uint64_t count : {2, 5000}) {
    if (rank_ == 1) check(ucft_send(comm, in.data(), count, UCFT_UINT64, 0, 1), "send");
    if (rank_ != 0) continue;
    expect(ucft_recv(comm, out.data(), 1, UCFT_UINT64, 1, 1, nullptr), UCFT_ERR_TRUNCATED, "too long");
    if (std::string(ucft_last_error()).find("rank 1 ") == std::string::npos) wrong("it says {}", ucft_last_error());
    if (out != std::vector<std::uint64_t>(5000, 7)) wrong("something is written");
  }
}

// A rank that has received waits outside of ucft for what its sender does once it has sent.
RANKS(a_receiver_that_goes_outside) {
  std::vector<std::uint64_t> data(500);  // not in line
  for (int i = 0; i < 20; ++i) {
    const std::string mark = arguments.at(0) + "_" + std::to_string(i);
    if (rank_ == 1) {
      check(ucft_send(comm, data.data(), data.size(), UCFT_UINT64, 0, 1), "send");
      leave_mark(mark);
    } else {
      check(ucft_recv(comm, data.data(), data.size(), UCFT_UINT64, 1, 1, nullptr), "recv");
      wait_for_mark(mark);
    }
  }
}

TEST_P(Scenario, AReceiverThatGoesOutsideHoldsNoSenderUp) {
  expect_right(plan(2, a_receiver_that_goes_outside, {new_mark("outside")}));
}

// A receive that has been freed gets no message. The next one does.
RANKS(a_receive_that_is_freed) {
  std::uint64_t word = 5, freed = 7;
  if (rank_ == 1) {
    check(ucft_recv(comm, &word, 1, UCFT_UINT64, 0, 2, nullptr), "recv");
    for (std::uint64_t i = 0; i < 3; ++i) check(ucft_send(comm, &i, 1, UCFT_UINT64, 0, 1), "send");
    return;
  }
  ucft_request_h request = UCFT_REQUEST_NULL;
  check(ucft_recv_init(comm, &freed, 1, UCFT_UINT64, UCFT_ANY_SOURCE, 1, &request), "recv_init");
  check(ucft_post(request), "post");
  check(ucft_request_free(request), "free");
  check(ucft_send(comm, &word, 1, UCFT_UINT64, 1, 2), "send");
  for (std::uint64_t i = 0; i < 3; ++i) {
    check(ucft_recv(comm, &word, 1, UCFT_UINT64, 1, 1, nullptr), "recv");
    if (word != i) wrong("message {} is {}", i, word);
  }
  if (freed != 7) wrong("a freed receive got {}", freed);
}

TEST_P(Scenario, AReceiveThatIsFreedGetsNoMessage) { expect_right(plan(2, a_receive_that_is_freed)); }

TEST_P(Scenario, AMessageThatIsTooLongIsSaidToBe) { expect_right(plan(2, too_long_a_message)); }

// Rank 1 sends to rank 0, and dies when these messages are there. They are received although its death is known.
RANKS(last_words) {
  std::uint64_t word = 5;
  if (rank_ == 1) {
    for (int i = 0; i < 3; ++i) check(ucft_send(comm, &word, 1, UCFT_UINT64, 0, 1), "send");
    check(ucft_send(comm, &word, 1, UCFT_UINT64, 0, 2), "send");
    check(ucft_recv(comm, &word, 1, UCFT_UINT64, 0, 3, nullptr), "recv");
    std::raise(SIGKILL);
  }
  if (rank_ != 0) return;
  check(ucft_recv(comm, &word, 1, UCFT_UINT64, 1, 2, nullptr), "recv");
  check(ucft_send(comm, &word, 1, UCFT_UINT64, 1, 3), "send");
  for (std::int32_t dead = 0; dead == 0;) {
    check(ucft_progress(context), "progress");
    check(ucft_comm_failed(comm, nullptr, &dead), "failed");
  }
  for (int i = 0; i < 3; ++i) check(ucft_recv(comm, &word, 1, UCFT_UINT64, 1, 1, nullptr), "recv");
  expect(ucft_recv(comm, &word, 1, UCFT_UINT64, 1, 1, nullptr), UCFT_ERR_PEER_FAILED, "from the dead");
  if (std::string(ucft_last_error()).find("rank 1 ") == std::string::npos) wrong("it says {}", ucft_last_error());
  const std::vector<std::uint64_t> longer(100000);
  expect(ucft_send(comm, longer.data(), longer.size(), UCFT_UINT64, 1, 1), UCFT_ERR_PEER_FAILED, "to the dead");
}

TEST_P(Scenario, WhatADeadRankHadSentIsReceived) {
  for (int ranks : {2, 3}) {
    JobPlan made = plan(ranks, last_words);
    made.launcher = {"--expect-kill", "1"};
    expect_right(made, {1});
  }
}

// Rank 0 gives work to whoever asks, and hears once of each that dies.
RANKS(a_master) {
  const int victims = std::stoi(arguments.at(0));
  std::uint64_t asked = 0, given = 0;
  if (rank_ != 0) {
    for (int i = 0;; ++i) {
      asked = static_cast<std::uint64_t>(rank_);
      check(ucft_send(comm, &asked, 1, UCFT_UINT64, 0, 1), "ask");
      if (rank_ <= victims && i == 3 + rank_) std::raise(SIGKILL);
      check(ucft_recv(comm, &given, 1, UCFT_UINT64, 0, 2, nullptr), "work");
      if (given == 0) return;
    }
  }
  int deaths = 0, done = 0;
  std::vector<int> ended(static_cast<std::size_t>(size_));
  while (deaths + done < size_ - 1) {
    ucft_received_t received = UCFT_RECEIVED_INIT;
    const ucft_status_t status = ucft_recv(comm, &asked, 1, UCFT_UINT64, UCFT_ANY_SOURCE, 1, &received);
    if (status == UCFT_ERR_PEER_FAILED) {
      if (received.source < 1 || received.source > victims) wrong("{} is said to be dead", received.source);
      if (ended[static_cast<std::size_t>(received.source)]++ > 0) wrong("{} is said to be dead twice", received.source);
      ++deaths;
      continue;
    }
    check(status, "asked");
    if (asked != static_cast<std::uint64_t>(received.source)) wrong("{} has asked as {}", received.source, asked);
    given = ++ended[static_cast<std::size_t>(received.source)] < 100 || received.source <= victims ? 1 : 0;
    if (received.source <= victims) ended[static_cast<std::size_t>(received.source)] = 0;
    const ucft_status_t sent = ucft_send(comm, &given, 1, UCFT_UINT64, received.source, 2);
    if (sent != UCFT_OK && (sent != UCFT_ERR_PEER_FAILED || received.source > victims)) check(sent, "give");
    done += given == 0;
  }
  if (deaths != victims) wrong("{} deaths", deaths);
}

TEST_P(Scenario, AMasterHearsOnceOfEachWorkerThatDies) {
  for (int victims : {1, 3}) {
    JobPlan made = plan(5, a_master, {std::to_string(victims)});
    std::vector<int> dead;
    for (int victim = 1; victim <= victims; ++victim) {
      made.launcher.insert(made.launcher.end(), {"--expect-kill", std::to_string(victim)});
      dead.push_back(victim);
    }
    expect_right(made, dead);
  }
}

// Rank 1 dies at once behind a long message, which stands behind many short ones, when its send has succeeded.
RANKS(a_sender_that_dies_behind_its_message) {
  constexpr int messages = 1000;
  std::vector<std::uint64_t> data(3000, 5), got(3000);
  if (rank_ != 0) {
    std::vector<ucft_request_h> requests(messages + 1);
    for (ucft_request_h& each : requests) {
      const bool is_last = &each == &requests.back();
      check(ucft_send_init(comm, data.data(), is_last ? 3000 : 1, UCFT_UINT64, 0, is_last ? 2 : 1, &each), "send_init");
      check(ucft_post(each), "post");
    }
    check(ucft_wait(requests.back(), UINT64_MAX), "wait");
    std::raise(SIGKILL);
  }
  check(ucft_recv(comm, got.data(), got.size(), UCFT_UINT64, 1, 2, nullptr), "recv");
  if (got != data) wrong("something else has come");
  int here = 0;
  while (ucft_recv(comm, got.data(), 1, UCFT_UINT64, 1, 1, nullptr) == UCFT_OK) ++here;
  if (here != messages) wrong("{} short messages", here);
}

TEST(HostScenario, AMessageIsReceivedIfItsSendHasSucceeded) {
  for (int run = 0; run < 5; ++run) {
    JobPlan plan{2, a_sender_that_dies_behind_its_message, {}, {"--expect-kill", "1"}, over("shm")};
    EXPECT_EQ(what_is_wrong(plan, run_job(plan), {1}), "");
  }
}

// rounds COUNT VICTIMS (for kills.cpp): in each round each rank sends to one rank and receives from one, by all
// lengths. A message of a rank that lives is right. Once a victim is said to be gone it stays so.
RANKS(rounds) {
  const int count = std::stoi(arguments.at(0));
  const auto is_victim = [&](int rank) {
    return ("," + arguments.at(1) + ",").find("," + std::to_string(rank) + ",") != std::string::npos;
  };
  const auto word_of = [](int from, int to, int round, std::size_t i) {
    return static_cast<std::uint64_t>(from) << 48 | static_cast<std::uint64_t>(to) << 32 |
           static_cast<std::uint64_t>(round) << 16 | (i & 0xffff);
  };
  constexpr std::size_t lengths[] = {0, 1, 7, 256, 2048, 3000, 30000};
  std::vector<bool> is_gone(static_cast<std::size_t>(size_));
  std::vector<std::uint64_t> in(30001), out(30000);
  for (int round = 0; round < count; ++round) {
    const int shift = 1 + round % (size_ - 1), to = (rank_ + shift) % size_, from = (rank_ - shift + size_) % size_;
    const std::size_t length = lengths[static_cast<std::size_t>(round) % std::size(lengths)];
    for (std::size_t i = 0; i < length; ++i) out[i] = word_of(rank_, to, round, i);
    std::fill_n(in.begin(), length + 1, 7);
    ucft_request_h receive = UCFT_REQUEST_NULL, send = UCFT_REQUEST_NULL;
    check(ucft_recv_init(comm, in.data(), length + 1, UCFT_UINT64, from, round % 3, &receive), "recv_init");
    check(ucft_send_init(comm, out.data(), length, UCFT_UINT64, to, round % 3, &send), "send_init");
    check(ucft_post(receive), "post");
    check(ucft_post(send), "post");
    const ucft_status_t sent = ucft_wait(send, UINT64_MAX), got = ucft_wait(receive, UINT64_MAX);
    if (sent != UCFT_OK && (sent != UCFT_ERR_PEER_FAILED || !is_victim(to))) check(sent, "send");
    if (got != UCFT_OK && (got != UCFT_ERR_PEER_FAILED || !is_victim(from))) check(got, "recv");
    ucft_received_t received = UCFT_RECEIVED_INIT;
    check(ucft_request_received(receive, &received), "received");
    if (received.source != from) wrong("round {}: of {}, not {}", round, received.source, from);
    if (got == UCFT_OK && received.count != length) wrong("round {}: {} words, not {}", round, received.count, length);
    if (got == UCFT_OK && is_gone[static_cast<std::size_t>(from)]) wrong("round {}: {} is back", round, from);
    is_gone[static_cast<std::size_t>(from)] = is_gone[static_cast<std::size_t>(from)] || got != UCFT_OK;
    for (std::size_t i = 0; i < length && got == UCFT_OK; ++i)
      if (in[i] != word_of(from, rank_, round, i)) wrong("round {}: word {} is {:x}", round, i, in[i]);
    if (in[length] != 7) wrong("round {}: something is written behind it", round);
    ucft_request_free(receive);
    ucft_request_free(send);
    if (round == 0) say_started();
  }
}

// A rank that has left is as a dead one for those that wait for it.
RANKS(a_rank_that_leaves) {
  std::uint64_t word = 5;
  if (rank_ == 1) {
    check(ucft_send(comm, &word, 1, UCFT_UINT64, 0, 1), "send");
    return;
  }
  if (rank_ != 0) return;
  check(ucft_recv(comm, &word, 1, UCFT_UINT64, 1, 1, nullptr), "recv");
  expect(ucft_recv(comm, &word, 1, UCFT_UINT64, 1, 1, nullptr), UCFT_ERR_PEER_FAILED, "from one that has left");
}

TEST_P(Scenario, NobodyWaitsForAMessageOfARankThatHasLeft) {
  for (int ranks : {2, 3}) expect_right(plan(ranks, a_rank_that_leaves));
}

// The same of communicators that it has left, one of them without a message, while it goes on with another one.
RANKS(a_rank_that_leaves_two_of_three) {
  ucft_comm_h second = UCFT_COMM_NULL, third = UCFT_COMM_NULL;
  check(ucft_comm_dup(comm, &second), "dup");
  check(ucft_comm_dup(comm, &third), "dup");
  std::uint64_t word = 5;
  if (rank_ == 1) {
    check(ucft_comm_destroy(third), "destroy");
    check(ucft_send(second, &word, 1, UCFT_UINT64, 0, 1), "send");
    check(ucft_comm_destroy(second), "destroy");
    check(ucft_recv(comm, &word, 1, UCFT_UINT64, 0, 1, nullptr), "recv");
    return;
  }
  if (rank_ == 0) {
    check(ucft_recv(second, &word, 1, UCFT_UINT64, 1, 1, nullptr), "recv");
    expect(ucft_recv(second, &word, 1, UCFT_UINT64, 1, 1, nullptr), UCFT_ERR_PEER_FAILED, "from one that has left");
    expect(ucft_send(second, &word, 1, UCFT_UINT64, 1, 1), UCFT_ERR_PEER_FAILED, "to one that has left");
    expect(ucft_recv(third, &word, 1, UCFT_UINT64, 1, 1, nullptr), UCFT_ERR_PEER_FAILED, "from one that has left");
    check(ucft_send(comm, &word, 1, UCFT_UINT64, 1, 1), "send");
  }
  check(ucft_comm_destroy(second), "destroy");
  check(ucft_comm_destroy(third), "destroy");
}

TEST_P(Scenario, NobodyWaitsForAMessageInACommunicatorThatARankHasLeft) {
  for (int ranks : {2, 3}) expect_right(plan(ranks, a_rank_that_leaves_two_of_three));
}

}  // namespace
}  // namespace ucft::detail::test

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "simulator/judge/kinds.hpp"
#include "simulator/judge/random_calls.hpp"
#include "simulator/judge/random_checks.hpp"

namespace ucft::judge {

namespace {

constexpr std::uint64_t lengths[] = {0, 1, 5, 700, 4000};  // words
constexpr std::int32_t collected = 3;                      // the tag of messages to UCFT_ANY_SOURCE, and of no others

std::uint64_t length_of(const Drawn& drawn, std::uint64_t from) {
  return lengths[mixed(drawn.words[3], from) % std::size(lengths)];
}

}  // namespace

// Each to one other, and from one other.
void RandomCalls::messages(const Drawn& drawn, int step, Communicator& on) {
  const auto size = static_cast<std::uint64_t>(on.size), me = static_cast<std::uint64_t>(on.rank),
             apart = drawn.below(2, size);
  Letter sent, received;
  Call &send = sent.call, &receive = received.call;
  for (Call* each : {&receive, &send}) {
    each->communicator = on.name;
    each->rank = on.rank;
    each->size = on.size;
    each->tag = static_cast<std::int32_t>(drawn.below(4, 3));
  }
  receive.kind = Kind::receive;
  receive.root = static_cast<std::int32_t>((me + size - apart) % size);
  send.kind = Kind::send;
  send.root = static_cast<std::int32_t>((me + apart) % size);
  std::vector<std::uint64_t> in(length_of(drawn, me)),
      out(length_of(drawn, static_cast<std::uint64_t>(receive.root)), hole);
  prepare_send(sent, step, on, in);
  check(ucft_recv_init(on.handle, out.data(), out.size(), UCFT_UINT64, receive.root, receive.tag, &received.request),
        "recv");
  if (own_() % 3 != 0) {
    post(received);
    post(sent);
    take_sent(sent);
    take_received(received, out);
  } else {  // the message may be there before anybody receives it
    post(sent);
    if (own_() % 2 == 0) sleep_for_at_most(2000);
    post(received);
    take_received(received, out);
    take_sent(sent);
  }
  finish(sent);
  finish(received);
}

void RandomCalls::post(Letter& letter) {
  letter.number = recorder_.begins(letter.call);
  letter.call.status = post(letter.request);
}

void RandomCalls::take_sent(Letter& letter) {
  if (letter.call.status == UCFT_OK) letter.call.status = ucft_wait(letter.request, UINT64_MAX);
  recorder_.has_ended(letter.number, letter.call);
}

void RandomCalls::take_received(Letter& letter, const std::vector<std::uint64_t>& words) {
  Call& call = letter.call;
  ucft_received_t how = UCFT_RECEIVED_INIT;
  how.source = call.root;
  if (call.status == UCFT_OK) {
    call.status = ucft_wait(letter.request, UINT64_MAX);
    check(ucft_request_received(letter.request, &how), "received");
  }
  call.source = how.source;
  call.source_tag = call.status == UCFT_OK ? how.tag : call.tag;
  call.got = {block_of(words.data(), call.status == UCFT_OK ? how.count : 0, UCFT_UINT64)};
  recorder_.has_ended(letter.number, call);
}

// Words that no other message has.
void RandomCalls::prepare_send(Letter& letter, int step, const Communicator& on, std::vector<std::uint64_t>& words) {
  Call& send = letter.call;
  const auto me = static_cast<std::uint64_t>(on.rank);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = mixed(static_cast<std::uint64_t>(step) << 20 | i, me);
  send.given = {block_of(words.data(), words.size(), UCFT_UINT64)};
  check(ucft_send_init(on.handle, words.data(), words.size(), UCFT_UINT64, send.root, send.tag, &letter.request),
        "send");
}

// One rank takes a message of each other one, in whatever order they come. Those that it hears have failed need not
// come.
void RandomCalls::collect(const Drawn& drawn, int step, Communicator& on) {
  Letter letter;
  letter.call.communicator = on.name;
  letter.call.rank = on.rank;
  letter.call.size = on.size;
  letter.call.tag = collected;
  const auto collector = static_cast<std::int32_t>(drawn.below(2, static_cast<std::uint64_t>(on.size)));
  if (on.rank != collector) {
    std::vector<std::uint64_t> words(length_of(drawn, static_cast<std::uint64_t>(on.rank)));
    letter.call.kind = Kind::send;
    letter.call.root = collector;
    prepare_send(letter, step, on, words);
    post(letter);
    take_sent(letter);
    return finish(letter);
  }
  ++on.collections;
  on.taken.resize(static_cast<std::size_t>(on.size));
  on.taken[static_cast<std::size_t>(on.rank)] = UINT64_MAX;  // nothing of itself
  std::vector<std::uint64_t> words(lengths[std::size(lengths) - 1]);
  letter.call.kind = Kind::receive;
  while (!is_out_ && std::ranges::any_of(on.taken, [&](std::uint64_t taken) { return taken < on.collections; })) {
    Letter each = letter;
    check(ucft_recv_init(on.handle, words.data(), words.size(), UCFT_UINT64, UCFT_ANY_SOURCE, collected, &each.request),
          "recv");
    post(each);
    take_received(each, words);
    finish(each);
    if (each.call.source < 0 || each.call.source >= on.size) return;
    std::uint64_t& taken = on.taken[static_cast<std::size_t>(each.call.source)];
    if (each.call.status != UCFT_OK && taken == UINT64_MAX) return;  // all others are gone, or left
    if (each.call.status != UCFT_OK)
      taken = UINT64_MAX;
    else if (taken != UINT64_MAX)
      ++taken;
  }
}

void RandomCalls::finish(const Letter& letter) {
  check(ucft_request_free(letter.request), "free");
  is_out_ |= is_out(letter.call.status);
}

}  // namespace ucft::judge

// One operation, message by message, with a death: what a reader of the protocols looks at first. The texts beside this
// file are what the product's objects do, oldest message first; a change of the protocol shows as a change of a text.
//
//   transcripts_test                    compares them
//   UCFT_WRITE_TRANSCRIPTS=1 transcripts_test    writes them anew
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/transcripts/kept_text.hpp"
#include "tests/unit/hand_fed_ranks.hpp"

namespace ucft::detail {
namespace {

using namespace by_hand;

const char* name_of(Phase phase) {
  static constexpr const char* names[phase_count] = {
      "group",    "up",       "broadcast",      "correction", "ask",     "decided", "gather",       "gather_reply",
      "mismatch", "exchange", "reduce_scatter", "allgather",  "closing", "waiting", "all_broadcast"};
  return names[static_cast<int>(phase)];
}

std::string set_of(std::uint64_t bits) {
  std::string text;
  for (int rank = 0; rank < 64; ++rank)
    if (bits >> rank & 1) text += (text.empty() ? "" : " ") + std::to_string(rank);
  return "{" + text + "}";
}

class Transcript {
 public:
  Transcript(std::string what, Rank ranks, const Arguments& arguments) : world_(ranks), arguments_(arguments) {
    text_ = fmt::format(
        "# {}\n# {} ranks, f = {}. FROM -> TO phase, what it carries, and the ballot (the rank of its root).\n\n", what,
        ranks, arguments.f);
    world_.post_all(arguments, [&](Rank rank) { return input_of(rank); });
    say(fmt::format("all post {}", arguments.row().name));
  }

  void say(const std::string& line) { text_ += line + "\n"; }
  void deliver(int count) {
    while (count-- > 0 && !world_.letters.empty()) deliver([](const Letter&) { return true; });
  }
  void deliver(const HandFedWorld::Which& which) {
    for (const Letter& letter : world_.letters) {
      if (!which(letter)) continue;
      say(describe(letter) + (world_.alive(letter.to) ? "" : "   (is dead)"));
      break;
    }
    world_.deliver(which);
    note_ends();
  }
  void deliver_all(const HandFedWorld::Which& which) {
    while (std::any_of(world_.letters.begin(), world_.letters.end(), which)) deliver(which);
  }
  // It dies before it sends these; everybody hears of it.
  void die(Rank rank, const HandFedWorld::Which& unsent) {
    for (const Letter& letter : world_.letters)
      if (letter.from == rank && unsent(letter)) say(fmt::format("  (never sent: {})", describe(letter)));
    world_.lose([&](const Letter& letter) { return letter.from == rank && unsent(letter); });
    world_.kill(rank);
    say(fmt::format("{} dies", rank));
  }
  void tell_all(Rank dead) {
    say(fmt::format("all hear that {} is dead", dead));
    world_.tell_all(dead);
    note_ends();
  }
  void run() {
    while (!world_.letters.empty()) deliver(1);
  }

  // A turn to all that want one, then everything arrives. False: nobody did.
  bool turn() {
    if (!world_.turns()) return false;
    say("all take a turn");
    run();
    return true;
  }

  void compare(const std::string& name) {
    for (Rank rank = 0; rank < world_.size(); ++rank)
      EXPECT_TRUE(!world_.alive(rank) || world_[rank].has_ended(0)) << rank;
    compare_with_kept(text_, name);
  }

 private:
  Bytes input_of(Rank rank) const {
    if (arguments_.row().goes_straight)
      return bytes_of(std::vector<std::uint64_t>(static_cast<std::size_t>(world_.size()), 0));
    if (arguments_.kind == Kind::broadcast) return rank == arguments_.root ? word(42) : Bytes{};
    if (arguments_.kind != Kind::allgather) return word(std::uint64_t{1} << rank);
    Arguments mine = arguments_;
    mine.own_count = 1;
    Bytes input(Blocks::input_bytes(mine));
    const Bytes block = word(static_cast<std::uint64_t>(rank));
    Blocks::pack(mine, rank, block.data(), input.data());
    return input;
  }
  std::string value_of(const Bytes& value) const {
    if (arguments_.row().goes_straight) return "the set " + set_of(word_of(value));
    if (arguments_.kind == Kind::broadcast) return fmt::format("the data, {}", word_of(value));
    if (arguments_.kind != Kind::allgather) return "the sum of " + set_of(word_of(value));
    std::uint64_t ranks = 0;
    Blocks::for_each(value, [&](Rank rank, std::span<const std::byte>) { ranks |= std::uint64_t{1} << rank; });
    return "the blocks of " + set_of(ranks);
  }
  std::string describe(const Letter& letter) const {
    const Message& message = letter.message;
    std::string text = fmt::format("{} -> {}  {}", letter.from, letter.to, name_of(message.phase));
    if (message.has(by_gossip)) text += " by gossip,";
    if (message.has(is_decided)) text += ", decided before:";
    if (message.phase == Phase::all_broadcast)
      text += fmt::format(" what {} has for {}", letter.from, letter.to);
    else if (!letter.value.empty())
      text += " " + value_of(letter.value);
    if (message.has(is_unclean)) text += ", not clean";
    for (std::uint32_t entry : elements_of<std::uint32_t>(letter.list))
      text += fmt::format(", {} failed{}", entry & ~contributed_bit,
                          (entry & contributed_bit) != 0 ? " (its value may be in it)" : "");
    return text + fmt::format("   [ballot {}]", message.attempt);
  }
  void note_ends() {
    for (Rank rank = 0; rank < world_.size(); ++rank) {
      if (ended_.size() <= static_cast<std::size_t>(rank)) ended_.resize(static_cast<std::size_t>(rank) + 1);
      if (ended_[static_cast<std::size_t>(rank)] || !world_[rank].has_ended(0)) continue;
      ended_[static_cast<std::size_t>(rank)] = true;
      const Ended& end = world_[rank].ended(0);
      std::string missing;
      for (Rank each : end.missing()) missing += fmt::format("{}{}", missing.empty() ? ", missing: " : " ", each);
      say(fmt::format("        {} has {}{}", rank, end.value.empty() ? "no value" : value_of(end.value), missing));
    }
  }

  HandFedWorld world_;
  Arguments arguments_;
  std::string text_;
  std::vector<bool> ended_;
};

TEST(Transcripts, Allreduce) {
  Transcript here(
      "An allreduce. Rank 3 dies after it has told its group, before it passes its subtree's sum up:\n"
      "# the other subtree of the root has its value, too.",
      5, sum_of_words(1));
  here.deliver_all(HandFedWorld::is(Phase::group));
  here.die(3, HandFedWorld::is(3, 1, Phase::up));
  here.tell_all(3);
  here.run();
  here.compare("allreduce");
}

TEST(Transcripts, Broadcast) {
  Transcript here("A broadcast. Rank 1 dies before it forwards: those below it ask the root.", 8,
                  sum_of_words(1, 0, Kind::broadcast));
  here.deliver(HandFedWorld::is(0, 1, Phase::broadcast));
  here.die(1, HandFedWorld::is(Phase::broadcast));
  here.tell_all(1);
  here.run();
  here.compare("broadcast");
}

TEST(Transcripts, Allgather) {
  Arguments arguments = sum_of_words(1, 0, Kind::allgather);
  arguments.count = 5;
  Transcript here(
      "An allgather: an allreduce whose sums are sets of blocks. Rank 2 dies before anybody has its block:\n"
      "# it is missing everywhere.",
      5, arguments);
  here.die(2, HandFedWorld::is(Phase::group));
  here.tell_all(2);
  here.run();
  here.compare("allgather");
}

TEST(Transcripts, Exchange) {
  Arguments arguments = sum_of_words(1);
  Exchange::put_into(arguments, 4);
  Transcript here(
      "A long alltoall: an exchange of what each has for each other, and an agreement on whose data count. Rank 1 "
      "dies\n"
      "# when rank 2 alone has its data. Ranks give the sets of those whose data they have. Those that all have count. "
      "Rank "
      "3 gives\n"
      "# its set when it has the data of all that live.",
      4, arguments);
  here.deliver(HandFedWorld::is(1, 2, Phase::all_broadcast));
  here.die(1, HandFedWorld::is(Phase::all_broadcast));
  here.deliver(HandFedWorld::is(0, 1, Phase::all_broadcast));
  here.deliver(HandFedWorld::is(0, 2, Phase::all_broadcast));
  here.deliver(HandFedWorld::is(2, 0, Phase::all_broadcast));
  here.deliver(HandFedWorld::is(3, 0, Phase::all_broadcast));
  here.deliver(HandFedWorld::is(3, 2, Phase::all_broadcast));
  here.tell_all(1);
  here.run();
  here.compare("exchange");
}

TEST(Transcripts, Takeover) {
  Transcript here(
      "An allreduce whose root dies when it has told one rank what it decided. The next rank is root, in a ballot of\n"
      "# its own; the rank that knows contributes the decision, which absorbs everything.",
      4, sum_of_words(1));
  here.deliver_all(HandFedWorld::is(Phase::group));
  here.deliver_all(HandFedWorld::is(Phase::up));
  here.deliver(HandFedWorld::is(0, 2, Phase::broadcast));
  here.die(0, HandFedWorld::is(Phase::broadcast));
  here.tell_all(0);
  here.run();
  here.compare("takeover");
}

TEST(Transcripts, CorrectedGossip) {
  Arguments arguments = sum_of_words(1, 0, Kind::broadcast);
  arguments.correction = Correction::checked;
  arguments.gossip = {.time_ns = 300, .interval_ns = 100, .flight_ns = 100, .ask_after_ns = never_asks, .seed = 2};
  Transcript here(
      "A broadcast by checked corrected gossip (CCG). T is three messages of one rank; a flight takes one. Who has "
      "gossiped\n"
      "# goes on along the ring until it has sent to one that it has heard from, on each side.",
      8, arguments);
  while (here.turn()) {}
  here.compare("corrected_gossip");
}

}  // namespace
}  // namespace ucft::detail

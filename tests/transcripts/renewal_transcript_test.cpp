// A renewal, step by step, with a sponsor that dies. The steps are those of RenewalWorld, which runs the objects that
// decide in a real job; this file says in which order they come.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/renewal_world.hpp"
#include "tests/transcripts/kept_text.hpp"

namespace ucft::detail {
namespace {

using simulator::RenewalPlan;
using simulator::RenewalWorld;
using Step = RenewalWorld::Event::Kind;

class RenewalTranscript {
 public:
  RenewalTranscript(const std::string& what, const RenewalPlan& plan) : world_(plan) {
    text_ = fmt::format("# {}\n", what);
  }

  void say(const std::string& line) { text_ += line + "\n"; }
  // The first of those that are possible. process, epoch: -1: whichever.
  void happens(Step step, int process = -1, int epoch = -1) {
    for (const RenewalWorld::Event& event : world_.enabled()) {
      if (event.kind != step || (process >= 0 && event.process != process) || (epoch >= 0 && event.epoch != epoch))
        continue;
      text_ += RenewalWorld::text_of(event);
      world_.carry_out(event);
      ASSERT_EQ(world_.violation(), "");
      const std::string more = world_.detail_of(event);
      text_ += (more.empty() ? "" : ": " + more) + "\n";
      return;
    }
    FAIL() << "not possible: step " << static_cast<int>(step) << " of " << process << "\n" << text_ << world_.text();
  }
  void happens_to(Step step, std::initializer_list<int> processes, int epoch = -1) {
    for (const int each : processes) happens(step, each, epoch);
  }
  void compare(const std::string& name) {
    EXPECT_TRUE(world_.is_quiet(world_.enabled())) << world_.text();
    for (int process = 0; process < world_.processes(); ++process)
      text_ += fmt::format("        {} {}\n", process, world_.standing(process));
    compare_with_kept(text_, name);
  }

 private:
  RenewalWorld world_;
  std::string text_;
};

TEST(Transcripts, Renewal) {
  const RenewalPlan plan{
      .seats = 4, .absent = {3}, .newcomers = 1, .wanted_seat = 3, .deaths = 1, .wanted = 1, .has_limit = false};
  RenewalTranscript here(
      "A renewal whose sponsor dies when its epoch has started on rank 1, and not on rank 2. Rank 1 votes for it, and\n"
      "# sponsors another epoch. The first vote comes to nothing, and the second one agrees.\n"
      "# 4 seats: processes 0, 1 and 2 sit in those of their numbers, and seat 3 is empty. Process 3 is a newcomer.\n"
      "# Survivors wait for one newcomer. Epoch n comes of start n; epoch 0 is the job's first.\n",
      plan);
  here.happens(Step::asks, 3);
  here.happens(Step::begins_start, 0);
  here.happens_to(Step::is_invited, {1, 2, 3}, 1);
  here.happens_to(Step::comes, {0, 1, 2, 3}, 1);
  here.happens(Step::has_started, 1);
  here.happens(Step::has_started, 3);
  here.happens(Step::looks, 1);
  here.happens(Step::dies, 0);
  here.happens(Step::fails_to_start, 2);
  here.happens_to(Step::learns, {1, 2}, 0);
  here.happens(Step::loses_sponsor, 3);
  here.happens(Step::asks, 3);
  here.happens(Step::begins_start, 1);
  here.happens_to(Step::is_invited, {2, 3}, 2);
  here.happens_to(Step::comes, {1, 2, 3}, 2);
  here.happens_to(Step::has_started, {1, 2, 3}, 2);
  here.happens(Step::looks, 2);
  here.happens(Step::decides);
  here.happens_to(Step::takes_result, {1, 2});
  here.happens_to(Step::looks, {1, 2});
  here.happens(Step::decides);
  here.happens_to(Step::takes_result, {1, 2});
  here.happens_to(Step::enters, {1, 2});
  here.happens(Step::decides_barrier, -1, 2);
  here.happens(Step::leaves_barrier, 3, 2);
  here.happens(Step::has_seated, 1);
  here.happens(Step::loses_newcomer, 1);
  here.compare("renewal");
}

}  // namespace
}  // namespace ucft::detail

// allreduce_loop: a sum over all ranks, again and again, while somebody kills some of them.
//
//   ucft_run -n 8 --no-tag --kill 3@500ms --kill 0@1s allreduce_loop 100000
//
// No line of the loop deals with failures: the survivors' calls return UCFT_OK and the right sum. All that is here
// beyond the call itself checks every result on every rank, and tells what has happened. The lowest rank that is left
// tells it: a line for each death, and a table at the end.
//
// Colours: on a terminal, or with CLICOLOR_FORCE=1; never with NO_COLOR.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ucft/ucft.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Ranks = std::vector<std::int32_t>;

constexpr std::int64_t default_iterations = 100000;

// ---- the sums ----

// Rank r contributes this in iteration i. Sums of it are exact.
double contribution(std::int32_t rank, std::int64_t iteration) {
  return static_cast<double>((rank + 1) * (iteration % 1000 + 1));
}

double sum_without(const Ranks& missing, std::int32_t rank_count, std::int64_t iteration) {
  double sum = 0;
  for (std::int32_t rank = 0; rank < rank_count; ++rank) sum += contribution(rank, iteration);
  for (const std::int32_t rank : missing) sum -= contribution(rank, iteration);
  return sum;
}

bool contains(const Ranks& ranks, std::int32_t rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

std::int32_t lowest_without(const Ranks& missing) {
  std::int32_t rank = 0;
  while (contains(missing, rank)) ++rank;
  return rank;
}

// ---- words ----

// {0, 1, 2, 4}: "0-2, 4"
std::string text_of(const Ranks& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last;
  }
  return text.empty() ? "none" : text;
}

std::string text_of(Clock::duration time) {
  const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
  char text[32];
  std::snprintf(text, sizeof text, "%.*f ms", milliseconds < 10 ? 2 : 0, milliseconds);
  return text;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0 && std::strcmp(value, "0") != 0;
}

bool has_colours() {
  if (std::getenv("NO_COLOR") != nullptr) return false;
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
  return is_set("CLICOLOR_FORCE") || (isatty(STDOUT_FILENO) != 0 && !is_dumb);
}

enum class Colour { red = 31, green = 32 };

void say(Colour colour, const std::string& line) {
  static const bool coloured = has_colours();
  if (coloured)
    std::printf("\033[%dm%s\033[0m\n", static_cast<int>(colour), line.c_str());
  else
    std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// ---- what has happened ----

struct Death {
  std::int64_t sum = 0;  // the first one without the rank
  std::string what = "is gone";
};

struct Story {
  std::map<std::int32_t, std::string> failures;  // by rank, as ucft tells of them
  std::map<std::int32_t, Death> deaths;
  Ranks missing;  // from the last sum
  std::int64_t wrong = 0;
  Clock::duration longest_wait{};
};

void note_failure(const ucft_failure_t* failure, void* story) {
  const std::string pid = " (pid " + std::to_string(failure->pid) + ")";
  static_cast<Story*>(story)->failures[failure->rank] =
      (failure->kind == UCFT_FAILURE_PROVED ? "died" : "fell silent") + pid;
}

// The sum is the first one without some ranks; it has taken `wait` at this rank.
void note_deaths(Story& story, const Ranks& missing, std::int64_t sum, Clock::duration wait, std::int32_t me) {
  story.longest_wait = std::max(story.longest_wait, wait);
  for (const std::int32_t rank : missing) {
    if (contains(story.missing, rank)) continue;
    Death& death = story.deaths[rank];
    death.sum = sum;
    if (const auto found = story.failures.find(rank); found != story.failures.end()) death.what = found->second;
    if (me != lowest_without(missing)) continue;
    say(Colour::red, "sum " + std::to_string(sum) + ": rank " + std::to_string(rank) + " " + death.what + "; rank " +
                         std::to_string(me) + " waited " + text_of(wait) + ", and goes on without it");
  }
  story.missing = missing;
}

// ---- the table ----

// Each rank tells of itself at the end, in words that an allgather takes.
constexpr std::size_t fixed_words = 2;  // wrong, longest wait in ns; then the missing ranks as bits

std::vector<std::uint64_t> words_of(const Story& story, std::int32_t rank_count) {
  std::vector<std::uint64_t> words(fixed_words + (static_cast<std::size_t>(rank_count) + 63) / 64);
  words[0] = static_cast<std::uint64_t>(story.wrong);
  words[1] = static_cast<std::uint64_t>(std::chrono::nanoseconds(story.longest_wait).count());
  for (const std::int32_t rank : story.missing)
    words[fixed_words + static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  return words;
}

Ranks missing_in(std::span<const std::uint64_t> words, std::int32_t rank_count) {
  Ranks missing;
  for (std::int32_t rank = 0; rank < rank_count; ++rank)
    if (words[fixed_words + static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) missing.push_back(rank);
  return missing;
}

struct Row {
  Ranks ranks;
  bool survived = true;
  std::string ended_with;
  std::int64_t sums = 0;
  std::uint64_t wrong = 0;
  Ranks missing;
  std::uint64_t longest_wait_ns = 0;

  bool same_but_for_rank(const Row& other) const {
    return survived == other.survived && ended_with == other.ended_with && sums == other.sums && wrong == other.wrong &&
           missing == other.missing;
  }
};

void print_row(const Row& row) {
  const std::string sums = std::to_string(row.sums);
  std::string line(160, ' ');
  const std::string wait = text_of(std::chrono::nanoseconds(row.longest_wait_ns));
  const int length = std::snprintf(
      line.data(), line.size(), "%-14s %-26s %10s %7s   %-12s %s", text_of(row.ranks).c_str(), row.ended_with.c_str(),
      sums.c_str(), row.survived ? std::to_string(row.wrong).c_str() : "-",
      row.survived ? text_of(row.missing).c_str() : "-", row.survived && !row.missing.empty() ? wait.c_str() : "-");
  line.resize(std::min(line.size() - 1, static_cast<std::size_t>(length)));
  say(row.survived && row.wrong == 0 ? Colour::green : Colour::red, line);
}

// Ranks of which the same is to be said share a row.
std::vector<Row> table_of(const Story& story, std::span<const std::uint64_t> all_words, const Ranks& missing_now,
                          std::int32_t rank_count, std::int64_t iterations) {
  std::vector<Row> table;
  const std::size_t stride = all_words.size() / static_cast<std::size_t>(rank_count);
  for (std::int32_t rank = 0; rank < rank_count; ++rank) {
    Row row;
    row.ranks = {rank};
    row.sums = iterations;
    if (const auto death = story.deaths.find(rank); death != story.deaths.end()) {
      row.survived = false;
      row.ended_with = death->second.what;
      row.sums = death->second.sum;
    } else if (contains(missing_now, rank)) {
      row.survived = false;
      row.ended_with = "died after the last sum";
    } else {
      const auto words = all_words.subspan(static_cast<std::size_t>(rank) * stride, stride);
      row.wrong = words[0];
      row.longest_wait_ns = words[1];
      row.missing = missing_in(words, rank_count);
      row.ended_with = row.wrong == 0 ? "right sums" : "WRONG SUMS";
    }
    const auto same = std::ranges::find_if(table, [&](const Row& each) { return each.same_but_for_rank(row); });
    if (same == table.end()) {
      table.push_back(row);
    } else {
      same->ranks.push_back(rank);
      same->longest_wait_ns = std::max(same->longest_wait_ns, row.longest_wait_ns);
    }
  }
  return table;
}

void print_end(const std::vector<Row>& table, std::int32_t rank_count, std::int64_t iterations,
               std::chrono::duration<double> elapsed) {
  std::size_t survivors = 0;
  std::uint64_t wrong = 0;
  std::printf("\n%-14s %-26s %10s %7s   %-12s %s\n", "ranks", "ended with", "sums", "wrong", "missing", "longest wait");
  for (const Row& row : table) {
    print_row(row);
    survivors += row.survived ? row.ranks.size() : 0;
    wrong += row.wrong * row.ranks.size();
  }
  std::printf("\n%zu of %d ranks have all %lld sums, %llu wrong, in %.2f s\n", survivors, rank_count,
              static_cast<long long>(iterations), static_cast<unsigned long long>(wrong), elapsed.count());
}

// ---- the job ----

int run(std::int64_t iterations) {
  Story story;
  ucft::ContextOptions options;
  options.failure_callback = note_failure;
  options.failure_callback_arg = &story;
  ucft::Context context(options);
  ucft::Communicator all(context);
  const std::int32_t me = all.rank();
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < iterations; ++i) {
    const double mine = contribution(me, i);
    double sum = 0;
    const auto called_at = Clock::now();
    const ucft::Result result = all.allreduce(mine, sum, UCFT_SUM);
    if (!result.ok()) {
      std::fprintf(stderr, "rank %d: sum %lld: %s: %s\n", me, static_cast<long long>(i),
                   ucft_status_name(result.status), ucft_last_error());
      return 1;
    }
    if (sum != sum_without(result.missing, all.size(), i)) ++story.wrong;
    if (result.missing != story.missing) note_deaths(story, result.missing, i, Clock::now() - called_at, me);
  }
  const auto elapsed = Clock::now() - begin;

  const auto words = words_of(story, all.size());
  std::vector<std::uint64_t> all_words(words.size() * static_cast<std::size_t>(all.size()));
  const ucft::Result told = all.allgather(words, all_words);
  if (!told.ok()) {
    std::fprintf(stderr, "rank %d: at the end: %s: %s\n", me, ucft_status_name(told.status), ucft_last_error());
    return 1;
  }
  if (me == lowest_without(told.missing))
    print_end(table_of(story, all_words, told.missing, all.size(), iterations), all.size(), iterations, elapsed);
  return story.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::int64_t iterations = default_iterations;
  if (argument_count == 2 && std::strcmp(arguments[1], "--help") == 0) {
    std::printf("usage: allreduce_loop [iterations]    (ucft_run -n 8 --kill 3@1s allreduce_loop 500000)\n");
    return 0;
  }
  if (argument_count > 1) {
    const char* end = arguments[1] + std::strlen(arguments[1]);
    const auto [stop, problem] = std::from_chars(arguments[1], end, iterations);
    if (argument_count > 2 || problem != std::errc() || stop != end || iterations < 0) {
      std::fprintf(stderr, "usage: allreduce_loop [iterations]\n");
      return 2;
    }
  }
  try {
    return run(iterations);
  } catch (const ucft::Error& error) {
    std::fprintf(stderr, "allreduce_loop: %s\n", error.what());
    return 1;
  }
}

#include "bench/disturbance.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "bench/number.hpp"
#include "collectives/core/random.hpp"

#ifndef sigev_notify_thread_id  // glibc before 2.38
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace ucft::detail::bench {

namespace {

constexpr double highest_factor = 1e4, shortest_us = 200, longest_us = 1e7;
constexpr std::uint64_t seed = 1;

// ---- options

double number_in(const std::string& option, std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    throw std::invalid_argument(fmt::format("{}: '{}' is not a number", option, text));
  return value;
}
int whole_in(const std::string& option, std::string_view text, int least) {
  return static_cast<int>(parse_number(option, text, {least, std::numeric_limits<int>::max()}));
}

// ---- stops. The handlers' data are only written while they can't run.

struct Stops {
  timer_t timer{};
  bool exists = false;
  double factor = 1;
  std::int64_t slice_ns = 0, ran_until_ns = 0, owed_ns = 0;  // of a slow rank
  std::int64_t duration_ns = 0;                              // of a noisy rank
};
Stops slow_stops, noise_stops;

constexpr std::int64_t shortest_slice_ns = 200'000, longest_slice_ns = 4 * shortest_slice_ns;

int slow_signal() { return SIGRTMIN + 6; }
int noise_signal() { return SIGRTMIN + 7; }

std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
timespec span_of(std::int64_t ns) { return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000}; }

// How long it has slept: pselect may be called in a handler.
std::int64_t sleep_for(std::int64_t ns) {
  const std::int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
  const timespec span = span_of(ns);
  pselect(0, nullptr, nullptr, nullptr, &span, nullptr);
  return clock_ns(CLOCK_MONOTONIC) - begin_ns;
}

// A rank that waits without a processor is interrupted less and less often.
void stop_slow_rank(int) {
  const int error = errno;
  Stops& stops = slow_stops;
  const std::int64_t ran_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - stops.ran_until_ns;
  stops.owed_ns += std::llround((stops.factor - 1) * static_cast<double>(ran_ns));
  if (stops.owed_ns > 0) stops.owed_ns -= sleep_for(stops.owed_ns);
  stops.slice_ns = ran_ns < stops.slice_ns / 2 ? std::min(2 * stops.slice_ns, longest_slice_ns) : shortest_slice_ns;
  stops.ran_until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const itimerspec next{.it_interval = {}, .it_value = span_of(stops.slice_ns)};
  timer_settime(stops.timer, 0, &next, nullptr);
  errno = error;
}

void stop_noisy_rank(int) {
  const int error = errno;
  const std::int64_t ran_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  sleep_for(noise_stops.duration_ns);
  slow_stops.ran_until_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran_ns;
  errno = error;
}

void begin(Stops& stops, int signal, void (*handler)(int), const itimerspec& when) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, slow_signal());
  sigaddset(&action.sa_mask, noise_signal());
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event.sigev_notify_thread_id = gettid();
  if (sigaction(signal, &action, nullptr) != 0 || timer_create(CLOCK_MONOTONIC, &event, &stops.timer) != 0)
    throw std::system_error(errno, std::generic_category(), "--slow, --noise: a timer");
  stops.exists = true;
  timer_settime(stops.timer, 0, &when, nullptr);
}

void end(Stops& stops, int signal) {
  if (!stops.exists) return;
  ::signal(signal, SIG_IGN);  // one may be on its way
  timer_delete(stops.timer);
  stops = Stops();
}

}  // namespace

double Disturbances::factor(int rank) const {
  const auto found = std::ranges::find(slow, rank, &SlowRank::rank);
  return found == slow.end() ? 1 : found->factor;
}
bool Disturbances::counts(int rank, int rank_count) const {
  if (!is_slow(rank)) return true;
  for (int other = 0; other < rank_count; ++other)
    if (!is_slow(other)) return false;
  return true;
}

std::vector<int> Disturbances::noisy_ranks(int rank_count) const {
  std::vector<int> drawn;
  if (noise.text.empty()) return drawn;
  Random random(seed);
  draw_some(random, noise.ranks == 0 ? rank_count : noise.ranks, rank_count, [&](int rank) { drawn.push_back(rank); });
  return drawn;
}

std::string Disturbances::slow_text() const {
  std::vector<std::string> texts;
  for (const SlowRank& each : slow) texts.push_back(fmt::format("{}@{:g}", each.rank, each.factor));
  return fmt::format("{}", fmt::join(texts, ","));
}

std::string Disturbances::header(int rank_count) const {
  std::string text;
  for (const SlowRank& each : slow)
    text += fmt::format("# slow: rank {} takes {:g} times as long\n", each.rank, each.factor);
  if (!slow.empty()) text += "# times: of the ranks that are not slow\n";
  if (!noise.text.empty())
    text += fmt::format("# noise: {:g} us of each {:g} us, of ranks {}\n", noise.duration_us, noise.period_us,
                        fmt::join(noisy_ranks(rank_count), ", "));
  return text;
}

SlowRank parse_slow(const std::string& text) {
  const std::string option = "--slow " + text;
  const auto at = text.find('@');
  if (at == std::string::npos) throw std::invalid_argument(option + ": expected RANK@FACTOR, e.g. 3@10");
  const std::string_view view(text);
  const SlowRank slow{whole_in(option + ": rank", view.substr(0, at), 0),
                      number_in(option + ": factor", view.substr(at + 1))};
  if (slow.factor < 1 || slow.factor > highest_factor)
    throw std::invalid_argument(fmt::format("{}: a rank takes 1 to {:g} times as long", option, highest_factor));
  return slow;
}

Noise parse_noise(const std::string& text) {
  const std::string option = "--noise " + text;
  const auto colon = text.find(':'), at = text.find('@');
  if (colon == std::string::npos || at < colon)
    throw std::invalid_argument(option + ": expected PERIOD:DURATION or PERIOD:DURATION@RANKS, in us, e.g. 1000:25@2");
  const std::string_view view(text);
  Noise noise{text, number_in(option + ": period", view.substr(0, colon)),
              number_in(option + ": duration", view.substr(colon + 1, at == std::string::npos ? at : at - colon - 1)),
              0};
  if (at != std::string::npos) noise.ranks = whole_in(option + ": ranks", view.substr(at + 1), 1);
  if (!(noise.duration_us > 0 && noise.duration_us < noise.period_us))
    throw std::invalid_argument(option + ": the duration is above 0 and below the period");
  if (noise.period_us - noise.duration_us < shortest_us || noise.period_us > longest_us)
    throw std::invalid_argument(fmt::format("{}: a period is {:g} us longer than its duration, and {:g} us at most",
                                            option, shortest_us, longest_us));
  return noise;
}

std::string problem_with(const Disturbances& disturbances, int rank_count) {
  for (std::size_t i = 0; i < disturbances.slow.size(); ++i) {
    const SlowRank& each = disturbances.slow[i];
    if (each.rank >= rank_count) return fmt::format("--slow: rank {} of {} ranks", each.rank, rank_count);
    for (std::size_t before = 0; before < i; ++before)
      if (disturbances.slow[before].rank == each.rank) return fmt::format("--slow: rank {} twice", each.rank);
  }
  if (disturbances.noise.ranks > rank_count)
    return fmt::format("--noise {}: there are {} ranks", disturbances.noise.text, rank_count);
  return "";
}

Disturbed::Disturbed(const Disturbances& disturbances, int rank, int rank_count) {
  const std::vector<int> noisy = disturbances.noisy_ranks(rank_count);
  const bool is_noisy = std::ranges::find(noisy, rank) != noisy.end();
  if (!disturbances.is_slow(rank) && !is_noisy) return;
  prctl(PR_SET_TIMERSLACK, 1UL);  // else sleeps are 50 us longer
  if (is_noisy) {
    const Noise& noise = disturbances.noise;
    noise_stops.duration_ns = std::llround(1000 * noise.duration_us);
    const auto period_ns = std::llround(1000 * noise.period_us);
    const double phase = Random(mixed(seed, static_cast<std::uint64_t>(rank))).fraction();
    begin(noise_stops, noise_signal(), stop_noisy_rank,
          {.it_interval = span_of(period_ns),
           .it_value = span_of(1 + std::llround(phase * static_cast<double>(period_ns)))});
  }
  if (disturbances.is_slow(rank)) {
    slow_stops.factor = disturbances.factor(rank);
    slow_stops.slice_ns = shortest_slice_ns;
    slow_stops.ran_until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    begin(slow_stops, slow_signal(), stop_slow_rank, {.it_interval = {}, .it_value = span_of(shortest_slice_ns)});
  }
}

Disturbed::~Disturbed() {
  end(slow_stops, slow_signal());
  end(noise_stops, noise_signal());
}

}  // namespace ucft::detail::bench

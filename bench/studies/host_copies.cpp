// Ways to give a payload to the other core, side by side. Each of two processes stages its own in shared memory, then
// reads the other's. Where lines come from another core's cache, storing to them takes most of the time. The fastest
// way depends on the distance of the cores (stage() in ucx_layer/runtime/engines/host_engine.cpp chooses).
//
//   host_copies [BYTES [ITERATIONS [TURNS]]]
//
//   pieces    memcpy of 1 KiB after 1 KiB          whole     one memcpy
//   copy      host_copy()                          stream    staged by host_stream(), read by host_copy()
//
// A line of JSON per way: us to stage, to read, and of an exchange with its two meetings. These are medians of the
// turns, in which the ways take turns. The data that were read are checked.
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collectives/on_host/host_copy.hpp"

namespace {

using namespace ucft::detail;

void copy_pieces(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes; done += 1024)
    std::memcpy(to + done, from + done, std::min<std::uint64_t>(1024, bytes - done));
}
void copy_whole(std::byte* to, const std::byte* from, std::uint64_t bytes) { std::memcpy(to, from, bytes); }

using Copy = void (*)(std::byte*, const std::byte*, std::uint64_t);
struct Way {
  const char* name;
  Copy stages, reads;
};
constexpr Way ways[] = {{"pieces", copy_pieces, copy_pieces},
                        {"whole", copy_whole, copy_whole},
                        {"copy", host_copy, host_copy},
                        {"stream", host_stream, host_copy}};
constexpr std::size_t banks = 2;

struct alignas(64) Arrived {
  std::atomic<std::uint64_t> times;
};
struct Times {
  double stage = 0, read = 0, all = 0;
};

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Member {
 public:
  Member(int me, Arrived* arrived, std::byte* memory, std::size_t bytes)
      : me_(me), arrived_(arrived), memory_(memory), in_(bytes), out_(bytes) {}

  Times run(const Way& way, long iterations) {
    Times sum;
    meet();
    const double begin = now_us();
    for (long i = 0; i < iterations; ++i) {
      const auto mark = static_cast<std::byte>(++marks_);
      in_.front() = in_.back() = mark;
      const double start = now_us();
      way.stages(place(me_), in_.data(), in_.size());
      const double staged = now_us();
      meet();
      const double met = now_us();
      way.reads(out_.data(), place(1 - me_), out_.size());
      sum.read += now_us() - met;
      sum.stage += staged - start;
      if (out_.front() != mark || out_.back() != mark) is_right_ = false;
      bank_ = (bank_ + 1) % banks;
    }
    const auto n = static_cast<double>(iterations);
    return {sum.stage / n, sum.read / n, (now_us() - begin) / n};
  }
  bool is_right() const { return is_right_; }

 private:
  std::byte* place(int who) { return memory_ + (static_cast<std::size_t>(who) * banks + bank_) * in_.size(); }
  void meet() {
    arrived_[me_].times.store(++met_, std::memory_order_release);
    while (arrived_[1 - me_].times.load(std::memory_order_acquire) < met_) {}
  }

  const int me_;
  Arrived* const arrived_;
  std::byte* const memory_;
  std::vector<std::byte> in_, out_;
  std::size_t bank_ = 0;
  std::uint64_t met_ = 0;
  unsigned marks_ = 0;
  bool is_right_ = true;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  const long bytes = count > 1 ? std::atol(arguments[1]) : 65536,
             iterations = count > 2 ? std::atol(arguments[2]) : 200, turns = count > 3 ? std::atol(arguments[3]) : 25;
  if (count > 4 || bytes < 1 || iterations < 1 || turns < 1) {
    fmt::print(stderr, "usage: host_copies [BYTES [ITERATIONS [TURNS]]]\n");
    return 2;
  }
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory =
      mmap(nullptr, 2 * sizeof(Arrived) + 2 * banks * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fmt::print(stderr, "host_copies: no shared memory\n");
    return 1;
  }
  const pid_t child = fork();
  if (child < 0) {
    fmt::print(stderr, "host_copies: no second process\n");
    return 1;
  }
  auto* const arrived = static_cast<Arrived*>(memory);
  Member member(child == 0, arrived, static_cast<std::byte*>(memory) + 2 * sizeof(Arrived), size);
  std::vector<Times> times[std::size(ways)];
  for (long turn = -1; turn < turns; ++turn)
    for (std::size_t way = 0; way < std::size(ways); ++way) {
      const Times measured = member.run(ways[way], turn < 0 ? static_cast<long>(banks) : iterations);
      if (turn >= 0) times[way].push_back(measured);
    }
  if (child == 0) std::_Exit(member.is_right() ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  for (std::size_t way = 0; way < std::size(ways); ++way) {
    const auto middle = [&](double Times::*of) {
      std::vector<double> all;
      for (const Times& each : times[way]) all.push_back(each.*of);
      return median(all);
    };
    fmt::print("{{\"way\":\"{}\",\"bytes\":{},\"stage_us\":{:.3f},\"read_us\":{:.3f},\"exchange_us\":{:.3f}}}\n",
               ways[way].name, bytes, middle(&Times::stage), middle(&Times::read), middle(&Times::all));
  }
  if (!member.is_right() || status != 0) fmt::print(stderr, "host_copies: what was read is wrong\n");
  return member.is_right() && status == 0 ? 0 : 1;
}

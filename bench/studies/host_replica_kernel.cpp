// The processor time of one long allreduce on a rank that does not speak for its host: a replica, which reads its
// host's journal. All hosts run in this process, by the objects of the library (HostMember), and exchange packets in
// their order. Then the journal of host 0 is read again and again, by replicas of two kinds.
//
//   host_replica_kernel --hosts 1024 --ranks-per-host 96 --bytes 1048576
//
//   named      as the library does it: long values have names, and the result is copied from where the speaker has it
//   computing  each replica does all sums itself
//
// A line of JSON for each kind: entries of the journal, and us of the processor for each operation (the median).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <vector>

#include "collectives/among/host_member.hpp"
#include "simulator/kept_entry.hpp"

using namespace ucft::detail;

namespace {

std::vector<std::unique_ptr<std::byte[]>> chunks;

std::byte* allocate(void*, std::size_t bytes) {
  chunks.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return chunks.back().get();
}

// As a host's ranks read it: payloads stay where they are.
struct KeptJournal final : Journal {
  explicit KeptJournal(Buffers& of) : buffers(of) {}
  void append(std::uint64_t, const JournalEntry& entry) override { entries.emplace_back(entry); }
  const JournalEntry* at(std::uint64_t position) override {
    if (position >= entries.size()) return nullptr;
    JournalEntry& entry = entries[position].entry;
    const auto lent = [&](std::span<const std::byte> bytes) {
      return bytes.empty() ? Slice{} : buffers.whole(buffers.adopt(bytes.data(), bytes.size(), 0));
    };
    if (lends && !entry.block) entry.block = lent(entry.value);
    if (lends && !entry.contribution.block) entry.contribution.block = lent(entry.contribution.value);
    return &entry;
  }
  Buffers& buffers;
  std::deque<simulator::KeptEntry> entries;
  bool lends = false;
};

struct Caller final : HostMember::Caller {
  void on_completed(OperationNumber call, OperationNumber, std::span<const std::byte> value) override {
    if (call == HostProcess::internal) return;
    std::memcpy(receive.data(), value.data(), value.size());
    is_done = true;
  }
  explicit Caller(std::size_t bytes) : receive(bytes) {}
  std::vector<std::byte> receive;
  bool is_done = false;
};

HostContribution contribution_of(Host host, std::vector<double>& input) {
  std::ranges::fill(input, host + 1.0);
  HostContribution mine;
  mine.arguments.kind = Kind::allreduce;
  mine.arguments.reduction = {DataType::float64, Operator::sum};
  mine.arguments.count = input.size();
  mine.arguments.f = 1;
  mine.value = std::as_bytes(std::span(input));
  mine.contributors = 1;
  mine.has_value = true;
  return mine;
}

double processor_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

}  // namespace

int main(int count, char** texts) {
  int hosts = 1024, ranks_per_host = 96, repetitions = 21;
  std::uint64_t bytes = 1 << 20;
  CLI::App options("processor time of a rank that does not speak for its host, of one allreduce");
  options.add_option("--hosts", hosts)->check(CLI::Range(2, 4096));
  options.add_option("--ranks-per-host", ranks_per_host)->check(CLI::Range(2, 1024));
  options.add_option("--bytes", bytes, "of the payload")->check(CLI::Range(8, 1 << 28));
  options.add_option("--repetitions", repetitions)->check(CLI::Range(1, 10000));
  CLI11_PARSE(options, count, texts);

  Buffers buffers({&allocate, nullptr, 1 << 20});
  std::vector<Host> host_of;
  for (Rank rank = 0; rank < hosts * ranks_per_host; ++rank) host_of.push_back(rank / ranks_per_host);
  std::vector<double> input(bytes / sizeof(double));
  const std::size_t payload = input.size() * sizeof(double);

  KeptJournal journal(buffers);
  std::vector<OwnJournal> journals(static_cast<std::size_t>(hosts));
  Caller caller(payload);
  std::vector<std::unique_ptr<HostMember>> members;
  for (Host host = 0; host < hosts; ++host)
    members.push_back(std::make_unique<HostMember>(
        HostMember::Place{host * ranks_per_host, &host_of, 8, true},
        host == 0 ? static_cast<Journal&>(journal) : journals[static_cast<std::size_t>(host)], caller, buffers));
  struct Flight {
    Rank from;
    HostMember::Packet packet;
  };
  std::deque<Flight> flights;
  const auto collect = [&](Host host) {
    std::vector<HostMember::Packet>& outbox = members[static_cast<std::size_t>(host)]->outbox();
    for (const HostMember::Packet& packet : outbox) flights.push_back({host * ranks_per_host, packet});
    outbox.clear();
  };
  for (Host host = 0; host < hosts; ++host) {
    members[static_cast<std::size_t>(host)]->on_contribution(contribution_of(host, input));
    collect(host);
  }
  while (!flights.empty()) {
    auto [from, packet] = flights.front();
    flights.pop_front();
    const Host to = host_of[static_cast<std::size_t>(packet.to)];
    packet.message.peer = from / ranks_per_host;
    members[static_cast<std::size_t>(to)]->on_packet(from, packet.place, packet.message);
    buffers.release(packet.message.value);
    buffers.release(packet.message.list);
    collect(to);
  }
  const double sum = hosts * (hosts + 1.0) / 2;
  const auto* result = reinterpret_cast<const double*>(caller.receive.data());
  if (!caller.is_done || !std::all_of(result, result + input.size(), [&](double each) { return each == sum; })) {
    fmt::print(stderr, "host_replica_kernel: the sum is wrong\n");
    return 1;
  }

  journal.lends = true;
  for (const bool names : {true, false}) {
    std::vector<double> us;
    for (int i = 0; i < repetitions + 1; ++i) {  // the first one finds its memory
      Caller own(payload);
      auto replica = std::make_unique<HostMember>(HostMember::Place{1, &host_of, 8, true}, journal, own, buffers);
      if (!names) replica->process().compute();
      const double begin = processor_us();
      replica->look();
      us.push_back(processor_us() - begin);
      if (!own.is_done || own.receive != caller.receive) {
        fmt::print(stderr, "host_replica_kernel: a replica has another result\n");
        return 1;
      }
      replica->release_all();
      replica->release_rooms();
    }
    us.erase(us.begin());
    std::ranges::nth_element(us, us.begin() + repetitions / 2);
    fmt::print("{{\"kind\":\"{}\",\"hosts\":{},\"ranks_per_host\":{},\"bytes\":{},\"entries\":{},\"us\":{:.1f}}}\n",
               names ? "named" : "computing", hosts, ranks_per_host, payload, journal.entries.size(),
               us[static_cast<std::size_t>(repetitions / 2)]);
  }
  return 0;
}

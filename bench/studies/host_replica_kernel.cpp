// The processor time of one long allreduce on a rank that does not speak for its host: a replica, which reads its
// host's journal. All hosts run in this process, by the objects of the library (ProcessMember), and exchange packets in
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

#include "collectives/among/process_member.hpp"
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
    ProcessContribution* const mine = entries[position].contribution.get();
    const auto lent = [&](std::span<const std::byte> bytes) {
      return bytes.empty() ? Slice{} : buffers.whole(buffers.adopt(bytes.data(), bytes.size(), 0));
    };
    if (lends && !entry.block) entry.block = lent(entry.value);
    if (lends && mine != nullptr && !mine->block) mine->block = lent(mine->value);
    return &entry;
  }
  Buffers& buffers;
  std::deque<simulator::KeptEntry> entries;
  bool lends = false;
};

struct Caller final : ProcessMember::Caller {
  void on_completed(OperationNumber call, OperationNumber, std::span<const std::byte> value) override {
    if (call == ProcessReplica::internal) return;
    std::memcpy(receive.data(), value.data(), value.size());
    is_done = true;
  }
  void on_given_up(Rank) override {}
  explicit Caller(std::size_t bytes) : receive(bytes) {}
  std::vector<std::byte> receive;
  bool is_done = false;
};

ProcessContribution contribution_of(Host host, std::vector<double>& input) {
  std::ranges::fill(input, host + 1.0);
  ProcessContribution mine;
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

struct Options {
  int hosts = 1024, ranks_per_host = 96, repetitions = 21;
  std::uint64_t bytes = 1 << 20;
};

// The allreduce: each host's first rank speaks for it.
class Hosts {
 public:
  explicit Hosts(const Options& options)
      : options_(options),
        input_(options.bytes / sizeof(double)),
        buffers_({&allocate, nullptr, 1 << 20}),
        journal_(buffers_),
        journals_(static_cast<std::size_t>(options.hosts)),
        caller_(payload()) {
    for (Rank rank = 0; rank < options.hosts * options.ranks_per_host; ++rank)
      host_of_.push_back(rank / options.ranks_per_host);
    for (Host host = 0; host < options.hosts; ++host)
      members_.push_back(std::make_unique<ProcessMember>(
          place_of(host * options.ranks_per_host),
          host == 0 ? static_cast<Journal&>(journal_) : journals_[static_cast<std::size_t>(host)], caller_, buffers_));
    for (Host host = 0; host < options.hosts; ++host) {
      members_[static_cast<std::size_t>(host)]->on_contribution(contribution_of(host, input_));
      collect(host);
    }
    while (!flights_.empty()) deliver();
    journal_.lends = true;
  }

  std::size_t payload() const { return input_.size() * sizeof(double); }
  std::size_t entries() const { return journal_.entries.size(); }
  bool is_right() const {
    const double sum = options_.hosts * (options_.hosts + 1.0) / 2;
    const auto* result = reinterpret_cast<const double*>(caller_.receive.data());
    return caller_.is_done && std::all_of(result, result + input_.size(), [&](double each) { return each == sum; });
  }

  // us of the processor for a new replica of host 0; below 0: it has another result.
  double read(bool names) {
    Caller own(payload());
    ProcessMember replica(place_of(1), journal_, own, buffers_);
    if (!names) replica.process().compute();
    const double begin = processor_us();
    replica.look();
    const double us = processor_us() - begin;
    replica.release_all();
    replica.release_rooms();
    return own.is_done && own.receive == caller_.receive ? us : -1;
  }

 private:
  struct Flight {
    Rank from;
    ProcessMember::Packet packet;
  };

  ProcessMember::Place place_of(Rank rank) const { return {rank, &host_of_, 8, true}; }
  void collect(Host host) {
    std::vector<ProcessMember::Packet>& outbox = members_[static_cast<std::size_t>(host)]->outbox();
    for (const ProcessMember::Packet& packet : outbox) flights_.push_back({host * options_.ranks_per_host, packet});
    outbox.clear();
  }
  void deliver() {
    auto [from, packet] = flights_.front();
    flights_.pop_front();
    const Host to = host_of_[static_cast<std::size_t>(packet.to)];
    packet.message.peer = host_of_[static_cast<std::size_t>(from)];
    members_[static_cast<std::size_t>(to)]->on_packet(from, packet.place, packet.message);
    buffers_.release(packet.message.value);
    buffers_.release(packet.message.list);
    collect(to);
  }

  const Options options_;
  std::vector<double> input_;
  std::vector<Host> host_of_;
  Buffers buffers_;
  KeptJournal journal_;  // of host 0
  std::vector<OwnJournal> journals_;
  Caller caller_;
  std::vector<std::unique_ptr<ProcessMember>> members_;
  std::deque<Flight> flights_;
};

int fail(const char* why) {
  fmt::print(stderr, "host_replica_kernel: {}\n", why);
  return 1;
}

}  // namespace

int main(int count, char** texts) {
  Options options;
  CLI::App app("processor time of a rank that does not speak for its host, of one allreduce");
  app.add_option("--hosts", options.hosts)->check(CLI::Range(2, 4096));
  app.add_option("--ranks-per-host", options.ranks_per_host)->check(CLI::Range(2, 1024));
  app.add_option("--bytes", options.bytes, "of the payload")->check(CLI::Range(8, 1 << 28));
  app.add_option("--repetitions", options.repetitions)->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, count, texts);

  Hosts hosts(options);
  if (!hosts.is_right()) return fail("the sum is wrong");
  for (const bool names : {true, false}) {
    hosts.read(names);  // finds its memory
    std::vector<double> us;
    for (int i = 0; i < options.repetitions; ++i) us.push_back(hosts.read(names));
    if (std::ranges::min(us) < 0) return fail("a replica has another result");
    const auto median = us.begin() + options.repetitions / 2;
    std::ranges::nth_element(us, median);
    fmt::print("{{\"kind\":\"{}\",\"hosts\":{},\"ranks_per_host\":{},\"bytes\":{},\"entries\":{},\"us\":{:.1f}}}\n",
               names ? "named" : "computing", options.hosts, options.ranks_per_host, hosts.payload(), hosts.entries(),
               *median);
  }
  return 0;
}

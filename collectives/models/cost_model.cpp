#include "collectives/models/cost_model.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "collectives/topology/reduce_topology.hpp"

namespace ucft::detail {

namespace {

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
  line.remove_prefix(word.size());
  return word;
}

// "" or what is wrong with this line.
std::string parse_line(std::string_view line, LogGP& costs, std::vector<std::string_view>& seen) {
  const std::string_view name = next_word(line);
  if (name.empty()) return "";
  double* target = name == "L"           ? &costs.latency
                   : name == "o_send"    ? &costs.send_overhead
                   : name == "o_receive" ? &costs.receive_overhead
                   : name == "g"         ? &costs.gap
                   : name == "G"         ? &costs.gap_per_byte
                                         : nullptr;
  if (target == nullptr && name != "o")
    return "'" + std::string(name) + "' is no parameter: L, o, o_send, o_receive, g or G";
  const std::string value(next_word(line)), more(next_word(line));
  if (value.empty()) return std::string(name) + " has no value";
  if (!more.empty()) return "'" + more + "' after the value of " + std::string(name);
  double number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (problem != std::errc() || end != value.data() + value.size())
    return std::string(name) + ": '" + value + "' is no number";
  if (!std::isfinite(number) || number < 0) return std::string(name) + ": " + value + " must be 0 or more, and finite";
  if (std::find(seen.begin(), seen.end(), name) != seen.end()) return std::string(name) + " is given twice";
  seen.push_back(name);
  if (target != nullptr)
    *target = number;
  else
    costs.send_overhead = costs.receive_overhead = number;
  return "";
}

// One receiver's port: messages in the order of their arrival, one after the other.
class Receiver {
 public:
  explicit Receiver(const LogGP& costs) : costs_(costs) {}
  double take(double arrival) {
    const double begin = std::max(arrival, free_);
    free_ = begin + costs_.per_receive();
    return begin + costs_.receive_overhead;
  }

 private:
  const LogGP& costs_;
  double free_ = 0;
};

class Predictor {
 public:
  Predictor(const Arguments& arguments, std::int32_t size, const LogGP& costs, std::uint64_t bytes)
      : arguments_(arguments),
        size_(size),
        costs_(costs),
        stretch_(costs.stretch(bytes)),
        ports_(static_cast<std::size_t>(size)) {}

  // When the root has the result. Children have higher numbers than their parent.
  double reduce() {
    const ReduceTopology topology(size_, arguments_.f);
    std::vector<std::vector<double>> arrivals(static_cast<std::size_t>(size_));  // of `up`, at the receiver's port
    std::vector<std::int32_t> group;
    for (std::int32_t process = size_ - 1; process >= 0; --process) {
      topology.group_members(process, group);
      std::vector<double>& ups = arrivals[static_cast<std::size_t>(process)];
      const double ready =
          process == 0 ? root_ready(topology, group, ups) : member_ready(topology, process, group, ups);
      Port& port = ports_[static_cast<std::size_t>(process)];
      port.group_sent = static_cast<double>(group.size() - 1) * (costs_.per_message() + stretch_);
      if (process == 0) return ready;
      const double up_stretch = topology.in_short_group(process) ? 0 : stretch_;  // such a member passes nothing up
      port.up_begins = std::max(ready, port.group_sent);
      port.up_sent = port.up_begins + costs_.per_message() + up_stretch;
      arrivals[static_cast<std::size_t>(topology.parent(process))].push_back(port.up_begins + costs_.send_overhead +
                                                                             up_stretch + costs_.latency);
      ups = {};
    }
    return 0;
  }
  // When the last process has it; the root has it at `begin`.
  double broadcast(double begin) {
    const BroadcastTopology tree(arguments_.shape, size_);
    std::vector<std::int32_t> children;
    ports_[0].informed = begin;
    double last = begin;
    for (std::int32_t process = 0; process < size_; ++process) {
      const Port& port = ports_[static_cast<std::size_t>(process)];
      last = std::max(last, port.informed);
      // A rank that hears of the result before it has passed its sum up sends an empty one, and goes on.
      double first = std::max(port.informed, port.up_sent);
      if (port.up_begins > port.informed) first = std::max(port.informed, port.group_sent) + costs_.per_message();
      if (process == 0) first = std::max(port.informed, port.group_sent);
      tree.children(process, children);
      for (std::size_t i = 0; i < children.size(); ++i)
        ports_[static_cast<std::size_t>(children[i])].informed =
            first + static_cast<double>(i) * (costs_.per_message() + stretch_) + costs_.delivery() + stretch_;
    }
    return last;
  }

 private:
  // When a process's port is done with what, and when it has the result.
  struct Port {
    double group_sent = 0, up_begins = 0, up_sent = 0, informed = 0;
  };

  // The group's messages arrive in the order of their places in their senders' lists.
  std::vector<double> group_arrivals(std::int32_t process, const std::vector<std::int32_t>& group) const {
    std::vector<double> all;
    for (std::size_t sender = 0; sender < group.size(); ++sender) {
      if (group[sender] == process) continue;
      const auto mine = static_cast<std::size_t>(std::find(group.begin(), group.end(), process) - group.begin());
      const std::size_t place = mine - (mine > sender);
      all.push_back(static_cast<double>(place) * (costs_.per_message() + stretch_) + costs_.send_overhead + stretch_ +
                    costs_.latency);
    }
    return all;
  }
  double member_ready(const ReduceTopology& topology, std::int32_t process, const std::vector<std::int32_t>& group,
                      const std::vector<double>& ups) const {
    if (topology.in_short_group(process)) return 0;
    std::vector<double> all = group_arrivals(process, group);
    all.insert(all.end(), ups.begin(), ups.end());
    std::sort(all.begin(), all.end());
    Receiver receiver(costs_);
    double ready = 0;
    for (double arrival : all) ready = receiver.take(arrival);
    return ready;
  }
  // Its group, and the first child.
  double root_ready(const ReduceTopology& topology, const std::vector<std::int32_t>& group,
                    const std::vector<double>& ups) const {
    struct Arrival {
      double time;
      bool is_up;
    };
    std::vector<Arrival> all;
    for (double time : group_arrivals(0, group)) all.push_back({time, false});
    for (double time : ups) all.push_back({time, true});
    std::sort(all.begin(), all.end(), [](const Arrival& a, const Arrival& b) { return a.time < b.time; });
    std::size_t missing = group.size() - 1;
    bool has_child = topology.complete_groups() == 0;
    Receiver receiver(costs_);
    double now = 0;
    for (const Arrival& arrival : all) {
      if (missing == 0 && has_child) break;
      now = receiver.take(arrival.time);
      if (arrival.is_up)
        has_child = true;
      else
        --missing;
    }
    return now;
  }

  const Arguments& arguments_;
  std::int32_t size_;
  const LogGP& costs_;
  double stretch_;
  std::vector<Port> ports_;
};

}  // namespace

bool parse_costs(std::string_view text, LogGP& costs, std::string& error) {
  LogGP read = costs;
  std::vector<std::string_view> seen;
  int number = 0;
  while (!text.empty()) {
    ++number;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::string problem = parse_line(line, read, seen);
    if (problem.empty()) continue;
    error = std::to_string(number) + ": " + problem;
    return false;
  }
  if (seen.empty()) {
    error = "1: no parameter in this file";
    return false;
  }
  costs = read;
  return true;
}

std::int32_t delay_quarters_of(const LogGP& costs, std::uint64_t bytes) {
  const double stretch = costs.stretch(bytes), between = costs.per_message() + stretch;
  if (between <= 0) return highest_delay_quarters;
  const double quarters = std::round(4 * (costs.delivery() + stretch) / between);
  return static_cast<std::int32_t>(std::clamp<double>(quarters, lowest_delay_quarters, highest_delay_quarters));
}

BroadcastShape best_shape(const LogGP& costs, std::uint64_t bytes) {
  BroadcastShape shape;
  shape.tree = Tree::optimal;
  shape.delay_quarters = delay_quarters_of(costs, bytes);
  return shape;
}

double predict_latency(const Arguments& arguments, std::int32_t size, const LogGP& costs, std::uint64_t bytes) {
  Predictor predictor(arguments, size, costs, arguments.row().has_data() ? bytes : 0);
  if (!arguments.row().collects) return predictor.broadcast(0);
  const double reduced = predictor.reduce();
  return arguments.row().disseminates ? predictor.broadcast(reduced) : reduced;
}

std::int64_t predict_messages(const Arguments& arguments, std::int32_t size) {
  std::int64_t messages = 0;
  if (arguments.row().collects) messages += ReduceTopology(size, arguments.f).messages_without_failure();
  if (arguments.row().disseminates) messages += size - 1;
  return messages;
}

}  // namespace ucft::detail

#include "simulator/judge/history.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace ucft::judge {
namespace {

using Json = nlohmann::json;

constexpr const char* kind_names[] = {"allreduce",      "reduce",  "broadcast", "allgather", "gather",
                                      "reduce_scatter", "scatter", "alltoall",  "scan",      "exscan",
                                      "barrier",        "agree",   "split",     "dup",       "leave",
                                      "destroy",        "send",    "receive",   "quorum",    "gossip"};

Kind kind_of(const std::string& name) {
  const auto* const found = std::ranges::find(kind_names, name);
  if (found == std::end(kind_names)) throw std::runtime_error("no kind of call: " + name);
  return static_cast<Kind>(found - std::begin(kind_names));
}

std::string hex(const std::vector<std::uint8_t>& bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) text += {digits[byte >> 4], digits[byte & 15]};
  return text;
}

std::vector<std::uint8_t> bytes_of_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, bytes[i], 16);
    if (error != std::errc() || end != text.data() + 2 * i + 2) throw std::runtime_error("no hexadecimal digits");
  }
  return bytes;
}

}  // namespace

// Found by nlohmann-json.
static void to_json(Json& to, const Block& block) { to = {block.count, block.hash, hex(block.sampled)}; }
static void from_json(const Json& from, Block& block) {
  block = {from.at(0).get<std::uint64_t>(), from.at(1).get<std::uint64_t>(), bytes_of_hex(from.at(2))};
}

namespace {

template <class T>
void take(const Json& line, const char* name, T& value) {
  if (line.contains(name)) value = line[name].get<T>();
}

// visit(name, member) for each that is known when a call begins, and ends.
template <class Visit>
void for_each_of_begin(Visit visit) {
  visit("communicator", &Call::communicator);
  visit("rank", &Call::rank);
  visit("size", &Call::size);
  visit("root", &Call::root);
  visit("tag", &Call::tag);
  visit("dtype", &Call::dtype);
  visit("op", &Call::op);
  visit("f", &Call::f);
  visit("uniform", &Call::uniform);
  visit("differs", &Call::differs);
  visit("failure_info", &Call::failure_info);
  visit("colour", &Call::colour);
  visit("key", &Call::key);
  visit("quorum", &Call::quorum);
  visit("given", &Call::given);
  visit("before", &Call::before);
}
template <class Visit>
void for_each_of_end(Visit visit) {
  visit("contributors", &Call::contributors);
  visit("late", &Call::late);
  visit("is_late", &Call::is_late);
  visit("got", &Call::got);
  visit("made", &Call::made);
  visit("made_rank", &Call::made_rank);
  visit("made_size", &Call::made_size);
  visit("source", &Call::source);
  visit("source_tag", &Call::source_tag);
  visit("bound", &Call::bound);
  visit("answer", &Call::answer);
}

// Only what differs from an empty call is written.
auto putting(Json& line, const Call& call) {
  return [&](const char* name, auto member) {
    if (static const Call usual; call.*member != usual.*member) line[name] = call.*member;
  };
}
auto taking(const Json& line, Call& call) {
  return [&](const char* name, auto member) { take(line, name, call.*member); };
}

void take_begin(const Json& line, Call& call) {
  call.kind = kind_of(line.at("kind"));
  for_each_of_begin(taking(line, call));
  call.began_at = line.at("at");
}

void take_end(const Json& line, Call& call) {
  call.status = line.at("status").get<ucft_status_t>();
  if (line.contains("missing")) call.missing = line["missing"].get<std::vector<std::int32_t>>();
  for_each_of_end(taking(line, call));
  call.ended_at = line.at("at");
}

void take_line(const Json& line, RankHistory& history) {
  history.last_at = line.at("at");
  if (line.contains("ranks")) {
    take(line, "rank", history.rank);
    take(line, "ranks", history.ranks);
    take(line, "host", history.host);
    take(line, "f", history.f);
    take(line, "reads_memory", history.reads_memory);
    history.began_at = history.last_at;
  } else if (line.contains("call")) {
    if (line["call"] != history.calls.size()) throw std::runtime_error("calls are not numbered in their order");
    take_begin(line, history.calls.emplace_back());
  } else if (line.contains("end")) {
    Call& call = history.calls.at(line["end"].get<std::size_t>());
    if (call.has_ended()) throw std::runtime_error("a call ends twice");
    take_end(line, call);
  } else {
    history.is_over = line.at("over").get<bool>();
  }
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

}  // namespace

const char* name_of(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::vector<std::uint64_t> sampled_places(std::uint64_t count) {
  constexpr std::uint64_t few = 24, part = few / 3;
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < std::min(count, few); ++i) {
    if (count <= few || i < part)
      places.push_back(i);
    else if (i < 2 * part)
      places.push_back(part + (i - part) * ((count - 2 * part) / part));
    else
      places.push_back(count - few + i);
  }
  return places;
}

std::size_t bytes_of(ucft_dtype_t dtype) {
  constexpr std::size_t sizes[] = {4, 8, 4, 8, 8, 1, 1, 2, 2, 4, 2, 2, 8, 16, 1, 8, 16, 8, 16, 16, 896};
  return sizes[static_cast<std::size_t>(dtype)];
}

Block block_of(const void* memory, std::uint64_t count, ucft_dtype_t dtype) {
  const auto* const bytes = static_cast<const std::uint8_t*>(memory);
  const std::size_t each = bytes_of(dtype), all = count * each;
  Block block{count, 0x243f6a8885a308d3ull, {}};
  std::size_t i = 0;
  for (std::uint64_t word; i + sizeof word <= all; i += sizeof word) {
    std::memcpy(&word, bytes + i, sizeof word);
    block.hash = mixed(block.hash, word);
  }
  for (; i < all; ++i) block.hash = mixed(block.hash, bytes[i]);
  for (const std::uint64_t place : sampled_places(count))
    block.sampled.insert(block.sampled.end(), bytes + place * each, bytes + (place + 1) * each);
  return block;
}

// ---- as text --------------------------------------------------------------------------------------------------------

std::string line_of_begin(const RankHistory& rank) {
  return Json{{"rank", rank.rank}, {"ranks", rank.ranks}, {"host", rank.host},
              {"f", rank.f},       {"at", rank.began_at}, {"reads_memory", rank.reads_memory}}
      .dump();
}

std::string line_of_call(std::size_t number, const Call& call) {
  Json line{{"call", number}, {"kind", name_of(call.kind)}, {"at", call.began_at}};
  for_each_of_begin(putting(line, call));
  return line.dump();
}

std::string line_of_end(std::size_t number, const Call& call) {
  Json line{{"end", number}, {"status", call.status}, {"at", call.ended_at}};
  if (call.missing) line["missing"] = *call.missing;
  for_each_of_end(putting(line, call));
  return line.dump();
}

std::string line_of_over(std::int64_t at) { return Json{{"over", true}, {"at", at}}.dump(); }

std::string text_of(const RankHistory& rank) {
  std::string text = line_of_begin(rank) + '\n';
  for (std::size_t i = 0; i < rank.calls.size(); ++i) {
    text += line_of_call(i, rank.calls[i]) + '\n';
    if (rank.calls[i].has_ended()) text += line_of_end(i, rank.calls[i]) + '\n';
  }
  if (rank.is_over) text += line_of_over(rank.last_at) + '\n';
  return text;
}

RankHistory read_history(std::istream& lines) {
  RankHistory history;
  std::string text;
  for (int number = 1; std::getline(lines, text); ++number) {
    try {
      const Json line = Json::parse(text, nullptr, false);
      if (line.is_discarded()) {
        if (lines.peek() == std::istream::traits_type::eof()) break;  // the rank died while it wrote
        throw std::runtime_error("it is no JSON");
      }
      take_line(line, history);
    } catch (const std::exception& cause) {
      throw std::runtime_error("line " + std::to_string(number) + ": " + cause.what());
    }
  }
  return history;
}

std::vector<RankHistory> read_job(const std::filesystem::path& directory) {
  std::vector<RankHistory> job;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.path().filename().string().starts_with("rank.")) continue;
    std::ifstream file(entry.path());
    try {
      RankHistory history = read_history(file);
      if (history.ranks == 0) continue;  // not even its first line
      if (history.rank < 0 || history.rank >= history.ranks) throw std::runtime_error("no rank of its job");
      job.resize(std::max(job.size(), static_cast<std::size_t>(history.ranks)));
      RankHistory& place = job[static_cast<std::size_t>(history.rank)];
      if (place.ranks != 0) throw std::runtime_error("another file is of the same rank");
      place = std::move(history);
    } catch (const std::runtime_error& cause) {
      throw std::runtime_error(entry.path().string() + ": " + cause.what());
    }
  }
  if (job.empty()) throw std::runtime_error(directory.string() + ": no history of any rank");
  for (std::size_t rank = 0; rank < job.size(); ++rank) job[rank].rank = static_cast<std::int32_t>(rank);
  return job;
}

}  // namespace ucft::judge

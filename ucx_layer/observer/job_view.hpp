// A job seen from outside, for ucft_comm_look, for the sentence of ucft_wait's time limit and for ucft_info --job. The
// view has what each rank posted last in each communicator and when, whom it waits for, and what it does. And it tells
// which ranks have posted something else than the others.
//
// The view is read in the memory that ranks share (first_segment.hpp, host_slab.hpp). So no rank is stopped or asked,
// and a rank that hangs, or is dead, can be looked at. The ranks go on meanwhile: a figure may be an operation old, but
// none is torn. Of a rank of another host only what it has been heard to say is known.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/on_host/host_slab.hpp"
#include "collectives/catalogue/arguments.hpp"
#include "timeout_detector/process_watch.hpp"

namespace ucft::detail {

// HostNote::what, in 12 bits: a number whose digits are the kind, the type and the operator.
constexpr std::uint16_t bits_of(Kind kind, DataType type, Operator op) {
  return static_cast<std::uint16_t>((static_cast<std::size_t>(kind) * type_count + static_cast<std::size_t>(type)) *
                                        operator_count +
                                    static_cast<std::size_t>(op) % operator_count);
}
static_assert(posted_kind_count * type_count * operator_count <= 1 << 12);
constexpr Kind kind_in(const HostNote& note) { return static_cast<Kind>(note.what / operator_count / type_count); }

// A rank's part in a communicator.
struct PartView {
  Rank rank = 0, ranks = 0;  // of the communicator
  OperationNumber posted = 0, finished = 0;
  std::int64_t posted_at_ns = 0;  // the last one; 0: none, or not known
  bool by_messages = false;
  bool is_heard_of = false;  // of a rank that is afar: it has posted so many at least, and nothing else is known
  struct Posted {
    OperationNumber number;
    HostNote note;
    Rank root = no_rank;           // of a rooted operation, where it is known
    std::uint64_t huge_bytes = 0;  // where note.count is HostNote::most
    // Of the data that it has given.
    std::uint64_t bytes() const { return note.count == HostNote::most ? huge_bytes : note.count; }
  };
  std::vector<Posted> latest;  // of the last some operations, in no order
  std::vector<std::int32_t>
      needs;  // by messages: whose it needs next, ranks of the job; known of the rank that looks alone

  bool is_in_operation() const { return posted > finished; }
  const Posted* find(OperationNumber number) const;  // nullptr: nothing is known of it
};

// Words of the rank's memory, as far from its control page as that. False: there are none.
using ReadMemory = std::function<bool(std::uint64_t offset, std::span<std::uint64_t> words)>;

struct RankView {
  std::int32_t rank = 0, ranks = 0;  // of the job
  int pid = 0;
  int own_pid = 0;  // as the rank's own namespace numbers it; pid is the reader's number
  std::uint64_t cookie = 0;
  bool has_left = false, is_out = false, has_failed = false;
  bool is_afar = false;  // on another host, or of another container: its memory can't be read
  ProcessState process = ProcessState::unknown;
  std::int64_t heard_at_ns = 0;      // last sign of life; CLOCK_MONOTONIC
  std::int64_t silent_after_ns = 0;  // since that; 0: never
  std::int64_t waits_since_ns = 0;   // 0: in no wait that has come to sleep
  std::int64_t waited_until_ns = 0;  // a wait whose limit had passed, after which it may wait again; 0: none
  std::int32_t connections = 0, lifelines = 0, mailboxes = 0;  // as ControlPage has them
  std::uint64_t mailbox_bytes = 0;
  std::string join_address;                      // where newcomers may come: "10.0.0.1:4711"; empty: nowhere
  bool is_newcomer = false;                      // its process came when the job was under way
  std::vector<std::int32_t> empty_seats;         // those that nobody has had since the last renewal
  std::string waits_in;                          // a send or a receive: "recv from 3, tag 7"
  std::string activity;                          // what its program says that it is inside of (ucft_note_activity)
  std::map<std::uint32_t, PartView> parts;       // by communicator
  std::map<std::uint32_t, PartView> left_parts;  // of communicators that it has left

  // Programs that have other work, too, wait in short slices.
  bool is_waiting(std::int64_t now_ns) const;
  // False: it is no rank, or in start-up.
  bool read(const ReadMemory& memory);
};

// The values of ucft_rank_state_t.
enum class Doing : std::uint8_t {
  computes = 0,
  in_operation = 1,
  mismatched = 2,
  stopped = 3,
  silent = 4,
  dead = 5,
  out = 6,
  left = 7,
  unknown = 8
};
const char* name_of(Doing doing);

// Numbers are ranks of the job.
class JobView {
 public:
  std::map<std::int32_t, RankView> ranks;
  std::int64_t now_ns = 0;

  // The ranks that this rank's next operation to finish in the communicator waits for, in rank order.
  std::vector<std::int32_t> awaited_by(std::int32_t rank, std::uint32_t communicator) const;
  Doing doing(std::int32_t rank) const;
  // "has posted ... as operation 2, and 3 other ranks ...: the roots differ", or "waits in ... for ..., which waits for
  // it in ...". Empty: nothing that is known to be wrong.
  std::string mismatch_of(std::int32_t rank) const;
  // The same of two ranks: "has posted ..., and this rank ...: the roots differ". Empty: they are alike, or it is not
  // known.
  std::string difference(std::int32_t rank, std::int32_t from, std::uint32_t communicator,
                         OperationNumber number) const;
  // A rank's activity, and when it was heard. "computes (runs, or waits for a processor), last heard 0.01 s ago"; or
  // "inside MPI_Recv (...".
  std::string words_about(std::int32_t rank) const;
  // The last operation that it has posted there: "allreduce (sum of double, 8 bytes)". Empty: none, or it is not known.
  std::string last_posted(std::int32_t rank, std::uint32_t communicator) const;
  // Its part: "18 posted, 17 finished, the last an allreduce (sum of double, 8 bytes) 0.52 s ago".
  std::string words_about(std::int32_t rank, std::uint32_t communicator) const;

 private:
  std::string differs_in(std::uint32_t communicator, const PartView& part) const;
  std::string differs_at(std::uint32_t communicator, const PartView::Posted& own) const;
  std::string crosses(const RankView& view) const;
  // One rank waits for another, in that communicator.
  struct Link {
    std::int32_t awaited;
    std::uint32_t communicator;
  };
  bool waits_for(std::int32_t from, std::int32_t whom, std::vector<std::int32_t>& seen, std::vector<Link>& chain) const;
};

std::int64_t monotonic_ns();

}  // namespace ucft::detail

// Says whether a job kept the promises of docs/failure_model.md, by the histories of its ranks alone (history.hpp).
//
// It checks, of each collective that ranks of a communicator posted:
//   ends          each call of a rank that lived to the end has ended
//   status        a status that the promises allow; the same one where survivors agree
//   agreement     survivors have the same contributors, the same missing ranks, the same bits
//   completeness  no survivor is missing; a missing rank has died, has left or is out, and it wrote nothing later. A
//                 rank is in each result of its own
//   values        a result is what its contributors gave, combined; blocks are theirs, whole
//   untouched     memory that is not written stays as it was: after errors, and of missing ranks
//   f             with at most f failed hosts there is no error
//   uniform       what a rank had returned that died, the survivors return: in shared memory, and where asked for
//   quorum        an allreduce with a quorum has so many contributors, and a rank that is late is told so
//   order         no rank leaves a barrier, or has a sum, before each survivor entered
//   time          a collective, or a receive that gets a message, ends within longest_wait_ns once all have begun it,
//                 and nothing befalls a rank any more that may have to do with it. A rank has left within
//                 longest_leave_ns
// of communicators their members, and of messages that each is received once, in order, as it was sent. Of an
// all-reduce by gossip: that survivors have the same, of all ranks if nobody dies, and not further off than its bound.
// Of a call that differs on purpose it checks that all end, and what an error may write.
//
// A survivor is a rank whose program came to its end, and that was not declared out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/judge/history.hpp"

namespace ucft::judge {

struct Violation {
  std::string rule;  // one of the above, "members", "messages", or "program": ranks that call different things
  std::string text;  // the call, the rank, and the promise that was broken
};

// When something befell ranks, by the clock of the histories.
struct Disturbed {
  std::int64_t from, until;
};

// job: read_job(), or made by a world; each rank's calls in the order in which they began. may_be_dead: ranks that were
// killed, stopped or cut off, or ran short. Another rank that has no end breaks "ends", and one that is out
// breaks "status". may_lack_memory: some rank did, so a call may end with UCFT_ERR_NO_MEMORY. disturbed: nullptr if it
// is not known, or the machine has other work: then nothing is said about time.
std::vector<Violation> judge(const std::vector<RankHistory>& job, const std::vector<std::int32_t>& may_be_dead,
                             bool may_lack_memory = false, const std::vector<Disturbed>* disturbed = nullptr);

// Some five times UCFT_SUSPECT_AFTER, by its default, and a second.
constexpr std::int64_t longest_wait_ns = 6'000'000'000;
// Until a rank that closes its context has left the job. One that another rank leaves without an answer for 3 s, and
// whose lifelines take their 1 s, gets that far.
constexpr std::int64_t longest_leave_ns = 4'500'000'000;

}  // namespace ucft::judge

#include "mpi/revocation.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <vector>

#include "mpi/nonblocking.hpp"

namespace ucft::mpi {

namespace {

constexpr std::int32_t tag_of_words = 0;

struct Word {
  enum Kind : std::int64_t { lost, revoked, revoked_too };  // the last is an answer
  std::int64_t kind;
  std::int64_t about;  // by whose death; or which communicator
};

struct Outgoing {
  Word word;
  int to;
  ucft_request_h request;
};

struct Known {
  Communicator* comm;
  Needed members;
  std::vector<int> have_said;  // members that know of its revocation
  bool is_left = false;
};

// All guarded by a Turn.
Word incoming;
ucft_request_h listening = UCFT_REQUEST_NULL;
std::list<Outgoing> going_out;  // in its place while it is sent
std::map<std::int64_t, Known> known;
std::map<std::int64_t, std::vector<int>> early;  // words about communicators that this rank does not know (yet)
std::atomic<int> to_be_left{0};
std::atomic<bool> is_ending{false};

bool is_dead(int rank) { return world.dead[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed); }

// If that can't be now, there is no request, and it is tried again.
void send(Outgoing& one) {
  if (ucft_send_init(of_world.control, &one.word, sizeof one.word, UCFT_UINT8, one.to, tag_of_words, &one.request) !=
      UCFT_OK)
    one.request = UCFT_REQUEST_NULL;
  if (one.request == UCFT_REQUEST_NULL || ucft_post(one.request) == UCFT_OK) return;
  ucft_request_free(one.request);
  one.request = UCFT_REQUEST_NULL;
}

void say(int to, Word::Kind kind, std::int64_t about) {
  if (to == world.rank || is_dead(to) || of_world.control == UCFT_COMM_NULL) return;
  Outgoing& one = going_out.emplace_back(Outgoing{{kind, about}, to, UCFT_REQUEST_NULL});
  send(one);
}

void note(std::vector<int>& ranks, int rank) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

void understand(const Word& word, int from) {
  if (word.kind == Word::lost) {
    world.lost[static_cast<std::size_t>(from)].store(static_cast<int>(word.about), std::memory_order_relaxed);
    note_failure(from);
    return;
  }
  const auto found = known.find(word.about);
  if (found != known.end()) {
    note(found->second.have_said, from);
    revoke(*found->second.comm);
    return;
  }
  if (word.kind == Word::revoked) say(from, Word::revoked_too, word.about);
  note(early[word.about], from);
}

void listen() {
  if (listening == UCFT_REQUEST_NULL) {
    if (ucft_recv_init(of_world.control, &incoming, sizeof incoming, UCFT_UINT8, UCFT_ANY_SOURCE, tag_of_words,
                       &listening) == UCFT_OK)
      ucft_post(listening);
    return;
  }
  for (;;) {
    const ucft_status_t status = ucft_test(listening);
    if (status == UCFT_INPROGRESS) return;
    ucft_received_t from = UCFT_RECEIVED_INIT;
    const Word word = incoming;
    const bool is_word = status == UCFT_OK && ucft_request_received(listening, &from) == UCFT_OK && from.source >= 0;
    ucft_post(listening);  // also behind the death of one that could have sent
    if (!is_word) return;
    understand(word, from.source);
  }
}

void end_what_is_sent() {
  for (auto each = going_out.begin(); each != going_out.end();) {
    if (each->request == UCFT_REQUEST_NULL) {
      if (is_dead(each->to)) {
        each = going_out.erase(each);
        continue;
      }
      send(*each);
    }
    const ucft_status_t status = each->request == UCFT_REQUEST_NULL ? UCFT_INPROGRESS : ucft_test(each->request);
    if (status == UCFT_INPROGRESS) {
      ++each;
      continue;
    }
    const auto about = each->word.kind == Word::lost ? known.end() : known.find(each->word.about);
    if (status != UCFT_OK && about != known.end())
      note(about->second.have_said, each->to);  // it has died, or has left: it will be in no operation
    ucft_request_free(each->request);
    each = going_out.erase(each);
  }
}

bool know_all(const Known& one) {
  return std::all_of(one.members->begin(), one.members->end(), [&](int rank) {
    return rank == world.rank || is_dead(rank) ||
           std::find(one.have_said.begin(), one.have_said.end(), rank) != one.have_said.end();
  });
}

void leave_if_possible(Known& one) {
  Communicator& comm = *one.comm;
  if (one.is_left || (comm.is_revoked && !know_all(one)) || comm.busy > 0 || has_begun_on(comm)) return;
  if (ucft_comm_destroy(comm.handle) != UCFT_OK) return;
  comm.handle = UCFT_COMM_NULL;
  for (Prepared& each : comm.prepared) each = {};
  one.is_left = true;
  if (comm.is_revoked) --to_be_left;
}

}  // namespace

void exchange_words() {
  if (of_world.control == UCFT_COMM_NULL) return;
  listen();
  if (!going_out.empty()) end_what_is_sent();
}

void say_lost(int by) {
  for (int rank = 0; rank < world.size; ++rank) say(rank, Word::lost, by);
}

// A posted request keeps a context from leaving its job.
void end_words() {
  if (listening != UCFT_REQUEST_NULL) ucft_request_free(listening);
  listening = UCFT_REQUEST_NULL;
  for (const Outgoing& each : going_out) {
    if (each.request == UCFT_REQUEST_NULL) continue;
    ucft_wait(each.request, 100'000);  // in us; it is short, and goes at once
    ucft_request_free(each.request);
  }
  going_out.clear();
}

void register_for_words(Communicator& comm, const Needed& members) {
  Known& one = known[comm.id];
  one = {&comm, members, {}};
  const auto before = early.find(comm.id);
  if (before == early.end()) return;
  one.have_said = before->second;
  early.erase(before);
  revoke(comm);
}

void unregister(const Communicator& comm) { known.erase(comm.id); }

void revoke(const Communicator& comm) {
  if (comm.is_revoked) return;
  comm.is_revoked = true;
  const Known& one = known[comm.id];
  if (!one.is_left) ++to_be_left;
  forget_found();
  world.deaths.fetch_add(1, std::memory_order_release);
  for (const int rank : *one.members) say(rank, Word::revoked, comm.id);
}

bool is_revoked(MPI_Comm comm) {
  const Communicator* const one = nobody_is_dead() ? nullptr : find_any(comm);
  return one != nullptr && one->is_revoked;
}

void leave_revoked() {
  const bool leaves_all = is_ending.load(std::memory_order_relaxed) && !nobody_is_dead();
  if (to_be_left.load(std::memory_order_relaxed) == 0 && !leaves_all) return;
  const Turn turn;
  for (auto& [id, one] : known)
    if (one.comm->is_revoked && !one.is_left) end_queued_of(*one.comm);
  drive();
  for (auto& [id, one] : known)
    if (leaves_all || one.comm->is_revoked) leave_if_possible(one);
}

void leave_all_after_a_death() {
  is_ending = true;
  leave_revoked();
}

}  // namespace ucft::mpi

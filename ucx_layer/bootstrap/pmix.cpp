// The ranks' side of a PMIx server: libpmix, joining the job, steps, and the culprit when one doesn't end.
//
// A server's reaction to a rank that dies was found by experiment (Open MPI 4.1 with PMIx 4.2). It depends on the rank:
//  - a rank that was never connected: the fence doesn't end;
//  - a connected rank that is not in the fence: the fence succeeds without it, and its value never comes;
//  - a rank that was in the fence: the fence ends with PMIX_ERR_PARTIAL_SUCCESS.
// A fence takes a rank that has called PMIx_Finalize for a dead one, too. So PMIx_Finalize waits for the end of the
// process. An earlier call would break the next context's start-up, or MPI's, on ranks that are faster.
//
// Slurm's server (22.05) cancels the step when a rank dies between PMIx_Init and PMIx_Finalize. No option of srun
// changes that. So under Slurm a rank calls PMIx_Finalize when start-up is over, and goes on when all ranks have called
// it. Then ranks may join again for a next context, in any order. Without that wait, a rank that leaves breaks the
// fence of those that have joined again. MPI could not join again: libpmix 4.2 doesn't tell such a process which of
// its node's ranks it is, and MPI_Init fails. So a program with MPI stays. MPI would keep it in the job anyway.
// Of libpmix 5 the opposite is true (Open MPI 5.0.7): MPI_Init fails in a process that has joined and not left.
// There every program leaves, under any server: some ranks may have MPI and others not, and it may be loaded later.
#include "ucx_layer/bootstrap/pmix.hpp"

#include <cstdlib>

namespace ucft::detail::bootstrap {

namespace {

const std::string way_out = "; UCFT_PMIX=off makes this program a world of one";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0;
}

}  // namespace

bool pmix_in_environment() { return is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK"); }

}  // namespace ucft::detail::bootstrap

#ifndef UCFT_WITH_PMIX

namespace ucft::detail::bootstrap {

std::unique_ptr<Pmix> Pmix::connect(std::chrono::microseconds, std::string& error) {
  error =
      "a PMIx server has started this program (PMIX_NAMESPACE is set), but ucft was built without PMIx (CMake: "
      "UCFT_PMIX, Debian: libpmix-dev)" +
      way_out;
  return nullptr;
}

// Nobody gets a Pmix.
Pmix::~Pmix() = default;
bool Pmix::allgather(const void*, void*, std::size_t, std::chrono::microseconds, std::string&,
                     const std::function<void()>&) {
  return false;
}
bool Pmix::close(std::chrono::microseconds, std::string&) { return false; }

}  // namespace ucft::detail::bootstrap

#else

#include <dlfcn.h>
#include <link.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ucx_layer/bootstrap/rendezvous_protocol.hpp"  // duration_text

namespace ucft::detail::bootstrap {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Meanwhile = std::function<void()>;

// The time, after the limit, for which we look for the culprit. A server has the same time for PMIx_Finalize.
constexpr milliseconds grace{2000};
// The time between two questions of a waiting rank to the server, for ranks that have died. Death must show in two
// answers in a row. A rank that has just finished start-up may die while our own answer is still on its way.
constexpr milliseconds look_period{500};
constexpr milliseconds ask_again_after{10};
constexpr microseconds pause{100};
// Longer limits are cut to this, so that no sum overflows.
constexpr microseconds longest_limit = std::chrono::hours(24 * 365);
constexpr std::size_t ranks_to_name = 8;
constexpr std::uint32_t most_ranks = 1u << 20;

// ---- libpmix ----

// The types are the header's; nothing is linked.
struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence_nb) fence_nb = nullptr;
  decltype(&PMIx_Get_nb) get_nb = nullptr;
  decltype(&PMIx_Query_info_nb) query_info_nb = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
  decltype(&PMIx_Get_version) get_version = nullptr;

  bool load(std::string& error);
  std::string text(pmix_status_t status) const { return std::string(error_string(status)); }
  // 5, of "OpenPMIx 5.0.7, repo rev: ..".
  int major_version() const {
    const std::string_view version = get_version();
    const auto digit = version.find_first_of("0123456789");
    return digit == std::string_view::npos ? 0 : std::atoi(version.data() + digit);
  }
};

bool Library::load(std::string& error) {
  if (init != nullptr) return true;
  // Never closed: it has threads. Of a program that uses MPI this is the copy that MPI has loaded.
  void* handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    error =
        "a PMIx server has started this program (PMIX_NAMESPACE is set), but libpmix (Debian: libpmix2) cannot be "
        "loaded: " +
        std::string(dlerror()) + way_out;
    return false;
  }
  Library found;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr && error.empty()) error = std::string("libpmix.so.2 has no ") + name + way_out;
  };
  error.clear();
  find(found.init, "PMIx_Init");
  find(found.finalize, "PMIx_Finalize");
  find(found.put, "PMIx_Put");
  find(found.commit, "PMIx_Commit");
  find(found.fence_nb, "PMIx_Fence_nb");
  find(found.get_nb, "PMIx_Get_nb");
  find(found.query_info_nb, "PMIx_Query_info_nb");
  find(found.error_string, "PMIx_Error_string");
  find(found.get_version, "PMIx_Get_version");
  if (!error.empty()) return false;
  *this = found;
  return true;
}

// ---- the process's part in its job ----

struct Session {
  std::mutex mutex;  // of what follows, between threads that create contexts
  Library library;
  bool joined = false;  // and not left
  pid_t pid = 0;        // that has joined, last
  pmix_proc_t self{};
  int size = 0;
  unsigned contexts = 0;  // begun so far
  bool busy = false;      // a context is in start-up
  std::string failure;    // of the first start-up that failed
};

// Not destroyed: PMIx's thread may call back while the process ends.
Session& session() {
  static Session& only = *new Session;
  return only;
}

const Library& library() { return session().library; }

pmix_proc_t process_of(pmix_rank_t rank) {
  pmix_proc_t process = session().self;
  process.rank = rank;
  return process;
}

// ---- calls that can't keep us ----

// Runs a call that may block on a thread of its own: a server that is stopped must not stop us. False: it has not
// returned in time; objects that it refers to must live on. Signals are for the program's threads, also on those that
// PMIx_Init starts.
bool call_until(Clock::time_point deadline, pmix_status_t& status, std::function<pmix_status_t()> call) {
  auto result = std::make_shared<std::promise<pmix_status_t>>();
  auto returned = result->get_future();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([result, call = std::move(call)] { result->set_value(call()); }).detach();
  } catch (const std::system_error&) {
    result->set_value(PMIX_ERR_NOMEM);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (returned.wait_until(deadline) != std::future_status::ready) return false;
  status = returned.get();
  return true;
}

struct Process {
  int rank = 0;
  long pid = 0;  // 0: this server doesn't know
  std::string host;
  pmix_proc_state_t state = PMIX_PROC_STATE_UNDEF;

  bool died() const { return state > PMIX_PROC_STATE_ERROR; }  // not those that ended after PMIx_Finalize, with 0
};

// A call that answers later, on PMIx's thread, or never. PMIx has a reference of its own until then.
struct Question {
  std::atomic<bool> arrived{false};
  pmix_status_t status = PMIX_SUCCESS;
  std::string bytes;  // what came, by the type of the call
  std::uint32_t number = 0;
  std::vector<Process> processes;

  pmix_proc_t process{};  // what PMIx may look at until it has answered
  std::string key, name_space;
  pmix_info_t info{};
  char* keys[2] = {};
  pmix_query_t query{};

  void answer(pmix_status_t result) {
    status = result;
    arrived.store(true, std::memory_order_release);
  }
  bool has_arrived() const { return arrived.load(std::memory_order_acquire); }
  bool is_good() const { return has_arrived() && status == PMIX_SUCCESS; }
};

using QuestionPointer = std::shared_ptr<Question>;

template <class Call>
void submit(const QuestionPointer& request, Call call) {
  auto* reference = new QuestionPointer(request);
  const pmix_status_t status = call(*request, reference);
  if (status == PMIX_SUCCESS) return;
  delete reference;  // no callback will come
  request->answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
}

QuestionPointer take(void* reference) {
  auto* held = static_cast<QuestionPointer*>(reference);
  QuestionPointer request = std::move(*held);
  delete held;
  return request;
}

void on_fence(pmix_status_t status, void* reference) { take(reference)->answer(status); }

void on_value(pmix_status_t status, pmix_value_t* value, void* reference) {
  const QuestionPointer request = take(reference);
  if (status == PMIX_SUCCESS && value == nullptr) status = PMIX_ERR_NOT_FOUND;
  if (status == PMIX_SUCCESS && value->type == PMIX_BYTE_OBJECT) {
    request->bytes.assign(value->data.bo.bytes, value->data.bo.size);
  } else if (status == PMIX_SUCCESS && value->type == PMIX_UINT32) {
    request->number = value->data.uint32;
  } else if (status == PMIX_SUCCESS) {
    status = PMIX_ERR_BAD_PARAM;
  }
  request->answer(status);
}

void add_process(const pmix_proc_info_t& entry, std::vector<Process>& processes) {
  processes.push_back({static_cast<int>(entry.proc.rank), static_cast<long>(entry.pid),
                       entry.hostname == nullptr ? "" : entry.hostname, entry.state});
}

// PRRTE sends the entries as they are, Open MPI 4 each in an info of its own.
void on_process_table(pmix_status_t status, pmix_info_t* info, std::size_t count, void* reference,
                      pmix_release_cbfunc_t release, void* release_data) {
  const QuestionPointer request = take(reference);
  for (std::size_t i = 0; status == PMIX_SUCCESS && i < count; ++i) {
    if (info[i].value.type != PMIX_DATA_ARRAY || info[i].value.data.darray == nullptr) continue;
    const pmix_data_array_t& table = *info[i].value.data.darray;
    for (std::size_t k = 0; k < table.size; ++k) {
      const pmix_proc_info_t* entry = nullptr;
      if (table.type == PMIX_PROC_INFO) entry = &static_cast<const pmix_proc_info_t*>(table.array)[k];
      if (table.type == PMIX_INFO) {
        const pmix_value_t& value = static_cast<const pmix_info_t*>(table.array)[k].value;
        if (value.type == PMIX_PROC_INFO) entry = value.data.pinfo;
      }
      if (entry != nullptr) add_process(*entry, request->processes);
    }
  }
  if (release != nullptr) release(release_data);
  request->answer(status);
}

// Answered as soon as that rank has committed the key, which may be never.
QuestionPointer ask(pmix_rank_t rank, const std::string& key) {
  auto request = std::make_shared<Question>();
  request->process = process_of(rank);
  request->key = key;
  submit(request, [](Question& the, void* reference) {
    return library().get_nb(&the.process, the.key.c_str(), nullptr, 0, on_value, reference);
  });
  return request;
}

// Over all ranks, with everything that they have committed.
QuestionPointer fence() {
  auto request = std::make_shared<Question>();
  request->process = process_of(PMIX_RANK_WILDCARD);
  std::strncpy(request->info.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
  request->info.value.type = PMIX_BOOL;
  request->info.value.data.flag = true;
  submit(request, [](Question& the, void* reference) {
    return library().fence_nb(&the.process, 1, &the.info, 1, on_fence, reference);
  });
  return request;
}

QuestionPointer ask_for_processes() {
  auto request = std::make_shared<Question>();
  request->key = PMIX_QUERY_PROC_TABLE;
  request->name_space = session().self.nspace;
  request->keys[0] = request->key.data();
  std::strncpy(request->info.key, PMIX_NSPACE, PMIX_MAX_KEYLEN);
  request->info.value.type = PMIX_STRING;
  request->info.value.data.string = request->name_space.data();
  request->query = {request->keys, &request->info, 1};
  submit(request, [](Question& the, void* reference) {
    return library().query_info_nb(&the.query, 1, on_process_table, reference);
  });
  return request;
}

bool commit(const std::string& key, std::string bytes, Clock::time_point deadline, std::string& error) {
  pmix_status_t status = PMIX_SUCCESS;
  const auto call = [key, bytes = std::move(bytes)]() mutable {
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = bytes.data();
    value.data.bo.size = bytes.size();
    const pmix_status_t put = library().put(PMIX_GLOBAL, key.c_str(), &value);
    return put == PMIX_SUCCESS ? library().commit() : put;
  };
  if (!call_until(deadline, status, call)) {
    error = "the PMIx server does not answer";
  } else if (status != PMIX_SUCCESS) {
    error = "PMIx does not take this rank's part of start-up: " + library().text(status);
  } else {
    return true;
  }
  return false;
}

// ---- waiting ----

// Watches for ranks that have died, as far as the server knows. A server that can't say is asked once.
class DeathWatch {
 public:
  // True: some rank was dead in two answers in a row.
  bool sees_death() {
    const auto now = Clock::now();
    if (request_ != nullptr && request_->has_arrived() && now >= next_look_) take_answer();
    if (request_ == nullptr && able_ && now >= next_look_) {
      request_ = ask_for_processes();
      next_look_ = now + look_period;
    }
    return deaths_seen_ >= 2;
  }

 private:
  void take_answer() {
    able_ = request_->status == PMIX_SUCCESS;
    const auto& processes = request_->processes;
    const bool death = std::any_of(processes.begin(), processes.end(), [](const Process& each) { return each.died(); });
    deaths_seen_ = death ? deaths_seen_ + 1 : 0;
    request_.reset();
  }

  QuestionPointer request_;
  Clock::time_point next_look_ = Clock::now() + look_period;
  bool able_ = true;
  int deaths_seen_ = 0;
};

enum class Ending { Done, TimedOut, RankDied };

struct Patience {
  Clock::time_point deadline;
  DeathWatch* watch = nullptr;  // null: not interested in who died
  const Meanwhile* meanwhile = nullptr;
};

template <class Condition>
Ending wait_for(const Patience& patience, Condition condition) {
  while (!condition()) {
    if (Clock::now() >= patience.deadline) return Ending::TimedOut;
    if (patience.watch != nullptr && patience.watch->sees_death()) return condition() ? Ending::Done : Ending::RankDied;
    if (patience.meanwhile != nullptr && *patience.meanwhile) (*patience.meanwhile)();
    std::this_thread::sleep_for(pause);
  }
  return Ending::Done;
}

bool all_arrived(const std::vector<QuestionPointer>& requests) {
  return std::all_of(requests.begin(), requests.end(), [](const QuestionPointer& each) { return each->has_arrived(); });
}

std::vector<QuestionPointer> ask_all(int size, const std::string& key) {
  std::vector<QuestionPointer> requests;
  for (int rank = 0; rank < size; ++rank) requests.push_back(ask(static_cast<pmix_rank_t>(rank), key));
  return requests;
}

// Every rank's value. A server of another host may not have got them all when the fence ends here: ask again.
Ending collect(int size, const std::string& key, const Patience& patience, std::vector<QuestionPointer>& values) {
  values = ask_all(size, key);
  for (;;) {
    const Ending ending = wait_for(patience, [&] { return all_arrived(values); });
    if (ending != Ending::Done) return ending;
    bool complete = true;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (values[rank]->is_good()) continue;
      complete = false;
      values[rank] = ask(static_cast<pmix_rank_t>(rank), key);
    }
    if (complete) return Ending::Done;
    const Patience nap{std::min(patience.deadline, Clock::now() + ask_again_after), patience.watch, patience.meanwhile};
    if (wait_for(nap, [] { return false; }) == Ending::RankDied) return Ending::RankDied;
    if (Clock::now() >= patience.deadline) return Ending::TimedOut;
  }
}

// ---- who is to blame ----

std::string key_of(unsigned context, unsigned step) {
  return "ucft." + std::to_string(context) + "." + std::to_string(step);
}

// A rank that gives up leaves its farewell behind under this key, for the ranks that are going to miss it.
std::string farewell_key(unsigned context) { return "ucft." + std::to_string(context) + ".gave_up"; }

// "rank 5 (pid 4711 on node7)", "rank 5"
std::string name_of(int rank, const std::vector<Process>& known) {
  std::string text = "rank " + std::to_string(rank);
  for (const Process& each : known) {
    if (each.rank != rank || each.pid <= 0) continue;
    text += " (pid " + std::to_string(each.pid) + (each.host.empty() ? "" : " on " + each.host) + ")";
    break;
  }
  return text;
}

std::string names_of(const std::vector<int>& ranks, const std::vector<Process>& known) {
  std::string text;
  const std::size_t shown = std::min(ranks.size(), ranks_to_name);
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + name_of(ranks[i], known);
  if (ranks.size() > shown) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

struct Suspects {
  std::vector<Process> known;
  std::vector<int> dead;     // the server says so
  std::vector<int> missing;  // have not contributed to this step
  std::string farewell;      // of the lowest rank that gave up: whom it has found guilty
};

// Takes up to `grace`: a question for data that ranks have not committed is never answered.
Suspects find_suspects(int size, unsigned context, const std::string& key, bool must_be_dead) {
  Suspects suspects;
  const auto values = ask_all(size, key), farewells = ask_all(size, farewell_key(context));
  const auto deadline = Clock::now() + grace;
  do {
    const QuestionPointer table = ask_for_processes();
    const Patience answer{std::min(deadline, Clock::now() + grace / 10), nullptr, nullptr};
    if (wait_for(answer, [&] { return table->has_arrived(); }) == Ending::Done) suspects.known = table->processes;
    for (const Process& each : suspects.known)
      if (each.died()) suspects.dead.push_back(each.rank);
    for (std::size_t rank = farewells.size(); rank-- > 0;)
      if (farewells[rank]->is_good()) suspects.farewell = farewells[rank]->bytes;
    if (!suspects.dead.empty() || !suspects.farewell.empty()) break;
    const Patience nap{std::min(deadline, Clock::now() + grace / 20), nullptr, nullptr};
    wait_for(nap, [] { return false; });
  } while (Clock::now() < deadline && (must_be_dead || !all_arrived(values)));
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    if (!values[rank]->is_good()) suspects.missing.push_back(static_cast<int>(rank));
  return suspects;
}

std::string blame(int size, unsigned context, const std::string& key, bool must_be_dead, microseconds limit) {
  const Suspects suspects = find_suspects(size, context, key, must_be_dead);
  // First, so that all say the same: who gave up before us has seen more of it than we, who may miss only that rank.
  if (!suspects.farewell.empty()) return suspects.farewell;
  if (!suspects.dead.empty()) return names_of(suspects.dead, suspects.known) + " died during start-up";
  if (!suspects.missing.empty())
    return names_of(suspects.missing, suspects.known) +
           (must_be_dead ? " died during start-up" : " did not arrive within " + duration_text(limit));
  return must_be_dead ? "a rank died during start-up, and the PMIx server does not say which"
                      : "the PMIx server did not end a step of start-up within " + duration_text(limit) +
                            ", though all ranks have contributed to it";
}

// ---- joining and leaving ----

// Other users of PMIx in this process stay in the job: calls of PMIx_Init and PMIx_Finalize are counted. False: the
// server has not answered in time.
bool leave_job(microseconds limit) {
  session().joined = false;
  pmix_status_t ignored = PMIX_SUCCESS;
  return call_until(Clock::now() + limit, ignored, [] { return library().finalize(nullptr, 0); });
}

// Also when ranks have died or never came, as PMIx_Finalize has no barrier of its own. A process that ends without it
// counts as failed.
void leave_job_at_exit() {
  if (session().joined && getpid() == session().pid) leave_job(grace);
}

// By the name space that the server has given us: Slurm's plug-in names it slurm.pmix.JOB.STEP, in all versions so far.
// Slurm's variables would not do: an mpirun within an allocation has them, too, and is another server.
bool server_is_slurm() { return std::strncmp(session().self.nspace, "slurm.pmix.", 11) == 0; }

bool join_job(microseconds limit, std::string& error) {
  Session& own = session();
  if (own.joined) return true;
  if (!own.library.load(error)) return false;
  const std::string who =
      "PMIX_NAMESPACE=" + std::string(std::getenv("PMIX_NAMESPACE")) + " PMIX_RANK=" + std::getenv("PMIX_RANK");
  const auto deadline = Clock::now() + limit;
  pmix_status_t status = PMIX_SUCCESS;
  if (!call_until(deadline, status, [&own] { return own.library.init(&own.self, nullptr, 0); })) {
    error = own.failure = "the PMIx server (" + who + ") does not answer within " + duration_text(limit);
    return false;
  }
  if (status != PMIX_SUCCESS) {
    error = "the PMIx server that started this program (" + who + ") can't be reached: " + own.library.text(status) +
            ". If it isn't part of a job, these variables are left from another program" + way_out;
    return false;
  }
  if (own.pid == 0) std::atexit(leave_job_at_exit);
  own.pid = getpid();
  own.joined = true;
  const QuestionPointer size = ask(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
  wait_for({deadline, nullptr, nullptr}, [&] { return size->has_arrived(); });
  if (!size->is_good() || size->number > most_ranks || own.self.rank >= size->number) {
    error = own.failure = "the PMIx server (" + who + ") does not say how many ranks the job has";
    return false;
  }
  own.size = static_cast<int>(size->number);
  return true;
}

// Loaded, so that MPI_Init has been called or may be. A module of Python's has it for itself: no symbol tells, but the
// name.
bool has_mpi() {
  if (dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr) return true;
  const auto is_mpi = [](dl_phdr_info* object, std::size_t, void*) {
    return static_cast<int>(std::strstr(object->dlpi_name, "/libmpi.so") != nullptr ||
                            std::strstr(object->dlpi_name, "/libmpich.so") != nullptr);
  };
  return dl_iterate_phdr(is_mpi, nullptr) != 0;
}

// All ranks go through the end of start-up together: see the head of this file.
bool all_meet() { return library().major_version() >= 5 || server_is_slurm(); }

// Has to leave the job then.
bool has_to_leave() { return library().major_version() >= 5 || (server_is_slurm() && !has_mpi()); }

}  // namespace

std::unique_ptr<Pmix> Pmix::connect(microseconds limit, std::string& error) {
  limit = std::clamp(limit, microseconds(0), longest_limit);
  Session& own = session();
  const std::lock_guard lock(own.mutex);
  if (!own.failure.empty()) {
    error = "start-up by PMIx has failed in this process: " + own.failure;
  } else if (own.busy) {
    error = "another context of this process is in start-up by PMIx";
  } else if (own.pid != 0 && own.pid != getpid()) {
    error = "process " + std::to_string(getpid()) + " is a forked child of a rank, and no rank itself" + way_out;
  } else if (join_job(limit, error)) {
    own.busy = true;
    return std::unique_ptr<Pmix>(new Pmix(static_cast<int>(own.self.rank), own.size, ++own.contexts));
  }
  return nullptr;
}

bool Pmix::allgather(const void* source, void* received, std::size_t bytes, microseconds limit, std::string& error,
                     const Meanwhile& meanwhile) {
  limit = std::clamp(limit, microseconds(0), longest_limit);
  Session& own = session();
  if (!own.failure.empty()) {
    error = own.failure;
    return false;
  }
  const auto deadline = Clock::now() + limit;
  DeathWatch watch;
  const Patience patience{deadline, &watch, &meanwhile};
  const std::string key = key_of(context_, steps_++);
  // A byte in front, as there may be servers that know no empty values.
  std::string mine(1 + bytes, '\0');
  if (bytes > 0) std::memcpy(mine.data() + 1, source, bytes);
  std::vector<QuestionPointer> values;
  error.clear();
  if (commit(key, std::move(mine), deadline, error)) {
    const QuestionPointer step = fence();
    Ending ending = wait_for(patience, [&] { return step->has_arrived(); });
    const bool partial = ending == Ending::Done && step->status == PMIX_ERR_PARTIAL_SUCCESS;
    if (ending == Ending::Done && !step->is_good() && !partial) {
      error = "a step of start-up failed at the PMIx server: " + library().text(step->status);
    } else if (ending == Ending::Done && !partial) {
      ending = collect(size_, key, patience, values);
    }
    if (error.empty() && (partial || ending != Ending::Done))
      error = blame(size_, context_, key, partial || ending == Ending::RankDied, limit);
  }
  for (std::size_t rank = 0; error.empty() && rank < values.size(); ++rank) {
    if (values[rank]->bytes.size() == 1 + bytes) continue;
    error = "rank " + std::to_string(rank) + " contributed " + std::to_string(values[rank]->bytes.size() - 1) +
            " bytes to a step of start-up, rank " + std::to_string(rank_) + " " + std::to_string(bytes);
  }
  if (!error.empty()) {
    const std::lock_guard lock(own.mutex);
    own.failure = error;
    return false;
  }
  for (std::size_t rank = 0; bytes > 0 && rank < values.size(); ++rank)
    std::memcpy(static_cast<char*>(received) + rank * bytes, values[rank]->bytes.data() + 1, bytes);
  return true;
}

Pmix::~Pmix() {
  if (!open_) return;
  Session& own = session();
  std::string text, ignored;
  {
    const std::lock_guard lock(own.mutex);
    own.busy = false;
    text = own.failure.empty() ? "rank " + std::to_string(rank_) + " gave up start-up" : own.failure;
  }
  commit(farewell_key(context_), text, Clock::now() + grace, ignored);
}

bool Pmix::close(microseconds limit, std::string& complaint) {
  open_ = false;
  Session& own = session();
  const std::lock_guard lock(own.mutex);
  own.busy = false;
  const bool leaves = has_to_leave();
  if (leaves && !leave_job(std::clamp(limit, microseconds(0), longest_limit))) {
    own.failure = "the PMIx server has not answered PMIx_Finalize within " + duration_text(limit);
    complaint =
        own.failure + (server_is_slurm() ? ": Slurm will end the job if this rank dies" : ": MPI_Init will fail");
  }
  return all_meet();
}

}  // namespace ucft::detail::bootstrap

#endif

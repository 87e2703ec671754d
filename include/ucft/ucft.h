/* ucft: collectives that go on when processes die. The C API, for C and C++ programs.
 *
 * A collective completes with the right result on every survivor, if ranks die during it. Ranks of one host that share
 * memory survive any number of deaths; between hosts up to f hosts may die in one operation. The caller has no error to
 * handle and no communicator to rebuild. docs/failure_model.md has the exact promises and their exceptions.
 *
 * Conventions (after UCC): init -> post -> test or wait -> free. UCFT_OK is 0, UCFT_INPROGRESS is 1, errors are
 * negative. Every function returns a status that names the cause; ucft_last_error() names the culprit. Every structure
 * begins with its size, so it can grow: set it with the *_INIT macro. Start-up needs one out-of-band allgather;
 * ucft_run and PMIx servers have one.
 *
 * Matching rule: all ranks of a communicator post the same operations in the same order, until they leave. Operation,
 * type, operator, count, root, f and algorithm must be the same. If they differ and the messages show it, the operation
 * returns UCFT_ERR_MISMATCH on the ranks that learn of it.
 *
 * Thread rule: one thread at a time per context. It may be any thread, but not one that is inside a failure callback or
 * a user operator. A second thread that is seen gets UCFT_ERR_THREAD. (Exceptions: ucft_comm_look, ucft_note_activity.)
 * After fork() the child gets UCFT_ERR_FORKED from every function; the parent goes on.
 *
 * Ownership: send and receive memory belongs to the operation from post until it is complete. Handles are checked:
 * a closed or foreign one gives UCFT_ERR_CLOSED.
 */
#ifndef UCFT_H
#define UCFT_H

#include <stddef.h>
#include <stdint.h>

#define UCFT_VERSION_MAJOR 0
#define UCFT_VERSION_MINOR 1
#define UCFT_VERSION_PATCH 0
#define UCFT_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define UCFT_API __attribute__((visibility("default")))
#else
#define UCFT_API
#endif

/* In C++, as in C, any int is a value of an enum: so a value without a name can be told from those that have one. */
#ifdef __cplusplus
#define UCFT_OF_INT : int
#else
#define UCFT_OF_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum UCFT_OF_INT {
  UCFT_OK = 0,
  UCFT_INPROGRESS = 1,
  UCFT_ERR_INVALID_PARAM = -1,     /* a bad argument; nothing was sent                                     */
  UCFT_ERR_NO_MEMORY = -2,         /* memory, or shared memory, is exhausted: here, or on the rank named   */
  UCFT_ERR_BUSY = -3,              /* too many operations in flight, here or on a rank that is behind:
                                      progress, then post again                                            */
  UCFT_ERR_TIMED_OUT = -4,         /* ucft_wait's limit passed; the operation is still in progress         */
  UCFT_ERR_ROOT_FAILED = -5,       /* the root of a broadcast, scatter, reduce or gather died before any rank
                                      had its result                                                        */
  UCFT_ERR_TOO_MANY_FAILURES = -6, /* more than f hosts died in one operation; the same on every survivor (of a
                                      reduce or gather: at its root only). Never where all ranks share memory        */
  UCFT_ERR_MISMATCH = -7,          /* ranks posted different operations or arguments                       */
  UCFT_ERR_EXCLUDED = -8,          /* the others have declared this rank dead and went on without it       */
  UCFT_ERR_PARTITION = -9,         /* ranks of other hosts are silent, and this side is not the majority   */
  UCFT_ERR_STARTUP = -10,          /* a rank died or did not arrive during start-up                        */
  UCFT_ERR_CLOSED = -11,           /* the handle is closed, or was never one                               */
  UCFT_ERR_STATE = -12,            /* wrong order: wait without post, post twice, wait twice               */
  UCFT_ERR_THREAD = -13,           /* another thread, or a callback, is inside the same context            */
  UCFT_ERR_FORKED = -14,           /* this process is a fork of the one that created the context           */
  UCFT_ERR_TRANSPORT = -15,        /* UCX reported an error; ucft_last_error() has its words                 */
  UCFT_ERR_UNSUPPORTED = -16,      /* a value that this version does not have                               */
  UCFT_ERR_PEER_FAILED = -17,      /* the other rank of a send or receive has failed, or has left           */
  UCFT_ERR_TRUNCATED = -18,        /* a message is longer than the receive that it was sent to: it is lost  */
  UCFT_ERR_LATE = -19              /* a quorum allreduce was decided, mostly without this rank, and its result is not
                                      kept any more */
} ucft_status_t;

/* The name of a status, e.g. "UCFT_ERR_BUSY". Never NULL. Any thread. */
UCFT_API const char* ucft_status_name(ucft_status_t status);
/* One sentence about the last failing call of the calling thread. It names the culprit: argument, rank, host, pid.
 * Valid until that thread's next failing call. Never NULL. */
UCFT_API const char* ucft_last_error(void);
/* The version of the library that the program runs with, such as "0.1.0". Never NULL. */
UCFT_API const char* ucft_version(void);

typedef enum UCFT_OF_INT {
  UCFT_FLOAT = 0,
  UCFT_DOUBLE = 1,
  UCFT_INT32 = 2,
  UCFT_INT64 = 3,
  UCFT_UINT64 = 4,
  UCFT_INT8 = 5,
  UCFT_UINT8 = 6,
  UCFT_INT16 = 7,
  UCFT_UINT16 = 8,
  UCFT_UINT32 = 9,
  UCFT_FLOAT16 = 10,       /* IEEE 754 binary16                                                                 */
  UCFT_BFLOAT16 = 11,      /* the upper half of a float                                                         */
  UCFT_COMPLEX_FLOAT = 12, /* two floats: the real part, and the imaginary one                                  */
  UCFT_COMPLEX_DOUBLE = 13,
  UCFT_BOOL = 14,         /* a byte: 0 is false, all else true                                                 */
  UCFT_FLOAT_INT32 = 15,  /* pairs of a value and its location, as struct { float value; int32_t location; }:
                                8 bytes                                                                           */
  UCFT_DOUBLE_INT32 = 16, /* 16 bytes; the last 4 are padding                                                  */
  UCFT_INT32_INT32 = 17,  /* 8 bytes                                                                           */
  UCFT_INT64_INT64 = 18,  /* 16 bytes                                                                          */
  UCFT_DOUBLE_INT64 = 19, /* 16 bytes                                                                          */
  UCFT_ACCUMULATOR = 20   /* ucft_accumulator_t: 896 bytes                                                     */
} ucft_dtype_t;

/* The operators of a reduction, and which types each takes. (UCFT_USER, broadcasts and allgathers take any type.)
 * Another combination is UCFT_ERR_INVALID_PARAM.
 *
 *                             SUM PROD   MIN MAX   AVG   LAND LOR LXOR   BAND BOR BXOR   MINLOC MAXLOC
 *   int8 .. uint64                x         x                  x               x
 *   float, double                 x         x       x     and SUM_REPRODUCIBLE, AVG_REPRODUCIBLE
 *   float16, bfloat16             x         x       x
 *   complex                       x                 x
 *   bool                                                       x               x
 *   pairs                                                                                      x
 *   accumulator                   SUM alone: not even UCFT_USER
 *
 * All results are the same bits on every survivor.
 * SUM, PROD: integers wrap around (two's complement). Complex products are (ac - bd, ad + bc), each operation rounded
 * by itself, and no infinity is recovered from a NaN.
 * AVG: the sum, divided by the number of contributors. (Of integers: take the sum, and divide it by the result's
 * `contributors`.)
 * SUM, PROD, AVG of float16 and bfloat16: accumulated in float over the whole operation, and rounded once, at the end.
 * They travel as floats, too. Rounding is to nearest, ties to even. Subnormal numbers are kept, a number that is too
 * large becomes an infinity, and a NaN is the positive quiet one without payload.
 * SUM_REPRODUCIBLE: the same contributions give the same bits, whatever their order, and whatever the number, the hosts
 * and the deaths of ranks. With contributors C it is the sum of exactly C. Its distance from the exact sum is at most
 * one rounding, and for each contributor 2^-72 (float: 2^-28) of the largest magnitude. Nothing overflows on the way to
 * a result that is in range. A NaN, or infinities of both signs, make the positive quiet NaN. Only a sum of -0.0 alone
 * is -0.0. Four times the bytes of SUM travel, so a quarter of its elements are the limit. With K bins
 * (options.reproducible_bins) 2^(36 (1 - K)) (float: 28) stands for 2^-72. Then 32 bytes of each element travel with 3
 * bins, 64 with more.
 * AVG_REPRODUCIBLE: SUM_REPRODUCIBLE, divided by the number of contributors. Up to 2^27 ranks.
 * MIN, MAX: if any operand is a NaN, the result is a NaN. -0.0 counts as less than +0.0, so no tie is left to chance.
 * MINLOC, MAXLOC: the least or greatest value by the same rules (a NaN is the positive quiet one), and its location. Of
 * equal values, or of NaNs, it is the lowest location. Padding is not read, and is 0 in results.
 * LAND, LOR, LXOR: 0 is false, all else true; results are 0 or 1. BAND, BOR, BXOR of bool: the same. */
typedef enum UCFT_OF_INT {
  UCFT_SUM = 0,
  UCFT_PROD = 1,
  UCFT_MIN = 2,
  UCFT_MAX = 3,
  UCFT_USER = 4,
  UCFT_MINLOC = 5,
  UCFT_MAXLOC = 6,
  UCFT_LAND = 7,
  UCFT_LOR = 8,
  UCFT_LXOR = 9,
  UCFT_BAND = 10,
  UCFT_BOR = 11,
  UCFT_BXOR = 12,
  UCFT_AVG = 13,
  UCFT_SUM_REPRODUCIBLE = 14,
  UCFT_AVG_REPRODUCIBLE = 15
} ucft_op_t;

/* A user operator: inout[i] = in[i] op inout[i] for count elements.
 * - It must be associative and commutative up to rounding: the algorithm fixes the order of the ranks, and that order
 *   is not 0, 1, 2 ...
 * - The same operands must give the same bits on every rank: ranks that share memory each compute the result.
 * - It must not call ucft. It may be called on any rank any number of times, after a failure also on ucft's own thread
 *   (never two at once).
 * - It may have any type. in and inout are aligned as the type is in C (complex numbers as their parts). */
typedef void (*ucft_user_function_t)(const void* in, void* inout, uint64_t count, ucft_dtype_t dtype, void* arg);

typedef struct ucft_context_handle* ucft_context_h;
typedef struct ucft_comm_handle* ucft_comm_h;
typedef struct ucft_request_handle* ucft_request_h;

#define UCFT_CONTEXT_NULL ((ucft_context_h)0)
#define UCFT_COMM_NULL ((ucft_comm_h)0)
#define UCFT_REQUEST_NULL ((ucft_request_h)0)

/* ---- start-up ---------------------------------------------------------------------------------------------------- */

/* An out-of-band allgather, as in UCC, for jobs that neither ucft_run nor a PMIx server has started. It is used during
 * ucft_context_create only.
 * allgather: rank oob_ep contributes `size` bytes at src; recv gets n_oob_eps * size bytes in rank order. It may return
 * before it is done; then req_test says UCFT_INPROGRESS until it is. Both return an error if a rank can't take part. */
typedef struct {
  ucft_status_t (*allgather)(void* src, void* recv, size_t size, void* coll_info, void** request);
  ucft_status_t (*req_test)(void* request);
  ucft_status_t (*req_free)(void* request);
  void* coll_info;
  uint32_t n_oob_eps;
  uint32_t oob_ep;
} ucft_oob_coll_t;

typedef enum UCFT_OF_INT {
  UCFT_FAILURE_SUSPECTED = 1, /* silence: no heartbeat within suspect_after                                          */
  UCFT_FAILURE_PROVED = 2,    /* the process has ended (pidfd, closed lifeline, killed by us) or said that it is out */
} ucft_failure_kind_t;

typedef struct {
  int32_t rank;             /* in the context: 0 .. size-1 */
  ucft_failure_kind_t kind; /* suspected or proved */
  int64_t pid;              /* of the failed process, on its host */
  int64_t known_at_ns;      /* CLOCK_MONOTONIC when this rank learned of it, by itself or from another rank */
} ucft_failure_t;

/* The failure callback. It is called once per failed rank, on the thread that is inside ucft at the time. It must not
 * call ucft. */
typedef void (*ucft_failure_callback_t)(const ucft_failure_t* failure, void* arg);

typedef struct {
  size_t struct_size;
  /* behaviour */
  ucft_oob_coll_t oob;                      /* allgather == NULL: the job that ucft_run has started, else the job
                                               that a PMIx server has started (mpirun, prterun, srun; not with
                                               UCFT_PMIX=off), else a job of one rank. UCFT_ERR_STARTUP if a launcher
                                               says that this process is one of several (WORLD_SIZE and the like) and
                                               UCFT_SINGLE is not y */
  ucft_failure_callback_t failure_callback; /* NULL: none */
  void* failure_callback_arg;
  int32_t f;                    /* failures (of hosts) tolerated per operation by default; -1: UCFT_F, else 1 */
  int32_t fence;                /* 1: a silent rank of this host is killed before it is declared dead; 0: it
                                    is not; -1: UCFT_FENCE, else 1 */
  uint64_t heartbeat_period_us; /* 0: UCFT_HEARTBEAT_PERIOD, else 10 ms. The same on all ranks */
  uint64_t suspect_after_us;    /* 0: UCFT_SUSPECT_AFTER, else 1 s; at least 3 periods. The same on all ranks */
  uint64_t startup_timeout_us;  /* 0: UCFT_STARTUP_TIMEOUT, else 60 s */
  /* performance */
  int32_t spin; /* polls before the first yield; -1: UCFT_SPIN, else chosen from cores and ranks */
} ucft_context_params_t;

#define UCFT_CONTEXT_PARAMS_INIT \
  { sizeof(ucft_context_params_t), {0, 0, 0, 0, 0, 0}, 0, 0, -1, -1, 0, 0, 0, -1 }

/* Joins the job: collective over all of its ranks. params may be NULL.
 * A small job connects all pairs of ranks on different hosts. A large one connects those that operations are known to
 * need, and others with their first message (UCFT_CONNECT_ALL).
 * If a rank dies or does not arrive meanwhile, the others get UCFT_ERR_STARTUP, and ucft_last_error() names it. */
UCFT_API ucft_status_t ucft_context_create(const ucft_context_params_t* params, ucft_context_h* context);
/* Leaves the job, at any time: "left" is not "failed". Destroys the communicators that are left. All requests must be
 * complete, else UCFT_ERR_STATE.
 * Operations that this rank has not posted complete without it on the others, and their `missing` names it.
 * On one host it waits for no other rank; after quorum allreduces of a communicator for at most 5 s, until ranks that
 * are there have the results. Between hosts it waits until each live rank has finished what this one has posted:
 * normally some milliseconds, at most 3 s. If a link is cut just then, its last messages get up to 4 s more. */
UCFT_API ucft_status_t ucft_context_destroy(ucft_context_h context);
/* This rank's number in the job, 0 .. size - 1; and how many ranks the job was started with. */
UCFT_API ucft_status_t ucft_context_rank(ucft_context_h context, int32_t* rank);
UCFT_API ucft_status_t ucft_context_size(ucft_context_h context, int32_t* size);

/* How this rank reaches the others, and what it holds for that. The first three are numbers of ranks; their sum is
 * size - 1. */
typedef struct {
  size_t struct_size;
  int32_t shared_memory;    /* same host: mailboxes and payloads in shared memory                           */
  int32_t remote_mailboxes; /* RDMA: mailboxes written by put, payloads fetched by get                      */
  int32_t messages;         /* UCX active messages: the transport has no RDMA (tcp, ud), or UCFT_RMA=off */
  uint64_t mailbox_bytes;   /* memory of this rank that others write their messages into                     */
  int32_t connections;      /* of UCX, that are open now; the detector's lifelines are not among them         */
} ucft_context_paths_t;
#define UCFT_CONTEXT_PATHS_INIT \
  { sizeof(ucft_context_paths_t), 0, 0, 0, 0, 0 }
UCFT_API ucft_status_t ucft_context_paths(ucft_context_h context, ucft_context_paths_t* paths);

/* Lets pending operations advance. Calls that wait do this by themselves. */
UCFT_API ucft_status_t ucft_progress(ucft_context_h context);

/* Gives memory that peers of the same host read from without a staging copy, aligned to 64 bytes. That saves the copy
 * in an allreduce or reduce-scatter that is not in place and has 2 KiB or more. (Not of halves, carried in float.)
 * After a renewal with newcomers it is memory like any other, and ucft_free takes it still.
 * Free it before the context is destroyed, or it goes with the context. A rank that gets UCFT_ERR_EXCLUDED or
 * UCFT_ERR_PARTITION must not write any more to what it gave to an operation in flight: others may still read it. */
UCFT_API ucft_status_t ucft_alloc(ucft_context_h context, size_t bytes, void** memory);
/* Takes back memory of ucft_alloc. */
UCFT_API ucft_status_t ucft_free(ucft_context_h context, void* memory);

/* ---- communicators ----------------------------------------------------------------------------------------------- */

/* A communicator of all ranks of the context. Local: no message is sent. The n-th call on each rank makes the same
 * communicator. */
UCFT_API ucft_status_t ucft_comm_create(ucft_context_h context, ucft_comm_h* comm);
/* A communicator of the survivors of comm, in the same order. Collective. Failures are counted anew in it. */
UCFT_API ucft_status_t ucft_comm_dup(ucft_comm_h comm, ucft_comm_h* copy);
/* One communicator per colour, with ranks ordered by (key, old rank). Collective. A rank with colour < 0 gets none
 * (*part = UCFT_COMM_NULL). */
UCFT_API ucft_status_t ucft_comm_split(ucft_comm_h comm, int32_t colour, int32_t key, ucft_comm_h* part);
/* Leaves the communicator, as ucft_context_destroy leaves the job. Local: it waits for no other rank, but as
 * ucft_context_destroy does after quorum allreduces. Ranks may do it in any order. All requests must be complete, else
 * UCFT_ERR_STATE. */
UCFT_API ucft_status_t ucft_comm_destroy(ucft_comm_h comm);
/* This rank's number in comm, 0 .. size - 1; and how many ranks comm was made of, with those that have failed since. */
UCFT_API ucft_status_t ucft_comm_rank(ucft_comm_h comm, int32_t* rank);
UCFT_API ucft_status_t ucft_comm_size(ucft_comm_h comm, int32_t* size);
/* The ranks of comm that are known here to have failed, ascending. *count: in, capacity of ranks (which may be NULL if
 * the capacity is 0); out, how many there are. A local view: it grows, and may differ between ranks for a moment. So
 * don't choose a root by it: call a barrier, and take the lowest rank that its result's `missing` does not name. */
UCFT_API ucft_status_t ucft_comm_failed(ucft_comm_h comm, int32_t* ranks, int32_t* count);

/* ---- newcomers --------------------------------------------------------------------------------------------------- */
/* A new process may take the seat of a rank that has failed or left. The job's ranks are started with UCFT_JOINABLE=y,
 * and a secret (ucft_run --respawn sees to all of it). The new process finds UCFT_JOIN=HOST:PORT in its environment:
 * the address of any rank that lives, or several with commas. It calls ucft_context_create as all do, then
 * ucft_comm_join. Survivors and newcomers connect with each other in the background. Survivors then call
 * ucft_comm_renew, when it suits them. See docs/failure_model.md, "Newcomers". */

/* Options of ucft_comm_renew. All must be the same on all ranks. If time limits differ, the longest says how long a
 * renewal lasts, and the shortest until when a newcomer must be ready. grow_to is at most 4096. */
typedef struct {
  size_t struct_size;
  int32_t newcomers;   /* how many are waited for; -1: one for each free seat, up to grow_to */
  uint64_t timeout_us; /* for so long; then those that are ready are taken. 0: those that are ready now */
  int32_t grow_to;     /* newcomers for whom no seat is free sit behind the last rank, up to so many ranks; 0: none */
} ucft_renew_options_t;
#define UCFT_RENEW_OPTIONS_INIT \
  { sizeof(ucft_renew_options_t), -1, 0, 0 }

/* A communicator of as many seats as comm has: each survivor keeps its rank, and newcomers that are ready have the
 * seats of ranks that have failed or left. Seats that nobody has taken stay empty, as ranks that have failed. Only with
 * `grow_to` there may be more seats. A job is never smaller than before.
 * The first call that asks for more seats begins to connect with those that wait for one; they may be ready in a later
 * call only (a few ms on one host), if this one has no time limit.
 * Collective over the survivors, which agree on the newcomers. If nobody is ready it has comm's members.
 * comm: of all ranks of its context, and of the latest epoch: comm itself must not have been renewed with newcomers. It
 * goes on as it was, without newcomers: destroy it when it is not needed any more. From here on `context` of the other
 * functions has the newcomers as members. options: may be NULL.
 * UCFT_ERR_STATE: the job is not joinable, or comm was renewed before. All errors of ucft_allreduce. */
UCFT_API ucft_status_t ucft_comm_renew(ucft_comm_h comm, const ucft_renew_options_t* options, ucft_comm_h* renewed);
/* A newcomer's way in: waits until survivors have taken it into a renewed communicator, and gives that one. Of a
 * context that has started in the usual way: as ucft_comm_create, so programs may call it always. Until then no other
 * function takes the context but those of this section and ucft_context_destroy: UCFT_ERR_STATE.
 * UCFT_ERR_TIMED_OUT: not within timeout_us; it may be called again. UCFT_ERR_STARTUP: no member of the job can be
 * reached, or the job refuses this process. */
UCFT_API ucft_status_t ucft_comm_join(ucft_context_h context, uint64_t timeout_us, ucft_comm_h* comm);
/* The ranks of comm that have come with the renewal that made it, ascending; the same on all. None if it was made in
 * another way, or nobody was ready. *count: as in ucft_comm_failed. */
UCFT_API ucft_status_t ucft_comm_newcomers(ucft_comm_h comm, int32_t* ranks, int32_t* count);
/* Newcomers as this rank sees them: those that a renewal could take now, and those that it knows of, these included. A
 * local view. Each may be NULL. */
UCFT_API ucft_status_t ucft_context_waiting(ucft_context_h context, int32_t* ready, int32_t* known);
/* The address of this rank, for UCFT_JOIN, as text that ends in 0. 64 bytes are enough. */
UCFT_API ucft_status_t ucft_context_address(ucft_context_h context, char* text, size_t bytes);

/* The state of a rank, as another rank sees it. */
typedef enum UCFT_OF_INT {
  UCFT_RANK_COMPUTING = 0, /* outside ucft, or in an operation that has all that it needs, and has only to look     */
  UCFT_RANK_IN_OPERATION = 1, /* it has posted an operation that waits for others                                     */
  UCFT_RANK_MISMATCHED = 2,   /* it has posted another operation than most, and some ranks wait; or it waits in one
                                 communicator for ranks that wait for it in another. The text says what differs */
  UCFT_RANK_STOPPED = 3, /* by a signal (SIGSTOP), or a debugger                                                   */
  UCFT_RANK_SILENT = 4,  /* no sign of life for five heartbeats, at least 50 ms; of a rank that shares no memory with
                                 this one, for half of suspect_after */
  UCFT_RANK_DEAD = 5,    /* its process has ended, or it was declared dead                                         */
  UCFT_RANK_OUT = 6,     /* it lives, but the others go on without it (UCFT_ERR_EXCLUDED, UCFT_ERR_PARTITION there) */
  UCFT_RANK_LEFT = 7,    /* it has destroyed its context                                                           */
  UCFT_RANK_UNKNOWN = 8  /* it lives, and its memory can't be read from here: another host, or container           */
} ucft_rank_state_t;

typedef enum UCFT_OF_INT {
  UCFT_COLLECTIVE_UNKNOWN = -1,
  UCFT_COLLECTIVE_ALLREDUCE = 0,
  UCFT_COLLECTIVE_BARRIER = 1,
  UCFT_COLLECTIVE_BROADCAST = 2,
  UCFT_COLLECTIVE_REDUCE = 3,
  UCFT_COLLECTIVE_ALLGATHER = 4,
  UCFT_COLLECTIVE_GATHER = 5,
  UCFT_COLLECTIVE_REDUCE_SCATTER = 6,
  UCFT_COLLECTIVE_SCATTER = 7,
  UCFT_COLLECTIVE_ALLTOALL = 8,
  UCFT_COLLECTIVE_SCAN = 9,
  UCFT_COLLECTIVE_EXSCAN = 10
} ucft_collective_t;

/* A rank of a communicator as it is seen from this one. Times: CLOCK_MONOTONIC in ns of this host; 0: not known. */
typedef struct {
  size_t struct_size;
  ucft_rank_state_t state;
  ucft_collective_t
      last;             /* the last operation that it has posted here: number posted - 1, counted from 0             */
  int64_t posted;       /* operations on this communicator, splits and internal ones included, such as the barrier
                             behind a uniform one (0 in one of a single rank); of a rank that is UCFT_RANK_UNKNOWN:
                             at least so many                                                                  */
  int64_t finished;     /* all operations before that number; -1: not known                                    */
  int64_t posted_at_ns; /* when it posted the last one; up to a heartbeat early                                */
  int64_t heard_at_ns;  /* its last sign of life                                                                      */
  int64_t pid;          /* on its host                                                                                */
  int32_t* waits_for;   /* caller's array or NULL: the ranks of the communicator that it waits for, ascending      */
  int32_t
      waits_for_capacity;  /* of it                                                                                  */
  int32_t waits_for_count; /* how many there are                                                                     */
  char* text;              /* caller's memory or NULL: a sentence with all this, and what doesn't match; ends in 0   */
  size_t text_bytes;       /* of it                                                                                  */
} ucft_rank_sight_t;
#define UCFT_RANK_SIGHT_INIT \
  { sizeof(ucft_rank_sight_t), UCFT_RANK_UNKNOWN, UCFT_COLLECTIVE_UNKNOWN, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Says which rank is late: for each rank of comm the last operation that it has posted, when it did, which ranks it
 * waits for, and what it does now.
 * sights: one for each of ranks 0, 1, ..., set with UCFT_RANK_SIGHT_INIT. *count: in, how many; out, the size of comm.
 * The ranks are neither stopped nor asked. The call reads what they keep in shared memory, so it also sees a rank that
 * hangs or is stopped. Of ranks elsewhere it tells what they were heard to say, and whose messages this rank needs (in
 * this rank's own waits_for).
 * Any thread may call it, also while another one is inside the context: it is meant for a watchdog. (Exception: not
 * while comm is being destroyed.) ucft_last_error() says the same when a time limit of ucft_wait passes, and so does
 * ucft_info --job. */
UCFT_API ucft_status_t ucft_comm_look(ucft_comm_h comm, ucft_rank_sight_t* sights, int32_t* count);
/* Notes what the program is inside of while it is outside ucft, such as "MPI_Recv". ucft_comm_look and ucft_info --job
 * show it for a rank that is UCFT_RANK_COMPUTING. Up to 31 characters; longer texts are cut. NULL takes the note back.
 * It costs some stores. Any thread may call it, one at a time. */
UCFT_API ucft_status_t ucft_note_activity(ucft_context_h context, const char* activity);

/* ---- operations -------------------------------------------------------------------------------------------------- */

typedef enum UCFT_OF_INT {
  UCFT_TREE_AUTO = -1, /* the fastest for this size by the cost model (UCFT_MODEL): OPTIMAL with the delay that fits */
  UCFT_TREE_BINOMIAL = 0,
  UCFT_TREE_KARY = 1,    /* k children each                                                                   */
  UCFT_TREE_KNOMIAL = 2, /* radix k; 2: binomial                                                              */
  UCFT_TREE_LAME = 3,    /* Lame(k): a rank informed at time s informs one more at s+k, s+k+1, ...; 1: binomial */
  UCFT_TREE_OPTIMAL = 4, /* the same with a delay that need not be whole: the earliest possible in LogP       */
  UCFT_TREE_CHAIN = 5,
  UCFT_TREE_FLAT = 6,   /* the root to all                                                                   */
  UCFT_TREE_GOSSIP = 7, /* no tree: a rank that has the value sends it to ranks by chance, for gossip_time_ns. With
                           `correction` it is corrected gossip (Hoefler et al.): OPPORTUNISTIC OCG, CHECKED CCG,
                           FAILURE_PROOF FCG */
  UCFT_TREE_AUTO_OR_GOSSIP = 8 /* AUTO or GOSSIP: the one that ends earlier by the cost model, with checked correction,
                                  if no rank is dead. Without a `correction` it is AUTO                             */
} ucft_tree_t;
typedef enum UCFT_OF_INT { UCFT_INTERLEAVED = 0, UCFT_IN_ORDER = 1 } ucft_numbering_t;
typedef enum UCFT_OF_INT {
  UCFT_CORRECTION_NONE = 0,
  UCFT_CORRECTION_OPPORTUNISTIC = 1,           /* a fixed number of messages per rank                           */
  UCFT_CORRECTION_CHECKED = 2,                 /* until a neighbour has been heard on each side                 */
  UCFT_CORRECTION_OPPORTUNISTIC_OPTIMISED = 3, /* opportunistic, less what others are seen to do already        */
  UCFT_CORRECTION_FAILURE_PROOF = 4            /* until f+1 neighbours have been heard on each side             */
} ucft_correction_t;
typedef enum UCFT_OF_INT {
  UCFT_FAILURE_INFO_LIST = 0,
  UCFT_FAILURE_INFO_COUNT = 1,
  UCFT_FAILURE_INFO_BIT = 2
} ucft_failure_info_t;

/* Options of one call. All ranks must give the same values. */
typedef struct {
  size_t struct_size;
  int32_t f; /* hosts that may fail as a whole in this operation, 0 .. n-1; -1: the context's (at most n-1). On a host
            that lives any number of ranks may die */
  int32_t first_root; /* where there is no root: where the reduction goes; -1: rank 0. Any rank will do: if it dies,
                         the next one takes over */
  ucft_tree_t tree;   /* of the broadcast */
  int32_t arity;      /* k of KARY (1 ..), KNOMIAL (2 ..) and LAME (1 .. 1024); 0: 4 */
  ucft_numbering_t numbering;       /* in-order is there for comparison: a death loses one long block. Not with LAME and
                                       OPTIMAL */
  ucft_correction_t correction;     /* messages that spare survivors the question to the root after a death */
  int32_t correction_distance;      /* d of both opportunistic forms: d/2 ranks left, d-d/2 right. 0: 2; with GOSSIP the
                                       d that passes a rank by with a probability of 1e-6 (C of OCG is d/2) */
  ucft_failure_info_t failure_info; /* what the reduction reports of failures: the ranks, their count, or one bit */
  int32_t tree_delay_quarters;      /* of OPTIMAL: (L + 2o) / max(g, o) of the network in quarters, 4 .. 4096; 0: 16 */
  int64_t correction_delay_us;      /* phased: corrections begin this long after the value has come, so fewer are
                                       needed. 0: overlapped, at once. A rank that is not inside ucft by then sends
                                       them when it is back. Up to an hour */
  int64_t gossip_time_ns;           /* T of GOSSIP, from the root's start; then correction begins. 0: by the cost model
                                       (UCFT_MODEL). Up to 1 s. A rank that gossip and correction have passed by asks
                                       the root after 10 ms and 10 us for each rank. The root answers when it is
                                       inside ucft. So a broadcast keeps its promises with any T
                                       (docs/failure_model.md). An operation is complete when this rank has gossiped
                                       and corrected. Each rank may get the value several times: for small payloads */
  int32_t
      reproducible_bins; /* of SUM_REPRODUCIBLE and AVG_REPRODUCIBLE: how many bins a sum keeps, of 36 bits (float: 28).
                                       0: 3 (float: 2), else up to 7. With more bins smaller numbers beside large ones
                                       count, for up to eight times a double's bytes on the way, and slower. Each number
                                       of bins has its own bits */
  int32_t
      reproducible_sweeps; /* of SUM_REPRODUCIBLE and AVG_REPRODUCIBLE. 1: one sweep, in accumulators that adapt to what
                                       they meet. 2: two sweeps, the largest magnitude first, then sums below it. 0: the
                                       faster one: 2 where a rank reads what all have given (in shared memory), else 1.
                                       Elsewhere 2 is two operations, done again if a rank dies between them, of a
                                       blocking ucft_allreduce only. The bits are the same */
  int32_t uniform; /* 1: what any rank has returned, also one that dies then, the survivors return. 0: survivors agree
                      among themselves. Where all ranks share memory every result is uniform. Between hosts a barrier
                      follows the operation, with its f: its error is the operation's then. It must be the same on all
                      ranks: else their later calls are compared with each other's, one apart. Of reduce and gather it
                      is about the root's result. Not of gossip operations */
  int64_t deadline_ns; /* with a quorum: from the first post that the rank which decides hears of, once all
                          operations before it are decided; at most an hour */
  int32_t quorum;      /* of ucft_allreduce: decided once so many ranks have posted it and deadline_ns have passed, or
                          all that live have. 0: all that live must. The same on all ranks, as deadline_ns */
} ucft_coll_options_t;

#define UCFT_COLL_OPTIONS_INIT                                                                         \
  {                                                                                                    \
    sizeof(ucft_coll_options_t), -1, -1, UCFT_TREE_AUTO, 0, UCFT_INTERLEAVED, UCFT_CORRECTION_NONE, 0, \
        UCFT_FAILURE_INFO_LIST, 0, 0, 0, 0, 0, 0, 0, 0                                                 \
  }

/* The result of an operation. It is always written; the operation's outputs are written on success only, but for some
 * long allreduces (docs/failure_model.md, promise 7). */
typedef struct {
  size_t struct_size;
  ucft_status_t status;
  uint32_t contributors; /* ranks whose value is in the result (averages divide by it). 0 where the result is not
                                known: reduce and gather away from the root. Broadcast,
                                scatter: 1 */
  uint32_t attempts;     /* ballots that this rank took part in: 1, and one more at the first death that it hears of, or
                                for each root that dies; always 1 where all ranks share memory */
  int32_t* missing;      /* caller's array or NULL: ranks of the communicator that did not contribute, ascending.
                                With failure_info LIST only (of blocks and scans: always) */
  int32_t missing_capacity; /* of it */
  int32_t missing_count; /* how many there are; -1: not known (broadcast, scatter; reduce and gather away from the root;
                               COUNT and BIT, but for blocks and scans; more than 64 failures, where ranks send
                               messages) */
  int32_t* late;         /* caller's array or NULL, of options.quorum: ranks that live and were late, ascending */
  int32_t late_capacity; /* of it */
  int32_t late_count;    /* how many there are; 0 of other operations */
  int32_t is_late;       /* 1: this rank is one of them: its value is not in the result */
} ucft_result_t;

#define UCFT_RESULT_INIT \
  { sizeof(ucft_result_t), UCFT_INPROGRESS, 0, 0, 0, 0, -1, 0, 0, 0, 0 }

/* Of operations: the data of one, of all ranks together, have less than 1 TiB. */

/* As `send` of an operation: the input is taken from recv. */
#define UCFT_IN_PLACE ((const void*)-1)

/* An operator: op, and for UCFT_USER the function with its argument. */
typedef struct {
  size_t struct_size;
  ucft_op_t op;
  ucft_user_function_t function;
  void* arg;
} ucft_operator_t;

#define UCFT_OPERATOR_INIT(op_) \
  { sizeof(ucft_operator_t), (op_), 0, 0 }

/* Combines count elements of dtype of all ranks by op, and gives the result to all. count 0 is a barrier. As all calls
 * without _init it blocks; options and result may be NULL.
 * If ranks die: all survivors get the same bits. A dead rank's value is in the result once or not at all, and
 * result->missing says which. If more than f hosts die: the right result, or UCFT_ERR_TOO_MANY_FAILURES on all.
 * With options.quorum it does not wait for slow ranks: result->late names those whose values came too late, the same
 * on all ranks. A rank that is late stays a member. Its call returns the result, with is_late set, if that is one of
 * the last 4; else UCFT_ERR_LATE, and recv is as it was. It may add its value to that of its next call. (In place the
 * result overwrites it.) Its calls wait for no other rank's value until it has caught up. Such operations are ordered
 * among themselves alone, at most 4 in flight; any number of ranks may die. One rank combines: what it reads is n
 * times the bytes. Not with options.uniform, nor with reproducible_sweeps 2. f, tree and correction have no effect;
 * UCFT_TREE_GOSSIP is refused. */
UCFT_API ucft_status_t ucft_allreduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                      ucft_dtype_t dtype, ucft_op_t op, const ucft_coll_options_t* options,
                                      ucft_result_t* result);
/* Combines as ucft_allreduce does, and gives the result to the root alone: recv matters there only. Elsewhere the call
 * returns once this rank's part is done.
 * If another rank dies: as ucft_allreduce, at the root. If the root dies it is a no-op: UCFT_ERR_ROOT_FAILED on ranks
 * that know of the death by then, UCFT_OK on the others (paper, section 4.1). So don't call a collective because of
 * that status: the next allreduce or barrier tells all alike. */
UCFT_API ucft_status_t ucft_reduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                   ucft_op_t op, int32_t root, const ucft_coll_options_t* options,
                                   ucft_result_t* result);
/* Combines as ucft_allreduce does, and gives each rank its share of the result: rank r the count elements from
 * r * count on. send has count elements for each rank of the communicator, recv this rank's share. In place the input
 * is in recv, and the share comes to where recv begins. send and recv must not overlap otherwise.
 * If ranks die: as ucft_allreduce. A dead rank's share goes to nobody.
 * Where all ranks share memory, a rank makes the sum of its own share alone, but of short data on a tree. Between hosts
 * the sum is made whole, as an allreduce. In place the rest of recv stays as it was. */
UCFT_API ucft_status_t ucft_reduce_scatter(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                           ucft_dtype_t dtype, ucft_op_t op, const ucft_coll_options_t* options,
                                           ucft_result_t* result);
/* The same with shares of different lengths: counts[r] elements of rank r, behind those of the ranks before it. counts
 * must be the same on all ranks. Either all ranks call this one, or all call ucft_reduce_scatter. counts is read in the
 * call (of the nonblocking form: in init). */
UCFT_API ucft_status_t ucft_reduce_scatterv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                            ucft_dtype_t dtype, ucft_op_t op, const ucft_coll_options_t* options,
                                            ucft_result_t* result);
/* Gives the root's count elements to all ranks. If ranks die, all survivors get the root's data, or all get
 * UCFT_ERR_ROOT_FAILED and keep what was in their buffer. To go on then: all call ucft_barrier. The new root is the
 * lowest rank that the `missing` of its result does not name. A broadcast has no `missing`. */
UCFT_API ucft_status_t ucft_broadcast(ucft_comm_h comm, void* buffer, uint64_t count, ucft_dtype_t dtype, int32_t root,
                                      const ucft_coll_options_t* options, ucft_result_t* result);
/* Gives each rank its share of the root's data: rank r the count elements from r * count on. send has count elements
 * for each rank of the communicator, and matters at the root only. recv has this rank's share. At the root it may be
 * UCFT_IN_PLACE: then the root's share stays in send. They must not overlap.
 * If ranks die: as ucft_broadcast. A dead rank's share goes to nobody.
 * Where all ranks share memory, each reads its share alone. Else the data go whole to each rank, as in a broadcast. A
 * root that names other counts than the others, or calls something else, is not told so; the others are. */
UCFT_API ucft_status_t ucft_scatter(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                    int32_t root, const ucft_coll_options_t* options, ucft_result_t* result);
/* The same with shares of different lengths: counts[r] elements of rank r, behind those of the ranks before it. counts
 * must be the same on all ranks. Either all ranks call this one, or all call ucft_scatter. counts is read in the call
 * (of the nonblocking form: in init). */
UCFT_API ucft_status_t ucft_scatterv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                     ucft_dtype_t dtype, int32_t root, const ucft_coll_options_t* options,
                                     ucft_result_t* result);
/* Gives every rank's block to every rank: count elements each, rank r's at recv + r * count. In place the input is
 * taken from this rank's own place in recv. send and recv must not overlap otherwise.
 * If ranks die: a dead rank's block is there on all survivors or on none. If on none, its place in recv is left as it
 * was, and `missing` names the rank, whatever failure_info says.
 * Ranks that share memory read each other's blocks. Between hosts short blocks go by recursive doubling, long ones in
 * pieces, from all hosts at the same time. Those of an operation that meets a death go along trees. */
UCFT_API ucft_status_t ucft_allgather(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                      ucft_dtype_t dtype, const ucft_coll_options_t* options, ucft_result_t* result);
/* Gives every rank's block to the root: count elements each, rank r's at recv + r * count. recv matters there only.
 * UCFT_IN_PLACE is for the root alone, whose input is in its place then. send and recv must not overlap otherwise.
 * Elsewhere the call returns once this rank's part is done.
 * If ranks die: a dead rank's block is there or not. If not, its place in recv is left as it was, and result->missing
 * names the rank, whatever options.failure_info is. If the root dies: as ucft_reduce. */
UCFT_API ucft_status_t ucft_gather(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                   int32_t root, const ucft_coll_options_t* options, ucft_result_t* result);
/* An allgather with blocks of different lengths: counts[r] elements of rank r, this rank's included, at recv +
 * displacements[r] elements (NULL: one after the other). counts must be the same on all ranks; displacements need not
 * be. Places must not overlap. Either all ranks call this one, or all call ucft_allgather. Both arrays are read in the
 * call (of the nonblocking form: in init). */
UCFT_API ucft_status_t ucft_allgatherv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                       const uint64_t* displacements, ucft_dtype_t dtype,
                                       const ucft_coll_options_t* options, ucft_result_t* result);
/* A gather with blocks of different lengths: counts[r] elements of rank r, this rank's included, at recv +
 * displacements[r] elements (NULL: one after the other). counts must be the same on all ranks; displacements matter at
 * the root only. Either all ranks call this one, or all call ucft_gather. */
UCFT_API ucft_status_t ucft_gatherv(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                    const uint64_t* displacements, ucft_dtype_t dtype, int32_t root,
                                    const ucft_coll_options_t* options, ucft_result_t* result);
/* Gives to each rank what this one has for it, and gets from each what that has for this one: count elements for rank r
 * at send + r * count, and from rank r at recv + r * count. In place the input is taken from recv. send and recv must
 * not overlap otherwise.
 * If ranks die: what a dead rank has given is there on all survivors or on none. If it is on none, its place in recv is
 * left as it was, and result->missing names the rank, whatever options.failure_info is.
 * Where all ranks share memory, each reads no more than it gets. If a rank gives more than 32 MiB there, it goes
 * in rounds of 8 MiB. Others wait then for a rank that has posted it and computes. Other posts of the communicator are
 * UCFT_ERR_BUSY meanwhile. The place of a missing rank's share may hold the beginning of that share then.
 * Between hosts short blocks go whole to each; shares go straight to their readers between two hosts, and from 96 KiB
 * on of all blocks together. */
UCFT_API ucft_status_t ucft_alltoall(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                     const ucft_coll_options_t* options, ucft_result_t* result);
/* The same with shares of different lengths: send_counts[r] elements for rank r at send + send_displacements[r]
 * elements, and recv_counts[r] elements from rank r at recv + recv_displacements[r] elements. Displacements may be
 * NULL: one after the other. Only the two ranks of a share need to know its length, and both must name the same. In
 * place the send arrays don't matter: each rank gives as much as it gets. Places in recv must not overlap. All
 * four arrays are read in the call (of the nonblocking form: in init). Either all ranks call this one, or all call
 * ucft_alltoall.
 * If ranks die: as ucft_alltoall.
 * A rank that expects another length than a rank gives gets UCFT_ERR_MISMATCH, which names that rank. Its recv is left
 * as it was. The other ranks have success.
 * Between hosts all shares go straight to their readers. */
UCFT_API ucft_status_t ucft_alltoallv(ucft_comm_h comm, const void* send, const uint64_t* send_counts,
                                      const uint64_t* send_displacements, void* recv, const uint64_t* recv_counts,
                                      const uint64_t* recv_displacements, ucft_dtype_t dtype,
                                      const ucft_coll_options_t* options, ucft_result_t* result);
/* Combines, on rank r, send of the ranks 0 to r, in their order. send and recv must not overlap, unless it is in place.
 * If ranks die: a dead rank's value is in the results of all ranks behind it, or in nobody's. So the results are those
 * of one list of ranks. result->contributors counts the values in this rank's result; an average is that of these.
 * result->missing names the ranks up to r whose values are in nobody's result, whatever options.failure_info is.
 * Where all ranks share memory, a rank waits for those up to its own alone. It learns nothing of arguments that differ
 * on the ranks behind it; those learn it. */
UCFT_API ucft_status_t ucft_scan(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                 ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result);
/* A scan of the ranks before this one: 0 to r - 1. Where none of these has contributed, as on rank 0, recv is left as
 * it was. On rank 0 it may be NULL. result->contributors and missing are of these ranks, too. */
UCFT_API ucft_status_t ucft_exscan(ucft_comm_h comm, const void* send, void* recv, uint64_t count, ucft_dtype_t dtype,
                                   ucft_op_t op, const ucft_coll_options_t* options, ucft_result_t* result);
/* Waits for all ranks: returns once every rank that has not failed has entered. */
UCFT_API ucft_status_t ucft_barrier(ucft_comm_h comm, const ucft_coll_options_t* options, ucft_result_t* result);

/* Agrees on flags: *flags becomes the AND of the flags of all contributors, the same on all survivors. result->missing
 * (options.failure_info is LIST) has the ranks that are not in it: all know alike who has failed, or left. It is
 * uniform, whatever options.uniform is: a rank that has returned, and dies then, has had what the survivors have. */
UCFT_API ucft_status_t ucft_agree(ucft_comm_h comm, uint64_t* flags, const ucft_coll_options_t* options,
                                  ucft_result_t* result);

/* Sends and receives, between two ranks of a communicator. */
#define UCFT_ANY_SOURCE (-1)

/* The message that a receive got. */
typedef struct {
  size_t struct_size;
  int32_t source; /* of UCFT_ERR_PEER_FAILED: the rank that has failed, or has left */
  int32_t tag;
  uint64_t count; /* whole elements; 0 if the receive has failed */
} ucft_received_t;

#define UCFT_RECEIVED_INIT \
  { sizeof(ucft_received_t), -1, 0, 0 }

/* Sends count elements to one rank, under a tag. Returns when send may be changed again. A message of up to 16 KiB does
 * not wait for its receive. It may wait until the destination is in a call that waits or tests, or in ucft_progress.
 * A longer message waits for its receive. So does each one to a rank where 256 KiB of the sender's lie unreceived.
 * UCFT_ERR_PEER_FAILED: the destination has failed, or has left the communicator; ucft_last_error() names it. A send
 * that has succeeded does not say that the message was received.
 * A rank may send to itself. Sends and receives are not ordered with collectives. */
UCFT_API ucft_status_t ucft_send(ucft_comm_h comm, const void* send, uint64_t count, ucft_dtype_t dtype,
                                 int32_t destination, int32_t tag);

/* Receives a message of that source and tag: of several, the one that was sent first. It may be shorter than count
 * elements, and its type is not compared. received says whose it was and how long; may be NULL.
 * UCFT_ERR_TRUNCATED: the message is longer. It is lost, recv is as it was, and the send has succeeded.
 * UCFT_ERR_PEER_FAILED: the source has failed, or has left, and no message of it is here. Messages that it had sent
 * before are received first. Between hosts those may be lost that were on their way when it died.
 * UCFT_ANY_SOURCE: a message of any rank, this one included. Where none is here it ends with UCFT_ERR_PEER_FAILED once
 * for each rank that has failed since, and received->source names it. The next receive goes on. Where all other ranks
 * have failed or left each such receive ends so. */
UCFT_API ucft_status_t ucft_recv(ucft_comm_h comm, void* recv, uint64_t count, ucft_dtype_t dtype, int32_t source,
                                 int32_t tag, ucft_received_t* received);

/* Their nonblocking and persistent forms: see below. */
UCFT_API ucft_status_t ucft_send_init(ucft_comm_h comm, const void* send, uint64_t count, ucft_dtype_t dtype,
                                      int32_t destination, int32_t tag, ucft_request_h* request);
/* The same of a receive. ucft_request_free cancels one that is posted, as long as no message is for it. */
UCFT_API ucft_status_t ucft_recv_init(ucft_comm_h comm, void* recv, uint64_t count, ucft_dtype_t dtype, int32_t source,
                                      int32_t tag, ucft_request_h* request);
/* Which message a receive that is complete has got. UCFT_ERR_STATE: it is not complete, or is no receive. */
UCFT_API ucft_status_t ucft_request_received(ucft_request_h request, ucft_received_t* received);

/* Nonblocking and persistent forms: init checks the arguments, ucft_post starts the operation (again and again, if you
 * like), ucft_test or ucft_wait completes it. With a user operator: ucft_operator_t. */
UCFT_API ucft_status_t ucft_allreduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                           ucft_dtype_t dtype, const ucft_operator_t* op,
                                           const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_reduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                        ucft_dtype_t dtype, const ucft_operator_t* op, int32_t root,
                                        const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_reduce_scatter_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                                ucft_dtype_t dtype, const ucft_operator_t* op,
                                                const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_reduce_scatterv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                                 ucft_dtype_t dtype, const ucft_operator_t* op,
                                                 const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_broadcast_init(ucft_comm_h comm, void* buffer, uint64_t count, ucft_dtype_t dtype,
                                           int32_t root, const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_scatter_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                         ucft_dtype_t dtype, int32_t root, const ucft_coll_options_t* options,
                                         ucft_request_h* request);
UCFT_API ucft_status_t ucft_scatterv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                          ucft_dtype_t dtype, int32_t root, const ucft_coll_options_t* options,
                                          ucft_request_h* request);
UCFT_API ucft_status_t ucft_gather_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                        ucft_dtype_t dtype, int32_t root, const ucft_coll_options_t* options,
                                        ucft_request_h* request);
UCFT_API ucft_status_t ucft_gatherv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                         const uint64_t* displacements, ucft_dtype_t dtype, int32_t root,
                                         const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_allgather_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                           ucft_dtype_t dtype, const ucft_coll_options_t* options,
                                           ucft_request_h* request);
UCFT_API ucft_status_t ucft_allgatherv_init(ucft_comm_h comm, const void* send, void* recv, const uint64_t* counts,
                                            const uint64_t* displacements, ucft_dtype_t dtype,
                                            const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_alltoall_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                          ucft_dtype_t dtype, const ucft_coll_options_t* options,
                                          ucft_request_h* request);
UCFT_API ucft_status_t ucft_alltoallv_init(ucft_comm_h comm, const void* send, const uint64_t* send_counts,
                                           const uint64_t* send_displacements, void* recv, const uint64_t* recv_counts,
                                           const uint64_t* recv_displacements, ucft_dtype_t dtype,
                                           const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_scan_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                      ucft_dtype_t dtype, const ucft_operator_t* op, const ucft_coll_options_t* options,
                                      ucft_request_h* request);
UCFT_API ucft_status_t ucft_exscan_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                        ucft_dtype_t dtype, const ucft_operator_t* op,
                                        const ucft_coll_options_t* options, ucft_request_h* request);
UCFT_API ucft_status_t ucft_barrier_init(ucft_comm_h comm, const ucft_coll_options_t* options, ucft_request_h* request);

/* Starts a request's operation. UCFT_ERR_BUSY: too many are in flight on this communicator; call ucft_progress, then
 * post again. */
UCFT_API ucft_status_t ucft_post(ucft_request_h request);
/* Looks whether the operation is complete: UCFT_INPROGRESS, or its status. Once it is complete every test says the
 * same, until the next post. */
UCFT_API ucft_status_t ucft_test(ucft_request_h request);
/* Waits for the operation, up to timeout_us (UINT64_MAX: without limit). UCFT_ERR_STATE: it was waited for already.
 * UCFT_ERR_TIMED_OUT: it is still in progress. From 10 ms on ucft_last_error() then says what ucft_comm_look says,
 * about the ranks that it waits for and those that have posted another operation.
 * If a peer fails, it waits until the detector has noticed that, and no longer. Exception: a silent rank of this host
 * that can't be killed (docs/failure_model.md). */
UCFT_API ucft_status_t ucft_wait(ucft_request_h request, uint64_t timeout_us);
/* ucft_post and ucft_wait in one, with the errors of both: as fast as a blocking call, and with a time limit.
 * UCFT_ERR_BUSY: there was no room to post it in all that time. */
UCFT_API ucft_status_t ucft_post_and_wait(ucft_request_h request, uint64_t timeout_us);
/* The result of the last completed post. UCFT_ERR_STATE before that. */
UCFT_API ucft_status_t ucft_request_result(ucft_request_h request, ucft_result_t* result);
/* Frees a request. While its operation is in progress: UCFT_ERR_STATE. */
UCFT_API ucft_status_t ucft_request_free(ucft_request_h request);

/* ---- sums that do not depend on how the data is cut -------------------------------------------------------------- */

/* The exact sum of numbers: nothing is rounded before its value is asked for. So the value has the same bits for any
 * order of the numbers, and for any cut of them among calls, threads and ranks.
 *
 *   ucft_accumulator_t sum = UCFT_ACCUMULATOR_INIT;
 *   ucft_accumulate(values, count, UCFT_DOUBLE, &sum);
 *   ucft_allreduce(comm, UCFT_IN_PLACE, &sum, 1, UCFT_ACCUMULATOR, UCFT_SUM, NULL, NULL);
 *   ucft_accumulator_value(&sum, UCFT_DOUBLE, &total);
 *
 * It is plain memory without pointers: it may be copied, sent, and kept in arrays and files, on machines of one byte
 * order. All bytes 0 is an empty one. One sum has one form, byte by byte, when a function of ucft has written it.
 * Functions of accumulators need no context. Any thread may call them, one at a time for each accumulator: several
 * threads have one each, and merge them. They return UCFT_OK, or UCFT_ERR_INVALID_PARAM and have changed nothing. They
 * refuse memory that is no accumulator: never initialised, or damaged.
 * UCFT_ACCUMULATOR is the type of it in collectives: UCFT_SUM merges accumulators; collectives without an operator copy
 * them. Other libraries may merge them, too: as 112 int64 by a sum that wraps, of up to 2^22 ranks.
 * Special values: a NaN, or infinities of both signs, make the positive quiet NaN; else an infinity makes the value
 * infinite. Sums do not overflow on the way: the value alone may be an infinity. Subnormal numbers count as they are. A
 * sum of 0 is +0.0, unless all that was added is -0.0. An empty one is +0.0.
 * Source: Kulisch's accumulator, with blocks summed as Rump, Ogita and Oishi do (docs/algorithms.md, "Exact sums"). */
typedef struct {
  int64_t words[112];
} ucft_accumulator_t;

#define UCFT_ACCUMULATOR_INIT \
  {                           \
    { 0 }                     \
  }

/* Adds count values of UCFT_FLOAT or UCFT_DOUBLE. Each call has a fixed cost of some 500 operations. */
UCFT_API ucft_status_t ucft_accumulate(const void* values, uint64_t count, ucft_dtype_t dtype,
                                       ucft_accumulator_t* accumulator);
/* Adds a[i] * b[i] for count values of each: a dot product. The products are exact, so no product overflows, underflows
 * or is rounded. */
UCFT_API ucft_status_t ucft_accumulate_products(const void* a, const void* b, uint64_t count, ucft_dtype_t dtype,
                                                ucft_accumulator_t* accumulator);
/* Adds values[i] * values[i]: the square of a norm. */
UCFT_API ucft_status_t ucft_accumulate_squares(const void* values, uint64_t count, ucft_dtype_t dtype,
                                               ucft_accumulator_t* accumulator);
/* Adds what `from` has to `into`. They may be the same one. */
UCFT_API ucft_status_t ucft_accumulator_merge(ucft_accumulator_t* into, const ucft_accumulator_t* from);
/* The sum, rounded once, to nearest, ties to even: to a double, or a float at `value`. */
UCFT_API ucft_status_t ucft_accumulator_value(const ucft_accumulator_t* accumulator, ucft_dtype_t dtype, void* value);
/* The square root of the sum, rounded once: of squares, a norm, also where the squares are out of a double's range. Of
 * less than 0: NaN. */
UCFT_API ucft_status_t ucft_accumulator_root(const ucft_accumulator_t* accumulator, ucft_dtype_t dtype, void* value);

/* ---- gossip ------------------------------------------------------------------------------------------------------ */

/* The algorithm of an all-reduce by gossip, in which each rank exchanges with one other at a time, and all estimates
 * converge to the aggregate. It is approximate, with a bound of the error that is measured. Any rank may die, and an
 * estimate is there at any moment. docs/gossip_api.md says which algorithm to take.
 * Sources: Casas, Gansterer, Wimmer 2018 (push-sum, push-flow and its corrections, cycles, sampled recursive doubling);
 * Niederbrucker, Strakova, Gansterer 2012 (push-cancel-flow). */
typedef enum UCFT_OF_INT {
  UCFT_GOSSIP_PUSH_SUM = 0,  /* asynchronous: a rank pushes half of its mass to a neighbour chosen by chance      */
  UCFT_GOSSIP_PUSH_FLOW = 1, /* asynchronous: lost messages are made good for                                    */
  UCFT_GOSSIP_PFLC = 2,      /* push-flow with checksums and local correction of corrupted flows                 */
  UCFT_GOSSIP_PFCC = 3,      /* the same with cooperative correction                                             */
  UCFT_GOSSIP_PCF = 4,       /* push-cancel-flow: a death costs no convergence                                   */
  UCFT_GOSSIP_PCF_FLIP = 5,  /* the same, and flipped bits are repaired                                          */
  UCFT_GOSSIP_HPS = 6,       /* by rounds: push-sum along cycles through all ranks, new ones each round          */
  UCFT_GOSSIP_HPFLC = 7,     /* by rounds: PFLC along cycles that come again; flipped bits are repaired            */
  UCFT_GOSSIP_ARDB = 8,      /* by rounds: recursive doubling that stops early; its blocks have sampled          */
  UCFT_GOSSIP_RECURSIVE_DOUBLING = 9, /* by rounds: exact but for rounding; for comparison                        */
  UCFT_GOSSIP_HPFCC = 10              /* by rounds: PFCC along cycles: a flip costs no rounds                        */
} ucft_gossip_algorithm_t;

/* The neighbours that a rank of the asynchronous algorithms pushes to. The other algorithms choose from all ranks. */
typedef enum UCFT_OF_INT {
  UCFT_GOSSIP_COMPLETE = 0,  /* all ranks. A rank keeps state for each: for up to some hundred ranks */
  UCFT_GOSSIP_HYPERCUBE = 1, /* a power of two of ranks                                               */
  UCFT_GOSSIP_TORUS_2D = 2,
  UCFT_GOSSIP_TORUS_3D = 3,
  UCFT_GOSSIP_RING = 4,
  UCFT_GOSSIP_BUS = 5,
  UCFT_GOSSIP_TREE = 6,          /* `arity` children each                                                 */
  UCFT_GOSSIP_RANDOM_REGULAR = 7 /* `degree` neighbours each, from `seed`                                 */
} ucft_gossip_topology_t;

/* The aggregate of a gossip. */
typedef enum UCFT_OF_INT {
  UCFT_GOSSIP_AVERAGE = 0,
  UCFT_GOSSIP_SUM = 1,     /* the average times the number of ranks that it stands for                            */
  UCFT_GOSSIP_MINIMUM = 2, /* exact: of finite values the bound is 0. After a death it is the survivors'. Not of
                              PFLC, PFCC, PCF_FLIP, HPFLC and HPFCC, which are there to repair sums               */
  UCFT_GOSSIP_MAXIMUM = 3  /* the same                                                                            */
} ucft_gossip_aggregate_t;

typedef enum UCFT_OF_INT {
  UCFT_GOSSIP_ROUNDS = 0,  /* as many iterations as the model says, once. `reached` says whether that was enough  */
  UCFT_GOSSIP_ADAPTIVE = 1 /* again and again until the measured bound is below eps, at most 32 times                 */
} ucft_gossip_stop_t;

typedef enum UCFT_OF_INT {
  UCFT_GOSSIP_PATH_AUTO = 0, /* RMA where that is possible, else messages: the result says which                   */
  UCFT_GOSSIP_PATH_MESSAGE = 1,
  UCFT_GOSSIP_PATH_RMA = 2 /* one-sided: written straight into the neighbours' memory. Asynchronous algorithms only,
                                   and every neighbour within reach of shared memory or RDMA, else UCFT_ERR_UNSUPPORTED,
                                   on all ranks alike                                                                 */
} ucft_gossip_path_t;

/* Options of one gossip call. All ranks must give the same values, else UCFT_ERR_MISMATCH. A program that was compiled
 * before `cycles` and `repair_initial` existed has a smaller struct_size: they are 0 then. */
typedef struct {
  size_t struct_size;
  ucft_gossip_algorithm_t algorithm;
  ucft_gossip_topology_t topology; /* asynchronous algorithms only                                                    */
  ucft_gossip_aggregate_t aggregate;
  ucft_gossip_stop_t stop;
  ucft_gossip_path_t path;
  int32_t arity;  /* of TREE; 0: 2 */
  int32_t degree; /* of RANDOM_REGULAR; 0: 4 */
  int32_t
      rounds; /* rounds, or iterations per rank once all have come, before the first agreement on a result; 0: by eps.
                 0 .. 2^20. ARDB: doublings */
  double eps; /* > 0: the error that is asked for, relative to the largest value of the result */
  double tau; /* of PFLC, PFCC, HPFLC, HPFCC: a checksum's error above it is a fault; absolute, in the unit of the data.
                         0: ranks x the largest sum of a rank's magnitudes x the square root of the type's epsilon */
  uint64_t seed;          /* of all choices */
  int32_t cycles;         /* of HPS, HPFLC, HPFCC: so many cycles through all ranks, used in turn; -1: a new one in each
                          round. 0: of HPFLC and HPFCC half of the rounds before the first agreement, at most 16: a
                          flow that a flip has damaged is repaired when its cycle comes again. Of HPS -1. Up to 2^20 */
  int32_t repair_initial; /* of PFLC, PFCC, HPFLC, HPFCC: 1: a rank's own values are repaired if a bit of them flips;
                          -1: not. 0: HPFLC and HPFCC 1, the others -1 */
} ucft_gossip_options_t;

#define UCFT_GOSSIP_OPTIONS_INIT                                                                                     \
  {                                                                                                                  \
    sizeof(ucft_gossip_options_t), UCFT_GOSSIP_PCF, UCFT_GOSSIP_COMPLETE, UCFT_GOSSIP_AVERAGE, UCFT_GOSSIP_ADAPTIVE, \
        UCFT_GOSSIP_PATH_AUTO, 0, 0, 0, 1e-6, 0, 1, 0, 0                                                             \
  }

/* The ranks whose aggregate the result is. */
typedef enum UCFT_OF_INT {
  UCFT_GOSSIP_ALL_RANKS = 0,
  UCFT_GOSSIP_SURVIVORS = 1,       /* of those that lived at the end, and of no others                               */
  UCFT_GOSSIP_NEARLY_ALL_RANKS = 2 /* PCF, PCF_FLIP, with a death on the way: of all ranks, off by as much as the dead
                                      rank's own estimate was when it died. The bound does not cover that */
} ucft_gossip_answer_t;

typedef struct {
  size_t struct_size;
  double eps;         /* as asked for                                                                                */
  double error_bound; /* measured at the end, relative to the largest value of the result: half the distance of the
                           survivors' estimates, between which the aggregate lies, and what rounding has done on the
                           way. INFINITY: nothing can be said (values around 0, or a result that is not finite, as a sum
                           that overflows). The same on all survivors */
  int32_t reached;    /* 1: error_bound <= eps                                                                       */
  int32_t live_ranks; /* at the end                                                                                  */
  uint32_t
      contributors;    /* ranks that the result stands for                                                            */
  uint32_t stages;     /* agreements on the result: 1, and one for each repetition                                    */
  uint64_t iterations; /* of this rank; by rounds: rounds                                                             */
  uint64_t messages;   /* that this rank has sent, without those of the agreements                                    */
  ucft_gossip_answer_t answer;
  ucft_gossip_path_t
      path; /* that it has gone: MESSAGE or RMA                                                         */
  /* Faults that UCFT_GOSSIP_FAULTS has injected at this rank. The bound does not cover them: docs/gossip_api.md */
  uint64_t injected_losses; /* messages whose values did not arrive */
  uint64_t injected_flips;
  uint64_t injected_link_failures; /* counted at both ends */
} ucft_gossip_result_t;

#define UCFT_GOSSIP_RESULT_INIT \
  { sizeof(ucft_gossip_result_t), 0, 0, 0, 0, 0, 0, 0, 0, UCFT_GOSSIP_ALL_RANKS, UCFT_GOSSIP_PATH_MESSAGE, 0, 0, 0 }

/* An all-reduce by gossip of count values of UCFT_FLOAT, UCFT_DOUBLE, UCFT_FLOAT16 or UCFT_BFLOAT16. The last two are
 * carried in float, and rounded to nearest even at the end; the bound has that in it. options and result may be NULL.
 * All survivors get the same bits in recv. UCFT_OK also if eps was not reached: result->reached says so. Values that
 * are not finite give NaN.
 * Deaths are survived as in every other operation. An agreement that has more than f of them is repeated.
 * Gossip operations are matched among themselves: all ranks post the same ones in the same order, independently of
 * other operations. At most 4 of them are in flight on a communicator, else UCFT_ERR_BUSY. */
UCFT_API ucft_status_t ucft_gossip_allreduce(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                             ucft_dtype_t dtype, const ucft_gossip_options_t* options,
                                             ucft_gossip_result_t* result);
/* The nonblocking form, for ucft_post, ucft_test, ucft_wait, ucft_request_result and ucft_request_free. The input is
 * read in ucft_post. It advances while the caller is inside ucft; a rank that stays away delays the others. */
UCFT_API ucft_status_t ucft_gossip_allreduce_init(ucft_comm_h comm, const void* send, void* recv, uint64_t count,
                                                  ucft_dtype_t dtype, const ucft_gossip_options_t* options,
                                                  ucft_request_h* request);
/* This rank's estimate of the aggregate now: count values of the request's type. No rank waits for others to post: from
 * the post on it is the aggregate of the ranks that have come so far. It lets operations advance, as ucft_test does.
 * Estimates differ between ranks until the operation is complete; then they are its result. Where one rank of a host
 * gossips for others, it tells those its estimate now and then, once it has posted.
 * *error_estimate (may be NULL): while in progress, the relative error that the model expects after so many iterations
 * since a rank has come. That is no bound, and INFINITY before the first. Afterwards it is the result's error_bound.
 * UCFT_ERR_STATE: not a gossip request, or never posted; or the operation's own status if that was an error. */
UCFT_API ucft_status_t ucft_gossip_estimate(ucft_request_h request, void* values, double* error_estimate);
/* How many ranks' data are in that estimate: those that have posted the operation, as this rank has heard. It does not
 * let operations advance, so it belongs to the estimate that was read just before.
 * Errors: those of ucft_gossip_estimate. */
UCFT_API ucft_status_t ucft_gossip_contributors(ucft_request_h request, uint32_t* contributors);
/* The gossip result of the last completed post. UCFT_ERR_STATE before that. */
UCFT_API ucft_status_t ucft_gossip_result(ucft_request_h request, ucft_gossip_result_t* result);

/* ---- what is in force -------------------------------------------------------------------------------------------- */

/* The settings in force, one line each: NAME=value (source). For ucft_info -f and bug reports. Returns the bytes needed
 * including the final 0; writes at most `bytes`. context may be NULL: what a context created now would use. */
UCFT_API size_t ucft_settings(ucft_context_h context, char* text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif

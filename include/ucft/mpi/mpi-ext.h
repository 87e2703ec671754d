/* ULFM's calls (User Level Failure Mitigation, the fault tolerance that was proposed to the MPI Forum), for
 * any MPI library under ucft's shim, libucft_mpi.so. A program that was written for ULFM includes <mpi.h> and
 * <mpi-ext.h>, and is linked to the shim:
 *
 *     mpicc -I/usr/include/ucft/mpi program.c -lucft_mpi
 *
 * docs/mpi.md says where these differ from ULFM's letter.
 *
 * Errors. A communicator's error handler is called as for any error of MPI's; with MPI_ERRORS_RETURN the code comes
 * back. It is its own class. MPI_Error_string names the rank that this thread's last such error was about. */
#ifndef UCFT_MPI_EXT_H
#define UCFT_MPI_EXT_H

#include <mpi.h>
#if defined(__has_include_next)
#if __has_include_next(<mpi-ext.h>)
#include_next <mpi-ext.h>
#endif
#endif

/* A rank that the call needs has failed. */
#if !defined(MPIX_ERR_PROC_FAILED) && defined(MPI_ERR_PROC_FAILED)
#define MPIX_ERR_PROC_FAILED MPI_ERR_PROC_FAILED
#elif !defined(MPIX_ERR_PROC_FAILED)
#define MPIX_ERR_PROC_FAILED (MPI_ERR_LASTCODE + 1)
#endif
/* A receive from MPI_ANY_SOURCE: a rank that could have sent has failed. The request stays begun. */
#if !defined(MPIX_ERR_PROC_FAILED_PENDING) && defined(MPI_ERR_PROC_FAILED_PENDING)
#define MPIX_ERR_PROC_FAILED_PENDING MPI_ERR_PROC_FAILED_PENDING
#elif !defined(MPIX_ERR_PROC_FAILED_PENDING)
#define MPIX_ERR_PROC_FAILED_PENDING (MPI_ERR_LASTCODE + 2)
#endif
/* The communicator has been revoked. */
#if !defined(MPIX_ERR_REVOKED) && defined(MPI_ERR_REVOKED)
#define MPIX_ERR_REVOKED MPI_ERR_REVOKED
#elif !defined(MPIX_ERR_REVOKED)
#define MPIX_ERR_REVOKED (MPI_ERR_LASTCODE + 3)
#endif

#ifndef MPI_ERR_PROC_FAILED
#define MPI_ERR_PROC_FAILED MPIX_ERR_PROC_FAILED
#define MPI_ERR_PROC_FAILED_PENDING MPIX_ERR_PROC_FAILED_PENDING
#define MPI_ERR_REVOKED MPIX_ERR_REVOKED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* All of these may be called on MPI_COMM_WORLD and on any communicator that the shim knows (docs/mpi.md, "What is taken
 * over"). On others: MPI_ERR_COMM. */

/* Makes comm useless for all its ranks: calls that wait on it, and later ones, end with MPIX_ERR_REVOKED. One rank
 * is enough. The call waits for nobody. The calls below, MPI_Comm_free, and calls that ask (MPI_Comm_rank and its like)
 * go on. If any rank that lives learns of it, all do. */
int MPIX_Comm_revoke(MPI_Comm comm);
/* Whether this rank knows that comm is revoked. */
int MPIX_Comm_is_revoked(MPI_Comm comm, int* flag);

/* The members of comm that this rank knows to have failed, in the order in which it has learned of them: a later group
 * begins with the ranks of an earlier one. The caller frees the group. The call is local. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failed);
/* Acknowledges the first num_to_ack of these. *num_acked: how many are acknowledged now, at least those that were
 * before. Receives from MPI_ANY_SOURCE, and MPIX_Comm_agree, are no errors because of ranks that are. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked);
/* Older forms of the last two: one acknowledges all failures that are known; the other has those that are. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* acked);

/* *flag becomes the AND, bit by bit, of the flags of all ranks that live, the same on all of them. Collective, also on
 * a revoked communicator. MPIX_ERR_PROC_FAILED, on all alike: a member has failed that not all of these have
 * acknowledged; *flag is agreed on all the same. */
int MPIX_Comm_agree(MPI_Comm comm, int* flag);
/* Its nonblocking form. *flag is read now, and written at the end. */
int MPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request);

/* A communicator of the ranks of comm that live, in their order. Collective, also on a revoked communicator. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* shrunk);
/* Its nonblocking form. It is done where the program waits, or tests, for this request the first time. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* shrunk, MPI_Request* request);

#ifdef __cplusplus
}
#endif

#endif /* UCFT_MPI_EXT_H */

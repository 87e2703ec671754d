/* c_example: the C API in one page: the average over all ranks, blocking and nonblocking.
 *
 *   ucft_run -n 4 c_example
 */
#include <stdint.h>
#include <stdio.h>

#include "ucft/ucft.h"

#define ELEMENTS 4
#define WAIT_US 10000000 /* 10 s */

static int report(const char* what, ucft_status_t status) {
  fprintf(stderr, "c_example: %s: %s: %s\n", what, ucft_status_name(status), ucft_last_error());
  return 1;
}

/* Each element: the average of the ranks' numbers. Divides by those that contributed, whoever has failed meanwhile. */
static int blocking(ucft_comm_h comm, int32_t rank, int32_t size) {
  double mine[ELEMENTS];
  double sums[ELEMENTS];
  int i;
  for (i = 0; i < ELEMENTS; ++i) mine[i] = rank + 10.0 * i;
  ucft_result_t result = UCFT_RESULT_INIT;
  const ucft_status_t status = ucft_allreduce(comm, mine, sums, ELEMENTS, UCFT_DOUBLE, UCFT_SUM, NULL, &result);
  if (status != UCFT_OK) return report("ucft_allreduce", status);
  printf("rank %d of %d: averages over %u ranks:", (int)rank, (int)size, (unsigned)result.contributors);
  for (i = 0; i < ELEMENTS; ++i) printf(" %g", sums[i] / result.contributors);
  printf("\n");
  return 0;
}

/* The largest rank that is alive, in place; other work could go on between post and wait. */
static int nonblocking(ucft_comm_h comm, int32_t rank) {
  int64_t largest = rank;
  const ucft_operator_t op = UCFT_OPERATOR_INIT(UCFT_MAX);
  ucft_request_h request = UCFT_REQUEST_NULL;
  ucft_status_t status = ucft_allreduce_init(comm, UCFT_IN_PLACE, &largest, 1, UCFT_INT64, &op, NULL, &request);
  if (status != UCFT_OK) return report("ucft_allreduce_init", status);
  status = ucft_post(request);
  if (status == UCFT_OK) status = ucft_wait(request, WAIT_US);
  if (status != UCFT_OK) return report("the nonblocking allreduce", status);
  printf("rank %d: the largest rank is %d\n", (int)rank, (int)largest);
  status = ucft_request_free(request);
  return status == UCFT_OK ? 0 : report("ucft_request_free", status);
}

int main(void) {
  ucft_context_h context = UCFT_CONTEXT_NULL;
  ucft_comm_h comm = UCFT_COMM_NULL;
  int32_t rank = 0;
  int32_t size = 0;
  int exit_code;
  ucft_status_t status = ucft_context_create(NULL, &context);
  if (status != UCFT_OK) return report("ucft_context_create", status);
  status = ucft_comm_create(context, &comm);
  if (status == UCFT_OK) status = ucft_comm_rank(comm, &rank);
  if (status == UCFT_OK) status = ucft_comm_size(comm, &size);
  exit_code = status == UCFT_OK ? blocking(comm, rank, size) : report("a communicator", status);
  if (exit_code == 0) exit_code = nonblocking(comm, rank);
  status = ucft_context_destroy(context); /* and the communicator with it */
  return status == UCFT_OK ? exit_code : report("ucft_context_destroy", status);
}

/* A project outside of ucft's tree: four ranks add their numbers; half way rank 2 kills itself. What a survivor has
 * seen is checked, and said at the end.
 *
 *   ucft_run -n 4 --expect-kill 2 survivors
 */
#include <signal.h>
#include <stdio.h>
#include <ucft/ucft.h>

#define ITERATIONS 100
#define VICTIM 2

static int fail(const char* what, ucft_status_t status) {
  fprintf(stderr, "survivors: %s: %s: %s\n", what, ucft_status_name(status), ucft_last_error());
  return 1;
}

int main(void) {
  ucft_context_h context = UCFT_CONTEXT_NULL;
  ucft_comm_h comm = UCFT_COMM_NULL;
  int32_t rank = 0;
  int32_t size = 0;
  int32_t i;
  int32_t late = 0; /* results without the victim */
  ucft_status_t status = ucft_context_create(NULL, &context);
  if (status == UCFT_OK) status = ucft_comm_create(context, &comm);
  if (status == UCFT_OK) status = ucft_comm_rank(comm, &rank);
  if (status == UCFT_OK) status = ucft_comm_size(comm, &size);
  if (status != UCFT_OK) return fail("start-up", status);
  for (i = 0; i < ITERATIONS; ++i) {
    if (rank == VICTIM && i == ITERATIONS / 2) raise(SIGKILL);
    double sum = rank + 1.0;
    int32_t missing[8];
    ucft_result_t result = UCFT_RESULT_INIT;
    result.missing = missing;
    result.missing_capacity = 8;
    status = ucft_allreduce(comm, UCFT_IN_PLACE, &sum, 1, UCFT_DOUBLE, UCFT_SUM, NULL, &result);
    if (status != UCFT_OK) return fail("ucft_allreduce", status);
    double expected = size * (size + 1) / 2.0;
    if (result.missing_count == 1 && missing[0] == VICTIM) {
      expected -= VICTIM + 1.0;
      ++late;
    }
    if (sum != expected) {
      fprintf(stderr, "survivors: iteration %d: %g, not %g\n", (int)i, sum, expected);
      return 1;
    }
  }
  printf("rank %d of %d: %d sums, %d without rank %d\n", (int)rank, (int)size, ITERATIONS, (int)late, VICTIM);
  status = ucft_context_destroy(context);
  return status == UCFT_OK ? 0 : fail("ucft_context_destroy", status);
}

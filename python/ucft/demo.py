"""Sums over several ranks, one of which is killed half way: every survivor goes on with right sums.

    python3 -m ucft.demo [ITERATIONS]                       starts itself with ucft_run, 4 ranks
    ucft_run -n 8 --expect-kill 1 python3 -m ucft.demo      as it starts itself
"""
import array
import os
import shutil
import signal
import sys

import ucft


def launch():
    program = shutil.which("ucft_run") or os.environ.get("UCFT_RUN")
    if program is None:
        sys.exit("ucft.demo: ucft_run is not on the PATH")
    os.execv(program, [program, "-n", "4", "--expect-kill", "1", sys.executable, "-m", "ucft.demo", *sys.argv[1:]])


def main():
    try:
        iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
        if iterations < 2:
            raise ValueError
    except ValueError:
        sys.exit(f"ucft.demo: ITERATIONS is '{sys.argv[1]}': must be a number from 2")
    context = ucft.Context()
    if context.size == 1:
        context.close()
        launch()
    world, victim = context.world, 1
    wrong, seen = 0, ()
    for iteration in range(iterations):
        if world.rank == victim and iteration == iterations // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        total = array.array("d", [(world.rank + 1) * iteration])   # anything with a buffer; NumPy need not be there
        result = world.allreduce(total, total)
        expected = sum((rank + 1) * iteration for rank in range(world.size) if rank not in result.missing)
        wrong += total[0] != expected
        if result.missing != seen:
            seen = result.missing
            print(f"rank {world.rank}: iteration {iteration}: without {seen} from here on", flush=True)
    print(f"rank {world.rank}: {iterations} sums, {wrong} wrong, ranks {world.failed} failed", flush=True)
    context.close()
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())

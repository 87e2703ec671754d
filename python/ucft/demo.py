"""Sums over several ranks, one of which is killed half way: every survivor goes on with right sums.

    python3 -m ucft.demo [ITERATIONS]                       starts itself with ucft_run, 4 ranks
    ucft_run -n 8 --expect-kill 1 python3 -m ucft.demo      as it starts itself

ucft_run is that of UCFT_RUN, else the one beside this package (in a build tree, or where it is installed), else that of
PATH.
"""
import array
import os
import pathlib
import shutil
import signal
import sys
import time

import ucft

VICTIM = 1


def find_ucft_run():
    """Its path, or None. The package is BUILD/python/ucft, or below PREFIX/lib."""
    package = pathlib.Path(__file__).resolve().parent
    prefixes = [package.parent.parent] if package.parent.name == "python" else []
    prefixes += [folder.parent for folder in package.parents if folder.name in ("lib", "lib64")]
    beside = [str(prefix / "bin" / "ucft_run") for prefix in prefixes]
    for candidate in (os.environ.get("UCFT_RUN"), *beside, "ucft_run"):
        program = candidate and shutil.which(candidate)
        if program:
            return program
    return None


def launch():
    program = find_ucft_run()
    if program is None:
        sys.exit("ucft.demo: ucft_run is neither beside the package nor on the PATH; "
                 "UCFT_RUN=/path/to/ucft_run names it")
    os.execv(program, [program, "-n", "4", "--no-tag", "--expect-kill", str(VICTIM), sys.executable, "-m", "ucft.demo",
                       *sys.argv[1:]])


def lowest_without(missing):
    """The rank that tells what happens."""
    rank = 0
    while rank in missing:
        rank += 1
    return rank


def add(world, iterations):
    """How many sums were wrong at this rank."""
    wrong, seen = 0, ()
    for iteration in range(iterations):
        if world.rank == VICTIM and iteration == iterations // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        total = array.array("d", [(world.rank + 1) * iteration])   # anything with a buffer; NumPy need not be there
        begin = time.monotonic()
        result = world.allreduce(total, total)
        waited_ms = 1e3 * (time.monotonic() - begin)
        wrong += total[0] != sum((rank + 1) * iteration for rank in range(world.size) if rank not in result.missing)
        if result.missing != seen and world.rank == lowest_without(result.missing):
            dead = ", ".join(str(rank) for rank in result.missing if rank not in seen)
            print(f"sum {iteration}: rank {dead} died; rank {world.rank} waited {waited_ms:.2f} ms, "
                  "and goes on without it", flush=True)
        seen = result.missing
    return wrong


def main():
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(__doc__, end="")
        return 0
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
    world = context.world
    if world.rank == 0:
        print(f"{world.size} ranks add numbers {iterations} times; rank {VICTIM} kills itself half way", flush=True)
    wrong = add(world, iterations)
    all_wrong = array.array("q", [wrong])
    end = world.allreduce(all_wrong, all_wrong)
    if world.rank == lowest_without(end.missing):
        print(f"{end.contributors} of {world.size} ranks have all {iterations} sums, {all_wrong[0]} wrong; "
              f"ranks {world.failed} failed", flush=True)
    context.close()
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())

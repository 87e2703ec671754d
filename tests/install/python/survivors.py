"""The same as ../c/survivors.c in Python: rank 2 of four kills itself half way, and survivors check their sums.

    survivors.py [PREFIX]      module and library are those below PREFIX
"""
import array
import os
import signal
import sys

import ucft

ITERATIONS, VICTIM = 100, 2


def main():
    if len(sys.argv) > 1:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "libucft.so" in line or "_ucft." in line}
        strangers = [path for path in loaded if not path.startswith(os.path.realpath(sys.argv[1]) + "/")]
        if len(loaded) != 2 or strangers:
            return f"survivors: loaded {sorted(loaded)}"
    world = ucft.init()
    late = 0  # results without the victim
    for iteration in range(ITERATIONS):
        if world.rank == VICTIM and iteration == ITERATIONS // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        sums = array.array("d", [world.rank + 1.0, 1.0])  # not NumPy's, which a package only recommends
        result = world.allreduce(sums, sums)
        late += result.missing == (VICTIM,)
        expected = [sum(rank + 1.0 for rank in range(world.size) if rank not in result.missing),
                    float(world.size - len(result.missing))]
        if list(sums) != expected:
            return f"survivors: iteration {iteration}: {list(sums)}, not {expected}"
    print(f"rank {world.rank} of {world.size}: {ITERATIONS} sums, {late} without rank {VICTIM}")
    world.context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A loop of sums that loses ranks and gets them back. No rank waits for a newcomer that is not ready.

    ucft_run -n 4 --respawn 100 --kill 2@1s --no-tag python3 examples/elastic.py 2000

Each rank's state is the number of the iteration and the sum of all results. All that is here beyond that checks every
result, tells what has happened, and gives a newcomer of a small job the time to come (the sleep).
"""
import array
import pickle
import sys
import time

import ucft

RENEW_EACH = 20


def contribution(rank, iteration):
    return float((rank + 1) * (iteration % 1000 + 1))  # small whole numbers, so that sums are exact


def enter():
    try:
        return ucft.init()
    except ucft.StartUpError as problem:  # a newcomer may come when the others have just ended
        sys.exit(f"too late: {problem}")


def share(world, state):
    """What all ranks go on with: that of the lowest rank that is no newcomer."""
    given = world.share_state(None if world.rank in world.newcomers else pickle.dumps(state))
    return pickle.loads(given) if world.newcomers else state


def main(iterations):
    world = enter()
    iteration, total = share(world, (0, 0.0))
    renewals = 0
    while iteration < iterations:
        value = array.array("d", [contribution(world.rank, iteration)])
        result = world.allreduce(value, value)
        present = (rank for rank in range(world.size) if rank not in result.missing)
        if value[0] != sum(contribution(rank, iteration) for rank in present):
            sys.exit(f"rank {world.rank}: wrong sum in iteration {iteration}")
        total += value[0]
        iteration += 1
        time.sleep(0.001)
        if iteration % RENEW_EACH == 0:
            world = world.renew()
            iteration, total = share(world, (iteration, total))
            renewals += bool(world.newcomers)
            if world.newcomers and world.rank == (0 if 0 not in world.newcomers else world.newcomers[0]):
                print(f"iteration {iteration}: newcomers in the seats {world.newcomers}", flush=True)
    print(f"rank {world.rank}: total {total:.0f}, {renewals} renewals, {len(world.failed)} seats empty", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)

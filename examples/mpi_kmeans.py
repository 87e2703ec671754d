#!/usr/bin/env python3
"""k-means with plain mpi4py: it doesn't know of ucft. With the shim preloaded it goes on when a rank is killed, with
the points of the others (docs/mpi.md):

    mpirun -n 4 --enable-recovery -x LD_PRELOAD=build/lib/libucft_mpi.so python3 examples/mpi_kmeans.py

Every rank makes 3000 points around three centres, and all look for these. mpi_kmeans.py RANK ITERATION: that rank
kills itself.
"""
import os
import signal
import sys

import numpy as np
from mpi4py import MPI

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
ITERATIONS = 200

world = MPI.COMM_WORLD
victim, when = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (-1, -1)
points = (CENTRES[:, None] + np.random.default_rng(world.rank).normal(size=(3, 1000, 2))).reshape(-1, 2)
centres = world.bcast(CENTRES + np.array([[2.0, 1.0], [-3.0, 2.0], [1.0, -3.0]]), root=0)

for iteration in range(ITERATIONS):
    if (world.rank, iteration) == (victim, when):
        os.kill(os.getpid(), signal.SIGKILL)
    nearest = np.argmin(np.linalg.norm(points[:, None] - centres, axis=2), axis=1)
    mine = np.array([[*points[nearest == k].sum(axis=0), (nearest == k).sum()] for k in range(3)])
    total = np.empty_like(mine)
    world.Allreduce(mine, total)                     # divided by a count that is a sum, too, not by the number of ranks
    centres = total[:, :2] / total[:, 2:]

contributed = int(total[:, 2].sum()) // len(points)
off = np.abs(centres - CENTRES).max()
print(f"VERDICT {world.rank}: {'right' if off < 0.1 else 'wrong'}, points of {contributed} ranks, "
      f"centres {centres.round(6).tolist()}")

"""mpi4py's methods that move objects, under UCFT_MPI_ON_FAILURE=revoke: mpi_objects.py METHOD VICTIM.

That rank kills itself in round 50. The others repair the communicator, and do the round again.
"""
import importlib.util
import os
import pathlib
import signal
import sys

from mpi4py import MPI

# The module alone, without the package around it, which need not be built for this Python.
SPEC = importlib.util.spec_from_file_location(
    "ucft_mpi", pathlib.Path(__file__).resolve().parent.parent.parent / "python/ucft/mpi.py")
ucft_mpi = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ucft_mpi)

ROUNDS = 100


def addressed(comm, here, round_):
    return [(here, round_, to) for to in range(comm.size)]


METHODS = {
    "allgather": lambda comm, here, i: [each[1] for each in comm.allgather((here, i))] == [i] * comm.size,
    "allreduce": lambda comm, here, i: len(comm.allreduce((here,))) == comm.size,
    "alltoall": lambda comm, here, i: [each[1:] for each in comm.alltoall(addressed(comm, here, i))] ==
    [(i, comm.rank)] * comm.size,
    "bcast": lambda comm, here, i: comm.bcast({"round": i} if comm.rank == 0 else None) == {"round": i},
    "gather": lambda comm, here, i: len(comm.gather((here,)) or [0] * comm.size) == comm.size,
    "reduce": lambda comm, here, i: len(comm.reduce((here,)) or [0] * comm.size) == comm.size,
    "scan": lambda comm, here, i: len(comm.scan((here,))) == comm.rank + 1,
    "scatter": lambda comm, here, i: comm.scatter([i] * comm.size if comm.rank == 0 else None) == i,
    "sendrecv": lambda comm, here, i: comm.sendrecv((here, i), dest=(comm.rank + 1) % comm.size,
                                                    source=(comm.rank - 1) % comm.size)[1] == i}


def main():
    method, victim = METHODS[sys.argv[1]], int(sys.argv[2])
    here, comm = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.Dup()
    wrong = 0
    for i in range(ROUNDS):
        if here == victim and i == ROUNDS // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            has_result = False
            try:
                wrong += not method(comm, here, i)
                has_result = True
            except MPI.Exception as error:
                if not ucft_mpi.is_failure(error):
                    raise
            try:
                have_all = ucft_mpi.agree(comm, has_result)
            except MPI.Exception:
                have_all = False
            if have_all:
                break
            ucft_mpi.revoke(comm)
            wrong += not ucft_mpi.is_revoked(comm)
            repaired = ucft_mpi.shrink(comm)
            comm.Free()
            comm = repaired
    wrong += comm.size != MPI.COMM_WORLD.size - 1 or ucft_mpi.failed(MPI.COMM_WORLD) != [victim]
    print(f"VERDICT {here}: {'right' if wrong == 0 else 'wrong'}", flush=True)


main()

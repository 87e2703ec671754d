"""ULFM's calls for mpi4py programs under ucft's MPI shim: after the death of a rank the others repair a communicator.

    mpirun -n 4 --enable-recovery -x LD_PRELOAD=libucft_mpi.so -x UCFT_MPI_ON_FAILURE=revoke python3 program.py

    from mpi4py import MPI
    import ucft.mpi

    comm = MPI.COMM_WORLD.Dup()
    try:
        everybody = comm.allgather(mine)
    except MPI.Exception as error:
        if not ucft.mpi.is_failure(error):
            raise
        ucft.mpi.revoke(comm)
        comm = ucft.mpi.shrink(comm)  # the survivors, in their order

With UCFT_MPI_ON_FAILURE=revoke each method raises an exception on all survivors alike, also those that move Python
objects (lower case). docs/mpi.md says what else it does.
"""
import ctypes

from mpi4py import MPI

__all__ = ["revoke", "is_revoked", "shrink", "agree", "failed", "acknowledge", "is_failure"]

_Handle = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int

# As in mpi-ext.h, and of MPICH (mpi.h).
_CLASSES = range(MPI.ERR_LASTCODE + 1, MPI.ERR_LASTCODE + 4) if MPI.ERR_LASTCODE < 1000000 else range(101, 104)


def _function(name):
    try:
        return getattr(ctypes.CDLL(None), name)
    except AttributeError:
        raise RuntimeError(f"{name} is missing: preload libucft_mpi.so, of MPICH libucft_mpi_mpich.so") from None


def _call(name, comm, *arguments):
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm is {type(comm).__name__}, not an mpi4py communicator")
    code = _function(name)(_Handle.from_address(MPI._addressof(comm)), *arguments)
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)


def revoke(comm):
    """Makes comm useless on all its ranks: their calls on it raise. One rank is enough."""
    _call("MPIX_Comm_revoke", comm)


def is_revoked(comm):
    """Whether this rank knows that comm is revoked."""
    flag = ctypes.c_int()
    _call("MPIX_Comm_is_revoked", comm, ctypes.byref(flag))
    return bool(flag.value)


def shrink(comm):
    """A communicator of the ranks of comm that live, in their order. Collective, also where comm is revoked."""
    shrunk = MPI.Intracomm()
    _call("MPIX_Comm_shrink", comm, ctypes.c_void_p(MPI._addressof(shrunk)))
    return shrunk


def agree(comm, flag=True):
    """The AND, bit by bit, of all living ranks' flags, the same on all. Collective, also where comm is revoked.

    Failures that are not acknowledged on all ranks make it an exception, on all alike.
    """
    word = ctypes.c_int(flag)
    _call("MPIX_Comm_agree", comm, ctypes.byref(word))
    return bool(word.value) if isinstance(flag, bool) else word.value


def failed(comm):
    """Ranks of comm that this rank knows to have failed, in the order of the news."""
    group = MPI.Group()
    _call("MPIX_Comm_get_failed", comm, ctypes.c_void_p(MPI._addressof(group)))
    members = comm.Get_group()
    ranks = MPI.Group.Translate_ranks(group, list(range(group.Get_size())), members)
    group.Free()
    members.Free()
    return list(ranks)


def acknowledge(comm):
    """Failures that are known now are no errors any more of receives from any source, and of agree."""
    _call("MPIX_Comm_failure_ack", comm)


def is_failure(error):
    """Whether an MPI.Exception says that a rank has failed, or that the communicator is revoked."""
    error_class = ctypes.c_int()
    _function("MPI_Error_class")(error.Get_error_code(), ctypes.byref(error_class))
    return error_class.value in _CLASSES

"""A backend for torch.distributed whose collectives complete on every rank that survives.

    import torch.distributed as dist
    import ucft.torch

    dist.init_process_group("ucft", init_method="ucft://")    # under ucft_run, mpirun, srun or torchrun
    dist.init_process_group("ucft")                           # whatever sets MASTER_ADDR, RANK and so on

Tensors of the CPU; allreduce, broadcast, reduce, allgather and barrier. docs/pytorch.md says what happens at a death.
"""
import atexit as _atexit
import multiprocessing.util as _multiprocessing
import os as _os
import pathlib as _pathlib
import shutil as _shutil
import socket as _socket
import sys as _sys
import tempfile as _tempfile
import time as _time

import torch.distributed as _distributed

import ucft as _ucft

from . import _torch
from ._torch import contributors, missing, root

__all__ = ["average_hook", "contributors", "failed", "missing", "root"]


def failed(group=None):
    """The ranks of the group that are known here to have failed, ascending. A local view: it may differ between
    ranks for a moment."""
    return _group(group).failed


def average_hook(group, bucket):
    """For model.register_comm_hook(None, ucft.torch.average_hook): gradients are averaged over the ranks that
    contributed, where DistributedDataParallel divides by the number of ranks that the job was started with. group:
    None is the default one."""
    work = _distributed.all_reduce(bucket.buffer(), op=_distributed.ReduceOp.AVG, group=_group(group), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def _group(group):
    group = _distributed.group.WORLD if group is None else group
    if not isinstance(group, _torch.ProcessGroupUcft):
        raise _ucft.InvalidParamError(f"group: {type(group).__name__} is no process group of the backend ucft")
    return group


def _new_group(store, rank, size, timeout):
    # Forked children of multiprocessing end without atexit.
    _multiprocessing.Finalize(None, _leave, exitpriority=0)
    return _torch.ProcessGroupUcft(store, rank, size, timeout)


# ---- ucft:// --------------------------------------------------------------------------------------------------------

_folders = []  # of stores, with the process that uses it


def _rendezvous(url, **_):
    """Rank and size of the job that ucft_run, mpirun or srun has started. The store is a file, which no death takes
    away, if all ranks are on one host; else rank 0 has it. Under torchrun: as env://."""
    single = _os.environ.get("UCFT_SINGLE", "") in ("y", "yes", "on", "1")
    if {"RANK", "WORLD_SIZE"} <= _os.environ.keys() and not single and \
            not {"UCFT_RENDEZVOUS", "PMIX_NAMESPACE"} & _os.environ.keys():
        yield from _distributed.rendezvous("env://")
        return
    with _ucft.Context() as context:
        rank, size = context.rank, context.size
        host = _socket.gethostname().encode()[:256]
        hosts = bytearray(256 * size)
        context.world.allgather(host.ljust(256), hosts)
        tcp = None
        if rank == 0:
            if any(hosts[i:i + 256] != hosts[:256] for i in range(0, len(hosts), 256)):
                tcp = _distributed.TCPStore(_socket.gethostname(), 0, size, True, wait_for_workers=False)
                place = f"{_socket.gethostname()}:{tcp.port}"
            else:
                place = _tempfile.mkdtemp(prefix="ucft.torch.")
        agreed = bytearray((place if rank == 0 else "").encode().ljust(4096))
        context.world.broadcast(agreed)
    place = agreed.decode().rstrip()
    if _os.path.isabs(place):
        folder = _pathlib.Path(place)
        (folder / str(_os.getpid())).touch()
        _folders.append((_os.getpid(), folder))
        yield _distributed.FileStore(str(folder / "store"), size), rank, size
    elif rank == 0:
        yield tcp, rank, size
    else:
        name, port = place.rsplit(":", 1)
        yield _distributed.TCPStore(name, int(port), size, False, wait_for_workers=False), rank, size
    raise RuntimeError("ucft://: a job has one rendezvous")


def _remove_folders():
    """Of stores: by the last process that is there."""
    while _folders:
        pid, folder = _folders.pop()
        if pid != _os.getpid() or not folder.exists():
            continue
        (folder / str(pid)).unlink(missing_ok=True)
        if not any(_lives(int(each.name)) for each in folder.iterdir() if each.name.isdigit()):
            _remove(folder)


def _remove(folder):
    """A store of a process that ends just now may write its file once more."""
    for _ in range(100):
        _shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        _time.sleep(0.01)


def _lives(pid):
    """One that has been killed does not: whether the launcher has yet to reap it, or its kernel to take its memory."""
    try:
        fields = _pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    is_exiting = int(fields[6]) & 4  # PF_EXITING: the others may know of its end by then
    return fields[0] not in "ZX" and not is_exiting


# ---- the end --------------------------------------------------------------------------------------------------------

@_atexit.register
def _leave():
    ended_by = getattr(_sys, "last_type", None) or _sys.exc_info()[0]
    # An exception has ended the program: so this rank has failed.
    _torch.close_all(abandon=ended_by is not None and not issubclass(ended_by, SystemExit))
    _remove_folders()


_distributed.Backend.register_backend("ucft", _new_group)
_distributed.register_rendezvous_handler("ucft", _rendezvous)

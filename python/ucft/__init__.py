"""Fault-tolerant collectives: they complete, with the right result, on every rank that survives.

    import numpy as np
    import ucft

    world = ucft.init()                       # under ucft_run, mpirun or srun; alone: a job of one rank
    x = np.ones(1000)
    result = world.allreduce(x)               # the sum of all ranks; in place: world.allreduce(x, x)
    print(result.value[0], result.contributors, result.missing)

A rank that dies raises nothing in a collective: it is in `result.missing` and `world.failed`. A send to it, or a recv
from it, raises ucft.PeerFailedError. Each error is a ucft.Error, with a class for each status; docs/python.md tells
what may be used by which thread.
"""
import asyncio as _asyncio
import atexit as _atexit
import multiprocessing.util as _multiprocessing
import os as _os
import sys as _sys
import weakref as _weakref

from . import _ucft
from ._errors import (BusyError, ClosedError, Error, ExcludedError, ForkedError, InvalidParamError, LateError,
                      MismatchError, NoMemoryError,
                      PartitionError, PeerFailedError, RootFailedError, StartUpError, StateError, ThreadError,
                      TimedOutError, TooManyFailuresError,
                      TransportError, TruncatedError, UnsupportedError)
from ._ucft import (ANY_SOURCE, IN_PLACE, Accumulator, Collective, Communicator, InPlace, Correction, DType, Failure,
                    FailureInfo, FailureKind, GossipAggregate,
                    GossipAlgorithm, GossipAnswer, GossipOptions, GossipPath, GossipResult, GossipStop, GossipTopology,
                    Numbering,
                    Op, Options, RankState, Received, Request, Result, Sight, Tree, __version__)

for _enumeration in (DType, Op):
    for _name, _value in _enumeration.__members__.items():
        globals()[_name] = _value

__all__ = [name for name in globals() if not name.startswith("_")] + ["Context", "init", "__version__"]

_contexts = _weakref.WeakSet()


class Context(_ucft.Context):
    """One rank of a job; `with` leaves the job at the end, but for an exception: then the end of the process is a
    failure, which the others survive.

    world: a communicator of all ranks, made when it is asked for first; the latest one, if it is renewed. A newcomer
    then joins: join_timeout is how many seconds it waits.
    """

    def __init__(self, *, join_timeout=60.0, **arguments):
        super().__init__(**arguments)
        self._world, self._join_timeout = None, join_timeout
        self._pid = _os.getpid()
        _contexts.add(self)
        _multiprocessing.Finalize(None, _leave, exitpriority=0)  # its forked children end without atexit

    @property
    def world(self):
        if self._world is None:
            self._world = self.join(self._join_timeout)
        return self._world

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None or issubclass(kind, SystemExit):
            self.close()
        else:
            self.abandon()


def init(**arguments):
    """The communicator of all ranks of the job, in a context of its own (arguments: those of Context). When the
    program ends orderly, the rank leaves the job. A newcomer waits until it is admitted."""
    context = Context(**arguments)
    try:
        world = context.world
    except BaseException:
        context.close()
        raise
    _kept.append(context)
    return world


_kept = []


@_atexit.register
def _leave():
    for context in list(_contexts):
        if context._pid != _os.getpid():  # a fork: the job is its parent's
            continue
        if hasattr(_sys, "last_type"):  # an exception has ended the program: so this rank has failed
            context.abandon()
        elif context.is_open:
            try:
                context.close()
            except Error as error:
                print(f"ucft: {error}; to the others this rank has failed", file=_sys.stderr)
                context.abandon()


def _await(self):
    pause = 0.0
    while not self.test():
        yield from _asyncio.sleep(pause).__await__()
        pause = min(pause + 10e-6, 1e-3)
    return self.result()


Request.__await__ = _await

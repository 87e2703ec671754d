"""A class for each status of ucft.h that is an error."""


class Error(RuntimeError):
    """A call of ucft that failed. The text names the culprit."""

    status = ""
    """The name of the status, e.g. 'UCFT_ERR_BUSY'."""
    code = 0


class InvalidParamError(Error, ValueError):
    """A bad argument; nothing was sent."""


class NoMemoryError(Error, MemoryError):
    """Memory, or shared memory, is exhausted: here, or on the rank named."""


class BusyError(Error):
    """Too many operations in flight. Requests are deferred then, so this is not raised by them."""


class TimedOutError(Error, TimeoutError):
    """The limit of a wait has passed; the operation goes on."""


class RootFailedError(Error):
    """The root of a broadcast, scatter, reduce or gather died before anybody had its result."""


class TooManyFailuresError(Error):
    """More than f ranks died in one operation. Never where all ranks share memory."""


class MismatchError(Error):
    """Ranks posted different operations or arguments."""


class ExcludedError(Error):
    """The others have declared this rank dead and went on without it."""


class PartitionError(Error):
    """Ranks of other hosts are silent, and this side is not the majority."""


class StartUpError(Error):
    """A rank died or did not arrive during start-up."""


class ClosedError(Error):
    """The object is closed."""


class StateError(Error):
    """Wrong order: a result before the wait, a post while it is in progress."""


class ThreadError(Error):
    """Another thread, or a callback, is inside the same context."""


class ForkedError(Error):
    """This process is a fork of the one that created the context."""


class TransportError(Error):
    """UCX said no; the text has its words."""


class UnsupportedError(Error, NotImplementedError):
    """A value that this version does not know."""


class PeerFailedError(Error):
    """The other rank of a send or receive has failed, or has left."""

    rank = -1
    """That rank's number in the communicator."""


class TruncatedError(Error):
    """A message is longer than the receive that it was sent to: it is lost."""

    rank = -1
    """The number of the rank that has sent it, in the communicator."""


class LateError(Error):
    """An allreduce with a quorum was decided without this rank, and its result is not kept any more."""


_NAMES = {
    -1: ("INVALID_PARAM", InvalidParamError), -2: ("NO_MEMORY", NoMemoryError), -3: ("BUSY", BusyError),
    -4: ("TIMED_OUT", TimedOutError), -5: ("ROOT_FAILED", RootFailedError),
    -6: ("TOO_MANY_FAILURES", TooManyFailuresError),
    -7: ("MISMATCH", MismatchError), -8: ("EXCLUDED", ExcludedError), -9: ("PARTITION", PartitionError),
    -10: ("STARTUP", StartUpError), -11: ("CLOSED", ClosedError), -12: ("STATE", StateError),
    -13: ("THREAD", ThreadError),
    -14: ("FORKED", ForkedError), -15: ("TRANSPORT", TransportError), -16: ("UNSUPPORTED", UnsupportedError),
    -17: ("PEER_FAILED", PeerFailedError), -18: ("TRUNCATED", TruncatedError),
    -19: ("LATE", LateError),
}
for _code, (_name, _class) in _NAMES.items():
    _class.status, _class.code = "UCFT_ERR_" + _name, _code
for _class in (Error, *(each for _, each in _NAMES.values())):
    _class.__module__ = "ucft"   # what a traceback says, and what a program catches


def of_status(code):
    """The class of a status; Error itself if it has no name here."""
    return _NAMES.get(code, ("", Error))[1]

"""Errors of a call in a worker process, besides those of the function."""

from ors_server.model.errors import MachineryError


class OverLimitError(Exception):
    """The call exceeds a limit, which the message names, because of its input."""


class OverCpuError(OverLimitError):
    """It takes too much processor time."""


class OverMemoryError(OverLimitError):
    """It takes too much memory."""


class CrashedError(OverLimitError):
    """The interpreter crashed, such as by a stack that is too deep."""


class WorkerLostError(MachineryError):
    """The worker did not answer, but not because of the input; the same call may succeed later."""

    code = "worker_lost"


class WorkerDiedError(WorkerLostError):
    """The worker was killed from outside, or could not start."""

    code = "worker_died"


class WorkerStalledError(WorkerLostError):
    """Time ran out although the work took little processor time: the machine is overloaded."""

    code = "worker_stalled"

"""How a call in a worker process fails, apart from what the function raises itself."""

from ors_server.errors import MachineryError


class OverLimitError(Exception):
    """The work takes more than it may; the fault of whoever wrote the input. The message names the limit."""


class OverCpuError(OverLimitError):
    """It takes too much processor time."""


class OverMemoryError(OverLimitError):
    """It takes too much memory."""


class CrashedError(OverLimitError):
    """The interpreter crashed over it, such as by a stack that is too deep."""


class WorkerLostError(MachineryError):
    """The worker gave no answer, and the input is not why; the same call may work later."""

    code = "worker_lost"


class WorkerDiedError(WorkerLostError):
    """The worker was ended from outside, or could not start."""

    code = "worker_died"


class WorkerStalledError(WorkerLostError):
    """Time ran out although the work took little processor time: the machine is overloaded."""

    code = "worker_stalled"

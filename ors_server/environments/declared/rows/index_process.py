"""Makes indices in separate processes, so that a server is not late while it reads data.

Parsers in C keep the interpreter's lock to the end of a row, or of a file, and with it the event loop. A
separate process can also have a limit on its memory, which grows with the data.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ors_server.environments.declared.rows.index_summary import IndexSummary
from ors_server.environments.declared.rows.row_source import RowReader
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.processes.offload import MIB, FunctionPath, OffloadLimits, OverLimitError
from ors_server.processes.offload.worker_process import WorkerCall, WorkerProcess

MEMORY = 2048 * MIB
"""Bytes of address space that making an index may take for data of any size."""
MEMORY_A_BYTE = 32
"""Further bytes for each byte of the files: a list of empty objects takes about 24."""
CPU_SECONDS = 300.0
"""Processor time for data of any size."""
CPU_SECONDS_A_MEBIBYTE = 10.0
UNKNOWN_SIZE = 1 << 40
"""Bytes assumed for data that is not in files of the user: no limit."""

_is_serving: ContextVar[bool] = ContextVar("indices_are_made_elsewhere", default=False)


@contextmanager
def indices_made_elsewhere() -> Generator[None]:
    """Make indices in separate processes in the with statement: this one has an event loop to run."""
    token = _is_serving.set(True)
    try:
        yield
    finally:
        _is_serving.reset(token)


def is_made_elsewhere() -> bool:
    """Whether an index that is missing is made in a separate process."""
    return _is_serving.get()


def make_elsewhere(source: RowReader, function: FunctionPath, job: object) -> IndexSummary:
    """Make an index in a separate process and wait for it; for threads only.

    The process runs the same code of authors as this one, so it gets all environment variables and the same
    folder: rows may name files from there.

    Args:
        source: The data, for limits and messages.
        function: Makes the index in the process; takes the job.
        job: Plain data.

    Raises:
        EnvironmentDefinitionError: If the data cannot be read, or takes too much memory or time.
        WorkerLostError: If the process was ended from outside.
    """
    worker = WorkerProcess(os.environ, os.getcwd())  # noqa: PTH109  (a text)
    try:
        summary: IndexSummary = worker.ask(WorkerCall(function.path, (job,), _limits(source))).open()
    except OverLimitError as error:
        raise EnvironmentDefinitionError(
            f"{source.name}: expected data that can be read with so much memory and time, and {error}; split "
            "it into rows of JSON lines, or restart the server, which reads it without these limits"
        ) from error
    finally:
        worker.kill()
        worker.close()
    return summary


def _limits(source: RowReader) -> OffloadLimits:
    size = sum(path.stat().st_size for path in source.files) if source.files else UNKNOWN_SIZE
    seconds = CPU_SECONDS + CPU_SECONDS_A_MEBIBYTE * size / MIB
    return OffloadLimits(seconds, 4 * seconds, MEMORY + MEMORY_A_BYTE * size)

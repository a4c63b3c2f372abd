"""The folder of a run: `run.json`, and one line of `attempts.jsonl` for each attempt that has ended.

One process at a time plays a run. A line is on the disk before the run goes on. What a crash left of a
half-written last line is not an attempt: readers pass over it, and whoever goes on with the run cuts it off.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from ors_server.errors import RecordError
from ors_server.evaluation.runs import ATTEMPT, FORM, RUN, Attempt, Run

RUN_FILE = "run.json"
ATTEMPTS_FILE = "attempts.jsonl"


def read_run(folder: str | Path) -> Run:
    """Read what a run set out to do.

    Args:
        folder: The run's folder.

    Raises:
        RecordError: If there is none, or it is of another form.
    """
    path = Path(folder) / RUN_FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"{folder} is no folder of a run: {path} cannot be read: {error.strerror}"
        ) from error
    run = RUN.read(text)
    if run.form != FORM:
        raise RecordError(f"{path} has the form {run.form}; this version reads {FORM}")
    return run


def read_attempts(folder: str | Path) -> Iterator[Attempt]:
    """Go through the attempts that have ended, in the order in which they did, one at a time.

    Args:
        folder: The run's folder; a run without attempts gives none.

    Raises:
        RecordError: If a whole line is no attempt.
    """
    path = Path(folder) / ATTEMPTS_FILE
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield ATTEMPT.read(line)
            except RecordError as error:
                raise RecordError(f"{path}, line {number}: {error}") from error


class RunFolder:
    """The folder of a run that is being played; one writer at a time."""

    def __init__(self, path: str | Path) -> None:
        """Name the folder; nothing is touched yet.

        Args:
            path: Where it is, or shall be.
        """
        self.path = Path(path)
        self._file: int | None = None

    def begin(self, run: Run) -> None:
        """Make the folder of a new run.

        Args:
            run: What it sets out to do.

        Raises:
            RecordError: If a run is there already.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        attempts = self.path / ATTEMPTS_FILE
        if (self.path / RUN_FILE).exists() or (attempts.exists() and attempts.stat().st_size):
            raise RecordError(
                f"{self.path} holds a run already: go on with it (--resume), or name another folder"
            )
        self.write(run)

    def write(self, run: Run) -> None:
        """Write the run anew: the old one or the new one is there, never a half.

        Args:
            run: The run.
        """
        draft = self.path / f".{RUN_FILE}.{os.getpid()}"
        with draft.open("wb") as file:
            file.write(RUN.write(run) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / RUN_FILE)

    def append(self, attempt: Attempt) -> None:
        """Write one ended attempt; it is on the disk when this returns.

        Args:
            attempt: The attempt.
        """
        if self._file is None:
            self._file = self._open()
        line = memoryview(ATTEMPT.write(attempt) + b"\n")
        while line:
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)

    def __enter__(self) -> Self:
        """Open the folder for one writer.

        Raises:
            RecordError: If another process, or another part of this one, plays the run.
        """
        self._file = self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / ATTEMPTS_FILE
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise RecordError(
                f"somebody else plays the run in {self.path}; wait until they have ended"
            ) from error
        os.ftruncate(file, whole_length(path))
        return file


def whole_length(path: Path) -> int:
    """Return how many bytes of a file are whole lines.

    Args:
        path: The file.
    """
    length = at = 0
    with path.open("rb") as file:
        while piece := file.read(2**20):
            if (end := piece.rfind(b"\n")) >= 0:
                length = at + end + 1
            at += len(piece)
    return length

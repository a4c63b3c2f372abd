"""The folder of a run: `run.json`, and one line of `attempts.jsonl` for each attempt that has ended.

One process at a time plays a run. A line is on the disk before the run continues. After a crash the last line
may be incomplete: readers skip it, and the process that resumes the run cuts it off.
"""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ors_server.evaluation.runs import ATTEMPT, FORM, OLD_OPTIONS_KEY, OPTIONS_KEY, RUN, Attempt, Run
from ors_server.files.atomic_file import atomic_file
from ors_server.model.errors import RecordError

RUN_FILE = "run.json"
ATTEMPTS_FILE = "attempts.jsonl"


def read_run(folder: str | Path) -> Run:
    """Read the run of a folder; raises `RecordError` if it is missing or has an unknown form."""
    path = Path(folder) / RUN_FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"{folder} is not the folder of a run: cannot read {path}: {error.strerror}"
        ) from error
    try:
        run = RUN.read(text)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
    if run.form != FORM:
        raise RecordError(f"{path} has the form {run.form}; this version reads {FORM}")
    names = {OLD_OPTIONS_KEY: OPTIONS_KEY}
    return replace(run, config={names.get(key, key): value for key, value in run.config.items()})


def read_attempts(folder: str | Path) -> Iterator[Attempt]:
    """Yield the attempts in the order of their end; raises `RecordError` on a malformed line."""
    path = Path(folder) / ATTEMPTS_FILE
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            # The last line of a run that was killed while it wrote; the attempt is played again.
            if not line.endswith(b"\n"):
                return
            try:
                yield ATTEMPT.read(line)
            except RecordError as error:
                raise RecordError(f"{path}, line {number}: {error}") from error


class RunFolder:
    """The folder of a run that is being played; one writer at a time."""

    def __init__(self, path: str | Path) -> None:
        """Name the folder, which need not exist; nothing is touched yet."""
        self.path = Path(path)
        self._file: int | None = None

    def begin(self, run: Run) -> None:
        """Make the folder of a new run; raises `RecordError` if it has a run already."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        attempts = self.path / ATTEMPTS_FILE
        if (self.path / RUN_FILE).exists() or (attempts.exists() and attempts.stat().st_size):
            raise RecordError(
                f"{self.path} holds a run already: resume it (--resume), or name another folder"
            )
        self.write(run)

    def write(self, run: Run) -> None:
        """Replace `run.json` at once, so that it is never incomplete."""
        with atomic_file(self.path / RUN_FILE, 0o600) as file:
            file.write(RUN.write(run) + b"\n")

    def append(self, attempt: Attempt) -> None:
        """Add an attempt; its line is on the disk when this returns."""
        if self._file is None:
            self._file = self._open()
        line = memoryview(ATTEMPT.write(attempt) + b"\n")
        # `os.write` may write a part, such as on a full disk.
        while line:
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)

    def __enter__(self) -> Self:
        """Open the folder for one writer; raises `RecordError` if the run is played by another one."""
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
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.path / ATTEMPTS_FILE
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # Two processes in one folder would play and record the same attempts twice. The kernel releases
            # the lock when a process ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise RecordError(
                f"another process plays the run in {self.path}; wait until it has ended"
            ) from error
        # Cut under the lock only: another process may just be writing that line.
        os.ftruncate(file, whole_length(path))
        return file


def whole_length(path: Path) -> int:
    """Return the length of a file's complete lines in bytes."""
    length = at = 0
    with path.open("rb") as file:
        while piece := file.read(2**20):
            if (end := piece.rfind(b"\n")) >= 0:
                length = at + end + 1
            at += len(piece)
    return length

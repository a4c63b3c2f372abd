"""A work dir without a sandbox, for tests of the grading: the same programs, run beside a plain folder."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import anyio
import pytest

from ors_server import FreshRun
from ors_server.sandboxes.captured_output import Output
from ors_server_tasks.shell.exercise import Exercise, File, Folder, Link
from ors_server_tasks.shell.grading import find_faults

CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
WAIT = 30.0
READ_BYTES = 1 << 24
"""What a sandbox reads at most."""


class PlainProcess:
    """A program that is talked to."""

    def __init__(self, argv, folder, environment):
        self._process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    async def send(self, data):
        self._process.stdin.write(data)
        self._process.stdin.flush()

    async def receive(self, max_bytes=65536):
        return await anyio.to_thread.run_sync(os.read, self._process.stdout.fileno(), max_bytes)

    async def aclose(self):
        self._process.kill()
        self._process.communicate(timeout=WAIT)


class PlainEvidence:
    """What `Evidence` gives, over a folder that nobody else touches."""

    def __init__(self, work: Path, beside: Path):
        self.work = work
        self.sandbox = SimpleNamespace(work_dir=str(work), fresh_dir=str(beside))

    def _prepare(self, files, environment):
        for name, content in (files or {}).items():
            path = Path(self.sandbox.fresh_dir) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return {**CLEAN, **(environment or {})}

    async def read_file(self, path, *, most=None):
        assert (self.work / path).stat().st_size <= READ_BYTES, "read without looking at the size"
        content = (self.work / path).read_bytes()
        assert most is None or len(content) <= most
        return content

    async def run(self, argv, *, files=None, environment=None):
        prepared = self._prepare(files, environment)
        done = await anyio.run_process(argv, cwd=self.work, env=prepared, check=False)
        stdout, stderr = (Output(text, b"", len(text)) for text in (done.stdout, done.stderr))
        return FreshRun(done.returncode, stdout, stderr, timed_out=False, output_limit=False, duration_s=0.0)

    async def start(self, argv, *, files=None, environment=None, time_limit=None):
        prepared = self._prepare(files, environment)
        return await anyio.to_thread.run_sync(PlainProcess, argv, self.work, prepared)

    async def look_patiently(self, look):
        return await look()


class Desk:
    """An exercise laid out in a folder."""

    def __init__(self, exercise: Exercise, place: Path):
        self.exercise = exercise
        self.work = place / "work"
        self.work.mkdir()
        self.evidence = PlainEvidence(self.work, place / "beside")
        self.home = place / "home"
        self.home.mkdir()
        lay_out(self.work, exercise)

    def bash(self, command: str) -> str:
        """Runs a command and returns what it printed; it must succeed."""
        done = subprocess.run(
            ["/usr/bin/env", "bash", "-c", command],
            cwd=self.work,
            env={**CLEAN, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def solve(self) -> None:
        self.bash(self.exercise.gold)

    def faults(self) -> list[str]:
        return anyio.run(find_faults, self.evidence, self.exercise)


def lay_out(work: Path, exercise: Exercise) -> None:
    nodes = {**exercise.before, **exercise.hidden}
    for path, node in sorted(nodes.items()):
        place = work / path
        place.parent.mkdir(parents=True, exist_ok=True)
        match node:
            case File():
                place.write_bytes(node.content)
                os.utime(place, (node.mtime, node.mtime))
            case Folder():
                place.mkdir(exist_ok=True)
            case Link():
                place.symlink_to(node.target)
    for path, node in sorted(nodes.items(), reverse=True):
        if isinstance(node, File | Folder):
            (work / path).chmod(node.mode or (0o644 if isinstance(node, File) else 0o755))


@pytest.fixture
def lay() -> Iterator[Callable[[Exercise], Desk]]:
    """Lays exercises out; the folders go with the test."""
    with desks() as make:
        yield make


@contextmanager
def desks() -> Iterator[Callable[[Exercise], Desk]]:
    with TemporaryDirectory(prefix="shell-exercise-") as folder:
        count = iter(range(sys.maxsize))

        def make(exercise: Exercise) -> Desk:
            place = Path(folder) / str(next(count))
            place.mkdir()
            return Desk(exercise, place)

        yield make

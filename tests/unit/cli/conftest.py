"""The command line, run in this process or as a server of its own."""

import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ors_server.cli.main import main
from ors_server.model import logs

ROOT = Path(__file__).parents[3]
REFENV = str(ROOT / "tests/fixtures/refenv.py")
LIMIT = 60
"""Seconds that a process may take for anything."""


@dataclass
class Ran:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def no_log_is_left_behind():
    """Takes away the log that a command sent to a stream which ends with its test."""
    yield
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler.get_name() == logs.ROOT]:
        root.removeHandler(handler)
    logging.getLogger(logs.ROOT).setLevel(logging.NOTSET)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def run(*words: str) -> Ran:
        capsys.readouterr()
        status = main(words)
        return Ran(status, *capsys.readouterr())

    return run


@dataclass
class Served:
    """A server as a process."""

    process: subprocess.Popen[str]
    ready: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.ready["url"]

    def stop(self, *, with_signal: int | None = None) -> str:
        if with_signal is not None:
            self.process.send_signal(with_signal)
        return self.process.communicate(timeout=LIMIT)[1]


COMMAND = [sys.executable, "-c", "import sys; from ors_server.cli.main import main; sys.exit(main())"]


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers on free ports; those that still run are ended after the test."""
    with contextlib.ExitStack() as stack:

        def start(*words: str, **environ: str) -> Served:
            environment = {**os.environ, **environ}
            process = start_command("serve", *words, "--port", "0", "--json", cwd=ROOT, env=environment)
            stack.callback(_end, process)
            line = process.stdout.readline()
            assert line, process.communicate(timeout=LIMIT)[1]
            return Served(process, json.loads(line))

        yield start


def run_python(program: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program, which must succeed, in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT
    )


def start_command(*words: str, **options: Any) -> "subprocess.Popen[str]":
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *words], **{**pipes, **options})


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=LIMIT)

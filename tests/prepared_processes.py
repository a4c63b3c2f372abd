"""Starts the package's own programs from a process that has imported the package already.

A server, a command or the process of an audit is an interpreter that imports for 0.3 to 0.9 seconds of
processor time, and a run of the tests starts more than a thousand of them. Where a command is known to begin
with those imports, `subprocess.Popen` has it forked from `tests/fixtures/prepared_interpreter.py` instead:
the same program with the same arguments, variables, folder and descriptors, and a child of the caller.

A server with several hosts has a forked process too, which forks those.

An interpreter starts as usual for every other command, on a terminal unless its program is a test's own, as
another user, with other variables that Python reads when it starts, where lines are counted, and where
ORS_TEST_PREPARED is 0 in the variables of the tests or of the command. In /proc a forked process has the
command line and the variables of the process that forked it.
"""

import array
import atexit
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ors_server.processes import child_process
from ors_server.resources import worker_env_resource
from ors_server.rewards.batch import process as batch_process
from ors_server.supervisor.supervising import signal_with_parent

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("ors-server")
IMPORT_MAIN = "from ors_server.cli.main import main; "
PROGRAMS = {
    IMPORT_MAIN + "main()",
    "import sys; " + IMPORT_MAIN + "sys.exit(main())",
    worker_env_resource._BOOTSTRAP,
    child_process._PROGRAM.format(module=batch_process.MODULE),
}
"""Programs of `python -c` that import the package."""
TESTS_OWN = "# prepared\n"
"""First line of a test's program for `python -c` that uses the package. It may be on a terminal."""
READ_AT_START = ("PYTHON", "LANG", "LC_", "MALLOC", "LD_", "FORCE_COLOR", "NO_COLOR", "TERMINAL_")
"""How the variables begin that an interpreter reads when it starts, or a package when it is imported."""
PARAMETERS = [
    *("self", "args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env"),
    *("startupinfo", "creationflags", "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite"),
    *("errread", "errwrite", "restore_signals", "gid", "gids", "uid", "umask"),
    *("start_new_session", "process_group"),
]
"""The parameters of `Popen._execute_child`; where the library has others, interpreters start as usual."""
USUAL: dict[str, object] = {
    "executable": None,
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
}
"""The values of parameters that a forked process knows how to follow."""
SWITCH = "ORS_TEST_PREPARED"
MAX_PREPARED = 3
"""Processes that fork: audits start theirs with two seeds of hashes."""
START_LIMIT = 120.0
"""Seconds in which the prepared interpreter must have imported everything, and must fork."""


class PreparedInterpreter:
    """The connection to a process that forks."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        channel.settimeout(START_LIMIT)
        self.pid = pid
        """The number of the process that forks."""
        self._channel = channel
        self._lock = threading.Lock()

    @classmethod
    def start(cls, variables: Mapping[str, str]) -> "PreparedInterpreter":
        """Start an interpreter with these variables, and wait until it has imported everything."""
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        imported = "from tests.fixtures.prepared_interpreter import wait_for_command as wait; "
        with theirs:
            number = theirs.fileno()
            process = subprocess.Popen(
                [sys.executable, "-c", f"{imported}exec(wait())", str(number)],
                cwd=ROOT,
                env=dict(variables),  # no mark of a child's, by which its processes are found and killed
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
            )
        process.returncode = 0  # it is waited for by its number
        interpreter = cls(channel, process.pid)
        channel.recv(1)
        return interpreter

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Return the number of a new process."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with self._lock:
            self._channel.sendmsg([json.dumps(request).encode()], rights)
            return int(self._channel.recv(64))

    def close(self) -> None:
        """End the process; what it forked goes on."""
        self._channel.close()
        os.waitpid(self.pid, 0)


class PreparedInterpreters:
    """The processes that fork, by their variables; each starts when a command first needs it."""

    def __init__(self) -> None:
        self._started: dict[frozenset[tuple[str, str]], PreparedInterpreter] = {}
        self._lock = threading.Lock()
        self._max = MAX_PREPARED

    def find(self, variables: Mapping[str, str]) -> PreparedInterpreter | None:
        """Return the process for a command with these variables, or `None` if there are too many others."""
        fixed = _read_at_start(variables)
        key = frozenset(fixed.items())
        with self._lock:
            if key not in self._started and len(self._started) < self._max:
                others = {
                    name: value for name, value in os.environ.items() if not name.startswith(READ_AT_START)
                }
                self._started[key] = PreparedInterpreter.start({**others, **fixed})
            return self._started.get(key)

    def adopt(self, interpreter: PreparedInterpreter) -> None:
        """Use a process that has this one's variables, and start no other."""
        self._started[frozenset(_read_at_start(os.environ).items())] = interpreter
        self._max = 1

    def pids(self) -> set[int]:
        """Return their numbers, which a test that looks for processes leaves out."""
        return {interpreter.pid for interpreter in self._started.values()}

    def close(self) -> None:
        """End all of them; what they forked goes on."""
        for interpreter in self._started.values():
            interpreter.close()
        self._started.clear()


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(READ_AT_START)}


PREPARED = PreparedInterpreters()


def find_program(words: list[str]) -> dict[str, Any] | None:
    """Return what an interpreter would run for a command, or `None` if it is not a program of the package's.

    `first` is the first entry of its `sys.path`, `None` the folder in which it runs.
    """
    if words[:1] == [str(COMMAND)]:
        program = "import sys; " + IMPORT_MAIN + "sys.exit(main())"
        return {"program": program, "argv": words, "first": str(COMMAND.parent)}
    if words[:1] != [sys.executable]:
        return None
    if words[1:3] == ["-m", "ors_server"]:
        program = "import runpy; runpy.run_module('ors_server', run_name='__main__')"
        return {"program": program, "argv": ["-m", *words[3:]], "first": None}
    rest = words[2:] if words[1:2] in (["-u"], ["-P"]) else words[1:]
    is_program = rest[:1] == ["-c"] and len(rest) > 1
    if is_program and (rest[1] in PROGRAMS or rest[1].startswith(TESTS_OWN)):
        return {"program": rest[1], "argv": ["-c", *rest[2:]], "first": ""}
    return None


class PreparedPopen(subprocess.Popen):  # type: ignore[type-arg]  # of texts and of bytes, as the class itself
    """Has the package's own programs forked; starts every other one."""

    def _execute_child(self, *values: Any) -> None:
        options = dict(zip(PARAMETERS[1:], values, strict=True))
        args, variables = options["args"], dict(os.environ if options["env"] is None else options["env"])
        words = [
            os.fsdecode(word) for word in ([args] if isinstance(args, str | bytes | os.PathLike) else args)
        ]
        folder = Path(os.fsdecode(options["cwd"] or ".")).absolute()
        standard = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        standard = [place if descriptor == -1 else descriptor for place, descriptor in enumerate(standard)]
        is_usual = all(
            bool(options[name]) is value or options[name] == value for name, value in USUAL.items()
        )
        before = options["preexec_fn"]
        is_host = isinstance(before, partial) and before.func is signal_with_parent
        is_usual = is_usual and (before is None or is_host)
        program = find_program(words) if is_usual and folder.is_dir() else None
        is_own = program is not None and program["program"].startswith(TESTS_OWN)
        is_refused = variables.get(SWITCH) == "0" or (any(map(os.isatty, standard)) and not is_own)
        may_fork = program is not None and not is_refused
        interpreter = PREPARED.find(variables) if may_fork else None
        if program is None or interpreter is None:
            super()._execute_child(*values)  # type: ignore[misc]  # private, and not in the stubs
            return
        request = {
            **program,
            "command": words,
            "places": [*range(len(standard)), *options["pass_fds"]],
            "new_session": bool(options["start_new_session"]),
            "process_group": options["process_group"],
            "signal_with_parent": before.args[0] if is_host else None,
            "folder": str(folder),
            "variables": variables,
        }
        self.pid = interpreter.fork(request, [*standard, *options["pass_fds"]])
        self._child_created = True
        self._close_pipe_fds(*(options[name] for name in PARAMETERS[11:17]))  # type: ignore[attr-defined]  # likewise


def fork_hosts(channel: socket.socket, pid: int) -> None:
    """Has what this process starts, a server with several hosts, forked by a process that it has forked."""
    PREPARED.adopt(PreparedInterpreter(channel, pid))
    subprocess.Popen = PreparedPopen  # type: ignore[misc]  # for every caller
    atexit.register(PREPARED.close)  # no process of the server outlives it


def pytest_configure(config: "pytest.Config") -> None:
    """Has the package's programs forked from now on, unless their lines are counted."""
    is_known = list(inspect.signature(vars(subprocess.Popen)["_execute_child"]).parameters) == PARAMETERS
    is_counted = config.pluginmanager.has_plugin("_cov")
    if sys.platform == "linux" and is_known and not is_counted and os.environ.get(SWITCH) != "0":
        subprocess.Popen = PreparedPopen  # type: ignore[misc]  # for every caller


def pytest_unconfigure() -> None:
    """Starts interpreters as usual again."""
    subprocess.Popen = PreparedPopen.__base__  # type: ignore[assignment, misc]  # the class itself again
    PREPARED.close()

"""Starts the package's own programs, and clients', from processes that have imported the packages already.

A server, a command or the process of an audit is an interpreter that imports for 0.3 to 0.9 seconds of
processor time, and a run of the tests starts more than a thousand of them. Where a command is known to begin
with those imports, `subprocess.Popen` has it forked from `tests/fixtures/prepared_interpreter.py` instead:
the same program with the same arguments, variables, folder and descriptors, and a child of the caller. It has
the programs of clients' environments forked too (`tests/prepared_clients.py`), which import for 0.5 to 4
seconds.

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
import re
import signal
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
from tests.prepared_clients import CLIENTS, MODULES_OF_CLIENTS, READ_BY_CLIENTS, UNSAID, WITHOUT_THREADS

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
BOUND = ["setpriv", "--pdeathsig", "KILL", "--"]
"""What is in front of a command that is killed when its parent ends."""
STRICT = ["-W", "error", "-c"]
"""How a program of a document starts, which may be any program."""
TESTS_OWN = "# prepared\n"
"""First line of a test's program for `python -c` that uses the package. It may be on a terminal."""
READ_AT_START = ("PYTHON", "LANG", "LC_", "MALLOC", "LD_", "FORCE_COLOR", "NO_COLOR", "TERMINAL_")
"""How the variables begin that an interpreter reads when it starts, or a package when it is imported."""
BORROWING = re.compile(r"import sys; sys\.path\.append\('[^']*'\); " + re.escape(IMPORT_MAIN) + r"main\(\)")
"""The program of a server that serves what a client's packages are needed for."""
SCRIPT = "__file__ = {!r}; exec(compile(open(__file__, 'rb').read(), __file__, 'exec'))"
"""Runs a client's script, as `python FILE` does."""
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
MODULES = (
    "ors_server.cli.main",
    "ors_server.app",
    "ors_server.audit.audited_program",
    "ors_server.cli.announcement",
    "ors_server.cli.listening",
    "ors_server.cli.reloading",
    "ors_server.cli.serving_workers",
    "ors_server.cli.setting_flags",
    "ors_server.console.console_app",
    "ors_server.doors.http.bounded_protocol",
    "ors_server.doors.mcp.mcp_app",
    "ors_server.doors.mcp.sdk",
    "ors_server.client",
    "ors_server.evaluation.evaluating",
    "ors_server.evaluation.report.page",
    "ors_server.recovery.host_watch",
    "ors_server.rewards.agentfly.answers",
    "ors_server.rewards.batch.batch_worker",
    "ors_server.rewards.catalogue",
    "ors_server.rewards.math",
    "ors_server.rewards.qa",
    "ors_server.rewards.scoring",
    "ors_server.store.sql.components",
    "ors_server.store.sql.opening",
    "ors_server.store.sql.sql_reader",
    "ors_server.store.sql.sql_store",
    "ors_server.supervisor.supervising",
    "tests.prepared_processes",
    "typer.rich_utils",
    "anyio._backends._asyncio",
    "mcp.types",
    "rich.console",
    "rich.table",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""What servers, audits and commands import."""
SWITCH = "ORS_TEST_PREPARED"
MAX_PREPARED = 4
"""Processes that fork the package's programs: audits have two seeds of hashes, documents have options."""
MAX_CLIENTS = 16
"""Processes that fork clients' programs, 2 GB together; then the one that forked longest ago ends."""
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
    def start(
        cls, command: Sequence[str], modules: Sequence[str], variables: Mapping[str, str]
    ) -> "PreparedInterpreter":
        """Start an interpreter with its options, and wait until it has imported everything."""
        channel, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = "from tests.fixtures.prepared_interpreter import run_commands; run_commands(globals())"
        with far_end:
            number = far_end.fileno()
            process = subprocess.Popen(
                [*command, "-c", program, str(number), *modules],
                cwd=ROOT,
                env=dict(variables),  # no mark of a child's, by which its processes are found and killed
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
            )
        process.returncode = 0  # it is waited for by its number
        interpreter = cls(channel, process.pid)
        if not channel.recv(1):
            channel.close()
            raise RuntimeError(f"{command[0]} ended before it had imported {', '.join(modules)}")
        return interpreter

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Return the number of a new process."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with self._lock:
            self._channel.sendmsg([json.dumps(request).encode()], rights)
            return int(self._channel.recv(64))

    def close(self) -> None:
        """End the process, but nothing that it forked."""
        self._channel.close()
        os.waitpid(self.pid, 0)


class PreparedInterpreters:
    """The processes that fork, by command and variables; each starts when a command first needs it."""

    def __init__(self) -> None:
        self._started: dict[tuple[tuple[str, ...], frozenset[tuple[str, str]]], PreparedInterpreter] = {}
        """In the order of their last forks."""
        self._lock = threading.Lock()
        self._max, self._max_clients = MAX_PREPARED, MAX_CLIENTS

    def find(self, command: tuple[str, ...], variables: Mapping[str, str]) -> PreparedInterpreter | None:
        """Return the process for programs with these variables, or `None` if there are too many others.

        Args:
            command: The interpreter and its options.
            variables: The variables of a program.
        """
        client = CLIENTS.get(command[0])
        modules = MODULES if client is None else MODULES_OF_CLIENTS[client]
        fixed = _fix_at_start(variables, client)
        key = (command, frozenset(fixed.items()))
        with self._lock:
            alike = [other for other in self._started if (other[0][0] in CLIENTS) is (client is not None)]
            if key not in self._started:
                if len(alike) >= (self._max if client is None else self._max_clients):
                    if client is None or not alike:
                        return None
                    self._started.pop(alike[0]).close()
                read = _read_at_start(client)
                rest = {name: value for name, value in os.environ.items() if not name.startswith(read)}
                self._started[key] = PreparedInterpreter.start(command, modules, {**rest, **fixed})
            interpreter = self._started[key] = self._started.pop(key)
            return interpreter

    def adopt(self, interpreter: PreparedInterpreter) -> None:
        """Use a process that has this one's variables, and start no other."""
        fixed = _fix_at_start(os.environ, None)
        self._started[(sys.executable,), frozenset(fixed.items())] = interpreter
        self._max, self._max_clients = 1, 0

    def pids(self) -> set[int]:
        """Return their numbers, which a test that looks for processes leaves out."""
        return {interpreter.pid for interpreter in list(self._started.values())}

    def close(self) -> None:
        """End all of them, but nothing that they forked."""
        for interpreter in self._started.values():
            interpreter.close()
        self._started.clear()


def _read_at_start(client: str | None) -> tuple[str, ...]:
    return READ_AT_START if client is None else READ_AT_START + READ_BY_CLIENTS


def _fix_at_start(variables: Mapping[str, str], client: str | None) -> dict[str, str]:
    """Return the variables that a process must start with to fork a command that has these."""
    read = _read_at_start(client)
    fixed = {name: value for name, value in variables.items() if name.startswith(read)}
    if client is None:
        return fixed
    fixed.pop("PYTHONPATH", None)  # the forked process has it
    return {**UNSAID, **fixed, **WITHOUT_THREADS}


PREPARED = PreparedInterpreters()


def find_program(words: list[str]) -> dict[str, Any] | None:
    """Return what an interpreter would run for a command, or `None` if it is not a program of the package's.

    `python` are the interpreter and those of its options that it has from the start; `first` is the first
    entry of its `sys.path`, `None` the folder in which it runs.
    """
    python = words[0] if words else ""
    if python == str(COMMAND):
        program = "import sys; " + IMPORT_MAIN + "sys.exit(main())"
        return {"python": [sys.executable], "program": program, "argv": words, "first": str(COMMAND.parent)}
    if python != sys.executable and python not in CLIENTS:
        return None
    if words[1:3] == ["-m", "ors_server"]:
        program = "import runpy; runpy.run_module('ors_server', run_name='__main__')"
        return {"python": [python], "program": program, "argv": ["-m", *words[3:]], "first": None}
    is_strict = words[1:4] == STRICT
    rest = words[3 if is_strict else 2 if words[1:2] in (["-u"], ["-P"]) else 1 :]
    text = "".join(rest[1:2])
    is_listed = text in PROGRAMS or text.startswith(TESTS_OWN) or BORROWING.fullmatch(text) is not None
    if rest[:1] == ["-c"] and (is_strict or is_listed):
        command = [python, "-Werror"] if is_strict else [python]
        return {"python": command, "program": text, "argv": ["-c", *rest[2:]], "first": ""}
    if python in CLIENTS and "".join(rest[:1]).endswith(".py"):
        first = str(Path(rest[0]).parent)
        return {"python": [python], "program": SCRIPT.format(rest[0]), "argv": rest, "first": first}
    return None


class PreparedPopen(subprocess.Popen):  # type: ignore[type-arg]  # of texts and of bytes, as the class itself
    """Has the package's own programs forked; starts every other one."""

    def _execute_child(self, *values: Any) -> None:
        options = dict(zip(PARAMETERS[1:], values, strict=True))
        args, variables = options["args"], dict(os.environ if options["env"] is None else options["env"])
        words = [
            os.fsdecode(word) for word in ([args] if isinstance(args, str | bytes | os.PathLike) else args)
        ]
        is_bound = words[: len(BOUND)] == BOUND
        words = words[len(BOUND) :] if is_bound else words
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
        interpreter = None
        if program is not None and not is_refused:
            interpreter = PREPARED.find(tuple(program["python"]), variables)
        if program is None or interpreter is None:
            super()._execute_child(*values)  # type: ignore[misc]  # private, and not in the stubs
            return
        path = [entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
        request = {
            **program,
            "command": words,
            "places": [*range(len(standard)), *options["pass_fds"]],
            "new_session": bool(options["start_new_session"]),
            "process_group": options["process_group"],
            "signal_with_parent": before.args[0] if is_host else signal.SIGKILL if is_bound else None,
            "folder": str(folder),
            "variables": variables,
            "is_unbuffered": words[1:2] == ["-u"],
            "path": path if words[0] in CLIENTS else [],  # others are forked from a process that has it
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

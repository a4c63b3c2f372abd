"""The self-check of any sandbox backend: every promise of the interface.

```python
for verdict in await check_backend(backend):
    print(verdict.name, verdict.problem or "ok")
```

The shell's promises are rows of a table; those of files, copies, lifetimes and fresh programs are functions.
A backend that runs no commands, like the scripted one, is checked without the shell's.
"""

from dataclasses import dataclass

import anyio

from ors_server.sandboxes.base import Backend, ExecResult, Killed
from ors_server.testing.fresh_program_promises import FRESH_PROMISES
from ors_server.testing.promises import BrokenPromiseError, PromiseVerdict, find_problem
from ors_server.testing.sandbox_promises import FILE_PROMISES, SHELL_PROMISES, PromiseCheck, started

TIME_LIMIT = 60.0
"""Seconds that one check may take."""
CONCURRENT_CHECKS = 4
"""How many checks run at the same time."""


@dataclass(frozen=True, slots=True)
class ShellStep:
    """One command and its expected result; `None` accepts anything."""

    command: str
    status: int | None = 0
    stdout: str | None = None
    stderr: str | None = None
    time_limit: float = 20.0
    killed: Killed | None = None
    restarted: bool | None = False


SHELL_ROWS: dict[str, tuple[ShellStep, ...]] = {
    "output comes apart and whole": (ShellStep("echo out; echo err >&2", 0, "out\n", "err\n"),),
    "a status is exact": (
        ShellStep("(exit 7)", 7),
        ShellStep("echo $?", 0, "7\n"),
        ShellStep("no-such-program", 127),
    ),
    "a syntax error is a result": (
        ShellStep("echo )", 2),
        ShellStep('echo "open', None),
        ShellStep("echo on", 0, "on\n"),
    ),
    "a signal is 128 and its number": (ShellStep("bash -c 'kill -9 $$'", 137),),
    "bytes that are not text survive": (ShellStep(r"printf '\377\000x' | wc -c", 0, "3\n"),),
    "standard input is empty": (ShellStep("cat; echo $?", 0, "0\n"),),
    "state lasts": (
        ShellStep("cd /; x=1; export y=2; f() { echo f$1; }; alias a='echo al'; z=(p q)"),
        ShellStep("pwd; echo $x $y ${z[1]}; f 3; a", 0, "/\n1 2 q\nf3\nal\n"),
    ),
    "commands may have many lines": (ShellStep("cat <<'EOF'\n$x\nEOF\necho done", 0, "$x\ndone\n"),),
    "a time limit keeps the shell and the partial output": (
        ShellStep("kept=1; echo early; sleep 100", None, "early\n", time_limit=0.5, killed=Killed.TIME_LIMIT),
        ShellStep("echo $kept", 0, "1\n"),
    ),
    "a loop that ignores interrupts is ended": (
        ShellStep(
            "trap '' INT; while :; do sleep 5; done",
            None,
            time_limit=0.5,
            killed=Killed.TIME_LIMIT,
            restarted=None,
        ),
        ShellStep("echo on", 0, "on\n", restarted=None),
    ),
    "a background job does not hold a call": (
        ShellStep("sleep 100 & echo now", 0, "now\n"),
        ShellStep("kill %1; wait; echo $?", None, None),
    ),
    "a shell that exits is replaced, and says so": (
        ShellStep("x=kept; cd /; exit 5", 5, restarted=True),
        ShellStep("echo $x; pwd", 0, "kept\n/\n"),
    ),
    "a trap on exit runs, and costs the next shell nothing": (
        ShellStep("x=kept; trap 'echo bye $?' EXIT; cd /"),
        ShellStep("exit 5", 5, "bye 5\n", restarted=True),
        ShellStep("echo $x; pwd; trap 'echo other' EXIT; exit", 0, "kept\n/\nother\n", restarted=True),
        ShellStep("echo $x; trap - EXIT", 0, "kept\n"),
        ShellStep("exit 3", 3, "", restarted=True),
    ),
    "a shell that is killed is replaced, and says so": (
        ShellStep("kill -9 $$", 137, restarted=True),
        ShellStep("echo on", 0, "on\n"),
    ),
    "a shell that broke its own limits is replaced": (
        ShellStep("ulimit -n 4", None),
        ShellStep("echo on", 0, "on\n", restarted=True),
    ),
}
"""Promise -> commands in one fresh sandbox, in order."""


async def check_backend(backend: Backend, *, runs_commands: bool = True) -> list[PromiseVerdict]:
    """Check every promise with new sandboxes; without a shell, only those of files and lifetimes."""
    checks: dict[str, PromiseCheck] = dict(FILE_PROMISES)
    if runs_commands:
        checks |= SHELL_PROMISES
        checks |= FRESH_PROMISES
        checks |= {name: _shell_check(rows) for name, rows in SHELL_ROWS.items()}
    verdicts: dict[str, PromiseVerdict] = {}
    # A few at a time: a timing promise may fail on a machine that starts forty sandboxes at once.
    turns = anyio.CapacityLimiter(CONCURRENT_CHECKS)

    async def check_promise(name: str, check: PromiseCheck) -> None:
        async with turns:
            verdicts[name] = PromiseVerdict(name, await find_problem(check(backend), TIME_LIMIT))

    async with anyio.create_task_group() as group:
        for name, check in checks.items():
            group.start_soon(check_promise, name, check)
    return [verdicts[name] for name in checks]


def _shell_check(rows: tuple[ShellStep, ...]) -> PromiseCheck:
    async def check(backend: Backend) -> None:
        async with started(backend, "suite") as sandbox:
            for row in rows:
                result = await sandbox.exec(row.command, time_limit=row.time_limit)
                _check_row(row, result)

    return check


def _check_row(row: ShellStep, result: ExecResult) -> None:
    expected = {
        "exit_code": row.status,
        "stdout": row.stdout,
        "stderr": row.stderr,
        "shell_restarted": row.restarted,
    }
    actual = {
        "exit_code": result.exit_code,
        "stdout": result.stdout.text,
        "stderr": result.stderr.text,
        "shell_restarted": result.shell_restarted,
    }
    for part, value in expected.items():
        if value is not None and actual[part] != value:
            raise BrokenPromiseError(f"{row.command!r}: expected {part} {value!r}, got {actual[part]!r}")
    if result.killed != row.killed:
        raise BrokenPromiseError(f"{row.command!r}: expected killed {row.killed!r}, got {result.killed!r}")

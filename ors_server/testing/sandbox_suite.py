"""The self-check of a sandbox backend, ours or a stranger's: what the interface promises, played and judged.

```python
for verdict in await check_backend(backend):
    print(verdict.name, verdict.problem or "ok")
```

The shell's promises are rows of a table; files, copies, lifetimes and fresh programs are short plays. A
backend that runs no commands, like the scripted one, is asked for the plays that need none.
"""

from dataclasses import dataclass

import anyio

from ors_server.sandboxes.base import Backend, ExecResult, Killed
from ors_server.testing.sandbox_fresh_plays import FRESH_PLAYS
from ors_server.testing.sandbox_plays import FILE_PLAYS, SHELL_PLAYS, BrokenPromiseError, Play

TIME_LIMIT = 60.0
"""Seconds that one check may take."""
AT_ONCE = 4
"""How many checks run at the same time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a backend stands to one promise."""

    name: str
    problem: str = ""
    """What was expected and what came; empty for a pass."""


@dataclass(frozen=True, slots=True)
class Said:
    """One command, and what must come of it; None leaves a part open."""

    command: str
    status: int | None = 0
    stdout: str | None = None
    stderr: str | None = None
    time_limit: float = 20.0
    killed: Killed | None = None
    restarted: bool | None = False


SHELL_ROWS: dict[str, tuple[Said, ...]] = {
    "output comes apart and whole": (Said("echo out; echo err >&2", 0, "out\n", "err\n"),),
    "a status is exact": (Said("(exit 7)", 7), Said("echo $?", 0, "7\n"), Said("no-such-program", 127)),
    "a syntax error is a result": (Said("echo )", 2), Said('echo "open', None), Said("echo on", 0, "on\n")),
    "a signal is 128 and its number": (Said("bash -c 'kill -9 $$'", 137),),
    "bytes that are no text survive": (Said(r"printf '\377\000x' | wc -c", 0, "3\n"),),
    "standard input is empty": (Said("cat; echo $?", 0, "0\n"),),
    "state lasts": (
        Said("cd /; x=1; export y=2; f() { echo f$1; }; alias a='echo al'; z=(p q)"),
        Said("pwd; echo $x $y ${z[1]}; f 3; a", 0, "/\n1 2 q\nf3\nal\n"),
    ),
    "commands may have many lines": (Said("cat <<'EOF'\n$x\nEOF\necho done", 0, "$x\ndone\n"),),
    "a time limit keeps the shell and the partial output": (
        Said("kept=1; echo early; sleep 100", None, "early\n", time_limit=0.5, killed=Killed.TIME_LIMIT),
        Said("echo $kept", 0, "1\n"),
    ),
    "a loop that ignores interrupts is ended": (
        Said(
            "trap '' INT; while :; do sleep 5; done",
            None,
            time_limit=0.5,
            killed=Killed.TIME_LIMIT,
            restarted=None,
        ),
        Said("echo on", 0, "on\n", restarted=None),
    ),
    "a background job does not hold a call": (
        Said("sleep 100 & echo now", 0, "now\n"),
        Said("kill %1; wait; echo $?", None, None),
    ),
    "a shell that exits is replaced, and says so": (
        Said("x=kept; cd /; exit 5", 5, restarted=True),
        Said("echo $x; pwd", 0, "kept\n/\n"),
    ),
    "a trap on exit runs, and costs the next shell nothing": (
        Said("x=kept; trap 'echo bye $?' EXIT; cd /"),
        Said("exit 5", 5, "bye 5\n", restarted=True),
        Said("echo $x; pwd; trap 'echo other' EXIT; exit", 0, "kept\n/\nother\n", restarted=True),
        Said("echo $x; trap - EXIT", 0, "kept\n"),
        Said("exit 3", 3, "", restarted=True),
    ),
    "a shell that is killed is replaced, and says so": (
        Said("kill -9 $$", 137, restarted=True),
        Said("echo on", 0, "on\n"),
    ),
    "a shell that broke its own limits is replaced": (
        Said("ulimit -n 4", None),
        Said("echo on", 0, "on\n", restarted=True),
    ),
}
"""Promise -> commands in one fresh sandbox, in order."""


async def check_backend(backend: Backend, *, runs_commands: bool = True) -> list[Verdict]:
    """Play every check against fresh sandboxes.

    Args:
        backend: Whose sandboxes are judged.
        runs_commands: Whether there is a shell; without one only files and lifetimes are asked for.

    Returns:
        One verdict per check, in the order of the tables.
    """
    plays: dict[str, Play] = dict(FILE_PLAYS)
    if runs_commands:
        plays |= SHELL_PLAYS
        plays |= FRESH_PLAYS
        plays |= {name: _row_play(rows) for name, rows in SHELL_ROWS.items()}
    verdicts: dict[str, Verdict] = {}
    turns = anyio.CapacityLimiter(AT_ONCE)

    async def judge(name: str, play: Play) -> None:
        async with turns:
            verdicts[name] = Verdict(name, await _problem(play, backend))

    async with anyio.create_task_group() as group:
        for name, play in plays.items():
            group.start_soon(judge, name, play)
    return [verdicts[name] for name in plays]


async def _problem(play: Play, backend: Backend) -> str:
    with anyio.move_on_after(TIME_LIMIT):
        try:
            await play(backend)
        except BrokenPromiseError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 # a stranger's backend may raise anything
            return f"{type(error).__name__}: {error}"
        return ""
    return f"not done within {TIME_LIMIT:g} s"


def _row_play(rows: tuple[Said, ...]) -> Play:
    async def play(backend: Backend) -> None:
        sandbox = await backend.start("suite")
        try:
            for row in rows:
                result = await sandbox.exec(row.command, time_limit=row.time_limit)
                _judge(row, result)
        finally:
            await sandbox.aclose()

    return play


def _judge(row: Said, result: ExecResult) -> None:
    expected = {
        "exit_code": row.status,
        "stdout": row.stdout,
        "stderr": row.stderr,
        "shell_restarted": row.restarted,
    }
    came = {
        "exit_code": result.exit_code,
        "stdout": result.stdout.text,
        "stderr": result.stderr.text,
        "shell_restarted": result.shell_restarted,
    }
    for part, wanted in expected.items():
        if wanted is not None and came[part] != wanted:
            raise BrokenPromiseError(f"{row.command!r}: {part} {wanted!r} expected, {came[part]!r} came")
    if result.killed != row.killed:
        raise BrokenPromiseError(f"{row.command!r}: killed {row.killed!r} expected, {result.killed!r} came")

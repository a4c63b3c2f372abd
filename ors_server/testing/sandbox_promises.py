"""The longer promises of a sandbox, one check each; `sandbox_suite` runs them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from ors_server.sandboxes.base import Backend, EntryKind, Killed, Limits, Sandbox
from ors_server.sandboxes.sandbox_errors import (
    SandboxClosedError,
    SandboxCommandError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxFrozenError,
    SandboxPathError,
)
from ors_server.sandboxes.self_check import check_isolation
from ors_server.testing.promises import BrokenPromiseError, raises

PromiseCheck: TypeAlias = Callable[[Backend], Awaitable[None]]
_SandboxCheck: TypeAlias = Callable[[Sandbox], Awaitable[None]]


def require(condition: bool, expected: str) -> None:  # noqa: FBT001  (as `assert` is read)
    """Raise `BrokenPromiseError` unless a condition is met; `expected` follows "expected" in its text."""
    if not condition:
        raise BrokenPromiseError(f"expected {expected}")


@asynccontextmanager
async def started(backend: Backend, name: str, limits: Limits | None = None) -> AsyncGenerator[Sandbox]:
    """Start a sandbox, and close it at the end."""
    sandbox = await backend.start(name, limits)
    try:
        yield sandbox
    finally:
        await sandbox.aclose()


class SandboxPromises(dict[str, PromiseCheck]):
    """Promises, and the check of each."""

    def of(self, promise: str, limits: Limits | None = None) -> Callable[[_SandboxCheck], _SandboxCheck]:
        """Add the check of a promise, for which a sandbox is started."""

        def add(check: _SandboxCheck) -> _SandboxCheck:
            async def run(backend: Backend) -> None:
                name = f"suite{check.__name__.replace('_', '-')}"
                async with started(backend, name, limits) as sandbox:
                    await check(sandbox)

            self[promise] = run
            return check

        return add


FILE_PROMISES = SandboxPromises()
"""Promises that need no shell."""
SHELL_PROMISES = SandboxPromises()
"""Promises that need a shell."""


@FILE_PROMISES.of("files are written, read and listed")
async def _files(sandbox: Sandbox) -> None:
    await sandbox.write_file("a/b/c.txt", b"\x00one")
    await sandbox.write_file("a/b/c.txt", b"two")
    require(await sandbox.read_file("a/b/c.txt") == b"two", "the second content")
    absolute = f"{sandbox.work_dir}/a/b/c.txt"
    require(await sandbox.read_file(absolute) == b"two", "an absolute path in the work dir")
    rows = [(row.path, row.kind, row.size) for row in await sandbox.list_files(depth=3)]
    wanted = [
        ("a", EntryKind.FOLDER, 0),
        ("a/b", EntryKind.FOLDER, 0),
        ("a/b/c.txt", EntryKind.FILE, 3),
    ]
    require(rows == wanted, f"{wanted}, got {rows}")
    require(len(await sandbox.list_files()) == 1, "one level by default")
    await sandbox.write_file("a/gone", b"")
    await sandbox.remove_file("a/gone")
    await raises(SandboxFileMissingError, sandbox.read_file("a/gone"), "a removed file")
    require(await sandbox.read_file("a/b/c.txt") == b"two", "the other file in the folder")


@FILE_PROMISES.of("what a file operation may not do is refused by name", Limits(read_bytes=10))
async def _refused_files(sandbox: Sandbox) -> None:
    await raises(SandboxFileMissingError, sandbox.read_file("none"), "a missing file")
    await raises(SandboxFileMissingError, sandbox.list_files("none"), "a missing folder")
    await sandbox.write_file("d/ten", b"0123456789")
    for path in ("../x", "/etc/passwd", "d/../../x", "", "a\0b"):
        await raises(SandboxPathError, sandbox.read_file(path), f"reading {path!r}")
        await raises(SandboxPathError, sandbox.write_file(path, b""), f"writing {path!r}")
        await raises(SandboxPathError, sandbox.remove_file(path), f"removing {path!r}")
    await raises(SandboxFileMissingError, sandbox.remove_file("none"), "removing a missing file")
    await raises(SandboxPathError, sandbox.remove_file("d"), "removing a folder")
    await raises(SandboxPathError, sandbox.read_file("d"), "reading a folder")
    await raises(SandboxFileTooLargeError, sandbox.read_file("d/ten", most=9), "a file above the cap")
    await raises(SandboxFileTooLargeError, sandbox.write_file("x", b"0" * 11), "content above the cap")


@FILE_PROMISES.of("copies of the files are copies")
async def _copies(sandbox: Sandbox) -> None:
    await sandbox.write_file("kept", b"old")
    snapshot = await sandbox.snapshot()
    other = await sandbox.fork("suite-copies-fork")
    try:
        await sandbox.write_file("kept", b"new")
        await sandbox.write_file("later", b"")
        require(await other.read_file("kept") == b"old", "a fork with its own files")
    finally:
        await other.aclose()
    await sandbox.restore(snapshot)
    await snapshot.aclose()
    require([row.path for row in await sandbox.list_files()] == ["kept"], "only old files")
    require(await sandbox.read_file("kept") == b"old", "the old content")


@FILE_PROMISES.of("a sandbox ends once, and says so afterwards")
async def _lifetime(sandbox: Sandbox) -> None:
    await sandbox.freeze()
    await raises(SandboxFrozenError, sandbox.exec("true"), "a command in a frozen sandbox")
    await sandbox.write_file("x", b"while frozen")
    await sandbox.thaw()
    await sandbox.thaw()
    await sandbox.exec("true")
    await raises(SandboxCommandError, sandbox.exec("a\0b"), "a command with a NUL")
    await raises(ValueError, sandbox.exec("true", time_limit=0), "no time at all")
    await sandbox.aclose()
    await sandbox.aclose()
    for name, attempt in {
        "exec": sandbox.exec("true"),
        "read_file": sandbox.read_file("x"),
        "write_file": sandbox.write_file("x", b""),
        "remove_file": sandbox.remove_file("x"),
        "list_files": sandbox.list_files(),
        "snapshot": sandbox.snapshot(),
        "fork": sandbox.fork("never"),
        "freeze": sandbox.freeze(),
        "restart": sandbox.restart(),
    }.items():
        await raises(SandboxClosedError, attempt, f"{name} after the end")


@SHELL_PROMISES.of("what the report claims is held")
async def _isolation(sandbox: Sandbox) -> None:
    broken = await check_isolation(sandbox)
    require(not broken, f"the report's claims to hold; broken: {broken}")


async def _other_sessions(backend: Backend) -> None:
    async with started(backend, "suite-one") as first, started(backend, "suite-other") as other:
        await first.write_file("secret", b"")
        await first.exec("cd /tmp 2>/dev/null; x=1; sleep 1000 &")
        # `kill -9 -1` hits every process that the command may signal.
        result = await other.exec("echo ${x-none}; ls; pkill -9 -f 'sleep 1000'; kill -9 -1")
        require(b"none" in result.stdout.kept, "variables of one's own")
        require(b"secret" not in result.stdout.kept, "files of one's own")
        # Without isolation, processes of one user can kill each other; the report says so.
        if first.report.strength:
            alive = await first.exec("jobs -r | wc -l")
            require(alive.stdout.text.strip() == "1", "processes that no stranger kills")


SHELL_PROMISES["two sessions are strangers"] = _other_sessions


@SHELL_PROMISES.of(
    "output is capped, counted and limited",
    Limits(keep_head_bytes=10, keep_tail_bytes=10, output_bytes=1 << 20),
)
async def _output_caps(sandbox: Sandbox) -> None:
    result = await sandbox.exec("seq 1000")
    require(result.stdout.total == len("".join(f"{n}\n" for n in range(1, 1001))), "every byte")
    require(result.stdout.head == b"1\n2\n3\n4\n5\n", "the first ten bytes")
    require(result.stdout.tail == b"\n999\n1000\n", "the last ten bytes")
    flood = await sandbox.exec("yes", time_limit=20)
    require(flood.killed is Killed.OUTPUT_LIMIT, f"the output limit, got {flood.killed}")
    await _require_alive(sandbox)


@SHELL_PROMISES.of("late output of background jobs comes apart")
async def _background(sandbox: Sandbox) -> None:
    first = await sandbox.exec("(sleep 0.3; echo LATE) & echo now")
    second = await sandbox.exec("sleep 0.8; echo mine")
    require(first.stdout.text == "now\n", "only the command's own output")
    require(second.stdout.text == "mine\n", "no late output among the next command's")
    require(second.background.text == "LATE\n", "late output apart")


@SHELL_PROMISES.of("a cancelled command leaves a free shell")
async def _cancellation(sandbox: Sandbox) -> None:
    with anyio.move_on_after(0.5):
        await sandbox.exec("kept=1; bash -c 'echo $$ >pid; exec sleep 1000'")
    left = await sandbox.exec('echo $kept; kill -0 "$(cat pid)" 2>/dev/null; echo $?')
    require(left.stdout.text.split() == ["1", "1"], f"a free shell, got {left.stdout.text!r}")


@SHELL_PROMISES.of("a session at its process limit is cleared", Limits(pids=40))
async def _process_limit(sandbox: Sandbox) -> None:
    await sandbox.write_file("kept", b"")
    result = await sandbox.exec("for i in {1..500}; do sleep 1000 & done; echo done", time_limit=20)
    require(result.killed is Killed.PROCESS_LIMIT, f"the process limit, got {result.killed}")
    require(result.shell_restarted, "a new shell, and word of it")
    require(await sandbox.read_file("kept") == b"", "files that stay")
    await _require_alive(sandbox)


@SHELL_PROMISES.of("a fork has the shell's state")
async def _forked_state(sandbox: Sandbox) -> None:
    await sandbox.exec('mkdir -p d; cd d; x=1; f() { echo f; }; echo h >"$HOME/h"')
    other = await sandbox.fork("suite-fork-other")
    try:
        result = await other.exec('echo $x; f; cat "$HOME/h"; echo ${PWD##*/}; touch new')
        require(result.stdout.text == "1\nf\nh\nd\n", f"the same state, got {result}")
        listed = [row.path for row in await sandbox.list_files("d")]
        require(listed == [], "a fork that leaves its parent alone")
    finally:
        await other.aclose()
    await sandbox.restart()
    require((await sandbox.exec("echo ${x-none}")).stdout.text == "none\n", "a restart forgets")


@SHELL_PROMISES.of("links and pipes lead nowhere")
async def _links(sandbox: Sandbox) -> None:
    await sandbox.exec("ln -s /etc/passwd out; ln -s / root; mkfifo pipe; echo in >plain; ln -s plain link")
    for path in ("out", "root/etc/passwd", "pipe", "root/proc/self/environ"):
        await raises(SandboxPathError, sandbox.read_file(path), f"reading {path}")
    for path in ("out", "root/x", "pipe"):
        await raises(SandboxPathError, sandbox.write_file(path, b"x"), f"writing {path}")
    for path in ("out", "root/etc/passwd", "pipe", "link"):
        await raises(SandboxPathError, sandbox.remove_file(path), f"removing {path}")
    require(await sandbox.read_file("link") == b"in\n", "a link that stays inside")


@SHELL_PROMISES.of("frozen processes stand still")
async def _frozen(sandbox: Sandbox) -> None:
    await sandbox.exec("while :; do echo x >>grows; sleep 0.01; done >/dev/null 2>&1 &")
    await sandbox.freeze()
    with anyio.move_on_after(0.2):
        await anyio.sleep_forever()  # writes that were under way have ended by now
    before = len(await sandbox.read_file("grows")) if await sandbox.list_files() else 0
    with anyio.move_on_after(0.2):
        await anyio.sleep_forever()
    after = len(await sandbox.read_file("grows")) if await sandbox.list_files() else 0
    require(before == after, f"a file that stands still, got {before} and {after} bytes")
    await sandbox.thaw()
    await _require_alive(sandbox)


async def _require_alive(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo alive", time_limit=20)
    require(result.stdout.text == "alive\n", f"a shell that answers, got {result}")

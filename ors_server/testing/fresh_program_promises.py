"""The promises of a sandbox about fresh programs, one check each; `sandbox_suite` runs them."""

import contextlib
import secrets
import socket
from pathlib import Path

import anyio

from ors_server.sandboxes.base import MIB, Sandbox
from ors_server.sandboxes.fresh import FreshRun
from ors_server.sandboxes.isolation_report import IsolatedResource, Strength
from ors_server.sandboxes.sandbox_errors import FreshEndedError, SandboxClosedError
from ors_server.testing.promises import raises
from ors_server.testing.sandbox_promises import SandboxPromises, require

_LIMIT = 20.0
_END_SECONDS = 5.0
"""Seconds in which a program must be gone after its end."""
_PAUSE = 0.02
_CLEAN = {"PATH", "LANG", "HOME", "TMPDIR"}
_BOOKKEEPING = {"PWD", "OLDPWD", "SHLVL", "_", "ORS_SANDBOX"}
"""Variables that a shell sets itself, and the one by which a server finds its processes."""

FRESH_PROMISES = SandboxPromises()
"""Promises that need programs to run."""


async def _shell(sandbox: Sandbox, script: str, **files: bytes) -> FreshRun:
    return await sandbox.run_fresh(["sh", "-c", script], files=files, time_limit=_LIMIT)


def _expect(run: FreshRun, stdout: str, expected: str, *, exit_code: int = 0) -> None:
    require(run.stdout.text == stdout and run.exit_code == exit_code, f"{expected}, got {run}")


def _tag() -> str:
    """Return an argument for `sleep` by which its process is found among all others."""
    return f"1000.{secrets.randbits(60)}"


def _is_running(tag: str) -> bool:
    """Return whether a process of this host has the tag as an argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if tag.encode() in path.read_bytes().split(b"\0"):
                return True
    return False


async def _require_gone(tag: str, expected: str) -> None:
    with anyio.move_on_after(_END_SECONDS):
        while _is_running(tag):  # noqa: ASYNC110 # no event reports the end of another's process
            await anyio.sleep(_PAUSE)
    require(not _is_running(tag), expected)


@FRESH_PROMISES.of("a fresh program has clean surroundings")
async def _surroundings(sandbox: Sandbox) -> None:
    await sandbox.exec("export LEAK=1; cd /; echo mine >$OLDPWD/seen")
    run = await sandbox.run_fresh(["env"], environment={"GIVEN": "a b"}, time_limit=_LIMIT)
    # A shell sets these itself.
    names = {line.partition("=")[0] for line in run.stdout.text.splitlines()} - _BOOKKEEPING
    require(names == {*_CLEAN, "GIVEN"}, f"a clean environment, got {sorted(names)}")
    _expect(await _shell(sandbox, "pwd; cat seen"), f"{sandbox.work_dir}\nmine\n", "the work dir")
    empty = await _shell(sandbox, 'ls -A "$TMPDIR"; echo x >"$TMPDIR/x" && cat "$HOME/x"')
    _expect(empty, "x\n", "its own empty writable folder")
    _expect(await _shell(sandbox, 'ls -A "$TMPDIR"'), "", "no traces of the program before")


@FRESH_PROMISES.of("a fresh program changes nothing of the agent's, and sees only the work dir")
async def _reach(sandbox: Sandbox) -> None:
    shown = await sandbox.exec('echo s >~/secret; echo s >"$TMPDIR/secret"; echo ~ "$TMPDIR"; echo f >file')
    home, temporary = shown.stdout.text.split()
    if not sandbox.report.isolates(IsolatedResource.FILES):
        return
    run = await _shell(sandbox, f"cat {home}/secret {temporary}/secret; echo x >{home}/x; echo x >new")
    require(not run.stdout.total, f"nothing of the agent's home and /tmp, got {run}")
    await _shell(sandbox, f"echo changed >file; rm file; mkdir d; chmod 777 file; mv file {home}")
    listed = [row.path for row in await sandbox.list_files()]
    require(listed == ["file"], f"a work dir that stays as it was, got {listed}")
    require(await sandbox.read_file("file") == b"f\n", "a file that cannot be changed")


@FRESH_PROMISES.of("a fresh program is confined")
async def _confined(sandbox: Sandbox) -> None:
    report = sandbox.report
    if report.strength:
        status = await _shell(sandbox, "grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status")
        words = status.stdout.text.split()[1::2]
        require(words == ["0" * 16, "1", "2"], f"no rights and a filter, got {words}")
    if report.strength >= Strength.NAMESPACES:
        run = await _shell(sandbox, "ls -d /proc/[0-9]* | wc -l")
        require(int(run.stdout.text or 99) < 10, "few processes in sight")  # noqa: PLR2004  (this play's own number)
    if report.isolates(IsolatedResource.NETWORK):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            # Bash's own `/dev/tcp`, as the sandbox may have no network program.
            knock = f"(exec 9<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}) 2>/dev/null; echo $?"
            run = await sandbox.run_fresh(["bash", "-c", knock], time_limit=_LIMIT)
        _expect(run, "1\n", "the host's loopback out of reach")


@FRESH_PROMISES.of("a fresh program's files are its own")
async def _given_files(sandbox: Sandbox) -> None:
    files = {"a/b/c.txt": b"\x00deep", "top": b"top"}
    paths = [f"{sandbox.fresh_dir}/{name}" for name in files]
    run = await sandbox.run_fresh(["cat", *paths], files=files, time_limit=_LIMIT)
    _expect(run, "\0deeptop", "the files' contents")
    seen = await sandbox.exec(f"cat {sandbox.fresh_dir}/top")
    require(not seen.stdout.total, "files that the agent does not see")
    other = await sandbox.run_fresh(["cat", paths[1]], files={"top": b"other"}, time_limit=_LIMIT)
    _expect(other, "other", "each program's own files")
    if sandbox.report.isolates(IsolatedResource.FILES):
        script = f"echo x >{sandbox.fresh_dir}/top; cat {sandbox.fresh_dir}/top"
        _expect(await _shell(sandbox, script, top=b"top"), "top", "files that cannot be changed")
    for name in ("/abs", "../up", "a/../../b", "", ".", "a//b", "a\0b"):
        await raises(ValueError, sandbox.start_fresh(["true"], files={name: b""}), f"a file {name!r}")
    await raises(ValueError, sandbox.start_fresh([]), "no program at all")
    await raises(ValueError, sandbox.start_fresh(["true"], environment={"A=B": ""}), "a bad variable")


@FRESH_PROMISES.of("a fresh program's results are exact")
async def _results(sandbox: Sandbox) -> None:
    _expect(await _shell(sandbox, "exit 7"), "", "the status", exit_code=7)
    _expect(await _shell(sandbox, "kill -9 $$"), "", "128 and the signal", exit_code=137)
    _expect(await _shell(sandbox, "kill -ABRT $$"), "", "128 and the signal", exit_code=134)
    missing = await sandbox.run_fresh(["no-such-program"], time_limit=_LIMIT)
    _expect(missing, "", "127 for a missing program", exit_code=127)
    both = await _shell(sandbox, "echo out; echo err >&2")
    require((both.stdout.text, both.stderr.text) == ("out\n", "err\n"), "both streams apart")
    fed = await sandbox.run_fresh(["wc", "-c"], stdin=b"x" * MIB, time_limit=_LIMIT)
    _expect(fed, f"{MIB}\n", "all of the input")
    unread = await sandbox.run_fresh(["true"], stdin=b"x" * MIB, time_limit=_LIMIT)
    _expect(unread, "", "a program that need not read its input")
    await raises(ValueError, sandbox.run_fresh(["true"], time_limit=0), "no time at all")


@FRESH_PROMISES.of("a fresh program is held by its limits")
async def _limits(sandbox: Sandbox) -> None:
    tag = _tag()
    late = await sandbox.run_fresh(["sh", "-c", f"echo early; sleep {tag}"], time_limit=2.0)
    require(
        (late.timed_out, late.exit_code, late.stdout.text) == (True, None, "early\n"),
        f"a time limit that leaves the partial output, got {late}",
    )
    await _require_gone(tag, "a program that is dead once its time is over")
    flood = await sandbox.run_fresh(["yes"], time_limit=_LIMIT, output_bytes=100_000)
    require(flood.output_limit and flood.exit_code is None, f"an output limit, got {flood}")
    require(len(flood.stdout.head) == 100_000, "all output up to the limit")  # noqa: PLR2004  (this play's own number)
    both = await sandbox.run_fresh(
        ["sh", "-c", "seq 200000; cat"], stdin=b"z" * MIB, time_limit=_LIMIT, output_bytes=4 * MIB
    )
    require(both.stdout.kept.endswith(b"z" * MIB), f"no deadlock of two full pipes, got {both}")


@FRESH_PROMISES.of("a fresh program runs while the sandbox is frozen")
async def _while_frozen(sandbox: Sandbox) -> None:
    await sandbox.exec("echo here >file; while :; do sleep 0.05; done & for i in 1 2 3; do sleep 1000 & done")
    await sandbox.freeze()
    _expect(await _shell(sandbox, "cat file"), "here\n", "a program that runs while others are frozen")
    await sandbox.thaw()
    # A shell learns that a job continues once the job does, which may be a moment after the thaw.
    alive = await sandbox.exec(
        "for i in {1..100}; do (( $(jobs -rp | wc -l) == 4 )) && break; sleep 0.05; done; jobs -l; "
        "jobs -rp | wc -l"
    )
    require(alive.stdout.text.endswith("\n4\n"), f"the agent's jobs unharmed, got {alive}")


@FRESH_PROMISES.of("a fresh program ends with its caller")
async def _ends(sandbox: Sandbox) -> None:
    daemon, cancelled, orphan = _tag(), _tag(), _tag()
    run = await _shell(sandbox, f"(setsid sleep {daemon} &) >/dev/null 2>&1; echo on")
    _expect(run, "on\n", "a program that leaves a daemon behind")
    await _require_gone(daemon, "no daemon that outlives its program")
    with anyio.move_on_after(0.3):
        await sandbox.run_fresh(["sleep", cancelled], time_limit=_LIMIT)
    await _require_gone(cancelled, "no program that outlives its caller")
    process = await sandbox.start_fresh(["sleep", orphan])
    await sandbox.aclose()
    await _require_gone(orphan, "no program that outlives its sandbox")
    require(await process.receive() == b"", "the end of its output")
    await raises(SandboxClosedError, process.wait(), "waiting for a program whose sandbox is closed")
    await raises(SandboxClosedError, sandbox.start_fresh(["true"]), "start_fresh after the end")
    await process.aclose()


@FRESH_PROMISES.of("a fresh program can be talked with")
async def _talk(sandbox: Sandbox) -> None:
    process = await sandbox.start_fresh(["sh", "-c", "while read x; do echo $x $x; done; echo e >&2; exit 3"])
    try:
        for word in ("one", "two"):
            await process.send(f"{word}\n".encode())
            line = await process.receive()
            require(line == f"{word} {word}\n".encode(), f"an answer at once, got {line!r}")
        await process.close_stdin()
        await process.close_stdin()
        require(await process.receive() == b"", "the end of its output")
        require(await process.wait() == 3, "its status")  # noqa: PLR2004 # the script's
        require(process.stderr.text == "e\n", "its standard error")
        await raises(FreshEndedError, process.send(b"x"), "sending after the end")
    finally:
        await process.aclose()
        await process.aclose()

import contextlib
import errno
import os
import signal
import subprocess
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ors_server.processes.host_processes import NICENESS, descendants, is_zombie
from ors_server.sandboxes.cells.fresh_process import GuardianOptions, HostedProcess
from ors_server.sandboxes.fresh import run_to_end
from ors_server.sandboxes.sandbox_errors import (
    FreshEndedError,
    SandboxClosedError,
    SandboxError,
    SandboxStartError,
)

WORKS = 'echo "{\\"exit-code\\": $?}" >&$STATUS'


def guardian(script, ends, *, leads_session=False, **variables):
    """A guardian in shell, which tells on the status pipe whatever the test wants told."""
    return subprocess.Popen(
        ["/bin/bash", "-c", script],
        stdin=ends.stdin,
        stdout=ends.stdout,
        stderr=ends.stderr,
        pass_fds=[ends.status],
        env={"PATH": "/usr/bin:/bin", "STATUS": str(ends.status), **variables},
        start_new_session=leads_session,
    )


@asynccontextmanager
async def started(script, options=None, *, leads_session=False):
    spawn = partial(guardian, script, leads_session=leads_session)
    process = HostedProcess(spawn, options or GuardianOptions())
    try:
        with anyio.fail_after(20):
            yield process
    finally:
        await process.aclose()


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def ended(script):
    """The exit status that a process says whose guardian runs a script."""
    async with started(script) as process:
        return await process.wait()


async def test_the_status_is_what_the_guardian_tells_and_not_its_own():
    assert await ended('echo "{\\"exit-code\\": 7}" >&$STATUS; exit 3') == 7


async def test_a_guardian_that_tells_nothing_never_ran_the_program():
    with pytest.raises(SandboxStartError, match=r"could not be started.*no such namespace"):
        await ended("echo no such namespace >&2; exit 1")


async def test_child_of_a_guardian_that_died_while_it_started_does_not_hold_the_output():
    async with started("sleep 1000 & kill -9 $$", leads_session=True) as process:
        assert await process.receive() == b""
        with pytest.raises(SandboxError, match="killed from outside"):
            await process.wait()


async def test_a_failure_that_is_told_beats_a_status():
    with pytest.raises(SandboxStartError, match="rules refused"):
        await ended("echo rules refused >&2; " + f'echo "{{\\"failure\\": true}}" >&$STATUS; {WORKS}')


async def test_nonsense_on_the_status_pipe_is_no_status():
    with pytest.raises(SandboxStartError):
        await ended("echo nonsense >&$STATUS")


@pytest.mark.parametrize(
    ("words", "status"), [("No such file or directory", 127), ("Permission denied", 126)]
)
async def test_a_program_that_cannot_be_executed_has_the_status_that_a_shell_gives(words, status):
    assert await ended(f"echo 'bwrap: execvp x: {words}' >&2; exit 1") == status


async def test_a_guardian_that_somebody_kills_is_no_status():
    with pytest.raises(SandboxError, match="killed from outside"):
        await ended("kill -9 $$")


async def test_a_program_is_talked_with():
    async with started(f"while read x; do echo got $x; done; echo done >&2; {WORKS}") as process:
        await process.send(b"one\n")
        assert await process.receive() == b"got one\n"
        await process.close_stdin()
        assert await process.wait() == 0
        assert await process.receive() == b""
        assert process.stderr.text == "done\n"
        with pytest.raises(FreshEndedError, match="closed"):
            await process.send(b"more")


async def test_input_that_nobody_reads_any_more_is_refused():
    async with started("exec 0<&-; echo x; sleep 60") as process:
        assert await process.receive() == b"x\n"
        with pytest.raises(FreshEndedError, match="does not read"):
            await process.send(b"z" * 1_000_000)


async def test_both_pipes_may_be_full_at_once():
    async with started(f"head -c 1000000 /dev/zero; cat; {WORKS}") as process:
        run = await run_to_end(process, b"i" * 1_000_000, time_limit=20, output_bytes=3_000_000)
    assert (run.exit_code, run.stdout.total) == (0, 2_000_000)


async def test_standard_error_is_kept_at_both_ends():
    async with started(f"seq 1000 >&2; {WORKS}", GuardianOptions(keep_bytes=(4, 4))) as process:
        await process.wait()
        stderr = process.stderr
    assert (stderr.head, stderr.tail, stderr.total) == (b"1\n2\n", b"000\n"[-4:], 3893)


async def test_a_kill_takes_the_children_along_and_leaves_a_status():
    async with started("sleep 1000 & echo up; wait") as process:
        assert await process.receive() == b"up\n"
        family = descendants(process.pid)
        assert len(family) == 2
        await process.aclose()
        await process.aclose()
        assert await process.wait() == 137
        with anyio.fail_after(10):  # a process that was killed dies when it is next scheduled
            while not all(is_zombie(pid) for pid in family):
                await anyio.lowlevel.checkpoint()


async def test_a_guardian_may_end_things_itself():
    script = 'trap "exit 0" TERM; echo up; while :; do read -t 1 <>/dev/zero; done'
    async with started(script, GuardianOptions(ending=signal.SIGTERM)) as process:
        assert await process.receive() == b"up\n"
        await process.aclose()
        assert (process.stderr.text, descendants(process.pid)) == ("", [])


async def test_who_waits_when_the_sandbox_closes_is_told_so():
    async with started("sleep 1000") as process, anyio.create_task_group() as group:

        async def closing():
            await process.end_with_sandbox()

        group.start_soon(closing)
        with pytest.raises(SandboxClosedError):
            await process.wait()


async def test_what_is_done_at_the_end_is_done_once():
    ends: list[HostedProcess] = []
    async with started(WORKS, GuardianOptions(on_end=ends.append)) as process:
        await process.wait()
        assert ends == []
        await process.aclose()
        await process.aclose()
    assert len(ends) == 1


@pytest.mark.parametrize("fault", ["spawn", "hold", "pipe"])
def test_a_start_that_fails_leaves_no_descriptor(fault, monkeypatch):
    started = []

    def spawn(ends):
        if fault == "spawn":
            raise OSError(errno.EAGAIN, "no process")
        process = guardian("sleep 1000", ends)
        started.append(process)
        return process

    def refuse(*_arguments):
        raise OSError(errno.EMFILE, "no descriptor")

    async def run():
        before = open_descriptors()
        if fault == "hold":
            monkeypatch.setattr(os, "pidfd_open", refuse)
        if fault == "pipe":
            monkeypatch.setattr(os, "pipe", refuse)
        with pytest.raises(SandboxStartError, match="cannot be started"):
            HostedProcess(spawn, GuardianOptions())
        monkeypatch.undo()
        assert open_descriptors() == before

    anyio.run(run)
    assert all(process.returncode == -9 for process in started)


@pytest.mark.parametrize("lowered", [0, 4])
async def test_a_program_and_what_it_starts_come_after_the_server(lowered):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    script = f"read line; sleep 60 & echo there; wait; {WORKS}"
    os.setpriority(os.PRIO_PROCESS, 0, own + lowered)
    try:
        async with started(script) as process:
            await process.send(b"\n")
            assert await process.receive() == b"there\n"
            niceness = [os.getpriority(os.PRIO_PROCESS, pid) for pid in descendants(process.pid)]
        assert niceness == [min(19, own + lowered + NICENESS)] * 2
    finally:
        with contextlib.suppress(PermissionError):  # only root may go back
            os.setpriority(os.PRIO_PROCESS, 0, own)


async def test_its_use_of_the_processor_is_known_with_that_of_its_ended_children():
    burn = "for ((i = 0; i < 200000; i++)); do :; done"
    async with started(f'(exec bash -c "{burn}"); {burn}; echo there; sleep 60; {WORKS}') as process:
        assert await process.receive() == b"there\n"
        usage = process.usage()
    assert usage.processor_s > usage.ended_s > 0
    assert usage.delays


async def test_after_its_end_nothing_is_known_of_it():
    async with started(WORKS) as process:
        await process.wait()
        assert process.usage() is None

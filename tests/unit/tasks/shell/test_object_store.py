"""What git and find spend on an agent's files counts, and not what the machine keeps them waiting."""

import time

import anyio
import pytest

from ors_server import Evidence, FreshRun
from ors_server.sandboxes.captured_output import Output
from ors_server.sandboxes.fresh import FreshProcess
from ors_server.sandboxes.processor_usage import ProcessorUsage
from ors_server.sandboxes.sandbox_errors import SandboxStarvedError
from ors_server_tasks.shell import object_store
from ors_server_tasks.shell.generator import generate
from ors_server_tasks.shell.grading import find_faults
from ors_server_tasks.shell.object_store import ObjectStore
from ors_server_tasks.shell.repository import oid_of

SHORT = 0.2
"""Seconds: less than what the git of these tests takes."""


class SlowGit(FreshProcess):
    """A git that answers at last, and did not run meanwhile."""

    stderr = Output()

    def usage(self):
        return ProcessorUsage(0.0, 0.0, {(2, 30): time.monotonic()})

    async def send(self, data):
        pass

    async def receive(self, max_bytes=65536):
        await anyio.sleep(3 * SHORT)  # real time has to pass for a clock that must not count it
        return f"{oid_of('tree', b'')} tree 0\n\n".encode()

    async def close_stdin(self):
        pass

    async def wait(self):
        return 0

    async def aclose(self):
        pass


class SlowSandbox:
    """Starts such a git; or none of them can run, so often as is said."""

    fresh_dir, work_dir, gate = "/grader", "/work", None

    def __init__(self, starved=0):
        self.starved = starved
        self.started = 0

    async def start_fresh(self, argv, **rest):
        if self.starved:
            self.starved -= 1
            raise SandboxStarvedError("the machine is too busy")
        self.started += 1
        return SlowGit()


async def test_a_git_that_the_machine_gives_no_processor_is_waited_for(monkeypatch):
    monkeypatch.setattr(object_store, "TIME_LIMIT", SHORT)
    sandbox = SlowSandbox()
    async with ObjectStore.open(Evidence(sandbox), "repo/.git/objects"):
        assert sandbox.started == 1


async def test_a_store_is_read_once_more_on_a_machine_that_was_too_busy():
    async def look(evidence):
        async with ObjectStore.open(evidence, "repo/.git/objects") as store:
            return await store.read(oid_of("tree", b""))

    evidence = Evidence(SlowSandbox(starved=1))
    assert await evidence.look_patiently(lambda: look(evidence)) == ("tree", b"")
    evidence = Evidence(SlowSandbox(starved=2))
    with pytest.raises(SandboxStarvedError):
        await evidence.look_patiently(lambda: look(evidence))


class Searched:
    """Evidence over so much that looking at it takes all the time that there is."""

    async def run(self, argv, **rest):
        return FreshRun(None, Output(), Output(), timed_out=True, output_limit=False, duration_s=30.0)


async def test_a_work_dir_that_takes_too_long_to_look_at_is_far_more_than_was_asked_for():
    assert await find_faults(Searched(), generate("shell-1", "train", 0)) == [
        "the work dir holds far more than was asked for"
    ]

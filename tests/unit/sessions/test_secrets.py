"""The values of a session's secrets are in no log and no recorded or answered message of an exception."""

import gc
import io
import json
import logging

import pytest

from ors_server import Environment, ToolError, ToolOutput, tool
from ors_server.model.errors import EnvironmentFailedError, OrsServerError
from ors_server.model.logs import ROOT, SecretValues, configure, secret_values
from ors_server.sessions.session_request import ForkRequest
from ors_server.testing import open_environment

KEY = "sk-live-0123456789"
LONGER = f"{KEY}-and-more"


def judge(final_response, trajectory):
    raise ConnectionError(f"401 for {final_response}")


class Leaky(Environment):
    """Raises what it has been trusted with."""

    reward = judge

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "a", "breaks": ""}, {"id": "b", "breaks": "setup"}, {"id": "c", "breaks": "teardown"}]

    def get_prompt(self):
        return "Call."

    def setup(self):
        if self.task_spec["breaks"] == "setup":
            raise ValueError(f"no access with {self.secrets['KEY']}")

    def teardown(self):
        if self.task_spec["breaks"] == "teardown":
            raise ValueError(f"no access with {self.secrets['KEY']}")

    def save_state(self):
        return {}

    async def load_state(self, state):
        pass

    @tool
    async def fail(self, kind: str) -> ToolOutput:
        """Fail."""
        key = self.secrets["KEY"]
        if kind == "raise":
            try:
                {}[key]
            except KeyError as error:
                raise ValueError(f"GET https://host/?key={key} failed") from error
        if kind == "tool":
            raise ToolError(f"wrong key {key}")
        if kind == "server":
            raise OrsServerError(f"wrong key {key}")
        return ToolOutput.final("done", reward=None)

    @tool
    async def land(self, answer: str) -> ToolOutput:
        """End the episode, which the class's reward judges."""
        return ToolOutput.final("down", reward=None)


@pytest.fixture
def printed():
    """Gives everything that this process logs, as it is printed."""
    stream = io.StringIO()
    root, level = logging.getLogger(), logging.getLogger(ROOT).level
    before, root_level = list(root.handlers), root.level
    configure(form="json", level="debug", stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(root_level)
    logging.getLogger(ROOT).setLevel(level)


@pytest.mark.parametrize("key", [KEY, LONGER])
@pytest.mark.parametrize("kind", ["raise", "tool", "server"])
async def test_what_a_tool_raises_is_recorded_and_logged_without_secrets(printed, kind, key):
    async with open_environment(Leaky) as client:
        session = await client.create(split="train", index=0, secrets={"KEY": key, "OTHER": KEY})
        answer = await client.engine.find(session.id).call("fail", {"kind": kind})
        result = await answer.wait()
        text = str(getattr(result, "error", "")) + str(getattr(result, "output", ""))
        (step,) = await session.steps()
        record = json.dumps([step.error, [block.text for block in step.blocks], dict(step.metadata or {})])
    for shown in (text, record, printed.getvalue()):
        assert KEY not in shown
    assert "[redacted]" in record
    if kind == "raise":
        assert "[redacted]" in printed.getvalue()
        assert '"tool_failed"' in printed.getvalue()


async def test_what_a_reward_setup_or_teardown_raises_is_without_secrets(printed):
    async with open_environment(Leaky) as client:
        session = await client.create(split="train", index=0, secrets={"KEY": KEY})
        call = await client.engine.find(session.id).call("land", {"answer": KEY})
        await call.wait()
        (step,) = await session.steps()
        assert step.metadata["reward_status"] == "error"
        assert "401 for [redacted]" in step.metadata["reward_reason"]
        broken = await client.create(split="train", index=1, secrets={"KEY": KEY})
        with pytest.raises(EnvironmentFailedError, match=r"no access with \[redacted\]"):
            await broken.prompt()
        await client.create(split="train", index=2, secrets={"KEY": KEY})
    assert printed.getvalue().count("no access with [redacted]") >= 2
    assert KEY not in printed.getvalue()


async def test_a_fork_has_the_secrets_too(printed):
    async with open_environment(Leaky) as client:
        session = await client.create(split="train", index=0, secrets={"KEY": KEY})
        (fork,) = await client.engine.fork(session.id, ForkRequest())
        call = await client.engine.find(fork.origin.session_id).call("fail", {"kind": "raise"})
        assert "[redacted]" in str((await call.wait()).error)
    assert KEY not in printed.getvalue()


@pytest.mark.usefixtures("quick_collections")
async def test_secrets_are_forgotten_with_their_sessions():
    async with open_environment(Leaky) as client:
        await client.create(split="train", index=0, secrets={"KEY": "only-of-this-test"})
        assert secret_values.mask("only-of-this-test") == "[redacted]"
    del client
    gc.collect()
    assert secret_values.mask("only-of-this-test") == "only-of-this-test"


def test_equal_values_of_two_owners_are_masked_until_both_are_gone():
    class Owner:
        pass

    values, first, second = SecretValues(), Owner(), Owner()
    values.keep(first, ["abcdef", "abcdefgh", "short"])
    values.keep(second, ["abcdef"])
    assert values.mask("short abcdefgh abcdef") == "short [redacted] [redacted]"
    del first
    assert values.mask("abcdefgh") == "[redacted]gh"
    del second
    assert values.mask("abcdefgh") == "abcdefgh"

"""What of an output an agent sees."""

import itertools

import pytest

from ors_server import ToolOutput, Visibility
from ors_server.doors.access import Caller, Role, may_see_rewards, redact

OUTPUT = ToolOutput.final("shown", reward=0.5, metadata={"answer": 42})


@pytest.mark.parametrize(("role", "visibility"), list(itertools.product(Role, Visibility)), ids=str)
def test_only_an_agent_without_sight_of_rewards_gets_less(role, visibility):
    caller = Caller(role)
    seen = redact(OUTPUT, caller, visibility)
    if role is Role.AGENT and visibility is not Visibility.VISIBLE:
        assert not may_see_rewards(caller, visibility)
        assert (seen.reward, seen.metadata) == (None, None)
    else:
        assert seen is OUTPUT
    assert (seen.blocks, seen.finished) == (OUTPUT.blocks, True)

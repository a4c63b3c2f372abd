"""The word for how a call ended, by which calls are counted and spans are named."""

import pytest

from ors_server.model.trajectory import StepStatus
from ors_server.sessions.call_meters import outcome_of
from tests.fixtures.console_record import step


@pytest.mark.parametrize("reward", [None, -0.05])
@pytest.mark.parametrize("code", ["tool_error", "timeout", "forbidden"])
def test_an_error_that_is_charged_for_is_an_error(code, reward):
    status = StepStatus.UNGRADED if reward is None else StepStatus.GRADED
    assert outcome_of(step(1, "press", {}, reward=reward, status=status, error_code=code)) == code


@pytest.mark.parametrize("status", list(StepStatus))
def test_other_calls_have_the_word_of_their_status(status):
    assert outcome_of(step(1, "press", {}, status=status, error_code=None)) == status.value

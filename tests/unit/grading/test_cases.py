"""Cases and reports are data that cannot be nonsense."""

import pytest

from ors_server.grading.cases import CaseReport, CaseResult, FunctionCase, TimeLimits, name_cases
from ors_server.grading.channel import MAX_MESSAGE, AgentChannel, ChannelError, frame, payload_length
from ors_server.grading.grading_errors import GraderFailedError, GradingError
from ors_server.model.errors import Blame


def test_a_report_counts():
    report = CaseReport((CaseResult("a", passed=True), CaseResult("b", passed=False, reason="x")))
    assert (report.total, report.passed, report.fraction, report.is_perfect) == (2, 1, 0.5, False)
    assert CaseReport((CaseResult("a", passed=True),)).is_perfect


def test_there_is_no_report_of_nothing():
    with pytest.raises(GradingError, match="at least one"):
        CaseReport(())


@pytest.mark.parametrize("limits", [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_time_limits_are_above_nothing(limits):
    with pytest.raises(GradingError, match="above 0"):
        TimeLimits(*limits)


def test_cases_are_numbered_where_they_have_no_name():
    assert name_cases([FunctionCase(), FunctionCase(name="x"), FunctionCase()]) == ["case 1", "x", "case 3"]


def test_a_failure_to_judge_blames_the_author_or_the_machinery_and_never_the_agent():
    assert (GradingError.blame, GraderFailedError.blame) == (Blame.AUTHOR, Blame.MACHINERY)


@pytest.mark.parametrize("header", [b"", b"x" * 40, b"t" * 32 + b"-0000001", b"t" * 32 + b"ffffffff"])
def test_a_header_that_is_none_is_refused(header):
    with pytest.raises(ChannelError):
        payload_length(header)


def test_a_message_of_another_tag_or_too_long_is_refused():
    tag = b"t" * 32
    assert payload_length(frame(tag, b"xyz")[:40], tag) == 3
    with pytest.raises(ChannelError, match="something else"):
        payload_length(frame(b"u" * 32, b"xyz")[:40], tag)
    with pytest.raises(ChannelError, match="more than"):
        AgentChannel(0, 1).send(b"x" * (MAX_MESSAGE + 1))

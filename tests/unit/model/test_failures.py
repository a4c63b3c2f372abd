"""What failed in an episode: a table, derived from its figures alone."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ors_server.client import Summary
from ors_server.client.client_errors import UnjudgedError, UnreachableError
from ors_server.model.errors import (
    CapacityError,
    EnvironmentFailedError,
    InvalidRequestError,
    UnauthenticatedError,
)
from ors_server.model.failures import (
    FAILURES,
    FailureKind,
    FailureStage,
    StatedSummary,
    failure_of,
    failure_of_creation,
)
from ors_server.model.trajectory import EpisodeSummary

THEN = datetime(2026, 11, 1, tzinfo=UTC)
PLAYED = EpisodeSummary(
    phase="finished",
    steps=2,
    episode_return=0.5,
    last_reward=0.5,
    stop_reason="completed",
    created_at=THEN,
    started_at=THEN,
)
UNSET = replace(PLAYED, phase="deleted", steps=0, episode_return=0.0, last_reward=None, started_at=None)
DOCUMENT = Path(__file__).parents[3] / "docs" / "client.md"


@pytest.mark.parametrize(
    ("summary", "kind"),
    [
        (PLAYED, "none"),
        (replace(PLAYED, phase="deleted"), "none"),
        (replace(PLAYED, stop_reason="step_limit", last_reward=None, episode_return=0.0), "none"),
        (replace(PLAYED, stop_reason="blocked"), "none"),
        (replace(PLAYED, last_reward=None), "ungraded"),
        (replace(PLAYED, unjudged_steps=1), "judgement_failed"),
        (replace(PLAYED, unjudged_steps=1, last_reward=None), "judgement_failed"),
        (replace(PLAYED, unjudged_steps=1, stop_reason="deleted"), "judgement_failed"),
        (replace(PLAYED, failed_steps=1), "step_failed"),
        (replace(PLAYED, failed_steps=1, stop_reason="failed"), "environment_failed"),
        (replace(PLAYED, stop_reason="failed"), "environment_failed"),
        (replace(PLAYED, stop_reason="deleted"), "abandoned"),
        (replace(PLAYED, stop_reason="expired"), "expired"),
        (replace(PLAYED, stop_reason="shutdown"), "server_stopped"),
        (replace(PLAYED, stop_reason="interrupted"), "interrupted"),
        (replace(UNSET, stop_reason="failed"), "setup_failed"),
        (replace(UNSET, stop_reason="deleted"), "not_started"),
        (replace(UNSET, stop_reason="shutdown"), "not_started"),
    ],
)
def test_an_ended_episode_has_one_kind(summary, kind):
    failure = failure_of(summary)
    assert failure is not None
    assert failure.kind == kind
    assert failure.valid is (kind == "none")
    assert StatedSummary.of(summary).failure == failure


def test_an_open_episode_has_none():
    assert failure_of(replace(PLAYED, phase="playing", stop_reason=None)) is None
    assert StatedSummary.of(replace(PLAYED, stop_reason=None)).failure is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequestError("x"), "refused"),
        (UnauthenticatedError("x"), "refused"),
        (CapacityError("x"), "no_capacity"),
        (UnreachableError("x"), "no_capacity"),
        (EnvironmentFailedError("x"), "setup_failed"),
    ],
)
def test_a_session_that_could_not_be_created_has_a_kind_too(error, kind):
    failure = failure_of_creation(error)
    assert failure.kind == kind
    assert failure.retry is (kind != "refused")
    assert (failure.terminal, failure.grade, failure.valid) == (True, False, False)


def test_the_table_has_every_kind_and_every_stage_and_only_plain_words():
    assert set(FAILURES) == set(FailureKind)
    assert {failure.stage for failure in FAILURES.values()} == {None, *FailureStage}
    assert all(failure.kind is kind for kind, failure in FAILURES.items())
    assert all(re.fullmatch(r"[a-z_]+", kind) for kind in FailureKind)


def test_the_documented_table_is_the_table():
    section = DOCUMENT.read_text().partition("### What failed")[2].partition("\n### ")[0]
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:7]]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    said = {True: "yes", False: "no"}
    assert rows == [
        [
            failure.kind,
            failure.stage or "-",
            said[failure.terminal],
            said[failure.retry],
            said[failure.grade],
            said[failure.valid],
        ]
        for failure in FAILURES.values()
    ]


def shown(**figures):
    """The figures as a client has them."""
    return Summary.of(
        {"session_id": "s", "environment": "e", "episode": {**PLAYED.as_json(), "return": 0.5, **figures}}
    )


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"unjudged_steps": 1}, "a judgement failed in 1 of 2 steps"),
        ({"failed_steps": 1}, "step_failed: the environment's own code failed"),
        ({"failed_steps": 1, "stop_reason": None, "phase": "playing"}, "step_failed: the environment's own"),
        ({"stop_reason": "failed", "phase": "failed"}, "environment_failed: the environment's own"),
        ({"last_reward": None}, "the environment ended the episode without a reward"),
        ({"stop_reason": "expired", "phase": "expired"}, "expired: the episode ended as expired"),
    ],
)
def test_a_client_says_in_words_why_a_return_is_invalid(figures, words):
    summary = shown(**figures)
    assert words in (summary.why_invalid or "")
    with pytest.raises(UnjudgedError, match=words.split(":")[0]):
        summary.check_valid()


def test_a_client_takes_an_open_episode_for_one_that_its_agent_gave_up():
    summary = shown(stop_reason=None, phase="playing", last_reward=None)
    assert summary.why_invalid is None
    assert summary.failure is None
    summary.check_valid()

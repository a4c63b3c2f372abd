"""The record's figures as JSON."""

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from ors_server.model.trajectory import EpisodeOrigin, EpisodeSummary, Step, StepStatus

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SUMMARY = EpisodeSummary(
    phase="finished",
    steps=2,
    episode_return=0.5,
    reward_sum=1.0,
    penalty_sum=-0.5,
    penalties={"overlong": -0.5},
    discounted_return=0.5,
    last_reward=0.5,
    best_reward=1.0,
    ungraded_steps=0,
    failed_steps=0,
    stop_reason="completed",
    created_at=MOMENT,
    started_at=MOMENT,
    last_call_at=None,
    finished_at=MOMENT,
)


def test_every_figure_is_stated_and_times_are_iso_8601():
    stated = SUMMARY.as_json()
    names = {"return" if field.name == "episode_return" else field.name for field in fields(EpisodeSummary)}
    assert set(stated) == names
    assert stated["created_at"] == "2026-01-01T00:00:00+00:00"
    assert stated["last_call_at"] is None
    assert stated["return"] == 0.5


def step(reward, **components):
    return Step(
        number=1,
        call_id="c",
        tool="t",
        arguments={},
        status=StepStatus.GRADED,
        blocks=(),
        reward=reward,
        components=components,
        finished=False,
        error=None,
        error_code=None,
        metadata=None,
        started_at=MOMENT,
        duration=0.0,
    )


@pytest.mark.parametrize(
    ("recorded", "earned"),
    [
        (step(0.7, tool=1.0, overlong=-0.3), 0.7),
        (step(None), None),
        (step(None, tool=1.0, overlong=-0.25), 0.75),
        (step(1.5, tool=1.0, withheld=0.5), 1.0),
        (step(0.5, withheld=0.5), None),
    ],
    ids=["paid", "nothing", "held", "paying for others too", "paying for others only"],
)
def test_what_a_step_came_to_is_known_whenever_it_was_paid(recorded, earned):
    assert recorded.earned == earned


def test_the_repr_of_an_origin_does_not_show_the_task():
    origin = EpisodeOrigin("s", "e", "1", "0", {"answer": "forty-two"}, "hash", None, None, MOMENT, {})
    assert "forty-two" not in repr(origin)

"""The record's figures as JSON."""

from dataclasses import fields
from datetime import UTC, datetime

from ors_server.trajectory import EpisodeOrigin, EpisodeSummary, summary_as_json

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
    stated = summary_as_json(SUMMARY)
    names = {"return" if field.name == "episode_return" else field.name for field in fields(EpisodeSummary)}
    assert set(stated) == names
    assert stated["created_at"] == "2026-01-01T00:00:00+00:00"
    assert stated["last_call_at"] is None
    assert stated["return"] == 0.5


def test_the_repr_of_an_origin_does_not_show_the_task():
    origin = EpisodeOrigin("s", "e", "1", "0", {"answer": "forty-two"}, "hash", None, None, MOMENT, {})
    assert "forty-two" not in repr(origin)

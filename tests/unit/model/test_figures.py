"""Every figure of an episode reaches everything that states figures: one that is left out fails here."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from ors_server.cli.episodes_show import summary_lines
from ors_server.client.session_summary import Summary
from ors_server.doors.control.episodes import EpisodeEntry
from ors_server.doors.control.models import SessionView
from ors_server.export.plain import episode_rows
from ors_server.export.tables import EPISODES
from ors_server.model.episode import EpisodeState, Metric, Phase, StopReason
from ors_server.model.failures import StatedSummary
from ors_server.model.policy import EpisodePolicy, PenaltyCause
from ors_server.model.recording import SUMMARY
from ors_server.model.trajectory import (
    FIGURES,
    STEP_COUNTS,
    STEP_MAXIMA,
    EpisodeRecord,
    EpisodeSummary,
    first_summary,
    summarise,
)
from ors_server.recovery.recorded_state import over_state, playable_state
from ors_server.testing import FakeClock
from ors_server.testing.store_promises import make_origin, make_step

NAMES = [field.name for field in fields(EpisodeSummary)]
SHOWN_ELSEWHERE = {"created_at", "last_call_at"}
"""In the header of an episode, and with its last step."""
WORDS_OF_ROWS = {"episode_return": "return"}
ORIGIN = make_origin(1)
FIRST = first_summary(ORIGIN)
PLAYED = EpisodeState(
    created_at=5.0,
    phase=Phase.FAILED,
    steps=2,
    episode_return=1.0,
    discounted_return=0.9,
    withheld=0.25,
    reward_sum=1.5,
    penalties={PenaltyCause.OVERLONG: -0.5},
    last_reward=0.4,
    best_reward=0.6,
    metrics={"length": Metric.of(3.0)},
    started_at=6.0,
    last_call_at=7.0,
    finished_at=8.0,
    stop_reason=StopReason.FAILED,
    **dict.fromkeys(STEP_COUNTS, 1),
)


def changed(name):
    """Return the first summary with another value of one figure."""
    value = getattr(FIRST, name)
    if isinstance(value, str) or name == "stop_reason":
        value = "failed"
    elif name.endswith("_at"):
        value = (value or datetime(2026, 5, 1, tzinfo=UTC)) + timedelta(days=1)
    elif name in {"penalties", "metrics"}:
        value = {"overlong": -7.0}
    else:
        value = (value or 0) + 7
    return replace(FIRST, **{name: value})


def lines(summary):
    return list(summary_lines(summary, is_closed=True))


def test_the_table_has_every_figure_and_no_other():
    assert list(FIGURES) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name != "created_at"])
def test_the_state_fills_every_figure(name):
    assert getattr(summarise(ORIGIN, PLAYED), name) != getattr(FIRST, name), f"PLAYED needs {name}, too"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "metrics"])
def test_an_episode_that_is_over_states_every_figure_again_after_a_restart(name):
    stated = summarise(ORIGIN, PLAYED)
    state = over_state(EpisodeRecord(ORIGIN, stated, is_closed=True), (), FakeClock())
    restated = getattr(summarise(ORIGIN, state), name)
    if name.endswith("_at"):
        assert abs(restated - getattr(stated, name)) < timedelta(milliseconds=1)
    else:
        assert restated == getattr(stated, name)


@pytest.mark.parametrize("name", STEP_MAXIMA)
def test_the_greatest_figure_of_calls_that_were_repeated_is_that_of_the_recorded_steps(name):
    steps = [make_step(1), make_step(2, reward=0.9, components={"tool": 0.9})]
    record = EpisodeRecord(ORIGIN, replace(FIRST, started_at=ORIGIN.created_at))
    state = playable_state(record, steps, PLAYED, EpisodePolicy(), FakeClock())
    expected = max(STEP_MAXIMA[name](step) or 0.0 for step in steps)
    assert getattr(state, name) == expected != getattr(PLAYED, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_in_json_and_comes_back(name):
    summary = changed(name)
    assert summary.as_json() != FIRST.as_json()
    assert SUMMARY.read(SUMMARY.write(summary)) == summary


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SHOWN_ELSEWHERE])
def test_every_figure_is_in_the_terminal(name):
    assert lines(changed(name)) != lines(FIRST)


def test_views_and_the_client_take_the_figures_from_the_summary():
    for view in (EpisodeEntry, SessionView):
        assert view.model_fields["episode"].annotation is StatedSummary
    assert [field.name for field in fields(StatedSummary)] == [*NAMES, "failure"]
    assert {*NAMES} <= {field.name for field in fields(Summary)}


@pytest.mark.parametrize("name", NAMES)
def test_the_exported_table_has_the_columns_that_the_figures_name(name):
    column = WORDS_OF_ROWS.get(name, name)
    figure = FIGURES[name]
    assert (column in EPISODES) is (figure.is_column or figure.counts is not None)
    if column in EPISODES and name != "created_at":
        rows = [
            list(episode_rows(EpisodeRecord(ORIGIN, replace(summary, last_reward=1.0)), ()))
            for summary in (FIRST, changed(name))
        ]
        assert rows[0][0][column] != rows[1][0][column]


def test_a_row_of_the_exported_table_has_its_columns_alone():
    (row,) = episode_rows(EpisodeRecord(ORIGIN, FIRST), ())
    assert row.keys() == EPISODES.keys()

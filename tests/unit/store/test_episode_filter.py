"""One table describes the filter of episodes; every reader of filters has each of its conditions."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.main import get_command

from ors_server.cli.main import app
from ors_server.doors.control.episodes import EpisodeSelection, EpisodesQuery
from ors_server.store.episode_filter import ALL, CONDITIONS, PARAMETERS, EpisodeFilter, FilterKind

NAMES = [field.name for field in fields(EpisodeFilter)]
SAMPLES = {
    FilterKind.NAME: ("maze", "maze"),
    FilterKind.NAMES: (["run", "step"], ("run", "step")),
    FilterKind.MARKS: (["failed"], ("failed",)),
    FilterKind.TEXT: ("north", "north"),
    FilterKind.POSITION: ("3", 3),
    FilterKind.PHASE: ("finished", "finished"),
    FilterKind.STOP_REASON: ("completed", "completed"),
    FilterKind.LABELS: (["run=a"], {"run": "a"}),
    FilterKind.TIME: ("2026-03-01T08:00:00Z", datetime(2026, 3, 1, 8, tzinfo=UTC)),
    FilterKind.NUMBER: ("0.5", 0.5),
    FilterKind.TRUTH: ("true", True),
}
COMMANDS = {
    ("episodes", "list"): set(),
    ("export",): set(),
    ("replay",): {"environment"},
    ("regrade",): {"environment"},
    ("audit",): {"environment"},
    ("episodes", "tail"): {name for name, condition in CONDITIONS.items() if condition.changes},
}


def test_the_table_has_every_field_of_the_filter():
    assert list(CONDITIONS) == NAMES
    assert {condition.kind for condition in CONDITIONS.values()} == {*SAMPLES} == {*FilterKind}


@pytest.mark.parametrize("name", NAMES)
def test_every_condition_is_a_parameter_of_the_control_api(name):
    text, value = SAMPLES[CONDITIONS[name].kind]
    query = EpisodesQuery.model_validate({PARAMETERS[name]: text})
    assert query.as_filter() == EpisodeFilter(**{name: value})


@pytest.mark.parametrize("name", NAMES)
def test_the_description_of_a_parameter_is_that_of_the_table(name):
    description = EpisodeSelection.model_fields[PARAMETERS[name]].description
    assert (description or "").startswith(CONDITIONS[name].note)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_condition_is_an_option_of_the_commands_that_read_the_record(words):
    command: Any = get_command(app)
    for word in words:
        context = command.make_context(word, [], resilient_parsing=True)
        _, command, _ = command.resolve_command(context, [word])
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    for name in {*NAMES} - COMMANDS[words]:
        condition = CONDITIONS[name]
        option = condition.option or PARAMETERS[name]
        wanted = (
            {f"--{option.replace('_', '-')}"} if condition.flags is None else {*condition.flags.split("/")}
        )
        assert wanted <= flags, name


def test_several_values_of_a_name_are_either_of_them():
    query = EpisodesQuery.model_validate({"environment": ["maze", "chess"], "phase": ["ready", "playing"]})
    assert query.as_filter() == EpisodeFilter(environment=("maze", "chess"), phase=("ready", "playing"))


def test_what_is_not_given_is_no_condition():
    assert EpisodesQuery.model_validate({}).as_filter() == ALL
    assert not ALL.conditions()

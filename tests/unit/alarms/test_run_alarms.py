"""The sixteen alarms over simulated runs: each opens for its trouble, and none for sixty healthy runs."""

from copy import deepcopy
from dataclasses import fields, replace
from functools import cache

import pytest

from ors_server.alarms.alarm_rules import RULES, AlarmThresholds, read_thresholds, wilson_upper
from ors_server.alarms.run_alarms import RunAlarms
from tests.fixtures.ordinary_cases import every
from tests.fixtures.simulated_runs import EPISODES, healthy_run, troubled_run


@cache
def troubled(name):
    """The run of a trouble as it ended, which no test may change, and the alarms that it opened."""
    run = RunAlarms()
    return run, tuple(run.add_all(troubled_run(name)))


def opened_by(episodes, **options):
    return {alarm.name for alarm in RunAlarms(**options).add_all(episodes)}


@pytest.mark.parametrize("seed", every(4, range(60)))
def test_a_healthy_run_opens_no_alarm(seed):
    assert opened_by(healthy_run(seed)) == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_trouble_opens_its_alarm_in_the_second_half_and_names_episodes_of_it(rule):
    alarm = next(alarm for alarm in troubled(rule.name)[1] if alarm.name == rule.name)
    assert alarm.since > EPISODES // 2
    assert alarm.reading.is_raised
    assert alarm.window == (f"e{alarm.since - 200}", f"e{alarm.since - 1}")
    assert 0 < len(alarm.reading.episodes) <= 5
    for name in alarm.reading.episodes:
        assert alarm.since - 200 <= int(name.removeprefix("e")) < alarm.since


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_nothing_is_raised_before_the_trouble(rule):
    assert [alarm.name for alarm in troubled(rule.name)[1] if alarm.since <= EPISODES // 2] == []


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.name != "lost-tasks"], ids=lambda rule: rule.name
)
def test_an_alarm_closes_when_the_trouble_is_over(rule):
    run = deepcopy(troubled(rule.name)[0])
    for episode in healthy_run(1, EPISODES // 2):
        run.add(replace(episode, policy_step=1_000 + (episode.policy_step or 0)))
    assert rule.name not in {alarm.name for alarm in run.open}


def test_a_lost_task_that_is_solved_again_closes_its_alarm():
    run = deepcopy(troubled("lost-tasks")[0])
    assert [alarm.name for alarm in run.open].count("lost-tasks") == 1
    for episode in healthy_run(1, EPISODES):
        run.add(replace(episode, episode_return=1.0))
    assert "lost-tasks" not in {alarm.name for alarm in run.open}


def test_one_odd_look_opens_nothing():
    run = RunAlarms(AlarmThresholds(window=20, min_episodes=20, look_every=20))
    episodes = list(healthy_run(0, 60))
    for number, episode in enumerate(episodes):
        is_odd = 20 <= number < 40
        run.add(replace(episode, is_ungraded=is_odd, episode_return=None if is_odd else 1.0))
        assert "ungraded" not in {alarm.name for alarm in run.open}


def test_bad_levels_and_notes_are_told():
    run = RunAlarms()
    for episode in troubled_run("dead-groups"):
        run.add(episode)
    reading = next(alarm.reading for alarm in run.open if alarm.name == "dead-groups")
    assert reading.is_bad
    assert reading.value == 1.0
    assert "pass throughout" in reading.note


def test_a_chosen_baseline_is_compared_from_the_first_window_on():
    baseline = list(healthy_run(0, 200))
    long = (replace(episode, steps=episode.steps + 20) for episode in healthy_run(1, 100))
    assert "length" in opened_by(long, baseline=baseline)
    long = (replace(episode, steps=episode.steps + 20) for episode in healthy_run(1, 100))
    assert "length" not in opened_by(long)


def test_a_declared_highest_return_is_the_ceiling():
    full = [replace(episode, episode_return=1.0) for episode in healthy_run(0, 200)]
    assert "ceiling" in opened_by(full, highest_return=1.0)
    assert "ceiling" not in opened_by(full, highest_return=2.0)
    assert "ceiling" not in opened_by(full)  # every return is equal: none is known to be the highest


def test_memory_of_a_long_run_is_bounded():
    run = RunAlarms()
    for number, episode in enumerate(healthy_run(0, 5_000)):
        run.add(replace(episode, task=f"task-{number}"))
    assert len(run._latest) == 400
    assert len(run._lags) == 200
    assert len(run._baseline) == 200


def test_thresholds_are_read_by_name():
    assert read_thresholds({"dead_groups": 0.7, "window": 100}) == AlarmThresholds(
        dead_groups=0.7, window=100
    )
    with pytest.raises(ValueError, match=r"expected a threshold of window, .*, got 'dead'"):
        read_thresholds({"dead": 0.7})
    with pytest.raises(ValueError, match="expected a number above 0 and up to 100,000 for jump, got -1"):
        read_thresholds({"jump": -1})


THRESHOLDS_OF_FORMULAS = {
    "dead-groups": {"dead_groups"},
    "dead-outcomes": {"dead_outcomes"},
    "variance": {"variance"},
    "ceiling": {"ceiling"},
    "dominance": {"dominance"},
    "length": {"length"},
    "jump": {"jump"},
    "same-answer": {"same_answer", "growth"},
    "diversity": {"diversity"},
    "tool-failures": {"tool_failures", "growth"},
    "infrastructure": {"infrastructure"},
    "ungraded": {"ungraded"},
    "cut": {"truncated", "truncated_growth"},
    "lost-tasks": {"lost_from", "lost_attempts", "lost_to"},
    "learnable": {"learnable_from", "learnable_to", "learnable"},
    "stale": {"stale_steps", "stale"},
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_formula_states_the_thresholds_that_the_user_has_chosen(rule):
    default = rule.formula_with(AlarmThresholds())
    for name in (threshold.name for threshold in fields(AlarmThresholds)):
        formula = rule.formula_with(read_thresholds({name: 777}))
        is_named = name in THRESHOLDS_OF_FORMULAS[rule.name]
        assert (formula != default) == is_named == ("777" in formula)


def test_wilsons_limit_is_that_of_the_textbook():
    assert wilson_upper(0, 10) == pytest.approx(0.2775, abs=1e-4)
    assert wilson_upper(3, 8) == pytest.approx(0.6943, abs=1e-4)
    assert wilson_upper(8, 8) == pytest.approx(1.0)

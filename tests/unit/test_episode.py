"""The episode's table: every move is legal or raises, and every sum is made in step order."""

import functools
import itertools
import operator
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.episode import (
    PLAYABLE,
    TRANSITIONS,
    CallOutcome,
    EpisodeEvent,
    EpisodeState,
    IllegalMoveError,
    Metric,
    OutcomeKind,
    Phase,
    StopReason,
    apply_outcome,
    lapse,
    move,
    remaining_time,
)
from ors_server.policy import MAX_REWARD, EpisodePolicy, PenaltyCause
from ors_server.sessions.episode_summary import describe_metrics

ENDED = frozenset(Phase) - PLAYABLE - {Phase.CREATED}
FREE = EpisodePolicy()


def playing(**fields):
    return EpisodeState(created_at=0.0, **{"phase": Phase.READY, "started_at": 0.0, **fields})


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(Phase, EpisodeEvent)), ids=str)
def test_every_event_in_every_phase_moves_by_the_table_or_raises(phase, event):
    state = EpisodeState(created_at=0.0, phase=phase)
    if (phase, event) in TRANSITIONS:
        assert move(state, event, 1.0, StopReason.FAILED).phase is TRANSITIONS[phase, event]
    else:
        with pytest.raises(IllegalMoveError, match=event.value):
            move(state, event, 1.0)


def test_the_table_cannot_be_changed_reaches_every_phase_and_lets_every_live_session_end():
    with pytest.raises(TypeError):
        TRANSITIONS[Phase.DELETED, EpisodeEvent.STEP] = Phase.PLAYING
    assert not [pair for pair in TRANSITIONS if pair[0] in {Phase.DELETED, Phase.EXPIRED}]
    assert not [pair for pair, target in TRANSITIONS.items() if pair[0] in ENDED and target in PLAYABLE]
    assert {Phase.CREATED, *TRANSITIONS.values()} == set(Phase)
    live = frozenset(Phase) - {Phase.DELETED, Phase.EXPIRED}
    for event in (EpisodeEvent.DELETE, EpisodeEvent.EXPIRE):
        assert {phase for phase, moved in TRANSITIONS if moved is event} == live


@pytest.mark.parametrize("phase", Phase)
def test_an_episode_is_over_exactly_where_no_call_will_ever_run(phase):
    assert EpisodeState(created_at=0.0, phase=phase).is_over is (phase in ENDED)


def test_the_first_stop_reason_and_the_first_end_are_kept():
    finished = move(playing(), EpisodeEvent.END, 5.0, StopReason.COMPLETED)
    deleted = move(finished, EpisodeEvent.DELETE, 9.0, StopReason.DELETED)
    assert (deleted.stop_reason, deleted.finished_at) == (StopReason.COMPLETED, 5.0)


def test_play_begins_when_setup_ends_and_a_failed_setup_ends_the_episode():
    failed = move(EpisodeState(created_at=0.0), EpisodeEvent.SETUP_FAILED, 3.0, StopReason.FAILED)
    assert (failed.phase, failed.finished_at, failed.started_at) == (Phase.FAILED, 3.0, None)
    assert move(EpisodeState(created_at=0.0), EpisodeEvent.SETUP_DONE, 3.0).started_at == 3.0


@pytest.mark.parametrize("phase", sorted(set(Phase) - PLAYABLE))
def test_no_step_is_counted_outside_of_play(phase):
    with pytest.raises(IllegalMoveError):
        apply_outcome(
            EpisodeState(created_at=0.0, phase=phase), FREE, CallOutcome(OutcomeKind.COMPLETED, 1.0), 1.0
        )


COST = {
    OutcomeKind.COMPLETED: None,
    OutcomeKind.INVALID_CALL: PenaltyCause.INVALID_CALL,
    OutcomeKind.TOOL_ERROR: PenaltyCause.TOOL_ERROR,
    OutcomeKind.TIMEOUT: PenaltyCause.TIMEOUT,
    OutcomeKind.FORBIDDEN: PenaltyCause.FORBIDDEN,
    OutcomeKind.FAULT: None,
    OutcomeKind.CANCELLED: None,
}
DEAR = EpisodePolicy(**{f"{cause.value}_penalty": 0.5 for cause in PenaltyCause})


@pytest.mark.parametrize("kind", OutcomeKind)
def test_every_kind_of_outcome_costs_what_its_cause_says(kind):
    _, charge = apply_outcome(playing(), DEAR, CallOutcome(kind), 1.0)
    expected = {} if COST[kind] is None else {COST[kind].value: -0.5}
    if kind not in {OutcomeKind.FAULT, OutcomeKind.CANCELLED}:
        expected |= {"overlong": -0.5}
    assert charge.components == expected
    assert charge.reward == (sum(expected.values()) if expected else None)


@pytest.mark.parametrize("cause", PenaltyCause)
def test_every_cause_has_a_field_in_the_policy_that_is_free_by_default(cause):
    assert f"{cause.value}_penalty" in EpisodePolicy.model_fields
    assert FREE.penalty(cause) == 0.0
    assert DEAR.penalty(cause) == 0.5


def test_a_penalty_is_added_to_what_the_tool_paid_and_both_are_itemised():
    state, charge = apply_outcome(
        playing(), EpisodePolicy(overlong_penalty=0.25), CallOutcome(OutcomeKind.COMPLETED, 1.0), 1.0
    )
    assert (charge.reward, charge.components) == (0.75, {"tool": 1.0, "overlong": -0.25})
    assert (state.reward_sum, state.penalty_sum, state.episode_return) == (1.0, -0.25, 0.75)
    assert isinstance(state.penalties, MappingProxyType)


def test_a_step_without_a_judgement_is_not_a_zero():
    state, charge = apply_outcome(playing(), FREE, CallOutcome(OutcomeKind.COMPLETED, None), 1.0)
    assert (charge.reward, state.ungraded_steps, state.last_reward, state.best_reward) == (
        None,
        1,
        None,
        None,
    )
    state, charge = apply_outcome(state, FREE, CallOutcome(OutcomeKind.COMPLETED, 0.0), 1.0)
    assert (charge.reward, state.ungraded_steps, state.last_reward, state.best_reward) == (0.0, 1, 0.0, 0.0)


def test_a_step_carries_over_every_field_that_it_does_not_count():
    kept = {"created_at": 1.0, "started_at": 2.0, "finished_at": 3.0, "stop_reason": StopReason.DELETED}
    counted = {
        "steps": 4,
        "episode_return": 5.0,
        "discounted_return": 6.0,
        "held": 7.0,
        "reward_sum": 8.0,
        "penalties": {PenaltyCause.TIMEOUT: -9.0},
        "last_reward": 10.0,
        "best_reward": 11.0,
        "metrics": {"speed": Metric.of(12.0)},
        "ungraded_steps": 13,
        "failed_steps": 14,
        "last_call_at": 15.0,
        "waived": 16.0,
    }
    before = EpisodeState(phase=Phase.PLAYING, **kept, **counted)
    assert set(before._fields) == {"phase", *kept, *counted}
    after, _ = apply_outcome(before, EpisodePolicy(), CallOutcome(OutcomeKind.TOOL_ERROR), 17.0)
    assert after == before._replace(steps=5, ungraded_steps=14, last_call_at=17.0)


def test_faults_are_counted_and_judged_nothing():
    state, charge = apply_outcome(playing(), DEAR, CallOutcome(OutcomeKind.FAULT), 1.0)
    assert (state.failed_steps, state.ungraded_steps, charge.reward) == (1, 1, None)


@pytest.mark.parametrize(
    ("policy", "outcome", "now", "reason"),
    [
        (FREE, CallOutcome(OutcomeKind.COMPLETED, 1.0), 1.0, None),
        (FREE, CallOutcome(OutcomeKind.COMPLETED, 1.0, finished=True), 1.0, StopReason.COMPLETED),
        (FREE, CallOutcome(OutcomeKind.FORBIDDEN), 1.0, None),
        (EpisodePolicy(forbidden_ends=True), CallOutcome(OutcomeKind.FORBIDDEN), 1.0, StopReason.BLOCKED),
        (EpisodePolicy(step_limit=1), CallOutcome(OutcomeKind.FAULT), 1.0, StopReason.STEP_LIMIT),
        (EpisodePolicy(step_limit=2), CallOutcome(OutcomeKind.FAULT), 1.0, None),
        (EpisodePolicy(time_limit=1.0), CallOutcome(OutcomeKind.COMPLETED), 1.0, StopReason.TIME_LIMIT),
        (EpisodePolicy(time_limit=1.0), CallOutcome(OutcomeKind.COMPLETED), 0.5, None),
        (
            EpisodePolicy(time_limit=1.0, step_limit=1),
            CallOutcome(OutcomeKind.COMPLETED, 1.0, finished=True),
            2.0,
            StopReason.COMPLETED,
        ),
    ],
)
def test_what_ends_an_episode_has_an_order(policy, outcome, now, reason):
    state, charge = apply_outcome(playing(), policy, outcome, now)
    assert (charge.stop_reason, charge.finished) == (reason, reason is not None)
    assert state.phase is (Phase.PLAYING if reason is None else Phase.FINISHED)
    assert state.stop_reason is reason


def test_time_lapses_at_the_deadline_and_without_one_or_before_play_it_does_not_count():
    policy = EpisodePolicy(time_limit=10.0)
    state = playing()
    assert lapse(state, policy, 9.9) is state
    assert lapse(state, policy, 10.0) == lapse(state, policy, 99.0)
    assert lapse(state, policy, 99.0).finished_at == 10.0
    assert remaining_time(state, policy, 4.0) == 6.0
    assert remaining_time(state, policy, 99.0) == 0.0
    assert remaining_time(playing(), FREE, 99.0) is None
    assert remaining_time(EpisodeState(created_at=0.0), EpisodePolicy(time_limit=1.0), 99.0) is None
    created = EpisodeState(created_at=0.0)
    assert lapse(created, EpisodePolicy(time_limit=1.0), 99.0) is created
    finished = move(playing(), EpisodeEvent.END, 1.0, StopReason.COMPLETED)
    assert lapse(finished, EpisodePolicy(time_limit=1.0), 99.0) is finished


rewards = st.none() | st.floats(-MAX_REWARD, MAX_REWARD)
outcomes = st.tuples(st.sampled_from(OutcomeKind), rewards).map(
    lambda pair: CallOutcome(*pair) if pair[0] is OutcomeKind.COMPLETED else CallOutcome(pair[0])
)


@given(st.lists(outcomes, max_size=50), st.floats(0, 10), st.floats(0, 10), st.floats(0.5, 1.0))
def test_the_return_is_the_sum_of_what_was_paid_bit_for_bit(played, penalty, overlong, discount):
    policy = EpisodePolicy(
        invalid_call_penalty=penalty, overlong_penalty=overlong, overlong_after=3, discount=discount
    )
    state, paid = playing(), []
    for number, outcome in enumerate(played, start=1):
        state, charge = apply_outcome(state, policy, outcome, float(number))
        assert charge.number == state.steps == number
        paid.append(charge.reward)
    numbers = [reward for reward in paid if reward is not None]
    assert state.episode_return == functools.reduce(operator.add, numbers, 0.0)
    discounted = [discount ** (n - 1) * r for n, r in enumerate(paid, start=1) if r is not None]
    assert state.discounted_return == functools.reduce(operator.add, discounted, 0.0)
    assert state.best_reward == (max(numbers) if numbers else None)
    assert state.last_reward == (numbers[-1] if numbers else None)
    assert state.ungraded_steps == paid.count(None)
    assert state.penalty_sum <= 0.0


def reporting(*reports):
    state = playing()
    for report in reports:
        state, _ = apply_outcome(state, FREE, CallOutcome(OutcomeKind.COMPLETED, metrics=report), 1.0)
    return describe_metrics(state.metrics)


def test_metrics_are_summed_up_over_the_steps_that_reported_any_and_move_no_sum():
    assert reporting({"f1": 0.25, "em": 0.0}, {}, {"f1": 0.75}) == {
        "reward_extra/f1/mean": 0.5,
        "reward_extra/f1/max": 0.75,
        "reward_extra/f1/min": 0.25,
        "reward_extra/em/mean": 0.0,
        "reward_extra/em/max": 0.0,
        "reward_extra/em/min": 0.0,
    }
    assert reporting({}, {}) == {}
    state, charge = apply_outcome(
        playing(), FREE, CallOutcome(OutcomeKind.COMPLETED, metrics={"f1": 0.9}), 1.0
    )
    assert (charge.reward, state.episode_return, state.ungraded_steps) == (None, 0.0, 1)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_the_mean_of_a_metric_lies_between_its_least_and_its_greatest(values):
    figures = reporting(*({"x": value} for value in values))
    assert figures["reward_extra/x/min"] == min(values)
    assert figures["reward_extra/x/max"] == max(values)
    assert min(values) <= figures["reward_extra/x/mean"] <= max(values)

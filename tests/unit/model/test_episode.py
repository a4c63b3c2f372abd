"""The episode's table: every move is legal or raises, and every sum is made in step order."""

import functools
import itertools
import operator
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.model.episode import (
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
from ors_server.model.errors import InvalidRequestError
from ors_server.model.policy import MAX_REWARD, WITHHELD, EpisodePolicy, PenaltyCause
from ors_server.model.trajectory import describe_metrics

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
        "withheld": 7.0,
        "reward_sum": 8.0,
        "penalties": {PenaltyCause.TIMEOUT: -9.0},
        "last_reward": 10.0,
        "best_reward": 11.0,
        "metrics": {"speed": Metric.of(12.0)},
        "ungraded_steps": 13,
        "failed_steps": 14,
        "unjudged_steps": 17,
        "refused_steps": 18,
        "penalised_steps": 19,
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


FINAL = EpisodePolicy(emit="final", invalid_call_penalty=0.1)
DENSE = FINAL.model_copy(update={"emit": "dense"})


def gives(reward, *, finished=False):
    return CallOutcome(OutcomeKind.COMPLETED, reward, finished=finished)


def play(policy, outcomes):
    state, charges = playing(), []
    for number, outcome in enumerate(outcomes, start=1):
        state, charge = apply_outcome(state, policy, outcome, float(number))
        charges.append(charge)
    return state, charges


def test_rewards_are_paid_with_their_steps_unless_the_policy_or_the_session_says_otherwise():
    assert EpisodePolicy().emit == "dense"
    state, charges = play(EpisodePolicy(), [gives(0.5), gives(0.25)])
    assert ([charge.reward for charge in charges], state.withheld) == ([0.5, 0.25], None)
    assert EpisodePolicy().override({"emit": "final"}).emit == "final"
    assert FINAL.override({"emit": "dense"}).emit == "dense"
    with pytest.raises(InvalidRequestError, match="emit"):
        EpisodePolicy(overridable=frozenset()).override({"emit": "final"})
    with pytest.raises(InvalidRequestError, match="dense"):
        EpisodePolicy().override({"emit": "sometimes"})


def test_the_step_that_ends_the_episode_pays_for_all():
    state, charges = play(FINAL, [gives(0.5), gives(None), gives(0.25, finished=True)])
    assert [charge.reward for charge in charges] == [None, None, 0.75]
    assert [charge.earned for charge in charges] == [0.5, None, 0.25]
    assert (state.episode_return, state.last_reward, state.withheld) == (0.75, 0.75, None)
    assert charges[-1].components == {"tool": 0.25, WITHHELD: 0.5}


def test_what_is_held_is_no_part_of_the_return_yet_and_its_step_not_ungraded():
    state, _ = play(FINAL, [gives(0.5), CallOutcome(OutcomeKind.INVALID_CALL)])
    assert (state.episode_return, state.last_reward) == (0.0, None)
    assert state.withheld == 0.4
    assert (state.reward_sum, state.penalty_sum, state.best_reward) == (0.5, -0.1, 0.5)
    state, charges = play(FINAL, [gives(0.5), gives(None), gives(0.0)])
    assert state.ungraded_steps == 1
    assert [charge.components for charge in charges] == [{"tool": 0.5}, {}, {"tool": 0.0}]


def test_an_end_without_a_judgement_pays_what_was_held_or_nothing():
    state, charges = play(FINAL, [gives(None), gives(None, finished=True)])
    assert [charge.reward for charge in charges] == [None, None]
    assert (state.withheld, state.last_reward, state.episode_return) == (None, None, 0.0)
    state, charges = play(FINAL, [gives(0.5), gives(None, finished=True)])
    assert (charges[-1].reward, charges[-1].components) == (0.5, {WITHHELD: 0.5})
    assert (state.ungraded_steps, state.episode_return) == (1, 0.5)


@pytest.mark.parametrize("kind", [OutcomeKind.FAULT, OutcomeKind.CANCELLED])
def test_an_end_by_a_failure_has_no_room_for_a_number_and_pays_nothing(kind):
    policy = FINAL.model_copy(update={"step_limit": 2})
    state, charges = play(policy, [gives(0.5), CallOutcome(kind)])
    assert (charges[-1].reward, charges[-1].finished) == (None, True)
    assert (state.episode_return, state.withheld, state.stop_reason) == (0.0, 0.5, StopReason.STEP_LIMIT)


def test_an_end_between_two_calls_leaves_what_was_held_unpaid():
    policy = FINAL.model_copy(update={"time_limit": 10.0})
    state, _ = play(policy, [gives(0.5)])
    over = lapse(state, policy, 20.0)
    assert (over.stop_reason, over.episode_return, over.withheld) == (StopReason.TIME_LIMIT, 0.0, 0.5)


@given(st.lists(outcomes, max_size=30), st.none() | st.floats(-MAX_REWARD, MAX_REWARD))
def test_both_ways_come_to_the_same_return_bit_for_bit(played, last):
    ending = [*played, gives(last, finished=True)]
    dense, _ = play(DENSE, ending)
    final, charges = play(FINAL, ending)
    assert final.episode_return == dense.episode_return
    assert (final.steps, final.ungraded_steps, final.failed_steps, final.best_reward) == (
        dense.steps,
        dense.ungraded_steps,
        dense.failed_steps,
        dense.best_reward,
    )
    assert (final.reward_sum, final.penalties) == (dense.reward_sum, dense.penalties)
    assert isinstance(final.penalties, MappingProxyType)
    paid = [charge.reward for charge in charges if charge.reward is not None]
    assert (paid[-1] if paid else 0.0) == sum(paid) == final.episode_return
    assert final.last_reward == (paid[-1] if paid else None)


@given(st.lists(outcomes, max_size=30))
def test_before_the_end_everything_that_was_earned_is_held(played):
    dense, _ = play(DENSE, played)
    final, charges = play(FINAL, played)
    assert [charge.reward for charge in charges] == [None] * len(charges)
    assert (final.withheld or 0.0) == dense.episode_return
    assert final.episode_return == final.discounted_return == 0.0

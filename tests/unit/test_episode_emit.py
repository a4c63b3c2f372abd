"""When rewards are paid: with each step, or together with the last one. Never twice, and never less."""

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.episode import CallOutcome, EpisodeState, OutcomeKind, Phase, StopReason, apply_outcome, lapse
from ors_server.errors import InvalidRequestError
from ors_server.policy import MAX_REWARD, WITHHELD, EpisodePolicy

FINAL = EpisodePolicy(emit="final", invalid_call_penalty=0.1)
DENSE = FINAL.model_copy(update={"emit": "dense"})


def playing():
    return EpisodeState(created_at=0.0, phase=Phase.READY, started_at=0.0)


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
    assert ([charge.reward for charge in charges], state.held) == ([0.5, 0.25], None)
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
    assert (state.episode_return, state.last_reward, state.held) == (0.75, 0.75, None)
    assert charges[-1].components == {"tool": 0.25, WITHHELD: 0.5}


def test_what_is_held_is_no_part_of_the_return_yet_and_its_step_not_ungraded():
    state, _ = play(FINAL, [gives(0.5), CallOutcome(OutcomeKind.INVALID_CALL)])
    assert (state.episode_return, state.last_reward) == (0.0, None)
    assert state.held == 0.4
    assert (state.reward_sum, state.penalty_sum, state.best_reward) == (0.5, -0.1, 0.5)
    state, charges = play(FINAL, [gives(0.5), gives(None), gives(0.0)])
    assert state.ungraded_steps == 1
    assert [charge.components for charge in charges] == [{"tool": 0.5}, {}, {"tool": 0.0}]


def test_an_end_without_a_judgement_pays_what_was_held_or_nothing():
    state, charges = play(FINAL, [gives(None), gives(None, finished=True)])
    assert [charge.reward for charge in charges] == [None, None]
    assert (state.held, state.last_reward, state.episode_return) == (None, None, 0.0)
    state, charges = play(FINAL, [gives(0.5), gives(None, finished=True)])
    assert (charges[-1].reward, charges[-1].components) == (0.5, {WITHHELD: 0.5})
    assert (state.ungraded_steps, state.episode_return) == (1, 0.5)


@pytest.mark.parametrize("kind", [OutcomeKind.FAULT, OutcomeKind.CANCELLED])
def test_an_end_by_a_failure_has_no_room_for_a_number_and_pays_nothing(kind):
    policy = FINAL.model_copy(update={"step_limit": 2})
    state, charges = play(policy, [gives(0.5), CallOutcome(kind)])
    assert (charges[-1].reward, charges[-1].finished) == (None, True)
    assert (state.episode_return, state.held, state.stop_reason) == (0.0, 0.5, StopReason.STEP_LIMIT)


def test_an_end_between_two_calls_leaves_what_was_held_unpaid():
    policy = FINAL.model_copy(update={"time_limit": 10.0})
    state, _ = play(policy, [gives(0.5)])
    over = lapse(state, policy, 20.0)
    assert (over.stop_reason, over.episode_return, over.held) == (StopReason.TIME_LIMIT, 0.0, 0.5)


outcomes = st.lists(
    st.builds(
        lambda kind, reward: CallOutcome(kind, reward if kind is OutcomeKind.COMPLETED else None),
        st.sampled_from(OutcomeKind),
        st.none() | st.floats(-MAX_REWARD, MAX_REWARD),
    ),
    max_size=30,
)


@given(outcomes, st.none() | st.floats(-MAX_REWARD, MAX_REWARD))
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


@given(outcomes)
def test_before_the_end_everything_that_was_earned_is_held(played):
    dense, _ = play(DENSE, played)
    final, charges = play(FINAL, played)
    assert [charge.reward for charge in charges] == [None] * len(charges)
    assert (final.held or 0.0) == dense.episode_return
    assert final.episode_return == final.discounted_return == 0.0

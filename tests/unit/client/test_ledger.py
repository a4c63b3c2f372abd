"""The client's own account: every reward once, in the order of the steps, and compared to the last bit."""

import functools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.client import Ledger, Receipt, Summary, SumMismatchError
from ors_server.model.errors import NotSupportedError


def summary(total=0.0, steps=0, phase="playing"):
    return Summary(session_id="s", environment="e", phase=phase, steps=steps, episode_return=total)


def paid(call_id, reward, step=None, **more):
    return Receipt(call_id, reward=reward, step=step, **more)


def test_an_empty_account_agrees_with_an_episode_in_which_nothing_happened():
    ledger = Ledger()
    ledger.check(summary())
    assert (ledger.total, ledger.last_reward, ledger.steps, ledger.finished) == (0.0, None, 0, False)


@given(st.lists(st.none() | st.floats(-1e100, 1e100), max_size=20), st.randoms())
def test_rewards_are_added_in_the_order_of_the_steps_whatever_the_order_of_arrival(rewards, chance):
    receipts = [paid(f"c{number}", reward, number) for number, reward in enumerate(rewards, start=1)]
    chance.shuffle(receipts)
    ledger = Ledger()
    for receipt in receipts:
        ledger.note(receipt)
    numbers = [reward for reward in rewards if reward is not None]
    assert ledger.total == functools.reduce(operator.add, numbers, 0.0)
    assert ledger.last_reward == (numbers[-1] if numbers else None)
    ledger.check(summary(ledger.total, len(rewards)))


def test_without_numbers_rewards_are_added_as_they_arrived():
    ledger = Ledger()
    for call_id, reward, step in [("a", 1.0, 2), ("b", 2.0, None), ("c", None, None)]:
        ledger.note(paid(call_id, reward, step))
    assert [receipt.call_id for receipt in ledger.receipts] == ["a", "b", "c"]
    assert ledger.rewards == (1.0, 2.0)


def test_a_call_counts_once_and_two_answers_to_it_must_not_differ():
    ledger = Ledger()
    for _ in range(3):
        ledger.note(paid("a", 0.5, 1))
    assert (ledger.total, ledger.steps) == (0.5, 1)
    ledger = Ledger()
    ledger.note(paid("a", 0.5, 1))
    with pytest.raises(SumMismatchError, match=r"'a' was first answered with the reward 0\.5"):
        ledger.note(paid("a", 0.25, 1))


def test_a_call_that_failed_may_be_answered_later():
    ledger = Ledger()
    ledger.note(Receipt("a", is_failure=True))
    ledger.note(paid("a", 0.5, 1))
    ledger.note(Receipt("a", is_failure=True))
    assert (ledger.total, ledger.steps) == (0.5, 1)
    ledger.check(summary(0.5, 1))


def test_a_difference_in_the_last_bit_is_a_mismatch_that_names_both():
    ledger = Ledger()
    for number, reward in enumerate([0.1, 0.2, 0.3]):
        ledger.note(paid(str(number), reward, number))
    assert ledger.total == 0.1 + 0.2 + 0.3
    with pytest.raises(SumMismatchError, match=r"0\.6000000000000001 and the server states 0\.6") as caught:
        ledger.check(summary(0.6, 3))
    assert (caught.value.received, caught.value.stated) == (ledger.total, 0.6)


def test_calls_that_were_never_answered_are_named():
    ledger = Ledger()
    ledger.expect("lost")
    ledger.expect("found")
    ledger.note(paid("found", None, 1))
    assert ledger.unanswered == ("lost",)
    with pytest.raises(SumMismatchError, match="never answered: lost"):
        ledger.check(summary(1.0, 2))


@pytest.mark.parametrize("steps", [1, 4])
def test_steps_agree_up_to_calls_that_failed_or_were_never_answered(steps):
    ledger = Ledger()
    for call_id in ("a", "b"):
        ledger.note(paid(call_id, None, 1))
    ledger.note(Receipt("failed", is_failure=True))
    ledger.note(paid("after the end", None, is_step=False))
    ledger.check(summary(0.0, 2))
    ledger.check(summary(0.0, 3))
    with pytest.raises(SumMismatchError, match=f"count of steps .* is 2 and the server states {steps}"):
        ledger.check(summary(0.0, steps))


def test_an_end_that_the_server_does_not_know_is_a_mismatch():
    ledger = Ledger()
    ledger.note(paid("a", 1.0, 1, finished=True))
    ledger.check(summary(1.0, 1, "finished"))
    with pytest.raises(SumMismatchError, match="finished"):
        ledger.check(summary(1.0, 1))


def test_an_account_may_go_on_from_a_standing_and_expects_no_answered_call_again():
    ledger = Ledger(opening=0.1, opening_steps=4)
    ledger.note(paid("a", 0.2, 5))
    assert (ledger.total, ledger.steps) == (0.1 + 0.2, 5)
    ledger.check(summary(0.1 + 0.2, 5))
    ledger = Ledger()
    ledger.note(paid("a", 1.0, 1))
    ledger.expect("a")
    assert ledger.unanswered == ()


def test_a_session_without_figures_is_no_summary():
    with pytest.raises(NotSupportedError, match="figures"):
        Summary.of({"session_id": "s", "environment": "e"})

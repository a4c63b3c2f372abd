"""Rewards of groups without a gold: the majority, and the place among the others."""

import pytest

from ors_server.rewards.group import score_group_with
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.voting import MAX_ANSWER, group_rank_reward, majority_vote_reward, rank_scores


def votes(answers, **options):
    return [one.reward for one in score_group_with(majority_vote_reward, answers, **options)]


@pytest.mark.parametrize(
    ("answers", "rewards"),
    [
        ([], []),
        (["a"], [1.0]),
        (["a", "b", "A."], [1.0, 0.0, 1.0]),
        (["a", "b"], [0.0, 0.0]),
        (["a", "a", "b", "b", "c"], [0.0] * 5),
        (["", "", "a"], [0.0, 0.0, 1.0]),
        (["", " "], [0.0, 0.0]),
        (["<think>b</think>a", "so <answer>a</answer>", "b"], [1.0, 1.0, 0.0]),
        (["x" * (MAX_ANSWER + 1), "x" * (MAX_ANSWER + 1), "a"], [0.0, 0.0, 1.0]),
    ],
)
def test_the_answer_of_most_is_paid_and_a_tie_pays_nobody(answers, rewards):
    assert votes(answers) == rewards


def test_mathematically_equal_answers_vote_together():
    answers = [r"\boxed{\frac{1}{2}}", "0.5", r"\boxed{2}"]
    assert votes(answers, same="math") == [1.0, 1.0, 0.0]
    assert votes(answers) == [0.0, 0.0, 0.0]


def test_a_majority_may_have_to_be_large():
    answers = ["a", "a", "b", "c"]
    assert votes(answers, least_share=0.5) == [1.0, 1.0, 0.0, 0.0]
    assert votes(answers, least_share=0.6) == [0.0] * 4


def test_votes_and_shares_are_figures():
    first, *_, last = score_group_with(majority_vote_reward, ["a", "a", "b", ""])
    assert dict(first.extras) == {"votes": 2, "share": 0.5, "answers": 2}
    assert last.status == "unparsed_answer"


@pytest.mark.parametrize("options", [{"same": "model"}, {"least_share": 1.5}, {"least_share": float("nan")}])
def test_an_option_that_makes_no_sense_leaves_the_group_unjudged(options):
    assert votes(["a", "a"], **options) == [None, None]


@pytest.mark.parametrize(
    ("scores", "ranks"),
    [
        ([], []),
        ([7.0], [0.5]),
        ([1, 1, 1], [0.5, 0.5, 0.5]),
        ([0.1, 0.9, 0.5], [0.0, 1.0, 0.5]),
        ([2, 1, 1, 0], [1.0, 0.5, 0.5, 0.0]),
        ([0, 0, 1], [0.25, 0.25, 1.0]),
        ([None, 3, 1], [None, 1.0, 0.0]),
        ([None], [None]),
        ([-1.0, 1e308], [0.0, 1.0]),
    ],
)
def test_scores_become_places_and_equal_ones_share_theirs(scores, ranks):
    assert rank_scores(scores) == ranks


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "1", True])
def test_what_is_no_finite_number_has_no_place(score):
    with pytest.raises(RewardFieldError, match="finite number"):
        rank_scores([1.0, score])


def test_a_rollout_without_a_score_is_an_error_of_its_own():
    rollouts = [Trajectory(metadata={"score": 1.0}), Trajectory(), Trajectory(metadata={"score": 0.5})]
    results = score_group_with(group_rank_reward, rollouts)
    assert [one.reward for one in results] == [1.0, None, 0.0]
    assert results[1].status == "error"

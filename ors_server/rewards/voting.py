"""Rewards of a group that need no gold: agreement with the majority, and the rank among the others."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from ors_server.rewards.define import reward
from ors_server.rewards.math import grade_math
from ors_server.rewards.reading.answer_text import AnswerFrom, find_answer, read_source
from ors_server.rewards.reading.option_words import check_words
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.text.texts import UnparsedAnswerError, normalise_text

Sameness: TypeAlias = Literal["text", "math"]
"""When two answers are one: their normal forms are equal, or they are mathematically equal."""

MAX_ANSWER = 2_000
"""Characters of an answer that votes; a longer one has no vote."""
MAX_ANSWERS = 200
"""Different answers of a group that are distinguished; those beyond have no vote."""


@reward(range=(0.0, 1.0))
def majority_vote_reward(
    rollouts: Sequence[Trajectory],
    same: Sameness = "text",
    least_share: float = 0.0,
    answer_from: AnswerFrom = None,
) -> list[RewardResult]:
    """Pays each rollout of a task whose answer is that of most of them, without any gold.

    Hazards: a group that agrees on a wrong answer is paid for it, and answering always the same is paid best
    of all; ask for a `least_share`, keep it apart from a reward with golds, and stop when answers collapse.

    Reads: the answer (`answer_from`): reasoning is cut, and the last `<answer>` counts, if any.

    Source: test-time reinforcement learning (Zuo et al. 2025, arXiv 2504.16084), which takes the first of
    several answers with as many votes; here such a tie pays no rollout.

    Args:
        same: `text`: the normal forms of two answers are equal. `math`: they are mathematically equal.
        least_share: Share of all rollouts that a majority has at least, in [0, 1].

    Returns:
        One judgement per rollout, in order: 1 or 0, with `votes`, `share` and `answers`, the number of
        different ones. An answer that is empty, or far too long, has no vote and earns 0. A rollout
        whose transcript cannot be read has the status `error`, and no vote.

    Raises:
        RewardFieldError: If an option is illegal.
    """
    check_words(same=(same, Sameness))
    if not 0.0 <= least_share <= 1.0:
        raise RewardFieldError(f"expected least_share in [0, 1], got {least_share!r}")
    source = read_source(answer_from, "answer")
    answers = [find_answer(rollout.final_response, source).text.strip() for rollout in rollouts]
    kinds = _number_answers(answers, same)
    votes = [sum(1 for other in kinds if other is not None and other == kind) for kind in kinds]
    return _pay_majority(kinds, votes, least_share)


@reward(range=(0.0, 1.0))
def group_rank_reward(rollouts: Sequence[Trajectory]) -> list[RewardResult]:
    """Pays each rollout of a task by its rank among the others: 1 for the best score, 0 for the worst.

    Hazards: only the order counts, so a group of failures has a winner too; gate it by a score that is good
    enough. A group of one, or of equal scores, earns 0.5 each.

    Source: rank-based shaping as in group-relative policies; equal scores share the mean of their ranks.

    The score is `metadata["score"]`; a rollout without one has the status `error`, and is not ranked.

    Raises:
        RewardFieldError: If a score is not a finite number.
    """
    ranks = rank_scores([rollout.metadata.get("score") for rollout in rollouts])
    return [
        RewardResult.without(RewardStatus.ERROR, "the rollout has no score")
        if rank is None
        else RewardResult(rank)
        for rank in ranks
    ]


def rank_scores(scores: Sequence[float | None]) -> list[float | None]:
    """Turn finite scores into ranks from 0 (the worst) to 1 (the best); equal ones share the mean of theirs.

    `None` stays `None`; the rank is 0.5 where all scores are equal.
    """
    for score in scores:
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if score is not None and not (is_number and math.isfinite(score)):
            raise RewardFieldError(f"expected a finite number as score, got {score!r:.80}")
    ranked = sorted(score for score in scores if score is not None)
    last = len(ranked) - 1
    if last < 1:
        return [None if score is None else 0.5 for score in scores]
    below = {score: ranked.index(score) for score in set(ranked)}
    return [
        None if score is None else (below[score] + (ranked.count(score) - 1) / 2) / last for score in scores
    ]


def _pay_majority(
    kinds: Sequence[int | None], votes: Sequence[int], least_share: float
) -> list[RewardResult]:
    max_votes = max(votes, default=0)
    leading = {
        kind for kind, count in zip(kinds, votes, strict=True) if kind is not None and count == max_votes
    }
    differing = len({kind for kind in kinds if kind is not None})
    results: list[RewardResult] = []
    for kind, count in zip(kinds, votes, strict=True):
        share = count / len(kinds)
        extras = {"votes": count, "share": share, "answers": differing}
        if kind is None:
            results.append(
                RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, extras, "the rollout has no answer")
            )
            continue
        has_won = leading == {kind} and share >= least_share
        reason = "several answers have the most votes" if len(leading) > 1 else None
        results.append(RewardResult(float(has_won), extras=extras, reason=reason))
    return results


def _number_answers(answers: Sequence[str], same: Sameness) -> list[int | None]:
    """Numbers the different answers; equal ones have one number."""
    seen: dict[str, int] = {}
    kinds: list[int | None] = []
    for answer in answers:
        if not answer or len(answer) > MAX_ANSWER:
            kinds.append(None)
            continue
        name = answer
        if same == "text":
            with suppress(UnparsedAnswerError):  # a text without a normal form equals only itself
                name = normalise_text(answer).strip(" .").casefold()
        number = seen.get(name)
        if number is None and same != "text":
            number = next(
                (kind for earlier, kind in seen.items() if grade_math(answer, earlier).is_equal), None
            )
        if number is None and len(set(seen.values())) >= MAX_ANSWERS:
            kinds.append(None)
            continue
        seen.setdefault(name, len(set(seen.values())) if number is None else number)
        kinds.append(seen[name])
    return kinds

"""Rewards for how long a response is, and how often it repeats itself; lengths are counts of tokens.

The caller counts a length, with the model's tokenizer or roughly; a length that is not a count raises
`RewardFieldError`. Only `cosine_length_reward` looks at the answer: gate the others or weigh them with one
that does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ors_server.rewards.define import reward
from ors_server.rewards.math import grade_math
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import RewardDefinitionError, RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.text.texts import read_response, shown

MAX_TOKENS: Final = 1_000_000
"""Tokens in which repetition is looked for."""
MAX_NGRAM: Final = 64
WRONG: Final = (-1.0, -0.5)
"""Reward of a wrong answer at length 0, and at the greatest length (TRL's defaults)."""
RIGHT: Final = (1.0, 0.5)
"""Reward of a right answer at length 0, and at the greatest length (TRL's defaults)."""


@reward(range=(-1.0, 0.0))
def soft_overlong_reward(length: int, max_completion_len: int, soft_punish_cache: int) -> float:
    """Costs nothing up to a length, then more and more over a last stretch, and 1 beyond the greatest length.

    Hazards: a short wrong answer costs nothing; add it to a reward for being right. With a stretch of 0 the
    whole is paid one token after the greatest length.

    Source: soft overlong punishment, equation 13 of DAPO (Yu et al. 2025, arXiv 2503.14476).

    `max_completion_len` is the greatest length, at least 1, and `soft_punish_cache` the last stretch.

    Raises:
        RewardFieldError: If the length is not a count.
        RewardDefinitionError: If the greatest length or the stretch is illegal.
    """
    count = _count(length, "length")
    if not (_is_count(max_completion_len) and _is_count(soft_punish_cache)) or not (
        1 <= max_completion_len >= soft_punish_cache
    ):
        raise RewardDefinitionError(
            "expected a greatest length of at least 1, and a stretch of at most that, "
            f"got {max_completion_len!r} and {soft_punish_cache!r}"
        )
    free = max_completion_len - soft_punish_cache
    if count <= free:
        return 0.0
    return (free - count) / soft_punish_cache if count <= max_completion_len else -1.0


@reward(range=(-1.0, 1.0))
def cosine_length_reward(
    length: int,
    max_len: int,
    final_response: str | None = None,
    answer: str | None = None,
    is_correct: bool | None = None,  # noqa: FBT001  (a field of the task or of the episode)
    **rest: Any,
) -> RewardResult:
    """Pays right answers more the shorter they are, and wrong ones less the shorter they are, along a cosine.

    Hazards: a wrong answer is cheaper the longer it is, which teaches rambling where answers are mostly
    wrong. An answer that cannot be read costs the most, at any length.

    Source: the cosine reward of Yeo et al. 2025 (arXiv 2502.03373), with TRL's defaults and names of bounds.

    Args:
        max_len: Greatest length, at least 1. A longer response counts as one of this length.
        is_correct: Whether the answer is right; without it the response and the mathematical gold are
            compared.
        **rest: Of which are read: `completion` and `solution`, other names of the response and the answer;
            the bounds, in [-1, 1]: `max_value_correct` (1.0) at length 0 and `min_value_correct` (0.5) at the
            greatest length; for wrong answers `min_value_wrong` (-1.0) and `max_value_wrong` (-0.5).

    Raises:
        RewardFieldError: If the length is not a count, or nothing tells whether the answer is right.
        RewardDefinitionError: If the greatest length or a bound is illegal.
    """
    if not _is_count(max_len) or max_len < 1:
        raise RewardDefinitionError(f"expected a greatest length of at least 1, got {max_len!r}")
    count = _count(length, "length")
    right, wrong = _bounds(rest)
    if is_correct is None:
        response = rest.get("completion") if final_response is None else final_response
        gold = rest.get("solution") if answer is None else answer
        if gold is None or response is None:
            raise RewardFieldError("cosine_length_reward needs is_correct, or final_response and answer")
        graded = _grade_math_answer(response, gold)
        if graded.status is RewardStatus.UNPARSED_ANSWER:
            return replace(graded, reward=min(wrong))
        if graded.reward is None:
            return graded
        is_correct = graded.reward == 1.0
    return RewardResult(cosine_scale(count, max_len, *(right if is_correct else wrong)))


def cosine_scale(length: int, max_len: int, at_zero: float, at_max: float) -> float:
    """Return the value at a length on half a cosine, from `at_zero` to `at_max` at `max_len` and beyond."""
    share = min(length, max_len) / max_len
    return at_max + 0.5 * (at_zero - at_max) * (1.0 + math.cos(share * math.pi))


@reward(range=(-1.0, 0.0))
def repetition_penalty_reward(
    ids: Sequence[Any] | None = None,
    final_response: str | None = None,
    ngram_size: int = 3,
    max_penalty: float = -1.0,
) -> RewardResult:
    """Costs the share of n-grams that are repeated, times the greatest penalty in [-1, 0].

    Hazards: code, tables and proofs repeat themselves rightly; keep the penalty small, and the n-grams long.
    A response shorter than an n-gram costs nothing, and so does an empty one: add it to a reward for being
    right. One of more than a million tokens costs the greatest penalty.

    Reads: the raw response, reasoning included; without `ids`, the tokens are its words in lower case.

    Source: the repetition penalty of Yeo et al. 2025 (arXiv 2502.03373), as TRL computes it.

    Raises:
        RewardFieldError: If there is neither `ids` nor `final_response`.
        RewardDefinitionError: If the size or the penalty is illegal.
    """
    if not _is_count(ngram_size) or not 1 <= ngram_size <= MAX_NGRAM or not -1.0 <= max_penalty <= 0.0:
        raise RewardDefinitionError(
            f"expected n-grams of 1 to {MAX_NGRAM} tokens and a penalty in [-1, 0], "
            f"got {ngram_size!r} and {max_penalty!r}"
        )
    if ids is None and final_response is None:
        raise RewardFieldError("repetition_penalty_reward needs ids or final_response")
    tokens = read_response(final_response).lower().split() if ids is None else ids
    if len(tokens) > MAX_TOKENS:
        reason = f"{len(tokens)} tokens; at most {MAX_TOKENS} are compared"
        return RewardResult(max_penalty, RewardStatus.UNPARSED_ANSWER, reason=reason)
    total = len(tokens) - ngram_size + 1
    if total <= 0:
        return RewardResult(0.0)
    unique = len(set(zip(*(tokens[start : start + total] for start in range(ngram_size)), strict=True)))
    return RewardResult((1.0 - unique / total) * max_penalty)


@reward(range=(-1.0, 0.0))
def token_cost_reward(length: int, cost_per_token: float = 0.0001, most: float = 1.0) -> float:
    """Costs a fixed amount per token of the response or episode, up to a greatest amount `most` in [0, 1].

    Hazards: silence is cheapest; weigh it far below a reward for being right.

    Source: this library.

    Raises:
        RewardFieldError: If the length is not a count.
        RewardDefinitionError: If a cost is illegal.
    """
    return -min(_cost(most, 1.0), _count(length, "length") * _cost(cost_per_token))


@reward(range=(-1.0, 0.0))
def latency_cost_reward(trajectory: Trajectory, cost_per_second: float = 0.01, most: float = 1.0) -> float:
    """Costs a fixed amount per second that the tools took, up to a greatest amount `most` in [0, 1].

    Hazards: latency depends on the machine and its load, so the same episode has another cost elsewhere;
    giving up is cheapest.

    Source: this library; ARISE's `latency_ms`.

    Raises:
        RewardFieldError: If a latency is negative or not finite, as that of a transcript, which has no
            durations.
        RewardDefinitionError: If a cost is illegal.
    """
    seconds = math.fsum(step.latency_ms for step in trajectory.steps) / 1000
    if not math.isfinite(seconds) or any(step.latency_ms < 0 for step in trajectory.steps):
        raise RewardFieldError(
            "expected latency_ms of every step as a finite number of milliseconds, at least 0; a transcript "
            "without the duration of its calls has no latency"
        )
    return -min(_cost(most, 1.0), seconds * _cost(cost_per_second))


@reward(range=(-0.5, 0.5))
def length_group_reward(rollouts: Sequence[Trajectory], answer: str | None = None) -> list[RewardResult]:
    """Compares a group's lengths: 0.5 for the shortest to -0.5 for the longest; wrong ones earn no bonus.

    Hazards: in a group that is all wrong the long ones are punished for being long; in one of which all are
    right, the short ones are paid for what may be luck. Kimi warms it up: weigh it low at first.

    Source: the length reward of Kimi k1.5 (arXiv 2501.12599, section 2.3.3).

    `metadata["length"]` of a rollout counts its tokens; where no rollout has one, the words of the final
    responses are counted. `metadata["is_correct"]` is whether it is right; without it, a mathematical
    `answer` is compared. A rollout whose transcript cannot be read has the status `error`.

    Raises:
        RewardFieldError: If some rollouts have a length and some have not, or nothing tells what is right.
    """
    verdicts = [_verdict(rollout, answer) for rollout in rollouts]
    counts = [rollout.metadata.get("length") for rollout in rollouts]
    if all(count is None for count in counts):
        lengths = [len(rollout.final_response.split()) for rollout in rollouts]
    else:
        lengths = [_count(count, "length of every rollout") for count in counts]
    values = length_group_rewards(lengths, [verdict.reward == 1.0 for verdict in verdicts])
    return [
        verdict if verdict.reward is None else RewardResult(value)
        for value, verdict in zip(values, verdicts, strict=True)
    ]


def length_group_rewards(lengths: Sequence[int], are_correct: Sequence[bool]) -> list[float]:
    """Compare the lengths of a group: 0.5 for the shortest to -0.5 for the longest; all 0 if they are equal.

    Source: Kimi k1.5 (arXiv 2501.12599, section 2.3.3): lambda is 0.5 - (length - shortest) / (longest -
    shortest); a right response earns lambda, a wrong one the lesser of 0 and lambda.
    """
    counts = [_count(length, "length") for length in lengths]
    if len(counts) != len(are_correct):
        raise RewardFieldError(f"expected one verdict per length, got {len(are_correct)} for {len(counts)}")
    if not counts or (shortest := min(counts)) == (longest := max(counts)):
        return [0.0 for _ in counts]
    values = [0.5 - (count - shortest) / (longest - shortest) for count in counts]
    return [value if right else min(0.0, value) for value, right in zip(values, are_correct, strict=True)]


def _grade_math_answer(response: object, gold: object) -> RewardResult:
    """Grade a mathematical answer: 1 if it is right, else 0; or no number, with the reason."""
    if not isinstance(gold, str):
        return RewardResult.without(
            RewardStatus.BAD_GOLD, f"expected a gold answer as a text, got {shown(gold)}"
        )
    verdict = grade_math(read_response(response), gold)
    if verdict.status == "bad_gold":
        return RewardResult.without(RewardStatus.BAD_GOLD, verdict.reason)
    if verdict.status == "unparsed_answer":
        return RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason=verdict.reason)
    reason = verdict.reason if verdict.status == "limit" else None
    return RewardResult(float(verdict.is_equal), reason=reason)


def _bounds(rest: Mapping[str, Any]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the rewards of a right and of a wrong answer, each at length 0 and at the greatest length."""
    names = ("max_value_correct", "min_value_correct", "min_value_wrong", "max_value_wrong")
    bounds = [rest.get(name, default) for name, default in zip(names, (*RIGHT, *WRONG), strict=True)]
    for name, bound in zip(names, bounds, strict=True):
        is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
        if not is_number or not -1.0 <= bound <= 1.0:
            raise RewardDefinitionError(f"expected {name} in [-1, 1], got {bound!r:.80}")
    return (bounds[0], bounds[1]), (bounds[2], bounds[3])


def _verdict(rollout: Trajectory, answer: str | None) -> RewardResult:
    is_correct = rollout.metadata.get("is_correct")
    if isinstance(is_correct, bool):
        return RewardResult(float(is_correct))
    if answer is None:
        raise RewardFieldError("length_group_reward needs is_correct with every rollout, or answer")
    return _grade_math_answer(rollout.final_response, answer)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(value: Any, name: str) -> int:
    if not _is_count(value):
        raise RewardFieldError(
            f"{name}: expected a count of tokens, an integer of at least 0, got {shown(value)}"
        )
    return int(value)


def _cost(value: float, high: float = math.inf) -> float:
    if not (math.isfinite(value) and 0 <= value <= high):
        raise RewardDefinitionError(f"expected a finite cost of at least 0, got {value!r}")
    return value

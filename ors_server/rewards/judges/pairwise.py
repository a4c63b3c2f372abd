"""Has a language model compare two answers, in both orders, so that the order does not matter."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from ors_server.rewards.judges.accounting import Usage
from ors_server.rewards.judges.hardening import is_degenerate, judge_messages
from ors_server.rewards.judges.judge_endpoint import EndpointJudge
from ors_server.rewards.judges.judge_model import JudgeModel
from ors_server.rewards.judges.questions import JudgeOptions
from ors_server.rewards.judges.rubric import Criterion, Rubric
from ors_server.rewards.judges.rubric_judge import sample_verdicts

Winner: TypeAlias = Literal["first", "second", "tie"]

_CHOICES = ("second", "tie", "first")
_MIRRORED: Mapping[Winner, Winner] = {"first": "second", "second": "first", "tie": "tie"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The better of two answers."""

    winner: Winner
    """`tie` if the judge calls it one, or names different answers in the two orders."""
    is_consistent: bool
    """Whether the verdict was the same in both orders."""
    agreement: float
    """Share of the samples with the winning choice of their order, averaged over both; in [0, 1]."""
    extras: Mapping[str, Any]
    """The cost."""

    @property
    def score(self) -> float:
        """The reward of the first answer: 1 if it wins, 0.5 for a tie, else 0."""
        return {"first": 1.0, "tie": 0.5, "second": 0.0}[self.winner]


class PairwiseJudge:
    """Has a model choose the better of two answers.

    Args:
        model: By default the endpoint of the environment variables, at the first question.
        options: `samples` are drawn in each of the two orders.
        instructions: The question, such as "Which answer serves the task better?".
    """

    def __init__(
        self,
        model: JudgeModel | None = None,
        options: JudgeOptions | None = None,
        *,
        instructions: str = "Which answer serves the task better?",
    ) -> None:
        self._model = model
        self._options = options or JudgeOptions()
        self._rubric = Rubric((Criterion("better", instructions, choices=_CHOICES),))

    async def compare(
        self, first: str, second: str, *, task: str | None = None, reference: str | None = None
    ) -> Comparison:
        """Compare two answers to a task; `reference` is a reference answer.

        Raises:
            JudgeError: If there is no verdict.
        """
        empty = [is_degenerate(answer, self._options.min_characters) for answer in (first, second)]
        if any(empty):
            winner: Winner = "tie" if all(empty) else "second" if empty[0] else "first"
            return Comparison(
                winner, is_consistent=True, agreement=1.0, extras={"judge_degenerate": sum(empty)}
            )
        context = {"task": task, "reference": reference}
        first_winner, agreed, used = await self._ask(context, first, second)
        other, agreed_too, used_too = await self._ask(context, second, first)
        mirrored = _MIRRORED[other]
        winner = first_winner if first_winner == mirrored else "tie"
        return Comparison(
            winner,
            is_consistent=first_winner == mirrored,
            agreement=(agreed + agreed_too) / 2,
            extras=(used + used_too).as_extras(),
        )

    async def _ask(
        self, context: Mapping[str, str | None], first: str, second: str
    ) -> tuple[Winner, float, Usage]:
        model = self._model or EndpointJudge.from_environment()
        filled = {name: text for name, text in context.items() if text is not None}
        blocks = {**filled, "first": first, "second": second}
        messages = judge_messages(self._rubric.describe(), blocks, self._options.most_characters)
        answered = await sample_verdicts(model, messages, self._rubric, self._options)
        choices = [answer.verdict["better"].choice for answer in answered]
        counts = Counter(choices)
        leaders = [choice for choice, count in counts.items() if count == max(counts.values())]
        # Equally frequent choices are a tie: the order of the samples must not decide.
        winner = cast("Winner", leaders[0]) if len(leaders) == 1 else "tie"
        return (
            winner,
            choices.count(winner) / len(choices),
            sum((answer.usage for answer in answered), Usage()),
        )

"""Has a language model compare two answers, in both orders, so that their places decide nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ors_server.rewards.judges.accounting import Usage
from ors_server.rewards.judges.asking import JudgeOptions
from ors_server.rewards.judges.completion import JudgeModel
from ors_server.rewards.judges.endpoint import EndpointJudge
from ors_server.rewards.judges.hardening import fence, is_degenerate
from ors_server.rewards.judges.rubric import Criterion, Rubric
from ors_server.rewards.judges.rubric_judge import CLOSING, PREAMBLE, sample_verdicts

Winner: TypeAlias = Literal["first", "second", "tie"]

_CHOICES = ("second", "tie", "first")
_MIRRORED: Mapping[Winner, Winner] = {"first": "second", "second": "first", "tie": "tie"}
_STRAIGHT: Mapping[str, Winner] = {"first": "first", "second": "second", "tie": "tie"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which of two answers is better."""

    winner: Winner
    """A tie is said by the judge, or follows from its saying different things in the two orders."""
    is_consistent: bool
    """Whether it said the same in both orders."""
    agreement: float
    """Share of the samples that said what counts in their order, averaged over both; in [0, 1]."""
    extras: Mapping[str, Any]
    """What it cost."""

    @property
    def score(self) -> float:
        """What the first answer earns: 1 if it wins, 0.5 for a tie that was judged to be one, else 0."""
        return {"first": 1.0, "tie": 0.5, "second": 0.0}[self.winner]


class PairwiseJudge:
    """Has a model say which of two answers is better."""

    def __init__(
        self,
        model: JudgeModel | None = None,
        options: JudgeOptions | None = None,
        *,
        instructions: str = "Which answer serves the task better?",
    ) -> None:
        """Say what is compared.

        Args:
            model: Who judges; by default the endpoint that the environment names when it is first asked.
            options: How; `samples` are drawn in each of the two orders.
            instructions: What "better" means.
        """
        self._model = model
        self._options = options or JudgeOptions()
        self._rubric = Rubric((Criterion("better", instructions, choices=_CHOICES),))

    async def compare(
        self, first: str, second: str, *, task: str | None = None, reference: str | None = None
    ) -> Comparison:
        """Compare two answers.

        Args:
            first: An answer.
            second: Another one.
            task: What was asked.
            reference: A reference answer.

        Raises:
            JudgeError: If there is no verdict.
        """
        empty = [is_degenerate(answer, self._options.min_characters) for answer in (first, second)]
        if any(empty):
            winner: Winner = "tie" if all(empty) else "second" if empty[0] else "first"
            return Comparison(
                winner, is_consistent=True, agreement=1.0, extras={"judge_degenerate": sum(empty)}
            )
        known = {"task": task, "reference": reference}
        one, agreed, used = await self._ask(known, first, second)
        other, agreed_too, used_too = await self._ask(known, second, first)
        mirrored = _MIRRORED[other]
        winner = one if one == mirrored else "tie"
        return Comparison(
            winner,
            is_consistent=one == mirrored,
            agreement=(agreed + agreed_too) / 2,
            extras=(used + used_too).as_extras(),
        )

    async def _ask(
        self, known: Mapping[str, str | None], first: str, second: str
    ) -> tuple[Winner, float, Usage]:
        model = self._model or EndpointJudge.from_environment()
        given = {name: text for name, text in known.items() if text is not None}
        blocks = {**given, "first": first, "second": second}
        messages = [
            {"role": "system", "content": f"{PREAMBLE}\n\n{self._rubric.describe()}"},
            {"role": "user", "content": f"{fence(blocks, self._options.most_characters)}\n\n{CLOSING}"},
        ]
        answered = await sample_verdicts(model, messages, self._rubric, self._options)
        said = [one.verdict["better"].choice for one in answered]
        winner = _most_said(said)
        return winner, said.count(winner) / len(said), sum((one.usage for one in answered), Usage())


def _most_said(said: Sequence[str]) -> Winner:
    """Of samples that differ evenly none wins: that is a tie, whatever the order of the choices."""
    counts = Counter(said)
    most = [choice for choice, count in counts.items() if count == max(counts.values())]
    return _STRAIGHT[most[0]] if len(most) == 1 else "tie"

"""A reward for which a language model judges by a rubric."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from typing_extensions import override

from ors_server.rewards.define import Reward, RewardFunction
from ors_server.rewards.judges.accounting import Usage
from ors_server.rewards.judges.calibration import Calibration, Labelled, Probing, calibrate, probe
from ors_server.rewards.judges.hardening import is_degenerate, judge_messages
from ors_server.rewards.judges.judge_endpoint import EndpointJudge
from ors_server.rewards.judges.judge_model import JudgeModel, Message
from ors_server.rewards.judges.questions import Answered, Combine, JudgeOptions, Question, ask
from ors_server.rewards.judges.replies import ReadVerdict, read_verdicts
from ors_server.rewards.judges.rubric import Rubric
from ors_server.rewards.result import RewardResult, RewardStatus
from ors_server.rewards.reward_errors import JudgeError, JudgeSettingsError

REASON_CHARACTERS = 2_000
"""Characters of all reasons together, as a metric."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """The combined verdict of several samples."""

    choices: Mapping[str, str]
    """Choice by the criterion's name."""
    agreement: float
    """Share of the samples with that choice, averaged over the criteria; in (0, 1]."""


class RubricJudge(Reward):
    """Has a model judge by a rubric; the reward is the value of its verdict, in [0, 1].

    It takes `final_response`, and optionally `task` or `question` and `answer` (the reference). An answer
    without content is worth 0 without a question. Without a verdict the result is an error, never a number.
    The default model is the endpoint of the environment variables, at the first answer.
    """

    def __init__(
        self,
        rubric: Rubric,
        model: JudgeModel | None = None,
        options: JudgeOptions | None = None,
        *,
        name: str = "rubric_judge",
    ) -> None:
        self.name = name
        self.range = (0.0, 1.0)
        self.rubric = rubric
        self.options = options or JudgeOptions()
        self._model = model

    @property
    @override
    def function(self) -> RewardFunction:
        return self.call

    async def call(
        self, final_response: str, answer: Any = None, task: str | None = None, question: str | None = None
    ) -> RewardResult:
        """Judge one answer.

        Raises:
            JudgeError: If there is no verdict, and `on_error` is `raise`.
        """
        if is_degenerate(final_response, self.options.min_characters):
            return RewardResult(0.0, extras={"judge_degenerate": 1}, reason="the answer has no content")
        task_text = task if task is not None else question
        fields = {"task": task_text, "reference": answer, "answer": final_response}
        blocks = {name: str(value) for name, value in fields.items() if value is not None}
        messages = judge_messages(self.rubric.describe(), blocks, self.options.most_characters)
        try:
            return await self._ask_and_grade(messages)
        except JudgeError as error:
            if self.options.on_error == "raise":
                raise
            return RewardResult.without(RewardStatus.ERROR, str(error), error.extras)

    async def check(self, labelled: Sequence[Labelled], *, threshold: float = 0.5) -> Calibration:
        """Measure the judge on answers that people have judged; see `calibrate`.

        Args:
            threshold: In [0, 1]; a reward of at least this much accepts an answer.
        """
        return await calibrate(self, labelled, threshold=threshold)

    async def probe(self, **fields: Any) -> Probing:
        """Judge answers that deserve nothing; `fields` are the other fields, such as `task`."""
        return await probe(self, fields)

    async def _ask_and_grade(self, messages: Sequence[Message]) -> RewardResult:
        model = self._model or EndpointJudge.from_environment()
        answered = await sample_verdicts(model, messages, self.rubric, self.options)
        agreed = agree([answer.verdict for answer in answered], self.rubric, self.options.combine)
        used = sum((answer.usage for answer in answered), Usage())
        parts = {
            f"rubric_{criterion.name}": criterion.value(agreed.choices[criterion.name])
            for criterion in self.rubric.criteria
        }
        reasons = " ".join(verdict.reason for verdict in answered[0].verdict.values())
        return RewardResult(
            self.rubric.value(agreed.choices),
            extras={
                **parts,
                "judge_agreement": agreed.agreement,
                "judge_reason": reasons[:REASON_CHARACTERS],
                **used.as_extras(),
            },
        )


async def sample_verdicts(
    model: JudgeModel, messages: Sequence[Message], rubric: Rubric, options: JudgeOptions
) -> list[Answered[dict[str, ReadVerdict]]]:
    """Draw the samples of the options at the same time; the verdicts are in their order.

    Raises:
        JudgeError: If a sample has no verdict; its extras have the cost of all samples.
    """
    answered: dict[int, Answered[dict[str, ReadVerdict]]] = {}
    failed: list[JudgeError] = []
    broken: list[JudgeSettingsError] = []

    def read(text: str) -> dict[str, ReadVerdict]:
        return read_verdicts(text, rubric)

    async def draw(sample: int) -> None:
        try:
            answered[sample] = await ask(model, Question(messages, rubric.schema(), sample), read, options)
        except JudgeError as error:
            failed.append(error)
        except JudgeSettingsError as error:
            broken.append(error)

    async with anyio.create_task_group() as group:
        for sample in range(options.samples):
            group.start_soon(draw, sample)
    if broken:
        raise broken[0]
    if failed:
        # The error carries the cost of all samples: those that were answered were paid for, too.
        figures = [*(answer.usage.as_extras() for answer in answered.values())]
        figures += [dict(error.extras) for error in failed]
        names = sorted({name for figure in figures for name in figure})
        failed[0].extras = {name: sum(figure.get(name, 0) for figure in figures) for name in names}
        raise failed[0]
    return [answered[sample] for sample in range(options.samples)]


def agree(samples: Sequence[Mapping[str, ReadVerdict]], rubric: Rubric, combine: Combine) -> Agreed:
    """Combine samples of verdicts, criterion by criterion; of two equal choices the worse one counts."""
    choices: dict[str, str] = {}
    shares: list[float] = []
    for criterion in rubric.criteria:
        ranks = [criterion.choices.index(sample[criterion.name].choice) for sample in samples]
        counts = Counter(ranks)
        # The worse of two equal choices: ranks count from the worst.
        most_frequent = min(counts, key=lambda rank: (-counts[rank], rank))
        rank = most_frequent if combine == "majority" else sorted(ranks)[(len(ranks) - 1) // 2]
        choices[criterion.name] = criterion.choices[rank]
        shares.append(ranks.count(rank) / len(ranks))
    return Agreed(choices, sum(shares) / len(shares))

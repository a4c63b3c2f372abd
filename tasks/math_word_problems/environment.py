"""The environment: a question, a calculator, and one answer, which `math_equal_reward` grades."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from typing_extensions import override

from ors_server import (
    EpisodePolicy,
    IndexedTasks,
    JSONObject,
    RewardResult,
    RewardStatus,
    ToolOutput,
    graded_output,
    math_equal_reward,
    tool,
)
from ors_server_tasks.math_word_problems.answers import ACCEPTED, AnswerError, parse_answer
from ors_server_tasks.math_word_problems.calculator import CalculatorError, calculate
from ors_server_tasks.math_word_problems.generator import EDITION, SPLIT_SIZES, generate

UNREADABLE_LIMIT = 3
"""Submissions without a number after which another one ends the episode."""

_IN_WORDS = {"$": "dollars", "%": "percent"}


class MathWordProblems(IndexedTasks):
    """Word problems of 13 kinds and 3 levels; reward 1.0 for the exact answer and 0.0 for any other number.

    A subclass with another `seed` has other tasks of the same kinds.
    """

    name = "math_word_problems"
    version = f"{EDITION}.1"
    split_sizes = SPLIT_SIZES
    """The edition of the tasks, and that of the prompt and the tools' texts."""
    policy = EpisodePolicy(step_limit=20, reward_range=(0.0, 1.0))
    reward = math_equal_reward
    seed: ClassVar[str] = "math-word-problems-1"
    """Decides all tasks of all splits."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Keep the task."""
        super().__init__(task_spec, secrets)
        self._unreadable = 0

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return {**generate(cls.seed, split, index)}

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        return [("submit", {"answer": task_spec["answer"]})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        return [("submit", {"answer": "0" if Fraction(task_spec["answer"]) else "1"})]

    @override
    def get_prompt(self) -> str:
        unit = self._unit_in_words()
        unit_note = f" ({unit})" if unit else ""
        return (
            f"{self.task_spec['question']}\n\n"
            f"Call submit with one number{unit_note}: a whole number, a decimal or a fraction such as 7/2. "
            "It must be exact unless the question asks you to round. Only the first number that you submit "
            "counts. The calculator tool computes exactly."
        )

    @tool(concurrent=True)
    async def calculator(self, expression: str) -> ToolOutput:
        """Compute an arithmetic expression exactly.

        Supported are + - * / // (quotient) % (remainder) ** (power), parentheses, decimals, and the functions
        sqrt, abs, min, max, round (halves away from zero), floor, ceil, gcd and lcm. A result that is not
        exact begins with ~.

        Args:
            expression: The expression, such as "12 * (3 + 1/4)"; at most 500 characters.
        """
        try:
            return ToolOutput.ongoing(calculate(expression))
        except CalculatorError as error:
            return ToolOutput.ongoing(f"Cannot compute this: {error}.")

    @tool(exclusive=True)
    async def submit(self, answer: str) -> ToolOutput:
        """Submit the answer, which ends the episode.

        A text that is not a number does not count as an answer, but at most three such texts are allowed.

        Args:
            answer: One number: whole (12), decimal (3.5), fraction (7/2) or mixed (3 1/2). A unit may follow.
        """
        try:
            value = parse_answer(answer, self.task_spec["unit"])
        except AnswerError as error:
            return self._refuse(error)
        # A fraction, not the text: the reward reads a long decimal as the fraction that it rounds.
        result = await self.grade(final_response=str(value))
        return graded_output(result, f"Submitted: {value}.", finished=True, metadata={"value": str(value)})

    def _refuse(self, error: AnswerError) -> ToolOutput:
        """Return the output for a submission that is not a number."""
        self._unreadable += 1
        if self._unreadable > UNREADABLE_LIMIT:
            message = f"{error} This was the last attempt; the task ends without an answer."
            result = RewardResult(0.0, RewardStatus.UNPARSED_ANSWER, reason=str(error))
            return graded_output(result, message, finished=True, metadata={"value": None})
        unit = self._unit_in_words()
        hint = f" The answer is in {unit}." if unit else ""
        return ToolOutput.ongoing(f"{error} {ACCEPTED}{hint} Submit again.")

    def _unit_in_words(self) -> str:
        """Return the unit of the answer as a word; empty for a pure number."""
        unit: str = self.task_spec["unit"]
        return _IN_WORDS.get(unit, unit)

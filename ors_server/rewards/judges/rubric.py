"""A judge's criteria with ordered choices, and how they become one number. Pure."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ors_server.rewards.reward_errors import JudgeSettingsError

Aggregate: TypeAlias = Literal["mean", "min"]
"""The mean of the criteria by weight, or the least of them."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MIN_CHOICES = 2
"""Minimum number of choices."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One question that the judge answers with one of its choices.

    Raises:
        JudgeSettingsError: An illegal name or weight, too few or equal choices, an unknown required one.
    """

    name: str
    """A word; the criterion's name in replies and metrics."""
    text: str
    """The question."""
    weight: float = 1.0
    """Above 0; weights need not add up to 1."""
    choices: tuple[str, ...] = ("no", "yes")
    """From worst to best; they are worth 0 to 1 in equal steps."""
    required: bool | str = False
    """Whether the whole is worth 0 unless the best choice, or the named one, is reached."""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise JudgeSettingsError(
                f"expected a word of ASCII letters as a criterion's name, got {self.name!r}"
            )
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise JudgeSettingsError(f"{self.name}: expected a finite weight above 0, got {self.weight}")
        folded = {choice.strip().casefold() for choice in self.choices}
        if len(self.choices) < _MIN_CHOICES or len(folded) < len(self.choices) or "" in folded:
            raise JudgeSettingsError(
                f"{self.name}: expected at least two different choices, got {self.choices!r}"
            )
        if isinstance(self.required, str) and self.required not in self.choices:
            raise JudgeSettingsError(
                f"{self.name}: expected required to be one of {self.choices!r}, got {self.required!r}"
            )

    def value(self, choice: str) -> float:
        """Return the value of a choice, in [0, 1]."""
        return self.choices.index(choice) / (len(self.choices) - 1)

    def is_met(self, choice: str) -> bool:
        """Return whether a choice reaches the required one."""
        if self.required is False:
            return True
        needed = self.choices[-1] if self.required is True else self.required
        return self.choices.index(choice) >= self.choices.index(needed)


@dataclass(frozen=True, slots=True)
class Rubric:
    """Criteria, and how they become one number in [0, 1].

    Raises:
        JudgeSettingsError: No criteria, or two of one name.
    """

    criteria: tuple[Criterion, ...]
    """What is judged, in order."""
    aggregate: Aggregate = "mean"
    """How the scores of the criteria become one number."""
    instructions: str = ""
    """Further instructions to the judge; written by the environment's author, never by an agent."""

    def __post_init__(self) -> None:
        names = [criterion.name for criterion in self.criteria]
        if not names or len(set(names)) < len(names):
            raise JudgeSettingsError(f"expected criteria with different names, got {names}")

    def value(self, choices: Mapping[str, str]) -> float:
        """Return the value of a verdict, in [0, 1]; 0 if a required criterion is not met."""
        if not all(criterion.is_met(choices[criterion.name]) for criterion in self.criteria):
            return 0.0
        values = [criterion.value(choices[criterion.name]) for criterion in self.criteria]
        if self.aggregate == "min":
            return min(values)
        weights = [criterion.weight for criterion in self.criteria]
        total = math.fsum(weights)
        return math.fsum(weight / total * value for weight, value in zip(weights, values, strict=True))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a reply: per criterion a reason, then a verdict."""
        return closed_object(
            {
                criterion.name: closed_object(
                    {
                        "reason": {"type": "string"},
                        "verdict": {"type": "string", "enum": list(criterion.choices)},
                    }
                )
                for criterion in self.criteria
            }
        )

    def describe(self) -> str:
        """Return the part of the prompt with the criteria and the form of the reply."""
        lines = [
            f"- {criterion.name}: {criterion.text} "
            f"Choices, from worst to best: {', '.join(map(repr, criterion.choices))}."
            for criterion in self.criteria
        ]
        form = ", ".join(
            f'"{criterion.name}": {{"reason": "...", "verdict": "..."}}' for criterion in self.criteria
        )
        return "\n".join(
            [
                *([self.instructions] if self.instructions else []),
                "Criteria:",
                *lines,
                "Reply with one JSON object and nothing after it. For every criterion give the reason first,",
                "and after it the verdict, which is exactly one of its choices:",
                f"{{{form}}}",
                "If you cannot write JSON, reason first and end with one line for every criterion:",
                "VERDICT name: choice",
            ]
        )


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }

"""Cases and what became of them: data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ors_server.grading.errors import GradingError


@dataclass(frozen=True)
class TimeLimits:
    """How long an agent's code may take, in seconds."""

    case: float
    """One case; of hidden tests one call into the agent's code."""
    whole: float
    """All cases together."""

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing.

        Raises:
            GradingError: A limit is not above 0.
        """
        if not (self.case > 0 and self.whole > 0):
            raise GradingError(f"time limits are above 0 seconds, not {self.case!r} and {self.whole!r}")


@dataclass(frozen=True)
class StdioCase:
    """One run of a program."""

    stdin: str
    stdout: str
    """What it has to print."""
    arguments: tuple[str, ...] = ()
    """Appended to the command."""
    exit_code: int | None = 0
    """The status it has to end with, in [0, 255]; None accepts any."""
    name: str | None = None
    """Default: `case` and the case's number, from 1."""
    shown: bool = False
    """Whether the reason of a failure may quote input, expected output and answer."""


@dataclass(frozen=True)
class FunctionCase:
    """One call of a function."""

    arguments: tuple[Any, ...] = ()
    """Plain values; the function gets copies."""
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expected: Any = None
    """The value it has to return: plain."""
    raises: str | None = None
    """In place of a value: the name of the error that it has to raise, or of a class above that."""
    name: str | None = None
    """Default: `case` and the case's number, from 1."""
    shown: bool = False
    """Whether the reason of a failure may quote arguments, expected value and answer."""


@dataclass(frozen=True)
class CaseResult:
    """What became of one case."""

    name: str
    passed: bool
    reason: str | None = None
    """Why it failed; expected values are quoted only where the case is `shown`."""


@dataclass(frozen=True)
class CaseReport:
    """What became of all cases, in their order; at least one."""

    results: tuple[CaseResult, ...]

    def __post_init__(self) -> None:
        """Refuse a report of nothing.

        Raises:
            GradingError: There are no results.
        """
        if not self.results:
            raise GradingError("there is no case to grade: a score needs at least one")

    @property
    def total(self) -> int:
        """How many cases there are."""
        return len(self.results)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(result.passed for result in self.results)

    @property
    def fraction(self) -> float:
        """The part that passed, in [0, 1]."""
        return self.passed / self.total

    @property
    def is_perfect(self) -> bool:
        """Whether every case passed."""
        return self.passed == self.total

    def reasons(self, most: int = 50) -> dict[str, str | None]:
        """Return why cases failed, by their names, in their order.

        For a step's metadata, which agents do not see; the texts hold words of the agent's own.

        Args:
            most: How many at most.
        """
        failed = [result for result in self.results if not result.passed][:most]
        return {result.name: result.reason for result in failed}


def name_cases(cases: Iterable[StdioCase | FunctionCase]) -> list[str]:
    """Return the cases' names, in their order.

    Args:
        cases: At least one.

    Raises:
        GradingError: There are none, or two have one name.
    """
    names = [case.name or f"case {number}" for number, case in enumerate(cases, start=1)]
    if not names:
        raise GradingError("there is no case to grade: a score needs at least one")
    if len(set(names)) < len(names):
        raise GradingError("two cases have one name")
    return names

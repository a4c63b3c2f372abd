"""Cases and their results, as data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ors_server.grading.grading_errors import GradingError

MIN_SECONDS = 0.001
"""A shorter rest of a time limit counts as none: times are sums, and sums are rounded."""


@dataclass(frozen=True)
class TimeLimits:
    """Time limits of an agent's code, in seconds."""

    case: float
    """For one case; of hidden tests, for one call into the agent's code."""
    whole: float
    """For all cases together."""

    def __post_init__(self) -> None:
        """Raise `GradingError` unless every limit is above 0."""
        if not (self.case > 0 and self.whole > 0):
            raise GradingError(f"time limits must be above 0 seconds, got {self.case!r} and {self.whole!r}")


@dataclass(frozen=True)
class StdioCase:
    """One run of a program."""

    stdin: str
    """What the program reads on standard input."""
    stdout: str
    """The expected output."""
    arguments: tuple[str, ...] = ()
    """Appended to the command."""
    exit_code: int | None = 0
    """The status it must end with, in [0, 255]; None accepts any."""
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
    """Keyword arguments."""
    expected: Any = None
    """The plain value that it must return."""
    raises: str | None = None
    """Instead of a value: the name of the error that it must raise, or of a class above it."""
    name: str | None = None
    """Default: `case` and the case's number, from 1."""
    shown: bool = False
    """Whether the reason of a failure may quote arguments, expected value and answer."""


@dataclass(frozen=True)
class CaseResult:
    """The result of one case."""

    name: str
    """The case's name."""
    passed: bool
    """Whether the case passed."""
    reason: str | None = None
    """Why it failed; expected values are quoted only if the case is `shown`."""


@dataclass(frozen=True)
class CaseReport:
    """The results of all cases, in their order; at least one."""

    results: tuple[CaseResult, ...]
    """One result for each case, in their order."""

    def __post_init__(self) -> None:
        """Raise `GradingError` if there are no results."""
        if not self.results:
            raise GradingError("there is no case to grade: a score needs at least one")

    @property
    def total(self) -> int:
        """Number of cases."""
        return len(self.results)

    @property
    def passed(self) -> int:
        """Number of cases that passed."""
        return sum(result.passed for result in self.results)

    @property
    def fraction(self) -> float:
        """The share that passed, in [0, 1]."""
        return self.passed / self.total

    @property
    def is_perfect(self) -> bool:
        """Whether every case passed."""
        return self.passed == self.total

    def reasons(self, most: int = 50) -> dict[str, str | None]:
        """Return why cases failed, by their names, in their order; at most `most`.

        For a step's metadata, which agents do not see; the texts may contain text of the agent's.
        """
        failed = [result for result in self.results if not result.passed][:most]
        return {result.name: result.reason for result in failed}


def name_cases(cases: Iterable[StdioCase | FunctionCase]) -> list[str]:
    """Return the cases' names in order; raises `GradingError` if there are none, or two with one name."""
    names = [case.name or f"case {number}" for number, case in enumerate(cases, start=1)]
    if not names:
        raise GradingError("there is no case to grade: a score needs at least one")
    if len(set(names)) < len(names):
        raise GradingError("two cases have one name")
    return names

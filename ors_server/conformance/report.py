"""Verdicts on the requirements of a protocol, and reports of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ors_server.conformance.expectations import NotApplicableError, NotMetError
from ors_server.conformance.ors_manifest import Level, Requirement
from ors_server.conformance.ors_wire import BrokenWireError
from ors_server.model.errors import first_of

CheckResult: TypeAlias = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class RequirementVerdict:
    """Whether a server meets one requirement."""

    requirement: Requirement
    outcome: CheckResult
    reason: str = ""
    """What was expected and what was received, or why the requirement was not judged; empty for a pass."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The verdicts on a server, in the manifest's order."""

    url: str
    verdicts: tuple[RequirementVerdict, ...]

    @property
    def is_conformant(self) -> bool:
        """Whether no MUST failed."""
        return not any(self.failed(Level.MUST))

    def failed(self, level: Level) -> Iterator[RequirementVerdict]:
        """Yield the failures of a level."""
        return (
            verdict
            for verdict in self.verdicts
            if verdict.outcome == "fail" and verdict.requirement.level is level
        )


def verdict_of(
    requirement: Requirement, error: BaseException, unexpected: str = "an answer had an unexpected shape: "
) -> RequirementVerdict:
    """Return the verdict for what a check raised; other errors than a check's begin with `unexpected`."""
    error = first_of(error)
    if isinstance(error, NotApplicableError):
        return RequirementVerdict(requirement, "skip", str(error))
    if isinstance(error, NotMetError | BrokenWireError):
        return RequirementVerdict(requirement, "fail", str(error))
    if isinstance(error, TimeoutError):
        return RequirementVerdict(requirement, "fail", "the server did not answer in time")
    return RequirementVerdict(requirement, "fail", f"{unexpected}{type(error).__name__}: {error}")

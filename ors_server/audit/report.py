"""The result of an audit, as data that serialises itself."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.judgement import AuditVerdict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class TranscriptCall(_Frozen):
    """One call of a transcript."""

    tool: str
    arguments: dict[str, Any]


class AuditTranscript(_Frozen):
    """The shortest calls that show a hole."""

    split: str
    index: int
    seed: int
    calls: tuple[TranscriptCall, ...]
    earned: float | None = None
    """The return of these calls."""
    gold_return: float | None = None
    """The return with which it is compared."""
    replay: str | None = None
    """The command that plays the recorded episode again, if the audit keeps a record."""


class AuditFinding(_Frozen):
    """A hole, or what may be one."""

    verdict: AuditVerdict
    variant: str
    """What the policy did."""
    message: str
    transcript: AuditTranscript | None = None
    file: str | None = None
    """For a finding in the source: its file."""
    line: int | None = None
    rewards: tuple[str, ...] = ()
    """The rewards of this library that judge the environment's answers, and so what was paid here."""


class LibraryReward(_Frozen):
    """A reward of this library that an environment uses."""

    name: str
    hazards: str
    """How it can pay for something else than the task, from its documentation; empty if none is known."""
    page: str
    """Where it is documented."""


class PolicyScore(_Frozen):
    """What one variant of a policy earned."""

    variant: str
    verdict: AuditVerdict
    tasks: int
    mean: float | None
    """Mean return."""
    share: float | None
    """Of what the gold actions earn."""
    low: float | None = None
    """Lower end of the 95 % interval of the share (Wilson)."""
    high: float | None = None


class ClassReport(_Frozen):
    """The verdict on one class."""

    id: str
    verdict: AuditVerdict
    reason: str = ""
    """Why it was not judged, or why a waiver holds."""
    missing: str = ""
    """What to add so that it is judged, such as `gold_actions`; empty if it was, or does not apply."""
    findings: tuple[AuditFinding, ...] = ()
    scores: tuple[PolicyScore, ...] = ()
    """The variants that earned the most, best first."""
    cause: str | None = None
    """The class that the same calls show, if another one comes first."""
    is_waived: bool = False

    @property
    def title(self) -> str:
        """What the class is about."""
        return HACK_CLASSES[self.id].title


class AuditReport(_Frozen):
    """The result of an audit."""

    environment: str
    version: str
    target: str
    """The reference or URL that was audited."""
    tasks: int
    seed: int
    gold_return: float | None
    """Mean return of the gold actions; `None` without them."""
    chance: float
    classes: tuple[ClassReport, ...]
    rewards: tuple[LibraryReward, ...] = ()
    """The rewards of this library that judge the environment's answers."""
    notes: tuple[str, ...] = ()
    source_file: str | None = None
    """The file of the environment's class, if it is known."""
    source_line: int | None = None
    """The first line of the class, from 1."""

    @property
    def failed(self) -> Sequence[ClassReport]:
        """The classes that failed and are not waived."""
        return [
            report for report in self.classes if report.verdict is AuditVerdict.FAIL and not report.is_waived
        ]

    @property
    def warned(self) -> Sequence[ClassReport]:
        """The classes with warnings that are not waived."""
        return [
            report for report in self.classes if report.verdict is AuditVerdict.WARN and not report.is_waived
        ]

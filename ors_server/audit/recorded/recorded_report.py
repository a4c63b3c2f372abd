"""The result of an audit of recorded episodes, as data that serialises itself."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from ors_server.audit.judgement import AuditVerdict


class FindingKind(StrEnum):
    """What recorded episodes are searched for."""

    IDENTICAL_ANSWERS = "identical_answers"
    REPEATED_TRANSCRIPT = "repeated_transcript"
    SHARED_TRICK = "shared_trick"
    MISSING_TOOLS = "missing_tools"
    JUDGE_WORDS = "judge_words"
    GRADER_FILES = "grader_files"
    LENGTH_DRIFT = "length_drift"
    REWARD_COLLAPSED = "reward_collapsed"
    COMPONENT_DOMINATES = "component_dominates"
    REWARD_FARMED = "reward_farmed"
    GIVING_UP = "giving_up"
    PAID_WITHOUT_ANSWER = "paid_without_answer"

    @property
    def hack_class(self) -> str | None:
        """The id of the hack class that it belongs to; `None` where none fits."""
        return _HACK_CLASSES.get(self)


_HACK_CLASSES = {
    FindingKind.IDENTICAL_ANSWERS: "H2",
    FindingKind.REPEATED_TRANSCRIPT: "H2",
    FindingKind.MISSING_TOOLS: "H9",
    FindingKind.JUDGE_WORDS: "H7",
    FindingKind.GRADER_FILES: "H8",
    FindingKind.LENGTH_DRIFT: "H14",
    FindingKind.COMPONENT_DOMINATES: "H13",
    FindingKind.REWARD_FARMED: "H5",
    FindingKind.GIVING_UP: "H20",
    FindingKind.PAID_WITHOUT_ANSWER: "H1",
}


class _RecordedModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class RecordedFinding(_RecordedModel):
    """What recorded episodes of one environment show."""

    kind: FindingKind
    hack_class: str | None
    """`H1` to `H23`; `None` where no class fits."""
    environment: str
    verdict: AuditVerdict
    message: str
    episodes: int
    """How many episodes show it."""
    share: float
    """These episodes as a share of `of`, in [0, 1]."""
    of: str
    """What the share is of: `winning episodes` or `episodes`."""
    episode_ids: tuple[str, ...]
    """At most 10 episodes that show it, of different tasks first."""
    command: str
    """The command that shows the first of them."""


class NotJudged(_RecordedModel):
    """A kind of finding that the record of an environment cannot show."""

    kind: FindingKind
    environment: str
    reason: str


class RecordedEnvironment(_RecordedModel):
    """The episodes of one environment that were judged."""

    environment: str
    episodes: int
    tasks: int
    winning: int
    success_at: float
    """Minimum return of a winning episode."""
    left_out: int
    """Episodes that are not over, that the environment failed, or in which nothing was judged."""


class RecordedReport(_RecordedModel):
    """The result of an audit of recorded episodes."""

    seed: int
    environments: tuple[RecordedEnvironment, ...]
    findings: tuple[RecordedFinding, ...]
    not_judged: tuple[NotJudged, ...] = ()

    @property
    def failed(self) -> Sequence[RecordedFinding]:
        """The findings that fail."""
        return [finding for finding in self.findings if finding.verdict is AuditVerdict.FAIL]

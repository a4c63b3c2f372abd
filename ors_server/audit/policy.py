"""What a policy of the audit is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ors_server.audit.study import Measure, Study

GOLD = "gold_actions"
FIELDS = "answer_fields"
JUDGE = "a judge (ORS_JUDGE_BASE_URL)"
SEED = "sessions with a seed"
BUDGET = "a larger --budget"
"""What an author can add so that a class is judged."""


class NotJudgedError(Exception):
    """A policy cannot judge an environment; the message says why."""

    def __init__(self, message: str, *, missing: str = "") -> None:
        """Tell why.

        Args:
            message: Why it cannot.
            missing: What to add so that it can, such as `GOLD`; empty if the class does not apply.
        """
        super().__init__(message)
        self.missing = missing


class AuditPolicy(ABC):
    """Plays an environment in one dishonest way, and measures what that earns.

    It sees what an agent sees, unless `needs_gold`.
    """

    hack_class: ClassVar[str]
    """The class whose holes it finds, `H1` to `H23`."""
    needs_gold: ClassVar[bool] = False
    """Whether it cannot judge without the environment's `gold_actions`."""
    needs_answer: ClassVar[bool] = False
    """Whether it cannot judge an environment in which no answer is given."""

    has_own_process: ClassVar[bool] = False
    """Whether it plays an own environment in another process only, beside the other policies."""

    needs_scale: ClassVar[bool] = True
    """Whether it cannot judge where the gold actions earn nothing."""

    def check(self, study: Study) -> None:
        """Raise `NotJudgedError` if the environment lacks what the policy needs."""
        if self.needs_gold and not study.has_gold:
            why = "there are no gold_actions, and no field of the tasks is paid as an answer"
            raise NotJudgedError(why, missing=GOLD)
        if self.needs_answer and study.slot is None:
            raise NotJudgedError("no tool takes an answer", missing="" if study.has_gold else GOLD)
        self.check_grading(study)

    def check_grading(self, study: Study) -> None:
        """Raise `NotJudgedError` if the gold actions earn nothing with which a policy could be compared."""
        if study.is_ungraded:
            played = next(iter(study.oracle.values()))
            why = f": {played.failure.splitlines()[0]:.200}" if played.failure else ""
            missing = JUDGE if study.facts.mentions_judge else ""
            raise NotJudgedError(
                f"the gold actions earn no number, so nothing is graded{why}", missing=missing
            )
        if self.needs_scale and study.has_gold and not study.scale.is_usable:
            raise NotJudgedError("the gold actions earn nothing (see H18)", missing=GOLD)

    @abstractmethod
    async def examine(self, study: Study) -> Sequence[Measure]:
        """Play, and return what each variant earned; nothing if no variant fits the environment.

        Raises:
            NotJudgedError: If the environment cannot be judged.
        """

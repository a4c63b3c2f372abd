"""The base of the audit's policies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ors_server.audit.audit_context import AuditContext, VariantResult

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
    """Whether it plays in a separate process, at the same time as the other policies."""

    needs_scale: ClassVar[bool] = True
    """Whether it cannot judge where the gold actions earn nothing."""

    def check(self, context: AuditContext) -> None:
        """Raise `NotJudgedError` if the environment lacks what the policy needs."""
        if self.needs_gold and not context.has_gold:
            why = "there are no gold_actions, and no field of the tasks is paid as an answer"
            raise NotJudgedError(why, missing=GOLD)
        if self.needs_answer and context.slot is None:
            raise NotJudgedError("no tool takes an answer", missing="" if context.has_gold else GOLD)
        self.check_grading(context)

    def check_grading(self, context: AuditContext) -> None:
        """Raise `NotJudgedError` if the gold actions earn nothing that a policy could be compared with."""
        if context.is_ungraded:
            played = next(iter(context.oracle.values()))
            why = f": {played.failure.splitlines()[0]:.200}" if played.failure else ""
            missing = JUDGE if context.facts.mentions_judge else ""
            raise NotJudgedError(
                f"the gold actions earn no number, so nothing is graded{why}", missing=missing
            )
        if self.needs_scale and context.has_gold and not context.scale.is_usable:
            raise NotJudgedError("the gold actions earn nothing (see H18)", missing=GOLD)

    @abstractmethod
    async def examine(self, context: AuditContext) -> Sequence[VariantResult]:
        """Play, and return what each variant earned; nothing if no variant fits the environment.

        Raises:
            NotJudgedError: If the environment cannot be judged.
        """

"""The policies of the audit, one module per family."""

from ors_server.audit.policies.breaking import Executed, HoldsUp, OutOfRange, Unreadable
from ors_server.audit.policies.claims import JudgesItself, TalksToTheJudge
from ors_server.audit.policies.constants import ConstantAnswers, SourceWords
from ors_server.audit.policies.gold_answers import WrongGold
from ors_server.audit.policies.idle import DoesNothing, GivesUp
from ors_server.audit.policies.leaks import ReadsTheAnswer
from ors_server.audit.policies.repetition import AnswersTwice, GoesInCircles, RepeatsSteps
from ors_server.audit.policies.statements import StatesNoAnswer
from ors_server.audit.policies.steadiness import DependsOnLuck, RemembersOthers
from ors_server.audit.policies.texts import FormatAlone, Fragments, ListsEverything, Padding
from ors_server.audit.policies.workshops import ChangesTheGrader
from ors_server.audit.policy import AuditPolicy

POLICIES: tuple[type[AuditPolicy], ...] = (
    DoesNothing,
    ConstantAnswers,
    Fragments,
    ListsEverything,
    RepeatsSteps,
    GoesInCircles,
    TalksToTheJudge,
    ChangesTheGrader,
    ReadsTheAnswer,
    JudgesItself,
    Unreadable,
    OutOfRange,
    FormatAlone,
    Padding,
    HoldsUp,
    Executed,
    DependsOnLuck,
    WrongGold,
    AnswersTwice,
    GivesUp,
    SourceWords,
    RemembersOthers,
    StatesNoAnswer,
)
"""All policies, in the order of their classes."""

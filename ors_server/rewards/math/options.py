"""What a caller may choose, and what the grader says."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "unparsed_answer", "bad_gold", "limit"]


@dataclass(frozen=True, slots=True)
class MathOptions:
    """Conventions of one task."""

    extraction: Literal["lenient", "strict"] = "lenient"
    """Where the answer may stand: `strict` wants a box, an answer tag, `####` or a bare answer; `lenient`
    also takes what follows "the answer is", the last formula or the last number of a text."""
    boxes: Literal["last", "agree"] = "last"
    """What several different boxes mean: the last one counts, or they must all agree."""
    choices: tuple[str, ...] = ()
    """Texts of the choices A, B, C, … of a multiple-choice task, in order."""
    converts_units: bool = False
    """Whether 5 m is 500 cm."""
    rounds_to_gold: bool = False
    """Whether a decimal gold is met by every number that rounds to it at its last printed digit."""
    takes_unevaluated: bool = True
    """Whether an integral, a sum, a limit or a derivative that is left to be worked out stands for its value
    where the gold has none. Equal values are equal, but such an answer may only restate the question."""


@dataclass(frozen=True, slots=True)
class MathVerdict:
    """What came of one comparison."""

    is_equal: bool
    """Whether the answer is the gold. Always false unless the status is `ok`."""
    reason: str
    """Why, in a few words."""
    status: Status
    """`ok`: judged. `unparsed_answer`: no answer was found, or it is no mathematics while the gold is.
    `bad_gold`: the gold cannot be read, or is beyond the grader. `limit`: the answer is beyond it, and so is
    wrong."""
    forms: tuple[str, str]
    """The texts that were compared: the gold's, the answer's."""
    method: Literal["trees", "algebra"] = "trees"
    """How it was decided: by the fast comparison, or by the computer algebra system."""

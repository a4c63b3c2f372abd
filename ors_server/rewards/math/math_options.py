"""Options and verdicts of the math grader."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "unparsed_answer", "bad_gold", "limit"]


@dataclass(frozen=True, slots=True)
class MathOptions:
    """Conventions of one task."""

    extraction: Literal["lenient", "strict"] = "lenient"
    """Where the answer may be: `strict` allows a box, an answer tag, `####` or a bare answer; `lenient` also
    the text after "the answer is", the last formula or the last number of a text."""
    boxes: Literal["last", "agree"] = "last"
    """What counts of several different boxes: the last one, or nothing unless they all agree."""
    choices: tuple[str, ...] = ()
    """Texts of the choices A, B, C, … of a multiple-choice task, in order."""
    converts_units: bool = False
    """Whether 5 m is 500 cm."""
    rounds_to_gold: bool = False
    """Whether a decimal gold answer is met by every number that rounds to it at its last printed digit."""
    takes_unevaluated: bool = True
    """Whether an unevaluated integral, sum, limit or derivative counts as its value if the gold answer has
    none. Equal values are equal, but such an answer may only restate the question."""
    evaluated: bool = False
    """Whether an answer must be at least as evaluated as the gold answer: with the gold answer 1024, 2^{10}
    is wrong; with 2^{10}, both are right. Sums, products, powers, factorials, roots of squares, and functions
    (`sin`, `log`, `binom`, `gcd`, `max`) that the gold answer does not have are left to compute."""


@dataclass(frozen=True, slots=True)
class MathVerdict:
    """The result of one comparison."""

    is_equal: bool
    """Whether the answer equals the gold answer. Always false unless the status is `ok`."""
    reason: str
    """Why, in a few words."""
    status: Status
    """`ok`: compared. `unparsed_answer`: no answer was found, or it is not mathematics while the gold answer
    is. `bad_gold`: the gold answer cannot be parsed, or exceeds a limit. `limit`: the answer exceeds one, and
    so is wrong."""
    forms: tuple[str, str]
    """The compared texts: the gold answer's, the answer's."""
    method: Literal["trees", "algebra"] = "trees"
    """The method that decided: the fast comparison, or the computer algebra system."""

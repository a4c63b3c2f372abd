"""Problems of reasoning-gym, verdicts on answers, and answers that are refused before a dataset's grader."""

import re
from dataclasses import dataclass

MAX_ANSWER = 20_000
"""Characters of an answer that are read."""
_FUNCTIONS = (
    "Abs abs acos acosh asin asinh atan atanh cos cosh cot csc exp ln log pi sec sign sin sinh sqrt tan tanh"
)
FORMULAS = {
    "countdown": frozenset[str](),
    "intermediate_integration": frozenset(_FUNCTIONS.split()),
    "polynomial_multiplication": frozenset[str](),
    "puzzle24": frozenset[str](),
    "simple_integration": frozenset(_FUNCTIONS.split()),
}
"""Datasets whose answers go to SymPy's parser, to the names of functions and constants that they may have."""
NUMBERS = frozenset({"complex_arithmetic"})
"""Datasets that would pay 1 for `nan`."""
_NO_NUMBER = re.compile("nan|inf", re.IGNORECASE)
_FORMULA = re.compile(r"[0-9A-Za-z_+\-*/^(). \t\n]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_POWERS = re.compile(r"(\*\*|\^)[\s(]*[+-]?[\s(]*\d{4}")


@dataclass(frozen=True)
class GeneratedProblem:
    """One problem, as its dataset makes it."""

    question: str
    answer: str


@dataclass(frozen=True)
class Verdict:
    """The score of a dataset's grader for an answer."""

    score: float
    reason: str = ""
    """Why an answer that could not be read was scored 0."""


def refuse(dataset: str, answer: str) -> str:
    """Return why an answer is refused before grading; empty if it is not."""
    if len(answer) > MAX_ANSWER:
        return f"the answer has {len(answer)} characters; at most {MAX_ANSWER} are read"
    if _NO_NUMBER.search(answer) and dataset in NUMBERS:
        return "the answer is not a finite number"
    if dataset not in FORMULAS:
        return ""
    # SymPy's parser evaluates text as Python: an attribute or a dunder name would reach any object.
    if not _FORMULA.fullmatch(answer) or "__" in answer or re.search(r"\.\s*[A-Za-z_]", answer):
        return "the answer is not a formula of numbers, names, brackets and + - * / ^ **"
    # Such a number or power would be computed exactly, for minutes and gigabytes.
    if _POWERS.search(answer) or re.search(r"\d{40}", answer):
        return "the answer has a number or a power that is too large"
    # Single letters are variables.
    unknown = [word for word in _WORD.findall(answer) if len(word) > 1 and word not in FORMULAS[dataset]]
    return f"the answer has the unknown name {unknown[0]!r}" if unknown else ""

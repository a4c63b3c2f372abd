"""Problems of reasoning-gym, verdicts on answers, and the answers that do not get to a dataset's grader."""

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
    """What a dataset pays for an answer."""

    score: float
    reason: str = ""
    """Why an answer that could not be read was scored 0."""


def refuse(dataset: str, answer: str) -> str:
    """Return why an answer does not get to its dataset; empty if it does."""
    if len(answer) > MAX_ANSWER:
        return f"the answer has {len(answer)} characters; at most {MAX_ANSWER} are read"
    if _NO_NUMBER.search(answer) and dataset in NUMBERS:
        return "the answer is no finite number"
    if dataset not in FORMULAS:
        return ""
    if not _FORMULA.fullmatch(answer) or "__" in answer or re.search(r"\.\s*[A-Za-z_]", answer):
        return "the answer is no formula of numbers, names, brackets and + - * / ^ **"
    if _POWERS.search(answer) or re.search(r"\d{40}", answer):
        return "the answer has a number or a power that is too large"
    unknown = [word for word in _WORD.findall(answer) if len(word) > 1 and word not in FORMULAS[dataset]]
    return f"the answer has the unknown name {unknown[0]!r}" if unknown else ""

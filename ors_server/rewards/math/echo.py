r"""Tells the question from an answer: formulas and sentences of the prompt, or what rewrites one. Pure.

`17 + 26` answers "What is 17 + 26?" no more than the question itself does, although it is equal to the gold
answer. A value echoes the prompt if it has something left to compute, and its numbers and letters are those
of a formula of the prompt, or of the whole prompt ("multiply 16 by 15"); 0 and 1 may be added, which change
nothing. A value that the gold answer is written as is never an echo.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ors_server.rewards.math.answer_values import find_values
from ors_server.rewards.math.dress import undress
from ors_server.rewards.math.normalise import unfence, unify
from ors_server.rewards.math.streams import stream

_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_ATOM: Final = re.compile(r"\d+(?:[.,]\d+)*|\\[A-Za-z]+|[A-Za-z]+|[^\sA-Za-z\d{}$\\]")
_DRESS: Final = re.compile(
    r"\\(?:boxed|fbox|left|right|displaystyle|[,;:! ()\[\]]|d?frac(?=[{\d])|tfrac|cfrac)|[${}]"
)
_OPERATION: Final = re.compile(
    r"[+*/^!]|\S\s*-\s*\S|\\(?:d?frac|tfrac|sqrt|cdot|times|div|binom|d?binom|sum|prod|int)|\\?(?:sin|"
    r"cos|tan|cot|sec|csc|log|ln|exp|gcd|lcm|max|min|det|choose|mod|bmod)(?![a-z])|\)\s*\(|"
    r"\d\s*[A-Za-z(\\]"
)
_FRACTION: Final = re.compile(r"-?\s*(?:\\[dt]?frac\s*\{?\d+\}?\s*\{?\d+\}?|\d+\s*/\s*\d+)")
_PERCENTAGE: Final = re.compile(r"%|\bper ?cent\b", re.IGNORECASE)
_HUNDREDTHS: Final = re.compile(
    r"\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*100\s*\}|(?<![\d.])(\d+)\s*/\s*100(?!\d)"
)
"""A percentage that is written as a fraction."""
_NEUTRAL: Final = frozenset({"0", "1"})
_PROMPT_CHARS: Final = 20_000
_EXACT_DIGITS: Final = 12
"""Digits of a number that is compared by its value."""
_SMALL: Final = frozenset({"2", "3", "100"})
"""Numbers that a rewriting may bring: exponents of roots."""
_SKIPPED: Final = frozenset("+-*/^!().,:;=_'\"?[]|~&#<>")
_MARK: Final = re.compile(r"</?answer>|####|```(?:[a-z]{1,10}\n)?|\\(?:boxed|fbox)\s*(?=\{)", re.IGNORECASE)
"""What marks a value as the answer."""
_SENTENCE: Final = re.compile(r"(?<=[.?!])\s+|\n+")
_LETTERS: Final = re.compile(r"[^\W_]+")
_MAX_FORMULAS: Final = 8
_MAX_COMPUTATION: Final = 12
"""Words and numbers of a prompt that is an order to compute."""
_MIN_WORDS: Final = 3
"""Words of a sentence that is recognised in a response."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, read once."""

    sentences: frozenset[str]
    formulas: frozenset[str]
    """The formulas without decoration."""
    written: tuple[str, ...]
    """The first formulas as they are written."""
    numbers: frozenset[str]
    """All numbers; a percentage also as a decimal."""
    is_computation: bool
    """Whether it is a short order to compute, and not a story."""
    parts: tuple[frozenset[tuple[str, int]], ...]
    """Numbers, letters and functions of each formula, and the numbers of the whole, with their counts."""
    has_percentage: bool = False
    """Whether it names a percentage, which a rewriting turns into hundredths."""


@lru_cache(maxsize=256)
def read_prompt(text: str) -> Prompt:
    """Read the formulas and sentences of a prompt; of a long one the last 20,000 characters."""
    text = undress(unify(text[-_PROMPT_CHARS:]))
    formulas = [text[start:end] for start, end in find_values(text)]
    sides = [side for formula in formulas for side in _sides(formula)]
    parts = [_parts(side) for side in sides if _has_operation(side)]
    numbers = [number.rstrip(".,") for number in _NUMBER.findall(text)]
    # A version or a date ("1.0.2") has no hundredth.
    hundredths = [_plain(n) for n in numbers if len(n) < _EXACT_DIGITS and _plain(n).count(".") <= 1]
    whole = frozenset(Counter(number for number in numbers if number not in _NEUTRAL).items())
    return Prompt(
        frozenset(_as_words(sentence) for sentence in _SENTENCE.split(text)),
        frozenset(_written(side) for side in sides if _has_operation(side)),
        tuple(unfence(formula) for formula in formulas if _has_operation(formula))[:_MAX_FORMULAS],
        frozenset(_plain(number) for number in numbers)
        | {f"{float(number) / 100:g}" for number in hundredths},
        bool(numbers) and len(_LETTERS.findall(text)) <= _MAX_COMPUTATION,
        tuple(part for part in (*parts, whole) if part),
        _PERCENTAGE.search(text) is not None,
    )


def is_echo(value: str, prompt: Prompt, gold: str) -> bool:
    """Return whether a value of a response only repeats or rewrites a formula of the prompt."""
    unmarked = unfence(_MARK.sub("", value).strip().rstrip("."))
    # Of a box that is the whole value the braces go, too.
    if "box" in value and unmarked.startswith("{") and unmarked.endswith("}"):
        unmarked = unmarked[1:-1]
    bare = unfence(_sides(unmarked)[-1])
    if (
        not _has_operation(bare)
        or _written(bare) == _written(gold)
        or stream(unfence(bare)) == stream(unfence(gold))
    ):
        return False
    if _written(bare) in prompt.formulas:
        return True
    if _FRACTION.fullmatch(unfence(bare)) is not None:
        return False
    if prompt.has_percentage and _parts(_HUNDREDTHS.sub(r"\1\2", bare)) in prompt.parts:
        return True
    return _parts(bare) in prompt.parts


def has_numbers_of(answer: str, prompt: Prompt) -> bool:
    """Return whether all numbers of an answer, and at least one but 0 and 1, are numbers of the prompt."""
    numbers = {_plain(number.rstrip(".,")) for number in _NUMBER.findall(answer)} - _NEUTRAL
    if prompt.is_computation:
        return True
    return bool(numbers & prompt.numbers) and numbers - _SMALL <= prompt.numbers


def _plain(number: str) -> str:
    bare = number.replace(",", "")
    return f"{float(bare):g}" if bare.count(".") <= 1 and len(bare) < _EXACT_DIGITS else bare


def is_sentence_of(sentence: str, prompt: Prompt) -> bool:
    """Return whether a sentence is one of the prompt's."""
    words = _as_words(sentence)
    return words.count(" ") + 1 >= _MIN_WORDS and words in prompt.sentences


def _has_operation(text: str) -> bool:
    return _OPERATION.search(text.strip().lstrip("-+$ ")) is not None


def _sides(formula: str) -> list[str]:
    r"""Return the sides of an equation; the sign within braces belongs to its side (`\sum_{k=1}^{9} k`)."""
    sides, depth, start = list[str](), 0, 0
    for position, sign in enumerate(formula):
        if sign == "=" and depth <= 0:
            sides.append(formula[start:position])
            start = position + 1
        depth += (sign == "{") - (sign == "}")
    return [*sides, formula[start:]]


def _written(text: str) -> str:
    return "".join(_DRESS.sub("", text).replace("\\cdot", "*").replace("\\times", "*").split()).strip("$.*()")


def _parts(text: str) -> frozenset[tuple[str, int]]:
    atoms = Counter(
        atom.lstrip("\\")
        for atom in _ATOM.findall(_DRESS.sub(" ", text))
        if atom not in _SKIPPED and atom not in _NEUTRAL and atom not in ("\\cdot", "\\times", "\\div")
    )
    return frozenset(atoms.items())


def _as_words(sentence: str) -> str:
    return " ".join(_LETTERS.findall(sentence.casefold()))

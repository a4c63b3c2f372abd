r"""Runs of letters: a product of letters, a word or a unit, by the text around them.

Conventions: in an exponent or an index all letters are factors (`x^{at}`); so are those of a short run next
to an operator or a bracket (`at+2`, `\frac{in}{2}`); elsewhere a short word is a word. If both are possible,
`is_formula` makes the letters factors, and the caller compares both readings.
"""

import re
from typing import Final

from ors_server.rewards.math.scanner import Token
from ors_server.rewards.math.token_names import COMMANDS, CONSTANTS, FUNCTIONS, GREEK, RELATIONS, SHORT_WORDS
from ors_server.rewards.math.units import LONE_LETTERS, WORDS

_MAX_RUN: Final = 3
"""Letters of a run that may be a product."""
_LOOK_BACK: Final = 24
"""Tokens before a letter among which the sign of a sum is searched."""
_ANSWERS: Final = frozenset(
    {"no", "yes", "all", "odd", "any", "red", "one", "two", "six", "ten", "not", "per"}
)
"""Short words that may be an answer by themselves, or part of a unit."""
_SEPARATORS: Final = frozenset({"and", "or"})
_BEHIND_FACTORS: Final = frozenset("^_*/!')]}&")
"""What makes the letters of "and" or "or" behind a value factors."""
_CLOSERS: Final = frozenset({")", "]", "}", "}set", "%", "°", "!", "'", "rbar", "⌋", "⌉", "⟩", "‖"})
_OPENERS: Final = frozenset({"(", "[", "{", "{set", "lbar", "⌊", "⌈", "⟨", "\\\\", "&"})
_AFTER: Final = re.compile(
    r"(?P<space>\s*)(?:(?P<end>\Z)|(?P<sign>[+-])(?=(?P<spaced>\s?))|(?P<real>[})\]^_*/|!'&])|(?P<weak>[,;=<>(])|"
    r"\\(?P<command>[A-Za-z]+|[})]))"
)
_SHORT: Final = SHORT_WORDS | _SEPARATORS | {"pi"} | {word for word in WORDS if word.isalpha()}
_SHORT_RUN: Final = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,3}(?![A-Za-z])")
_LONE_UNIT: Final = re.compile(
    rf"\d(?:\s|\\[ ,;])*(?:\\(?:text|mathrm)\{{)?\s*[{''.join(sorted(LONE_LETTERS))}](?![A-Za-z])|"
    r"(?<![A-Za-z\\])[fghFGH](?:\\left)?\((?![A-Za-z0-9]\)|\\[a-z]+\))"
)
"""A letter after a number that may be a unit, and one before a bracket that may be a function."""
_UNIT: Final = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<power>\^(?:\{(-?\d)\}|(-?\d)))|(?P<over>/)|"
    r"(?P<gap>(?:\s|~|\\[ ,;:!]|\\cdot(?![A-Za-z])|\*|\.)+)"
)


def is_ambiguous(text: str) -> bool:
    """Return whether letters of a text may be a unit, a word or a function as well as factors."""
    if _LONE_UNIT.search(text) is not None:
        return True
    return any(run.lower() in _SHORT for run in _SHORT_RUN.findall(text))


def is_in_formula(
    run: str, before: list[Token], text: str, end: int, *, is_spaced: bool, is_formula: bool
) -> bool:
    """Return whether a short run of letters is a product, by the tokens before it and the text from `end` on.

    `is_spaced` tells whether white space precedes it; `is_formula` makes all possible factors factors.
    """
    if len(run) > _MAX_RUN:
        return False
    left, right = _context_before(before), _context_after(text, end)
    lower = run.lower()
    # `0 or \pi` is two values, and no product of which 0 is a factor
    is_joining = lower in _SEPARATORS and left == "value" and text[end:].lstrip()[:1] not in _BEHIND_FACTORS
    if is_joining or "bad" in (left, right):
        return False
    if is_formula:
        return True
    if left == "value":
        is_glued = not is_spaced and right in ("real", "end")
        return is_glued and lower not in WORDS | _SEPARATORS | _ANSWERS
    is_bracketed = before[-1:] and before[-1][1] == "(" and _context_before(before[:-1]) == "value"
    if left == "real" and (right != "real" or is_bracketed):
        return lower not in (WORDS if is_bracketed else _ANSWERS)  # `12 (in)`
    return "real" in (left, right)


def _context_before(before: list[Token]) -> str:
    if not before:
        return "weak"
    kind, value, _ = before[-1]
    if kind in ("number", "letter", "constant") or (kind == "operator" and value in _CLOSERS):
        return "value"
    if kind == "separator":
        return "weak"
    return "bad" if kind == "word" else "real"


def _context_after(text: str, end: int) -> str:
    match = _AFTER.match(text, end)
    if match is None:
        return "bad"
    if match["end"] is not None:
        return "end"
    if match["sign"]:
        return "real" if not match["space"] or match["spaced"] else "bad"
    if match["command"]:
        name = match["command"]
        if name in COMMANDS or name in RELATIONS or name in ("right", "}", ")"):
            return "real"
        return "weak" if name in GREEK or name in FUNCTIONS or name in CONSTANTS or name == "left" else "bad"
    return "real" if match["real"] else "weak"


def is_term_end(before: list[Token]) -> bool:
    """Return whether a letter after these tokens would be part of the last term of a sum, and not a unit."""
    for index in range(len(before) - 1, max(0, len(before) - _LOOK_BACK), -1):
        kind, value, _ = before[index]
        if kind in ("relation", "separator") or (kind == "operator" and value in _OPENERS):
            return False
        if kind == "operator" and value in "+-" and before[index - 1][0] not in ("relation", "separator"):
            return not (before[index - 1][0] == "operator" and before[index - 1][1] in _OPENERS)
    return False


def unit_pieces(content: str) -> list[Token] | None:
    r"""Return the tokens of a unit that a command sets upright (`m\,s^{-2}`), or `None` for no unit."""
    pieces: list[Token] = []
    position = 0
    while position < len(content):
        match = _UNIT.match(content, position)
        if match is None:
            return None
        position = match.end()
        if match["word"]:
            if match["word"].lower() not in WORDS and match["word"] not in LONE_LETTERS:
                return None
            pieces.append(("word", match["word"], True))
        elif match["power"]:
            pieces += [("operator", "^", False), ("operator", "{", False)]
            power = match[3] or match[4]
            pieces += [("operator", "-", False)] if power.startswith("-") else []
            pieces += [("number", power.lstrip("-"), False), ("operator", "}", False)]
        elif match["over"]:
            pieces.append(("operator", "/", False))
    return pieces or None

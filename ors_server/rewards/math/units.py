"""Units, currencies and the words after a number.

A unit's canonical name is a product of base names with exponents in alphabetical order (`h^-1 km`). Words
that are not a unit ("apples", "different ways") are kept after a `~`, so that they can be recognised and
dropped.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from ors_server.rewards.math.token_names import VOCABULARY, names_by_word
from ors_server.rewards.reading.polarity import classes_of, has_denial, words_of

_UNITS: Final = names_by_word("units")
_COMPOUNDS: Final = {
    "mph": (("mi", 1), ("h", -1)),
    "kmh": (("km", 1), ("h", -1)),
    "kph": (("km", 1), ("h", -1)),
}
_FACTORS: Final = VOCABULARY["factors"]
"""A unit to its base unit and the factor."""
WORDS: Final = frozenset(_UNITS) | frozenset(_COMPOUNDS)
MIXED: Final = frozenset({"kW", "kJ", "kPa", "kHz", "mL"})
"""Units with a capital after a small letter, which else are products."""
LONE_LETTERS: Final = frozenset("mgslhtNJWVL")
"""Letters that are units if a space separates them from a number."""
CURRENCIES: Final = "$€£¥₹¢"
CURRENCY_CODES: Final = frozenset({"usd", "eur", "gbp", "rmb", "cny", "jpy", "inr", "rs"})
"""Codes before an amount."""
_MEGA: Final = re.compile(r"\bM(?=[mgs]\b)")
"""A prefix that only its case distinguishes from `milli`."""
_PIECE: Final = re.compile(r"[^\W\d_]+(?:\.m\.?)?|[$€£¥₹¢%°]|\^-?\d+|/|\S")
_MAX_EXPONENT: Final = 9
_MAX_UNIT_WORDS: Final = 3
_MIN_UNIT_LETTERS: Final = 3
"""Letters of a single word from which on it is never a product."""
_STATING: Final = frozenset(
    {
        "negative",
        "reject",
        "bound_after",
        "suppose",
        "report",
        "maybe",
        "refuse",
        "copula",
        "retract",
        "undecided",
    }
)
"""Classes of words that make a statement about a value and are not part of a unit."""
SCALES: Final[Mapping[str, int | Fraction]] = {
    "halves": Fraction(1, 2),
    "thirds": Fraction(1, 3),
    "fifths": Fraction(1, 5),
    "sixths": Fraction(1, 6),
    "sevenths": Fraction(1, 7),
    "eighths": Fraction(1, 8),
    "ninths": Fraction(1, 9),
    "tenths": Fraction(1, 10),
    "hundredths": Fraction(1, 100),
    "thousandths": Fraction(1, 1000),
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
"""Words behind digits that multiply them. Quarters are coins, too, and seconds are times."""
_CONJUNCTIONS: Final = words_of(
    "and or but than true false echo if else as by divided times from to at on with into thousand million "
    "billion trillion hundred dozen plus minus"
)


def name_unit(words: str) -> str:
    """Return the canonical name of a unit, such as `square centimeters` or `km/h`, or words after a `~`."""
    try:
        powers = _read(_MEGA.sub("mega", words).casefold())
    except ValueError:
        return "~" + " ".join(re.findall(r"[^\W\d_]+|\^?-?\d+", _MEGA.sub("mega", words).casefold()))
    shown = [unit if power == 1 else f"{unit}^{power}" for unit, power in sorted(powers.items()) if power]
    return " ".join(shown)


def agree(first: str, second: str) -> bool:
    """Return whether two canonical names may be one unit.

    A side without a unit agrees with any: the question has named it. Words agree with words that contain them
    ("ways", "different ways").
    """
    if not first or not second or first == second:
        return True
    if first[0] == "~" and second[0] == "~":
        first_names, second_names = _singulars(first), _singulars(second)
        return first_names <= second_names or second_names <= first_names
    if first[0] == "~" or second[0] == "~":
        return False
    return first.startswith("u") != second.startswith("u")


def is_noun_phrase(words: str) -> bool:
    """Return whether words behind a value may be its unknown unit: few of them, and none that says something.

    "42 jars of honey" is a quantity; "42 is wrong" and "42 or more" are statements about 42.
    """
    listed = words.split()
    if len(listed) > _MAX_UNIT_WORDS or not words.isascii():
        return len(listed) == 1 and not words.isascii() and not has_denial(words)
    if len(listed) == 1 and len(words) < _MIN_UNIT_LETTERS:
        return words.casefold() not in ("or", "if")  # two letters are a product
    return not any(classes_of(word) & _STATING for word in listed) and _CONJUNCTIONS.isdisjoint(
        word.casefold() for word in listed
    )


def conversion(source: str, target: str) -> Fraction | None:
    """Return the factor from one unit to another, or `None` if they measure different things."""
    (first, source_factor), (second, target_factor) = _to_base(source), _to_base(target)
    return first / second if source_factor == target_factor else None


def _read(words: str) -> dict[str, int]:
    powers: dict[str, int] = {}
    sign, pending, last = 1, 1, ""
    for piece in _PIECE.findall(words):
        if piece in ("/", "per"):
            sign = -1
        elif piece in ("square", "sq", "cubic", "cu"):
            pending = 2 if piece.startswith("s") else 3
        elif piece[0] == "^" or piece in ("squared", "cubed"):
            exponent = {"squared": 2, "cubed": 3}.get(piece) or int(piece[1:])
            if not last or abs(exponent) > _MAX_EXPONENT:
                raise ValueError(last)
            powers[last] *= exponent
        elif piece not in ".,*-":
            for unit, power in _COMPOUNDS.get(piece) or ((_known(piece), pending),):
                powers[unit] = powers.get(unit, 0) + sign * power
                last = unit
            pending = 1
    return powers


def _known(piece: str) -> str:
    unit = _UNITS.get(piece.rstrip("."))
    if unit is None:
        raise ValueError(piece)
    return unit


def _singulars(words: str) -> set[str]:
    return {word.rstrip("s") for word in words[1:].split()}


def _to_base(name: str) -> tuple[Fraction, dict[str, int]]:
    factor = Fraction(1)
    powers: dict[str, int] = {}
    for part in name.split():
        unit, _, exponent = part.partition("^")
        power = int(exponent or 1)
        base, ratio = _FACTORS.get(unit, (unit, "1"))
        factor *= Fraction(ratio) ** power
        powers[base] = powers.get(base, 0) + power
    return factor, powers

"""Units, currencies and the words after a number.

A unit's canonical name is a product of base names with exponents in alphabetical order (`h^-1 km`). Words
that are not a unit ("apples", "different ways") are kept after a `~`, so that they can be recognised and
dropped.
"""

import re
from fractions import Fraction
from typing import Final

from ors_server.rewards.math.token_names import names_by_word

_UNITS: Final = names_by_word(
    {
        "mm": "mm millimeter millimeters millimetre millimetres",
        "cm": "cm cms centimeter centimeters centimetre centimetres",
        "dm": "dm decimeter decimeters",
        "m": "m meter meters metre metres",
        "km": "km kms kilometer kilometers kilometre kilometres",
        "in": "in inch inches",
        "ft": "ft foot feet",
        "yd": "yd yds yard yards",
        "mi": "mi mile miles",
        "mg": "mg milligram milligrams",
        "g": "g gram grams gm",
        "kg": "kg kgs kilogram kilograms kilo kilos",
        "lb": "lb lbs pound pounds",
        "oz": "oz ounce ounces",
        "t": "ton tons tonne tonnes",
        "ms": "ms millisecond milliseconds",
        "s": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "day days",
        "wk": "week weeks",
        "mo": "month months",
        "yr": "yr yrs year years",
        "ml": "ml milliliter milliliters millilitre",
        "l": "l liter liters litre litres",
        "gal": "gal gallon gallons",
        "$": "$ dollar dollars usd",
        "¢": "¢ cent cents",
        "€": "€ euro euros eur",
        "£": "£ gbp",
        "¥": "¥ yuan yen rmb cny jpy",
        "₹": "₹ rupee rupees inr rs",
        "%": "% percent percentage pct percents",
        "°": "° degree degrees deg",
        "u": "unit units",
        "rad": "rad radian radians",
        "j": "j joule joules",
        "n": "n newton newtons",
        "w": "watt watts",
        "kw": "kw kilowatt kilowatts",
        "kj": "kj kilojoule kilojoules",
        "kpa": "kpa kilopascal kilopascals",
        "mol": "mol mole moles",
        "khz": "khz kilohertz",
        "mhz": "mhz megahertz",
        "ohm": "ohm ohms",
        "acre": "acre acres",
        "ha": "hectare hectares",
        "v": "volt volts",
        "hz": "hz hertz",
        "am": "am a.m",
        "pm": "pm p.m",
    }
)
_COMPOUNDS: Final = {
    "mph": (("mi", 1), ("h", -1)),
    "kmh": (("km", 1), ("h", -1)),
    "kph": (("km", 1), ("h", -1)),
}
_FACTORS: Final = {
    "mm": ("m", "1/1000"),
    "cm": ("m", "1/100"),
    "dm": ("m", "1/10"),
    "km": ("m", "1000"),
    "in": ("m", "127/5000"),
    "ft": ("m", "381/1250"),
    "yd": ("m", "1143/1250"),
    "mi": ("m", "201168/125"),
    "mg": ("kg", "1/1000000"),
    "g": ("kg", "1/1000"),
    "lb": ("kg", "45359237/100000000"),
    "oz": ("kg", "45359237/1600000000"),
    "t": ("kg", "1000"),
    "ms": ("s", "1/1000"),
    "min": ("s", "60"),
    "h": ("s", "3600"),
    "d": ("s", "86400"),
    "wk": ("s", "604800"),
    "ml": ("l", "1/1000"),
    "¢": ("$", "1/100"),
}
"""Exact by definition: the international yard and pound agreement of 1959, the SI, and the calendar's day."""
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
        mine, theirs = _singulars(first), _singulars(second)
        return mine <= theirs or theirs <= mine
    if first[0] == "~" or second[0] == "~":
        return False
    return first.startswith("u") != second.startswith("u")


def conversion(source: str, target: str) -> Fraction | None:
    """Return the factor from one unit to another, or `None` if they measure different things."""
    (first, mine), (second, theirs) = _to_base(source), _to_base(target)
    return first / second if mine == theirs else None


def _read(words: str) -> dict[str, int]:
    powers: dict[str, int] = {}
    sign, pending, last = 1, 1, ""
    for piece in _PIECE.findall(words):
        if piece in ("/", "per"):
            sign = -1
        elif piece in ("square", "sq", "cubic", "cu"):
            pending = 2 if piece.startswith("s") else 3
        elif piece[0] == "^" or piece in ("squared", "cubed"):
            _raise_last(powers, last, {"squared": 2, "cubed": 3}.get(piece) or int(piece[1:]))
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


def _raise_last(powers: dict[str, int], last: str, exponent: int) -> None:
    if not last or abs(exponent) > _MAX_EXPONENT:
        raise ValueError(last)
    powers[last] *= exponent


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

"""The words and signs by which an answer may name its unit."""

from __future__ import annotations

from ors_server_tasks.math_word_problems import vocabulary

_SYNONYMS = {
    "$": ("dollars", "dollar", "USD"),
    "%": ("percent", "per cent"),
    "centimeters": ("centimetres", "centimetre", "cm"),
    "hours": ("hrs", "hr", "h"),
    "kilograms": ("kgs", "kg"),
    "kilometers": ("kilometres", "kilometre", "km"),
    "kilometers per hour": ("kilometres per hour", "km per hour", "km/h", "kph"),
    "liters": ("litres", "litre", "l"),
    "meters": ("metres", "metre", "m"),
    "miles": ("mi",),
    "minutes": ("mins", "min"),
    "people": ("person", "persons"),
    "pounds": ("GBP",),
    "euros": ("EUR",),
    "seconds": ("secs", "sec", "s"),
    "square centimeters": ("square centimetres", "cm2", "cm\u00b2", "cm^2", "sq cm"),
    "square meters": ("square metres", "m2", "m\u00b2", "m^2", "sq m"),
    "years": ("years old", "yrs"),
}
_SINGULARS = {
    noun.plural: noun.singular
    for nouns in (
        vocabulary.KEEPSAKES,
        vocabulary.FRUIT,
        vocabulary.BAKED,
        vocabulary.SUPPLIES,
        vocabulary.CONTAINERS,
    )
    for noun in nouns
} | {"children": "child", "boxes": "box"}


def unit_words(unit: str) -> tuple[str, ...]:
    """What may stand after a number in this unit: the unit, its singular and other names of it.

    Args:
        unit: "$", "%", a plural noun or "", which nothing may follow.
    """
    if not unit:
        return ()
    return (unit, _SINGULARS.get(unit, unit.removesuffix("s")), *_SYNONYMS.get(unit, ()))

"""The forms of English verbs: "rule out" is also "rules out", "ruled out" and "ruling out". Pure."""

from collections.abc import Mapping
from typing import Final, TypeAlias

Irregular: TypeAlias = Mapping[str, tuple[str, ...]]
"""Past tense and participle of verbs that do not follow the rules."""
_VOWELS: Final = "aeiou"
_SIBILANTS: Final = ("s", "x", "z", "ch", "sh", "o")
_DOUBLING: Final = frozenset(
    [
        "bet",
        "brag",
        "chat",
        "chop",
        "compel",
        "control",
        "cram",
        "cut",
        "drop",
        "dub",
        "fit",
        "get",
        "grab",
        "hit",
        "hum",
        "jot",
        "let",
        "omit",
        "pin",
        "plan",
        "pat",
        "permit",
        "plug",
        "prefer",
        "put",
        "quit",
        "refer",
        "regret",
        "rid",
        "rig",
        "rob",
        "rub",
        "run",
        "scrap",
        "scan",
        "set",
        "ship",
        "shrug",
        "shun",
        "sit",
        "skip",
        "slam",
        "slip",
        "snap",
        "sin",
        "span",
        "spin",
        "spit",
        "split",
        "spot",
        "stab",
        "step",
        "stop",
        "strip",
        "submit",
        "sum",
        "swap",
        "swim",
        "tap",
        "tip",
        "top",
        "trap",
        "trim",
        "wed",
        "win",
        "wrap",
        "abut",
        "rebut",
        "forget",
        "begin",
        "abhor",
        "infer",
        "confer",
        "defer",
        "recur",
        "concur",
        "incur",
        "deter",
        "transfer",
        "rot",
        "rip",
        "log",
        "jog",
        "nod",
        "pet",
        "bar",
        "tot",
        "bin",
        "ban",
        "tar",
        "star",
        "stir",
    ]
)
"""Verbs that double their last letter; short ones are not all regular, so they are listed."""


def read_irregular(text: str) -> dict[str, tuple[str, ...]]:
    """Read rows of verb, past tense and participle, separated by commas or line ends."""
    rows = [row.split() for row in text.replace("\n", ",").split(",")]
    return {row[0]: tuple(row[1:]) for row in rows if row}


def inflect(verb: str, irregular: Irregular) -> list[str]:
    """Return the forms of a verb, or of a phrase that begins with one; the plain form first."""
    head, _, rest = verb.partition(" ")
    forms = [head, _third_person(head), _participle(head), *irregular.get(head, (_past(head),))]
    return [f"{form} {rest}".strip() for form in dict.fromkeys(forms)]


def _third_person(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(_SIBILANTS) else "s")


def _participle(verb: str) -> str:
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    return _stem(verb) + "ing"


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return verb[:-1] + "ied"
    return _stem(verb) + "ed"


def _stem(verb: str) -> str:
    return verb + verb[-1] if verb in _DOUBLING else verb

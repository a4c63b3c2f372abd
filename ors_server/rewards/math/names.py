"""The names of values in a list: `a = 1, b = 2`, `n = 1, 2`."""

from ors_server.rewards.math.identity import spell
from ors_server.rewards.math.token_names import GREEK
from ors_server.rewards.math.tree import Node, Relation, Symbol

_WORD = 3
"""Letters of a name that is a word."""


def share_name(items: tuple[Node, ...]) -> list[Node]:
    """Return `n = 1, 2, 3` as `1, 2, 3`."""
    match items:
        case (Relation(("=",), (_, value)), *rest) if rest and not any(
            isinstance(other, Relation) for other in rest
        ):
            return [value, *rest]
        case _:
            return list(items)


def names_of(pairs: list[tuple[Node | None, Node]]) -> list[Node]:
    """Return the names among pairs of name, or `None`, and value."""
    return [name for name, _ in pairs if name is not None]


def are_alike(name: Node | None, other: Node | None) -> bool:
    """Return whether two names may mean one value: a name in words (`slope = 2`) matches any letter."""
    return name is None or other is None or name == other or _is_wordy(name) != _is_wordy(other)


def _is_wordy(name: Node) -> bool:
    text = name.name if isinstance(name, Symbol) else ""
    return " " in text or (len(text) >= _WORD and text.isalpha() and text.islower() and text not in GREEK)


def are_distinct(names: list[Node]) -> bool:
    """Return whether names distinguish their values; `x_1, x_2, …` only number the solutions."""
    if len({spell(name) for name in names}) <= 1:
        return False
    return [spell(name) for name in names] != [
        spell(Symbol(f"{_base(names)}_{index}")) for index in range(1, len(names) + 1)
    ]


def are_one(names: list[Node], nodes: list[Node]) -> bool:
    """Return whether two lists solve for one unknown, which one of them calls by one name throughout."""
    plain = [
        side for side in (names, nodes) if {spell(name) for name in side} == {spell(Symbol(_base(side)))}
    ]
    return bool(plain) and {_base([name]) for name in (*names, *nodes)} == {_base(plain[0])}


def _base(names: list[Node]) -> str:
    return names[0].name.partition("_")[0] if isinstance(names[0], Symbol) else spell(names[0])

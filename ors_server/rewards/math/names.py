"""The names that the members of a list give to their values: `a = 1, b = 2`, `n = 1, 2`."""

from ors_server.rewards.math.identity import spell
from ors_server.rewards.math.tree import Node, Relation, Symbol
from ors_server.rewards.math.vocabulary import GREEK

_WORD = 3
"""Letters of a name that is a word."""


def share_name(items: tuple[Node, ...]) -> list[Node]:
    """Give `n = 1, 2, 3` as `1, 2, 3`.

    Args:
        items: The members of a list.
    """
    match items:
        case (Relation(("=",), (_, value)), *others) if others and not any(
            isinstance(other, Relation) for other in others
        ):
            return [value, *others]
        case _:
            return list(items)


def names_of(pairs: list[tuple[Node | None, Node]]) -> list[Node]:
    """Give the names among pairs of name and value.

    Args:
        pairs: Names, or none, with values.
    """
    return [name for name, _ in pairs if name is not None]


def are_alike(name: Node | None, other: Node | None) -> bool:
    """Say whether two names may stand for one value: a name in words (`slope = 2`) does for any letter.

    Args:
        name: A name, or none.
        other: Another.
    """
    return name is None or other is None or name == other or _is_wordy(name) != _is_wordy(other)


def _is_wordy(name: Node) -> bool:
    text = name.name if isinstance(name, Symbol) else ""
    return " " in text or (len(text) >= _WORD and text.isalpha() and text.islower() and text not in GREEK)


def are_distinct(names: list[Node]) -> bool:
    """Say whether names tell their values apart; `x_1, x_2, …` only number the solutions.

    Args:
        names: The names of a list's members, in order.
    """
    if len({spell(name) for name in names}) <= 1:
        return False
    return [spell(name) for name in names] != [
        spell(Symbol(f"{_base(names)}_{index}")) for index in range(1, len(names) + 1)
    ]


def are_one(names: list[Node], others: list[Node]) -> bool:
    """Say whether two lists solve for one unknown, which one of them calls by one name throughout.

    Args:
        names: The names of one list.
        others: The names of the other.
    """
    plain = [
        side for side in (names, others) if {spell(name) for name in side} == {spell(Symbol(_base(side)))}
    ]
    return bool(plain) and {_base([name]) for name in (*names, *others)} == {_base(plain[0])}


def _base(names: list[Node]) -> str:
    return names[0].name.partition("_")[0] if isinstance(names[0], Symbol) else spell(names[0])

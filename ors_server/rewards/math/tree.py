"""The syntax tree of an answer: frozen data, no behaviour.

An `Expression` has one value once its symbols have values; an `Answer` is an expression or something that an
expression cannot be: a list, a set, an interval, a relation, a matrix, a quantity, words.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Number:
    """A written number, exactly."""

    value: int | Fraction
    places: int = 0
    """Digits that were written after the decimal point."""
    digits: int = 0
    """Significant digits that were written, if the number was written as a decimal, else 0."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name without a value of its own: `x`, `x_1`, `AB`, `∠ABC`, `f'`."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """`pi`, `e`, `i`, `inf`, or a set with a name: `empty`, `reals`, `integers`, …."""

    name: str


@dataclass(frozen=True, slots=True)
class Add:
    """A sum."""

    terms: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Multiply:
    """A product; a quotient is a product with a power of -1."""

    factors: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Power:
    """A base with an exponent."""

    base: "Node"
    exponent: "Node"


@dataclass(frozen=True, slots=True)
class PlusMinus:
    """`±a` (sign 1) or `∓a` (sign -1); it stands for two values."""

    term: "Node"
    sign: int


@dataclass(frozen=True, slots=True)
class Function:
    """A known function of its arguments: `sin`, `log` (argument, base), `root` (radicand, index)."""

    name: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A function that the answer does not define: `f(x)`, `a_{n+1}`. Equal arguments, equal value."""

    name: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Binder:
    """`sum`, `prod`, `int` or `lim` over a variable, or the derivative (`diff`) by one."""

    kind: str
    variable: str
    bounds: "tuple[Node, ...]"
    """Lower and upper bound; one point for a limit; none for an indefinite integral."""
    body: "Node"


@dataclass(frozen=True, slots=True)
class Relation:
    """`a < b ≤ c`: one side more than operators."""

    operators: tuple[str, ...]
    sides: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Group:
    """Several items in brackets, whose kinds are kept: a tuple, a point, an interval, a vector."""

    opening: str
    closing: str
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Set:
    """Items in braces."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers side by side, without brackets."""

    items: "tuple[Node, ...]"
    joiner: str
    """What stood between them: `,`, `;`, `and` or `or`."""


@dataclass(frozen=True, slots=True)
class SetOperation:
    """`∪`, `∩` or `∖` of two sets."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of cells; `kind` is `matrix` or `cases`."""

    kind: str
    rows: "tuple[tuple[Node, ...], ...]"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit, a currency, a percent sign or words behind it."""

    value: "Node"
    unit: str
    """Canonical name: `cm^2`, `$`, `%`, `°`; words that are no known unit stand behind a `~`."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """`a:b:c`, a ratio or a time of day."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Based:
    """A numeral with its base: `204_5`."""

    numeral: str
    base: int


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, or in signs that no grammar reads."""

    text: str
    """Normalised: lower case, single spaces, no closing punctuation."""
    tokens: tuple[str, ...] = ()
    """What is compared: its tokens, with the case of all that is no word of English."""


Expression = (
    Number | Symbol | Constant | Add | Multiply | Power | PlusMinus | Function | Unknown | Binder | Matrix
)
Node = Expression | Relation | Group | Set | Listing | SetOperation | Quantity | Ratio | Based | Words

ONE = Number(1)
MINUS_ONE = Number(-1)


def negate(node: Node) -> Node:
    """Give the node with the opposite sign.

    Args:
        node: What is negated.
    """
    if isinstance(node, Number):
        return Number(-node.value, node.places, node.digits)
    return Multiply((MINUS_ONE, node))


def invert(node: Node) -> Node:
    """Give one over the node.

    Args:
        node: What is inverted.
    """
    return Power(node, MINUS_ONE)


def children(node: Node) -> tuple[Node, ...]:
    """Give the nodes right below one, in order.

    Args:
        node: The node.
    """
    below = _BELOW.get(type(node))
    return () if below is None else below(node)


def symbols(node: Node) -> frozenset[str]:
    """Give the names of all free symbols below a node.

    Args:
        node: The node.
    """
    found: set[str] = set()
    pending = [node]
    bound: set[str] = set()
    while pending:
        current = pending.pop()
        if isinstance(current, Symbol):
            found.add(current.name)
        elif isinstance(current, Binder) and current.kind != "diff":
            bound.add(current.variable)
        pending.extend(children(current))
    return frozenset(found - bound)


def contains(node: Node, kinds: type | tuple[type, ...]) -> bool:
    """Say whether a node of some kind stands at or below a node.

    Args:
        node: Where to look.
        kinds: The kinds looked for.
    """
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, kinds):
            return True
        pending.extend(children(current))
    return False


_BELOW: Final[dict[type, Callable[[Any], tuple[Node, ...]]]] = {
    Add: lambda node: node.terms,
    Multiply: lambda node: node.factors,
    Function: lambda node: node.arguments,
    Unknown: lambda node: node.arguments,
    Relation: lambda node: node.sides,
    Group: lambda node: node.items,
    Set: lambda node: node.items,
    Listing: lambda node: node.items,
    Ratio: lambda node: node.parts,
    Power: lambda node: (node.base, node.exponent),
    SetOperation: lambda node: (node.left, node.right),
    PlusMinus: lambda node: (node.term,),
    Quantity: lambda node: (node.value,),
    Binder: lambda node: (*node.bounds, node.body),
    Matrix: lambda node: tuple(cell for row in node.rows for cell in row),
}
"""What stands right below a node of each kind; below the others stands nothing."""

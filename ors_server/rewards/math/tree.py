"""The syntax tree of an answer: frozen data, no behaviour.

An `Expression` has one value once its symbols have values; an answer is an expression, or a list, a set, an
interval, a relation, a matrix, a quantity or words.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Number:
    """A written number, exactly."""

    value: int | Fraction
    places: int = 0
    """Digits after the decimal point."""
    digits: int = 0
    """Significant digits, if the number was written as a decimal, else 0."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name without a value: `x`, `x_1`, `AB`, `∠ABC`, `f'`."""

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
class Brackets:
    """Several items in brackets of these kinds: a tuple, a point, an interval, a vector."""

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
    """What separates them: `,`, `;`, `and` or `or`."""


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
    """A value with a unit, a currency, a percent sign or words after it."""

    value: "Node"
    unit: str
    """Canonical name: `cm^2`, `$`, `%`, `°`; words that are not a known unit follow a `~`."""


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
    """An answer in words, or in signs that no grammar parses."""

    text: str
    """Normalised: lower case, single spaces, no closing punctuation."""
    tokens: tuple[str, ...] = ()
    """What is compared: its tokens, with the case of everything but words of English."""


Expression = (
    Number | Symbol | Constant | Add | Multiply | Power | PlusMinus | Function | Unknown | Binder | Matrix
)
Node = Expression | Relation | Brackets | Set | Listing | SetOperation | Quantity | Ratio | Based | Words

ONE = Number(1)
MINUS_ONE = Number(-1)


def negate(node: Node) -> Node:
    """Return the node with the opposite sign."""
    if isinstance(node, Number):
        return Number(-node.value, node.places, node.digits)
    return Multiply((MINUS_ONE, node))


def invert(node: Node) -> Node:
    """Return one over the node."""
    return Power(node, MINUS_ONE)


def product_of(factors: Sequence[Node]) -> Node:
    """Return the product of factors: 1 for none, the factor itself for one."""
    return Multiply(tuple(factors)) if len(factors) > 1 else factors[0] if factors else ONE


def children(node: Node) -> tuple[Node, ...]:
    """Return the child nodes of a node, in order."""
    below = _BELOW.get(type(node))
    return () if below is None else below(node)


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes of its tree, each before its children."""
    yield node
    for child in children(node):
        yield from walk(child)


def symbols(node: Node) -> frozenset[str]:
    """Return the names of all free symbols of a tree."""
    names: set[str] = set()
    pending = [node]
    bound: set[str] = set()
    while pending:
        current = pending.pop()
        if isinstance(current, Symbol):
            names.add(current.name)
        elif isinstance(current, Binder) and current.kind != "diff":
            bound.add(current.variable)
        pending.extend(children(current))
    return frozenset(names - bound)


def contains(node: Node, kinds: type | tuple[type, ...]) -> bool:
    """Return whether a tree has a node of some kinds."""
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
    Brackets: lambda node: node.items,
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
"""The children of a node of each kind; other nodes have none."""

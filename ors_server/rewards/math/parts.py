r"""The parts of an answer in a comparison: members, cells, quotients, words, declarations of parameters.

Convention: that a parameter is an integer (`k` of `2k\pi, k \in \mathbb{Z}`) need not be declared; a bounded
letter (`n > 3, n \in \mathbb{Z}`) is not a parameter.

Computes sums, multiples and products of matrices cell by cell.
"""

from itertools import pairwise
from typing import Final

from ors_server.rewards.math.everyday import spelled_number
from ors_server.rewards.math.expand import expand
from ors_server.rewards.math.limits import ITEMS, LimitError
from ors_server.rewards.math.names import share_name
from ors_server.rewards.math.realsets import ORDERS
from ors_server.rewards.math.relations import as_assignments
from ors_server.rewards.math.tree import (
    Add,
    Based,
    Brackets,
    Constant,
    Listing,
    Matrix,
    Multiply,
    Node,
    Number,
    Power,
    Ratio,
    Relation,
    Set,
    SetOperation,
    Symbol,
    Unknown,
    Words,
    contains,
    invert,
    negate,
    product_of,
    symbols,
)
from ors_server.rewards.math.units import LONE_LETTERS, name_unit

_MAX_FACTORS = 4
"""Greatest power of a matrix that is computed."""
Rows = tuple[tuple[Node, ...], ...]


def fold(node: Node) -> Node:
    """Return the matrix of a sum or product of matrices; any other node is returned unchanged.

    Raises:
        LimitError: The matrix has too many cells.
    """
    # Most answers have no matrix, and `contains` is cheap.
    if not isinstance(node, Add | Multiply | Power) or not contains(node, Matrix):
        return node
    rows = (
        _add(node)
        if isinstance(node, Add)
        else _multiply(node)
        if isinstance(node, Multiply)
        else _raise(node)
    )
    return node if rows is None else Matrix("matrix", rows)


def _rows(node: Node) -> Rows | None:
    folded = fold(node)
    if not isinstance(folded, Matrix):
        return None
    # Before the product, whose cells are sums of as many terms.
    if sum(map(len, folded.rows)) > ITEMS:
        raise LimitError(f"more than {ITEMS} cells")
    return folded.rows


def _add(node: Add) -> Rows | None:
    total: Rows | None = None
    for term in node.terms:
        rows = _rows(term)
        if rows is None:
            return None
        total = rows if total is None else _plus(total, rows)
        if total is None:
            return None
    return total


def _plus(first: Rows, second: Rows) -> Rows | None:
    if [len(row) for row in first] != [len(row) for row in second]:
        return None
    return tuple(
        tuple(Add(pair) for pair in zip(row, other, strict=True))
        for row, other in zip(first, second, strict=True)
    )


def _multiply(node: Multiply) -> Rows | None:
    scalars: list[Node] = []
    product: Rows | None = None
    for factor in node.factors:
        rows = _rows(factor)
        if rows is None:
            # Numbers and letters between the matrices are factors of every cell.
            scalars.append(factor)
            continue
        product = rows if product is None else _times(product, rows)
        if product is None:
            return None
    if product is None or not scalars:
        return product
    return tuple(tuple(Multiply((*scalars, cell)) for cell in row) for row in product)


def _times(first: Rows, second: Rows) -> Rows | None:
    # Shapes that do not fit have no product.
    if any(len(row) != len(second) for row in first) or len({len(row) for row in second}) != 1:
        return None
    columns = tuple(zip(*second, strict=True))
    return tuple(
        tuple(Add(tuple(Multiply(pair) for pair in zip(row, column, strict=True))) for column in columns)
        for row in first
    )


def _raise(node: Power) -> Rows | None:
    rows = _rows(node.base)
    if rows is None:
        return None
    match node.exponent:
        # `A^T` is the transpose, for a symbol T only: another exponent is a power.
        case Symbol("T" | "t") | Constant("top"):
            return tuple(zip(*rows, strict=True)) if len({len(row) for row in rows}) == 1 else None
        case Number(-1):
            return _invert(rows)
        case Number(int(count)) if 0 < count <= _MAX_FACTORS:
            product: Rows | None = rows
            for _ in range(count - 1):
                product = None if product is None else _times(product, rows)
            return product
        case _:
            return None


def _invert(rows: Rows) -> Rows | None:
    match rows:
        # Two by two, by the adjugate; a larger inverse is not computed here.
        case ((a, b), (c, d)):
            over = invert(Add((Multiply((a, d)), negate(Multiply((b, c))))))
            return (Multiply((over, d)), Multiply((over, negate(b)))), (
                Multiply((over, negate(c))),
                Multiply((over, a)),
            )
        case _:
            return None


_BOTH: Final = 2
_MAX_BASE: Final = 36
_OTHERWISE: Final = frozenset({"otherwise", "else", "elsewhere"})
_NAMED_SETS: Final = {
    "empty set": "empty",
    "null set": "empty",
    "all real number": "reals",
    "all real": "reals",
    "real number": "reals",
    "set of real number": "reals",
    "set of all real number": "reals",
}


def prepare(node: Node) -> Node:
    """Convert an answer to the form in which it is compared: no `±`, no `x ∈`, no sums of matrices."""
    node = expand(node)
    if isinstance(node, Words):
        return _named(node)
    if isinstance(node, Relation) and node.operators == ("∈",):
        return prepare(node.sides[1])
    return fold(_reshape(as_assignments(node)))


def _named(node: Words) -> Node:
    """Return the set or the number that words name, or the words."""
    name = _NAMED_SETS.get(" ".join(node.tokens))
    number = spelled_number(node.text)
    return Constant(name) if name is not None else node if number is None else Number(number)


def is_derivation(gold: Node, answer: Node) -> bool:
    """Return whether both are chains of the same length, whose steps are compared as they are written."""
    if not (isinstance(gold, Relation) and isinstance(answer, Relation)):
        return False
    operators = gold.operators
    # Two chains of equal form show the same derivation; a single `≈` counts as one.
    is_chain = len(operators) > 1 and set(operators) <= {"=", "≈"}
    return operators == answer.operators and (is_chain or operators == ("≈",))


def joins_otherwise(gold: Node, answer: Node) -> bool:
    """Return whether one of two lists of inequalities is joined by "and", the other by "or"."""
    return (
        isinstance(gold, Listing)
        and isinstance(answer, Listing)
        and {gold.joiner, answer.joiner} == {"and", "or"}
        # "x < 1 and x > 3" is not "x < 1 or x > 3"; among values the word does not matter.
        and (
            (_are_bounds(gold) and _are_bounds(answer)) or (_are_statements(gold) and _are_statements(answer))
        )
    )


def _are_statements(node: Listing) -> bool:
    return all(isinstance(item, Symbol) for item in node.items)


def _are_bounds(node: Node) -> bool:
    items = node.items if isinstance(node, Listing) else (node,)
    return all(isinstance(item, Relation) and set(item.operators) <= ORDERS | {"≠"} for item in items)


def bounds_another(gold: Node, answer: Node) -> bool:
    """Return whether two inequalities, or lists of them, are about different variables."""
    # An inequality describes a set only for its own variable.
    names = [symbols(node) for node in (gold, answer) if _are_bounds(node) and not contains(node, Unknown)]
    return len(names) == _BOTH and all(len(name) == 1 for name in names) and names[0] != names[1]


def _reshape(node: Node) -> Node:
    match node:
        # A column of equations is a system of them.
        case Matrix(_, rows) if len(rows) > 1 and all(
            len(row) == 1 and isinstance(row[0], Relation) for row in rows
        ):
            return Listing(tuple(row[0] for row in rows), "and")
        # `[[1, 2], [3, 4]]` is a matrix in the notation of programs.
        case Brackets("[", "]", items) if len(items) > 1 and all(
            isinstance(item, Brackets) for item in items
        ):
            return Matrix("matrix", tuple(item.items for item in items if isinstance(item, Brackets)))
        case _:
            return node


def members(node: Node) -> list[Node] | None:
    """Return the members of a list, a set or a point; `None` for anything else."""
    match node:
        case Listing(items):
            return share_name(items)
        case Set(items) | Brackets(_, _, items):
            return list(items)
        case _:
            return None


def united(node: Node) -> list[Node]:
    """Return the parts of a union; the members of a set are parts of their own."""
    if isinstance(node, SetOperation) and node.operator == "∪":
        return united(node.left) + united(node.right)
    return list(node.items) if isinstance(node, Set) else [node]


def rows_of(node: Node) -> tuple[tuple[Node, ...], ...] | None:
    """Return the rows of a matrix or of a point, which is a column; `None` for anything else."""
    match node:
        case Matrix(_, rows):
            return rows
        case Brackets("(", ")", items):
            return tuple((item,) for item in items)
        case _:
            return None


def cases_of(node: Matrix) -> list[tuple[Node, ...]]:
    """Return the lines of a definition by cases, value and condition; "otherwise" is the uncovered rest."""
    conditions = [row[-1] for row in node.rows if len(row) > 1 and isinstance(row[-1], Relation)]
    covered: Node | None = None
    for condition in conditions:
        covered = condition if covered is None else SetOperation("∪", covered, condition)
    if covered is None:
        return list(node.rows)
    # The rest of the real line, so that "otherwise" equals the written-out condition.
    rest = SetOperation("∖", Constant("reals"), covered)
    return [
        tuple(rest if isinstance(cell, Words) and cell.text in _OTHERWISE else cell for cell in row)
        for row in node.rows
    ]


def peel_unit(node: Node) -> tuple[Node, str] | None:
    """Return the value and the unit that a product with letters may be: `5m`, `1.5 m s^{-1}`."""
    if not isinstance(node, Multiply):
        return None
    words: list[str] = []
    # From the end: units follow the value.
    factors = list(node.factors)
    while factors and (word := _unit_word(factors[-1])):
        words.insert(0, word)
        del factors[-1]
    if not words or not factors:
        return None
    return product_of(factors), name_unit(" ".join(words))


def _unit_word(node: Node) -> str:
    match node:
        case Symbol(name) if name in LONE_LETTERS:
            return name
        case Power(Symbol(name), Number(int(power))) if name in LONE_LETTERS:
            return f"{name} ^{power}"
        case Power(Symbol(name), Multiply((Number(-1), Number(int(power))))) if name in LONE_LETTERS:
            return f"{name} ^-{power}"
        case _:
            return ""


def value_of(node: Based) -> int | None:
    """Return the value of a numeral with letters as digits, or `None`: without them its base is a label."""
    is_coded = not node.numeral.isdecimal() and node.base <= _MAX_BASE
    try:
        return int(node.numeral, node.base) if is_coded else None
    except ValueError:
        return None


def quotients(node: Node) -> list[Node] | None:
    """Return the quotients of neighbours in a ratio; `None` if one would be by zero."""
    # Quotients of neighbours determine a ratio up to a common factor.
    if not isinstance(node, Ratio) or any(
        isinstance(part, Number) and part.value == 0 for part in node.parts
    ):
        return None
    return [Multiply((first, invert(second))) for first, second in pairwise(node.parts)]


def drop_declarations(gold: Node, answer: Node) -> tuple[Node, Node]:
    r"""Drop the declarations of parameters of both sides: `k \in \mathbb{Z}`."""
    gold_tree, answer_tree = _undeclared(gold), _undeclared(answer)
    return (gold if gold_tree is None else gold_tree), (answer if answer_tree is None else answer_tree)


def _undeclared(node: Node) -> Node | None:
    """Return an answer without its declarations, or `None` without declarations, or with nothing else."""
    match node:
        # A declaration behind an equation may have been read as a factor of its last side.
        case Relation(operators, (*sides, Add() | Multiply() as last)):
            bare = _undeclared(last)
            return None if bare is None else Relation(operators, (*sides, bare))
        case Add((*terms, Multiply() as last)):
            bare = _undeclared(last)
            return None if bare is None else Add((*terms, bare))
        case Listing(parts) | Multiply(parts):
            return _without_declarations(node, parts)
        case _:
            return None


def _without_declarations(node: Listing | Multiply, parts: tuple[Node, ...]) -> Node | None:
    values = tuple(part for part in parts if not _declares(part))
    # A bounded letter is not a parameter: dropping its declaration would change the answer.
    bounded = any(isinstance(part, Relation) and set(part.operators) & ORDERS for part in values)
    if not values or len(values) == len(parts) or bounded:
        return None
    if len(values) == 1:
        return values[0]
    return Listing(values, node.joiner) if isinstance(node, Listing) else Multiply(values)


def _declares(node: Node) -> bool:
    match node:
        case Relation(("∈",), (Symbol(), Constant("integers" | "naturals") | Symbol("Z" | "N"))):
            return True
        case _:
            return False

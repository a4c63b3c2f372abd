"""Computes sums, multiples and products of matrices cell by cell."""

from ors_server.rewards.math.limits import ITEMS, LimitError
from ors_server.rewards.math.tree import (
    Add,
    Constant,
    Matrix,
    Multiply,
    Node,
    Number,
    Power,
    Symbol,
    contains,
    invert,
    negate,
)

_MAX_FACTORS = 4
"""Greatest power of a matrix that is computed."""
Rows = tuple[tuple[Node, ...], ...]


def fold(node: Node) -> Node:
    """Return the matrix of a sum or product of matrices; any other node is returned unchanged.

    Raises:
        LimitError: The matrix has too many cells.
    """
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
            scalars.append(factor)
            continue
        product = rows if product is None else _times(product, rows)
        if product is None:
            return None
    if product is None or not scalars:
        return product
    return tuple(tuple(Multiply((*scalars, cell)) for cell in row) for row in product)


def _times(first: Rows, second: Rows) -> Rows | None:
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
        case ((a, b), (c, d)):
            over = invert(Add((Multiply((a, d)), negate(Multiply((b, c))))))
            return (Multiply((over, d)), Multiply((over, negate(b)))), (
                Multiply((over, negate(c))),
                Multiply((over, a)),
            )
        case _:
            return None

"""Sums, multiples and products of matrices, written out cell by cell."""

from ors_server.rewards.math.limits import ITEMS, LimitError
from ors_server.rewards.math.tree import Add, Matrix, Multiply, Node, contains

Rows = tuple[tuple[Node, ...], ...]


def fold(node: Node) -> Node:
    """Give the matrix that a sum or product of matrices is; anything else is given back.

    Args:
        node: An answer.

    Raises:
        LimitError: The matrix has too many cells.
    """
    if not isinstance(node, Add | Multiply) or not contains(node, Matrix):
        return node
    rows = _add(node) if isinstance(node, Add) else _multiply(node)
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
        tuple(Add(pair) for pair in zip(row, other, strict=True)) for row, other in zip(first, second, strict=True)
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

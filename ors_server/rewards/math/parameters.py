r"""Parameters of an answer: `k` of `2k\pi, k \in \mathbb{Z}`.

Convention: that a parameter is an integer need not be declared; a bounded letter (`n > 3, n \\in
\\mathbb{Z}`) is not a parameter.
"""

from ors_server.rewards.math.realsets import ORDERS
from ors_server.rewards.math.tree import Add, Constant, Listing, Multiply, Node, Relation, Symbol


def drop_declarations(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Drop the declarations of parameters of both sides."""
    mine, theirs = _undeclared(gold), _undeclared(answer)
    return (gold if mine is None else mine), (answer if theirs is None else theirs)


def _undeclared(node: Node) -> Node | None:
    """Return an answer without its declarations, or `None` if it has none, or nothing else."""
    match node:
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
    kept = tuple(part for part in parts if not _declares(part))
    bounded = any(isinstance(part, Relation) and set(part.operators) & ORDERS for part in kept)
    if not kept or len(kept) == len(parts) or bounded:
        return None
    if len(kept) == 1:
        return kept[0]
    return Listing(kept, node.joiner) if isinstance(node, Listing) else Multiply(kept)


def _declares(node: Node) -> bool:
    match node:
        case Relation(("∈",), (Symbol(), Constant("integers" | "naturals") | Symbol("Z" | "N"))):
            return True
        case _:
            return False

"""The tree of an expression. Positions count from 1, in characters of the text."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    value: Fraction
    position: int


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus sign before an operand."""

    operand: Expression
    position: int


@dataclass(frozen=True, slots=True)
class Operation:
    """Two operands and what joins them: one of + - * / // % **."""

    operator: str
    left: Expression
    right: Expression
    position: int
    """Of the operator."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments, in order."""

    function: str
    arguments: tuple[Expression, ...]
    position: int


Expression: TypeAlias = Number | Negation | Operation | Call

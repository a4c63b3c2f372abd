"""Builds the tree of an expression by operator precedence (Pratt's method).

From loose to tight: + and -, then * / // %, then a sign, then ** which groups from the right, as in Python.
Nesting is bounded, so that neither this module nor the evaluator can exhaust the stack; a long chain such as
1+1+...+1 does not nest.
"""

from __future__ import annotations

from fractions import Fraction

from ors_server_tasks.math_word_problems.calculator.limits import DEPTH_LIMIT, CalculatorError
from ors_server_tasks.math_word_problems.calculator.tokens import Token, tokenize
from ors_server_tasks.math_word_problems.calculator.tree import Call, Expression, Negation, Number, Operation

_LOOSEST = 0
_SIGN = 30
_STRENGTHS = {
    "+": (10, 10),
    "-": (10, 10),
    "*": (20, 20),
    "/": (20, 20),
    "//": (20, 20),
    "%": (20, 20),
    "**": (40, 39),
}
"""How tightly each operator binds its left and its right operand; ** is weaker on its right."""

_NO_OPERAND = frozenset({"", ")", ",", "of", *_STRENGTHS})
"""What may follow a percent sign by mistake."""


def parse(text: str) -> Expression:
    """Builds the tree of an expression.

    Raises:
        CalculatorError: The text is not an expression, or is too long or too deep.
    """
    parser = _Parser(tokenize(text))
    if parser.peek().kind == "end":
        raise CalculatorError("the expression is empty", 1)
    tree = parser.expression(_LOOSEST)
    if parser.peek().kind != "end":
        raise _unexpected(parser.peek())
    return tree


class _Parser:
    """The tokens that are still to be read, and how deep the reading is nested."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    def peek(self) -> Token:
        """The first token not read yet; the end never runs out."""
        return self._tokens[self._place]

    def expression(self, strength: int) -> Expression:
        """Reads an operand and every operator after it that binds more tightly than `strength`."""
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            message = f"the expression is nested more than {DEPTH_LIMIT} deep"
            raise CalculatorError(message, self.peek().position)
        left = self._operand()
        while (token := self.peek()).text in _STRENGTHS and _STRENGTHS[token.text][0] > strength:
            self._advance()
            if token.text == "%" and self.peek().text != "-" and self.peek().text in _NO_OPERAND:
                message = "% is the remainder of a division and needs a number after it; write 20/100 for 20%"
                raise CalculatorError(message, token.position)
            right = self.expression(_STRENGTHS[token.text][1])
            left = Operation(token.text, left, right, token.position)
        self._depth -= 1
        return left

    def _advance(self) -> Token:
        token = self.peek()
        if token.kind != "end":
            self._place += 1
        return token

    def _operand(self) -> Expression:
        token = self._advance()
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            return self._call(token)
        if token.text == "-":
            return Negation(self.expression(_SIGN), token.position)
        if token.text == "+":
            return self.expression(_SIGN)
        if token.text == "(":
            inner = self.expression(_LOOSEST)
            self._close()
            return inner
        raise _unexpected(token)

    def _number(self, token: Token) -> Number:
        if self.peek().kind in {"name", "number"} or self.peek().text == "(":
            message = "an operator is missing: write 2*(3) for 2(3) and 5*10**3 for 5e3"
            raise CalculatorError(message, self.peek().position)
        return Number(Fraction(token.text), token.position)

    def _call(self, name: Token) -> Call:
        if self.peek().text != "(":
            message = f"{name.text!r} has no value: names stand only for functions, as in sqrt(2)"
            raise CalculatorError(message, name.position)
        self._advance()
        arguments = [self.expression(_LOOSEST)]
        while self.peek().text == ",":
            self._advance()
            arguments.append(self.expression(_LOOSEST))
        self._close()
        return Call(name.text, tuple(arguments), name.position)

    def _close(self) -> None:
        if self.peek().text != ")":
            raise _unexpected(self.peek())
        self._advance()


def _unexpected(token: Token) -> CalculatorError:
    """Return the error for a token at a wrong position."""
    if token.text == ",":
        return CalculatorError("a comma is not allowed in a number: write 1234 for 1,234", token.position)
    if token.kind == "end":
        return CalculatorError("the expression ends too early", token.position)
    return CalculatorError(f"{token.text!r} is not expected here", token.position)

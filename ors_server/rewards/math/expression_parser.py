r"""A recursive-descent parser of expressions: everything that has a value.

Conventions: `1/2x` is `(1/2)x` (left to right, as on a calculator); `-3^2` is `-(3^2)`; `x^12` is `x^{12}`
(the likely meaning, not what TeX prints); `\sin 2x` takes the product after it and stops at a sign, a `*`, a
`/` or another function; `\sin(x)^2` is the square of the sine; `3\frac{1}{2}` and `3 1/2` are mixed numbers,
for a fraction of any size, and `3(1/2)` is a product; two numbers side by side are refused; `i`, `e`, `\pi`
are the constants; `f`, `g`, `h` before a bracket are functions.
"""

from typing import Final

from ors_server.rewards.math.limits import SyntaxUnknownError
from ors_server.rewards.math.operand_parser import OperandParser
from ors_server.rewards.math.tree import (
    Add,
    Function,
    Multiply,
    Node,
    Number,
    PlusMinus,
    Power,
    Quantity,
    invert,
    negate,
    product_of,
)
from ors_server.rewards.math.written_numbers import mix, to_fraction

_STARTS: Final = frozenset({"number", "letter", "constant", "function", "binder", "accent", "begin"})
_POSTFIX: Final = frozenset({"^", "!", "%", "°"})
_BRACKETS: Final = frozenset("()[]")
_OPENERS: Final = frozenset({"(", "[", "{", "{set", "lbar", "⌊", "⌈", "∠", "△", "‖"})


class ExpressionParser(OperandParser):
    """Parses sums and products."""

    def parse_sum(self) -> Node:
        """Parse terms with signs between them."""
        self.enter()
        terms = [self._parse_signed_term()]
        while self.is_next("+", "-", "±", "∓"):
            terms.append(self._parse_signed_term())
        self.leave()
        return terms[0] if len(terms) == 1 else Add(tuple(terms))

    def _parse_signed_term(self) -> Node:
        is_negative = False
        double = ""
        while self.is_next("+", "-", "±", "∓"):
            sign = self.take()
            is_negative ^= sign == "-"
            if sign in "±∓":
                double = sign
            elif double == "" and sign == "+" and self.skip("/"):
                self.expect("-")
                double = "±"
        term = self.parse_term()
        if double:
            return PlusMinus(term, 1 if double == "±" else -1)
        if is_negative and isinstance(term, Function) and term.name == "mod":
            return Function("mod", (negate(term.arguments[0]), term.arguments[1]))  # (-1) mod 3 is 2
        return _negate_term(term) if is_negative else term

    def parse_term(self) -> Node:
        """Parse factors, with or without a multiplication sign between them."""
        factors: list[Node] = [self.parse_factor()]
        while True:
            if self.skip("*"):
                factors.append(self.parse_factor())
            elif self.is_next("/") and self.peek(1)[0] != "word":
                self.take()
                factors.append(invert(self.parse_factor()))
            elif self.skip("mod"):
                factors = [Function("mod", (product_of(factors), self.parse_factor()))]
            elif self._is_product_next():
                self._parse_adjacent(factors)
            else:
                return product_of(factors)

    def _is_product_next(self) -> bool:
        kind, value, _ = self.peek()
        if self._is_in_integral and value == "d" and self.peek(1)[0] == "letter":
            return False
        if kind == "operator" and value == "‖":
            return not self._is_in_norm
        if kind == "operator" and value == "|":
            if self._is_in_set or self._bars == 0:
                return not self._is_in_set
            # Within bars, one more opens only directly behind another: `||x| - 1|`.
            kind, value, _ = self.peek(1)
            is_after_bar = self._tokens[self.position - 1][1] == "|"
            return is_after_bar and (kind in _STARTS or value in _OPENERS)
        return kind in _STARTS or (kind == "operator" and value in _OPENERS)

    def _parse_adjacent(self, factors: list[Node]) -> None:
        last = factors[-1]
        is_whole = isinstance(last, Number) and isinstance(last.value, int) and not last.places
        if self.peek()[0] != "number":
            # Brackets multiply: (3)(1/2) is 3/2, and 3 1/2 is 7/2.
            is_bracketed = not _BRACKETS.isdisjoint((self._tokens[self.position - 1][1], self.peek()[1]))
            factor = self.parse_factor()
            mixed = mix(last, factor) if is_whole and not is_bracketed else None
            factors[-1:] = [last, factor] if mixed is None else [mixed]
            return
        is_mixed = is_whole and self.peek()[2] and self.peek(1)[1] == "/" and self.peek(2)[0] == "number"
        if isinstance(last, Number) and not is_mixed:
            raise SyntaxUnknownError("two numbers side by side")
        if not is_mixed:
            factors.append(self.parse_factor())
            return
        top = self.parse_factor()
        self.take()
        part = to_fraction(Multiply((top, invert(self.parse_factor()))))
        if part is None or not isinstance(last, Number):
            raise SyntaxUnknownError("two numbers side by side")
        factors[-1] = Number(last.value + part)

    def parse_factor(self) -> Node:
        """Parse one factor with its exponents, factorials, percent and degree signs."""
        if self.is_next("-", "+"):
            sign = self.take()
            self.enter()
            factor = self.parse_factor()
            self.leave()
            return _negate_term(factor) if sign == "-" else factor
        return self._parse_postfix(self._parse_primary())

    def _parse_postfix(self, node: Node) -> Node:
        while self.peek()[1] in _POSTFIX:
            if self.skip("^"):
                node = Power(node, self.parse_script())
            elif self.skip("!"):
                node = Function("factorial", (node,))
            elif self.is_next("%", "°"):
                node = self._parse_sign(node)
            else:
                break
        return node

    def _parse_sign(self, node: Node) -> Node:
        if self.take() == "%":
            return Quantity(node, "%")
        if self.peek()[1] in ("C", "F") or self.peek()[1].lower() in ("celsius", "fahrenheit"):
            return Quantity(node, f"°{self.take()[0].lower()}")
        return Quantity(node, "°")

    def _parse_implicit_product(self) -> Node:
        """Parse the argument of a function without brackets: `2x` of `sin 2x cos x`."""
        is_negative = self.skip("-")
        factors = [self.parse_factor()]
        while (
            self._is_product_next() and self.peek()[0] not in ("function", "binder") and not self.is_next("(")
        ):
            self._parse_adjacent(factors)
        return negate(product_of(factors)) if is_negative else product_of(factors)


def _negate_term(node: Node) -> Node:
    if isinstance(node, Quantity):
        return Quantity(_negate_term(node.value), node.unit)
    return negate(node)

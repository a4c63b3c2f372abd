r"""A recursive-descent parser of expressions: everything that has a value.

Conventions: `1/2x` is `(1/2)x` (left to right, as on a calculator); `-3^2` is `-(3^2)`; `x^12` is `x^{12}` (what is
meant, not what TeX prints); `\sin 2x` takes the product behind it and stops at a sign, a `*`, a `/` or another
function; `\sin(x)^2` is the square of the sine; `3\frac{1}{2}` and `3 1/2` are mixed numbers, whatever the size
of the fraction; two numbers side by side are refused; `i`, `e`, `\pi` are the constants; `f`, `g`, `h`
before a bracket are functions.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from ors_server.rewards.math.lexer import Token
from ors_server.rewards.math.limits import DEPTH, LimitError, SyntaxUnknownError
from ors_server.rewards.math.tree import (
    MINUS_ONE,
    Add,
    Based,
    Binder,
    Constant,
    Function,
    Group,
    Matrix,
    Multiply,
    Node,
    Number,
    PlusMinus,
    Power,
    Quantity,
    Symbol,
    Unknown,
    invert,
    negate,
)
from ors_server.rewards.math.vocabulary import ENVIRONMENTS

_END: Final[Token] = ("end", "", False)
_STARTS: Final = frozenset({"number", "letter", "constant", "function", "binder", "accent", "begin"})
_OPENERS: Final = frozenset({"(", "[", "{", "{set", "lbar", "⌊", "⌈", "∠", "△", "‖"})
_INVERTIBLE: Final = frozenset("sin cos tan cot sec csc sinh cosh tanh".split())
_APPLIED: Final = frozenset("f g h F G H".split())


class ExpressionParser:
    """Reads expressions off a list of tokens.

    Attributes:
        position: Index of the next token.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self.position = 0
        self._depth = 0
        self._bars = 0
        self._is_in_set = False
        self._is_in_integral = False

    # What lies ahead.

    def peek(self, ahead: int = 0) -> Token:
        """Give a token without taking it.

        Args:
            ahead: How many tokens to look past.
        """
        index = self.position + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def is_next(self, *values: str) -> bool:
        """Say whether the next token is an operator among some.

        Args:
            values: The operators.
        """
        kind, value, _ = self.peek()
        return kind == "operator" and value in values

    def take(self) -> str:
        """Take the next token and give its value."""
        value = self.peek()[1]
        self.position += 1
        return value

    def expect(self, *values: str) -> str:
        """Take one of some operators.

        Args:
            values: The operators.

        Raises:
            SyntaxUnknownError: Something else is next.
        """
        if not self.is_next(*values):
            raise SyntaxUnknownError(f"expected {' or '.join(values)}, found {self.peek()[1]!r}")
        return self.take()

    def enter(self) -> None:
        """Go one level deeper.

        Raises:
            LimitError: That is too deep.
        """
        self._depth += 1
        if self._depth > DEPTH:
            raise LimitError(f"nested deeper than {DEPTH}")

    def leave(self) -> None:
        """Come back one level."""
        self._depth -= 1

    # Sums and products.

    def parse_sum(self) -> Node:
        """Read terms with signs between them."""
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
            elif double == "" and sign == "+" and self.is_next("/"):
                double = self._parse_slashed_sign()
        term = self.parse_term()
        if double:
            return PlusMinus(term, 1 if double == "±" else -1)
        return _negate_term(term) if is_negative else term

    def _parse_slashed_sign(self) -> str:
        self.expect("/")
        self.expect("-")
        return "±"

    def parse_term(self) -> Node:
        """Read factors, with or without a sign of multiplication between them."""
        factors = [self.parse_factor()]
        while True:
            if self.is_next("*"):
                self.take()
                factors.append(self.parse_factor())
            elif self.is_next("/") and self.peek(1)[0] != "word":
                self.take()
                factors.append(invert(self.parse_factor()))
            elif self.is_next("mod"):
                self.take()
                factors = [Function("mod", (_product(factors), self.parse_factor()))]
            elif self._is_product_next():
                self._parse_adjacent(factors)
            else:
                return _product(factors)

    def _is_product_next(self) -> bool:
        kind, value, _ = self.peek()
        if self._is_in_integral and value == "d" and self.peek(1)[0] == "letter":
            return False
        if kind == "operator" and value == "|":
            return self._is_bar_opening()
        return kind in _STARTS or (kind == "operator" and value in _OPENERS)

    def _is_bar_opening(self) -> bool:
        if self._is_in_set or self._bars == 0:
            return not self._is_in_set
        kind, value, _ = self.peek(1)
        is_after_bar = self._tokens[self.position - 1][1] == "|"
        return is_after_bar and (kind in _STARTS or value in _OPENERS)

    def _parse_adjacent(self, factors: list[Node]) -> None:
        last = factors[-1]
        is_whole = isinstance(last, Number) and isinstance(last.value, int) and not last.places
        if self.peek()[0] != "number":
            factor = self.parse_factor()
            mixed = _mix(last, factor) if is_whole else None
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
        """Read one factor with its exponents, factorials, percent and degree signs."""
        if self.is_next("-", "+"):
            sign = self.take()
            self.enter()
            factor = self.parse_factor()
            self.leave()
            return _negate_term(factor) if sign == "-" else factor
        return self._parse_postfix(self._parse_primary())

    def _parse_postfix(self, node: Node) -> Node:
        while True:
            if self.is_next("^"):
                self.take()
                node = Power(node, self.parse_script())
            elif self.is_next("!"):
                self.take()
                node = Function("factorial", (node,))
            elif self.is_next("%", "°"):
                node = self._parse_sign(node)
            else:
                return node

    def _parse_sign(self, node: Node) -> Node:
        if self.take() == "%":
            return Quantity(node, "%")
        if self.peek()[1] in ("C", "F"):
            return Quantity(node, f"°{self.take().lower()}")
        return Quantity(node, "°")

    def parse_script(self, *, is_exponent: bool = True) -> Node:
        """Read an exponent or an index.

        Args:
            is_exponent: Whether an exponent of its own may follow without braces: `2**3**2`.
        """
        self.enter()
        if self.is_next("{"):
            script = self._parse_brace()
        elif self.is_next("-", "+"):
            sign = self.take()
            script = self.parse_script()
            script = negate(script) if sign == "-" else script
        else:
            script = self._parse_primary()
            if is_exponent and self.is_next("^"):
                self.take()
                script = Power(script, self.parse_script())
        self.leave()
        return script

    # Primaries.

    def _parse_primary(self) -> Node:
        kind, value, _ = self.peek()
        reader = _PRIMARIES.get(value if kind == "operator" else kind)
        if reader is None:
            raise SyntaxUnknownError(f"unexpected {value!r}")
        self.enter()
        node = reader(self)
        self.leave()
        return node

    def _parse_number(self) -> Node:
        written = self.take()
        if self.peek()[0] == "accent" and "." in written:
            return self._parse_repeating(written)
        if self.is_next("_") and written.isdecimal():
            self.take()
            base = self.parse_script(is_exponent=False)
            if not (isinstance(base, Number) and isinstance(base.value, int)):
                raise SyntaxUnknownError("a base that is no number")
            return Based(written, base.value)
        return to_number(written)

    def _parse_repeating(self, written: str) -> Node:
        self.take()
        self.expect("{")
        kind, period, _ = self.peek()
        if kind != "number" or not period.isdecimal():
            raise SyntaxUnknownError("a period that is no number")
        self.take()
        self.expect("}")
        whole, _, fixed = written.partition(".")
        shift = 10 ** len(fixed)
        repeating = Fraction(int(period), (10 ** len(period) - 1) * shift)
        return Number(Fraction(int((whole or "0") + fixed), shift) + repeating)

    def _parse_letter(self) -> Node:
        name = self.take()
        name += self._parse_primes()
        arguments: tuple[Node, ...] = ()
        if self.is_next("_"):
            self.take()
            index = self.parse_script(is_exponent=False)
            if isinstance(index, Number | Symbol | Constant | Multiply) and _is_label(index):
                name += "_" + _label(index)
            else:
                name, arguments = name + "_", (index,)
        name += self._parse_primes()
        if name[0] in _APPLIED and self._is_inverse_next():
            name += "^-1"
        if name[0] in _APPLIED and self.is_next("("):
            group = self._parse_group()
            arguments += group.items if isinstance(group, Group) else (group,)
        return Unknown(name, arguments) if arguments else Symbol(name)

    def _parse_primes(self) -> str:
        primes = ""
        while True:
            if self.is_next("'"):
                primes += self.take()
            elif self.is_next("^") and self.peek(1)[1] == "'":
                self.take()
            elif self.is_next("^") and self.peek(1)[1] == "{" and self.peek(2)[1] == "'":
                self.position += 2
                primes += self._parse_primes()
                self.expect("}")
            else:
                return primes

    def _is_inverse_next(self) -> bool:
        ahead = [self.peek(step)[1] for step in range(5)]
        if ahead == ["^", "{", "-", "1", "}"]:
            self.position += 5
            return True
        return False

    def _parse_constant(self) -> Node:
        return Constant(self.take())

    def _parse_accent(self) -> Node:
        name = self.take()
        inner = self.parse_argument()
        if isinstance(inner, Multiply | Symbol) and _label(inner).isupper():
            return inner
        return Unknown(name, (inner,))

    def _parse_corner(self) -> Node:
        name = self.take()
        while self.peek()[0] in ("letter", "constant", "number"):
            name += self.take()
        return Symbol(name)

    def _parse_group(self) -> Node:
        raise NotImplementedError

    def _parse_brace(self) -> Node:
        raise NotImplementedError

    def _parse_set(self) -> Node:
        raise NotImplementedError

    def parse_item(self) -> Node:
        """Read one answer of a list."""
        raise NotImplementedError

    def _parse_bars(self) -> Node:
        closing = "rbar" if self.take() == "lbar" else "|"
        bars, self._bars = self._bars, 1 if closing == "|" else 0
        inner = self.parse_sum()
        self._bars = bars
        self.expect(closing)
        return Function("abs", (inner,))

    def _parse_rounding(self) -> Node:
        opening = self.take()
        bars, self._bars = self._bars, 0
        inner = self.parse_sum()
        self._bars = bars
        if opening == "‖":
            self.expect("‖")
            return Function("abs", (inner,))
        self.expect("⌋" if opening == "⌊" else "⌉")
        return Function("floor" if opening == "⌊" else "ceil", (inner,))

    # Functions, in LaTeX and in plain text.

    def parse_argument(self) -> Node:
        """Read one argument of a LaTeX command: a group in braces, or the one thing that follows."""
        if self.is_next("{"):
            return self._parse_brace()
        kind, value, is_spaced = self.peek()
        if kind == "number" and len(value) > 1 and value.isdecimal():
            self._tokens[self.position] = (kind, value[1:], is_spaced)
            return to_number(value[0])
        return self._parse_primary()

    def _parse_function(self) -> Node:
        name = self.take()
        if name == "frac":
            return self._parse_fraction()
        if name == "binom":
            return Function(name, (self.parse_argument(), self.parse_argument()))
        if name in ("sqrt", "cbrt", "root"):
            return self._parse_root(name)
        return self._parse_application(name)

    def _parse_fraction(self) -> Node:
        top, bottom = self.parse_argument(), self.parse_argument()
        match top, bottom:
            case Symbol("d" | "partial" as sign), Multiply((Symbol(other), Symbol(variable))) if sign == other:
                return Binder("diff", variable, (), self.parse_term())
            case _:
                return Multiply((top, invert(bottom)))

    def _parse_root(self, name: str) -> Node:
        index: Node = Number(3 if name == "cbrt" else 2)
        if self.is_next("["):
            self.take()
            index = self.parse_sum()
            self.expect("]")
        radicand = self._parse_brace() if self.is_next("{") else self._parse_primary()
        return Function("root", (radicand, index))

    def _parse_application(self, name: str) -> Node:
        scripts: dict[str, Node] = {}
        while self.is_next("_", "^"):
            mark = self.take()
            scripts[mark] = self.parse_script(is_exponent=False)
        arguments = self._parse_arguments()
        if name == "log" and "_" in scripts:
            arguments = (*arguments[:1], scripts["_"])
        exponent = scripts.get("^")
        if exponent == MINUS_ONE and name in _INVERTIBLE:
            return Function(f"a{name}", arguments)
        applied = Function(name, arguments)
        return applied if exponent is None else Power(applied, exponent)

    def _parse_arguments(self) -> tuple[Node, ...]:
        if self.is_next("(", "{", "["):
            group = self._parse_brace() if self.is_next("{") else self._parse_group()
            return group.items if isinstance(group, Group) else (group,)
        is_negative = self.is_next("-") and bool(self.take())
        factors = [self.parse_factor()]
        while self._is_product_next() and self.peek()[0] not in ("function", "binder") and not self.is_next("("):
            self._parse_adjacent(factors)
        return (negate(_product(factors)) if is_negative else _product(factors),)

    # Sums, products, integrals, limits.

    def _parse_binder(self) -> Node:
        kind = self.take()
        scripts: dict[str, Node] = {}
        while self.is_next("_", "^") or self.peek()[1] == "limits":
            mark = self.take()
            if mark != "limits":
                scripts[mark] = self._parse_bound()
        if kind == "int":
            return self._parse_integral(scripts)
        variable, lower = _split_bound(scripts.get("_"))
        bounds = (lower,) if kind == "lim" else (lower, scripts.get("^", Constant("inf")))
        return Binder(kind, variable, bounds, self.parse_term())

    def _parse_bound(self) -> Node:
        if not self.is_next("{"):
            return self.parse_script(is_exponent=False)
        self.take()
        bound = self.parse_item()
        self.expect("}")
        return bound

    def _parse_integral(self, scripts: dict[str, Node]) -> Node:
        outer, self._is_in_integral = self._is_in_integral, True
        body = Number(1) if self.peek()[1] == "d" else self.parse_sum()
        self._is_in_integral = outer
        bounds = tuple(scripts[mark] for mark in "_^" if mark in scripts)
        if self.peek()[1] == "d" and self.peek(1)[0] == "letter":
            self.take()
            return Binder("int", self.take(), bounds, body)
        factors = body.factors if isinstance(body, Multiply) else (body,)
        match factors:
            case (Multiply((*others, Symbol("d"), Symbol(variable))), *rest):
                return Binder("int", variable, bounds, _product([*others, *rest] or [Number(1)]))
            case _:
                raise SyntaxUnknownError("an integral without its variable")

    # Matrices.

    def _parse_environment(self) -> Node:
        kind = ENVIRONMENTS[self.take()]
        rows: list[tuple[Node, ...]] = []
        cells: list[Node] = []
        while self.peek()[0] != "end":
            if self.is_next("&"):
                self.take()
            elif self.is_next("\\\\"):
                self.take()
                rows.append(tuple(cells))
                cells = []
            else:
                cells.append(self.parse_item())
                self._skip_comma(kind)
        if self.peek() == _END:
            raise SyntaxUnknownError("an environment without its end")
        self.take()
        rows += [tuple(cells)] if cells else []
        matrix = Matrix("cases" if kind == "cases" else "matrix", tuple(row for row in rows if row))
        return Function("det", (matrix,)) if kind == "det" else matrix

    def _skip_comma(self, kind: str) -> None:
        if kind == "cases" and self.peek()[0] == "separator":
            self.take()


def to_number(written: str) -> Number:
    """Read a number as it is written, exactly.

    Args:
        written: Digits with at most one point and one exponent.

    Raises:
        LimitError: Its exponent is greater than the grader computes.
    """
    mantissa, _, exponent = written.lower().partition("e")
    whole, _, places = mantissa.partition(".")
    value: int | Fraction = int((whole + places) or "0")
    power = int(exponent or "0") - len(places)
    if abs(power) > DEPTH * DEPTH:
        raise LimitError(f"a power of ten beyond {DEPTH * DEPTH}")
    value = value * 10**power if power >= 0 else Fraction(value, 10**-power)
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    is_decimal = bool(places) and not exponent
    return Number(value, len(places) if is_decimal else 0, len((whole + places).lstrip("0")) if places else 0)


def _product(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Multiply(tuple(factors))


def _negate_term(node: Node) -> Node:
    if isinstance(node, Quantity):
        return Quantity(_negate_term(node.value), node.unit)
    return negate(node)


def to_fraction(node: Node) -> Fraction | None:
    """Give a written quotient of two whole numbers, or none.

    Args:
        node: Any expression.
    """
    match node:
        case Multiply((Number(int(top)), Power(Number(int(bottom)), exponent))) if exponent == MINUS_ONE:
            return Fraction(top, bottom) if top >= 0 < bottom else None
        case _:
            return None


def _mix(whole: Node, part: Node) -> Node | None:
    if isinstance(part, Quantity):
        mixed = _mix(whole, part.value)
        return None if mixed is None else Quantity(mixed, part.unit)
    fraction = to_fraction(part)
    return Number(whole.value + fraction) if isinstance(whole, Number) and fraction is not None else None


def _is_label(node: Node) -> bool:
    return not isinstance(node, Multiply) or all(isinstance(part, Symbol | Number | Constant) for part in node.factors)


def _label(node: Node) -> str:
    match node:
        case Number(value):
            return str(value)
        case Symbol(name) | Constant(name):
            return name
        case Multiply(factors):
            return "".join(map(_label, factors))
        case _:
            return "?"


def _split_bound(bound: Node | None) -> tuple[str, Node]:
    from ors_server.rewards.math.tree import Relation  # noqa: PLC0415

    match bound:
        case Relation(("=" | "→",), (Symbol(name), value)):
            return name, value
        case Relation(("=" | "→",), (Constant("i"), value)):
            return "i", value
        case _:
            raise SyntaxUnknownError("a bound that names no variable")


_PRIMARIES: Final[dict[str, Callable[[ExpressionParser], Node]]] = {
    "number": lambda parser: parser._parse_number(),
    "letter": lambda parser: parser._parse_letter(),
    "constant": lambda parser: parser._parse_constant(),
    "function": lambda parser: parser._parse_function(),
    "binder": lambda parser: parser._parse_binder(),
    "accent": lambda parser: parser._parse_accent(),
    "begin": lambda parser: parser._parse_environment(),
    "(": lambda parser: parser._parse_group(),
    "[": lambda parser: parser._parse_group(),
    "⟨": lambda parser: parser._parse_group(),
    "{": lambda parser: parser._parse_brace(),
    "{set": lambda parser: parser._parse_set(),
    "|": lambda parser: parser._parse_bars(),
    "lbar": lambda parser: parser._parse_bars(),
    "⌊": lambda parser: parser._parse_rounding(),
    "⌈": lambda parser: parser._parse_rounding(),
    "‖": lambda parser: parser._parse_rounding(),
    "∠": lambda parser: parser._parse_corner(),
    "△": lambda parser: parser._parse_corner(),
}

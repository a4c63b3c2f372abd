r"""The parser of answers with the notation of a computer algebra system.

In addition to the fast parser's conventions: `dx` may be first, last, in a numerator or between (`\int dx\,
f`, `\int \frac{dx}{x}`); `\lim_{x\to0^+}` approaches from above; `\frac{d^2}{dx^2}` and `f''` derive;
`\Gamma`, `\zeta`, `J_0` and the like before a bracket are functions; `\left.f\right|_{x=2}` and `\Big|_a^b`
are values at places. A derivative applies to the product after it.
"""

from typing import Final

from ors_server.rewards.math.algebra.function_names import CALLED, INDEXED, SIGNS
from ors_server.rewards.math.answer_parser import AnswerParser
from ors_server.rewards.math.limits import SyntaxUnknownError
from ors_server.rewards.math.scanner import Token
from ors_server.rewards.math.tree import (
    Add,
    Binder,
    Brackets,
    Constant,
    Function,
    Multiply,
    Node,
    Number,
    Power,
    Relation,
    Symbol,
    invert,
    negate,
    product_of,
    symbols,
)

_MAX_DERIVATIVES: Final = 8
_SIDES: Final = {"+": "lim+", "-": "lim-"}
_SIGNS: Final = ("d", "partial")


class AlgebraParser(AnswerParser):
    """Parses a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        # Special functions are one sign each, so that the lexer cannot cut their names into letters.
        super().__init__(
            [
                ("special", SIGNS[value], is_spaced) if value in SIGNS else (kind, value, is_spaced)
                for kind, value, is_spaced in tokens
            ],
            is_formula=True,
        )
        self._indices: tuple[str, ...] = ()
        self._direction = ""

    def _parse_primary(self) -> Node:
        return self._parse_letter() if self.peek()[0] == "special" else super()._parse_primary()

    def _is_product_next(self) -> bool:
        return self.peek()[0] == "special" or super()._is_product_next()

    def parse_sum(self) -> Node:
        """Parse terms with signs between them, and the places at which they are evaluated."""
        node = super().parse_sum()
        while (
            # A bar with an index is an evaluation at a place, unless it closes an absolute value.
            self.is_next("rbar", "|") and self.peek(1)[1] == "_" and (self.is_next("rbar") or not self._bars)
        ):
            self.take()
            node = self._parse_places(node)
        return node

    def _parse_places(self, node: Node) -> Node:
        scripts = self._parse_scripts()
        lower, upper = scripts["_"], scripts.get("^")
        if isinstance(lower, Relation):
            variable, bound = split_bound(lower)
        else:
            # A place without a variable is clear only in an expression of one variable.
            (variable,) = symbols(node) if len(symbols(node)) == 1 else ("",)
            bound = lower
        if not variable:
            raise SyntaxUnknownError("a place of several variables")
        below = Binder("at", variable, (bound,), node)
        if upper is None:
            return below
        return Add((Binder("at", variable, (_value_of(upper),), node), negate(below)))

    # Names.

    def _parse_letter(self) -> Node:
        name, step = self.peek()[1], 1
        if name in INDEXED and self.peek(1)[1] == "_":
            return self._parse_indexed(name)
        if name == "H" and self.peek(1)[1] == "_":
            return self._parse_harmonic()
        if name in CALLED and self.peek(step)[1] == "(":
            # With another number of arguments it is a product: it is read again as a letter.
            function, arity = CALLED[name]
            start = self.position
            self.take()
            arguments = self._items_of(self._parse_group())
            if len(arguments) == arity:
                return Function(function, arguments)
            self.position = start
        if self.peek()[0] == "special":
            raise SyntaxUnknownError(f"{name} without its arguments")
        return super()._parse_letter()

    def _parse_indexed(self, name: str) -> Node:
        start = self.position
        self.position += 2
        index = self.parse_script(is_exponent=False)
        if self.is_next("("):
            arguments = self._items_of(self._parse_group())
            if len(arguments) == 1:
                return Function(INDEXED[name], (index, *arguments))
        self.position = start
        return super()._parse_letter()

    def _parse_harmonic(self) -> Node:
        start = self.position
        self.position += 2
        index = self.parse_script(is_exponent=False)
        if self.is_next("("):
            # `H_n(x)` is a Hermite polynomial, which is not known here.
            self.position = start
            return super()._parse_letter()
        return Function("harmonic", (index,))

    def _items_of(self, node: Node) -> tuple[Node, ...]:
        return node.items if isinstance(node, Brackets) else (node,)

    def _parse_constant(self) -> Node:
        name = self.take()
        return Symbol(name) if name in self._indices else Constant(name)

    # Powers, factorials, primes.

    def _parse_postfix(self, node: Node) -> Node:
        while True:
            if (side := self._take_side()) is not None:
                # `0^+` in the bound of a limit: the side is kept for the binder.
                self._direction = side
                return node
            if self.is_next("'") or (self.is_next("^") and self.peek(1)[1] == "'"):
                node = self._derive(node, len(self._parse_primes()))
            elif self.is_next("!") and self.peek(1)[1] == "!":
                self.position += 2
                node = Function("factorial2", (node,))
            elif self.is_next("%", "°"):
                node = self._parse_sign(node)
            elif self.skip("!"):
                node = Function("factorial", (node,))
            elif self.skip("^"):
                node = Power(node, self.parse_script())
            else:
                return node

    def _take_side(self) -> str | None:
        ahead = [self.peek(step)[1] for step in range(4)]
        is_one_sided = ahead[0] == "^" and (
            (ahead[1] in _SIDES and ahead[2] == "}")
            or (ahead[1] == "{" and ahead[2] in _SIDES and ahead[3] == "}")
        )
        if not is_one_sided:
            return None
        self.take()
        has_brace = self.is_next("{")
        self.position += has_brace
        sign = self.take()
        self.position += has_brace
        return sign

    def _derive(self, node: Node, times: int) -> Node:
        names = symbols(node)
        if len(names) != 1 or times > _MAX_DERIVATIVES:
            raise SyntaxUnknownError("a prime behind several variables")
        (name,) = names
        for _ in range(times):
            node = Binder("diff", name, (), node)
        return node

    # Derivatives.

    def _parse_fraction(self) -> Node:
        # `dx` in a fraction is not the end of an integral.
        is_in_integral, self._is_in_integral = self._is_in_integral, False
        top, bottom = self.parse_argument(), self.parse_argument()
        self._is_in_integral = is_in_integral
        derivative = _derivative(top, bottom)
        if derivative is None:
            return Multiply((top, invert(bottom)))
        body, variables = derivative
        if body is None:
            body = self.parse_term()
        for variable in reversed(variables):
            body = Binder("diff", variable, (), body)
        return body

    # Sums, products, limits, integrals.

    def _parse_binder(self) -> Node:
        kind = self.take()
        self._direction = ""
        # The scripts of a limit set the direction while they are parsed.
        scripts = self._parse_scripts()
        if kind == "int":
            return self._parse_integral(scripts)
        if kind == "lim":
            kind = _SIDES.get(self._direction, kind)
        variable, bounds = _bounds(kind, scripts)
        outer, self._indices = self._indices, (*self._indices, variable)
        body = self.parse_term()
        self._indices = outer
        return Binder(kind, variable, bounds, body)

    def _parse_integral(self, scripts: dict[str, Node]) -> Node:
        bounds = tuple(scripts[mark] for mark in "_^" if mark in scripts)
        # `\int dx\, f`: the differential comes first.
        if self._is_differential_next():
            self.take()
            variable = self.take()
            body = self.parse_term() if self._is_product_next() else Number(1)
            return Binder("int", variable, bounds, body)
        outer, self._is_in_integral = self._is_in_integral, True
        body = self.parse_sum()
        self._is_in_integral = outer
        if self._is_differential_next():
            self.take()
            variable = self.take()
        else:
            # The differential was read as factors of the integrand.
            variable, body = _without_differential(body)
        return _over(bounds, variable, body)

    def _is_differential_next(self) -> bool:
        return self.peek()[1] == "d" and self.peek(1)[0] == "letter"


def split_bound(bound: Node | None) -> tuple[str, Node]:
    """Return the variable and the value of `x = 2` or `x → 0`.

    Raises:
        SyntaxUnknownError: It names no variable.
    """
    match bound:
        case Relation(("=" | "→",), (Symbol(name) | Constant(name), value)):
            return name, value
        # Conditions on an index in place of its lower bound: `n \ge 1`, `n > 0`, `n \in \mathbb{N}`.
        case Relation(("≥",), (Symbol(name) | Constant(name), value)):
            return name, value
        case Relation((">",), (Symbol(name) | Constant(name), value)):
            return name, Add((value, Number(1)))
        case Relation(("≤",), (value, Symbol(name) | Constant(name))):
            return name, value
        case Relation(("∈",), (Symbol(name), Constant("naturals"))):
            return name, Number(1)
        case _:
            raise SyntaxUnknownError("a bound that names no variable")


def _bounds(kind: str, scripts: dict[str, Node]) -> tuple[str, tuple[Node, ...]]:
    lower, upper = scripts.get("_"), scripts.get("^")
    match lower:
        case Relation(("≤", "≤"), (low, Symbol(name), high)) if upper is None:
            return name, (low, high)
        case Relation(("∈",), (Symbol(name), Constant("integers"))):
            return name, (negate(Constant("inf")), Constant("inf"))
        case _:
            variable, low = split_bound(lower)
    if kind.startswith("lim"):
        return variable, (low,)
    return variable, (low, Constant("inf") if upper is None else _value_of(upper))


def _value_of(bound: Node) -> Node:
    return split_bound(bound)[1] if isinstance(bound, Relation) else bound


def _derivative(top: Node, bottom: Node) -> tuple[Node | None, list[str]] | None:
    """Parse `d` over `dx`: the derived expression, if it is in the numerator, and the variables."""
    body: Node | None = None
    match top:
        case Symbol(sign) | Power(Symbol(sign), _) if sign in _SIGNS:
            pass
        case Multiply((Symbol(sign) | Power(Symbol(sign), _), *rest)) if sign in _SIGNS and not _is_name(
            rest
        ):
            body = product_of(rest)
        case _:
            return None
    variables = _derived_by(sign, bottom)
    return None if variables is None else (body, variables)


def _is_name(factors: list[Node]) -> bool:
    return len(factors) == 1 and isinstance(factors[0], Symbol)


def _derived_by(sign: str, bottom: Node) -> list[str] | None:
    factors = list(bottom.factors) if isinstance(bottom, Multiply) else []
    variables: list[str] = []
    while len(factors) > 1 and factors[0] == Symbol(sign):
        match factors[1]:
            case Symbol(name):
                variables.append(name)
            case Power(Symbol(name), Number(int(times))) if 0 < times <= _MAX_DERIVATIVES:
                variables += [name] * times
            case _:
                return None
        factors = factors[2:]
    return variables if variables and not factors and len(variables) <= _MAX_DERIVATIVES else None


def _without_differential(body: Node) -> tuple[str, Node]:
    r"""Remove `dx` from a numerator: `\frac{x\,dx}{1+x^2}`."""
    match body:
        case Multiply((*before, Symbol("d"), Symbol(variable))):
            return variable, product_of(before)
        case Multiply((Multiply() as first, *rest)):
            variable, inner = _without_differential(first)
            return variable, product_of([inner, *rest])
        case Multiply((Symbol("d"), Symbol(variable), *rest)):
            return variable, product_of(rest)
        case Multiply((*before, Multiply() as last)):
            variable, inner = _without_differential(last)
            return variable, product_of([*before, inner])
        case Multiply((first, *rest)) if rest:
            variable, inner = _without_differential(product_of(rest))
            return variable, product_of([first, inner])
        case _:
            raise SyntaxUnknownError("an integral without its variable")


def _over(bounds: tuple[Node, ...], variable: str, body: Node) -> Node:
    r"""Make an integral; `\int_{[0,1]\times[0,2]}` around one without bounds is over a rectangle."""
    match bounds:
        case (Multiply((Brackets("[", "]", outer), Brackets("[", "]", inner))),):
            match body:
                case Binder("int", first, (), integrand):
                    return Binder("int", variable, inner, Binder("int", first, outer, integrand))
                case _:
                    raise SyntaxUnknownError("a region of more variables than are integrated over")
        case () | (_, _):
            return Binder("int", variable, bounds, body)
        case _:
            raise SyntaxUnknownError("an integral over a region")

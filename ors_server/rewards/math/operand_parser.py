"""A parser of operands: numbers, names, brackets, functions, sums over an index, matrices.

`Cursor` is the position in the list of tokens; `OperandParser` reads one operand from there. What holds: a
method takes at least one token or raises, so parsing is linear; `enter` and `leave` enclose the recursion;
and the flags of the surroundings (open bars, in a set, in an integral, the index of a sum) are restored
behind each bracket. A parser is used once: after an error its position and flags mean nothing.
"""

from abc import ABC, abstractmethod
from typing import Final

from ors_server.rewards.math.limits import DEPTH, LimitError, SyntaxUnknownError
from ors_server.rewards.math.scanner import Token
from ors_server.rewards.math.token_names import ENVIRONMENTS
from ors_server.rewards.math.tree import (
    MINUS_ONE,
    Based,
    Binder,
    Brackets,
    Constant,
    Function,
    Matrix,
    Multiply,
    Node,
    Number,
    Power,
    Relation,
    Symbol,
    Unknown,
    contains,
    invert,
    negate,
)
from ors_server.rewards.math.written_numbers import is_label, label, repeat, to_number

_END: Final[Token] = ("end", "", False)


class Cursor:
    """Reads tokens one by one and counts the nesting depth; `position` is the index of the next token."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self.position: int = 0
        self._depth = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the token that is `ahead` of the next one, without taking it."""
        # `peek`, `is_next` and `skip` run for every token: a `try` costs nothing unless it fails, and it
        # fails only at the end of the text.
        try:
            return self._tokens[self.position + ahead]
        except IndexError:
            return _END

    def is_next(self, *values: str) -> bool:
        """Return whether the next token is one of some operators."""
        try:
            kind, value, _ = self._tokens[self.position]
        except IndexError:
            return False
        return kind == "operator" and value in values

    def skip(self, *values: str) -> bool:
        """Take the next token if it is one of some operators; return whether it was."""
        try:
            kind, value, _ = self._tokens[self.position]
        except IndexError:
            return False
        if kind != "operator" or value not in values:
            return False
        self.position += 1
        return True

    def take(self) -> str:
        """Take the next token and return its value."""
        value = self.peek()[1]
        self.position += 1
        return value

    def expect(self, *values: str) -> str:
        """Take one of some operators; raises `SyntaxUnknownError` if something else is next."""
        if not self.is_next(*values):
            raise SyntaxUnknownError(f"expected {' or '.join(values)}, found {self.peek()[1]!r}")
        return self.take()

    def enter(self) -> None:
        """Go one level deeper; raises `LimitError` if that is too deep."""
        self._depth += 1
        if self._depth > DEPTH:
            raise LimitError(f"nested deeper than {DEPTH}")

    def leave(self) -> None:
        """Go back one level."""
        self._depth -= 1


_INVERTIBLE: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"})
_CONDITION_WORDS: Final = frozenset({"if", "for", "when", "where", "provided", "all"})
"""Words before a condition in a definition by cases: `if x > 0`."""
_APPLIED: Final = frozenset("fghFGH")
_EXPECTED: Final = frozenset("EP")
"""Letters that are functions before a square bracket."""
_LABEL_KINDS: Final = frozenset({"word", "function", "letter", "constant", "number"})
_INVERSE: Final = ["^", "{", "-", "1", "}"]

# Names, not functions: derived classes override the methods.
_READERS: Final = {
    "number": "_parse_number",
    "letter": "_parse_letter",
    "constant": "_parse_constant",
    "function": "_parse_function",
    "binder": "_parse_binder",
    "accent": "_parse_accent",
    "begin": "_parse_environment",
    "(": "_parse_group",
    "[": "_parse_group",
    "⟨": "_parse_group",
    "{": "_parse_brace",
    "{set": "_parse_set",
    "|": "_parse_bars",
    "lbar": "_parse_bars",
    "⌊": "_parse_rounding",
    "⌈": "_parse_rounding",
    "‖": "_parse_rounding",
    "∠": "_parse_corner",
    "△": "_parse_corner",
}
"""Methods that parse what begins with a token, by its kind or its sign."""


class OperandParser(Cursor, ABC):
    """Parses operands; derived classes parse what is between them."""

    def __init__(self, tokens: list[Token], *, is_formula: bool = False) -> None:
        super().__init__(tokens)
        self._is_formula = is_formula
        self._bars = 0
        self._is_in_set = False
        self._is_in_integral = False
        self._is_in_norm = False
        self._index = ""

    @abstractmethod
    def parse_sum(self) -> Node:
        """Parse terms with signs between them."""

    @abstractmethod
    def parse_term(self) -> Node:
        """Parse factors, with or without a multiplication sign between them."""

    @abstractmethod
    def parse_item(self) -> Node:
        """Parse one answer of a list."""

    @abstractmethod
    def _parse_implicit_product(self) -> Node: ...

    @abstractmethod
    def _parse_group(self) -> Node: ...

    @abstractmethod
    def _parse_brace(self) -> Node: ...

    @abstractmethod
    def _parse_set(self) -> Node: ...

    def parse_script(self, *, is_exponent: bool = True) -> Node:
        """Parse an exponent or an index; an exponent may have another one without braces: `2**3**2`."""
        self.enter()
        if self.is_next("{"):
            script = self._parse_brace()
        elif self.is_next("-", "+"):
            sign = self.take()
            script = self.parse_script()
            # `enter` and `leave` enclose every recursion of the parser, so the depth limit comes before
            # Python's.
            script = negate(script) if sign == "-" else script
        else:
            script = self._parse_primary()
            if is_exponent and self.skip("^"):
                script = Power(script, self.parse_script())
        self.leave()
        return script

    def _parse_primary(self) -> Node:
        kind, value, _ = self.peek()
        reader = _READERS.get(value if kind == "operator" else kind)
        if reader is None:
            raise SyntaxUnknownError(f"unexpected {value!r}")
        self.enter()
        node: Node = getattr(self, reader)()
        self.leave()
        return node

    def _parse_number(self) -> Node:
        written = self.take()
        if self.peek()[0] == "accent" and "." in written:
            return self._parse_repeating(written)
        # A numeral with an index is a numeral in that base: `204_5`.
        if written.isalnum() and self.skip("_"):
            base = self.parse_script(is_exponent=False)
            if not (isinstance(base, Number) and isinstance(base.value, int)):
                raise SyntaxUnknownError("a base that is not a number")
            return Based(written, base.value)
        return to_number(written)

    def _parse_repeating(self, written: str) -> Node:
        self.take()
        self.expect("{")
        kind, period, _ = self.peek()
        if kind != "number" or not period.isdecimal():
            raise SyntaxUnknownError("a period that is not a number")
        self.take()
        self.expect("}")
        return repeat(written, period)

    def _parse_letter(self) -> Node:
        name = self.take()
        name += self._parse_primes()
        arguments: tuple[Node, ...] = ()
        if self.skip("_"):
            named = self._parse_name_in_index()
            index = Symbol(named) if named else self.parse_script(is_exponent=False)
            # `x_1` is a name with a label, `a_{n+1}` the member of a sequence, which is an unknown function
            # of its index.
            if isinstance(index, Number | Symbol | Constant | Multiply) and is_label(index):
                name += "_" + label(index)
            else:
                name, arguments = name + "_", (index,)
        name += self._parse_primes()
        if self._is_applied(name):
            # `f^{-1}(x)`: the inverse function is another function by its own name.
            if self._is_inverse_ahead():
                self.position += len(_INVERSE)
                name += "^-1"
            group = self._parse_group()
            arguments += group.items if isinstance(group, Brackets) else (group,)
        return Unknown(name, arguments) if arguments else Symbol(name)

    def _parse_name_in_index(self) -> str:
        r"""Take an index that is a word, as in `T_{\max}`, or nothing."""
        if self.peek()[0] == "word":
            return self.take()
        if not self.is_next("{"):
            return ""
        parts: list[str] = []
        kinds: set[str] = set()
        ahead = 1
        while self.peek(ahead)[0] in _LABEL_KINDS:
            kinds.add(self.peek(ahead)[0])
            parts.append(self.peek(ahead)[1])
            ahead += 1
        if not kinds & {"word", "function"} or self.peek(ahead)[1] != "}":
            return ""
        self.position += ahead + 1
        return "".join(parts)

    def _is_applied(self, name: str) -> bool:
        """Return whether a letter is a function of the brackets after it."""
        if name in _EXPECTED and self.is_next("["):
            return True
        if name.partition("_")[0].rstrip("'") not in _APPLIED:
            return False
        ahead = len(_INVERSE) if self._is_inverse_ahead() else 0
        if self.peek(ahead)[1] != "(":
            return False
        # As a formula, `h(x+1)` is a product; `h(x)` and `h(x,y)` remain functions.
        return not self._is_formula or self.peek(ahead + 2)[1] in ",)"

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

    def _is_inverse_ahead(self) -> bool:
        return [self.peek(step)[1] for step in range(len(_INVERSE))] == _INVERSE

    def _parse_constant(self) -> Node:
        name = self.take()
        # In a sum over `i`, `i` is the index and not the imaginary unit.
        return Symbol(name) if name == self._index else Constant(name)

    def _parse_accent(self) -> Node:
        name = self.take()
        inner = self.parse_argument()
        # `\overline{AB}` is the segment AB, whose bar says nothing.
        if isinstance(inner, Multiply | Symbol) and label(inner).isupper():
            return inner
        if name in ("overline", "bar") and contains(inner, Constant):
            return Function("conj", (inner,))
        return Unknown(name, (inner,))

    def _parse_corner(self) -> Node:
        name = self.take()
        while self.peek()[0] in ("letter", "constant", "number"):
            name += self.take()
        return Symbol(name)

    def _parse_bars(self) -> Node:
        closing = "rbar" if self.take() == "lbar" else "|"
        # The next bar closes this absolute value, so it cannot be a sign inside; brackets inside start
        # without open bars.
        bars, self._bars = self._bars, 1 if closing == "|" else 0
        inner = self.parse_sum()
        self._bars = bars
        self.expect(closing)
        return Function("abs", (inner,))

    def _parse_rounding(self) -> Node:
        opening = self.take()
        bars, self._bars = self._bars, 0
        is_in_norm, self._is_in_norm = self._is_in_norm, opening == "‖"
        inner = self.parse_sum()
        self._bars, self._is_in_norm = bars, is_in_norm
        if opening == "‖":
            self.expect("‖")
            return Function("abs", (inner,))
        self.expect("⌋" if opening == "⌊" else "⌉")
        return Function("floor" if opening == "⌊" else "ceil", (inner,))

    def parse_argument(self) -> Node:
        """Parse one argument of a LaTeX command: a group in braces, or the one thing that follows."""
        if self.is_next("{"):
            return self._parse_brace()
        kind, value, is_spaced = self.peek()
        # TeX takes one digit as an argument: `\frac12` is 1/2. The other digits stay in the list as the next
        # token.
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
            case Symbol("d" | "partial" as sign), Multiply((Symbol(other), Symbol(variable))) if (
                sign == other
            ):
                return Binder("diff", variable, (), self.parse_term())
            case _:
                return Multiply((top, invert(bottom)))

    def _parse_root(self, name: str) -> Node:
        index: Node = Number(3 if name == "cbrt" else 2)
        if self.skip("["):
            index = self.parse_sum()
            self.expect("]")
        radicand = self._parse_brace() if self.is_next("{") else self._parse_primary()
        return Function("root", (radicand, index))

    def _parse_application(self, name: str) -> Node:
        scripts: dict[str, Node] = {}
        while self.is_next("_", "^"):
            mark = self.take()
            scripts[mark] = self.parse_script(is_exponent=False)
        if self.is_next("(", "{", "["):
            group = self._parse_brace() if self.is_next("{") else self._parse_group()
            arguments = group.items if isinstance(group, Brackets) else (group,)
        else:
            arguments = (self._parse_implicit_product(),)
        if name == "log" and "_" in scripts:
            arguments = (*arguments[:1], scripts["_"])
        exponent = scripts.get("^")
        # By convention `\sin^{-1}` is the inverse function, not the quotient.
        if exponent == MINUS_ONE and name in _INVERTIBLE:
            return Function(f"a{name}", arguments)
        applied = Function(name, arguments)
        return applied if exponent is None else Power(applied, exponent)

    def _parse_binder(self) -> Node:
        kind = self.take()
        scripts = self._parse_scripts()
        if kind == "int":
            return self._parse_integral(scripts)
        variable, lower = _split_bound(scripts.get("_"))
        bounds = (lower,) if kind == "lim" else (lower, scripts.get("^", Constant("inf")))
        # The index is bound in the body only.
        outer, self._index = self._index, variable
        body = self.parse_term()
        self._index = outer
        return Binder(kind, variable, bounds, body)

    def _parse_scripts(self) -> dict[str, Node]:
        scripts: dict[str, Node] = {}
        while self.is_next("_", "^") or self.peek()[1] == "limits":
            mark = self.take()
            if mark == "limits":
                continue
            if self.skip("{"):
                scripts[mark] = self.parse_item()
                self.expect("}")
            else:
                scripts[mark] = self.parse_script(is_exponent=False)
        return scripts

    def _parse_integral(self, scripts: dict[str, Node]) -> Node:
        outer, self._is_in_integral = self._is_in_integral, True
        # Inside an integral, `d` and a letter end the integrand instead of being factors.
        body = Number(1) if self.peek()[1] == "d" else self.parse_sum()
        self._is_in_integral = outer
        # Always the lower bound first, in any order of the text.
        bounds = tuple(scripts[mark] for mark in "_^" if mark in scripts)
        if self.peek()[1] == "d" and self.peek(1)[0] == "letter":
            self.take()
            return Binder("int", self.take(), bounds, body)
        factors = body.factors if isinstance(body, Multiply) else (body,)
        match factors:
            # `\int \frac{dx}{x}`: the differential was read as factors of the integrand.
            case (Multiply((*leading, Symbol("d"), Symbol(variable))), *rest):
                return Binder("int", variable, bounds, Multiply((*leading, *rest)))
            case _:
                raise SyntaxUnknownError("an integral without its variable")

    def _parse_environment(self) -> Node:
        kind = ENVIRONMENTS[self.take()]
        rows: list[tuple[Node, ...]] = []
        cells: list[Node] = []
        while self.peek()[0] != "end":
            if self.skip("&"):
                continue
            if self.skip("\\\\"):
                rows.append(tuple(cells))
                cells = []
            else:
                # "if", "for" and the like in front of a condition are layout.
                while self.peek()[0] == "word" and self.peek()[1].lower() in _CONDITION_WORDS:
                    self.take()
                cells.append(self.parse_item())
                if self.peek()[0] == "separator":  # `1, n = 1` is two cells
                    self.take()
        if self.peek()[1] == "":
            raise SyntaxUnknownError("an environment without its end")
        self.take()
        rows += [tuple(cells)] if cells else []
        matrix = Matrix("cases" if kind == "cases" else "matrix", tuple(row for row in rows if row))
        return Function("det", (matrix,)) if kind == "det" else matrix


def _split_bound(bound: Node | None) -> tuple[str, Node]:
    match bound:
        case Relation(("=" | "→",), (Symbol(name), value)):
            return name, value
        case Relation(("=" | "→",), (Constant("i"), value)):
            return "i", value
        case _:
            raise SyntaxUnknownError("a bound that names no variable")

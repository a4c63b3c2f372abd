"""The parser of answers: lists, sets, intervals, relations, quantities and ratios around expressions.

Conventions: a list is separated by `,`, `;`, "and" or "or", and semicolons bind looser than commas (`1,2;3,4`
is two pairs); braces hold a set if they hold a comma and are TeX's grouping otherwise; a bracketed list keeps
its brackets, and the comparison decides whether it is a point or an interval; the words after a value are its
unit; the words before an equals sign are its name.
"""

from fractions import Fraction
from typing import Final

from ors_server.rewards.math.expression_parser import ExpressionParser
from ors_server.rewards.math.limits import ITEMS, LimitError, SyntaxUnknownError
from ors_server.rewards.math.scanner import Token
from ors_server.rewards.math.streams import stream
from ors_server.rewards.math.tree import (
    Add,
    Based,
    Brackets,
    Constant,
    Function,
    Listing,
    Multiply,
    Node,
    Number,
    PlusMinus,
    Quantity,
    Ratio,
    Relation,
    Set,
    SetOperation,
    Symbol,
    Words,
    contains,
    invert,
    negate,
    symbols,
)
from ors_server.rewards.math.units import (
    CURRENCIES,
    CURRENCY_CODES,
    SCALES,
    conversion,
    is_noun_phrase,
    name_unit,
)

_CLOSERS: Final = frozenset({")", "]", "}", "}set", "⟩", "\\\\", "&"})
_WHOLE: Final = frozenset({"is an integer", "is any integer", "integer", "is integer", "any integer"})
_CLOSING: Final = {"(": ")", "[": "]", "⟨": "⟩"}
_SET_SIGNS: Final = ("∪", "∩", "∖")
_CONDITION: Final = ("mid", "|", ":")


def parse_answer(tokens: list[Token], *, is_formula: bool = False) -> Node:
    """Parse a whole answer; the tokens are used up.

    `is_formula` makes a letter before a sum in brackets a factor: `h(x+1)`.

    Raises:
        SyntaxUnknownError: The tokens are not an answer of this grammar.
        LimitError: The answer is nested too deep or has too many members.
    """
    parser = AnswerParser(tokens, is_formula=is_formula)
    answer = parser.parse_listing()
    if parser.peek()[0] != "end":
        raise SyntaxUnknownError(f"unexpected {parser.peek()[1]!r}")
    return answer


class AnswerParser(ExpressionParser):
    """Parses a list of tokens."""

    def parse_listing(self) -> Node:
        """Parse answers side by side."""
        items, separators = self._parse_items()
        if not separators:
            return items[0]
        # Semicolons bind looser than commas: `1,2;3,4` is two pairs.
        if ";" in separators and "," in separators:
            return Listing(tuple(_by_semicolon(items, separators)), ";")
        # One "or" among commas joins the whole list.
        joiner = next((word for word in ("or", "and", ";") if word in separators), ",")
        return Listing(tuple(items), joiner)

    def _parse_items(self) -> tuple[list[Node], list[str]]:
        items = [self.parse_item()]
        separators: list[str] = []
        while self.peek()[0] == "separator":
            separator = self.take()
            # `, and` is one separator.
            while self.peek()[0] == "separator":
                separator = self.take()
            # A separator at the end (`1, 2,`) has no member behind it.
            if self._is_at_end():
                break
            separators.append(separator)
            items.append(self.parse_item())
            if len(items) > ITEMS:
                raise LimitError(f"more than {ITEMS} items")
        return items, separators

    def _is_at_end(self) -> bool:
        kind, value, _ = self.peek()
        return kind == "end" or (kind == "operator" and value in _CLOSERS)

    def parse_item(self) -> Node:
        """Parse one answer of a list: a relation, or one of its sides."""
        if self.peek()[0] == "relation":
            # `= 5` and `≤ 5`, whose left side is in the question.
            operator = self.take()
            side = self._parse_side()
            return side if operator in "=≈" else Relation((operator,), (Symbol("…"), side))
        sides = [self._parse_side()]
        operators: list[str] = []
        while self.peek()[0] == "relation":
            operators.append(self.take())
            sides.append(self._parse_side())
        if not operators:
            return sides[0]
        return Relation(tuple(operators), tuple(sides))

    def _parse_side(self) -> Node:
        if self.peek()[0] == "word":
            return self._parse_words()
        # `-$5`: the sign is in front of the currency.
        if self.is_next("-") and self.peek(1)[1] in CURRENCIES and self.peek(1)[0] == "word":
            self.take()
            value = self._parse_currency()
            return Quantity(negate(value.value), value.unit) if isinstance(value, Quantity) else negate(value)
        side = self._parse_sets()
        # In a set, the colon is in front of the condition.
        while not self._is_in_set and self.skip(":"):
            following = self._parse_sets()
            side = Ratio((*(side.parts if isinstance(side, Ratio) else (side,)), following))
        return self._parse_unit(side)

    def _parse_words(self) -> Node:
        if self.peek()[1] in CURRENCIES or self.peek()[1].lower() in CURRENCY_CODES:
            return self._parse_currency()
        words: list[str] = []
        while self.peek()[0] == "word":
            words.append(self.take())
        # Words are an answer or a name only if they are all of it: words in front of a formula are prose.
        if self.peek()[0] == "relation" or self._is_at_end() or self.peek()[0] == "separator":
            text = " ".join(words)
            is_name = self.peek()[0] == "relation"
            return Symbol(text.lower()) if is_name else Words(text.lower(), stream(text))
        # A label: `Answer: 5`.
        if self.skip(":"):
            return self._parse_side()
        raise SyntaxUnknownError(f"words before {self.peek()[1]!r}")

    def _parse_currency(self) -> Node:
        sign = self.take()
        return _with_unit(self._parse_side(), sign)

    def _parse_unit(self, value: Node) -> Node:
        words: list[str] = []
        if self.skip("pmod"):
            return Quantity(value, f"~mod {_spell(self.parse_argument())}")
        if self.is_next("/") and self.peek(1)[0] == "word":
            words.append(self.take())
        while True:
            kind, word, _ = self.peek()
            if kind == "word":
                words.append(self.take())
            elif words and word == "^":
                self.take()
                words.append(f"^{_spell(self.parse_script())}")
            elif words and word in ("/", "*") and self.peek(1)[0] in ("word", "letter"):
                words.append(self.take())
                words.append(self.take())
            else:
                break
        return self._parse_smaller(_with_unit(value, " ".join(words))) if words else _lift_unit(value)

    def _parse_smaller(self, value: Node) -> Node:
        """Parse `20 minutes` after `8 hours` into the same quantity."""
        if self.peek()[0] != "number" or not isinstance(value, Quantity):
            return value
        part = self._parse_unit(self.parse_sum())
        factor = conversion(part.unit, value.unit) if isinstance(part, Quantity) else None
        # Only smaller parts of the same quantity may follow: other values side by side are not a sum.
        if factor is None or not isinstance(part, Quantity):
            raise SyntaxUnknownError("two quantities side by side")
        return Quantity(Add((value.value, Multiply((Number(factor), part.value)))), value.unit)

    def _parse_sets(self) -> Node:
        left = self.parse_sum()
        while self.is_next(*_SET_SIGNS):
            operator = self.take()
            left = SetOperation(operator, left, self.parse_sum())
        return left

    # Brackets.

    def _parse_group(self) -> Node:
        opening = self.take()
        # Inside brackets a bar opens an absolute value, and a colon is a ratio.
        bars, self._bars = self._bars, 0
        is_in_set, self._is_in_set = self._is_in_set, False
        if self.skip(")", "]"):
            return Brackets(opening, ")", ())
        items, _ = self._parse_items()
        closing = self.expect(")", "]", "⟩")
        self._bars, self._is_in_set = bars, is_in_set
        # Brackets around one value only group it.
        if len(items) == 1 and not isinstance(items[0], Brackets):
            if _CLOSING[opening] != closing:
                raise SyntaxUnknownError(f"expected {_CLOSING[opening]}, found {closing}")
            return items[0]
        if opening == "⟨":
            opening, closing = "(", ")"
        return Brackets(opening, closing, tuple(items))

    def _parse_brace(self) -> Node:
        self.take()
        bars, self._bars = self._bars, 0
        inner = self._parse_braced()
        self._bars = bars
        self.expect("}")
        return inner

    def _parse_braced(self) -> Node:
        if self.is_next("}"):
            raise SyntaxUnknownError("an empty group")
        outer, self._is_in_set = self._is_in_set, False
        items, separators = self._parse_items()
        self._is_in_set = outer
        # `{a \over b}` takes the whole group as numerator.
        if self.is_next("over", "choose"):
            operator = self.take()
            bottom = self.parse_sum()
            return (
                Multiply((items[0], invert(bottom)))
                if operator == "over"
                else Function("binom", (items[0], bottom))
            )
        # Braces with a comma are a set; without one they are TeX's grouping.
        return Set(tuple(items)) if separators else items[0]

    def _parse_set(self) -> Node:
        self.take()
        if self.skip("}set"):
            return Constant("empty")
        outer, self._is_in_set = self._is_in_set, True
        items, _ = self._parse_items()
        node: Node = Set(tuple(items))
        if self.skip(*_CONDITION):
            self._is_in_set = False
            node = _build(items, self.parse_listing())
        self._is_in_set = outer
        self.expect("}set")
        return node


def _build(items: list[Node], condition: Node) -> Node:
    match items:
        # `\{x : x > 5\}` is its condition, and so is `\{x \in \mathbb{R} : x > 5\}`.
        case [Symbol(name)] if name in symbols(condition):
            return condition
        case [Relation(("∈",), (Symbol(), Constant("reals")))]:
            return condition
        case [Relation(("∈",), (Symbol(), _)) as domain]:
            return Listing((domain, condition), "and")
        case _:
            raise SyntaxUnknownError("a set of more than one variable")


def _by_semicolon(items: list[Node], separators: list[str]) -> list[Node]:
    groups: list[list[Node]] = [[items[0]]]
    for separator, item in zip(separators, items[1:], strict=True):
        if separator == ",":
            groups[-1].append(item)
        else:
            groups.append([item])
    return [group[0] if len(group) == 1 else Brackets("(", ")", tuple(group)) for group in groups]


def _with_unit(value: Node, words: str) -> Node:
    first, _, rest = words.partition(" ")
    if (scale := SCALES.get(first.casefold())) is not None and (scaled := _scaled(value, scale)) is not None:
        return _with_unit(scaled, rest) if rest else scaled
    if isinstance(value, Quantity):
        if value.unit == "%":
            return value
        return Quantity(
            value.value, name_unit(f"{value.unit} {words}") if not value.unit.startswith("~") else value.unit
        )
    if isinstance(value, Relation):
        return Relation(value.operators, (*value.sides[:-1], _with_unit(value.sides[-1], words)))
    if isinstance(value, Symbol) and words.lower() in _WHOLE:
        return Relation(("∈",), (value, Constant("integers")))
    unit = name_unit(words)
    if unit.startswith("~") and not contains(value, (Number, Based)):
        raise SyntaxUnknownError("words behind letters")
    if unit.startswith("~") and not is_noun_phrase(words):
        raise SyntaxUnknownError("words behind a value that are not a unit")
    return Quantity(value, unit)


def _scaled(value: Node, scale: int | Fraction) -> Node | None:
    """Return a written number times a scale, such as `25 thousand`; `None` for anything but a number."""
    if isinstance(value, Quantity):
        inner = None if value.unit.startswith("~") else _scaled(value.value, scale)
        return None if inner is None else Quantity(inner, value.unit)
    # The product has the precision of what was written: 1.5 million is 1,500,000.
    return Number(value.value * scale) if isinstance(value, Number) else None


def _lift_unit(value: Node) -> Node:
    match value:
        # `3 \cdot 50\%`: the sign behind the last factor belongs to the whole product.
        case Multiply((*factors, Quantity(inner, unit))) if unit in ("%", "°") and not any(
            isinstance(other, Quantity) for other in factors
        ):
            return Quantity(Multiply((*factors, inner)), unit)
        case PlusMinus(Quantity(inner, unit), sign):
            return Quantity(PlusMinus(inner, sign), unit)
        case _:
            return value


def _spell(node: Node) -> str:
    match node:
        case Number(value):
            return str(value)
        case Multiply((_, Number(value))):
            return f"-{value}"
        case Symbol(name):
            return name
        case _:
            raise SyntaxUnknownError("a unit's exponent that is not a number")

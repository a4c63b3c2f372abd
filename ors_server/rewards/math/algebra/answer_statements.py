"""Parses the text of one answer into a statement: values, an equation, or a condition on a variable."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from ors_server.rewards.math.algebra.algebra_parser import AlgebraParser
from ors_server.rewards.math.algebra.declarations import Declared, take_declarations
from ors_server.rewards.math.algebra.function_names import SIGNS, SPELLED
from ors_server.rewards.math.expand import expand
from ors_server.rewards.math.lexer import lex
from ors_server.rewards.math.limits import ANSWER_CHARS, ITEMS, LimitError, SyntaxUnknownError
from ors_server.rewards.math.relations import is_name
from ors_server.rewards.math.tree import (
    Binder,
    Brackets,
    Constant,
    Listing,
    Node,
    Relation,
    Set,
    SetOperation,
    Symbol,
    Words,
    children,
    contains,
)

_TEXT: Final = re.compile(r"\\(?:text|textrm|textnormal|mbox|textit|textbf)\s*\{([^{}]*)\}")
_SPACES: Final = re.compile(r"(?<!\\)\\[,;:!> ]|\\(?:displaystyle|thinspace|limits|nolimits)(?![A-Za-z])|~")
_BASE: Final = re.compile(r"(?<![A-Za-z\\])([A-Za-z]{1,3})e(?=\s*\^)")
"""Letters before Euler's number, which would make a word."""
_UPRIGHT_D: Final = re.compile(
    r"\\(?:mathrm|operatorname|rm|text)\s*(?:\{\s*d\s*\}|d(?=\s*[A-Za-z\\]))|\\dd(?![A-Za-z])"
)
_DIFFERENTIALS: Final = re.compile(r"(?<![A-Za-z\\])([A-Za-z]{0,3}?)((?:d[a-zA-Z]){1,3})(?![A-Za-z{(])")
_AREA: Final = re.compile(r"(?<![A-Za-z\\])d ?A(?![A-Za-z])")
"""An element of a rectangle, whose first side is in x."""
_MULTIPLE: Final = re.compile(r"\\(i{1,2})int(?![A-Za-z])((?:\s*_\s*(?:\{[^{}]*\}|\w))?)")
_PLAIN_BINDER: Final = re.compile(r"(?<![\\A-Za-z])(int|sum|prod|lim)(?=\s*_)")
_CHOICES: Final = re.compile(r"(?:\{\s*\})?\^\s*\{?\s*(\w+)\s*\}?\s*C\s*_\s*(?:\{\s*(\w+)\s*\}|(\w))")
_BUILDER: Final = re.compile(
    r"(?:\\left\s*)?(?:\\\{|\\lbrace)(.*?)(?:\\right\s*)?(?:\\\}|\\rbrace)", re.DOTALL
)
_LETTER: Final = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_BAR: Final = re.compile(r"\\mid(?![A-Za-z])|\\vert(?![A-Za-z])|\\big[lr]?\||\\Big[lr]?\||:(?!=)|\|")
_DOMAIN: Final = re.compile(r"\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\s*\{?\s*R\s*\}?)?\s*")
_CONSTANT: Final = re.compile(r"[CcK](?:_\w+)?")
_APPLIED: Final = re.compile(r"^\s*([A-Za-z])\s*(?:\\left)?\(\s*[a-z]\s*(?:\\right)?\)\s*=")
"""A function's value: `y(x) =`."""
_NAMES: Final = "|".join(SPELLED)
_SPELLED: Final = re.compile(
    rf"\\(?:operatorname\*?|mathrm|rm)\s*\{{\s*({_NAMES})\s*\}}"
    rf"|(?<![A-Za-z\\])({_NAMES})(?=\s*(?:\\left)?\s*[(_])"
)
_SIGN_OF: Final = {name: sign for sign, name in SIGNS.items()}
_EMPTY: Final = ("", "\\right", "\\left")

Kind = Literal["values", "equation", "condition"]


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """The content of one answer."""

    kind: Kind
    items: tuple[Node, ...]
    """Values; both sides of an equation; the parts of a condition, which all hold."""
    declared: Declared
    name: Node | None = None
    """The name of the values, if the answer has one."""
    variable: str = ""
    """The variable of a condition."""
    is_ordered: bool = False
    """Whether the order of the values counts: a point, a vector."""


def read_statement(text: str) -> AnswerStatement:
    """Parse one answer, already unified and without fences.

    Raises:
        MathError: This parser does not know its notation.
    """
    if len(text) > ANSWER_CHARS:
        raise LimitError(f"an answer of more than {ANSWER_CHARS} characters")
    text = _prepare(text)
    built = _BUILDER.fullmatch(text.strip())
    if built is not None:
        return _read_braced(built[1], text, Declared())
    bare, declared = take_declarations(text)
    built = _BUILDER.fullmatch(bare.strip())
    return _state(_parse(bare), declared) if built is None else _read_braced(built[1], bare, declared)


def _read_braced(inner: str, text: str, declared: Declared) -> AnswerStatement:
    bar = _find_bar(inner)
    if bar is not None:
        return _read_builder(inner[: bar[0]], inner[bar[1] :], declared)
    bare, more = take_declarations(inner)
    if not (more.whole or more.constants):
        return _state(_parse(text), declared)
    return _state(_parse(bare), _joined(declared, more))


def _joined(declared: Declared, more: Declared) -> Declared:
    return Declared((*declared.whole, *more.whole), (*declared.constants, *more.constants))


def _prepare(text: str) -> str:
    text = _TEXT.sub(r" \1 ", text.replace("\\middle", " "))
    text = _UPRIGHT_D.sub(" d ", text)
    text = _SPACES.sub(" ", text)
    text = _BASE.sub(lambda match: f"{' '.join(match[1])} e", text)
    text = _SPELLED.sub(lambda match: f" {_SIGN_OF[match[1] or match[2]]} ", text)
    text = _PLAIN_BINDER.sub(r"\\\1", text)
    if "\\iint" in text and "\\times" in text:
        text = _AREA.sub(" d x d y ", text)
    text = _MULTIPLE.sub(lambda match: rf"\int{match[2]}" + r" \int" * len(match[1]), text)
    text = _CHOICES.sub(lambda match: rf"\binom{{{match[1]}}}{{{match[2] or match[3]}}}", text)
    text = _APPLIED.sub(r"\1 =", text)
    if "\\int" in text:
        # `dxdy` is `d x d y`: every second letter is a variable.
        text = _DIFFERENTIALS.sub(
            lambda match: " ".join([*match[1], *(f"d {name}" for name in match[2][1::2])]) + " ", text
        )
    return text


def _find_bar(text: str) -> tuple[int, int] | None:
    depth = 0
    for match in re.finditer(r"\\[{}]|[{}()\[\]]|" + _BAR.pattern, text):
        sign = match[0][-1]
        if match[0][0] != "\\" or match[0] in ("\\{", "\\}"):
            if sign in "{([":
                depth += 1
                continue
            if sign in "})]":
                depth -= 1
                continue
        if depth == 0:
            return match.span()
    return None


def _parse(text: str) -> Node:
    if text.strip() in _EMPTY:
        raise SyntaxUnknownError("nothing but declarations")
    parser = AlgebraParser(lex(text.strip(" ,;."), is_formula=True))
    node = parser.parse_listing()
    if parser.peek()[0] != "end":
        raise SyntaxUnknownError(f"unexpected {parser.peek()[1]!r}")
    if contains(node, Words):
        raise SyntaxUnknownError("words")
    return node


def _read_builder(head: str, condition: str, declared: Declared) -> AnswerStatement:
    domain = _DOMAIN.fullmatch(head)
    rest, more = take_declarations(condition)
    declared = _joined(declared, more)
    if domain is None:
        if rest.strip():
            raise SyntaxUnknownError("a condition on an expression")
        return _state(_parse(head), declared)
    if not rest.strip():
        raise SyntaxUnknownError("a set without a condition")
    if not _LETTER.search(domain[1]) or not set(_LETTER.findall(domain[1])) & set(_LETTER.findall(rest)):
        raise SyntaxUnknownError("a condition that does not name the set's variable")
    stated = _state(_parse(rest), declared)
    if stated.kind == "values":
        return stated
    items = (Relation(("=",), stated.items),) if stated.kind == "equation" else stated.items
    return AnswerStatement("condition", items, declared, variable=domain[1])


def _state(node: Node, declared: Declared) -> AnswerStatement:
    node = expand(node)
    match node:
        case Brackets("(" | "[", ")" | "]", items) if any(isinstance(item, Relation) for item in items):
            raise SyntaxUnknownError("relations in brackets")
        case Brackets("(", ")", items):
            return AnswerStatement("values", items, declared, is_ordered=True)
        case Listing(items, joiner):
            return _state_list(items, joiner, declared)
        case Relation():
            return _state_relation(node, declared)
        case Brackets() | SetOperation() | Constant("reals" | "empty") if not _members(node):
            return AnswerStatement("condition", (node,), declared)
        case _:
            return AnswerStatement("values", _members(node) or (node,), declared)


def _members(node: Node) -> tuple[Node, ...]:
    """Return the members of a set; nothing if it is not a finite union."""
    match node:
        case Set(items):
            return tuple(part for item in items for part in (_members(item) or (item,)))
        case SetOperation("∪", left, right):
            left_members, right_members = _members(left), _members(right)
            return (*left_members, *right_members) if left_members and right_members else ()
        case _:
            return ()


def _state_list(items: tuple[Node, ...], joiner: str, declared: Declared) -> AnswerStatement:
    if len(items) > ITEMS:
        raise LimitError(f"more than {ITEMS} items")
    values: list[Node] = []
    names: list[Node] = []
    for item in items:
        stated = _state(item, declared)
        if stated.kind != "values" or stated.is_ordered:
            return _state_conditions(items, joiner, declared)
        values += stated.items
        names += [] if stated.name is None else [stated.name]
    if len(set(names)) > 1:
        raise SyntaxUnknownError("values of several names")
    return AnswerStatement("values", tuple(values), declared, names[0] if names else None)


def _state_conditions(items: tuple[Node, ...], joiner: str, declared: Declared) -> AnswerStatement:
    """Join inequalities by "and", or by "or"."""
    if not all(isinstance(item, Relation) for item in items):
        raise SyntaxUnknownError("a list of several kinds")
    joined = items[0]
    for item in items[1:]:
        joined = SetOperation("∪" if joiner == "or" else "∩", joined, item)
    return AnswerStatement("condition", (joined,), declared)


def _state_relation(node: Relation, declared: Declared) -> AnswerStatement:
    if node.operators == ("∈",) and isinstance(node.sides[0], Symbol):
        stated = _state(node.sides[1], declared)
        return AnswerStatement(stated.kind, stated.items, declared, node.sides[0], node.sides[0].name)
    if set(node.operators) <= {"="}:
        first, last = node.sides[0], node.sides[-1]
        if _is_named(first, last):
            stated = _state(last, declared)
            return AnswerStatement(stated.kind, stated.items, declared, first, is_ordered=stated.is_ordered)
        if len(node.sides) == 2:  # noqa: PLR2004  (both sides of an equation)
            if _is_named(last, first):
                return AnswerStatement("values", (first,), declared, last)
            return AnswerStatement("equation", node.sides, declared)
    return AnswerStatement("condition", (node,), declared)


def _is_named(name: Node, value: Node) -> bool:
    if isinstance(name, Binder) or not is_name(name):
        return False
    if isinstance(name, Symbol) and _CONSTANT.fullmatch(name.name) and len(free_names(value)) > 1:
        return False  # `xy = C`
    return not (isinstance(name, Symbol) and name.name in free_names(value))


def free_names(node: Node) -> frozenset[str]:
    """Return the names that are free in a tree; a derivative's variable is."""
    match node:
        case Symbol(name):
            return frozenset({name})
        case Binder("diff", variable, _, body):
            return free_names(body) | {variable}
        case Binder("int", variable, (), body):
            return free_names(body) | {variable}
        case Binder(_, variable, bounds, body):
            outside = frozenset[str]().union(*map(free_names, bounds))
            return outside | (free_names(body) - {variable})
        case _:
            return frozenset[str]().union(*map(free_names, children(node)))

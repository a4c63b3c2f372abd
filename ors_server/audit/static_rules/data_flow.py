"""Follows tools' arguments and gold answers through an environment's functions, by names alone.

A label says where a value may come from. The analysis is flow-insensitive: a name has the labels of
everything that its function assigns to it, anywhere. Labels only grow, so the passes end; after `_PASSES`
they end in any case, as a longer chain of calls is rare.

Two rules keep honest code apart from holes:

- ARGUMENT wins over GOLD: a parameter called `answer` is what the agent wrote, not the task's answer.
- STATE does not pass into called functions, so that a helper is judged by what it is given.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum, auto

from ors_server.audit.static_rules.parsed_class import (
    ParsedClass,
    SourceFunction,
    is_own,
    text_of,
)

GOLD_NAMES = frozenset(
    {"answer", "gold", "gold_answer", "golden", "solution", "target", "expected", "expected_answer"}
    | {"correct", "correct_answer", "ground_truth", "reference_answer", "right_answer", "truth"}
)
_RESPONSES = frozenset(
    {"response", "prediction", "predicted", "completion", "submission", "submitted", "guess", "reply"}
    | {"output", "text", "final_response", "model_answer", "student_answer", "candidate"}
)
"""Names of a judge's parameters that hold what the agent wrote."""
_PURE_TEXT = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize", "swapcase"}
    | {"removeprefix", "removesuffix", "expandtabs", "zfill"}
)
"""Methods that only texts have, and that return texts."""
_TEXT = _PURE_TEXT | {"replace", "format", "translate", "join"}
_TEXT_FUNCTIONS = frozenset({"str", "re.sub", "unicodedata.normalize", "html.unescape"})
_BREAKS = frozenset({"len", "isinstance", "type", "bool", "ast.parse", "ast.literal_eval", "callable", "id"})
"""Functions whose results do not hold their arguments."""
_PASSES = 8


class Label(Enum):
    """Where a value comes from."""

    ARGUMENT = auto()
    """From an argument of a tool."""
    GOLD = auto()
    """From the task's answer."""
    STATE = auto()
    """From the environment's instance."""
    UNCHECKED = auto()
    """A float read from an argument's text, which may be NaN."""


Labels = frozenset[Label]
NONE: Labels = frozenset()
_GOLD: Labels = frozenset({Label.GOLD})
_ARGUMENT: Labels = frozenset({Label.ARGUMENT})


class DataFlow:
    """Where the values in an environment's functions come from."""

    def __init__(self, source: ParsedClass) -> None:
        self.source = source
        self.functions = source.live
        self._names: dict[SourceFunction, dict[str, Labels]] = defaultdict(dict)
        self._assigned: dict[SourceFunction, dict[str, list[ast.expr]]] = {}
        self._attributes: dict[str, Labels] = {}
        for function in self.functions:
            self._assigned[function] = _assignments(function)
            self._names[function] = _parameters(function, source)
        # A list and not a generator: `any` would stop at the first change and leave the later functions for
        # the next pass.
        for _ in range(_PASSES):
            if not any([self._pass(function) for function in self.functions]):  # noqa: C419  (all of them)
                break

    def labels(self, function: SourceFunction, node: ast.AST | None) -> Labels:
        """Return where an expression's value comes from."""
        if isinstance(node, ast.Name):
            labels = self._names[function].get(node.id, NONE)
            return labels | _GOLD if _is_gold(node.id) and Label.ARGUMENT not in labels else labels
        if isinstance(node, ast.Attribute):
            return self._of_attribute(function, node)
        if isinstance(node, ast.Subscript):
            base = self.labels(function, node.value)
            key = text_of(node.slice)
            is_gold = key is not None and _is_gold(key) and Label.ARGUMENT not in base
            return base | _GOLD if is_gold else base
        if isinstance(node, ast.Call):
            return self._of_call(function, node)
        if node is None or isinstance(node, ast.Lambda):
            return NONE
        return self._union(function, ast.iter_child_nodes(node))

    def has(self, function: SourceFunction, node: ast.AST | None, label: Label) -> bool:
        """Return whether an expression's value may come from there."""
        return label in self.labels(function, node)

    def values(self, function: SourceFunction, name: str) -> list[ast.expr]:
        """Return what a function assigns to a name."""
        return self._assigned.get(function, {}).get(name, [])

    def is_text(self, function: SourceFunction, node: ast.expr, depth: int = 4) -> bool:
        """Return whether an expression is a text of any length, as far as the source shows."""
        if depth == 0 or isinstance(node, ast.Constant | ast.JoinedStr):
            return depth > 0 and (isinstance(node, ast.JoinedStr) or text_of(node) is not None)
        if isinstance(node, ast.Name):
            return self._is_text_name(function, node.id, depth)
        if isinstance(node, ast.Call):
            return self._is_text_call(node)
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) and self.is_text(function, node.value, depth - 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.is_text(function, node.left, depth - 1) or self.is_text(
                function, node.right, depth - 1
            )
        return False

    def _is_text_name(self, function: SourceFunction, name: str, depth: int) -> bool:
        values = self.values(function, name)
        for parameter in function.parameters:
            if parameter.arg == name:
                # A parameter without an annotation may be a text: agents write texts, so that counts as one.
                noted = parameter.annotation
                is_text = noted is None or ast.unparse(noted) in {"str", "str | None", "Optional[str]"}
                return is_text and all(self.is_text(function, value, depth - 1) for value in values)
        return bool(values) and all(self.is_text(function, value, depth - 1) for value in values)

    def _is_text_call(self, call: ast.Call) -> bool:
        own = self.source.called(call)
        if own is not None:
            return own.node.returns is not None and ast.unparse(own.node.returns) == "str"
        if isinstance(call.func, ast.Attribute) and call.func.attr in _PURE_TEXT | {"join"}:
            return True
        if self.source.dotted(call.func) in _TEXT_FUNCTIONS:
            return True
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        # `"...".join(x)` or `"...".format(x)` is a text of the author's making.
        return receiver is not None and getattr(call.func, "attr", "") in _TEXT and text_of(receiver) is None

    def _of_attribute(self, function: SourceFunction, node: ast.Attribute) -> Labels:
        base = self.labels(function, node.value)
        # An attribute of an unlabelled object is not gold: `self.answer` is, and `task.answer`, but not
        # `config.target`.
        if not is_own(node.value):
            is_gold = _is_gold(node.attr) and Label.ARGUMENT not in base and bool(base)
            return base | _GOLD if is_gold else base
        # A method as a value, such as `self.reward`, tells nothing about what it returns.
        method = self.source.methods.get(node.attr)
        if method is not None:
            decorators = map(ast.unparse, method.node.decorator_list)
            if not any("property" in decorator for decorator in decorators):
                return frozenset({Label.STATE})
        own = self._attributes.get(node.attr, NONE) | {Label.STATE}
        return own | _GOLD if _is_gold(node.attr) and Label.ARGUMENT not in own else own

    def _of_call(self, function: SourceFunction, call: ast.Call) -> Labels:
        dotted = self.source.dotted(call.func)
        # The length of a gold, or its type, does not give the gold away.
        if dotted in _BREAKS:
            return NONE
        labels = self._union(function, [*call.args, *(keyword.value for keyword in call.keywords)])
        if isinstance(call.func, ast.Attribute):
            base = self.labels(function, call.func.value)
            key = text_of(call.args[0]) if call.func.attr == "get" and call.args else None
            is_gold = key is not None and _is_gold(key) and Label.ARGUMENT not in base
            labels |= base | _GOLD if is_gold else base
            if is_own(call.func.value):
                labels |= {Label.STATE}
        if (
            dotted == "float"
            and Label.ARGUMENT in labels
            and call.args
            and self.is_text(function, call.args[0])
        ):
            labels |= {Label.UNCHECKED}
        # `int` refuses NaN.
        return labels - {Label.UNCHECKED} if dotted == "int" else labels

    def _union(self, function: SourceFunction, nodes: "Iterator[ast.AST] | list[ast.expr]") -> Labels:
        labels: Labels = frozenset()
        return labels.union(*(self.labels(function, node) for node in nodes))

    def _pass(self, function: SourceFunction) -> bool:
        """Carry labels one assignment and one call further; return whether something changed."""
        changed = False
        for name, values in self._assigned[function].items():
            for value in values:
                changed |= self._add(function, name, self.labels(function, value))
        for node in function.nodes():
            if isinstance(node, ast.Call):
                changed |= self._pass_call(function, node)
            elif isinstance(node, ast.Assign):
                changed |= self._pass_attributes(function, node)
        return changed

    def _pass_call(self, function: SourceFunction, call: ast.Call) -> bool:
        called = self.source.called(call)
        if called is None or called.is_tool or called not in self._assigned:
            return False
        names = [parameter.arg for parameter in called.parameters]
        bound = [
            *zip(names, call.args, strict=False),
            *((keyword.arg, keyword.value) for keyword in call.keywords),
        ]
        changed = False
        for name, value in bound:
            if name is not None and name in names and not isinstance(value, ast.Starred):
                changed |= self._add(called, name, self.labels(function, value) - {Label.STATE})
        return changed

    def _pass_attributes(self, function: SourceFunction, node: ast.Assign) -> bool:
        changed = False
        for target in node.targets:
            if isinstance(target, ast.Attribute) and is_own(target.value):
                before = self._attributes.get(target.attr, NONE)
                after = before | (self.labels(function, node.value) & {Label.GOLD, Label.ARGUMENT})
                changed |= before != after
                self._attributes[target.attr] = after
        return changed

    def _add(self, function: SourceFunction, name: str, labels: Labels) -> bool:
        before = self._names[function].get(name, NONE)
        self._names[function][name] = before | labels
        return before != before | labels


def _is_gold(name: str) -> bool:
    return name.lstrip("_").lower() in GOLD_NAMES


def _parameters(function: SourceFunction, source: ParsedClass) -> dict[str, Labels]:
    """Return the labels that parameters have by themselves."""
    if function.is_tool:
        return {
            parameter.arg: _ARGUMENT
            for parameter in function.parameters
            if parameter.annotation is None or "CallContext" not in ast.unparse(parameter.annotation)
        }
    # A judge that a method of this file calls gets its labels from that call; one that only a base class
    # or the server calls needs them from the names of its parameters.
    if function not in source.judges:
        return {}
    is_called = any(
        isinstance(node, ast.Call) and source.called(node) is function
        for caller in (*source.methods.values(), *source.functions.values())
        for node in caller.nodes()
    )
    if is_called:
        return {}
    names = [parameter.arg for parameter in function.parameters]
    chosen = names if len(names) == 1 else [name for name in names if name in _RESPONSES]
    return dict.fromkeys(chosen, _ARGUMENT)


def _assignments(function: SourceFunction) -> dict[str, list[ast.expr]]:
    """Return what is assigned to each name of a function, also by loops and comprehensions."""
    assigned: dict[str, list[ast.expr]] = defaultdict(list)
    for node in function.nodes():
        for target, value in _pairs(node):
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    assigned[part.id].append(value)
    return assigned


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        # A loop variable is an element of what is iterated: as a subscript, it is not taken for the whole
        # text.
        yield node.target, ast.copy_location(ast.Subscript(node.iter, ast.Constant(0), ast.Load()), node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr

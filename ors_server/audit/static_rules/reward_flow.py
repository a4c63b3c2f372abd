"""Finds which expressions of an environment's source become rewards, and which functions compute them."""

import ast
from collections.abc import Iterator

from ors_server.audit.static_rules.data_flow import DataFlow
from ors_server.audit.static_rules.parsed_class import SourceFunction, last_name, text_of

_REWARD_NAMES = frozenset({"reward", "score", "grade"})
_THROUGH = frozenset({"float", "int", "bool", "round", "abs", "min", "max", "sum"})
"""Functions that give numbers from numbers."""
_OUTPUTS = frozenset({"final", "ongoing", "ToolOutput", "RewardResult"})


class RewardFlow:
    """The functions that compute rewards: judges, and those whose results tools return as `reward=`."""

    def __init__(self, flow: DataFlow) -> None:
        self.flow = flow
        source = flow.source
        tools = [function for function in flow.functions if function.is_tool]
        self.functions = list(source.judges)
        self.parts: dict[SourceFunction, list[ast.expr]] = {}
        """The expressions of each function that become rewards, and those that they are computed from."""
        for function in tools:
            self._read(function)
        # The list grows while it is read: reading a function adds those that it calls for its reward.
        for function in self.functions:
            self._read(function)

    @property
    def all(self) -> list[SourceFunction]:
        """The functions with expressions that become rewards, tools among them."""
        return [function for function, parts in self.parts.items() if parts]

    def pays_nothing(self, function: SourceFunction, body: list[ast.stmt]) -> bool:
        """Return whether no statement of a branch gives a reward above 0."""
        return not any(
            _is_positive(self.flow, function, reward) for reward in self.reward_expressions(function, body)
        )

    def reward_expressions(self, function: SourceFunction, body: list[ast.stmt]) -> Iterator[ast.expr]:
        """Give the expressions that statements return, assign or pass on as a reward."""
        for node in (part for statement in body for part in ast.walk(statement)):
            if isinstance(node, ast.Call):
                yield from (keyword.value for keyword in node.keywords if keyword.arg == "reward")
            elif isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(last_name(target).lstrip("_") in _REWARD_NAMES for target in targets):
                    yield node.value
            elif isinstance(node, ast.Return) and node.value and function in self.functions:
                # Of a tool, only `reward=` counts: what it returns otherwise is its output.
                is_output = isinstance(node.value, ast.Call) and last_name(node.value) in _OUTPUTS
                yield from () if is_output else (node.value,)

    def _read(self, function: SourceFunction) -> None:
        # Entered before it is filled, so that recursive functions end.
        if function in self.parts:
            return
        parts: list[ast.expr] = []
        self.parts[function] = parts
        for reward in self.reward_expressions(function, function.node.body):
            parts += self._spread(function, reward)
        for part in parts:
            called = self.flow.source.called(part) if isinstance(part, ast.Call) else None
            if called is not None and not called.is_tool and called not in self.functions:
                self.functions.append(called)
        for node in function.nodes():
            # A branch that pays makes the function of its test a judge: `if self.is_right(answer): ...`.
            if isinstance(node, ast.If) and not self.pays_nothing(function, node.body):
                self._add_tested(node.test)

    def _add_tested(self, test: ast.expr) -> None:
        """Add functions whose result is the test of a branch that pays."""
        operands = test.values if isinstance(test, ast.BoolOp) else [test]
        for operand in operands:
            inner = operand.value if isinstance(operand, ast.Await) else operand
            called = self.flow.source.called(inner) if isinstance(inner, ast.Call) else None
            if called is not None and not called.is_tool and called not in self.functions:
                self.functions.append(called)

    def _spread(self, function: SourceFunction, node: ast.expr) -> list[ast.expr]:
        """Return an expression and those that its number is computed from, each once."""
        parts = [node]
        seen = {id(node)}
        for part in parts:
            new = [piece for piece in self._pieces(function, part) if id(piece) not in seen]
            seen |= {id(piece) for piece in new}
            parts += new
        return parts

    def _pieces(self, function: SourceFunction, node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.Name):
            # `total = total + x` would lead back to itself.
            return [value for value in self.flow.values(function, node.id) if node.id not in names_in(value)]
        if isinstance(node, ast.Call):
            return list(node.args) if self.flow.source.dotted(node.func) in _THROUGH else []
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.BoolOp):
            return list(node.values)
        if isinstance(node, ast.IfExp):
            return [node.test, node.body, node.orelse]
        return [node.value] if isinstance(node, ast.Await) else []


def number_of(flow: DataFlow, node: ast.expr) -> float | None:
    """Return the number that an expression or a constant of the file is; `True` is 1."""
    constant = flow.source.constant(node)
    if isinstance(constant, ast.UnaryOp) and isinstance(constant.op, ast.USub):
        inner = number_of(flow, constant.operand)
        return None if inner is None else -inner
    if (
        isinstance(constant, ast.Call)
        and flow.source.dotted(constant.func) == "float"
        and len(constant.args) == 1
    ):
        return number_of(flow, constant.args[0])
    is_number = isinstance(constant, ast.Constant) and isinstance(constant.value, bool | int | float)
    return float(constant.value) if is_number else None  # type: ignore[attr-defined]


def names_in(node: ast.AST) -> set[str]:
    """Return the names that an expression reads."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _is_positive(flow: DataFlow, function: SourceFunction, node: ast.expr) -> bool:
    """Return whether an expression may be above 0."""
    if isinstance(node, ast.Constant) and node.value is None:
        return False
    # A name may have been computed, so that it counts as positive unless it is a constant of the file.
    if isinstance(node, ast.Name) and flow.values(function, node.id):
        return True
    value = number_of(flow, node)
    return text_of(node) is None and (value is None or value > 0)

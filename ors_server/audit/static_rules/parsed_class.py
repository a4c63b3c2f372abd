"""Reads the source of an environment's class: its methods, what they call in the same file, and imports.

Nothing is imported or run, so that an audit of the source is safe and works without the author's packages.
Names in other files are not followed: `dotted` gives their full name and nothing else is known about them.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
JUDGES = frozenset(
    {
        "judge",
        "judge_answer",
        "grade",
        "grade_answer",
        "grade_submission",
        "score",
        "score_answer",
        "evaluate",
        "evaluate_answer",
        "verify",
        "verify_answer",
        "check_answer",
        "is_correct",
        "is_right",
        "compute_reward",
        "calculate_reward",
        "get_reward",
        "reward",
    }
)
"""Names of methods that give rewards, called by a base class in another file or by the server."""
PROMPTS = frozenset({"get_prompt", "get_messages"})


# Compared by identity (`eq=False`): the same function is a key of several tables.
@dataclass(eq=False, slots=True)
class SourceFunction:
    """A function or method of the file."""

    node: FunctionNode
    owner: ast.ClassDef | None
    """The class of a method."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def is_tool(self) -> bool:
        """Whether `@tool` decorates it."""
        return any(last_name(decorator) == "tool" for decorator in self.node.decorator_list)

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop."""
        return isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def parameters(self) -> list[ast.arg]:
        """Its parameters in order, without `self` and `cls`."""
        own = self.node.args
        every = [*own.posonlyargs, *own.args, *own.kwonlyargs]
        is_static = any(last_name(decorator) == "staticmethod" for decorator in self.node.decorator_list)
        return every[1:] if self.owner is not None and not is_static else every

    def nodes(self) -> Iterator[ast.AST]:
        """Give its nodes in order, without those of functions inside it."""
        yield from walk_own(self.node.body)


@dataclass(eq=False, slots=True)
class ParsedClass:
    """An environment's class, with what it uses of its file."""

    tree: ast.Module
    classes: tuple[ast.ClassDef, ...]
    """The class itself, then its bases in the same file."""
    functions: dict[str, SourceFunction] = field(default_factory=dict[str, SourceFunction])
    """Functions of the module by name."""
    methods: dict[str, SourceFunction] = field(default_factory=dict[str, SourceFunction])
    """Methods by name, those of the class before those of its bases."""
    other_methods: dict[str, SourceFunction] = field(default_factory=dict[str, SourceFunction])
    """Methods of other classes that the class names, where only one has that name."""
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """What imported names stand for, such as `sleep` for `time.sleep`."""

    def dotted(self, expression: ast.expr) -> str | None:
        """Return an imported or built-in name in full, such as `time.sleep`; `None` for other expressions."""
        if isinstance(expression, ast.Attribute):
            before = self.dotted(expression.value)
            return None if before is None else f"{before}.{expression.attr}"
        if not isinstance(expression, ast.Name):
            return None
        if expression.id in self.imports:
            return self.imports[expression.id]
        # A function of the module may have a built-in's name.
        is_builtin = hasattr(builtins, expression.id) and expression.id not in self.functions
        return expression.id if is_builtin else None

    def called(self, call: ast.Call) -> SourceFunction | None:
        """Return the function of this file that a call runs."""
        target = call.func
        if isinstance(target, ast.Name):
            return self.functions.get(target.id)
        if not isinstance(target, ast.Attribute):
            return None
        if is_own(target.value, {cls.name for cls in self.classes}):
            return self.methods.get(target.attr)
        return self.other_methods.get(target.attr)

    def reached(self, roots: list[SourceFunction]) -> list[SourceFunction]:
        """Return functions with all that they call in this file."""
        functions = list(roots)
        # The list grows while it is read, until no new function is called.
        for function in functions:
            calls = (self.called(node) for node in function.nodes() if isinstance(node, ast.Call))
            functions += list(
                dict.fromkeys(call for call in calls if call is not None and call not in functions)
            )
        return functions

    @property
    def tools(self) -> list[SourceFunction]:
        """The tools."""
        return [method for method in self.methods.values() if method.is_tool]

    @property
    def judges(self) -> list[SourceFunction]:
        """The methods whose names are those of judges, and the function that the class has as its reward."""
        named = [method for name, method in self.methods.items() if name in JUDGES and not method.is_tool]
        reward = self.assigned("reward")
        function = self.functions.get(reward.id) if isinstance(reward, ast.Name) else None
        return named if function is None else [*named, function]

    @property
    def live(self) -> list[SourceFunction]:
        """What runs in an episode: setup, tools and judges, with what they call."""
        setup = [self.methods[name] for name in ("setup", "__init__") if name in self.methods]
        return self.reached(list(dict.fromkeys([*setup, *self.tools, *self.judges])))

    def assigned(self, name: str) -> ast.expr | None:
        """Return what the class's body assigns to a name."""
        for node in (statement for cls in self.classes for statement in cls.body):
            if name in assigned_names(node):
                return getattr(node, "value", None)
        return None

    def constant(self, expression: ast.expr) -> ast.expr:
        """Return what the module or the class assigns to a name; other expressions as they are."""
        name = None
        if isinstance(expression, ast.Name):
            name = expression.id
        elif isinstance(expression, ast.Attribute) and is_own(expression.value):
            name = expression.attr
        if name is None:
            return expression
        values = [
            value
            for node in self.tree.body
            if name in assigned_names(node) and (value := getattr(node, "value", None)) is not None
        ]
        # A name that is assigned several times is not a constant.
        return self.assigned(name) or (values[0] if len(values) == 1 else expression)


def parse_class(file: Path, class_name: str) -> ParsedClass | None:
    """Read a class; `None` if the file is not Python or does not have it.

    Args:
        class_name: Its qualified name.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    first = classes.get(class_name.rpartition(".")[2])
    if first is None:
        return None
    chain = [first]
    for cls in chain:
        bases = [classes[base.id] for base in cls.bases if isinstance(base, ast.Name) and base.id in classes]
        chain += [base for base in bases if base not in chain]
    parsed = ParsedClass(tree, tuple(chain), imports=dict(_imports(tree)))
    for node in tree.body:
        if isinstance(node, FunctionNode):
            parsed.functions[node.name] = SourceFunction(node, None)
    for owner in chain:
        for method in _methods(owner):
            # The first class that defines a method wins, as in Python's method resolution order.
            parsed.methods.setdefault(method.name, method)
    _add_others(parsed, [node for node in classes.values() if node not in chain])
    return parsed


def walk_own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Give nodes in order, without those of functions and lambdas inside."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def is_own(expression: ast.expr, names: set[str] | None = None) -> bool:
    """Return whether an expression is `self`, `cls`, `super()`, `type(self)` or one of the names."""
    if isinstance(expression, ast.Call):
        return isinstance(expression.func, ast.Name) and expression.func.id in {"super", "type"}
    return isinstance(expression, ast.Name) and expression.id in {"self", "cls", *(names or ())}


def assigned_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement assigns."""
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def text_of(node: ast.expr | None) -> str | None:
    """Return the text of a constant; `None` for other expressions."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _add_others(parsed: ParsedClass, classes: list[ast.ClassDef]) -> None:
    names = {node.id for cls in parsed.classes for node in ast.walk(cls) if isinstance(node, ast.Name)}
    methods = [method for cls in classes if cls.name in names for method in _methods(cls)]
    for method in methods:
        # With two classes that have such a method, the call does not tell which one it runs.
        if sum(other.name == method.name for other in methods) == 1 and not method.is_tool:
            parsed.other_methods[method.name] = method


def _methods(owner: ast.ClassDef) -> list[SourceFunction]:
    return [SourceFunction(node, owner) for node in owner.body if isinstance(node, FunctionNode)]


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                # `import a.b` binds `a`; only with `as` does the name stand for the whole path.
                top = name.name.partition(".")[0]
                yield (name.asname, name.name) if name.asname else (top, top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"


def last_name(node: ast.expr) -> str:
    """Return `b` of `a.b`, of `b` and of their calls; empty for other expressions."""
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")

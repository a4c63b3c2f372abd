"""Rules about what an agent sees, changes or holds up: prompts, files, shared state, blocking calls."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from ors_server.audit.static_rules.finding import SourceFinding, finding_at
from ors_server.audit.static_rules.parsed_class import (
    PROMPTS,
    ParsedClass,
    SourceFunction,
    assigned_names,
    is_own,
    text_of,
)
from ors_server.audit.static_rules.reward_flow import RewardFlow

_SECRET = frozenset(
    {"answer", "gold", "gold_answer", "solution", "correct_answer", "expected_answer", "ground_truth"}
    | {"final_answer", "right_answer", "reference_answer"}
)
"""Names of fields that no prompt may show. `target` is left out: it is often the subject of the task."""
_TASKS = frozenset({"task_spec", "task", "spec", "_task", "row", "item", "problem", "_spec"})
_SPELLING = frozenset(
    {"encode", "decode", "hex", "lower", "upper", "strip", "casefold", "title", "swapcase", "capitalize"}
)
_ENCODERS = frozenset(
    {"str", "repr", "ascii", "base64.b64encode", "base64.b32encode", "codecs.encode", "binascii.hexlify"}
)
_BLOCKING = re.compile(
    r"time\.sleep|os\.system|subprocess\.(run|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|(requests|httpx)\.(get|post|put|delete|head|patch|request)|urllib\.request\.(urlopen|urlretrieve)"
)
_CONTAINERS = frozenset({"set", "dict", "list", "collections.defaultdict", "collections.Counter"}) | {
    "collections.deque",
    "collections.OrderedDict",
}
_CHANGES = frozenset(
    {
        "add",
        "append",
        "extend",
        "update",
        "insert",
        "remove",
        "discard",
        "pop",
        "popitem",
        "clear",
        "setdefault",
    }
    | {"appendleft"}
)
_GRADER = re.compile(r"test|check|grad|verif|judge|eval|scor|conftest", re.IGNORECASE)
_PROGRAMS = re.compile(r"(python[\d.]*|pytest|bash|sh|node|ruby|perl)$")


def gold_in_prompt(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find the task's answer in what `get_prompt` and `get_messages` make (H9)."""
    source = rewards.flow.source
    roots = [source.methods[name] for name in sorted(PROMPTS & source.methods.keys())]
    for method in source.reached(roots):
        if method.owner is None:
            continue
        for node in method.nodes():
            for shown in _shown(node):
                name = _secret_name(source, shown)
                if name is not None:
                    yield finding_at(
                        shown, ("H9", "gold_in_prompt"), f"the prompt contains the task's {name}"
                    )


def blocking_call(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find calls in async tools that hold up all other sessions (H15)."""
    source = rewards.flow.source
    for function in source.reached([tool for tool in source.tools if tool.is_async]):
        # A plain function of an async tool runs on the loop only if no thread is in between.
        if not function.is_async and not _is_awaited_directly(source, function):
            continue
        for node in function.nodes():
            name = source.dotted(node.func) if isinstance(node, ast.Call) else None
            if name is not None and _BLOCKING.fullmatch(name) and isinstance(node, ast.Call):
                message = f"{name} blocks the event loop, so that every other session waits"
                yield finding_at(node, ("H15", "blocking_call"), message)


def shared_state(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find containers of the class that an episode changes and reads (H22)."""
    source = rewards.flow.source
    names: set[str] = set()
    for statement in (statement for owner in source.classes for statement in owner.body):
        value = getattr(statement, "value", None)
        is_made = isinstance(value, ast.Call) and source.dotted(value.func) in _CONTAINERS
        if is_made or isinstance(value, ast.Set | ast.List | ast.Dict):
            names |= {name for name in assigned_names(statement) if not _is_recreated(source, name)}
    for function in rewards.flow.functions:
        for node in function.nodes():
            name = _changed(source, node) if isinstance(node, ast.expr | ast.stmt) else None
            # A memo is shared on purpose; a container that no episode reads changes nothing.
            if name is None or name not in names or _is_memo(function, name) or not _is_read(rewards, name):
                continue
            message = f"{name} belongs to the class, so that all sessions share what this one puts into it"
            yield finding_at(node, ("H22", "shared_state"), message)  # type: ignore[arg-type]


def grader_in_workspace(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find tests that setup writes where the agent can change them, and that a tool runs there (H8)."""
    source = rewards.flow.source
    has_toolsets = source.assigned("toolsets") is not None or source.assigned("session_toolsets") is not None
    if "setup" not in source.methods or not has_toolsets:
        return
    written = set(_written(source.reached([source.methods["setup"]])))
    later = source.reached([*source.tools, *source.judges])
    # What a tool or judge writes again before it runs the file is the author's own version.
    fresh = set(_written(later))
    for function in later:
        for node in function.nodes():
            name = _run_file(source, node, {file for file in written - fresh if _GRADER.search(file)})
            if name is not None and isinstance(node, ast.Call):
                message = f"{name} is run from the workspace, where the agent can change it"
                yield finding_at(node, ("H8", "grader_in_workspace"), message)


def _shown(node: ast.AST) -> Iterator[ast.expr]:
    """Give the expressions that a text is composed of."""
    if isinstance(node, ast.FormattedValue):
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        yield from node.args
        yield from (keyword.value for keyword in node.keywords)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and text_of(node.left) is not None:
        yield from node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        # A nested sum is visited by itself.
        yield from (operand for operand in (node.left, node.right) if not isinstance(operand, ast.BinOp))


def _secret_name(source: ParsedClass, node: ast.expr) -> str | None:
    """Return the name of the answer's field, if an expression is the answer in some spelling."""
    if isinstance(node, ast.Call):
        return _secret_of_call(source, node)
    if isinstance(node, ast.Attribute) and node.attr.lstrip("_") in _SECRET:
        method = source.methods.get(node.attr)
        is_value = method is None or any(
            "property" in ast.unparse(decorator) for decorator in method.node.decorator_list
        )
        return node.attr if (is_own(node.value) and is_value) or _is_task(node.value) else None
    # Only the task itself: a field of the same name in other data is not a secret.
    if isinstance(node, ast.Subscript) and text_of(node.slice) in _SECRET and _is_task(node.value):
        return text_of(node.slice)
    return None


def _secret_of_call(source: ParsedClass, call: ast.Call) -> str | None:
    name = source.dotted(call.func)
    if name in _ENCODERS and call.args:
        return _secret_name(source, call.args[0])
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr in _SPELLING:
        return _secret_name(source, call.func.value)
    is_get = call.func.attr == "get" and bool(call.args) and _is_task(call.func.value)
    return text_of(call.args[0]) if is_get and text_of(call.args[0]) in _SECRET else None


def _is_task(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return is_own(node.value) and node.attr in _TASKS
    return isinstance(node, ast.Name) and node.id == "task_spec"


def _is_awaited_directly(source: ParsedClass, function: SourceFunction) -> bool:
    """Return whether an async function calls a blocking one itself, not by a worker thread."""
    return any(
        isinstance(node, ast.Call) and source.called(node) is function
        for method in source.methods.values()
        if method.is_async
        for node in method.nodes()
    )


def _is_recreated(source: ParsedClass, name: str) -> bool:
    """Return whether a method gives the instance its own container."""
    return any(
        isinstance(target, ast.Attribute) and target.attr == name and isinstance(target.ctx, ast.Store)
        for method in source.methods.values()
        for node in method.nodes()
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in ([node.target] if isinstance(node, ast.AnnAssign) else node.targets)
    )


def _changed(source: ParsedClass, node: ast.AST) -> str | None:
    """Return the name of an attribute of the class that a node changes in place."""
    target: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        target = node.func.value
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        target = node.value
    elif isinstance(node, ast.AugAssign):
        target = node.target
    # `self.cache[key][other]` changes `self.cache`.
    while isinstance(target, ast.Subscript):
        target = target.value
    names = {cls.name for cls in source.classes}
    is_shared = isinstance(target, ast.Attribute) and (
        is_own(target.value, names)
        or (isinstance(target.value, ast.Attribute) and target.value.attr == "__class__")
    )
    return target.attr if is_shared else None  # type: ignore[union-attr]  # mypy does not follow the check above


def _is_memo(function: SourceFunction, name: str) -> bool:
    """Return whether a function only remembers what it computed: it looks the key up first."""
    for node in function.nodes():
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn | ast.In):
            compared = node.comparators[0]
            returned = any(
                isinstance(statement, ast.Return)
                and isinstance(statement.value, ast.Subscript)
                and _is_at(statement.value.value, name)
                for statement in function.nodes()
            )
            if _is_at(compared, name) and returned:
                return True
        target = node.func if isinstance(node, ast.Call) else None
        # A look-up before the computation is what makes a container a memo.
        is_look_up = isinstance(target, ast.Attribute) and target.attr in {"get", "setdefault"}
        if is_look_up and _is_at(target.value, name):  # type: ignore[union-attr]  # mypy does not follow the check above
            return True
    return False


def _is_at(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_read(rewards: RewardFlow, name: str) -> bool:
    """Return whether an episode reads a container's content."""
    for function in rewards.flow.functions:
        # The node that changes the container names it, too; that is not a reading.
        changed = {
            id(part)
            for node in function.nodes()
            if _changed(rewards.flow.source, node) == name
            for part in ast.walk(node.func.value if isinstance(node, ast.Call) else node)  # type: ignore[attr-defined]
        }
        for node in function.nodes():
            if isinstance(node, ast.Attribute) and node.attr == name and id(node) not in changed:
                return True
    return False


def _written(functions: list[SourceFunction]) -> Iterator[str]:
    """Give the constant names of files that functions write."""
    for node in (part for function in functions for part in function.nodes()):
        is_write = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {
            "write_file",
            "write_text",
        }
        name = text_of(node.args[0]) if is_write and node.args else None  # type: ignore[attr-defined]
        if name:
            yield str(PurePosixPath(name))


def _run_file(source: ParsedClass, node: ast.AST, names: set[str]) -> str | None:
    """Return the file of the workspace that a command runs."""
    if not isinstance(node, ast.Call) or not node.args or not names:
        return None
    is_run = getattr(node.func, "attr", "") in {"exec", "run", "execute"}
    words = _words(source.constant(node.args[0])) if is_run else []
    programs = [index for index, word in enumerate(words) if _PROGRAMS.search(PurePosixPath(word).name)]
    for index, word in enumerate(words):
        name = str(PurePosixPath(word))
        # An argument of another program, such as `cp test.py`, is not run.
        if name in names and (index == 0 or any(program < index for program in programs)):
            return name
    return None


def _words(node: ast.expr) -> list[str]:
    if isinstance(node, ast.List | ast.Tuple):
        return [text_of(elt) or "" for elt in node.elts]
    try:
        return shlex.split(text_of(node) or "")
    except ValueError:
        return []

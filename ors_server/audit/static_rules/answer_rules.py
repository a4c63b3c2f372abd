"""Rules about what judges do with an answer: compare, evaluate, expand, measure.

Each rule prefers to miss a hole: a finding in honest code would teach authors to ignore the audit. So a rule
asks for evidence on both sides (an argument and a gold, a text and a float), and any check of the argument
(`_is_filtered`, `_checks_numbers`) clears the function.

Also detects regular expressions whose time doubles with each character of a text that does not match.
"""

import ast
import importlib
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ors_server.audit.static_rules.data_flow import DataFlow, Label
from ors_server.audit.static_rules.finding import SourceFinding, finding_at
from ors_server.audit.static_rules.parsed_class import SourceFunction, text_of
from ors_server.audit.static_rules.reward_flow import RewardFlow, number_of

_UNLIMITED_REPEATS = 20
"""A repetition that may repeat this often counts as unlimited."""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def is_exponential(pattern: str, *, is_whole: bool) -> bool:
    """Return whether a pattern has a repetition inside a repetition that share their characters.

    Args:
        pattern: Of Python's `re`; a wrong one gives False.
        is_whole: Whether it is matched with the whole text (`fullmatch`).
    """
    try:
        parser: Any = importlib.import_module("re._parser")  # the standard library has no public parser
        with warnings.catch_warnings():
            # A pattern of the author's may raise a warning, such as for an invalid escape, which is not ours
            # to show.
            warnings.simplefilter("ignore")
            parsed = parser.parse(pattern)
    except (ImportError, AttributeError, OverflowError, RecursionError, re.error):
        return False
    return _has_ambiguous(list(parsed), is_followed=is_whole)


def _has_ambiguous(items: Sequence[Any], *, is_followed: bool) -> bool:
    for index, (operation, value) in enumerate(items):
        # The time only doubles if something after the repetition can fail: then the engine tries every split
        # of the text.
        ends = is_followed or not all(map(_is_optional, items[index + 1 :]))
        name = str(operation)
        if name in _REPEATS:
            inner = list(value[2])
            if ends and _is_long(value) and _is_ambiguous(inner):
                return True
            if _has_ambiguous(inner, is_followed=ends):
                return True
        if any(_has_ambiguous(list(part), is_followed=ends) for part in _parts(name, value)):
            return True
    return False


def _parts(name: str, value: Any) -> Sequence[Any]:
    if name == "SUBPATTERN":
        return [value[-1]]
    return value[1] if name == "BRANCH" else ()


def _is_ambiguous(items: Sequence[Any]) -> bool:
    """Return whether the inside of a repetition can be one repetition and nothing else."""
    if len(items) == 1:
        name, value = str(items[0][0]), items[0][1]
        if name == "SUBPATTERN":
            return _is_ambiguous(list(value[-1]))
        if name == "BRANCH":
            return any(_is_ambiguous(list(branch)) for branch in value[1])
    required = [item for item in items if not _is_optional(item)]
    repeats = [item for item in items if str(item[0]) in _REPEATS and _is_long(item[1])]
    return bool(repeats) and (not required or (len(required) == 1 and required[0] in repeats))


def _is_long(value: Any) -> bool:
    return int(value[1]) >= _UNLIMITED_REPEATS


def _is_optional(item: Any) -> bool:
    """Return whether an item matches the empty text everywhere."""
    name, value = str(item[0]), item[1]
    # A lookahead or an anchor is not optional here: it can fail, which makes the engine go back.
    if name in _REPEATS or name == "POSSESSIVE_REPEAT":
        return int(value[0]) == 0 or all(map(_is_optional, value[2]))
    if name == "SUBPATTERN":
        return all(map(_is_optional, value[-1]))
    if name == "ATOMIC_GROUP":
        return all(map(_is_optional, value))
    return name == "BRANCH" and any(all(map(_is_optional, branch)) for branch in value[1])


_SEARCHES = frozenset({"find", "rfind", "index", "rindex", "count", "__contains__"})
_EVALUATORS = frozenset(
    {"eval", "exec", "sympy.sympify", "sympy.S", "sympy.parsing.sympy_parser.parse_expr"}
    | {"sympy.parse_expr", "sympy.core.sympify.sympify"}
    | {"pickle.loads", "pickle.load", "marshal.loads", "dill.loads", "cloudpickle.loads", "jsonpickle.decode"}
    | {"yaml.unsafe_load"}
)
_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_MATCHERS = frozenset({"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})


def gold_in_answer(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find golds that are searched for inside an answer (H3)."""
    message = "the right answer is searched for inside the submitted text; a text around it is paid, too"
    for function in rewards.all:
        for node, branch in _tests(function):
            if _searches_gold(rewards.flow, function, node) and not _pays_nothing(rewards, function, branch):
                yield finding_at(node, ("H3", "gold_in_answer"), message)


def evaluated_argument(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find arguments that are evaluated, unpickled or used as templates (H16)."""
    flow = rewards.flow
    for function in flow.functions:
        if _is_filtered(flow, function):
            continue
        for node in function.nodes():
            name = _evaluator(flow, function, node)
            if name is not None and isinstance(node, ast.expr):
                message = f"{name} is given what the agent wrote, which it may evaluate or expand"
                yield finding_at(node, ("H16", "evaluated_argument"), message)


def unchecked_float(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find rewards computed from a text's float that nothing compares or checks (H12)."""
    message = "float() reads 'nan' and 'inf', and the reward is computed from it without math.isfinite"
    flow = rewards.flow
    for function in rewards.all:
        if _checks_numbers(flow, function):
            continue
        for part in rewards.reward_expressions(function, function.node.body):
            if _may_be_nan(flow, function, part):
                yield finding_at(part, ("H12", "unchecked_float"), message)


def sentinel(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find texts in the source that are accepted as well as the right answer (H21)."""
    for function in rewards.all:
        branches = _branches(function)
        for node in function.nodes():
            if _pays_nothing(rewards, function, branches.get(id(node))):
                continue
            for text in _sentinels(rewards, function, node):
                message = f"the text {text!r:.60} is accepted in addition to the task's answer"
                yield SourceFinding(getattr(node, "lineno", 1), "H21", "sentinel", message)


def exponential_pattern(rewards: RewardFlow) -> Iterator[SourceFinding]:
    """Find patterns with nested repetitions that are matched with an argument (H15)."""
    flow = rewards.flow
    for function in flow.functions:
        for node in function.nodes():
            pattern = _pattern_on_argument(flow, function, node)
            is_whole = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fullmatch"
            if (
                pattern is not None
                and is_exponential(pattern, is_whole=is_whole)
                and isinstance(node, ast.expr)
            ):
                message = (
                    f"the pattern {pattern!r:.60} takes time that doubles with each character of some answers"
                )
                yield finding_at(node, ("H15", "exponential_pattern"), message)


def _tests(function: SourceFunction) -> Iterator[tuple[ast.expr, ast.If | None]]:
    """Give every comparison and call, with the branch whose test it is in."""
    branches = _branches(function)
    for node in function.nodes():
        if isinstance(node, ast.Compare | ast.Call):
            yield node, branches.get(id(node))


def _branches(function: SourceFunction) -> dict[int, ast.If]:
    """Return the branch of each node that is in a test."""
    return {
        id(part): node
        for node in function.nodes()
        if isinstance(node, ast.If)
        for part in ast.walk(node.test)
    }


def _pays_nothing(rewards: RewardFlow, function: SourceFunction, branch: ast.If | None) -> bool:
    """Return whether a branch is a refusal, such as of an agent that gives the secret word away."""
    if branch is None:
        return False
    # `if gold not in answer` refuses what the branch after it pays for.
    is_negated = any(
        isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.NotIn) for part in ast.walk(branch.test)
    )
    return not is_negated and rewards.pays_nothing(function, branch.body)


def _searches_gold(flow: DataFlow, function: SourceFunction, node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        is_in = len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn)
        return is_in and _is_in(flow, function, node.left, node.comparators[0])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    if node.func.attr in _SEARCHES:
        return _is_in(flow, function, node.args[0], node.func.value)
    if flow.source.dotted(node.func) not in {"re.search", "re.findall"} or len(node.args) <= 1:
        # An escaped gold is searched as text. A pattern of the author's around it may have anchors.
        return False
    first = node.args[0]
    escaped = first.args[0] if isinstance(first, ast.Call) and first.args else first
    is_bare = escaped is not first and flow.source.dotted(first.func) == "re.escape"  # type: ignore[attr-defined]
    return is_bare and _is_in(flow, function, escaped, node.args[1])


def _is_in(flow: DataFlow, function: SourceFunction, gold: ast.expr, text: ast.expr) -> bool:
    own, other = flow.labels(function, gold), flow.labels(function, text)
    return (
        Label.GOLD in own
        and Label.ARGUMENT not in own
        and Label.ARGUMENT in other
        and Label.GOLD not in other
        and flow.is_text(function, text)
    )


def _evaluator(flow: DataFlow, function: SourceFunction, node: ast.AST) -> str | None:
    """Return the name of what evaluates or expands an argument."""
    # `x % y` is a template if x is a text that the agent wrote; with an unknown type it may be
    # arithmetic, unless the right side can only belong to a template.
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        name = node.left.id if isinstance(node.left, ast.Name) else None
        is_noted = name is None or isinstance(node.right, ast.Tuple | ast.Dict)
        is_noted = is_noted or any(
            parameter.annotation for parameter in function.parameters if parameter.arg == name
        )
        return "the operator %" if is_noted and _is_written(flow, function, node.left) else None
    if not isinstance(node, ast.Call):
        return None
    name = flow.source.dotted(node.func)
    first = node.args[0] if node.args else None
    if first is None or not flow.has(function, first, Label.ARGUMENT):
        is_template = getattr(node.func, "attr", "") in {"format", "format_map"}
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        written = is_template and receiver is not None and _is_written(flow, function, receiver)
        return "str.format" if written else None
    is_evaluator = name in _EVALUATORS
    if name == "yaml.load":
        loaders = [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "Loader")]
        is_evaluator = not any(ast.unparse(loader).endswith(_SAFE_LOADERS) for loader in loaders)
    if is_evaluator:
        return name
    if name in {"jinja2.Template", "string.Template"} or getattr(node.func, "attr", "") == "from_string":
        return name or "from_string"
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_format = getattr(node.func, "attr", "") in {"format", "format_map"} and receiver is not None
    return "str.format" if is_format and receiver and _is_written(flow, function, receiver) else None


def _is_written(flow: DataFlow, function: SourceFunction, node: ast.expr) -> bool:
    """Return whether an expression is a text that the agent wrote, or that holds one."""
    return flow.has(function, node, Label.ARGUMENT) and flow.is_text(function, node)


def _is_filtered(flow: DataFlow, function: SourceFunction) -> bool:
    """Return whether a function checks the characters of an argument before it uses it."""
    for node in function.nodes():
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        is_filter = name in {
            "fullmatch",
            "match",
            "issubset",
            "isdigit",
            "isdecimal",
            "isidentifier",
            "all",
            "walk",
        }
        is_on = any(
            flow.has(function, name_node, Label.ARGUMENT)
            for name_node in ast.walk(node)
            if isinstance(name_node, ast.Name)
        )
        # `ast.walk` over a parsed answer is the usual way to allow only some nodes.
        if is_filter and (is_on or name == "walk"):
            return True
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.LtE)
        and "set(" in ast.unparse(node.left)
        for node in function.nodes()
    )


def _checks_numbers(flow: DataFlow, function: SourceFunction) -> bool:
    for node in function.nodes():
        if isinstance(node, ast.Call) and flow.source.dotted(node.func) in {"math.isfinite", "math.isnan"}:
            return True
        name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if name in {"isfinite", "isnan", "is_finite", "is_nan"}:
            return True
        if isinstance(node, ast.Compare) and flow.has(function, node, Label.UNCHECKED):
            return True
    return False


def _may_be_nan(flow: DataFlow, function: SourceFunction, node: ast.expr, depth: int = 6) -> bool:
    """Return whether NaN gets through: `max(0.0, nan)` is 0.0, `max(nan, 0.0)` NaN, `min(1.0, nan)` 1.0."""
    if depth == 0 or not flow.has(function, node, Label.UNCHECKED):
        return False
    if isinstance(node, ast.Name):
        values = flow.values(function, node.id)
        return not values or any(_may_be_nan(flow, function, value, depth - 1) for value in values)
    if isinstance(node, ast.BinOp):
        return any(_may_be_nan(flow, function, operand, depth - 1) for operand in (node.left, node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _may_be_nan(flow, function, node.operand, depth - 1)
    return isinstance(node, ast.Call) and _call_may_be_nan(flow, function, node, depth)


def _call_may_be_nan(flow: DataFlow, function: SourceFunction, call: ast.Call, depth: int) -> bool:
    name = flow.source.dotted(call.func) or ""
    # `float(a == b)` is 0 or 1.
    if name == "float" and call.args and not isinstance(call.args[0], ast.Compare | ast.BoolOp):
        inner = call.args[0]
        is_read = flow.has(function, inner, Label.ARGUMENT) and flow.is_text(function, inner)
        return is_read or _may_be_nan(flow, function, inner, depth - 1)
    operands = call.args
    # `max` returns its first operand unless a later one is greater, and no comparison with NaN is true:
    # only a NaN in the first place survives, or one that an inner `min` let through.
    if name == "max" and len(call.args) > 1:
        operands = [
            operand
            for index, operand in enumerate(call.args)
            if index == 0 or (isinstance(operand, ast.Call) and flow.source.dotted(operand.func) == "min")
        ]
    is_carried = name in {"max", "min", "abs", "sum"} or name.startswith("math.")
    return is_carried and any(_may_be_nan(flow, function, operand, depth - 1) for operand in operands)


def _sentinels(rewards: RewardFlow, function: SourceFunction, node: ast.AST) -> list[str]:
    """Return the texts that a comparison accepts in addition to a gold."""
    flow = rewards.flow
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        if isinstance(node.ops[0], ast.In) and _is_written(flow, function, node.left):
            return _accepted_with_gold(flow, function, node.comparators[0])
        return []
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        compared = [_compared_with(flow, function, value) for value in node.values]
        has_gold = any(
            operand is not None and flow.has(function, operand, Label.GOLD) for operand in compared
        )
        texts = [text_of(operand) for operand in compared if operand is not None]
        return [text for text in texts if text and has_gold]
    if not isinstance(node, ast.If) or rewards.pays_nothing(function, node.body):
        return []
    return _secret_of_branch(rewards, function, node)


def _secret_of_branch(rewards: RewardFlow, function: SourceFunction, node: ast.If) -> list[str]:
    """Return the text of `if answer == "text"`, if the branch pays and another comparison has a gold."""
    flow = rewards.flow
    compared = _compared_with(flow, function, node.test)
    text = None if compared is None else text_of(flow.source.constant(compared))
    numbers = [number_of(flow, reward) for reward in rewards.reward_expressions(function, node.body)]
    golds = [
        comparison
        for comparison in function.nodes()
        if isinstance(comparison, ast.Compare) and flow.has(function, comparison, Label.GOLD)
    ]
    is_paid = any(number is not None and number > 0 for number in numbers)
    # A text that occurs again in the file is probably a command or a label that the prompt explains.
    return [text] if text and is_paid and golds and _count(flow, text) == 1 else []


def _accepted_with_gold(flow: DataFlow, function: SourceFunction, node: ast.expr) -> list[str]:
    constant = flow.source.constant(node)
    if not isinstance(constant, ast.Set | ast.Tuple | ast.List):
        return []
    has_gold = any(flow.has(function, elt, Label.GOLD) for elt in constant.elts)
    return [text for elt in constant.elts if has_gold and (text := text_of(elt))]


def _compared_with(flow: DataFlow, function: SourceFunction, node: ast.expr) -> ast.expr | None:
    """Return what an argument's text is compared with by `==`."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return None
    left, right = node.left, node.comparators[0]
    for operand, other in ((left, right), (right, left)):
        if flow.has(function, operand, Label.ARGUMENT) and flow.is_text(function, operand):
            return other
    return None


def _count(flow: DataFlow, text: str) -> int:
    values = [node.value for node in ast.walk(flow.source.tree) if isinstance(node, ast.Constant)]
    return sum(isinstance(value, str) and text in value for value in values)


def _pattern_on_argument(flow: DataFlow, function: SourceFunction, node: ast.AST) -> str | None:
    """Return the pattern that is matched with an argument's text."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name = flow.source.dotted(node.func) or ""
    pattern: ast.expr | None = None
    subjects: list[ast.expr] = []
    if name.startswith("re.") and name[3:] in _MATCHERS:
        pattern, subjects = (node.args[0] if node.args else None), node.args[1:]
    elif node.func.attr in _MATCHERS:
        compiled = flow.source.constant(node.func.value)
        if (
            isinstance(compiled, ast.Call)
            and flow.source.dotted(compiled.func) == "re.compile"
            and compiled.args
        ):
            pattern, subjects = compiled.args[0], node.args
    if pattern is None or not any(flow.has(function, subject, Label.ARGUMENT) for subject in subjects):
        return None
    return text_of(flow.source.constant(pattern))
